"""Output of the command line: tables for people, JSON for machines, one line per error.

Results go to standard output (`results`); errors and warnings (`messages`) and progress
(`progress_console`: bars and "reading …") to standard error. `--quiet` silences only progress.
What is printed is data: names of files, labels and systems are no markup, and control characters
in them are shown, not acted on. Numbers are written by `_text.format_value`.
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.status import Status
from rich.table import Table
from rich.text import Text

from unmask._text import visible


class PlainConsole(Console):
    """A console that prints strings as they are: no markup, emoji codes or control characters."""

    def __init__(self, *, stderr: bool = False) -> None:
        """Make a console on standard output, or on standard error."""
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, as `Console.print`; a string may have several lines."""
        super().print(*(lines(o) if isinstance(o, str) else o for o in objects), **options)

    def status(self, status: object, **options: Any) -> Status:
        """Show a status, as `Console.status`, on one line."""
        return super().status(one_line(status), **options)


def one_line(value: object, style: str = "") -> Text:
    """Return what is shown of a name or message."""
    return Text(visible(str(value)), style=style)


def lines(text: str) -> Text:
    """Return what is shown of several lines, in which no name holds a line end (`visible`)."""
    return Text("\n".join(map(visible, text.split("\n"))))


results = PlainConsole()
messages = PlainConsole(stderr=True)
progress_console = PlainConsole(stderr=True)


def print_in_any_encoding() -> None:
    """Let signs that the encoding of an output lacks be printed in other words, not refused."""
    codecs.register_error("unmask.plain", _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="unmask.plain")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    left_out = error.object[error.start : error.end]
    signs = (_SIGNS.get(c, c.encode("unicode_escape").decode()) for c in left_out)
    return "".join(signs), error.end


_SIGNS = {"−": "-", "–": "-", "—": "-", "…": "...", "×": "x", "±": "+-", "→": "->", "’": "'"}


def show_error(error: Exception) -> None:
    """Print an error as one line on standard error, without a traceback."""
    text = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        text = f"{os.fsdecode(error.filename)}: {error.strerror}"
    elif isinstance(error, OSError) and error.errno == errno.ENOENT:  # as `os.getcwd` says it
        text = "the current folder was removed; change to one that is there"
    messages.print(one_line(f"unmask: {text}"), soft_wrap=True)


def warn(message: object) -> None:
    """Print a warning as one line on standard error."""
    messages.print(one_line(f"unmask: warning: {message}"), soft_wrap=True)


def command() -> str:
    """Return the running command as one would type it."""
    return shlex.join(["unmask", *sys.argv[1:]])


def show_json(record: object) -> None:
    """Print `record` as JSON; numbers that are not finite become null."""
    from unmask._text import finite

    text = json.dumps(finite(record), indent=2, allow_nan=False)  # ASCII; all but DEL is escaped
    sys.stdout.write(text.replace("\x7f", "\\u007f") + "\n")


def show_text(text: str) -> None:
    """Print text for machines, as it is but for control characters."""
    sys.stdout.write(lines(text.rstrip("\n")).plain + "\n")


def show_facts(title: str, facts: Mapping[str, object]) -> None:
    """Print names and values, one per line."""
    table = _table(show_header=False)
    for _ in range(2):
        table.add_column(overflow="fold")  # of a long path nothing is left out
    for name, value in facts.items():
        table.add_row(one_line(name), one_line(_cell(value)))
    _show(title, table)


def show_rows(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table with a heading; words stand left, numbers right."""
    table, cells = _table(), [list(row) for row in rows]
    for position, name in enumerate(columns):
        textual = all(isinstance(row[position], str) for row in cells)
        table.add_column(one_line(name), justify="left" if textual else "right")
    for row in cells:
        table.add_row(*(one_line(_cell(value)) for value in row))
    _show(title, table)


def _table(*, show_header: bool = True) -> Table:
    """Return a table without vertical lines: 80 columns hold four estimates side by side."""
    return Table(
        show_header=show_header, box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )


def _show(title: str, table: Table) -> None:
    """Print a title, which may hold a path and stays one line, and a table."""
    results.print(one_line(title, "italic"), soft_wrap=True)
    results.print(table)


def _cell(value: object) -> str:
    """Return a value for people: text as it is, numbers with thousands separated."""
    from unmask._text import format_value

    return value if isinstance(value, str) else format_value(value, ",")


class _Rate(ProgressColumn):
    """A column that shows how many are done per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


@contextmanager
def bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar; the yielded function, called with how many are done of how many, moves it."""
    columns = (BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    label = TextColumn("{task.description}", markup=False)
    with Progress(label, *columns, console=progress_console) as progress:
        task = progress.add_task(visible(description))
        yield lambda completed, total: progress.update(task, completed=completed, total=total)


def write_page(path: Path, records: list[dict[str, Any]]) -> None:
    """Write records as a page."""
    from unmask import pages

    with progress_console.status("drawing"):
        pages.write(pages.page(records), path)
