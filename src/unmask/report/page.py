"""A page as data: titles, sentences, facts, tables, verdicts and commands; charts are in `charts`.

A part says what is there, not how it looks. A cell of a table or a fact is None (missing), text, a
truth value, a number, an `Estimate` (a number with its uncertainty) or a `Verdict`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from unmask._validation import one_of
from unmask.report.charts import Chart, Panels, only
from unmask.report.format import clean

LEVELS = {"good": "✓", "info": "i", "warning": "!", "error": "✕"}
"""How serious a verdict is, with the sign that stands before its words."""


@dataclass(frozen=True)
class Estimate:
    """A number with its uncertainty: an interval [low, high] or a standard error, or neither.

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
                f"low={self.low}, high={self.high}, error={self.error}."
            )
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low must not exceed high; got {self.low} > {self.high}.")


@dataclass(frozen=True)
class Verdict:
    """A judgement in words: `level` good, info, warning or error, why, and what to do.

    In a table only the words are shown, so that they must say it all.

    >>> Verdict("warning", "too uncertain", evidence="ESS 12", advice="use more rows").words
    'too uncertain'
    """

    level: str
    words: str
    evidence: str = ""
    advice: str = ""

    def __post_init__(self) -> None:
        """Refuse unknown levels and judgements without words."""
        one_of(self.level, LEVELS, "level of a verdict")
        if not self.words:
            raise ValueError("a verdict needs words; its colour alone says nothing.")


Cell = Any
"""None, str, bool, int, float, `Estimate` or `Verdict`."""


@dataclass(frozen=True)
class Column:
    """A column's name, how its numbers are written (a format such as `.3f`), and its meaning.

    >>> Column("R@5", ".1%").format
    '.1%'
    """

    name: str
    format: str = ""
    help: str = ""

    def __post_init__(self) -> None:
        """Clean the words and try the format."""
        _set(self, "name", clean(self.name))
        _set(self, "help", clean(self.help))
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
        for at, row in enumerate(rows):
            if len(row) != len(columns):
                raise ValueError(
                    f"row {at} of table {self.title!r} has {len(row)} cells for "
                    f"{len(columns)} columns."
                )
        _set(self, "columns", columns)
        _set(self, "rows", rows)
        _set(self, "title", clean(self.title))
        _set(self, "caption", clean(self.caption))

    @property
    def heads(self) -> tuple[Column, ...]:
        """The columns, as which a table keeps what it was given."""
        return cast(tuple[Column, ...], self.columns)


@dataclass(frozen=True)
class Text:
    """Paragraphs, parted by an empty line; words between `backticks` are set as code.

    >>> Text("One.\\n\\nTwo.").paragraphs
    ('One.', 'Two.')
    """

    text: str

    @property
    def paragraphs(self) -> tuple[str, ...]:
        """The text, cut at empty lines."""
        pieces = clean(self.text).split("\n\n")
        return tuple(piece.strip() for piece in pieces if piece.strip())


@dataclass(frozen=True)
class Facts:
    """Names with one value each, shown large; a mapping or pairs.

    >>> Facts({"rows": 2515, "labels": 159}).items
    (('rows', 2515), ('labels', 159))
    """

    items: Any

    def __post_init__(self) -> None:
        """Bring mappings and lists to a tuple of pairs."""
        pairs = self.items.items() if hasattr(self.items, "items") else self.items
        pairs = tuple(tuple(pair) for pair in pairs)
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError(f"facts are pairs of a name and a value; got {pairs!r}.")
        _set(self, "items", pairs)


@dataclass(frozen=True)
class Verdicts:
    """Judgements with their evidence and advice, one below the other.

    >>> len(Verdicts([Verdict("good", "masks look independent")]).verdicts)
    1
    """

    verdicts: Sequence[Verdict]

    def __post_init__(self) -> None:
        """Refuse what is no verdict."""
        _set(self, "verdicts", only(Verdict, self.verdicts, "verdicts"))


@dataclass(frozen=True)
class Commands:
    """Lines for a shell, to be copied.

    >>> Commands(["unmask demo"]).lines
    ('unmask demo',)
    """

    lines: Sequence[str]

    def __post_init__(self) -> None:
        """Bring the lines to a tuple of text."""
        if isinstance(self.lines, str):
            raise ValueError(f"commands are a list of lines; got the text {self.lines!r}.")
        _set(self, "lines", tuple(clean(line) for line in self.lines))


Part = Text | Facts | Table | Verdicts | Commands | Chart | Panels


@dataclass(frozen=True)
class Section:
    """A heading with the parts below it.

    >>> Section("Data", [Text("All rows were read.")]).title
    'Data'
    """

    title: str
    parts: Sequence[Part]

    def __post_init__(self) -> None:
        """Refuse an empty heading and what is no part of a page."""
        _set(self, "title", clean(self.title))
        if not self.title.strip():
            raise ValueError("a section needs a title.")
        known = (Text, Facts, Table, Verdicts, Commands, Chart, Panels)
        for at, part in enumerate(self.parts):
            if not isinstance(part, known):
                names = ", ".join(kind.__name__ for kind in known)
                raise ValueError(
                    f"part {at} of section {self.title!r} is {part!r}; use one of: {names}."
                )
        _set(self, "parts", tuple(self.parts))


@dataclass(frozen=True)
class Page:
    """A page: title, a summary in sentences, sections; `footer` says what made it.

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
        _set(self, "title", clean(self.title))
        _set(self, "footer", clean(self.footer))
        if not self.title.strip():
            raise ValueError("a page needs a title.")
        if isinstance(self.summary, str):
            raise ValueError(f"the summary is a list of sentences; got {self.summary!r}.")
        _set(self, "summary", tuple(clean(sentence) for sentence in self.summary))
        _set(self, "sections", only(Section, self.sections, "sections of a page"))


def _set(record: Any, field: str, value: Any) -> None:
    object.__setattr__(record, field, value)
