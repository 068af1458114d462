"""Verdicts arrive as fields; their level decides how a page shows them."""

from __future__ import annotations

import pytest

from unmask import report
from unmask.metrics import Advice, Level, Reason, Verdict
from unmask.pages.verdicts import (
    LEVELS,
    is_unusable,
    verdict_cell,
    verdict_level,
    verdict_list,
    verdict_text,
)

CARRIED = {"count": 3, "rows": 900, "of": "rows", "share": 0.8}


def test_every_level_has_one_that_pages_show() -> None:
    assert list(LEVELS) == list(Level)
    assert set(LEVELS.values()) == report.LEVELS.keys()
    assert [LEVELS[level] for level in ("measured", "conditional", "unusable")] == [
        "good", "info", "error",
    ]  # fmt: skip


@pytest.mark.parametrize("level", Level)
def test_values_and_stored_records_show_the_same(level: Level) -> None:
    verdict = Verdict(level, Reason.FEW_ROWS, Advice.USE_DECONVOLVED, CARRIED)
    cell = verdict_cell(verdict.to_dict())
    words = "3 of 900 rows carry 80% of the estimate; use deconvolved"
    assert (cell.level, cell.words) == (LEVELS[level], level.value)
    row = {"metric": "R@5", "estimator": "unbiased", "verdict": verdict.to_dict()}
    (why,) = verdict_list([row, {**row, "metric": "R@1"}]).verdicts
    assert (why.level, why.badge) == (LEVELS[level], level.value)
    assert (why.words, why.evidence) == ("R@5 and R@1 by unbiased", f"{words}.")
    assert verdict_cell(verdict) == cell
    assert verdict_level(verdict) is verdict_level(verdict.to_dict()) is level
    assert verdict_text(verdict) == verdict_text(verdict.to_dict()) == str(verdict)
    assert is_unusable(verdict) == is_unusable(verdict.to_dict()) == (level == "unusable")


def test_the_level_alone_decides() -> None:
    """Words in a text, however they start, change nothing."""
    verdict = {"level": "measured", "text": "unusable: says somebody else"}
    assert not is_unusable(verdict)
    assert verdict_cell(verdict).level == "good"


def test_an_unknown_level_is_no_verdict() -> None:
    with pytest.raises(ValueError, match="splendid"):
        verdict_cell({"level": "splendid", "text": "splendid"})
