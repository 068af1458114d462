"""Commands are stopped at random moments; what they leave is absent, complete or resumable.

One process imports the package, measures how long each command takes, and then forks: the child
runs the command, the parent stops it somewhere between start and end and looks at the disk.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from tests.helpers.command import run as command
from tests.helpers.paths import files_in
from unmask import data, linear
from unmask.files import read_records, streams

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


class Job:
    """A command with the folder it writes to."""

    def __init__(self, name: str, work: Path, arguments: Callable[[Path], list[object]]) -> None:
        self.name, self.arguments = name, arguments
        self.reference = self._folder(work / name / "undisturbed")
        self._run(self.reference)  # compiles
        start = time.monotonic()
        self._run(self._folder(work / name / "timed"))
        self.seconds = time.monotonic() - start
        self.work = work / name

    def _folder(self, path: Path) -> Path:
        path.mkdir(parents=True)
        return path

    def _run(self, folder: Path) -> None:
        result = command(*self.arguments(folder))
        assert result.returncode == 0, result.stderr

    def stopped(self, number: int, after: float, how: signal.Signals) -> Path:
        """The folder of a run that was stopped after a share of its time."""
        folder = self._folder(self.work / f"stopped-{number}")
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
            code = 1
            try:
                code = command(*self.arguments(folder)).returncode
            finally:
                os._exit(code)
        time.sleep(after * self.seconds)
        os.kill(child, how)
        os.waitpid(child, 0)
        return folder


@pytest.fixture(scope="module", autouse=True)
def slow_disk() -> Iterator[None]:
    """Every file stands empty for a while before it is filled: a stop can fall into that."""
    usual = streams._compressor

    @contextmanager
    def slow(file: BinaryIO, kind: str) -> Iterator[Any]:
        time.sleep(0.05)
        with usual(file, kind) as packed:
            yield packed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "_compressor", slow)
        yield


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interrupted")
    data.write(folder / "data.txt", data.synthetic.planted(400, n_labels=60, seed=0))
    assert command("train", folder / "data.txt", "-o", folder / "model").returncode == 0
    assert command("predict", folder / "model", folder / "data.txt",
                   "-o", folder / "top.txt").returncode == 0  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def jobs(work: Path) -> list[Job]:
    source = work / "data.txt"
    return [
        Job("train", work, lambda out: ["train", source, "-o", out / "model", "--block", 5]),
        Job("predict", work, lambda out: ["predict", work / "model", source, "-o", out / "p.txt"]),
        Job(
            "evaluate",
            work,
            lambda out: ["evaluate", "--labels", source, "--predictions", work / "top.txt",
                         "--propensity", "constant:0.5", "--interval", "bca",
                         "--html", out / "page.html"],
        ),
        Job(
            "reproduce",
            work,
            lambda out: ["reproduce", "variance", "--size", "tiny", "-o", out],
        ),
    ]  # fmt: skip


def check_train(left: Path, job: Job) -> None:
    """A model that loads is the whole model."""
    try:
        found = linear.load(left / "model")
    except (ValueError, OSError):
        return
    whole = linear.load(job.reference / "model")
    assert np.array_equal(found.weights, whole.weights)


def same_or_absent(left: Path, job: Job, ignored: str = "none") -> None:
    whole = files_in(job.reference)
    for name, contents in files_in(left).items():
        assert name.endswith(ignored) or contents == whole[name], f"{name} is partial"


def check_reproduce(left: Path, job: Job) -> None:
    """Rows are packed as a whole; the journal of a run that was stopped holds whole units of it."""
    same_or_absent(left, job, ignored=".jsonl")
    (packed,) = (job.reference / "rows").iterdir()
    units = read_records(packed)
    assert all(record in units for record in read_records(left / "rows" / packed.name))


CHECKS = {
    "train": check_train,
    "predict": same_or_absent,
    "evaluate": same_or_absent,
    "reproduce": check_reproduce,
}


def disturb(jobs: list[Job], times: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for number in range(times):
        job = jobs[number % len(jobs)]
        how = SIGNALS[rng.integers(len(SIGNALS))]
        left = job.stopped(number + 1000 * seed, rng.uniform(0, 1.1), how)
        CHECKS[job.name](left, job)
        assert command(*job.arguments(left)).returncode == 0  # the same command goes on
        assert files_in(left) == files_in(job.reference)


@pytest.mark.slow
def test_what_a_stopped_command_leaves_is_absent_complete_or_resumable(jobs: list[Job]) -> None:
    disturb(jobs, times=8, seed=0)


@pytest.mark.slow
def test_that_fifty_times(jobs: list[Job]) -> None:
    disturb(jobs, times=50, seed=1)
