"""One pass over rows: where is each prediction among the row's labels, and all that follows.

That `membership` is the expensive fact. It is found once per block of rows; for every view (how
propensities are read, see `block`) the kernels that were asked for turn it into columns, which go
into exact `sums`. Kernels are called from Python, so a pass knows none of them by name: a metric
brings its own (`unmask.metrics.registry`). A block has enough rows to make the calls cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from unmask._kernels import block as membership
from unmask._kernels import block as sums
from unmask._kernels.block import (
    Block,
    Draws,
    Indices,
    Rows,
    Tables,
    bare,
    empty_block,
    machine_code,
)
from unmask._kernels.compiling import njit
from unmask._kernels.deconvolution import CountTables, tabulate
from unmask._typing import Bools, Floats, Ints

NUMBERS = 1 << 18
"""A block holds about so many numbers (2 MB), which stay near the processor."""

MOST_ROWS = 2048
"""Rows of a block at most; it has at least `sums.BLOCK`."""


LOST = float(1 << 32)
"""Chances are summed in whole numbers of 1/LOST, so that shards add up exactly."""


class Call(NamedTuple):
    """A kernel's function and the first column of each of its forms (−1: not asked for)."""

    function: Callable[..., None]
    columns: tuple[int, ...]


class View(NamedTuple):
    """A view: its reading of propensities, and the columns computed in it."""

    tau: float
    clip: float
    calls: tuple[Call, ...]
    best_calls: tuple[Call, ...]  # with the largest 1/p of every row in place of its hits
    needs_rest: bool
    without_hits: bool  # also of rows without a hit


class Program(NamedTuple):
    """Columns of a pass: `columns` in all, of which `products` (x, y, z) hold z = x · y.

    Σx² and Σ|x| and the largest |x| are those of the first `full` columns only.
    """

    ks: Ints
    views: tuple[View, ...]
    columns: int
    full: int
    products: Ints
    needs_ideal: bool
    needs_lost: bool  # the chance that a row loses all its labels

    @property
    def needs_propensities(self) -> bool:
        """Does any view look at the propensities?"""
        return any(view.tau != 0.0 for view in self.views)


class Sinks(NamedTuple):
    """Where a pass leaves things beside the sums; empty if not wanted."""

    kept_columns: Ints  # columns to keep per row …
    kept: Floats  # … and where
    is_hit: Bools  # per row and place
    groups: Floats  # sums per group of rows


class Sums(NamedTuple):
    """Exact sums of columns (`sums`)."""

    partials: Floats
    largest: Floats


def score_rows(
    start: int,
    stop: int,
    rows: Rows,
    program: Program,
    tables: Tables,
    draws: Draws,
    sinks: Sinks,
    counts: CountTables,
    longest: int,
) -> tuple[Floats, Floats, int]:
    """Sums over rows start … stop: the partial sums and the largest values of every column.

    No row has more than `longest` labels.
    With them comes Σ Π (1 − p) over the observed labels of each row, in units of 1/`LOST`, if it
    is needed.
    """
    columns = program.columns
    length = _block_rows(start, stop, rows, program)
    block = empty_block(
        program.ks, length, _most_entries(start, stop, length, rows.indptr), longest,
        tables, draws, rows.scores.shape[1],
    )  # fmt: skip
    out = np.empty((columns, length + 8))
    into = Sums(np.zeros((columns, 3, sums.PARTIALS)), np.zeros((columns, sums.LARGEST)))
    needed = program.needs_propensities, program.needs_ideal, program.needs_lost
    find = machine_code(_find, rows, block, *needed, sinks.is_hit, counts)
    add = machine_code(_add, out, 0, 0, 0, program.full, program.products, sinks, into)
    score = _scorer(program.views, block, out)
    lost = 0
    for first in range(start, stop, length):
        number, count = rows.first_row + first, min(length, stop - first)
        block = block._replace(first=first, number=number, n_rows=count)
        lost += find(rows, block, *needed, sinks.is_hit, counts)
        score(block)
        if columns:
            add(out, first, number, count, program.full, program.products, sinks, into)
    return into.partials, into.largest, lost


