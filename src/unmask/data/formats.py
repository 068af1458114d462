"""The formats: what one file, or a file of features and a file of labels, means.

    xc            header `n d L`, lines `l,l f:v f:v`, counted from 0 (one file)
    xc-pair       header `n d`, lines `f:v f:v`; header `n L`, lines `l:1 l:1` (two files)
    features      the first of the pair alone
    labels        the second of the pair alone; `l l` and `l,l` are understood as well
    libsvm        as xc without header; features counted from 0 or 1, `:v` may be missing (1)
    npz           one scipy matrix (or two files of them), or what `write` made of both
    csv, tsv, jsonl, json, parquet     tables; see `unmask.data.tables`

What the text formats accept and refuse is said in `unmask._io.rows`: in short, nothing is
dropped, and what could mean two things is an error that names file, line and token. Values are
float32(float(token)).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask import _io, _tables
from unmask._io import archive
from unmask._messages import setting
from unmask.arrays import checks
from unmask.data.dataset import Dataset, Source

Bases: TypeAlias = tuple[int | None, int | None]
"""(labels, features): the number each is counted from; None where it is to be detected."""


def read_one(path: Path, format: str | None, bases: Bases, like: Dataset | None) -> Dataset:
    """The data set in one file; `bases` and `like` as `read` understands them."""
    if archive.recognised(path):
        return _read_npz(path, format)
    text = _io.open_text(path)
    name = format or _detected(text, path)
    if name not in _READERS:
        raise ValueError(f"{path} is text, not {name!r}; use one of: {', '.join(_READERS)}.")
    return _READERS[name](text, bases, like)


def read_pair(
    features: Path | None, labels: Path | None, format: str | None, bases: Bases
) -> Dataset:
    """Features and labels from a file each; either may be missing, or left out by `format`."""
    paths = {"features": features, "labels": labels}
    roles = [format] if format in paths else list(paths)
    halves = {role: _read_role(role, path, bases) for role in roles if (path := paths[role])}
    if not halves or format not in (None, "xc-pair", "npz", *paths):
        present = " and ".join(str(path) for path in paths.values() if path)
        raise ValueError(f"{present}: cannot be read as {format}; leave out {setting('format')}.")
    if len(halves) == 1:
        return next(iter(halves.values()))
    left, right = halves["features"], halves["labels"]
    checks.same_rows(left.features, right.labels, *(str(path) for path in paths.values()))
    return Dataset(left.features, right.labels, source=_merged_source(left.source, right.source))


def _merged_source(features: Source, labels: Source) -> Source:
    return Source(
        features.paths + labels.paths,
        "npz" if features.format == labels.format == "npz" else "xc-pair",
        features.compression + labels.compression,
        (labels.base[0], features.base[1]),
    )


def _detected(text: _io.Text, path: Path) -> str:
    if len(text.header) == 3:
        return "xc"
    return _role(path) if text.header else "libsvm"


def _role(path: Path) -> str:
    """What the name says of a file that holds one matrix."""
    return "features" if "Xf" in path.name or path.name.startswith("X.") else "labels"


def _read_xc(text: _io.Text, bases: Bases, like: Dataset | None) -> Dataset:
    from unmask._kernels.text import XC

    n, d, n_labels = _header(text, "n d L")
    base = (bases[0] or 0, bases[1] or 0)
    block = _io.parse(
        text, XC, n_rows=n, n_columns=d, n_labels=n_labels, label_base=base[0], base=base[1]
    )
    return Dataset(block.matrix(d), block.label_matrix(n_labels), source=_source(text, "xc", base))


def _read_libsvm(text: _io.Text, bases: Bases, like: Dataset | None) -> Dataset:
    label_base, base = bases[0] or 0, bases[1]
    n_labels, d = _columns_of(like)
    if base is None:
        block = _parse_libsvm(text, label_base, 0, n_labels, None)
        base = int(block.columns.size > 0 and block.columns.min() > 0)
        block.columns[:] -= base
        if d is not None and _columns_needed(block.columns) > d:  # read again, for the line number
            _parse_libsvm(_io.open_text(text.path), label_base, base, n_labels, d)
    else:
        block = _parse_libsvm(text, label_base, base, n_labels, d)
    return Dataset(
        block.matrix(_columns_needed(block.columns) if d is None else d),
        block.label_matrix(_columns_needed(block.labels) if n_labels is None else n_labels),
        source=_source(text, "libsvm", (label_base, base)),
    )


def _parse_libsvm(
    text: _io.Text, label_base: int, base: int, n_labels: int | None, d: int | None
) -> _io.Block:
    from unmask._kernels.text import LIBSVM

    return _io.parse(
        text.headerless(),
        LIBSVM,
        n_columns=_io.INT32 if d is None else d,
        n_labels=_io.INT32 if n_labels is None else n_labels,
        base=base,
        label_base=label_base,
    )


def _columns_of(like: Dataset | None) -> tuple[int | None, int | None]:
    """(labels, features) of the data set that another should resemble."""
    if like is None:
        return None, None
    return (
        None if like.labels is None else int(like.labels.shape[1]),
        None if like.features is None else int(like.features.shape[1]),
    )


def _columns_needed(indices: NDArray[np.integer]) -> int:
    """The smallest number of columns that holds these indices."""
    return int(indices.max()) + 1 if indices.size else 0


def _read_matrix(role: str, text: _io.Text, bases: Bases, like: Dataset | None) -> Dataset:
    from unmask._kernels.text import LABELS, PAIRS

    n, columns = _header(text, "n d" if role == "features" else "n L")
    layout, own = (PAIRS, 1) if role == "features" else (LABELS, 0)
    base = (bases[0] or 0, bases[1] or 0)
    block = _io.parse(text, layout, n_rows=n, n_columns=columns, base=base[own])
    return _one_matrix(role, block.matrix(columns), _source(text, role, base))


def _one_matrix(role: str, matrix: sp.csr_array, source: Source) -> Dataset:
    if role == "features":
        return Dataset(matrix, None, source=source)
    return Dataset(None, matrix, source=source)


def _header(text: _io.Text, shape: str) -> tuple[int, ...]:
    if len(text.header) != len(shape.split()) or max(text.header) >= 1 << 60:
        line = _io.quoted(text.first_line.rstrip(b"\r\n"))
        raise ValueError(f"{text.path}, line 1: expected the header '{shape}', got {line}.")
    return text.header


def _source(text: _io.Text, format: str, base: tuple[int, int]) -> Source:
    return Source((text.path,), format, (text.compression,), base)


def _read_role(role: str, path: Path, bases: Bases) -> Dataset:
    if archive.recognised(path):
        return _read_npz(path, role)
    return _read_matrix(role, _io.open_text(path), bases, None)


def _read_npz(path: Path, format: str | None) -> Dataset:
    stored = archive.load(path)
    source = Source((str(path),), "npz", (_io.compression(path),))
    try:
        if isinstance(stored, dict):
            return Dataset(**stored, source=source)
        role = format if format in ("features", "labels") else _role(path)
        return _one_matrix(role, stored, source)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


_READERS: dict[str, Callable[[_io.Text, Bases, Dataset | None], Dataset]] = {
    "xc": _read_xc,
    "libsvm": _read_libsvm,
    "features": partial(_read_matrix, "features"),
    "labels": partial(_read_matrix, "labels"),
}

FORMATS = ("xc", "xc-pair", "features", "labels", "libsvm", "npz", *_tables.FORMS)
"""The formats that `read` knows, as `dataset.source.format` names them."""
