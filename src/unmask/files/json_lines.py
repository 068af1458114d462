"""JSON lines (an object per line) and JSON files that hold a list of objects.

A key that stands twice in an object, NaN and Infinity are refused: each could mean two things. A
key that an object lacks is a cell without a value. Records of annotation tools are read as records
of a table:

    Label Studio      {"data": {…}, "annotations": [{"result": [{"from_name", "value"}]}]}, or its
                      short form {"id", "text", "topics": {"choices": […]}}
    Argilla           {"fields": {…}, "responses": {question: [{"value", "status"}]}}
    Annif             {"text", "subjects": [{"uri", "label"}]}

A question becomes a column of lists; the only one of its file is called `labels`. A label counts
where any person gave it: people overlook labels more often than they invent them. A record that
nobody has finished is no row without labels: it is left out, and counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import NamedTuple, NoReturn

from unmask._typing import Json, PathLike
from unmask.files.fields import distinct
from unmask.files.streams import blocks, contents, first_bytes, quoted
from unmask.files.tables import Column, Source, column_of

Object = dict[str, Json]
_NAMED = 100
"""Objects from which the names of columns are taken."""


def open_json(path: PathLike) -> Source:
    """Open a file of JSON lines, or one list of objects."""
    is_list = _is_list(path)
    first = [record for _, record in islice(_records(path, is_list), _NAMED)]
    if not first:
        raise ValueError(f"{path}: the file holds no JSON objects.")
    translation = _translation_of(first)
    names = tuple(dict.fromkeys(key for record in first for key in record))
    details: dict[str, str] = {}
    if translation is not None:
        names = translation.names(first)
        details["tool"] = translation.tool.name

    def rows() -> Iterator[tuple[int, Object]]:
        unfinished = 0
        for number, record in _records(path, is_list):
            row = record if translation is None else translation(record)
            unfinished += row is None
            if row is not None:
                yield number, row
        if unfinished:
            details["not annotated"] = str(unfinished)

    def column_blocks(wanted: Sequence[str]) -> Iterator[Mapping[str, Column]]:
        cells: dict[str, list[object]] = {name: [] for name in wanted}
        for _, record in rows():
            for name, column in cells.items():
                column.append(record.get(name))
        yield {name: column_of(column, name, where) for name, column in cells.items()}

    def where(row: int) -> str:
        number = next(number for i, (number, _) in enumerate(rows()) if i == row)
        return _place(path, is_list, number)

    form = "json" if is_list else "jsonl"
    return Source(str(path), form, names, column_blocks, where, details)


def objects(path: PathLike) -> Iterator[tuple[str, Object]]:
    """Yield the objects of a file, each with its place."""
    is_list = _is_list(path)
    for number, record in _records(path, is_list):
        yield _place(path, is_list, number), record


def _place(path: PathLike, is_list: bool, number: int) -> str:
    return f"{path}, {'entry' if is_list else 'line'} {number}"


def _is_list(path: PathLike) -> bool:
    """Return whether a file holds one list of objects, not a line for each."""
    head = first_bytes(path, 1 << 12)
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")


def _records(path: PathLike, is_list: bool) -> Iterator[tuple[int, Object]]:
    for number, record in (_entries if is_list else _lines)(path):
        if not isinstance(record, dict):
            raise ValueError(
                f"{path}, record {number}: expected a JSON object, got {record!r:.60}."
            )
        yield number, record


def _lines(path: PathLike) -> Iterator[tuple[int, Json]]:
    number = 0
    unfinished: list[bytes] = []
    for block in chain(blocks(path), [b"\n"]):
        first, *others = block.split(b"\n")
        unfinished.append(first)
        if not others:
            continue
        for line in (b"".join(unfinished), *others[:-1]):
            number += 1
            if line.strip():
                yield number, _loaded(f"{path}, line {number}", line)
        unfinished = others[-1:]


def _entries(path: PathLike) -> Iterator[tuple[int, Json]]:
    whole = _loaded(str(path), contents(path))
    assert isinstance(whole, list)  # noqa: S101 (it starts with a bracket)
    yield from enumerate(whole, start=1)


def _loaded(place: str, content: bytes) -> Json:
    try:
        text = content.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        token = quoted(content[error.start : error.start + 8])
        raise ValueError(f"{place}: not UTF-8 text, at {token}; save the file as UTF-8.") from None
    try:
        value: Json = json.loads(text, object_pairs_hook=distinct, parse_constant=_refuse)
    except RecursionError:
        raise ValueError(f"{place} is nested too deep.") from None
    except ValueError as error:
        raise ValueError(f"{place} is not JSON ({error}); got {text.strip()!r:.60}.") from None
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON; write null for no value")


class Tool(NamedTuple):
    """A way to tell the records of a tool, and to make a table of them; None: not annotated."""

    name: str
    recognised: Callable[[Object], bool]
    columns: Callable[[Object], dict[str, Json]]
    answers: Callable[[Object], dict[str, list[str]] | None]


class Translation(NamedTuple):
    """The records of a tool in the columns of a table."""

    tool: Tool
    questions: tuple[str, ...]

    def names(self, records: Iterable[Object]) -> tuple[str, ...]:
        """Return the columns of a table of these records."""
        plain = dict.fromkeys(key for record in records for key in self.tool.columns(record))
        return (*(name for name in plain if name not in self.shown), *self.shown)

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns of the questions."""
        return ("labels",) if len(self.questions) == 1 else self.questions

    def __call__(self, record: Object) -> Object | None:
        """Return the record of the table; None where nobody answered."""
        answers = self.tool.answers(record)
        if answers is None:
            return None
        row: Object = dict(self.tool.columns(record))
        for question, shown in zip(self.questions, self.shown, strict=True):
            row[shown] = list(dict.fromkeys(answers.get(question, ())))
        return row


