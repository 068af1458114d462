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
from unmask._kernels.lanes import (
    WIDTH,
    above,
    exponential,
    larger,
    load,
    logarithm_of_one_plus,
    lowest_bit,
    number,
    prefetch,
    smaller,
    spread,
    store,
)
from unmask._kernels.topk import _drain, _offer

HINGE, LOGISTIC, SHARE = 0, 1, 2
LEAST = 1e-3  # share of a child; a margin of squared hinge may say less than none
LOWEST = np.float32(-700.0)  # of a path; its exponential is still a number
MOST_MARKS = 1 << 30  # before they are counted anew
LINE = 64  # bytes that travel together from memory
AHEAD = 2  # rows whose scores are fetched before they are needed
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
    """Return the fault of nodes whose starts rise: 0 nothing, else the first fault."""
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
def by_node(pairs, rows, meetings, place):
    """Rows and scores of pairs in the order of their nodes, and the place of every pair there.

    `meetings.starts` has one place per node and one more; `rows` are the rows of the chunk.
    """
    row_starts, nodes, scores = pairs
    starts, of_row, path = meetings
    starts[:] = 0
    for q in range(len(nodes)):
        starts[nodes[q] + 1] += 1
    for v in range(len(starts) - 1):
        starts[v + 1] += starts[v]
    following = starts[:-1].copy()
    for i in range(len(rows)):
        for q in range(row_starts[i], row_starts[i + 1]):
            p = following[nodes[q]]
            following[nodes[q]] = p + 1
            place[q], of_row[p], path[p] = p, rows[i], scores[q]


