"""A page as data: sections of sentences, facts, tables, verdicts, commands and charts.

A part says what is there, not how it looks. A cell of a table or a fact is None (missing), text, a
truth value, a number, an `Estimate` (a number with its uncertainty) or a `Verdict`.

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
from typing import Any, ClassVar, SupportsFloat, TypeVar, cast, get_args

from unmask.arrays.checks import one_of

T = TypeVar("T")
Position = str | float

LEVELS = {"good": "✓", "info": "i", "warning": "!", "error": "✕"}
"""Levels of seriousness, with the sign that stands before the words of a verdict."""


@dataclass(frozen=True)
class Estimate:
    """A number with its uncertainty: an interval, a standard error, or neither.

    Parameters
    ----------
    value : float or None
        None if it is missing.
    low, high : float, optional
        The interval; both or neither.
    error : float, optional
        The standard error, instead of an interval.

    Examples
    --------
    >>> Estimate(0.42, low=0.40, high=0.44).high
    0.44
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    error: float | None = None

    def __post_init__(self) -> None:
        """Refuse half an interval, a crossed one, or two statements of uncertainty."""
        if (self.low is None) != (self.high is None) or (self.low is not None and self.error):
            raise ValueError(f"an estimate has low and high, or an error, or neither; got {self}.")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low must not exceed high; got {self}.")


@dataclass(frozen=True)
class Verdict:
    """A judgement: how serious, in words, why, and what to do.

    Parameters
    ----------
    level : str
        A name in `LEVELS`: good, info, warning or error.
    words : str
        The judgement; in a table only these words are shown.
    evidence : str, default ""
    advice : str, default ""
    badge : str, default ""
        What stands in the coloured badge of a list; by default the level.
    effect : str, default ""
        What was measured, in a few words; the evidence is then folded.

    Examples
    --------
    >>> Verdict("warning", "too uncertain", evidence="ESS 12", advice="use more rows").words
    'too uncertain'
    """

    level: str
    words: str
    evidence: str = ""
    advice: str = ""
    badge: str = ""
    effect: str = ""

    def __post_init__(self) -> None:
        """Refuse unknown levels."""
        one_of(self.level, LEVELS, "level of a verdict")


Cell = str | SupportsFloat | Estimate | Verdict | None
"""A cell of a table or a fact; truth values and numpy numbers are `SupportsFloat`."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    name : str
    format : str, default ""
        How its numbers are written, such as `.3f`; as in `format(number, ".3f")`.
    help : str, default ""
        What the column means; stands below the table.

    Examples
    --------
    >>> Column("R@5", ".1%").format
    '.1%'
    """

    name: str
    format: str = ""
    help: str = ""


Columns = Mapping[Column | str, str | Callable[[Any], Cell]]
"""The columns of a table of records: every column with a key of a record, or a function of it."""


@dataclass(frozen=True)
class Table:
    """A table; the first column names the rows.

    Parameters
    ----------
    columns : sequence of n Column or str
        With different names.
    rows : sequence of sequences of n cells
    title : str, default ""
    caption : str, default ""
        Stands below the table; text between `backticks` is set as code.

    Examples
    --------
    >>> rows = [["vanilla", Estimate(0.62, error=0.01)]]
    >>> Table(["estimator", Column("R@5", ".3f")], rows).heads[0].name
    'estimator'
    """

    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    caption: str = ""

    def __post_init__(self) -> None:
        """Bring columns and rows to tuples; refuse repeated names and rows of another length."""
        columns = tuple(c if isinstance(c, Column) else Column(c) for c in self.columns)
        names = [column.name for column in columns]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"a table needs columns with different names; got {names}.")
        for index, row in enumerate(self.rows):
            if len(row) != len(columns):
                raise ValueError(
                    f"row {index} of table {self.title!r} has {len(row)} cells for "
                    f"{len(columns)} columns."
                )
        _set(self, columns=columns, rows=tuple(map(tuple, self.rows)))

    @classmethod
    def of(
        cls,
        records: Iterable[Mapping[str, Any]],
        columns: Columns,
        title: str = "",
        caption: str = "",
    ) -> Table:
        """Return a table of records: a row for each, and in every column a value or a function.

        >>> rows = [{"metric": "R@5", "value": 0.5, "low": 0.4, "high": 0.6}]
        >>> Table.of(rows, {"name": "metric", "width": lambda row: row["high"] - row["low"]}).rows
        (('R@5', 0.19999999999999996),)
        """
        body = [
            [record[get] if isinstance(get, str) else get(record) for get in columns.values()]
            for record in records
        ]
        return cls(list(columns), body, title, caption)

    @property
    def heads(self) -> tuple[Column, ...]:
        """The columns; a table keeps them as `Column`, even if it was made from names."""
        return cast(tuple[Column, ...], self.columns)


