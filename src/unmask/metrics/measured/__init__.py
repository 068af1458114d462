"""Measured estimates: metrics from judgements with known inclusion probabilities.

    measure(top, labels, judged, metrics=["R@5"])      what `evaluate(…, audit=judged)` adds

Whatever hid the labels, these are right: the probabilities are those of a sample that we drew. Read
on in `row_values` (what a judged row says), `control` (what all rows show narrows it), `covariates`
(what that is), `pair_totals` (pairs over all rows), `estimating` (estimates and differences),
`spurious` (wrong observed labels), `per_label`, `evaluation` (beside estimates from a mask model).
"""

from unmask.metrics.measured.estimating import MEASURED, measure, measure_differences
from unmask.metrics.measured.per_label import LabelEstimates, per_label
from unmask.metrics.measured.spurious import SpuriousRate, spurious

__all__ = [
    "MEASURED",
    "LabelEstimates",
    "SpuriousRate",
    "measure",
    "measure_differences",
    "per_label",
    "spurious",
]
