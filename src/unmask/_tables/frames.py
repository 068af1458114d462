"""Tables in memory, by what they can do rather than by what they are.

    Arrow             whatever has `__arrow_c_stream__` (pyarrow, polars, pandas ≥ 2.2, DuckDB …),
                      if pyarrow is installed
    data frames       `columns` and `frame[name]` with `to_list` or `tolist` (pandas, polars)
    Hugging Face      `column_names`, `dataset[name]`; class labels become their names
    mappings          name → cells

pandas, polars and pyarrow are accepted, never required.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unmask._names import Strings
from unmask._tables.columns import Column, Lists, Source, column_of

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "the table"


def is_frame(value: object) -> bool:
    """Whether this is a table in memory.

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
    """Any of the tables above."""
    if hasattr(frame, "features") and hasattr(frame, "column_names"):
        return _hugging_face(frame)
    arrow = pyarrow_or_none()
    if hasattr(frame, "__arrow_c_stream__") and arrow is not None:
        return _of_arrow(arrow.table(frame))
    names = getattr(frame, "column_names", getattr(frame, "columns", None))
    columns = list(frame) if isinstance(frame, Mapping) else list(names)  # type: ignore[arg-type]
    return _by_name(columns, lambda name: _cells(frame[name]))


def _row(row: int) -> str:
    return f"{NAME}, row {row}"


def _by_name(columns: Iterable[object], cells: Callable[[object], Iterable[object]]) -> Source:
    by_text = {str(name): name for name in columns}

    def blocks(wanted: Sequence[str]) -> Iterator[Mapping[str, Column]]:
        yield {name: column_of(cells(by_text[name]), name, _row) for name in wanted}

    return Source(NAME, "memory", tuple(by_text), blocks, _row, {})


def _cells(column: Any) -> Iterable[object]:
    for method in ("to_list", "tolist", "to_pylist"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


def _hugging_face(dataset: Any) -> Source:
    """Columns of a `datasets.Dataset`; numbers of class labels become names."""

    def cells(name: object) -> Iterable[object]:
        names = _class_names(dataset.features[name])
        column = list(dataset[name])
        if names is None:
            return column
        return [_named(cell, names) for cell in column]

    return _by_name(dataset.column_names, cells)


def _class_names(feature: Any) -> list[str] | None:
    """The names of a ClassLabel, or of a list of them."""
    inner = feature[0] if isinstance(feature, list) else getattr(feature, "feature", feature)
    names = getattr(inner, "names", None)
    return None if names is None else list(names)


def _named(cell: object, names: list[str]) -> object:
    if isinstance(cell, Sequence) and not isinstance(cell, str):
        return [_named(each, names) for each in cell]
    if not isinstance(cell, int | np.integer) or not 0 <= cell < len(names):
        return cell if cell is None else str(cell)
    return names[int(cell)]


def pyarrow_or_none() -> Any:
    """The package pyarrow, if it is installed."""
    try:
        import pyarrow
    except ImportError:
        return None
    return pyarrow


def _of_arrow(table: pa.Table) -> Source:
    def blocks(wanted: Sequence[str]) -> Iterator[Mapping[str, Column]]:
        yield {each: arrow_column(_whole(table.column(each)), each, _row) for each in wanted}

    return Source(NAME, "memory", tuple(table.column_names), blocks, _row, {})


def _whole(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0) if whole.num_chunks else pa.array([], type=column.type)
    return whole


def arrow_column(cells: pa.Array, name: str, where: Callable[[int], str]) -> Column:
    """Strings and lists of strings by their buffers, anything else by Python values."""
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
