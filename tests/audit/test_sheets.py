"""Sheets: every question of the plan, blind, the same ids in every format and wave."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.helpers.audits import IDS, NAMES, asked, universe
from unmask import audit
from unmask.audit import Question, Sheet
from unmask.audit.sheets import plan_key


@pytest.mark.parametrize("unit", ["rows", "pairs"])
def test_one_question_per_unit_in_the_order_of_the_plan(unit: str) -> None:
    plan, sheet, _ = asked(unit)
    labels = [None] * len(plan) if plan.labels is None else plan.labels.tolist()
    questions = [(q.row, q.label) for q in sheet.questions]
    assert questions == list(zip(plan.rows.tolist(), labels, strict=True))
    assert all(q.row_name == IDS[q.row] and q.row_name in q.text for q in sheet.questions)
    assert Sheet.from_dict(json.loads(json.dumps(sheet.to_dict()))) == sheet


@pytest.mark.parametrize("unit", ["rows", "pairs"])
@pytest.mark.parametrize("format", audit.FORMATS)
def test_a_sheet_says_nothing_of_what_is_observed_predicted_or_of_strata(
    unit: str, format: str, tmp_path: Path
) -> None:
    """What is written depends on rows, labels, names and texts alone."""
    _, sheet, _ = asked(unit)
    bare = [Question(q.row, q.label, q.row_name, q.text) for q in sheet.questions]
    (first, *_), (second, *_) = (
        audit.write_sheet(each, tmp_path / name, format=format)
        for each, name in ((sheet, "a"), (Sheet(sheet.key, unit, tuple(bare), NAMES), "b"))
    )
    assert first.read_bytes() == second.read_bytes()
    assert not re.search("observed|predicted|stratum|place", first.read_text())


def test_what_is_observed_and_predicted_is_shown_only_when_asked_for() -> None:
    top, observed, _ = universe()
    for unit in ("rows", "pairs"):
        plan = audit.plan(top, observed, budget=20, unit=unit, seed=3)
        open_sheet = audit.sheet(plan, label_names=NAMES, reveal=(observed, {"ours": top}))
        for question in open_sheet.questions:
            first = int(top.labels[question.row, 0])
            if question.label is None:
                assert f"predicted by ours: {NAMES[first]}" in question.hint
            elif question.label == first:
                assert question.hint == "not observed, place 1 of ours"
        assert {q.hint for q in audit.sheet(plan).questions} == {""}


def test_a_second_wave_keeps_key_and_ids() -> None:
    top, observed, _ = universe()
    plan = audit.plan(top, observed, budget=20, seed=3)
    more = audit.extend(plan, top, observed, budget=10, seed=4)
    first, both = audit.sheet(plan), audit.sheet(more)
    assert both.key == first.key
    assert both.questions[:20] == first.questions
    other = audit.plan(top, observed, budget=20, seed=5)
    assert plan_key(other) != first.key


def test_names_must_fit() -> None:
    plan, _, _ = asked("rows")
    with pytest.raises(ValueError, match="2 row names for 120 rows"):
        audit.sheet(plan, ids=["a", "b"])
    with pytest.raises(ValueError, match="1 label names for 9 labels"):
        audit.sheet(plan, label_names=["a"])
    with pytest.raises(ValueError, match="1 texts for 120 rows"):
        audit.sheet(plan, texts=["a"])


def test_a_spreadsheet_takes_no_cell_for_a_formula_and_no_id_for_a_date(tmp_path: Path) -> None:
    evil = '=HYPERLINK("http://x","y")'
    sheet = Sheet("k", "pairs", (Question(1, 2, evil, "-cmd|' /C'!A0"),), ("a", "b", "+c"))
    (file,) = audit.write_sheet(sheet, tmp_path / "sheet.csv")
    with open(file, newline="") as lines:
        (line,) = csv.DictReader(lines)
    assert line["question"] == "r1_l2"
    assert all(line[name].startswith("'") for name in ("row", "text", "label"))


def test_label_studio_gets_tasks_and_the_interface_that_shows_them(tmp_path: Path) -> None:
    for unit, names in (("pairs", {"answer"}), ("rows", {"labels", "complete"})):
        _, sheet, _ = asked(unit)
        tasks, interface = audit.write_sheet(sheet, tmp_path / "t.json", format="label-studio")
        fields = json.loads(tasks.read_text())[0]["data"]
        view = ElementTree.parse(interface).getroot()  # noqa: S314
        assert {v.removeprefix("$") for e in view if (v := e.get("value", ""))[:1] == "$"} < {
            *fields
        }
        assert {e.get("name") for e in view.iter("Choices")} == names
        aliases = [e.get("alias") for e in view.iter("Choice") if e.get("alias")]
        assert aliases == ([f"#{j}" for j in range(len(NAMES))] if unit == "rows" else [])


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    _, sheet, _ = asked("rows")
    with pytest.raises(ValueError, match="does not say its format"):
        audit.write_sheet(sheet, tmp_path / "sheet.xlsx")
    with pytest.raises(ValueError, match="csv, jsonl, label-studio"):
        audit.write_sheet(sheet, tmp_path / "sheet", format="xlsx")


@pytest.mark.parametrize("unit", ["rows", "pairs"])
@pytest.mark.parametrize("format", audit.FORMATS)
def test_every_question_is_in_the_file_in_order(unit: str, format: str, tmp_path: Path) -> None:
    _, sheet, _ = asked(unit)
    text = audit.write_sheet(sheet, tmp_path / "file", format=format)[0].read_text("utf-8")
    ids = "|".join(re.escape(question.id) for question in sheet.questions)
    written_ids = re.findall(rf"(?<![\w-])(?:{ids})(?![\w-])", text)
    assert list(dict.fromkeys(written_ids)) == [question.id for question in sheet.questions]
