"""From sums to estimates: one function per kind of estimator, its value and its error.

With x the contributions of n rows to a column, value = Σx/n and standard error
√((Σx² − (Σx)²/n) / (n (n − 1))), both from exact sums; equal rows have the error 0, but no interval
of a finite sample has zero width (`intervals.of_mean`), and none reaches beyond the metric's range
unless it lies outside altogether, which refutes it. What is no mean over rows is one to first
order, of value + n · influence:

    ratio Σx/Σy         influence (x − value · y) / Σy          micro metrics, normalised scores
    mean over labels    what it changes by without the row      macro metrics (`macro`)
    of all scores       its derivative by the row's weight      mAP, AUC, Fmax … (`scored`)
    fitted counts       that of the fit                         `deconvolution`

A bootstrap interval is joined with that of the standard error. Where a row contributes more than
float64 can square and sum, there is no estimate, and the verdict says so.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unmask._kernels.block import LARGEST, LIMIT, SQUARES
from unmask._typing import Floats, Ints
from unmask.metrics import intervals
from unmask.metrics.claims import (
    CONDITIONAL,
    MEASURED,
    Advice,
    Level,
    Reason,
    Run,
    Verdict,
    claim,
    judge,
)
from unmask.metrics.request import Request
from unmask.metrics.sums import Cell, Inverse, Plan, Spread, Sums
from unmask.metrics.table import Estimate
from unmask.propensity.models import SourceKind

if TYPE_CHECKING:
    from unmask.metrics import deconvolution, macro
    from unmask.metrics.scored import AllRows, Linearized

Interval = tuple[float, float]
NOTHING = Verdict(Level.UNUSABLE, Reason.NO_LABELS)
OVERFLOW = Verdict(Level.UNUSABLE, Reason.OVERFLOW, Advice.RAISE_PROPENSITIES)


@dataclass(frozen=True)
class Summary:
    """Sums with the propensities that they were counted by and the request that they answer."""

    sums: Sums
    inverse: Inverse
    request: Request

    @property
    def plan(self) -> Plan:
        """Cells and columns of the sums."""
        return self.sums.plan

    @property
    def run(self) -> Run:
        """Facts that all numbers share."""
        sums, source = self.sums, self.inverse.source
        declared = self.request.complete or source.kind is not SourceKind.NONE
        return Run(
            source, sums.rows, sums.empty_rows, self.request.confidence, sums.lost_share,
            complete=sums.complete and declared, closed=self.request.hierarchy is not None,
        )  # fmt: skip

    @cached_property
    def counts(self) -> Floats:
        """Bootstrap counts, shared by all cells so that they are resampled together."""
        groups = int((self.sums.group_rows > 0).sum())
        return intervals.resampling_counts(groups, self.request.replicates, self.request.seed)

    @cached_property
    def scored(self) -> AllRows:
        """The scores of all rows, for metrics that need them."""
        from unmask.metrics.scored import AllRows

        forms = frozenset(cell.about.form for cell in self.plan.cells)
        information = self.request.information
        content = None if information is None else np.asarray(information)
        return AllRows(tuple(self.sums.scored), forms, content)

    def fit(self, cell: Cell) -> deconvolution.Deconvolution:
        """The fitted label counts of a cell that is deconvolved."""
        from unmask.metrics import deconvolution

        key = cell.about.of_sets, cell.k
        if key not in self._fits:
            self._fits[key] = deconvolution.fit_sums(self.sums, *key, effort=self.inverse.effort)
        return self._fits[key]

    @cached_property
    def _fits(self) -> dict[tuple[bool, int], deconvolution.Deconvolution]:
        return {}

    def columns(self, cell: Cell) -> list[int]:
        """The columns that a cell reads."""
        return [self.plan.column(key, cell.k) for key in cell.keys]


def estimate(cell: Cell, summary: Summary) -> Estimate:
    """Make the estimate that a cell asks for."""
    return KINDS.get(cell.estimator, KINDS[cell.about.over])(cell, summary)


def of_rows(cell: Cell, summary: Summary) -> Floats:
    """Return what rows add to a number, of which it is the mean: value + n · influence.

    Parameters
    ----------
    cell : Cell
        Neither `filtered` nor `deconvolved`, nor with τ to be chosen.
    summary : Summary
        Of sums that kept all columns.

    Returns
    -------
    (n,) floats
        NaN of a mean over labels that is refused.
    """
    n = summary.sums.rows
    if cell.about.over == "scores":
        made = linearized(cell, summary)
        return np.asarray(made.value + n * made.influence)
    if cell.about.over == "labels":
        labels = over_labels(cell, summary)
        if labels is None:
            return np.full(n, math.nan)
        effects = row_effects(cell, summary)
        return np.asarray(labels.mean + n * (effects - effects.mean()))
    columns = summary.sums.kept[0][:, summary.columns(cell)]
    return columns[:, 0] if cell.about.over == "rows" else ratio_rows(*columns.T)


# --- means over rows


def _mean(cell: Cell, summary: Summary) -> Estimate:
    return _of_column(cell, summary, summary.columns(cell)[0])


def _of_column(cell: Cell, summary: Summary, column: int, **details: Any) -> Estimate:
    sums, at_most = summary.sums, cell.about.at_most
    if sums.overflows(column):
        return refused(cell, summary, details)
    value, error = sums.mean_and_error(column)
    if cell.estimator == "tempered" and at_most is not None:
        value = min(max(value, 0.0), at_most)

    def drawn() -> Interval:
        return _bootstrap(summary, [column], value, lambda x, n: x[..., 0] / n)

    return _finish(
        cell, summary, value, error, details=details, spread=sums.spread(column),
        shares=_like_shares(cell, sums, column, value), weight=mean_weight(cell, summary),
        drawn=drawn if error else None,
    )  # fmt: skip


def _like_shares(cell: Cell, sums: Sums, column: int, value: float) -> bool:
    """Do rows contribute shares, or weighted hits that are few? Then small counts matter."""
    if sums.complete or cell.estimator in ("vanilla", "self_normalized"):
        return True
    few = cell.about.at_most is not None and value < cell.about.at_most / 2
    return few and sums.none_negative(column)


def mean_weight(cell: Cell, summary: Summary) -> float:
    """Return the mean 1/p of the labels that a row might show, in units of the largest value."""
    of_labels = summary.inverse.of_labels
    if cell.estimator == "vanilla" or of_labels is None or not of_labels.size:
        return 1.0
    return float(of_labels.mean()) / (cell.k if cell.metric == "P" else 1)


def refused(
    cell: Cell, summary: Summary, details: dict[str, Any], verdict: Verdict = OVERFLOW
) -> Estimate:
    """Return no number, and why."""
    none = math.nan
    return Estimate(cell.name, cell.estimator, none, none, (none, none), none, none,
                    summary.sums.rows, verdict, details)  # fmt: skip


def _tempered(cell: Cell, summary: Summary) -> Estimate:
    """The τ given, or chosen by the rule of Lepski as in SLOPE (Su, Srinath & Krishnamurthy 2020).

    From τ = 1 (no bias, most noise) downwards, as long as the intervals value ± 2 standard errors
    of all τ so far have a point in common, the smaller τ is as good a guess with less noise.
    """
    low, high = -math.inf, math.inf
    for ((tau, _), _), column in zip(cell.keys[::-1], summary.columns(cell)[::-1], strict=True):
        if not summary.sums.overflows(column):
            value, error = summary.sums.mean_and_error(column)
            low, high = max(low, value - 2 * error), min(high, value + 2 * error)
            if low > high:
                break
        chosen = column, tau
    return _of_column(cell, summary, chosen[0], tau=chosen[1])


def _clipped(cell: Cell, summary: Summary) -> Estimate:
    return _of_column(cell, summary, summary.columns(cell)[0], clip=cell.keys[0][0][1])


def _filtered(cell: Cell, summary: Summary) -> Estimate:
    """The mean without the lowest and highest rows, with the standard error of a trimmed mean.

    Tukey & McLaughlin (1963): the standard deviation of the rows pulled in to the cut-offs
    (winsorised), divided by the share kept and √n.
    """
    position = summary.plan.kept_columns().index(summary.columns(cell)[0])
    values = np.sort(np.concatenate([part[:, position] for part in summary.sums.kept]))
    n, cut = values.size, int(summary.request.fraction / 2 * values.size)
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
    return _finish(cell, summary, value, error, details=details, spread=_spread_of(middle))


# --- ratios of two means


def _ratio(cell: Cell, summary: Summary) -> Estimate:
    """Σx / Σy; 0 where there is nothing to find."""
    sums, (x, y) = summary.sums, summary.columns(cell)
    if sums.overflows(x, y):
        return refused(cell, summary, {})
    n, below = sums.rows, sums.exactly(y)
    ratio = sums.exactly(x) / below if below else Fraction(0)
    products = sums.exactly(summary.plan.products[x, y])
    squares = sums.exactly(x, SQUARES) + ratio * ratio * sums.exactly(y, SQUARES)
    residual = max(squares - 2 * ratio * products, Fraction(0))
    error = math.inf if n < 2 else 0.0
    equal = n > 1 and sums.all_equal(x) and sums.all_equal(y)
    if below and n > 1 and not equal:
        error = math.sqrt(residual * n / (n - 1)) / float(below)

    def drawn() -> Interval:
        return _bootstrap(
            summary, [x, y], float(ratio), lambda s, _: quotient(s[..., 0], s[..., 1])
        )

    return _finish(
        cell, summary, float(ratio), error, spread=sums.spread(x),
        drawn=drawn if below and not equal else None,
    )  # fmt: skip


def ratio_rows(above: Floats, below: Floats, rows: Floats | float = 1.0) -> Floats:
    """Return what rows add to R = Σx/Σy, of which it is the mean: R + (x − R y) n / Σy.

    Parameters
    ----------
    above, below : (n,) floats
        x and y, of rows or summed over groups of rows.
    rows : (n,) floats, default 1
        How many rows a group has.

    Returns
    -------
    (n,) floats
    """
    total = math.fsum(below.tolist())
    ratio = math.fsum(above.tolist()) / total if total else 0.0
    n = float(np.broadcast_to(rows, below.shape).sum())
    return np.asarray(ratio * rows + (above - ratio * below) * (n / total if total else 0.0))


def quotient(above: Floats, below: Floats) -> Floats:
    """Divide elementwise, for `below` ≥ 0; 0 where there is nothing to find."""
    return above / np.where(below > 0, below, math.inf)


# --- means over labels


def over_labels(cell: Cell, summary: Summary) -> macro.OverLabels | None:
    """Return a metric of every label; None if propensities are too low to be squared and summed."""
    from unmask.metrics import macro

    sums, position = summary.sums, int(np.searchsorted(summary.plan.ks, cell.k))
    corrects = cell.estimator != "vanilla" and not sums.complete
    q: Floats = np.ones(sums.observed.size)
    if corrects and summary.inverse.of_labels is not None:
        counted = sums.observed + sums.predicted[:, position] > 0
        q = np.where(counted, summary.inverse.of_labels, 1.0)  # others have nothing to weigh
    if float(q.max(initial=1.0)) >= math.sqrt(LIMIT / sums.rows):  # fourth powers are summed
        return None
    hits = sums.hits[:, position].astype(np.float64)
    wrong, missed = sums.predicted[:, position] - hits, sums.observed - hits
    return macro.FORMS[cell.about.form](macro.Counts(hits, wrong, missed, q, corrects))


def _per_label(cell: Cell, summary: Summary) -> Estimate:
    """The mean over the labels that can be counted, with an error over rows and labels."""
    labels, sums = over_labels(cell, summary), summary.sums
    if labels is None:
        return refused(cell, summary, {"labels": sums.observed.size})
    value, rows = labels.mean, sums.rows
    worth = [each.sums(cell.k, *labels.effects.by_kind) for each in sums.label_rows]
    shared = math.fsum(x for totals, squares in worth for x in totals * totals - squares)
    variance = labels.own + (shared if labels.weighted else max(0.0, shared))
    ends = value, value
    for reading in labels.readings or (value,):
        around = intervals.of_mean(
            reading, labels.error(variance, reading), summary.request.confidence, rows=rows,
            at_most=cell.about.at_most, shares=True, weight=rows / labels.trials,
        )  # fmt: skip
        ends = intervals.hull(ends, around)
    error = labels.error(variance, value)
    details = {"labels": labels.labels, "labels_left_out": labels.left_out}
    if labels.weighted:  # many rows may have a few labels: rows carry the number
        spread = _spread_of(value + rows * row_effects(cell, summary))
        return _finish(
            cell, summary, value, error, details=details, spread=spread, ends=ends, of="rows"
        )
    spread = _spread_of(labels.values)
    return _finish(cell, summary, value, error, details=details, spread=spread, ends=ends)


def row_effects(cell: Cell, summary: Summary) -> Floats:
    """Return what a mean over labels changes by without each row, to first order, as rows came."""
    labels = over_labels(cell, summary)
    if labels is None:
        raise ValueError("internal error: effects of an estimate that is refused.")
    worth = [rows.sums(cell.k, *labels.effects.by_kind)[0] for rows in summary.sums.label_rows]
    if not worth:  # no labels at all
        return np.zeros(summary.sums.rows)
    return np.concatenate(worth) * labels.error(1.0, labels.mean)


# --- functions of all scores


def linearized(cell: Cell, summary: Summary) -> Linearized:
    """Return a metric of the scores of all rows, and what every row adds to it."""
    return summary.scored.linearized(cell.about.form, corrected=cell.estimator != "vanilla")


def _of_scores(cell: Cell, summary: Summary) -> Estimate:
    """By the influences of rows; a metric without a label to speak of has no value."""
    made, n = linearized(cell, summary), summary.sums.rows
    if math.isnan(made.value) or not np.isfinite(made.influence).all():
        return refused(cell, summary, made.details, NOTHING)
    error = made.standard_error if n > 1 else math.inf

    def drawn() -> Interval:
        totals, rows = group_sums(made, summary)
        return _resampled(summary, totals[:, None], rows, made.value, lambda x, m: x[..., 0] / m)

    spread = _spread_of(made.value + n * made.influence)
    if made.by_label is not None:
        spread = _spread_of(made.by_label[np.isfinite(made.by_label)])
    return _finish(
        cell, summary, made.value, error, details=made.details, spread=spread,
        drawn=drawn if error else None,
    )  # fmt: skip


def group_sums(made: Linearized, summary: Summary) -> tuple[Floats, Ints]:
    """Return Σ of value + n · influence of every group that has rows, and how many it has."""
    n = made.influence.size
    group = np.arange(n) % max(summary.sums.group_rows.size, 1)
    size = np.bincount(group)
    sums = made.value * size + n * np.bincount(group, made.influence)
    return sums.astype(np.float64), size.astype(np.int64)


# --- fitted label counts


def _deconvolved(cell: Cell, summary: Summary) -> Estimate:
    """From the fitted counts of true labels; rows have no contributions of their own."""
    request = summary.request
    fitted = summary.fit(cell).estimate(
        cell.metric,
        confidence=request.confidence,
        replicates=0 if request.interval == "normal" else min(request.replicates, 200),
        seed=request.seed,
    )
    verdict = fitted.verdict
    if summary.sums.complete and verdict == CONDITIONAL:
        verdict = MEASURED
    return Estimate(cell.name, cell.estimator, fitted.value, fitted.standard_error,
                    fitted.interval, math.nan, math.nan, summary.sums.rows, verdict)  # fmt: skip


# --- for all of them


def _bootstrap(
    summary: Summary, columns: list[int], value: float, statistic: Callable[..., Floats]
) -> Interval:
    sums, rows = summary.sums.per_group(columns)
    return _resampled(summary, sums, rows, value, statistic)


def _resampled(
    summary: Summary, sums: Floats, rows: Ints, value: float, statistic: Callable[..., Floats]
) -> Interval:
    """The bootstrap interval of groups; a single one says nothing of how rows differ."""
    if rows.size < 2:
        return -math.inf, math.inf
    replicates = statistic(summary.counts @ sums, summary.counts @ rows)
    left_out = statistic(sums.sum(axis=0) - sums, rows.sum() - rows)
    method = intervals.INTERVALS[summary.request.interval]
    return method(replicates, summary.request.confidence, value=value, left_out=left_out)


def _spread_of(values: Floats) -> Spread:
    size = np.sort(np.abs(values))[::-1]
    return math.fsum(size), math.fsum(size * size), size[:LARGEST]


def _finish(
    cell: Cell,
    summary: Summary,
    value: float,
    error: float,
    *,
    spread: Spread,
    details: dict[str, Any] | None = None,
    shares: bool = False,
    weight: float = 1.0,
    drawn: Callable[[], Interval] | None = None,
    ends: Interval | None = None,
    of: Literal["rows", "labels"] = "labels",
) -> Estimate:
    """Add the interval, the effective size and the verdict."""
    sums, request, at_most = summary.sums, summary.request, cell.about.at_most
    if ends is None:
        ends = intervals.of_mean(
            value, error, request.confidence, rows=sums.rows, at_most=at_most, shares=shares,
            weight=weight,
        )  # fmt: skip
    if drawn is not None and request.interval != "normal":
        ends = intervals.hull(ends, drawn())
    about = {} if details is None else details
    labels = about.get("labels") if of == "labels" else None
    absolute, squares, heaviest = spread
    count, share = 0, 0.0
    if absolute:  # the fewest rows that carry four fifths of Σ|x| (or all remembered)
        carried = [total / absolute for total in accumulate(heaviest.tolist())]
        count = min(bisect_left(carried, 0.8) + 1, len(carried))
        share = carried[count - 1]
    useful = cell.about.deconvolved and not sums.complete
    verdict = judge(
        value, ends, rows=labels or sums.rows, of="labels" if labels else "rows",
        heaviest=(count, share), at_most=at_most,
        claimed=claim(cell.estimator, complete=sums.complete),
        advice=Advice.USE_DECONVOLVED if useful else Advice.NONE,
    )  # fmt: skip
    return Estimate(
        metric=cell.name,
        estimator=cell.estimator,
        value=value,
        standard_error=error,
        interval=intervals.within(ends, at_most),
        effective_sample_size=absolute * (absolute / squares) if squares else 0.0,
        largest_contribution=float(heaviest[0]) / absolute if absolute else 0.0,
        rows=sums.rows,
        verdict=verdict,
        details=about,
    )


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
