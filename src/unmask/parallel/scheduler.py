"""The address of a Dask scheduler and the certificates for it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from unmask._typing import PathLike

if TYPE_CHECKING:
    from distributed import Client

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
