"""The door: every array a user hands in is checked here, once, and nowhere else.

Each function returns what the rest of the package may rely on, in one canonical form, and never
changes what it was given:

- labels        `csr_array`, binary, indices sorted and unique, no stored zeros, float32 ones;
- propensities  float64, finite, in (0, 1], one per label (or one per stored label entry);
- scores        float, finite.

A message is a sentence with the offending value, where it stands, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

T = TypeVar("T")
Floats = NDArray[np.floating[Any]]


def labels(given: Any, *, name: str = "labels") -> sp.csr_array:
    """Binary label matrix (rows × labels) as a canonical `csr_array`.

    >>> labels([[0, 1], [1, 1]]).indices
    array([1, 0, 1], dtype=int32)
    """
    matrix = _csr(given, name)
    if (matrix.data == 1).all():
        return _as_ones(matrix)
    if not matrix.data.all():  # a stored zero says what an absent entry says
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    wrong = np.flatnonzero(matrix.data != 1)
    if wrong.size:
        at = int(wrong[0])
        raise ValueError(
            f"{name} must be 0 or 1; got {matrix.data[at]} in row {row_of(matrix, at)}, "
            f"label {matrix.indices[at]}. Code a missing label as 0."
        )
    return _as_ones(matrix)


def _as_ones(matrix: sp.csr_array) -> sp.csr_array:
    if matrix.data.dtype == np.float32:
        return matrix
    ones = np.ones(matrix.nnz, dtype=np.float32)
    return sp.csr_array((ones, matrix.indices, matrix.indptr), shape=matrix.shape)


def _csr(given: Any, name: str) -> sp.csr_array:
    """`given` as CSR with sorted, unique indices; the input itself is not touched."""
    matrix = given  # kept as it is where possible: scipy remembers that it is canonical
    if not isinstance(given, sp.csr_array):
        matrix = sp.csr_array(given if sp.issparse(given) else _two_dimensional(given, name))
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sort_indices()
        _refuse_repetition(matrix, name)
    return narrow(matrix)


def _refuse_repetition(matrix: sp.csr_array, name: str) -> None:
    same_as_next = np.flatnonzero(np.diff(matrix.indices) == 0)
    within_a_row = same_as_next[~np.isin(same_as_next + 1, matrix.indptr)]
    if within_a_row.size:
        at = int(within_a_row[0])
        raise ValueError(
            f"{name} names column {matrix.indices[at]} twice in row {row_of(matrix, at)}; "
            "call `sum_duplicates()` or remove the repetition."
        )


def _two_dimensional(given: Any, name: str) -> NDArray[Any]:
    array = np.asarray(given)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must be a matrix of numbers, rows × columns; got {array.dtype} in shape "
            f"{array.shape}."
        )
    return array.astype(np.float32) if array.dtype == np.float16 else array  # scipy has no halves


def row_of(matrix: sp.csr_array, entry: int) -> int:
    return int(np.searchsorted(matrix.indptr, entry, side="right")) - 1


def propensity(given: ArrayLike, n_labels: int | None = None) -> NDArray[np.float64]:
    """One propensity per label, float64 in (0, 1].

    >>> propensity([0.5, 1.7])
    Traceback (most recent call last):
    ValueError: propensities must lie in (0, 1]; got 1.7 at label 1.
    """
    values = np.array(given, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"propensities must be one number per label; got shape {values.shape}.")
    if n_labels is not None and values.size != n_labels:
        raise ValueError(f"{values.size} propensities for {n_labels} labels; give one per label.")
    _in_unit_interval(values, lambda at: f"at label {at}")
    return values


def entry_propensity(given: Any, of_labels: sp.csr_array) -> NDArray[np.float64]:
    """The propensity of every stored entry of `of_labels` (already checked), in storage order.

    `given` is one number per label, or a sparse matrix with the pattern of the labels (p_ij).
    """
    if not sp.issparse(given):
        return np.asarray(propensity(given, of_labels.shape[1])[of_labels.indices])
    matrix = _csr(given, "propensities")
    same = (
        matrix.shape == of_labels.shape
        and np.array_equal(matrix.indptr, of_labels.indptr)
        and np.array_equal(matrix.indices, of_labels.indices)
    )
    if not same:
        raise ValueError(
            "sparse propensities must store exactly the entries that the labels store; got "
            f"{matrix.nnz} in {matrix.shape} for {of_labels.nnz} labels in {of_labels.shape}."
        )
    values: NDArray[np.float64] = matrix.data.astype(np.float64)
    _in_unit_interval(values, lambda at: f"in row {row_of(matrix, at)}, label {matrix.indices[at]}")
    return values


def _in_unit_interval(values: NDArray[np.float64], where: Any) -> None:
    bad = np.flatnonzero(~((values > 0) & (values <= 1)))
    if bad.size:
        at = int(bad[0])
        raise ValueError(f"propensities must lie in (0, 1]; got {values[at]:g} {where(at)}.")


def finite(given: Floats, name: str) -> Floats:
    """`given` unchanged, if every number in it is finite."""
    bad = np.flatnonzero(~np.isfinite(given))
    if bad.size:
        at = np.unravel_index(int(bad[0]), given.shape)
        place = ", ".join(str(int(i)) for i in at)
        raise ValueError(f"{name} must be finite; got {given[at]} at position ({place}).")
    return given


def in_range(given: float, name: str, low: float, high: float) -> float:
    """`given`, if it lies in [low, high].

    >>> in_range(1.5, "tau", 0, 1)
    Traceback (most recent call last):
    ValueError: tau must lie in [0, 1]; got 1.5.
    """
    if not low <= given <= high:
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}]; got {given:g}.")
    return given


def one_of(given: str, known: Mapping[str, T] | Iterable[str], name: str) -> str:
    """`given`, if it is one of the `known` names; the message lists them.

    >>> one_of("hing", ["hinge", "logistic"], "loss")
    Traceback (most recent call last):
    ValueError: unknown loss 'hing'; use one of: hinge, logistic.
    """
    if given not in known:
        raise ValueError(f"unknown {name} {given!r}; use one of: {', '.join(sorted(known))}.")
    return given


def same_rows(left: Any, right: Any, left_name: str, right_name: str) -> None:
    """Both matrices describe the same instances."""
    if left.shape[0] != right.shape[0]:
        raise ValueError(
            f"{left_name} and {right_name} must have the same rows; "
            f"got {left.shape[0]} and {right.shape[0]}."
        )


def columns(given: Any, *, name: str = "features") -> sp.csr_array:
    """A sparse matrix of finite float32 values, indices sorted and unique, stored zeros kept.

    Features and scores come through here: a stored zero is a statement there ("scored 0").

    >>> columns([[0.0, 0.5]]).data
    array([0.5], dtype=float32)
    """
    matrix = _csr(given, name)
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused here
        values = matrix.data.astype(np.float32, copy=False)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        at = int(bad[0])
        raise ValueError(
            f"{name} must be finite as float32; got {matrix.data[at]} in row "
            f"{row_of(matrix, at)}, column {matrix.indices[at]}."
        )
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def narrow(matrix: sp.csr_array) -> sp.csr_array:
    """The same matrix with int32 indices, if they fit.

    >>> narrow(sp.csr_array(([1.0], np.array([3]), np.array([0, 1])), shape=(1, 4))).indices.dtype
    dtype('int32')
    """
    fits = max(matrix.nnz, *matrix.shape) <= np.iinfo(np.int32).max
    if not fits or matrix.indices.dtype == matrix.indptr.dtype == np.int32:
        return matrix
    indices, indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return sp.csr_array((matrix.data, indices, indptr), shape=matrix.shape)


def positive_int(given: Any, name: str) -> int:
    """`given` as an int, if it is a whole number of at least 1.

    >>> positive_int(0, "k")
    Traceback (most recent call last):
    ValueError: k must be a whole number of at least 1; got 0.
    """
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; got {given!r}.")
    return int(given)


def training_rows(n: float) -> None:
    """Refuse a number of training rows for which the Jain model has no propensities.

    >>> training_rows(2)
    Traceback (most recent call last):
    ValueError: the Jain model needs at least 3 training rows (ln n > 1); got 2.
    """
    if not 3 <= n < np.inf:
        raise ValueError(f"the Jain model needs at least 3 training rows (ln n > 1); got {n}.")


def per_label(given: ArrayLike, n_labels: int, name: str) -> NDArray[np.float64]:
    """One finite number ≥ 0 per label, as float64.

    >>> per_label([3, -1], 2, "label counts")
    Traceback (most recent call last):
    ValueError: label counts must be 0 or more; got -1 at label 1.
    """
    values = np.array(given, dtype=np.float64)
    if values.shape != (n_labels,):
        raise ValueError(f"{name} must be {n_labels} numbers, one per label; got {values.shape}.")
    finite(values, name)
    bad = np.flatnonzero(values < 0)
    if bad.size:
        raise ValueError(f"{name} must be 0 or more; got {values[bad[0]]:g} at label {bad[0]}.")
    return values


def same_shape(left: Any, right: Any, left_name: str, right_name: str) -> None:
    """Both matrices describe the same instances and the same labels."""
    if left.shape != right.shape:
        raise ValueError(
            f"{left_name} and {right_name} must have the same rows and labels; "
            f"got {left.shape} and {right.shape}."
        )
