"""Loops over all rows that an audit needs: places and their score bins, sums of lists, predictions.

A place of a list is described by one byte: the bin of its score, with `OBSERVED` added where the
predicted label is observed, or `NOTHING` where there is no prediction. Row sums and the sums of
clipped linear predictions read these bytes, or columns of numbers, once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unmask._kernels import even_bounds, in_chunks
from unmask._kernels.compiling import njit
from unmask._typing import Array, Floats, Integers, Singles

OBSERVED = 64
NOTHING = 255
EDGES = 32
RUN = 512
"""Rows that are predicted by one model at a time."""

Bytes = NDArray[np.uint8]


def describe_places(
    listed: Integers, scores: Singles, edges: Floats, indptr: Integers, indices: Integers
) -> tuple[Bytes, Floats, Floats]:
    """Return the byte of every place, and by bin how many predictions there are and are observed.

    `edges` rise, at most `EDGES`; a score equal to an edge lies above it.
    """
    described = np.empty(listed.shape, dtype=np.uint8)
    least = np.full(EDGES, np.inf, dtype=np.float32)  # the least score above every edge
    with np.errstate(over="ignore"):
        least[: edges.size] = edges
    low = least[: edges.size] < edges
    least[: edges.size][low] = np.nextafter(least[: edges.size][low], np.float32(np.inf))
    arrays = tuple(map(_read_only, (listed, scores, least, indptr, indices)))
    parts = in_chunks(
        even_bounds(*listed.shape),
        lambda start, stop: _describe_places(start, stop, *arrays, described),
    )
    size, observed = np.sum(parts, axis=0) if parts else np.zeros((2, EDGES + 1))
    return described, size[: edges.size + 1], observed[: edges.size + 1]


def row_sums(described: Bytes, scores: Singles, k: int, rate: Floats) -> tuple[Floats, Floats]:
    """Return sums over the places of every row, (7, n), and those of two of them over all rows.

    Hits among the first k; the rates of unobserved predictions among the first k, and of all; sum
    and number of the scores of the first k, and of those after them.
    """
    sums = np.empty((7, len(described)))
    read = _read_only(described), _read_only(scores)
    in_chunks(
        even_bounds(*described.shape),
        lambda start, stop: _row_sums(start, stop, *read, k, rate, sums),
    )
    return sums, sums[3:].sum(axis=1)


def clipped_sums(
    columns: Sequence[Floats], slopes: Floats, intercepts: Floats, low: Floats, high: Floats
) -> Floats:
    """Return Σ over all rows of the predictions of several linear models, each kept within limits.

    `slopes` is (q, m) for q columns and m models; the others are (m,).
    """
    rows = columns[0].size if columns else 0

    def summed(start: int, stop: int) -> Floats:
        block = np.stack([column[start:stop] for column in columns])
        sums: Floats = _clipped_sums(block, slopes, intercepts, low, high)
        return sums

    parts = in_chunks(even_bounds(rows, 1, entries=1 << 15), summed)
    return np.asarray(np.sum(parts, axis=0)) if parts else np.zeros(intercepts.size)


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


@njit(cache=True, nogil=True)
def _describe_places(
    start: int,
    stop: int,
    listed: Integers,
    scores: Singles,
    edges: Singles,
    indptr: Integers,
    indices: Integers,
    described: Bytes,
) -> Floats:
    counts, bins = np.zeros((2, EDGES + 1)), np.empty(listed.shape[1], dtype=np.int64)
    for row in range(start, stop):
        for place in range(listed.shape[1]):
            score, above = scores[row, place], 0
            for edge in range(EDGES):
                above += score >= edges[edge]
            bins[place] = above
            described[row, place] = above if listed[row, place] >= 0 else NOTHING
        for entry in range(indptr[row], indptr[row + 1]):
            label = indices[entry]
            for place in range(listed.shape[1]):
                if listed[row, place] == label:
                    described[row, place] += OBSERVED
                    counts[1, bins[place]] += 1
        for place in range(listed.shape[1]):
            if listed[row, place] >= 0:
                counts[0, bins[place]] += 1
    return counts


@njit(cache=True, nogil=True)
def _row_sums(
    start: int, stop: int, described: Bytes, scores: Singles, k: int, rate: Floats, sums: Floats
) -> None:
    for row in range(start, stop):
        hits = first_chance = chance = 0.0
        first = first_count = later = later_count = 0.0
        for place in range(described.shape[1]):
            kind = described[row, place]
            if kind == NOTHING:
                continue
            if place < k:
                first += scores[row, place]
                first_count += 1
            else:
                later += scores[row, place]
                later_count += 1
            if kind >= OBSERVED:
                if place < k:
                    hits += 1
                continue
            chance += rate[kind]
            if place < k:
                first_chance += rate[kind]
        sums[0, row], sums[1, row], sums[2, row] = hits, first_chance, chance
        sums[3, row], sums[4, row] = first, first_count
        sums[5, row], sums[6, row] = later, later_count


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def _clipped_sums(
    block: Floats, slopes: Floats, intercepts: Floats, low: Floats, high: Floats
) -> Floats:
    sums, predicted = np.zeros(intercepts.size), np.empty(RUN)
    for start in range(0, block.shape[1], RUN):
        size = min(RUN, block.shape[1] - start)
        for model in range(intercepts.size):
            predicted[:] = intercepts[model]
            for column in range(block.shape[0]):
                slope, x = slopes[column, model], block[column, start : start + size]
                for i in range(size):
                    predicted[i] += slope * x[i]
            least, most, total = low[model], high[model], 0.0
            for i in range(size):
                total += min(max(predicted[i], least), most)
            sums[model] += total
    return sums
