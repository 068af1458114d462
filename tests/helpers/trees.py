"""Scores of a label tree by walking every path: slow, plain, without the package's search."""

from __future__ import annotations

import numpy as np

from unmask.models.tree_model import Tree
from unmask.tree import TreeModel

STEPS = {
    "logistic": lambda z: -np.logaddexp(0, -z),
    "squared_hinge": lambda z: -(np.maximum(0, 1 - z) ** 2),
    "share": lambda z: np.log(np.clip((1 + z) / 2, 1e-3, 1)),
}
"""What a margin adds to a path; the share is what the margin of squared hinge stands for."""


def path_scores(tree: Tree, step: str, x: np.ndarray) -> np.ndarray:
    """Path scores (rows × labels) in float64."""
    scores = level_scores(tree, step, x)[-1]
    out = np.empty_like(scores)
    out[:, tree.shape.order] = scores
    return out


def level_scores(tree: Tree, step: str, x: np.ndarray) -> list[np.ndarray]:
    """Path scores of the children of every level's nodes; those of the last are in tree order."""
    shape = tree.shape
    dense = {
        (span.level, span.start + v): _dense(nodes, v, x.shape[1])
        for number, part in enumerate(tree.parts)
        for span, nodes in zip(shape.part(number), part, strict=True)
        for v in range(span.stop - span.start)
    }
    levels = [np.zeros((len(x), 1))]
    for level in range(shape.levels):
        parts = []
        for node in range(shape.nodes(level)):
            weights, bias = dense[level, node]
            z = x @ weights.T + bias
            parts.append(levels[-1][:, [node]] + STEPS[step](z))
        levels.append(np.concatenate(parts, axis=1))
    return levels[1:]


def _dense(nodes, v, d):  # type: ignore[no-untyped-def]
    children = nodes.child_starts[v + 1] - nodes.child_starts[v]
    weights = np.zeros((children, d))
    for slot in range(nodes.feature_starts[v], nodes.feature_starts[v + 1]):
        for e in range(nodes.entry_starts[slot], nodes.entry_starts[slot + 1]):
            weights[nodes.children[e], nodes.features[slot]] = nodes.values[e]
    return weights, nodes.bias[nodes.child_starts[v] : nodes.child_starts[v + 1]].astype(float)


def all_scores(model: TreeModel, x: np.ndarray, chances: bool = False) -> np.ndarray:
    """ln of the mean over trees of exp(path score); `chances` asks squared hinge for shares."""
    step = "share" if chances and model.loss == "squared_hinge" else model.loss
    each = [path_scores(tree, step, x) for tree in model.trees]
    return np.logaddexp.reduce(each, axis=0) - np.log(len(each))


def best(scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k best labels of every row and their scores, ties to the smaller label."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(scores, order, axis=1)
