"""What notebooks show: tables in which names are text, and figures."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import unmask
from unmask import TopK, audit, data, diagnose, evaluate, missing, thresholds, weights
from unmask.metrics import compare, curve, reliability
from unmask.missing import Bin
from unmask.missing.findings import Quality
from unmask.predictions import LabelSets

LABELS = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 0]] * 20)
TOP = TopK.from_scores(np.random.default_rng(0).random((60, 3)), 2)
P = [0.5, 0.6, 0.9]
EVIL = ("<b>bold</b>", "\u202eturned", "law & order")
TABLE = evaluate(TOP, LABELS, P, metrics=["P@1"], estimators=["vanilla", "unbiased"])
SCORES = np.random.default_rng(1).random((60, 3))
SYSTEMS = {"<i>a</i>": TOP, "b": TopK.from_scores(np.eye(3)[np.arange(60) % 3], 2)}
SHOWN = {
    "Dataset": data.Dataset(None, LABELS, label_names=EVIL, ids=[f"<{i}>" for i in range(60)]),
    "TopK": TOP.named(names=EVIL),
    "Table": TABLE,
    "Tables": compare(SYSTEMS, LABELS, P, metrics=["P@1"], estimators=["vanilla"]),
    "Diagnosis": diagnose(LABELS, [0.05, 0.6, 0.9], names=EVIL),
    "Weights": weights.unbiased(LABELS, P),
    "AuditPlan": audit.plan(TOP, LABELS, budget=20, metrics=["P@1", "R@1"]),
    "LabelSets": LabelSets.from_scores(SCORES, 0.5, names=EVIL, ids=[f"<{i}>" for i in range(60)]),
    "Curve": curve(SCORES, LABELS, P),
    "Reliability": reliability(SCORES, LABELS, P, bins=4),
    "Calibration": thresholds.calibrate(SCORES, LABELS, P),
    "Thresholds": thresholds.fit(SCORES, LABELS, P, metric="micro-F1"),
    "Findings": missing.find(SCORES, data.Dataset(None, LABELS, label_names=EVIL), P),
    "Quality": Quality(
        "rehearsed", 0.874, (0.81, 0.93), 0.456, (0.4, 0.5),
        (Bin(120, 0.9, 0.8765, (0.8, 0.9)), Bin(7, 0.25, 0.3, (0.1, 0.5))), 100,
    ),
}  # fmt: skip
"""One of every kind but a search (`Tuned`), which takes longer."""
NAMELESS = {
    "TopK": TOP, "LabelSets": LabelSets.from_scores(SCORES, 0.5),
    "Dataset": data.Dataset(np.eye(4), LABELS[:4], texts=["t" * 90, "a", "b", "c"]),
    "AuditPlan": audit.plan(TOP, LABELS, budget=20, metrics=["P@1"], unit="pairs"),
}  # fmt: skip


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


def shown_kinds() -> set[str]:
    """Names of all classes of ours that notebooks show in a way of their own."""
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(unmask.__path__, "unmask.")
        if "__main__" not in found.name
    ]
    kinds = (each for module in modules for each in vars(module).values())
    return {
        each.__name__
        for each in kinds
        if isinstance(each, type)
        and "_repr_html_" in vars(each)
        and each.__module__.startswith("unmask.")
    }


def test_every_kind_is_shown_here() -> None:
    assert shown_kinds() == {*SHOWN, "Tuned"}


LOOKS = {
    "Dataset": ("60 rows, 3 labels", "row text labels", 6),
    "TopK": ("the best 2 labels of 60 rows", "row labels (scores), best first", 6),
    "Table": ("estimates", "metric vanilla unbiased", 2),
    "Tables": ("estimates side by side", "metric estimator b", 2),
    "Diagnosis": ("the assumptions do not hold", "finding what shows it what to do", 9),
    "Weights": ("weights of 100 observed labels in 60 rows", "lowest highest", 3),
    "AuditPlan": ("20 rows to judge", "metric ± with half of it ± with this", 3),
    "LabelSets": ("predicted sets of 60 rows, 1.53 labels in a row", "row labels", 6),
    "Curve": ("by threshold, unbiased", "threshold precision recall f1", 12),
    "Reliability": ("calibration error 0.4269", "probability pairs mean true share", 5),
    "Calibration": ("isotonic calibration", "score probability of a true label", 10),
    "Thresholds": ("thresholds", "", 6),
    "Findings": ("21 labels are probably missing (15 to 28", "id label probability", 21),
    "Quality": ("87% of the findings are right", "findings stated right", 3),
}
"""Words of the caption and of the header, and rows with the header."""


def test_captions_headers_and_rows() -> None:
    for kind, (caption, header, rows) in LOOKS.items():
        shown = SHOWN[kind]._repr_html_()
        assert caption in shown.partition("</caption>")[0], kind
        assert header in " ".join(re.findall("<th>(.*?)</th>", shown)).strip(), kind
        assert shown.count("<tr>") == rows, kind
    for kind, each in NAMELESS.items():  # numbers where there are no names
        assert each._repr_html_().startswith("<table><caption>"), kind
    assert "<td>0</td>" in NAMELESS["Dataset"]._repr_html_()


def test_plots_are_figures_or_files(tmp_path: Path) -> None:
    figure = TABLE.plot()
    assert isinstance(figure, Figure)
    assert figure.axes
    assert TABLE.plot(tmp_path / "t.svg") == tmp_path / "t.svg"
    assert isinstance(SHOWN["Tables"].plot(), Figure)
