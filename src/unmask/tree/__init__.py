"""Label trees: very many labels, trained and predicted along the paths of balanced trees.

`LabelTree` is the scikit-learn face; `train` and `train_to` are the functions behind it, `plan`
says what they will need; `predict_top` is what a `TreeModel` predicts, `save`, `load` and `prune`
are for its folder on disk. Read on in `shape` (nodes are ranges of one order of labels),
`clustering` (that order), `nodes` (training a node), `prediction` (beam search).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from unmask.tree.files import load, prune, save
from unmask.tree.model import Tree, TreeModel
from unmask.tree.nodes import Nodes
from unmask.tree.planning import TreePlan, plan
from unmask.tree.prediction import predict_top
from unmask.tree.recipe import TreeRecipe
from unmask.tree.shape import Shape
from unmask.tree.training import train, train_to
from unmask.tree.unseen import predict_unseen

if TYPE_CHECKING:
    from unmask.tree.estimator import LabelTree

__all__ = [
    "LabelTree",
    "Nodes",
    "Shape",
    "Tree",
    "TreeModel",
    "TreePlan",
    "TreeRecipe",
    "load",
    "plan",
    "predict_top",
    "predict_unseen",
    "prune",
    "save",
    "train",
    "train_to",
]


def __getattr__(name: str) -> object:
    """`LabelTree` brings scikit-learn with it, so it is imported when first used."""
    if name == "LabelTree":
        return import_module("unmask.tree.estimator").LabelTree
    raise AttributeError(f"module 'unmask.tree' has no attribute {name!r}")
