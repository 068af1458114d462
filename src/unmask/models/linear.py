"""Linear models: training in blocks of labels, prediction without score matrices, folders.

    score of label j for row x:   s_j = w_j·x + b_j

Weights come in shards of consecutive labels, dense or sparse, in memory or mapped from files. The
probability that a score stands for is the one at which the training loss puts it at its optimum:
σ(s) for logistic, (1 + s)/2 for squared hinge, s for squared error, eˢ / Σ eˢ for softmax.

A training is a `Problem` (`unmask.models.problem`), cut into blocks of labels that are solved
independently (`one_vs_all`; a `softmax` is one block); a block becomes a shard. The best labels of
rows are found by blocks of rows, for which every worker gets the model, or by shards, for models
that do not fit a worker: the best k of all labels are among the best k of every shard, so both ways
give the numbers of one process.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
import scipy.special
from numpy.typing import ArrayLike

from unmask import __version__, parallel
from unmask._kernels import in_chunks, row_bounds
from unmask._kernels import linear_predict as kernels
from unmask._kernels.linear_smooth import BLOCK, forward
from unmask._kernels.linear_state import BLOCK as LANES
from unmask._kernels.linear_state import Entries, Rows
from unmask._messages import function, named_options
from unmask._typing import (
    Array,
    BackendLike,
    FeaturesLike,
    Floats,
    Indices,
    Ints,
    LabelsLike,
    PathLike,
    Progress,
    PropensityLike,
    Record,
    Singles,
)
from unmask.arrays import checks
from unmask.data import Dataset
from unmask.data.texts import Vocabulary, tfidf
from unmask.files import archive
from unmask.models import one_vs_all, softmax, store, training
from unmask.models.problem import COMPLETED, FitLog, Part, Problem, Recipe, prepare
from unmask.models.store import Entry, Format
from unmask.predictions import TopK
from unmask.weights import Weights

WeightMatrix: TypeAlias = "Singles | sp.csr_array"
"""Labels × features, dense or sparse."""
Estimator: TypeAlias = Any
"""A scikit-learn estimator or pipeline, whose package this module does not import."""

BLOCK_BYTES = 1 << 28
USABLE = 0.7  # of a worker's memory: beyond it Dask moves data to disk, then stops giving it work
COPIES = 4  # weights of a block: solver, shard, file contents, on their way
SAMPLE = 256
SPLITS = ("rows", "labels")
PIECE = 4096  # labels of a task at most
_ROWS = 1 << 12  # of weights that are looked at in one go
_LINKS = {
    "logistic": kernels.LOGISTIC,
    "squared_hinge": kernels.HINGE,
    "squared_error": kernels.SQUARED,
}
PROBABILITIES: dict[str, Callable[[Singles], Singles]] = {
    "logistic": scipy.special.expit,
    "squared_hinge": lambda s: np.clip((1 + s) / 2, 0, 1),
    "squared_error": lambda s: np.clip(s, 0, 1),
    "softmax": partial(scipy.special.softmax, axis=1),
}
"""The losses of linear models, and how their scores become probabilities."""
FORMAT = Format(
    "unmask linear model", 2, "linear.train", tuple(PROBABILITIES),
    {"shards": store.Piece("a shard", {"start": int, "stop": int}, ("start",))},
)  # fmt: skip


@dataclass(frozen=True)
class Shard:
    """The weights and biases of consecutive labels.

    Attributes
    ----------
    weights : (labels, features) float32
        Dense or CSR.
    bias : (labels,) float32

    Examples
    --------
    >>> from unmask import linear
    >>> model, log = linear.train(np.eye(2), np.eye(2, dtype=int))
    >>> [(part.weights.shape, part.bias.shape) for part in model.shards]
    [((2, 2), (2,))]
    """

    weights: WeightMatrix
    bias: Singles

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All arrays of it."""
        w = self.weights
        parts = (w,) if isinstance(w, np.ndarray) else (w.data, w.indices, w.indptr)
        return (*parts, self.bias)

    @property
    def unmapped(self) -> Shard:
        """The shard without maps of files, so that its arrays are sent as they are."""
        *parts, bias = (np.asarray(array) for array in self.arrays)
        if isinstance(self.weights, np.ndarray):
            return Shard(parts[0], bias)
        return Shard(sp.csr_array(tuple(parts), shape=self.weights.shape), bias)


@dataclass(frozen=True)
class LinearModel:
    """Shards in the order of their labels, the loss they were trained with, and how.

    Parameters
    ----------
    shards : tuple of Shard
        At least one.
    loss : {"squared_hinge", "logistic", "squared_error", "softmax"}
        Says which probability a score stands for.
    parameters : mapping, optional
        The recipe of the training.
    idf : (d,) floats, optional
        The word weights of a model that was trained on tf-idf. They go with the model into its
        folder and back; prediction takes features that are tf-idf already
        (`data.tfidf(counts, model.idf)`).
    label_names : tuple of str, optional
        The name of every label; predictions carry them.
    vocabulary : Vocabulary, optional
        The words of a model that was trained on texts: `text_features` applies it.

    Examples
    --------
    >>> model = LinearModel((Shard(np.float32([[1, 0], [0, 1]]), np.float32([0, 0])),), "logistic")
    >>> model.n_labels, model.n_features
    (2, 2)
    """

    shards: tuple[Shard, ...]
    loss: str
    parameters: Mapping[str, store.Parameter] = field(default_factory=dict)
    idf: Floats | None = None
    label_names: tuple[str, ...] | None = None
    vocabulary: Vocabulary | None = None

    @property
    def n_labels(self) -> int:
        """Labels."""
        return sum(len(shard.bias) for shard in self.shards)

    @property
    def n_features(self) -> int:
        """Features, the bias not counted."""
        return int(self.shards[0].weights.shape[1])

    @property
    def sparse(self) -> bool:
        """True if the weights are stored sparse."""
        return any(sp.issparse(shard.weights) for shard in self.shards)

    @property
    def weights(self) -> WeightMatrix:
        """All weights in one matrix (labels × features)."""
        parts = [shard.weights for shard in self.shards]
        return sp.csr_array(sp.vstack(parts)) if self.sparse else np.concatenate(parts)

    @property
    def bias(self) -> Singles:
        """All biases."""
        return np.concatenate([shard.bias for shard in self.shards])


