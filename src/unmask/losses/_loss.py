"""What a loss is, and the three ways in which it meets label weights.

For one row with scores s ∈ R^L, observed labels I and the weights pos, cut of `unmask.weights`:

    ova       Σ_j ℓ(s_j, 0) + Σ_{i∈I} (pos_i ℓ(s_i, 1) − cut_i ℓ(s_i, 0))
    pal       Σ_{i∈I} pos_i (A(s) − s_i)
    pairwise  Σ_{i∈I} pos_i (Σ_{j≠i} φ(s_i − s_j) − Σ_{j∈I, j≠i} cut_j φ(s_i − s_j))

The third is Σ over pairs of y_i/p_i (1 − y_j/p_j) φ(s_i − s_j) with pos = cut = 1/p, rearranged so
that the first inner sum runs over all labels and the second over observed ones only: O(mL) per row
for m observed labels, and never a matrix of all pairs. No loss knows a propensity.

Where scores are those of a sample of the labels, `Observed.background` weighs what a column stands
for: the sums over all labels (Σ_j ℓ₋, Σ_j eˢʲ within A, Σ_j φ) become weighted sums over columns.
Observed labels have the background 1, as ever.

`rows` and `gradient` below are these three lines; they serve numpy arrays and torch tensors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unmask.weights._arrays import Array, add_at, namespace, take, times

if TYPE_CHECKING:
    from unmask.losses.description import Description
    from unmask.weights import Weights


@dataclass(frozen=True)
class Loss:
    """A loss as a value: its name, how it meets the weights, and its functions of the scores.

    `value` and `slope` mean, by `reduction`:

    - ova       `value(scores, label)` = ℓ₊ where label is 1, ℓ₋ where it is 0; elementwise;
    - pal       `value(scores)` = A(s), one number per row; `slope(scores)` = ∇A;
    - pairwise  `value(difference, 1)` = φ(s_i − s_j), for i relevant and j not.

    Parameters
    ----------
    name : str
        As in `losses.LOSSES`.
    reduction : {"ova", "pal", "pairwise"}
        Which of the three formulas of `unmask.weights` it takes part in.
    value : function of numpy arrays or torch tensors
        The loss; see above.
    slope : function or None
        Its derivative (a subgradient at kinks); a loss without one is for evaluation only.
    curvature : function or None
        Its second derivative, where it exists.
    convex : function (pos, cut) → bool, elementwise
        Whether pos·ℓ₊ + (1 − cut)·ℓ₋ is convex; an unobserved label is pos = cut = 0.
    lower : function (pos, cut) → float, elementwise
        A lower bound of the same.
    proper : bool
        Whether labels are ordered by their probability at the optimum.
    difference : (a, b), optional
        Where ℓ₊ − ℓ₋ = a + b·s: the correction pos·ℓ₊ − cut·ℓ₋ is then
        pos·(a + b·s) + (pos − cut)·ℓ₋, linear where pos = cut, and needs no ℓ₊.
    keep : function, optional
        For losses that depend on the batch: which negative terms count.
    per_label : bool, default False
        Whether value and slope depend on the label's column, so that they must see whole rows.
    doc : str, optional
        What `help` shows of it, formula first.

    Examples
    --------
    >>> from unmask.losses import logistic
    >>> float(logistic.value(0.0, 1)), float(logistic.slope(0.0, 1))
    (0.6931471805599453, -0.5)
    """

    name: str
    reduction: str
    value: Callable[..., Array]
    slope: Callable[..., Array] | None
    curvature: Callable[..., Array] | None
    convex: Callable[[Array, Array], Array]
    lower: Callable[[Array, Array], Array]
    proper: bool
    difference: tuple[float, float] | None = None
    keep: Callable[[Array, Observed], Array] | None = None
    per_label: bool = False
    doc: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        """Let `help` show this loss, not the class."""
        if self.doc:
            object.__setattr__(self, "__doc__", inspect.cleandoc(self.doc))

    def __reduce__(self) -> str | tuple[object, ...]:
        """A loss of the library is copied and pickled by its name, so that it stays the same value.

        >>> import pickle
        >>> from unmask.losses import hinge
        >>> pickle.loads(pickle.dumps(hinge)) is hinge
        True
        """
        from unmask.losses import LOSSES, get

        if LOSSES.get(self.name) is self:
            return get, (self.name,)
        return super().__reduce__()

    def describe(self, weights: Weights | str, *, normalized: bool = False) -> Description:
        """Convexity, lower bound and consistency of this loss under weights.

        Parameters
        ----------
        weights : Weights or str
            Weights, or the name of a correction.
        normalized : bool, default False
            Which of the two kinds of weights they are.

        Returns
        -------
        Description
            See `unmask.losses.describe`.

        Examples
        --------
        >>> from unmask.losses import hinge
        >>> hinge.describe("unbiased").bounded_below
        False
        """
        from unmask.losses.description import describe

        return describe(self, weights, normalized=normalized)


@dataclass(frozen=True)
class Observed:
    """The observed labels of n rows and their weights, as rectangles (n, m).

    Rows with fewer than m labels are filled with label 0 at weight 0, which adds nothing anywhere.

    Attributes
    ----------
    index : (n, m) integers
        Label numbers.
    pos, cut : (n, m) floats
        Their weights; the same object where they are equal.
    background : (n, L) floats, optional
        How many unobserved labels a column of the scores stands for; 1 at observed labels. All 1 if
        left out.

    Examples
    --------
    >>> from unmask import losses, weights
    >>> observed = losses.observed(weights.bound([[1, 0, 1], [0, 1, 0]], [0.5, 0.5, 0.25]))
    >>> observed.index
    array([[0, 2],
           [1, 0]])
    >>> observed.pos
    array([[3., 7.],
           [3., 0.]])
    """

    index: Array
    pos: Array
    cut: Array
    background: Array | None = None


def rows(loss: Loss, scores: Array, observed: Observed) -> Array:
    """The loss of every row, (n,)."""
    return _VALUE[loss.reduction](loss, scores, observed)


def gradient(loss: Loss, scores: Array, observed: Observed) -> Array:
    """The derivative of every row's loss by its scores, (n, L), in an array of its own."""
    if loss.slope is None:
        raise ValueError(
            f"{loss.name} is for evaluation only: its slope is 0 almost everywhere; "
            "train with a surrogate such as logistic or hinge."
        )
    return _GRADIENT[loss.reduction](loss, scores, observed)


