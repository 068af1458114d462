"""The diagnosis: exact null distributions where there are any, planted violations, silence."""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import combinations, permutations, product
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, gamma, norm

from tests.helpers import oracles, strategies
from unmask import _mixture, data, propensity
from unmask.diagnosis import (
    Diagnosis,
    Finding,
    FindingKind,
    LabelGroup,
    Test,
    TestKind,
    dependence,
    diagnose,
    feasibility,
    wording,
)
from unmask.diagnosis.diagnose import _summary, _violation, holm
from unmask.diagnosis.usability import _kish, usability, usability_findings
from unmask.propensity.audit import residuals
from unmask.weights import normalized_weights

L = 60


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@lru_cache
def planted(n: int, seed: int = 0) -> sp.csr_array:
    return data.synthetic.planted(n, n_labels=L, seed=seed).labels


def shifted(true: sp.csr_array, p: np.ndarray, shift: np.ndarray, seed: int) -> sp.csr_array:
    """Labels kept with logit p_j + shift of the entry: masks that are not what is stated."""
    odds = (p / (1 - p))[true.indices] * np.exp(shift)
    chance = sp.csr_array((odds / (1 + odds), true.indices, true.indptr), shape=true.shape)
    return data.hide(true, chance, seed=seed)


ALL, LOW = LabelGroup.ALL, LabelGroup.LOW_PROPENSITY


def violations(found: Diagnosis, alpha: float = 0.05) -> set[tuple[str, str | None]]:
    return {(test.kind, test.group) for test in found.tests if test.adjusted <= alpha}


# -------------------------------------------- what holds for every distribution of true labels


@given(strategies.label_sets(max_labels=6))
def test_spread_and_emptiness_bounds_hold_for_any_true_labels(case: tuple) -> None:
    """E[(m − E m)² − Σ_observed (1 − p)] ≥ 0 and P(m = 0) ≥ exp E Σ_observed ln(1 − p)/p."""
    true, p = case
    p = np.minimum(p, 0.99)
    mean = oracles.expectation_over_masks(len, true, p)
    excess = oracles.expectation_over_masks(
        lambda seen: (len(seen) - mean) ** 2 - sum(1 - p[j] for j in seen), true, p
    )
    assert excess == pytest.approx(0, abs=1e-9)  # fixed true labels are the boundary
    exponent = oracles.expectation_over_masks(
        lambda seen: sum(np.log1p(-p[j]) / p[j] for j in seen), true, p
    )
    empty = oracles.expectation_over_masks(lambda seen: float(not seen), true, p)
    assert empty == pytest.approx(np.exp(exponent), rel=1e-9)


@given(strategies.label_sets(max_labels=6))
def test_counts_are_a_thinning_with_the_largest_propensity(case: tuple) -> None:
    """The count under p is the count under p/t thinned by t, as distributions."""
    true, p = case
    t = p.max()

    def distribution(q: np.ndarray) -> np.ndarray:
        return np.array(
            [
                oracles.expectation_over_masks(lambda seen: float(len(seen) == m), true, q)  # noqa: B023
                for m in range(len(true) + 1)
            ]
        )

    first = distribution(p / t)
    thinned = np.zeros(len(true) + 1)
    for before, chance in enumerate(first):
        for kept in range(before + 1):
            ways = len(list(combinations(range(before), kept)))
            thinned[kept] += chance * ways * t**kept * (1 - t) ** (before - kept)
    np.testing.assert_allclose(distribution(p), thinned, atol=1e-12)


def test_spread_by_hand() -> None:
    labels = sp.csr_array(np.array([[1, 1], [1, 1], [0, 1], [1, 0]], dtype=np.float32))
    found = feasibility.spread(labels, np.array([0.5, 0.25]), ALL)
    assert "variance 0.25" in found.effect
    assert "makes it 0.938" in found.effect  # (3 · 0.5 + 3 · 0.75) / 4
    assert found.p_value < 0.5


def test_empty_rows_by_hand() -> None:
    """Rows of 1, 2 and 2 labels at p = ½: each label stands for ln(½)/½ lost ones."""
    labels = sp.csr_array([[1, 0], [1, 1], [1, 1], [0, 0.0]])
    found = feasibility.empty_rows(labels, np.array([0.5, 0.5]), ALL)
    exponent = 2 * np.log(0.5) * np.array([1, 2, 2, 0])
    bound = np.exp(exponent.mean())
    cautious = bound * np.exp(norm.ppf(1e-3) * exponent.std() / 2)
    assert found.p_value == pytest.approx(min(1, binom.cdf(1, 4, cautious) + 1e-3))
    assert (
        f"1 of 4 rows are empty, but with these propensities at least {bound:.1%}" in found.effect
    )
    full = feasibility.empty_rows(sp.csr_array(np.ones((90, 2))), np.array([0.5, 0.5]), ALL)
    assert full.p_value == pytest.approx((1 - 0.5**4) ** 90 + 1e-3)
    assert full.effect.startswith("no row is empty")
    assert (found.advice, full.advice) == (wording.NOT_INDEPENDENT, wording.NO_EMPTY_ROWS)
    certain = feasibility.empty_rows(labels, np.array([1.0, 0.5]), ALL)
    assert certain.p_value == 1  # a label that is never lost keeps its row


def test_the_most_frequent_label_by_hand() -> None:
    labels = sp.csr_array((np.arange(10)[:, None] < [9, 5, 2]).astype(np.float32))
    (found,) = feasibility.frequency(labels, np.array([0.9, 0.3, 0.1]))
    assert found.p_value == pytest.approx(3 * binom.sf(4, 10, 0.3))
    assert "label 1 is observed in 50.0% of the rows; its propensity is 0.3" in found.effect
    assert "(2 of them)" in found.advice
    assert list(feasibility.frequency(sp.csr_array((5, 0)), np.ones(0))) == []


