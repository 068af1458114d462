"""Values, errors and intervals of every kind of estimate, against oracles."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import mstats

from tests.helpers.evaluations import L, one, part, rows_of, same, summary_of
from tests.helpers.rankings import one_top
from unmask.metrics import (
    Evaluator,
    compare,
    contributions,
    estimates,
    evaluate,
    intervals,
    macro,
    supported,
)
from unmask.metrics.claims import MEASURED, Advice, Reason
from unmask.metrics.sums import Cell
from unmask.predictions import TopK


def test_a_label_without_anything_to_count_is_left_out_and_counted() -> None:
    """One row, label 0 hit, 1 predicted wrongly, 2 missed, 3 and 4 untouched."""
    for metric, counted in (("macro-P", 2), ("macro-R", 2), ("macro-F1", 3), ("coverage", 5)):
        each = one(one_top([[0, 1]]), [[1, 0, 1, 0, 0]], None, f"{metric}@2", "vanilla")
        assert each.value == pytest.approx(1 / counted)
        assert each.details == {"labels": counted, "labels_left_out": 5 - counted}


@pytest.mark.parametrize("metric", ["macro-P@1", "macro-R@1", "macro-F1@1", "coverage@1", "R@1"])
def test_without_labels_there_is_nothing_to_find(metric: str) -> None:
    nothing = TopK([[-1]] * 2, [[-math.inf]] * 2)
    each = one(nothing, np.zeros((2, 0)), None, metric, "vanilla")
    assert (each.value, each.standard_error) == (0, 0)


def test_a_mean_over_labels_is_judged_by_its_labels() -> None:
    """Eight of ten labels are no handful, however many rows there are."""
    rng = np.random.default_rng(0)
    labels = (rng.random((2000, 10)) < 0.3).astype(int)
    scores = labels + rng.random((2000, 10))
    for name in ("macro-P@3", "macro-R@3", "macro-F1@3", "coverage@3"):
        made = one(scores, labels, None, name, "vanilla", complete=True)
        assert made.verdict == MEASURED
    wide = np.zeros((1000, 1000), dtype=int)  # the first of a thousand labels carries all
    wide[:, 0] = 1
    top = one_top([[0, i] for i in range(1, 1000)] + [[0, 1]])
    said = one(top, wide, None, "macro-P@2", "vanilla").verdict
    assert str(said) == "unusable: 1 of 1,000 labels carry 100% of the estimate"


def test_the_error_of_two_rows_and_of_one() -> None:
    pair = one(one_top([[0], [0]]), [[1, 0], [0, 1]], None, "P@1", "vanilla")
    assert (pair.value, pair.standard_error) == (0.5, 0.5)
    for metric, estimator in (("P@1", "vanilla"), ("P@1", "filtered"), ("PSP@1", "normalized")):
        for interval in intervals.INTERVALS:
            alone = one(one_top([[0]]), [[1, 1]], [0.5, 0.5], metric, estimator, interval=interval)
            assert alone.standard_error == math.inf
            assert alone.interval == (0.0, 1.0)
            outside = alone.value > 1
            reason = Reason.OUTSIDE_RANGE if outside else Reason.AS_WIDE_AS_RANGE
            assert alone.verdict.reason is reason


@pytest.mark.parametrize("interval", intervals.INTERVALS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_ratios_without_anything_to_find_are_nothing(n: int, interval: str) -> None:
    each = one(one_top([[0]] * n), np.zeros((n, 2)), [0.5, 0.5], "PSP@1", "normalized",
               interval=interval)  # fmt: skip
    assert (each.value, each.standard_error) == (0, math.inf if n == 1 else 0)
    assert (each.effective_sample_size, each.largest_contribution) == (0, 0)
    if n > 1:
        assert each.interval == intervals.wilson(0.0, n, intervals.t_quantile(0.95, n))


@pytest.mark.parametrize("n", [2, 3, 50])
def test_the_error_of_a_ratio_is_that_of_its_residuals(n: int) -> None:
    top, labels, propensity = rows_of(n, 1)
    q = 1 / propensity
    x = np.array([(labels[i, t] * q[t]).sum() for i, t in enumerate(top.labels)]) / 3
    y = np.sort(labels * q, axis=1)[:, -3:].sum(axis=1) / 3
    each = one(top, labels, propensity, "PSP@3", "normalized")
    residual = x - x.sum() / y.sum() * y
    error = math.sqrt(residual @ residual * n / (n - 1)) / y.sum()
    assert each.standard_error == pytest.approx(error, rel=1e-9, abs=1e-15)
    if each.standard_error:
        ends = intervals.student(each.value, each.standard_error, 0.95, rows=n)
        assert each.interval == pytest.approx(intervals.within(ends, 1.0))
    assert estimates.quotient(np.array([1.0, 0, 2]), np.array([0.5, 0, 4])).tolist() == [2, 0, 0.5]


def test_advice_only_where_it_can_be_followed() -> None:
    top, labels, propensity = rows_of(3)
    metrics = {"metrics": ["R@3", "MRR"], "confidence": 0.999}
    for each in evaluate(top, labels, propensity, **metrics, estimators=["unbiased"]):
        advised = each.verdict.advice is Advice.USE_DECONVOLVED
        assert advised == (each.metric == "R@3")
    for p in (None, np.ones(L)):
        advice = {each.verdict.advice for each in evaluate(top, labels, p, **metrics)}
        assert Advice.USE_DECONVOLVED not in advice


@pytest.mark.parametrize("seed", range(6))
def test_tau_is_the_smallest_whose_interval_meets_all_larger_ones(seed: int) -> None:
    top, labels, propensity = rows_of([40, 400, 3000][seed % 3], seed)
    propensity = propensity * [0.3, 0.9][seed % 2]
    ends, best = [], 1.0
    for tau in np.linspace(1, 0, 9):
        each = one(top, labels, propensity, "R@3", "tempered", tau=tau)
        ends.append((each.value - 2 * each.standard_error, each.value + 2 * each.standard_error))
        assert each.details == {"tau": tau}
        if max(low for low, _ in ends) > min(high for _, high in ends):
            break
        best = tau
    chosen = one(top, labels, propensity, "R@3", "tempered")
    assert chosen.details == {"tau": best}
    assert chosen.value == one(top, labels, propensity, "R@3", "tempered", tau=best).value


def test_where_nothing_is_found_nothing_speaks_for_noise() -> None:
    each = one(one_top([[1]] * 4), [[1, 0]] * 4, [0.5, 0.5], "P@1", "tempered")
    assert (each.value, each.details) == (0, {"tau": 0})


def test_tempered_values_stay_in_the_range_of_the_metric() -> None:
    top, labels = one_top([[0]] * 40), [[1, 0]] * 40
    assert one(top, labels, [0.1, 0.5], "P@1", "unbiased").value == pytest.approx(10)
    for tau, value in ((1.0, 1.0), (0.5, 1.0), (0.0, 1.0)):
        assert one(top, labels, [0.1, 0.5], "P@1", "tempered", tau=tau).value == value
    assert one(top, labels, [0.1, 0.5], "DCG@1", "tempered", tau=1.0).value <= 10


def test_clipping_is_a_least_propensity() -> None:
    top, labels, propensity = rows_of(200)
    small = propensity / 8
    for clip in (1, 4.0, math.inf):
        each = one(top, labels, small, "R@3", "clipped", clip=clip)
        raised = one(top, labels, np.maximum(small, 1 / clip), "R@3", "unbiased")
        assert each.value == pytest.approx(raised.value, rel=1e-12)
        assert each.details == {"clip": clip}


def test_filtered_is_the_trimmed_mean() -> None:
    top, labels, propensity = rows_of(200)
    x = contributions(top, labels, propensity, metrics=["R@3"], estimators=["unbiased"])
    x = x["R@3", "unbiased"]
    each = one(top, labels, propensity, "R@3", "filtered", fraction=0.2)
    limits = (0.1, 0.1)
    assert each.value == pytest.approx(mstats.trimmed_mean(x, limits=limits), rel=1e-12)
    error = mstats.trimmed_stde(x, limits=limits)
    assert each.standard_error == pytest.approx(error, rel=1e-12)
    middle = np.abs(np.sort(x)[20:180])
    assert each.effective_sample_size == pytest.approx(middle.sum() ** 2 / (middle @ middle))
    assert each.largest_contribution == pytest.approx(middle.max() / middle.sum())
    assert each.interval == pytest.approx(intervals.student(each.value, error, 0.95, rows=200))


def test_filtering_nothing_changes_nothing_and_leaves_at_least_a_row() -> None:
    top, labels, propensity = rows_of(60)
    plain = one(top, labels, propensity, "R@3", "unbiased")
    whole = one(top, labels, propensity, "R@3", "filtered", fraction=0)
    assert whole.details == {"fraction": 0, "rows_left_out": 0}
    for name in ("value", "standard_error", "effective_sample_size", "largest_contribution"):
        assert getattr(whole, name) == pytest.approx(getattr(plain, name), rel=1e-12)
    least = one(top, labels, propensity, "R@3", "filtered", fraction=0.99)
    assert least.details["rows_left_out"] == 58
    pair = (part(top, slice(2)), labels[:2], propensity, "R@3")
    few = one(*pair, "filtered", fraction=0.9)
    assert few.details["rows_left_out"] == 0
    assert few.standard_error == pytest.approx(one(*pair, "unbiased").standard_error)


def test_filtered_metrics_do_not_get_in_each_others_way() -> None:
    top, labels, propensity = rows_of(50)
    names = ["R@3", "P@1", "R@1", "P@1"]
    both = evaluate(top, labels, propensity, metrics=names, estimators=["filtered", "unbiased"])
    for name in names:
        assert both[name, "filtered"] == one(top, labels, propensity, name, "filtered")
    rows = contributions(top, labels, propensity, metrics=names, estimators=["filtered"])
    assert rows == {}  # its value is not the mean of rows


@pytest.mark.parametrize(
    ("metric", "estimator", "weight"),
    [("P", "unbiased", 0.8), ("R", "unbiased", 4.0), ("PSP", "clipped", 4.0), ("P", "vanilla", 1)],
)
def test_the_largest_value_of_a_row_is_the_unit_of_weights(
    metric: str, estimator: str, weight: float
) -> None:
    """P@5 shares its hits among five places."""
    cell = Cell(f"{metric}@5", metric, estimator, 5, ())
    for inverse, expected in ((np.array([2.0, 6.0]), weight), (np.zeros(0), 1), (None, 1)):
        summary: Any = SimpleNamespace(inverse=SimpleNamespace(of_labels=inverse))
        assert estimates.mean_weight(cell, summary) == pytest.approx(expected)


@pytest.mark.parametrize(("wrong", "equal"), [(0, True), (1, False), (7, True)])
def test_rows_that_all_contribute_the_same_are_known_as_such(wrong: int, equal: bool) -> None:
    """Also as nothing, and by numbers that sums round: 7 times 1/0.3."""
    labels = np.eye(2)[[1] * wrong + [0] * (7 - wrong)]
    asked: dict[str, Any] = {"metrics": ["P@1"], "estimators": ["unbiased"]}
    summary = summary_of(one_top([[0]] * 7), labels, [0.3, 0.3], **asked)
    (column,) = summary.columns(summary.plan.cells[0])
    assert summary.sums.all_equal(column) == equal
    mean, error = summary.sums.mean_and_error(column)
    values = np.r_[np.zeros(wrong), np.full(7 - wrong, 1 / 0.3)]
    assert mean == pytest.approx(values.mean(), rel=1e-15)
    assert error == pytest.approx(values.std(ddof=1) / math.sqrt(7), rel=1e-9, abs=1e-12)
    assert (error == 0) == equal


@pytest.mark.parametrize("metric", ["macro-P@2", "macro-R@2", "macro-F1@2"])
def test_rows_add_to_a_mean_over_labels_what_it_lacks_without_them(metric: str) -> None:
    """Their mean is the value; a row is above it as far as the value falls without the row."""
    rng = np.random.default_rng(0)
    labels = (rng.random((40, 4)) < 0.5).astype(int)
    top = TopK.from_scores(labels + 1.5 * rng.random((40, 4)), 2)
    asked: dict[str, Any] = {"metrics": [metric], "estimators": ["vanilla"]}
    added = contributions(top, labels, None, **asked)[metric, "vanilla"]
    value = evaluate(top, labels, None, **asked)[metric, "vanilla"].value
    assert added.mean() == pytest.approx(value, rel=1e-12)
    lacking = np.empty(40)
    for row in range(40):
        rest = np.arange(40) != row
        fewer = TopK(top.labels[rest], top.scores[rest])
        lacking[row] = value - evaluate(fewer, labels[rest], **asked)[metric, "vanilla"].value
    jackknife = value + 40 * (lacking - lacking.mean())
    np.testing.assert_allclose(added, jackknife, atol=0.02)
    assert np.ptp(jackknife) > 0.5


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


CASES = [
    (metric, name)
    for metric in ("macro-P", "macro-R", "macro-F1", "coverage")
    for name in supported(metric)
]

KINDS = ("hits", "wrong", "missed")


def kinds_of(top: TopK, labels: np.ndarray) -> np.ndarray:
    """Whether every label of every row is hit, wrongly predicted or missed: (3, n, L)."""
    listed = np.zeros(labels.shape, bool)
    np.put_along_axis(listed, top.labels.astype(int), True, axis=1)
    observed = labels > 0
    return np.array([listed & observed, listed & ~observed, observed & ~listed])


def counts_of(top: TopK, labels: np.ndarray, q: np.ndarray, estimator: str) -> macro.Counts:
    summed = kinds_of(top, labels).sum(axis=1).astype(float)
    inverse = np.ones(L) if estimator == "vanilla" else q
    return macro.Counts(*summed, inverse, estimator != "vanilla")


def form_of(metric: str, counts: macro.Counts) -> macro.OverLabels:
    names = {"macro-P": "precision", "macro-R": "recall", "macro-F1": "f1", "coverage": "coverage"}
    return macro.FORMS[names[metric]](counts)


@pytest.mark.parametrize(("metric", "estimator"), CASES)
def test_the_error_is_that_of_labels_and_of_what_rows_have_in_common(
    metric: str, estimator: str
) -> None:
    """By explicit sums over rows and pairs of different labels."""
    top, labels, propensity = rows_of(60)
    each = one(top, labels, propensity, f"{metric}@3", estimator)
    labelled = form_of(metric, counts_of(top, labels, 1 / propensity, estimator))
    worth = np.einsum("knj,kj->nj", kinds_of(top, labels), np.array(labelled.effects.by_kind))
    pairs = sum(
        worth[i, a] * worth[i, b] for i in range(60) for a in range(L) for b in range(L) if a != b
    )
    variance = labelled.own + max(0.0, pairs)
    assert each.value == pytest.approx(labelled.values.mean(), rel=1e-12)
    factor = each.value / labelled.centre if labelled.centre else 1.0
    expected = factor * math.sqrt(variance) / labelled.labels
    assert each.standard_error == pytest.approx(expected, rel=1e-9)
    assert each.details["labels"] + each.details["labels_left_out"] == L
    sizes = labelled.values
    assert each.effective_sample_size == pytest.approx(sizes.sum() ** 2 / (sizes @ sizes))


@pytest.mark.parametrize("q", [1.0, 2.5])
def test_effects_on_f1_are_those_of_leaving_the_row_out(q: float) -> None:
    """With the shares of appearances held fixed, which only the whole sample tells."""
    kinds = np.array([[3.0, 1, 0, 2, 4], [1, 0, 2, 0, 1], [2, 0, 1, 4, 1]])
    counts = macro.Counts(*kinds, np.full(5, q))
    total = sum(float(getattr(counts, name).sum()) for name in KINDS)
    s_m, s_o = (float(each.sum()) / total for each in (counts.predicted, counts.observed))

    def value(hits: float, wrong: float, missed: float) -> float:
        if not hits:
            return 0.0
        return 2 * q * hits / (hits + wrong - 1 + s_m + q * (hits + missed - 1 + s_o))

    effects = macro.fraction(counts, macro.F1).effects
    for j in range(5):
        whole = [float(getattr(counts, name)[j]) for name in KINDS]
        for kind, effect in enumerate(effects.by_kind):
            without = [each - (place == kind) for place, each in enumerate(whole)]
            expected = value(*whole) - value(*without) if whole[kind] else 0.0
            assert effect[j] == pytest.approx(expected, rel=1e-12)


def test_effects_on_shares_compare_a_row_with_the_others_and_an_average_one() -> None:
    """Over n: a deletion with one observation more, the mean over labels."""
    hits, wrong = np.array([3.0, 0, 1]), np.array([1.0, 2, 0])
    q = np.array([2.0, 3, 1])
    labelled = macro.precision(macro.Counts(hits, wrong, np.zeros(3), q))
    mean = (q * hits / (hits + wrong)).mean()
    for j, n in enumerate(hits + wrong):
        for counted, effect in ((q[j], labelled.effects.hit), (0.0, labelled.effects.wrong)):
            others = (q[j] * hits[j] - counted + mean) / n
            if counted and not hits[j]:
                continue
            assert effect[j] == pytest.approx((counted - others) / n, rel=1e-12)


def test_the_variance_of_a_share_is_right_on_average_where_labels_are_alike() -> None:
    """40 labels of one recall r, two to five times observed: Σ r (1 − r) / o by enumeration.

    The chance of every number of hits is binomial; V is linear in h and h (h − 1) but for the mean
    over labels, which many labels fix.
    """
    rng = np.random.default_rng(0)
    observed, r = rng.integers(2, 6, size=40).astype(float), 0.3
    hits = rng.binomial(observed.astype(int), r, size=(4000, 40)).astype(float)
    zeros, ones = np.zeros(40), np.ones(40)
    own = np.mean([macro.recall(macro.Counts(h, zeros, observed - h, ones)).own for h in hits])
    assert own == pytest.approx((r * (1 - r) / observed).sum(), rel=0.03)


def test_a_label_seen_once_has_the_spread_of_others() -> None:
    """Not that of its single row, which is none."""
    hits, observed = np.array([1.0] * 6 + [0.0] * 4), np.ones(10)
    counts = macro.Counts(hits, np.zeros(10), observed - hits, np.ones(10))
    drawn = (hits + 0.6) / 2
    assert macro.recall(counts).own == pytest.approx((drawn - 0.36).sum())


def test_labels_hit_once_are_what_coverage_may_lose() -> None:
    top, labels = one_top([[0], [0], [1], [2]]), [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]]
    each = one(top, labels, None, "coverage@1", "vanilla")
    assert each.value == pytest.approx(2 / 3)
    assert each.standard_error == pytest.approx(1 / 3)


@pytest.mark.parametrize("metric", ["macro-P@1", "macro-R@1", "macro-F1@1"])
@pytest.mark.parametrize("right", [0, 1])
def test_no_interval_has_zero_width(metric: str, right: int) -> None:
    """Every prediction right, or none: 20 rows leave an interval of some width, within [0, 1]."""
    labels = np.eye(2)[[right] * 20]
    each = one(one_top([[1]] * 20), labels, None, metric, "vanilla")
    assert each.value == right
    low, high = each.interval
    assert 0 <= low < high <= 1
    assert low <= right <= high


@pytest.mark.parametrize(("metric", "estimator"), CASES)
def test_parts_in_any_order_are_the_whole(metric: str, estimator: str) -> None:
    top, labels, propensity = rows_of(90)
    options: dict[str, Any] = {"metrics": [f"{metric}@{k}" for k in (1, 3)]}
    options["estimators"] = [estimator]
    whole = Evaluator(propensity, **options).update(top, labels).compute()
    pieces = [slice(60, 90), slice(0, 25), slice(25, 60)]
    merged = Evaluator(propensity, **options)
    for rows in pieces:
        merged.merge(Evaluator(propensity, **options).update(part(top, rows), labels[rows]))
    assert same(merged.compute(), whole)
    bootstrapped = evaluate(top, labels, propensity, **options, interval="bca")
    assert bootstrapped[f"{metric}@3", estimator] == whole[f"{metric}@3", estimator]


def test_what_is_kept_does_not_change_with_the_input() -> None:
    top, labels, _ = rows_of(30)
    listed, stored = top.labels.copy(), labels.copy()
    evaluator = Evaluator(metrics=["macro-F1@3"]).update(TopK(listed, top.scores), stored)
    before = evaluator.compute()
    listed[:], stored[:] = 0, 0
    assert same(evaluator.compute(), before)


@pytest.mark.parametrize(("metric", "estimator"), CASES)
def test_differences_are_paired_by_row(metric: str, estimator: str) -> None:
    top, labels, propensity = rows_of(80)
    other = TopK.from_scores(np.random.default_rng(3).random((80, L)) + labels, 3)
    name = f"{metric}@3"
    asked: dict[str, Any] = {"metrics": [name], "estimators": [estimator]}
    each = compare({"a": top, "b": other}, labels, propensity, **asked)["b"][name, estimator]
    both = [one(system, labels, propensity, name, estimator) for system in (other, top)]
    assert each.value == both[0].value - both[1].value
    assert each.details["values"] == [both[0].value, both[1].value]
    worth = np.zeros((2, 80))
    for place, system in enumerate((other, top)):
        labelled = form_of(metric, counts_of(system, labels, 1 / propensity, estimator))
        factor = labelled.mean / labelled.centre if labelled.centre else 1.0
        effects = np.array(labelled.effects.by_kind) * factor / labelled.labels
        worth[place] = np.einsum("knj,kj->n", kinds_of(system, labels), effects)
    paired = worth[0] - worth[1]
    assert each.standard_error == pytest.approx(math.sqrt(paired @ paired * 80 / 79), rel=1e-9)
    twin = compare({"a": top, "b": top}, labels, propensity, **asked)["b"][name, estimator]
    assert (twin.value, twin.interval, twin.details["p_value"]) == (0, (0, 0), 1)


class Planted:
    """Rows of 60 labels, rare ones among them, ranked by a noisy score; labels go missing by p."""

    def __init__(self) -> None:
        self.rates = 0.3 / np.arange(1, 61)
        self.p = np.linspace(0.9, 0.3, 60)

    def rows(self, rng: np.random.Generator, n: int) -> tuple[TopK, TopK, np.ndarray]:
        """Predictions of two systems, and true labels."""
        true = rng.random((n, 60)) < self.rates
        scores = true * 1.2 + self.rates + rng.standard_normal((n, 60)) * 0.4
        worse = scores + rng.standard_normal((n, 60)) * 0.5
        return TopK.from_scores(scores, 3), TopK.from_scores(worse, 3), true

    def truth(self) -> list[dict[str, np.ndarray]]:
        """Of both systems: every metric of every label, from many rows."""
        *systems, true = self.rows(np.random.default_rng(99), 60_000)
        values = []
        for top in systems:
            hits, wrong, missed = kinds_of(top, true).sum(axis=1)
            values.append({
                "macro-P@3": hits / np.maximum(hits + wrong, 1),
                "macro-R@3": hits / np.maximum(hits + missed, 1),
                "macro-F1@3": 2 * hits / np.maximum(2 * hits + wrong + missed, 1),
            })  # fmt: skip
        return values


def counted_labels(top: TopK, observed: np.ndarray) -> dict[str, np.ndarray]:
    hits, wrong, missed = kinds_of(top, observed).sum(axis=1)
    return {
        "macro-P@3": hits + wrong > 0,
        "macro-R@3": hits + missed > 0,
        "macro-F1@3": hits + wrong + missed > 0,
    }


@pytest.mark.slow
def test_intervals_hold_the_truth_of_the_labels_they_are_about() -> None:
    """150 samples of 150 rows: complete and masked labels, values and differences of two systems.

    Unbiased F1 is off by less than a third of what the plain quotient of counts is.
    """
    planted, rng = Planted(), np.random.default_rng(5)
    truth, names = planted.truth(), ["macro-P@3", "macro-R@3", "macro-F1@3"]
    holds: dict[tuple[str, ...], list[bool]] = {}
    errors: dict[str, list[float]] = {"plain": [], "unbiased": []}
    for _ in range(150):
        top, worse, true = planted.rows(rng, 150)
        observed = (true & (rng.random(true.shape) < planted.p)).astype(int)
        for case, labels, p in (("complete", true * 1, None), ("masked", observed, planted.p)):
            table = evaluate(top, labels, p, metrics=names)
            both = compare({"a": worse, "b": top}, labels, p, metrics=names)["b"]
            counted = [counted_labels(each, labels) for each in (top, worse)]
            means = [
                {name: float(each[name][chosen[name]].mean()) for name in names}
                for each, chosen in zip(truth, counted, strict=True)
            ]
            for name in names:
                estimator = supported(name.partition("@")[0])[-1 if p is not None else 0]
                low, high = table[name, estimator].interval
                holds.setdefault((case, name), []).append(low <= means[0][name] <= high)
                low, high = both[name, estimator].interval
                gap = means[0][name] - means[1][name]
                holds.setdefault((case, name, "difference"), []).append(low <= gap <= high)
        labelled = form_of("macro-F1", macro.Counts(
            *kinds_of(top, observed).sum(axis=1).astype(float), 1 / planted.p
        ))  # fmt: skip
        target = means[0]["macro-F1@3"]
        errors["plain"].append(labelled.mean - target)
        errors["unbiased"].append(table["macro-F1@3", "unbiased"].value - target)
    for case, answers in holds.items():
        assert np.mean(answers) >= 0.9, case
    assert abs(np.mean(errors["unbiased"])) < abs(np.mean(errors["plain"])) / 3


UNEVEN = macro.Counts(
    hits=np.array([2.0, 1, 0, 0, 0]),
    wrong=np.array([1.0, 0, 2, 0, 0]),
    missed=np.array([1.0, 0, 0, 1, 0]),
    q=np.array([2.0, 3, 1.5, 1.25, 4]),
)

"""Five labels: one of all kinds, one hit once, one only predicted, one only missed, one never."""


@pytest.mark.parametrize(
    ("form", "trials", "left_out"),
    [
        ("precision", 9 / (2 / 3 + 3 / 1 + 1.5 / 2), 2),
        ("recall", 9 / (1 / 3 + 1 / 1 + 1 / 1), 2),
        ("f1", 16 / (2 / 4 + 3 / 1 + 1.5 / 2 + 1.25 / 1), 1),
        ("jaccard", 16 / (2 / 4 + 3 / 1 + 1.5 / 2 + 1.25 / 1), 1),
        ("weighted_precision", 5.0, 2),
        ("weighted_f1", 5.0, 2),
        ("coverage", 25 / (1 / 2 + 1 + 1 + 1 + 1), 0),
    ],
)
def test_trials_and_labels_that_are_left_out(form: str, trials: float, left_out: int) -> None:
    labelled = macro.FORMS[form](UNEVEN)
    assert labelled.trials == pytest.approx(trials, rel=1e-12)
    assert labelled.left_out == left_out
    assert labelled.labels == 5 - left_out
    nothing = macro.FORMS[form](macro.Counts(*np.zeros((3, 2)), np.ones(2)))
    assert nothing.mean == 0.0
    assert nothing.trials == (2.0 if form == "coverage" else 1.0)


@pytest.mark.parametrize(
    ("form", "beta"), [("f1", 1.0), ("f05", 0.5), ("f2", 2.0), ("jaccard", None)]
)
def test_fractions_are_those_of_precision_and_recall(form: str, beta: float | None) -> None:
    """(1 + β²) h / ((1 + β²) h + w + β² m) of complete labels, 0 without a hit."""
    counts = macro.Counts(UNEVEN.hits, UNEVEN.wrong, UNEVEN.missed, np.ones(5))
    values = macro.FORMS[form](counts).values
    if beta is None:
        expected = [2 / 4, 1.0, 0.0, 0.0]
    else:
        precision, recall = 2 / 3, 2 / 3
        f = (1 + beta**2) * precision * recall / (beta**2 * precision + recall)
        expected = [f, 1.0, 0.0, 0.0]
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    unequal = macro.Counts(*np.array([[2.0], [3.0], [1.0]]), np.ones(1))
    precision, recall = 2 / 5, 2 / 3
    b = beta or 0.0
    f = (1 + b**2) * precision * recall / (b**2 * precision + recall)
    assert macro.FORMS[form](unequal).values == pytest.approx(2 / 6 if beta is None else f)


@pytest.mark.parametrize("form", ["f1", "f2", "jaccard"])
def test_readings_divide_an_appearance_as_companions_or_as_truth_does(form: str) -> None:
    """One appearance of every label is replaced by a mean one, in two ways, by explicit sums."""
    c = {"f1": (2.0, 2.0, 1.0, 1.0, 1.0), "f2": (5.0, 5.0, 1.0, 4.0, 4.0)}
    above, hit, wrong, missed, doubled = c.get(form, (1.0, 1.0, 1.0, 1.0, 0.0))
    h, w, m, q = UNEVEN.hits, UNEVEN.wrong, UNEVEN.missed, UNEVEN.q
    kinds = [(hit - doubled + doubled * q[j], wrong, missed * q[j]) for j in range(5)]
    below = [h[j] * a + w[j] * b + m[j] * d for j, (a, b, d) in enumerate(kinds)]
    # of labels that are hit, only the first has other appearances: 1 hit, 1 wrong, 1 missed
    companions = [below[j] - kinds[j][0] + sum(kinds[j]) / 3 for j in range(4)]
    right, lost, predicted = 2 * 2 + 3 * 1, 2 * 1 + 1.25 * 1, 6
    true = hit * right + wrong * (predicted - right) + missed * lost
    truth = [below[j] - kinds[j][0] + true / (predicted + lost / q[j]) for j in range(4)]
    expected = [
        np.mean([above * q[j] * h[j] / under[j] if h[j] else 0.0 for j in range(4)])
        for under in (companions, truth)
    ]
    labelled = macro.FORMS[form](UNEVEN)
    assert labelled.readings == pytest.approx(expected, rel=1e-12)
    plain = [above * q[j] * h[j] / below[j] if h[j] else 0.0 for j in range(4)]
    np.testing.assert_allclose(labelled.values, plain, rtol=1e-12)


def test_companions_weigh_as_much_as_their_label_has_hits_among_the_others() -> None:
    """3 hits and a miss: 3 of weight 1; a hit and 2 wrong: 2 of weight ½; a hit and a miss: 1."""
    q = np.array([2.0, 3, 1.5])
    counts = macro.Counts(*np.array([[3.0, 1, 1], [0, 2, 0], [1, 0, 1]]), q)
    shares = np.array([2.0, 2 * 0.5, 1.0 + 1.0]) / 5
    mean = [shares @ (1 + each, 1.0, each) for each in q]
    below = [3 * (1 + 2.0) + 2.0, 1 + 3.0 + 2, 1 + 1.5 + 1.5]
    values = [
        2 * q[j] * hits / (below[j] - (1 + q[j]) + mean[j]) for j, hits in enumerate((3, 1, 1))
    ]
    assert macro.fraction(counts, macro.F1).readings[0] == pytest.approx(np.mean(values))


@pytest.mark.parametrize("form", ["weighted_precision", "weighted_f1", "weighted_f2"])
def test_weighted_means_and_their_effects_are_those_of_leaving_rows_out(form: str) -> None:
    """Σ V / Σ q o over labels that are observed; without a row V and q o change."""
    h, w, m, q = UNEVEN.hits, UNEVEN.wrong, UNEVEN.missed, UNEVEN.q
    beta = {"weighted_f1": 1.0, "weighted_f2": 4.0}.get(form, 0.0)

    def value(j: int, hits: float, wrong: float, missed: float) -> float:
        observed = hits + missed
        if hits <= 0:
            return 0.0
        if form == "weighted_precision":
            return float(q[j] * hits * (1 + q[j] * (observed - 1)) / (hits + wrong))
        under = hits + wrong + beta * q[j] * observed
        return float((1 + beta) * q[j] * hits * q[j] * observed / under)

    labels = [0, 1, 3]
    total = sum(q[j] * (h[j] + m[j]) for j in labels)
    whole = {j: value(j, h[j], w[j], m[j]) for j in labels}
    mean = sum(whole.values()) / total
    labelled = macro.FORMS[form](UNEVEN)
    assert labelled.weighted
    assert labelled.mean == pytest.approx(mean, rel=1e-12)
    np.testing.assert_allclose(labelled.values, [whole[j] * 3 / total for j in labels], rtol=1e-12)
    own = 0.0
    for kind, effect in enumerate(labelled.effects.by_kind):
        for j in range(5):
            rows = (h[j], w[j], m[j])
            expected = 0.0
            if rows[kind] and j in labels:
                less = [each - (place == kind) for place, each in enumerate(rows)]
                lost = q[j] if kind != 1 else 0.0
                expected = (whole[j] - value(j, *less) - mean * lost) * 3 / total
            assert effect[j] == pytest.approx(expected, rel=1e-12), (kind, j)
            own += rows[kind] * expected**2
    assert labelled.own == pytest.approx(own, rel=1e-12)


def test_the_spread_of_a_share_is_drawn_to_that_of_labels_seen_a_few_times() -> None:
    """By loops over labels: two to five rows count as few, 20 labels of the mean's square join."""
    hits = np.array([4.0, 2, 1, 0, 0, 3])
    wrong = np.array([1.0, 4, 1, 1, 0, 0])
    q = np.array([1.5, 2, 1.25, 3, 4, 1])
    n = hits + wrong
    labels = [0, 1, 2, 3, 5]
    values = [q[j] * hits[j] / n[j] for j in labels]
    mean = sum(values) / 5

    def square(j: int) -> float:
        pairs = n[j] * (n[j] - 1)
        return float(q[j] ** 2 * hits[j] * (hits[j] - 1) / pairs) if pairs else 0.0

    few = [square(j) for j in (0, 2, 5)]  # of 5, 2 and 3 rows; label 1 has 6, label 3 one
    common = min((sum(few) + 20 * mean**2) / (3 + 20), mean)
    own = sum(
        (q[j] * (q[j] * hits[j] + mean) / (n[j] + 1) - ((n[j] - 1) * square(j) + common) / n[j])
        / n[j]
        for j in labels
    )
    labelled = macro.precision(macro.Counts(hits, wrong, np.array([0.0, 0, 5, 0, 2, 1]), q))
    assert labelled.own == pytest.approx(own, rel=1e-12)
    np.testing.assert_allclose(labelled.values, values, rtol=1e-12)
    assert labelled.error(0.09, reading=0.5) == pytest.approx(0.3 / 5)
    assert [float(each[4]) for each in labelled.effects.by_kind] == [0.0, 0.0, 0.0]
    recalled = macro.recall(macro.Counts(hits, np.zeros(6), wrong, q))
    assert [float(each[4]) for each in recalled.effects.by_kind] == [0.0, 0.0, 0.0]
    np.testing.assert_array_equal(labelled.effects.missed, np.zeros(6))
    np.testing.assert_array_equal(recalled.effects.wrong, np.zeros(6))


