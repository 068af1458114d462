"""The check of every index, against row after row in plain Python."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask import _kernels
from unmask._kernels import pattern

ROWS = st.lists(st.lists(st.integers(-1, 5), max_size=6), max_size=12)
NOTHING = np.empty(0, dtype=np.int32)


def flat(rows: list[list[int]], index: type) -> tuple[np.ndarray, np.ndarray]:
    indptr = np.r_[0, np.cumsum([len(row) for row in rows])].astype(index)
    return indptr, np.array([column for row in rows for column in row], dtype=index)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("entries", [1, 4, 1 << 18])
@given(rows=ROWS, width=st.integers(0, 6))
def test_first_index_out_of_range_and_order(
    index: type, entries: int, rows: list[list[int]], width: int
) -> None:
    indptr, indices = flat(rows, index)
    outside = [entry for entry, column in enumerate(indices) if not 0 <= column < width]
    rises = all(a < b for row in rows for a, b in pairwise(row))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pattern, "row_bounds", lambda starts: _kernels.row_bounds(starts, entries))
        copy = np.full(len(indices), -7, dtype=np.int32)
        for narrowed in (NOTHING, copy):
            entry, is_canonical = pattern.examine(indptr, indices, width, narrowed)
            assert entry == (outside[0] if outside else -1)
            if not outside:
                assert is_canonical == rises
    if not outside:
        np.testing.assert_array_equal(copy, indices)


def test_every_pattern_of_three_rows_and_columns_is_canonical_in_order_only() -> None:
    """A fall from one row to the next is none; a repetition, or a fall within a row, is one."""
    subsets = [list(part) for n in range(4) for part in combinations(range(3), n)]
    for rows in product(subsets, repeat=3):
        indptr, indices = flat(list(rows), np.int32)
        assert pattern.examine(indptr, indices, 3, NOTHING) == (-1, True)
        for i, row in enumerate(rows):
            if len(row) > 1:
                for wrong in (row[::-1], [row[0], *row[:-1]]):
                    damaged = [*rows[:i], wrong, *rows[i + 1 :]]
                    assert pattern.examine(*flat(damaged, np.int32), 3, NOTHING) == (-1, False)


def test_a_width_that_the_indices_cannot_reach() -> None:
    indptr, indices = np.array([0, 2], np.int32), np.array([0, np.iinfo(np.int32).max], np.int32)
    assert pattern.examine(indptr, indices, 1 << 40, NOTHING) == (-1, True)


def test_what_follows_the_last_row_is_not_read() -> None:
    indptr, indices = np.array([0, 1, 2]), np.array([3, 0, 99])
    assert pattern.examine(indptr, indices, 4, NOTHING) == (-1, True)


def test_arrays_that_cannot_be_written_to_share_the_compiled_code() -> None:
    indptr, indices = flat([[0, 1], [2]], np.int64)
    pattern.examine(indptr, indices, 3, NOTHING)
    compiled = len(pattern._examine.signatures)
    for array in (indptr, indices):
        array.flags.writeable = False
    assert pattern.examine(indptr, indices, 3, NOTHING) == (-1, True)
    assert len(pattern._examine.signatures) == compiled
    assert indptr.flags.writeable is False


def test_the_flags_of_the_caller_stay() -> None:
    indptr, indices = flat([[0, 1], [2]], np.int64)
    pattern.examine(indptr, indices, 3, NOTHING)
    assert indptr.flags.writeable
    assert indices.flags.writeable


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 12))
def test_chunks_are_cut_where_rows_and_entries_reach_the_size(counts: list[int], size: int) -> None:
    indptr = np.r_[0, np.cumsum(counts)].astype(np.int32)
    cost = indptr + np.arange(len(indptr))
    cuts = {int(np.argmax(cost >= target)) for target in range(0, int(cost[-1]), size)}
    expected = sorted(cuts | {len(counts)})
    assert _kernels.row_bounds(indptr, size).tolist() == expected
