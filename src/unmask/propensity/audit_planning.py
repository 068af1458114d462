"""Which rows to audit, so that a metric becomes certain with as few annotations as possible.

These rows are chosen on purpose, to make *propensities* certain. To *measure* a metric, whatever
hid the labels, a random sample with known probabilities is needed: `unmask.audit.plan`.

A corrected metric θ moves with the propensities of the labels that it weighs. To first order

    Var(θ) = Σ_j s_j² v_j / K_j + Σ_g S_g² v_g / K_g,    s_j = ∂θ/∂ln p_j,    v = (1 − p) / p

where K_j counts the true labels j audited so far. The first sum is what labels err on their own,
the second what labels of similar propensity (a group g, S_g = Σ_{j∈g} s_j) err together, since
their estimates are pooled. Auditing a row adds to K_j and to K_g the chance that the row truly has
label j, read off the scores of its predictions: how often predictions with such a score are
observed, over p_j. The plan takes the rows that lower Var(θ) most for their cost, in batches,
updating K in between.

*What is gained.* A blind audit meets labels as often as they occur, which is not far from the best
*mix* of labels for P@k and R@k. What pays most are rows with many true labels, if a row costs the
same whatever is in it: K grows faster. In our simulation (`unmask reproduce audit-plan`) the part
of the standard error of P@5 that is due to the propensities falls by the factor 2.0 to 2.4 against
blind rows, that of R@5 by 1.8, and by 1.4 where only labels cost something (`label_cost`), so that
the mix alone can gain. `after` is more cautious than that.

*What is allowed.* Rows are chosen by predictions and never by their own observed labels (only
totals over all rows enter, in which one row counts for little). If a label
is kept or lost independently of everything else, whatever else rows are chosen by (by a model
trained on other rows) leaves kept and lost labels as they are; rows chosen because a label was
*observed* there would always have kept it, and the audit would find p_j = 1. If keeping depends on
the number of labels, chosen rows are not representative: audit some blind rows as well, and ask
`diagnosis.diagnose`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from unmask import _validation
from unmask._settings import function
from unmask._typing import Floats, Ints, LabelsLike, PropensityLike
from unmask.predictions import TopK
from unmask.propensity import calibration
from unmask.propensity.estimate import PropensityEstimate

BATCHES = 25
LOWEST = 1e-50
"""Third powers of 1/p are summed."""
GROUPS = 8
CURVE_EQUIVALENT, GUESS_EQUIVALENT = 20.0, 2.0
"""True labels that the curve counts for, per label, and a mere guess, per group of labels."""


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """Rows to annotate completely, the most useful first (no sample, as `audit.AuditPlan` is).

    Parameters
    ----------
    rows : integers of shape (r,)
        Row numbers, as many as the budget allows.
    cost : float
        What they are expected to cost.
    before : float
        Standard error of the metric due to unknown propensities, as things stand.
    after : float
        The same expected after the planned audit.
    uniform : float
        The same expected after auditing blindly for the same cost.
    labels : array of shape (L,)
        Each label's share in the uncertainty as things stand.

    Examples
    --------
    >>> top = TopK([[0], [0], [1], [1]], [[0.9], [0.8], [0.9], [0.8]])
    >>> plan = audit_plan(top, [[1, 0], [1, 0], [0, 0], [0, 1]], [0.9, 0.2], budget=2)
    >>> plan.cost, round(plan.before, 2), round(plan.uniform, 2), round(plan.after, 2)
    (2.0, 1.86, 1.55, 1.37)
    """

    rows: Ints
    cost: float
    before: float
    after: float
    uniform: float
    labels: Floats


def audit_plan(
    top: TopK,
    labels: LabelsLike,
    propensity: PropensityLike,
    *,
    budget: float,
    metric: str = "precision",
    k: int | None = None,
    label_cost: float = 0.0,
) -> AuditPlan:
    """The rows whose complete labels make `metric` at k most certain, for a given `budget`.

        Var(θ) = Σ_j s_j² v_j / K_j + Σ_g S_g² v_g / K_g    is lowered greedily (see the module)

    Parameters
    ----------
    top : TopK
        Predictions of the n rows that can be audited. All places say where labels may be found, so
        give more than k.
    labels : matrix of shape (n, L)
        Observed labels of these rows.
    propensity : array of shape (L,) or PropensityEstimate
        The best guess so far, at least 1e-50; an estimate says itself how sure it is.
    budget : float
        What may be spent, at least 1: a number of rows if labels cost nothing.
    metric : {"precision", "recall"}, default "precision"
        What is to become certain.
    k : int, optional
        Places that the metric counts; by default all of `top`.
    label_cost : float, default 0.0
        A row costs 1 plus this for every true label in it.

    Returns
    -------
    AuditPlan

    Raises
    ------
    ValueError
        If predictions and labels do not fit, or a number is out of its range.

    Examples
    --------
    >>> top = TopK([[0], [0], [1], [1]], [[0.9], [0.8], [0.9], [0.8]])
    >>> plan = audit_plan(top, [[1, 0], [1, 0], [0, 0], [0, 1]], [0.9, 0.2], budget=2)
    >>> plan.rows, plan.labels.round(2)
    (array([2, 3]), array([0.01, 0.99]))
    """
    matrix = _validation.labels(labels)
    if not isinstance(top, TopK):
        raise ValueError(f"a plan is made from predictions, a TopK; got {type(top).__name__}.")
    _validation.same_rows(top.labels, matrix, "predictions", "labels")
    p = _validation.propensity(propensity, matrix.shape[1])
    _validation.in_range(budget, "budget", 1, np.inf)
    _validation.in_range(label_cost, "label_cost", 0, float(np.finfo(np.float64).max))
    _refuse_predictions(top, matrix.shape[1])
    places = top.k if k is None else min(_validation.positive_int(k, "k"), top.k)
    _refuse_tiny(p)
    slope = METRICS[_validation.one_of(metric, METRICS, "metric")](top, matrix, p, places)
    group = _groups(p)
    chance = calibration.chances(top, matrix, p)
    cost = 1 + label_cost * np.asarray(chance.sum(axis=1)).ravel()
    chance = sp.csr_array(sp.hstack([chance, chance @ group]))
    variances, audited = _uncertainty(propensity, p, slope, group)
    rows, planned = _greedy(chance, cost, variances, audited, budget)
    paid = float(cost[rows].sum())
    blind = audited + paid / cost.mean() * np.asarray(chance.mean(axis=0)).ravel()
    before, after, uniform = (
        float(np.sqrt((variances / counts).sum())) for counts in (audited, planned, blind)
    )
    return AuditPlan(rows, paid, before, after, uniform, _shares(variances / audited, group))


def _refuse_tiny(p: Floats) -> None:
    if p.min(initial=1.0) < LOWEST:
        label = int(np.argmin(p))
        raise ValueError(
            f"a plan needs propensities of at least {LOWEST:g}; got {p[label]:g} at label {label}. "
            f"Raise them with {function('propensity.clip')}."
        )


def _refuse_predictions(top: TopK, n_labels: int) -> None:
    largest = top.labels.max(initial=-1)
    if largest < 0:
        raise ValueError("no row has a prediction, and a plan is made from predictions.")
    if largest >= n_labels:
        raise ValueError(
            f"label {largest} is predicted, but there are {n_labels} labels; give predictions "
            "and labels of the same columns."
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
    row, place = np.nonzero(top.labels[:, :k] >= 0)
    entries = (np.ones(row.size), (row, top.labels[row, place]))
    return sp.csr_array(labels.multiply(sp.coo_array(entries, shape=labels.shape)))


def _groups(p: Floats) -> sp.csr_array:
    """Labels × groups: labels in order of their propensity, cut into equal parts."""
    rank = np.empty(p.size, dtype=np.int64)
    rank[np.argsort(p, kind="stable")] = np.arange(p.size)
    count = min(GROUPS, p.size)
    entries = (np.ones(p.size), (np.arange(p.size), rank * count // p.size))
    return sp.csr_array(entries, shape=(p.size, count))


def _uncertainty(
    propensity: PropensityLike, p: Floats, slope: Floats, group: sp.csr_array
) -> tuple[Floats, Floats]:
    """s² v and K of every label, then of every group."""
    odds, size = (1 - p) / p, group.sum(axis=0)
    together, v_group = slope @ group, (odds @ group) / size
    variances = np.r_[slope**2 * odds, together**2 * v_group]
    if not isinstance(propensity, PropensityEstimate):
        return variances, np.r_[
            np.full(p.size, CURVE_EQUIVALENT), np.full(size.size, GUESS_EQUIVALENT)
        ]
    logs = np.log(propensity.draw(seed=0, size=200))
    common = (logs @ group) / size
    variance = np.r_[(logs - common @ group.T).var(axis=0), common.var(axis=0)]
    return variances, np.maximum(np.r_[odds, v_group] / np.maximum(variance, 1e-9), 1.0)


def _shares(variance: Floats, group: sp.csr_array) -> Floats:
    """Each label's part of the variance; a group's is divided evenly among its labels."""
    own, common = variance[: group.shape[0]], variance[group.shape[0] :]
    shares = own + group @ (common / group.sum(axis=0))
    return np.asarray(shares / max(shares.sum(), np.finfo(np.float64).tiny))


def _greedy(
    chance: sp.csr_array, cost: Floats, variances: Floats, audited: Floats, budget: float
) -> tuple[Ints, Floats]:
    """Rows by how much they lower Σ s² v/K for their cost, batch by batch; and K afterwards.

    `audited` is K, the true labels audited so far, of every label and then of every group.

    A batch ends before the row that it cannot pay; what is left over goes to the next.
    """
    budget = min(budget, float(cost.sum()) * (1 + 1e-9))
    audited, left, spent = audited.copy(), np.ones(chance.shape[0], dtype=bool), 0.0
    batches = [np.zeros(0, dtype=np.int64)]
    for goal in np.linspace(0, budget, BATCHES + 1)[1:]:
        gain = chance @ (variances / audited - variances / (audited + 1)) / cost
        order = np.argsort(-np.where(left, gain, -np.inf), kind="stable")[: int(left.sum())]
        paid = spent + np.cumsum(cost[order])
        batch = order[paid <= goal]
        batches.append(batch)
        left[batch] = False
        spent += float(cost[batch].sum())
        audited += np.asarray(chance[batch].sum(axis=0)).ravel()
    return np.concatenate(batches), audited


METRICS = {"precision": _precision_slope, "recall": _recall_slope}
