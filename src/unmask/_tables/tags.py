"""Cells of labels: a list, or names between delimiters; every distinct name gets a number.

A delimiter is `;`, `|` or `,`: the one that stands in most of the first cells, unless it is given.
A cell that begins with a bracket is a list, as JSON or Python write it. Blanks around a name do not
belong to it; a cell without names is a row without labels. Refused, with file, line and token: an
empty name, a name twice in one row, and a whole cell such as `NaN` or `null`, which some programs
write for "no value" and which might be a name.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from unmask import _io
from unmask._messages import setting
from unmask._names import Index, Strings
from unmask._tables.columns import Column, Lists
from unmask._typing import Indices, Ints
from unmask.arrays import checks

DELIMITERS = (";", "|", ",")
LIST = "list"
"""The delimiter of cells that are lists."""
URIS = "uris"
"""That of cells such as `<http://example.org/1> <http://example.org/2>`, as Annif writes them."""
_URIS = re.compile(r"<[^<>\s]+>(?:\s+<[^<>\s]+>)*")

NULLS = ("nan", "null", "none", "n/a", "na", "<na>", "#n/a", "nat")
"""What programs write for a cell without a value, in small letters."""

_SAMPLE = 10_000
_CHUNK = 1 << 18
_STRING = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|-?\d+)"""
_LISTED = re.compile(rf"[\[({{]\s*(?:{_STRING}\s*(?:,\s*{_STRING}\s*)*,?\s*)?[\])}}]", re.DOTALL)


class Coded(NamedTuple):
    """Rows of codes: those of row i are codes[indptr[i] … indptr[i + 1] − 1]."""

    indptr: Ints
    codes: Indices


class Rules(NamedTuple):
    """How cells are read.

    Parameters
    ----------
    delimiter : str or None
        One character, "list", "uris", "none" (a cell is one name), or None: find out.
    nulls : {"refuse", "empty", "name"}
        What a cell such as NaN means.
    repeated : {"refuse", "merge"}
        What a name that stands twice in a row means.
    """

    delimiter: str | None = None
    nulls: str = "refuse"
    repeated: str = "refuse"

    def checked(self) -> Rules:
        """Itself; ValueError if a choice is unknown."""
        checks.one_of(self.nulls, ("refuse", "empty", "name"), "nulls")
        checks.one_of(self.repeated, ("refuse", "merge"), "repeated")
        if self.delimiter not in (None, LIST, URIS, "none") and len(self.delimiter.encode()) != 1:
            raise ValueError(
                f"a delimiter of labels is one ASCII character, 'list', 'uris' or 'none'; got "
                f"{self.delimiter!r}."
            )
        return self


Where = Callable[[int], str]
"""The place of a row, as messages name it."""


def sniffed_delimiter(cells: Strings) -> str:
    """The delimiter that stands in most of the first cells; "none" if none does.

    >>> sniffed_delimiter(Strings.of(["law; art", "tax, public; law"]))
    ';'
    """
    sample = [text.strip() for text in cells[:_SAMPLE] if text.strip()]
    if sample and all(text[0] in "[" and text[-1] in "]" for text in sample):
        return LIST
    if sample and all(_URIS.fullmatch(text) for text in sample):
        return URIS
    often = {mark: sum(mark in text for text in sample) for mark in DELIMITERS}
    best = max(DELIMITERS, key=lambda mark: often[mark])  # the first of equals
    return best if often[best] else "none"


class Coder:
    """Cells to numbers, block by block; `index` gets the names.

    Parameters
    ----------
    rules : Rules
    index : Index
        To which new names are added.
    where : function of a row number
        The place of a row, for messages.
    """

    def __init__(self, rules: Rules, index: Index, where: Where) -> None:
        self.rules, self.index, self.where = rules, index, where
        self.rows = 0
        self._counts: list[Ints] = [np.zeros(1, dtype=np.int64)]
        self._codes: list[Indices] = [np.empty(0, dtype=np.int32)]

    def add(self, column: Column) -> None:
        """The next cells; the first decide on the delimiter."""
        first = self.rows

        def where(row: int) -> str:
            return self.where(first + row)

        if isinstance(column, Lists):
            block = _coded_lists(column, self.index, where)
        else:
            if self.rules.delimiter is None:
                self.rules = self.rules._replace(delimiter=sniffed_delimiter(column))
            block = _coded_strings(column, self.rules, self.index, where)
        self.rows += len(block.indptr) - 1
        self._counts.append(np.diff(block.indptr))
        self._codes.append(block.codes)

    def coded(self) -> Coded:
        """All rows."""
        indptr = np.cumsum(np.concatenate(self._counts))
        return Coded(indptr, np.concatenate(self._codes))


def coded(column: Column, rules: Rules, index: Index, where: Where) -> Coded:
    """The cells of a column as numbers of `index`, to which new names are added."""
    coder = Coder(rules, index, where)
    coder.add(column)
    return coder.coded()


def _coded_strings(column: Strings, rules: Rules, index: Index, where: Where) -> Coded:
    cells = _without_nulls(column, rules, where)
    if rules.delimiter in (LIST, URIS):
        items = _items if rules.delimiter == LIST else _uris
        return _coded_lists(_parsed(cells, items, where), index, where)
    return _coded_cells(cells, rules.delimiter or "none", index, where)


def _coded_lists(column: Lists, index: Index, where: Where) -> Coded:
    lengths = np.diff(column.values.offsets)
    if (lengths == 0).any():
        entry = int(np.argmax(lengths == 0))
        row = int(np.searchsorted(column.offsets, entry, side="right")) - 1
        raise ValueError(f"{where(row)}: an empty name among the labels; leave it out.")
    return Coded(column.offsets, index.add(column.values))


