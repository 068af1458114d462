"""The few array operations that numpy and torch spell differently; the rest share their names.

The namespace of an array is looked up through `sys.modules`, so that corrections and losses written
once run on numpy arrays and torch tensors, and nobody imports torch to use numpy.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import scipy.special

from unmask._typing import Floats
from unmask.arrays.checks import is_tensor

Array: TypeAlias = Any
"""A numpy array or a torch tensor."""


def namespace(array: Array) -> ModuleType:
    """`torch` for tensors, else `numpy`."""
    return sys.modules["torch"] if is_tensor(array) else np


def special(array: Array) -> ModuleType:
    """`torch.special` for tensors, else `scipy.special`: `expit`, `softmax`, `logsumexp`."""
    return sys.modules["torch.special"] if is_tensor(array) else scipy.special


def like(array: Array, values: Floats) -> Array:
    """Numbers as an array of the kind, precision and device of `array`."""
    if is_tensor(array):
        return namespace(array).as_tensor(values, dtype=array.dtype, device=array.device)
    return values


def as_contiguous(array: Array) -> Array:
    """The same numbers, laid out row by row."""
    return array.contiguous() if is_tensor(array) else np.ascontiguousarray(array)


def softplus(scores: Array) -> Array:
    """log(1 + eˢ) without overflow."""
    return logaddexp(scores, 0.0)


def logaddexp(scores: Array, other: float) -> Array:
    """log(eˢ + e^other) without overflow."""
    xp = namespace(scores)
    return xp.logaddexp(scores, scores.new_full((), other) if is_tensor(scores) else other)


def take(matrix: Array, index: Array) -> Array:
    """The (n, m) entries of an (n, L) matrix at `index`, row by row."""
    return matrix.gather(1, index) if is_tensor(matrix) else np.take_along_axis(matrix, index, 1)


def times(weight: Array, values: Array) -> Array:
    """weight · values, and 0 where the weight is 0: a place without a label adds nothing.

    Not even where its value is infinite, as that of a logit of −inf may be.

    >>> times(np.array([0.0, 2.0]), np.array([3.0, 3.0]))
    array([0., 6.])
    """
    return namespace(weight).where(weight == 0, 0.0, weight * values)


def add_at(matrix: Array, index: Array, values: Array) -> Array:
    """`values` (n, m) added at `index` to a matrix of ours; repeated places add up.

    In place, unless the matrix is part of a graph that may need what it was.
    """
    if is_tensor(matrix):
        in_graph = matrix.requires_grad
        return (matrix.scatter_add if in_graph else matrix.scatter_add_)(1, index, values)
    np.add.at(matrix, (np.arange(len(index))[:, None], index), values)
    return matrix


def kth_largest(values: Array, k: int) -> Array:
    """The k-th largest of a flat array, k counted from 1."""
    if is_tensor(values):
        return values.topk(k).values[-1]
    return np.partition(values, -k)[-k]
