"""How hidden counts become observed ones: grids, thinning probabilities, mean propensities.

A row has s* true labels among its k predictions and t* outside; each is seen with its propensity,
so s | s* ~ Bin(s*, p_S) and t | t* ~ Bin(t*, p_T), where p_S and p_T are mean propensities over
true labels. Seen labels tell them: E[1/p | seen] = 1 / (mean p over true labels), so the mean
inverse propensity of what is seen, u = Σ(1/p) / count, estimates 1/p_S and 1/p_T without bias.

In real data rows with many labels hold rarer ones. u may therefore depend on the latent count,

    u(s*, t*) = α + β log(1 + s* + t*),

which is fitted to the cells: E[Σ 1/p | cell] = count · E[u | cell] is linear in (α, β) given the
posterior of the latent counts. β is shrunk towards 0 by the noise of the fit (James–Stein).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

Floats = NDArray[np.float64]

_REACH = 1.3  # how far the grid goes beyond what the mean propensity suggests for the largest t
_RESOLUTION = 0.5  # grid step in standard deviations of the thinning noise


class Atoms(NamedTuple):
    """Latent counts (s*, t*) on which the mixture may put weight."""

    hits: Floats
    misses: Floats


class Cells(NamedTuple):
    """Observed counts that occur: s, t, and the sums over their rows that the fit needs."""

    hits: Floats
    misses: Floats
    rows: Floats
    inverse_hits: Floats
    inverse_misses: Floats


def atoms(most_hits: int, most_misses: int, inverse: tuple[float, float], k: int) -> Atoms:
    """Every pair of a latent number of hits (at most k) and of misses that the counts can reach.

    >>> atoms(1, 2, (1.0, 1.0), k=1)
    Atoms(hits=array([0., 0., 0., 0., 1., 1., 1., 1.]),
          misses=array([0., 1., 2., 3., 0., 1., 2., 3.]))
    """
    hits = grid(most_hits, inverse[0])
    hits = np.unique(np.minimum(hits, k))
    misses = grid(most_misses, inverse[1])
    return Atoms(np.repeat(hits, misses.size), np.tile(misses, hits.size))


def grid(most: int, inverse: float) -> Floats:
    """Latent counts as fine as thinning at this mean inverse propensity can resolve.

    t/p estimates t* with standard deviation √(t* (1/p − 1)); from 8 on the grid advances by half of
    that, or by 1 where that is more.

    >>> grid(2, 1.0)
    array([0., 1., 2., 3.])
    >>> grid(3, 10.0)
    array([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8., 12., 17., 23., 30., 38., 47.])
    """
    values = [0]
    while values[-1] < most * inverse * _REACH:
        noise = np.sqrt(values[-1] * (inverse - 1.0))
        values.append(values[-1] + (max(1, int(_RESOLUTION * noise)) if values[-1] >= 8 else 1))
    return np.array(values, dtype=np.float64)


def kernel(cells: Cells, at: Atoms, inverse_hits: Floats, inverse_misses: Floats) -> Floats:
    """P(s, t | s*, t*), cells × atoms, with the mean inverse propensities of every atom."""
    hits = _log_binomial(cells.hits, at.hits, 1.0 / inverse_hits)
    misses = _log_binomial(cells.misses, at.misses, 1.0 / inverse_misses)
    return np.asarray(np.exp(hits + misses))


def empty(at: Atoms, inverse_hits: Floats, inverse_misses: Floats) -> Floats:
    """P(s = t = 0 | s*, t*) of every atom."""
    return (1.0 - 1.0 / inverse_hits) ** at.hits * (1.0 - 1.0 / inverse_misses) ** at.misses


def _log_binomial(seen: Floats, true: Floats, propensity: Floats) -> Floats:
    x, n = seen[:, None], true[None, :]
    hidden = np.maximum(n - x, 0.0)
    ways = gammaln(n + 1) - gammaln(x + 1) - gammaln(hidden + 1)
    chance = xlogy(x, propensity) + xlog1py(hidden, -propensity)
    return np.where(x <= n, ways + chance, -np.inf)


def mean_inverse(counted: Floats, inverse: Floats) -> float:
    """u = Σ 1/p / count; 1 where nothing was seen."""
    total = counted.sum()
    return max(1.0, float(inverse.sum() / total)) if total else 1.0


def inverse_by_count(counted: Floats, inverse: Floats, expected: Floats, size: Floats) -> Floats:
    """u = α + β size for every atom, from the cells' label counts and their Σ 1/p.

    `size` is log(1 + s* + t*) of the atoms and `expected` its posterior mean in every cell.
    """
    used = counted > 0
    means, root = inverse[used] / counted[used], np.sqrt(counted[used])
    slope = _shrunk_slope(root, expected[used] * root, means * root)
    if slope == 0.0:
        return np.full(size.size, mean_inverse(counted, inverse))
    level = np.average(means - slope * expected[used], weights=counted[used])
    return np.clip(level + slope * size, max(1.0, means.min()), means.max())


def _shrunk_slope(one: Floats, expected: Floats, means: Floats) -> float:
    """Slope of `means` on `expected` beside a level, times max(0, 1 − 2/F), F its F statistic."""
    freedom = means.size - 2
    if freedom < 1:
        return 0.0
    along, rest = (x - one * (one @ x) / (one @ one) for x in (expected, means))
    length = float(along @ along)
    if length <= 1e-12 * float(expected @ expected):
        return 0.0
    slope = float(along @ rest) / length
    noise = float(np.sum((rest - slope * along) ** 2)) / freedom
    gain = slope**2 * length
    return slope * max(0.0, 1.0 - 2.0 * noise / gain) if gain else 0.0
