"""Loops of the likelihood of observed labels, −ln(1 − p σ(z)), beside mpmath and float64 sums."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from unmask._kernels import linear_smooth as kernels

BLOCK = kernels.BLOCK
CHANCES = (1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 1e-6, 1.0)
MARGINS = (-40.0, -3.5, -0.25, 0.0, 0.125, 0.75, 2.0, 9.0, 30.0)
SOME = (0.02, 0.4, 0.75, 0.98)


def exactly(p: float, z: float) -> tuple[float, float, float]:
    """ℓ₋ and its first two derivatives, with sixty digits."""
    with mpmath.workdps(60):
        sigma = 1 / (1 + mpmath.exp(-mpmath.mpf(z)))
        left = 1 - mpmath.mpf(p) * sigma
        first = mpmath.mpf(p) * sigma * (1 - sigma) / left
        second = first * (1 - 2 * sigma) + first**2
        return float(-mpmath.log(left)), float(first), float(second)


def mask_of(chances: NDArray[np.float64]) -> NDArray[np.float32]:
    """p, 1 − p, ln(1 − p) and ln p of all lanes."""
    absent = 1 - chances
    shift = np.where(absent > 0, np.log(np.maximum(absent, 1e-300)), kernels.NEVER)
    return np.array([chances, absent, shift, np.log(chances)], dtype=np.float32)


@pytest.mark.parametrize("p", CHANCES)
def test_one_margin(p: float) -> None:
    shift = math.log(1 - p) if p < 1 else kernels.NEVER
    for z in MARGINS:
        made = kernels.masked_scalar(p, 1 - p, shift, math.log(p), z)
        value, first, second = exactly(p, z)
        assert made[0] == pytest.approx(value, rel=1e-9)
        assert made[1] == pytest.approx(first, rel=1e-9)
        assert made[2] == pytest.approx(second, rel=1e-6, abs=1e-9 * first)


def lanes_of_chances() -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    chances = np.resize(np.float64(np.float32(SOME)), BLOCK)
    return chances, mask_of(chances)


def test_slopes_and_curvatures_of_eight_margins() -> None:
    chances, mask = lanes_of_chances()
    z = np.repeat(np.array(MARGINS, np.float32)[:, None], BLOCK, axis=1)
    slope, curve = np.empty_like(z), np.empty_like(z)
    weight = np.linspace(0.5, 1.5, len(z), dtype=np.float32)
    kernels.differentiate(kernels.LIKELIHOOD, mask, 2.5, z, weight, slope, curve)
    for i, lane in np.ndindex(z.shape):
        _, first, second = exactly(chances[lane], float(z[i, lane]))
        c = 2.5 * float(weight[i])
        assert slope[i, lane] == pytest.approx(c * first, rel=1e-5)
        assert curve[i, lane] == pytest.approx(c * second, rel=1e-4, abs=1e-5 * c * first)


def drawn(n: int) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Margins, a direction, and what rows count."""
    rng = np.random.default_rng(n)
    z, u = (rng.normal(size=(n, BLOCK)).astype(np.float32) for _ in range(2))
    return 2 * z, u, rng.uniform(0.5, 1.5, n).astype(np.float32)


def sums_of(terms: list[tuple[float, float, float, float]]) -> list[float]:
    """Σ of ℓ, ℓ′u, ℓ′, ℓ″u², ℓ″u and ℓ″ over (ℓ, ℓ′, ℓ″, u)."""
    columns = [(f, g * u, g, h * u * u, h * u, h) for f, g, h, u in terms]
    return [math.fsum(column) for column in zip(*columns, strict=True)]


def test_sums_along_a_direction_count_no_negative_curvature() -> None:
    chances, mask = lanes_of_chances()
    z, u, weight = drawn(12)
    step, shift = np.full((1, BLOCK), 0.5, np.float32), np.full((1, BLOCK), 0.25, np.float32)
    sums = np.full((6, BLOCK), 7.0)
    kernels.along(kernels.LIKELIHOOD, mask, z, u, weight, step, shift, 1, sums)
    bends_down = 0
    for lane in range(8, 16):
        terms = []
        for i in range(12):
            margin = float(z[i, lane]) + 0.5 * float(u[i, lane]) + 0.25
            value, first, second = exactly(chances[lane], margin)
            bends_down += second < 0
            w = float(weight[i])
            terms.append((w * value, w * first, w * max(second, 0.0), float(u[i, lane])))
        np.testing.assert_allclose(sums[:, lane], sums_of(terms), rtol=1e-4, atol=1e-5)
    assert bends_down > 3
    assert (np.delete(sums, np.s_[8:16], axis=1) == 7).all()


def logistic(z: float) -> tuple[float, float, float]:
    sigma = 1 / (1 + math.exp(-z))
    return math.log1p(math.exp(z)), sigma, sigma * (1 - sigma)


def test_entries_change_the_sums_to_those_of_the_logistic_loss() -> None:
    """On a lane's rows, weight + extra of the logistic loss takes the place of weight times ℓ₋."""
    chances, mask = lanes_of_chances()
    z, u, weight = drawn(12)
    rows, extra = np.array([1, 4, 5, 10], np.int32), np.array([0.5, -0.25, 3.0, 0.0])
    for lane in range(16, 20):
        sums = np.full((6, BLOCK), 1.0)
        kernels.along_entries(mask, weight, z, u, lane, 0.5, -0.25, rows, extra, sums)
        terms = []
        for more, i in zip(extra, rows, strict=True):
            margin, along = float(z[i, lane]) + 0.5 * float(u[i, lane]) - 0.25, float(u[i, lane])
            w = float(weight[i])
            new, old = logistic(margin), exactly(chances[lane], margin)
            parts = [(w + more) * a - w * b for a, b in zip(new, old, strict=True)]
            parts[2] += w * min(old[2], 0.0)  # of ℓ₋ no negative curvature was counted
            terms.append((*parts, along))
        expected = 1 + np.array(sums_of(terms))  # type: ignore[arg-type]
        np.testing.assert_allclose(sums[:, lane], expected, rtol=1e-5, atol=1e-5)
        assert (np.delete(sums, lane, axis=1) == 1).all()


def test_entries_have_slopes_of_the_logistic_loss() -> None:
    z, slope, weight = drawn(12)
    curve = slope.copy()
    before = slope.copy()
    rows, extra = np.array([1, 4, 5, 10], np.int32), np.array([0.5, -0.25, 3.0, 0.0])
    kernels.differentiate_entries(2.5, z, weight, 21, rows, extra, slope, curve)
    for more, i in zip(extra, rows, strict=True):
        _, first, second = logistic(float(z[i, 21]))
        c = 2.5 * (float(weight[i]) + more)
        assert slope[i, 21] == pytest.approx(c * first, rel=1e-6)
        assert curve[i, 21] == pytest.approx(c * second, rel=1e-6)
        before[i, 21] = slope[i, 21]
    np.testing.assert_array_equal(slope, before)
    others = np.delete(curve, 21, axis=1)
    np.testing.assert_array_equal(others, np.delete(before, 21, axis=1))