# Training


class Block(NamedTuple):
    """A task: consecutive labels from `start`, and weight vectors to start from."""

    start: int
    part: Part
    first: Singles | None = None

    @property
    def n_labels(self) -> int:
        """Labels."""
        return len(self.part.convex)


@named_options
def train(
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    recipe: Recipe | None = None,
    *,
    propensity: PropensityLike | None = None,
    weights: Weights | None = None,
    first: LinearModel | None = None,
    progress: Progress | None = None,
    backend: BackendLike = None,
) -> tuple[LinearModel, FitLog]:
    """Train a model in memory.

    Minimises ½‖w‖² + C Σ_i loss, see `Recipe`.

    Parameters
    ----------
    features : (n, d) matrix
        Dense or sparse.
    labels : (n, L) matrix of 0 and 1, or Dataset
        Observed labels, dense or sparse; judgements of a data set are used (`weights`).
    recipe : Recipe, optional
        The parameters; their defaults if left out.
    propensity : (L,) numbers in (0, 1], or sparse (n, L), optional
        Needed by every correction but "vanilla".
    weights : Weights, optional
        Take the place of the recipe's correction.
    first : LinearModel, optional
        A model to start from.
    progress : function (done, total), optional
        Called as labels are finished.
    backend : optional
        Where blocks of labels are solved (`unmask.parallel`), which does not change the model.

    Returns
    -------
    model : LinearModel
    log : FitLog
        Objective, iterations and status of every label.

    Raises
    ------
    ValueError
        If features, labels, weights or propensities are out of range or do not fit each other, a
        problem has no minimum, or the tasks do not fit the workers.

    References
    ----------
    Babbar & Schölkopf, *DiSMEC: distributed sparse machines for extreme multi-label classification*
    (2017); Schultheis & Babbar (2021).

    Examples
    --------
    >>> model, _ = train([[1.0, 0.0], [0.0, 1.0]], [[1, 0], [0, 1]])
    >>> (model.weights @ np.eye(2) + model.bias[:, None] > 0).astype(int)
    array([[1, 0],
           [0, 1]])
    """
    problem = prepared(features, labels, recipe or Recipe(), propensity, weights, backend)
    return solve(problem, first=first, progress=progress, backend=backend)


@named_options
def train_to(
    path: PathLike,
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    recipe: Recipe | None = None,
    *,
    propensity: PropensityLike | None = None,
    weights: Weights | None = None,
    idf: ArrayLike | None = None,
    label_names: Sequence[str] | None = None,
    vocabulary: Vocabulary | None = None,
    shard_labels: int | None = None,
    choice: Mapping[str, store.Parameter] | None = None,
    resume: bool = True,
    progress: Progress | None = None,
    backend: BackendLike = None,
) -> LinearModel:
    """Train into a folder, shard by shard; a shard that is there already is not trained again.

    Interrupted (even killed), the folder keeps its finished shards, and the same call goes on
    after them; the result is the same model, bit for bit, whatever the `backend`. A folder that
    was made from other data, with another recipe or by another version of this package is refused
    unless `resume` is False, which starts again. A model that is there stays until the new one is
    complete; interrupted on the way, the new one goes on with `resume=True`. Workers that see the
    folder write their shards into it, others send them here; the manifest lists a shard only after
    its file has been compared with its checksum. While one process trains into a folder, another
    that tries to is refused.

    Parameters
    ----------
    path : path
        The folder; made if it is not there.
    features, labels, recipe, propensity, weights, progress, backend
        As of `train`.
    idf : (d,) floats, optional
        The word weights that made tf-idf of the features (`data.idf`); the model keeps them.
    label_names : L strings, optional
        The names of the labels; the model keeps them, and predictions carry them.
    vocabulary : Vocabulary, optional
        The words of the features, if those were made of texts; the model keeps it.
    shard_labels : int, optional
        Labels of a shard; from the data if left out.
    choice : mapping of str to plain values, optional
        How the recipe was chosen and by what predictions are ranked; the manifest keeps it among
        the model's parameters.
    resume : bool, default True
        Whether to go on after the shards that are there.

    Returns
    -------
    LinearModel
        Its arrays are mapped from the folder.

    Raises
    ------
    ValueError
        As `train`; and if the folder holds another model, or a file is not what was written.
    OSError
        If the disk fails; the message says how many labels are kept.

    Examples
    --------
    >>> import tempfile
    >>> model = train_to(tempfile.mkdtemp() + "/model", [[1.0], [0.0]], [[1, 0], [0, 1]])
    >>> model.n_labels
    2
    """
    problem = prepared(features, labels, recipe or Recipe(), propensity, weights, backend)
    size = block_labels(problem, shard_labels)
    folder, (_, d, n_labels) = Path(path).resolve(), problem.shape
    beside = store.Beside.checked(d, n_labels, idf, label_names, vocabulary)
    mark = _fingerprint(problem, size, beside)
    parameters = {**problem.recipe.parameters, **(choice or {})}
    note = training.counter(progress, n_labels)
    with store.own_folder(folder):
        earlier = FORMAT.earlier(folder, mark) if resume else store.Earlier(folder)
        kept = earlier.pieces("shards")
        finished = {entry["start"] for entry in kept}
        tasks = [block for block in blocks(problem, size) if block.start not in finished]
        if earlier.whole and not tasks:
            FORMAT.remove_unlisted(folder)
            note(n_labels)
            return load(folder, verify=False)
        with parallel.connect(backend if tasks else None) as runner:
            if backend is not None:
                refuse_small(problem, size, runner.resources())
            head = FORMAT.header(problem.recipe.loss, n_labels, d, parameters, mark)
            FORMAT.begin(folder, {**head, "shards": kept}, beside)
            FORMAT.remove_unlisted(folder)
            note(_labels_in(kept))
            with training.keeping(
                folder,
                lambda: _labels_in(FORMAT.read(folder, store.UNFINISHED)["shards"]),
                n_labels,
            ):
                training.Work(solve_block, write_shard, problem.common, tasks).run_into(
                    folder, FORMAT, "shards", runner, partial(_report, problem), note
                )
        FORMAT.finish(folder)
        return load(folder, verify=False)


