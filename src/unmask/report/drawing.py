"""Charts drawn with matplotlib, on figures of our own: pyplot and its global state stay untouched.

Colours are those of a light page; `svg` later turns them into the colours of the reader's theme.
Nothing in a text is taken for mathematics, so that a `$` in a name stays a `$`.
matplotlib is imported when the first chart is drawn.

From the whole to its parts: figures with their settings, the legend, one function per kind of
chart, and what all kinds share (line options, axes with their ticks, rules and notes).
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from threading import RLock
from typing import TYPE_CHECKING, TypedDict
from xml.etree import ElementTree

from unmask.report.charts import (
    DASHES,
    MARKERS,
    PALETTE,
    THEME,
    Axis,
    Chart,
    Drawing,
    Note,
    Panels,
    Position,
    Rule,
    Series,
    Style,
    Styles,
    axes_of,
    categories,
    charts_of,
    direct_names,
    kinds_of,
    legend_names,
    numeric_x,
)
from unmask.report.format import format_value

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as MatplotlibAxis
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure
    from matplotlib.typing import LineStyleType

INK, MUTED, LINE, PAPER = (THEME[name][0] for name in ("ink", "muted", "line", "paper"))

WIDTHS = {1: 5.6, 2: 3.5, 3: 2.5, 4: 2.1}
"""Inches of a chart by the number of columns."""
NARROW = 3.6
"""Inches of a chart on a phone."""
NAME_SHARE = 0.48
"""The share of a figure's width that names on its left may take."""

_LETTER = 0.073  # inches, of a letter of 8.5 points on average

_SETTINGS: dict[str, object] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 8.5,
    "axes.titlepad": 7,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.06,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "font.size": 8.5,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.6,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "unmask",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.major.size": 3,
    "xtick.major.width": 0.6,
    "xtick.minor.size": 0,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
}

# Warnings about the data: a letter that the font lacks (the browser's may have it), and names so
# long that no space is left for the axes.
_EXPECTED_WARNINGS = ("Glyph .* missing from", "constrained_layout not applied")

_lock = RLock()


@contextmanager
def _settings() -> Iterator[None]:
    """Our settings over matplotlib's, whatever the user configured; one thread at a time."""
    import matplotlib

    with _lock, matplotlib.rc_context(), warnings.catch_warnings():
        for message in _EXPECTED_WARNINGS:
            warnings.filterwarnings("ignore", message=message)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)  # type: ignore[arg-type]
        yield


# ------------------------------------------------------------------------------------- figures


def panels_as_svg(drawing: Drawing, styles: Styles, width: float | None = None) -> list[str]:
    """Every panel as an SVG of its own, without title and legend, which the page writes.

    Parameters
    ----------
    drawing : Chart or Panels
    styles : mapping of str to Style
        The style of every series and rule by name (`charts.styles_of`).
    width : float, optional
        Inches of a chart; by default by the number of columns.

    Returns
    -------
    list of str
        One SVG document per chart.
    """
    from matplotlib.figure import Figure

    inches = width or WIDTHS[columns_of(drawing)]
    with _settings():
        figures = [
            Figure((inches, _height(chart, inches)), layout="constrained")
            for chart in charts_of(drawing)
        ]
        _draw_all(drawing, [figure.subplots() for figure in figures], styles)
        return [_saved(figure, "svg").decode() for figure in figures]


def picture(
    drawing: Drawing, styles: Styles, file_format: str, width: float | None = None
) -> bytes:
    """The whole drawing with title and legend as one file.

    Parameters
    ----------
    drawing : Chart or Panels
    styles : mapping of str to Style
        The style of every series and rule by name (`charts.styles_of`).
    file_format : "png" or "svg"
    width : float, optional
        Inches of a chart; by default by the number of columns.

    Returns
    -------
    bytes
        The contents of the file.
    """
    with _settings():
        return _saved(figure_of(drawing, styles, width), file_format)


