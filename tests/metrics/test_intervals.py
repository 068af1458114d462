"""Bootstrap intervals of means, ratios and deconvolved estimates."""

from __future__ import annotations

from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.helpers.evaluations import one, rows_of
from tests.helpers.rankings import one_top
from unmask.metrics import (
    intervals,
)


@pytest.mark.parametrize("interval", ["percentile", "bca"])
def test_two_rows_are_enough_to_resample(interval: str) -> None:
    for metric, estimator in (("P@1", "vanilla"), ("PSP@1", "normalized")):
        each = one(one_top([[0], [0]]), [[1, 0], [0, 1]], [0.5, 0.5], metric, estimator,
                   interval=interval)  # fmt: skip
        assert (each.interval, each.standard_error) == ((0, 1), 0.5)


def test_deconvolved_intervals_are_resampled_where_intervals_are() -> None:
    top, labels, propensity = rows_of(300)
    asked: dict[str, Any] = {"metric": "R@3", "estimator": "deconvolved"}
    few = {"normal": {}, "percentile": {"replicates": 20}, "bca": {"replicates": 20}}
    drawn = {
        interval: [one(top, labels, propensity, **asked, **few[interval], interval=interval,
                       seed=seed)
                   for seed in (0, 1)]
        for interval in intervals.INTERVALS
    }  # fmt: skip
    errors = {interval: [each.standard_error for each in drawn[interval]] for interval in drawn}
    assert errors["normal"][0] == errors["normal"][1]
    assert errors["percentile"][0] != errors["percentile"][1] != errors["normal"][0]
    assert drawn["bca"] == drawn["percentile"]
    for plain, wider in zip(drawn["normal"], drawn["percentile"], strict=True):
        assert intervals.hull(plain.interval, wider.interval) == wider.interval


@pytest.mark.parametrize("interval", ["percentile", "bca"])
def test_a_ratio_is_resampled_with_both_its_parts(interval: str) -> None:
    """Two of three rows have no labels, so some resamples have none: they say 0."""
    labels = np.array([[1, 0], [0, 0], [0, 0]])
    assert one(one_top([[0]] * 3), labels, [0.5] * 2, "PSP@1", "normalized",
               interval=interval).interval[0] == 0  # fmt: skip
    top, labels, propensity = rows_of(40)
    q = 1 / propensity
    x = np.array([(labels[i, t] * q[t]).sum() for i, t in enumerate(top.labels)])
    y = np.sort(labels * q, axis=1)[:, -3:].sum(axis=1)
    counts = intervals.resampling_counts(40, 300, seed=3)
    left_out = (x.sum() - x) / (y.sum() - y)
    ends = intervals.INTERVALS[interval](
        (counts @ x) / (counts @ y), 0.9, value=x.sum() / y.sum(), left_out=left_out
    )
    each = one(top, labels, propensity, "PSP@3", "normalized", interval=interval, replicates=300,
               seed=3, confidence=0.9)  # fmt: skip
    plain = one(top, labels, propensity, "PSP@3", "normalized", confidence=0.9).interval
    assert each.interval == pytest.approx(intervals.hull(ends, plain), rel=1e-9)


@settings(max_examples=60)
@given(st.floats(0, 1), st.floats(0.5, 1e5), st.floats(0.5, 0.999), st.integers(2, 10**5))
def test_wilson_ends_are_the_shares_that_a_t_test_just_accepts(
    share: float, effective: float, confidence: float, rows: int
) -> None:
    """(v − x)² = t² x (1 − x) / n at either end x; the interval is in [0, 1] and never a point."""
    t = stats.t.ppf((1 + confidence) / 2, rows - 1)
    assert intervals.t_quantile(confidence, rows) == pytest.approx(t, rel=1e-9)
    low, high = (float(end) for end in intervals.wilson(share, effective, t))
    for end in (low, high):
        bound = t**2 * end * (1 - end) / effective
        assert (share - end) ** 2 == pytest.approx(bound, rel=1e-6, abs=1e-12)
    assert 0 <= low <= share <= high <= 1
    assert low < high


