"""Label counts against propensities: what holds for any true labels, by hand and planted."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from scipy.stats import binom, gamma, norm

from tests.helpers import oracles, strategies
from tests.helpers.diagnoses import ALL, L, planted, violations
from unmask import data
from unmask.diagnosis import diagnose, evidence


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


def test_empty_rows_by_hand() -> None:
    """Rows of 1, 2 and 2 labels at p = ½: each label stands for ln(½)/½ lost ones."""
    labels = sp.csr_array([[1, 0], [1, 1], [1, 1], [0, 0.0]])
    found = evidence.empty_rows(labels, np.array([0.5, 0.5]), ALL)
    exponent = 2 * np.log(0.5) * np.array([1, 2, 2, 0])
    bound = np.exp(exponent.mean())
    cautious = bound * np.exp(norm.ppf(1e-3) * exponent.std() / 2)
    assert found.p_value == pytest.approx(min(1, binom.cdf(1, 4, cautious) + 1e-3))
    assert (
        f"1 of 4 rows are empty, but with these propensities at least {bound:.1%}" in found.effect
    )
    full = evidence.empty_rows(sp.csr_array(np.ones((90, 2))), np.array([0.5, 0.5]), ALL)
    assert full.p_value == pytest.approx((1 - 0.5**4) ** 90 + 1e-3)
    assert full.effect.startswith("0 of 90 rows are empty")
    assert "labels do not go missing independently" in found.advice
    assert "(`propensity.audit`)" in found.advice
    certain = evidence.empty_rows(labels, np.array([1.0, 0.5]), ALL)
    assert certain.p_value == 1  # a label that is never lost keeps its row


def test_the_most_frequent_label_by_hand() -> None:
    labels = sp.csr_array((np.arange(10)[:, None] < [9, 5, 2]).astype(np.float32))
    (found,) = evidence.frequency(labels, np.array([0.9, 0.3, 0.1]))
    assert found.p_value == pytest.approx(3 * binom.sf(4, 10, 0.3))
    assert "label 1 is observed in 50.0% of the rows; its propensity is 0.3" in found.effect
    assert "(2 of them)" in found.advice
    assert list(evidence.frequency(sp.csr_array((5, 0)), np.ones(0))) == []


def test_likelihood_ratio_is_zero_for_a_perfect_thinning() -> None:
    """Counts 1 : 2 : 1 are Bin(2, 1/2); 1 : 0 : 1 are no mixture of binomials."""
    fine, fit = evidence._likelihood_ratio(np.array([25, 50, 25]), 2, 0.5)
    assert fine == pytest.approx(0, abs=1e-3)
    np.testing.assert_allclose(evidence._histogram(fit, 0.5), [0.25, 0.5, 0.25], atol=1e-3)
    ratio, fit = evidence._likelihood_ratio(np.array([50, 0, 50]), 2, 0.5)
    # π on 0 and 2 labels: x (1 − x) + … maximises ln(1 − 3x/4) + ln(x/4), so x = 2/3
    assert ratio == pytest.approx(2 * 50 * np.log(0.5 / 0.5 * 0.5 / (1 / 6)), rel=1e-3)
    np.testing.assert_allclose(fit.probability, [1 / 3, 0, 2 / 3], atol=1e-3)


def test_without_empty_rows_counts_are_compared_given_that_they_are_not_zero() -> None:
    """Bin(2, 1/2) given not 0 is 2 : 1, and such a histogram fits; 1 : 2 cannot be fitted."""
    fine, fit = evidence._likelihood_ratio(np.array([0, 100, 50]), 2, 0.5)
    assert fine == pytest.approx(0, abs=1e-3)
    np.testing.assert_allclose(evidence._histogram(fit, 0.5), [0, 2 / 3, 1 / 3], atol=1e-3)
    ratio, _ = evidence._likelihood_ratio(np.array([0, 50, 100]), 2, 0.5)
    expected = 2 * (50 * np.log(1 / 3 / (2 / 3)) + 100 * np.log(2 / 3 / (1 / 3)))
    assert ratio == pytest.approx(expected, rel=1e-3)


@given(strategies.label_sets(max_labels=6))
def test_rows_with_one_label_say_how_many_rows_were_dropped_at_most(case: tuple) -> None:
    """E[1{m = 1} (1 − p_j)/p_j] = N* P(m = 0), by enumeration of all masks."""
    true, p = case
    p = np.minimum(p, 0.99)

    def behind(seen: tuple[int, ...]) -> float:
        row = sp.csr_array(np.isin(np.arange(p.size), seen)[None].astype(np.float32))
        return float(evidence.dropped_rows(row, p)[0])

    empty = oracles.expectation_over_masks(lambda seen: float(not seen), true, p)
    dropped = oracles.expectation_over_masks(behind, true, p)
    assert dropped == pytest.approx(len(true) * empty, rel=1e-9)


def test_dropped_rows_count_as_rows_without_labels() -> None:
    """Spread and frequency with rows that were dropped, as if they had been there."""
    full = sp.csr_array((np.arange(12)[:, None] < [8, 5]).astype(np.float32))
    left, p = sp.csr_array(full[:8]), np.array([0.5, 0.7])
    behind = np.full(8, 0.5)
    whole, part = evidence.spread(full, p, ALL), evidence.spread(left, p, ALL, behind)
    for name in ("variance", "least_variance"):
        assert part.values[name] == pytest.approx(whole.values[name])
    assert part.values["dropped_rows"] == 4
    assert "with up to 4 empty rows that were dropped" in part.effect
    (one,), (two,) = evidence.frequency(full, p), evidence.frequency(left, p, 4.0)
    assert one.p_value == two.p_value


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
    parts = dict(evidence.groups(labels, np.array([0.9, 0.2, 0.5, 0.3])))
    assert [group.tolist() for group in parts.values()] == [[True] * 4, [False, True, False, True]]
    assert len(dict(evidence.groups(labels, np.full(4, 0.3)))) == 1


def test_beyond_all_replicates_the_tail_is_a_gamma_with_their_moments() -> None:
    replicates = np.array([1.0, 2.0, 3.0, 6.0])
    assert evidence._tail(5.0, np.empty(0)) == 1.0
    assert evidence._tail(3.0, replicates) == pytest.approx(3 / 5)  # as many, and itself
    assert evidence._tail(6.0, replicates) == pytest.approx(2 / 5)
    mean, variance = 3.0, 3.5
    beyond = gamma.sf(20.0, mean**2 / variance, scale=variance / mean)
    assert evidence._tail(20.0, replicates) == pytest.approx(beyond)
    assert evidence._tail(6.1, replicates) == pytest.approx(
        min(1 / 5, gamma.sf(6.1, mean**2 / variance, scale=variance / mean))
    )
    assert evidence._tail(9.0, np.full(3, 2.0)) == pytest.approx(1 / 4)  # all the same
