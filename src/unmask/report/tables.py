"""Every part that holds numbers as plain rows, for CSV, JSON and anything else.

A chart gives one row per point: `panel` (of several), `series`, `x` (and `x_end` of a histogram's
bar), `y`, `low`, `high`; a rule gives a row with its value only. Columns that nothing fills are
left out. A table gives its columns; an estimate becomes the columns `name`, `name low`,
`name high` or `name error`.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from itertools import pairwise
from numbers import Integral, Real
from typing import TypeVar

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
    if value is None or isinstance(value, bool) or type(value).__name__ == "bool":
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
    lines = rows(part)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([harmless(name) for name in (lines[0] if lines else _header(part))])
    writer.writerows([harmless(value) for value in line.values()] for line in lines)
    return text.getvalue()


def _header(part: Data) -> list[str]:
    return [column.name for column in part.heads] if isinstance(part, Table) else []


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
    lines = ",\n".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows(part))
    return f"[\n{lines}\n]\n"
