"""`local:N`: worker processes of this machine that nobody else can use.

Scheduler, workers and their nannies listen on the loopback interface only and speak TLS. Key and
certificate are made for this one cluster, live in the memory of its processes, and are asked for on
every connection, so other users of the machine can neither send tasks nor read data. There is no
dashboard. Dask starts its HTTP servers nevertheless; they are left without a page.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distributed import Client, Security

LOOPBACK = "127.0.0.1"
KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": 1 << 25, "MALLOC_TRIM_THRESHOLD_": 1 << 27}
"""Dask has its workers hand every array back to the system at once, and glibc then maps any array
above 128 kB anew: a quarter of the time of training by mini-batches."""


@contextmanager
def local_client(distributed: ModuleType, workers: int) -> Iterator[Client]:
    """The client of `workers` new processes of one thread each; they end with the block."""
    from dask import config

    environment = "distributed.nanny.pre-spawn-environ"
    settings = {
        environment: {**config.get(environment), **KEPT_MEMORY},
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
    }
    security = _temporary_credentials(distributed)
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


def _temporary_credentials(distributed: ModuleType) -> Security:
    try:
        security: Security = distributed.Security.temporary()
    except ImportError:
        raise ValueError(
            "local:N needs the package cryptography: pip install 'unmask[dask]'."
        ) from None
    return security
