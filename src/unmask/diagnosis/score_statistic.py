"""Does keeping a label depend on something? The conditional score test, within labels.

M_ij says whether the true label j of row i was kept, x_ij is what keeping may depend on (a number,
or several). In the logistic model logit P(M_ij = 1) = a_j + βᵀ x_ij, given k_j kept of K_j, the
score of β at 0 and its variance over all arrangements of a label's kept entries are

    T = Σ_ij e_ij (x_ij − x̄_j),    V = Σ_j [Σ_i e_ij² / (K_j − 1)] Σ_i (x_ij − x̄_j)(x_ij − x̄_j)ᵀ

with e_ij = M_ij − k_j/K_j. No propensity enters. TᵀV⁻T is chi-square with rank V degrees of
freedom, and V⁻T is a first step towards β.

Where labels of a row are kept or lost together, with correlation r (`row_correlation`), the score
varies more than V says, and more so the more alike x is within rows:

    V_r = Σ_i Σ_jk r_jk a_ij a_ikᵀ,    a_ij = s_j (x_ij − x̄_j),    r_jj = 1, r_jk = r, V_0 = V

with s_j² = Σ_i e_ij² / (K_j − 1). One r for all rows is far less noisy than the squares of every
row's own sum. TᵀV_r⁻T / rank is compared with F of rank and rows − 1 degrees of freedom (`by_row`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.stats import chi2, rankdata
from scipy.stats import f as fisher_f

from unmask._sparse import entry_rows
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
    scaled = centred * _spread(left)[left.indices, None]
    score = left.data @ centred
    variance = scaled.T @ scaled
    inverse = np.linalg.pinv(variance, hermitian=True)
    slope = np.asarray(inverse @ score)
    freedom = int(np.linalg.matrix_rank(variance, hermitian=True))
    if not freedom:
        return ScoreTest(1.0, slope)
    if not by_row:
        return ScoreTest(float(chi2.sf(score @ slope, freedom)), slope)
    shared = min(max(row_correlation(left), 0.0), 1.0)
    sums = _row_sums(left, scaled)
    together = (1 - shared) * variance + shared * (sums.T @ sums)
    statistic = float(score @ np.linalg.pinv(together, hermitian=True) @ score)
    rows = int((np.diff(left.indptr) > 0).sum())
    return ScoreTest(float(fisher_f.sf(statistic / freedom, freedom, max(rows - 1, 1))), slope)


def row_correlation(left: sp.csr_array) -> float:
    """The mean correlation between the fates of two true labels of a row.

    Σ_i Σ_{j≠k} e_ij e_ik over what it would be on average if the correlation were 1
    (`expected_products`). Sampling makes it differ from 0, either way, also where labels are kept
    independently.

    Parameters
    ----------
    left : csr_array of shape (m, L)
        e_ij of every true label (`propensity.audit.residuals`).

    Returns
    -------
    float
        0 where no row has two labels that are both kept and lost.

    Examples
    --------
    Two labels of four rows that are kept or lost together:

    >>> left = sp.csr_array([[0.5, 0.5], [0.5, 0.5], [-0.5, -0.5], [-0.5, -0.5]])
    >>> round(row_correlation(left), 6)
    1.0
    """
    expected = expected_products(left, _spread(left))
    sums = _row_sums(left, left.data[:, None])
    observed = float((sums**2).sum() - (left.data**2).sum())
    return observed / expected if expected > 0 else 0.0


def expected_products(left: sp.csr_array, spread: Floats) -> float:
    """The mean of Σ_i Σ_{j≠k} e_ij e_ik where fates of two labels of a row have correlation 1.

    The fate of a row enters the rates k_j/K_j as well, so that a product has the mean
    s_j s_k [(1 − 1/K_j)(1 − 1/K_k) + (n_jk − 1) / (K_j K_k)], n_jk the rows with both labels.

    Parameters
    ----------
    left : csr_array of shape (m, L)
        Whose stored entries are the true labels.
    spread : floats of shape (L,)
        s_j, the standard deviation of a label's fate.

    Returns
    -------
    float

    Examples
    --------
    Two labels that all four rows have: eight products of 1/2 · 1/2, three quarters of each.

    >>> expected_products(sp.csr_array(np.ones((4, 2))), np.array([0.5, 0.5]))
    1.5
    """
    sizes = np.maximum(np.bincount(left.indices, minlength=left.shape[1]), 1).astype(np.float64)
    ones = sp.csr_array((np.ones(left.nnz), left.indices, left.indptr), shape=left.shape)
    pairs = sp.csr_array(ones.T @ ones).tocoo()
    two = pairs.row != pairs.col
    j, k, both = pairs.row[two], pairs.col[two], pairs.data[two]
    share = (1 - 1 / sizes[j]) * (1 - 1 / sizes[k]) + (both - 1) / (sizes[j] * sizes[k])
    return float((both * spread[j] * spread[k] * share).sum())


def _spread(left: sp.csr_array) -> Floats:
    """s_j: the standard deviation of M_ij over the rows of a label."""
    sizes = np.bincount(left.indices, minlength=left.shape[1])
    squares = np.bincount(left.indices, left.data**2, left.shape[1])
    return np.asarray(np.sqrt(squares / np.maximum(sizes - 1, 1)))


def _label_means(left: sp.csr_array, columns: Floats) -> Floats:
    sizes = np.maximum(np.bincount(left.indices, minlength=left.shape[1]), 1)
    sums = [np.bincount(left.indices, column, left.shape[1]) for column in columns.T]
    return np.asarray(np.column_stack(sums) / sizes[:, None])


def _row_sums(left: sp.csr_array, columns: Floats) -> Floats:
    """Σ_j of every column, (m, c)."""
    row = entry_rows(left)
    return np.column_stack([np.bincount(row, column, left.shape[0]) for column in columns.T])


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
