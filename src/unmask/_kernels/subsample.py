"""The subsampled baseline: recall of rows whose many labels are first thinned at random."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask._kernels import membership, ranking_exact
from unmask._kernels.compiling import njit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@njit(cache=True, nogil=True)
def recall(
    block: int, count: int, data: Any, ks: Ints, tables: Any, draws: Any, values: Floats, at: int
) -> None:
    """Recall of every row after halving its label set until at most `limit` labels are left.

    A label survives each halving with probability 1/2, so its propensity is halved as well; rows
    that were thinned take the mean of many draws.
    """
    indptr, indices, top, inverse, per_entry, first_row = data
    _, _, nodes, weights, starts = tables
    limit, repeats, seed = draws
    spots, after = np.empty((ks[-1], 1), np.int64), np.empty(ks[-1] + 1)
    one = np.zeros((ks.size, 1))
    for row in range(block, block + count):
        begin, size = indptr[row], indptr[row + 1] - indptr[row]
        if membership.locate(indices, begin, size, top, row, spots, 0) == 0:
            continue
        labels = indices[begin : begin + size]
        own = inverse[begin : begin + size] if per_entry else inverse[labels]
        times = repeats if size > limit else 1
        for draw in range(times):
            some, left, level = own.copy(), size, 0
            while left > limit:
                _halve(some, mix(mix(mix(seed, first_row + row), draw), level))
                left, level = (some > 0.0).sum(), level + 1
            hit = np.zeros(ks[-1])
            for r in range(hit.size):
                if spots[r, 0] >= 0:
                    hit[r] = some[spots[r, 0]]
                    some[spots[r, 0]] = 0.0
            rest, n = some[some > 0.0], (left + 1) // 2
            one[:] = 0.0
            ranking_exact.integrals(
                hit, rest, rest.size, nodes, weights, starts[n], starts[n] + n, ks, one, 0,
                0, -1, -1, after,
            )  # fmt: skip
            values[at : at + ks.size, row - block] += one[:, 0] / times


@njit(cache=True, nogil=True)
def _halve(inverse: Floats, stream: int) -> None:
    for j in range(inverse.size):
        inverse[j] = 2.0 * inverse[j] if mix(stream, j) & 1 else 0.0


@njit(cache=True, nogil=True)
def mix(seed: int, counter: int) -> int:
    """A random-looking 62-bit number from two numbers (the finaliser of SplitMix64)."""
    z = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(counter + 1)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((z ^ (z >> np.uint64(31))) >> np.uint64(2))  # type: ignore[return-value]
