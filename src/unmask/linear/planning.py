"""What a training will need, before it starts: memory from shapes, time from a sample of labels.

    memory of a worker = process + features + threads × task
    time               = seconds per label × labels of a block × rounds,   rounds = ⌈tasks / slots⌉

A task holds what its solver keeps for 32 labels at once (numbers per row and per feature) and the
weights of its block, a few times over while they become a file. Seconds per label are measured on
labels spread evenly over the frequencies, on one thread of one worker.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from unmask import _validation, parallel
from unmask._kernels.linear_state import BLOCK as LANES
from unmask._kernels.linear_state import Entries
from unmask.linear import softmax
from unmask.linear.blocks import Block, Common, block_labels, train_block
from unmask.linear.model import LinearModel
from unmask.linear.prediction import size
from unmask.linear.problem import Part, Problem
from unmask.linear.recipe import Recipe, prepare
from unmask.weights import Weights

PROCESS = 400 << 20  # Python with numba, scipy and Dask loaded, and the compiled kernels
USABLE = 0.7  # of a worker's memory: beyond it Dask moves data to disk, then stops giving it work
COPIES = 4  # weights of a block: solver, shard, file contents, on their way
SAMPLE = 256


@dataclass(frozen=True)
class Plan:
    """Shapes, memory in bytes, time in seconds.

    `memory` is what a worker needs, `available` what it may use (None: unknown), `model_bytes` what
    the model will take on disk, `sampled` the labels from which time and size were extrapolated.
    """

    rows: int
    features: int
    labels: int
    block: int
    tasks: int
    workers: int
    threads: int
    features_bytes: int
    task_bytes: int
    memory: int
    available: int | None
    seconds_per_label: float
    seconds: float
    model_bytes: int
    sampled: int

    def to_dict(self) -> dict[str, Any]:
        """Names and values."""
        return asdict(self)


def plan(
    features: Any,
    labels: Any,
    recipe: Recipe | None = None,
    *,
    propensity: Any = None,
    weights: Weights | None = None,
    shard_labels: int | None = None,
    sample: int = SAMPLE,
    backend: Any = None,
) -> Plan:
    """What `train_to` would need with these arguments; a ValueError if it does not fit.

    >>> made = plan(np.eye(4), np.eye(4, dtype=int))
    >>> made.tasks, made.block, made.sampled
    (1, 96, 4)
    """
    chosen = recipe or Recipe()
    given = prepare(features, labels, chosen, propensity, weights)
    block = block_labels(given, shard_labels)
    n, d, n_labels = given.shape
    tasks = -(-n_labels // block)
    with parallel.connect(backend) as runner:
        room = runner.resources()
        refuse_small(given, block, room)
        picked = _spread(given, _validation.positive_int(sample, "sample"))
        common = Common(given.common, chosen.prune_below)
        ((_, (seconds, stored)),) = runner.run(_measure, [_pick(given, picked)], common)
    rounds = -(-tasks // (room.workers * room.threads))
    return Plan(
        rows=n,
        features=d,
        labels=n_labels,
        block=block,
        tasks=tasks,
        workers=room.workers,
        threads=room.threads,
        features_bytes=features_bytes(given),
        task_bytes=task_bytes(given, block),
        memory=worker_bytes(given, block, room.threads),
        available=None if room.memory is None else int(USABLE * room.memory),
        seconds_per_label=seconds / len(picked),
        seconds=seconds / len(picked) * min(block * rounds, n_labels),
        model_bytes=round(stored / len(picked) * n_labels),
        sampled=len(picked),
    )


def _spread(given: Problem, count: int) -> Any:
    """Labels at even distances in the order of their frequencies."""
    order = np.argsort(np.diff(given.entries.start), kind="stable")
    places = np.linspace(0, len(order), min(count, len(order)), endpoint=False)
    return order[(places + len(order) / len(places) / 2).astype(np.int64)]


def _pick(given: Problem, labels: Any) -> Block:
    """Labels from anywhere as one block."""
    parts = [given.part(j, j + 1) for j in labels.tolist()]
    entries = [part.entries for part in parts]
    start = np.cumsum([0, *(len(e.rows) for e in entries)])
    rows, pos, cut = (
        np.concatenate([getattr(e, name) for e in entries]) for name in ("rows", "pos", "cut")
    )
    return Block(0, Part(Entries(start, rows, pos, cut), given.convex[labels]), None)


def _measure(common: Common, block: Block) -> tuple[float, int]:
    """Seconds and bytes that a block takes here; compiled code is loaded before."""
    train_block(common, Block(0, common.given.of_labels(block.part).part(0, 1), None))
    start = time.perf_counter()
    shard = train_block(common, block).shard
    took = time.perf_counter() - start
    if shard is None:
        raise ValueError("some labels have no minimum with these weights; train to see which.")
    return took, size(LinearModel((shard,), common.given.loss))


def features_bytes(given: Problem) -> int:
    """Features as workers hold them."""
    arrays = (*given.rows, given.squares, given.order)
    return sum(int(array.nbytes) for array in arrays)


def task_bytes(given: Problem, labels: int) -> int:
    """What a task of so many labels holds at its peak, beside the features."""
    n, d, _ = given.shape
    if given.loss == "softmax":
        return 8 * 4 * labels * (d + 1) + 16 * softmax.ENTRIES
    weights = COPIES * 4 * labels * (d + 1)
    if given.loss == "squared_hinge":
        rows = (20 * LANES + 64) * n + 8 * len(given.rows.data)
        return weights + rows + (20 * LANES + 60) * (d + 1)
    return weights + LANES * (24 * n + 40 * (d + 1))


def worker_bytes(given: Problem, labels: int, threads: int) -> int:
    """What a worker needs that runs so many tasks at once."""
    return PROCESS + features_bytes(given) + threads * task_bytes(given, labels)


def refuse_small(given: Problem, block: int, room: parallel.Resources) -> None:
    """A ValueError if tasks do not fit a worker, with what would."""
    needed = worker_bytes(given, block, room.threads)
    if room.memory is None or needed <= USABLE * room.memory:
        return
    raise ValueError(
        f"a worker needs {gigabytes(needed)} ({gigabytes(features_bytes(given))} for features, "
        f"{room.threads} × {gigabytes(task_bytes(given, block))} for tasks of {block} labels), and "
        f"the smallest has {gigabytes(room.memory)}, of which {USABLE:.0%} can be used; "
        f"{_way_out(given, block, int(USABLE * room.memory))}"
    )


def _way_out(given: Problem, block: int, usable: int) -> str:
    """What would fit: fewer threads, then smaller blocks, then larger workers."""
    left = usable - PROCESS - features_bytes(given)
    threads = left // task_bytes(given, block)
    if threads >= 1:
        return f"use workers with at most {threads} thread{'s' * (threads > 1)} each."
    halves = [block >> i for i in range(1, 10) if block >> i >= LANES]
    fitting = [size for size in halves if task_bytes(given, size) <= left]
    if fitting and given.loss != "softmax":
        return f"use workers with one thread each and blocks of {fitting[0]} labels."
    least = worker_bytes(given, [block, *halves][-1], 1)
    return f"use workers with at least {gigabytes(int(least / USABLE))} each."


def gigabytes(count: int) -> str:
    """A number of bytes as people say it.

    >>> gigabytes(1_500_000_000), gigabytes(20_000_000)
    ('1.5 GB', '0.02 GB')
    """
    return f"{count / 1e9:.2g} GB" if count < 10e9 else f"{count / 1e9:,.0f} GB"
