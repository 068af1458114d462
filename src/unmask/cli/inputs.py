"""Reading what a command needs from a file, and refusing a file that does not hold it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unmask.cli.output import progress_console

if TYPE_CHECKING:
    import scipy.sparse as sp

    from unmask.data import Dataset


def read(source: Path, part: str | None = None, format: str | None = None) -> Dataset:
    """A data set, with a note of progress while it is read."""
    from unmask import data

    with progress_console.status(f"reading {source}"):
        return data.read(source, part=part, format=format)


def labels_of(dataset: Dataset, source: Path) -> sp.csr_array:
    """Its labels; ValueError if there are none."""
    return _present(dataset.labels, source, "labels")


def features_of(dataset: Dataset, source: Path) -> sp.csr_array:
    """Its features; ValueError if there are none."""
    return _present(dataset.features, source, "features")


def _present(matrix: sp.csr_array | None, source: Path, content: str) -> sp.csr_array:
    if matrix is None:
        raise ValueError(f"{source} holds no {content}; name a file that does.")
    return matrix
