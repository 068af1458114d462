"""Every part that holds numbers as plain rows, for CSV, JSON and anything else.

A chart gives one row per point: `panel` (of several), `series`, `x` (and `x_end` of a histogram's
bar), `y`, `low`, `high`; a rule gives a row with its value only. Columns that nothing fills are
left out. A table gives its columns; an estimate becomes the columns `name`, `name low`,
`name high` or `name error`.

Below stand the writers that all tables of the package share: rows (dicts) as CSV and JSON, grids
(a header and lines of text) as aligned text, Markdown and LaTeX.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import TypeVar

import numpy as np

from unmask.report.charts import Chart, Panels, Series
from unmask.report.format import printable
from unmask.report.page import Cell, Estimate, Table, Verdict

Value = str | bool | int | float | None
Row = dict[str, Value]
Data = Chart | Panels | Table
T = TypeVar("T")

_POINT = ("panel", "series", "x", "x_end", "y", "low", "high")
_FORMULA = ("=", "+", "-", "@", "\t", "\n", "＝", "＋", "－", "＠")


def rows(part: Data) -> list[Row]:
    """The numbers of a chart, of panels or of a table.

    Parameters
    ----------
    part : Chart, Panels or Table

    Returns
    -------
    list of dict
        One per point or row, all with the same keys; a missing number is None.

    Raises
    ------
    ValueError
        If two columns of a table have the same name.

    Examples
    --------
    >>> rows(Chart("lines", [Series("vanilla", [1, 2], [0.5, None])]))
    [{'series': 'vanilla', 'x': 1.0, 'y': 0.5}, {'series': 'vanilla', 'x': 2.0, 'y': None}]
    """
    if isinstance(part, Table):
        return _with_same_columns(list(_table_rows(part)))
    if isinstance(part, Panels):
        points: list[Row] = [
            {"panel": chart.title, **row} for chart in part.charts for row in _chart_rows(chart)
        ]
    else:
        points = list(_chart_rows(part))
    used = [name for name in _POINT if any(row.get(name) is not None for row in points)]
    return [{name: row.get(name) for name in used} for row in points]


def _chart_rows(chart: Chart) -> Iterator[Row]:
    for series in chart.series:
        yield from _points(series)
    for rule in chart.rules:
        yield {"series": rule.name, rule.axis: rule.value}


def _points(series: Series) -> Iterator[Row]:
    n = len(series.y)
    ends = [right for _, right in pairwise(series.x)] if len(series.x) > n else [None] * n
    low, high = series.low or [None] * n, series.high or [None] * n
    for x, end, y, bottom, top in zip(series.x, ends, series.y, low, high, strict=False):
        yield {"series": series.name, "x": x, "x_end": end, "y": y, "low": bottom, "high": top}


def _table_rows(table: Table) -> Iterator[Row]:
    for cells in table.rows:
        row: Row = {}
        for column, cell in zip(table.heads, cells, strict=True):
            entries = _entries(column.name, cell)
            if repeated := row.keys() & entries.keys():
                raise ValueError(
                    f"two columns would be called {min(repeated)!r}; rename one of them."
                )
            row.update(entries)
        yield row


def _entries(name: str, cell: Cell) -> Row:
    """A cell as one entry, or as several if it carries its uncertainty."""
    if not isinstance(cell, Estimate):
        return {name: _plain(cell.words if isinstance(cell, Verdict) else cell)}
    entries = {name: cell.value, f"{name} low": cell.low, f"{name} high": cell.high}
    entries[f"{name} error"] = cell.error
    return {key: _plain(v) for key, v in entries.items() if v is not None or key == name}


def _with_same_columns(rows: list[Row]) -> list[Row]:
    """All rows with the columns of all; the columns of an estimate stand together."""
    names: list[str] = []
    for row in rows:
        for index, name in enumerate(row):
            if name not in names:
                before = list(row)[index - 1] if index else None
                names.insert(names.index(before) + 1 if before else 0, name)
    return [{name: row.get(name) for name in names} for row in rows]


def _plain(value: object) -> Value:
    """None, bool, int, float or str; what is not finite is missing."""
    if value is None or isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return None if value is None else bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    return printable(value)


def as_csv(part: Data) -> str:
    """The rows as CSV with a header; text that a spreadsheet would run as a formula gets a '.

    >>> print(as_csv(Table(["name", "n"], [["=1+1", 2]])), end="")
    name,n
    '=1+1,2
    """
    return csv_of(rows(part), _header(part))


def _header(part: Data) -> list[str]:
    return [column.name for column in part.heads] if isinstance(part, Table) else []


def csv_of(lines: Sequence[Mapping[str, object]], header: Iterable[str] = ()) -> str:
    """Rows as CSV.

    Parameters
    ----------
    lines : sequence of mappings
        All with the same keys. A mapping or list in a cell is written as JSON, and text that a
        spreadsheet would run as a formula gets a ' before it.
    header : iterable of str, default ()
        The columns, if there are no rows.

    Returns
    -------
    str

    Examples
    --------
    >>> print(csv_of([{"name": "=1+1", "more": {"n": 2}}]), end="")
    name,more
    '=1+1,"{""n"": 2}"
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([harmless(name) for name in (lines[0] if lines else header)])
    writer.writerows([harmless(_flat(value)) for value in line.values()] for line in lines)
    return text.getvalue()


