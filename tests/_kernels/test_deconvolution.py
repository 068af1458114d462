"""Loops of the deconvolution: EM steps by definition, the leap over them, strata and units."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unmask._kernels import deconvolution as kernels

KERNEL = np.array([[0.5, 0.1, 0.2], [0.3, 0.3, 0.2], [0.1, 0.4, 0.2], [0.1, 0.2, 0.4]])
SHARE = np.array([0.4, 0.0, 0.35, 0.25])
START = np.array([0.2, 0.3, 0.5])


def step(before: np.ndarray) -> tuple[np.ndarray, float, float]:
    """The EM step, the likelihood before it, and the largest gain."""
    fitted = KERNEL @ before
    ratio = KERNEL.T @ (SHARE / fitted)
    likelihood = math.fsum(s * math.log(f) for s, f in zip(SHARE, fitted, strict=True) if s)
    return before * ratio, likelihood, float(ratio.max())


def test_a_step_of_em() -> None:
    after = np.full(3, 7.0)
    likelihood, gain = kernels._step(KERNEL, SHARE, START, after)
    wanted, wanted_likelihood, wanted_gain = step(START)
    np.testing.assert_allclose(after, wanted, rtol=1e-13)
    assert (likelihood, gain) == pytest.approx((wanted_likelihood, wanted_gain), rel=1e-13)
    assert after.sum() == pytest.approx(1)
    assert step(after)[1] > likelihood  # it never falls


def test_cells_that_nothing_explains_do_not_divide_by_zero() -> None:
    kernel, after = np.array([[1.0, 0.0], [0.0, 0.0]]), np.empty(2)
    likelihood, gain = kernels._step(kernel, np.array([0.5, 0.5]), np.array([0.5, 0.5]), after)
    assert likelihood == pytest.approx(0.5 * math.log(0.5) + 0.5 * math.log(1e-300))
    assert gain == pytest.approx(1.0)
    np.testing.assert_allclose(after, [0.5, 0.0])


@pytest.mark.parametrize("ratio", [0.3, 0.9, 0.99])
def test_a_leap_ends_where_a_geometric_series_would(ratio: float) -> None:
    """x + rⁿ v with n = 0, 1, 2: the extrapolation is x, exactly."""
    end, v = np.array([0.3, 0.5, 0.2]), np.array([0.05, -0.02, -0.03])
    leap = np.empty(3)
    kernels._extrapolate(end + v, end + ratio * v, end + ratio**2 * v, leap)
    np.testing.assert_allclose(leap, end, rtol=1e-9)


def test_a_leap_is_no_shorter_than_two_steps_and_stays_positive() -> None:
    """Where steps grow, α is 1 and the leap is the second step; what falls below 0 is revived."""
    start, first, second = (
        np.array([0.4, 0.6]), np.array([0.45, 0.55]), np.array([0.6, 0.4])
    )  # fmt: skip
    leap = np.empty(2)
    kernels._extrapolate(start, first, second, leap)
    np.testing.assert_allclose(leap, second, rtol=1e-12)
    kernels._extrapolate(
        np.array([0.1, 0.9]), np.array([0.05, 0.95]), np.array([0.0251, 0.9749]), leap
    )
    assert 0 < leap[0] < 1e-3
    assert leap.sum() == pytest.approx(1, rel=1e-12)
    still = np.array([0.25, 0.75])
    kernels._extrapolate(still, still, still, leap)
    np.testing.assert_array_equal(leap, still)
    # a straight line of equal steps: α is at its limit
    line = [np.array([0.5 - n * 1e-6, 0.5 + n * 1e-6]) for n in range(3)]
    kernels._extrapolate(*line, leap)
    reach = 2 * kernels._LONGEST * 1e-6
    np.testing.assert_allclose(leap, [0.5 - reach, 0.5 + reach], rtol=1e-4)


def cycle(weights: np.ndarray) -> np.ndarray:
    """Two steps, the leap, a step from there, unless it lost likelihood."""
    (first, before, _), leap = step(weights), np.empty(3)
    second = step(first)[0]
    kernels._extrapolate(weights, first, second, leap)
    third, reached, _ = step(leap)
    return third if reached >= before else second


def maximized(start: int, stop: int, tolerance: float, steps: int):  # type: ignore[no-untyped-def]
    weights, gap = np.tile(START, (3, 1)), np.full(3, -7.0)
    shares, rows = np.tile(SHARE, (3, 1)), np.array([10.0, 20.0, 30.0])
    used = kernels.maximize(start, stop, KERNEL, shares, rows, tolerance, steps, weights, gap)
    return used, weights, gap


@pytest.mark.parametrize(("steps", "cycles"), [(1, 1), (3, 1), (4, 2), (6, 2), (7, 3)])
def test_cycles_of_three_steps(steps: int, cycles: int) -> None:
    """Problems from `start` to before `stop`; each gap is rows times the largest gain less 1."""
    used, weights, gap = maximized(1, 3, 0.0, steps)
    assert used == 3 * cycles
    wanted, last = START, START
    for _ in range(cycles):
        wanted, last = cycle(wanted), wanted
    np.testing.assert_allclose(weights[1:], [wanted, wanted], rtol=1e-9)
    np.testing.assert_array_equal(weights[0], START)
    gain = step(last)[2] - 1
    np.testing.assert_allclose(gap, [-7, 20 * gain, 30 * gain], rtol=1e-9)


def test_a_problem_is_over_when_its_gap_is_small_enough() -> None:
    gain = step(START)[2] - 1
    used, weights, gap = maximized(0, 2, 15 * gain, 100)
    np.testing.assert_allclose(weights[0], step(START)[0], rtol=1e-12)
    assert gap[0] == pytest.approx(10 * gain)
    assert used > 1
    assert gap[1] <= 15 * gain
    assert maximized(0, 1, 10 * gain * (1 + 1e-9), 100)[0] == 1
    assert maximized(0, 1, 10 * gain * (1 - 1e-9), 100)[0] > 1


def test_a_leap_that_loses_likelihood_is_not_taken() -> None:
    """Every start on a grid: the likelihood after a cycle is at least that after two steps less a
    rounding, and both cases occur."""
    taken = set()
    for a in range(1, 12):
        for b in range(1, 12 - a):
            start = np.array([a, b, 12 - a - b]) / 12
            weights, gap = start[None].copy(), np.empty(1)
            kernels.maximize(0, 1, KERNEL, SHARE[None], np.ones(1), 0.0, 1, weights, gap)
            first, before, _ = step(start)
            assert step(weights[0])[1] >= before - 1e-12
            taken.add(bool(np.allclose(weights[0], step(first)[0], rtol=1e-12)))
    assert False in taken


def test_strata_are_bands_of_the_mean_inverse_propensity() -> None:
    """Band b ends at 2^((b + 0.55)/2); the last is open, and nothing predicted is in the first."""
    assert kernels.stratum(0.0, 0) == kernels.stratum(1e9, 0) == 0
    for band in range(1, kernels.STRATA):
        edge = 2.0 ** ((band - 0.45) / 2)
        for count in (1, 3):
            assert kernels.stratum(edge * count * (1 - 1e-12), count) == band - 1
            assert kernels.stratum(edge * count * (1 + 1e-12), count) == band
    assert kernels.stratum(1e12, 2) == kernels.STRATA - 1


def test_units_are_rounded_and_limited() -> None:
    for inverse in (1.0, 1.5, 3.0000001, 1e5):
        assert kernels.fixed(inverse) == math.floor(inverse * 2**24 + 0.5)
        assert kernels.squared(inverse) == math.floor(min(inverse**2, 2.0**30) * 16 + 0.5)
    assert kernels.fixed(1e30) == 2 ** (38 + 24)
    assert kernels.squared(1e30) == 2**34
