"""Totals of pairs: by hand, roots of the equation of their ends, exact coverage of few."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, hypergeom, t

from unmask.data.judgements import Design, Judgements, Sample, Stratum
from unmask.metrics.measured.sampling import (
    Fraction,
    Totals,
    _crossing,
    kinds_of,
    of_counts,
    totals,
)


def share(relevant: np.ndarray, m: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the share of relevant pairs in one stratum, one per number that was found."""
    signs = np.ones(1), np.zeros(1)
    made = of_counts(relevant[:, None], np.array([m]), np.array([size]), signs, 0.95)
    return Fraction(made, 0.0, float(size), (0.0, 1.0)).interval()


def test_shares_near_0_and_1_are_covered_and_have_width_until_all_is_judged() -> None:
    """Over all outcomes, 92 % at least; the ends of no are those of yes, mirrored."""
    for m, size in ((10, 10**7), (30, 1000), (60, 1000), (300, 1000), (300, 10**7)):
        relevant = np.arange(m + 1)
        low, high = share(relevant, m, size)
        assert (high > low).all()
        np.testing.assert_allclose(low, 1 - high[::-1], atol=1e-9)
        for rate in (0.002, 0.01, 0.02, 0.1, 0.5, 0.98):
            true = round(rate * size)
            found = hypergeom(size, true, m) if size < 10**6 else binom(m, rate)
            inside = (low <= true / size) & (true / size <= high)
            assert found.pmf(relevant) @ inside >= 0.92, (m, size, rate)
    low, high = share(np.arange(41), 40, 40)
    np.testing.assert_allclose([low, high], [np.arange(41) / 40] * 2, atol=1e-12)


def test_strata_near_0_and_near_1_are_covered_together() -> None:
    """Half of the pairs hardly ever relevant, the others nearly always: errors do not cancel."""
    drawn, sizes = np.array([30, 30]), np.array([10**6, 10**6])
    counts = np.stack(np.meshgrid(np.arange(31), np.arange(31), indexing="ij"), axis=-1)
    made = of_counts(counts, drawn, sizes, (np.ones(2), np.zeros(2)), 0.95)
    low, high = Fraction(made, 0.0, 2e6, (0.0, 1.0)).interval()
    for rare in (0.0, 0.01, 0.03, 0.07, 0.2):
        for usual in (1.0, 0.99, 0.95, 0.9, 0.5):
            chance = np.outer(*(binom.pmf(np.arange(31), 30, each) for each in (rare, usual)))
            truth = (rare + usual) / 2
            assert (chance * ((low <= truth) & (truth <= high))).sum() >= 0.9, (rare, usual)


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


def test_predictions_of_which_chance_drew_none_still_count() -> None:
    """Of two strata of predictions, first places were drawn in one only."""
    strata = Stratum("top", 20, 2), Stratum("top", 40, 2), Stratum("far", 30, 1)
    stratum = np.array([0, 0, 1, 1, 2])
    sample = Sample(Design.PAIRS, (10, 9), strata, np.arange(5), np.arange(5), stratum)
    judged = Judgements(sample, np.zeros(5))
    kinds = kinds_of(judged, np.array([1.0, 0, 0, 0, 0]), np.zeros(5))
    assert kinds.stratum.tolist() == [0, 1]
    assert (kinds.largest.tolist(), kinds.above.tolist()) == ([1, 1], [1, 1])
    assert (totals(judged, kinds, 0.95).variance > 0).all()


