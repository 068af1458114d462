"""From sums to estimates: one function per kind of cell.

With x the contributions of n rows to a column, value = Σx/n and standard error
√((Σx² − (Σx)²/n) / (n (n − 1))), both from exact sums; equal rows have the error 0, but no interval
of a finite sample has zero width (`intervals.of_mean`), and none reaches beyond the metric's range
unless it lies outside altogether, which refutes it. A bootstrap interval is joined with that of the
standard error. Ratios of two columns have the standard error of the residuals x − (value) y (the
delta method); means over labels are those of `macro`. Where a row contributes more than float64 can
square and sum, there is no estimate, and the verdict says so.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal

import numpy as np

from unmask._kernels.block import ABSOLUTE, LARGEST, LIMIT, SQUARES
from unmask._kernels.deconvolution import FIXED, HEAVIEST
from unmask._typing import Floats, Ints
from unmask.metrics import intervals, macro
from unmask.metrics.deconvolution import cell_counts, fitting
from unmask.metrics.plan import Cell, Plan
from unmask.metrics.scored import AllRows, Linearized
from unmask.metrics.state import State
from unmask.metrics.table import Estimate
from unmask.metrics.verdict import (
    CONDITIONAL,
    MEASURED,
    Advice,
    Level,
    Reason,
    Verdict,
    claim,
    judge,
)
from unmask.propensity.mask_model import RowEffort

Interval = tuple[float, float]
NOTHING = Verdict(Level.UNUSABLE, Reason.NO_LABELS)
OVERFLOW = Verdict(Level.UNUSABLE, Reason.OVERFLOW, Advice.RAISE_PROPENSITIES)

Spread = tuple[float, float, Floats]  # Σ|x|, Σx² and the largest |x| of the contributions x


@dataclass(frozen=True)
class Summary:
    """A state with the plan that made it and the choices that turn it into estimates."""

    plan: Plan
    state: State
    inverse: Floats | None
    confidence: float
    interval: str
    replicates: int
    seed: int
    fraction: float
    effort: RowEffort | None = None
    information: Floats | None = None

    @cached_property
    def counts(self) -> Floats:
        """Bootstrap counts, shared by all cells so that they are resampled together."""
        groups = int((self.state.group_rows > 0).sum())
        return intervals.resampling_counts(groups, self.replicates, self.seed)

    @cached_property
    def mean_inverse(self) -> float:
        """The mean 1/p over labels; nan if there are no propensities."""
        return math.nan if self.inverse is None else float(self.inverse.mean())

    @cached_property
    def scored(self) -> AllRows:
        """The scores of all rows, for metrics that need them."""
        forms = frozenset(cell.about.form for cell in self.plan.cells)
        return AllRows(tuple(self.state.scored), forms, self.information)

    def fit(self, cell: Cell) -> fitting.Deconvolution:
        """The fitted label counts of a cell that is deconvolved."""
        return (self.set_fits if cell.about.of_sets else self.fits)[cell.k]

    @cached_property
    def fits(self) -> dict[int, fitting.Deconvolution]:
        """The fitted label counts for every k that is deconvolved."""
        squares = self.state.inverse_squares
        tables = {k: cell_counts.as_counts(c, squares) for k, c in self.state.tables.items()}
        return {k: self._fitted(table) for k, table in tables.items()}

    @cached_property
    def set_fits(self) -> dict[int, fitting.Deconvolution]:
        """The same for predicted sets: lists cut off at k, or whole."""
        by_k: dict[int, dict[int, cell_counts.CellCounts]] = {}
        for (k, size), cells in self.state.set_tables.items():
            by_k.setdefault(k, {})[size] = cells
        squares = self.state.inverse_squares
        return {k: self._fitted(cell_counts.of_sets(c, squares)) for k, c in by_k.items()}

    def _fitted(self, counts: fitting.Counts) -> fitting.Deconvolution:
        if self.state.inverse_sum > HEAVIEST * FIXED:  # the tables may have overflowed
            return fitting.Deconvolution(counts, (), (), fitting.TOO_LOW)
        return fitting.fit(counts, row_effort=self.effort or 0.0)

    def columns(self, cell: Cell) -> list[int]:
        """The columns that a cell reads."""
        return [self.plan.column(key, cell.k) for key in cell.keys]


def estimate(cell: Cell, summary: Summary) -> Estimate:
    """The estimate that a cell asks for."""
    return KINDS.get(cell.estimator, KINDS[cell.about.over])(cell, summary)


def _mean(cell: Cell, summary: Summary) -> Estimate:
    return _of_column(cell, summary, summary.columns(cell)[0])


def _of_column(cell: Cell, summary: Summary, column: int, **details: Any) -> Estimate:
    if overflows(summary.state, column):
        return refused(cell, summary, details)
    state, at_most = summary.state, cell.about.at_most
    value, error = mean_and_error(state, column)
    if cell.estimator == "tempered" and at_most is not None:
        value = min(max(value, 0.0), at_most)
    ends = intervals.of_mean(
        value, error, summary.confidence, rows=state.rows, at_most=at_most,
        shares=_like_shares(cell, state, column, value), weight=mean_weight(cell, summary),
    )  # fmt: skip
    if summary.interval != "normal" and error:
        drawn = _bootstrap(summary, [column], value, lambda x, n: x[..., 0] / n)
        ends = intervals.hull(ends, drawn)
    return _finish(cell, summary, value, error, ends, details, _spread(state, column))


def _like_shares(cell: Cell, state: State, column: int, value: float) -> bool:
    """Do rows contribute shares, or weighted hits that are few? Then small counts matter."""
    if state.complete or cell.estimator in ("vanilla", "self_normalized"):
        return True
    if cell.about.at_most is None or value >= cell.about.at_most / 2:
        return False
    total, unit = state.ratio(column)
    absolute, absolute_unit = state.ratio(column, ABSOLUTE)
    return total * absolute_unit == absolute * unit  # nothing is negative


def mean_weight(cell: Cell, summary: Summary) -> float:
    """The mean 1/p of the labels that a row might show, in units of the largest value."""
    if cell.estimator == "vanilla" or summary.inverse is None or not summary.inverse.size:
        return 1.0
    return summary.mean_inverse / (cell.k if cell.metric == "P" else 1)


def mean_of(state: State, column: int) -> float:
    """Mean over rows, correctly rounded."""
    total, unit = state.ratio(column)
    return total / (unit * state.rows)


def mean_and_error(state: State, column: int) -> tuple[float, float]:
    """Mean and its standard error over rows: whole numbers up to one rounded quotient each."""
    n, (total, unit) = state.rows, state.ratio(column)
    mean = total / (unit * n)
    if n < 2:
        return mean, math.inf
    if _all_equal(state, column):
        return mean, 0.0
    squares, squares_unit = state.ratio(column, SQUARES)
    above = max(squares * unit * unit * n - total * total * squares_unit, 0)  # Σx² − (Σx)²/n …
    below = squares_unit * unit * unit * n  # … divided by this
    return mean, math.sqrt(above / (below * (n - 1) * n))


def _all_equal(state: State, column: int) -> bool:
    """Does every row contribute the same? Exactly then |Σx| = Σ|x| = n · max |x|."""
    largest = float(state.largest[column, 0])
    if state.total(column, ABSOLUTE) != state.rows * largest:  # not even when rounded: cheap
        return False
    absolute = state.exactly(column, ABSOLUTE)
    return bool(abs(state.exactly(column)) == absolute == state.rows * Fraction(largest))


def overflows(state: State, *columns: int) -> bool:
    """Is a contribution (of several columns, their product) beyond what sums can hold?"""
    return math.prod(max(1.0, float(state.largest[c, 0])) for c in columns) >= LIMIT


def refused(cell: Cell, summary: Summary, details: dict[str, Any]) -> Estimate:
    """No number, and why."""
    none = math.nan
    return Estimate(cell.name, cell.estimator, none, none, (none, none), none, none,
                    summary.state.rows, OVERFLOW, details)  # fmt: skip


def _ratio(cell: Cell, summary: Summary) -> Estimate:
    """Σx / Σy; 0 where there is nothing to find."""
    state, (x, y) = summary.state, summary.columns(cell)
    if overflows(state, x, y):
        return refused(cell, summary, {})
    z = summary.plan.products[x, y]
    n, below = state.rows, state.exactly(y)
    ratio = state.exactly(x) / below if below else Fraction(0)
    squares = state.exactly(x, SQUARES) + ratio * ratio * state.exactly(y, SQUARES)
    residual = max(squares - 2 * ratio * state.exactly(z), Fraction(0))
    error = math.inf if n < 2 else 0.0
    equal = n > 1 and _all_equal(state, x) and _all_equal(state, y)
    if below and n > 1 and not equal:
        error = math.sqrt(residual * n / (n - 1)) / float(below)
    ends = intervals.of_mean(
        float(ratio), error, summary.confidence, rows=n, at_most=cell.about.at_most, shares=False
    )
    if summary.interval != "normal" and below and not equal:
        drawn = _bootstrap(
            summary, [x, y], float(ratio), lambda s, _: quotient(s[..., 0], s[..., 1])
        )
        ends = intervals.hull(ends, drawn)
    return _finish(cell, summary, float(ratio), error, ends, {}, _spread(state, x))


def quotient(above: Floats, below: Floats) -> Floats:
    """Elementwise, for `below` ≥ 0; 0 where there is nothing to find, as in rows without labels."""
    return above / np.where(below > 0, below, math.inf)


def _bootstrap(
    summary: Summary, columns: list[int], value: float, statistic: Callable[..., Floats]
) -> Interval:
    """The bootstrap interval; a single row says nothing of how rows differ."""
    sums, rows = summary.state.per_group(columns)
    if rows.size < 2:
        return -math.inf, math.inf
    replicates = statistic(summary.counts @ sums, summary.counts @ rows)
    left_out = statistic(sums.sum(axis=0) - sums, rows.sum() - rows)
    method = intervals.INTERVALS[summary.interval]
    return method(replicates, summary.confidence, value=value, left_out=left_out)


def _tempered(cell: Cell, summary: Summary) -> Estimate:
    """The τ given, or chosen by the rule of Lepski as in SLOPE (Su, Srinath & Krishnamurthy 2020).

    From τ = 1 (no bias, most noise) downwards, as long as the intervals value ± 2 standard errors
    of all τ so far have a point in common, the smaller τ is as good a guess with less noise.
    """
    low, high = -math.inf, math.inf
    for ((tau, _), _), column in zip(cell.keys[::-1], summary.columns(cell)[::-1], strict=True):
        if not overflows(summary.state, column):
            value, error = mean_and_error(summary.state, column)
            low, high = max(low, value - 2 * error), min(high, value + 2 * error)
            if low > high:
                break
        chosen = column, tau
    return _of_column(cell, summary, chosen[0], tau=chosen[1])


def _clipped(cell: Cell, summary: Summary) -> Estimate:
    (_, clip), _ = cell.keys[0]
    return _of_column(cell, summary, summary.columns(cell)[0], clip=clip)


def _filtered(cell: Cell, summary: Summary) -> Estimate:
    """The mean without the lowest and highest rows, with the standard error of a trimmed mean.

    Tukey & McLaughlin (1963): the standard deviation of the rows pulled in to the cut-offs
    (winsorised), divided by the share kept and √n.
    """
    column = summary.columns(cell)[0]
    position = kept_columns(summary.plan).index(column)
    values = np.sort(np.concatenate([part[:, position] for part in summary.state.kept]))
    n, cut = values.size, int(summary.fraction / 2 * values.size)
    middle = values[cut : n - cut]
    details = {"fraction": 2 * cut / n, "rows_left_out": 2 * cut}
    if max(-middle[0], middle[-1]) >= LIMIT:
        return refused(cell, summary, details)
    value, error = math.fsum(middle) / middle.size, math.inf
    if middle[0] == middle[-1]:
        value, error = float(middle[0]), 0.0 if n > 1 else math.inf
    elif n > 1:
        pulled = np.clip(values, middle[0], middle[-1])
        error = float(pulled.std(ddof=1)) * math.sqrt(n) / middle.size
    ends = intervals.of_mean(
        value, error, summary.confidence, rows=n, at_most=cell.about.at_most, shares=False
    )
    return _finish(cell, summary, value, error, ends, details, _spread_of(middle))


def kept_columns(plan: Plan) -> list[int]:
    """The columns of which every row is kept, for `filtered`."""
    columns = [plan.column(c.keys[0], c.k) for c in plan.cells if c.estimator == "filtered"]
    return sorted(set(columns))


def _spread(state: State, column: int) -> Spread:
    absolute, squares = state.total(column, ABSOLUTE), state.total(column, SQUARES)
    return absolute, squares, state.largest[column]


def _spread_of(values: Floats) -> Spread:
    size = np.sort(np.abs(values))[::-1]
    return math.fsum(size), math.fsum(size * size), size[:LARGEST]


def _finish(
    cell: Cell,
    summary: Summary,
    value: float,
    error: float,
    ends: Interval,
    details: dict[str, Any],
    spread: Spread,
    of: Literal["rows", "labels"] | None = None,
) -> Estimate:
    """Add what the rows' contributions say about the number: effective size, largest, verdict."""
    state, labels = summary.state, None if of == "rows" else details.get("labels")
    absolute, squares, heaviest = spread
    return Estimate(
        metric=cell.name,
        estimator=cell.estimator,
        value=value,
        standard_error=error,
        interval=intervals.within(ends, cell.about.at_most),
        effective_sample_size=absolute * (absolute / squares) if squares else 0.0,
        largest_contribution=float(heaviest[0]) / absolute if absolute else 0.0,
        rows=state.rows,
        verdict=judge(
            value,
            ends,
            rows=labels or state.rows,
            of="labels" if labels else "rows",
            heaviest=_heaviest(heaviest, absolute),
            at_most=cell.about.at_most,
            claimed=claim(cell.estimator, complete=state.complete),
            advice=_advice(cell, state),
        ),
        details=details,
    )


