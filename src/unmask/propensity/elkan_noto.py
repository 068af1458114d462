"""Propensities from a model that was trained on the observed labels themselves.

If g_j(x) is the calibrated probability that label j is *observed* on a row x, then with
π_j(x) = P(Y*_j = 1 | x)

    g_j(x) = p_j π_j(x),    E[ g_j(x) | Y_j = 1 ] = p_j E[ π_j(x) | Y*_j = 1 ] ≤ p_j

so the mean of g_j over held-out rows that show label j estimates p_j where the features leave no
doubt about the label (π = 1), and is too low otherwise (Elkan & Noto, *Learning classifiers from
only positive and unlabeled data*, 2008). It is a lower bound with sampling error, no more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from unmask import _validation
from unmask.propensity.audit import from_counts, label_counts
from unmask.propensity.estimate import PropensityEstimate

BIAS = (
    "Elkan and Noto's estimate is too low by the factor E[P(label | features) | label], which is 1 "
    "only if features determine labels; the intervals cover sampling error and not that bias.",
    "The probabilities must be calibrated and come from rows the model was not trained on.",
)


def from_model(
    probabilities: Any,
    observed: Any,
    *,
    counts: ArrayLike | None = None,
    n: int | None = None,
    curve: str = "free",
    confidence: float = 0.95,
    seed: int = 0,
) -> PropensityEstimate:
    """Propensities from held-out calibrated probabilities (dense, or sparse: not stored means 0).

    The mean of `probabilities` over a label's observed positives counts like as many rows seen kept
    or lost (a probability varies less than a coin toss, so this is cautious), pooled along label
    frequency as in `audit`; `counts` and `n` of the training labels place labels on the curve, by
    default those of `observed`.

    >>> p = from_model([[0.4, 0.1], [0.5, 0.2], [0.1, 0.3]] * 50, [[1, 0], [1, 0], [0, 1]] * 50)
    >>> p.value.round(1)
    array([0.4, 0.3])
    """
    seen = _validation.labels(observed, name="observed")
    frequency = label_counts(seen)
    if (counts is None) != (n is None):
        raise ValueError("give both `counts` and `n` of the training labels, or neither.")
    return from_counts(
        np.minimum(_sums(probabilities, seen), frequency),
        frequency,
        counts=frequency + 0.5 if counts is None else counts,
        n=seen.shape[0] + 1 if n is None else n,
        sampled=counts is None,
        curve=curve,
        confidence=confidence,
        seed=seed,
        method="model",
        notes=BIAS,
    )


def _sums(probabilities: Any, seen: sp.csr_array) -> NDArray[np.float64]:
    """Σ g over the observed positives of each label."""
    chances = (
        _validation.matrix(probabilities, name="probabilities", column="label")
        if sp.issparse(probabilities)
        else _validation.numbers(probabilities, "probabilities")
    )
    _validation.same_shape(chances, seen, "probabilities", "observed")
    at_positives = sp.csr_array(seen.multiply(chances), dtype=np.float64)
    values = _validation.finite(at_positives.data, "probabilities")
    if values.size and not (values.min() >= 0 and values.max() <= 1):
        raise ValueError(
            f"probabilities must lie in [0, 1]; got {values.min():g} to {values.max():g}. "
            "Calibrate the scores first."
        )
    return np.asarray(at_positives.sum(axis=0), dtype=np.float64)
