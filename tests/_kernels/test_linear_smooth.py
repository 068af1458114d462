"""Loops for losses that every row feels, beside the same sums in float64 and dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from unmask._kernels import linear_smooth as kernels
from unmask._kernels.linear_state import Rows

RNG = np.random.default_rng(8)
N, D, BLOCK = 11, 5, kernels.BLOCK
X = (RNG.standard_normal((N, D)) * (RNG.random((N, D)) < 0.5)).astype(np.float32)
ONES = np.ones((N, 1))
MASK = np.zeros((4, BLOCK), dtype=np.float32)  # of the likelihood alone
KINDS = [("logistic", kernels.LOGISTIC), ("squared_error", kernels.SQUARED_ERROR)]


def rows_of(features: np.ndarray) -> Rows:
    x = sp.csr_array(features)
    return Rows(x.indptr, x.indices.astype(np.int32).view(np.uint32), x.data)


def singles(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def wide(value: np.ndarray) -> np.ndarray:
    return value.astype(np.float64)


def test_products_with_the_features_include_the_bias() -> None:
    x, full = rows_of(X), np.c_[X, ONES]
    w, v, curve = singles(D + 1, BLOCK), singles(N, BLOCK), singles(N, BLOCK)
    out = singles(N, BLOCK)
    kernels.forward(x, w, out)
    np.testing.assert_allclose(out, full @ w, atol=1e-5)
    before = singles(D + 1, BLOCK)
    out = before.copy()
    kernels.backward(x, v, out)
    np.testing.assert_allclose(out, before + full.T @ v, atol=1e-5)
    out = before.copy()
    kernels.bend(x, w, curve, out)
    np.testing.assert_allclose(out, before + full.T @ (curve * (full @ w)), atol=1e-4)


def test_moving_and_combining_is_lane_by_lane() -> None:
    z, u = singles(N, BLOCK), singles(N, BLOCK)
    step, shift = singles(1, BLOCK), singles(1, BLOCK)
    wanted = z + step * u + shift
    kernels.move(z, u, step, shift)
    np.testing.assert_allclose(z, wanted, atol=1e-6)
    x, y = singles(D + 1, BLOCK), singles(D + 1, BLOCK)
    wanted = step * x + shift * y
    kernels.combine(x, step, y, shift)
    np.testing.assert_allclose(x, wanted, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 2, 257, 258, 513])
def test_sums_of_products_have_the_bias_apart(rows: int) -> None:
    """Tiles of 256 rows, and what is left over."""
    x, y = singles(rows, BLOCK), singles(rows, BLOCK)
    product = wide(x) * wide(y)
    expected = np.array([product[:-1].sum(0), product[-1]])
    np.testing.assert_allclose(kernels.dots(x, y), expected, atol=1e-4)


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_slopes_and_curvatures_are_those_of_the_losses(name: str, kind: int) -> None:
    z = np.linspace(-30, 30, N * BLOCK, dtype=np.float32).reshape(N, BLOCK)
    slope, curve = np.empty_like(z), np.empty_like(z)
    weight = np.linspace(0, 2, N, dtype=np.float32)
    kernels.differentiate(kind, MASK, 2.5, z, weight, slope, curve)
    first, second = derivatives(name, wide(z))
    np.testing.assert_allclose(slope, 2.5 * weight[:, None] * first, rtol=2e-6)
    np.testing.assert_allclose(curve, 2.5 * weight[:, None] * second, rtol=5e-6)
    for margin in (-300.0, -3.0, -1e-9, 0.0, 1e-9, 0.5, 300.0):
        value = np.logaddexp(0, margin) if name == "logistic" else margin**2
        expected = float(value), *map(float, derivatives(name, np.float64(margin)))
        assert kernels.negative_scalar(kind, margin) == pytest.approx(expected, rel=1e-13)


def derivatives(name: str, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ℓ₋′ and ℓ₋″ in float64."""
    if name == "squared_error":
        return 2 * z, 2 + 0 * z
    small = np.exp(-np.abs(z))
    return np.where(z > 0, 1.0, small) / (1 + small), small / (1 + small) ** 2


def sums_of(name: str, z: np.ndarray, u: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Σ weight·ℓ₋ and its derivatives by t, s, tt, ts and ss, at margins z, in float64."""
    value = np.logaddexp(0, z) if name == "logistic" else z * z
    first, second = derivatives(name, z)
    parts = (value, first * u, first, second * u * u, second * u, second)
    return np.array([(weight * part).sum(0) for part in parts])


@pytest.mark.parametrize("rows", [1, 256, 300])
@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_sums_along_a_direction(name: str, kind: int, rows: int) -> None:
    """A group of eight lanes is written, whatever it held; the others are left alone."""
    z, u, step, shift = (singles(n, BLOCK) for n in (rows, rows, 1, 1))
    sums = np.full((6, BLOCK), 7.0)
    weight = np.linspace(0.5, 1.5, rows, dtype=np.float32)
    kernels.along(kind, MASK, z, u, weight, step, shift, 2, sums)
    expected = sums_of(name, wide(z) + wide(step) * u + shift, wide(u), wide(weight)[:, None])
    np.testing.assert_allclose(sums[:, 16:24], expected[:, 16:24], rtol=1e-4, atol=1e-3)
    assert (np.delete(sums, np.s_[16:24], axis=1) == 7.0).all()


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_extra_rows_of_one_lane(name: str, kind: int) -> None:
    z, u, lane = singles(N, BLOCK), singles(N, BLOCK), 19
    rows, extra = np.array([2, 3, 9], np.int32), np.array([0.5, -0.25, 4.0])
    sums = np.full((6, BLOCK), 1.0)
    kernels.along_extra(kind, z, u, lane, 0.7, -0.3, rows, extra, sums)
    there = wide(z[rows, lane]) + 0.7 * u[rows, lane] - 0.3
    expected = 1.0 + sums_of(name, there, wide(u[rows, lane]), extra)
    np.testing.assert_allclose(sums[:, lane], expected, rtol=1e-6)
    assert (np.delete(sums, lane, axis=1) == 1.0).all()


def test_rows_of_one_lane_are_scaled_added_and_lifted() -> None:
    x, lane, rows = rows_of(X), 3, np.array([0, 4, 10], np.int32)
    extra = np.array([0.5, -0.25, 4.0])
    slope, curve = singles(N, BLOCK), singles(N, BLOCK)
    factor = np.ones((N, BLOCK))
    factor[rows, lane] = 1 + extra
    expected = slope * factor, curve * factor
    kernels.scale_rows(slope, curve, lane, rows, extra)
    np.testing.assert_allclose(slope, expected[0], rtol=1e-6)
    np.testing.assert_allclose(curve, expected[1], rtol=1e-6)
    out = np.zeros((D + 1, BLOCK), np.float32)
    out[:, lane] = 1
    kernels.add_rows(x, lane, rows, extra, out)
    np.testing.assert_allclose(out[:, lane], 1 + np.c_[X, ONES][rows].T @ extra, atol=1e-5)
    assert (np.delete(out, lane, axis=1) == 0).all()
    d = singles(D + 1, BLOCK)
    lifted = kernels.lift(x, lane, rows, extra, d)
    assert lifted == pytest.approx(extra @ (wide(X[rows]) @ d[:-1, lane]), rel=1e-5)
