"""The page of an evaluation: what its first sentences say, and what stands where."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unmask import pages, report
from unmask._typing import Record
from unmask.metrics import ESTIMATORS, charts, evaluate, powers, sensitivity
from unmask.pages import evaluation, label_figures
from unmask.report.charts import charts_of

GOOD = {"level": "conditional", "reason": "stated-propensities", "advice": "",
        "text": "conditional: if the propensities are right"}  # fmt: skip
BAD = {"level": "unusable", "reason": "few-rows", "advice": "use-deconvolved",
       "text": "unusable: 3 of 200 rows carry 60%; use deconvolved"}  # fmt: skip


def row(
    metric: str, estimator: str, value: float | None = 0.5, verdict: dict[str, str] = GOOD
) -> Record:
    low, high = (None, None) if value is None else (value - 0.1, value + 0.1)
    return {"metric": metric, "estimator": estimator, "value": value, "low": low, "high": high,
            "verdict": verdict}  # fmt: skip


def record(*rows: Record) -> Record:
    return {"kind": "evaluation", "source": "system.txt", "estimates": list(rows)}


def cells(column: str, section: report.Section) -> list[report.Cell]:
    (table,) = (part for part in section.parts if isinstance(part, report.Table))
    index = [head.name for head in table.heads].index(column)
    return [line[index] for line in table.rows]


def test_the_summary_shows_the_preferred_estimate_of_the_last_k() -> None:
    estimators = ("vanilla", "unbiased", "deconvolved")
    rows = [
        row(f"{kind}@{k}", name, 0.1 * k + 0.01 * i)
        for kind in ("P", "R", "nDCG", "PSP")
        for k in (1, 5)
        for i, name in enumerate(estimators)
    ]
    first, second = evaluation.summary(record(*rows))
    assert first == (
        "Taken at face value P@5 is 0.500; corrected for missing labels (unbiased) it is 0.510, "
        "interval 0.410 to 0.610 (conditional: if the propensities are right)."
    )
    assert second == (
        "Taken at face value R@5 is 0.500; corrected for missing labels (deconvolved) it is 0.520, "
        "interval 0.420 to 0.620 (conditional: if the propensities are right)."
    )


def test_below_a_headline_the_summary_only_adds_what_was_recorded() -> None:
    measured = {**GOOD, "level": "measured"}
    rows = [
        row("P@5", "vanilla", 0.3), row("P@5", "unbiased", 0.5), row("R@5", "vanilla", 0.4),
        row("R@5", "deconvolved", 0.6, BAD), row("R@5", "measured", 0.7, measured),
    ]  # fmt: skip
    stored: Record = {**record(*rows), "headline": "R@5 is 0.700."}
    assert evaluation.summary(stored)[:3] == [
        "R@5 is 0.700.",
        "As recorded → corrected: P@5 0.300 → 0.500.",
        "As recorded → measured: R@5 0.400 → 0.700.",
    ]


def test_at_a_glance_every_metric_stands_beside_the_best_number_of_it() -> None:
    measured = {**GOOD, "level": "measured"}
    rows = [
        row("P@1", "vanilla", 0.2), row("P@1", "unbiased", 0.4), row("P@1", "deconvolved", 0.3),
        row("R@1", "vanilla", 0.1), row("R@1", "deconvolved", 0.9, BAD), row("R@1", "unbiased"),
        row("R@5", "vanilla", 0.3), row("R@5", "measured", 0.6, measured),
        row("PSP@1", "normalized"), row("nDCG@5", "vanilla"), row("nDCG@5", "unbiased", 0.6, BAD),
    ]  # fmt: skip
    chart = evaluation.at_a_glance(rows)
    assert chart is not None
    assert {s.name: dict(zip(s.x, s.y, strict=True)) for s in chart.series} == {
        "as recorded": {"P@1": 0.2, "R@1": 0.1, "R@5": 0.3},
        "corrected": {"P@1": 0.3, "R@1": 0.5},
        "measured": {"R@5": 0.6},
    }
    assert evaluation.at_a_glance([row("P@1", "vanilla"), row("PSP@1", "normalized")]) is None


def test_the_summary_passes_over_what_cannot_be_used() -> None:
    rows = [row("R@5", "vanilla"), row("R@5", "deconvolved", 0.6, BAD), row("R@5", "unbiased", 0.7)]
    first, second = evaluation.summary(record(*rows))
    assert "(unbiased) it is 0.700" in first
    assert second.startswith("1 of 3 estimates cannot be used (R@5 deconvolved)")


def test_the_summary_says_why_an_estimate_was_refused() -> None:
    rows = [row("R@5", "vanilla"), row("R@5", "deconvolved", None, BAD)]
    first, second = evaluation.summary(record(*rows))
    assert first.endswith(
        "the deconvolved estimate was refused: unusable: 3 of 200 rows carry 60%; use deconvolved."
    )
    assert second.startswith("1 of 2 estimates")


def test_nothing_is_said_where_nothing_was_corrected() -> None:
    assert evaluation.summary(record(row("P@1", "vanilla"), row("nDCG@1", "unbiased"))) == []


def test_long_lists_of_unusable_estimates_are_cut() -> None:
    rows = [row(f"nDCG@{k}", "unbiased", 0.5, BAD) for k in range(1, 7)]
    (sentence,) = evaluation.summary(record(*rows))
    assert "6 of 6 estimates cannot be used (nDCG@1 unbiased, " in sentence
    assert "nDCG@4 unbiased …)" in sentence
    assert "nDCG@5" not in sentence


def test_the_table_shows_the_verdict_with_its_level() -> None:
    rows = [row("P@1", "vanilla"), row("P@1", "unbiased", None, BAD)]
    section = evaluation.sections(record(*rows))[0]
    assert [verdict.level for verdict in cells("level", section)] == ["info", "error"]
    (verdicts,) = (part for part in section.parts if isinstance(part, report.Verdicts))
    assert [each.badge for each in verdicts.verdicts] == ["conditional", "unusable"]
    assert cells("value", section) == [report.Estimate(0.5, 0.4, 0.6), report.Estimate(None)]


def test_estimates_open_with_a_picture_and_repeat_none() -> None:
    refuted = [row("P@1", "vanilla"), row("P@1", "unbiased", 1.4, BAD)]
    few = [row("P@1", "vanilla"), row("P@1", "unbiased")]
    many = [*few, row("P@1", "deconvolved")]
    for rows, pictures in ((refuted, 1), (few, 1), (many, 2)):
        parts = evaluation.sections(record(*rows))[0].parts
        assert isinstance(parts[0], (report.Chart, report.Panels))
        assert sum(isinstance(part, (report.Chart, report.Panels)) for part in parts) == pictures


def test_several_evaluations_stand_side_by_side() -> None:
    one, two = record(row("P@1", "vanilla", 0.25)), record(row("P@5", "vanilla", 0.5))
    section = evaluation.side_by_side({"one": one, "two": two})
    assert cells("metric", section) == ["P@1", "P@5"]
    assert cells("one", section) == [report.Estimate(0.25, 0.15, 0.35), None]
    assert cells("two", section) == [None, report.Estimate(0.5, 0.4, 0.6)]


def test_records_and_bare_lists_are_recognised() -> None:
    path, rows = Path("ours.json"), [row("P@1", "vanilla")]
    assert evaluation.recognise(path, record(*rows)) == [record(*rows)]
    (bare,) = evaluation.recognise(path, rows)
    assert (bare["source"], bare["estimates"]) == ("ours", rows)
    for other in ({"kind": "diagnosis"}, [], [1], [{"metric": "P@1"}], None, path):
        assert evaluation.recognise(path, other) == []


@pytest.fixture(scope="module")
def page() -> report.Page:
    rng = np.random.default_rng(0)
    labels, scores = rng.random((60, 8)) < 0.3, rng.random((60, 8)).astype(np.float32)
    p, names = np.linspace(0.9, 0.4, 8), [n for n in ESTIMATORS if n != "normalized"]
    table = evaluate(scores, labels, p, metrics=["P@1", "R@3"], estimators=names)
    varied = sensitivity(scores, labels, powers(p, [0, 1]), metrics=["R@3"], estimators=names[:3])
    made = {
        "kind": "evaluation", "source": "s", "estimates": table.to_dicts(),
        "sensitivity": varied.to_dicts(), "labels": label_figures.label_facts(labels, p),
    }  # fmt: skip
    return pages.page([made])


def test_an_estimator_has_its_style_in_every_drawing(page: report.Page) -> None:
    panels = [chart for drawing in page.drawings for chart in charts_of(drawing)]
    named = [series for chart in panels for series in chart.series if series.name in charts.STYLES]
    assert {series.name for series in named} >= {"vanilla", "unbiased", "deconvolved"}
    assert len(named) > 10
    for series in named:
        assert series.style == charts.STYLES[series.name]


def test_the_page_is_drawn(page: report.Page) -> None:
    assert [section.title for section in page.sections] == [
        "Estimates", "Sensitivity to the propensities", "The labels", "What the estimators mean",
    ]  # fmt: skip
    assert report.render(page)


def test_a_page_opens_with_the_headline_and_a_comparison_with_the_winner() -> None:
    rows = [row("R@5", "vanilla"), row("R@5", "deconvolved", 0.6, DOUBT)]
    opened = {**record(*rows), "headline": "The assumptions do not hold."}
    assert evaluation.summary(opened) == ["The assumptions do not hold."]  # no corrected number
    assert evaluation.title(opened) is None
    assert pages.page([opened]).title == "Evaluation of system.txt"
    compared = {**opened, "comparison": {"title": "a is better than b in R@5 (conditional)",
                                         "headline": "a is better than b, if so."}}  # fmt: skip
    page = pages.page([compared])
    assert page.title == "a is better than b in R@5 (conditional)"
    named = "system.txt: The assumptions do not hold."
    assert page.summary[:2] == ("a is better than b, if so.", named)


DOUBT = {"level": "doubtful", "reason": "refuted", "advice": "audit", "text": "doubtful: so"}


def test_how_far_numbers_move_is_drawn_once_for_all_metrics() -> None:
    move = {
        "system": "", "metric": "R@5", "estimator": "deconvolved", "value": 0.6, "exact": False,
        "gammas": [{"gamma": 1.25, "low": 0.5, "high": None},
                   {"gamma": 1.5, "low": 0.4, "high": 1.2}],
        "efforts": [{"correlation": 0.0, "value": 0.6}, {"correlation": 0.5, "value": 0.55},
                    {"correlation": 0.75, "value": None}],
        "turns_at": None, "text": "0.5 to 0.7",
    }  # fmt: skip
    moved = {**record(row("R@5", "deconvolved", 0.6)), "moves": [move]}
    section = evaluation.sections(moved)[1]
    assert section.title == "How far the numbers move"
    chart = next(part for part in section.parts if isinstance(part, report.Chart))
    ends = {series.name: (series.low, series.high) for series in chart.series}
    assert ends == {
        "p off by ≤ 1.25 ×": ((0.5,), (0.6,)),  # the data refuse the other end
        "p off by ≤ 1.5 ×": ((0.4,), (1.2,)),
        "lost together": ((0.55,), (0.6,)),
    }
    assert [rule.value for rule in chart.rules] == [1.0]  # the axis goes beyond what can be
    assert report.render(pages.page([moved]))
