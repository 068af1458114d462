"""What is chosen for a training, and the optimisation problem that it makes of data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from unmask import _validation
from unmask.linear import ova
from unmask.linear.problem import BIASES, Problem, problem
from unmask.weights import CORRECTIONS, Weights

REDUCTIONS = ("ova", "pal")


@dataclass(frozen=True)
class Recipe:
    """The choices of a training.

    - `loss`: squared_hinge, logistic or squared_error (`reduction` "ova"); softmax ("pal");
    - `correction`: a name in `weights.CORRECTIONS`, with `normalized`;
    - `C` as in liblinear, ½‖w‖² + C Σ loss; or `l2`, mean loss + l2/2 ‖w‖², where C = 1/(l2·n);
    - `bias`: "regularized" (a feature that is always 1), "free" (not in the penalty) or "none";
    - `tol`: stop when the next step promises less than this share of the objective;
    - `prune_below`: drop weights below this size (DiSMEC: 0.01); the model is then stored sparse.

    >>> Recipe(loss="logistic", l2=1e-3).cost(rows=500)
    2.0
    """

    loss: str = "squared_hinge"
    reduction: str = "ova"
    correction: str = "vanilla"
    normalized: bool = False
    C: float = 1.0
    l2: float | None = None
    bias: str = "regularized"
    tol: float = 4e-4
    max_iter: int = 100
    prune_below: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be combined."""
        _validation.one_of(self.reduction, REDUCTIONS, "reduction")
        known = ova.SOLVERS if self.reduction == "ova" else ("softmax",)
        _validation.one_of(self.loss, known, f"loss for reduction={self.reduction!r}")
        _validation.one_of(self.correction, [*CORRECTIONS, "given"], "correction")
        _validation.one_of(self.bias, BIASES, "bias")
        for name in ("C", "tol") if self.l2 is None else ("l2", "tol"):
            _validation.in_range(getattr(self, name), name, np.finfo(float).tiny, np.inf)
        _validation.in_range(self.prune_below, "prune_below", 0, np.inf)
        _validation.positive_int(self.max_iter, "max_iter")

    def cost(self, rows: int) -> float:
        """C, for this many rows."""
        return self.C if self.l2 is None else 1.0 / (self.l2 * rows)


def prepare(
    features: Any, labels: Any, recipe: Recipe, propensity: Any, weights: Weights | None
) -> Problem:
    """Check, weigh, arrange."""
    x = _validation.narrow(_validation.columns(features))
    y = _validation.narrow(_validation.labels(labels))
    _validation.same_rows(x, y, "features", "labels")
    if min(x.shape) < 1 or y.shape[1] < 1:
        raise ValueError(
            f"training needs rows, features and labels; got {x.shape[0]} rows, {x.shape[1]} "
            f"features and {y.shape[1]} labels."
        )
    weights = _weigh(y, recipe, propensity) if weights is None else replace(weights)
    _validation.same_shape(weights.pos, y, "weights", "labels")
    return problem(
        x,
        weights,
        loss=recipe.loss,
        cost=recipe.cost(x.shape[0]),
        bias=recipe.bias,
        tol=recipe.tol,
        max_iter=recipe.max_iter,
    )


def _weigh(labels: sp.csr_array, recipe: Recipe, propensity: Any) -> Weights:
    if recipe.correction == "given":
        raise ValueError("correction='given' needs the weights themselves.")
    if propensity is None and recipe.correction != "vanilla":
        raise ValueError(
            f"correction={recipe.correction!r} needs propensities, one per label; "
            "see `unmask.propensity`."
        )
    correct = CORRECTIONS[recipe.correction]
    return correct(labels, propensity, normalized=recipe.normalized, reduction=recipe.reduction)
