"""A page as data: titles, sentences, facts, tables, verdicts and commands; charts are in `charts`.

A part says what is there, not how it looks. A cell of a table or a fact is None (missing), text, a
truth value, a number, an `Estimate` (a number with its uncertainty) or a `Verdict`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import SupportsFloat, cast

from unmask.arrays.checks import one_of
from unmask.report.charts import Chart, Panels, set_field, tuple_of
from unmask.report.format import printable

LEVELS = {"good": "✓", "info": "i", "warning": "!", "error": "✕"}
"""How serious a verdict is, with the sign that stands before its words."""


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
            raise ValueError(
                "an estimate has low and high, or an error, or neither; got "
                f"low {self.low}, high {self.high}, error {self.error}."
            )
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low must not exceed high; got {self.low} > {self.high}.")


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
        """Refuse unknown levels and judgements without words."""
        one_of(self.level, LEVELS, "level of a verdict")
        if not self.words:
            raise ValueError("a verdict needs words; its colour alone says nothing.")


Cell = str | SupportsFloat | Estimate | Verdict | None
"""What a cell of a table or a fact holds; truth values and numpy numbers are `SupportsFloat`."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    name : str
    format : str, default ""
        How its numbers are written, such as `.3f`; see `format.format_value`.
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

    def __post_init__(self) -> None:
        """Make the text printable and try the format."""
        set_field(self, "name", printable(self.name))
        set_field(self, "help", printable(self.help))
        try:
            format(1.5, self.format)
        except ValueError as error:
            raise ValueError(
                f"column {self.name!r} has the format {self.format!r}, which numbers do not take "
                f"({error})."
            ) from error


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
        rows = tuple(tuple(row) for row in self.rows)
        names = [column.name for column in columns]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"a table needs columns with different names; got {names}.")
        for index, row in enumerate(rows):
            if len(row) != len(columns):
                raise ValueError(
                    f"row {index} of table {self.title!r} has {len(row)} cells for "
                    f"{len(columns)} columns."
                )
        set_field(self, "columns", columns)
        set_field(self, "rows", rows)
        set_field(self, "title", printable(self.title))
        set_field(self, "caption", printable(self.caption))

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
    ('One.', 'Two.')
    """

    text: str

    @property
    def paragraphs(self) -> tuple[str, ...]:
        """The text, cut at empty lines."""
        pieces = printable(self.text).split("\n\n")
        return tuple(piece.strip() for piece in pieces if piece.strip())


@dataclass(frozen=True)
class Facts:
    """Names with one value each, shown large.

    Parameters
    ----------
    items : mapping, or iterable of pairs (name, cell)
        Kept as a tuple of pairs.

    Examples
    --------
    >>> Facts({"rows": 2515, "labels": 159}).items
    (('rows', 2515), ('labels', 159))
    """

    items: Mapping[str, Cell] | Iterable[tuple[str, Cell]]

    def __post_init__(self) -> None:
        """Bring mappings and lists to a tuple of pairs."""
        items = self.items.items() if isinstance(self.items, Mapping) else self.items
        pairs = tuple(tuple(pair) for pair in items)
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError(f"facts are pairs of a name and a value; got {pairs!r}.")
        set_field(self, "items", pairs)

    @property
    def pairs(self) -> tuple[tuple[str, Cell], ...]:
        """The items; facts keep them as pairs, even if they were made from a mapping."""
        return cast(tuple[tuple[str, Cell], ...], self.items)


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
        set_field(self, "verdicts", tuple_of(Verdict, self.verdicts, "verdicts"))


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
        """Bring the lines to a tuple of text."""
        if isinstance(self.lines, str):
            raise ValueError(f"commands are a list of lines; got the text {self.lines!r}.")
        set_field(self, "lines", tuple(printable(line) for line in self.lines))


Part = Text | Facts | Table | Verdicts | Commands | Chart | Panels
PARTS = (Text, Facts, Table, Verdicts, Commands, Chart, Panels)


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
        set_field(self, "title", printable(self.title))
        if not self.title.strip():
            raise ValueError("a section needs a title.")
        for index, part in enumerate(self.parts):
            if not isinstance(part, PARTS):
                names = ", ".join(kind.__name__ for kind in PARTS)
                raise ValueError(
                    f"part {index} of section {self.title!r} is {part!r}; use one of: {names}."
                )
        set_field(self, "parts", tuple(self.parts))


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
        set_field(self, "title", printable(self.title))
        set_field(self, "footer", printable(self.footer))
        if not self.title.strip():
            raise ValueError("a page needs a title.")
        if isinstance(self.summary, str):
            raise ValueError(f"the summary is a list of sentences; got {self.summary!r}.")
        set_field(self, "summary", tuple(printable(sentence) for sentence in self.summary))
        set_field(self, "sections", tuple_of(Section, self.sections, "sections of a page"))

    @property
    def drawings(self) -> tuple[Chart | Panels, ...]:
        """The charts and panels of all sections, in order."""
        parts = (part for section in self.sections for part in section.parts)
        return tuple(part for part in parts if isinstance(part, Chart | Panels))