def _heaviest(largest: Floats, absolute: float) -> tuple[int, float]:
    """The fewest rows that carry four fifths of Σ|x| (or all remembered), and their share."""
    if not absolute:
        return 0, 0.0
    shares = [total / absolute for total in accumulate(largest.tolist())]
    heaviest = min(bisect_left(shares, 0.8) + 1, len(shares))
    return heaviest, shares[heaviest - 1]


def _advice(cell: Cell, state: State) -> Advice:
    useful = cell.about.deconvolved and not state.complete
    return Advice.USE_DECONVOLVED if useful else Advice.NONE


def _deconvolved(cell: Cell, summary: Summary) -> Estimate:
    """From the fitted counts of true labels; rows have no contributions of their own."""
    fitted = summary.fit(cell).estimate(
        cell.metric,
        confidence=summary.confidence,
        replicates=0 if summary.interval == "normal" else min(summary.replicates, 200),
        seed=summary.seed,
    )
    verdict = fitted.verdict
    if summary.state.complete and verdict == CONDITIONAL:
        verdict = MEASURED
    return Estimate(
        metric=cell.name,
        estimator=cell.estimator,
        value=fitted.value,
        standard_error=fitted.standard_error,
        interval=fitted.interval,
        effective_sample_size=math.nan,
        largest_contribution=math.nan,
        rows=summary.state.rows,
        verdict=verdict,
    )


