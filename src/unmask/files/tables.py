"""Tables as columns of strings: delimited text, JSON lines, Parquet and objects in memory.

`recognised` says whether a file is a table, `open_table` opens a file or a table in memory as a
`Source`, whose columns are read when they are asked for; `roles` finds out which column is which,
`write_columns` makes files of columns. A cell without a value (an empty field, null, NaN) is an
empty string or an empty list; which columns may have such cells is decided by whoever asks for the
column.

Tables in memory are told by what they can do rather than by what they are:

    Arrow             whatever has `__arrow_c_stream__` (pyarrow, polars, pandas ≥ 2.2, DuckDB …),
                      if pyarrow is installed
    data frames       `columns` and `frame[name]` with `to_list` or `tolist` (pandas, polars)
    Hugging Face      `column_names`, `dataset[name]`; class labels become their names
    mappings          name → cells

pandas, polars and pyarrow are accepted, never required. A wide table has a row per document and all
its labels in one cell; a long one has a row per label of a document: `id, label`, with `score`
(predictions) or `value` (judgements). In CSV and TSV a field is written with quotes where it holds
a separator, a quote, a line end or a blank at its ends, so that reading gives it back; null is an
empty field.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from unmask._messages import setting
from unmask._names import Strings, encodes, joined, some
from unmask._typing import Ints, PathLike
from unmask.arrays import checks
from unmask.files.streams import ahead, atomic_write, first_bytes, plain_name

if TYPE_CHECKING:
    import pyarrow as pa


class Lists(NamedTuple):
    """A list of strings in every row: row i has values[offsets[i] … offsets[i + 1] − 1]."""

    offsets: Ints
    values: Strings

    @property
    def rows(self) -> int:
        """The number of lists."""
        return len(self.offsets) - 1


Column: TypeAlias = Strings | Lists


@dataclass(frozen=True)
class Source:
    """A table that was opened: its columns are read when they are asked for.

    Parameters
    ----------
    name : str
        The file, or "the table".
    form : str
        "csv", "tsv", "jsonl", "json", "parquet" or "memory".
    names : tuple of str
        Of its columns, in order.
    blocks : function of column names
        Yields the columns by name, some rows at a time.
    where : function of a row number
        Returns the place of a row as messages name it: file and line.
    details : mapping of str to str
        What was recognised, such as the separator.
    """

    name: str
    form: str
    names: tuple[str, ...]
    blocks: Callable[[Sequence[str]], Iterator[Mapping[str, Column]]]
    where: Callable[[int], str]
    details: Mapping[str, str]

    def read(self, wanted: Sequence[str]) -> dict[str, Column]:
        """Read whole columns, by name."""
        parts: dict[str, list[Column]] = {name: [] for name in wanted}
        for block in self.ahead(wanted):
            for name, column in block.items():
                parts[name].append(column)
        return {name: _joined(parts.pop(name)) for name in wanted}

    def ahead(self, wanted: Sequence[str]) -> Iterator[Mapping[str, Column]]:
        """Yield the blocks; the next one is made while the caller works on the last."""
        return ahead(self.blocks(wanted))


def _joined(parts: list[Column]) -> Column:
    """Join parts into one column, after which `parts` is empty."""
    lists = [part for part in parts if isinstance(part, Lists)]
    strings = [part.values if isinstance(part, Lists) else part for part in parts]
    parts.clear()
    if not lists:
        return joined(strings)
    lengths = np.concatenate([[0], *(np.diff(part.offsets) for part in lists)])
    return Lists(np.cumsum(lengths), joined(strings))


def column_of(values: Iterable[object], name: str, where: Callable[[int], str]) -> Column:
    """Make a column of Python values: strings, whole numbers, None or NaN; or lists of them."""
    cells = list(values)
    if any(_is_list(cell) for cell in cells):
        return _lists(cells, name, where)
    return Strings.of([_text(cell, name, where, row) for row, cell in enumerate(cells)], name)


def _lists(cells: list[object], name: str, where: Callable[[int], str]) -> Lists:
    texts: list[str] = []
    ends = [0]
    for row, cell in enumerate(cells):
        if _is_list(cell):
            assert isinstance(cell, Iterable)  # noqa: S101 (for mypy)
            texts += [_text(each, name, where, row) for each in cell]
        elif not _is_missing(cell) and cell != "":
            raise ValueError(
                f"{where(row)}: column {name!r} holds lists, but here {cell!r:.60} is none; make "
                "it a list."
            )
        ends.append(len(texts))
    return Lists(np.array(ends, dtype=np.int64), Strings.of(texts, name))


def _is_list(cell: object) -> bool:
    if isinstance(cell, list | tuple | set | frozenset):
        return True
    return isinstance(cell, np.ndarray) and cell.ndim == 1


def _is_missing(cell: object) -> bool:
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, float | np.floating) and math.isnan(cell)


def _text(cell: object, name: str, where: Callable[[int], str], row: int) -> str:
    if isinstance(cell, str):
        if not cell.isascii() and not encodes(cell):
            raise ValueError(f"{where(row)}: column {name!r} holds {cell!r:.60}, which is no text.")
        return str(cell)
    if _is_missing(cell):
        return ""
    if isinstance(cell, bool | np.bool_) or not isinstance(cell, int | float | np.number):
        raise ValueError(
            f"{where(row)}: column {name!r} must hold text or whole numbers; got {cell!r:.60}."
        )
    number = cell.item() if isinstance(cell, np.number) else cell
    return repr(int(number)) if isinstance(number, int) else repr(number)


FORMS = ("csv", "tsv", "jsonl", "json", "parquet", "annif", "qrels", "cafa")
"""The forms of tables in files; the last three have no header.

