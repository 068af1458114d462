"""Means and totals from samples of rows and pairs, adjusted by what is known of all of them.

**Rows.** For rows i = 1 … n with values u_i, of which a sample S of m is judged, and any f_i known
for all,

    θ̂ = mean over all f + mean over S (u − f)

is right for every f that does not depend on the judged rows it is applied to, and precise where f
predicts u. f is a ridge regression on covariates of all rows, cross-fitted: the sample is cut into
folds, and a row is predicted by the others. Sampling is without replacement, so that a fold is a
random part of the rows that are *not* in the other folds T, and exactly unbiased for any n is

    θ̂ = mean over folds of (1/n) [ Σ_T u + Σ_{not T} f + (n − |T|) mean over the fold (u − f) ]

where folds count by their sizes, so that every judged row does as much. It differs from the above
by O(1/n). In a stratified sample the last mean is taken by stratum.
With s² the variance of the cross-fitted residuals, drawn as if by one more row of each of the two
extreme values (of differences by one towards ¼),

    Var(θ̂) = Σ_h W_h² [ (1 − m_h/n_h) s_h²/m_h + V̄_h/n_h ]

where V̄ is the mean variance of values that are themselves estimated (pairs within a row), else 0.
The variance of a stratum of which one row was judged is unknown, and taken as the largest of that
bound and of the other strata.

Angelopoulos et al., *Prediction-powered inference*, Science 2023; Särndal, Swensson & Wretman,
*Model assisted survey sampling*, 1992, for the variance of two phases.

**Pairs.** A metric that adds up pairs is (a₀ + Σ a_ij y_ij) / (b₀ + Σ b_ij y_ij) with y_ij = 1 if
pair (i, j) is relevant; a₀ and b₀ hold what needs no judging. In a stratum of N pairs of which m
were judged, Σ a y is estimated by N/m times its sum over the judged (Horvitz–Thompson), without
bias; what is known of all pairs makes that more precise.

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

**Adjusted pairs.** For pairs in strata with answers y, of which some are judged, and any x known of
all of them,

    Σ y  =  β Σ over all x  +  Σ over strata of N_h · mean over the judged (y − β x)

on average, whatever β is, as long as β does not depend on the pairs to which it is applied: a judge
who is wrong cannot bias the total, only fail to narrow it. β is a ridge regression within strata,
with the weights that the strata have in the variance, cross-fitted: the judged pairs are cut into
folds, and those of a fold meet the β of the others, T. Drawing is without replacement, so that
exactly unbiased is, as for rows,

    mean over folds of  β Σ_all x + Σ_T (y − β x) + Σ_h (N_h − |T_h|) mean over the fold (y − β x)

where folds count by their sizes. x may say more among the predictions than elsewhere, so that every
covariate has a slope of its own for pairs among the first k, for those further down a list, and for
the others.

Variances are those of the plain totals, scaled by what is left of their spread in all strata of one
kind; one more relevant pair that x does not foresee is added to both, so that few relevant pairs
narrow little.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from unmask._typing import Floats, Ints
from unmask.arrays import TopK, listed_keys, pair_keys
from unmask.data.judgements import IN_TOP, Judgements
from unmask.metrics.measured.context import Columns, CovariatesLike, PairColumns, pair_columns

Limits: TypeAlias = "tuple[float, float] | tuple[Floats, Floats]"
FOLDS, RIDGE = 10, 10.0
SPREAD = 0.25
"""The largest variance of a value in [0, 1]."""
STEPS = 44
MANY = 1e6
"""Degrees of freedom from which on Student's t is the normal distribution."""
UNFORESEEN = 1.0
"""Relevant pairs that covariates are supposed not to have foreseen, beside the judged ones."""


# --- rows


@dataclass(frozen=True, eq=False)
class RowSample:
    """Judged rows and their values.

    Parameters
    ----------
    rows, stratum : integers of shape (m,)
        The judged rows, and the stratum of each.
    sizes : integers of shape (H,)
        How many rows the strata have; together n.
    values : floats of shape (m, c)
        What was measured, c numbers of each row.
    variances : floats of shape (m,), or None
        Of values that are themselves estimated: an estimate of the variance of the first number
        (of the linearised ratio of two) within the row. None, with `estimated`, if unknown.
    estimated : bool, default False
        Whether values are estimates.
    """

    rows: Ints
    stratum: Ints
    sizes: Ints
    values: Floats
    variances: Floats | None = None
    estimated: bool = False

    @property
    def drawn(self) -> Ints:
        """The number of rows that were judged in each stratum."""
        return np.bincount(self.stratum, minlength=self.sizes.size)