def over_labels(cell: Cell, summary: Summary) -> macro.OverLabels | None:
    """A metric of every label; None if propensities are too low to be squared and summed.

    Parameters
    ----------
    cell : Cell
        Of a metric over labels.
    summary : Summary

    Returns
    -------
    OverLabels or None
    """
    state, position = summary.state, int(np.searchsorted(summary.plan.ks, cell.k))
    corrects = cell.estimator != "vanilla" and not state.complete
    q: Floats = np.ones(state.observed.size)
    if corrects and summary.inverse is not None:
        counted = state.observed + state.predicted[:, position] > 0
        q = np.where(counted, summary.inverse, 1.0)  # others have nothing to weigh
    if float(q.max(initial=1.0)) >= math.sqrt(LIMIT / state.rows):  # fourth powers are summed
        return None
    hits = state.hits[:, position].astype(np.float64)
    wrong, missed = state.predicted[:, position] - hits, state.observed - hits
    return macro.FORMS[cell.about.form](macro.Counts(hits, wrong, missed, q, corrects))


def _per_label(cell: Cell, summary: Summary) -> Estimate:
    """The mean over the labels that can be counted, with an error over rows and labels."""
    labels = over_labels(cell, summary)
    if labels is None:
        return refused(cell, summary, {"labels": summary.state.observed.size})
    value, rows = labels.mean, summary.state.rows
    shared = _in_common(labels, cell, summary.state)
    variance = labels.own + (shared if labels.weighted else max(0.0, shared))
    ends = value, value
    for reading in labels.readings or (value,):
        around = intervals.of_mean(
            reading, labels.error(variance, reading), summary.confidence, rows=rows,
            at_most=cell.about.at_most, shares=True, weight=rows / labels.trials,
        )  # fmt: skip
        ends = intervals.hull(ends, around)
    error = labels.error(variance, value)
    details = {"labels": labels.labels, "labels_left_out": labels.left_out}
    if labels.weighted:  # many rows may have a few labels: rows carry the number
        spread = _spread_of(value + rows * row_effects(cell, summary))
        return _finish(cell, summary, value, error, ends, details, spread, of="rows")
    return _finish(cell, summary, value, error, ends, details, _spread_of(labels.values))


