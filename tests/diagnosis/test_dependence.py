"""With an audit: exact null distributions by enumeration, effects by hand, planted dependence."""

from __future__ import annotations

from itertools import combinations, permutations, product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import binom, norm
from scipy.stats import t as student_t

from tests.helpers.diagnoses import L, planted, rng
from unmask import data
from unmask.diagnosis import evidence
from unmask.diagnosis.evidence import row_correlation
from unmask.diagnosis.findings import TestKind
from unmask.propensity.audit import residuals


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
    """Over all arrangements of kept entries: mean 0, variance as the test computes it.

    Where labels of a row are kept or lost together, products of two of them are added.
    """
    true, ways = arrangements()
    log_size = np.log(np.diff(true.indptr))
    dense = true.toarray()
    centred = (log_size[:, None] - (log_size @ dense) / dense.sum(axis=0)) * dense
    scores = [float((residuals(kept, true).toarray() * centred).sum()) for kept in ways]
    assert np.mean(scores) == pytest.approx(0, abs=1e-12)

    spread = np.sqrt([1 / 3, 1 / 3, 0])  # of 2 in 4, of 1 in 3, and of a label that one row has
    scaled = centred * spread
    np.testing.assert_allclose((scaled**2).sum(), np.var(scores))
    products = sum(
        scaled[i, j] * scaled[i, k] for i in range(4) for j, k in permutations(range(3), 2)
    )
    correlations = []
    for kept, score in zip(ways, scores, strict=True):
        left = residuals(kept, true)
        correlations.append(row_correlation(left))
        variance = np.var(scores) + max(0.0, correlations[-1]) * products
        expected = 2 * student_t.sf(abs(score) / np.sqrt(variance), 3)
        assert evidence.on_number_of_labels(left).p_value == pytest.approx(expected, rel=1e-6)
    assert min(correlations) < 0 < max(correlations) <= 1


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
    found = evidence.on_row(residuals(kept, true), rng())
    assert found.effect.endswith(f"with correlation {correlation}")
    assert found.severity == ("warning" if correlation == "+0.000" else "error")


def test_pairs_agree_with_counting_permutations() -> None:
    """Fisher's p-value for one pair: twice the share of permutations at least as extreme."""
    with_it = np.r_[np.ones(5), np.zeros(5)]
    kept = np.r_[1, 0, 0, 0, 0, 1, 1, 1, 1, 0]
    true = sp.csr_array(np.column_stack([np.ones(10), with_it]).astype(np.float32))
    seen = sp.csr_array(np.column_stack([kept, with_it]).astype(np.float32))
    found = evidence.on_other_labels(seen, true)
    counts = [sum(kept[list(rows)]) for rows in combinations(range(10), 5)]
    expected = 2 * np.mean(np.array(counts) <= 1)
    assert found.p_value == pytest.approx(expected)
    assert "label 0 is kept in 20% of the rows that have label 1 and in 80%" in found.effect


def test_the_shape_is_a_regression_on_the_logits_of_the_propensities() -> None:
    """Weighted by the variances; a label that is never lost or never present tells nothing."""
    kept, of = np.array([9, 20, 11, 30, 0]), np.array([40, 40, 40, 30, 0])
    p = np.array([0.3, 0.4, 0.5, 1.0, 0.5])
    true = sp.csr_array((np.arange(40)[:, None] < of).astype(np.float32))
    seen = sp.csr_array((np.arange(40)[:, None] < kept).astype(np.float32))
    level, shape, each = evidence.agreement(seen, true, p)
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
    assert list(evidence.agreement(true, true, np.ones(2))) == []
    (_, each) = evidence.agreement(true, true, np.array([0.5, 0.5]))  # logits do not differ
    assert each.p_value == pytest.approx(2 * 2 * 0.5**3)


def shifted(true: sp.csr_array, p: np.ndarray, shift: np.ndarray, seed: int) -> sp.csr_array:
    """Labels kept with logit p_j + shift of the entry: masks that are not what is stated."""
    odds = (p / (1 - p))[true.indices] * np.exp(shift)
    chance = sp.csr_array((odds / (1 + odds), true.indices, true.indptr), shape=true.shape)
    return data.hide(true, chance, seed=seed)


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
    tests = {test.kind: test for test in evidence.dependence(seen, true, rng())}
    assert tests[TestKind(kind)].p_value < 1e-3
    assert tests[TestKind(kind)].severity == "error"


@pytest.mark.parametrize(("kept", "severity"), [(42, "warning"), (43, "error")])
def test_a_level_within_five_percent_is_no_error(kept: int, severity: str) -> None:
    """40 expected of 100; 42 is 5 % more."""
    true = sp.csr_array(np.ones((100, 1), dtype=np.float32))
    seen = sp.csr_array((np.arange(100)[:, None] < kept).astype(np.float32))
    level, _ = evidence.agreement(seen, true, np.array([0.4]))
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
    found = evidence.on_other_labels(seen, true)
    assert found.values["pairs"] == (1 if pairs else 0)
    assert (found.effect == "no pair has enough rows") != pairs


def test_beyond_all_permutations_the_tail_is_a_normal_one() -> None:
    drawn = np.array([1.0, 2.0, 3.0, 4.0])
    assert evidence._two_sided(2.5, drawn) == 1
    assert evidence._two_sided(4.0, drawn) == pytest.approx(2 * 2 / 5)
    assert evidence._two_sided(9.0, drawn) == pytest.approx(2 * norm.sf((9 - 2.5) / np.std(drawn)))
    assert evidence._two_sided(4.1, drawn) == pytest.approx(
        min(2 / 5, 2 * norm.sf(1.6 / np.std(drawn)))
    )
    assert evidence._two_sided(9.0, np.ones(4)) == pytest.approx(2 / 5)


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
    found = evidence.on_number_of_labels(left)
    assert f"by the factor {factor}" in found.effect
    assert found.severity == severity
