"""The chance of a prediction to be right, read off its score from the observed labels.

Scores are cut into bins of equal size over all rows. Within a bin the share of predictions that are
observed, each weighed by 1/p, is the chance that a prediction with such a score is true; chances
may only rise with the score (isotonic regression). Without propensities it is the chance to be
*observed*.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import isotonic_regression

from unmask._kernels import audits
from unmask._typing import Floats, Singles
from unmask.arrays import TopK

BINS = 30
LEAST = 1e-3
"""A prediction is never held to be impossible."""


@dataclass(frozen=True, eq=False)
class Places:
    """The places of all lists, each with the bin of its score and whether it is observed.

    Parameters
    ----------
    described : bytes of shape (n, k)
        As `unmask._kernels.audits` makes them.
    size, observed : floats of shape (bins,)
        How many predictions a bin has, and how many of these are observed.
    """

    described: audits.Bytes
    size: Floats
    observed: Floats

    def rate(self, weighed: Floats | None = None) -> Floats:
        """Return the chance of every bin, from the observed predictions or weights of these."""
        some = self.size > 0
        weighed = (self.observed if weighed is None else weighed)[some]
        rate = np.full(self.size.size, LEAST)
        if some.any():
            fitted = isotonic_regression(weighed / self.size[some], weights=self.size[some])
            rate[some] = np.clip(fitted.x, LEAST, 1.0)
        return rate


def places_of(top: TopK, labels: sp.csr_array) -> Places:
    """Return the bins of all predictions; `labels` are validated."""
    listed = top.labels >= 0
    edges = _edges(top.scores.ravel() if listed.all() else top.scores[listed])
    parts = top.labels, top.scores, edges, labels.indptr, labels.indices
    return Places(*audits.describe_places(*parts))


def chances(top: TopK, labels: sp.csr_array, p: Floats | None = None) -> sp.csr_array:
    """Return the chance of every listed prediction to be true, in [0.001, 1], as an (n, L) matrix.

    `labels` are validated; without propensities `p`, it is the chance to be observed.

    Examples
    --------
    >>> top = TopK([[0], [0], [1]], [[0.9], [0.9], [0.1]])
    >>> chances(top, sp.csr_array([[1, 0], [0, 0], [0, 0]])).toarray()[:, 0]
    array([0.5, 0.5, 0. ])
    """
    pairs, places = top.pairs(), places_of(top, labels)
    described = places.described[pairs.rows, pairs.places]
    bins, weighed = described % audits.OBSERVED, None
    if p is not None:
        weight = (described >= audits.OBSERVED) / p[pairs.labels]
        weighed = np.bincount(bins, weight, minlength=places.size.size).astype(np.float64)
    entries = places.rate(weighed)[bins], (pairs.rows, pairs.labels)
    return sp.csr_array(sp.coo_array(entries, shape=labels.shape))


def _edges(scores: Singles) -> Floats:
    """Return the distinct quantiles that cut scores into `BINS` parts, like `numpy.quantile`."""
    if not scores.size:
        return np.zeros(0)
    ranked = np.sort(scores)
    place = np.linspace(0, 1, BINS + 1)[1:-1] * (ranked.size - 1)
    before = np.floor(place).astype(np.int64)
    below, above = ranked[before], ranked[np.minimum(before + 1, ranked.size - 1)]
    share, step = place - before, above - below
    quantiles = np.where(share < 0.5, below + step * share, above - step * (1 - share))
    return np.asarray(np.unique(quantiles), dtype=np.float64)
