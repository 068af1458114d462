"""The page in a real browser: headless Chromium, spoken to through its debugging pipe."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.pages import rich_page
from unmask import report

BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-device-scale-factor=1",
    "--remote-debugging-pipe",
)

# Chromium reads commands from descriptor 3 and answers on 4.
START = """
import os, sys
for given, wanted in zip(sys.argv[1:3], (3, 4)):
    os.dup2(int(given), wanted)
os.execv(sys.argv[3], sys.argv[3:])
"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")


class Tab:
    """One page in Chromium; remembers every event, so that nothing it complains of is missed."""

    def __init__(self, folder: Path) -> None:
        (browser_in, self.out), (self.back, browser_out) = os.pipe(), os.pipe()
        given = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (browser_in, browser_out)]
        command = [str(BROWSER), *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, *map(str, given), *command],
            pass_fds=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (browser_in, browser_out, *given):
            os.close(end)
        self.events: list[dict[str, Any]] = []
        self.rest, self.number, self.session = b"", 0, ""

    def attach(self) -> None:
        """Take the first page and hear everything about it."""
        targets = self.ask("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> Any:
        """Send a command and wait for its answer; events that come before it are kept."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while (answer := self.next()).get("id") != self.number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            piece = os.read(self.back, 1 << 20)
            assert piece, "Chromium closed its pipe"
            self.rest += piece
        line, _, self.rest = self.rest.partition(b"\0")
        return dict(json.loads(line))

    def open(self, file: Path, *, dark: bool = False, width: int = 1200, height: int = 900) -> None:
        self.events.clear()
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[theme])
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.ask("Page.navigate", url=file.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self.next())

    def run(self, script: str) -> Any:
        answer = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        common = {"key": key, "code": key, "windowsVirtualKeyCode": {"Tab": 9, "Enter": 13}[key]}
        self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **common)

    def click(self, selector: str) -> None:
        into_view = "scrollIntoView({block: 'center', behavior: 'instant'})"
        self.run(f"document.querySelector({selector!r}).{into_view}")
        x, y = self.run(
            f"(() => {{ const b = document.querySelector({selector!r}).getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, path: Path) -> None:
        data = self.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def complaints(self) -> list[Any]:
        """Console errors and warnings, exceptions, and log entries such as a refused resource."""
        spoken = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self.events if event["method"] in spoken]

    def requests(self) -> list[str]:
        sent = [e["params"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [str(params["request"]["url"]) for params in sent]

    def close(self) -> None:
        """Ask it to go; if it does not, end it."""
        self.session = ""
        try:
            self.ask("Browser.close")
            self.process.wait(timeout=20)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.back)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    opened = Tab(tmp_path_factory.mktemp("chromium"))
    try:
        opened.attach()
        yield opened
    finally:
        opened.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report.write(rich_page(), tmp_path_factory.mktemp("page") / "report.html")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1200, 390])
def test_nothing_is_complained_of_loaded_or_cut_off(
    tab: Tab, file: Path, dark: bool, width: int
) -> None:
    tab.open(file, dark=dark, width=width)
    background = tab.run("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(18, 22, 28)" if dark else "rgb(255, 255, 255)")
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.complaints() == []
    assert [url for url in tab.requests() if not url.startswith("data:")] == [file.as_uri()]


@pytest.mark.parametrize("width", [1200, 390])
def test_a_page_of_real_results_is_as_good(tab: Tab, tmp_path: Path, width: int) -> None:
    from unmask.pages.demo import page
    from unmask_studies import demo

    file = report.write(page(demo.run(n=600)), tmp_path / "demo.html")
    tab.open(file, width=width)
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.complaints() == []
    assert [url for url in tab.requests() if not url.startswith("data:")] == [file.as_uri()]


COLUMN = "Array.from(document.querySelector('table').tBodies[0].rows, r => r.cells[%d].textContent)"
STATE = "document.querySelectorAll('table thead th')[1].getAttribute('aria-sort')"


def test_tables_sort_by_click(tab: Tab, file: Path) -> None:
    tab.open(file)
    original = tab.run(COLUMN % 1)
    button = "table thead th:nth-child(2) button"
    tab.click(button)
    rising = tab.run(COLUMN % 1)
    assert tab.run(STATE) == "ascending"
    tab.click(button)
    falling = tab.run(COLUMN % 1)
    assert tab.run(STATE) == "descending"
    tab.click(button)
    assert tab.run(STATE) == "none"
    assert tab.run(COLUMN % 1) == original

    def number(cell: str) -> float:
        return float(cell.split()[0].replace("−", "-"))

    *known, gap = rising
    assert [number(c) for c in known] == sorted(number(c) for c in known)
    assert gap == falling[-1] == "–"
    assert falling[:-1] == known[::-1]
    assert original not in (rising, falling)


def test_tables_sort_by_keyboard(tab: Tab, file: Path) -> None:
    tab.open(file)
    tab.run("document.querySelector('table').closest('.scroll').focus()")
    tab.press("Tab")
    tab.press("Tab")
    assert tab.run("document.activeElement.parentElement.cellIndex") == 1
    tab.press("Enter", "\r")
    assert tab.run(STATE) == "ascending"
    assert tab.run("document.activeElement.parentElement.cellIndex") == 1, "the focus stays"


def test_the_first_tab_skips_to_the_content(tab: Tab, file: Path) -> None:
    tab.open(file)
    tab.press("Tab")
    assert tab.run("document.activeElement.className") == "skip"
    tab.press("Enter", "\r")
    assert tab.run("document.activeElement.id") == "main"


def test_charts_follow_the_theme_and_keep_real_text(tab: Tab, file: Path) -> None:
    fill = "getComputedStyle(document.querySelector('figure .panel svg text')).fill"
    tab.open(file)
    light = tab.run(fill)
    tab.open(file, dark=True)
    assert (light, tab.run(fill)) == ("rgb(29, 39, 51)", "rgb(232, 236, 241)")
    texts = tab.run("Array.from(document.querySelectorAll('.panel svg text'), t => t.textContent)")
    assert "propensity" in texts


def test_screen_readers_get_names(tab: Tab, file: Path) -> None:
    tab.open(file)
    nodes = tab.ask("Accessibility.getFullAXTree")["nodes"]
    named = [(n["role"]["value"], n["name"]["value"]) for n in nodes if n.get("name")]
    roles = {role for role, _ in named}
    assert {"main", "navigation", "heading", "image", "table", "columnheader", "rowheader"} <= roles
    for role in ("image", "table", "button", "link", "region", "heading"):
        assert all(name.strip() for found, name in named if found == role), role


def test_data_stays_text(tab: Tab, tmp_path: Path) -> None:
    evil = "<img src=x onerror=document.title='broken'><script>document.title='broken'</script>"
    evil += "long" * 60
    chart = report.Chart("bars", [report.Series(evil, [evil], [1.0])], title=evil, x=evil, y=evil)
    table = report.Table([evil], [[evil]], title=evil, caption=evil)
    section = report.Section(evil, [chart, table, report.Commands([evil]), report.Text(evil)])
    page = report.Page("safe", summary=[evil], sections=[section] * 3, footer=evil)
    tab.open(report.write(page, tmp_path / "evil.html"), width=390)
    assert tab.run("document.title") == "safe"
    assert tab.run("document.documentElement.scrollWidth") <= 390, "long words scroll or break"
    assert tab.run("document.querySelectorAll('img, script').length") == 1, "only our own script"
    assert tab.complaints() == []


def test_it_prints_in_light_colours_without_controls(tab: Tab, file: Path) -> None:
    tab.open(file, dark=True)
    tab.ask("Emulation.setEmulatedMedia", media="print", features=[])
    assert tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    pdf = tab.ask("Page.printToPDF", printBackground=True)["data"]
    tab.ask("Emulation.setEmulatedMedia", media="")
    assert base64.b64decode(pdf).startswith(b"%PDF")
