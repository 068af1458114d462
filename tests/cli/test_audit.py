"""`unmask audit`: from predictions to a measured number, through files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.audits import IDS, NAMES, L, N, true_numbers, true_words, universe
from tests.helpers.command import Result, of_width, run
from unmask import audit, compare, data, evaluate, predictions

TOP, OBSERVED, TRUTH = universe()


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    data.write("test.txt", data.Dataset(np.ones((N, 1)), OBSERVED))
    predictions.write("ours.txt", TOP)
    Path("texts.txt").write_text("".join(f"Text of {name}.\n" for name in IDS))
    Path("names.txt").write_text("".join(f"{name}\n" for name in NAMES))
    Path("ids.txt").write_text("".join(f"{name}\r\n" for name in IDS))
    return tmp_path


def ok(*arguments: object) -> Result:
    result = run("audit", *arguments)
    assert result.returncode == 0, result.stderr
    return result


def refused(*arguments: object) -> str:
    result = run("audit", *arguments)
    assert result.returncode == 2
    assert result.stderr.startswith("unmask: ")
    assert "Traceback" not in result.stderr
    return result.stderr


def planned(*more: object, budget: int = 30) -> audit.AuditFolder:
    ok("plan", "--labels", "test.txt", "--predictions", "ours.txt", "--budget", budget,
       "-o", "audit", *more)  # fmt: skip
    return audit.read_folder("audit")


def answer(folder: audit.AuditFolder, name: str = "ann", first: int | None = None) -> Path:
    """A file as the page saves it, right about the first questions."""
    entries: list[dict[str, Any]]
    if folder.plan.unit == "rows":
        numbers = true_numbers(folder.sheet, TRUTH)
        entries = [{"labels": own, "complete": True} for own in numbers]
    else:
        entries = [{"answer": word} for word in true_words(folder.sheet, TRUTH)]
    for question, entry in zip(folder.sheet.questions, entries, strict=True):
        entry["question"] = question.id
    path = Path(f"{name}.json")
    record = {"kind": "answers", "key": folder.sheet.key, "annotator": name}
    path.write_text(json.dumps({**record, "answers": entries[:first]}))
    return path


@pytest.mark.parametrize("unit", ["rows", "pairs"])
def test_the_command_measures_what_the_library_measures(unit: str) -> None:
    metrics = ["P@5", "R@5"] if unit == "rows" else ["P@5", "micro-R@5"]
    folder = planned("--unit", unit, "--metrics", ",".join(metrics), "--seed", 4)
    ok("page", "audit", "-o", "judge.html")
    shown = ok("estimate", "audit", "--answers", answer(folder), "--json", "--html", "r.html")
    record = json.loads(shown.stdout)
    plan = audit.plan(TOP, OBSERVED, budget=30, unit=unit, metrics=metrics, seed=4)
    if unit == "rows":
        judged = audit.from_rows(plan, TRUTH[plan.rows])
    else:
        judged = audit.from_pairs(plan, TRUTH.toarray()[plan.rows, plan.labels])
    table = evaluate(TOP, OBSERVED, metrics=metrics, audit=judged)
    for row in record["estimates"]:
        if row["estimator"] == "measured":
            expected = table[row["metric"], "measured"]
            assert row["value"] == pytest.approx(expected.value, rel=1e-12)
            assert (row["low"], row["high"]) == pytest.approx(expected.interval, rel=1e-12)
    last = [row for row in record["audit"]["reached"] if row["metric"] == "P@5"][-1]
    assert last["judged"] == 30
    assert last["value"] == pytest.approx(table["P@5", "measured"].value, rel=1e-12)
    expected = [
        {"metric": each.metric, "judged": judged_pairs, "half": half}
        for each in plan.expected
        for judged_pairs, half in ((15, each.half), (30, each.budget), (60, each.twice))
        if half == half
    ]
    assert record["audit"]["expected"] == expected
    page = Path("r.html").read_text()
    assert "Precision, expected and reached" in page
    assert "As recorded → measured: " in page
    Path("stored.json").write_text(shown.stdout)
    assert run("report", "stored.json", "-o", "again.html").returncode == 0


def test_names_and_texts_are_on_the_page_and_in_the_sheet() -> None:
    planned("--texts", "texts.txt", "--label-names", "names.txt", "--ids", "ids.txt")
    ok("page", "audit", "-o", "judge.html")
    page = Path("judge.html").read_text()
    ok("sheet", "audit", "-o", "sheet.jsonl")
    lines = [json.loads(line) for line in Path("sheet.jsonl").read_text().splitlines()]
    for line in lines:
        assert line["text"] == f"Text of {line['row']}."
        assert f'"{line["row"]}","{line["text"]}"' in page
    assert all(f'"{name}"' in page for name in NAMES)
    shown = json.loads(ok("sheet", "audit", "-o", "t.json", "--for", "argilla", "--json").stdout)
    assert shown == {"questions": 30, "written": "t.json"}


def test_judges_are_blind_unless_the_plan_says_otherwise() -> None:
    planned("--unit", "pairs")
    ok("sheet", "audit", "-o", "sheet.csv")
    assert "place" not in Path("sheet.csv").read_text()
    ok("plan", "--labels", "test.txt", "--predictions", "ours.txt", "--budget", 30, "--reveal",
       "--unit", "pairs", "-o", "open")  # fmt: skip
    ok("sheet", "open", "-o", "sheet.csv")
    assert "not observed, place 1 of ours.txt" in Path("sheet.csv").read_text()


def test_answers_are_kept_merged_and_counted() -> None:
    folder = planned("--unit", "pairs", "--metrics", "P@5")
    ok("status", "audit", "--answers", answer(folder, first=10))
    again = ok("status", "audit", "--answers", answer(folder, first=20), "--json")
    record = json.loads(again.stdout)
    assert record["counts"]["judged"] == 20
    assert record["annotators"] == {"ann": 20}
    wrong = Path("bob.csv")
    asked = folder.sheet.questions[0]
    flipped = "no" if true_words(folder.sheet, TRUTH)[0] == "yes" else "yes"
    wrong.write_text(f"question,answer\n{asked.id},{flipped}\n")
    shown = ok("status", "audit", "--answers", wrong).stdout
    assert "1 questions on which people differ" in shown
    assert json.loads(ok("status", "audit", "--json").stdout)["counts"]["split"] == 1
    settled = ok("status", "audit", "--adjudicator", "bob", "--json").stdout
    assert json.loads(settled)["counts"] == {**record["counts"], "judged": 20, "split": 0}
    wrong.write_text(f"question,answer\n{asked.id},unsure\n")
    changed = ok("status", "audit", "--answers", wrong)
    assert "1 answers that the folder had were changed" in changed.stderr


def test_a_further_wave_keeps_the_answers() -> None:
    folder = planned("--texts", "texts.txt")
    ok("status", "audit", "--answers", answer(folder))
    assert "--texts" in refused("plan", "--extend", "--budget", 10, "--seed", 1, "-o", "audit")
    ok("plan", "--extend", "--budget", 10, "--seed", 1, "--texts", "texts.txt", "-o", "audit")
    more = audit.read_folder("audit")
    assert more.sheet.questions[:30] == folder.sheet.questions
    counts = json.loads(ok("status", "audit", "--json").stdout)["counts"]
    assert (counts["asked"], counts["judged"], counts["open"]) == (40, 30, 10)
    assert "R@5" in ok("estimate", "audit", "--answers", answer(more)).stdout


def test_several_systems_are_measured_on_the_same_judgements() -> None:
    predictions.write("theirs.txt", predictions.TopK.from_scores(np.eye(N, L), 5))
    folder = planned("--predictions", "theirs.txt")
    shown = ok("estimate", "audit", "--answers", answer(folder), "--json", "--html", "r.html")
    records = json.loads(shown.stdout)
    assert [record["source"] for record in records] == ["ours.txt", "theirs.txt"]
    page = Path("r.html").read_text()
    assert "Side by side" in page
    assert "Compared with ours.txt" in page
    other = predictions.read("theirs.txt")
    judged = audit.from_rows(folder.plan, TRUTH[folder.plan.rows])
    systems = {"ours.txt": TOP, "theirs.txt": other}
    made = compare(systems, OBSERVED, metrics=folder.plan.metrics, audit=judged)["theirs.txt"]
    rows = {row["metric"]: row for row in records[0]["differences"]}
    for metric in folder.plan.metrics:
        assert rows[metric]["value"] == pytest.approx(made[metric, "measured"].value)
    words = " ".join(ok("estimate", "audit").stdout.split())
    assert "metric estimator theirs.txt P@5 measured −0." in words
    assert "ours.txt is better than theirs.txt in P@5: " in words
    assert "whatever hid the labels" in words


def test_it_says_whether_judging_may_stop_and_what_eludes() -> None:
    folder = planned(budget=60)
    options = ("--until-width", 0.2, "--until-at-least", 0.01, "--elusion", "--json")
    record = json.loads(ok("estimate", "audit", "--answers", answer(folder), *options).stdout)
    judged = audit.from_rows(folder.plan, TRUTH[folder.plan.rows])
    for row in record["stopping"]["sequences"]:
        made = audit.sequence(TOP, OBSERVED, judged, row["metric"], planned=60)
        assert (row["low"], row["high"]) == pytest.approx(made.interval)
        assert row["stop_after"] == made.rows_until(half_width=0.2, at_least=0.01)
    assert record["stopping"]["elusion"]["at_most"] == pytest.approx(
        audit.elusion(TOP, OBSERVED, judged, k=5).at_most
    )
    words = " ".join(ok("estimate", "audit", "--until-width", 0.0001).stdout.split())
    assert "Not yet: go on judging." in words
    pairs = ("--unit", "pairs", "--metrics", "P@5")
    ok("plan", "--labels", "test.txt", "--predictions", "ours.txt", "--budget", 30, "-o", "b",
       *pairs)  # fmt: skip
    mine = answer(audit.read_folder("b"), "bea")
    assert "needs simple rows" in refused(
        "estimate", "b", "--answers", mine, "--until-width", 0.1
    )  # fmt: skip


@pytest.mark.parametrize("unit", ["rows", "pairs"])
def test_the_range_of_unsure_answers_is_reported(unit: str) -> None:
    folder = planned("--unit", unit, "--metrics", "P@5")
    path = answer(folder)
    record = json.loads(path.read_text())
    for entry in record["answers"][:4]:
        entry.pop("complete", None)
        entry["answer"] = "unsure"
    path.write_text(json.dumps(record))
    made = json.loads(ok("estimate", "audit", "--answers", path, "--json").stdout)
    (row,) = made["audit"]["undecided"]
    measured = next(each for each in made["estimates"] if each["estimator"] == "measured")
    assert row["questions"] == 4
    assert measured["low"] <= row["low"] < measured["value"] < row["high"] <= measured["high"]
    assert "by what undecided answers mean" in ok("estimate", "audit").stdout


def test_a_damaged_plan_is_refused_in_one_line_that_names_the_file() -> None:
    path = answer(planned())
    plan = json.loads(Path("audit/plan.json").read_text())
    for size, waves in ((-1, plan["waves"]), (41, plan["waves"]), (10**30, []), (120, [])):
        stratum = plan["sample"]["strata"][0] | {"size": size}
        sample = plan["sample"] | {"strata": [stratum]}
        Path("audit/plan.json").write_text(json.dumps(plan | {"sample": sample, "waves": waves}))
        assert "audit/plan.json: " in refused("estimate", "audit", "--answers", path)


def test_a_column_of_a_table_holds_the_texts() -> None:
    rows = [f"{name},A text about {name}.,{NAMES[i % L]}" for i, name in enumerate(IDS)]
    Path("test.csv").write_text("\n".join(["id,body,labels", *rows, ""]))
    scored = [f"{name},{NAMES[(i + j) % L]},{1 - j / 9:.2f}" for i, name in enumerate(IDS)
              for j in range(3)]  # fmt: skip
    Path("ours.csv").write_text("\n".join(["id,label,score", *scored, ""]))
    ok("plan", "--labels", "test.csv", "--text", "body", "--predictions", "ours.csv",
       "--budget", 10, "-o", "audit")  # fmt: skip
    for question in audit.read_folder("audit").sheet.questions:
        assert question.text == f"A text about {question.row_name}."


def test_mistakes_are_told_in_one_line() -> None:
    assert "needs --labels FILE" in refused("plan", "--budget", 5, "-o", "audit")
    assert "holds no audit" in refused("status", "nowhere")
    folder = planned()
    assert "add to it with --extend" in refused(
        "plan", "--labels", "test.txt", "--predictions", "ours.txt", "--budget", 5, "-o", "audit"
    )  # fmt: skip
    assert "use one of: pairs, rows" in refused(
        "plan", "--labels", "test.txt", "--predictions", "ours.txt", "--budget", 5, "-o", "b",
        "--unit", "cells",
    )  # fmt: skip
    Path("bad.csv").write_text("question,answer\nr9999,yes\n")
    assert "bad.csv, line 2: question 'r9999' was not asked" in refused(
        "status", "audit", "--answers", "bad.csv"
    )
    assert not Path("audit/answers.json").exists(), "nothing of a bad file is kept"
    assert "csv, jsonl, label-studio, argilla" in refused("sheet", "audit", "-o", "sheet.xlsx")
    answers = answer(folder)
    assert "--train" in refused("estimate", "audit", "--answers", answers, "--propensity", "jain")
    predictions.write("ours.txt", predictions.TopK.from_scores(np.eye(N, L), 5))
    assert "ours.txt is not what the plan was made from" in refused("estimate", "audit")
    named = ("--predictions", "ours.txt")
    assert "not the labels and predictions" in refused("estimate", "audit", *named)
    Path("ours.txt").unlink()
    assert "ours.txt" in refused("estimate", "audit", "--answers", answers)
    stored = json.loads(Path("audit/plan.json").read_text())
    others = {**stored["sheet"], "questions": stored["sheet"]["questions"][1:]}
    for sheet, words in (({}, "this is no sheet"), (others, "the questions of another plan")):
        Path("audit/plan.json").write_text(json.dumps({**stored, "sheet": sheet}))
        assert f"plan.json: {words}" in refused("status", "audit").replace("these are ", "")


def test_too_few_answers_measure_nothing() -> None:
    folder = planned()
    assert "at least two rows must be judged" in refused(
        "estimate", "audit", "--answers", answer(folder, first=1)
    )


@pytest.mark.parametrize("unit", ["rows", "pairs"])
def test_the_commands_lead_from_one_to_the_next(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of_width(monkeypatch, 100)
    rows = unit == "rows"
    metrics = "P@5,R@5" if rows else "P@5,micro-R@5"
    plan = ("--labels", "test.txt", "--predictions", "ours.txt", "--budget", 30, "-o", "audit",
            "--unit", unit, "--metrics", metrics, "--seed", 4)  # fmt: skip

    def says(result: Result, *sentences: str) -> None:
        text = " ".join(result.stdout.replace("─", "").split())
        assert all(sentence in text for sentence in sentences), text

    says(
        ok("plan", *plan), "to judge 30 rows of" if rows else "to judge 30 pairs in 25 rows of",
        f"120 rows × 9 labels design {'simple' if rows else 'pairs'} made for",
        "vocabulary stated seeds 4 folder audit",
        "P@5 0.1654 0.07816 0.03554" if rows else "micro-R@5 0.5825 0.5595 0.1744",
        "next: unmask audit page audit -o judge.html",
    )  # fmt: skip
    columns = "labels with names or #numbers, | between them, and complete with yes"
    says(
        ok("sheet", "audit", "-o", "sheet.csv"), "questions 30 written sheet.csv",
        f"Fill in the column {columns if rows else 'answer with yes, no, unsure or skip'}; then",
        "next: unmask audit estimate audit --answers sheet.csv",
    )  # fmt: skip
    folder = audit.read_folder("audit")
    counts = f"{unit} asked 30 judged 12 unsure 0 skipped 0 begun 0 people differ 0 open 18"
    says(ok("status", "audit", "--answers", answer(folder, first=12)), counts, "ann 12")
    agreement = "pairs same answer of yes Cohen's kappa ann and bob"
    says(
        ok("status", "audit", "--answers", answer(folder, "bob", first=5)), counts, "bob 5",
        f"{agreement} {45 if rows else 5} 1 1 1",
    )  # fmt: skip
    verdict = (
        "R@5 is 0.987 (0.906 to 0.998, measured)." if rows
        else "P@5 is 0.567 (0.000 to 1.000, measured), too wide to use: judge more."
    )  # fmt: skip
    says(
        ok("estimate", "audit", "--answers", answer(folder)),
        f"Measured on judged rows, whatever hid the labels: {verdict}", "metric measured vanilla",
        "P@5 0.5508 ± 0.0611 0.3483 ± 0.0470" if rows else "micro-R@5 0.9770 ± 0.5000 0.9631",
        "measured: from judgements of a random sample with known inclusion probabilities",
        f"wide: from 30 judged {unit}", f"30 of 30 {unit} are judged; on 0 people were unsure",
    )  # fmt: skip
    if rows:
        says(
            ok("estimate", "audit", "--until-width", 0.3),
            "R@5 lies between 0.854 and 0.996 with 95% confidence, whenever one looks (30 rows). "
            "Is it known to ± 0.3? Yes, after 6 rows: judging may stop.",
        )
