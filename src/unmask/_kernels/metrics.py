"""One pass over rows: where is each prediction among the row's labels, and all that follows.

That membership is the expensive fact. Per row it is found once; for every way of reading the
propensities (a "view": 1/p replaced by min(1 + τ(1/p − 1), clip), so τ = 0 is vanilla and τ = 1
unbiased) the formulas of `ranking` turn it into columns; blocks of rows go into exact sums.

A pass takes six bundles of arrays:

- data     indptr, indices, top labels, inverse propensities, are those per entry?, first row number
- plan     ks, τ per view, clip per view, first column of each form in each view (−1: not asked
           for), and column triples (x, y, product) for ratios
- tables   discounts, 1/IDCG, quadrature nodes, weights, starts
- draws    how the subsampled baseline draws: label limit, number of draws, seed
- sinks    columns to keep per row, where to keep them, hit flags, group sums; empty if not wanted
- counts   tables of (hits, labels outside) for deconvolution, end to end, and where each k begins
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unmask._kernels import ranking, sums
from unmask._kernels.deconvolution import STRATA, stratum

FIXED = 1 << 24  # inverse propensities in count tables are whole multiples of 1/FIXED
NOTHING = np.int32(-2)  # no label, and not the −1 of an empty place

FORMS = (
    "precision", "dcg", "hit", "mrr", "kendall",
    "recall", "f1", "jaccard", "ndcg", "r_precision",
    "recall_bound", "f1_bound", "jaccard_bound", "ndcg_bound",
    "recall_self", "f1_self",
    "observed_ndcg", "best_precision", "best_dcg", "best_ndcg",
    "recall_subsampled",
)  # fmt: skip

(
    P, DCG, HIT, MRR, KENDALL, R, F1, JACCARD, NDCG, R_PRECISION,
    R_BOUND, F1_BOUND, JACCARD_BOUND, NDCG_BOUND, R_SELF, F1_SELF,
    OBSERVED_NDCG, BEST_P, BEST_DCG, BEST_NDCG, R_SUBSAMPLED,
) = range(len(FORMS))  # fmt: skip

INTEGRALS, SIZES, BOUNDS, SELF, BEST, EMPTY, REST = range(7)  # kinds of work: see `_wants`

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@njit(cache=True, nogil=True)
def score_rows(
    start: int, stop: int, data: Any, plan: Any, tables: Any, draws: Any, sinks: Any, counts: Any
) -> tuple[Floats, Floats]:
    """Sums over rows start … stop: the partial sums and the largest values of every column."""
    indptr, first_row = data[0], data[5]
    ks, taus, _, where, products, columns = plan
    kept_columns, kept, flags, groups = sinks
    longest, most = 1, 1
    for row in range(start, stop):
        longest = max(longest, indptr[row + 1] - indptr[row])
        most = max(most, indptr[min(row + sums.BLOCK, stop)] - indptr[row])
    scratch = _scratch(ks, longest, most)
    values, seen = np.zeros((sums.BLOCK, columns)), np.zeros((3, columns))
    out = values.reshape(-1)
    partials = np.zeros((columns, 3, sums.PARTIALS))
    largest = np.zeros((columns, sums.LARGEST))
    wants = _wants(taus, where)
    needs = (wants[:, EMPTY].any(), counts[3].max() >= 0, (taus != 0.0).any())
    for block in range(start, stop, sums.BLOCK):
        count = min(sums.BLOCK, stop - block)
        values[:count] = 0.0
        _score_block(block, count, data, plan, tables, wants, needs, flags, counts, scratch, out)
        for view in range(taus.size):
            if where[view, R_SUBSAMPLED] >= 0:
                at = where[view, R_SUBSAMPLED]
                _subsample_block(block, count, data, ks, tables, draws, values, at)
        if columns == 0:
            continue
        sums.survey(values, count, seen)
        for c in range(kept_columns.size):
            for r in range(count):
                kept[block + r, c] = values[r, kept_columns[c]]
        if groups.shape[1]:
            sums.add_groups(values, count, first_row + block, groups)
        sums.add_block(values, count, seen, columns - products.shape[0], partials, largest)
    return partials, largest


@njit(cache=True, nogil=True)
def _scratch(ks: Ints, longest: int, most: int) -> Any:
    """Room for the inverse propensities of a block, and for the hits and labels of one row."""
    places = ks[-1]
    return (
        np.empty(places, np.int64), np.empty(ks.size, np.int64),
        np.empty(most), np.empty(longest), np.empty(longest, np.bool_),
        np.empty(places), np.empty(places + 1),
        np.empty(max(places - 1, 1)), np.empty(max(places - 1, 1)),
    )  # fmt: skip


@ranking.bare
def _score_block(
    block: int, count: int, data: Any, plan: Any, tables: Any, wants: Any, needs: Any, flags: Any,
    counts: Any, scratch: Any, out: Floats,
) -> None:  # fmt: skip
    """Every column of a block of rows (zero so far), the hit flags and the count tables."""
    indptr, indices, top, inverse, per_entry, _ = data
    ks, taus, clips, where, products, columns = plan
    empty_counts, tabulates, weighs = needs
    place_of, hits, own, rest, free, hit, after, shared, alone = scratch
    places, first = place_of.size, indptr[block]
    if tabulates or weighs:  # all at once: many loads are then under way at the same time
        for entry in range(first, indptr[block + count]):
            own[entry - first] = inverse[entry] if per_entry else inverse[indices[entry]]
    for row in range(block, block + count):
        begin, size = indptr[row], indptr[row + 1] - indptr[row]
        at = begin - first
        found = _locate(indices, begin, size, top, row, place_of)
        if flags.shape[0]:
            for r in range(places):
                flags[row, r] = place_of[r] >= 0
        if tabulates:
            _tabulate(place_of, own, at, size, row, data, ks, counts)
        if size == 0 or (found == 0 and not empty_counts):
            continue
        base = (row - block) * columns
        for view in range(taus.size):
            tau, clip = taus[view], clips[view]
            for r in range(places):  # reads a number even without a hit: no branch to guess
                q = view_of(own[at + max(place_of[r], 0)], tau, clip) if tau else 1.0
                hit[r] = q if place_of[r] >= 0 else 0.0
            if wants[view, BEST]:
                _largest_first(own, at, size, tau, clip, places, after)
            if wants[view, REST]:
                _unlisted(place_of, own, at, size, tau, clip, free, rest)
            if wants[view, INTEGRALS] and tau == 0.0:
                _count(place_of, ks, hits)
            predicted = _predicted(top, row, places) if where[view, KENDALL] >= 0 else places
            _score(
                hit, rest, size - found, hits, predicted, found, ks, tau, where, wants, view,
                base, tables, out, after, shared, alone,
            )  # fmt: skip
        for t in range(products.shape[0]):
            out[base + products[t, 2]] = out[base + products[t, 0]] * out[base + products[t, 1]]


@njit(cache=True, nogil=True)
def _wants(taus: Floats, where: Ints) -> Any:
    """Which kinds of work each view needs."""
    wants = np.zeros((taus.size, 7), np.bool_)
    for view in range(taus.size):
        asked, exact = where[view] >= 0, taus[view] != 0.0
        wants[view, INTEGRALS] = asked[R : JACCARD + 1].any()
        wants[view, SIZES] = asked[NDCG : R_PRECISION + 1].any()
        wants[view, BOUNDS] = asked[R_BOUND : NDCG_BOUND + 1].any()
        wants[view, SELF] = asked[R_SELF : F1_SELF + 1].any()
        wants[view, BEST] = asked[BEST_P : BEST_NDCG + 1].any()
        wants[view, EMPTY] = asked[KENDALL] or wants[view, BEST]
        wants[view, REST] = (
            asked[KENDALL] or wants[view, BOUNDS] or wants[view, SELF]
            or (exact and (wants[view, INTEGRALS] or wants[view, SIZES]))
        )  # fmt: skip
    return wants


@ranking.bare
def _locate(indices: Any, begin: int, size: int, top: Any, row: int, place_of: Ints) -> int:
    """Position of each prediction in the row's sorted labels, −1 if absent; the number of hits."""
    listed, found = min(place_of.size, top.shape[1]), 0
    for r in range(listed, place_of.size):
        place_of[r] = -1
    if size > 24:
        for r in range(listed):
            place_of[r] = _position(indices, begin, size, top[row, r])
            found += place_of[r] >= 0
    else:
        for r in range(0, listed, 5):
            found += _locate_five(indices, begin, size, top, row, r, listed, place_of)
    return found