def test_beyond_all_replicates_the_tail_is_that_of_a_gamma() -> None:
    drawn = np.array([1.0, 2.0, 3.0, 6.0])
    mean, variance = 3.0, 3.5
    assert feasibility._tail(7.0, np.zeros(0)) == 1
    assert feasibility._tail(6.0, drawn) == pytest.approx(2 / 5)
    far = gamma.sf(20.0, mean**2 / variance, scale=variance / mean)
    assert feasibility._tail(20.0, drawn) == pytest.approx(far)
    assert feasibility._tail(6.1, drawn) == pytest.approx(
        min(1 / 5, gamma.sf(6.1, mean**2 / variance, scale=variance / mean))
    )
    assert feasibility._tail(9.0, np.ones(4)) == pytest.approx(1 / 5)


def test_likelihood_ratio_is_zero_for_a_perfect_thinning() -> None:
    """Counts 1 : 2 : 1 are Bin(2, 1/2); 1 : 0 : 1 are no mixture of binomials."""
    fine, fit = feasibility._likelihood_ratio(np.array([25, 50, 25]), 2, 0.5)
    assert fine == pytest.approx(0, abs=1e-3)
    np.testing.assert_allclose(feasibility._histogram(fit, 0.5), [0.25, 0.5, 0.25], atol=1e-3)
    ratio, fit = feasibility._likelihood_ratio(np.array([50, 0, 50]), 2, 0.5)
    # π on 0 and 2 labels: x (1 − x) + … maximises ln(1 − 3x/4) + ln(x/4), so x = 2/3
    assert ratio == pytest.approx(2 * 50 * np.log(0.5 / 0.5 * 0.5 / (1 / 6)), rel=1e-3)
    np.testing.assert_allclose(fit.probability, [1 / 3, 0, 2 / 3], atol=1e-3)


@pytest.mark.parametrize(
    ("rows", "n_labels", "t"),
    [
        ([25, 50, 25], 2, 0.5),
        ([50, 0, 50], 2, 0.5),
        ([0, 50, 100, 3], 6, 0.5),
        ([10, 40, 35, 9, 4, 1, 1], 40, 0.3),
        ([0, 10, 0, 90, 0, 0, 7], 25, 0.6),
    ],
)
def test_the_best_mixture_is_that_of_the_mixture_fitter(
    rows: list[int], n_labels: int, t: float
) -> None:
    """`_mixture.maximize`, another algorithm, run to its end, finds nothing more likely."""
    counts = np.array(rows)
    ratio, fit = feasibility._likelihood_ratio(counts, n_labels, t)
    chances = binom.pmf(np.flatnonzero(counts)[:, None], fit.support, t)
    if not counts[0]:
        chances /= 1 - (1 - t) ** fit.support
    shares = counts[counts > 0] / counts.sum()
    start = np.full(fit.support.size, 1 / fit.support.size)
    options = {"tolerance": 1e-9, "steps": 100_000}
    best = _mixture.maximize(chances, shares[:, None], start, 1.0, **options).weights[:, 0]
    reached, maximum = (shares @ np.log(chances @ pi) for pi in (fit.probability, best))
    assert reached == pytest.approx(fit.log_likelihood[-1], abs=1e-12)
    assert maximum - 1e-9 <= reached + fit.gap  # never less likely than it certifies
    assert fit.gap <= 1e-6
    expected = 2 * counts.sum() * (shares @ np.log(shares) - reached)
    assert ratio == pytest.approx(max(0.0, expected), abs=1e-9 * counts.sum())


def test_without_empty_rows_counts_are_compared_given_that_they_are_not_zero() -> None:
    """Bin(2, 1/2) given not 0 is 2 : 1, and such a histogram fits; 1 : 2 cannot be fitted."""
    fine, fit = feasibility._likelihood_ratio(np.array([0, 100, 50]), 2, 0.5)
    assert fine == pytest.approx(0, abs=1e-3)
    np.testing.assert_allclose(feasibility._histogram(fit, 0.5), [0, 2 / 3, 1 / 3], atol=1e-3)
    ratio, _ = feasibility._likelihood_ratio(np.array([0, 50, 100]), 2, 0.5)
    expected = 2 * (50 * np.log(1 / 3 / (2 / 3)) + 100 * np.log(2 / 3 / (1 / 3)))
    assert ratio == pytest.approx(expected, rel=1e-3)


def test_removed_empty_rows_are_the_only_finding_about_them() -> None:
    true = planted(3000)
    p = propensity.jain(true)
    seen = data.hide(true, p, seed=1)
    found = diagnose(seen[np.diff(seen.indptr) > 0], p)
    assert violations(found) == {("empty_rows", ALL)}


def test_labels_cut_off_at_a_number_are_recognised() -> None:
    """Rows keep their first ten observed labels at most."""
    true = data.synthetic.independent(3000, 40, probability=0.5, seed=0)
    p = np.full(40, 0.5)
    seen = data.hide(true, p, seed=1)
    place = np.arange(seen.nnz) - np.repeat(seen.indptr[:-1], np.diff(seen.indptr))
    seen.data[place >= 10] = 0
    seen.eliminate_zeros()
    worst = diagnose(seen, p).finding("count_thinning")
    assert worst is not None
    assert "no row shows more than 10 labels" in worst.evidence
    assert "cut off" in worst.advice


def test_a_label_cannot_be_more_frequent_than_its_propensity() -> None:
    labels = sp.csr_array(np.repeat([[1, 0], [0, 1]], [80, 20], axis=0).astype(np.float32))
    (wrong,) = feasibility.frequency(labels, np.array([0.5, 0.5]))
    assert wrong.p_value < 1e-6
    assert "label 0 is observed in 80.0%" in wrong.effect
    (fine,) = feasibility.frequency(labels, np.array([0.9, 0.5]))
    assert fine.p_value > 0.5