def _flat(value: object) -> object:
    return json.dumps(finite(value)) if isinstance(value, Mapping | list | tuple) else value


def harmless(value: T) -> T | str:
    """A cell of CSV that no spreadsheet takes for a formula.

    Parameters
    ----------
    value : object
        Only text is changed.

    Returns
    -------
    object
        The value; text that starts like a formula and is no number has a ' before it.

    Examples
    --------
    >>> harmless("=1+1"), harmless("-0.5"), harmless(-0.5)
    ("'=1+1", '-0.5', -0.5)
    """
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")  # a bare \r would end the row
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        return bool(text.strip() == text and math.isfinite(float(text)))
    except ValueError:
        return False


def as_json(part: Data) -> str:
    """The rows as a JSON list of objects.

    >>> print(as_json(Table(["name", "n"], [["a", 2]])), end="")
    [
    {"name": "a", "n": 2}
    ]
    """
    return json_of(rows(part))


def json_of(lines: Sequence[Mapping[str, object]]) -> str:
    """Rows as a JSON list of objects.

    Parameters
    ----------
    lines : sequence of mappings
        The rows.

    Returns
    -------
    str
        One object per line; numbers that are not finite are null.

    Examples
    --------
    >>> print(json_of([{"name": "a", "n": float("nan")}]), end="")
    [
    {"name": "a", "n": null}
    ]
    """
    objects = (json.dumps(finite(row), ensure_ascii=False, allow_nan=False) for row in lines)
    return "[\n" + ",\n".join(objects) + "\n]\n"


def finite(value: object) -> object:
    """The same in values that JSON has: lists for arrays, None for numbers that are not finite.

    >>> finite({"ends": (0.5, float("inf")), "counts": np.array([1, 2])})
    {'ends': [0.5, None], 'counts': [1, 2]}
    """
    if isinstance(value, np.ndarray | np.generic):
        return finite(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def text_of(grid: Sequence[Sequence[str]]) -> str:
    """A grid as text in columns.

    Parameters
    ----------
    grid : sequence of rows of text
        The header first; all rows have the same length.

    Returns
    -------
    str

    Examples
    --------
    >>> print(text_of([["metric", "value"], ["P@1", "0.5"]]))
    metric  value
    P@1     0.5
    """
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) for line in grid
    ]
    return "\n".join(line.rstrip() for line in lines)


def markdown_of(grid: Sequence[Sequence[str]]) -> str:
    """A grid as a Markdown table.

    Parameters
    ----------
    grid : sequence of rows of text
        The header first; its cells are Markdown already.

    Returns
    -------
    str

    Examples
    --------
    >>> print(markdown_of([["metric", "value"], ["P@1", "0.5"]]))
    | metric | value |
    |---|---|
    | P@1 | 0.5 |
    """
    lines = ["| " + " | ".join(line) + " |" for line in grid]
    return "\n".join([lines[0], "|" + "---|" * len(grid[0]), *lines[1:]])


def latex_of(grid: Sequence[Sequence[str]], numbers: int) -> str:
    """A grid as a LaTeX tabular; names in it cannot become markup.

    Parameters
    ----------
    grid : sequence of rows of text
        The header first.
    numbers : int
        How many columns, counted from the right, hold numbers; they are set as mathematics.

    Returns
    -------
    str

    Examples
    --------
    >>> print(latex_of([["metric", "at_most"], ["P@1", "0.5 ± 0.1"]], 1))
    \\begin{tabular}{lr}
    metric & at\\_most \\\\
    \\hline
    P@1 & $0.5 \\pm 0.1$ \\\\
    \\end{tabular}
    """
    names = len(grid[0]) - numbers
    body = [
        [*(cell.translate(_LATEX) for cell in line[:names]), *map(_formula, line[names:])]
        for line in grid[1:]
    ]
    cells = [[cell.translate(_LATEX) for cell in grid[0]], *body]
    head, *lines = [" & ".join(line) + r" \\" for line in cells]
    columns = "l" * names + "r" * numbers
    return "\n".join(
        [rf"\begin{{tabular}}{{{columns}}}", head, r"\hline", *lines, r"\end{tabular}"]
    )


def _formula(cell: str) -> str:
    text = cell.replace("±", r"\pm").replace("−", "-").replace("∞", r"\infty")
    return f"${text}$" if text else ""


_LATEX = str.maketrans(
    {character: "\\" + character for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)
