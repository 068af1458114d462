"""Labels on pages: small records, charts of them, and tables by name, whatever names hold."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from unmask import TopK, evaluate, pages
from unmask.metrics import label_counts
from unmask.pages import labels
from unmask.pages.estimates import STYLES
from unmask.pages.evaluation import sections, summary

NAMES = ["<script>alert(1)</script>", "‮right to left", "a" * 500, "=1+1", "emoji 👩‍🔬", "x,y"]


def test_facts_are_few_however_many_labels_there_are() -> None:
    rng = np.random.default_rng(0)
    matrix = (rng.random((50, 3000)) < 0.01).astype(int)
    facts = labels.label_facts(matrix, np.full(3000, 0.5))
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["rows"], facts["labels"], facts["entries"]) == (50, 3000, matrix.sum())
    assert len(facts["rank"]) == len(facts["count"]) == len(facts["propensity"]) <= labels.RANKS
    assert (facts["rank"][0], facts["rank"][-1]) == (1, 3000)
    assert facts["count"] == sorted(facts["count"], reverse=True)
    assert facts["count"][0] == matrix.sum(axis=0).max()
    assert [len(panels.charts) for panels in labels.section(facts).parts] == [2, 2]


def test_histograms_are_as_long_as_the_longest_and_sum_up_to_one() -> None:
    histogram, sums = labels.counts(observed=[0.5, 0.5], truth=[0.25, 0.25, 0.5]).charts
    observed, truth = histogram.series
    assert observed.x == truth.x == (-0.5, 0.5, 1.5, 2.5)
    assert (observed.y, truth.y) == ((0.5, 0.5, 0.0), (0.25, 0.25, 0.5))
    assert [series.y[-1] for series in sums.series] == [1.0, 1.0]
    assert sums.series[0].x == (0.0, 1.0, 2.0)
    assert (truth.style, observed.style) == (STYLES["truth"], None)
    for shares, kept in (([500.0, 499.0, 1.0], 2), ([0.5, 0.499, 0.001], 2), ([500, 498, 2.0], 3)):
        (shown,) = labels.counts(observed=shares).charts[0].series
        assert list(shown.y) == shares[:kept], "all but one row in a thousand"


def test_a_label_that_never_occurs_leaves_a_gap() -> None:
    frequency, probability = labels.curves([1, 2], [5, 0], [0.5, 0.25], of="as observed").charts
    assert frequency.y.log
    assert frequency.series[0].name == "as observed"
    assert probability.series[0].y == (0.5, 0.25)


def named() -> list[Any]:
    rng = np.random.default_rng(0)
    names = [*NAMES, *(f"subject {i}" for i in range(1994))]
    observed = (rng.random((40, 2000)) < np.linspace(0.9, 0.1, 2000)).astype(int)
    top = TopK.from_scores(rng.random((40, 2000)), 50)
    return label_counts(top, observed, np.full(2000, 0.5), names=names).to_dicts()


def test_two_thousand_names_give_two_short_tables() -> None:
    text, frequent, missed = labels.judged_section(named(), 50).parts
    assert "2,000 labels, judged by the first 50 predictions" in text.text
    assert "`unmask evaluate --per-label labels.csv` writes all 2,000." in text.text
    assert len(frequent.rows) == len(missed.rows) == labels.SHOWN
    counts = [line[1] for line in frequent.rows]
    assert counts == sorted(counts, reverse=True)
    assert all(line[1] >= labels.FEW for line in missed.rows)
    recalls = [line[5].value for line in missed.rows]
    assert recalls == sorted(recalls)
    assert all(len(line[0]) <= 80 for line in (*frequent.rows, *missed.rows))


def test_names_are_no_markup_and_long_ones_that_begin_alike_can_be_told_apart() -> None:
    rows = [line | {"label": NAMES[i % 6]} for i, line in enumerate(named())]
    estimates = evaluate(TopK.from_scores(np.eye(4), 1), np.eye(4), metrics=["P@1"]).to_dicts()
    record = {"kind": "evaluation", "source": "ours", "estimates": estimates, "per_label": rows}
    page = pages.render(pages.page([record]))
    assert "Labels by name" in page
    assert "<script>alert" not in page
    assert "‮" not in page
    names = [f"{'a very long subject heading about ' * 3}topic {number}" for number in range(3)]
    shown = [labels.shortened(name) for name in names]
    assert len(set(shown)) == 3
    assert all(len(name) <= 63 and name.endswith(f"topic {i}") for i, name in enumerate(shown))
    assert labels.shortened("x" * 60) == "x" * 60


def test_a_refuted_run_shows_no_precision() -> None:
    """Nor does a label whose precision would be above 1 beyond chance."""
    observed = np.repeat([[1.0, 1.0], [0.0, 0.0]], [90, 10], axis=0)
    top = TopK(np.zeros((100, 1), int), np.ones((100, 1)))
    rows = label_counts(top, observed, np.array([0.4, 0.4]), names=["a", "b"]).to_dicts()
    text, table, *_ = labels.judged_section(rows, 1).parts
    assert [line[-1] for line in table.rows] == ["refuted: above 1", None]
    assert "Precision divides hits" in text.text
    text, table, *_ = labels.judged_section(rows, 1, refuted=True).parts
    assert [len(line) for line in table.rows] == [6, 6] == [len(table.columns)] * 2
    assert "this evaluation refutes, so none is shown" in text.text
    estimates = evaluate(top, observed, np.full(2, 0.4), metrics=["P@1"])
    record = {
        "kind": "evaluation", "source": "ours", "estimates": estimates.to_dicts(),
        "run": estimates.run.to_dict(), "per_label": rows, "places": 1,
    }  # fmt: skip
    assert estimates.run.standing == "refuted"
    facts = labels.label_facts(observed, np.full(2, 0.4))
    assert "by these propensities" not in " ".join(summary({**record, "labels": facts}))
    believed = {**record, "labels": facts, "run": {"standing": "not-refuted"}}
    said = "180 labels are recorded in 100 rows; by these propensities that is 40%"
    assert said in " ".join(summary(believed))
    shown = [part for section in sections(record) for part in section.parts]
    assert any("this evaluation refutes" in getattr(part, "text", "") for part in shown)


def test_labels_by_their_rankings() -> None:
    """Of scores: a label whose number is above 1 says so, and is not among the worst."""
    none = dict.fromkeys(["average_precision", "AUC", "average_precision_low", "AUC_low",
                          "average_precision_high", "AUC_high"])  # fmt: skip
    middle = dict.fromkeys(none, 0.5)
    rows = [
        {"label": "refuted", "rows": 50, "propensity": 0.5, **none},
        {"label": "usual", "rows": 20, "propensity": 0.5, **middle},
        {"label": "never", "rows": 0, "propensity": 0.5, **none},
    ]
    text, frequent, worst = labels.ranked_section(rows).parts
    assert "3 labels, each by how its scores rank the rows" in text.text
    assert [line[0] for line in frequent.rows] == ["refuted", "usual", "never"]
    assert [line[3] for line in frequent.rows][::2] == ["refuted: above 1", None]
    assert [line[0] for line in worst.rows] == ["usual"]
