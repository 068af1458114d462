"""Ranking metrics that are the same few operations in every row, for a block of rows at once.

Each function is the `function` of a `Kernel` (see `block`). Rows are the inner loop, which makes it
vector instructions. With every 1/p set to 1 the formulas give the ordinary metric of the observed
labels; with the observed 1/p of a row in descending order instead of its hits, what the best
ranking would score. S are the observed labels among the first k, q = 1/p, m the number of observed
labels. `ranking_exact` has the metrics that need a product over the labels of a row.

Ranking metrics that need the labels of a row beside its hits: sums and products over them.

Each public function is the `function` of a `Kernel` (see `block`) and goes row by row. Below, I is
the set of observed labels, S those predicted among the first k, q = 1/p, N = |Y*|. A row without a
hit scores 0, except in `misordered`.
"""

from __future__ import annotations

import numpy as np

from unmask._kernels.block import Block, bare
from unmask._kernels.compiling import njit
from unmask._typing import Floats, Ints


@bare
def misordered(block: Block, out: Floats, column: int) -> None:
    """Kendall-tau loss: Σ_{j∈I} q_j Σ_{i above j} (1 − q_i y_i), unlisted labels tied last."""
    for i in range(block.n_rows):
        _clear(block.ks, out, column, i)
        if block.sizes[i] > 0:
            _misordered(block, out, column, i)


@bare
def _misordered(block: Block, out: Floats, column: int, i: int) -> None:
    ks, hits, after = block.ks, block.scratch.row_hits, block.scratch.after
    _take_hits(block, i)
    _sums_after(hits, block.rest_sums[i], after)
    above, pairs, place = 0.0, 0.0, 0
    for c in range(ks.size):
        while place < min(ks[c], block.listed[i]):
            pairs += hits[place] * (place - above)
            above += hits[place]
            place += 1
        out[column + c, i] = pairs + after[place] * (place - above)


@bare
def sets(block: Block, out: Floats, recall: int, f1: int, jaccard: int) -> None:
    """R@k, F1@k and Jaccard@k by Gauss–Legendre quadrature: see `integrals`."""
    hits, tables = block.scratch.row_hits, block.tables
    for i in range(block.n_rows):
        _clear(block.ks, out, recall, i)
        _clear(block.ks, out, f1, i)
        _clear(block.ks, out, jaccard, i)
        if block.hit_counts[i] == 0:
            continue
        _take_hits(block, i)
        size = block.sizes[i]
        n = (size + 1) // 2 if f1 < 0 and jaccard < 0 else (size + hits.size + 1) // 2
        first = tables.starts[n]
        integrals(
            hits, block.rest, block.begins[i], block.rest_counts[i], tables.nodes, tables.weights,
            first, first + n, block.ks, out, i, recall, f1, jaccard, block.scratch.after,
        )  # fmt: skip


@bare
def integrals(
    hits: Floats,
    rest: Floats,
    begin: int,
    unlisted: int,
    nodes: Floats,
    weights: Floats,
    first: int,
    last: int,
    ks: Ints,
    out: Floats,
    i: int,
    recall: int,
    f1: int,
    jaccard: int,
    after: Floats,
) -> None:
    """Add R@k, F1@k and Jaccard@k of a row by quadrature, exact because all are polynomials.

    With t = 1 − u on [0, 1] and E_i(u) = Π_{j∈I∖i} (1 − u q_j):

        R = Σ_{i∈S} q_i ∫ E_i          F1 = 2 Σ_{i∈S} q_i ∫ t^k E_i
        Jaccard = (Σ_{i∈S} q_i) ∫ t^(k−1) Π_{j∈I∖S} (1 − u q_j)

    The product over the other hits comes from those before and those after: no division.
    """
    places = hits.size
    for v in range(first, last):
        u, w = nodes[v], weights[v]
        product = 1.0
        for j in range(unlisted):
            product *= 1.0 - u * rest[begin + j]
        after[places] = 1.0
        for place in range(places - 1, -1, -1):
            after[place] = after[place + 1] * (1.0 - u * hits[place])
        before, total, place, t_to_k = product, 0.0, 0, 1.0
        for c in range(ks.size):
            while place < ks[c]:
                total += hits[place] * before * after[place + 1]
                before *= 1.0 - u * hits[place]
                t_to_k *= 1.0 - u
                place += 1
            if recall >= 0:
                out[recall + c, i] += w * total
            if f1 >= 0:
                out[f1 + c, i] += 2.0 * w * t_to_k * total
            if jaccard >= 0:
                out[jaccard + c, i] += w * t_to_k / (1.0 - u) * product * after[place]
    if jaccard >= 0:
        total, place = 0.0, 0
        for c in range(ks.size):
            while place < ks[c]:
                total += hits[place]
                place += 1
            out[jaccard + c, i] *= total


