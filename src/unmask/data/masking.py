"""The masking model: hide labels on purpose, so that what is lost can be measured.

    Y = M ⊙ Y*,   M_ij ~ Bernoulli(p_j), all independent

Labels go missing; none is added. A mask that does more (`propensity.MaskModel`: rows of little
effort, rows nobody annotated, wrong labels) says by its method `observe` what is seen.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from unmask._typing import LabelsLike, PropensityLike
from unmask.arrays import checks


@runtime_checkable
class Mask(Protocol):
    """Anything that says which labels of rows are observed."""

    def observe(self, true_labels: sp.csr_array, rng: np.random.Generator) -> sp.csr_array:
        """Observed labels of rows with these true ones (checked)."""
        ...


def hide(true_labels: LabelsLike, propensity: PropensityLike | Mask, *, seed: int) -> sp.csr_array:
    """Observed labels: each true label kept, independently, with its propensity.

        Y_ij = M_ij Y*_ij,    M_ij ~ Bernoulli(p_j)

    Parameters
    ----------
    true_labels : matrix of shape (n, L)
        Complete labels, dense or sparse.
    propensity : array of shape (L,), sparse matrix of shape (n, L), or Mask
        Numbers in (0, 1]: one per label, or one per true label entry (same pattern); or a mask
        that does more than that, such as `propensity.MaskModel`.
    seed : int
        The same seed gives the same mask on every machine.

    Returns
    -------
    csr_array of shape (n, L), float32

    Raises
    ------
    ValueError
        If labels or propensities are out of range or do not fit each other.

    Examples
    --------
    >>> hide([[1, 1, 0], [0, 1, 1]], [1.0, 0.5, 1.0], seed=1).toarray()
    array([[1., 0., 0.],
           [0., 1., 1.]], dtype=float32)
    """
    labels = checks.labels(true_labels, name="true_labels")
    if isinstance(propensity, Mask):
        return propensity.observe(labels, np.random.default_rng(seed))
    chance = checks.entry_propensity(propensity, labels)
    kept = np.random.default_rng(seed).random(labels.nnz) < chance
    kept_before = np.r_[0, np.cumsum(kept)].astype(labels.indptr.dtype)
    parts = labels.data[kept], labels.indices[kept], kept_before[labels.indptr]
    return sp.csr_array(parts, shape=labels.shape)
