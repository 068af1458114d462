"""Exports of annotation tools are tables: what people gave counts, what nobody finished is no row.

Shapes as the tools write them: Label Studio (JSON and JSON-MIN), Argilla (records), Annif (JSONL).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command import run
from unmask import data


def put(folder: Path, content: list[Any], name: str = "export.json") -> Path:
    path = folder / name
    lines = name.endswith(".jsonl")
    path.write_text("\n".join(map(json.dumps, content)) if lines else json.dumps(content, indent=2))
    return path


def task(number: int, text: str, *annotations: list[str], cancelled: bool = False) -> Any:
    result = [
        [{"from_name": "topic", "to_name": "text", "type": "choices", "value": {"choices": names}}]
        for names in annotations
    ]
    return {
        "id": number,
        "data": {"text": text, "doc": f"d{number}"},
        "annotations": [{"id": 7, "was_cancelled": cancelled, "result": each} for each in result],
        "predictions": [{"result": []}],
        "total_annotations": len(result),
    }


def sets(rows: data.Dataset) -> list[set[str]]:
    return [set(rows.labels_of(row)) for row in range(rows.n)]


@pytest.mark.parametrize("name", ["export.json", "export.jsonl"])
def test_tasks_of_label_studio(tmp_path: Path, name: str) -> None:
    """Two people: what either gave; nobody, or cancelled: not a row; an empty answer: a row."""
    tasks = [
        task(1, "a", ["law"], ["law", "tax"]),
        task(2, "b"),
        task(3, "c", ["art"], cancelled=True),
        task(4, "d", []),
    ]
    rows = data.read(put(tmp_path, tasks, name), text="text")
    assert sets(rows) == [{"law", "tax"}, set()]
    assert list(rows.ids or ()) == ["1", "4"]
    assert list(rows.texts or ()) == ["a", "d"]
    assert rows.source.details["tool"] == "label-studio"
    assert rows.source.details["not annotated"] == "2"
    own = data.read(put(tmp_path, tasks, name), id="doc")
    assert list(own.ids or ()) == ["d1", "d4"]


def test_the_short_form_and_taxonomies_of_label_studio(tmp_path: Path) -> None:
    short = [
        {"id": 1, "text": "a", "topic": {"choices": ["law", "tax"]}, "annotator": 1},
        {"id": 2, "text": "b", "topic": {"choices": ["art"]}, "annotator": 2},
    ]
    assert sets(data.read(put(tmp_path, short))) == [{"law", "tax"}, {"art"}]
    region = {"from_name": "t", "value": {"taxonomy": [["law", "tax law"], ["art"]]}}
    tree = [{"id": 1, "data": {"text": "a"}, "annotations": [{"result": [region]}]}]
    assert sets(data.read(put(tmp_path, tree))) == [{"tax law", "art"}]


def test_two_questions_are_two_columns(tmp_path: Path) -> None:
    regions = [
        {"from_name": "topic", "value": {"choices": ["law"]}},
        {"from_name": "tone", "value": {"choices": ["dry"]}},
    ]
    path = put(tmp_path, [{"id": 1, "data": {}, "annotations": [{"result": regions}]}])
    assert sets(data.read(path, labels="tone")) == [{"dry"}]
    assert sets(data.read(path)) == [{"law"}]  # the column with a usual name


def test_records_of_argilla(tmp_path: Path) -> None:
    def response(*names: str, status: str = "submitted") -> Any:
        return {"value": list(names), "user_id": "u", "status": status}

    records = [
        {"id": "r1", "fields": {"text": "a"}, "metadata": {}, "suggestions": {},
         "responses": {"topics": [response("law"), response("tax")]}},
        {"id": "r2", "fields": {"text": "b"}, "metadata": {}, "suggestions": {},
         "responses": {"topics": [response("art", status="draft")]}},
        {"id": "r3", "fields": {"text": "c"}, "responses": {}},
    ]  # fmt: skip
    path = put(tmp_path, records)
    rows = data.read(path, text="text")
    assert (sets(rows), list(rows.ids or ())) == ([{"law", "tax"}], ["r1"])
    shown = run("info", path).stdout
    assert "argilla" in shown
    assert "left out, not annotated" in shown


def test_lines_of_annif(tmp_path: Path) -> None:
    records = [
        {"document_id": "a", "text": "x", "subjects": [{"uri": "<http://e.org/1>", "label": "l"}]},
        {"document_id": "b", "text": "y", "subjects": []},
    ]
    rows = data.read(put(tmp_path, records, "corpus.jsonl"), text="text")
    assert (sets(rows), list(rows.ids or ())) == ([{"http://e.org/1"}, set()], ["a", "b"])


def test_a_repeated_id_is_named_by_its_place(tmp_path: Path) -> None:
    tasks = [task(1, "a", ["law"]), task(9, "b"), task(1, "c", ["tax"])]
    with pytest.raises(ValueError, match=r"export.json, entry 3: the id '1' stands a second time"):
        data.read(put(tmp_path, tasks))
