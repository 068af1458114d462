"""Loops of the predictor: the best labels of every row, beside a full matrix of scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from unmask._kernels import linear_predict as kernels

RNG = np.random.default_rng(6)


@pytest.mark.parametrize("inverse", [1.0, 2.5])
def test_ranks_are_scores_or_chances_over_propensities(inverse: float) -> None:
    for score in (-1000.0, -700.5, -2.0, -1.0, -0.25, 0.0, 0.25, 1.0, 1.5, 90.0):
        logistic = 0.0 if score < -700 else 1 / (1 + math.exp(-score))
        hinge = (1 + min(max(score, -1.0), 1.0)) / 2
        expected = {
            kernels.SCORE: score,
            kernels.LOGISTIC: logistic * inverse,
            kernels.HINGE: hinge * inverse,
            kernels.SQUARED: min(max(score, 0.0), 1.0) * inverse,
        }
        for link, value in expected.items():
            assert kernels.rank(link, inverse, np.float32(score)) == np.float32(value), link


@pytest.mark.parametrize("features", [1, 63, 64, 65, 130])
def test_a_block_of_weights_has_the_bias_last(features: int) -> None:
    weights = RNG.standard_normal((9, features)).astype(np.float32)
    bias = RNG.standard_normal(9).astype(np.float32)
    out = np.full((features + 1, 32), 7, np.float32)
    kernels.interleave(weights, bias, 2, 7, out)
    np.testing.assert_array_equal(out[:, :5], np.c_[weights, bias][2:7].T)
    assert (out[:, 5:] == 7).all()


def best(scores: np.ndarray, k: int) -> np.ndarray:
    """The k best labels of every row, smaller labels first among equals."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("k", [1, 3, 8])
def test_dense_and_sparse_weights_rank_alike(k: int) -> None:
    """Whole numbers, so that scores are exact and many are equal."""
    n, d, labels = 40, 6, 8
    x = RNG.integers(-1, 2, (n, d)).astype(np.float32) * (RNG.random((n, d)) < 0.5)
    weights = RNG.integers(-1, 2, (labels, d)).astype(np.float32) * (RNG.random((labels, d)) < 0.4)
    bias = RNG.integers(-1, 2, labels).astype(np.float32)
    inverse = np.ones(labels)
    scores = (x @ weights.T + bias).astype(np.float32)
    expected = best(scores, k)

    heap, values = np.full((n, k), -1, np.int32), np.zeros((n, k), np.float32)
    sizes = np.zeros(n, np.int64)
    for first in (0, 5):
        count = min(5, labels - first)
        block = np.ascontiguousarray(scores[:, first : first + count])
        kernels.offer_block(block, first, count, kernels.SCORE, inverse, heap, values, sizes)
    assert (sizes == k).all()
    kernels.drain(heap, values, sizes)
    np.testing.assert_array_equal(heap, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(scores, expected, 1))

    rows, columns = sp.csr_array(x), sp.csr_array(weights.T)
    order = np.argsort(-bias, kind="stable")
    heap, values = np.full((n, k), -1, np.int32), np.zeros((n, k), np.float32)
    for start, stop in ((0, 13), (13, n)):
        kernels.sparse(
            (rows.indptr, rows.indices, rows.data),
            (columns.indptr, columns.indices, columns.data),
            bias, order, kernels.SCORE, inverse, start, stop, heap, values,
        )  # fmt: skip
    np.testing.assert_array_equal(heap, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(scores, expected, 1))
