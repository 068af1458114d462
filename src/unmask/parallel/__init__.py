"""Where blocks of work run: on threads here, on a joblib backend, or on a Dask cluster.

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
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from unmask.parallel.dask_runner import DaskRunner, need_distributed
from unmask.parallel.runner import PATIENCE, LocalRunner, Resources, Runner
from unmask.parallel.scheduler import Scheduler, local_client

if TYPE_CHECKING:
    from distributed import Client
    from distributed.deploy.cluster import Cluster

Backend: TypeAlias = "str | Scheduler | Runner | Client | Cluster | None"
"""Where to run: see the table above."""

__all__ = ["Backend", "DaskRunner", "LocalRunner", "Resources", "Runner", "Scheduler", "connect"]


@contextmanager
def connect(backend: Backend = None, *, patience: float = PATIENCE) -> Iterator[Runner]:
    """The runner behind a backend; what was started for it ends with the block.

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


MOST_PROCESSES = 64
"""Processes that `local:N` starts at most on a machine of few cores."""


def _processes(backend: str) -> int:
    """N of `local:N`."""
    count = backend.removeprefix("local:")
    if not count.isdecimal() or not count.strip("0"):
        raise ValueError(f"{backend!r} names no number of processes; give local:2 for two.")
    most = max(MOST_PROCESSES, 4 * (os.cpu_count() or 1))
    if len(count) > 9 or int(count) > most:
        raise ValueError(
            f"{backend!r} is more processes than this machine runs well; at most {most}."
        )
    return int(count)


@contextmanager
def _client(backend: Backend, patience: float) -> Iterator[Client]:
    distributed = need_distributed()
    if isinstance(backend, distributed.Client):
        yield backend
    elif isinstance(backend, str) and backend.startswith("local:"):
        with local_client(distributed, _processes(backend)) as client:
            yield client
    elif isinstance(backend, str | Scheduler):
        scheduler = Scheduler(backend) if isinstance(backend, str) else backend
        with scheduler.connect(distributed, patience) as client:
            yield client
    else:
        with distributed.Client(backend, set_as_default=False) as client:
            yield client
