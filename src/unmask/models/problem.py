"""A linear training as an optimisation problem: its recipe, what a solver takes and returns.

Label j has its own weight vector w (bias last) and minimises

    ½ ‖w‖² + C Σ_i ( pos_ij ℓ₊(w·x_i) + neg_ij ℓ₋(w·x_i) ),        neg = 1 − cut,

with pos = 0 and neg = 1 where label j is not observed in row i; whether the bias is part of the
penalty is a choice. A solver sees weights, never propensities, but for one correction: the
likelihood of observed labels, P(Y = 1) = p σ(w·x), whose loss of a label that is not observed,
−ln(1 − p σ(w·x)), is no weighted sum of ℓ₊ and ℓ₋ (docs/decisions/0016).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask import losses
from unmask._kernels.linear_state import CONCAVE, EXHAUSTED, Entries, Rows
from unmask._messages import setting
from unmask._typing import (
    Bools,
    FeaturesLike,
    Floats,
    Integers,
    Ints,
    LabelsLike,
    PropensityLike,
    Singles,
)
from unmask.arrays import checks
from unmask.data import Dataset
from unmask.data.dataset import Judgement, pairs_that_are
from unmask.models import training
from unmask.models.training import checked
from unmask.propensity.mask_model import refuse_for_weights
from unmask.weights import CORRECTIONS, Weights
from unmask.weights.corrections import with_values

LOSSES = {"ova": ("squared_hinge", "logistic", "squared_error"), "pal": ("softmax",)}
"""The losses of every reduction."""
COMPLETED = "completed"
"""A correction that takes features to make weights: `linear.completion`."""
LIKELIHOOD = "likelihood"
"""A correction in the loss: `losses.related_work.observed_likelihood` in place of the logistic."""
OF_LOGISTIC = {
    COMPLETED: "completed labels are probabilities, for the loss logistic",
    LIKELIHOOD: "the likelihood of observed labels is a form of the loss logistic",
}
SLICE = 1 << 24


@dataclass(frozen=True)
class Recipe(training.BaseRecipe):
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
        A name in `weights.CORRECTIONS`; with the loss logistic also "completed" (`completion`), or
        "likelihood": P(observed) = p σ(score), so that a label that is not observed costs
        −ln(1 − p σ(score)), at most −ln(1 − p), and σ(score) is the probability of the true label.
        That is not convex for p < 1. None where weights are handed in with the labels.
    normalized : bool, default False
        Whether a row's loss is divided among its labels (completed: by their expected number).
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

    loss: str = checked(
        "squared_hinge", help="squared_hinge, logistic, squared_error; softmax with pal."
    )
    reduction: str = checked(
        "ova", training.one_of(LOSSES, "reduction"), "ova (one-vs-all) or pal (pick-all-labels)."
    )
    correction: str | None = checked(
        "vanilla", training.optional(training.one_of([*CORRECTIONS, *OF_LOGISTIC], "correction"))
    )
    normalized: bool = checked(False, help="Divide a row's loss among its labels.")
    C: float = checked(1.0, help="Cost of the loss, as in liblinear.")
    l2: float | None = checked(
        None, training.optional(training.above_zero), "Instead of C: mean loss + l2/2 ‖w‖²."
    )
    bias: str = checked(
        "regularized", training.one_of(training.BIASES, "bias"), "regularized, free or none."
    )
    tol: float = checked(4e-4, training.above_zero, "Stop when a step promises less than this.")
    max_iter: int = checked(100, checks.positive_int, "Newton iterations per label at most.")
    prune_below: float = checked(
        0.0, training.not_negative, "Drop smaller weights; DiSMEC uses 0.01, trees use 0.1."
    )

    def __post_init__(self) -> None:
        """Refuse what is out of range or cannot be combined."""
        super().__post_init__()
        if self.l2 is None:
            training.above_zero(self.C, "C")
        checks.one_of(self.loss, LOSSES[self.reduction], f"loss for the reduction {self.reduction}")
        if self.correction in OF_LOGISTIC and self.loss != "logistic":
            raise ValueError(f"{OF_LOGISTIC[str(self.correction)]}; got {self.loss}.")
        if self.correction == LIKELIHOOD and self.normalized:
            raise ValueError(
                "the likelihood of observed labels has no normalised form; leave "
                f"{setting('normalized', of='linear.train')} out, or use "
                f"{setting('correction', 'empirical_bayes', of='linear.train')}."
            )

    def cost(self, rows: float) -> float:
        """Return C, for this many rows."""
        return self.C if self.l2 is None else 1.0 / (self.l2 * rows)


def prepare(
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    recipe: Recipe,
    propensity: PropensityLike | None,
    weights: Weights | None,
) -> Problem:
    """Check features and labels, weigh the labels, and arrange them for a solver.

    Where `weights` are handed in, the recipe of the problem has the correction None.
    """
    judged = labels if isinstance(labels, Dataset) and labels.judgements is not None else None
    x, y = training.checked_rows(features, labels.labels if isinstance(labels, Dataset) else labels)
    if weights is not None:
        weighed, recipe = replace(weights), replace(recipe, correction=None)
    elif recipe.correction == LIKELIHOOD:
        p = _likelihood_propensity(propensity, y.shape[1])
        pairs = _settled_pairs(y if judged is None else judged)
        return replace(arrange(x, pairs, recipe), propensity=p)
    else:
        weighed = weigh(y if judged is None else judged, recipe, propensity)
    checks.same_shape(weighed.pos, y, "weights", "labels")
    return arrange(x, weighed, recipe)


def _likelihood_propensity(propensity: PropensityLike | None, n_labels: int) -> Floats:
    """Return one propensity per label, for labels that are not observed as well."""
    if propensity is None:
        raise training.no_propensities(LIKELIHOOD, of="linear.train")
    if sp.issparse(propensity):
        raise ValueError(
            "the likelihood of observed labels needs one propensity per label, for the pairs that "
            "are not observed, too; got a sparse matrix, one per observed label."
        )
    refuse_for_weights(propensity, normalized=False)
    p = checks.propensity(propensity, n_labels)
    return checks.singles_propensity(p, "the likelihood of observed labels")


def _settled_pairs(labels: sp.csr_array | Dataset) -> Weights:
    """Weights of the pairs that no mask leaves open: observed or judged, the latter with pos 0.

    A judged negative has cut 0, so that it costs ℓ₋ of the logistic loss; an ignored pair has cut 1
    and costs nothing.
    """
    weights = CORRECTIONS["vanilla"](labels)
    if not isinstance(labels, Dataset):
        return weights
    negative = pairs_that_are(labels.judgements, Judgement.NEGATIVE)
    pattern = sp.csr_array(weights.pos + 2 * weights.cut + 4 * negative)
    code = pattern.data.copy()  # pos 1 and cut 1, cut 1 alone, or neither
    pos, cut = (code == 3).astype(float), (code < 4).astype(float)
    return Weights(with_values(pattern, pos), with_values(pattern, cut))


def weigh(
    labels: sp.csr_array | Dataset, recipe: Recipe, propensity: PropensityLike | None
) -> Weights:
    """Return the label weights of the recipe's correction."""
    if recipe.correction is None:
        raise ValueError(
            "no correction (None) needs the weights themselves: give them with "
            f"{setting('weights', of='linear.train')}."
        )
    if recipe.correction == LIKELIHOOD:
        raise ValueError("the likelihood of observed labels is no label weights, but a loss.")
    if recipe.correction == COMPLETED:
        raise ValueError(
            "completed weights are made of the features, too: `linear.completion` makes them, and "
            "training itself does; a plan of unbiased training says what a fifth of it takes."
        )
    if propensity is None and recipe.correction != "vanilla":
        raise training.no_propensities(recipe.correction, of="linear.train")
    correct = CORRECTIONS[recipe.correction]
    return correct(labels, propensity, normalized=recipe.normalized, reduction=recipe.reduction)


