"""Measured estimates: metrics from judgements with known inclusion probabilities.

Whatever hid the labels, these are right: the probabilities are those of a sample that we drew.
`names` says which metrics there are.
"""

from unmask.metrics.measured.names import LINEAR, MICRO, split_name

__all__ = ["LINEAR", "MICRO", "split_name"]