def test_labels_that_are_never_lost_allow_anything() -> None:
    """p = 1 for one label: rows with it cannot be empty, and the others are judged as before."""
    true = planted(1500)
    p = np.where(np.arange(L) % 3, 0.4, 1.0)
    found = diagnose(data.hide(true, p, seed=0), p)
    assert violations(found) == set()
    labels = np.ones((50, 3))
    assert violations(diagnose(labels, np.ones(3))) == set()


def test_unequal_propensities_are_no_violation() -> None:
    """Rows of ten labels with p = 0.95 beside rows of labels with p = 0.1: valid, though narrow."""
    true = np.zeros((2000, 20))
    true[:1000, :10], true[1000:, 10:] = 1, 1
    p = np.repeat([0.95, 0.1], 10)
    seen = data.hide(true, p, seed=0)
    assert violations(diagnose(seen, p)) == set()
    assert violations(diagnose(seen, np.full(20, 0.525)))  # the mean propensity is contradicted


def test_groups_split_what_was_observed_in_half() -> None:
    labels = sp.csr_array(np.ones((10, 4), dtype=np.float32))
    parts = dict(feasibility.groups(labels, np.array([0.9, 0.2, 0.5, 0.3])))
    assert [group.tolist() for group in parts.values()] == [[True] * 4, [False, True, False, True]]
    assert len(dict(feasibility.groups(labels, np.full(4, 0.3)))) == 1


# -------------------------------------------------------- tests that condition on k_j of K_j


def arrangements() -> tuple[sp.csr_array, list[sp.csr_array]]:
    """Four rows; every way to keep 2 of 4 of label 0 and 1 of 3 of label 1."""
    true = np.array([[1, 1, 0], [1, 1, 1], [1, 0, 0], [1, 1, 0]], dtype=np.float32)
    ways = []
    for zero, one in product(combinations(range(4), 2), combinations((0, 1, 3), 1)):
        kept = np.zeros_like(true)
        kept[list(zero), 0] = 1
        kept[list(one), 1] = 1
        ways.append(sp.csr_array(kept))
    return sp.csr_array(true), ways


def test_number_of_labels_score_has_the_stated_mean_and_variance() -> None:
    """Over all arrangements of kept entries: mean 0, variance as the test computes it."""
    true, ways = arrangements()
    log_size = np.log(np.diff(true.indptr))
    scores = []
    for kept in ways:
        e = residuals(kept, true).toarray()
        scores.append(float((e * log_size[:, None]).sum()))
    assert np.mean(scores) == pytest.approx(0, abs=1e-12)

    for kept, score in zip(ways, scores, strict=True):
        found = dependence.on_number_of_labels(residuals(kept, true))
        expected = 2 * norm.sf(abs(score) / np.std(scores))
        assert found.p_value == pytest.approx(expected, rel=1e-6)


def test_row_statistic_averages_to_its_single_terms() -> None:
    """Over all arrangements, E (Σ_j e_ij)² = Σ e²: no pair of labels is correlated."""
    true, ways = arrangements()
    together = [(residuals(kept, true).toarray().sum(axis=1) ** 2).sum() for kept in ways]
    single = [(residuals(kept, true).data ** 2).sum() for kept in ways]
    assert np.mean(together) == pytest.approx(np.mean(single))


@pytest.mark.parametrize(
    ("other", "correlation"),
    [([1, 1, 0, 0], "+1.000"), ([0, 0, 1, 1], "-1.000"), ([1, 0, 1, 0], "+0.000")],
)
def test_the_correlation_between_labels_of_a_row_by_hand(
    other: list[int], correlation: str
) -> None:
    """Two labels of four rows, kept together, apart, or without regard for each other."""
    true = sp.csr_array(np.ones((4, 2), np.float32))
    kept = sp.csr_array(np.column_stack([[1, 1, 0, 0], other]).astype(np.float32))
    found = dependence.on_row(residuals(kept, true), rng())
    assert found.effect.endswith(f"with correlation {correlation}")
    assert found.severity == ("warning" if correlation == "+0.000" else "error")


def test_pairs_agree_with_counting_permutations() -> None:
    """Fisher's p-value for one pair: twice the share of permutations at least as extreme."""
    with_it = np.r_[np.ones(5), np.zeros(5)]
    kept = np.r_[1, 0, 0, 0, 0, 1, 1, 1, 1, 0]
    true = sp.csr_array(np.column_stack([np.ones(10), with_it]).astype(np.float32))
    seen = sp.csr_array(np.column_stack([kept, with_it]).astype(np.float32))
    found = dependence.on_other_labels(seen, true)
    counts = [sum(kept[list(rows)]) for rows in combinations(range(10), 5)]
    expected = 2 * np.mean(np.array(counts) <= 1)
    assert found.p_value == pytest.approx(expected)
    assert "label 0 is kept in 20% of the rows that have label 1 and in 80%" in found.effect


def test_agreement_counts_the_audit() -> None:
    true = sp.csr_array(np.ones((100, 2), dtype=np.float32))
    seen = sp.csr_array(
        np.repeat([[1, 1], [1, 0], [0, 0]], [25, 25, 50], axis=0).astype(np.float32)
    )
    level, shape, each = dependence.agreement(seen, true, np.array([0.5, 0.25]))
    assert level.p_value == pytest.approx(1)
    assert shape.p_value == pytest.approx(1)
    assert each.p_value > 0.9
    level, _, each = dependence.agreement(seen, true, np.array([0.8, 0.25]))
    assert level.p_value < 1e-6
    assert "37.5% of the audited labels were kept; these propensities say 52.5%" in level.effect
    assert "label 0 was kept 50 of 100 times" in each.effect


