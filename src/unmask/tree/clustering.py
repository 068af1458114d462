"""The order of labels in a tree: similar labels are neighbours.

A label is represented by the mean of the rows that have it, scaled to length 1. All labels are
halved by balanced spherical 2-means, then every half, and so on; no half depends on another, and
random choices depend on the seed and the place alone, so the order is the same on any number of
threads.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from unmask._kernels import in_chunks
from unmask._kernels import tree_cluster as kernels
from unmask._kernels.linear_state import Rows
from unmask._typing import Indices, Ints
from unmask.tree.shape import halves

ITERATIONS = 10
LEAST_GAIN = 1e-4
CHUNKS = 32


def centroids(x: Rows, n_features: int, starts: Ints, rows: Indices) -> sp.csr_array:
    """Unit vectors (labels × features) in the direction of the sum of each label's rows.

    `starts` and `rows` are the rows of every label. Labels without rows have zeros.
    """
    n_labels = len(starts) - 1
    sizes = np.diff(x.indptr)[rows]
    cost = np.r_[0, np.cumsum(sizes)][starts]
    cuts = np.searchsorted(cost, np.linspace(0, cost[-1], CHUNKS + 1))
    bounds = np.unique(np.r_[0, cuts, n_labels])

    lengths = np.empty(n_labels, np.int64)

    def count(first: int, last: int) -> None:
        kernels.distinct(x, n_features, starts, rows, first, last, lengths)

    in_chunks(bounds, count)
    indptr = np.r_[0, np.cumsum(lengths)]
    indices, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)

    def fill(first: int, last: int) -> None:
        kernels.centroids(x, n_features, starts, rows, first, last, indptr, indices, values)

    in_chunks(bounds, fill)
    if indptr[-1] <= np.iinfo(np.int32).max:  # or `indices` would be copied to the size of `indptr`
        indptr = indptr.astype(np.int32)
    return sp.csr_array((values, indices, indptr), shape=(n_labels, n_features))


def clustered(vectors: sp.csr_array, depth: int, seed: int) -> Indices:
    """All labels in an order in which the ranges of `halves` are clusters, at every depth."""
    n_labels, d = vectors.shape
    z = Rows(vectors.indptr.astype(np.int64), vectors.indices, vectors.data)
    order = np.arange(n_labels, dtype=np.int32)
    for level in range(depth):
        bounds = halves(n_labels, level)

        def work(first: int, last: int, level: int = level, bounds: Ints = bounds) -> None:
            centres = np.zeros((d, 2), dtype=np.float32)
            for v in range(first, last):
                own = order[bounds[v] : bounds[v + 1]]
                number = (seed << 40) + (v + (1 << level))
                kernels.bisect(z, own, number, ITERATIONS, LEAST_GAIN, centres)

        in_chunks(np.unique(np.linspace(0, 1 << level, CHUNKS + 1).astype(np.int64)), work)
    return order
