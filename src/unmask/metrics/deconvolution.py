"""Metrics from the distribution of true label counts, where row-by-row estimates are too noisy.

No unbiased estimate *per row* is better than the exact one, but a data set knows more than a row.
Per row let s be the observed hits in the top k (or in the predicted set) and t the observed labels
outside; the truth has s*
and t*. Missing labels thin the counts (`thinning`), so the table of (s, t) over all rows is a
mixture of known distributions, one for every (s*, t*). The weights π(s*, t*) of maximal likelihood
come from EM on that small table (`_mixture`), at a cost that does not depend on the number of rows.
A metric f(s*, t*) that hits earn (f = 0 without any) is estimated by

    1/n Σ_hits 1/p  ·  Σ π f / Σ π s*,

the unbiased number of hits times what the fit says a hit is worth. (Σ π f alone is biased where π
touches zero: at p = 0.9 its error exceeds that of the row-by-row estimate.) A metric that asks
where in the ranking a hit stands is a weight W_r(N*) for a hit at place r, N* = s* + t*. Because
the mask of a label is independent of N*, Σ_hits W_r(N*)/p estimates it, with E[W_r(N*) | s, t] for
what is unknown; that sum is used relative to the same sum with a weight that ignores r, whose value
the formula above gives.

*Strata.* The mix of propensities must not vary from row to row. Rows are split by the mean inverse
propensity of their **predicted** labels, which missing labels cannot influence (splitting by the
observed ones would condition on the mask and bias the result: docs/decisions/0003), and every
stratum with enough labels is fitted by itself. Not so under row effort: a kernel that wide leaves
more to every fit to guess, and few rows guess worse (docs/decisions/0011).

*Rows without labels.* Published data sets drop rows in which no label was observed. A table that
has none is fitted given that something was observed, and speaks of the rows at hand.

*Values of hits.* Every metric here is Σ_hits W_r(s*, t*) over the hits of a row, r the place of the
hit (`METRICS`). Of predicted sets, r is the size of the set: a hit of a set of size z is worth
2/(z + s* + t*) to F1, and rows with large sets have other true labels than those with small ones,
as late places have (`SET_METRICS`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from unmask._kernels.deconvolution import FIXED, HEAVIEST, SQUARED
from unmask._mixture import one_blas_thread
from unmask._typing import Floats, Ints
from unmask.arrays import checks
from unmask.metrics import intervals
from unmask.metrics.claims import CONDITIONAL, Advice, Level, Reason, Verdict, too_wide
from unmask.metrics.sums import CellCounts, Sums
from unmask.metrics.thinning import (
    MOST_ENTRIES,
    TINY,
    Counts,
    SetSizes,
    Stratum,
    enough_labels,
    fit_stratum,
    occupied_cells,
)
from unmask.propensity.mask_model import RowEffort, normal

__all__ = [
    "METRICS",
    "SET_METRICS",
    "Counts",
    "Deconvolution",
    "Deconvolved",
    "RowEffort",
    "fit",
]

TOO_LOW = Verdict(Level.UNUSABLE, Reason.PROPENSITIES_TOO_LOW, Advice.RAISE_PROPENSITIES)

_BANDS = 20  # of sizes, each with at least so many hits as all divided by this
_DOUBT, _REFUSAL = 0.02, 0.05  # shares of rows where the fit cannot put them
_MARGIN = 0.1  # relative error of the law of counts, per squared spread of 1/p and spread of values


@one_blas_thread
def fit(
    counts: Counts,
    *,
    stratified: bool | None = None,
    row_effort: float | RowEffort = 0.0,
    unannotated: float = 0.0,
) -> Deconvolution:
    """Fit the distribution of true label counts to a table of observed ones.

    Parameters
    ----------
    counts : Counts
        Observed hits and misses of the rows.
    stratified : bool, optional
        Whether rows are split by the mean inverse propensity of their predicted labels; by default
        only where labels go missing independently.
    row_effort : float in [0, 0.9] or RowEffort, default 0.0
        ρ, how much the labels of a row are kept or lost together (`row_effort`); 0: independently.
    unannotated : float in [0, 0.9], default 0.0
        The share of rows that nobody annotated. Propensities are those over all rows, these too.

    Returns
    -------
    Deconvolution

    Raises
    ------
    ValueError
        If there are no rows, or a number is out of range.

    Examples
    --------
    A thousand rows with one true label, which is predicted, and seen with p = 1/2 in 500 of them:

    >>> rows = np.zeros((10, 2, 1)); rows[0, :, 0] = 500
    >>> hits = np.zeros((1, 10, 2, 1)); hits[0, 0, 1, 0] = 1000
    >>> fitted = fit(Counts(rows, hits, np.zeros_like(rows)))
    >>> round(fitted.value("R"), 6), round(fitted.value("P"), 6)
    (1.0, 1.0)
    """
    effort = _effort(row_effort, unannotated)
    if not counts.rows.any():
        raise ValueError("there are no rows to deconvolve; evaluate at least one row.")
    if counts.hits.sum() + counts.misses.sum() > HEAVIEST:
        return Deconvolution(counts, (), (), TOO_LOW, effort)
    cells = counts.occupied
    left_out = not cells.rows[(cells.s == 0) & (cells.t == 0)].any()
    stratified = effort is None if stratified is None else stratified
    groups = enough_labels(counts) if stratified else (tuple(np.unique(cells.stratum).tolist()),)
    strata = []
    for group in groups:
        stratum = fit_stratum(
            *occupied_cells(counts, group), counts.most_hits, without_empty=left_out,
            entries=MOST_ENTRIES / len(groups), effort=effort,
        )  # fmt: skip
        if stratum is None:
            return Deconvolution(counts, (), (), _too_many(counts), effort)
        strata.append(stratum)
    return Deconvolution(counts, groups, tuple(strata), effort=effort)


def _effort(row_effort: float | RowEffort, unannotated: float) -> RowEffort | None:
    """None where labels go missing independently: then nothing is integrated."""
    if isinstance(row_effort, RowEffort):
        return row_effort
    effort = normal(row_effort, unannotated)
    return effort if row_effort or unannotated else None


def fit_sums(sums: Sums, of_sets: bool, k: int, *, effort: RowEffort | None) -> Deconvolution:
    """Fit the counts of a pass, of rankings cut off at k or of predicted sets.

    Parameters
    ----------
    sums : Sums
    of_sets : bool
    k : int
        The cut-off, of lists or of the lists that stand for sets.
    effort : RowEffort, optional

    Returns
    -------
    Deconvolution
    """
    if of_sets:
        by_size = {size: cells for (of, size), cells in sums.set_tables.items() if of == k}
        counts = counts_of_sets(by_size, sums.inverse_squares)
    else:
        table = sums.tables[k]
        counts = counts_to_fit(table, table.places(k), sums.inverse_squares)
    if sums.inverse_sum > HEAVIEST * FIXED:  # the tables may have overflowed
        return Deconvolution(counts, (), (), TOO_LOW)
    return fit(counts, row_effort=effort or 0.0)


def _too_many(counts: Counts) -> Verdict:
    sets = counts.sizes is not None
    details = {"counts": counts.occupied.rows.size, "k": counts.most_hits, "sets": sets}
    advice = Advice.OTHER_ESTIMATOR if sets else Advice.SMALLER_K
    return Verdict(Level.UNUSABLE, Reason.TOO_MANY_COUNTS, advice, details)


class Deconvolved(NamedTuple):
    """A metric's estimate, over rows as if drawn at random; `verdict` says whether to use it."""

    value: float
    standard_error: float
    interval: tuple[float, float]
    verdict: Verdict


