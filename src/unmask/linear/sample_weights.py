"""Sample weights: how much every row counts in the loss.

Whole numbers repeat rows; any others become part of the label weights.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from unmask._typing import Floats, Ints
from unmask.arrays import checks
from unmask.weights import Weights

MOST_PAIRS = 1 << 25
"""Pairs of a row and a label that are stored at most, 0.7 GB."""


def row_weights(weights: object, n: int) -> Floats | None:
    """How much every row counts; None if every row counts once."""
    if weights is None:
        return None
    numbers = checks.numbers(weights, "sample weights")
    if numbers.shape != (n,):
        raise ValueError(f"sample weights must be one number per row ({n}); got {numbers.shape}.")
    usable = np.isfinite(numbers) & (numbers >= 0)
    if not usable.all():
        raise ValueError(f"sample weights must be 0 or more; got {numbers[~usable][0]:g}.")
    if n and not numbers.any():
        raise ValueError("the sample weights of all rows are zero; give some row a weight.")
    return None if (numbers == 1).all() else numbers.astype(np.float64)


def repeated_rows(weights: Floats) -> Ints | None:
    """Row numbers, each as often as its weight says; None if some weight is no whole number.

    A row of weight 3 counts as three rows, one of weight 0 not at all: exactly the weighted
    objective.
    """
    many = weights.sum() > 100 * max(weights.size, 1000)
    if many or (weights != np.round(weights)).any():
        return None
    return np.repeat(np.arange(weights.size), weights.astype(np.int64))


def with_row_weights(labels: Weights, rows: Floats, *, reduction: str) -> Weights:
    """Label weights whose loss counts every row as much as its weight says.

    A softmax looks at observed labels alone, whose weights are multiplied. One-vs-all counts a
    label that is not observed once; for it to count otherwise, every pair of a row and a label has
    to be stored.
    """
    if reduction == "pal":
        pos = labels.pos.copy()
        pos.data *= np.repeat(rows, np.diff(pos.indptr))
        return Weights(pos, labels.cut)
    n, n_labels = labels.pos.shape
    if n * n_labels > MOST_PAIRS:
        raise ValueError(
            f"sample weights that are no whole numbers store {n:,} × {n_labels:,} numbers, more "
            f"than {MOST_PAIRS:,}; scale and round them: a row of weight 3 counts as three rows."
        )
    scale = rows[:, None]
    pos, cut = scale * labels.pos.toarray(), 1 - scale * (1 - labels.cut.toarray())
    indices = np.tile(np.arange(n_labels, dtype=np.int32), n)
    indptr = np.arange(n + 1) * n_labels
    return Weights(
        *(sp.csr_array((each.ravel(), indices, indptr), shape=(n, n_labels)) for each in (pos, cut))
    )
