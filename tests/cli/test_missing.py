"""`unmask missing` and `unmask complete`: from a table of texts to a repaired one."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers import tagged
from tests.helpers.command import run
from unmask import missing
from unmask.cli import missing as command

STATED = ("--propensity", "constant:0.7", "--quiet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of tagged texts, a model of it, and the first three of its findings."""
    place = tmp_path_factory.mktemp("missing")
    tagged.write_csv(place / "tags.csv", tagged.rows(200, seed=1))
    made = run(
        "train", place / "tags.csv", "--text", "text", "--loss", "logistic", "--correction",
        "unbiased", "-o", place / "model", *STATED,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    found = run(
        "missing", place / "model", place / "tags.csv", "--text", "text", "--rounds", 0, "-o",
        place / "first.csv", "--top", 3, *STATED,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return place


@pytest.mark.parametrize(
    ("loss", "stored", "cost", "l2"),
    [
        ("squared_hinge", {"C": 3.0}, 10.0, None),
        ("logistic", {"C": 3.0, "correction": "unbiased"}, 30.0, None),
        ("logistic", {"C": 3.0, "correction": "completed"}, 3.0, None),
        ("logistic", {"C": None, "l2": 0.5}, 10.0, 0.05),
    ],
)
def test_completion_is_ten_times_as_strong_as_the_model(
    loss: str, stored: dict[str, Any], cost: float, l2: float | None
) -> None:
    """Unless it was completed itself; of another loss nothing is known."""
    recipe = command._recipe(SimpleNamespace(loss=loss, parameters=stored))
    assert (recipe.loss, recipe.C, recipe.l2) == ("logistic", cost, l2)


def test_from_model_to_repaired_data(folder: Path) -> None:
    found = run(
        "missing", folder / "model", folder / "tags.csv", "--text", "text", "-o",
        folder / "findings.csv", "--top", 20, "--page", folder / "judge.html", "--label-studio",
        folder / "tasks.json", "--argilla", folder / "records.json", "--check", "--json", *STATED,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    said = json.loads(found.stdout)
    with open(folder / "findings.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["id"] for row in table] == [pair["id"] for pair in said["pairs"]]
    assert len(table) == 20
    assert said["expected_interval"][0] < said["expected"] < said["expected_interval"][1]
    assert said["check"]["way"] == "rehearsed"
    assert {Path(path).name for path in said["written"]} == {
        "findings.csv", "findings.review.json", "judge.html", "tasks.json", "tasks.xml",
        "records.json",
    }  # fmt: skip
    review = missing.read_review(folder / "findings.review.json")
    assert review.sheet.key in (folder / "judge.html").read_text()
    answers = [
        {"question": question.id, "answer": "yes" if place % 2 else "no"}
        for place, question in enumerate(review.sheet.questions[:10])
    ]
    (folder / "ann.json").write_text(json.dumps(answers))
    repaired = run(
        "complete", folder / "tags.csv", folder / "findings.review.json", "--text", "text",
        "--answers", folder / "ann.json", "-o", folder / "repaired.csv", "--json", "--quiet",
    )  # fmt: skip
    assert repaired.returncode == 0, repaired.stderr
    counts = json.loads(repaired.stdout)
    assert (counts["confirmed"], counts["refuted"], counts["imputed"]) == (5, 5, 0)
    assert counts["share of the findings that is right"].startswith("50% (")
    with open(folder / "repaired-provenance.csv", newline="") as file:
        origins = [row["origin"] for row in csv.DictReader(file)]
    assert origins.count("confirmed") == 5
    filled = run(
        "complete", folder / "tags.csv", folder / "findings.review.json", "--text", "text",
        "--threshold", "0.5", "-o", folder / "filled.csv",
    )  # fmt: skip
    assert "nobody confirmed" in filled.stderr
    assert "20" in filled.stdout


def test_the_model_as_it_is_and_suspicious_labels(folder: Path) -> None:
    for more in ((), ("--suspicious",)):
        found = run(
            "missing", folder / "model", folder / "tags.csv", "--text", "text", "--rounds", 0, "-o",
            folder / "other.csv", "--top", 3, *more, *STATED,
        )  # fmt: skip
        assert found.returncode == 0, found.stderr
        assert f"labels probably {'wrong' if more else 'missing'}" in found.stdout
        assert len((folder / "other.csv").read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing", "model", "tags.csv", "--rounds", -1), "--rounds must be 0 or more; got -1"),
        (("missing", "model", "tags.csv", "--top", 0), "top must be"),
        (("complete", "tags.csv", "tags.csv"), "tags.csv"),
        (("complete", "tags.csv", "first.review.json"), "nothing to repair with"),
    ],
)
def test_mistakes_are_one_line(
    folder: Path, arguments: tuple[object, ...], message: str, tmp_path: Path
) -> None:
    command, *rest = arguments
    paths = [folder / str(each) if "." in str(each) or each == "model" else each for each in rest]
    text = ("--text", "text")
    result = run(command, *paths, *text, "-o", tmp_path / "out.csv", "--quiet")
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_next_command_is_one_that_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    found = run("missing", "model", "tags.csv", "--text", "text", "-o", "few.csv", "--top", 3,
                "--rounds", 0, *STATED)  # fmt: skip
    assert found.returncode == 0, found.stderr
    words = " ".join(found.stdout.split()).partition("then unmask ")[2].split()
    assert words[:3] == ["complete", "tags.csv", "few.review.json"]
    asked = missing.read_review("few.review.json").sheet.questions
    Path("answers.json").write_text(json.dumps([{"question": asked[0].id, "answer": "yes"}]))
    words[words.index("FILE")] = "done.csv"
    repaired = run(*words, "--json")
    assert repaired.returncode == 0, repaired.stderr
    assert json.loads(repaired.stdout)["confirmed"] == 1
    assert Path("done.csv").read_text().startswith("id,text,labels")  # texts are not lost


def test_findings_run_nothing(tmp_path: Path) -> None:
    """Names that a spreadsheet would run are marked in tables that people open, and no others."""
    names = ["=cmd()", "@home"]
    rows = [f"r{i},word{i % 5} other{i % 3},{names[i % 2]}" for i in range(60)]
    (tmp_path / "tags.csv").write_text("\n".join(["id,text,tags", *rows]) + "\n")
    made = run("train", tmp_path / "tags.csv", "--text", "text", "-o", tmp_path / "m", *STATED)
    assert made.returncode == 0, made.stderr
    for ending, shown in ((".csv", {"'=cmd()", "'@home"}), (".jsonl", {*names})):
        out = tmp_path / f"found{ending}"
        found = run(
            "missing", tmp_path / "m", tmp_path / "tags.csv", "--text", "text", "--rounds", 0,
            "-o", out, *STATED,
        )  # fmt: skip
        assert found.returncode == 0, found.stderr
        with open(out, newline="") as file:
            lines = map(json.loads, file) if ending == ".jsonl" else csv.DictReader(file)
            assert {line["label"] for line in lines} == shown
