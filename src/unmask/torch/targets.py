"""Labels of a batch: targets of any kind as a rectangle, and their places in a shortlist of logits.

**Targets** become the labels of each row, (n, m), short rows filled with −1. Four kinds are
understood: dense 0/1 of the shape rows × labels; sparse of that shape (torch COO or CSR, any scipy
matrix), with ones for observed labels; label numbers (n, m), distinct in a row, negative for no
label; a list of lists of label numbers. Integers of the shape rows × labels are taken for 0/1,
lists never.

Nothing is taken on trust: torch checks the indices of sparse tensors only when asked to, and adds
repeated entries up. Label numbers that repeat or do not exist are refused as well, except inside a
compiled graph or a functional transform (`torch.func`), which cannot stop: there `invalid_rows`
marks their rows.

**Shortlists** are logits of some candidate labels in place of all L, shared by the rows or per row.
An observed label of a row counts exactly, wherever it stands in the list: `pos` and `cut` come from
the observed labels alone, so a shortlist does not change them. What a shortlist changes is the sum
over unobserved labels. A candidate that is not observed counts

    1          without `sampling`: the loss is that of the labels listed, and nothing else;
    1 / q_j    with it, q_j being the expected number of times that label j is in the list.

Where a label can be drawn once, q_j is the probability that it is drawn. Either way a sum over all
unobserved labels j of any t_j is estimated without bias: E Σ_k t_k / q_k = Σ_j t_j. A label that
stands in the list twice was drawn twice and counts twice; an observed label counts once, however
often it was drawn, so q of observed labels has no effect. No tensor has the size rows × L:
candidates are compared with the few observed labels of their row, through a small table of hash
values first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from unmask._kernels import batches
from unmask._typing import Array, Ints, PropensityLike
from unmask.arrays import checks
from unmask.losses import Observed

Targets: TypeAlias = Tensor | Array | sp.sparray | sp.spmatrix | Sequence[Sequence[int]]
"""Observed labels, in any of the kinds that this module understands."""
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def label_index(targets: Targets, shape: tuple[int, ...], *, by_column: bool = True) -> Tensor:
    """Return (n, m) label numbers, −1 where a row has fewer than m labels.

    A graph cannot know m of dense targets: there m = L and column j has j or −1, if `by_column`.

    >>> label_index(torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]), (2, 3))
    tensor([[ 1,  2],
            [ 0, -1]])
    >>> label_index([[2, 0], []], (2, 3))
    tensor([[ 2,  0],
            [-1, -1]])
    """
    if isinstance(targets, list | tuple):
        return _checked_numbers(_of_lists(targets, shape[0]), shape[1])
    if checks.is_sparse(targets):
        return _of_scipy(targets, shape)
    targets = as_tensor(targets)
    if not isinstance(targets, Tensor) or targets.is_complex() or targets.ndim != 2:
        raise ValueError(
            "targets must be a tensor of rows × labels or rows × label numbers, not complex, a "
            f"scipy.sparse matrix or a list of lists of label numbers; got {_described(targets)}."
        )
    same = targets.shape == shape
    numbers = targets.layout is torch.strided and targets.dtype in _INTEGERS and not same
    if len(targets) != shape[0] or not (numbers or same):
        _refuse_shape(tuple(targets.shape), shape)
    if not numbers and by_column and cannot_stop() and targets.layout is torch.strided:
        columns = torch.arange(shape[1], device=targets.device)
        return columns.where(targets == 1, -1).where((targets == 0) | (targets == 1), shape[1])
    if not numbers:
        usual = None if cannot_stop() else _of_usual(targets)
        index: Tensor = _observed_index(targets) if usual is None else usual
        return index
    return _checked_numbers(targets.long().clamp(min=-1), shape[1])


def entry_propensity(propensity: Targets, index: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return (n, m) propensities of label numbers, float64, and 1 where there is no label.

    `propensity` is dense (n, L), of which the other labels are not looked at, or sparse with the
    entries of the labels. What is out of range is NaN where a graph cannot stop.

    >>> entry_propensity(torch.tensor([[0.5, 0.2]]), torch.tensor([[1, -1]]), (1, 2))
    tensor([[0.2000, 1.0000]], dtype=torch.float64)
    """
    sparse = _as_scipy(propensity)
    if sparse is not None:
        stored: Tensor = _sparse_propensity(sparse, index.cpu().numpy(), shape)
        return stored.to(index.device)
    dense = as_tensor(propensity)
    if not isinstance(dense, Tensor) or dense.shape != shape or dense.is_complex():
        raise ValueError(
            f"propensities of a batch must be rows × labels, {tuple(shape)}, dense or sparse; got "
            f"{_described(dense)}."
        )
    own: Tensor = dense.to(index.device).gather(1, index.clamp(min=0)).double()
    p: Tensor = own.where(index >= 0, 1.0)
    wrong = ~((p >= checks.LEAST_PROPENSITY) & (p <= 1))
    if cannot_stop():
        return p.masked_fill(wrong, torch.nan)
    if wrong.any():
        row, slot = (int(each[0]) for each in wrong.nonzero(as_tuple=True))
        raise ValueError(
            f"propensities must lie in [{checks.LEAST_PROPENSITY:g}, 1]; got "
            f"{p[row, slot].item():g} in row {row}, label {int(index[row, slot])}."
        )
    return p


