"""How the command line speaks: tables for people, JSON for machines, one line for mistakes.

Results go to standard output; mistakes (`messages`) and what passes (`passing`: bars and "reading
…") to standard error. `--quiet` silences only what passes.
"""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

results = Console(highlight=False)
messages = Console(stderr=True, highlight=False)
passing = Console(stderr=True, highlight=False)


def complain(error: Exception) -> None:
    """One line on standard error, without a traceback."""
    text = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    messages.print(f"unmask: {text}", markup=False, soft_wrap=True)


def command() -> str:
    """The command that is running, as one would type it."""
    return shlex.join(["unmask", *sys.argv[1:]])


def show_json(record: Any) -> None:
    """`record` as JSON on standard output; numbers that are not finite become null."""
    json.dump(_plain(record), sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    """Nothing but what JSON has."""
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def show_text(text: str) -> None:
    """Text for machines, as it is."""
    sys.stdout.write(text.rstrip("\n") + "\n")


def show_facts(title: str, facts: Mapping[str, Any]) -> None:
    """Names and values, one per line."""
    table = _table(title, show_header=False)
    for name, value in facts.items():
        table.add_row(name, say(value))
    results.print(table)


def show_rows(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """A table with a heading; words stand left, numbers right."""
    table, cells = _table(title), [list(row) for row in rows]
    for position, name in enumerate(columns):
        words = all(isinstance(row[position], str) for row in cells)
        table.add_column(name, justify="left" if words else "right")
    for row in cells:
        table.add_row(*(say(value) for value in row))
    results.print(table)


def _table(title: str, *, show_header: bool = True) -> Table:
    """Without vertical lines: a terminal of 80 columns holds four estimates side by side."""
    return Table(
        title=title, title_justify="left", show_header=show_header, box=box.SIMPLE_HEAD,
        pad_edge=False, collapse_padding=True,
    )  # fmt: skip


def say(value: Any) -> str:
    """A value as a person writes it: thousands separated, four digits after the point at most.

    >>> say(1234567), say(0.12345678), say(None)
    ('1,234,567', '0.1235', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, float | np.floating):
        number = float(value)
        return f"{number:,.4g}" if abs(number) < 1000 else f"{number:,.1f}"
    return f"{value:,}" if isinstance(value, int | np.integer) else str(value)
