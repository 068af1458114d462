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
    asked: dict[str, Any] = {"metric": "R@3", "estimator": "deconvolved", "replicates": 20}
    drawn = {
        interval: [one(top, labels, propensity, **asked, interval=interval, seed=seed).interval
                   for seed in (0, 1)]
        for interval in intervals.INTERVALS
    }  # fmt: skip
    assert drawn["normal"][0] == drawn["normal"][1]
    assert drawn["percentile"][0] != drawn["percentile"][1] != drawn["normal"][0]
    assert drawn["bca"] == drawn["percentile"]


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
    assert each.interval == pytest.approx(ends, rel=1e-9)


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
