"""Lanes (`unmask._kernels.lanes`) as arrays of eight float32, for kernels that are not compiled.

With `NUMBA_DISABLE_JIT=1` kernels are plain Python, which can be traced, covered and changed; only
intrinsics, which are machine instructions, cannot be called then. These take their place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import extending
from numpy.typing import NDArray

from unmask._kernels import lanes

Eight = NDArray[np.float32]
WIDTH = 8


def install() -> None:
    """Have calls of the intrinsics do what is below."""
    stand_ins = {id(getattr(lanes, name)): function for name, function in STAND_INS.items()}

    def call(intrinsic: object, *arguments: Any) -> Any:
        return stand_ins[id(intrinsic)](*arguments)

    extending._Intrinsic.__call__ = call


def load(matrix: NDArray[np.float32], row: int, group: int) -> Eight:
    return _eight(matrix, row, group).copy()


def store(matrix: NDArray[np.float32], row: int, group: int, values: Eight) -> None:
    _eight(matrix, row, group)[:] = values


def _eight(matrix: NDArray[np.float32], row: int, group: int) -> Eight:
    """Of a matrix of one column, the eight places from this row on."""
    if matrix.shape[1] == 1:
        return matrix[row : row + WIDTH, 0]
    return matrix[row, WIDTH * group : WIDTH * (group + 1)]


def above(left: Eight, right: Eight) -> np.uint32:
    return np.uint32(sum(1 << j for j in range(WIDTH) if left[j] > right[j]))


def lowest_bit(bits: int) -> int:
    return next(j for j in range(32) if int(bits) >> j & 1)


STAND_INS: dict[str, Callable[..., Any]] = {
    "load": load,
    "store": store,
    "spread": lambda scalar: np.full(WIDTH, scalar, np.float32),
    "above": above,
    "where_above": lambda left, right, yes, no: np.where(left > right, yes, no),
    "prefetch": lambda array, position: None,
    "lowest_bit": lowest_bit,
    "larger": lambda x, y: np.where(x > y, x, y),
    "smaller": lambda x, y: np.where(x < y, x, y),
    "_power_of_two": lambda exponent: np.exp2(exponent),
    "_add_exactly": lambda x, y: x + y,
    "_subtract_exactly": lambda x, y: x - y,
}