@bare
def by_size(block: Block, out: Floats, ndcg: int, r_precision: int) -> None:
    """nDCG@k and R-precision@k, whose weight g(rank, N) of a hit is constant from N = k on.

    With c_s the coefficients of Π_{j∈I∖i} (1 − q_j + z q_j), so that c_s estimates P(N − 1 = s):

        Σ_{i∈S} q_i ( g(i, k) + Σ_{s<k−1} (g(i, 1 + s) − g(i, k)) c_s )

    nDCG: g = d_i / IDCG(min(N, k)).  R-precision: g = [rank_i ≤ N] / min(N, k).
    """
    hits, shared, own = block.scratch.row_hits, block.scratch.shared, block.scratch.without_one
    for i in range(block.n_rows):
        _clear(block.ks, out, ndcg, i)
        _clear(block.ks, out, r_precision, i)
        if block.hit_counts[i] == 0:
            continue
        _take_hits(block, i)
        _coefficients(block.rest, block.begins[i], block.rest_counts[i], shared)
        for place in range(hits.size):
            if hits[place] == 0.0:
                continue
            for s in range(own.size):
                own[s] = shared[s]
            for other in range(hits.size):
                if other != place and hits[other] != 0.0:
                    _multiply(own, hits[other])
            _add_by_size(block, out, ndcg, r_precision, i, place)


@bare
def _add_by_size(
    block: Block, out: Floats, ndcg: int, r_precision: int, i: int, place: int
) -> None:
    """Add what the hit at one place contributes, its coefficients c_s being in `without_one`."""
    ks, own, inverse_ideal = block.ks, block.scratch.without_one, block.tables.inverse_ideal
    hit, discount = block.scratch.row_hits[place], block.tables.discount[place]
    for c in range(ks.size):
        k = ks[c]
        if place >= k:
            continue
        if ndcg >= 0:
            w = inverse_ideal[k]
            total = w
            for s in range(k - 1):
                total += (inverse_ideal[1 + s] - w) * own[s]
            out[ndcg + c, i] += hit * discount * total
        if r_precision >= 0:
            total = 1.0 / k
            for s in range(k - 1):
                share = 1.0 / (1 + s) if place <= s else 0.0
                total += (share - 1.0 / k) * own[s]
            out[r_precision + c, i] += hit * total


@bare
def _coefficients(inverse: Floats, begin: int, count: int, coefficients: Floats) -> None:
    """The first coefficients of Π_j (1 − q_j + z q_j)."""
    for s in range(coefficients.size):
        coefficients[s] = 0.0
    coefficients[0] = 1.0
    for j in range(count):
        _multiply(coefficients, inverse[begin + j])


@bare
def _multiply(coefficients: Floats, q: float) -> None:
    for s in range(coefficients.size - 1, 0, -1):
        coefficients[s] = coefficients[s] * (1.0 - q) + coefficients[s - 1] * q
    coefficients[0] *= 1.0 - q