def prepared(
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    recipe: Recipe,
    propensity: PropensityLike | None,
    weights: Weights | None,
    backend: BackendLike,
    counts: Floats | None = None,
) -> Problem:
    """Return the problem of a training (`prepare`); of completed training, with its weights.

    `counts` is how much rows count, in every model that is trained on the way.
    """
    if recipe.correction == COMPLETED and weights is None:
        from unmask.models import completed  # which trains linear models

        if propensity is None:
            raise training.no_propensities(COMPLETED, of="linear.train")
        made = completed.completion(
            features, labels, propensity, recipe, sample_weight=counts, backend=backend
        )
        problem = replace(prepare(features, labels, recipe, None, made.weights), recipe=recipe)
        if made.row_weights is not None:
            mean = float(np.average(made.row_weights, weights=counts))
            problem = completed.divided(problem, made.row_weights, mean)
    else:
        problem = prepare(features, labels, recipe, propensity, weights)
    return problem if counts is None else problem.of_weighted_rows(counts)


def solve(
    problem: Problem,
    *,
    first: LinearModel | None = None,
    progress: Progress | None = None,
    backend: BackendLike = None,
) -> tuple[LinearModel, FitLog]:
    """Solve a problem in memory, from the model `first` if there is one; see `train`."""
    size = block_labels(problem)
    tasks = blocks(problem, size, start=_start(first, problem))
    solved: dict[int, training.Done] = {}
    with parallel.connect(backend) as runner:
        if backend is not None:
            refuse_small(problem, size, runner.resources())
        training.Work(solve_block, write_shard, problem.common, tasks).run(
            runner,
            lambda block, done: solved.update({block.start: done}),
            training.counter(progress, problem.shape[2]),
        )
    logs, shards = zip(*((solved[block.start][:2]) for block in tasks), strict=True)
    log = FitLog(
        *(
            np.concatenate([getattr(each, name) for each in logs])
            for name in ("objective", "iterations", "status")
        )
    )
    _report(problem, Block(0, problem.part(0, problem.shape[2])), log)
    whole = LinearModel(shards, problem.recipe.loss)
    joined = Shard(whole.weights, whole.bias)
    return replace(whole, shards=(joined,), parameters=problem.recipe.parameters), log


