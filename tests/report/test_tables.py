"""Charts and tables as plain rows, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.pages import ONE_OF_EACH
from unmask import report
from unmask.report import Estimate, Page, Section, Table, tables


def test_rows_hold_every_number_of_a_chart() -> None:
    rows = report.rows(ONE_OF_EACH["steps"])
    assert rows == [
        {"series": "a", "x": 0.0, "x_end": 0.1, "y": 5.0},
        {"series": "a", "x": 0.1, "x_end": 1.0, "y": 7.0},
        {"series": "a", "x": 0.3, "x_end": None, "y": None},
    ]
    assert report.rows(ONE_OF_EACH["lines"])[1] == {
        "series": "a",
        "x": 2.0,
        "y": None,
        "low": 1.0,
        "high": 3.0,
    }


def test_estimates_spread_over_columns_beside_their_own() -> None:
    cells = [
        ["a", None, 1],
        ["b", Estimate(0.5, 0.4, 0.6), np.int64(2)],
        ["c", Estimate(1, error=2), 3],
    ]
    rows = report.rows(Table(["name", "R", "n"], cells))
    assert list(rows[0]) == ["name", "R", "R error", "R low", "R high", "n"]
    assert rows[1] == {"name": "b", "R": 0.5, "R low": 0.4, "R high": 0.6, "R error": None, "n": 2}
    assert type(rows[1]["n"]) is int
    with pytest.raises(ValueError, match="two columns would be called 'R low'"):
        report.rows(Table(["R", "R low"], [[Estimate(1, 0, 2), 3]]))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "＝"])
def test_csv_runs_no_formulas(start: str) -> None:
    text = tables.as_csv(Table([start + "head", "n"], [[start + "cmd|' /C calc'!A0", -1.5]]))
    (head, number), (cell, value) = csv.reader(io.StringIO(text, newline=""))
    start = start.replace("\r", "\n")
    assert (head, cell) == ("'" + start + "head", "'" + start + "cmd|' /C calc'!A0")
    assert (number, value) == ("n", "-1.5"), "numbers stay numbers"


def test_negative_numbers_as_text_stay_numbers() -> None:
    assert tables.as_csv(Table(["x"], [["-0.5"], ["-x"]])) == "x\n-0.5\n'-x\n"


def test_an_empty_table_still_has_its_header(tmp_path: Path) -> None:
    table = Table(["a", "b"], [])
    assert tables.as_csv(table) == "a,b\n"
    assert json.loads(tables.as_json(table)) == []
    assert "<th" in report.render(Page("t", sections=[Section("s", [table])]))


@pytest.mark.parametrize(
    ("value", "plain"),
    [(None, None), (True, True), (np.True_, True), (np.False_, False), (np.int32(3), 3), (2.5, 2.5),
     (np.float32(0.5), 0.5), (np.nan, None), (-np.inf, None), ("a", "a")],
)  # fmt: skip
def test_values_become_plain_ones(value: object, plain: object) -> None:
    (row,) = report.rows(Table(["a"], [[value]]))
    assert row == {"a": plain}
    assert type(row["a"]) is type(plain)
