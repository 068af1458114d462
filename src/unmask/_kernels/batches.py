"""Batches of a training loop: label numbers checked, CSR rows unpacked, the logistic loss.

A batch of 512 rows and 100 labels costs a tensor library more in calls than in arithmetic, and one
of 13,330 labels more in passes than it needs. Here the labels of a batch are one pass each, and the
one-vs-all logistic loss and its gradient together are one pass over the logits: with y the observed
labels of a row and the weights of `unmask.weights`,

    Σ_j log(1 + eˢʲ) + Σ_{i∈y} (−pos_i s_i + (pos_i − cut_i) log(1 + eˢⁱ)),

whose derivative is σ(s_j), and −pos_i + (pos_i − cut_i) σ(s_i) more at observed labels. It equals
`unmask.losses` to float32 accuracy (tests/torch/test_compiled.py).
"""

from __future__ import annotations

import numpy as np

from unmask._kernels.compiling import njit
from unmask._kernels.lanes import WIDTH, load, number, store, where_above
from unmask._kernels.linear_smooth import LOGISTIC, negative
from unmask._typing import Floats, Ints

_TILE = 64  # groups whose sum is float32 before it is added in float64
_BUCKETS = 4096  # hash values of label numbers
_SHORT = 32  # labels of a row that are simply all compared


@njit(cache=True, nogil=True)
def first_invalid_row(index: Ints, n_labels: int) -> int:
    """The first row of label numbers (n, m) that names one twice, or one that is none; else −1."""
    n, m = index.shape
    for i in range(n):
        if m > _SHORT:
            row = np.sort(index[i])
            for k in range(m):
                repeated = k > 0 and row[k] >= 0 and row[k] == row[k - 1]
                if repeated or row[k] >= n_labels:
                    return i
        else:
            for k in range(m):
                label = index[i, k]
                if label >= n_labels:
                    return i
                if label >= 0:
                    for earlier in range(k):
                        if index[i, earlier] == label:
                            return i
    return -1


@njit(cache=True, nogil=True)
def widest(starts: Ints, columns: Ints, n_labels: int) -> int:
    """The most labels of any row of a CSR matrix; −1 where it is not sorted, or damaged."""
    if starts[0] != 0 or starts[-1] != columns.size:
        return -1
    most = 0
    for i in range(starts.size - 1):
        begin, end = starts[i], starts[i + 1]
        if end < begin or end > columns.size:
            return -1
        previous = -1
        for k in range(begin, end):
            if columns[k] <= previous or columns[k] >= n_labels:
                return -1
            previous = columns[k]
        most = max(most, end - begin)
    return most


@njit(cache=True, nogil=True)
def unpack(starts: Ints, columns: Ints, out: Ints) -> None:
    """The label numbers of every row, filled up with −1."""
    for i in range(starts.size - 1):
        size = starts[i + 1] - starts[i]
        for k in range(out.shape[1]):
            out[i, k] = columns[starts[i] + k] if k < size else -1


@njit(cache=True, nogil=True)
def row_counts(inverse: Floats) -> Ints:
    """(n, 1) how many numbers of a row are above 0."""
    counts = np.zeros((inverse.shape[0], 1), dtype=np.int64)
    for i in range(inverse.shape[0]):
        for k in range(inverse.shape[1]):
            counts[i, 0] += inverse[i, k] > 0
    return counts


@njit(cache=True, nogil=True)
def one_plus_others(inverse: Floats) -> Floats:
    """1 plus the other numbers of the row, from sums before and after each."""
    n, m = inverse.shape
    out = np.empty((n, m))
    for i in range(n):
        before = 1.0
        for k in range(m):
            out[i, k] = before
            before += inverse[i, k]
        after = 0.0
        for k in range(m - 1, -1, -1):
            out[i, k] += after
            after += inverse[i, k]
    return out


@njit(cache=True, nogil=True)
def shares(inverse: Floats, nodes: Floats, parts: Floats) -> Floats:
    """T_k = a_k ∫ Π_{j≠k} (1 − u a_j) du of every row, from products before and after each."""
    n, m = inverse.shape
    out, after = np.zeros((n, m)), np.empty(m + 1)
    for i in range(n):
        for u in range(nodes.size):
            after[m] = parts[u]
            for k in range(m - 1, -1, -1):
                after[k] = after[k + 1] * (1.0 - nodes[u] * inverse[i, k])
            before = 1.0
            for k in range(m):
                out[i, k] += before * after[k + 1]
                before *= 1.0 - nodes[u] * inverse[i, k]
        for k in range(m):
            out[i, k] *= inverse[i, k]
    return out


