"""The best of many scores by sorting, and faults of lists by looking at every place in turn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from unmask._kernels import topk

NOTHING = -np.inf


def best_of(pairs: list[tuple[int, float]], k: int) -> tuple[list[int], list[float]]:
    """Higher scores first, then smaller labels; empty places at the end."""
    ranked = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:k]
    empty = k - len(ranked)
    return [j for j, _ in ranked] + [-1] * empty, [s for _, s in ranked] + [NOTHING] * empty


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 11])
@pytest.mark.parametrize("seed", range(4))
def test_dense_rows_are_sorted(seed: int, k: int) -> None:
    """Whole numbers, so that many are equal; some labels are never predicted."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(-2, 3, (7, 9)).astype(np.float64)
    scores[rng.random(scores.shape) < 0.3] = NOTHING
    labels, best = np.full((7, k), 99, np.int32), np.full((7, k), 99, np.float32)
    assert topk.dense(scores, 1, 6, labels, best) == (-1, -1)
    for row in range(1, 6):
        pairs = [(j, s) for j, s in enumerate(scores[row].tolist()) if s != NOTHING]
        assert (labels[row].tolist(), best[row].tolist()) == best_of(pairs, k)
    assert (labels[[0, 6]] == 99).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e39, -1e39])
@pytest.mark.parametrize("column", [0, 2, 4])
def test_the_first_that_is_no_score_is_told(bad: float, column: int) -> None:
    scores = np.zeros((3, 5))
    scores[1, column] = bad
    labels, best = np.empty((3, 5), np.int32), np.empty((3, 5), np.float32)
    assert topk.dense(scores, 0, 3, labels, best) == (1, column)
    assert topk.dense(scores, 2, 3, labels, best) == (-1, -1)


@pytest.mark.parametrize("k", [1, 3, 6])
def test_sparse_rows_are_sorted(k: int) -> None:
    rng = np.random.default_rng(k)
    kept = rng.random((6, 8)) < 0.5
    values = rng.integers(-2, 3, int(kept.sum())).astype(np.float64)
    indptr = np.r_[0, np.cumsum(kept.sum(axis=1))].astype(np.int32)
    indices = np.nonzero(kept)[1].astype(np.int32)
    labels, best = np.full((6, k), 99, np.int32), np.full((6, k), 99, np.float32)
    topk.sparse(indptr, indices, values, 1, 5, labels, best)
    for row in range(1, 5):
        own = slice(indptr[row], indptr[row + 1])
        pairs = list(zip(indices[own].tolist(), values[own].tolist(), strict=True))
        assert (labels[row].tolist(), best[row].tolist()) == best_of(pairs, k)
    assert (labels[[0, 5]] == 99).all()


def first_fault(labels: list[int], scores: list[float]) -> tuple[int, int]:
    """(kind, place or label) of one row: places in turn, then labels that stand twice."""
    for place, (label, score) in enumerate(zip(labels, scores, strict=True)):
        if label < -1 or (label == -1) != (score == NOTHING):
            return topk.PADDING, place
        if label >= 0 and not np.isfinite(score):
            return topk.NOT_A_SCORE, place
        if place and label >= 0:
            before = scores[place - 1], -labels[place - 1]
            if before < (score, -label):
                return topk.ORDER, place
    twice = [j for j in sorted(labels) if j >= 0 and labels.count(j) > 1]
    return (topk.REPEATED, twice[0]) if twice else (topk.FINE, -1)


@pytest.mark.parametrize("first", [-2, -1, 0, 1])
def test_every_fault_of_three_places_is_told(first: int) -> None:
    """All lists of labels −2 … 2 with scores of two sizes, nothing, and no number."""
    choices = list(itertools.product((-2, -1, 0, 1), (1.0, 0.5, NOTHING, np.nan)))
    fine = np.array([[1, 0, -1]], np.int32), np.array([[2.0, 1.0, NOTHING]], np.float32)
    for score, second, third in itertools.product((1.0, 0.5, NOTHING), choices, choices[4:]):
        places = [(first, score), second, third]
        labels = np.r_[fine[0], np.array([[j for j, _ in places]], np.int32)]
        scores = np.r_[fine[1], np.array([[s for _, s in places]], np.float32)]
        kind, place = first_fault(labels[1].tolist(), scores[1].tolist())
        row = -1 if kind == topk.FINE else 1
        assert topk.first_fault(labels, scores, 0, 2) == (kind, row, place)
    assert topk.first_fault(labels, scores, 0, 1) == (topk.FINE, -1, -1)