@dataclass(frozen=True)
class Text:
    """Paragraphs.

    Parameters
    ----------
    text : str
        An empty line ends a paragraph; text between `backticks` is set as code.

    Examples
    --------
    >>> Text("One.\\n\\nTwo.").paragraphs
    ['One.', 'Two.']
    """

    text: str

    @property
    def paragraphs(self) -> list[str]:
        """The text, cut at empty lines."""
        return [piece.strip() for piece in self.text.split("\n\n") if piece.strip()]


@dataclass(frozen=True)
class Facts:
    """Names with one value each, shown large.

    Parameters
    ----------
    items : mapping of str to cell, or pairs of both

    Examples
    --------
    >>> Facts({"rows": 2515, "labels": 159}).items
    (('rows', 2515), ('labels', 159))
    """

    items: Mapping[str, Cell] | Iterable[tuple[str, Cell]]

    def __post_init__(self) -> None:
        """Bring mappings and lists to a tuple of pairs."""
        _set(self, items=tuple(dict(self.items).items()))


@dataclass(frozen=True)
class Verdicts:
    """Judgements with their evidence and advice, one below the other.

    Parameters
    ----------
    verdicts : sequence of Verdict

    Examples
    --------
    >>> len(Verdicts([Verdict("good", "masks look independent")]).verdicts)
    1
    """

    verdicts: Sequence[Verdict]

    def __post_init__(self) -> None:
        """Refuse what is no verdict."""
        _set(self, verdicts=_all(Verdict, self.verdicts, "verdicts"))


@dataclass(frozen=True)
class Commands:
    """Lines for a shell, to be copied.

    Parameters
    ----------
    lines : sequence of str

    Examples
    --------
    >>> Commands(["unmask demo"]).lines
    ('unmask demo',)
    """

    lines: Sequence[str]

    def __post_init__(self) -> None:
        """Bring the lines to a tuple."""
        _set(self, lines=tuple(self.lines))


# ------------------------------------------------------------------------------------- styles

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
    "circle": ("o", "●"),
    "square": ("s", "■"),
    "triangle": ("^", "▲"),
    "diamond": ("D", "◆"),
    "plus": ("P", "✚"),
    "cross": ("X", "✖"),
    "down": ("v", "▼"),
    "star": ("*", "★"),
    "none": ("", ""),
}
"""Markers by name: what matplotlib calls them, and the sign that legends show."""

DASHES = {"solid": "", "dashed": "5 2", "dotted": "1.2 1.6", "dashdot": "5 1.6 1.2 1.6"}
"""Line patterns as SVG writes them: lengths of ink and gap, in line widths."""


