"""Predictions, in memory (`TopK`, `LabelSets`) and in files: text, score matrices, long tables.

A prediction file is text, one line per row, in any order within the line:

    2 3                 n rows, at most k = 3 labels each
    7:0.9 2:0.85 0:0.1  label:score, separated by spaces or tabs
    4:1.5               fewer than k are allowed

The second number may instead be the number of label columns: then the file is a sparse score
matrix, of which the stored entries are the predictions. A scipy `.npz` file holds the same, a
`.npy` file a dense score matrix.

A table has a line per prediction, `id, label, score`, in any order: rows and labels by name. A row
without predictions has one line with an empty label. Without a header, tab-separated lines are
`target term score` (as CAFA's evaluators read them) and lines of six words a TREC run.

All may be compressed by gzip or zstd, which is recognised by content. A label that stands twice in
a row is refused: no rule for it would be right for every system.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from unmask._messages import function, named_options, setting
from unmask._names import Index, Strings, sorted_names
from unmask._typing import PathLike, Singles
from unmask.arrays.top import LabelSets, TopK, best_of_rows
from unmask.files import archive, delimited, tables, text
from unmask.files.streams import quoted
from unmask.files.tables import Lists, Source

__all__ = ["LabelSets", "TopK", "read", "write"]

_TREC = re.compile(r"\S+\s+Q0\s+\S+\s+\d+\s+[-+.\deE]+\s+\S+\s*")
_CAFA = re.compile(r"\S+\t\S+\t[-+.\deE]+\s*")
_ROW = "row"
"""The column of a table of rows without ids: their numbers, counted from 0."""


@named_options
def read(
    path: Any,
    *,
    k: int | None = None,
    id: str | None = None,
    label: str | None = None,
    score: str | None = None,
    format: str | None = None,
) -> TopK:
    """Read predictions from a file (see the top of this module), or from a table in memory.

    Parameters
    ----------
    path : str, path or table
        Text, `.npz`, `.npy` or a long table, plain or compressed; or a table in memory.
    k : int, optional
        The best k of every row. By default the k of the header if that is what its second number
        must be (some label is not below it), else the length of the longest row.
    id, label, score : str, optional
        The columns of a table, where they are not called so.
    format : {"csv", "tsv", "jsonl", "json", "parquet", "trec", "cafa"}, optional
        Of a table; by default found from the content.

    Returns
    -------
    TopK

    Raises
    ------
    ValueError
        If the file holds no predictions; the message names file, line and token.

    Examples
    --------
    >>> import tempfile
    >>> name = tempfile.mkdtemp() + "/predictions.txt"
    >>> _ = Path(name).write_text("2 2\\n0:0.5 7:0.9\\n3:1e-3\\n")
    >>> read(name).labels
    array([[ 7, 0], [ 3, -1]], dtype=int32)
    """
    table = _open_long(path, format)
    if table is not None:
        return _read_long(table, k, id, label, score)
    of_file: int
    if archive.recognised(path):
        scores = archive.load(path)
        if isinstance(scores, dict):
            raise ValueError(
                f"{path} holds a data set, not predictions; give it to {function('data.read')}."
            )
        of_file = max(1, int(np.diff(scores.indptr).max(initial=1)))
    elif archive.is_array(path):
        scores = archive.load_array(path)
        of_file = max(1, scores.shape[1])
    else:
        scores, of_file = _read_text(path)
    try:
        return TopK.from_scores(scores, of_file if k is None else k)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _read_text(path: PathLike) -> tuple[sp.csr_array, int]:
    """Return the file's scores and its k."""
    from unmask._kernels.text import PAIRS

    opened = text.open_text(path)
    if len(opened.header) != 2:
        line = quoted(opened.first_line.rstrip(b"\r\n"))
        raise ValueError(f"{path}, line 1: expected the header 'n k' or 'n L', got {line}.")
    n, second = opened.header
    block = text.parse(opened, PAIRS, n_rows=n)
    longest = int(block.counts.max(initial=1))
    n_labels = int(block.columns.max(initial=-1)) + 1
    if n_labels <= second:
        return block.matrix(n_labels), longest
    if longest > second:
        row = int(np.argmax(block.counts > second))
        raise ValueError(
            f"{path}, line {row + 2}: the header announces {second} labels, but this row has "
            f"{block.counts[row]} and label {n_labels - 1} occurs, so it is neither k nor L."
        )
    if n * second > (1 << 20) + 64 * block.columns.size:
        raise ValueError(
            f"{path}, line 1: the header announces k = {second}, but no row has more than "
            f"{longest} labels; write {longest} there, or read it with "
            f"{setting('k', longest, of='predictions.read')}."
        )
    return block.matrix(n_labels), second


