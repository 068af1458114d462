"""Row effort: labels of a row that are kept or lost together.

Independent masks see every true label of a row with its propensity p. Annotators differ in effort,
and some rows were never annotated; then the labels of a row share a fate, and counts thin as

    P(s, t | s*, t*) = π₀ [s = t = 0] + (1 − π₀) ∫ Bin(s; s*, p_S(e)) Bin(t; t*, p_T(e)) dF(e)

with e the effort that a row lacks, π₀ the share of rows that nobody annotated, and

    p(e) = Φ((Φ⁻¹(p') − √ρ e) / √(1 − ρ)),     p' = p / (1 − π₀).

For e ~ N(0, 1) the mean of p(e) is p' (a Gaussian copula with correlation ρ between the masks of a
row), so p stays the propensity of a label over all rows, and Σ_hits 1/p stays unbiased. F is a
value, points with weights. `normal` spaces points evenly: given many labels the integrand is a
narrow peak anywhere, which Gauss–Hermite's 21 points miss (at ρ = 0.8 and 20 labels a row, R@5
comes out 0.01 too high: docs/decisions/0011), and for smooth functions the trapezoidal rule over
the whole line is as exact as any.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from unmask import _validation
from unmask._typing import Floats

POINTS = 33
REACH = 4.8
"""Points from −REACH to REACH; 2 in a million rows lie beyond."""
MOST = 0.9  # beyond, p(e) is a step between two points


@dataclass(frozen=True)
class RowEffort:
    """How the masks of a row depend on each other.

    Parameters
    ----------
    correlation : float
        ρ, between the masks of two labels of a row on the probit scale.
    points, weights : tuple of float
        The distribution of e; the weights sum to 1.
    unannotated : float, default 0.0
        π₀, the share of rows that nobody annotated.

    Examples
    --------
    >>> effort = normal(0.5)
    >>> by_point = effort.propensities(np.array([0.2]))  # one per point
    >>> by_point.shape, float((np.array(effort.weights) @ by_point).round(6)[0])
    ((33, 1), 0.2)
    """

    correlation: float
    points: tuple[float, ...]
    weights: tuple[float, ...]
    unannotated: float = 0.0

    def propensities(self, propensity: Floats) -> Floats:
        """p(e) of annotated rows, points × propensities."""
        return self.propensity_at(propensity, np.array(self.points)[:, None])

    def propensity_at(self, propensity: Floats, effort: Floats) -> Floats:
        """p(e) in annotated rows that lack the effort e; shapes broadcast."""
        annotated = np.minimum(propensity / (1.0 - self.unannotated), 1.0)
        shift = np.sqrt(self.correlation) * effort
        return np.asarray(ndtr((ndtri(annotated) - shift) / np.sqrt(1.0 - self.correlation)))


def normal(correlation: float, unannotated: float = 0.0, points: int = POINTS) -> RowEffort:
    """Effort that is normally distributed, by evenly spaced points.

    Parameters
    ----------
    correlation : float
        ρ, in [0, 0.9].
    unannotated : float, default 0.0
        π₀, in [0, 0.9].
    points : int, default 33
        How many.

    Returns
    -------
    RowEffort

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> spaced = normal(0.3, points=5)
    >>> [round(point, 1) for point in spaced.points], round(sum(spaced.weights), 12)
    ([-4.8, -2.4, 0.0, 2.4, 4.8], 1.0)
    """
    _validation.in_range(correlation, "row_effort", 0, MOST)
    _validation.in_range(unannotated, "unannotated", 0, MOST)
    if correlation == 0.0:
        return RowEffort(0.0, (0.0,), (1.0,), unannotated)
    places = np.linspace(-REACH, REACH, points)
    weights = np.exp(-(places**2) / 2)
    return RowEffort(
        correlation, tuple(places.tolist()), tuple((weights / weights.sum()).tolist()), unannotated
    )
