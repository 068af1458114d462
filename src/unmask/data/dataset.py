"""What a data file becomes: features and labels of the same rows, names, and where it came from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import scipy.sparse as sp

from unmask import _validation


@dataclass(frozen=True)
class Source:
    """How a data set was read: every detection that `read` made, so that nothing is a guess.

    `format` is one of `unmask.data.FORMATS`, or `memory` for a data set that was made, not read;
    `compression` holds `none`, `gzip` or `zstd` for each
    of `paths`, and `base` the number that the file counts (labels, features) from.
    """

    paths: tuple[str, ...]
    format: str
    compression: tuple[str, ...]
    base: tuple[int, int] = (0, 0)


_MATRICES: dict[str, Any] = {
    "features": _validation.columns,
    "labels": _validation.labels,
    "filtered": _validation.labels,
}


@dataclass(frozen=True, eq=False)
class Dataset:
    """n rows: `features` (n × d, float32) and `labels` (n × L, binary), both `csr_array`.

    Either may be missing (`None`), and both are brought into canonical form when the object is
    made: indices sorted and unique, int32 where they fit. Stored zeros stay in the features.
    `filtered` marks the (row, label) pairs that an evaluation must leave out, such as a page that
    is its own label; the labels themselves are untouched by it.

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

    def take(self, rows: Any) -> Dataset:
        """The rows with these numbers (from 0), in this order.

        >>> Dataset(None, [[0, 1], [1, 1]]).take([1]).labels.indices
        array([0, 1], dtype=int32)
        """
        whole = replace(self)  # which checks it: scipy trusts what may have been changed in place
        parts = {name: getattr(whole, name) for name in ("features", "labels", "filtered")}
        taken: dict[str, Any] = {k: m if m is None else m[rows] for k, m in parts.items()}
        return replace(self, **taken)


def _one_name_per_column(names: tuple[str, ...] | None, matrix: Any, noun: str) -> None:
    if names is not None and (matrix is None or len(names) != matrix.shape[1]):
        columns = 0 if matrix is None else matrix.shape[1]
        raise ValueError(f"{len(names)} {noun} names for {columns} {noun}s; give one per {noun}.")
