"""`.npz` files: one matrix as scipy saves it, or a whole data set as `data.write` does.

A whole data set is a zip of plain arrays: `features_data`, `features_indices`, `features_indptr`,
`features_shape`, the same for `labels` and `judgements`; `ids`, `texts`, `feature_names` and
`label_names` as UTF-8 bytes, with `…_offsets` that say where each begins (names without offsets
stand one per line). Nothing in either kind is unpickled.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, cast
from zipfile import ZipFile

import numpy as np
import scipy.sparse as sp
from numpy.lib.npyio import NpzFile

from unmask._names import Strings
from unmask._typing import Array, PathLike
from unmask.arrays import checks
from unmask.files.streams import (
    Unpacked,
    atomic_write,
    compression,
    contents,
    first_bytes,
    open_readable,
    refuse_columns,
)

Parts = dict[str, sp.csr_array | tuple[str, ...] | Strings | None]
"""Matrices, names and texts of a data set; None: the file has none."""


_MATRICES = ("features", "labels", "judgements")
_NAMES = ("feature_names", "label_names")
_STRINGS = ("ids", "texts")
PARTS = (*_MATRICES, *_NAMES, *_STRINGS)
"""The fields of a data set that are stored."""

_ARRAYS = ("data", "indices", "indptr", "shape")


def recognised(path: PathLike) -> bool:
    """Return whether the (decompressed) file is a zip archive."""
    return first_bytes(path, 1 << 10).startswith(b"PK\x03\x04")


def is_array(path: PathLike) -> bool:
    """Return whether the (decompressed) file is one array, as `numpy.save` writes it."""
    return first_bytes(path, 1 << 10).startswith(b"\x93NUMPY")


def load_array(path: PathLike) -> Array:
    """Read the matrix of numbers in a `.npy` file."""
    with _file(path) as file:
        try:
            array = np.load(file, allow_pickle=False)
        except Exception as error:
            raise ValueError(f"{path}: not a sound .npy file ({error}).") from None
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(f"{path}: expected a matrix of scores, rows × labels.")
    return array


def load(path: PathLike) -> sp.csr_array | Parts:
    """Read one matrix, or the parts of a data set by name."""
    with opened(path) as stored:
        if any(f"{name}_indptr" in stored for name in ("labels", "features")) or "texts" in stored:
            return _dataset(stored)
        return _matrix(path, stored)


@contextmanager
def opened(path: PathLike) -> Iterator[NpzFile]:
    """Open the arrays of an archive by name; whatever is wrong with them is a ValueError.

    The parsers of zip, deflate and array headers raise what they like, from `zlib.error` to
    `tokenize.TokenError`.
    """
    with _file(path) as file:
        try:
            with np.load(file, allow_pickle=False) as stored:
                if not isinstance(stored, NpzFile):
                    raise ValueError("not an .npz file.")
                members = cast(ZipFile, stored.zip).infolist()
                packed = sum(member.compress_size for member in members)
                Unpacked(path, packed).add(sum(member.file_size for member in members))
                yield stored
        except ValueError as error:
            named = str(path) in str(error)
            raise ValueError(str(error) if named else f"{path}: {error}") from error
        except Exception as error:
            says = f"{type(error).__name__}: {error}"
            raise ValueError(f"{path}: not a sparse matrix in .npz form ({says}).") from error


def _file(path: PathLike) -> IO[bytes]:
    return open_readable(path) if compression(path) == "none" else io.BytesIO(contents(path))


def _dataset(stored: NpzFile) -> Parts:
    parts: Parts = {"features": None, "labels": None}
    for name in _MATRICES:
        if f"{name}_indptr" in stored:
            parts[name] = sparse(*(stored[f"{name}_{part}"] for part in _ARRAYS))
    for name in (*_NAMES, *_STRINGS):
        if f"{name}_offsets" in stored:
            strings = Strings.checked(stored[name], stored[f"{name}_offsets"], name)
            parts[name] = tuple(strings) if name in _NAMES else strings
        elif name in stored and name in _NAMES:
            parts[name] = tuple(stored[name].tobytes().decode().split("\n"))
    return parts


def _matrix(path: PathLike, stored: NpzFile) -> sp.csr_array:
    """Read a matrix as `scipy.sparse.save_npz` keeps it."""
    kind = stored["format"].item()
    kind = kind.decode("ascii") if isinstance(kind, bytes) else kind
    if kind not in ("csr", "csc", "coo"):
        raise ValueError(f"holds a matrix in {kind} form; save it as csr.")
    shape = stored["shape"]
    if kind != "csr":  # rows without entries are not in the file, but take memory
        refuse_columns(path, int(shape.max(initial=0)), "rows or columns")
    if kind == "csr":
        return sparse(*(stored[name] for name in _ARRAYS))
    if kind == "csc":
        turned = sparse(stored["data"], stored["indices"], stored["indptr"], shape[::-1])
        return sp.csr_array(turned.T)
    rows, columns, data = stored["row"], stored["col"], stored["data"]
    require_numbers(data, rows, columns)
    matrix = sp.coo_array((data, (rows, columns)), shape=tuple(shape.tolist()))
    return checks.matrix(matrix, name="values")


def sparse(data: Array, indices: Array, indptr: Array, shape: Iterable[int]) -> sp.csr_array:
    """Make CSR of the arrays of a file, all of which must be in use: else it was damaged.

    >>> sparse(np.ones(1), np.array([5]), np.array([0, 1]), (1, 4))
    Traceback (most recent call last):
    ValueError: values: row 0 names column 5, but the 4 columns are 0 … 3; count columns from 0.
    """
    require_numbers(data, indices, indptr)
    rows, columns = (int(size) for size in shape)
    matrix = checks.compressed(
        data, indices, indptr, (rows, columns), name="values", axes=("row", "column")
    )
    if matrix.nnz != indices.size:
        raise ValueError(f"rows end at {matrix.nnz}; there are {indices.size} values.")
    return matrix


def require_numbers(data: Array, *indices: Array) -> None:
    """Raise unless these are vectors of numbers, and of whole numbers."""
    kinds = [data.dtype.kind in "biuf", *(each.dtype.kind in "iu" for each in indices)]
    if not all(kinds) or any(each.ndim != 1 for each in (data, *indices)):
        types = ", ".join(f"{each.dtype} in shape {each.shape}" for each in (data, *indices))
        raise ValueError(
            f"values must be numbers and indices whole numbers, in a row; got {types}."
        )


def save_matrix(path: PathLike, matrix: sp.csr_array) -> None:
    """Write one matrix, readable by `scipy.sparse.load_npz` of any version."""
    _save(path, lambda file: sp.save_npz(file, sp.csr_matrix(matrix)))


def save_dataset(path: PathLike, parts: Parts) -> None:
    """Write all parts of a data set that there are."""
    arrays = {}
    for name, part in parts.items():
        if isinstance(part, sp.csr_array):
            values = (part.data, part.indices, part.indptr, np.array(part.shape))
            arrays.update({f"{name}_{k}": v for k, v in zip(_ARRAYS, values, strict=True)})
        elif part is not None:
            strings = Strings.of(part, name)
            arrays[name], arrays[f"{name}_offsets"] = strings.data, strings.offsets
    _save(path, lambda file: np.savez_compressed(file, **arrays))


def _save(path: PathLike, save: Callable[[IO[bytes]], None]) -> None:
    """Write by way of memory: a zip archive is written back and forth, unlike compressed data."""
    archive = io.BytesIO()
    save(archive)
    with atomic_write(path) as file:
        file.write(archive.getbuffer())
