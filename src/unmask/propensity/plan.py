"""Which rows to audit, so that a metric becomes certain with as few annotations as possible.

A corrected metric θ moves with the propensities of the labels that it weighs. To first order

    Var(θ) = Σ_j s_j² Var(ln p_j),    s_j = ∂θ/∂ln p_j,    Var(ln p_j) ≈ (1 − p_j) / (p_j K_j)

where K_j counts the true labels j audited so far. Auditing a row adds to K_j the chance that the
row truly has label j, which the predictions tell. The plan takes the rows that lower Var(θ) most,
in batches, updating K in between.

Rows are chosen by *predictions* and never by their observed labels: masks are independent of the
former (if the model was trained on other rows), while rows chosen because a label was seen there
would always have kept it, and the audit would be biased. This is a heuristic: it ignores that
labels also inform each other along the frequency curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask import _checks
from unmask.predictions import TopK
from unmask.propensity.estimate import PropensityEstimate

Floats = NDArray[np.float64]

BATCHES = 25
CURVE_WORTH = 20.0
"""True labels that the curve is worth for a label, if nothing else is known of its propensity."""


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """Rows to annotate completely, the most useful first.

    rows     row numbers, as many as the budget allows
    before   standard error of the metric due to unknown propensities, as things stand
    after    the same expected after the planned audit
    uniform  the same expected after auditing as many rows chosen blindly
    labels   each label's share in the uncertainty as things stand, (L,)

    The three errors leave out what all labels have in common (the curve): compare them with one
    another, not with an interval.
    """

    rows: NDArray[np.int64]
    before: float
    after: float
    uniform: float
    labels: Floats


def audit_plan(
    top: TopK,
    labels: Any,
    propensity: Any,
    *,
    budget: int,
    metric: str = "precision",
    k: int | None = None,
) -> AuditPlan:
    """The `budget` rows whose complete labels make `metric` at k most certain.

    `top` are the predictions of the rows that can be audited, `labels` their observed labels, and
    `propensity` the best guess so far (an estimate says itself how sure it is). All places of `top`
    tell where labels may be found; the metric counts the first k (default: all).

    >>> top = TopK([[0], [0], [1], [1]], [[0.9], [0.8], [0.9], [0.8]])
    >>> plan = audit_plan(top, [[1, 0], [1, 0], [0, 0], [0, 1]], [0.9, 0.2], budget=2)
    >>> plan.rows, plan.labels.round(2)
    (array([2, 3]), array([0.01, 0.99]))
    """
    matrix = _checks.labels(labels)
    _checks.same_rows(top.labels, matrix, "predictions", "labels")
    p = _checks.propensity(propensity, matrix.shape[1])
    budget = min(_checks.count(budget, "budget"), matrix.shape[0])
    places = top.k if k is None else min(_checks.count(k, "k"), top.k)
    slope = METRICS[_checks.one_of(metric, METRICS, "metric")](top, matrix, p, places)
    chance = _chances(top, matrix, p)
    worth, known = slope**2 * (1 - p) / p, _known(propensity, p)
    rows, then = _greedy(chance, worth, known, budget)
    blind = known + budget * np.asarray(chance.mean(axis=0)).ravel()
    before = float((worth / known).sum())
    return AuditPlan(
        rows,
        float(np.sqrt(before)),
        float(np.sqrt((worth / then).sum())),
        float(np.sqrt((worth / blind).sum())),
        worth / known / before if before > 0 else np.zeros_like(worth),
    )


def _precision_slope(top: TopK, labels: sp.csr_array, p: Floats, k: int) -> Floats:
    """∂/∂ln p_j of (1/nk) Σ hits/p: each label's share in the estimate, negated."""
    hits = np.bincount(_hits(top, labels, k).indices, minlength=p.size)
    return np.asarray(-hits / p / (k * labels.shape[0]))


def _recall_slope(top: TopK, labels: sp.csr_array, p: Floats, k: int) -> Floats:
    """The same for the weighted recall mean of A/B, A = Σ_{hits} 1/p, B = Σ_{observed} 1/p."""
    hit = _hits(top, labels, k)
    a, b = hit @ (1 / p), labels @ (1 / p)
    safe = np.maximum(b, 1)
    gained = np.asarray(hit.T @ (1 / safe)).ravel()
    shared = np.asarray(labels.T @ (a / safe**2)).ravel()
    return np.asarray((shared - gained) / p / labels.shape[0])


def _hits(top: TopK, labels: sp.csr_array, k: int) -> sp.csr_array:
    first = _as_matrix(top.labels[:, :k], np.ones(k), labels.shape[1])
    return sp.csr_array(labels.multiply(first))


def _as_matrix(named: NDArray[np.int32], of_place: Floats, n_labels: int) -> sp.csr_array:
    """Rows × labels with a value per place."""
    row, place = np.nonzero(named >= 0)
    entries = (of_place[place], (row, named[row, place]))
    return sp.csr_array(sp.coo_array(entries, shape=(named.shape[0], n_labels)))


def _chances(top: TopK, labels: sp.csr_array, p: Floats) -> sp.csr_array:
    """How likely each prediction is to be true, from the corrected hit rate of its place."""
    of_place = np.zeros(top.k)
    for place in range(top.k):
        alone = _as_matrix(top.labels[:, [place]], np.ones(1), labels.shape[1])
        of_place[place] = (labels.multiply(alone) @ (1 / p)).mean()
    return _as_matrix(top.labels, np.clip(of_place, 0.01, 1.0), labels.shape[1])


def _known(propensity: Any, p: Floats) -> Floats:
    """The number of audited labels that what is known of each p_j is worth."""
    if not isinstance(propensity, PropensityEstimate):
        return np.full(p.size, CURVE_WORTH)
    variance = propensity.draw(seed=0, size=200).var(axis=0)
    return np.asarray(np.maximum(p * (1 - p) / np.maximum(variance, 1e-9) - 1, 1.0))


def _greedy(
    chance: sp.csr_array, worth: Floats, known: Floats, budget: int
) -> tuple[NDArray[np.int64], Floats]:
    """Rows by what they take off Σ worth/known, batch by batch; and `known` afterwards."""
    known, left = known.copy(), np.ones(chance.shape[0], dtype=bool)
    batches = []
    for size in np.diff(np.linspace(0, budget, min(BATCHES, budget) + 1).astype(int)):
        gain = np.where(left, chance @ (worth / known - worth / (known + 1)), -np.inf)
        batch = np.argsort(-gain, kind="stable")[:size]
        batches.append(batch)
        left[batch] = False
        known += np.asarray(chance[batch].sum(axis=0)).ravel()
    return np.concatenate(batches), known


METRICS = {"precision": _precision_slope, "recall": _recall_slope}