def figure_of(drawing: Drawing, styles: Styles, width: float | None = None) -> Figure:
    """The whole drawing with title and legend as a matplotlib figure.

    Parameters
    ----------
    drawing : Chart or Panels
    styles : mapping of str to Style
    width : float, optional
        Inches of a chart; by default by the number of columns.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.figure import Figure

    charts, columns = charts_of(drawing), columns_of(drawing)
    rows = math.ceil(len(charts) / columns)
    inches = width or WIDTHS[columns]
    height = 0.25 * (columns > 1) + max(_height(chart, inches) for chart in charts)
    with _settings():
        figure = Figure((columns * inches, rows * height + 0.7), layout="constrained")
        cells = figure.subfigures(rows, columns, squeeze=False).ravel()
        axes = [cell.subplots() for cell in cells[: len(charts)]]
        _draw_all(drawing, axes, styles)
        if isinstance(drawing, Panels):
            for cell, chart in zip(cells, charts, strict=False):
                cell.suptitle(_fit(axes[0], chart.title), x=0.02, ha="left", fontsize=9)
        figure.suptitle(
            _fit(axes[0], drawing.title, 0.75 * columns),
            x=0.02,
            ha="left",
            fontsize=11,
            fontweight="bold",
        )
        _add_legend(figure, drawing, styles)
        return figure


def columns_of(drawing: Drawing) -> int:
    """How many charts stand side by side."""
    return min(drawing.columns, len(drawing.charts)) if isinstance(drawing, Panels) else 1


def _height(chart: Chart, width: float) -> float:
    """Inches: by the width, but for one row of text per row of dots."""
    if chart.kind == "dots":
        groups = [[s for s in chart.series if x in s.x] for x in categories(chart)]
        return 0.8 + sum(0.14 + 0.16 * len(group) for group in groups)
    return 1.5 + 0.28 * width


def _draw_all(drawing: Drawing, axes: Sequence[Axes], styles: Styles) -> None:
    for ax, chart in zip(axes, charts_of(drawing), strict=True):
        DRAW[chart.kind](ax, chart, styles)
        if direct_names(drawing):
            _write_names(ax, chart)
    if isinstance(drawing, Panels):
        if drawing.share_x:
            _share_ends(axes, "x")
        if drawing.share_y:
            _share_ends(axes, "y")


def _share_ends(axes: Sequence[Axes], side: str) -> None:
    """The same ends of the axis on one side of all panels."""
    ends = [getattr(ax, f"get_{side}lim")() for ax in axes]
    falling = ends[0][0] > ends[0][1]  # rows of dots count downwards
    low, high = min(min(pair) for pair in ends), max(max(pair) for pair in ends)
    for ax in axes:
        getattr(ax, f"set_{side}lim")((high, low) if falling else (low, high))


def _saved(figure: Figure, file_format: str) -> bytes:
    """The bytes of the file, without the date and version that would change them."""
    file = io.BytesIO()
    metadata = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
    figure.savefig(file, format=file_format, metadata=metadata[file_format])
    return file.getvalue()


# -------------------------------------------------------------------------------------- legend


def _add_legend(figure: Figure, drawing: Drawing, styles: Styles) -> None:
    names = legend_names(drawing)
    if names:
        handles = [_handle(styles[name], kinds_of(drawing, name)) for name in names]
        width = figure.get_figwidth()
        columns = max(1, min(4, int(width / (0.5 + 0.075 * max(map(len, names))))))
        rows = -(-len(names) // columns)
        short = [
            name if len(name) <= 12 * width else name[: int(11 * width)] + "…" for name in names
        ]
        figure.legend(handles, short, loc="outside lower left", ncols=-(-len(names) // rows))


def _handle(style: Style, kinds: frozenset[str]) -> Artist:
    """The symbol before a name in the legend; a name that only rules have is dashed."""
    from matplotlib.lines import Line2D

    options = _line_options(style)
    if not kinds & {"lines", "dots"}:
        options["marker"] = "none"
    if not kinds:
        options["linestyle"] = _dash("dashed")
    return Line2D([], [], **options)


# ----------------------------------------------------------------------- the kinds of chart


def _lines(ax: Axes, chart: Chart, styles: Styles) -> None:
    """Curves with bands; about a dozen markers each, however many points there are."""
    x, y = axes_of(chart)
    for index, series in enumerate(chart.series):
        options = _line_options(styles[series.name])
        every = -(-len(series.y) // 12)
        markers = (index % every, every) if every > 1 else None
        order = 4 if options["color"] == INK else 3 - 0.01 * index
        beyond = _beyond(series.y, y)
        clip = x.log or y.log or any(beyond)  # a marker at the end of the axis is drawn whole
        ax.plot(
            series.x, _floats(series.y), zorder=order, markevery=markers, clip_on=clip, **options
        )
        if series.low:
            _draw_band(ax, series, beyond, y, options["color"])
    _finish_axes(ax, chart, styles)


def _draw_band(ax: Axes, series: Series, beyond: list[bool], axis: Axis, color: str) -> None:
    """The interval, but not towards a neighbour that lies beyond the axis."""
    low, high = (_clipped(end, axis) for end in (series.low, series.high))
    here = [not away for away in beyond]
    x = numeric_x(series)
    ax.fill_between(x, low, high, where=here, zorder=2, color=color, alpha=0.16, linewidth=0)


def _clipped(values: Sequence[float | None], axis: Axis) -> list[float]:
    """The values, those beyond an end of the axis that was set at that end."""
    low = -math.inf if axis.low is None else axis.low
    high = math.inf if axis.high is None else axis.high
    return [value if math.isnan(value) else min(max(value, low), high) for value in _floats(values)]


def _beyond(values: Sequence[float | None], axis: Axis) -> list[bool]:
    """Which values lie beyond an end of the axis that was set."""
    pairs = zip(_floats(values), _clipped(values, axis), strict=True)
    return [not math.isnan(value) and value != within for value, within in pairs]


def _steps(ax: Axes, chart: Chart, styles: Styles) -> None:
    """Outlines of histograms over a light fill, with the intervals side by side within a bin."""
    count = len(chart.series)
    for index, series in enumerate(chart.series):
        style = styles[series.name]
        edges, heights, color = numeric_x(series), _floats(series.y), style.hex
        ax.stairs(heights, edges, color=color, zorder=3, linewidth=1.4, linestyle=_dash(style.dash))
        ax.stairs(heights, edges, color=color, alpha=0.10, fill=True, linewidth=0, zorder=1)
        share = (index + 1) / (count + 1)
        middles = [left + share * (right - left) for left, right in pairwise(edges)]
        _draw_intervals(ax.vlines, middles, series, color)
    if not axes_of(chart)[1].log:
        ax.set_ylim(bottom=0)
    _finish_axes(ax, chart, styles)


def _dots(ax: Axes, chart: Chart, styles: Styles) -> None:
    """Rows of dots with intervals; an arrow at the edge where something lies beyond the axis."""
    groups = categories(chart)
    for series, places, _ in _placed(chart, groups):
        options = _line_options(styles[series.name])
        options["linestyle"] = "none"
        if options["marker"] == "none":
            options["marker"] = "o"
        _draw_intervals(ax.hlines, places, series, options["color"])
        axis = axes_of(chart)[1]
        clip = axis.log or any(_beyond(series.y, axis))
        ax.plot(_floats(series.y), places, zorder=4, markersize=6, clip_on=clip, **options)
    ax.set_yticks(range(len(groups)), [_fit(ax, format_value(x), NAME_SHARE) for x in groups])
    ax.set_ylim(len(groups) - 0.5, -0.5)
    ax.grid(False)
    ax.grid(True, axis="x")
    ax.spines["left"].set_visible(False)
    for border in range(1, len(groups)):
        ax.axhline(border - 0.5, color=LINE, linewidth=0.6, zorder=0)
    _finish_axes(ax, chart, styles, horizontal=True)
    _add_arrows(ax, chart, groups, styles)


def _write_names(ax: Axes, chart: Chart) -> None:
    """Names beside the dots of the first row, on the side that has more room."""
    left, right = ax.get_xlim()
    for series, places, _ in _placed(chart, categories(chart)):
        place = series.x.index(categories(chart)[0])
        ends = [series.y[place], *(end[place] for end in (series.low, series.high) if end)]
        low, high = min(_floats(ends)), max(_floats(ends))
        room = right - high > low - left
        ax.annotate(
            _fit(ax, series.name, 0.3),
            (min(high, right) if room else max(low, left), places[place]),
            (7 if room else -7, 0),
            textcoords="offset points",
            ha="left" if room else "right",
            va="center",
            fontsize=8,
        )


def _placed(
    chart: Chart, groups: Sequence[Position]
) -> Iterator[tuple[Series, list[float], float]]:
    """Every series with its places and its width: beside the others of the same group."""
    present = {x: [s.name for s in chart.series if x in s.x] for x in groups}
    for series in chart.series:
        width = 0.8 / max(len(present[x]) for x in series.x)
        places = [
            groups.index(x) + width * (present[x].index(series.name) - (len(present[x]) - 1) / 2)
            for x in series.x
        ]
        yield series, places, width


def _draw_intervals(
    draw: Callable[..., LineCollection], places: Sequence[float], series: Series, color: str
) -> None:
    if series.low:
        low, high = _floats(series.low), _floats(series.high)
        draw(places, low, high, color=color, linewidth=1.5, zorder=3)


def _add_arrows(ax: Axes, chart: Chart, groups: Sequence[Position], styles: Styles) -> None:
    """Arrows where an interval goes on beyond the axis; a hollow one if the dot itself does."""
    left, right = ax.get_xlim()
    for series, places, _ in _placed(chart, groups):
        low, high = series.low or series.y, series.high or series.y
        columns = (places, _floats(series.y), _floats(low), _floats(high))
        for place, value, bottom, top in zip(*columns, strict=True):
            if min(value, bottom) < left:
                _arrow(ax, left, place, "<", styles[series.name], hollow=value < left)
            if max(value, top) > right:
                _arrow(ax, right, place, ">", styles[series.name], hollow=value > right)
    ax.set_xlim(left, right)


def _arrow(ax: Axes, x: float, y: float, marker: str, style: Style, *, hollow: bool) -> None:
    face = PAPER if hollow else style.hex
    ax.plot(
        [x], [y], marker=marker, markerfacecolor=face, color=style.hex, markersize=5,
        clip_on=False, zorder=5,
    )  # fmt: skip


# ------------------------------------------------------------------------ what all kinds share


class _LineOptions(TypedDict):
    """matplotlib's options of a line."""

    color: str
    marker: str
    linestyle: LineStyleType
    markeredgewidth: float


