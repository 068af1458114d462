"""`make browse` would notice pages that are too wide, too heavy, or not self-contained."""

from __future__ import annotations

import doctest
from pathlib import Path

from tests.helpers.browser import launched, needs_chromium
from tests.helpers.paths import ROOT
from tests.helpers.scripts import script

BROWSE = script(ROOT / "tools" / "browse.py")
HEAD = "<!doctype html><html lang=en><title>t</title>"


def test_examples_hold() -> None:
    assert doctest.testmod(BROWSE).attempted > 0
    assert doctest.testmod(BROWSE).failed == 0


def test_only_grave_violations_are_faults() -> None:
    found = [("color-contrast", "serious", ["p"]), ("region", "moderate", ["div"])]
    assert BROWSE.Seen("a.html", "wide", violations=found).faults(500) == [
        "color-contrast (serious): p"
    ]


class TestInABrowser:
    pytestmark = needs_chromium

    def test_what_a_page_loads_and_how_wide_it_is(self, tmp_path: Path) -> None:
        (tmp_path / "style.css").write_text("div{width:900px}")
        (tmp_path / "good.html").write_text(f"{HEAD}<p>short")
        (tmp_path / "bad.html").write_text(
            f"{HEAD}<link rel=stylesheet href=style.css><div>wide</div>"
            "<img src='http://127.0.0.1:9/x.png'>"
        )
        with launched() as browser, BROWSE.served(tmp_path) as address:
            good = BROWSE.look(browser, address, "good.html", "390 px, dark", None)
            bad = BROWSE.look(browser, address, "bad.html", "390 px, dark", None)
        assert good.faults(500) == []
        assert (good.requests, good.size) == (1, len(HEAD) + len("<p>short"))
        assert bad.requests == 2
        assert bad.outside == ["http://127.0.0.1:9/x.png"]
        assert bad.overflow > 400
