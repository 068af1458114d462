"""How large the house is: modules, lines, long functions, argument lists, `Any`, files, hops.

    python tools/measure.py [FOLDER]

FOLDER is a checkout, this one by default. Code lines hold something that is neither comment nor
docstring. Hops are the modules of ours that run while `evaluate` and `LinearClassifier.fit` do
(`--hops`, of the package that Python imports).
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

LONG, MANY = 40, 8
SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
           tokenize.ENCODING, tokenize.ENDMARKER}  # fmt: skip
Function = ast.FunctionDef | ast.AsyncFunctionDef


def docstring_lines(tree: ast.AST) -> set[int]:
    """The lines of all docstrings, and of strings that stand for themselves."""
    strings = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
    return {line for node in strings for line in range(node.lineno, (node.end_lineno or 0) + 1)}


def code_lines(source: str, tree: ast.AST) -> set[int]:
    """The lines that hold code."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {
        line
        for token in tokens
        if token.type not in SKIPPED
        for line in range(token.start[0], token.end[0] + 1)
    }
    return lines - docstring_lines(tree)


def functions(tree: ast.AST) -> Iterator[Function]:
    """All functions, methods too."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def arguments(function: Function) -> int:
    """How many arguments a caller can name, `self` and `cls` aside."""
    listed = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    return sum(argument.arg not in ("self", "cls") for argument in listed)


def source_counts(folder: Path) -> dict[str, int]:
    """What the source says of itself."""
    sizes = dict.fromkeys(("modules", "code lines", f"functions over {LONG} code lines",
                           f"functions of over {MANY} arguments", "Any"), 0)  # fmt: skip
    modules, lines, long, many, anything = sizes
    for file in sorted((folder / "src").rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        tree = ast.parse(source)
        code = code_lines(source, tree)
        sizes[modules] += 1
        sizes[lines] += len(code)
        for function in functions(tree):
            body = range(function.lineno, (function.end_lineno or 0) + 1)
            sizes[long] += len(code.intersection(body)) > LONG
            sizes[many] += arguments(function) > MANY
        sizes[anything] += sum(
            isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(tree)
        )
    return sizes


def tracked(folder: Path) -> dict[str, int]:
    """Files that git tracks, and their bytes."""
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(  # noqa: S603 (a command of ours)
        command, cwd=folder, capture_output=True, check=True
    )
    files = [folder / name.decode() for name in listed.stdout.split(b"\0") if name]
    sizes = [file.lstat().st_size for file in files if file.exists()]
    return {"files tracked": len(sizes), "bytes tracked": sum(sizes)}


def hops(call: Callable[[], object]) -> int:
    """How many modules of ours run during a call (the second one: nothing is imported then)."""
    call()
    files: set[str] = set()

    def note(frame, event, argument):  # type: ignore[no-untyped-def]
        files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return sum("/src/unmask" in file for file in files)


def walks() -> dict[str, int]:
    """The hops of the two calls that readers follow first."""
    from unmask import LinearClassifier, data, evaluate, propensity, set_threads

    set_threads(1)
    rows = data.synthetic.planted(200, n_features=40, n_labels=8, seed=0)
    p = propensity.constant(8, 0.5)
    model = LinearClassifier().fit(rows.features, rows.labels)
    top = model.predict_top(rows.features, 5)
    calls = {
        "modules run by evaluate": lambda: evaluate(top, rows.labels, p),
        "modules run by fit": lambda: LinearClassifier().fit(rows.features, rows.labels),
    }
    return {name: hops(call) for name, call in calls.items()}


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument(
        "folder", nargs="?", default=Path(__file__).resolve().parents[1], type=Path
    )
    options.add_argument("--hops", action="store_true")
    chosen = options.parse_args()
    counts = source_counts(chosen.folder) | tracked(chosen.folder)
    for name, count in (counts | (walks() if chosen.hops else {})).items():
        print(f"{name:35} {count:>10,}")


if __name__ == "__main__":
    main()
