"""Propensities: how likely a true label is to have been observed, one number per label.

    p_j = P(Y_j = 1 | Y*_j = 1) ∈ (0, 1]

Every function returns a float64 array of shape (L,) that knows where it comes from (`source`). The
model of Jain, Prabhu & Varma (KDD 2016) derives p_j from how often label j occurs in the training
data:

    C = (ln n − 1)(b + 1)^a,    p_j = 1 / (1 + C (n_j + b)^(−a))

with n training rows and n_j rows that carry label j.
"""

from unmask.propensity.audit import audit, chao, from_marginals, from_model, recapture, snapshots
from unmask.propensity.estimate import PropensityEstimate, from_counts
from unmask.propensity.mask_model import MaskModel
from unmask.propensity.models import (
    Propensity,
    clip,
    constant,
    inverse_linear,
    jain,
    jain_curve,
    preset,
    source_of,
    temper,
)
from unmask.propensity.spec import MODELS, from_spec, read, write

ESTIMATORS = {
    "audit": audit,
    "recapture": recapture,
    "snapshots": snapshots,
    "model": from_model,
    "marginals": from_marginals,
}
"""Estimators of propensities from data; each returns a `PropensityEstimate`."""

__all__ = [
    "ESTIMATORS",
    "MODELS",
    "MaskModel",
    "Propensity",
    "PropensityEstimate",
    "audit",
    "chao",
    "clip",
    "constant",
    "from_counts",
    "from_marginals",
    "from_model",
    "from_spec",
    "inverse_linear",
    "jain",
    "jain_curve",
    "preset",
    "read",
    "recapture",
    "snapshots",
    "source_of",
    "temper",
    "write",
]
