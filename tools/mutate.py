"""Mutation testing: change one place of a module, and see whether a test notices.

    python tools/mutate.py weights operator metrics/state --sample 60

A mutant swaps an operator, moves a number by one, turns a condition round. No file is touched: the
tests are collected once, one pass without a change notes which test calls which function, and every
mutant is a forked process in which the changed function has new code, tried by the tests that call
it, quick ones first. Changes outside functions (constants, defaults) meet a fresh interpreter
instead, since a module has to be imported for them. What survives is printed with its place, to be
looked at: a missing test, or a change that changes nothing.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = {
    "weights": ["weights", "accuracy"],
    "operator": ["operator"],
    "metrics": [
        "metrics", "metrics_table", "metrics_charts", "metrics_peers", "evaluator", "deconvolution",
        "deconvolution_parts", "uncertain", "ranking", "accuracy", "metrics_edges",
    ],
    "propensity": ["propensity", "propensity_estimation", "propensity_edges"],
}  # fmt: skip
"""The files of tests that are to notice; doctests and the rule about records come with them."""
QUIET = ["-q", "-s", "-n", "0", "-p", "no:cacheprovider", "--no-header"]
LIMIT = 20.0
"""Seconds beyond ten times the tests' own after which a mutant counts as noticed: it hangs."""

SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip

Place = tuple[str, int]
"""A function: its file, and the first line of its definition."""


# --- what can be changed ------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """One change: the module, its number there, the line, what changes, and in which function."""

    package: str
    module: str
    path: Path
    at: int
    line: int
    change: str
    function: int | None

    def tree(self) -> ast.Module:
        """The changed syntax tree."""
        tree = ast.parse(self.path.read_text())
        _changes(tree)[self.at].apply()
        return ast.fix_missing_locations(tree)

    def code(self) -> types.CodeType:
        """The changed module, compiled."""
        return compile(self.tree(), str(self.path), "exec")

    def __str__(self) -> str:
        """Where it is, what changes, and the line it is in."""
        source = self.path.read_text().splitlines()[self.line - 1].strip()
        return f"{self.path.relative_to(ROOT)}:{self.line}  {self.change}  | {source}"


@dataclass(frozen=True)
class Change:
    """A node, what happens to it in words, and how."""

    node: Any
    words: str
    apply: Callable[[], None]


def mutants(package: str) -> Iterator[Mutant]:
    """Every change of the modules of a package."""
    for path, module in modules(package):
        tree = ast.parse(path.read_text())
        functions = _functions(tree)
        for at, change in enumerate(_changes(tree)):
            inside = functions.get(id(change.node))
            yield Mutant(package, module, path, at, change.node.lineno, change.words, inside)


def modules(package: str) -> Iterator[tuple[Path, str]]:
    """The files of a package (or one module), with the names they are imported by."""
    base = ROOT / "src" / "unmask"
    single = base / f"{package}.py"
    for path in [single] if single.exists() else sorted((base / package).glob("*.py")):
        parts = path.relative_to(base.parent).with_suffix("").parts
        yield path, ".".join(parts).removesuffix(".__init__")


def tests_of(packages: list[str]) -> list[str]:
    """What pytest is to collect."""
    rooms = dict.fromkeys(package.split("/")[0] for package in packages)
    files = dict.fromkeys(f"tests/test_{name}.py" for room in rooms for name in TESTS[room])
    doctests = {str(path.relative_to(ROOT)) for room in rooms for path, _ in modules(room)}
    return [*files, *sorted(doctests), "tests/test_architecture.py::test_records_hold_still"]


def _functions(tree: ast.Module) -> dict[int, int]:
    """The first line of the outermost function around each node, for nodes of function bodies."""
    found: dict[int, int] = {}

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
                found.update((id(n), first) for part in child.body for n in ast.walk(part))
            else:
                visit(child)

    visit(tree)
    return found


def _changes(tree: ast.Module) -> list[Change]:
    """What can be changed, in an order that only depends on the source."""
    ignored = {id(inner) for node in ast.walk(tree) for inner in _ignored(node)}
    return [
        change for node in ast.walk(tree) if id(node) not in ignored for change in _of_node(node)
    ]


def _ignored(node: ast.AST) -> Iterator[ast.AST]:
    """Annotations, messages and assertions (`zip(…, strict=True)` too) do not make results."""
    roots: list[ast.AST | None] = []
    if isinstance(node, ast.arg | ast.AnnAssign):
        roots.append(node.annotation)
    elif isinstance(node, ast.FunctionDef):
        roots += [node.returns, *node.decorator_list]
    elif isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert) or (
        isinstance(node, ast.keyword) and node.arg == "strict"
    ):
        roots.append(node)
    for root in roots:
        if root is not None:
            yield from ast.walk(root)