@njit(cache=True, nogil=True)
def logistic(scores, index, pos, cut, rows, slope):
    """The loss of every row and its slope; `index` is −1 where there is no label."""
    n, n_labels = scores.shape
    groups, rest = n_labels // WIDTH, n_labels % WIDTH
    # of one column, so that a "row" is a place and eight of them may begin anywhere
    flat, flat_slope = scores.reshape(-1, 1), slope.reshape(-1, 1)
    sums = np.zeros((1, WIDTH), dtype=np.float32)
    for i in range(n):
        total = 0.0
        for start in range(0, groups, _TILE):
            part = number(0.0)
            for g in range(start, min(start + _TILE, groups)):
                value, first, _ = negative(LOGISTIC, load(scores, i, g))
                store(slope, i, g, first)
                part = part + value
            store(sums, 0, 0, part)
            for lane in range(WIDTH):
                total += sums[0, lane]
        if rest > 0 and groups > 0:  # the last eight, some of which were there before
            place = (i + 1) * n_labels - WIDTH
            value, first, _ = negative(LOGISTIC, load(flat, place, 0))
            store(flat_slope, place, 0, first)
            store(sums, 0, 0, value)
            for lane in range(WIDTH - rest, WIDTH):
                total += sums[0, lane]
        elif rest > 0:
            for j in range(rest):
                score = np.float64(scores[i, j])
                small = np.exp(-abs(score))
                total += max(score, 0.0) + np.log1p(small)
                slope[i, j] = (1.0 if score > 0 else small) / (1.0 + small)
        rows[i] = total + _of_observed(scores, index, pos, cut, i, slope)


@njit(cache=True, nogil=True)
def shortlist(scores, ids, weights, index, pos, cut, column, rows, slope):
    """`logistic` of candidate labels, each of the given weight; observed labels count once.

    `ids` and `weights` are (n, c), or (1, c) for all rows alike; a negative number is no label.
    `column` becomes the first place (n, m) of every observed label, −1 where it has none.
    """
    n, c = scores.shape
    groups = (c + WIDTH - 1) // WIDTH
    shared = ids.shape[0] == 1
    counted = np.zeros((1, groups * WIDTH), dtype=np.float32)  # what a place counts in this row
    last, last_slope = np.zeros((1, WIDTH), dtype=np.float32), np.zeros((1, WIDTH), np.float32)
    sums = np.zeros((1, WIDTH), dtype=np.float32)
    likely = np.zeros(_BUCKETS, dtype=np.bool_)
    places = np.empty(c, dtype=np.int64)
    zero = number(0.0)
    for i in range(n):
        r = 0 if shared else i
        if i == 0 or not shared:
            for j in range(c):
                counted[0, j] = weights[r, j] if ids[r, j] >= 0 else np.float32(0.0)
        matched = _matches(ids, r, index, i, likely, places, column)
        for k in range(matched):
            counted[0, places[k]] = 0.0
        for k in range(index.shape[1]):
            if column[i, k] >= 0:
                counted[0, column[i, k]] = 1.0
        total = 0.0
        for start in range(0, groups, _TILE):
            part = number(0.0)
            for g in range(start, min(start + _TILE, groups)):
                whole = (g + 1) * WIDTH <= c
                if not whole:
                    for lane in range(c - g * WIDTH):
                        last[0, lane] = scores[i, g * WIDTH + lane]
                weight = load(counted, 0, g)
                score = load(scores, i, g) if whole else load(last, 0, 0)
                value, first, _ = negative(LOGISTIC, score)
                part = part + where_above(weight, zero, weight * value, zero)
                first = where_above(weight, zero, weight * first, zero)
                if whole:
                    store(slope, i, g, first)
                else:
                    store(last_slope, 0, 0, first)
                    for lane in range(c - g * WIDTH):
                        slope[i, g * WIDTH + lane] = last_slope[0, lane]
            store(sums, 0, 0, part)
            for lane in range(WIDTH):
                total += sums[0, lane]
        rows[i] = total + _of_observed(scores, column, pos, cut, i, slope)
        if shared:
            for k in range(matched):
                counted[0, places[k]] = weights[0, places[k]]


@njit(cache=True, nogil=True)
def _matches(ids, r, index, i, likely, places, column):
    """The places of observed labels among candidates, their number, and the first of each label."""
    m, matched = index.shape[1], 0
    for k in range(m):
        column[i, k] = -1
        if index[i, k] >= 0:
            likely[index[i, k] & (_BUCKETS - 1)] = True
    for j in range(ids.shape[1]):
        label = ids[r, j]
        if likely[label & (_BUCKETS - 1)] and label >= 0:
            for k in range(m):
                if index[i, k] == label:
                    places[matched] = j
                    matched += 1
                    if column[i, k] < 0:
                        column[i, k] = j
    for k in range(m):
        if index[i, k] >= 0:
            likely[index[i, k] & (_BUCKETS - 1)] = False
    return matched


@njit(cache=True, nogil=True)
def _of_observed(scores, index, pos, cut, i, slope):
    """The terms of the observed labels of a row, whose slope is added."""
    total = 0.0
    for k in range(index.shape[1]):
        label = index[i, k]
        if label < 0:
            continue
        score, chance = np.float64(scores[i, label]), np.float64(slope[i, label])
        share = pos[i, k] - cut[i, k]
        if pos[i, k] != 0.0:
            total -= pos[i, k] * score
        if share != 0.0:  # log(1 + eˢ) is −log(1 − σ), and s − log σ
            total += share * (score - np.log(chance) if score > 0 else -np.log1p(-chance))
        slope[i, label] = np.float32(chance + share * chance - pos[i, k])
    return total
