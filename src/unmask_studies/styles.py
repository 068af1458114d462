"""The style of every series that several studies show: estimators, corrections, settings."""

from __future__ import annotations

from unmask.metrics import charts
from unmask.report import Style, Styles

STYLES: Styles = {
    **charts.STYLES,
    "empirical bayes": Style("vermilion", "diamond"),
    "clean": Style("ink", "star"),
    "pretrained": Style("orange", "cross", "dashed"),
    "halved": Style("sky", "down"),
    "observed labels, training rows": Style("gray", "none", "dashed"),
    "true labels, training rows": Style("blue", "none", "dotted"),
    "true labels, test rows": Style("ink", "none"),
}