@dataclass(frozen=True)
class Problem:
    """Features and label entries as solvers need them, with the recipe of the training.

    `squares` are Σ_i x_if² of every feature, its share of the curvature; `order` names the original
    row of every row; `shape` is rows, features, labels; `cost` is C; `convex` says which labels
    have a convex problem. `row_weights` are what rows count where a label is not observed (1 if
    None): neg = weight − cut.

    `propensity` (one per label) makes it the likelihood of observed labels: entries, observed or
    judged, keep the logistic loss; every other pair has ℓ₋ = −ln(1 − p σ(z)). Such labels are
    called convex, since bending downwards is nothing that their solver would have to report. The
    objective is without the constant −ln p of observed labels.
    """

    rows: Rows
    squares: Floats
    entries: Entries
    order: NDArray[np.intp]
    shape: tuple[int, int, int]
    recipe: Recipe
    cost: float
    convex: Bools
    row_weights: Floats | None = None
    propensity: Floats | None = None

    @property
    def penalty(self) -> float:
        """The weight of the bias in ‖w‖²."""
        return 0.0 if self.recipe.bias == "free" else 1.0

    @property
    def common(self) -> Problem:
        """The problem without labels: what all blocks of labels share."""
        return self.of_labels(self.part(0, 0))

    def part(self, start: int, stop: int) -> Part:
        """Return the entries of the labels from `start` to before `stop`."""
        y = self.entries
        own = slice(y.start[start], y.start[stop])
        bounds = y.start[start : stop + 1] - y.start[start]
        entries = Entries(bounds, y.rows[own], y.pos[own], y.cut[own])
        p = None if self.propensity is None else self.propensity[start:stop]
        return Part(entries, self.convex[start:stop], p)

    def of_labels(self, part: Part) -> Problem:
        """Return the problem of a part's labels alone."""
        shape = (*self.shape[:2], len(part.convex))
        return replace(
            self,
            entries=part.entries,
            convex=part.convex,
            shape=shape,
            propensity=part.propensity,
        )

    def of_weighted_rows(self, weights: Floats) -> Problem:
        """Return the problem whose rows, in their first order, count as often as `weights` say."""
        by_row, y = weights[self.order], self.entries
        entries = y._replace(pos=y.pos * by_row[y.rows], cut=y.cut * by_row[y.rows])
        own = by_row if self.row_weights is None else by_row * self.row_weights
        cost = self.recipe.cost(weights.sum())
        return replace(self, entries=entries, row_weights=own, cost=cost)


