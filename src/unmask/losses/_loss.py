"""The record of a loss, the three ways in which it meets label weights, and its properties.

For one row with scores s ∈ R^L, observed labels I and the weights pos, cut of `unmask.weights`:

    ova       Σ_j ℓ(s_j, 0) + Σ_{i∈I} (pos_i ℓ(s_i, 1) − cut_i ℓ(s_i, 0))
    pal       Σ_{i∈I} pos_i (A(s) − s_i)
    pairwise  Σ_{i∈I} pos_i (Σ_{j≠i} φ(s_i − s_j) − Σ_{j∈I, j≠i} cut_j φ(s_i − s_j))

The third is Σ over pairs of y_i/p_i (1 − y_j/p_j) φ(s_i − s_j) with pos = cut = 1/p, rearranged so
that the first inner sum runs over all labels and the second over observed ones only: O(mL) per row
for m observed labels, and never a matrix of all pairs. No loss knows a propensity. `rows` and
`gradient` are these three lines; they serve numpy arrays and torch tensors.

Where scores are those of a sample of the labels, `Observed.background` weighs what a column stands
for: the sums over all labels (Σ_j ℓ₋, Σ_j eˢʲ within A, Σ_j φ) become weighted sums over columns.
Observed labels have the background 1, as ever.

**Convex? Bounded below? For which metric?** A row's loss is a sum of terms pos·ℓ₊ + (1 − cut)·ℓ₋
over labels (ova), over pairs of labels (pairwise: φ(d) and φ(−d) take the places of ℓ₊ and ℓ₋), or
(Σ pos) A(s) − Σ pos s (pal), so the first two questions are answered exactly from the weights.
Plain reductions are consistent for precision@k and normalised ones for recall@k (Menon et al.,
*Multilabel reductions*, 2019) where the base loss is proper and the weights are unbiased.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from unmask._messages import named_options, warn
from unmask._typing import Floats
from unmask.arrays import checks
from unmask.weights import CORRECTIONS, Weights
from unmask.weights.formulas import Array, add_at, namespace, take, times


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
        """Copy and pickle a loss of the library by its name, so that it stays the same value.

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
        """Describe convexity, lower bound and consistency of this loss under weights.

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
    """Return the loss of every row, (n,)."""
    if loss.reduction == "ova":
        negative, correction = _ova(loss, loss.value, scores, observed)
        return negative.sum(-1) + correction.sum(-1)
    return (_pal if loss.reduction == "pal" else _pairwise)(loss, scores, observed)


def gradient(loss: Loss, scores: Array, observed: Observed) -> Array:
    """Return the derivative of every row's loss by its scores, (n, L), in an array of its own."""
    if loss.slope is None:
        raise ValueError(
            f"{loss.name} is for evaluation only: its slope is 0 almost everywhere; "
            "train with a surrogate such as logistic or hinge."
        )
    if loss.reduction == "ova":
        negative, correction = _ova(loss, loss.slope, scores, observed)
        return add_at(negative, observed.index, correction)
    if loss.reduction == "pal":
        slope = times(observed.pos.sum(-1)[:, None], loss.slope(_shifted(scores, observed)))
        return add_at(slope, observed.index, -observed.pos)
    return _pairwise_gradient(loss.slope, scores, observed)


def _ova(
    loss: Loss, function: Callable[..., Array], scores: Array, observed: Observed
) -> tuple[Array, Array]:
    """Return ℓ₋ of every column and the corrections at observed labels; or those of its slope."""
    index, pos, cut = observed.index, observed.pos, observed.cut
    of_value = function is loss.value
    negative = function(scores, 0)
    if loss.keep is not None:
        negative = negative * loss.keep(negative if of_value else loss.value(scores, 0), observed)
    if loss.difference is None:
        positive = (
            take(function(scores, 1), index) if loss.per_label else function(take(scores, index), 1)
        )
        correction = times(pos, positive) - times(cut, take(negative, index))
    else:
        constant, factor = loss.difference
        correction = (
            times(pos, factor * take(scores, index) + constant) if of_value else factor * pos
        )
        if cut is not pos:
            correction = correction + times(pos - cut, take(negative, index))
    return _in_background(negative, observed), correction


def _in_background(terms: Array, observed: Observed) -> Array:
    """Return the terms of all columns, each as often as it counts."""
    return terms if observed.background is None else times(observed.background, terms)


