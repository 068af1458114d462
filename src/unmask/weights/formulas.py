"""The corrections as formulas, each written once, for numpy arrays and torch tensors.

The table of formulas is in `unmask.weights`; `weigh` is that table. a = 1/p, m is the number of
observed labels of a row. A formula sees the observed labels through `Entries`: their inverse
propensities and four sums over rows. There are two layouts. `Rectangle` holds a batch as an (n, m)
array, on numpy or on torch and its device. `StoredEntries` holds a whole data set in CSR form, with
compiled sums.

**Exact normalised weights.** The share of label i in its row, y*_i / |y*|, has exactly one unbiased
estimate from what is seen:

    T_i = Σ_{J⊆I, i∈J} (1/|J|) Π_{j∈J} a_j Π_{k∈I∖J} (1 − a_k),    a = 1/p

Writing 1/|J| as ∫₀¹ t^{|J|−1} dt makes the sum over subsets a product under one integral,

    T_i = a_i ∫₀¹ Π_{k≠i} (1 − u a_k) du,

a polynomial that Gauss–Legendre integrates exactly: O(m²) for a row of m labels instead of O(2^m),
and no cancellation between huge subset terms. T is what normalised losses weigh labels with; its
sum over the hits among k predictions is the unbiased recall@k.

**How many labels do rows truly have?** Empirical Bayes needs the distribution of N* = |Y*|. A row
with N* labels shows m ~ Bin(N*, p̄) of them, p̄ = (labels observed) / Σ 1/p being the propensity of
an average true label. The histogram h of m over all rows has the log-likelihood

    Σ_m h_m log Σ_N π_N Bin(m; N, p̄)

and π is its maximum over all distributions on 0 … min(L, ⌈m_max/p̄⌉) (beyond that every observed
count becomes less likely, so the maximum puts nothing there). The problem is small: its size does
not depend on the number of rows. `unmask._mixture` solves it.

Many files hold no row without labels: such rows were dropped. What is left is a sample given m ≥ 1,
so Bin(m; N, p̄) is divided by 1 − (1 − p̄)^N, and π is that of the rows at hand. p̄ stays as it is,
because a dropped row had nothing to add to either sum. Read as if they were all rows, they would
seem to have many more labels than they have: no row of few labels would have lost them all.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
import scipy.special
from scipy.special import gammaln, xlog1py

from unmask import _kernels, _mixture
from unmask._kernels import weights as kernels
from unmask._kernels.weights import gauss_legendre
from unmask._messages import function, named_options, setting, warn
from unmask._typing import Floats, Integers, Ints, LabelsLike, PropensityLike
from unmask.arrays import checks
from unmask.arrays.checks import is_tensor
from unmask.propensity.models import reciprocal

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Array: TypeAlias = Any
"""A numpy array or a torch tensor."""
REDUCTIONS = ("ova", "pal", "pairwise")
_TINY = 1e-30


class Entries(Protocol):
    """The observed labels of some rows, in any layout; every result has the layout of `inverse`."""

    @property
    def inverse(self) -> Array:
        """1/p of every observed label."""
        ...

    def ones(self) -> Array:
        """Return 1 for every observed label."""
        ...

    def counts(self) -> Array:
        """Return the number m of observed labels in the row of every observed label."""
        ...

    def one_plus_others(self) -> Array:
        """Return 1 + Σ_{k≠j} a_k over the other observed labels of the row."""
        ...

    def shares(self) -> Array:
        """Return T, the unbiased estimate of the label's share of its row."""
        ...


