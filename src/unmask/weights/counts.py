"""How many labels do rows truly have? The distribution of N* = |Y*|, from the observed counts.

A row with N* labels shows m ~ Bin(N*, p̄) of them, p̄ = (labels observed) / Σ 1/p being the
propensity of an average true label. The histogram h of m over all rows has the log-likelihood

    Σ_m h_m log Σ_N π_N Bin(m; N, p̄)

and π is its maximum over all distributions on 0 … min(L, ⌈m_max/p̄⌉) (beyond that every observed
count becomes less likely, so the maximum puts nothing there). The problem is small: its size does
not depend on the number of rows. `unmask._mixture` solves it.

Many files hold no row without labels: such rows were dropped. What is left is a sample given m ≥ 1,
so Bin(m; N, p̄) is divided by 1 − (1 − p̄)^N, and π is that of the rows at hand. p̄ stays as it is,
because a dropped row had nothing to add to either sum. Read as if they were all rows, they would
seem to have many more labels than they have: no row of few labels would have lost them all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, xlog1py

from unmask import _mixture
from unmask._messages import function, named_options, warn
from unmask._typing import Floats, Integers, Ints, LabelsLike, PropensityLike
from unmask.arrays import checks
from unmask.weights.formulas import StoredEntries, stored_entries

HUGE = 1e200


@dataclass(frozen=True)
class CountDistribution:
    """The fitted distribution of the number of true labels, and what it says about a row.

    Attributes
    ----------
    propensity : float
        p̄, the propensity of an average true label.
    rows : (m_max + 1,) integers
        How many rows show m labels, m = 0, 1, …
    probability : (N_max + 1,) floats
        π_N for N* = 0, 1, …
    share : (m_max + 1,) floats
        E[1/N* | m] for m = 0, 1, …; 0 for an m that no row shows. 1/0 counts as 0.
    log_likelihood : floats
        Per row, after each iteration; never falls.
    gap : float
        The last log-likelihood is at most this far from the maximum.
    converged : bool
        Whether the gap is within the tolerance.
    without_empty : bool
        Whether all of this is given that a row shows a label, π the distribution of such rows.

    Examples
    --------
    >>> labels = [[1, 1]] * 25 + [[1, 0]] * 25 + [[0, 1]] * 25 + [[0, 0]] * 25
    >>> fit = count_distribution(labels, [0.5, 0.5])
    >>> fit.propensity, fit.rows, fit.converged, fit.without_empty
    (0.5, array([25, 50, 25]), True, False)
    """

    propensity: float
    rows: Ints
    probability: Floats
    share: Floats
    log_likelihood: Floats
    gap: float
    converged: bool
    without_empty: bool


@named_options
def count_distribution(
    labels: LabelsLike,
    propensity: PropensityLike,
    *,
    without_empty: bool | None = None,
    tolerance: float = 1e-6,
) -> CountDistribution:
    """Fit the distribution of N*, the number of true labels of a row, by maximum likelihood.

    Maximises Σ_m h_m log Σ_N π_N Bin(m; N, p̄) over distributions π, h the histogram of m; where
    rows without labels were dropped, every binomial is taken given that it is not 0.

    Parameters
    ----------
    labels : (n, L) matrix of 0 and 1
        Observed labels, dense or sparse.
    propensity : (L,) numbers in (0, 1], or sparse (n, L)
        One per label, or one per observed label.
    without_empty : bool, optional
        Whether rows that show no label were dropped from the data. By default they were if none is
        there. True leaves out those that are there; False says that none was dropped.
    tolerance : float, default 1e-6
        How far the log-likelihood per row may stay below its maximum.

    Returns
    -------
    CountDistribution

    Raises
    ------
    ValueError
        If labels or propensities are out of range or do not fit each other.

    Warns
    -----
    RuntimeWarning
        If the tolerance is not reached.

    References
    ----------
    Wang, *On fast computation of the non-parametric maximum likelihood estimate of a mixing
    distribution* (2007).

    Examples
    --------
    Half of the labels were observed; rows that show one of them mostly had two.

    >>> labels = [[1, 1]] * 25 + [[1, 0]] * 25 + [[0, 1]] * 25 + [[0, 0]] * 25
    >>> fit = count_distribution(labels, [0.5, 0.5])
    >>> fit.probability.round(3)
    array([0., 0., 1.])
    >>> fit.share.round(3)
    array([0.5, 0.5, 0.5])

    The rows that show one are enough to tell, and are known to be the only ones:

    >>> fit = count_distribution(labels[:75], [0.5, 0.5])
    >>> fit.probability.round(2), fit.without_empty
    (array([0., 0., 1.]), True)

    (The likelihood has its maximum at the border and is flat there: with a share ε of rows that had
    one label it is ε²/2 lower, so that a tolerance of 1e-6 leaves up to 0.0014 of them.)
    """
    matrix = checks.labels(labels)
    entries = stored_entries(matrix, propensity)
    checks.in_range(tolerance, "tolerance", 0.0, math.inf)
    return distribution_of(entries, matrix.shape[1], without_empty, tolerance)


def distribution_of(
    entries: StoredEntries,
    n_labels: int,
    without_empty: bool | None = None,
    tolerance: float = 1e-6,
) -> CountDistribution:
    """The same for validated labels and propensities."""
    rows = np.bincount(np.diff(entries.indptr), minlength=1)
    average = _average_propensity(entries.inverse)
    dropped = rows[0] == 0 if without_empty is None else without_empty
    conditional = bool(dropped and rows[1:].any())
    fit = mixture(rows, average, n_labels, without_empty=conditional, tolerance=tolerance)
    if fit.gap > tolerance:
        _warn_of_gap(fit.gap, tolerance)
    probability, share = np.zeros(fit.support[-1] + 1), np.zeros(rows.size)
    probability[fit.support] = fit.probability
    share[fit.counts] = _posterior_share(fit)
    return CountDistribution(
        average, rows, probability, share, fit.log_likelihood, fit.gap, fit.gap <= tolerance,
        conditional,
    )  # fmt: skip


class Mixture(NamedTuple):
    """π_N over a support of N; the likelihood of the occurring counts m (each up to a factor)."""

    counts: Ints
    support: Ints
    probability: Floats
    likelihood: Floats
    log_likelihood: Floats
    gap: float


def mixture(
    rows: Integers,
    p: float,
    n_labels: int,
    *,
    without_empty: bool = False,
    tolerance: float = 1e-6,
) -> Mixture:
    """The best mixture of Bin(N, p) for a histogram of counts: rows[m] rows show m labels.

    `without_empty`: rows that show nothing are not in the histogram, and every binomial is taken
    given that it is not 0; π is then that of the rows at hand.
    """
    first = int(without_empty)
    counts = first + np.flatnonzero(rows[first:])
    support = np.arange(first, _largest_count(rows.size - 1, p, n_labels) + 1)
    likelihood, scale = _likelihood(counts, support, p, without_empty)
    shares = rows[counts] / max(rows[counts].sum(), 1)
    fit = _mixture.maximum(likelihood, shares, tolerance)
    trace = np.array(fit.log_likelihood) + shares @ scale
    return Mixture(counts, support, fit.weights, likelihood, trace, fit.gap)


def _average_propensity(inverse: Floats) -> float:
    if not inverse.size:
        return 1.0
    largest = float(inverse.max())
    scale = largest if largest > HUGE else 1.0  # their sum could exceed float64
    return float(inverse.size / (inverse / scale).sum() / scale)


def _largest_count(longest: int, average: float, n_labels: int) -> int:
    return max(longest, int(min(n_labels, np.ceil(longest / average))))


def _likelihood(
    counts: Integers, support: Integers, p: float, without_empty: bool
) -> tuple[Floats, Floats]:
    """Bin(m; N, p), every row m divided by its largest value, and the logarithm of that value."""
    missed = support - counts[:, None]
    unseen = np.maximum(missed, 0)
    log = gammaln(support + 1) - gammaln(counts[:, None] + 1) - gammaln(unseen + 1)
    log += counts[:, None] * np.log(p) + xlog1py(unseen, -p)
    if without_empty:
        log -= np.log(-np.expm1(xlog1py(support, -p)))
    log[missed < 0] = -np.inf
    scale = log.max(axis=1)
    return np.exp(log - scale[:, None]), scale


def _posterior_share(fit: Mixture) -> Floats:
    posterior = fit.likelihood * fit.probability
    posterior /= posterior.sum(axis=1, keepdims=True)
    return np.asarray(posterior @ np.where(fit.support > 0, 1 / np.maximum(fit.support, 1), 0.0))


def _warn_of_gap(gap: float, tolerance: float) -> None:
    warn(
        f"the distribution of true label counts is within {gap:.1e} of its likelihood's maximum, "
        f"not within {tolerance:.1e}; inspect it with {function('weights.count_distribution')}.",
        RuntimeWarning,
    )