@dataclass(frozen=True)
class Deconvolution:
    """The fitted distribution of true label counts, and the metrics it implies.

    `groups` are the strata of `counts` that were fitted together, `strata` the fits; there are none
    where `not_fitted` says why, and every number is then NaN. `effort` is the row effort that was
    assumed; None: labels go missing independently.

    Of 1,800 rows, 600 show their one label, which was predicted; all labels have p = 1/2:

    >>> rows = np.zeros((10, 2, 1)); rows[0, :, 0] = 1200, 600
    >>> hits = np.zeros((1, 10, 2, 1)); hits[0, 0, 1, 0] = 600 / 0.5
    >>> fitted = fit(Counts(rows, hits, np.zeros_like(rows)))
    >>> value, error, interval, verdict = fitted.estimate("R")
    >>> round(value, 3), round(error, 3), verdict.level.value
    (0.667, 0.022, 'conditional')
    >>> fitted.misfit, fitted.refusal
    (0.0, None)
    """

    counts: Counts
    groups: tuple[tuple[int, ...], ...]
    strata: tuple[Stratum, ...]
    not_fitted: Verdict | None = None
    effort: RowEffort | None = None

    @property
    def rows(self) -> float:
        """Number of rows behind the fit."""
        return float(self.counts.rows.sum())

    @one_blas_thread
    def value(self, metric: str) -> float:
        """The estimate alone, without uncertainty or verdict."""
        return self._value(metric)

    def _value(self, metric: str) -> float:
        if self.not_fitted:
            return math.nan
        return min(1.0, sum(part.value for part in self._parts(metric)) / self.rows)

    @one_blas_thread
    def estimate(
        self, metric: str, *, confidence: float = 0.95, replicates: int = 0, seed: int = 0
    ) -> Deconvolved:
        """The estimate, its uncertainty, and whether to use it; nan where the data refuse.

        The standard error is that of the linearised fit, or, with `replicates`, of as many
        bootstrap data sets (rows per cell drawn again, mixture fitted again); with it goes a margin
        for propensities that differ within rows. The interval is `intervals.of_mean`, with
        `replicates` joined with the quantiles of the bootstrap.
        """
        if self.refusal:
            return Deconvolved(np.nan, np.nan, (np.nan, np.nan), self.refusal)
        value, error = self._value(metric), self._standard_error(metric)
        observed = self._mean_propensity
        ends = intervals.of_mean(
            value, error, confidence, rows=int(self.rows), at_most=1.0,
            shares=value < 0.5 or observed == 1, weight=1 / observed,
        )  # fmt: skip
        if replicates:
            again = self.resampled(metric, replicates=replicates, seed=seed)
            error = math.hypot(float(again.std(ddof=1)), self._margin(metric))
            ends = intervals.hull(ends, intervals.percentile(again, confidence))
        low, high = intervals.within(ends, 1.0)
        return Deconvolved(
            value, error, (low, high), self._verdict(metric, value, error, high - low)
        )

    @one_blas_thread
    def resampled(self, metric: str, *, replicates: int, seed: int = 0) -> Floats:
        """The estimate on data sets whose rows are drawn again, with replacement."""
        if self.not_fitted:
            return np.full(replicates, math.nan)
        shares = np.concatenate([each.cells.rows for each in self.strata]) / self.rows
        random = np.random.default_rng(seed)
        resampled = random.multinomial(int(self.rows), shares, size=replicates).T.astype(np.float64)
        ends = np.cumsum([each.cells.rows.size for each in self.strata])[:-1]
        total = sum(
            part.of(rows, part.stratum.refitted(rows))
            for part, rows in zip(self._parts(metric), np.split(resampled, ends), strict=True)
        )
        return np.minimum(1.0, np.asarray(total) / self.rows)

    def _standard_error(self, metric: str) -> float:
        value, spread, parts = self._value(metric), 0.0, self._parts(metric)
        if np.ptp(np.concatenate([part.per_row for part in parts])) == 0:
            return 0.0  # all rows say the same
        for part in parts:
            spread += float(part.stratum.cells.rows @ (part.per_row - value) ** 2)
        occupied = self.counts.occupied
        hits = float(occupied.rows @ occupied.s)
        within = value * self.counts.hit_spread / math.sqrt(max(hits, 1.0))  # rows of one cell
        return math.hypot(math.sqrt(spread) / self.rows, within, self._margin(metric))

    def _margin(self, metric: str) -> float:
        """Error of the law of counts, where propensities differ between labels of a row.

        Binomial thinning is exact for equal propensities; its error grows with their variance and
        with how much the value of a hit depends on the number of labels, and is larger for the
        first k of few, whose propensities average out less. No number of rows makes it smaller; the
        study `coverage` shows that intervals with it cover.
        """
        hits, values, squares = np.sum([part.hit_moments for part in self._parts(metric)], axis=0)
        if not values:
            return 0.0
        differing = math.sqrt(max(squares * hits / values**2 - 1.0, 0.0))
        factor = _MARGIN * (1 + 0.5 / self.counts.predictions)
        return float(factor * self.counts.spread**2 * differing * self._value(metric))

    def _parts(self, metric: str) -> list[Part]:
        if metric not in self._parts_by_metric:
            about = self._about(metric)
            self._parts_by_metric[metric] = [
                Part(each, about, self.counts.k) for each in self.strata
            ]
        return self._parts_by_metric[metric]

    def _about(self, metric: str) -> Metric:
        if self.counts.sizes is None:
            return METRICS[checks.one_of(metric, METRICS, "deconvolved metric")]
        value = SET_METRICS[checks.one_of(metric, SET_METRICS, "deconvolved metric of sets")]
        return of_sizes(value, self.counts.sizes)

    @cached_property
    def _parts_by_metric(self) -> dict[str, list[Part]]:
        return {}

    @cached_property
    def misfit(self) -> float:
        """Share of rows in the wrong cell (total variation), beyond what chance explains.

        That is the mean of the distance under sampling noise; and 0 if the rest is less than the
        standard deviation of the distance, for the fit is nearer to the data than the truth is.
        """
        if self.not_fitted:
            return math.nan
        excess, variance = np.sum([_excess(each) for each in self.strata], axis=0)
        return float(excess / self.rows) if excess > math.sqrt(variance) else 0.0

    @property
    def refusal(self) -> Verdict | None:
        """Why there is no estimate; None when there is one."""
        if self.not_fitted:
            return self.not_fitted
        if self.misfit <= _REFUSAL:
            return None
        mean, variance = self._observed_per_row
        least = mean * (1 - self._mean_propensity)
        details = {"variance": variance, "least_variance": least, "misfit": self.misfit}
        return Verdict(Level.UNUSABLE, Reason.REFUSED, details=details)

    @property
    def _observed_per_row(self) -> tuple[float, float]:
        """Mean and variance of the number of observed labels."""
        cells = self.counts.occupied
        mean = float(cells.labels.sum() / self.rows)
        return mean, float(cells.rows @ (cells.s + cells.t - mean) ** 2 / self.rows)

    @property
    def _mean_propensity(self) -> float:
        """Over true labels: number of observed ones / Σ 1/p."""
        true_labels = float(self.counts.hits.sum() + self.counts.misses.sum())
        return float(self.counts.occupied.labels.sum() / true_labels) if true_labels else 1.0

    def _verdict(self, metric: str, value: float, error: float, width: float) -> Verdict:
        pooled, observed = self._pooled._value(metric), self._mean_propensity
        if self.misfit > _DOUBT:
            return _doubtful(Reason.MISFIT, misfit=self.misfit)
        if abs(value - pooled) > max(0.02, 4 * error):
            return _doubtful(Reason.UNEQUAL_ROWS, pooled=pooled)
        if self._about(metric).sharp and observed < 0.5:
            return _doubtful(Reason.FEW_OBSERVED, metric=metric, observed=observed)
        if too_wide(width / 2, value, 1.0):
            return Verdict(Level.WIDE, Reason.WIDE, details={"half_width": width / 2})
        return CONDITIONAL

    @cached_property
    def _pooled(self) -> Deconvolution:
        if len(self.strata) == 1:
            return self
        return fit(self.counts, stratified=False, row_effort=self.effort or 0.0)


