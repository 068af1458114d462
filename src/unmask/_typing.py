"""The types that many signatures share, by name.

`…Like` is what a caller may hand in; `_validation` turns it into what the package works with.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import scipy.sparse as sp

Floats: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]
Indices: TypeAlias = NDArray[np.int32]
Bools: TypeAlias = NDArray[np.bool_]


class SupportsArray(Protocol):
    """What numpy can read as an array: an estimate of propensities, a data frame, a tensor."""

    def __array__(self, *args: Any, **kwargs: Any) -> NDArray[Any]:
        """The values."""
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
