"""What notebooks show: tables in which names are text, and figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from unmask import TopK, audit, data, diagnose, evaluate, weights
from unmask.metrics import compare

LABELS = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 0]] * 20)
TOP = TopK.from_scores(np.random.default_rng(0).random((60, 3)), 2)
P = [0.5, 0.6, 0.9]
EVIL = ("<b>bold</b>", "\u202eturned", "law & order")
TABLE = evaluate(TOP, LABELS, P, metrics=["P@1"], estimators=["vanilla", "unbiased"])
SYSTEMS = {"<i>a</i>": TOP, "b": TopK.from_scores(np.eye(3)[np.arange(60) % 3], 2)}
SHOWN = {
    "Dataset": data.Dataset(None, LABELS, label_names=EVIL, ids=[f"<{i}>" for i in range(60)]),
    "TopK": TOP.named(names=EVIL),
    "Table": TABLE,
    "Tables": compare(SYSTEMS, LABELS, P, metrics=["P@1"], estimators=["vanilla"]),
    "Diagnosis": diagnose(LABELS, [0.05, 0.6, 0.9], names=EVIL),
    "Weights": weights.unbiased(LABELS, P),
    "AuditPlan": audit.plan(TOP, LABELS, budget=20, metrics=["P@1", "R@1"]),
}


@pytest.mark.parametrize("kind", SHOWN)
def test_notebooks_show_a_table_in_which_names_are_text(kind: str) -> None:
    shown = SHOWN[kind]._repr_html_()
    assert shown.startswith("<table><caption>")
    assert not any(mark in shown for mark in ("<b>", "<i>", "<1>", "\u202e", "& order"))
    assert type(SHOWN[kind]).__name__ == kind
    if kind == "AuditPlan":
        assert "20 rows to judge" in shown
        assert "<td>P@1</td><td>0." in shown
    if kind in ("Dataset", "TopK"):
        assert "law &amp; order" in shown


def test_plots_are_figures_or_files(tmp_path: Path) -> None:
    figure = TABLE.plot()
    assert isinstance(figure, Figure)
    assert figure.axes
    assert TABLE.plot(tmp_path / "t.svg") == tmp_path / "t.svg"
    assert isinstance(SHOWN["Tables"].plot(), Figure)
