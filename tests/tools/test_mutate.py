"""Mutation testing itself, on a small package: what it changes, who notices, and going on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT

FILES = {
    "src/small/__init__.py": "",
    "src/small/plain.py": '''
LIMIT = 3
IDLE = 7


def area(width, height):
    """Multiply."""
    return width * height


def never(x):
    return x + 1


def below(items):
    items.sort()
    return [item for item in items if item < LIMIT]
''',
    "tests/__init__.py": "",
    "tests/test_small.py": """
from small import plain


def test_area():
    assert plain.area(3, 4) == 12


def test_below():
    assert plain.below([3, 2, 1]) == [1, 2]
""",
    "tools/equivalent.toml": (
        '[[mutant]]\nsource = "IDLE = 7"\nchange = "7 → 8"\nreason = "nobody reads it"\n'
    ),
}


@pytest.mark.slow
def test_what_is_noticed_what_survives_and_what_is_equivalent(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "tools" / "mutate.py", tmp_path / "tools")

    def tool(*arguments: str) -> str:
        run = subprocess.run(
            [sys.executable, "tools/mutate.py", *arguments], cwd=tmp_path, text=True,
            env=os.environ | {"PYTHONPATH": str(tmp_path / "src")}, check=True,
            capture_output=True, timeout=300,
        )  # fmt: skip
        return run.stdout

    tool("census")
    said = tool("try", "--sample", "99")
    lines = (tmp_path / ".mutants" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    outcomes = {
        (record["source"], record["change"]): record["outcome"] for record in map(json.loads, lines)
    }
    assert outcomes == {
        ("LIMIT = 3", "3 → 4"): "noticed",
        ("IDLE = 7", "7 → 8"): "survived",
        ("return width * height", "Mult → Div"): "noticed",
        ("return x + 1", "Add → Sub"): "survived",
        ("return x + 1", "1 → 2"): "survived",
        ("items.sort()", "call left out"): "noticed",
        ("return [item for item in items if item < LIMIT]", "Lt → LtE"): "noticed",
    }
    assert "survived  src/small/plain.py" in said
    tool("try", "--sample", "99")  # nothing is tried twice
    assert len((tmp_path / ".mutants" / "results.jsonl").read_text("utf-8").splitlines()) == 7
    assert "4 of    7 noticed,   1 equivalent, 66.7% of the others" in tool("report")
    assert (tmp_path / "src/small/plain.py").read_text(encoding="utf-8") == FILES[
        "src/small/plain.py"
    ]
