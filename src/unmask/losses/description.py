"""What minimising a loss under given weights amounts to: convex? bounded below? for which metric?

Facts, not folklore. A row's loss is a sum of terms pos·ℓ₊ + (1 − cut)·ℓ₋ over labels (ova), over
pairs of labels (pairwise: φ(d) and φ(−d) take the places of ℓ₊ and ℓ₋), or (Σ pos) A(s) − Σ pos s
(pal), so both questions are answered exactly from the weights. Plain reductions are consistent for
precision@k and normalised ones for recall@k (Menon et al., *Multilabel reductions*, 2019) where the
base loss is proper and the weights are unbiased.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from unmask import _validation
from unmask._typing import Floats
from unmask.losses._loss import Loss
from unmask.weights import CORRECTIONS, Weights


class UnboundedLossWarning(UserWarning):
    """The chosen loss can be driven to −∞ on the training data.

    Examples
    --------
    >>> from unmask import losses
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     losses.warn_if_unbounded(losses.hinge, "unbiased")
    >>> caught[0].category.__name__
    'UnboundedLossWarning'
    """


@dataclass(frozen=True)
class Description:
    """What `describe` returns; printing it gives the sentences.

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
        """The sentences."""
        return self.words


def describe(loss: Loss, weights: Weights | str, *, normalized: bool = False) -> Description:
    """Convexity, lower bound, largest weight and consistency of `loss` under `weights`.

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
    named = weights if isinstance(weights, str) else None
    checked = (
        replace(weights) if isinstance(weights, Weights) else _prototype(weights, loss, normalized)
    )
    convex, lower = _SHAPE[loss.reduction](loss, checked)
    bounded = lower > -np.inf
    lower_bound = None if named and bounded else lower
    largest = None if named else _largest(checked)
    target = _target(loss, normalized)
    parts = [
        "convex in the scores" if convex else "not convex in the scores",
        _bound_in_words(bounded, lower_bound, loss, normalized),
        *([] if largest is None else [f"largest weight {largest:.4g}"]),
        _target_in_words(target, named, loss),
    ]
    kind = [loss.reduction, "normalised" if normalized else "plain", *([named] if named else [])]
    words = f"{loss.name} ({', '.join(kind)}): {'; '.join(parts)}."
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
        warnings.warn(str(description), UnboundedLossWarning, stacklevel=3)


def _prototype(correction: str, loss: Loss, normalized: bool) -> Weights:
    """Weights of a row of one label and a row of two at p = 0.3: all that can go wrong does."""
    _validation.one_of(correction, CORRECTIONS, "correction")
    weigh = CORRECTIONS[correction]
    labels, p = [[1, 0, 0], [1, 1, 0]], [0.3] * 3
    return weigh(labels, p, normalized=normalized, reduction=loss.reduction)


def _largest(weights: Weights) -> float:
    values = (weights.pos.data, weights.cut.data)
    return max((float(np.abs(v).max()) for v in values if v.size), default=0.0)


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
    """Σ v log v: inf_s of W·A(s) − Σ pos s is W log W − Σ pos log pos."""
    positive = values[values > 0]
    return float((positive * np.log(positive)).sum())


def _pairwise_shape(loss: Loss, weights: Weights) -> tuple[bool, float]:
    convex, lower = True, 0.0
    for pos, cut in zip(_by_row(weights.pos), _by_row(weights.cut), strict=True):
        first, second = np.triu_indices(len(pos), 1)
        forth = np.r_[pos, pos[first] * (1 - cut[second])]  # the first ones: unobserved partners
        back = np.r_[0 * pos, pos[second] * (1 - cut[first])]
        convex = convex and bool(loss.convex(forth, 1 - back).all())
        lower += float(loss.lower(forth, 1 - back).sum())
    return convex, lower / max(weights.pos.shape[0], 1)


def _by_row(matrix: sp.csr_array) -> list[Floats]:
    return np.split(matrix.data, matrix.indptr[1:-1])


def _target(loss: Loss, normalized: bool) -> str | None:
    if not loss.proper or loss.slope is None:
        return None
    if loss.reduction == "pairwise":
        return "pairwise ranking (AUC)"
    return "recall@k" if normalized else "precision@k"


def _target_in_words(target: str | None, correction: str | None, loss: Loss) -> str:
    if target is None:
        why = "evaluation only" if loss.slope is None else "the loss is not proper"
        return f"consistent for no ranking metric ({why})"
    return f"consistent for {target}{_CAVEAT.get(correction or '', ' if the weights are unbiased')}"


_CAVEAT = {
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
        return (
            "unbounded below, because some pos is negative: "
            "use the bound or empirical_bayes weights"
        )
    if normalized:
        return (
            "unbounded below, because some cut exceeds 1 or some pos is negative: "
            "use softmax with the bound or empirical_bayes weights"
        )
    return (
        "unbounded below, because some cut exceeds 1 or some pos is negative: use the bound weights"
    )


_SHAPE = {"ova": _ova_shape, "pal": _pal_shape, "pairwise": _pairwise_shape}
