"""Losses: values that combine with any weights, on numpy arrays and torch tensors alike.

A loss never knows a propensity: it meets the pair of weights of `unmask.weights` in one of three
formulas, which stand in `_loss` (one-vs-all, pick-all-labels, pairwise) together with what can be
promised of a combination. `total` and `gradient` evaluate any loss under any weights for dense
scores (n, L); trainers use the parts. `pointwise` holds the losses, `related_work` the likelihood
of what was observed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unmask._typing import Floats, ScoresLike
from unmask.arrays import checks
from unmask.losses import _loss, related_work
from unmask.losses._loss import Loss, Observed, UnboundedLossWarning, describe, warn_if_unbounded
from unmask.losses.pointwise import (
    hinge,
    logistic,
    pairwise,
    pairwise_hinge,
    pairwise_logistic,
    pairwise_zero_one,
    softmax,
    squared_error,
    squared_hinge,
    zero_one,
)

if TYPE_CHECKING:
    from unmask.weights import Weights

__all__ = [
    "LOSSES",
    "Loss",
    "Observed",
    "UnboundedLossWarning",
    "describe",
    "get",
    "gradient",
    "hinge",
    "logistic",
    "observed",
    "pairwise",
    "pairwise_hinge",
    "pairwise_logistic",
    "pairwise_zero_one",
    "related_work",
    "softmax",
    "squared_error",
    "squared_hinge",
    "total",
    "warn_if_unbounded",
    "zero_one",
]


def total(loss: Loss | str, scores: ScoresLike, weights: Weights) -> Floats:
    """Return the loss of every row, by the formula of its reduction (see `unmask.weights`).

    Parameters
    ----------
    loss : Loss or str
        A loss, or its name in `LOSSES`.
    scores : (n, L) floats
        Dense scores.
    weights : Weights
        The label weights of the same rows.

    Returns
    -------
    (n,) floats

    Raises
    ------
    ValueError
        If the loss is unknown, scores are not finite, or shapes differ.

    Examples
    --------
    >>> from unmask import weights
    >>> observed = [[1, 1, 0], [0, 0, 1]]
    >>> total("squared_error", [[1, 0, 0], [0, 1, 1]], weights.unbiased(observed, [0.5, 1, 1]))
    array([0., 1.])
    """
    chosen, dense, labels = _checked(loss, scores, weights)
    return np.asarray(_loss.rows(chosen, dense, labels))


def gradient(loss: Loss | str, scores: ScoresLike, weights: Weights) -> Floats:
    """Return the derivative of every row's loss by its scores.

    Parameters
    ----------
    loss : Loss or str
        A loss, or its name in `LOSSES`.
    scores : (n, L) floats
        Dense scores.
    weights : Weights
        The label weights of the same rows.

    Returns
    -------
    (n, L) floats
        A subgradient at kinks.

    Raises
    ------
    ValueError
        If the loss is unknown or for evaluation only, scores are not finite, or shapes differ.

    Examples
    --------
    >>> from unmask import weights
    >>> gradient("logistic", [[0.0, 0.0]], weights.unbiased([[1, 0]], [0.25, 1]))
    array([[-3.5,  0.5]])
    """
    chosen, dense, labels = _checked(loss, scores, weights)
    return np.asarray(_loss.gradient(chosen, dense, labels))


def get(loss: Loss | str) -> Loss:
    """Return the loss of that name, or a `Loss` as it is.

    Parameters
    ----------
    loss : Loss or str
        A loss, or its name in `LOSSES`.

    Returns
    -------
    Loss

    Raises
    ------
    ValueError
        If there is no loss of that name; the message lists those that there are.

    Examples
    --------
    >>> get("hinge").reduction
    'ova'
    """
    return loss if isinstance(loss, Loss) else LOSSES[checks.one_of(loss, LOSSES, "loss")]


def observed(weights: Weights) -> Observed:
    """Return the weights of n rows as rectangles (n, m), short rows filled up with weight 0.

    Parameters
    ----------
    weights : Weights
        Label weights of n rows, of which the longest has m.

    Returns
    -------
    Observed
        `index`, `pos` and `cut`, each (n, m).

    Raises
    ------
    ValueError
        If the matrices were changed into something that is no label weights.

    Examples
    --------
    >>> from unmask import weights
    >>> observed(weights.vanilla([[1, 0, 1], [0, 1, 0]])).index
    array([[0, 2],
           [1, 0]])
    """
    weights = replace(weights)  # which checks it, for matrices can be changed in place
    pos, cut = weights.pos, weights.cut
    counts = np.diff(pos.indptr)
    filled = np.arange(counts.max(initial=0)) < counts[:, None]
    index = np.zeros(filled.shape, dtype=np.int64)
    index[filled] = pos.indices
    on_positives, cuts = np.zeros(filled.shape), np.zeros(filled.shape)
    on_positives[filled], cuts[filled] = pos.data, cut.data
    return Observed(index, on_positives, on_positives if cut is pos else cuts)


def _checked(
    loss: Loss | str, scores: ScoresLike, weights: Weights
) -> tuple[Loss, Floats, Observed]:
    numbers = checks.numbers(scores, "scores")
    dense: Floats = numbers.astype(np.float64, copy=False)
    checks.finite(dense, "scores")
    if dense.shape != weights.pos.shape:
        raise ValueError(
            f"scores must have the shape of the weights, {weights.pos.shape}; got {dense.shape}."
        )
    return get(loss), dense, observed(weights)


LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        logistic,
        squared_error,
        hinge,
        squared_hinge,
        zero_one,
        softmax,
        pairwise_zero_one,
        pairwise_logistic,
        pairwise_hinge,
    )
}