def _pal(loss: Loss, scores: Array, observed: Observed) -> Array:
    own = times(observed.pos, take(scores, observed.index))
    return times(observed.pos.sum(-1), loss.value(_shifted(scores, observed))) - own.sum(-1)


def _shifted(scores: Array, observed: Observed) -> Array:
    """Return s + log b, as b copies of a score within A(s) are one copy of that; −inf for b = 0."""
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


def _pairwise_gradient(slope_of: Callable[..., Array], scores: Array, observed: Observed) -> Array:
    own = take(scores, observed.index)
    total = namespace(scores).zeros_like(scores)
    for slot in range(observed.index.shape[1]):
        pairs = _in_background(slope_of(own[:, slot, None] - scores, 1), observed)
        slope = times(observed.pos[:, slot, None], pairs)
        total = add_at(total - slope, observed.index[:, slot, None], slope.sum(-1)[:, None])
    pairs = _among_observed(slope_of, own, observed)
    return add_at(total, observed.index, pairs.sum(-2) - pairs.sum(-1))


def _among_observed(function: Callable[..., Array], own: Array, observed: Observed) -> Array:
    """Return pos_i cut_j φ(s_i − s_j) for all observed i and j, (n, m, m)."""
    difference = own[:, :, None] - own[:, None, :]
    return times(observed.pos[:, :, None] * observed.cut[:, None, :], function(difference, 1))


class UnboundedLossWarning(UserWarning):
    """The chosen loss can be driven to −∞ on the training data.

    Examples
    --------
    >>> import warnings
    >>> from unmask import losses
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     losses.warn_if_unbounded(losses.hinge, "unbiased")
    >>> caught[0].category.__name__
    'UnboundedLossWarning'
    """


@dataclass(frozen=True)
class Description:
    """Facts on a loss under weights, from `describe`; printing it gives the sentences.

    Attributes
    ----------
    loss : str
        The name of the loss.
    convex, bounded_below : bool
        Whether the objective is convex in the scores, and bounded below.
    lower_bound : float or None
        Per row on average, −inf where there is none; None where only a correction was named.
    largest_weight : float or None
        The largest absolute weight; None where only a correction was named.
    consistent_for : str or None
        The metric that the loss is consistent for with unbiased weights.
    words : str
        All of it as sentences.

    Examples
    --------
    >>> from unmask import losses, weights
    >>> about = losses.squared_hinge.describe(weights.bound([[1, 0]], [0.25, 0.5]))
    >>> about.convex, about.bounded_below, about.lower_bound, about.largest_weight
    (True, True, 0.0, 7.0)
    """

    loss: str
    convex: bool
    bounded_below: bool
    lower_bound: float | None
    largest_weight: float | None
    consistent_for: str | None
    words: str

    def __str__(self) -> str:
        """Return the sentences."""
        return self.words


@named_options
def describe(loss: Loss, weights: Weights | str, *, normalized: bool = False) -> Description:
    """Describe convexity, lower bound, largest weight and consistency of a loss under weights.

    With the name of a correction in place of weights the answer holds for propensities below one
    in general.

    Parameters
    ----------
    loss : Loss
    weights : Weights or str
        Label weights, or the name of a correction.
    normalized : bool, default False
        Which of the two kinds of weights they are.

    Returns
    -------
    Description

    Raises
    ------
    ValueError
        If there is no correction of that name, or it does not exist in this form.

    References
    ----------
    Menon, Rawat, Reddi & Kumar, *Multilabel reductions: what is my loss optimising?* (2019).

    Examples
    --------
    >>> from unmask.losses import logistic
    >>> print(describe(logistic, "unbiased"))
    logistic (ova, plain, unbiased): convex in the scores; unbounded below, because some cut
    exceeds 1 or some pos is negative: use the bound weights; consistent for precision@k.
    """
    if isinstance(weights, str):
        # a row of one label and a row of two at p = 0.3: all that can go wrong does
        checks.one_of(weights, CORRECTIONS, "correction")
        checked = CORRECTIONS[weights](
            [[1, 0, 0], [1, 1, 0]], [0.3] * 3, normalized=normalized, reduction=loss.reduction
        )
    else:
        checked = replace(weights)
    convex, lower = _SHAPE[loss.reduction](loss, checked)
    bounded, named = lower > -np.inf, weights if isinstance(weights, str) else ""
    lower_bound = None if named and bounded else lower
    values = [np.abs(each.data) for each in (checked.pos, checked.cut)]
    largest = None if named else max(float(each.max(initial=0.0)) for each in values)
    target = None
    if loss.proper and loss.slope is not None:
        target = "recall@k" if normalized else "precision@k"
        target = "pairwise ranking (AUC)" if loss.reduction == "pairwise" else target
    why = "evaluation only" if loss.slope is None else "the loss is not proper"
    nothing = f"consistent for no ranking metric ({why})"
    parts = [
        "convex in the scores" if convex else "not convex in the scores",
        _bound_in_words(bounded, lower_bound, loss, normalized),
        *([] if largest is None else [f"largest weight {largest:.4g}"]),
        f"consistent for {target}{_CAVEAT[named]}" if target else nothing,
    ]
    form = ", ".join(filter(None, (loss.reduction, _KINDS[normalized], named)))
    words = f"{loss.name} ({form}): {'; '.join(parts)}."
    return Description(loss.name, convex, bounded, lower_bound, largest, target, words)


