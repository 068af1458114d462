"""Deconvolution: exact where theory says so, honest where data refuse, small in memory."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize

from tests.helpers.count_tables import (
    POPULATION,
    Row,
    expected_counts,
    stratum_at_truth,
    stratum_of,
    tabulated,
    true_values,
)
from tests.helpers.evaluations import summary_of
from tests.helpers.oracles import subsets
from unmask import _mixture
from unmask._kernels import row_bounds
from unmask._kernels.deconvolution import FIXED, HEAVIEST, STRATA, stratum
from unmask.data import read
from unmask.metrics import compare, deconvolution, evaluate, intervals, thinning
from unmask.metrics import sums as state
from unmask.metrics.claims import CONDITIONAL
from unmask.metrics.deconvolution import METRICS, TOO_LOW, Deconvolution, Part, fit
from unmask.metrics.request import Request
from unmask.metrics.sums import Inverse, Sums
from unmask.metrics.sums import count as count_rows
from unmask.metrics.thinning import Atoms, Cells, Counts, Stratum, enough_labels, occupied_cells
from unmask.predictions import TopK
from unmask.propensity import jain, mask_model
from unmask.propensity.mask_model import RowEffort


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


def test_where_room_is_short_hits_and_misses_are_those_that_explain_cells() -> None:
    """Few rows with many labels: nothing lies between them and the others."""
    hits, misses = np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 4000.0])
    cells: Any = SimpleNamespace(hits=hits, misses=misses, rows=np.ones(3))
    inverse = 1.5, 1.1
    every = thinning.grid(4000, inverse[1]).size * 4
    atoms = thinning.latent(cells, inverse, 3, 3 * (every - 1.0))
    assert atoms is not None
    near = np.abs(np.unique(atoms.misses)[:, None] - misses * 1.1).min(axis=1)
    noise = np.sqrt(np.unique(atoms.misses) * 0.1)
    assert (near <= 1 + thinning._SUPPORT * noise + 1e-9).all()
    assert not ((atoms.misses > 200) & (atoms.misses < 3000)).any()
    assert set(atoms.hits.tolist()) == {0, 1, 2, 3}
    assert atoms.misses.max() > 4400


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


def test_influence_far_from_the_maximum_is_that_of_so_many_steps() -> None:
    """There an EM step may stretch what came before; a thousand steps move a thousand times."""
    far = stratum_of([[0.9, 0.1], [0.1, 0.9]], [0.99, 0.01], [10.0, 90.0])
    gradient = np.array([-1.0, 1.0])
    one_step = 0.01 * 0.9 / 0.108  # by how much π₁ grows with the share of the second cell
    assert 0 < np.abs(far.influence(gradient)).max() < 1000 * 4 * one_step


@pytest.mark.parametrize(
    "inverse", [[], [2.0], [4.0, 4.0, 4.0], [1.0, 2.0, 4.0, 8.0], [1.0, 100.0]]
)
def test_the_spread_of_inverse_propensities_is_their_coefficient_of_variation(
    inverse: list[float],
) -> None:
    q = np.array(inverse)
    made = deconvolution._spread(q.size, int(q.sum() * FIXED), float((q**2).sum()))
    assert made == pytest.approx(q.std() / q.mean() if q.size else 0, abs=1e-7)


TWO_KINDS = RowEffort(0.4, (-1.0, 1.0), (0.5, 0.5))

"""Diligent and careless rows; at p = 1/2 the mean of p(e) is 1/2 by symmetry."""


def law(p: float, effort: RowEffort, true: int, hits: int) -> dict[tuple[int, int], float]:
    """P(s, t) of a row with these true labels, the first `hits` predicted: all masks, all e."""
    chances = dict.fromkeys(product(range(hits + 1), range(true - hits + 1)), 0.0)
    chances[0, 0] = effort.unannotated
    seen_with = effort.propensities(np.array([p]))[:, 0]
    for weight, q in zip(effort.weights, seen_with, strict=True):
        for seen in subsets(range(true)):
            s = sum(j < hits for j in seen)
            mask = q ** len(seen) * (1 - q) ** (true - len(seen))
            chances[s, len(seen) - s] += (1 - effort.unannotated) * weight * mask
    return chances


@pytest.mark.parametrize("unannotated", [0.0, 0.2])
@pytest.mark.parametrize(("hits", "misses"), [(0, 0), (2, 3), (3, 1)])
def test_kernel_is_the_law_of_masks_that_a_row_shares(
    hits: int, misses: int, unannotated: float
) -> None:
    p = 0.3
    effort = RowEffort(0.4, (-1.0, 0.5), (0.3, 0.7), unannotated)
    exact = law(p, effort, hits + misses, hits)
    s, t = np.array(list(exact), dtype=float).T
    cells = thinning.Cells(s, t, np.ones(s.size), s / p, t / p)
    at = thinning.Atoms(np.array([float(hits)]), np.array([float(misses)]))
    inverse = np.array([1 / p])
    chances = thinning.kernel(cells, at, inverse, inverse, effort)[:, 0]
    np.testing.assert_allclose(chances, list(exact.values()), atol=1e-14)
    nothing = thinning.empty(at, inverse, inverse, effort)
    np.testing.assert_allclose(nothing, exact[0, 0], atol=1e-14)


@pytest.mark.parametrize("unannotated", [0.0, 0.25])
def test_the_other_labels_of_a_row_with_a_hit(unannotated: float) -> None:
    """P(others | a hit was seen): that hit's chance averages p, and a diligent row shows more."""
    p, hits, misses = 0.5, 3, 2
    inside = p / (1 - unannotated)  # of annotated rows
    chance = TWO_KINDS.propensities(np.array([inside]))[:, 0]
    effort = RowEffort(0.4, (-1.0, 1.0), (0.5, 0.5), unannotated)
    exact = {}
    for s, t in product(range(hits), range(misses + 1)):
        exact[s, t] = 0.0
        for q in chance:
            others = thinning.kernel(
                thinning.Cells(*(np.array([float(x)]) for x in (s, t, 1, 1, 1))),
                thinning.Atoms(np.array([hits - 1.0]), np.array([float(misses)])),
                np.array([1 / q]), np.array([1 / q]),
            )[0, 0]  # fmt: skip
            exact[s, t] += (1 - unannotated) * 0.5 * q / p * others
    s, t = np.array(list(exact), dtype=float).T
    cells = thinning.Cells(s, t, np.ones(s.size), s / p, t / p)
    at = thinning.Atoms(np.array([hits - 1.0]), np.array([float(misses)]))
    inverse = np.array([1 / p])
    computed = thinning.kernel(cells, at, inverse, inverse, effort, beside_hit=True)[:, 0]
    np.testing.assert_allclose(computed, list(exact.values()), atol=1e-14)
    if not unannotated:
        assert computed.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("rho", [0.25, 0.5, 0.75])
