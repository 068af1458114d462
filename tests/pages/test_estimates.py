"""Estimates on pages: charts of rows, levels, and systems compared."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.helpers.evaluations import ranking_of
from unmask import TopK, compare, evaluate, pages, sensitivity
from unmask.metrics import ESTIMATORS, Advice, Table, Tables, powers
from unmask.metrics.claims import Level, Reason, Verdict
from unmask.metrics.comparison import Ranking
from unmask.pages import Chart, Estimate, estimates
from unmask.pages.estimates import (
    STYLES,
    along,
    at_a_glance,
    differences_section,
    estimate_cell,
    level_cell,
    ranking_section,
    side_by_side,
    verdict_list,
)
from unmask.pages.parts import LEVELS, Verdicts

P = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
LABELS = np.array([[1, 0, 1, 0, 0], [0, 1, 0, 0, 1], [1, 1, 0, 0, 0], [0, 0, 0, 1, 0]] * 5)
SCORES = np.array([[5, 4, 3, 2, 1], [1, 5, 2, 3, 4], [4, 1, 5, 2, 3], [1, 2, 3, 5, 4]] * 5)
OPTIONS = {"metrics": ["P@1", "R@3"], "estimators": ["vanilla", "unbiased"]}
GOOD = {"level": "conditional", "reason": "stated-propensities", "advice": "",
        "text": "conditional: if the propensities are right"}  # fmt: skip
BAD = {"level": "unusable", "reason": "few-rows", "advice": "use-deconvolved",
       "text": "unusable: 3 of 200 rows carry 60%; use deconvolved"}  # fmt: skip


def row(metric: str, estimator: str, value: float | None = 0.5, verdict: Any = GOOD,
        **more: Any) -> dict[str, Any]:  # fmt: skip
    low, high = (None, None) if value is None else (value - 0.1, value + 0.1)
    return {"metric": metric, "estimator": estimator, "value": value, "low": low, "high": high,
            "verdict": verdict, **more}  # fmt: skip


@pytest.fixture(scope="module")
def table() -> Table:
    return evaluate(SCORES.astype(np.float32), LABELS, P, **OPTIONS)


@pytest.fixture(scope="module")
def under_powers() -> Tables:
    return sensitivity(SCORES.astype(np.float32), LABELS, powers(P, [0, 1, 2]), **OPTIONS)


def test_a_panel_per_metric_shows_every_estimate_with_its_interval(table: Table) -> None:
    drawn = table.chart().charts
    assert [chart.title for chart in drawn] == ["P@1", "R@3"]
    for chart in drawn:
        for series in chart.series:
            each = table[chart.title, series.name]
            ends = ((each.value,), (each.interval[0],), (each.interval[1],))
            assert (series.y, series.low, series.high) == ends
            assert series.style == STYLES[series.name]
    rows = [row("P@1", "vanilla"), row("R@1", "vanilla", 0.4), row("R@1", "unbiased", 1.2)]
    several = estimates.estimates(rows)
    assert [chart.title for chart in several.charts] == ["R@1"], "one estimate gives way to several"
    assert [chart.title for chart in estimates.estimates(rows[:2]).charts] == ["P@1", "R@1"]
    (gap,) = estimates.estimates([row("R@1", "deconvolved", math.nan)]).charts
    assert gap.series[0].y == (None,)


def test_plots_are_files(table: Table, under_powers: Tables, tmp_path) -> None:
    for name, each in (("one", table), ("many", under_powers)):
        for suffix in (".png", ".svg", ".csv", ".json"):
            assert each.plot(tmp_path / f"{name}{suffix}").stat().st_size > 100
    with pytest.raises(ValueError, match="is saved as"):
        table.plot(tmp_path / "table.pdf")


def test_every_estimator_has_a_style_of_its_own() -> None:
    styles = {name: STYLES[name] for name in ESTIMATORS if name != "normalized"}
    assert len({*styles.values(), STYLES["truth"]}) == len(styles) + 1


def test_models_stand_at_their_parameter_and_systems_by_name(under_powers: Tables) -> None:
    (precision, _) = under_powers.chart().charts
    unbiased = next(series for series in precision.series if series.name == "unbiased")
    assert (precision.kind, unbiased.x) == ("lines", (0.0, 1.0, 2.0))
    assert unbiased.y == tuple(under_powers[key]["P@1", "unbiased"].value for key in under_powers)
    assert [series.style for series in precision.series] == [STYLES["vanilla"], STYLES["unbiased"]]
    tops = {name: TopK.from_scores(s, 1) for name, s in (("a", SCORES), ("b", -SCORES))}
    (chart,) = compare(tops, LABELS, metrics=["P@1"]).chart().charts
    assert (chart.kind, chart.series[0].x) == ("dots", ("b",))
    for first, second in ((0.5, 2.0), (0.5, None), (None, None)):
        rows = [row("P@1", "vanilla", propensity=name, parameters={"c": c} if c else {})
                for name, c in (("γ = 7", first), ("b", second))]  # fmt: skip
        (chart,) = along(rows, label="c").charts
        numeric = second is not None
        assert chart.kind == ("lines" if numeric else "dots")
        assert chart.series[0].x == ((0.5, 2.0) if numeric else ("γ = 7", "b"))
        assert chart.x.label == ("c" if numeric else "")
    two = [row("P@1", "vanilla", propensity=f"a = {a}", parameters={"a": a, "b": 1})
           for a in (0.5, 2)]  # fmt: skip
    assert along(two).charts[0].series[0].x == ("a = 0.5", "a = 2")
    four = [row(f"P@{k}", "vanilla", propensity=f"p^{g}", parameters={"γ": g})
            for k in (1, 3, 5, 7) for g in (0.5, 2)]  # fmt: skip
    found = along(four, rules={"P@3": 0.6})
    assert found.columns == 3
    assert [[rule.value for rule in chart.rules] for chart in found.charts] == [[], [0.6], [], []]
    assert found.charts[1].rules == (pages.Rule("truth", 0.6, style=STYLES["truth"]),)


def test_axes_run_to_one_or_as_far_as_estimates_go_with_a_line_at_the_most_possible() -> None:
    def ends(*values: float | None) -> tuple[Any, Any]:
        axis = estimates.scale(values)
        return axis.low, axis.high

    assert ends(0.0) == ends(0.2, None, math.nan) == ends(1.0, -3.0) == (0, 1)
    assert ends(1.001, 0.4) == ends(1.5) == ends(1.2, 40.0) == (0, 1.5)
    assert ends(1.501) == ends(-0.1) == ends() == ends(None) == (None, None)
    for value, rules in ((0.9, []), (1.1, [("most possible", 1.0)])):
        (chart,) = estimates.estimates([row("P@1", "unbiased", value)]).charts
        assert [(rule.name, rule.value) for rule in chart.rules] == rules


def test_at_a_glance_every_metric_stands_beside_the_best_number_of_it() -> None:
    measured = {**GOOD, "level": "measured"}
    rows = [
        row("P@1", "vanilla", 0.2), row("P@1", "unbiased", 0.4), row("P@1", "deconvolved", 0.3),
        row("R@1", "vanilla", 0.1), row("R@1", "deconvolved", 0.9, BAD), row("R@1", "unbiased"),
        row("R@5", "vanilla", 0.3), row("R@5", "measured", 0.6, measured),
        row("PSP@1", "normalized"), row("nDCG@5", "vanilla"), row("nDCG@5", "unbiased", 0.6, BAD),
    ]  # fmt: skip
    order = ("measured", "deconvolved", "unbiased")
    chart = at_a_glance(rows, order)
    assert chart is not None
    assert {s.name: dict(zip(s.x, s.y, strict=True)) for s in chart.series} == {
        "as recorded": {"P@1": 0.2, "R@1": 0.1, "R@5": 0.3},
        "corrected": {"P@1": 0.3, "R@1": 0.5},
        "measured": {"R@5": 0.6},
    }
    assert at_a_glance([row("P@1", "vanilla"), row("PSP@1", "normalized")], order) is None


def test_the_level_alone_decides_how_a_verdict_is_shown() -> None:
    assert list(estimates.LEVELS) == list(Level)
    assert set(estimates.LEVELS.values()) == LEVELS.keys()
    carried = {"count": 3, "rows": 900, "of": "rows", "share": 0.8}
    for level in Level:
        verdict = Verdict(level, Reason.FEW_ROWS, Advice.USE_DECONVOLVED, carried).to_dict()
        line = row("R@5", "unbiased", verdict=verdict)
        cell = level_cell(line)
        assert (cell.level, cell.words) == (estimates.LEVELS[level], level.value)
        (why,) = verdict_list([line, {**line, "metric": "R@1"}]).verdicts
        assert (why.level, why.badge) == (cell.level, level.value)
        words = "3 of 900 rows carry 80% of the estimate; use deconvolved."
        assert (why.words, why.evidence) == ("R@5 and R@1 by unbiased", words)
    said = {"verdict": {"level": "measured", "text": "unusable: says somebody else"}}
    assert level_cell(said).level == "good"
    with pytest.raises(ValueError, match="splendid"):
        level_cell({"verdict": {"level": "splendid", "text": "splendid"}})


def test_a_refused_estimate_is_an_empty_cell_and_one_far_from_its_interval_stands_alone() -> None:
    for refused in (None, math.nan):
        assert estimate_cell(row("P@1", "unbiased", refused)) == Estimate(None)
    for value, ends in ((0.5, 1), (1.2, 1), (0.1, 1), (1.21, 0), (-0.01, 0), (-3010.4, 0)):
        shown = estimate_cell({"value": value, "low": 0.4, "high": 0.8})
        expected = (value, 0.4, 0.8) if ends else (value, None, None)
        assert (shown.value, shown.low, shown.high) == expected


def test_differences_stand_with_their_intervals_and_p_values() -> None:
    rows = [
        row("P@1", name, value, verdict, system="new", details={"p_value": p})
        for name, value, verdict, p in (
            ("vanilla", 0.25, GOOD, 0.01), ("vanilla", None, GOOD, None),
            ("unbiased", 0.2, BAD, 0.1),
        )
    ]  # fmt: skip
    move = {"system": "new", "metric": "P@1", "estimator": "unbiased", "text": "it changes"}
    section = differences_section(rows, [move], first="old")
    assert section.title == "Compared with old"
    chart, _, table, verdicts, moved = section.parts
    assert chart.title == "new − old: above 0 new is better"
    assert [(s.name, s.x, s.y) for s in chart.series] == [("vanilla", ("P@1",), (0.25,))]
    assert [rule.value for rule in chart.rules] == [0.0]
    level = pages.Verdict("info", "conditional")
    assert table.rows[:2] == (
        ("new", "P@1", "vanilla", Estimate(0.25, 0.15, 0.35), level, 0.01),
        ("new", "P@1", "vanilla", Estimate(None), level, None),
    )
    assert isinstance(verdicts, Verdicts)
    assert moved.rows == (("new, P@1 unbiased", "it changes"),)
    unusable = differences_section(rows[2:]).parts
    assert not any(isinstance(part, Chart) for part in unusable)


def test_the_order_of_systems_is_stated_drawn_and_listed() -> None:
    rows = tuple(
        {"model": model, "system": system, "value": 0.6, "first": 0.5, "difference": d,
         "low": d - 0.01, "high": d + 0.01}
        for system, d in (("new", 0.1), ("newer", 0.2))
        for model in ("p", "p²")
    )  # fmt: skip
    ranking = Ranking("R@5", "unbiased", "old", rows).to_dict()
    verdicts, *drawings, table = ranking_section(ranking).parts
    assert [verdict.level for verdict in verdicts.verdicts] == ["info", "info"]
    assert [chart.series[0].name for chart in drawings] == ["new − old", "newer − old"]
    assert [chart.series[0].x for chart in drawings] == [("p", "p²")] * 2
    assert len(table.rows) == 4
    for differences, level in (({"γ = 0": 0.2}, "info"), ({"x": 0.2, "y": -0.2}, "warning")):
        found = ranking_of(differences)
        verdicts, chart, table = ranking_section(found.to_dict()).parts
        assert [(v.level, v.words) for v in verdicts.verdicts] == [(level, found.statement)]
        assert [(rule.value, rule.name) for rule in chart.rules] == [(0.0, "no difference")]
        (series,) = chart.series
        assert dict(zip(series.x, series.y, strict=True)) == differences
        assert series.low[0] < series.y[0] < series.high[0]
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
    for some, badge, level in ((rows, "doubtful", "warning"), (rows[1:], "unusable", "error"),
                               (rows[:1], "conditional", "info")):  # fmt: skip
        ranking = Ranking("P@5", "unbiased", "old", tuple(some))
        shown = ranking_section(ranking.to_dict()).parts[0].verdicts
        assert {(each.badge, each.level) for each in shown} == {(badge, level)}
        assert ranking.statement.endswith("The data refute the other 1.") == (some is rows)


def test_several_evaluations_stand_side_by_side() -> None:
    records = {"one": {"estimates": [row("P@1", "vanilla", 0.25)]},
               "two": {"estimates": [row("P@5", "vanilla")]}}  # fmt: skip
    (table,) = side_by_side(records).parts
    assert table.rows == (
        ("P@1", "vanilla", Estimate(0.25, 0.15, 0.35), None),
        ("P@5", "vanilla", None, Estimate(0.5, 0.4, 0.6)),
    )
