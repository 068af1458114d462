"""The page of a search for the best training: what was chosen and why, and all that was tried."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unmask import report
from unmask._typing import Record
from unmask.models.tune import chart, summary_table


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
    """The value of every training over C, and the best of each.

    Parameters
    ----------
    record : dict
        As `Tuned.to_dict` makes it.

    Returns
    -------
    list of Section
    """
    title = f"{record['judged_by']} by C; the higher C, the less regularisation"
    drawn = replace(chart(record), title=title)
    table = summary_table(record)
    heads = [replace(column, name=column.name or "chosen") for column in table.heads]
    table = replace(table, columns=heads, title="The best of every training")
    return [report.Section("What was tried", [drawn, table])]


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
