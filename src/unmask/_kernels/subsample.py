"""The subsampled baseline: recall of rows whose many labels are first thinned at random."""

from __future__ import annotations

import numpy as np

from unmask._kernels import ranking_exact
from unmask._kernels.block import Block
from unmask._kernels.compiling import njit
from unmask._typing import Floats


@njit(cache=True, nogil=True)
def recall(block: Block, out: Floats, column: int) -> None:
    """Recall of every row after halving its label set until at most `limit` labels are left.

    A label survives each halving with probability 1/2, so its propensity is halved as well; rows
    that were thinned take the mean of many draws.
    """
    ks, spots, tables = block.ks, block.spots, block.tables
    limit, repeats, seed = block.draws.limit, block.draws.repeats, block.draws.seed
    after, one = np.empty(ks[-1] + 1), np.zeros((ks.size, 1))
    for i in range(block.n_rows):
        out[column : column + ks.size, i] = 0.0
        if block.hit_counts[i] == 0:
            continue
        size = block.sizes[i]
        own = block.own[block.begins[i] : block.begins[i] + size]
        times = repeats if size > limit else 1
        for draw in range(times):
            thinned, left, level = own.copy(), size, 0
            while left > limit:
                _halve(thinned, mix(mix(mix(seed, block.number + i), draw), level))
                left, level = (thinned > 0.0).sum(), level + 1
            hits = np.zeros(ks[-1])
            for place in range(hits.size):
                if spots[place, i] >= 0:
                    hits[place] = thinned[spots[place, i]]
                    thinned[spots[place, i]] = 0.0
            rest, n = thinned[thinned > 0.0], (left + 1) // 2
            first = tables.starts[n]
            one[:] = 0.0
            ranking_exact.integrals(
                hits, rest, 0, rest.size, tables.nodes, tables.weights, first, first + n,
                ks, one, 0, 0, -1, -1, after,
            )  # fmt: skip
            out[column : column + ks.size, i] += one[:, 0] / times


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
