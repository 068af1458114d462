"""Models: their kinds, with one base, one way to train tasks, one folder and one tuner for all.

A kind of model is a file that has a recipe, a value with its arrays, a `Format` of its folder, and
functions that train and predict; and a row in `KINDS`. Read on in `training` (recipes, tasks,
plans), `store` (folders), `base` (the scikit-learn faces), `linear` and `tree` (the kinds), `tune`
(which training is best for a metric). Users find the kinds as `unmask.linear` and `unmask.tree`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from unmask._typing import PathLike
from unmask.models import linear, tree, tree_model, tree_search
from unmask.models.problem import Recipe
from unmask.models.store import Format, Stored
from unmask.models.training import BaseRecipe
from unmask.predictions import TopK


class Kind(NamedTuple):
    """A kind of model: a class of values with their recipe, their folder, and what makes them.

    Attributes
    ----------
    model, recipe : type
    form : Format
        Of its folder.
    train_to : function (path, features, labels, recipe, **options) -> model
    load : function (path) -> model
    predict_top : function (model, features, k, *, rank_by, propensity) -> TopK

    Examples
    --------
    >>> KINDS["tree"].recipe(n_trees=1).arity
    32
    """

    model: type[Stored]
    recipe: type[BaseRecipe]
    form: Format
    train_to: Callable[..., Any]
    load: Callable[..., Any]
    predict_top: Callable[..., TopK]


KINDS = {
    "linear": Kind(
        linear.LinearModel, Recipe, linear.FORMAT, linear.train_to, linear.load, linear.predict_top
    ),
    "tree": Kind(
        tree_model.TreeModel,
        tree.TreeRecipe,
        tree_model.FORMAT,
        tree.train_to,
        tree_model.load,
        tree_search.predict_top,
    ),
}


def load(path: PathLike) -> Any:
    """Return the model in a folder, whatever its kind.

    Parameters
    ----------
    path : path
        A folder that training made.

    Returns
    -------
    LinearModel or TreeModel

    Raises
    ------
    ValueError
        If there is no model, or it is damaged.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> model = tree.train_to(folder, np.eye(4), np.eye(4, dtype=int))
    >>> type(load(folder)).__name__
    'TreeModel'
    """
    kinds = (kind for kind in KINDS.values() if kind.form.is_in(path))
    return next(kinds, KINDS["linear"]).load(path)


__all__ = ["KINDS", "Kind", "load"]
