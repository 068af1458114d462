"""Linear models: training by truncated Newton, prediction without score matrices, files.

`LinearClassifier` is the scikit-learn face; `train` and `train_to` are the functions behind it,
`plan` says what they will need; `predict_top`, `scores` and `probabilities` are what a
`LinearModel` predicts, `save` and `load` its folder on disk; `completion` makes soft targets for
missing labels. The source stands in `unmask.models`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.models.completed import completion
from unmask.models.linear import (
    LinearModel,
    load,
    plan,
    predict_top,
    probabilities,
    save,
    scores,
    text_features,
    train,
    train_to,
)
from unmask.models.problem import Recipe
from unmask.models.training import NonConvexWarning, UnconvergedWarning

if TYPE_CHECKING:
    from unmask.models.base import LinearClassifier

__all__ = [
    "LinearClassifier",
    "LinearModel",
    "NonConvexWarning",
    "Recipe",
    "UnconvergedWarning",
    "completion",
    "load",
    "plan",
    "predict_top",
    "probabilities",
    "save",
    "scores",
    "text_features",
    "train",
    "train_to",
]


def __getattr__(name: str) -> object:
    """Return `LinearClassifier`, imported when first used, as it brings scikit-learn with it."""
    if name == "LinearClassifier":
        from unmask.models import base

        return base.LinearClassifier
    raise AttributeError(f"module 'unmask.linear' has no attribute {name!r}")
