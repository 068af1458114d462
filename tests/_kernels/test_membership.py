"""Which predictions are labels of their row, and how a view reads 1/p, by sets and lists."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unmask._kernels import block as membership
from unmask._kernels import metrics
from unmask._kernels.block import Block, Draws, Rows, Tables, empty_block
from unmask.metrics.request import Request
from unmask.metrics.sums import CountSink, Plan

N_LABELS = 80
SIZES = [0, 1, 3, membership.SHORT, membership.SHORT + 1, 60, 0]
"""Labels of rows: on both sides of what is simply compared."""
FIRST, LAST = 1, 7
"""The block begins after the first row."""


def rows_of(width: int, seed: int, *, per_entry: bool) -> Rows:
    """Labels in order, lists that end early, and 1/p of labels or of every entry."""
    rng = np.random.default_rng(seed)
    sets = [np.sort(rng.permutation(N_LABELS)[:size]) for size in [2, *SIZES[:-1]]]
    top = np.full((len(sets), width), -1, np.int32)
    for row, labels in enumerate(sets):
        wanted = rng.permutation(np.r_[labels, rng.permutation(N_LABELS)[:width]])
        listed = list(dict.fromkeys(wanted.tolist()))[: rng.integers(0, width + 1)]
        top[row, : len(listed)] = listed
    top.setflags(write=False)  # as those of a TopK
    indptr = np.r_[0, np.cumsum([labels.size for labels in sets])]
    indices = np.concatenate(sets).astype(np.int32)
    inverse = 1 / rng.uniform(0.1, 1, indices.size if per_entry else N_LABELS)
    return Rows(indptr, indices, top, inverse, per_entry, 0, np.empty((0, 0)))


def block_of(rows: Rows, places: int) -> tuple[Block, np.ndarray, int]:
    """A block of these rows as a pass fills it, the flags of hits, and Σ Π (1 − p)."""
    ks = np.array([places])
    nothing = np.zeros(0)
    tables = Tables(nothing, np.zeros(places + 1), nothing, nothing, np.zeros(1, np.int64), 0)
    room = int(np.diff(rows.indptr).max()) + 1
    block = empty_block(ks, LAST - FIRST, rows.indices.size + 1, room, tables, Draws(0, 0, 0))
    block = block._replace(first=FIRST, number=FIRST, n_rows=LAST - FIRST)
    made = Plan.of(Request([f"P@{places}"]), width=places, n_labels=N_LABELS)
    counts = CountSink(made, rows.indptr[FIRST : LAST + 1], FIRST).tables
    is_hit = np.zeros((rows.top.shape[0], places), np.bool_)
    lost = metrics._find(rows, block, True, True, True, is_hit, counts)
    return block, is_hit, lost


SHAPES = [(1, 1), (4, 3), (5, 5), (6, 6), (12, 9), (3, 12), (11, 11)]
"""Width of lists, and places that are read."""
CASES = [(*shape, seed) for shape in SHAPES for seed in range(2)]


@pytest.mark.parametrize("per_entry", [False, True])
@pytest.mark.parametrize(("width", "places", "seed"), CASES)
def test_predictions_are_located_among_the_labels_of_their_row(
    width: int, places: int, seed: int, per_entry: bool
) -> None:
    rows = rows_of(width, seed, per_entry=per_entry)
    block, is_hit, lost = block_of(rows, places)
    chance = 0
    for i in range(block.n_rows):
        row = FIRST + i
        entries = range(rows.indptr[row], rows.indptr[row + 1])
        labels = [int(rows.indices[e]) for e in entries]
        listed = [int(j) for j in rows.top[row, :places]]
        spots = [labels.index(j) if j in labels else -1 for j in listed]
        spots += [-1] * (places - len(spots))
        assert block.spots[:, i].tolist() == spots
        assert is_hit[row].tolist() == [spot >= 0 for spot in spots]
        assert block.hit_counts[i] == sum(spot >= 0 for spot in spots)
        assert block.listed[i] == sum(j >= 0 for j in listed)
        assert block.sizes[i] == len(labels)
        begin = block.begins[i]
        assert begin == entries.start - rows.indptr[FIRST]
        inverse = [float(rows.inverse[e if per_entry else rows.indices[e]]) for e in entries]
        assert block.own[begin : begin + len(labels)].tolist() == inverse
        chance += round(math.prod(1 - 1 / q for q in inverse) * metrics.LOST)
    assert lost == pytest.approx(chance, abs=len(SIZES))
    assert not is_hit[[0]].any()


@pytest.mark.parametrize("view", [(0.0, math.inf), (1.0, math.inf), (0.5, math.inf), (1.0, 3.0)])
@pytest.mark.parametrize(("width", "places", "seed"), CASES)
def test_a_view_reads_hits_what_is_left_and_the_largest(
    width: int, places: int, seed: int, view: tuple[float, float]
) -> None:
    tau, clip = view
    rows = rows_of(width, seed, per_entry=False)
    block, _, _ = block_of(rows, places)
    block = block._replace(tau=tau, clip=clip)
    untouched = np.full_like(block.rest_sums, -1.0)
    for without_hits in (True, False):
        block.rest_sums[:] = untouched
        metrics._read(block, True, without_hits)
        for i in range(block.n_rows):
            own = block.own[block.begins[i] : block.begins[i] + block.sizes[i]]
            read = np.minimum(1 + tau * (own - 1), clip)
            spots = block.spots[:, i]
            hits = [read[spot] if spot >= 0 else 0.0 for spot in spots]
            assert block.hits[:, i] == pytest.approx(hits, rel=1e-15)
            if not (without_hits or block.hit_counts[i]):
                assert block.rest_sums[i] == -1.0
                continue
            left = [q for j, q in enumerate(read) if j not in spots]
            count = block.rest_counts[i]
            begin = block.begins[i]
            assert block.rest[begin : begin + count] == pytest.approx(left, rel=1e-15)
            assert block.rest_sums[i] == pytest.approx(sum(left), rel=1e-12)
    membership.largest_first(block)
    for i in range(block.n_rows):
        own = block.own[block.begins[i] : block.begins[i] + block.sizes[i]]
        best = np.sort(np.minimum(1 + tau * (own - 1), clip))[::-1][:places]
        assert block.hits[:, i] == pytest.approx([*best, *[0.0] * (places - best.size)], rel=1e-15)
