"""Charts drawn with matplotlib, on figures of our own: pyplot and its global state stay untouched.

Colours are those of a light page; `svg_element` turns them into variables of the reader's theme.
Nothing in a text is taken for mathematics, so that a `$` in a name stays a `$`. matplotlib is
imported when the first chart is drawn.

From the whole to its parts: figures, the legend, one function per kind of chart, axes with their
ticks, rules and notes, and the SVG of a page.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import as_file, files
from threading import RLock
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from unmask._text import format_value, printable
from unmask._typing import Floats
from unmask.pages import parts

if TYPE_CHECKING:
    from matplotlib import RcParams
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, LINE, PAPER = (parts.THEME[name][0] for name in ("ink", "muted", "line", "paper"))

WIDTHS = {1: 5.6, 2: 3.5, 3: 2.5, 4: 2.1}
"""Inches of a chart by the number of columns."""
NARROW = 3.6
"""Inches of a chart on a phone."""

_LETTER = 0.073  # inches, of a letter of 8.5 points on average
# Warnings about the data: a letter that the font lacks (the browser's may have it), and names so
# long that no space is left for the axes.
_EXPECTED_WARNINGS = ("Glyph .* missing from", "constrained_layout not applied")
_lock = RLock()


@contextmanager
def settings() -> Iterator[None]:
    """Put our settings over matplotlib's, whatever the user configured; one thread at a time."""
    import matplotlib

    with _lock, matplotlib.rc_context(), warnings.catch_warnings():
        for message in _EXPECTED_WARNINGS:
            warnings.filterwarnings("ignore", message=message)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_looks())
        yield


@cache
def _looks() -> RcParams:
    """Return our settings from their file."""
    import matplotlib

    with as_file(files("unmask.pages") / "charts.mplstyle") as style:
        return matplotlib.rc_params_from_file(style, use_default_template=False)


# ------------------------------------------------------------------------------------- figures


def pictures(drawing: parts.Drawing, styles: parts.Styles, width: float | None = None) -> list[str]:
    """Return every chart as an SVG document, without the title and legend that the page writes."""
    from matplotlib.figure import Figure

    inches = width or WIDTHS[drawing.columns]
    with settings():
        figures = [Figure((inches, _height(c, inches)), layout="constrained")
                   for c in drawing.charts]  # fmt: skip
        _draw(drawing, [figure.subplots() for figure in figures], styles)
        return [saved(figure, "svg").decode() for figure in figures]


def figure_of(drawing: parts.Drawing, styles: parts.Styles, width: float | None = None) -> Figure:
    """Return the whole drawing with title and legend as a matplotlib figure."""
    from matplotlib.figure import Figure

    columns = drawing.columns
    rows = math.ceil(len(drawing.charts) / columns)
    inches = width or WIDTHS[columns]
    height = 0.25 * (columns > 1) + max(_height(chart, inches) for chart in drawing.charts)
    with settings():
        figure = Figure((columns * inches, rows * height + 0.7), layout="constrained")
        cells = figure.subfigures(rows, columns, squeeze=False).ravel()
        axes = [cell.subplots() for cell in cells[: len(drawing.charts)]]
        _draw(drawing, axes, styles)
        title: dict[str, Any] = {"x": 0.02, "ha": "left"}
        if isinstance(drawing, parts.Panels):
            for cell, chart in zip(cells, drawing.charts, strict=False):
                cell.suptitle(_fit(axes[0], chart.title), fontsize=9, **title)
        whole = _fit(axes[0], drawing.title, 0.75 * columns)
        figure.suptitle(whole, fontsize=11, fontweight="bold", **title)
        _add_legend(figure, drawing, styles)
        return figure


def saved(figure: Figure, file_format: str) -> bytes:
    """Return the bytes of a file "svg" or "png", without the date and version that change them."""
    file = io.BytesIO()
    metadata = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
    figure.savefig(file, format=file_format, metadata=metadata[file_format])
    return file.getvalue()