def _coded_cells(cells: Strings, delimiter: str, index: Index, where: Where) -> Coded:
    from unmask._kernels import tables as kernels

    byte = kernels.NO_DELIMITER if delimiter == "none" else ord(delimiter)
    counts = np.empty(len(cells), dtype=np.int64)
    parts: list[Indices] = [np.empty(0, dtype=np.int32)]
    for first, last in _chunks(cells.offsets):
        start, stop = int(cells.offsets[first]), int(cells.offsets[last])
        most = int(np.count_nonzero(cells.data[start:stop] == byte)) + last - first
        spans = np.empty((most, 2), dtype=np.int64)
        code, cell, total = kernels.pieces(
            cells.data, cells.offsets, first, last, byte, spans, counts[first:last]
        )
        if code != kernels.FINE:
            raise ValueError(
                f"{where(cell)}: an empty name among the labels {cells[cell]!r:.60}, which are "
                f"separated by {delimiter!r}; remove it, or name the delimiter with "
                f"{setting('delimiter')}."
            )
        parts.append(index.add_spans(cells.data, spans[:total]))
    indptr = np.zeros(len(cells) + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    return Coded(indptr, np.concatenate(parts))


def _chunks(offsets: Ints) -> Iterator[tuple[int, int]]:
    """Ranges of cells with some 2^18 cells or bytes each."""
    cost = np.arange(len(offsets), dtype=np.int64) + offsets - offsets[0]
    cuts = np.unique(np.r_[np.searchsorted(cost, np.arange(0, cost[-1], 8 * _CHUNK)),
                           len(offsets) - 1])  # fmt: skip
    yield from zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)


def _without_nulls(cells: Strings, rules: Rules, where: Where) -> Strings:
    """The cells, those that say "no value" emptied or refused."""
    if rules.nulls == "name":
        return cells
    lengths = np.diff(cells.offsets)
    short = np.flatnonzero((lengths > 1) & (lengths <= 6))
    texts = cells.take(short) if len(short) < len(cells) else cells
    distinct = Index()
    codes = distinct.add(texts)
    means_null = np.array([name.strip().lower() in NULLS for name in distinct.names()], dtype=bool)
    rows = short[means_null[codes]] if len(codes) else short
    if not len(rows):
        return cells
    if rules.nulls == "refuse":
        row = int(rows[0])
        raise ValueError(
            f"{where(row)}: the labels are {cells[row]!r}, which may mean 'no value'; leave the "
            f"cell empty, or say {setting('nulls', 'empty')} or {setting('nulls', 'name')}."
        )
    emptied = set(rows.tolist())
    return Strings.of(["" if row in emptied else text for row, text in enumerate(cells)])


def _parsed(cells: Strings, items: Callable[[str, int, Where], list[str]], where: Where) -> Lists:
    """Cells that are written as lists."""
    texts: list[str] = []
    ends = np.zeros(len(cells) + 1, dtype=np.int64)
    for row, cell in enumerate(cells):
        texts += items(cell.strip(), row, where) if cell.strip() else []
        ends[row + 1] = len(texts)
    return Lists(ends, Strings.of(texts))


def _items(cell: str, row: int, where: Where) -> list[str]:
    try:
        listed = json.loads(cell)
    except (ValueError, RecursionError):
        listed = _literal(cell)
    if not isinstance(listed, list | tuple | set) or not all(
        isinstance(each, str | int) and not isinstance(each, bool) for each in listed
    ):
        raise ValueError(
            f"{where(row)}: expected a list of names, such as ['a', 'b'], got "
            f"{_io.quoted(cell.encode()[:60])}."
        )
    return [str(each) for each in listed]


def _uris(cell: str, row: int, where: Where) -> list[str]:
    if not _URIS.fullmatch(cell):
        raise ValueError(
            f"{where(row)}: expected <URI> <URI> …, got {_io.quoted(cell.encode()[:60])}."
        )
    return [uri.strip("<>") for uri in cell.split()]


def _literal(cell: str) -> object:
    """A list as Python writes it; None if it is none."""
    if not _LISTED.fullmatch(cell):
        return None
    try:
        return ast.literal_eval(cell)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def ranked(rows: Coded, rank: Indices, names: tuple[str, ...], rules: Rules, where: Where) -> Coded:
    """The rows with each code replaced by its rank, in rising order and without repetition."""
    from unmask._kernels import in_chunks, row_bounds
    from unmask._kernels import tables as kernels

    indptr, codes = rows.indptr, rank[rows.codes] if len(rank) else rows.codes
    repetitions = in_chunks(
        row_bounds(indptr), lambda start, stop: int(kernels.arrange(codes, indptr, start, stop))
    )
    repetition = next((row for row in repetitions if row >= 0), -1)
    if repetition < 0:
        return Coded(indptr, codes)
    if rules.repeated == "refuse":
        own = codes[indptr[repetition] : indptr[repetition + 1]]
        twice = int(own[:-1][np.diff(own) == 0][0])
        raise ValueError(
            f"{where(repetition)}: the label {names[twice]!r:.60} stands twice in one row; remove "
            f"one of them, or say {setting('repeated', 'merge')}."
        )
    kept = np.ones(len(codes), dtype=bool)
    kept[1:] = codes[1:] != codes[:-1]
    kept[indptr[:-1][np.diff(indptr) > 0]] = True
    kept_before = np.r_[0, np.cumsum(kept)]
    return Coded(kept_before[indptr], codes[kept])
