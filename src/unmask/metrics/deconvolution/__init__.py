"""Deconvolution: metrics from the distribution of true label counts (see `fitting`)."""

from unmask.metrics.deconvolution.fitting import (
    Deconvolution,
    Deconvolved,
    Goodness,
    fit,
    under_effort,
)
from unmask.metrics.deconvolution.stratum import Counts
from unmask.propensity.mask_model import RowEffort

__all__ = ["Counts", "Deconvolution", "Deconvolved", "Goodness", "RowEffort", "fit", "under_effort"]
