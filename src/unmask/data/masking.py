"""The masking model: hide labels on purpose, so that what is lost can be measured.

    Y = M ⊙ Y*,   M_ij ~ Bernoulli(p_j), all independent

Labels go missing; none is added.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from unmask import _validation


def hide(true_labels: Any, propensity: Any, *, seed: int) -> sp.csr_array:
    """Observed labels: each true label kept, independently, with its propensity.

    `propensity` holds one number per label, or one per true label entry (sparse, same pattern).
    The same seed gives the same mask on every machine.

    >>> hide([[1, 1, 0], [0, 1, 1]], [1.0, 0.5, 1.0], seed=1).toarray()
    array([[1., 0., 0.],
           [0., 1., 1.]], dtype=float32)
    """
    labels = _validation.labels(true_labels, name="true_labels")
    chance = _validation.entry_propensity(propensity, labels)
    kept = np.random.default_rng(seed).random(labels.nnz) < chance
    kept_before = np.r_[0, np.cumsum(kept)].astype(labels.indptr.dtype)
    parts = labels.data[kept], labels.indices[kept], kept_before[labels.indptr]
    return sp.csr_array(parts, shape=labels.shape)
