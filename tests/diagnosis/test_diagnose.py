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

from tests.helpers import oracles, strategies
from unmask import data, propensity
from unmask.diagnosis import Diagnosis, Test, dependence, diagnose, feasibility
from unmask.diagnosis.diagnose import holm
from unmask.diagnosis.usability import usability
from unmask.propensity.audit import residuals

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


def violations(found: Diagnosis, alpha: float = 0.05) -> set[str]:
    return {test.name for test in found.tests if test.adjusted <= alpha}


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
    found = feasibility.spread(labels, np.array([0.5, 0.25]), "all")
    assert "variance 0.25" in found.effect
    assert "makes it 0.938" in found.effect  # (3 · 0.5 + 3 · 0.75) / 4
    assert found.p_value < 0.5


def test_likelihood_ratio_is_zero_for_a_perfect_thinning() -> None:
    """Counts 1 : 2 : 1 are Bin(2, 1/2); 1 : 0 : 1 are no mixture of binomials."""
    fine, fit = feasibility._likelihood_ratio(np.array([25, 50, 25]), 2, 0.5)
    assert fine == pytest.approx(0, abs=1e-3)
    np.testing.assert_allclose(feasibility._histogram(fit, 0.5), [0.25, 0.5, 0.25], atol=1e-3)
    ratio, fit = feasibility._likelihood_ratio(np.array([50, 0, 50]), 2, 0.5)
    # π on 0 and 2 labels: x (1 − x) + … maximises ln(1 − 3x/4) + ln(x/4), so x = 2/3
    assert ratio == pytest.approx(2 * 50 * np.log(0.5 / 0.5 * 0.5 / (1 / 6)), rel=1e-3)
    np.testing.assert_allclose(fit.probability, [1 / 3, 0, 2 / 3], atol=1e-3)


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
    assert violations(found) == {"enough empty rows (all labels)"}


def test_labels_cut_off_at_a_number_are_recognised() -> None:
    """Rows keep their first ten observed labels at most."""
    true = data.synthetic.independent(3000, 40, probability=0.5, seed=0)
    p = np.full(40, 0.5)
    seen = data.hide(true, p, seed=1)
    place = np.arange(seen.nnz) - np.repeat(seen.indptr[:-1], np.diff(seen.indptr))
    seen.data[place >= 10] = 0
    seen.eliminate_zeros()
    (worst, *_) = (f for f in diagnose(seen, p).findings if "is not what losing" in f.title)
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
    from scipy.stats import norm

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


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_holm_equals_the_closed_test(p_values: list[float]) -> None:
    """Adjusted p = the largest Bonferroni p-value over all sets of hypotheses containing it."""
    found = [
        test.adjusted for test in holm([Test(str(i), p, "", "") for i, p in enumerate(p_values)])
    ]
    everything = range(len(p_values))
    for i in everything:
        sets = [s for r in everything for s in combinations(everything, r + 1) if i in s]
        closed = max(min(1.0, len(s) * min(p_values[j] for j in s)) for s in sets)
        assert found[i] == pytest.approx(closed)


def test_holm_keeps_the_order_of_tests() -> None:
    for order in permutations((0.01, 0.02, 0.9)):
        found = holm([Test(str(p), p, "", "") for p in order])
        assert [float(test.name) for test in found] == list(order)


# ------------------------------------------------------------------------ planted violations


@pytest.mark.parametrize("model", ["jain", "constant:0.4", "inverse_linear:2,10"])
def test_valid_data_pass_in_silence(model: str) -> None:
    true = planted(2300)
    p = propensity.named(model, true)
    seen = data.hide(true, p, seed=5)
    found = diagnose(seen[:2000], p, (seen[2000:], true[2000:]))
    assert violations(found) == set()
    assert found.severity != "error"
    assert any(f.title == "No test contradicts the propensities" for f in found.findings)


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
    assert "enough empty rows (all labels)" in violations(found)
    assert "No row is empty" in found.findings[0].evidence


def test_every_row_with_a_label_is_mentioned_even_where_it_proves_nothing() -> None:
    true = data.synthetic.independent(300, 100, probability=0.3, seed=0)
    p = np.full(100, 0.8)
    found = diagnose(data.hide(true, p, seed=0), p)
    assert violations(found) == set()
    assert any(f.title == "Every row has a label" for f in found.findings)


def test_constant_counts_do_not_come_from_losing_labels() -> None:
    """Three labels in every row: no spread at all, while half of the labels went missing."""
    labels = np.array([rng(i).permutation([1, 1, 1, 0, 0, 0, 0, 0]) for i in range(400)])
    found = diagnose(labels, np.full(8, 0.5))
    assert "counts vary enough (all labels)" in violations(found)
    assert "counts are a thinning (all labels)" in violations(found)


