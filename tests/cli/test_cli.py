"""The command line as a person uses it: results, files, exit codes, and one line for mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import unmask
from tests.helpers.command import Result, run
from unmask import data, predictions, propensity
from unmask.cli import data as cli_data
from unmask.diagnosis import findings
from unmask.diagnosis.findings import FindingKind, TestKind


@pytest.fixture(scope="module")
def small_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "train.txt.gz"
    data.write(path, data.synthetic.planted(200, n_features=50, n_labels=20, seed=0))
    return path


def test_info_counts_the_file(small_file: Path) -> None:
    found = json.loads(run("info", small_file, "--json").stdout)
    assert (found["n"], found["d"], found["L"]) == (200, 50, 20)
    assert sum(found["label_count_histogram"]) == 200
    assert "labels per row" in run("info", small_file).stdout


@pytest.mark.parametrize(
    ("counts", "spans"),
    [
        ([3, 5, 2], ["0", "1", "2"]),
        ([300, 500, 200, 0, 0, 1], ["0", "1", "2", "3–5"]),  # the longest hundredth is one line
        ([10] * 30, [*(f"{i}–{i + 2}" for i in range(0, 27, 3)), "27–29"]),
    ],
)
def test_rows_are_counted_by_their_number_of_labels(
    counts: list[int], spans: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(cli_data, "show_rows", lambda title, columns, lines: shown.extend(lines))
    about: Any = SimpleNamespace(label_count_histogram=np.array(counts), n=sum(counts))
    cli_data._show_histogram("rows", about)
    assert [line[0] for line in shown] == spans
    assert sum(line[1] for line in shown) == sum(counts)
    longest = max(shown, key=lambda line: line[1])
    assert longest[2] == "█" * 30


def test_propensities_are_those_of_the_library(small_file: Path, tmp_path: Path) -> None:
    written = tmp_path / "p.txt"
    result = run(
        "propensity", small_file, "--propensity", "jain:Amazon-670K", "-o", written, "--json"
    )
    expected = propensity.jain(data.read(small_file).labels, a=0.6, b=2.6)
    np.testing.assert_array_equal(json.loads(result.stdout)["propensity"], expected)
    np.testing.assert_array_equal(propensity.read(written), expected)
    assert "rank of the label" in run("propensity", small_file).stdout


def test_hide_writes_what_the_library_hides(small_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "hidden.txt"
    facts = json.loads(
        run(
            "hide", small_file, "-o", target, "--propensity", "constant:0.3", "--seed", 5, "--json"
        ).stdout
    )
    labels = data.read(small_file).labels
    expected = data.hide(labels, np.full(20, 0.3), seed=5)
    assert (data.read(target).labels != expected).nnz == 0
    assert facts["kept"] == expected.nnz


@pytest.mark.parametrize("name", ["out.npz", "out.txt.zst", "out.txt"])
def test_convert_loses_nothing(small_file: Path, tmp_path: Path, name: str) -> None:
    result = run("convert", small_file, tmp_path / name)
    assert result.returncode == 0, result.stderr
    before, after = data.read(small_file), data.read(tmp_path / name)
    assert (before.labels != after.labels).nnz == (before.features != after.features).nnz == 0


def test_demo_shows_what_is_lost_and_what_comes_back(tmp_path: Path) -> None:
    found = json.loads(run("demo", "-o", tmp_path / "demo", "--json").stdout)
    recall = {
        name: next(row["value"] for row in table if row["metric"] == "R@5")
        for name, table in found["scores"].items()
    }
    assert recall["vanilla"] < recall["vanilla, tuned"] < recall["unbiased"] < recall["complete"]
    lost, back = (recall[name] - recall["vanilla, tuned"] for name in ("complete", "unbiased"))
    assert back > 0.5 * lost
    deconvolved = next(
        row
        for row in found["estimates"]
        if (row["metric"], row["estimator"]) == ("R@5", "deconvolved")
    )
    assert deconvolved["low"] < recall["unbiased"] < deconvolved["high"]
    page = (tmp_path / "demo" / "report.html").read_text()
    assert all(sentence.split(":")[0] in page for sentence in found["words"])


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of a small task, a model trained on it and its predictions, all by the commands."""
    folder = tmp_path_factory.mktemp("system")
    paths = {name: folder / name for name in ("train.txt", "test.txt", "model", "top.txt")}
    rows = data.synthetic.planted(600, n_features=200, n_labels=20, seed=0)
    data.write(paths["train.txt"], rows.take(slice(0, 400)))
    data.write(paths["test.txt"], rows.take(slice(400, 600)))
    trained = run("train", paths["train.txt"], "-o", paths["model"], "--tfidf", "--prune", "0.01")
    assert trained.returncode == 0, trained.stderr
    predicted = run("predict", paths["model"], paths["test.txt"], "-o", paths["top.txt"])
    assert predicted.returncode == 0, predicted.stderr
    return paths


