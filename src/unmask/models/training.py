"""Trainings of every kind of model: recipes, rows, independent tasks, plans.

A training is a `Recipe` (frozen, every parameter checked as its field says), rows that were checked
(`checked_rows`), and `Work`: tasks that do not depend on each other, such as blocks of labels or
subtrees. `Work.run` solves them on the threads of this process or on the workers of a backend;
with a folder, each is written as it is finished, by the worker that made it if that sees the
folder, and the manifest names it then: whoever stops a training keeps what was listed, and the same
call goes on after it. What comes out does not depend on who solved what.

    memory of a worker = process + features + threads × task
    time               = seconds per label, measured on a sample, × labels, spread over the workers
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp

from unmask import parallel
from unmask._messages import setting, warn
from unmask._typing import (
    FeaturesLike,
    Floats,
    Ints,
    LabelsLike,
    Progress,
    PropensityLike,
)
from unmask.arrays import checks
from unmask.models.store import Entry, Format, Parameter

T = TypeVar("T")
Check = Callable[[Any, str], object]
TINY = float(np.finfo(float).tiny)
BIASES = ("regularized", "free", "none")
RANKINGS = ("score", "probability/propensity")
PROCESS = 400 << 20  # Python with numba, scipy and Dask loaded, and the compiled kernels


class UnconvergedWarning(UserWarning):
    """Some labels ran out of iterations.

    Examples
    --------
    >>> import warnings
    >>> from unmask import linear
    >>> features, labels = np.eye(4), np.eye(4, dtype=int)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model, log = linear.train(features, labels, linear.Recipe(tol=1e-12, max_iter=1))
    >>> {each.category.__name__ for each in caught}
    {'UnconvergedWarning'}
    """


class NonConvexWarning(UserWarning):
    """Some labels have a problem that is not convex; the result is a local minimum.

    Examples
    --------
    >>> import warnings
    >>> from unmask import linear
    >>> features, labels = np.ones((10, 1)), np.eye(10, 1, dtype=int)
    >>> recipe = linear.Recipe(loss="squared_hinge", correction="unbiased")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model, log = linear.train(features, labels, recipe, propensity=[0.5])
    >>> {each.category.__name__ for each in caught}
    {'NonConvexWarning'}
    """


def checked(default: T, check: Check | None = None, help: str = "") -> T:
    """Return a field of a recipe, whose values `check(value, name)` refuses if they are wrong.

    `help` is what the command line says of it.
    """
    return field(default=default, metadata={"help": help} | ({"check": check} if check else {}))


def one_of(choices: Iterable[str], name: str) -> Check:
    """Return the check that a value is one of these."""
    return lambda value, _: checks.one_of(value, choices, name)


above_zero: Check = partial(checks.in_range, low=TINY, high=np.inf)
not_negative: Check = partial(checks.in_range, low=0, high=np.inf)


def optional(check: Check) -> Check:
    """Return a check that lets None pass."""
    return lambda value, name: value is None or check(value, name)


@dataclass(frozen=True)
class BaseRecipe:
    """The parameters of a training of some kind of model, checked as their fields say."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        for each in fields(self):
            if "check" in each.metadata:
                each.metadata["check"](getattr(self, each.name), each.name)

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Names and values, as a stored model keeps them."""
        return asdict(self)


def checked_rows(features: FeaturesLike, labels: LabelsLike) -> tuple[sp.csr_array, sp.csr_array]:
    """Return features and labels of training rows; ValueError if there is nothing to learn."""
    x = checks.narrow(checks.columns(features))
    y = checks.narrow(checks.labels(labels))
    checks.same_rows(x, y, "features", "labels")
    if min(x.shape) < 1 or y.shape[1] < 1:
        raise ValueError(
            f"training needs rows, features and labels; got {x.shape[0]} rows, {x.shape[1]} "
            f"features and {y.shape[1]} labels."
        )
    return x, y


def checked_features(features: FeaturesLike, n_features: int) -> sp.csr_array:
    """Return checked rows that a model of so many features predicts for."""
    matrix = checks.narrow(checks.columns(features))
    if matrix.shape[1] != n_features:
        raise ValueError(f"the model has {n_features} features; got rows with {matrix.shape[1]}.")
    return matrix


def row_weights(weights: object, n: int) -> Floats | None:
    """Return how much every row counts; None if every row counts once."""
    if weights is None:
        return None
    numbers = checks.numbers(weights, "sample weights")
    if numbers.shape != (n,):
        raise ValueError(f"sample weights must be one number per row ({n}); got {numbers.shape}.")
    usable = np.isfinite(numbers) & (numbers >= 0)
    if not usable.all():
        raise ValueError(f"sample weights must be 0 or more; got {numbers[~usable][0]:g}.")
    if n and not numbers.any():
        raise ValueError("the sample weights of all rows are zero; give some row a weight.")
    return None if (numbers == 1).all() else numbers.astype(np.float64)


def by_ratio(rank_by: str) -> bool:
    """Return whether labels are ranked by probability / propensity, and not by score."""
    return checks.one_of(rank_by, RANKINGS, "ranking") != "score"


def ranking_propensity(
    rank_by: str, propensity: PropensityLike | None, n_labels: int, *, of: str
) -> Floats:
    """Return checked propensities to rank by; `of` is the function that takes them."""
    if propensity is None:
        raise ValueError(
            f"ranking by {rank_by} needs the propensity of every label; give it with "
            f"{setting('propensity', of=of)}."
        )
    return checks.propensity(propensity, n_labels)


def no_propensities(correction: str, *, of: str) -> ValueError:
    """Say that a correction has no propensities; `of` is the function that takes them."""
    return ValueError(
        f"{correction} weights need propensities, one per label; give them with "
        f"{setting('propensity', of=of)}."
    )


def warn_unconverged(what: str, iterations: int, *, of: str = "linear.train") -> None:
    """Warn that something needs more iterations; `of` is the function that takes them."""
    more = f"{setting('max_iter', of=of)} or {setting('tol', of=of)}"
    warn(
        f"{what} did not converge in {iterations} iterations; raise {more}, or scale the features "
        "to unit rows.",
        UnconvergedWarning,
    )


def counter(progress: Progress | None, total: int) -> Callable[[int], None]:
    """Turn "so many more are finished" into progress(done, total)."""
    finished = 0

    def note(more: int) -> None:
        nonlocal finished
        finished += more
        if progress is not None and more:
            progress(finished, total)

    return note


class Task(Protocol):
    """A task: anything that can be sent to a worker and says how many labels it trains."""

    @property
    def n_labels(self) -> int:
        """Labels that are finished with it."""
        ...


class Done(NamedTuple):
    """A task that is done: a log, and a piece of the model or the entry of its file."""

    log: Any
    piece: Any = None
    entry: Entry | None = None


@dataclass(frozen=True)
class Work:
    """The independent tasks of a training.

    Attributes
    ----------
    solve : function (shared, task) -> (piece, log)
        Importable by workers; the piece is None where there is no solution.
    write : function (folder, task, piece) -> Entry
        Writes the file of a piece; importable by workers, too.
    shared : object
        What all tasks need; it is brought to every worker once.
    tasks : sequence
    """

    solve: Callable[[Any, Any], tuple[Any, Any]]
    write: Callable[[Path, Any, Any], Entry]
    shared: Any
    tasks: Sequence[Task]

    def run(
        self,
        runner: parallel.Runner,
        finish: Callable[[Any, Done], None],
        note: Callable[[int], None],
        folder: Path | None = None,
    ) -> None:
        """Solve all tasks, in any order; `finish` gets each with what came of it."""
        written_to = str(folder) if folder and runner.shares_folder(folder) else None
        shared = self.solve, self.write, self.shared, written_to
        with closing(runner.run(_run_task, self.tasks, shared, folder=folder)) as results:
            for position, done in results:
                finish(self.tasks[position], done)
                note(self.tasks[position].n_labels)

    def run_into(
        self,
        folder: Path,
        form: Format,
        kind: str,
        runner: parallel.Runner,
        report: Callable[[Any, Any], None],
        note: Callable[[int], None],
    ) -> None:
        """Solve all tasks and list each in the manifest; its file first, and seen to be whole."""

        def add(task: Task, done: Done) -> None:
            report(task, done.log)
            form.add(folder, kind, done.entry or self.write(folder, task, done.piece))

        self.run(runner, add, note, folder)


def _run_task(shared: tuple[Any, Any, Any, str | None], task: Task) -> Done:
    """Solve a task, wherever that is; its piece goes into the folder if that is seen there."""
    solve, write, common, folder = shared
    piece, log = solve(common, task)
    if piece is None or folder is None or not os.path.isdir(folder):
        return Done(log, piece)
    return Done(log, entry=write(Path(folder), task, piece))


@contextmanager
def keeping(folder: Path, kept: Callable[[], int], total: int) -> Iterator[None]:
    """Say together with errors of the disk how many labels are safe."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        says = f"{error.strerror}; {kept()} of {total} labels are kept in {folder}: make room or "
        says += "repair what is wrong, and start the same training again to go on"
        raise OSError(error.errno, says, error.filename) from error


@dataclass(frozen=True, kw_only=True)
class BasePlan:
    """The needs of a training of any kind: memory in bytes, time in seconds."""

    rows: int
    features: int
    labels: int
    threads: int
    memory: int
    available: int | None
    seconds_per_label: float
    seconds: float
    model_bytes: int
    sampled: int

    def to_dict(self) -> dict[str, int | float | None]:
        """Return names and values."""
        return asdict(self)


def spread_labels(counts: Ints, most: int) -> Ints:
    """Return labels at even distances in the order of their frequencies; `counts` are rows.

    >>> spread_labels(np.array([9, 1, 5, 7]), 2).tolist()
    [2, 0]
    """
    order = np.argsort(counts, kind="stable")
    places = np.linspace(0, len(order), min(most, len(order)), endpoint=False)
    return order[(places + len(order) / len(places) / 2).astype(np.int64)]


def gigabytes(size: int) -> str:
    """Return a number of bytes as people say it.

    >>> gigabytes(1_500_000_000), gigabytes(20_000_000)
    ('1.5 GB', '0.02 GB')
    """
    return f"{size / 1e9:.2g} GB" if size < 10e9 else f"{size / 1e9:,.0f} GB"
