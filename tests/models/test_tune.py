"""Tuning: what is tried, how it is judged, which candidate is chosen, and that it is repeatable."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import unmask
from unmask import TopK, audit, data, linear, metrics, propensity, tree, weights
from unmask.data import Dataset, synthetic
from unmask.linear import Recipe
from unmask.metrics import evaluate
from unmask.models import judging, search
from unmask.models import tune as tuner
from unmask.models.judging import (
    BALANCED,
    LABELS,
    WEIGHT,
    Hits,
    Judge,
    Judged,
    Trust,
    _ordered,
    balanced_recall,
    difference_error,
    judge_of,
    tempered,
    trust,
    with_jackknife,
)
from unmask.models.search import COSTS, SCALES, Family, Tried, families, path, plainness
from unmask.models.tune import (
    HELD_OUT,
    Because,
    _behind,
    _raised,
    between,
    choose,
    towards_usual,
    tune,
)
from unmask.propensity import MaskModel, temper
from unmask.tuning import recommended, tune_tree

RANKINGS = ("score", "probability/propensity")


@cache
def planted() -> tuple[sp.csr_array, sp.csr_array, sp.csr_array, np.ndarray]:
    rows = data.synthetic.planted(600, n_features=80, n_labels=16, seed=0)
    p = np.asarray(propensity.inverse_linear(rows.labels, head=1.5, tail=6))
    return rows.features, rows.labels, data.hide(rows.labels, p, seed=1), p


@cache
def tuned() -> unmask.tuning.Tuned:
    x, _, observed, p = planted()
    return tune(x, observed, p, "R@3", costs=(0.1, 1.0))


# Candidates


def test_without_propensities_only_vanilla_is_tried() -> None:
    assert families(("logistic", "squared_hinge"), (0.5, 1.0), RANKINGS, None) == (
        Family("logistic"), Family("squared_hinge"),
    )  # fmt: skip


def test_families_come_plainest_first_and_each_once() -> None:
    made = families(("logistic",), (1.0, 0.5), RANKINGS, np.full(3, 0.5))
    assert made == (
        Family("logistic"),
        Family("logistic", rank_by=RANKINGS[1]),
        Family("logistic", "unbiased", tau=0.5),
        Family("logistic", "unbiased"),
        Family("logistic", "empirical_bayes", True),
    )
    assert [plainness(family) for family in made] == sorted(map(plainness, made))


def test_what_is_divided_by_propensities_in_training_is_not_divided_again() -> None:
    made = families(tuple(SCALES), (0.5, 1.0), RANKINGS, np.full(3, 0.5))
    assert {family.correction for family in made if family.rank_by != "score"} == {"vanilla"}


def test_a_mask_with_row_effort_allows_no_weights_that_divide_a_row() -> None:
    mask = MaskModel([0.5, 0.5], row_effort=0.5)
    made = families(("logistic", "softmax"), (1.0,), ("score",), mask)
    assert {(family.loss, family.correction) for family in made} == {
        ("logistic", "vanilla"), ("logistic", "unbiased"), ("softmax", "vanilla"),
    }  # fmt: skip


def test_costs_shift_with_loss_and_correction_and_those_named_are_taken() -> None:
    assert path(Family("logistic"), None) == COSTS
    assert path(Family("squared_hinge", "bound"), None)[0] == pytest.approx(0.1 * 0.03 * 0.3)
    assert path(Family("logistic", "empirical_bayes", True), None) == COSTS  # weights no larger
    assert path(Family("logistic"), [3, 1, 3]) == (1.0, 3.0)


def test_a_family_trains_on_tempered_propensities() -> None:
    p = np.array([0.25, 1.0])
    half = Family("logistic", "unbiased", tau=0.5)
    assert np.array_equal(half.propensity(p), [0.4, 1.0])
    assert Family("logistic").propensity(p) is None
    recipe = half.recipe(3.0, Recipe(bias="none", l2=1e-3))
    assert (recipe.loss, recipe.correction, recipe.C, recipe.l2, recipe.bias) == (
        "logistic", "unbiased", 3.0, None, "none",
    )  # fmt: skip
    assert Family("softmax", "empirical_bayes", True).recipe(1.0).reduction == "pal"


def test_the_recommended_correction_keeps_the_loss_convex() -> None:
    assert recommended(Recipe("logistic")) == "unbiased"
    assert recommended(Recipe("squared_error")) == "unbiased"
    assert recommended(Recipe("squared_hinge")) == "bound"
    assert recommended(Recipe("logistic", normalized=True)) == "empirical_bayes"


# Judging


@pytest.mark.parametrize(
    ("metric", "p", "estimator"),
    [("R@3", True, "deconvolved"), ("nDCG@3", True, "deconvolved"), ("P@3", True, "unbiased"),
     ("R@3", False, "vanilla")],
)  # fmt: skip
def test_every_metric_is_judged_by_its_honest_estimate(
    metric: str, p: bool, estimator: str
) -> None:
    x, _, observed, known = planted()
    stated = known if p else None
    judge = judge_of(metric, stated, None)
    assert (judge.estimator, judge.places) == (estimator, 3)
    top = TopK.from_scores(x[:, :16].toarray(), 3)
    table = metrics.evaluate(top, observed, stated, metrics=[metric], estimators=[estimator])
    assert judge.value(top, observed) == table[metric, estimator].value


def test_a_loss_is_judged_with_the_other_sign() -> None:
    top, labels = TopK([[0, 1]] * 2, [[2.0, 1.0]] * 2), sp.csr_array([[0, 1], [0, 1]])
    judge = judge_of("Kendall-tau@2", None, None)
    assert judge.value(top, labels) == -metrics.evaluate(
        top, labels, metrics=["Kendall-tau@2"]
    )["Kendall-tau@2", "vanilla"].value  # fmt: skip


def test_the_error_of_a_difference_is_the_paired_jackknife() -> None:
    x, _, observed, _ = planted()
    judge = Judge("P@1", "vanilla")
    tops = [TopK.from_scores(x[:, i : i + 16].toarray(), 1) for i in (0, 16)]
    one, other = (judge.judged(top, observed) for top in tops)
    hits = [np.asarray(observed[np.arange(600), top.labels[:, 0]]).ravel() for top in tops]
    d = (hits[0] > 0).astype(float) - (hits[1] > 0)
    groups = np.array([d[np.arange(600) % 10 == g].mean() for g in range(10)])
    # of a mean over equal groups the jackknife is the standard error of the groups' means
    assert difference_error(one, other) == pytest.approx(groups.std(ddof=1) / math.sqrt(10))
    assert one.value - other.value == pytest.approx(d.mean())


def test_of_measured_values_both_errors_count() -> None:
    assert difference_error(Judged(0.5, error=0.03), Judged(0.4, error=0.04)) == pytest.approx(0.05)


def test_balanced_recall_does_not_know_how_often_labels_are_recorded() -> None:
    """Labels recorded more rarely keep their recall; only a power of their number falls."""
    rng = np.random.default_rng(0)
    true = rng.random((4000, 2)) < 0.5
    top = TopK(rng.integers(0, 2, size=(4000, 1)), np.ones((4000, 1)))
    recall = [true[top.labels[:, 0] == j, j].sum() / true[:, j].sum() for j in (0, 1)]
    shown = true.copy()
    shown[np.flatnonzero(true[:, 1])[: -(-true[:, 1].sum() // 4) * 3], 1] = False
    weight = shown.sum(axis=0) ** WEIGHT
    own = shown[top.labels[:, 0] == 1, 1].sum() / shown[:, 1].sum()
    exact = (weight[0] * recall[0] + weight[1] * own) / weight.sum()
    labels = sp.csr_array(shown.astype(np.float32))
    assert balanced_recall(top, labels) == pytest.approx(exact)
    assert Judge("R@1", BALANCED).value(top, labels) == balanced_recall(top, labels)
    assert own == pytest.approx(recall[1], abs=0.05)  # a quarter of its rows
    assert math.isnan(balanced_recall(top, sp.csr_array((4000, 2), dtype=np.float32)))


def test_a_label_without_rows_does_not_count_in_balanced_recall() -> None:
    labels = sp.csr_array([[1.0, 0, 0], [1, 0, 0], [0, 0, 1]])
    top = TopK([[0, 1], [1, 2], [0, 2]], np.ones((3, 2)))
    weight = 2**WEIGHT
    assert balanced_recall(top, labels) == pytest.approx((weight / 2 + 1) / (weight + 1))


# Refuted propensities


def predicted(p_of_labels: list[float], rows: int = 400) -> tuple[TopK, sp.csr_array]:
    """Every label truly holds in its own rows and is predicted there; kept with these chances."""
    count = len(p_of_labels)
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(count), rows)
    kept = rng.random(label.size) < np.asarray(p_of_labels)[label]
    matrix = sp.csr_array((kept.astype(np.float32), (np.arange(label.size), label)))
    matrix.eliminate_zeros()
    return TopK(label[:, None], np.ones((label.size, 1))), matrix


def test_right_propensities_stand() -> None:
    top, labels = predicted([0.2, 0.4, 0.6, 0.8])
    assert trust([top], labels, np.array([0.2, 0.4, 0.6, 0.8])) == Trust(1.0)


def test_propensities_that_are_too_low_are_tempered_until_nothing_refutes_them() -> None:
    p = np.linspace(0.2, 0.8, 12)
    top, labels = predicted(p.tolist())
    standing = trust([top], labels, p / 2)
    # half of p as 1/p: 2/p; τ (2/p − 1) + 1 = 1/p at τ = (1 − p)/(2 − p), at most 4/9
    assert standing.tau == 0.25
    assert standing.test is not None
    assert standing.test.values["observed_share"] > standing.test.values["propensity"]
    assert [each.kind.value for each in standing.evidence] == ["above-range"]


def test_of_several_models_one_piece_of_evidence_is_told() -> None:
    p = np.linspace(0.2, 0.8, 12)
    top, labels = predicted(p.tolist())
    standing = trust([top, top], labels, p / 2)
    assert [each.kind.value for each in standing.evidence] == ["above-range"]
    assert standing.tau == 0.25


def test_a_tenth_of_the_correction_is_the_last_that_is_tried() -> None:
    """Of 1/p, so much as nothing refutes; where even that is refuted, nothing."""
    p = np.linspace(0.7, 0.85, 12)
    top, labels = predicted(p.tolist(), rows=1000)
    assert trust([top], labels, p / 2.2).tau == 0.1
    assert trust([top], labels, p / 40).tau == 0.0


@pytest.mark.parametrize(
    ("rows", "count", "ordered"), [(20, 8, True), (19, 8, False), (20, 2, False)]
)
def test_an_order_needs_three_labels_of_twenty_rows(rows: int, count: int, ordered: bool) -> None:
    p = np.linspace(0.1, 1.0, count)
    label = np.repeat(np.arange(count), rows)
    kept = np.tile(np.arange(rows), count) < np.round(p * rows)[label]
    labels = sp.csr_array(sp.coo_array((kept * 1.0, (np.arange(label.size), label))))
    labels.eliminate_zeros()
    top = TopK(label[:, None], np.ones((label.size, 1)))
    assert _ordered([top], labels, p) == ordered
    assert not _ordered([top], labels, np.full(count, 0.5))
    assert not _ordered([top], labels, p[::-1].copy())
    assert not _ordered([], labels, p)


def test_an_order_is_that_of_shares_and_not_of_counts() -> None:
    """The higher the propensity, the fewer rows predict the label."""
    rows = np.arange(160, 40, -15)
    p = np.linspace(0.3, 0.8, rows.size)
    label = np.repeat(np.arange(rows.size), rows)
    kept = np.concatenate(
        [np.arange(n) < round(n * share) for n, share in zip(rows, p, strict=True)]
    )
    labels = sp.csr_array(sp.coo_array((kept * 1.0, (np.arange(label.size), label))))
    labels.eliminate_zeros()
    top = TopK(label[:, None], np.ones((label.size, 1)))
    assert _ordered([top], labels, p)
    assert not _ordered([top], labels, 1 - p)


def test_propensities_of_other_labels_are_not_corrected_with() -> None:
    p = np.linspace(0.1, 0.9, 12)
    top, labels = predicted(p.tolist())
    standing = trust([top], labels, p[::-1].copy())
    assert standing.tau == 0.0
    assert standing.test is not None
    assert standing.test.values["label"] == 11
    assert standing.level == pytest.approx(1 / np.mean(1 / p))
    assert np.array_equal(standing.left_of([0.1, 0.9, 1.0]), np.full(3, standing.level))


def ordered_by(count: int, p: np.ndarray, slope: float) -> tuple[TopK, sp.csr_array]:
    """Labels predicted for 40 rows each and observed in a share of these that follows `slope`."""
    share = 0.3 * (1 + slope * (p - p.mean()) / p.mean())
    label = np.repeat(np.arange(count), 40)
    kept = np.tile(np.arange(40), count) < np.round(share * 40)[label]
    labels = sp.csr_array(sp.coo_array((kept * 1.0, (np.arange(label.size), label))))
    labels.eliminate_zeros()
    return TopK(label[:, None], np.ones((label.size, 1))), labels


@pytest.mark.parametrize(
    ("count", "highest", "slope", "stands"),
    [
        (LABELS, 0.9, 0.5, True),
        (LABELS, 0.9, 0.0, False),
        (LABELS, 0.9, -0.5, False),
        (LABELS - 1, 0.9, -0.5, True),  # too few labels to tell
        (LABELS, 0.62, -0.5, True),  # they hardly differ
    ],
)
def test_the_order_of_propensities_has_to_be_borne_out(
    count: int, highest: float, slope: float, stands: bool
) -> None:
    """Nothing is observed too often: only the order of the labels can speak against p."""
    p = np.linspace(0.5, highest, count)
    top, labels = ordered_by(count, p, slope)
    standing = trust([top], labels, p)
    assert (standing.tau, standing.evidence, standing.test) == (float(stands), (), None)
    assert (standing.level is None) == stands
    judged = Dataset(None, labels, judgements=sp.csr_array(labels.shape))
    assert trust([top], judged, p).tau == 1.0


def test_propensities_that_are_right_or_too_small_have_no_level() -> None:
    p = np.array([0.2, 0.4, 0.6, 0.8])
    top, labels = predicted(p.tolist())
    assert trust([top], labels, p).level is None
    tempered_standing = trust([top], labels, p / 2)
    assert tempered_standing.level is None
    assert np.array_equal(tempered_standing.left_of(p / 2), temper(p / 2, tempered_standing.tau))


def test_where_single_labels_are_refuted_one_propensity_is_left_for_all() -> None:
    x, true_labels, _, _ = planted()
    best = tune(x, true_labels, np.linspace(0.01, 0.04, 16), "R@3", costs=(1.0,), refit=False)
    assert best.trust.tau == 0
    assert (best.judged_by, best.estimator) == ("R@3", "balanced")
    assert {each.family.correction for each in best.table} == {"vanilla", "bound"}
    assert {each.family.loss for each in best.table} == {"squared_hinge"}
    assert {each.family.rank_by for each in best.table} == {"score"}
    assert "refuted" in best.reason
    assert f"corrections use {best.trust.level:.3g} for all labels" in best.reason


def test_a_loss_without_a_bound_is_left_alone_with_vanilla() -> None:
    x, true_labels, _, _ = planted()
    best = tune(x, true_labels, np.linspace(0.01, 0.04, 16), "R@3", costs=(1.0,),
                losses=["logistic"], refit=False)  # fmt: skip
    assert best.trust.tau == 0
    assert {each.family for each in best.table} == {Family("logistic")}


def test_one_propensity_for_all_is_what_the_chosen_bound_is_trained_with() -> None:
    """Labels are hidden, and what is stated is of other labels."""
    x, _, observed, p = planted()
    best = tune(x, observed, p[::-1].copy(), "R@3", costs=(0.01,), losses=["squared_hinge"])
    level = np.full(16, 1 / np.mean(1 / p))
    expected = linear.train(x, observed, best.recipe, propensity=level)[0]
    assert (best.trust.tau, best.tau, best.recipe.correction) == (0, 0, "bound")
    assert best.propensity is not None
    assert best.propensity == pytest.approx(level)
    assert best.model is not None
    assert np.array_equal(np.asarray(best.model.weights), np.asarray(expected.weights))


def test_complete_labels_need_no_bound_whatever_is_stated() -> None:
    x, true_labels, _, p = planted()
    best = tune(x, true_labels, p[::-1].copy(), "R@3", losses=["squared_hinge"], refit=False)
    assert (best.trust.tau, best.recipe.correction) == (0, "vanilla")


def test_tempering_a_mask_model_keeps_its_other_parts() -> None:
    mask: Any = tempered(MaskModel([0.25, 1.0], row_effort=0.3), 0.5)
    assert (mask.row_effort, mask.value.tolist()) == (0.3, [0.4, 1.0])
    assert np.array_equal(np.asarray(tempered([0.25, 1.0], 0.5)), temper([0.25, 1.0], 0.5))


# The choice


def finalist(family: Family, value: float, shift: float) -> Tried:
    without = tuple(value + shift * sign for sign in (-1, 1) * 5)
    return Tried(1, family, 1.0, 100, Judged(value, without))


def test_vanilla_training_within_half_a_standard_error_is_chosen() -> None:
    plain, better = Family("logistic"), Family("logistic", "unbiased")
    # differences move by ±0.01 over ten groups: the error is 0.01 · √(9/10 · 10) = 0.03
    best = finalist(better, 0.50, 0.01)
    because, chosen, top, error = choose([best, finalist(plain, 0.4851, 0.0)])
    assert (because, chosen.family, top, error) == (
        Because.PLAINER, plain, best, pytest.approx(0.03),
    )  # fmt: skip
    because, chosen, _, error = choose([best, finalist(plain, 0.4849, 0.0)])
    assert (because, chosen, error) == (Because.BEST, best, 0.0)
    assert choose([best])[0] is Because.ALONE


def test_a_plainer_family_that_is_best_needs_no_rule() -> None:
    plain, other = Family("logistic"), Family("logistic", "unbiased")
    because, chosen, _, _ = choose([finalist(other, 0.4, 0.0), finalist(plain, 0.5, 0.0)])
    assert (because, chosen.family) == (Because.BEST, plain)


def test_of_corrections_the_best_one_is_chosen() -> None:
    best = finalist(Family("logistic", "unbiased"), 0.50, 0.01)
    near = finalist(Family("logistic", rank_by=RANKINGS[1]), 0.499, 0.0)
    assert choose([near, best, finalist(Family("logistic"), 0.2, 0.0)])[:2] == (Because.BEST, best)


def test_of_equally_plain_families_the_better_one_is_chosen() -> None:
    best = finalist(Family("logistic", "unbiased"), 0.50, 0.01)
    plain = [finalist(Family("logistic"), 0.487, 0.0), finalist(Family("squared_hinge"), 0.49, 0.0)]
    assert choose([*plain, best])[1] is plain[1]


def rung(number: int, values: dict[float, float], family: Family | None = None) -> list[Tried]:
    family = family or Family("logistic")
    return [Tried(number, family, cost, 100, Judged(value)) for cost, value in values.items()]


def test_c_is_the_top_of_a_parabola_through_the_best_and_its_neighbours() -> None:
    """v = 0.5 − 0.02 (t − t₀)², t steps of the factor 4 from C = 1; others do not count."""
    other = rung(0, {0.25: 0.1, 1.0: 0.9, 4.0: 0.1}, Family("squared_hinge"))
    for top in (-1.0, -0.75, 0.0, 0.25, 1.0):
        last = rung(0, {4.0**t: 0.5 - 0.02 * (t - top) ** 2 for t in (-1, 0, 1)})
        chosen = max(last, key=lambda each: each.judged.value)
        assert between(chosen, [*last, *other]) == float(f"{4**top:.2g}")
    beyond = rung(0, {4.0**t: 0.5 - 0.02 * (t - 3) ** 2 for t in (-1, 0, 1)})
    assert between(beyond[2], beyond) == 4.0  # not beyond what was tried


def test_families_are_compared_where_their_c_will_lie() -> None:
    """Values ±½ step from the top show 0.005 less than the top has."""
    values = {4.0**t: 0.5 - 0.02 * (t - 0.5) ** 2 for t in (-1, 0, 1)}
    tried = rung(0, values)
    best = finalist(Family("logistic"), values[1.0], 0.01)
    raised = _raised(best, tried)
    assert raised.judged.value == pytest.approx(0.5)
    assert np.subtract(raised.judged.without, best.judged.without) == pytest.approx(0.005)
    assert _raised(best, tried[1:2]) is best
    assert _raised(best, [*tried[1:2], *rung(1, values)]) is best  # the last rung has one C


def test_c_is_one_of_those_tried_where_there_is_no_top() -> None:
    bent = rung(0, {0.25: 0.5, 1.0: 0.4, 4.0: 0.6})
    assert between(bent[2], bent) == 4.0
    flat = rung(0, {0.25: 0.5, 1.0: 0.5, 4.0: 0.5})
    assert between(flat[0], flat) == 0.25
    unknown = rung(0, {0.25: math.nan, 1.0: 0.5, 4.0: 0.4})
    assert between(unknown[1], unknown) == 1.0
    two = rung(0, {1.0: 0.60, 4.0: 0.61})
    assert between(two[1], two) == 4.0


@pytest.mark.parametrize("family", [Family("squared_hinge", "bound"), Family("logistic")])
@pytest.mark.parametrize(("by_formula", "kept"), [(False, 0.75), (True, 0.25)])
def test_c_is_on_the_way_from_the_usual_one_to_the_best(
    family: Family, by_formula: bool, kept: float
) -> None:
    usual = path(family, None)[3]
    assert towards_usual(usual, family, by_formula=by_formula) == usual
    for factor in (16.0, 1 / 16):
        made = towards_usual(factor * usual, family, by_formula=by_formula)
        assert made == pytest.approx(usual * factor**kept, rel=0.05)  # of two digits


def test_propensities_from_a_formula_leave_c_nearer_to_the_usual_one() -> None:
    x, _, observed, _ = planted()
    p = propensity.jain(observed)
    by_formula, stated = (
        tune(x, observed, each, "R@3", losses=["squared_hinge"], refit=False)
        for each in (p, np.asarray(p))
    )
    assert by_formula.table == stated.table
    usual = path(stated.chosen.family, None)[3]
    distances = [abs(math.log(each.recipe.C / usual)) for each in (by_formula, stated)]
    assert distances[0] == pytest.approx(distances[1] / 3, abs=0.05)
    assert distances[1] > 0.1


def test_of_a_sample_a_larger_c_is_worth_as_much() -> None:
    """The best C falls as 1/√n: a quarter of the rows needs twice the C."""
    assert search.scaled(3.0, 25, 100) == 6.0
    assert search.scaled(3.0, 100, 100) == 3.0


def test_without_any_value_the_plainest_is_taken() -> None:
    none = [finalist(Family("logistic", "unbiased"), math.nan, 0.0),
            finalist(Family("logistic"), math.nan, 0.0)]  # fmt: skip
    because, chosen, _, _ = choose(none)
    assert (because, chosen.family) == (Because.ALONE, Family("logistic"))


# Hits


@pytest.mark.parametrize("metric", ["P@3", "R@3", "nDCG@3", "F1@3", "R-precision@3"])
def test_of_complete_labels_the_sum_over_hits_is_the_metric(metric: str) -> None:
    _, true_labels, _, _ = planted()
    top = TopK.from_scores(np.random.default_rng(0).random(true_labels.shape), 3)
    hits = judge_of(metric, None, None).hits(true_labels)
    assert hits is not None
    value = metrics.evaluate(top, true_labels, metrics=[metric])[metric, "vanilla"].value
    assert hits.of(top, true_labels).mean() == pytest.approx(value, abs=1e-12)


def test_hits_are_worth_the_empirical_bayes_weights_to_recall() -> None:
    _, _, observed, p = planted()
    top = TopK.from_scores(np.random.default_rng(0).random(observed.shape), 3)
    hits = judge_of("R@3", p, None).hits(observed)
    assert hits is not None
    pos = weights.empirical_bayes(observed, p).pos.toarray()
    expected = np.take_along_axis(pos, top.labels, axis=1).sum(axis=1)
    assert hits.of(top, observed) == pytest.approx(expected, rel=1e-9)


def test_rows_without_labels_that_were_dropped_are_not_expected() -> None:
    _, _, observed, p = planted()
    shown = observed[np.diff(observed.indptr) > 0]
    top = TopK.from_scores(np.random.default_rng(0).random(shown.shape), 3)
    hits = judge_of("R@3", p, None).hits(shown)
    assert hits is not None
    pos = weights.empirical_bayes(shown, p).pos.toarray()
    expected = np.take_along_axis(pos, top.labels, axis=1).sum(axis=1)
    assert hits.of(top, shown) == pytest.approx(expected, rel=1e-9)


def test_without_a_sum_over_hits_candidates_are_evaluated() -> None:
    _, true_labels, observed, p = planted()
    assert judge_of("R@3", MaskModel(p, row_effort=0.5), None).hits(observed) is None
    judged = Dataset(None, observed, judgements=sp.csr_array(true_labels - observed))
    assert judge_of("R@3", p, None).hits(judged) is None
    assert judge_of("Jaccard@3", p, None).hits(observed) is None
    assert judge_of("DCG@3", p, None).hits(observed) is None


def test_of_unbiased_estimates_only_precision_is_a_sum_over_hits() -> None:
    """A hit of label j counts 1/p_j over k; recall divides by numbers that hits do not tell."""
    labels, p = sp.csr_array([[0.0, 1, 1], [1, 1, 0]]), np.array([0.5, 0.25, 0.8])
    hits = Judge("P@2", "unbiased", p).hits(labels)
    assert hits is not None
    top = TopK([[1, 0], [0, 1]], [[0.9, 0.4], [0.9, 0.4]])
    np.testing.assert_allclose(hits.of(top, labels), [4 / 2, (2 + 4) / 2], rtol=1e-12)
    assert Judge("R@2", "unbiased", p).hits(labels) is None
    assert Judge("R@2", "deconvolved", p).hits(labels) is not None
    assert Judge("P@2", "unbiased", MaskModel(p, row_effort=0.5)).hits(labels) is None
    assert Judge("P@2", "unbiased", p).hits(Dataset(None, labels)) is None


def test_rows_of_more_labels_than_any_before_are_taken_as_those_of_most() -> None:
    """Hits of complete labels count 1 over the number of labels: here 2, not 3 or 4."""
    hits = judge_of("R@2", None, None).hits(sp.csr_array([[1.0, 0, 0, 0], [0, 1, 1, 0]]))
    assert hits is not None
    top = TopK([[0, 1]] * 3, [[0.9, 0.4]] * 3)
    fuller = sp.csr_array([[1.0, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]])
    np.testing.assert_allclose(hits.of(top, fuller), [1.0, 2 / 2, 2 / 2])
    shorter = TopK([[0]] * 3, [[0.9]] * 3)
    np.testing.assert_allclose(hits.of(shorter, fuller), [1.0, 1 / 2, 1 / 2])


def test_groups_are_left_out_in_turn() -> None:
    """Row i is in group i mod 10; the value moves as the mean of the rows does."""
    of_rows = np.arange(13.0) ** 2
    made = with_jackknife(5.0, of_rows)
    assert made.value == 5.0
    mean = of_rows.mean()
    expected = [5 + np.delete(of_rows, range(g, 13, 10)).mean() - mean for g in range(10)]
    np.testing.assert_allclose(made.without, expected, rtol=1e-12)
    few = with_jackknife(1.0, np.array([4.0]))
    np.testing.assert_allclose(few.without, [1 - 4.0, *[1.0] * 9])


def test_without_a_sum_over_hits_every_group_is_left_out_and_evaluated() -> None:
    _, true_labels, _, _ = planted()
    labels = sp.csr_array(true_labels[:23])
    top = TopK.from_scores(np.random.default_rng(0).random(labels.shape), 3)
    made = Judge("Jaccard@3", "vanilla").judged(top, labels)

    def value(rows: Any) -> float:
        part = TopK(top.labels[rows], top.scores[rows])
        table = metrics.evaluate(part, sp.csr_array(labels[rows]), metrics=["Jaccard@3"])
        return table["Jaccard@3", "vanilla"].value

    assert made.value == value(np.arange(23))
    expected = [value(np.delete(np.arange(23), range(g, 23, 10))) for g in range(10)]
    np.testing.assert_allclose(made.without, expected, rtol=1e-12)
    assert made.error is None


def test_a_label_that_is_not_predicted_is_no_hit() -> None:
    labels = sp.csr_array([[0, 1], [1, 1]])
    hits = judge_of("R@2", None, None).hits(labels)
    assert hits is not None
    top = TopK([[1, -1], [-1, -1]], [[0.5, -np.inf], [-np.inf, -np.inf]])
    assert hits.of(top, labels).tolist() == [1.0, 0.0]


# The search


def test_every_value_is_that_of_a_model_that_has_not_seen_the_rows() -> None:
    x, _, observed, p = planted()
    order = np.random.default_rng(0).permutation(600)
    halves = np.sort(order[:300]), np.sort(order[300:])
    each = next(t for t in logistic().table if t.family == Family("logistic", "unbiased"))
    # C on all rows is √(600/300) times as large on half of them
    recipe = each.family.recipe(each.cost * math.sqrt(2), Recipe(tol=search.TOLERANCE))
    labels, scores = np.zeros((600, 3), np.int32), np.zeros((600, 3), np.float32)
    for own, other in (halves, halves[::-1]):
        model, _ = linear.train(x[own], observed[own], recipe, propensity=p)
        top = linear.predict_top(model, x[other], 3)
        labels[other], scores[other] = top.labels, top.scores
    top = TopK(labels, scores)
    hits = judge_of("R@3", p, None).hits(observed)
    assert hits is not None
    assert each.judged.value == pytest.approx(hits.of(top, observed).mean(), rel=1e-9)
    chosen = tuned().chosen
    assert chosen.rung == 1
    before = next(t for t in tuned().table if t.rung == 0 and t[1:3] == chosen[1:3])
    assert np.subtract(chosen.judged.without, chosen.judged.value) == pytest.approx(
        np.subtract(before.judged.without, before.judged.value), abs=1e-12
    )


def test_the_chosen_one_is_deconvolved() -> None:
    x, _, observed, p = planted()
    chosen = tuned().chosen
    rows = search.arrange(x, observed, p, judge_of("R@3", p, None), Recipe(), 0)
    models = search.train(rows, 0, chosen.family.trained, chosen.cost)
    top = search.predict(rows, 0, chosen.family, models)
    table = metrics.evaluate(top, observed, p, metrics=["R@3"], estimators=["deconvolved"])
    assert chosen.judged.value == pytest.approx(table["R@3", "deconvolved"].value, rel=1e-6)


def test_the_model_is_the_chosen_recipe_on_all_rows() -> None:
    x, _, observed, _ = planted()
    best = tuned()
    model, _ = linear.train(x, observed, best.recipe, propensity=best.propensity)
    assert best.model is not None
    assert np.array_equal(best.model.weights, model.weights)
    p = None if best.rank_by == "score" else best.propensity
    top = linear.predict_top(model, x, 3, rank_by=best.rank_by, propensity=p)
    assert np.array_equal(best.predict_top(x, 3).labels, top.labels)


def test_the_same_seed_gives_the_same_search_anywhere() -> None:
    x, _, observed, p = planted()
    again = tune(x, Dataset(None, observed), p, "R@3", costs=(1.0, 0.1), backend=None)
    assert again.table == tuned().table
    loss = "squared_hinge"
    other = tune(x, observed, p, "R@3", costs=(1.0,), seed=1, losses=[loss], refit=False)
    mine = [t for t in tuned().table if t.family == Family(loss) and t.cost == 1.0]
    assert other.table[0].family == Family(loss)
    assert other.table[0].judged.value != mine[0].judged.value
    with pytest.raises(ValueError, match="only the recipe was asked for"):
        other.predict_top(x, 3)


class Stopped(Exception):
    """Something went wrong on the way."""


def test_a_search_goes_on_after_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, _, observed, p = planted()
    walked, expected = [], tuned().table
    stored = tmp_path / "tried.jsonl.zst"  # of a search that was finished
    original = search.walk

    def counting(rows: search.Rows, task: search.Task, **more: Any) -> Any:
        walked.extend([] if task.rung else [task])  # the last rung needs predictions again
        if len(walked) == 3 and not stored.exists():
            raise Stopped
        return original(rows, task, **more)

    calls: dict[str, Any] = {"costs": (0.1, 1.0), "store": stored, "refit": False}
    with unmask._kernels.using_threads(1):
        stored.touch()  # nothing stops the first one
        monkeypatch.setattr(search, "walk", counting)
        tune(x, observed, p, "R@3", costs=(0.1, 1.0), refit=False)
        trainings = len(walked)
        walked.clear()
        stored.unlink()
        with pytest.raises(Stopped):
            tune(x, observed, p, "R@3", **calls)
        first = len(walked)
        best = tune(x, observed, p, "R@3", **calls)
    assert best.table == expected
    assert trainings > 3
    assert len(walked) - first == trainings - (first - 1)  # those before were stored
    walked.clear()
    tune(x, observed, p, "R@3", **calls)
    assert walked == []
    tune(x, observed, p, "R@2", **calls)  # another metric is another search
    assert walked != []


def test_stored_searches_belong_to_all_that_decides_them() -> None:
    """An audit that went on, or row effort, is another search: its values would be others."""
    x, true_labels, observed, p = planted()
    top = TopK.from_scores(np.random.default_rng(0).random(observed.shape), 3)
    sample = audit.plan(top, observed, budget=20, seed=0)
    answers = true_labels[sample.rows].toarray()

    def judges() -> dict[str, Judge]:
        more = answers.copy()
        more[3] = 1 - more[3]
        return {
            "p": judge_of("R@3", p, None),
            "other p": judge_of("R@3", temper(p, 0.5), None),
            "effort": judge_of("R@3", MaskModel(p, row_effort=0.5), None),
            "audit": judge_of("R@3", None, audit.from_rows(sample, answers)),
            "later audit": judge_of("R@3", None, audit.from_rows(sample, more)),
            "other metric": judge_of("P@3", p, None),
        }

    def marks(features: sp.csr_array = x, labels: Any = observed) -> list[str]:
        arranged = (
            search.arrange(features, labels, p, judge, Recipe(), 0) for judge in judges().values()
        )
        return [search._mark(rows) for rows in arranged]

    assert len(set(marks())) == len(judges())
    assert marks() == marks(x.copy(), observed.copy())
    other = x.copy()
    other.data[-1] += 1
    assert set(marks()).isdisjoint(marks(other))
    judged = Dataset(None, observed, judgements=sp.csr_array(true_labels - observed))
    assert set(marks()).isdisjoint(marks(labels=judged))


@pytest.mark.parametrize("tried", [None, 7, "abc", [{"rung": 0}], [[1, 2]]])
def test_stored_records_of_others_are_refused(tmp_path: Path, tried: Any) -> None:
    x, _, observed, p = planted()
    rows = search.arrange(x, observed, p, judge_of("R@3", p, None), Recipe(), 0)
    stored = tmp_path / "tried.jsonl.zst"
    task = search.Task(0, Family("logistic"), ("score",), (1.0,))
    records = search.Records(stored, rows)
    unmask.files.append_record(stored, {"key": records.key(task, 1.0), "tried": tried})
    with pytest.raises(ValueError, match="a record that tuning did not write"):
        search.Records(stored, rows)._read(unmask.files.key_text(records.key(task, 1.0)))
    unmask.files.append_record(stored, {"key": 3})  # no business of ours
    assert search.Records(stored, rows).kept["3"] is None


@pytest.mark.parametrize(
    ("values", "known", "walked"),
    [
        ([0.1, 0.2, 0.5, 0.4, 0.9], 2, [3, 1]),  # both neighbours are worse
        ([0.1, 0.2, 0.5, 0.6, 0.4], 2, [3, 4]),
        ([0.1, 0.4, 0.2, 0.1, 0.9], 2, [3, 1, 0]),
        ([0.1, 0.2, 0.3, 0.4, 0.5], 4, [3]),
        ([math.nan] * 5, 2, [3, 1]),
    ],
)
def test_a_path_is_followed_until_the_value_falls(
    monkeypatch: pytest.MonkeyPatch, values: list[float], known: int, walked: list[int]
) -> None:
    x, _, observed, p = planted()
    costs = (0.1, 0.2, 0.3, 0.4, 0.5)
    rows = search.arrange(x, observed, p, judge_of("R@3", p, None), Recipe(), 0)
    task = search.Task(0, Family("logistic"), ("score",), costs, ((costs[known], values[known]),))
    order = iter([Judged(values[i]) for i in walked])
    monkeypatch.setattr(search.Rows, "judged", lambda *_: next(order))
    made = search.walk(rows, task)
    assert [tried.cost for tried, _ in made] == [costs[i] for i in walked]
    assert [top.labels.shape for _, top in made] == [(600, 3)] * len(walked)


def test_features_that_no_row_of_the_sample_has_change_nothing() -> None:
    x, _, observed, p = planted()
    rows = search.arrange(x, observed, p, judge_of("R@3", p, None), Recipe(), 0)
    wide = sp.csr_array(sp.hstack([x, sp.csr_array((600, 7))]))
    same = search.arrange(wide, observed, p, judge_of("R@3", p, None), Recipe(), 0)
    assert same.folds[0][0].features.shape == rows.folds[0][0].features.shape
    task = search.Task(0, Family("logistic"), ("score",), (1.0,))
    assert search.walk(same, task)[0][0] == search.walk(rows, task)[0][0]


def test_with_rows_enough_two_fifths_are_trained_on_and_the_others_judged_on() -> None:
    rows = data.synthetic.planted(4400, n_features=40, n_labels=10, seed=3)
    p = np.full(10, 0.5)
    judge = judge_of("R@3", p, None)
    arranged = search.arrange(rows.features, rows.labels, p, judge, Recipe(), 0)
    order = np.random.default_rng(0).permutation(4400)
    (fold,), crossed = arranged.folds
    assert np.array_equal(fold.own, np.sort(order[:1760]))
    assert np.array_equal(arranged.judged_on(0), np.sort(order[1760:]))
    assert crossed[0] is fold
    assert np.array_equal(crossed[1].own, np.sort(order[-1760:]))
    assert np.array_equal(crossed[1].held_out, np.sort(order[:1760]))
    assert np.array_equal(arranged.judged_on(search.CROSSED), np.arange(4400))
    assert np.array_equal(arranged.judged_on(1), arranged.judged_on(0))
    few = search.arrange(rows.features[:600], rows.labels[:600], p, judge, Recipe(), 0)
    assert np.array_equal(few.judged_on(0), np.arange(600))


def test_a_cross_validation_makes_no_prediction_again() -> None:
    """With those of the first fold at hand only the other is trained, and nothing changes."""
    made = data.synthetic.planted(4400, n_features=40, n_labels=10, seed=3)
    rows = search.arrange(made.features, made.labels, None, judge_of("R@3", None, None), Recipe(),
                          0)  # fmt: skip
    family = Family("logistic")
    ((_, top),) = search.walk(rows, search.Task(0, family, ("score",), (1.0,)))
    crossed = search.Task(search.CROSSED, family, ("score",), (1.0,))
    with_first = replace(rows, made={(family, 1.0): top})
    assert len(search.train(with_first, search.CROSSED, family, 1.0, but_first=True)) == 1
    ((one, whole),), ((other, again),) = (
        search.walk(rows, crossed),
        search.walk(with_first, crossed),
    )
    assert one == other
    assert np.array_equal(whole.labels, again.labels)


Values = dict[tuple[str, str], tuple[float, float]]


def valued(monkeypatch: pytest.MonkeyPatch, values: Values, rows: int) -> unmask.tuning.Tuned:
    """A search whose trainings are worth what is said by loss and correction, wherever C is.

    The second value is that by unbiased precision. Groups of rows differ by 0.01 either way, so
    that standard errors of differences are 0.03, but 0 within a loss and correction.
    """
    made = data.synthetic.planted(rows, n_features=40, n_labels=10, seed=3)
    p = np.linspace(0.8, 0.2, 10)
    observed = data.hide(made.labels, p, seed=1)
    top = TopK.from_scores(np.random.default_rng(0).random((rows, 10)), 3)

    def judged(_: search.Rows, task: search.Task, cost: float, __: Any) -> Any:
        whole, precise = values[task.family.loss, task.family.correction]
        value = precise if task.rung == search.TOGETHER else whole
        way = 1 if task.family.corrected else -1
        without = tuple(value + 0.005 * way * sign for sign in (-1, 1) * 5)
        return [(Tried(task.rung, replace(task.family, rank_by=r), cost, 1, Judged(value, without)),
                 top) for r in task.rankings]  # fmt: skip

    monkeypatch.setattr(search, "judged", judged)
    monkeypatch.setattr(search.Records, "_judge_again", lambda *_: None)
    return tune(made.features, observed, p, "R@3", refit=False)


HINGE, LOGISTIC = "squared_hinge", "logistic"
POOR = {(LOGISTIC, name): (0.1, 0.1) for name in ("vanilla", "unbiased", "empirical_bayes")}


@pytest.mark.parametrize(
    ("bound", "because", "rungs"),
    [
        ((0.514, 0.514), Because.PLAINER, {0, search.CROSSED}),  # within 0.015 by either judge
        ((0.514, 0.516), Because.INDEPENDENCE, {0, 1}),  # not by precision
        ((0.40, 0.516), Because.INDEPENDENCE, {0, 1}),  # however much worse it seems by the other
        ((0.516, 0.514), Because.BEST, {0, 1}),
        ((0.40, 0.40), Because.BEST, {0, 1}),  # vanilla
    ],
)
def test_plain_training_has_to_be_as_good_if_labels_of_a_row_are_lost_together_too(
    monkeypatch: pytest.MonkeyPatch, bound: tuple[float, float], because: Because, rungs: set[int]
) -> None:
    """A tie is then judged on all rows; elsewhere the best alone, on the half it has not seen."""
    values = POOR | {(HINGE, "vanilla"): (0.5, 0.5), (HINGE, "bound"): bound}
    best = valued(monkeypatch, values, 4400)
    assert best.because is because
    assert {each.rung for each in best.table} == rungs
    corrected = because is Because.INDEPENDENCE or (because is Because.BEST and bound[0] > 0.5)
    assert best.chosen.family.corrected == corrected
    last = [each for each in best.table if each.rung]
    if because in (Because.PLAINER, Because.INDEPENDENCE):
        assert sorted(each.family.corrected for each in last) == [False, True]
    if because is Because.INDEPENDENCE:
        assert "lost together" in best.reason
        assert best.best.family == Family(HINGE)


def test_another_loss_has_to_be_clearly_ahead_of_the_usual_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three standard errors of 0.03 are not known here: both are corrected alike, error 0."""
    usual = {(HINGE, "vanilla"): (0.1, 0.1), (HINGE, "bound"): (0.5, 0.5)}
    ahead = POOR | usual | {(LOGISTIC, "empirical_bayes"): (0.51, 0.51)}
    best = valued(monkeypatch, ahead, 600)
    assert (best.because, best.chosen.family.loss) == (Because.BEST, LOGISTIC)
    assert len({t.cost for t in best.table if t.family.loss == LOGISTIC}) > 1
    monkeypatch.setattr(judging, "difference_error", lambda *_: 0.0034)
    best = valued(monkeypatch, ahead, 600)
    assert (best.because, best.chosen.family.loss) == (Because.USUAL, HINGE)
    assert best.best.family.loss == LOGISTIC
    assert "not clearly ahead (standard error 0.0034)" in best.reason
    assert len({t.cost for t in best.table if t.family.loss == LOGISTIC}) == 1
    assert {t.family.correction for t in best.table if t.family.loss == LOGISTIC} == {
        "empirical_bayes"
    }


