"""The page of the demo."""

from __future__ import annotations

import pytest

from unmask.demo import run
from unmask.pages import Table, Text, demo
from unmask.pages.estimates import STYLES


@pytest.fixture(scope="module")
def result() -> demo.Demo:
    return run(n=600)


def test_the_first_sentences_say_what_is_lost_and_what_comes_back(result: demo.Demo) -> None:
    measuring, training, auditing = demo.page(result).summary
    assert measuring.startswith(f"{result.total.lost:.0%} of all labels were hidden")
    truth = result.scores["unbiased"]["R@5", "vanilla"].value
    assert f"The true R@5 of a model is {truth:.3f}" in measuring
    assert f"{result.scores['complete']['R@5', 'vanilla'].value:.1%}" in training
    measured = result.audited["R@5", "measured"]
    low, high = measured.interval
    assert (f"{result.judged} rows judged at random measure {measured.value:.3f} ({low:.3f} to "
            f"{high:.3f}), whatever hid the labels.") in auditing  # fmt: skip


def test_corrected_training_is_set_against_a_tuned_baseline(result: demo.Demo) -> None:
    """The share that is back is counted from the best vanilla model, by name."""
    recall = {name: table["R@5", "vanilla"].value for name, table in result.scores.items()}
    assert recall["vanilla, tuned"] > recall["vanilla"]
    lost, back = (recall[name] - recall["vanilla, tuned"] for name in ("complete", "unbiased"))
    assert result.recovered("R@5") == pytest.approx(back / lost)
    (section,) = (s for s in demo.page(result).sections if s.title == "Training")
    (sentence,) = (part.text for part in section.parts if isinstance(part, Text))
    assert f"C = {result.tuned_C:g}" in sentence
    assert f"finds {recall['vanilla, tuned']:.1%}; " in sentence


def test_a_name_has_the_same_style_in_every_drawing(result: demo.Demo) -> None:
    named = {}
    for drawing in demo.page(result).drawings:
        for chart in drawing.charts:
            for each in (*chart.series, *chart.rules):
                named.setdefault(each.name, set()).add(each.style)
    assert {"truth", "vanilla", "unbiased", "deconvolved", "complete"} <= named.keys()
    for name, styles in named.items():
        assert len(styles) == 1
        assert name not in STYLES or styles == {STYLES[name]}


def test_judged_rows_stand_beside_the_truth_and_the_other_estimates(result: demo.Demo) -> None:
    section = next(s for s in demo.page(result).sections if "judged rows" in s.title)
    (table,) = (part for part in section.parts if isinstance(part, Table))
    assert {row[1] for row in table.rows} >= {"measured", "vanilla", "deconvolved"}
    truth = {row[0]: row[3] for row in table.rows}
    assert truth == result.truth


def test_propensities_that_are_wrong_are_drawn_beside_the_truth(result: demo.Demo) -> None:
    (section,) = (s for s in demo.page(result).sections if "propensities were wrong" in s.title)
    charts = section.parts[1].charts
    assert {chart.title: chart.rules[0].value for chart in charts} == {
        metric: result.truth[metric] for metric in ("P@1", "R@5")
    }


def test_bands_add_up_and_one_without_entries_has_lost_nothing(result: demo.Demo) -> None:
    total, bands = result.total, result.bands
    assert total.labels == sum(band.labels for band in bands)
    assert (total.true, total.observed) == (
        sum(band.true for band in bands), sum(band.observed for band in bands)
    )  # fmt: skip
    assert total.propensity == total.observed / total.true
    assert total.lost == 1 - total.propensity
    assert demo.Band("none", 0, 1.0, 0, 0).lost == 0