@pytest.mark.parametrize("kind", ["number of labels", "row", "other labels"])
def test_each_dependence_is_found_with_an_audit(kind: str) -> None:
    true = planted(800, seed=3)
    p = np.full(L, 0.5)
    size = np.diff(true.indptr)
    per_row = {
        "number of labels": -1.2 * np.log2(np.maximum(size, 1)),
        "row": 2 * rng().standard_normal(800),
        "other labels": -3.0 * true[:, [int(np.argmax(true.sum(axis=0)))]].toarray().ravel(),
    }[kind]
    seen = shifted(true, p, np.repeat(per_row, size), seed=2)
    name = {
        "number of labels": "keeping does not depend on the number of labels",
        "row": "labels of a row are kept independently",
        "other labels": "keeping does not depend on other labels",
    }[kind]
    tests = {test.name: test for test in dependence.dependence(seen, true, rng())}
    assert tests[name].p_value < 1e-3
    assert tests[name].severity == "error"


def test_wrong_propensities_are_found_with_an_audit() -> None:
    true = planted(1000)
    seen = data.hide(true, np.full(L, 0.6), seed=0)
    found = diagnose(seen, np.full(L, 0.9), (seen[:300], true[:300]))
    assert "level of the propensities agrees with the audit" in violations(found)
    top = next(f for f in found.findings if "level" in f.title)
    assert "propensity.audit" in top.advice


def test_an_estimate_is_tested_at_its_upper_ends() -> None:
    """Half of the labels lost, three in every row: too sure an estimate fails, a vague one not."""
    labels = np.array([rng(i).permutation([1, 1, 1, 0, 0, 0, 0, 0]) for i in range(400)])
    half = propensity.from_counts([5000] * 8, [10_000] * 8, counts=[150] * 8, n=400)
    vague = propensity.from_counts([2] * 8, [2] * 8, counts=[150] * 8, n=400, confidence=0.9999)
    assert violations(diagnose(labels, half))
    assert "counts vary enough (all labels)" not in violations(diagnose(labels, vague))


def test_spurious_labels_are_mentioned() -> None:
    true = planted(400)
    p = np.full(L, 0.5)
    seen = data.hide(true, p, seed=0)
    wrong = seen.copy().tolil()
    wrong[0] = 1 - true[[0]].toarray()
    found = diagnose(seen, p, (wrong.tocsr()[:100], true[:100]))
    assert any(f.title == "Observed labels that are not true" for f in found.findings)


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


def test_recommendations_follow_the_figures() -> None:
    easy = diagnose(planted(2000), np.full(L, 0.99999))
    advice = {f.title: f.advice for f in easy.findings}
    assert advice["Which estimator of a metric"] == "Use `unbiased` for every metric."
    true = data.synthetic.independent(2000, 100, probability=0.2, seed=0)
    p = np.full(100, 0.1)
    hard = diagnose(data.hide(true, p, seed=0), p)
    found = {f.title: f for f in hard.findings}
    assert found["Which estimator of a metric"].severity == "warning"
    assert "`deconvolved` for R@k" in found["Which estimator of a metric"].advice
    assert "empirical_bayes" in found["Which loss to train"].advice


def test_the_tail_is_counted() -> None:
    labels = np.zeros((50, 4))
    labels[:, 0], labels[:3, 1], labels[:4, 2] = 1, 1, 1
    found = diagnose(labels, np.full(4, 0.99999))
    (tail,) = [f for f in found.findings if f.title.startswith("Labels about which")]
    assert "1 of 4 labels are never observed, 1 fewer than 4 times" in tail.evidence


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
        if "thinning" not in one.name:  # drawn replicates
            assert one.p_value == pytest.approx(two.p_value, rel=1e-9)


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
    assert "enough empty rows (all labels)" in violations(found)
    assert "do not fit" in str(found)


def test_jester_masks_depend_on_the_row(real_data: Path) -> None:
    """Real masks on complete labels: people who rated much kept much."""
    rated = data.read(real_data / "jester5k" / "train_rated.txt.gz").labels
    true = data.read(real_data / "jester5k" / "test.txt.gz").labels[:200]
    seen = sp.csr_array(true.multiply(rated[rng().permutation(rated.shape[0])[:200]]))
    estimate = propensity.audit(seen, true, curve="free")
    found = diagnose(seen, estimate, (seen, true))
    assert "labels of a row are kept independently" in violations(found)


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
