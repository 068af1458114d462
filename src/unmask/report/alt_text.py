"""Alt texts: what a drawing shows, in at most two sentences, for readers who cannot see it.

The first sentence says what is drawn over what and names the series; the second gives the main
finding: where the line that varies most starts and ends, or the lowest and the highest value. The
numbers themselves are in the table and the CSV file beside every drawing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from unmask.report.charts import Chart, Drawing, Position, axes_of, charts_of
from unmask.report.format import format_value

NAMES = 6
"""How many series an alt text names; the rest are counted."""


def alt_text(drawing: Drawing) -> str:
    """The text of one chart, or one text for all panels of a drawing.

    Parameters
    ----------
    drawing : Chart or Panels
        A chart with a `description` has that as its text.

    Returns
    -------
    str
        At most two sentences, however many series and points there are.

    Examples
    --------
    >>> from unmask.report.charts import Series
    >>> recall = Series("bound", [1, 2, 3], [0.5, 0.7, 0.6])
    >>> alt_text(Chart("lines", [recall], x="p", y="R"))
    'Line chart of R over p: bound. It goes from 0.5 at 1 to 0.6 at 3, between 0.5 and 0.7.'
    """
    charts = charts_of(drawing)
    described = [chart.description for chart in charts if chart.description]
    if described:
        return described[0]
    names = _listed(series.name for chart in charts for series in chart.series)
    return f"{_subject(charts)}: {names}{_rules(charts)}. {_finding(charts)}."


def _subject(charts: tuple[Chart, ...]) -> str:
    """What is drawn over what, such as `Line chart of R over p` or `3 dot plots of R`."""
    kinds = {chart.kind for chart in charts}
    noun = NOUNS[charts[0].kind] if len(kinds) == 1 else "chart"
    subject = noun.capitalize() if len(charts) == 1 else f"{len(charts)} {noun}s"
    subject += f" of {_listed(map(_measure, charts))}"
    if over := _listed(axes_of(chart)[0].label for chart in charts):
        subject += f" over {over}"
    return subject


def _measure(chart: Chart) -> str:
    """The name of what was measured."""
    return axes_of(chart)[1].label or chart.title or "values"


def _listed(names: Iterable[str]) -> str:
    """The first different names that are not empty, and how many more there are."""
    different = list(dict.fromkeys(name for name in names if name))
    rest = [f"{len(different) - NAMES} more"] if len(different) > NAMES else []
    return ", ".join([*different[:NAMES], *rest])


def _rules(charts: tuple[Chart, ...]) -> str:
    """The dashed lines; with their values in a chart of its own, as panels have many."""
    rules = [rule for chart in charts for rule in chart.rules]
    names = (
        f"{rule.name} at {format_value(rule.value)}" if len(charts) == 1 else rule.name
        for rule in rules
    )
    return f"; dashed: {_listed(names)}" if rules else ""


class _Point(NamedTuple):
    series: str
    x: Position
    y: float


def _finding(charts: tuple[Chart, ...]) -> str:
    """The main finding of the first chart that has values."""
    for chart in charts:
        if points := _points(chart):
            place = f"in {chart.title}, " if len(charts) > 1 and chart.title else ""
            finding = f"{place}{_course(points) if chart.kind == 'lines' else _extremes(points)}"
            return finding[0].upper() + finding[1:]
    return "There are no values to show"


def _points(chart: Chart) -> list[_Point]:
    return [
        _Point(series.name, x, y)
        for series in chart.series
        for x, y in zip(series.x, series.y, strict=False)
        if y is not None
    ]


def _course(points: list[_Point]) -> str:
    """How the series that varies most goes from its first to its last point."""
    groups: dict[str, list[_Point]] = {}
    for point in points:
        groups.setdefault(point.series, []).append(point)
    course = max(groups.values(), key=_variation)
    name = f"series {course[0].series}" if len(groups) > 1 else "it"
    start, end = course[0], course[-1]
    if _variation(course) == 0:
        return f"{name} stays at {format_value(start.y)}"
    text = (
        f"{name} goes from {format_value(start.y)} at {format_value(start.x)} to "
        f"{format_value(end.y)} at {format_value(end.x)}"
    )
    low, high = (choose(point.y for point in course) for choose in (min, max))
    if {low, high} == {start.y, end.y}:
        return text
    return f"{text}, between {format_value(low)} and {format_value(high)}"


def _variation(points: list[_Point]) -> float:
    heights = [point.y for point in points]
    return max(heights) - min(heights)


def _extremes(points: list[_Point]) -> str:
    """The lowest and the highest value of all series."""
    low, high = (choose(points, key=lambda point: point.y) for choose in (min, max))
    if low.y == high.y:
        return f"all values are {format_value(low.y)}"
    return (
        f"the lowest value is {format_value(low.y)} ({_place(low)}), the highest "
        f"{format_value(high.y)} ({_place(high)})"
    )


def _place(point: _Point) -> str:
    if point.x == point.series:
        return point.series
    return f"{point.series} at {format_value(point.x)}"


NOUNS = {
    "lines": "line chart",
    "dots": "dot plot",
    "steps": "histogram",
}
"""What a chart of each kind is called."""
