r"""Delimited text: CSV and its relatives, strictly, some megabytes at a time.

A record is a line of fields between separators (`,`, tab, `;` or `|`; found from the first line
unless it is given). A field that begins with `"` ends with `"`, may hold separators and line ends,
and has `""` for a quote. Lines end with \n or \r\n; a byte-order mark, a missing last line end and
empty lines are fine. All else is refused, with file, line and what to do: a record with more or
fewer fields than the first line, characters after a closing quote, a quote that is never closed, a
quote inside a field that has none around it (where tabs separate, it is a character like others),
bytes that are no UTF-8.

TREC's files have no header and a fixed number of words in a line: `open_qrels` reads judgements,
`open_trec` runs.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unmask._messages import setting
from unmask._names import Bytes, Strings
from unmask._typing import Ints, PathLike
from unmask.files.streams import blocks, contents, first_bytes, quoted
from unmask.files.tables import Column, Source, column_of

SEPARATORS = {"\t": "tsv", ",": "csv", ";": "csv", "|": "csv"}
"""The separators of fields, the likelier first, with the form of such a file."""

_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}


@dataclass(frozen=True)
class Dialect:
    """The way in which a file is written.

    Parameters
    ----------
    separator : str
        One character between fields.
    quote : str or None
        The character around fields; None: quotes are characters like others.
    encoding : str
        As Python names it.
    header : bool
        Whether the first record names the columns.
    """

    separator: str
    quote: str | None = '"'
    encoding: str = "utf-8"
    header: bool = True

    @property
    def strict(self) -> bool:
        """True where a quote inside an unquoted field is refused."""
        return self.separator != "\t"


def encoding_of(head: bytes, chosen: str | None) -> str:
    """Return the chosen encoding, or what a byte-order mark says, or UTF-8."""
    if chosen is not None:
        try:
            return codecs.lookup(chosen).name
        except LookupError:
            raise ValueError(f"there is no encoding {chosen!r}; try 'utf-8' or 'cp1252'.") from None
    return next((name for mark, name in _MARKS.items() if head.startswith(mark)), "utf-8")


def first_line(path: PathLike, encoding: str | None = None) -> str:
    """Return the first line of a file, as far as it lies in its first bytes."""
    head = first_bytes(path)
    text = codecs.getincrementaldecoder(encoding_of(head, encoding))("replace").decode(head)
    return text.partition("\n")[0].removesuffix("\r")


def sniffed_separator(line: str) -> str:
    """Return the separator of a header line: what stands in it most often, outside quotes."""
    bare = "".join(line.split('"')[::2])
    return max(SEPARATORS, key=bare.count) if any(map(bare.count, SEPARATORS)) else ","


def open_delimited(
    path: PathLike,
    *,
    separator: str | None = None,
    quote: str | None = '"',
    encoding: str | None = None,
    names: Sequence[str] | None = None,
) -> Source:
    """Open delimited text; `names` are those of the columns if the first record is a row."""
    head = first_bytes(path)
    if not head.strip():
        raise ValueError(f"{path}: the file is empty.")
    encoding = encoding_of(head, encoding)
    line = first_line(path, encoding)
    chosen = sniffed_separator(line) if separator is None else _one_character(separator)
    dialect = Dialect(chosen, quote, encoding, names is None)
    columns = tuple(names) if names is not None else _header(path, head, dialect)

    return Source(
        name=str(path),
        form=SEPARATORS.get(chosen, "csv"),
        names=columns,
        blocks=lambda wanted: column_blocks(path, dialect, columns, wanted),
        where=lambda row: f"{path}, line {line_of(path, dialect, len(columns), row)}",
        details={"separator": chosen, "encoding": encoding.removesuffix("-sig")},
    )


def _one_character(separator: str) -> str:
    names = {"tab": "\t", "comma": ",", "semicolon": ";", "\\t": "\t"}
    character = names.get(separator, separator)
    if len(character) != 1 or not character.isascii() or character in '"\n\r':
        raise ValueError(f"a separator is one character, such as ',' or ';'; got {separator!r}.")
    return character


def _header(path: PathLike, head: bytes, dialect: Dialect) -> tuple[str, ...]:
    decoder = codecs.getincrementaldecoder(dialect.encoding)()
    try:
        text = decoder.decode(head)
    except UnicodeDecodeError as error:
        line = head.count(b"\n", 0, error.start) + 1
        raise ValueError(_not_text(path, line, head[error.start : error.start + 8])) from None
    reader = csv.reader(
        io.StringIO(text.lstrip("\r\n"), newline=""), delimiter=dialect.separator, strict=True,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
    )  # fmt: skip
    try:
        names = tuple(name.strip() for name in next(reader, []))
    except csv.Error as error:
        raise ValueError(f"{path}, line 1: the header cannot be read ({error}).") from None
    if not any(names):
        raise ValueError(f"{path}, line 1: expected the names of columns, got an empty line.")
    return names


def column_blocks(
    path: PathLike, dialect: Dialect, names: Sequence[str], wanted: Sequence[str]
) -> Iterator[dict[str, Strings]]:
    """Yield the wanted columns of all records, some thousands of records at a time."""
    from unmask._kernels import tables as kernels

    places = np.full(len(names), -1, dtype=np.int64)
    for place, name in enumerate(wanted):
        times = list(names).count(name)
        if times > 1:
            raise ValueError(
                f"{path}, line 1: column {name!r} stands {times} times; rename one of them."
            )
        places[list(names).index(name)] = place
    quote = ord(dialect.quote) if dialect.quote else kernels.NO_QUOTE
    for records in _records(path, dialect, places, len(wanted)):
        yield {name: _cells(records, place, quote) for place, name in enumerate(wanted)}


class Records(NamedTuple):
    """Whole records: their bytes, where wanted fields stand, how those are quoted, first line."""

    text: Bytes
    spans: Ints
    kinds: Bytes
    line: int


def _cells(records: Records, place: int, quote: int) -> Strings:
    """Take a column of records as strings out of their text."""
    from unmask._kernels import tables as kernels

    text, spans, kinds = records.text, records.spans[:, place], records.kinds[:, place]
    lengths = np.empty(len(spans), dtype=np.int64)
    kernels.cell_lengths(text, spans, kinds, quote, lengths)
    offsets = np.zeros(len(spans) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    data = np.empty(int(offsets[-1]), dtype=np.uint8)
    kernels.copy_cells(text, spans, kinds, quote, data)
    return Strings(data, offsets)


def _records(path: PathLike, dialect: Dialect, places: Ints, n_wanted: int) -> Iterator[Records]:
    """Yield all records but the header, block by block."""
    from unmask._kernels import tables as kernels

    quote = ord(dialect.quote) if dialect.quote else kernels.NO_QUOTE
    waiting: list[bytes] = []  # not joined before a record may end: a line can be long
    line, size, needed, to_skip = 1, 0, 0, int(dialect.header)
    ends_line = False
    for block, final in _utf8_blocks(path, dialect.encoding):
        waiting.append(block)
        size += len(block)
        ends_line = ends_line or b"\n" in block  # though not every line ends a record
        if not final and (size < needed or not ends_line):
            continue
        held = b"".join(waiting)
        if final and held and not held.endswith(b"\n"):
            held += b"\n"
        whole = held.rfind(b"\n") + 1
        if not whole:
            continue
        text = np.frombuffer(held, dtype=np.uint8, count=whole)
        most = held.count(b"\n") + 1  # the last record may be incomplete
        spans = np.empty((most, n_wanted, 2), dtype=np.int64)
        kinds = np.empty((most, n_wanted), dtype=np.uint8)
        code, byte, rows, end, fields = kernels.split(
            text, 0, len(text), ord(dialect.separator), quote, dialect.strict, places, spans, kinds
        )
        try:
            held[: end if code == kernels.FINE else byte].decode()
        except UnicodeDecodeError as error:
            number = line + held.count(b"\n", 0, error.start)
            raise ValueError(_not_text(path, number, held[error.start : error.start + 8])) from None
        if code != kernels.FINE:
            number = line + held.count(b"\n", 0, byte)
            raise ValueError(_fault(path, number, code, held[byte : byte + 60], fields, places))
        if final and end < len(held):
            number = line + held.count(b"\n", 0, end)
            raise ValueError(f"{path}, line {number}: a quote in this record is never closed.")
        skipped = min(to_skip, rows)
        to_skip -= skipped
        yield Records(text, spans[skipped:rows], kinds[skipped:rows], line)
        line += held.count(b"\n", 0, end)
        needed = 0 if end else 2 * len(held)  # a record longer than a block: not looked at often
        waiting, size = [held[end:]], len(held) - end
        ends_line = b"\n" in waiting[0]


def _utf8_blocks(path: PathLike, encoding: str) -> Iterator[tuple[bytes, bool]]:
    """Yield the file as UTF-8 in blocks, the last of which is marked and may be empty."""
    if encoding == "utf-8":
        for block in blocks(path):
            yield block, False
    else:
        decoder = codecs.getincrementaldecoder(encoding)()
        line = 1
        for block in blocks(path):
            try:
                text = decoder.decode(block).encode()
            except UnicodeError as error:
                raise ValueError(
                    f"{path}, after line {line}: not {encoding} ({error}); name the encoding of "
                    f"the file with {setting('encoding')}."
                ) from None
            line += text.count(b"\n")
            yield text, False
        if decoder.getstate()[0]:
            raise ValueError(f"{path}: the file ends in the middle of a character of {encoding}.")
    yield b"", True


def _not_text(path: PathLike, line: int, token: bytes) -> str:
    return (
        f"{path}, line {line}: not UTF-8 text, at {quoted(token)}; save the file as UTF-8, or "
        f"name its encoding, such as {setting('encoding', 'cp1252')}."
    )


def _fault(path: PathLike, line: int, code: int, rest: bytes, fields: int, places: Ints) -> str:
    from unmask._kernels import tables as kernels

    token = quoted(rest.partition(b"\n")[0].removesuffix(b"\r"))
    says = {
        kernels.FIELDS: f"expected {len(places)} fields, as in the first line, got {fields}: "
        f"{token}; put a field that holds the separator in quotes",
        kernels.AFTER_QUOTE: f"a field goes on after its closing quote: {token}; inside quotes "
        'write a quote as ""',
        kernels.STRAY_QUOTE: f"a quote inside a field that has none around it: {token}; put the "
        'field in quotes and write the quote as ""',
    }
    return f"{path}, line {line}: {says[code]}."


def line_of(path: PathLike, dialect: Dialect, n_fields: int, row: int) -> int:
    """Return the line at which a row begins, counted from 1."""
    places = np.full(n_fields, -1, dtype=np.int64)
    places[0] = 0
    for records in _records(path, dialect, places, 1):
        if row < len(records.spans):
            before = records.text[: int(records.spans[row, 0, 0])]
            return records.line + before.tobytes().count(b"\n")
        row -= len(records.spans)
    raise ValueError(f"{path} has no row {row}.")


def open_trec(path: PathLike) -> Source:
    """Open a TREC run: lines `query Q0 document rank score run`."""

    def cells(lines: list[list[str]], where: Callable[[int], str]) -> dict[str, list[str]]:
        return {name: [line[at] for line in lines] for name, at in _RUN.items()}

    return _open_words(path, "trec", 6, tuple(_RUN), cells)


_RUN = {"id": 0, "label": 2, "score": 4}
"""The words of a line in a run that are read."""


def open_qrels(path: PathLike) -> Source:
    """Open TREC's judgements, `query 0 document relevance`: relevance 1 and more is a label."""

    def cells(lines: list[list[str]], where: Callable[[int], str]) -> dict[str, list[str]]:
        for number, line in enumerate(lines):
            if not re.fullmatch(r"-?[0-9]{1,9}", line[3]):
                raise ValueError(
                    f"{where(number)}: a relevance must be a whole number, got {line[3]!r:.40}."
                )
        return {
            "id": [line[0] for line in lines],
            "label": [line[2] for line in lines],
            "value": ["1" if int(line[3]) > 0 else "0" for line in lines],
        }

    return _open_words(path, "qrels", 4, ("id", "label", "value"), cells)


def _open_words(
    path: PathLike,
    form: str,
    count: int,
    names: tuple[str, ...],
    cells: Callable[[list[list[str]], Callable[[int], str]], dict[str, list[str]]],
) -> Source:
    """Open a file of `count` words in a line, of which `cells` makes columns."""

    def where(row: int) -> str:
        return f"{path}, line {row + 1}"

    def blocks(wanted: Sequence[str]) -> Iterator[Mapping[str, Column]]:
        columns = cells(list(_words(path, count)), where)
        yield {name: column_of(columns[name], name, where) for name in wanted}

    return Source(str(path), form, names, blocks, where, {})


def _words(path: PathLike, count: int) -> Iterator[list[str]]:
    """Yield the lines of a file of `count` words each."""
    text = contents(path).removeprefix(b"\xef\xbb\xbf")
    lines = text.removesuffix(b"\n").split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            words = line.decode().split()
        except UnicodeDecodeError:
            raise ValueError(f"{path}, line {number}: not UTF-8 text.") from None
        if len(words) != count:
            raise ValueError(
                f"{path}, line {number}: expected {count} words, got {len(words)}: {quoted(line)}."
            )
        yield words
