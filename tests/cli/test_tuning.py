"""`unmask train`: what is corrected and why, said aloud and kept; `--tune` and what it leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.helpers.command import run
from unmask import data, linear, pages, predictions, propensity
from unmask.cli import linear as commands
from unmask.tuning import tune

HALF = ("--propensity", "constant:0.5")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training rows that lost half of their labels."""
    path = tmp_path_factory.mktemp("tuning") / "train.txt"
    rows = data.synthetic.planted(400, n_features=60, n_labels=10, seed=0)
    hidden = data.hide(rows.labels, propensity.constant(10, 0.5), seed=1)
    data.write(path, replace(rows, labels=hidden))
    return path


def manifest(model: Path) -> dict[str, object]:
    """The parameters that a model keeps."""
    stored: dict[str, object] = json.loads((model / "manifest.json").read_text())["parameters"]
    return stored


def test_without_propensities_it_trains_vanilla_and_says_so(source: Path, tmp_path: Path) -> None:
    result = run("train", source, "-o", tmp_path / "model", "--json", "-q")
    facts = json.loads(result.stdout)
    assert facts["correction"] == "vanilla"
    assert facts["because"].startswith("no propensities were stated or audited")
    kept = manifest(tmp_path / "model")
    assert (kept["correction"], kept["chosen_because"]) == ("vanilla", facts["because"])
    assert "corrected for missing labels" not in run("train", "--help").stdout


@pytest.mark.parametrize(
    ("more", "correction"),
    [((), "bound"), (("--loss", "logistic"), "unbiased"),
     (("--loss", "logistic", "--normalized"), "empirical_bayes")],
)  # fmt: skip
def test_stated_propensities_are_corrected_with(
    source: Path, tmp_path: Path, more: tuple[str, ...], correction: str
) -> None:
    result = run("train", source, "-o", tmp_path / "model", *HALF, *more, "--json", "-q")
    facts = json.loads(result.stdout)
    assert facts["correction"] == correction
    assert facts["because"].endswith("with the same propensity 0.5 for all")
    rows = data.read(source)
    kept = manifest(tmp_path / "model")
    recipe = linear.Recipe(
        str(kept["loss"]), correction=correction, normalized="--normalized" in more
    )
    model, _ = linear.train(rows.features, rows.labels, recipe, propensity=np.full(10, 0.5))
    assert np.array_equal(linear.load(tmp_path / "model").weights, model.weights)


def test_a_named_correction_is_taken(source: Path, tmp_path: Path) -> None:
    asked = ("train", source, "-o", tmp_path / "model", *HALF, "--correction", "vanilla", "--json")
    facts = json.loads(run(*asked).stdout)
    assert (facts["correction"], facts["because"]) == ("vanilla", "asked for with --correction")


def test_what_propensities_a_named_correction_takes_is_said(source: Path, tmp_path: Path) -> None:
    asked = ("train", source, "-o", tmp_path / "model", "--loss", "logistic",
             "--correction", "unbiased", "--json", "-q")  # fmt: skip
    reason = json.loads(run(*asked).stdout)["because"]
    assert reason == "asked for with --correction, with Jain's formula with a = 0.55, b = 1.5"


def test_without_propensities_tuning_says_that_no_correction_was_tried(
    source: Path, tmp_path: Path
) -> None:
    asked = ("train", source, "-o", tmp_path / "model", "--tune", "R@2", "--json", "-q")
    assert "--propensity" in json.loads(run(*asked).stdout)["corrections not tried"]


