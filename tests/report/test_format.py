"""Values as text, the same everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.report import format_value, printable


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (None, "", "–"),
        (float("nan"), ".3f", "–"),
        (float("-inf"), "", "−∞"),
        (True, "", "yes"),
        (np.bool_(False), "", "no"),
        (0.12345678, "", "0.1235"),
        (1234567, "", "1,234,567"),
        (np.int64(1234567), "", "1,234,567"),
        (1234567.0, "", "1,234,567"),
        (-0.0, "", "0"),
        (-1e-9, "", "−1e−09"),
        (np.float32(0.5), ".2f", "0.50"),
        (2.5e9, ".1f", "2.5e+09"),
        (1e16, "", "1e+16"),
        (12345.678, "", "1.235e+04"),
        (12345.678, ",", "12,346"),
        (-1234.5, ",", "−1,234"),
        (999.96, ",", "1,000"),
        (1234567, ",", "1,234,567"),
        (0.12345678, ",", "0.1235"),
        (2.5e9 + 0.5, ",", "2.5e+09"),
        (None, ",", "–"),
        ("a\x00b", ".2f", "a�b"),
        (("a", 1), "", "('a', 1)"),
    ],
)
def test_values_as_people_write_them(value: object, spec: str, text: str) -> None:
    assert format_value(value, spec) == text


@given(st.floats(-1e300, 1e300), st.sampled_from(["", ","]))
def test_four_digits_survive(value: float, spec: str) -> None:
    text = format_value(value, spec).replace("−", "-").replace(",", "")
    assert float(text) == pytest.approx(value, rel=5e-4)


@given(st.text())
def test_printable_text_can_be_written_as_utf8_and_xml(text: str) -> None:
    from xml.etree import ElementTree

    element = ElementTree.Element("a")
    element.text = printable(text)
    back = ElementTree.fromstring(ElementTree.tostring(element))  # noqa: S314
    assert (back.text or "") == printable(text).replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (999.94, "999.9"), (999.96, "1,000"), (999_999_999.4, "999,999,999"),
        (1e9 + 0.5, "1e+09"), (1e9, "1,000,000,000"), (-999_999_999.4, "−999,999,999"),
    ],
)  # fmt: skip
def test_numbers_with_separators_are_rounded_up_to_a_thousand_million(
    value: float, text: str
) -> None:
    assert format_value(value, ",") == text
