"""Charts as data: what is drawn, before anything is drawn.

A chart is a kind, some series and two axes. In every kind `x` is what was varied and `y` what was
measured, with `low` and `high` as its interval:

    lines   y over x; the interval is a band
    dots    one row per x (a name), y along the page with its interval
    steps   a histogram: n heights y between n + 1 edges x

A number that is not finite, or None, is missing: it leaves a gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, TypeVar, cast

from unmask.arrays.checks import one_of
from unmask.report.format import format_value, printable

Position = str | float
Numbers = tuple[float | None, ...]
T = TypeVar("T")

DRAWABLE = 1e100
"""Beyond it the arithmetic of axes overflows; such numbers are gaps, as infinities are."""


@dataclass(frozen=True)
class Axis:
    """An axis: its label, its scale and, where they should not follow the data, its ends.

    Parameters
    ----------
    label : str, default ""
        What the axis shows.
    log : bool, default False
        Whether the scale is logarithmic.
    low, high : float, optional
        The ends; by default those of the data.

    Examples
    --------
    >>> Axis("propensity", log=True).label
    'propensity'
    """

    label: str = ""
    log: bool = False
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        """Refuse ends that are no interval, or that a logarithm cannot show."""
        set_field(self, "label", printable(self.label))
        ends = [end for end in (self.low, self.high) if end is not None]
        if not all(math.isfinite(end) for end in ends) or ends != sorted(set(ends)):
            raise ValueError(f"axis {self.label!r} must run from low to high; got {ends}.")
        if self.log and any(end <= 0 for end in ends):
            raise ValueError(f"the log axis {self.label!r} needs positive ends; got {ends}.")


@dataclass(frozen=True)
class Series:
    """A named sequence of points (x, y), each with an interval [low, high] if there is one.

    Parameters
    ----------
    name : str
        The name in the legend. Series of the same name have the same style on a whole page.
    x : sequence of n numbers or n str
        Positions; n + 1 edges for a chart of kind `steps`.
    y : sequence of n numbers
        Values; None, NaN and infinities leave a gap.
    low, high : sequence of n numbers, optional
        Both or neither.
    style : Style, optional
        By default the next free style of the drawing or page.

    Examples
    --------
    >>> Series("vanilla", [1, 2], [0.3, float("nan")]).y
    (0.3, None)
    """

    name: str
    x: Sequence[Position]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    style: Style | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Bring everything to tuples of text or floats, and refuse what does not fit together."""
        set_field(self, "name", printable(self.name))
        set_field(self, "x", _positions(self.x, f"x of series {self.name!r}"))
        for name in ("y", "low", "high"):
            values = _numbers(getattr(self, name), f"{name} of series {self.name!r}")
            set_field(self, name, values)
        sizes = {len(self.y), *(len(ends) for ends in (self.low, self.high) if ends)}
        if not self.y or len(sizes) > 1 or bool(self.low) != bool(self.high):
            raise ValueError(
                f"series {self.name!r} needs at least one y, and as many low and high or none; "
                f"got {len(self.y)} y, {len(self.low)} low, {len(self.high)} high."
            )
        _refuse_crossing(self.name, self.low, self.high)