def _ova(loss: Loss, scores: Array, observed: Observed) -> Array:
    index, pos, cut = observed.index, observed.pos, observed.cut
    negative = loss.value(scores, 0)
    if loss.keep is not None:
        negative = negative * loss.keep(negative, observed)
    if loss.difference is None:
        positive = _positive(loss, loss.value, scores, index)
        correction = times(pos, positive) - times(cut, take(negative, index))
    else:
        constant, factor = loss.difference
        correction = times(pos, factor * take(scores, index) + constant)
        if cut is not pos:
            correction = correction + times(pos - cut, take(negative, index))
    return _in_background(negative, observed).sum(-1) + correction.sum(-1)


def _ova_gradient(loss: Loss, scores: Array, observed: Observed) -> Array:
    assert loss.slope is not None  # noqa: S101 - `gradient` refused it
    index, pos, cut = observed.index, observed.pos, observed.cut
    slope = loss.slope(scores, 0)
    if loss.keep is not None:
        slope = slope * loss.keep(loss.value(scores, 0), observed)
    if loss.difference is None:
        positive = _positive(loss, loss.slope, scores, index)
        correction = times(pos, positive) - times(cut, take(slope, index))
    else:
        correction = loss.difference[1] * pos
        if cut is not pos:
            correction = correction + times(pos - cut, take(slope, index))
    return add_at(_in_background(slope, observed), index, correction)


def _in_background(terms: Array, observed: Observed) -> Array:
    """The terms of all columns, each as often as it counts."""
    return terms if observed.background is None else times(observed.background, terms)


def _positive(loss: Loss, function: Callable[..., Array], scores: Array, index: Array) -> Array:
    """ℓ₊ or its slope at the observed labels."""
    if loss.per_label:
        return take(function(scores, 1), index)
    return function(take(scores, index), 1)


def _pal(loss: Loss, scores: Array, observed: Observed) -> Array:
    own = times(observed.pos, take(scores, observed.index))
    return times(observed.pos.sum(-1), loss.value(_shifted(scores, observed))) - own.sum(-1)


def _pal_gradient(loss: Loss, scores: Array, observed: Observed) -> Array:
    assert loss.slope is not None  # noqa: S101 - `gradient` refused it
    slope = loss.slope(_shifted(scores, observed))
    return add_at(times(observed.pos.sum(-1)[:, None], slope), observed.index, -observed.pos)


def _shifted(scores: Array, observed: Observed) -> Array:
    """s + log b, since b copies of a score within A(s) are one copy of that; −inf where b is 0."""
    if observed.background is None:
        return scores
    xp, background = namespace(scores), observed.background
    return xp.where(background == 0, -xp.inf, scores + xp.log(background))


def _pairwise(loss: Loss, scores: Array, observed: Observed) -> Array:
    own = take(scores, observed.index)
    total = 0.0
    for slot in range(observed.index.shape[1]):  # one (n, L) sheet at a time, not (n, m, L)
        pairs = _in_background(loss.value(own[:, slot, None] - scores, 1), observed)
        total = total + times(observed.pos[:, slot], pairs.sum(-1))
    tie = loss.value(namespace(own).zeros_like(own), 1)
    itself = observed.pos * (1 - observed.cut) * tie  # j = i is no pair
    return total - _among_observed(loss.value, own, observed).sum(-1).sum(-1) - itself.sum(-1)


def _pairwise_gradient(loss: Loss, scores: Array, observed: Observed) -> Array:
    assert loss.slope is not None  # noqa: S101 - `gradient` refused it
    own = take(scores, observed.index)
    total = namespace(scores).zeros_like(scores)
    for slot in range(observed.index.shape[1]):
        pairs = _in_background(loss.slope(own[:, slot, None] - scores, 1), observed)
        slope = times(observed.pos[:, slot, None], pairs)
        total = add_at(total - slope, observed.index[:, slot, None], slope.sum(-1)[:, None])
    pairs = _among_observed(loss.slope, own, observed)
    return add_at(total, observed.index, pairs.sum(-2) - pairs.sum(-1))


def _among_observed(function: Callable[..., Array], own: Array, observed: Observed) -> Array:
    """pos_i cut_j φ(s_i − s_j) for all observed i and j, (n, m, m)."""
    difference = own[:, :, None] - own[:, None, :]
    return times(observed.pos[:, :, None] * observed.cut[:, None, :], function(difference, 1))


_VALUE = {"ova": _ova, "pal": _pal, "pairwise": _pairwise}
_GRADIENT = {"ova": _ova_gradient, "pal": _pal_gradient, "pairwise": _pairwise_gradient}
