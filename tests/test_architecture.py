"""The house rules that a machine can check: who may import whom, and who owns which dependency."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import unmask
from tests.helpers.paths import ROOT

sys.path.insert(0, str(ROOT / "tools"))  # no part of the package
from rooms import DRAWN, FLOORS, OWNERS, SOURCE


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[1].removesuffix(".py")


def floor_of(room: str) -> int:
    return next(i for i, rooms in enumerate(FLOORS) if room in rooms)


def imported(source: str) -> Iterator[str]:
    """Dotted names of everything imported, also inside functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def at_once(source: str) -> set[str]:
    """Dotted names of what is imported as soon as the module is."""
    tree = ast.parse(source)
    body = [node for node in tree.body if not isinstance(node, ast.If)]  # TYPE_CHECKING
    functions = (ast.FunctionDef, ast.ClassDef)
    plain = ast.Module([node for node in body if not isinstance(node, functions)], [])
    return set(imported(ast.unparse(plain)))


def violations(room: str, source: str) -> list[str]:
    found = []
    for name in imported(source):
        if room in DRAWN and name.startswith("unmask.pages") and name not in at_once(source):
            continue
        top, *rest = name.split(".")
        if top == "unmask_studies":
            found.append(f"{room} imports the studies, which are a package of their own")
        elif top == "unmask":
            other = rest[0]
            if other not in (room, "__version__") and floor_of(other) >= floor_of(room):
                found.append(f"{room} imports {other}, which is not below it")
        elif room not in OWNERS.get(top, {room}):
            found.append(f"{room} imports {top}, which belongs to {OWNERS[top]}")
    return found


FILES = sorted(
    file
    for file in SOURCE.rglob("*.py")
    if file.parent.name != "unmask" or not file.stem.startswith("__")
)


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_imports_point_one_way(file: Path) -> None:
    assert violations(room_of(file), file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("data", "from unmask import weights"),
        ("propensity", "from unmask.cli import app"),
        ("losses", "from unmask.metrics import evaluate"),
        ("cli", "from unmask_studies import run"),
        ("weights", "import numba"),
        ("linear", "import distributed"),
        ("metrics", "def f():\n    import torch.nn"),
        ("metrics", "from unmask import pages"),
        ("losses", "def f():\n    from unmask import pages"),
    ],
)
def test_the_rule_can_fail(room: str, line: str) -> None:
    assert len(violations(room, line)) == 1


def test_importing_unmask_loads_nothing_heavy() -> None:
    heavy = "{'numpy', 'scipy', 'numba', 'torch', 'sklearn', 'matplotlib', 'typer', 'jinja2'}"
    program = f"import sys, unmask; print(sorted({heavy} & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


def test_public_names_exist() -> None:
    for name in unmask.__all__:
        assert getattr(unmask, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = unmask.absent


def test_records_hold_still() -> None:
    """Results cannot be changed after the fact; the exception are running sums."""
    changing = set()
    for module in pkgutil.walk_packages(unmask.__path__, "unmask."):
        if module.name != "unmask.__main__":
            for found in vars(importlib.import_module(module.name)).values():
                if isinstance(found, type) and dataclasses.is_dataclass(found):
                    ours = found.__module__.startswith("unmask")
                    if ours and not found.__dataclass_params__.frozen:
                        changing.add(found.__name__)
    assert changing == {"Sums"}
