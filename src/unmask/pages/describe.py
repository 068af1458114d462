"""Parts in words and in plain rows: cells and alt texts for readers, rows for CSV and JSON.

A chart gives one row per point: `panel` (of several), `series`, `x` (and `x_end` of a histogram's
bar), `y`, `low`, `high`; a rule gives a row with its value only. Columns that nothing fills are
left out. A table gives its columns; an estimate becomes the columns `name`, `name low`,
`name high` or `name error`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, NamedTuple

from unmask._text import csv_of, format_value, printable
from unmask.pages import parts

Row = dict[str, Any]
NAMES = 6
"""Series that an alt text names; the rest are counted."""


class CellView(NamedTuple):
    """A cell as text, and what it sorts by: a number, "missing", or "" (then the text counts)."""

    text: str
    sort: str = ""
    spread: str = ""
    level: str = ""
    sign: str = ""


def cell_view(cell: parts.Cell, spec: str = "") -> CellView:
    """Return a cell as text; `spec` is the format of its numbers."""
    if isinstance(cell, parts.Verdict):
        order = str(list(parts.LEVELS).index(cell.level))
        return CellView(cell.words, order, level=cell.level, sign=parts.LEVELS[cell.level])
    spread = ""
    if isinstance(cell, parts.Estimate):
        if cell.error is not None:
            spread = f"± {format_value(cell.error, spec)}"
        elif cell.low is not None:
            spread = f"[{format_value(cell.low, spec)}, {format_value(cell.high, spec)}]"
        cell = cell.value
    if isinstance(cell, Real):
        sort = "missing" if math.isnan(cell) else repr(float(cell))
    else:
        sort = "missing" if cell is None else ""
    return CellView(format_value(cell, spec), sort, spread)


def is_numeric(cells: Iterable[parts.Cell]) -> bool:
    """Return whether a column has numbers and nothing else."""
    present = [cell for cell in cells if cell is not None]
    kinds = (Real, parts.Estimate)
    return bool(present) and all(isinstance(c, kinds) and not isinstance(c, bool) for c in present)


# -------------------------------------------------------------------------------- plain rows


def rows(part: parts.Drawing | parts.Table) -> list[Row]:
    """Return the numbers of a chart, of panels or of a table, one dict per point or row.

    Parameters
    ----------
    part : Chart, Panels or Table

    Returns
    -------
    list of dict
        All with the same keys; a missing number is None.

    Raises
    ------
    ValueError
        If two columns of a table have the same name.

    Examples
    --------
    >>> from unmask.pages import Chart, Series
    >>> rows(Chart("lines", [Series("vanilla", [1, 2], [0.5, None])]))
    [{'series': 'vanilla', 'x': 1.0, 'y': 0.5}, {'series': 'vanilla', 'x': 2.0, 'y': None}]
    """
    if isinstance(part, parts.Table):
        return list(_table_rows(part))
    points = [
        {"panel": chart.title if isinstance(part, parts.Panels) else None, **row}
        for chart in part.charts
        for row in _points(chart)
    ]
    names = ("panel", "series", "x", "x_end", "y", "low", "high")
    used = [name for name in names if any(row.get(name) is not None for row in points)]
    return [{name: row.get(name) for name in used} for row in points]


def _points(chart: parts.Chart) -> Iterator[Row]:
    for series in chart.series:
        n = len(series.y)
        ends = [right for _, right in pairwise(series.x)] if chart.kind == "steps" else [None] * n
        low, high = series.low or [None] * n, series.high or [None] * n
        for x, end, y, bottom, top in zip(series.x, ends, series.y, low, high, strict=False):
            yield {"series": series.name, "x": x, "x_end": end, "y": y, "low": bottom, "high": top}
    for rule in chart.rules:
        yield {"series": rule.name, rule.axis: rule.value}


def _table_rows(table: parts.Table) -> Iterator[Row]:
    """Yield the rows of a table; an estimate has columns of its own for its uncertainty."""
    columns: dict[str, list[Any]] = {}
    for position, column in enumerate(table.heads):
        cells = [row[position] for row in table.rows]
        own: dict[str, list[Any]] = {column.name: cells}
        for end in ("low", "high", "error"):
            spread = [
                getattr(cell, end) if isinstance(cell, parts.Estimate) else None for cell in cells
            ]
            if any(value is not None for value in spread):
                own[f"{column.name} {end}"] = spread
        if repeated := columns.keys() & own.keys():
            raise ValueError(f"two columns would be called {min(repeated)!r}; rename one of them.")
        columns |= own
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, map(_plain, values), strict=True))


def _plain(value: object) -> str | float | None:
    """Return None, bool, int, float or str; a number that is not finite is missing."""
    if isinstance(value, parts.Estimate | parts.Verdict):
        value = value.value if isinstance(value, parts.Estimate) else value.words
    if value is None or isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return None if value is None else bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    return printable(value)


def as_csv(part: parts.Drawing | parts.Table) -> str:
    """Return the rows as CSV with a header; text that a spreadsheet would run gets a '.

    >>> print(as_csv(parts.Table(["name", "n"], [["=1+1", 2]])), end="")
    name,n
    '=1+1,2
    """
    header = [column.name for column in part.heads] if isinstance(part, parts.Table) else []
    return printable(csv_of(rows(part), header))


# --------------------------------------------------------------------------------- alt texts


class _Point(NamedTuple):
    series: str
    x: parts.Position
    y: float


def alt_text(drawing: parts.Drawing) -> str:
    """Return at most two sentences, however much is drawn: what is shown, and the main finding.

    Parameters
    ----------
    drawing : Chart or Panels

    Returns
    -------
    str

    Examples
    --------
    >>> from unmask.pages import Chart, Series
    >>> recall = Series("bound", [1, 2, 3], [0.5, 0.7, 0.6])
    >>> alt_text(Chart("lines", [recall], x="p", y="R"))
    'Line chart of R over p: bound. It goes from 0.5 at 1 to 0.6 at 3, between 0.5 and 0.7.'
    """
    charts = drawing.charts
    noun = parts.NOUNS[charts[0].kind] if len({chart.kind for chart in charts}) == 1 else "chart"
    subject = noun.capitalize() if len(charts) == 1 else f"{len(charts)} {noun}s"
    subject += f" of {_listed(c.axes[1].label or c.title or 'values' for c in charts)}"
    if over := _listed(chart.axes[0].label for chart in charts):
        subject += f" over {over}"
    names = _listed(series.name for chart in charts for series in chart.series)
    rules = _listed(
        f"{rule.name} at {format_value(rule.value)}" if len(charts) == 1 else rule.name
        for chart in charts
        for rule in chart.rules
    )
    dashed = f"; dashed: {rules}" if rules else ""
    return f"{subject}: {names}{dashed}. {_finding(charts)}."


def _listed(names: Iterable[str]) -> str:
    """Return the first different names that are not empty, and how many more there are."""
    different = list(dict.fromkeys(name for name in names if name))
    rest = [f"{len(different) - NAMES} more"] if len(different) > NAMES else []
    return ", ".join([*different[:NAMES], *rest])


def _finding(charts: Iterable[parts.Chart]) -> str:
    """Return the main finding of the first chart that has values."""
    several = [*charts]
    for chart in several:
        courses = [
            [_Point(s.name, x, y) for x, y in zip(s.x, s.y, strict=False) if y is not None]
            for s in chart.series
        ]
        if any(courses):
            place = f"in {chart.title}, " if len(several) > 1 and chart.title else ""
            find = _course if chart.kind == "lines" else _extremes
            finding = place + find([course for course in courses if course])
            return finding[0].upper() + finding[1:]
    return "There are no values to show"


def _course(courses: list[list[_Point]]) -> str:
    """Say how the series that varies most goes from its first to its last point."""
    ranges = [(min(p.y for p in course), max(p.y for p in course)) for course in courses]
    widest = max(range(len(courses)), key=lambda i: ranges[i][1] - ranges[i][0])
    (low, high), start, end = ranges[widest], courses[widest][0], courses[widest][-1]
    name = f"series {start.series}" if len(courses) > 1 else "it"
    if low == high:
        return f"{name} stays at {format_value(low)}"
    text = (
        f"{name} goes from {format_value(start.y)} at {format_value(start.x)} to "
        f"{format_value(end.y)} at {format_value(end.x)}"
    )
    if {low, high} == {start.y, end.y}:
        return text
    return f"{text}, between {format_value(low)} and {format_value(high)}"


def _extremes(courses: list[list[_Point]]) -> str:
    """Say the lowest and the highest value of all series."""
    points = [point for course in courses for point in course]
    low, high = min(points, key=lambda p: p.y), max(points, key=lambda p: p.y)
    if low.y == high.y:
        return f"all values are {format_value(low.y)}"
    low_at, high_at = (
        p.series if p.x == p.series else f"{p.series} at {format_value(p.x)}" for p in (low, high)
    )
    return (
        f"the lowest value is {format_value(low.y)} ({low_at}), the highest "
        f"{format_value(high.y)} ({high_at})"
    )
