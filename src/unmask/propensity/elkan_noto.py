"""Propensities from a model that was trained on the observed labels themselves.

If g_j(x) is the calibrated probability that label j is *observed* on a row x, then with
π_j(x) = P(Y*_j = 1 | x)

    g_j(x) = p_j π_j(x),    E[ g_j(x) | Y_j = 1 ] = p_j E[ π_j(x) | Y*_j = 1 ] ≤ p_j

so the mean of g_j over held-out rows that show label j estimates p_j where the features leave no
doubt about the label (π = 1), and is too low otherwise (Elkan & Noto, *Learning classifiers from
only positive and unlabeled data*, 2008). It is a lower bound with sampling error, no more.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask import _validation
from unmask._typing import Floats, LabelsLike, MatrixLike
from unmask.propensity.audit import from_counts, label_counts
from unmask.propensity.estimate import PropensityEstimate

BIAS = (
    "Elkan and Noto's estimate is too low by the factor E[P(label | features) | label], which is 1 "
    "only if features determine labels; the intervals cover sampling error and not that bias.",
    "The probabilities must be calibrated and come from rows the model was not trained on.",
)


def from_model(
    probabilities: MatrixLike,
    observed: LabelsLike,
    *,
    counts: ArrayLike | None = None,
    n: int | None = None,
    curve: str = "free",
    confidence: float = 0.95,
    seed: int = 0,
) -> PropensityEstimate:
    """Propensities from held-out calibrated probabilities of being observed.

        p_j ≈ mean of g_j(x) over the held-out rows x that show label j

    Each such row counts like one true label that was kept or lost (a probability varies less than a
    coin toss, so this is cautious), pooled along label frequency as in `audit`.

    Parameters
    ----------
    probabilities : matrix of shape (n, L)
        Calibrated, from rows that the model was not trained on; dense, or sparse (not stored: 0).
    observed : matrix of shape (n, L)
        Observed labels of the same rows.
    counts : array of shape (L,), optional
        Label counts of the training labels, which place labels on the curve; by default those of
        `observed`.
    n : int, optional
        Rows of the training labels; goes with `counts`.
    curve : {"free", "jain"}, default "free"
        Whether the level of the curve is estimated, too.
    confidence : float, default 0.95
        Of the intervals, in [0.5, 0.9999].
    seed : int, default 0
        Decides the draws of the curve's parameters.

    Returns
    -------
    PropensityEstimate

    Raises
    ------
    ValueError
        If shapes differ, a probability lies outside [0, 1], or only one of `counts` and `n` is
        given.

    References
    ----------
    Elkan & Noto, *Learning classifiers from only positive and unlabeled data*, KDD 2008.

    Examples
    --------
    >>> p = from_model([[0.4, 0.1], [0.5, 0.2], [0.1, 0.3]] * 50, [[1, 0], [1, 0], [0, 1]] * 50)
    >>> p.value.round(1)
    array([0.4, 0.3])
    """
    labels = _validation.labels(observed, name="observed")
    frequency = label_counts(labels)
    if (counts is None) != (n is None):
        raise ValueError("give both `counts` and `n` of the training labels, or neither.")
    return from_counts(
        np.minimum(_sums(probabilities, labels), frequency),
        frequency,
        counts=frequency + 0.5 if counts is None else counts,
        n=labels.shape[0] + 1 if n is None else n,
        sampled=counts is None,
        curve=curve,
        confidence=confidence,
        seed=seed,
        method="model",
        notes=BIAS,
    )


def _sums(probabilities: MatrixLike, labels: sp.csr_array) -> Floats:
    """Σ g over the observed positives of each label."""
    chances = (
        _validation.matrix(probabilities, name="probabilities", column="label")
        if sp.issparse(probabilities)
        else _validation.numbers(probabilities, "probabilities")
    )
    _validation.same_shape(chances, labels, "probabilities", "observed")
    at_positives = sp.csr_array(labels.multiply(chances), dtype=np.float64)
    values = _validation.finite(at_positives.data, "probabilities")
    if values.size and not (values.min() >= 0 and values.max() <= 1):
        raise ValueError(
            f"probabilities must lie in [0, 1]; got {values.min():g} to {values.max():g}. "
            "Calibrate the scores first."
        )
    return np.asarray(at_positives.sum(axis=0), dtype=np.float64)
