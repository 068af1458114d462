"""Pages, drawings and tables as files, each written whole or not at all.

A page is one HTML file with its styles, script and charts inside; it loads nothing, and a content
security policy lets nothing run but its own script. Templates place the parts; everything from
data is escaped by jinja2, and the only text marked safe is our own. As Markdown, a page comes with
a folder that holds its drawings and what they show as `numbers.zip`.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import unicodedata
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask._text import format_value, json_of, printable
from unmask._typing import PathLike
from unmask.pages import drawing, parts
from unmask.pages.describe import alt_text, as_csv, cell_view, is_numeric, rows

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup
    from matplotlib.figure import Figure

LIMIT = 3_000_000
"""Bytes that a page may have; more is for files of data, not for readers."""

_EMBEDDED_ROWS = 2000  # more than this is not put into the page as CSV
_SHOWN_ROWS = 300  # nor this as a table below a chart
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|])")


def render(page: parts.Page) -> str:
    """Return the page as HTML; the same page gives the same text.

    Parameters
    ----------
    page : Page

    Returns
    -------
    str
        One HTML document of at most `LIMIT` bytes.

    Raises
    ------
    ValueError
        If the page would be larger.

    Examples
    --------
    >>> "<h1>Is 1 &lt; 2?</h1>" in render(parts.Page("Is 1 < 2?"))
    True
    """
    styles = parts.styles_of(*page.drawings)
    sections, number = [], 0
    for position, section in enumerate(page.sections, 1):
        views = []
        for part in section.parts:
            number += 1
            views.append(_view(part, f"p{number}", styles))
        anchor = f"s{position}-{slug(section.title)}"
        about = {"title": section.title, "folded": section.folded}
        sections.append({**about, "anchor": anchor, "views": views})
    text = document("page", page.title, page=page, sections=sections)
    return within(text, LIMIT, page.title, "show fewer rows or points, and save the rest as CSV")


def within(text: str, limit: int, title: str, advice: str) -> str:
    """Return the text of a page if it has no more bytes than that."""
    size = len(text.encode())
    if size > limit:
        raise ValueError(
            f"the page {title!r} would have {size:,} bytes, more than {limit:,}; {advice}."
        )
    return text


def document(name: str, title: str, **values: object) -> str:
    """Return one HTML document from the template, script and style sheet of a name."""
    script = _source(f"{name}.js")
    digest = hashlib.sha256(script.encode()).digest()
    return environment().get_template(f"{name}.html.jinja").render(
        **values,
        title=title,
        script=script,
        script_hash=base64.b64encode(digest).decode(),
        style=_source("base.css") + _source(f"{name}.css"),
        light=drawing.variables(0),
        dark=drawing.variables(1),
    )  # fmt: skip


def write(page: parts.Page, path: PathLike) -> Path:
    """Write the page as one HTML file that needs no other.

    Parameters
    ----------
    page : Page
    path : str or path

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ValueError
        If the page would be larger than a page may be.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> write(parts.Page("Study"), Path(tempfile.mkdtemp()) / "study.html").name
    'study.html'
    """
    return write_bytes(path, render(page).encode())


def write_markdown(page: parts.Page, path: PathLike) -> Path:
    """Write the page as Markdown, and its drawings in a folder beside it.

    Parameters
    ----------
    page : Page
    path : str or path
        `recall.md` comes with `recall/1.svg` for its first drawing, and so on, and with
        `recall/numbers.zip`, which holds what they show as `1.csv` …

    Returns
    -------
    Path
        The Markdown file.

    Raises
    ------
    OSError
        If a file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> path = write_markdown(parts.Page("S", ["It holds."]), tempfile.mkdtemp() + "/s.md")
    >>> path.read_text()
    '# S\\n\\nIt holds.\\n'
    """
    path = Path(path)
    if page.drawings:
        folder = path.with_suffix("")
        folder.mkdir(parents=True, exist_ok=True)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as numbers:
            for number, part in enumerate(page.drawings, start=1):
                save(part, folder / f"{number}.svg")
                entry = zipfile.ZipInfo(f"{number}.csv")  # dateless: equal numbers are equal files
                entry.compress_type = zipfile.ZIP_DEFLATED
                numbers.writestr(entry, as_csv(part))
        write_bytes(folder / "numbers.zip", packed.getvalue())
    return write_bytes(path, render_markdown(page, path.stem).encode())


def render_markdown(page: parts.Page, folder: str) -> str:
    """Return the page as Markdown whose drawings are in a folder of this name."""
    template = environment().get_template("page.md.jinja")
    return template.render(page=page, drawings=page.drawings, folder=folder).strip() + "\n"


def save(part: parts.Drawing | parts.Table, path: PathLike, *, width: float | None = None) -> Path:
    """Save a drawing or a table in the format that the suffix says.

    Parameters
    ----------
    part : Chart, Panels or Table
    path : str or path
        Ends in .csv, .json, .png or .svg; a table in .csv or .json.
    width : float, optional
        Inches of one chart in a picture, 3.4 for a phone; by default by how many stand side by
        side.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ValueError
        If the suffix is none of those.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> save(parts.Table(["name"], [["a"]]), Path(tempfile.mkdtemp()) / "names.csv").read_text()
    'name\\na\\n'
    """
    suffix = Path(path).suffix.lower()
    formats = (
        (".csv", ".json") if isinstance(part, parts.Table) else (".csv", ".json", ".png", ".svg")
    )
    if suffix not in formats:
        kind = type(part).__name__.lower()
        raise ValueError(f"a {kind} is saved as {', '.join(formats)}; got the file name {path}.")
    if suffix == ".csv":
        return write_bytes(path, as_csv(part).encode())
    if isinstance(part, parts.Table) or suffix == ".json":
        return write_bytes(path, printable(json_of(rows(part))).encode())
    with drawing.settings():
        whole = drawing.figure_of(part, parts.styles_of(part), width)
        data = drawing.saved(whole, suffix[1:])
    if suffix == ".svg":
        words = alt_text(part)
        svg = drawing.svg_element(data.decode(), "c", part.title or "Chart", words, alone=True)
        data = f"{svg}\n".encode()
    return write_bytes(path, data)


def figure(part: parts.Drawing) -> Figure:
    """Return a drawing as a matplotlib figure, which notebooks show.

    Parameters
    ----------
    part : Chart or Panels

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If one name has two different styles.

    Examples
    --------
    >>> from unmask.pages import Chart, Series
    >>> chart = Chart("lines", [Series("vanilla", [1, 2], [0.5, 0.6])])
    >>> type(figure(chart)).__name__
    'Figure'
    """
    return drawing.figure_of(part, parts.styles_of(part))


def write_bytes(path: PathLike, contents: bytes) -> Path:
    """Write a file whole or not at all."""
    from unmask.files.streams import atomic_write

    with atomic_write(path) as file:
        file.write(contents)
    return Path(path)


# ------------------------------------------------------------------------ what templates need


@cache
def environment() -> Environment:
    """Return what fills all templates: values are escaped in HTML, and none may be missing."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape
    from markupsafe import Markup

    made = Environment(
        loader=FunctionLoader(_source),
        autoescape=select_autoescape(["html.jinja"]),
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else printable(value),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "alt_text": alt_text,
        "cell_view": cell_view,
        "kind": _kind,
        "number": format_value,
    }
    made.filters |= {"prose": _prose, "plain": _plain, "marked": _marked}
    made.globals |= {"levels": parts.LEVELS, "dashes": parts.DASHES, "markers": parts.MARKERS}
    return made


