"""Where blocks of work run: on threads here, wherever joblib is told to, or on a Dask cluster.

Work is cut into independent tasks by those who know it (labels, rows, shards, repetitions), and a
`Crew` runs them: `crew.run(work, tasks, placed)` yields (position, `work(placed, task)`) as tasks
finish. What all tasks need is *placed* once per worker, never sent with a task. Nothing here knows
any mathematics, and nothing else knows Dask (docs/decisions/0007).

    backend                          runs on
    None                             threads of this process, or what `joblib.parallel_config` says
    "local:4"                        four worker processes of this machine
    "tcp://host:8786"                the workers of that Dask scheduler
    a distributed Client or cluster  its workers

A worker that dies costs the tasks it was running; they run again elsewhere. If the scheduler or all
copies of what was placed are lost, everything unfinished is placed and submitted again, a few times
at most. Then, or when there is nobody left, an OSError says what happened.
"""

from __future__ import annotations

import os
import pickle
import re
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import uuid4

import numpy as np

from unmask import __version__, _checks, _files, _kernels

T = TypeVar("T")
Work = Callable[[Any, Any], T]

PATIENCE = 300.0  # seconds to wait for the first worker
RETRIES = 2  # of a task that failed, on whichever worker is free
LOSSES = 3  # times in a row that everything may be lost
AHEAD = 64  # tasks submitted at once: enough for an adaptive cluster to see that it should grow


class Room(NamedTuple):
    """Workers, threads of each, and the memory of the smallest in bytes (None: unknown)."""

    workers: int
    threads: int
    memory: int | None


class Crew(Protocol):
    """Somebody who runs tasks."""

    def run(
        self,
        work: Work[T],
        tasks: Iterable[Any],
        placed: Any = None,
        *,
        folder: Path | None = None,
        ahead: int = AHEAD,
    ) -> Generator[tuple[int, T], None, None]:
        """(position, `work(placed, task)`) of every task, in the order in which they finish.

        In `folder`, `placed` is written and mapped by the workers, if all of them see it; else it
        is sent to each. At most `ahead` tasks are submitted before the first one finishes.
        """
        ...

    def sees(self, folder: Path) -> bool:
        """Whether every worker sees what this process writes to `folder`."""
        ...

    def room(self) -> Room:
        """What there is to work with."""
        ...


@contextmanager
def connect(backend: Any = None, *, patience: float = PATIENCE) -> Iterator[Crew]:
    """The crew behind a `backend` (see the module); what was started for it ends with the block.

    `patience` is how many seconds to wait for a first worker.

    >>> with connect() as crew:
    ...     sorted(crew.run(lambda placed, task: placed + task, [1, 2, 3], 10))
    [(0, 11), (1, 12), (2, 13)]
    """
    if backend is None:
        yield Here()
    elif isinstance(backend, Here | Cluster):
        yield backend
    else:
        with _client(backend, patience) as client:
            yield Cluster(client, patience)


