"""Squared hinge, one-vs-all: Newton's method on the few rows that each label feels.

The loss of a row is flat once its margin is on the right side, and almost every row of a rare label
is far on the negative side. So a turn costs one pass over the features for `BLOCK` labels at once
(`sweep`), and then work on the active rows of each label alone (`advance`). A label that is done
leaves its lane to the next one. Lanes do not influence each other: the result of a label does not
depend on its neighbours, their number or their order. See docs/decisions/0004.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unmask._kernels import linear as kernels
from unmask._kernels import linear_state as room
from unmask.linear.problem import Problem, Solution

START = -1.1  # below the margin of a negative: no row is active at the start
FORCING = 0.1  # conjugate gradients stop when a step gains less than this share of all gains


def solve(
    given: Problem, labels: NDArray[np.integer], first: NDArray[np.float32] | None = None
) -> Solution:
    """The optimum of every label in `labels`; `first` are weight vectors to start from."""
    n, d, _ = given.shape
    settings = room.Settings(
        given.cost, given.penalty, given.bias != "none", given.tol, FORCING, given.max_iter
    )
    block = room.block(n, d)
    scratch = room.scratch(n, d, len(given.rows.data))
    scale = 1.0 / (1.0 + 2.0 * given.cost * given.squares)
    start = 0.0 if given.bias == "none" else START
    solution = Solution(
        np.zeros((len(labels), d + 1), dtype=np.float32),
        np.zeros(len(labels)),
        np.zeros(len(labels), dtype=np.int64),
        np.zeros(len(labels), dtype=np.int64),
    )
    place = np.full(room.BLOCK, -1)
    waiting = iter(range(len(labels)))

    def begin(lane: int) -> None:
        at = next(waiting, -1)
        place[lane] = at
        label = labels[at] if at >= 0 else -1
        kernels.begin(given.rows, given.entries, block, scale, start, lane, label)
        if first is not None and at >= 0:
            block.direction[lane] = first[at]
            block.direction[lane, -1] -= start

    for lane in range(room.BLOCK):
        begin(lane)
    while (place >= 0).any():
        kernels.interleave(block)
        kernels.sweep(given.rows, block)
        kernels.advance(given.rows, given.entries, settings, block, scratch)
        for lane in np.flatnonzero(block.status >= room.CONVERGED).tolist():
            at = place[lane]
            solution.weights[at] = block.weights[lane]
            solution.objective[at] = block.objective[lane]
            solution.iterations[at] = block.iterations[lane]
            solution.status[at] = block.status[lane]
            begin(lane)
    return solution
