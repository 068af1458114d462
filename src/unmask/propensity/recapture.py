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

from unmask._messages import named_options
from unmask._typing import Floats, LabelsLike
from unmask.arrays import checks
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


def chao(*lists: LabelsLike) -> tuple[Floats, Floats]:
    """Chao's lower bound of how often each label truly occurs, and its variance.

        N̂ = S + a f₁² / (2 f₂),    a = (t − 1) / t

    with S rows in which any of t annotations has the label, f₁ in which exactly one and f₂ in
    which exactly two have it. Annotators who all miss the same (hard) labels make it smaller than
    the truth, never larger on average: hence a lower bound, and S / N̂ an upper bound of the
    propensity of "any".

    Parameters
    ----------
    *lists : matrices of shape (n, L)
        At least two annotations of the same rows, dense or sparse.

    Returns
    -------
    size, variance : arrays of shape (L,)
        Where no row has a label twice, f₁ (f₁ − 1) / 2 stands for f₁² / (2 f₂).

    Raises
    ------
    ValueError
        If there are fewer than two lists, or shapes differ.

    References
    ----------
    Chao, *Estimating the population size for capture-recapture data with unequal catchability*,
    Biometrics 43 (1987).

    Examples
    --------
    >>> size, variance = chao([[1], [1], [0], [1]], [[1], [0], [1], [1]], [[0], [0], [1], [1]])
    >>> size.round(3)  # S = 4, once: 1, twice: 2
    array([4.167])
    """
    if len(lists) < 2:
        raise ValueError(f"give at least two annotations of the same rows; got {len(lists)}.")
    checked = [_validated_annotations(lists[0], each)[1] for each in lists]
    times = sp.csr_array(sum(checked[1:], checked[0]))
    once, twice, any_of = (
        np.bincount(times.indices[chosen], minlength=times.shape[1]).astype(np.float64)
        for chosen in (times.data == 1, times.data == 2, times.data > 0)
    )
    a = (len(lists) - 1) / len(lists)
    ratio = once / np.maximum(twice, 1)
    some = a * once * ratio / 2
    none = a * once * (once - 1) / 2
    size = any_of + np.where(twice > 0, some, none)
    spread = twice * (a * ratio**2 / 2 + a**2 * ratio**3 + a**2 * ratio**4 / 4)
    alone = (
        none + a**2 * once * (2 * once - 1) ** 2 / 4 - a**2 * once**4 / (4 * np.maximum(size, 1))
    )
    return size, np.where(twice > 0, spread, np.maximum(alone, 0.0))


@named_options
def snapshots(
    earlier: LabelsLike,
    later: LabelsLike,
    *,
    counts: ArrayLike | None = None,
    n: int | None = None,
    curve: str = "jain",
    confidence: float = 0.95,
    seed: int = 0,
) -> PropensityEstimate:
    """Upper bounds of the propensities of the earlier labels, from the same rows labelled later.

        P(E | Y* = 1) = P(E | L) P(L | Y* = 1) ≤ P(E | L)    if what was there earlier stays

    Of the labels that the later snapshot has, the share that the earlier one had already is at
    least the propensity: what both lack is counted nowhere. So corrections with it are too small
    rather than too large, as long as labels are added for no other reason than being missing.

    Parameters
    ----------
    earlier, later : matrices of shape (n, L)
        The same rows at two dates, dense or sparse. Labels that were withdrawn are left out.
    counts, n, curve, confidence, seed
        As in `audit`.

    Returns
    -------
    PropensityEstimate
        Its intervals are those of P(E | L); the lower ends bound nothing.

    Raises
    ------
    ValueError
        If the shapes differ, or an option is out of its range.

    Examples
    --------
    >>> from unmask import data, propensity
    >>> truth = data.synthetic.independent(2000, 5, seed=0)
    >>> later = data.hide(truth, propensity.constant(5, 0.8), seed=1)
    >>> earlier = data.hide(later, propensity.constant(5, 0.5), seed=2)
    >>> float(propensity.snapshots(earlier, later, curve="free").value.mean().round(1))  # true: 0.4
    0.5
    """
    _, later_labels, both = _validated_annotations(earlier, later)
    estimate = audit(
        both, later_labels, counts=counts, n=n, curve=curve, confidence=confidence, seed=seed
    )
    note = "an upper bound: labels that both snapshots lack are counted nowhere."
    return replace(estimate, method="snapshots", notes=(note, *estimate.notes))


@named_options
def recapture(
    first: LabelsLike,
    second: LabelsLike,
    *more: LabelsLike,
    of: str = "first",
    counts: ArrayLike | None = None,
    n: int | None = None,
    curve: str = "free",
    confidence: float = 0.95,
    seed: int = 0,
) -> PropensityEstimate:
    """Propensities of the `first` annotation, or of labels found by "either" (any) of them.

        m | n₂ ~ Bin(n₂, p₁),    p(found by either) = 1 − (1 − p₁)(1 − p₂)

    Parameters
    ----------
    first, second, *more : matrices of shape (n, L)
        Independent annotations of the same rows, dense or sparse. More than two count as two: the
        first, and what any other found.
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
    checks.one_of(of, ("first", "either"), "annotation")
    for each in more:
        second = sp.csr_array(
            _validated_annotations(second, each)[0].maximum(checks.labels(each, name="annotation"))
        )
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
        checks.labels(first, name="first"),
        checks.labels(second, name="second"),
    )
    checks.same_shape(first_labels, second_labels, "first", "second")
    return first_labels, second_labels, sp.csr_array(first_labels.multiply(second_labels))
