"""Sums over all pairs, from pairs drawn in strata: values, errors, and ends that hold for few.

A metric that adds up pairs is (a₀ + Σ a_ij y_ij) / (b₀ + Σ b_ij y_ij) with y_ij = 1 if pair (i, j)
is relevant; a₀ and b₀ hold what needs no judging. In a stratum of N pairs of which m were judged,
Σ a y is estimated by N/m times its sum over the judged (Horvitz–Thompson), without bias; what is
known of all pairs makes that more precise (`pair_control`).

A total has an interval from those of its strata (square and add, keeping either side to itself),
so that a huge stratum in which nothing was found still counts: its upper end is 1 − (α/2)^(1/m),
not 0. A ratio θ = A/B has the ends at which the interval of A − θ B no longer holds 0.

Numbers are arrays whose last axis runs over strata and kinds of pairs; axes before it, if any, over
repetitions of an audit.

Zou & Donner, *Construction of confidence limits about effect measures*, Statistics in Medicine
2008.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from unmask._typing import Floats, Ints
from unmask.data.judgements import Judgements
from unmask.metrics.intervals import wilson, z_quantile

STEPS = 44
ENDLESS = 1e15
"""A population of which any sample is a small part."""


@dataclass(frozen=True, eq=False)
class Totals:
    """The relevant pairs of strata that count alike: their totals, and an interval of each.

    Parameters
    ----------
    total, low, high, variance : floats of shape (…, c)
        Σ |a| y (or the number of relevant pairs, where a = 0) over the stratum.
    above, below : floats of shape (c,)
        The signs with which it stands in numerator and denominator: −1, 0 or 1.
    """

    total: Floats
    low: Floats
    high: Floats
    variance: Floats
    above: Floats
    below: Floats

    def end(self, weights: Floats, side: int) -> Floats:
        """The lower (−1) or upper (1) end of the weighted sum of all totals, (…,) floats."""
        towards_high = (weights > 0) == (side > 0)
        reach = np.where(towards_high, self.high - self.total, self.total - self.low)
        reach = weights * reach
        return np.asarray((weights * self.total).sum(-1) + side * np.sqrt((reach**2).sum(-1)))


@dataclass(frozen=True, eq=False)
class Fraction:
    """(a₀ + Σ a y) / (b₀ + Σ b y).

    Parameters
    ----------
    totals : Totals
    above, below : float
        a₀ and b₀.
    limits : pair of float
        Between which the true fraction lies.
    """

    totals: Totals
    above: float
    below: float
    limits: tuple[float, float]

    @property
    def value(self) -> Floats:
        """The estimate, (…,) floats; 0 where there is nothing to find."""
        above = self.above + (self.totals.above * self.totals.total).sum(-1)
        below = self.denominator
        return np.asarray(np.where(below > 0, above / np.where(below > 0, below, 1), 0.0))

    @property
    def denominator(self) -> Floats:
        """The estimated denominator, (…,) floats."""
        return np.asarray(self.below + (self.totals.below * self.totals.total).sum(-1))

    @property
    def standard_error(self) -> Floats:
        """Of the linearised fraction, (…,) floats."""
        below = self.denominator
        squares = (self._weights(self.value) ** 2 * self.totals.variance).sum(-1)
        error = np.sqrt(squares) / np.where(below > 0, below, 1)
        return np.asarray(np.where(below > 0, error, np.inf))

    def interval(self) -> tuple[Floats, Floats]:
        """The ends, within the limits; each (…,) floats."""
        centre = np.clip(self.value, *self.limits)
        low, high = (np.full_like(centre, end) for end in self.limits)
        return (
            _crossing(lambda theta: self._end(theta, -1), low, centre),
            _crossing(lambda theta: self._end(theta, 1), centre, high),
        )

    def _weights(self, theta: Floats) -> Floats:
        return np.asarray(self.totals.above - theta[..., None] * self.totals.below)

    def _end(self, theta: Floats, side: int) -> Floats:
        """The lower or upper end of A − θ B, which falls as θ rises."""
        return self.above - theta * self.below + self.totals.end(self._weights(theta), side)


def _crossing(end: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Where a falling function crosses 0 between two points; the nearer point if it does not."""
    below, above = end(low) <= 0, end(high) >= 0
    left, right = low, high
    for _ in range(STEPS):
        middle = (left + right) / 2
        falls_later = end(middle) > 0
        left, right = np.where(falls_later, middle, left), np.where(falls_later, right, middle)
    return np.where(below, low, np.where(above, high, (left + right) / 2))


@dataclass(frozen=True, eq=False)
class Kinds:
    """Judged pairs by stratum and by the signs of a and b: which of them add up.

    Parameters
    ----------
    place : integers of shape (m,)
        The position of every pair's kind, −1 for pairs that count nowhere.
    size : floats of shape (m,)
        |a| of every pair, or 1 where a = 0, over the largest of its kind.
    stratum : integers of shape (c,)
        The stratum of every kind.
    largest, above, below : floats of shape (c,)
        The largest |a|, and the signs.
    """

    place: Ints
    size: Floats
    stratum: Ints
    largest: Floats
    above: Floats
    below: Floats

    def summed(self, values: Floats) -> Floats:
        """Sums over the pairs of every kind, (c,) floats."""
        mine = self.place >= 0
        summed = np.bincount(self.place[mine], values[mine], minlength=self.stratum.size)
        return summed.astype(np.float64)