`annif`: lines of text, tab, `<URI> <URI>`; `qrels`: `query 0 document relevance`, of TREC; `cafa`:
`target term`, separated by a tab, the truth of CAFA's evaluators.
"""

_ENDINGS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl",
            ".json": "json", ".parquet": "parquet", ".pq": "parquet"}  # fmt: skip
_WITHOUT_HEADER = {"annif": ("text", "subjects"), "cafa": ("id", "label")}
_NAMED = re.compile(r'\s*"?[^\W\d]')
"""The beginning of a field that names a column: a letter or an underscore."""


_ANNIF = re.compile(r"[^\t]*\t(?:<[^<>\s]+>\s*)+")


def ending(path: PathLike) -> str | None:
    """Return the form that the ending of a name stands for.

    >>> ending("tags.csv.gz"), ending("train.txt")
    ('csv', None)
    """
    return _ENDINGS.get(Path(plain_name(path)).suffix.lower())


def recognised(path: PathLike) -> str | None:
    """Return the form of a table in a file, by its content, and its ending in case of doubt.

    A file whose first line has several fields, of which one starts with a letter, is a table with a
    header: the other text formats have numbers only.
    """
    from unmask.files.delimited import first_line, sniffed_separator

    head = first_bytes(path, 1 << 12).removeprefix(b"\xef\xbb\xbf")
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.lstrip()[:1] == b"{":
        return "jsonl"
    if head.lstrip()[:2] in (b"[{", b"[\n", b"[\r", b"[ ") or ending(path) == "json":
        return "json"
    if head.startswith(b"PK\x03\x04"):
        return None
    line = first_line(path)
    if _ANNIF.fullmatch(line):
        return "annif"
    separator = sniffed_separator(line)
    fields = line.split(separator)
    named = len(fields) > 1 and any(_NAMED.match(field) for field in fields)
    if ending(path) in ("csv", "tsv") or (named and not line.startswith("#")):
        return "tsv" if separator == "\t" else "csv"
    return None


def open_table(
    table: Any,
    form: str | None = None,
    *,
    separator: str | None = None,
    encoding: str | None = None,
) -> Source:
    """Open a file by its form (recognised by default), or a table in memory."""
    from unmask.files import delimited, json_lines, parquet

    if is_frame(table):
        return open_frame(table)
    form = form or recognised(table)
    if form == "parquet":
        return parquet.open_parquet(table)
    if form in ("json", "jsonl"):
        return json_lines.open_json(table)
    if form == "qrels":
        return delimited.open_qrels(table)
    if form in _WITHOUT_HEADER:
        source = delimited.open_delimited(
            table, separator="\t", quote=None, names=_WITHOUT_HEADER[form], encoding=encoding
        )
        return replace(source, form=form)
    if form == "tsv" and separator is None:
        separator = "\t"
    return delimited.open_delimited(table, separator=separator, encoding=encoding)


NAME = "the table"


def is_frame(value: object) -> bool:
    """Return whether this is a table in memory.

    >>> is_frame({"id": ["a"], "tags": ["x;y"]}), is_frame("tags.csv")
    (True, False)
    """
    if isinstance(value, str | bytes):
        return False
    if isinstance(value, Mapping):
        return True
    has = [hasattr(value, name) for name in ("__arrow_c_stream__", "column_names", "columns")]
    return (any(has) and hasattr(value, "__getitem__")) or has[0]


def open_frame(frame: Any) -> Source:
    """Open any of the tables in memory."""
    if hasattr(frame, "features") and hasattr(frame, "column_names"):
        return _hugging_face(frame)
    arrow = pyarrow_or_none()
    if hasattr(frame, "__arrow_c_stream__") and arrow is not None:
        table = arrow.table(frame)

        def blocks(wanted: Sequence[str]) -> Iterator[Mapping[str, Column]]:
            yield {each: arrow_column(_whole(table.column(each)), each, _row) for each in wanted}

        return Source(NAME, "memory", tuple(table.column_names), blocks, _row, {})
    names = getattr(frame, "column_names", getattr(frame, "columns", None))
    columns = list(frame) if isinstance(frame, Mapping) else list(names)  # type: ignore[arg-type]

    def cells(name: object) -> Iterable[object]:
        column = frame[name]
        methods = (m for m in ("to_list", "tolist", "to_pylist") if hasattr(column, m))
        method = next(methods, None)
        return list(column if method is None else getattr(column, method)())

    return _by_name(columns, cells)


def _row(row: int) -> str:
    return f"{NAME}, row {row}"


def _by_name(columns: Iterable[object], cells: Callable[[object], Iterable[object]]) -> Source:
    by_text = {str(name): name for name in columns}

    def blocks(wanted: Sequence[str]) -> Iterator[Mapping[str, Column]]:
        yield {name: column_of(cells(by_text[name]), name, _row) for name in wanted}

    return Source(NAME, "memory", tuple(by_text), blocks, _row, {})


def _hugging_face(dataset: Any) -> Source:
    """Open a `datasets.Dataset`; numbers of class labels become names."""

    def cells(name: object) -> Iterable[object]:
        feature, column = dataset.features[name], list(dataset[name])
        inner = feature[0] if isinstance(feature, list) else getattr(feature, "feature", feature)
        names = getattr(inner, "names", None)  # of a ClassLabel, or of a list of them
        return column if names is None else [_named(cell, list(names)) for cell in column]

    return _by_name(dataset.column_names, cells)


def _named(cell: object, names: list[str]) -> object:
    if isinstance(cell, Sequence) and not isinstance(cell, str):
        return [_named(each, names) for each in cell]
    if not isinstance(cell, int | np.integer) or not 0 <= cell < len(names):
        return cell if cell is None else str(cell)
    return names[int(cell)]


def pyarrow_or_none() -> Any:
    """Return the package pyarrow, if it is installed."""
    try:
        import pyarrow
    except ImportError:
        return None
    return pyarrow


def _whole(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0) if whole.num_chunks else pa.array([], type=column.type)
    return whole


def arrow_column(cells: pa.Array, name: str, where: Callable[[int], str]) -> Column:
    """Make a column of strings or lists of strings by their buffers, else by Python values."""
    import pyarrow as pa

    kind = cells.type
    if _is_text(kind):
        return _arrow_strings(cells)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if _is_text(kind.value_type):
            lengths = cells.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
            values = _arrow_strings(cells.flatten())
            return Lists(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), values)
        return column_of([cell or [] for cell in cells.to_pylist()], name, where)
    return column_of(cells.to_pylist(), name, where)


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    views = getattr(pa.types, "is_string_view", lambda kind: False)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or views(kind)


def _arrow_strings(array: pa.Array) -> Strings:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        named = pc.cast(array.dictionary, pa.large_string())
        array = pa.DictionaryArray.from_arrays(array.indices, named).dictionary_decode()
    text = pc.fill_null(pc.cast(array, pa.large_string()), "")
    text = pa.concat_arrays([text])  # an offset of 0
    _, offsets, data = text.buffers()
    n = len(text)
    if offsets is None or n == 0:
        return Strings(np.empty(0, np.uint8), np.zeros(1, np.int64))
    starts = np.frombuffer(offsets, dtype=np.int64)[text.offset : text.offset + n + 1].copy()
    characters = np.empty(0, np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
    return Strings(characters[starts[0] : starts[-1]].copy(), starts - starts[0])


Layout = Literal["wide", "long"]

IDS = (
    "id", "_id", "ids", "doc_id", "docid", "document_id", "document", "doc", "uid", "uuid",
    "row_id", "item_id", "record_id", "target", "query_id", "qid", "example_id", "key",
)  # fmt: skip
LABEL_LISTS = (
    "labels", "tags", "subjects", "categories", "topics", "keywords", "terms", "codes", "classes",
    "genres", "subject_uris", "annotations", "concepts",
)  # fmt: skip
LABELS = (
    "label", "tag", "subject", "category", "topic", "keyword", "term", "code", "class", "genre",
    "subject_uri", "label_id", "concept", "uri",
)  # fmt: skip
SCORES = ("score", "scores", "probability", "confidence")
VALUES = ("value", "relevance", "judgement", "judgment")
_OTHERS = ("rank", "label_name", "notation", "iteration", "run")
"""Columns that a long table may have beside; they are not read."""


class Roles(NamedTuple):
    """The columns of a table by what they hold; None: there is none."""

    layout: Layout
    id: str | None
    labels: str | None
    texts: tuple[str, ...]
    score: str | None
    value: str | None
    judged: tuple[tuple[str, str], ...] = ()
    """("negative" or "ignored", the column that lists such labels)."""


def roles(
    source: Source,
    *,
    id: str | None = None,
    labels: str | None = None,
    text: str | Sequence[str] | None = None,
    layout: str | None = None,
    negative: str | None = None,
    ignored: str | None = None,
) -> Roles:
    """Return the roles of a table's columns; refuse a name that is missing or could be two."""
    texts = () if text is None else tuple(text.split(",") if isinstance(text, str) else text)
    named = [("id", id), ("labels", labels), ("negative", negative), ("ignored", ignored)]
    for argument, name in [*named, *(("text", name) for name in texts)]:
        if name is not None and name not in source.names:
            raise ValueError(
                f"{source.name} has no column {name!r} (asked for by {argument}); its columns are "
                f"{some(source.names, 8)}."
            )
    taken = {name for name in (*dict(named).values(), *texts) if name is not None}
    if len(taken) < sum(name is not None for _, name in named) + len(texts):
        raise ValueError(f"{source.name}: one column cannot be id, text and labels at once.")
    judged = tuple((argument, name) for argument, name in named[2:] if name is not None)
    key = id or _only(source, IDS, "ids", "id", taken)
    score, value = (_only(source, names, "", "", taken) for names in (SCORES, VALUES))
    chosen = "wide" if judged and layout is None else _layout(source, layout, key, labels, texts)
    if judged and chosen == "long":
        raise ValueError(
            f"{source.name}: a long table has no columns of {' and '.join(dict(judged))} labels; "
            "a pair that does not count is a line with the value ignore."
        )
    wanted = LABELS if chosen == "long" else (*LABEL_LISTS, *LABELS)
    column = labels or _only(source, wanted, "labels", "labels", taken | {key or ""})
    return Roles(chosen, key, column, texts, score, value, judged)