@cache
def logistic() -> unmask.tuning.Tuned:
    x, _, observed, p = planted()
    return tune(x, observed, p, "R@3", costs=(0.1, 1.0), losses=["logistic"], refit=False)


def test_weaker_corrections_wait_for_the_strong_one_and_plain_ones_go_along() -> None:
    tried = [t for t in logistic().table if t.rung == 0]
    strong = {t.cost for t in tried if t.family == Family("logistic", "unbiased")}
    weak = {t.cost for t in tried if t.family == Family("logistic", "unbiased", tau=0.5)}
    assert strong
    assert weak <= strong
    assert {t.family.trained for t in tried} >= {
        Family("logistic"), Family("logistic", "empirical_bayes", True),
    }  # fmt: skip


def test_the_usual_loss_is_followed_first_and_others_are_tried_where_it_is_best() -> None:
    tried = [t for t in tuned().table if t.rung == 0]
    trained = [t.family.trained for t in tried if t.family.rank_by == "score"]
    usual, other = Family("squared_hinge", "bound"), Family("logistic", "empirical_bayes", True)
    assert trained[:4] == [Family("squared_hinge"), usual, usual, other]
    costs = {t.cost: t.judged.value for t in tried if t.family == usual}
    (looked,) = [t.cost for t in tried if t.family == other][:1]
    assert looked == max(costs, key=lambda cost: costs[cost])
    x, _, observed, _ = planted()
    plain = tune(x, observed, None, "R@3", costs=(1.0,), refit=False)
    assert [t.family for t in plain.table if not t.rung] == [
        Family("squared_hinge"), Family("logistic"),
    ]  # fmt: skip


