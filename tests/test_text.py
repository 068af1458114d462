"""Values as text, the same everywhere, and rows that no spreadsheet runs."""

from __future__ import annotations

import csv
import io
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask._text import csv_of, finite, format_value, harmless, json_of, printable

WRITTEN = [
    (None, "", "–"), (None, ",", "–"), (float("nan"), ".3f", "–"), (float("-inf"), "", "−∞"),
    (True, "", "yes"), (np.bool_(False), "", "no"), (0.12345678, "", "0.1235"),
    (1234567, "", "1,234,567"), (np.int64(1234567), "", "1,234,567"),
    (1234567.0, "", "1,234,567"), (-0.0, "", "0"), (-1e-9, "", "−1e−09"),
    (np.float32(0.5), ".2f", "0.50"), (2.5e9, ".1f", "2.5e+09"), (1e16, "", "1e+16"),
    (12345.678, "", "1.235e+04"), (12345.678, ",", "12,346"), (-1234.5, ",", "−1,234"),
    (999.94, ",", "999.9"), (999.96, ",", "1,000"), (1234567, ",", "1,234,567"),
    (0.12345678, ",", "0.1235"), (999_999_999.4, ",", "999,999,999"), (1e9, ",", "1,000,000,000"),
    (-999_999_999.4, ",", "−999,999,999"), (1e9 + 0.5, ",", "1e+09"), (2.5e9 + 0.5, ",", "2.5e+09"),
    ("a\x00b", ".2f", "a�b"), (("a", 1), "", "('a', 1)"),
]  # fmt: skip


def test_values_as_people_write_them() -> None:
    for value, spec, text in WRITTEN:
        assert format_value(value, spec) == text, (value, spec)


@given(st.floats(-1e300, 1e300), st.sampled_from(["", ","]))
def test_four_digits_survive(value: float, spec: str) -> None:
    text = format_value(value, spec).replace("−", "-").replace(",", "")
    assert float(text) == pytest.approx(value, rel=5e-4)


@given(st.text())
def test_printable_text_can_be_written_as_utf8_and_xml(text: str) -> None:
    element = ElementTree.Element("a")
    element.text = printable(text)
    back = ElementTree.fromstring(ElementTree.tostring(element))  # noqa: S314
    assert (back.text or "") == printable(text).replace("\r\n", "\n").replace("\r", "\n")


def test_csv_runs_no_formulas_and_numbers_stay_numbers() -> None:
    for start in ("=", "+", "-", "@", "\t", "\r", "＝"):
        text = csv_of([{f"{start}head": f"{start}cmd|' /C calc'!A0", "n": -1.5, "more": [start]}])
        (head, *_), (cell, value, more) = csv.reader(io.StringIO(text, newline=""))
        start = start.replace("\r", "\n")
        assert (head, cell) == (f"'{start}head", f"'{start}cmd|' /C calc'!A0")
        assert value == "-1.5"
        assert more.startswith("[")
    assert [harmless(cell) for cell in ("-0.5", "-x", " =1", "-inf")] == [
        "-0.5", "'-x", " =1", "'-inf",
    ]  # fmt: skip
    assert csv_of([], ["a", "b"]) == "a,b\n"


def test_json_has_no_number_that_is_not_finite() -> None:
    assert json_of([]) == "[\n\n]\n"
    nested = {"a": np.array([1.0, np.nan]), "b": (np.float64("inf"), np.int64(2)), 3: None}
    assert finite(nested) == {"a": [1.0, None], "b": [None, 2], "3": None}