def _only(
    source: Source, usual: Sequence[str], what: str, argument: str, taken: set[str]
) -> str | None:
    """Return the one column with a usual name; of scores and values the first of several."""
    lower = {name: name.lower().replace(" ", "_") for name in source.names if name not in taken}
    likely = [name for name in lower if lower[name] in usual]
    if len(likely) > 1 and argument == "id":  # the plainest of them
        likely = sorted(likely, key=lambda name: usual.index(lower[name]))[:1]
    if len(likely) > 1 and argument:
        raise ValueError(
            f"{source.name}: which column holds the {what}: {' or '.join(map(repr, likely))}? Say "
            f"it with {setting(argument)}."
        )
    return likely[0] if likely else None


def _layout(
    source: Source, layout: str | None, id: str | None, labels: str | None, texts: Sequence[str]
) -> Layout:
    if layout is not None:
        checks.one_of(layout, ("wide", "long"), "layout")
        if layout == "long" and id is None:
            raise ValueError(
                f"{source.name}: a long table needs a column of ids; name it with {setting('id')}."
            )
        return "long" if layout == "long" else "wide"
    if id is None or texts:
        return "wide"
    others = {name.lower() for name in source.names if name not in (id, labels)}
    expected = {*SCORES, *VALUES, *_OTHERS, *(() if labels else LABELS)}
    of_one_label = labels.lower() in LABELS if labels else bool(others & set(LABELS))
    return "long" if of_one_label and others <= expected else "wide"


