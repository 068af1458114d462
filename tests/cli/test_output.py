"""What commands print, to the letter: facts, tables, JSON, mistakes, and how fast work goes."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from unmask.cli import output
from unmask.cli.evaluate import _decisive


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal of sixty columns in place of the consoles for results and for messages."""
    text = io.StringIO()
    console = Console(file=text, width=60, color_system=None)
    for name in ("results", "messages"):
        monkeypatch.setattr(output, name, console)
    return text


def test_facts_stand_below_one_another(wide: io.StringIO) -> None:
    output.show_facts("title", {"rows": 12345, "share": 0.25})
    assert wide.getvalue().splitlines() == [
        "title",
        "               ",
        " rows   12,345 ",
        " share  0.25   ",
        "               ",
    ]


def test_of_a_long_path_nothing_is_left_out(wide: io.StringIO) -> None:
    path = "/" + "p" * 70
    output.show_facts("title", {"file": path})
    assert "".join(row.split()[-1] for row in wide.getvalue().splitlines() if "pp" in row) == path


def test_tables_have_words_on_the_left_and_numbers_on_the_right(wide: io.StringIO) -> None:
    rows = [("a", 1, "x"), ("bbbb", 12345.5, 7)]
    output.show_rows("t" * 70, ["name", "count", "mixed"], rows)
    assert wide.getvalue().splitlines() == [
        "t" * 70,
        "                     ",
        " name   count  mixed ",
        " ─────────────────── ",
        " a          1      x ",
        " bbbb  12,346      7 ",
        "                     ",
    ]


@pytest.mark.parametrize(("speed", "text"), [(None, ""), (0.0, ""), (1234.4, "1,234/s")])
def test_the_rate_of_work_is_shown_once_it_is_known(speed: float | None, text: str) -> None:
    task: Any = SimpleNamespace(speed=speed)
    assert output._Rate().render(task).plain == text


def test_json_has_no_number_that_is_not_one(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_json({"a": np.array([1.0, np.nan]), "b": (np.float32(np.inf), 3), 4: None})
    assert json.loads(capsys.readouterr().out) == {"a": [1.0, None], "b": [None, 3], "4": None}
    output.show_json({"a": [1, float("nan"), float("inf")], "b": "ü\x7f"})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"a": [1, None, None], "b": "ü\x7f"}
    assert printed == (
        '{\n  "a": [\n    1,\n    null,\n    null\n  ],\n  "b": "\\u00fc\\u007f"\n}\n'
    )


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such thing " * 6), "unmask: " + "no such thing " * 6),
        (FileNotFoundError(2, "No such file", b"x.csv"), "unmask: x.csv: No such file"),
        (OSError("only words"), "unmask: only words"),
    ],
)
def test_mistakes_are_one_line_however_long(error: Exception, text: str, wide: io.StringIO) -> None:
    output.show_error(error)
    assert wide.getvalue().rstrip() == text.rstrip()
    assert wide.getvalue().count("\n") == 1


def test_warnings_are_one_line_however_long(wide: io.StringIO) -> None:
    output.warn("careful " * 12)
    assert wide.getvalue().rstrip() == ("unmask: warning: " + "careful " * 12).rstrip()
    assert wide.getvalue().count("\n") == 1


def test_consoles_write_where_they_should() -> None:
    streams = (output.results.stderr, output.messages.stderr, output.progress_console.stderr)
    assert streams == (False, True, True)


def test_a_bar_moves_by_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    console = Console(file=text, width=90, color_system=None, force_terminal=True)
    monkeypatch.setattr(output, "progress_console", console)
    with output.bar("work [b]") as move:
        move(3, 8)
    last = text.getvalue()
    assert "work [b]" in last
    assert "3/8" in last


@pytest.mark.parametrize(
    ("cells", "chosen"),
    [
        ([("P@1", "unbiased"), ("P@5", "unbiased"), ("R@5", "vanilla")], [("P@5", "unbiased")]),
        ([("P@5", "deconvolved"), ("R@5", "unbiased")], [("R@5", "unbiased")]),
        (
            [("R@3", "unbiased"), ("R@3", "deconvolved"), ("P@3", "unbiased"), ("nDCG@3", "x")],
            [("R@3", "deconvolved"), ("P@3", "unbiased")],
        ),
        ([("R@1", "deconvolved"), ("R@5", "unbiased")], [("R@5", "unbiased")]),
        ([("nDCG@5", "unbiased"), ("P@5", "vanilla")], []),
    ],
)
def test_systems_are_ordered_by_precision_and_recall(
    cells: list[tuple[str, str]], chosen: list[tuple[str, str]]
) -> None:
    """At the largest cut-off of each, by the best estimator that this very metric has."""
    table: Any = [SimpleNamespace(metric=metric, estimator=name) for metric, name in cells]
    assert _decisive(table) == chosen
