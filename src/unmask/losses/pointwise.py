"""Losses of one score against one label: ℓ₊ = ℓ(s, 1) for a positive, ℓ₋ = ℓ(s, 0) for a negative.

A margin loss is φ(s) for a positive and φ(−s) for a negative. Applied to differences of scores the
same φ is a ranking loss: `pairwise(loss)`.

Shape under weights. A label contributes pos·ℓ₊ + (1 − cut)·ℓ₋. Where ℓ₊ − ℓ₋ is linear in s
(logistic, squared error) its second derivative is (1 + pos − cut)·ℓ₋″, so it is convex for every
unbiased weight, even a negative one. Hinge and squared hinge need pos ≥ 0 and cut ≤ 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from unmask.losses._arrays import Array, namespace, softplus, special
from unmask.losses._loss import Loss


def pairwise(loss: Loss) -> Loss:
    """φ of a margin loss, applied to s_i − s_j for every relevant i and irrelevant j.

    On the 0–1 loss this is the bipartite Kendall-tau count of wrongly ordered pairs; a tie counts
    one half, so constant scores do not look perfect. Corrected for missing labels with any weights
    of `unmask.weights` (Schultheis & Babbar, appendix on pairwise losses), in O(mL) per row.

    >>> from unmask.losses import hinge
    >>> pairwise(hinge).name
    'pairwise_hinge'
    """
    return replace(loss, name=f"pairwise_{loss.name}", reduction="pairwise")


def _margin(scores: Array, label: int) -> Array:
    return scores if label else -scores


def _logistic(scores: Array, label: int) -> Array:
    return softplus(_margin(scores, 1 - label))


def _logistic_slope(scores: Array, label: int) -> Array:
    expit = special(scores).expit
    return -expit(-scores) if label else expit(scores)


def _logistic_curvature(scores: Array, label: int) -> Array:
    expit = special(scores).expit
    return expit(scores) * expit(-scores)


def _squared_error(scores: Array, label: int) -> Array:
    return (scores - label) ** 2


def _squared_error_slope(scores: Array, label: int) -> Array:
    return 2 * (scores - label)


def _squared_error_curvature(scores: Array, label: int) -> Array:
    return 0 * scores + 2


def _shortfall(scores: Array, label: int) -> Array:
    """max(0, 1 − margin)."""
    return namespace(scores).clip(1 - _margin(scores, label), 0, None)


def _hinge_slope(scores: Array, label: int) -> Array:
    return _margin(-_short(scores, label), label)


def _short(scores: Array, label: int) -> Array:
    """1 where the margin is below one, else 0, as floats."""
    return namespace(scores).sign(_shortfall(scores, label))


def _hinge_curvature(scores: Array, label: int) -> Array:
    return 0 * scores


def _squared_hinge(scores: Array, label: int) -> Array:
    return _shortfall(scores, label) ** 2


def _squared_hinge_slope(scores: Array, label: int) -> Array:
    return _margin(-2 * _shortfall(scores, label), label)


def _squared_hinge_curvature(scores: Array, label: int) -> Array:
    return 2 * _short(scores, label)


def _zero_one(scores: Array, label: int) -> Array:
    return (1 - namespace(scores).sign(_margin(scores, label))) / 2


def convex_if_linear_difference(pos: Array, cut: Array) -> Array:
    """Convexity of pos·ℓ₊ + (1 − cut)·ℓ₋ when ℓ₊ − ℓ₋ is linear."""
    return 1 + pos - cut >= 0


def convex_if_both_positive(pos: Array, cut: Array) -> Array:
    """Convexity of pos·ℓ₊ + (1 − cut)·ℓ₋ for convex losses that are flat on one side."""
    return (pos >= 0) & (cut <= 1)


def never_convex(pos: Array, cut: Array) -> Array:
    """For losses that are not convex to begin with."""
    return np.zeros(np.broadcast(pos, cut).shape, dtype=bool)


def lower_bound(positive: float, negative: float) -> Callable[[Array, Array], Array]:
    """For ℓ₊ in [0, positive] and ℓ₋ in [0, negative]: only negative weights go below 0."""

    def bound(pos: Array, cut: Array) -> Array:
        below = np.minimum(pos, 0), np.minimum(1 - cut, 0)
        return sum(
            np.multiply(b, top, where=b != 0, out=np.zeros_like(b, dtype=float))
            for b, top in zip(below, (positive, negative), strict=True)
        )

    return bound


def _squared_error_lower(pos: Array, cut: Array) -> Array:
    """min_s pos (1 − s)² + (1 − cut) s² = pos − pos² / (1 + pos − cut)."""
    leading = np.asarray(1 + pos - cut, dtype=float)
    vertex = pos - pos**2 / np.where(leading > 0, leading, 1)
    flat = np.where((leading == 0) & (np.asarray(pos) == 0), 0.0, -np.inf)
    return np.where(leading > 0, vertex, flat)


_unbounded_above = lower_bound(np.inf, np.inf)

#: Binary cross-entropy on logits: ℓ₊ = log(1 + e⁻ˢ), ℓ₋ = log(1 + eˢ).
logistic = Loss(
    "logistic",
    "ova",
    _logistic,
    _logistic_slope,
    _logistic_curvature,
    convex_if_linear_difference,
    _unbounded_above,
    proper=True,
    difference=(0.0, -1.0),
)

#: ℓ₊ = (1 − s)², ℓ₋ = s²: regression on the 0/1 label, so that s estimates a probability.
squared_error = Loss(
    "squared_error",
    "ova",
    _squared_error,
    _squared_error_slope,
    _squared_error_curvature,
    convex_if_linear_difference,
    _squared_error_lower,
    proper=True,
    difference=(1.0, -2.0),
)

#: ℓ₊ = max(0, 1 − s), ℓ₋ = max(0, 1 + s).
hinge = Loss(
    "hinge",
    "ova",
    _shortfall,
    _hinge_slope,
    _hinge_curvature,
    convex_if_both_positive,
    _unbounded_above,
    proper=False,
)

#: The square of the hinge loss: ℓ₊ = max(0, 1 − s)², ℓ₋ = max(0, 1 + s)².
squared_hinge = Loss(
    "squared_hinge",
    "ova",
    _squared_hinge,
    _squared_hinge_slope,
    _squared_hinge_curvature,
    convex_if_both_positive,
    _unbounded_above,
    proper=True,
)

#: ℓ₊ = [s < 0], ℓ₋ = [s > 0], and one half at s = 0; for evaluation only.
zero_one = Loss(
    "zero_one", "ova", _zero_one, None, None, never_convex, lower_bound(1.0, 1.0), proper=False
)

#: Kendall-tau for evaluation: wrongly ordered pairs of a relevant and an irrelevant label.
pairwise_zero_one = pairwise(zero_one)

#: Σ log(1 + e^{−(s_i − s_j)}) over relevant i and irrelevant j (RankNet).
pairwise_logistic = pairwise(logistic)

#: Σ max(0, 1 − (s_i − s_j)) over relevant i and irrelevant j (ranking SVM).
pairwise_hinge = pairwise(hinge)
