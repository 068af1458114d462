"""What every study draws of the stored rows: titles, axes, columns and names, as stored."""

from __future__ import annotations

import csv
import io
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

import unmask_studies
from tests.helpers import golden
from tests.helpers.pages import outline
from tests.helpers.paths import ROOT
from unmask.report import markdown
from unmask.report.charts import Chart, Panels
from unmask.report.tables import as_csv
from unmask_studies import pages, runs

LONG = (
    *(f"Series.{name}" for name in ("x", "y", "low", "high", "style")),
    *("Panels.caption", "Chart.caption", "Chart.description", "Rule.value", "Rule.style"),
    *(f"Note.{name}" for name in ("x", "y", "to")),
)
"""Numbers are stored as CSV, texts are compared with the pages of the documentation."""

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
                lines += outline(part, without=LONG)
    golden.check(golden.file_name("drawings", "../studies/tests"), "\n".join(lines), name)


STORED = [name for name in unmask_studies.STUDIES if runs.rows_file(ROWS, name, "paper").exists()]


def cells(text: str) -> list[str | float]:
    """The cells of a CSV, numbers as such."""
    return [value(cell) for row in csv.reader(io.StringIO(text)) for cell in row]


def value(cell: str) -> str | float:
    try:
        return float(cell)
    except ValueError:
        return cell


def close_to(stored: list[str | float]) -> list[Any]:
    """Words as they are, numbers nearly: their last digits depend on the machine."""
    return [
        pytest.approx(cell, rel=1e-9, abs=1e-12, nan_ok=True) if isinstance(cell, float) else cell
        for cell in stored
    ]


@pytest.mark.parametrize("name", STORED)
def test_stored_rows_give_the_page_of_the_documents(name: str, tmp_path: Path) -> None:
    """Its sentences, claims and tables to the letter, and what its charts show.

    After a change on purpose, `unmask reproduce` writes the page anew.
    """
    shutil.copy(runs.rows_file(ROWS, name, "paper"), tmp_path)
    study = unmask_studies.STUDIES[name]
    rows = runs.run(study, tmp_path, size="paper")
    page = pages.study_page(name, rows, study.draw(rows), "paper", 0)
    text = "\n\n".join(markdown._blocks(page, name)) + "\n"
    assert text == ROWS.with_name(f"{name}.md").read_text(encoding="utf-8")
    if page.drawings:
        with zipfile.ZipFile(ROWS.with_name(name) / markdown.NUMBERS) as numbers:
            for place, drawing in enumerate(page.drawings, start=1):
                stored = numbers.read(f"{place}.csv").decode()
                assert cells(as_csv(drawing)) == close_to(cells(stored))
