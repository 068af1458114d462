"""Diagnosis: can these propensities be true, and can unbiased estimates be used here?

Corrections assume that labels go missing independently, with known propensities. `diagnose` tests
what follows from that, says how exact corrected metrics can be, and recommends. Every finding has a
severity, the evidence and what to do.

Read on in `feasibility` (label counts against the propensities), `dependence` (with an audit),
`usability` (standard errors, estimators, losses), `record` (what is returned).
"""

from unmask.diagnosis.diagnose import diagnose
from unmask.diagnosis.findings import SEVERITIES, Diagnosis, Finding, Test

__all__ = ["SEVERITIES", "Diagnosis", "Finding", "Test", "diagnose"]
