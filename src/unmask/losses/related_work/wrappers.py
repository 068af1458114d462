"""Related work that wraps another one-vs-all loss: mixtures of ℓ₊ and ℓ₋, and rules for a batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from unmask.arrays import checks
from unmask.losses._loss import Loss, Observed
from unmask.losses.pointwise import logistic, never_convex
from unmask.weights._arrays import Array, add_at, kth_largest, like, namespace, take


def label_smoothing(base: Loss = logistic, *, epsilon: float = 0.1) -> Loss:
    """Assume negative, with smoothing: ℓ′₊ = (1 − ε/2) ℓ₊ + (ε/2) ℓ₋, and ℓ′₋ the other way round.

    For vanilla weights. Limits: keeps scores from growing, so that missing labels hurt less, but
    moves all labels alike; the bias of assuming negative remains.

    Parameters
    ----------
    base : Loss, default logistic
        The one-vs-all loss to smooth.
    epsilon : float in [0, 1], default 0.1
        How much of the other side is mixed in.

    Returns
    -------
    Loss
        A one-vs-all loss.

    Raises
    ------
    ValueError
        If `base` is not one-vs-all, or a number is out of range.

    References
    ----------
    Cole et al., *Multi-label learning from single positive labels* (2021).

    Examples
    --------
    >>> float(label_smoothing().value(0.0, 1))
    0.6931471805599453
    """
    checks.in_range(epsilon, "epsilon", 0, 1)
    mine, other = 1 - epsilon / 2, epsilon / 2
    return _mixture(label_smoothing, base, mine, other, mine, other)


def class_conditional(
    base: Loss = logistic, *, flip_positive: ArrayLike, flip_negative: ArrayLike = 0.0
) -> Loss:
    """Unbiased under false negatives and false positives of known rates.

    With ρ₊ = P(observed 0 | true 1) and ρ₋ = P(observed 1 | true 0):

        ℓ̃₊ = ((1 − ρ₋) ℓ₊ − ρ₊ ℓ₋) / (1 − ρ₊ − ρ₋),   ℓ̃₋ = ((1 − ρ₊) ℓ₋ − ρ₋ ℓ₊) / (1 − ρ₊ − ρ₋)

    Missing labels are the case ρ₋ = 0, ρ₊ = 1 − p, where with vanilla weights this is the unbiased
    correction. Limits: rates must be known and ρ₊ + ρ₋ < 1; with ρ₋ > 0 the correction touches
    unobserved labels too, so the loss is unbounded below on them as well; plain one-vs-all only.

    Parameters
    ----------
    base : Loss, default logistic
        The one-vs-all loss to correct.
    flip_positive : float or (L,) floats
        ρ₊, one number or one per label.
    flip_negative : float or (L,) floats, default 0.0
        ρ₋, likewise.

    Returns
    -------
    Loss
        A one-vs-all loss.

    Raises
    ------
    ValueError
        If `base` is not one-vs-all, or a number is out of range.

    References
    ----------
    Natarajan et al., *Learning with noisy labels* (2013), lemma 1.

    Examples
    --------
    >>> half = class_conditional(flip_positive=0.5)
    >>> round(float(half.value(1.0, 1) - 2 * logistic.value(1.0, 1) + logistic.value(1.0, 0)), 12)
    0.0
    """
    lost, false = np.asarray(flip_positive, dtype=float), np.asarray(flip_negative, dtype=float)
    left = 1 - lost - false
    if (lost < 0).any() or (false < 0).any() or (left <= 0).any():
        raise ValueError(
            "flip rates must not be negative and must add up to less than 1; got "
            f"{lost.max():g} for positives and {false.max():g} for negatives."
        )
    numbers = ((1 - false) / left, -lost / left, (1 - lost) / left, -false / left)
    return _mixture(class_conditional, base, *numbers)


def non_negative(base: Loss = logistic) -> Loss:
    """A label's negative part, summed over the batch, may not fall below 0 (nnPU).

    For unbiased plain weights: Σ_j [ Σ_rows pos ℓ₊ + max(0, Σ_rows (1 − cut) ℓ₋) ]. The authors
    clamp one binary problem; here every label is one. Limits: biased, the more so the smaller the
    batch; the gradient of a clamped label's negative part is zero (the authors step backwards
    instead); a row's value depends on its batch.

    Parameters
    ----------
    base : Loss, default logistic
        The one-vs-all loss to clamp.

    Returns
    -------
    Loss
        A one-vs-all loss.

    Raises
    ------
    ValueError
        If `base` is not one-vs-all, or a number is out of range.

    References
    ----------
    Kiryo et al., *Positive-unlabeled learning with non-negative risk estimator* (2017).

    Examples
    --------
    >>> from unmask import losses, weights
    >>> w = weights.unbiased([[1], [0]], [0.1])
    >>> losses.total(non_negative(), [[9.0], [0.0]], w).round(4)  # the negative part is clamped
    array([0.0012, 0. ])
    """
    _one_vs_all(base)

    def keep(negative: Array, observed: Observed) -> Array:
        return (_without_observed(negative, observed).sum(0) >= 0)[None, :]

    def lower(pos: Array, cut: Array) -> Array:
        return base.lower(pos, 0 * cut + 1)

    name = f"non_negative_{base.name}"
    return replace(
        base,
        name=name,
        doc=_doc(non_negative, base),
        keep=keep,
        convex=never_convex,
        lower=lower,
        proper=False,
        difference=None,
    )


def large_loss_rejection(base: Loss = logistic, *, epoch: int, percent: float = 0.2) -> Loss:
    """LL-R: the largest losses among unobserved labels are taken for missing ones and dropped.

    In epoch t = 1, 2, … the (t − 1)·`percent` percent of the batch's entries that have the largest
    negative loss and no observed label count nothing. For vanilla weights. Limits: the number
    dropped follows the epoch, not how much is missing, and it falls on labels regardless of their
    propensity; a row's value depends on its batch; entries tied with the last one dropped are
    dropped too.

    Parameters
    ----------
    base : Loss, default logistic
        The one-vs-all loss.
    epoch : int
        The epoch, counted from 1; make a new loss for every one.
    percent : float in [0, 100], default 0.2
        How many more entries to drop with every epoch.

    Returns
    -------
    Loss
        A one-vs-all loss.

    Raises
    ------
    ValueError
        If `base` is not one-vs-all, or a number is out of range.

    References
    ----------
    Kim et al., *Large loss matters in weakly supervised multi-label classification* (2022).

    Examples
    --------
    >>> from unmask import losses, weights
    >>> w = weights.vanilla([[1, 0, 0, 0]])
    >>> loss = large_loss_rejection(epoch=2, percent=25.0)  # one entry of four
    >>> losses.total(loss, [[9.0, 8.0, -9.0, -9.0]], w).round(4)
    array([0.0004])
    """
    _one_vs_all(base)
    checks.in_range(percent, "percent", 0, 100)
    share = min(1.0, max(0, epoch - 1) * percent / 100)
    name = f"large_loss_rejection_{base.name}"
    if not share:
        return replace(base, name=name, doc=_doc(large_loss_rejection, base))

    def keep(negative: Array, observed: Observed) -> Array:
        is_observed = _observed_mask(negative, observed)
        dropped = math.ceil(share * is_observed.shape[0] * is_observed.shape[1])
        if not dropped:
            return is_observed  # an empty batch
        candidates = namespace(negative).where(is_observed, -1 + 0 * negative, negative)
        return is_observed | (candidates < kth_largest(candidates.reshape(-1), dropped))

    return replace(
        base,
        name=name,
        doc=_doc(large_loss_rejection, base),
        keep=keep,
        convex=never_convex,
        proper=False,
        difference=None,
    )


def _observed_mask(negative: Array, observed: Observed) -> Array:
    xp = namespace(negative)
    return add_at(xp.zeros_like(negative), observed.index, xp.abs(xp.sign(observed.cut))) > 0


def _without_observed(negative: Array, observed: Observed) -> Array:
    """(1 − cut) ℓ₋ where a label is observed, ℓ₋ elsewhere."""
    return add_at(negative * 1, observed.index, -observed.cut * take(negative, observed.index))


def _mixture(maker: Callable[..., Loss], base: Loss, *parts: ArrayLike) -> Loss:
    """ℓ′₊ = a ℓ₊ + b ℓ₋ and ℓ′₋ = c ℓ₋ + d ℓ₊ for parts = a, b, c, d: numbers, or one per label."""
    _one_vs_all(base)
    columns = np.broadcast_arrays(*(np.asarray(part, dtype=float) for part in parts))

    def mix(function: Callable[..., Array] | None) -> Callable[..., Array] | None:
        if function is None:
            return None
        return lambda s, y: sum(
            like(s, part) * function(s, label)
            for part, label in zip(columns[:2] if y else columns[2:], (y, 1 - y), strict=True)
        )

    # per-label rates: convexity is that of the label whose observation says least
    a, b, c, d = (np.ravel(column)[np.argmax(columns[0] + columns[2])] for column in columns)

    def as_base(pos: Array, cut: Array) -> tuple[Array, Array]:
        return pos * a + (1 - cut) * d, 1 - (pos * b + (1 - cut) * c)

    return replace(
        base,
        name=f"{maker.__name__}_{base.name}",
        doc=_doc(maker, base),
        value=mix(base.value) or base.value,
        slope=mix(base.slope),
        curvature=mix(base.curvature),
        convex=lambda pos, cut: base.convex(*as_base(pos, cut)),
        lower=lambda pos, cut: base.lower(*as_base(pos, cut)),
        difference=None,
        per_label=base.per_label or columns[0].ndim > 0,
    )


def _doc(maker: Callable[..., Loss], base: Loss) -> str:
    return f"`{maker.__name__}` of {base.name}: see `unmask.losses.related_work.{maker.__name__}`."


def _one_vs_all(base: Loss) -> None:
    if base.reduction != "ova":
        raise ValueError(f"only one-vs-all losses can be wrapped; {base.name} is {base.reduction}.")
