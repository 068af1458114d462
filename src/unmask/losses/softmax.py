"""The softmax cross-entropy, the loss of the pick-all-labels reduction.

g(i, s) = A(s) − s_i with A(s) = log Σ_j eˢʲ: every observed label is one multiclass example. The
row's loss is (Σ pos)·A(s) − Σ pos_i s_i: convex exactly where Σ pos ≥ 0, and bounded below exactly
where every pos ≥ 0 (a negative weight pays for pushing its label's score to −∞).
"""

from __future__ import annotations

from unmask.losses._loss import Loss
from unmask.losses.pointwise import convex_if_linear_difference, lower_bound
from unmask.weights._arrays import Array, special


def _log_partition(scores: Array) -> Array:
    return special(scores).logsumexp(scores, -1)


def _probabilities(scores: Array) -> Array:
    return special(scores).softmax(scores, -1)


softmax = Loss(
    "softmax",
    "pal",
    _log_partition,
    _probabilities,
    None,
    convex_if_linear_difference,
    lower_bound(float("inf"), float("inf")),
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
