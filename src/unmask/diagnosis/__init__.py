"""Diagnosis: can these propensities be true, and can unbiased estimates be used here?

Corrections assume that labels go missing independently, with known propensities. `diagnose` tests
what follows from that, says how exact corrected metrics can be, and recommends. Every finding has a
kind, a severity, the numbers that show it and what to do.

Read on in `feasibility` (label counts against the propensities), `dependence` and `recording`
(with an audit; `score_statistic` is the test of what keeping depends on), `usability` (standard
errors, estimators, losses), `findings` (what is returned), `kinds` (what can be tested and found)
and `wording` (all sentences).
"""

from unmask.diagnosis.diagnose import diagnose
from unmask.diagnosis.findings import (
    SEVERITIES,
    Diagnosis,
    Finding,
    FindingKind,
    LabelGroup,
    Test,
    TestKind,
)

__all__ = [
    "SEVERITIES",
    "Diagnosis",
    "Finding",
    "FindingKind",
    "LabelGroup",
    "Test",
    "TestKind",
    "diagnose",
]
