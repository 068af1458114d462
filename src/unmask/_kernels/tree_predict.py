"""Loops of beam search: pairs of a row and a node, the children of every pair, the best of a row.

Pairs are met node by node, so that the features of a node are laid out once for all its rows.
What a step from a node to its child adds to the score of a path is the logarithm of a probability,
0 at most (`step`); `bonus` is what the best label below a node can still add, 0 unless labels are
ranked by probability / propensity.
"""

from __future__ import annotations

import math

import numpy as np

from unmask._kernels.compiling import njit
from unmask._kernels.topk import _drain, _offer, _worse

HINGE, LOGISTIC, SHARE = 0, 1, 2
LEAST = 1e-3  # share of a child; a margin of squared hinge may say less than none
LOWEST = np.float32(-700.0)  # of a path; its exponential is still a number
FEATURE, CHILD, WEIGHT, BIAS = 1, 2, 3, 4  # faults of nodes


@njit(cache=True, nogil=True)
def step(link, z):
    """−max(0, 1 − z)² for squared hinge, ln σ(z) for logistic, ln of (1 + z)/2 for shares."""
    if link == HINGE:
        short = max(0.0, 1.0 - z)
        return -short * short
    if link == SHARE:
        return math.log(min(max(0.5 * (1.0 + z), LEAST), 1.0))
    return -math.log1p(math.exp(-z)) if z > 0.0 else z - math.log1p(math.exp(z))


@njit(cache=True, nogil=True)
def fault(part, n_features):
    """What is wrong with nodes whose starts rise: 0 nothing, else the first fault."""
    feature_starts, features, entry_starts, children, values, child_starts, bias = part
    for c in range(len(bias)):
        if not math.isfinite(bias[c]):
            return BIAS
    for v in range(len(feature_starts) - 1):
        own = child_starts[v + 1] - child_starts[v]
        for slot in range(feature_starts[v], feature_starts[v + 1]):
            if features[slot] < 0 or features[slot] >= n_features:
                return FEATURE
            for e in range(entry_starts[slot], entry_starts[slot + 1]):
                if children[e] >= own:
                    return CHILD
                if not math.isfinite(values[e]):
                    return WEIGHT
    return 0


@njit(cache=True, nogil=True)
def by_node(nodes, count, starts, sorted_pairs):
    """Pairs in the order of their nodes (`starts` has one place per node and one more)."""
    starts[:] = 0
    for q in range(count):
        starts[nodes[q] + 1] += 1
    for v in range(len(starts) - 1):
        starts[v + 1] += starts[v]
    following = starts[:-1].copy()
    for q in range(count):
        sorted_pairs[following[nodes[q]]] = q
        following[nodes[q]] += 1


@njit(cache=True, nogil=True)
def expand(x, part, first, starts, pairs, rows, scores, offsets, link, scratch, out):
    """Scores of the children of all pairs with a node of this part, at `offsets` of `out`.

    The part has the nodes from `first` on; `starts` and `pairs` are those of `by_node`. `scratch`
    has one place per feature of a row, and for every feature two zeros, which it has again
    afterwards: where its weights begin and end.
    """
    indptr, indices, data = x
    feature_starts, features, entry_starts, children, values, child_starts, bias = part
    place, begins, ends, amounts = scratch
    for v in range(len(feature_starts) - 1):
        if starts[first + v] == starts[first + v + 1]:
            continue
        base = entry_starts[feature_starts[v]]
        own_child, own_value = children[base:], values[base:]
        for slot in range(feature_starts[v], feature_starts[v + 1]):
            f = features[slot]
            place[f, 0] = entry_starts[slot] - base
            place[f, 1] = entry_starts[slot + 1] - base
        own = bias[child_starts[v] : child_starts[v + 1]]
        for position in range(starts[first + v], starts[first + v + 1]):
            q = pairs[position]
            row = rows[q]
            count = 0  # all places first: the processor fetches them side by side
            for k in range(indptr[row], indptr[row + 1]):
                f = indices[k]
                begins[count], ends[count], amounts[count] = place[f, 0], place[f, 1], data[k]
                count += place[f, 1] > place[f, 0]
            z = out[offsets[q] : offsets[q] + len(own)]
            for c in range(len(own)):
                z[c] = own[c]
            for h in range(count):
                amount = amounts[h]
                for e in range(begins[h], ends[h]):
                    z[own_child[e]] += amount * own_value[e]
            score = scores[q]
            if link == HINGE:  # as `step` has it, many at once
                for c in range(len(own)):
                    short = max(np.float32(0.0), np.float32(1.0) - z[c])
                    z[c] = score - short * short
            else:
                for c in range(len(own)):
                    z[c] = score + step(link, z[c])
        for slot in range(feature_starts[v], feature_starts[v + 1]):
            f = features[slot]
            place[f, 0] = 0
            place[f, 1] = 0


