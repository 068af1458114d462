"""Charts as data: what is drawn, before anything is drawn.

A chart is a kind, some series and two axes. In every kind `x` is what was varied and `y` what was
measured, with `low` and `high` as its interval:

    lines   y over x; the interval is a band
    dots    one row per x (a name), y along the page with its interval
    bars    one group per x (a name), y as height
    steps   a histogram: n heights y between n + 1 edges x
    heat    a grid: one row per series (its name), one column per x, y as colour

A number that is not finite, or None, is missing: it leaves a gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from unmask._validation import one_of
from unmask.report.format import clean, say

Numbers = tuple[float | None, ...]

DRAWABLE = 1e100
"""Beyond it the arithmetic of axes overflows; such numbers are gaps, as infinities are."""


@dataclass(frozen=True)
class Axis:
    """An axis: its label, its scale and, where they should not follow the data, its ends.

    `center` (of the colours of a `heat` chart) is the value at which two colours part.

    >>> Axis("propensity", log=True).label
    'propensity'
    """

    label: str = ""
    log: bool = False
    low: float | None = None
    high: float | None = None
    center: float | None = None

    def __post_init__(self) -> None:
        """Refuse ends that are no interval, or that a logarithm cannot show."""
        _set(self, "label", clean(self.label))
        ends = [end for end in (self.low, self.high) if end is not None]
        if not all(math.isfinite(end) for end in ends) or ends != sorted(set(ends)):
            raise ValueError(f"axis {self.label!r} must run from low to high; got {ends}.")
        if self.log and any(end <= 0 for end in ends):
            raise ValueError(f"the log axis {self.label!r} needs positive ends; got {ends}.")


@dataclass(frozen=True)
class Series:
    """A named sequence of points (x, y), each with an interval [low, high] if there is one.

    >>> Series("vanilla", [1, 2], [0.3, float("nan")]).y
    (0.3, None)
    """

    name: str
    x: Sequence[Any]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()

    def __post_init__(self) -> None:
        """Bring everything to tuples of text or floats, and refuse what does not fit together."""
        _set(self, "name", clean(self.name))
        _set(self, "x", _positions(self.x, f"x of series {self.name!r}"))
        for field in ("y", "low", "high"):
            _set(self, field, _numbers(getattr(self, field), f"{field} of series {self.name!r}"))
        sizes = {len(self.y), *(len(ends) for ends in (self.low, self.high) if ends)}
        if not self.y or len(sizes) > 1 or bool(self.low) != bool(self.high):
            raise ValueError(
                f"series {self.name!r} needs at least one y, and as many low and high or none; "
                f"got {len(self.y)} y, {len(self.low)} low, {len(self.high)} high."
            )
        _refuse_crossing(self.name, self.low, self.high)


@dataclass(frozen=True)
class Rule:
    """A dashed line across the chart at one value of an axis, in the look of series `name`.

    On `y` it lies at a measured value (a target, a truth); on `x` it can mark a mean.

    >>> Rule("truth", 0.5).axis
    'y'
    """

    name: str
    at: float
    axis: str = "y"

    def __post_init__(self) -> None:
        """Refuse an unknown axis and a place that is no number."""
        _set(self, "name", clean(self.name))
        one_of(self.axis, ("x", "y"), "axis")
        if _numbers([self.at], f"rule {self.name!r}") == (None,):
            raise ValueError(f"rule {self.name!r} must lie at a finite number; got {self.at}.")


@dataclass(frozen=True)
class Note:
    """Words at a point of the chart; with `to`, a bracket from y to that height beside them.

    In a `heat` chart x and y name a column and a row, and the note is a ring around the cell.

    >>> Note(0.4, 1.0, "noise", to=2.0).to
    2.0
    """

    x: float | str
    y: float | str
    text: str = ""
    to: float | None = None

    def __post_init__(self) -> None:
        """Clean the words."""
        _set(self, "text", clean(self.text))


@dataclass(frozen=True)
class Chart:
    """One chart; see the module for its kinds. `description` replaces the one made from the data.

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
    color: Axis | str = ""
    rules: Sequence[Rule] = ()
    notes: Sequence[Note] = ()
    caption: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        """Bring axes and sequences to their types, and refuse series that the kind cannot show."""
        for field in ("title", "caption", "description"):
            _set(self, field, clean(getattr(self, field)))
        for field in ("x", "y", "color"):
            given = getattr(self, field)
            _set(self, field, given if isinstance(given, Axis) else Axis(given))
        for field, kind in (("series", Series), ("rules", Rule), ("notes", Note)):
            _set(self, field, only(kind, getattr(self, field), f"{field} of a chart"))
        one_of(self.kind, KINDS, "kind of chart")
        names = [one.name for one in self.series]
        if not names or len(set(names)) != len(names):
            raise ValueError(
                f"chart {self.title!r} needs series with different names; got {names}."
            )
        for one in self.series:
            KINDS[self.kind](one, self.series[0])
        _refuse_what_is_not_drawn(self)


