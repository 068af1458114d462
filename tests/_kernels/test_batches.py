"""Batches of a training loop, row by row and label by label with NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit

from unmask._kernels import batches
from unmask._kernels.weights import gauss_legendre

SHORT = batches._SHORT


def row_of(labels: list[int], width: int) -> list[int]:
    """Filled up with −1, in front, in the middle and behind."""
    gaps = width - len(labels)
    return [-1] * (gaps // 2) + labels[:1] + [-1] * (gaps - gaps // 2) + labels[1:]


@pytest.mark.parametrize("width", [4, SHORT, SHORT + 1, 40])
def test_the_first_row_that_names_a_label_twice_or_none(width: int) -> None:
    fine = [row_of([0, 9, 5], width), row_of([9], width), [-1] * width]
    assert batches.first_invalid_row(np.array(fine), 10) == -1
    for wrong in ([0, 5, 0], [5, 5, 1], [1, 5, 5], [1, 10], [11, 2], [9, 9]):
        rows = np.array([*fine, row_of(wrong, width), row_of([3, 3], width)])
        assert batches.first_invalid_row(rows, 10) == 3


@pytest.mark.parametrize(
    ("starts", "columns", "wanted"),
    [
        ([0, 2, 2, 5], [1, 3, 0, 2, 4], 3), ([0], [], 0), ([0, 0], [], 0), ([0, 1], [0], 1),
        ([0, 2, 2, 5], [1, 1, 0, 2, 4], -1), ([0, 2, 2, 5], [3, 1, 0, 2, 4], -1),
        ([0, 2, 2, 5], [1, 3, 0, 2, 5], -1), ([0, 2, 2, 5], [1, 3, -1, 2, 4], -1),
        ([1, 2, 2, 5], [1, 3, 0, 2, 4], -1), ([0, 2, 2, 4], [1, 3, 0, 2, 4], -1),
        ([0, 3, 2, 5], [1, 2, 3, 2, 4], -1), ([0, 6, 2, 5], [0, 1, 2, 3, 4], -1),
        ([0, 2, 5], [3, 4, 0, 1, 2], 3),
    ],
)  # fmt: skip
def test_the_most_labels_of_a_row(starts: list[int], columns: list[int], wanted: int) -> None:
    made = batches.widest(np.array(starts), np.array(columns, dtype=np.int64), 5)
    assert made == wanted


def test_rows_are_unpacked_and_filled_up() -> None:
    out = np.full((3, 3), 99)
    batches.unpack(np.array([0, 2, 2, 5]), np.array([1, 3, 0, 2, 4]), out)
    assert out.tolist() == [[1, 3, -1], [-1, -1, -1], [0, 2, 4]]


INVERSE = np.array([[2.0, 0.0, 5.0, 1.0], [0.0, 0.0, 0.0, 0.0], [1.5, 4.0, 3.0, 10.0]])


def test_sums_over_a_row() -> None:
    """How many there are, and 1 plus all others."""
    assert batches.row_counts(INVERSE).tolist() == [[3], [0], [4]]
    wanted = 1 + INVERSE.sum(axis=1, keepdims=True) - INVERSE
    np.testing.assert_allclose(batches.one_plus_others(INVERSE), wanted, rtol=1e-14)


def test_shares_of_a_row_are_integrals_of_products() -> None:
    made = batches.shares(INVERSE, *gauss_legendre(2))
    for row, shares in zip(INVERSE, made, strict=True):
        for k, share in enumerate(shares):
            product = np.polynomial.Polynomial([1.0])
            for j, other in enumerate(row):
                product *= np.polynomial.Polynomial([1.0, -other]) if j != k else 1.0
            assert share == pytest.approx(row[k] * product.integ()(1.0), rel=1e-12, abs=1e-12)


def softplus(score: float) -> float:
    return max(score, 0.0) + math.log1p(math.exp(-abs(score)))


def batch(n_labels: int, seed: int) -> tuple[np.ndarray, ...]:
    """Scores of three rows with three, no and two labels; weights of which some are 0 or equal."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 3, (3, n_labels)).astype(np.float32)
    index = np.full((3, 4), -1)
    index[0, :3] = rng.permutation(n_labels)[:3]
    index[2, [0, 3]] = rng.permutation(n_labels)[:2]
    pos, cut = rng.uniform(0.5, 4, (2, 3, 4))
    pos[0, 1], cut[2, 3] = 0.0, pos[2, 3]
    return scores, index, pos, cut