def block_labels(problem: Problem, requested: int | None = None) -> int:
    """Return the labels of a block: as asked, or enough for its solver and few for a worker.

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


def blocks(problem: Problem, size: int, start: Singles | None = None) -> list[Block]:
    """Cut all labels into blocks of `size`; `start` are weight vectors to start from."""
    bounds = [*range(0, problem.shape[2], size), problem.shape[2]]
    return [
        Block(a, problem.part(a, b), None if start is None else start[a:b])
        for a, b in pairwise(bounds)
    ]


def solve_block(problem: Problem, block: Block) -> tuple[Shard | None, FitLog]:
    """Solve a block, wherever that is; without a shard where some label has no minimum."""
    solver = softmax.solve if problem.recipe.loss == "softmax" else one_vs_all.solve
    solution = solver(problem.of_labels(block.part), block.first)
    if solution.log.concave.size:
        return None, solution.log
    return shard(solution.weights, problem.recipe.prune_below), solution.log


def shard(solution: Singles, prune_below: float = 0.0) -> Shard:
    """Return solver output (labels × features+1) as a shard; |w| < `prune_below` is dropped.

    >>> shard(np.float32([[0.001, 0.5, -1.0]]), prune_below=0.01).weights.toarray()
    array([[0. , 0.5]], dtype=float32)
    """
    unsolved = int((~np.isfinite(solution)).any(axis=1).sum())
    if unsolved:
        raise ValueError(
            f"the solution of {unsolved} labels is not finite: their weights are too large for "
            "single precision; correct with `bound` or `empirical_bayes`, or raise the "
            f"propensities with {function('propensity.clip')}."
        )
    weights, bias = solution[:, :-1], np.ascontiguousarray(solution[:, -1])
    if prune_below <= 0:
        return Shard(np.ascontiguousarray(weights), bias)
    kept = [  # a few labels at a time: dense weights are the largest thing that a worker holds
        sp.csr_array(
            np.where(np.abs(weights[i : i + BLOCK]) < prune_below, 0, weights[i : i + BLOCK])
        )
        for i in range(0, len(bias), BLOCK)
    ]
    return Shard(checks.narrow(sp.csr_array(sp.vstack(kept))), bias)


def _report(problem: Problem, block: Block, log: FitLog) -> None:
    """Warn of labels that did not converge, raise where there is no minimum."""
    if problem.recipe.loss == "softmax":
        softmax.report(problem, log)
    else:
        one_vs_all.report(problem, block.start + np.arange(block.n_labels), log)


def _start(first: LinearModel | None, problem: Problem) -> Singles | None:
    """Return weight vectors (labels × features+1) of the model to start from."""
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


def _fingerprint(problem: Problem, shard_labels: int, beside: store.Beside) -> str:
    """Digest all that determines the model, the version of this package included."""
    idf = beside.idf
    about = (__version__, problem.recipe, problem.shape, shard_labels, idf is not None)
    digest = hashlib.sha256(repr(about).encode())
    digest.update(repr((beside.names, beside.vocabulary)).encode())
    others = (idf, problem.propensity, problem.row_weights)
    beyond = [array for array in others if array is not None]
    for array in (*problem.rows, *problem.entries, *beyond):
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


# Plans


@dataclass(frozen=True, kw_only=True)
class Plan(training.BasePlan):
    """The needs of a training: memory in bytes, time in seconds.

    Attributes
    ----------
    rows, features, labels : int
        Shapes.
    block, tasks : int
        Labels per task, and tasks.
    workers, threads : int
        Workers, and threads of each.
    features_bytes, task_bytes : int
        The size of the features, and of one task.
    memory, available : int, int or None
        The memory that a worker needs, and may use (None: unknown).
    seconds_per_label, seconds : float
        Of one thread, and of the whole.
    model_bytes : int
        The size of the model on disk.
    sampled : int
        The labels from which time and size were extrapolated.

    Examples
    --------
    >>> needs = plan(np.eye(4), np.eye(4, dtype=int))
    >>> needs.rows, needs.features, needs.labels, needs.to_dict()["tasks"]
    (4, 4, 4, 1)
    """

    block: int
    tasks: int
    workers: int
    features_bytes: int
    task_bytes: int


@named_options
def plan(
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    recipe: Recipe | None = None,
    *,
    propensity: PropensityLike | None = None,
    weights: Weights | None = None,
    shard_labels: int | None = None,
    sample: int = SAMPLE,
    backend: BackendLike = None,
) -> Plan:
    """Say what `train_to` would need with these arguments.

    Parameters
    ----------
    features, labels, recipe, propensity, weights
        As of `train`.
    shard_labels : int, optional
        Labels of a shard; from the data if left out.
    sample : int, default 256
        Labels that are trained to measure the time, spread evenly over the frequencies.
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
        picked = training.spread_labels(counts, checks.positive_int(sample, "sample"))
        ((_, (seconds, stored)),) = runner.run(_measure, [_pick(problem, picked)], problem.common)
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


def _pick(problem: Problem, labels: Ints) -> Block:
    """Return labels from anywhere as one block."""
    parts = [problem.part(j, j + 1) for j in labels.tolist()]
    entries = [part.entries for part in parts]
    start = np.cumsum([0, *(len(e.rows) for e in entries)])
    rows, pos, cut = (
        np.concatenate([getattr(e, name) for e in entries]) for name in ("rows", "pos", "cut")
    )
    p = None if problem.propensity is None else problem.propensity[labels]
    return Block(0, Part(Entries(start, rows, pos, cut), problem.convex[labels], p))


def _measure(problem: Problem, block: Block) -> tuple[float, int]:
    """Return seconds and bytes that a block takes here; compiled code is loaded before."""
    solve_block(problem, Block(0, problem.of_labels(block.part).part(0, 1)))
    start = time.perf_counter()
    part, _ = solve_block(problem, block)
    took = time.perf_counter() - start
    if part is None:
        raise ValueError("some labels have no minimum with these weights; train to see which.")
    return took, size(LinearModel((part,), problem.recipe.loss))


def size(model: LinearModel) -> int:
    """Return the bytes of its arrays."""
    return sum(int(array.nbytes) for part in model.shards for array in part.arrays)


def features_bytes(problem: Problem) -> int:
    """Return the bytes of features as workers hold them."""
    arrays = (*problem.rows, problem.squares, problem.order)
    return sum(int(array.nbytes) for array in arrays)


def task_bytes(problem: Problem, labels: int) -> int:
    """Return what a task of so many labels holds at its peak, beside the features.

    That is what its solver keeps for 32 labels at once (numbers per row and per feature), and the
    weights of its block, a few times over while they become a file.
    """
    n, d, _ = problem.shape
    if problem.recipe.loss == "softmax":
        return 8 * 4 * labels * (d + 1) + 16 * softmax.ENTRIES
    weights = COPIES * 4 * labels * (d + 1)
    if problem.recipe.loss == "squared_hinge":
        rows = (20 * LANES + 64) * n + 8 * len(problem.rows.data)
        return weights + rows + (20 * LANES + 60) * (d + 1)
    return weights + LANES * (24 * n + 40 * (d + 1))


