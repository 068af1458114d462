"""One pass over rows: where is each prediction among the row's labels, and all that follows.

That `membership` is the expensive fact. Per row it is found once; for every way of reading the
propensities (a "view": 1/p replaced by min(1 + τ(1/p − 1), clip), so τ = 0 is vanilla and τ = 1
unbiased) the formulas of `ranking` and `ranking_exact` turn it into columns; blocks of rows go into
exact `sums`.

A pass takes six bundles of arrays:

- data     indptr, indices, top labels, inverse propensities, are those per entry?, first row number
- plan     ks, τ per view, clip per view, first column of each form in each view (−1: not asked
           for), and column triples (x, y, product) for ratios
- tables   discounts, 1/IDCG, quadrature nodes, weights, starts
- draws    how the subsampled baseline draws: label limit, number of draws, seed
- sinks    columns to keep per row, where to keep them, hit flags, group sums; empty if not wanted
- counts   for deconvolution: a column for each row length, their number, the slot of every cell
           (stratum, hits, column), sums per slot of all k end to end, slots in use, and where the
           cells, slots and hits of each k begin (−1: not deconvolved)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask._kernels import membership, ranking, ranking_exact, subsample, sums
from unmask._kernels.compiling import njit
from unmask._kernels.deconvolution import tabulate

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

INTEGRALS, SIZES, BOUNDS, SELF, BEST, IDEAL, LABELS = range(7)  # kinds of work: see `_wants`

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
    values, seen = np.zeros((columns, sums.STRIDE)), np.zeros((3, columns))
    partials = np.zeros((columns, 3, sums.PARTIALS))
    largest = np.zeros((columns, sums.LARGEST))
    wants = _wants(taus, where)
    for block in range(start, stop, sums.BLOCK):
        count = min(sums.BLOCK, stop - block)
        if wants[:, LABELS].any() or (where[:, R_SUBSAMPLED] >= 0).any():
            values[:] = 0.0  # these forms add up what they find
        _score_block(block, count, data, plan, tables, wants, flags, counts, scratch, values)
        for view in range(taus.size):
            at = where[view, R_SUBSAMPLED]
            if at >= 0:
                subsample.recall(block, count, data, ks, tables, draws, values, at)
        if columns == 0:
            continue
        sums.survey(values, count, seen)
        for c in range(kept_columns.size):
            for i in range(count):
                kept[block + i, c] = values[kept_columns[c], i]
        if groups.shape[1]:
            sums.add_groups(values, count, first_row + block, groups)
        sums.add_block(values, count, seen, columns - products.shape[0], partials, largest)
    return partials, largest


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
        wants[view, IDEAL] = asked[NDCG] or asked[OBSERVED_NDCG] or asked[BEST_NDCG]
        wants[view, LABELS] = (
            asked[KENDALL] or wants[view, BOUNDS] or wants[view, SELF]
            or (exact and (wants[view, INTEGRALS] or wants[view, SIZES]))
        )  # fmt: skip
    return wants


@njit(cache=True, nogil=True)
def _scratch(ks: Ints, longest: int, most: int) -> Any:
    """Resources for what is known of a block of rows, and for the hits and labels of one row."""
    places, k = ks[-1], max(ks[-1] - 1, 1)
    of_block = (
        np.empty((places, sums.STRIDE), np.int64), np.empty(sums.STRIDE, np.int64),
        np.empty(sums.STRIDE, np.int64), np.empty(sums.STRIDE, np.int64), np.empty(most),
        np.empty((places, sums.STRIDE)), np.empty((ks.size, sums.STRIDE)),
        np.empty(sums.STRIDE), np.empty(sums.STRIDE),
    )  # fmt: skip
    of_row = (
        np.empty(places), np.empty(longest), np.empty(longest, np.bool_), np.empty(places + 1),
        np.empty(k), np.empty(k),
    )  # fmt: skip
    return of_block, of_row


@ranking.bare
def _score_block(
    block: int, count: int, data: Any, plan: Any, tables: Any, wants: Any, flags: Any,
    counts: Any, scratch: Any, values: Floats,
) -> None:  # fmt: skip
    """Every column of a block of rows, the hit flags and the count tables."""
    indptr, indices, top, inverse, per_entry, _ = data
    ks, taus, clips, where, products, _ = plan
    of_block, of_row = scratch
    spots, sizes, ats, found, own, hit, ideal, _, _ = of_block
    first = indptr[block]
    tabulates, weighs, normalizes = False, False, False
    for c in range(ks.size):
        tabulates |= counts[7][c] >= 0
    for view in range(taus.size):
        weighs |= taus[view] != 0.0
        normalizes |= wants[view, IDEAL]
    if tabulates or weighs:  # all at once: many loads are then under way at the same time
        for entry in range(first, indptr[block + count]):
            own[entry - first] = inverse[entry] if per_entry else inverse[indices[entry]]
    for i in range(count):
        begin, size = indptr[block + i], indptr[block + i + 1] - indptr[block + i]
        sizes[i], ats[i] = size, begin - first
        found[i] = membership.locate(indices, begin, size, top, block + i, spots, i)
    if flags.shape[0]:
        for i in range(count):
            for r in range(spots.shape[0]):
                flags[block + i, r] = spots[r, i] >= 0
    if tabulates:
        for i in range(count):
            tabulate(spots, i, own, ats[i], sizes[i], block + i, data, ks, counts)
    if normalizes:
        ranking.inverse_ideals(sizes, count, tables[1], ks, ideal)
    for view in range(taus.size):
        membership.hits(spots, own, ats, count, taus[view], clips[view], hit)
        _score_alike(view, count, plan, tables, of_block, values)
        if wants[view, LABELS]:
            for i in range(count):
                if sizes[i] > 0 and (found[i] > 0 or where[view, KENDALL] >= 0):
                    _score_row(view, block, i, data, plan, tables, wants, of_block, of_row, values)
        if wants[view, BEST]:
            rest = of_row[1]
            for i in range(count):
                at, tau, clip = ats[i], taus[view], clips[view]
                membership.largest_first(own, at, sizes[i], tau, clip, rest, hit, i)
            _score_best(view, count, plan, tables, of_block, values)
    for t in range(products.shape[0]):
        x, y, z = products[t, 0], products[t, 1], products[t, 2]
        for i in range(count):
            values[z, i] = values[x, i] * values[y, i]


@ranking.bare
def _score_alike(
    view: int, count: int, plan: Any, tables: Any, of_block: Any, values: Floats
) -> None:
    """The forms that are the same operations in every row."""
    ks, taus, _, where, _, _ = plan
    discount = tables[0]
    _, sizes, _, _, _, hit, ideal, total, none = of_block
    at = where[view, P]
    if at >= 0:
        ranking.precision(hit, count, ks, values, at, total)
    at = where[view, DCG]
    if at >= 0:
        ranking.discounted(hit, count, discount, ks, values, at, total)
    at = where[view, HIT]
    if at >= 0:
        ranking.any_hit(hit, count, ks, values, at, none)
    at = where[view, MRR]
    if at >= 0:
        ranking.reciprocal_rank(hit, count, ks, values, at, total, none)
    at = where[view, OBSERVED_NDCG]
    if at >= 0:
        ranking.plain_ndcg(hit, count, discount, ideal, ks, values, at, total)
    if taus[view] != 0.0:
        return
    recall, f1, jaccard = where[view, R], where[view, F1], where[view, JACCARD]
    if max(recall, f1, jaccard) >= 0:
        ranking.plain(hit, sizes, count, ks, values, recall, f1, jaccard, total)
    at = where[view, NDCG]
    if at >= 0:
        ranking.plain_ndcg(hit, count, discount, ideal, ks, values, at, total)
    at = where[view, R_PRECISION]
    if at >= 0:
        ranking.plain_r_precision(hit, sizes, count, ks, values, at, total)


@ranking.bare
def _score_best(
    view: int, count: int, plan: Any, tables: Any, of_block: Any, values: Floats
) -> None:
    """The denominators of PSP, PSDCG, PSnDCG, from the largest 1/p in place of hits."""
    ks, where, discount = plan[0], plan[3], tables[0]
    _, _, _, _, _, ordered, ideal, total, _ = of_block
    at = where[view, BEST_P]
    if at >= 0:
        ranking.precision(ordered, count, ks, values, at, total)
    at = where[view, BEST_DCG]
    if at >= 0:
        ranking.discounted(ordered, count, discount, ks, values, at, total)
    at = where[view, BEST_NDCG]
    if at >= 0:
        ranking.plain_ndcg(ordered, count, discount, ideal, ks, values, at, total)


@ranking.bare
def _score_row(
    view: int, block: int, i: int, data: Any, plan: Any, tables: Any, wants: Any, of_block: Any,
    of_row: Any, values: Floats,
) -> None:  # fmt: skip
    """The forms of one row that need its labels (zero so far)."""
    ks, taus, clips, where, _, _ = plan
    discount, inverse_ideal, nodes, weights, starts = tables
    spots, sizes, ats, found, own, of_hits, _, _, _ = of_block
    hit, rest, free, after, shared, alone = of_row
    tau, size = taus[view], sizes[i]
    left = membership.unlisted(spots, i, own, ats[i], size, tau, clips[view], free, rest)
    missed, total = 0.0, 0.0
    for j in range(left):
        missed += rest[j]
    total = missed
    for r in range(hit.size):
        hit[r] = of_hits[r, i]
        total += hit[r]
    at = where[view, KENDALL]
    if at >= 0:
        predicted = membership.listed(data[2], block + i, hit.size)
        ranking_exact.misordered(hit, missed, predicted, ks, values, at, i, after)
    if found[i] == 0:
        return
    if wants[view, INTEGRALS] and tau != 0.0:
        recall, f1, jaccard = where[view, R], where[view, F1], where[view, JACCARD]
        n = (size + 1) // 2 if f1 < 0 and jaccard < 0 else (size + hit.size + 1) // 2
        ranking_exact.integrals(
            hit, rest, left, nodes, weights, starts[n], starts[n] + n, ks, values, i,
            recall, f1, jaccard, after,
        )  # fmt: skip
    if wants[view, SIZES] and tau != 0.0:
        ranking_exact.by_size(
            hit, rest, left, discount, inverse_ideal, ks, values, i,
            where[view, NDCG], where[view, R_PRECISION], shared, alone,
        )  # fmt: skip
    if wants[view, BOUNDS]:
        ranking_exact.bounds(
            hit, missed, discount, inverse_ideal, ks, values, i, where[view, R_BOUND],
            where[view, F1_BOUND], where[view, JACCARD_BOUND], where[view, NDCG_BOUND], after,
        )  # fmt: skip
    if wants[view, SELF]:
        recall, f1 = where[view, R_SELF], where[view, F1_SELF]
        ranking_exact.self_normalized(hit, total, ks, values, i, recall, f1)


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
