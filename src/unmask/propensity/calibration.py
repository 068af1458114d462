"""The chance of a prediction to be right, read off its score from the observed labels.

Scores are cut into bins of equal size over all rows. Within a bin the share of predictions that are
observed, each weighed by 1/p, is the chance that a prediction with such a score is true; chances
may only rise with the score (isotonic regression). Without propensities it is the chance to be
*observed*.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import isotonic_regression

from unmask._typing import Floats
from unmask.arrays import TopK, values_at

BINS = 30
LEAST = 1e-3
"""A prediction is never held to be impossible."""


def chances(top: TopK, labels: sp.csr_array, p: Floats | None = None) -> sp.csr_array:
    """Return the chance of every listed prediction to be true, in [0.001, 1], as an (n, L) matrix.

    `labels` are validated; without propensities `p`, it is the chance to be observed.

    Examples
    --------
    >>> top = TopK([[0], [0], [1]], [[0.9], [0.9], [0.1]])
    >>> chances(top, sp.csr_array([[1, 0], [0, 0], [0, 0]])).toarray()[:, 0]
    array([0.5, 0.5, 0. ])
    """
    row, place = np.nonzero(top.labels >= 0)
    if not row.size:
        return sp.csr_array(labels.shape)
    label, score = top.labels[row, place], top.scores[row, place]
    observed = values_at(labels, row, label)
    edges = np.unique(np.quantile(score, np.linspace(0, 1, BINS + 1)[1:-1]))
    _, bin_ = np.unique(np.searchsorted(edges, score, side="right"), return_inverse=True)
    size = np.bincount(bin_)
    weighed = observed if p is None else observed / p[label]
    rate = isotonic_regression(np.bincount(bin_, weighed) / size, weights=size).x
    entries = (np.clip(rate[bin_], LEAST, 1.0), (row, label))
    return sp.csr_array(sp.coo_array(entries, shape=labels.shape))