def kinds_of(judged: Judgements, above: Floats, below: Floats) -> Kinds:
    """Judged pairs by stratum and signs.

    Parameters
    ----------
    judged : Judgements
        Of pairs.
    above, below : floats of shape (m,)
        a and b of every judged pair; b is 0 or 1 (and a is −1, 0 or 1 if any b is not 0).

    Returns
    -------
    Kinds
    """
    sign = np.sign(above)
    counts = (sign != 0) | (below != 0)
    code = judged.sample.stratum * 6 + (sign + 1).astype(np.int64) * 2 + below.astype(np.int64)
    codes, place_of = np.unique(code[counts], return_inverse=True)
    place = np.full(above.size, -1, dtype=np.int64)
    place[counts] = place_of
    size = np.where(sign != 0, np.abs(above), 1.0)
    largest = np.zeros(codes.size)
    np.maximum.at(largest, place_of, size[counts])
    size = np.where(counts, size / largest[place] if codes.size else size, 0.0)
    return Kinds(place, size, codes // 6, largest, codes // 2 % 3 - 1.0, codes % 2 * 1.0)


def totals(judged: Judgements, kinds: Kinds, confidence: float) -> Totals:
    """The totals of all kinds of pairs, with their intervals.

    Parameters
    ----------
    judged : Judgements
        Of pairs.
    kinds : Kinds
        As `kinds_of` made them.
    confidence : float
        Of the intervals.

    Returns
    -------
    Totals
    """
    drawn = np.bincount(judged.sample.stratum, minlength=len(judged.sample.strata))[kinds.stratum]
    sizes = np.array([each.size for each in judged.sample.strata])[kinds.stratum]
    y = judged.answers * kinds.size
    mean = kinds.summed(y) / drawn
    spread = np.maximum(kinds.summed(y * y) - drawn * mean**2, 0) / np.maximum(drawn - 1, 1)
    scale = sizes * kinds.largest
    low, high = mean_interval(mean, spread, drawn, sizes, confidence)
    variance = scale**2 * (1 - drawn / sizes) * spread / drawn
    return merged(
        Totals(scale * mean, scale * low, scale * high, variance, kinds.above, kinds.below)
    )


def merged(made: Totals) -> Totals:
    """Of all totals of a kind in which nothing was found, only the largest upper end counts.

    If nothing was found in any of them, Π (1 − p_h)^(m_h) ≥ α/2 bounds Σ N_h p_h by the largest of
    their upper ends (up to terms of second order in p): they are not all as bad as they could be.

    Parameters
    ----------
    made : Totals

    Returns
    -------
    Totals
    """
    high = made.high.copy()
    signs = np.stack([made.above, made.below])
    for kind in np.unique(signs, axis=1).T:
        mine = (signs == kind[:, None]).all(axis=0)
        nothing = mine & (made.total == 0)
        ends = np.where(nothing, high, -1.0)
        largest = ends == ends.max(axis=-1, keepdims=True, initial=0.0)
        first = np.cumsum(largest, axis=-1) == 1
        high = np.where(nothing & ~(largest & first), 0.0, high)
    return replace(made, high=high)


def mean_interval(
    mean: ArrayLike, spread: ArrayLike, drawn: ArrayLike, population: ArrayLike, confidence: float
) -> tuple[Floats, Floats]:
    """Ends for means of finite populations in [0, 1], from values drawn from each.

    Wilson's interval with as many draws as the variance is worth; where all values are 0 (or 1),
    the end 1 − (α/2)^(1/m) of the binomial distribution.

    Parameters
    ----------
    mean, spread : floats of any shape
        Of the drawn values: mean and variance.
    drawn, population : numbers of the same shape
        How many were drawn, of how many.
    confidence : float

    Returns
    -------
    pair of floats of that shape

    Examples
    --------
    >>> low, high = mean_interval([0.0, 0.3], [0.0, 0.2], [100, 50], [10**9, 50], 0.95)
    >>> low, high.round(4), round(1 - 0.025 ** (1 / 100), 4)  # of the second, all were drawn
    (array([0. , 0.3]), array([0.0362, 0.3   ]), 0.0362)
    """
    mean, spread = np.asarray(mean, dtype=np.float64), np.asarray(spread, dtype=np.float64)
    drawn, population = np.asarray(drawn, np.float64), np.asarray(population, np.float64)
    complete = drawn >= population
    open_share = np.where(complete, 1.0, (population - drawn) / np.maximum(population - 1, 1))
    draws = drawn / open_share
    worth = np.minimum(1.0, mean * (1 - mean) / np.where(spread > 0, spread, 1.0))
    worth = np.where((spread > 0) & (worth > 0), worth, 1.0)
    low, high = wilson(mean, draws * worth, z_quantile(confidence))
    reach = 1 - ((1 - confidence) / 2) ** (1 / draws)
    low = np.where(mean == 1, 1 - reach, np.where(mean == 0, 0.0, low))
    high = np.where(mean == 0, reach, np.where(mean == 1, 1.0, high))
    return np.where(complete, mean, low), np.where(complete, mean, high)