def weigh(
    correction: str,
    entries: Entries,
    *,
    normalized: bool = False,
    reduction: str = "ova",
    share: Array | None = None,
) -> tuple[Array, Array]:
    """Return the weights pos and cut of every observed label; one object where both are equal.

    Of "tempered", `entries.inverse` is already 1 + τ(1/p − 1). `share` is the table E[1/N* | m]
    for "empirical_bayes"; a longer row takes its last value. ValueError for combinations that do
    not exist, see `refuse_combination`.

    Examples
    --------
    >>> import numpy as np
    >>> pos, cut = weigh("bound", Rectangle(np.array([[4.0, 2.0, 0.0]])), reduction="pairwise")
    >>> pos, cut
    (array([[4., 2., 0.]]), array([[1., 1., 0.]]))
    """
    refuse_combination(correction, normalized, reduction)
    if normalized:
        weight = _normalized(correction, entries, share)
        return weight, weight
    if correction == "vanilla":
        ones = entries.ones()
        return ones, ones
    inverse = entries.inverse
    if correction != "bound" or reduction == "pal":
        return inverse, inverse
    ones = entries.ones()
    return inverse if reduction == "pairwise" else 2 * inverse - ones, ones


def _normalized(correction: str, entries: Entries, share: Array | None) -> Array:
    if correction == "vanilla":
        counts = entries.counts()
        return entries.ones() / (counts + (counts == 0))
    if correction == "bound":
        return entries.inverse / entries.one_plus_others()
    if correction == "empirical_bayes":
        assert share is not None  # noqa: S101 - callers fit it first
        counts = entries.counts()
        return entries.inverse * share[namespace(counts).clip(counts, None, len(share) - 1)]
    return entries.shares()


def refuse_combination(
    correction: str, normalized: bool, reduction: str, *, of: str = "linear.train"
) -> None:
    """Raise for empirical Bayes without, and pairwise losses with, normalisation.

    `of` is whose argument the message names.
    """
    if normalized and reduction == "pairwise":
        raise ValueError(
            f"pairwise losses have no normalised form; leave out {setting('normalized', of=of)}."
        )
    if correction == "empirical_bayes" and not normalized:
        raise ValueError(
            "empirical_bayes estimates the 1/N* of normalised losses and has no plain form; "
            f"pass {setting('normalized', True, of=of)}, or use `unbiased` for a plain "
            "loss."
        )


def tempered_inverse(inverse: Array, ones: Array, tau: float) -> Array:
    """Return 1 + τ(a − 1) where there is a label; exactly a at τ = 1 and exactly 1 at τ = 0.

    `propensity.temper` is the same in terms of p.

    >>> tempered_inverse(4.0, 1.0, 0.5)
    2.5
    """
    return inverse if tau == 1 else ones + tau * (inverse - ones)


