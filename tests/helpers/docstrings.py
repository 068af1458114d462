"""Which functions can refuse what they are given, read from the source.

A function can refuse if it has a `raise` of its own, or calls by name a function or class of the
package that can. Methods of objects, kernels and third-party code are not followed: what the rule
finds needs a Raises section, what it does not find may have one.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any


def can_refuse(function: object) -> bool:
    """Whether a `raise` of ours can be reached from a function or a class's construction."""
    waiting, visited = [function], set()
    while waiting:
        called = waiting.pop()
        for code in _code(called):
            if code in visited:
                continue
            visited.add(code)
            tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
            if any(isinstance(node, ast.Raise) for node in ast.walk(tree)):
                return True
            waiting.extend(_called(tree, code.__globals__))
    return False


def _code(called: object) -> Iterator[Callable[..., Any]]:
    """The functions that run when something of the package is called."""
    if not str(getattr(called, "__module__", "")).startswith("unmask"):
        return
    if inspect.isclass(called):
        made = (vars(called).get(name) for name in ("__init__", "__post_init__"))
    else:
        made = (inspect.unwrap(called) if callable(called) else None,)
    for each in made:
        if inspect.isfunction(each) and each.__code__.co_filename != "<string>":
            yield each


def _called(tree: ast.AST, names: dict[str, Any]) -> Iterator[object]:
    """What is called by a name of the module, or by the name of a module and one in it."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        parts, called = [], node.func
        while isinstance(called, ast.Attribute):
            parts.append(called.attr)
            called = called.value
        value = names.get(called.id) if isinstance(called, ast.Name) else None
        for part in reversed(parts):
            value = getattr(value, part, None) if isinstance(value, ModuleType) else None
        if value is not None:
            yield value
