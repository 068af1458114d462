"""Verdicts on estimates, as pages show them.

A verdict is a value of `metrics`, or in a stored record what its `to_dict` made: level, reason,
advice, and the sentence as text. Here a level becomes the level of `report`.
"""

from __future__ import annotations

from collections.abc import Mapping

from unmask import report
from unmask.metrics import Level, Verdict

LEVELS: dict[str, str] = {
    Level.MEASURED: "good",
    Level.CONDITIONAL: "info",
    Level.WIDE: "warning",
    Level.DOUBTFUL: "warning",
    Level.UNUSABLE: "error",
}
"""What a number may claim, most first, with the level that `report` shows it as."""

StoredVerdict = Verdict | Mapping[str, str]
"""As a value, or as `Verdict.to_dict` stores it."""


def verdict_level(verdict: StoredVerdict) -> Level:
    """The level of a verdict.

    Parameters
    ----------
    verdict : Verdict, or mapping with level

    Returns
    -------
    Level

    Examples
    --------
    >>> verdict_level({"level": "wide", "reason": "wide", "advice": "", "text": "wide: ± 0.2"})
    <Level.WIDE: 'wide'>
    """
    return verdict.level if isinstance(verdict, Verdict) else Level(verdict["level"])


def verdict_text(verdict: StoredVerdict) -> str:
    """The sentence of a verdict.

    Parameters
    ----------
    verdict : Verdict, or mapping with text

    Returns
    -------
    str

    Examples
    --------
    >>> verdict_text({"level": "wide", "reason": "wide", "advice": "", "text": "wide: ± 0.2"})
    'wide: ± 0.2'
    """
    return verdict.sentence if isinstance(verdict, Verdict) else verdict["text"]


def verdict_cell(verdict: StoredVerdict) -> report.Verdict:
    """A verdict as a cell of a table.

    Parameters
    ----------
    verdict : Verdict, or mapping with level and text

    Returns
    -------
    report.Verdict
        Level good, info, warning or error, by `LEVELS`.

    Raises
    ------
    ValueError
        If there is no such level.

    Examples
    --------
    >>> verdict_cell({"level": "unusable", "text": "unusable: 3 of 900 rows carry it"}).level
    'error'
    """
    return report.Verdict(LEVELS[verdict_level(verdict)], verdict_text(verdict))


def is_unusable(verdict: StoredVerdict) -> bool:
    """Whether the number must not be used.

    Parameters
    ----------
    verdict : Verdict, or mapping with level

    Returns
    -------
    bool

    Examples
    --------
    >>> is_unusable({"level": "unusable", "text": "unusable: 3 of 900 rows carry it"})
    True
    """
    return verdict_level(verdict) is Level.UNUSABLE