def linearized(cell: Cell, summary: Summary) -> Linearized:
    """A metric of the scores of all rows, and what every row adds to it."""
    return summary.scored.linearized(cell.about.form, corrected=cell.estimator != "vanilla")


def _of_scores(cell: Cell, summary: Summary) -> Estimate:
    """By the influences of rows; a metric without a label to speak of has no value."""
    made, n = linearized(cell, summary), summary.state.rows
    if math.isnan(made.value) or not np.isfinite(made.influence).all():
        return replace(refused(cell, summary, made.details), verdict=NOTHING)
    error = made.standard_error if n > 1 else math.inf
    ends = intervals.of_mean(
        made.value, error, summary.confidence, rows=n, at_most=cell.about.at_most, shares=False
    )
    if summary.interval != "normal" and error:
        ends = intervals.hull(ends, _resampled(made, summary))
    spread = _spread_of(made.value + n * made.influence)
    if made.by_label is not None:
        spread = _spread_of(made.by_label[np.isfinite(made.by_label)])
    return _finish(cell, summary, made.value, error, ends, made.details, spread)


def _resampled(made: Linearized, summary: Summary) -> Interval:
    """The bootstrap interval of the mean of value + n · influence over groups of rows."""
    sums, rows = group_sums(made, summary)
    if rows.size < 2:
        return -math.inf, math.inf
    drawn = summary.counts @ sums / (summary.counts @ rows)
    left_out = (sums.sum() - sums) / (rows.sum() - rows)
    method = intervals.INTERVALS[summary.interval]
    return method(drawn, summary.confidence, value=made.value, left_out=left_out)


