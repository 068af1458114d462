"""Propensities from true label frequencies known from elsewhere (a census, a full annotation).

Label j occurs in n_j of n observed rows and truly in a share f_j of them, so n_j ~ Bin(n, p_j f_j):

    p_j = (n_j / n) / f_j

The observed share has a Beta(n_j + ½, n − n_j + ½) posterior; a frequency that was itself counted
among `true_n` rows has one, too. Ratios above 1 are cut at 1.

Propensities from a model that was trained on the observed labels themselves.

If g_j(x) is the calibrated probability that label j is *observed* on a row x, then with
π_j(x) = P(Y*_j = 1 | x)

    g_j(x) = p_j π_j(x),    E[ g_j(x) | Y_j = 1 ] = p_j E[ π_j(x) | Y*_j = 1 ] ≤ p_j

so the mean of g_j over held-out rows that show label j estimates p_j where the features leave no
doubt about the label (π = 1), and is too low otherwise (Elkan & Noto, *Learning classifiers from
only positive and unlabeled data*, 2008). It is a lower bound with sampling error, no more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.stats import beta, norm

from unmask._messages import named_options
from unmask._typing import Floats, LabelsLike, MatrixLike
from unmask.arrays import checks
from unmask.propensity.audit import from_counts, label_counts
from unmask.propensity.estimate import SMALLEST, PropensityEstimate

LOWEST = 1e-100


@named_options
def from_marginals(
    observed: LabelsLike,
    true_frequency: ArrayLike,
    *,
    true_n: int | None = None,
    confidence: float = 0.95,
) -> PropensityEstimate:
    """Propensities as observed over true frequency of every label.

        p_j = (n_j / n) / f_j,    cut at 1

    Parameters
    ----------
    observed : matrix of shape (n, L)
        Observed labels, dense or sparse.
    true_frequency : array of shape (L,)
        f_j, the share of rows that truly have label j, in (0, 1].
    true_n : int, optional
        Rows among which the true frequencies were counted; by default they are exact.
    confidence : float, default 0.95
        Of the intervals, in [0.5, 0.9999].

    Returns
    -------
    PropensityEstimate

    Raises
    ------
    ValueError
        If a frequency lies outside (0, 1], there are no rows, or a number is out of its range.

    Examples
    --------
    >>> p = from_marginals([[1, 0]] * 300 + [[0, 1]] * 700, [0.5, 0.9])
    >>> p.value.round(3), p.low.round(2), p.high.round(2)
    (array([0.6  , 0.778]), array([0.54, 0.75]), array([0.66, 0.81]))
    """
    matrix = checks.labels(observed, name="observed")
    share = checks.per_label(true_frequency, matrix.shape[1], "true label frequencies")
    bad = np.flatnonzero((share < LOWEST) | (share > 1))
    if bad.size:
        label = int(bad[0])
        raise ValueError(
            f"true label frequencies must lie in (0, 1], and not below {LOWEST:g}; got "
            f"{share[label]:g} at label {label}. Leave out labels that do not exist."
        )
    if not matrix.shape[0]:
        raise ValueError("there are no observed rows; give at least one.")
    counted = None if true_n is None else checks.positive_int(true_n, "true_n")
    ratio = Ratio(label_counts(matrix), matrix.shape[0], share, counted)
    low, high = ratio.interval(confidence)
    value = np.clip((ratio.counts + 0.5) / (ratio.n + 1) / share, SMALLEST, 1.0)
    return PropensityEstimate(
        value,
        low,
        high,
        confidence,
        "marginals",
        ratio.n * share,
        ratio,
        notes=_notes(ratio),
        rows=ratio.n,
    )


@dataclass(frozen=True, eq=False)
class Ratio:
    """The distribution of p_j = observed share / true share."""

    counts: Floats
    n: int
    share: Floats
    true_n: int | None

    def interval(self, confidence: float) -> tuple[Floats, Floats]:
        """Exact where the true share is known, else normal on the log scale."""
        checks.in_range(confidence, "confidence", 0.5, 0.9999)
        tails = np.array([[(1 - confidence) / 2], [(1 + confidence) / 2]])
        if self.true_n is None:
            ends = beta.ppf(tails, self.counts + 0.5, self.n - self.counts + 0.5) / self.share
        else:
            observed, share = (self.counts + 0.5) / (self.n + 1), self.share
            error = (1 - observed) / (self.counts + 0.5) + (1 - share) / (share * self.true_n)
            with np.errstate(over="ignore"):  # beyond 1 it is 1
                ends = observed / share * np.exp(norm.ppf(tails) * np.sqrt(error))
        low, high = np.clip(ends, SMALLEST, 1.0)
        return low, high

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """(size, L) draws."""
        shape = (size, self.share.size)
        observed = rng.beta(self.counts + 0.5, self.n - self.counts + 0.5, shape)
        if self.true_n is None:
            return observed / self.share
        positives = self.share * self.true_n
        return observed / rng.beta(positives + 0.5, self.true_n - positives + 0.5, shape)


def _notes(ratio: Ratio) -> tuple[str, ...]:
    above = int((ratio.counts > ratio.n * ratio.share).sum())
    if not above:
        return ()
    return (
        f"{above} of {ratio.share.size} labels are observed more often than they are said to "
        "occur; their propensity was set to 1. Do both frequencies refer to the same population?",
    )


BIAS = (
    "Elkan and Noto's estimate is too low by the factor E[P(label | features) | label], which is 1 "
    "only if features determine labels; the intervals cover sampling error and not that bias.",
    "The probabilities must be calibrated and come from rows the model was not trained on.",
)


@named_options
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
    labels = checks.labels(observed, name="observed")
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
        checks.matrix(probabilities, name="probabilities", column="label")
        if sp.issparse(probabilities)
        else checks.numbers(probabilities, "probabilities")
    )
    checks.same_shape(chances, labels, "probabilities", "observed")
    at_positives = sp.csr_array(labels.multiply(chances), dtype=np.float64)
    values = checks.finite(at_positives.data, "probabilities")
    if values.size and not (values.min() >= 0 and values.max() <= 1):
        raise ValueError(
            f"probabilities must lie in [0, 1]; got {values.min():g} to {values.max():g}. "
            "Calibrate the scores first."
        )
    return np.asarray(at_positives.sum(axis=0), dtype=np.float64)
