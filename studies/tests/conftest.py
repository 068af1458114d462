"""Studies are tested with the helpers and fixtures of the library's tests."""

from __future__ import annotations

import tests  # noqa: F401 (numbers are rounded alike; set before numpy is imported)
from tests.conftest import real_data

__all__ = ["real_data"]
