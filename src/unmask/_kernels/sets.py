"""Metrics of predicted sets, for a block of rows: means over rows, and totals that are divided.

Each public function is the `function` of a `Kernel` (see `block`). The set P of a row is its whole
list, or the first k of it: |P| = min(k, predictions in the list). I is the set of observed labels,
S = I ∩ P, q = 1/p, N = |Y*|, and t = 1 − u on [0, 1]. With a N + b |P| under a fraction,

    (a + b) Σ_{i∈S} q_i ∫ t^(a + b|P| − 1) Π_{j∈I∖i} (1 − (1 − t^a) q_j) dt

is unbiased for (a + b) |Y* ∩ P| / (a N + b |P|), because 1/x = ∫ t^(x − 1) dt: recall is (1, 0),
F1 (1, 1), F2 (4, 1), F0.5 (1, 4). A polynomial, so Gauss–Legendre quadrature is exact.
"""

from __future__ import annotations

from unmask._kernels.block import Block, bare
from unmask._typing import Floats


@bare
def means(block: Block, out: Floats, precision: int, recall: int, f1: int, jaccard: int) -> None:
    """Precision, recall, F1 and Jaccard of every row; 0 in a row without a hit."""
    for i in range(block.n_rows):
        for c in range(block.ks.size):
            size = min(block.ks[c], block.listed[i])
            inside = _take_inside(block, i, size) if block.hit_counts[i] > 0 else 0
            if precision >= 0:
                out[precision + c, i] = _sum(block.scratch.row_hits, inside) / max(size, 1)
            if recall >= 0:
                out[recall + c, i] = _share(block, i, size, inside, 1, 0)
            if f1 >= 0:
                out[f1 + c, i] = _share(block, i, size, inside, 1, 1)
            if jaccard >= 0:
                out[jaccard + c, i] = _of_union(block, i, size, inside)


@bare
def observed_means(
    block: Block, out: Floats, precision: int, recall: int, f1: int, jaccard: int
) -> None:
    """Ratios by the observed labels: s/|P|, s/m, 2s/(|P| + m), s/(|P| + m − s)."""
    for i in range(block.n_rows):
        labels = block.sizes[i]
        for c in range(block.ks.size):
            size = min(block.ks[c], block.listed[i])
            hits = _hits_within(block, i, size)
            if precision >= 0:
                out[precision + c, i] = hits / max(size, 1)
            if recall >= 0:
                out[recall + c, i] = hits / max(labels, 1)
            if f1 >= 0:
                out[f1 + c, i] = 2 * hits / max(size + labels, 1)
            if jaccard >= 0:
                out[jaccard + c, i] = hits / max(size + labels - hits, 1)


@bare
def weighted_f(block: Block, out: Floats, f05: int, f2: int) -> None:
    """F0.5 (precision counts more) and F2 (recall does) of every row."""
    for i in range(block.n_rows):
        for c in range(block.ks.size):
            size = min(block.ks[c], block.listed[i])
            inside = _take_inside(block, i, size) if block.hit_counts[i] > 0 else 0
            if f05 >= 0:
                out[f05 + c, i] = _share(block, i, size, inside, 1, 4)
            if f2 >= 0:
                out[f2 + c, i] = _share(block, i, size, inside, 4, 1)


@bare
def observed_weighted_f(block: Block, out: Floats, f05: int, f2: int) -> None:
    """Ratios by the observed labels: 5s/(4|P| + m) and 5s/(|P| + 4m)."""
    for i in range(block.n_rows):
        labels = block.sizes[i]
        for c in range(block.ks.size):
            size = min(block.ks[c], block.listed[i])
            hits = _hits_within(block, i, size)
            if f05 >= 0:
                out[f05 + c, i] = 5 * hits / max(4 * size + labels, 1)
            if f2 >= 0:
                out[f2 + c, i] = 5 * hits / max(size + 4 * labels, 1)


@bare
def equal(block: Block, out: Floats, column: int) -> None:
    """Is P = Y*? Π_{i∈S} q_i Π_{j∈I∖S} (1 − q_j) if S = P, else 0."""
    for i in range(block.n_rows):
        for c in range(block.ks.size):
            size = min(block.ks[c], block.listed[i])
            inside = _take_inside(block, i, size)
            product = 0.0
            if inside == size:
                product = _outside(block, i, inside, 1.0)
                for j in range(inside):
                    product *= block.scratch.row_hits[j]
            out[column + c, i] = product


