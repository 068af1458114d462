"""Verdicts on estimates, as pages show them.

A verdict is a value with a level, a reason and an advice (`metrics`), or the same as a mapping in a
stored record. Here a level becomes the level of `report`, and the three become text.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from unmask import report

LEVELS = {
    "measured": "good",
    "conditional": "info",
    "wide": "warning",
    "doubtful": "warning",
    "unusable": "error",
}
"""What a number may claim, most first, with the level that `report` shows it as."""


class VerdictValue(Protocol):
    """A verdict of `metrics`: an object with these fields."""

    @property
    def level(self) -> str | Enum:
        """A name in `LEVELS`, or an enumeration whose names are those."""

    @property
    def reason(self) -> str:
        """Why; may be empty."""

    @property
    def advice(self) -> str:
        """What to do; may be empty."""


StoredVerdict = VerdictValue | Mapping[str, str] | str
"""As an object, as `{"level": …, "reason": …, "advice": …}`, or (to be deleted) as old text."""


def verdict_level(verdict: StoredVerdict) -> str:
    """The level of a verdict, a name in `LEVELS`.

    >>> verdict_level({"level": "wide", "reason": "± 0.2", "advice": ""})
    'wide'
    """
    if isinstance(verdict, str):
        return _level_of_old_text(verdict)
    level = verdict["level"] if isinstance(verdict, Mapping) else verdict.level
    return level.name.lower() if isinstance(level, Enum) else level


def verdict_text(verdict: StoredVerdict) -> str:
    """The level, the reason and the advice as one text.

    >>> verdict_text({"level": "wide", "reason": "± 0.2", "advice": "use more rows"})
    'wide: ± 0.2; use more rows'
    """
    if isinstance(verdict, str):
        return verdict
    if isinstance(verdict, Mapping):
        reason, advice = verdict["reason"], verdict["advice"]
    else:
        reason, advice = verdict.reason, verdict.advice
    why = "; ".join(text for text in (reason, advice) if text)
    return f"{verdict_level(verdict)}: {why}" if why else verdict_level(verdict)


def verdict_cell(verdict: StoredVerdict) -> report.Verdict:
    """A verdict as a cell of a table.

    Parameters
    ----------
    verdict : object with level, reason and advice; or a mapping of these

    Returns
    -------
    report.Verdict
        Level good, info, warning or error, by `LEVELS`.

    Examples
    --------
    >>> verdict_cell({"level": "unusable", "reason": "no thinning fits", "advice": ""}).level
    'error'
    """
    return report.Verdict(LEVELS[verdict_level(verdict)], verdict_text(verdict))


def is_unusable(verdict: StoredVerdict) -> bool:
    """Whether the number must not be used.

    >>> is_unusable({"level": "unusable", "reason": "carried by 3 rows", "advice": ""})
    True
    """
    return verdict_level(verdict) == "unusable"


def _level_of_old_text(text: str) -> str:
    """DELETE when all estimates carry a `Verdict`: the level that the first word stood for."""
    first_words = {"trust": "measured", **{level: level for level in LEVELS}}
    return next((first_words[word] for word in first_words if text.startswith(word)), "conditional")
