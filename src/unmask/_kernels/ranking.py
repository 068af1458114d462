"""Ranking metrics that are the same few operations in every row, for a block of rows at once.

Each function is the `function` of a `Kernel` (see `block`). Rows are the inner loop, which makes it
vector instructions. With every 1/p set to 1 the formulas give the ordinary metric of the observed
labels; with the observed 1/p of a row in descending order instead of its hits, what the best
ranking would score. S are the observed labels among the first k, q = 1/p, m the number of observed
labels. `ranking_exact` has the metrics that need a product over the labels of a row.
"""

from __future__ import annotations

from unmask._kernels.block import Block, bare
from unmask._typing import Floats


@bare
def precision(block: Block, out: Floats, column: int) -> None:
    """P@k = (1/k) Σ_{i∈S} q_i."""
    ks, hits, count, total = block.ks, block.hits, block.n_rows, block.scratch.total
    place = _fill(total, count, 0.0)
    for c in range(ks.size):
        while place < ks[c]:
            for i in range(count):
                total[i] += hits[place, i]
            place += 1
        for i in range(count):
            out[column + c, i] = total[i] / ks[c]


@bare
def discounted(block: Block, out: Floats, column: int) -> None:
    """DCG@k = Σ_{i∈S} q_i d_i."""
    ks, hits, count, total = block.ks, block.hits, block.n_rows, block.scratch.total
    discount = block.tables.discount
    place = _fill(total, count, 0.0)
    for c in range(ks.size):
        while place < ks[c]:
            for i in range(count):
                total[i] += hits[place, i] * discount[place]
            place += 1
        for i in range(count):
            out[column + c, i] = total[i]


@bare
def any_hit(block: Block, out: Floats, column: int) -> None:
    """hit@k = 1 − Π_{i∈S} (1 − q_i)."""
    ks, hits, count, none = block.ks, block.hits, block.n_rows, block.scratch.none
    place = _fill(none, count, 1.0)
    for c in range(ks.size):
        while place < ks[c]:
            for i in range(count):
                none[i] *= 1.0 - hits[place, i]
            place += 1
        for i in range(count):
            out[column + c, i] = 1.0 - none[i]


@bare
def reciprocal_rank(block: Block, out: Floats, column: int) -> None:
    """MRR@k = Σ_{i∈S} (q_i / rank_i) Π_{j∈S before i} (1 − q_j)."""
    ks, hits, count = block.ks, block.hits, block.n_rows
    total, none = block.scratch.total, block.scratch.none
    place = _fill(total, count, 0.0) + _fill(none, count, 1.0)
    for c in range(ks.size):
        while place < ks[c]:
            for i in range(count):
                total[i] += none[i] * hits[place, i] / (place + 1)
                none[i] *= 1.0 - hits[place, i]
            place += 1
        for i in range(count):
            out[column + c, i] = total[i]


@bare
def observed_sets(block: Block, out: Floats, recall: int, f1: int, jaccard: int) -> None:
    """R@k, F1@k, Jaccard@k of the m observed labels: s/m, 2s/(k+m), s/(k+m−s), s = |S|."""
    ks, hits, count, total = block.ks, block.hits, block.n_rows, block.scratch.total
    sizes = block.sizes
    place = _fill(total, count, 0.0)
    for c in range(ks.size):
        while place < ks[c]:
            for i in range(count):
                total[i] += hits[place, i]
            place += 1
        if recall >= 0:
            for i in range(count):
                out[recall + c, i] = total[i] / max(sizes[i], 1)
        if f1 >= 0:
            for i in range(count):
                out[f1 + c, i] = 2 * total[i] / (ks[c] + sizes[i])
        if jaccard >= 0:
            for i in range(count):
                out[jaccard + c, i] = total[i] / (ks[c] + sizes[i] - total[i])


@bare
def observed_by_size(block: Block, out: Floats, ndcg: int, r_precision: int) -> None:
    """nDCG@k and R-precision@k of the observed labels."""
    if ndcg >= 0:
        observed_ndcg(block, out, ndcg)
    if r_precision >= 0:
        _observed_r_precision(block, out, r_precision)


@bare
def observed_ndcg(block: Block, out: Floats, column: int) -> None:
    """nDCG@k of the observed labels (also the numerator of PSnDCG@k): Σ_{i∈S} q_i d_i / IDCG(m)."""
    ks, hits, count, total = block.ks, block.hits, block.n_rows, block.scratch.total
    discount, ideal = block.tables.discount, block.ideal
    place = _fill(total, count, 0.0)
    for c in range(ks.size):
        while place < ks[c]:
            for i in range(count):
                total[i] += hits[place, i] * discount[place]
            place += 1
        for i in range(count):
            out[column + c, i] = total[i] * ideal[c, i]


@bare
def _observed_r_precision(block: Block, out: Floats, column: int) -> None:
    """R-precision@k of the observed labels: hits among the first min(k, m), over min(k, m)."""
    ks, hits, count, total = block.ks, block.hits, block.n_rows, block.scratch.total
    sizes = block.sizes
    place = _fill(total, count, 0.0)
    for c in range(ks.size):
        while place < ks[c]:
            for i in range(count):
                total[i] += hits[place, i] if place < sizes[i] else 0.0
            place += 1
        for i in range(count):
            out[column + c, i] = total[i] / max(min(sizes[i], ks[c]), 1)


@bare
def _fill(values: Floats, count: int, x: float) -> int:
    """The first `count` numbers become x; 0, the first place, comes back."""
    for i in range(count):
        values[i] = x
    return 0
