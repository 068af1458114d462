"""Measured estimates: metrics from judgements with known inclusion probabilities.

    measure(top, labels, judged, metrics=["R@5"])      what `evaluate(…, audit=judged)` adds

Whatever hid the labels, these are right: the probabilities are those of a sample that we drew. Read
on in `row_values` (what a judged row says), `control` (what all rows show narrows it), `covariates`
(what that is), `pair_totals` (pairs over all rows), `pair_control` (what is known of all pairs
narrows those), `estimating` (estimates and differences), `spurious` (wrong observed labels),
`label_estimates` (a line per label), `evaluation` (beside estimates from a mask model).
"""

from unmask.metrics.measured.estimating import MEASURED, measure, measure_differences
from unmask.metrics.measured.label_estimates import LabelEstimates, label_estimates
from unmask.metrics.measured.spurious import SpuriousRate, spurious

__all__ = [
    "MEASURED",
    "LabelEstimates",
    "SpuriousRate",
    "label_estimates",
    "measure",
    "measure_differences",
    "spurious",
]