def _as_scipy(values: Any) -> sp.sparray | None:
    """Return a sparse tensor as a matrix of scipy, to be checked by who reads it; else None."""
    if checks.is_sparse(values):
        return values
    if not isinstance(values, Tensor) or values.layout is torch.strided:
        return None
    rows, columns, numbers = (each.cpu().numpy() for each in _entries(values, "propensities"))
    return sp.coo_array((numbers, (rows, columns)), shape=tuple(values.shape))


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _sparse_propensity(values: sp.sparray, index: Ints, shape: tuple[int, ...]) -> Tensor:
    rows, slots = np.nonzero(index >= 0)
    place = sp.csr_array((slots, (rows, index[rows, slots])), shape=tuple(shape))
    place.sort_indices()
    chances = checks.entry_propensity(values, place)
    low = np.flatnonzero(chances < checks.LEAST_PROPENSITY)
    if low.size:
        raise ValueError(
            f"propensities must lie in [{checks.LEAST_PROPENSITY:g}, 1]; got "
            f"{chances[low[0]]:g} in row {checks.row_of(place, int(low[0]))}, label "
            f"{place.indices[low[0]]}."
        )
    p = np.ones(index.shape)
    p[np.repeat(np.arange(len(index)), np.diff(place.indptr)), place.data] = chances
    return torch.from_numpy(p)


def row_count(targets: Targets) -> int:
    """Return the number of rows that targets are about.

    >>> row_count([[2, 0], []])
    2
    """
    return len(targets) if isinstance(targets, Sequence) else targets.shape[0]


def cannot_stop() -> bool:
    """Tell if values cannot be looked at: in a compiled graph, under vmap or torch.func.grad."""
    return torch.compiler.is_compiling() or is_transformed()


def is_transformed() -> bool:
    """Tell if a transform of torch.func is active, under which tensors may hide a dimension."""
    return torch._C._are_functorch_transforms_active()


def as_tensor(values: Any) -> Any:
    """Return an array of numbers as a tensor that shares its memory; anything else as it is.

    >>> as_tensor(np.array([[1, -1]]))
    tensor([[ 1, -1]])
    """
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
        return values
    return torch.as_tensor(values.astype(np.int64) if values.dtype.kind == "u" else values)


def invalid_rows(index: Tensor, n_labels: int) -> Tensor:
    """Tell which rows of label numbers name a label twice, or one that does not exist, (n,).

    >>> invalid_rows(torch.tensor([[0, 2, -1, -1], [1, 1, 0, -1], [0, 3, 1, -1]]), 3)
    tensor([False,  True,  True])
    """
    ordered = index.sort(dim=1).values
    again = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    return again.any(1) | (index >= n_labels).any(1)


def _checked_numbers(index: Tensor, n_labels: int) -> Tensor:
    if cannot_stop():
        return index
    if index.device.type == "cpu" and batches.first_invalid_row(index.numpy(), n_labels) < 0:
        return index
    bad = invalid_rows(index, n_labels)
    if bad.any():
        _refuse_numbers(index, bad, n_labels)
    return index


def _refuse_numbers(index: Tensor, bad: Tensor, n_labels: int) -> None:
    row = int(bad.nonzero()[0])
    largest = int(index[row].max())
    if largest >= n_labels:
        raise ValueError(
            f"targets: row {row} names {checks.out_of_range(largest, n_labels, 'label')}"
        )
    ordered = index[row].sort().values
    label = int(ordered[1:][(ordered.diff() == 0) & (ordered[1:] >= 0)][0])
    raise ValueError(f"targets name label {label} twice in row {row}; keep one of them.")


