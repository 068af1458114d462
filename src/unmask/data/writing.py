"""Writing: `write` makes files of a `Dataset` that any tool of the field reads.

Reading a written file gives the same arrays bit for bit. A value gets the fewest decimal places
that read back as the same float32. A file appears under its name only when it is complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp

from unmask._messages import named_options, setting
from unmask._names import Strings
from unmask._typing import PathLike
from unmask.arrays import checks, stored_in
from unmask.data.dataset import Dataset
from unmask.data.tables import DELIMITERS, NULLS, sniffed_delimiter
from unmask.files import archive
from unmask.files.streams import atomic_write, plain_name
from unmask.files.tables import Cell, ending, write_columns
from unmask.files.text import write_rows


@named_options
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
    JSON lists), JSON lines and Parquet with lists. They hold no features. LIBSVM text (`.svm`) has
    no header, so that columns beyond the last number in the file are lost; features count from 1.
    `annif`: a line `text, tab, <URI> <URI>`, blanks in texts made one; `qrels`: `id 0 label 1`;
    `cafa`: `id, tab, label`.

    Parameters
    ----------
    path : str or path
        The file; `.gz` and `.zst` at the end compress.
    dataset : Dataset
        Without features or without labels it is written as labels or features alone.
    labels : str or path, optional
        The file of the labels; then `path` holds the features alone.
    format : str, optional
        One of `WRITERS`. By default the ending and the contents decide; an ending that stands for
        no format, or for another one, is refused.

    Raises
    ------
    ValueError
        If there is no data set after the path, the format is unknown, does not fit the ending or
        the contents, or is given with two paths.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "tiny.txt"
    >>> write(file, Dataset([[0.1, 0.0]], [[0, 1, 1]]))
    >>> print(file.read_text())
    1 2 3
    1,2 0:0.1
    """
    if not isinstance(dataset, Dataset):
        raise ValueError(
            f"the second argument must be a Dataset, after the path; got {type(dataset).__name__}. "
            "Labels alone are written as Dataset(None, labels)."
        )
    dataset = replace(dataset)  # which checks it: its matrices can be changed in place
    if labels is not None:
        if format is not None:
            raise ValueError(
                f"two paths say the format already; leave out "
                f"{setting('format', format, of='data.write')}."
            )
        _write_matrix("features", Path(path), dataset)
        _write_matrix("labels", Path(labels), dataset)
        return
    WRITERS[_format(Path(path), dataset, format)](Path(path), dataset)


def _format(path: Path, dataset: Dataset, format: str | None) -> str:
    """Return the format asked for, or the one that the ending stands for; one of `WRITERS`."""
    meant = _of_ending(path)
    if format is not None:
        checks.one_of(format, WRITERS, "format")
        if format not in meant and meant != _TEXTS:
            raise ValueError(
                f"{path}: a file of this name should be {' or '.join(meant)}, not {format}; "
                f"choose another ending, or leave out {setting('format', of='data.write')}."
            )
        return format
    if not meant:
        raise ValueError(
            f"{path}: the ending {path.suffix} stands for no format that can be written; use .txt, "
            f".svm, .npz, .csv, .tsv, .jsonl or .parquet, or name one of {', '.join(WRITERS)} with "
            f"{setting('format', of='data.write')}."
        )
    if meant == _TEXTS:
        if dataset.features is None:
            return "labels"
        return "features" if dataset.labels is None else "xc"
    return meant[0]


_TEXTS = ("xc", "features", "labels", "libsvm", "annif", "qrels", "cafa")


def _of_ending(path: Path) -> tuple[str, ...]:
    """Return the formats that the ending of a name stands for."""
    if _is_npz(path):
        return ("npz",)
    form = ending(path)
    if form is not None:
        others = ("annif", "cafa") if form == "tsv" else ()
        return ("jsonl" if form == "json" else form, *others)
    suffix = Path(plain_name(path)).suffix.lower()
    if suffix in (".svm", ".libsvm"):
        return ("libsvm",)
    return _TEXTS if suffix in ("", ".txt", ".xc", ".dat") else ()


def _is_npz(path: Path) -> bool:
    return ".npz" in path.suffixes[-2:]


