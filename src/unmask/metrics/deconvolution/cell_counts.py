"""The counts that deconvolution fits, of the rows so far: occupied cells only, in whole numbers.

A cell is (stratum, s observed hits, t observed labels outside). Of all that are possible,
10 · (k + 1) · (longest row + 1), rows occupy few, and never more than there are rows; so memory is
at most k + 4 numbers per row whatever the rows look like, and hardly any on ordinary data. Sums are
whole multiples of 1/FIXED, so shards add up to the same numbers in any order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unmask._kernels.deconvolution import FIXED, HEAVIEST, SQUARED, STRATA, CountTables
from unmask._typing import Floats, Ints
from unmask.metrics.deconvolution.stratum import Counts
from unmask.metrics.plan import Plan

_SPAN = 1 << 32  # labels of a row are fewer


class CellCounts(NamedTuple):
    """Sums per occupied cell, for one k; `keys` = (stratum · (k + 1) + s) · 2³² + t ascend.

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


def add(first: CellCounts, second: CellCounts) -> CellCounts:
    """The sums of two sets of rows."""
    keys = np.union1d(first.keys, second.keys)
    sums = [np.zeros((keys.size, *column.shape[1:]), np.int64) for column in first[1:]]
    for part in (first, second):
        positions = np.searchsorted(keys, part.keys)
        for total, column in zip(sums, part[1:], strict=True):
            total[positions] += column
    return CellCounts(keys, *sums)


def as_counts(cells: CellCounts, inverse_squares: int = 0) -> Counts:
    """The same as numbers to fit; Σ 1/p² of all labels tells how much propensities differ."""
    k = cells.hits.shape[1]
    pair, outside = np.divmod(cells.keys, _SPAN)
    stratum, inside = np.divmod(pair, k + 1)
    labels, hits = int(cells.rows @ (inside + outside)), int(cells.rows @ inside)
    return Counts(
        cells.rows.astype(np.float64),
        cells.hits.T.astype(np.float64) / FIXED,
        cells.misses.astype(np.float64) / FIXED,
        np.array([stratum, inside, outside]),
        _spread(labels, cells.inverse_sum, inverse_squares / FIXED),
        _spread(hits, int(cells.hits.sum()), int(cells.squares.sum()) / SQUARED),
    )


def _spread(labels: int, inverse_sum: int, squares: float) -> float:
    """The coefficient of variation of 1/p, from Σ 1/p (in units of 1/FIXED) and Σ 1/p²."""
    mean_square = (inverse_sum / FIXED) ** 2 / max(labels, 1)
    return math.sqrt(max(squares / mean_square - 1.0, 0.0)) if mean_square else 0.0


class Sink:
    """Space for the counts of a run of rows, flat, as a pass takes it (`tables`)."""

    def __init__(self, plan: Plan, indptr: Ints) -> None:
        """Space for what the rows of this piece of `indptr` can occupy."""
        deconvolved_ks = {cell.k for cell in plan.cells if cell.estimator == "deconvolved"}
        lengths = np.diff(indptr)
        self._lengths = np.unique(lengths) if deconvolved_ks else np.zeros(0, np.int64)
        columns = np.zeros(int(lengths.max(initial=0)) + 1, np.int32)
        columns[self._lengths] = np.arange(self._lengths.size)
        self._ks = plan.ks.tolist()
        self._cells = [
            STRATA * (k + 1) * self._lengths.size if k in deconvolved_ks else 0 for k in self._ks
        ]
        self._room = [min(cells, lengths.size) for cells in self._cells]
        hits = [k * room for k, room in zip(self._ks, self._room, strict=True)]
        self._starts = [np.cumsum([0, *sizes]) for sizes in (self._cells, self._room, hits)]
        self._used = np.zeros(len(self._ks), np.int64)
        self._slots = np.full(self._starts[0][-1], -1, np.int32)
        self._sums = [np.zeros(self._starts[i][-1], np.int64) for i in (1, 2, 1, 1)]
        counted_ks = np.array([k in deconvolved_ks for k in self._ks])
        rows, hits_of_slots, misses, squares = self._sums
        self.tables = CountTables(
            columns=columns,
            width=self._lengths.size,
            slots=self._slots,
            rows=rows,
            hits=hits_of_slots,
            misses=misses,
            squares=squares,
            used=self._used,
            cell_starts=np.where(counted_ks, self._starts[0][:-1], -1),
            slot_starts=self._starts[1][:-1],
            hit_starts=self._starts[2][:-1],
        )

    def counts(self) -> dict[int, CellCounts]:
        """What has been counted, by k."""
        return {k: self._of(c, k) for c, k in enumerate(self._ks) if self._cells[c]}

    def _of(self, c: int, k: int) -> CellCounts:
        slots = self._slots[self._starts[0][c] : self._starts[0][c + 1]]
        cells = np.flatnonzero(slots >= 0)
        pair, column = np.divmod(cells, self._lengths.size)
        outside = self._lengths[column] - pair % (k + 1)
        rows, hits, misses, squares = self._sums
        used_slots = self._starts[1][c] + slots[cells]
        by_place = hits[self._starts[2][c] : self._starts[2][c + 1]].reshape(-1, k)
        return CellCounts(
            pair * _SPAN + outside, rows[used_slots], by_place[slots[cells]], misses[used_slots],
            squares[used_slots],
        )  # fmt: skip


def inverse_sum(
    inverse: Floats, entries: Sequence[int] | Ints, counted: dict[int, CellCounts]
) -> int:
    """Σ 1/p of all observed labels, in units of 1/FIXED, also where the counts have overflowed.

    `entries` index `inverse`, one for each observed label.
    """
    if not counted:
        return 0
    if float(inverse.max(initial=1.0)) * len(entries) < HEAVIEST:
        return next(iter(counted.values())).inverse_sum
    return _sum_of_units(inverse[entries])


def inverse_squares(
    inverse: Floats, entries: Sequence[int] | Ints, counted: dict[int, CellCounts]
) -> int:
    """Σ 1/p² of all observed labels, in units of 1/FIXED; `entries` as in `inverse_sum`."""
    if not counted:
        return 0
    return _sum_of_units(np.minimum(inverse[entries], np.sqrt(HEAVIEST)) ** 2)


def _sum_of_units(values: Floats) -> int:
    """Σ in units of 1/FIXED: whole numbers add up exactly in any order."""
    units = (np.minimum(values, HEAVIEST) * FIXED + 0.5).astype(np.int64)
    return (int((units >> 32).sum()) << 32) + int((units & 0xFFFFFFFF).sum())
