"""Sums over rows: what a request needs counted, and one exact pass that counts it.

    request ──▶ plan (cells, columns) ──▶ pass over rows (`_kernels.metrics`) ──▶ sums, which add up

A *view* is a pair (τ, clip): inverse propensities q are read as min(1 + τ(q − 1), clip). A column
is one (view, form, k); cells that need the same column share it, such as unbiased P@5 and the
numerator of PSP@5. The pass remembers

- exact sums per column (`_kernels.block`), so that shards add up to the very same number;
- for bootstrap intervals and comparisons, sums per *group* of rows: row r belongs to group
  r mod 4096. Up to 4096 rows a group is a row; beyond, resampling groups of exchangeable rows has
  the same mean, variance and skewness as resampling rows, at a cost that does not grow with n;
- for metrics per label, hits and predictions per label and place, and the rows themselves, whose
  labels are right or wrong together;
- for deconvolution, the counts that it fits: rows by (stratum, s observed hits, t observed labels
  outside), occupied cells only, in whole multiples of 1/FIXED, so that shards add up to the same
  numbers in any order. Rows with a predicted set of size z are counted as those of k = z, but
  without places, which a set has not.

Only `filtered`, because a quantile of all rows needs all rows, and metrics per label grow with the
rows: by a number per row, and by their labels and predictions; metrics that rank all rows by score
keep the scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask._kernels import block as exact
from unmask._kernels import in_chunks, row_bounds
from unmask._kernels import metrics as kernels
from unmask._kernels.block import Draws, Indices, Kernel, Need, Rows, Tables
from unmask._kernels.deconvolution import COUNTED, SET_ROW, STRATA, CountTables
from unmask._kernels.metrics import Call, Program
from unmask._kernels.metrics import View as ProgramView
from unmask._kernels.weights import quadrature
from unmask._messages import setting
from unmask._typing import Array, Bools, Floats, Ints, LabelsLike, PropensityLike
from unmask.arrays import checks
from unmask.metrics.registry import GAMMAS, METRICS, UNCONDITIONAL, Metric, split
from unmask.metrics.request import Predictions, Request, as_top, of_scores
from unmask.predictions import LabelSets, TopK
from unmask.propensity.mask_model import MaskModel, RowEffort
from unmask.propensity.models import Source, reciprocal, source_of

if TYPE_CHECKING:
    from unmask.metrics.scored import Scored

View = tuple[float, float]
Spread = tuple[float, float, Floats]
Key = tuple[View, str]
CountKey = TypeVar("CountKey", int, tuple[int, int])
"""k, or of sets k and their size."""

WHOLE = int(np.iinfo(np.int64).max)
"""The cut-off of a metric that reads the whole list of a row as its set, whatever its length."""
VANILLA: View = (0.0, math.inf)
EVERYTHING: View = (1.0, math.inf)
LINEAR = frozenset({"precision", "dcg"})
"""Forms that are sums of 1/p over hits."""
TAUS = tuple(np.linspace(0, 1, 9).tolist())
"""The grid from which τ is chosen."""
GROUPS = 4096
SUBSAMPLING = (25, 100)
"""The baseline thins rows with more than 25 labels, 100 times."""
SPAN = 1 << 32
"""Labels of a row are fewer."""


# --- the plan


@dataclass(frozen=True)
class Cell:
    """One estimate to be made, of "R@5" say, and the (view, form) pairs whose columns it reads."""

    name: str
    metric: str
    estimator: str
    k: int
    keys: tuple[Key, ...]

    @cached_property
    def about(self) -> Metric:
        """The metric's entry in the registry."""
        return METRICS[self.metric]


