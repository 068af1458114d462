"""Devices that tests may write to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def terminal() -> Iterator[tuple[Path, int]]:
    """A character device of our own: its path, and the descriptor that shows what it got."""
    ours, theirs = os.openpty()
    try:
        yield Path(os.ttyname(theirs)), ours
    finally:
        os.close(ours)
        os.close(theirs)