@ranking.bare
def _locate_five(
    indices: Any, begin: int, size: int, top: Any, row: int, r: int, listed: int, place_of: Ints
) -> int:
    """Five predictions against all labels of a short row, without a branch to guess."""
    a = top[row, r]
    b = top[row, r + 1] if r + 1 < listed else NOTHING
    c = top[row, r + 2] if r + 2 < listed else NOTHING
    d = top[row, r + 3] if r + 3 < listed else NOTHING
    e = top[row, r + 4] if r + 4 < listed else NOTHING
    at_a, at_b, at_c, at_d, at_e = -1, -1, -1, -1, -1
    for j in range(size):
        label = indices[begin + j]
        at_a = j if label == a else at_a
        at_b = j if label == b else at_b
        at_c = j if label == c else at_c
        at_d = j if label == d else at_d
        at_e = j if label == e else at_e
    place_of[r] = at_a
    if r + 1 < listed:
        place_of[r + 1] = at_b
    if r + 2 < listed:
        place_of[r + 2] = at_c
    if r + 3 < listed:
        place_of[r + 3] = at_d
    if r + 4 < listed:
        place_of[r + 4] = at_e
    return (at_a >= 0) + (at_b >= 0) + (at_c >= 0) + (at_d >= 0) + (at_e >= 0)