@njit(cache=True, nogil=True)
def _best_first(scores, first, last, order):
    """Pairs from `first` to before `last` by their scores: few of them change a heap then."""
    for q in range(first, last):
        place = q - first
        while place > 0 and scores[order[place - 1]] < scores[q]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = q


@njit(cache=True, nogil=True)
def narrow(
    row_starts, nodes, scores, offsets, out, width, above, below, beam, dropped, to, to_node,
    to_score
):  # fmt: skip
    """The `beam` best children of every row, by score + bonus, as its next pairs, in order.

    `row_starts` are the pairs of every row, `to` becomes those of the next level; every node has
    `width` children, `above` and `below` are the bonus of nodes and of children. `dropped` is the
    best that a label can have that was lost, as far as is known.
    """
    heap, keys = np.empty(beam, dtype=np.int32), np.empty(beam, dtype=np.float32)
    order = np.empty(_most(row_starts), dtype=np.int64)
    count = 0
    for i in range(len(row_starts) - 1):
        first, last, size = row_starts[i], row_starts[i + 1], 0
        lost = np.float32(dropped[i])
        _best_first(scores, first, last, order)
        for h in range(last - first):
            q = order[h]
            if size == beam and scores[q] + above[nodes[q]] < keys[0]:
                lost = max(lost, scores[q] + above[nodes[q]])
                continue
            own = out[offsets[q] : offsets[q] + width]
            more = below[nodes[q] * width : (nodes[q] + 1) * width]
            for c in range(width):
                key = own[c] + more[c]
                if size == beam and key < keys[0]:
                    lost = max(lost, key)
                    continue
                place = (q - first) * width + c
                if size == beam:
                    lost = max(lost, keys[0] if _worse(keys[0], heap[0], key, place) else key)
                size = _offer(heap, keys, size, place, key)
        dropped[i] = lost
        chosen = heap[:size]
        chosen.sort()
        for h in range(size):
            q, c = first + chosen[h] // width, chosen[h] % width
            to_node[count], to_score[count] = nodes[q] * width + c, out[offsets[q] + c]
            count += 1
        to[i + 1] = count


@njit(cache=True, nogil=True)
def _most(row_starts):
    """Pairs of a row, at most."""
    most = 0
    for i in range(len(row_starts) - 1):
        most = max(most, row_starts[i + 1] - row_starts[i])
    return most


@njit(cache=True, nogil=True)
def offer_labels(tree, below, order, bonus, labels, keys, sizes, dropped):
    """Offer the labels that a tree reached to a heap per row, by score + bonus.

    `below` is the largest bonus of every leaf node. A label can be on a heap as often as there are
    trees. `dropped` becomes the best that was lost, as far as is known.
    """
    most = labels.shape[1]
    pairs = np.empty(_most(tree.row_starts), dtype=np.int64)
    for i in range(len(labels)):
        first, last = tree.row_starts[i], tree.row_starts[i + 1]
        heap, key, size, lost = labels[i], keys[i], sizes[i], np.float32(dropped[i])
        _best_first(tree.scores, first, last, pairs)
        for h in range(last - first):
            q = pairs[h]
            node = tree.nodes[q]
            more = below[node]
            bound = max(tree.scores[q], LOWEST) + more
            if size == most and bound < key[0]:
                lost = max(lost, bound)
                continue
            start = tree.child_starts[node]
            own = tree.out[tree.offsets[q] : tree.offsets[q] + tree.child_starts[node + 1] - start]
            for c in range(len(own)):
                score = max(own[c], LOWEST)
                if size == most and score + more < key[0]:
                    lost = max(lost, score + more)
                    continue
                label = order[start + c]
                value = score + bonus[label]
                if size == most:
                    lost = max(lost, key[0] if _worse(key[0], heap[0], value, label) else value)
                size = _offer(heap, key, size, label, value)
        sizes[i], dropped[i] = size, lost


