"""The page of the demo."""

from __future__ import annotations

import pytest

from unmask import report
from unmask.demo import run
from unmask.metrics import charts
from unmask.pages import demo


@pytest.fixture(scope="module")
def result() -> demo.Demo:
    return run(n=600)


def test_the_first_sentences_say_what_is_lost_and_what_comes_back(result: demo.Demo) -> None:
    summary = demo.page(result).summary
    assert len(summary) == 3
    assert summary[0].startswith(f"{result.total.lost:.0%} of all labels were hidden")
    truth = result.scores["unbiased"]["R@5", "vanilla"].value
    assert f"The true R@5 of a model is {truth:.3f}" in summary[0]
    assert f"{result.scores['complete']['R@5', 'vanilla'].value:.1%}" in summary[1]


def test_corrected_training_is_set_against_a_tuned_baseline(result: demo.Demo) -> None:
    """The share that is back is counted from the best vanilla model, by name."""
    recall = {name: table["R@5", "vanilla"].value for name, table in result.scores.items()}
    assert recall["vanilla, tuned"] > recall["vanilla"]
    lost, back = (recall[name] - recall["vanilla, tuned"] for name in ("complete", "unbiased"))
    assert result.recovered("R@5") == pytest.approx(back / lost)
    (section,) = (s for s in demo.page(result).sections if s.title == "Training")
    (sentence,) = (part.text for part in section.parts if isinstance(part, report.Text))
    assert f"C = {result.tuned_C:g}" in sentence
    assert f"finds {recall['vanilla, tuned']:.1%}; " in sentence


def test_a_name_has_the_same_style_in_every_drawing(result: demo.Demo) -> None:
    named = {}
    for drawing in demo.page(result).drawings:
        for chart in drawing.charts if isinstance(drawing, report.Panels) else [drawing]:
            for each in (*chart.series, *chart.rules):
                named.setdefault(each.name, set()).add(each.style)
    assert {"truth", "vanilla", "unbiased", "deconvolved", "complete"} <= named.keys()
    for name, styles in named.items():
        assert len(styles) == 1
        assert name not in charts.STYLES or styles == {charts.STYLES[name]}


def test_judged_rows_stand_beside_the_truth_and_the_other_estimates(result: demo.Demo) -> None:
    measured = result.audited["R@5", "measured"]
    sentence = demo.summary(result)[2]
    assert f"{result.judged} rows judged at random measure {measured.value:.3f}" in sentence
    section = next(s for s in demo.page(result).sections if "judged rows" in s.title)
    tables = [part for part in section.parts if isinstance(part, report.Table)]
    assert {row[1] for row in tables[0].rows} >= {"measured", "vanilla", "deconvolved"}


def test_bands_add_up_and_one_without_entries_has_lost_nothing(result: demo.Demo) -> None:
    total, bands = result.total, result.bands
    assert total.labels == sum(band.labels for band in bands)
    assert (total.true, total.observed) == (
        sum(band.true for band in bands), sum(band.observed for band in bands)
    )  # fmt: skip
    assert total.propensity == total.observed / total.true
    assert total.lost == 1 - total.propensity
    assert demo.Band("none", 0, 1.0, 0, 0).lost == 0
