"""Prediction files: text with `label:score`, score matrices, and tables with a line per prediction.

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

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from unmask import _io, _tables
from unmask._io import archive
from unmask._messages import function, setting
from unmask._names import Index, sorted_names
from unmask._tables import long_form
from unmask._typing import Indices, Ints, PathLike
from unmask.arrays.top import TopK, best_of_rows


def read(
    path: Any,
    *,
    k: int | None = None,
    id: str | None = None,
    label: str | None = None,
    score: str | None = None,
    format: str | None = None,
) -> TopK:
    """Predictions from a file, see the top of this module, a score matrix or a long table.

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
    table = long_form.open_long(path, format)
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
    """The file's scores and its k."""
    from unmask._kernels.text import PAIRS

    text = _io.open_text(path)
    if len(text.header) != 2:
        line = _io.quoted(text.first_line.rstrip(b"\r\n"))
        raise ValueError(f"{path}, line 1: expected the header 'n k' or 'n L', got {line}.")
    n, second = text.header
    block = _io.parse(text, PAIRS, n_rows=n)
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
    table: _tables.Source, k: int | None, id: str | None, label: str | None, score: str | None
) -> TopK:
    """Lines of id, label and score as predictions; labels by the order of their names."""
    lines = long_form.read_lines(table, id=id, label=label, score=score)
    rows, labels = Index(), Index()
    row_of = rows.add(lines.ids)
    predicted = np.flatnonzero(np.diff(lines.labels.offsets) > 0)
    codes = labels.add(lines.labels.take(predicted))
    names, rank = sorted_names(labels)
    columns = rank[codes] if len(rank) else codes
    _refuse_second(row_of[predicted], columns, predicted, names, table)
    triples = row_of[predicted], columns, lines.scores[predicted]
    try:
        top = best_of_rows(*triples, n=rows.count, k=k, names=names)
    except ValueError as error:
        raise ValueError(f"{table.name}: {error}") from None
    return top if lines.by_position else top.named(ids=rows.names())


def _refuse_second(
    rows: Indices, columns: Indices, lines: Ints, names: tuple[str, ...], table: _tables.Source
) -> None:
    """Raise where a label stands twice for an id."""
    order = np.lexsort((lines, columns, rows))
    again = (np.diff(rows[order]) == 0) & (np.diff(columns[order]) == 0)
    if again.any():
        entry = order[1:][again][np.argmin(lines[order[1:][again]])]
        raise ValueError(
            f"{table.where(int(lines[entry]))}: the label {names[columns[entry]]!r:.60} is "
            "predicted a second time for this id; keep one of them."
        )


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
    form = _tables.ending(path)
    if form is not None:
        long_form.write_long(path, form, top)
        return
    predicted = top.labels >= 0
    indptr = np.concatenate([[0], np.cumsum(predicted.sum(axis=1))])
    shape = (len(predicted), int(top.labels.max(initial=-1)) + 1)
    scores = sp.csr_array((top.scores[predicted], top.labels[predicted], indptr), shape=shape)
    if ".npz" in Path(path).suffixes[-2:]:
        scores.sort_indices()
        archive.save_matrix(path, scores)
    else:
        _io.write_rows(path, top.labels.shape, scores)