@pytest.mark.parametrize("hits", [0, 1, 7, 40])
def test_wilson_ends_are_those_of_scipy(hits: int) -> None:
    exact = stats.binomtest(hits, 40).proportion_ci(0.9, method="wilson")
    low, high = intervals.wilson(hits / 40, 40, intervals.z_quantile(0.9))
    assert (low, high) == (pytest.approx(exact.low, abs=1e-12), pytest.approx(exact.high))


@pytest.mark.parametrize("estimator", ["vanilla", "unbiased", "filtered", "tempered"])
@pytest.mark.parametrize("right", [0, 1])
def test_equal_rows_leave_no_error_but_an_interval(estimator: str, right: int) -> None:
    """30 rows that all hit, or all miss: the error is 0, and the interval lies in [0, 1]."""
    labels = np.tile([right, 1 - right], (30, 1))
    each = one(one_top([[0]] * 30), labels, [1.0, 0.5], "P@1", estimator)
    assert (each.value, each.standard_error) == (right, 0)
    low, high = each.interval
    assert 0 <= low < high <= 1
    assert low <= right <= high


def test_few_hits_that_count_much_say_more_of_the_upper_end() -> None:
    """Weighted hits: Wilson's ends of v (1 − v) / se² trials, within the range."""
    labels = np.zeros((200, 2))
    labels[:3, 0] = 1
    each = one(one_top([[0]] * 200), labels, [0.25, 0.5], "P@1", "unbiased")
    v, se = each.value, each.standard_error
    assert v == pytest.approx(0.06)
    t = intervals.t_quantile(0.95, 200)
    assert each.interval == intervals.wilson(v, v * (1 - v) * (1 / se) ** 2, t)
    assert v - each.interval[0] < each.interval[1] - v


@pytest.mark.parametrize("value", [-1.5, 2.0])
def test_equal_rows_outside_the_range_are_no_certainty(value: float) -> None:
    """Two rows that both say 2, or −3/2, refute nothing; a thousand do."""
    for at_most in (None, 1.0):
        options = {"at_most": at_most, "shares": False}
        few = intervals.of_mean(value, 0.0, 0.95, rows=2, **options)
        many = intervals.of_mean(value, 0.0, 0.95, rows=1000, **options)
        assert few[0] < many[0] < value < many[1] < few[1]
        assert min(map(abs, few)) < 1 < min(map(abs, many))


def test_an_interval_outside_the_range_is_evidence_and_stays() -> None:
    """Every row hits a label with p = 1/2: P@1 is 2, which cannot be."""
    labels = np.ones((60, 1))
    labels[0] = 0
    each = one(one_top([[0]] * 60), labels, [0.5], "P@1", "unbiased")
    assert each.interval[0] > 1
    assert each.verdict.level == "unusable"


def test_a_chosen_tau_never_leaves_the_range() -> None:
    labels = np.ones((60, 1))
    labels[0] = 0
    each = one(one_top([[0]] * 60), labels, [0.5], "P@1", "tempered")
    assert 0 <= each.interval[0] <= each.value <= each.interval[1] <= 1
    assert each.verdict.level >= "doubtful"


UNIT = NormalDist()


def skewness_of(left_out: list[int]) -> float:
    """A sixth of Σd³ / (Σd²)^1.5, in fractions as far as possible."""
    mean = Fraction(sum(left_out), len(left_out))
    spread = [mean - x for x in left_out]
    return float(sum(d**3 for d in spread)) / (6 * float(sum(d**2 for d in spread)) ** 1.5)


