"""`read`: the files of a data set, wherever they lie and however they are packed, as one `Dataset`.

Which files those are is decided in `folder`, what one of them means in `formats` or, for tables, in
`tables`; here they are put together with splits, filters and names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import scipy.sparse as sp

from unmask import _io, _tables
from unmask._messages import setting
from unmask._typing import Ints, PathLike
from unmask.arrays import checks
from unmask.data.dataset import Dataset, Source
from unmask.data.folder import Files, locate, names_beside
from unmask.data.formats import FORMATS, Bases, read_one, read_pair
from unmask.data.pairs import read_judgements
from unmask.data.subjects import is_corpus, read_corpus
from unmask.data.tables import TableOptions, is_tag_lists, label_matrix, read_table


def read(
    path: PathLike | Iterable[object],
    labels: PathLike | None = None,
    *,
    part: str | None = None,
    split: PathLike | None = None,
    column: int | None = None,
    filter_labels: PathLike | None = None,
    format: str | None = None,
    base: int | tuple[int, int] | None = None,
    like: Dataset | None = None,
    names: bool = True,
    **table: Unpack[TableOptions],
) -> Dataset:
    """Read a data set; `dataset.source` says how its files were understood.

        read("train.txt.gz")                              # any one file
        read("trn_X_Xf.txt", "trn_X_Y.txt")               # features and labels; or read("trn")
        read("datasets/bibtex", part="test")              # a folder
        read("Bibtex_data.txt", split="Bibtex_trSplit.txt", column=3)
        read("test.svm", like=train)                      # headerless: shape and base as in train
        read("tags.csv", text="title,abstract", labels="tags", id="id")
        read(frame, labels="tags")                        # pandas, polars, Arrow, a dict of columns
        read([["physics", "optics"], ["law"]])            # lists or sets of names
        read("documents")                                 # a folder of Annif: .txt, .tsv or .key

    Parameters
    ----------
    path : str, path or table
        A file, a folder (with `part`), or what the names of several files begin with; or a table
        in memory, or lists of names.
    labels : str or path, optional
        The file of labels, where `path` holds features alone; of a table, the column of labels. By
        default the column that is called labels, tags, subjects or the like. Columns of 0 and 1
        (several between commas, or one with a name of its own) are labels called as the column.
    part : {"train", "test", "valid"}, optional
        The part of a folder.
    split : str or path, optional
        A file with columns of row numbers counted from 1. The rows come in its order.
    column : int, optional
        The column of the split file, counted from 0; by default the first.
    filter_labels : str or path, optional
        A file of judged pairs, kept in `dataset.judgements`: lines `row label` counted from 0 are
        ignored pairs; or a table of judgements (`data.pairs`).
    format : str, optional
        One of `FORMATS`. By default three numbers in the first line mean "xc", two mean "labels"
        ("features" if the name has `Xf` in it or starts with `X.`), anything else "libsvm".
    base : int or (int, int), optional
        The number that labels and features are counted from, 0 or 1, or a pair of the two. By
        default everything is counted from 0, except that LIBSVM *features* are counted from 1 if
        index 0 never occurs. That is a guess about one file: give `like` or `base` for the next.
    like : Dataset, optional
        A data set that was read before: columns and base are those of it. Of a table, the labels
        of `like` are the first columns; names that it does not have follow (see `unseen`).
    names : bool, default True
        Whether `features.txt` and `labels.txt` (`Xf.txt`, `Yf.txt`) beside the data are taken,
        when they have exactly one line per column.
    **table
        For tables alone. `text`: the column or columns (a list, or names between commas) that
        become `dataset.texts`. `id`: the column of ids, by default the one called id, doc_id or
        the like. `layout`: "wide" (a row per document) or "long" (a row per label). `delimiter`:
        what stands between the labels in a cell, one character, "list" or "none". `separator`:
        what stands between fields. `encoding`: by default UTF-8, or what a byte-order mark says.
        `nulls`: what a label cell such as NaN means: "refuse", "empty" or "name". `repeated`: what
        a label twice in a row means: "refuse" or "merge". `negative`, `ignored`: columns of a wide
        table with labels that somebody rejected, and with labels that do not count; they become
        `dataset.judgements`. By default everything else is found from the content, and
        `dataset.source.details` says what was found.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If a file is not what it should be; the message names file, line and token.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "tiny.txt"
    >>> _ = file.write_text("2 3 4\\n0,3 0:0.5 2:1\\n 1:2\\n")
    >>> tiny = read(file)
    >>> tiny.labels.toarray()
    array([[1., 0., 0., 1.], [0., 0., 0., 0.]], dtype=float32)
    >>> tiny.source.format, tiny.source.compression
    ('xc', ('none',))
    """
    if is_tag_lists(path):
        matrix, label_names = label_matrix(path, None if like is None else like.label_names)  # type: ignore[arg-type]
        return Dataset(None, matrix, label_names=label_names)
    if format is not None:
        checks.one_of(format, FORMATS, "format")
    if _tables.is_frame(path):
        return read_table(path, None, _column(labels), like, table)
    path = Path(os.fspath(path))  # type: ignore[arg-type]
    folder = path if part is None else path / part
    if is_corpus(folder):
        _refuse_settings(folder, table)
        return read_corpus(folder, like)
    named = None if labels is None or _is_table(path, part, format) else labels
    files = _files_of(path, named, part, split, column, filter_labels)
    bases = _bases(base, like)
    if files.data is not None and (form := _form(files.data, format)):
        dataset = read_table(files.data, form, _column(labels), like, table)
        like, names = None, False
    elif table:
        _refuse_settings(path, table)
    elif files.data is None:
        dataset = read_pair(files.features, files.labels, format, bases)
    else:
        dataset = read_one(files.data, format, bases, like)
    _refuse_too_many_columns(dataset)
    _refuse_other_columns(dataset, like)
    dataset = _with_names(dataset) if names else dataset
    if files.filtered is not None:
        dataset = _with_filter(dataset, files.filtered)
    if files.split is not None:
        dataset = _with_rows(dataset, files.split, column or 0)
    return dataset


def _refuse_settings(path: Path, table: TableOptions) -> None:
    if table:
        raise ValueError(
            f"{path} is no table, so that {', '.join(table)} mean nothing for it; leave them out."
        )


def _column(labels: PathLike | None) -> str | None:
    return None if labels is None else str(labels)


def _form(path: Path, format: str | None) -> str | None:
    """The form of the table in a file; None if it is no table."""
    if format is not None:
        return format if format in _tables.FORMS else None
    return _tables.recognised(path)


def _is_table(path: Any, part: str | None, format: str | None) -> bool:
    file = Path(path)
    if part is not None and file.is_dir():
        file = locate(file, part).data or file
    return file.is_file() and _form(file, format) is not None


def _files_of(
    path: PathLike,
    labels: PathLike | None,
    part: str | None,
    split: PathLike | None,
    column: int | None,
    filter_labels: PathLike | None,
) -> Files:
    if labels is not None:
        files = Files(features=Path(path), labels=Path(labels))
    else:
        files = locate(path, part, None if split is not None else column)
    if split is not None:
        files = replace(files, split=Path(split))
    if filter_labels is not None:
        files = replace(files, filtered=Path(filter_labels))
    if column is not None and files.split is None:
        raise ValueError(
            f"{setting('column', column)} chooses from a split file; give one with "
            f"{setting('split')}."
        )
    return files


def _bases(base: int | tuple[int, int] | None, like: Dataset | None) -> Bases:
    """(labels, features): the number each is counted from; None where it is to be detected."""
    if base is None:
        return like.source.base if like is not None and like.source.paths else (None, None)
    pair = base if isinstance(base, tuple) else (base, base)
    if len(pair) != 2 or any(number not in (0, 1) for number in pair):
        raise ValueError(f"base must be 0, 1 or a pair (labels, features) of them; got {base!r}.")
    return pair


def _refuse_too_many_columns(dataset: Dataset) -> None:
    for noun in ("features", "labels"):
        matrix = getattr(dataset, noun)
        if matrix is not None:
            _io.refuse_columns(dataset.source.paths[0], matrix.shape[1], noun)


def _refuse_other_columns(dataset: Dataset, like: Dataset | None) -> None:
    for noun in ("features", "labels"):
        ours, theirs = getattr(dataset, noun), getattr(like, noun, None)
        if ours is not None and theirs is not None and ours.shape[1] != theirs.shape[1]:
            raise ValueError(
                f"{dataset.source.paths[0]} has {ours.shape[1]} {noun}; the data set it should "
                f"be like has {theirs.shape[1]}."
            )


def _with_filter(dataset: Dataset, path: Path) -> Dataset:
    if dataset.labels is None:
        raise ValueError(f"{path} filters labels, but the data set has none.")
    judged = read_judgements(
        path, dataset.labels.shape, ids=dataset.ids, label_names=dataset.label_names
    )
    return replace(dataset, judgements=judged, source=_source_with(dataset, path))


def _with_rows(dataset: Dataset, path: Path, column: int) -> Dataset:
    table = _io.integers(path)
    if not 0 <= column < table.shape[1]:
        raise ValueError(f"{path} has {table.shape[1]} columns; got column {column}.")
    rows = table[:, column]
    n = next(m.shape[0] for m in (dataset.labels, dataset.features) if m is not None)
    _refuse_beyond(rows, 1, n, "row number", path)
    distinct, first = np.unique(rows, return_index=True)
    if len(distinct) < len(rows):
        again = int(np.setdiff1d(np.arange(len(rows)), first)[0])
        raise ValueError(f"{path}, line {again + 1}: row {rows[again]} is named a second time.")
    return replace(dataset.take(rows - 1), source=_source_with(dataset, path))


def _refuse_beyond(numbers: Ints, low: int, high: int, noun: str, path: Path) -> None:
    bad = np.flatnonzero((numbers < low) | (numbers > high))
    if bad.size:
        row = int(bad[0])
        raise ValueError(
            f"{path}, line {row + 1}: {noun} must lie in {low} … {high}, got {numbers[row]}."
        )


def _source_with(dataset: Dataset, path: Path) -> Source:
    """The data set's source with one more file."""
    source = dataset.source
    packed = (*source.compression, _io.compression(path))
    return replace(source, paths=(*source.paths, str(path)), compression=packed)


