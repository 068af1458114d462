"""Does keeping a label depend on something? The conditional score test, within labels.

M_ij says whether the true label j of row i was kept, x_ij is what keeping may depend on (a number,
or several). In the logistic model logit P(M_ij = 1) = a_j + βᵀ x_ij, given k_j kept of K_j, the
score of β at 0 and its variance over all arrangements of a label's kept entries are

    T = Σ_ij e_ij (x_ij − x̄_j),    V = Σ_j [Σ_i e_ij² / (K_j − 1)] Σ_i (x_ij − x̄_j)(x_ij − x̄_j)ᵀ

with e_ij = M_ij − k_j/K_j. No propensity enters. TᵀV⁻T is chi-square with rank V degrees of
freedom, and V⁻T is a first step towards β. Where labels of a row are kept or lost together, the
rows' own sums vary more than V says; V then grows by that factor (`by_row`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.stats import chi2, rankdata

from unmask._typing import Floats


@dataclass(frozen=True)
class ScoreTest:
    """What the test says.

    Parameters
    ----------
    p_value : float
        Under the hypothesis that β is 0.
    slope : floats of shape (c,)
        A first step towards β.
    """

    p_value: float
    slope: Floats


def score_test(left: sp.csr_array, values: Floats, *, by_row: bool = False) -> ScoreTest:
    """The score test of β = 0.

    Parameters
    ----------
    left : csr_array of shape (m, L)
        e_ij of every true label (`propensity.audit.residuals`).
    values : floats of shape (nnz,) or (nnz, c)
        x_ij of every true label, in the order of `left.indices`.
    by_row : bool, default False
        Whether the variance allows for labels of a row that are kept or lost together.

    Returns
    -------
    ScoreTest

    Examples
    --------
    Of four rows with the label, the two with larger x kept it:

    >>> left = sp.csr_array([[-0.5], [-0.5], [0.5], [0.5]])
    >>> test = score_test(left, np.array([0.0, 1.0, 2.0, 3.0]))
    >>> round(test.p_value, 4), test.slope.round(2)
    (0.1213, array([1.2]))
    """
    columns = np.asarray(values, dtype=np.float64).reshape(left.nnz, -1)
    centred = columns - _label_means(left, columns)[left.indices]
    sizes = np.bincount(left.indices, minlength=left.shape[1])
    squares = np.bincount(left.indices, left.data**2, left.shape[1])
    spread = (squares / np.maximum(sizes - 1, 1))[left.indices]
    score = left.data @ centred
    variance = (centred * spread[:, None]).T @ centred
    inverse = np.linalg.pinv(variance, hermitian=True)
    statistic = float(score @ inverse @ score)
    if by_row:
        statistic /= max(1.0, _excess(left, centred, inverse))
    freedom = int(np.linalg.matrix_rank(variance, hermitian=True))
    p_value = float(chi2.sf(statistic, freedom)) if freedom else 1.0
    return ScoreTest(p_value, np.asarray(inverse @ score))


def _label_means(left: sp.csr_array, columns: Floats) -> Floats:
    sizes = np.maximum(np.bincount(left.indices, minlength=left.shape[1]), 1)
    sums = [np.bincount(left.indices, column, left.shape[1]) for column in columns.T]
    return np.asarray(np.column_stack(sums) / sizes[:, None])


def _excess(left: sp.csr_array, centred: Floats, inverse: Floats) -> float:
    """How much more the rows' sums vary than V says, on average over the directions of β."""
    row = np.repeat(np.arange(left.shape[0]), np.diff(left.indptr))
    terms = left.data[:, None] * centred
    sums = np.column_stack([np.bincount(row, term, left.shape[0]) for term in terms.T])
    rank = np.linalg.matrix_rank(inverse, hermitian=True)
    return float(np.trace(inverse @ (sums.T @ sums)) / max(rank, 1))


def ranks_within_labels(values: Floats, true_labels: sp.csr_array) -> Floats:
    """Where every entry stands among the entries of its label, from −½ to ½.

    Parameters
    ----------
    values : floats of shape (nnz,)
        In the order of `true_labels.indices`.
    true_labels : csr_array of shape (m, L)

    Returns
    -------
    floats of shape (nnz,)
        Equal values get the mean of their places.

    Examples
    --------
    >>> ranks_within_labels(np.array([3.0, 9.0, 5.0]), sp.csr_array([[1, 1], [0, 1]]))
    array([ 0.  ,  0.25, -0.25])
    """
    order = np.argsort(true_labels.indices, kind="stable")
    ends = np.cumsum(np.bincount(true_labels.indices, minlength=true_labels.shape[1]))
    ranks = np.zeros(true_labels.nnz)
    for entries in np.split(order, ends[:-1]):
        ranks[entries] = (rankdata(values[entries]) - 0.5) / max(entries.size, 1) - 0.5
    return ranks
