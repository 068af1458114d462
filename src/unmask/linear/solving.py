"""A problem solved in memory: blocks of labels as tasks, here or on a cluster, joined again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict

import numpy as np

from unmask import parallel
from unmask._typing import BackendLike, Integers, Progress, Singles
from unmask.linear import ova, softmax
from unmask.linear.blocks import Common, Trained, block_labels, blocks, joined, train_block
from unmask.linear.model import LinearModel, Shard, checked
from unmask.linear.planning import refuse_small
from unmask.linear.problem import FitLog, Problem


def solve(
    problem: Problem,
    *,
    first: LinearModel | None = None,
    progress: Progress | None = None,
    backend: BackendLike = None,
) -> tuple[LinearModel, FitLog]:
    """The model of a problem, from `first` if there is one; see `train`."""
    size = block_labels(problem)
    tasks = blocks(problem, size, start=_start(first, problem))
    note = counter(progress, problem.shape[2])
    solved: list[Trained] = []
    shared = Common(problem.common, problem.recipe.prune_below)
    with parallel.connect(backend) as runner:
        if backend is not None:
            refuse_small(problem, size, runner.resources())
        with closing(runner.run(train_block, tasks, shared)) as parts:
            for _, part in parts:
                solved.append(part)
                note(len(part.log.status))
    solved.sort(key=lambda part: part.start)
    log = joined([part.log for part in solved])
    report(problem, np.arange(problem.shape[2]), log)
    model = LinearModel(tuple(part.shard for part in solved if part.shard), problem.recipe.loss, {})
    joined_shard = Shard(model.weights, model.bias)
    return LinearModel((joined_shard,), problem.recipe.loss, asdict(problem.recipe)), log


def report(problem: Problem, labels: Integers, log: FitLog) -> None:
    """Warn of labels that did not converge, raise where there is no minimum."""
    if problem.recipe.loss == "softmax":
        softmax.report(problem, log)
    else:
        ova.report(problem, labels, log)


def counter(progress: Progress | None, total: int) -> Callable[[int], None]:
    """Turn "so many more are finished" into progress(done, total)."""
    trained = 0

    def note(count: int) -> None:
        nonlocal trained
        trained += count
        if progress is not None and count:
            progress(trained, total)

    return note


def _start(first: LinearModel | None, problem: Problem) -> Singles | None:
    """Weight vectors (labels × features+1) of the model to start from."""
    if first is None:
        return None
    first = checked(first)
    _, d, n_labels = problem.shape
    if (first.n_labels, first.n_features) != (n_labels, d):
        raise ValueError(
            f"the model to start from has {first.n_labels} labels and {first.n_features} features; "
            f"the data have {n_labels} and {d}."
        )
    w = first.weights
    dense = w if isinstance(w, np.ndarray) else w.toarray()
    return np.asarray(np.c_[dense, first.bias], dtype=np.float32)
