"""Mutation testing: change one place of a module, and see whether a test notices.

    python tools/mutate.py weights operator --sample 60

A mutant swaps an operator, moves a number by one, turns a condition round. It lives in a forked
process only: an import hook compiles the changed syntax tree, no file is touched. What survives is
printed with its place, to be looked at: a missing test, or a change that changes nothing.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TESTS = {
    "weights": ["tests/test_weights.py", "src/unmask/weights"],
    "operator": ["tests/test_operator.py", "src/unmask/operator.py"],
    "metrics": [
        "tests/test_metrics.py", "tests/test_metrics_table.py", "tests/test_evaluator.py",
        "tests/test_metrics_peers.py", "tests/test_deconvolution.py", "src/unmask/metrics",
    ],
    "propensity": [
        "tests/test_propensity.py", "tests/test_propensity_estimation.py", "src/unmask/propensity",
    ],
}  # fmt: skip
LIMIT = 240
"""Seconds after which a mutant counts as noticed: it hangs."""

SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: the module, the line, what changes, and the changed tree."""

    module: str
    path: Path
    line: int
    change: str
    tree: ast.Module


def mutants(path: Path, module: str) -> Iterator[Mutant]:
    """Every change of one module."""
    tree = ast.parse(path.read_text())
    for at in range(len(_changes(tree))):
        changed = copy.deepcopy(tree)
        node, words, apply = _changes(changed)[at]
        apply()
        yield Mutant(module, path, node.lineno, words, ast.fix_missing_locations(changed))


Change = tuple[Any, str, Callable[[], None]]


def _changes(tree: ast.Module) -> list[Change]:
    """What can be changed, in an order that only depends on the source."""
    ignored = {id(inner) for node in ast.walk(tree) for inner in _ignored(node)}
    found: list[Change] = []
    for node in ast.walk(tree):
        if id(node) not in ignored:
            found += _of_node(node)
    return found


def _ignored(node: ast.AST) -> Iterator[ast.AST]:
    """Annotations, messages of errors and f-strings: changes there are not faults of the code."""
    roots: list[ast.AST | None] = []
    if isinstance(node, ast.arg | ast.AnnAssign):
        roots.append(node.annotation)
    elif isinstance(node, ast.FunctionDef):
        roots += [node.returns, *node.decorator_list]
    elif isinstance(node, ast.Raise | ast.JoinedStr):
        roots.append(node)
    for root in roots:
        if root is not None:
            yield from ast.walk(root)


def _of_node(node: Any) -> list[Change]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        return [_swap(node, node.ops[0], lambda new: node.ops.__setitem__(0, new))]
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPS:
        return [_swap(node, node.op, lambda new: setattr(node, "op", new))]
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return [(node, f"{node.value} → {not node.value}",
                 lambda: setattr(node, "value", not node.value))]  # fmt: skip
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return [(node, f"{node.value} → {node.value + 1}",
                 lambda: setattr(node, "value", node.value + 1))]  # fmt: skip
    if isinstance(node, ast.If | ast.IfExp):
        return [(node, "condition turned round",
                 lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test)))]  # fmt: skip
    return []


def _swap(node: Any, old: Any, put: Callable[[Any], None]) -> Change:
    new = SWAPS[type(old)]
    return node, f"{type(old).__name__} → {new.__name__}", lambda: put(new())


class _Hook(importlib.abc.MetaPathFinder):
    """Finds one module, and compiles the mutant's tree in place of its file."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.mutant.module:
            return None
        code = compile(self.mutant.tree, str(self.mutant.path), "exec")

        class Loader(importlib.machinery.SourceFileLoader):
            def get_code(self, fullname: str) -> Any:
                return code

        loader = Loader(name, str(self.mutant.path))
        return importlib.util.spec_from_file_location(name, self.mutant.path, loader=loader)


def survives(mutant: Mutant, tests: list[str]) -> bool:
    """Whether all tests pass although the module is changed."""
    child = os.fork()
    if child == 0:
        _run_tests(mutant, tests)
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _run_tests(mutant: Mutant, tests: list[str]) -> None:
    """In the child: run the tests quietly and leave with their result."""
    import pytest

    sys.meta_path.insert(0, _Hook(mutant))

    code = 1
    quiet = open(os.devnull, "w")  # noqa: SIM115 (lives as long as the process)
    os.dup2(quiet.fileno(), 1)
    os.dup2(quiet.fileno(), 2)
    with contextlib.suppress(BaseException), contextlib.redirect_stdout(io.StringIO()):
        importlib.import_module(mutant.module)  # before pytest puts its own hook in front
        code = int(pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]))
    os._exit(code)


def modules(package: str) -> Iterator[tuple[Path, str]]:
    """The files of a package (or one module), with the names they are imported by."""
    base = ROOT / "src" / "unmask"
    single = base / f"{package}.py"
    for path in [single] if single.exists() else sorted((base / package).glob("*.py")):
        parts = path.relative_to(base.parent).with_suffix("").parts
        yield path, ".".join(parts).removesuffix(".__init__")


def main() -> None:
    """Sample mutants of each package and count those that a test notices."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="*", default=list(TESTS), choices=[*TESTS, []])
    parser.add_argument("--sample", type=int, default=40, help="mutants per package; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    import numba  # noqa: F401 (shared by all children)
    import scipy.stats  # noqa: F401

    for package in given.packages:
        every = [mutant for path, name in modules(package) for mutant in mutants(path, name)]
        chosen = every
        if 0 < given.sample < len(every):
            chosen = random.Random(given.seed).sample(every, given.sample)  # noqa: S311
        killed = 0
        for mutant in chosen:
            alive = survives(mutant, TESTS[package])
            killed += not alive
            if alive:
                place = f"{mutant.path.relative_to(ROOT)}:{mutant.line}"
                print(f"survived  {place}  {mutant.change}", flush=True)
        share = killed / len(chosen)
        print(f"{package}: {killed} of {len(chosen)} noticed ({share:.0%}); {len(every)} in all",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