def test_propensities_stay_what_they_are_over_all_rows(rho: float) -> None:
    p = np.array([0.02, 0.1, 0.5, 0.9, 0.98])
    effort = mask_model.normal(rho, unannotated=0.01)
    mean = 0.99 * np.array(effort.weights) @ effort.propensities(p)
    np.testing.assert_allclose(mean, p, rtol=2e-5)
    assert effort.propensities(np.array([1.0])).min() == 1.0  # certain labels stay certain


def shared_counts(rows: list[Row], effort: RowEffort) -> tuple[Counts, dict[str, float]]:
    """The mean table of rows with p = 1/2 under shared masks, and the true metrics."""
    observed: list[Row] = []
    totals, n = dict.fromkeys(METRICS, 0.0), sum(count for count, _, _ in rows)
    seen_with = effort.propensities(np.array([0.5]))[:, 0]
    for count, true, predicted in rows:
        observed.append((count * effort.unannotated, (), predicted))
        for (weight, q), seen in product(
            zip(effort.weights, seen_with, strict=True), subsets(true)
        ):
            mask = q ** len(seen) * (1 - q) ** (len(true) - len(seen))
            observed.append((count * (1 - effort.unannotated) * weight * mask, seen, predicted))
        for metric, value in true_values(true, predicted).items():
            totals[metric] += count * value / n
    return tabulated(observed, [0.5] * 7), totals


@pytest.mark.parametrize("unannotated", [0.0, 0.2])
def test_expected_counts_under_shared_masks_give_back_the_truth(unannotated: float) -> None:
    effort = RowEffort(0.4, (-1.0, 1.0), (0.5, 0.5), unannotated)
    if unannotated:  # then p' = 5/8, where two points do not average p'; any F is allowed
        high, low = effort.propensities(np.array([0.5]))[:, 0]
        weight = (0.625 - low) / (high - low)
        effort = RowEffort(0.4, (-1.0, 1.0), (weight, 1 - weight), unannotated)
    counts, truth = shared_counts(POPULATION, effort)
    fitted = fit(counts, row_effort=effort)
    assert fitted.misfit < 1e-3
    assert {m: fitted.value(m) for m in METRICS if m != "R-precision"} == pytest.approx(
        {m: value for m, value in truth.items() if m != "R-precision"}, abs=8e-3
    )
    independent = fit(counts).value("R")
    assert abs(independent - truth["R"]) > 3 * abs(fitted.value("R") - truth["R"])


def test_no_effort_is_the_independent_fit() -> None:
    counts, _ = shared_counts(POPULATION, TWO_KINDS)
    plain, point = fit(counts), fit(counts, row_effort=RowEffort(0.0, (0.0,), (1.0,)))
    assert plain.effort is None
    assert fit(counts, row_effort=0.0, unannotated=0.0).value("R") == plain.value("R")
    for one, other in zip(plain.strata, point.strata, strict=True):
        np.testing.assert_allclose(one.kernel, other.kernel, atol=1e-13)


