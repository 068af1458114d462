"""Checked arrays: every array that a user hands in is validated here, once, and nowhere else.

Each function returns what the rest of the package may rely on, in one canonical form, and never
changes its argument:

- labels        `csr_array`, binary, indices sorted and unique, no stored zeros, float32 ones;
- propensities  float64, finite, in (0, 1], one per label (or one per stored label entry);
- scores        float, finite.

Nothing is taken on trust. scipy checks neither the range of indices nor, after a change in place,
their order, and kernels follow indices wherever they point: so the pattern of every sparse matrix
is checked on every call (by `_kernels.pattern`; docs/decisions/0015), and what scipy remembers of
the caller's object is neither read nor set.
What is stored beyond the end of the last row belongs to no row and is left out, as scipy does.

A message is a sentence with the offending value, where it stands, and what to do about it.
At the end stands what scipy's matrices lack: the pairs (row, column) that a matrix stores, and the
values at pairs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeAlias, TypeGuard, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask._kernels import pattern
from unmask._messages import function
from unmask._typing import Array, Bools, Floats, Integers, Ints

T = TypeVar("T")
Reals = TypeVar("Reals", bound=np.floating)
Shape = tuple[int, int]
Matrix: TypeAlias = "sp.sparray | Array"
_UNREADABLE = (ValueError, TypeError, IndexError, RuntimeError, OverflowError, AttributeError)


def labels(values: object, *, name: str = "labels") -> sp.csr_array:
    """Return a binary label matrix (rows × labels) as a canonical `csr_array`.

    >>> labels([[0, 1], [1, 1]]).indices
    array([1, 0, 1], dtype=int32)
    """
    checked = matrix(values, name=name, column="label")
    if not (checked.data == 1).all():
        checked = without_zeros(checked)
        wrong = np.flatnonzero(checked.data != 1)
        if wrong.size:
            entry = int(wrong[0])
            raise ValueError(
                f"{name} must be 0 or 1; got {checked.data[entry]} in row "
                f"{row_of(checked, entry)}, label {checked.indices[entry]}. Code a missing label "
                "as 0."
            )
    if checked.data.dtype == np.float32:
        return checked
    return _with_data(checked, np.ones(checked.nnz, dtype=np.float32))


def without_zeros(checked: sp.csr_array) -> sp.csr_array:
    """Return a matrix in which a stored zero says what an absent entry says: a copy, if need be."""
    if checked.data.all():
        return checked
    checked = checked.copy()
    checked.eliminate_zeros()
    return checked


def _with_data(pattern: sp.csr_array, data: Array) -> sp.csr_array:
    converted = sp.csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape)
    converted.has_canonical_format = True  # as that of `pattern`, which was checked
    return converted


def matrix(values: object, *, name: str, column: str = "column") -> sp.csr_array:
    """Return any matrix of real numbers, dense or sparse, as CSR with sorted, unique indices.

    The result may share memory with `values`; stored zeros are kept. `column` is what a column is
    called in messages.
    """
    if not is_sparse(values):
        return narrow(sp.csr_array(dense(values, name)))
    if len(values.shape) != 2:
        raise ValueError(f"{name} must be a matrix, rows × columns; got shape {values.shape}.")
    converted = _CONVERTERS.get(values.format, _of_other)(values, name, column)
    if not converted.has_canonical_format:  # of an object of ours, not what scipy remembers
        converted = converted.copy()
        converted.sort_indices()
        same_as_next = np.flatnonzero(np.diff(converted.indices) == 0)
        within_a_row = same_as_next[~np.isin(same_as_next + 1, converted.indptr)]
        if within_a_row.size:
            entry = int(within_a_row[0])
            row, repeated = row_of(converted, entry), int(converted.indices[entry])
            raise ValueError(_twice(name, row, repeated))
        converted.has_canonical_format = True
    return narrow(converted)


def compressed(
    data: object, indices: object, indptr: object, shape: Shape, *, name: str, axes: tuple[str, str]
) -> sp.csr_array:
    """Return CSR of unchecked arrays: indices are in range, not sorted and perhaps repeated.

    `axes` are the words for a row and a column.

    >>> compressed([1.0], [4], [0, 1], (1, 4), name="labels", axes=("row", "label"))
    Traceback (most recent call last):
    ValueError: labels: row 0 names label 4, but the 4 labels are 0 … 3; are labels counted from 1?
    Count them from 0.
    """
    stored = _vector(numbers(data, f"values of {name}"), f"values of {name}")
    columns, starts, rises = _pattern(indices, indptr, shape, len(stored), name, axes)
    converted = sp.csr_array((stored[: len(columns)], columns, starts), shape=shape)
    converted.has_canonical_format = rises
    return converted


def _pattern(
    indices: object, indptr: object, shape: Shape, stored: int, name: str, axes: tuple[str, str]
) -> tuple[Integers, Integers, bool]:
    """Return the indices in use, the starts of rows, and whether indices rise in every row.

    Both arrays are fit for a kernel, and int32 if that holds all their numbers.
    """
    columns = _integers(indices, f"{axes[1]} indices of {name}")
    starts = _integers(indptr, f"{axes[0]} starts (indptr) of {name}")
    rows, width = shape
    if min(shape) < 0 or len(starts) != rows + 1:
        raise ValueError(
            f"{name} of shape {shape} need {rows + 1} {axes[0]} starts (indptr); got {len(starts)}."
        )
    if len(columns) != stored:
        raise ValueError(f"{name} store {stored} values for {len(columns)} {axes[1]} indices.")
    falling = np.flatnonzero(starts[1:] < starts[:-1])
    if starts[0] != 0 or falling.size or starts[-1] > stored:
        raise ValueError(_bad_starts(starts, falling, stored, name, axes[0]))
    columns = columns[: int(starts[-1])]
    fits = index_type(len(columns), *shape) is np.int32
    narrowed = np.empty(len(columns) if fits and columns.dtype != np.int32 else 0, dtype=np.int32)
    entry, rises = pattern.examine(starts, columns, width, narrowed)
    if entry >= 0:
        row = int(np.searchsorted(starts, entry, side="right")) - 1
        raise ValueError(
            f"{name}: {axes[0]} {row} names {out_of_range(int(columns[entry]), width, axes[1])}"
        )
    if fits:
        starts = starts.astype(np.int32, copy=False)
    return narrowed if narrowed.size else columns, starts, rises


def _bad_starts(starts: Array, falling: NDArray[np.intp], stored: int, name: str, axis: str) -> str:
    if starts[0] != 0:
        return f"the {axis} starts (indptr) of {name} must begin at 0; got {starts[0]}."
    if falling.size:
        first, after = (int(starts[falling[0] + step]) for step in (0, 1))
        return (
            f"the {axis} starts (indptr) of {name} must not fall; got {after} after {first} "
            f"at {axis} {falling[0]}."
        )
    return f"the {axis}s of {name} end at entry {starts[-1]} (indptr), but {stored} are stored."


def out_of_range(index: int, size: int, noun: str) -> str:
    """Return the end of a sentence "row 3 names …" for an index that does not exist.

    >>> out_of_range(3, 3, "label")
    'label 3, but the 3 labels are 0 … 2; are labels counted from 1? Count them from 0.'
    """
    range_ = f"the {size} {noun}s are 0 … {size - 1}" if size else f"there are no {noun}s"
    advice = f"count {noun}s from 0."
    if index == size and size:
        advice = f"are {noun}s counted from 1? Count them from 0."
    elif index == -1:
        advice = (
            f"are {noun}s counted from 1 elsewhere, or does −1 fill up rows? Count {noun}s from 0 "
            "and leave fillers out."
        )
    return f"{noun} {index}, but {range_}; {advice}".replace(" -", " −")


def _twice(name: str, row: int, column: int) -> str:
    return (
        f"{name} names column {column} twice in row {row}; "
        "call `sum_duplicates()` or remove the repetition."
    )


def _of_compressed(values: sp.sparray, name: str, column: str) -> sp.csr_array:
    arrays = values.data, values.indices, values.indptr
    if values.format == "csr":
        return compressed(*arrays, values.shape, name=name, axes=("row", column))
    turned = compressed(*arrays, values.shape[::-1], name=name, axes=(column, "row"))
    return sp.csr_array(turned.T.tocsr())


def _of_coo(values: sp.sparray, name: str, column: str) -> sp.csr_array:
    """Refuse a repeated entry before scipy adds it up, which may overflow."""
    data = _vector(numbers(values.data, f"values of {name}"), f"values of {name}")
    rows = _coordinates(values.row, values.shape[0], "row", name)
    columns = _coordinates(values.col, values.shape[1], column, name)
    if not len(rows) == len(columns) == len(data):
        raise ValueError(
            f"{name} store {len(data)} values for {len(rows)} rows and {len(columns)} {column}s."
        )
    converted = sp.csr_array(sp.coo_array((data, (rows, columns)), shape=values.shape))
    if converted.nnz != len(data):
        order = np.lexsort((columns, rows))
        repeated = (np.diff(rows[order]) == 0) & (np.diff(columns[order]) == 0)
        entry = order[int(np.argmax(repeated))]
        raise ValueError(_twice(name, int(rows[entry]), int(columns[entry])))
    return converted


def _coordinates(indices: object, size: int, noun: str, name: str) -> Array:
    checked = _integers(indices, f"{noun} indices of {name}")
    if checked.size and not 0 <= checked.min() <= checked.max() < size:
        entry = int(np.argmax((checked < 0) | (checked >= size)))
        wrong = out_of_range(int(checked[entry]), size, noun)
        raise ValueError(f"{name}: entry {entry} names {wrong}")
    return checked


def _of_lil(values: sp.sparray, name: str, column: str) -> sp.csr_array:
    def convert() -> sp.csr_array:
        sizes = [[len(row) for row in part] for part in (values.rows, values.data)]
        if sizes[0] != sizes[1] or len(sizes[0]) != values.shape[0]:
            raise ValueError("other numbers of values than of indices")
        return values.tocsr()

    return _of_compressed(_converted(convert, values, name), name, column)


def _of_bsr(values: sp.sparray, name: str, column: str) -> sp.csr_array:
    (rows, columns), (high, wide) = values.shape, values.blocksize
    blocks, axes = (rows // high, columns // wide), ("row block", f"{column} block")
    _pattern(values.indices, values.indptr, blocks, len(values.data), name, axes)
    return _of_other(values, name, column)


def _of_other(values: sp.sparray, name: str, column: str) -> sp.csr_array:
    return _of_coo(_converted(values.tocoo, values, name), name, column)


def _converted(convert: Callable[[], sp.sparray], values: sp.sparray, name: str) -> sp.sparray:
    """Let scipy convert a matrix; word its complaints as ours."""
    try:
        return convert()
    except _UNREADABLE as error:
        raise ValueError(f"{name} are damaged in their {values.format} form: {error}.") from None


_CONVERTERS: dict[str, Callable[[sp.sparray, str, str], sp.csr_array]] = {
    "csr": _of_compressed,
    "csc": _of_compressed,
    "coo": _of_coo,
    "lil": _of_lil,
    "bsr": _of_bsr,
}


def dense(values: object, name: str, column: str = "column") -> Array:
    """Return a matrix of real numbers as an array, values unchecked; it may share memory."""
    array = _plain(values, name)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must be a matrix of numbers, rows × {column}s; got {array.dtype} in shape "
            f"{array.shape}."
        )
    return _native(array)


def numbers(values: object, name: str) -> Array:
    """Return an array of real numbers that scipy and kernels can read; it may share memory.

    Tensors are detached and brought to the CPU; a masked array is taken if nothing is masked.

    >>> numbers([1 + 2j], "scores")
    Traceback (most recent call last):
    ValueError: scores must be real numbers; got complex128 values.
    """
    array = _plain(values, name)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be real numbers; got {array.dtype} values.")
    return _native(array)


def _native(array: Array) -> Array:
    """Bring numbers to the byte order of this machine, and halves to float32: scipy has none."""
    if array.dtype == np.float16:
        return array.astype(np.float32)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _integers(values: object, name: str) -> Array:
    """Return a vector of int32 or int64."""
    array = _vector(_plain(values, name), name)
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"{name} must be whole numbers; got {array.dtype} values.")
    if array.dtype in (np.int32, np.int64):
        return array
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must be below 2^63; got {array.max()}.")
    return array.astype(np.int64)


def _vector(array: Array, name: str) -> Array:
    if array.ndim != 1:
        raise ValueError(f"{name} must stand in one row; got shape {array.shape}.")
    return np.ascontiguousarray(array)


def _plain(values: object, name: str) -> Array:
    """Return a numpy array of whatever type, with nothing hidden in it."""
    parts: Iterable[object] = values if isinstance(values, list | tuple) else (values,)
    for part in parts:
        if isinstance(part, np.ma.MaskedArray) and np.ma.getmaskarray(part).any():
            raise ValueError(
                f"{name} have masked entries ({int(np.ma.getmaskarray(part).sum())}), which have "
                "no value; fill them in with `filled`, or leave them out."
            )
    try:
        array = _of_tensor(cast(_Tensor, values)) if is_tensor(values) else np.asarray(values)
    except _UNREADABLE as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"{name} cannot be read as an array of numbers: {reason}") from None
    return _of_objects(array, name) if array.dtype == object else array


def _of_objects(array: Array, name: str) -> Array:
    """Return numbers kept as objects (pandas' Int64, categories) as numbers; others as they are.

    >>> _of_objects(np.array([1, True], dtype=object), "labels")
    array([1, 1])
    """
    cells = array.ravel().tolist()
    empty = [cell for cell in cells if cell is None or type(cell).__name__ == "NAType"]
    if empty:
        raise ValueError(
            f"{name} have {len(empty)} cells without a value, such as {empty[0]}; fill them in."
        )
    numeric = all(isinstance(cell, int | float | np.number | np.bool_) for cell in cells)
    return np.array(array.tolist()) if numeric and cells else array


def is_sparse(values: object) -> TypeGuard[sp.sparray]:
    """Return whether this is a sparse matrix or array of scipy."""
    return bool(sp.issparse(values))


class _Tensor(Protocol):
    """The part of a torch tensor that is used; torch is not imported."""

    layout: object

    def numpy(self, *, force: bool) -> Array: ...

    def float(self) -> _Tensor: ...


def is_tensor(values: object) -> bool:
    """Return whether this is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def _of_tensor(tensor: _Tensor) -> Array:
    if tensor.layout is not sys.modules["torch"].strided:
        raise ValueError("it is a sparse tensor; give a dense one, or a scipy.sparse matrix.")
    try:
        return np.asarray(tensor.numpy(force=True))
    except TypeError:  # bfloat16 and other types that numpy does not have
        return np.asarray(tensor.float().numpy(force=True))


def width(values: object, name: str) -> int:
    """Return the number of columns of a matrix; whoever reads its contents checks them."""
    shape = values.shape if is_sparse(values) else _plain(values, name).shape
    if len(shape) != 2:
        raise ValueError(f"{name} must be a matrix of numbers, rows × columns; got shape {shape}.")
    return int(shape[1])


def row_of(checked: sp.csr_array, entry: int) -> int:
    """Return the row in which a stored entry of a checked matrix stands."""
    return int(np.searchsorted(checked.indptr, entry, side="right")) - 1


def propensity(values: object, n_labels: int | None = None) -> Floats:
    """Return one propensity per label, float64 in (0, 1].

    >>> propensity([0.5, 1.7])
    Traceback (most recent call last):
    ValueError: propensities must lie in (0, 1]; got 1.7 at label 1.
    """
    checked = np.array(numbers(values, "propensities"), dtype=np.float64)
    if checked.ndim != 1:
        raise ValueError(f"propensities must be one number per label; got shape {checked.shape}.")
    if n_labels is not None and checked.size != n_labels:
        raise ValueError(f"{checked.size} propensities for {n_labels} labels; give one per label.")
    _in_unit_interval(checked, lambda entry: f"at label {entry}")
    return checked


LEAST_PROPENSITY = 1e-30
"""The smallest propensity of anything weighed in float32, which ends at 3e38."""


def singles_propensity(values: Floats, of: str) -> Floats:
    """Return propensities unchanged, if float32 holds their inverse with room to spare.

    >>> singles_propensity(np.array([0.5, 1e-45]), "this loss")
    Traceback (most recent call last):
    ValueError: this loss needs propensities of at least 1e-30; got 1e-45 at label 1. Raise them \
with `propensity.clip`.
    """
    if values.min(initial=1.0) < LEAST_PROPENSITY:
        lowest = int(np.argmin(values))
        raise ValueError(
            f"{of} needs propensities of at least {LEAST_PROPENSITY:g}; got {values[lowest]:g} at "
            f"label {lowest}. Raise them with {function('propensity.clip')}."
        )
    return values


def entry_propensity(values: object, of_labels: sp.csr_array) -> Floats:
    """Return the propensity of every stored entry of checked labels, in storage order.

    `values` is one number per label, or a sparse matrix with the pattern of the labels (p_ij).
    """
    if not is_sparse(values):
        return np.asarray(propensity(values, of_labels.shape[1])[of_labels.indices])
    checked = matrix(values, name="propensities", column="label")
    if not same_pattern(checked, of_labels):
        raise ValueError(
            "sparse propensities must store exactly the entries that the labels store; got "
            f"{checked.nnz} in {checked.shape} for {of_labels.nnz} labels in {of_labels.shape}."
        )
    chances: Floats = checked.data.astype(np.float64)
    _in_unit_interval(
        chances,
        lambda entry: f"in row {row_of(checked, entry)}, label {checked.indices[entry]}",
    )
    return chances


def inverse_by_entry(indptr: object, values: object) -> tuple[Array, Floats]:
    """Return row starts, and 1/p of every entry: finite numbers of at least 1."""
    name = "inverse propensities"
    inverse = _vector(numbers(values, name), name).astype(np.float64, copy=False)
    starts = _integers(indptr, "row starts (indptr)")
    _pattern(
        np.zeros(len(inverse), dtype=np.int32), starts, (len(starts) - 1, 1), len(inverse), name,
        ("row", "label"),
    )  # fmt: skip
    bad = np.flatnonzero(~((inverse >= 1) & (inverse < np.inf)))
    if bad.size:
        raise ValueError(
            f"{name} must be finite and at least 1; got {inverse[bad[0]]:g} at entry {bad[0]}."
        )
    return starts, inverse[: int(starts[-1])]


def same_pattern(left: sp.csr_array, right: sp.csr_array) -> bool:
    """Return whether two checked matrices store the same entries."""
    return (
        left.shape == right.shape
        and np.array_equal(left.indptr, right.indptr)
        and np.array_equal(left.indices, right.indices)
    )


def _in_unit_interval(values: Floats, describe: Callable[[int], str]) -> None:
    bad = np.flatnonzero(~((values > 0) & (values <= 1)))
    if bad.size:
        entry = int(bad[0])
        raise ValueError(
            f"propensities must lie in (0, 1]; got {values[entry]:g} {describe(entry)}."
        )


def indices(values: object, size: int, name: str) -> None:
    """Refuse whole numbers that are not in 0 … size − 1; None is fine.

    >>> indices([0, 3], 3, "rows")
    Traceback (most recent call last):
    ValueError: rows must lie in 0 … 2; got 3 at position 1.
    """
    if values is None:
        return
    checked = _integers(values, name)
    wrong = np.flatnonzero((checked < 0) | (checked >= size))
    if wrong.size:
        raise ValueError(
            f"{name} must lie in 0 … {size - 1}; got {checked[wrong[0]]} at position {wrong[0]}."
        )


def finite(values: NDArray[Reals], name: str) -> NDArray[Reals]:
    """Return `values` unchanged, if every number in it is finite."""
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        entry = np.unravel_index(int(bad[0]), values.shape)
        place = ", ".join(str(int(i)) for i in entry)
        raise ValueError(f"{name} must be finite; got {values[entry]} at position ({place}).")
    return values


def in_range(value: float, name: str, low: float, high: float) -> float:
    """Return `value`, if it lies in [low, high].

    >>> in_range(1.5, "tau", 0, 1)
    Traceback (most recent call last):
    ValueError: tau must lie in [0, 1]; got 1.5.
    """
    if not low <= value <= high:
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}]; got {value:g}.")
    return value


