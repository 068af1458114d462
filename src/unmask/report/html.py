"""A page as HTML: one file with its styles, script and charts inside; it loads nothing.

Functions here turn every part into what the template needs, with all values as text; the template
(page.html.jinja) only places it. Everything from data is escaped by jinja2; the only text marked
safe is our own style sheet, script and drawings. A content security policy lets nothing run but
that one script.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import repeat
from numbers import Real
from typing import TYPE_CHECKING

from unmask.report import drawing, tables
from unmask.report import drawing as svg
from unmask.report.charts import (
    DASHES,
    Chart,
    Drawing,
    Panels,
    Style,
    Styles,
    alt_text,
    charts_of,
    kinds_of,
    legend_names,
    styles_of,
)
from unmask.report.format import format_value, printable
from unmask.report.page import (
    LEVELS,
    Cell,
    Commands,
    Estimate,
    Facts,
    Page,
    Table,
    Text,
    Verdict,
    Verdicts,
)

if TYPE_CHECKING:
    from jinja2 import Environment, Template
    from markupsafe import Markup

LIMIT = 3_000_000
"""Bytes that a page may have; more is for files of data, not for readers."""

_EMBEDDED_ROWS = 2000  # more than this is not put into the page as CSV
_SHOWN_ROWS = 300  # nor this as a table below a chart

View = Mapping[str, object]
"""What the template is given for one part of a page."""


def render(page: Page) -> str:
    """The page as HTML; the same page gives the same text.

    Parameters
    ----------
    page : Page

    Returns
    -------
    str
        One HTML document of at most `LIMIT` bytes; a larger one is refused.

    Raises
    ------
    ValueError
        If the page would have more than `LIMIT` bytes.

    Examples
    --------
    >>> render(Page("Is 1 < 2?"))[:15]
    '<!doctype html>'
    >>> "<h1>Is 1 &lt; 2?</h1>" in render(Page("Is 1 < 2?"))
    True
    """
    return document(
        "page", LIMIT, f"the page {page.title!r}",
        "show fewer rows or points, and save the rest as CSV",
        page=page, sections=list(_sections(page)),
    )  # fmt: skip


def document(name: str, limit: int, subject: str, advice: str, **values: object) -> str:
    """One HTML document from the template, script and style sheet of a name.

    Parameters
    ----------
    name : str
        Of the files: `name.html.jinja`, `name.js`, `name.css`.
    limit : int
        Bytes that the document may have.
    subject, advice : str
        What is too large if it has more, and what to do.
    **values
        What the template is given, beside script, styles and colours.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If it is larger than the limit.
    """
    script = source(f"{name}.js")
    text = (
        _template(name)
        .render(
            **values,
            script=script,
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            style=source(f"{name}.css"),
            light=svg.variables(0),
            dark=svg.variables(1),
        )
        .lstrip()
    )
    size = len(text.encode())
    if size > limit:
        raise ValueError(f"{subject} would have {size:,} bytes, more than {limit:,}; {advice}.")
    return text


@cache
def _template(name: str) -> Template:
    return environment().from_string(source(f"{name}.html.jinja"))


@cache
def environment() -> Environment:
    """How all templates are filled: values are escaped, and none may be missing."""
    from jinja2 import Environment, StrictUndefined

    made = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["prose"] = _prose
    return made


def source(name: str) -> str:
    """A template, style sheet or script of this room."""
    return files("unmask.report").joinpath(name).read_text(encoding="utf-8")


def _prose(text: str) -> Markup:
    """Escaped text in which `backticks` set code."""
    from markupsafe import Markup, escape

    pieces = printable(text).split("`")
    if len(pieces) % 2 == 0:  # a backtick without its partner is just a backtick
        return escape(printable(text))
    code = (
        Markup("<code>{}</code>").format(p) if i % 2 else escape(p) for i, p in enumerate(pieces)
    )
    return Markup("").join(code)


def _sections(page: Page) -> Iterator[View]:
    """Views of all sections, with different anchors and the same styles on the whole page."""
    styles = styles_of(*page.drawings)
    number = 0
    for position, section in enumerate(page.sections, 1):
        views = []
        for part in section.parts:
            number += 1
            views.append(VIEWS[type(part)](part, f"p{number}", styles))
        anchor = f"s{position}-{slug(section.title)}"
        yield {"title": section.title, "anchor": anchor, "parts": views, "folded": section.folded}


def slug(title: str) -> str:
    """A title as a file name or an anchor.

    >>> slug("Recall @ 5: é"), slug("日本")
    ('recall-5-e', 'part')
    """
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60] or "part"


def _text(part: Text, name: str, styles: Styles) -> View:
    return {"kind": "text", "paragraphs": part.paragraphs}


def _facts(part: Facts, name: str, styles: Styles) -> View:
    items = [(printable(fact), cell_view(value)) for fact, value in part.pairs]
    return {"kind": "facts", "facts": items}


def _commands(part: Commands, name: str, styles: Styles) -> View:
    return {"kind": "commands", "lines": part.lines}


def _verdicts(part: Verdicts, name: str, styles: Styles) -> View:
    return {"kind": "verdicts", "verdicts": [(LEVELS[v.level], v) for v in part.verdicts]}


def _table(part: Table, name: str, styles: Styles) -> View:
    columns = [
        {
            "name": column.name,
            "help": column.help,
            "numeric": _is_numeric([row[position] for row in part.rows]),
        }
        for position, column in enumerate(part.heads)
    ]
    rows = [
        [cell_view(cell, column.format) for cell, column in zip(row, part.heads, strict=True)]
        for row in part.rows
    ]
    return {
        "kind": "table",
        "name": name,
        "title": part.title,
        "caption": part.caption,
        "columns": columns,
        "rows": rows,
        "csv": _csv(part),
    }


def _is_numeric(cells: list[Cell]) -> bool:
    present = [cell for cell in cells if cell is not None]
    kinds = (Real, Estimate)
    return bool(present) and all(isinstance(c, kinds) and not isinstance(c, bool) for c in present)


@dataclass(frozen=True)
class CellView:
    """A cell as text, with what it sorts by: a number, "missing", or "" (then the text counts)."""

    text: str
    sort: str = ""
    spread: str = ""
    level: str = ""
    sign: str = ""


def cell_view(cell: Cell, spec: str = "") -> CellView:
    """A cell as text; `spec` is the format of its numbers."""
    if isinstance(cell, Verdict):
        order = str(list(LEVELS).index(cell.level))
        words = printable(cell.words)
        return CellView(words, sort=order, level=cell.level, sign=LEVELS[cell.level])
    if isinstance(cell, Estimate):
        text, sort = format_value(cell.value, spec), _sort_key(cell.value)
        return CellView(text, sort, spread=_spread(cell, spec))
    return CellView(format_value(cell, spec), _sort_key(cell))


def _spread(cell: Estimate, spec: str) -> str:
    if cell.error is not None:
        return f"± {format_value(cell.error, spec)}"
    if cell.low is None:
        return ""
    return f"[{format_value(cell.low, spec)}, {format_value(cell.high, spec)}]"


def _sort_key(value: object) -> str:
    """What the script compares: a number, or nothing (then the text counts)."""
    if not isinstance(value, Real):
        return "missing" if value is None else ""
    number = float(value)
    return "missing" if math.isnan(number) else repr(number)


def _chart(part: Drawing, name: str, styles: Styles) -> View:
    from markupsafe import Markup

    several = isinstance(part, Panels)
    columns = drawing.columns_of(part)
    narrow = drawing.NARROW if columns == 1 else None
    phones = _pictures(part, f"{name}-phone", styles, narrow) if narrow else repeat("")
    panels = [
        {
            "title": chart.title if several else "",
            "svg": Markup(picture),  # noqa: S704 (escaped by ElementTree)
            "phone": Markup(phone),  # noqa: S704
        }
        for chart, picture, phone in zip(
            charts_of(part), _pictures(part, name, styles), phones, strict=False
        )
    ]
    return {
        "kind": "chart",
        "name": name,
        "title": part.title,
        "caption": part.caption,
        "columns": columns,
        "panels": panels,
        "legend": [_legend_entry(part, label, styles[label]) for label in legend_names(part)],
        "csv": _csv(part),
        "numbers": _numbers(part, name),
    }


def _pictures(
    part: Drawing, name: str, styles: Styles, width: float | None = None
) -> Iterator[str]:
    """Every chart as a drawing in the colours of the page, with what it shows in words."""
    pictures = drawing.panels_as_svg(part, styles, width)
    for number, (chart, picture) in enumerate(zip(charts_of(part), pictures, strict=True)):
        title, words = chart.title or "Chart", alt_text(chart)
        yield svg.themed(picture, prefix=f"{name}-{number}", title=title, description=words)


def _legend_entry(part: Drawing, name: str, style: Style) -> View:
    """A line of the legend; a name that only rules have is dashed as they are."""
    kinds = kinds_of(part, name)
    dash = DASHES[style.dash if kinds else "dashed"]
    return {
        "name": name,
        "color": style.color,
        "dash": " ".join(f"{2 * float(length):g}" for length in dash.split()),
        "marker": _SHAPES[style.marker] if kinds & {"lines", "dots"} else "",
    }


def _numbers(part: Drawing, name: str) -> View | None:
    """The chart's own numbers as a table, if people can read that many."""
    rows = tables.rows(part)
    if not 0 < len(rows) <= _SHOWN_ROWS:
        return None
    return _table(Table(list(rows[0]), [list(row.values()) for row in rows]), f"{name}-n", {})


