"""Running tasks: the interface, and threads of this process or the configured joblib backend."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from unmask import _kernels

T = TypeVar("T")
Work = Callable[[Any, Any], T]
"""`work(shared, task)`; what the two are is between the work and whoever starts it."""

PATIENCE = 300.0  # seconds to wait for the first worker
AHEAD = 64  # tasks submitted at once: enough for an adaptive cluster to see that it should grow


class Resources(NamedTuple):
    """What there is to work with.

    Attributes
    ----------
    workers : int
        How many.
    threads : int
        Threads of each; of the largest, where they differ.
    memory : int or None
        Bytes of the smallest worker; None if unknown.

    Examples
    --------
    >>> LocalRunner().resources().workers
    1
    """

    workers: int
    threads: int
    memory: int | None


class Runner(Protocol):
    """Runs tasks: `LocalRunner` here, `DaskRunner` on a cluster.

    Examples
    --------
    >>> def squares(runner: Runner, numbers: list[int]) -> list[int]:
    ...     return [square for _, square in sorted(runner.run(lambda _, x: x * x, numbers))]
    >>> squares(LocalRunner(), [1, 2, 3])
    [1, 4, 9]
    """

    def run(
        self,
        work: Work[T],
        tasks: Iterable[object],
        shared: object = None,
        *,
        folder: Path | None = None,
        ahead: int = AHEAD,
    ) -> Generator[tuple[int, T], None, None]:
        """Run every task.

        Parameters
        ----------
        work : function of (shared, task)
            It must be importable by the workers.
        tasks : iterable
            What differs from task to task.
        shared : object, optional
            What all tasks need; it is brought to every worker once.
        folder : Path, optional
            Where `shared` is written and mapped, if all workers see the folder; else it is sent.
        ahead : int, default 64
            How many tasks are submitted before the first one finishes.

        Yields
        ------
        tuple of int and object
            Position of a task and its result, in the order in which tasks finish.
        """
        ...

    def shares_folder(self, folder: Path) -> bool:
        """Whether every worker sees what this process writes to `folder`."""
        ...

    def resources(self) -> Resources:
        """What there is to work with."""
        ...


class LocalRunner:
    """This process and its threads; inside `joblib.parallel_config`, the backend named there.

    Examples
    --------
    >>> sorted(LocalRunner().run(lambda shared, task: shared + task, [1, 2], 10))
    [(0, 11), (1, 12)]
    """

    def run(
        self,
        work: Work[T],
        tasks: Iterable[object],
        shared: object = None,
        *,
        folder: Path | None = None,
        ahead: int = AHEAD,
    ) -> Generator[tuple[int, T], None, None]:
        """See `Runner`; joblib maps large arrays by itself, so `folder` is not needed."""
        import joblib

        waiting = list(enumerate(tasks))
        configured = joblib.effective_n_jobs(None)
        jobs = configured if configured > 1 else min(_kernels.threads(), len(waiting))
        if jobs <= 1 or len(waiting) == 1:
            yield from ((position, work(shared, task)) for position, task in waiting)
            return
        parallel = joblib.Parallel(
            n_jobs=None if configured > 1 else jobs,
            prefer="threads",
            return_as="generator_unordered",
            mmap_mode="c",  # writable to the eye, so that kernels need not be compiled again
            batch_size=1,
        )
        finished = parallel(
            joblib.delayed(_numbered)(work, shared, position, task) for position, task in waiting
        )
        try:
            for pair in finished:  # noqa: UP028 (`yield from` would close it first)
                yield pair
        finally:
            with warnings.catch_warnings():  # joblib's, that not every result was taken
                warnings.simplefilter("ignore", UserWarning)
                finished.close()

    def shares_folder(self, folder: Path) -> bool:
        """Processes of joblib may be anywhere; what they make comes back."""
        return False

    def resources(self) -> Resources:
        """One worker with the threads and the free memory of this process."""
        return Resources(1, _kernels.threads(), _free_memory())


def _numbered(work: Work[T], shared: object, position: int, task: object) -> tuple[int, T]:
    """One task on one thread, as the others are busy with theirs."""
    with _kernels.using_threads(1):
        return position, work(shared, task)


def _free_memory() -> int | None:
    """What Linux says could be used; elsewhere unknown."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((1024 * int(x.split()[1]) for x in lines if x.startswith("MemAvailable")), None)
