"""Two tables of labels by name, whatever stands in the names."""

from __future__ import annotations

from typing import Any

import numpy as np

from unmask import TopK, evaluate, pages, report
from unmask.metrics import label_counts
from unmask.pages import label_tables
from unmask.pages.comparison import estimate_cell
from unmask.pages.label_figures import label_facts

NAMES = ["<script>alert(1)</script>", "‮right to left", "a" * 500, "=1+1", "emoji 👩‍🔬", "x,y"]


def rows() -> list[Any]:
    rng = np.random.default_rng(0)
    names = [*NAMES, *(f"subject {i}" for i in range(1994))]
    observed = (rng.random((40, 2000)) < np.linspace(0.9, 0.1, 2000)).astype(int)
    top = TopK.from_scores(rng.random((40, 2000)), 50)
    return label_counts(top, observed, np.full(2000, 0.5), names=names).to_dicts()


def test_two_thousand_names_give_two_short_tables() -> None:
    section = label_tables.section(rows(), 50)
    text, frequent, missed = section.parts
    assert "2,000 labels" in text.text
    assert len(frequent.rows) == len(missed.rows) == label_tables.SHOWN
    counts = [row[1] for row in frequent.rows]
    assert counts == sorted(counts, reverse=True)
    recalls = [row[5].value for row in missed.rows]
    assert recalls == sorted(recalls)
    assert all(len(row[0]) <= 80 for row in (*frequent.rows, *missed.rows))


def test_names_are_no_markup(tmp_path) -> None:
    labels = [row | {"label": NAMES[i % 6]} for i, row in enumerate(rows())]
    top, observed = TopK.from_scores(np.eye(4), 1), np.eye(4)
    estimates = evaluate(top, observed, metrics=["P@1"]).to_dicts()
    record = {"kind": "evaluation", "source": "ours", "estimates": estimates, "per_label": labels}
    report.write(pages.page([record]), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Labels by name" in page
    assert "<script>alert" not in page
    assert "‮" not in page


def test_long_names_that_begin_alike_can_be_told_apart() -> None:
    names = [f"{'a very long subject heading about ' * 3}topic {number}" for number in range(3)]
    shown = [label_tables._short(name) for name in names]
    assert len(set(shown)) == 3
    assert all(len(name) <= 63 and name.endswith(f"topic {i}") for i, name in enumerate(shown))
    assert label_tables._short("x" * 60) == "x" * 60


def test_a_refuted_run_shows_no_precision() -> None:
    """Nor does a label whose precision would be above 1 beyond chance."""
    observed = np.repeat([[1.0, 1.0], [0.0, 0.0]], [90, 10], axis=0)
    top = TopK(np.zeros((100, 1), int), np.ones((100, 1)))
    labels = label_counts(top, observed, np.array([0.4, 0.4]), names=["a", "b"]).to_dicts()
    text, table, *_ = label_tables.section(labels, 1).parts
    assert [row[-1] for row in table.rows] == ["refuted: above 1", None]
    assert "Precision divides hits" in text.text
    text, table, *_ = label_tables.section(labels, 1, refuted=True).parts
    assert [len(row) for row in table.rows] == [6, 6] == [len(table.columns)] * 2
    assert "this evaluation refutes, so none is shown" in text.text
    estimates = evaluate(top, observed, np.full(2, 0.4), metrics=["P@1"])
    record = {
        "kind": "evaluation", "source": "ours", "estimates": estimates.to_dicts(),
        "run": estimates.run.to_dict(), "per_label": labels, "places": 1,
    }  # fmt: skip
    assert estimates.run.standing == "refuted"
    facts = label_facts(observed, np.full(2, 0.4))
    said = " ".join(pages.evaluation.summary({**record, "labels": facts}))
    assert "by these propensities" not in said
    believed = {**record, "labels": facts, "run": {"standing": "not-refuted"}}
    assert "180 labels are recorded in 100 rows; by these propensities that is 40%" in " ".join(
        pages.evaluation.summary(believed)
    )
    shown = [part for section in pages.evaluation.sections(record) for part in section.parts]
    assert any("this evaluation refutes" in getattr(part, "text", "") for part in shown)


def test_a_value_far_from_its_interval_stands_alone() -> None:
    for value in (0.5, 1.2, 0.1):
        shown = estimate_cell({"value": value, "low": 0.4, "high": 0.8})
        assert (shown.value, shown.low, shown.high) == (value, 0.4, 0.8)
    for value in (1.21, -0.01, -3010.4):
        shown = estimate_cell({"value": value, "low": 0.4, "high": 0.8})
        assert (shown.value, shown.low, shown.high) == (value, None, None)


def test_labels_by_their_rankings() -> None:
    """Of scores: a label whose number is above 1 says so, and is not among the worst."""
    none = dict.fromkeys(["average_precision", "AUC", "average_precision_low", "AUC_low",
                          "average_precision_high", "AUC_high"])  # fmt: skip
    middle = dict.fromkeys(none, 0.5)
    labels = [
        {"label": "refuted", "rows": 50, "propensity": 0.5, **none},
        {"label": "usual", "rows": 20, "propensity": 0.5, **middle},
        {"label": "never", "rows": 0, "propensity": 0.5, **none},
    ]
    text, frequent, worst = label_tables.ranking_section(labels).parts
    assert "3 labels, each by how its scores rank the rows" in text.text
    assert [row[0] for row in frequent.rows] == ["refuted", "usual", "never"]
    assert [row[3] for row in frequent.rows][::2] == ["refuted: above 1", None]
    assert [row[0] for row in worst.rows] == ["usual"]
