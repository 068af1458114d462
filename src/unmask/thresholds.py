"""Decide: thresholds above which labels are predicted, and scores as probabilities of true labels.

Thresholds are chosen on validation rows by a corrected metric. With v = y/p, a set of the pairs
whose score reaches t has Σ v of them as hits, and Σ v of all pairs as labels, both unbiased:

    F1(t) = 2 Σ_{s ≥ t} v / (|{s ≥ t}| + Σ v)          per label, or over all pairs

It falls between the scores of observed labels, so those are all thresholds that need trying. On
observed labels as they are, right predictions that were not recorded count as wrong, and thresholds
come out too high.

Calibration makes probabilities r of *true* labels: isotonic regression of v on the score, or
Platt's logistic curve by the unbiased log-loss, Σ ln(1 + e^z) − v z with z = a · score + b, convex.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.optimize import isotonic_regression

from unmask import _validation
from unmask._typing import Array, Floats, Ints, LabelsLike, PropensityLike, ScoresLike
from unmask.metrics.scored import scores_of
from unmask.predictions import LabelSets
from unmask.propensity.models import reciprocal

METRICS = ("micro-F1", "macro-F1", "cost")
"""What thresholds can be chosen by: one for all labels, one for each, and by costs of errors."""
LEAST = 10
"""A label observed in fewer rows gets the threshold of all labels."""
BINS = 4096
"""Scores are calibrated in so many bins of equal size."""
BLOCK = 1 << 22
Method: TypeAlias = Literal["isotonic", "platt"]


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Thresholds, one per label, and how they were chosen.

    Parameters
    ----------
    values : (L,) floats
        A label is predicted where its score is at least this; +inf: never.
    metric : str
        What they were chosen by.
    value : float
        The corrected metric of the validation rows at these thresholds; optimistic, since they were
        chosen for it.
    own : (L,) flags
        Whether a label has a threshold of its own.

    Examples
    --------
    >>> scores = np.array([[0.9, 0.2], [0.6, 0.7], [0.3, 0.1], [0.2, 0.8]])
    >>> cut = fit(scores, [[1, 0], [1, 1], [0, 0], [0, 1]], metric="micro-F1")
    >>> cut.metric, cut.own.shape
    ('micro-F1', (2,))
    """

    values: Floats
    metric: str
    value: float
    own: Array

    def apply(self, scores: ScoresLike) -> LabelSets:
        """The labels whose scores reach their thresholds.

        Parameters
        ----------
        scores : (n, L) matrix
            Of the same system, of any rows.

        Returns
        -------
        LabelSets
        """
        return LabelSets.from_scores(scores, self.values)


def fit(
    scores: ScoresLike,
    labels: LabelsLike,
    propensity: PropensityLike | None = None,
    *,
    metric: str = "micro-F1",
    least: int = LEAST,
    cost: tuple[float, float] = (1.0, 1.0),
) -> Thresholds:
    """Choose thresholds on validation rows.

    Parameters
    ----------
    scores : (n, L) matrix
        Dense scores or probabilities, of any system.
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    propensity : (L,) floats in (0, 1], or (n, L) sparse matrix, optional
        How likely a true label is observed; without it, labels are taken as complete.
    metric : {"micro-F1", "macro-F1", "cost"}, default "micro-F1"
        "micro-F1": one threshold for all labels; "macro-F1": one for each, by its own F1; "cost":
        one for each, by the cost of wrong and of missing predictions.
    least : int, default 10
        A label observed in fewer rows gets the threshold that is best for all labels together.
    cost : pair of float, default (1, 1)
        Of a wrong prediction and of a missing one, for "cost".

    Returns
    -------
    Thresholds

    Raises
    ------
    ValueError
        If shapes do not fit, scores are not numbers, or no label is observed.

    Examples
    --------
    >>> scores = np.array([[0.9, 0.2], [0.6, 0.7], [0.3, 0.1], [0.2, 0.8]])
    >>> cut = fit(scores, [[1, 0], [1, 1], [0, 0], [0, 1]], metric="micro-F1")
    >>> cut.values, cut.value
    (array([0.6, 0.6]), 1.0)
    >>> cut.apply([[0.65, 0.4]]).indicator.toarray()
    array([[1., 0.]], dtype=float32)
    """
    _validation.one_of(metric, METRICS, "metric")
    observed = _validation.labels(labels)
    matrix = scores_of(scores, observed, "a threshold")
    if not observed.nnz:
        raise ValueError("no label is observed in these rows; thresholds need some that are.")
    inverse = _inverse(propensity, observed)
    goal = _Goal(metric, *cost)
    by_label = _candidates(matrix, observed, inverse)
    positives = float(inverse.sum())
    together, value = _best(_joined(matrix, by_label), positives, goal)
    values = np.full(matrix.shape[1], together)
    own = np.zeros(matrix.shape[1], dtype=bool)
    if metric != "micro-F1":
        own = np.bincount(observed.indices, minlength=matrix.shape[1]) >= least
        for label in np.flatnonzero(own):
            each = by_label[label]
            values[label], _ = _best(each, float(each.hits[-1]), goal)
        value = _over_labels(values, by_label, matrix, goal)
    return Thresholds(values, metric, value, own)


