"""`write`: a `Dataset` becomes files that any tool of the field reads.

Reading a written file gives the same arrays bit for bit. A value gets the fewest decimal places
that read back as the same float32. A file appears under its name only when it is complete.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import scipy.sparse as sp

from unmask import _io, _validation
from unmask._io import archive
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

    Text files hold no names, and no `filtered` pairs.

    Parameters
    ----------
    path : str or path
        The file; `.gz` and `.zst` at the end compress.
    dataset : Dataset
        Without features or without labels it is written as labels or features alone.
    labels : str or path, optional
        The file of the labels; then `path` holds the features alone.
    format : {"xc", "features", "labels", "npz"}, optional
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
    for names in (dataset.feature_names, dataset.label_names):
        broken = next((name for name in names or () if "\n" in name), None)
        if broken is not None:
            raise ValueError(f"a name must be one line to be written; got {broken!r}.")
    archive.save_dataset(path, dataset)


def _present(dataset: Dataset, role: Literal["features", "labels"]) -> sp.csr_array:
    matrix = dataset.features if role == "features" else dataset.labels
    if matrix is None:
        raise ValueError(f"the data set has no {role} to write; choose another format.")
    return matrix


WRITERS = {
    "xc": _write_xc,
    "features": lambda path, dataset: _write_matrix(path, dataset, "features"),
    "labels": lambda path, dataset: _write_matrix(path, dataset, "labels"),
    "npz": _write_npz,
}
"""The formats that `write` knows."""
