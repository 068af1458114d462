"""The pattern of a sparse matrix, checked in one read of its memory.

`_validation` lets no index through that this has not read: kernels follow indices wherever they
point. Rows are short, and a loop over each would cost more than its entries; so the entries of many
rows are read as one run, in which an index that does not rise is counted. It may fail to rise
where a row begins, and those places are counted as well: both counts are equal exactly if the
indices of every row rise.
"""

from __future__ import annotations

import numpy as np

from unmask._kernels import in_chunks, row_bounds
from unmask._kernels.compiling import njit
from unmask._typing import Array, Integers


def examine(
    indptr: Integers, indices: Integers, width: int, narrowed: Integers
) -> tuple[int, bool]:
    """The first entry whose index is not in 0 … width − 1 (−1: none), and whether all rows rise.

    `indptr` begins at 0, does not fall and ends within `indices`. A row rises if each of its
    indices is larger than the one before. All indices are copied to `narrowed`, if it is not empty;
    a copy of those out of range is meaningless.
    """
    starts, columns = _read_only(indptr), _read_only(indices)
    last = indices.dtype.type(min(width - 1, np.iinfo(indices.dtype).max))
    parts = in_chunks(
        row_bounds(indptr),
        lambda start, stop: _examine(start, stop, starts, columns, last, narrowed),
    )
    outside = next((entry for entry, _ in parts if entry >= 0), -1)
    return outside, all(rises for _, rises in parts)


def _read_only(array: Array) -> Array:
    """A read-only view of the memory; numba compiles anew for arrays that can be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


@njit(cache=True, nogil=True)
def _examine(
    start: int, stop: int, indptr: Integers, indices: Integers, last: int, narrowed: Integers
) -> tuple[int, bool]:
    begin, end = indptr[start], indptr[stop]
    if begin == end:
        return -1, True
    run = indices[begin:end]
    lowest = highest = run[0]
    falls = 0  # of the run, wherever its rows begin
    if narrowed.size:
        copy = narrowed[begin:end]
        copy[0] = run[0]
        for i in range(1, run.size):
            index = run[i]
            lowest, highest = min(lowest, index), max(highest, index)
            falls += index <= run[i - 1]
            copy[i] = index
    else:
        for i in range(1, run.size):
            index = run[i]
            lowest, highest = min(lowest, index), max(highest, index)
            falls += index <= run[i - 1]
    if lowest < 0 or highest > last:
        for i in range(run.size):
            if run[i] < 0 or run[i] > last:
                return begin + i, False
    for row in range(start + 1, stop):
        entry = indptr[row]
        if indptr[row - 1] < entry < end:  # of rows that begin here, the first
            falls -= indices[entry] <= indices[entry - 1]
    return -1, falls == 0
