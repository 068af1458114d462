"""Linear models: training by truncated Newton, prediction without score matrices, files.

`LinearClassifier` is the scikit-learn face; `train` and `train_to` are the functions behind it,
`plan` says what they will need; `predict_top`, `scores` and `probabilities` are what a
`LinearModel` predicts, `save` and `load` its folder on disk, `read_dismec`
and `read_dismecpp` other people's models. Read on in `problem` (what is minimised), `ova` and
`smooth` (one-vs-all solvers), `softmax` (pick-all-labels), `blocks` (training as tasks),
`completed` (soft targets for missing labels).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from unmask.linear.completed import Completion, completion
from unmask.linear.dismec import read_dismec, read_dismecpp
from unmask.linear.files import load, save
from unmask.linear.model import LinearModel, Shard, probabilities, scores, text_features
from unmask.linear.planning import Plan, plan
from unmask.linear.prediction import predict_top
from unmask.linear.problem import NonConvexWarning, Recipe, UnconvergedWarning
from unmask.linear.training import train, train_to

if TYPE_CHECKING:
    from unmask.linear.estimator import LinearClassifier

__all__ = [
    "Completion",
    "LinearClassifier",
    "LinearModel",
    "NonConvexWarning",
    "Plan",
    "Recipe",
    "Shard",
    "UnconvergedWarning",
    "completion",
    "load",
    "plan",
    "predict_top",
    "probabilities",
    "read_dismec",
    "read_dismecpp",
    "save",
    "scores",
    "text_features",
    "train",
    "train_to",
]


def __getattr__(name: str) -> object:
    """`LinearClassifier` brings scikit-learn with it, so it is imported when first used."""
    if name == "LinearClassifier":
        return import_module("unmask.linear.estimator").LinearClassifier
    raise AttributeError(f"module 'unmask.linear' has no attribute {name!r}")