def _height(chart: parts.Chart, width: float) -> float:
    """Return inches: by the width, but for one row of text per row of dots."""
    if chart.kind == "dots":
        rows = sum(sum(name in s.x for s in chart.series) for name in chart.names)
        return 0.8 + 0.14 * len(chart.names) + 0.16 * rows
    return 1.5 + 0.28 * width


def _draw(drawing: parts.Drawing, axes: Sequence[Axes], styles: parts.Styles) -> None:
    for ax, chart in zip(axes, drawing.charts, strict=True):
        DRAW[chart.kind](ax, chart, styles)
    for side in ("x", "y"):
        if getattr(drawing, f"share_{side}"):
            ends = np.array([getattr(ax, f"get_{side}lim")() for ax in axes])
            low, high = ends.min(), ends.max()
            falling = ends[0, 0] > ends[0, 1]  # rows of dots count downwards
            for ax in axes:
                getattr(ax, f"set_{side}lim")((high, low) if falling else (low, high))


# -------------------------------------------------------------------------------------- legend


def legend_of(drawing: parts.Drawing, styles: parts.Styles) -> dict[str, parts.Style]:
    """Return the names that nothing in the drawing shows already, with the style of their symbol.

    A row of dots is named at its side, and a series that stands alone needs no name. A name that
    only rules have is dashed, and only lines and dots have markers.

    >>> a, b = (parts.Series(name, [name], [1.0]) for name in "ab")
    >>> legend_of(parts.Chart("dots", [a, b]), {})
    {}
    """
    kinds: dict[str, set[str]] = {}
    has_rules = False
    for chart in drawing.charts:
        at_side = {s.name for s in chart.series if chart.kind == "dots" and set(s.x) == {s.name}}
        for series in chart.series:
            if series.name not in at_side:
                kinds.setdefault(series.name, set()).add(chart.kind)
        for rule in chart.rules:
            if rule.name not in at_side:
                kinds.setdefault(rule.name, set())
                has_rules = True
    if len(kinds) == 1 and not has_rules:
        return {}
    return {
        name: parts.Style(
            styles[name].color,
            styles[name].marker if shown & {"lines", "dots"} else "none",
            styles[name].dash if shown else "dashed",
        )
        for name, shown in kinds.items()
    }


