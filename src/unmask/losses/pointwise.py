"""The losses: of one score against one label, ℓ₊ = ℓ(s, 1) and ℓ₋ = ℓ(s, 0), and the softmax.

A margin loss is φ(s) for a positive and φ(−s) for a negative. Applied to differences of scores the
same φ is a ranking loss: `pairwise(loss)`.

Shape under weights. A label contributes pos·ℓ₊ + (1 − cut)·ℓ₋. Where ℓ₊ − ℓ₋ is linear in s
(logistic, squared error) its second derivative is (1 + pos − cut)·ℓ₋″, so it is convex for every
unbiased weight, even a negative one. Hinge and squared hinge need pos ≥ 0 and cut ≤ 1.

The softmax cross-entropy is the loss of the pick-all-labels reduction, g(i, s) = A(s) − s_i with
A(s) = log Σ_j eˢʲ: every observed label is one multiclass example. The row's loss is
(Σ pos)·A(s) − Σ pos_i s_i: convex exactly where Σ pos ≥ 0, and bounded below exactly where every
pos ≥ 0 (a negative weight pays for pushing its label's score to −∞).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from unmask.losses._loss import Loss
from unmask.weights.formulas import Array, namespace, softplus, special


def pairwise(loss: Loss) -> Loss:
    """Apply φ of a margin loss to s_i − s_j for every relevant i and irrelevant j.

        Σ_{i relevant} Σ_{j irrelevant} φ(s_i − s_j)

    On the 0–1 loss this is the bipartite Kendall-tau count of wrongly ordered pairs; a tie counts
    one half, so constant scores do not look perfect. Corrected for missing labels with the weights
    of `unmask.weights` (`reduction="pairwise"`), in O(mL) per row.

    Parameters
    ----------
    loss : Loss
        A margin loss of the reduction "ova".

    Returns
    -------
    Loss
        The ranking loss, called `pairwise_` and the name of `loss`.

    References
    ----------
    Schultheis & Babbar, *Unbiased loss functions for multilabel classification with missing labels*
    (2021), appendix on pairwise losses.

    Examples
    --------
    >>> from unmask.losses import hinge
    >>> pairwise(hinge).name
    'pairwise_hinge'
    """
    return replace(
        loss,
        name=f"pairwise_{loss.name}",
        reduction="pairwise",
        doc=_PAIRWISE_DOC.get(loss.name, f"Σ φ(s_i − s_j), φ being ℓ₊ of {loss.name}."),
    )


def _margin(scores: Array, label: int) -> Array:
    return scores if label else -scores


def _shortfall(scores: Array, label: int) -> Array:
    """Return max(0, 1 − margin)."""
    return namespace(scores).clip(1 - _margin(scores, label), 0, None)


def _short(scores: Array, label: int) -> Array:
    """Return 1 where the margin is below one, else 0, as floats."""
    return namespace(scores).sign(_shortfall(scores, label))


def _expit(scores: Array) -> Array:
    return special(scores).expit(scores)


def convex_if_linear_difference(pos: Array, cut: Array) -> Array:
    """Tell if pos·ℓ₊ + (1 − cut)·ℓ₋ is convex where ℓ₊ − ℓ₋ is linear."""
    return 1 + pos - cut >= 0


def convex_if_both_positive(pos: Array, cut: Array) -> Array:
    """Tell if pos·ℓ₊ + (1 − cut)·ℓ₋ is convex, for convex losses that are flat on one side."""
    return (pos >= 0) & (cut <= 1)


def never_convex(pos: Array, cut: Array) -> Array:
    """Answer for losses that are not convex to begin with."""
    return np.zeros(np.broadcast(pos, cut).shape, dtype=bool)


def lower_bound(positive: float, negative: float) -> Callable[[Array, Array], Array]:
    """Bound ℓ₊ in [0, positive] and ℓ₋ in [0, negative]: only negative weights go below 0."""

    def bound(pos: Array, cut: Array) -> Array:
        below = np.minimum(pos, 0), np.minimum(1 - cut, 0)
        return sum(
            np.multiply(b, top, where=b != 0, out=np.zeros_like(b, dtype=float))
            for b, top in zip(below, (positive, negative), strict=True)
        )

    return bound


def _squared_error_lower(pos: Array, cut: Array) -> Array:
    """Return min_s pos (1 − s)² + (1 − cut) s² = pos − pos² / (1 + pos − cut)."""
    leading = np.asarray(1 + pos - cut, dtype=float)
    vertex = pos - pos**2 / np.where(leading > 0, leading, 1)
    flat = np.where((leading == 0) & (np.asarray(pos) == 0), 0.0, -np.inf)
    return np.where(leading > 0, vertex, flat)


_unbounded_above = lower_bound(np.inf, np.inf)

logistic = Loss(
    "logistic",
    "ova",
    lambda s, y: softplus(_margin(s, 1 - y)),
    lambda s, y: -_expit(-s) if y else _expit(s),
    lambda s, y: _expit(s) * _expit(-s),
    convex_if_linear_difference,
    _unbounded_above,
    proper=True,
    difference=(0.0, -1.0),
    doc="""Binary cross-entropy on logits.

        ℓ₊(s) = log(1 + e⁻ˢ),    ℓ₋(s) = log(1 + eˢ)

    Its optimum is the log-odds, so σ(s) estimates P(label | row). ℓ₊ − ℓ₋ = −s is linear: convex
    under any weights, also negative ones; unbounded below where cut > 1 or pos < 0.

    >>> from unmask.losses import logistic
    >>> float(logistic.value(0.0, 1))
    0.6931471805599453
    """,
)

squared_error = Loss(
    "squared_error",
    "ova",
    lambda s, y: (s - y) ** 2,
    lambda s, y: 2 * (s - y),
    lambda s, y: 0 * s + 2,
    convex_if_linear_difference,
    _squared_error_lower,
    proper=True,
    difference=(1.0, -2.0),
    doc="""Regression on the 0/1 label, so that s estimates a probability.

        ℓ₊(s) = (1 − s)²,    ℓ₋(s) = s²

    ℓ₊ − ℓ₋ = 1 − 2s is linear: convex under any weights with 1 + pos − cut ≥ 0, and then bounded
    below by pos − pos² / (1 + pos − cut).

    >>> from unmask.losses import squared_error
    >>> squared_error.value(0.25, 1)
    0.5625
    """,
)

hinge = Loss(
    "hinge",
    "ova",
    _shortfall,
    lambda s, y: _margin(-_short(s, y), y),
    lambda s, y: 0 * s,
    convex_if_both_positive,
    _unbounded_above,
    proper=False,
    doc="""The hinge loss of support vector machines.

        ℓ₊(s) = max(0, 1 − s),    ℓ₋(s) = max(0, 1 + s)

    Convex and bounded below where pos ≥ 0 and cut ≤ 1: `bound` weights, not unbiased ones. Not
    proper: scores order labels only as more or less likely than not.

    >>> from unmask.losses import hinge
    >>> float(hinge.value(0.5, 1)), float(hinge.value(0.5, 0))
    (0.5, 1.5)
    """,
)

squared_hinge = Loss(
    "squared_hinge",
    "ova",
    lambda s, y: _shortfall(s, y) ** 2,
    lambda s, y: _margin(-2 * _shortfall(s, y), y),
    lambda s, y: 2 * _short(s, y),
    convex_if_both_positive,
    _unbounded_above,
    proper=True,
    doc="""The square of the hinge loss, as in DiSMEC.

        ℓ₊(s) = max(0, 1 − s)²,    ℓ₋(s) = max(0, 1 + s)²

    Its optimum is 2 P(label | row) − 1. Convex and bounded below where pos ≥ 0 and cut ≤ 1.

    >>> from unmask.losses import squared_hinge
    >>> float(squared_hinge.value(0.5, 0))
    2.25
    """,
)

zero_one = Loss(
    "zero_one",
    "ova",
    lambda s, y: (1 - namespace(s).sign(_margin(s, y))) / 2,
    None,
    None,
    never_convex,
    lower_bound(1.0, 1.0),
    proper=False,
    doc="""The 0–1 loss: wrong signs. For evaluation only.

        ℓ₊(s) = [s < 0],    ℓ₋(s) = [s > 0],    and one half at s = 0

    >>> from unmask.losses import zero_one
    >>> float(zero_one.value(-1.0, 1)), float(zero_one.value(0.0, 1))
    (1.0, 0.5)
    """,
)

_PAIRWISE_DOC = {
    "zero_one": """Kendall-tau: pairs of labels in the wrong order. For evaluation only.

        Σ_{i relevant} Σ_{j irrelevant} [s_i < s_j],    and one half where s_i = s_j

    >>> from unmask import losses, weights
    >>> losses.total("pairwise_zero_one", [[0.0, 1.0, 2.0]], weights.vanilla([[0, 1, 0]]))
    array([1.])
    """,
    "logistic": """The loss of RankNet: logistic on differences of scores.

        Σ_{i relevant} Σ_{j irrelevant} log(1 + e^{−(s_i − s_j)})

    Convex and bounded below with vanilla and `bound` weights of `reduction="pairwise"`.

    >>> from unmask import losses, weights
    >>> losses.total("pairwise_logistic", [[0.0, 0.0]], weights.vanilla([[1, 0]])).round(4)
    array([0.6931])
    """,
    "hinge": """The loss of ranking support vector machines: hinge on differences of scores.

        Σ_{i relevant} Σ_{j irrelevant} max(0, 1 − (s_i − s_j))

    Convex and bounded below with vanilla and `bound` weights of `reduction="pairwise"`.

    >>> from unmask import losses, weights
    >>> losses.total("pairwise_hinge", [[0.5, 0.0]], weights.vanilla([[1, 0]]))
    array([0.5])
    """,
}

pairwise_zero_one = pairwise(zero_one)
pairwise_logistic = pairwise(logistic)
pairwise_hinge = pairwise(hinge)


softmax = Loss(
    "softmax",
    "pal",
    lambda s: special(s).logsumexp(s, -1),
    lambda s: special(s).softmax(s, -1),
    None,
    convex_if_linear_difference,
    _unbounded_above,
    proper=True,
    doc="""Softmax cross-entropy of every observed label, the loss of pick-all-labels.

        Σ_{i∈I} pos_i (A(s) − s_i),    A(s) = log Σ_j eˢʲ,    ∇A = softmax(s)

    Convex where Σ pos ≥ 0, bounded below where every pos ≥ 0. With normalised weights its optimum
    orders labels by E[Y_i / |Y|], the order for recall.

    >>> from unmask import losses, weights
    >>> losses.total("softmax", [[0.0, 0.0]], weights.vanilla([[1, 0]])).round(4)
    array([0.6931])
    """,
)