def test_totals_of_kinds_by_hand() -> None:
    """a ½ and ¼ of 20 pairs, both relevant; of 30 pairs one of three; and a kind without any.

    Moments are those of what was found with a no and a yes more, shared as 2 : 3 : 3.
    """
    judged = Judgements(SAMPLE, np.array([1.0, 1, 0, 1, 1]))
    made = totals(judged, kinds_of(judged, ABOVE, BELOW), 0.9)
    assert (made.above.tolist(), made.below.tolist()) == ([1, -1, 0], [0, 0, 1])
    np.testing.assert_allclose(made.total, [10 * 0.75, 0, 30 / 3])
    assert made.degrees.tolist() == [1, 2, 2]
    for place, (y, m, size, largest) in enumerate(
        [([1, 0.5], 2, 20, 0.5), ([0, 0, 0], 3, 30, 1), ([0, 0, 1], 3, 30, 1)]
    ):
        values = np.r_[y, 0.0, 1.0]
        weights = np.r_[np.ones(m), np.full(2, m / 8)]
        mean = np.average(values, weights=weights)
        second, third = (np.average((values - mean) ** power, weights=weights) for power in (2, 3))
        each = (1 - m / size) / m
        assert made.variance[place] == pytest.approx((size * largest) ** 2 * each * second)
        assert made.growth[place] == pytest.approx(size * largest * each * third / second)


def test_totals_of_counts_are_those_of_their_pairs() -> None:
    judged = Judgements(SAMPLE, np.array([1.0, 0, 0, 1, 1]))
    one = totals(judged, kinds_of(judged, np.zeros(5), np.ones(5)), 0.9)
    other = of_counts([1, 2], np.array([2, 3]), np.array([20, 30]), (np.zeros(2), np.ones(2)), 0.9)
    for name in ("total", "variance", "growth", "degrees", "above", "below"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), err_msg=name)
    assert of_counts([], *(np.zeros(0, int),) * 2, (np.zeros(0),) * 2, 0.95).total.size == 0


def test_ends_solve_their_equation_either_side_by_its_own_growth() -> None:
    """(e − T)² = z² (v + κ (e − T)), degrees by Satterthwaite."""
    made = Totals(
        np.array([5.0, 3]), np.array([4.0, 1]), np.array([0.8, 0.3]), np.array([9.0, 4]),
        np.array([1.0, 0]), np.array([0.0, 1]), 0.9,
    )  # fmt: skip
    weights = np.array([1.0, -2])
    variance = 4 + 4 * 1
    z = t.ppf(0.95, variance**2 / (4**2 / 9 + 4**2 / 4))
    for side, growth in ((1, 4 * 0.8), (-1, 4 * 2 * 0.3)):
        reach = side * (made.end(weights, side) - (5 - 2 * 3))
        assert reach > 0
        assert reach**2 == pytest.approx(z**2 * (variance + growth / variance * reach))
    ratio = Fraction(made, above=1.0, below=10.0, limits=(0.0, 1.0))
    assert ratio.denominator == 13
    assert ratio.value == pytest.approx(6 / 13)
    assert ratio.standard_error == pytest.approx(np.sqrt(4 + (6 / 13) ** 2 * 1) / 13)
    for end, side in zip(ratio.interval(), (-1, 1), strict=True):
        assert 1 - 10 * end + made.end(np.array([1, -end]), side) == pytest.approx(0, abs=1e-9)
    narrow = Fraction(made, above=1.0, below=10.0, limits=(0.4, 0.5)).interval()
    assert narrow == pytest.approx((0.4, 0.5))
    empty = Fraction(Totals(*(np.zeros(0),) * 6, 0.95), above=0.0, below=0.0, limits=(0.0, 1.0))
    assert (float(empty.value), float(empty.standard_error)) == (0, np.inf)


@pytest.mark.parametrize("size", [1e-6, 0.25, 0.9, 1.0, 3.0])
def test_a_fraction_does_not_depend_on_the_unit(size: float) -> None:
    """Numerator and denominator in other units, as small as you like; of 0 it is 0."""
    one = Totals(np.array([2 * size]), np.array([0.04 * size**2]), np.array([0.1 * size]),
                 np.ones(1), np.ones(1), np.ones(1), 0.95)  # fmt: skip
    fraction = Fraction(one, 1.0 * size, 4.0 * size, (0.0, 1.0))
    assert float(fraction.value) == pytest.approx(3 / 6, rel=1e-12)
    assert float(fraction.denominator) == pytest.approx(6 * size, rel=1e-12)
    nothing = Fraction(one, 1.0 * size, -2.0 * size, (0.0, 1.0))
    assert float(nothing.value) == 0