@pytest.mark.parametrize(("rho", "share"), [(0.95, 0.0), (-0.1, 0.0), (0.5, 1.0)])
def test_impossible_strengths_are_refused(rho: float, share: float) -> None:
    counts, _ = shared_counts(POPULATION, TWO_KINDS)
    with pytest.raises(ValueError, match="must lie in"):
        fit(counts, row_effort=rho, unannotated=share)


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
            worth = float(metric.hit_value(one, true - one, k)[0])
            if metric.at_place is None:
                assert s * worth == pytest.approx(defined[name])
            else:
                placed = [float(metric.at_place(r, one, true - one, k)[0]) for r in range(s)]
                assert sum(placed) == pytest.approx(defined[name])
                assert worth == placed[0]  # what ignores the place takes every one for the first


def test_late_places_earn_nothing_where_few_labels_are_true() -> None:
    at_place = METRICS["R-precision"].at_place
    assert at_place is not None
    one = np.ones(1)
    assert [float(at_place(r, one, one, 4)[0]) for r in range(4)] == [0.5, 0.5, 0, 0]


def test_rows_without_true_labels_earn_a_finite_nothing() -> None:
    none = np.zeros(1)
    for metric in METRICS.values():
        assert np.isfinite(metric.hit_value(none, none, 3)).all()
        if metric.at_place is not None:
            assert np.isfinite(metric.at_place(0, none, none, 3)).all()


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


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("p", [0.8, 0.95])
def test_expected_counts_give_back_the_truth(p: float, empty: bool) -> None:
    rows = [*POPULATION, (1e7, (), (0, 1, 2))] if empty else POPULATION
    counts, truth = expected_counts(rows, [p] * 7, empty=empty)
    found = fit(counts)
    assert {m: found.value(m) for m in METRICS} == pytest.approx(truth, abs=2e-3)
    assert found.misfit < 1e-3


def test_left_out_rows_matter() -> None:
    """A table without empty rows speaks of other rows than one with them, and has another truth."""
    _, with_empty = expected_counts(POPULATION, [0.6] * 7)
    counts, without = expected_counts(POPULATION, [0.6] * 7, empty=False)
    assert abs(with_empty["R"] - without["R"]) > 0.02
    assert fit(counts).value("R") == pytest.approx(without["R"], abs=5e-3)


def test_mixed_propensities_are_separated_by_stratum() -> None:
    """Rows whose labels all have p = 0.9 and rows whose labels all have p = 0.5."""
    often: list[Row] = [(3e6, (0, 2), (0, 1)), (1e6, (0, 1, 2, 3), (0, 1))]
    seldom: list[Row] = [(2e6, (4,), (4, 5)), (2e6, (6, 7), (4, 5)), (2e6, (4, 5), (4, 5))]
    counts, truth = expected_counts([*often, *seldom], [0.9] * 4 + [0.5] * 4)
    split, pooled = fit(counts), fit(counts, stratified=False)
    assert len(split.strata) == 2
    assert {m: split.value(m) for m in METRICS} == pytest.approx(truth, abs=4e-3)
    assert abs(pooled.value("R") - truth["R"]) > 5 * abs(split.value("R") - truth["R"])


@st.composite
def complete_tables(draw: st.DrawFn) -> list[Row]:
    labels = range(6)
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(1, 50),
                st.sets(st.sampled_from(labels)).map(lambda x: tuple(sorted(x))),
                st.permutations(labels).map(lambda x: tuple(x[:2])),
            ),
            min_size=1,
            max_size=8,
        )
    )
    return [(float(count), true, predicted) for count, true, predicted in rows]


@given(complete_tables())
def test_nothing_hidden_is_vanilla_with_its_standard_error(rows: list[Row]) -> None:
    counts, truth = expected_counts(rows, [1.0] * 6)
    found = fit(counts)
    assert {m: found.value(m) for m in METRICS} == pytest.approx(truth, abs=1e-9)
    n = sum(count for count, *_ in rows)
    spread = sum(
        count * (true_values(true, predicted)["R"] - truth["R"]) ** 2
        for count, true, predicted in rows
    )
    assert found.estimate("R").standard_error == pytest.approx(np.sqrt(spread) / n, abs=1e-9)


def test_precision_is_the_unbiased_one() -> None:
    propensity = [0.3, 0.5, 0.2, 0.9, 0.4, 0.6, 0.7]
    counts, truth = expected_counts([*POPULATION, (1e7, (), (0, 1, 2))], propensity)
    assert fit(counts).value("P") == pytest.approx(truth["P"], rel=1e-9)


@pytest.mark.parametrize(("true_hits", "true_misses"), [(0, 0), (2, 3), (3, 1)])
def test_kernel_is_the_law_of_masks(true_hits: int, true_misses: int) -> None:
    p = 0.3
    everything = list(product(range(4), range(5)))
    s, t = np.array(everything, dtype=float).T
    cells = thinning.Cells(s, t, np.ones(s.size), s / p, t / p)
    at = thinning.Atoms(np.array([float(true_hits)]), np.array([float(true_misses)]))
    inverse = np.array([1 / p])
    chance = dict(zip(everything, thinning.kernel(cells, at, inverse, inverse)[:, 0], strict=True))
    exact = dict.fromkeys(everything, 0.0)
    true = range(true_hits + true_misses)
    for seen in subsets(true):
        hits = sum(j < true_hits for j in seen)
        chance_of_mask = p ** len(seen) * (1 - p) ** (len(true) - len(seen))
        exact[hits, len(seen) - hits] += chance_of_mask
    assert chance == pytest.approx(exact, abs=1e-14)
    assert thinning.empty(at, inverse, inverse)[0] == pytest.approx(exact[0, 0])


