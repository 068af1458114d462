"""Which rows to audit, so that a metric becomes certain with as few annotations as possible.

A corrected metric θ moves with the propensities of the labels that it weighs. To first order

    Var(θ) = Σ_j s_j² v_j / K_j + Σ_g S_g² v_g / K_g,    s_j = ∂θ/∂ln p_j,    v = (1 − p) / p

where K_j counts the true labels j audited so far. The first sum is what labels err on their own,
the second what labels of similar propensity (a group g, S_g = Σ_{j∈g} s_j) err together, since
their estimates are pooled. Auditing a row adds to K_j and to K_g the chance that the row truly has
label j, which the predictions tell. The plan takes the rows that lower Var(θ) most, in batches,
updating K in between.

Rows are chosen by *predictions* and never by their observed labels: masks are independent of the
former (if the model was trained on other rows), while rows chosen because a label was seen there
would always have kept it, and the audit would be biased.

Do not expect much: a blind audit meets labels as often as they occur, which for P@k is nearly the
best mix already. The plan promises 3 to 6 % in our simulation (`benchmarks/propensity_estimation.py
plan`), and no reliable gain over blind rows was measured there; at some budgets it did worse. What
it does tell is which labels the uncertainty comes from. When in doubt, audit blindly.
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
GROUPS = 8
CURVE_WORTH, GUESS_WORTH = 20.0, 2.0
"""True labels that the curve is worth for one label, and a mere guess for a group of labels."""


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """Rows to annotate completely, the most useful first.

    rows     row numbers, as many as the budget allows
    before   standard error of the metric due to unknown propensities, as things stand
    after    the same expected after the planned audit
    uniform  the same expected after auditing as many rows chosen blindly
    labels   each label's share in the uncertainty as things stand, (L,)
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
    group = _groups(p)
    chance = _chances(top, matrix, p)
    chance = sp.csr_array(sp.hstack([chance, chance @ group]))
    worth, known = _uncertainty(propensity, p, slope, group)
    rows, then = _greedy(chance, worth, known, budget)
    blind = known + budget * np.asarray(chance.mean(axis=0)).ravel()
    before, after, uniform = (float(np.sqrt((worth / k).sum())) for k in (known, then, blind))
    return AuditPlan(rows, before, after, uniform, _shares(worth / known, group))


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


def _groups(p: Floats) -> sp.csr_array:
    """Labels × groups: labels in order of their propensity, cut into equal parts."""
    rank = np.empty(p.size, dtype=np.int64)
    rank[np.argsort(p, kind="stable")] = np.arange(p.size)
    count = min(GROUPS, p.size)
    entries = (np.ones(p.size), (np.arange(p.size), rank * count // p.size))
    return sp.csr_array(entries, shape=(p.size, count))


def _uncertainty(
    propensity: Any, p: Floats, slope: Floats, group: sp.csr_array
) -> tuple[Floats, Floats]:
    """s² v and K of every label, then of every group."""
    odds, size = (1 - p) / p, group.sum(axis=0)
    together, v_group = slope @ group, (odds @ group) / size
    worth = np.r_[slope**2 * odds, together**2 * v_group]
    if not isinstance(propensity, PropensityEstimate):
        return worth, np.r_[np.full(p.size, CURVE_WORTH), np.full(size.size, GUESS_WORTH)]
    logs = np.log(propensity.draw(seed=0, size=200))
    common = (logs @ group) / size
    variance = np.r_[(logs - common @ group.T).var(axis=0), common.var(axis=0)]
    return worth, np.maximum(np.r_[odds, v_group] / np.maximum(variance, 1e-9), 1.0)


def _shares(variance: Floats, group: sp.csr_array) -> Floats:
    """Each label's part of the variance; a group's is divided evenly among its labels."""
    own, common = variance[: group.shape[0]], variance[group.shape[0] :]
    shares = own + group @ (common / group.sum(axis=0))
    return np.asarray(shares / max(shares.sum(), np.finfo(np.float64).tiny))


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