def worker_bytes(problem: Problem, labels: int, threads: int) -> int:
    """Return what a worker needs that runs so many tasks at once."""
    return training.PROCESS + features_bytes(problem) + threads * task_bytes(problem, labels)


def refuse_small(problem: Problem, block: int, room: parallel.Resources) -> None:
    """Raise ValueError if tasks do not fit a worker, with what would."""
    needed = worker_bytes(problem, block, room.threads)
    if room.memory is None or needed <= USABLE * room.memory:
        return
    sizes = (needed, features_bytes(problem), task_bytes(problem, block), room.memory)
    whole, features, task, smallest = map(training.gigabytes, sizes)
    raise ValueError(
        f"a worker needs {whole} ({features} for features, "
        f"{room.threads} × {task} for tasks of {block} labels), "
        f"and the smallest has {smallest}, of which {USABLE:.0%} can be used; "
        f"{_remedy(problem, block, int(USABLE * room.memory))}"
    )


def _remedy(problem: Problem, block: int, usable: int) -> str:
    """Say what would fit: fewer threads, then smaller blocks, then larger workers."""
    left = usable - training.PROCESS - features_bytes(problem)
    threads = left // task_bytes(problem, block)
    if threads >= 1:
        return f"use workers with at most {threads} thread{'s' * (threads > 1)} each."
    halves = [block >> i for i in range(1, 10) if block >> i >= LANES]
    fitting = [size for size in halves if task_bytes(problem, size) <= left]
    if fitting and problem.recipe.loss != "softmax":
        return f"use workers with one thread each and blocks of {fitting[0]} labels."
    least = worker_bytes(problem, [block, *halves][-1], 1)
    return f"use workers with at least {training.gigabytes(int(least / USABLE))} each."


# Folders


@named_options
def save(path: PathLike, model: LinearModel, *, shard_labels: int = PIECE) -> None:
    """Write a model to a folder; an existing model there stays until the new one is complete.

    Parameters
    ----------
    path : path
        The folder; made if it is not there.
    model : LinearModel
    shard_labels : int, default 4096
        The most labels of a file.

    Raises
    ------
    ValueError
        If the model is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from unmask.linear import LinearModel, load, save
    >>> w, b = np.float32([[1, 2]]), np.float32([0.5])
    >>> save(folder := tempfile.mkdtemp(), LinearModel((Shard(w, b),), "logistic"))
    >>> load(folder).weights
    array([[1., 2.]], dtype=float32)
    """
    model = checked(model)
    shards = _split(model, shard_labels)
    FORMAT.save(
        path,
        model,
        {"shards": (partial(write_shard, task=start, piece=part) for start, part in shards)},
    )


def _split(model: LinearModel, most: int) -> Iterator[tuple[int, Shard]]:
    """Yield the shards of a model, cut where they have more labels, with their first labels."""
    base = 0
    for part in model.shards:
        for start in range(0, len(part.bias), most):
            own = slice(start, start + most)
            yield base + start, Shard(part.weights[own], part.bias[own])
        base += len(part.bias)


def write_shard(folder: Path, task: Block | int, piece: Shard) -> Entry:
    """Write the file of a shard that begins with a label; return what the manifest is to say."""
    start = task if isinstance(task, int) else task.start
    arrays = {"bias": np.ascontiguousarray(piece.bias, dtype=np.float32)}
    if sp.issparse(piece.weights):
        matrix = sp.csr_array(piece.weights)
        arrays["indptr"] = matrix.indptr.astype(np.int64)
        arrays["indices"] = matrix.indices.astype(np.int32)
        arrays["data"] = matrix.data.astype(np.float32)
    else:
        arrays["weights"] = np.ascontiguousarray(piece.weights, dtype=np.float32)
    entry = store.write_tensors(folder, f"shard-{start:08d}-{{}}.safetensors", arrays)
    return {**entry, "start": start, "stop": start + len(piece.bias)}


@named_options
def load(path: PathLike, *, verify: bool = True) -> LinearModel:
    """Return the model in a folder, its arrays mapped from the files.

    Parameters
    ----------
    path : path
        A folder that `save` or `train_to` made.
    verify : bool, default True
        Whether to compare every file with its checksum, which reads them once.

    Returns
    -------
    LinearModel

    Raises
    ------
    ValueError
        If something is missing, altered, cut short or not a model of this package.

    Examples
    --------
    >>> import tempfile
    >>> from unmask import linear
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> model, log = linear.train(np.eye(2), np.eye(2, dtype=int))
    >>> linear.save(folder, model)
    >>> linear.load(folder).n_labels
    2
    """
    return _load(*_complete(Path(path)), verify=verify)


def _complete(folder: Path) -> tuple[Path, Record]:
    """Return the folder of a complete model, and its manifest."""
    present, head = FORMAT.current(folder)
    written = 0  # labels without a gap
    for entry in head["shards"]:
        if entry["start"] != written:
            break
        written = entry["stop"]
    if not present or written != head["labels"] or not head["shards"]:
        raise ValueError(
            f"{folder} holds labels 0 to {written - 1} of {head['labels']}: "
            "training has not finished; resume it, or train again."
        )
    return folder, head


def _load(folder: Path, head: Record, *, verify: bool) -> LinearModel:
    """Return the model that a manifest describes; see `load`."""
    shards = tuple(_read_shard(folder, entry, head["features"], verify) for entry in head["shards"])
    beside = store.read_beside(folder, head, verify)
    return LinearModel(shards, head["loss"], head["parameters"], *beside)


