"""Shared fixtures: the real data sets, where they are present."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "unmask", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unmask")

REAL_DATA = Path(
    os.environ.get("UNMASK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; tests that need it skip where it is absent."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"real data sets are not in {REAL_DATA}; set UNMASK_DATA to their folder")
    return REAL_DATA
