"""Totals of pairs and intervals of means: by hand, mirrored, roots of Wilson's equation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from unmask.data.judgements import Design, Judgements, Sample, Stratum
from unmask.metrics.intervals import wilson
from unmask.metrics.measured.pair_totals import (
    Fraction,
    Totals,
    _crossing,
    kinds_of,
    mean_interval,
    of_counts,
    totals,
)


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


STRATA = Stratum("top", 20, 2), Stratum("far", 30, 3)
SAMPLE = Sample(
    Design.PAIRS, (10, 5), STRATA, np.arange(5), np.arange(5), np.array([0, 0, 1, 1, 1])
)  # fmt: skip
"""Two of 20 pairs and three of 30."""
ABOVE, BELOW = np.array([0.5, 0.25, -1, 0, 0]), np.array([0.0, 0, 0, 0, 1])


def test_pairs_are_of_one_kind_that_share_stratum_and_signs() -> None:
    kinds = kinds_of(Judgements(SAMPLE, np.ones(5)), ABOVE, BELOW)
    assert kinds.place.tolist() == [0, 0, 1, -1, 2]
    assert kinds.size.tolist() == [1, 0.5, 1, 0, 1]
    assert kinds.stratum.tolist() == [0, 1, 1]
    assert kinds.largest.tolist() == [0.5, 1, 1]
    assert (kinds.above.tolist(), kinds.below.tolist()) == ([1, -1, 0], [0, 0, 1])
    assert kinds.summed(np.array([1.0, 2, 4, 8, 16])).tolist() == [3, 4, 16]
    nothing = kinds_of(Judgements(SAMPLE, np.ones(5)), np.zeros(5), np.zeros(5))
    assert (nothing.place.tolist(), nothing.size.tolist()) == ([-1] * 5, [0] * 5)


def test_totals_of_kinds_by_hand() -> None:
    """a ½ and ¼ of 20 pairs, both relevant; of 30 pairs one of three; and a kind without any."""
    judged = Judgements(SAMPLE, np.array([1.0, 1, 0, 1, 1]))
    made = totals(judged, kinds_of(judged, ABOVE, BELOW), 0.9)
    assert made.above.tolist() == [-1, 0, 1] * 2
    assert made.below.tolist() == [0, 1, 0] * 2
    np.testing.assert_allclose(made.total, [0, 30 / 3, 10 * 0.75, 0, 0, 0])
    spread = 1 + 0.25 - 2 * 0.75**2, (1 - 3 * (1 / 3) ** 2) / 2
    variance = 10**2 * 0.9 * spread[0] / 2, 30**2 * 0.9 * spread[1] / 3
    np.testing.assert_allclose(made.variance, [0, variance[1], variance[0], 0, 0, 0])
    z = norm.ppf(0.95)
    ends = [(0.0, 0.0)]
    for share, most, each in ((1 / 3, 30, variance[1]), (0.75, 10, variance[0])):
        low, high = wilson(share, share * (1 - share) * most**2 / each, z)
        ends.append((most * float(low), most * float(high)))
    reach = 30 * (1 - 0.05 ** ((30 - 3) / 29 / 3))
    np.testing.assert_allclose(made.low, [*(low for low, _ in ends), 0, 0, 0])
    np.testing.assert_allclose(made.high, [*(high for _, high in ends), reach, 0, 0])


def test_totals_of_counts_are_those_of_their_pairs() -> None:
    """Strata of the same signs are added; the worst of those without any is their upper end."""
    signs = np.array([1.0, 1, 0, 0]), np.ones(4)
    drawn, sizes = np.array([4, 5, 3, 6]), np.array([40, 10, 90, 600])
    made = of_counts([[1, 5, 0, 0], [0, 0, 1, 0]], drawn, sizes, signs, 0.95)
    assert made.above.tolist() == [0, 1, 0, 1]
    np.testing.assert_allclose(made.total, [[0, 10 + 10, 0, 0], [30, 0, 0, 0]])
    first = 40**2 * 0.9 * (0.25 * 0.75 * 4 / 3) / 4
    second = 90**2 * (1 - 3 / 90) * (1 / 3 * 2 / 3 * 3 / 2) / 3
    np.testing.assert_allclose(made.variance, [[0, first, 0, 0], [second, 0, 0, 0]])
    ends = [
        float(n * (1 - 0.025 ** ((n - m) / (n - 1) / m))) for m, n in zip(drawn, sizes, strict=True)
    ]
    expected = [[max(ends[2], ends[3]), 0], [ends[3], max(ends[0], ends[1])]]
    np.testing.assert_allclose(made.high[:, 2:], expected)
    assert not made.low[:, 2:].any()
    low, high = wilson(20 / 50, (20 / 50) * (30 / 50) * 50**2 / first, norm.ppf(0.975))
    np.testing.assert_allclose(
        [made.low[0, 1], made.high[0, 1]], [50 * float(low), 50 * float(high)]
    )
    one = of_counts([1], np.array([1]), np.array([9]), (np.ones(1), np.ones(1)), 0.95)
    assert one.total.tolist() == [9, 0]
    assert of_counts([], *(np.zeros(0, int),) * 2, (np.zeros(0),) * 2, 0.95).total.size == 0


def test_ends_of_sums_are_added_square_by_square_either_side_for_itself() -> None:
    made = Totals(
        np.array([5.0, 3]), np.array([2.0, 2]), np.array([9.0, 6]), np.array([4.0, 1]),
        np.array([1.0, 0]), np.array([0.0, 1]),
    )  # fmt: skip
    weights = np.array([1.0, -2])
    assert made.end(weights, -1) == pytest.approx(-1 - np.hypot(3, 2 * 3))
    assert made.end(weights, 1) == pytest.approx(-1 + np.hypot(4, 2 * 1))
    share = Fraction(made, above=1.0, below=10.0, limits=(0.0, 1.0))
    assert share.denominator == 13
    assert share.value == pytest.approx(6 / 13)
    assert share.standard_error == pytest.approx(np.sqrt(4 + (6 / 13) ** 2 * 1) / 13)
    low, high = share.interval()
    assert 1 + 5 - 13 * low == pytest.approx(np.hypot(3, low * 3))
    assert 1 + 5 - 13 * high == pytest.approx(-np.hypot(4, high * 1))
    narrow = Fraction(made, above=1.0, below=10.0, limits=(0.4, 0.5)).interval()
    assert narrow == pytest.approx((0.4, 0.5))
    empty = Fraction(Totals(*(np.zeros(0),) * 6), above=0.0, below=0.0, limits=(0.0, 1.0))
    assert (float(empty.value), float(empty.standard_error)) == (0, np.inf)


@pytest.mark.parametrize("size", [1e-6, 0.25, 0.9, 1.0, 3.0])
def test_a_fraction_does_not_depend_on_the_unit(size: float) -> None:
    """Numerator and denominator in other units, as small as you like; of 0 it is 0."""
    one = Totals(*(np.array([value * size]) for value in (2.0, 1.5, 2.5, 0.04)),
                 np.ones(1), np.ones(1))  # fmt: skip
    fraction = Fraction(one, 1.0 * size, 4.0 * size, (0.0, 1.0))
    assert float(fraction.value) == pytest.approx(3 / 6, rel=1e-12)
    assert float(fraction.denominator) == pytest.approx(6 * size, rel=1e-12)
    nothing = Fraction(one, 1.0 * size, -2.0 * size, (0.0, 1.0))
    assert float(nothing.value) == 0