@pytest.mark.parametrize("shift", [-0.4, 0.0, 0.7])
@pytest.mark.parametrize("left_out", [[-2, 1, 1], [2, -1, -1], [0, 0, 0, 5], [-1, 0, 1]])
@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_bca_is_exact_where_its_theory_is(
    shift: float, left_out: list[int], confidence: float
) -> None:
    """φ̂ = φ + (1 + aφ)(Z − z₀) has the exact limits φ̂ + (1 + aφ̂) x/(1 − ax), x = z₀ ± z (Efron).

    At φ̂ = 0 the replicates are Z − z₀, of which a dense grid stands for all.
    """
    grid = stats.norm.ppf(np.linspace(0, 1, 8003)[1:-1]) - shift
    found = intervals.bca(grid, confidence, value=0.0, left_out=np.array(left_out, float))
    a = skewness_of(left_out)
    for end, tail in zip(found, ((1 - confidence) / 2, (1 + confidence) / 2), strict=True):
        x = shift + UNIT.inv_cdf(tail)
        exact = x / (1 - a * x)
        assert UNIT.cdf(end + shift) == pytest.approx(UNIT.cdf(exact + shift), abs=5e-4)


def test_bca_counts_ties_with_the_value_as_half() -> None:
    """Whole numbers, half of the replicates at the value: no median bias is to be corrected."""
    replicates = np.repeat([-1.0, 0.0, 1.0], [25, 50, 25])
    nothing = np.zeros(4)
    same = intervals.bca(replicates, 0.9, value=0.0, left_out=nothing)
    assert same == intervals.percentile(replicates, 0.9) == (-1.0, 1.0)
    fine = np.r_[np.zeros(100), np.arange(1.0, 101)]  # a quarter below in effect
    low, high = intervals.bca(fine, 0.9, value=0.0, left_out=nothing)
    levels = [UNIT.cdf(2 * UNIT.inv_cdf(0.25) + UNIT.inv_cdf(q)) for q in (0.05, 0.95)]
    assert (low, high) == pytest.approx(tuple(np.quantile(fine, levels)))


@settings(max_examples=30)
@given(
    st.floats(-1, 3),
    st.lists(st.floats(-5, 5), min_size=2, max_size=6).map(np.array),
    st.floats(0.01, 0.999),
)
def test_bca_has_a_low_end_and_a_high_end(value: float, left_out: np.ndarray, level: float) -> None:
    """Wherever the value lies, even beyond all replicates, and however skewed the jackknife."""
    replicates = np.linspace(0, 2, 41)
    low, high = intervals.bca(replicates, level, value=value, left_out=left_out)
    assert 0 <= low <= high <= 2


@pytest.mark.parametrize("outlier", [-1.0, 1.0])
@pytest.mark.parametrize(("value", "end"), [(0.5, 1.0), (2.5, 2.0)])
def test_bca_beyond_all_replicates_is_their_end(value: float, end: float, outlier: float) -> None:
    left_out = np.r_[np.zeros(999), outlier]
    found = intervals.bca(np.linspace(1, 2, 1000), 0.95, value=value, left_out=left_out)
    assert found == pytest.approx((end, end), abs=1e-6)


def test_resampled_groups_follow_the_multinomial_law() -> None:
    """Every replicate draws as many groups as there are; replicates and groups are alike."""
    counts = intervals.resampling_counts(4, 20_000, seed=3)
    assert counts.shape == (20_000, 4)
    assert set(counts.sum(axis=1)) == {4.0}
    seen = np.bincount(counts[:, 0].astype(int), minlength=5)
    expected = stats.binom.pmf(range(5), 4, 0.25) * 20_000
    assert stats.chisquare(seen, expected).pvalue > 1e-3
    halves = counts[:10_000].mean(axis=0), counts[10_000:].mean(axis=0)
    np.testing.assert_allclose(halves, 1.0, atol=0.04)
    np.testing.assert_array_equal(counts[:5], intervals.resampling_counts(4, 5, seed=3))
    assert (counts[:5] != intervals.resampling_counts(4, 5, seed=4)).any()
