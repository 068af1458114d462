"""Confidence intervals of a statistic of rows: normal, bootstrap percentile, bootstrap BCa.

The bootstrap resamples groups of rows (`state`) by multinomial counts: a replicate is one row of a
matrix of counts times the group sums, so a thousand replicates of every column are one matrix
product and nothing is recomputed.

DiCiccio & Efron, *Bootstrap confidence intervals*, Statistical Science 1996.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from unmask._typing import Floats

Interval = tuple[float, float]


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
    half = NormalDist().inv_cdf((1 + confidence) / 2) * standard_error
    return value - half, value + half


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
    """How often each of `groups` is drawn in each replicate: rows are multinomial.

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
