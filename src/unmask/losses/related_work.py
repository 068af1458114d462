"""Other people's answer to missing labels, in the shape of a loss: the likelihood of them.

P(Y = 1) = p σ(s): it replaces the correction, and is meant for vanilla weights.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unmask.arrays import checks
from unmask.losses._loss import Loss
from unmask.losses.pointwise import logistic, lower_bound, never_convex
from unmask.weights.formulas import Array, like, softplus, special

NEVER = -1e30
"""ln(1 − p) of a label that is always observed."""


def observed_likelihood(propensity: ArrayLike) -> Loss:
    """Return minus the log-likelihood of observed labels, if σ(s) is the chance of true ones.

        ℓ₊(s) = log(1 + e⁻ˢ) − ln p,    ℓ₋(s) = −ln(1 − p σ(s)) = log(1 + eˢ) − log(1 + (1 − p) eˢ)

    For vanilla weights: it replaces the correction. Never negative, and bounded above by −ln(1 − p)
    where a label is not observed, so that a missing label cannot cost much; at p = 1 it is the
    logistic loss. Its optimum is the log-odds of *true* labels. Limits: not convex for p < 1; on
    three text collections it ranks a little worse than the unbiased loss at its best l2. Linear
    models are trained by it with `linear.Recipe("logistic", correction="likelihood")`.

    Parameters
    ----------
    propensity : float or (L,) floats in (0, 1]
        p, one number or one per label.

    Returns
    -------
    Loss
        A one-vs-all loss.

    Raises
    ------
    ValueError
        If a propensity is not in (0, 1].

    References
    ----------
    Patrini et al., *Making deep neural networks robust to label noise: a loss correction approach*
    (2017), for the forward correction that it is an instance of.

    Examples
    --------
    >>> half = observed_likelihood(0.5)
    >>> round(float(np.exp(-half.value(0.0, 1))), 12), round(float(np.exp(-half.value(0.0, 0))), 12)
    (0.25, 0.75)
    """
    p = checks.propensity(np.ravel(propensity))
    p = p if np.ndim(propensity) else p[0]
    with np.errstate(divide="ignore"):
        shift = np.maximum(np.log1p(-p), NEVER)

    def value(scores: Array, label: int) -> Array:
        if label:
            return softplus(-scores) - like(scores, np.log(p))
        return softplus(scores) - softplus(scores + like(scores, shift))

    def slope(scores: Array, label: int) -> Array:
        expit = special(scores).expit
        if label:
            return -expit(-scores)
        return expit(scores) - expit(scores + like(scores, shift))

    def curvature(scores: Array, label: int) -> Array:
        expit = special(scores).expit
        own = expit(scores) * expit(-scores)
        if label:
            return own
        moved = scores + like(scores, shift)
        return own - expit(moved) * expit(-moved)

    most = float(-shift.min())
    return Loss(
        "observed_likelihood",
        "ova",
        value,
        slope,
        curvature,
        logistic.convex if np.all(p == 1) else never_convex,
        lower_bound(np.inf, most if most < -NEVER else np.inf),
        proper=True,
        per_label=np.ndim(propensity) > 0,
        doc="See `unmask.losses.related_work.observed_likelihood`.",
    )
