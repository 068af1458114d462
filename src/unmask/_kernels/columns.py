"""Metrics of a label that need the scores of all rows: rows are ranked by score, label by label.

For one label, v = y/p per row, C the number of rows with at least the score of a row, n rows.

    AP   Σ_i v_i (1 + g Σ_{k≠i, s_k ≥ s_i} v_k) / C_i  /  Σ_i v_i,   g = (o − p) / (o − 1)
    AUC  Σ_{i≠k} v_i (1 − v_k) ([s_i > s_k] + ½ [s_i = s_k])  /  Σ_{i≠k} v_i (1 − v_k)

Numerators and denominators are unbiased (rows lose labels independently), that of AP with g = 1.
But of N true rows, o are observed, pairs grow with o (o − 1) and the quotient with o − 1, where
(N − 1) p is due, the mean of o − p: g makes that so, and is 1 for complete labels. A label that was
observed once has no pair, and its AP only what the row itself adds. What a row adds to AUC is the
derivative of the value by the weight of the row (its influence). AP divides by ranks, and a row at
the top moves many: the derivative is too small by a fifth, and what a row adds is what the value
without it lacks, (1 − 1/n) times (the jackknife). Both sum to 0.
"""

from __future__ import annotations

import numpy as np

from unmask._kernels.compiling import njit
from unmask._typing import Array, Bools, Floats, Ints


@njit(cache=True, nogil=True)
def rank_rows(
    order: Ints, ranked: Array, indptr: Ints, rows: Ints, weights: Floats, forms: Bools,
    values: Floats, squares: Floats, influence: Floats,
) -> None:  # fmt: skip
    """AP and AUC of some labels, in one or more views.

    `order[b]` are rows by falling score, `ranked[b]` their scores; label b was observed in
    `rows[indptr[b] : indptr[b + 1]]`, with 1/p in `weights[view]`. `forms` says whether AP and AUC
    are wanted. Fills `values[view, form, b]` (NaN: none) and `squares`, the sums of squared
    influences, and adds influences to `influence[view, form]`.
    """
    n = order.shape[1]
    by_row, v, own = np.zeros(n), np.empty(n), np.empty(n)
    ends = np.empty(n, np.int64)
    for b in range(order.shape[0]):
        _tie_ends(ranked[b], ends)
        for view in range(weights.shape[0]):
            for entry in range(indptr[b], indptr[b + 1]):
                by_row[rows[entry]] = weights[view, entry]
            for i in range(n):
                v[i] = by_row[order[b, i]]
            for form in range(2):
                if not forms[form]:
                    continue
                value = _average_precision(v, ends, own) if form == 0 else _area(v, ends, own)
                values[view, form, b] = value
                total = 0.0
                if value == value:
                    for i in range(n):
                        total += own[i] * own[i]
                        influence[view, form, order[b, i]] += own[i]
                squares[view, form, b] = total
            for entry in range(indptr[b], indptr[b + 1]):
                by_row[rows[entry]] = 0.0


@njit(cache=True, nogil=True)
def _tie_ends(ranked: Array, ends: Ints) -> None:
    """For every place, one past the last place with the same score."""
    stop = ranked.size
    for i in range(ranked.size - 1, -1, -1):
        if i + 1 < ranked.size and ranked[i] != ranked[i + 1]:
            stop = i + 1
        ends[i] = stop


