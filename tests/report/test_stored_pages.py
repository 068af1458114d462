"""A page with one of everything, as stored beside this test: HTML, Markdown, drawings."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import matplotlib
import pytest

from tests.helpers import golden
from tests.helpers.pages import ONE_OF_EACH, rich_page
from tests.helpers.paths import ROOT
from unmask import report
from unmask.report import Chart, Page, Panels, Section, drawing, html
from unmask.report.alt_text import alt_text
from unmask.report.charts import styles_of

FILE = golden.file_name("pages", "report")
PINNED = f"matplotlib=={matplotlib.__version__}" in (ROOT / "constraints.txt").read_text().split()


def without_pictures(page: str) -> str:
    """The page by lines of markup, without style sheet, script and what matplotlib drew."""
    for tag in ("style", "script", "svg"):
        page = re.sub(rf"<{tag}\b.*?</{tag}>", f"<{tag}/>", page, flags=re.DOTALL)
    lines = (line.strip() for line in re.sub(r">\s*<", ">\n<", page).splitlines())
    return "\n".join(line for line in lines if line)


def small_page() -> Page:
    """One of everything, with small charts."""
    sections = [
        Section(section.title, [p for p in section.parts if not isinstance(p, Chart | Panels)])
        for section in rich_page().sections
    ]
    pair = Panels([ONE_OF_EACH["lines"], ONE_OF_EACH["bars"]], title="Two", caption="Beside.")
    charts = Section("Charts", [*ONE_OF_EACH.values(), pair])
    return replace(rich_page(), sections=[*sections, charts])


def test_the_page_as_html() -> None:
    golden.check(FILE, without_pictures(html.render(small_page())), "html")


def test_the_page_as_markdown(tmp_path: Path) -> None:
    path = report.write_markdown(small_page(), tmp_path / "page.md")
    golden.check(FILE, path.read_text(encoding="utf-8"), "markdown")
    with zipfile.ZipFile(tmp_path / "page" / "numbers.zip") as packed:
        tables = [packed.read(name).decode() for name in sorted(packed.namelist())]
    golden.check(FILE, "".join(tables), "numbers")


def measured(picture: str) -> str:
    """How many numbers a drawing has, their sums, its words, and its colours."""
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", picture)]
    colours = "".join(re.findall(r"#[0-9a-f]{6}\b", picture))
    words = " ".join(re.findall(r">([^<>]+)</text>", picture))
    return f"{golden.cell(numbers)} {crc32(colours.encode())} {words}"


def drawn() -> Iterator[tuple[str, Chart | Panels]]:
    yield from ONE_OF_EACH.items()
    for number, each in enumerate(rich_page().drawings):
        yield f"drawing {number}", each


@pytest.mark.skipif(not PINNED, reason="the numbers of another matplotlib differ")
@pytest.mark.parametrize("number", range(len(list(drawn()))))
def test_drawings(number: int) -> None:
    name, each = list(drawn())[number]
    styles = styles_of(each)
    pictures = drawing.panels_as_svg(each, styles)
    if name in ("dots", "drawing 2"):
        pictures.append(drawing.picture(each, styles, "svg").decode())
    golden.check(FILE, "\n".join(map(measured, pictures)), name, rel=1e-4)


def test_alternative_texts() -> None:
    texts = [alt_text(each) for _, each in drawn()]
    golden.check(FILE, "\n".join(texts), "alternative texts")


def test_a_page_without_anything() -> None:
    page = Page("Nothing", sections=[Section("Empty", [])])
    golden.check(FILE, without_pictures(html.render(page)), "empty")
