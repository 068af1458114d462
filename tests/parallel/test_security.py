"""Who may reach a cluster: nobody but us on this machine, and TLS with certificates elsewhere."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import distributed
import psutil
import pytest

from tests.helpers.cluster import CONFIG, X, Y, contents
from tests.helpers.command import run
from unmask import data, parallel
from unmask.linear import train_to

pytestmark = pytest.mark.xdist_group("cluster")

PAGES = (
    "", "status", "workers", "health", "metrics", "sysmon", "proxy", "api", "individual-plots.json",
    "info/main/workers.html", "info/logs.html", "json/identity.json", "json/counts.json",
    "statics/css/base.css",
)  # fmt: skip
"""What Dask's HTTP servers offer where nobody takes it away."""


def listening() -> set[tuple[str, int]]:
    """Addresses on which this process and its children listen."""
    family = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    return {
        (found.laddr.ip, found.laddr.port)
        for found in psutil.net_connections("inet")
        if found.status == psutil.CONN_LISTEN and found.pid in family
    }


@pytest.fixture(scope="module")
def local() -> Iterator[tuple[Any, set[tuple[str, int]]]]:
    """`local:2`, and the addresses on which it listens."""
    before = listening()
    with parallel.connect("local:2") as runner:
        yield runner, listening() - before


Local = tuple[Any, set[tuple[str, int]]]


def test_local_workers_listen_on_the_loopback_interface_only(local: Local) -> None:
    """The scheduler, two nannies, two workers; Dask's HTTP servers beside three of them."""
    _, addresses = local
    assert len(addresses) == 8
    assert {host for host, _ in addresses} == {"127.0.0.1"}


def test_there_is_no_dashboard(local: Local) -> None:
    """Every page of every port is refused: by TLS, or as not there."""
    _, addresses = local
    answers = [_answer(port, page) for _, port in addresses for page in PAGES]
    assert set(answers) == {"refused", 404}
    assert answers.count(404) == 3 * len(PAGES)


def _answer(port: int, page: str) -> int | str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, ValueError):
        return "refused"


def test_local_workers_speak_to_nobody_without_their_certificate(local: Local) -> None:
    """A port sends its greeting to the holder of the certificate, and nothing to anybody else."""
    runner, addresses = local
    ours = runner.client.security
    stranger = distributed.Security.temporary()
    nothing = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nothing.check_hostname, nothing.verify_mode = False, ssl.CERT_NONE
    pages = {port for _, port in addresses if _answer(port, "") == 404}
    guarded = {port for _, port in addresses} - pages
    assert len(guarded) == 5
    for port in guarded:
        assert _greeting(port, ours.get_connection_args("client")["ssl_context"])
        other = stranger.get_connection_args("client")["ssl_context"]
        other.check_hostname, other.verify_mode = False, ssl.CERT_NONE
        assert not _greeting(port, other)
        assert not _greeting(port, nothing)
        assert not _greeting(port, None)


def _greeting(port: int, context: ssl.SSLContext | None) -> bytes:
    """The first bytes that come out of a port."""
    with socket.create_connection(("127.0.0.1", port), timeout=2) as plain:
        try:
            if context is None:
                return plain.recv(100)
            with context.wrap_socket(plain) as secured:
                return secured.recv(100)
        except (TimeoutError, ssl.SSLError, ConnectionError):
            return b""


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
def test_another_client_cannot_connect(scheme: str, local: Local) -> None:
    """As any user of this machine would try it who has found the port."""
    runner, _ = local
    address = runner.client.scheduler.address
    ours, theirs = runner.client.security, distributed.Security.temporary()
    with distributed.Client(address, security=ours, timeout=10, set_as_default=False) as client:
        assert client.status == "running"
    with pytest.raises(OSError, match=r"(?i)certificate|connection reset|timed out|closed"):
        distributed.Client(
            address.replace("tls://", f"{scheme}://"), timeout=5, set_as_default=False,
            security=theirs if scheme == "tls" else None,
        )  # fmt: skip


def test_keys_are_in_no_file_and_on_no_command_line(local: Local) -> None:
    runner, _ = local
    key = runner.client.security.tls_client_key
    assert "PRIVATE KEY" in key
    assert "\n" in key, "in memory, where a path would be a single line"
    for process in psutil.Process().children(recursive=True):
        assert "PRIVATE KEY" not in " ".join([*process.cmdline(), *process.environ().values()])


def test_local_workers_need_cryptography(tmp_path: Path) -> None:
    missing = mock.patch.dict(sys.modules, {"cryptography": None})
    with missing, pytest.raises(ValueError, match="pip install 'unmask"):
        train_to(tmp_path, X, Y, backend="local:1")


# Schedulers elsewhere


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A cluster's certificate and key, and those of a stranger, as PEM files."""
    folder = tmp_path_factory.mktemp("tls")
    made = {}
    for name in ("ours", "theirs"):
        security = distributed.Security.temporary()
        made[name] = folder / f"{name}.pem"
        made[name].write_text(security.tls_client_cert)
        made[f"{name}-key"] = folder / f"{name}-key.pem"
        made[f"{name}-key"].write_text(security.tls_client_key)
    return made


