"""Shortlists: logits of some candidate labels in place of all L, shared by the rows or per row.

An observed label of a row counts exactly, wherever it stands in the list: `pos` and `cut` come from
the observed labels alone, so a shortlist does not change them. What a shortlist changes is the sum
over unobserved labels. A candidate that is not observed counts

    1          without `sampling`: the loss is that of the labels listed, and nothing else;
    1 / q_j    with it, q_j being the expected number of times that label j is in the list.

Where a label can be drawn once, q_j is the probability that it is drawn. Either way a sum over all
unobserved labels j of any t_j is estimated without bias: E Σ_k t_k / q_k = Σ_j t_j. A label that
stands in the list twice was drawn twice and counts twice; an observed label counts once, however
often it was drawn, so q of observed labels has no effect.

No tensor here has the size rows × L: candidates are compared with the few observed labels of their
row, through a small table of hash values first.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from unmask._typing import PropensityLike
from unmask.arrays import checks
from unmask.losses import Observed
from unmask.torch.targets import cannot_stop

_BUCKETS = 64  # hash values per observed label: one candidate in 64 is compared in vain


def candidate_numbers(candidates: Tensor, shape: tuple[int, ...], n_labels: int) -> Tensor:
    """The label numbers (c,) or (n, c) of the columns of the logits, negative for none; checked.

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
    """q of every candidate, in the shape of `ids` (or one number for all), in float64; checked.

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
    """Observed labels by their column in the logits, and the background of every column.

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
    """An observed label that is not among sampled candidates is an error."""
    missing = (index >= 0) & ~present
    if missing.any():
        row, slot = (int(each[0]) for each in missing.nonzero(as_tuple=True))
        raise ValueError(
            f"row {row}: its observed label {int(index[row, slot])} is not among the candidates, "
            "so that no sample could make up for it; add the observed labels to the list "
            "(unmask.torch.samplers.with_observed)."
        )


def candidate_weights(ids: Tensor, q: Tensor | None, dtype: torch.dtype) -> Tensor:
    """1 or 1/q of every candidate, in the shape of `ids`."""
    one = torch.ones((), dtype=torch.float64, device=ids.device)
    return (one if q is None else q.reciprocal()).to(dtype).expand(ids.shape)


def _weights(ids: Tensor, q: Tensor | None, dtype: torch.dtype) -> Tensor:
    """1 or 1/q of every candidate, 0 where there is none."""
    return candidate_weights(ids, q, dtype).where(ids >= 0, 0)


def _find(
    index: Tensor, ids: Tensor, shape: tuple[int, ...], q: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor | None]:
    """First column of every observed label, whether it has one, and the background if not all 1."""
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
    """Row, slot and column of every candidate that is an observed label of its row."""
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
    """As `_find`, by comparing all with all: shapes that do not depend on values."""
    equal = (ids.unsqueeze(-2) == index[:, :, None]) & (index >= 0)[:, :, None]
    present, column = equal.any(-1), equal.to(torch.uint8).argmax(-1)
    background = _weights(ids, q, dtype).expand(shape).masked_fill(equal.any(1), 0)
    return column, present, background.scatter_add(1, column, present.to(dtype))
