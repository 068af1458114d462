"""Parquet files by pyarrow, a limited number of rows at a time.

A few bytes can stand for gigabytes: a string in a dictionary that every row repeats, one list of
millions of equal values, a page that says it is larger than it is. So before a column is decoded
its page headers are walked, which say what the decoder will set aside (the summary in the footer
may say anything), and repeated strings stay numbers of a dictionary until they have been counted.
Both count as what the file unpacks to (`limits`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedReader
from typing import TYPE_CHECKING, Any

from unmask._typing import PathLike
from unmask.files import streams
from unmask.files.streams import Unpacked, open_readable
from unmask.files.tables import Column, Source, arrow_column, pyarrow_or_none

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 1 << 16
"""Rows that are decoded in one go."""
_ENTRY = 8
"""Bytes of the number or offset of a value."""
_PAGE = 1 << 10
"""Bytes that a page takes, whatever is in it."""
_PREFIXES, _DICTIONARIES = 7, (2, 8)
"""Encodings: strings that begin like the one before; numbers of a dictionary."""
_LATE = 100
"""Bytes by which old writers understate the size of a column."""


def open_parquet(path: PathLike) -> Source:
    """Open a Parquet file, whose columns are read when they are asked for."""
    if pyarrow_or_none() is None:
        raise ValueError(
            f"{path} is a Parquet file; to read it, install pyarrow: pip install 'unmask[tables]'."
        )
    import pyarrow.parquet as parquet

    with _sound(path), open_readable(path) as file:
        names = tuple(parquet.read_schema(file).names)

    def blocks(wanted: Sequence[str]) -> Iterator[Mapping[str, Column]]:
        start = 0
        for batch in _batches(path, list(wanted)):

            def place(row: int, start: int = start) -> str:
                return where(start + row)

            yield {
                name: arrow_column(batch.column(at), name, place)
                for at, name in enumerate(batch.schema.names)
            }
            start += batch.num_rows

    def where(row: int) -> str:
        return f"{path}, row {row}"

    return Source(str(path), "parquet", names, blocks, where, {})


@contextmanager
def _sound(path: PathLike) -> Iterator[None]:
    """Let whatever the parsers of a Parquet file raise be a ValueError that names it."""
    try:
        yield
    except Exception as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{path}: not a sound Parquet file ({error}).") from None


def _batches(path: PathLike, wanted: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield some rows of the wanted columns at a time, in the order of `wanted`."""
    import pyarrow.parquet as parquet

    with _sound(path), open_readable(path) as file:
        about = parquet.read_metadata(file)
        budget = Unpacked(path, file.seek(0, 2))
        roots = tuple(f"{name}." for name in wanted)
        leaves = [
            each
            for each in range(about.num_columns)
            if f"{about.schema.column(each).path}.".startswith(roots)
        ]
        coded, rows = _walk(file, about, leaves, budget)
        table = parquet.ParquetFile(file, read_dictionary=coded, pre_buffer=False)
        for batch in table.iter_batches(batch_size=rows, columns=wanted):
            for column in batch.columns:
                budget.add(_text_bytes(column))
            yield batch.select(wanted)


