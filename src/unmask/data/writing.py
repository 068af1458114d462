"""`write`: a `Dataset` becomes files that any tool of the field reads.

Reading a written file gives the same arrays bit for bit. A value gets the fewest decimal places
that read back as the same float32. A file appears under its name only when it is complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import scipy.sparse as sp

from unmask import _io, _tables, _validation
from unmask._io import archive
from unmask._names import Strings
from unmask._tables.tags import DELIMITERS, NULLS, sniffed_delimiter
from unmask._tables.writing import Cell, write_columns
from unmask._typing import PathLike
from unmask.data.dataset import Dataset


def write(
    path: PathLike,
    dataset: Dataset,
    *,
    labels: PathLike | None = None,
    format: str | None = None,
) -> None:
    """Write a data set.

        write("train.txt.gz", dataset)                            # header n d L
        write("trn_X_Xf.txt", dataset, labels="trn_X_Y.txt")      # features and labels apart
        write("train.npz", dataset)                               # everything, names included
        write("X.npz", dataset, labels="Y.npz")                   # two scipy matrices
        write("tags.csv", dataset)                                # ids, texts, labels by name

    Text files of numbers hold no names, ids, texts or `judgements`. Tables hold ids, texts and
    labels: CSV and TSV with a delimiter between labels that stands in none of their names (else as
    JSON lists), JSON lines and Parquet with lists. They hold no features.

    Parameters
    ----------
    path : str or path
        The file; `.gz` and `.zst` at the end compress.
    dataset : Dataset
        Without features or without labels it is written as labels or features alone.
    labels : str or path, optional
        The file of the labels; then `path` holds the features alone.
    format : {"xc", "features", "labels", "npz", "csv", "tsv", "jsonl", "parquet"}, optional
        By default the name and the contents decide.

    Raises
    ------
    ValueError
        If the format is unknown, does not fit the contents, or is given with two paths.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "tiny.txt"
    >>> write(file, Dataset([[0.1, 0.0]], [[0, 1, 1]]))
    >>> print(file.read_text())
    1 2 3
    1,2 0:0.1
    """
    dataset = replace(dataset)  # which checks it: its matrices can be changed in place
    if labels is not None:
        if format is not None:
            raise ValueError(f"two paths say the format already; leave out format={format!r}.")
        _write_matrix(Path(path), dataset, "features")
        _write_matrix(Path(labels), dataset, "labels")
        return
    WRITERS[_validation.one_of(format or _suggested(Path(path), dataset), WRITERS, "format")](
        Path(path), dataset
    )


def _suggested(path: Path, dataset: Dataset) -> str:
    if _is_npz(path):
        return "npz"
    if (form := _tables.ending(path)) is not None:
        return "jsonl" if form == "json" else form
    if dataset.features is None:
        return "labels"
    return "features" if dataset.labels is None else "xc"


def _is_npz(path: Path) -> bool:
    return ".npz" in path.suffixes[-2:]


def _write_xc(path: Path, dataset: Dataset) -> None:
    features, labels = _present(dataset, "features"), _present(dataset, "labels")
    _io.write_rows(path, (*features.shape, labels.shape[1]), features, labels)


def _write_matrix(path: Path, dataset: Dataset, role: Literal["features", "labels"]) -> None:
    matrix = _present(dataset, role)
    if not _is_npz(path):
        _io.write_rows(path, matrix.shape, matrix)
    else:
        archive.save_matrix(path, matrix)


def _write_npz(path: Path, dataset: Dataset) -> None:
    archive.save_dataset(path, dataset)


def _write_table(form: str, path: Path, dataset: Dataset) -> None:
    if dataset.features is not None and dataset.texts is None:
        raise ValueError(
            f"{path}: a table holds texts and labels, no features; write .npz or .txt to keep "
            "them, or leave them out."
        )
    columns: dict[str, list[Cell]] = {}
    if dataset.ids is not None:
        columns["id"] = list(dataset.ids)
    if dataset.texts is not None:
        columns["text"] = list(dataset.texts)
    if dataset.labels is not None:
        columns["labels"] = _label_cells(form, dataset)
    write_columns(path, form, columns)


def _label_cells(form: str, dataset: Dataset) -> list[Cell]:
    """The labels of every row: a list, or names between a delimiter that none of them has."""
    rows = [list(dataset.labels_of(row)) for row in range(dataset.n)]
    if form not in ("csv", "tsv"):
        return list(rows)
    names = {name for row in rows for name in row}
    odd = any(name.strip().lower() in NULLS or name != name.strip() or not name for name in names)
    for mark in DELIMITERS:
        cells = [mark.join(row) for row in rows]
        understood = sniffed_delimiter(Strings.of(cells))
        single = understood == "none" and all(len(row) < 2 for row in rows)
        if not odd and (single or understood == mark) and not any(mark in name for name in names):
            return list(cells)
    return [json.dumps(row, ensure_ascii=False) if row else "" for row in rows]


def _present(dataset: Dataset, role: Literal["features", "labels"]) -> sp.csr_array:
    matrix = dataset.features if role == "features" else dataset.labels
    if matrix is None:
        raise ValueError(f"the data set has no {role} to write; choose another format.")
    return matrix


WRITERS: dict[str, Callable[[Path, Dataset], None]] = {
    "xc": _write_xc,
    "features": lambda path, dataset: _write_matrix(path, dataset, "features"),
    "labels": lambda path, dataset: _write_matrix(path, dataset, "labels"),
    "npz": _write_npz,
    **{form: partial(_write_table, form) for form in ("csv", "tsv", "jsonl", "parquet")},
}
"""The formats that `write` knows."""