def warn_if_unbounded(loss: Loss, weights: Weights | str, *, normalized: bool = False) -> None:
    """Warn with an `UnboundedLossWarning` where minimising this loss has no end.

    Trainers call it once, before the first step.

    Parameters
    ----------
    loss : Loss
    weights : Weights or str
        Label weights, or the name of a correction.
    normalized : bool, default False
        Which of the two kinds of weights they are.

    Raises
    ------
    ValueError
        As `describe`.

    Examples
    --------
    >>> from unmask import losses
    >>> warn_if_unbounded(losses.logistic, "bound")
    """
    description = describe(loss, weights, normalized=normalized)
    if not description.bounded_below:
        warn(str(description), UnboundedLossWarning)


def _ova_shape(loss: Loss, weights: Weights) -> tuple[bool, float]:
    pos, cut = weights.pos, weights.cut
    terms = np.r_[0.0, pos.data], np.r_[0.0, cut.data]  # the first is an unobserved label
    lower = loss.lower(*terms)
    n = max(pos.shape[0], 1)
    unobserved = pos.shape[0] * pos.shape[1] - pos.nnz
    rest = lower[0] * unobserved if unobserved else 0.0
    return bool(loss.convex(*terms).all()), float((lower[1:].sum() + rest) / n)


def _pal_shape(loss: Loss, weights: Weights) -> tuple[bool, float]:
    pos = weights.pos
    total = pos.sum(axis=1)
    lower = -np.inf if (pos.data < 0).any() else _entropy(total) - _entropy(pos.data)
    return bool((total >= 0).all()), float(lower / max(pos.shape[0], 1))


def _entropy(values: Floats) -> float:
    """Return Σ v log v: inf_s of W·A(s) − Σ pos s is W log W − Σ pos log pos."""
    positive = values[values > 0]
    return float((positive * np.log(positive)).sum())


def _pairwise_shape(loss: Loss, weights: Weights) -> tuple[bool, float]:
    convex, lower = True, 0.0
    starts = weights.pos.indptr[1:-1]
    by_row = (np.split(each.data, starts) for each in (weights.pos, weights.cut))
    for pos, cut in zip(*by_row, strict=True):
        first, second = np.triu_indices(len(pos), 1)
        forth = np.r_[pos, pos[first] * (1 - cut[second])]  # the first ones: unobserved partners
        back = np.r_[0 * pos, pos[second] * (1 - cut[first])]
        convex = convex and bool(loss.convex(forth, 1 - back).all())
        lower += float(loss.lower(forth, 1 - back).sum())
    return convex, lower / max(weights.pos.shape[0], 1)


_KINDS = ("plain", "normalised")
_CAVEAT = {
    "": " if the weights are unbiased",
    "unbiased": "",
    "vanilla": " only if no label is missing",
    "bound": " only as an upper bound",
    "empirical_bayes": " if the label counts follow the fitted model",
    "tempered": " only at tau = 1",
}


def _bound_in_words(bounded: bool, lower: float | None, loss: Loss, normalized: bool) -> str:
    if bounded:
        return "bounded below" + ("" if lower is None else f" by {lower + 0.0:.4g} per row")
    if loss.reduction == "pal":
        why, use = "some pos is negative", "the bound or empirical_bayes weights"
    else:
        why = "some cut exceeds 1 or some pos is negative"
        use = (
            "softmax with the bound or empirical_bayes weights"
            if normalized
            else ("the bound weights")
        )
    return f"unbounded below, because {why}: use {use}"


_SHAPE = {"ova": _ova_shape, "pal": _pal_shape, "pairwise": _pairwise_shape}