def test_the_shape_is_a_regression_on_the_logits_of_the_propensities() -> None:
    """Weighted by the variances; a label that is never lost or never present tells nothing."""
    kept, of = np.array([9, 20, 11, 30, 0]), np.array([40, 40, 40, 30, 0])
    p = np.array([0.3, 0.4, 0.5, 1.0, 0.5])
    true = sp.csr_array((np.arange(40)[:, None] < of).astype(np.float32))
    seen = sp.csr_array((np.arange(40)[:, None] < kept).astype(np.float32))
    level, shape, each = dependence.agreement(seen, true, p)
    p, kept, of = p[:3], kept[:3], of[:3]
    variance, logits = of * p * (1 - p), np.log(p / (1 - p))
    centred = logits - np.average(logits, weights=variance)
    score, information = (kept - of * p) @ centred, variance @ centred**2
    assert shape.p_value == pytest.approx(2 * norm.sf(abs(score) / np.sqrt(information)))
    assert f"should rise {1 + score / information:.2f} times as fast" in shape.effect
    expected = 2 * norm.sf(abs((kept - of * p).sum()) / np.sqrt(variance.sum()))
    assert level.p_value == pytest.approx(expected)
    assert "33.3% of the audited labels were kept; these propensities say 40.0%" in level.effect
    assert level.severity == "error"  # more than 5 % off
    assert each.p_value == pytest.approx(min(1, 3 * 2 * binom.cdf(11, 40, 0.5)))
    assert "label 2 was kept 11 of 40 times; its propensity is 0.5" in each.effect


def test_without_a_label_that_can_be_lost_there_is_nothing_to_agree_with() -> None:
    true = sp.csr_array(np.ones((3, 2), dtype=np.float32))
    assert list(dependence.agreement(true, true, np.ones(2))) == []
    (_, each) = dependence.agreement(true, true, np.array([0.5, 0.5]))  # logits do not differ
    assert each.p_value == pytest.approx(2 * 2 * 0.5**3)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_holm_equals_the_closed_test(p_values: list[float]) -> None:
    """Adjusted p = the largest Bonferroni p-value over all sets of hypotheses containing it."""
    found = [test.adjusted for test in holm([Test(TestKind.ROW, p) for p in p_values])]
    everything = range(len(p_values))
    for i in everything:
        sets = [s for r in everything for s in combinations(everything, r + 1) if i in s]
        closed = max(min(1.0, len(s) * min(p_values[j] for j in s)) for s in sets)
        assert found[i] == pytest.approx(closed)


def test_holm_keeps_the_order_of_tests() -> None:
    for order in permutations((0.01, 0.02, 0.9)):
        found = holm([Test(TestKind.ROW, p, {"chance": p}) for p in order])
        assert [test.values["chance"] for test in found] == list(order)


# ------------------------------------------------------------------------ planted violations


@pytest.mark.parametrize("model", ["jain", "constant:0.4", "inverse_linear:2,10"])
def test_valid_data_pass_in_silence(model: str) -> None:
    true = planted(2300)
    p = propensity.from_spec(model, true)
    seen = data.hide(true, p, seed=5)
    found = diagnose(seen[:2000], p, (seen[2000:], true[2000:]))
    assert violations(found) == set()
    assert found.severity != "error"
    assert found.finding("no_contradiction") is not None


def keep_at_least_one(true: sp.csr_array, seen: sp.csr_array) -> sp.csr_array:
    rows = np.flatnonzero((np.diff(seen.indptr) == 0) & (np.diff(true.indptr) > 0))
    first = true.indices[true.indptr[rows]]
    entries = (np.ones(rows.size, dtype=np.float32), (rows, first))
    return sp.csr_array(seen + sp.csr_array(entries, shape=true.shape))


@pytest.mark.parametrize("repair", ["one label put back", "empty rows removed"])
def test_rows_that_never_become_empty_are_flagged(repair: str) -> None:
    true = planted(2000)
    p = propensity.jain(true)
    seen = data.hide(true, p, seed=1)
    if repair == "empty rows removed":
        seen = seen[np.diff(seen.indptr) > 0]
    else:
        seen = keep_at_least_one(true, seen)
    found = diagnose(seen, p)
    assert found.severity == "error"
    assert ("empty_rows", ALL) in violations(found)
    assert "No row is empty" in found.findings[0].evidence


def test_every_row_with_a_label_is_mentioned_even_where_it_proves_nothing() -> None:
    true = data.synthetic.independent(300, 100, probability=0.3, seed=0)
    p = np.full(100, 0.8)
    found = diagnose(data.hide(true, p, seed=0), p)
    assert violations(found) == set()
    assert found.finding("no_empty_rows") is not None


def test_constant_counts_do_not_come_from_losing_labels() -> None:
    """Three labels in every row: no spread at all, while half of the labels went missing."""
    labels = np.array([rng(i).permutation([1, 1, 1, 0, 0, 0, 0, 0]) for i in range(400)])
    found = diagnose(labels, np.full(8, 0.5))
    assert ("count_spread", ALL) in violations(found)
    assert ("count_thinning", ALL) in violations(found)


@pytest.mark.parametrize("kind", ["number_of_labels", "row", "other_labels"])
def test_each_dependence_is_found_with_an_audit(kind: str) -> None:
    true = planted(800, seed=3)
    p = np.full(L, 0.5)
    size = np.diff(true.indptr)
    per_row = {
        "number_of_labels": -1.2 * np.log2(np.maximum(size, 1)),
        "row": 2 * rng().standard_normal(800),
        "other_labels": -3.0 * true[:, [int(np.argmax(true.sum(axis=0)))]].toarray().ravel(),
    }[kind]
    seen = shifted(true, p, np.repeat(per_row, size), seed=2)
    tests = {test.kind: test for test in dependence.dependence(seen, true, rng())}
    assert tests[TestKind(kind)].p_value < 1e-3
    assert tests[TestKind(kind)].severity == "error"