def confidence(value: float) -> float:
    """Return the confidence of an interval: at least one half and less than 1.

    >>> confidence(1)
    Traceback (most recent call last):
    ValueError: confidence must be at least 0.5 and less than 1; got 1.
    """
    if not 0.5 <= value <= 1 - 1e-9:
        raise ValueError(f"confidence must be at least 0.5 and less than 1; got {value:g}.")
    return value


def one_of(choice: str, choices: Mapping[str, T] | Iterable[str], name: str) -> str:
    """Return `choice`, if it is one of the `choices`; the message lists them.

    >>> one_of("hing", ["hinge", "logistic"], "loss")
    Traceback (most recent call last):
    ValueError: unknown loss 'hing'; use one of: hinge, logistic.
    """
    if choice not in choices:
        raise ValueError(f"unknown {name} {choice!r}; use one of: {', '.join(sorted(choices))}.")
    return choice


def same_rows(left: Matrix, right: Matrix, left_name: str, right_name: str) -> None:
    """Refuse two matrices of different numbers of rows."""
    if left.shape[0] != right.shape[0]:
        raise ValueError(
            f"{left_name} and {right_name} must have the same rows; "
            f"got {left.shape[0]} and {right.shape[0]}."
        )


def same_shape(left: Matrix, right: Matrix, left_name: str, right_name: str) -> None:
    """Refuse two matrices of different shapes."""
    if left.shape != right.shape:
        raise ValueError(
            f"{left_name} and {right_name} must have the same rows and labels; "
            f"got {left.shape} and {right.shape}."
        )


