"""Tables as data sets: names in, names out.

Wide: a row per document, its labels in one cell (a list, or names between delimiters), texts in
columns of their own. Long: a row per label of a document (`id, label`, perhaps `value` 0 or 1); a
document without labels has one row with an empty label. Rows stand in the order in which their ids
first come, labels in the order of their names, so that two tables with the same contents in any
order give the same columns. What fields and quotes may hold is said in `unmask.files.delimited`.

A delimiter of labels is `;`, `|` or `,`: the one that stands in most of the first cells, unless it
is given. A cell that begins with a bracket is a list, as JSON or Python write it. Blanks around a
name do not belong to it; a cell without names is a row without labels. Every distinct name gets a
number. Refused, with file, line and token: an empty name, a name twice in one row, and a whole cell
such as `NaN` or `null`, which some programs write for "no value" and which might be a name.

Judgements come with a table: a wide one has columns of labels that somebody rejected or that do not
count, in a long one a value that is neither 0 nor 1 says that the pair is ignored.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from unmask._messages import function, named_options, setting
from unmask._names import Index, Strings, joined, some, sorted_names
from unmask._typing import Bools, Indices, Ints
from unmask.arrays import checks
from unmask.data.dataset import WORDS, Dataset, Judgement, Source
from unmask.files.streams import compression, quoted
from unmask.files.tables import (
    LABEL_LISTS,
    LABELS,
    Column,
    Lists,
    Roles,
    column_of,
    open_table,
    roles,
)
from unmask.files.tables import Source as Table


@dataclass(frozen=True)
class TableOptions:
    """The options of tables; by default everything is found out. See `read`."""

    text: str | Sequence[str] | None = None
    id: str | None = None
    layout: str | None = None
    delimiter: str | None = None
    separator: str | None = None
    encoding: str | None = None
    nulls: str = "refuse"
    repeated: str = "refuse"
    negative: str | None = None
    ignored: str | None = None

    def __post_init__(self) -> None:
        """Refuse a choice that is unknown."""
        checks.one_of(self.nulls, ("refuse", "empty", "name"), "nulls")
        checks.one_of(self.repeated, ("refuse", "merge"), "repeated")
        if self.delimiter not in (None, LIST, URIS, "none") and len(self.delimiter.encode()) != 1:
            raise ValueError(
                f"a delimiter of labels is one ASCII character, 'list', 'uris' or 'none'; got "
                f"{self.delimiter!r}."
            )

    @property
    def chosen(self) -> list[str]:
        """The names of the options that are not as by default."""
        return [each.name for each in fields(self) if getattr(self, each.name) != each.default]


def read_table(
    table: Any, form: str | None, labels: str | None, like: Dataset | None, options: TableOptions
) -> Dataset:
    """Read the data set in a file or in a table in memory."""
    source = open_table(table, form, separator=options.separator, encoding=options.encoding)
    named = () if labels is None or labels in source.names else tuple(labels.split(","))
    several = named if len(named) > 1 else ()  # columns of 0 and 1
    chosen = roles(
        source,
        id=options.id,
        labels=several[0] if several else labels,
        text=options.text,
        layout=options.layout or ("wide" if several else None),
        negative=options.negative,
        ignored=options.ignored,
    )
    if several:
        _refuse_columns(source, chosen, several)
    if chosen.labels is None and not chosen.texts:
        raise ValueError(
            f"{source.name}: no column is called labels, tags or the like; say which one holds the "
            f"labels with {setting('labels')}, or texts with {setting('text')}. Its columns are "
            f"{some(source.names, len(source.names))}."
        )
    names = None if like is None else like.label_names
    if chosen.layout == "long":
        return _read_long(source, chosen, options, names)
    return _read_wide(source, chosen, options, names, several)


def _refuse_columns(table: Table, chosen: Roles, several: tuple[str, ...]) -> None:
    """Refuse columns of 0 and 1 that are missing or have another role, and those of long tables."""
    missing = [name for name in several if name not in table.names]
    if missing:
        raise ValueError(
            f"{table.name} has no column {missing[0]!r} (asked for by labels); its columns are "
            f"{some(table.names, 8)}."
        )
    others = {chosen.id, *chosen.texts, *dict(chosen.judged).values()}
    if len(set(several)) < len(several) or others & set(several):
        raise ValueError(f"{table.name}: one column cannot be named twice among {several}.")
    if chosen.layout == "long":
        raise ValueError(f"{table.name}: a long table has one column of labels; got {several}.")


def _source_of(
    table: Table, chosen: Roles, several: tuple[str, ...] = (), delimiter: str | None = None
) -> Source:
    """Return how a table was read; its own details are complete when it has been read."""
    details = {
        "layout": chosen.layout,
        "id": chosen.id,
        "labels": ",".join(several) or chosen.labels,
        **dict(chosen.judged),
        "text": ",".join(chosen.texts) or None,
        "delimiter": delimiter,
        **table.details,
    }
    stated = {name: value for name, value in details.items() if value is not None}
    if table.form == "memory":
        return Source((), table.form, (), details=stated)
    return Source((table.name,), table.form, (compression(table.name),), details=stated)


def _read_wide(
    table: Table,
    chosen: Roles,
    options: TableOptions,
    names: tuple[str, ...] | None,
    several: tuple[str, ...],
) -> Dataset:
    coder = Coder(options, _index_of(None if several else names), table.where)
    coders = {column: Coder(options, coder.index, table.where) for _, column in chosen.judged}
    if chosen.labels is not None:
        coders[chosen.labels] = coder
    coders |= {column: Coder(options, Index(), table.where) for column in several[1:]}
    others = [name for name in (chosen.id, *chosen.texts) if name is not None]
    parts: dict[str, list[Strings]] = {name: [] for name in others}
    for block in table.ahead([*others, *coders]):
        for name, column in block.items():
            if name in coders:
                coders[name].add(column)
            elif isinstance(column, Lists):
                raise ValueError(f"{table.name}: column {name!r} holds lists, not single values.")
            else:
                parts[name].append(column)
    strings = {name: joined(parts.pop(name)) for name in others}
    n = len(next(iter(strings.values()))) if strings else coder.rows
    if n == 0:
        raise ValueError(f"{table.name} has a header but no rows.")
    with ThreadPoolExecutor(1) as other:  # ids are compared while labels are sorted
        ids = None if chosen.id is None else other.submit(_ids, strings[chosen.id], table)
        matrix, label_names = None, None
        if chosen.labels is not None:
            own_name = chosen.labels.lower() not in (*LABEL_LISTS, *LABELS)
            alone = own_name and options.delimiter is None and not chosen.judged
            indicators = {name: _indicator(coders[name], name) for name in several}
            if alone and not several:
                only = _indicator(coder, chosen.labels, names or ())
                indicators = {} if only is None else {chosen.labels: only}
            if indicators:
                matrix, label_names = _of_indicators(indicators, names, table)
            else:
                matrix, label_names = coder.matrix(names)
        texts = [strings[name] for name in chosen.texts]
        joint = texts[0] if len(texts) == 1 else None
        if len(texts) > 1:
            lines = zip(*texts, strict=True)
            joint = Strings.of("\n".join(filter(None, line)) for line in lines)
        keys = None if ids is None else ids.result()
    judged = [
        (Judgement[kind.upper()], coders[column].matrix(names)[0]) for kind, column in chosen.judged
    ]
    return Dataset(
        None,
        matrix,
        label_names=label_names,
        ids=keys,
        texts=joint,
        judgements=_judgements(judged, label_names, table),
        source=_source_of(table, chosen, several, coder.delimiter),
    )


_TRUTH = {"1": 1, "0": 0, "1.0": 1, "0.0": 0, "true": 1, "false": 0}
"""The ways to write 0 and 1, in small letters."""


def _indicator(coder: Coder, column: str, names: Sequence[str] = ()) -> Bools | None:
    """Return where a column of 0 and 1 has 1; None for a column of names.

    0 and 1 are names where they are among `names`, which come first, or a cell has several. (In a
    column that is called labels, tags or the like they always are.)
    """
    if coder.index.count == len(names):
        return None
    values = [_TRUTH.get(name.strip().lower()) for name in coder.index.names()[len(names) :]]
    coded = coder.coded()
    counts = np.diff(coded.indptr)
    if None in values or (counts > 1).any() or (coded.codes < len(names)).any():
        return None
    if (counts == 0).any():
        raise ValueError(
            f"{coder.where(int(np.argmin(counts)))}: column {column!r} holds 0 or 1 elsewhere, and "
            f"nothing here; write 0 or 1, or say {setting('delimiter', 'none')} if these are names."
        )
    return np.array(values, dtype=bool)[coded.codes - len(names)]


def _of_indicators(
    indicators: Mapping[str, Bools | None],
    names: tuple[str, ...] | None,
    table: Table,
) -> tuple[sp.csr_array, tuple[str, ...]]:
    """Return columns of 0 and 1 as a matrix; `names` are the columns that come first."""
    index = _index_of(names)
    codes = index.add(Strings.of(indicators))
    label_names, rank = _numbered(index, names)
    columns = []
    for name, own in indicators.items():
        if own is None:
            raise ValueError(
                f"{table.name}: of several columns of labels each holds 0 and 1, but {name!r} "
                "holds something else; leave it out, or name the one column that holds names."
            )
        columns.append(own)
    row, column = np.nonzero(np.column_stack(columns))
    place = row, rank[codes][column]
    shape = len(columns[0]), len(label_names)
    return sp.csr_array((np.ones(len(row), np.float32), place), shape=shape), label_names


def _judgements(
    judged: Sequence[tuple[Judgement, sp.csr_array]],
    names: tuple[str, ...] | None,
    table: Table,
) -> sp.csr_array | None:
    """Return the judgements that columns list; refuse two that contradict each other."""
    if not judged:
        return None
    twice = sp.csr_array(sum(pairs for _, pairs in judged) > 1).tocoo()
    if twice.nnz:
        row, label = int(twice.row[0]), int(twice.col[0])
        shown = label if names is None else names[label]
        raise ValueError(
            f"{table.where(row)}: the label {shown!r:.60} is both negative and ignored; remove it "
            "from one of the two columns."
        )
    return sp.csr_array(sum(int(which) * pairs for which, pairs in judged))


def _ids(column: Strings, table: Table) -> Strings:
    """Return the ids of a wide table; refuse one that is missing or stands twice."""
    _refuse_no_id(column, table)
    again = column.repeated()
    if len(again):
        row = int(again[0])
        raise ValueError(
            f"{table.where(row)}: the id {column[row]!r:.60} stands a second time "
            f"({len(again):,} such rows); if the table has a row per label, say "
            f"{setting('layout', 'long')}."
        )
    return column


def _refuse_no_id(column: Strings, table: Table) -> None:
    empty = np.flatnonzero(np.diff(column.offsets) == 0)
    if len(empty):
        raise ValueError(
            f"{table.where(int(empty[0]))}: the row has no id; give it one, or leave the column "
            "of ids out."
        )


def _read_long(
    table: Table, chosen: Roles, options: TableOptions, names: tuple[str, ...] | None
) -> Dataset:
    if chosen.labels is None or chosen.id is None:
        raise ValueError(
            f"{table.name}: a long table needs a column of labels; name it with "
            f"{setting('labels')}."
        )
    if chosen.score is not None and chosen.value is None:
        raise ValueError(
            f"{table.name} has a column of scores ({chosen.score!r}), so it holds predictions, not "
            f"labels; give it to {function('predictions.read')}."
        )
    wanted = [chosen.id, chosen.labels, *([chosen.value] if chosen.value else [])]
    columns = table.read(wanted)
    keys, cells = columns[chosen.id], columns[chosen.labels]
    if isinstance(keys, Lists) or isinstance(cells, Lists):
        raise ValueError(f"{table.name}: a long table has one label in a row, not a list.")
    _refuse_no_id(keys, table)
    if not len(keys):
        raise ValueError(f"{table.name} has a header but no rows.")
    values = None if chosen.value is None else _values(columns[chosen.value], table)
    rows = Index()
    row_of = rows.add(keys)
    coder = Coder(replace(options, delimiter="none"), _index_of(names), table.where)
    coder.add(cells)
    listed = coder.coded()
    label_names, rank = _numbered(coder.index, names)

    def matrix(kept: Bools | None) -> sp.csr_array:
        """Return lines of (row, label) as a matrix."""
        line_of, codes = np.repeat(np.arange(len(row_of)), np.diff(listed.indptr)), listed.codes
        if kept is not None:
            line_of, codes = line_of[kept[line_of]], codes[kept[line_of]]
        own, columns = row_of[line_of], rank[codes] if len(rank) else codes
        order = np.lexsort((line_of, columns, own))
        own, columns, line_of = own[order], columns[order], line_of[order]
        again = np.flatnonzero((np.diff(own) == 0) & (np.diff(columns) == 0))
        if len(again) and options.repeated == "refuse":
            line = int(line_of[again + 1].min())
            entry = int(again[np.argmin(line_of[again + 1])])
            raise ValueError(
                f"{table.where(line)}: the label {label_names[columns[entry]]!r:.60} stands a "
                f"second time for this id; remove one of them, or say "
                f"{setting('repeated', 'merge')}."
            )
        own, columns = np.delete(own, again), np.delete(columns, again)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=rows.count))])
        return _csr(indptr.astype(np.int64), columns.astype(np.int32), len(label_names))

    judgements, left_out = None, None if values is None else values == Judgement.IGNORED
    labels = matrix(None if values is None else values == 1)
    if left_out is not None and left_out.any():
        judgements = sp.csr_array(int(Judgement.IGNORED) * matrix(left_out))
    return Dataset(
        None,
        labels,
        label_names=label_names,
        ids=rows.names(),
        judgements=judgements,
        source=_source_of(table, chosen),
    )


def _values(column: Column, table: Table) -> Indices:
    """Return a column of 0, 1 and what is neither (`Judgement.IGNORED`)."""
    if isinstance(column, Lists):
        raise ValueError(f"{table.name}: values must be 0 or 1, not lists.")
    ignored = [word for word, which in WORDS.items() if which is Judgement.IGNORED and word]
    numbers = _TRUTH | dict.fromkeys(ignored, int(Judgement.IGNORED))
    distinct = Index()
    codes = distinct.add(column)
    values = [numbers.get(text.strip().lower(), -1) for text in distinct.names()]
    made = np.array(values, dtype=np.int32)[codes] if values else np.empty(0, np.int32)
    if (made < 0).any():
        row = int(np.argmax(made < 0))
        raise ValueError(
            f"{table.where(row)}: a value must be 0 or 1, or {' or '.join(ignored)} for a pair "
            f"that does not count; got {column[row]!r:.40}."
        )
    return made


@named_options
def label_matrix(
    rows: Iterable[object], names: Sequence[str] | None = None
) -> tuple[sp.csr_array, tuple[str, ...]]:
    """Return lists of names as a matrix of 0 and 1, and the names of its columns.

    Parameters
    ----------
    rows : iterable of n lists, tuples or sets of names
        A name is text or a whole number; a string instead of a list is one name. None is a row
        without labels.
    names : sequence of str, optional
        The names of the first columns; others follow in the order of their characters. By default
        all are in that order.

    Returns
    -------
    labels : csr_array of shape (n, L), float32
    names : tuple of L str

    Raises
    ------
    ValueError
        If a name is empty or stands twice in a row, or is neither text nor a whole number.

    Examples
    --------
    >>> labels, names = label_matrix([["physics", "optics"], {"law"}, []])
    >>> names
    ('law', 'optics', 'physics')
    >>> labels.toarray()
    array([[0., 1., 1.], [1., 0., 0.], [0., 0., 0.]], dtype=float32)
    """

    def where(row: int) -> str:
        return f"row {row}"

    cells = [[cell] if isinstance(cell, str) else cell for cell in rows]
    column = column_of([[] if cell is None else cell for cell in cells], "labels", where)
    if isinstance(column, Strings):
        if len(column):
            raise ValueError(f"{where(0)}: expected a list of names, got {cells[0]!r:.60}.")
        column = Lists(np.zeros(1, dtype=np.int64), column)
    first = None if names is None else tuple(names)
    coder = Coder(TableOptions(), _index_of(first), where)
    coder.add(column)
    return coder.matrix(first)


def is_tag_lists(rows: object) -> bool:
    """Return whether these are lists of names: lists, tuples or sets with a string in one."""
    if isinstance(rows, np.ndarray):
        return rows.dtype == object and rows.ndim == 1 and is_tag_lists(rows.tolist())
    if not isinstance(rows, list | tuple) or not rows:
        return False
    cells = [cell for cell in rows if cell is not None]
    if not all(isinstance(cell, list | tuple | set | frozenset) for cell in cells):
        return False
    return any(isinstance(cell, set | frozenset) for cell in cells) or any(
        isinstance(name, str) for cell in cells for name in cell
    )


DELIMITERS = (";", "|", ",")
LIST = "list"
"""The delimiter of cells that are lists."""
URIS = "uris"
"""That of cells such as `<http://example.org/1> <http://example.org/2>`, as Annif writes them."""
_URIS = re.compile(r"<[^<>\s]+>(?:\s+<[^<>\s]+>)*")

NULLS = ("nan", "null", "none", "n/a", "na", "<na>", "#n/a", "nat")
"""Cells that programs write for "no value", in small letters."""

_SAMPLE = 10_000
_CHUNK = 1 << 18
_STRING = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|-?\d+)"""
_LISTED = re.compile(rf"[\[({{]\s*(?:{_STRING}\s*(?:,\s*{_STRING}\s*)*,?\s*)?[\])}}]", re.DOTALL)


