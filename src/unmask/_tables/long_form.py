"""Long tables of predictions, a line per id, label and score: with a header, or TREC's, or CAFA's.

id,label,score                     any table with these columns (or names that mean the same)
query Q0 document rank score run   TREC: the query is the row, the document its label
target term score                  CAFA: separated by tabs, no header
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from unmask._io import archive
from unmask._messages import setting
from unmask._names import Strings
from unmask._tables import delimited, writing
from unmask._tables.columns import Lists, Source
from unmask._tables.frames import is_frame
from unmask._tables.roles import roles
from unmask._typing import Indices, PathLike, Singles

_TREC = re.compile(r"\S+\s+Q0\s+\S+\s+\d+\s+[-+.\deE]+\s+\S+\s*")
_CAFA = re.compile(r"\S+\t\S+\t[-+.\deE]+\s*")
ROW = "row"
"""The column of a table of rows without ids: their numbers, counted from 0."""


class Predictions(Protocol):
    """What is written: as `unmask.predictions.TopK` has it."""

    @property
    def labels(self) -> Indices: ...

    @property
    def scores(self) -> Singles: ...

    @property
    def ids(self) -> Strings | None: ...

    @property
    def names(self) -> tuple[str, ...] | None: ...


class Lines(NamedTuple):
    """The lines of a long table; without a label, the line says only that there is such a row."""

    ids: Strings
    labels: Strings
    scores: Singles
    by_position: bool


def open_long(path: Any, format: str | None) -> Source | None:
    """A long table of predictions; None if the file is none."""
    from unmask import _tables

    if is_frame(path):
        return _tables.open_table(path)
    if format is None:
        format = _recognised(path)
    if format is None:
        return None
    if format == "trec":
        return _trec(path)
    if format == "cafa":
        return delimited.open_delimited(
            path, separator="\t", quote=None, names=("id", "label", "score")
        )
    return _tables.open_table(path, format)


def _recognised(path: PathLike) -> str | None:
    from unmask import _tables

    if archive.recognised(path) or archive.is_array(path):
        return None
    line = delimited.first_line(path)
    if _TREC.fullmatch(line):
        return "trec"
    if _CAFA.fullmatch(line) and not line.split("\t")[0].isdigit():
        return "cafa"
    return _tables.recognised(path)


def _trec(path: PathLike) -> Source:
    """A TREC run, its words brought into columns."""
    from unmask._tables.columns import column_of

    def where(row: int) -> str:
        return f"{path}, line {row + 1}"

    def blocks(wanted: Any) -> Iterator[dict[str, Any]]:
        words = list(words_of(path, 6))
        places = {"id": 0, "label": 2, "score": 4}
        yield {name: column_of([w[places[name]] for w in words], name, where) for name in wanted}

    return Source(str(path), "trec", ("id", "label", "score"), blocks, where, {})


def open_qrels(path: PathLike) -> Source:
    """TREC's judgements, `query 0 document relevance`: relevance 1 and more is a label."""
    from unmask._tables.columns import column_of

    def where(row: int) -> str:
        return f"{path}, line {row + 1}"

    def blocks(wanted: Any) -> Iterator[dict[str, Any]]:
        words = list(words_of(path, 4))
        for number, line in enumerate(words):
            if not re.fullmatch(r"-?[0-9]{1,9}", line[3]):
                raise ValueError(
                    f"{where(number)}: a relevance must be a whole number, got {line[3]!r:.40}."
                )
        cells = {
            "id": [line[0] for line in words],
            "label": [line[2] for line in words],
            "value": ["1" if int(line[3]) > 0 else "0" for line in words],
        }
        yield {name: column_of(cells[name], name, where) for name in wanted}

    return Source(str(path), "qrels", ("id", "label", "value"), blocks, where, {})


def words_of(path: PathLike, count: int) -> Iterator[list[str]]:
    """The lines of a file of `count` words each."""
    from unmask import _io

    text = _io.contents(path).removeprefix(b"\xef\xbb\xbf")
    lines = text.removesuffix(b"\n").split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            words = line.decode().split()
        except UnicodeDecodeError:
            raise ValueError(f"{path}, line {number}: not UTF-8 text.") from None
        if len(words) != count:
            raise ValueError(
                f"{path}, line {number}: expected {count} words, got {len(words)}: "
                f"{_io.quoted(line)}."
            )
        yield words


