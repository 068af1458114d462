"""Predictions for training rows by trees that have not seen them."""

from __future__ import annotations

from typing import Any

import numpy as np

from unmask._messages import named_options
from unmask._typing import FeaturesLike, LabelsLike, PropensityLike
from unmask.arrays import TopK, checks
from unmask.tree.model import TreeModel
from unmask.tree.prediction import predict_top
from unmask.tree.recipe import TreeRecipe
from unmask.tree.training import train


@named_options
def predict_unseen(
    model: TreeModel,
    features: FeaturesLike,
    labels: LabelsLike,
    k: int,
    *,
    propensity: PropensityLike | None = None,
    seed: int = 0,
) -> TopK:
    """The k best labels of training rows, each by a tree that was trained on the other half.

    A tree knows the labels of the rows that it was trained on, so that it cannot say which of them
    are missing there. Both halves are trained with the recipe of the model.

    Parameters
    ----------
    model : TreeModel
        Says the recipe.
    features : (n, d) matrix
        Dense or sparse.
    labels : (n, L) matrix of 0 and 1
        Observed labels.
    k : int
        Labels per row.
    propensity : (L,) numbers in (0, 1], optional
        Needed by trees of counts.
    seed : int, default 0
        Of the division into halves.

    Returns
    -------
    TopK
        As of `predict_top`.

    Raises
    ------
    ValueError
        As `train` and `predict_top`; and if there are fewer than two rows.

    Examples
    --------
    >>> from unmask import tree
    >>> features, labels = np.tile(np.eye(4), (4, 1)), np.tile(np.eye(4, dtype=int), (4, 1))
    >>> model = tree.train(features, labels)
    >>> predict_unseen(model, features, labels, 1).labels[:4].ravel()
    array([0, 1, 2, 3], dtype=int32)
    """
    x, y = checks.columns(features), checks.labels(labels)
    checks.same_rows(x, y, "features", "labels")
    n = x.shape[0]
    if n < 2:
        raise ValueError(f"predicting rows from others needs at least two rows; got {n}.")
    settings: dict[str, Any] = dict(model.parameters)
    recipe = TreeRecipe(**settings)
    best = np.full((n, k), -1, dtype=np.int32)
    scores = np.full((n, k), -np.inf, dtype=np.float32)
    order = np.random.default_rng(seed).permutation(n)
    halves = np.array_split(order, 2)
    for own, other in (halves, halves[::-1]):
        fitted = train(x[np.sort(other)], y[np.sort(other)], recipe, propensity=propensity)
        top = predict_top(fitted, x[own], k)
        best[own], scores[own] = top.labels, top.scores
    return TopK(best, scores, names=model.label_names)
