"""The page of the demo."""

from __future__ import annotations

import pytest

from unmask import report
from unmask.metrics import charts
from unmask.pages import demo
from unmask_studies.demo import run


@pytest.fixture(scope="module")
def result() -> demo.Demo:
    return run(n=600)


def test_the_first_sentences_say_what_is_lost_and_what_comes_back(result: demo.Demo) -> None:
    summary = demo.page(result).summary
    assert len(summary) == 5
    assert summary[0].startswith(f"{result.total.lost:.0%} of all labels were hidden")
    truth = result.scores["unbiased"]["R@5", "vanilla"].value
    assert f"the truth is {truth:.3f}" in summary[3]


def test_a_name_has_the_same_style_in_every_drawing(result: demo.Demo) -> None:
    named = {}
    for drawing in demo.page(result).drawings:
        for chart in drawing.charts if isinstance(drawing, report.Panels) else [drawing]:
            for each in (*chart.series, *chart.rules):
                named.setdefault(each.name, set()).add(each.style)
    assert {"truth", "vanilla", "unbiased", "deconvolved", "complete"} <= named.keys()
    for name, styles in named.items():
        assert styles == {charts.STYLES.get(name)}
