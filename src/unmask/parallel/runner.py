"""What it takes to run tasks, whoever does it."""

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
    """Workers, threads of each, and the memory of the smallest in bytes (None: unknown)."""

    workers: int
    threads: int
    memory: int | None


class Runner(Protocol):
    """Somebody who runs tasks."""

    def run(
        self,
        work: Work[T],
        tasks: Iterable[object],
        shared: object = None,
        *,
        folder: Path | None = None,
        ahead: int = AHEAD,
    ) -> Generator[tuple[int, T], None, None]:
        """(position, `work(shared, task)`) of every task, in the order in which they finish.

        In `folder`, `shared` is written and mapped by the workers, if all of them see it; else it
        is sent to each. At most `ahead` tasks are submitted before the first one finishes.
        """
        ...

    def shares_folder(self, folder: Path) -> bool:
        """Whether every worker sees what this process writes to `folder`."""
        ...

    def resources(self) -> Resources:
        """What there is to work with."""
        ...
