"""The parameters of a label tree, and the data that it is trained on, checked and arranged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unmask import weights
from unmask._kernels.linear_state import Rows
from unmask._messages import setting
from unmask._typing import FeaturesLike, Floats, Indices, Ints, LabelsLike, PropensityLike
from unmask.arrays import checks
from unmask.data import Dataset
from unmask.linear.problem import BIASES, checked_rows, no_propensities

LOSSES = ("squared_hinge", "logistic")
"""The losses of nodes."""
CORRECTIONS = ("vanilla", "counts", "unbiased")
"""What a tree is trained on; "unbiased" is "counts"."""
MOST_CHILDREN = 1 << 16
TOLERANCES = {"squared_hinge": 0.2, "logistic": 0.02}
"""Where to stop, unless told otherwise."""


@dataclass(frozen=True)
class TreeRecipe:
    """The parameters of a label tree.

    Every node minimises, for each of its children, ½‖w‖² + C Σ_i loss over the rows that reach it.

    Parameters
    ----------
    loss : {"squared_hinge", "logistic"}, optional
        "squared_hinge" for vanilla and "logistic" for corrected trees if left out: ranking by
        P/p and counts need probabilities, which squared hinge only sketches.
    correction : {"vanilla", "counts", "unbiased"}, default "vanilla"
        "vanilla": a row belongs to a child that has one of its labels. "counts" ("unbiased"): a row
        weighs Σ 1/p over its labels below the node, and belongs to a child with the part of that
        which lies below the child; unbiased, convex, and products along a path become
        P(label | row) / E[number of true labels | row] (docs/decisions/0013).
    n_trees : int, default 3
        Trees that are averaged.
    arity : int, default 32
        Children of an inner node at most, a power of 2.
    leaf : int, default 24
        Labels of a leaf node, about.
    C : float, default 1.0
        The cost of the loss, as in liblinear.
    bias : {"regularized", "free", "none"}, default "regularized"
        A feature that is always 1; not in the penalty; or no bias.
    tol : float, optional
        A child is finished when the next step promises less than this share of its objective;
        0.2 for squared hinge and 0.02 for logistic if left out. Squared hinge takes smaller steps,
        of which all further ones together have to promise less than a fortieth of that.
    forcing : float, default 0.5
        Conjugate gradients within an iteration of Newton's method stop when a step gains less than
        this share of all gains (squared hinge with a tolerance below 0.01).
    max_iter : int, default 100
        Iterations per child.
    prune_below : float, default 0.1
        Drop weights below this size.
    seed : int, default 0
        Of the random choices of clustering.

    Raises
    ------
    ValueError
        If a name is unknown or a number out of range.

    References
    ----------
    Prabhu et al., *Parabel* (2018); Khandagale et al., *Bonsai* (2020); Wydmuch et al.,
    *Propensity-scored probabilistic label trees* (2021).

    Examples
    --------
    >>> TreeRecipe(n_trees=1, arity=16).stop
    0.2
    """

    loss: str | None = None
    correction: str = "vanilla"
    n_trees: int = 3
    arity: int = 32
    leaf: int = 24
    C: float = 1.0
    bias: str = "regularized"
    tol: float | None = None
    forcing: float = 0.5
    max_iter: int = 100
    prune_below: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what is out of range, and settle the loss."""
        checks.one_of(self.correction, CORRECTIONS, "correction of a label tree")
        if self.loss is None:
            object.__setattr__(self, "loss", LOSSES[self.counting])
        checks.one_of(self.settled_loss, LOSSES, "loss of a label tree")
        checks.one_of(self.bias, BIASES, "bias")
        for name in ("n_trees", "arity", "leaf", "max_iter"):
            checks.positive_int(getattr(self, name), name)
        if self.arity < 2 or self.arity & (self.arity - 1) or self.arity > MOST_CHILDREN:
            raise ValueError(f"arity must be a power of 2 from 2 to 65536; got {self.arity}.")
        checks.in_range(self.leaf, "leaf", 1, MOST_CHILDREN // 2)
        tiny = float(np.finfo(float).tiny)
        for name, value in (("C", self.C), ("tol", self.stop), ("forcing", self.forcing)):
            checks.in_range(value, name, tiny, math.inf)
        checks.in_range(self.prune_below, "prune_below", 0, math.inf)
        checks.in_range(self.seed, "seed", 0, 2**20)

    @property
    def settled_loss(self) -> str:
        """The loss, which is never left out of a recipe that was made."""
        return str(self.loss)

    @property
    def stop(self) -> float:
        """The tolerance: as told, or that of the loss."""
        return TOLERANCES[self.settled_loss] if self.tol is None else self.tol

    @property
    def counting(self) -> bool:
        """Whether rows and children weigh what they count."""
        return self.correction != "vanilla"


class TrainingRows(NamedTuple):
    """Features by row, and rows by label with what each label weighs there.

    Rows are in the order of their lengths, which a processor can predict; n rows, d features.
    """

    x: Rows
    n_features: int
    starts: Ints
    rows: Indices
    weight: Floats

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.x.indptr) - 1

    @property
    def n_labels(self) -> int:
        """Labels."""
        return len(self.starts) - 1


def prepare(
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    recipe: TreeRecipe,
    propensity: PropensityLike | None,
) -> TrainingRows:
    """Check features and labels, weigh the labels, and arrange both for training.

    Weights of labels are 1/p, divided by their mean, so that C means what it means without them.
    """
    if isinstance(labels, Dataset):
        if labels.judgements is not None:
            raise ValueError(
                "a label tree cannot obey judged pairs; train one-vs-all "
                f"({setting('model', 'linear', of='tree.train')}), or leave the judgements out."
            )
        labels = labels.labels
    x, y = checked_rows(features, labels)
    weight = y
    if recipe.counting:
        if propensity is None:
            raise no_propensities(recipe.correction, of="tree.train")
        weight = weights.unbiased(y, propensity).pos
    order = np.argsort(np.diff(x.indptr), kind="stable")
    x, columns = x[order], weight[order].tocsc()
    index = np.ascontiguousarray(x.indices, dtype=np.int32).view(np.uint32)
    rows = Rows(x.indptr.astype(np.int64), index, x.data.astype(np.float32, copy=False))
    amount = columns.data.astype(np.float64)
    return TrainingRows(
        rows,
        x.shape[1],
        columns.indptr.astype(np.int64),
        columns.indices.astype(np.int32),
        amount / amount.mean() if amount.size else amount,
    )
