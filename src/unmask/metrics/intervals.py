"""Confidence intervals of a statistic of rows: normal, bootstrap percentile, bootstrap BCa.

A "normal" interval of a mean uses Student's t, and Wilson's ends where rows contribute shares: near
0 and 1 a symmetric interval misses the truth far too often, and rows that all say the same leave it
no width at all. Intervals are cut at the ends of the metric's range (`within`).

The bootstrap resamples groups of rows (`state`) by multinomial counts: a replicate is one row of a
matrix of counts times the group sums, so a thousand replicates of every column are one matrix
product and nothing is recomputed.

DiCiccio & Efron, *Bootstrap confidence intervals*, Statistical Science 1996.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from unmask._typing import Floats

Interval = tuple[float, float]

ROUNDING = 1e-11
"""A standard error below this share of the value is rounding: all rows say the same."""


def normal(value: float, standard_error: float, confidence: float) -> Interval:
    """value ± z · standard error.

    Parameters
    ----------
    value, standard_error : float
    confidence : float
        In (0, 1).

    Returns
    -------
    pair of float

    Examples
    --------
    >>> [round(end, 3) for end in normal(0.5, 0.1, 0.95)]
    [0.304, 0.696]
    """
    half = z_quantile(confidence) * standard_error
    return value - half, value + half


def student(value: float, standard_error: float, confidence: float, rows: int) -> Interval:
    """value ± t · standard error, with the t quantile of rows − 1 degrees of freedom.

    Parameters
    ----------
    value, standard_error : float
    confidence : float
        In (0, 1).
    rows : int
        The number of rows behind the error; a single one says nothing of how rows differ.

    Returns
    -------
    pair of float

    Examples
    --------
    >>> [round(end, 3) for end in student(0.5, 0.1, 0.95, rows=5)]
    [0.222, 0.778]
    """
    if rows < 2:
        return -math.inf, math.inf
    half = t_quantile(confidence, rows) * standard_error
    return value - half, value + half


def wilson(share: ArrayLike, trials: ArrayLike, quantile: float) -> tuple[Floats, Floats]:
    """Wilson's interval of shares: all true shares that a test with this quantile accepts.

    Parameters
    ----------
    share : floats of any shape
        In [0, 1]; nan stays nan.
    trials : floats of the same shape
        The number of coin tosses that would be as uncertain as the share is; above 0.
    quantile : float
        Of the normal distribution, or of Student's t.

    Returns
    -------
    pair of floats of that shape
        Within [0, 1], holding the share, and never of zero width.

    Examples
    --------
    >>> low, high = wilson([0.0, 0.5], [100.0, 100.0], 1.96)
    >>> low.round(3), high.round(3)
    (array([0.   , 0.404]), array([0.037, 0.596]))
    """
    share, trials = np.asarray(share, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    n: Floats = np.minimum(trials, 1e300)
    square = quantile * quantile
    middle = (share * n + square / 2) / (n + square)
    half = quantile * np.sqrt(share * (1 - share) * n + square / 4) / (n + square)
    low = np.maximum(np.minimum(share, middle - half), 0.0)
    return low, np.minimum(np.maximum(share, middle + half), 1.0)


def of_bounded(
    value: float, variance: float, sample: int, quantile: float, at_most: float = 1.0
) -> Interval:
    """Wilson's interval of a mean of values between 0 and a largest one, from its variance.

    The effective number of trials is v (1 − v) / variance, with v the share of the range after two
    more values, the least and the largest: a mean at either end is not taken for certain.

    Parameters
    ----------
    value : float
        The mean, in [0, at_most].
    variance : float
        Of the mean; 0 only if nothing is left to doubt.
    sample : int
        How many values it is the mean of.
    quantile : float
        Of Student's t.
    at_most : float, default 1.0
        The largest value.

    Returns
    -------
    pair of float
        Within [0, at_most], holding the mean.

    Examples
    --------
    >>> [round(end, 3) for end in of_bounded(0.0, 1 / 32 * 31 / 32 / 30, 30, 2.045)]
    [0.0, 0.122]
    >>> of_bounded(3.0, 0.0, 30, 2.045, at_most=4.0)
    (3.0, 3.0)
    """
    if variance <= 0:
        return value, value
    centre = (sample * value / at_most + 1) / (sample + 2)
    low, high = wilson(value / at_most, centre * (1 - centre) * at_most**2 / variance, quantile)
    return float(low) * at_most, float(high) * at_most


def of_mean(
    value: float,
    standard_error: float,
    confidence: float,
    *,
    rows: int,
    at_most: float | None,
    shares: bool,
    weight: float = 1.0,
) -> Interval:
    """The interval of a mean over rows: Wilson's ends where rows are like shares, else Student's t.

    The effective number of trials is v (1 − v) / standard error², v the share of the range; it is
    rows / weight if all rows say the same, so that no finite sample leaves an interval of zero
    width.

    Parameters
    ----------
    value, standard_error : float
    confidence : float
        In (0, 1).
    rows : int
        The number of rows.
    at_most : float or None
        The largest value of the metric; None if it has none.
    shares : bool
        Whether rows contribute shares of the range, or nothing negative and little of it.
    weight : float, default 1.0
        The mean weight 1/p of what a row might contribute, in units of `at_most`.

    Returns
    -------
    pair of float

    Examples
    --------
    No hit in 30 rows:

    >>> options = {"rows": 30, "at_most": 1.0, "shares": True}
    >>> [round(end, 3) for end in of_mean(0.0, 0.0, 0.95, **options)]
    [0.0, 0.122]
    >>> [round(end, 3) for end in of_mean(0.4, 0.1, 0.95, **options)]
    [0.226, 0.604]
    """
    if rows < 2:
        return -math.inf, math.inf
    alike = standard_error <= ROUNDING * max(abs(value), 1.0)
    if alike and value < 0:  # no metric is negative, but an estimate may be
        low, high = of_mean(
            -value, 0.0, confidence, rows=rows, at_most=None, shares=shares, weight=weight
        )
        return -high, -low
    scale = max(2 * value, 1.0) if at_most is None or value > at_most else at_most
    share = value / scale
    if not alike and not (shares and at_most is not None and 0 < share < 1):
        return student(value, standard_error, confidence, rows)
    effective = rows / max(weight, 1.0)
    if not alike:
        effective = share * (1 - share) * (scale / standard_error) ** 2
    ends = wilson(share, effective, t_quantile(confidence, rows))
    return float(ends[0]) * scale, float(ends[1]) * scale


def within(ends: Interval, at_most: float | None) -> Interval:
    """An interval cut at 0 and at the largest value of the metric.

    One that lies outside altogether stays what it is: it is no interval of the metric, but says
    how far the estimate is from possible.

    Parameters
    ----------
    ends : pair of float
    at_most : float or None
        The largest value of the metric; None if it has none.

    Returns
    -------
    pair of float

    Examples
    --------
    >>> within((-0.1, 0.3), 1.0), within((1.1, 1.3), 1.0), within((2.0, 3.0), None)
    ((0.0, 0.3), (1.1, 1.3), (2.0, 3.0))
    """
    low, high = ends
    most = math.inf if at_most is None else at_most
    if high < 0 or low > most:
        return ends
    return max(low, 0.0), min(high, most)


def hull(one: Interval, other: Interval) -> Interval:
    """The smallest interval that holds both.

    A bootstrap of few rows is too narrow, as it resamples nothing that they do not show; joined
    with the interval of the standard error it is never narrower than that.

    Parameters
    ----------
    one, other : pair of float

    Returns
    -------
    pair of float

    Examples
    --------
    >>> hull((0.1, 0.4), (0.2, 0.5))
    (0.1, 0.5)
    """
    return min(one[0], other[0]), max(one[1], other[1])


@lru_cache(maxsize=256)
def t_quantile(confidence: float, rows: int) -> float:
    """The quantile of Student's t with rows − 1 degrees of freedom, for both ends together.

    >>> round(t_quantile(0.95, 11), 3)
    2.228
    """
    return float(stdtrit(rows - 1, (1 + confidence) / 2))


def z_quantile(confidence: float) -> float:
    """The quantile of the normal distribution, for both ends together.

    >>> round(z_quantile(0.95), 3)
    1.96
    """
    return NormalDist().inv_cdf((1 + confidence) / 2)


def percentile(replicates: Floats, confidence: float, **_: object) -> Interval:
    """The middle of the replicates.

    Parameters
    ----------
    replicates : (B,) floats
        The statistic on resampled rows.
    confidence : float
        The share of replicates between the ends.

    Returns
    -------
    pair of float

    Examples
    --------
    >>> percentile(np.arange(101.0), 0.5)
    (25.0, 75.0)
    """
    tail = (1 - confidence) / 2
    low, high = np.quantile(replicates, [tail, 1 - tail])
    return float(low), float(high)


def bca(replicates: Floats, confidence: float, *, value: float, left_out: Floats) -> Interval:
    """Bias-corrected and accelerated: percentiles moved for median bias and skewness.

    Parameters
    ----------
    replicates : (B,) floats
        The statistic on resampled rows.
    confidence : float
    value : float
        The statistic itself.
    left_out : (groups,) floats
        The statistic without each group in turn (the jackknife).

    Returns
    -------
    pair of float

    Examples
    --------
    >>> symmetric = np.linspace(-1, 1, 201)
    >>> [round(end, 3) for end in bca(symmetric, 0.9, value=0.0, left_out=symmetric)]
    [-0.9, 0.9]
    """
    unit = NormalDist()
    below = np.mean(replicates < value) + np.mean(replicates == value) / 2
    shift = unit.inv_cdf(min(max(float(below), 1e-6), 1 - 1e-6))
    skew = _acceleration(left_out.mean() - left_out)
    ends = []
    for tail in ((1 - confidence) / 2, (1 + confidence) / 2):
        z = shift + unit.inv_cdf(tail)
        room = 1 - skew * z  # where there is none, the end is beyond all replicates
        ends.append(unit.cdf(shift + z / room) if room > 0 else float(z > 0))
    low, high = np.quantile(replicates, ends)
    return float(low), float(high)


def _acceleration(spread: Floats) -> float:
    """A sixth of the skewness; zero for a statistic that never moves."""
    size = np.abs(spread).max()
    if size == 0:
        return 0.0
    spread = spread / size  # its cubes could vanish
    return float((spread**3).sum() / (6 * (spread**2).sum() ** 1.5))


def resampling_counts(groups: int, replicates: int, seed: int) -> Floats:
    """Draw how often each of `groups` occurs in each replicate: rows are multinomial.

    >>> resampling_counts(5, 2, seed=0).sum(axis=1)
    array([5., 5.])
    """
    drawn = np.random.default_rng(seed).integers(groups, size=(replicates, groups))
    drawn += groups * np.arange(replicates)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=replicates * groups)
    return counts.reshape(replicates, groups).astype(np.float64)


INTERVALS: dict[str, Callable[..., Interval]] = {
    "normal": normal,
    "percentile": percentile,
    "bca": bca,
}
