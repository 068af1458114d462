"""Mutation testing: change one place of the source, and see whether a test notices.

    python tools/mutate.py                                     # 600 mutants of all packages
    python tools/mutate.py --sample 600 --seed 7 --results mutants.jsonl --census census.jsonl
    python tools/mutate.py weights metrics/state.py --sample 60

A mutant swaps an operator, moves a number by one, turns a condition round, leaves a call out. No
file is touched: all tests are collected once, one pass without a change notes which test enters
which function, branch and loop (also in processes that a test starts), and every mutant is a forked
process in which the changed function has new code, tried by the tests that get there, quick ones
and those whose file names the function first. That pass costs most; `--watching` ends it after so
many seconds, and what is not watched is not run, so that no more is noticed than with all tests.
Packages and tests are discovered from the tree; nothing is listed here.

Changes outside functions (constants, defaults) need the modules imported afresh: the forked process
forgets all of ours and collects the tests concerned again: those that enter a function which
mentions the changed name. Files with compiled functions (numba) come last, in a round of their own
in which nothing is compiled (`NUMBA_DISABLE_JIT`), so that every branch of a kernel is noted and no
cache returns the code without the change; tests that take long without a compiler are left out.
Only files that make machine instructions themselves (`intrinsic`) are compiled anew.

A mutant is tried for `--budget` seconds of tests at most, and counts as noticed when a test fails
or takes far longer than it did (both are counted apart). Seconds are those of the processor, so
that a busy machine changes nothing. Results go to `--results`, one JSON line each (what test files
make while they are collected is made by the code without the change); a second run with the same
file goes on where the first one ended, and `--report` counts what it holds so far: mutants are
tried in the order of drawing, so that what was tried of either round is a random part of it. What
survives is printed with its place, to be looked at: a missing test, or a change that changes
nothing (`--again` tries what survived by the tests that the budget left out). The latter are listed
with the reason in `tools/equivalent.toml`, and counted apart.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import gc
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import marshal
import math
import mmap
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import tomllib
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
QUIET = ["-q", "-s", "-n", "0", "-p", "no:cacheprovider", "--no-header"]
EQUIVALENT = ROOT / "tools" / "equivalent.toml"
PATIENCE = 20.0
"""Seconds beyond ten times a test's own after which it counts as hanging."""
COLLECTING = 0.4
"""Seconds that it takes to import a file of tests anew."""
UNCOMPILED = 4.0
"""Seconds that a test may take without the compiler."""
WAITING = 8.0
"""Times as long a process may take by the clock: it waits for others, or for the processor."""
PAUSE = 3.0
"""A gap of so many seconds between two looks at a process: this one was stopped meanwhile."""
MEMORY = 8 << 30
COMPILES = not os.environ.get("NUMBA_DISABLE_JIT")
FAULT = 70
"""Exit code of a process in which the mutant could not be put in place."""
COMPILING = 60.0
"""Seconds added for mutants whose modules are compiled or imported anew."""

SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip

BODIES = ("body", "orelse", "finalbody")

Place = tuple[str, int]
"""A function, branch or loop: its file, and its first line (of the definition, decorators too)."""


