"""Words about how far a number moves under other propensities."""

from __future__ import annotations

import math

import pytest

from unmask.metrics.vary import MOST, EffortValue, GammaRange, Sensitivity

RANGES = (GammaRange(1.25, 0.41, 0.62),)


@pytest.mark.parametrize(
    ("turns_at", "factor", "words"),
    [
        (None, "", ""),
        (math.inf, f"> {MOST:g}", f"the winner stays the same up to a factor of {MOST:g}"),
        (1.231, "1.24", "the winner changes where propensities are off by 1.24 times"),
        (1.5, "1.50", "the winner changes where propensities are off by 1.50 times"),
    ],
)
def test_the_factor_at_which_the_winner_changes_is_rounded_up(
    turns_at: float | None, factor: str, words: str
) -> None:
    moved = Sensitivity(0.5, RANGES, turns_at=turns_at)
    assert moved.turning_factor == factor
    assert moved.turning == words


def test_the_ends_are_those_of_all_changes() -> None:
    moved = Sensitivity(0.5, RANGES, (EffortValue(0.3, 0.2), EffortValue(0.5, 0.9)))
    assert (moved.low, moved.high) == (0.2, 0.9)
    assert (Sensitivity(0.7, RANGES).low, Sensitivity(0.7, RANGES).high) == (0.41, 0.7)
