"""How a command ends when its output cannot be written, and what it leaves behind."""

from __future__ import annotations

import csv
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.command import run
from unmask import data, predictions
from unmask.files import atomic_write
from unmask.predictions import TopK

pytestmark = pytest.mark.usefixtures("patience")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "rows.csv"
    path.write_text("id,text,labels\nr1,one,−x;y\nr2,two,y\n", encoding="utf-8")
    return path


def start(*arguments: object, **how: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "unmask", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, **{"stdout": subprocess.PIPE} | how)


def closed() -> int:
    """A pipe whose reader has gone."""
    read, write = os.pipe()
    os.close(read)
    return write


def test_a_reader_that_has_gone_ends_a_command_quietly(source: Path, tmp_path: Path) -> None:
    """Tables, JSON, files sent to the output, and help: as other tools do, killed by SIGPIPE."""
    (out := tmp_path / "out.csv").symlink_to("/proc/self/fd/1")
    for arguments in (
        ("info", source),
        ("info", source, "--json"),
        ("convert", source, out),
        ("--help",),
    ):
        write = closed()
        process = start(*arguments, stdout=write)
        os.close(write)
        _, said = process.communicate(timeout=300)
        assert (process.returncode, said) == (128 + signal.SIGPIPE, b""), arguments


def test_an_output_that_the_caller_closed_is_none(source: Path) -> None:
    process = start("info", source, stdout=None, preexec_fn=lambda: os.close(1))
    _, said = process.communicate(timeout=300)
    assert (process.returncode, said) == (0, b"")


def test_what_cannot_be_written_is_named(source: Path, tmp_path: Path) -> None:
    """A full disk, by a limit on the size of files; a current folder that was removed."""

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))

    (gone := tmp_path / "gone").mkdir()

    def leave() -> None:
        os.chdir(gone)
        gone.rmdir()

    with open("/dev/full", "wb") as full:
        cases: list[tuple[str, tuple[object, ...], dict[str, Any]]] = [
            (f"{tmp_path}/out.csv: File too large",
             ("convert", source, tmp_path / "out.csv"), {"preexec_fn": small_files}),
            ("standard output: No space left", ("info", source), {"stdout": full}),
            ("standard output: No space left", ("info", source, "--json"), {"stdout": full}),
            ("current folder was removed", ("convert", source, "out.csv"), {"preexec_fn": leave}),
        ]  # fmt: skip
        for words, arguments, how in cases:
            process = start(*arguments, **how)
            said = process.communicate(timeout=300)[1].decode()
            assert process.returncode == 2, said
            assert said.startswith("unmask: "), (words, said)
            assert words in said
            assert len(said.splitlines()) == 1, said
    assert not list(tmp_path.iterdir())


def test_outputs_in_other_encodings_say_it_in_other_signs(source: Path) -> None:
    for encoding in ("latin-1", "ascii"):
        process = start("info", source, "--json", env={**os.environ, "PYTHONIOENCODING": encoding})
        out, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
        process = start("info", source.parent / "−é☃.csv",
                        env={**os.environ, "PYTHONIOENCODING": encoding})  # fmt: skip
        out, said = process.communicate(timeout=300)
        assert process.returncode == 2
        assert out == b""
        assert b"Traceback" not in said
        assert rb"\u2603" in said
        assert b"/-" in said.replace(b"\n", b"")


def test_what_a_stopped_command_left_goes_at_once_or_with_the_next_write(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom unmask import files, cli\n"
        "def slow(*a, **k):\n"
        "    with files.atomic_write('p.txt') as file:\n"
        "        file.write(b'half'); print('ready', flush=True); time.sleep(300)\n"
        "cli.app = slow\ncli.main()\n"
    )
    for how, code_of in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)):
        process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(how)
        assert process.wait(60) == code_of
        process.stdout.close()
        assert len(list(tmp_path.iterdir())) == (how is signal.SIGKILL)
    (left,) = tmp_path.iterdir()
    others = [f".q.txt.{process.pid}-1.part", f".p.txt.{os.getpid()}-1.part", ".p.txt.1-x.part"]
    for name in others:
        (tmp_path / name).write_bytes(b"of others")
    with atomic_write(tmp_path / "p.txt") as file:
        file.write(b"whole")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*others, "p.txt"])
    assert left.name not in others


def test_a_table_per_label_runs_nothing(tmp_path: Path) -> None:
    """Names that a spreadsheet or a terminal would act on are marked where people read them."""
    names = ["=cmd|' /C calc'!A0", "@home", "\x1b[31mred", "+1+1", "plain"]
    (tmp_path / "labels.txt").write_text("\n".join(names) + "\n")
    rows = data.synthetic.planted(60, n_features=8, n_labels=5, seed=0)
    data.write(tmp_path / "rows.txt", rows)
    scores = np.random.default_rng(0).random((60, 5))
    predictions.write(tmp_path / "p.txt", TopK.from_scores(scores, 3))
    shown = ["'=cmd|' /C calc'!A0", "'@home", "\\x1b[31mred", "'+1+1", "plain"]
    read: dict[str, Callable[[str], list[str]]] = {
        "csv": lambda text: [row[0] for row in csv.reader(text.splitlines())][1:],
        "tsv": lambda text: [line.split("\t")[0] for line in text.splitlines()[1:]],
    }
    for form, cells in read.items():
        out = tmp_path / f"labels.{form}"
        result = run("evaluate", "--labels", tmp_path / "rows.txt", "--predictions",
                     tmp_path / "p.txt", "--propensity", "constant:0.5", "--metrics", "P@1",
                     "--per-label", out)  # fmt: skip
        assert result.returncode == 0, result.stderr
        assert cells(out.read_text()) == shown