def test_mixture_is_the_maximum_and_the_gap_bounds_what_is_missing() -> None:
    random = np.random.default_rng(0)
    kernel = random.dirichlet(np.ones(5), size=4).T
    share = random.dirichlet(np.ones(5))
    best = minimize(
        lambda x: -share @ np.log(kernel @ x),
        np.full(4, 0.25),
        bounds=[(1e-12, 1)] * 4,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    for steps, close in ((3, 1.0), (6, 1.0), (3000, 1e-6)):
        found = _mixture.maximize(
            kernel, share[:, None], np.full(4, 0.25), 1.0, tolerance=1e-10, steps=steps
        )
        likelihood = share @ np.log(kernel @ found.weights[:, 0])
        assert found.weights.sum() == pytest.approx(1)
        assert -1e-9 < -best.fun - likelihood <= min(found.gap[0], close) + 1e-9


def test_every_cycle_of_em_goes_uphill() -> None:
    random = np.random.default_rng(1)
    kernel = random.dirichlet(np.full(30, 0.3), size=40).T
    share = random.dirichlet(np.ones(30))[:, None]
    likelihoods = [
        float(share[:, 0] @ np.log(kernel @ found.weights[:, 0]))
        for steps in range(3, 300, 3)
        for found in [_mixture.maximize(kernel, share, np.full(40, 1 / 40), 1e9, steps=steps)]
    ]
    assert np.all(np.diff(likelihoods) >= -1e-12)
    assert likelihoods[-1] > likelihoods[0] + 1e-3


def test_columns_do_not_see_each_other() -> None:
    random = np.random.default_rng(2)
    kernel = random.dirichlet(np.ones(6), size=5).T
    shares = random.dirichlet(np.ones(6), size=20).T
    together = _mixture.maximize(kernel, shares, np.full(5, 0.2), 100.0).weights
    alone = [
        _mixture.maximize(kernel, shares[:, [i]], np.full(5, 0.2), 100.0).weights for i in range(20)
    ]
    np.testing.assert_array_equal(together, np.hstack(alone))


def test_mean_propensity_by_count_is_found() -> None:
    """Rows with many labels hold rarer ones: u = 1 + log(1 + s* + t*), known latent counts."""
    size = np.log1p(np.arange(6.0))
    counted, truth = np.full(6, 1000.0), 1 + size
    by_count = thinning.inverse_by_count(counted, counted * truth, size, size)
    np.testing.assert_allclose(by_count, truth, rtol=1e-9)
    noise = np.array([3.0, -3, 3, -3, 3, -3])  # a slope that is all noise is not believed
    by_chance = thinning.inverse_by_count(counted, counted * (5 + noise), size, size)
    np.testing.assert_allclose(by_chance, 5.0)


def test_stratum_ignores_rounding_and_counts_upwards() -> None:
    for p, k in product(
        [0.9, 0.8, 0.7, 2 / 3, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.1, 0.05], range(1, 9)
    ):
        inverse = 1 / p
        around = [sum([inverse] * k), inverse * k * (1 + 1e-9), inverse * k * (1 - 1e-9)]
        assert {stratum(each, k) for each in around} == {stratum(inverse, 1)}
    found = [stratum(1 / p, 1) for p in np.geomspace(1, 1e-3, 200)]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (0, STRATA - 1)
    assert stratum(0.0, 0) == 0


def counts_of(s: np.ndarray, t: np.ndarray, p: float, k: int) -> Counts:
    """The table of rows with these observed counts, one propensity; hits spread over the places."""
    table = np.zeros((STRATA, k + 1, t.max() + 1))
    np.add.at(table[stratum(1 / p, 1)], (s, t), 1)
    hits, misses = (table * axis / p for axis in np.indices(table.shape)[1:])
    return Counts(table, np.repeat(hits[None] / k, k, axis=0), misses)


@pytest.mark.parametrize(("p", "words"), [(0.3, "vary too little"), (0.9, "vary too little")])
def test_counts_that_no_truth_explains_are_refused(p: float, words: str) -> None:
    always_three = counts_of(np.ones(5000, int), np.full(5000, 2), p, 1)
    found = fit(always_three)
    assert words in str(found.refusal)
    value, error, interval, verdict = found.estimate("R")
    assert np.isnan([value, error, *interval]).all()
    assert str(verdict).startswith("unusable: the observed labels cannot come from the stated")


def test_two_peaks_that_thinning_would_have_blurred_are_refused() -> None:
    t = np.repeat([0, 12], 4000)
    assert "no truth explains" in str(fit(counts_of(np.zeros_like(t), t, 0.3, 1)).refusal)


def test_honest_counts_are_not_refused() -> None:
    random = np.random.default_rng(3)
    true = random.poisson(random.gamma(2, 2, 4000))
    s = random.binomial(np.minimum(true, 2), 0.3)
    t = random.binomial(true - np.minimum(true, 2), 0.3)
    found = fit(counts_of(s, t, 0.3, 2))
    assert found.refusal is None
    assert found.estimate("R").verdict.level == "conditional"
    sharp = found.estimate("R-precision").verdict
    assert str(sharp).startswith("doubtful: R-precision needs more than")


def test_a_few_rows_that_do_not_fit_raise_a_doubt() -> None:
    random = np.random.default_rng(5)
    honest = random.binomial(random.poisson(2, 9600), 0.5)
    t = np.r_[honest, np.full(400, 12)]
    verdict = fit(counts_of(random.binomial(1, 0.5, t.size), t, 0.5, 1)).estimate("R").verdict
    assert str(verdict) == "doubtful: 2% of the rows do not fit the stated propensities"


def test_few_rows_are_called_wide() -> None:
    random = np.random.default_rng(6)
    s, t = random.binomial(1, 0.5, 40), random.binomial(random.poisson(2, 40), 0.5)
    assert str(fit(counts_of(s, t, 0.5, 1)).estimate("R").verdict).startswith("wide: ± 0.")


def test_propensities_that_differ_between_rows_raise_a_doubt() -> None:
    often: list[Row] = [(3e4, (0,), (0,))]
    seldom: list[Row] = [(3e4, (1, 2, 3, 4, 5, 6), (1,)), (3e4, (1,), (1,))]
    counts, _ = expected_counts([*often, *seldom], [0.9] + [0.15] * 6)
    assert fit(counts).estimate("R").verdict.reason == "unequal-rows"


def test_bootstrap_agrees_with_the_linearised_error_and_repeats() -> None:
    random = np.random.default_rng(4)
    true = random.poisson(4, 5000)
    s = random.binomial(np.minimum(true, 1), 0.5)
    t = random.binomial(true - np.minimum(true, 1), 0.5)
    found = fit(counts_of(s, t, 0.5, 1))
    once = found.estimate("R", replicates=400, seed=1)
    assert once == found.estimate("R", replicates=400, seed=1)
    assert once.standard_error == pytest.approx(found.estimate("R").standard_error, rel=0.15)
    low, high = once.interval
    assert low < once.value < high
    assert high - low == pytest.approx(2 * 1.96 * once.standard_error, rel=0.15)


def test_confidence_widens_the_interval() -> None:
    counts, _ = expected_counts([(100.0, (0, 1), (0,)), (100.0, (1,), (0,))], [0.5, 0.5])
    narrow, wide = (fit(counts).estimate("R", confidence=c).interval for c in (0.5, 0.99))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_degenerate_tables() -> None:
    nothing = np.zeros((STRATA, 3, 1))
    with pytest.raises(ValueError, match="no rows to deconvolve"):
        fit(Counts(nothing, np.zeros((2, *nothing.shape)), nothing))
    only_empty = nothing.copy()
    only_empty[0, 0, 0] = 10
    no_hits = counts_of(np.zeros(100, int), np.repeat([0, 1, 2], [25, 50, 25]), 0.5, 2)
    for counts in (Counts(only_empty, np.zeros((2, *nothing.shape)), nothing), no_hits):
        found = fit(counts)
        assert {found.value(m) for m in METRICS} == {0.0}
        assert {found.estimate(m).standard_error for m in METRICS} == {0.0}
    with pytest.raises(ValueError, match="unknown deconvolved metric 'MAP'; use one of: F1, "):
        found.value("MAP")


def simulated(random: np.random.Generator, p: float) -> tuple[Counts, dict[str, float], float]:
    """The paper's simulation: recall@1 by row-by-row estimators, the table, and the truth."""
    true = random.binomial(100, 0.1, 10_000)
    s = random.binomial(np.minimum(true, 1), p)
    t = random.binomial(np.maximum(true - 1, 0), p)
    m = s + t
    rivals = {
        "vanilla": s / np.maximum(m, 1),
        "unbiased": s * (1 - (1 - 1 / p) ** m) / np.maximum(m, 1),
        "bound": s / p / (1 + np.maximum(m - 1, 0) / p),
    }
    truth = float(np.where(true > 0, 1 / np.maximum(true, 1), 0).mean())
    return counts_of(s, t, p, 1), {name: float(x.mean()) for name, x in rivals.items()}, truth


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "bar"), [(0.1, 0.5), (0.2, 0.5), (0.3, 0.5), (0.5, 1.2), (0.7, 1.2), (0.9, 1.2)]
)
def test_the_papers_simulation(p: float, bar: float) -> None:
    random = np.random.default_rng(7)
    errors: dict[str, list[float]] = {}
    covered = []
    for _ in range(100):
        counts, rivals, truth = simulated(random, p)
        estimate = fit(counts).estimate("R")
        for name, value in {**rivals, "deconvolved": estimate.value}.items():
            errors.setdefault(name, []).append(value - truth)
        covered.append(estimate.interval[0] <= truth <= estimate.interval[1])
    rmse = {name: float(np.sqrt(np.mean(np.square(e)))) for name, e in errors.items()}
    assert rmse.pop("deconvolved") <= bar * min(rmse.values())
    assert np.mean(covered) >= 0.88


