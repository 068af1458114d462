"""Control variates: means, folds and variances over strata, by hand and by their equations.

Totals of pairs: by hand, roots of the equation of their ends, exact coverage of few. Control
variates of pairs: slopes by their equations, totals by loops over folds.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, hypergeom, t

from unmask.data.judgements import Design, Judgements, Sample, Stratum
from unmask.metrics.measured.context import Columns
from unmask.metrics.measured.sampling import (
    Fraction,
    PairCovariates,
    RowSample,
    Totals,
    _crossing,
    _narrowed,
    _slope,
    adjusted,
    controlled,
    folds_of,
    kinds_of,
    of_counts,
    ridge,
    totals,
    variance,
)

STRATUM = np.array([0, 0, 0, 1, 1])
SIZES = np.array([30, 10])
RESIDUALS = np.array([0.0, 1.0, 2.0, 1.0, 3.0])
WITHIN = np.array([0.3, 0.6, 0.9, -5.0, -7.0])


@pytest.mark.parametrize(
    ("estimated", "within", "open_shares", "inner"),
    [
        (False, None, (0.9, 0.8), (0.0, 0.0)),
        (True, None, (1.0, 1.0), (0.0, 0.0)),  # what is not known within rows may be all
        (True, WITHIN, (0.9, 0.8), (0.6 / 30, 0.0)),  # what is below 0 counts as 0
    ],
)
def test_every_stratum_counts_by_its_share_of_rows(
    estimated: bool,
    within: np.ndarray | None,
    open_shares: tuple[float, float],
    inner: tuple[float, float],
) -> None:
    sample = RowSample(np.arange(5), STRATUM, SIZES, RESIDUALS[:, None], within, estimated)
    largest = 0.5
    spreads = (2 + largest * 3 / 5) / 3, (2 + largest * 2 / 5) / 2
    expected = sum(
        share**2 * (open_share * spread / m + more)
        for share, open_share, spread, m, more in zip(
            (0.75, 0.25), open_shares, spreads, (3, 2), inner, strict=True
        )
    )
    assert variance(sample, RESIDUALS, largest) == pytest.approx(expected, rel=1e-12)


def test_a_single_row_of_a_stratum_has_the_largest_spread_that_is_possible_or_was_seen() -> None:
    sample = RowSample(np.arange(3), np.array([0, 0, 1]), np.array([4, 6]), np.zeros((3, 1)))
    for largest, seen, unknown in ((0.25, 2.0, 1.0), (0.25, 0.2, 0.25), (3.0, 2.0, 3.0)):
        other = (seen**2 / 2 + largest * 2 / 3) / 2
        expected = 0.4**2 * (1 - 2 / 4) * other / 2 + 0.6**2 * (5 / 6) * unknown
        residuals = np.array([0.0, seen, 9])
        assert variance(sample, residuals, largest) == pytest.approx(expected, rel=1e-12)


def test_plain_means_are_those_of_strata_that_were_judged() -> None:
    values = np.array([[1.0, 10], [3, 20], [5, 60]])
    sample = RowSample(np.array([2, 0, 9]), np.array([0, 0, 2]), np.array([6, 5, 4]), values)
    for covariates in (
        None,
        Columns.of(np.arange(15.0)[:, None]),
    ):
        made = controlled(sample, covariates, (0, 1))
        np.testing.assert_allclose(made.means, [(6 * 2 + 4 * 5) / 10, (6 * 15 + 4 * 60) / 10])
        np.testing.assert_allclose(made.residuals, [[-1, -5], [1, 5], [0, 0]])


def test_covariates_have_mean_zero_and_variance_one_or_are_left_out() -> None:
    values = np.array([[1.0, 5, 1e9, 0], [2, 5, 1e9 + 1e-4, 0], [6, 5, 1e9, 0]])
    made = Columns.of(values).at(slice(None))
    np.testing.assert_allclose(made, np.array([[-2], [-1], [3]]) / np.sqrt(14 / 3))


def test_ridge_predictions_solve_their_equations() -> None:
    """Σ (r − a − b z) = 0 and Σ (z − z̄)(r − a − b z) = 10 b; sums are of what limits leave."""
    rng = np.random.default_rng(0)
    columns, values = Columns.of(rng.standard_normal((1100, 2)) + 4), rng.random((7, 2))
    rows, z = np.array([3, 9, 1, 20, 28, 14, 7]), columns.at(slice(None))
    slope, intercept = ridge(z[rows], values)
    made = z @ slope + intercept
    left = values - made[rows]
    np.testing.assert_allclose(left.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(z[rows].T @ left, 10 * slope, atol=1e-12)
    low, high = np.array([0.4, 0.0]), np.array([0.5, 0.3])
    sums = columns.clipped_sums(slope, intercept, low, high)
    np.testing.assert_allclose(sums, np.clip(made, low, high).sum(axis=0), rtol=1e-13)


def test_folds_are_even_within_strata() -> None:
    stratum = np.array([0] * 7 + [1] * 5)
    made = folds_of(stratum, 3, seed=1)
    assert np.bincount(made[:7]).tolist() == [3, 2, 2]
    assert np.bincount(made[7:]).tolist() == [2, 2, 1]
    assert made.tolist() != folds_of(stratum, 3, seed=2).tolist()


@pytest.mark.parametrize(("sizes", "folds"), [([12], 10), ([4, 9], 4), ([2, 14], 2)])
def test_controlled_means_are_means_over_folds(sizes: list[int], folds: int) -> None:
    """Rows of other folds as they are, all others as predicted, plus residuals by stratum."""
    rng = np.random.default_rng(4)
    stratum = np.repeat(np.arange(len(sizes)), sizes)
    of_strata = np.array([40, 25])[: len(sizes)]
    rows = rng.permutation(int(of_strata.sum()))[: stratum.size]
    x, values = rng.random((int(of_strata.sum()), 2)), rng.random((stratum.size, 1))
    known = Columns.of(x)
    made = controlled(RowSample(rows, stratum, of_strata, values), known, (0, 1), seed=3)
    fold, z, means = folds_of(stratum, folds, 3), known.at(slice(None)), []
    for each in range(folds):
        inside = np.flatnonzero(fold != each)
        slope, intercept = ridge(z[rows[inside]], values[inside])
        f = np.clip(z @ slope[:, 0] + intercept, 0, 1)
        others = np.setdiff1d(np.arange(len(x)), rows[inside])
        total = values[inside, 0].sum() + f[others].sum()
        for h, size in enumerate(of_strata):
            mine = np.flatnonzero((fold == each) & (stratum == h))
            residuals = values[mine, 0] - f[rows[mine]]
            np.testing.assert_allclose(made.residuals[mine, 0], residuals)
            if mine.size:
                total += (size - (stratum[inside] == h).sum()) * residuals.mean()
        means.append(total / len(x))
    shares = np.bincount(fold) / fold.size
    assert made.means[0] == pytest.approx(shares @ means, rel=1e-12)


def test_without_anything_to_go_by_every_judged_row_counts_alike() -> None:
    """15 rows in 10 folds: a covariate that says nothing leaves the plain mean, and its ends."""
    rng = np.random.default_rng(0)
    for m in (11, 15, 19, 23):
        values = np.zeros((m, 1))
        values[rng.permutation(m)[: m // 3]] = 1.0
        sample = RowSample(np.arange(m), np.zeros(m, dtype=np.int64), np.array([10**6]), values)
        made = controlled(sample, Columns.of(np.ones((10**6, 1))), (0, 1))
        assert made.means[0] == pytest.approx(values.mean(), abs=1e-5)


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


OF_PAIR = np.array([0, 0, 0, 0, 1, 1, 1])
PAIR_STRATA = Stratum("top", 12, 4), Stratum("far", 40, 3)
PAIRS_SAMPLE = Sample(Design.PAIRS, (13, 4), PAIR_STRATA, np.arange(7), np.zeros(7, int), OF_PAIR)
JUDGED = Judgements(PAIRS_SAMPLE, np.array([1.0, 0, 1, 1, 0, 1, 0]))
X = np.array([[0.9, 1], [0.2, 2], [0.7, 3], [0.4, 1], [0.1, 5], [0.8, 2], [0.3, 2.5]])
PAIRS_DRAWN, PAIRS = np.array([4, 3]), np.array([12.0, 40.0])


@pytest.mark.parametrize("used", [[0, 1, 2, 4, 5, 6], list(range(7)), [0, 1, 4, 6], [1, 4, 6]])
def test_slopes_solve_the_equations_of_a_weighted_ridge_regression(used: list[int]) -> None:
    """Σ w (x − x̄)(y − ȳ − b (x − x̄)) = 10/Σy · b Σ w (x − x̄)², means by stratum."""
    chosen = np.isin(np.arange(7), used)
    worth = np.array([1.0, 1, 0.5, 1, -2, -2, -2])
    slope = _slope(JUDGED, X, worth, chosen, PAIRS_DRAWN, PAIRS)
    right, gram = np.zeros(2), np.zeros((2, 2))
    for h in (0, 1):
        mine = [i for i in used if OF_PAIR[i] == h]
        share = PAIRS[h] / PAIRS_DRAWN[h]
        weight = share**2 * (1 - 1 / share)
        both = np.c_[JUDGED.answers, X][mine] * worth[mine, None]
        both = both - both.mean(axis=0)
        right += weight * both[:, 1:].T @ both[:, 0]
        gram += weight * both[:, 1:].T @ both[:, 1:]
    shrunk = np.diag(gram) * 10 / max(JUDGED.answers[used].sum(), 1)
    np.testing.assert_allclose((gram + np.diag(shrunk)) @ slope, right, atol=1e-10)


def test_a_covariate_without_spread_has_no_slope() -> None:
    flat = np.c_[X[:, 0], np.full(7, 3.0)]
    slope = _slope(JUDGED, flat, np.ones(7), np.ones(7, bool), PAIRS_DRAWN, PAIRS)
    assert slope[1] == pytest.approx(0.0, abs=1e-12)
    assert slope[0] > 0


def test_fractions_take_out_what_covariates_foresee_and_add_it_as_known() -> None:
    """Three folds; what is judged stays, the rest of a stratum has the mean of the fold."""
    above = np.r_[np.ones(4), np.zeros(3)]
    kinds = kinds_of(JUDGED, above, np.ones(7))
    plain = Fraction(totals(JUDGED, kinds, 0.95), 2.0, 5.0, (0.0, 1.0))
    known = PairCovariates(X, np.array([6.0, 20]), np.array([15.0, 90]))
    made = adjusted(plain, JUDGED, kinds, known)
    fold = folds_of(OF_PAIR, 3, seed=0)
    weights = np.array([1 - float(plain.value), -float(plain.value)])[OF_PAIR]
    sums, slopes, residuals = np.zeros(2), np.zeros(2), np.zeros(7)
    for each in range(3):
        inside = fold != each
        part = 1 - inside.mean()
        slope = _slope(JUDGED, X, weights, inside, PAIRS_DRAWN, PAIRS)
        slopes += part * slope
        left = JUDGED.answers - X @ slope
        residuals[~inside] = left[~inside]
        for h in (0, 1):
            here = PAIRS_SAMPLE.stratum == h
            count = (inside & here).sum()
            mean = left[~inside & here].mean()
            sums[h] += part * (left[inside & here].sum() + (PAIRS[h] - count) * mean)
    assert made.above == pytest.approx(2 + known.above @ slopes, rel=1e-12)
    assert made.below == pytest.approx(5 + known.below @ slopes, rel=1e-12)
    assert made.limits == (0.0, 1.0)
    np.testing.assert_allclose(made.totals.total, sums, rtol=1e-12)
    for h in (0, 1):
        here = PAIRS_SAMPLE.stratum == h
        y, left = JUDGED.answers[here], residuals[here]
        share = PAIRS[h] / PAIRS_DRAWN[h]
        weight = share**2 * (1 - 1 / share)
        before, after = (weight * each.var() * each.size for each in (y, left))
        more = before / (y.var() * y.size)
        scale = math.sqrt((after + more) / (before + more))
        old, new = plain.totals, made.totals
        assert new.variance[h] == pytest.approx(old.variance[h] * scale**2)
        assert new.growth[h] == pytest.approx(old.growth[h] * scale)


def test_strata_of_one_kind_are_narrowed_together_by_their_weights() -> None:
    """Where pairs of both strata count alike, what is left of both is weighed by N²/m (1 − m/N)."""
    kinds = kinds_of(JUDGED, np.ones(7), np.ones(7))
    plain = totals(JUDGED, kinds, 0.95)
    residuals = np.array([0.3, -0.2, 0.1, 0.4, -0.6, 0.5, 0.2])
    made = _narrowed(plain, kinds, JUDGED, residuals, np.array([7.0, 11.0]))
    assert made.total.tolist() == [7.0, 11.0]
    spread = {name: [float(each[h == OF_PAIR].var() * (h == OF_PAIR).sum()) for h in (0, 1)]
              for name, each in (("y", JUDGED.answers), ("left", residuals))}  # fmt: skip
    weight = [(PAIRS[h] / PAIRS_DRAWN[h]) ** 2 * (1 - PAIRS_DRAWN[h] / PAIRS[h]) for h in (0, 1)]
    before, after = (float(np.dot(weight, spread[name])) for name in ("y", "left"))
    more = before / sum(spread["y"])
    scale = math.sqrt((after + more) / (before + more))
    np.testing.assert_allclose(made.variance, plain.variance * scale**2)
    np.testing.assert_allclose(made.growth, plain.growth * scale)


def test_a_stratum_of_one_judged_pair_leaves_the_plain_fraction() -> None:
    strata = Stratum("top", 12, 4), Stratum("far", 40, 1)
    sample = Sample(Design.PAIRS, (13, 4), strata, *np.zeros((2, 5), int), OF_PAIR[:5])
    judged = Judgements(sample, np.array([1.0, 0, 1, 1, 0]))
    kinds = kinds_of(judged, np.ones(5), np.ones(5))
    plain = Fraction(totals(judged, kinds, 0.95), 2.0, 5.0, (0.0, 1.0))
    known = PairCovariates(X[:5], np.ones(2), np.ones(2))
    assert adjusted(plain, judged, kinds, known) is plain
