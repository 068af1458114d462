"""How many labels do rows truly have? The distribution of N* = |Y*|, from the counts seen.

A row with N* labels shows m ~ Bin(N*, p̄) of them, p̄ = (labels seen) / Σ 1/p being the propensity
of an average true label. The histogram h of m over all rows then has the log-likelihood

    Σ_m h_m log Σ_N π_N Bin(m; N, p̄)

and π is its maximum over all distributions on 0 … min(L, ⌈m_max/p̄⌉) (beyond that every count seen
becomes less likely, so the maximum puts nothing there). The problem is concave and small: its size
does not depend on the number of rows. With the gradient

    g_N = Σ_m (h_m / Σh) Bin(m; N, p̄) / Σ_K π_K Bin(m; K, p̄)

one EM step is π ← π g, and max g − 1 bounds how far the mean log-likelihood still is from its
maximum. EM creeps, so each iteration also tries a constrained Newton step (Wang, *On fast
computation of the non-parametric maximum likelihood estimate of a mixing distribution*, 2007) and
keeps the better of the two: the likelihood never falls, and a dozen iterations are enough.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import gammaln, xlog1py

from unmask import _validation
from unmask.weights.normalized import Inverse, inverse_of

Floats = NDArray[np.float64]
ITERATIONS = 1000
HUGE = 1e200


@dataclass(frozen=True)
class CountDistribution:
    """The fitted distribution of the number of true labels, and what it says about a row.

    propensity      p̄, the propensity of an average true label
    rows            how many rows show m labels, m = 0, 1, …
    probability     π_N for N* = 0, 1, …
    share           E[1/N* | m] for m = 0, 1, …; 0 for an m that no row shows. 1/0 counts as 0.
    log_likelihood  per row, after each iteration; never falls
    gap             the last one is at most this far from the maximum
    converged       whether the gap is within the tolerance
    """

    propensity: float
    rows: NDArray[np.int64]
    probability: Floats
    share: Floats
    log_likelihood: Floats
    gap: float
    converged: bool


def count_distribution(
    labels: Any, propensity: Any, *, tolerance: float = 1e-6
) -> CountDistribution:
    """Fit the distribution of N* by maximum likelihood, to within `tolerance` per row.

    Half of the labels were seen; rows that show one of them mostly had two.

    >>> seen = [[1, 1]] * 25 + [[1, 0]] * 25 + [[0, 1]] * 25 + [[0, 0]] * 25
    >>> fit = count_distribution(seen, [0.5, 0.5])
    >>> fit.probability.round(3)
    array([0., 0., 1.])
    >>> fit.share.round(3)
    array([0.5, 0.5, 0.5])
    """
    matrix = _validation.labels(labels)
    return distribution_of(matrix, inverse_of(propensity, matrix), tolerance)


def distribution_of(
    matrix: sp.csr_array, inverse: Inverse, tolerance: float = 1e-6
) -> CountDistribution:
    """The same for labels that have passed the door."""
    rows = np.bincount(np.diff(matrix.indptr), minlength=1)
    average = _average_propensity(matrix, inverse)
    fit = mixture(rows, average, matrix.shape[1], tolerance=tolerance)
    if fit.gap > tolerance:
        _warn_of_gap(fit.gap, tolerance)
    share = np.zeros(rows.size)
    share[rows > 0] = _posterior_share(fit)
    return CountDistribution(
        average, rows, fit.probability, share, fit.log_likelihood, fit.gap, fit.gap <= tolerance
    )


class Mixture(NamedTuple):
    """π_N over a support of N, and Bin(m; N, p) for the counts m seen (each row up to a factor)."""

    support: NDArray[Any]
    probability: Floats
    likelihood: Floats
    log_likelihood: Floats
    gap: float


def mixture(
    rows: NDArray[Any],
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
    likelihood, scale = _likelihood(counts, support, p)
    if without_empty:
        likelihood /= -np.expm1(support * np.log1p(-p)) if p < 1 else 1.0
    seen = rows[counts] / max(rows[counts].sum(), 1)
    probability, trace, gap = _maximize(likelihood, seen, tolerance)
    return Mixture(support, probability, likelihood, np.array(trace) + seen @ scale, gap)


def _average_propensity(matrix: sp.csr_array, inverse: Inverse) -> float:
    if not matrix.nnz:
        return 1.0
    entries = inverse.entries()
    largest = float(entries.max())
    scale = largest if largest > HUGE else 1.0  # their sum could exceed float64
    return float(matrix.nnz / (entries / scale).sum() / scale)


def _largest_count(longest: int, average: float, n_labels: int) -> int:
    return max(longest, int(min(n_labels, np.ceil(longest / average))))


def _likelihood(counts: NDArray[Any], support: NDArray[Any], p: float) -> tuple[Floats, Floats]:
    """Bin(m; N, p), every row m divided by its largest value, and the logarithm of that value."""
    missed = support - counts[:, None]
    unseen = np.maximum(missed, 0)
    log = gammaln(support + 1) - gammaln(counts[:, None] + 1) - gammaln(unseen + 1)
    log += counts[:, None] * np.log(p) + xlog1py(unseen, -p)
    log[missed < 0] = -np.inf
    scale = log.max(axis=1)
    return np.exp(log - scale[:, None]), scale


def _maximize(
    likelihood: Floats, seen: Floats, tolerance: float
) -> tuple[Floats, list[float], float]:
    """π, the log-likelihood after every iteration, and the distance from its maximum."""
    probability = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    trace = [_mean_log(likelihood, seen, probability)]
    for _ in range(ITERATIONS):
        mixed = likelihood @ probability
        gradient = (seen / mixed) @ likelihood
        gap = float(gradient.max() - 1)
        if gap <= tolerance:
            break
        better, value = _step(likelihood, seen, probability, gradient, mixed)
        if value <= trace[-1]:
            break  # float64 has no better answer
        probability = better
        trace.append(value)
    return probability, trace, max(gap, 0.0)


def _step(
    likelihood: Floats, seen: Floats, probability: Floats, gradient: Floats, mixed: Floats
) -> tuple[Floats, float]:
    """The EM step, or a point towards the Newton target where that is more likely."""
    best = probability * gradient
    value = _mean_log(likelihood, seen, best)
    target = _newton_target(likelihood / mixed[:, None], seen, best)
    for halving in range(12):
        candidate = probability + (target - probability) / 2**halving
        candidate_value = _mean_log(likelihood, seen, candidate)
        if candidate_value > value:
            return candidate, candidate_value
    return best, value


def _newton_target(ratio: Floats, seen: Floats, otherwise: Floats) -> Floats:
    """The distribution that maximises the second-order expansion of the log-likelihood.

    That is min_q Σ_m seen_m (Σ_N ratio_mN q_N − 2)² over q ≥ 0, Σq = 1; as Σq = 1, the 2 may be
    taken inside, and then the constraint becomes one more equation of a non-negative least squares.
    """
    equations = np.sqrt(seen)[:, None] * (ratio - 2)
    system = np.vstack([equations, np.ones(ratio.shape[1])])
    try:
        solution, _ = nnls(system, np.eye(len(system))[-1], maxiter=100 * ratio.shape[1])
    except RuntimeError:  # it ran out of iterations
        return otherwise
    return np.asarray(solution / solution.sum())


def _mean_log(likelihood: Floats, seen: Floats, probability: Floats) -> float:
    with np.errstate(divide="ignore"):
        return float(seen @ np.log(likelihood @ probability))


def _posterior_share(fit: Mixture) -> Floats:
    posterior = fit.likelihood * fit.probability
    posterior /= posterior.sum(axis=1, keepdims=True)
    return np.asarray(posterior @ np.where(fit.support > 0, 1 / np.maximum(fit.support, 1), 0.0))


def _warn_of_gap(gap: float, tolerance: float) -> None:
    warnings.warn(
        f"the distribution of true label counts is within {gap:.1e} of its likelihood's maximum, "
        f"not within {tolerance:.1e}; inspect it with `weights.count_distribution`.",
        RuntimeWarning,
        stacklevel=4,
    )
