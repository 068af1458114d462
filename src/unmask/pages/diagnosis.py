"""The page of a diagnosis: the verdict, the findings with their evidence, every test.

A record is `Diagnosis.to_dict`, with source and labels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unmask import report
from unmask.diagnosis.findings import VERDICTS
from unmask.pages import label_figures

Record = dict[str, Any]


def summary(record: Record) -> list[str]:
    """The verdict, and every finding that is more than information."""
    worst = [f"{f['title']}." for f in record["findings"] if f["severity"] != "info"]
    verdict = VERDICTS[record["severity"]]
    return [verdict[0].upper() + verdict[1:], *worst]


def sections(record: Record) -> list[report.Section]:
    """Findings, all tests, the labels."""
    verdicts = [
        report.Verdict(f["severity"], f["title"], evidence=f["evidence"], advice=f["advice"])
        for f in record["findings"]
    ]
    tests = report.Table(
        ["test", "effect", report.Column("p", ".2g"), report.Column("p, corrected", ".2g")],
        [[t["name"], t["effect"], t["p_value"], t["adjusted"]] for t in record["tests"]],
    )
    made = [report.Section("Findings", [report.Verdicts(verdicts)])]
    if record["tests"]:
        made.append(report.Section("All tests", [tests]))
    if record.get("labels"):
        made.append(label_figures.section(record["labels"]))
    return made


def recognise(path: Path, content: Any) -> list[Record]:
    """A stored diagnosis."""
    return [content] if isinstance(content, dict) and content.get("kind") == "diagnosis" else []