def group_sums(made: Linearized, summary: Summary) -> tuple[Floats, Ints]:
    """Sums of value + n · influence of every group that has rows, and how many it has."""
    n = made.influence.size
    group = np.arange(n) % max(summary.state.group_rows.size, 1)
    size = np.bincount(group)
    sums = made.value * size + n * np.bincount(group, made.influence)
    return sums.astype(np.float64), size.astype(np.int64)


def of_ratio(above: Floats, below: Floats) -> Floats:
    """What rows add to R = Σx/Σy, of which it is the mean: R + (x − R y) n / Σy.

    Parameters
    ----------
    above, below : (n,) floats

    Returns
    -------
    (n,) floats
    """
    total = math.fsum(below.tolist())
    ratio = math.fsum(above.tolist()) / total if total else 0.0
    return ratio + (above - ratio * below) * (below.size / total if total else 0.0)


def of_labels(cell: Cell, summary: Summary) -> Floats:
    """What rows add to a mean over labels, of which it is the mean; NaN of one that is refused.

    Parameters
    ----------
    cell : Cell
    summary : Summary

    Returns
    -------
    (n,) floats
    """
    labels, n = over_labels(cell, summary), summary.state.rows
    if labels is None:
        return np.full(n, math.nan)
    effects = row_effects(cell, summary)
    return np.asarray(labels.mean + n * (effects - effects.mean()))


def _in_common(labels: macro.OverLabels, cell: Cell, state: State) -> float:
    """Σ over rows of the products of what two labels of the row are worth."""
    sums = [rows.sums(cell.k, *labels.effects.by_kind) for rows in state.label_rows]
    return math.fsum(x for totals, squares in sums for x in totals * totals - squares)


def row_effects(cell: Cell, summary: Summary) -> Floats:
    """What a mean over labels changes by without each row, to first order.

    Parameters
    ----------
    cell : Cell
        Of a metric over labels that is not refused.
    summary : Summary

    Returns
    -------
    (n,) floats
        In the order in which rows came.
    """
    labels = over_labels(cell, summary)
    if labels is None:
        raise ValueError("internal error: effects of an estimate that is refused.")
    sums = [rows.sums(cell.k, *labels.effects.by_kind)[0] for rows in summary.state.label_rows]
    if not sums:  # no labels at all
        return np.zeros(summary.state.rows)
    return np.concatenate(sums) * labels.error(1.0, labels.mean)


KINDS: dict[str, Callable[[Cell, Summary], Estimate]] = {
    "rows": _mean,
    "ratio": _ratio,
    "labels": _per_label,
    "scores": _of_scores,
    "tempered": _tempered,
    "clipped": _clipped,
    "filtered": _filtered,
    "deconvolved": _deconvolved,
}
