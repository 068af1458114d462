"""Sparse rows to text, chunk by chunk on all cores."""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask._io.streams import atomic_write
from unmask._kernels import in_chunks, row_bounds
from unmask._typing import PathLike, Singles

_CHUNKS_HELD = 16


def write_rows(
    path: PathLike,
    header: tuple[int, ...],
    entries: sp.csr_array,
    labels: sp.csr_array | None = None,
) -> None:
    """Write `header`, if any, and the rows `l,l i:v i:v` (without `labels`: `i:v i:v`) at once.

    A value is written with the fewest decimal places that read back as the same float32.
    """
    with atomic_write(path) as file:
        if header:
            file.write(" ".join(str(number) for number in header).encode() + b"\n")
        bounds = row_bounds(entries.indptr if labels is None else entries.indptr + labels.indptr)
        for start in range(0, len(bounds) - 1, _CHUNKS_HELD):
            chunk_bounds = bounds[start : start + _CHUNKS_HELD + 1]
            for rendered in in_chunks(chunk_bounds, partial(_rendered, entries, labels)):
                file.write(rendered)


def _rendered(
    entries: sp.csr_array, labels: sp.csr_array | None, start: int, stop: int
) -> memoryview:
    from unmask._kernels import render

    indptr, values = entries.indptr, entries.data
    names = (indptr[:0], entries.indices[:0]) if labels is None else (labels.indptr, labels.indices)
    n_names = 0 if labels is None else int(names[0][stop] - names[0][start])
    own = values[indptr[start] : indptr[stop]]
    out = np.empty(48 * len(own) + 20 * n_names + 2 * (stop - start), dtype=np.uint8)
    length = render.render(
        *names, indptr, entries.indices, values, start, stop, _by_python(own), out
    )
    return out[:length].data


def _by_python(values: Singles) -> NDArray[np.uint8]:
    """The values that the kernel leaves to Python, one per row, as zero-padded ASCII."""
    from unmask._kernels.render import HIGHEST, LOWEST

    size = np.abs(values.astype(np.float64))  # in float32 the bounds would be others
    left = values[(size != 0) & ~((size >= LOWEST) & (size < HIGHEST))]
    return (
        np.array([str(value) for value in left] or [""], dtype="S24").view(np.uint8).reshape(-1, 24)
    )