@bare
def bounds(block: Block, out: Floats, recall: int, f1: int, jaccard: int, ndcg: int) -> None:
    """Upper bounds in expectation: N − 1 replaced by Q − q_i under a convex function (Jensen).

    R: q_i / (1 + Q − q_i); F1: 2 q_i / (k + 1 + Q − q_i); Jaccard: Σ_S q / (k + Q − Σ_S q);
    nDCG: q_i d_i w(1 + Q − q_i), w linear between the integers. Q = Σ_{j∈I} q_j.
    """
    for i in range(block.n_rows):
        _clear(block.ks, out, recall, i)
        _clear(block.ks, out, f1, i)
        _clear(block.ks, out, jaccard, i)
        _clear(block.ks, out, ndcg, i)
        if block.hit_counts[i] > 0:
            _bounds(block, out, recall, f1, jaccard, ndcg, i)


@bare
def _bounds(
    block: Block, out: Floats, recall: int, f1: int, jaccard: int, ndcg: int, i: int
) -> None:
    ks, hits, after = block.ks, block.scratch.row_hits, block.scratch.after
    discount, inverse_ideal = block.tables.discount, block.tables.inverse_ideal
    _take_hits(block, i)
    _sums_after(hits, block.rest_sums[i], after)
    for c in range(ks.size):
        k, inside = ks[c], 0.0
        for place in range(k):
            q, others = hits[place], inside + after[place + 1]
            inside += q
            if q == 0.0:
                continue
            if recall >= 0:
                out[recall + c, i] += q / (1.0 + others)
            if f1 >= 0:
                out[f1 + c, i] += 2.0 * q / (k + 1.0 + others)
            if ndcg >= 0:
                out[ndcg + c, i] += q * discount[place] * _between(inverse_ideal, 1.0 + others, k)
        if jaccard >= 0:
            out[jaccard + c, i] = inside / (k + after[k])


@bare
def _between(table: Floats, x: float, last: int) -> float:
    """The table read at x ≥ 1 with straight lines between the integers, constant beyond `last`."""
    if x >= last:
        return float(table[last])
    low = min(int(x), last - 1)
    return float(table[low] + (x - low) * (table[low + 1] - table[low]))


@bare
def self_normalized(block: Block, out: Floats, recall: int, f1: int) -> None:
    """R: Σ_S q / Q (within [0, 1]) and F1: 2 Σ_S q / (k + Q), with Q = Σ_{j∈I} q_j."""
    ks, hits = block.ks, block.scratch.row_hits
    for i in range(block.n_rows):
        _clear(ks, out, recall, i)
        _clear(ks, out, f1, i)
        if block.hit_counts[i] == 0:
            continue
        _take_hits(block, i)
        total = block.rest_sums[i]
        for place in range(hits.size):
            total += hits[place]
        inside, place = 0.0, 0
        for c in range(ks.size):
            while place < ks[c]:
                inside += hits[place]
                place += 1
            if recall >= 0:
                out[recall + c, i] = inside / total
            if f1 >= 0:
                out[f1 + c, i] = 2.0 * inside / (ks[c] + total)


@bare
def _take_hits(block: Block, i: int) -> None:
    """The hits of row i, beside one another, in `row_hits`."""
    hits = block.scratch.row_hits
    for place in range(hits.size):
        hits[place] = block.hits[place, i]


@bare
def _clear(ks: Ints, out: Floats, column: int, i: int) -> None:
    """Zero for every k, if the column is asked for."""
    if column >= 0:
        for c in range(ks.size):
            out[column + c, i] = 0.0


@bare
def _sums_after(hits: Floats, rest_sum: float, after: Floats) -> None:
    """Σ of the hits from each place on and of the rest: a difference would lose small numbers."""
    after[hits.size] = rest_sum
    for place in range(hits.size - 1, -1, -1):
        after[place] = after[place + 1] + hits[place]


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
            integrals(
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