@njit(cache=True, nogil=True)
def _average_precision(v: Floats, ends: Ints, own: Floats) -> float:
    """AP and what every place adds to it; NaN without an observed label.

    Without the row at a place, rows of at most its score move up by one, and those of its score or
    a higher one no longer count for them: sums over C and over C − 1 tell the value without it.
    """
    n, above, alone, paired, start = v.size, 0.0, 0.0, 0.0, 0
    observed = 0
    while start < n:
        stop = ends[start]
        for i in range(start, stop):
            above += v[i]
            observed += v[i] > 0.0
        for i in range(start, stop):
            alone += v[i] / stop
            paired += v[i] * (above - v[i]) / stop
        start = stop
    if above == 0.0:
        return np.nan
    value: float = (alone + _pair_factor(observed, above) * paired) / above
    reached, stop, mean = above, n, 0.0
    behind_alone, behind_paired = 0.0, 0.0  # of rows with at most this score, as they are …
    moved_alone, moved_paired = 0.0, 0.0  # … and moved up by one
    while stop > 0:
        start = stop - 1
        while start > 0 and ends[start - 1] == stop:
            start -= 1
        fewer = max(stop - 1, 1)
        for i in range(start, stop):
            behind_alone += v[i] / stop
            behind_paired += v[i] * (reached - v[i]) / stop
            moved_alone += v[i] / fewer
            moved_paired += v[i] * (reached - v[i]) / fewer
        tied = 0.0
        for i in range(start, stop):
            others = moved_alone - v[i] / fewer
            pairs = moved_paired - v[i] * (reached - v[i]) / fewer - v[i] * others
            factor = _pair_factor(observed - (v[i] > 0.0), above - v[i])
            own[i] = value
            if observed > (v[i] > 0.0):
                own[i] = alone - behind_alone + others + factor * (paired - behind_paired + pairs)
                own[i] /= above - v[i]
            mean += own[i] / n
            tied += v[i]
        reached -= tied
        stop = start
    for i in range(n):
        own[i] = (mean - own[i]) * (n - 1) / n
    return value


@njit(cache=True, nogil=True)
def _pair_factor(observed: int, total: float) -> float:
    """(o − p) / (o − 1), with p = o/Σv the mean propensity of o rows; 1 of less than two."""
    return (observed - observed / total) / (observed - 1) if observed > 1 else 1.0


@njit(cache=True, nogil=True)
def _area(v: Floats, ends: Ints, own: Floats) -> float:
    """AUC and the influence of every place; NaN where no pair can be told apart."""
    n, positives, squares = v.size, 0.0, 0.0
    for i in range(n):
        positives += v[i]
        squares += v[i] * v[i]
    pairs = positives * n - positives * positives - positives + squares
    if positives == 0.0 or not pairs > 0.0:
        return np.nan
    before, start, total = 0.0, 0, 0.0
    while start < n:
        stop, tied = ends[start], 0.0
        for i in range(start, stop):
            tied += v[i]
        behind = positives - before - tied
        for i in range(start, stop):
            equal = tied - v[i]
            beaten = (n - stop) - behind + 0.5 * ((stop - start - 1) - equal)
            own[i] = v[i] * beaten + (1.0 - v[i]) * (before + 0.5 * equal)
            total += v[i] * beaten
        before += tied
        start = stop
    value = total / pairs
    for i in range(n):
        others = positives - v[i]
        possible = v[i] * ((n - 1) - others) + (1.0 - v[i]) * others
        own[i] = (own[i] - value * possible) / pairs
    return value


COMPONENTS = 7


@njit(cache=True, nogil=True)
def sweep(
    scores: Array, indptr: Ints, labels: Ints, inverse: Floats, shares: Floats, present: Floats,
    thresholds: Floats, sums: Floats, products: Floats, per_row: Floats,
) -> None:  # fmt: skip
    """Add up rows at every threshold: a row predicts the labels that reach it.

    Of every row: hits/size, whether it predicts anything, Σ of `shares` of its hits (recall), the
    chance that it has labels (`present`), Σ 1/p of its hits, size, and Σ 1/p of its labels. `sums`
    (T, 7) and `products` (T, 7, 7) add up these and their products, `per_row` (rows, 7) holds those
    of the first threshold; thresholds rise.
    """
    steps = thresholds.size
    size, hits, share = np.empty(steps + 1), np.empty(steps + 1), np.empty(steps + 1)
    x = np.empty(COMPONENTS)
    for row in range(scores.shape[0]):
        size[:], hits[:], share[:] = 0.0, 0.0, 0.0
        for label in range(scores.shape[1]):
            size[_reached(thresholds, scores[row, label])] += 1.0
        positives = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            step = _reached(thresholds, scores[row, labels[entry]])
            hits[step] += inverse[entry]
            share[step] += shares[entry]
            positives += inverse[entry]
        for step in range(steps - 1, -1, -1):  # those that reach more thresholds reach this one
            size[step + 1] += size[step + 2] if step + 2 <= steps else 0.0
            hits[step + 1] += hits[step + 2] if step + 2 <= steps else 0.0
            share[step + 1] += share[step + 2] if step + 2 <= steps else 0.0
            x[0] = hits[step + 1] / max(size[step + 1], 1.0)
            x[1] = 1.0 if size[step + 1] > 0 else 0.0
            x[2] = share[step + 1]
            x[3] = present[row]
            x[4] = hits[step + 1]
            x[5] = size[step + 1]
            x[6] = positives
            for a in range(COMPONENTS):
                per_row[row, a] = x[a]
                sums[step, a] += x[a]
                for b in range(COMPONENTS):
                    products[step, a, b] += x[a] * x[b]