def _doubtful(reason: Reason, **details: float | str) -> Verdict:
    return Verdict(Level.DOUBTFUL, reason, details=details)


def _excess(stratum: Stratum) -> tuple[float, float]:
    """Rows in the wrong cell beyond the mean of that number by chance, and its variance.

    Half of Σ|rows − expected| over all cells, also those that no row is in. By chance a cell's
    rows are binomial with the mean absolute deviation 2 (m + 1) C(n, m + 1) f^(m+1) (1 − f)^(n−m),
    m = ⌊nf⌋ (De Moivre).
    """
    n = stratum.rows
    elsewhere = stratum.fitted_elsewhere
    fitted = np.minimum(np.r_[stratum.fitted, elsewhere], 1.0)
    rest = max(0.0, 1.0 - fitted.sum())
    occupied = np.minimum(stratum.fitted, 1.0)
    distance = np.abs(stratum.cells.rows - n * occupied).sum() + n * (elsewhere.sum() + rest)
    expected = n * fitted
    m = np.minimum(np.floor(expected), n - 1)
    with np.errstate(divide="ignore"):
        log = (
            gammaln(n + 1) - gammaln(m + 2) - gammaln(n - m)
            + xlogy(m + 1, fitted) + xlog1py(n - m, -fitted)
        )  # fmt: skip
    deviation = 2 * (m + 1) * np.exp(log)
    variance = np.maximum(expected * (1 - fitted) - deviation**2, 0.0).sum()
    return float(distance - deviation.sum()) / 2, float(variance) / 4


