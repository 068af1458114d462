"""Alt texts: at most two sentences, which say what is drawn over what and the main finding."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.helpers.pages import ONE_OF_EACH, rich_page
from unmask import report
from unmask.report import Axis, Chart, Panels, Rule, Series
from unmask.report.charts import alt_text, charts_of


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=\.) (?=[A-Z])", text)


@pytest.mark.parametrize("kind", report.KINDS)
def test_descriptions_name_every_series(kind: str) -> None:
    first, _ = sentences(alt_text(ONE_OF_EACH[kind]))
    names = first.partition(": ")[2].rstrip(".").partition(";")[0].split(", ")
    assert names == [series.name for series in ONE_OF_EACH[kind].series]
    own = Chart(kind, ONE_OF_EACH[kind].series, description="Mine.")
    assert alt_text(own) == "Mine."


def test_two_sentences_however_much_is_drawn() -> None:
    for drawing in rich_page().drawings:
        for shown in (drawing, *charts_of(drawing)):
            text = alt_text(shown)
            assert len(sentences(text)) == 2, text
            assert text.endswith(".")
            assert len(text) < 250
    many = [Series(f"series {i}", range(50), np.arange(50) * i) for i in range(40)]
    text = alt_text(Panels([Chart("lines", many, title=f"panel {i}") for i in range(12)]))
    assert len(sentences(text)) == 2
    assert "series 5, 34 more" in text
    assert len(text) < 400


@pytest.mark.parametrize(
    ("drawing", "text"),
    [
        (
            Chart("lines", [Series("a", [1, 2, 3], [0.5, 0.9, 0.7])], x="p", y="R"),
            "Line chart of R over p: a. It goes from 0.5 at 1 to 0.7 at 3, between 0.5 and 0.9.",
        ),
        (
            Chart("lines", [Series("flat", [1, 2], [3, 3]), Series("steep", [1, 2], [3, 9])]),
            "Line chart of values: flat, steep. Series steep goes from 3 at 1 to 9 at 2.",
        ),
        (
            Chart("lines", [Series("flat", [1, 2], [3, 3])], title="Loss"),
            "Line chart of Loss: flat. It stays at 3.",
        ),
        (
            Chart("dots", [Series("a", ["a"], [2]), Series("b", ["b"], [1])],
                  y=Axis("R@5"), rules=[Rule("truth", 1.5)]),
            "Dot plot of R@5: a, b; dashed: truth at 1.5. "
            "The lowest value is 1 (b), the highest 2 (a).",
        ),
        (
            Chart("dots", [Series("a", ["x", "y"], [-2, None])]),
            "Dot plot of values: a. All values are −2.",
        ),
        (
            Chart("lines", [Series("gone", [1, 2], [None, None])]),
            "Line chart of values: gone. There are no values to show.",
        ),
        (
            Panels([
                Chart("lines", [Series("gone", [1], [None])], title="empty", y="R"),
                Chart("lines", [Series("a", [1, 2], [3, 4])], title="full", y="R",
                      rules=[Rule("truth", 1.5)]),
            ]),
            "2 line charts of R: gone, a; dashed: truth. In full, it goes from 3 at 1 to 4 at 2.",
        ),
        (
            Panels([
                Chart("steps", [Series("a", [0, 1], [1])], title="one"),
                Chart("dots", [Series("a", ["x"], [5])], title="two"),
            ]),
            "2 charts of one, two: a. In one, all values are 1.",
        ),
    ],
    ids=["line", "steepest", "flat", "dots", "same", "empty", "panels", "mixed"],
)  # fmt: skip
def test_what_is_drawn_and_the_main_finding(drawing: report.Drawing, text: str) -> None:
    assert alt_text(drawing) == text