@bare
def totals(
    block: Block, out: Floats, hits: int, predicted: int, positives: int, f1: int, f05: int,
    f2: int, union: int, wrong: int, all_labels: int,
) -> None:  # fmt: skip
    """Terms that micro metrics divide, by row: Σ_S q, |P|, Σ_I q, L and combinations of them."""
    for i in range(block.n_rows):
        labels = block.rest_sums[i]
        for place in range(block.hits.shape[0]):
            labels += block.hits[place, i]
        for c in range(block.ks.size):
            size = min(block.ks[c], block.listed[i])
            inside = 0.0
            for place in range(size):
                inside += block.hits[place, i]
            if hits >= 0:
                out[hits + c, i] = inside
            if predicted >= 0:
                out[predicted + c, i] = size
            if positives >= 0:
                out[positives + c, i] = labels
            if f1 >= 0:
                out[f1 + c, i] = (size + labels) / 2.0
            if f05 >= 0:
                out[f05 + c, i] = (4.0 * size + labels) / 5.0
            if f2 >= 0:
                out[f2 + c, i] = (size + 4.0 * labels) / 5.0
            if union >= 0:
                out[union + c, i] = size + labels - inside
            if wrong >= 0:
                out[wrong + c, i] = size + labels - 2.0 * inside
            if all_labels >= 0:
                out[all_labels + c, i] = block.tables.n_labels


@bare
def _hits_within(block: Block, i: int, size: int) -> int:
    """Observed labels among the first `size` predictions of row i."""
    hits = 0
    for place in range(size):
        hits += block.spots[place, i] >= 0
    return hits


@bare
def _take_inside(block: Block, i: int, size: int) -> int:
    """The hits of row i beside one another in `row_hits`, those within the set first; how many."""
    taken = block.scratch.row_hits
    inside = 0
    for place in range(size):
        if block.spots[place, i] >= 0:
            taken[inside] = block.hits[place, i]
            inside += 1
    last = inside
    for place in range(size, block.listed[i]):
        if block.spots[place, i] >= 0:
            taken[last] = block.hits[place, i]
            last += 1
    return inside


@bare
def _sum(values: Floats, count: int) -> float:
    total = 0.0
    for j in range(count):
        total += values[j]
    return total


@bare
def _share(block: Block, i: int, size: int, inside: int, a: int, b: int) -> float:
    """(a + b) |Y* ∩ P| / (a N + b |P|): see the module."""
    if inside == 0:
        return 0.0
    tables, after, hits = block.tables, block.scratch.after, block.scratch.row_hits
    n = (a * block.sizes[i] + b * size + 1) // 2
    first, total = tables.starts[n], 0.0
    for v in range(first, first + n):
        u = tables.nodes[v]
        t = 1.0 - u
        x = u if a == 1 else u * (1.0 + t) * (1.0 + t * t)  # 1 − t^a, a being 1 or 4
        before = _outside(block, i, inside, x)
        after[inside] = 1.0
        for j in range(inside - 1, -1, -1):
            after[j] = after[j + 1] * (1.0 - x * hits[j])
        inner = 0.0
        for j in range(inside):
            inner += hits[j] * before * after[j + 1]
            before *= 1.0 - x * hits[j]
        total += tables.weights[v] * t ** (a + b * size - 1) * inner
    return (a + b) * total


@bare
def _of_union(block: Block, i: int, size: int, inside: int) -> float:
    """Jaccard = (Σ_S q) ∫ t^(|P| − 1) Π_{j∈I∖S} (1 − u q_j) dt."""
    if inside == 0:
        return 0.0
    tables, total = block.tables, 0.0
    n = (block.sizes[i] + size + 1) // 2
    for v in range(tables.starts[n], tables.starts[n] + n):
        u = tables.nodes[v]
        total += tables.weights[v] * (1.0 - u) ** (size - 1) * _outside(block, i, inside, u)
    union: float = total * _sum(block.scratch.row_hits, inside)
    return union


@bare
def _outside(block: Block, i: int, inside: int, x: float) -> float:
    """Π_{j∈I∖S} (1 − x q_j)."""
    hits, begin, product = block.scratch.row_hits, block.begins[i], 1.0
    for j in range(inside, block.hit_counts[i]):
        product *= 1.0 - x * hits[j]
    for j in range(begin, begin + block.rest_counts[i]):
        product *= 1.0 - x * block.rest[j]
    return product
