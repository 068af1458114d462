"""Does the order of systems survive other propensities? Against orders worked out by hand."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.evaluations import ranking_of
from unmask import pages
from unmask.metrics import (
    Ranking,
    jain_around,
    jain_grid,
    powers,
    ranking,
    sensitivity,
)
from unmask.pages.estimates import ranking_section
from unmask.predictions import TopK
from unmask.propensity import PropensityModel, jain

HEAD, TAIL = (TopK([[label]] * 18, [[1.0]] * 18) for label in (0, 1))
LABELS = np.array([[1, 0]] * 10 + [[0, 1]] * 8)
"""Label 0 in 10 rows, label 1 in 8: with p = (1, 1/2) the order turns where 2^γ = 10/8."""


def test_differences_are_those_of_the_propensities() -> None:
    found = ranking({"head": HEAD, "tail": TAIL}, LABELS, powers([1.0, 0.5]), metric="P@1")
    for row in found.rows:
        gamma = row["parameters"]["γ"]
        assert row["model"] == f"γ = {gamma:g}"
        assert row["difference"] == pytest.approx((8 * 2**gamma - 10) / 18)
        assert (row["value"], row["first"]) == pytest.approx((8 * 2**gamma / 18, 10 / 18))


def test_a_fine_grid_brackets_the_turning_point() -> None:
    """The exact place is log₂ 1.25 ≈ 0.3219."""
    found = ranking(
        {"head": HEAD, "tail": TAIL}, LABELS, powers([1.0, 0.5], [0.3, 0.34]), metric="P@1"
    )
    assert not found.holds
    assert "it turns between γ = 0.3 and 0.34, at about 0.322" in found.statement


def test_an_order_that_holds_says_so() -> None:
    found = ranking_of({"γ = 0": 0.2, "γ = 1": 0.05, "γ = 2": 0.3})
    assert found.holds
    assert found.statement == (
        "new beats old in P@1 (unbiased) under all 3 propensity models, by 0.0500 to 0.3000. "
        "The interval of the difference excludes 0 under 2 of 3."
    )
    assert ranking_of({"x": -0.2}).statement.startswith("old beats new")


def test_less_is_more_for_losses() -> None:
    assert ranking_of({"x": -0.2}, metric="Kendall-tau").statement.startswith("new beats old")


def test_a_grid_turns_along_single_constants_only() -> None:
    """(a, b): new leads where b is large; a alone never turns it at b = 1, and no diagonal does."""
    found = ranking_of(
        {"a = 1, b = 1": -1.0, "a = 2, b = 1": -1.0, "a = 1, b = 3": 3.0, "a = 2, b = 3": 1.0}
    )
    assert "is ahead under 2 of 4 models" in found.statement
    assert "turns between b = 1 and 3, at about 1.5 (for a = 1), between b = 1 and 3, at about 2 " \
        "(for a = 2)." in found.statement  # fmt: skip


def test_refused_models_are_counted_and_judge_nothing() -> None:
    found = ranking_of({"γ = 0": 0.2, "γ = 1": 0.3})
    gap = {**found.rows[0], "model": "γ = 2", "difference": None, "low": None, "high": None}
    with_gap = Ranking("R@5", "deconvolved", "old", (*found.rows, gap))
    assert with_gap.holds
    assert "under all 2 propensity models" in with_gap.statement
    assert with_gap.statement.endswith("The data refute the other 1.")
    assert "The data refute" in pages.render(
        pages.Page("x", [], [ranking_section(with_gap.to_dict())])
    )
    assert "gives new and old an order" in Ranking("R@5", "deconvolved", "old", (gap,)).statement


def test_many_turns_are_not_all_listed() -> None:
    found = ranking_of({f"γ = {i}": (-1.0) ** i for i in range(8)})
    assert found.statement.count("between γ") == 3
    assert "and elsewhere" in found.statement


def test_names_without_numbers_turn_nowhere() -> None:
    found = ranking_of({"ours": 1.0, "theirs": -1.0})
    assert "turns" not in found.statement
    assert "1 of 2 models." in found.statement


def test_every_system_has_its_sentence_and_json_carries_it() -> None:
    systems = {"head": HEAD, "tail": TAIL, "both": TopK([[0, 1]] * 18, [[1.0, 0.5]] * 18)}
    found = ranking(systems, LABELS, powers([1.0, 0.5], [0, 1]), metric="P@1", replicates=50)
    assert len(found.statement.splitlines()) == 2
    assert Ranking(**json.loads(json.dumps(found.to_dict()))).statement == found.statement
    section = ranking_section(found.to_dict())
    assert [chart.rules for chart in section.parts if isinstance(chart, pages.Chart)] == [
        (pages.Rule("no difference", 0.0),)
    ] * 2
    assert "tail − head" in pages.render(pages.Page("ranking", [], [section]))


def test_nine_models_around_the_constants() -> None:
    labels = np.vstack([LABELS, LABELS])
    found = jain_around(labels, a=0.6, b=2.0, spread=0.5)
    assert len(found) == 9
    np.testing.assert_allclose(found["a = 0.9, b = 1"], jain(labels, a=0.9, b=1.0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ranking({"a": HEAD, "b": TAIL}, LABELS, {}, metric="P@1"), "at least one prop"),
        (lambda: jain_around(LABELS, spread=1.5), r"spread must lie in \[0.01, 0.99\]"),
    ],
)
def test_bad_input_is_refused_in_words(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_models_are_values_with_parameters() -> None:
    """Nothing is read from a model's name; models come by name or as a list."""
    odd = [PropensityModel("common", [1.0, 1.0], {"γ": 0.0}),
           PropensityModel("γ = 7", [1.0, 0.5], {"γ": 1.0})]  # fmt: skip
    systems = {"head": HEAD, "tail": TAIL}
    order = ranking(systems, LABELS, odd, metric="P@1")
    assert [row["parameters"] for row in order.rows] == [{"γ": 0.0}, {"γ": 1.0}]
    assert "it turns between γ = 0 and 1" in order.statement
    bare = {model.name: model.values for model in odd}
    assert "turns" not in ranking(systems, LABELS, bare, metric="P@1").statement
    tables = sensitivity(HEAD, LABELS, odd, metrics=["P@1"])
    assert tables.to_dicts()[-1]["parameters"] == {"γ": 1.0}
    assert tables.chart().charts[0].series[0].x == (0.0, 1.0)
    with pytest.raises(ValueError, match=r"propensities must lie in \(0, 1\]"):
        PropensityModel("x", [1.5])