def _with_names(dataset: Dataset) -> Dataset:
    """Names from the files beside the data, where those have one line per column."""
    if dataset.feature_names is None and (named := _names(dataset, dataset.features, "feature")):
        path, names = named
        dataset = replace(dataset, feature_names=names, source=_source_with(dataset, path))
    if dataset.label_names is None and (named := _names(dataset, dataset.labels, "label")):
        path, names = named
        dataset = replace(dataset, label_names=names, source=_source_with(dataset, path))
    return dataset


def _names(
    dataset: Dataset, matrix: sp.csr_array | None, noun: str
) -> tuple[Path, tuple[str, ...]] | None:
    """The file beside the data with the names of the columns of `matrix`, and the names."""
    path = names_beside(Path(dataset.source.paths[0]), noun)
    if matrix is None or path is None:
        return None
    lines = _lines(path, matrix.shape[1])
    return None if lines is None else (path, lines)


def _lines(path: Path, count: int) -> tuple[str, ...] | None:
    """The file's lines if there are `count`; no more of it is read than is needed to know."""
    blocks, ends = [], 0
    for block in _io.blocks(path):
        blocks.append(block)
        ends += block.count(b"\n")
        if ends > count:
            return None
    text = b"".join(blocks).removeprefix(b"\xef\xbb\xbf").decode("utf-8", "backslashreplace")
    lines = text.removesuffix("\n").split("\n")
    return tuple(line.removesuffix("\r") for line in lines) if len(lines) == count else None