@dataclass(frozen=True)
class Rule:
    """A dashed line across the chart at one value of an axis.

    Parameters
    ----------
    name : str
        The name in the legend; a rule named like a series has its style.
    value : float
        Where the line is: on `y` a measured value (a target, a truth), on `x` a mean, say.
    axis : "x" or "y", default "y"
    style : Style, optional
        By default the next free style of the drawing or page.

    Examples
    --------
    >>> Rule("truth", 0.5).axis
    'y'
    """

    name: str
    value: float
    axis: str = "y"
    style: Style | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse an unknown axis and a value that is no number."""
        set_field(self, "name", printable(self.name))
        one_of(self.axis, ("x", "y"), "axis")
        if _numbers([self.value], f"rule {self.name!r}") == (None,):
            raise ValueError(f"rule {self.name!r} must lie at a finite number; got {self.value}.")


@dataclass(frozen=True)
class Note:
    """Text at a point of a chart.

    Parameters
    ----------
    x, y : float
        The point.
    text : str
    to : float, optional
        Draws a bracket from `y` to this height beside the text.

    Examples
    --------
    >>> Note(0.4, 1.0, "noise", to=2.0).to
    2.0
    """

    x: float
    y: float
    text: str = ""
    to: float | None = None

    def __post_init__(self) -> None:
        """Replace characters that cannot be printed."""
        set_field(self, "text", printable(self.text))


@dataclass(frozen=True)
class Chart:
    """One chart; the kinds are explained at the top of the module.

    Parameters
    ----------
    kind : str
        A name in `KINDS`.
    series : sequence of Series
        At least one, with different names.
    title : str, default ""
    x, y : Axis or str, default ""
        The axes, or only their labels.
    rules : sequence of Rule, default ()
    notes : sequence of Note, default ()
    caption : str, default ""
        Stands below the chart; text between `backticks` is set as code.
    description : str, default ""
        Alt text instead of the one made from the data.

    Examples
    --------
    >>> chart = Chart("lines", [Series("unbiased", [0.1, 1.0], [0.9, 0.5])],
    ...               title="Recall", x="propensity", y="R@5")
    >>> chart.x.label
    'propensity'
    """

    kind: str
    series: Sequence[Series]
    title: str = ""
    x: Axis | str = ""
    y: Axis | str = ""
    rules: Sequence[Rule] = ()
    notes: Sequence[Note] = ()
    caption: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        """Bring axes and sequences to their types, and refuse series that the kind cannot show."""
        for name in ("title", "caption", "description"):
            set_field(self, name, printable(getattr(self, name)))
        for name in ("x", "y"):
            axis = getattr(self, name)
            set_field(self, name, axis if isinstance(axis, Axis) else Axis(axis))
        set_field(self, "series", tuple_of(Series, self.series, "series of a chart"))
        set_field(self, "rules", tuple_of(Rule, self.rules, "rules of a chart"))
        set_field(self, "notes", tuple_of(Note, self.notes, "notes of a chart"))
        one_of(self.kind, KINDS, "kind of chart")
        names = [series.name for series in self.series]
        if not names or len(set(names)) != len(names):
            raise ValueError(
                f"chart {self.title!r} needs series with different names; got {names}."
            )
        for series in self.series:
            KINDS[self.kind](series)
        _refuse_misplaced(self)


@dataclass(frozen=True)
class Panels:
    """Small multiples: several charts under one title and one legend.

    Parameters
    ----------
    charts : sequence of Chart
        At least one.
    title : str, default ""
    columns : int, default 2
        How many charts stand side by side, 1 to 4.
    share_x, share_y : bool, default False
        Whether the axes have the same ends in all charts.
    caption : str, default ""

    Examples
    --------
    >>> part = Chart("dots", [Series("a", ["x"], [1.0])], title="first")
    >>> len(Panels([part, part], title="Both", share_y=True).charts)
    2
    """

    charts: Sequence[Chart]
    title: str = ""
    columns: int = 2
    share_x: bool = False
    share_y: bool = False
    caption: str = ""

    def __post_init__(self) -> None:
        """Refuse panels without charts or columns."""
        set_field(self, "charts", tuple_of(Chart, self.charts, "charts of panels"))
        set_field(self, "title", printable(self.title))
        set_field(self, "caption", printable(self.caption))
        if not self.charts or not 1 <= self.columns <= 4:
            raise ValueError(
                f"panels need at least one chart and 1 to 4 columns; got {len(self.charts)} "
                f"charts in {self.columns} columns."
            )


Drawing = Chart | Panels


def axes_of(chart: Chart) -> tuple[Axis, Axis]:
    """Return the axes x and y; a chart keeps them as `Axis`, even if it was made from labels."""
    return cast(tuple[Axis, Axis], (chart.x, chart.y))


def charts_of(drawing: Drawing) -> tuple[Chart, ...]:
    """The charts in a drawing: itself, or its panels."""
    return tuple(drawing.charts) if isinstance(drawing, Panels) else (drawing,)


def categories(chart: Chart) -> tuple[Position, ...]:
    """The x of all series, each once, in order of appearance.

    >>> categories(Chart("dots", [Series("a", ["P"], [1.0]), Series("b", ["P", "R"], [2.0, 1.0])]))
    ('P', 'R')
    """
    return tuple(dict.fromkeys(x for series in chart.series for x in series.x))


def kinds_of(drawing: Drawing, name: str) -> frozenset[str]:
    """The kinds of the charts that have a series of this name; empty if only rules have it.

    >>> sorted(kinds_of(Chart("dots", [Series("a", ["x"], [1.0])]), "a"))
    ['dots']
    """
    return frozenset(
        chart.kind for chart in charts_of(drawing) for series in chart.series if series.name == name
    )


def legend_names(drawing: Drawing) -> tuple[str, ...]:
    """The names that need a legend: of series and rules that nothing in the chart names already.

    >>> legend_names(Chart("dots", [Series("a", ["a"], [1.0]), Series("b", ["b"], [2.0])]))
    ()
    >>> legend_names(Chart("dots", [Series("a", ["x"], [1.0]), Series("b", ["x"], [2.0])]))
    ()
    >>> legend_names(Chart("lines", [Series("a", [0], [1.0]), Series("b", [0], [2.0])]))
    ('a', 'b')
    """
    names: dict[str, None] = {}
    if direct_names(drawing):
        return ()
    for chart in charts_of(drawing):
        own = {s.name for s in chart.series if chart.kind == "dots" and set(s.x) == {s.name}}
        every = [*(s.name for s in chart.series), *(rule.name for rule in chart.rules)]
        names.update(dict.fromkeys(name for name in every if name not in own))
    has_rules = any(rule.name in names for chart in charts_of(drawing) for rule in chart.rules)
    return () if len(names) == 1 and not has_rules else tuple(names)


DIRECT = 4
"""So many names may stand beside their dots; more are easier to find in a legend."""


def direct_names(drawing: Drawing) -> tuple[str, ...]:
    """The names that are written beside the dots of the first row, so that no legend is needed.

    That is where a chart of dots stands alone, without rules, and each of its few series has a dot
    there, within the axis.

    >>> direct_names(Chart("dots", [Series("a", ["x"], [1.0]), Series("b", ["x"], [2.0])]))
    ('a', 'b')
    >>> direct_names(Chart("dots", [Series("a", ["x"], [1.0]), Series("b", ["y"], [2.0])]))
    ()
    """
    if isinstance(drawing, Panels) or drawing.kind != "dots" or drawing.rules:
        return ()
    first, axis = categories(drawing)[0], axes_of(drawing)[1]
    firsts = [s.y[s.x.index(first)] if first in s.x else None for s in drawing.series]
    low, high = (
        -math.inf if axis.low is None else axis.low,
        math.inf if axis.high is None else axis.high,
    )
    beside = all(y is not None and low <= y <= high for y in firsts)
    return tuple(s.name for s in drawing.series) if beside and 1 < len(firsts) <= DIRECT else ()


def styles_of(*drawings: Drawing) -> dict[str, Style]:
    """One style per name of a series or rule, the same in all `drawings`.

    Names whose series or rules carry a style have that one; two different ones are refused. The
    others get the next free style, in order of appearance (`styles.assign_styles`).

    >>> ink = Style("ink")
    >>> chart = Chart("lines", [Series("a", [0], [1.0])], rules=[Rule("truth", 1.0, style=ink)])
    >>> {name: style.color for name, style in styles_of(chart).items()}
    {'a': 'blue', 'truth': 'ink'}
    """
    names: list[str] = []
    chosen: dict[str, Style] = {}
    for chart in (chart for drawing in drawings for chart in charts_of(drawing)):
        pairs = [(s.name, s.style) for s in chart.series] + [(r.name, r.style) for r in chart.rules]
        for name, style in pairs:
            names.append(name)
            if style is not None and chosen.setdefault(name, style) != style:
                raise ValueError(
                    f"{name!r} has two styles, {chosen[name]} and {style}; a name has one style "
                    "on a page."
                )
    return assign_styles(names, chosen)


def tuple_of(kind: type[T], values: Iterable[T], noun: str) -> tuple[T, ...]:
    """`values` as a tuple, if all of them are of one kind; the message calls them `noun`.

    >>> tuple_of(int, [1, 2], "rows")
    (1, 2)
    """
    checked = tuple(values)
    for index, value in enumerate(checked):
        if not isinstance(value, kind):
            raise ValueError(f"{noun} must be {kind.__name__}; got {value!r} at place {index}.")
    return checked


def set_field(record: object, name: str, value: object) -> None:
    """Set a field of a frozen dataclass while it is made."""
    object.__setattr__(record, name, value)


def _positions(values: Iterable[Position], noun: str) -> tuple[Position, ...]:
    """All names or all finite numbers."""
    positions = list(values)
    if positions and all(isinstance(x, str) for x in positions):
        return tuple(printable(x) for x in positions)
    numbers = _numbers(cast(list[float], positions), noun)
    if None in numbers:
        raise ValueError(f"{noun} must be finite; got {positions[numbers.index(None)]!r}.")
    return cast(tuple[float, ...], numbers)


def _numbers(values: Iterable[float | None], noun: str) -> Numbers:
    try:
        numbers = [None if value is None else float(value) for value in values]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{noun} must be numbers ({error}).") from error
    return tuple(y if y is not None and abs(y) <= DRAWABLE else None for y in numbers)


def _refuse_crossing(name: str, low: Sequence[float | None], high: Sequence[float | None]) -> None:
    for index, (bottom, top) in enumerate(zip(low, high, strict=True)):
        if bottom is not None and top is not None and bottom > top:
            raise ValueError(
                f"low must not exceed high; series {name!r} has {bottom} > {top} at place {index}."
            )


def _refuse_misplaced(chart: Chart) -> None:
    """Refuse scales, rules and notes that this kind of chart cannot show."""
    x, y = axes_of(chart)
    by_name = chart.kind == "dots"
    if by_name and (x.log or any(rule.axis == "x" for rule in chart.rules) or chart.notes):
        raise ValueError(
            f"x of a chart of dots are names: chart {chart.title!r} has no place there for a "
            "logarithm, a rule or a note."
        )
    if x.log and not all(place > 0 for series in chart.series for place in numeric_x(series)):
        raise ValueError(f"the log axis {x.label!r} of chart {chart.title!r} needs positive x.")
    if y.log and not any(height and height > 0 for s in chart.series for height in s.y):
        raise ValueError(f"the log axis {y.label!r} of chart {chart.title!r} has no positive y.")


def numeric_x(series: Series) -> tuple[float, ...]:
    """The x of a series in a chart whose kind admits only numbers there."""
    return cast(tuple[float, ...], series.x)


def _check_points(series: Series) -> None:
    if len(series.x) != len(series.y) or isinstance(series.x[0], str):
        raise ValueError(
            f"a line needs one number x per y; series {series.name!r} has "
            f"{len(series.x)} x ({series.x[:1]!r} …) for {len(series.y)} y."
        )


def _check_categories(series: Series) -> None:
    if len(series.x) != len(series.y) or len(set(series.x)) != len(series.x):
        raise ValueError(
            f"dots need one x per y, each once; series {series.name!r} has "
            f"{len(set(series.x))} different x for {len(series.y)} y."
        )


def _check_edges(series: Series) -> None:
    edges = numeric_x(series)
    rising = all(a < b for a, b in pairwise(edges))
    if len(series.x) != len(series.y) + 1 or isinstance(series.x[0], str) or not rising:
        raise ValueError(
            f"a histogram needs n + 1 rising edges x for n heights y; series {series.name!r} has "
            f"{len(series.x)} for {len(series.y)}."
        )


KINDS: dict[str, Callable[[Series], None]] = {
    "lines": _check_points,
    "dots": _check_categories,
    "steps": _check_edges,
}
"""The kinds of chart, each with the check of a series."""


THEME = {
    "paper": ("#ffffff", "#12161c"),
    "soft": ("#f4f6f8", "#1a2029"),
    "line": ("#d9dfe6", "#313b47"),
    "muted": ("#596573", "#9ba7b5"),
    "ink": ("#1d2733", "#e8ecf1"),
}
"""Colours of the page itself: (on a light page, on a dark page)."""

PALETTE = {
    "blue": ("#0468b0", "#4996ea"),
    "orange": ("#d07e0e", "#eda62a"),
    "green": ("#13946d", "#30c390"),
    "vermilion": ("#c3360c", "#f06a3a"),
    "purple": ("#aa4184", "#cb85bb"),
    "sky": ("#1d9adf", "#8fd2fe"),
    "olive": ("#6a6b41", "#dad46d"),
    "gray": ("#8290a3", "#85888c"),
}
"""Colours of series: (on a light page, on a dark page)."""

MARKERS = {
    "circle": "o",
    "square": "s",
    "triangle": "^",
    "diamond": "D",
    "plus": "P",
    "cross": "X",
    "down": "v",
    "star": "*",
    "none": "",
}
"""Markers by name, and what matplotlib calls them."""

DASHES = {
    "solid": "",
    "dashed": "5 2",
    "dotted": "1.2 1.6",
    "dashdot": "5 1.6 1.2 1.6",
}
"""Line patterns as SVG writes them: lengths of ink and gap, in line widths."""


@dataclass(frozen=True)
class Style:
    """How a series is drawn.

    Parameters
    ----------
    color : str
        A name in `PALETTE`, or "ink" (the colour of text).
    marker : str, default "none"
        A name in `MARKERS`.
    dash : str, default "solid"
        A name in `DASHES`.

    Examples
    --------
    >>> Style("blue", "circle").dash
    'solid'
    >>> Style("red")
    Traceback (most recent call last):
    ValueError: unknown color 'red'; use one of: blue, gray, green, ink, olive, orange, purple,
    sky, vermilion.
    """

    color: str
    marker: str = "none"
    dash: str = "solid"

    def __post_init__(self) -> None:
        """Refuse names that the tables above do not have."""
        one_of(self.color, [*PALETTE, "ink"], "color")
        one_of(self.marker, MARKERS, "marker")
        one_of(self.dash, DASHES, "dash")

    @property
    def hex(self) -> str:
        """The colour on a light page."""
        return {**PALETTE, **THEME}[self.color][0]


Styles = Mapping[str, Style]
"""The style of every name in a drawing or on a page."""


def assign_styles(names: Iterable[str], chosen: Styles | None = None) -> dict[str, Style]:
    """A style for every name: the chosen one, or the next free one in order of appearance.

    Parameters
    ----------
    names : iterable of str
        Names of series and rules; repeated names count once.
    chosen : mapping of str to Style, optional
        Styles of some names. Other names get these colours only when no other is left.

    Returns
    -------
    dict of str to Style
        One entry per name, in order of appearance; it depends on the arguments alone.

    Examples
    --------
    >>> styles = assign_styles(["a", "truth", "b"], {"truth": Style("ink")})
    >>> {name: style.color for name, style in styles.items()}
    {'a': 'blue', 'truth': 'ink', 'b': 'orange'}
    """
    chosen = chosen or {}
    unique = list(dict.fromkeys(names))
    used = {chosen[name] for name in unique if name in chosen}
    used_colors = {style.color for style in used}
    unused_colors = [style for style in _DEFAULTS if style.color not in used_colors]
    others = [style for style in _DEFAULTS if style not in {*unused_colors, *used}]
    free = [*unused_colors, *others] or _DEFAULTS
    unstyled = [name for name in unique if name not in chosen]
    assigned = {name: free[i % len(free)] for i, name in enumerate(unstyled)}
    return {name: chosen.get(name) or assigned[name] for name in unique}


_DEFAULTS = [
    Style(color, marker, dash)
    for dash, shift in (("solid", 0), ("dashed", 3), ("dotted", 5))
    for color, marker in zip(
        PALETTE, (list(MARKERS)[:8] * 2)[shift : shift + len(PALETTE)], strict=True
    )
]


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