def _labels_in(entries: Iterable[Entry]) -> int:
    return sum(entry["stop"] - entry["start"] for entry in entries)


def _read_shard(folder: Path, entry: Entry, n_features: int, verify: bool) -> Shard:
    path, shape = folder / entry["file"], (entry["stop"] - entry["start"], n_features)
    arrays = store.read_tensors(folder, entry, verify)
    try:
        bias = arrays["bias"]
        if "weights" in arrays:
            weights = arrays["weights"]
        else:  # checked before it is used: kernels trust these indices
            weights = archive.sparse(arrays["data"], arrays["indices"], arrays["indptr"], shape)
        if weights.shape != shape or bias.shape != shape[:1]:
            raise ValueError(f"found weights {weights.shape} and biases {bias.shape}")
        if not weights.dtype == bias.dtype == np.float32:
            raise ValueError(f"found {weights.dtype} weights and {bias.dtype} biases")
        part = Shard(weights, bias)
        if verify:
            _refuse_infinite(part)
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{path} does not hold {shape[0]} × {n_features} weights: {error}."
        ) from None
    return part


def _refuse_infinite(part: Shard) -> None:
    """Raise unless weights are finite and, if sparse, stored once each."""
    if not isinstance(part.weights, np.ndarray):
        checks.matrix(part.weights, name="model weights")
    for numbers, name in ((part.arrays[0], "weights"), (part.bias, "biases")):
        for start in range(0, len(numbers), _ROWS):
            checks.finite(numbers[start : start + _ROWS], name)


# Prediction


def checked(model: LinearModel) -> LinearModel:
    """Return the model with arrays as kernels need them; indices are looked at on every call."""
    if not model.shards:
        raise ValueError("the model has no weights; give it at least one shard.")
    checks.one_of(model.loss, PROBABILITIES, "loss")
    shards = tuple(_checked_shard(part) for part in model.shards)
    widths = sorted({part.weights.shape[1] for part in shards})
    if len(widths) > 1:
        raise ValueError(f"shards of one model have the same features; got {widths}.")
    store.refuse_other_sizes(model)
    return replace(model, shards=shards)


def _checked_shard(part: Shard) -> Shard:
    if sp.issparse(part.weights):
        weights = checks.columns(part.weights, name="model weights")
    else:
        weights = checks.dense(part.weights, "model weights", "feature").astype(
            np.float32, copy=False
        )
    bias = checks.finite(checks.numbers(part.bias, "biases"), "biases")
    if bias.shape != weights.shape[:1]:
        raise ValueError(
            f"model weights need one bias per label; got {bias.shape} for {weights.shape}."
        )
    return Shard(weights, bias.astype(np.float32, copy=False))


