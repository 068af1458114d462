"""Rows of studies as they are stored beside the documentation."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.paths import ROOT
from unmask_studies import runs


def largest_stored(study: str) -> Path:
    """The stored rows of a study, of the largest size that there is."""
    folder = ROOT / "docs" / "results" / "rows"
    paths = (runs.rows_file(folder, study, size) for size in reversed(runs.SIZES))
    return next(path for path in paths if path.exists())