def _translation_of(records: Sequence[Object]) -> Translation | None:
    """Return how records are read, as the first of them show; None if no tool made them."""
    tool = next((tool for tool in TOOLS if tool.recognised(records[0])), None)
    if tool is None:
        return None
    answers = [tool.answers(record) or {} for record in records]
    return Translation(tool, tuple(dict.fromkeys(name for each in answers for name in each)))


def _objects(value: Json) -> list[Object]:
    """Return the objects of a list; anything else has none."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _names(value: Json) -> list[str]:
    """Return the labels in an answer: a name, several, or paths, of which the end counts."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        return []
    ends = [each[-1] if isinstance(each, list) and each else each for each in value]
    return [end for end in ends if isinstance(end, str)]


def _mapping(value: Json) -> Object:
    return value if isinstance(value, dict) else {}


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


def _short_answers(record: Object) -> dict[str, list[str]] | None:
    chosen = {key: value for key, value in record.items() if isinstance(value, dict)}
    return {key: _names(value.get("choices")) for key, value in chosen.items()}


def _columns_in(field: str, record: Object) -> Object:
    """Return the columns that stand in an object of the record, and its id."""
    own = {"id": record["id"]} if "id" in record else {}
    return {**own, **_mapping(record.get(field))}


def _fields_answers(record: Object) -> dict[str, list[str]] | None:
    answers: dict[str, list[str]] = {}
    for question, responses in _mapping(record.get("responses")).items():
        submitted = [r for r in _objects(responses) if r.get("status", "submitted") == "submitted"]
        if submitted:
            answers[question] = [name for r in submitted for name in _names(r.get("value"))]
    return answers or None


def _corpus_answers(record: Object) -> dict[str, list[str]] | None:
    subjects = _objects(record.get("subjects"))
    named = [each.get("uri", each.get("label")) for each in subjects]
    return {"subjects": [name.strip("<>") for name in named if isinstance(name, str)]}


TOOLS = (
    Tool(
        "label-studio",
        lambda r: isinstance(r.get("data"), dict) and isinstance(r.get("annotations"), list),
        partial(_columns_in, "data"),
        _tasks_answers,
    ),
    Tool(
        "argilla",
        lambda r: isinstance(r.get("fields"), dict) and isinstance(r.get("responses"), dict),
        partial(_columns_in, "fields"),
        _fields_answers,
    ),
    Tool(
        "annif",
        lambda r: bool(_objects(r.get("subjects"))),
        lambda r: {key: value for key, value in r.items() if key != "subjects"},
        _corpus_answers,
    ),
    Tool(
        "label-studio",
        lambda r: any("choices" in _mapping(value) for value in r.values()),
        lambda r: {key: value for key, value in r.items() if not isinstance(value, dict)},
        _short_answers,
    ),
)
"""The tools, told by the first record of a file."""