@ranking.bare
def _position(indices: Any, begin: int, size: int, label: int) -> int:
    low, high = begin, begin + size - 1
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low - begin if indices[low] == label else -1


@ranking.bare
def _count(place_of: Ints, ks: Ints, hits: Ints) -> None:
    total, place = 0, 0
    for c in range(ks.size):
        while place < ks[c]:
            total += place_of[place] >= 0
            place += 1
        hits[c] = total


@ranking.bare
def _predicted(top: Any, row: int, places: int) -> int:
    """How many of the first places hold a prediction."""
    predicted: int = min(places, top.shape[1])
    while predicted > 0 and top[row, predicted - 1] < 0:
        predicted -= 1
    return predicted


@ranking.bare
def _tabulate(
    place_of: Ints, own: Floats, at: int, size: int, row: int, data: Any, ks: Ints, counts: Any
) -> None:
    """Count one row in the tables of every k (`deconvolution.Counts`), in units of 1/FIXED."""
    _, _, top, inverse, per_entry, _ = data
    rows, hits, misses, row_starts, hit_starts, width = counts
    total = 0
    for j in range(size):
        total += fixed(own[at + j])
    inverse_sum, listed, found, inside, place = 0.0, 0, 0, 0, 0
    for c in range(ks.size):
        k = ks[c]
        while place < k:
            if place < top.shape[1] and top[row, place] >= 0 and not per_entry:
                inverse_sum += inverse[top[row, place]]
                listed += 1
            if place_of[place] >= 0:
                found += 1
                inside += fixed(own[at + place_of[place]])
            place += 1
        if row_starts[c] < 0:
            continue
        cell = (stratum(inverse_sum, listed) * (k + 1) + found) * width + size - found
        rows[row_starts[c] + cell] += 1
        misses[row_starts[c] + cell] += total - inside
        for r in range(k):
            if place_of[r] >= 0:
                target = hit_starts[c] + r * STRATA * (k + 1) * width + cell
                hits[target] += fixed(own[at + place_of[r]])


@ranking.bare
def fixed(inverse: float) -> int:
    """An inverse propensity in units of 1/FIXED: whole numbers add up exactly in any order."""
    return int(inverse * FIXED + 0.5)