def _line_options(style: Style) -> _LineOptions:
    return {
        "color": style.hex,
        "marker": MARKERS[style.marker] or "none",
        "linestyle": _dash(style.dash),
        "markeredgewidth": 0,
    }


def _dash(name: str) -> LineStyleType:
    """A line pattern as matplotlib takes it."""
    return (0, tuple(float(length) for length in DASHES[name].split())) if DASHES[name] else "-"


def _floats(values: Sequence[float | None]) -> list[float]:
    """Numbers with gaps as NaN."""
    return [math.nan if value is None else value for value in values]


def _fit(ax: Axes, text: str, share: float = 1.0) -> str:
    """`text`, cut to a share of the figure's width: names come from data and may be any length."""
    letters = int(share * ax.figure.bbox.width / ax.figure.dpi / _LETTER)
    return text if len(text) <= letters else text[: letters - 1] + "…"


def _finish_axes(ax: Axes, chart: Chart, styles: Styles, *, horizontal: bool = False) -> None:
    """Labels, scales, ends, rules and notes; `horizontal` if y runs along the page."""
    x, y = axes_of(chart)
    sides = {"x": y, "y": x} if horizontal else {"x": x, "y": y}
    for side, axis in sides.items():
        _scale(ax, side, axis)
    ax.set_xlabel(_fit(ax, sides["x"].label))
    ax.set_title(_fit(ax, sides["y"].label))
    for rule in chart.rules:
        _draw_rule(ax, rule, styles[rule.name], upright=(rule.axis == "x") != horizontal)
    for note in chart.notes:
        _draw_note(ax, note)


