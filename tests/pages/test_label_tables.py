"""Two tables of labels by name, whatever stands in the names."""

from __future__ import annotations

from typing import Any

import numpy as np

from unmask import TopK, evaluate, pages, report
from unmask.metrics import label_counts
from unmask.pages import label_tables

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
