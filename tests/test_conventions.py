"""Numbers that are conventions: constants, defaults, and what kind of value a record is.

No theorem says that a search tries fifty rounds or that a chart has eight colours. Such numbers are
written down once more in `golden/conventions.txt`, so that they change on purpose: whoever changes
one writes the file anew (`make golden`) and sees the old number beside the new one.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
from collections.abc import Iterator
from enum import Enum
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
    "unmask._names._SEED",
    "unmask.parallel.shared._HELD",
}
"""Other values in every process: drawn at random, or filled while it runs."""
PLAIN = (bool, int, float, str, type(None), np.generic)


def modules(room: str) -> list[str]:
    """The modules of a package, or of a module, by name."""
    path = SOURCE.joinpath(*room.split("."))
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    names = (".".join(file.relative_to(SOURCE).with_suffix("").parts) for file in files)
    return [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]


def rooms() -> list[str]:
    """What is below `unmask`, and the studies."""
    below = (path for path in sorted((SOURCE / "unmask").iterdir()) if path.name[:2] != "__")
    packages = [p for p in below if p.suffix == ".py" or (p / "__init__.py").exists()]
    return [*(f"unmask.{path.stem}" for path in packages), "unmask_studies"]


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
        elif defined.isupper() and _is_plain(value) and f"{name}.{defined}" not in DRAWN:
            yield f"{name}.{defined} {shown(value)}"


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


def shown(value: object) -> str:
    """A number or short text as it is; of several, how many and their sums."""
    if isinstance(value, int | float | np.number):
        return repr(value if isinstance(value, int | float) else value.item())
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