@pytest.mark.parametrize(("hinge", "others"), [(True, False), (False, True)])
def test_other_corrections_are_tried_where_their_loss_leads(
    monkeypatch: pytest.MonkeyPatch, hinge: bool, others: bool
) -> None:
    """The trainings of one loss are worth more than those of the other, and surely so."""

    x, _, observed, p = planted()
    top = TopK.from_scores(np.random.default_rng(0).random(observed.shape), 3)

    def judged(rows: search.Rows, task: search.Task, cost: float, _: Any) -> Any:
        value = 0.5 + 0.1 * ((task.family.loss == "squared_hinge") == hinge)
        value += 0.1 * (task.family.correction != "vanilla")
        whole = Judged(value, (value, value))
        return [(Tried(task.rung, replace(task.family, rank_by=r), cost, 1, whole), top)
                for r in task.rankings]  # fmt: skip

    monkeypatch.setattr(search, "judged", judged)
    best = tune(x, observed, p, "R@3", refit=False)
    tried = {(t.family.correction, t.family.loss) for t in best.table}
    assert (("unbiased", "logistic") in tried) == others
    assert ("vanilla", "logistic") not in tried  # clearly behind
    other = Family("logistic", "empirical_bayes", True)
    costs = {t.cost for t in best.table if t.family.trained == other}
    assert (len(costs) > 1) == others  # only what is ahead of the usual loss is followed along C