def test_wrong_propensities_are_found_with_an_audit() -> None:
    true = planted(1000)
    seen = data.hide(true, np.full(L, 0.6), seed=0)
    found = diagnose(seen, np.full(L, 0.9), (seen[:300], true[:300]))
    assert ("audit_level", None) in violations(found)
    level = found.finding("audit_level")
    assert level is not None
    assert "propensity.audit" in level.advice


def test_an_estimate_is_tested_at_its_upper_ends() -> None:
    """Half of the labels lost, three in every row: too sure an estimate fails, a vague one not."""
    labels = np.array([rng(i).permutation([1, 1, 1, 0, 0, 0, 0, 0]) for i in range(400)])
    half = propensity.from_counts([5000] * 8, [10_000] * 8, counts=[150] * 8, n=400)
    vague = propensity.from_counts([2] * 8, [2] * 8, counts=[150] * 8, n=400, confidence=0.9999)
    assert violations(diagnose(labels, half))
    assert ("count_spread", ALL) not in violations(diagnose(labels, vague))


def test_spurious_labels_are_mentioned() -> None:
    true = planted(400)
    p = np.full(L, 0.5)
    seen = data.hide(true, p, seed=0)
    wrong = seen.copy().tolil()
    wrong[0] = 1 - true[[0]].toarray()
    found = diagnose(seen, p, (wrong.tocsr()[:100], true[:100]))
    assert found.finding("spurious_labels") is not None


# ------------------------------------------------------------------------------- usability


def test_standard_errors_are_those_of_repeated_masks() -> None:
    """A right model's P@k over fresh masks and rows varies as announced (within 15 %)."""
    p = np.full(20, 0.4)
    values = []
    for seed in range(300):
        true = data.synthetic.independent(400, 20, probability=0.2, seed=seed)
        seen = data.hide(true, p, seed=seed + 1000)
        draw = rng(seed).random(true.shape) * (true.toarray() > 0)
        first = np.argsort(-draw, axis=1)[:, :3]
        values.append((np.take_along_axis(seen.toarray(), first, 1) / 0.4).sum(axis=1).mean() / 3)
    found = usability(seen, p, (3,), rng())
    assert found["standard_error"]["P@3"] == pytest.approx(np.std(values), rel=0.15)


def test_without_losses_everything_is_exact() -> None:
    labels = planted(500)
    found = usability(labels, np.ones(L), (1, 3), rng())
    assert found["effective_sample_size"]["P"] == pytest.approx(labels.nnz)
    assert found["largest_weight"] == {"1/p": 1.0, "T": 1.0}
    assert found["standard_error"]["R@3"] < 0.02


def test_rows_without_labels_have_no_negative_total() -> None:
    labels, p = sp.csr_array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1.0]]), np.full(3, 0.3)
    weights = normalized_weights(labels.indptr, 1 / p[labels.indices])
    totals = np.add.reduceat(weights, labels.indptr[1:-1])
    found = usability(labels, p, (1,), rng())
    assert 0 < (totals < 0).sum() < 3
    assert found["rows_with_negative_total_weight"] == (totals < 0).sum() / 4
    assert found["largest_weight"] == pytest.approx({"1/p": 1 / 0.3, "T": np.abs(weights).max()})
    assert found["effective_sample_size"]["P"] == pytest.approx(6)
    expected = np.abs(weights).sum() ** 2 / (weights**2).sum()
    assert found["effective_sample_size"]["R"] == pytest.approx(expected)
    assert found["observed_labels"] == 6


def test_sample_sizes_hold_for_weights_of_any_size() -> None:
    assert _kish(np.full(3, 1e200)) == pytest.approx(3)
    assert _kish(np.array([1e-200, 3e-200])) == pytest.approx(1.6)
    assert _kish(np.zeros(2)) == _kish(np.zeros(0)) == 0


def test_errors_above_one_are_not_listed() -> None:
    errors = {"P@1": 1.5, "P@3": 2.0, "R@1": 0.5, "R@3": 1.5, "nDCG@1": 1.0}
    assert wording.listed(errors) == (
        "P@k above 1, of no use; R@k ±0.5 at 1, ±1.5 at 3; nDCG@k ±1 at 1"
    )


def figures(precision: float, recall: float, negative: float = 0.0, weight: float = 9.0) -> dict:
    return {
        "standard_error": {
            "P@1": precision / 2,
            "P@3": precision,
            "R@1": recall,
            "R@3": recall / 2,
        },
        "effective_sample_size": {"P": 1234.4, "R": 56.0},
        "largest_weight": {"1/p": 7.0, "T": weight},
        "observed_labels": 9876,
        "rows_with_negative_total_weight": negative,
    }


@pytest.mark.parametrize(
    ("precision", "recall", "severity", "advice"),
    [
        (0.01, 0.01, "info", "Precise enough."),
        (0.011, 0.01, "info", "More rows divide"),
        (0.01, 0.011, "info", "More rows divide"),
        (0.1, 0.1, "info", "More rows divide"),
        (0.11, 0.1, "warning", "More rows divide"),
        (0.1, 0.11, "warning", "More rows divide"),
    ],
)
def test_the_larger_error_decides_what_is_said_of_both(
    precision: float, recall: float, severity: str, advice: str
) -> None:
    exactness, _, _ = usability_findings(figures(precision, recall), False)
    assert (exactness.severity, exactness.advice.startswith(advice)) == (severity, True)
    assert (
        "9,876 labels are worth 1,234 of equal weight in P and nDCG, 56 in R" in exactness.evidence
    )


