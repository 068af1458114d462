"""Exact sums of columns, as fractions: blocks, what is held within limits, merging, and groups."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from unmask._kernels import block as sums


def empty(columns: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((columns, 3, sums.PARTIALS)), np.zeros((columns, sums.LARGEST))


def total(numbers: np.ndarray) -> Fraction:
    return sum(map(Fraction, numbers.tolist()), Fraction(0))


def wide(rng: np.random.Generator, columns: int, rows: int) -> np.ndarray:
    """Numbers of either sign over sixty decades; the second column has no negative ones."""
    values = rng.standard_normal((columns, rows)) * 10.0 ** rng.integers(-30, 30, (columns, rows))
    values[1:2] = abs(values[1:2])
    values[:, ::5] = 0.0
    return values


@pytest.mark.parametrize("full", range(4))
def test_every_column_has_its_sum_and_the_first_ones_squares_and_sizes(full: int) -> None:
    """Over two blocks; rows beside them, and kinds that are not asked for, stay as they are."""
    values = wide(np.random.default_rng(full), 3, 60)
    partials, largest = empty(3)
    for start, stop in ((3, 21), (21, 55)):
        sums.add_block(values.copy(), start, stop, full, partials, largest)
    for c, column in enumerate(values[:, 3:55]):
        of_kind = {sums.SUM: column, sums.SQUARES: column * column, sums.ABSOLUTE: abs(column)}
        for kind, numbers in of_kind.items():
            wanted = total(numbers) if kind == sums.SUM or c < full else 0
            assert total(partials[c, kind]) == wanted
        most = np.sort(abs(column))[::-1][: sums.LARGEST]
        assert largest[c].tolist() == (most.tolist() if c < full else [0.0] * sums.LARGEST)


def test_partial_sums_do_not_overlap_and_stand_in_order() -> None:
    partials, largest = empty(1)
    for seed in range(5):
        values = wide(np.random.default_rng(seed), 1, 30)
        sums.add_block(values, 0, 30, 1, partials, largest)
    for kind in range(3):
        used = partials[0, kind][: np.flatnonzero(partials[0, kind])[-1] + 1]
        assert (used != 0).all()
        for small, large in pairwise(used):
            assert large + small == large  # the rest of a rounded sum


@pytest.mark.parametrize("seed", range(8))
def test_numbers_that_cancel_or_repeat_add_up(seed: int) -> None:
    """Ones, halves and tiny numbers of either sign, few of them in a block."""
    rng = np.random.default_rng(seed)
    partials, largest = empty(1)
    blocks = [rng.choice([1.0, -1.0, 0.5, 2.0**-80, 0.0], (1, size)) for size in (1, 1, 2, 3, 1)]
    for number, block in enumerate(blocks, start=1):
        sums.add_block(block.copy(), 0, block.size, 1, partials, largest)
        so_far = np.hstack(blocks[:number])[0]
        assert total(partials[0, sums.SUM]) == total(so_far)
        assert total(partials[0, sums.SQUARES]) == total(so_far**2)
        assert total(partials[0, sums.ABSOLUTE]) == total(abs(so_far))
        most = np.sort(abs(so_far))[::-1]
        assert largest[0, : most.size].tolist() == most.tolist()


def test_what_is_too_large_or_no_number_is_held_at_the_limit() -> None:
    bad = [1e150, -1e200, np.nan, np.inf, -np.inf]
    values = np.array([[*bad, 1.0, sums.LIMIT, -sums.LIMIT]])
    partials, largest = empty(1)
    sums.add_block(values, 0, 8, 1, partials, largest)
    limit = sums.LIMIT
    assert values[0].tolist() == [limit, -limit, limit, limit, -limit, 1.0, limit, -limit]
    assert total(partials[0, sums.SUM]) == 1 + Fraction(limit)
    assert total(partials[0, sums.ABSOLUTE]) == 1 + 7 * Fraction(limit)
    assert largest[0].tolist() == [limit] * 7 + [1.0] + [0.0] * (sums.LARGEST - 8)


def test_states_that_are_merged_are_those_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    parts = [wide(rng, 2, rows) for rows in (40, 25)]
    states = [empty(2) for _ in parts]
    for part, state in zip(parts, states, strict=True):
        sums.add_block(part.copy(), 0, part.shape[1], 1, *state)
    sums.merge(*states[0], *states[1])
    together = np.hstack(parts)
    for c in range(2):
        assert total(states[0][0][c, sums.SUM]) == total(together[c])
    assert total(states[0][0][0, sums.ABSOLUTE]) == total(abs(together[0]))
    most = np.sort(abs(together[0]))[::-1][: sums.LARGEST]
    assert states[0][1].tolist() == [most.tolist(), [0.0] * sums.LARGEST]


def test_groups_hold_the_rows_of_one_rest_in_doubled_precision() -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(-9, 10, (2, 30)) * 2.0 ** rng.integers(-40, 40, (2, 30))
    groups = np.zeros((2, 4, 2))
    sums.add_groups(values, 2, 17, 101, groups)
    sums.add_groups(values, 17, 29, 101, groups)
    for g in range(4):
        for c in range(2):
            own = [values[c, i] for i in range(2, 29) if (101 + i) % 4 == g]
            assert Fraction(groups[0, g, c]) + Fraction(groups[1, g, c]) == total(np.array(own))


@pytest.mark.parametrize("x", [5e-324, 1e-300, 0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 1e300])
def test_a_power_of_two_above_a_number(x: float) -> None:
    power = sums._power_of_two(x)
    assert np.frexp(power)[0] == 0.5
    assert x < power <= 2 * x
    assert sums._power_of_two(0.0) == 0.0
