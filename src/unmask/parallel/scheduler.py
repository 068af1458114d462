"""Dask schedulers: the address of one and the certificates for it, or one of our own.

`local:N` are worker processes of this machine that no other user can reach.
Scheduler, workers and their nannies listen on the loopback interface only and speak TLS. Key and
certificate are made for this one cluster, live in the memory of its processes, and are asked for on
every connection, so other users of the machine can neither send tasks nor read data. There is no
dashboard. Dask starts its HTTP servers nevertheless; they are left without a page.
"""

from __future__ import annotations

import difflib
import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from unmask._typing import PathLike

if TYPE_CHECKING:
    from distributed import Client

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
        """A client; ValueError where something is wrong with address or files."""
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
        known = protocol in PROTOCOLS or not slashes
        if known and host and port.isdecimal() and len(port) < 6 and 0 < int(port) < 1 << 16:
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
    """What is used of `distributed.Security`, which makes its attributes at run time."""

    require_encryption: bool
    tls_ca_file: str | None
    tls_client_cert: str | None
    tls_client_key: str | None

    def get_connection_args(self, role: str) -> object:
        """The arguments of a connection; files are read now."""
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