@dataclass(frozen=True)
class _Goal:
    """What is made as large as possible, from Σ v of hits, predictions, and Σ v of labels."""

    metric: str
    wrong: float
    missing: float

    def __call__(self, hits: Floats, predicted: Floats, positives: float) -> Floats:
        if self.metric == "cost":
            lost = self.wrong * (predicted - hits) + self.missing * (positives - hits)
            return -lost
        return 2 * hits / np.maximum(predicted + positives, 1e-300)


@dataclass(frozen=True)
class _Candidates:
    """Thresholds to try, falling, with Σ v and the number of pairs that reach each."""

    thresholds: Floats
    hits: Floats
    predicted: Floats


def _inverse(propensity: PropensityLike | None, observed: sp.csr_array) -> Floats:
    """1/p of every observed label."""
    if propensity is None:
        return np.ones(observed.nnz)
    return reciprocal(_validation.entry_propensity(propensity, observed))


def _candidates(scores: Array, observed: sp.csr_array, inverse: Floats) -> list[_Candidates]:
    """Of every label: the scores at which it is observed."""
    order = np.argsort(observed.indices, kind="stable")
    rows = np.repeat(np.arange(observed.shape[0]), np.diff(observed.indptr))[order]
    starts = np.searchsorted(observed.indices[order], np.arange(observed.shape[1] + 1))
    tried = []
    for label in range(observed.shape[1]):
        own = slice(starts[label], starts[label + 1])
        column = scores[:, label]
        tried.append(_tried(column[rows[own]], inverse[order[own]], column))
    return tried


def _tried(reached: Array, weights: Floats, every: Array) -> _Candidates:
    order = np.argsort(-reached, kind="stable")
    ordered, sums = reached[order].astype(np.float64), np.cumsum(weights[order])
    last = np.flatnonzero(np.r_[ordered[1:] != ordered[:-1], True][: ordered.size])
    thresholds = ordered[last]
    rising = np.sort(every.astype(np.float64))
    predicted = every.size - np.searchsorted(rising, thresholds, side="left")
    return _Candidates(thresholds, sums[last], predicted.astype(np.float64))


