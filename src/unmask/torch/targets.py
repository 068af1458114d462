"""Targets of any kind → the labels of each row as a rectangle (n, m), short rows filled with −1.

Three kinds are understood: dense 0/1 of the logits' shape; sparse COO or CSR of that shape, with
ones for observed labels; label numbers (n, m), distinct in a row, negative for no label. Integers
of the logits' own shape are taken for 0/1.
"""

from __future__ import annotations

import torch
from torch import Tensor

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8)


def label_index(targets: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(n, m) label numbers, −1 where a row has fewer than m labels.

    >>> label_index(torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]), (2, 3))
    tensor([[ 1,  2],
            [ 0, -1]])
    """
    same = tuple(targets.shape) == tuple(shape)
    numbers = targets.layout is torch.strided and targets.dtype in _INTEGERS and not same
    if len(targets) != shape[0] or not (numbers or same):
        raise ValueError(
            f"targets of shape {tuple(targets.shape)} for logits of shape {tuple(shape)}; give 0/1 "
            "of the same shape, or integer label numbers with one row for each row of the logits."
        )
    if numbers:
        return targets.long().clamp(min=-1)
    index: Tensor = _found(targets)
    return index


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _found(targets: Tensor) -> Tensor:
    """The width m depends on the values, which no compiled graph can know."""
    if targets.layout is torch.sparse_csr:
        columns = _as_observed(targets.values(), targets.col_indices())
        return _rectangle(columns, targets.crow_indices().diff())
    if targets.layout is torch.sparse_coo:
        coalesced = targets.coalesce()
        rows, columns, values = *coalesced.indices(), coalesced.values()
    else:
        rows, columns = targets.nonzero(as_tuple=True)
        values = targets[rows, columns]
    return _rectangle(_as_observed(values, columns), torch.bincount(rows, minlength=len(targets)))


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
