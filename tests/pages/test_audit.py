"""The audit on a page: how precise it was expected to be, and became."""

from __future__ import annotations

import pytest

from unmask import report
from unmask._typing import Record
from unmask.pages import audit


def facts(high: float) -> Record:
    return {
        "unit": "rows", "design": "simple", "annotators": ["ann"], "fleiss_kappa": None,
        "counts": {"asked": 40, "judged": 40, "unsure": 0, "split": 0},
        "reached": [{"metric": "R@5", "judged": 40, "value": 1.0, "low": 0.9, "high": high}],
        "expected": [{"metric": "R@5", "judged": n, "half": 0.04} for n in (40, 80)],
        "agreement": [], "contradictions": [], "undecided": [],
    }  # type: ignore[typeddict-item]  # fmt: skip


@pytest.mark.parametrize(("high", "end"), [(1.0, 1.0), (1.2, 1.04)])
def test_what_was_expected_stays_in_the_range_of_a_share(high: float, end: float) -> None:
    parts = audit.section(facts(high)).parts
    (panels,) = (part for part in parts if isinstance(part, report.Panels))
    upper = {series.name: series.y for series in panels.charts[0].series}["expected, upper end"]
    assert upper == pytest.approx((end, end))
