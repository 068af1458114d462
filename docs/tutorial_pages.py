"""Tutorials: scripts of cells that are run, and become pages with what they print and draw.

A script is in the percent format that Jupyter opens (jupytext). It has cells of four kinds:

    # %% [markdown]         prose, as comments
    # %%                    Python; what it prints stands below it, and the chart that it ends in
    # %% tags=["data"]      the same, folded on the page: what makes the data to try it on
    # %% language="bash"    commands, as comments: each line is a command `unmask …`

`page` runs all cells in a folder of its own and returns the page; `python docs/generate.py
--tutorials` writes them all, with their pictures.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from unmask import pages
from unmask.pages import Chart, Panels
from unmask.pages.describe import alt_text
from unmask.pages.parts import Drawing

FOLDER = Path(__file__).resolve().parent / "tutorials"
PROSE, PYTHON, DATA, COMMANDS = "[markdown]", "", 'tags=["data"]', 'language="bash"'
KINDS = (PROSE, PYTHON, DATA, COMMANDS)
_HEAD = re.compile(r"^# %%(.*)$", re.MULTILINE)
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|])")


@dataclass(frozen=True)
class Cell:
    """A cell of a script: its kind, one of `KINDS`, and its lines, prose without comment signs."""

    kind: str
    text: str


@dataclass(frozen=True)
class Page:
    """A tutorial as Markdown, and its drawings by the name of their file."""

    text: str
    drawings: dict[str, Drawing]


def cells(source: str) -> list[Cell]:
    r"""The cells of a script.

    >>> cells("# %% [markdown]\n# # Tags\n#\n# Read.\n\n# %%\nx = 1\n")
    [Cell(kind='[markdown]', text='# Tags\n\nRead.'), Cell(kind='', text='x = 1')]
    """
    before, *parts = _HEAD.split(source)
    if before.strip():
        raise ValueError(f"a script begins with a cell, `# %%`; got {before.strip()[:60]!r}.")
    made = []
    for head, body in zip(parts[::2], parts[1::2], strict=True):
        kind, text = head.strip(), body.strip("\n")
        if kind not in KINDS:
            raise ValueError(f"a cell is one of {KINDS}; got {kind!r}.")
        if kind in (PROSE, COMMANDS):
            text = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
        made.append(Cell(kind, text))
    return made


def page(script: Path) -> Page:
    """Run a script, cell by cell, and write down what happens."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    blocks, drawings = [], dict[str, Drawing]()
    with tempfile.TemporaryDirectory() as folder, _inside(folder):
        for cell in cells(script.read_text(encoding="utf-8")):
            if cell.kind == PROSE:
                blocks.append(cell.text)
                continue
            is_command = cell.kind == COMMANDS
            written, value = _run_commands(cell.text) if is_command else _run(cell.text, namespace)
            shown = _fenced("bash" if is_command else "python", cell.text)
            blocks.append(_folded(shown) if cell.kind == DATA else shown)
            if written:
                blocks.append(_fenced("text", written))
            if isinstance(value, Chart | Panels):
                name = f"{script.stem}/{len(drawings) + 1}.svg"
                drawings[name] = value
                blocks.append(f"![{_plain(alt_text(value))}]({name})")
    return Page("\n\n".join([*blocks, _origin(script)]) + "\n", drawings)


def write(script: Path) -> Path:
    """Write the page of a script beside it, and its drawings into a folder of its name."""
    made = page(script)
    for name, drawing in made.drawings.items():
        (FOLDER / name).parent.mkdir(exist_ok=True)
        pages.save(drawing, FOLDER / name)
    target = script.with_suffix(".md")
    target.write_text(made.text, encoding="utf-8")
    return target


def main() -> None:
    """Write the pages of all scripts, or of those that are named on the command line."""
    named = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    for script in sorted(FOLDER.glob("*.py")):
        if not named or script.stem in named:
            print(f"{write(script).relative_to(FOLDER.parent.parent)}: written")


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    """Be in a folder, so that a script may name its files shortly."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _run(source: str, namespace: dict[str, object]) -> tuple[str, object]:
    """What a cell prints, and the value of the expression that it ends in, if it does."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(tree, "tutorial", "exec"), namespace)  # noqa: S102 (our own scripts)
        value = None
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "tutorial", "eval"), namespace)  # noqa: S307
    return output.getvalue().rstrip(), value


def _run_commands(text: str) -> tuple[str, None]:
    """What commands print, in this process."""
    from unmask.cli import main as command_line
    from unmask.cli import output as consoles

    output = io.StringIO()
    for line in text.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line, comments=True)
        if program != "unmask":
            raise ValueError(f"a command is `unmask …`; got {line!r}.")
        with (
            mock.patch.object(sys, "argv", [program, *arguments]),
            mock.patch.object(consoles.results, "_width", 90),
            contextlib.redirect_stdout(output),
        ):
            try:
                command_line()
            except SystemExit as end:
                if end.code:
                    raise ValueError(f"{line!r} ended with the code {end.code}.") from None
    lines = (line.rstrip() for line in output.getvalue().splitlines())
    return "\n".join(lines).strip("\n"), None


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def _plain(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text)


def _folded(block: str) -> str:
    words = "Code that stands in for real data"
    return f'<details markdown="1"><summary>{words}</summary>\n\n{block}\n\n</details>'


def _origin(script: Path) -> str:
    path = f"docs/tutorials/{script.name}"
    return (
        f"*The whole script is `{path}`. `python {path}` runs it and leaves its files in the "
        "current folder; Jupyter opens it with jupytext. What stands here is what it printed.*"
    )
