"""The corrections as formulas, each written once, for numpy arrays and torch tensors.

The table of formulas is in `unmask.weights`; `FORMULAS` at the end of this file is that table as
functions. a = 1/p, m is the number of observed labels of a row, and

    T_j = a_j ∫₀¹ Π_{k≠j} (1 − u a_k) du.

A formula sees the observed labels through `Entries`: their inverse propensities and four sums over
rows. There are two layouts. `Rectangle` holds a batch as an (n, m) array, on numpy or on torch and
its device. `normalized.StoredEntries` holds a whole data set in CSR form, with compiled sums.

Exact normalised weights of every row of a data set.

The share of label i in its row, y*_i / |y*|, has exactly one unbiased estimate from what is seen:

    T_i = Σ_{J⊆I, i∈J} (1/|J|) Π_{j∈J} a_j Π_{k∈I∖J} (1 − a_k),    a = 1/p

Writing 1/|J| as ∫₀¹ t^{|J|−1} dt makes the sum over subsets a product under one integral,

    T_i = a_i ∫₀¹ Π_{k≠i} (1 − u a_k) du,

a polynomial that Gauss–Legendre integrates exactly: O(m²) for a row of m labels instead of O(2^m),
and no cancellation between huge subset terms. T is what normalised losses weigh labels with; its
sum over the hits among k predictions is the unbiased recall@k.

`StoredEntries` is the CSR layout of `formulas.Entries`: sums over rows by compiled loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp

from unmask import _kernels
from unmask._kernels import weights as kernels
from unmask._kernels.weights import gauss_legendre
from unmask._messages import function, setting, warn
from unmask._typing import Floats, Integers, PropensityLike
from unmask.arrays import checks
from unmask.propensity.models import reciprocal
from unmask.weights._arrays import Array, as_contiguous, like, namespace

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

REDUCTIONS = ("ova", "pal", "pairwise")
_TINY = 1e-30


class Entries(Protocol):
    """The observed labels of some rows, in any layout; every result has the layout of `inverse`."""

    @property
    def inverse(self) -> Array:
        """1/p of every observed label."""
        ...

    def ones(self) -> Array:
        """1 for every observed label."""
        ...

    def counts(self) -> Array:
        """The number m of observed labels in the row of every observed label, as integers."""
        ...

    def one_plus_others(self) -> Array:
        """1 + Σ_{k≠j} a_k over the other observed labels of the row."""
        ...

    def shares(self) -> Array:
        """T: the unbiased estimate of the label's share of its row."""
        ...


def weigh(
    correction: str,
    entries: Entries,
    *,
    normalized: bool = False,
    reduction: str = "ova",
    share: Array | None = None,
) -> tuple[Array, Array]:
    """The weights pos and cut of every observed label; the same object where both are equal.

    Parameters
    ----------
    correction : str
        A name in `FORMULAS`.
    entries : Entries
        The observed labels. For "tempered", `entries.inverse` is already 1 + τ(1/p − 1).
    normalized : bool, default False
        Whether a row's loss is divided among its labels.
    reduction : {"ova", "pal", "pairwise"}, default "ova"
    share : (m_max + 1,) array, optional
        The table E[1/N* | m], for "empirical_bayes" alone; a longer row takes its last value.

    Raises
    ------
    ValueError
        For combinations that do not exist, see `refuse_combination`.

    Examples
    --------
    >>> import numpy as np
    >>> pos, cut = weigh("bound", Rectangle(np.array([[4.0, 2.0, 0.0]])), reduction="pairwise")
    >>> pos, cut
    (array([[4., 2., 0.]]), array([[1., 1., 0.]]))
    """
    refuse_combination(correction, normalized, reduction)
    formula = FORMULAS[correction]
    if not normalized:
        return formula.plain(entries, reduction)
    weight = formula.normalized(entries, share)
    return weight, weight


