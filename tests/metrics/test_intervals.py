"""Bootstrap intervals of means, ratios and deconvolved estimates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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
