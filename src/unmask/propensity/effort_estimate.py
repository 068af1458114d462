"""Row effort and unannotated rows from an audit: which ρ and π₀ make what was kept likely.

Of an audited row the true labels are known, and which of them were kept. With K its kept and M its
lost labels the row has the likelihood

    π₀ [K = ∅] + (1 − π₀) ∫ Π_{j∈K} p_j(e) Π_{j∈M} (1 − p_j(e)) dF(e)

(`row_effort`), p_j fixed at their estimates. Both numbers are 0 in the paper's model, and half of
the prior stands there; the other half is spread evenly over a grid. So an audit that shows no
effort gives exactly 0, and one that does gives the mean over what it allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from unmask._typing import Bools, Floats
from unmask.propensity.row_effort import MOST, normal

CORRELATIONS = np.linspace(0.0, MOST, 19)
SHARES = 13
SMALLEST = 1e-9
"""A chance below which nothing is certain, so that one odd row does not decide everything."""


@dataclass(frozen=True, eq=False)
class EffortPosterior:
    """What an audit says of row effort and of the share of unannotated rows.

    Parameters
    ----------
    correlations : (R,) floats
        Values of ρ, the first 0.
    shares : (S,) floats
        Values of π₀, the first 0.
    probability : (R, S) floats
        The probability of every pair; they sum to 1.
    """

    correlations: Floats
    shares: Floats
    probability: Floats

    @property
    def row_effort(self) -> float:
        """ρ: 0 where that is likelier than not, else the mean of the others."""
        return _location(self.correlations, self.probability.sum(axis=1))

    @property
    def unannotated(self) -> float:
        """π₀, in the same way."""
        return _location(self.shares, self.probability.sum(axis=0))

    def interval(self, confidence: float = 0.95) -> tuple[tuple[float, float], tuple[float, float]]:
        """The middle of the distributions of ρ and of π₀."""
        ends = []
        for values, axis in ((self.correlations, 1), (self.shares, 0)):
            below = np.cumsum(self.probability.sum(axis=axis))
            tails = np.searchsorted(below, [(1 - confidence) / 2, (1 + confidence) / 2])
            low, high = values[np.minimum(tails, values.size - 1)]
            ends.append((float(low), float(high)))
        return ends[0], ends[1]

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """(size, 2) draws of (ρ, π₀): a point of the grid, and a step's width around it."""
        flat = rng.choice(self.probability.size, size=size, p=self.probability.ravel())
        rows, columns = np.unravel_index(flat, self.probability.shape)
        drawn = np.column_stack([self.correlations[rows], self.shares[columns]])
        grids = self.correlations, self.shares
        steps = [np.diff(grid[:2])[0] if grid.size > 1 else 0.0 for grid in grids]
        jitter = (rng.random((size, 2)) - 0.5) * steps * (drawn > 0)
        return np.asarray(np.clip(drawn + jitter, 0.0, MOST))


def estimate_effort(kept: sp.csr_array, true_labels: sp.csr_array, p: Floats) -> EffortPosterior:
    """Row effort and the share of unannotated rows, from audited rows.

    Parameters
    ----------
    kept : csr_array of shape (m, L)
        Those of the true labels that were observed.
    true_labels : csr_array of shape (m, L)
        The complete labels of the audited rows.
    p : (L,) floats in (0, 1]
        Propensities over all rows.

    Returns
    -------
    EffortPosterior

    Examples
    --------
    Half of the rows show both of their labels, half none:

    >>> true = sp.csr_array(np.ones((80, 2)))
    >>> kept = sp.csr_array(np.repeat([[1.0, 1.0], [0.0, 0.0]], 40, axis=0))
    >>> posterior = estimate_effort(kept, true, np.array([0.5, 0.5]))
    >>> posterior.row_effort + posterior.unannotated > 0.4
    True
    """
    grid = log_likelihoods(kept, true_labels, p)
    posterior = np.exp(grid.log_likelihood - grid.log_likelihood.max())
    posterior *= _spike(grid.correlations.size)[:, None] * _spike(grid.shares.size)
    return EffortPosterior(grid.correlations, grid.shares, posterior / posterior.sum())


class EffortGrid(NamedTuple):
    """How likely an audit is for values of ρ (rows) and of π₀ (columns), the first of each 0."""

    correlations: Floats
    shares: Floats
    log_likelihood: Floats


def log_likelihoods(kept: sp.csr_array, true_labels: sp.csr_array, p: Floats) -> EffortGrid:
    """The log-likelihood of the audited rows over a grid of ρ and π₀.

    Parameters
    ----------
    kept, true_labels, p
        As in `estimate_effort`.

    Returns
    -------
    EffortGrid
    """
    some = np.diff(true_labels.indptr) > 0
    kept, true_labels = sp.csr_array(kept[some]), sp.csr_array(true_labels[some])
    used = np.flatnonzero(np.bincount(true_labels.indices, minlength=p.size))
    kept, true_labels, p = kept[:, used], sp.csr_array(true_labels[:, used]), p[used]
    lost = sp.csr_array(true_labels - kept)
    silent = np.diff(kept.indptr) == 0
    shares = _shares(silent)
    log_likelihood = np.array(
        [[_log_likelihood(kept, lost, silent, p, rho, share) for share in shares]
         for rho in CORRELATIONS]
    )  # fmt: skip
    return EffortGrid(CORRELATIONS, shares, log_likelihood)


def _shares(silent: Bools) -> Floats:
    """π₀ up to what the share of rows that show nothing allows."""
    rows, share = max(silent.size, 1), silent.mean() if silent.size else 0.0
    most = min(MOST, share + 3 * np.sqrt((share * (1 - share) + 0.25 / rows) / rows))
    return np.linspace(0.0, most, SHARES) if share else np.zeros(1)


def _spike(size: int) -> Floats:
    """Half of the prior at 0, the other half even."""
    prior = np.full(size, 0.5 / max(size - 1, 1))
    prior[0] = 0.5 if size > 1 else 1.0
    return prior


def _log_likelihood(
    kept: sp.csr_array, lost: sp.csr_array, silent: Bools, p: Floats, rho: float, share: float
) -> float:
    effort = normal(rho, share)
    chance = np.clip(effort.propensities(p), SMALLEST, 1 - SMALLEST).T  # labels × points
    by_point = kept @ np.log(chance) + lost @ np.log1p(-chance)
    largest = by_point.max(axis=1)
    annotated = largest + np.log(np.exp(by_point - largest[:, None]) @ effort.weights)
    rows = np.log1p(-share) + annotated
    if share:
        rows = np.where(silent, np.logaddexp(np.log(share), rows), rows)
    return float(rows.sum())


def _location(values: Floats, probability: Floats) -> float:
    if values.size == 1 or probability[0] >= 0.5:
        return 0.0
    return float(values[1:] @ probability[1:] / probability[1:].sum())