@dataclass(frozen=True, eq=False)
class Controlled:
    """Means over all rows, and the residuals that they left.

    Parameters
    ----------
    means : floats of shape (c,)
        Of the values.
    residuals : floats of shape (m, c)
        u − f of every judged row, f fitted without it.
    """

    means: Floats
    residuals: Floats


def controlled(
    sample: RowSample, covariates: Columns | None, limits: Limits, seed: int = 0
) -> Controlled:
    """Return means over all rows with cross-fitted control variates; see the module.

    Parameters
    ----------
    sample : RowSample
    covariates : Columns or None
        Of all rows. None: the plain stratified mean.
    limits : pair of float, or of floats of shape (c,)
        Between which predictions are kept.
    seed : int, default 0
        Decides the folds.

    Returns
    -------
    Controlled

    Examples
    --------
    >>> x = np.arange(100.0)[:, None]
    >>> rows = np.array([3, 50, 80, 20, 99, 61])
    >>> sample = RowSample(rows, np.zeros(6, int), np.array([100]), x[rows] / 100)
    >>> each = [controlled(sample, c, (0, 1)).means[0] for c in (None, Columns.of(x))]
    >>> bool(abs(each[1] - 0.495) < abs(each[0] - 0.495))
    True
    """
    folds = min(FOLDS, int(sample.drawn[sample.sizes > 0].min(initial=FOLDS)))
    if covariates is None or folds < 2:
        return _plain(sample)
    fold = folds_of(sample.stratum, folds, seed)
    z, values = covariates.at(sample.rows), sample.values
    fits = [ridge(z[fold != each], values[fold != each]) for each in range(folds)]
    low, high = (np.broadcast_to(end, values.shape[1]) for end in limits)
    sums = covariates.clipped_sums(
        np.concatenate([slope for slope, _ in fits], axis=1),
        np.concatenate([intercept for _, intercept in fits]),
        np.tile(low, folds),
        np.tile(high, folds),
    ).reshape(folds, -1)
    n, strata = int(sample.sizes.sum()), sample.sizes.size
    means, residuals = np.zeros(values.shape[1]), np.empty_like(values)
    for each, (slope, intercept) in enumerate(fits):
        out = fold == each
        predicted = np.clip(z @ slope + intercept, low, high)
        residuals[out] = values[out] - predicted[out]
        left = sample.sizes - np.bincount(sample.stratum[~out], minlength=strata)
        total = values[~out].sum(axis=0) + sums[each] - predicted[~out].sum(axis=0)
        total += left @ _by_stratum(residuals[out], sample.stratum[out], strata)
        means += total / n * (out.sum() / out.size)
    return Controlled(means, residuals)


def variance(sample: RowSample, residuals: Floats, largest: float = SPREAD) -> float:
    """Return the variance of a mean, from one residual per judged row.

    Parameters
    ----------
    sample : RowSample
    residuals : floats of shape (m,)
    largest : float, default 0.25
        What further rows are supposed to add to the squares of the residuals.

    Returns
    -------
    float

    Examples
    --------
    >>> half = RowSample(np.arange(50), np.zeros(50, int), np.array([100]), np.zeros((50, 1)))
    >>> variance(half, np.tile([0.0, 1.0], 25))  # (1 − ½) (49 s² + ¼) / 50 / 50, s² = 12.5/49
    0.00255
    """
    drawn, n, total = sample.drawn, float(sample.sizes.sum()), 0.0
    squares = {
        h: float(((mine - mine.mean()) ** 2).sum())
        for h in np.flatnonzero(drawn)
        for mine in (residuals[sample.stratum == h],)
    }
    unknown = max([largest, *(squares[h] / drawn[h] for h in squares)])
    for h in squares:
        m, size, weight = float(drawn[h]), float(sample.sizes[h]), sample.sizes[h] / n
        spread = (squares[h] + largest * m / residuals.size) / m if m > 1 else unknown
        open_share = 1 - m / size
        inner = 0.0
        if sample.estimated and sample.variances is None:
            open_share = 1.0  # an upper bound: what is not known within rows may be all of it
        elif sample.variances is not None:
            inner = max(0.0, float(sample.variances[sample.stratum == h].mean())) / size
        total += weight**2 * (open_share * spread / m + inner)
    return float(total)


