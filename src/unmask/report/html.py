"""A page as HTML: one file with its styles, script and charts inside; it loads nothing.

`view` turns a part into what the template needs, already in words; the template (page.html.jinja)
only places it. Everything from data is escaped by jinja2; the only text marked safe is our own
style sheet, script and drawings. A content security policy lets nothing run but that one script.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from numbers import Real
from typing import Any

from unmask.report import drawing, svg, tables
from unmask.report.alt_text import described, drawn_as, legend, series_names
from unmask.report.charts import Chart, Panels, charts_of
from unmask.report.format import clean, say
from unmask.report.page import (
    LEVELS,
    Commands,
    Estimate,
    Facts,
    Page,
    Table,
    Text,
    Verdict,
    Verdicts,
)
from unmask.report.styles import DASHES, Style, styles

LIMIT = 3_000_000
"""Bytes that a page may have; more is for files of data, not for readers."""

_EMBEDDED_ROWS = 2000  # more than this is not put into the page as CSV
_SHOWN_ROWS = 300  # nor this as a table below a chart


def render(page: Page) -> str:
    """The page as HTML; the same page gives the same text.

    >>> render(Page("Is 1 < 2?"))[:15]
    '<!doctype html>'
    >>> "<h1>Is 1 &lt; 2?</h1>" in render(Page("Is 1 < 2?"))
    True
    """
    script = _source("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = (
        _template()
        .render(
            page=page,
            sections=list(_sections(page)),
            script=script,
            script_hash=digest,
            style=_source("page.css"),
            light=svg.variables(0),
            dark=svg.variables(1),
        )
        .lstrip()
    )
    size = len(text.encode())
    if size > LIMIT:
        raise ValueError(
            f"the page {page.title!r} would have {size:,} bytes, more than {LIMIT:,}; show fewer "
            "rows or points, and save the rest as CSV."
        )
    return str(text)


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["prose"] = _prose
    return environment.from_string(_source("page.html.jinja"))


def _source(name: str) -> str:
    return files("unmask.report").joinpath(name).read_text(encoding="utf-8")


def _prose(text: str) -> Any:
    """Escaped text in which `backticks` set code."""
    from markupsafe import Markup, escape

    pieces = clean(text).split("`")
    if len(pieces) % 2 == 0:  # a backtick without its partner is just a backtick
        return escape(clean(text))
    coded = (
        Markup("<code>{}</code>").format(p) if i % 2 else escape(p) for i, p in enumerate(pieces)
    )
    return Markup("").join(coded)


def _sections(page: Page) -> Iterator[dict[str, Any]]:
    """Views of all sections, with anchors that differ and looks that agree across the page."""
    parts = [part for section in page.sections for part in section.parts]
    drawings = [part for part in parts if isinstance(part, Chart | Panels)]
    looks = styles(name for part in drawings for name in series_names(part))
    number = 0
    for at, section in enumerate(page.sections, 1):
        views = []
        for part in section.parts:
            number += 1
            views.append(VIEWS[type(part)](part, f"p{number}", looks))
        yield {"title": section.title, "anchor": f"s{at}-{slug(section.title)}", "parts": views}


def slug(title: str) -> str:
    """A title as a file name or an anchor.

    >>> slug("Recall @ 5: é"), slug("日本")
    ('recall-5-e', 'part')
    """
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60] or "part"


def _text(part: Text, name: str, looks: Any) -> dict[str, Any]:
    return {"kind": "text", "paragraphs": part.paragraphs}


def _facts(part: Facts, name: str, looks: Any) -> dict[str, Any]:
    items = [(clean(fact), cell_view(value, "")) for fact, value in part.items]
    return {"kind": "facts", "facts": items}


def _commands(part: Commands, name: str, looks: Any) -> dict[str, Any]:
    return {"kind": "commands", "lines": part.lines}


def _verdicts(part: Verdicts, name: str, looks: Any) -> dict[str, Any]:
    return {"kind": "verdicts", "verdicts": [(LEVELS[v.level], v) for v in part.verdicts]}


def _table(part: Table, name: str, looks: Any) -> dict[str, Any]:
    numeric = [_is_numeric([row[at] for row in part.rows]) for at in range(len(part.columns))]
    columns = [
        {"name": column.name, "help": column.help, "numeric": right}
        for column, right in zip(part.heads, numeric, strict=True)
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
        "csv": _csv(part, part.title),
    }


def _is_numeric(cells: list[Any]) -> bool:
    known = [cell for cell in cells if cell is not None]
    kinds = (Real, Estimate)
    return bool(known) and all(isinstance(c, kinds) and not isinstance(c, bool) for c in known)


def cell_view(cell: Any, spec: str) -> dict[str, Any]:
    """A cell in words, with what it sorts by: a number, or the text itself."""
    view = {"text": "", "spread": "", "level": "", "sign": "", "sort": ""}
    if isinstance(cell, Verdict):
        order = list(LEVELS).index(cell.level)
        view |= {"text": clean(cell.words), "level": cell.level, "sign": LEVELS[cell.level]}
        return view | {"sort": order}
    if isinstance(cell, Estimate):
        return view | {
            "text": say(cell.value, spec),
            "spread": _spread(cell, spec),
            "sort": _sort_key(cell.value),
        }
    return view | {"text": say(cell, spec), "sort": _sort_key(cell)}


def _spread(cell: Estimate, spec: str) -> str:
    if cell.error is not None:
        return f"± {say(cell.error, spec)}"
    return f"[{say(cell.low, spec)}, {say(cell.high, spec)}]" if cell.low is not None else ""


def _sort_key(value: Any) -> Any:
    """What the script compares: a number, or nothing (then the text counts)."""
    if not isinstance(value, Real) or math.isnan(float(value)):
        return "missing" if value is None or isinstance(value, Real) else ""
    return repr(float(value))


def _chart(part: Chart | Panels, name: str, looks: dict[str, Style]) -> dict[str, Any]:
    from markupsafe import Markup

    charts = charts_of(part)
    drawn = drawing.panels_as_svg(part, looks)
    several = isinstance(part, Panels)
    panels = [
        {"title": chart.title if several else "", "svg": Markup(picture)}  # noqa: S704 (escaped by ElementTree)
        for chart, picture in zip(charts, _themed(charts, drawn, name), strict=True)
    ]
    return {
        "kind": "chart",
        "name": name,
        "title": part.title,
        "caption": part.caption,
        "columns": drawing.columns_of(part),
        "panels": panels,
        "legend": [_entry(part, label, looks[label]) for label in legend(part)],
        "csv": _csv(part, part.title),
        "numbers": _numbers(part, name),
    }


def _themed(charts: tuple[Chart, ...], drawn: list[str], name: str) -> Iterator[str]:
    for at, (chart, picture) in enumerate(zip(charts, drawn, strict=True)):
        title = chart.title or "Chart"
        yield svg.themed(picture, prefix=f"{name}-{at}", title=title, description=described(chart))


def _entry(part: Chart | Panels, name: str, style: Style) -> dict[str, Any]:
    """A line of the legend; a name that only rules have is dashed as they are."""
    kinds = drawn_as(part, name)
    dash = DASHES[style.dash if kinds else "dashed"]
    return {
        "name": name,
        "color": style.color,
        "dash": " ".join(f"{2 * float(length):g}" for length in dash.split()),
        "block": kinds == {"bars"},
        "marker": _SHAPES[style.marker] if kinds & {"lines", "dots"} else "",
    }


def _numbers(part: Chart | Panels, name: str) -> dict[str, Any] | None:
    """The chart's own numbers as a table, if people can read that many."""
    rows = tables.rows(part)
    if not 0 < len(rows) <= _SHOWN_ROWS:
        return None
    return _table(Table(list(rows[0]), [list(row.values()) for row in rows]), f"{name}-n", {})


def _csv(part: Any, title: str) -> dict[str, Any] | None:
    """A link that holds the rows as a CSV file."""
    count = len(part.rows) if isinstance(part, Table) else len(tables.rows(part))
    if count > _EMBEDDED_ROWS:
        return None
    data = base64.b64encode(tables.as_csv(part).encode()).decode()
    return {"file": f"{slug(title)}.csv", "href": f"data:text/csv;charset=utf-8;base64,{data}"}


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

VIEWS: dict[type, Callable[[Any, str, Any], dict[str, Any]]] = {
    Text: _text,
    Facts: _facts,
    Commands: _commands,
    Verdicts: _verdicts,
    Table: _table,
    Chart: _chart,
    Panels: _chart,
}
"""What the template is given for each type of part."""