@ranking.bare
def view_of(inverse: float, tau: float, clip: float) -> float:
    """What a view makes of 1/p: min(1 + τ(1/p − 1), clip)."""
    if tau != 1.0:
        inverse = 1.0 + tau * (inverse - 1.0)
    return min(inverse, clip)


@ranking.bare
def _unlisted(
    place_of: Ints, own: Floats, at: int, size: int, tau: float, clip: float, free: Any,
    rest: Floats,
) -> None:  # fmt: skip
    """The view's inverse propensities of the observed labels that were not predicted."""
    for j in range(size):
        free[j] = True
    for r in range(place_of.size):
        if place_of[r] >= 0:
            free[place_of[r]] = False
    unlisted = 0
    for j in range(size):
        if free[j]:
            rest[unlisted] = view_of(own[at + j], tau, clip) if tau else 1.0
            unlisted += 1


@ranking.bare
def _score(
    hit: Floats, rest: Floats, unlisted: int, hits: Ints, predicted: int, found: int, ks: Ints,
    tau: float, where: Ints, wants: Any, view: int, base: int, tables: Any, out: Floats,
    after: Floats, shared: Floats, alone: Floats,
) -> None:  # fmt: skip
    """Every form asked for in one view of one row."""
    discount, inverse_ideal, nodes, weights, starts = tables
    size = found + unlisted
    missed = 0.0
    if wants[view, REST]:
        for j in range(unlisted):
            missed += rest[j]
    if where[view, KENDALL] >= 0:
        ranking.misordered(hit, missed, predicted, ks, out, base + where[view, KENDALL])
    if wants[view, BEST]:
        ranking.best(
            after, size, discount, inverse_ideal, ks, out, _at(where, view, BEST_P, base),
            _at(where, view, BEST_DCG, base), _at(where, view, BEST_NDCG, base),
        )  # fmt: skip
    if found == 0:
        return
    if where[view, P] >= 0:
        ranking.precision(hit, ks, out, base + where[view, P])
    if where[view, DCG] >= 0:
        ranking.discounted(hit, discount, ks, out, base + where[view, DCG])
    if where[view, HIT] >= 0:
        ranking.any_hit(hit, ks, out, base + where[view, HIT])
    if where[view, MRR] >= 0:
        ranking.reciprocal_rank(hit, ks, out, base + where[view, MRR])
    if where[view, OBSERVED_NDCG] >= 0:
        at = base + where[view, OBSERVED_NDCG]
        ranking.plain_by_size(hit, size, discount, inverse_ideal, ks, out, at, -1)
    recall, f1 = _at(where, view, R, base), _at(where, view, F1, base)
    jaccard = _at(where, view, JACCARD, base)
    if wants[view, INTEGRALS] and tau == 0.0:
        ranking.plain(hits, size, ks, out, recall, f1, jaccard)
    elif wants[view, INTEGRALS]:
        n = (size + 1) // 2 if f1 < 0 and jaccard < 0 else (size + hit.size + 1) // 2
        ranking.integrals(
            hit, rest, unlisted, nodes, weights, starts[n], starts[n] + n, ks, out,
            recall, f1, jaccard, after,
        )  # fmt: skip
    ndcg, r_precision = _at(where, view, NDCG, base), _at(where, view, R_PRECISION, base)
    if wants[view, SIZES] and tau == 0.0:
        ranking.plain_by_size(hit, size, discount, inverse_ideal, ks, out, ndcg, r_precision)
    elif wants[view, SIZES]:
        ranking.by_size(
            hit, rest, unlisted, discount, inverse_ideal, ks, out, ndcg, r_precision, shared, alone
        )
    total = missed
    if wants[view, BOUNDS] or wants[view, SELF]:
        for r in range(hit.size):
            total += hit[r]
    if wants[view, BOUNDS]:
        ranking.bounds(
            hit, total, discount, inverse_ideal, ks, out, _at(where, view, R_BOUND, base),
            _at(where, view, F1_BOUND, base), _at(where, view, JACCARD_BOUND, base),
            _at(where, view, NDCG_BOUND, base),
        )  # fmt: skip
    if wants[view, SELF]:
        recall, f1 = _at(where, view, R_SELF, base), _at(where, view, F1_SELF, base)
        ranking.self_normalized(hit, total, ks, out, recall, f1)


