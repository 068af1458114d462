"""The level of all propensities: what rows that nobody audited say of it.

Audited rows may by chance be those of little effort, and then all propensities come out too low
together. How many labels *all* rows show on average is known, and a random part of the rows that
shows fewer has lost more. With k_i kept, K_i true and x_i observed labels of m audited rows out of
n, the logarithm of the kept share, log Σk/ΣK, is corrected as by regression:

    θ = log Σk/ΣK + β (x̄_all − x̄),     β = Cov(z, x)/Var(x),   z_i = k_i/k̄ − K_i/K̄
    Var(θ) = (1 − m/n) Var(z − βx)/m

β is multiplied by max(0, 1 − 2/F), F its F statistic, so that few rows whose counts say little are
left as they are. The correction holds for any masks, for rows that were drawn at random.

Cochran, *Sampling techniques* (1977), chapter 7.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from unmask._typing import Floats

FEWEST = 10
"""Audited rows from which on a regression says something."""
MOST = 0.999
"""A share of kept labels that is not exceeded."""


class Level(NamedTuple):
    """How the logarithm of the kept share is corrected, and the variance of what comes out."""

    shift: float
    variance: float


def level_of(kept: Floats, true: Floats, shown: Floats, mean_shown: float, n: int) -> Level | None:
    """The correction; None where there is nothing to learn.

    Parameters
    ----------
    kept, true, shown : (m,) floats
        Kept, true and observed labels of every audited row.
    mean_shown : float
        Observed labels per row, over all rows.
    n : int
        All rows.

    Returns
    -------
    Level or None

    Examples
    --------
    Of rows with two labels each, half lose both; 40 of 100 audited rows are such:

    >>> kept = np.repeat([2.0, 0.0], [60, 40])
    >>> made = level_of(kept, np.full(100, 2.0), kept, 1.0, 10**6)
    >>> round(float(np.exp(np.log(0.6) + made.shift)), 3)
    0.508
    """
    m = kept.size
    if not (m >= FEWEST and n > m and kept.any() and np.ptp(shown)):
        return None
    residual = kept / kept.mean() - true / true.mean()
    along = shown - shown.mean()
    length = float(along @ along)
    slope = float(along @ residual) / length
    noise = float(((residual - residual.mean() - slope * along) ** 2).sum()) / (m - 2)
    gain = slope**2 * length
    slope *= max(0.0, 1.0 - 2.0 * noise / gain) if gain else 0.0
    left = residual - slope * along
    variance = (1 - m / n) * float(((left - left.mean()) ** 2).sum()) / (m - 2) / m
    return Level(slope * (mean_shown - float(shown.mean())), variance)


def odds_shift(level: Level, of: Floats, p: Floats) -> tuple[float, float]:
    """The same as a shift δ of all logits, Σ K_j p_j(δ) = e^shift Σ K_j p_j, and its variance.

    Parameters
    ----------
    level : Level
    of : (L,) floats
        K_j, true labels of the audited rows.
    p : (L,) floats in (0, 1)
        The propensities before.

    Returns
    -------
    shift, variance : float

    Examples
    --------
    >>> shift, variance = odds_shift(Level(np.log(1.5), 0.01), np.array([10.0]), np.array([0.5]))
    >>> round(shift, 3), round(variance, 3)
    (1.099, 0.16)
    """
    used = of > 0
    weight, odds = of[used] / of[used].sum(), logit(p[used])
    target = min(float(np.exp(level.shift) * (weight @ p[used])), MOST)
    shift = float(brentq(lambda x: weight @ expit(odds + x) - target, -50, 50, xtol=1e-12))
    after = expit(odds + shift)
    slope = float(weight @ (after * (1 - after)) / (weight @ after))
    return shift, level.variance / slope**2
