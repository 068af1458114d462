"""What a chart says in words: in its legend, on its axes, and to those who cannot see it."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from unmask.report.charts import Chart, Panels, Series, axes_of, charts_of
from unmask.report.format import say


def legend(drawing: Chart | Panels) -> tuple[str, ...]:
    """The names that need a legend: those of series and rules that the axes do not already name.

    >>> legend(Chart("dots", [Series("a", ["a"], [1.0]), Series("b", ["b"], [2.0])]))
    ()
    >>> legend(Chart("lines", [Series("a", [0], [1.0]), Series("b", [0], [2.0])]))
    ('a', 'b')
    """
    names: dict[str, None] = {}
    for chart in charts_of(drawing):
        if chart.kind != "heat":
            own = (s.name for s in chart.series if not _names_its_row(chart, s))
            names.update(dict.fromkeys([*own, *(rule.name for rule in chart.rules)]))
    alone = len(names) == 1 and not any(chart.rules for chart in charts_of(drawing))
    return () if alone else tuple(names)


def _names_its_row(chart: Chart, series: Series) -> bool:
    return chart.kind in ("dots", "bars") and set(series.x) == {series.name}


def drawn_as(drawing: Chart | Panels, name: str) -> frozenset[str]:
    """The kinds of charts that have a series of this name; none if only rules have it.

    >>> sorted(drawn_as(Chart("bars", [Series("a", ["x"], [1.0])]), "a"))
    ['bars']
    """
    return frozenset(
        chart.kind for chart in charts_of(drawing) for one in chart.series if one.name == name
    )


def series_names(drawing: Chart | Panels) -> tuple[str, ...]:
    """Every name that needs a look, in order of appearance.

    >>> series_names(Chart("lines", [Series("b", [0], [1.0]), Series("a", [0], [1.0])]))
    ('b', 'a')
    """
    names: list[str] = []
    for chart in charts_of(drawing):
        names += [one.name for one in chart.series if chart.kind != "heat"]
        names += [rule.name for rule in chart.rules]
    return tuple(dict.fromkeys(names))


def categories(chart: Chart) -> tuple[Any, ...]:
    """The x of all series, each once, in order of appearance.

    >>> categories(Chart("bars", [Series("a", ["P"], [1.0]), Series("b", ["P", "R"], [2.0, 1.0])]))
    ('P', 'R')
    """
    return tuple(dict.fromkeys(x for series in chart.series for x in series.x))


def described(drawing: Chart | Panels) -> str:
    """What a drawing shows, for readers who cannot see it: two sentences, or what its charts say.

    >>> described(Chart("lines", [Series("bound", [1, 2, 3], [0.5, 0.7, 0.6])], x="p", y="R"))
    'A line chart of R over p: bound. Range: R 0.5 (bound at 1) to 0.7 (bound at 2).'
    """
    charts = charts_of(drawing)
    if own := [chart.description for chart in charts if chart.description]:
        return " ".join(own)
    names = [series.name for chart in charts for series in chart.series]
    rules = [f"{rule.name} ({say(rule.at)})" for chart in charts for rule in chart.rules]
    marked = [f"marked: {_listed(rules, 4)}"] if rules else []
    spans = [
        _span(measure, [chart for chart in charts if _measure(chart) == measure])
        for measure in dict.fromkeys(map(_measure, charts))
    ]
    first = f"{_kind_and_axes(charts)}: {_listed(names, 8)}."
    return f"{first} Range: {'; '.join([*spans[:4], *marked])}."


def _kind_and_axes(charts: tuple[Chart, ...]) -> str:
    """What is drawn over what: the kind of chart, or how many of them, and their axes."""
    kinds = {chart.kind for chart in charts}
    noun = _NOUNS[kinds.pop()] if len(kinds) == 1 else "chart"
    words = f"A {noun}" if len(charts) == 1 else f"{len(charts)} {noun}s"
    words += f" of {_listed(map(_measure, charts), 4)}"
    over = [axes_of(chart)[0].label for chart in charts]
    by = [axes_of(chart)[1].label for chart in charts if chart.kind == "heat"]
    words += f" over {_listed(over, 4)}" if any(over) else ""
    return words + (f" and {_listed(by, 4)}" if any(by) else "")


def _measure(chart: Chart) -> str:
    """The name of what is measured."""
    _, y, color = axes_of(chart)
    return (color if chart.kind == "heat" else y).label or "values"


def _listed(names: Iterable[str], most: int) -> str:
    """Names that are not empty, each once; those after the first `most` are counted."""
    listed = list(dict.fromkeys(name for name in names if name))
    more = [f"{len(listed) - most} more"] if len(listed) > most else []
    comma = "; " if any("," in name for name in listed) else ", "
    return comma.join([*listed[:most], *more])


def _span(measure: str, charts: list[Chart]) -> str:
    """The lowest and the highest value of charts that measure the same."""
    points = [
        (y, f"{series.name} at {say(x)}" if say(x) != series.name else series.name)
        for chart in charts
        for series in chart.series
        for x, y in zip(series.x, series.y, strict=False)
        if y is not None
    ]
    if not points:
        return f"no {measure} to show"
    low, high = (choose(points, key=itemgetter(0)) for choose in (min, max))
    ends = [low] if low[0] == high[0] else [low, high]
    return f"{measure} " + " to ".join(f"{say(y)} ({where})" for y, where in ends)


_NOUNS = {
    "lines": "line chart",
    "dots": "dot plot",
    "bars": "bar chart",
    "steps": "histogram",
    "heat": "heat map",
}