@njit(cache=True, nogil=True)
def drain(labels, keys, sizes):
    """Heaps become rows, best first."""
    for i in range(len(labels)):
        _drain(labels[i], keys[i], sizes[i])


@njit(cache=True, nogil=True)
def distinct(labels, sizes, n_labels):
    """Drop repeated labels of every row; `sizes` says how many are left."""
    last = np.full(n_labels, -1, dtype=np.int32)
    for i in range(len(labels)):
        count = 0
        for c in range(sizes[i]):
            label = labels[i, c]
            if last[label] != i:
                last[label] = i
                labels[i, count] = label
                count += 1
        sizes[i] = count


@njit(cache=True, nogil=True)
def pair_of(row_starts, nodes, i, node):
    """The pair of row i and a node, −1 if there is none; nodes of a row are in order."""
    low, high = row_starts[i], row_starts[i + 1]
    while low < high:
        middle = (low + high) // 2
        if nodes[middle] < node:
            low = middle + 1
        else:
            high = middle
    return low if low < row_starts[i + 1] and nodes[low] == node else -1


@njit(cache=True, nogil=True)
def score_of(searched, added, i, node, child):
    """The score of a child of a node that the search or `lacking` brought to row i."""
    q = pair_of(searched.row_starts, searched.nodes, i, node)
    if q >= 0:
        return searched.out[searched.offsets[q] + child]
    return added.out[added.offsets[pair_of(added.row_starts, added.nodes, i, node)] + child]


@njit(cache=True, nogil=True)
def lacking(labels, sizes, leaf_of, shift, bits, searched, added, row_starts, nodes, to):
    """Nodes above the labels of a row that its search did not reach, with their scores.

    A node is the leaf node of a label shifted by `shift`, its parent that shifted by `bits`;
    `searched` and `added` are the level of parents, `row_starts` and `nodes` what the search had on
    this level. `to` becomes the pairs of every row, of which the nodes are in order.
    """
    to_node, to_score = np.empty(labels.size, np.int64), np.empty(labels.size, np.float32)
    count = 0
    for i in range(len(labels)):
        first = count
        for c in range(sizes[i]):
            node = leaf_of[labels[i, c]] >> shift
            if pair_of(row_starts, nodes, i, node) >= 0:
                continue
            place = count
            while place > first and to_node[place - 1] > node:
                place -= 1
            if place > first and to_node[place - 1] == node:
                continue
            for h in range(count, place, -1):
                to_node[h], to_score[h] = to_node[h - 1], to_score[h - 1]
            parent = node >> bits
            to_node[place] = node
            to_score[place] = score_of(searched, added, i, parent, node - (parent << bits))
            count += 1
        to[i + 1] = count
    return to_node[:count].copy(), to_score[:count].copy()


@njit(cache=True, nogil=True)
def add_scores(labels, sizes, leaf_of, child_of, searched, added, sums):
    """Add exp(score) of every label of every row in one tree."""
    for i in range(len(labels)):
        for c in range(sizes[i]):
            label = labels[i, c]
            score = score_of(searched, added, i, leaf_of[label], child_of[label])
            sums[i, c] += math.exp(max(score, LOWEST))


@njit(cache=True, nogil=True)
def best_of_many(candidates, sizes, sums, n_trees, bonus, labels, best):
    """The best labels of every row by ln of the mean over trees of exp(score), plus the bonus."""
    share = math.log(n_trees)
    for i in range(len(labels)):
        size = 0
        for c in range(sizes[i]):
            label = candidates[i, c]
            key = np.float32(math.log(sums[i, c]) - share + bonus[label])
            size = _offer(labels[i], best[i], size, label, key)
        _drain(labels[i], best[i], size)