class Coded(NamedTuple):
    """Rows of codes: those of row i are codes[indptr[i] … indptr[i + 1] − 1]."""

    indptr: Ints
    codes: Indices


Where = Callable[[int], str]
"""The place of a row, as messages name it."""


class Coder:
    """Numbers for the names in cells, block by block.

    Parameters
    ----------
    options : TableOptions
        Of which delimiter, nulls and repeated are used.
    index : Index
        To which new names are added.
    where : function of a row number
        The place of a row, for messages.
    """

    def __init__(self, options: TableOptions, index: Index, where: Where) -> None:
        """Start without rows."""
        self.options, self.index, self.where = options, index, where
        self.delimiter, self.rows = options.delimiter, 0
        self._counts: list[Ints] = [np.zeros(1, dtype=np.int64)]
        self._codes: list[Indices] = [np.empty(0, dtype=np.int32)]

    def add(self, column: Column) -> None:
        """Add the next cells; the first decide on the delimiter."""
        first = self.rows

        def where(row: int) -> str:
            return self.where(first + row)

        if isinstance(column, Strings):
            if self.delimiter is None:
                self.delimiter = sniffed_delimiter(column)
            cells = _without_nulls(column, self.options.nulls, where)
            if self.delimiter in (LIST, URIS):
                column = _lists(cells, _items if self.delimiter == LIST else _uris, where)
            else:
                block = _coded_cells(cells, self.delimiter, self.index, where)
        if isinstance(column, Lists):
            empty = np.flatnonzero(np.diff(column.values.offsets) == 0)
            if len(empty):
                row = int(np.searchsorted(column.offsets, empty[0], side="right")) - 1
                raise ValueError(f"{where(row)}: an empty name among the labels; leave it out.")
            block = Coded(column.offsets, self.index.add(column.values))
        self.rows += len(block.indptr) - 1
        self._counts.append(np.diff(block.indptr))
        self._codes.append(block.codes)

    def coded(self) -> Coded:
        """Return all rows."""
        return Coded(np.cumsum(np.concatenate(self._counts)), np.concatenate(self._codes))

    def matrix(self, names: tuple[str, ...] | None) -> tuple[sp.csr_array, tuple[str, ...]]:
        """Return a matrix of 0 and 1, and its column names, of which `names` come first."""
        from unmask._kernels import in_chunks, row_bounds
        from unmask._kernels import tables as kernels

        label_names, rank = _numbered(self.index, names)
        indptr, codes = self.coded()
        codes = rank[codes] if len(rank) else codes
        repetitions = in_chunks(
            row_bounds(indptr), lambda start, stop: int(kernels.arrange(codes, indptr, start, stop))
        )
        repetition = next((row for row in repetitions if row >= 0), -1)
        if repetition >= 0:
            if self.options.repeated == "refuse":
                own = codes[indptr[repetition] : indptr[repetition + 1]]
                twice = label_names[own[:-1][np.diff(own) == 0][0]]
                raise ValueError(
                    f"{self.where(repetition)}: the label {twice!r:.60} stands twice in one row; "
                    f"remove one of them, or say {setting('repeated', 'merge')}."
                )
            kept = np.ones(len(codes), dtype=bool)
            kept[1:] = codes[1:] != codes[:-1]
            kept[indptr[:-1][np.diff(indptr) > 0]] = True
            indptr, codes = np.r_[0, np.cumsum(kept)][indptr], codes[kept]
        return _csr(indptr, codes, len(label_names)), label_names


