"""Conjugate gradients on the rows of a node: products, and the optimum by a float64 oracle."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from unmask._kernels import tree_hinge as kernels
from unmask._kernels.linear_state import Entries, Rows, Settings

RNG = np.random.default_rng(11)
N, D = 150, 40
X = (RNG.random((N, D)) * (RNG.random((N, D)) < 0.2)).astype(np.float32)
X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)


def rows_of(x: np.ndarray) -> Rows:
    sparse = sp.csr_array(x)
    return Rows(sparse.indptr.astype(np.int64), sparse.indices.astype(np.uint32), sparse.data)


def entries_of(amount: np.ndarray) -> Entries:
    columns = sp.csc_array(amount.astype(float))
    return Entries(
        columns.indptr.astype(np.int64),
        columns.indices.astype(np.int32),
        columns.data,
        columns.data,
    )


def solved(x, amount, weight, settings, start):  # type: ignore[no-untyped-def]
    """Weights (children, features), biases, and how many ran out of steps."""
    d, children = x.shape[1], amount.shape[1]
    flat, bias, left, steps = kernels.solve(
        rows_of(x), d, entries_of(amount), weight.astype(np.float32), settings, start
    )
    assert 1 <= steps <= settings.iterations
    lanes = kernels.padded(children)
    blocks = [
        flat[d * first : d * min(first + kernels.BLOCK, lanes)].reshape(d, -1)
        for first in range(0, lanes, kernels.BLOCK)
    ]
    weights = np.concatenate(blocks, axis=1)
    assert not weights[:, children:].any()
    return weights[:, :children].T.astype(float), bias.astype(float), left


def objective(x, amount, weight, settings, w, bias):  # type: ignore[no-untyped-def]
    """Objectives of all children, and the lengths of their gradients, in float64."""
    z = x.astype(float) @ w.T + bias
    neg = weight[:, None] - amount
    up, down = np.maximum(1 - z, 0), np.maximum(1 + z, 0)
    slope = 2 * settings.cost * (neg * down - amount * up)
    value = settings.cost * (amount * up**2 + neg * down**2).sum(0)
    value += 0.5 * ((w**2).sum(1) + settings.penalty * bias**2)
    by_bias = (slope.sum(0) + settings.penalty * bias) * settings.bias
    gradient = np.c_[w + slope.T @ x.astype(float), by_bias]
    return value, np.linalg.norm(gradient, axis=1)


@pytest.mark.parametrize("lanes", [8, 16])
def test_products_with_the_features_and_their_transpose(lanes: int) -> None:
    x = X.copy()
    x[3] = 0.0
    x[5, :] = 0.0
    x[5, 7] = 1.0  # rows without features, and with one
    v = RNG.normal(size=(N, lanes)).astype(np.float32)
    w = np.full((D, lanes), 7.0, np.float32)
    kernels.lift(rows_of(x), v, w)
    np.testing.assert_allclose(w, x.astype(float).T @ v, atol=1e-5)
    out = np.full((N, lanes), 7.0, np.float32)
    kernels.lower(rows_of(x), w, out)
    np.testing.assert_allclose(out, x.astype(float) @ w, atol=1e-5)


@pytest.mark.parametrize("children", [1, 8, 11, 16, 24, 37])
@pytest.mark.parametrize(
    ("penalty", "with_bias", "start"), [(1.0, True, -1.1), (0.0, True, -1.1), (1.0, False, 0.0)]
)
def test_the_optimum_has_no_gradient(
    children: int, penalty: float, with_bias: bool, start: float
) -> None:
    amount = (RNG.random((N, children)) < 0.1).astype(float)
    settings = Settings(1.0, penalty, with_bias, 1e-7, 0.5, 200)
    weight = np.ones(N)
    w, bias, left = solved(X, amount, weight, settings, start)
    assert left == 0
    _, slope = objective(X, amount, weight, settings, w, bias)
    _, before = objective(X, amount, weight, settings, 0 * w, np.full(children, start))
    assert (slope < 3e-3 * before + 1e-3).all()
    assert with_bias or not bias.any()


def test_rows_and_labels_of_any_weight() -> None:
    weight = RNG.uniform(0.5, 3.0, N)
    amount = weight[:, None] * RNG.random((N, 20)) * (RNG.random((N, 20)) < 0.2)
    settings = Settings(0.7, 1.0, True, 1e-7, 0.5, 200)
    w, bias, left = solved(X, amount, weight, settings, -1.1)
    value, slope = objective(X, amount, weight, settings, w, bias)
    assert left == 0
    assert (slope < 2e-2).all()
    rough, bias_of_rough, _ = solved(X, amount, weight, settings._replace(tol=0.02), -1.1)
    coarse, _ = objective(X, amount, weight, settings, rough, bias_of_rough)
    assert (value <= coarse * (1 + 1e-6)).all()
    assert (coarse < 1.05 * value).all()


def test_a_child_does_not_depend_on_its_neighbours() -> None:
    amount = (RNG.random((N, 40)) < 0.1).astype(float)
    settings = Settings(1.0, 1.0, True, 0.005, 0.5, 100)
    w, bias, _ = solved(X, amount, np.ones(N), settings, -1.1)
    for children in (slice(0, 8), slice(16, 40), slice(9, 26)):
        alone, bias_alone, _ = solved(X, amount[:, children], np.ones(N), settings, -1.1)
        np.testing.assert_array_equal(alone, w[children])
        np.testing.assert_array_equal(bias_alone, bias[children])


def test_children_without_rows_and_nodes_without_rows() -> None:
    amount = np.zeros((N, 3))
    amount[:, 1] = 1.0  # every row
    settings = Settings(1.0, 1.0, True, 1e-6, 0.5, 100)
    w, bias, left = solved(X, amount, np.ones(N), settings, -1.1)
    assert left == 0
    _, slope = objective(X, amount, np.ones(N), settings, w, bias)
    assert (slope < 1e-3 * N).all()
    w, bias, left = solved(
        np.zeros((0, 4), np.float32), np.zeros((0, 3)), np.ones(0), settings, -1.1
    )
    assert not w.any()
    assert not bias.any()
    assert left == 0


def test_children_that_run_out_of_steps_are_counted() -> None:
    amount = (RNG.random((N, 20)) < 0.3).astype(float)
    settings = Settings(10.0, 1.0, True, 1e-9, 0.5, 2)
    assert solved(X, amount, np.ones(N), settings, -1.1)[2] == 20