def test_the_error_of_another_reading_is_in_proportion_to_it() -> None:
    labelled = macro.fraction(UNEVEN, macro.F1)
    assert labelled.centre is not None
    expected = 0.5 / labelled.centre * math.sqrt(0.16) / 4
    assert labelled.error(0.16, reading=0.5) == pytest.approx(expected, rel=1e-12)
    nothing = macro.precision(macro.Counts(*np.zeros((3, 2)), np.ones(2)))
    assert nothing.error(0.16, reading=0.5) == pytest.approx(0.4)


def test_rows_that_are_alike_but_for_rounding_leave_an_interval() -> None:
    """An error of 1e-17, as fits of counts have it, is none: few rows still say little."""
    labels = (np.arange(5) < np.array([2, 1, 1, 2, 1, 1])[:, None]).astype(int)
    top = TopK(np.tile([0, 1, 2], (6, 1)), np.ones((6, 3)))
    plain, fitted = evaluate(
        top, labels, np.ones(5), metrics=["R@3"], estimators=["vanilla", "deconvolved"]
    )
    assert fitted.standard_error < 1e-12
    assert fitted.interval == pytest.approx(plain.interval)
    assert fitted.verdict.level == plain.verdict.level == "wide"
    for error in (0.0, 1e-17, 1e-12):
        exact = intervals.of_mean(1.0, error, 0.95, rows=30, at_most=1.0, shares=True)
        assert exact == pytest.approx((0.8776, 1.0), abs=1e-4)