def test_equal_systems_beat_nobody() -> None:
    assert ranking_of({"γ = 0": 0.0, "γ = 1": 0.0}).statement == (
        "new and old are equal in P@1 (unbiased) under all 2 models. The interval of the "
        "difference excludes 0 under 0 of 2."
    )
    behind = ranking_of({"γ = 0": 0.0, "γ = 1": -0.2, "γ = 2": -0.3})
    assert behind.holds
    assert behind.statement == (
        "old beats new in P@1 (unbiased) under 2 of 3 propensity models, by 0.2000 to 0.3000. "
        "They are equal under 1. The interval of the difference excludes 0 under 2 of 3."
    )


def test_an_order_may_turn_exactly_at_a_model() -> None:
    said = ranking_of({"γ = 0": -1.0, "γ = 0.5": 0.0, "γ = 2": 1.0}).statement
    assert "it turns between γ = 0 and 2, at about 0.5." in said
    touched = ranking_of({"γ = 0": 1.0, "γ = 1": 0.0, "γ = 2": 1.0, "γ = 4": -1.0}).statement
    assert "it turns between γ = 2 and 4, at about 3." in touched


def test_models_of_several_kinds_turn_within_their_kind() -> None:
    """Models with parameters beside models without, or with others."""
    said = ranking_of(
        {"γ = 0": 1.0, "ours": 1.0, "γ = 1": -1.0, "a = 1, b = 2": 1.0, "Elkan": -1.0,
         "jain, c = 1": 1.0, "other, d = 2": -1.0, "jain, c = 1e1": 2.0}
    ).statement  # fmt: skip
    assert "ahead under 5 of 8 models; it turns between γ = 0 and 1, at about 0.5. The" in said
    powers_of_ten = ranking_of({"c = 1e-2": -1.0, "c = 1e+2": 1.0, "c = .5": -1.0}).statement
    assert "turns between c = 0.5 and 100, at about 50.2." in powers_of_ten