@pytest.mark.parametrize(
    ("recall", "broken", "severity", "advice"),
    [
        (0.01, False, "info", "Use `unbiased` for every metric."),
        (0.011, False, "info", "Use `unbiased` for P@k and DCG@k"),
        (0.1, False, "info", "Use `unbiased` for P@k and DCG@k"),
        (0.11, False, "warning", "Use `unbiased` for P@k and DCG@k"),
        (0.11, True, "info", "Report `vanilla`"),
    ],
)
def test_which_estimator(recall: float, broken: bool, severity: str, advice: str) -> None:
    _, estimator, _ = usability_findings(figures(0.0, recall), broken)
    assert (estimator.severity, estimator.advice.startswith(advice)) == (severity, True)
    assert ("did not go missing" in estimator.evidence) == broken


def test_recall_with_an_error_above_one_is_noise() -> None:
    for recall, words in ((1.0, "a standard error of 1."), (1.01, "nothing but noise here.")):
        _, estimator, _ = usability_findings(figures(0.0, recall), False)
        assert estimator.evidence.endswith(words)


@pytest.mark.parametrize(
    ("negative", "weight", "advice"),
    [
        (0.01, 100.0, "`unbiased` weights also"),
        (0.011, 100.0, "`empirical_bayes` weights"),
        (0.01, 101.0, "`empirical_bayes` weights"),
    ],
)
def test_which_weights_for_normalised_losses(negative: float, weight: float, advice: str) -> None:
    *_, loss = usability_findings(figures(0.0, 0.0, negative, weight), False)
    assert advice in loss.advice


def test_an_error_takes_corrected_numbers_back() -> None:
    labels = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]] * 50
    for p, start in ((0.5, "Report `vanilla`"), (0.99999, "Use `unbiased`")):
        estimator = diagnose(labels, [p] * 3).finding("estimator")
        assert estimator is not None
        assert estimator.advice.startswith(start)


def test_recommendations_follow_the_figures() -> None:
    easy = diagnose(planted(2000), np.full(L, 0.99999))
    advice = {f.kind: f.advice for f in easy.findings}
    assert advice[FindingKind.ESTIMATOR] == "Use `unbiased` for every metric."
    true = data.synthetic.independent(2000, 100, probability=0.2, seed=0)
    p = np.full(100, 0.1)
    hard = diagnose(data.hide(true, p, seed=0), p)
    found = {f.kind: f for f in hard.findings}
    assert found[FindingKind.ESTIMATOR].severity == "warning"
    assert "`deconvolved` for R@k" in found[FindingKind.ESTIMATOR].advice
    assert "empirical_bayes" in found[FindingKind.LOSS].advice


def test_the_tail_is_counted() -> None:
    labels = np.zeros((50, 4))
    labels[:, 0], labels[:3, 1], labels[:4, 2] = 1, 1, 1
    found = diagnose(labels, np.full(4, 0.99999))
    (tail,) = [f for f in found.findings if f.kind == "rare_labels"]
    assert "1 of 4 labels are never observed, 1 fewer than 4 times" in tail.evidence


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((50, 4), None),
        ((50, 3), "0 of 2 labels are never observed, 1 fewer than 4 times; by these propensities "
                  "they make up 10.7%"),
        ((50, 0), "1 of 2 labels are never observed, 0 fewer than 4 times; by these propensities "
                  "they make up 0.0%"),
    ],
)  # fmt: skip
def test_labels_that_are_rare_or_absent_are_mentioned(
    counts: tuple[int, int], words: str | None
) -> None:
    """Three labels at p = ½ stand for six, beside fifty; four in all rows are no longer rare."""
    both = diagnose(np.arange(8)[:, None] < np.array([4, 3]), [0.99999, 0.99999]).findings
    (share,) = [f.evidence for f in both if f.kind == "rare_labels"]
    assert "make up 42.9% of the true labels" in share
    labels = sp.csr_array((np.arange(100)[:, None] < counts).astype(np.float32))
    found = diagnose(labels, [0.99999, 0.5]).findings
    tail = [f.evidence for f in found if f.kind == "rare_labels"]
    assert len(tail) == (words is not None)
    assert all(evidence.startswith(words or "") for evidence in tail)


# ------------------------------------------------------------- kinds, values and their words


@lru_cache
def audited() -> Diagnosis:
    """Two groups of labels, an audit with a spurious label, and labels that are never observed."""
    true = planted(900)
    p = np.linspace(0.3, 0.9, L)
    seen = data.hide(true, p, seed=0)
    wrong = seen[:300].tolil()
    wrong[0] = 1 - true[[0]].toarray()
    return diagnose(seen, p, (wrong.tocsr(), true[:300]))


def test_every_kind_of_test_can_be_asked_for() -> None:
    found = audited()
    assert {test.kind for test in found.tests} == set(TestKind)
    for kind in TestKind:
        assert found.test(kind) is found.test(kind.value)
        assert found.test(kind).group in (None, ALL)
    low = found.test("empty_rows", group="low_propensity")
    highest = low.values["highest_propensity"]
    assert low.group == LOW
    assert highest < 0.9 == found.test("empty_rows").values["highest_propensity"]
    assert low.name == f"enough empty rows (labels with propensity up to {highest:.2g})"
    assert low.title.endswith(f"labels are missing (labels with propensity up to {highest:.2g})")


def test_a_test_that_was_not_made_is_refused_with_the_reason() -> None:
    alone = diagnose([[1, 0], [0, 1]] * 20, [0.5, 0.5])
    with pytest.raises(ValueError, match=r"audit_level needs an audit; give `audit` to `diagnose`"):
        alone.test("audit_level")
    with pytest.raises(ValueError, match=r"empty_rows of the group low_propensity could not be"):
        alone.test("empty_rows", group="low_propensity")
    with pytest.raises(ValueError, match=r"unknown kind of test 'empty'; use one of: audit_labels"):
        alone.test("empty")
    with pytest.raises(ValueError, match=r"unknown kind of finding 'empty'; use one of: audit_lab"):
        alone.finding("empty")
    for lookup in (alone.test, alone.finding):
        with pytest.raises(ValueError, match=r"unknown group of labels 'some'; use one of: all, l"):
            lookup("empty_rows", group="some")


