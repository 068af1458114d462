"""Maximum likelihood for the weights of a mixture whose components are known.

Column a of `kernel` is the distribution of the observed cells when the latent atom a is true; we
look for the mixture π ≥ 0, Σπ = 1 that maximises Σ_cells y · log(kernel π). One EM step is
`π ← π · kernelᵀ(y / kernel π)`: no step size, never downhill. Squared extrapolation (SQUAREM;
Varadhan & Roland, Scand. J. Stat. 35, 2008) takes one long step every three and is undone wherever
it would go downhill.

The largest entry g of `kernelᵀ(y / kernel π)` certifies how far the maximum can be: by concavity
n · (g − 1) bounds the missing log-likelihood. We stop there, a few units short of the maximum on
purpose: the last units only sharpen spikes that the data do not support.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from unmask._kernels import deconvolution as kernels
from unmask._kernels import in_chunks

Floats = NDArray[np.float64]
Given = ParamSpec("Given")
Result = TypeVar("Result")

TOLERANCE = 5.0
STEPS = 300

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
    """The mixture of every column of `shares`, within `tolerance` of its maximum or `steps` long.

    `kernel` is cells × atoms, `shares` cells × columns (each sums to 1), `start` the atoms'
    weights to start from, `rows` the number of observations behind each column.

    >>> fair_or_biased = np.array([[0.5, 0.9], [0.5, 0.1]])
    >>> seen = np.array([[0.7], [0.3]])
    >>> maximize(fair_or_biased, seen, np.array([0.2, 0.8]), 1e6).weights.round(3).ravel()
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


def one_blas_thread(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """`function` with linear algebra on one thread: its matrices are smaller than a hand-over."""

    @wraps(function)
    def limited(*args: Given.args, **options: Given.kwargs) -> Result:
        with _libraries().limit(limits=1, user_api="blas"):
            return function(*args, **options)

    return limited


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
