"""The counts that deconvolution fits, of the rows so far: occupied cells only, in whole numbers.

A cell is (stratum, s observed hits, t observed labels outside). Of all that are possible,
10 · (k + 1) · (longest row + 1), rows occupy few, and never more than there are rows; so memory is
at most k + 4 numbers per row whatever the rows look like, and hardly any on ordinary data. Sums are
whole multiples of 1/FIXED, so shards add up to the same numbers in any order.

Predicted sets have sizes of their own. Rows with a set of size z are counted as those of k = z, but
without places, which a set has not; all sizes are fitted together, sizes in the role of places.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from unmask._kernels.deconvolution import (
    COUNTED,
    FIXED,
    SET_ROW,
    SQUARED,
    STRATA,
    CountTables,
)
from unmask._typing import Floats, Ints
from unmask.metrics.deconvolution.stratum import Counts, SetSizes
from unmask.metrics.plan import Plan

Key = TypeVar("Key", int, tuple[int, int])
"""k, or of sets k and their size."""

_SPAN = 1 << 32  # labels of a row are fewer
_BANDS = 20  # of sizes, each with at least so many hits as all divided by this


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


def add(first: CellCounts, second: CellCounts) -> CellCounts:
    """The sums of two sets of rows."""
    keys = np.union1d(first.keys, second.keys)
    sums = [np.zeros((keys.size, *column.shape[1:]), np.int64) for column in first[1:]]
    for part in (first, second):
        positions = np.searchsorted(keys, part.keys)
        for total, column in zip(sums, part[1:], strict=True):
            total[positions] += column
    return CellCounts(keys, *sums)


def add_all(into: dict[Key, CellCounts], more: Mapping[Key, CellCounts]) -> None:
    """Add tables to those of the same key."""
    for key, cells in more.items():
        before = into.get(key)
        into[key] = cells if before is None else add(before, cells)


def as_counts(cells: CellCounts, inverse_squares: int = 0) -> Counts:
    """The same as numbers to fit; Σ 1/p² of all labels tells how much propensities differ."""
    return _counts(cells, _unpacked(cells, cells.hits.shape[1]), inverse_squares)


def of_sets(by_size: Mapping[int, CellCounts], inverse_squares: int = 0) -> Counts:
    """As numbers to fit, for sets: neighbouring sizes in bands, a band in place of a place.

    Σ 1/p of the hits at every size says how much it weighs in its band.
    """
    sizes = np.array(sorted(by_size))
    tables = [by_size[size] for size in sizes.tolist()]
    hits = np.array([int(table.hits.sum()) for table in tables]) / FIXED
    band = _bands(hits)
    parts = [_unpacked(table, size) for table, size in zip(tables, sizes.tolist(), strict=True)]
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
    return replace(_counts(together, cells, inverse_squares), sizes=places)


def _bands(hits: Floats) -> Ints:
    """The band of every size: as few neighbours as have a twentieth of all hits together.

    >>> _bands(np.array([0.0, 50, 1, 1, 1, 47]))
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


def _unpacked(cells: CellCounts, k: int) -> Ints:
    """(stratum, s, t) of every cell."""
    pair, outside = np.divmod(cells.keys, _SPAN)
    return np.array([*np.divmod(pair, k + 1), outside])


def _counts(cells: CellCounts, places: Ints, inverse_squares: int) -> Counts:
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


class Sink:
    """Space for the counts of a run of rows, flat, as a pass takes it (`tables`)."""

    def __init__(self, plan: Plan, indptr: Ints, first_row: int = 0) -> None:
        """Space for what the rows of this piece of `indptr`, from `first_row` on, can occupy."""
        deconvolved_ks, set_ks = (
            plan.deconvolved_ks(of_sets=False),
            plan.deconvolved_ks(of_sets=True),
        )
        n = indptr.size - 1
        self._lengths = np.unique(np.diff(indptr)) if deconvolved_ks else np.zeros(0, np.int64)
        columns = np.zeros(int(self._lengths.max(initial=0)) + 1, np.int32)
        columns[self._lengths] = np.arange(self._lengths.size)
        self._ks = plan.ks.tolist()
        self._cells = [
            STRATA * (k + 1) * self._lengths.size if k in deconvolved_ks else 0 for k in self._ks
        ]
        sums = [min(c, n) * (len(COUNTED) + k) for c, k in zip(self._cells, self._ks, strict=True)]
        self._starts = [np.cumsum([0, *sizes]) for sizes in (self._cells, sums)]
        self._used = np.zeros(len(self._ks), np.int64)
        self._slots = np.full(self._starts[0][-1], -1, np.int32)
        self._sums = np.zeros(self._starts[1][-1], np.int64)
        counted_ks = np.array([k in deconvolved_ks for k in self._ks])
        self._set_ks = sorted(set_ks)
        columns_of = {k: column for column, k in enumerate(self._set_ks)}
        self._set_rows = np.zeros((n if set_ks else 0, len(set_ks), len(SET_ROW)), np.int64)
        self.tables = CountTables(
            columns=columns,
            width=self._lengths.size,
            slots=self._slots,
            sums=self._sums,
            used=self._used,
            cell_starts=np.where(counted_ks, self._starts[0][:-1], -1),
            slot_starts=self._starts[1][:-1],
            set_columns=np.array([columns_of.get(k, -1) for k in self._ks], np.int64),
            set_rows=self._set_rows,
            first_row=first_row,
            inverse_sum=np.zeros(2, np.int64),
            inverse_squares=np.zeros(2, np.int64),
        )

    @property
    def inverse_sum(self) -> int:
        """Σ 1/p of all observed labels, in units of 1/FIXED, also where the counts overflow."""
        return _whole(self.tables.inverse_sum)

    @property
    def inverse_squares(self) -> int:
        """Σ 1/p², likewise."""
        return _whole(self.tables.inverse_squares)

    def counts(self) -> dict[int, CellCounts]:
        """What has been counted, by k."""
        return {k: self._of(c, k) for c, k in enumerate(self._ks) if self._cells[c]}

    def set_counts(self) -> dict[tuple[int, int], CellCounts]:
        """What has been counted of sets, by k (the cut-off of their lists) and size."""
        return {
            (k, size): cells
            for column, k in enumerate(self._set_ks)
            for size, cells in _by_size(self._set_rows[:, column].T).items()
        }

    def _of(self, c: int, k: int) -> CellCounts:
        slots = self._slots[self._starts[0][c] : self._starts[0][c + 1]]
        cells = np.flatnonzero(slots >= 0)
        pair, column = np.divmod(cells, self._lengths.size)
        outside = self._lengths[column] - pair % (k + 1)
        by_slot = self._sums[self._starts[1][c] : self._starts[1][c + 1]]
        counted = by_slot.reshape(-1, len(COUNTED) + k)[slots[cells]]
        rows, misses, squares = counted[:, : len(COUNTED)].T
        return CellCounts(pair * _SPAN + outside, rows, counted[:, len(COUNTED) :], misses, squares)


def _whole(wide: Ints) -> int:
    """The sum that a pass keeps as two numbers."""
    high, low = wide.tolist()
    return int((high << 32) + low)


def _by_size(rows: Ints) -> dict[int, CellCounts]:
    """Counts of rows given as `SET_ROW`, by size."""
    stratum, size, s, t, *sums = rows
    keys = (stratum * (size + 1) + s) * _SPAN + t
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
