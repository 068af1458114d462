"""Pages and drawings as files, each written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from unmask.report import drawing, html, svg, tables
from unmask.report.alt_text import described, series_names
from unmask.report.charts import Chart, Panels
from unmask.report.marks import Styles
from unmask.report.page import Page, Table
from unmask.report.styles import styles

Where = str | os.PathLike[str]


def write(page: Page, path: Where) -> Path:
    """Write the page as one HTML file that needs no other; its path comes back.

    >>> import tempfile
    >>> write(Page("Study"), Path(tempfile.mkdtemp()) / "study.html").name
    'study.html'
    """
    return _put(path, html.render(page).encode())


def save(part: Chart | Panels | Table, path: Where) -> Path:
    """Save a drawing as .csv, .json, .png or .svg, or a table as .csv or .json, by the suffix.

    >>> import tempfile
    >>> save(Table(["name"], [["a"]]), Path(tempfile.mkdtemp()) / "names.csv").read_text()
    'name\\na\\n'
    """
    suffix = Path(path).suffix.lower()
    if isinstance(part, Table):
        known = {form: make for form, make in FORMS.items() if form in (".csv", ".json")}
    else:
        known = FORMS
    if suffix not in known:
        kind = type(part).__name__.lower()
        raise ValueError(f"a {kind} is saved as {', '.join(known)}; got the file name {path}.")
    return _put(path, known[suffix](part))


def _put(path: Where, contents: bytes) -> Path:
    from unmask._io import writing

    with writing(path) as file:
        file.write(contents)
    return Path(path)


def _csv(part: Chart | Panels | Table) -> bytes:
    return tables.as_csv(part).encode()


def _json(part: Chart | Panels | Table) -> bytes:
    return tables.as_json(part).encode()


def _png(part: Chart | Panels) -> bytes:
    return drawing.picture(part, _looks(part), "png")


def _svg(part: Chart | Panels) -> bytes:
    drawn = drawing.picture(part, _looks(part), "svg").decode()
    title = part.title or "Chart"
    return svg.standalone(drawn, title=title, description=described(part)).encode()


def _looks(part: Chart | Panels) -> Styles:
    return styles(series_names(part))


FORMS: dict[str, Callable[..., bytes]] = {
    ".csv": _csv,
    ".json": _json,
    ".png": _png,
    ".svg": _svg,
}
"""How each file suffix is made."""
