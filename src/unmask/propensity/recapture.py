"""Propensities from two independent annotations of the same rows, neither of them complete.

Whoever annotates second sees the true labels with some unknown probability, but independently of
the first; so among the n₂ labels found second, the m that were also found first are a binomial
sample of the first's propensity (and the other way round):

    m | n₂ ~ Bin(n₂, p₁),    m | n₁ ~ Bin(n₁, p₂),    p(found by either) = 1 − (1 − p₁)(1 − p₂)

Per label this is the classical estimate of a population from two captures; Chapman's version,

    N̂ = (n₁ + 1)(n₂ + 1) / (m + 1) − 1,

does not divide by zero and is unbiased for n₁, n₂ fixed with n₁ + n₂ ≥ N. For rare labels the rates
are pooled along label frequency, as in an audit. Annotators who miss the same labels (hard ones)
make m too large and hence the propensities too high: the assumption is independence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask import _validation
from unmask._typing import Floats, LabelsLike
from unmask.propensity.audit import Posterior, audit, label_counts
from unmask.propensity.estimate import PropensityEstimate

DRAWS = 400


def chapman(first: LabelsLike, second: LabelsLike) -> tuple[Floats, Floats]:
    """Chapman's estimate of how often each label truly occurs, and its (Seber's) variance.

        N̂ = (n₁ + 1)(n₂ + 1) / (m + 1) − 1
        V̂ = (n₁ + 1)(n₂ + 1)(n₁ − m)(n₂ − m) / ((m + 1)² (m + 2))

    Parameters
    ----------
    first, second : matrices of shape (n, L)
        Two independent annotations of the same rows, dense or sparse.

    Returns
    -------
    size, variance : arrays of shape (L,)

    Raises
    ------
    ValueError
        If the shapes differ.

    References
    ----------
    Chapman, *Some properties of the hypergeometric distribution with applications to zoological
    sample censuses* (1951); Seber, *The effects of trap response on tag recapture estimates*
    (1970).

    Examples
    --------
    >>> size, variance = chapman([[1], [1], [0], [0]], [[1], [0], [1], [0]])
    >>> size, variance.round(2)
    (array([3.5]), array([0.75]))
    """
    first_labels, second_labels, both = _validated_annotations(first, second)
    n1, n2, m = label_counts(first_labels), label_counts(second_labels), label_counts(both)
    size = (n1 + 1) * (n2 + 1) / (m + 1) - 1
    variance = (n1 + 1) * (n2 + 1) * (n1 - m) * (n2 - m) / ((m + 1) ** 2 * (m + 2))
    return size, variance


def recapture(
    first: LabelsLike,
    second: LabelsLike,
    *,
    of: str = "first",
    counts: ArrayLike | None = None,
    n: int | None = None,
    curve: str = "free",
    confidence: float = 0.95,
    seed: int = 0,
) -> PropensityEstimate:
    """Propensities of the `first` annotation, or of labels found by "either".

        m | n₂ ~ Bin(n₂, p₁),    p(found by either) = 1 − (1 − p₁)(1 − p₂)

    Parameters
    ----------
    first, second : matrices of shape (n, L)
        Two independent annotations of the same rows, dense or sparse.
    of : {"first", "either"}, default "first"
        Whose propensities.
    counts : array of shape (L,), optional
        Label counts of the training labels, which place labels on the curve (as in `audit`).
    n : int, optional
        Rows of the training labels; goes with `counts`.
    curve : {"free", "jain"}, default "free"
        Whether the level of the curve is estimated, too; annotators need not lose labels as the
        Jain model says.
    confidence : float, default 0.95
        Of the intervals, in [0.5, 0.9999].
    seed : int, default 0
        Decides the draws.

    Returns
    -------
    PropensityEstimate

    Raises
    ------
    ValueError
        If the shapes differ, or an option is unknown or out of its range.

    Examples
    --------
    >>> from unmask import data, propensity
    >>> truth = data.synthetic.independent(2000, 5, seed=0)
    >>> one = data.hide(truth, propensity.constant(5, 0.5), seed=1)
    >>> two = data.hide(truth, propensity.constant(5, 0.3), seed=2)
    >>> float(propensity.recapture(one, two).value.mean().round(1))
    0.5
    >>> float(propensity.recapture(one, two, of="either").value.mean().round(1))
    0.6
    """
    _validation.one_of(of, ("first", "either"), "annotation")
    first_labels, second_labels, both = _validated_annotations(first, second)
    estimate = partial(audit, counts=counts, n=n, curve=curve, confidence=confidence, seed=seed)
    of_first = replace(estimate(both, second_labels), method="recapture")
    if of == "first":
        return of_first
    of_second = estimate(both, first_labels)
    either = Either(*(cast(Posterior, each.uncertainty) for each in (of_first, of_second)))
    drawn = either.sample(np.random.default_rng(seed), DRAWS)
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return PropensityEstimate(
        drawn.mean(axis=0), low, high, confidence, "recapture", of_first.evidence, either,
        notes=tuple(dict.fromkeys((*of_first.notes, *of_second.notes))),
        effect=max(of_first.effect, of_second.effect), rows=of_first.rows,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Either:
    """The distribution of 1 − (1 − p₁)(1 − p₂): labels found twice weigh on both factors alike.

    A Beta variable is a ratio of Gamma variables; the one of the common count m is shared.
    """

    first: Posterior
    second: Posterior

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """(size, L) draws."""
        pairs = zip(self.first.pick(rng, size), self.second.pick(rng, size), strict=True)
        return 1 - np.array([self._missed(rng, *pair) for pair in pairs])

    def _missed(self, rng: np.random.Generator, *draws: Floats) -> Floats:
        shared = np.minimum(self.first.kept, self.second.kept)
        common, missed = rng.gamma(shared), np.ones_like(shared)
        for posterior, draw in zip((self.first, self.second), draws, strict=True):
            alpha, beta = posterior.betas(draw)
            kept, lost = common + rng.gamma(alpha - shared), rng.gamma(beta)
            kept *= posterior.shift(rng, 1)
            missed *= lost / (kept + lost)
        return missed


def _validated_annotations(
    first: LabelsLike, second: LabelsLike
) -> tuple[sp.csr_array, sp.csr_array, sp.csr_array]:
    first_labels, second_labels = (
        _validation.labels(first, name="first"),
        _validation.labels(second, name="second"),
    )
    _validation.same_shape(first_labels, second_labels, "first", "second")
    return first_labels, second_labels, sp.csr_array(first_labels.multiply(second_labels))
