"""Loops for `unmask.metrics.deconvolution`: tables of counts, strata, EM for mixture weights."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unmask._kernels.block import Block, Rows, bare
from unmask._kernels.compiling import njit
from unmask._typing import Floats, Ints

STRATA = 10
"""Number of strata; the last one is open above."""

FIXED = 1 << 24
"""Inverse propensities in count tables are whole multiples of 1/FIXED."""

HEAVIEST = float(1 << 38)
"""Σ 1/p of all labels up to which tables are of use: no whole number overflows before."""

SQUARED = 16
"""Squares of inverse propensities in count tables are whole multiples of 1/SQUARED, up to 2³⁰."""

COUNTED = ("rows", "inverse misses", "squares")
"""Counts of a slot beside its hits: rows, Σ 1/p of observed labels that were not predicted
in units of 1/FIXED, and Σ 1/p² of hits in units of 1/SQUARED."""

SET_ROW = ("stratum", "size", "hits", "misses", "inverse hits", "inverse misses", "squares")
"""Counts of a row whose predictions are a set; sums in the units of the tables."""

_COUNTED = len(COUNTED)
_HEAVIEST_ROOT = math.sqrt(HEAVIEST)
_EDGES = tuple(2.0 ** ((band - 0.45) / 2) for band in range(1, STRATA))
_SMALLEST = 1e-300
_REVIVED = 1e-14  # extrapolation may reach zero, from which EM never returns
_LONGEST = 1e4


class CountTables(NamedTuple):
    """Sums per occupied cell (stratum, hits, row length), of all k end to end.

    `…_starts` say where the cells and slots of each k begin. What is counted of a slot stands
    together, `COUNTED` numbers and one per place, so that a row touches few lines of the cache.
    """

    columns: NDArray[np.int32]  # a column for each row length
    width: int  # their number
    slots: NDArray[np.int32]  # the slot of every cell, −1 for none so far
    sums: Ints  # per slot: what `COUNTED` names, and of each place Σ 1/p of hits
    used: Ints  # slots in use, per k
    cell_starts: Ints  # −1: not deconvolved at this k
    slot_starts: Ints
    set_columns: Ints  # per k, −1: not deconvolved as a set
    set_rows: Ints  # [row of the chunk, column]: what `SET_ROW` names, of the set of that row
    first_row: int  # the first row of the chunk
    inverse_sum: Ints  # Σ 1/p of all labels in units of 1/FIXED: how many 2³², and the rest
    inverse_squares: Ints  # Σ 1/p², likewise


@bare
def tabulate(rows: Rows, block: Block, tables: CountTables) -> None:
    """Count the rows of a block in the tables of every k, in units of 1/FIXED."""
    if not rows.per_entry:
        _read_predicted(rows, block)
    for i in range(block.n_rows):
        _tabulate_row(rows, block, i, tables)


@bare
def _read_predicted(rows: Rows, block: Block) -> None:
    """1/p of all predictions before any is used: many loads are then under way at once."""
    top, inverse, predicted = rows.top, rows.inverse, block.scratch.predicted
    for i in range(block.n_rows):
        for r in range(min(predicted.shape[0], top.shape[1])):
            label = top[block.first + i, r]
            predicted[r, i] = inverse[label] if label >= 0 else 0.0


@bare
def _tabulate_row(rows: Rows, block: Block, i: int, tables: CountTables) -> None:
    ks, spots, own, begin, row = block.ks, block.spots, block.own, block.begins[i], block.first + i
    top, slots, cell_starts, sums = rows.top, tables.slots, tables.cell_starts, tables.sums
    predicted, hit_units = block.scratch.predicted, block.scratch.hit_units
    total, high, low, squares_high, squares_low = 0, 0, 0, 0, 0
    for j in range(block.sizes[i]):
        units = fixed(own[begin + j])
        square = fixed(min(own[begin + j], _HEAVIEST_ROOT) ** 2)
        total += units
        high += units >> 32
        low += units & 0xFFFFFFFF
        squares_high += square >> 32
        squares_low += square & 0xFFFFFFFF
    tables.inverse_sum[0] += high
    tables.inverse_sum[1] += low
    tables.inverse_squares[0] += squares_high
    tables.inverse_squares[1] += squares_low
    inverse_sum, listed, hit_count, inside, squares, place = 0.0, 0, 0, 0, 0, 0
    for c in range(ks.size):
        k = ks[c]
        while place < k:
            if place < top.shape[1] and top[row, place] >= 0 and not rows.per_entry:
                inverse_sum += predicted[place, i]
                listed += 1
            # reads a number even without a hit: no branch to guess
            is_hit, q = spots[place, i] >= 0, own[begin + max(spots[place, i], 0)]
            hit_units[place] = fixed(q) if is_hit else 0
            squares += squared(q) if is_hit else 0
            inside += hit_units[place]
            hit_count += is_hit
            place += 1
        column = tables.set_columns[c]
        if column >= 0:
            counted, spot = tables.set_rows, row - tables.first_row
            counted[spot, column, 0] = stratum(inverse_sum, listed)
            counted[spot, column, 1] = min(k, block.listed[i])
            counted[spot, column, 2] = hit_count
            counted[spot, column, 3] = block.sizes[i] - hit_count
            counted[spot, column, 4] = inside
            counted[spot, column, 5] = total - inside
            counted[spot, column, 6] = squares
        if cell_starts[c] < 0:
            continue
        pair = stratum(inverse_sum, listed) * (k + 1) + hit_count
        cell = cell_starts[c] + pair * tables.width + tables.columns[block.sizes[i]]
        slot = slots[cell]
        if slot < 0:
            slot = tables.used[c]
            slots[cell] = slot
            tables.used[c] += 1
        start = tables.slot_starts[c] + slot * (_COUNTED + k)
        sums[start] += 1
        sums[start + 1] += total - inside
        sums[start + 2] += squares
        for r in range(k):
            sums[start + _COUNTED + r] += hit_units[r]


@bare
def fixed(inverse: float) -> int:
    """An inverse propensity in units of 1/FIXED: whole numbers add up exactly in any order."""
    return int(min(inverse, HEAVIEST) * FIXED + 0.5)


@bare
def squared(inverse: float) -> int:
    """Its square in units of 1/SQUARED."""
    return int(min(inverse * inverse, 1073741824.0) * SQUARED + 0.5)


@njit(cache=True, nogil=True)
def stratum(inverse_sum: float, count: int) -> int:
    """Stratum of a row whose `count` predicted labels have inverse propensities that sum to this.

    Strata are bands of the mean inverse propensity, a factor √2 wide. The offset keeps round
    propensities (1/2, 0.3, 0.1 …) inside a band, so that rounding cannot split equal rows.
    """
    band = 0
    for edge in _EDGES:
        band += inverse_sum >= edge * count
    return band if count else 0


@njit(cache=True, nogil=True)
def maximize(
    start: int,
    stop: int,
    kernel: Floats,
    shares: Floats,
    rows: Floats,
    tolerance: float,
    steps: int,
    weights: Floats,
    gap: Floats,
) -> int:
    """Improve `weights[i]` for the data `shares[i]`, start ≤ i < stop; returns the most steps used.

    One cycle is two EM steps, an extrapolation through them, and an EM step from there; where the
    extrapolation lost likelihood, the two steps stand.
    """
    atoms = kernel.shape[1]
    first, second = np.empty(atoms), np.empty(atoms)
    leap, third = np.empty(atoms), np.empty(atoms)
    most = 0
    for i in range(start, stop):
        used = 0
        while used < steps:
            likelihood, gain = _step(kernel, shares[i], weights[i], first)
            gap[i] = rows[i] * (gain - 1.0)
            used += 1
            if gap[i] <= tolerance:
                weights[i] = first
                break
            _step(kernel, shares[i], first, second)
            _extrapolate(weights[i], first, second, leap)
            reached, _ = _step(kernel, shares[i], leap, third)
            if reached >= likelihood:
                weights[i] = third
            else:
                weights[i] = second
            used += 2
        most = max(most, used)
    return most


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _step(kernel: Floats, share: Floats, before: Floats, after: Floats) -> tuple[float, float]:
    """after = before · kernelᵀ(share / kernel before); Σ share log(kernel before), largest gain."""
    cells, atoms = kernel.shape
    after[:] = 0.0
    likelihood = 0.0
    for c in range(cells):
        if share[c] == 0.0:
            continue
        fitted = 0.0
        for a in range(atoms):
            fitted += kernel[c, a] * before[a]
        fitted = max(fitted, _SMALLEST)
        likelihood += share[c] * math.log(fitted)
        ratio = share[c] / fitted
        for a in range(atoms):
            after[a] += kernel[c, a] * ratio
    gain = 0.0
    for a in range(atoms):
        gain = max(gain, after[a])
        after[a] *= before[a]
    return likelihood, gain


@njit(cache=True, nogil=True)
def _extrapolate(start: Floats, first: Floats, second: Floats, leap: Floats) -> None:
    """x + 2α(x₁ − x) + α²(x₂ − 2x₁ + x) with α = max(1, |x₁ − x| / |x₂ − 2x₁ + x|), positive."""
    step = bend = 0.0
    for a in range(start.size):
        step += (first[a] - start[a]) ** 2
        bend += (second[a] - 2.0 * first[a] + start[a]) ** 2
    stride = min(max(math.sqrt(step / max(bend, _SMALLEST)), 1.0), _LONGEST)
    total = 0.0
    for a in range(start.size):
        curve = second[a] - 2.0 * first[a] + start[a]
        leap[a] = max(
            start[a] + 2.0 * stride * (first[a] - start[a]) + stride * stride * curve, _REVIVED
        )
        total += leap[a]
    for a in range(start.size):
        leap[a] /= total