# --- counts to fit


def counts_of_sets(by_size: Mapping[int, CellCounts], inverse_squares: int = 0) -> Counts:
    """Turn cells of sets into counts to fit: sizes in bands, a band in place of a place.

    Σ 1/p of the hits at every size says how much it weighs in its band.
    """
    sizes = np.array(sorted(by_size))
    tables = [by_size[size] for size in sizes.tolist()]
    hits = np.array([int(table.hits.sum()) for table in tables]) / FIXED
    band = bands(hits)
    parts = [table.places(size) for table, size in zip(tables, sizes.tolist(), strict=True)]
    cells, spot = np.unique(np.hstack(parts), axis=1, return_inverse=True)
    sums = [np.zeros(cells.shape[1], np.int64) for _ in range(3)]
    by_band = np.zeros((cells.shape[1], int(band[-1]) + 1), np.int64)
    start = 0
    for table, b in zip(tables, band.tolist(), strict=True):
        own = spot[start : start + table.keys.size]
        start += table.keys.size
        for total, column in zip(sums, (table.rows, table.misses, table.squares), strict=True):
            total[own] += column
        by_band[own, b] += table.hits[:, 0]
    rows, misses, squares = sums
    together = CellCounts(spot, rows, by_band, misses, squares)
    places = tuple(
        SetSizes(sizes[band == b].astype(np.float64), hits[band == b])
        for b in range(int(band[-1]) + 1)
    )
    return replace(counts_to_fit(together, cells, inverse_squares), sizes=places)