# --- what can be changed ------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """One change: the file, its number there, the line, what changes, and in which function."""

    path: Path
    number: int
    line: int
    change: str
    function: int | None
    branch: int | None
    """First line of the function, branch or loop around it."""
    names: tuple[str, ...] = ()
    """Outside functions: what the statement around it defines."""

    @property
    def module(self) -> str:
        """The name that the file is imported by."""
        return name_of(self.path)

    @property
    def package(self) -> str:
        """The part of the tree that it is counted with: what is below a top-level package."""
        return "/".join(self.path.relative_to(SOURCE).parts[:2]).removesuffix(".py")

    @cached_property
    def code(self) -> types.CodeType:
        """The changed module, compiled."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        _changes(tree)[self.number].apply()
        return compile(ast.fix_missing_locations(tree), str(self.path), "exec")

    @property
    def source(self) -> str:
        """The line that it is in."""
        return _lines(self.path)[self.line - 1].strip()

    def key(self) -> tuple[str, int, str, str]:
        """What makes it the same mutant in another run."""
        return str(self.path.relative_to(ROOT)), self.number, self.change, self.source

    def __str__(self) -> str:
        """Where it is, what changes, and the line it is in."""
        return f"{self.path.relative_to(ROOT)}:{self.line}  {self.change}  | {self.source}"


@dataclass(frozen=True)
class Change:
    """A node, what happens to it in words, and how."""

    node: Any
    words: str
    apply: Callable[[], None]


def files() -> list[Path]:
    """Every file of the source."""
    return sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    """The name that a file of the source is imported by."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def mutants(path: Path) -> Iterator[Mutant]:
    """Every change of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    places, defined = _places(tree), _defined(tree)
    for number, change in enumerate(_changes(tree)):
        function, branch = places.get(id(change.node), (None, None))
        names = defined[id(change.node)] if function is None else ()
        yield Mutant(path, number, change.node.lineno, change.words, function, branch, names)


@cache
def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _places(tree: ast.Module) -> dict[int, tuple[int, int]]:
    """For nodes of function bodies: first lines of the outermost function and of the branch."""
    places: dict[int, tuple[int, int]] = {}

    def visit(node: ast.AST, function: int | None, branch: int | None) -> None:
        for name, value in ast.iter_fields(node):
            inside = function, branch
            if name in BODIES and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                inside = (function, value[0].lineno) if function else (first, first)
            elif name == "body" and isinstance(node, ast.Lambda):
                inside = function or node.lineno, branch or node.lineno
            elif name in BODIES and function and isinstance(value, list) and value:
                inside = function, value[0].lineno
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    if inside[0] is not None and inside[1] is not None:
                        places[id(child)] = inside[0], inside[1]
                    visit(child, *inside)

    visit(tree, None, None)
    return places


def _defined(tree: ast.Module) -> dict[int, tuple[str, ...]]:
    """The names that the outermost statement around each node defines."""
    defined = {}
    for statement in tree.body:
        names = tuple(_defined_by(statement))
        defined.update((id(node), names) for node in ast.walk(statement))
    return defined


def _defined_by(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    else:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


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
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        roots += [node.returns, *node.decorator_list]
    elif (
        isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert)
        or (isinstance(node, ast.keyword) and node.arg == "strict")
        or (isinstance(node, ast.If) and _for_tools(node.test))
    ):
        roots.append(node)
    for root in roots:
        if root is not None:
            yield from ast.walk(root)


def _for_tools(test: ast.expr) -> bool:
    """`if TYPE_CHECKING` and `if __name__ == "__main__"`."""
    return any(
        isinstance(node, ast.Name) and node.id in ("TYPE_CHECKING", "__name__")
        for node in ast.walk(test)
    )


def _of_node(node: Any) -> Iterator[Change]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield _swap(node, node.ops[0], lambda new: node.ops.__setitem__(0, new))
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPS:
        yield _swap(node, node.op, lambda new: setattr(node, "op", new))
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        old = node.value
        new = not old if isinstance(old, bool) else old + 1 if old + 1 != old else 2 * old
        yield Change(node, f"{old} → {new}", lambda: setattr(node, "value", new))
    elif isinstance(node, ast.If | ast.IfExp):
        turned = ast.UnaryOp(ast.Not(), node.test)
        yield Change(node, "condition turned round", lambda: setattr(node, "test", turned))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        nothing = ast.Constant(None)
        yield Change(node, "call left out", lambda: setattr(node, "value", nothing))


def _swap(node: Any, old: Any, put: Callable[[Any], None]) -> Change:
    new = SWAPS[type(old)]
    return Change(node, f"{type(old).__name__} → {new.__name__}", lambda: put(new()))


# --- who mentions whom --------------------------------------------------------------------------


@dataclass(frozen=True)
class Mentions:
    """Functions of the source by name, and the names that they and other statements mention."""

    names: dict[Place, str]
    by: dict[str, list[Place]]
    defining: dict[str, set[str]]
    """Names of constants and classes whose definition mentions this one."""
    kernels: frozenset[str]
    """Files with compiled functions."""
    imported: frozenset[str]
    """Modules that these import."""

    @classmethod
    def of_source(cls) -> Mentions:
        """Read every file."""
        names, by, defining = {}, defaultdict(list), defaultdict(set)
        trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files()}
        for path, tree in trees.items():
            for statement in tree.body:
                mentioned = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
                for name in mentioned:
                    defining[name].update(_defined_by(statement))
            for code in _outermost(compile(tree, str(path), "exec")):
                place = str(path), code.co_firstlineno
                names[place] = code.co_name
                for name in {n for inner in _with_inner(code) for n in inner.co_names}:
                    by[name].append(place)
        kernels = _compiled_files(trees)
        imported = _imported(tree for path, tree in trees.items() if str(path) in kernels)
        return cls(names, dict(by), dict(defining), kernels, imported)

    def callers(self, place: Place) -> list[Place]:
        """Functions that mention this one; a private one is only known in its own file."""
        name = self.names.get(place, "")
        private = name.startswith("_")
        mentioning = self.by.get(name, [])
        return [p for p in mentioning if p != place and (not private or p[0] == place[0])]

    def of_names(self, names: Iterable[str]) -> set[Place]:
        """Functions that mention these names, or others that are defined by them."""
        reached, waiting = set(), list(names)
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += self.defining.get(name, ())
        return {place for name in reached for place in self.by.get(name, ())}

    def without_compiler(self, mutant: Mutant) -> bool:
        """Whether it changes what numba compiles, and can be tried without it."""
        if makes_instructions(mutant.path):
            return False
        if str(mutant.path) in self.kernels:
            return True
        places = self.of_names(mutant.names) if mutant.module in self.imported else ()
        return any(file in self.kernels for file, _ in places)


def makes_instructions(path: Path) -> bool:
    """Whether a file has intrinsics, which numba calls while it compiles."""
    return "intrinsic" in path.read_text(encoding="utf-8")


def _imported(trees: Iterable[ast.Module]) -> frozenset[str]:
    """Modules that are imported, or of which something is."""
    names = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names.update(each.name for each in node.names)
            elif isinstance(node, ast.ImportFrom):
                names.update([node.module, *(f"{node.module}.{e.name}" for e in node.names)])
    return frozenset(filter(None, names))


def _compiled_files(trees: dict[Path, ast.Module]) -> frozenset[str]:
    """Files in which `njit`, or something made by it, decorates a function."""
    makers = {"njit"}
    for tree in trees.values():
        for statement in tree.body:
            value = statement.value if isinstance(statement, ast.Assign) else None
            if isinstance(value, ast.Call) and getattr(value.func, "id", None) == "njit":
                makers.update(_defined_by(statement))
    return frozenset(
        str(path)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for each in node.decorator_list
        if getattr(each.func if isinstance(each, ast.Call) else each, "id", None) in makers
    )


def _outermost(code: types.CodeType) -> Iterator[types.CodeType]:
    """Functions and methods of a module, not those inside other functions."""
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            if inner.co_flags & inspect.CO_OPTIMIZED:
                yield inner
            else:  # the body of a class
                yield from _outermost(inner)


def _with_inner(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _with_inner(inner)


# --- putting it in place ------------------------------------------------------------------------

STARTED = """
import builtins, importlib.machinery, importlib.util, marshal, os, sys

