"""What a chart says in words: in its legend, on its axes, and to those who cannot see it."""

from __future__ import annotations

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


def described(chart: Chart) -> str:
    """What the chart shows, in words, for readers who cannot see it.

    >>> described(Chart("lines", [Series("bound", [1, 2, 3], [0.5, 0.7, 0.6])], x="p", y="R"))
    'A line chart of R over p. bound: 3 points, from 0.5 at 1 to 0.6 at 3, lowest 0.5, highest 0.7.'
    """
    if chart.description:
        return chart.description
    x, y, color = axes_of(chart)
    measured = color if chart.kind == "heat" else y
    what = f"{_NOUNS[chart.kind]} of {measured.label or 'values'}"
    over = f" over {x.label}" if x.label else ""
    by = f" and {y.label}" if chart.kind == "heat" and y.label else ""
    told = [_series_in_words(one) for one in chart.series[:8]]
    more = [f"And {len(chart.series) - 8} more series."] if len(chart.series) > 8 else []
    rules = [f"A line at {say(rule.at)}: {rule.name}." for rule in chart.rules]
    return " ".join([f"{what}{over}{by}.", *told, *more, *rules])


def _series_in_words(series: Series) -> str:
    seen = [(x, y) for x, y in zip(series.x, series.y, strict=False) if y is not None]
    if not seen:
        return f"{series.name}: nothing to show."
    if len(seen) == 1:
        return f"{series.name}: {say(seen[0][1])} at {say(seen[0][0])}."
    (start, first), (end, last) = seen[0], seen[-1]
    heights = [y for _, y in seen]
    return (
        f"{series.name}: {len(seen)} points, from {say(first)} at {say(start)} to {say(last)} at "
        f"{say(end)}, lowest {say(min(heights))}, highest {say(max(heights))}."
    )


_NOUNS = {
    "lines": "A line chart",
    "dots": "A dot plot",
    "bars": "A bar chart",
    "steps": "A histogram",
    "heat": "A heat map",
}
