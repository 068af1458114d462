"""Mutation testing: change one place of the source, and see whether a test notices.

    python tools/mutate.py census                        # note which tests run which lines, once
    python tools/mutate.py try --sample 300 --seed 7     # draw mutants and try them
    python tools/mutate.py report

A mutant swaps an operator, moves a number by one, negates a condition, or leaves a call out. It is
tried in a copy of the tree by the tests that run its line, those of few lines first, until one
fails or `--budget` seconds are over; what is not run is not noticed, so shares are lower bounds.

`census` runs the suite under coverage.py with a context per test. Compiled code runs no Python
lines, so kernels are watched and tried with `NUMBA_DISABLE_JIT`, by the tests in `KERNEL_TESTS`.
A change outside functions takes effect when the module is imported: it is tried by the tests that
run any line of a file that mentions the changed name. Results are appended to a file of JSON lines;
a second run goes on where the first one ended. Changes that change nothing are listed with their
reasons in `tools/equivalent.toml`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
KERNELS = SOURCE / "unmask" / "_kernels"
KERNEL_TESTS = ["tests/_kernels", "tests/metrics", "tests/weights"]
COPIED = ("src", "tests", "tools", "docs", "examples", "benchmarks", "studies", "pyproject.toml",
          "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "constraints.txt")  # fmt: skip
PYTEST = ["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--tb=no"]

SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of a file: its number there, its place, and what changes."""

    file: str
    number: int
    line: int
    change: str
    source: str
    name: str
    """The name that the statement defines, outside functions; "" inside them."""

    def __str__(self) -> str:
        """The place, the change, and the line it is in."""
        return f"{self.file}:{self.line}  {self.change}  | {self.source}"

    def changed(self) -> str:
        """Return the source of the file with the change."""
        tree = ast.parse((ROOT / self.file).read_text(encoding="utf-8"))
        _changes(tree)[self.number][2]()
        return ast.unparse(ast.fix_missing_locations(tree))


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield every change of a file."""
    text = path.read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    names = dict(_outside_functions(tree))
    for number, (node, words, _) in enumerate(_changes(tree)):
        yield Mutant(
            str(path.relative_to(ROOT)), number, node.lineno, words,
            lines[node.lineno - 1].strip(), names.get(id(node), ""),
        )  # fmt: skip


def _outside_functions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield nodes that run when the module is imported, with the name that is defined there."""

    def visit(node: ast.AST, name: str) -> Iterator[tuple[int, str]]:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        yield id(node), name
        for field, value in ast.iter_fields(node):
            of_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            if not (of_function and field == "body"):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        yield from visit(child, name)

    for statement in tree.body:
        targets = [n.id for n in ast.walk(statement) if isinstance(n, ast.Name)]
        name = getattr(statement, "name", targets[0] if targets else "")
        yield from visit(statement, name)


def _changes(tree: ast.Module) -> list[tuple[Any, str, Callable[[], None]]]:
    """List what can be changed, in an order that depends on the source alone."""
    ignored = {id(inner) for node in ast.walk(tree) for inner in _ignored(node)}
    nodes = [node for node in ast.walk(tree) if id(node) not in ignored]
    return [(node, words, apply) for node in nodes for words, apply in _of_node(node)]


def _ignored(node: ast.AST) -> Iterator[ast.AST]:
    """Yield annotations, messages and assertions, which make no results."""
    roots: list[ast.AST | None] = []
    if isinstance(node, ast.arg | ast.AnnAssign):
        roots = [node.annotation]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        roots = [node.returns, *node.decorator_list]
    elif (
        isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert)
        or (isinstance(node, ast.keyword) and node.arg == "strict")
        or (
            isinstance(node, ast.If) and re.search("TYPE_CHECKING|__main__", ast.unparse(node.test))
        )
    ):
        roots = [node]
    for root in roots:
        if root is not None:
            yield from ast.walk(root)


def _of_node(node: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        new = SWAPS[type(node.ops[0])]()
        yield _words(node.ops[0], new), lambda: node.ops.__setitem__(0, new)
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPS:
        new = SWAPS[type(node.op)]()
        yield _words(node.op, new), lambda: setattr(node, "op", new)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        old = node.value
        value = not old if isinstance(old, bool) else old + 1 if old + 1 != old else 2 * old
        yield f"{old} → {value}", lambda: setattr(node, "value", value)
    elif isinstance(node, ast.If | ast.IfExp):
        negated = ast.UnaryOp(ast.Not(), node.test)
        yield "condition negated", lambda: setattr(node, "test", negated)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "call left out", lambda: setattr(node, "value", ast.Constant(None))


def _words(old: ast.AST, new: ast.AST) -> str:
    return f"{type(old).__name__} → {type(new).__name__}"


# --- which tests run which lines ------------------------------------------------------------------


def census(folder: Path) -> None:
    """Run the suite, and the tests of kernels without the compiler, under coverage.py."""
    settings = folder / "coverage.ini"
    settings.write_text(f"[run]\nsource = {SOURCE}\ndynamic_context = test_function\n")
    for name, tests, jit in (("compiled", [], "0"), ("kernels", KERNEL_TESTS, "1")):
        command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}",
                   f"--data-file={folder / name}", *PYTEST, *tests]  # fmt: skip
        subprocess.run(command, cwd=ROOT, check=False, env=os.environ | {"NUMBA_DISABLE_JIT": jit})  # noqa: S603


