"""The command line as a person uses it: results, files, exit codes, and one line for mistakes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest

import unmask
from unmask import data, propensity
from unmask.cli import main


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object) -> Result:
    """The command in this process: what it returns, and what it writes where."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["unmask", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            return Result(int(end.code or 0), out.getvalue(), err.getvalue())
    return Result(0, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def small_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "train.txt.gz"
    data.write(path, data.synthetic.planted(200, n_features=50, n_labels=20, seed=0))
    return path


def test_info_counts_the_file(small_file: Path) -> None:
    found = json.loads(run("info", small_file, "--json").stdout)
    assert (found["n"], found["d"], found["L"]) == (200, 50, 20)
    assert sum(found["label_count_histogram"]) == 200
    assert "labels per row" in run("info", small_file).stdout


def test_propensities_are_those_of_the_library(small_file: Path, tmp_path: Path) -> None:
    written = tmp_path / "p.txt"
    result = run(
        "propensity", small_file, "--propensity", "jain:Amazon-670K", "-o", written, "--json"
    )
    expected = propensity.jain(data.read(small_file).labels, a=0.6, b=2.6)
    np.testing.assert_array_equal(json.loads(result.stdout)["propensity"], expected)
    np.testing.assert_array_equal(propensity.read(written), expected)
    assert "rank of the label" in run("propensity", small_file).stdout


def test_hide_writes_what_the_library_hides(small_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "hidden.txt"
    facts = json.loads(
        run(
            "hide", small_file, "-o", target, "--propensity", "constant:0.3", "--seed", 5, "--json"
        ).stdout
    )
    labels = data.read(small_file).labels
    expected = data.hide(labels, np.full(20, 0.3), seed=5)
    assert (data.read(target).labels != expected).nnz == 0
    assert facts["kept"] == expected.nnz


@pytest.mark.parametrize("name", ["out.npz", "out.txt.zst", "out.txt"])
def test_convert_loses_nothing(small_file: Path, tmp_path: Path, name: str) -> None:
    result = run("convert", small_file, tmp_path / name)
    assert result.returncode == 0, result.stderr
    before, after = data.read(small_file), data.read(tmp_path / name)
    assert (before.labels != after.labels).nnz == (before.features != after.features).nnz == 0


def test_demo_shows_the_loss() -> None:
    shown = run("demo")
    assert shown.returncode == 0
    assert "lost" in shown.stdout
    found = json.loads(run("demo", "--json").stdout)
    assert sum(band["observed"] for band in found["bands"]) > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "missing.txt"], "missing.txt"),
        (["info", __file__], "test_cli.py"),
        (["propensity", "FILE", "--propensity", "jian"], "'jian' is neither a file nor"),
        (["propensity", "FILE", "--propensity", "constant:2"], "got 2 at label 0"),
        (["propensity", "FILE", "--propensity", "jain:1,2,3"], "jain:a,b with numbers"),
        (["propensity", "FILE", "--propensity", "constant"], "constant:value with numbers"),
        (["hide", "FILE", "-o", "no/such/folder/x.txt"], "no/such/folder"),
        (["convert", "FILE", "x.txt", "--to", "parquet"], "unknown format 'parquet'"),
    ],
)
def test_mistakes_are_one_line_and_code_2(
    arguments: list[str], message: str, small_file: Path
) -> None:
    result = run(*(small_file if a == "FILE" else a for a in arguments))
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert result.stdout == ""


def test_every_command_explains_itself() -> None:
    overview = run("--help").stdout
    for command in ("info", "propensity", "hide", "convert", "demo"):
        assert command in overview
        shown = run(command, "--help").stdout
        assert f"unmask {command}" in shown
        assert "--json" in shown


def test_version_is_the_package_version() -> None:
    assert run("--version").stdout.strip() == unmask.__version__


def test_the_package_is_a_command_too() -> None:
    command = [sys.executable, "-m", "unmask", "info", "missing.txt"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr
