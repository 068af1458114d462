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

    def work(first: int, last: int) -> tuple[Indices, np.ndarray, Ints]:
        most = int(cost[last] - cost[first])
        indices, values = np.empty(most, np.int32), np.empty(most, np.float32)
        lengths = np.empty(last - first, np.int64)
        end = kernels.centroids(x, n_features, starts, rows, first, last, indices, values, lengths)
        return indices[:end].copy(), values[:end].copy(), lengths

    parts = in_chunks(bounds, work)
    indptr = np.r_[0, np.cumsum(np.concatenate([lengths for _, _, lengths in parts]))]
    indices = np.concatenate([part[0] for part in parts])
    values = np.concatenate([part[1] for part in parts])
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
