"""Maximum likelihood for the weights of a mixture whose components are known.

Column a of `kernel` is the distribution of the observed cells when the latent atom a is true; we
look for the mixture π ≥ 0, Σπ = 1 that maximises Σ_cells y · log(kernel π). The problem is concave.
With the gradient g = kernelᵀ(y / kernel π) one EM step is `π ← π · g`: no step size, never
downhill; and the largest entry of g certifies how far the maximum can be: by concavity
n · (max g − 1) bounds the missing log-likelihood of n observations. Two functions stop there:

- `maximize` fits many columns at once, by compiled EM with squared extrapolation (SQUAREM; Varadhan
  & Roland, Scand. J. Stat. 35, 2008), which takes one long step every three and is undone wherever
  it would go downhill. It stops a few units short of the maximum on purpose: the last units only
  sharpen spikes that the data do not support. For deconvolved metrics.
- `maximum` fits one column to the maximum itself, by EM or a constrained Newton step (Wang, *On
  fast computation of the non-parametric maximum likelihood estimate of a mixing distribution*,
  2007), whichever gains more: a dozen iterations where EM needs thousands. For the distribution of
  label counts, and for likelihood ratios, which compare maxima.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import NamedTuple, ParamSpec, TypeVar

import numpy as np
from scipy.optimize import nnls
from threadpoolctl import ThreadpoolController

from unmask._kernels import deconvolution as kernels
from unmask._kernels import in_chunks
from unmask._typing import Floats

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

TOLERANCE = 5.0
STEPS = 300
ITERATIONS = 1000

_MIXTURES_PER_CHUNK = 8


class Mixtures(NamedTuple):
    """Mixtures as columns, the missing log-likelihood of each at most, and EM steps taken."""

    weights: Floats
    gap: Floats
    steps: int


def maximize(
    kernel: Floats,
    shares: Floats,
    start: Floats,
    rows: float | Floats,
    *,
    tolerance: float = TOLERANCE,
    steps: int = STEPS,
) -> Mixtures:
    """Fit the mixture of every column of `shares`, within `tolerance` of its maximum or `steps`.

    Parameters
    ----------
    kernel : (cells, atoms) floats
        The probability of every cell under every atom.
    shares : (cells, columns) floats
        The share of the observations in every cell; each column sums to 1.
    start : (atoms,) floats
        The weights to start from.
    rows : float or (columns,) floats
        The number of observations behind each column.
    tolerance : float, default 5.0
        The missing log-likelihood at which to stop.
    steps : int, default 300
        The largest number of EM steps.

    Returns
    -------
    Mixtures

    Examples
    --------
    >>> fair_or_biased = np.array([[0.5, 0.9], [0.5, 0.1]])
    >>> shares = np.array([[0.7], [0.3]])
    >>> maximize(fair_or_biased, shares, np.array([0.2, 0.8]), 1e6).weights.round(3).ravel()
    array([0.5, 0.5])
    """
    columns = shares.shape[1]
    weights, gap = np.tile(start, (columns, 1)), np.full(columns, np.inf)
    size = np.ascontiguousarray(np.broadcast_to(rows, columns), dtype=np.float64)
    data = np.ascontiguousarray(kernel), np.ascontiguousarray(shares.T), size
    bounds = np.unique(np.r_[0:columns:_MIXTURES_PER_CHUNK, columns])
    used = in_chunks(
        bounds,
        lambda low, high: kernels.maximize(low, high, *data, tolerance, steps, weights, gap),
    )
    return Mixtures(weights.T, gap, max(used, default=0))


class Maximum(NamedTuple):
    """One mixture, the mean log-likelihood after every iteration, and its distance from the top."""

    weights: Floats
    log_likelihood: list[float]
    gap: float


def maximum(kernel: Floats, shares: Floats, tolerance: float = 1e-6) -> Maximum:
    """Fit the mixture that maximises Σ shares · log(kernel π), within `tolerance` per observation.

    Starts from equal weights. The likelihood never falls from one iteration to the next.

    Parameters
    ----------
    kernel : (cells, atoms) floats
        The probability of every cell under every atom; a factor per cell changes nothing.
    shares : (cells,) floats
        The share of the observations in every cell; they sum to 1.
    tolerance : float, default 1e-6
        The missing log-likelihood per observation at which to stop.

    Returns
    -------
    Maximum
        `gap` exceeds the tolerance where float64 or the number of iterations ends earlier.

    Examples
    --------
    >>> fit = maximum(np.array([[0.5, 0.9], [0.5, 0.1]]), np.array([0.7, 0.3]))
    >>> fit.weights.round(3), fit.gap <= 1e-6
    (array([0.5, 0.5]), True)
    """
    weights = np.full(kernel.shape[1], 1 / kernel.shape[1])
    trace = [_mean_log(kernel, shares, weights)]
    for _ in range(ITERATIONS):
        mixed = kernel @ weights
        gradient = (shares / mixed) @ kernel
        gap = float(gradient.max() - 1)
        if gap <= tolerance:
            break
        better, value = _best_step(kernel, shares, weights, gradient, mixed)
        if value <= trace[-1]:
            break  # float64 has no better answer
        weights = better
        trace.append(value)
    return Maximum(weights, trace, max(gap, 0.0))


def _best_step(
    kernel: Floats, shares: Floats, weights: Floats, gradient: Floats, mixed: Floats
) -> tuple[Floats, float]:
    """Return the EM step, or a point towards the Newton target where that is more likely."""
    em_step = weights * gradient
    value = _mean_log(kernel, shares, em_step)
    target = _newton_target(kernel / mixed[:, None], shares, em_step)
    for halving in range(12):
        candidate = weights + (target - weights) / 2**halving
        candidate_value = _mean_log(kernel, shares, candidate)
        if candidate_value > value:
            return candidate, candidate_value
    return em_step, value


def _newton_target(ratio: Floats, shares: Floats, fallback: Floats) -> Floats:
    """Return the distribution that maximises the second-order expansion of the log-likelihood.

    That is min_q Σ_c shares_c (Σ_a ratio_ca q_a − 2)² over q ≥ 0, Σq = 1; as Σq = 1, the 2 may be
    taken inside, and then the constraint becomes one more equation of a non-negative least squares.
    """
    equations = np.sqrt(shares)[:, None] * (ratio - 2)
    system = np.vstack([equations, np.ones(ratio.shape[1])])
    try:
        solution, _ = nnls(system, np.eye(len(system))[-1], maxiter=100 * ratio.shape[1])
    except RuntimeError:  # it ran out of iterations
        return fallback
    return np.asarray(solution / solution.sum())


def _mean_log(kernel: Floats, shares: Floats, weights: Floats) -> float:
    with np.errstate(divide="ignore"):
        return float(shares @ np.log(kernel @ weights))


def one_blas_thread(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Run linear algebra of `function` on one thread: its matrices are smaller than a hand-over."""

    @wraps(function)
    def limited(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        with _libraries().limit(limits=1, user_api="blas"):
            return function(*args, **options)

    return limited


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