@pytest.mark.parametrize(("errors", "behind"), [(1.9, True), (2.1, False)])
def test_behind_is_counted_in_errors_of_the_difference(errors: float, behind: bool) -> None:
    def tried(value: float, without: tuple[float, ...]) -> Tried:
        return Tried(0, Family("logistic"), 1.0, 10, Judged(value, without))

    best, other = tried(0.6, (0.6, 0.6)), tried(0.4, (0.3, 0.5))
    assert difference_error(best.judged, other.judged) == pytest.approx(0.1)
    assert _behind(other, best, errors) == behind
    assert not _behind(tried(0.1, ()), best, errors)  # not known


def test_of_many_labels_a_sample_from_frequent_to_rare_is_trained() -> None:
    counts = np.arange(1, 601)
    rows = np.concatenate([np.arange(count) for count in counts])
    labels = sp.csr_array((np.ones(rows.size), (rows, np.repeat(np.arange(600), counts))))
    some = search.sample_labels(labels, seed=0)
    assert len(some) == 100
    assert np.array_equal(np.diff(some), np.full(99, 6))  # frequency rises with the number
    assert search.sample_labels(labels[:, :199], 0).size == 199
    assert search.sample_labels(labels[:, :200], 0).size == 100


def test_on_a_sample_of_labels_k_shrinks_and_the_model_has_all() -> None:
    rows = data.synthetic.planted(500, n_features=50, n_labels=240, seed=2)
    best = tune(rows.features, rows.labels, metric="R@5", costs=(1.0,), losses=["logistic"])
    assert (best.judged_by, best.labels, best.metric) == ("R@2", 100, "R@5")
    assert best.model is not None
    assert best.model.n_labels == 240
    assert f"R@2 of 100 of the labels (for {best.metric}) about" in best.headline
    assert replace(best, model=None).headline == best.headline


def test_with_an_audit_the_last_candidates_are_measured() -> None:
    x, true_labels, observed, p = planted()
    top = TopK.from_scores(x[:, :16].toarray(), 3)
    sample = audit.plan(top, observed, budget=150, seed=0)
    judged = audit.from_rows(sample, true_labels[sample.rows])
    best = tune(x, observed, p, "R@3", costs=(1.0,), losses=["logistic"], audit=judged, refit=False)
    assert best.estimator == "measured"
    last = [t for t in best.table if t.rung]
    assert all(t.judged.error is not None and t.judged.error > 0 for t in last)
    plain = next(t for t in last if t.family == Family("logistic"))
    recipe = plain.family.recipe(math.sqrt(2), Recipe(tol=search.TOLERANCE))
    order = np.random.default_rng(0).permutation(600)
    halves = np.sort(order[:300]), np.sort(order[300:])
    labels, scores = np.zeros((600, 3), np.int32), np.zeros((600, 3), np.float32)
    for own, other in (halves, halves[::-1]):
        made = linear.predict_top(linear.train(x[own], observed[own], recipe)[0], x[other], 3)
        labels[other], scores[other] = made.labels, made.scores
    value = metrics.evaluate(TopK(labels, scores), observed, metrics=["R@3"], audit=judged)
    assert plain.judged.value == value["R@3", "measured"].value


def test_judgements_of_a_data_set_are_used() -> None:
    x, true_labels, observed, p = planted()
    judged = np.where(true_labels.toarray() > 0, 1, -1)
    judged[300:] = 0  # half of the rows are complete
    rows = Dataset(None, observed, judgements=judged)
    options: dict[str, Any] = {"costs": (1.0,), "losses": ["logistic"]}
    best = tune(x, rows, p, "R@3", **options)
    model, _ = linear.train(x, rows, best.recipe, propensity=best.propensity)
    assert best.model is not None
    assert np.array_equal(best.model.weights, model.weights)
    assert (
        best.table[0].judged.value != tune(x, observed, p, "R@3", **options).table[0].judged.value
    )


# What it shows


def test_it_shows_itself_in_a_terminal_a_notebook_and_a_chart(tmp_path: Path) -> None:
    best = tuned()
    text = str(best)
    assert text.startswith(f"{best.headline}\n{best.reason}\n")
    assert f"C = {best.recipe.C:g}" in best.headline
    assert f"{best.chosen.judged.value:.3f}" in best.headline
    (marked,) = [line for line in text.splitlines() if line.startswith("→")]
    assert f"{best.chosen.judged.value:.4f}" in marked
    assert marked.split("  ")[1] == best.chosen.family.name
    assert best._repr_html_().startswith("<table>")
    names = {series.name for chart in best.chart().charts for series in chart.series}
    assert names == {t.family.name for t in best.table}
    assert best.plot(tmp_path / "tried.csv").name == "tried.csv"
    record = best.to_dict()
    assert record["recipe"]["C"] == best.recipe.C
    assert len(record["tried"]) == len(best.table)
    assert record["chosen"]["value"] == best.chosen.judged.value


# What it refuses


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": "mAP"}, "judged by their best labels"),
        ({"metric": "micro-F1"}, "judged by their best labels"),
        ({"metric": "PSP@3"}, "no estimate that is right"),
        ({"losses": []}, "losses is empty"),
        ({"losses": ["hinge"]}, "hinge"),
        ({"tau": [0.0]}, "tau must lie in"),
        ({"tau": [np.nan]}, "tau must lie in"),
        ({"costs": []}, "costs is empty"),
        *(({"costs": [cost]}, "costs must lie in") for cost in (np.inf, np.nan, 0.0, -1.0)),
        ({"rank_by": ["name"]}, "name"),
    ],
)
def test_it_refuses_what_it_cannot_do(changes: dict[str, Any], message: str) -> None:
    x, _, observed, p = planted()
    with pytest.raises(ValueError, match=message):
        tune(x, observed, p, **{"metric": "R@3", "losses": ["logistic"], **changes})


def test_it_needs_rows_to_hold_out() -> None:
    with pytest.raises(ValueError, match="at least 4 rows"):
        tune(np.eye(3), np.eye(3, dtype=int))
    with pytest.raises(ValueError, match="rows"):
        tune(np.eye(5), np.eye(4, dtype=int))
    assert replace(Judge("R@1", "vanilla"), metric="P@2").places == 2


