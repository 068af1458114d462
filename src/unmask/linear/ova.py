"""One-vs-all training: labels in chunks, chunks on threads, a solver per loss.

Chunks depend on the number of labels alone, and no label influences another, so neither threads nor
chunks change a result. A chunk is also the unit of progress and of what an interruption can lose.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from unmask import _checks
from unmask._kernels import in_chunks
from unmask.linear import hinge, smooth
from unmask.linear.problem import (
    NonConvexWarning,
    Problem,
    Solution,
    UnconvergedWarning,
    name_labels,
)

CHUNK = 512


def solve(
    given: Problem,
    labels: NDArray[np.integer] | None = None,
    *,
    first: NDArray[np.float32] | None = None,
    done: Callable[[int], None] | None = None,
) -> Solution:
    """The optimum of every label, or of those named; `done(count)` is told of finished labels.

    `first` are weight vectors (labels × features+1) to start from.
    """
    chosen = np.arange(given.shape[2]) if labels is None else np.asarray(labels)
    solver = SOLVERS[_checks.one_of(given.loss, SOLVERS, "loss for one-vs-all training")]

    def work(start: int, stop: int) -> Solution:
        part = solver(given, chosen[start:stop], None if first is None else first[start:stop])
        if done is not None:
            done(stop - start)
        return part

    parts = in_chunks(_bounds(len(chosen)), work)
    solution = Solution(
        np.concatenate(
            [np.empty((0, given.shape[1] + 1), np.float32), *(p.weights for p in parts)]
        ),
        *(
            np.concatenate([np.empty(0, dtype), *(getattr(p, name) for p in parts)])
            for name, dtype in (("objective", float), ("turns", np.int64), ("status", np.int64))
        ),
    )
    _report(given, chosen, solution)
    return solution


def _bounds(count: int) -> NDArray[np.int64]:
    """At least four chunks where there is work for them, and at most `CHUNK` labels in each."""
    chunks = max(-(-count // CHUNK), min(4, -(-count // 64)))
    return np.linspace(0, count, chunks + 1).astype(np.int64)


def _report(given: Problem, labels: NDArray[np.integer], solution: Solution) -> None:
    """Refuse what is no minimum; warn of what may not be the minimum."""
    concave = labels[solution.concave]
    if concave.size:
        raise ValueError(
            f"{given.loss} has no minimum for {name_labels(concave)}: with these weights (some cut "
            "above 1 or pos below 0) the objective bends downwards. Use loss='logistic', whose "
            "problem is convex, or correction='bound'."
        )
    doubtful = labels[~given.convex[labels]]
    if doubtful.size:
        warnings.warn(
            f"{given.loss} is not convex for {name_labels(doubtful)} with these weights; the "
            "result is a local minimum. Use loss='logistic' or correction='bound'.",
            NonConvexWarning,
            stacklevel=4,
        )
    late = labels[solution.exhausted]
    if late.size:
        warnings.warn(
            f"{name_labels(late)} did not converge in {given.max_iter} iterations; raise max_iter "
            "or tol, or scale the features to unit rows.",
            UnconvergedWarning,
            stacklevel=4,
        )


SOLVERS: dict[str, Callable[..., Solution]] = {
    "squared_hinge": hinge.solve,
    "logistic": smooth.solve,
    "squared_error": smooth.solve,
}