def _block_rows(start: int, stop: int, rows: Rows, program: Program) -> int:
    """Rows of a block: a multiple of `sums.BLOCK`."""
    labels = (rows.indptr[stop] - rows.indptr[start]) / max(stop - start, 1)
    per_row = (
        rows.scores.shape[1]
        + program.columns
        + 3 * int(program.ks[-1])
        + program.ks.size
        + 2 * labels
        + 8
    )
    blocks = int(min(NUMBERS / per_row, MOST_ROWS)) // sums.BLOCK
    return sums.BLOCK * max(1, min(blocks, -(-(stop - start) // sums.BLOCK)))


def _most_entries(start: int, stop: int, length: int, indptr: Ints) -> int:
    """The largest number of labels of a block; empty rows at the end read one number beyond."""
    ends = indptr[[*range(start, stop, length), stop]]
    return int(np.diff(ends).max(initial=0)) + 1


def _scorer(views: tuple[View, ...], block: Block, out: Floats) -> Callable[[Block], None]:
    """A function that fills `out` for every view of a block like this one."""
    read = machine_code(_read, block, False, False)
    read_largest = machine_code(membership.largest_first, block)

    def ready(call: Call) -> Call:
        return Call(machine_code(call.function, block, out, *call.columns), call.columns)

    compiled = [
        view._replace(
            calls=tuple(map(ready, view.calls)), best_calls=tuple(map(ready, view.best_calls))
        )
        for view in views
    ]

    def score(block: Block) -> None:
        for view in compiled:
            block = block._replace(tau=view.tau, clip=view.clip)
            read(block, view.needs_rest, view.without_hits)
            for function, columns in view.calls:
                function(block, out, *columns)
            if view.best_calls:
                read_largest(block)
            for function, columns in view.best_calls:
                function(block, out, *columns)

    return score


@njit(cache=True, nogil=True)
def _find(
    rows: Rows, block: Block, needs_own: bool, needs_ideal: bool, needs_lost: bool, is_hit: Bools,
    counts: CountTables,
) -> int:  # fmt: skip
    """Facts that do not depend on the view: membership, 1/p, 1/IDCG, hit flags, count tables."""
    lost: int = _find_bare(rows, block, needs_own, needs_ideal, needs_lost, is_hit, counts)
    return lost


@bare
def _find_bare(
    rows: Rows, block: Block, needs_own: bool, needs_ideal: bool, needs_lost: bool, is_hit: Bools,
    counts: CountTables,
) -> int:  # fmt: skip
    first, count, spots, sizes = block.first, block.n_rows, block.spots, block.sizes
    indptr, indices, begin = rows.indptr, rows.indices, rows.indptr[block.first]
    tabulates = False
    for c in range(block.ks.size):
        tabulates |= counts.cell_starts[c] >= 0 or counts.set_columns[c] >= 0
    if tabulates or needs_own or needs_lost:
        # all at once: many loads are then under way at the same time
        for entry in range(begin, indptr[first + count]):
            q = rows.inverse[entry] if rows.per_entry else rows.inverse[indices[entry]]
            block.own[entry - begin] = q
    if rows.scores.shape[0]:
        for entry in range(begin, indptr[first + count]):
            block.labels[entry - begin] = indices[entry]
        for i in range(count):
            for label in range(rows.scores.shape[1]):
                block.scores[i, label] = rows.scores[first + i, label]
    for i in range(count):
        row = first + i
        sizes[i], block.begins[i] = indptr[row + 1] - indptr[row], indptr[row] - begin
        block.hit_counts[i] = membership.locate(
            indices, indptr[row], sizes[i], rows.top, row, spots, i
        )
        block.listed[i] = membership.listed(rows.top, row, spots.shape[0])
    if is_hit.shape[0]:
        for i in range(count):
            for r in range(spots.shape[0]):
                is_hit[first + i, r] = spots[r, i] >= 0
    if tabulates:
        tabulate(rows, block, counts)
    if needs_ideal:
        for c in range(block.ks.size):
            for i in range(count):
                block.ideal[c, i] = block.tables.inverse_ideal[min(sizes[i], block.ks[c])]
    lost: int = _lost(block) if needs_lost else 0
    return lost


@bare
def _lost(block: Block) -> int:
    """Σ over rows of Π (1 − p) of their observed labels, rounded per row to units of 1/LOST."""
    total = 0
    for i in range(block.n_rows):
        above, below = 1.0, 1.0  # 1 − p = (q − 1) / q with q = 1/p: one division for a row
        for entry in range(block.begins[i], block.begins[i] + block.sizes[i]):
            above *= block.own[entry] - 1.0
            below *= block.own[entry]
        chance = above / below
        if not below <= sums.LIMIT:
            chance = 1.0
            for entry in range(block.begins[i], block.begins[i] + block.sizes[i]):
                chance *= 1.0 - 1.0 / block.own[entry]
        total += int(np.rint(chance * LOST))
    return total


@bare
def _read(block: Block, needs_rest: bool, without_hits: bool) -> None:
    """The hits, and the labels that were not predicted, as a view reads them."""
    membership.read_hits(block)
    if needs_rest:
        membership.read_rest(block, without_hits)


@njit(cache=True, nogil=True)
def _add(
    out: Floats, first: int, number: int, count: int, full: int, products: Ints, sinks: Sinks,
    into: Sums,
) -> None:  # fmt: skip
    """Products of columns, then everything into the sums and the sinks."""
    for t in range(products.shape[0]):
        x, y, z = products[t, 0], products[t, 1], products[t, 2]
        for i in range(count):
            out[z, i] = out[x, i] * out[y, i]
    for start in range(0, count, sums.BLOCK):
        stop = min(start + sums.BLOCK, count)
        sums.add_block(out, start, stop, full, into.partials, into.largest)
        for c in range(sinks.kept_columns.size):
            for i in range(start, stop):
                sinks.kept[first + i, c] = out[sinks.kept_columns[c], i]
        if sinks.groups.shape[1]:
            sums.add_groups(out, start, stop, number, sinks.groups)


@njit(cache=True, nogil=True)
def count_labels(top: Indices, is_hit: Bools, ks: Ints, predicted: Ints, hits: Ints) -> None:
    """Per label and cut-off: how often predicted, and how often a hit, among the first k."""
    for row in range(is_hit.shape[0]):
        for r in range(min(is_hit.shape[1], top.shape[1])):
            label = top[row, r]
            if label < 0:
                break
            for c in range(ks.size):
                if r < ks[c]:
                    predicted[label, c] += 1
                    hits[label, c] += is_hit[row, r]


@njit(cache=True, nogil=True)
def sum_effects(
    indptr: Ints, indices: Indices, top: Indices, is_hit: Bools, k: int,
    hit: Floats, wrong: Floats, missed: Floats,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Per row, Σ and Σ of squares of what its labels are worth: as hit, wrong or missed within k.

    `hit`, `wrong` and `missed` have a number per label; a label that is neither predicted within k
    nor observed counts nothing.
    """
    n = is_hit.shape[0]
    totals, squares = np.zeros(n), np.zeros(n)
    for row in range(n):
        for entry in range(indptr[row], indptr[row + 1]):
            worth = missed[indices[entry]]
            totals[row] += worth
            squares[row] += worth * worth
        for r in range(min(k, top.shape[1])):
            label = top[row, r]
            if label < 0:
                break
            worth = hit[label] if is_hit[row, r] else wrong[label]
            totals[row] += worth
            squares[row] += worth * worth
            if is_hit[row, r]:
                totals[row] -= missed[label]
                squares[row] -= missed[label] * missed[label]
    return totals, squares
