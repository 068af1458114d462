"""Exact normalised weights of every row of a data set.

The share of label i in its row, y*_i / |y*|, has exactly one unbiased estimate from what is seen:

    T_i = Σ_{J⊆I, i∈J} (1/|J|) Π_{j∈J} a_j Π_{k∈I∖J} (1 − a_k),    a = 1/p

Writing 1/|J| as ∫₀¹ t^{|J|−1} dt makes the sum over subsets a product under one integral,

    T_i = a_i ∫₀¹ Π_{k≠i} (1 − u a_k) du,

a polynomial that Gauss–Legendre integrates exactly: O(m²) for a row of m labels instead of O(2^m),
and no cancellation between huge subset terms. T is what normalised losses weigh labels with; its
sum over the hits among k predictions is the unbiased recall@k.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask import _kernels, _validation
from unmask._kernels import weights as kernels
from unmask.propensity.models import reciprocal

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Inverse:
    """1/p of every stored entry e of a label matrix, as values[index[e]]; no index: values[e]."""

    values: Floats
    index: NDArray[np.integer[Any]] | None = None

    def of(self, run: slice) -> tuple[NDArray[np.integer[Any]], Floats]:
        """Index and values for a run of entries, the form that kernels take."""
        if self.index is None:
            return np.arange(run.stop - run.start), self.values[run]
        return self.index[run], self.values

    def entries(self) -> Floats:
        """One number per stored entry."""
        return self.values if self.index is None else self.values[self.index]


def normalized_weights(indptr: NDArray[np.integer[Any]], inverse_propensity: Floats) -> Floats:
    """T of every stored entry of a CSR label matrix, from 1/p of every stored entry.

    Within (16 + m/4) ε of a_i ∫ Π |1 − u a_k| du, which is |T| where nothing cancels (ε = 2⁻⁵²;
    tested against exact arithmetic up to m = 2,000 labels per row and p down to 1e-6). A value
    beyond float64 becomes the largest float64 of its sign, and a RuntimeWarning names the first
    such row.

    Of two labels with p = 1/3, one is seen alone two times in nine (weight 3) and together with the
    other once in nine (weight −3/2): in the mean 6/9 − 3/18 = 1/2, its true share.

    >>> normalized_weights(np.array([0, 1, 3]), np.array([3.0, 3.0, 3.0]))
    array([ 3. , -1.5, -1.5])
    """
    starts, inverse = _validation.inverse_by_entry(indptr, inverse_propensity)
    return exact(starts, Inverse(inverse))


def exact(indptr: NDArray[np.integer[Any]], inverse: Inverse) -> Floats:
    """The same from labels that share their numbers by column."""
    rules = kernels.quadrature(np.diff(indptr))
    out, overflown = by_chunks(indptr, kernels.normalized, *rules, inverse=inverse)
    rows = [start + row for start, row in overflown if row >= 0]
    if rows:
        _warn_of_overflow(rows[0], int(indptr[rows[0] + 1] - indptr[rows[0]]))
    return out


def by_chunks(
    indptr: NDArray[np.integer[Any]],
    kernel: Callable[..., Any],
    *more: Any,
    inverse: Inverse | None = None,
) -> tuple[Floats, list[tuple[int, Any]]]:
    """A value per entry from `kernel` over chunks of rows, and (first row, what it returned)."""
    out = np.empty(int(indptr[-1]))

    def work(start: int, stop: int) -> tuple[int, Any]:
        run = slice(int(indptr[start]), int(indptr[stop]))
        given = () if inverse is None else inverse.of(run)
        return start, kernel(indptr[start : stop + 1], *given, *more, out[run])

    return out, _kernels.in_chunks(_kernels.row_bounds(indptr), work)


def inverse_of(propensity: Any, matrix: sp.csr_array) -> Inverse:
    """Checked propensities, per label or per entry, turned over."""
    if sp.issparse(propensity):
        return Inverse(reciprocal(_validation.entry_propensity(propensity, matrix)))
    return Inverse(reciprocal(_validation.propensity(propensity, matrix.shape[1])), matrix.indices)


def _warn_of_overflow(row: int, labels: int) -> None:
    warnings.warn(
        f"the exact normalised weights of row {row} ({labels} labels) exceed float64 and were set "
        "to its largest number (it is the first such row); correct with `bound` or "
        "`empirical_bayes`, or raise the propensities with `propensity.clip`.",
        RuntimeWarning,
        stacklevel=4,
    )