def text_features(model: store.Stored, texts: Iterable[str]) -> sp.csr_array:
    """Return texts as the features that a model of texts was trained on.

    Parameters
    ----------
    model : LinearModel or TreeModel
        Trained on texts (`unmask train --text`): with vocabulary and word weights.
    texts : n strings

    Returns
    -------
    csr_array of shape (n, d), float32

    Raises
    ------
    ValueError
        If the model was not trained on texts.

    Examples
    --------
    >>> from unmask import data
    >>> words = data.Vocabulary(("egg", "tea"))
    >>> shards = (Shard(np.float32([[1, 0], [0, 1]]), np.float32([0, 0])),)
    >>> model = LinearModel(shards, "logistic", idf=np.array([1.0, 1.0]), vocabulary=words)
    >>> text_features(model, ["boil an egg", "tea, more tea"]).toarray()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if model.vocabulary is None or model.idf is None:
        raise ValueError("the model was not trained on texts; give it features instead.")
    return tfidf(model.vocabulary.counts(texts), model.idf)


def scores(model: LinearModel, features: FeaturesLike) -> Singles:
    """Return all scores s = W x + b, dense: for small label sets; see `predict_top` for large ones.

    Parameters
    ----------
    model : LinearModel
    features : (n, d) matrix
        Dense or sparse.

    Returns
    -------
    (n, L) float32

    Raises
    ------
    ValueError
        If the model is damaged, or has another number of features.

    Examples
    --------
    >>> model = LinearModel((Shard(np.float32([[1, 0], [0, 1]]), np.float32([1, 1])),), "logistic")
    >>> scores(model, [[2.0, 0.0]])
    array([[3., 1.]], dtype=float32)
    """
    model = checked(model)
    matrix = training.checked_features(features, model.n_features)
    out = np.empty((matrix.shape[0], model.n_labels), dtype=np.float32)
    start = 0
    for part in model.shards:
        stop = start + len(part.bias)
        product = matrix @ part.weights.T
        out[:, start:stop] = product.toarray() if sp.issparse(product) else product
        out[:, start:stop] += part.bias
        start = stop
    return out


def probabilities(model: LinearModel, features: FeaturesLike) -> Singles:
    """Return P(label | row), dense, by the link of the training loss.

    σ(s) for logistic, (1 + s)/2 for squared hinge and s for squared error, both clipped to [0, 1],
    eˢ / Σ eˢ for softmax.

    Parameters
    ----------
    model : LinearModel
    features : (n, d) matrix
        Dense or sparse.

    Returns
    -------
    (n, L) float32

    Raises
    ------
    ValueError
        If the model is damaged, its loss unknown, or it has another number of features.

    Examples
    --------
    >>> model = LinearModel((Shard(np.float32([[1]]), np.float32([0])),), "logistic")
    >>> probabilities(model, [[0.0]])
    array([[0.5]], dtype=float32)
    """
    link = PROBABILITIES[checks.one_of(model.loss, PROBABILITIES, "loss")]
    return np.asarray(link(scores(model, features)))


class Ranking(NamedTuple):
    """The order of labels that is asked for; see `predict_top`."""

    k: int
    rank_by: str = "score"
    propensity: Floats | None = None

    def of_labels(self, start: int, stop: int) -> Ranking:
        """Return the ranking of some labels."""
        p = self.propensity
        return self if p is None else self._replace(propensity=p[start:stop])


@named_options
def predict_top(
    model: LinearModel | PathLike | Estimator,
    features: FeaturesLike,
    k: int,
    *,
    rank_by: str = "score",
    propensity: PropensityLike | None = None,
    backend: BackendLike = None,
    by: str | None = None,
) -> TopK:
    """Return the k best labels of every row; no n × L matrix at any time.

    Parameters
    ----------
    model : LinearModel, path or estimator
        A model, or the folder of one, which workers that see it map for themselves; or a trained
        `LinearClassifier`, also as the last step of a scikit-learn pipeline, which then says the
        ranking's propensities and the backend itself.
    features : matrix of shape (n, d)
        Features, dense or sparse.
    k : int
        Labels per row; all of them where there are fewer.
    rank_by : {"score", "probability/propensity"}
        "probability/propensity" ranks by P(label observed | row) / p: the order that is best for
        precision on the true labels when training saw observed ones (the idea of PS-PLT, for
        one-vs-all). Ties: the smaller label first.
    propensity : array of shape (L,), optional
        Needed for "probability/propensity".
    backend : optional
        Whose workers predict (`unmask.parallel`); by default the threads of this process.
    by : {"rows", "labels"}, optional
        The tasks of a backend (see the module); by default rows, unless the model is larger than
        half the memory of a worker.

    Returns
    -------
    TopK
        The same numbers by every backend and either way.

    Raises
    ------
    ValueError
        If the model is damaged, has another number of features, or needs propensities.

    References
    ----------
    Wydmuch et al., *Propensity-scored probabilistic label trees* (2021).

    Examples
    --------
    >>> weights = np.float32([[1, 0], [0, 1], [1, 1]])
    >>> model = LinearModel((Shard(weights, np.zeros(3, np.float32)),), "logistic")
    >>> predict_top(model, [[1.0, 0.5]], 2).labels
    array([[2, 0]], dtype=int32)
    >>> by_ratio = {"rank_by": "probability/propensity", "propensity": [1, 0.1, 1]}
    >>> predict_top(model, [[1.0, 0.5]], 2, **by_ratio).labels
    array([[1, 2]], dtype=int32)
    >>> predict_top(model, [[1.0, 0.5], [0.0, 1.0]], 2, by="labels").labels
    array([[2, 0],
           [1, 2]], dtype=int32)
    """
    folder = None
    if hasattr(model, "steps") or hasattr(model, "predict_top"):
        return _by_estimator(model, features, k, rank_by)
    if isinstance(model, LinearModel):
        loaded = checked(model)
    else:
        folder = _complete(Path(model).resolve())
        loaded = _load(*folder, verify=True)
    rows = training.checked_features(features, loaded.n_features)
    p = None if propensity is None else checks.propensity(propensity, loaded.n_labels)
    ranking = Ranking(min(checks.positive_int(k, "k"), loaded.n_labels), rank_by, p)
    if backend is None and by is None:
        return best_labels(loaded, rows, ranking)
    with parallel.connect(backend) as runner:
        if by is None:
            by = split_by(loaded, runner.resources().memory)
        if checks.one_of(by, SPLITS, "way to split the work") == "labels":
            top = _by_labels(runner, loaded, rows, ranking)
        else:
            plain = LinearModel(tuple(part.unmapped for part in loaded.shards), loaded.loss)
            shared = folder if folder and runner.shares_folder(folder[0]) else plain
            top = _by_rows(runner, shared, rows, ranking)
    return top if loaded.label_names is None else top.named(names=loaded.label_names)


def _by_estimator(estimator: Estimator, features: FeaturesLike, k: int, rank_by: str) -> TopK:
    """Return what a classifier predicts, or the last step of a pipeline after those before it."""
    steps = getattr(estimator, "steps", None)
    last = estimator if steps is None else steps[-1][1]
    if not hasattr(last, "predict_top"):
        kind = type(last).__name__
        raise ValueError(f"a {kind} has no `predict_top`; use a LinearClassifier as last step.")
    rows = features if steps is None or len(steps) == 1 else estimator[:-1].transform(features)
    top: TopK = last.predict_top(rows, k, rank_by=rank_by)
    return top


def split_by(model: LinearModel, memory: int | None) -> str:
    """Return the tasks of workers that have so much memory."""
    return "rows" if memory is None or 2 * size(model) <= memory else "labels"


def _by_rows(
    runner: parallel.Runner,
    model: LinearModel | tuple[Path, Record],
    rows: sp.csr_array,
    ranking: Ranking,
) -> TopK:
    resources = runner.resources()
    height = max(1, -(-rows.shape[0] // (2 * resources.workers * resources.threads)))
    tasks = [rows[i : i + height] for i in range(0, rows.shape[0], height)] or [rows]
    with closing(runner.run(_top_of_rows, tasks, (model, ranking))) as parts:
        tops = [top for _, top in sorted(parts, key=lambda part: part[0])]
    labels = np.concatenate([top.labels for top in tops])
    return TopK(labels, np.concatenate([top.scores for top in tops]))


def _top_of_rows(
    shared: tuple[LinearModel | tuple[Path, Record], Ranking], rows: sp.csr_array
) -> TopK:
    model, ranking = shared  # by its manifest, so that all use one model even if it is replaced
    loaded = model if isinstance(model, LinearModel) else _load(*model, verify=False)
    return best_labels(loaded, rows, ranking)


def _by_labels(
    runner: parallel.Runner, model: LinearModel, rows: sp.csr_array, ranking: Ranking
) -> TopK:
    resources = runner.resources()
    tasks = [(start, part.unmapped) for start, part in _split(model, PIECE)]
    shared = model.loss, rows, ranking
    ahead = 2 * resources.workers * resources.threads  # shards are large; no more on their way
    with closing(runner.run(_top_of_shard, tasks, shared, ahead=ahead)) as parts:
        return reduce(merged, (part for _, part in parts))


def _top_of_shard(shared: tuple[str, sp.csr_array, Ranking], task: tuple[int, Shard]) -> TopK:
    (loss, rows, ranking), (start, part) = shared, task
    own = ranking.of_labels(start, start + len(part.bias))
    best = best_labels(LinearModel((part,), loss), rows, own)
    return TopK(np.where(best.labels < 0, -1, best.labels + start), best.scores)


def merged(first: TopK, second: TopK) -> TopK:
    """Return the best k of two predictions for the same rows, from different labels.

    >>> merged(TopK([[0, 1]], [[0.9, 0.2]]), TopK([[7, 8]], [[0.5, 0.4]])).labels
    array([[0, 7]], dtype=int32)
    """
    both = TopK.sorted(np.c_[first.labels, second.labels], np.c_[first.scores, second.scores])
    return TopK(both.labels[:, : first.k], both.scores[:, : first.k])


class Linked(NamedTuple):
    """A ranking as kernels take it: the link of the score, 1/p, and the biases."""

    link: int
    inverse: Singles
    bias: Singles


def best_labels(model: LinearModel, matrix: sp.csr_array, ranking: Ranking) -> TopK:
    """Return the best labels of every row, by a checked model of checked rows."""
    k = ranking.k
    labels = np.full((matrix.shape[0], min(k, model.n_labels)), -1, dtype=np.int32)
    scores = np.full(labels.shape, -np.inf, dtype=np.float32)
    find = _top_sparse if model.sparse else _top_dense
    find(model, matrix, _linked(model, ranking), labels, scores)
    missing = ((0, 0), (0, k - labels.shape[1]))
    return TopK(
        np.pad(labels, missing, constant_values=-1),
        np.pad(scores, missing, constant_values=-np.inf),
        names=model.label_names,
    )


def _linked(model: LinearModel, ranking: Ranking) -> Linked:
    """Return the ranking of kernels; biases absorb 1/p where the link is exponential."""
    rank_by = ranking.rank_by
    if not training.by_ratio(rank_by):
        return Linked(kernels.SCORE, np.ones(model.n_labels, dtype=np.float32), model.bias)
    p = training.ranking_propensity(
        rank_by, ranking.propensity, model.n_labels, of="linear.predict_top"
    )
    checks.singles_propensity(p, f"ranking by {rank_by}")
    inverse = (1 / p).astype(np.float32)
    if model.loss == "softmax":
        return Linked(kernels.SCORE, inverse, model.bias + np.log(inverse))
    return Linked(_LINKS[model.loss], inverse, model.bias)


def _top_sparse(
    model: LinearModel, matrix: sp.csr_array, linked: Linked, labels: Indices, scores: Singles
) -> None:
    link, inverse, bias = linked
    columns = sp.csc_array(model.weights)
    by_feature = Rows(columns.indptr, columns.indices, columns.data)
    ranks = np.array([kernels.rank(link, i, b) for i, b in zip(inverse, bias, strict=True)])
    order = np.lexsort((np.arange(len(bias)), -ranks))
    x = Rows(matrix.indptr, matrix.indices, matrix.data)

    def work(start: int, stop: int) -> None:
        kernels.sparse(x, by_feature, bias, order, link, inverse, start, stop, labels, scores)

    in_chunks(row_bounds(matrix.indptr, 1 << 15), work)


def _top_dense(
    model: LinearModel, matrix: sp.csr_array, linked: Linked, labels: Indices, scores: Singles
) -> None:
    block = np.zeros((model.n_features + 1, BLOCK), dtype=np.float32)
    sizes = np.zeros(matrix.shape[0], dtype=np.int64)
    bounds = row_bounds(matrix.indptr)
    base = 0
    for part in model.shards:
        own = linked.bias[base : base + len(part.bias)]
        for first in range(0, len(part.bias), BLOCK):
            count = min(BLOCK, len(part.bias) - first)
            kernels.interleave(part.weights, own, first, first + count, block)

            def work(start: int, stop: int, label: int = base + first, count: int = count) -> None:
                x = Rows(matrix.indptr[start : stop + 1], matrix.indices, matrix.data)
                values = np.empty((stop - start, BLOCK), dtype=np.float32)
                forward(x, block, values)
                heaps = labels[start:stop], scores[start:stop], sizes[start:stop]
                kernels.offer_block(values, label, count, linked.link, linked.inverse, *heaps)

            in_chunks(bounds, work)
        base += len(part.bias)
    kernels.drain(labels, scores, sizes)
