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

import numpy as np

from unmask import parallel
from unmask._kernels.linear_state import BLOCK as LANES
from unmask._kernels.linear_state import Entries
from unmask._messages import named_options
from unmask._typing import BackendLike, FeaturesLike, Ints, LabelsLike, PropensityLike
from unmask.arrays import checks
from unmask.linear import softmax
from unmask.linear.blocks import Block, Common, block_labels, train_block
from unmask.linear.model import LinearModel
from unmask.linear.prediction import size
from unmask.linear.problem import Part, Problem, Recipe, prepare
from unmask.weights import Weights

PROCESS = 400 << 20  # Python with numba, scipy and Dask loaded, and the compiled kernels
USABLE = 0.7  # of a worker's memory: beyond it Dask moves data to disk, then stops giving it work
COPIES = 4  # weights of a block: solver, shard, file contents, on their way
SAMPLE = 256


@dataclass(frozen=True)
class Plan:
    """What a training will need: memory in bytes, time in seconds.

    Attributes
    ----------
    rows, features, labels : int
        Shapes.
    block, tasks : int
        Labels per task, and tasks.
    workers, threads : int
        Workers, and threads of each.
    features_bytes, task_bytes : int
        What the features and one task take.
    memory, available : int, int or None
        What a worker needs, and what it may use (None: unknown).
    seconds_per_label, seconds : float
        Of one thread, and of the whole.
    model_bytes : int
        What the model will take on disk.
    sampled : int
        The labels from which time and size were extrapolated.

    Examples
    --------
    >>> needs = plan(np.eye(4), np.eye(4, dtype=int))
    >>> needs.rows, needs.features, needs.labels, needs.to_dict()["tasks"]
    (4, 4, 4, 1)
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

    def to_dict(self) -> dict[str, int | float | None]:
        """Names and values."""
        return asdict(self)


@named_options
def plan(
    features: FeaturesLike,
    labels: LabelsLike,
    recipe: Recipe | None = None,
    *,
    propensity: PropensityLike | None = None,
    weights: Weights | None = None,
    shard_labels: int | None = None,
    sample: int = SAMPLE,
    backend: BackendLike = None,
) -> Plan:
    """What `train_to` would need with these arguments.

    Parameters
    ----------
    features : (n, d) matrix
        Dense or sparse.
    labels : (n, L) matrix of 0 and 1
        Observed labels, dense or sparse.
    recipe : Recipe, optional
        The parameters; their defaults if left out.
    propensity : (L,) numbers in (0, 1], or sparse (n, L), optional
        Needed by every correction but "vanilla".
    weights : Weights, optional
        Take the place of the recipe's correction.
    shard_labels : int, optional
        Labels of a shard; from the data if left out.
    sample : int, default 256
        Labels that are trained to measure the time.
    backend : optional
        Whose workers would train (`unmask.parallel`).

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        As `train`; and if a task does not fit a worker, with what would.

    Examples
    --------
    >>> needs = plan(np.eye(4), np.eye(4, dtype=int))
    >>> needs.tasks, needs.block, needs.sampled
    (1, 96, 4)
    """
    problem = prepare(features, labels, recipe or Recipe(), propensity, weights)
    block = block_labels(problem, shard_labels)
    n, d, n_labels = problem.shape
    tasks = -(-n_labels // block)
    with parallel.connect(backend) as runner:
        room = runner.resources()
        refuse_small(problem, block, room)
        counts = np.diff(problem.entries.start)
        picked = spread_labels(counts, checks.positive_int(sample, "sample"))
        common = Common(problem.common, problem.recipe.prune_below)
        ((_, (seconds, stored)),) = runner.run(_measure, [_pick(problem, picked)], common)
    rounds = -(-tasks // (room.workers * room.threads))
    return Plan(
        rows=n,
        features=d,
        labels=n_labels,
        block=block,
        tasks=tasks,
        workers=room.workers,
        threads=room.threads,
        features_bytes=features_bytes(problem),
        task_bytes=task_bytes(problem, block),
        memory=worker_bytes(problem, block, room.threads),
        available=None if room.memory is None else int(USABLE * room.memory),
        seconds_per_label=seconds / len(picked),
        seconds=seconds / len(picked) * min(block * rounds, n_labels),
        model_bytes=round(stored / len(picked) * n_labels),
        sampled=len(picked),
    )


def spread_labels(counts: Ints, most: int) -> Ints:
    """Labels at even distances in the order of their frequencies; `counts` are rows per label.

    >>> spread_labels(np.array([9, 1, 5, 7]), 2).tolist()
    [2, 0]
    """
    order = np.argsort(counts, kind="stable")
    places = np.linspace(0, len(order), min(most, len(order)), endpoint=False)
    return order[(places + len(order) / len(places) / 2).astype(np.int64)]


def _pick(problem: Problem, labels: Ints) -> Block:
    """Labels from anywhere as one block."""
    parts = [problem.part(j, j + 1) for j in labels.tolist()]
    entries = [part.entries for part in parts]
    start = np.cumsum([0, *(len(e.rows) for e in entries)])
    rows, pos, cut = (
        np.concatenate([getattr(e, name) for e in entries]) for name in ("rows", "pos", "cut")
    )
    p = None if problem.propensity is None else problem.propensity[labels]
    return Block(0, Part(Entries(start, rows, pos, cut), problem.convex[labels], p), None)


def _measure(common: Common, block: Block) -> tuple[float, int]:
    """Seconds and bytes that a block takes here; compiled code is loaded before."""
    train_block(common, Block(0, common.problem.of_labels(block.part).part(0, 1), None))
    start = time.perf_counter()
    shard = train_block(common, block).shard
    took = time.perf_counter() - start
    if shard is None:
        raise ValueError("some labels have no minimum with these weights; train to see which.")
    return took, size(LinearModel((shard,), common.problem.recipe.loss))


def features_bytes(problem: Problem) -> int:
    """Features as workers hold them."""
    arrays = (*problem.rows, problem.squares, problem.order)
    return sum(int(array.nbytes) for array in arrays)


def task_bytes(problem: Problem, labels: int) -> int:
    """What a task of so many labels holds at its peak, beside the features."""
    n, d, _ = problem.shape
    if problem.recipe.loss == "softmax":
        return 8 * 4 * labels * (d + 1) + 16 * softmax.ENTRIES
    weights = COPIES * 4 * labels * (d + 1)
    if problem.recipe.loss == "squared_hinge":
        rows = (20 * LANES + 64) * n + 8 * len(problem.rows.data)
        return weights + rows + (20 * LANES + 60) * (d + 1)
    return weights + LANES * (24 * n + 40 * (d + 1))


def worker_bytes(problem: Problem, labels: int, threads: int) -> int:
    """What a worker needs that runs so many tasks at once."""
    return PROCESS + features_bytes(problem) + threads * task_bytes(problem, labels)


def refuse_small(problem: Problem, block: int, room: parallel.Resources) -> None:
    """A ValueError if tasks do not fit a worker, with what would."""
    needed = worker_bytes(problem, block, room.threads)
    if room.memory is None or needed <= USABLE * room.memory:
        return
    raise ValueError(
        f"a worker needs {gigabytes(needed)} ({gigabytes(features_bytes(problem))} for features, "
        f"{room.threads} × {gigabytes(task_bytes(problem, block))} for tasks of {block} labels), "
        f"and the smallest has {gigabytes(room.memory)}, of which {USABLE:.0%} can be used; "
        f"{_remedy(problem, block, int(USABLE * room.memory))}"
    )


def _remedy(problem: Problem, block: int, usable: int) -> str:
    """What would fit: fewer threads, then smaller blocks, then larger workers."""
    left = usable - PROCESS - features_bytes(problem)
    threads = left // task_bytes(problem, block)
    if threads >= 1:
        return f"use workers with at most {threads} thread{'s' * (threads > 1)} each."
    halves = [block >> i for i in range(1, 10) if block >> i >= LANES]
    fitting = [size for size in halves if task_bytes(problem, size) <= left]
    if fitting and problem.recipe.loss != "softmax":
        return f"use workers with one thread each and blocks of {fitting[0]} labels."
    least = worker_bytes(problem, [block, *halves][-1], 1)
    return f"use workers with at least {gigabytes(int(least / USABLE))} each."


def gigabytes(count: int) -> str:
    """A number of bytes as people say it.

    >>> gigabytes(1_500_000_000), gigabytes(20_000_000)
    ('1.5 GB', '0.02 GB')
    """
    return f"{count / 1e9:.2g} GB" if count < 10e9 else f"{count / 1e9:,.0f} GB"