class Hook:
    def find_spec(self, name, path, target=None):
        stored = os.path.join(os.environ["MUTATE_MODULES"], name)
        if not os.path.exists(stored):
            return None
        with open(stored, "rb") as file:
            code = marshal.load(file)
        class Loader(importlib.machinery.SourceFileLoader):
            def get_code(self, fullname):
                return code
        loader = Loader(name, code.co_filename)
        return importlib.util.spec_from_file_location(name, code.co_filename, loader=loader)

noted = set()

def note(file, line):
    if (file, line) not in noted:
        noted.add((file, line))
        notes = os.open(os.environ["MUTATE_CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(notes, f"{line} {file}\\n".encode())
        os.close(notes)

builtins.mutate_note = note
sys.meta_path.insert(0, Hook())
"""
"""`sitecustomize` of processes that a test starts: takes modules from a folder, notes calls."""


def transplant(modules: Iterable[types.CodeType], but: Iterable[Place] = ()) -> bool:
    """Give the functions of modules, wherever they are held, the code in these, but not to all.

    False where that cannot be: the change takes a variable out of a closure.
    """
    fresh, excepted = defaultdict(list), set(but)
    for module in modules:
        for code in _with_inner(module):
            if (code.co_filename, code.co_firstlineno) not in excepted:
                fresh[code.co_filename, code.co_qualname, code.co_firstlineno].append(code)
    for place, codes in fresh.items():
        for function in _held().get(place, ()):
            old, fitting = function.__code__, codes
            if len(codes) > 1:  # several lambdas in one line
                fitting = [code for code in codes if _column(code) == _column(old)]
            for code in fitting[:1]:
                if code.co_freevars != old.co_freevars:
                    return False
                function.__code__ = code
    return True


@cache
def _held() -> dict[tuple[str, str, int], list[types.FunctionType]]:
    """The functions of the source that anything holds, by where they are defined."""
    functions = defaultdict(list)
    for each in gc.get_objects():
        if type(each) is types.FunctionType and each.__code__.co_filename.startswith(str(SOURCE)):
            code = each.__code__
            functions[code.co_filename, code.co_qualname, code.co_firstlineno].append(each)
    return functions


def _column(code: types.CodeType) -> int:
    """Where the function's first expression begins."""
    return min((column for *_, column, _ in code.co_positions() if column), default=0)


class _Hook(importlib.abc.MetaPathFinder):
    """Finds one module, and takes the mutant's code in place of its file's."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.mutant.module:
            return None
        code = self.mutant.code

        class Loader(importlib.machinery.SourceFileLoader):
            def get_code(self, fullname: str) -> Any:
                return code

        loader = Loader(name, str(self.mutant.path))
        return importlib.util.spec_from_file_location(name, self.mutant.path, loader=loader)


def compiled() -> dict[Place, Any]:
    """The functions that numba compiles, where it is loaded; not those that `gc.freeze` hides."""
    if "numba" not in sys.modules:
        return {}
    from numba.core.dispatcher import Dispatcher

    places: dict[Place, Any] = {}
    for each in gc.get_objects():
        if issubclass(type(each), Dispatcher):  # not isinstance: that asks objects
            code = each.py_func.__code__
            places[code.co_filename, code.co_firstlineno] = each
    return places


def load_kernels() -> None:
    """Load what the cache has of every compiled function, once for all processes."""
    for dispatcher in compiled().values():
        stored = getattr(dispatcher._cache, "_cache_file", None)
        codegen = dispatcher.targetctx.codegen()
        for key in stored._load_index() if stored else ():
            if key == dispatcher._cache._index_key(key[0], codegen):
                dispatcher.compile(key[0])


def compile_anew() -> None:
    """Have numba forget what it compiled, in this process and in the cache."""
    for dispatcher in compiled().values():
        from numba.core.caching import NullCache

        dispatcher._cache = NullCache()
        dispatcher.recompile()


# --- the tests ----------------------------------------------------------------------------------


@dataclass
class Census:
    """Which functions, branches and loops each test enters, and how long it takes."""

    calls: dict[str, set[Place]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    shared: dict[str, list[str]] = field(default_factory=dict)
    """The fixtures of each test that it shares with others."""
    setup: dict[str, float] = field(default_factory=dict)
    """Seconds that it takes to set up a shared fixture."""
    failed: list[str] = field(default_factory=list)
    mentions: Mentions = field(default_factory=Mentions.of_source)

    def add(self, record: dict[str, Any]) -> None:
        """Take what was noted of one test."""
        if record["failed"]:
            self.failed.append(record["test"])
        else:
            calls = {(str(ROOT / file), line) for file, line in record["calls"]}
            self.calls[record["test"]] = calls
            self.seconds[record["test"]] = record["seconds"]
            self.shared[record["test"]] = record["shared"]
            for fixture, seconds in record["setup"].items():
                self.setup[fixture] = max(seconds, self.setup.get(fixture, 0.0))

    @cached_property
    def called(self) -> set[Place]:
        """Every function that some test calls."""
        return set().union(*self.calls.values())

    def at_import(self, mutant: Mutant) -> bool:
        """Whether it takes effect when its module is imported, not when a test calls it."""
        function = mutant.function
        return function is None or not self._entered({(str(mutant.path), function)})

    def calling(self, mutant: Mutant) -> list[str]:
        """The tests that get to the change, quick ones and those that name it first.

        Before all others, tests that have its module or package as their parameter.
        """
        file = str(mutant.path)
        if mutant.function is not None and not self.at_import(mutant):
            here = file, mutant.branch or mutant.function
            is_noted = (file, mutant.function) in self.called
            places = {here} if is_noted else self._entered({(file, mutant.function)})
        else:
            places = self._entered(self.mentions.of_names(mutant.names))
            inside = {p for p in {*self.called, *self.mentions.names} if p[0] == file}
            places = places or self._entered(inside)
        tests = [test for test, calls in self.calls.items() if calls & places]
        if self.at_import(mutant):
            tests += [test for test, calls in self.calls.items() if not calls]
        words = {mutant.path.stem, *mutant.names}
        words.add(self.mentions.names.get((file, mutant.function or 0), mutant.path.stem))
        around = {mutant.module.rsplit(".", up)[0] for up in range(mutant.module.count(".") + 1)}
        return sorted(
            tests,
            key=lambda test: (
                _parameter(test) not in around,
                self.alone(test) * (0.2 if _says(test, words) else 1),
            ),
        )

    def with_kernels(self) -> set[str]:
        """Quick tests that get to compiled functions.

        Compiled code notes nothing: tests that call it themselves are known by what they import.
        """
        inside = {place for place in self.mentions.names if place[0] in self.mentions.kernels}
        places, packages = self._entered(inside), {Path(file).parent.name for file, _ in inside}
        return {
            test
            for test, calls in self.calls.items()
            if (calls & places or _says(test, packages)) and self.alone(test) < UNCOMPILED / 2
        }

    def alone(self, test: str, ready: Iterable[str] = ()) -> float:
        """Seconds that a test takes by itself, when these shared fixtures are set up."""
        needed = set(self.shared[test]).difference(ready)
        return self.seconds[test] + sum(self.setup.get(fixture, 0.0) for fixture in needed)

    def within(self, tests: Iterable[str], budget: float, anew: bool) -> list[str]:
        """The first of the tests that take so many seconds together, and one at least."""
        total, chosen, ready = 0.0, list[str](), set[str]()
        for test in tests:
            file = test.split("::")[0]
            total += self.alone(test, ready) + (COLLECTING if anew and file not in ready else 0.0)
            if total > budget and chosen:
                break
            ready.update(self.shared[test], [file])
            chosen.append(test)
        return chosen

    def patience(self, test: str) -> float:
        """Seconds that a test may take."""
        return PATIENCE + 10 * self.alone(test) if test in self.seconds else PATIENCE

    def _entered(self, places: set[Place]) -> set[Place]:
        """These, where Python enters them; otherwise the functions that mention them."""
        reached: set[Place] = set()
        entered, waiting = set(), list(places)
        while waiting:
            place = waiting.pop()
            if place in self.called:
                entered.add(place)
            elif place not in reached:
                waiting += self.mentions.callers(place)
            reached.add(place)
        return entered


@cache
def _words(file: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", (ROOT / file).read_text(encoding="utf-8")))


def _parameter(test: str) -> str:
    """What stands in brackets after the name of a test."""
    return test.partition("[")[2].removesuffix("]")


def _says(test: str, words: set[str]) -> bool:
    """Whether the file of the test has one of the words in it."""
    file = test.split("::")[0]
    return not words.isdisjoint(_words(file) | {file.rpartition("/test_")[2].removesuffix(".py")})


@cache
def noting(path: Path) -> types.CodeType:
    """A module whose functions, lambdas, branches and loops note that they are entered."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    places = _places(tree)
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.Lambda):
            note = _note(path, places[id(node.body)][0], node.body)
            node.body = ast.IfExp(note, node.body, node.body)  # calling it gives None
        elif not isinstance(node, ast.Module | ast.ClassDef | ast.IfExp):
            for body in (getattr(node, name, None) for name in BODIES):
                if body and id(body[0]) in places:
                    notes = [_note(path, line, body[0]) for line in set(places[id(body[0])])]
                    start = _has_docstring(node)
                    body[start:start] = [ast.copy_location(ast.Expr(n), body[0]) for n in notes]
    return compile(ast.fix_missing_locations(tree), str(path), "exec")


def _note(path: Path, line: int, beside: ast.AST) -> ast.Call:
    place: list[ast.expr] = [ast.Constant(str(path)), ast.Constant(line)]
    note = ast.Call(ast.Name("mutate_note", ast.Load()), place, [])
    for part in ast.walk(note):
        ast.copy_location(part, beside)
    return note


def _has_docstring(node: ast.AST) -> bool:
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return is_function and ast.get_docstring(node, clean=False) is not None


class Watcher:
    """Runs tests one after the other, and notes what they call."""

    def __init__(self, folder: Path) -> None:
        """Keep what started processes note in `folder`."""
        self.folder = folder
        self.failures = 0
        self.setup: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count failures."""
        self.failures += report.failed

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Time what several tests share."""
        start = spent()
        result = yield
        if fixturedef.scope != "function":
            self.setup[_full_name(fixturedef)] = spent() - start
        return result

    def record(self, item: pytest.Item, following: pytest.Item | None) -> dict[str, Any]:
        """Run a test."""
        called: set[Place] = set()
        builtins.mutate_note = lambda *place: called.add(place)  # type: ignore[attr-defined]
        notes = self.folder / "calls"
        notes.unlink(missing_ok=True)
        os.environ["MUTATE_CALLS"] = str(notes)
        self.setup.clear()
        before, start = self.failures, spent()
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        seconds = max(0.0, spent() - start - sum(self.setup.values()))
        if notes.exists():
            lines = [line.split(" ", 1) for line in notes.read_text().splitlines()]
            called.update((file, int(first)) for first, file in lines)
        calls = sorted((str(Path(file).relative_to(ROOT)), first) for file, first in called)
        return {"test": item.nodeid, "seconds": round(seconds, 4), "calls": calls,
                "shared": shared_fixtures(item), "setup": dict(self.setup),
                "failed": self.failures > before}  # fmt: skip


def shared_fixtures(item: Any) -> list[str]:
    """The fixtures of a test that are set up once for several."""
    definitions = getattr(item, "_fixtureinfo", None)
    last = [each[-1] for each in definitions.name2fixturedefs.values()] if definitions else []
    return sorted(_full_name(each) for each in last if each.scope != "function")


def _full_name(definition: Any) -> str:
    return f"{definition.baseid}::{definition.argname}"


def signature(record: dict[str, Any]) -> str:
    """Changes with the test's file, and with the files that it called if it passed."""
    paths = [record["test"].split("::")[0], *sorted({file for file, _ in record["calls"]})]
    parts = [_hash(ROOT / path) for path in paths]
    parts += [_source_hash()] if record["failed"] else []
    return hashlib.sha256("".join([*parts, str(COMPILES)]).encode()).hexdigest()[:12]


@cache
def _source_hash() -> str:
    return hashlib.sha256("".join(map(_hash, files())).encode()).hexdigest()[:12]


@cache
def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path.exists() else ""


@dataclass(frozen=True)
class Limits:
    """Seconds of the processor: for one test, and for watching all of them."""

    longest: float
    watching: float


def watch(items: list[pytest.Item], store: Path, kernels: set[Place], limits: Limits) -> Census:
    """What each test calls; from `store` where it was noted there, which is brought up to date.

    Files whose tests take long begin first in the suite (`tests/conftest.py`), and are watched last
    here: what is left out after `limits.watching` seconds is what costs most and kills least.
    """
    stored = _stored(store)
    missing = [item for item in items[::-1] if item.nodeid not in stored]
    ends = spent() + limits.watching
    print(f"{len(items)} tests, {len(missing)} of them to be watched", file=sys.stderr, flush=True)
    for path in files() if missing else ():
        noting(path)  # once for all processes
    while missing and spent() < ends:
        with Child() as child:
            if child.start():
                try:
                    _watch_in_child(missing, store, child, kernels, limits.longest, ends - spent())
                finally:
                    os._exit(FAULT)
            child.wait()
        stored = _stored(store)
        if child.code == 0:
            break
        missing = [item for item in missing if item.nodeid not in stored]
        if missing:  # this one ended the process
            record = {"test": missing[0].nodeid, "seconds": 0.0, "calls": [], "shared": [],
                      "setup": {}, "failed": True}  # fmt: skip
            _append(store, {**record, "signature": signature(record)})
            missing = missing[1:]
    census = Census()
    for item in items:
        if item.nodeid in stored:
            census.add(stored[item.nodeid])
    left_out = len(items) - len(census.calls) - len(census.failed)
    if left_out:
        print(f"{left_out} tests were not watched, and are not run", file=sys.stderr, flush=True)
    for name in census.failed:
        print(f"fails without any change, left out: {name}", file=sys.stderr, flush=True)
    return census


def _stored(store: Path) -> dict[str, dict[str, Any]]:
    records = (r for r in _read_lines(store) if r["compiles"] == COMPILES)
    return {r["test"]: r for r in records if r["signature"] == signature(r)}


def _watch_in_child(
    items: list[pytest.Item],
    store: Path,
    child: Child,
    kernels: set[Place],
    longest: float,
    watching: float,
) -> None:
    watcher = Watcher(child.folder)
    modules = [noting(path) for path in files() if not makes_instructions(path)]
    if not transplant(modules, but=kernels):
        raise RuntimeError("calls cannot be noted")
    for code in modules:
        if code.co_filename not in {file for file, _ in kernels}:
            child.give(name_of(Path(code.co_filename)), code)
    items[0].config.pluginmanager.register(watcher)
    for item, following in _pairs(items):
        if spent() > watching:  # counts from the fork
            break
        child.allow(longest if COMPILES else UNCOMPILED)
        record = watcher.record(item, following)
        _append(store, {**record, "signature": signature(record)})
    os._exit(0)


def _append(store: Path, record: dict[str, Any]) -> None:
    with store.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**record, "compiles": COMPILES}, ensure_ascii=False) + "\n")


