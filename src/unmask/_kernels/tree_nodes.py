"""Loops that train one node of a label tree: its rows and their children, its solution, packed.

A node is a range of labels in the order of the tree, cut into children. Its problem has the rows
with a label in the range, on the features that they touch; every child is one label of it. Squared
hinge is solved by `tree_hinge` unless the tolerance asks for more than float32 has: then by the
solver of `linear`, begun, swept and advanced here without coming back to Python.
"""

from __future__ import annotations

import numpy as np

from unmask._kernels import tree_hinge
from unmask._kernels.compiling import njit
from unmask._kernels.lanes import WIDTH, above, larger, load, lowest_bit, number, spread
from unmask._kernels.linear import advance, begin, interleave, sweep
from unmask._kernels.linear_state import BLOCK, CONVERGED, Entries, Rows


@njit(cache=True, nogil=True)
def train_hinge(
    x, starts, rows, weight, order, bounds, everything, counting, settings, start, prune_below,
    row_place, feature_place,
):  # fmt: skip
    """A node of squared hinge, packed; biases, how many children ran out of steps, and most steps.

    As `entries`, `gather`, `tree_hinge.solve` and `pack`, one after the other.
    """
    own, counts, child_starts, of_row, amount = entries(
        starts, rows, weight, order, bounds, everything, counting, row_place
    )
    indptr, index, value, names, _ = gather(x, own, feature_place)
    weights, bias, left, most = tree_hinge.solve(
        Rows(indptr, index, value),
        len(names),
        Entries(child_starts, of_row, amount, amount),
        counts.astype(np.float32),
        settings,
        start,
    )
    features, entry_starts, child, values = pack(weights, names, prune_below)
    return features, entry_starts, child, values, bias, left, most


@njit(cache=True, nogil=True)
def entries(starts, rows, weight, order, bounds, everything, counting, place):
    """Rows of a node, what each counts, and the entries of its children: starts, rows, weights.

    Labels have their rows in `rows` with weights, by `starts`; the node has the labels `order`, its
    child c those from bounds[c] to before bounds[c + 1]. `counting` sums weights; otherwise every
    row and every child of a row counts 1. `everything` takes all rows, whatever their labels are.
    `place` has one −1 per row, which it has again afterwards.
    """
    stored = 0
    for q in range(len(order)):
        stored += starts[order[q] + 1] - starts[order[q]]
    if everything:
        own = np.arange(len(place)).astype(np.int32)
    else:
        own = np.empty(min(stored, len(place)), dtype=np.int32)
        count = 0
        for q in range(len(order)):
            for e in range(starts[order[q]], starts[order[q] + 1]):
                if place[rows[e]] < 0:
                    place[rows[e]] = 0
                    own[count] = rows[e]
                    count += 1
        own = np.sort(own[:count])
    for i in range(len(own)):
        place[own[i]] = i

    by_row = np.zeros(len(own) + 1, dtype=np.int64)
    for q in range(len(order)):
        for e in range(starts[order[q]], starts[order[q] + 1]):
            by_row[place[rows[e]] + 1] += 1
    by_row = np.cumsum(by_row)
    child = np.empty(stored, dtype=np.int32)  # by row, children in order
    value = np.empty(stored)
    following = by_row[:-1].copy()
    for c in range(len(bounds) - 1):
        for q in range(bounds[c], bounds[c + 1]):
            for e in range(starts[order[q]], starts[order[q] + 1]):
                i = place[rows[e]]
                child[following[i]] = c
                value[following[i]] = weight[e]
                following[i] += 1
    for i in range(len(own)):
        place[own[i]] = -1

    counts = np.ones(len(own))
    by_child = np.zeros(len(bounds), dtype=np.int64)
    for i in range(len(own)):
        total = 0.0
        for k in range(by_row[i], by_row[i + 1]):
            total += value[k]
            if k == by_row[i] or child[k] != child[k - 1]:
                by_child[child[k] + 1] += 1
        if counting:
            counts[i] = total
    by_child = np.cumsum(by_child)
    of_row = np.empty(by_child[-1], dtype=np.int32)
    amount = np.zeros(by_child[-1])
    following = by_child[:-1].copy()
    for i in range(len(own)):
        for k in range(by_row[i], by_row[i + 1]):
            c = child[k]
            if k == by_row[i] or c != child[k - 1]:
                of_row[following[c]] = i
                following[c] += 1
            if counting:
                amount[following[c] - 1] += value[k]
            else:
                amount[following[c] - 1] = 1.0
    return own, counts, by_child, of_row, amount


