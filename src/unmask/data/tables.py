"""Tables as data sets: names in, names out.

Wide: a row per document, its labels in one cell (a list, or names between delimiters), texts in
columns of their own. Long: a row per label of a document (`id, label`, perhaps `value` 0 or 1); a
document without labels has one row with an empty label. Rows stand in the order in which their ids
first come, labels in the order of their names, so that two tables with the same contents in any
order give the same columns. What cells and quotes may hold is said in `unmask._tables`.

Judgements (`pairs`) come with a table: a wide one has columns of labels that somebody rejected or
that do not count, in a long one a value that is neither 0 nor 1 says that the pair is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypedDict

import numpy as np
import scipy.sparse as sp

from unmask import _io, _tables
from unmask._messages import function, setting
from unmask._names import Index, Strings, joined, some, sorted_names
from unmask._tables import tags
from unmask._tables.columns import Lists, column_of
from unmask._tables.roles import LABEL_LISTS, LABELS
from unmask._typing import Bools, Indices, Ints
from unmask.arrays import checks
from unmask.data.dataset import Dataset, Source
from unmask.data.pairs import WORDS, Judgement


class TableOptions(TypedDict, total=False):
    """How a table is read, where it should not be found out; see `read`."""

    text: str | Sequence[str] | None
    id: str | None
    layout: str | None
    delimiter: str | None
    separator: str | None
    encoding: str | None
    nulls: str
    repeated: str
    negative: str | None
    ignored: str | None


def read_table(
    table: Any, form: str | None, labels: str | None, like: Dataset | None, options: TableOptions
) -> Dataset:
    """The data set in a file or in a table in memory."""
    source = _tables.open_table(
        table, form, separator=options.get("separator"), encoding=options.get("encoding")
    )
    several = _several(source, labels)
    layout = options.get("layout") or ("wide" if several else None)
    chosen = _tables.roles(
        source, id=options.get("id"), labels=several[0] if several else labels,
        text=options.get("text"), layout=layout, negative=options.get("negative"),
        ignored=options.get("ignored"),
    )  # fmt: skip
    _refuse_twice(source, chosen, several)
    rules = tags.Rules(
        options.get("delimiter"), options.get("nulls", "refuse"), options.get("repeated", "refuse")
    ).checked()
    if chosen.labels is None and not chosen.texts:
        raise ValueError(
            f"{source.name}: no column is called labels, tags or the like; say which one holds the "
            f"labels with {setting('labels')}, or texts with {setting('text')}. Its columns are "
            f"{some(source.names, len(source.names))}."
        )
    own_names = None if like is None else like.label_names
    if chosen.layout == "long":
        made = _read_long(source, chosen, rules, own_names)
    else:
        made = _read_wide(source, chosen, rules, own_names, several)
    details = {
        "layout": chosen.layout,
        **{k: v for k in ("id", "labels") if (v := getattr(chosen, k)) is not None},
        **({"labels": ",".join(several)} if several else {}),
        **dict(chosen.judged),
        **({"text": ",".join(chosen.texts)} if chosen.texts else {}),
        **({"delimiter": made.delimiter} if made.delimiter else {}),
        **source.details,
    }
    in_memory = source.form == "memory"
    packed = () if in_memory else (_io.compression(source.name),)
    paths = () if in_memory else (source.name,)
    return Dataset(
        None, made.labels, label_names=made.names, ids=made.ids, texts=made.texts,
        judgements=made.judgements,
        source=Source(paths, source.form, packed, details=details),
    )  # fmt: skip


def _several(source: _tables.Source, labels: str | None) -> tuple[str, ...]:
    """The columns of 0 and 1 that are named between commas; none if one column is named."""
    names = () if labels is None or labels in source.names else tuple(labels.split(","))
    return names if len(names) > 1 else ()


def _refuse_twice(source: _tables.Source, chosen: _tables.Roles, several: tuple[str, ...]) -> None:
    """ValueError if columns of 0 and 1 are missing, have another role, or are what is no table."""
    if not several:
        return
    missing = [name for name in several if name not in source.names]
    if missing:
        raise ValueError(
            f"{source.name} has no column {missing[0]!r} (asked for by labels); its columns are "
            f"{some(source.names, 8)}."
        )
    others = {chosen.id, *chosen.texts, *dict(chosen.judged).values()}
    if len(set(several)) < len(several) or others & set(several):
        raise ValueError(f"{source.name}: one column cannot be named twice among {several}.")
    if chosen.layout == "long":
        raise ValueError(f"{source.name}: a long table has one column of labels; got {several}.")


class _Parts(NamedTuple):
    """What a table gives: labels and their names, ids, texts; None where it has none."""

    labels: sp.csr_array | None
    names: tuple[str, ...] | None
    ids: Strings | None
    texts: Strings | None
    delimiter: str | None = None
    judgements: sp.csr_array | None = None


def _read_wide(
    source: _tables.Source,
    roles: _tables.Roles,
    rules: tags.Rules,
    names: tuple[str, ...] | None,
    several: tuple[str, ...] = (),
) -> _Parts:
    coder = tags.Coder(rules, _index_of(None if several else names), source.where)
    coders = {column: tags.Coder(rules, coder.index, source.where) for _, column in roles.judged}
    if roles.labels is not None:
        coders[roles.labels] = coder
    coders |= {column: tags.Coder(rules, Index(), source.where) for column in several[1:]}
    others = [name for name in (roles.id, *roles.texts) if name is not None]
    parts: dict[str, list[_tables.Column]] = {name: [] for name in others}
    for block in source.ahead([*others, *coders]):
        for name, column in block.items():
            coders[name].add(column) if name in coders else parts[name].append(column)
    strings = {name: _strings(parts.pop(name), source, name) for name in list(parts)}
    n = len(next(iter(strings.values()))) if strings else coder.rows
    if n == 0:
        raise ValueError(f"{source.name} has a header but no rows.")
    with ThreadPoolExecutor(1) as other:  # ids are compared while labels are sorted
        ids = None if roles.id is None else other.submit(_ids, strings[roles.id], source)
        matrix, label_names = None, None
        if roles.labels is not None:
            own_name = roles.labels.lower() not in (*LABEL_LISTS, *LABELS)
            alone = own_name and rules.delimiter is None and not roles.judged
            indicators = {name: _indicator(coders[name], name) for name in several}
            if alone and not several:
                only = _indicator(coder, roles.labels, names or ())
                indicators = {} if only is None else {roles.labels: only}
            if indicators:
                matrix, label_names = _of_indicators(indicators, names, source)
            else:
                matrix, label_names = _matrix(coder, names)
        texts = _texts([strings[name] for name in roles.texts]) if roles.texts else None
        keys = None if ids is None else ids.result()
    judged = [
        (Judgement[kind.upper()], _matrix(coders[column], names)[0])
        for kind, column in roles.judged
    ]
    return _Parts(
        matrix,
        label_names,
        keys,
        texts,
        coder.rules.delimiter,
        _judgements(judged, label_names, source),
    )


_NUMBERS = {"1": True, "0": False, "1.0": True, "0.0": False, "true": True, "false": False}
"""How 0 and 1 are written, in small letters."""


def _indicator(coder: tags.Coder, column: str, known: Sequence[str] = ()) -> Bools | None:
    """Where a column of 0 and 1 has 1; None of a column of names.

    0 and 1 are names where they are among the `known` names, or a cell has several. (In a column
    that is called labels, tags or the like they always are.)
    """
    if coder.index.count == len(known):
        return None
    values = [_NUMBERS.get(name.strip().lower()) for name in coder.index.names()[len(known) :]]
    coded = coder.coded()
    counts = np.diff(coded.indptr)
    if None in values or (counts > 1).any() or (coded.codes < len(known)).any():
        return None
    if (counts == 0).any():
        raise ValueError(
            f"{coder.where(int(np.argmin(counts)))}: column {column!r} holds 0 or 1 elsewhere, and "
            f"nothing here; write 0 or 1, or say {setting('delimiter', 'none')} if these are names."
        )
    return np.array(values)[coded.codes - len(known)]


def _of_indicators(
    indicators: Mapping[str, Bools | None], names: tuple[str, ...] | None, source: _tables.Source
) -> tuple[sp.csr_array, tuple[str, ...]]:
    """Columns of 0 and 1 as a matrix; `names` are the columns that come first."""
    index = _index_of(names)
    codes = index.add(Strings.of(indicators))
    label_names, rank = _numbered(index, names)
    columns = []
    for name, own in indicators.items():
        if own is None:
            raise ValueError(
                f"{source.name}: of several columns of labels each holds 0 and 1, but {name!r} "
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
    source: _tables.Source,
) -> sp.csr_array | None:
    """The judgements that columns list; ValueError where two say different things of a pair."""
    if not judged:
        return None
    twice = sp.csr_array(sum(pairs for _, pairs in judged) > 1).tocoo()
    if twice.nnz:
        row, label = int(twice.row[0]), int(twice.col[0])
        shown = label if names is None else names[label]
        raise ValueError(
            f"{source.where(row)}: the label {shown!r:.60} is both negative and ignored; remove it "
            "from one of the two columns."
        )
    return sp.csr_array(sum(int(which) * pairs for which, pairs in judged))


def _index_of(names: tuple[str, ...] | None) -> Index:
    index = Index()
    if names is not None:
        index.add(Strings.of(names))
    return index


def _strings(parts: list[_tables.Column], source: _tables.Source, name: str) -> Strings:
    """A column of single values."""
    strings = [part for part in parts if isinstance(part, Strings)]
    if len(strings) < len(parts):
        raise ValueError(f"{source.name}: column {name!r} holds lists, not single values.")
    parts.clear()
    return joined(strings)


def _ids(column: Strings, source: _tables.Source) -> Strings:
    """The ids of a wide table; ValueError where one is missing or stands twice."""
    _refuse_no_id(column, source)
    again = column.repeated()
    if len(again):
        row = int(again[0])
        raise ValueError(
            f"{source.where(row)}: the id {column[row]!r:.60} stands a second time "
            f"({len(again):,} such rows); if the table has a row per label, say "
            f"{setting('layout', 'long')}."
        )
    return column


def _refuse_no_id(column: Strings, source: _tables.Source) -> None:
    empty = np.flatnonzero(np.diff(column.offsets) == 0)
    if len(empty):
        raise ValueError(
            f"{source.where(int(empty[0]))}: the row has no id; give it one, or leave the column "
            "of ids out."
        )


def _texts(columns: Sequence[Strings]) -> Strings:
    """The texts of each row, a line each."""
    if len(columns) == 1:
        return columns[0]
    return Strings.of("\n".join(filter(None, parts)) for parts in zip(*columns, strict=True))


def _matrix(
    coder: tags.Coder, names: tuple[str, ...] | None
) -> tuple[sp.csr_array, tuple[str, ...]]:
    """Coded labels as a matrix; `names` are the columns that come first."""
    label_names, rank = _numbered(coder.index, names)
    rows = tags.ranked(coder.coded(), rank, label_names, coder.rules, coder.where)
    return _csr(rows.indptr, rows.codes, len(label_names)), label_names


def _numbered(index: Index, names: tuple[str, ...] | None) -> tuple[tuple[str, ...], Indices]:
    """The names in the order of their columns, and the column of each code of the index.

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


def _read_long(
    source: _tables.Source,
    roles: _tables.Roles,
    rules: tags.Rules,
    names: tuple[str, ...] | None,
) -> _Parts:
    if roles.labels is None or roles.id is None:
        raise ValueError(
            f"{source.name}: a long table needs a column of labels; name it with "
            f"{setting('labels')}."
        )
    if roles.score is not None and roles.value is None:
        raise ValueError(
            f"{source.name} has a column of scores ({roles.score!r}), so it holds predictions, not "
            f"labels; give it to {function('predictions.read')}."
        )
    wanted = [roles.id, roles.labels, *([roles.value] if roles.value else [])]
    columns = source.read(wanted)
    keys, cells = columns[roles.id], columns[roles.labels]
    if isinstance(keys, Lists) or isinstance(cells, Lists):
        raise ValueError(f"{source.name}: a long table has one label in a row, not a list.")
    _refuse_no_id(keys, source)
    if not len(keys):
        raise ValueError(f"{source.name} has a header but no rows.")
    values = None if roles.value is None else _values(columns[roles.value], source)
    rows, labels = Index(), _index_of(names)
    row_of = rows.add(keys)
    listed = tags.coded(cells, rules._replace(delimiter="none"), labels, source.where)
    index = labels, names
    kept = None if values is None else values == 1
    matrix, label_names = _pairs(row_of, listed, kept, rows.count, index, rules, source)
    judged = None
    if values is not None and (values == Judgement.IGNORED).any():
        left_out = values == Judgement.IGNORED
        ignored, _ = _pairs(row_of, listed, left_out, rows.count, index, rules, source)
        judged = sp.csr_array(int(Judgement.IGNORED) * ignored)
    return _Parts(matrix, label_names, rows.names(), None, judgements=judged)


