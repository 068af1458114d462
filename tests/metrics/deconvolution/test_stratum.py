"""Strata: when they are joined, and what a fit of one says of its rows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.count_tables import stratum_at_truth, stratum_of
from unmask._kernels.deconvolution import FIXED
from unmask.metrics import sums as cell_counts
from unmask.metrics import thinning as stratum
from unmask.metrics.thinning import Counts, enough_labels, occupied_cells
from unmask.metrics.thinning import Atoms, Cells


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


@pytest.mark.parametrize(("most", "longest", "short"), [(1000, 6, False), (12, 3, True)])
def test_cells_without_rows_are_all_near_ones_that_are_not_occupied(
    monkeypatch: pytest.MonkeyPatch, most: int, longest: int, short: bool
) -> None:
    """Up to one miss beyond the largest of 5, or as many as there is room for; 4 has none then."""
    monkeypatch.setattr(stratum, "_MOST_ELSEWHERE", most)
    hits, misses = np.array([0.0, 1, 1, 0]), np.array([0.0, 2, 5, 4])
    cells = Cells(hits, misses, *np.ones((3, 4)))
    atoms = Atoms(np.array([0.0, 1]), np.array([0.0, 0]))
    made, without_room = stratum._unoccupied(cells, atoms, np.ones(2))
    occupied = {(0, 0), (1, 2), (1, 5), (0, 4)}
    every = {(s, t) for s in (0, 1) for t in range(longest + 1)}
    assert set(zip(made.hits.tolist(), made.misses.tolist(), strict=True)) == every - occupied
    assert without_room == short
    assert not made.rows.any()


@pytest.mark.parametrize(
    "inverse", [[], [2.0], [4.0, 4.0, 4.0], [1.0, 2.0, 4.0, 8.0], [1.0, 100.0]]
)
def test_the_spread_of_inverse_propensities_is_their_coefficient_of_variation(
    inverse: list[float],
) -> None:
    q = np.array(inverse)
    made = cell_counts._spread(q.size, int(q.sum() * FIXED), float((q**2).sum()))
    assert made == pytest.approx(q.std() / q.mean() if q.size else 0, abs=1e-7)
