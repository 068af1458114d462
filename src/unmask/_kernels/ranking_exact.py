"""Ranking metrics that need the labels of a row beside its hits: sums and products over them.

Each public function is the `function` of a `Kernel` (see `block`) and goes row by row. Below, I is
the set of observed labels, S those predicted among the first k, q = 1/p, N = |Y*|. A row without a
hit scores 0, except in `misordered`.
"""

from __future__ import annotations

from unmask._kernels.block import Block, bare
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
