"""Covariates: what is known of every row before anything is judged.

Seven numbers predict the metric of a row: the metric on its observed labels, observed hits,
observed misses, whether nothing is observed, the recall to expect if the predictions are as good as
their scores (hits and the chances of the first k, over observed labels and the chances of all that
are listed), and the mean scores of the first k and of those after them. Few and strong ones: a
regression on 200 judged rows pays for each. More can be handed in, such as the answers of another
judge: it cannot bias a measured estimate, it can only fail to narrow it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from unmask._typing import Floats, Integers, MatrixLike
from unmask.arrays import TopK, checks, values_at
from unmask.metrics.evaluation import contributions
from unmask.propensity import calibration

CovariatesLike: TypeAlias = "MatrixLike | Mapping[str, MatrixLike]"
"""(n,) or (n, q) numbers of rows; an (n, L) matrix is one of pairs. Several by name."""


def of_rows(top: TopK, labels: sp.csr_array, name: str, k: int) -> Floats:
    """The seven covariates of a metric.

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
    floats of shape (n, 7)

    Examples
    --------
    >>> top = TopK([[0, 1], [1, 0]], [[0.75, 0.5], [0.5, 0.25]])
    >>> of_rows(top, checks.labels([[1, 0], [0, 0]]), "P@1", 1)[:, [0, 1, 2, 3, 5, 6]]
    array([[1.  , 1.  , 0.  , 0.  , 0.75, 0.5 ],
           [0.  , 0.  , 0.  , 1.  , 0.5 , 0.25]])
    """
    hits = contributions(top, labels, metrics=[f"P@{k}"])[f"P@{k}", "vanilla"] * k
    vanilla = contributions(top, labels, metrics=[name])[name, "vanilla"]
    size = np.diff(labels.indptr).astype(np.float64)
    of_first, promised = _promises(top, labels, k)
    recall = (hits + of_first) / np.maximum(size + promised, 1e-9)
    scores = (_mean_scores(top, slice(0, k)), _mean_scores(top, slice(k, None)))
    empty = (size == 0).astype(np.float64)
    return np.stack([vanilla, hits, size - hits, empty, recall, *scores], axis=1)


def _promises(top: TopK, labels: sp.csr_array, k: int) -> tuple[Floats, Floats]:
    """Sums of the chances of predictions that are not observed: of the first k, of all listed."""
    chance = calibration.chances(top, labels)
    hidden = sp.csr_array(chance - chance.multiply(labels))
    row, place = np.nonzero(top.labels[:, :k] >= 0)
    first = values_at(hidden, row, top.labels[row, place])
    of_first = np.bincount(row, first, minlength=len(top.labels)).astype(np.float64)
    return of_first, np.asarray(hidden.sum(axis=1), dtype=np.float64).ravel()


def _mean_scores(top: TopK, places: slice) -> Floats:
    """The mean score of every row over some places; of a row without any, that of all rows."""
    listed = top.labels[:, places] >= 0
    scores = np.where(listed, top.scores[:, places], 0.0).astype(np.float64)
    count = listed.sum(axis=1)
    overall = float(scores.sum()) / max(int(count.sum()), 1)
    return np.where(count > 0, scores.sum(axis=1) / np.maximum(count, 1), overall)


def checked_covariates(
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


@dataclass(frozen=True, eq=False)
class PairColumns:
    """Covariates of all pairs, of which few are looked up.

    Parameters
    ----------
    of_rows : floats of shape (n, q)
        Numbers of rows, which all pairs of a row share.
    of_pairs : tuple of csr_array of shape (n, L)
    """

    of_rows: Floats
    of_pairs: tuple[sp.csr_array, ...]
    shape: tuple[int, int]

    @property
    def count(self) -> int:
        """How many covariates there are."""
        return int(self.of_rows.shape[1]) + len(self.of_pairs)

    @property
    def sums(self) -> Floats:
        """Sums over all n · L pairs, (count,) floats."""
        of_pairs = [float(each.sum(dtype=np.float64)) for each in self.of_pairs]
        return np.concatenate([self.of_rows.sum(axis=0) * self.shape[1], of_pairs])

    def at(self, rows: Integers, labels: Integers) -> Floats:
        """The covariates of some pairs, (m, count) floats."""
        of_pairs = [values_at(each, rows, labels) for each in self.of_pairs]
        return np.column_stack([self.of_rows[rows], *of_pairs])


def pair_columns(values: CovariatesLike, shape: tuple[int, int]) -> PairColumns:
    """Covariates for pairs that were drawn over all rows.

    Parameters
    ----------
    values : CovariatesLike
    shape : (int, int)
        Rows n and labels L.

    Returns
    -------
    PairColumns

    Raises
    ------
    ValueError
        If there is not one row for each of n, or a number is not finite.

    Examples
    --------
    >>> made = pair_columns({"judge": [[0, 1], [1, 1]], "length": [5.0, 7.0]}, (2, 2))
    >>> made.at(np.array([1]), np.array([0])), made.sums
    (array([[7., 1.]]), array([24.,  3.]))
    """
    parts = list(values.values()) if isinstance(values, Mapping) else [values]
    of_rows = [np.zeros((shape[0], 0))]
    of_pairs = []
    for part in parts:
        if _is_of_pairs(part, shape):
            of_pairs.append(_pair_matrix(part, shape))
        else:
            of_rows.append(_row_columns(part, shape))
    return PairColumns(np.concatenate(of_rows, axis=1), tuple(of_pairs), shape)


def _is_of_pairs(values: MatrixLike, shape: tuple[int, int]) -> bool:
    return sp.issparse(values) or np.shape(values) == shape


def _columns(values: MatrixLike, top: TopK, shape: tuple[int, int], k: int) -> Floats:
    if _is_of_pairs(values, shape):
        return _of_pairs(_pair_matrix(values, shape), top, shape, k)
    return _row_columns(values, shape)


def _row_columns(values: MatrixLike, shape: tuple[int, int]) -> Floats:
    made = np.array(checks.numbers(values, "covariates"), dtype=np.float64)
    made = made[:, None] if made.ndim == 1 else made
    if made.ndim != 2 or made.shape[0] != shape[0]:
        raise ValueError(
            f"covariates must be known for all {shape[0]} rows, or be an {shape} matrix of pairs; "
            f"got shape {np.shape(values)}."
        )
    return checks.finite(made, "covariates")


def _pair_matrix(values: MatrixLike, shape: tuple[int, int]) -> sp.csr_array:
    pairs = checks.columns(values, name="covariates", column="label")
    if pairs.shape != shape:
        raise ValueError(f"covariates of pairs must have the shape {shape}; got {pairs.shape}.")
    return pairs


def _of_pairs(pairs: sp.csr_array, top: TopK, shape: tuple[int, int], k: int) -> Floats:
    row, place = np.nonzero(top.labels[:, :k] >= 0)
    mine = values_at(pairs, row, top.labels[row, place])
    hits = np.bincount(row, mine, minlength=shape[0])
    total = np.asarray(pairs.sum(axis=1), dtype=np.float64).ravel()
    share = np.where(total > 0, hits / np.where(total > 0, total, 1), 0.0)
    return np.stack([hits, total, share], axis=1)
