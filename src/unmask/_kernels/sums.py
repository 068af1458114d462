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

from unmask._kernels.block import bare
from unmask._kernels.compiling import njit
from unmask._typing import Floats

BLOCK = 512  # rows summed at a time
PARTIALS = 42  # doubles that do not overlap: at most 2098 / 53 of them, plus room to work
LARGEST = 16  # how many of the largest |x| are remembered per column
LIMIT = 1e140  # contributions are held within ±LIMIT, so that sums of squares stay finite

SUM, SQUARES, ABSOLUTE = 0, 1, 2
NEXT = 2.0 * BLOCK * 2.0**-53  # from one level of high parts to the next

# Sums that are exact, or need not be, may be taken in any order: by vector instructions.
# Such loops run over unsigned rows: a row that may be negative would count from the end, and the
# question whether it does, asked for every number, keeps them from being vector instructions.
any_order = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})


@any_order
def _size(values: Floats, c: int, start: int, stop: int) -> float:
    total = 0.0
    for i in range(np.uint64(start), np.uint64(stop)):
        total += abs(values[c, i])
    return total


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _extremes(values: Floats, c: int, start: int, stop: int) -> tuple[float, float]:
    """The largest |x| and the smallest x or 0; all are numbers by now."""
    high, low = 0.0, 0.0
    for i in range(np.uint64(start), np.uint64(stop)):
        high = max(high, abs(values[c, i]))
        low = min(low, values[c, i])
    return high, low


@njit(cache=True, nogil=True)
def add_block(
    values: Floats, start: int, stop: int, full: int, partials: Floats, largest: Floats
) -> None:
    """Add rows start … stop, at most BLOCK.

    Every column gets its Σx, the first `full` of them also Σx², Σ|x| and the largest |x|. Values
    are held within ±LIMIT, where they stand; what is not a number (an overflow times zero) becomes
    LIMIT.
    """
    for c in range(values.shape[0]):  # column by column: one stays near while it is read again
        size = _size(values, c, start, stop)
        if not size <= LIMIT:
            for i in range(start, stop):
                x = values[c, i]
                if not abs(x) <= LIMIT:
                    values[c, i] = -LIMIT if x < 0 else LIMIT
            size = _size(values, c, start, stop)
        peak, least = _extremes(values, c, start, stop)
        if size == 0.0:
            continue
        both = c < full and least >= 0.0  # then x is |x|
        _extract(values, c, start, stop, size, SUM, ABSOLUTE if both else SUM, partials)
        if c >= full:
            continue
        if not both:
            _extract(values, c, start, stop, size, ABSOLUTE, ABSOLUTE, partials)
        _extract(values, c, start, stop, size * peak, SQUARES, SQUARES, partials)
        if peak > largest[c, LARGEST - 1]:
            for i in range(start, stop):
                insert(abs(values[c, i]), largest[c])


@bare
def insert(x: float, largest: Floats) -> None:
    """Keep `largest` the descending list of the largest numbers."""
    place = largest.size - 1
    if x <= largest[place]:
        return
    while place > 0 and largest[place - 1] < x:
        largest[place] = largest[place - 1]
        place -= 1
    largest[place] = x


@njit(cache=True, nogil=True)
def _extract(
    values: Floats,
    c: int,
    start: int,
    stop: int,
    size: float,
    kind: int,
    also: int,
    partials: Floats,
) -> None:
    """Add the exact sum of a column's x, x² or |x| (of about this size) to one or two kinds.

    Two levels of high parts reach 96 bits below σ; a column that needs more goes deeper.
    """
    sigma = 2.0 * _power_of_two(size)
    first, second, left = _levels(values, c, start, stop, sigma, kind)
    for each in range(3):
        if each in (kind, also):
            add(partials, c, each, first)
            add(partials, c, each, second)
            if left > 0.0:
                _deeper(values, c, start, stop, kind, sigma, each, partials)


@any_order
def _levels(
    values: Floats, c: int, start: int, stop: int, sigma: float, kind: int
) -> tuple[float, float, float]:
    """Σ of the first and of the second high parts, both exact, and about what they leave."""
    first, second, left = 0.0, 0.0, 0.0
    if kind == SUM:
        for i in range(np.uint64(start), np.uint64(stop)):
            high, x = _split(sigma, values[c, i])
            first += high
            high, x = _split(sigma * NEXT, x)
            second += high
            left += abs(x)
    elif kind == SQUARES:
        for i in range(np.uint64(start), np.uint64(stop)):
            high, x = _split(sigma, values[c, i] * values[c, i])
            first += high
            high, x = _split(sigma * NEXT, x)
            second += high
            left += abs(x)
    else:
        for i in range(np.uint64(start), np.uint64(stop)):
            high, x = _split(sigma, abs(values[c, i]))
            first += high
            high, x = _split(sigma * NEXT, x)
            second += high
            left += abs(x)
    return first, second, left


@bare
def _split(sigma: float, x: float) -> tuple[float, float]:
    """The part of x that is a multiple of σ's last digit, and the rest."""
    high = (sigma + x) - sigma
    return high, x - high


@njit(cache=True, nogil=True)
def _deeper(
    values: Floats, c: int, start: int, stop: int, kind: int, sigma: float, each: int,
    partials: Floats,
) -> None:  # fmt: skip
    """Add what two levels leave of one column to its partial sums."""
    count = stop - start
    rest = np.empty(count)
    for i in range(count):
        x = values[c, start + i]
        x = x * x if kind == SQUARES else (abs(x) if kind == ABSOLUTE else x)
        _, x = _split(sigma, x)
        _, rest[i] = _split(sigma * NEXT, x)
    left = 1.0
    sigma *= NEXT * NEXT
    while left > 0.0:
        left, total = 0.0, 0.0
        for i in range(count):
            high, rest[i] = _split(sigma, rest[i])
            total += high
            left += abs(rest[i])
        add(partials, c, each, total)
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
def merge(partials: Floats, largest: Floats, others: Floats, others_largest: Floats) -> None:
    """Add one state to another."""
    for c in range(partials.shape[0]):
        for kind in range(partials.shape[1]):
            for i in range(partials.shape[2]):
                if others[c, kind, i] != 0.0:
                    add(partials, c, kind, others[c, kind, i])
        for i in range(LARGEST):
            insert(others_largest[c, i], largest[c])


@bare
def add_groups(values: Floats, start: int, stop: int, first_row: int, groups: Floats) -> None:
    """Add row i to group (first_row + i) mod M, in doubled precision: groups (2, M, columns)."""
    modulus = groups.shape[1]
    for i in range(start, stop):
        g = (first_row + i) % modulus
        for c in range(values.shape[0]):
            x = values[c, i]
            old = groups[0, g, c]
            new = old + x
            part = new - old
            groups[0, g, c] = new
            groups[1, g, c] += (old - (new - part)) + (x - part)
