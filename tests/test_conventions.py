"""Numbers that are conventions: constants, defaults, and what kind of value a record is.

No theorem says that a search tries fifty rounds or that a chart has eight colours. Such numbers are
written down once more in `golden/conventions.txt`, so that they change on purpose: whoever changes
one writes the file anew (`make golden`) and sees the old number beside the new one.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.helpers import golden
from tests.helpers.paths import ROOT

FILE = "golden/conventions.txt"
SOURCE = ROOT / "src"
DRAWN = {
    "unmask._kernels.block._COMPILED",
    "unmask._kernels.compiling.KERNELS",
    "unmask._names._SEED",
    "unmask.parallel.shared._HELD",
}
"""Other values in every process: drawn at random, or filled while it runs."""
PLAIN = (bool, int, float, str, type(None), np.generic)
USUAL = {"init": True, "repr": True, "compare": True, "hash": None, "kw_only": False}
"""What `dataclasses.field` says of a field unless it is told otherwise."""


def modules(room: str) -> list[str]:
    """The modules of a package, or of a module, by name."""
    path = SOURCE.joinpath(*room.split("."))
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    names = (".".join(file.relative_to(SOURCE).with_suffix("").parts) for file in files)
    return [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]


def rooms() -> list[str]:
    """What is below `unmask`."""
    below = (path for path in sorted((SOURCE / "unmask").iterdir()) if path.name[:2] != "__")
    packages = [p for p in below if p.suffix == ".py" or (p / "__init__.py").exists()]
    return [f"unmask.{path.stem}" for path in packages]


def conventions(name: str) -> Iterator[str]:
    """Constants, records and defaults of a module, a line each."""
    module = importlib.import_module(name)
    for defined in _defined(module):
        value = inspect.unwrap(getattr(module, defined, None))
        value = getattr(value, "py_func", value)
        if inspect.isclass(value):
            yield from _of_class(f"{name}.{defined}", value)
        elif inspect.isfunction(value):
            yield from _defaults(f"{name}.{defined}", value)
        elif defined.isupper() and f"{name}.{defined}" not in DRAWN:
            if _is_plain(value):
                yield f"{name}.{defined} {shown(value)}"
            elif numbers := list(_numbers(value)):
                yield f"{name}.{defined} {shown(numbers)}"


def _defined(module: ModuleType) -> list[str]:
    """Names that the file itself defines, in its order."""
    names: list[str] = []
    for statement in ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.append(statement.name)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names += [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    return list(dict.fromkeys(names))


def _of_class(name: str, kind: type) -> Iterator[str]:
    params = getattr(kind, "__dataclass_params__", None)
    if params is not None and "__dataclass_params__" in vars(kind):
        yield f"{name} frozen={params.frozen} eq={params.eq} order={params.order}"
        for each in fields(kind):
            flags = ("init", "repr", "compare", "hash", "kw_only")
            unusual = [flag for flag in flags if getattr(each, flag) is not USUAL[flag]]
            if unusual:
                stated = " ".join(f"{flag}={getattr(each, flag)}" for flag in unusual)
                yield f"{name}.{each.name} {stated}"
    elif hasattr(kind, "__total__"):
        yield f"{name} total={kind.__total__}"
    elif getattr(kind, "_field_defaults", None):
        yield f"{name} {shown(list(_numbers(kind._field_defaults)))}"
    elif kind.__module__ == name.rpartition(".")[0] and not issubclass(kind, Enum):
        for member, value in vars(kind).items():
            if isinstance(value, bool | int | float) and member[0] != "_":
                yield f"{name}.{member} {value}"
    for member, value in vars(kind).items():
        function = inspect.unwrap(getattr(value, "__func__", value))
        if inspect.isfunction(function) and function.__module__ == kind.__module__:
            yield from _defaults(f"{name}.{member}", function)


def _defaults(name: str, function: Any) -> Iterator[str]:
    """Only of parameters that have one; whether they can be given by place counts, too."""
    if not inspect.isfunction(function):
        return
    stated = [
        f"{'' if each.kind is each.POSITIONAL_OR_KEYWORD else '*'}{each.name}={shown(each.default)}"
        for each in inspect.signature(function).parameters.values()
        if each.default is not each.empty and _is_plain(each.default)
    ]
    if stated:
        yield f"{name} {' '.join(stated)}"


def _is_plain(value: object) -> bool:
    """Numbers, texts, and what holds nothing else."""
    if isinstance(value, dict):
        return all(map(_is_plain, [*value, *value.values()]))
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return isinstance(value, (*PLAIN, Enum))


def _numbers(value: Any) -> Iterator[float]:
    """Those in records, in functions that hold values, and in what holds several."""
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
    else:
        parts = []
        if isinstance(value, int | float | np.number) and not isinstance(value, Enum):
            yield float(value) if math.isfinite(value) else -1.0
    for part in parts:
        yield from _numbers(part)


def shown(value: object) -> str:
    """A number or short text as it is; of several, how many and their sums."""
    if isinstance(value, int | float | np.number):
        return repr(value if isinstance(value, int | float) else value.item())
    if isinstance(value, tuple) and any(isinstance(v, float) and math.isinf(v) for v in value):
        return repr(value)
    return golden.cell(value).replace("\n", " ")[:60]


@pytest.mark.parametrize("room", rooms())
def test_conventions_change_on_purpose(room: str) -> None:
    lines = [line for name in modules(room) for line in conventions(name)]
    if os.environ.get("UNMASK_GOLDEN") == "write":
        golden.check(FILE, "\n".join(lines), room)
    stored = golden._sections(ROOT / "tests" / FILE)[room].splitlines()
    changed = sorted(set(lines) ^ {line for line in stored if line})
    assert not changed, "changed on purpose? UNMASK_GOLDEN=write pytest tests/test_conventions.py"
    assert lines == [line for line in stored if line]
