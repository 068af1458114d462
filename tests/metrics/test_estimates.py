"""Values, errors and effective sizes of every kind of estimate, against oracles."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import mstats

from tests.helpers.evaluations import L, one, part, rows_of
from tests.helpers.rankings import one_top
from unmask.metrics import (
    Evaluator,
    contributions,
    estimates,
    evaluate,
    intervals,
)
from unmask.metrics.sums import Cell
from unmask.metrics.claims import (
    MEASURED,
    Advice,
    Reason,
)
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
        assert one(scores, labels, None, name, "vanilla").verdict == MEASURED
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
            assert alone.verdict.reason is Reason.AS_WIDE_AS_RANGE


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


def test_the_fewest_rows_that_carry_four_fifths() -> None:
    assert estimates._heaviest(np.array([5.0, 3.0, 1.0, 1.0]), 10.0) == (2, 0.8)
    assert estimates._heaviest(np.array([5.0, 2.9, 1.1, 1.0]), 10.0) == (3, pytest.approx(0.9))
    assert estimates._heaviest(np.array([2.0, 1.0]), 10.0) == (2, pytest.approx(0.3))
    assert estimates._heaviest(np.zeros(4), 0.0) == (0, 0)


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
        nothing: Any = None
        summary = estimates.Summary(nothing, nothing, inverse, 0.95, "normal", 2, 0, 0.01)
        assert estimates.mean_weight(cell, summary) == pytest.approx(expected)


@pytest.mark.parametrize(("wrong", "equal"), [(0, True), (1, False), (7, True)])
def test_rows_that_all_contribute_the_same_are_known_as_such(wrong: int, equal: bool) -> None:
    """Also as nothing, and by numbers that sums round: 7 times 1/0.3."""
    labels = np.eye(2)[[1] * wrong + [0] * (7 - wrong)]
    evaluator = Evaluator(metrics=["P@1"], estimators=["unbiased"], propensity=[0.3, 0.3])
    summary = evaluator.update(one_top([[0]] * 7), labels).summary()
    (cell,) = summary.plan.cells
    (column,) = summary.columns(cell)
    assert estimates._all_equal(summary.state, column) == equal
    mean, error = estimates.mean_and_error(summary.state, column)
    values = np.r_[np.zeros(wrong), np.full(7 - wrong, 1 / 0.3)]
    assert mean == pytest.approx(values.mean(), rel=1e-15)
    assert error == pytest.approx(values.std(ddof=1) / math.sqrt(7), rel=1e-9, abs=1e-12)
    assert (error == 0) == equal


def test_the_mean_is_the_exact_sum_divided_by_the_rows() -> None:
    state: Any = SimpleNamespace(rows=3, ratio=lambda column: (7 + column, 4))
    assert estimates.mean_of(state, 0) == 7 / 12
    assert estimates.mean_of(state, 2) == 9 / 12


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