def test_tune_trains_what_the_library_chooses_and_keeps_why(source: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    asked = ("train", source, "-o", model, *HALF, "--tune", "R@2", "--json", "-q")
    facts = json.loads(run(*asked).stdout)
    rows = data.read(source)
    best = tune(rows.features, rows.labels, np.full(10, 0.5), "R@2")
    kept = manifest(model)
    assert facts["because"] == best.reason == kept["chosen_because"]
    assert (kept["loss"], kept["correction"], kept["C"], kept["rank_by"]) == (
        best.recipe.loss, best.recipe.correction, best.recipe.C, best.rank_by,
    )  # fmt: skip
    assert kept["tuned_for"] == "R@2"
    assert best.model is not None
    assert np.array_equal(linear.load(model).weights, best.model.weights)
    record = json.loads((model / "tuning.json").read_text())
    assert record == facts["tuning"]
    assert len(record["tried"]) == len(best.table)
    assert best.headline in (model / "tuning.html").read_text()
    assert run("report", model / "tuning.json", "-o", tmp_path / "page.html").returncode == 0
    assert json.loads(run(*asked).stdout)["tuning"] == record  # everything is there already
    top = tmp_path / "top.txt"
    assert run("predict", model, source, "-o", top, "--k", 2).returncode == 0
    assert np.array_equal(predictions.read(top).labels, best.predict_top(rows.features, 2).labels)


def test_a_model_that_is_ranked_by_propensities_predicts_so(source: Path, tmp_path: Path) -> None:
    rows, p = data.read(source), np.linspace(0.1, 1.0, 10)
    model = tmp_path / "model"
    recipe = linear.Recipe("logistic")
    choice = {"rank_by": "probability/propensity"}
    trained = linear.train_to(model, rows.features, rows.labels, recipe, choice=choice)
    propensity.write(model / "propensity.txt", p)
    for more, expected in (
        ((), linear.predict_top(trained, rows.features, 2, **choice, propensity=p)),
        (("--rank-by", "score"), linear.predict_top(trained, rows.features, 2)),
    ):
        top = tmp_path / "top.txt"
        assert run("predict", model, source, "-o", top, "--k", 2, *more).returncode == 0
        assert np.array_equal(predictions.read(top).labels, expected.labels)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--C", "2"), "--tune chooses --C itself"),
        (("--correction", "bound"), "--tune chooses --correction itself"),
    ],
)
def test_tune_refuses_what_it_chooses(
    source: Path, tmp_path: Path, more: tuple[str, ...], message: str
) -> None:
    result = run("train", source, "-o", tmp_path / "model", "--tune", "R@2", *more)
    assert (result.returncode, message in result.stderr) == (2, True)
    unknown = run("train", source, "-o", tmp_path / "model", "--tune", "mAP")
    assert unknown.returncode == 2
    assert "judged by their best labels" in unknown.stderr
    nowhere = run("train", source, "--tune", "R@2")
    assert (nowhere.returncode, "--output" in nowhere.stderr) == (2, True)


def test_weighted_features_are_not_weighted_again_without_a_word(tmp_path: Path) -> None:
    rows = data.synthetic.planted(60, n_features=12, n_labels=4, seed=0)
    counts, weighted = rows.features.copy(), rows.features.copy()
    counts.data = np.ceil(counts.data)
    weighted.data = weighted.data / 3 + 0.1
    for name, features, warned in (("counts", counts, False), ("weighted", weighted, True)):
        data.write(tmp_path / f"{name}.txt", data.Dataset(features, rows.labels))
        asked = ("train", tmp_path / f"{name}.txt", "-o", tmp_path / name, "--tfidf", "-q")
        result = run(*asked)
        assert result.returncode == 0
        assert ("leave --tfidf out" in result.stderr) == warned


@pytest.mark.parametrize(
    ("rank_by", "p", "kept"),
    [("score", [0.5], False), ("probability/propensity", None, False),
     ("probability/propensity", [0.5, 0.25], True)],
)  # fmt: skip
def test_propensities_are_kept_where_labels_are_ranked_by_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rank_by: str, p: list[float] | None, kept: bool
) -> None:
    monkeypatch.setattr(pages, "write_records", lambda records, path: None)
    best: Any = SimpleNamespace(
        to_dict=lambda: {"kind": "tuning"}, rank_by=rank_by,
        propensity=None if p is None else np.array(p),
    )  # fmt: skip
    record = commands._written(best, tmp_path, Path("train.txt"))
    assert record["source"] == "train.txt"
    assert json.loads((tmp_path / commands.RECORD).read_text())["kind"] == "tuning"
    assert (tmp_path / commands.RANKED_BY).exists() == kept
    if kept:
        assert propensity.read(tmp_path / commands.RANKED_BY).tolist() == p