@dataclass(frozen=True)
class Panels:
    """Small multiples: several charts under one title and one legend, on common axes if wished.

    >>> part = Chart("bars", [Series("a", ["x"], [1.0])], title="first")
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
        _set(self, "charts", only(Chart, self.charts, "charts of panels"))
        _set(self, "title", clean(self.title))
        _set(self, "caption", clean(self.caption))
        if not self.charts or not 1 <= self.columns <= 4:
            raise ValueError(
                f"panels need at least one chart and 1 to 4 columns; got {len(self.charts)} "
                f"charts in {self.columns} columns."
            )


def axes_of(chart: Chart) -> tuple[Axis, Axis, Axis]:
    """The axes x, y and color, as which a chart keeps what it was given."""
    found = (chart.x, chart.y, chart.color)
    return cast(tuple[Axis, Axis, Axis], found)


def charts_of(drawing: Chart | Panels) -> tuple[Chart, ...]:
    """The charts in a drawing: itself, or its panels."""
    return tuple(drawing.charts) if isinstance(drawing, Panels) else (drawing,)


def only(kind: type, given: Iterable[Any], what: str) -> tuple[Any, ...]:
    """`given` as a tuple, if everything in it is of one kind."""
    found = tuple(given)
    for at, one in enumerate(found):
        if not isinstance(one, kind):
            raise ValueError(f"{what} must be {kind.__name__}; got {one!r} at place {at}.")
    return found


def _set(record: Any, field: str, value: Any) -> None:
    object.__setattr__(record, field, value)


def _positions(given: Iterable[Any], what: str) -> tuple[Any, ...]:
    """All names or all finite numbers."""
    found = list(given)
    if found and all(isinstance(x, str) for x in found):
        return tuple(clean(x) for x in found)
    numbers = _numbers(found, what)
    if None in numbers:
        raise ValueError(f"{what} must be finite; got {found[numbers.index(None)]!r}.")
    return numbers


def _numbers(given: Iterable[Any], what: str) -> Numbers:
    try:
        found = [None if y is None else float(y) for y in given]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be numbers ({error}).") from error
    return tuple(y if y is not None and abs(y) <= DRAWABLE else None for y in found)


def _refuse_crossing(name: str, low: Sequence[float | None], high: Sequence[float | None]) -> None:
    for at, (bottom, top) in enumerate(zip(low, high, strict=True)):
        if bottom is not None and top is not None and bottom > top:
            raise ValueError(
                f"low must not exceed high; series {name!r} has {bottom} > {top} at place {at}."
            )


def _refuse_what_is_not_drawn(chart: Chart) -> None:
    """Scales, rules and notes that make no sense in this kind of chart."""
    x, y, _ = axes_of(chart)
    kind, named = chart.kind, chart.kind in ("dots", "bars", "heat")
    if (x.log and named) or (y.log and kind in ("bars", "heat")):
        raise ValueError(f"a chart of kind {kind!r} has no log axis there; use dots or lines.")
    if any(kind == "heat" or (named and rule.axis == "x") for rule in chart.rules):
        raise ValueError(f"a chart of kind {kind!r} has no place for a rule on that axis.")
    if x.log and not all(place > 0 for one in chart.series for place in one.x):
        raise ValueError(f"the log axis {x.label!r} of chart {chart.title!r} needs positive x.")
    if y.log and not any(height and height > 0 for one in chart.series for height in one.y):
        raise ValueError(f"the log axis {y.label!r} of chart {chart.title!r} has no positive y.")
    for note in chart.notes:
        _refuse_lost_note(chart, note)


def _refuse_lost_note(chart: Chart, note: Note) -> None:
    numbers = not isinstance(note.x, str) and not isinstance(note.y, str)
    columns, names = (say(x) for x in chart.series[0].x), (one.name for one in chart.series)
    in_a_cell = say(note.x) in columns and say(note.y) in names
    if not (in_a_cell if chart.kind == "heat" else numbers and chart.kind in ("lines", "steps")):
        raise ValueError(
            f"a note stands at numbers in lines and steps, or in a cell of a heat chart; "
            f"{note.x!r}, {note.y!r} is no such place in chart {chart.title!r}."
        )


def _needs_numbers(series: Series, first: Series) -> None:
    if len(series.x) != len(series.y) or isinstance(series.x[0], str):
        raise ValueError(
            f"a line needs one number x per y; series {series.name!r} has "
            f"{len(series.x)} x ({series.x[:1]!r} …) for {len(series.y)} y."
        )


def _needs_categories(series: Series, first: Series) -> None:
    if len(series.x) != len(series.y) or len(set(series.x)) != len(series.x):
        raise ValueError(
            f"dots and bars need one x per y, each once; series {series.name!r} has "
            f"{len(set(series.x))} different x for {len(series.y)} y."
        )


def _needs_edges(series: Series, first: Series) -> None:
    rising = all(a < b for a, b in zip(series.x, series.x[1:], strict=False))
    if len(series.x) != len(series.y) + 1 or isinstance(series.x[0], str) or not rising:
        raise ValueError(
            f"a histogram needs n + 1 rising edges x for n heights y; series {series.name!r} has "
            f"{len(series.x)} for {len(series.y)}."
        )


def _needs_a_grid(series: Series, first: Series) -> None:
    if len(series.x) != len(series.y) or series.x != first.x or series.low:
        raise ValueError(
            "a heat chart needs the same x in every series, one y each and no intervals; series "
            f"{series.name!r} differs from {first.name!r}."
        )


KINDS: dict[str, Callable[[Series, Series], None]] = {
    "lines": _needs_numbers,
    "dots": _needs_categories,
    "bars": _needs_categories,
    "steps": _needs_edges,
    "heat": _needs_a_grid,
}
"""The kinds of chart, each with the check that its series pass."""
