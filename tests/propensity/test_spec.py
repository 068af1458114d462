"""Propensities from short descriptions and from files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from unmask import propensity


@pytest.mark.parametrize("inverse", [False, True])
def test_files_round_trip_and_say_what_they_hold(tmp_path: Path, inverse: bool) -> None:
    p = np.array([0.1, 1 / 3, 1.0])
    path = tmp_path / "p.txt"
    if inverse:
        path.write_bytes(gzip.compress(b"10\n3\n1\n"))
    else:
        propensity.write(path, p)
    np.testing.assert_array_equal(
        propensity.read(path), 1 / np.array([10, 3, 1.0]) if inverse else p
    )


def test_bad_files_are_named(tmp_path: Path) -> None:
    for text, message in [
        ("0.5\n2\n", "numbers from 0.5 to 2 are neither"),
        ("0.5\nx\n", r"line 2.*'x'"),
        ("0.5\n0\n", "got 0 at label 1"),
        ("", "empty"),
        ("nan\n", "got nan at label 0"),
    ]:
        path = tmp_path / "p.txt"
        path.write_text(text)
        with pytest.raises(ValueError, match=message) as error:
            propensity.read(path)
        assert "p.txt" in str(error.value)


def test_descriptions_reach_the_models() -> None:
    labels = [[1, 0], [1, 1], [0, 0], [0, 0]]
    for text, wanted in {
        "jain": propensity.jain(labels),
        "jain:": propensity.jain(labels),
        "jain:0.5": propensity.jain(labels, a=0.5),
        "jain:0.5,0.4": propensity.jain(labels, a=0.5, b=0.4),
        "jain:Amazon-670K": propensity.jain(labels, a=0.6, b=2.6),
        "jain:amazon670k": propensity.jain(labels, a=0.6, b=2.6),
        "constant:0.25": propensity.constant(2, 0.25),
        "inverse_linear": propensity.inverse_linear(labels),
        "inverse_linear:3,5": propensity.inverse_linear(labels, head=3, tail=5),
    }.items():
        np.testing.assert_array_equal(propensity.from_spec(text, labels), wanted)


def test_descriptions_that_say_nothing_are_refused() -> None:
    for text, message in [
        ("constant", "write constant:value"),
        ("constant:a", "write constant:value"),
        ("constant:0.5,0.5", "write constant:value"),
        ("jain:0.5,0.4,1", "write jain:a,b"),
        ("jain:0.5,x", "write jain:a,b"),
        ("inverse_linear:two", "write inverse_linear:head,tail"),
        ("jian", "neither a file nor a propensity model"),
    ]:
        with pytest.raises(ValueError, match=message):
            propensity.from_spec(text, [[1], [0], [0]])


def test_a_file_of_the_wrong_length_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_text("0.5\n0.25\n")
    np.testing.assert_array_equal(propensity.from_spec(str(path), np.ones((1, 2))), [0.5, 0.25])
    with pytest.raises(ValueError, match="2 propensities for 3 labels"):
        propensity.from_spec(str(path), np.ones((2, 3)))


def test_files_hold_p_or_its_inverse(tmp_path: Path) -> None:
    for text, inverse, wanted in [
        ("1\n2\n4\n", None, [1, 0.5, 0.25]),
        ("1\n2\n4\n", True, [1, 0.5, 0.25]),
        ("1\n0.5\n", None, [1, 0.5]),
        ("1\n0.5\n", False, [1, 0.5]),
        ("1\n1\n", None, [1, 1]),
        ("1.5\n1.5\n", None, [1 / 1.5] * 2),
        ("1.5\n1\n", None, [1 / 1.5, 1]),
    ]:
        path = tmp_path / "p.txt"
        path.write_text(text)
        np.testing.assert_array_equal(propensity.read(path, inverse=inverse), wanted)


def test_what_the_caller_says_of_a_file_is_held_against_it(tmp_path: Path) -> None:
    for text, inverse in [("2\n", False), ("0.5\n", True), ("0\n", True)]:
        path = tmp_path / "p.txt"
        path.write_text(text)
        with pytest.raises(ValueError, match=r"p\.txt: propensities must lie in \(0, 1\]"):
            propensity.read(path, inverse=inverse)