def test_findings_are_those_of_rejected_tests_and_others() -> None:
    found = diagnose([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]] * 50, [0.5] * 3)
    assert {(f.kind, f.group) for f in found.violations} == violations(found)
    for finding in found.violations:
        (test,) = finding.tests
        assert test is found.test(finding.kind, finding.group)
        assert (finding.title, finding.advice) == (test.title, test.advice)
    assert found.finding("spurious_labels") is None
    assert found.finding("empty_rows") is found.finding("empty_rows", group="all")
    assert found.finding("empty_rows", group="low_propensity") is None
    assert audited().finding("spurious_labels") is not None


def test_every_kind_has_words() -> None:
    assert set(wording.TESTS) == set(TestKind)
    assert set(wording.FINDINGS) == set(FindingKind)
    assert not set(TestKind) & set(FindingKind)  # one name, one meaning, for `finding(kind)`
    made = [test for test in audited().tests if test.name and test.title and test.effect]
    assert len(made) == len(audited().tests)


def test_kinds_survive_json_and_compare_with_strings() -> None:
    found = audited()
    stored = json.loads(json.dumps(found.to_dict()))
    for rows, items in ((stored["tests"], found.tests), (stored["findings"], found.findings)):
        for row, item in zip(rows, items, strict=True):
            assert row["kind"] == item.kind
            assert row["group"] == item.group
            assert row["values"] == item.values
            assert row["severity"] == item.severity
            assert row["title"] == item.title
    assert {test.kind.needs_audit for test in diagnose([[1, 0]], [0.5, 0.5]).tests} == {False}
    assert sum(kind.needs_audit for kind in TestKind) == 6
    assert len({hash(Finding("row", "error")), hash(Finding(TestKind.ROW, "error"))}) == 1


# ---------------------------------------------------------------------------- the whole thing


def test_the_record_is_plain_data_and_the_seed_decides() -> None:
    true = planted(300)
    p = np.full(L, 0.5)
    seen = data.hide(true, p, seed=0)
    one, two = (diagnose(seen, p, (seen[:100], true[:100]), seed=4) for _ in range(2))
    assert json.dumps(one.to_dict()) == json.dumps(two.to_dict())
    assert str(one).startswith(f"300 rows, {L} labels: ")
    order = ["info", "warning", "error"]
    ranks = [order.index(f.severity) for f in one.findings]
    assert ranks == sorted(ranks, reverse=True)


def test_rows_and_labels_carry_no_order() -> None:
    true = planted(600)
    p = propensity.jain(true)
    seen = data.hide(true, p, seed=0)
    rows, labels = rng(1).permutation(600), rng(2).permutation(L)
    found = diagnose(seen, p).tests
    shuffled = diagnose(seen[rows][:, labels], p[labels]).tests
    for one, two in zip(found, shuffled, strict=True):
        if one.kind != "count_thinning":  # drawn replicates
            assert one.p_value == pytest.approx(two.p_value, rel=1e-9)


def test_what_is_assumed_where_nothing_is_said() -> None:
    found = diagnose(planted(600), np.full(L, 0.9))
    assert found == diagnose(planted(600), np.full(L, 0.9), k=(1, 3, 5), alpha=0.05, seed=0)
    errors = found.usability["standard_error"]
    assert list(errors) == [f"{name}@{k}" for k in (1, 3, 5) for name in ("P", "R", "nDCG")]


def test_a_single_audited_row_counts() -> None:
    true = sp.csr_array(np.ones((1, 1), dtype=np.float32))
    level, each = dependence.agreement(true, true, np.array([0.2]))
    assert level.p_value == pytest.approx(2 * norm.sf(0.8 / 0.4))
    assert each.p_value == pytest.approx(0.4)
    assert level.severity == "error"


@pytest.mark.parametrize(("kept", "severity"), [(42, "warning"), (43, "error")])
def test_a_level_within_five_percent_is_no_error(kept: int, severity: str) -> None:
    """40 expected of 100; 42 is 5 % more."""
    true = sp.csr_array(np.ones((100, 1), dtype=np.float32))
    seen = sp.csr_array((np.arange(100)[:, None] < kept).astype(np.float32))
    level, _ = dependence.agreement(seen, true, np.array([0.4]))
    assert level.severity == severity


@pytest.mark.parametrize(
    ("present", "absent", "kept", "pairs"),
    [(5, 5, 5, True), (4, 6, 5, False), (6, 4, 5, False), (5, 5, 4, False), (5, 5, 6, False)],
)
def test_a_pair_needs_five_rows_of_every_sort(
    present: int, absent: int, kept: int, pairs: bool
) -> None:
    rows = present + absent
    with_it = (np.arange(rows) < present).astype(np.float32)
    true = sp.csr_array(np.column_stack([np.ones(rows), with_it]).astype(np.float32))
    lost = (np.arange(rows) < kept).astype(np.float32)
    seen = sp.csr_array(np.column_stack([lost, with_it]).astype(np.float32))
    found = dependence.on_other_labels(seen, true)
    assert found.values["pairs"] == (1 if pairs else 0)
    assert (found.effect == "no pair has enough rows") != pairs


def test_beyond_all_permutations_the_tail_is_a_normal_one() -> None:
    drawn = np.array([1.0, 2.0, 3.0, 4.0])
    assert dependence._two_sided(2.5, drawn) == 1
    assert dependence._two_sided(4.0, drawn) == pytest.approx(2 * 2 / 5)
    assert dependence._two_sided(9.0, drawn) == pytest.approx(
        2 * norm.sf((9 - 2.5) / np.std(drawn))
    )
    assert dependence._two_sided(4.1, drawn) == pytest.approx(
        min(2 / 5, 2 * norm.sf(1.6 / np.std(drawn)))
    )
    assert dependence._two_sided(9.0, np.ones(4)) == pytest.approx(2 / 5)
    assert [dependence._permutations(n) for n in (19_999, 20_000)] == [999, 199]