def words(name: str, **values: object) -> dict[str, str]:
    """Return the paragraphs of a text template by name, each on one line."""
    template = environment().get_template(f"{name}.txt.jinja")
    blocks = vars(template.make_module(values))
    return {key: " ".join(text.split()) for key, text in blocks.items() if isinstance(text, str)}


def _source(name: str) -> str:
    """Return a template, style sheet or script."""
    return files("unmask.pages").joinpath("templates", name).read_text(encoding="utf-8")


def _prose(text: str) -> Markup:
    """Return escaped text in which `backticks` set code."""
    from markupsafe import Markup, escape

    pieces = printable(text).split("`")
    if len(pieces) % 2 == 0:  # a backtick without its partner is just a backtick
        return escape(printable(text))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(p) if i % 2 else escape(p) for i, p in enumerate(pieces))


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def _marked(text: str) -> str:
    """Return text in which `backticks` set code; Markdown shows the rest as it is."""
    pieces = " ".join(text.split()).split("`")
    if len(pieces) % 2 == 0:
        return _plain(text)
    return "`".join(p if i % 2 else _MARKUP.sub(r"\\\1", p) for i, p in enumerate(pieces))


def _kind(part: parts.Part) -> str:
    return type(part).__name__.lower()


def slug(title: str) -> str:
    """Return a title as a file name or an anchor.

    >>> slug("Recall @ 5: é"), slug("日本")
    ('recall-5-e', 'part')
    """
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60] or "part"


def _view(part: parts.Part, name: str, styles: parts.Styles) -> Mapping[str, Any]:
    """Return a part with what its template cannot work out."""
    view: dict[str, Any] = {"kind": _kind(part), "part": part}
    if isinstance(part, parts.Table):
        columns = [[row[i] for row in part.rows] for i in range(len(part.heads))]
        view |= {"numeric": [is_numeric(column) for column in columns]}
        view |= {"csv": _csv_link(part, len(part.rows))}
    if isinstance(part, parts.Drawing):
        points = rows(part)
        few = 0 < len(points) <= _SHOWN_ROWS
        single = part.columns == 1
        wide = _pictures(part, name, styles)
        phones = _pictures(part, f"{name}-phone", styles, drawing.NARROW) if single else []
        phones += [""] * (len(wide) - len(phones))
        several = isinstance(part, parts.Panels)
        view |= {
            "panels": [
                {"title": chart.title if several else "", "svg": svg, "phone": phone}
                for chart, svg, phone in zip(part.charts, wide, phones, strict=True)
            ],
            "legend": drawing.legend_of(part, styles),
            "numbers": few and _view(
                parts.Table([*points[0]], [[*row.values()] for row in points]), f"{name}-n", {}
            ),
            "csv": _csv_link(part, len(points)),
        }  # fmt: skip
    return view


def _pictures(
    part: parts.Drawing, name: str, styles: parts.Styles, width: float | None = None
) -> list[str]:  # fmt: skip
    """Return every chart as a drawing in the colours of the page, with what it shows in words."""
    drawn = zip(part.charts, drawing.pictures(part, styles, width), strict=True)
    return [
        drawing.svg_element(svg, f"{name}-{number}", chart.title or "Chart", alt_text(chart))
        for number, (chart, svg) in enumerate(drawn)
    ]


def _csv_link(part: parts.Drawing | parts.Table, count: int) -> Mapping[str, str] | None:
    """Return a link that holds the rows as a CSV file, if they are not too many."""
    if count > _EMBEDDED_ROWS:
        return None
    data = base64.b64encode(as_csv(part).encode()).decode()
    return {"file": f"{slug(part.title)}.csv", "href": f"data:text/csv;charset=utf-8;base64,{data}"}