@pytest.mark.slow
def test_real_label_counts(real_data: Path) -> None:
    """The labels of a real test set, noisy predictions, labels hidden by Jain's propensities."""
    test, train = (read(real_data / "delicious" / f"{part}.txt.gz") for part in ("test", "train"))
    true, propensity = test.labels.toarray() > 0, np.asarray(jain(train.labels))
    random = np.random.default_rng(8)
    top = np.argsort(random.normal(0, 0.5, true.shape) - true, axis=1)[:, :5].tolist()
    observed = true & (random.random(true.shape) < propensity)
    rows = [np.flatnonzero(row).tolist() for row in true]
    seen = [np.flatnonzero(row).tolist() for row in observed]
    counts = tabulated([(1.0, *pair) for pair in zip(seen, top, strict=True)], propensity)
    found = fit(counts)
    for metric in ("R", "F1", "nDCG"):
        truth, vanilla = (
            np.mean([true_values(*pair)[metric] for pair in zip(labels, top, strict=True)])
            for labels in (rows, seen)
        )
        assert found.value(metric) == pytest.approx(truth, abs=0.01)
    assert abs(vanilla - truth) > 0.05
    assert found.estimate("R").verdict.level == "conditional"


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


def test_intervals_are_those_of_shares_within_the_range() -> None:
    found = fit(table_of({(0, 0): 80, (1, 0): 20}, 0.9))
    for confidence in (0.8, 0.95):
        value, error, interval, _ = found.estimate("P", confidence=confidence)
        shares = {"rows": 100, "at_most": 1.0, "shares": True}
        assert interval == intervals.of_mean(value, error, confidence, **shares)
    rare = fit(table_of({(0, 0): 99, (1, 0): 1}, 0.9)).estimate("P", confidence=0.99)
    assert 0.0 < rare.interval[0] < 0.01 < rare.interval[1]
    common = fit(table_of({(0, 0): 1, (1, 0): 99}, 1.0)).estimate("P", confidence=0.99)
    assert common.interval[0] < 0.99 < common.interval[1] < 1.0


