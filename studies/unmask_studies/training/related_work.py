"""Other people's answers to missing labels, in the shape of our losses, for comparison.

Every function returns a one-vs-all `Loss`. Unless its docstring says otherwise it is meant for
vanilla weights: these methods replace the correction rather than use it. What changes from epoch to
epoch or depends on the batch is an explicit argument: make a new loss when it changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from unmask.arrays import checks
from unmask.losses import Loss, Observed, logistic
from unmask.losses.pointwise import lower_bound, never_convex
from unmask.weights.formulas import (
    Array,
    add_at,
    kth_largest,
    like,
    logaddexp,
    namespace,
    softplus,
    special,
    take,
)


def sigmoid() -> Loss:
    """ℓ₊ = σ(−s), ℓ₋ = σ(s): bounded and symmetric, ℓ₊ + ℓ₋ = 1.

    Symmetric losses tolerate symmetric label noise without knowing its rate. Limits: missing labels
    are not symmetric noise, so the tolerance does not carry over to propensities that differ
    between labels; not convex; gradients vanish at confident mistakes.

    Returns
    -------
    Loss
        A one-vs-all loss for vanilla weights.

    References
    ----------
    Ghosh, Manwani & Sastry, *Making risk minimization tolerant to label noise* (2015).

    Examples
    --------
    >>> float(sigmoid().value(0.0, 1))
    0.5
    """
    return Loss(
        "sigmoid",
        "ova",
        lambda s, y: _expit(-s if y else s),
        lambda s, y: (1 - 2 * y) * _bump(s),
        lambda s, y: (1 - 2 * y) * _bump(s) * (1 - 2 * _expit(s)),
        never_convex,
        lower_bound(1.0, 1.0),
        proper=False,
    )


def unhinged() -> Loss:
    """ℓ₊ = 1 − s, ℓ₋ = 1 + s: the convex symmetric loss.

    Limits: linear, hence unbounded below: it needs a bound or a penalty on the scores, and then
    amounts to a nearest-mean classifier; symmetric noise only, as for `sigmoid`.

    Returns
    -------
    Loss
        A one-vs-all loss for vanilla weights.

    References
    ----------
    van Rooyen, Menon & Williamson, *Learning with symmetric label noise: the importance of being
    unhinged* (2015).

    Examples
    --------
    >>> unhinged().value(2.0, 1)
    -1.0
    """
    return Loss(
        "unhinged",
        "ova",
        lambda s, y: 1 + (1 - 2 * y) * s,
        lambda s, y: 0 * s + (1 - 2 * y),
        lambda s, y: 0 * s,
        lambda pos, cut: np.ones(np.broadcast(pos, cut).shape, dtype=bool),
        # the slope −pos + (1 − cut) must vanish for the line to be bounded
        lambda pos, cut: np.where(np.asarray(pos + cut) == 1, 2.0 * pos, -np.inf),
        proper=False,
    )


def asymmetric(
    *, gamma_negative: float = 4.0, gamma_positive: float = 0.0, clip: float = 0.05
) -> Loss:
    """ASL: focal weights of different strength, and easy negatives dropped altogether.

    ℓ₊ = σ(−s)^γ₊ (−log σ(s)), ℓ₋ = q^γ₋ (−log(1 − q)) with q = max(σ(s) − clip, 0).
    Limits: made for the imbalance of positives and negatives; the focus on hard negatives is also a
    focus on missing positives, which `clip` discards only once they score near one; scores are no
    probabilities. The derivative is exact (the authors' code can leave the focal factor out of it).

    Parameters
    ----------
    gamma_negative, gamma_positive : float, default 4.0 and 0.0
        γ₋ and γ₊; 0, or at least 1.
    clip : float in [0, 1], default 0.05
        The probability below which a negative counts nothing.

    Returns
    -------
    Loss
        A one-vs-all loss for vanilla weights.

    Raises
    ------
    ValueError
        If an exponent lies between 0 and 1, or `clip` outside [0, 1].

    References
    ----------
    Ridnik et al., *Asymmetric loss for multi-label classification* (2021).

    Examples
    --------
    >>> float(asymmetric().value(-5.0, 0))
    0.0
    """
    _focusing(gamma_negative, gamma_positive)
    checks.in_range(clip, "clip", 0, 1)
    log_clip = math.log(clip) if clip else -math.inf

    def surprise(s: Array) -> Array:
        return namespace(s).clip(-logaddexp(-softplus(s), log_clip), 0, None)

    def value(s: Array, y: int) -> Array:
        if y:
            return _focal(s, gamma_positive)
        return _shifted(s) ** gamma_negative * surprise(s)

    def _shifted(s: Array) -> Array:
        return namespace(s).clip(_expit(s) - clip, 0, None)

    def slope(s: Array, y: int) -> Array:
        if y:
            return _focal_slope(s, gamma_positive)
        xp, q, h = namespace(s), _shifted(s), surprise(s)
        # σ(s)σ(−s) / (1 − q), with the quotient taken between logarithms
        by_surprise = _expit(s) * xp.exp(h - softplus(s)) * xp.sign(q)
        by_focus = _bump(s) * _power_slope(q, gamma_negative) * h
        return q**gamma_negative * by_surprise + by_focus

    ceiling = lower_bound(math.inf, -log_clip)
    return Loss("asymmetric", "ova", value, slope, None, never_convex, ceiling, proper=False)


def hill(*, lam: float = 1.5, margin: float = 1.0, gamma: float = 2.0) -> Loss:
    """Hill loss: negatives that score high are taken for missing positives, and count less.

    ℓ₊ = σ(−(s − margin))^γ (−log σ(s − margin)), ℓ₋ = (lam − σ(s)) σ(s)².
    Limits: what is missing is guessed from the score alone, and propensities are not used, so
    frequent and rare labels are treated alike; not convex; scores are no probabilities.

    Parameters
    ----------
    lam : float, default 1.5
        Where the negative loss turns downwards: at σ(s) = 2/3 lam.
    margin : float, default 1.0
        Subtracted from the score of a positive.
    gamma : float, default 2.0
        The focusing exponent of positives; 0, or at least 1.

    Returns
    -------
    Loss
        A one-vs-all loss for vanilla weights.

    Raises
    ------
    ValueError
        If the exponent lies between 0 and 1.

    References
    ----------
    Zhang et al., *Simple and robust loss design for multi-label learning with missing labels*
    (2021).

    Examples
    --------
    >>> float(hill().value(0.0, 0))
    0.25
    """
    _focusing(gamma)

    def value(s: Array, y: int) -> Array:
        if y:
            return _focal(s - margin, gamma)
        return (lam - _expit(s)) * _expit(s) ** 2

    def slope(s: Array, y: int) -> Array:
        if y:
            return _focal_slope(s - margin, gamma)
        return (2 * lam - 3 * _expit(s)) * _expit(s) * _bump(s)

    peak = min(1.0, 2 * lam / 3)
    ceiling = lower_bound(math.inf, (lam - peak) * peak**2)
    return Loss("hill", "ova", value, slope, None, never_convex, ceiling, proper=False)


def self_paced(
    *,
    epoch: int,
    tau: float = 0.6,
    change_epoch: int = 1,
    margin: float = 1.0,
    gamma: float = 2.0,
) -> Loss:
    """SPLC: from `change_epoch` on, an unobserved label with σ(s) > tau is taken for a positive.

    ℓ₊ = focal loss at s − margin; ℓ₋ = σ(s)^γ (−log σ(−s)) where σ(s) ≤ tau, else
    σ(−s)^γ (−log σ(s)). Limits: the threshold is the same for all labels and confirms what the
    model believes already; jumps at tau; not convex.

    Parameters
    ----------
    epoch : int
        The epoch, counted from 0; make a new loss for every one.
    tau : float in [0, 1], default 0.6
        The probability above which a negative is taken for a positive.
    change_epoch : int, default 1
        The first epoch that does so.
    margin : float, default 1.0
        Subtracted from the score of a positive.
    gamma : float, default 2.0
        The focusing exponent; 0, or at least 1.

    Returns
    -------
    Loss
        A one-vs-all loss for vanilla weights.

    Raises
    ------
    ValueError
        If the exponent lies between 0 and 1, or `tau` outside [0, 1].

    References
    ----------
    Zhang et al. (2021), as `hill`.

    Examples
    --------
    >>> loss = self_paced(epoch=1)
    >>> bool(loss.slope(3.0, 0) < 0)
    True
    """
    _focusing(gamma)
    checks.in_range(tau, "tau", 0, 1)

    def choose(s: Array, positive: Array, negative: Array) -> Array:
        if epoch < change_epoch:
            return negative
        return namespace(s).where(_expit(s) > tau, positive, negative)

    def value(s: Array, y: int) -> Array:
        if y:
            return _focal(s - margin, gamma)
        return choose(s, _focal(s, gamma), _focal(-s, gamma))

    def slope(s: Array, y: int) -> Array:
        if y:
            return _focal_slope(s - margin, gamma)
        return choose(s, _focal_slope(s, gamma), -_focal_slope(-s, gamma))

    highest = math.inf if epoch < change_epoch or tau in (0, 1) else _highest(tau, gamma)
    ceiling = lower_bound(math.inf, highest)
    return Loss("self_paced", "ova", value, slope, None, never_convex, ceiling, proper=False)


def _expit(s: Array) -> Array:
    return special(s).expit(s)


def _bump(s: Array) -> Array:
    """σ′(s) = σ(s) σ(−s)."""
    return _expit(s) * _expit(-s)


def _focal(s: Array, gamma: float) -> Array:
    """σ(−s)^γ (−log σ(s))."""
    return _expit(-s) ** gamma * softplus(-s)


def _focal_slope(s: Array, gamma: float) -> Array:
    return -(_expit(-s) ** gamma) * (_expit(-s) + gamma * _expit(s) * softplus(-s))


def _power_slope(q: Array, gamma: float) -> Array:
    """The derivative of q^γ."""
    return gamma * q ** max(gamma - 1, 0.0)


def _highest(tau: float, gamma: float) -> float:
    """The most that SPLC's negative loss can be, on either side of its threshold."""
    threshold = math.log(tau / (1 - tau))
    return float(max(_focal(-threshold, gamma), _focal(threshold, gamma)))


def _focusing(*gammas: float) -> None:
    for gamma in gammas:
        if gamma != 0 and gamma < 1:
            raise ValueError(f"a focusing exponent must be 0 or at least 1; got {gamma:g}.")


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
    return f"`{maker.__name__}` of {base.name}: see `unmask_studies.training.related_work`."


def _one_vs_all(base: Loss) -> None:
    if base.reduction != "ova":
        raise ValueError(f"only one-vs-all losses can be wrapped; {base.name} is {base.reduction}.")
