"""Loops of the linear predictor: the k best labels of every row, without a score matrix.

A dense model is met `BLOCK` labels at a time (`offer_block`: scores of all rows for these labels),
a sparse one feature by feature, with one accumulator per label (`sparse`). Both keep the k best in
the heap of `topk`, so that its rule settles ties and the order of visits is of no account.
The rank of a label is its score, or the probability that the score stands for divided by the
label's propensity (`link` and `inverse`).
"""

from __future__ import annotations

import math

import numpy as np

from unmask._kernels.compiling import njit
from unmask._kernels.topk import _drain, _offer, _worse

SCORE, LOGISTIC, HINGE, SQUARED = 0, 1, 2, 3


@njit(cache=True, nogil=True)
def rank(link, inverse, score):
    """score, or P(label | score) / p: σ(s), (1 + s)/2 or s, the last two cut to [0, 1]."""
    if link == SCORE:
        return np.float32(score)
    if link == LOGISTIC:
        chance = 1.0 / (1.0 + math.exp(-score)) if score > -700.0 else 0.0
    elif link == HINGE:
        chance = min(max(0.5 * (1.0 + score), 0.0), 1.0)
    else:
        chance = min(max(score, 0.0), 1.0)
    return np.float32(chance * inverse)


@njit(cache=True, nogil=True)
def interleave(weights, bias, start, stop, out):
    """Weight vectors start…stop (and their bias) as one block (d+1, BLOCK)."""
    d = weights.shape[1]
    for first in range(0, d, 64):
        for label in range(start, stop):
            for f in range(first, min(first + 64, d)):
                out[f, label - start] = weights[label, f]
    for label in range(start, stop):
        out[d, label - start] = bias[label]


@njit(cache=True, nogil=True)
def offer_block(scores, first, count, link, inverse, labels, best, sizes):
    """Offer `count` columns, labels first, first+1, …, to the heaps of their rows."""
    k = labels.shape[1]
    for i in range(scores.shape[0]):
        size = sizes[i]
        for c in range(count):
            score = rank(link, inverse[first + c], scores[i, c])
            if size < k or not _worse(score, first + c, best[i, 0], labels[i, 0]):
                size = _offer(labels[i], best[i], size, first + c, score)
        sizes[i] = size


@njit(cache=True, nogil=True)
def drain(labels, best, sizes):
    """Turn heaps into rows, best first."""
    for i in range(len(sizes)):
        _drain(labels[i], best[i], sizes[i])


@njit(cache=True, nogil=True)
def sparse(x, columns, bias, order, link, inverse, start, stop, labels, best):
    """Rows start…stop against weights stored feature by feature.

    Labels that share no feature with a row score their bias; `order` ranks labels by that, so that
    the walk over them ends with the first one that is no better than the worst kept.
    """
    indptr, indices, data = x
    starts, rows, values = columns
    sums = np.empty(len(bias), dtype=np.float32)
    met = np.full(len(bias), -1, dtype=np.int64)
    touched = np.empty(len(bias), dtype=np.int32)
    k = labels.shape[1]
    for i in range(start, stop):
        count = 0
        for e in range(indptr[i], indptr[i + 1]):
            for position in range(starts[indices[e]], starts[indices[e] + 1]):
                label = rows[position]
                if met[label] != i:
                    met[label] = i
                    sums[label] = bias[label]
                    touched[count] = label
                    count += 1
                sums[label] += data[e] * values[position]
        size = 0
        for c in range(count):
            label = touched[c]
            score = rank(link, inverse[label], sums[label])
            if size < k or not _worse(score, label, best[i, 0], labels[i, 0]):
                size = _offer(labels[i], best[i], size, label, score)
        for label in order:
            if met[label] != i:
                score = rank(link, inverse[label], bias[label])
                if size == k and _worse(score, label, best[i, 0], labels[i, 0]):
                    break
                size = _offer(labels[i], best[i], size, label, score)
        _drain(labels[i], best[i], size)
