"""The parameters of a training: their names, defaults and checks, which everybody else reads.

`LinearClassifier` takes the same parameters with the same defaults, `train`, `train_to` and `plan`
take a `Recipe`, solvers find it in their `Problem`, and a stored model keeps it as a mapping.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from unmask import _validation
from unmask._typing import FeaturesLike, LabelsLike, PropensityLike
from unmask.linear import ova
from unmask.linear.problem import Problem, arrange
from unmask.weights import CORRECTIONS, Weights

LOSSES = {"ova": tuple(ova.SOLVERS), "pal": ("softmax",)}
"""The losses of every reduction."""
BIASES = ("regularized", "free", "none")


@dataclass(frozen=True)
class Recipe:
    """The parameters of a training.

    One-vs-all minimises ½‖w_j‖² + C Σ_i loss for every label j, pick-all-labels
    ½‖W‖² + C Σ_i loss for all labels together.

    Parameters
    ----------
    loss : {"squared_hinge", "logistic", "squared_error", "softmax"}, default "squared_hinge"
        "softmax" is the loss of `reduction` "pal", the others of "ova".
    reduction : {"ova", "pal"}, default "ova"
        One-vs-all, one problem per label; or pick-all-labels, one softmax.
    correction : str or None, default "vanilla"
        A name in `weights.CORRECTIONS`; None where weights are handed in with the labels.
    normalized : bool, default False
        Whether a row's loss is divided among its labels.
    C : float, default 1.0
        The cost of the loss, as in liblinear.
    l2 : float, optional
        Instead of C: mean loss + l2/2 ‖w‖², that is C = 1/(l2·n).
    bias : {"regularized", "free", "none"}, default "regularized"
        A feature that is always 1; not in the penalty; or no bias.
    tol : float, default 4e-4
        Stop when the next step promises less than this share of the objective.
    max_iter : int, default 100
        Newton iterations per label.
    prune_below : float, default 0.0
        Drop weights below this size (DiSMEC: 0.01); the model is then stored sparse.

    Raises
    ------
    ValueError
        If a name is unknown, a number out of range, or a loss not one of the reduction.

    Examples
    --------
    >>> Recipe(loss="logistic", l2=1e-3).cost(rows=500)
    2.0
    """

    loss: str = "squared_hinge"
    reduction: str = "ova"
    correction: str | None = "vanilla"
    normalized: bool = False
    C: float = 1.0
    l2: float | None = None
    bias: str = "regularized"
    tol: float = 4e-4
    max_iter: int = 100
    prune_below: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be combined."""
        _validation.one_of(self.reduction, LOSSES, "reduction")
        losses = LOSSES[self.reduction]
        _validation.one_of(self.loss, losses, f"loss for reduction={self.reduction!r}")
        if self.correction is not None:
            _validation.one_of(self.correction, CORRECTIONS, "correction")
        _validation.one_of(self.bias, BIASES, "bias")
        for name in ("C", "tol") if self.l2 is None else ("l2", "tol"):
            _validation.in_range(getattr(self, name), name, np.finfo(float).tiny, np.inf)
        _validation.in_range(self.prune_below, "prune_below", 0, np.inf)
        _validation.positive_int(self.max_iter, "max_iter")

    def cost(self, rows: int) -> float:
        """C, for this many rows."""
        return self.C if self.l2 is None else 1.0 / (self.l2 * rows)


def prepare(
    features: FeaturesLike,
    labels: LabelsLike,
    recipe: Recipe,
    propensity: PropensityLike | None,
    weights: Weights | None,
) -> Problem:
    """Check features and labels, weigh the labels, and arrange them for a solver.

    Where `weights` are handed in, the recipe of the problem has the correction None.
    """
    x = _validation.narrow(_validation.columns(features))
    y = _validation.narrow(_validation.labels(labels))
    _validation.same_rows(x, y, "features", "labels")
    if min(x.shape) < 1 or y.shape[1] < 1:
        raise ValueError(
            f"training needs rows, features and labels; got {x.shape[0]} rows, {x.shape[1]} "
            f"features and {y.shape[1]} labels."
        )
    if weights is None:
        checked = _weigh(y, recipe, propensity)
    else:
        checked, recipe = replace(weights), replace(recipe, correction=None)
    _validation.same_shape(checked.pos, y, "weights", "labels")
    return arrange(x, checked, recipe)


def _weigh(labels: sp.csr_array, recipe: Recipe, propensity: PropensityLike | None) -> Weights:
    if recipe.correction is None:
        raise ValueError("correction=None needs the weights themselves: pass weights=.")
    if propensity is None and recipe.correction != "vanilla":
        raise ValueError(
            f"correction={recipe.correction!r} needs propensities, one per label; "
            "see `unmask.propensity`."
        )
    correct = CORRECTIONS[recipe.correction]
    return correct(labels, propensity, normalized=recipe.normalized, reduction=recipe.reduction)
