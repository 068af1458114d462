"""Related work that changes the loss of a single score; propensities and batches play no part."""

from __future__ import annotations

import math

import numpy as np

from unmask.arrays import checks
from unmask.losses._loss import Loss
from unmask.losses.pointwise import lower_bound, never_convex
from unmask.weights._arrays import Array, logaddexp, namespace, softplus, special


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
