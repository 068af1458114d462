"""What a data file becomes: features and labels of the same rows, names, and where it came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask import _validation


@dataclass(frozen=True)
class Source:
    """How a data set was read: every detection that `read` made, so that nothing is a guess.

    Parameters
    ----------
    paths : tuple of str
        The files.
    format : str
        One of `unmask.data.FORMATS`, or "memory" for a data set that was made, not read.
    compression : tuple of {"none", "gzip", "zstd"}
        One for each path.
    base : (int, int), default (0, 0)
        The number that the files count (labels, features) from.
    """

    paths: tuple[str, ...]
    format: str
    compression: tuple[str, ...]
    base: tuple[int, int] = (0, 0)


_MATRICES: Mapping[str, Callable[..., sp.csr_array]] = {
    "features": _validation.columns,
    "labels": _validation.labels,
    "filtered": _validation.labels,
}


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features and labels of the same n rows.

    Matrices are brought into canonical form when the object is made: `csr_array`, float32, indices
    sorted and unique, int32 where they fit. Stored zeros stay in the features.

    Parameters
    ----------
    features : matrix of shape (n, d), or None
        Dense or sparse; may be missing if there are labels.
    labels : matrix of shape (n, L) of 0 and 1, or None
        Dense or sparse; may be missing if there are features.
    feature_names, label_names : tuple of str, optional
        One name per column.
    filtered : matrix of shape (n, L) of 0 and 1, optional
        The (row, label) pairs that an evaluation must leave out, such as a page that is its own
        label; the labels themselves are untouched by it.
    source : Source, default "memory"
        How it was read.

    Raises
    ------
    ValueError
        If both matrices are missing, parts do not belong together, or a value is not finite or, in
        labels, neither 0 nor 1.

    Examples
    --------
    >>> Dataset(features=None, labels=[[0, 1], [1, 1]]).labels.nnz
    3
    """

    features: sp.csr_array | None
    labels: sp.csr_array | None
    feature_names: tuple[str, ...] | None = None
    label_names: tuple[str, ...] | None = None
    filtered: sp.csr_array | None = None
    source: Source = Source((), "memory", ())

    def __post_init__(self) -> None:
        """Check each part and that they belong together."""
        if self.features is None and self.labels is None:
            raise ValueError("a data set needs features or labels; got neither.")
        for name, check in _MATRICES.items():
            if getattr(self, name) is not None:
                checked = _validation.narrow(check(getattr(self, name), name=name))
                object.__setattr__(self, name, checked)
        if self.features is not None and self.labels is not None:
            _validation.same_rows(self.features, self.labels, "features", "labels")
        if self.filtered is not None:
            if self.labels is None:
                raise ValueError("filtered pairs belong to labels, and there are none.")
            _validation.same_shape(self.filtered, self.labels, "filtered pairs", "labels")
        _one_name_per_column(self.feature_names, self.features, "feature")
        _one_name_per_column(self.label_names, self.labels, "label")

    def take(self, rows: ArrayLike | slice) -> Dataset:
        """The rows with these numbers, in this order.

        Parameters
        ----------
        rows : integers of shape (m,), booleans of shape (n,), or slice
            Row numbers counted from 0, a mask, or a range of rows.

        Returns
        -------
        Dataset

        Examples
        --------
        >>> Dataset(None, [[0, 1], [1, 1]]).take([1]).labels.indices
        array([0, 1], dtype=int32)
        """
        checked = replace(self)  # validates again: arrays may have been changed in place
        features, labels, filtered = (
            None if matrix is None else matrix[rows]
            for matrix in (checked.features, checked.labels, checked.filtered)
        )
        return replace(self, features=features, labels=labels, filtered=filtered)


def _one_name_per_column(
    names: tuple[str, ...] | None, matrix: sp.csr_array | None, noun: str
) -> None:
    if names is not None and (matrix is None or len(names) != matrix.shape[1]):
        columns = 0 if matrix is None else matrix.shape[1]
        raise ValueError(f"{len(names)} {noun} names for {columns} {noun}s; give one per {noun}.")