class Census:
    """The tests that run each line of the source."""

    def __init__(self, folder: Path) -> None:
        """Read what `census` recorded."""
        self.tests: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.lines: Counter[str] = Counter()
        for name in ("compiled", "kernels"):
            if (folder / name).exists():
                self._read(folder / name, of_kernels=name == "kernels")

    def _read(self, data: Path, *, of_kernels: bool) -> None:
        query = (
            "select path, context, numbits from line_bits join file on file.id = file_id "
            "join context on context.id = context_id where context != ''"
        )
        for path, context, bits in sqlite3.connect(data).execute(query):
            if of_kernels == path.startswith(str(KERNELS)):
                test = _node(context)
                numbers = [
                    8 * i + b for i, byte in enumerate(bits) for b in range(8) if byte >> b & 1
                ]
                self.lines[test] += len(numbers)
                for number in numbers:
                    self.tests[path][number].add(test)

    def running(self, mutant: Mutant) -> list[str]:
        """Return the tests that run the line of a mutant, those of few lines first."""
        if not mutant.name:
            tests = self.tests[str(ROOT / mutant.file)][mutant.line]
        else:
            files = [file for file in self.tests if mutant.name in _text(file)]
            tests = {test for file in files for each in self.tests[file].values() for test in each}
        return sorted(tests, key=lambda test: (self.lines[test], test))


def _node(context: str) -> str:
    """Return the node id of a test, of its dotted name."""
    parts = context.split("[")[0].split(".")
    for i in range(len(parts), 0, -1):
        file = Path(*parts[:i]).with_suffix(".py")
        if (ROOT / file).exists():
            return "::".join([str(file), *parts[i:]])
    return context


@cache
def _text(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


# --- trying them ----------------------------------------------------------------------------------


def try_mutant(mutant: Mutant, tests: list[str], budget: float, copy: Path) -> str:
    """Return "noticed", "hangs" or "survived", by tests in a copy of the tree."""
    if not tests:
        return "survived"
    place = copy / mutant.file
    place.unlink()  # the copy shares its files with the tree
    place.write_text(mutant.changed(), encoding="utf-8")
    in_kernels = (ROOT / mutant.file).is_relative_to(KERNELS)
    environment = os.environ | {"PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}"}
    environment["NUMBA_DISABLE_JIT"] = str(int(in_kernels))
    try:
        run = subprocess.run(  # noqa: S603
            [sys.executable, *PYTEST, "-x", *tests], cwd=copy, env=environment, timeout=budget,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as stopped:
        progress = (stopped.stdout or b"").decode()
        return "survived" if "." in progress else "hangs"
    finally:
        place.unlink()
        os.link(ROOT / mutant.file, place)
    return "survived" if run.returncode in (0, 5) else "noticed"


def copied(folder: Path) -> Path:
    """Return a copy of the tree that shares its files with it."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, copy_function=os.link)
        elif (ROOT / name).exists():
            os.link(ROOT / name, folder / name)
    return folder


def campaign(options: argparse.Namespace) -> None:
    """Draw mutants and try those that have no result yet."""
    files = [
        path for path in sorted(SOURCE.rglob("*.py"))
        if not options.names or any(name in str(path.relative_to(SOURCE)) for name in options.names)
    ]  # fmt: skip
    every = [mutant for path in files for mutant in mutants(path)]
    size = min(options.sample, len(every))
    chosen = random.Random(options.seed).sample(every, size)  # noqa: S311
    results = options.folder / "results.jsonl"
    done = {(r["file"], r["number"], r["source"]) for r in records(results)}
    recorded = Census(options.folder)
    with tempfile.TemporaryDirectory(dir=ROOT.parent) as folder:
        copy = copied(Path(folder))
        for mutant in chosen:
            if (mutant.file, mutant.number, mutant.source) in done:
                continue
            tests = recorded.running(mutant)
            outcome = try_mutant(mutant, tests[: options.tests], options.budget, copy)
            line = asdict(mutant) | {"outcome": outcome, "tests": len(tests)}
            with results.open("a", encoding="utf-8") as out:
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
            if outcome == "survived":
                print(f"survived  {mutant}  ({len(tests)} tests run the line)", flush=True)
    print(f"{len(chosen)} of {len(every)} mutants, seed {options.seed}")


def records(results: Path) -> list[dict[str, Any]]:
    """Return the results so far."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return [json.loads(line) for line in lines]


def report(results: Path) -> None:
    """Print the share that was noticed, by room and in all."""
    listed = tomllib.loads((ROOT / "tools" / "equivalent.toml").read_text(encoding="utf-8"))
    equivalent = {(e["source"], e["change"]) for e in listed.get("mutant", [])}
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in records(results):
        outcome = each["outcome"]
        if outcome == "survived" and (each["source"], each["change"]) in equivalent:
            outcome = "equivalent"
        for room in ("/".join(Path(each["file"]).parts[1:3]), "~ all"):
            counts[room][outcome] += 1
    for room, count in sorted(counts.items()):
        noticed, total = count["noticed"] + count["hangs"], count.total()
        others = max(total - count["equivalent"], 1)
        print(f"{room:32} {noticed:4} of {total:4} noticed, {count['equivalent']:3} equivalent, "
              f"{noticed / others:.1%} of the others")  # fmt: skip


def main() -> None:
    """Note which tests run which lines, try mutants, or count results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["census", "try", "report"])
    parser.add_argument("names", nargs="*", help="parts of paths, such as metrics; else all")
    parser.add_argument("--sample", type=int, default=300, help="mutants in all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds per mutant")
    parser.add_argument("--tests", type=int, default=40, help="at most so many tests per mutant")
    parser.add_argument("--folder", type=Path, default=ROOT / ".mutants", help="census and results")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    options.folder.mkdir(exist_ok=True)
    if options.what == "census":
        census(options.folder)
    elif options.what == "try":
        campaign(options)
    else:
        report(options.folder / "results.jsonl")


if __name__ == "__main__":
    main()