class Part(NamedTuple):
    """The entries of consecutive labels, numbered from 0, which are convex, their propensities."""

    entries: Entries
    convex: Bools
    propensity: Floats | None = None


@dataclass(frozen=True)
class Solution:
    """Weight vectors (labels × features+1, bias last), and how each was found."""

    weights: Singles
    objective: Floats
    iterations: Ints
    status: Ints

    @classmethod
    def empty(cls, labels: int, features: int) -> Solution:
        """Zeros, for a solver to write into."""
        return cls(
            np.zeros((labels, features + 1), dtype=np.float32),
            np.zeros(labels),
            np.zeros(labels, dtype=np.int64),
            np.zeros(labels, dtype=np.int64),
        )

    @property
    def log(self) -> FitLog:
        """The course of the solution, without the weights."""
        return FitLog(self.objective, self.iterations, self.status)


@dataclass(frozen=True)
class FitLog:
    """The objective of every label, the iterations it took, and how it ended.

    `concave` and `exhausted` name labels: those whose problem has no minimum that the solver can
    vouch for, and those that ran out of iterations.
    """

    objective: Floats
    iterations: Ints
    status: Ints

    @property
    def concave(self) -> NDArray[np.intp]:
        """Positions of labels where the objective bends downwards."""
        return np.flatnonzero(self.status == CONCAVE)

    @property
    def exhausted(self) -> NDArray[np.intp]:
        """Positions of labels that did not converge in time."""
        return np.flatnonzero(self.status == EXHAUSTED)


def arrange(features: sp.csr_array, weights: Weights, recipe: Recipe) -> Problem:
    """Arrange checked features and weights for a solver.

    Rows are put in the order of their lengths: loops over neighbours of equal length are what a
    processor can predict, worth a tenth of the time.
    """
    n, d = features.shape
    order = np.argsort(np.diff(features.indptr), kind="stable")
    features = features[order]
    pos, cut = weights.pos[order].tocsc(), weights.cut[order].tocsc()
    entries = Entries(pos.indptr.astype(np.int64), pos.indices.astype(np.int32), pos.data, cut.data)
    index = np.ascontiguousarray(features.indices, dtype=np.int32).view(np.uint32)
    rows = Rows(features.indptr, index, features.data.astype(np.float32, copy=False))
    shape = (n, d, pos.shape[1])
    convex = _convex(entries, losses.get(recipe.loss), shape[2])
    if recipe.bias == "free" and recipe.loss == "logistic":
        _refuse_unbounded(entries, n, shape[2])
    cost = recipe.cost(n)
    return Problem(rows, _squares(rows, d), entries, order, shape, recipe, cost, convex)


def _squares(rows: Rows, d: int) -> Floats:
    """Σ_i x_if² of every feature, some millions of entries at a time."""
    total = np.zeros(d)
    for start in range(0, len(rows.data), SLICE):
        own = slice(start, start + SLICE)
        total += np.bincount(rows.indices[own], rows.data[own].astype(np.float64) ** 2, minlength=d)
    return total


def _convex(entries: Entries, loss: losses.Loss, n_labels: int) -> Bools:
    """Which labels have a convex problem, whatever the features are."""
    bad = ~np.asarray(loss.convex(entries.pos, entries.cut))
    label = np.repeat(np.arange(n_labels), np.diff(entries.start))
    return np.asarray(np.bincount(label[bad], minlength=n_labels) == 0)


def _refuse_unbounded(entries: Entries, n: int, n_labels: int) -> None:
    """Refuse labels whose logistic loss a free bias drives to −∞: Σ cut > n or Σ pos < 0."""
    label = np.repeat(np.arange(n_labels), np.diff(entries.start))
    pos, cut = (np.bincount(label, v, minlength=n_labels) for v in (entries.pos, entries.cut))
    bad = np.flatnonzero((cut > n) | (pos < 0))
    if bad.size:
        raise ValueError(
            f"{name_labels(bad)}: the loss has no minimum with a bias outside the penalty "
            f"(weights of label {bad[0]} sum to {cut[bad[0]]:.4g} over {n} rows); "
            f"use {setting('bias', 'regularized', of='linear.train')}, or the bound weights."
        )


def name_labels(labels: Integers) -> str:
    """`label 3`, or `labels 3, 5, 8 and 12 more`."""
    shown = ", ".join(str(j) for j in labels[:5])
    more = f" and {len(labels) - 5} more" if len(labels) > 5 else ""
    return f"label{'s' if len(labels) > 1 else ''} {shown}{more}"
