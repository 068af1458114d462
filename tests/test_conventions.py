"""Numbers that are conventions: constants, and defaults of functions and records.

No theorem says that a search tries fifty rounds or that a chart has eight colours. A checksum of
such values is kept for every module (`conventions.json`), so that they change on purpose:
`UNMASK_GOLDEN=write pytest tests/test_conventions.py` writes it anew, and git shows which modules
changed.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from tests.helpers.paths import ROOT

SOURCE = ROOT / "src"
STORED = ROOT / "tests" / "conventions.json"
DRAWN = {"_COMPILED", "KERNELS", "_SEED", "_HELD"}
"""Other values in every process: drawn at random, or filled while it runs."""
ATOMS = (bool, int, float, str, bytes, type(None), np.generic)


def modules() -> list[str]:
    """Return the names of all modules."""
    files = sorted((SOURCE / "unmask").rglob("*.py"))
    names = (".".join(file.relative_to(SOURCE).with_suffix("").parts) for file in files)
    return [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]


def conventions(name: str) -> Iterator[str]:
    """Yield constants and defaults of a module, a line each."""
    module = importlib.import_module(name)
    for statement in ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            value = getattr(module, statement.name, None)
            members = vars(value).items() if inspect.isclass(value) else [("", value)]
            for member, each in members:
                each = inspect.unwrap(getattr(each, "__func__", getattr(each, "py_func", each)))
                if inspect.isfunction(each) and each.__module__ == name:
                    yield f"{statement.name}.{member} {list(_leaves(_defaults(each)))}"
                elif isinstance(each, int | float) and member[:1] != "_":
                    yield f"{statement.name}.{member} {each}"
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                for node in ast.walk(target):
                    if isinstance(node, ast.Name) and node.id.isupper() and node.id not in DRAWN:
                        yield f"{node.id} {list(_leaves(getattr(module, node.id, None)))}"


def _defaults(function: Any) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}


def _leaves(value: Any) -> Iterator[Any]:
    """Yield numbers and texts in containers, records, and functions that hold values."""
    if isinstance(value, Enum):
        yield str(value)
    elif isinstance(value, ATOMS):
        yield value.item() if isinstance(value, np.generic) else value
    else:
        parts: list[Any] = []
        if isinstance(value, dict):
            parts = [*value, *value.values()]
        elif isinstance(value, tuple | list | np.ndarray):
            parts = list(value)
        elif is_dataclass(value) and not isinstance(value, type):
            parts = [getattr(value, each.name) for each in fields(value)]
        elif isinstance(value, partial):
            parts = [*value.args, *value.keywords.values()]
        elif inspect.isfunction(value):
            parts = [cell.cell_contents for cell in value.__closure__ or ()]
        for part in parts:
            yield from _leaves(part)


def test_conventions_change_on_purpose() -> None:
    sums = {
        name: lines and crc32("\n".join(lines).encode())
        for name in modules()
        for lines in [sorted(conventions(name))]
    }
    if os.environ.get("UNMASK_GOLDEN") == "write":
        STORED.write_text(json.dumps(sums, indent=0) + "\n", encoding="utf-8")
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    changed = {name for name in sums if sums[name] != stored.get(name, [])}
    assert not changed, "changed on purpose? UNMASK_GOLDEN=write pytest tests/test_conventions.py"
