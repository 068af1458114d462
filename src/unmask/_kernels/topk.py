"""Choosing the k best of many scores, and vetting somebody else's choice.

The order is total: the higher score first, then the smaller label. A binary heap of k places keeps
its *worst* member on top, so that most candidates cost one comparison; it is emptied worst first
into the places of the row from the end. Scores are compared as float32, the type they are kept in.
"""

from __future__ import annotations

import numpy as np

from unmask._kernels.compiling import njit

FINE, NOT_A_SCORE, ORDER, REPEATED, PADDING = 0, 1, 2, 3, 4

_NOTHING = np.float32(-np.inf)


@njit(cache=True, nogil=True)
def dense(scores, start, stop, labels, best):
    """Fill rows start…stop of (`labels`, `best`); return (row, column) of a non-score or (-1, -1).

    −inf means "never predict this"; every other score must be finite as float32.
    """
    for row in range(start, stop):
        size = 0
        worst = _NOTHING
        for column in range(scores.shape[1]):
            value = scores[row, column]
            score = np.float32(value)
            if size == labels.shape[1] and score <= worst:
                continue
            if score == _NOTHING and value == -np.inf:
                continue
            if not np.isfinite(score):
                return row, column
            size = _offer(labels[row], best[row], size, column, score)
            worst = best[row, 0]
        _drain(labels[row], best[row], size)
    return -1, -1


@njit(cache=True, nogil=True)
def sparse(indptr, indices, values, start, stop, labels, best):
    """As `dense`, over the stored entries of CSR rows; values are known to be finite."""
    for row in range(start, stop):
        size = 0
        for entry in range(indptr[row], indptr[row + 1]):
            size = _offer(labels[row], best[row], size, indices[entry], np.float32(values[entry]))
        _drain(labels[row], best[row], size)


@njit(cache=True, nogil=True)
def _offer(labels, scores, size, label, score):
    """Put (label, score) on the heap if it belongs to the best; return the new size."""
    if size < len(labels):
        labels[size] = label
        scores[size] = score
        _sift_up(labels, scores, size)
        return size + 1
    if _worse(scores[0], labels[0], score, label):
        labels[0] = label
        scores[0] = score
        _sift_down(labels, scores, size)
    return size


@njit(cache=True, nogil=True)
def _drain(labels, scores, size):
    """Turn the heap into a row, best first, with empty places at the end."""
    for last in range(size - 1, 0, -1):
        _swap(labels, scores, 0, last)
        _sift_down(labels, scores, last)
    labels[size:] = -1
    scores[size:] = _NOTHING


@njit(cache=True, nogil=True)
def _worse(score, label, other_score, other_label):
    return score < other_score or (score == other_score and label > other_label)


@njit(cache=True, nogil=True)
def _sift_up(labels, scores, position):
    while position > 0:
        parent = (position - 1) // 2
        if not _worse(scores[position], labels[position], scores[parent], labels[parent]):
            return
        _swap(labels, scores, position, parent)
        position = parent


@njit(cache=True, nogil=True)
def _sift_down(labels, scores, size):
    position = 0
    while 2 * position + 1 < size:
        child = 2 * position + 1
        other = child + 1
        if other < size and _worse(scores[other], labels[other], scores[child], labels[child]):
            child = other
        if not _worse(scores[child], labels[child], scores[position], labels[position]):
            return
        _swap(labels, scores, position, child)
        position = child


@njit(cache=True, nogil=True)
def _swap(labels, scores, a, b):
    labels[a], labels[b] = labels[b], labels[a]
    scores[a], scores[b] = scores[b], scores[a]


@njit(cache=True, nogil=True)
def first_fault(labels, scores, start, stop):
    """(kind, row, place) of the first thing in rows start…stop that no `TopK` may hold."""
    for row in range(start, stop):
        for place in range(labels.shape[1]):
            label, score = labels[row, place], scores[row, place]
            if label < -1 or (label == -1) != (score == _NOTHING):
                return PADDING, row, place
            if label >= 0 and not np.isfinite(score):
                return NOT_A_SCORE, row, place
            if place > 0 and label >= 0:
                before, label_before = scores[row, place - 1], labels[row, place - 1]
                if _worse(before, label_before, score, label):
                    return ORDER, row, place
        ordered = np.sort(labels[row])
        for place in range(1, len(ordered)):
            if ordered[place] >= 0 and ordered[place] == ordered[place - 1]:
                return REPEATED, row, ordered[place]
    return FINE, -1, -1