def evaluation(system: dict[str, Path], *more: object) -> Result:
    files = ("--labels", system["test.txt"], "--predictions", system["top.txt"])
    return run("evaluate", *files, "--train", system["train.txt"], *more)


def test_the_trained_model_predicts_what_was_planted(system: dict[str, Path]) -> None:
    found = json.loads(evaluation(system, "--metrics", "P@1", "--json").stdout)["estimates"]
    vanilla = next(row for row in found if row["estimator"] == "vanilla")
    assert vanilla["value"] > 0.9


def test_evaluation_agrees_with_the_library(system: dict[str, Path]) -> None:
    found = json.loads(evaluation(system, "--metrics", "R@5", "--json").stdout)["estimates"]
    labels = data.read(system["test.txt"]).labels
    p = propensity.jain(data.read(system["train.txt"]).labels)
    table = unmask.evaluate(
        predictions.read(system["top.txt"]), labels, p, metrics=["R@5"], estimators=["unbiased"]
    )
    shown = next(row for row in found if row["estimator"] == "unbiased")
    assert shown["value"] == table["R@5", "unbiased"].value


def test_evaluation_explains_itself(system: dict[str, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    rows = data.read(system["test.txt"]).features
    guess = np.tile(np.arange(20, dtype=np.float32), (rows.shape[0], 1))
    predictions.write(other, unmask.TopK.from_scores(guess, 5))
    shown = evaluation(system, "--html", tmp_path / "page.html", "--compare", other)
    assert shown.returncode == 0, shown.stderr
    words = " ".join(shown.stdout.split())  # lines are broken to fit the terminal
    assert "a score relative to the observed labels, not an estimate of the true metric" in words
    assert "top.txt scores higher than" in words  # other estimators are refuted
    almost_complete = ("--propensity", "constant:0.98")  # others are refuted by this file
    moves = "how far conditional numbers move"
    assert moves in evaluation(system, *almost_complete).stdout
    assert moves not in evaluation(system, *almost_complete, "--no-sensitivity").stdout
    assert "unbiased: right on average" in words
    assert "paired over rows" in words
    assert "What the estimators mean" in (tmp_path / "page.html").read_text()
    lines = evaluation(system, "--csv").stdout.splitlines()
    assert lines[0].startswith("metric,estimator,value")


def test_a_system_is_not_compared_with_itself(system: dict[str, Path]) -> None:
    refused = evaluation(system, "--metrics", "P@1", "--compare", system["top.txt"])
    assert refused.returncode == 2
    assert "give at least two systems to compare" in refused.stderr


def test_a_label_file_without_labels_is_refused(system: dict[str, Path], tmp_path: Path) -> None:
    features = tmp_path / "features.npz"
    data.write(features, replace(data.read(system["test.txt"]), labels=None, label_names=None))
    refused = run("evaluate", "--labels", features, "--predictions", system["top.txt"])
    assert refused.returncode == 2
    assert f"{features} holds no labels" in refused.stderr.replace("\n", "")


def test_diagnosis_refutes_counts_and_cannot_judge_a_file_without_empty_rows(
    system: dict[str, Path], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    asked = ("diagnose", system["train.txt"], "--propensity", "constant:0.2", "--html", page)
    record = json.loads(run(*asked, "--json").stdout)
    assert record["severity"] == "error"
    severities = {finding["kind"]: finding["severity"] for finding in record["findings"]}
    assert severities["count_thinning"] == "error"
    assert severities["cannot_judge"] == "warning"
    assert "empty_rows" not in {test["kind"] for test in record["tests"]}
    refuted = findings.TESTS[TestKind.COUNT_THINNING].title
    cannot = findings.FINDINGS[FindingKind.CANNOT_JUDGE].title
    assert refuted in page.read_text()
    assert cannot in page.read_text()
    printed = run(*asked).stdout
    assert f"error: {refuted}" in printed
    assert f"warning: {cannot}" in printed


def test_training_resumes_and_refuses_another_recipe(system: dict[str, Path]) -> None:
    same = ("train", system["train.txt"], "-o", system["model"], "--tfidf", "--prune", "0.01")
    assert run(*same).returncode == 0
    other = run("train", system["train.txt"], "-o", system["model"], "--C", "2")
    assert other.returncode == 2
    assert "another recipe" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "missing.txt"], "missing.txt"),
        (["info", __file__], "test_cli.py"),
        (["propensity", "FILE", "--propensity", "jian"], "'jian' is neither a file nor"),
        (["propensity", "FILE", "--propensity", "constant:2"], "got 2 at label 0"),
        (["propensity", "FILE", "--propensity", "jain:1,2,3"], "jain:a,b with numbers"),
        (["propensity", "FILE", "--propensity", "constant"], "constant:value with numbers"),
        (["hide", "FILE", "-o", "no/such/folder/x.txt"], "no/such/folder"),
        (["convert", "FILE", "x.txt", "--to", "arff"], "unknown format 'arff'"),
        (["evaluate", "--labels", "FILE", "--predictions", "FILE"], "give --train FILE"),
        (["predict", "FILE", "FILE", "-o", "x.txt"], "is no model folder"),
    ],
)
def test_mistakes_are_one_line_and_code_2(
    arguments: list[str], message: str, small_file: Path
) -> None:
    result = run(*(small_file if a == "FILE" else a for a in arguments))
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert result.stdout == ""


