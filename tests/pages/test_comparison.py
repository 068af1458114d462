"""Pages of systems compared."""

from __future__ import annotations

import pytest

from tests.helpers.evaluations import ranking_of
from unmask import report
from unmask.metrics import (
    Ranking,
)
from unmask.pages.comparison import differences_section, estimate_cell, ranking_section

VERDICT = {"level": "measured", "reason": "observed-labels", "advice": "", "text": "measured: so"}


def test_differences_stand_with_their_intervals_and_p_values() -> None:
    rows = [
        {"system": "new", "metric": "P@1", "estimator": "vanilla", "value": value, "low": value,
         "high": value, "verdict": VERDICT, "details": {"p_value": p}}
        for value, p in ((0.25, 0.01), (None, None))
    ]  # fmt: skip
    section = differences_section(rows, first="old")
    assert section.title == "Compared with old"
    chart, text, table, verdicts = section.parts
    assert isinstance(text, report.Text)
    assert isinstance(chart, report.Chart)
    assert chart.title == "new − old: above 0 new is better"
    assert [(s.name, s.x, s.y) for s in chart.series] == [("vanilla", ("P@1",), (0.25,))]
    assert [rule.value for rule in chart.rules] == [0.0]
    assert isinstance(table, report.Table)
    assert isinstance(verdicts, report.Verdicts)
    level = report.Verdict("good", "measured")
    assert table.rows == (
        ("new", "P@1", "vanilla", report.Estimate(0.25, 0.25, 0.25), level, 0.01),
        ("new", "P@1", "vanilla", report.Estimate(None), level, None),
    )
    move = {"system": "new", "metric": "P@1", "estimator": "unbiased", "value": 0.2, "gammas": [],
            "efforts": [], "exact": True, "turns_at": 1.4, "text": "it changes"}  # fmt: skip
    last = differences_section(rows, [move]).parts[-1]
    assert isinstance(last, report.Table)
    assert last.rows == (("new, P@1 unbiased", "it changes"),)


def test_only_differences_that_can_be_used_are_drawn() -> None:
    unusable = {**VERDICT, "level": "unusable"}
    rows = [
        {"system": "new", "metric": "P@1", "estimator": name, "value": 0.2, "low": 0.1,
         "high": 0.3, "verdict": verdict, "details": {"p_value": 0.1}}
        for name, verdict in (("vanilla", VERDICT), ("unbiased", unusable))
    ]  # fmt: skip
    (chart,) = (p for p in differences_section(rows).parts if isinstance(p, report.Chart))
    assert [series.name for series in chart.series] == ["vanilla"]
    parts = differences_section(rows[1:]).parts
    assert not any(isinstance(part, report.Chart) for part in parts)


@pytest.mark.parametrize("value", [None, float("nan")])
def test_a_refused_estimate_is_an_empty_cell(value: float | None) -> None:
    row = {"metric": "P@1", "estimator": "unbiased", "value": value, "low": value, "high": value,
           "verdict": VERDICT}  # fmt: skip
    assert estimate_cell(row) == report.Estimate(None)


def test_every_system_has_a_chart_against_the_first() -> None:
    rows = tuple(
        {"model": model, "system": system, "value": 0.6, "first": 0.5, "difference": d,
         "low": d - 0.01, "high": d + 0.01}
        for system, d in (("new", 0.1), ("newer", 0.2))
        for model in ("p", "p²")
    )  # fmt: skip
    verdicts, *drawings, table = ranking_section(Ranking("R@5", "unbiased", "old", rows)).parts
    assert isinstance(verdicts, report.Verdicts)
    assert isinstance(table, report.Table)
    assert [verdict.level for verdict in verdicts.verdicts] == ["info", "info"]
    assert [chart.series[0].name for chart in drawings] == ["new − old", "newer − old"]
    assert [chart.series[0].x for chart in drawings] == [("p", "p²")] * 2
    assert len(table.rows) == 4


def test_a_section_shows_what_the_statement_says() -> None:
    for differences, level in (({"γ = 0": 0.2}, "info"), ({"x": 0.2, "y": -0.2}, "warning")):
        found = ranking_of(differences)
        verdicts, chart, table = ranking_section(found).parts
        assert isinstance(verdicts, report.Verdicts)
        assert [(v.level, v.words) for v in verdicts.verdicts] == [(level, found.statement)]
        assert isinstance(chart, report.Chart)
        assert [(rule.value, rule.name) for rule in chart.rules] == [(0.0, "no difference")]
        (series,) = chart.series
        assert (list(series.x), list(series.y)) == (list(differences), list(differences.values()))
        assert series.low[0] < series.y[0] < series.high[0]
        assert isinstance(table, report.Table)
        assert len(table.rows) == len(differences)


def test_an_order_under_models_that_the_data_refute_is_not_good() -> None:
    """Values that no metric can have refute the model; what they say of an order counts nothing."""
    rows = [
        {"model": name, "parameters": {"γ": γ}, "system": "new", "value": value, "first": 0.5,
         "difference": value - 0.5, "low": value - 0.6, "high": value - 0.4, "level": level}
        for name, γ, value, level in (
            ("γ = 0", 0.0, 0.7, "conditional"), ("γ = 2", 2.0, 3.5, "unusable")
        )
    ]  # fmt: skip
    mixed, refuted, sound = (
        Ranking("P@5", "unbiased", "old", tuple(some)) for some in (rows, rows[1:], rows[:1])
    )
    for ranking, badge, level in (
        (mixed, "doubtful", "warning"), (refuted, "unusable", "error"),
        (sound, "conditional", "info"),
    ):  # fmt: skip
        verdicts = ranking_section(ranking).parts[0]
        assert isinstance(verdicts, report.Verdicts)
        assert {(each.badge, each.level) for each in verdicts.verdicts} == {(badge, level)}
    assert mixed.statement.endswith("The data refute the other 1.")
    assert refuted.statement.startswith("No propensity model gives new and old an order")
