"""What was tried, as a table and as charts, from plain values."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from unmask.models import tune as result
from unmask.tuning import Because


def tried(family: str, cost: float, value: float | None, rung: int) -> dict[str, Any]:
    return {"family": family, "C": cost, "value": value, "rows": 100 * 4**rung, "rung": rung}


TRIED = [
    tried("plain", 1.0, 0.30, 0),
    tried("plain", 0.1, 0.20, 0),
    tried("corrected", 0.1, 0.50, 0),
    tried("corrected", 1.0, None, 0),
    tried("corrected", 1.0, 0.45, 1),
    tried("corrected", 0.5, 0.40, 1),
    tried("other", 2.0, math.nan, 0),
]


def record(judged_by: str) -> dict[str, Any]:
    return {
        "tried": TRIED, "judged_by": judged_by, "estimator": "unbiased",
        "chosen": {"family": "corrected"},
    }  # fmt: skip


def test_a_panel_for_every_rung_and_a_line_for_every_family() -> None:
    panels = result.chart(record("R@5"))
    assert [chart.title for chart in panels.charts] == [
        "trained on 100 rows", "trained on 400 rows",
    ]  # fmt: skip
    first, second = (
        {each.name: list(zip(each.x, each.y, strict=True)) for each in chart.series}
        for chart in panels.charts
    )
    assert first["plain"] == [(0.1, 0.20), (1.0, 0.30)]
    assert first["corrected"] == [(0.1, 0.50), (1.0, None)]
    assert list(first) == ["plain", "corrected", "other"]
    assert second == {"corrected": [(0.5, 0.40), (1.0, 0.45)]}
    assert panels.columns == 2
    for chart in panels.charts:
        assert chart.x.log
        assert chart.y.label == "R@5 (unbiased)"


@pytest.mark.parametrize(
    ("judged_by", "plain", "corrected"),
    [("R@5", (1.0, 0.30), (1.0, 0.45)), ("Hamming@5", (0.1, 0.20), (0.5, 0.40))],
)
def test_the_best_of_every_family_on_its_last_rung(
    judged_by: str, plain: tuple[float, float], corrected: tuple[float, float]
) -> None:
    """Higher is better, or lower for a loss; what has no number comes last."""
    rows = [list(row) for row in result.summary_table(record(judged_by)).rows]
    assert rows[0] == ["→", "corrected", *corrected, 400, 2]
    assert rows[1] == ["", "plain", *plain, 100, 1]
    assert rows[2][:3] == ["", "other", 2.0]


@pytest.mark.parametrize(
    ("because", "said"),
    [
        (Because.ALONE, "No other training could be compared by R@5."),
        (Because.BEST, "It is the best by estimated R@5 of all that was tried."),
        (
            next(each for each in Because if each not in (Because.ALONE, Because.BEST)),
            "It needs no propensities and is within half a standard error (of 0.0123) of the "
            "best, corrected.",
        ),
    ],
)
def test_why_a_training_was_chosen(because: Because, said: str) -> None:
    best = SimpleNamespace(family=SimpleNamespace(name="corrected"))
    tuned: Any = SimpleNamespace(
        because=because, judged_by="R@5", measure="estimated R@5", error=0.01234, best=best
    )
    assert result._choice(tuned) == said