def bands(hits: Floats) -> Ints:
    """Assign sizes to bands: as few neighbours as have a twentieth of all hits together.

    >>> bands(np.array([0.0, 50, 1, 1, 1, 47]))
    array([0, 0, 1, 1, 1, 1])
    """
    band = np.zeros(hits.size, dtype=np.int64)
    least, number, inside = hits.sum() / _BANDS, 0, 0.0
    for i, each in enumerate(hits.tolist()):
        band[i] = number
        inside += each
        if inside >= least and hits[i + 1 :].sum() >= least > 0:
            number, inside = number + 1, 0.0
    return band


def counts_to_fit(cells: CellCounts, places: Ints, inverse_squares: int) -> Counts:
    """Turn cells into counts to fit; Σ 1/p² of all labels tells how much propensities differ."""
    _, inside, outside = places
    labels, hits = int(cells.rows @ (inside + outside)), int(cells.rows @ inside)
    return Counts(
        cells.rows.astype(np.float64),
        cells.hits.T.astype(np.float64) / FIXED,
        cells.misses.astype(np.float64) / FIXED,
        places,
        _spread(labels, cells.inverse_sum, inverse_squares / FIXED),
        _spread(hits, int(cells.hits.sum()), int(cells.squares.sum()) / SQUARED),
    )


