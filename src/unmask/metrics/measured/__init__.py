"""Measured estimates: metrics from judgements with known inclusion probabilities.

    measure(top, labels, judged, metrics=["R@5"])      what `evaluate(…, audit=judged)` adds

Whatever hid the labels, these are right: the probabilities are those of a sample that we drew. Read
on in `context` (what an audit needs of the data, and covariates), `rows` (what a judged row says,
also where people did not decide), `sampling` (means and totals, narrowed by what is known of all),
`estimates` (estimates and differences, beside those from a mask model) and `labels` (a line per
label, and wrong observed labels).
"""

from unmask.metrics.measured.estimates import MEASURED, measure, measure_differences
from unmask.metrics.measured.labels import LabelEstimates, SpuriousRate, label_estimates, spurious

__all__ = [
    "MEASURED",
    "LabelEstimates",
    "SpuriousRate",
    "label_estimates",
    "measure",
    "measure_differences",
    "spurious",
]
