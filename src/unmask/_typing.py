"""The types that many signatures share, by name.

`…Like` is what a caller may hand in; `arrays.checks` turns it into what the package works with.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import scipy.sparse as sp

Floats: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]
Indices: TypeAlias = NDArray[np.int32]
Bools: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = NDArray[Any]
"""An array of numbers of any type."""

Integers: TypeAlias = NDArray[np.integer[Any]]
"""An array of whole numbers of any width."""

Json: TypeAlias = Union[bool, int, float, str, list["Json"], dict[str, "Json"], None]  # noqa: UP007
"""A value in a JSON file."""

Record: TypeAlias = dict[str, Any]
"""A stored JSON object; its fields are those of its kind and are read without further checks."""


class SupportsArray(Protocol):
    """Anything that numpy reads as an array: an estimate of propensities, a frame, a tensor."""

    def __array__(self) -> Array:
        """Return the values."""
        ...


MatrixLike: TypeAlias = "ArrayLike | SupportsArray | sp.sparray | sp.spmatrix"
"""Rows × columns, dense or sparse."""

LabelsLike: TypeAlias = MatrixLike
"""Rows × labels, 1 where a label was observed and 0 elsewhere."""

FeaturesLike: TypeAlias = MatrixLike
"""Rows × features."""

ScoresLike: TypeAlias = MatrixLike
"""Rows × labels: what a model says; sparse matrices name the candidates."""

PropensityLike: TypeAlias = "ArrayLike | SupportsArray | sp.sparray | sp.spmatrix"
"""One number in (0, 1] per label, or a sparse matrix with one per observed label."""

PathLike: TypeAlias = str | os.PathLike[str]

Progress: TypeAlias = Callable[[int, int], None]
"""Called with (done, total) as work is finished."""

BackendLike: TypeAlias = Any
"""A place where tasks run, as `unmask.parallel.connect` takes it, which knows Dask's types."""
