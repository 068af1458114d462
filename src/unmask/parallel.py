"""Running blocks of work: on threads here, on a joblib backend, or on a Dask cluster.

Work is cut into independent tasks by those who know it (labels, rows, shards, repetitions), and a
`Runner` runs them: `runner.run(work, tasks, shared)` yields (position, `work(shared, task)`) as
they finish. What all tasks need is *shared* with every worker once, never sent with a task. Nothing
here knows any mathematics, and nothing else knows Dask (docs/decisions/0007).

    backend                          runs on
    None                             threads of this process, or what `joblib.parallel_config` says
    "local:4"                        four worker processes of this machine, for us alone
    "tcp://host:8786"                the workers of that Dask scheduler
    "tls://host:8786"                over TLS, with the certificates of Dask's configuration
    Scheduler("tls://host:8786", …)  over TLS, with these certificates
    a distributed Client or cluster  its workers

A worker that dies costs the tasks it was running; they run again elsewhere. One that comes late is
brought what was shared. If the scheduler is lost and found again, everything unfinished is shared
and submitted again, a few times at most. Then, or when nobody is left, an OSError says what
happened.

`local:N` are worker processes of this machine that no other user can reach. Scheduler, workers and
their nannies listen on the loopback interface only and speak TLS. Key and certificate are made for
this one cluster, live in the memory of its processes, and are asked for on every connection, so
other users of the machine can neither send tasks nor read data. There is no dashboard. Dask starts
its HTTP servers nevertheless; they are left without a page.
"""

from __future__ import annotations

import difflib
import logging
import os
import pickle
import ssl
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar, cast
from uuid import uuid4

import numpy as np

from unmask import __version__, _kernels
from unmask._typing import PathLike
from unmask.files import atomic_write

if TYPE_CHECKING:
    import distributed
    from distributed import Client, Future, Worker
    from distributed.deploy.cluster import Cluster


__all__ = ["Scheduler", "connect"]

T = TypeVar("T")
Work = Callable[[Any, Any], T]
"""`work(shared, task)`; what the two are is between the work and whoever starts it."""

Backend: TypeAlias = "str | Scheduler | Runner | Client | Cluster | None"
"""The place to run at: see the table above."""

PATIENCE = 300.0  # seconds to wait for the first worker
MOST_PROCESSES = 64  # that `local:N` starts on a machine of few cores
AHEAD = 64  # tasks submitted at once: enough for an adaptive cluster to see that it should grow


