"""`.npz` files: one matrix as scipy saves it, or a whole data set as `data.write` does.

A whole data set is a zip of plain arrays: `features_data`, `features_indices`, `features_indptr`,
`features_shape`, the same for `labels` and `filtered`, and `feature_names` and `label_names` as
UTF-8 bytes, one name per line. Nothing in either kind is unpickled.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from unmask._files import allowance
from unmask._files.stream import blocks, compression, contents, writing

Pathlike = str | os.PathLike[str]

_MATRICES = ("features", "labels", "filtered")
_NAMES = ("feature_names", "label_names")
_ARRAYS = ("data", "indices", "indptr", "shape")


def recognised(path: Pathlike) -> bool:
    """Whether the (decompressed) file is a zip archive."""
    return next(blocks(path, size=1 << 10), b"").startswith(b"PK\x03\x04")


def load(path: Pathlike) -> sp.csr_array | dict[str, Any]:
    """One matrix, or the parts of a data set by name."""
    try:
        with _opened(path) as file, np.load(file, allow_pickle=False) as stored:
            _refuse_bomb(path, stored)
            if "labels_indptr" in stored or "features_indptr" in stored:
                return _dataset(stored)
            file.seek(0)
            return _sound(sp.load_npz(file))
    except (KeyError, OSError, EOFError, zipfile.BadZipFile, MemoryError, TypeError) as error:
        raise ValueError(f"{path}: not a sparse matrix in .npz form ({error}).") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _opened(path: Pathlike) -> Any:
    return open(path, "rb") if compression(path) == "none" else io.BytesIO(contents(path))


def _refuse_bomb(path: Pathlike, stored: Any) -> None:
    """Raise if the archive's arrays are far larger than the archive."""
    members = stored.zip.infolist()
    packed = sum(member.compress_size for member in members)
    unpacked = sum(member.file_size for member in members)
    allowance.refuse_expansion(path, packed, unpacked, allowance.current())


def _dataset(stored: Any) -> dict[str, Any]:
    parts: dict[str, Any] = {"features": None, "labels": None}
    for name in _MATRICES:
        if f"{name}_indptr" in stored:
            data, indices, indptr, shape = (stored[f"{name}_{part}"] for part in _ARRAYS)
            matrix = sp.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
            matrix.check_format(full_check=True)
            parts[name] = matrix
    for name in _NAMES:
        if name in stored:
            parts[name] = tuple(stored[name].tobytes().decode().split("\n"))
    return parts


def _sound(matrix: Any) -> sp.csr_array:
    """`matrix` as CSR, once its indices are known to lie inside it."""
    if matrix.format not in ("csr", "csc", "coo"):
        raise ValueError(f"holds a matrix in {matrix.format} form; save it as csr.")
    if matrix.format != "coo":  # whose constructor has looked already
        matrix.check_format(full_check=True)
    return sp.csr_array(matrix)


def save_matrix(path: Pathlike, matrix: sp.csr_array) -> None:
    """One matrix, readable by `scipy.sparse.load_npz` of any version."""
    _save(path, lambda file: sp.save_npz(file, sp.csr_matrix(matrix)))


def save_dataset(path: Pathlike, dataset: Any) -> None:
    """Everything that a data set holds."""
    arrays = {}
    for name in _MATRICES:
        matrix = getattr(dataset, name)
        if matrix is not None:
            parts = (matrix.data, matrix.indices, matrix.indptr, np.array(matrix.shape))
            arrays.update({f"{name}_{k}": v for k, v in zip(_ARRAYS, parts, strict=True)})
    for name in _NAMES:
        names = getattr(dataset, name)
        if names:
            arrays[name] = np.frombuffer("\n".join(names).encode(), dtype=np.uint8)
    _save(path, lambda file: np.savez_compressed(file, **arrays))


def _save(path: Pathlike, save: Callable[[IO[bytes]], None]) -> None:
    """By way of memory: a zip archive is written back and forth, which no compressor follows."""
    archive = io.BytesIO()
    save(archive)
    with writing(path) as file:
        file.write(archive.getbuffer())