def test_bootstrap_intervals_hold_quantiles_of_fits_to_drawn_rows() -> None:
    found = fit(table_of({(0, 0): 60, (1, 0): 40, (1, 1): 20}, 0.7))
    again = found.resampled("R", replicates=40, seed=2)
    estimate = found.estimate("R", replicates=40, seed=2, confidence=0.7)
    assert estimate.standard_error == pytest.approx(np.std(again, ddof=1))
    drawn, plain = tuple(np.quantile(again, [0.15, 0.85])), found.estimate("R", confidence=0.7)
    assert estimate.interval == pytest.approx(intervals.hull(drawn, plain.interval))
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
    [(192, 192, False), (190, 190, True), (833, 17, False), (686, 14, True), (600, 600, False)],
)
def test_an_estimate_is_wide_beyond_a_tenth_or_its_own_value(
    empty: int, hits: int, wide: bool
) -> None:
    """p = 1: a binomial share. Its interval is 0.0998 wide at 192 of 384, 0.1004 at 190 of 380."""
    n, share = empty + hits, hits / (empty + hits)
    ends = intervals.wilson(share, n, intervals.t_quantile(0.95, n))
    half = (ends[1] - ends[0]) / 2
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
    value, error, ends, _ = found.estimate("R-precision")
    assert (value, error) == (0.0, 0.0)
    assert ends == intervals.wilson(0.0, 30, intervals.t_quantile(0.95, 30))
    assert found.misfit == 0.0


def test_strata_that_agree_are_no_reason_for_doubt() -> None:
    one, two = (table_of({(0, 0): 4000, (1, 1): 4000}, 1.0, stratum=g) for g in (0, 6))
    both = Counts(one.rows + two.rows, one.hits + two.hits, one.misses + two.misses)
    assert fit(both).estimate("R").verdict == CONDITIONAL
    assert (len(fit(both).strata), len(fit(both, stratified=False).strata)) == (2, 1)


@pytest.mark.parametrize(("hits", "misses"), [(0.6, 0.6), (1.1, 0.0), (0.0, 1.1)])
def test_weights_beyond_what_tables_hold_are_refused(hits: float, misses: float) -> None:
    """Of hits and misses together."""
    rows = np.zeros((10, 2, 2))
    rows[0] = 5
    by_place, of_misses = np.zeros((1, 10, 2, 2)), np.zeros((10, 2, 2))
    by_place[0, 0, 1, 0] = hits * HEAVIEST
    of_misses[0, 0, 1] = misses * HEAVIEST
    made = fit(Counts(rows, by_place, of_misses))
    assert made.not_fitted == TOO_LOW
    assert made.strata == ()


LONG_ROW = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
import numpy as np
import scipy.sparse as sp
import unmask
from unmask.metrics import evaluate
from unmask.predictions import TopK