@ranking.bare
def _at(where: Ints, view: int, form: int, base: int) -> int:
    """Where a form's results go, −1 if it is not asked for."""
    return base + where[view, form] if where[view, form] >= 0 else -1


@ranking.bare
def _largest_first(
    own: Floats, at: int, size: int, tau: float, clip: float, places: int, ordered: Floats
) -> None:
    """The view's largest inverse propensities of the row, zeros after the last."""
    for r in range(places):
        ordered[r] = 0.0
    for j in range(size):
        _sift(view_of(own[at + j], tau, clip), places, ordered)


@ranking.bare
def _sift(x: float, places: int, ordered: Floats) -> None:
    """Put x in its place: the larger stays, the smaller moves on. Nothing to guess for the CPU."""
    for r in range(places):
        larger = max(ordered[r], x)
        x = min(ordered[r], x)
        ordered[r] = larger


@njit(cache=True, nogil=True)
def _subsample_block(
    block: int, count: int, data: Any, ks: Ints, tables: Any, draws: Any, values: Floats, at: int
) -> None:
    """Recall of every row after halving its label set until at most `limit` labels are left.

    A label survives each halving with probability 1/2, so its propensity is halved as well; rows
    that were thinned take the mean of many draws.
    """
    indptr, indices, top, inverse, per_entry, first_row = data
    _, _, nodes, weights, starts = tables
    limit, repeats, seed = draws
    place_of, after = np.empty(ks[-1], np.int64), np.empty(ks[-1] + 1)
    one = np.zeros(ks.size)
    for row in range(block, block + count):
        begin, size = indptr[row], indptr[row + 1] - indptr[row]
        if _locate(indices, begin, size, top, row, place_of) == 0:
            continue
        labels = indices[begin : begin + size]
        own = inverse[begin : begin + size] if per_entry else inverse[labels]
        times = repeats if size > limit else 1
        for draw in range(times):
            some, left, level = own.copy(), size, 0
            while left > limit:
                _halve(some, mix(mix(mix(seed, first_row + row), draw), level))
                left, level = (some > 0.0).sum(), level + 1
            hit = np.zeros(ks[-1])
            for r in range(hit.size):
                if place_of[r] >= 0:
                    hit[r] = some[place_of[r]]
                    some[place_of[r]] = 0.0
            rest, n = some[some > 0.0], (left + 1) // 2
            one[:] = 0.0
            ranking.integrals(
                hit, rest, rest.size, nodes, weights, starts[n], starts[n] + n, ks, one,
                0, -1, -1, after,
            )  # fmt: skip
            values[row - block, at : at + ks.size] += one / times


@njit(cache=True, nogil=True)
def _halve(inverse: Floats, stream: int) -> None:
    for j in range(inverse.size):
        inverse[j] = 2.0 * inverse[j] if mix(stream, j) & 1 else 0.0


@njit(cache=True, nogil=True)
def mix(seed: int, counter: int) -> int:
    """A random-looking 62-bit number from two numbers (the finaliser of SplitMix64)."""
    z = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(counter + 1)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((z ^ (z >> np.uint64(31))) >> np.uint64(2))  # type: ignore[return-value]


@njit(cache=True, nogil=True)
def count_labels(top: Any, flags: Any, ks: Ints, predicted: Ints, hits: Ints) -> None:
    """Per label and cut-off: how often predicted, and how often a hit, among the first k."""
    for row in range(flags.shape[0]):
        for r in range(min(flags.shape[1], top.shape[1])):
            label = top[row, r]
            if label < 0:
                break
            for c in range(ks.size):
                if r < ks[c]:
                    predicted[label, c] += 1
                    hits[label, c] += flags[row, r]
