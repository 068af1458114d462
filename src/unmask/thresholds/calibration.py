"""Scores as probabilities of *true* labels, one curve for all labels.

Isotonic regression of v = y/p on the score, or Platt's logistic curve by the unbiased log-loss,
Σ ln(1 + e^z) − v z with z = a · score + b, convex.

Probabilities of true labels that allow for which label a score belongs to.

One curve for all labels says what a score is worth on average. But labels differ, and their scores
say how even where they were hardly observed: the row that has the highest score of a label is more
likely right than the one that has its hundredth, at the same score. So r, the probability that a
label is true, is the mean of two: `calibrate`'s rising curve, and a logistic curve

    log-odds = polynomial of degree 2 in (score, u),
    u = ln(share of rows that have at least this score for the label),

whose six coefficients are the same for all labels, and those of the largest likelihood of what was
observed, P(y = 1) = p r, with a little shrinkage. The likelihood uses labels that were observed and
those that were not, at every propensity, while Σ y/p of a single label is mostly noise. Which of
the two is better depends on the data; their mean is never much worse than the better one (the study
`sets`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.optimize import isotonic_regression
from scipy.special import expit

from unmask._messages import named_options
from unmask._text import html_table, text_of
from unmask._typing import Array, Floats, Ints, LabelsLike, PropensityLike, ScoresLike
from unmask.arrays import checks, entry_rows
from unmask.metrics.scored import scores_of
from unmask.propensity.models import reciprocal

BINS = 4096
"""Scores are calibrated in so many bins of equal size."""
BLOCK = 1 << 22
Method: TypeAlias = Literal["isotonic", "platt"]


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

    def __str__(self) -> str:
        """The curve at a few scores."""
        return text_of([["score", "probability of a true label"], *self._points()])

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return html_table(
            f"{self.method} calibration", ["score", "probability of a true label"], self._points()
        )

    def _points(self) -> list[list[str]]:
        if not self.scores.size:
            return []
        scores = np.linspace(self.scores[0], self.scores[-1], 9)
        shares = self.apply(scores[None])[0]
        return [[f"{s:.3g}", f"{p:.3f}"] for s, p in zip(scores, shares, strict=True)]

    def apply(self, scores: ScoresLike) -> Floats:
        """Probabilities of true labels.

        Parameters
        ----------
        scores : (n, L) matrix

        Returns
        -------
        (n, L) floats in [0, 1]
        """
        values = checks.dense(scores, "scores", "label").astype(np.float64)
        if np.isnan(values).any():
            raise ValueError("scores must be numbers; got NaN.")
        if self.method == "platt":
            return np.asarray(expit(self.slope * values + self.intercept))
        return np.asarray(np.interp(values, self.scores, self.probabilities))


@named_options
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
        If shapes do not fit, scores are not finite, no label is observed, or propensities are so
        small that no logistic curve has numbers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random((4000, 2))
    >>> observed = rng.random((4000, 2)) < scores * 0.5  # half of the true ones are seen
    >>> curve = calibrate(scores, observed, [0.5, 0.5])
    >>> bool(abs(curve.apply([[0.5, 0.8]]) - [[0.5, 0.8]]).max() < 0.1)
    True
    """
    checks.one_of(method, ("isotonic", "platt"), "method")
    observed = checks.labels(labels)
    matrix = scores_of(scores, observed, "calibration")
    if not observed.nnz:
        raise ValueError("no label is observed in these rows; calibration needs some that are.")
    if not np.isfinite(matrix).all():
        raise ValueError("calibration needs finite scores; got an infinite one.")
    inverse = inverse_of(propensity, observed)
    if method == "isotonic":
        return rising_curve(matrix, observed, inverse)
    centres, pairs, true = binned(matrix, observed, inverse)
    slope, intercept = platt(centres, pairs, true)
    return Calibration(method, centres, expit(slope * centres + intercept), slope, intercept)


def rising_curve(scores: Array, observed: sp.csr_array, inverse: Floats) -> Calibration:
    """Isotonic regression of y/p on the score."""
    centres, pairs, true = binned(scores, observed, inverse)
    fitted = isotonic_regression(true / pairs, weights=pairs).x
    return Calibration("isotonic", centres, np.clip(fitted, 0.0, 1.0))


def inverse_of(propensity: PropensityLike | None, observed: sp.csr_array) -> Floats:
    """1/p of every observed label."""
    if propensity is None:
        return np.ones(observed.nnz)
    return reciprocal(checks.entry_propensity(propensity, observed))


