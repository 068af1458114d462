"""Where is each prediction among the labels of its row? And what is left of those.

This is the one expensive fact of an evaluation. Labels of a row are sorted; their inverse
propensities stand in `own[begin], own[begin + 1], …` in the same order. In a block of rows,
`spots[r, i]` is the position of the prediction at place r among the labels of row i, −1 if it is
none of them.
"""

from __future__ import annotations

import numpy as np

from unmask._kernels.block import Block, Indices, bare
from unmask._typing import Ints

NOTHING = np.int32(-2)  # no label, and not the −1 of an empty place
SHORT = 24  # labels of a row that are simply all compared


@bare
def locate(
    indices: Indices, begin: int, size: int, top: Indices, row: int, spots: Ints, i: int
) -> int:
    """Fill `spots[:, i]` for a row; the number of hits."""
    places = spots.shape[0]
    listed, hit_count = min(places, top.shape[1]), 0
    for r in range(listed, places):
        spots[r, i] = -1
    if size > SHORT:
        for r in range(listed):
            spots[r, i] = _position(indices, begin, size, top[row, r])
            hit_count += spots[r, i] >= 0
    else:
        for r in range(0, listed, 5):
            hit_count += _locate_five(indices, begin, size, top, row, r, listed, spots, i)
    return hit_count


@bare
def _locate_five(
    indices: Indices, begin: int, size: int, top: Indices, row: int, r: int, listed: int,
    spots: Ints, i: int,
) -> int:  # fmt: skip
    """Five predictions against all labels of a short row, without a branch to guess."""
    a = top[row, r]
    b = top[row, r + 1] if r + 1 < listed else NOTHING
    c = top[row, r + 2] if r + 2 < listed else NOTHING
    d = top[row, r + 3] if r + 3 < listed else NOTHING
    e = top[row, r + 4] if r + 4 < listed else NOTHING
    at_a, at_b, at_c, at_d, at_e = -1, -1, -1, -1, -1
    start = np.uint64(begin)
    for j in range(size):
        label = indices[start + np.uint64(j)]
        at_a = j if label == a else at_a
        at_b = j if label == b else at_b
        at_c = j if label == c else at_c
        at_d = j if label == d else at_d
        at_e = j if label == e else at_e
    spots[r, i] = at_a
    if r + 1 < listed:
        spots[r + 1, i] = at_b
    if r + 2 < listed:
        spots[r + 2, i] = at_c
    if r + 3 < listed:
        spots[r + 3, i] = at_d
    if r + 4 < listed:
        spots[r + 4, i] = at_e
    return (at_a >= 0) + (at_b >= 0) + (at_c >= 0) + (at_d >= 0) + (at_e >= 0)


@bare
def _position(indices: Indices, begin: int, size: int, label: int) -> int:
    low, high = begin, begin + size - 1
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low - begin if indices[low] == label else -1


@bare
def listed(top: Indices, row: int, places: int) -> int:
    """How many of the first places hold a prediction."""
    predicted: int = min(places, top.shape[1])
    while predicted > 0 and top[row, predicted - 1] < 0:
        predicted -= 1
    return predicted


@bare
def view_of(inverse: float, tau: float, clip: float) -> float:
    """What a view makes of 1/p: min(1 + τ(1/p − 1), clip)."""
    if tau != 1.0:
        inverse = 1.0 + tau * (inverse - 1.0)
    return min(inverse, clip)


@bare
def read_hits(block: Block) -> None:
    """The view's inverse propensity of every prediction that is a label, 0 for the others."""
    spots, own, begins, hits = block.spots, block.own, block.begins, block.hits
    tau, clip, count = block.tau, block.clip, block.n_rows
    for r in range(spots.shape[0]):
        if tau == 0.0:
            for i in range(count):
                hits[r, i] = 1.0 if spots[r, i] >= 0 else 0.0
        else:
            for i in range(count):  # reads a number even without a hit: no branch to guess
                q = view_of(own[np.uint64(begins[i] + max(spots[r, i], 0))], tau, clip)
                hits[r, i] = q if spots[r, i] >= 0 else 0.0


@bare
def read_rest(block: Block, without_hits: bool) -> None:
    """The view's inverse propensities of the observed labels that were not predicted.

    Rows without a hit are left out unless asked for.
    """
    spots, own, is_free, rest = block.spots, block.own, block.scratch.is_free, block.rest
    tau, clip = block.tau, block.clip
    for i in range(block.n_rows):
        if block.hit_counts[i] == 0 and not without_hits:
            continue
        begin, size, left, total = block.begins[i], block.sizes[i], 0, 0.0
        for j in range(size):
            is_free[j] = True
        for r in range(spots.shape[0]):
            if spots[r, i] >= 0:
                is_free[spots[r, i]] = False
        for j in range(size):  # written even if predicted, then overwritten: no branch to guess
            q = view_of(own[begin + j], tau, clip) if tau else 1.0
            rest[begin + left] = q
            total += q if is_free[j] else 0.0
            left += is_free[j]
        block.rest_counts[i], block.rest_sums[i] = left, total


@bare
def largest_first(block: Block) -> None:
    """The view's largest inverse propensities of a row in place of its hits, zeros after the last.

    Five places at a time are held in registers, where a larger number pushes the others on; what
    falls off the fifth is left in `rest` for the next five.
    """
    hits, rest = block.hits, block.rest
    places = hits.shape[0]
    for i in range(block.n_rows):
        begin = np.uint64(block.begins[i])
        end = begin + np.uint64(block.sizes[i])
        for j in range(begin, end):
            rest[j] = view_of(block.own[j], block.tau, block.clip) if block.tau else 1.0
        for r in range(0, places, 5):
            a, b, c, d, e = 0.0, 0.0, 0.0, 0.0, 0.0
            for j in range(begin, end):
                x = rest[j]
                a, x = max(a, x), min(a, x)
                b, x = max(b, x), min(b, x)
                c, x = max(c, x), min(c, x)
                d, x = max(d, x), min(d, x)
                e, x = max(e, x), min(e, x)
                rest[j] = x
            hits[r, i] = a
            if r + 1 < places:
                hits[r + 1, i] = b
            if r + 2 < places:
                hits[r + 2, i] = c
            if r + 3 < places:
                hits[r + 3, i] = d
            if r + 4 < places:
                hits[r + 4, i] = e