def _plain(sample: RowSample) -> Controlled:
    by_stratum = _by_stratum(sample.values, sample.stratum, sample.sizes.size)
    judged = sample.drawn > 0
    weight = np.where(judged, sample.sizes, 0) / sample.sizes[judged].sum()
    residuals = sample.values - by_stratum[sample.stratum]
    return Controlled(weight @ by_stratum, residuals)


def _by_stratum(values: Floats, stratum: Ints, count: int) -> Floats:
    """Return means of the columns within strata, (count, c); 0 in strata without values."""
    sums = np.stack([np.bincount(stratum, column, minlength=count) for column in values.T], axis=1)
    return np.asarray(sums / np.maximum(np.bincount(stratum, minlength=count), 1)[:, None])


def folds_of(stratum: Ints, folds: int, seed: int) -> Ints:
    """Return a fold for every unit, as even as possible within strata and at random."""
    order = np.random.default_rng(seed).permutation(stratum.size)
    fold = np.empty(stratum.size, dtype=np.int64)
    for h in np.unique(stratum):
        members = order[stratum[order] == h]
        fold[members] = np.arange(members.size) % folds
    return fold


def ridge(z: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return slopes (q, c) and intercepts (c,) of a ridge regression; intercepts are not shrunk."""
    centre, mean = z.mean(axis=0), values.mean(axis=0)
    gram = (z - centre).T @ (z - centre) + RIDGE * np.eye(z.shape[1])
    slope = np.linalg.solve(gram, (z - centre).T @ (values - mean))
    return slope, np.asarray(mean - centre @ slope)


# --- pairs


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
        """Return the lower (−1) or upper (1) end of the weighted sum of all totals, (…,) floats."""
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
        """The standard error of the linearised fraction, (…,) floats."""
        below = self.denominator
        squares = (self._weights(self.value) ** 2 * self.totals.variance).sum(-1)
        error = np.sqrt(squares) / np.where(below > 0, below, 1)
        return np.asarray(np.where(below > 0, error, np.inf))

    def interval(self) -> tuple[Floats, Floats]:
        """Return the ends, within the limits; each (…,) floats."""
        centre = np.clip(self.value, *self.limits)
        low, high = (np.full_like(centre, end) for end in self.limits)
        return (
            _crossing(lambda theta: self._end(theta, -1), low, centre),
            _crossing(lambda theta: self._end(theta, 1), centre, high),
        )

    def _weights(self, theta: Floats) -> Floats:
        return np.asarray(self.totals.above - theta[..., None] * self.totals.below)

    def _end(self, theta: Floats, side: int) -> Floats:
        """Return the lower or upper end of A − θ B, which falls as θ rises."""
        return self.above - theta * self.below + self.totals.end(self._weights(theta), side)


def _crossing(end: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Return where a falling function crosses 0 between two points, or the nearer point."""
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
        """Return sums over the pairs of every kind, (c,) floats."""
        mine = self.place >= 0
        summed = np.bincount(self.place[mine], values[mine], minlength=self.stratum.size)
        return summed.astype(np.float64)


def kinds_of(judged: Judgements, above: Floats, below: Floats) -> Kinds:
    """Group judged pairs by stratum and signs.

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
    """Return these kinds in strata of predictions of which chance drew no such pair."""
    strata = judged.sample.strata
    tops = [h for h, each in enumerate(strata) if each.kind in IN_TOP and each.drawn]
    own = np.intersect1d(codes // 6, tops)
    signs = np.unique(codes[np.isin(codes // 6, own)] % 6)
    return (np.array(tops, dtype=np.int64)[:, None] * 6 + signs).ravel()


def totals(judged: Judgements, kinds: Kinds, confidence: float) -> Totals:
    """Return the totals of all kinds of pairs, with their intervals.

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
    """Return totals from the numbers of relevant pairs among the judged of each stratum.

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
        """Return their totals."""
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


# --- pairs, adjusted


@dataclass(frozen=True, eq=False)
class PairCovariates:
    """Covariates of the judged pairs, and their sums over all pairs that could be judged.

    Parameters
    ----------
    values : floats of shape (m, q)
        Of the judged pairs.
    above, below : floats of shape (q,)
        Σ a x and Σ b x over all pairs that are not taken as true without judging.
    """

    values: Floats
    above: Floats
    below: Floats


@dataclass(frozen=True, eq=False)
class PairTerm:
    """A system, with what its places are worth.

    Parameters
    ----------
    top : TopK
    worth : floats of shape (k,)
        a of a pair at each of the first k places; negative for a system that is subtracted.
    """

    top: TopK
    worth: Floats


def pair_covariates(
    covariates: CovariatesLike,
    judged: Judgements,
    labels: sp.csr_array,
    terms: Sequence[PairTerm],
    *,
    counts_everywhere: bool,
) -> PairCovariates:
    """Return what is known of pairs, as the estimate of a metric needs it.

    Parameters
    ----------
    covariates : CovariatesLike
        Numbers of all rows, or of all pairs.
    judged : Judgements
        Of pairs over all rows.
    labels : csr_array of shape (n, L), validated
        The observed labels.
    terms : sequence of PairTerm
        The systems that are measured.
    counts_everywhere : bool
        Whether b = 1 for all pairs (micro-recall), or 0 for all.

    Returns
    -------
    PairCovariates
    """
    sample = judged.sample
    columns = pair_columns(covariates, labels.shape)
    width = labels.shape[1]
    k = max(term.worth.size for term in terms)
    listed, group = _groups([term.top for term in terms], k, width)
    keys = sample.rows * width + sample.pair_labels
    place = np.minimum(np.searchsorted(listed, keys), max(listed.size - 1, 0))
    is_listed = listed[place] == keys if listed.size else np.zeros(keys.size, dtype=bool)
    of_judged = np.where(is_listed, group[place] if listed.size else 0, 2)
    free = pair_keys(labels) if sample.observed_free else np.zeros(0, dtype=np.int64)
    above = sum(_top_sums(term, columns, free, width) for term in terms)
    below = np.zeros(3 * columns.count)
    if counts_everywhere:
        below = _all_sums(columns, listed, group, free, labels.shape)
    spread = _by_group(columns.at(sample.rows, sample.pair_labels), of_judged)
    return PairCovariates(spread, np.asarray(above), below)


def _groups(tops: Sequence[TopK], k: int, width: int) -> tuple[Ints, Ints]:
    """Return keys of all listed pairs, and 0 for those among the first k of a system, else 1."""
    firsts = np.unique(np.concatenate([listed_keys(top, k, width) for top in tops]))
    listed = np.unique(np.concatenate([listed_keys(top, top.k, width) for top in tops]))
    return listed, (~np.isin(listed, firsts, assume_unique=True)).astype(np.int64)


def _by_group(values: Floats, group: Ints) -> Floats:
    """Return (m, q) values as (m, 3 q): in the columns of their group, 0 in the others."""
    made = np.zeros((group.size, 3, values.shape[1]))
    made[np.arange(group.size), group] = values
    return made.reshape(group.size, -1)


def _top_sums(term: PairTerm, columns: PairColumns, free: Ints, width: int) -> Floats:
    """Return Σ a x over the first places of a system, which are all in the first group."""
    row, label, place = term.top.pairs(term.worth.size)
    unobserved = ~np.isin(row * width + label, free)
    row, label, place = row[unobserved], label[unobserved], place[unobserved]
    return np.concatenate([term.worth[place] @ columns.at(row, label), np.zeros(2 * columns.count)])


def _all_sums(
    columns: PairColumns, listed: Ints, group: Ints, free: Ints, shape: tuple[int, int]
) -> Floats:
    """Return Σ x over all pairs that are not free, by group."""
    unobserved = ~np.isin(listed, free)
    keys, of_key = listed[unobserved], group[unobserved]
    values = columns.at(*np.divmod(keys, shape[1]))
    sums = np.stack([values[of_key == each].sum(axis=0) for each in (0, 1)])
    everything = columns.sums - columns.at(*np.divmod(free, shape[1])).sum(axis=0)
    return np.concatenate([*sums, everything - sums.sum(axis=0)])


def adjusted(
    plain: Fraction, judged: Judgements, kinds: Kinds, covariates: PairCovariates
) -> Fraction:
    """Return the fraction with what covariates foresee taken out of its totals, and added as known.

    Parameters
    ----------
    plain : Fraction
        From the judged pairs alone.
    judged : Judgements
    kinds : Kinds
        Of the judged pairs.
    covariates : PairCovariates

    Returns
    -------
    Fraction
        The plain one where a stratum has fewer than two judged pairs, or none of them counts.
    """
    sample = judged.sample
    drawn = np.bincount(sample.stratum, minlength=len(sample.strata))
    folds = min(FOLDS, int(drawn[drawn > 0].min()))
    if folds < 2 or not kinds.stratum.size:
        return plain
    sizes = np.array([each.size for each in sample.strata], dtype=np.float64)
    fold = folds_of(sample.stratum, folds, seed=0)
    weights = kinds.above - float(plain.value) * kinds.below
    worth = np.where(kinds.place >= 0, (weights * kinds.largest)[kinds.place], 0.0) * kinds.size
    residuals, total = np.empty(fold.size), np.zeros(kinds.stratum.size)
    slopes = np.zeros(covariates.values.shape[1])
    for each in range(folds):
        out = fold == each
        slope = _slope(judged, covariates.values, worth, ~out, drawn, sizes)
        left = (judged.answers - covariates.values @ slope) * kinds.size
        residuals[out] = left[out]
        inside = np.bincount(sample.stratum[~out], minlength=drawn.size)
        mean = kinds.summed(left * out) / (drawn - inside)[kinds.stratum]
        share = out.sum() / out.size
        total += share * (kinds.summed(left * ~out) + (sizes - inside)[kinds.stratum] * mean)
        slopes += share * slope
    return Fraction(
        _narrowed(plain.totals, kinds, judged, residuals, kinds.largest * total),
        plain.above + float(covariates.above @ slopes),
        plain.below + float(covariates.below @ slopes),
        plain.limits,
    )


def _slope(
    judged: Judgements, x: Floats, worth: Floats, used: Floats, drawn: Ints, sizes: Floats
) -> Floats:
    """Return the ridge regression of y on x within strata, by the weights of the variance."""
    stratum = judged.sample.stratum[used]
    count = np.maximum(np.bincount(stratum, minlength=drawn.size), 1)
    both = np.column_stack([judged.answers, x])[used] * worth[used, None]
    means = np.stack([np.bincount(stratum, column, minlength=drawn.size) for column in both.T])
    centred = both - (means / count).T[stratum]
    share = sizes / np.maximum(drawn, 1)
    weight = (share**2 * (1 - 1 / np.maximum(share, 1)))[stratum]
    products = (centred * weight[:, None]).T @ centred
    gram, right = products[1:, 1:], products[1:, 0]
    shrunk = np.diag(gram) * RIDGE / max(float(judged.answers[used].sum()), 1.0)
    empty = np.diag(gram) <= 0
    return np.asarray(np.linalg.solve(gram + np.diag(shrunk + empty), right))


def _narrowed(
    plain: Totals, kinds: Kinds, judged: Judgements, residuals: Floats, total: Floats
) -> Totals:
    """Return residual totals by kind, the plain doubt scaled by the spread that is left."""
    sample = judged.sample
    drawn = np.bincount(sample.stratum, minlength=len(sample.strata))[kinds.stratum]
    sizes = np.array([each.size for each in sample.strata], dtype=np.float64)[kinds.stratum]
    weight = (sizes / drawn * kinds.largest) ** 2 * (1 - drawn / sizes)

    def squares(values: Floats) -> Floats:
        return kinds.summed(values**2) - kinds.summed(values) ** 2 / drawn

    y, left = squares(judged.answers * kinds.size), squares(residuals)
    scale = np.ones(total.size)
    for signs in {*zip(kinds.above.tolist(), kinds.below.tolist(), strict=True)}:
        mine = (kinds.above == signs[0]) & (kinds.below == signs[1])
        before, after = float(weight[mine] @ y[mine]), float(weight[mine] @ left[mine])
        if before > 0:
            unforeseen = UNFORESEEN * before / float(y[mine].sum())
            scale[mine] = math.sqrt((max(after, 0.0) + unforeseen) / (before + unforeseen))
    return replace(
        plain, total=total, variance=plain.variance * scale**2, growth=plain.growth * scale
    )
