"""Every part that holds numbers as plain rows, for CSV, JSON and anything else.

A chart gives one row per point: `panel` (of several), `series`, `x` (and `x_end` of a histogram's
bar), `y`, `low`, `high`; a rule gives a row with its place only. Columns that nothing fills are
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
from typing import Any

from unmask.report.charts import Chart, Panels, Series
from unmask.report.format import clean
from unmask.report.page import Estimate, Table, Verdict

Row = dict[str, Any]
Data = Chart | Panels | Table

_POINT = ("panel", "series", "x", "x_end", "y", "low", "high")
_FORMULA = ("=", "+", "-", "@", "\t", "\n", "＝", "＋", "－", "＠")


def rows(part: Data) -> list[Row]:
    """The numbers of a chart, of panels or of a table, one mapping per row.

    >>> rows(Chart("lines", [Series("vanilla", [1, 2], [0.5, None])]))
    [{'series': 'vanilla', 'x': 1.0, 'y': 0.5}, {'series': 'vanilla', 'x': 2.0, 'y': None}]
    """
    if isinstance(part, Table):
        return _even(list(_table_rows(part)))
    if isinstance(part, Panels):
        named = [{"panel": c.title, **row} for c in part.charts for row in _chart_rows(c)]
    else:
        named = list(_chart_rows(part))
    used = [name for name in _POINT if any(row.get(name) is not None for row in named)]
    return [{name: row.get(name) for name in used} for row in named]


def _chart_rows(chart: Chart) -> Iterator[Row]:
    for series in chart.series:
        yield from _points(series)
    for rule in chart.rules:
        yield {"series": rule.name, rule.axis: rule.at}


def _points(series: Series) -> Iterator[Row]:
    n = len(series.y)
    ends = [b for _, b in pairwise(series.x)] if len(series.x) > n else [None] * n
    low, high = series.low or [None] * n, series.high or [None] * n
    for x, end, y, bottom, top in zip(series.x, ends, series.y, low, high, strict=False):
        yield {"series": series.name, "x": x, "x_end": end, "y": y, "low": bottom, "high": top}


def _table_rows(table: Table) -> Iterator[Row]:
    for cells in table.rows:
        row: Row = {}
        for column, cell in zip(table.heads, cells, strict=True):
            entries = _spread(column.name, cell)
            if twice := row.keys() & entries.keys():
                raise ValueError(f"two columns would be called {min(twice)!r}; rename one of them.")
            row.update(entries)
        yield row


def _spread(name: str, cell: Any) -> Row:
    """A cell as one entry, or as several if it carries its uncertainty."""
    if not isinstance(cell, Estimate):
        return {name: _plain(cell.words if isinstance(cell, Verdict) else cell)}
    parts = {name: cell.value, f"{name} low": cell.low, f"{name} high": cell.high}
    parts[f"{name} error"] = cell.error
    return {key: _plain(v) for key, v in parts.items() if v is not None or key == name}


def _even(found: list[Row]) -> list[Row]:
    """All rows with the columns of all, a spread column beside its first."""
    names: list[str] = []
    for row in found:
        for at, name in enumerate(row):
            if name not in names:
                before = list(row)[at - 1] if at else None
                names.insert(names.index(before) + 1 if before else 0, name)
    return [{name: row.get(name) for name in names} for row in found]


def _plain(value: Any) -> Any:
    """None, bool, int, float or str; what is not finite is missing."""
    if value is None or isinstance(value, bool) or type(value).__name__ == "bool":
        return None if value is None else bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    return clean(value)


def as_csv(part: Data) -> str:
    """The rows as CSV with a header; text that a spreadsheet would run as a formula gets a '.

    >>> print(as_csv(Table(["name", "n"], [["=1+1", 2]])), end="")
    name,n
    '=1+1,2
    """
    found = rows(part)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([harmless(name) for name in (found[0] if found else _header(part))])
    writer.writerows([harmless(value) for value in row.values()] for row in found)
    return text.getvalue()


def _header(part: Data) -> list[str]:
    return [column.name for column in part.heads] if isinstance(part, Table) else []


def harmless(value: Any) -> Any:
    """A cell of CSV that no spreadsheet takes for a formula."""
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
