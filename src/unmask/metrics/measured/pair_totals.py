"""Sums over all pairs, from pairs drawn in strata: values, errors, and ends that hold for few.

A metric that adds up pairs is (a₀ + Σ a_ij y_ij) / (b₀ + Σ b_ij y_ij) with y_ij = 1 if pair (i, j)
is relevant; a₀ and b₀ hold what needs no judging. In a stratum of N pairs of which m were judged,
Σ a y is estimated by N/m times its sum over the judged (Horvitz–Thompson), without bias; what is
known of all pairs makes that more precise (`pair_control`).

All strata whose pairs count alike have one interval: Wilson's, for the share of relevant pairs that
a simple sample of as much variance would find. Strata in which nothing was found still count: the
upper end of the total is 1 − (α/2)^(1/m) of the worst of them, not 0 (if nothing was found in any,
Π (1 − p_h)^(m_h) ≥ α/2 bounds Σ N_h p_h by the largest of their upper ends). Intervals of totals
are added square by square, either side for itself; a ratio θ = A/B has the ends at which the
interval of A − θ B no longer holds 0.

Numbers are arrays whose last axis runs over strata or kinds of pairs; axes before it, if any, over
repetitions of an audit.

Zou & Donner, *Construction of confidence limits about effect measures*, Statistics in Medicine
2008.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from unmask._typing import Floats, Ints
from unmask.data.judgements import Judgements
from unmask.metrics.intervals import wilson, z_quantile

STEPS = 44
ENDLESS = 1e12
"""A population of which any sample is a small part."""


@dataclass(frozen=True, eq=False)
class Totals:
    """The relevant pairs that count alike: their totals, and an interval of each.

    Parameters
    ----------
    total, low, high, variance : floats of shape (…, c)
        Σ |a| y (or the number of relevant pairs, where a = 0), first by kind over the strata in
        which something was found, then by kind over the others.
    above, below : floats of shape (c,)
        The signs with which they stand in numerator and denominator: −1, 0 or 1.
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
    strata = _Strata(mean, spread, drawn, sizes, kinds.largest)
    return _pooled(strata, (kinds.above, kinds.below), confidence)


def of_counts(
    relevant: ArrayLike, drawn: Ints, sizes: Ints, signs: tuple[Floats, Floats], confidence: float
) -> Totals:
    """Totals from how many of the judged pairs of each stratum are relevant.

    Parameters
    ----------
    relevant : integers of shape (…, h)
    drawn, sizes : integers of shape (h,)
        How many pairs of every stratum were judged, at least one, and how many there are.
    signs : pair of floats of shape (h,)
        With which the strata stand in numerator and denominator.
    confidence : float

    Returns
    -------
    Totals

    Examples
    --------
    >>> signs = np.array([1.0, 0.0, 0.0]), np.ones(3)
    >>> made = of_counts([3, 2, 0], np.array([10, 20, 5]), np.array([100, 1000, 500]), signs, 0.95)
    >>> made.total, made.above  # relevant ones of either kind, then strata without any
    (array([100.,  30.,   0.,   0.]), array([0., 1., 0., 1.]))
    """
    mean = np.asarray(relevant, dtype=np.float64) / drawn
    spread = mean * (1 - mean) * drawn / np.maximum(drawn - 1, 1)
    strata = _Strata(mean, spread, drawn, sizes, np.ones(drawn.size))
    return _pooled(strata, signs, confidence)


@dataclass(frozen=True, eq=False)
class _Strata:
    """What was found in strata: mean and variance (…, h) of answers, and the sizes (h,)."""

    mean: Floats
    spread: Floats
    drawn: Ints
    sizes: Ints
    largest: Floats


def _pooled(strata: _Strata, signs: tuple[Floats, Floats], confidence: float) -> Totals:
    """Totals by kind: first of strata in which something was found, then of the others."""
    if not strata.drawn.size:
        return Totals(*(np.zeros(0),) * 6)
    scale = strata.sizes * strata.largest
    something = strata.mean > 0
    open_share = 1 - strata.drawn / strata.sizes
    variance = scale**2 * open_share * strata.spread / strata.drawn
    _, nothing = mean_interval(0.0 * strata.mean, 0.0, strata.drawn, strata.sizes, confidence)
    ends = np.where(something, 0.0, scale * nothing)
    kinds, kind = np.unique(np.stack(signs), axis=1, return_inverse=True)
    parts = []
    for each in range(kinds.shape[1]):
        mine = kind.ravel() == each
        most = np.where(something, scale, 0.0)[..., mine].sum(-1)
        parts.append(
            _total((scale * strata.mean)[..., mine].sum(-1), variance[..., mine].sum(-1), most,
                   confidence)
        )  # fmt: skip
    zeros = np.zeros_like(np.stack([part[0] for part in parts], axis=-1))
    largest = [ends[..., kind.ravel() == each].max(-1) for each in range(kinds.shape[1])]
    first = [np.stack(column, axis=-1) for column in zip(*parts, strict=True)]
    second = [zeros, zeros, np.stack(largest, axis=-1), zeros]
    joined = [np.concatenate(both, axis=-1) for both in zip(first, second, strict=True)]
    return Totals(*joined, *np.tile(kinds, 2))


def _total(
    total: Floats, variance: Floats, most: Floats, confidence: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """A total of at most `most`, Wilson's ends for a share of as uncertain, and the variance."""
    share = total / np.maximum(most, 1e-300)
    trials = share * (1 - share) * most**2 / np.where(variance > 0, variance, 1.0)
    low, high = wilson(share, np.maximum(trials, 1e-9), z_quantile(confidence))
    uncertain = variance > 0
    return (
        total, np.where(uncertain, most * low, total), np.where(uncertain, most * high, total),
        variance,
    )  # fmt: skip


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
