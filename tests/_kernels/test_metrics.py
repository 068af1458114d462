"""A pass over rows: how many rows make a block, and what labels and rows are worth."""

from __future__ import annotations

import numpy as np
import pytest

from unmask._kernels import block as sums
from unmask._kernels import metrics
from unmask._kernels.block import Block, Draws, Rows, Tables, empty_block

NOTHING = np.zeros(0)
TABLES = Tables(NOTHING, NOTHING, NOTHING, NOTHING, np.zeros(0, np.int64), 0)


def rows_with(sizes: np.ndarray, n_labels: int = 0) -> Rows:
    indptr = np.r_[0, np.cumsum(sizes)].astype(np.int64)
    scores = np.zeros((sizes.size if n_labels else 0, n_labels))
    no_labels = np.zeros((sizes.size, 1), np.int32)
    return Rows(indptr, np.zeros(indptr[-1], np.int32), no_labels, NOTHING, False, 0, scores)


def numbers_of_a_row(block: Block, stride: int) -> float:
    """Of all arrays that have something for every row, beside labels and scores."""
    arrays = [*block, *block.scratch]
    sized = [a for a in arrays if isinstance(a, np.ndarray) and a.ndim and a.shape[-1] == stride]
    return sum(array.size for array in sized) / stride


@pytest.mark.parametrize("n", [1, 700, 5000])
@pytest.mark.parametrize("labels", [0, 3, 40])
@pytest.mark.parametrize(
    ("ks", "columns", "n_labels"),
    [([5], 1, 0), ([1, 3, 100], 9, 0), ([2], 3, 150), ([10], 480, 0), ([20], 90, 0)],
)
def test_a_block_has_as_many_rows_as_fit(
    ks: list[int], columns: int, n_labels: int, labels: int, n: int
) -> None:
    cutoffs = np.array(ks)
    rows = rows_with(np.full(n + 7, labels), n_labels)
    program = metrics.Program(cutoffs, (), columns, 0, np.zeros((0, 3), np.int64), False, False)
    block = empty_block(cutoffs, 504, 0, 0, TABLES, Draws(0, 0, 0))
    each = numbers_of_a_row(block, 512) + columns + n_labels + 2 * labels  # 1/p, and of the rest
    wanted = sums.BLOCK
    while (
        (wanted + sums.BLOCK) * each <= metrics.NUMBERS
        and wanted + sums.BLOCK <= metrics.MOST_ROWS
        and wanted < n
    ):
        wanted += sums.BLOCK
    assert metrics._block_rows(7, n + 7, rows, program) == wanted


def test_a_block_has_room_for_the_most_labels_of_its_rows_and_one() -> None:
    sizes = np.random.default_rng(0).integers(0, 9, 50)
    indptr = np.r_[0, np.cumsum(sizes)]
    for start, stop, length in ((0, 50, 7), (3, 50, 47), (4, 41, 100), (9, 9, 5)):
        sums_of_blocks = [
            int(sizes[first : min(first + length, stop)].sum())
            for first in range(start, stop, length)
        ]
        wanted = max(sums_of_blocks, default=0) + 1
        assert metrics._most_entries(start, stop, length, indptr) == wanted


def lists(rng: np.random.Generator, n: int, width: int, n_labels: int) -> np.ndarray:
    """Predictions of rows, some lists shorter than others."""
    top = np.array([rng.permutation(n_labels)[:width] for _ in range(n)], np.int32)
    for row, length in enumerate(rng.integers(0, width + 1, n)):
        top[row, length:] = -1
    return top


def test_labels_are_counted_where_they_are_predicted_and_hit() -> None:
    rng, n_labels = np.random.default_rng(0), 6
    top = lists(rng, 30, 4, n_labels)
    is_hit = rng.random((30, 5)) < 0.5
    ks = np.array([1, 3, 5])
    predicted, hits = (np.ones((n_labels, 3), np.int64) for _ in range(2))
    metrics.count_labels(top, is_hit, ks, predicted, hits)
    for label in range(n_labels):
        for c, k in enumerate(ks):
            places = [(row, r) for row, r in np.argwhere(top == label) if r < k]
            assert predicted[label, c] == 1 + len(places)
            assert hits[label, c] == 1 + sum(int(is_hit[place]) for place in places)


@pytest.mark.parametrize("k", [1, 3, 9])
def test_rows_are_worth_what_their_labels_are(k: int) -> None:
    """Hits, wrong predictions and misses within k; squares of each alone."""
    rng, n, n_labels = np.random.default_rng(k), 30, 7
    top = lists(rng, n, 4, n_labels)
    observed = rng.random((n, n_labels)) < 0.4
    hit, wrong, missed = rng.standard_normal((3, n_labels))
    is_hit = np.array([[j >= 0 and observed[i, j] for j in row] for i, row in enumerate(top)])
    indptr = np.r_[0, np.cumsum(observed.sum(axis=1))]
    totals, squares = metrics.sum_effects(
        indptr, np.nonzero(observed)[1].astype(np.int32), top, is_hit, k, hit, wrong, missed
    )
    for i in range(n):
        chosen = {int(j) for j in top[i, :k] if j >= 0}
        worth = [
            hit[j] if j in chosen and observed[i, j] else wrong[j] if j in chosen else missed[j]
            for j in range(n_labels)
            if j in chosen or observed[i, j]
        ]
        assert totals[i] == pytest.approx(sum(worth), abs=1e-12)
        assert squares[i] == pytest.approx(sum(x * x for x in worth), abs=1e-12)
