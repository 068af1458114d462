"""Word counts to features as DiSMEC makes them: tf = 1 + ln(count), idf = ln(N / df), unit rows.

Fit `idf` on the training rows; apply it to any rows.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask._typing import FeaturesLike, Floats
from unmask.arrays import checks


def idf(counts: FeaturesLike) -> Floats:
    """ln(N / df) per feature, df being the number of rows that contain it; 0 where none does.

    A feature without a training row has no weight a model could have learnt, hence 0 and not ∞.

    Parameters
    ----------
    counts : matrix of shape (n, d)
        Word counts of the training rows, dense or sparse.

    Returns
    -------
    array of shape (d,)

    Raises
    ------
    ValueError
        If a count is not finite.

    Examples
    --------
    >>> idf(sp.csr_array([[1, 2, 0], [3, 0, 0]])).round(3)
    array([0.   , 0.693, 0.   ])
    """
    matrix = checks.columns(counts, name="word counts")
    df = np.bincount(matrix.indices[matrix.data != 0], minlength=matrix.shape[1])
    return np.where(df > 0, np.log(matrix.shape[0] / np.maximum(df, 1)), 0.0)


def tfidf(counts: FeaturesLike, weights: ArrayLike) -> sp.csr_array:
    """(1 + ln count) · weight, rows scaled to length 1.

    Parameters
    ----------
    counts : matrix of shape (n, d)
        Word counts, dense or sparse.
    weights : array of shape (d,)
        One per feature, from `idf`.

    Returns
    -------
    csr_array of shape (n, d), float32

    Raises
    ------
    ValueError
        If a stored count is negative or there is not one weight per feature.

    Examples
    --------
    >>> tfidf(sp.csr_array([[1.0, 1.0, 2.0]]), np.array([0.0, 1.0, 1.0])).toarray().round(3)
    array([[0.   , 0.509, 0.861]], dtype=float32)
    """
    from sklearn.feature_extraction.text import TfidfTransformer

    matrix = checks.columns(counts, name="word counts").astype(np.float64)
    matrix.eliminate_zeros()  # of our own copy: a word that occurs 0 times does not occur
    if matrix.data.size and not matrix.data.min() > 0:
        raise ValueError(f"word counts must be positive; got {matrix.data.min():g}.")
    numbers = checks.numbers(weights, "idf weights")
    if numbers.shape != (matrix.shape[1],):
        raise ValueError(
            f"{len(numbers) if numbers.ndim else 1} idf weights for {matrix.shape[1]} features; "
            "give one per feature."
        )
    transformer = TfidfTransformer(sublinear_tf=True)
    transformer.idf_ = checks.finite(numbers.astype(np.float64), "idf weights")
    features = sp.csr_array(transformer.transform(matrix), dtype=np.float32)
    features.eliminate_zeros()
    return features
