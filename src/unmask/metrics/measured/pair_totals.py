"""Sums over all pairs, from pairs drawn in strata: values, errors, and ends that hold for few.

A metric that adds up pairs is (a₀ + Σ a_ij y_ij) / (b₀ + Σ b_ij y_ij) with y_ij = 1 if pair (i, j)
is relevant; a₀ and b₀ hold what needs no judging. In a stratum of N pairs of which m were judged,
Σ a y is estimated by N/m times its sum over the judged (Horvitz–Thompson), without bias.

A total has an interval from those of its strata (square and add, keeping either side to itself),
so that a huge stratum in which nothing was found still counts: its upper end is 1 − (α/2)^(1/m),
not 0. A ratio θ = A/B has the ends at which the interval of A − θ B no longer holds 0.

Zou & Donner, *Construction of confidence limits about effect measures*, Statistics in Medicine
2008.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from unmask._typing import Bools, Floats
from unmask.data.judgements import Judgements

STEPS = 60


@dataclass(frozen=True, eq=False)
class Cell:
    """The relevant pairs of one stratum that count alike: their total, and its interval.

    Parameters
    ----------
    total, low, high, variance : float
        Σ |a| y (or the number of them, where a = 0) over the stratum.
    above, below : float
        The signs with which it stands in numerator and denominator: −1, 0 or 1.
    """

    total: float
    low: float
    high: float
    variance: float
    above: float
    below: float


@dataclass(frozen=True, eq=False)
class Fraction:
    """(a₀ + Σ a y) / (b₀ + Σ b y) as a sum over cells.

    Parameters
    ----------
    cells : tuple of Cell
    above, below : float
        a₀ and b₀.
    limits : pair of float
        Between which the true fraction lies.
    """

    cells: tuple[Cell, ...]
    above: float
    below: float
    limits: tuple[float, float]

    @property
    def value(self) -> float:
        """The estimate; 0 where there is nothing to find."""
        above = self.above + sum(cell.above * cell.total for cell in self.cells)
        return above / self.denominator if self.denominator > 0 else 0.0

    @property
    def denominator(self) -> float:
        """The estimated denominator."""
        return self.below + sum(cell.below * cell.total for cell in self.cells)

    @property
    def standard_error(self) -> float:
        """Of the linearised fraction."""
        theta, below = self.value, self.denominator
        squares = sum((c.above - theta * c.below) ** 2 * c.variance for c in self.cells)
        return math.sqrt(squares) / below if below > 0 else math.inf

    def interval(self) -> tuple[float, float]:
        """The ends, within the limits."""
        low, high = self.limits
        centre = min(max(self.value, low), high)
        return (
            _crossing(lambda theta: self._end(theta, -1), low, centre),
            _crossing(lambda theta: self._end(theta, 1), centre, high),
        )

    def _end(self, theta: float, side: int) -> float:
        """The lower (−1) or upper (1) end of A − θ B, which falls as θ rises."""
        middle = self.above - theta * self.below
        squares = 0.0
        for cell in self.cells:
            weight = cell.above - theta * cell.below
            middle += weight * cell.total
            towards_high = (weight > 0) == (side > 0)
            reach = cell.high - cell.total if towards_high else cell.total - cell.low
            squares += (weight * reach) ** 2
        return middle + side * math.sqrt(squares)


def _crossing(end: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function crosses 0 between two points; the nearer point if it does not."""
    if end(low) <= 0:
        return low
    if end(high) >= 0:
        return high
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if end(middle) > 0 else (low, middle)
    return (low + high) / 2


def cells(judged: Judgements, above: Floats, below: Floats, confidence: float) -> tuple[Cell, ...]:
    """One cell per stratum and kind of pair.

    Parameters
    ----------
    judged : Judgements
        Of pairs.
    above, below : floats of shape (m,)
        a and b of every judged pair; b is 0 or 1 (and a is −1, 0 or 1 if any b is not 0).
    confidence : float
        Of the intervals.

    Returns
    -------
    tuple of Cell
    """
    made = []
    for h, stratum in enumerate(judged.sample.strata):
        mine = judged.sample.stratum == h
        if not mine.any():
            continue
        for sign in (-1.0, 0.0, 1.0):
            kind = np.sign(above[mine]) == sign
            for b in (0.0, 1.0):
                of_kind = kind & (below[mine] == b)
                if (sign or b) and of_kind.any():
                    size = np.abs(above[mine]) if sign else np.ones(kind.size)
                    y = judged.answers[mine] * size * of_kind
                    made.append(_cell(y, of_kind, size, stratum.size, (sign, b), confidence))
    return _merged(made)


def _merged(made: list[Cell]) -> tuple[Cell, ...]:
    """All cells of a kind in which nothing was found, as one.

    If nothing was found in any of them, Π (1 − p_h)^(m_h) ≥ α/2 bounds Σ N_h p_h by the largest of
    their upper ends (up to terms of second order in p): they are not all as bad as they could be.
    """
    nothing: dict[tuple[float, float], Cell] = {}
    rest = []
    for cell in made:
        kind = cell.above, cell.below
        if cell.total:
            rest.append(cell)
        elif kind not in nothing or cell.high > nothing[kind].high:
            nothing[kind] = cell
    return (*rest, *nothing.values())


def _cell(
    y: Floats,
    of_kind: Bools,
    size: Floats,
    population: int,
    signs: tuple[float, float],
    confidence: float,
) -> Cell:
    largest = float(size[of_kind].max())
    m = y.size
    mean = float(y.mean()) / largest
    spread = float(((y / largest - mean) ** 2).sum()) / max(m - 1, 1)
    open_share = 1 - m / population
    low, high = mean_interval(mean, spread, m, population, confidence)
    scale = population * largest
    return Cell(scale * mean, scale * low, scale * high, scale**2 * open_share * spread / m, *signs)


def mean_interval(
    mean: float, spread: float, m: int, population: int, confidence: float
) -> tuple[float, float]:
    """Ends for the mean of a finite population in [0, 1], from m values drawn from it.

    Wilson's interval with as many draws as the variance is worth; where all values are 0 (or 1),
    the end 1 − (α/2)^(1/m) of the binomial distribution.

    Parameters
    ----------
    mean, spread : float
        Of the drawn values: mean and variance.
    m, population : int
        How many were drawn, of how many.
    confidence : float

    Returns
    -------
    pair of float

    Examples
    --------
    >>> low, high = mean_interval(0.0, 0.0, 100, 10**9, 0.95)
    >>> low, round(high, 4), round(1 - 0.025 ** (1 / 100), 4)
    (0.0, 0.0362, 0.0362)
    >>> mean_interval(0.3, 0.2, 50, 50, 0.95)  # all of them
    (0.3, 0.3)
    """
    if m >= population:
        return mean, mean
    open_share = (population - m) / (population - 1)
    draws = m / open_share
    tail = (1 - confidence) / 2
    if mean in (0.0, 1.0):
        reach = 1 - tail ** (1 / draws)
        return (0.0, reach) if mean == 0 else (1 - reach, 1.0)
    if spread > 0:
        draws *= min(1.0, mean * (1 - mean) / spread)
    z = NormalDist().inv_cdf(1 - tail)
    centre = (mean + z * z / (2 * draws)) / (1 + z * z / draws)
    half = z * math.sqrt(mean * (1 - mean) / draws + z * z / (4 * draws**2)) / (1 + z * z / draws)
    return max(0.0, centre - half), min(1.0, centre + half)