def binned(scores: Array, observed: sp.csr_array, inverse: Floats) -> tuple[Floats, Floats, Floats]:
    """The mean score, the number of pairs and Σ v of bins of scores."""
    flat = scores.ravel()
    sample = flat[:: max(1, flat.size // BLOCK)].astype(np.float64)
    edges = np.unique(np.quantile(sample, np.linspace(0, 1, BINS + 1)))[1:-1]
    spot = np.searchsorted(edges, flat, side="right")
    size = edges.size + 1
    rows = entry_rows(observed)
    own = spot[rows * scores.shape[1] + observed.indices]
    pairs = np.bincount(spot, minlength=size).astype(np.float64)
    sums = np.bincount(spot, flat.astype(np.float64), minlength=size)
    true = np.bincount(own, inverse, minlength=size).astype(np.float64)
    used = pairs > 0
    return sums[used] / pairs[used], pairs[used], true[used]


def platt(scores: Floats, pairs: Floats, true: Floats) -> tuple[float, float]:
    """Slope and intercept by Newton's method on standardised scores, with halved steps."""
    centre = float(np.average(scores, weights=pairs))
    scale = float(np.sqrt(np.average((scores - centre) ** 2, weights=pairs))) or 1.0
    x = np.c_[(scores - centre) / scale, np.ones(scores.size)]
    with np.errstate(over="ignore"):
        share = min(max(float(true.sum() / pairs.sum()), 1e-9), 1 - 1e-9)
    w = np.array([0.0, np.log(share / (1 - share))])

    def loss(point: Floats) -> float:
        z = x @ point
        return float(pairs @ np.logaddexp(0.0, z) - true @ z) + 1e-6 * float(point @ point)

    with np.errstate(over="ignore", invalid="ignore"):
        w = _minimised(loss, x, pairs, true, w)
    if not np.isfinite(w).all():
        raise ValueError(
            "no logistic curve fits labels over propensities as small as these; use isotonic."
        )
    return float(w[0] / scale), float(w[1] - w[0] * centre / scale)


def _minimised(
    loss: Callable[[Floats], float], x: Floats, pairs: Floats, true: Floats, w: Floats
) -> Floats:
    """Newton's method; what is not finite ends it."""
    for _ in range(100):
        r = expit(x @ w)
        gradient = x.T @ (pairs * r - true) + 2e-6 * w
        curvature = (x * (pairs * r * (1 - r))[:, None]).T @ x + 2e-6 * np.eye(2)
        if not (np.isfinite(curvature).all() and np.isfinite(gradient).all()):
            return np.full(2, np.nan)
        step = np.linalg.solve(curvature, gradient)
        size = 1.0
        while size > 1e-9 and loss(w - size * step) > loss(w):
            size /= 2
        w = w - size * step
        if float(np.abs(size * step).max()) < 1e-10:
            break
    return w


TERMS = np.array([(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)])
"""Which of (1, score, u) are multiplied."""
PENALTY = np.array([0.0, 0.1, 0.1, 1.0, 1.0, 1.0])
"""Of squared coefficients, the variables having mean 0 and variance 1."""
PAIRS = 1 << 16
"""Pairs of rows and labels that are fitted, beside observed ones; of more, a part is taken."""
STEPS = 50
"""Of the search for the largest likelihood; it mostly ends after ten."""


@dataclass(frozen=True, eq=False)
class Chances:
    """How likely labels are true, by their scores.

    Parameters
    ----------
    curve : Calibration
        Of all labels together.
    centre, scale : (2,) floats
        By which score and u are standardised.
    coefficients : (6,) floats
        Of `TERMS`.
    ends : pair of float
        Scores beyond are taken as these.
    """

    curve: Calibration
    centre: Floats
    scale: Floats
    coefficients: Floats
    ends: tuple[float, float]

    def of_label(self, falling: Floats) -> Floats:
        """Probabilities that a label is true.

        Parameters
        ----------
        falling : (n,) floats
            The scores of the label in all rows, the highest first.

        Returns
        -------
        (n,) floats
        """
        finite = np.clip(falling, *self.ends)
        terms = _terms((_variables(finite) - self.centre) / self.scale)
        alike = np.interp(finite, self.curve.scores, self.curve.probabilities)
        return np.asarray((alike + expit(terms @ self.coefficients)) / 2)


def fit(scores: Array, observed: sp.csr_array, inverse: Floats, propensity: Floats) -> Chances:
    """Fit the chances of all labels to what was observed.

    Parameters
    ----------
    scores : (n, L) floats
    observed : csr_array of shape (n, L), with an entry at least
    inverse : (nnz,) floats
        1/p of every observed label.
    propensity : (L,) floats
        Of labels.

    Returns
    -------
    Chances
    """
    ends = _finite_ends(scores)
    variables, weights, chances, is_observed = _sampled(scores, observed, propensity, ends)
    total = weights.sum()
    centre = weights @ variables / total
    scale = np.sqrt(weights @ (variables - centre) ** 2 / total)
    scale[scale == 0] = 1.0
    terms = _terms((variables - centre) / scale)
    coefficients = _maximized(terms, weights, chances, is_observed)
    curve = rising_curve(np.clip(scores, *ends), observed, inverse)
    return Chances(curve, centre, scale, coefficients, ends)


def _finite_ends(scores: Array) -> tuple[float, float]:
    """The lowest and the highest score that is a number; 0 if none is."""
    finite = scores[np.isfinite(scores)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def _variables(falling: Floats) -> Floats:
    """The scores of a label, the highest first, and u."""
    reached = falling.size - np.searchsorted(falling[::-1], falling, side="left")
    return np.column_stack([falling, np.log(reached / falling.size)])


def _terms(variables: Floats) -> Floats:
    """1, both variables and their products, a column each."""
    with_one = np.column_stack([np.ones(len(variables)), variables])
    return np.asarray(with_one[:, TERMS[:, 0]] * with_one[:, TERMS[:, 1]])


def _sampled(
    scores: Array, observed: sp.csr_array, propensity: Floats, ends: tuple[float, float]
) -> tuple[Floats, Floats, Floats, Floats]:
    """Variables, weights, propensities and whether it was observed, of the pairs that are fitted.

    Of many pairs, those are taken that were observed or are among the highest of their label, and
    every so many of the others, which then count as many times.
    """
    n, n_labels = scores.shape
    entries = observed.tocsc()
    near, stride = n, 1
    if n * n_labels > PAIRS:
        near = PAIRS // 2 // n_labels
        stride = -(-(n - near) * n_labels // (PAIRS // 2))
    variables, weights, flags, sizes = [], [], [], []
    for label in range(n_labels):
        column = np.clip(scores[:, label].astype(np.float64), *ends)
        order = np.argsort(-column, kind="stable")
        is_observed = np.zeros(n)
        is_observed[entries.indices[entries.indptr[label] : entries.indptr[label + 1]]] = 1.0
        is_observed = is_observed[order]
        weight = _weights(is_observed, near, stride, label)
        taken = np.flatnonzero(weight)
        variables.append(_variables(column[order])[taken])
        weights.append(weight[taken])
        flags.append(is_observed[taken])
        sizes.append(taken.size)
    return (
        np.concatenate(variables), np.concatenate(weights), np.repeat(propensity, sizes),
        np.concatenate(flags),
    )  # fmt: skip


def _weights(is_observed: Floats, near: int, stride: int, label: int) -> Floats:
    """How often the rows of a label count, in the order of their scores; 0 of those left out.

    >>> _weights(np.array([0.0, 0, 0, 1, 0, 0]), near=1, stride=3, label=1)
    array([1., 0., 3., 1., 0., 3.])
    """
    place = np.arange(is_observed.size)
    chosen = (place + label) % stride == 0
    return np.where((place < near) | (is_observed > 0), 1.0, np.where(chosen, float(stride), 0.0))


def _maximized(terms: Floats, weights: Floats, propensity: Floats, is_observed: Floats) -> Floats:
    """Coefficients of the largest penalised likelihood, by Fisher scoring with halved steps."""

    def loss(point: Floats) -> float:
        chance = np.clip(propensity * expit(terms @ point), 1e-300, 1 - 1e-16)
        likelihood = is_observed * np.log(chance) + (1 - is_observed) * np.log1p(-chance)
        return float(PENALTY @ point**2 - weights @ likelihood)

    share = float(weights @ is_observed) / float(weights @ propensity)
    share = min(max(share, 1e-9), 1 - 1e-9)
    point: Floats = np.r_[np.log(share / (1 - share)), np.zeros(len(PENALTY) - 1)]
    reached = loss(point)
    for _ in range(STEPS):
        r = expit(terms @ point)
        hidden = np.maximum(1 - propensity * r, 1e-16)
        slopes = np.where(is_observed > 0, 1 - r, -propensity * r * (1 - r) / hidden)
        gradient = terms.T @ (weights * slopes) - 2 * PENALTY * point
        curvature = weights * propensity * r * (1 - r) ** 2 / hidden
        information = (terms * curvature[:, None]).T @ terms + np.diag(2 * PENALTY + 1e-9)
        step = np.linalg.solve(information, gradient)
        size = 1.0
        while size > 1e-6 and loss(point + size * step) > reached:
            size /= 2
        before, point = reached, point + size * step
        reached = loss(point)
        if before - reached < 1e-6 * (1 + abs(reached)):
            break
    return point


def label_propensities(observed: sp.csr_array, inverse: Floats) -> Floats:
    """A propensity per label from those of observed entries: their harmonic mean, or that of all.

    >>> observed = sp.csr_array([[1.0, 0.0], [1.0, 0.0]])
    >>> label_propensities(observed, np.array([2.0, 4.0])).round(3)
    array([0.333, 0.333])
    """
    counts: Ints = np.bincount(observed.indices, minlength=observed.shape[1])
    sums = np.bincount(observed.indices, inverse, minlength=observed.shape[1])
    overall = counts.sum() / sums.sum()
    return np.where(counts > 0, counts / np.maximum(sums, 1e-300), overall)