def _pairs(items: list[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Every test with the one after it, whose fixtures are not to be torn down between them."""
    return zip(items, [*items[1:], None], strict=True)


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        for line in path.read_text().splitlines():
            yield json.loads(line)


# --- one process for each mutant ----------------------------------------------------------------


def spent() -> float:
    """Seconds of the processor that this process and those that it waited for have used."""
    return sum(os.times()[:4])


def spent_by(process: int) -> float:
    """The same of another process."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


class Child:
    """A forked process with a temporary folder, a deadline that it sets itself, and no output."""

    def __init__(self) -> None:
        """Nothing is started yet."""
        self.folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        self.memory = mmap.mmap(-1, 512)
        self.code: int | None = None
        self.hangs = False
        self.process = 0
        self.looked = time.monotonic()

    def __enter__(self) -> Child:
        """Ready to be started."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left behind."""
        self.end()

    def start(self) -> bool:
        """Fork; true in the new process."""
        self.allow(600, since=0.0)
        self.looked = time.monotonic()
        self.process = os.fork()
        if self.process:
            return False
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        hooks, own = self.folder / "hooks", self.folder / "tmp"
        for each in (hooks, own, self.folder / "modules"):
            each.mkdir()
        (hooks / "sitecustomize.py").write_text(STARTED)
        os.environ.update(TMPDIR=str(own), MUTATE_MODULES=str(self.folder / "modules"))
        tempfile.tempdir = None
        paths = [str(hooks), str(SOURCE), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        return True

    def allow(self, seconds: float, test: str = "", since: float | None = None) -> None:
        """Set the deadlines, for this test: of the processor, and by the clock."""
        used = spent() if since is None else since
        ends = struct.pack("dd", used + seconds, time.monotonic() + WAITING * seconds)
        self.memory[:] = (ends + test.encode()[:480]).ljust(512, b"\0")

    def give(self, name: str, code: types.CodeType) -> None:
        """Have processes that it starts import this code as the module of that name."""
        (self.folder / "modules" / name).write_bytes(marshal.dumps(code))

    @property
    def test(self) -> str:
        """The test that runs, or ran last."""
        return self.memory[16:].rstrip(b"\0").decode(errors="ignore")

    def ended(self) -> bool:
        """Whether it is over; it is stopped when it takes too long, by the time that it had."""
        last, self.looked = self.looked, time.monotonic()
        processor, clock = struct.unpack("dd", self.memory[:16])
        if self.looked - last > PAUSE:
            clock += self.looked - last
            self.memory[8:16] = struct.pack("d", clock)
        done, status = os.waitpid(self.process, os.WNOHANG)
        if done:
            self.code = os.waitstatus_to_exitcode(status)
        elif self.looked > clock or spent_by(self.process) > processor:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
            self.code, self.hangs = -signal.SIGKILL, True
        return self.code is not None

    def wait(self) -> None:
        """Until it is over."""
        while not self.ended():
            time.sleep(0.05)

    def end(self) -> None:
        """Stop whatever it started, and remove its files."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process, signal.SIGKILL)
        if self.code is None:
            os.waitpid(self.process, 0)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.memory.close()


class Trial:
    """A plugin for the process of a mutant: a deadline for every test, and the first failure."""

    def __init__(self, child: Child, census: Census, mutant: Mutant, extra: float) -> None:
        """`extra` seconds are allowed on top for every test."""
        self.child, self.census, self.mutant, self.extra = child, census, mutant, extra
        self.wanted: dict[str, int] = {}

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Set the deadline."""
        self.child.allow(self.census.patience(item.nodeid) + self.extra, item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Noticed: over."""
        if report.failed:
            os._exit(1)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Cannot be collected any more: noticed."""
        if report.failed:
            self.child.allow(PATIENCE, report.nodeid)
            os._exit(1)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """When modules were imported anew: the same tests, in the same order."""
        items[:] = [item for item in items if item.nodeid in self.wanted]
        items.sort(key=lambda item: self.wanted[item.nodeid])
        for item in items:
            do_not_shrink(item)
        if str(self.mutant.path) in self.census.mentions.kernels:
            compile_anew()


def try_mutant(child: Child, mutant: Mutant, census: Census, items: list[pytest.Item]) -> None:
    """In the new process: put the mutant in place, and run tests until one fails."""
    is_compiled = COMPILES and str(mutant.path) in census.mentions.kernels
    if not is_compiled:
        child.give(mutant.module, mutant.code)
    anew = census.at_import(mutant) or is_compiled or not transplant([mutant.code])
    trial = Trial(child, census, mutant, COMPILING if anew else 0.0)
    if anew:
        trial.wanted = {item.nodeid: number for number, item in enumerate(items)}
        _forget_ours()
        sys.meta_path.insert(0, _Hook(mutant))
        child.allow(10 * COMPILING, "import")
        try:
            importlib.import_module(mutant.module)  # before pytest puts its own hook in front
        except BaseException:
            os._exit(1)
        chosen = dict.fromkeys(item.nodeid.split("::")[0] for item in items)
        code_of_all = pytest.main([*QUIET, *chosen], plugins=[trial])
        os._exit(code_of_all not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED))
    items[0].config.pluginmanager.register(trial)
    try:
        for item, following in _pairs(items):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    except BaseException:
        os._exit(1)
    os._exit(0)


def _forget_ours() -> None:
    """The modules of source and tests are imported anew; those of others stay."""
    folders = str(SOURCE), str(ROOT / "tests")
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(folders):
            del sys.modules[name]


def do_not_shrink(item: pytest.Item) -> None:
    """A failing example is enough, it need not be small."""
    test: Any = getattr(item, "obj", None)
    own = getattr(test, "_hypothesis_internal_use_settings", None)
    if own is not None:
        from hypothesis import Phase, settings  # pytest wants to be imported before it

        phases = (Phase.explicit, Phase.generate)
        test._hypothesis_internal_use_settings = settings(own, phases=phases)


# --- the campaign -------------------------------------------------------------------------------


Record = dict[str, Any]


@dataclass
class Results:
    """What became of mutants, one JSON line each."""

    path: Path

    def read(self) -> dict[tuple[Any, ...], Record]:
        """Outcomes by `Mutant.key`."""
        return {
            (record["file"], record["number"], record["change"], record["source"]): record
            for record in _read_lines(self.path)
        }

    def add(
        self, mutant: Mutant, outcome: str, tests: tuple[int, int], seconds: float, test: str
    ) -> None:
        """Write down an outcome, and say what was not noticed."""
        file, number, change, source = mutant.key()
        note = "" if tests[0] == tests[1] else f"tried by {tests[0]} of {tests[1]} tests"
        record = {"file": file, "number": number, "line": mutant.line, "change": change,
                  "source": source, "outcome": outcome, "tried": tests[0],
                  "note": note if tests[1] else "no test gets there", "test": test,
                  "seconds": round(seconds, 2)}  # fmt: skip
        with self.path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(record, ensure_ascii=False) + "\n")
        if outcome not in ("noticed", "hangs"):
            print(f"{outcome}  {mutant}  {record['note']}".rstrip(), flush=True)


@dataclass
class Campaign:
    """A plugin that, instead of running the collected tests once, runs them on every mutant."""

    chosen: list[Mutant]
    jobs: int
    budget: float
    limits: Limits
    again: bool
    store: Path
    results: Results

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Watch the tests once, then try every mutant that has no result yet."""
        items = {item.nodeid: item for item in session.items}
        for item in session.items:
            do_not_shrink(item)
        kernels = set(compiled())
        load_kernels()
        _held()
        gc.freeze()  # what is old stays in memory that processes share
        census = watch(self._worth_watching(session.items), self.store, kernels, self.limits)
        waiting = self._waiting()
        total = len(waiting)
        running: list[tuple[Mutant, Child, float, tuple[int, int]]] = []
        while waiting or running:
            while waiting and len(running) < self.jobs:
                if len(waiting) % 20 == 0:
                    print(f"  {total - len(waiting)} of {total}", file=sys.stderr, flush=True)
                mutant, tried = waiting.pop()
                every = census.calling(mutant)
                tests = census.within(every[tried:], self.budget, census.at_import(mutant))
                if not tests:
                    self.results.add(mutant, "survived", (tried, len(every)), 0.0, "")
                    continue
                child = Child()
                if child.start():
                    try:
                        try_mutant(child, mutant, census, [items[t] for t in tests])
                    finally:
                        os._exit(FAULT)
                counts = tried + len(tests), len(every)
                running.append((mutant, child, time.monotonic(), counts))
            for entry in list(running):
                if entry[1].ended():
                    running.remove(entry)
                    self._conclude(*entry)
            time.sleep(0.01)
        return True

    def _waiting(self) -> list[tuple[Mutant, int]]:
        """Mutants without a result, or that survived so many tests, the last first."""
        done = self.results.read()
        waiting = [(mutant, 0) for mutant in self.chosen if mutant.key() not in done]
        if self.again:
            records = [
                (mutant, done[mutant.key()]) for mutant in self.chosen if mutant.key() in done
            ]
            waiting += [(m, r["tried"]) for m, r in records if r["outcome"] == "survived"]
        return waiting[::-1]

    def _conclude(
        self, mutant: Mutant, child: Child, start: float, counts: tuple[int, int]
    ) -> None:
        outcome = {0: "survived", FAULT: "fault of this tool"}.get(
            child.code or 0, "hangs" if child.hangs else "noticed"
        )
        seconds = time.monotonic() - start
        self.results.add(mutant, outcome, counts, seconds, child.test if child.code else "")
        child.end()

    def _worth_watching(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """All; without the compiler, those that get to compiled functions, if that is known."""
        census = Census()
        for record in _read_lines(self.store):
            if record["compiles"]:
                census.add(record)
        if COMPILES or not census.calls:
            return items
        quick = census.with_kernels()
        return [item for item in items if item.nodeid in quick]


@dataclass(frozen=True)
class Equivalent:
    """A change that changes nothing anybody could notice, and why."""

    file: str
    source: str
    change: str
    reason: str

    @classmethod
    def all(cls) -> list[Equivalent]:
        """Those that are listed."""
        if not EQUIVALENT.exists():
            return []
        return [cls(**each) for each in tomllib.loads(EQUIVALENT.read_text("utf-8"))["mutant"]]

    def matches(self, record: Record) -> bool:
        """Whether it is this one."""
        return (self.file, self.source, self.change) == (
            record["file"], record["source"], record["change"]
        )  # fmt: skip


def summary(chosen: list[Mutant], outcomes: dict[tuple[Any, ...], Record]) -> Iterator[str]:
    """What became of the mutants, by package and in all."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    listed = Equivalent.all()
    for mutant in chosen:
        record = outcomes.get(mutant.key())
        if record:
            outcome = record["outcome"]
            reasons = [each.reason for each in listed if each.matches(record)]
            if outcome == "survived" and reasons:
                outcome = "equivalent"
                yield f"equivalent  {mutant}: {reasons[0]}"
            for package in (mutant.package, "all"):
                counts[package][outcome] += 1
    for package in [*sorted(set(counts) - {"all"}), "all"]:
        count = counts[package]
        if count.total():
            yield (
                f"{package}: {_noticed(count)} of {count.total()} noticed, {count['hangs']} of "
                f"them by hanging; {count['equivalent']} equivalent; "
                f"{_noticed(count) / max(count.total() - count['equivalent'], 1):.1%} of the others"
            )
    if counts["all"].total() < len(chosen):
        yield from _of_part(chosen, outcomes)


def _noticed(count: Counter[str]) -> int:
    return count["noticed"] + count["hangs"]


def _of_part(chosen: list[Mutant], outcomes: dict[tuple[Any, ...], Record]) -> Iterator[str]:
    """The share of a sample that is tried in part: each round is tried in the order of drawing.

    The mutants of either round that have a result are a random part of it, but one round may have
    got further than the other: each counts by how many of its mutants were drawn.
    """
    mentions, share = Mentions.of_source(), 0.0
    uncompiled = {mutant for mutant in chosen if mentions.without_compiler(mutant)}
    for name, drawn in (
        ("with the compiler", [m for m in chosen if m not in uncompiled]),
        ("without it", [m for m in chosen if m in uncompiled]),
    ):
        count = Counter(outcomes[m.key()]["outcome"] for m in drawn if m.key() in outcomes)
        if not count:
            yield f"{name}: none of {len(drawn)} tried"
            return
        yield f"{name}: {_noticed(count)} noticed of {count.total()} tried of {len(drawn)} drawn"
        share += _noticed(count) / count.total() * len(drawn) / len(chosen)
    yield f"of all that were drawn, by these two: {share:.1%}"


def selected(names: list[str]) -> list[Path]:
    """Files whose path below a top-level package starts with one of the names; or all."""
    below = {path: Path(*path.relative_to(SOURCE).parts[1:]) for path in files()}
    if not names:
        return list(below)
    chosen = []
    for name in names:
        wanted = Path(name)
        matching = [
            path
            for path, part in below.items()
            if wanted in (part, part.with_suffix(""), *part.parents)
        ]
        if not matching:
            raise SystemExit(f"no file of the source is {name} or below it")
        chosen += matching
    return list(dict.fromkeys(chosen))


def main() -> int:
    """Draw mutants and count those that a test notices."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="packages or modules (metrics/state); else all")
    parser.add_argument("--sample", type=int, default=600, help="mutants in all; 0: every one")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of tests per mutant")
    parser.add_argument("--longest", type=float, default=60.0, help="seconds that a test may take")
    parser.add_argument(
        "--watching", type=float, default=math.inf, help="seconds for watching the tests"
    )
    parser.add_argument("--report", action="store_true", help="only count the results so far")
    parser.add_argument("--again", action="store_true", help="further tests for what survived")
    parser.add_argument("--results", type=Path, help="JSON lines; mutants in it are not repeated")
    parser.add_argument("--census", type=Path, help="JSON lines: which test calls what, kept")
    parser.add_argument("--tests", nargs="+", default=[], help="paths for pytest; else all")
    options = parser.parse_args()
    results, store = (p and p.resolve() for p in (options.results, options.census))
    os.chdir(ROOT)
    sys.path.insert(0, str(SOURCE))
    every = [mutant for path in selected(options.names) for mutant in mutants(path)]
    size = min(options.sample, len(every)) or len(every)
    chosen = random.Random(options.seed).sample(every, size)  # noqa: S311
    with tempfile.TemporaryDirectory() as folder:
        store = store or Path(folder, "census.jsonl")
        outcomes = Results(results or Path(folder, "results.jsonl"))
        code = 0 if options.report else run(chosen, options, store, outcomes)
        if COMPILES:
            for line in summary(chosen, outcomes.read()):
                print(line)
            print(f"{len(chosen)} of {len(every)} mutants, seed {options.seed}")
    return code


def run(chosen: list[Mutant], options: argparse.Namespace, store: Path, outcomes: Results) -> int:
    """Try mutants; those of compiled functions in a second process, without the compiler."""
    mentions = Mentions.of_source()
    kernels = [mutant for mutant in chosen if mentions.without_compiler(mutant)]
    now = [mutant for mutant in chosen if (mutant in kernels) != COMPILES]
    codes = [0]
    if now:
        limits = Limits(options.longest, options.watching)
        how = options.jobs, options.budget, limits, options.again
        campaign = Campaign(now, *how, store, outcomes)
        codes.append(int(pytest.main([*QUIET, *options.tests], plugins=[campaign])))
    if COMPILES and kernels:
        again = [sys.executable, __file__, *sys.argv[1:]]
        again += ["--results", str(outcomes.path), "--census", str(store)]
        environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
        codes.append(subprocess.run(again, env=environment, check=False).returncode)  # noqa: S603
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
