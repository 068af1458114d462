"""JSON lines (an object per line) and JSON files that hold a list of objects.

A key that stands twice in an object, NaN and Infinity are refused: each could mean two things. A
key that an object lacks is a cell without a value. Records of annotation tools are translated
(`annotations`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from unmask import _io
from unmask._tables.annotations import translation_of
from unmask._tables.columns import Column, Source, column_of
from unmask._typing import Json, PathLike

Object = dict[str, Json]
_NAMED = 100
"""Objects from which the names of columns are taken."""


def open_json(path: PathLike) -> Source:
    """Open a file of JSON lines, or one list of objects."""
    form = "json" if _starts_with(path, b"[") else "jsonl"
    entries = _entries if form == "json" else _lines
    first = [record for _, record in zip(range(_NAMED), _records(path, entries), strict=False)]
    if not first:
        raise ValueError(f"{path}: the file holds no JSON objects.")
    translation = translation_of([record for _, record in first])
    names = tuple(dict.fromkeys(key for _, record in first for key in record))
    details: dict[str, str] = {}
    if translation is not None:
        names = translation.names(record for _, record in first)
        details["tool"] = translation.tool.name

    def rows() -> Iterator[tuple[int, Object]]:
        unfinished = 0
        for number, record in _records(path, entries):
            row = record if translation is None else translation(record)
            unfinished += row is None
            if row is not None:
                yield number, row
        if unfinished:
            details["not annotated"] = str(unfinished)

    def blocks(wanted: Sequence[str]) -> Iterator[Mapping[str, Column]]:
        cells: dict[str, list[object]] = {name: [] for name in wanted}
        for _, record in rows():
            for name, column in cells.items():
                column.append(record.get(name))
        yield {name: column_of(column, name, where) for name, column in cells.items()}

    def where(row: int) -> str:
        number = next(number for i, (number, _) in enumerate(rows()) if i == row)
        return f"{path}, {'entry' if form == 'json' else 'line'} {number}"

    return Source(str(path), form, names, blocks, where, details)


def objects(path: PathLike) -> Iterator[tuple[str, Object]]:
    """The objects of a file, each with its place."""
    form = "json" if _starts_with(path, b"[") else "jsonl"
    entries = _entries if form == "json" else _lines
    for number, record in _records(path, entries):
        yield f"{path}, {'entry' if form == 'json' else 'line'} {number}", record


def _starts_with(path: PathLike, byte: bytes) -> bool:
    return (
        next(_io.blocks(path, size=1 << 12), b"").removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == byte
    )


def _records(
    path: PathLike, entries: Callable[[PathLike], Iterable[tuple[int, Any]]]
) -> Iterator[tuple[int, Object]]:
    for number, record in entries(path):
        if not isinstance(record, dict):
            raise ValueError(
                f"{path}, record {number}: expected a JSON object, got {record!r:.60}."
            )
        yield number, record


def _lines(path: PathLike) -> Iterator[tuple[int, Json]]:
    for number, line in enumerate(_split_lines(path), start=1):
        if line.strip():
            yield number, _loaded(f"{path}, line {number}", line)


def _split_lines(path: PathLike) -> Iterator[bytes]:
    unfinished: list[bytes] = []
    for block in _io.blocks(path):
        first, *others = block.split(b"\n")
        unfinished.append(first)
        if others:
            yield b"".join(unfinished)
            yield from others[:-1]
            unfinished = others[-1:]
    yield b"".join(unfinished)


def _entries(path: PathLike) -> Iterator[tuple[int, Json]]:
    whole = _loaded(str(path), _io.contents(path))
    assert isinstance(whole, list)  # noqa: S101 (it starts with a bracket)
    yield from enumerate(whole, start=1)


def _loaded(place: str, contents: bytes) -> Json:
    try:
        text = contents.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        token = _io.quoted(contents[error.start : error.start + 8])
        raise ValueError(f"{place}: not UTF-8 text, at {token}; save the file as UTF-8.") from None
    try:
        value: Json = json.loads(text, object_pairs_hook=_io.distinct, parse_constant=_refuse)
    except RecursionError:
        raise ValueError(f"{place} is nested too deep.") from None
    except ValueError as error:
        raise ValueError(f"{place} is not JSON ({error}); got {text.strip()!r:.60}.") from None
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON; write null for no value")