def test_rows_of_equal_size_say_nothing_of_their_size() -> None:
    true = sp.csr_array(np.ones((4, 2), np.float32))
    kept = sp.csr_array(np.array([[1, 0], [1, 1], [0, 1], [0, 0]], np.float32))
    found = dependence.on_number_of_labels(residuals(kept, true))
    assert (found.p_value, found.severity) == (1.0, "warning")
    assert "by the factor 1.00" in found.effect


@pytest.mark.parametrize(
    ("kept", "factor", "severity"), [(102, "1.04", "warning"), (120, "1.50", "error")]
)
def test_odds_that_hardly_change_with_the_number_of_labels_are_no_error(
    kept: int, factor: str, severity: str
) -> None:
    """Label 0 is kept in 100 of 200 rows by itself, and in `kept` of 200 beside label 1."""
    rows = np.arange(400)
    true = sp.csr_array(np.column_stack([np.ones(400), rows >= 200]).astype(np.float32))
    both = np.column_stack([np.where(rows < 200, rows < 100, rows < 200 + kept), rows >= 200])
    left = residuals(sp.csr_array(both.astype(np.float32)), true)
    found = dependence.on_number_of_labels(left)
    assert f"by the factor {factor}" in found.effect
    assert found.severity == severity


@pytest.mark.parametrize(("adjusted", "words"), [(1e-15, "p = 1e-15"), (9e-16, "p below 1e-15")])
def test_tiny_chances_are_not_told_apart(adjusted: float, words: str) -> None:
    test = Test(TestKind.AUDIT_SHAPE, 0.0, {"slope": 2.0}, adjusted=adjusted)
    found = _violation(test, 7)
    assert found.evidence == (
        "From rare to frequent labels the logit of the propensity should rise 2.00 times as fast "
        f"as stated ({words} after correction for 7 tests)."
    )


def test_a_single_passed_test_is_named() -> None:
    tests = [Test(TestKind.ROW, 0.001), Test(TestKind.AUDIT_LEVEL, 0.9)]
    (found,) = _summary(tests, tests[:1], 0.05)
    assert found.tests == (tests[1],)
    assert found.evidence == f"1 of 2 tests find nothing: {tests[1].name}."
    assert list(_summary(tests, tests, 0.05)) == []
    (quiet,) = _summary(tests, [], 0.05)
    assert quiet.evidence == "2 tests, none rejected at 0.05 after correction."


def test_any_level_between_none_and_all_is_taken() -> None:
    true = planted(600)
    for alpha in (0, 1):
        diagnose(true, np.full(L, 0.9), alpha=alpha)
    for alpha in (-0.01, 1.01):
        with pytest.raises(ValueError, match=r"alpha must lie in \[0, 1\]"):
            diagnose(true, np.full(L, 0.9), alpha=alpha)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: diagnose([[0, 0]], [0.5, 0.5]), "hold no label"),
        (lambda: diagnose([[1, 0]], [0.5]), "1 propensities for 2 labels"),
        (lambda: diagnose([[1, 0]], [0.5, 0.5], ([[1]], [[1]])), "the audit has 1 labels"),
        (lambda: diagnose([[1, 0]], [0.5, 0.5], ([[1, 0]], [[1, 0]] * 2)), "same rows and labels"),
        (lambda: diagnose([[1, 0]], [0.5, 0.5], k=()), "k is empty; give at least one"),
        (lambda: diagnose([[1, 0]], [0.5, 0.5], k=(0,)), "k must be a whole number"),
        (lambda: diagnose([[1, 0]], [0.5, 0.5], alpha=2), r"alpha must lie in \[0, 1\]"),
    ],
)
def test_bad_input_is_refused_in_words(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("name", ["bibtex-xc", "debtags-bookworm"])
def test_real_data_without_empty_rows_are_flagged(real_data: Path, name: str) -> None:
    labels = data.read(real_data / name / "train.txt.gz").labels
    found = diagnose(labels, propensity.jain(labels))
    assert ("empty_rows", ALL) in violations(found)
    assert "do not fit" in str(found)


def test_jester_masks_depend_on_the_row(real_data: Path) -> None:
    """Real masks on complete labels: people who rated much kept much."""
    rated = data.read(real_data / "jester5k" / "train_rated.txt.gz").labels
    true = data.read(real_data / "jester5k" / "test.txt.gz").labels[:200]
    seen = sp.csr_array(true.multiply(rated[rng().permutation(rated.shape[0])[:200]]))
    estimate = propensity.audit(seen, true, curve="free")
    found = diagnose(seen, estimate, (seen, true))
    assert ("row", None) in violations(found)


@pytest.mark.slow
def test_false_alarms_are_rare() -> None:
    """120 valid data sets, three kinds, with an audit: at most 5 % plus two standard errors."""
    alarms = []
    for seed in range(40):
        true = planted(1300, seed=seed)
        fixed = np.array(
            [rng(seed * 2000 + i).permutation([1] * 4 + [0] * 16) for i in range(1300)]
        )
        for labels, p in (
            (true, propensity.jain(true)),
            (true, np.where(np.arange(L) % 2, 0.95, 0.1)),
            (sp.csr_array(fixed.astype(np.float32)), np.full(20, 0.5)),
        ):
            seen = data.hide(labels, p, seed=seed + 500)
            found = diagnose(seen[:1000], p, (seen[1000:], labels[1000:]), seed=seed)
            alarms.append(bool(violations(found)))
    assert np.mean(alarms) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / len(alarms))