@dataclass(frozen=True)
class Plan:
    """Cells, and the columns they read.

    `evidence` are cells that nobody asked for: the unbiased share of right predictions at the
    cut-offs at hand, which may refute the propensities of all others (`claims`). `starts` gives
    the first column of a (view, form) and `products` the columns x·y of ratios. The first
    `full` columns are those of the cells themselves; of the others only the sums are read.
    `n_labels` is the number of labels.
    """

    cells: tuple[Cell, ...]
    evidence: tuple[Cell, ...]
    ks: Ints
    views: tuple[View, ...]
    starts: dict[Key, int]
    products: dict[tuple[int, int], int]
    full: int
    n_labels: int

    @classmethod
    def of(cls, request: Request, *, width: int, n_labels: int) -> Plan:
        """Plan the cells of a request, and one column for each thing they need."""
        cells = tuple(_cells(request, width, n_labels))
        evidence = tuple(_evidence(cells))
        ks = np.array(sorted({cell.k for cell in cells}), dtype=np.int64)
        cell_keys = dict.fromkeys(key for cell in (*cells, *evidence) for key in cell.keys)
        keys = cell_keys | dict.fromkeys(key for cell in cells for key in _keys_of_ends(cell))
        starts = {key: i * ks.size for i, key in enumerate(keys)}
        pairs = [
            tuple(starts[key] + int(np.searchsorted(ks, cell.k)) for key in cell.keys)
            for cell in cells
            if cell.about.over == "ratio"
        ]
        first = len(starts) * ks.size
        products = {(x, y): first + i for i, (x, y) in enumerate(dict.fromkeys(pairs))}
        views = tuple(dict.fromkeys(view for view, _ in keys))
        full = len(cell_keys) * ks.size
        return cls(cells, evidence, ks, views, starts, products, full, n_labels)

    def same_as(self, other: Plan) -> bool:
        """True if sums of both can be added."""
        alike = self.starts == other.starts and np.array_equal(self.ks, other.ks)
        return alike and self.n_labels == other.n_labels

    @cached_property
    def columns(self) -> int:
        """Number of columns that a pass fills."""
        return len(self.starts) * self.ks.size + len(self.products)

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that fill the columns."""
        forms = {form for _, form in self.starts}
        cells = (*self.cells, *self.evidence)
        kernels = (kernel for cell in cells for kernel in cell.about.kernels)
        return tuple(dict.fromkeys(each for each in kernels if forms & set(each.forms)))

    @cached_property
    def integrates(self) -> set[Need]:
        """Which quadrature rules columns need, of those that depend on the sizes of rows."""
        return {
            need
            for kernel in self.kernels
            for (tau, _), form in self.starts
            for need in kernel.needs
            if tau > 0 and form in kernel.forms and "quadrature" in need
        }

    @cached_property
    def per_label(self) -> bool:
        """True if hits are counted label by label."""
        return any(cell.about.over == "labels" for cell in self.cells)

    @cached_property
    def deconvolved_ks(self) -> tuple[frozenset[int], frozenset[int]]:
        """The cut-offs at which rankings, and at which sets, are deconvolved."""
        cells = [cell for cell in self.cells if cell.estimator == "deconvolved"]
        rankings, sets = (
            frozenset(cell.k for cell in cells if cell.about.of_sets == of_sets)
            for of_sets in (False, True)
        )
        return rankings, sets

    def cut_offs(self, width: int) -> Ints:
        """The cut-offs for lists of some width: no longer than that where all of a list counts."""
        finite = self.ks[self.ks != WHOLE]
        return np.minimum(self.ks, max(width, int(finite.max(initial=0))))

    def column(self, key: Key, k: int) -> int:
        """The column of a (view, form) at k."""
        return self.starts[key] + int(np.searchsorted(self.ks, k))

    def kept_columns(self) -> list[int]:
        """The columns of which every row is kept, for `filtered`."""
        kept = (cell for cell in self.cells if cell.estimator == "filtered")
        return sorted({self.column(cell.keys[0], cell.k) for cell in kept})

    def program(self, cut_offs: Ints) -> Program:
        """Instructions for a pass over rows, for lists cut off there."""
        triples = [(x, y, z) for (x, y), z in self.products.items()]
        return Program(
            ks=cut_offs,
            views=tuple(self._program_view(view) for view in self.views),
            columns=self.columns,
            full=self.full,
            products=np.array(triples, dtype=np.int64).reshape(-1, 3),
            needs_ideal=any("ideal" in kernel.needs for kernel in self.kernels),
            needs_lost=any(cell.estimator not in UNCONDITIONAL for cell in self.cells),
        )

    def _program_view(self, view: View) -> ProgramView:
        calls: list[Call] = []
        best_calls: list[Call] = []
        needs: set[str] = set()
        for kernel in self.kernels:
            columns = tuple(self.starts.get((view, form), -1) for form in kernel.forms)
            if max(columns) < 0:
                continue
            if view[0] == 0.0 and kernel.vanilla is not None:
                calls.append(Call(kernel.vanilla, columns))
            elif "largest" in kernel.needs:
                best_calls.append(Call(kernel.function, columns))
            else:
                calls.append(Call(kernel.function, columns))
                needs |= set(kernel.needs)
        rest = bool(needs & {"rest", "every rest"})
        every_rest = "every rest" in needs
        return ProgramView(*view, tuple(calls), tuple(best_calls), rest, every_rest)


def _cells(request: Request, width: int, n_labels: int) -> Iterator[Cell]:
    for name in request.metrics:
        metric, k = split(name)
        about = METRICS[metric]
        if k is None:
            k = WHOLE if about.of_sets or about.reads != "list" else width
        elif k > width and width < n_labels:
            raise ValueError(
                f"{name} needs the first {k} predictions of every row; there are {width}. "
                f"Predict the top {k}, or ask for @{width}."
            )
        possible = about.estimators  # a metric with only one needs no asking
        chosen = [each for each in request.estimators if each in possible]
        chosen = chosen or list(possible[: len(possible) == 1])
        if not chosen:
            raise ValueError(
                f"{name} cannot be estimated by {', '.join(request.estimators)}; use one of: "
                f"{', '.join(possible)}."
            )
        for estimator in chosen:
            yield Cell(name, metric, estimator, k, _keys(about, estimator, request))


def _evidence(cells: tuple[Cell, ...]) -> Iterator[Cell]:
    """Unbiased precision at the cut-offs of corrected rankings and sets, where nobody asked."""
    asked = {(cell.metric, cell.k) for cell in cells if cell.estimator == "unbiased"}
    corrected = [
        cell for cell in cells
        if cell.estimator not in UNCONDITIONAL and cell.about.reads == "list"
    ]  # fmt: skip
    for k in dict.fromkeys(cell.k for cell in corrected):
        metric, name = ("sample-P", "sample-P") if k == WHOLE else ("P", f"P@{k}")
        if (metric, k) not in asked:
            yield Cell(name, metric, "unbiased", k, ((EVERYTHING, METRICS[metric].form),))


def _keys(metric: Metric, estimator: str, request: Request) -> tuple[Key, ...]:
    tau = request.tau
    views: dict[str, list[View]] = {
        "vanilla": [VANILLA],
        "tempered": [(t, math.inf) for t in (TAUS if tau == "auto" else (float(tau),))],
        "clipped": [(1.0, request.clip)],
    }
    if metric.over in ("labels", "scores") or estimator == "deconvolved":
        return ()
    if metric.over == "ratio":
        (view,) = views.get(estimator, [EVERYTHING])
        return ((view, metric.form), (view, metric.forms.get(estimator, metric.below)))
    form = metric.forms.get(estimator, metric.form)
    return tuple(product(views.get(estimator, [EVERYTHING]), [form]))


def _keys_of_ends(cell: Cell) -> tuple[Key, ...]:
    """Columns for the exact ends of a metric linear in 1/p (`vary`)."""
    linear = cell.about.over == "rows" and cell.about.form in LINEAR
    if cell.estimator != "unbiased" or not linear:
        return ()
    return tuple((view, cell.about.form) for view in (VANILLA, *((1.0, g) for g in GAMMAS)))


# --- sums, and how they add up


class CellCounts(NamedTuple):
    """Sums per occupied cell, for one k; `keys` = (stratum · (k + 1) + s) · 2³² + t ascend.

    Of sets of size k there is one column of hits, for all places.

    `hits[c, r]` and `misses[c]` are Σ 1/p, in units of 1/FIXED, of the hits at place r and of the
    observed labels outside; `squares[c]` is Σ 1/p² of the hits, in units of 1/SQUARED.
    """

    keys: Ints
    rows: Ints
    hits: Ints
    misses: Ints
    squares: Ints

    @property
    def inverse_sum(self) -> int:
        """Σ 1/p of all labels, in units of 1/FIXED."""
        return int(self.hits.sum()) + int(self.misses.sum())

    def places(self, k: int) -> Ints:
        """(stratum, s, t) of every cell."""
        pair, outside = np.divmod(self.keys, SPAN)
        return np.array([*np.divmod(pair, k + 1), outside])

    def __add__(self, other: CellCounts) -> CellCounts:  # type: ignore[override]
        """The sums of two sets of rows."""
        keys = np.union1d(self.keys, other.keys)
        sums = [np.zeros((keys.size, *column.shape[1:]), np.int64) for column in self[1:]]
        for part in (self, other):
            positions = np.searchsorted(keys, part.keys)
            for total, column in zip(sums, part[1:], strict=True):
                total[positions] += column
        return CellCounts(keys, *sums)


def _add_counts(into: dict[CountKey, CellCounts], more: Mapping[CountKey, CellCounts]) -> None:
    for key, cells in more.items():
        before = into.get(key)
        into[key] = cells if before is None else before + cells


@dataclass(frozen=True)
class LabelRows:
    """Rows for metrics per label: observed labels as CSR, predictions, and which of them are hits.

    Parameters
    ----------
    indptr : (n + 1,) ints
    indices : (nnz,) ints
    top : (n, width) ints
    is_hit : (n, width) bools
    """

    indptr: Ints
    indices: Indices
    top: Indices
    is_hit: Bools

    def sums(self, k: int, hit: Floats, wrong: Floats, missed: Floats) -> tuple[Floats, Floats]:
        """Σ and Σ of squares of what the labels of every row are worth (`kernels.sum_effects`)."""
        totals, squares = kernels.sum_effects(
            self.indptr, self.indices, self.top, self.is_hit, k, hit, wrong, missed
        )
        return totals, squares


@dataclass
class Sums:
    """Sums over the rows counted so far, for one plan."""

    plan: Plan
    rows: int
    complete: bool  # every propensity so far was 1
    partials: Floats
    largest: Floats
    groups: Floats
    group_rows: Ints
    observed: Ints
    predicted: Ints
    hits: Ints
    kept: list[Floats] = field(default_factory=list)
    label_rows: list[LabelRows] = field(default_factory=list)
    tables: dict[int, CellCounts] = field(default_factory=dict)
    set_tables: dict[tuple[int, int], CellCounts] = field(default_factory=dict)  # by k and size
    empty_rows: int = 0  # rows without an observed label
    lost: int = 0  # Σ over rows of Π (1 − p) of their observed labels, in units of 1/kernels.LOST
    inverse_sum: int = 0  # Σ 1/p of the labels in the tables, in units of 1/FIXED
    inverse_squares: int = 0  # Σ 1/p², likewise
    scored: list[Scored] = field(default_factory=list)  # for metrics of the scores of all rows

    @classmethod
    def empty(cls, plan: Plan, *, groups: bool, per_label: bool | None = None) -> Sums:
        """Return the sums of no rows; without `per_label`, counts per label if the plan has any."""
        counted = plan.n_labels if (plan.per_label if per_label is None else per_label) else 0
        return cls(
            plan=plan,
            rows=0,
            complete=True,
            partials=np.zeros((plan.columns, 3, exact.PARTIALS)),
            largest=np.zeros((plan.columns, exact.LARGEST)),
            groups=np.zeros((2, GROUPS if groups else 0, plan.columns)),
            group_rows=np.zeros(GROUPS if groups else 0, np.int64),
            observed=np.zeros(counted, np.int64),
            predicted=np.zeros((counted, plan.ks.size), np.int64),
            hits=np.zeros((counted, plan.ks.size), np.int64),
        )

    def add(self, other: Sums) -> None:
        """Take in other sums of the same plan."""
        if not self.plan.same_as(other.plan):
            raise ValueError(
                f"all rows must have the same labels and as many predictions; got "
                f"{other.plan.n_labels} labels after {self.plan.n_labels}, and up to "
                f"{other.plan.ks[-1]} predictions after {self.plan.ks[-1]}."
            )
        self.rows += other.rows
        self.empty_rows += other.empty_rows
        self.lost += other.lost
        self.complete &= other.complete
        exact.merge(self.partials, self.largest, other.partials, other.largest)
        _add_doubled(self.groups, other.groups)
        self.group_rows += other.group_rows
        self.kept += other.kept
        self.scored += other.scored
        if other.observed.size:
            self.observed += other.observed
            self.predicted += other.predicted
            self.hits += other.hits
            self.label_rows += other.label_rows
        self.add_tables(other)

    def add_tables(self, other: Sums) -> None:
        """Take in the count tables alone."""
        self.inverse_sum += other.inverse_sum
        self.inverse_squares += other.inverse_squares
        _add_counts(self.tables, other.tables)
        _add_counts(self.set_tables, other.set_tables)

    @property
    def lost_share(self) -> float:
        """The mean over rows of Π (1 − p) of their observed labels; 0 if no metric looked at p.

        A row loses all its true labels with at most that chance: the observed are among them.
        """
        return self.lost / kernels.LOST / max(self.rows, 1)

    def total(self, column: int, kind: int = exact.SUM) -> float:
        """Σx, Σx² or Σ|x| of a column, correctly rounded."""
        return math.fsum(self.partials[column, kind].tolist())

    def ratio(self, column: int, kind: int = exact.SUM) -> tuple[int, int]:
        """The total without rounding: a whole number, and the power of two to divide it by."""
        parts = [x.as_integer_ratio() for x in self.partials[column, kind].tolist() if x]
        below = max((denominator for _, denominator in parts), default=1)  # all are powers of two
        return sum(above * (below // denominator) for above, denominator in parts), below

    def exactly(self, column: int, kind: int = exact.SUM) -> Fraction:
        """The total without rounding, as a fraction."""
        return Fraction(*self.ratio(column, kind))

    def mean(self, column: int) -> float:
        """The mean over rows, correctly rounded."""
        total, unit = self.ratio(column)
        return total / (unit * self.rows)

    def mean_and_error(self, column: int) -> tuple[float, float]:
        """The mean and its standard error: whole numbers up to one rounded quotient each."""
        n, (total, unit) = self.rows, self.ratio(column)
        mean = total / (unit * n)
        if n < 2:
            return mean, math.inf
        if self.all_equal(column):
            return mean, 0.0
        squares, squares_unit = self.ratio(column, exact.SQUARES)
        above = max(squares * unit * unit * n - total * total * squares_unit, 0)  # Σx² − (Σx)²/n …
        below = squares_unit * unit * unit * n  # … divided by this
        return mean, math.sqrt(above / (below * (n - 1) * n))

    def all_equal(self, column: int) -> bool:
        """Does every row contribute the same? Exactly then |Σx| = Σ|x| = n · max |x|."""
        largest = float(self.largest[column, 0])
        if self.total(column, exact.ABSOLUTE) != self.rows * largest:  # not even when rounded
            return False
        absolute = self.exactly(column, exact.ABSOLUTE)
        return bool(abs(self.exactly(column)) == absolute == self.rows * Fraction(largest))

    def none_negative(self, column: int) -> bool:
        """Does no row contribute less than 0? Exactly then Σx = Σ|x|."""
        return self.exactly(column) == self.exactly(column, exact.ABSOLUTE)

    def overflows(self, *columns: int) -> bool:
        """Is a contribution (of several columns, their product) beyond what sums can hold?"""
        largest = (max(1.0, float(self.largest[column, 0])) for column in columns)
        return math.prod(largest) >= exact.LIMIT

    def spread(self, column: int) -> Spread:
        """Σ|x|, Σx² and the largest |x| of the contributions x."""
        absolute, squares = self.total(column, exact.ABSOLUTE), self.total(column, exact.SQUARES)
        return absolute, squares, self.largest[column]

    def per_group(self, columns: list[int]) -> tuple[Floats, Ints]:
        """Column sums and number of rows of every group that has rows."""
        is_used = self.group_rows > 0
        both = self.groups[:, is_used][:, :, columns]
        return both[0] + both[1], self.group_rows[is_used]


def _add_doubled(sums: Floats, terms: Floats) -> None:
    """Add sums kept as unevaluated pairs (high, low)."""
    high = sums[0] + terms[0]
    part = high - sums[0]
    low = (sums[0] - (high - part)) + (terms[0] - part) + sums[1] + terms[1]
    sums[0], sums[1] = high, low


# --- the pass


@dataclass(frozen=True, eq=False)
class Inverse:
    """Propensities as a pass reads them: 1/p of labels, or propensities of stored labels.

    Parameters
    ----------
    of_labels : (L,) floats, optional
        1/p; None without propensities, or with those of entries.
    entries : (n, L) sparse matrix, optional
        A propensity per observed label.
    source : Source
    effort : RowEffort, optional
    """

    of_labels: Floats | None
    entries: PropensityLike | None
    source: Source
    effort: RowEffort | None = None

    @classmethod
    def of(cls, propensity: PropensityLike | None) -> Inverse:
        """Check propensities of any form."""
        source = source_of(propensity)
        if propensity is None:
            return cls(None, None, source)
        if sp.issparse(propensity):
            return cls(None, propensity, source)
        effort = propensity.effort if isinstance(propensity, MaskModel) else None
        return cls(reciprocal(checks.propensity(propensity)), None, source, effort)


def count(
    request: Request,
    top: Predictions,
    labels: LabelsLike,
    inverse: Inverse,
    *,
    first_row: int = 0,
    keep_all: bool = False,
) -> Sums:
    """Check some rows and count them in one pass; `keep_all` keeps every row of every column."""
    observed = checks.labels(labels)
    n, n_labels = observed.shape
    values = _inverse_values(request, observed, inverse)
    listed, scores = _listed(request, top, observed), _scores(request, top, observed)
    plan = Plan.of(request, width=listed.shape[1], n_labels=n_labels)
    per_entry, groups = inverse.entries is not None, request.interval != "normal"
    if per_entry:
        _refuse_per_entry(plan)
    indptr = observed.indptr.astype(np.int64, copy=False)
    lengths = np.diff(indptr)
    made = Sums.empty(plan, groups=groups)
    kept_columns = list(range(plan.columns)) if keep_all else plan.kept_columns()
    kept = np.empty((n, len(kept_columns)))
    cut_offs = plan.cut_offs(listed.shape[1])
    is_hit = np.zeros((n if plan.per_label else 0, int(cut_offs[-1])), np.bool_)
    reads = any("scores" in kernel.needs for kernel in plan.kernels)
    read = scores if scores is not None and reads else np.empty((0, 0))
    rows = Rows(indptr, observed.indices, listed, values, per_entry, first_row, read)
    program = plan.program(cut_offs)
    tables = _tables(plan, lengths, listed, cut_offs)
    draws, longest = Draws(*SUBSAMPLING, request.seed), int(lengths.max(initial=1))

    def chunk(start: int, stop: int) -> Sums:
        part = Sums.empty(plan, groups=groups, per_label=False)
        sinks = kernels.Sinks(np.array(kept_columns, np.int64), kept, is_hit, part.groups)
        counts = CountSink(plan, indptr[start : stop + 1], start)
        part.partials, part.largest, part.lost = kernels.score_rows(
            start, stop, rows, program, tables, draws, sinks, counts.tables, longest
        )
        counts.pour(part)
        return part

    size = (int(indptr[-1]) + n) // (8 if groups else 64)
    for part in in_chunks(row_bounds(indptr, max(1 << 18, size)), chunk):
        made.add(part)
    made.rows, made.complete = n, bool((values == 1).all())
    made.empty_rows = n - int(np.count_nonzero(lengths))
    if scores is not None and any(cell.about.over == "scores" for cell in plan.cells):
        from unmask.metrics.scored import Scored

        of_entries = values.copy() if per_entry else values[observed.indices]
        made.scored.append(Scored(scores, observed, of_entries))
    if groups:
        made.group_rows += np.bincount((first_row + np.arange(n)) % GROUPS, minlength=GROUPS)
    if kept_columns:
        made.kept.append(kept)
    if plan.per_label:
        made.observed += np.bincount(observed.indices, minlength=n_labels)
        kernels.count_labels(listed, is_hit, cut_offs, made.predicted, made.hits)
        first = listed[:, : is_hit.shape[1]].copy()  # what is kept must not change with the input
        indices = observed.indices.astype(np.int32)
        made.label_rows.append(LabelRows(indptr.copy(), indices, first, is_hit))
    return made


def _inverse_values(request: Request, observed: sp.csr_array, inverse: Inverse) -> Floats:
    """1/p per label, or per stored label if those are given; ones if nothing can be missing."""
    if inverse.entries is not None:
        return reciprocal(checks.entry_propensity(inverse.entries, observed))
    if inverse.of_labels is None:
        needy = [each for each in request.estimators if each != "vanilla"]
        if needy:
            raise ValueError(
                f"{needy[0]} estimates need propensities; give them with "
                f"{setting('propensity', of='evaluate')}."
            )
        return np.ones(observed.shape[1])
    if inverse.of_labels.size != observed.shape[1]:
        raise ValueError(
            f"{inverse.of_labels.size} propensities for {observed.shape[1]} labels; "
            "give one per label."
        )
    return inverse.of_labels


def _listed(request: Request, top: Predictions, observed: sp.csr_array) -> NDArray[np.int32]:
    """The predicted labels, (n, width), of a `TopK`, sets or scores; none if nobody asks."""
    names = [name for name in request.metrics if METRICS[split(name)[0]].reads == "list"]
    if not names:
        return np.full((observed.shape[0], 1), -1, dtype=np.int32)
    top = as_top(top, names)
    checks.same_rows(top.labels, observed, "predictions", "labels")
    largest = int(top.labels.max(initial=-1))
    if largest >= observed.shape[1]:
        raise ValueError(
            f"label {largest} is predicted, but there are {observed.shape[1]} labels; "
            "labels are numbered from 0."
        )
    return np.ascontiguousarray(top.labels)


def _scores(request: Request, top: Predictions, observed: sp.csr_array) -> Array | None:
    """The scores of every label, checked, if a metric reads them."""
    names = of_scores(request.metrics)
    if not names:
        return None
    if isinstance(top, TopK | LabelSets):
        raise ValueError(
            f"{names[0]} needs a score for every label; give the matrix of scores, not "
            f"{type(top).__name__}."
        )
    from unmask.metrics import scored

    scores = scored.scores_of(top, observed, names[0])
    content = request.information
    if content is not None and np.size(content) != observed.shape[1]:
        raise ValueError(
            f"{np.size(content)} information contents for {observed.shape[1]} labels; give one "
            "for each."
        )
    for name in names:
        if METRICS[name].reads == "probabilities":
            scored.refuse_no_probabilities(scores, name)
    return scores


def _refuse_per_entry(plan: Plan) -> None:
    """A corrected metric per label divides counts by the propensity of the label."""
    for cell in plan.cells:
        if cell.about.over == "labels" and cell.estimator != "vanilla":
            raise ValueError(
                f"{cell.name} {cell.estimator} needs one propensity per label; there is one per "
                "observed label. Leave it out, or give propensities per label."
            )


def _tables(plan: Plan, lengths: Ints, top: Indices, cut_offs: Ints) -> Tables:
    """Discounts 1/log2(1 + rank), 1/IDCG(0 … k), and the quadrature rules that rows need."""
    discount = 1 / np.log2(np.arange(2, int(cut_offs[-1]) + 2))
    inverse_ideal = np.r_[0.0, 1 / np.cumsum(discount)]
    rules = _short_rules()
    if plan.integrates:
        rules = quadrature(_degrees(plan.integrates, lengths, top, cut_offs))
    return Tables(discount, inverse_ideal, *rules, plan.n_labels)


@cache
def _short_rules() -> tuple[Floats, Floats, Ints]:
    """For rows that the baseline thins to so many labels; all others are integrated if asked."""
    return quadrature(np.arange(SUBSAMPLING[0] + 1))


def _degrees(needs: set[Need], lengths: Ints, top: Indices, cut_offs: Ints) -> Ints:
    """Numbers of factors t and 1 − u q in the integrands of these rows."""
    degrees = [np.arange(SUBSAMPLING[0] + 1)]
    if "quadrature" in needs:
        different = np.flatnonzero(np.bincount(lengths))
        degrees += [different, different + int(cut_offs[-1])]
    if needs - {"quadrature"}:
        listed = (top >= 0).sum(axis=1)
        span = int(cut_offs[-1]) + 1
        pairs = [lengths * span + np.minimum(listed, k) for k in cut_offs.tolist()]
        m, s = np.divmod(np.unique(np.concatenate(pairs)), span)
        degrees += [m, m + s]
        if "long quadrature" in needs:
            degrees += [m + 4 * s, 4 * m + s]
    return np.concatenate(degrees)


class CountSink:
    """Space for the counts of a run of rows, flat, as a pass takes it (`tables`)."""

    def __init__(self, plan: Plan, indptr: Ints, first_row: int = 0) -> None:
        """Space for what the rows of this piece of `indptr`, from `first_row` on, can occupy."""
        rankings, sets = plan.deconvolved_ks
        n = indptr.size - 1
        self._lengths = np.unique(np.diff(indptr)) if rankings else np.zeros(0, np.int64)
        columns = np.zeros(int(self._lengths.max(initial=0)) + 1, np.int32)
        columns[self._lengths] = np.arange(self._lengths.size)
        self._ks = plan.ks.tolist()
        self._cells = [
            STRATA * (k + 1) * self._lengths.size if k in rankings else 0 for k in self._ks
        ]
        sums = [min(c, n) * (len(COUNTED) + k) for c, k in zip(self._cells, self._ks, strict=True)]
        self._starts = [np.cumsum([0, *sizes]) for sizes in (self._cells, sums)]
        self._slots = np.full(self._starts[0][-1], -1, np.int32)
        self._sums = np.zeros(self._starts[1][-1], np.int64)
        counted_ks = np.array([k in rankings for k in self._ks])
        self._set_ks = sorted(sets)
        columns_of = {k: column for column, k in enumerate(self._set_ks)}
        self._set_rows = np.zeros((n if sets else 0, len(sets), len(SET_ROW)), np.int64)
        self.tables = CountTables(
            columns=columns,
            width=self._lengths.size,
            slots=self._slots,
            sums=self._sums,
            used=np.zeros(len(self._ks), np.int64),
            cell_starts=np.where(counted_ks, self._starts[0][:-1], -1),
            slot_starts=self._starts[1][:-1],
            set_columns=np.array([columns_of.get(k, -1) for k in self._ks], np.int64),
            set_rows=self._set_rows,
            first_row=first_row,
            inverse_sum=np.zeros(2, np.int64),
            inverse_squares=np.zeros(2, np.int64),
        )

    def pour(self, part: Sums) -> None:
        """Hand the counts over; Σ 1/p of all observed labels also where the counts overflow."""
        part.tables = {k: self._of(c, k) for c, k in enumerate(self._ks) if self._cells[c]}
        part.set_tables = {
            (k, size): cells
            for column, k in enumerate(self._set_ks)
            for size, cells in _by_size(self._set_rows[:, column].T).items()
        }
        part.inverse_sum = _whole(self.tables.inverse_sum)
        part.inverse_squares = _whole(self.tables.inverse_squares)

    def _of(self, c: int, k: int) -> CellCounts:
        slots = self._slots[self._starts[0][c] : self._starts[0][c + 1]]
        cells = np.flatnonzero(slots >= 0)
        pair, column = np.divmod(cells, self._lengths.size)
        outside = self._lengths[column] - pair % (k + 1)
        by_slot = self._sums[self._starts[1][c] : self._starts[1][c + 1]]
        counted = by_slot.reshape(-1, len(COUNTED) + k)[slots[cells]]
        rows, misses, squares = counted[:, : len(COUNTED)].T
        return CellCounts(pair * SPAN + outside, rows, counted[:, len(COUNTED) :], misses, squares)


def _whole(wide: Ints) -> int:
    """The sum that a pass keeps as two numbers."""
    high, low = wide.tolist()
    return int((high << 32) + low)


def _by_size(rows: Ints) -> dict[int, CellCounts]:
    """Counts of rows given as `SET_ROW`, by size."""
    stratum, size, s, t, *sums = rows
    keys = (stratum * (size + 1) + s) * SPAN + t
    order = np.lexsort((keys, size))
    keys, size = keys[order], size[order]
    first = np.r_[True, (keys[1:] != keys[:-1]) | (size[1:] != size[:-1])][: keys.size]
    starts = np.flatnonzero(first)
    if not starts.size:
        return {}
    counts = np.diff(np.r_[starts, keys.size])
    hits, misses, squares = (np.add.reduceat(each[order], starts) for each in sums)
    made = {}
    for each in np.unique(size).tolist():
        own = size[starts] == each
        made[each] = CellCounts(
            keys[starts][own], counts[own], hits[own][:, None], misses[own], squares[own]
        )
    return made
