"""Audit plans: by hand, derivatives, promises, budgets, refusals."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from tests.helpers.propensities import audited_rows, certain, estimated
from unmask import data, propensity
from unmask.predictions import TopK
from unmask.propensity import audit_planning as plans
from unmask.propensity import calibration

GUESS = np.array([0.2, 0.5, 0.8, 0.4])


NAMED = [[0], [1, 2], [2], [3, 0, 1], [], [1], [3]]


NAN, INF = float("nan"), float("inf")


def sure_predictions(named: list[list[int]], n_labels: int) -> tuple[TopK, np.ndarray]:
    """Predictions all of which are observed, hence certainly true, and the labels."""
    width = max(map(len, named))
    padded = [row + [-1] * (width - len(row)) for row in named]
    scores = [[1.0 - j / 9 for j in range(len(r))] + [-INF] * (width - len(r)) for r in named]
    labels = np.zeros((len(named), n_labels))
    for row, each in enumerate(named):
        labels[row, each] = 1
    return TopK(padded, scores), labels


def variance(p: np.ndarray, slope: np.ndarray, own: np.ndarray, common: np.ndarray) -> np.ndarray:
    """s_j² v_j / K_j of every label and S_g² v_g / K_g of its group; at most 8 labels: one each."""
    return slope**2 * (1 - p) / p * np.array([1 / own, 1 / common])


@pytest.mark.parametrize("label_cost", [0.0, 0.5])
@pytest.mark.parametrize("k", [None, 2, 9])
def test_a_plan_by_hand(k: int | None, label_cost: float) -> None:
    """Certain predictions: each further row is the one that lowers Var(θ) most for its cost."""
    top, labels = sure_predictions(NAMED, 4)
    places = min(k or 3, 3)
    budget = 3.0
    found = propensity.audit_plan(top, labels, GUESS, budget=budget, k=k, label_cost=label_cost)
    hits = np.array([sum(j in row[:places] for row in NAMED) for j in range(4)])
    slope = hits / GUESS / (places * len(NAMED))
    own, common = np.full(4, plans.CURVE_EQUIVALENT), np.full(4, plans.GUESS_EQUIVALENT)
    start = variance(GUESS, slope, own, common)
    assert found.before == pytest.approx(np.sqrt(start.sum()), rel=1e-12)
    np.testing.assert_allclose(found.labels, start.sum(axis=0) / start.sum(), rtol=1e-12)
    cost = 1 + label_cost * labels.sum(axis=1)
    blind = found.cost / cost.mean() * labels.mean(axis=0)
    wanted = variance(GUESS, slope, own + blind, common + blind).sum()
    assert found.uniform == pytest.approx(np.sqrt(wanted), rel=1e-12)

    left, spent, rows = set(range(len(NAMED))), 0.0, []
    while left:
        now = variance(GUESS, slope, own, common)
        more = variance(GUESS, slope, own + 1, common + 1)  # of an audited label, one more
        gain = ((now - more).sum(axis=0) * labels).sum(axis=1) / cost
        best = max(left, key=lambda row: (gain[row], -row))
        if spent + cost[best] > budget:
            break
        left.remove(best)
        rows.append(best)
        spent += cost[best]
        own, common = own + labels[best], common + labels[best]
    assert found.rows.tolist() == rows
    assert found.cost == pytest.approx(spent, rel=1e-12)
    wanted = variance(GUESS, slope, own, common).sum()
    assert found.after == pytest.approx(np.sqrt(wanted), rel=1e-12)


def test_what_was_audited_once_is_worth_less() -> None:
    """Two rows of four: the pair that leaves the least variance, of all pairs, is planned."""
    top, labels = sure_predictions([[0], [0], [1], [1]], 2)
    p = np.array([0.5, 0.5845])
    slope = np.array([2, 2]) / p / 4

    def left(pair: tuple[int, ...]) -> float:
        more = labels[list(pair)].sum(axis=0)
        known = plans.CURVE_EQUIVALENT + more, plans.GUESS_EQUIVALENT + more
        return float(variance(p, slope, *known).sum())

    best = min(combinations(range(4), 2), key=left)
    found = propensity.audit_plan(top, labels, p, budget=2)
    assert tuple(found.rows) == best == (0, 2)
    assert found.after == pytest.approx(np.sqrt(left(best)), rel=1e-12)


def test_a_plan_for_a_single_label() -> None:
    top, labels = sure_predictions([[0], [0]], 1)
    assert propensity.audit_plan(top, labels, [0.5], budget=1).rows.tolist() == [0]


def test_labels_of_similar_propensity_err_together() -> None:
    """16 labels in eight pairs by rank: a pair's common error is shared between the two."""
    p = np.random.default_rng(0).permutation(np.linspace(0.1, 0.9, 16))
    top, labels = sure_predictions([[j] for j in range(16)] + [[3], [3], [5]], 16)
    found = propensity.audit_plan(top, labels, p, budget=1)
    slope = labels.sum(axis=0) / p / 19
    odds = (1 - p) / p
    shares = slope**2 * odds / plans.CURVE_EQUIVALENT
    for pair in np.argsort(p).reshape(8, 2):
        shares[pair] += slope[pair].sum() ** 2 * odds[pair].mean() / plans.GUESS_EQUIVALENT / 2
    assert found.before == pytest.approx(np.sqrt(shares.sum()), rel=1e-12)
    np.testing.assert_allclose(found.labels, shares / shares.sum(), rtol=1e-12)


def test_an_estimate_is_worth_what_its_draws_say() -> None:
    """K = v / Var(ln p), of each label within its pair and of the pair, and at least 1."""
    rng = np.random.default_rng(0)
    p = rng.permutation(np.linspace(0.1, 0.9, 16))
    spread = np.where(p > 0.7, 2.0, np.linspace(0.01, 0.3, 16))
    logs = np.log(p) + spread * rng.standard_normal((200, 16)) + 0.1 * rng.standard_normal((200, 1))
    top, labels = sure_predictions([[j] for j in range(16)], 16)
    estimate = certain(p, np.exp(logs))
    found = propensity.audit_plan(top, labels, estimate, budget=1)
    logs = np.log(estimate.draw(seed=0, size=200))
    slope, odds = 1 / p / 16, (1 - p) / p
    wanted = 0.0
    for pair in np.argsort(p).reshape(8, 2):
        mean = logs[:, pair].mean(axis=1)
        own = np.maximum(odds[pair] / (logs[:, pair] - mean[:, None]).var(axis=0), 1)
        common = max(odds[pair].mean() / mean.var(), 1)
        wanted += (slope[pair] ** 2 * odds[pair] / own).sum()
        wanted += slope[pair].sum() ** 2 * odds[pair].mean() / common
    assert found.before == pytest.approx(np.sqrt(wanted), rel=1e-9)


def test_a_label_whose_draws_agree_is_known() -> None:
    """Draws that do not vary leave nothing to find out."""
    top, labels = sure_predictions([[0], [1]], 2)
    found = propensity.audit_plan(top, labels, certain([0.5, 0.5], [[0.5, 0.5]] * 200), budget=1)
    assert 0 < found.before < 1e-4


def test_scores_are_cut_into_equal_parts() -> None:
    """60 distinct scores make 30 pairs; one of each pair is seen, of a label with its own p."""
    p = np.linspace(1.0, 0.51, 30)
    named = np.repeat(np.arange(30), 2)[:, None]
    scores = np.arange(60.0)[:, None]
    labels = np.zeros((60, 30))
    labels[np.arange(0, 60, 2), named[::2, 0]] = 1
    chance = calibration.chances(TopK(named, scores), sp.csr_array(labels), p)
    np.testing.assert_allclose(chance.toarray()[np.arange(60), named[:, 0]], np.repeat(0.5 / p, 2))
    assert chance.nnz == 60


def test_chances_are_chances() -> None:
    """Never above 1, however rare the label, and never 0, even if nothing was ever seen."""
    labels = sp.csr_array(np.array([[1.0], [1.0], [0.0], [0.0]]))
    top = TopK(np.zeros((4, 1), int), np.array([[9.0], [8.0], [-1.0], [-2.0]]))
    chance = calibration.chances(top, labels, np.array([0.1])).toarray().ravel()
    np.testing.assert_array_equal(chance, [1, 1, 1e-3, 1e-3])


def test_a_budget_without_end_audits_everything() -> None:
    top, labels = sure_predictions(NAMED, 4)
    for options in ({}, {"label_cost": 0.3}):
        found = propensity.audit_plan(top, labels, GUESS, budget=INF, **options)
        assert sorted(found.rows) == list(range(len(NAMED)))
        assert found.after == pytest.approx(found.uniform, rel=1e-9)
    same = propensity.audit_plan(top, labels, GUESS, budget=len(NAMED))
    assert same.cost == len(NAMED)


def test_a_budget_below_the_cheapest_row_buys_nothing() -> None:
    top, labels = sure_predictions([[0, 1], [1, 0]], 2)
    found = propensity.audit_plan(top, labels, [0.5, 0.4], budget=1, label_cost=1.0)
    assert (found.rows.size, found.cost) == (0, 0.0)
    assert found.before == found.after == found.uniform
    one = propensity.audit_plan(top, labels, [0.5, 0.4], budget=3, label_cost=1.0)
    assert (one.rows.tolist(), one.cost) == ([0], 3.0)


def test_nothing_is_left_to_find_where_no_label_is_lost() -> None:
    top, labels = sure_predictions(NAMED, 4)
    found = propensity.audit_plan(top, labels, np.ones(4), budget=2)
    assert found.before == found.after == 0
    np.testing.assert_array_equal(found.labels, 0)


def test_recall_moves_only_where_a_row_has_labels_found_and_not_found() -> None:
    """Labels 0 and 1 observed, 0 predicted: R = (1/p₀) / (1/p₀ + 1/p₁). Other rows have 0 or 1."""
    top = TopK([[0], [0], [1]], [[0.9], [0.8], [0.1]])
    labels = sp.csr_array(np.array([[1.0, 1.0], [0, 0], [0, 1.0]]))
    p = np.array([0.25, 0.8])
    slope = plans.METRICS["recall"](top, labels, p, 1)
    recall = 4 / 5.25
    np.testing.assert_allclose(slope, np.array([-1, 1]) * recall * (1 - recall) / 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": 0.99}, r"budget must lie in \[1, inf\]"),
        ({"budget": NAN}, "budget must lie"),
        ({"label_cost": -0.1}, "label_cost must lie"),
        ({"label_cost": INF}, "label_cost must lie"),
        ({"metric": "ndcg"}, "unknown metric 'ndcg'; use one of: precision, recall"),
        ({"k": 0}, "k must be a whole number"),
        ({"propensity": [0.5]}, "1 propensities for 4 labels"),
        ({"top": TopK([[4]] * 7, [[0.5]] * 7)}, "label 4 is predicted, but there are 4 labels"),
        ({"top": TopK([[-1]] * 7, [[-INF]] * 7)}, "no row has a prediction"),
    ],
)
def test_plans_that_cannot_be_made_are_refused(change: dict[str, Any], message: str) -> None:
    top, labels = sure_predictions(NAMED, 4)
    given = {"top": top, "labels": labels, "propensity": GUESS, "budget": 2, **change}
    with pytest.raises(ValueError, match=message):
        propensity.audit_plan(**given)


def predictions(true: sp.csr_array, k: int, seed: int) -> TopK:
    noise = np.random.default_rng(seed).normal(size=true.shape)
    return TopK.from_scores((noise + 2.5 * true.toarray()).astype(np.float32), k)


@pytest.mark.parametrize("metric", ["precision", "recall"])
def test_slopes_are_derivatives_of_the_metric(metric: str) -> None:
    from unmask.propensity import audit_planning as plan

    true = data.synthetic.independent(40, 6, probability=0.4, seed=0)
    p = np.linspace(0.3, 0.9, 6)
    seen, top = data.hide(true, p, seed=1), predictions(true, 2, 0)

    def value(log_p: np.ndarray) -> float:
        inverse = np.exp(-log_p)
        weighed = seen.toarray() * inverse
        hits = np.take_along_axis(weighed, top.labels, 1).sum(axis=1)
        if metric == "precision":
            return float(hits.mean() / 2)
        return float((hits / np.maximum(weighed.sum(axis=1), 1)).mean())

    found = plan.METRICS[metric](top, seen, p, 2)
    np.testing.assert_allclose(found, approx_fprime(np.log(p), value, 1e-7), atol=1e-6)


def test_the_plan_looks_at_predictions_and_never_at_a_rows_own_labels() -> None:
    """Swapping observed labels among rows with the same predictions changes no choice."""
    top = TopK(np.array([[0, 1]] * 6 + [[1, 0]] * 6), np.tile([0.9, 0.1], (12, 1)))
    labels = np.zeros((12, 2))
    labels[[0, 1, 6], [0, 0, 1]] = 1
    moved = np.zeros((12, 2))
    moved[[3, 5, 9], [0, 0, 1]] = 1
    plans = [propensity.audit_plan(top, x, [0.5, 0.2], budget=4) for x in (labels, moved)]
    np.testing.assert_array_equal(plans[0].rows, plans[1].rows)


@settings(max_examples=20)
@given(st.integers(1, 120), st.sampled_from(["precision", "recall"]))
def test_a_plan_promises_no_less_than_a_blind_audit(budget: int, metric: str) -> None:
    true = data.synthetic.planted(100, n_labels=30, seed=3).labels
    p = np.linspace(0.2, 0.9, 30)
    seen, top = data.hide(true, p, seed=1), predictions(true, 3, 0)
    plan = propensity.audit_plan(top, seen, p, budget=budget, metric=metric)
    assert len(set(plan.rows.tolist())) == min(budget, 100)
    assert plan.after <= plan.uniform * (1 + 1e-9) <= plan.before * (1 + 1e-9)
    assert plan.labels.sum() == pytest.approx(1)


def test_chances_are_corrected_hit_rates_that_rise_with_the_score() -> None:
    """Two scores, one label with p = 1/2: 30 of 80 and 5 of 80 hits are seen."""
    scores = np.repeat([[0.9], [0.1]], 80, axis=0)
    labels = np.zeros((160, 1))
    labels[:30], labels[80:85] = 1, 1
    chance = calibration.chances(
        TopK(np.zeros((160, 1), int), scores), sp.csr_array(labels), np.array([0.5])
    )
    np.testing.assert_allclose(chance.toarray().ravel(), np.repeat([60 / 80, 10 / 80], 80))
    upside_down = calibration.chances(
        TopK(np.zeros((160, 1), int), -scores), sp.csr_array(labels), np.array([0.5])
    )
    np.testing.assert_allclose(upside_down.toarray(), 70 / 160)  # may not fall with the score


def test_rows_with_many_likely_labels_come_first_unless_labels_are_dear() -> None:
    true = data.synthetic.planted(1500, n_labels=40, seed=3).labels
    p = np.full(40, 0.4)
    seen, top = data.hide(true, p, seed=1), predictions(true, 12, 0)
    size = np.diff(true.indptr)
    cheap = propensity.audit_plan(top, seen, p, budget=100, k=5)
    assert cheap.cost == len(cheap.rows) == 100
    assert size[cheap.rows].mean() > 1.8 * size.mean()
    assert cheap.uniform / cheap.after > 1.2
    dear = propensity.audit_plan(top, seen, p, budget=900, k=5, label_cost=10.0)
    assert 800 < dear.cost <= 900
    assert size[dear.rows].mean() < size[cheap.rows].mean()
    assert 1 <= dear.uniform / dear.after < cheap.uniform / cheap.after


def test_choosing_by_predictions_leaves_rates_alone_and_by_observed_labels_does_not() -> None:
    """Over all masks of four true labels with p = 1/4: the rate among two rows fixed beforehand,
    and among the rows where the label was seen."""
    masks = [
        (np.array(mask), 0.25 ** sum(mask) * 0.75 ** (4 - sum(mask)))
        for mask in product((0, 1), repeat=4)
    ]
    assert sum(mask[[0, 2]].mean() * chance for mask, chance in masks) == pytest.approx(0.25)
    seen = [(mask[mask > 0].mean(), chance) for mask, chance in masks if mask.any()]
    assert all(rate == 1 for rate, _ in seen)


def test_a_plan_knows_what_an_estimate_knows() -> None:
    seen, true, _ = audited_rows(400)
    estimate = estimated(400)
    top = predictions(true, 3, 0)
    sure = propensity.audit_plan(top, seen, estimate, budget=50)
    unsure = propensity.audit_plan(top, seen, estimate.value, budget=50)
    assert sure.before < unsure.before


@pytest.mark.parametrize("budget", [0.0, 2.5, 7.5, 1e9])
def test_rows_are_chosen_batch_by_batch_by_what_they_gain_for_their_cost(budget: float) -> None:
    """By loops: 25 equal parts of the budget, each spent on the rows of most gain per cost."""
    rng = np.random.default_rng(2)
    chance, cost = rng.random((60, 4)), rng.uniform(0.05, 0.4, 60)
    variances, before = np.array([3.0, 1, 0.5, 2]), np.array([1.0, 2, 0.5, 4])
    chosen: list[int] = []
    audited, spent = before.copy(), 0.0
    whole = min(budget, cost.sum() * (1 + 1e-9))
    for part in range(1, 26):
        gain = [
            sum(chance[i, j] * variances[j] * (1 / audited[j] - 1 / (audited[j] + 1))
                for j in range(4)) / cost[i]
            for i in range(60)
        ]  # fmt: skip
        batch: list[int] = []
        for i in sorted((i for i in range(60) if i not in chosen), key=lambda i: -gain[i]):
            if spent + sum(cost[batch]) + cost[i] > whole * part / 25:
                break
            batch.append(i)
        chosen += batch
        spent += sum(cost[batch])
        audited = audited + chance[batch].sum(axis=0)
    rows, after = plans._greedy(sp.csr_array(chance), cost, variances, before, budget)
    assert rows.tolist() == chosen
    np.testing.assert_allclose(after, audited)
    assert len(chosen) == {0.0: 0, 1e9: 60}.get(budget, len(chosen))
    assert before.tolist() == [1.0, 2, 0.5, 4]


def test_groups_are_equal_parts_by_rising_propensity() -> None:
    p = np.array([0.5, 0.1, 0.9, 0.3])
    assert plans._groups(p).toarray().argmax(axis=1).tolist() == [2, 0, 3, 1]
    many = plans._groups(np.linspace(1, 0.1, 3 * plans.GROUPS)).toarray()
    assert many.sum(axis=0).tolist() == [3] * plans.GROUPS
    assert many.argmax(axis=1).tolist() == sorted(many.argmax(axis=1).tolist(), reverse=True)
    group = plans._groups(np.array([0.5, 0.1, 0.9]))
    shares = plans._shares(np.array([1.0, 2, 3, 4, 8, 2]), group)
    np.testing.assert_allclose(shares, [(1 + 8) / 20, (2 + 4) / 20, (3 + 2) / 20])
    assert not plans._shares(np.zeros(6), group).any()
