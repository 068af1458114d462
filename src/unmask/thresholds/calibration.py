"""Scores as probabilities of *true* labels, one curve for all labels.

Isotonic regression of v = y/p on the score, or Platt's logistic curve by the unbiased log-loss,
Σ ln(1 + e^z) − v z with z = a · score + b, convex.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.optimize import isotonic_regression
from scipy.special import expit

from unmask import _validation, report
from unmask._sparse import entry_rows
from unmask._text import html_table
from unmask._typing import Array, Floats, LabelsLike, PropensityLike, ScoresLike
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
        return report.text_of([["score", "probability of a true label"], *self._points()])

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
        values = _validation.dense(scores, "scores", "label").astype(np.float64)
        if np.isnan(values).any():
            raise ValueError("scores must be numbers; got NaN.")
        if self.method == "platt":
            return np.asarray(expit(self.slope * values + self.intercept))
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
    _validation.one_of(method, ("isotonic", "platt"), "method")
    observed = _validation.labels(labels)
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
    return reciprocal(_validation.entry_propensity(propensity, observed))


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
