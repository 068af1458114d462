"""Shared fixtures: a limit of time, and the real data sets and the browser, where present."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
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

UNCOMPILED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
if UNCOMPILED:
    lanes.install()

REAL_DATA = Path(
    os.environ.get("UNMASK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)


FIRST = (
    "tests/cli/test_warm.py",  # compiles all kernels …
    "tests/test_docs.py",  # … while this file, which needs few, keeps another process busy
    "studies/tests/test_studies.py",
    "tests/cli/test_interruption.py",
    "tests/parallel/test_parallel.py",
    "tests/_kernels/test_cache.py",
    "tests/torch/test_compiled.py",
    "tests/torch/test_parallel.py",
    "tests/torch/test_trainers.py",
    "studies/tests/test_training.py",
    "tests/test_demo.py",
    "tests/test_tutorials.py",
    "tests/test_examples.py",
    "tests/test_fuzz_api.py",
    "tests/models/test_tune.py",
    "tests/tools/test_bounds.py",
)
"""Files of few tests that take long. They begin first: the tests of a file stay in one process, and
one that began last would leave the others without work."""


def pytest_configure(config: pytest.Config) -> None:
    """Compiled arithmetic does not warn, so that of kernels without the compiler need not."""
    if UNCOMPILED:
        config.addinivalue_line("filterwarnings", "ignore::RuntimeWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, then those of many tests."""
    files = Counter(_file(item) for item in items)
    rank = {file: place for place, file in enumerate(FIRST)}
    items.sort(key=lambda each: (rank.get(_file(each), len(FIRST)), -files[_file(each)]))


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


@pytest.fixture
def patience() -> Iterator[None]:
    """What hangs fails its test rather than all of them."""

    def too_long(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("this takes too long")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(900)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


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
