"""How the command line speaks: tables for people, JSON for machines, one line for mistakes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

results = Console(highlight=False)
messages = Console(stderr=True, highlight=False)


def complain(error: Exception) -> None:
    """One line on standard error, without a traceback."""
    text = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    messages.print(f"unmask: {text}", markup=False, soft_wrap=True)


def show_json(record: Any) -> None:
    """`record` as JSON on standard output."""
    json.dump(record, sys.stdout, default=_plain, indent=2)
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def show_text(text: str) -> None:
    """Text for machines, as it is."""
    sys.stdout.write(text.rstrip("\n") + "\n")


def show_facts(title: str, facts: Mapping[str, Any]) -> None:
    """Names and values, one per line."""
    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in facts.items():
        table.add_row(name, say(value))
    results.print(table)


def show_rows(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """A table with a heading; words stand left, numbers right."""
    table, cells = Table(title=title, title_justify="left"), [list(row) for row in rows]
    for position, name in enumerate(columns):
        words = all(isinstance(row[position], str) for row in cells)
        table.add_column(name, justify="left" if words else "right")
    for row in cells:
        table.add_row(*(say(value) for value in row))
    results.print(table)


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
