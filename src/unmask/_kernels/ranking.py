"""Ranking metrics that are the same few operations in every row, for a block of rows at once.

A block is reduced to a table, and everything else is a formula in it:

- `hit[r, i]`   1/p of the label predicted at place r of row i if it was observed, 0 if it was not;
- `sizes[i]`    how many labels of row i were observed;
- `ks`          the cut-offs k, ascending; results go to `out[at], out[at + 1], …`, one per k.

Rows are the inner loop, which makes it vector instructions. With every 1/p set to 1 the formulas
give the ordinary metric of the observed labels; with the observed 1/p of a row in descending order
instead of `hit`, what the best ranking would score. S are the observed labels among the first k,
q = 1/p. `ranking_exact` has the metrics that need a product over the labels of a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask._kernels.compiling import njit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Without reference counts, which two threads would wait for several times per row; such functions
# must not allocate or slice.
bare: Any = njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)


@bare
def precision(hit: Floats, count: int, ks: Ints, out: Floats, at: int, total: Floats) -> None:
    """P@k = (1/k) Σ_{i∈S} q_i."""
    place = _fill(total, count, 0.0)
    for c in range(ks.size):
        while place < ks[c]:
            for i in range(count):
                total[i] += hit[place, i]
            place += 1
        for i in range(count):
            out[at + c, i] = total[i] / ks[c]


@bare
def discounted(
    hit: Floats, count: int, discount: Floats, ks: Ints, out: Floats, at: int, total: Floats
) -> None:
    """DCG@k = Σ_{i∈S} q_i d_i."""
    place = _fill(total, count, 0.0)
    for c in range(ks.size):
        while place < ks[c]:
            for i in range(count):
                total[i] += hit[place, i] * discount[place]
            place += 1
        for i in range(count):
            out[at + c, i] = total[i]


@bare
def any_hit(hit: Floats, count: int, ks: Ints, out: Floats, at: int, none: Floats) -> None:
    """hit@k = 1 − Π_{i∈S} (1 − q_i)."""
    place = _fill(none, count, 1.0)
    for c in range(ks.size):
        while place < ks[c]:
            for i in range(count):
                none[i] *= 1.0 - hit[place, i]
            place += 1
        for i in range(count):
            out[at + c, i] = 1.0 - none[i]


@bare
def reciprocal_rank(
    hit: Floats, count: int, ks: Ints, out: Floats, at: int, total: Floats, none: Floats
) -> None:
    """MRR@k = Σ_{i∈S} (q_i / rank_i) Π_{j∈S before i} (1 − q_j)."""
    place = _fill(total, count, 0.0) + _fill(none, count, 1.0)
    for c in range(ks.size):
        while place < ks[c]:
            for i in range(count):
                total[i] += none[i] * hit[place, i] / (place + 1)
                none[i] *= 1.0 - hit[place, i]
            place += 1
        for i in range(count):
            out[at + c, i] = total[i]


@bare
def plain(
    hit: Floats, sizes: Ints, count: int, ks: Ints, out: Floats, recall: int, f1: int,
    jaccard: int, total: Floats,
) -> None:  # fmt: skip
    """R@k, F1@k, Jaccard@k of the m observed labels: s/m, 2s/(k+m), s/(k+m−s), s = |S|."""
    place = _fill(total, count, 0.0)
    for c in range(ks.size):
        while place < ks[c]:
            for i in range(count):
                total[i] += hit[place, i]
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
def plain_ndcg(
    hit: Floats, count: int, discount: Floats, ideal: Floats, ks: Ints, out: Floats, at: int,
    total: Floats,
) -> None:  # fmt: skip
    """nDCG@k of the observed labels (also the numerator of PSnDCG@k); `ideal` is 1/IDCG(m)."""
    place = _fill(total, count, 0.0)
    for c in range(ks.size):
        while place < ks[c]:
            for i in range(count):
                total[i] += hit[place, i] * discount[place]
            place += 1
        for i in range(count):
            out[at + c, i] = total[i] * ideal[c, i]


@bare
def inverse_ideals(sizes: Ints, count: int, inverse_ideal: Floats, ks: Ints, ideal: Floats) -> None:
    """1/IDCG(min(k, m)) for every k and row; 0 where m = 0."""
    for c in range(ks.size):
        for i in range(count):
            ideal[c, i] = inverse_ideal[min(sizes[i], ks[c])]


@bare
def plain_r_precision(
    hit: Floats, sizes: Ints, count: int, ks: Ints, out: Floats, at: int, total: Floats
) -> None:
    """R-precision@k of the observed labels: hits among the first min(k, m), over min(k, m)."""
    place = _fill(total, count, 0.0)
    for c in range(ks.size):
        while place < ks[c]:
            for i in range(count):
                total[i] += hit[place, i] if place < sizes[i] else 0.0
            place += 1
        for i in range(count):
            out[at + c, i] = total[i] / max(min(sizes[i], ks[c]), 1)


@bare
def _fill(values: Floats, count: int, x: float) -> int:
    """The first `count` numbers become x; 0, the first place, comes back."""
    for i in range(count):
        values[i] = x
    return 0