@njit(cache=True, nogil=True)
def weigh(
    scores: Array, indptr: Ints, labels: Ints, inverse: Floats, information: Floats,
    thresholds: Floats, sums: Floats, per_row: Floats,
) -> None:  # fmt: skip
    """The information of missed and of wrong labels at every threshold, of rows added up.

    With c the information content of a label: Σ c/p of observed labels that do not reach it, and
    Σ c of labels that do less Σ c/p of the observed among them. As in `sweep`, `sums` (T, 2) adds
    these up, `per_row` (rows, 2) holds those of the first threshold.
    """
    steps = thresholds.size
    size, hits = np.empty(steps + 1), np.empty(steps + 1)
    for row in range(scores.shape[0]):
        size[:], hits[:] = 0.0, 0.0
        for label in range(scores.shape[1]):
            size[_reached(thresholds, scores[row, label])] += information[label]
        positives = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            weight = inverse[entry] * information[labels[entry]]
            hits[_reached(thresholds, scores[row, labels[entry]])] += weight
            positives += weight
        above, right = 0.0, 0.0
        for step in range(steps - 1, -1, -1):
            above += size[step + 1]
            right += hits[step + 1]
            missed, wrong = positives - right, above - right
            per_row[row, 0], per_row[row, 1] = missed, wrong
            sums[step, 0] += missed
            sums[step, 1] += wrong


@njit(cache=True, nogil=True)
def _reached(thresholds: Floats, score: float) -> int:
    """Count the thresholds that a score reaches."""
    low, high = 0, thresholds.size
    while low < high:
        middle = (low + high) >> 1
        if thresholds[middle] <= score:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def fill_bins(
    scores: Array, indptr: Ints, labels: Ints, inverse: Floats, inner: Floats, out: Floats
) -> None:
    """Per row and bin of scores: labels, the sum of their scores, and Σ 1/p of observed ones."""
    for row in range(scores.shape[0]):
        for label in range(scores.shape[1]):
            spot = _reached(inner, scores[row, label])
            out[row, spot, 0] += 1.0
            out[row, spot, 1] += scores[row, label]
        for entry in range(indptr[row], indptr[row + 1]):
            out[row, _reached(inner, scores[row, labels[entry]]), 2] += inverse[entry]


@njit(cache=True, nogil=True)
def row_keys(
    scores: Array, indptr: Ints, labels: Ints, inverse: Array, multiplier: np.uint64, keys: Array
) -> None:
    """A number for every row, by its content: bits of scores, observed labels and bits of 1/p.

    All arrays hold unsigned integers of 64 bits, but for `indptr` and `labels`.
    """
    for row in range(scores.shape[0]):
        key = multiplier
        for label in range(scores.shape[1]):
            key = (key ^ scores[row, label]) * multiplier
            key ^= key >> np.uint64(29)
        for entry in range(indptr[row], indptr[row + 1]):
            key = (key ^ np.uint64(labels[entry])) * multiplier
            key = (key ^ inverse[entry]) * multiplier
            key ^= key >> np.uint64(29)
        keys[row] = key
