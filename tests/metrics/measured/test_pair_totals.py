"""Intervals of means from samples: mirrored, exact at the ends, roots of Wilson's equation."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

from unmask.metrics.measured.pair_totals import _crossing, mean_interval


def ends_of(
    mean: float, spread: float, m: int, population: int, confidence: float
) -> tuple[float, float]:
    low, high = mean_interval(mean, spread, m, population, confidence)
    return float(low), float(high)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("m", [1, 7, 400])
@pytest.mark.parametrize("mean", [0.0, 1e-3, 0.2, 0.5, 0.97, 1.0])
def test_what_holds_for_yes_holds_for_no(mean: float, m: int, confidence: float) -> None:
    spread = mean * (1 - mean)
    low, high = ends_of(mean, spread, m, 1000, confidence)
    mirrored = ends_of(1 - mean, spread, m, 1000, confidence)
    assert (1 - high, 1 - low) == pytest.approx(mirrored, abs=1e-12)
    assert 0 <= low <= mean <= high <= 1


@pytest.mark.parametrize(("spread", "share"), [(0.05, 1.0), (0.16, 1.0), (0.64, 0.25)])
def test_ends_solve_the_equation_of_wilson(spread: float, share: float) -> None:
    """(mean − p)² = z² p(1 − p)/draws; what varies more than yes and no is worth fewer draws."""
    m, population, mean = 30, 101, 0.2
    draws = share * m / ((population - m) / (population - 1))
    z = norm.ppf(0.95)
    for end in ends_of(mean, spread, m, population, 0.9):
        assert (mean - end) ** 2 == pytest.approx(z * z * end * (1 - end) / draws)


def test_a_sample_without_a_hit_excludes_what_would_have_shown_one() -> None:
    low, high = ends_of(0.0, 0.0, 20, 10**9, 0.9)
    assert low == 0
    assert (1 - high) ** 20 == pytest.approx(0.05, rel=1e-6)
    low, high = ends_of(0.0, 0.0, 20, 41, 0.9)  # half of the rest: worth more draws
    assert (1 - high) ** (20 / ((41 - 20) / 40)) == pytest.approx(0.05)
    assert math.isclose(ends_of(1.0, 0.0, 20, 41, 0.9)[0], 1 - high)
    assert ends_of(0.4, 0.24, 41, 41, 0.9) == (0.4, 0.4)
    assert ends_of(0.4, 0.24, 40, 41, 0.9) != (0.4, 0.4)


def test_a_falling_function_crosses_where_it_is_zero_or_at_the_nearer_end() -> None:
    for slope in (0.25, 0.5, 1.0):
        assert _crossing(lambda x, slope=slope: 0.4 - slope * x, 0.0, 2.0) == pytest.approx(
            min(0.4 / slope, 2.0), abs=1e-12
        )
    assert _crossing(lambda x: 1 - 0.5 * x, 0.25, 1.0) == 1.0
    assert _crossing(lambda x: -x, 0.25, 1.0) == 0.25
