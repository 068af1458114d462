"""The page of a search for the best training: what was chosen and why, and all that was tried."""

from __future__ import annotations

from pathlib import Path

from unmask import report
from unmask._typing import Record
from unmask.tuning.result import chart, summary_table


def summary(record: Record) -> list[str]:
    """What was chosen, and why.

    Parameters
    ----------
    record : dict
        As `Tuned.to_dict` makes it.

    Returns
    -------
    list of str
    """
    return [f"Chosen: {record['headline']}.", record["reason"]]


def sections(record: Record) -> list[report.Section]:
    """The best of every training, and the value of all over C.

    Parameters
    ----------
    record : dict
        As `Tuned.to_dict` makes it.

    Returns
    -------
    list of Section
    """
    return [report.Section("What was tried", [summary_table(record), chart(record)])]


def recognise(path: Path, content: object) -> list[Record]:
    """The record in the content of a file, if it is a stored search.

    Parameters
    ----------
    path : Path
        The file.
    content : object
        What its JSON holds.

    Returns
    -------
    list of dict
        One record, or none.
    """
    if isinstance(content, dict) and content.get("kind") == "tuning":
        return [content]
    return []