def columns(values: object, *, name: str = "features", column: str = "feature") -> sp.csr_array:
    """Return a sparse matrix of finite float32 values, indices sorted, stored zeros kept.

    Features and scores come through here: a stored zero is a statement there ("scored 0").

    >>> columns([[0.0, 0.5]]).data
    array([0.5], dtype=float32)
    """
    checked = matrix(values, name=name, column=column)
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused here
        singles = checked.data.astype(np.float32, copy=False)
    bad = np.flatnonzero(~np.isfinite(singles))
    if bad.size:
        entry = int(bad[0])
        raise ValueError(
            f"{name} must be finite as float32; got {checked.data[entry]} in row "
            f"{row_of(checked, entry)}, column {checked.indices[entry]}."
        )
    return _with_data(checked, singles)


def index_type(*sizes: int) -> type[np.int32] | type[np.int64]:
    """Return the type for indices and row starts of a matrix; scipy wants one for both.

    >>> index_type(10, 3_000_000_000).__name__
    'int64'
    """
    return np.int32 if max(sizes) <= np.iinfo(np.int32).max else np.int64


def narrow(checked: sp.csr_array) -> sp.csr_array:
    """Return the matrix with int32 indices, if they fit.

    >>> narrow(sp.csr_array(([1.0], np.array([3]), np.array([0, 1])), shape=(1, 4))).indices.dtype
    dtype('int32')
    """
    index = index_type(checked.nnz, *checked.shape)
    if index is np.int64 or checked.indices.dtype == checked.indptr.dtype == np.int32:
        return checked
    indices, indptr = checked.indices.astype(index), checked.indptr.astype(index)
    return sp.csr_array((checked.data, indices, indptr), shape=checked.shape)


