"""Weights for other people's trainers; each says for which weights it is exact, and refuses others.

| trainer                                     | takes                     | exact for              |
|---------------------------------------------|---------------------------|------------------------|
| torch `BCEWithLogitsLoss(pos_weight=…)`     | one weight per label      | cut = 1, pos per label |
| torch `BCEWithLogitsLoss` / cross-entropy   | targets beyond {0, 1}     | pos = cut              |
| liblinear, scikit-learn, one label          | rows with target, weight  | pos ≥ 0, cut ≤ 1       |
| PECOS `XLinearModel.train(X, Y, R=…)`       | relevance of positives    | cut = 1, pos > 0       |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from unmask._typing import Bools, Floats, Integers, Ints
from unmask.arrays import checks
from unmask.weights.corrections import Weights


def to_pos_weight(weights: Weights) -> Floats:
    """The `pos_weight` vector of torch's `BCEWithLogitsLoss`: ℓ₊ counts pos_j, ℓ₋ of a positive 0.

    Exact for plain `vanilla` and plain `bound` with per-label propensities, where cut = 1 and pos
    is the same for all rows. Everything else raises: unbiased and normalised weights leave a share
    of ℓ₋ on observed labels, which `pos_weight` cannot say but soft targets can.

    Parameters
    ----------
    weights : Weights
        Label weights (n, L).

    Returns
    -------
    (L,) floats
        One weight per label; 1 for a label without observations, which nothing will use.

    Raises
    ------
    ValueError
        If some cut is not 1, or some label has different weights in different rows.

    Examples
    --------
    >>> from unmask import weights
    >>> to_pos_weight(weights.bound([[1, 1, 0], [0, 1, 0]], [0.5, 0.25, 0.1]))
    array([3., 7., 1.])
    """
    weights = replace(weights)
    _refuse(weights.pos, weights.cut.data != 1, "pos_weight needs cut = 1", "`to_soft_targets`")
    vector = np.ones(weights.pos.shape[1])
    vector[weights.pos.indices] = weights.pos.data
    differs = vector[weights.pos.indices] != weights.pos.data
    _refuse(weights.pos, differs, "pos_weight needs one weight per label", "`to_samples`")
    return vector


def to_soft_targets(weights: Weights) -> sp.csr_array:
    """Targets for a loss that is linear in its target, t ℓ₊ + (1 − t) ℓ₋: binary cross-entropy.

    Exact whenever pos = cut: vanilla, unbiased, tempered, and every normalised correction.

    Parameters
    ----------
    weights : Weights
        Label weights (n, L).

    Returns
    -------
    sparse (n, L)
        0 off the pattern; may exceed 1 or be negative on it, which `BCEWithLogitsLoss` accepts.

    Raises
    ------
    ValueError
        If pos and cut differ.

    Examples
    --------
    >>> from unmask import weights
    >>> to_soft_targets(weights.unbiased([[1, 0]], [0.25, 0.5])).toarray()
    array([[4., 0.]])
    """
    weights = replace(weights)
    differs = weights.pos.data != weights.cut.data
    _refuse(weights.pos, differs, "soft targets need pos = cut", "`to_pos_weight`")
    return weights.pos


@dataclass(frozen=True)
class Samples:
    """A weighted binary problem.

    Attributes
    ----------
    rows : (s,) integers
        Row numbers into the features.
    targets : (s,) integers
        0 or 1.
    weights : (s,) floats
        Sample weights, none negative.

    Examples
    --------
    >>> from unmask import weights
    >>> problem = to_samples(weights.vanilla([[1, 1], [0, 1], [1, 0]]), label=0)
    >>> problem.rows, problem.targets.tolist(), problem.weights
    (array([1, 0, 2]), [0, 1, 1], array([1., 1., 1.]))
    """

    rows: Ints
    targets: Integers
    weights: Floats


def to_samples(weights: Weights, label: int) -> Samples:
    """One label's problem for any solver with sample weights (liblinear, scikit-learn, xgboost).

    Every row without the label is a negative of weight 1. A row with it is a positive of weight pos
    and, where cut ≠ 1, once more a negative of weight 1 − cut. Exact for any loss as long as no
    weight is negative: vanilla, bound, and normalised weights within [0, 1]. Unbiased weights make
    the second copy negative and raise.

    Parameters
    ----------
    weights : Weights
        Label weights (n, L).
    label : int
        The column.

    Returns
    -------
    Samples

    Raises
    ------
    ValueError
        If there is no such label, or a sample weight would be negative.

    Examples
    --------
    >>> from unmask import weights
    >>> to_samples(weights.vanilla([[1, 1], [0, 1], [1, 0]], normalized=True), label=1)
    Samples(rows=array([2, 0, 1, 0]), targets=array([0, 1, 1, 0], dtype=int8),
        weights=array([1. , 0.5, 1. , 0.5]))
    """
    weights = replace(weights)
    n, n_labels = weights.pos.shape
    if not 0 <= label < n_labels:
        span = f"lie in 0 … {n_labels - 1}" if n_labels else "exist, but there are none"
        raise ValueError(f"label must {span}; got {label}.")
    entries = np.flatnonzero(weights.pos.indices == label)
    observed = np.searchsorted(weights.pos.indptr, entries, side="right") - 1
    pos, rest = weights.pos.data[entries], 1 - weights.cut.data[entries]
    _refuse_samples(observed, np.minimum(pos, rest), label)
    other, again = np.setdiff1d(np.arange(n), observed), observed[rest > 0]
    return Samples(
        rows=np.concatenate([other, observed, again]),
        targets=np.repeat(np.array([0, 1, 0], np.int8), [other.size, observed.size, again.size]),
        weights=np.concatenate([np.ones(other.size), pos, rest[rest > 0]]),
    )


def to_relevance(weights: Weights) -> sp.csr_matrix:
    """The relevance matrix R of PECOS: float32, the pattern of the labels, the cost of positives.

    PECOS multiplies the loss of a positive by R and has nothing for the negative side of an
    observed label: exact where cut = 1 (plain vanilla and bound); else only `pos` is passed on.

    Parameters
    ----------
    weights : Weights
        Label weights (n, L).

    Returns
    -------
    sparse matrix (n, L) of float32

    Raises
    ------
    ValueError
        If a weight is not positive, or exceeds float32.

    Examples
    --------
    >>> from unmask import weights
    >>> to_relevance(weights.bound([[1, 0]], [0.25, 0.5])).toarray()
    array([[7., 0.]], dtype=float32)
    """
    pos = replace(weights).pos
    _refuse(pos, ~(pos.data > 0), "PECOS needs positive relevances", "`bound` or `empirical_bayes`")
    too_large = pos.data > np.finfo(np.float32).max
    _refuse(pos, too_large, "PECOS needs relevances within float32", "`bound`")
    # PECOS asks `isspmatrix`, which the newer sparse arrays are not.
    values = pos.data.astype(np.float32)
    return sp.csr_matrix((values, pos.indices, pos.indptr), shape=pos.shape)


def _refuse(matrix: sp.csr_array, bad: Bools, reason: str, instead: str) -> None:
    if bad.any():
        entry = int(np.argmax(bad))
        raise ValueError(
            f"{reason}; got pos {matrix.data[entry]:g} in row {checks.row_of(matrix, entry)}, "
            f"label {matrix.indices[entry]}. Use {instead} instead."
        )


def _refuse_samples(rows: Integers, smallest: Floats, label: int) -> None:
    if (smallest < 0).any():
        first = int(np.argmax(smallest < 0))
        raise ValueError(
            f"sample weights must not be negative; got {smallest[first]:g} in row {rows[first]}, "
            f"label {label}. Use `bound` weights, or a loss that takes pos and cut."
        )