def _numbered(index: Index, names: tuple[str, ...] | None) -> tuple[tuple[str, ...], Indices]:
    """Return the names in the order of their columns, and the column of each code.

    Without `names` they stand by their characters; with them, those stand first and the rest
    follow by their characters.
    """
    if names is None:
        return sorted_names(index)
    new = list(index.names()[len(names) :])
    order = sorted(range(len(new)), key=new.__getitem__)
    rank = np.arange(index.count, dtype=np.int32)
    rank[len(names) + np.array(order, dtype=np.int64)] = np.arange(
        len(names), index.count, dtype=np.int32
    )
    return (*names, *(new[i] for i in order)), rank


def _csr(indptr: Ints, codes: Indices, n_labels: int) -> sp.csr_array:
    index = checks.index_type(n_labels, len(codes))
    ones = np.ones(len(codes), dtype=np.float32)
    arrays = ones, codes.astype(index, copy=False), indptr.astype(index, copy=False)
    return sp.csr_array(arrays, shape=(len(indptr) - 1, n_labels))


def _index_of(names: tuple[str, ...] | None) -> Index:
    index = Index()
    if names is not None:
        index.add(Strings.of(names))
    return index


def sniffed_delimiter(cells: Strings) -> str:
    """Return the delimiter that stands in most of the first cells; "none" if none does.

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


def _coded_cells(cells: Strings, delimiter: str, index: Index, where: Where) -> Coded:
    from unmask._kernels import tables as kernels

    byte = kernels.NO_DELIMITER if delimiter == "none" else ord(delimiter)
    counts = np.empty(len(cells), dtype=np.int64)
    parts: list[Indices] = [np.empty(0, dtype=np.int32)]
    cost = np.arange(len(cells) + 1, dtype=np.int64) + cells.offsets - cells.offsets[0]
    cuts = np.searchsorted(cost, np.arange(0, cost[-1], 8 * _CHUNK))
    for first, last in pairwise(np.unique(np.r_[cuts, len(cells)]).tolist()):
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
    return Coded(np.r_[0, np.cumsum(counts)], np.concatenate(parts))


def _without_nulls(cells: Strings, nulls: str, where: Where) -> Strings:
    """Return the cells; empty or refuse those that say "no value"."""
    if nulls == "name":
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
    if nulls == "refuse":
        row = int(rows[0])
        raise ValueError(
            f"{where(row)}: the labels are {cells[row]!r}, which may mean 'no value'; leave the "
            f"cell empty, or say {setting('nulls', 'empty')} or {setting('nulls', 'name')}."
        )
    emptied = set(rows.tolist())
    return Strings.of(["" if row in emptied else text for row, text in enumerate(cells)])


def _lists(cells: Strings, items: Callable[[str, int, Where], list[str]], where: Where) -> Lists:
    """Return cells that are written as lists."""
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
            f"{quoted(cell.encode()[:60])}."
        )
    return [str(each) for each in listed]


def _uris(cell: str, row: int, where: Where) -> list[str]:
    if not _URIS.fullmatch(cell):
        raise ValueError(f"{where(row)}: expected <URI> <URI> …, got {quoted(cell.encode()[:60])}.")
    return [uri.strip("<>") for uri in cell.split()]


def _literal(cell: str) -> object:
    """Read a list as Python writes it; None if it is none."""
    if not _LISTED.fullmatch(cell):
        return None
    try:
        return ast.literal_eval(cell)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
