"""How hidden counts become observed ones: grids, thinning probabilities, mean propensities.

A row has s* true labels among its k predictions and t* outside; each is observed with its
propensity, so s | s* ~ Bin(s*, p_S) and t | t* ~ Bin(t*, p_T), where p_S and p_T are mean
propensities over true labels. Observed labels estimate them: E[1/p | observed] = 1 / (mean p over
true labels), so the mean inverse propensity of observed labels, u = Σ(1/p) / count, estimates 1/p_S
and 1/p_T without bias.

In real data rows with many labels hold rarer ones. u may therefore depend on the latent count,

    u(s*, t*) = α + β log(1 + s* + t*),

which is fitted to the cells: E[Σ 1/p | cell] = count · E[u | cell] is linear in (α, β) given the
posterior of the latent counts. β is shrunk towards 0 by the noise of the fit (James–Stein).
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

from unmask._kernels import even_bounds
from unmask.propensity.mask_model import RowEffort

Floats = NDArray[np.float64]

MOST_ATOMS = 2048  # atoms × atoms are an eigenvalue problem
MOST_ENTRIES = 1 << 25  # cells × atoms of all strata together, 256 MB

_REACH = 1.3  # how far the grid goes beyond what the mean propensity suggests for the largest t
_RESOLUTIONS = (0.5, 1.0, 2.0)  # grid steps in standard deviations of the thinning noise
_SUPPORT = 5.0  # standard deviations from an observed count within which a latent count explains it
_NEVER = -1e4  # a logarithm below that of any float64
_BLOCK = 1 << 18  # entries of the kernel computed at a time


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


def latent(cells: Cells, inverse: tuple[float, float], k: int, entries: float) -> Atoms | None:
    """The latent counts that are fitted; None if cells × atoms must exceed what there is room for.

    All pairs on the grids, if that is not too much. Else only those near an observed count
    (between a few long rows and all others lies nothing), and on grids as coarse as noise allows.
    """
    room = min(MOST_ATOMS, entries / cells.rows.size)
    for resolution in _RESOLUTIONS:
        hits = np.unique(np.minimum(grid(int(cells.hits.max()), inverse[0], resolution), k))
        misses = grid(int(cells.misses.max()), inverse[1], resolution)
        if hits.size * misses.size > room:
            hits = _explaining(hits, np.minimum(cells.hits * inverse[0], k), inverse[0])
            misses = _explaining(misses, cells.misses * inverse[1], inverse[1])
        if hits.size * misses.size <= room:
            return Atoms(np.repeat(hits, misses.size), np.tile(misses, hits.size))
    return None


def _explaining(latent_counts: Floats, suggested: Floats, inverse: float) -> Floats:
    """The grid without points that no suggested count (observed number over p) comes from."""
    suggestions = np.unique(suggested)
    above = np.searchsorted(suggestions, latent_counts)
    neighbours = suggestions[np.clip([above - 1, above], 0, suggestions.size - 1)]
    distance = np.abs(neighbours - latent_counts).min(axis=0)
    noise = np.sqrt(latent_counts * (inverse - 1.0))
    explained: Floats = latent_counts[distance <= 1.0 + _SUPPORT * noise]
    return explained


def grid(most: int, inverse: float, resolution: float = _RESOLUTIONS[0]) -> Floats:
    """Latent counts as fine as thinning at this mean inverse propensity can resolve.

    t/p estimates t* with standard deviation √(t* (1/p − 1)); from 8 on the grid advances by half of
    that (or another `resolution`), or by 1 where that is more.

    >>> grid(2, 1.0)
    array([0., 1., 2., 3.])
    >>> grid(3, 10.0)
    array([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8., 12., 17., 23., 30., 38., 47.])
    """
    values = [0]
    while values[-1] < most * inverse * _REACH:
        noise = np.sqrt(values[-1] * (inverse - 1.0))
        values.append(values[-1] + (max(1, int(resolution * noise)) if values[-1] >= 8 else 1))
    return np.array(values, dtype=np.float64)


def kernel(
    cells: Cells,
    atoms: Atoms,
    inverse_hits: Floats,
    inverse_misses: Floats,
    effort: RowEffort | None = None,
    *,
    beside_hit: bool = False,
) -> Floats:
    """P(s, t | s*, t*), cells × atoms, with the mean inverse propensities of every atom.

    `effort`: labels of a row share a fate (`row_effort`); None: they do not. `beside_hit`: given
    that one more hit of the row was seen, which tells of its effort.
    """
    if effort is not None:
        return _shared_kernel(cells, atoms, inverse_hits, inverse_misses, effort, beside_hit)
    chances = np.empty((cells.hits.size, atoms.hits.size))
    for bounds in pairwise(even_bounds(*chances.shape, _BLOCK).tolist()):
        some = slice(*bounds)
        hits = _log_binomial(cells.hits[some], atoms.hits, 1.0 / inverse_hits)
        misses = _log_binomial(cells.misses[some], atoms.misses, 1.0 / inverse_misses)
        np.exp(hits + misses, out=chances[some])
    return chances


def _shared_kernel(
    cells: Cells,
    atoms: Atoms,
    inverse_hits: Floats,
    inverse_misses: Floats,
    effort: RowEffort,
    beside_hit: bool,
) -> Floats:
    """The same with row effort: given e, hits and misses are independent, so a matrix product.

    For an atom, [P(s | e)] times [weight of e · P(t | e)]ᵀ over all s and t that occur.
    """
    s, s_of_cell = np.unique(cells.hits, return_inverse=True)
    t, t_of_cell = np.unique(cells.misses, return_inverse=True)
    chances = np.empty((cells.hits.size, atoms.hits.size))
    width = len(effort.points) * (s.size + t.size) + s.size * t.size
    for bounds in pairwise(even_bounds(atoms.hits.size, width, _BLOCK).tolist()):
        some = slice(*bounds)
        hits, misses = (
            effort.propensities(1.0 / each[some]) for each in (inverse_hits, inverse_misses)
        )
        weights = (1.0 - effort.unannotated) * np.array(effort.weights)[:, None]
        if beside_hit:
            weights = weights * hits * inverse_hits[some]
        given_hits = _binomials(s, atoms.hits[some], hits)
        given_misses = _binomials(t, atoms.misses[some], misses) * weights.T[:, None, :]
        tables = given_hits @ given_misses.transpose(0, 2, 1)
        chances[:, some] = tables[:, s_of_cell, t_of_cell].T
    if not beside_hit:
        chances[(cells.hits == 0) & (cells.misses == 0)] += effort.unannotated
    return chances


def _binomials(observed: Floats, true: Floats, propensity: Floats) -> Floats:
    """Bin(x; n, p(e)): atoms × observed counts × points, from points × atoms."""
    x, n = observed[None, :, None], true[:, None, None]
    hidden = np.maximum(n - x, 0.0)
    combinations = np.where(x <= n, gammaln(n + 1) - gammaln(x + 1) - gammaln(hidden + 1), -np.inf)
    with np.errstate(divide="ignore"):  # exp(_NEVER) is 0, and 0 · _NEVER is 0
        is_seen, is_hidden = (
            np.maximum(log, _NEVER).T[:, None, :]
            for log in (np.log(propensity), np.log1p(-propensity))
        )
    return np.asarray(np.exp(combinations + x * is_seen + hidden * is_hidden))


def empty(
    atoms: Atoms, inverse_hits: Floats, inverse_misses: Floats, effort: RowEffort | None = None
) -> Floats:
    """P(s = t = 0 | s*, t*) of every atom."""
    if effort is None:
        return (1.0 - 1.0 / inverse_hits) ** atoms.hits * (
            1.0 - 1.0 / inverse_misses
        ) ** atoms.misses
    hidden_hits = (1.0 - effort.propensities(1.0 / inverse_hits)) ** atoms.hits
    hidden_misses = (1.0 - effort.propensities(1.0 / inverse_misses)) ** atoms.misses
    annotated = np.array(effort.weights) @ (hidden_hits * hidden_misses)
    return np.asarray(effort.unannotated + (1.0 - effort.unannotated) * annotated)


def _log_binomial(observed: Floats, true_counts: Floats, propensity: Floats) -> Floats:
    """log P(observed | true), observed × true counts; every true count has its own propensity.

    Logarithms are taken once for every distinct count and every propensity, not for every pair.
    """
    counts, row = np.unique(observed, return_inverse=True)
    n, column = np.unique(true_counts, return_inverse=True)
    x = counts[:, None]
    combinations = gammaln(n + 1) - gammaln(x + 1) - gammaln(np.maximum(n - x, 0.0) + 1)
    combinations[x > n] = -np.inf
    hidden = np.maximum(true_counts - observed[:, None], 0.0)
    is_hidden = np.maximum(xlog1py(1.0, -propensity), _NEVER)
    chance = observed[:, None] * xlogy(1.0, propensity) + hidden * is_hidden
    return np.asarray(combinations[row][:, column] + chance)


def mean_inverse(counted: Floats, inverse: Floats) -> float:
    """u = Σ 1/p / count; 1 where nothing was observed."""
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


def _shrunk_slope(ones: Floats, expected: Floats, means: Floats) -> float:
    """Slope of `means` on `expected` beside a level, times max(0, 1 − 2/F), F its F statistic."""
    freedom = means.size - 2
    if freedom < 1:
        return 0.0
    along, residuals = (x - ones * (ones @ x) / (ones @ ones) for x in (expected, means))
    length = float(along @ along)
    if length <= 1e-12 * float(expected @ expected):
        return 0.0
    slope = float(along @ residuals) / length
    noise = float(np.sum((residuals - slope * along) ** 2)) / freedom
    gain = slope**2 * length
    return slope * max(0.0, 1.0 - 2.0 * noise / gain) if gain else 0.0
