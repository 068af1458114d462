"""Loops that order labels for a tree: centroids, and balanced bisections by spherical 2-means.

The labels of a range are split in half, so that those closer to one centre than to the other come
first. Sums of unit vectors are kept for both halves and changed only by labels that change sides,
so an iteration costs one product of every label with the two centres.
"""

from __future__ import annotations

import numpy as np

from unmask._kernels.compiling import njit
from unmask._kernels.lanes import prefetch

AHEAD = 4  # labels fetched before they are needed


@njit(cache=True, nogil=True)
def distinct(x, d, starts, rows, first, last, lengths):
    """Count the features of x that the rows of each label first…last have, into `lengths`."""
    indptr, columns, _ = x
    met = np.full(d, -1, dtype=np.int32)
    for label in range(first, last):
        count = 0
        for e in range(starts[label], starts[label + 1]):
            for k in range(indptr[rows[e]], indptr[rows[e] + 1]):
                count += met[columns[k]] != label
                met[columns[k]] = label
        lengths[label] = count


@njit(cache=True, nogil=True)
def centroids(x, d, starts, rows, first, last, begins, indices, values):
    """Σ of the rows of labels first…last, each of length 1, from where `begins` says.

    `d` are the features of x; what a label takes in `indices` and `values` is `distinct`.
    """
    indptr, columns, data = x
    sums = np.zeros(d)
    met = np.full(d, -1, dtype=np.int32)
    for label in range(first, last):
        begin = end = begins[label]
        for e in range(starts[label], starts[label + 1]):
            for k in range(indptr[rows[e]], indptr[rows[e] + 1]):
                f = columns[k]
                if met[f] != label:
                    met[f] = label
                    sums[f] = 0.0
                    indices[end] = f
                    end += 1
                sums[f] += data[k]
        square = 0.0
        for k in range(begin, end):
            square += sums[indices[k]] ** 2
        scale = 1.0 / np.sqrt(square) if square > 0.0 else 0.0
        for k in range(begin, end):
            values[k] = scale * sums[indices[k]]


@njit(cache=True, nogil=True)
def bisect(z, order, seed, iterations, least_gain, centres):
    """Reorder the labels `order` so that the first half is one cluster and the rest the other.

    `z` are unit vectors by label (CSR), `centres` (d, 2) zeros, which they are again afterwards.
    The first centres are two labels that `seed` chooses; halves change until a share of less than
    `least_gain` of the similarity is gained.
    """
    m = len(order)
    half = (m + 1) // 2
    if m < 2:
        return
    one = np.int64(_mixed(np.uint64(seed)) % np.uint64(m))
    other = np.int64(_mixed(np.uint64(seed) + np.uint64(1)) % np.uint64(m - 1))
    other += other >= one
    squares = np.zeros(2)
    _add(z, order[one], 1.0, 0, centres, squares)
    _add(z, order[other], 1.0, 1, centres, squares)
    closer = np.empty(m, dtype=np.float32)
    side = np.full(m, -1, dtype=np.int8)
    before = -np.inf
    for iteration in range(iterations):
        scale = 1.0 / np.sqrt(np.maximum(squares, 1e-12))
        total, border = _compare(z, order, centres, scale, closer)
        if iteration == 0:
            _add(z, order[one], -1.0, 0, centres, squares)
            _add(z, order[other], -1.0, 1, centres, squares)
            squares[:] = 0.0
        elif total - before <= least_gain * abs(total):
            break
        else:
            before = total
        changed = _divide(closer, half, border, side)
        if changed == 0:
            break
        for q in range(m):
            if side[q] >= 2:  # changed to side − 2, from the other side unless it had none
                to = np.int64(side[q]) - 2
                if iteration > 0:
                    _add(z, order[q], -1.0, 1 - to, centres, squares)
                _add(z, order[q], 1.0, to, centres, squares)
                side[q] = to
    _clear(z, order, centres)
    kept = order.copy()
    left, right = 0, half
    for q in range(m):
        if side[q] == 0:
            order[left] = kept[q]
            left += 1
        else:
            order[right] = kept[q]
            right += 1


@njit(cache=True, nogil=True)
def _mixed(number):
    """A number that looks random (splitmix64)."""
    number = (number + np.uint64(0x9E3779B97F4A7C15)) & np.uint64(0xFFFFFFFFFFFFFFFF)
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@njit(cache=True, nogil=True)
def _add(z, label, sign, to, centres, squares):
    """Add a unit vector to a centre, and what that adds to the square of its length."""
    indptr, indices, data = z
    gain = 0.0
    for k in range(indptr[label], indptr[label + 1]):
        old = centres[indices[k], to]
        new = old + np.float32(sign) * data[k]
        centres[indices[k], to] = new
        gain += np.float64(new) * new - np.float64(old) * old
    squares[to] += gain


@njit(cache=True, nogil=True)
def _clear(z, order, centres):
    indptr, indices, _ = z
    for q in range(len(order)):
        for k in range(indptr[order[q]], indptr[order[q] + 1]):
            centres[indices[k], 0] = 0.0
            centres[indices[k], 1] = 0.0


@njit(cache=True, nogil=True, fastmath={"contract"})
def _compare(z, order, centres, scale, closer):
    """Compare every label with both centres; Σ of similarities to their own centre.

    Their own is the first centre for the half that is closest to it, down to the border, which is
    returned too.
    """
    indptr, indices, data = z
    total = 0.0
    for q in range(len(order)):
        if q + AHEAD < len(order):
            k = indptr[order[q + AHEAD]]
            prefetch(indices, k)
            prefetch(data, k)
        k, stop = np.uint64(indptr[order[q]]), np.uint64(indptr[order[q] + 1])
        one = other = one_more = other_more = np.float32(0.0)
        while k + np.uint64(1) < stop:  # two sums each, so that one need not wait for the other
            f, g = np.uint64(indices[k]), np.uint64(indices[k + np.uint64(1)])
            x, y = data[k], data[k + np.uint64(1)]
            one += x * centres[f, 0]
            other += x * centres[f, 1]
            one_more += y * centres[g, 0]
            other_more += y * centres[g, 1]
            k += np.uint64(2)
        if k < stop:
            one += data[k] * centres[indices[k], 0]
            other += data[k] * centres[indices[k], 1]
        one, other = one + one_more, other + other_more
        closer[q] = scale[0] * one - scale[1] * other
        total += scale[1] * other
    half = (len(order) + 1) // 2
    border = _kth_largest(closer, half - 1)
    for q in range(len(order)):
        total += max(np.float64(closer[q]) - border, 0.0)
    return total + half * np.float64(border), border


@njit(cache=True, nogil=True)
def _kth_largest(values, k):
    return -np.partition(-values, k)[k]


@njit(cache=True, nogil=True)
def _divide(closer, half, border, side):
    """Sides of all labels, the `half` closest ones 0, ties by place; +2 where it is a new one."""
    room = half
    for q in range(len(closer)):
        room -= closer[q] > border
    changed = 0
    for q in range(len(closer)):
        new = 1
        if closer[q] > border:
            new = 0
        elif closer[q] == border and room > 0:
            new = 0
            room -= 1
        if new != side[q]:
            side[q] = new + 2
            changed += 1
    return changed
