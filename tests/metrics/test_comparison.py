"""Two systems, several propensity models: paired on the same rows."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm
from scipy.stats import t as student

from tests.helpers.evaluations import L, Spread, one, part, ranking_of, rows_of, same
from tests.helpers.rankings import one_top
from unmask import pages
from unmask.metrics import (
    compare,
    estimates,
    evaluate,
    intervals,
    jain_around,
    jain_grid,
    powers,
    ranking,
    sensitivity,
)
from unmask.metrics.claims import Level, Outcome, Reason
from unmask.metrics.comparison import Ranking, sign_flip_p
from unmask.pages.estimates import ranking_section
from unmask.predictions import TopK
from unmask.propensity import PropensityEstimate, jain
from unmask.propensity.models import PropensityModel


def other_top(top: TopK, every: int) -> TopK:
    """The same lists, every so many turned round."""
    turned = top.labels.copy()
    turned[::every] = turned[::every, ::-1]
    return TopK(turned, np.broadcast_to(-np.arange(3.0), turned.shape))


def test_sign_flips_by_enumeration() -> None:
    """P(|Σ ±d| ≥ |Σ d|) over all signs, approached by drawn ones."""
    for d in ([1.0, 1, 1, 1, 1, 1], [3.0, 1, 1, -1], [0.1, 0.2, 0.3, -0.6], [2.0, -1.0, 0.5]):
        flips = np.array(list(itertools.product((-1, 1), repeat=len(d)))) @ d
        exactly = np.mean(np.abs(flips) >= abs(sum(d)) - 1e-12)
        p = sign_flip_p(np.array(d), 20_001, seed=4)
        assert p == pytest.approx(exactly, abs=4 * math.sqrt(0.25 / 20_000))
    for replicates in (1, 499, 500, 501, 1234):  # each drawn pattern counts once
        assert sign_flip_p(np.zeros(3), replicates, seed=0) == 1
        assert sign_flip_p(np.ones(60), replicates, seed=0) == 1 / (replicates + 1)


def test_a_paired_ratio_divides_by_what_there_was_to_find() -> None:
    top, labels, propensity = rows_of(80)
    other = other_top(top, 3)
    q = 1 / propensity
    x, x0 = (np.array([labels[i, t[0]] * q[t[0]] for i, t in enumerate(each.labels)])
             for each in (other, top))  # fmt: skip
    y = (labels * q).max(axis=1)
    found = compare({"a": top, "b": other}, labels, propensity, metrics=["PSP@1"], replicates=400,
                    seed=2, confidence=0.8)["b"]["PSP@1", "normalized"]  # fmt: skip
    d = x - x0
    value = d.sum() / y.sum()
    assert found.value == pytest.approx(value)
    residual = d - value * y
    error = math.sqrt(residual @ residual * 80 / 79) / y.sum()
    assert found.standard_error == pytest.approx(error)
    counts = intervals.resampling_counts(80, 400, seed=2)
    ends = intervals.percentile((counts @ d) / (counts @ y), 0.8)
    assert found.interval == pytest.approx(ends)
    assert found.details["values"] == pytest.approx([x.sum() / y.sum(), x0.sum() / y.sum()])


def test_a_comparison_where_nothing_can_be_found() -> None:
    tops = {"a": one_top([[0]] * 3), "b": one_top([[1]] * 3)}
    for labels in (np.zeros((3, 2)), np.eye(3, 2) * [1, 0]):
        each = compare(tops, labels, [0.5, 0.5], metrics=["PSP@1"])["b"]["PSP@1", "normalized"]
        assert each.value == -labels.sum()
    assert each.interval == (-1, 0)


def test_rows_that_all_say_the_same_leave_an_interval_unless_predictions_are_the_same() -> None:
    """The ends are Wilson's for a share of n rows that is 0 or 1."""
    tops = {"a": one_top([[0]] * 30), "b": one_top([[1]] * 30)}
    for right, sign in ((0, -1), (1, 1), (2, 0)):
        labels = np.zeros((30, 3))
        labels[:, right] = 1
        each = compare(tops, labels, metrics=["P@1"], complete=True)["b"]["P@1", "vanilla"]
        low, high = intervals.wilson(abs(sign), 30, intervals.t_quantile(0.95, 30))
        ends = {-1: (-high, -low), 0: (-high, high), 1: (low, high)}[sign]
        assert (each.value, each.interval) == (sign, ends)
        assert each.verdict.details["outcome"] == ("unclear", "better", "worse")[sign]
    twins = compare({"a": tops["a"], "b": tops["a"]}, labels, metrics=["P@1"])
    assert twins["b"]["P@1", "vanilla"].interval == (0, 0)


def test_tempered_systems_are_compared_at_the_same_tau() -> None:
    top, labels, propensity = rows_of(300)
    tops = {"a": top, "b": other_top(top, 2)}
    asked: dict[str, Any] = {"metrics": ["P@1"], "estimators": ["tempered"]}
    tau = evaluate(top, labels, propensity, **asked)["P@1", "tempered"].details["tau"]
    free = compare(tops, labels, propensity, **asked)
    assert same(free, compare(tops, labels, propensity, **asked, tau=tau))


