"""Matrices by coordinates: an entry that is there twice is named."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import _validation


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        ([0, 2, 1, 2], [1, 0, 1, 0], "column 0 twice in row 2"),
        ([1, 1, 0, 0, 1], [0, 2, 2, 1, 2], "column 2 twice in row 1"),
        ([0, 0], [1, 1], "column 1 twice in row 0"),
    ],
)
def test_an_entry_that_is_there_twice_is_named(
    rows: list[int], columns: list[int], words: str
) -> None:
    """Not its neighbours, which share its row or its column."""
    matrix = sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(3, 4))
    with pytest.raises(ValueError, match=words):
        _validation.labels(matrix)
    once = sp.coo_array((np.ones(len(rows) - 1), (rows[:-1], columns[:-1])), shape=(3, 4))
    assert _validation.labels(once).nnz == len(rows) - 1
