"""Rows that all contribute the same have a standard error of exactly 0, whatever the number is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unmask.metrics import ESTIMATORS, METRICS, Estimate, compare, evaluate
from unmask.predictions import TopK

ROWS = (2, 3, 7, 100, 5000)
"""Beyond 4096 rows, bootstrap and comparisons work with groups of several rows."""


def equal_rows(n: int, *, first: int = 0) -> tuple[TopK, Any, list[float]]:
    """One hit among three predictions of ten labels, R@3 = 0.1; every row alike."""
    top = np.tile(np.array([first, 10, 11], np.int32), (n, 1))
    labels = np.tile(np.r_[np.ones(10), np.zeros(4)], (n, 1)).astype(np.float32)
    p = [0.7, 0.3, *[0.9] * 12]
    return TopK(top, np.tile(np.float32([3, 2, 1]), (n, 1))), labels, p


CELLS = [
    (metric, estimator)
    for metric, about in METRICS.items()
    for estimator in about.estimators
    if about.over != "labels" and estimator != "deconvolved" and about.reads == "list"
]


def _holds_its_value(each: Estimate) -> None:
    """An interval of some width, since the sample is finite; cut at the end of the range."""
    low, high = each.interval
    at_most = METRICS[each.metric.partition("@")[0]].at_most
    assert low < high
    assert low <= each.value
    assert each.value <= high or high == at_most


@pytest.mark.parametrize(("metric", "estimator"), CELLS)
def test_equal_rows_have_no_error(metric: str, estimator: str) -> None:
    for n in ROWS[:4]:
        top, labels, p = equal_rows(n)
        for interval in ("normal", "percentile", "bca"):
            asked = {"metrics": [f"{metric}@3"], "estimators": [estimator], "interval": interval}
            if estimator == "tempered":
                asked["tau"] = 0.4  # a single row would let "auto" choose another
            if interval != "normal":
                asked["replicates"] = 20
            each = evaluate(top, labels, p, **asked)[f"{metric}@3", estimator]
            assert each.standard_error == 0.0
            _holds_its_value(each)
            single = TopK(top.labels[:1], top.scores[:1])
            alone = evaluate(single, labels[:1], p, **asked)
            assert each.value == alone[f"{metric}@3", estimator].value


@pytest.mark.parametrize("n", ROWS)
def test_a_tenth_in_every_row(n: int) -> None:
    top, labels, _ = equal_rows(n)
    for drawn in ({}, {"interval": "percentile", "replicates": 50}):
        asked = {"metrics": ["R@3"], "estimators": ["vanilla", "filtered", "deconvolved"]}
        found = evaluate(top, labels, [1.0] * 14, **asked, **drawn)
        for estimator in ("vanilla", "filtered"):
            each = found["R@3", estimator]
            assert each.value == pytest.approx(0.1, rel=1e-15)
            assert each.standard_error == 0.0
            _holds_its_value(each)
    assert found["R@3", "deconvolved"].standard_error == pytest.approx(0.0, abs=1e-16)
    exact = evaluate(top, labels, [1.0] * 14, metrics=["R@3"], estimators=["deconvolved"])
    assert exact["R@3", "deconvolved"].standard_error == 0.0


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("estimator", ["vanilla", "unbiased", "tempered", "deconvolved"])
def test_equal_differences_have_no_error(n: int, estimator: str) -> None:
    """Two systems that differ alike in every row, and one that does not differ at all."""
    top, labels, p = equal_rows(n)
    other, *_ = equal_rows(n, first=1)
    p = [1.0] * 14 if estimator == "deconvolved" else p
    systems = {"first": top, "other": other, "same": top}
    asked = {"metrics": ["R@3", "DCG@3", "PSP@3"] if estimator != "deconvolved" else ["R@3"]}
    found = compare(systems, labels, p, **asked, estimators=[estimator], replicates=50)
    for each in found["other"]:
        assert each.standard_error == 0.0
        low, high = each.interval
        assert low <= each.value <= high
        assert low < high  # predictions differ, and the sample is finite
    for each in found["same"]:
        assert each.standard_error == 0.0
        assert each.interval == (each.value, each.value)
        assert (each.value, each.details["p_value"]) == (0.0, 1.0)


def test_rows_that_differ_in_the_last_bit_are_not_equal() -> None:
    """Sums that merely look alike: the sizes are equal, the signs are not; or one row differs."""
    top, labels, p = equal_rows(40)
    other = labels.copy()
    other[17, 9] = 0
    each = evaluate(top, other, p, metrics=["R@3"])["R@3", "vanilla"]
    assert each.standard_error > 0
    # p = 1/3: unbiased recall of one of two labels is −3/2, of a single one 3
    both = TopK([[0], [0], [0]], [[1.0]] * 3)
    mixed = evaluate(both, [[1, 1], [1, 1], [1, 0]], [1 / 3, 1 / 3], metrics=["R@1"])
    assert mixed["R@1", "unbiased"].standard_error == pytest.approx(1.5)


def test_every_estimator_was_tried() -> None:
    assert {estimator for _, estimator in CELLS} == {*ESTIMATORS} - {"deconvolved"}
