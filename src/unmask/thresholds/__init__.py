"""Decide: thresholds above which labels are predicted, and scores as probabilities of true labels.

`choosing` says how thresholds are chosen, `chances` what a label with few observed rows borrows
from the others, `calibration` how scores become probabilities.
"""

from unmask.thresholds.calibration import Calibration, Method, calibrate
from unmask.thresholds.choosing import METRICS, PRIOR, Per, Thresholds, fit, read, write

__all__ = [
    "METRICS",
    "PRIOR",
    "Calibration",
    "Method",
    "Per",
    "Thresholds",
    "calibrate",
    "fit",
    "read",
    "write",
]
