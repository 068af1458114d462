"""The demo as it runs."""

from __future__ import annotations

import pytest

from unmask.demo import run


@pytest.fixture(scope="module")
def steps() -> list[tuple[int, int]]:
    done: list[tuple[int, int]] = []
    run(n=300, progress=lambda *step: done.append(step))
    return done


def test_every_step_is_said_once(steps: list[tuple[int, int]]) -> None:
    assert steps == [(number, 7) for number in range(1, 8)]
