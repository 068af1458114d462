"""Targets of any kind → the labels of each row as a rectangle (n, m), short rows filled with −1.

Three kinds are understood: dense 0/1 of the logits' shape; sparse COO or CSR of that shape, with
ones for observed labels; label numbers (n, m), distinct in a row, negative for no label. Integers
of the logits' own shape are taken for 0/1.

Nothing is taken on trust: torch checks the indices of sparse tensors only when asked to, and adds
repeated entries up. Label numbers that repeat or do not exist are refused as well, except inside a
compiled graph, which cannot stop: there `invalid_rows` marks their rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask import _validation

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def label_index(targets: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(n, m) label numbers, −1 where a row has fewer than m labels.

    >>> label_index(torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]), (2, 3))
    tensor([[ 1,  2],
            [ 0, -1]])
    """
    if not isinstance(targets, Tensor) or targets.is_complex() or targets.ndim != 2:
        raise ValueError(
            "targets must be a tensor of rows × labels or rows × label numbers, not complex; got "
            f"{_described(targets)}."
        )
    same = tuple(targets.shape) == tuple(shape)
    numbers = targets.layout is torch.strided and targets.dtype in _INTEGERS and not same
    if len(targets) != shape[0] or not (numbers or same):
        raise ValueError(
            f"targets of shape {tuple(targets.shape)} for logits of shape {tuple(shape)}; give 0/1 "
            "of the same shape, or integer label numbers with one row for each row of the logits."
        )
    if not numbers:
        index: Tensor = _observed_index(targets)
        return index
    index = targets.long().clamp(min=-1)
    if not torch.compiler.is_compiling():
        _refuse_numbers(index, shape[1])
    return index


def invalid_rows(index: Tensor, n_labels: int) -> Tensor:
    """(n,) whether a row of label numbers names a label twice, or one that does not exist.

    >>> invalid_rows(torch.tensor([[0, 2, -1, -1], [1, 1, 0, -1], [0, 3, 1, -1]]), 3)
    tensor([False,  True,  True])
    """
    ordered = index.sort(dim=1).values
    again = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    return again.any(1) | (index >= n_labels).any(1)


def _refuse_numbers(index: Tensor, n_labels: int) -> None:
    bad = invalid_rows(index, n_labels)
    if not bad.any():
        return
    row = int(bad.nonzero()[0])
    largest = int(index[row].max())
    if largest >= n_labels:
        raise ValueError(
            f"targets: row {row} names {_validation.out_of_range(largest, n_labels, 'label')}"
        )
    ordered = index[row].sort().values
    label = int(ordered[1:][(ordered.diff() == 0) & (ordered[1:] >= 0)][0])
    raise ValueError(f"targets name label {label} twice in row {row}; keep one of them.")


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _observed_index(targets: Tensor) -> Tensor:
    """The width m depends on the values, which no compiled graph can know."""
    if targets.layout is torch.strided:
        rows, columns = targets.nonzero(as_tuple=True)
        values = targets[rows, columns]
    else:
        rows, columns, values = _in_order(*_entries(targets), tuple(targets.shape))
    return _rectangle(_as_observed(values, columns), torch.bincount(rows, minlength=len(targets)))


def _entries(targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row, column and value of every stored entry of a sparse tensor."""
    if targets.layout not in (torch.sparse_coo, torch.sparse_csr) or targets.dense_dim():
        raise ValueError(
            "targets must be dense, or COO or CSR with one number per entry; got the layout "
            f"{targets.layout} with {targets.dense_dim()} dense dimensions."
        )
    if targets.layout is torch.sparse_coo:
        (rows, columns), values = targets._indices(), targets._values()
    else:
        columns, values = targets.col_indices(), targets.values()
        rows = _rows_of(targets.crow_indices(), len(columns))
    if not len(rows) == len(columns) == len(values):
        raise ValueError(f"targets store {len(values)} values for {len(columns)} label indices.")
    return rows.long(), columns.long(), values


def _rows_of(starts: Tensor, stored: int) -> Tensor:
    counts = starts.diff()
    if int(starts[0]) != 0 or int(starts[-1]) != stored or bool((counts < 0).any()):
        raise ValueError(
            f"the row starts (crow_indices) of targets must rise from 0 to {stored}, the number of "
            "stored entries; the tensor is damaged."
        )
    return torch.arange(len(counts), device=starts.device).repeat_interleave(counts)


def _in_order(
    rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """The entries by row and column; out of range or repeated ones are refused."""
    for noun, index, size in (("row", rows, shape[0]), ("label", columns, shape[1])):
        bad = (index < 0) | (index >= size)
        if bad.any():
            entry = int(bad.nonzero()[0])
            wrong = _validation.out_of_range(int(index[entry]), size, noun)
            raise ValueError(f"targets: entry {entry} names {wrong}")
    place = rows * shape[1] + columns
    if not (place.diff() > 0).all():
        place, order = place.sort()
        again = (place.diff() == 0).nonzero()
        if len(again):
            row, label = divmod(int(place[again[0]]), shape[1])
            raise ValueError(f"targets name label {label} twice in row {row}; keep one of them.")
        rows, columns, values = rows[order], columns[order], values[order]
    return rows, columns, values


def _as_observed(values: Tensor, columns: Tensor) -> Tensor:
    """The columns, −1 where a sparse target stores a zero."""
    ones = values == 1
    if ones.all():
        return columns.long()
    strange = ~ones & (values != 0)
    if strange.any():
        raise ValueError(
            f"targets must be 0 or 1; got {values[strange][0].item():g} at label "
            f"{columns[strange][0].item()}. Code a missing label as 0."
        )
    return columns.long().where(ones, -1)


def _rectangle(columns: Tensor, counts: Tensor) -> Tensor:
    n, width = len(counts), int(counts.max()) if len(counts) else 0
    if n * width == len(columns):
        return columns.view(n, width)  # all rows are of the same length
    filled = torch.arange(width, device=columns.device) < counts[:, None]
    index = torch.full(filled.shape, -1, dtype=torch.long, device=columns.device)
    return index.masked_scatter_(filled, columns)


def _described(values: object) -> str:
    if isinstance(values, Tensor):
        return f"{values.dtype} in shape {tuple(values.shape)}"
    return type(values).__name__