@pytest.mark.parametrize("n", [7, 20, 130])
def test_deconvolved_differences_by_leaving_out_every_twentieth_row(n: int) -> None:
    rng = np.random.default_rng(n)
    true = rng.random((n, L)) < np.r_[np.full(n // 2, 0.15), np.full(n - n // 2, 0.6)][:, None]
    labels, p = (true & (rng.random((n, L)) < 0.9)).astype(int), np.full(L, 0.9)
    tops = {name: TopK.from_scores(true + s * rng.random((n, L)), 2)
            for name, s in (("a", 1.2), ("b", 2.5))}  # fmt: skip

    def value(keep: np.ndarray) -> float:
        a, b = (one(TopK(t.labels[keep], t.scores[keep]), labels[keep], p, "R@2", "deconvolved")
                for t in tops.values())  # fmt: skip
        return b.value - a.value

    found = compare(tops, labels, p, metrics=["R@2"], estimators=["deconvolved"],
                    confidence=0.9)["b"]["R@2", "deconvolved"]  # fmt: skip
    folds = min(20, n)
    left = np.array([value(np.arange(n) % folds != fold) for fold in range(folds)])
    if np.isnan(left).any():
        left = left[:0]
    assert left.size == folds
    error = math.sqrt((folds - 1) / folds * ((left - left.mean()) ** 2).sum())
    assert found.value == pytest.approx(value(np.arange(n) >= 0), rel=1e-9)
    assert found.standard_error == pytest.approx(error, rel=1e-6)
    half = student.ppf(0.95, folds - 1) * error
    assert found.interval == pytest.approx((found.value - half, found.value + half), rel=1e-6)
    p_value = 2 * student.sf(abs(found.value) / error, folds - 1)
    assert found.details["p_value"] == pytest.approx(p_value, rel=1e-6)


def test_a_difference_that_the_data_refuse_says_why() -> None:
    """Every row has exactly two labels: impossible if three in four went missing at random."""
    labels = np.tile([1, 1, 0, 0], (50, 1))
    tops = {"a": one_top([[0, 2]] * 50), "b": one_top([[2, 3]] * 50)}
    found = compare(tops, labels, [0.25] * 4, metrics=["R@2"], estimators=["deconvolved"])
    each = found["b"]["R@2", "deconvolved"]
    assert math.isnan(each.value)
    assert each.verdict.reason is Reason.REFUSED
    assert json.loads(found.to("json"))[0]["value"] is None


def test_words_of_a_comparison() -> None:
    labels = np.eye(30, 40, dtype=int)
    good = TopK.from_scores(labels + 0.0, 2)
    bad = TopK.from_scores(np.roll(labels, 1, axis=1) + 0.0, 2)
    for metric in ("P@1", "Kendall-tau@2"):
        for first, word in ((bad, "better"), (good, "worse")):
            second = good if first is bad else bad
            each = compare({"x": first, "y": second}, labels, metrics=[metric], complete=True)
            verdict = each["y"][metric, "vanilla"].verdict
            assert str(verdict).startswith(f"measured: y is {word} than x (p = 0.00")
            assert (verdict.level, verdict.details["outcome"]) == ("measured", word)
    half = TopK(np.r_[bad.labels[:15], good.labels[15:]], good.scores)
    for metric in ("P@1", "Kendall-tau@2"):
        for first, second, word in ((half, good, "better"), (good, half, "worse")):
            each = compare({"x": first, "y": second}, labels, metrics=[metric], complete=True)["y"]
            assert 0 < abs(each[metric, "vanilla"].value) < 1
            assert each[metric, "vanilla"].verdict.details["outcome"] == word
    once = TopK(np.r_[bad.labels[:1], good.labels[1:]], good.scores)
    for first, second in ((good, good), (once, good), (good, once)):
        tables = compare({"x": first, "y": second}, labels, metrics=["P@1"], complete=True)
        each = tables["y"]["P@1", "vanilla"]
        assert str(each.verdict).startswith("measured: no clear difference (p = 1)")
        assert each.verdict.details["outcome"] is Outcome.UNCLEAR


def test_what_a_difference_rests_on_is_cut_where_its_metric_is() -> None:
    """At its own cut-off, not at the length of the lists."""
    top, labels, propensity = rows_of(60)
    assert top.k > 2
    tops = {"a": top, "b": other_top(top, 2)}
    asked: dict[str, Any] = {"estimators": ["unbiased"], "replicates": 50}
    made = compare(tops, labels, propensity, metrics=["P@1", "DCG@2"], **asked)["b"]
    cells: Any = {each.metric: each.basis.args[0] for each in made if each.basis is not None}
    assert {name: cell.k for name, cell in cells.items()} == {"P@1": 1, "DCG@2": 2}


def test_doubts_about_propensities_only_raise_p_values() -> None:
    top, labels, p = rows_of(150)
    tops = {"a": top, "b": other_top(top, 3)}
    estimate = PropensityEstimate(p, p, p, 0.95, "test", p, Spread(p))
    asked: dict[str, Any] = {
        "metrics": ["P@1", "Kendall-tau@3"], "estimators": ["vanilla", "unbiased"],
        "replicates": 200, "confidence": 0.5,
    }  # fmt: skip
    plain = compare(tops, labels, p, **asked)["b"]
    doubted = compare(tops, labels, estimate, **asked, draws=8)["b"]
    for before, after in zip(plain, doubted, strict=True):
        if after.estimator == "vanilla":
            assert after == before
            continue
        least = before.details["p_value"]
        wanted = max(least, 2 * norm.sf(abs(after.value) / after.standard_error))
        assert after.details["p_value"] == pytest.approx(wanted)
        assert after.verdict.details["p_value"] == after.details["p_value"]
        word = "better" if (after.value > 0) == (after.metric == "P@1") else "worse"
        clear = not after.interval[0] <= 0 <= after.interval[1]
        assert after.verdict.details["outcome"] == (word if clear else Outcome.UNCLEAR)
        assert after.verdict.level is Level.CONDITIONAL
    again = compare(tops, labels, estimate, **asked)["b"]["P@1", "unbiased"]
    hundred = compare(tops, labels, estimate, **asked, draws=100)["b"]["P@1", "unbiased"]
    assert again == hundred


def test_comparison_takes_propensities_per_entry() -> None:
    top, labels, propensity = rows_of(60)
    tops = {"a": top, "b": other_top(top, 2)}
    asked: dict[str, Any] = {"metrics": ["R@2"], "estimators": ["unbiased", "deconvolved"]}
    per_label = compare(tops, labels, propensity, **asked)
    entries = sp.csr_array(labels * propensity)
    per_entry = compare(tops, labels, entries, **asked)
    numbers = [(each.value, each.interval, each.verdict.level) for each in per_entry["b"]]
    assert numbers == [(e.value, e.interval, e.verdict.level) for e in per_label["b"]]
    assert per_entry.run is not None
    assert per_entry.run.source.kind == "entries"


def test_comparison_refuses_lists_of_other_lengths_and_single_rows() -> None:
    top, labels, propensity = rows_of(60)
    short = TopK(top.labels[:, :2], top.scores[:, :2])
    with pytest.raises(ValueError, match=r"b has 2 predictions a row and a 3; .* like MRR@2"):
        compare({"a": top, "b": short}, labels, metrics=["MRR", "P@1", "P@2"])
    found = compare({"a": top, "b": short}, labels, metrics=["MRR@2", "P@1", "P@2"])
    assert all(each.value == 0 for each in found["b"])
    few: Any = {name: part(t, slice(1)) for name, t in (("a", top), ("b", short))}
    with pytest.raises(ValueError, match="a comparison needs at least two rows; got 1"):
        compare(few, labels[:1], metrics=["P@1"])
    two: Any = {name: part(t, slice(2)) for name, t in (("a", top), ("b", short))}
    assert compare(two, labels[:2], metrics=["P@1"])["b"]["P@1", "vanilla"].rows == 2
    with pytest.raises(ValueError, match="P@1 filtered has no value per row"):
        compare({"a": top, "b": top}, labels, propensity, metrics=["P@1"], estimators=["filtered"])


def test_metrics_are_those_of_evaluate_if_none_are_named() -> None:
    labels = [[1, 0, 0, 1], [0, 1, 0, 0], [0, 1, 1, 0]]
    systems = {
        name: TopK.from_scores(np.random.default_rng(seed).random((3, 4)), 3)
        for seed, name in enumerate("ab")
    }
    tables = compare(systems, labels, [0.5] * 4)
    alone = evaluate(systems["a"], labels, [0.5] * 4)
    assert {(each.metric, each.estimator) for each in tables["b"]} == {
        (each.metric, each.estimator) for each in alone
    }


def test_differences_of_rounding_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of the same system that differ in their last digit have an error of exactly 0."""
    rng = np.random.default_rng(0)
    labels, scores = (rng.random((40, 3)) < 0.5).astype(float), rng.random((40, 3))
    exact, digit = estimates.group_sums, float(np.finfo(np.float64).eps)

    def rounded(*arguments: Any) -> tuple[np.ndarray, np.ndarray]:
        sums, rows = exact(*arguments)
        return sums * (1 + digit * rng.integers(-1, 2, sums.size)), rows

    monkeypatch.setattr(estimates, "group_sums", rounded)
    each = compare({"a": scores, "b": scores}, labels, metrics=["macro-AUC"])["b"]
    one = each["macro-AUC", "vanilla"]
    assert one.standard_error == 0
    assert one.interval == (one.value, one.value)
    assert 0 < abs(one.value) < 1e-14


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