def _write_matrix(role: Literal["features", "labels"], path: Path, dataset: Dataset) -> None:
    matrix = _present(dataset, role)
    if not _is_npz(path):
        write_rows(path, matrix.shape, matrix)
    else:
        archive.save_matrix(path, matrix)


def _write_table(form: str, path: Path, dataset: Dataset) -> None:
    if dataset.features is not None and dataset.texts is None:
        raise ValueError(
            f"{path}: a table holds texts and labels, no features; write .npz or .txt, which hold "
            "them."
        )
    columns: dict[str, list[Cell]] = {}
    if dataset.ids is not None:
        columns["id"] = list(dataset.ids)
    if dataset.texts is not None:
        columns["text"] = list(dataset.texts)
    if dataset.labels is not None:
        columns["labels"] = _label_cells(form, dataset)
    write_columns(path, form, columns)


def _write_rows(path: Path, dataset: Dataset, *, header: bool) -> None:
    """Write the XC format or, without a header and with features counted from 1, LIBSVM."""
    features, labels = _present(dataset, "features"), _present(dataset, "labels")
    n, d = features.shape
    if header:
        write_rows(path, (n, d, labels.shape[1]), features, labels)
        return
    parts = features.data, features.indices + 1, features.indptr
    write_rows(path, (), sp.csr_array(parts, shape=(n, d + 1)), labels)


def _write_annif(path: Path, dataset: Dataset) -> None:
    matrix = _present(dataset, "labels")
    if dataset.texts is None:
        raise ValueError(f"{path}: a corpus of Annif needs texts; the data set has none.")
    names = _names(path, dataset.label_names, "label", " <>\t\r\n")
    with atomic_write(path) as file:
        for row, text in enumerate(dataset.texts):
            labels = " ".join(f"<{names[label]}>" for label in stored_in(matrix, row))
            file.write(f"{' '.join(text.split())}\t{labels}\n".encode())


def _write_pairs(pattern: str, path: Path, dataset: Dataset) -> None:
    """Write a line per label; refuse a row without labels, which would have no line."""
    matrix = _present(dataset, "labels")
    blanks = "\t\r\n" if "\t" in pattern else " \t\r\n"
    names = _names(path, dataset.label_names, "label", blanks)
    ids = _names(path, dataset.ids, "id", blanks)
    empty = np.flatnonzero(np.diff(matrix.indptr) == 0)
    if len(empty):
        raise ValueError(
            f"{path}: row {ids[int(empty[0])]!r:.60} has no label ({len(empty):,} such rows), and "
            "a line per label cannot say that; choose another format."
        )
    with atomic_write(path) as file:
        for row in range(dataset.n):
            lines = (pattern.format(ids[row], names[label]) for label in stored_in(matrix, row))
            file.write("".join(lines).encode())


def _names(path: Path, names: Sequence[str] | None, what: str, refused: str) -> Sequence[str]:
    """Return names that a line can hold; refuse others."""
    if names is None:
        raise ValueError(f"{path}: this format needs {what}s by name; the data set has none.")
    wrong = next((name for name in names if not name or any(c in refused for c in name)), None)
    if wrong is not None:
        raise ValueError(
            f"{path}: the {what} {wrong!r:.60} is empty or holds a character that separates fields "
            "here; choose another format."
        )
    return names


def _label_cells(form: str, dataset: Dataset) -> list[Cell]:
    """Return the labels of every row: a list, or names between a delimiter that none has."""
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
    "xc": partial(_write_rows, header=True),
    "features": partial(_write_matrix, "features"),
    "labels": partial(_write_matrix, "labels"),
    "libsvm": partial(_write_rows, header=False),
    "npz": lambda path, dataset: archive.save_dataset(
        path, {name: getattr(dataset, name) for name in archive.PARTS}
    ),
    "annif": _write_annif,
    "qrels": partial(_write_pairs, "{} 0 {} 1\n"),
    "cafa": partial(_write_pairs, "{}\t{}\n"),
    **{form: partial(_write_table, form) for form in ("csv", "tsv", "jsonl", "parquet")},
}
"""The formats that `write` knows."""