unmask.set_threads(2)
n, L, k, random = 60_000, 40_000, 100, np.random.default_rng(0)
sizes = 1 + random.poisson(6, n)
sizes[n // 2] = 20_000
first = random.integers(L - 200, size=n)
first[n // 2] = 0
indptr = np.r_[0, np.cumsum(sizes)]
indices = np.arange(indptr[-1]) + np.repeat(first - indptr[:-1], sizes)
labels = sp.csr_array((np.ones(indices.size, np.float32), indices, indptr), shape=(n, L))
top = (first[:, None] + np.arange(k)).astype(np.int32)  # every label of a row that has at most 100
top = TopK(top, np.tile(-np.arange(k, dtype=np.float32), (n, 1)))
found = evaluate(top, labels, np.full(L, 0.5), metrics=["P@100", "R@100"],
                 estimators=["deconvolved"])
for each in found:
    print(each.value, each.standard_error, each.verdict.level)
"""


def test_twenty_thousand_labels_in_a_row_need_less_than_a_gigabyte() -> None:
    """Dense tables would take 16 GB for each of the chunks of rows."""
    run = subprocess.run([sys.executable, "-c", LONG_ROW], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    precision, recall = (line.split(maxsplit=2) for line in run.stdout.splitlines())
    assert float(precision[0]) == pytest.approx(0.14, abs=0.01)  # 7 labels in the mean, halved
    assert float(recall[0]) == pytest.approx(1.0, abs=0.001)
    assert precision[2] == recall[2] == "conditional"


def counts_of_cells(cells: Any, k: int) -> Counts:
    """The numbers that a table of cells says."""
    return deconvolution.counts_to_fit(cells, cells.places(k), 0)


def rows_of(seed: int, n: int = 60, n_labels: int = 12, k: int = 4) -> Any:
    """Predictions, observed labels (rows of very different lengths) and propensities."""
    random = np.random.default_rng(seed)
    labels = random.random((n, n_labels)) < random.choice([0.02, 0.3, 0.95], (n, 1))
    top = np.argsort(random.random((n, n_labels)), axis=1)[:, :k].astype(np.int32)
    p = 1 / random.integers(1, 9, n_labels)
    return TopK(top, np.tile(-np.arange(k, dtype=np.float32), (n, 1))), sp.csr_array(labels), p


def counted_by_hand(top: TopK, labels: Any, p: Any, k: int) -> dict[tuple[int, int, int], Any]:
    """(stratum, s, t) → rows, Σ 1/p of hits by place, Σ 1/p of misses."""
    cells: dict[tuple[int, int, int], Any] = {}
    for predicted, row in zip(top.labels[:, :k], labels.toarray() > 0, strict=True):
        outside = set(np.flatnonzero(row)) - set(predicted)
        key = stratum(sum(1 / p[predicted]), k), int(row[predicted].sum()), len(outside)
        count = cells.setdefault(key, Counter())
        count["rows"] += 1
        count["misses"] += sum(round(1 / p[j]) for j in outside)
        for place, j in enumerate(predicted):
            count[place] += round(1 / p[j]) * bool(row[j])
    return cells


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([1 << 18, 7]))
def test_cells_hold_what_rows_say(seed: int, pieces: int, chunk: int) -> None:
    """All k at once, in shards and small chunks: exactly the occupied cells, exact sums."""
    top, labels, p = rows_of(seed)
    options = {"metrics": ["R@1", "R@4", "P@3"], "estimators": ["deconvolved"]}
    request, inverse = Request(**options), Inverse.of(p)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "row_bounds", lambda indptr, _: row_bounds(indptr, chunk))
        parts = [
            count_rows(request, TopK(top.labels[rows], top.scores[rows]), labels[rows], inverse)
            for rows in np.array_split(np.arange(60), pieces)
        ]
    total = Sums.empty(parts[0].plan, groups=False)
    for each in parts:
        total.add(each)
    tables = total.tables
    assert sorted(tables) == [1, 3, 4]
    for k, table in tables.items():
        expected = counted_by_hand(top, labels, p, k)
        counts = counts_of_cells(table, k)
        keys = [tuple(cell) for cell in counts.cells.T.tolist()]
        assert keys == sorted(expected)
        for c, key in enumerate(keys):
            assert counts.rows[c] == expected[key]["rows"]
            assert counts.misses[c] == expected[key]["misses"]
            assert counts.hits[:, c].tolist() == [expected[key][place] for place in range(k)]
        assert total.inverse_sum == FIXED * sum(labels @ np.round(1 / p))


def test_counts_with_and_without_axes_are_the_same() -> None:
    top, labels, p = rows_of(5, n=3000)
    cells = evaluated(top, labels, p).tables[4]
    flat = counts_of_cells(cells, 4)
    shape = (10, 5, 1 + flat.cells[2].max())
    rows, hits, misses = np.zeros(shape), np.zeros((4, *shape)), np.zeros(shape)
    rows[*flat.cells], hits[:, *flat.cells], misses[*flat.cells] = flat.rows, flat.hits, flat.misses
    for metric in ("R", "nDCG"):
        assert fit(flat).estimate(metric) == fit(Counts(rows, hits, misses)).estimate(metric)


def evaluated(top: TopK, labels: Any, p: Any) -> Any:
    options = {"metrics": [f"R@{top.k}"], "estimators": ["deconvolved"]}
    return summary_of(top, labels, p, **options).sums


def test_no_more_cells_than_rows() -> None:
    """However long the rows are, and however many cut-offs there could be."""
    n, n_labels, k = 40, 5000, 200
    labels = sp.csr_array(np.tri(n_labels, dtype=np.float32)[:: n_labels // n][:n])
    top = TopK.from_scores(np.tile(np.arange(n_labels, dtype=np.float32), (n, 1)), k)
    cells = evaluated(top, labels, np.full(n_labels, 0.5)).tables[k]
    assert len(cells.keys) <= n
    assert sum(each.nbytes for each in cells) <= 8 * n * (k + 4)


def thinned_of_memory(
    seed: int, n: int = 4000, k: int = 12, p: float = 0.5
) -> tuple[Counts, float]:
    """Counts of rows with many labels, half of them hidden, and the true recall."""
    random = np.random.default_rng(seed)
    true = 1 + random.poisson(random.gamma(2, 20, n))
    hits = random.binomial(np.minimum(true, k), 0.4)
    s, t = random.binomial(hits, p), random.binomial(true - hits, p)
    cells, rows = np.unique([np.full(n, stratum(1 / p, 1)), s, t], axis=1, return_counts=True)
    by_place = np.repeat((rows * cells[1] / p / k)[None], k, axis=0)
    truth = float(np.mean(hits / true))
    return Counts(rows.astype(float), by_place, rows * cells[2] / p, cells), truth


def test_a_coarser_grid_says_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, truth = thinned_of_memory(0)
    fine = fit(counts)
    monkeypatch.setattr(thinning, "MOST_ATOMS", 300)
    coarse = fit(counts)
    sizes = [found.strata[0].atoms.hits.size for found in (fine, coarse)]
    assert sizes[1] <= 300 < sizes[0]
    for metric in ("R", "nDCG", "F1"):
        exact, near = fine.estimate(metric), coarse.estimate(metric)
        assert near.value == pytest.approx(exact.value, abs=0.1 * exact.standard_error)
        assert near.standard_error == pytest.approx(exact.standard_error, rel=0.05)
    assert near.verdict.level == "conditional"
    assert coarse.value("R") == pytest.approx(truth, abs=4 * exact.standard_error)


def test_counts_that_nothing_suggests_are_left_out_of_a_large_grid() -> None:
    """Short rows, and one of 20,000: with p = 1 only what was seen can be true."""
    cells = Cells(*np.array([[0.0, 2, 1], [3, 0, 20_000], [5, 5, 1], [0, 10, 1], [15, 0, 2e4]]))
    found = thinning.latent(cells, (1.0, 1.0), 100, 1e9)
    assert found.hits.size < thinning.MOST_ATOMS
    atoms = set(zip(found.hits.tolist(), found.misses.tolist(), strict=True))
    assert {(0.0, 3.0), (2.0, 0.0), (1.0, 20_000.0)} <= atoms
    assert not {t for _, t in atoms if 10 < t < 19_000}
    blurred = thinning.latent(cells, (1.0, 1.5), 100, 1e9)
    near = blurred.misses[blurred.misses > 10_000]
    assert near.min() < 30_000 - 4 * 122 < 30_000 + 4 * 122 < near.max()  # √(30,000 · ½) = 122


def test_what_has_no_room_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    top, labels, p = rows_of(3, n=200)
    monkeypatch.setattr(thinning, "MOST_ATOMS", 3)
    options = {"metrics": ["R@4"], "estimators": ["vanilla", "deconvolved"]}
    table = evaluate(top, labels, p, **options)
    each = table["R@4", "deconvolved"]
    assert np.isnan([each.value, each.standard_error, *each.interval]).all()
    words = r"unusable: \d+ different counts of observed labels are too many .* at k = 4; use a"
    assert re.match(words, str(each.verdict))
    assert np.isfinite(table["R@4", "vanilla"].value)
    bootstrapped = evaluate(top, labels, p, **options, interval="percentile", replicates=10)
    assert bootstrapped["R@4", "deconvolved"].verdict == each.verdict
    pair = compare({"one": top, "two": top}, labels, p, metrics=["R@4"], estimators=["deconvolved"])
    assert np.isnan(pair["two"]["R@4", "deconvolved"].value)
    refused = fit(counts_of_cells(evaluated(top, labels, p).tables[4], 4))
    assert np.isnan([refused.value("R"), refused.misfit]).all()
    assert np.isnan(refused.resampled("R", replicates=3)).all()


def test_all_strata_together_have_so_much_room() -> None:
    counts, _ = thinned_of_memory(1)
    rows = counts.rows
    cells = np.array([np.arange(rows.size) % 2, *counts.cells[1:]])
    both = fit(Counts(rows, counts.hits, counts.misses, cells))
    assert len(both.strata) == 2
    assert sum(each.kernel.size for each in both.strata) <= thinning.MOST_ENTRIES
    half = rows.size / 2 * 400  # entries for a kernel of 400 atoms each
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unmask.metrics.deconvolution.MOST_ENTRIES", 2 * half)
        small = fit(Counts(rows, counts.hits, counts.misses, cells))
    assert 0 < sum(each.kernel.size for each in small.strata) <= 2 * half
