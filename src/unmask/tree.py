"""Label trees: very many labels, trained and predicted along the paths of balanced trees.

`LabelTree` is the scikit-learn face; `train` and `train_to` are the functions behind it, `plan`
says what they will need; `predict_top` is what a `TreeModel` predicts, `save` and `load`
are for its folder on disk. The source stands in `unmask.models`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.models.tree import TreeRecipe, plan, predict_unseen, train, train_to
from unmask.models.tree_model import TreeModel, load, save
from unmask.models.tree_search import predict_top

if TYPE_CHECKING:
    from unmask.models.base import LabelTree

__all__ = [
    "LabelTree",
    "TreeModel",
    "TreeRecipe",
    "load",
    "plan",
    "predict_top",
    "predict_unseen",
    "save",
    "train",
    "train_to",
]


def __getattr__(name: str) -> object:
    """Return `LabelTree`, imported when first used, as it brings scikit-learn with it."""
    if name == "LabelTree":
        from unmask.models import base

        return base.LabelTree
    raise AttributeError(f"module 'unmask.tree' has no attribute {name!r}")
