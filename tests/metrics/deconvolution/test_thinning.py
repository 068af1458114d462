"""Thinning: the grid of true counts, and mean propensities by count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.metrics import thinning
from unmask.metrics.thinning import Cells


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


def test_points_that_no_observed_count_suggests_are_left_out() -> None:
    """Without noise only neighbours stay; with it, those within some deviations."""
    counts = np.arange(0.0, 41.0)
    near = thinning._explaining(counts, np.array([4.0, 12.0, 4.0]), 1.0)
    assert near.tolist() == [3, 4, 5, 11, 12, 13]
    noisy = thinning._explaining(counts, np.array([4.0, 30.0]), 1.04)
    wide = 1.0 + thinning._SUPPORT * np.sqrt(0.04 * counts)
    assert noisy.tolist() == counts[np.minimum(abs(counts - 4), abs(counts - 30)) <= wide].tolist()
    many = np.array([2.0, 9.0, 9.0, 17.0, 38.0])
    nearest = np.abs(counts[:, None] - many).min(axis=1)
    for inverse in (1.0, 1.02):
        wide = 1.0 + thinning._SUPPORT * np.sqrt((inverse - 1.0) * counts)
        kept = thinning._explaining(counts, many, inverse)
        assert kept.tolist() == counts[nearest <= wide].tolist()


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
