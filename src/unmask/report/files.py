"""Pages, drawings and tables as files, each written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from unmask.report import drawing, html, tables
from unmask.report import drawing as svg
from unmask.report.charts import Chart, Drawing, Panels, alt_text, styles_of
from unmask.report.page import Page, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PathLike = str | os.PathLike[str]


def write(page: Page, path: PathLike) -> Path:
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
    >>> write(Page("Study"), Path(tempfile.mkdtemp()) / "study.html").name
    'study.html'
    """
    return _write_bytes(path, html.render(page).encode())


def save(part: Chart | Panels | Table, path: PathLike, *, width: float | None = None) -> Path:
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
    >>> save(Table(["name"], [["a"]]), Path(tempfile.mkdtemp()) / "names.csv").read_text()
    'name\\na\\n'
    """
    suffix = Path(path).suffix.lower()
    formats = FORMATS
    if isinstance(part, Table):
        formats = {name: FORMATS[name] for name in (".csv", ".json")}
    if suffix not in formats:
        kind = type(part).__name__.lower()
        raise ValueError(f"a {kind} is saved as {', '.join(formats)}; got the file name {path}.")
    return _write_bytes(path, formats[suffix](part, width))


def figure(part: Drawing) -> Figure:
    """A drawing as a matplotlib figure, which notebooks show.

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
    >>> from unmask.report import Series
    >>> chart = Chart("lines", [Series("vanilla", [1, 2], [0.5, 0.6])])
    >>> type(figure(chart)).__name__
    'Figure'
    """
    return drawing.figure_of(part, styles_of(part))


def _write_bytes(path: PathLike, contents: bytes) -> Path:
    from unmask.files import atomic_write

    with atomic_write(path) as file:
        file.write(contents)
    return Path(path)


def _csv(part: tables.Data, _: float | None) -> bytes:
    return tables.as_csv(part).encode()


def _json(part: tables.Data, _: float | None) -> bytes:
    return tables.as_json(part).encode()


def _png(part: Drawing, width: float | None) -> bytes:
    return drawing.picture(part, styles_of(part), "png", width)


def _svg(part: Drawing, width: float | None) -> bytes:
    picture = drawing.picture(part, styles_of(part), "svg", width).decode()
    title = part.title or "Chart"
    return svg.standalone(picture, title=title, description=alt_text(part)).encode()


FORMATS: dict[str, Callable[..., bytes]] = {
    ".csv": _csv,
    ".json": _json,
    ".png": _png,
    ".svg": _svg,
}
"""How each file suffix is made."""