def _scale(ax: Axes, side: str, axis: Axis) -> None:
    names = ("left", "right") if side == "x" else ("bottom", "top")
    ends = zip(names, (axis.low, axis.high), strict=True)
    if axis.log:
        getattr(ax, f"set_{side}scale")("log")
    getattr(ax, f"set_{side}lim")(**{name: end for name, end in ends if end is not None})
    if axis.log:
        _set_log_ticks(getattr(ax, f"{side}axis"), *getattr(ax, f"get_{side}lim")())


def _set_log_ticks(axis: MatplotlibAxis, low: float, high: float) -> None:
    """Powers of ten, or steps between them where the axis spans few."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    decades = math.log10(high / low)
    if decades < 1:
        axis.set_major_locator(MaxNLocator(5))
    elif decades < 2.5:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(_log_tick)
    axis.set_minor_formatter("")


def _log_tick(value: float, _: float) -> str:
    """The label of a tick: plain near one, a power of ten elsewhere."""
    if value <= 0:  # a locator may try places beyond the axis
        return ""
    if 1e-3 <= value < 1e4:
        return format_value(value, ".4g")
    digits, exponent = f"{value:.1e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if digits == "1.0" else f"{float(digits):g}·10{raised}"


def _draw_rule(ax: Axes, rule: Rule, style: Style, *, upright: bool) -> None:
    draw = ax.axvline if upright else ax.axhline
    draw(rule.value, color=style.hex, linewidth=1.3, linestyle=_dash("dashed"), zorder=3.5)


def _draw_note(ax: Axes, note: Note) -> None:
    x, y, text = note.x, note.y, _fit(ax, note.text, 0.5)
    if note.to is None:
        _write_note(ax, text, (x, y), (4, 4), "baseline")
        return
    bracket = {"arrowstyle": "|-|,widthA=0.25,widthB=0.25", "color": MUTED, "linewidth": 0.9}
    ax.annotate("", (x, y), (x, note.to), arrowprops={**bracket, "shrinkA": 0, "shrinkB": 0})
    middle = math.sqrt(y * note.to) if ax.get_yscale() == "log" else (y + note.to) / 2
    _write_note(ax, text, (x, middle), (6, 0), "center")


def _write_note(
    ax: Axes, text: str, point: tuple[float, float], offset: tuple[float, float], align: str
) -> None:
    ax.annotate(
        text, point, offset, textcoords="offset points", fontsize=7.5, color=MUTED, va=align
    )


DRAW: Mapping[str, Callable[[Axes, Chart, Styles], None]] = {
    "lines": _lines,
    "dots": _dots,
    "steps": _steps,
}
"""How each kind of chart is drawn on matplotlib axes."""


_VARIABLES = {light: f"var(--{name}, {light})" for name, (light, _) in {**PALETTE, **THEME}.items()}
_COLOR = re.compile(r"#[0-9a-f]{6}\b")
_NUMBER = re.compile(r"-?\d+\.\d+(?![\de])")
_ZOOM = 1.65  # CSS pixels per point: text of 8.5 points reads like the page's
_UNUSED = {"metadata", "style"}
_NO_ROTATION = ("rotate(0 ", "rotate(-0 ")


def themed(drawn: str, *, prefix: str, title: str, description: str) -> str:
    """An `<svg>` element for a page, with title and description for screen readers.

    Parameters
    ----------
    drawn : str
        An SVG document of matplotlib's.
    prefix : str
        Stands before every id, so that ids differ on a page of several charts.
    title, description : str

    Returns
    -------
    str
        The element.
    """
    return ElementTree.tostring(_root(drawn, prefix, title, description), encoding="unicode")


def standalone(drawn: str, *, title: str, description: str) -> str:
    """The same as a file of its own, light or dark as the reader prefers; see `themed`."""
    root = _root(drawn, "c", title, description)
    root.set("xmlns", "http://www.w3.org/2000/svg")
    style = ElementTree.SubElement(root, "style")
    style.text = (
        f":root{{{variables(0)}background:var(--paper);font-family:system-ui,sans-serif}}"
        f"@media(prefers-color-scheme:dark){{:root{{{variables(1)}}}}}"
    )
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def variables(theme: int) -> str:
    """The CSS variables of the light (0) or the dark (1) theme."""
    return "".join(f"--{name}:{pair[theme]};" for name, pair in {**THEME, **PALETTE}.items())


def _root(drawn: str, prefix: str, title: str, description: str) -> ElementTree.Element:
    root = ElementTree.fromstring(drawn)  # noqa: S314 (our own drawing, made a moment ago)
    _tidy(root, prefix)
    _number_names(root, prefix)
    _state_styles_once(root, prefix)
    _state_classes_of_markers_once(root)
    names = {"title": f"{prefix}-title", "desc": f"{prefix}-desc"}
    for position, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(tag, {"id": names[tag]})
        element.text = text
        root.insert(position, element)
    left, top, width, height = (float(part) for part in root.get("viewBox", "").split())
    root.attrib = {
        "width": f"{_ZOOM * width:.0f}",
        "height": f"{_ZOOM * height:.0f}",
        "style": f"max-width:{_ZOOM * width:.0f}px",
        "viewBox": f"{left:g} {top:g} {width:g} {height:g}",
        "role": "img",
        "aria-labelledby": " ".join(names.values()),
        "stroke-linejoin": "round",
    }
    return root


def _tidy(element: ElementTree.Element, prefix: str) -> None:
    """Plain names of tags and attributes, own ids, colours of the theme; from here downwards."""
    element.tag = _local(element.tag)
    keeps_id = element.tag in ("path", "clipPath")  # what others refer to; ids of groups do not
    element.attrib = {
        _local(key): _attribute(_local(key), value, prefix)
        for key, value in element.items()
        if (keeps_id or key != "id") and not value.startswith(_NO_ROTATION)
    }
    if element.tag != "text":
        element.text = None
    element.tail = None
    children = [child for child in element if _local(child.tag) not in _UNUSED]
    for child in children:
        _tidy(child, prefix)
    element[:] = [part for child in children for part in _without_bare_groups(child)]


def _number_names(root: ElementTree.Element, prefix: str) -> None:
    """Names that others refer to, numbered in their order; matplotlib's are hashes."""
    ids = [name for element in root.iter() if (name := element.get("id"))]
    numbers = {name: f"{prefix}-n{number}" for number, name in enumerate(ids)}
    for element in root.iter():
        for key, before, after in (("id", "", ""), ("href", "#", ""), ("clip-path", "url(#", ")")):
            name = element.get(key, "").removeprefix(before).removesuffix(after)
            if name in numbers:
                element.set(key, before + numbers[name] + after)