def test_three_turns_are_all() -> None:
    three = ranking_of({f"γ = {i}": (-1.0) ** i for i in range(4)}).statement
    assert three.count("between γ") == 3
    assert "elsewhere" not in three
    assert ", and elsewhere." in ranking_of({f"γ = {i}": (-1.0) ** i for i in range(5)}).statement


def test_an_interval_that_touches_nil_does_not_exclude_it() -> None:
    for d, clear in ((0.5, 0), (0.51, 1), (-0.5, 0), (-0.51, 1)):
        said = ranking_of({"x": d}, half=0.5).statement
        assert said.endswith(f"The interval of the difference excludes 0 under {clear} of 1.")


def test_losses_are_better_below() -> None:
    found = ranking_of({"γ = 0": -0.5, "γ = 1": -0.1, "γ = 2": 0.2}, metric="Kendall-tau")
    assert "new is ahead under 2 of 3 models" in found.statement


def test_powers_go_from_nothing_missing_to_the_tenth() -> None:
    found = powers([0.5, 0.25], [0, 10])
    np.testing.assert_allclose(found["γ = 10"], [2.0**-10, 4.0**-10])
    np.testing.assert_array_equal(found["γ = 0"], 1.0)
    usual = powers([0.5])
    assert {"γ = 0", "γ = 1", "γ = 2"} <= set(usual)
    assert [usual[name].parameters["γ"] for name in usual] == sorted(
        model.parameters["γ"] for model in usual.values()
    )
    for beyond in (-0.01, 10.01, math.nan):
        with pytest.raises(ValueError, match=r"γ must lie in \[0, 10\]"):
            powers([0.5], [beyond])


def test_jain_models_in_use_and_around_them() -> None:
    labels = sp.csr_array(np.repeat(np.eye(3), [40, 8, 2], axis=0))
    assert list(jain_grid(labels)) == ["a = 0.5, b = 0.4", "a = 0.55, b = 1.5", "a = 0.6, b = 2.6"]
    for spread in (0.01, 0.99):
        assert len(jain_around(labels, spread=spread)) == 9
    usual = list(jain_around(labels))
    assert usual[0] == "a = 0.275, b = 0.75"
    assert usual[4] == "a = 0.55, b = 1.5"
    assert usual[5] == "a = 0.55, b = 2.25"
    assert usual[8] == "a = 0.825, b = 2.25"
    for beyond in (0.009, 0.991):
        with pytest.raises(ValueError, match=r"spread must lie in \[0.01, 0.99\]"):
            jain_around(labels, spread=beyond)


def test_no_models_are_refused() -> None:
    top = TopK([[0]], [[1.0]])
    for call in (
        lambda: sensitivity(top, [[1]], {}, metrics=["P@1"]),
        lambda: ranking({"a": top, "b": top}, [[1]], {}, metric="P@1"),
    ):
        with pytest.raises(ValueError, match="give at least one propensity model"):
            call()


def test_equal_predictions_are_equal_under_every_model() -> None:
    top = TopK([[0], [1]], [[1.0]] * 2)
    found = ranking(
        {"one": top, "same": top}, [[1, 0], [0, 1]], powers([0.5, 0.2], [0, 1]), metric="P@1"
    )
    assert found.statement.startswith(
        "same and one are equal in P@1 (unbiased) under all 2 models."
    )
    assert [row["value"] for row in found.rows] == pytest.approx([1.0, 3.5])