class Resources(NamedTuple):
    """The workers that there are.

    Attributes
    ----------
    workers : int
        Their number.
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
        """Return whether every worker sees what this process writes to `folder`."""
        ...

    def resources(self) -> Resources:
        """Return the workers that there are."""
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
        """Run every task; see `Runner`. joblib maps large arrays by itself, without `folder`."""
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
        """Return False: processes of joblib may be anywhere; what they make comes back."""
        return False

    def resources(self) -> Resources:
        """Return one worker with the threads and, on Linux, the free memory of this process."""
        memory = None
        with suppress(OSError):
            lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
            free = (1024 * int(x.split()[1]) for x in lines if x.startswith("MemAvailable"))
            memory = next(free, None)
        return Resources(1, _kernels.threads(), memory)


def _numbered(work: Work[T], shared: object, position: int, task: object) -> tuple[int, T]:
    """Run one task on one thread, as the others are busy with theirs."""
    with _kernels.using_threads(1):
        return position, work(shared, task)


@contextmanager
def connect(backend: Backend = None, *, patience: float = PATIENCE) -> Iterator[Runner]:
    """Connect to a backend; what was started for it ends with the block.

    Parameters
    ----------
    backend : str, Scheduler, Runner, distributed.Client or cluster, optional
        Where to run, as in the table of this module; by default on threads of this process.
    patience : float, default 300
        Seconds to wait for a first worker of a Dask scheduler.

    Yields
    ------
    Runner

    Raises
    ------
    ValueError
        If the backend is none of the above, or certificates or versions do not fit.
    OSError
        If no scheduler answers, or no worker comes in time.

    Examples
    --------
    >>> with connect() as runner:
    ...     sorted(runner.run(lambda shared, task: shared + task, [1, 2, 3], 10))
    [(0, 11), (1, 12), (2, 13)]
    """
    if backend is None:
        yield LocalRunner()
    elif isinstance(backend, LocalRunner | DaskRunner):
        yield backend
    else:
        with _client(backend, patience) as client:
            yield DaskRunner(client, patience)


@contextmanager
def _client(backend: Backend, patience: float) -> Iterator[Client]:
    distributed = need_distributed()
    if isinstance(backend, distributed.Client):
        yield backend
    elif isinstance(backend, str) and backend.startswith("local:"):
        count = backend.removeprefix("local:")
        if not count.isdecimal() or not count.strip("0"):
            raise ValueError(f"{backend!r} names no number of processes; give local:2 for two.")
        most = max(MOST_PROCESSES, 4 * (os.cpu_count() or 1))
        if len(count) > 9 or int(count) > most:
            raise ValueError(
                f"{backend!r} is more processes than this machine runs well; at most {most}."
            )
        with local_client(distributed, int(count)) as client:
            yield client
    elif isinstance(backend, str | Scheduler):
        scheduler = Scheduler(backend) if isinstance(backend, str) else backend
        with scheduler.connect(distributed, patience) as client:
            yield client
    else:
        with distributed.Client(backend, set_as_default=False) as client:
            yield client


RETRIES = 2  # of a task that failed, on whichever worker is free
LOSSES = 3  # times in a row that everything may be lost


Key = tuple[str, int, str]
"""The key of a task: the name of the work, the position, and a part that is always new."""


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
        """Run every task; see `Runner`."""
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
        import dask

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

        # a task may carry the labels of its block, which Dask takes for a mistake
        quiet = {"distributed.admin.large-graph-warning-threshold": "100GB"}
        try:
            with dask.config.set(quiet):
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
        """Make a handle from which a task reads `value`."""
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
        """Return what the scheduler knows; a worker without a limit has that of its machine."""
        workers = self.client.run_on_scheduler(_workers_of)
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
    """Run a task, on a worker: on one thread, or on all if it is the only task."""
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


def _worker_version() -> str:
    return __version__


def _workers_of(dask_scheduler: distributed.Scheduler) -> list[tuple[int, int]]:
    return [(w.nthreads, w.memory_limit) for w in dask_scheduler.workers.values()]


def need_distributed() -> ModuleType:
    """Return the package `distributed`; a ValueError says how to install it."""
    try:
        import distributed
    except ImportError:
        raise ValueError(
            "this needs Dask: pip install 'unmask[dask]', here and on the workers."
        ) from None
    return distributed


_HELD: dict[str, object] = {}


@dataclass(frozen=True)
class Box:
    """Keeps Dask from unpacking or rewriting a value."""

    value: Any


class NotHeldError(LookupError):
    """This process does not hold the shared value: it joined late, or dropped it."""


@dataclass(frozen=True)
class Held:
    """A value that every worker holds, under a token.

    Dask is asked to bring it (`adopt`), not to keep it: what tasks depend on in the eyes of the
    scheduler is dropped from workers whenever few tasks wait for it, and sent again for the next.
    """

    token: str

    @property
    def value(self) -> object:
        """The value, in a process that holds it."""
        try:
            return _HELD[self.token]
        except KeyError:
            raise NotHeldError(self.token) from None


def adopt(token: str, key: str, dask_worker: Worker) -> None:
    """Hold, on a worker, what Dask has brought; of others only the last: clients may die."""
    for old in list(_HELD)[:-1]:
        _HELD.pop(old, None)
    _HELD[token] = cast(Box, dask_worker.data[key]).value


def holds(token: str) -> bool:
    """Return, on a worker, whether it holds the value."""
    return token in _HELD


def forget(token: str) -> None:
    """Hold the value no longer, on a worker."""
    _HELD.pop(token, None)


@dataclass(frozen=True)
class Mapped:
    """A pickle whose arrays stand in a file, at `spans`."""

    head: bytes
    path: str
    spans: tuple[tuple[int, int], ...]

    @property
    def value(self) -> object:
        """The value, its arrays mapped."""
        if not self.spans:
            return pickle.loads(self.head)  # noqa: S301 (made by `mapped`)
        buffer = np.memmap(self.path, dtype=np.uint8, mode="c")
        return pickle.loads(  # noqa: S301
            self.head, buffers=[buffer[start:stop] for start, stop in self.spans]
        )


@contextmanager
def mapped(value: object, folder: Path) -> Iterator[Mapped]:
    """Put the arrays of `value` into a file in `folder`, which goes when the block ends."""
    arrays: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    path, spans, offset = folder.resolve() / f".shared-{uuid4().hex}", [], 0
    try:
        with atomic_write(path) as file:
            for array in arrays:
                raw = array.raw()
                file.write(raw)
                file.write(bytes(-raw.nbytes % 64))
                spans.append((offset, offset + raw.nbytes))
                offset += raw.nbytes + -raw.nbytes % 64
        yield Mapped(head, str(path), tuple(spans))
    finally:
        path.unlink(missing_ok=True)


PROTOCOLS = ("tcp", "tls")
CONNECTING = 30.0
"""Seconds to wait for a scheduler to answer, at most."""


@dataclass(frozen=True)
class Scheduler:
    """A Dask scheduler, and the certificates for a connection over TLS.

    Both sides show a certificate that one authority has signed. What is None is taken from Dask's
    configuration: `distributed.comm.tls.ca-file`, `.client.cert` and `.client.key`, which the
    environment sets as `DASK_DISTRIBUTED__COMM__TLS__CA_FILE` and so on.

    Parameters
    ----------
    address : str
        tcp://HOST:PORT or tls://HOST:PORT.
    ca_file : path, optional
        PEM file of the authority.
    cert : path, optional
        PEM file of our certificate.
    key : path, optional
        PEM file of its private key; by default in the file of `cert`.

    Examples
    --------
    >>> Scheduler("tls://node1:8786", "ca.pem", "client.pem", "client-key.pem").address
    'tls://node1:8786'
    """

    address: str
    ca_file: PathLike | None = None
    cert: PathLike | None = None
    key: PathLike | None = None

    def connect(self, distributed: ModuleType, patience: float) -> Client:
        """Open a client; refuse wrong addresses and files."""
        self._refuse_address()
        security = self._security(distributed)
        try:
            client: Client = distributed.Client(
                self.address,
                set_as_default=False,
                timeout=min(patience, CONNECTING),
                security=security,
            )
        except (OSError, TimeoutError) as error:
            reason = f"{error} ({error.__cause__})" if error.__cause__ else str(error)
            raise OSError(f"no Dask scheduler answers at {self.address}: {reason}") from None
        return client

    def _refuse_address(self) -> None:
        """Raise unless the address begins as one that we can connect to: Dask would go on trying.

        Without a protocol, HOST:PORT means tcp.
        """
        protocol, slashes, place = self.address.rpartition("://")
        host, _, port = place.rpartition(":")
        is_protocol = protocol in PROTOCOLS or not slashes
        is_port = port.isdecimal() and len(port) < 6 and 0 < int(port) < 1 << 16
        if is_protocol and host and is_port:
            return
        near = difflib.get_close_matches(protocol, PROTOCOLS, n=1, cutoff=0)
        meant = (
            f" Did you mean {near[0]}://{place}?" if slashes and protocol not in PROTOCOLS else ""
        )
        raise ValueError(
            f"{self.address!r} is no scheduler; give tcp://HOST:PORT or tls://HOST:PORT of a Dask "
            f"scheduler, or local:N for N worker processes on this machine.{meant}"
        )

    def _security(self, distributed: ModuleType) -> Security:
        files = {"tls_ca_file": self.ca_file, "tls_client_cert": self.cert}
        files["tls_client_key"] = self.key
        named = {field: str(Path(path)) for field, path in files.items() if path is not None}
        security: Security
        if not self.address.startswith("tls://"):
            if named:
                raise ValueError(
                    f"certificates are for tls:// addresses; got {self.address!r}. Give "
                    "tls://HOST:PORT, or no certificates."
                )
            security = distributed.Security()
            if security.require_encryption:
                raise ValueError(
                    f"Dask's configuration requires encryption and {self.address!r} has none; "
                    "give tls://HOST:PORT."
                )
            return security
        security = distributed.Security(require_encryption=True, **named)
        if not (security.tls_ca_file and security.tls_client_cert):
            raise ValueError(
                f"{self.address} asks for certificates: give --tls-ca-file, --tls-cert and "
                "--tls-key (in Python parallel.Scheduler(address, ca_file, cert, key)), or set "
                "distributed.comm.tls in Dask's configuration."
            )
        _try_certificates(security)
        return security


class Security(Protocol):
    """The part of `distributed.Security` that is used; it makes its attributes at run time."""

    require_encryption: bool
    tls_ca_file: str | None
    tls_client_cert: str | None
    tls_client_key: str | None

    def get_connection_args(self, role: str) -> object:
        """Return the arguments of a connection; files are read now."""
        ...


def _try_certificates(security: Security) -> None:
    """Refuse files that are not there, are no PEM files, or do not belong together."""
    for path in (security.tls_ca_file, security.tls_client_cert, security.tls_client_key):
        if path is not None and "\n" not in path and not Path(path).is_file():
            raise ValueError(f"{path}: there is no such file; TLS needs PEM files.")
    try:
        security.get_connection_args("client")
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(
            f"TLS with CA file {security.tls_ca_file}, certificate {security.tls_client_cert} and "
            f"key {security.tls_client_key or 'in the same file'} does not work: {error}."
        ) from None


LOOPBACK = "127.0.0.1"
KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": 1 << 25, "MALLOC_TRIM_THRESHOLD_": 1 << 27}
"""Dask has its workers hand every array back to the system at once, and glibc then maps any array
above 128 kB anew: a quarter of the time of training by mini-batches."""


@contextmanager
def local_client(distributed: ModuleType, workers: int) -> Iterator[Client]:
    """Start `workers` processes of one thread each; they end with the block."""
    from dask import config

    environment = "distributed.nanny.pre-spawn-environ"
    settings = {
        environment: {**config.get(environment), **KEPT_MEMORY},
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
    }
    try:
        security: Security = distributed.Security.temporary()
    except ImportError:
        raise ValueError(
            "local:N needs the package cryptography: pip install 'unmask[dask]'."
        ) from None
    connection = {
        "host": LOOPBACK,
        "protocol": "tls://",
        "security": security,
        "dashboard": False,
        "dashboard_address": f"{LOOPBACK}:0",
    }
    worker = {
        "nthreads": 1,
        "memory_limit": distributed.system.MEMORY_LIMIT // workers,
        "silence_logs": logging.WARN,
        **connection,
    }
    with config.set(settings):  # read by the scheduler and the nannies when they are made
        cluster = distributed.SpecCluster(
            scheduler={"cls": distributed.Scheduler, "options": {"port": 0, **connection}},
            workers={i: {"cls": distributed.Nanny, "options": worker} for i in range(workers)},
            security=security,
            silence_logs=logging.WARN,
        )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client
