"""`unmask train --model tree`, and the commands that follow it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.command import run
from unmask import data, predictions, tree
from unmask.cli import train as command
from unmask.data import synthetic

ROWS = synthetic.planted(160, n_features=40, n_labels=30, labels_per_row=3, seed=8)


@pytest.fixture
def train(tmp_path: Path) -> Path:
    data.write(tmp_path / "train.txt", ROWS)
    return tmp_path / "train.txt"


def test_train_predict_and_evaluate(train: Path, tmp_path: Path) -> None:
    model, predicted = tmp_path / "model", tmp_path / "top.txt"
    arguments = ("--model", "tree", "--tfidf", "--trees", 2, "--json", "--prune", 0.2)
    made = run("train", train, "-o", model, *arguments)
    assert made.returncode == 0, made.stderr
    facts = json.loads(made.stdout)
    assert (facts["labels"], facts["trees"], facts["features"]) == (30, 2, 40)
    assert facts["model of"] == "label trees, as asked"
    loaded = tree.load(model)
    assert (loaded.parameters["prune_below"], loaded.parameters["tol"]) == (0.2, None)
    assert run("predict", model, train, "-o", predicted, "--k", 3, "--beam", 4).returncode == 0
    features = data.tfidf(ROWS.features, loaded.idf)
    wanted = tree.predict_top(loaded, features, 3, beam=4)
    np.testing.assert_array_equal(predictions.read(predicted).labels, wanted.labels)
    table = run(
        "evaluate",
        "--predictions",
        predicted,
        "--labels",
        train,
        "--train",
        train,
        "--metrics",
        "P@1",
        "--json",
    )
    assert table.returncode == 0, table.stderr
    assert json.loads(table.stdout)
    refused = run("predict", model, train, "-o", predicted, "--scheduler", "local:1")
    assert (refused.returncode, "leave --scheduler out" in refused.stderr) == (2, True)


def test_corrections_need_no_more_than_a_name(train: Path, tmp_path: Path) -> None:
    for correction in ("unbiased", "vanilla"):
        made = run(
            "train", train, "-o", tmp_path / correction, "--model", "tree", "--trees", 1,
            "--correction", correction, "--json",
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
    one, other = (tree.load(tmp_path / name) for name in ("unbiased", "vanilla"))
    assert one.parameters["correction"] == "unbiased"
    assert not np.array_equal(one.trees[0].parts[0][0].bias, other.trees[0].parts[0][0].bias)


def test_the_plan_says_memory_and_time(train: Path) -> None:
    planned = run("train", train, "--model", "tree", "--plan", "--json")
    assert planned.returncode == 0, planned.stderr
    plan = json.loads(planned.stdout)
    assert (plan["rows"], plan["labels"], plan["trees"], plan["sampled"]) == (160, 30, 3, 30)
    assert plan["memory"] > 0
    assert plan["seconds"] > 0
    assert "expected time" in run("train", train, "--model", "tree", "--plan").stdout
    assert run("train", train, "--model", "tree").returncode == 2


def test_labels_are_added_to_a_tree(train: Path, tmp_path: Path) -> None:
    fewer = data.Dataset(features=ROWS.features, labels=ROWS.labels[:, :28])
    data.write(tmp_path / "fewer.txt", fewer)
    assert (
        run("train", tmp_path / "fewer.txt", "-o", tmp_path / "a", "--model", "tree").returncode
        == 0
    )
    added = run("train", train, "-o", tmp_path / "b", "--first", tmp_path / "a", "--json")
    assert added.returncode == 0, added.stderr
    assert tree.load(tmp_path / "b").n_labels == 30


def test_auto_chooses_and_says_why(
    train: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = json.loads(run("train", train, "-o", tmp_path / "few", "--json").stdout)
    assert few["model of"] == "one-vs-all, the best there is below 20,000 labels"
    monkeypatch.setattr(command, "MANY", 30)
    many = json.loads(run("train", train, "-o", tmp_path / "many", "--json").stdout)
    assert many["model of"].startswith("label trees: one-vs-all of 30 labels takes long")
    other = run("train", train, "-o", tmp_path / "other", "--normalized", "--json")
    assert json.loads(other.stdout)["model of"] == (
        "one-vs-all, because label trees have no --normalized"
    )
    assert "model of" not in json.loads(
        run("train", train, "-o", tmp_path / "asked", "--model", "linear", "--json").stdout
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "forest"), "model"),
        (("--model", "tree", "--normalized"), "cannot be trained with --normalized"),
        (("--model", "tree", "--correction", "bound"), "--correction bound"),
        (("--model", "tree", "--loss", "squared_error", "--l2", 1), "--loss squared_error, --l2"),
        (("--trees", 2), "--trees is for label trees"),
        (("--model", "tree", "--trees", 0), "n_trees"),
    ],
)
def test_what_does_not_go_together_is_refused(
    train: Path, tmp_path: Path, arguments: tuple[object, ...], message: str
) -> None:
    refused = run("train", train, "-o", tmp_path / "model", *arguments)
    assert refused.returncode == 2
    assert message in " ".join(refused.stderr.split())
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("rounds", [0, 1])
def test_missing_labels_are_found_with_a_tree(train: Path, tmp_path: Path, rounds: int) -> None:
    run("train", train, "-o", tmp_path / "model", "--model", "tree", "--trees", 1)
    out = tmp_path / "found.csv"
    listed = run(
        "missing", tmp_path / "model", train, "-o", out, "--rounds", rounds, "--propensity",
        "constant:0.7", "--json",
    )  # fmt: skip
    assert listed.returncode == 0, listed.stderr
    assert len(out.read_text().splitlines()) > 1


def test_tuning_says_what_it_chose(train: Path, tmp_path: Path) -> None:
    model = tmp_path / "tuned"
    arguments = ("--model", "tree", "--trees", 1, "--tune", "R@3", "--propensity", "constant:0.5")
    made = run("train", train, "-o", model, *arguments, "--json")
    assert made.returncode == 0, made.stderr
    facts = json.loads(made.stdout)
    kept = tree.load(model).parameters
    assert facts["because"] == "It is the best by R@3 of all that was tried."
    assert "R@3 about 0." in facts["chosen"]
    assert [facts["loss"], facts["C"], facts["correction"]] == [
        kept["loss"], kept["C"], kept["correction"],
    ]  # fmt: skip
    assert ("predict with" in facts) == (facts["rank by"] != "score")
    refused = run("train", train, "-o", model, *arguments, "--C", 2, "--loss", "logistic")
    assert refused.returncode == 2
    assert "--tune chooses --loss, --C itself" in refused.stderr