@dataclass(frozen=True)
class Style:
    """A colour, a marker and a line pattern.

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

_DEFAULTS = [
    Style(color, marker, dash)
    for dash, shift in (("solid", 0), ("dashed", 3), ("dotted", 5))
    for color, marker in zip(PALETTE, (list(MARKERS)[:8] * 2)[shift : shift + 8], strict=True)
]


# ------------------------------------------------------------------------------------- charts

_LARGEST = 1e100  # beyond it the arithmetic of axes overflows; such numbers are gaps


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
        ends = [end for end in (self.low, self.high) if end is not None]
        if not all(map(math.isfinite, ends)) or ends != sorted(set(ends)):
            raise ValueError(f"axis {self.label!r} must run from low to high; got {ends}.")
        if self.log and min(ends, default=1) <= 0:
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
        y, low, high = (
            _numbers(getattr(self, end), f"{end} of series {self.name!r}")
            for end in ("y", "low", "high")
        )
        x: tuple[Position | None, ...] = tuple(self.x)
        if not all(isinstance(each, str) for each in x):
            x = _numbers(cast(Sequence[float], x), f"x of series {self.name!r}")
        if None in x:
            raise ValueError(f"x of series {self.name!r} must be finite; got {self.x!r}.")
        if not y or len(low) != len(high) or len(low) not in (0, len(y)):
            raise ValueError(
                f"series {self.name!r} needs at least one y, and as many low and high or none; "
                f"got {len(y)} y, {len(low)} low, {len(high)} high."
            )
        for bottom, top in zip(low, high, strict=True):
            if bottom is not None and top is not None and bottom > top:
                raise ValueError(
                    f"low must not exceed high; series {self.name!r} has {bottom} > {top}."
                )
        _set(self, x=x, y=y, low=low, high=high)


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
        one_of(self.axis, ("x", "y"), "axis")
        if not math.isfinite(self.value):
            raise ValueError(f"rule {self.name!r} must lie at a finite number; got {self.value}.")


@dataclass(frozen=True)
class Note:
    """A bracket at x of a chart, from height y to another.

    Parameters
    ----------
    x, y, to : float

    Examples
    --------
    >>> Note(0.4, 1.0, to=2.0).to
    2.0
    """

    x: float
    y: float
    to: float


@dataclass(frozen=True)
class Chart:
    """One chart; the kinds are explained at the top of the module.

    Parameters
    ----------
    kind : str
        "lines", "dots" or "steps".
    series : sequence of Series
        At least one, with different names.
    title : str, default ""
    x, y : Axis or str, default ""
        The axes, or only their labels.
    rules : sequence of Rule, default ()
    notes : sequence of Note, default ()
    caption : str, default ""
        Stands below the chart; text between `backticks` is set as code.

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
    columns: ClassVar[int] = 1
    share_x: ClassVar[bool] = False
    share_y: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Bring axes and sequences to their types, and refuse series that the kind cannot show."""
        one_of(self.kind, NOUNS, "kind of chart")
        x, y = (axis if isinstance(axis, Axis) else Axis(axis) for axis in (self.x, self.y))
        series = _all(Series, self.series, "series of a chart")
        names = [each.name for each in series]
        if not names or len(set(names)) != len(names):
            raise ValueError(
                f"chart {self.title!r} needs series with different names; got {names}."
            )
        for each in series:
            _check(self.kind, each)
        by_name = self.kind == "dots"
        if by_name and (x.log or self.notes or any(rule.axis == "x" for rule in self.rules)):
            raise ValueError(
                f"x of a chart of dots are names: chart {self.title!r} has no place there for a "
                "logarithm, a rule or a note."
            )
        if x.log and not all(cast(float, place) > 0 for each in series for place in each.x):
            raise ValueError(f"the log axis {x.label!r} of chart {self.title!r} needs positive x.")
        if y.log and not any(height and height > 0 for each in series for height in each.y):
            raise ValueError(f"the log axis {y.label!r} of chart {self.title!r} has no positive y.")
        rules = _all(Rule, self.rules, "rules of a chart")
        _set(self, x=x, y=y, series=series, rules=rules, notes=tuple(self.notes))

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """The axes x and y; a chart keeps them as `Axis`, even if it was made from labels."""
        return cast(tuple[Axis, Axis], (self.x, self.y))

    @property
    def charts(self) -> tuple[Chart, ...]:
        """The chart itself, as `Panels.charts` are several."""
        return (self,)

    @property
    def names(self) -> tuple[Position, ...]:
        """The x of all series, each once, in order of appearance."""
        return tuple(dict.fromkeys(x for series in self.series for x in series.x))


NOUNS = {"lines": "line chart", "dots": "dot plot", "steps": "histogram"}
"""The kinds of chart, and what one is called."""


NEEDS = {
    "lines": "one number x per y",
    "dots": "one x per y, each once",
    "steps": "n + 1 rising edges x for n heights y",
}


def _check(kind: str, series: Series) -> None:
    """Refuse a series that a chart of this kind cannot show."""
    n, x = len(series.y), series.x
    numeric = not isinstance(x[0] if x else "", str)
    fits = {
        "lines": numeric and len(x) == n,
        "dots": len(x) == len(set(x)) == n,
        "steps": numeric and len(x) == n + 1 and list(x) == sorted(set(x)),
    }
    if not fits[kind]:
        raise ValueError(
            f"a {NOUNS[kind]} needs {NEEDS[kind]}; series {series.name!r} has {len(x)} x "
            f"({x[:1]!r} …) for {n} y."
        )


@dataclass(frozen=True)
class Panels:
    """Small multiples: several charts under one title and one legend.

    Parameters
    ----------
    charts : sequence of Chart
        At least one.
    title : str, default ""
    columns : int, default 2
        How many charts stand side by side, 1 to 4, if there are as many.
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
        charts = _all(Chart, self.charts, "charts of panels")
        if not charts or not 1 <= self.columns <= 4:
            raise ValueError(
                f"panels need at least one chart and 1 to 4 columns; got {len(charts)} charts in "
                f"{self.columns} columns."
            )
        _set(self, charts=charts, columns=min(self.columns, len(charts)))