def _of_lists(rows: Sequence[Any], n_rows: int) -> Tensor:
    if len(rows) != n_rows:
        raise ValueError(
            f"targets list the labels of {len(rows)} rows for {n_rows} rows of logits."
        )
    plain = [row.tolist() if hasattr(row, "tolist") else row for row in rows]
    for number, row in enumerate(plain):
        if not isinstance(row, list | tuple | set | frozenset):
            raise ValueError(
                f"targets: row {number} is {_described(row)}; give a list of label numbers per row."
            )
    flat = list(chain.from_iterable(plain))
    wrong = [each for each in flat if not isinstance(each, Integral) or isinstance(each, bool)]
    if wrong:
        raise ValueError(
            f"targets: lists hold label numbers (integers); got {wrong[0]!r}. Give 0/1 as a "
            "tensor or a scipy.sparse matrix."
        )
    counts = torch.tensor([len(row) for row in plain], dtype=torch.long)
    return _rectangle(torch.tensor(flat, dtype=torch.long), counts).clamp(min=-1)


def _of_scipy(targets: sp.sparray, shape: tuple[int, ...]) -> Tensor:
    if targets.shape != tuple(shape):
        _refuse_shape(targets.shape, shape)
    labels = checks.labels(targets, name="targets")
    columns = torch.from_numpy(labels.indices.astype(np.int64))
    return _rectangle(columns, torch.from_numpy(np.diff(labels.indptr).astype(np.int64)))


