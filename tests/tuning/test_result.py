"""Why a training was chosen, in words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from unmask.tuning import result
from unmask.tuning.result import Because


@pytest.mark.parametrize(
    ("because", "said"),
    [
        (Because.ALONE, "No other training could be compared by R@5."),
        (Because.BEST, "It is the best by estimated R@5 of all that was tried."),
        (
            next(each for each in Because if each not in (Because.ALONE, Because.BEST)),
            "It needs no propensities and is within half a standard error (of 0.0123) of the "
            "best, corrected.",
        ),
    ],
)
def test_why_a_training_was_chosen(because: Because, said: str) -> None:
    best = SimpleNamespace(family=SimpleNamespace(name="corrected"))
    tuned: Any = SimpleNamespace(
        because=because, judged_by="R@5", measure="estimated R@5", error=0.01234, best=best
    )
    assert result._choice(tuned) == said