def _add_legend(figure: Figure, drawing: parts.Drawing, styles: parts.Styles) -> None:
    from matplotlib.lines import Line2D

    if entries := legend_of(drawing, styles):
        handles = [Line2D([], [], **_line_options(style)) for style in entries.values()]
        width, longest = figure.get_figwidth(), max(map(len, entries))
        columns = max(1, min(4, int(width / (0.5 + _LETTER * longest))))
        rows = -(-len(entries) // columns)
        names = [_cut(name, int(12 * width)) for name in entries]
        figure.legend(handles, names, loc="outside lower left", ncols=-(-len(entries) // rows))


# ------------------------------------------------------------------------- the kinds of chart


def _lines(ax: Axes, chart: parts.Chart, styles: parts.Styles) -> None:
    """Draw curves with bands, with about a dozen markers each, however many points there are."""
    x_axis, y_axis = chart.axes
    for index, series in enumerate(chart.series):
        options, y = _line_options(styles[series.name]), _floats(series.y)
        every = -(-len(y) // 12)
        markers = (index % every, every) if every > 1 else None
        order = 4 if options["color"] == INK else 3 - 0.01 * index
        beyond = _beyond(y, y_axis)
        clip = x_axis.log or y_axis.log or bool(beyond.any())  # else a marker at the end is whole
        ax.plot(series.x, y, zorder=order, markevery=markers, clip_on=clip, **options)
        if series.low:  # the band does not reach towards a neighbour beyond the axis
            low, high = (_clipped(_floats(end), y_axis) for end in (series.low, series.high))
            band = {"color": options["color"], "alpha": 0.16, "linewidth": 0}
            ax.fill_between(series.x, low, high, where=~beyond, zorder=2, **band)
    _finish(ax, chart, styles)


def _steps(ax: Axes, chart: parts.Chart, styles: parts.Styles) -> None:
    """Draw outlines over a light fill, with the intervals side by side within a bin."""
    for index, series in enumerate(chart.series, start=1):
        style, heights = styles[series.name], _floats(series.y)
        edges = np.array(series.x, dtype=float)
        line = {"linewidth": 1.4, "linestyle": _dash(style.dash)}
        ax.stairs(heights, edges, color=style.hex, zorder=3, **line)
        ax.stairs(heights, edges, color=style.hex, alpha=0.10, fill=True, linewidth=0, zorder=1)
        if series.low:
            middles = edges[:-1] + index / (len(chart.series) + 1) * np.diff(edges)
            low, high = _floats(series.low), _floats(series.high)
            ax.vlines(middles, low, high, color=style.hex, linewidth=1.5, zorder=3)
    if not chart.axes[1].log:
        ax.set_ylim(bottom=0)
    _finish(ax, chart, styles)


def _dots(ax: Axes, chart: parts.Chart, styles: parts.Styles) -> None:
    """Draw rows of dots with intervals; an arrow at the edge where something lies beyond it."""
    names, axis = chart.names, chart.axes[1]
    rows = {name: [s.name for s in chart.series if name in s.x] for name in names}
    marks = []
    for series in chart.series:
        width = 0.8 / max(len(rows[name]) for name in series.x)
        steps = [rows[x].index(series.name) - (len(rows[x]) - 1) / 2 for x in series.x]
        places = np.array([names.index(x) for x in series.x]) + width * np.array(steps)
        y = _floats(series.y)
        low, high = (_floats(end) if end else y for end in (series.low, series.high))
        options = _line_options(styles[series.name]) | {"linestyle": "none"}
        if options["marker"] == "none":
            options["marker"] = "o"
        if series.low:
            ax.hlines(places, low, high, color=options["color"], linewidth=1.5, zorder=3)
        clip = axis.log or bool(_beyond(y, axis).any())
        ax.plot(y, places, zorder=4, markersize=6, clip_on=clip, **options)
        marks.append((places, y, low, high, options["color"]))
    ax.set_yticks(range(len(names)), [_fit(ax, format_value(name), 0.48) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(False)
    ax.grid(True, axis="x")
    ax.spines["left"].set_visible(False)
    for border in range(1, len(names)):
        ax.axhline(border - 0.5, color=LINE, linewidth=0.6, zorder=0)
    _finish(ax, chart, styles, horizontal=True)
    left, right = ax.get_xlim()
    for places, y, low, high, color in marks:  # arrows; a hollow one if the dot itself is beyond
        for side, end, beyond, lost in (
            ("<", left, np.minimum(y, low) < left, y < left),
            (">", right, np.maximum(y, high) > right, y > right),
        ):
            for place, hollow in zip(places[beyond], lost[beyond], strict=True):
                face = PAPER if hollow else color
                ax.plot([end], [place], marker=side, markerfacecolor=face, color=color,
                        markersize=5, clip_on=False, zorder=5)  # fmt: skip
    ax.set_xlim(left, right)


DRAW = {"lines": _lines, "dots": _dots, "steps": _steps}
"""The function that draws each kind of chart on matplotlib axes."""


# ------------------------------------------------------------------------ what all kinds share


def _line_options(style: parts.Style) -> dict[str, Any]:
    """Return matplotlib's options of a line."""
    return {
        "color": style.hex,
        "marker": parts.MARKERS[style.marker][0] or "none",
        "linestyle": _dash(style.dash),
        "markeredgewidth": 0,
    }


def _dash(name: str) -> Any:
    """Return a line pattern as matplotlib takes it."""
    return (0, tuple(map(float, parts.DASHES[name].split()))) if parts.DASHES[name] else "-"


def _floats(values: Sequence[float | None]) -> Floats:
    """Return numbers with gaps as NaN."""
    return np.array(values, dtype=np.float64)


def _clipped(values: Floats, axis: parts.Axis) -> Floats:
    """Return the values, those beyond an end of the axis that was set at that end."""
    low = -math.inf if axis.low is None else axis.low
    return np.clip(values, low, math.inf if axis.high is None else axis.high)


def _beyond(values: Floats, axis: parts.Axis) -> Any:
    """Return which values lie beyond an end of the axis that was set."""
    return ~np.isnan(values) & (values != _clipped(values, axis))


def _fit(ax: Axes, text: str, share: float = 1.0) -> str:
    """Return a text cut to a share of the figure's width: names come from data, of any length."""
    return _cut(text, int(share * ax.figure.bbox.width / ax.figure.dpi / _LETTER))


def _cut(text: str, letters: int) -> str:
    text = printable(text)
    return text if len(text) <= letters else text[: letters - 1] + "…"


def _finish(
    ax: Axes, chart: parts.Chart, styles: parts.Styles, *, horizontal: bool = False
) -> None:
    """Add labels, scales, ends, rules and notes; `horizontal` if y runs along the page."""
    x, y = chart.axes
    sides = {"x": y, "y": x} if horizontal else {"x": x, "y": y}
    for side, axis in sides.items():
        if axis.log:
            getattr(ax, f"set_{side}scale")("log")
        getattr(ax, f"set_{side}lim")(axis.low, axis.high)
        if axis.log:
            _set_log_ticks(getattr(ax, f"{side}axis"), *getattr(ax, f"get_{side}lim")())
    ax.set_xlabel(_fit(ax, sides["x"].label))
    ax.set_title(_fit(ax, sides["y"].label))
    for rule in chart.rules:
        draw = ax.axvline if (rule.axis == "x") != horizontal else ax.axhline
        line = {"linewidth": 1.3, "linestyle": _dash("dashed"), "zorder": 3.5}
        draw(rule.value, color=styles[rule.name].hex, **line)
    for note in chart.notes:
        bracket = {"arrowstyle": "|-|,widthA=0.25,widthB=0.25", "color": MUTED, "linewidth": 0.9}
        arrow = {**bracket, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", (note.x, note.y), (note.x, note.to), arrowprops=arrow)


def _set_log_ticks(axis: Any, low: float, high: float) -> None:
    """Set powers of ten, or steps between them where the axis spans few."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    decades = math.log10(high / low)
    if decades < 2.5:
        axis.set_major_locator(MaxNLocator(5) if decades < 1 else LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(log_tick)
    axis.set_minor_formatter("")


def log_tick(value: float, _: float) -> str:
    """Return the label of a tick: plain near one, a power of ten elsewhere.

    >>> [log_tick(value, 0) for value in (0, 0.05, 1e12, 2e-5)]
    ['', '0.05', '10¹²', '2·10⁻⁵']
    """
    if value <= 0:  # a locator may try places beyond the axis
        return ""
    if 1e-3 <= value < 1e4:
        return format_value(value, ".4g")
    digits, exponent = f"{value:.1e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if digits == "1.0" else f"{float(digits):g}·10{raised}"


# ---------------------------------------------------------------------------- the SVG of a page

_VARIABLES = {
    light: f"var(--{name}, {light})"
    for name, (light, _) in {**parts.PALETTE, **parts.THEME}.items()
}
_COLOR = re.compile(r"#[0-9a-f]{6}\b")
_FONT = re.compile(r"(?:; *|^)font-family:[^;]*")
_NUMBER = re.compile(r"-?\d+\.\d+(?![\de])")
_NAME = re.compile(r"(?<=#)\w+|^\w+$")
_ZOOM = 1.65  # CSS pixels per point: text of 8.5 points reads like the page's


def variables(theme: int) -> str:
    """Return the CSS variables of the light (0) or the dark (1) theme."""
    return "".join(
        f"--{name}:{pair[theme]};" for name, pair in {**parts.THEME, **parts.PALETTE}.items()
    )


def svg_element(
    drawn: str, prefix: str, title: str, description: str, *, alone: bool = False
) -> str:
    """Return the `<svg>` element of a page, with title and description for screen readers.

    Parameters
    ----------
    drawn : str
        An SVG document of matplotlib's.
    prefix : str
        Stands before every id and class, so that they differ on a page of several charts.
    title, description : str
    alone : bool, default False
        Whether it is a file of its own, light or dark as the reader prefers.
    """
    root = ElementTree.fromstring(drawn)  # noqa: S314 (our own drawing, made a moment ago)
    for parent in root.iter():
        for child in [c for c in parent if c.tag.endswith(("}metadata", "}style"))]:
            parent.remove(child)
    shared = [e for e in root.iter() if e.get("id") and e.tag.endswith(("}path", "}clipPath"))]
    names = {e.get("id", ""): f"{prefix}-n{number}" for number, e in enumerate(shared)}
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.tail = None
        if element.tag != "text":
            element.text = None
        attributes = {key.rpartition("}")[2]: value for key, value in element.items()}
        element.attrib = {key: _attribute(key, value, names) for key, value in attributes.items()
                          if key != "id" or value in names}  # fmt: skip
    count = Counter(element.get("style", "") for element in root.iter())
    repeated = [style for style, uses in count.items() if style and uses > 1]
    classes = {style: f"{prefix}-{number}" for number, style in enumerate(repeated)}
    for element in root.iter():
        if element.get("style") in classes:
            element.set("class", classes[element.attrib.pop("style")])
    css = "".join(f".{name}{{{style}}}" for style, name in classes.items())
    if alone:
        dark = f"@media(prefers-color-scheme:dark){{:root{{{variables(1)}}}}}"
        font = "background:var(--paper);font-family:system-ui,sans-serif"
        css += f":root{{{variables(0)}{font}}}{dark}"
    texts = {"title": title, "desc": description, "style": css}
    for position, (tag, text) in enumerate(texts.items()):
        child = ElementTree.Element(tag, {} if tag == "style" else {"id": f"{prefix}-{tag}"})
        child.text = printable(text)
        root.insert(position, child)
    left, top, width, height = map(float, root.get("viewBox", "").split())
    root.attrib = {
        "width": f"{_ZOOM * width:.0f}",
        "height": f"{_ZOOM * height:.0f}",
        "style": f"max-width:{_ZOOM * width:.0f}px",
        "viewBox": f"{left:g} {top:g} {width:g} {height:g}",
        "role": "img",
        "aria-labelledby": f"{prefix}-title {prefix}-desc",
        "stroke-linejoin": "round",
    } | ({"xmlns": "http://www.w3.org/2000/svg"} if alone else {})
    return ElementTree.tostring(root, encoding="unicode")


def _attribute(key: str, value: str, names: dict[str, str]) -> str:
    """Return an attribute with own names, colours of the theme and short numbers."""
    if key in ("id", "href", "clip-path"):
        return _NAME.sub(lambda match: names.get(match[0], match[0]), value)
    if key == "style":
        style = _COLOR.sub(lambda match: _VARIABLES.get(match[0], match[0]), _FONT.sub("", value))
        return style.replace("; ", ";").replace(": ", ":").strip(";")
    if key in ("d", "x", "y", "transform"):
        value = _NUMBER.sub(lambda match: _short(float(match[0])), value)
        return re.sub(r" ?([MLCQZz]) ?", r"\1", " ".join(value.split())) if key == "d" else value
    return value


def _short(x: float) -> str:
    """Return a number to a tenth of a point, below 10 (outlines of markers) to a hundredth."""
    return f"{round(x, 2 if abs(x) < 10 else 1) + 0.0:g}"
