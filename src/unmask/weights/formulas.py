"""The corrections as formulas, each written once, for numpy arrays and torch tensors.

The table of formulas is in `unmask.weights`; `FORMULAS` at the end of this file is that table as
functions. a = 1/p, m is the number of observed labels of a row, and

    T_j = a_j ∫₀¹ Π_{k≠j} (1 − u a_k) du.

A formula sees the observed labels through `Entries`: their inverse propensities and four sums over
rows. There are two layouts. `Rectangle` holds a batch as an (n, m) array, on numpy or on torch and
its device. `normalized.StoredEntries` holds a whole data set in CSR form, with compiled sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from unmask._kernels.weights import gauss_legendre
from unmask._settings import setting
from unmask._typing import Floats
from unmask.weights._arrays import Array, as_contiguous, like, namespace

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
