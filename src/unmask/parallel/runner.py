"""The interface of everything that runs tasks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

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
    """

    workers: int
    threads: int
    memory: int | None


class Runner(Protocol):
    """Runs tasks: `LocalRunner` here, `DaskRunner` on a cluster."""

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
