"""Mutation testing itself, on a small package: what it changes, who notices, and going on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.paths import ROOT

TOOL = ROOT / "tools" / "mutate.py"

FILES = {
    "src/small/__init__.py": "",
    "src/small/plain.py": """
LIMIT = 3
IDLE = 7


def area(width, height):
    return width * height


def never(x):
    return x + 1


def later(items):
    items.sort()
    return [item for item in items if item < LIMIT]
""",
    "src/small/deep/__init__.py": "",
    "src/small/deep/kernels.py": """
from numba import njit


@njit(cache=True)
def _inner(x):
    return x - 4


@njit(cache=True)
def outer(x):
    return _inner(x) + 10


@njit(cache=True)
def alone(x):
    return x * 6


def through(x):
    return outer(x)
""",
    "src/small/deep/command.py": """
def main():
    return 5
""",
    "tests/below/test_small.py": """
import subprocess, sys
from small.deep.kernels import alone, through
from small.plain import area, later

def test_area():
    assert area(3, 4) == 12

def test_later():
    assert later([2, 1, 3]) == [1, 2]

def test_through():
    assert through(3) == 9

def test_alone():
    assert alone(2) == 12

def test_command():
    program = "from small.deep.command import main; raise SystemExit(main())"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 5
""",
    "tools/equivalent.toml": """
[[mutant]]
file = "src/small/plain.py"
source = "IDLE = 7"
change = "7 → 8"
reason = "nobody reads it"
""",
    "pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = ["tests"]\n',
}

EXPECTED = {
    ("plain.py", "3 → 4"): "noticed",  # a constant: modules are imported anew
    ("plain.py", "7 → 8"): "survived",
    ("plain.py", "Mult → Div"): "noticed",
    ("plain.py", "Add → Sub"): "survived",  # no test calls it
    ("plain.py", "1 → 2"): "survived",
    ("plain.py", "call left out"): "noticed",
    ("plain.py", "Lt → LtE"): "noticed",
    ("kernels.py", "Sub → Add"): "noticed",  # the cache has the old code
    ("kernels.py", "4 → 5"): "noticed",
    ("kernels.py", "Add → Sub"): "noticed",
    ("kernels.py", "10 → 11"): "noticed",
    ("kernels.py", "Mult → Div"): "noticed",  # nothing but the test calls it
    ("kernels.py", "6 → 7"): "noticed",
    ("command.py", "5 → 6"): "noticed",  # in a process of its own
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "tools" / "mutate.py").write_bytes(TOOL.read_bytes())
    return tmp_path


def mutate(tree: Path, *arguments: str) -> tuple[str, list[dict[str, Any]]]:
    command = [sys.executable, "tools/mutate.py", *arguments, "--results", "results.jsonl"]
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, env=plain, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (tree / "results.jsonl").read_text().splitlines()
    return done.stdout, [json.loads(line) for line in lines]


@pytest.mark.slow
def test_every_package_is_mutated_and_compiled_code_and_started_processes_too(tree: Path) -> None:
    out, results = mutate(tree, "--sample", "0", "--census", "census.jsonl")
    outcomes = {(Path(r["file"]).name, r["change"]): r["outcome"] for r in results}
    assert outcomes == EXPECTED
    assert "small/deep: 7 of 7 noticed, 0 of them by hanging; 0 equivalent; 100.0%" in out
    assert "small/plain: 4 of 7 noticed, 0 of them by hanging; 1 equivalent; 66.7%" in out
    assert "all: 11 of 14 noticed, 0 of them by hanging; 1 equivalent; 84.6% of the others" in out
    assert "plain.py:3  7 → 8  | IDLE = 7: nobody reads it" in out
    assert all((tree / name).read_text() == text for name, text in FILES.items())
    _, again = mutate(tree, "--sample", "0", "--census", "census.jsonl")
    assert again == results  # nothing is tried a second time
    kernels = [r for r in results if r["file"].endswith("kernels.py")]
    part = [json.dumps(r) for r in results if r not in kernels[1:]]
    (tree / "results.jsonl").write_text("\n".join(part))
    out, _ = mutate(tree, "--sample", "0", "--report")
    assert "with the compiler: 5 noticed of 8 tried of 8 drawn" in out
    assert "without it: 1 noticed of 1 tried of 6 drawn" in out
    assert "of all that were drawn, by these two: 78.6%" in out  # (8 · 5/8 + 6 · 1/1) / 14


@pytest.mark.slow
def test_a_sample_is_drawn_over_all_packages_by_its_seed(tree: Path) -> None:
    (tree / "src/small/deep/kernels.py").unlink()  # nothing to compile: only the drawing is asked
    tests = tree / "tests/below/test_small.py"
    lines = tests.read_text().replace("from small.deep.kernels import alone, through", "")
    lines = lines.replace("assert alone(2) == 12", "pass")
    tests.write_text(lines.replace("assert through(3) == 9", "pass"))
    samples = set()
    for seed in ("1", "2", "1"):
        (tree / "results.jsonl").unlink(missing_ok=True)
        out, results = mutate(
            tree, "plain", "deep/command.py", "--sample", "3", "--seed", seed, "--census", "c"
        )
        assert "3 of 8 mutants" in out
        samples.add(tuple((r["file"], r["number"]) for r in results))
    assert len(samples) == 2
