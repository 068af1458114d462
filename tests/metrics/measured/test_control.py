"""Control variates: means, folds and variances over strata, by hand and by their equations."""

from __future__ import annotations

import numpy as np
import pytest

from unmask.metrics.measured.context import Columns
from unmask.metrics.measured.sampling import RowSample, controlled, folds_of, ridge, variance

STRATUM = np.array([0, 0, 0, 1, 1])
SIZES = np.array([30, 10])
RESIDUALS = np.array([0.0, 1.0, 2.0, 1.0, 3.0])
WITHIN = np.array([0.3, 0.6, 0.9, -5.0, -7.0])


@pytest.mark.parametrize(
    ("estimated", "within", "open_shares", "inner"),
    [
        (False, None, (0.9, 0.8), (0.0, 0.0)),
        (True, None, (1.0, 1.0), (0.0, 0.0)),  # what is not known within rows may be all
        (True, WITHIN, (0.9, 0.8), (0.6 / 30, 0.0)),  # what is below 0 counts as 0
    ],
)
def test_every_stratum_counts_by_its_share_of_rows(
    estimated: bool,
    within: np.ndarray | None,
    open_shares: tuple[float, float],
    inner: tuple[float, float],
) -> None:
    sample = RowSample(np.arange(5), STRATUM, SIZES, RESIDUALS[:, None], within, estimated)
    largest = 0.5
    spreads = (2 + largest * 3 / 5) / 3, (2 + largest * 2 / 5) / 2
    expected = sum(
        share**2 * (open_share * spread / m + more)
        for share, open_share, spread, m, more in zip(
            (0.75, 0.25), open_shares, spreads, (3, 2), inner, strict=True
        )
    )
    assert variance(sample, RESIDUALS, largest) == pytest.approx(expected, rel=1e-12)


def test_a_single_row_of_a_stratum_has_the_largest_spread_that_is_possible_or_was_seen() -> None:
    sample = RowSample(np.arange(3), np.array([0, 0, 1]), np.array([4, 6]), np.zeros((3, 1)))
    for largest, seen, unknown in ((0.25, 2.0, 1.0), (0.25, 0.2, 0.25), (3.0, 2.0, 3.0)):
        other = (seen**2 / 2 + largest * 2 / 3) / 2
        expected = 0.4**2 * (1 - 2 / 4) * other / 2 + 0.6**2 * (5 / 6) * unknown
        residuals = np.array([0.0, seen, 9])
        assert variance(sample, residuals, largest) == pytest.approx(expected, rel=1e-12)


def test_plain_means_are_those_of_strata_that_were_judged() -> None:
    values = np.array([[1.0, 10], [3, 20], [5, 60]])
    sample = RowSample(np.array([2, 0, 9]), np.array([0, 0, 2]), np.array([6, 5, 4]), values)
    for covariates in (
        None,
        Columns.of(np.arange(15.0)[:, None]),
    ):
        made = controlled(sample, covariates, (0, 1))
        np.testing.assert_allclose(made.means, [(6 * 2 + 4 * 5) / 10, (6 * 15 + 4 * 60) / 10])
        np.testing.assert_allclose(made.residuals, [[-1, -5], [1, 5], [0, 0]])


def test_covariates_have_mean_zero_and_variance_one_or_are_left_out() -> None:
    values = np.array([[1.0, 5, 1e9, 0], [2, 5, 1e9 + 1e-4, 0], [6, 5, 1e9, 0]])
    made = Columns.of(values).at(slice(None))
    np.testing.assert_allclose(made, np.array([[-2], [-1], [3]]) / np.sqrt(14 / 3))


def test_ridge_predictions_solve_their_equations() -> None:
    """Σ (r − a − b z) = 0 and Σ (z − z̄)(r − a − b z) = 10 b; sums are of what limits leave."""
    rng = np.random.default_rng(0)
    columns, values = Columns.of(rng.standard_normal((30, 2)) + 4), rng.random((7, 2))
    rows, z = np.array([3, 9, 1, 20, 28, 14, 7]), columns.at(slice(None))
    slope, intercept = ridge(z[rows], values)
    made = z @ slope + intercept
    left = values - made[rows]
    np.testing.assert_allclose(left.sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(z[rows].T @ left, 10 * slope, atol=1e-12)
    low, high = np.array([0.4, 0.0]), np.array([0.5, 0.3])
    sums = columns.clipped_sums(slope, intercept, low, high)
    np.testing.assert_allclose(sums, np.clip(made, low, high).sum(axis=0), rtol=1e-13)


def test_folds_are_even_within_strata() -> None:
    stratum = np.array([0] * 7 + [1] * 5)
    made = folds_of(stratum, 3, seed=1)
    assert np.bincount(made[:7]).tolist() == [3, 2, 2]
    assert np.bincount(made[7:]).tolist() == [2, 2, 1]
    assert made.tolist() != folds_of(stratum, 3, seed=2).tolist()


@pytest.mark.parametrize(("sizes", "folds"), [([12], 10), ([4, 9], 4), ([2, 14], 2)])
def test_controlled_means_are_means_over_folds(sizes: list[int], folds: int) -> None:
    """Rows of other folds as they are, all others as predicted, plus residuals by stratum."""
    rng = np.random.default_rng(4)
    stratum = np.repeat(np.arange(len(sizes)), sizes)
    of_strata = np.array([40, 25])[: len(sizes)]
    rows = rng.permutation(int(of_strata.sum()))[: stratum.size]
    x, values = rng.random((int(of_strata.sum()), 2)), rng.random((stratum.size, 1))
    known = Columns.of(x)
    made = controlled(RowSample(rows, stratum, of_strata, values), known, (0, 1), seed=3)
    fold, z, means = folds_of(stratum, folds, 3), known.at(slice(None)), []
    for each in range(folds):
        inside = np.flatnonzero(fold != each)
        slope, intercept = ridge(z[rows[inside]], values[inside])
        f = np.clip(z @ slope[:, 0] + intercept, 0, 1)
        others = np.setdiff1d(np.arange(len(x)), rows[inside])
        total = values[inside, 0].sum() + f[others].sum()
        for h, size in enumerate(of_strata):
            mine = np.flatnonzero((fold == each) & (stratum == h))
            residuals = values[mine, 0] - f[rows[mine]]
            np.testing.assert_allclose(made.residuals[mine, 0], residuals)
            if mine.size:
                total += (size - (stratum[inside] == h).sum()) * residuals.mean()
        means.append(total / len(x))
    shares = np.bincount(fold) / fold.size
    assert made.means[0] == pytest.approx(shares @ means, rel=1e-12)


def test_without_anything_to_go_by_every_judged_row_counts_alike() -> None:
    """15 rows in 10 folds: a covariate that says nothing leaves the plain mean, and its ends."""
    rng = np.random.default_rng(0)
    for m in (11, 15, 19, 23):
        values = np.zeros((m, 1))
        values[rng.permutation(m)[: m // 3]] = 1.0
        sample = RowSample(np.arange(m), np.zeros(m, dtype=np.int64), np.array([10**6]), values)
        made = controlled(sample, Columns.of(np.ones((10**6, 1))), (0, 1))
        assert made.means[0] == pytest.approx(values.mean(), abs=1e-5)