def _spread(labels: int, inverse_sum: int, squares: float) -> float:
    """The coefficient of variation of 1/p, from Σ 1/p (in units of 1/FIXED) and Σ 1/p²."""
    mean_square = (inverse_sum / FIXED) ** 2 / max(labels, 1)
    return math.sqrt(max(squares / mean_square - 1.0, 0.0)) if mean_square else 0.0


# --- the value of a hit


class Metric(NamedTuple):
    """The value of one hit in a row with s* hits and t* misses; and, if it matters, at place r.

    `hit_value(s, t, k)` ignores the place, `at_place(r, s, t, k)` depends on it (first: r = 0).
    `sharp`: it jumps with N, which few observed labels cannot locate.
    """

    hit_value: Callable[[Floats, Floats, int], Floats]
    at_place: Callable[[int, Floats, Floats, int], Floats] | None = None
    sharp: bool = False


@dataclass(frozen=True)
class Part:
    """One metric in one stratum, summed over its rows."""

    stratum: Stratum
    metric: Metric
    k: int

    @cached_property
    def value(self) -> float:
        """The sum over the rows of the stratum."""
        sums = self.of(self.stratum.cells.rows[:, None], self.stratum.weights[:, None])
        return float(sums[0])

    def of(self, rows: Floats, weights: Floats) -> Floats:
        """Sums for other rows per cell and mixtures (one column each)."""
        earned, base = self._earned @ weights, self._base @ weights
        at_places, anywhere = self._places
        effect = (at_places @ rows) / np.maximum(anywhere @ rows, TINY) if anywhere.any() else 1.0
        return np.asarray(self._hits @ rows * earned / np.maximum(base, TINY) * effect)

    @cached_property
    def per_row(self) -> Floats:
        """Influence: change of `value` by one more row in each cell."""
        if not self.value:
            return np.zeros(self.stratum.cells.rows.size)
        rows, weights = self.stratum.cells.rows, self.stratum.weights
        earned, base = float(self._earned @ weights), float(self._base @ weights)
        moved = self.stratum.influence(self._earned / earned - self._base / base)
        share = self._hits / (self._hits @ rows) + moved / self.stratum.rows
        at_places, anywhere = self._places
        if anywhere.any():
            share += at_places / (at_places @ rows) - anywhere / (anywhere @ rows)
        return np.asarray(self.value * share)

    @cached_property
    def hit_moments(self) -> tuple[float, float, float]:
        """Σ 1, Σ φ and Σ φ² over the hits of all rows, φ the value of a hit under the fit."""
        weights, hits = self.stratum.weights, float(self._hits @ self.stratum.cells.rows)
        share = weights * self._base
        share = share * (hits / max(float(share.sum()), TINY))
        value = self._earned / np.maximum(self._base, TINY)
        return hits, float(share @ value), float(share @ value**2)

    @property
    def _hits(self) -> Floats:
        """Σ 1/p over the hits of one row, mean of every cell."""
        return np.asarray(self.stratum.cells.inverse_hits / self.stratum.cells.rows)

    @cached_property
    def _earned(self) -> Floats:
        """Value of all hits of a row, per atom."""
        atoms = self.stratum.atoms
        return np.asarray(atoms.hits * self.metric.hit_value(atoms.hits, atoms.misses, self.k))

    @property
    def _base(self) -> Floats:
        """Hits per row at hand, per atom; rows that were left out would have had hits as well."""
        return np.asarray(self.stratum.atoms.hits / self.stratum.kept)

    @cached_property
    def _places(self) -> tuple[Floats, Floats]:
        """Σ_hits E[value | cell, place] / p of one row in every cell: with places, and without."""
        nothing = np.zeros(self.stratum.cells.rows.size)
        if self.metric.at_place is None or not self._earned.any():
            return nothing, nothing
        atoms = self.stratum.atoms
        at_places = np.array(
            [self.metric.at_place(r, atoms.hits, atoms.misses, self.k) for r in range(self.k)]
        )
        anywhere = np.broadcast_to(
            self.metric.hit_value(atoms.hits, atoms.misses, self.k), at_places.shape
        )
        return self._sum_over_hits(at_places), self._sum_over_hits(anywhere)

    def _sum_over_hits(self, hit_values: Floats) -> Floats:
        # a row is surely kept if one of its hits is observed; otherwise only with chance `kept`
        expected = self.stratum.hit_posterior_mean(hit_values * self.stratum.kept)
        return np.asarray((self.stratum.by_place * expected).sum(axis=0) / self.stratum.cells.rows)


