"""What goes into an audit: the labels that judges may choose, and a folder that can be trusted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.audits import judge
from tests.helpers.command import run
from unmask import audit, data, predictions
from unmask.predictions import TopK

N, L, FREQUENT = 150, 120, 25


def name(label: int) -> str:
    return f"label {label}"


@pytest.fixture(autouse=True)
def truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """Documents recorded at 15 %, whose rare labels are often neither recorded nor predicted."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    often = 1 / np.arange(1, L + 1)
    true = [
        set(rng.choice(L, size=rng.integers(2, 8), replace=False, p=often / often.sum()).tolist())
        for _ in range(N)
    ]
    recorded = [[name(label) for label in own if rng.random() < 0.15] for own in true]
    rows = [f"d{i},{';'.join(own)}" for i, own in enumerate(recorded)]
    Path("test.csv").write_text("\n".join(["id,labels", *rows, ""]))
    lines = ["id,label,score"]
    for i, own in enumerate(true):
        hits = [label for label in own if label < FREQUENT][:3]
        others = [label for label in rng.permutation(FREQUENT).tolist() if label not in own]
        for place, label in enumerate([*hits, *others][:5]):
            lines.append(f"d{i},{name(label)},{1 - place / 9}")
    Path("p.csv").write_text("\n".join([*lines, ""]))
    Path("labels.txt").write_text("".join(f"{name(label)}\n" for label in range(L)))
    everything = ";".join(map(name, range(L)))
    Path("train.csv").write_text(f"id,labels\na,{everything}\nb,{name(0)}\n")
    return true


def plan(*more: object, budget: int = N, folder: str = "audit") -> audit.AuditFolder:
    metrics = "P@5,R@5,sample-F1,micro-R@5"
    result = run("audit", "plan", "--labels", "test.csv", "--predictions", "p.csv", "--budget",
                 budget, "--metrics", metrics, "-o", folder, *more)  # fmt: skip
    assert result.returncode == 0, result.stderr
    return audit.read_folder(folder)


def answered(folder: audit.AuditFolder, truth: list[set[int]], *, typed: bool = False) -> str:
    """What a perfect judge saves, who may type labels that the list does not have."""
    numbers = {label: number for number, label in enumerate(folder.sheet.label_names)}
    entries: list[dict[str, Any]] = []
    for question in folder.sheet.questions:
        own = [name(label) for label in sorted(truth[question.row])]
        entry = {"question": question.id, "complete": True,
                 "labels": [numbers[each] for each in own if each in numbers]}  # fmt: skip
        beyond = [each for each in own if each not in numbers]
        entries.append({**entry, "others": beyond} if typed and beyond else entry)
    record = {"kind": "answers", "key": folder.sheet.key, "annotator": "ann", "answers": entries}
    Path("ann.json").write_text(json.dumps(record))
    return "ann.json"


def estimates(folder: str, answers: str) -> dict[str, dict[str, Any]]:
    result = run("audit", "estimate", folder, "--answers", answers, "--json")
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)["estimates"]
    return {row["metric"]: row for row in rows if row["estimator"] == "measured"}


