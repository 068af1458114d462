"""Exact sums of floating-point columns: the answer does not depend on how the rows are cut up.

A block of rows is summed by error-free extraction (Rump, Ogita & Oishi, *Accurate floating-point
summation*, SIAM J. Sci. Comput. 2008): with σ a power of two above n · max |x|, the high parts
q = (σ + x) − σ add up without rounding, and x − q is what is left for the next round. The block's
exact parts go into a list of non-overlapping partial sums (Shewchuk 1997). Whatever the order,
the partial sums stand for the same real number, so `math.fsum` of them is the same double.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unmask._kernels.ranking import bare

BLOCK = 512  # rows summed at a time; a block of a hundred columns stays in the second-level cache
PARTIALS = 42  # doubles that do not overlap: at most 2098 / 53 of them, plus room to work
LARGEST = 16  # how many of the largest |x| are remembered per column
LIMIT = 1e140  # contributions are held within ±LIMIT, so that sums of squares stay finite

SUM, SQUARES, ABSOLUTE = 0, 1, 2
NEXT = 2.0 * BLOCK * 2.0**-53  # from one level of high parts to the next

Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def survey(values: Floats, count: int, seen: Floats) -> None:
    """Per column of `count` rows: about Σ|x|, the largest |x|, the smallest x (or 0), in `seen`.

    Values are held within ±LIMIT; what is not a number (an overflow times zero) becomes LIMIT.
    """
    _survey(values, count, seen)
    if not seen[1].max() <= LIMIT:
        for r in range(count):
            for c in range(values.shape[1]):
                x = values[r, c]
                if not abs(x) <= LIMIT:
                    values[r, c] = -LIMIT if x < 0 else LIMIT
        _survey(values, count, seen)


@bare
def _survey(values: Floats, count: int, seen: Floats) -> None:
    """Inner loops over columns, of sums and `np.maximum`, become vector instructions."""
    for kind in range(3):
        for c in range(values.shape[1]):
            seen[kind, c] = 0.0
    for r in range(count):
        for c in range(values.shape[1]):
            seen[0, c] += abs(values[r, c])
            seen[1, c] = np.maximum(seen[1, c], abs(values[r, c]))
            seen[2, c] = np.minimum(seen[2, c], values[r, c])


@njit(cache=True, nogil=True)
def add_block(
    values: Floats, count: int, seen: Floats, full: int, partials: Floats, largest: Floats
) -> None:
    """Add `count` rows, already surveyed.

    Every column gets its Σx, the first `full` of them also Σx², Σ|x| and the largest |x|.
    """
    size, peak = seen[0], seen[1]
    for c in range(full):
        if peak[c] > largest[c, LARGEST - 1]:
            for r in range(count):
                insert(abs(values[r, c]), largest[c])
    _extract(values, count, (size * peak)[:full], SQUARES, SQUARES, partials)
    if seen[2].min() < 0:
        _extract(values, count, size, SUM, SUM, partials)
        _extract(values, count, size[:full], ABSOLUTE, ABSOLUTE, partials)
    else:
        _extract(values, count, size, SUM, ABSOLUTE, partials)


@bare
def insert(x: float, largest: Floats) -> None:
    """Keep `largest` the descending list of the largest numbers seen."""
    at = largest.size - 1
    if x <= largest[at]:
        return
    while at > 0 and largest[at - 1] < x:
        largest[at] = largest[at - 1]
        at -= 1
    largest[at] = x


@njit(cache=True, nogil=True)
def _extract(
    values: Floats, count: int, size: Floats, kind: int, also: int, partials: Floats
) -> None:
    """Add the exact column sums of x, x² or |x| (of about this size) to one or two kinds.

    Two levels of high parts reach 96 bits below σ; columns that need more are done by themselves.
    """
    columns = size.size
    sigma, first, second = np.empty(columns), np.zeros(columns), np.zeros(columns)
    left = np.zeros(columns)
    for c in range(columns):
        sigma[c] = 2.0 * _power_of_two(size[c])
    if kind == SQUARES:
        for r in range(count):
            for c in range(columns):
                x = values[r, c] * values[r, c]
                high = (sigma[c] + x) - sigma[c]
                first[c] += high
                x -= high
                fine = sigma[c] * NEXT
                high = (fine + x) - fine
                second[c] += high
                left[c] += abs(x - high)
    else:
        for r in range(count):
            for c in range(columns):
                x = values[r, c] if kind == SUM else abs(values[r, c])
                high = (sigma[c] + x) - sigma[c]
                first[c] += high
                x -= high
                fine = sigma[c] * NEXT
                high = (fine + x) - fine
                second[c] += high
                left[c] += abs(x - high)
    for c in range(columns):
        for each in (kind, also):
            add(partials, c, each, first[c])
            add(partials, c, each, second[c])
            if left[c] > 0.0:
                _deeper(values, count, c, kind, sigma[c], each, partials)
            if also == kind:
                break


@njit(cache=True, nogil=True)
def _deeper(
    values: Floats, count: int, column: int, kind: int, sigma: float, each: int, partials: Floats
) -> None:
    """Add what two levels leave of one column to its partial sums."""
    rest = np.empty(count)
    for r in range(count):
        x = values[r, column]
        x = x * x if kind == SQUARES else (abs(x) if kind == ABSOLUTE else x)
        x -= (sigma + x) - sigma
        rest[r] = x - ((sigma * NEXT + x) - sigma * NEXT)
    left = 1.0
    sigma *= NEXT * NEXT
    while left > 0.0:
        left, total = 0.0, 0.0
        for r in range(count):
            high = (sigma + rest[r]) - sigma
            total += high
            rest[r] -= high
            left += abs(rest[r])
        add(partials, column, each, total)
        sigma *= NEXT


@bare
def _power_of_two(x: float) -> float:
    """A power of two above x, at most twice x; 0 for 0."""
    _, exponent = math.frexp(x)
    return math.ldexp(1.0, exponent) if x > 0.0 else 0.0


@bare
def add(partials: Floats, column: int, kind: int, x: float) -> None:
    """Add x to a column's list of non-overlapping doubles (smallest first, zeros after)."""
    if x == 0.0:
        return
    kept = 0
    for i in range(PARTIALS):
        y = partials[column, kind, i]
        if y == 0.0:
            break
        partials[column, kind, i] = 0.0
        if abs(x) < abs(y):
            x, y = y, x
        high = x + y
        low = y - (high - x)
        if low != 0.0:
            partials[column, kind, kept] = low
            kept += 1
        x = high
    partials[column, kind, kept] = x


@njit(cache=True, nogil=True)
def merge(partials: Floats, largest: Floats, more: Floats, more_largest: Floats) -> None:
    """Add one state to another."""
    for c in range(partials.shape[0]):
        for kind in range(partials.shape[1]):
            for i in range(partials.shape[2]):
                if more[c, kind, i] != 0.0:
                    add(partials, c, kind, more[c, kind, i])
        for i in range(LARGEST):
            insert(more_largest[c, i], largest[c])


@bare
def add_groups(values: Floats, count: int, first_row: int, groups: Floats) -> None:
    """Add row r to group (first_row + r) mod M, in doubled precision: groups (2, M, columns)."""
    modulus = groups.shape[1]
    for r in range(count):
        g = (first_row + r) % modulus
        for c in range(values.shape[1]):
            x = values[r, c]
            old = groups[0, g, c]
            new = old + x
            part = new - old
            groups[0, g, c] = new
            groups[1, g, c] += (old - (new - part)) + (x - part)