def _walk(
    file: BufferedReader, about: Any, leaves: list[int], budget: Unpacked
) -> tuple[list[str], int]:
    """Count what pages hold; return the columns with dictionaries, and the rows of one go."""
    coded, rows = set(), _ROWS
    file.seek(-8, 2)
    file.seek(-8 - int.from_bytes(file.read(4), "little"), 2)
    for group in _struct(file)[_GROUPS]:
        for leaf in leaves:
            kind, chunk = about.schema.column(leaf), group[_COLUMNS][leaf][_ABOUT]
            width = max(_ENTRY, kind.length or 0)
            for size, values, encoding in _pages(file, chunk):
                budget.add(_PAGE + size + width * values)
                if encoding in _DICTIONARIES and kind.physical_type == "BYTE_ARRAY":
                    coded.add(kind.path)
                if encoding == _PREFIXES and kind.max_repetition_level:
                    budget.add(size * values)
                elif encoding == _PREFIXES:
                    rows = min(rows, max(1, streams.FREE // max(size, 1)))
    return sorted(coded), rows


_GROUPS, _COLUMNS, _ABOUT = 4, 1, 3
"""Fields of the footer, a group of rows and a column; asked for a damaged one, pyarrow aborts."""
_VALUES, _BYTES, _DATA, _NAMES = 5, 7, 9, 11
"""Fields about a column: the numbers of values and bytes, where data and names begin."""


def _pages(file: BufferedReader, chunk: Any) -> Iterator[tuple[int, int, int]]:
    """Yield unpacked bytes, values and encoding of every page that a decoder will read."""
    position, dictionary = chunk[_DATA], chunk.get(_NAMES, 0)
    if 0 < dictionary < position:
        position = dictionary
    end, count = position + chunk[_BYTES] + _LATE, 0
    while count < chunk[_VALUES] and position < end:
        file.seek(position)
        head = _struct(file)
        about, encoding = _KINDS.get(head[1], (None, 0))
        values = head[about][1] if about else 0
        sizes = (head[2], head[3], values)
        if min(sizes) < 0:
            raise ValueError(f"a page of sizes {sizes}")
        position = file.tell() + head[3]
        count += values if encoding else 0
        yield head[2], values, head[about][encoding] if about and encoding else 0


_KINDS = {0: (5, 2), 2: (7, 0), 3: (8, 4)}
"""Kinds of pages (data, dictionary, the newer data): their field in a header, and the number of
their encoding in it."""


def _text_bytes(cells: pa.Array) -> int:
    """Return the bytes of all strings in a column, a dictionary's as often as they are named."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = cells.type
    if pa.types.is_nested(kind):
        inner = cells.flatten()
        return sum(map(_text_bytes, inner if isinstance(inner, list) else [inner]))
    repeated = pa.types.is_dictionary(kind)
    if (kind.value_type if repeated else kind) not in (pa.string(), pa.large_string(), pa.binary()):
        return 0
    lengths = pc.binary_length(cells.dictionary if repeated else cells).cast(pa.int64())
    return int(pc.sum(lengths.take(cells.indices) if repeated else lengths).as_py() or 0)


# The footer and the headers of pages are structs of Thrift's compact protocol.


def _struct(file: BufferedReader) -> dict[int, Any]:
    """Read the fields of a struct by number."""
    fields: dict[int, Any] = {}
    number = 0
    while kind := _byte(file):
        number = number + (kind >> 4) if kind >> 4 else _integer(file)
        if number in fields:
            raise ValueError("a header that says something twice")
        fields[number] = _value(file, kind & 15)
    return fields


def _value(file: BufferedReader, kind: int) -> Any:
    if kind not in _READERS:
        raise ValueError(f"a header with a value of kind {kind}")
    return _READERS[kind](file)


def _byte(file: BufferedReader) -> int:
    byte = file.read(1)
    if not byte:
        raise ValueError("a header beyond the end of the file")
    return byte[0]


def _natural(file: BufferedReader) -> int:
    total = shift = 0
    while (byte := _byte(file)) & 128:
        total |= (byte & 127) << shift
        shift += 7
        if shift > 63:
            raise ValueError("a number of a header that does not end")
    return total | byte << shift


def _integer(file: BufferedReader) -> int:
    zigzag = _natural(file)
    return zigzag >> 1 ^ -(zigzag & 1)


def _list(file: BufferedReader) -> list[Any]:
    head = _byte(file)
    kind = 3 if head & 15 in (1, 2) else head & 15  # a truth value is a byte here
    return [_value(file, kind) for _ in range(_natural(file) if head >> 4 == 15 else head >> 4)]


_READERS: Mapping[int, Callable[[BufferedReader], Any]] = {
    1: lambda file: True,
    2: lambda file: False,
    3: _byte,
    4: _integer,
    5: _integer,
    6: _integer,
    7: lambda file: file.seek(8, 1),
    8: lambda file: file.seek(_natural(file), 1),
    9: _list,
    10: _list,
    12: _struct,
}
