"""Sums over all pairs, from pairs drawn in strata: values, errors, and ends that hold for few.

A metric that adds up pairs is (a₀ + Σ a_ij y_ij) / (b₀ + Σ b_ij y_ij) with y_ij = 1 if pair (i, j)
is relevant; a₀ and b₀ hold what needs no judging. In a stratum of N pairs of which m were judged,
Σ a y is estimated by N/m times its sum over the judged (Horvitz–Thompson), without bias; what is
known of all pairs makes that more precise (`pair_control`).

Answers that are all alike have no variance of their own. It is taken with two more answers, a no
and a yes, of which every stratum has its share of the judged pairs; so is the skewness, which says
how the variance v of a total grows with the total itself: by κ = (1 − 2p) N/m for a share p. The
upper end t solves (t − T)² = z² (v + κ (t − T)), κ averaged over strata by their variance, of those
alone in which it is positive; the lower end likewise. With one stratum that is Wilson's interval up
to its curvature; strata near 0 and near 1 each widen their own side. Quantiles are Student's with
Satterthwaite's degrees of freedom. Only where every pair was judged is there no doubt. A ratio θ =
A/B has the ends at which the interval of A − θ B no longer holds 0.

Numbers are arrays whose last axis runs over kinds of pairs; axes before it, if any, over
repetitions of an audit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from unmask._typing import Floats, Ints
from unmask.data.judgements import IN_TOP, Judgements

STEPS = 44
MANY = 1e6
"""Degrees of freedom from which on Student's t is the normal distribution."""


@dataclass(frozen=True, eq=False)
class Totals:
    """The relevant pairs of a stratum that count alike, and how uncertain their totals are.

    Parameters
    ----------
    total, variance : floats of shape (…, c)
        Σ |a| y (or the number of relevant pairs, where a = 0).
    growth : floats of shape (…, c)
        κ: by how much the variance grows with the total.
    degrees : floats of shape (c,)
        Of freedom, of each variance.
    above, below : floats of shape (c,)
        The signs with which they stand in numerator and denominator: −1, 0 or 1.
    confidence : float
        Of intervals.
    """

    total: Floats
    variance: Floats
    growth: Floats
    degrees: Floats
    above: Floats
    below: Floats
    confidence: float

    def end(self, weights: Floats, side: int) -> Floats:
        """The lower (−1) or upper (1) end of the weighted sum of all totals, (…,) floats."""
        parts = weights**2 * self.variance
        variance = parts.sum(-1)
        some = np.where(variance > 0, variance, 1.0)
        growth = (parts * np.maximum(side * weights * self.growth, 0.0)).sum(-1) / some
        doubt = (parts**2 / self.degrees).sum(-1)
        degrees = np.where(doubt > 0, variance**2 / np.where(doubt > 0, doubt, 1.0), np.inf)
        z = stdtrit(np.minimum(degrees, MANY), (1 + self.confidence) / 2)
        lean = z * growth / 2
        reach = z * (lean + np.sqrt(variance + lean**2))
        return np.asarray((weights * self.total).sum(-1) + side * reach)


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
    codes = np.unique(np.r_[code[counts], _unseen(judged, np.unique(code[counts & (sign != 0)]))])
    place = np.where(counts, np.searchsorted(codes, code), -1)
    size = np.where(sign != 0, np.abs(above), 1.0)
    largest = np.zeros(codes.size)
    np.maximum.at(largest, place[counts], size[counts])
    largest = np.where(largest > 0, largest, largest.max(initial=0.0))
    size = np.where(counts, size / largest[place] if codes.size else size, 0.0)
    return Kinds(place, size, codes // 6, largest, codes // 2 % 3 - 1.0, codes % 2 * 1.0)


def _unseen(judged: Judgements, codes: Ints) -> Ints:
    """The same kinds in strata of predictions of which chance drew no such pair."""
    strata = judged.sample.strata
    tops = [h for h, each in enumerate(strata) if each.kind in IN_TOP and each.drawn]
    own = np.intersect1d(codes // 6, tops)
    signs = np.unique(codes[np.isin(codes // 6, own)] % 6)
    return (np.array(tops, dtype=np.int64)[:, None] * 6 + signs).ravel()


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
    sizes = np.array([each.size for each in judged.sample.strata], dtype=np.int64)[kinds.stratum]
    y = judged.answers * kinds.size
    powers = np.stack([kinds.summed(y**power) for power in (1, 2, 3)])
    return _Strata(powers, drawn, sizes, kinds.largest).totals(
        (kinds.above, kinds.below), confidence
    )


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
    >>> of_counts([3, 2, 0], np.array([10, 20, 5]), np.array([100, 1000, 500]), signs, 0.95).total
    array([ 30., 100.,   0.])
    """
    powers = np.stack([np.asarray(relevant, dtype=np.float64)] * 3)  # of 0 and 1
    return _Strata(powers, drawn, sizes, np.ones(drawn.size)).totals(signs, confidence)


@dataclass(frozen=True, eq=False)
class _Strata:
    """Sums of the first three powers of answers in [0, 1], (3, …, c); sizes (c,)."""

    powers: Floats
    drawn: Ints
    sizes: Ints
    largest: Floats

    def totals(self, signs: tuple[Floats, Floats], confidence: float) -> Totals:
        """Their totals."""
        more = self.drawn / max(self.drawn.sum(), 1)
        scale = self.sizes * self.largest
        first, second, third = (self.powers + more) / (self.drawn + 2 * more)
        spread = np.maximum(second - first**2, 0.0)
        skew = third - 3 * first * second + 2 * first**3
        each = (1 - self.drawn / self.sizes) / self.drawn
        growth = scale * each * skew / np.where(spread > 0, spread, 1.0)
        return Totals(
            scale * self.powers[0] / self.drawn, scale**2 * each * spread, growth,
            np.maximum(self.drawn - 1.0, 1.0), *signs, confidence,
        )  # fmt: skip
