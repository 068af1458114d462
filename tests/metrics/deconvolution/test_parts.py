"""What the parts of deconvolution, intervals and sensitivity promise, one promise at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from threadpoolctl import threadpool_info, threadpool_limits

from tests.helpers.count_tables import POPULATION, expected_counts
from tests.helpers.evaluations import ranking_of
from unmask import _mixture, report
from unmask.metrics import METRICS as METRICS_OF_TABLES
from unmask.metrics import (
    Estimate,
    Table,
    intervals,
    jain_around,
    jain_grid,
    powers,
    propensity_uncertainty,
    ranking,
    sensitivity,
)
from unmask.metrics.deconvolution import thinning
from unmask.metrics.deconvolution.fitting import Deconvolution, fit
from unmask.metrics.deconvolution.metric_values import METRICS, Part
from unmask.metrics.deconvolution.stratum import Counts, Stratum, enough_labels, occupied_cells
from unmask.metrics.deconvolution.thinning import Atoms, Cells
from unmask.metrics.verdict import CONDITIONAL, Level, Reason, Verdict
from unmask.pages.comparison import ranking_section
from unmask.predictions import TopK
from unmask.propensity.estimate import TOGETHER

UNIT = NormalDist()


# --- intervals ------------------------------------------------------------------------------------


def skewness_of(left_out: list[int]) -> float:
    """A sixth of Σd³ / (Σd²)^1.5, in fractions as far as possible."""
    mean = Fraction(sum(left_out), len(left_out))
    spread = [mean - x for x in left_out]
    return float(sum(d**3 for d in spread)) / (6 * float(sum(d**2 for d in spread)) ** 1.5)


@pytest.mark.parametrize("shift", [-0.4, 0.0, 0.7])
@pytest.mark.parametrize("left_out", [[-2, 1, 1], [2, -1, -1], [0, 0, 0, 5], [-1, 0, 1]])
@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_bca_is_exact_where_its_theory_is(
    shift: float, left_out: list[int], confidence: float
) -> None:
    """φ̂ = φ + (1 + aφ)(Z − z₀) has the exact limits φ̂ + (1 + aφ̂) x/(1 − ax), x = z₀ ± z (Efron).

    At φ̂ = 0 the replicates are Z − z₀, of which a dense grid stands for all.
    """
    grid = stats.norm.ppf(np.linspace(0, 1, 8003)[1:-1]) - shift
    found = intervals.bca(grid, confidence, value=0.0, left_out=np.array(left_out, float))
    a = skewness_of(left_out)
    for end, tail in zip(found, ((1 - confidence) / 2, (1 + confidence) / 2), strict=True):
        x = shift + UNIT.inv_cdf(tail)
        exact = x / (1 - a * x)
        assert UNIT.cdf(end + shift) == pytest.approx(UNIT.cdf(exact + shift), abs=5e-4)


def test_bca_counts_ties_with_the_value_as_half() -> None:
    """Whole numbers, half of the replicates at the value: no median bias is to be corrected."""
    replicates = np.repeat([-1.0, 0.0, 1.0], [25, 50, 25])
    nothing = np.zeros(4)
    same = intervals.bca(replicates, 0.9, value=0.0, left_out=nothing)
    assert same == intervals.percentile(replicates, 0.9) == (-1.0, 1.0)
    fine = np.r_[np.zeros(100), np.arange(1.0, 101)]  # a quarter below in effect
    low, high = intervals.bca(fine, 0.9, value=0.0, left_out=nothing)
    levels = [UNIT.cdf(2 * UNIT.inv_cdf(0.25) + UNIT.inv_cdf(q)) for q in (0.05, 0.95)]
    assert (low, high) == pytest.approx(tuple(np.quantile(fine, levels)))


@settings(max_examples=30)
@given(
    st.floats(-1, 3),
    st.lists(st.floats(-5, 5), min_size=2, max_size=6).map(np.array),
    st.floats(0.01, 0.999),
)
def test_bca_has_a_low_end_and_a_high_end(value: float, left_out: np.ndarray, level: float) -> None:
    """Wherever the value lies, even beyond all replicates, and however skewed the jackknife."""
    replicates = np.linspace(0, 2, 41)
    low, high = intervals.bca(replicates, level, value=value, left_out=left_out)
    assert 0 <= low <= high <= 2


@pytest.mark.parametrize("outlier", [-1.0, 1.0])
@pytest.mark.parametrize(("value", "end"), [(0.5, 1.0), (2.5, 2.0)])
def test_bca_beyond_all_replicates_is_their_end(value: float, end: float, outlier: float) -> None:
    left_out = np.r_[np.zeros(999), outlier]
    found = intervals.bca(np.linspace(1, 2, 1000), 0.95, value=value, left_out=left_out)
    assert found == pytest.approx((end, end), abs=1e-6)


def test_resampled_groups_follow_the_multinomial_law() -> None:
    """Every replicate draws as many groups as there are; replicates and groups are alike."""
    counts = intervals.resampling_counts(4, 20_000, seed=3)
    assert counts.shape == (20_000, 4)
    assert set(counts.sum(axis=1)) == {4.0}
    seen = np.bincount(counts[:, 0].astype(int), minlength=5)
    expected = stats.binom.pmf(range(5), 4, 0.25) * 20_000
    assert stats.chisquare(seen, expected).pvalue > 1e-3
    halves = counts[:10_000].mean(axis=0), counts[10_000:].mean(axis=0)
    np.testing.assert_allclose(halves, 1.0, atol=0.04)
    np.testing.assert_array_equal(counts[:5], intervals.resampling_counts(4, 5, seed=3))
    assert (counts[:5] != intervals.resampling_counts(4, 5, seed=4)).any()


# --- thinning -------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.integers(0, 40), st.floats(1, 60))
def test_the_grid_is_as_fine_as_noise_and_as_long_as_needed(most: int, inverse: float) -> None:
    grid = thinning.grid(most, inverse)
    steps = np.diff(grid)
    assert grid[0] == 0
    assert grid[-1] >= 1.3 * most * inverse  # what the largest count suggests, and 30 % more
    assert grid.size == 1 or grid[-2] < 1.3 * most * inverse
    half_noise = np.sqrt(grid[:-1] * (inverse - 1)) / 2
    whole = np.where(grid[:-1] < 8, 1, np.maximum(1, np.floor(half_noise + 1e-9)))
    np.testing.assert_array_equal(steps, whole)


def test_atoms_are_all_pairs_and_no_row_has_more_than_k_hits() -> None:
    cells = Cells(*np.array([[2.0], [1.0], [1.0], [8.0], [1.5]]))
    found = thinning.latent(cells, (4.0, 1.5), 6, 1e6)
    pairs = list(zip(found.hits.tolist(), found.misses.tolist(), strict=True))
    misses = thinning.grid(1, 1.5).tolist()
    assert pairs == [(s, t) for s in np.arange(7.0) for t in misses]


def test_mean_inverse_propensity() -> None:
    none = np.zeros(2)
    assert thinning.mean_inverse(np.array([2.0, 1.0]), np.array([4.0, 5.0])) == 3.0
    assert thinning.mean_inverse(none, none) == 1.0
    assert thinning.mean_inverse(np.array([3.0]), np.array([3 - 1e-12])) == 1.0  # no p above 1
    assert thinning.mean_inverse(np.array([0.5]), np.array([4.0])) == 8.0


def weighted_line(counted: Any, means: Any, expected: Any) -> tuple[float, float, float]:
    """Level and slope of weighted least squares, and the F statistic of the slope."""
    root = np.sqrt(counted)
    design = np.column_stack([root, root * expected])
    (level, slope), rest, *_ = np.linalg.lstsq(design, root * means, rcond=None)
    alone = np.average(means, weights=counted)
    without = float(counted @ (means - alone) ** 2)
    return level, slope, (without - rest[0]) / (rest[0] / (means.size - 2))


@pytest.mark.parametrize("seed", range(6))
def test_the_mean_propensity_is_a_shrunk_weighted_line(seed: int) -> None:
    """James–Stein: the slope of weighted least squares times max(0, 1 − 2/F); cells, then atoms."""
    random = np.random.default_rng(seed)
    cells = 3 + seed
    counted = np.r_[1.0, random.integers(5, 200, cells - 1)]  # one label tells a little, too
    expected = np.sort(random.uniform(0, 3, cells))
    means = 4 + 0.8 * expected + random.normal(0, 0.3, cells)
    size = np.linspace(0, 5, 11)
    level, slope, f = weighted_line(counted, means, expected)
    shrunk = slope * max(0.0, 1 - 2 / f)
    assert 0 < 2 / f < 1  # otherwise there is little to see
    middle = np.average(expected, weights=counted)
    line = level + slope * middle + shrunk * (size - middle)
    unseen = np.r_[counted, 0.0], np.r_[counted * means, 0.0], np.r_[expected, 99.0]
    found = thinning.inverse_by_count(*unseen, size)
    np.testing.assert_allclose(found, np.clip(line, means.min(), means.max()), rtol=1e-10)


def test_a_line_needs_three_cells_and_something_to_vary() -> None:
    size = np.array([0.0, 1.0, 2.0])
    two, three = np.full(2, 10.0), np.full(3, 10.0)
    flat = np.full(3, 2.5)
    for counted, means, expected in (
        (two, np.array([2.0, 3.0]), np.array([0.0, 1.0])),
        (three, np.array([2.0, 2.5, 3.0]), np.full(3, 0.7)),
        (three, np.array([2.0, 2.5, 3.0]), np.zeros(3)),
        (three, flat, np.array([0.0, 1.0, 2.0])),
        (three, np.array([2.0, 3.5, 2.0]), np.array([0.0, 1.0, 2.0])),  # a hill has no slope
    ):
        found = thinning.inverse_by_count(counted, counted * means, expected, size)
        np.testing.assert_allclose(found, means.mean())
    line = np.array([2.0, 2.5, 3.0])
    found = thinning.inverse_by_count(three, three * line, size, size)
    np.testing.assert_allclose(found, line)


def test_no_mean_propensity_is_beyond_what_was_seen_or_beyond_one() -> None:
    counted, expected = np.full(4, 50.0), np.arange(4.0)
    line = np.array([1.5, 2.0, 2.5, 3.0])
    atoms = np.array([-3.0, 0.0, 1.5, 9.0])
    found = thinning.inverse_by_count(counted, counted * line, expected, atoms)
    np.testing.assert_allclose(found, [1.5, 1.5, 2.25, 3.0])
    low = thinning.inverse_by_count(counted, counted * (line - 0.6), expected, atoms)
    np.testing.assert_allclose(low, [1.0, 1.0, 1.65, 2.4])


# --- strata ---------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.lists(st.integers(0, 400), min_size=10, max_size=10).filter(any))
def test_strata_are_joined_until_they_hold_500_labels(ones: list[int]) -> None:
    """Rows with one hit and one miss: two labels each, beside as many without labels."""
    rows = np.zeros((10, 2, 2))
    rows[:, 1, 1] = rows[:, 0, 0] = ones
    groups = enough_labels(Counts(rows, np.zeros((1, 10, 2, 2)), rows))
    labels = [sum(2 * ones[g] for g in group) for group in groups]
    assert [g for group in groups for g in group] == [g for g in range(10) if ones[g]]
    assert len(groups) == 1 or min(labels) >= 500
    for group in groups[:-1]:  # none is larger than it has to be
        assert sum(2 * ones[g] for g in group[:-1]) < 500


@pytest.mark.parametrize(("labels", "groups"), [(499, ((0, 3),)), (500, ((0,), (3,)))])
def test_exactly_500_labels_are_enough(labels: int, groups: tuple) -> None:
    rows = np.zeros((10, 2, 1))
    rows[[0, 3], 1, 0] = labels, 500
    assert enough_labels(Counts(rows, np.zeros((1, 10, 2, 1)), rows)) == groups
    rows[[0, 3], 1, 0] = 500, labels
    assert enough_labels(Counts(rows, np.zeros((1, 10, 2, 1)), rows)) == groups


def test_joined_strata_add_up() -> None:
    random = np.random.default_rng(0)
    rows = random.integers(0, 2, (10, 3, 2)) * random.integers(1, 9, (10, 3, 2)).astype(float)
    hits, misses = random.random((2, 10, 3, 2)), random.random((10, 3, 2))
    cells, by_place = occupied_cells(Counts(rows, hits, misses), (2, 5))
    at = [(s, t) for s in range(3) for t in range(2) if rows[2, s, t] + rows[5, s, t]]
    assert list(zip(cells.hits, cells.misses, strict=True)) == at
    for c, (s, t) in enumerate(at):
        assert cells.rows[c] == rows[2, s, t] + rows[5, s, t]
        assert cells.inverse_misses[c] == pytest.approx(misses[2, s, t] + misses[5, s, t])
        placed = hits[:, 2, s, t] + hits[:, 5, s, t]
        np.testing.assert_allclose(by_place[:, c], placed)
        assert cells.inverse_hits[c] == pytest.approx(placed.sum())


def stratum_of(
    kernel: Any, weights: Any, rows: Any, *, hits: Any = None, kept: Any = None
) -> Stratum:
    """A fit with this kernel; cells and atoms are numbered by hits."""
    kernel, weights, rows = (np.asarray(x, dtype=float) for x in (kernel, weights, rows))
    seen, true = np.arange(float(rows.size)), np.arange(float(weights.size))
    inverse = np.asarray(seen * rows if hits is None else hits, dtype=float)
    cells = Cells(seen, np.zeros_like(seen), rows, inverse, np.zeros_like(seen))
    ones = np.ones_like(true)
    kept = ones if kept is None else np.asarray(kept)
    by_place = inverse[None]
    return Stratum(
        cells, by_place, Atoms(true, 0 * true), (ones, ones), kernel, kept, weights, 0.0
    )  # fmt: skip


def test_posterior_means_are_bayes_rule() -> None:
    found = stratum_of([[0.5, 0.1], [0.5, 0.9]], [0.2, 0.8], [18.0, 82.0])
    prior, chance = (Fraction(1, 5), Fraction(4, 5)), ((5, 1), (5, 9))
    values = (3, 7)
    for cell in (0, 1):
        joint = [prior[a] * chance[cell][a] for a in (0, 1)]
        exact = sum(j * v for j, v in zip(joint, values, strict=True)) / sum(joint)
        assert found.posterior_mean(np.array(values))[cell] == pytest.approx(float(exact))
    np.testing.assert_allclose(found.fitted, [0.18, 0.82])
    assert found.rows == 100


def stratum_at_truth(p: float, *, empty: bool) -> Stratum:
    """The exact law of masks for four kinds of rows (of all, or of those that show a label)."""
    at = Atoms(np.array([0.0, 1, 1, 2, 2]), np.array([0.0, 0, 3, 1, 5]))
    every = np.array([0.1, 0.3, 0.2, 0.3, 0.1])
    seen = [(s, t) for s, t in product(range(3), range(6)) if empty or (s, t) != (0, 0)]
    s, t = np.array(seen, dtype=float).T
    inverse = (np.full(5, 1 / p),) * 2
    cells = Cells(s, t, np.ones(s.size), s, t)
    law = thinning.kernel(cells, at, *inverse)
    kept = law.sum(axis=0)
    chosen = kept > 0
    at, every = Atoms(*(x[chosen] for x in at)), every[chosen]
    kept, law = kept[chosen], law[:, chosen]
    rows = 1000 * law @ every / (every @ kept)
    cells = Cells(s, t, rows, rows * s / p, rows * t / p)
    inverse = (np.full(every.size, 1 / p),) * 2
    places = np.tile(cells.inverse_hits / 2, (2, 1))
    weights = every * kept / (every @ kept)
    return Stratum(cells, places, at, inverse, law / kept, kept, weights, 0.0)


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("p", [0.3, 0.8])
def test_places_that_are_alike_tell_nothing(p: float, empty: bool) -> None:
    """Hits are spread evenly over the places: to know the place of one is to know its row only."""
    found = stratum_at_truth(p, empty=empty)
    np.testing.assert_allclose(found.fitted, found.cells.rows / found.rows)
    worth = np.random.default_rng(0).random(found.weights.size)
    both = found.hit_posterior_mean(np.tile(worth, (2, 1)))[:, found.cells.hits > 0]
    by_row = found.posterior_mean(worth)[found.cells.hits > 0]
    np.testing.assert_allclose(both, [by_row, by_row], rtol=1e-9)


def test_a_mixture_fitted_again_to_the_same_rows_stays() -> None:
    found = stratum_at_truth(0.5, empty=True)
    again = found.refitted(np.column_stack([found.cells.rows, 7 * found.cells.rows]))
    np.testing.assert_allclose(again, np.tile(found.weights[:, None], 2), rtol=1e-9)


# --- the worth of a hit ---------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 5])
def test_hits_earn_the_metric_together(k: int) -> None:
    """s hits of N = s + t true labels, all at the first places, from every definition."""
    gains = [1 / math.log2(place + 2) for place in range(k)]
    for s, t in product(range(1, k + 1), range(7)):
        n, best = s + t, min(k, s + t)
        defined = {
            "P": s / k, "R": s / n, "F1": 2 * s / (k + n), "Jaccard": s / (k + t), "hit": 1.0,
            "nDCG": sum(gains[:s]) / sum(gains[:best]), "R-precision": min(s, best) / best,
        }  # fmt: skip
        one, true = (np.array([float(x)]) for x in (s, n))
        for name, metric in METRICS.items():
            worth = float(metric.worth(one, true - one, k)[0])
            if metric.at_place is None:
                assert s * worth == pytest.approx(defined[name])
            else:
                placed = [float(metric.at_place(r, true, k)[0]) for r in range(s)]
                assert sum(placed) == pytest.approx(defined[name])
                assert worth == placed[0]  # what ignores the place takes every one for the first


def test_late_places_earn_nothing_where_few_labels_are_true() -> None:
    at_place = METRICS["R-precision"].at_place
    assert at_place is not None
    assert [float(at_place(r, np.array([2.0]), 4)[0]) for r in range(4)] == [0.5, 0.5, 0, 0]


def test_rows_without_true_labels_earn_a_finite_nothing() -> None:
    none = np.zeros(1)
    for metric in METRICS.values():
        assert np.isfinite(metric.worth(none, none, 3)).all()
        if metric.at_place is not None:
            assert np.isfinite(metric.at_place(0, none, 3)).all()


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("metric", ["F1", "nDCG", "R-precision"])
def test_the_influence_of_a_row_is_a_derivative(metric: str, empty: bool) -> None:
    """Also where rows without labels were left out; away from π = 0, where the fit is smooth."""
    everything = [*POPULATION, (1e7, (), (0, 1, 2))] if empty else POPULATION
    counts, _ = expected_counts(everything, [0.7] * 7, empty=empty)
    (found,) = fit(counts).strata
    in_population = [0, 2, 100, 101, 202] if empty else [2, 100, 101, 202]
    real = np.isin(found.atoms.hits * 100 + found.atoms.misses, in_population)
    rows, exactly = found.cells.rows, {"tolerance": 0.0, "steps": 3000}
    kernel = found.kernel[:, real]
    at_rest = _mixture.maximize(
        kernel, rows[:, None] / rows.sum(), found.weights[real], 1.0, **exactly
    ).weights[:, 0]
    smooth = replace(
        found,
        atoms=Atoms(found.atoms.hits[real], found.atoms.misses[real]),
        inverse=(found.inverse[0][real], found.inverse[1][real]),
        kernel=kernel, kept=found.kept[real], weights=at_rest,
    )  # fmt: skip
    part = Part(smooth, METRICS[metric], counts.k)
    nudges = np.diag(1e-3 * rows)
    both = np.hstack([rows[:, None] + nudges, rows[:, None] - nudges])
    mixtures = _mixture.maximize(kernel, both / both.sum(axis=0), at_rest, 1.0, **exactly).weights
    up, down = np.split(part.of(both, mixtures), 2)
    np.testing.assert_allclose(part.per_row, (up - down) / (2e-3 * rows), atol=2e-5)
    assert part.per_row @ rows == pytest.approx(part.value)
    any_gradient = np.random.default_rng(0).normal(size=at_rest.size)
    up, down = np.split(any_gradient @ mixtures, 2)
    moved = smooth.influence(any_gradient)
    np.testing.assert_allclose(moved, rows.sum() * (up - down) / (2e-3 * rows), rtol=1e-2)
    np.testing.assert_allclose(smooth.influence(np.ones(at_rest.size)), 0.0, atol=1e-6)


def test_influence_far_from_the_maximum_is_that_of_so_many_steps() -> None:
    """There an EM step may stretch what came before; a thousand steps move a thousand times."""
    far = stratum_of([[0.9, 0.1], [0.1, 0.9]], [0.99, 0.01], [10.0, 90.0])
    gradient = np.array([-1.0, 1.0])
    one_step = 0.01 * 0.9 / 0.108  # by how much π₁ grows with the share of the second cell
    assert 0 < np.abs(far.influence(gradient)).max() < 1000 * 4 * one_step


# --- fits -----------------------------------------------------------------------------------------


def table_of(
    rows: dict[tuple[int, int], float], p: float, *, k: int = 1, stratum: int = 0
) -> Counts:
    """Rows by (s, t), all propensities p; the hits stand at the first places."""
    shape = (10, k + 1, 1 + max(t for _, t in rows))
    counts, hits, misses = np.zeros(shape), np.zeros((k, *shape)), np.zeros(shape)
    for (s, t), n in rows.items():
        counts[stratum, s, t] = n
        hits[:s, stratum, s, t] = n / p
        misses[stratum, s, t] = n * t / p
    return Counts(counts, hits, misses)


def thinned(latent: dict[tuple[int, int], float], inverse: Any, k: int) -> Counts:
    """The mean table of rows by true (s*, t*), whose labels all have 1/p = inverse(s* + t*)."""
    rows = np.zeros((10, k + 1, 1 + max(t for _, t in latent)))
    hits, misses = np.zeros((k, *rows.shape)), np.zeros_like(rows)
    for (true_s, true_t), n in latent.items():
        u = inverse(true_s + true_t)
        for s, t in product(range(true_s + 1), range(true_t + 1)):
            here = n * stats.binom.pmf(s, true_s, 1 / u) * stats.binom.pmf(t, true_t, 1 / u)
            rows[0, s, t] += here
            hits[:, 0, s, t] += here * s * u / k
            misses[0, s, t] += here * t * u
    return Counts(rows, hits, misses)


def test_rows_with_many_labels_may_hold_rarer_ones() -> None:
    """u = 0.6 + 0.6 log(1 + N): 1.02 in rows with one label, 1.98 in rows with nine."""
    found = fit(thinned({(1, 0): 6e6, (2, 7): 4e6}, lambda n: 0.6 + 0.6 * math.log1p(n), k=2))
    assert found.value("R") == pytest.approx(0.6 + 0.4 * 2 / 9, abs=2e-3)
    assert found.value("F1") == pytest.approx(0.6 * 2 / 3 + 0.4 * 4 / 11, abs=2e-3)
    assert found.misfit < 0.005  # one mean for all would leave 16 % of the rows unexplained
    (only,) = found.strata
    np.testing.assert_allclose(only.inverse[0].min(), 1.016, atol=0.005)
    np.testing.assert_allclose(only.inverse[0].max(), 1.982, atol=0.005)


def test_estimates_stay_below_one() -> None:
    """Chance shows 3 of 4 single labels with p = 1/2: 1.5 hits per row, which no row has."""
    found = fit(table_of({(0, 0): 10, (1, 0): 30}, 0.5))
    assert {found.value(m) for m in METRICS} == {1.0}
    assert found.resampled("P", replicates=20).max() == 1.0
    refused = fit(table_of({(0, 0): 1000, (1, 0): 3000}, 0.5))
    assert refused.refusal


def test_intervals_are_normal_ones_within_the_range() -> None:
    found = fit(table_of({(0, 0): 80, (1, 0): 20}, 0.9))
    value, error, interval, _ = found.estimate("P")
    assert interval == pytest.approx(stats.norm.interval(0.95, value, error))
    assert found.estimate("P", confidence=0.8).interval == pytest.approx(
        stats.norm.interval(0.8, value, error)
    )
    rare = fit(table_of({(0, 0): 99, (1, 0): 1}, 0.9)).estimate("P", confidence=0.99)
    assert rare.interval[0] == 0.0 < rare.interval[1]
    common = fit(table_of({(0, 0): 1, (1, 0): 99}, 1.0)).estimate("P", confidence=0.99)
    assert common.interval[0] < common.interval[1] == 1.0


def test_bootstrap_intervals_are_quantiles_of_fits_to_drawn_rows() -> None:
    found = fit(table_of({(0, 0): 60, (1, 0): 40, (1, 1): 20}, 0.7))
    again = found.resampled("R", replicates=40, seed=2)
    estimate = found.estimate("R", replicates=40, seed=2, confidence=0.7)
    assert estimate.standard_error == pytest.approx(np.std(again, ddof=1))
    assert estimate.interval == pytest.approx(tuple(np.quantile(again, [0.15, 0.85])))
    assert estimate.value == found.value("R")
    np.testing.assert_array_equal(
        found.resampled("R", replicates=5), found.resampled("R", replicates=5, seed=0)
    )
    assert found.estimate("R", replicates=5) == found.estimate("R", replicates=5, seed=0)


def test_resampled_precision_is_that_of_the_drawn_rows() -> None:
    """With p = 1, precision is a share of rows: binomial, whatever the strata."""
    one, two = (table_of({(0, 0): 350, (1, 1): 300}, 1.0, stratum=g) for g in (0, 6))
    both = Counts(one.rows + two.rows, one.hits + two.hits, one.misses + two.misses)
    found = fit(both)
    assert len(found.strata) == 2
    drawn = found.resampled("P", replicates=300)
    share = 300 / 650
    assert drawn.std() == pytest.approx(math.sqrt(share * (1 - share) / 1300), rel=0.15)
    assert drawn.mean() == pytest.approx(share, abs=0.004)
    np.testing.assert_allclose(drawn * 1300, np.round(drawn * 1300), atol=1e-6)


def fit_of(stratum: Stratum, *others: Stratum) -> Deconvolution:
    """A result with these fits; the table has their rows in one stratum each, by hits."""
    every = (stratum, *others)
    most = max(2, *(each.cells.rows.size for each in every))
    rows, hits = np.zeros((10, most, 1)), np.zeros((most - 1, 10, most, 1))
    for g, each in enumerate(every):
        rows[g, : each.cells.rows.size, 0] = each.cells.rows
        hits[0, g, : each.cells.rows.size, 0] = each.cells.inverse_hits
    counts = Counts(rows, hits, np.zeros_like(rows))
    return Deconvolution(counts, tuple((g,) for g in range(len(every))), every)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_misfit_is_a_total_variation_less_what_chance_explains(share: float) -> None:
    """Two cells: what is taken off is the mean over all data sets of 1000 rows."""
    n = 1000
    fitted = stratum_of(np.eye(2), [1 - share, share], [n // 2 + n // 4, n // 4])
    by_chance = sum(
        chance * abs(x / n - share)
        for x, chance in enumerate(stats.binom.pmf(range(n + 1), n, share))
    )
    assert fit_of(fitted).misfit == pytest.approx(abs(share - 0.25) - by_chance, rel=1e-3)
    agreeing = stratum_of(np.eye(2), [1 - share, share], [n * (1 - share), n * share])
    assert fit_of(agreeing).misfit == 0.0


def test_misfit_counts_what_is_expected_where_nothing_is() -> None:
    """The fit expects three quarters of the rows in a cell that none is in."""
    assert fit_of(stratum_of([[0.25]], [1.0], [1e14])).misfit == pytest.approx(0.75)


def test_weights_that_round_above_one_fit() -> None:
    assert fit_of(stratum_of([[1.0]], [np.nextafter(1, 2)], [50.0])).misfit == 0.0


def off_by(share: float, rows: float = 1e12) -> Stratum:
    """A fit with half of the rows in each of two cells, and this share in the wrong one."""
    return stratum_of(np.eye(2), [0.5, 0.5], [rows * (0.5 - share), rows * (0.5 + share)])


def test_misfit_is_a_share_of_all_rows() -> None:
    assert fit_of(off_by(0.2, 3e12), off_by(0.0, 1e12)).misfit == pytest.approx(0.15, abs=1e-5)


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.01, "conditional: "), (0.03, "doubtful: 3% of the rows"), (0.07, "unusable: ")],
)
def test_misfit_makes_doubtful_then_unusable(share: float, words: str) -> None:
    found = fit_of(off_by(share))
    assert str(found.estimate("P").verdict).startswith(words)
    assert (found.refusal is not None) == (share > 0.05)


def test_a_refusal_tells_the_variance_and_what_it_would_be() -> None:
    """Labels per row: 3 in 4 rows of 5, 2 in the other; p = 0.3 alone makes it 0.7 of the mean."""
    found = fit(table_of({(1, 2): 4000, (1, 1): 1000}, 0.3))
    assert "(variance 0.16; missing labels alone would make it 1.96)" in str(found.refusal)
    varied = fit_of(off_by(0.4))  # 0 or 1 label, p = 1: no variance is too little
    assert "40% of the rows have label counts that no truth explains" in str(varied.refusal)


@pytest.mark.parametrize(
    ("empty", "hits", "wide"),
    [(50, 50, False), (47, 47, True), (784, 16, False), (686, 14, True), (600, 600, False)],
)
def test_an_estimate_is_wide_beyond_a_fifth_or_its_own_value(
    empty: int, hits: int, wide: bool
) -> None:
    """p = 1: a binomial share. Its 95 % interval is 0.196 wide at 50 of 100, 0.202 at 47 of 94."""
    n, share = empty + hits, hits / (empty + hits)
    half = 1.959964 * math.sqrt(share * (1 - share) / n)
    found = fit(table_of({(0, 0): empty, (1, 0): hits}, 1.0)).estimate("P")
    assert str(found.verdict) == (f"wide: ± {half:.4f}" if wide else str(CONDITIONAL))


@pytest.mark.parametrize(
    ("p", "words"),
    [(0.4, "doubtful: R-precision needs more than 40% of the labels"), (0.5, str(CONDITIONAL))],
)
def test_sharp_metrics_need_half_of_the_labels(p: float, words: str) -> None:
    n = 20_000
    found = fit(table_of({(1, 0): n * p, (0, 0): n * (1 - p)}, p))
    assert str(found.estimate("R-precision").verdict) == words
    assert found.estimate("R").verdict == CONDITIONAL


def test_no_labels_at_all_are_nothing_to_doubt() -> None:
    found = fit(table_of({(0, 0): 30}, 0.5))
    assert found.estimate("R-precision") == (0.0, 0.0, (0.0, 0.0), CONDITIONAL)
    assert found.misfit == 0.0


def test_strata_that_agree_are_no_reason_for_doubt() -> None:
    one, two = (table_of({(0, 0): 4000, (1, 1): 4000}, 1.0, stratum=g) for g in (0, 6))
    both = Counts(one.rows + two.rows, one.hits + two.hits, one.misses + two.misses)
    assert fit(both).estimate("R").verdict == CONDITIONAL
    assert (len(fit(both).strata), len(fit(both, stratified=False).strata)) == (2, 1)


def test_missing_log_likelihoods_add_up_and_none_is_negative() -> None:
    gaps = (3.0, -1e-9, 0.5)
    found = fit_of(*(replace(off_by(0.0), gap=gap) for gap in gaps))
    assert found.missing_log_likelihood == 3.5


def test_deviance_is_the_likelihood_ratio_of_the_cells() -> None:
    """Data sets drawn from a fit with free cells fit perfectly again: none deviates as much."""
    observed = [[30.0, 70.0], [0.0, 50.0]]
    found = fit_of(*(stratum_of(np.eye(2), [0.5, 0.5], rows) for rows in observed)).goodness()
    exact = [
        stats.power_divergence(rows, [sum(rows) / 2] * 2, lambda_="log-likelihood").statistic
        for rows in observed
    ]
    assert found.deviance == pytest.approx(sum(exact))
    assert found.p_value == pytest.approx(0.01)  # 99 draws and the data themselves


def test_goodness_repeats_and_starts_from_seed_zero() -> None:
    found = fit(table_of({(0, 0): 40, (0, 1): 90, (0, 2): 50, (0, 3): 25, (0, 4): 4}, 0.5))
    one, same, other = (
        found.goodness(draws=19, **given) for given in ({}, {"seed": 0}, {"seed": 1})
    )
    assert one == same != other
    assert one.deviance == other.deviance
    assert 1 / 20 <= other.p_value < 1


# --- EM -------------------------------------------------------------------------------------------


def test_em_stops_at_its_tolerance_or_after_its_steps() -> None:
    kernel, share = np.array([[0.5, 0.9], [0.5, 0.1]]), np.array([[0.7], [0.3]])
    start = np.array([0.01, 0.99])
    assert _mixture.maximize(kernel, share, start, 1e6, steps=3).steps == 3
    done = _mixture.maximize(kernel, share, start, 1e6)
    assert 3 < done.steps < 300
    assert 0 <= done.gap[0] <= 5
    assert _mixture.maximize(kernel, share, done.weights[:, 0], 1e6).steps == 1
    nothing = _mixture.maximize(kernel, share[:, :0], start, 1e6)
    assert (nothing.weights.shape, nothing.gap.size, nothing.steps) == ((2, 0), 0, 0)


def test_every_mixture_has_its_own_number_of_rows() -> None:
    kernel, share = np.array([[0.5, 0.9], [0.5, 0.1]]), np.array([[0.7, 0.7], [0.3, 0.3]])
    start = np.array([0.3, 0.7])
    few, many = _mixture.maximize(kernel, share, start, np.array([1.0, 1e9])).weights[0]
    assert abs(many - 0.5) < 1e-3 < abs(few - 0.5)


def test_linear_algebra_of_fits_takes_one_thread() -> None:
    def threads() -> set[int]:
        every = threadpool_info()
        return {each["num_threads"] for each in every if each["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        assert _mixture.one_blas_thread(threads)() == {1}
        assert threads() == before


# --- doubt about propensities ---------------------------------------------------------------------


CARRIED = Verdict(
    Level.UNUSABLE, Reason.FEW_ROWS,
    details={"count": 3, "rows": 900, "of": "rows", "share": 0.8},
)  # fmt: skip
DEPENDENT = Verdict(Level.DOUBTFUL, Reason.DEPENDENT_LABELS, details={"design_effect": 2.0})


def cell(
    value: float, error: float = 0.01, *, metric: str = "R@5", estimator: str = "unbiased",
    interval: tuple[float, float] = (0.4, 0.5), verdict: Verdict = CONDITIONAL,
) -> Estimate:  # fmt: skip
    return Estimate(metric, estimator, value, error, interval, 9.0, 0.1, 99, verdict)


def widened(plain: Estimate, *drawn: float | Estimate, **options: Any) -> Estimate:
    """`plain` with draws; numbers are values of draws that are like it otherwise."""
    tables = [
        Table([replace(plain, value=each) if isinstance(each, float) else each]) for each in drawn
    ]
    asked = {"confidence": 0.95, "interval": "normal", **options}
    return propensity_uncertainty.widen(Table([plain]), tables, **asked)[
        plain.metric, plain.estimator
    ]


def test_one_draw_or_equal_draws_or_no_value_leave_it_as_it_was() -> None:
    plain = cell(0.45)
    assert widened(plain, 0.3) == plain
    assert widened(plain, 0.3, math.nan) == plain
    assert widened(plain, 0.3, 0.3, math.nan) == plain
    assert widened(plain, 0.3, 0.4) != plain
    refused = cell(math.nan, math.nan, verdict=CARRIED)
    assert widened(refused, 0.3, 0.4).verdict == CARRIED
    assert "rows_only" not in widened(refused, 0.3, 0.4).details


def test_draws_without_an_error_take_that_of_the_plain_estimate() -> None:
    plain = cell(0.45, 0.02)
    found = widened(plain, cell(0.4, 0.04), cell(0.5, math.nan))
    assert found.standard_error**2 == pytest.approx((0.04**2 + 0.02**2) / 2 + 0.1**2 / 2)


def test_only_deconvolved_values_are_kept_in_their_range_and_differences_are_not() -> None:
    drawn = [0.0, 0.99]
    plain = cell(0.5, estimator="deconvolved")
    low, high = widened(cell(0.5), *drawn).interval
    assert low < 0 < 1 < high
    assert widened(plain, *drawn).interval == (0.0, 1.0)
    assert widened(plain, *drawn, bounded=False).interval == pytest.approx((low, high))


def test_an_end_on_the_wrong_side_of_the_value_adds_nothing() -> None:
    """All draws lie above the value: nothing is added to the distance below it."""
    found = widened(cell(0.45, interval=(0.4, 0.5)), 0.6, 0.7, interval="percentile")
    assert found.interval[0] == pytest.approx(0.4)
    assert found.interval[1] == pytest.approx(0.45 + math.hypot(0.05, 0.7 - 0.0025 - 0.45))


@pytest.mark.parametrize(
    ("refused", "words"), [(1, "conditional"), (2, "doubtful: the data contradict 20%")]
)
def test_more_than_a_tenth_of_refused_draws_is_worth_a_word(refused: int, words: str) -> None:
    values = [0.44, 0.45, *[0.445] * (8 - refused), *[math.nan] * refused]
    assert str(widened(cell(0.45), *values).verdict).startswith(words)


def test_worse_verdicts_stay() -> None:
    for verdict in (CARRIED, DEPENDENT):
        found = widened(cell(0.45, verdict=verdict), 0.1, 0.9, math.nan)
        assert found.verdict == verdict
        assert found.standard_error > 0.5


def test_wide_says_propensities_only_if_they_are_most_of_the_variance() -> None:
    """Rows: 0.1²; draws ± d have variance 2d²: most of it from d = 0.0708 on."""
    plain = cell(0.5, 0.1)
    less, more = (str(widened(plain, 0.5 - d, 0.5 + d).verdict) for d in (0.07, 0.072))
    assert less.startswith("wide: ± 0.27")
    assert "due to" not in less
    assert more.endswith("; 51% of the variance is due to the propensities")
    narrow = widened(cell(0.5, 0.001), 0.49, 0.51)
    assert narrow.details["propensity_share"] > 0.9
    assert narrow.verdict == CONDITIONAL


ADD_UP = {"P", "DCG", "macro-P", "macro-R"}


@pytest.mark.parametrize("estimator", ["vanilla", "normalized", "unbiased", "bound"])
def test_only_corrections_of_what_does_not_add_up_need_independence(estimator: str) -> None:
    every = [f"{name}@5" for name in METRICS_OF_TABLES]
    table = Table([cell(0.4, metric=metric, estimator=estimator) for metric in every])
    corrected = estimator in ("unbiased", "bound")
    for each in propensity_uncertainty.doubted(table, 2.34):
        doubt = corrected and each.metric.split("@")[0] not in ADD_UP
        words = "doubtful: labels of a row are kept or lost together (design effect 2.3)"
        assert str(each.verdict).startswith(words if doubt else "conditional: ")
        assert (each.verdict.reason is Reason.DEPENDENT_LABELS) == doubt
    assert propensity_uncertainty.doubted(table, TOGETHER) is table


def test_what_is_unusable_stays_unusable_whatever_labels_do_together() -> None:
    table = Table([cell(0.4, verdict=CARRIED)])
    (found,) = propensity_uncertainty.doubted(table, 9.0)
    assert found.verdict == CARRIED


# --- other propensities ---------------------------------------------------------------------------


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


def test_a_section_shows_what_the_statement_says() -> None:
    for differences, level in (({"γ = 0": 0.2}, "good"), ({"x": 0.2, "y": -0.2}, "warning")):
        found = ranking_of(differences)
        verdicts, chart, table = ranking_section(found).parts
        assert isinstance(verdicts, report.Verdicts)
        assert [(v.level, v.words) for v in verdicts.verdicts] == [(level, found.statement)]
        assert isinstance(chart, report.Chart)
        assert [(rule.value, rule.name) for rule in chart.rules] == [(0.0, "no difference")]
        (series,) = chart.series
        assert (list(series.x), list(series.y)) == (list(differences), list(differences.values()))
        assert series.low[0] < series.y[0] < series.high[0]
        assert isinstance(table, report.Table)
        assert len(table.rows) == len(differences)


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
