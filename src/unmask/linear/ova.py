"""One-vs-all training: a solver per loss, and what is said of labels that went wrong.

No label influences another, so neither the blocks in which labels are solved nor their order change
a result.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from unmask._typing import Integers, Singles
from unmask.linear import hinge, smooth
from unmask.linear.problem import (
    FitLog,
    NonConvexWarning,
    Problem,
    Solution,
    UnconvergedWarning,
    name_labels,
)


def solve(problem: Problem, first: Singles | None = None) -> Solution:
    """The optimum of every label, starting from `first` (labels × features+1) if there is one."""
    return SOLVERS[problem.recipe.loss](problem, np.arange(problem.shape[2]), first)


def report(problem: Problem, labels: Integers, log: FitLog) -> None:
    """Refuse what is no minimum; warn of what may not be the minimum."""
    loss, concave = problem.recipe.loss, labels[log.concave]
    if concave.size:
        raise ValueError(
            f"{loss} has no minimum for {name_labels(concave)}: with these weights (some cut "
            "above 1 or pos below 0) the objective bends downwards. Use loss='logistic', whose "
            "problem is convex, or correction='bound'."
        )
    doubtful = labels[~problem.convex[labels]]
    if doubtful.size:
        warnings.warn(
            f"{loss} is not convex for {name_labels(doubtful)} with these weights; the "
            "result is a local minimum. Use loss='logistic' or correction='bound'.",
            NonConvexWarning,
            stacklevel=4,
        )
    late = labels[log.exhausted]
    if late.size:
        warnings.warn(
            f"{name_labels(late)} did not converge in {problem.recipe.max_iter} iterations; raise "
            "max_iter or tol, or scale the features to unit rows.",
            UnconvergedWarning,
            stacklevel=4,
        )


SOLVERS: dict[str, Callable[..., Solution]] = {
    "squared_hinge": hinge.solve,
    "logistic": smooth.solve,
    "squared_error": smooth.solve,
}
