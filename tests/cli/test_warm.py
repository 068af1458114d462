"""`unmask warm`: after it, no command compiles anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.helpers.command import run
from unmask import warm
from unmask._kernels import compiling

PROGRAM = """
import contextlib, io, json, os, sys
from pathlib import Path
from unmask import data
from unmask._kernels import compiling
from unmask.cli import main
from unmask import demo, warm

if {warmed}:
    warm.run()
folder = Path(sys.argv[1])
for name, seed in (("train", 0), ("test", 1)):
    rows = data.synthetic.planted(1500, n_features=300, n_labels=50, seed=seed)
    data.write(folder / f"{{name}}.txt.gz", rows)

def types():
    return {{(kernel.__module__.rpartition(".")[2], kernel.__name__, str(each))
            for kernel in compiling.KERNELS for each in kernel.signatures}}

before = types()
os.chdir(folder)
for line in Path(sys.argv[2]).read_text().splitlines():
    sys.argv = line.split()
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            assert not end.code, (line, err.getvalue())
demo.run(n=1500)
print(json.dumps(sorted(types() - before)))
"""
COMMANDS = """\
unmask info train.txt.gz
unmask convert train.txt.gz train.npz
unmask convert train.npz train.svm
unmask hide train.txt.gz -o hidden.txt.gz --propensity constant:0.5
unmask propensity train.txt.gz -o p.txt
unmask train train.txt.gz -o model --tfidf --prune 0.01
unmask train train.npz -o logistic --loss logistic --correction unbiased
unmask train train.txt.gz -o pal --loss softmax --reduction pal --normalized --correction unbiased
unmask predict model test.txt.gz -o top.txt
unmask predict logistic test.txt.gz -o other.txt --rank-by probability/propensity --propensity p.txt
unmask evaluate --labels test.txt.gz --predictions top.txt --train train.txt.gz
unmask evaluate --labels test.txt.gz --predictions top.txt --train train.txt.gz --interval bca \
--compare other.txt --sensitivity powers --html page.html
unmask diagnose train.txt.gz --propensity p.txt
"""


def compiled_by_commands(folder: Path, *, warmed: bool) -> list[Any]:
    """Kernels, with their types, that the commands call and that were not called before."""
    lines = folder / "commands"
    lines.write_text(COMMANDS)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(warmed=warmed), folder, lines],
        capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found: list[Any] = json.loads(ran.stdout)
    return found


@pytest.mark.slow
def test_after_warming_no_command_needs_another_kernel(tmp_path: Path) -> None:
    assert compiled_by_commands(tmp_path, warmed=True) == []


@pytest.mark.slow
def test_without_warming_the_commands_need_kernels(tmp_path: Path) -> None:
    """So that the test before this one could fail."""
    assert len(compiled_by_commands(tmp_path, warmed=False)) > 20


def test_the_command_says_where_kernels_are_kept() -> None:
    found = json.loads(run("warm", "--json", "--quiet").stdout)
    assert found["folder"] == str(compiling.cache_folder())
    assert list(Path(found["folder"]).glob("*.nbi"))
    assert found["kernels"] > 50
    assert found["compiled"] <= found["kernels"]
    assert found["seconds"] > 0


def test_the_command_prints_a_table_and_progress() -> None:
    with mock.patch.object(warm, "STEPS", ()):
        shown = run("warm")
    folder = "".join(str(compiling.cache_folder()).split())
    assert folder in "".join(shown.stdout.split())
    assert "compiling" in shown.stderr
    with mock.patch.object(warm, "STEPS", ()):
        assert run("warm", "-q").stderr == ""


def test_where_nothing_can_be_kept_the_command_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "STEPS", ())
    monkeypatch.setattr(compiling, "cache_folder", lambda: None)
    refused = run("warm")
    assert refused.returncode == 2
    assert "set NUMBA_CACHE_DIR to one that only you can write to" in refused.stderr