def _pairs(
    row_of: Indices,
    listed: tags.Coded,
    kept: Bools | None,
    n: int,
    index: tuple[Index, tuple[str, ...] | None],
    rules: tags.Rules,
    source: _tables.Source,
) -> tuple[sp.csr_array, tuple[str, ...]]:
    """Lines of (row, label) as a matrix."""
    label_names, rank = _numbered(*index)
    line_of = np.repeat(np.arange(len(row_of)), np.diff(listed.indptr))
    if kept is not None:
        chosen = kept[line_of]
        line_of, codes = line_of[chosen], listed.codes[chosen]
    else:
        codes = listed.codes
    rows, columns = row_of[line_of], rank[codes] if len(rank) else codes
    order = np.lexsort((line_of, columns, rows))
    rows, columns, line_of = rows[order], columns[order], line_of[order]
    again = np.flatnonzero((np.diff(rows) == 0) & (np.diff(columns) == 0))
    if len(again) and rules.repeated == "refuse":
        line = int(line_of[again + 1].min())
        entry = int(again[np.argmin(line_of[again + 1])])
        raise ValueError(
            f"{source.where(line)}: the label {label_names[columns[entry]]!r:.60} stands a second "
            f"time for this id; remove one of them, or say {setting('repeated', 'merge')}."
        )
    rows, columns = np.delete(rows, again), np.delete(columns, again)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64)
    return _csr(indptr, columns.astype(np.int32), len(label_names)), label_names


