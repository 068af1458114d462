"""Verdicts of many numbers, said once per reason: for the terminal and for pages.

Rows are those of `Table.to_dicts`, so that stored results are grouped as fresh ones are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unmask.metrics.verdict import Level, Reason

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """Numbers that share level, reason and advice.

    Parameters
    ----------
    level : Level
    rows : tuple of mappings
        With metric, estimator and verdict.
    """

    level: Level
    rows: tuple[Row, ...]

    @property
    def names(self) -> str:
        """`P@1, P@5 and R@5 by unbiased; R@5 by bound`."""
        by_estimator: dict[str, list[str]] = {}
        for row in self.rows:
            by_estimator.setdefault(row["estimator"], []).append(row["metric"])
        return "; ".join(
            f"{_listed(dict.fromkeys(metrics))} by {name}" for name, metrics in by_estimator.items()
        )

    @property
    def why(self) -> str:
        """The reason and the advice; with numbers of the first, where they differ."""
        reasons = list(dict.fromkeys(_why(row) for row in self.rows))
        if len(reasons) == 1:
            return reasons[0]
        first = self.rows[0]
        return f"{reasons[0]} ({first['metric']} by {first['estimator']}; the others alike)"

    def __str__(self) -> str:
        """Names, level and reason in one line."""
        return f"{self.names}: {self.level.value}: {self.why}"


def grouped(rows: Iterable[Row], *, measured: bool = False) -> list[Group]:
    """The verdicts of all rows, one group per level, reason, advice and outcome.

    Parameters
    ----------
    rows : iterable of mappings
        With metric, estimator and verdict, as `Table.to_dicts` makes them.
    measured : bool, default False
        Whether numbers on complete labels are named too; they need no word.

    Returns
    -------
    list of Group
        In order of appearance.

    Examples
    --------
    >>> wide = {"level": "wide", "reason": "wide", "advice": "", "text": "wide: ± 0.2"}
    >>> rows = [{"metric": f"R@{k}", "estimator": "unbiased", "verdict": wide} for k in (1, 5)]
    >>> print(*grouped(rows))
    R@1 and R@5 by unbiased: wide: ± 0.2
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        verdict = row["verdict"]
        key = tuple(verdict.get(name, "") for name in ("level", "reason", "advice", "outcome"))
        if verdict.get("reason") == Reason.BIASED_BY_DESIGN:  # every estimator in its own way
            key = (*key, row["estimator"])
        if measured or verdict.get("reason") != Reason.OBSERVED_LABELS:
            groups.setdefault(key, []).append(row)
    return [Group(Level(key[0]), tuple(same)) for key, same in groups.items()]


def across(rows: Iterable[Row], axis: str) -> list[str]:
    """The verdicts of several tables, one sentence for all that share it.

    Parameters
    ----------
    rows : iterable of mappings
        As of `grouped`, each with its table's key under `axis`.
    axis : str
        Such as "group".

    Returns
    -------
    list of str

    Examples
    --------
    >>> wide = {"level": "wide", "reason": "wide", "advice": "", "text": "wide: ± 0.2"}
    >>> rows = [{"metric": "R@1", "estimator": "unbiased", "verdict": wide, "group": year}
    ...         for year in ("1999", "2000")]
    >>> across(rows, "group")
    ['all groups: R@1 by unbiased: wide: ± 0.2']
    """
    every = list(rows)
    total = len({row[axis] for row in every})
    sentences = []
    for group in grouped(every):
        keys = list(dict.fromkeys(row[axis] for row in group.rows))
        where = some(keys) if len(keys) < total or total == 1 else f"all {axis}s"
        sentences.append(f"{where}: {group}")
    return sentences


def some(names: Sequence[str], most: int = 5) -> str:
    """The first names, and how many there are besides.

    >>> some(["a", "b", "c"]), some(["a", "b", "c"], most=2)
    ('a, b and c', 'a, b and 1 more')
    """
    if len(names) <= most:
        return _listed(names)
    return f"{', '.join(names[:most])} and {len(names) - most:,} more"


def _why(row: Row) -> str:
    verdict: Mapping[str, str] = row["verdict"]
    return verdict["why"] if "why" in verdict else verdict["text"].partition(": ")[2]


def _listed(names: Iterable[str]) -> str:
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last
