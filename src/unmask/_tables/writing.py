"""Columns to files: CSV, TSV, JSON lines, Parquet.

In CSV and TSV a field is quoted where it holds a separator, a quote, a line end or a blank at its
ends, so that reading gives it back; null is an empty field.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence

from unmask import _io
from unmask._typing import PathLike

Cell = str | int | float | list[str] | None
_LINES = 1 << 14


def write_columns(path: PathLike, form: str, columns: Mapping[str, Sequence[Cell]]) -> None:
    """One file with these columns, all of one length; lists only in JSON lines and Parquet."""
    if form == "parquet":
        _write_parquet(path, columns)
        return
    rows = zip(*columns.values(), strict=True)
    names = list(columns)
    lines = _json(names, rows) if form in ("jsonl", "json") else _delimited(form, names, rows)
    with _io.atomic_write(path) as file:
        gathered: list[str] = []
        for line in lines:
            gathered.append(line)
            if len(gathered) == _LINES:
                file.write("".join(gathered).encode())
                gathered.clear()
        file.write("".join(gathered).encode())


def _json(names: list[str], rows: Iterable[tuple[Cell, ...]]) -> Iterable[str]:
    for row in rows:
        record = dict(zip(names, row, strict=True))
        yield json.dumps(record, ensure_ascii=False) + "\n"


def _delimited(form: str, names: list[str], rows: Iterable[tuple[Cell, ...]]) -> Iterable[str]:
    separator = "\t" if form == "tsv" else ","
    yield separator.join(_field(name, separator) for name in names) + "\n"
    for row in rows:
        yield separator.join(_field(cell, separator) for cell in row) + "\n"


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
    with _io.atomic_write(path) as file:
        file.write(buffer.getbuffer())