@njit(cache=True, nogil=True)
def gather(x, rows, place):
    """Rows on the features that they touch: CSR, the features by name, and Σ x² of each.

    `place` has one −1 per feature, which it has again afterwards.
    """
    indptr, indices, data = x
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    for i in range(len(rows)):
        starts[i + 1] = starts[i] + indptr[rows[i] + 1] - indptr[rows[i]]
    index = np.empty(starts[-1], dtype=np.uint32)
    value = np.empty(starts[-1], dtype=np.float32)
    names = np.empty(min(starts[-1], len(place)), dtype=np.int32)
    squares = np.zeros(len(names))
    count = end = 0
    for i in range(len(rows)):
        for k in range(indptr[rows[i]], indptr[rows[i] + 1]):
            f = indices[k]
            if place[f] < 0:
                place[f] = count
                names[count] = f
                count += 1
            slot = place[f]
            index[end] = slot
            value[end] = data[k]
            squares[slot] += np.float64(data[k]) * data[k]
            end += 1
    for slot in range(count):
        place[names[slot]] = -1
    return starts, index, value, names[:count], squares[:count]


@njit(cache=True, nogil=True)
def solve(x, y, settings, scale, start, block, scratch, weights, objective, iterations, status):
    """The optimum of every child, as `linear.ova.solve_hinge` finds it."""
    count = len(y.start) - 1
    place = np.full(BLOCK, -1, dtype=np.int64)
    waiting = 0
    for lane in range(BLOCK):
        label = waiting if waiting < count else -1
        waiting += 1
        place[lane] = label
        begin(x, y, block, scale, start, lane, label)
    while place.max() >= 0:
        interleave(block)
        sweep(x, block)
        advance(x, y, settings, block, scratch)
        for lane in range(BLOCK):
            if block.status[lane] >= CONVERGED:
                label = place[lane]
                for f in range(weights.shape[1]):
                    weights[label, f] = block.weights[lane, f]
                objective[label] = block.objective[lane]
                iterations[label] = block.iterations[lane]
                status[label] = block.status[lane]
                label = waiting if waiting < count else -1
                waiting += 1
                place[lane] = label
                begin(x, y, block, scale, start, lane, label)


@njit(cache=True, nogil=True)
def blocks(weights):
    """Weights (children, features + 1) as `tree_hinge.solve` has them, without the biases."""
    children, d = weights.shape[0], weights.shape[1] - 1
    lanes = tree_hinge.padded(children)
    out = np.zeros(d * lanes, dtype=np.float32)
    for first in range(0, lanes, tree_hinge.BLOCK):
        last = min(first + tree_hinge.BLOCK, lanes)
        block = out[d * first : d * last].reshape(d, last - first)
        for c in range(first, min(last, children)):
            for f in range(d):
                block[f, c - first] = weights[c, f]
    return out


@njit(cache=True, nogil=True)
def pack(weights, names, prune_below):
    """Blocks of weights by feature: features, where each begins, children, values.

    Sizes below `prune_below` are left out, and zeros; features without weights too.
    """
    d = len(names)
    lanes = len(weights) // max(d, 1)
    per_feature = np.zeros(d, dtype=np.int64)
    for first in range(0, lanes, tree_hinge.BLOCK):
        last = min(first + tree_hinge.BLOCK, lanes)
        block = weights[d * first : d * last].reshape(d, last - first)
        for f in range(d):
            for g in range((last - first) // WIDTH):
                bits = _large(block, f, g, prune_below)
                while bits:
                    per_feature[f] += 1
                    bits = np.uint32(bits & np.uint32(bits - np.uint32(1)))
    used = 0
    place = np.full(d, -1, dtype=np.int64)
    for f in range(d):
        if per_feature[f]:
            place[f] = used
            used += 1
    features = np.empty(used, dtype=np.int32)
    starts = np.zeros(used + 1, dtype=np.int64)
    for f in range(d):
        if place[f] >= 0:
            features[place[f]] = names[f]
            starts[place[f] + 1] = per_feature[f]
    starts = np.cumsum(starts)
    child = np.empty(starts[-1], dtype=np.uint16)
    value = np.empty(starts[-1], dtype=np.float32)
    following = starts[:-1].copy()
    for first in range(0, lanes, tree_hinge.BLOCK):
        last = min(first + tree_hinge.BLOCK, lanes)
        block = weights[d * first : d * last].reshape(d, last - first)
        for f in range(d):
            if place[f] < 0:
                continue
            k = following[place[f]]
            for g in range((last - first) // WIDTH):
                bits = _large(block, f, g, prune_below)
                while bits:
                    lane = g * WIDTH + lowest_bit(bits)
                    child[k] = first + lane
                    value[k] = block[f, lane]
                    k += 1
                    bits = np.uint32(bits & np.uint32(bits - np.uint32(1)))
            following[place[f]] = k
    return features, starts, child, value


@njit(cache=True, nogil=True, inline="always")
def _large(block, f, g, least):
    """Which of eight weights are neither zero nor smaller than `least`, as bits."""
    w = load(block, f, g)
    size = larger(w, number(0.0) - w)
    return np.uint32(above(size, number(0.0)) & ~above(spread(least), size))