Drawing = Chart | Panels


def styles_of(*drawings: Drawing) -> dict[str, Style]:
    """Return one style per name of a series or rule, the same in all drawings.

    Names whose series or rules carry a style have that one; two different ones are refused. The
    others get the next free style in order of appearance; colours that somebody chose come last.

    >>> ink = Style("ink")
    >>> chart = Chart("lines", [Series("a", [0], [1.0])], rules=[Rule("truth", 1.0, style=ink)])
    >>> {name: style.color for name, style in styles_of(chart).items()}
    {'a': 'blue', 'truth': 'ink'}
    """
    every: list[Series | Rule] = []
    for chart in (chart for drawing in drawings for chart in drawing.charts):
        every += [*chart.series, *chart.rules]
    chosen: dict[str, Style] = {}
    for each in every:
        if each.style is not None and chosen.setdefault(each.name, each.style) != each.style:
            raise ValueError(
                f"{each.name!r} has two styles, {chosen[each.name]} and {each.style}; a name has "
                "one style on a page."
            )
    used, colors = set(chosen.values()), {style.color for style in chosen.values()}
    free = [style for style in _DEFAULTS if style.color not in colors]
    free += [style for style in _DEFAULTS if style.color in colors and style not in used]
    names = dict.fromkeys(each.name for each in every)
    unstyled = [name for name in names if name not in chosen]
    assigned = {name: free[i % len(free)] for i, name in enumerate(unstyled)}
    return {name: chosen.get(name) or assigned[name] for name in names}


# -------------------------------------------------------------------------------------- pages

Part = Text | Facts | Table | Verdicts | Commands | Chart | Panels


@dataclass(frozen=True)
class Section:
    """A heading with the parts below it.

    Parameters
    ----------
    title : str
        Not empty.
    parts : sequence of Text, Facts, Table, Verdicts, Commands, Chart or Panels
    folded : bool, default False
        Whether it is closed until a reader opens it: details.

    Examples
    --------
    >>> Section("Data", [Text("All rows were read.")]).title
    'Data'
    """

    title: str
    parts: Sequence[Part]
    folded: bool = False

    def __post_init__(self) -> None:
        """Refuse an empty heading and what is no part of a page."""
        if not self.title.strip():
            raise ValueError("a section needs a title.")
        _set(self, parts=_all(Part, self.parts, f"parts of section {self.title!r}"))


@dataclass(frozen=True)
class Page:
    """A page.

    Parameters
    ----------
    title : str
        Not empty.
    summary : sequence of str, default ()
        Sentences; the first is the answer.
    sections : sequence of Section, default ()
    footer : str, default ""
        What made the page.

    Examples
    --------
    >>> page = Page("Study", summary=["It holds."], sections=[Section("Data", [Text("Few rows.")])])
    >>> page.summary
    ('It holds.',)
    """

    title: str
    summary: Sequence[str] = ()
    sections: Sequence[Section] = ()
    footer: str = ""

    def __post_init__(self) -> None:
        """Refuse an empty title, a summary that is one text, and what is no section."""
        if not self.title.strip():
            raise ValueError("a page needs a title.")
        if isinstance(self.summary, str):
            raise ValueError(f"the summary is a list of sentences; got {self.summary!r}.")
        sections = _all(Section, self.sections, "sections of a page")
        _set(self, summary=tuple(self.summary), sections=sections)

    @property
    def drawings(self) -> tuple[Drawing, ...]:
        """The charts and panels of all sections, in order."""
        parts = (part for section in self.sections for part in section.parts)
        return tuple(part for part in parts if isinstance(part, Drawing))


def _set(record: object, **values: object) -> None:
    """Set fields of a frozen dataclass while it is made."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


def _all(kind: Any, values: Iterable[T], noun: str) -> tuple[T, ...]:
    """Return `values` as a tuple, if all of them are of one kind, or of a union of kinds."""
    checked = tuple(values)
    for value in checked:
        if not isinstance(value, kind):
            names = ", ".join(each.__name__ for each in get_args(kind) or (kind,))
            raise ValueError(f"{noun} must be {names}; got {value!r}.")
    return checked


def _numbers(values: Iterable[float | None], noun: str) -> tuple[float | None, ...]:
    """Return floats, with None for what is missing or cannot be drawn."""
    try:
        numbers = [None if value is None else float(value) for value in values]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{noun} must be numbers ({error}).") from error
    return tuple(y if y is not None and abs(y) <= _LARGEST else None for y in numbers)
