"""Training of a part of a tree: its nodes one by one, packed level by level.

A node's problem is that of one-vs-all for its children, on the rows with a label below the node
(all rows, for the root) and the features of these rows. Squared hinge has a solver of its own;
`unmask.linear` has those of the logistic loss and of fine tolerances.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unmask._kernels import linear_state as state
from unmask._kernels import tree_nodes as kernels
from unmask._kernels.linear_state import EXHAUSTED, Entries, Rows
from unmask._typing import Floats, Indices, Ints, Singles
from unmask.linear import smooth
from unmask.linear.ova import START
from unmask.linear.problem import Problem, Recipe, Solution
from unmask.tree.recipe import TrainingRows, TreeRecipe
from unmask.tree.shape import Shape, read_only, unchangeable


class Nodes(NamedTuple):
    """Consecutive nodes of a level, as prediction needs them: weights by node, feature and child.

    Attributes
    ----------
    feature_starts : (nodes + 1,) int64
        Where in `features` those of every node begin.
    features : int32
        Features of the nodes.
    entry_starts : (features + 1,) int64
        Where in `children` and `values` every feature begins.
    children : uint16
        Of the node, counted from 0.
    values : float32
    child_starts : (nodes + 1,) int64
        Where in `bias` the children of every node begin.
    bias : (children,) float32

    Examples
    --------
    >>> from unmask import tree
    >>> model = tree.train(np.eye(4), np.eye(4, dtype=int), tree.TreeRecipe(n_trees=1))
    >>> model.trees[0].parts[0][0].bias.shape
    (4,)
    """

    feature_starts: Ints
    features: Indices
    entry_starts: Ints
    children: NDArray[np.uint16]
    values: Singles
    child_starts: Ints
    bias: Singles

    @property
    def read_only(self) -> Nodes:
        """The same for kernels, which are compiled for arrays that are only read."""
        return Nodes(*(read_only(array) for array in self._asdict().values()))


FINE = 0.01
"""Tolerances below this are for Newton's method in float64."""
SHARE = 0.025
"""Conjugate gradients stop when further steps promise less than this part of the tolerance.

Less exact nodes lose precision on finna (docs/decisions/0013).
"""

Part: TypeAlias = tuple[Nodes, ...]
"""The levels of a part of a tree."""


class TrainedPart(NamedTuple):
    """A part that is trained, how many children ran out of iterations, and the most of them."""

    levels: Part
    exhausted: int
    iterations: int


class _Packed(NamedTuple):
    """One node."""

    features: Indices
    starts: Ints
    children: NDArray[np.uint16]
    values: Singles
    bias: Singles
    exhausted: int
    iterations: int


def train_part(data: TrainingRows, shape: Shape, number: int, recipe: TreeRecipe) -> TrainedPart:
    """All nodes of a part."""
    places = np.full(data.n, -1, np.int32), np.full(data.n_features, -1, np.int32)
    levels, exhausted, iterations = [], 0, 0
    for span in shape.part(number):
        packed = [
            _train_node(data, shape, span.level, node, recipe, *places)
            for node in range(span.start, span.stop)
        ]
        levels.append(_level(packed))
        exhausted += sum(node.exhausted for node in packed)
        iterations = max(iterations, *(node.iterations for node in packed))
    return TrainedPart(tuple(levels), exhausted, iterations)


def _level(nodes: list[_Packed]) -> Nodes:
    """Nodes side by side."""

    def starts(sizes: Iterator[int]) -> Ints:
        return np.cumsum([0, *sizes], dtype=np.int64)

    entries = starts(len(node.values) for node in nodes)
    joined = Nodes(
        starts(len(node.features) for node in nodes),
        np.concatenate([node.features for node in nodes]),
        np.concatenate(
            [*(node.starts[:-1] + base for node, base in zip(nodes, entries, strict=False)),
             entries[-1:]]
        ),
        np.concatenate([node.children for node in nodes]),
        np.concatenate([node.values for node in nodes]),
        starts(len(node.bias) for node in nodes),
        np.concatenate([node.bias for node in nodes]),
    )  # fmt: skip
    return Nodes(*(unchangeable(array) for array in joined._asdict().values()))


def _train_node(
    data: TrainingRows,
    shape: Shape,
    level: int,
    node: int,
    recipe: TreeRecipe,
    row_place: Indices,
    feature_place: Indices,
) -> _Packed:
    bounds = shape.child_bounds(level, node)
    below = (
        data.starts, data.rows, data.weight, shape.order[bounds[0] : bounds[-1]],
        bounds - bounds[0], level == 0, recipe.counting,
    )  # fmt: skip
    prune_below = np.float32(recipe.prune_below)
    if recipe.settled_loss == "squared_hinge" and recipe.stop >= FINE:
        settings = _settings(recipe, recipe.stop * SHARE)
        return _Packed(
            *kernels.train_hinge(
                data.x, *below, settings, _start(recipe.bias), prune_below, row_place, feature_place
            )
        )
    rows, counts, *entries = kernels.entries(*below, row_place)
    *x, names, squares = kernels.gather(data.x, rows, feature_place)
    starts, of_row, amount = entries
    problem = Problem(
        rows=Rows(*x),
        squares=squares,
        entries=Entries(starts, of_row, amount, amount),
        order=rows,
        shape=(len(rows), len(names), len(bounds) - 1),
        recipe=Recipe(
            recipe.settled_loss,
            C=recipe.C,
            bias=recipe.bias,
            tol=recipe.stop,
            max_iter=recipe.max_iter,
        ),
        cost=recipe.C,
        convex=np.ones(len(bounds) - 1, dtype=np.bool_),
        row_weights=counts if recipe.counting else None,
    )
    solution = _solve(problem, recipe.forcing)
    features, starts, child, value = kernels.pack(
        kernels.blocks(solution.weights), names, prune_below
    )
    bias = np.ascontiguousarray(solution.weights[:, -1])
    exhausted = int((solution.status == EXHAUSTED).sum())
    iterations = max(1, int(solution.iterations.max(initial=1)))
    return _Packed(features, starts, child, value, bias, exhausted, iterations)


def _solve(problem: Problem, forcing: float) -> Solution:
    """The optimum of every child; without rows that is 0."""
    n, d, children = problem.shape
    if n == 0:
        return Solution.empty(children, d)
    if problem.recipe.loss == "logistic":
        return smooth.solve(problem, np.arange(children))
    return _solve_hinge(problem, forcing)


def _solve_hinge(problem: Problem, forcing: float) -> Solution:
    (n, d, children), recipe = problem.shape, problem.recipe
    settings = state.Settings(
        problem.cost, problem.penalty, recipe.bias != "none", recipe.tol, forcing, recipe.max_iter
    )
    solution = Solution.empty(children, d)
    scale: Floats = 1.0 / (1.0 + 2.0 * problem.cost * problem.squares)
    kernels.solve(
        problem.rows,
        problem.entries,
        settings,
        scale,
        _start(recipe.bias),
        state.block(n, d),
        state.scratch(n, d, len(problem.rows.data), problem.row_weights),
        solution.weights,
        solution.objective,
        solution.iterations,
        solution.status,
    )
    return solution


def _settings(recipe: TreeRecipe, tol: float) -> state.Settings:
    penalty = 1.0 if recipe.bias == "regularized" else 0.0
    return state.Settings(
        recipe.C, penalty, recipe.bias != "none", tol, recipe.forcing, recipe.max_iter
    )


def _start(bias: str) -> float:
    """The bias to start from: below the margin of a negative, so that no row is active."""
    return 0.0 if bias == "none" else START