def refused(*arguments: object) -> str:
    result = run("audit", *arguments)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_recall_is_measured_only_of_labels_that_judges_were_offered(truth: list[set[int]]) -> None:
    """All rows are judged perfectly, so that every number is exact or wrong by its vocabulary."""
    top = predictions.read("p.csv").aligned(
        ids=[f"d{i}" for i in range(N)], names=[name(label) for label in range(L)]
    )
    hits = np.array([len(set(top.labels[i].tolist()) & own) for i, own in enumerate(truth)])
    sizes = np.array([len(own) for own in truth])
    exact = {
        "P@5": np.mean(hits / 5), "R@5": np.mean(hits / sizes),
        "sample-F1": np.mean(2 * hits / (5 + sizes)), "micro-R@5": hits.sum() / sizes.sum(),
    }  # fmt: skip
    for options in (("--vocabulary", "labels.txt"), ("--train", "train.csv"),
                    ("--label-names", "labels.txt")):  # fmt: skip
        folder = plan(*options, folder=options[0][2:])
        assert set(folder.sheet.label_names) == {name(label) for label in range(L)}
        for metric, row in estimates(options[0][2:], answered(folder, truth)).items():
            assert row["value"] == pytest.approx(exact[metric], abs=1e-9)
            assert row["verdict"]["level"] == "measured"
    folder = plan(folder="seen")
    assert len(folder.sheet.label_names) < L
    seen = estimates("seen", answered(folder, truth))
    typed = estimates("seen", answered(folder, truth, typed=True))
    for metric in exact:
        assert typed[metric]["value"] == pytest.approx(exact[metric], abs=1e-9)
        if metric == "P@5":
            assert seen[metric]["value"] == pytest.approx(exact[metric], abs=1e-9)
            assert seen[metric]["verdict"]["level"] == "measured"
            continue
        assert seen[metric]["value"] > exact[metric] + 0.02, "what the level has to warn of"
        for row, words in ((seen[metric], "not counted"), (typed[metric], "others that they")):
            assert row["verdict"]["level"] == "doubtful"
            assert words in row["verdict"]["why"]
            assert "--vocabulary" in row["verdict"]["why"]
    text = run("audit", "estimate", "seen").stdout
    assert "Measured on judged rows, whatever hid the labels: P@5" in " ".join(text.split())
    assert "--vocabulary" in refused("estimate", "seen", "--until-width", 0.1)


def test_a_data_set_says_whether_its_labels_are_all_there_are() -> None:
    rows = data.read("test.csv")
    top = TopK.from_scores(np.random.default_rng(0).random(rows.labels.shape), 5)
    whole = rows.with_label_names([*rows.label_names, "label that nobody recorded"])
    wide = TopK.from_scores(np.random.default_rng(0).random(whole.labels.shape), 5)
    data.write("test.npz", whole)
    for labels, lists, vocabulary in (
        (rows, top, "seen"), (rows.labels, top, "stated"), (whole, wide, "stated"),
        (data.read("test.npz"), wide, "stated"), (data.Dataset(None, rows.labels), top, "stated"),
    ):  # fmt: skip
        made = audit.plan(lists, labels, budget=40, metrics=["R@5"], expect=False)
        assert made.sample.vocabulary == vocabulary
        more = audit.extend(made, lists, labels, budget=10, seed=1)
        assert (len(more), more.sample.vocabulary) == (50, vocabulary)
    stated = audit.plan(top, rows, budget=40, vocabulary="stated", expect=False)
    assert stated.sample.vocabulary == "stated"
    with pytest.raises(ValueError, match="has no labels"):
        audit.plan(top, data.Dataset(np.ones((N, 1)), None), budget=40)


def test_a_file_that_says_how_many_labels_there_are_has_its_vocabulary() -> None:
    top = TopK.from_scores(np.random.default_rng(0).random((12, 6)), 3)
    predictions.write("p.txt", top)
    data.write("test.txt", data.Dataset(np.ones((12, 1)), np.eye(12, 9)))
    Path("test.svm").write_text("".join(f"{i % 6} 1:1\n" for i in range(12)))
    Path("nine.txt").write_text("".join(f"n{j}\n" for j in range(9)))
    cases = [("test.txt", (), "stated", 9), ("test.svm", (), "seen", 6),
             ("test.svm", ("--vocabulary", "nine.txt"), "stated", 9)]  # fmt: skip
    for number, (file, more, vocabulary, width) in enumerate(cases):
        folder = f"a{number}"
        made = run("audit", "plan", "--labels", file, "--predictions", "p.txt", "--budget", 6, "-o",
                   folder, *more)  # fmt: skip
        assert made.returncode == 0, made.stderr
        sample = audit.read_folder(folder).plan.sample
        assert (sample.vocabulary, sample.shape[1]) == (vocabulary, width)
        judge(folder, sp.csr_array(np.eye(12, 6)), "a.json")
        assert run("audit", "estimate", folder, "--answers", "a.json").returncode == 0


