"""The page in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.browser import View, needs_chromium
from tests.helpers.pages import rich_page
from unmask import pages

pytestmark = needs_chromium

Show = Callable[..., View]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pages.write(rich_page(), tmp_path_factory.mktemp("page") / "report.html")


def assert_quiet_and_alone(view: View, file: Path) -> None:
    assert view.complaints == []
    assert [url for url in view.requests if not url.startswith("data:")] == [file.as_uri()]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1200, 390])
def test_nothing_is_complained_of_loaded_or_cut_off(
    show: Show, file: Path, dark: bool, width: int
) -> None:
    view = show(file, dark=dark, width=width)
    background = view.run("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(18, 22, 28)" if dark else "rgb(255, 255, 255)")
    assert view.run("document.documentElement.scrollWidth") <= width
    assert_quiet_and_alone(view, file)


def test_what_a_page_loads_and_complains_of_is_noticed(show: Show, tmp_path: Path) -> None:
    file, other = tmp_path / "bad.html", tmp_path / "other.js"
    other.write_text("")
    policy = "<meta http-equiv=Content-Security-Policy content=\"img-src 'none'\"><img src=a.png>"
    for html, complaint in (
        ("<script>console.warn('careful')</script>", "careful"),
        ("<script>throw new Error('broken')</script>", "broken"),
        (policy, "Content Security Policy"),
    ):
        file.write_text(html)
        (heard,) = show(file).complaints
        assert complaint in heard
    file.write_text("<script src=other.js></script>")
    assert show(file).requests == [file.as_uri(), other.as_uri()]


@pytest.mark.parametrize("width", [1200, 390])
def test_a_page_of_real_results_is_as_good(show: Show, tmp_path: Path, width: int) -> None:
    from unmask import demo

    file = pages.write(pages.demo.page(demo.run(n=600)), tmp_path / "demo.html")
    view = show(file, width=width)
    assert view.run("document.documentElement.scrollWidth") <= width
    assert_quiet_and_alone(view, file)


COLUMN = "Array.from(document.querySelector('table').tBodies[0].rows, r => r.cells[1].textContent)"
STATE = "document.querySelectorAll('table thead th')[1].getAttribute('aria-sort')"


def test_tables_sort_by_click(show: Show, file: Path) -> None:
    view = show(file)
    original = view.run(COLUMN)
    button = view.page.locator("table").first.locator("thead th:nth-child(2) button")
    button.click()
    rising = view.run(COLUMN)
    assert view.run(STATE) == "ascending"
    button.click()
    falling = view.run(COLUMN)
    assert view.run(STATE) == "descending"
    button.click()
    assert view.run(STATE) == "none"
    assert view.run(COLUMN) == original

    def number(cell: str) -> float:
        return float(cell.split()[0].replace("−", "-"))

    *values, gap = rising
    assert [number(c) for c in values] == sorted(number(c) for c in values)
    assert gap == falling[-1] == "–"
    assert falling[:-1] == values[::-1]
    assert original not in (rising, falling)


def test_tables_sort_by_keyboard(show: Show, file: Path) -> None:
    view = show(file)
    view.run("document.querySelector('table').closest('.scroll').focus()")
    view.page.keyboard.press("Tab")
    view.page.keyboard.press("Tab")
    assert view.run("document.activeElement.parentElement.cellIndex") == 1
    view.page.keyboard.press("Enter")
    assert view.run(STATE) == "ascending"
    assert view.run("document.activeElement.parentElement.cellIndex") == 1, "the focus stays"


def test_the_first_tab_skips_to_the_content(show: Show, file: Path) -> None:
    view = show(file)
    view.page.keyboard.press("Tab")
    assert view.run("document.activeElement.className") == "skip"
    view.page.keyboard.press("Enter")
    assert view.run("document.activeElement.id") == "main"


def test_charts_follow_the_theme_and_keep_real_text(show: Show, file: Path) -> None:
    fill = "getComputedStyle(document.querySelector('figure .panel svg text')).fill"
    light, dark = show(file), show(file, dark=True)
    assert (light.run(fill), dark.run(fill)) == ("rgb(29, 39, 51)", "rgb(232, 236, 241)")
    assert "propensity" in dark.page.locator(".panel svg text").all_text_contents()


def test_screen_readers_get_names(show: Show, file: Path) -> None:
    nodes = show(file).accessible_nodes()
    roles = {role for role, _ in nodes}
    assert {"main", "navigation", "heading", "image", "table", "columnheader", "rowheader"} <= roles
    for named in ("image", "table", "button", "link", "region", "heading"):
        assert all(name.strip() for role, name in nodes if role == named), named


def test_data_stays_text(show: Show, tmp_path: Path) -> None:
    evil = "<img src=x onerror=document.title='broken'><script>document.title='broken'</script>"
    evil += "long" * 60
    chart = pages.Chart("dots", [pages.Series(evil, [evil], [1.0])], title=evil, x=evil, y=evil)
    table = pages.Table([evil], [[evil]], title=evil, caption=evil)
    section = pages.Section(evil, [chart, table, pages.Commands([evil]), pages.Text(evil)])
    page = pages.Page("safe", summary=[evil], sections=[section] * 3, footer=evil)
    view = show(pages.write(page, tmp_path / "evil.html"), width=390)
    assert view.page.title() == "safe"
    assert view.run("document.documentElement.scrollWidth") <= 390, "long words scroll or break"
    assert view.page.locator("img, script").count() == 1, "only our own script"
    assert view.complaints == []


def test_it_prints_in_light_colours_without_controls(show: Show, file: Path) -> None:
    view = show(file, dark=True)
    view.page.emulate_media(media="print")
    assert view.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert view.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert view.page.pdf(print_background=True).startswith(b"%PDF")
