"""One-vs-all training: a solver per loss, and what is said of labels that went wrong.

No label influences another, so neither the blocks in which labels are solved nor their order change
a result.

*Squared hinge*: Newton's method on the few rows that matter to a label. The loss of a row is flat
once its margin is on the right side, and almost every row of a rare label is far on the negative
side. So an iteration costs one pass over the features for `BLOCK` labels at once (`sweep`), and
then work on the active rows of each label alone (`advance`). A label that is finished leaves its
lane to the next one; the result of a label does not depend on its neighbours, their number or their
order. See docs/decisions/0004.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unmask._kernels import linear as kernels
from unmask._kernels import linear_state as state
from unmask._messages import setting, warn
from unmask._typing import Integers, Singles
from unmask.linear import smooth
from unmask.linear.problem import (
    FitLog,
    NonConvexWarning,
    Problem,
    Solution,
    UnconvergedWarning,
    name_labels,
    unconverged,
)

START = -1.1  # below the margin of a negative: no row is active at the start
FORCING = 0.1  # conjugate gradients stop when a step gains less than this share of all gains


def solve(problem: Problem, first: Singles | None = None) -> Solution:
    """The optimum of every label, starting from `first` (labels × features+1) if there is one."""
    return SOLVERS[problem.recipe.loss](problem, np.arange(problem.shape[2]), first)


def report(problem: Problem, labels: Integers, log: FitLog) -> None:
    """Refuse what is no minimum; warn of what may not be the minimum."""
    loss, concave = problem.recipe.loss, labels[log.concave]
    if concave.size:
        raise ValueError(
            f"{loss} has no minimum for {name_labels(concave)}: with these weights (some cut "
            "above 1 or pos below 0) the objective bends downwards. Use "
            f"{setting('loss', 'logistic', of='linear.train')}, whose problem is convex, or "
            f"{setting('correction', 'bound', of='linear.train')}."
        )
    doubtful = labels[~problem.convex[labels]]
    if doubtful.size:
        warn(
            f"{loss} is not convex for {name_labels(doubtful)} with these weights; the "
            f"result is a local minimum. Use {setting('loss', 'logistic', of='linear.train')} or "
            f"{setting('correction', 'bound', of='linear.train')}.",
            NonConvexWarning,
        )
    late = labels[log.exhausted]
    if late.size:
        warn(
            unconverged(name_labels(late), problem.recipe.max_iter),
            UnconvergedWarning,
        )


def solve_hinge(problem: Problem, labels: Integers, first: Singles | None = None) -> Solution:
    """The optimum of every label in `labels`; `first` are weight vectors to start from."""
    (n, d, _), recipe = problem.shape, problem.recipe
    settings = state.Settings(
        problem.cost,
        problem.penalty,
        recipe.bias != "none",
        recipe.tol,
        FORCING,
        recipe.max_iter,
    )
    block = state.block(n, d)
    scratch = state.scratch(n, d, len(problem.rows.data), problem.row_weights)
    scale = 1.0 / (1.0 + 2.0 * problem.cost * problem.squares)
    start = 0.0 if recipe.bias == "none" else START
    solution = Solution.empty(len(labels), d)
    place = np.full(state.BLOCK, -1)
    waiting = iter(range(len(labels)))

    def begin(lane: int) -> None:
        position = next(waiting, -1)
        place[lane] = position
        label = labels[position] if position >= 0 else -1
        kernels.begin(problem.rows, problem.entries, block, scale, start, lane, label)
        if first is not None and position >= 0:
            block.direction[lane] = first[position]
            block.direction[lane, -1] -= start

    for lane in range(state.BLOCK):
        begin(lane)
    while (place >= 0).any():
        kernels.interleave(block)
        kernels.sweep(problem.rows, block)
        kernels.advance(problem.rows, problem.entries, settings, block, scratch)
        for lane in np.flatnonzero(block.status >= state.CONVERGED).tolist():
            for name in ("weights", "objective", "iterations", "status"):
                getattr(solution, name)[place[lane]] = getattr(block, name)[lane]
            begin(lane)
    return solution


SOLVERS: dict[str, Callable[..., Solution]] = {
    "squared_hinge": solve_hinge,
    "logistic": smooth.solve,
    "squared_error": smooth.solve,
}