def _joined(scores: Array, by_label: list[_Candidates]) -> _Candidates:
    """Of all labels together."""
    reached = np.concatenate([each.thresholds for each in by_label])
    weights = np.concatenate([np.diff(each.hits, prepend=0.0) for each in by_label])
    order = np.argsort(-reached, kind="stable")
    ordered, sums = reached[order], np.cumsum(weights[order])
    last = np.flatnonzero(np.r_[ordered[1:] != ordered[:-1], True][: ordered.size])
    rising = ordered[last][::-1]
    counts: Ints = np.zeros(rising.size + 1, dtype=np.int64)
    step = max(1, BLOCK // max(1, scores.shape[1]))
    for start in range(0, scores.shape[0], step):
        reached_by = np.searchsorted(rising, scores[start : start + step].ravel(), side="right")
        counts += np.bincount(reached_by, minlength=rising.size + 1)
    predicted = np.cumsum(counts[::-1])[:-1].astype(np.float64)
    return _Candidates(ordered[last], sums[last], predicted)


def _best(tried: _Candidates, positives: float, goal: _Goal) -> tuple[float, float]:
    """The best threshold and what it reaches; to predict nothing where nothing is better."""
    if not tried.thresholds.size:
        return np.inf, 0.0
    values = goal(tried.hits, tried.predicted, positives)
    best = int(np.argmax(values))
    nothing = float(goal(np.zeros(1), np.zeros(1), positives)[0])
    if nothing > values[best]:
        return np.inf, nothing
    return float(tried.thresholds[best]), float(values[best])


def _over_labels(values: Floats, by_label: list[_Candidates], scores: Array, goal: _Goal) -> float:
    """The mean over observed labels of what their thresholds reach (of costs, the sum)."""
    reached = []
    for label, (threshold, tried) in enumerate(zip(values, by_label, strict=True)):
        if not tried.thresholds.size:
            continue
        above = np.flatnonzero(tried.thresholds >= threshold)
        hits = tried.hits[above[-1]] if above.size else 0.0
        predicted = float((scores[:, label] >= threshold).sum())
        of_label = goal(np.array([hits]), np.array([predicted]), float(tried.hits[-1]))
        reached.append(float(of_label[0]))
    return float(np.sum(reached) if goal.metric == "cost" else np.mean(reached))


@dataclass(frozen=True, eq=False)
class Calibration:
    """A rising curve from scores to probabilities of true labels.

    Parameters
    ----------
    method : str
    scores, probabilities : (B,) floats
        Points of the curve, both rising; straight lines between them, constant beyond.
    slope, intercept : float
        Of Platt's curve, where that is the method.

    Examples
    --------
    >>> curve = Calibration("isotonic", np.array([0.0, 1.0]), np.array([0.0, 0.5]))
    >>> curve.apply([[0.0, 0.5, 1.0]])
    array([[0.  , 0.25, 0.5 ]])
    """

    method: Method
    scores: Floats
    probabilities: Floats
    slope: float = 0.0
    intercept: float = 0.0

    def apply(self, scores: ScoresLike) -> Floats:
        """Probabilities of true labels.

        Parameters
        ----------
        scores : (n, L) matrix

        Returns
        -------
        (n, L) floats in [0, 1]
        """
        values = _validation.dense(scores, "scores", "label").astype(np.float64)
        if self.method == "platt":
            return np.asarray(_expit(self.slope * values + self.intercept))
        return np.asarray(np.interp(values, self.scores, self.probabilities))


def calibrate(
    scores: ScoresLike,
    labels: LabelsLike,
    propensity: PropensityLike | None = None,
    *,
    method: Method = "isotonic",
) -> Calibration:
    """Make scores probabilities of true labels, one curve for all labels.

    Parameters
    ----------
    scores : (n, L) matrix
        Dense, of validation rows.
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    propensity : (L,) floats in (0, 1], or (n, L) sparse matrix, optional
        Without it, labels are taken as complete.
    method : {"isotonic", "platt"}, default "isotonic"
        A rising step curve, or a logistic one.

    Returns
    -------
    Calibration

    Raises
    ------
    ValueError
        If shapes do not fit, scores are not numbers, or no label is observed.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random((4000, 2))
    >>> observed = rng.random((4000, 2)) < scores * 0.5  # half of the true ones are seen
    >>> curve = calibrate(scores, observed, [0.5, 0.5])
    >>> bool(abs(curve.apply([[0.5, 0.8]]) - [[0.5, 0.8]]).max() < 0.1)
    True
    """
    _validation.one_of(method, ("isotonic", "platt"), "method")
    observed = _validation.labels(labels)
    matrix = scores_of(scores, observed, "calibration")
    if not observed.nnz:
        raise ValueError("no label is observed in these rows; calibration needs some that are.")
    centres, pairs, true = _binned(matrix, observed, _inverse(propensity, observed))
    if method == "platt":
        slope, intercept = _platt(centres, pairs, true)
        return Calibration(method, centres, _expit(slope * centres + intercept), slope, intercept)
    fitted = isotonic_regression(true / pairs, weights=pairs).x
    return Calibration(method, centres, np.clip(fitted, 0.0, 1.0))


def _binned(
    scores: Array, observed: sp.csr_array, inverse: Floats
) -> tuple[Floats, Floats, Floats]:
    """The mean score, the number of pairs and Σ v of bins of scores."""
    flat = scores.ravel()
    sample = flat[:: max(1, flat.size // BLOCK)].astype(np.float64)
    edges = np.unique(np.quantile(sample, np.linspace(0, 1, BINS + 1)))[1:-1]
    spot = np.searchsorted(edges, flat, side="right")
    size = edges.size + 1
    rows = np.repeat(np.arange(observed.shape[0]), np.diff(observed.indptr))
    own = spot[rows * scores.shape[1] + observed.indices]
    pairs = np.bincount(spot, minlength=size).astype(np.float64)
    sums = np.bincount(spot, flat.astype(np.float64), minlength=size)
    true = np.bincount(own, inverse, minlength=size).astype(np.float64)
    used = pairs > 0
    return sums[used] / pairs[used], pairs[used], true[used]


def _platt(scores: Floats, pairs: Floats, true: Floats) -> tuple[float, float]:
    """Slope and intercept by Newton's method on standardised scores, with halved steps."""
    centre = float(np.average(scores, weights=pairs))
    scale = float(np.sqrt(np.average((scores - centre) ** 2, weights=pairs))) or 1.0
    x = np.c_[(scores - centre) / scale, np.ones(scores.size)]
    share = min(max(float(true.sum() / pairs.sum()), 1e-9), 1 - 1e-9)
    w = np.array([0.0, np.log(share / (1 - share))])

    def loss(point: Floats) -> float:
        z = x @ point
        return float(pairs @ np.logaddexp(0.0, z) - true @ z) + 1e-6 * float(point @ point)

    for _ in range(100):
        r = _expit(x @ w)
        gradient = x.T @ (pairs * r - true) + 2e-6 * w
        curvature = (x * (pairs * r * (1 - r))[:, None]).T @ x + 2e-6 * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        size = 1.0
        while size > 1e-9 and loss(w - size * step) > loss(w):
            size /= 2
        w = w - size * step
        if float(np.abs(size * step).max()) < 1e-10:
            break
    return float(w[0] / scale), float(w[1] - w[0] * centre / scale)


def _expit(z: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(z, -700, 700))))
