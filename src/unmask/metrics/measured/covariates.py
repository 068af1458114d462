"""Covariates: what is known of every row before anything is judged.

Five numbers predict the metric of a row: the metric on its observed labels, observed hits,
observed misses, whether nothing is observed, and the share of its first k in what its predictions
promise (the sum of the chances of all listed ones; of a list of k, their mean chance). More can be
handed in, such as the answers of another judge: it cannot bias a measured estimate, it can only
fail to narrow it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from unmask import _validation
from unmask._typing import Floats, MatrixLike
from unmask.metrics.evaluator import contributions
from unmask.predictions import TopK
from unmask.propensity import calibration

CovariatesLike: TypeAlias = "MatrixLike | Mapping[str, MatrixLike]"
"""(n,) or (n, q) numbers of rows; an (n, L) matrix is one of pairs. Several by name."""


def of_rows(top: TopK, labels: sp.csr_array, name: str, k: int) -> Floats:
    """The five covariates of a metric, (n, 5) floats.

    Parameters
    ----------
    top : TopK
    labels : csr_array of shape (n, L), validated
    name : str
        The metric that is predicted: one over rows, with its cut-off.
    k : int
        The cut-off.

    Returns
    -------
    floats of shape (n, 5)

    Examples
    --------
    >>> top = TopK([[0, 1], [1, 0]], [[0.9, 0.5], [0.8, 0.2]])
    >>> of_rows(top, _validation.labels([[1, 0], [0, 0]]), "P@1", 1)[:, :4]
    array([[1., 1., 0., 0.], [0., 0., 0., 1.]])
    """
    hits = contributions(top, labels, metrics=[f"P@{k}"])[f"P@{k}", "vanilla"] * k
    vanilla = contributions(top, labels, metrics=[name])[name, "vanilla"]
    size = np.diff(labels.indptr).astype(np.float64)
    chance = calibration.chances(top, labels)
    first = calibration.chances(TopK(top.labels[:, :k], top.scores[:, :k]), labels)
    promised = np.asarray(chance.sum(axis=1)).ravel()
    of_first = np.asarray(_only(chance, first).sum(axis=1)).ravel()
    share = of_first / np.maximum(promised, 1e-9) if top.k > k else of_first / k
    return np.stack([vanilla, hits, size - hits, (size == 0).astype(float), share], axis=1)


def handed_in(
    values: CovariatesLike | None, top: TopK, shape: tuple[int, int], k: int
) -> Floats | None:
    """Further covariates of rows; those of pairs as their sums over the first k and over all.

    Parameters
    ----------
    values : CovariatesLike or None
    top : TopK
    shape : (int, int)
        Rows n and labels L.
    k : int
        The cut-off.

    Returns
    -------
    floats of shape (n, q), or None

    Raises
    ------
    ValueError
        If there is not one row for each of n, or a number is not finite.
    """
    if values is None:
        return None
    parts = list(values.values()) if isinstance(values, Mapping) else [values]
    return np.concatenate([_columns(part, top, shape, k) for part in parts], axis=1)


def _columns(values: MatrixLike, top: TopK, shape: tuple[int, int], k: int) -> Floats:
    if sp.issparse(values) or np.shape(values) == shape:
        return _of_pairs(values, top, shape, k)
    made = np.array(_validation.numbers(values, "covariates"), dtype=np.float64)
    made = made[:, None] if made.ndim == 1 else made
    if made.ndim != 2 or made.shape[0] != shape[0]:
        raise ValueError(
            f"covariates must be known for all {shape[0]} rows, or be an {shape} matrix of pairs; "
            f"got shape {np.shape(values)}."
        )
    return _validation.finite(made, "covariates")


def _of_pairs(values: MatrixLike, top: TopK, shape: tuple[int, int], k: int) -> Floats:
    pairs = _validation.columns(values, name="covariates", column="label")
    if pairs.shape != shape:
        raise ValueError(f"covariates of pairs must have the shape {shape}; got {pairs.shape}.")
    row, place = np.nonzero(top.labels[:, :k] >= 0)
    mine = np.asarray(pairs[row, top.labels[row, place]]).ravel().astype(np.float64)
    hits = np.bincount(row, mine, minlength=shape[0])
    total = np.asarray(pairs.sum(axis=1), dtype=np.float64).ravel()
    share = np.where(total > 0, hits / np.where(total > 0, total, 1), 0.0)
    return np.stack([hits, total, share], axis=1)


def _only(values: sp.csr_array, pattern: sp.csr_array) -> sp.csr_array:
    """The entries of `values` that `pattern` stores, too."""
    ones = sp.csr_array((np.ones(pattern.nnz), pattern.indices, pattern.indptr), pattern.shape)
    return sp.csr_array(values.multiply(ones))
