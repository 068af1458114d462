"""Which versions of other libraries the stored numbers and pages were made with."""

from __future__ import annotations

from importlib.metadata import version

from tests.helpers.paths import ROOT

_LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()

PINNED = all(f"{name}=={version(name)}" in _LINES for name in ("numpy", "scipy", "numba"))
"""Whether those of constraints.txt are here: rounding, and so ties, differ between versions."""