def _of_node(node: Any) -> Iterator[Change]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield _swap(node, node.ops[0], lambda new: node.ops.__setitem__(0, new))
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPS:
        yield _swap(node, node.op, lambda new: setattr(node, "op", new))
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        old = node.value
        new = not old if isinstance(old, bool) else old + 1
        yield Change(node, f"{old} → {new}", lambda: setattr(node, "value", new))
    elif isinstance(node, ast.If | ast.IfExp):
        turned = ast.UnaryOp(ast.Not(), node.test)
        yield Change(node, "condition turned round", lambda: setattr(node, "test", turned))


def _swap(node: Any, old: Any, put: Callable[[Any], None]) -> Change:
    new = SWAPS[type(old)]
    return Change(node, f"{type(old).__name__} → {new.__name__}", lambda: put(new()))


# --- putting it in place ------------------------------------------------------------------------


def transplant(mutant: Mutant) -> None:
    """Give the functions of the module, wherever they are held, the code of the mutant."""
    fresh = dict(_codes(mutant.code()))
    for each in gc.get_objects():
        if isinstance(each, types.FunctionType) and each.__code__.co_filename == str(mutant.path):
            old = each.__code__
            each.__code__ = fresh.get((old.co_qualname, old.co_firstlineno), old)


def _codes(code: types.CodeType) -> Iterator[tuple[tuple[str, int], types.CodeType]]:
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield (inner.co_qualname, inner.co_firstlineno), inner
            yield from _codes(inner)


