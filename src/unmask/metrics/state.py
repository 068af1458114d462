"""What an evaluation remembers of its rows; mostly sums, whose size does not depend on how many.

- exact sums per column (`_kernels.block`), so that shards add up to the very same number;
- for bootstrap intervals and comparisons, sums per *group* of rows: row r belongs to group
  r mod 4096. Up to 4096 rows a group is a row; beyond, resampling groups of exchangeable rows has
  the same mean, variance and skewness as resampling rows, at a cost that does not grow with n;
- for metrics per label, hits and predictions per label and place, and the rows themselves, whose
  labels are right or wrong together;
- for deconvolution, the counts that it fits (`deconvolution.cell_counts`).

Only `filtered`, because a quantile of all rows needs all rows, and metrics per label grow with the
rows: by a number per row, and by their labels and predictions; metrics that rank all rows by score
keep the scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask._kernels import block as exact
from unmask._kernels import in_chunks, row_bounds
from unmask._kernels import metrics as kernels
from unmask._kernels.block import Draws, Indices, Need, Rows, Tables
from unmask._kernels.weights import quadrature
from unmask._typing import Array, Bools, Floats, Ints
from unmask.metrics.deconvolution import cell_counts
from unmask.metrics.deconvolution.cell_counts import CellCounts
from unmask.metrics.plan import Plan
from unmask.metrics.scored import Scored

GROUPS = 4096
SUBSAMPLING = (25, 100)  # the baseline thins rows with more than 25 labels, 100 times


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
class State:
    """Sums over the rows seen so far, for one plan."""

    rows: int
    complete: bool  # every propensity so far was 1
    partials: Floats
    largest: Floats
    groups: Floats
    group_rows: Ints
    kept: list[Floats] = field(default_factory=list)
    observed: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    predicted: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    hits: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    label_rows: list[LabelRows] = field(default_factory=list)
    tables: dict[int, CellCounts] = field(default_factory=dict)
    set_tables: dict[tuple[int, int], CellCounts] = field(default_factory=dict)  # by k and size
    empty_rows: int = 0  # rows without an observed label
    lost: int = 0  # Σ over rows of Π (1 − p) of their observed labels, in units of 1/kernels.LOST
    inverse_sum: int = 0  # Σ 1/p of the labels in the tables, in units of 1/FIXED
    inverse_squares: int = 0  # Σ 1/p², likewise
    scored: list[Scored] = field(default_factory=list)  # for metrics of the scores of all rows

    def add(self, other: State) -> None:
        """Take in another state of the same plan."""
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

    def add_tables(self, other: State) -> None:
        """Take in the count tables alone."""
        self.inverse_sum += other.inverse_sum
        self.inverse_squares += other.inverse_squares
        cell_counts.add_all(self.tables, other.tables)
        cell_counts.add_all(self.set_tables, other.set_tables)

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
        """The same without rounding: a whole number, and the power of two to divide it by."""
        parts = [x.as_integer_ratio() for x in self.partials[column, kind].tolist() if x]
        below = max((denominator for _, denominator in parts), default=1)  # all are powers of two
        return sum(above * (below // denominator) for above, denominator in parts), below

    def exactly(self, column: int, kind: int = exact.SUM) -> Fraction:
        """That number."""
        return Fraction(*self.ratio(column, kind))

    def per_group(self, columns: list[int]) -> tuple[Floats, Ints]:
        """Column sums and number of rows of every group that has rows."""
        is_used = self.group_rows > 0
        both = self.groups[:, is_used][:, :, columns]
        return both[0] + both[1], self.group_rows[is_used]


def empty(plan: Plan, n_labels: int, *, groups: bool) -> State:
    """No rows yet; `n_labels` is 0 if nothing is counted per label."""
    columns, ks = plan.columns, plan.ks.size
    return State(
        rows=0,
        complete=True,
        partials=np.zeros((columns, 3, exact.PARTIALS)),
        largest=np.zeros((columns, exact.LARGEST)),
        groups=np.zeros((2, GROUPS if groups else 0, columns)),
        group_rows=np.zeros(GROUPS if groups else 0, np.int64),
        observed=np.zeros(n_labels, np.int64),
        predicted=np.zeros((n_labels, ks), np.int64),
        hits=np.zeros((n_labels, ks), np.int64),
    )


def accumulate(
    plan: Plan,
    labels: sp.csr_array,
    top: NDArray[np.int32],
    inverse: Floats,
    *,
    per_entry: bool,
    first_row: int,
    kept_columns: list[int],
    groups: bool,
    per_label: bool,
    seed: int,
    scores: Array | None = None,
) -> State:
    """One pass over rows: labels canonical CSR, top (n, width), inverse propensities, scores."""
    n, n_labels = labels.shape
    indptr = labels.indptr.astype(np.int64, copy=False)
    lengths = np.diff(indptr)
    state = empty(plan, n_labels if per_label else 0, groups=groups)
    kept = np.empty((n, len(kept_columns)))
    cut_offs = plan.cut_offs(top.shape[1])
    is_hit = np.zeros((n if per_label else 0, int(cut_offs[-1])), np.bool_)
    read = scores if scores is not None and plan.reads_scores else np.empty((0, 0))
    rows = Rows(indptr, labels.indices, top, inverse, per_entry, first_row, read)
    program, tables = plan.program(cut_offs), _tables(plan, lengths, top, cut_offs, n_labels)
    draws, longest = Draws(*SUBSAMPLING, seed), int(lengths.max(initial=1))

    def chunk(start: int, stop: int) -> State:
        part = empty(plan, 0, groups=groups)
        sinks = kernels.Sinks(np.array(kept_columns, np.int64), kept, is_hit, part.groups)
        counts = cell_counts.Sink(plan, indptr[start : stop + 1], start)
        part.partials, part.largest, part.lost = kernels.score_rows(
            start, stop, rows, program, tables, draws, sinks, counts.tables, longest
        )
        part.tables, part.set_tables = counts.counts(), counts.set_counts()
        part.inverse_sum, part.inverse_squares = counts.inverse_sum, counts.inverse_squares
        return part

    size = (int(indptr[-1]) + n) // (8 if groups else 64)
    for part in in_chunks(row_bounds(indptr, max(1 << 18, size)), chunk):
        state.add(part)
    state.rows, state.complete = n, bool((inverse == 1).all())
    state.empty_rows = n - int(np.count_nonzero(lengths))
    if scores is not None and plan.keeps_scores:
        of_entries = inverse.copy() if per_entry else inverse[labels.indices]
        state.scored.append(Scored(scores, labels, of_entries))
    if groups:
        state.group_rows += np.bincount((first_row + np.arange(n)) % GROUPS, minlength=GROUPS)
    if kept_columns:
        state.kept.append(kept)
    if per_label:
        state.observed += np.bincount(labels.indices, minlength=n_labels)
        kernels.count_labels(top, is_hit, cut_offs, state.predicted, state.hits)
        listed = top[:, : is_hit.shape[1]].copy()  # what is kept must not change with the input
        observed = labels.indices.astype(np.int32)
        state.label_rows.append(LabelRows(indptr.copy(), observed, listed, is_hit))
    return state


def _tables(plan: Plan, lengths: Ints, top: Indices, cut_offs: Ints, n_labels: int) -> Tables:
    """Discounts 1/log2(1 + rank), 1/IDCG(0 … k), and the quadrature rules that rows need."""
    places = int(cut_offs[-1])
    discount = 1 / np.log2(np.arange(2, places + 2))
    inverse_ideal = np.r_[0.0, 1 / np.cumsum(discount)]
    rules = _short_rules()
    if plan.integrates:
        rules = quadrature(_degrees(plan.integrates, lengths, top, cut_offs))
    return Tables(discount, inverse_ideal, *rules, n_labels)


@cache
def _short_rules() -> tuple[Floats, Floats, Ints]:
    """For rows that the baseline thins to so many labels; all others are integrated if asked."""
    return quadrature(np.arange(SUBSAMPLING[0] + 1))


def _degrees(needs: set[Need], lengths: Ints, top: Indices, cut_offs: Ints) -> Ints:
    """How many factors t and 1 − u q the integrands of these rows have."""
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


def _add_doubled(sums: Floats, terms: Floats) -> None:
    """Add sums kept as unevaluated pairs (high, low)."""
    high = sums[0] + terms[0]
    part = high - sums[0]
    low = (sums[0] - (high - part)) + (terms[0] - part) + sums[1] + terms[1]
    sums[0], sums[1] = high, low