def refuse_combination(
    correction: str, normalized: bool, reduction: str, *, of: str = "linear.train"
) -> None:
    """A ValueError for empirical Bayes without, and pairwise losses with, normalisation.

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
    """1 + τ(a − 1) where there is a label; exactly a at τ = 1 and exactly 1 at τ = 0.

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
        """1 where there is a label, 0 where there is none."""
        return namespace(self.inverse).sign(self.inverse)

    def counts(self) -> Array:
        """(n, 1) observed labels of every row."""
        return (self.inverse > 0).sum(-1)[:, None]

    def one_plus_others(self) -> Array:
        """1 plus the sums before and after a label: never a − a, which loses small terms."""
        xp = namespace(self.inverse)
        before = xp.cumsum(self.inverse, 1)
        after = xp.flip(xp.cumsum(xp.flip(self.inverse, (1,)), 1), (1,))
        out = xp.ones_like(before)
        out[:, 1:] += before[:, :-1]
        out[:, :-1] += after[:, 1:]
        return out

    def shares(self) -> Array:
        """T by ⌈m/2⌉ nodes, which are exact for the longest row and so for all.

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


Pair = tuple[Array, Array]


class Formula(NamedTuple):
    """A correction: `plain(entries, reduction)` is pos and cut, `normalized(entries, share)` both.

    `share` is the table E[1/N* | m], which only empirical Bayes reads.
    """

    plain: Callable[[Entries, str], Pair]
    normalized: Callable[[Entries, Array | None], Array]


def _vanilla(entries: Entries, reduction: str) -> Pair:
    ones = entries.ones()
    return ones, ones


def _vanilla_normalized(entries: Entries, share: Array | None) -> Array:
    counts = entries.counts()
    return entries.ones() / (counts + (counts == 0))


def _unbiased(entries: Entries, reduction: str) -> Pair:
    inverse = entries.inverse
    return inverse, inverse


def _unbiased_normalized(entries: Entries, share: Array | None) -> Array:
    return entries.shares()


def _bound(entries: Entries, reduction: str) -> Pair:
    if reduction == "pal":
        return _unbiased(entries, reduction)
    ones = entries.ones()
    if reduction == "pairwise":
        return entries.inverse, ones
    return 2 * entries.inverse - ones, ones


def _bound_normalized(entries: Entries, share: Array | None) -> Array:
    return entries.inverse / entries.one_plus_others()


def _empirical_bayes_normalized(entries: Entries, share: Array | None) -> Array:
    assert share is not None  # noqa: S101 - callers fit it first
    counts = entries.counts()
    return entries.inverse * share[namespace(counts).clip(counts, None, len(share) - 1)]


FORMULAS: dict[str, Formula] = {
    "vanilla": Formula(_vanilla, _vanilla_normalized),
    "unbiased": Formula(_unbiased, _unbiased_normalized),
    "bound": Formula(_bound, _bound_normalized),
    "empirical_bayes": Formula(_unbiased, _empirical_bayes_normalized),
    "tempered": Formula(_unbiased, _unbiased_normalized),
}


Result = TypeVar("Result")


def normalized_weights(indptr: ArrayLike, inverse_propensity: ArrayLike) -> Floats:
    """T of every stored entry of a CSR label matrix, from 1/p of every stored entry.

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
        """1 for every entry."""
        return np.ones(int(self.indptr[-1]))

    def counts(self) -> Integers:
        """The number of entries in the row of every entry."""
        lengths = np.diff(self.indptr)
        return np.repeat(lengths, lengths)

    def one_plus_others(self) -> Floats:
        """1 + the sum of 1/p over the other entries of the row."""
        return self._by_chunks(kernels.one_plus_others)[0]

    def shares(self) -> Floats:
        """T of every entry, with a warning where it exceeds float64."""
        rules = kernels.quadrature(np.diff(self.indptr))
        out, overflown = self._by_chunks(
            lambda indptr, index, values, out: kernels.normalized(
                indptr, index, values, *rules, out
            )
        )
        rows = [start + row for start, row in overflown if row >= 0]
        if rows:
            _warn_of_overflow(rows[0], int(self.indptr[rows[0] + 1] - self.indptr[rows[0]]))
        return out

    def _by_chunks(
        self, kernel: Callable[[Integers, Integers, Floats, Floats], Result]
    ) -> tuple[Floats, list[tuple[int, Result]]]:
        """A value per entry from `kernel` over chunks of rows, and (first row, its result)."""
        out = np.empty(int(self.indptr[-1]))

        def work(start: int, stop: int) -> tuple[int, Result]:
            run = slice(int(self.indptr[start]), int(self.indptr[stop]))
            index, values = self._run(run)
            return start, kernel(self.indptr[start : stop + 1], index, values, out[run])

        return out, _kernels.in_chunks(_kernels.row_bounds(self.indptr), work)

    def _run(self, run: slice) -> tuple[Integers, Floats]:
        """Index and values for consecutive entries, the form that kernels take."""
        if self.index is None:
            return np.arange(run.stop - run.start), self.values[run]
        return self.index[run], self.values


def stored_entries(matrix: sp.csr_array, propensity: PropensityLike) -> StoredEntries:
    """Validated labels with their propensities, per label or per entry, checked and inverted."""
    if sp.issparse(propensity):
        inverse = reciprocal(checks.entry_propensity(propensity, matrix))
        return StoredEntries(matrix.indptr, inverse)
    inverse = reciprocal(checks.propensity(propensity, matrix.shape[1]))
    return StoredEntries(matrix.indptr, inverse, matrix.indices)


def _warn_of_overflow(row: int, labels: int) -> None:
    warn(
        f"the exact normalised weights of row {row} ({labels} labels) exceed float64 and were set "
        "to its largest number (it is the first such row); correct with `bound` or "
        f"`empirical_bayes`, or raise the propensities with {function('propensity.clip')}.",
        RuntimeWarning,
    )
