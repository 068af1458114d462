"""Tasks on the workers of a Dask scheduler, which may join, leave and die."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from uuid import uuid4

from unmask import __version__, _kernels
from unmask.parallel.runner import AHEAD, PATIENCE, Resources, T, Work
from unmask.parallel.shared import Box, Held, Mapped, NotHeldError, adopt, forget, holds, mapped

if TYPE_CHECKING:
    from types import ModuleType

    from distributed import Client, Future, Scheduler

RETRIES = 2  # of a task that failed, on whichever worker is free
LOSSES = 3  # times in a row that everything may be lost


Key = tuple[str, int, str]
"""Of a task: the name of the work, the position, and a part that is new in every attempt."""


class DaskRunner:
    """The workers of a Dask scheduler.

    Parameters
    ----------
    client : distributed.Client
        The connection to the scheduler; it stays open.
    patience : float, default 300
        Seconds to wait for a first worker.

    Raises
    ------
    OSError
        If no worker comes in time, or one cannot import this package.
    ValueError
        If a worker has another version of it.

    Examples
    --------
    With a scheduler that runs already; `connect("tcp://…")` opens and closes the client itself.

    >>> from distributed import Client  # doctest: +SKIP
    >>> with Client("tcp://scheduler:8786") as client:  # doctest: +SKIP
    ...     sorted(DaskRunner(client).run(work, tasks))
    """

    def __init__(self, client: Client, patience: float = PATIENCE) -> None:
        """Wait for a first worker (a task makes an adaptive cluster grow), then ask them all."""
        self.client, self.patience = client, patience
        self._check_workers()

    def _check_workers(self) -> None:
        address = getattr(self.client.scheduler, "address", "")
        try:
            self.client.submit(_worker_version, pure=False).result(timeout=self.patience)
            answers = self.client.run(_worker_version, on_error="ignore")
        except TimeoutError:
            raise OSError(
                f"no worker came to the scheduler at {address} within {self.patience:g} s; "
                "start workers, or wait longer."
            ) from None
        except ModuleNotFoundError as error:
            raise OSError(
                f"a worker of {address} cannot import unmask ({error}); install version "
                f"{__version__} there."
            ) from None
        others = {address: v for address, v in answers.items() if v != __version__}
        if others:
            address, version = next(iter(others.items()))
            raise ValueError(
                f"worker {address} has unmask {version} and this process {__version__}; install "
                "one version everywhere, so that one model comes out."
            )

    def run(
        self,
        work: Work[T],
        tasks: Iterable[object],
        shared: object = None,
        *,
        folder: Path | None = None,
        ahead: int = AHEAD,
    ) -> Generator[tuple[int, T], None, None]:
        """See `Runner`."""
        losses = (CancelledError, need_distributed().comm.CommClosedError)
        waiting = dict(enumerate(tasks))
        lost = 0
        while waiting:
            before = len(waiting)
            try:
                with self._shared_value(shared, folder) as source:
                    yield from self._round(work, waiting, source, shared, max(ahead, 1))
            except losses as error:
                lost = 1 if len(waiting) < before else lost + 1
                self._wait_for_scheduler(lost, len(waiting), error)

    def _round(
        self,
        work: Work[T],
        waiting: dict[int, object],
        source: Held | Mapped | None,
        shared: object,
        ahead: int,
    ) -> Generator[tuple[int, T], None, None]:
        """Submit what is waiting; take out of it what has finished."""
        running = need_distributed().as_completed(loop=self.client.loop)
        queue, alone = deque(waiting), len(waiting) == 1
        positions: dict[Key, int] = {}
        name = f"{getattr(work, '__name__', 'work')}-{uuid4().hex[:12]}"

        def submit(position: int) -> None:
            task = Box((work, source, waiting[position], alone, os.getpid()))
            key = (name, position, uuid4().hex[:4])
            future = self.client.submit(_run_task, task, key=key, retries=RETRIES, pure=False)
            positions[key] = position
            running.add(future)

        try:
            with _quiet():
                for _ in range(min(ahead, len(queue))):
                    submit(queue.popleft())
                for future in running:
                    position, result = positions.pop(future.key), _outcome(future)
                    if isinstance(result, _Missing):
                        self._supply(result.address, cast(Held, source), shared)
                        submit(position)
                        continue
                    del waiting[position]
                    if queue:
                        submit(queue.popleft())
                    yield position, result
        finally:
            if self.client.status == "running":
                self.client.cancel(list(running.futures))

    @contextmanager
    def _shared_value(self, value: object, folder: Path | None) -> Iterator[Held | Mapped | None]:
        """A handle from which a task reads `value`."""
        if value is None:
            yield None
        elif folder is not None and self.shares_folder(folder):
            with mapped(value, folder) as handle:
                yield handle
        else:
            source = Held(uuid4().hex)
            self._bring(source, value)
            try:
                yield source
            finally:
                if self.client.status == "running":
                    self.client.run(forget, source.token, on_error="ignore")

    def _bring(self, source: Held, value: object, workers: list[str] | None = None) -> None:
        """Send the value to these workers, by default to all."""
        broadcast = workers is None
        future = self.client.scatter(Box(value), workers, broadcast=broadcast, hash=False)
        self.client.run(adopt, source.token, future.key, workers=workers, on_error="ignore")

    def _supply(self, address: str, source: Held, value: object) -> None:
        """Bring the value to a worker that came late, unless it died, or got it meanwhile."""
        answers = self.client.run(holds, source.token, workers=[address], on_error="ignore")
        if answers.get(address) is False:
            with suppress(TimeoutError, ValueError, KeyError):  # no such worker any more
                self._bring(source, value, workers=[address])

    def shares_folder(self, folder: Path) -> bool:
        """Ask every worker for a file that has just been made."""
        token = folder.resolve() / f".probe-{uuid4().hex}"
        token.touch()
        try:
            answers = self.client.run(os.path.exists, str(token), on_error="ignore").values()
            return bool(answers) and all(answers)
        finally:
            token.unlink()

    def resources(self) -> Resources:
        """As the scheduler knows it; a worker without a limit has the memory of its machine."""
        workers = self.client.run_on_scheduler(_workers)
        limits = [limit for _, limit in workers if limit]
        threads = max(threads for threads, _ in workers)
        return Resources(len(workers), threads, min(limits) if limits else None)

    def _wait_for_scheduler(self, lost: int, left: int, error: Exception) -> None:
        """After a loss: wait for the scheduler; OSError if it is gone or losses repeat."""
        deadline = time.monotonic() + self.patience
        while self.client.status == "connecting" and time.monotonic() < deadline:
            time.sleep(0.1)
        if self.client.status != "running":
            raise OSError(
                f"the connection to the scheduler was lost with {left} tasks unfinished; what was "
                "finished is kept: start the scheduler and the same command again."
            ) from error
        if lost > LOSSES:
            raise OSError(
                f"everything was lost {lost} times in a row with {left} tasks unfinished ({error})."
            ) from error
        self._check_workers()


class _Missing(NamedTuple):
    """The worker at this address does not hold what was shared."""

    address: str


class _Refused(NamedTuple):
    """A ValueError: trying again would not help."""

    error: ValueError


def _run_task(boxed: Box) -> object:
    """On a worker: run one task on one thread, or on all if it is the only task."""
    work, source, task, alone, owner = boxed.value
    if os.getpid() != owner:
        _kernels.set_threads(need_distributed().get_worker().state.nthreads if alone else 1)
    try:
        return work(None if source is None else source.value, task)
    except NotHeldError:
        return _Missing(need_distributed().get_worker().address)
    except ValueError as error:
        return _Refused(error)


def _outcome(future: Future[object]) -> Any:
    try:
        result = future.result()
    except need_distributed().KilledWorker as error:
        raise OSError(
            f"a task took its worker down {error.allowed_failures + 1} times, last on "
            f"{error.last_worker.address}: probably more memory than the worker has. Give workers "
            "more memory, fewer threads each, or smaller blocks."
        ) from None
    except MemoryError as error:
        raise OSError(
            f"a worker has too little memory for a task ({error}); give workers more memory, fewer "
            "threads each, or smaller blocks."
        ) from None
    if isinstance(result, _Refused):
        raise result.error
    return result


@contextmanager
def _quiet() -> Iterator[None]:
    """A task may carry the labels of its block; Dask takes that for a mistake."""
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "100GB"}):
        yield


def _worker_version() -> str:
    return __version__


def _workers(dask_scheduler: Scheduler) -> list[tuple[int, int]]:
    return [(w.nthreads, w.memory_limit) for w in dask_scheduler.workers.values()]


def need_distributed() -> ModuleType:
    """The package `distributed`; ValueError says how to install it."""
    try:
        import distributed
    except ImportError:
        raise ValueError(
            "this needs Dask: pip install 'unmask[dask]', here and on the workers."
        ) from None
    return distributed