def _values(column: _tables.Column, source: _tables.Source) -> Indices:
    """A column of 0, 1 and what is neither (`Judgement.IGNORED`)."""
    if isinstance(column, Lists):
        raise ValueError(f"{source.name}: values must be 0 or 1, not lists.")
    ignored = [word for word, which in WORDS.items() if which is Judgement.IGNORED and word]
    numbers = {"1": 1, "0": 0, "1.0": 1, "0.0": 0, "true": 1, "false": 0}
    numbers |= dict.fromkeys(ignored, int(Judgement.IGNORED))
    distinct = Index()
    codes = distinct.add(column)
    values = [numbers.get(text.strip().lower(), -1) for text in distinct.names()]
    made = np.array(values, dtype=np.int32)[codes] if values else np.empty(0, np.int32)
    if (made < 0).any():
        row = int(np.argmax(made < 0))
        raise ValueError(
            f"{source.where(row)}: a value must be 0 or 1, or {' or '.join(ignored)} for a pair "
            f"that does not count; got {column[row]!r:.40}."
        )
    return made


def label_matrix(
    rows: Iterable[object], names: Sequence[str] | None = None
) -> tuple[sp.csr_array, tuple[str, ...]]:
    """Lists of names as a matrix of 0 and 1, and the names of its columns.

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
    coder = tags.Coder(tags.Rules(), _index_of(first), where)
    coder.add(column)
    return _matrix(coder, first)


def is_tag_lists(rows: object) -> bool:
    """Whether these are lists of names: lists, tuples or sets in a row, with a string in it."""
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