INVERSE = np.array([1.0, 2.0, 4.0, 8.0])
SHOWN = sp.csr_array(np.array([[1.0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]]))
PREDICTED = [[1, 2, 0], [3, -1, -1], [0, 1, 2], [3, 2, 1]]


@pytest.mark.parametrize(
    "worth",
    [
        np.array([[0.0, 1.0, 0.5]]),
        np.array([[0.0, 1.0, 0.5, 0.25, 0.2], [0.0, 0.7, 0.6, 0.3, 0.1]]),
        np.array([[0.0, 1.0]] * 5),
    ],
)
def test_every_hit_adds_its_inverse_propensity_times_its_worth(worth: np.ndarray) -> None:
    """By place, up to as many as count, and by how many labels were observed."""
    top = TopK(PREDICTED, [[0.9, 0.5, 0.1], [0.9, -np.inf, -np.inf], [3, 2, 1], [3, 2, 1]])
    places, most = worth.shape
    wanted = []
    for i, row in enumerate(PREDICTED):
        own = set(SHOWN[[i]].indices.tolist())
        hits = [(place, j) for place, j in enumerate(row[:places]) if j in own]
        wanted.append(sum(INVERSE[j] * worth[place, min(len(own), most - 1)] for place, j in hits))
    assert Hits(INVERSE, worth).of(top, SHOWN) == pytest.approx(wanted)


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
    assert tuner._choice(tuned) == said


ROWS = synthetic.planted(240, n_features=60, n_labels=30, labels_per_row=3, seed=5)
CHANCES = np.linspace(0.3, 0.9, 30)
SEEN = data.hide(ROWS.labels, CHANCES, seed=1)
RECIPE = tree.TreeRecipe(n_trees=2, arity=4, leaf=4)


def test_values_are_those_of_one_tree_on_rows_that_it_has_not_seen() -> None:
    best = tune_tree(ROWS.features, SEEN, CHANCES, "P@2", costs=[0.1, 3.0], recipe=RECIPE, seed=4)
    assert best.estimator == "unbiased"
    assert len(best.table) == 2 * (2 + 1) * 2  # losses × (both rankings of vanilla, counts) × C
    order = np.random.default_rng(4).permutation(240)
    held, kept = order[: 240 // HELD_OUT], order[240 // HELD_OUT :]
    for tried in best.table[::5]:
        family = tried.family
        one = tree.TreeRecipe(family.loss, family.correction, 1, 4, 4, tried.cost)
        model = tree.train(ROWS.features[kept], SEEN[kept], one, propensity=CHANCES)
        top = tree.predict_top(
            model, ROWS.features[held], 2, rank_by=tried.family.rank_by, propensity=CHANCES
        )  # fmt: skip
        table = evaluate(top, SEEN[held], CHANCES, metrics=["P@2"], estimators=["unbiased"])
        assert tried.judged.value == pytest.approx(table["P@2", "unbiased"].value)


def test_the_best_is_trained_on_all_rows_and_predicts_as_it_was_judged() -> None:
    best = tune_tree(ROWS.features, SEEN, CHANCES, "R@3", costs=[0.3], recipe=RECIPE)
    value, index = max((tried.judged.value, -i) for i, tried in enumerate(best.table))
    assert best.chosen == best.table[-index]
    assert best.rank_by == best.chosen.family.rank_by
    assert best.recipe == best.chosen.family.recipe(best.chosen.cost, RECIPE)
    assert f"R@3 about {value:.3f} (deconvolved" in best.headline
    assert best.reason == "It is the best by R@3 of all that was tried."
    model = tree.train(ROWS.features, SEEN, best.recipe, propensity=CHANCES)
    wanted = tree.predict_top(model, ROWS.features, 3, rank_by=best.rank_by, propensity=CHANCES)
    np.testing.assert_array_equal(best.predict_top(ROWS.features, 3).labels, wanted.labels)


def test_without_propensities_nothing_is_corrected() -> None:
    best = tune_tree(ROWS.features, SEEN, metric="P@1", costs=[0.3], refit=False)
    assert {tried.family.correction for tried in best.table} == {"vanilla"}
    assert {tried.family.rank_by for tried in best.table} == {"score"}
    with pytest.raises(ValueError, match="no model; train one"):
        best.predict_top(ROWS.features, 3)


def test_bad_calls_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 5 rows; got 4"):
        tune_tree(ROWS.features[:4], SEEN[:4])
    with pytest.raises(ValueError, match="nothing to try"):
        tune_tree(ROWS.features, SEEN, costs=[])
    with pytest.raises(ValueError, match="needs sets of labels"):
        tune_tree(ROWS.features, SEEN, propensity.constant(30, 0.5), "micro-F1")


def test_progress_counts_every_tree() -> None:
    told: list[tuple[int, int]] = []
    tune_tree(
        ROWS.features, SEEN, CHANCES, "P@1", costs=[0.3, 1.0], losses=["logistic"], recipe=RECIPE,
        refit=False, progress=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
