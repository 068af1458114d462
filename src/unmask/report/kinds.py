"""How each kind of chart is drawn on matplotlib axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from unmask.report.alt_text import categories
from unmask.report.charts import Chart, Series, axes_of
from unmask.report.format import say
from unmask.report.heat import heat
from unmask.report.marks import (
    INK,
    LINE,
    MUTED,
    NAMES,
    PAPER,
    Styles,
    dash,
    finish,
    fit,
    floats,
    pen,
)
from unmask.report.styles import Style


def lines(ax: Any, chart: Chart, styles: Styles) -> None:
    """Curves with bands; about a dozen markers each, however many points there are."""
    for at, one in enumerate(chart.series):
        look = pen(styles[one.name])
        every = -(-len(one.y) // 12)
        marked = {"markevery": (at % every, every)} if every > 1 else {}
        order = 4 if look["color"] == INK else 3 - 0.01 * at
        ax.plot(one.x, floats(one.y), zorder=order, **look, **marked)
        if one.low:
            band = {"color": look["color"], "alpha": 0.16, "linewidth": 0}
            ax.fill_between(one.x, floats(one.low), floats(one.high), zorder=2, **band)
    finish(ax, chart, styles)


def steps(ax: Any, chart: Chart, styles: Styles) -> None:
    """Outlines of histograms over a light fill, with the intervals side by side within a bin."""
    count = len(chart.series)
    for at, one in enumerate(chart.series):
        color = styles[one.name].hex
        heights = floats(one.y)
        outline = {"linewidth": 1.4, "linestyle": dash(styles[one.name].dash)}
        ax.stairs(heights, one.x, color=color, zorder=3, **outline)
        ax.stairs(heights, one.x, color=color, alpha=0.10, fill=True, linewidth=0, zorder=1)
        share = (at + 1) / (count + 1)
        middles = [a + share * (b - a) for a, b in pairwise(one.x)]
        _whiskers(ax.vlines, middles, one, color)
    if not axes_of(chart)[1].log:
        ax.set_ylim(bottom=0)
    finish(ax, chart, styles)


def bars(ax: Any, chart: Chart, styles: Styles) -> None:
    """Groups of bars from zero, one group per x; a series that names its own group stands alone."""
    groups = categories(chart)
    for one, places, width in _placed(chart, groups):
        color = styles[one.name].hex
        ax.bar(places, floats(one.y), width * 0.88, color=color, zorder=2)
        _whiskers(ax.vlines, places, one, INK)
    _name_groups(ax, [say(x) for x in groups])
    ax.axhline(0, color=MUTED, linewidth=0.6, zorder=3)
    finish(ax, chart, styles)


def _name_groups(ax: Any, names: list[str]) -> None:
    """Names below the groups, level if they fit, slanted and cut if not."""
    level = all(fit(ax, name, 0.8 / len(names)) == name for name in names)
    slant = {} if level else {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(range(len(names)), [fit(ax, name, 0.35) for name in names], **slant)
    ax.tick_params("x", length=0)


def dots(ax: Any, chart: Chart, styles: Styles) -> None:
    """Rows of dots with intervals; an arrow at the edge where something lies beyond the axis."""
    groups = categories(chart)
    for one, places, _ in _placed(chart, groups):
        style = styles[one.name]
        look = {**pen(style), "linestyle": "none", "markersize": 6}
        if style.marker == "none":
            look["marker"] = "o"
        _whiskers(ax.hlines, places, one, style.hex)
        ax.plot(floats(one.y), places, zorder=4, **look)
    ax.set_yticks(range(len(groups)), [fit(ax, say(x), NAMES) for x in groups])
    ax.set_ylim(len(groups) - 0.5, -0.5)
    ax.grid(False)
    ax.grid(True, axis="x")
    ax.spines["left"].set_visible(False)
    for border in range(1, len(groups)):
        ax.axhline(border - 0.5, color=LINE, linewidth=0.6, zorder=0)
    finish(ax, chart, styles, across=True)
    _arrows(ax, chart, groups, styles)


def _placed(chart: Chart, groups: Sequence[Any]) -> Iterator[tuple[Series, list[float], float]]:
    """Where each series stands in each of its groups: beside the others that are there too."""
    present = {x: [s.name for s in chart.series if x in s.x] for x in groups}
    for one in chart.series:
        width = 0.8 / max(len(present[x]) for x in one.x)
        places = [
            groups.index(x) + width * (present[x].index(one.name) - (len(present[x]) - 1) / 2)
            for x in one.x
        ]
        yield one, places, width


def _whiskers(draw: Callable[..., Any], places: Sequence[float], one: Series, color: str) -> None:
    if one.low:
        draw(places, floats(one.low), floats(one.high), color=color, linewidth=1.5, zorder=3)


def _arrows(ax: Any, chart: Chart, groups: Sequence[Any], styles: Styles) -> None:
    """Arrows where an interval goes on beyond the axis; a hollow one if the dot itself does."""
    left, right = ax.get_xlim()
    for one, places, _ in _placed(chart, groups):
        columns = (places, floats(one.y), floats(one.low or one.y), floats(one.high or one.y))
        for place, y, low, high in zip(*columns, strict=True):
            if min(y, low) < left:
                _arrow(ax, left, place, "<", styles[one.name], hollow=y < left)
            if max(y, high) > right:
                _arrow(ax, right, place, ">", styles[one.name], hollow=y > right)
    ax.set_xlim(left, right)


def _arrow(ax: Any, x: float, y: float, marker: str, style: Style, *, hollow: bool) -> None:
    look = {"color": style.hex, "markersize": 5, "clip_on": False, "zorder": 5}
    ax.plot([x], [y], marker=marker, markerfacecolor=PAPER if hollow else style.hex, **look)


DRAW: dict[str, Callable[[Any, Chart, Styles], None]] = {
    "lines": lines,
    "dots": dots,
    "bars": bars,
    "steps": steps,
    "heat": heat,
}
"""How each kind of chart is drawn on matplotlib axes."""
