"""The examples run, are short, and show what they say."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.helpers.paths import ROOT
from unmask import data, evaluate

FOLDER = ROOT / "examples"
IN_TEST_TORCH = {"torch_mlp", "huggingface_trainer", "lightning_tagger"}
"""Run in `tests/torch`: a minute of training, slow, and trainers that need not be installed."""


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / f"{name}.py"))


def test_predictions_of_others_are_evaluated(tmp_path: Path) -> None:
    found = example("evaluate_predictions")
    recall = found["main"](*found["made_up"](tmp_path))
    assert recall.keys() == {"vanilla", "unbiased", "deconvolved"}


def test_the_deconvolved_scorer_chooses_the_better_model() -> None:
    chosen = example("grid_search")["main"]()
    assert chosen["deconvolved"] > chosen["vanilla"]


def test_exported_weights_help_another_solver() -> None:
    found = example("export_weights")["main"]()
    assert found["bound"] > found["vanilla"]


def test_findings_are_reviewed_and_repair_the_data() -> None:
    found = example("missing_labels")["main"]()
    assert found["confirmed"] == round(200 * found["precision"])
    assert found["precision"] > 0.8


def test_an_audit_measures_what_propensities_miss() -> None:
    values = example("audit")["main"]()
    assert values["low"] <= values["truth"] <= values["high"]
    error = {name: abs(values[name] - values["truth"]) for name in ("measured", "deconvolved")}
    assert error["measured"] < error["deconvolved"]


def test_streaming_gives_the_same_bits_and_is_a_program() -> None:
    command = [sys.executable, str(FOLDER / "streaming.py")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "same bits as in one call: True" in shown.stdout


def test_a_notebook_as_a_script_runs_and_its_intervals_hold_the_truth() -> None:
    cells = example("tags_notebook")
    test, top = cells["test"], cells["top"]
    true_labels, _ = data.label_matrix([cells["complete"][id] for id in test.ids], test.label_names)
    truth = evaluate(top, true_labels, metrics=["R@2"])["R@2", "vanilla"].value
    assert cells["low"] <= truth <= cells["high"]
    low, high = cells["estimated"]["R@2", "deconvolved"].interval
    assert low <= truth <= high


TESTED = {
    "tags_notebook",
    "audit",
    "evaluate_predictions",
    "grid_search",
    "export_weights",
    "missing_labels",
    "streaming",
} | IN_TEST_TORCH


def test_every_example_is_tested_and_a_short_notebook() -> None:
    files = {path.stem: path for path in FOLDER.glob("*.py")}
    assert files.keys() == TESTED
    for path in files.values():
        source = path.read_text(encoding="utf-8")
        assert len(source.splitlines()) < 70, path.name
        assert source.startswith("# %% [markdown]\n# "), path.name  # jupytext's percent format
        assert source.count("\n\n# %%\n") >= 3, path.name
