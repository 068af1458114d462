"""Pages in a real browser: the system's Chromium, headless, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

needs_chromium = [
    pytest.mark.skipif(CHROMIUM is None, reason=f"none of {', '.join(NAMES)} is on PATH"),
    pytest.mark.skipif(find_spec("playwright") is None, reason="playwright is not installed"),
    pytest.mark.browser,
    pytest.mark.xdist_group("browser"),  # one process runs them all
]
"""`pytestmark` of a file of browser tests."""


@contextmanager
def launched() -> Iterator[Browser]:
    """A headless Chromium.

    While it is open an event loop runs in this thread, so no fixture may hold it longer than a
    module: `asyncio.run` fails in between.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


class View:
    """A file shown in a fresh browser context, with everything it loads and complains of."""

    def __init__(
        self, browser: Browser, file: Path, *, dark: bool = False, width: int = 1200
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            is_mobile=width < 600,
        )
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        return self.page.evaluate(script)

    def reload(self) -> None:
        """Load the page again until it starts from what it kept: another process writes that.

        A busy machine may lose what was written just before a page goes. Then it is put back, for
        what the page makes of it is the question; one that writes over it does so every time.
        """
        storage = "JSON.stringify(Object.entries(localStorage).sort())"
        put_back = "text => JSON.parse(text).forEach(([k, v]) => localStorage.setItem(k, v))"
        kept = self.run(storage)
        for _ in range(4):
            for pause in (2000, *[200] * 20):
                self.page.wait_for_timeout(pause)
                self.page.reload()
                if self.run(storage) == kept:
                    return
            self.page.evaluate(put_back, kept)
        raise AssertionError("the page does not start from what it kept")

    def accessible_nodes(self) -> list[tuple[str, str]]:
        """Role and name of everything that assistive technology is told about."""
        session = self.context.new_cdp_session(self.page)
        nodes = session.send("Accessibility.getFullAXTree")["nodes"]
        return [(n["role"]["value"], n["name"]["value"]) for n in nodes if n.get("name")]