def _refuse_shape(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    raise ValueError(
        f"targets of shape {tuple(shape)} for {expected[0]} rows and {expected[1]} labels; give "
        "0/1 of rows × labels, or integer label numbers with one row for each row of the logits."
    )


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _observed_index(targets: Tensor) -> Tensor:
    """Find the labels; the width m depends on values, which no compiled graph can know."""
    if targets.layout is torch.strided:
        rows, columns = targets.nonzero(as_tuple=True)
        values = targets[rows, columns]
    else:
        rows, columns, values = _in_order(*_entries(targets), tuple(targets.shape))
    return _rectangle(_as_observed(values, columns), torch.bincount(rows, minlength=len(targets)))


def _of_usual(targets: Tensor) -> Tensor | None:
    """Return the label numbers of ones in order, by a few calls of numpy; else None.

    What is None here is looked at again with more care, and refused with a reason.
    """
    if targets.device.type != "cpu" or targets.dtype is torch.bfloat16 or targets.is_neg():
        return None
    if targets.layout is torch.sparse_csr:
        starts, columns = targets.crow_indices().numpy(), targets.col_indices().numpy()
        return _of_ones(targets.values(), starts, columns, targets.shape[1])
    if targets.layout is torch.sparse_coo and targets.is_coalesced() and not targets.dense_dim():
        rows, columns = targets._indices().numpy()
        if not _rising(rows, targets.shape[0]):
            return None
        starts = np.searchsorted(rows, np.arange(targets.shape[0] + 1))
        return _of_ones(targets._values(), starts, columns, targets.shape[1])
    if targets.layout is torch.strided and targets.is_contiguous():
        values = targets.detach().numpy().ravel()
        places = np.flatnonzero(values != 0)
        rows, columns = np.divmod(places, max(1, targets.shape[1]))
        starts = np.searchsorted(rows, np.arange(targets.shape[0] + 1))
        return _of_ones(torch.from_numpy(values[places]), starts, columns, targets.shape[1])
    return None


def _rising(rows: Ints, n: int) -> bool:
    """Tell if entries are in order of their rows, of which there are n."""
    if not rows.size:
        return True
    return bool(rows[0] >= 0 and rows[-1] < n and (rows[1:] >= rows[:-1]).all())


def _of_ones(values: Tensor, starts: Ints, columns: Ints, n_labels: int) -> Tensor | None:
    """Return the label numbers of a matrix of ones in compressed rows; else None."""
    if values.ndim != 1 or len(columns) != len(values):
        return None
    if not (values.detach().numpy() == 1).all():
        return None
    width = batches.widest(starts, columns, n_labels)
    if width < 0:
        return None
    n = len(starts) - 1
    if n * width == len(columns):  # all rows are of the same length
        return torch.from_numpy(columns.astype(np.int64).reshape(n, width))
    index = np.empty((n, width), dtype=np.int64)
    batches.unpack(starts, columns, index)
    return torch.from_numpy(index)


def _entries(targets: Tensor, name: str = "targets") -> tuple[Tensor, Tensor, Tensor]:
    """Return row, column and value of every stored entry of a sparse tensor."""
    if targets.layout not in (torch.sparse_coo, torch.sparse_csr) or targets.dense_dim():
        raise ValueError(
            f"{name} must be dense, or COO or CSR with one number per entry; got the layout "
            f"{targets.layout} with {targets.dense_dim()} dense dimensions."
        )
    if targets.layout is torch.sparse_coo:
        (rows, columns), values = targets._indices(), targets._values()
    else:
        columns, values = targets.col_indices(), targets.values()
        rows = _rows_of(targets.crow_indices(), len(columns), name)
    if not len(rows) == len(columns) == len(values):
        raise ValueError(f"{name} store {len(values)} values for {len(columns)} label indices.")
    return rows.long(), columns.long(), values


def _rows_of(starts: Tensor, stored: int, name: str) -> Tensor:
    counts = starts.diff()
    if int(starts[0]) != 0 or int(starts[-1]) != stored or bool((counts < 0).any()):
        raise ValueError(
            f"the row starts (crow_indices) of {name} must rise from 0 to {stored}, the number of "
            "stored entries; the tensor is damaged."
        )
    return torch.arange(len(counts), device=starts.device).repeat_interleave(counts)


def _in_order(
    rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the entries by row and column; refuse those out of range or repeated."""
    for noun, index, size in (("row", rows, shape[0]), ("label", columns, shape[1])):
        bad = (index < 0) | (index >= size)
        if bad.any():
            entry = int(bad.nonzero()[0])
            wrong = checks.out_of_range(int(index[entry]), size, noun)
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
    """Return the columns, −1 where a sparse target stores a zero."""
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


_BUCKETS = 64  # hash values per observed label: one candidate in 64 is compared in vain


def candidate_numbers(candidates: Tensor, shape: tuple[int, ...], n_labels: int) -> Tensor:
    """Check the label numbers (c,) or (n, c) of the columns of the logits, negative for none.

    >>> candidate_numbers(torch.tensor([4, 0, -7], dtype=torch.int32), (2, 3), 5)
    tensor([ 4,  0, -7])
    """
    integers = isinstance(candidates, Tensor) and not (
        candidates.is_floating_point() or candidates.is_complex() or candidates.dtype is torch.bool
    )
    if not integers or candidates.layout is not torch.strided:
        kind = (
            str(candidates.dtype) if isinstance(candidates, Tensor) else type(candidates).__name__
        )
        raise ValueError(f"candidates must be a dense tensor of label numbers; got {kind}.")
    n, c = shape
    if candidates.shape not in ((c,), (n, c)):
        raise ValueError(
            f"candidates of shape {tuple(candidates.shape)} for logits of shape {(n, c)}; give one "
            f"label number per column, ({c},), or per logit, ({n}, {c})."
        )
    if not cannot_stop() and candidates.numel() and int(candidates.max()) >= n_labels:
        wrong = checks.out_of_range(int(candidates.max()), n_labels, "label")
        raise ValueError(f"candidates name {wrong}")
    return candidates.long()


def expected_counts(sampling: PropensityLike | Tensor, ids: Tensor, n_labels: int) -> Tensor:
    """Check q of every candidate, in the shape of `ids` (or one number for all), in float64.

    What has the shape of `ids` is per candidate, also where that is the number of labels.

    >>> expected_counts([0.1, 0.2, 0.3], torch.tensor([2, 0]), 3)
    tensor([0.3000, 0.1000], dtype=torch.float64)
    """
    try:
        q = torch.as_tensor(sampling, dtype=torch.float64, device=ids.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"sampling cannot be read as numbers: {error}") from error
    if q.shape == (n_labels,) and q.shape != ids.shape:
        q = q[ids.clamp(min=0)]
    elif q.shape not in ((), ids.shape):
        raise ValueError(
            f"sampling of shape {tuple(q.shape)}; give one expected count per label ({n_labels},), "
            f"per candidate {tuple(ids.shape)}, or one number."
        )
    if not cannot_stop() and q.numel() and not (q.min() > 0 and q.max() < torch.inf):
        bad = ((q <= 0) | ~q.isfinite()) & (ids >= 0)
        if bad.any():
            label, wrong = ids[bad][0], q.expand(ids.shape)[bad][0]
            raise ValueError(
                f"sampling must be above 0 and finite: candidate {int(label)} has {wrong.item():g}"
                "; a label that is in the list was drawn with some probability."
            )
    return q


def place(
    observed: Observed, ids: Tensor, shape: tuple[int, ...], q: Tensor | None, dtype: torch.dtype
) -> Observed:
    """Place observed labels by their column in the logits; weigh the background of every column.

    `observed.index` has label numbers, −1 for none. An observed label that is not among the
    candidates of its row takes no part without `q`, and is refused with it.
    """
    find = _find_compiled if cannot_stop() else _find
    column, present, background = find(observed.index, ids, shape, q, dtype)
    if q is not None:
        missing = (observed.index >= 0) & ~present
        if cannot_stop():
            assert background is not None  # noqa: S101 - there is one with q
            background = background.masked_fill(missing.any(1, keepdim=True), torch.nan)
        else:
            refuse_missing(observed.index, present)
    pos = observed.pos.where(present, 0)
    cut = pos if observed.cut is observed.pos else observed.cut.where(present, 0)
    return replace(observed, index=column, pos=pos, cut=cut, background=background)


def refuse_missing(index: Tensor, present: Tensor) -> None:
    """Raise if an observed label is not among sampled candidates."""
    missing = (index >= 0) & ~present
    if missing.any():
        row, slot = (int(each[0]) for each in missing.nonzero(as_tuple=True))
        raise ValueError(
            f"row {row}: its observed label {int(index[row, slot])} is not among the candidates, "
            "so that no sample could make up for it; add the observed labels to the list "
            "(unmask.torch.samplers.with_observed)."
        )


def candidate_weights(ids: Tensor, q: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return 1 or 1/q of every candidate, in the shape of `ids`."""
    one = torch.ones((), dtype=torch.float64, device=ids.device)
    return (one if q is None else q.reciprocal()).to(dtype).expand(ids.shape)


def _weights(ids: Tensor, q: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return 1 or 1/q of every candidate, 0 where there is none."""
    return candidate_weights(ids, q, dtype).where(ids >= 0, 0)


def _find(
    index: Tensor, ids: Tensor, shape: tuple[int, ...], q: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the first column of observed labels, if there is one, and the background if not 1."""
    (n, c), m = shape, index.shape[1]
    rows, slots, columns = _matches(index, ids, n)
    first = torch.full((n * m,), c, device=ids.device)
    first.scatter_reduce_(0, rows * m + slots, columns, "amin")
    column = first.view(n, m)
    present = column < c
    if q is None and len(rows) == int(present.sum()) and bool((ids >= 0).all()):
        return column.where(present, 0), present, None
    background = _weights(ids, q, dtype).expand(n, c).clone()
    background[rows, columns] = 0
    background[present.nonzero()[:, 0], column[present]] = 1
    return column.where(present, 0), present, background


def _matches(index: Tensor, ids: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return row, slot and column of every candidate that is an observed label of its row."""
    size = 1 << max(6, (_BUCKETS * index.shape[1]).bit_length())
    table = torch.zeros(n, size, dtype=torch.bool, device=ids.device)
    table.scatter_(1, index & (size - 1), True)
    buckets = ids & (size - 1)
    likely = table[:, buckets] if ids.ndim == 1 else table.gather(1, buckets)
    rows, columns = likely.nonzero(as_tuple=True)
    labels = ids[columns] if ids.ndim == 1 else ids[rows, columns]
    hits, slots = ((index[rows] == labels[:, None]) & (labels >= 0)[:, None]).nonzero(as_tuple=True)
    return rows[hits], slots, columns[hits]


def _find_compiled(
    index: Tensor, ids: Tensor, shape: tuple[int, ...], q: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Do what `_find` does by comparing all with all: shapes that do not depend on values."""
    equal = (ids.unsqueeze(-2) == index[:, :, None]) & (index >= 0)[:, :, None]
    present, column = equal.any(-1), equal.to(torch.uint8).argmax(-1)
    background = _weights(ids, q, dtype).expand(shape).masked_fill(equal.any(1), 0)
    return column, present, background.scatter_add(1, column, present.to(dtype))
