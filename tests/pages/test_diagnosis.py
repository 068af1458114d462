"""The page of a diagnosis."""

from __future__ import annotations

from pathlib import Path

from unmask import report
from unmask._typing import Record
from unmask.pages import diagnosis

FINDINGS = [
    {"severity": severity, "title": f"A {severity}", "evidence": f"So {severity}.", "advice": "a"}
    for severity in ("error", "warning", "info")
]
TESTS = [{"name": "pairs", "effect": "1.2 times", "p_value": 0.01, "adjusted": 0.02}]


def record(severity: str = "error", *, tests: bool = True) -> Record:
    return {"kind": "diagnosis", "source": "labels.txt", "severity": severity,
            "findings": FINDINGS, "tests": TESTS if tests else []}  # fmt: skip


def test_the_summary_is_the_verdict_and_what_is_more_than_information() -> None:
    verdict, *findings = diagnosis.summary(record())
    assert verdict[0].isupper()
    assert findings == ["So error.", "So warning."]  # sentences, not titles
    assert diagnosis.summary(record("info"))[0] != verdict


def test_findings_keep_their_severity_and_tests_their_numbers() -> None:
    findings, tests = diagnosis.sections(record())
    (verdicts,) = findings.parts
    assert isinstance(verdicts, report.Verdicts)
    assert [v.level for v in verdicts.verdicts] == ["error", "warning", "info"]
    (table,) = tests.parts
    assert isinstance(table, report.Table)
    assert table.rows == (("pairs", "1.2 times", 0.01, 0.02),)
    assert [section.title for section in diagnosis.sections(record(tests=False))] == ["Findings"]


def test_only_diagnoses_are_recognised() -> None:
    assert diagnosis.recognise(Path("d.json"), record()) == [record()]
    assert diagnosis.recognise(Path("d.json"), {"kind": "evaluation"}) == []
    assert diagnosis.recognise(Path("d.json"), [record()]) == []
