"""What scipy's sparse matrices lack: the row of every entry, and values at pairs, however few."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from unmask._typing import Floats, Integers, Ints


def entry_rows(matrix: sp.csr_array) -> Ints:
    """The row of every stored entry; its column is in `indices`.

    >>> entry_rows(sp.csr_array([[0, 1, 1], [0, 0, 0], [1, 0, 0]]))
    array([0, 0, 2])
    """
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def values_at(matrix: sp.csr_array, rows: Integers, columns: Integers) -> Floats:
    """The values at pairs of row and column, 0 where nothing is stored; (m,) floats.

    Asked for no pairs at all, scipy answers with a sparse array, which NumPy takes for one object.

    >>> matrix = sp.csr_array([[0.0, 5.0], [7.0, 0.0]])
    >>> values_at(matrix, np.array([0, 1, 1]), np.array([1, 1, 0]))
    array([5., 0., 7.])
    >>> values_at(matrix, np.array([], int), np.array([], int))
    array([], dtype=float64)
    """
    if not len(rows):
        return np.zeros(0)
    return np.asarray(matrix[rows, columns], dtype=np.float64).ravel()