def test_labels_beyond_the_vocabulary_are_added_to_it() -> None:
    Path("labels.txt").write_text("one more\n")
    plan_of = ("plan", "--labels", "test.csv", "--predictions", "p.csv", "--budget", 9)
    assert "has none of the labels of test.csv" in refused(
        *plan_of, "--vocabulary", "labels.txt", "-o", "audit"
    )
    Path("labels.txt").write_text(f"one more\n{name(0)}\n")
    result = run("audit", *plan_of, "--vocabulary", "labels.txt", "-o", "audit")
    assert "are not in the vocabulary" in result.stderr
    folder = audit.read_folder("audit")
    assert folder.sheet.label_names[0] == "one more"
    assert "keeps the vocabulary" in refused(
        "plan", "--extend", "--vocabulary", "labels.txt", "--budget", 9, "--seed", 1, "-o", "audit"
    )
    more = run("audit", "plan", "--extend", "--budget", 9, "--seed", 1, "-o", "audit")
    assert more.returncode == 0, more.stderr
    assert audit.read_folder("audit").sheet.label_names == folder.sheet.label_names


def test_only_files_that_the_plan_was_made_from_are_read_unasked(truth: list[set[int]]) -> None:
    """Whoever hands on a folder learns nothing of other files, whatever the folder says."""
    folder = plan(budget=20)
    answers = answered(folder, truth)
    Path("elsewhere").mkdir()
    shutil.copytree("audit", "elsewhere/audit")
    assert "elsewhere/test.csv" in refused("estimate", "elsewhere/audit", "--answers", answers)
    here = ("--labels", "test.csv", "--predictions", "p.csv")
    assert run("audit", "estimate", "elsewhere/audit", "--answers", answers, *here).returncode == 0
    hidden = "id,labels\nroot:x:0:0,s3cr3t\n"
    Path("hidden").write_text(hidden)
    Path("hidden.csv").write_text(hidden)
    plan_file = Path("audit/plan.json")
    stored = json.loads(plan_file.read_text())
    length = {**stored["files"]["labels"], "size": len(hidden)}
    whole = str(Path("hidden").resolve())
    estimate = ("estimate", "audit", "--answers", answers)
    wave = ("plan", "--extend", "--budget", 5, "--seed", 1, "-o", "audit")
    lies = [
        {"labels": "../hidden"},
        {"predictions": "../hidden"},
        {"labels": {"path": "../hidden"}},
    ]
    for target in ("../hidden", "../hidden.csv", whole, "/etc/passwd", "/dev/zero", "/", "nothing"):
        lies += [
            {"labels": {**length, "path": target}},
            {"predictions": [{**length, "path": target}]},
        ]
    for lie in lies:
        plan_file.write_text(json.dumps({**stored, "files": {**stored["files"], **lie}}))
        for command in (estimate, wave) if lie is lies[-4] else (estimate,):
            said = refused(*command)
            assert not any(word in said for word in ("root", "s3cr3t", "id,labels")), said
    plan_file.write_text(json.dumps(stored))
    Path("p.csv").write_text(Path("p.csv").read_text() + "\n")
    assert "p.csv is not what the plan was made from" in refused("estimate", "audit")
    assert run("audit", "estimate", "audit", *here).returncode == 0, "the same predictions"


def test_one_seed_draws_one_wave_and_nothing_to_judge_is_no_plan() -> None:
    plan(budget=20)
    again = ("plan", "--extend", "--budget", 10, "-o", "audit")
    assert "a wave of seed 0 already, 20 rows in all" in refused(*again)
    Path("test.csv").write_text("id,labels\na,law\nb,law\nc,law;art\n")
    Path("p.csv").write_text("id,label,score\na,law,1\nb,law,1\nc,art,1\n")
    said = refused("plan", "--labels", "test.csv", "--predictions", "p.csv", "--budget", 9,
                   "--unit", "pairs", "--metrics", "P@1", "-o", "pairs")  # fmt: skip
    assert "there is no pair to judge for P@1" in said
    assert "--observed sampled" in said
    assert not Path("pairs").exists()
