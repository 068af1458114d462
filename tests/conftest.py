"""Shared fixtures: the real data sets and the browser, where they are present."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers import lanes
from tests.helpers.browser import View, launched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

settings.register_profile(
    "unmask", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unmask")

if os.environ.get("NUMBA_DISABLE_JIT") == "1":
    lanes.install()

REAL_DATA = Path(
    os.environ.get("UNMASK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; tests that need it skip where it is absent."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"real data sets are not in {REAL_DATA}; set UNMASK_DATA to their folder")
    return REAL_DATA


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser of a file of tests; mark the file with `tests.helpers.browser.needs_chromium`."""
    with launched() as browser:
        yield browser


@pytest.fixture
def show(chromium: Browser) -> Iterator[Callable[..., View]]:
    """`show(file, dark=False, width=1200)` opens a page; all are closed after the test."""
    yield partial(View, chromium)
    for context in chromium.contexts:
        context.close()
