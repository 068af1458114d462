"""Training as tasks: blocks of consecutive labels, each solved by itself, anywhere.

A task carries the entries of its labels; the features are shared with every worker once (`Common`).
What comes back is a shard of the model, or the manifest's entry of a shard that the worker wrote.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unmask._kernels.linear_state import BLOCK as LANES
from unmask._typing import Singles
from unmask.arrays import checks
from unmask.linear import files, ova, softmax
from unmask.linear.model import Shard, shard
from unmask.linear.problem import FitLog, Part, Problem

BLOCK_BYTES = 1 << 28


def block_labels(problem: Problem, requested: int | None = None) -> int:
    """Labels of a block: as asked, or many enough for its solver and few enough for a worker.

    That is a 64th of the labels, but from 96 to 512 of them, with at most 256 MB of weights. It
    depends on the data alone, so that training can go on anywhere. A softmax is one block.
    """
    _, d, n_labels = problem.shape
    if requested is not None:
        checks.positive_int(requested, "shard_labels")
    if problem.recipe.loss == "softmax":
        return max(n_labels, 1)
    share = min(512, max(96, n_labels / 64), BLOCK_BYTES / (4 * (d + 1)))
    return requested or LANES * max(1, round(share / LANES))


class Block(NamedTuple):
    """A task: consecutive labels from `start`, and weight vectors to start from."""

    start: int
    part: Part
    first: Singles | None


class Common(NamedTuple):
    """What all tasks share; `folder` is where to write shards, None for sending them back."""

    problem: Problem
    prune_below: float
    folder: str | None = None


class Trained(NamedTuple):
    """A block that is done: its shard, or the manifest's entry of the shard that was written."""

    start: int
    log: FitLog
    shard: Shard | None = None
    entry: files.Entry | None = None


def train_block(common: Common, block: Block) -> Trained:
    """Solve a block, wherever that is."""
    solve = softmax.solve if common.problem.recipe.loss == "softmax" else ova.solve
    solution = solve(common.problem.of_labels(block.part), block.first)
    if solution.log.concave.size:
        return Trained(block.start, solution.log)
    part = shard(solution.weights, common.prune_below)
    if common.folder is None or not os.path.isdir(common.folder):
        return Trained(block.start, solution.log, part)
    entry = files.write_shard(Path(common.folder), block.start, part)
    return Trained(block.start, solution.log, entry=entry)


def blocks(problem: Problem, size: int, start: Singles | None = None) -> list[Block]:
    """All labels in blocks of `size`; `start` are weight vectors to start from."""
    bounds = [*range(0, problem.shape[2], size), problem.shape[2]]
    return [
        Block(a, problem.part(a, b), None if start is None else start[a:b])
        for a, b in pairwise(bounds)
    ]


def joined(parts: list[FitLog]) -> FitLog:
    """The logs of consecutive blocks as one."""
    names = ("objective", "iterations", "status")
    return FitLog(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