def _read_long(
    table: Source, k: int | None, id: str | None, label: str | None, score: str | None
) -> TopK:
    """Make predictions of lines of id, label and score; labels by the order of their names."""
    lines = _read_lines(table, id=id, label=label, score=score)
    rows, labels = Index(), Index()
    row_of = rows.add(lines.ids)
    predicted = np.flatnonzero(np.diff(lines.labels.offsets) > 0)
    codes = labels.add(lines.labels.take(predicted))
    names, rank = sorted_names(labels)
    columns = rank[codes] if len(rank) else codes
    predicted_rows = row_of[predicted]
    order = np.lexsort((predicted, columns, predicted_rows))
    again = (np.diff(predicted_rows[order]) == 0) & (np.diff(columns[order]) == 0)
    if again.any():
        repeated = order[1:][again]
        entry = repeated[np.argmin(predicted[repeated])]
        raise ValueError(
            f"{table.where(int(predicted[entry]))}: the label {names[columns[entry]]!r:.60} is "
            "predicted a second time for this id; keep one of them."
        )
    triples = predicted_rows, columns, lines.scores[predicted]
    try:
        top = best_of_rows(*triples, n=rows.count, k=k, names=names)
    except ValueError as error:
        raise ValueError(f"{table.name}: {error}") from None
    return top if lines.by_position else top.named(ids=rows.names())


def _open_long(path: Any, format: str | None) -> Source | None:
    """Open a long table of predictions; return None if the file is none."""
    if tables.is_frame(path):
        return tables.open_table(path)
    if format is None:
        if archive.recognised(path) or archive.is_array(path):
            return None
        line = delimited.first_line(path)
        if _TREC.fullmatch(line):
            format = "trec"
        elif _CAFA.fullmatch(line) and not line.split("\t")[0].isdigit():
            format = "cafa"
        else:
            format = tables.recognised(path)
    if format == "trec":
        return delimited.open_trec(path)
    if format == "cafa":
        return delimited.open_delimited(
            path, separator="\t", quote=None, names=("id", "label", "score")
        )
    return None if format is None else tables.open_table(path, format)


class _Lines(NamedTuple):
    """The lines of a long table; without a label, the line says only that there is such a row."""

    ids: Strings
    labels: Strings
    scores: Singles
    by_position: bool


def _read_lines(source: Source, *, id: str | None, label: str | None, score: str | None) -> _Lines:
    """Return the columns of a long table, checked one by one."""
    by_row = id is None and _ROW in source.names
    chosen = tables.roles(source, id=_ROW if by_row else id, labels=label, layout=None)
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
        last = -1
        for line, name in enumerate(ids):  # 0, 0, 1, 2, 2, …
            number = int(name) if name.isascii() and name.isdigit() and len(name) < 19 else -2
            if number not in (last, last + 1) or number < 0:
                raise ValueError(
                    f"{source.where(line)}: rows are numbered 0, 1, 2 … in order; got {name!r:.40}."
                )
            last = number
    return _Lines(ids, labels, scores, by_row)


def _numbers(cells: Strings, labels: Strings, source: Source) -> Singles:
    """Return scores as float32; where there is no label there need be no score."""
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


def write(path: PathLike, top: TopK) -> None:
    """Write predictions, best first.

    Parameters
    ----------
    path : str or path
        `.gz` and `.zst` at the end compress. `.csv`, `.tsv`, `.jsonl` and `.parquet` give a long
        table, `id, label, score`, with names where there are any and numbers elsewhere; `.npz` a
        scipy matrix of scores with as many columns as labels are predicted; any other name text
        with numbers, `label:score`.
    top : TopK
        The predictions.

    Raises
    ------
    ValueError
        If a Parquet file is asked for and pyarrow is not installed.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> name = tempfile.mkdtemp() + "/predictions.txt"
    >>> write(name, TopK([[7, 0], [3, -1]], [[0.9, 0.5], [0.25, float("-inf")]]))
    >>> print(Path(name).read_text())
    2 2
    7:0.9 0:0.5
    3:0.25
    """
    form = tables.ending(path)
    if form is not None:
        _write_long(path, form, top)
        return
    rows, labels, places = top.pairs()
    indptr = np.searchsorted(rows, np.arange(top.n + 1))
    shape = (top.n, int(labels.max(initial=-1)) + 1)
    scores = sp.csr_array((top.scores[rows, places], labels, indptr), shape=shape)
    if ".npz" in Path(path).suffixes[-2:]:
        scores.sort_indices()
        archive.save_matrix(path, scores)
    else:
        text.write_rows(path, top.labels.shape, scores)


def _write_long(path: PathLike, form: str, top: TopK) -> None:
    """Write predictions as a table, best first; a row without any has one line."""
    lines = np.maximum((top.labels >= 0).sum(axis=1), 1)
    rows = np.repeat(np.arange(top.n), lines)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(lines) - lines, lines)
    labels, scores = top.labels[rows, place].tolist(), top.scores[rows, place]
    ids = None if top.ids is None else list(top.ids)
    names = top.names
    columns: dict[str, list[tables.Cell]] = {
        _ROW if ids is None else "id": [r if ids is None else ids[r] for r in rows.tolist()],
        "label": ["" if j < 0 else str(j) if names is None else names[j] for j in labels],
        "score": [float(str(s)) if j >= 0 else None for j, s in zip(labels, scores, strict=True)],
    }
    tables.write_columns(path, form, columns)