def test_version_is_the_package_version() -> None:
    assert run("--version").stdout.strip() == unmask.__version__


def test_the_package_is_a_command_too() -> None:
    command = [sys.executable, "-m", "unmask", "info", "missing.txt"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr


def test_judged_pairs_take_effect_and_are_named(system: dict[str, Path], tmp_path: Path) -> None:
    """The first prediction of every row is ignored: it leaves predictions, rankings and labels."""
    top = predictions.read(system["top.txt"])
    judged = tmp_path / "filter.txt"
    judged.write_text("".join(f"{row} {label}\n" for row, label in enumerate(top.labels[:, 0])))
    asked = ("--judgements", judged, "--propensity", "constant:0.5", "--metrics", "P@1,P@3")
    said = evaluation(system, *asked).stdout
    assert "200 ignored pairs were left out of rankings and labels." in " ".join(said.split())
    again = tmp_path / "again.txt"
    predict = ("predict", system["model"], system["test.txt"], "-o", again)
    assert "ignored pairs left out" in run(*predict, "--judgements", judged).stdout
    made = predictions.read(again)
    np.testing.assert_array_equal(made.labels[:, :4], top.labels[:, 1:])
    model = tmp_path / "model"
    shown = run("train", system["test.txt"], "-o", model, "--judgements", judged).stdout
    assert "judged pairs used" in shown