def _csv(part: tables.Data) -> View | None:
    """A link that holds the rows as a CSV file, if they are not too many."""
    count = len(part.rows) if isinstance(part, Table) else len(tables.rows(part))
    if count > _EMBEDDED_ROWS:
        return None
    data = base64.b64encode(tables.as_csv(part).encode()).decode()
    return {"file": f"{slug(part.title)}.csv", "href": f"data:text/csv;charset=utf-8;base64,{data}"}


_SHAPES = {
    "circle": "M14 3.2a2.8 2.8 0 1 0 0 5.6a2.8 2.8 0 1 0 0-5.6z",
    "square": "M11.4 3.4h5.2v5.2h-5.2z",
    "triangle": "M14 2.8l3.2 6h-6.4z",
    "diamond": "M14 2.4l3.6 3.6l-3.6 3.6l-3.6-3.6z",
    "plus": "M13 2.8h2v2.2h2.2v2h-2.2v2.2h-2v-2.2h-2.2v-2h2.2z",
    "cross": "M11.6 2.4l2.4 2.1l2.4-2.1l1.2 1.2l-2.1 2.4l2.1 2.4l-1.2 1.2l-2.4-2.1l-2.4 2.1"
    "l-1.2-1.2l2.1-2.4l-2.1-2.4z",
    "down": "M14 9.2l3.2-6h-6.4z",
    "star": "M14 2l1.2 2.7l2.9.3l-2.2 2l.6 2.9l-2.5-1.5l-2.5 1.5l.6-2.9l-2.2-2l2.9-.3z",
    "none": "",
}

VIEWS: dict[type, Callable[..., View]] = {
    Text: _text,
    Facts: _facts,
    Commands: _commands,
    Verdicts: _verdicts,
    Table: _table,
    Chart: _chart,
    Panels: _chart,
}
"""What the template is given for each type of part."""