def positive_int(value: object, name: str) -> int:
    """Return `value` as an int, if it is a whole number of at least 1.

    >>> positive_int(0, "k")
    Traceback (most recent call last):
    ValueError: k must be a whole number of at least 1; got 0.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}.")
    return int(value)


def training_rows(n: float) -> None:
    """Refuse a number of training rows for which the Jain model has no propensities.

    >>> training_rows(2)
    Traceback (most recent call last):
    ValueError: the Jain model needs at least 3 training rows (ln n > 1); got 2.
    """
    if not 3 <= n < np.inf:
        raise ValueError(f"the Jain model needs at least 3 training rows (ln n > 1); got {n}.")


def per_label(values: object, n_labels: int, name: str) -> Floats:
    """Return one finite number ≥ 0 per label, as float64.

    >>> per_label([3, -1], 2, "label counts")
    Traceback (most recent call last):
    ValueError: label counts must be 0 or more; got -1 at label 1.
    """
    checked = np.array(numbers(values, name), dtype=np.float64)
    if checked.shape != (n_labels,):
        raise ValueError(f"{name} must be {n_labels} numbers, one per label; got {checked.shape}.")
    finite(checked, name)
    bad = np.flatnonzero(checked < 0)
    if bad.size:
        raise ValueError(f"{name} must be 0 or more; got {checked[bad[0]]:g} at label {bad[0]}.")
    return checked


MOST_OUTSIDE = 0.05
"""The share of observed labels of an audit that may be spurious before a swap is suspected."""


def audited_pair(observed: sp.csr_array, complete: sp.csr_array) -> None:
    """Refuse observed and complete labels of audited rows that are swapped, or of other rows.

    More than `MOST_OUTSIDE` of the observed labels outside the complete ones are an error if there
    were fewer the other way round, and more than half of them always.

    >>> import scipy.sparse as sp
    >>> observed, true_labels = sp.csr_array([[1, 0, 0.0]]), sp.csr_array([[1, 1, 1.0]])
    >>> audited_pair(observed, true_labels)
    >>> audited_pair(true_labels, observed)
    Traceback (most recent call last):
    ValueError: 2 of 3 observed labels are not among the complete ones, and 0 of 1 the other way \
