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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar, cast

from unmask._validation import one_of
from unmask.report.format import printable
from unmask.report.styles import Style, assign_styles

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
    text: str
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
        for name, style in ((each.name, each.style) for each in (*chart.series, *chart.rules)):
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