@njit(cache=True, nogil=True)
def _fetch(array, first, last):
    """Have a range of an array in the cache soon."""
    for position in range(first, last, LINE // array.itemsize):
        prefetch(array, position)


@njit(cache=True, nogil=True)
def expand(x, part, first, meetings, link, scratch, out):
    """Scores of the children of all pairs with a node of this part, in the rows of `out`.

    The part has the nodes from `first` on. Of every node the features that its rows have are marked
    first, and their weights written out for all children, in the order in which they lie in memory:
    a row of the table each, row 0 is the bias. Then the margins of eight children at a time are
    sums of table rows in one register. A node is met in several turns if the table is too small.
    """
    indptr, indices, data = x
    feature_starts, _, _, _, _, child_starts, bias = part
    place, base, table, entries, amounts = scratch
    for v in range(len(feature_starts) - 1):
        begin, end = meetings.starts[first + v], meetings.starts[first + v + 1]
        children = child_starts[v + 1] - child_starts[v]
        for c in range(children):
            table[0, c] = bias[child_starts[v] + c]
        while begin < end:
            stop = _mark(x, meetings.rows, begin, end, scratch)
            used = _write_out(part, v, children, scratch)
            for p in range(begin, stop):
                row, score, size = meetings.rows[p], meetings.scores[p], 0
                for k in range(indptr[row], indptr[row + 1]):
                    at = place[indices[k]] - base[0]
                    entries[size], amounts[size] = at, data[k]
                    size += at > 0
                _add_up(
                    table,
                    entries[:size],
                    amounts,
                    -(-children // WIDTH),
                    link,
                    score,
                    out[p : p + 1],
                )
                if link == SHARE:
                    for c in range(children):
                        out[p, c] = score + step(link, out[p, c])
            base[0] += used
            begin = stop


@njit(cache=True, nogil=True)
def _mark(x, rows, begin, end, scratch):
    """Mark the features of pairs from `begin` on, as many as fit into the table; where it stops.

    A place below the base is out of date, the base is the mark, base + r is row r of the table.
    """
    indptr, indices, _ = x
    place, base, table = scratch.place, scratch.base, scratch.table
    if base[0] > MOST_MARKS - len(table):
        place[:] = 0
        base[0] = 1
    mark, room = base[0], len(table) - 1
    for p in range(begin, end):
        row = rows[p]
        if indptr[row + 1] - indptr[row] > room:
            return p
        for k in range(indptr[row], indptr[row + 1]):
            room -= place[indices[k]] != mark
            place[indices[k]] = mark
    return end


@njit(cache=True, nogil=True)
def _write_out(part, v, children, scratch):
    """Write the weights of the marked features of node v into the table; the rows that it takes."""
    feature_starts, features, entry_starts, child, values, _, _ = part
    place, mark, table = scratch.place, scratch.base[0], scratch.table
    used = 1
    for slot in range(feature_starts[v], feature_starts[v + 1]):
        if place[features[slot]] == mark:
            for c in range(children):
                table[used, c] = 0.0
            for e in range(entry_starts[slot], entry_starts[slot + 1]):
                table[used, child[e]] = values[e]
            place[features[slot]] = mark + used
            used += 1
    return used


@njit(cache=True, nogil=True, inline="always")
def _add_up(table, entries, amounts, groups, link, score, out):
    """Scores of the children of one pair, `groups` of eight; margins for shares."""
    group = 0
    path = spread(score)
    while group + 4 <= groups:
        z0, z1 = load(table, 0, group), load(table, 0, group + 1)
        z2, z3 = load(table, 0, group + 2), load(table, 0, group + 3)
        for h in range(len(entries)):
            amount, row = spread(amounts[h]), entries[h]
            z0 = z0 + amount * load(table, row, group)
            z1 = z1 + amount * load(table, row, group + 1)
            z2 = z2 + amount * load(table, row, group + 2)
            z3 = z3 + amount * load(table, row, group + 3)
        store(out, 0, group, _path(link, path, z0))
        store(out, 0, group + 1, _path(link, path, z1))
        store(out, 0, group + 2, _path(link, path, z2))
        store(out, 0, group + 3, _path(link, path, z3))
        group += 4
    if group + 2 <= groups:
        z0, z1 = load(table, 0, group), load(table, 0, group + 1)
        for h in range(len(entries)):
            amount, row = spread(amounts[h]), entries[h]
            z0 = z0 + amount * load(table, row, group)
            z1 = z1 + amount * load(table, row, group + 1)
        store(out, 0, group, _path(link, path, z0))
        store(out, 0, group + 1, _path(link, path, z1))
        group += 2
    if group < groups:
        z0 = load(table, 0, group)
        for h in range(len(entries)):
            z0 = z0 + spread(amounts[h]) * load(table, entries[h], group)
        store(out, 0, group, _path(link, path, z0))


@njit(cache=True, nogil=True, inline="always")
def _path(link, score, z):
    """The score of a path with one more step, as `step` has it; of shares the margin alone."""
    if link == HINGE:
        short = larger(number(0.0), number(1.0) - z)
        return score - short * short
    if link == LOGISTIC:
        size = larger(z, number(0.0) - z)
        tail = logarithm_of_one_plus(exponential(number(0.0) - size))
        return score + smaller(z, number(0.0)) - tail
    return z


@njit(cache=True, nogil=True)
def _best_first(scores, first, last, order):
    """Pairs from `first` to before `last` by their scores: few of them change a heap then."""
    for q in range(first, last):
        place = q - first
        while place > 0 and scores[order[place - 1]] < scores[q]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = q


@njit(cache=True, nogil=True, inline="always")
def _hopeful(out, p, group, count, least):
    """Bits of the children of one group of eight with more than `least`, of `count` in all."""
    every = np.uint32((1 << min(count - WIDTH * group, WIDTH)) - 1)
    if least == -np.inf:
        return every
    return np.uint32(above(load(out, p, group), spread(least)) & every)


@njit(cache=True, nogil=True, inline="always")
def _least(key, bonus):
    """Return the score beyond which `key` is in reach with at most this bonus, rounded down."""
    if key == -np.inf:
        return key
    return np.float32(key - bonus - np.float32(1e-6) * (abs(key) + abs(bonus)))


@njit(cache=True, nogil=True, inline="always")
def _fetch_ahead(level, i):
    """Have the scores of a row that comes soon in the cache."""
    row_starts, _, _, place, out = level
    width = out.shape[1]
    if i + AHEAD < len(row_starts) - 1:
        for q in range(row_starts[i + AHEAD], row_starts[i + AHEAD + 1]):
            _fetch(out, place[q] * width, (place[q] + 1) * width)


@njit(cache=True, nogil=True)
def narrow(level, width, of_node, of_child, beam, dropped, to):
    """The `beam` best children of every row, by score + bonus, as its next pairs, in order.

    Every node of the level has `width` children; `of_node` and `of_child` are the bonus of nodes
    and of children. `to` becomes the pairs of the next level. `dropped` becomes a bound of the best
    that a label can have that was lost.
    """
    row_starts, nodes, scores, place, out = level
    to_starts, to_nodes, to_scores = to
    heap, keys = np.empty(beam, dtype=np.int32), np.empty(beam, dtype=np.float32)
    order = np.empty(_most(row_starts), dtype=np.int64)
    groups = -(-width // WIDTH)
    count = 0
    for i in range(len(row_starts) - 1):
        first, last, size = row_starts[i], row_starts[i + 1], 0
        limit = np.float32(-np.inf)  # what the worst one has that is kept, once there are enough
        _best_first(scores, first, last, order)
        _fetch_ahead(level, i)
        for h in range(last - first):
            q = order[h]
            node, p = nodes[q], place[q]
            if scores[q] + of_node[node] < limit:
                continue
            for group in range(groups):
                bits = _hopeful(out, p, group, width, _least(limit, of_node[node]))
                while bits:
                    c = WIDTH * group + lowest_bit(bits)
                    bits = np.uint32(bits & np.uint32(bits - np.uint32(1)))
                    key = out[p, c] + of_child[node * width + c]
                    if key >= limit:
                        size = _offer(heap, keys, size, (q - first) * width + c, key)
                        limit = keys[0] if size == beam else limit
        if (last - first) * width > size:
            dropped[i] = max(dropped[i], limit)
        _sort(heap[:size])
        for h in range(size):
            q, c = first + heap[h] // width, heap[h] % width
            to_nodes[count], to_scores[count] = nodes[q] * width + c, out[place[q], c]
            count += 1
        to_starts[i + 1] = count


@njit(cache=True, nogil=True)
def _sort(numbers):
    """Sort numbers, which are few as a rule."""
    if len(numbers) > 64:
        numbers.sort()
        return
    for h in range(1, len(numbers)):
        number, place = numbers[h], h
        while place > 0 and numbers[place - 1] > number:
            numbers[place] = numbers[place - 1]
            place -= 1
        numbers[place] = number


@njit(cache=True, nogil=True)
def _most(row_starts):
    """Pairs of a row, at most."""
    most = 0
    for i in range(len(row_starts) - 1):
        most = max(most, row_starts[i + 1] - row_starts[i])
    return most


@njit(cache=True, nogil=True)
def offer_labels(level, child_starts, of_node, order, bonus, heaps, dropped):
    """Offer the labels that a tree reached to a heap per row, by score + bonus.

    `of_node` is the largest bonus of every leaf node. A label can be on a heap as often as there
    are trees. `dropped` becomes a bound of the best that was lost.
    """
    row_starts, nodes, scores, place, out = level
    labels, keys, sizes = heaps
    most = labels.shape[1]
    pairs = np.empty(_most(row_starts), dtype=np.int64)
    for i in range(len(labels)):
        first, last = row_starts[i], row_starts[i + 1]
        heap, key, size, total = labels[i], keys[i], sizes[i], sizes[i]
        _best_first(scores, first, last, pairs)
        _fetch_ahead(level, i)
        for h in range(last - first):
            q = pairs[h]
            node, p = nodes[q], place[q]
            more = of_node[node]
            start, count = child_starts[node], child_starts[node + 1] - child_starts[node]
            total += count
            if size == most and max(scores[q], LOWEST) + more < key[0]:
                continue
            for group in range(-(-count // WIDTH)):
                least = _least(key[0], more) if size == most else np.float32(-np.inf)
                if least < LOWEST:
                    least = np.float32(-np.inf)  # scores below the lowest count as the lowest
                bits = _hopeful(out, p, group, count, least)
                while bits:
                    c = WIDTH * group + lowest_bit(bits)
                    bits = np.uint32(bits & np.uint32(bits - np.uint32(1)))
                    label = order[start + c]
                    value = max(out[p, c], LOWEST) + bonus[label]
                    size = _offer(heap, key, size, label, value)
        if total > size:
            dropped[i] = max(dropped[i], key[0])
        sizes[i] = size


@njit(cache=True, nogil=True)
def drain(labels, keys, sizes):
    """Heaps become rows, best first."""
    for i in range(len(labels)):
        _drain(labels[i], keys[i], sizes[i])


@njit(cache=True, nogil=True)
def contenders(heaps, k, n_trees, n_labels, dropped):
    """Distinct labels of every heap that can be among the k best of its row; `sizes` counts them.

    A label is on the heap once for every tree that reached it, unless its score there is at most
    `dropped`. So Σ exp(score) over all trees is at least what the heap says of it, and at most that
    with exp(dropped) for every other tree. Labels whose most is below the k-th largest least go.
    """
    labels, keys, sizes = heaps
    place = np.full(n_labels, -1, dtype=np.int32)
    most = labels.shape[1]
    sums, counts = np.empty(most), np.empty(most, dtype=np.int64)
    heap, largest = np.empty(k, dtype=np.int32), np.empty(k, dtype=np.float32)
    for i in range(len(labels)):
        count = 0
        for c in range(sizes[i]):
            label = labels[i, c]
            h = place[label]
            if h < 0:
                h = count
                place[label], labels[i, h] = h, label
                sums[h], counts[h] = 0.0, 0
                count += 1
            sums[h] += math.exp(keys[i, c])
            counts[h] += 1
        size = 0
        for h in range(count):
            place[labels[i, h]] = -1
            size = _offer(heap, largest, size, h, np.float32(sums[h]))
        if size == k:
            least, other = np.float64(largest[0]) * (1.0 - 1e-6), math.exp(dropped[i])
            kept = 0
            for h in range(count):
                if sums[h] + (n_trees - counts[h]) * other >= least:
                    labels[i, kept] = labels[i, h]
                    kept += 1
            count = kept
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
        return searched.out[searched.place[q], child]
    q = pair_of(added.row_starts, added.nodes, i, node)
    return added.out[added.place[q], child]


@njit(cache=True, nogil=True)
def lacking(labels, sizes, leaf_of, shift, bits, parents, level, to):
    """Nodes above the labels of a row that its search did not reach, with their scores.

    A node is the leaf node of a label shifted by `shift`, its parent that shifted by `bits`;
    `parents` is the level above as the search had it and what was added there, `level` what the
    search had on this one. `to` becomes the pairs of every row, of which the nodes are in order;
    returns how many there are.
    """
    searched, added = parents
    to_starts, to_nodes, to_scores = to
    count = 0
    for i in range(len(labels)):
        first = count
        for c in range(sizes[i]):
            node = leaf_of[labels[i, c]] >> shift
            if pair_of(level.row_starts, level.nodes, i, node) >= 0:
                continue
            place = count
            while place > first and to_nodes[place - 1] > node:
                place -= 1
            if place > first and to_nodes[place - 1] == node:
                continue
            for h in range(count, place, -1):
                to_nodes[h], to_scores[h] = to_nodes[h - 1], to_scores[h - 1]
            parent = node >> bits
            to_nodes[place] = node
            to_scores[place] = score_of(searched, added, i, parent, node - (parent << bits))
            count += 1
        to_starts[i + 1] = count
    return count


@njit(cache=True, nogil=True)
def add_scores(labels, sizes, leaf_of, child_of, leaves, sums):
    """Add exp(score) of every label of every row in one tree."""
    searched, added = leaves
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
