"""One look per estimator (`metrics.charts`) and correction, on every figure of the package."""

from __future__ import annotations

from unmask.metrics import charts  # noqa: F401 (the looks of estimators)
from unmask.report import STYLES, Style

STYLES["empirical bayes"] = Style("vermilion", "diamond")
