"""The pair of label weights as a value: rows can be taken out of it, and it keeps in a file."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from unmask import _io, _validation
from unmask._io import archive
from unmask._text import html_table
from unmask._typing import Array, Bools, Integers, MatrixLike, PathLike

RowsLike: TypeAlias = "int | slice | list[int] | list[bool] | Integers | Bools"
"""Rows by number, slice, list or boolean mask."""


@dataclass(frozen=True)
class Weights:
    """`pos` and `cut` of every observed label: float64 matrices with the pattern of the labels.

    A row of weights belongs to a row of labels; `weights[rows]` takes rows out as a Weights, by
    number, slice, list or boolean mask. Where both are equal, `cut` is the same object as `pos`.

    Parameters
    ----------
    pos : (n, L) sparse floats
        The weight of ℓ₊ of every observed label.
    cut : (n, L) sparse floats
        How much of ℓ₋ of every observed label is taken away; stores the same entries as `pos`.

    Raises
    ------
    ValueError
        If a matrix is damaged, a weight is not finite, or the entries differ.

    Examples
    --------
    >>> from unmask import weights
    >>> w = weights.bound([[1, 1], [0, 1]], [0.5, 0.25])
    >>> w.pos.toarray()
    array([[3., 7.],
           [0., 7.]])
    >>> w[1].pos.toarray()
    array([[0., 7.]])
    """

    pos: sp.csr_array
    cut: sp.csr_array

    def __post_init__(self) -> None:
        """Bring both to float64 in canonical form, and refuse what are no label weights.

        Matrices can be changed in place, so whoever uses weights makes the record again.
        """
        pos = _matrix(self.pos)
        cut = pos if self.cut is self.pos else _matrix(self.cut)
        if cut is not pos and not _validation.same_pattern(pos, cut):
            raise ValueError(
                f"pos and cut of label weights must store the same entries; got {pos.nnz} in "
                f"{pos.shape} and {cut.nnz} in {cut.shape}."
            )
        object.__setattr__(self, "pos", pos)
        object.__setattr__(self, "cut", cut)

    def _repr_html_(self) -> str:
        """What a notebook shows: sizes and the range of the weights."""
        rows = [
            [name, f"{values.min(initial=0):.4g}", f"{values.max(initial=0):.4g}"]
            for name, values in (("pos", self.pos.data), ("cut", self.cut.data))
        ]
        caption = f"weights of {self.pos.nnz:,} observed labels in {self.pos.shape[0]:,} rows"
        return html_table(caption, ["", "lowest", "highest"], rows)

    def __getitem__(self, rows: RowsLike) -> Weights:
        """The weights of some rows."""
        chosen = np.atleast_1d(np.arange(self.pos.shape[0])[rows])
        if not (_has_rows(self.pos, chosen) and _has_rows(self.cut, chosen)):
            return replace(self)[rows]  # which checks all rows and raises
        pos = self.pos[chosen]
        return Weights(pos, pos if self.cut is self.pos else self.cut[chosen])


def write(path: PathLike, weights: Weights) -> None:
    """Keep weights in a `.npz` file (plain arrays, no pickle); `read` gives back the same bits.

    The file appears whole or not at all.

    Parameters
    ----------
    path : path
        With `.npz.gz` or `.npz.zst` the file is compressed.
    weights : Weights

    Raises
    ------
    ValueError
        If the matrices were changed into something that is no label weights.

    Examples
    --------
    >>> import tempfile
    >>> from unmask import weights
    >>> path = tempfile.mkdtemp() + "/weights.npz"
    >>> weights.write(path, weights.bound([[1, 0]], [0.5, 0.5]))
    >>> weights.read(path).pos.toarray()
    array([[3., 0.]])
    """
    weights = replace(weights)
    pos = weights.pos
    arrays = {"shape": pos.shape, "indptr": pos.indptr, "indices": pos.indices, "pos": pos.data}
    if weights.cut is not pos:
        arrays["cut"] = weights.cut.data
    buffer = io.BytesIO()  # an archive seeks, which a compressed file cannot
    np.savez(buffer, **arrays)
    with _io.atomic_write(path) as file:
        file.write(buffer.getbuffer())


def read(path: PathLike) -> Weights:
    """Weights that `write` has kept.

    Parameters
    ----------
    path : path
        A file that `write` made.

    Returns
    -------
    Weights

    Raises
    ------
    ValueError
        If the file is none of `write`'s, or damaged.

    Examples
    --------
    >>> import tempfile
    >>> from unmask import weights
    >>> path = tempfile.mkdtemp() + "/weights.npz.zst"
    >>> weights.write(path, weights.unbiased([[1, 0]], [0.5, 0.5]))
    >>> weights.read(path).pos.toarray()
    array([[2., 0.]])
    """
    if not archive.recognised(path):
        raise ValueError(f"{os.fspath(path)} is not a file that `weights.write` made.")
    with archive.opened(path) as file:
        if not {"shape", "indptr", "indices", "pos"} <= set(file.files):
            raise ValueError(
                f"{os.fspath(path)} holds {', '.join(file.files)} but no label weights; "
                "give a file that `weights.write` made."
            )
        pattern = (file["indices"], file["indptr"], file["shape"])
        pos = archive.sparse(_numbers(file["pos"]), *pattern)
        cut = archive.sparse(_numbers(file["cut"]), *pattern) if "cut" in file.files else pos
    return Weights(pos, cut)


def _numbers(values: Array) -> Array:
    """Stored weights as finite float64."""
    archive.require_numbers(values)
    return _validation.finite(values.astype(np.float64, copy=False), "label weights")


def _matrix(values: MatrixLike) -> sp.csr_array:
    checked = _validation.matrix(values, name="label weights", column="label")
    numbers = _validation.finite(checked.data.astype(np.float64, copy=False), "label weights")
    return checked if numbers is checked.data else with_values(checked, numbers)


def _has_rows(matrix: sp.csr_array, rows: Integers) -> bool:
    """Whether these rows can be taken out, in time that depends on them alone; scipy trusts."""
    starts, indices, data = matrix.indptr, matrix.indices, matrix.data
    kinds = starts.dtype.kind, indices.dtype.kind, data.dtype
    if kinds != ("i", "i", np.float64) or starts.shape != (matrix.shape[0] + 1,):
        return False
    if data.ndim != 1 or data.shape != indices.shape:
        return False
    first, after = starts[rows], starts[rows + 1]
    sound = (first >= 0) & (first <= after) & (after <= data.size)
    return bool(starts[0] == 0 and sound.all())


def with_values(pattern: sp.csr_array, values: Array) -> sp.csr_array:
    """A matrix that shares the pattern (and its index arrays) and holds other values."""
    return sp.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)