@dataclass(frozen=True)
class Rectangle:
    """Observed labels of n rows as an (n, m) array of 1/p, filled up with 0 in short rows.

    `rule(count)` gives the nodes and weights of Gauss–Legendre quadrature on [0, 1].

    >>> import numpy as np
    >>> Rectangle(np.array([[3.0, 3.0]])).shares()
    array([[-1.5, -1.5]])
    """

    inverse: Array
    rule: Callable[[int], tuple[Floats, Floats]] = gauss_legendre

    def ones(self) -> Array:
        """Return 1 where there is a label, 0 where there is none."""
        return namespace(self.inverse).sign(self.inverse)

    def counts(self) -> Array:
        """Return the (n, 1) numbers of observed labels of every row."""
        return (self.inverse > 0).sum(-1)[:, None]

    def one_plus_others(self) -> Array:
        """Return 1 plus the sums before and after a label: never a − a, which loses small terms."""
        xp = namespace(self.inverse)
        before = xp.cumsum(self.inverse, 1)
        after = xp.flip(xp.cumsum(xp.flip(self.inverse, (1,)), 1), (1,))
        out = xp.ones_like(before)
        out[:, 1:] += before[:, :-1]
        out[:, :-1] += after[:, 1:]
        return out

    def shares(self) -> Array:
        """Return T by ⌈m/2⌉ nodes, which are exact for the longest row and so for all.

        The product over k ≠ j is the product over all k divided by factor j. Adding 1e-30 keeps a
        factor that is exactly zero (p at a node) divisible and changes no other, because factors
        are multiples of 1e-17.
        """
        nodes, parts = self.rule(max(1, (self.inverse.shape[1] + 1) // 2))
        # (m, nodes, n), rows innermost: everything below runs over long contiguous vectors
        by_label = as_contiguous(self.inverse.T)[:, None, :]
        factors = by_label * like(self.inverse, -nodes[:, None])
        factors += 1
        factors += _TINY
        others = factors.prod(0) * like(self.inverse, parts[:, None]) / factors
        return self.inverse * others.sum(1).T


Result = TypeVar("Result")


def normalized_weights(indptr: ArrayLike, inverse_propensity: ArrayLike) -> Floats:
    """Return T of every stored entry of a CSR label matrix, from 1/p of every stored entry.

    T_i = a_i ∫₀¹ Π_{k≠i} (1 − u a_k) du over the other entries k of the row, a = 1/p. Within
    (16 + m/4) ε of a_i ∫ Π |1 − u a_k| du, which is |T| where nothing cancels (ε = 2⁻⁵²; tested
    against exact arithmetic up to m = 2,000 labels per row and p down to 1e-6). A value beyond
    float64 becomes the largest float64 of its sign, and a RuntimeWarning names the first such row.

    Parameters
    ----------
    indptr : (n + 1,) integers
        Where the entries of every row start, as in a CSR matrix.
    inverse_propensity : (nnz,) floats, each at least 1
        1/p of every stored entry.

    Returns
    -------
    (nnz,) floats
        The weights, in the order of the entries.

    Raises
    ------
    ValueError
        If `indptr` does not rise from 0 to nnz, or a number is below 1 or not finite.

    References
    ----------
    Schultheis & Babbar, *Unbiased loss functions for multilabel classification with missing labels*
    (2021), for T as a sum over subsets.

    Examples
    --------
    Of two labels with p = 1/3, one is seen alone two times in nine (weight 3) and together with the
    other once in nine (weight −3/2): in the mean 6/9 − 3/18 = 1/2, its true share.

    >>> normalized_weights(np.array([0, 1, 3]), np.array([3.0, 3.0, 3.0]))
    array([ 3. , -1.5, -1.5])
    """
    starts, inverse = checks.inverse_by_entry(indptr, inverse_propensity)
    return StoredEntries(starts, inverse).shares()


@dataclass(frozen=True)
class StoredEntries:
    """The stored entries of a CSR label matrix with 1/p of each.

    Entry e has 1/p = `values[index[e]]`, or `values[e]` where there is no index. The methods are
    those of `formulas.Entries`; every array they return is (nnz,).
    """

    indptr: Integers
    values: Floats
    index: Integers | None = None

    @property
    def inverse(self) -> Floats:
        """1/p of every entry."""
        return self.values if self.index is None else self.values[self.index]

    def ones(self) -> Floats:
        """Return 1 for every entry."""
        return np.ones(int(self.indptr[-1]))

    def counts(self) -> Integers:
        """Return the number of entries in the row of every entry."""
        lengths = np.diff(self.indptr)
        return np.repeat(lengths, lengths)

    def one_plus_others(self) -> Floats:
        """Return 1 + the sum of 1/p over the other entries of the row."""
        return self._by_chunks(kernels.one_plus_others)[0]

    def shares(self) -> Floats:
        """Return T of every entry, with a warning where it exceeds float64."""
        rules = kernels.quadrature(np.diff(self.indptr))
        out, overflown = self._by_chunks(
            lambda indptr, index, values, out: kernels.normalized(
                indptr, index, values, *rules, out
            )
        )
        rows = [start + row for start, row in overflown if row >= 0]
        if rows:
            labels = int(self.indptr[rows[0] + 1] - self.indptr[rows[0]])
            warn(
                f"the exact normalised weights of row {rows[0]} ({labels} labels) exceed float64 "
                "and were set to its largest number (it is the first such row); correct with "
                "`bound` or `empirical_bayes`, or raise the propensities with "
                f"{function('propensity.clip')}.",
                RuntimeWarning,
            )
        return out

    def _by_chunks(
        self, kernel: Callable[[Integers, Integers, Floats, Floats], Result]
    ) -> tuple[Floats, list[tuple[int, Result]]]:
        """Return a value per entry from `kernel` over chunks of rows, and (first row, result)."""
        out = np.empty(int(self.indptr[-1]))

        def work(start: int, stop: int) -> tuple[int, Result]:
            run = slice(int(self.indptr[start]), int(self.indptr[stop]))
            index: Integers = np.arange(run.stop - run.start)
            values = self.values
            if self.index is None:
                values = values[run]
            else:
                index = self.index[run]
            return start, kernel(self.indptr[start : stop + 1], index, values, out[run])

        return out, _kernels.in_chunks(_kernels.row_bounds(self.indptr), work)


def stored_entries(matrix: sp.csr_array, propensity: PropensityLike) -> StoredEntries:
    """Check propensities of validated labels, per label or per entry, and invert them."""
    if sp.issparse(propensity):
        inverse = reciprocal(checks.entry_propensity(propensity, matrix))
        return StoredEntries(matrix.indptr, inverse)
    inverse = reciprocal(checks.propensity(propensity, matrix.shape[1]))
    return StoredEntries(matrix.indptr, inverse, matrix.indices)


HUGE = 1e200


@dataclass(frozen=True)
class CountDistribution:
    """The fitted distribution of the number of true labels, and what it says about a row.

    Attributes
    ----------
    propensity : float
        p̄, the propensity of an average true label.
    rows : (m_max + 1,) integers
        How many rows show m labels, m = 0, 1, …
    probability : (N_max + 1,) floats
        π_N for N* = 0, 1, …
    share : (m_max + 1,) floats
        E[1/N* | m] for m = 0, 1, …; 0 for an m that no row shows. 1/0 counts as 0.
    log_likelihood : floats
        Per row, after each iteration; never falls.
    gap : float
        The last log-likelihood is at most this far from the maximum.
    converged : bool
        Whether the gap is within the tolerance.
    without_empty : bool
        Whether all of this is given that a row shows a label, π the distribution of such rows.

    Examples
    --------
    >>> labels = [[1, 1]] * 25 + [[1, 0]] * 25 + [[0, 1]] * 25 + [[0, 0]] * 25
    >>> fit = count_distribution(labels, [0.5, 0.5])
    >>> fit.propensity, fit.rows, fit.converged, fit.without_empty
    (0.5, array([25, 50, 25]), True, False)
    """

    propensity: float
    rows: Ints
    probability: Floats
    share: Floats
    log_likelihood: Floats
    gap: float
    converged: bool
    without_empty: bool


@named_options
def count_distribution(
    labels: LabelsLike,
    propensity: PropensityLike,
    *,
    without_empty: bool | None = None,
    tolerance: float = 1e-6,
) -> CountDistribution:
    """Fit the distribution of N*, the number of true labels of a row, by maximum likelihood.

    Maximises Σ_m h_m log Σ_N π_N Bin(m; N, p̄) over distributions π, h the histogram of m; where
    rows without labels were dropped, every binomial is taken given that it is not 0.

    Parameters
    ----------
    labels : (n, L) matrix of 0 and 1
        Observed labels, dense or sparse.
    propensity : (L,) numbers in (0, 1], or sparse (n, L)
        One per label, or one per observed label.
    without_empty : bool, optional
        Whether rows that show no label were dropped from the data. By default they were if none is
        there. True leaves out those that are there; False says that none was dropped.
    tolerance : float, default 1e-6
        How far the log-likelihood per row may stay below its maximum.

    Returns
    -------
    CountDistribution

    Raises
    ------
    ValueError
        If labels or propensities are out of range or do not fit each other.

    Warns
    -----
    RuntimeWarning
        If the tolerance is not reached.

    References
    ----------
    Wang, *On fast computation of the non-parametric maximum likelihood estimate of a mixing
    distribution* (2007).

    Examples
    --------
    Half of the labels were observed; rows that show one of them mostly had two.

    >>> labels = [[1, 1]] * 25 + [[1, 0]] * 25 + [[0, 1]] * 25 + [[0, 0]] * 25
    >>> fit = count_distribution(labels, [0.5, 0.5])
    >>> fit.probability.round(3)
    array([0., 0., 1.])
    >>> fit.share.round(3)
    array([0.5, 0.5, 0.5])

    The rows that show one are enough to tell, and are known to be the only ones:

    >>> fit = count_distribution(labels[:75], [0.5, 0.5])
    >>> fit.probability.round(2), fit.without_empty
    (array([0., 0., 1.]), True)

    (The likelihood has its maximum at the border and is flat there: with a share ε of rows that had
    one label it is ε²/2 lower, so that a tolerance of 1e-6 leaves up to 0.0014 of them.)
    """
    matrix = checks.labels(labels)
    entries = stored_entries(matrix, propensity)
    checks.in_range(tolerance, "tolerance", 0.0, math.inf)
    return distribution_of(entries, matrix.shape[1], without_empty, tolerance)


def distribution_of(
    entries: StoredEntries,
    n_labels: int,
    without_empty: bool | None = None,
    tolerance: float = 1e-6,
) -> CountDistribution:
    """Fit the distribution of N* to validated labels and propensities."""
    rows = np.bincount(np.diff(entries.indptr), minlength=1)
    inverse, average = entries.inverse, 1.0
    if inverse.size:
        largest = float(inverse.max())
        scale = largest if largest > HUGE else 1.0  # their sum could exceed float64
        average = float(inverse.size / (inverse / scale).sum() / scale)
    dropped = rows[0] == 0 if without_empty is None else without_empty
    conditional = bool(dropped and rows[1:].any())
    fit = mixture(rows, average, n_labels, without_empty=conditional, tolerance=tolerance)
    if fit.gap > tolerance:
        warn(
            f"the distribution of true label counts is within {fit.gap:.1e} of its likelihood's "
            f"maximum, not within {tolerance:.1e}; inspect it with "
            f"{function('weights.count_distribution')}.",
            RuntimeWarning,
        )
    probability, share = np.zeros(fit.support[-1] + 1), np.zeros(rows.size)
    probability[fit.support] = fit.probability
    posterior = fit.likelihood * fit.probability
    posterior /= posterior.sum(axis=1, keepdims=True)
    inverse_count = np.where(fit.support > 0, 1 / np.maximum(fit.support, 1), 0.0)
    share[fit.counts] = posterior @ inverse_count
    return CountDistribution(
        average, rows, probability, share, fit.log_likelihood, fit.gap, fit.gap <= tolerance,
        conditional,
    )  # fmt: skip


class Mixture(NamedTuple):
    """π_N over a support of N; the likelihood of the occurring counts m (each up to a factor)."""

    counts: Ints
    support: Ints
    probability: Floats
    likelihood: Floats
    log_likelihood: Floats
    gap: float


def mixture(
    rows: Integers,
    p: float,
    n_labels: int,
    *,
    without_empty: bool = False,
    tolerance: float = 1e-6,
) -> Mixture:
    """Fit the best mixture of Bin(N, p) to a histogram of counts: rows[m] rows show m labels.

    `without_empty`: rows that show nothing are not in the histogram, and every binomial is taken
    given that it is not 0; π is then that of the rows at hand.
    """
    first = int(without_empty)
    counts = first + np.flatnonzero(rows[first:])
    longest = rows.size - 1
    most = max(longest, int(min(n_labels, np.ceil(longest / p))))
    support = np.arange(first, most + 1)
    likelihood, scale = _likelihood(counts, support, p, without_empty)
    shares = rows[counts] / max(rows[counts].sum(), 1)
    fit = _mixture.maximum(likelihood, shares, tolerance)
    trace = np.array(fit.log_likelihood) + shares @ scale
    return Mixture(counts, support, fit.weights, likelihood, trace, fit.gap)


def _likelihood(
    counts: Integers, support: Integers, p: float, without_empty: bool
) -> tuple[Floats, Floats]:
    """Return Bin(m; N, p), every row m over its largest value, and the logarithm of that value."""
    missed = support - counts[:, None]
    unseen = np.maximum(missed, 0)
    log = gammaln(support + 1) - gammaln(counts[:, None] + 1) - gammaln(unseen + 1)
    log += counts[:, None] * np.log(p) + xlog1py(unseen, -p)
    if without_empty:
        log -= np.log(-np.expm1(xlog1py(support, -p)))
    log[missed < 0] = -np.inf
    scale = log.max(axis=1)
    return np.exp(log - scale[:, None]), scale


# The few array operations that numpy and torch spell differently; the rest share their names. The
# namespace of an array is looked up through `sys.modules`, so that corrections and losses written
# once run on numpy arrays and torch tensors, and nobody imports torch to use numpy.


def namespace(array: Array) -> ModuleType:
    """Return `torch` for tensors, else `numpy`."""
    return sys.modules["torch"] if is_tensor(array) else np


def special(array: Array) -> ModuleType:
    """Return `torch.special` for tensors, else `scipy.special`: `expit`, `softmax` …"""
    return sys.modules["torch.special"] if is_tensor(array) else scipy.special


def like(array: Array, values: Floats) -> Array:
    """Return numbers as an array of the kind, precision and device of `array`."""
    if is_tensor(array):
        return namespace(array).as_tensor(values, dtype=array.dtype, device=array.device)
    return values


def as_contiguous(array: Array) -> Array:
    """Lay numbers out row by row."""
    return array.contiguous() if is_tensor(array) else np.ascontiguousarray(array)


def softplus(scores: Array) -> Array:
    """Return log(1 + eˢ) without overflow."""
    return logaddexp(scores, 0.0)


def logaddexp(scores: Array, other: float) -> Array:
    """Return log(eˢ + e^other) without overflow."""
    xp = namespace(scores)
    return xp.logaddexp(scores, scores.new_full((), other) if is_tensor(scores) else other)


def take(matrix: Array, index: Array) -> Array:
    """Return the (n, m) entries of an (n, L) matrix at `index`, row by row."""
    return matrix.gather(1, index) if is_tensor(matrix) else np.take_along_axis(matrix, index, 1)


def times(weight: Array, values: Array) -> Array:
    """Return weight · values, and 0 where the weight is 0: no label, nothing added.

    Not even where its value is infinite, as that of a logit of −inf may be.

    >>> times(np.array([0.0, 2.0]), np.array([3.0, 3.0]))
    array([0., 6.])
    """
    return namespace(weight).where(weight == 0, 0.0, weight * values)


def add_at(matrix: Array, index: Array, values: Array) -> Array:
    """Add `values` (n, m) at `index` to a matrix of ours; repeated places add up.

    In place, unless the matrix is part of a graph that may need what it was.
    """
    if is_tensor(matrix):
        in_graph = matrix.requires_grad
        return (matrix.scatter_add if in_graph else matrix.scatter_add_)(1, index, values)
    np.add.at(matrix, (np.arange(len(index))[:, None], index), values)
    return matrix


def kth_largest(values: Array, k: int) -> Array:
    """Return the k-th largest of a flat array, k counted from 1."""
    if is_tensor(values):
        return values.topk(k).values[-1]
    return np.partition(values, -k)[-k]
