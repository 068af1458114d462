"""The page of a diagnosis: the verdict, the findings with their evidence, every test."""

from __future__ import annotations

from pathlib import Path

from unmask import report
from unmask._typing import Record
from unmask.diagnosis.findings import VERDICTS
from unmask.pages import label_figures


def summary(record: Record) -> list[str]:
    """The verdict, and what shows every finding that is more than information.

    Parameters
    ----------
    record : Record
        As `unmask diagnose --json` prints it.

    Returns
    -------
    list of str
        Sentences for the top of the page.
    """
    findings = [f["evidence"] for f in record["findings"] if f["severity"] != "info"]
    verdict = VERDICTS[record["severity"]]
    return [verdict[0].upper() + verdict[1:], *findings]


def sections(record: Record) -> list[report.Section]:
    """Findings, all tests, the labels.

    Parameters
    ----------
    record : Record
        As `unmask diagnose --json` prints it.

    Returns
    -------
    list of Section
        Without tests or figures of the labels where the record has none.
    """
    verdicts = [
        report.Verdict(f["severity"], f["title"], evidence=f["evidence"], advice=f["advice"])
        for f in record["findings"]
    ]
    tests = report.Table(
        ["test", "effect", report.Column("p", ".2g"), report.Column("p, corrected", ".2g")],
        [[t["name"], t["effect"], t["p_value"], t["adjusted"]] for t in record["tests"]],
    )
    sections = [report.Section("Findings", [report.Verdicts(verdicts)])]
    if record["tests"]:
        sections.append(report.Section("All tests", [tests]))
    if labels := record.get("labels"):
        sections.append(label_figures.section(labels))
    return sections


def recognise(path: Path, content: object) -> list[Record]:
    """The record in the content of a file, if it is a stored diagnosis.

    Parameters
    ----------
    path : Path
        The file.
    content : object
        What its JSON holds.

    Returns
    -------
    list of Record
        One record, or none.
    """
    if isinstance(content, dict) and content.get("kind") == "diagnosis":
        return [content]
    return []
