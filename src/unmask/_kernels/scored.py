"""Metrics of a row that need a score for every label, for a block of rows.

Each public function is the `function` of a `Kernel` (see `block`) that `needs` "scores". The rank
of a label is the number of labels with at least its score, its own included, so ties count against
it. I is the set of observed labels of a row, a = 1/p, N = |Y*|, u = 1 − t. There is no cut-off:
every column of a form holds the same number.
"""

from __future__ import annotations

import math

from unmask._kernels.block import Block, bare, view_of
from unmask._typing import Floats

LEAST = 2.220446049250313e-16  # probabilities of 0 and 1 are moved by so much, as scikit-learn does


@bare
def rankings(
    block: Block, out: Floats, average_precision: int, with_empty: int, coverage_error: int
) -> None:
    """Row-wise average precision, the same with 1 for rows without labels (LRAP), coverage error.

    Average precision is (1/N) Σ_{i∈Y*} |{k∈Y*: s_k ≥ s_i}| / rank_i; unbiased, with k ≠ i above i,

        Σ_i a_i/rank_i ∫ Π_{l≠i} (1 − u a_l) + Σ_{i,k} a_i a_k/rank_i ∫ t Π_{l≠i,k} (1 − u a_l)

    The coverage error is the largest rank of a true label, Σ_i rank_i a_i Π_{l below i} (1 − a_l);
    a row has no labels with the chance Π_l (1 − a_l).
    """
    for i in range(block.n_rows):
        size = _order(block, i)
        if average_precision >= 0 or with_empty >= 0:
            precision = _average_precision(block, size)
            if average_precision >= 0:
                _fill(block, out, average_precision, i, precision)
            if with_empty >= 0:
                none = 1.0
                for j in range(size):
                    none *= 1.0 - block.scratch.weight[j]
                _fill(block, out, with_empty, i, precision + none)
        if coverage_error >= 0:
            below, largest = 1.0, 0.0
            for j in range(size - 1, -1, -1):
                largest += block.scratch.rank[j] * block.scratch.weight[j] * below
                below *= 1.0 - block.scratch.weight[j]
            _fill(block, out, coverage_error, i, largest)


@bare
def pairs(block: Block, out: Floats, one_error: int, brier: int, log_loss: int) -> None:
    """One-error 1 − a_top y_top, and the mean over labels of the Brier score and the log-loss.

    Linear in the labels: r² − 2 r v + v and −ln(1 − r) + v (ln(1 − r) − ln r), with v = a y.
    """
    for i in range(block.n_rows):
        if one_error >= 0:
            _fill(block, out, one_error, i, _one_error(block, i))
        if brier >= 0:
            _fill(block, out, brier, i, _brier(block, i))
        if log_loss >= 0:
            _fill(block, out, log_loss, i, _log_loss(block, i))


@bare
def _fill(block: Block, out: Floats, column: int, i: int, x: float) -> None:
    for c in range(block.ks.size):
        out[column + c, i] = x


@bare
def _inverse(block: Block, entry: int) -> float:
    """1/p of an observed label, as the view reads it."""
    return view_of(block.own[entry], block.tau, block.clip) if block.tau else 1.0


@bare
def _order(block: Block, i: int) -> int:
    """Scores, ranks and 1/p of the observed labels of row i in `scratch`, best first; how many."""
    size: int = block.sizes[i]
    begin, scores = block.begins[i], block.scores
    score, rank, weight = block.scratch.score, block.scratch.rank, block.scratch.weight
    for j in range(size):
        own, above = scores[i, block.labels[begin + j]], 0.0
        for label in range(scores.shape[1]):
            above += scores[i, label] >= own
        spot = j
        while spot > 0 and score[spot - 1] < own:
            score[spot], rank[spot] = score[spot - 1], rank[spot - 1]
            weight[spot] = weight[spot - 1]
            spot -= 1
        score[spot], rank[spot], weight[spot] = own, above, _inverse(block, begin + j)
    return size


@bare
def _average_precision(block: Block, size: int) -> float:
    """By quadrature: prefix and suffix products, labels of equal score standing above each other.

    Over the labels above, B = Π (1 − u a) and A = Σ_k a_k Π_{l≠k} (1 − u a_l).
    """
    rank, weight, after = block.scratch.rank, block.scratch.weight, block.scratch.below
    tables, n, total = block.tables, (size + 1) // 2, 0.0
    for v in range(tables.starts[n], tables.starts[n] + n if size else tables.starts[n]):
        u = tables.nodes[v]
        after[size] = 1.0
        for j in range(size - 1, -1, -1):
            after[j] = after[j + 1] * (1.0 - u * weight[j])
        sums, product, start = 0.0, 1.0, 0
        while start < size:
            stop = start + 1
            while stop < size and rank[stop] == rank[start]:
                stop += 1
            for j in range(start, stop):
                a, b = sums, product
                for other in range(start, stop):
                    if other != j:
                        a = a * (1.0 - u * weight[other]) + weight[other] * b
                        b *= 1.0 - u * weight[other]
                share = weight[j] / rank[j] * after[stop]
                total += tables.weights[v] * share * (b + (1.0 - u) * a)
            for j in range(start, stop):
                sums = sums * (1.0 - u * weight[j]) + weight[j] * product
                product *= 1.0 - u * weight[j]
            start = stop
    return total


@bare
def _one_error(block: Block, i: int) -> float:
    scores, best, error = block.scores, 0, 1.0
    for label in range(1, scores.shape[1]):
        if scores[i, label] > scores[i, best]:
            best = label
    for entry in range(block.begins[i], block.begins[i] + block.sizes[i]):
        if block.labels[entry] == best:
            error -= _inverse(block, entry)
    return error


@bare
def _brier(block: Block, i: int) -> float:
    scores, total = block.scores, 0.0
    for label in range(scores.shape[1]):
        total += scores[i, label] * scores[i, label]
    for entry in range(block.begins[i], block.begins[i] + block.sizes[i]):
        total += _inverse(block, entry) * (1.0 - 2.0 * scores[i, block.labels[entry]])
    mean: float = total / scores.shape[1]
    return mean


@bare
def _log_loss(block: Block, i: int) -> float:
    scores, total = block.scores, 0.0
    for label in range(scores.shape[1]):
        total -= math.log1p(-_inside(scores[i, label]))
    for entry in range(block.begins[i], block.begins[i] + block.sizes[i]):
        r = _inside(scores[i, block.labels[entry]])
        total += _inverse(block, entry) * (math.log1p(-r) - math.log(r))
    mean: float = total / scores.shape[1]
    return mean


@bare
def _inside(r: float) -> float:
    return min(max(r, LEAST), 1.0 - LEAST)