class _Hook(importlib.abc.MetaPathFinder):
    """Finds one module, and compiles the mutant's tree in place of its file."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.mutant.module:
            return None
        code = self.mutant.code()

        class Loader(importlib.machinery.SourceFileLoader):
            def get_code(self, fullname: str) -> Any:
                return code

        loader = Loader(name, str(self.mutant.path))
        return importlib.util.spec_from_file_location(name, self.mutant.path, loader=loader)


def in_fresh_interpreter(module: str, at: int, tests: list[str]) -> int:
    """Import the package with one mutant in place and run tests until one fails."""
    chosen = next(m for p in TESTS for m in mutants(p) if m.module == module and m.at == at)
    sys.meta_path.insert(0, _Hook(chosen))
    importlib.import_module(module)  # before pytest puts its own hook in front
    return int(pytest.main([*QUIET, "-x", *tests]))


# --- the campaign -------------------------------------------------------------------------------


@dataclass
class Census:
    """Which functions each test calls, and how long it takes."""

    calls: dict[str, list[Place]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def calling(self, mutant: Mutant) -> list[str]:
        """The tests that call the changed function, or anything of a module, quick ones first."""
        file, function = str(mutant.path), mutant.function
        tests = [
            test
            for test, places in self.calls.items()
            if any(p == (file, function) or (function is None and p[0] == file) for p in places)
            or (function is None and not places)  # calls nothing: looks at declarations
        ]
        return sorted(tests, key=self.seconds.__getitem__)

    def limit(self, tests: list[str]) -> float:
        """Seconds that a mutant may take."""
        return LIMIT + 10 * sum(self.seconds[test] for test in tests)


class Campaign:
    """A plugin that, instead of running the collected tests once, runs them on every mutant."""

    def __init__(self, chosen: list[Mutant], workers: int) -> None:
        """Prepare for these mutants, so many at a time."""
        self.chosen, self.workers = chosen, workers
        self.survivors: list[Mutant] = []
        self.failures = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count failures."""
        self.failures += report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Watch the tests once, then try every mutant."""
        items = {item.nodeid: item for item in session.items}
        for item in session.items:
            _do_not_shrink(item)
        census = self._census(items)
        if census.failed:
            raise pytest.UsageError(f"tests fail without any change: {census.failed}")
        waiting = self.chosen[::-1]
        running: dict[int, tuple[Mutant, float]] = {}
        while waiting or running:
            while waiting and len(running) < self.workers:
                mutant = waiting.pop()
                tests = census.calling(mutant)
                if tests:
                    child = self._start(mutant, [items[test] for test in tests])
                    running[child] = mutant, time.monotonic() + census.limit(tests)
                else:
                    self._survived(mutant, "no test calls it")
            for child, (mutant, end) in list(running.items()):
                code = _ended(child, end)
                if code is not None:
                    del running[child]
                    if code == 0:
                        self._survived(mutant, "")
                    self._progress(len(waiting) + len(running))
            time.sleep(0.01)
        return True

    def _progress(self, left: int) -> None:
        tried = len(self.chosen) - left
        if tried % 20 == 0:
            print(f"  {tried} of {len(self.chosen)} tried, {len(self.survivors)} survived",
                  file=sys.stderr, flush=True)  # fmt: skip

    def _survived(self, mutant: Mutant, why: str) -> None:
        self.survivors.append(mutant)
        print(f"survived  {mutant}  {why}".rstrip(), flush=True)

    def _census(self, items: dict[str, pytest.Item]) -> Census:
        """Run everything once, in a child, and watch."""
        files = {str(path) for package in TESTS for path, _ in modules(package)}
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder, "census.json")
            child = os.fork()
            if child == 0:
                _quiet()
                census = Census()
                for item, following in _pairs(list(items.values())):
                    self._watched(census, item, following, files)
                result.write_text(json.dumps(vars(census)))
                os._exit(0)
            os.waitpid(child, 0)
            found = json.loads(result.read_text())
        found["calls"] = {k: [(f, n) for f, n in v] for k, v in found["calls"].items()}
        return Census(**found)

    def _watched(
        self, census: Census, item: pytest.Item, following: pytest.Item | None, files: set[str]
    ) -> None:
        called: set[Place] = set()

        def note(frame: types.FrameType, event: str, _: Any) -> None:
            code = frame.f_code
            is_function = code.co_flags & inspect.CO_OPTIMIZED  # not a module or class being made
            if event == "call" and is_function and code.co_filename in files:
                called.add((code.co_filename, code.co_firstlineno))

        before, start = self.failures, time.monotonic()
        threading.setprofile(note)
        sys.setprofile(note)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        sys.setprofile(None)
        threading.setprofile(None)
        census.calls[item.nodeid] = sorted(called)
        census.seconds[item.nodeid] = time.monotonic() - start
        if self.failures > before:
            census.failed.append(item.nodeid)

    def _start(self, mutant: Mutant, items: list[pytest.Item]) -> int:
        child = os.fork()
        if child:
            return child
        os.setpgid(0, 0)
        _quiet()
        if mutant.function is None:
            own = [sys.executable, __file__, "--only", mutant.module, str(mutant.at)]
            os._exit(subprocess.run([*own, *(item.nodeid for item in items)]).returncode)  # noqa: S603
        try:
            transplant(mutant)
            for item, following in _pairs(items):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.failures:
                    os._exit(1)
        except BaseException:
            os._exit(1)
        os._exit(0)


def _pairs(items: list[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Every test with the one after it, whose fixtures are not to be torn down between them."""
    return zip(items, [*items[1:], None], strict=True)


def _do_not_shrink(item: pytest.Item) -> None:
    """A failing example is enough, it need not be small."""
    test: Any = getattr(item, "obj", None)
    own = getattr(test, "_hypothesis_internal_use_settings", None)
    if own is not None:
        from hypothesis import Phase, settings  # pytest wants to be imported before it

        phases = (Phase.explicit, Phase.generate)
        test._hypothesis_internal_use_settings = settings(own, phases=phases)


def _quiet() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _ended(child: int, end: float) -> int | None:
    """The exit code of a child, once it has one; those that run too long are stopped."""
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        return os.waitstatus_to_exitcode(status)
    if time.monotonic() < end:
        return None
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGKILL


def main() -> int:
    """Sample mutants of each package and count those that a test notices."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="*", default=list(TESTS))
    parser.add_argument("--sample", type=int, default=0, help="mutants per package; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.chdir(ROOT)
    if given.only:
        return in_fresh_interpreter(given.only[0], int(given.only[1]), given.packages)
    every = {package: list(mutants(package)) for package in given.packages}
    draw = random.Random(given.seed)  # noqa: S311
    chosen = [
        mutant
        for found in every.values()
        for mutant in (draw.sample(found, min(given.sample, len(found))) if given.sample else found)
    ]
    campaign = Campaign(chosen, given.workers)
    code = pytest.main([*QUIET, *tests_of(given.packages)], plugins=[campaign])
    for package, found in every.items():
        n, left = (sum(m.package == package for m in each) for each in (chosen, campaign.survivors))
        print(f"{package}: {n - left} of {n} noticed ({1 - left / n:.1%}); {len(found)} in all")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
