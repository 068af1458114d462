"""Verdicts arrive as fields; their level decides how a page shows them."""

from __future__ import annotations

from enum import Enum, IntEnum
from types import SimpleNamespace

import pytest

from unmask import report
from unmask.pages import verdicts
from unmask.pages.verdicts import LEVELS, is_unusable, verdict_cell, verdict_level, verdict_text

Level = IntEnum("Level", [name.upper() for name in LEVELS])


def stored(level: str | Enum, reason: str = "", advice: str = "") -> dict[str, object]:
    return {"level": level, "reason": reason, "advice": advice}


def test_every_level_has_one_that_pages_show() -> None:
    assert set(LEVELS.values()) == report.LEVELS.keys()
    assert [LEVELS[level] for level in ("measured", "conditional", "unusable")] == [
        "good", "info", "error",
    ]  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
def test_objects_and_stored_records_show_the_same(level: str) -> None:
    record = stored(level, "few rows", "judge 300 rows")
    cell = verdict_cell(record)
    assert (cell.level, cell.words) == (LEVELS[level], f"{level}: few rows; judge 300 rows")
    assert verdict_cell(SimpleNamespace(**record)) == cell
    enumerated = SimpleNamespace(**{**record, "level": Level[level.upper()]})
    assert verdict_cell(enumerated) == cell
    assert is_unusable(record) == is_unusable(enumerated) == (level == "unusable")


@pytest.mark.parametrize(
    ("reason", "advice", "text"),
    [
        ("", "", "wide"),
        ("± 0.2", "", "wide: ± 0.2"),
        ("", "judge rows", "wide: judge rows"),
        ("± 0.2", "judge rows", "wide: ± 0.2; judge rows"),
    ],
)
def test_the_text_says_no_more_than_is_known(reason: str, advice: str, text: str) -> None:
    assert verdict_text(stored("wide", reason, advice)) == text


def test_the_level_alone_decides() -> None:
    """Words in a reason, however they start, change nothing."""
    verdict = stored("measured", "unusable: says somebody else")
    assert not is_unusable(verdict)
    assert verdict_cell(verdict).level == "good"


def test_an_unknown_level_is_no_verdict() -> None:
    with pytest.raises(KeyError):
        verdict_cell(stored("splendid"))


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("trust", "measured"),
        ("precise, but an upper bound", "conditional"),
        ("wide: ± 0.2", "wide"),
        ("doubtful: intervals disagree", "doubtful"),
        ("unusable: no thinning fits", "unusable"),
    ],
)
def test_old_texts_keep_their_level(text: str, level: str) -> None:
    """DELETE with `verdicts._level_of_old_text`."""
    assert verdicts._level_of_old_text(text) == verdict_level(text) == level
    assert verdict_text(text) == text
