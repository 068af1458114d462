"""Pages as Markdown: every part has a form, every link a file, and data stays text."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from unmask import report
from unmask.report import html, markdown
from unmask.report.page import Part
from unmask.report.tables import as_csv

CHART = report.Chart("lines", [report.Series("vanilla", [1, 2], [0.5, 0.6])], title="Recall")


def written(tmp_path: Path, *shown: Part) -> str:
    page = report.Page("Study", sections=[report.Section("Part", shown)])
    return report.write_markdown(page, tmp_path / "study.md").read_text()


def test_every_part_of_a_page_has_its_form_in_markdown() -> None:
    assert markdown.BLOCKS.keys() == html.VIEWS.keys()


def test_links_lead_to_files_and_every_drawing_is_linked(tmp_path: Path) -> None:
    text = written(tmp_path, CHART, report.Panels([CHART, CHART]))
    links = re.findall(r"\]\((.+?)\)", text)
    assert links == ["study/1.svg", "study/numbers.zip", "study/2.svg", "study/numbers.zip"]
    assert all((tmp_path / link).is_file() for link in links)
    with zipfile.ZipFile(tmp_path / "study" / "numbers.zip") as numbers:
        assert numbers.namelist() == re.findall(r"\((\d\.csv)\)", text) == ["1.csv", "2.csv"]
        assert numbers.read("1.csv").decode() == as_csv(CHART)


def test_the_same_numbers_are_the_same_file(tmp_path: Path) -> None:
    pages = [tmp_path / "a", tmp_path / "b"]
    for folder in pages:
        folder.mkdir()
        written(folder, CHART)
    first, second = ((folder / "study" / "numbers.zip").read_bytes() for folder in pages)
    assert first == second


def test_a_table_keeps_its_shape_whatever_its_cells_say(tmp_path: Path) -> None:
    hostile = ["a|b", "<script>", "line\nbreak", "`x|y`"]
    text = written(tmp_path, report.Table(["name", "n"], [[name, 1] for name in hostile]))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [len(re.findall(r"(?<!\\)\|", line)) for line in lines]
    assert cells == [3] * (2 + len(hostile))
    assert "\\<script\\>" in text


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (report.Estimate(0.5, low=0.4, high=0.6), "0.50 \\[0.40, 0.60\\]"),
        (report.Verdict("good", "trust"), "✓ trust"),
        (None, "–"),
        (-1.0, "−1.00"),
    ],
)
def test_cells_read_as_on_the_page(tmp_path: Path, cell: report.Cell, text: str) -> None:
    table = report.Table(["name", report.Column("R@5", ".2f")], [["x", cell]])
    assert f"| x | {text} |" in written(tmp_path, table)


def test_code_between_backticks_stays_code_and_the_rest_is_shown_as_it_is(tmp_path: Path) -> None:
    assert "use `a_b` not a\\_b" in written(tmp_path, report.Text("use `a_b` not a_b"))


def test_claims_with_an_effect_are_a_table_and_their_numbers_are_folded(tmp_path: Path) -> None:
    claim = report.Verdict(
        "good", "a | b", evidence="R@5 0.8 of `x`", badge="holds", effect="+1.0 points (0.5 to 1.5)"
    )
    other = report.Verdict("error", "c", evidence="0 of 3", badge="does not hold")
    text = written(tmp_path, report.Verdicts([claim, other]))
    assert r"| a \| b | ✓ holds | +1.0 points (0.5 to 1.5) |" in text
    assert "| c | ✕ does not hold | 0 of 3 |" in text
    folded = text.partition("<details")[2].partition("</details>")[0]
    assert r"- **a \| b**: R@5 0.8 of `x`" in folded
    assert "0 of 3" not in folded