def read_lines(
    source: Source, *, id: str | None = None, label: str | None = None, score: str | None = None
) -> Lines:
    """The columns of a long table, checked one by one."""
    by_row = id is None and ROW in source.names
    chosen = roles(source, id=ROW if by_row else id, labels=label, layout=None)
    score = score or chosen.score
    if chosen.id is None or chosen.labels is None or score is None:
        raise ValueError(
            f"{source.name}: predictions need the columns id, label and score; it has "
            f"{', '.join(map(repr, source.names))}. Rename them, or name them with "
            f"{setting('score', of='predictions.read')}."
        )
    if score not in source.names:
        raise ValueError(f"{source.name} has no column {score!r} (asked for by score).")
    columns = source.read([chosen.id, chosen.labels, score])
    ids, labels, numbers = (columns[name] for name in (chosen.id, chosen.labels, score))
    if isinstance(ids, Lists) or isinstance(labels, Lists) or isinstance(numbers, Lists):
        raise ValueError(f"{source.name}: predictions have one label in a row, not a list.")
    empty = np.flatnonzero(np.diff(ids.offsets) == 0)
    if len(empty):
        raise ValueError(f"{source.where(int(empty[0]))}: the prediction has no id.")
    scores = _numbers(numbers, labels, source)
    if by_row:
        _refuse_disorder(ids, source)
    return Lines(ids, labels, scores, by_row)


def _refuse_disorder(ids: Strings, source: Source) -> None:
    """Raise unless the row numbers come as 0, 0, 1, 2, 2, …"""
    last = -1
    for line, text in enumerate(ids):
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -2
        if number not in (last, last + 1) or number < 0:
            raise ValueError(
                f"{source.where(line)}: rows are numbered 0, 1, 2 … in order; got {text!r:.40}."
            )
        last = number


def _numbers(cells: Strings, labels: Strings, source: Source) -> Singles:
    """Scores as float32; where there is no label there need be no score."""
    from unmask._kernels import tables as kernels

    scores = np.full(len(cells), -np.inf, dtype=np.float32)
    rows = np.flatnonzero(np.diff(labels.offsets) > 0)
    texts = cells.take(rows)
    values = np.empty(len(rows), dtype=np.float32)
    slow = np.empty(len(rows), dtype=np.int64)
    spans = texts.spans() + np.arange(len(texts))[:, None]  # a line end after every number
    data = np.full(len(texts.data) + len(texts), 10, dtype=np.uint8)
    kernels.take_strings(texts.data, texts.offsets, np.arange(len(texts)), spans[:, 0], data)
    code, cell, n_slow = kernels.decimals(data, spans, values, slow)
    if code == kernels.FINE:
        with np.errstate(over="ignore"):
            for entry in slow[:n_slow].tolist():
                values[entry] = np.float32(float(texts[entry]))
        wrong = np.flatnonzero(~np.isfinite(values))
        code, cell = (kernels.BAD_NUMBER, int(wrong[0])) if len(wrong) else (code, cell)
    if code != kernels.FINE:
        raise ValueError(
            f"{source.where(int(rows[cell]))}: a score must be a number that is finite as float32, "
            f"got {texts[cell]!r:.40}."
        )
    scores[rows] = values
    return scores


def write_long(path: PathLike, form: str, top: Predictions) -> None:
    """Predictions as a table, best first; a row without any has one line."""
    places = np.maximum((top.labels >= 0).sum(axis=1), 1)
    rows = np.repeat(np.arange(len(places)), places)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(places) - places, places)
    labels, scores = top.labels[rows, place].tolist(), top.scores[rows, place]
    ids = None if top.ids is None else list(top.ids)
    names = top.names
    cells = ["" if j < 0 else str(j) if names is None else names[j] for j in labels]
    writing.write_columns(
        path,
        form,
        {
            ROW if ids is None else "id": [r if ids is None else ids[r] for r in rows.tolist()],
            "label": cells,
            "score": [
                float(str(s)) if j >= 0 else None for j, s in zip(labels, scores, strict=True)
            ],
        },
    )
