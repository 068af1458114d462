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
from typing import IO, Protocol, cast
from zipfile import ZipFile

import numpy as np
import scipy.sparse as sp
from numpy.lib.npyio import NpzFile

from unmask._io.file_limits import current_limits, refuse_columns, refuse_expansion
from unmask._io.streams import atomic_write, blocks, compression, contents, open_readable
from unmask._names import Strings
from unmask._typing import Array, PathLike
from unmask.arrays import checks

Parts = dict[str, sp.csr_array | tuple[str, ...] | Strings | None]
"""Matrices, names and texts of a data set; None: the file has none."""


class Stored(Protocol):
    """A data set, as far as it is stored."""

    @property
    def features(self) -> sp.csr_array | None: ...

    @property
    def labels(self) -> sp.csr_array | None: ...

    @property
    def judgements(self) -> sp.csr_array | None: ...

    @property
    def feature_names(self) -> tuple[str, ...] | None: ...

    @property
    def label_names(self) -> tuple[str, ...] | None: ...

    @property
    def ids(self) -> Strings | None: ...

    @property
    def texts(self) -> Strings | None: ...


_MATRICES = ("features", "labels", "judgements")
_NAMES = ("feature_names", "label_names")
_STRINGS = ("ids", "texts")
_ARRAYS = ("data", "indices", "indptr", "shape")


def recognised(path: PathLike) -> bool:
    """Whether the (decompressed) file is a zip archive."""
    return next(blocks(path, size=1 << 10), b"").startswith(b"PK\x03\x04")


def is_array(path: PathLike) -> bool:
    """Whether the (decompressed) file is one array, as `numpy.save` writes it."""
    return next(blocks(path, size=1 << 10), b"").startswith(b"\x93NUMPY")


def load_array(path: PathLike) -> Array:
    """The matrix of numbers in a `.npy` file."""
    with _file(path) as file:
        try:
            array = np.load(file, allow_pickle=False)
        except Exception as error:
            raise ValueError(f"{path}: not a sound .npy file ({error}).") from None
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(f"{path}: expected a matrix of scores, rows × labels.")
    return array


def load(path: PathLike) -> sp.csr_array | Parts:
    """One matrix, or the parts of a data set by name."""
    with opened(path) as stored:
        if any(f"{name}_indptr" in stored for name in ("labels", "features")) or "texts" in stored:
            return _dataset(stored)
        return _matrix(path, stored)


@contextmanager
def opened(path: PathLike) -> Iterator[NpzFile]:
    """The arrays of an archive by name; whatever is wrong with them is a ValueError.

    The parsers of zip, deflate and array headers raise what they like, from `zlib.error` to
    `tokenize.TokenError`.
    """
    with _file(path) as file:
        try:
            with np.load(file, allow_pickle=False) as stored:
                if not isinstance(stored, NpzFile):
                    raise ValueError("not an .npz file.")
                _refuse_bomb(path, stored)
                yield stored
        except ValueError as error:
            named = str(path) in str(error)
            raise ValueError(str(error) if named else f"{path}: {error}") from error
        except Exception as error:
            says = f"{type(error).__name__}: {error}"
            raise ValueError(f"{path}: not a sparse matrix in .npz form ({says}).") from error


def _file(path: PathLike) -> IO[bytes]:
    return open_readable(path) if compression(path) == "none" else io.BytesIO(contents(path))


def _refuse_bomb(path: PathLike, stored: NpzFile) -> None:
    """Raise if the archive's arrays are far larger than the archive."""
    members = cast(ZipFile, stored.zip).infolist()
    packed = sum(member.compress_size for member in members)
    unpacked = sum(member.file_size for member in members)
    refuse_expansion(path, packed, unpacked, current_limits())


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
    """A matrix as `scipy.sparse.save_npz` keeps it."""
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
    """CSR from the arrays of a file, all of which must be in use: else it was damaged.

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
    """One matrix, readable by `scipy.sparse.load_npz` of any version."""
    _save(path, lambda file: sp.save_npz(file, sp.csr_matrix(matrix)))


def save_dataset(path: PathLike, dataset: Stored) -> None:
    """Everything that a data set holds."""
    arrays = {}
    for name in _MATRICES:
        matrix = getattr(dataset, name)
        if matrix is not None:
            parts = (matrix.data, matrix.indices, matrix.indptr, np.array(matrix.shape))
            arrays.update({f"{name}_{k}": v for k, v in zip(_ARRAYS, parts, strict=True)})
    for name in (*_NAMES, *_STRINGS):
        if getattr(dataset, name) is not None:
            strings = Strings.of(getattr(dataset, name), name)
            arrays[name], arrays[f"{name}_offsets"] = strings.data, strings.offsets
    _save(path, lambda file: np.savez_compressed(file, **arrays))


def _save(path: PathLike, save: Callable[[IO[bytes]], None]) -> None:
    """By way of memory: a zip archive is written back and forth, which no compressor follows."""
    archive = io.BytesIO()
    save(archive)
    with atomic_write(path) as file:
        file.write(archive.getbuffer())