@pytest.fixture(scope="module")
def secured(files: dict[str, Path]) -> Iterator[str]:
    """The address of a scheduler that asks for our certificate."""
    certificate, key = str(files["ours"]), str(files["ours-key"])
    security = distributed.Security(
        require_encryption=True, tls_ca_file=certificate, tls_client_cert=certificate,
        tls_client_key=key, tls_scheduler_cert=certificate, tls_scheduler_key=key,
        tls_worker_cert=certificate, tls_worker_key=key,
    )  # fmt: skip
    with (
        dask.config.set(CONFIG),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, security=security, dashboard_address="127.0.0.1:0"
        ) as workers,
    ):
        yield workers.scheduler_address


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.txt"
    data.write(path, data.Dataset(features=X, labels=Y))
    return path


def options(files: dict[str, Path], ca: str = "ours", cert: str = "ours") -> list[Any]:
    named = ("--tls-ca-file", files[ca], "--tls-cert", files[cert])
    return [*named, "--tls-key", files[f"{cert}-key"]]


def test_commands_take_certificates(
    secured: str, files: dict[str, Path], rows: Path, tmp_path: Path
) -> None:
    given = ["--scheduler", secured, *options(files)]
    assert secured.startswith("tls://")
    for name, more in (("here", []), ("there", given)):
        trained = run("train", rows, "-o", tmp_path / name, "--block", 60, *more)
        assert trained.returncode == 0, trained.stderr
        predicted = run("predict", tmp_path / name, rows, "-o", tmp_path / f"{name}.txt", *more)
        assert predicted.returncode == 0, predicted.stderr
    assert contents(tmp_path / "here") == contents(tmp_path / "there")
    assert (tmp_path / "here.txt").read_bytes() == (tmp_path / "there.txt").read_bytes()
    study = ("reproduce", "recall-toy", "--size", "tiny", "-o", tmp_path / "study")
    assert run(*study, *given).returncode == 0


def test_certificates_from_the_configuration_of_dask(
    secured: str, files: dict[str, Path], rows: Path, tmp_path: Path
) -> None:
    """As the environment sets it, in a process of its own."""
    prefix = "DASK_DISTRIBUTED__COMM__TLS"
    environment = {
        **os.environ,
        f"{prefix}__CA_FILE": str(files["ours"]),
        f"{prefix}__CLIENT__CERT": str(files["ours"]),
        f"{prefix}__CLIENT__KEY": str(files["ours-key"]),
    }
    command = [sys.executable, "-m", "unmask", "train", rows, "-o", tmp_path / "m", "-q"]
    made = subprocess.run(
        [*command, "--scheduler", secured], env=environment, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "m" / "manifest.json").exists()


def test_a_scheduler_with_certificates_is_a_backend(
    secured: str, files: dict[str, Path], tmp_path: Path
) -> None:
    both = tmp_path / "both.pem"
    both.write_text(files["ours"].read_text() + files["ours-key"].read_text())
    for backend in (
        parallel.Scheduler(secured, files["ours"], files["ours"], files["ours-key"]),
        parallel.Scheduler(secured, files["ours"], both),
    ):
        with parallel.connect(backend) as runner:
            assert runner.resources().workers == 1


@contextmanager
def refused(message: str) -> Iterator[None]:
    with pytest.raises(ValueError, match=message):
        yield


def test_wrong_certificates_are_refused_in_one_line(
    secured: str, files: dict[str, Path], rows: Path, tmp_path: Path
) -> None:
    asked = ("train", rows, "-o", tmp_path / "m")
    there = ("--scheduler", secured)
    empty = tmp_path / "empty.pem"
    empty.touch()
    mistakes = {
        ("--scheduler", secured): "asks for certificates: give --tls-ca-file, --tls-cert",
        ("--scheduler", secured.replace("tls", "tcp"), *options(files)): "are for tls:// addresses",
        tuple(options(files)): "--tls-ca-file, --tls-cert and --tls-key go with --scheduler",
        (*there, "--tls-ca-file", "no.pem", "--tls-cert", files["ours"]): "no.pem: there is no su",
        (*there, "--tls-ca-file", files["ours"], "--tls-cert", empty): "does not work",
        (*there, *options(files), "--tls-key", files["theirs-key"]): "does not work",
        ("--scheduler", "local:2", *options(files)): "makes its own certificates",
    }
    for arguments, message in mistakes.items():
        found = run(*asked, *arguments)
        assert found.returncode == 2, arguments
        assert message in found.stderr, (arguments, found.stderr)
        assert "Traceback" not in found.stderr


def test_a_stranger_is_told_why(secured: str, files: dict[str, Path]) -> None:
    theirs = (files["theirs"], files["theirs"], files["theirs-key"])
    with (
        pytest.raises(OSError, match=r"no Dask scheduler answers at tls://.*CERTIFICATE_VERIFY"),
        parallel.connect(parallel.Scheduler(secured, *theirs), patience=2),
    ):
        pass


def test_where_dask_requires_encryption_plain_addresses_are_refused(tmp_path: Path) -> None:
    required = dask.config.set({"distributed.comm.require-encryption": True})
    with required, refused("requires encryption and 'tcp://127.0.0.1:9' has none"):
        train_to(tmp_path, X, Y, backend="tcp://127.0.0.1:9")