@contextmanager
def _client(backend: Any, patience: float) -> Iterator[Any]:
    distributed = _distributed()
    if isinstance(backend, distributed.Client):
        yield backend
    elif isinstance(backend, str) and (count := re.fullmatch(r"local:(\d+)", backend)):
        workers = _checks.count(int(count[1]), "workers")
        with (
            distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=":0"
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield client
    elif isinstance(backend, str) and ":" not in backend:
        raise ValueError(
            f"{backend!r} is no scheduler; give tcp://HOST:PORT of a Dask scheduler, or local:N "
            "for N worker processes on this machine."
        )
    else:
        with _reached(distributed, backend, patience) as client:
            yield client


def _reached(distributed: Any, backend: Any, patience: float) -> Any:
    limit = {"timeout": min(patience, 30.0)} if isinstance(backend, str) else {}
    try:
        return distributed.Client(backend, set_as_default=False, **limit)
    except (OSError, TimeoutError) as error:
        raise OSError(f"no Dask scheduler answers at {backend}: {error}") from None


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise ValueError(
            "this needs Dask: pip install 'unmask[dask]', here and on the workers."
        ) from None
    return distributed


class Here:
    """This process and its threads; inside `joblib.parallel_config`, the backend named there."""

    def run(
        self,
        work: Work[T],
        tasks: Iterable[Any],
        placed: Any = None,
        *,
        folder: Path | None = None,
        ahead: int = AHEAD,
    ) -> Generator[tuple[int, T], None, None]:
        """See `Crew`; joblib maps large arrays by itself, so `folder` is not needed."""
        import joblib

        waiting = list(enumerate(tasks))
        asked = joblib.effective_n_jobs(None)
        jobs = asked if asked > 1 else min(_kernels.threads(), len(waiting))
        if jobs <= 1 or len(waiting) == 1:
            yield from ((at, work(placed, task)) for at, task in waiting)
            return
        parallel = joblib.Parallel(
            n_jobs=None if asked > 1 else jobs,
            prefer="threads",
            return_as="generator_unordered",
            mmap_mode="c",  # writable to the eye, so that kernels need not be compiled again
            batch_size=1,
        )
        finished = parallel(
            joblib.delayed(_numbered)(os.getpid(), work, placed, at, task) for at, task in waiting
        )
        try:
            with _kernels.using_threads(1):
                for pair in finished:  # noqa: UP028 (`yield from` would close it first)
                    yield pair
        finally:
            with warnings.catch_warnings():  # joblib's, that not every result was taken
                warnings.simplefilter("ignore", UserWarning)
                finished.close()

    def sees(self, folder: Path) -> bool:
        """Processes of joblib may be anywhere; what they make comes back."""
        return False

    def room(self) -> Room:
        """One worker with the threads and the free memory of this process."""
        return Room(1, _kernels.threads(), _free_memory())


def _numbered(owner: int, work: Work[T], placed: Any, at: int, task: Any) -> tuple[int, T]:
    if os.getpid() != owner:
        _kernels.set_threads(1)
    return at, work(placed, task)


def _free_memory() -> int | None:
    """What Linux says could be used; elsewhere unknown."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((1024 * int(x.split()[1]) for x in lines if x.startswith("MemAvailable")), None)


class Cluster:
    """The workers of a Dask scheduler."""

    def __init__(self, client: Any, patience: float = PATIENCE) -> None:
        """Wait for a first worker (a task makes an adaptive cluster grow), then ask them all."""
        self.client, self.patience = client, patience
        self._greet()

    def _greet(self) -> None:
        where = self.client.scheduler.address
        try:
            self.client.submit(_hello, pure=False).result(timeout=self.patience)
            answers = self.client.run(_hello)
        except TimeoutError:
            raise OSError(
                f"no worker came to the scheduler at {where} within {self.patience:g} s; "
                "start workers, or wait longer."
            ) from None
        except ModuleNotFoundError as error:
            raise OSError(
                f"a worker of {where} cannot import unmask ({error}); install version "
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
        tasks: Iterable[Any],
        placed: Any = None,
        *,
        folder: Path | None = None,
        ahead: int = AHEAD,
    ) -> Generator[tuple[int, T], None, None]:
        """See `Crew`."""
        from concurrent.futures import CancelledError

        waiting = dict(enumerate(tasks))
        lost = 0
        while waiting:
            before = len(waiting)
            try:
                yield from self._round(work, waiting, placed, folder, ahead)
            except CancelledError as error:
                lost = 1 if len(waiting) < before else lost + 1
                self._again(lost, len(waiting), error)

    def _round(
        self, work: Work[T], waiting: dict[int, Any], placed: Any, folder: Path | None, ahead: int
    ) -> Generator[tuple[int, T], None, None]:
        """Submit what is waiting; take out of it what has finished."""
        running = _distributed().as_completed(loop=self.client.loop)
        queue, known = iter(list(waiting)), {}
        name, alone = f"{getattr(work, '__name__', 'work')}-{uuid4().hex[:12]}", len(waiting) == 1
        with self._placed(placed, folder) as source:

            def submit(at: int) -> None:
                task = _Box((work, waiting[at], alone, os.getpid()))
                future = self.client.submit(
                    _do, source, task, key=(name, at), retries=RETRIES, pure=False
                )
                known[future.key] = at
                running.add(future)

            try:
                with _quiet():
                    for at, _ in zip(queue, range(max(ahead, 1)), strict=False):
                        submit(at)
                    for future in running:
                        result = _outcome(future)
                        at = known.pop(future.key)
                        del waiting[at]
                        future.release()
                        for more in queue:
                            submit(more)
                            break
                        yield at, result
            finally:
                if self.client.status == "running":
                    self.client.cancel(list(running.futures))

    @contextmanager
    def _placed(self, value: Any, folder: Path | None) -> Iterator[Any]:
        """What a task is given in place of `value`."""
        if value is None:
            yield None
        elif folder is not None and self.sees(folder):
            with _mapped(value, folder) as handle:
                yield handle
        else:
            yield self.client.scatter(_Box(value), broadcast=True, hash=False)

    def sees(self, folder: Path) -> bool:
        """Ask every worker for a file that has just been made."""
        token = folder.resolve() / f".seen-{uuid4().hex}"
        token.touch()
        try:
            return all(self.client.run(os.path.exists, str(token)).values())
        finally:
            token.unlink()

    def room(self) -> Room:
        """As the scheduler knows it; a worker without a limit has the memory of its machine."""
        known = self.client.run_on_scheduler(_workers)
        limits = [limit for _, limit in known if limit]
        threads = max(threads for threads, _ in known)
        return Room(len(known), threads, min(limits) if limits else None)

    def _again(self, lost: int, left: int, error: Exception) -> None:
        """After a loss: is there still a scheduler, and is it worth trying?"""
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
                f"all workers were lost {lost} times in a row with {left} tasks unfinished "
                f"({error}). If they run out of memory, give them more of it or smaller blocks."
            ) from error
        self._greet()


@dataclass(frozen=True)
class _Box:
    """Keeps Dask from looking into a value that is to arrive as it is."""

    value: Any


@dataclass(frozen=True)
class _Mapped:
    """A pickle whose arrays stand in a file, at `spans`."""

    head: bytes
    path: str
    spans: tuple[tuple[int, int], ...]

    @property
    def value(self) -> Any:
        """The value, its arrays mapped."""
        if not self.spans:
            return pickle.loads(self.head)  # noqa: S301 (made by `_mapped`)
        whole = np.memmap(self.path, dtype=np.uint8, mode="c")
        return pickle.loads(  # noqa: S301
            self.head, buffers=[whole[start:stop] for start, stop in self.spans]
        )


@contextmanager
def _mapped(value: Any, folder: Path) -> Iterator[_Mapped]:
    """`value` with its arrays in a file in `folder`, which goes when the block ends."""
    arrays: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    path, spans, at = folder.resolve() / f".placed-{uuid4().hex}", [], 0
    try:
        with _files.writing(path) as file:
            for array in arrays:
                raw = array.raw()
                file.write(raw)
                file.write(bytes(-raw.nbytes % 64))
                spans.append((at, at + raw.nbytes))
                at += raw.nbytes + -raw.nbytes % 64
        yield _Mapped(head, str(path), tuple(spans))
    finally:
        path.unlink(missing_ok=True)


class _Refused(NamedTuple):
    """A ValueError: trying again would not help."""

    error: ValueError


def _do(source: _Box | _Mapped | None, boxed: _Box) -> Any:
    """On a worker. Its threads are the scheduler's to fill, unless there is but one task."""
    work, task, alone, owner = boxed.value
    if os.getpid() != owner:
        _kernels.set_threads(_distributed().get_worker().state.nthreads if alone else 1)
    try:
        return work(None if source is None else source.value, task)
    except ValueError as error:
        return _Refused(error)


def _outcome(future: Any) -> Any:
    try:
        result = future.result()
    except _distributed().KilledWorker as error:
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


def _hello() -> str:
    return __version__


def _workers(dask_scheduler: Any) -> list[tuple[int, int]]:
    return [(w.nthreads, w.memory_limit) for w in dask_scheduler.workers.values()]
