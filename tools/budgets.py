"""Print the budgets of the house: sizes, walks, frames, start-up, names, options, tests.

    python tools/budgets.py [--folder CHECKOUT] [--static]

FOLDER is a checkout, this one by default; the walks run the package found there. Code lines hold
neither comment, docstring nor nothing. A single-use function is a private function whose name
stands in one other place. Walks trace second calls, so nothing is compiled or imported in them:
modules passed, and switches from one module to another. `--static` leaves out what runs code.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import io
import os
import re
import subprocess
import sys
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

BLANK = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Rows = Iterator[tuple[str, str]]


def code_lines(source: str, tree: ast.AST) -> int:
    """Count the lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in BLANK:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            text = node.body[0]
            lines.difference_update(range(text.lineno, (text.end_lineno or 0) + 1))
    return len(lines)


def sizes(folder: Path) -> dict[str, int]:
    """Count lines, modules, functions, and private ones named in one other place only."""
    words: Counter[str] = Counter()
    private: list[str] = []
    lines = modules = functions = 0
    for file in sorted(folder.rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        tree = ast.parse(source)
        lines += code_lines(source, tree)
        modules += 1
        words.update(re.findall(r"\w+", source))
        named = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        functions += len(named)
        private += [n for n in named if n.startswith("_") and not n.startswith("__")]
    once = sum(words[name] == 2 for name in private)
    return {"lines": lines, "modules": modules, "functions": functions, "once": once}


def tracked(folder: Path) -> list[Path]:
    """List the files that git tracks."""
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(  # noqa: S603 (a command of ours)
        command, cwd=folder, capture_output=True, check=True
    )
    files = [folder / name.decode() for name in listed.stdout.split(b"\0") if name]
    return [file for file in files if file.is_file()]


def static(folder: Path) -> Rows:
    """Yield what can be read off the files."""
    source = sizes(folder / "src" / "unmask")
    yield "code lines, src/unmask", f"{source['lines']:,}"
    yield "modules, src/unmask", f"{source['modules']:,}"
    share = source["once"] / source["functions"]
    yield "single-use functions", f"{source['once']:,} of {source['functions']:,} ({share:.0%})"
    home = folder / "studies" if (folder / "studies").is_dir() else folder / "src/unmask_studies"
    yield "code lines, studies", f"{sizes(home)['lines']:,}"
    files = tracked(folder)
    tests = [f for f in files if f.suffix == ".py" and "tests" in f.relative_to(folder).parts]
    count = sum(len(f.read_text(encoding="utf-8").splitlines()) for f in tests)
    yield "lines of tests", f"{count:,}"
    yield "tracked files, bytes", f"{len(files):,}, {sum(f.stat().st_size for f in files):,}"


def trace(call: Callable[[], object], root: str) -> list[tuple[int, str]]:
    """Call a function twice and list (depth, file) of our functions called the second time."""
    call()
    calls: list[tuple[int, str]] = []
    depth = 0

    def watch(frame, event, _):  # type: ignore[no-untyped-def]
        nonlocal depth
        if not frame.f_code.co_filename.startswith(root):
            return
        if event == "call":
            depth += 1
            if frame.f_code.co_name != "<module>":
                calls.append((depth, frame.f_code.co_filename))
        elif event == "return":
            depth -= 1

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return calls


def walks() -> Rows:
    """Yield how far the main calls go."""
    import unmask
    from unmask import LinearClassifier, audit, data, evaluate, propensity

    root = str(Path(unmask.__file__).parent) + os.sep
    rows = data.synthetic.planted(3_000, n_labels=40, seed=0)
    p = propensity.constant(40, 0.4)
    observed = data.hide(rows.labels, p, seed=1)
    x, y, z, o = rows.features[:2_000], observed[:2_000], rows.features[2_000:], observed[2_000:]
    model = LinearClassifier("logistic").fit(x, y)
    top = model.predict_top(z, k=5)
    plan = audit.plan(top, o, budget=150, seed=0)
    judged = audit.from_rows(plan, rows.labels[2_000:][plan.rows])
    names, estimators = ["P@5", "R@5"], ["vanilla", "unbiased", "deconvolved"]
    calls: dict[str, Callable[[], object]] = {
        "P@5 vanilla": lambda: evaluate(top, o, metrics=["P@5"], estimators=["vanilla"]),
        "three estimators": lambda: evaluate(top, o, p, metrics=names, estimators=estimators),
        "with audit": lambda: evaluate(top, o, p, metrics=names, audit=judged),
        "fit": lambda: LinearClassifier("logistic").fit(x, y),
        "predict": lambda: model.predict_top(z, k=5),
    }
    for name, call in calls.items():
        made = trace(call, root)
        modules = {file for _, file in made}
        switches = sum(a[1] != b[1] for a, b in pairwise(made))
        yield f"walk: {name} (modules / switches)", f"{len(modules)} / {switches}"
        if name == "P@5 vanilla":
            kernels = (depth for depth, file in made if "kernels" in file[len(root) :])
            yield "frames above the first counted row", str(next(kernels) - 1)


def start(folder: Path) -> Rows:
    """Yield what one P@1 imports, and what it takes beyond numpy and scipy."""
    program = (
        "import time, sys, warnings; import numpy, scipy.sparse; warnings.simplefilter('ignore');"
        "start = time.perf_counter();"
        "from unmask import evaluate, TopK;"
        "evaluate(TopK([[0]], [[1.0]]), [[1, 0]], metrics=['P@1']);"
        "took = time.perf_counter() - start;"
        "ours = [name for name in sys.modules if name.split('.')[0] == 'unmask'];"
        "print(len(ours), took)"
    )
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    for _ in range(2):  # the second one finds compiled kernels
        run = subprocess.run(  # noqa: S603
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
    count, took = run.stdout.split()
    yield "one P@1: our modules, seconds", f"{count}, {float(took):.2f}"


def public_names() -> int:
    """Count the names in `__all__` of the package and of its public modules."""
    import unmask

    modules = [
        importlib.import_module(f"unmask.{name}")
        for name in unmask.__all__
        if not name.startswith("_") and type(getattr(unmask, name)).__name__ == "module"
    ]
    return sum(len(getattr(module, "__all__", ())) for module in (unmask, *modules))


def options() -> Rows:
    """Yield how many options the help of long commands shows first."""
    for command in ("train", "evaluate", "audit plan"):
        run = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "unmask", *command.split(), "--help"],
            env={**os.environ, "COLUMNS": "200"}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        shown = set(re.findall(r"(?m)^\W*(--[a-z][a-z0-9-]*)", run.stdout))
        yield f"options shown first, {command}", str(len(shown - {"--help"}))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--static", action="store_true", help="only what is read off the files")
    chosen = parser.parse_args()
    rows = list(static(chosen.folder))
    if not chosen.static:
        warnings.simplefilter("ignore")
        os.environ["NUMBA_NUM_THREADS"] = "1"
        os.environ["PYTHONPATH"] = str(chosen.folder / "src")
        sys.path.insert(0, str(chosen.folder / "src"))
        rows += [*walks(), *start(chosen.folder), *options()]
        rows.append(("public names", f"{public_names():,}"))
    for name, figure in rows:
        print(f"{name:42} {figure:>22}")


if __name__ == "__main__":
    main()
