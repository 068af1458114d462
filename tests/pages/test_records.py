"""Stored records: read from files, put on one page, refused by name if they are damaged."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unmask import pages
from unmask._typing import Record
from unmask.metrics import ESTIMATORS, evaluate, powers, sensitivity
from unmask.pages import KINDS, Chart, Estimate, Panels, audit, labels
from unmask.pages.estimates import STYLES
from unmask.pages.evaluation import groups_section, sections, summary, title
from unmask.pages.parts import Verdicts
from unmask.pages.records import tuning_chart, tuning_table

GOOD = {"level": "conditional", "reason": "stated-propensities", "advice": "",
        "text": "conditional: if the propensities are right"}  # fmt: skip
BAD = {"level": "unusable", "reason": "few-rows", "advice": "use-deconvolved",
       "text": "unusable: 3 of 200 rows carry 60%; use deconvolved"}  # fmt: skip
DOUBT = {"level": "doubtful", "reason": "refuted", "advice": "audit", "text": "doubtful: so"}


def row(metric: str, estimator: str, value: float | None = 0.5, verdict: Any = GOOD) -> Record:
    low, high = (None, None) if value is None else (value - 0.1, value + 0.1)
    return {"metric": metric, "estimator": estimator, "value": value, "low": low, "high": high,
            "verdict": verdict}  # fmt: skip


def record(*rows: Record, **more: Any) -> Record:
    return {"kind": "evaluation", "source": "a/system.txt", "estimates": list(rows), **more}


EVALUATION = record(row("P@1", "vanilla"), command="unmask evaluate")
FINDINGS = [
    {"severity": severity, "title": f"A {severity}", "evidence": f"So {severity}.", "advice": "a"}
    for severity in ("error", "warning", "info")
]
TESTS = [{"name": "pairs", "effect": "1.2 times", "p_value": 0.01, "adjusted": 0.02}]
DIAGNOSIS = {"kind": "diagnosis", "source": "labels.txt", "severity": "error",
             "verdict": "It holds.", "findings": FINDINGS, "tests": TESTS}  # fmt: skip


def stored(folder: Path, content: object) -> Path:
    path = folder / "record.json"
    path.write_text(json.dumps(content))
    return path


def test_a_page_of_one_record_is_named_after_it() -> None:
    page = pages.page([EVALUATION])
    assert page.title == "Evaluation of system.txt"
    assert [section.title for section in page.sections][-1] == "How this page was made"


def test_a_page_of_several_records_says_whose_everything_is() -> None:
    page = pages.page([EVALUATION, DIAGNOSIS, EVALUATION], commands=["unmask report"])
    assert page.title == ("Evaluation of system.txt · Diagnosis of labels.txt · "
                          "Evaluation of system.txt")  # fmt: skip
    first, *titles, last = [section.title for section in page.sections]
    assert (first, last) == ("Side by side", "How this page was made")
    assert all(title.startswith(("system.txt: ", "labels.txt: ")) for title in titles)
    assert all(sentence.startswith("labels.txt: ") for sentence in page.summary)
    (commands,) = page.sections[-1].parts
    assert commands == pages.Commands(["unmask evaluate", "unmask report"])


def test_records_and_bare_lists_of_estimates_are_read_with_their_file(tmp_path: Path) -> None:
    for content in (EVALUATION, DIAGNOSIS):
        path = stored(tmp_path, content)
        assert pages.read(path) == [{**content, "file": str(path)}]
    (bare,) = pages.read(stored(tmp_path, EVALUATION["estimates"]))
    assert (bare["source"], bare["estimates"]) == ("record", EVALUATION["estimates"])
    assert pages.render(pages.page([bare]))
    for other in ({"kind": "note"}, [], [1], [{"metric": "P@1"}], None, [DIAGNOSIS]):
        with pytest.raises(ValueError, match="holds no stored result"):
            pages.read(stored(tmp_path, other))
    (tmp_path / "record.json").write_text("{")
    with pytest.raises(ValueError, match="Store results with --json"):
        pages.read(tmp_path / "record.json")
    with pytest.raises(ValueError, match="holds no rows"):
        pages.read(tmp_path)


def test_a_written_page_is_returned(tmp_path: Path) -> None:
    records = pages.read(stored(tmp_path, EVALUATION))
    page = pages.write_records(records, tmp_path / "page.html", title="Mine")
    assert (tmp_path / "page.html").read_text() == pages.render(page)
    assert page.title == "Mine"


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    for damage in (
        {"verdict": {**GOOD, "level": "splendid"}}, {"verdict": {"level": "wide"}}, {"verdict": 7},
        {"metric": "nonsense"}, {"estimator": "nonsense"}, {"value": "high"},
    ):  # fmt: skip
        path = stored(tmp_path, record(row("P@1", "vanilla") | damage))
        with pytest.raises(ValueError, match=r"record\.json: the stored result is damaged"):
            pages.write_records(pages.read(path), tmp_path / "page.html")
        assert not (tmp_path / "page.html").exists()


# ------------------------------------------------------------------------------------ evaluation


def test_below_a_headline_the_summary_only_adds_what_was_recorded() -> None:
    measured = {**GOOD, "level": "measured"}
    rows = [
        row("P@1", "vanilla", 0.1), row("P@1", "unbiased", 0.2), row("P@5", "vanilla", 0.3),
        row("P@5", "unbiased", 0.5), row("R@5", "vanilla", 0.4),
        row("R@5", "deconvolved", 0.6, BAD), row("R@5", "measured", 0.7, measured),
    ]  # fmt: skip
    assert summary(record(*rows, headline="R@5 is 0.700.")) == [
        "R@5 is 0.700.",
        "As recorded → corrected: P@5 0.300 → 0.500.",
        "As recorded → measured: R@5 0.400 → 0.700.",
        "1 of 7 estimates cannot be used (R@5 deconvolved); the verdicts say why.",
    ]
    doubted = [row("R@5", "vanilla"), row("R@5", "deconvolved", 0.6, DOUBT), row("R@5", "unbiased")]
    assert summary(record(*doubted, headline="So.")) == ["So."]  # the preferred may not be claimed
    assert summary(record(row("P@1", "vanilla"), row("nDCG@1", "unbiased"))) == []


def test_without_a_headline_the_summary_says_values_at_face_value_and_why_one_was_refused() -> None:
    first, second = summary(record(
        row("P@1", "vanilla"), row("P@1", "unbiased", 0.6), row("R@5", "vanilla"),
        row("R@5", "deconvolved", 0.9, BAD), row("R@5", "unbiased", 0.7),
    ))[:2]  # fmt: skip
    assert first == (
        "Taken at face value P@1 is 0.500; the unbiased estimate is 0.600, interval 0.500 to "
        "0.700: conditional: if the propensities are right."
    )
    assert second.startswith("Taken at face value R@5 is 0.500; the unbiased estimate is 0.700")
    refused, unusable = summary(record(row("R@5", "vanilla"), row("R@5", "deconvolved", None, BAD)))
    assert refused.endswith("the deconvolved estimate was refused: unusable: 3 of 200 rows carry "
                            "60%; use deconvolved.")  # fmt: skip
    assert unusable.startswith("1 of 2 estimates cannot be used")


def test_long_lists_of_unusable_estimates_are_cut() -> None:
    (sentence,) = summary(record(*(row(f"nDCG@{k}", "unbiased", 0.5, BAD) for k in range(1, 7))))
    assert "6 of 6 estimates cannot be used (nDCG@1 unbiased, " in sentence
    assert "nDCG@4 unbiased …)" in sentence
    assert "nDCG@5" not in sentence


def test_estimates_open_with_a_picture_and_have_a_table_and_verdicts() -> None:
    refuted = [row("P@1", "vanilla"), row("P@1", "unbiased", None, BAD)]
    few = [row("P@1", "vanilla"), row("P@1", "unbiased")]
    many = [*few, row("P@1", "deconvolved")]
    for rows, pictures in ((refuted, 1), (few, 1), (many, 2)):
        first, table, verdicts, *_ = parts = sections(record(*rows))[0].parts
        assert isinstance(first, (Chart, Panels))
        assert sum(isinstance(part, (Chart, Panels)) for part in parts) == pictures
        assert [line[1] for line in table.rows] == [each["estimator"] for each in rows]
        assert isinstance(verdicts, Verdicts)
    _, table, verdicts = sections(record(*refuted))[0].parts
    assert [line[2] for line in table.rows] == [Estimate(0.5, 0.4, 0.6), Estimate(None)]
    assert [line[3].level for line in table.rows] == ["info", "error"]
    assert [each.badge for each in verdicts.verdicts] == ["conditional", "unusable"]


def test_an_evaluation_is_drawn_with_the_style_of_every_estimator() -> None:
    rng = np.random.default_rng(0)
    observed, scores = rng.random((60, 8)) < 0.3, rng.random((60, 8)).astype(np.float32)
    p, names = np.linspace(0.9, 0.4, 8), [n for n in ESTIMATORS if n != "normalized"]
    table = evaluate(scores, observed, p, metrics=["P@1", "R@3"], estimators=names)
    varied = sensitivity(scores, observed, powers(p, [0, 1]), metrics=["R@3"], estimators=names[:3])
    facts = labels.label_facts(observed, p)
    made = record(*table.to_dicts(), sensitivity=varied.to_dicts(), labels=facts)
    page = pages.page([made])
    assert [section.title for section in page.sections] == [
        "Estimates", "Sensitivity to the propensities", "The labels", "What the estimators mean",
    ]  # fmt: skip
    charts = [chart for drawing in page.drawings for chart in drawing.charts]
    named = [series for chart in charts for series in chart.series if series.name in STYLES]
    assert {series.name for series in named} >= {"vanilla", "unbiased", "deconvolved"}
    assert all(series.style == STYLES[series.name] for series in named)
    assert len(named) > 10
    assert pages.render(page)


def test_a_comparison_opens_with_the_winner() -> None:
    opened = record(row("R@5", "vanilla"), row("R@5", "deconvolved", 0.6, DOUBT), headline="So.")
    assert summary(opened) == ["So."]  # no corrected number
    assert title(opened) is None
    compared = {"title": "a is better than b in R@5 (conditional)", "headline": "a is, if so."}
    page = pages.page([{**opened, "comparison": compared}])
    assert page.title == compared["title"]
    assert page.summary[:2] == ("a is, if so.", "a/system.txt: So.")


def test_how_far_numbers_move_is_drawn_once_for_all_metrics() -> None:
    move = {
        "system": "", "metric": "R@5", "estimator": "deconvolved", "value": 0.6, "exact": False,
        "gammas": [{"gamma": 1.25, "low": 0.5, "high": None},
                   {"gamma": 1.5, "low": 0.4, "high": 1.2}],
        "efforts": [{"correlation": 0.0, "value": 0.6}, {"correlation": 0.5, "value": 0.55},
                    {"correlation": 0.75, "value": None}],
        "turns_at": None, "text": "0.5 to 0.7",
    }  # fmt: skip
    moved = record(row("R@5", "deconvolved", 0.6), moves=[move])
    section = sections(moved)[1]
    assert section.title == "How far the numbers move"
    _, chart, table = section.parts
    assert {series.name: (series.low, series.high) for series in chart.series} == {
        "p off by ≤ 1.25 ×": ((0.5,), (0.6,)),  # the data refuse the other end
        "p off by ≤ 1.5 ×": ((0.4,), (1.2,)),
        "lost together": ((0.55,), (0.6,)),
    }
    assert [rule.value for rule in chart.rules] == [1.0]  # the axis goes beyond what can be
    assert table.rows == (("R@5 deconvolved", "0.5 to 0.7"),)
    assert pages.render(pages.page([moved]))


def test_moves_of_a_comparison_stand_with_it_and_those_of_the_system_apart() -> None:
    moves = [
        {"system": system, "metric": "P@1", "estimator": "unbiased", "value": 0.2, "gammas": [],
         "efforts": [{"correlation": 0.5, "value": 0.3}], "text": f"so {system}"}
        for system in ("", "new")
    ]  # fmt: skip
    difference = row("P@1", "unbiased") | {"system": "new", "details": {"p_value": 0.1}}
    compared, _, moved, _ = sections(
        record(row("P@1", "vanilla"), differences=[difference], moves=moves)
    )
    assert compared.parts[-1].rows == (("new, P@1 unbiased", "so new"),)
    assert moved.parts[-1].rows == (("P@1 unbiased", "so "),)


def test_groups_that_differ_are_marked_and_small_ones_are_not() -> None:
    details = {
        "old": {"rows": 9, "small": True, "differs": True},
        "new": {"rows": 900, "small": False, "differs": True},
        "same": {"rows": 800, "small": False, "differs": False},
    }
    rows = [row("P@1", "vanilla") | {"group": name, "details": d} for name, d in details.items()]
    text, drawn, table = groups_section(rows).parts
    assert text.text.startswith("3 groups of rows, each evaluated as if its rows were all")
    assert "2 of them differ from all other rows in some number: old and new." in text.text
    assert text.text.endswith("Too few rows to say much: old.")
    assert drawn.charts[0].series[0].x == ("old", "new", "same")
    assert [(line[1], line[-1]) for line in table.rows] == [
        (9, "too few to say"), (900, "differs"), (800, ""),
    ]  # fmt: skip
    none = groups_section(rows[2:]).parts[0]
    assert "None differs from all other rows beyond chance. Of such marks 5 %" in none.text


# --------------------------------------------------------------------- diagnosis, tuning, audits


def test_a_diagnosis_opens_with_its_verdict_and_what_is_more_than_information() -> None:
    kind = KINDS["diagnosis"]
    verdict, *findings = kind.summary(DIAGNOSIS)
    assert verdict == "It holds."
    assert findings == ["So error.", "So warning."]  # sentences, not titles
    findings, tests = kind.sections(DIAGNOSIS)
    (verdicts,), (table,) = findings.parts, tests.parts
    assert [v.level for v in verdicts.verdicts] == ["error", "warning", "info"]
    assert table.rows == (("pairs", "1.2 times", 0.01, 0.02),)
    without = kind.sections({**DIAGNOSIS, "tests": []})
    assert [section.title for section in without] == ["Findings"]


def tried(family: str, cost: float, value: float | None, rung: int) -> Record:
    return {"family": family, "C": cost, "value": value, "rows": 100 * 4**rung, "rung": rung}


def search(judged_by: str) -> Record:
    values = [
        tried("plain", 1.0, 0.30, 0), tried("plain", 0.1, 0.20, 0), tried("corrected", 0.1, 0.5, 0),
        tried("corrected", 1.0, None, 0), tried("corrected", 1.0, 0.45, 1),
        tried("corrected", 0.5, 0.40, 1), tried("other", 2.0, math.nan, 0),
    ]  # fmt: skip
    return {"kind": "tuning", "tried": values, "judged_by": judged_by, "estimator": "unbiased",
            "chosen": {"family": "corrected"}, "headline": "so", "reason": "Why."}  # fmt: skip


def test_a_search_has_a_panel_for_every_rung_and_a_line_for_every_training() -> None:
    panels = tuning_chart(search("R@5"))
    titles = ["trained on 100 rows", "trained on 400 rows"]
    assert [chart.title for chart in panels.charts] == titles
    first, second = (
        {each.name: list(zip(each.x, each.y, strict=True)) for each in chart.series}
        for chart in panels.charts
    )
    assert first["plain"] == [(0.1, 0.20), (1.0, 0.30)]
    assert first["corrected"] == [(0.1, 0.50), (1.0, None)]
    assert list(first) == ["plain", "corrected", "other"]
    assert second == {"corrected": [(0.5, 0.40), (1.0, 0.45)]}
    assert panels.columns == 2
    assert all(chart.x.log and chart.y.label == "R@5 (unbiased)" for chart in panels.charts)
    page = pages.page([search("R@5") | {"source": {"kind": "none", "name": ""}}])
    assert (page.title, page.summary) == ("Tuning of tuning", ("Chosen: so.", "Why."))
    assert pages.render(page)


def test_the_best_of_every_training_on_its_last_rung() -> None:
    """Higher is better, or lower for a loss; what has no number comes last."""
    for judged_by, plain, corrected in (
        ("R@5", (1.0, 0.30), (1.0, 0.45)), ("Hamming@5", (0.1, 0.20), (0.5, 0.40)),
    ):  # fmt: skip
        best, second, last = tuning_table(search(judged_by)).rows
        assert best == ("→", "corrected", *corrected, 400, 2)
        assert second == ("", "plain", *plain, 100, 1)
        assert last[:3] == ("", "other", 2.0)


def audited(high: float, **more: Any) -> Record:
    return {
        "unit": "rows", "design": "simple", "annotators": ["ann"], "fleiss_kappa": None,
        "counts": {"asked": 40, "judged": 40, "unsure": 0, "split": 0},
        "reached": [{"metric": "R@5", "judged": 40, "value": 1.0, "low": 0.9, "high": high}],
        "expected": [{"metric": "R@5", "judged": n, "half": 0.04} for n in (40, 80)],
        "agreement": [], "contradictions": [], "undecided": [], **more,
    }  # fmt: skip


def test_what_was_expected_of_an_audit_stays_in_the_range_of_a_share() -> None:
    for high, end in ((1.0, 1.0), (1.2, 1.04)):
        parts = audit.section(audited(high)).parts
        (panels,) = (part for part in parts if isinstance(part, Panels))
        upper = {series.name: series.y for series in panels.charts[0].series}["expected, upper end"]
        assert upper == pytest.approx((end, end))


def test_an_audit_shows_who_differs_and_whether_judging_may_stop() -> None:
    differ = {"question": "r1", "row": "doc", "label": "cat", "answers": [["ann", "yes"],
              ["bob", "no"]], "settled": "yes"}  # fmt: skip
    agree = {"annotators": ["ann", "bob"], "items": 9, "percent": 0.8, "positive": 0.7,
             "kappa": 0.6}  # fmt: skip
    facts = audited(
        1.0, contradictions=[differ] * 60, agreement=[agree], annotators=["ann", "bob", "cy"],
        fleiss_kappa=0.55, reached=[],
        undecided=[{"metric": "R@5", "low": 0.1, "high": 0.2, "questions": 3}],
    )  # fmt: skip
    sequence = {"metric": "R@5", "half_width": 0.1, "at_least": 0.3, "stop_after": None, "low": 0.2,
                "high": 0.5, "confidence": 0.95, "judged": 40}  # fmt: skip
    stopping = {"sequences": [sequence, {**sequence, "at_least": None, "stop_after": 30}],
                "elusion": {"text": "Few eluded."}}  # fmt: skip
    _, facts_part, text, undecided, agreement, contradictions = audit.section(facts, stopping).parts
    assert dict(facts_part.items)["annotators"] == 3
    assert text.paragraphs == [
        "R@5 lies between 0.200 and 0.500 with 95% confidence, whenever one looks (40 rows). Is it "
        "known to ± 0.1 or certain to be at least 0.3? Not yet: go on judging.",
        "R@5 lies between 0.200 and 0.500 with 95% confidence, whenever one looks (40 rows). Is it "
        "known to ± 0.1? Yes, after 30 rows: judging may stop.",
        "Few eluded.",
    ]
    assert undecided.rows == (("R@5", 0.1, 0.2),)
    assert agreement.rows == (("ann and bob", 9, 0.8, 0.7, 0.6),)
    assert agreement.caption == "Fleiss' kappa of all annotators: 0.55."
    assert contradictions.title == "60 questions on which people differ"
    assert contradictions.rows[0] == ("r1", "doc", "cat", "ann: yes; bob: no", "yes")
    assert len(contradictions.rows) == audit.SHOWN
