"""What every study draws of the stored rows: titles, axes, columns and names, as stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

import unmask_studies
from tests.helpers import golden
from tests.helpers.paths import ROOT
from unmask.report.charts import Chart, Panels, Series
from unmask_studies import runs


def outline(part: Any, depth: int = 0) -> Iterator[str]:
    """Charts and panels, one record a line, without the numbers: those are stored as CSV."""
    if isinstance(part, Series):
        bands = " with intervals" if part.low else ""
        yield f"{'  ' * depth}{part.name}{bands}"
        return
    own = {each.name: getattr(part, each.name) for each in fields(part)}
    plain = {name: value for name, value in own.items() if not holds_records(value) and value}
    words = ", ".join(f"{name}={value}" for name, value in plain.items() if name not in LONG)
    yield f"{'  ' * depth}{type(part).__name__} {words}"
    for value in own.values():
        for each in value if isinstance(value, tuple | list) else [value]:
            if is_dataclass(each):
                yield from outline(each, depth + 1)


LONG = ("caption", "description", "style", "value", "x", "y", "to")
"""Texts are compared with the pages of the documentation."""


def holds_records(value: Any) -> bool:
    return is_dataclass(value) or (
        isinstance(value, tuple | list) and any(is_dataclass(each) for each in value)
    )


ROWS = ROOT / "docs" / "results" / "rows"
MEASURED = [
    name
    for name in unmask_studies.STUDIES
    if name != "training" and runs.rows_file(ROWS, name, "paper").exists()
]


@pytest.mark.parametrize("name", MEASURED)
def test_drawings(name: str) -> None:
    rows = runs.read_rows(runs.rows_file(ROWS, name, "paper"))
    sections = unmask_studies.STUDIES[name].draw(rows)
    lines = [f"{name}: {len(sections)} sections"]
    for section in sections:
        for part in section.parts:
            if isinstance(part, Chart | Panels):
                lines += outline(part)
    golden.check(golden.file_name("drawings", "studies"), "\n".join(lines), name)
