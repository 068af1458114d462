"""Ranking metrics of one row that need its labels beside the hits: sums and products over them.

- `hit[r]`  1/p of the label predicted at place r (from 0) if it was observed, 0 if it was not;
- `rest`    1/p of the observed labels that are not among the predictions, the first `unlisted`;
- `ks`      the cut-offs k, ascending; results go to `out[at, i], out[at + 1, i], …`, one per k,
            where i is the row within its block. A result that is not wanted has a negative `at`.

Below, I is the set of observed labels, S those predicted among the first k, q = 1/p, N = |Y*|.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unmask._kernels.ranking import bare

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@bare
def misordered(
    hit: Floats, rest_sum: float, predicted: int, ks: Ints, out: Floats, at: int, i: int,
    after: Floats,
) -> None:  # fmt: skip
    """Kendall-tau loss: Σ_{j∈I} q_j Σ_{i above j} (1 − q_i y_i), unlisted labels tied last."""
    _sums_after(hit, rest_sum, after)
    above, pairs, place = 0.0, 0.0, 0
    for c in range(ks.size):
        while place < min(ks[c], predicted):
            pairs += hit[place] * (place - above)
            above += hit[place]
            place += 1
        out[at + c, i] = pairs + after[place] * (place - above)


@bare
def _sums_after(hit: Floats, rest_sum: float, after: Floats) -> None:
    """Σ of the hits from each place on and of the rest: a difference would lose small numbers."""
    after[hit.size] = rest_sum
    for place in range(hit.size - 1, -1, -1):
        after[place] = after[place + 1] + hit[place]


@bare
def integrals(
    hit: Floats,
    rest: Floats,
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
    """R@k, F1@k and Jaccard@k by Gauss–Legendre quadrature, exact because all are polynomials.

    With t = 1 − u on [0, 1] and E_i(u) = Π_{j∈I∖i} (1 − u q_j):

        R = Σ_{i∈S} q_i ∫ E_i          F1 = 2 Σ_{i∈S} q_i ∫ t^k E_i
        Jaccard = (Σ_{i∈S} q_i) ∫ t^(k−1) Π_{j∈I∖S} (1 − u q_j)

    The product over the other hits comes from those before and those after: no division.
    """
    places = hit.size
    for v in range(first, last):
        u, w = nodes[v], weights[v]
        product = 1.0
        for j in range(unlisted):
            product *= 1.0 - u * rest[j]
        after[places] = 1.0
        for place in range(places - 1, -1, -1):
            after[place] = after[place + 1] * (1.0 - u * hit[place])
        before, total, place, t_to_k = product, 0.0, 0, 1.0
        for c in range(ks.size):
            while place < ks[c]:
                total += hit[place] * before * after[place + 1]
                before *= 1.0 - u * hit[place]
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
                total += hit[place]
                place += 1
            out[jaccard + c, i] *= total


@bare
def by_size(
    hit: Floats,
    rest: Floats,
    unlisted: int,
    discount: Floats,
    inverse_ideal: Floats,
    ks: Ints,
    out: Floats,
    i: int,
    ndcg: int,
    r_precision: int,
    shared: Floats,
    own: Floats,
) -> None:
    """nDCG@k and R-precision@k, whose weight g(rank, N) of a hit is constant from N = k on.

    With c_s the coefficients of Π_{j∈I∖i} (1 − q_j + z q_j), so that c_s estimates P(N − 1 = s):

        Σ_{i∈S} q_i ( g(i, k) + Σ_{s<k−1} (g(i, 1 + s) − g(i, k)) c_s )

    nDCG: g = d_i / IDCG(min(N, k)).  R-precision: g = [rank_i ≤ N] / min(N, k).
    """
    _coefficients(rest, unlisted, shared)
    for place in range(hit.size):
        if hit[place] == 0.0:
            continue
        for s in range(own.size):
            own[s] = shared[s]
        for other in range(hit.size):
            if other != place and hit[other] != 0.0:
                _multiply(own, hit[other])
        for c in range(ks.size):
            k = ks[c]
            if place >= k:
                continue
            if ndcg >= 0:
                w = inverse_ideal[k]
                total = w
                for s in range(k - 1):
                    total += (inverse_ideal[1 + s] - w) * own[s]
                out[ndcg + c, i] += hit[place] * discount[place] * total
            if r_precision >= 0:
                total = 1.0 / k
                for s in range(k - 1):
                    share = 1.0 / (1 + s) if place <= s else 0.0
                    total += (share - 1.0 / k) * own[s]
                out[r_precision + c, i] += hit[place] * total


@bare
def _coefficients(inverse: Floats, count: int, coefficients: Floats) -> None:
    """The first coefficients of Π_j (1 − q_j + z q_j)."""
    for s in range(coefficients.size):
        coefficients[s] = 0.0
    coefficients[0] = 1.0
    for j in range(count):
        _multiply(coefficients, inverse[j])


@bare
def _multiply(coefficients: Floats, q: float) -> None:
    for s in range(coefficients.size - 1, 0, -1):
        coefficients[s] = coefficients[s] * (1.0 - q) + coefficients[s - 1] * q
    coefficients[0] *= 1.0 - q


@bare
def bounds(
    hit: Floats,
    rest_sum: float,
    discount: Floats,
    inverse_ideal: Floats,
    ks: Ints,
    out: Floats,
    i: int,
    recall: int,
    f1: int,
    jaccard: int,
    ndcg: int,
    after: Floats,
) -> None:
    """Upper bounds in expectation: N − 1 replaced by Q − q_i under a convex function (Jensen).

    R: q_i / (1 + Q − q_i); F1: 2 q_i / (k + 1 + Q − q_i); Jaccard: Σ_S q / (k + Q − Σ_S q);
    nDCG: q_i d_i w(1 + Q − q_i), w linear between the integers. Q = Σ_{j∈I} q_j.
    """
    _sums_after(hit, rest_sum, after)
    for c in range(ks.size):
        k, inside = ks[c], 0.0
        for place in range(k):
            q, others = hit[place], inside + after[place + 1]
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
def self_normalized(
    hit: Floats, total: float, ks: Ints, out: Floats, i: int, recall: int, f1: int
) -> None:
    """R: Σ_S q / Q (within [0, 1]) and F1: 2 Σ_S q / (k + Q), with Q = Σ_{j∈I} q_j."""
    inside, place = 0.0, 0
    for c in range(ks.size):
        while place < ks[c]:
            inside += hit[place]
            place += 1
        if recall >= 0:
            out[recall + c, i] = inside / total
        if f1 >= 0:
            out[f1 + c, i] = 2.0 * inside / (ks[c] + total)
