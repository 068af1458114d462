"""Records of annotation tools as records of a table: Label Studio, Argilla, Annif's JSON.

    Label Studio      {"data": {…}, "annotations": [{"result": [{"from_name", "value"}]}]}, or its
                      short form {"id", "text", "topics": {"choices": […]}}
    Argilla           {"fields": {…}, "responses": {question: [{"value", "status"}]}}
    Annif             {"text", "subjects": [{"uri", "label"}]}

A question becomes a column of lists; the only one of its file is called `labels`. A label counts
where any person gave it: people overlook labels more often than they invent them. A record that
nobody has finished is no row without labels: it is left out, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from unmask._typing import Json

Object = dict[str, Json]


class Tool(NamedTuple):
    """How the records of a tool are told, and what they are in a table; None: not annotated."""

    name: str
    recognised: Callable[[Object], bool]
    columns: Callable[[Object], dict[str, Json]]
    answers: Callable[[Object], dict[str, list[str]] | None]


def tool_of(records: Sequence[Object]) -> Tool | None:
    """The tool that made the first records of a file."""
    return next((tool for tool in TOOLS if records and tool.recognised(records[0])), None)


class Translation(NamedTuple):
    """The records of a tool in the columns of a table."""

    tool: Tool
    questions: tuple[str, ...]

    def names(self, records: Iterable[Object]) -> tuple[str, ...]:
        """The columns of a table of these records."""
        plain = dict.fromkeys(key for record in records for key in self.tool.columns(record))
        return (*(name for name in plain if name not in self.shown), *self.shown)

    @property
    def shown(self) -> tuple[str, ...]:
        """The questions as columns are called."""
        return ("labels",) if len(self.questions) == 1 else self.questions

    def __call__(self, record: Object) -> Object | None:
        """The record of the table; None where nobody answered."""
        answers = self.tool.answers(record)
        if answers is None:
            return None
        row: Object = dict(self.tool.columns(record))
        for question, shown in zip(self.questions, self.shown, strict=True):
            row[shown] = list(dict.fromkeys(answers.get(question, ())))
        return row


def translation_of(records: Sequence[Object]) -> Translation | None:
    """How the records of a file are read, by the first of them; None if no tool made them."""
    tool = tool_of(records)
    if tool is None:
        return None
    answers = [tool.answers(record) or {} for record in records]
    return Translation(tool, tuple(dict.fromkeys(name for each in answers for name in each)))


def _objects(value: Json) -> list[Object]:
    """The objects of a list; anything else has none."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _names(value: Json) -> list[str]:
    """The labels in an answer: a name, several, or paths in a taxonomy, of which the end counts."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        return []
    ends = [each[-1] if isinstance(each, list) and each else each for each in value]
    return [end for end in ends if isinstance(end, str)]


def _mapping(value: Json) -> Object:
    return value if isinstance(value, dict) else {}


def _tasks_columns(record: Object) -> Object:
    own = {"id": record["id"]} if "id" in record else {}
    return {**own, **_mapping(record.get("data"))}


def _tasks_answers(record: Object) -> dict[str, list[str]] | None:
    finished = [
        each
        for each in _objects(record.get("annotations"))
        if each.get("was_cancelled") is not True
    ]
    if not finished:
        return None
    answers: dict[str, list[str]] = {}
    for annotation in finished:
        for region in _objects(annotation.get("result")):
            value = _mapping(region.get("value"))
            kind = next((k for k in ("choices", "taxonomy", "labels") if k in value), None)
            if kind is not None:
                question = answers.setdefault(str(region.get("from_name", "labels")), [])
                question += _names(value[kind])
    return answers


def _short_columns(record: Object) -> Object:
    return {key: value for key, value in record.items() if not isinstance(value, dict)}


def _short_answers(record: Object) -> dict[str, list[str]] | None:
    chosen = {key: value for key, value in record.items() if isinstance(value, dict)}
    return {key: _names(value.get("choices")) for key, value in chosen.items()}


def _fields_columns(record: Object) -> Object:
    own = {"id": record["id"]} if "id" in record else {}
    return {**own, **_mapping(record.get("fields"))}


def _fields_answers(record: Object) -> dict[str, list[str]] | None:
    answers: dict[str, list[str]] = {}
    for question, responses in _mapping(record.get("responses")).items():
        submitted = [r for r in _objects(responses) if r.get("status", "submitted") == "submitted"]
        if submitted:
            answers[question] = [name for r in submitted for name in _names(r.get("value"))]
    return answers or None


def _corpus_columns(record: Object) -> Object:
    return {key: value for key, value in record.items() if key != "subjects"}


def _corpus_answers(record: Object) -> dict[str, list[str]] | None:
    subjects = _objects(record.get("subjects"))
    named = [each.get("uri", each.get("label")) for each in subjects]
    return {"subjects": [name.strip("<>") for name in named if isinstance(name, str)]}


TOOLS = (
    Tool(
        "label-studio",
        lambda r: isinstance(r.get("data"), dict) and isinstance(r.get("annotations"), list),
        _tasks_columns,
        _tasks_answers,
    ),
    Tool(
        "argilla",
        lambda r: isinstance(r.get("fields"), dict) and isinstance(r.get("responses"), dict),
        _fields_columns,
        _fields_answers,
    ),
    Tool("annif", lambda r: bool(_objects(r.get("subjects"))), _corpus_columns, _corpus_answers),
    Tool(
        "label-studio",
        lambda r: any("choices" in _mapping(value) for value in r.values()),
        _short_columns,
        _short_answers,
    ),
)
"""Tools whose files are told by their first record."""
