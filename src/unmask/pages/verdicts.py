"""Verdicts on estimates, as pages show them.

A verdict is a value of `metrics`, or in a stored record what its `to_dict` made: level, reason,
advice, and the sentence as text. Here a level becomes the level of `report`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from unmask import report
from unmask.metrics import Level, Verdict
from unmask.metrics.claims import grouped

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
    """A verdict as a cell of a table: its level in a word; `verdict_list` says why.

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
    level = verdict_level(verdict)
    return report.Verdict(LEVELS[level], level.value)


def verdict_list(rows: Iterable[Mapping[str, Any]]) -> report.Verdicts:
    """Why numbers have their levels, once per reason.

    Parameters
    ----------
    rows : iterable of mappings
        With metric, estimator and verdict, as `Table.to_dicts` makes them.

    Returns
    -------
    report.Verdicts

    Examples
    --------
    >>> wide = {"level": "wide", "reason": "wide", "advice": "", "text": "wide: ± 0.2"}
    >>> (one,) = verdict_list([{"metric": "R@5", "estimator": "bound", "verdict": wide}]).verdicts
    >>> one.level, one.badge, one.words, one.evidence
    ('warning', 'wide', 'R@5 by bound', '± 0.2.')
    """
    return report.Verdicts(
        [
            report.Verdict(
                LEVELS[group.level], group.names, f"{group.why}.", badge=group.level.value
            )
            for group in grouped(rows, measured=True)
        ]
    )


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
