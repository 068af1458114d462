"""Squared hinge, one-vs-all: Newton's method on the few rows that each label feels.

The loss of a row is flat once its margin is on the right side, and almost every row of a rare label
is far on the negative side. So a turn costs one pass over the features for `BLOCK` labels at once
(`sweep`), and then work on the active rows of each label alone (`advance`). A label that is done
leaves its lane to the next one. Lanes do not influence each other: the result of a label does not
depend on its neighbours, their number or their order. See docs/decisions/0004.
"""

from __future__ import annotations

import numpy as np

from unmask._kernels import linear as kernels
from unmask._kernels import linear_state as room
from unmask._typing import Integers, Singles
from unmask.linear.problem import Problem, Solution

START = -1.1  # below the margin of a negative: no row is active at the start
FORCING = 0.1  # conjugate gradients stop when a step gains less than this share of all gains


def solve(problem: Problem, labels: Integers, first: Singles | None = None) -> Solution:
    """The optimum of every label in `labels`; `first` are weight vectors to start from."""
    (n, d, _), recipe = problem.shape, problem.recipe
    settings = room.Settings(
        problem.cost,
        problem.penalty,
        recipe.bias != "none",
        recipe.tol,
        FORCING,
        recipe.max_iter,
    )
    block = room.block(n, d)
    scratch = room.scratch(n, d, len(problem.rows.data))
    scale = 1.0 / (1.0 + 2.0 * problem.cost * problem.squares)
    start = 0.0 if recipe.bias == "none" else START
    solution = Solution.empty(len(labels), d)
    place = np.full(room.BLOCK, -1)
    waiting = iter(range(len(labels)))

    def begin(lane: int) -> None:
        position = next(waiting, -1)
        place[lane] = position
        label = labels[position] if position >= 0 else -1
        kernels.begin(problem.rows, problem.entries, block, scale, start, lane, label)
        if first is not None and position >= 0:
            block.direction[lane] = first[position]
            block.direction[lane, -1] -= start

    for lane in range(room.BLOCK):
        begin(lane)
    while (place >= 0).any():
        kernels.interleave(block)
        kernels.sweep(problem.rows, block)
        kernels.advance(problem.rows, problem.entries, settings, block, scratch)
        for lane in np.flatnonzero(block.status >= room.CONVERGED).tolist():
            for name in ("weights", "objective", "iterations", "status"):
                getattr(solution, name)[place[lane]] = getattr(block, name)[lane]
            begin(lane)
    return solution