round: are the two swapped? Give the observed labels first, then the complete ones.
    """
    same_shape(observed, complete, "observed", "complete")
    both = observed.multiply(complete).nnz
    outside, reverse = observed.nnz - both, complete.nnz - both
    share, reverse_share = outside / max(observed.nnz, 1), reverse / max(complete.nnz, 1)
    if share <= MOST_OUTSIDE or (share <= 0.5 and reverse_share >= share):
        return
    counted = f"{outside} of {observed.nnz} observed labels are not among the complete ones"
    if reverse_share < share:
        raise ValueError(
            f"{counted}, and {reverse} of {complete.nnz} the other way round: are the two swapped? "
            "Give the observed labels first, then the complete ones."
        )
    raise ValueError(f"{counted}; are these the same rows, in the same order?")


def stored_in(matrix: sp.csr_array, row: int) -> Integers:
    """Return the columns that a row of a checked matrix stores.

    >>> stored_in(sp.csr_array([[0, 1, 1], [1, 0, 0]]), 0)
    array([1, 2], dtype=int32)
    """
    start, stop = matrix.indptr[row : row + 2]
    return np.asarray(matrix.indices[start:stop])


def entry_rows(matrix: sp.csr_array) -> Ints:
    """Return the row of every stored entry; its column is in `indices`.

    >>> entry_rows(sp.csr_array([[0, 1, 1], [0, 0, 0], [1, 0, 0]]))
    array([0, 0, 2])
    """
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def pair_keys(matrix: sp.csr_array) -> Ints:
    """Return row · L + label of every stored pair of a checked matrix, rising.

    >>> pair_keys(sp.csr_array([[0, 1, 1], [0, 0, 0], [1, 0, 0]]))
    array([1, 2, 6])
    """
    return np.asarray(entry_rows(matrix) * matrix.shape[1] + matrix.indices)


def values_at(matrix: sp.csr_array, rows: Integers, columns: Integers) -> Floats:
    """Return the values at pairs of row and column, 0 where nothing is stored; (m,) floats.

    For no pairs at all, scipy answers with a sparse array, which NumPy takes for one object.

    >>> matrix = sp.csr_array([[0.0, 5.0], [7.0, 0.0]])
    >>> values_at(matrix, np.array([0, 1, 1]), np.array([1, 1, 0]))
    array([5., 0., 7.])
    >>> values_at(matrix, np.array([], int), np.array([], int))
    array([], dtype=float64)
    """
    if not len(rows):
        return np.zeros(0)
    return np.asarray(matrix[rows, columns], dtype=np.float64).ravel()


def chosen_entries(matrix: sp.csr_array, chosen: Bools) -> sp.csr_array:
    """Return the matrix with some of its stored entries, zeros among them; `chosen` has (nnz,).

    >>> chosen_entries(sp.csr_array([[5.0, 7.0], [0.0, 1.0]]), np.array([False, True, True])).data
    array([7., 1.])
    """
    before = np.r_[0, np.cumsum(chosen)].astype(matrix.indptr.dtype)
    parts = matrix.data[chosen], matrix.indices[chosen], before[matrix.indptr]
    return sp.csr_array(parts, shape=matrix.shape)
