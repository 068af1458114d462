"""A table as this package sees it: named columns of strings or of lists of strings.

A cell without a value (an empty field, null, NaN) is an empty string or an empty list; which
columns may have such cells is decided by whoever asks for the column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from unmask._names import Strings, encodes, joined
from unmask._typing import Ints


class Lists(NamedTuple):
    """A list of strings in every row: row i has values[offsets[i] … offsets[i + 1] − 1]."""

    offsets: Ints
    values: Strings

    @property
    def rows(self) -> int:
        """How many lists."""
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
        """The columns by name, whole."""
        parts: dict[str, list[Column]] = {name: [] for name in wanted}
        for block in self.ahead(wanted):
            for name, column in block.items():
                parts[name].append(column)
        return {name: _joined(parts.pop(name)) for name in wanted}

    def ahead(self, wanted: Sequence[str]) -> Iterator[Mapping[str, Column]]:
        """The blocks; the next one is made while the caller works on the last."""
        blocks = self.blocks(wanted)
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(next, blocks, None)
            while (block := coming.result()) is not None:
                coming = reader.submit(next, blocks, None)
                yield block


def _joined(parts: list[Column]) -> Column:
    """One column of all, after which `parts` is empty."""
    lists = [part for part in parts if isinstance(part, Lists)]
    strings = [part.values if isinstance(part, Lists) else part for part in parts]
    parts.clear()
    if not lists:
        return joined(strings)
    lengths = np.concatenate([[0], *(np.diff(part.offsets) for part in lists)])
    return Lists(np.cumsum(lengths), joined(strings))


def column_of(values: Iterable[object], name: str, where: Callable[[int], str]) -> Column:
    """Cells as Python values: strings, whole numbers, None or NaN; or lists of them."""
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
