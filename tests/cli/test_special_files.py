"""Commands that are given standard streams, devices and missing folders in place of files.

Nothing here writes to a path below /dev: a mistake would replace a device of the machine. Links
to open descriptors of the process stand for them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.command import run
from tests.helpers.memory import little_memory
from tests.helpers.trained import PLAIN, SMALL, predicted, train
from tests.helpers.xc_files import put_xc
from unmask import data

pytestmark = pytest.mark.usefixtures("patience")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "train.txt"
    data.write(path, SMALL)
    return path


def command(*arguments: object, **how: Any) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own, with 8 GB of addresses and some patience."""
    how = {"stdout": subprocess.PIPE} | how
    return subprocess.run(
        [sys.executable, "-m", "unmask", *map(str, arguments)],
        stderr=subprocess.PIPE,
        timeout=600,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)),
        **how,
    )


def said(result: subprocess.CompletedProcess[bytes]) -> str:
    """What a refused command says: one line, no traceback."""
    text = result.stderr.decode()
    assert result.returncode == 2, text
    assert "Traceback" not in text
    return " ".join(text.split())


def test_a_missing_folder_is_named_as_it_was_given(tmp_path: Path) -> None:
    result = run("convert", put_xc(tmp_path), tmp_path / "nowhere" / "f.txt")
    assert result.returncode == 2
    assert f"{tmp_path}/nowhere/f.txt: No such file" in result.stderr.replace("\n", "")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    """A model, and its predictions in a file."""
    folder = tmp_path_factory.mktemp("stored")
    train(source, folder / "m", *PLAIN)
    assert predicted(source, folder / "m")
    return folder


def test_predictions_go_to_standard_output(stored: Path, source: Path, tmp_path: Path) -> None:
    expected = (stored / "predictions.txt").read_bytes()
    (tmp_path / "out").symlink_to("/proc/self/fd/1")
    result = command("predict", stored / "m", source, "-o", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert result.stdout == expected
    assert (tmp_path / "out").is_symlink()


@contextmanager
def standard_output(path: Path) -> Iterator[None]:
    """Let descriptor 1 of this process append to a file."""
    usual = os.dup(1)
    with open(path, "ab") as file:
        os.dup2(file.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(usual, 1)
        os.close(usual)


STREAMED = {
    "predict": ("predict", "m", "source", "-o"),
    "convert": ("convert", "source"),
    "hide": ("hide", "source", "--propensity", "constant:1", "-o"),
    "propensity": ("propensity", "source", "--propensity", "constant:0.5", "-o"),
}


@pytest.mark.parametrize("name", STREAMED)
def test_standard_output_that_is_a_file_is_appended_to(
    stored: Path, source: Path, tmp_path: Path, name: str
) -> None:
    known = {"m": stored / "m", "source": source}
    arguments = [known.get(word, word) for word in STREAMED[name]]
    assert run(*arguments, tmp_path / "expected").returncode == 0
    (tmp_path / "log").write_bytes(b"before\n")
    with standard_output(tmp_path / "log"):
        result = run(*arguments, "/proc/self/fd/1")
    assert result == (0, "", result.stderr)  # no table between the lines of the file
    assert (tmp_path / "log").read_bytes() == b"before\n" + (tmp_path / "expected").read_bytes()


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/stdin"])
def test_info_refuses_what_never_ends(path: str) -> None:
    read, write = os.pipe()  # without an end, as long as we hold it
    try:
        text = said(command("info", path, stdin=read))
    finally:
        os.close(read)
        os.close(write)
    assert f"{path} is a {'device' if path == '/dev/zero' else 'pipe'}" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "--labels", "/dev/zero", "--predictions", "/dev/zero"),
        ("report", "/dev/zero"),
        ("propensity", "x.txt", "--propensity", "/dev/zero"),
        ("predict", "/dev/zero", "x.txt", "-o", "p.txt"),
        ("predict", "model", "x.txt", "-o", "p.txt"),
    ],
    ids=lambda arguments: " ".join(arguments[:3]),
)
def test_commands_refuse_what_never_ends(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.write(put_xc(tmp_path), data.Dataset(np.ones((2, 3)), np.eye(2)))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "manifest.json").symlink_to("/dev/zero")
    monkeypatch.chdir(tmp_path)
    with little_memory():
        refused = run(*arguments)
    assert refused.returncode == 2
    assert any(words in refused.stderr for words in ("is a device", "is a link", "Not a directory"))


def test_standard_input_that_is_a_file_is_read(tmp_path: Path) -> None:
    with open(put_xc(tmp_path), "rb") as file:
        result = command("info", "/dev/stdin", "--json", stdin=file)
    assert json.loads(result.stdout)["n"] == 3
