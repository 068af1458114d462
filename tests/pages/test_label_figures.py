"""Labels on pages: small records, and charts of them."""

from __future__ import annotations

import json

import numpy as np

from unmask.metrics import charts
from unmask.pages.label_figures import (
    RANKS,
    _without_tail,
    counts,
    curves,
    label_facts,
    section,
)


def test_facts_are_few_however_many_labels_there_are() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random((50, 3000)) < 0.01).astype(int)
    facts = label_facts(labels, np.full(3000, 0.5))
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["rows"], facts["labels"], facts["entries"]) == (50, 3000, labels.sum())
    assert len(facts["rank"]) == len(facts["count"]) == len(facts["propensity"]) <= RANKS
    assert facts["rank"][0] == 1
    assert facts["rank"][-1] == 3000
    assert facts["count"] == sorted(facts["count"], reverse=True)
    assert facts["count"][0] == labels.sum(axis=0).max()


def test_histograms_are_as_long_as_the_longest_and_sum_up_to_one() -> None:
    histogram, sums = counts(observed=[0.5, 0.5], truth=[0.25, 0.25, 0.5]).charts
    observed, truth = histogram.series
    assert observed.x == truth.x == (-0.5, 0.5, 1.5, 2.5)
    assert (observed.y, truth.y) == ((0.5, 0.5, 0.0), (0.25, 0.25, 0.5))
    assert [series.y[-1] for series in sums.series] == [1.0, 1.0]
    assert truth.style == charts.STYLES["truth"]
    assert observed.style is None


def test_a_label_that_never_occurs_leaves_a_gap() -> None:
    frequency, probability = curves([1, 2], [5, 0], [0.5, 0.25], of="as observed").charts
    assert frequency.y.log
    assert frequency.series[0].name == "as observed"
    assert probability.series[0].y == (0.5, 0.25)


def test_a_section_shows_curves_and_counts() -> None:
    facts = label_facts([[1, 1], [1, 0], [0, 0], [1, 0]], [0.5, 0.5])
    shown = section(facts)
    assert [len(panels.charts) for panels in shown.parts] == [2, 2]


def test_histograms_end_where_all_but_one_row_in_a_thousand_do() -> None:
    """Of shares and of counts alike: the tail is a part of their sum."""
    for shares in ([500.0, 499.0, 1.0], [0.5, 0.499, 0.001]):
        assert _without_tail(np.array(shares)).tolist() == shares[:2]
    assert _without_tail(np.array([500.0, 498.0, 2.0])).tolist() == [500.0, 498.0, 2.0]