Cell = str | int | float | list[str] | None
_LINES = 1 << 14


def write_columns(path: PathLike, form: str, columns: Mapping[str, Sequence[Cell]]) -> None:
    """Write columns of one length to a file; lists only in JSON lines and Parquet."""
    if form == "parquet":
        _write_parquet(path, columns)
        return
    rows = zip(*columns.values(), strict=True)
    names = list(columns)
    with atomic_write(path) as file:
        lines = _lines(form, names, rows)
        while gathered := "".join(islice(lines, _LINES)):
            file.write(gathered.encode())


def _lines(form: str, names: list[str], rows: Iterable[tuple[Cell, ...]]) -> Iterator[str]:
    if form in ("jsonl", "json"):
        for row in rows:
            yield json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n"
    else:
        separator = "\t" if form == "tsv" else ","
        for line in chain([tuple(names)], rows):
            yield separator.join(_field(cell, separator) for cell in line) + "\n"


def _field(cell: Cell, separator: str) -> str:
    if cell is None:
        return ""
    text = cell if isinstance(cell, str) else repr(cell)
    special = separator in text or '"' in text or "\n" in text or "\r" in text
    if special or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def _write_parquet(path: PathLike, columns: Mapping[str, Sequence[Cell]]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError:
        raise ValueError(
            f"{path}: to write Parquet, install pyarrow: pip install 'unmask[tables]'."
        ) from None
    table = pa.table({name: list(cells) for name, cells in columns.items()})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    with atomic_write(path) as file:
        file.write(buffer.getbuffer())
