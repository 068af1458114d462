"""Diagnosis: can these propensities be true, and can unbiased estimates be used here?

Corrections assume that labels go missing independently, with known propensities. `diagnose` tests
what follows from that (`evidence`), says how exact corrected metrics can be, and recommends. Every
finding has a kind, a severity, the numbers that show it and what to do (`findings`).
"""

from unmask.diagnosis.diagnose import diagnose
from unmask.diagnosis.findings import Diagnosis, Test

__all__ = [
    "Diagnosis",
    "Test",
    "diagnose",
]