def _inverse_ideal(true_labels: Floats, k: int) -> Floats:
    """1 / IDCG(min(k, N)) with discounts 1/log2(1 + rank)."""
    ideal = np.cumsum(1 / np.log2(np.arange(2, k + 2)))
    return np.asarray(1 / ideal[np.clip(true_labels, 1, k).astype(int) - 1])


METRICS: dict[str, Metric] = {
    "P": Metric(lambda s, t, k: np.full(s.shape, 1 / k)),
    "R": Metric(lambda s, t, k: 1 / np.maximum(s + t, 1)),
    "F1": Metric(lambda s, t, k: 2 / (k + s + t)),
    "Jaccard": Metric(lambda s, t, k: 1 / (k + t)),
    "hit": Metric(lambda s, t, k: 1 / np.maximum(s, 1)),
    "nDCG": Metric(
        lambda s, t, k: _inverse_ideal(s + t, k),
        lambda r, s, t, k: _inverse_ideal(s + t, k) / np.log2(r + 2),
    ),
    "R-precision": Metric(
        lambda s, t, k: 1 / np.clip(s + t, 1, k),
        lambda r, s, t, k: (r < s + t) / np.clip(s + t, 1, k),
        sharp=True,
    ),
}

HitOfSet: TypeAlias = Callable[[Floats, Floats, Floats], Floats]
"""The value of one hit of a set of some size in a row with s* hits and t* misses."""

SET_METRICS: dict[str, HitOfSet] = {
    "sample-P": lambda size, s, t: 1 / size + 0 * s,
    "sample-R": lambda size, s, t: 1 / np.maximum(s + t, 1) + 0 * size,
    "sample-F1": lambda size, s, t: 2 / (size + s + t),
    "sample-F0.5": lambda size, s, t: 5 / (4 * size + s + t),
    "sample-F2": lambda size, s, t: 5 / (size + 4 * (s + t)),
    "sample-Jaccard": lambda size, s, t: 1 / (size + t) + 0 * s,
}
"""Metrics of predicted sets, as means over rows."""


def of_sizes(value: HitOfSet, sizes: tuple[SetSizes, ...]) -> Metric:
    """A metric of sets of these sizes, the sizes in the role of places.

    Where sizes share a place, a hit is worth the mean over them; without its place, over all.

    >>> one, more = SetSizes(np.ones(1), np.ones(1)), SetSizes(np.array([2.0, 4.0]), np.ones(2))
    >>> metric = of_sizes(SET_METRICS["sample-P"], (one, more))
    >>> [float(metric.at_place(r, np.ones(1), np.zeros(1), 2)[0]) for r in (0, 1)]
    [1.0, 0.375]
    >>> float(round(metric.hit_value(np.ones(1), np.zeros(1), 2)[0], 6))
    0.583333
    """
    joined = SetSizes(*(np.concatenate(column) for column in zip(*sizes, strict=True)))

    def mean(of: SetSizes, s: Floats, t: Floats) -> Floats:
        used = of.sizes > 0
        hits, z = of.hits[used], of.sizes[used]
        if not hits.sum():
            return np.zeros(s.shape)
        values = value(z[:, None], s, t)
        return np.asarray(hits @ values / hits.sum())

    return Metric(lambda s, t, k: mean(joined, s, t), lambda r, s, t, k: mean(sizes[r], s, t))
