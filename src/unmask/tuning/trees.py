"""The training of label trees, chosen for a metric on rows that were held out.

Every candidate is one tree, whatever the number of trees in the end, trained on four fifths of the
rows and judged on the rest as `judging` says. Losses, corrections and C are tried in all
combinations; a tree without correction is also ranked by probability / propensity.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unmask import _validation, tree
from unmask._typing import BackendLike, FeaturesLike, Floats, LabelsLike, Progress, PropensityLike
from unmask.data import Dataset
from unmask.models.training import counter
from unmask.models.tree import LOSSES
from unmask.predictions import TopK
from unmask.tree import TreeModel, TreeRecipe
from unmask.tuning.judging import judge_of

COSTS = (0.3, 1.0, 3.0)
HELD_OUT = 5
"""One row in so many is held out."""
SCORE, RATIO = "score", "probability/propensity"


@dataclass(frozen=True)
class TriedTree:
    """A training of trees that was tried.

    Parameters
    ----------
    recipe : TreeRecipe
        With the trees of the final model.
    rank_by : str
        How its labels were ranked.
    value : float
        The estimate of the metric, larger being better; NaN where there is none.

    Examples
    --------
    >>> TriedTree(TreeRecipe(C=3.0), "score", 0.5).value
    0.5
    """

    recipe: TreeRecipe
    rank_by: str
    value: float


@dataclass(frozen=True, eq=False)
class TunedTree:
    """The chosen training of trees, its model, and everything that was tried.

    Parameters
    ----------
    recipe : TreeRecipe
        The chosen training.
    rank_by : str
        How the model's labels are to be ranked.
    propensity : (L,) floats or None
        The propensities.
    model : TreeModel or None
        Trained on all rows; None without `refit`.
    metric, estimator : str
        What the candidates were judged by.
    table : tuple of TriedTree
        All candidates.

    Examples
    --------
    >>> recipe = TreeRecipe()
    >>> tried = TriedTree(recipe, "score", 0.5)
    >>> TunedTree(recipe, "score", None, None, "R@5", "vanilla", (tried,)).reason
    'of 1 trainings of a tree, best by R@5 (vanilla) on held-out rows: 0.5000'
    """

    recipe: TreeRecipe
    rank_by: str
    propensity: Floats | None
    model: TreeModel | None
    metric: str
    estimator: str
    table: tuple[TriedTree, ...]

    @property
    def reason(self) -> str:
        """Why this training was chosen, in a phrase."""
        best = max(_worth(each) for each in self.table)
        return (
            f"of {len(self.table)} trainings of a tree, best by {self.metric} ({self.estimator}) "
            f"on held-out rows: {best:.4f}"
        )

    def predict_top(self, features: FeaturesLike, k: int) -> TopK:
        """The best labels of rows, ranked as was chosen.

        Parameters
        ----------
        features : (n, d) matrix
            Dense or sparse.
        k : int
            Labels per row.

        Returns
        -------
        TopK

        Raises
        ------
        ValueError
            If there is no model, or features do not fit it.
        """
        if self.model is None:
            raise ValueError("only the recipe was asked for, no model; train one with it.")
        return tree.predict_top(
            self.model, features, k, rank_by=self.rank_by, propensity=self.propensity
        )


def tune_tree(
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | None = None,
    metric: str = "R@5",
    *,
    losses: Sequence[str] = LOSSES,
    costs: Sequence[float] = COSTS,
    recipe: TreeRecipe | None = None,
    refit: bool = True,
    seed: int = 0,
    progress: Progress | None = None,
    backend: BackendLike = None,
) -> TunedTree:
    """Choose loss, correction, ranking and C of label trees for a metric on true labels.

    Candidates are trained on four fifths of the rows and judged on the others by an estimate of the
    *true* metric: `deconvolved` for recall and the like, `unbiased` for linear metrics, `vanilla`
    without propensities.

    Parameters
    ----------
    features : (n, d) matrix
        Dense or sparse.
    labels : (n, L) matrix of 0 and 1, or Dataset
        Observed labels.
    propensity : (L,) numbers in (0, 1] or PropensityEstimate, optional
        Without it only trees without correction are tried, for which loss and C are chosen.
    metric : str, default "R@5"
        A metric of the first k labels, such as "R@5", "P@3" or "nDCG@5".
    losses : sequence of str, default ("squared_hinge", "logistic")
        What is tried.
    costs : sequence of float, default (0.3, 1.0, 3.0)
        Values of C.
    recipe : TreeRecipe, optional
        What is not chosen: trees, arity, leaf and so on.
    refit : bool, default True
        Whether to train the chosen recipe on all rows.
    seed : int, default 0
        Of the rows that are held out.
    progress : function (done, total), optional
        Called as candidates are finished.
    backend : optional
        Where trees are trained (`unmask.parallel`), which does not change the choice.

    Returns
    -------
    TunedTree
        `recipe`, `rank_by`, `model`, `table`, `reason`, and `predict_top`.

    Raises
    ------
    ValueError
        As `tree.train`; if there are fewer than 5 rows, nothing to try, or the metric cannot be
        estimated from the best labels.

    Examples
    --------
    >>> from unmask import data
    >>> rows = data.synthetic.planted(200, n_features=60, n_labels=30, seed=0)
    >>> best = tune_tree(rows.features, rows.labels, metric="P@3", costs=[0.3, 3.0])
    >>> best.estimator, len(best.table), best.model.n_labels
    ('vanilla', 4, 30)
    """
    x = _validation.columns(features)
    y = _validation.labels(labels.labels if isinstance(labels, Dataset) else labels)
    _validation.same_rows(x, y, "features", "labels")
    if x.shape[0] < HELD_OUT:
        raise ValueError(f"tuning needs at least {HELD_OUT} rows; got {x.shape[0]}.")
    if not losses or not len(costs):
        raise ValueError("there is nothing to try; name at least one loss and one of costs.")
    base = recipe or TreeRecipe()
    p = None if propensity is None else _validation.propensity(propensity, y.shape[1])
    judge = judge_of(metric, propensity, None)
    corrections = ("vanilla",) if p is None else ("vanilla", "counts")
    order = np.random.default_rng(seed).permutation(x.shape[0])
    held, kept = np.split(order, [x.shape[0] // HELD_OUT])
    note = counter(progress, len(losses) * len(corrections) * len(costs))
    table = []
    for loss, correction, cost in itertools.product(losses, corrections, costs):
        candidate = replace(base, loss=loss, correction=correction, C=float(cost))
        model = tree.train(
            x[kept], y[kept], replace(candidate, n_trees=1), propensity=p, backend=backend
        )
        rankings = (SCORE,) if p is None or candidate.counting else (SCORE, RATIO)
        for rank_by in rankings:
            top = tree.predict_top(model, x[held], judge.places, rank_by=rank_by, propensity=p)
            table.append(TriedTree(candidate, rank_by, judge.value(top, y[held])))
        note(1)
    best = max(table, key=_worth)
    return TunedTree(
        recipe=best.recipe,
        rank_by=best.rank_by,
        propensity=p,
        model=tree.train(x, labels, best.recipe, propensity=p, backend=backend) if refit else None,
        metric=metric,
        estimator=judge.estimator,
        table=tuple(table),
    )


def _worth(tried: TriedTree) -> float:
    return -math.inf if math.isnan(tried.value) else tried.value