@pytest.mark.parametrize("n_labels", [3, 7, 8, 11, 16, 8 * batches._TILE + 13])
def test_the_logistic_loss_and_its_slope_label_by_label(n_labels: int) -> None:
    scores, index, pos, cut = batch(n_labels, n_labels)
    rows, slope = np.full(3, 99.0), np.full(scores.shape, 99.0, np.float32)
    batches.logistic(scores, index, pos, cut, rows, slope)
    chance = expit(scores.astype(float))
    for i in range(3):
        wanted, slopes = sum(softplus(float(s)) for s in scores[i]), chance[i].copy()
        for k, label in enumerate(index[i]):
            if label >= 0:
                score, share = float(scores[i, label]), pos[i, k] - cut[i, k]
                wanted += share * softplus(score) - pos[i, k] * score
                slopes[label] += share * chance[i, label] - pos[i, k]
        assert rows[i] == pytest.approx(wanted, rel=2e-6, abs=2e-5)
        np.testing.assert_allclose(slope[i], slopes, rtol=1e-5, atol=2e-6)


def test_a_label_may_count_once_more_than_it_is_cut() -> None:
    """pos − cut of 0, 1 and −1: what ln(1 + eˢ) counts in all is 1, 2 and 0."""
    scores = np.array([[0.5, -1.5, 2.0], [3.0, 0.25, -4.0]], np.float32)
    index, cut = np.array([[0, 1, 2], [2, 1, 0]]), np.array([[1.0, 1, 2], [0.5, 1, 3]])
    pos = cut + np.array([[0.0, 1, -1], [-1, 0, 1]])
    rows, slope = np.empty(2), np.empty(scores.shape, np.float32)
    batches.logistic(scores, index, pos, cut, rows, slope)
    for i in range(2):
        wanted = sum(
            (1 + pos[i, k] - cut[i, k]) * softplus(float(scores[i, label]))
            - pos[i, k] * float(scores[i, label])
            for k, label in enumerate(index[i])
        )
        assert rows[i] == pytest.approx(wanted, rel=2e-6)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("count", [5, 8, 19, 8 * batches._TILE + 3])
def test_the_loss_of_candidates_counts_every_observed_label_once(count: int, shared: bool) -> None:
    """The first of its places as 1, the others not at all; the rest by weight, −1 not at all."""
    rng = np.random.default_rng(count)
    ids = rng.integers(-1, max(6, count), (1 if shared else 3, count))
    ids[:, 3] = ids[:, 1] = 4  # a candidate twice
    weights = rng.uniform(0.5, 3, ids.shape).astype(np.float32)
    scores = rng.normal(0, 3, (3, count)).astype(np.float32)
    index = np.array([[4, int(ids[0, 0]), -1], [-1, -1, -1], [4 + batches._BUCKETS, 4, 2]])
    pos, cut = rng.uniform(0.5, 4, (2, 3, 3))
    column, rows = np.full((3, 3), 99), np.full(3, 99.0)
    slope = np.full(scores.shape, 99.0, np.float32)
    batches.shortlist(scores, ids, weights, index, pos, cut, column, rows, slope)
    for i in range(3):
        own, own_weights = (each[0 if shared else i] for each in (ids, weights))
        observed = [int(label) for label in index[i] if label >= 0]
        counted = np.where((own < 0) | np.isin(own, observed), 0.0, own_weights)
        places = [
            int(np.flatnonzero(own == label)[0]) if label >= 0 and label in own else -1
            for label in index[i]
        ]
        assert column[i].tolist() == places
        counted[[place for place in places if place >= 0]] = 1.0
        wanted = sum(w * softplus(float(s)) for w, s in zip(counted, scores[i], strict=True))
        slopes = counted * expit(scores[i].astype(float))
        for k, place in enumerate(places):
            if place >= 0:
                score, share = float(scores[i, place]), pos[i, k] - cut[i, k]
                wanted += share * softplus(score) - pos[i, k] * score
                slopes[place] += share * expit(score) - pos[i, k]
        assert rows[i] == pytest.approx(wanted, rel=2e-6, abs=2e-5)
        np.testing.assert_allclose(slope[i], slopes, rtol=1e-5, atol=2e-6)