def _state_classes_of_markers_once(root: ElementTree.Element) -> None:
    """A group that holds nothing but markers of one class has that class itself."""
    for group in root.iter("g"):
        kinds = {(child.tag, child.get("class", "")) for child in group}
        tag, name = kinds.pop() if len(kinds) == 1 else ("", "")
        if tag == "use" and name and "class" not in group.attrib:
            group.set("class", name)
            for child in group:
                del child.attrib["class"]


def _state_styles_once(root: ElementTree.Element, prefix: str) -> None:
    """Styles that several elements have become classes, whose names carry the chart's prefix."""
    count = Counter(element.get("style", "") for element in root.iter())
    repeated = [style for style, elements in count.items() if style and elements > 1]
    classes = {style: f"{prefix}-{number}" for number, style in enumerate(repeated)}
    for element in root.iter():
        style = element.get("style", "")
        if style in classes:
            del element.attrib["style"]
            element.set("class", classes[style])
    rules = ElementTree.Element("style")
    rules.text = "".join(f".{name}{{{_compact(style)}}}" for style, name in classes.items())
    root.insert(0, rules)


def _compact(style: str) -> str:
    return style.replace("; ", ";").replace(": ", ":")


def _without_bare_groups(element: ElementTree.Element) -> list[ElementTree.Element]:
    """The element, or what is in it if it is a group that says nothing."""
    return list(element) if element.tag == "g" and not element.attrib else [element]


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _attribute(key: str, value: str, prefix: str) -> str:
    if key == "id":
        return f"{prefix}-{value}"
    if key == "href":
        return value.replace("#", f"#{prefix}-", 1)
    if key == "style":
        entries = (entry.strip() for entry in value.split(";"))
        kept = "; ".join(entry for entry in entries if not entry.startswith("font-family"))
        value = _COLOR.sub(lambda match: _VARIABLES.get(match[0], match[0]), kept)
    elif key in ("d", "x", "y", "transform"):
        value = _path(value) if key == "d" else _rounded(value)
    return value.replace("url(#", f"url(#{prefix}-")


def _path(commands: str) -> str:
    """A path without what may be left out: spaces at letters, zeros, a letter that repeats."""
    words, last = [], ""
    for word in _rounded(commands).split():
        if not (word == "L" == last):
            words.append(word)
        last = word if word.isalpha() else last
    return re.sub(r" ?([A-Za-z]) ?", r"\1", " ".join(words))


def _rounded(numbers: str) -> str:
    """Numbers to a tenth of a point, below 10 (the outlines of markers) to a hundredth."""
    short = _NUMBER.sub(lambda match: _short(float(match[0])), numbers)
    return " ".join(short.split())


def _short(x: float) -> str:
    return f"{round(x, 2 if abs(x) < 10 else 1) + 0.0:g}"  # 0, not −0
