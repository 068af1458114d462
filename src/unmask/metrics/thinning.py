"""Rows that lost labels: how hidden counts become observed ones, and what mixture explains them.

A row has s* true labels among its k predictions and t* outside; each is observed with its
propensity, so s | s* ~ Bin(s*, p_S) and t | t* ~ Bin(t*, p_T), where p_S and p_T are mean
propensities over true labels. Observed labels estimate them: E[1/p | observed] = 1 / (mean p over
true labels), so the mean inverse propensity of observed labels, u = Σ(1/p) / count, estimates 1/p_S
and 1/p_T without bias.

In real data rows with many labels hold rarer ones. u may therefore depend on the latent count,

    u(s*, t*) = α + β log(1 + s* + t*),

which is fitted to the cells: E[Σ 1/p | cell] = count · E[u | cell] is linear in (α, β) given the
posterior of the latent counts. β is shrunk towards 0 by the noise of the fit (James–Stein).

Below: the counts of rows (`Counts`), the kernel P(s, t | s*, t*) on a grid of latent counts, and
the fit of rows that share their mix of propensities (`Stratum`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

from unmask import _mixture
from unmask._kernels import even_bounds
from unmask._typing import Floats, Ints
from unmask.propensity.mask_model import RowEffort

LABELS_PER_STRATUM = 500
MOST_ATOMS = 2048  # atoms × atoms are an eigenvalue problem
MOST_ENTRIES = 1 << 25  # cells × atoms of all strata together, 256 MB

_REACH = 1.3  # how far the grid goes beyond what the mean propensity suggests for the largest t
_RESOLUTIONS = (0.5, 1.0, 2.0)  # grid steps in standard deviations of the thinning noise
_SUPPORT = 5.0  # standard deviations from an observed count within which a latent count explains it
_NEVER = -1e4  # a logarithm below that of any float64
_BLOCK = 1 << 18  # entries of the kernel computed at a time
_ROUNDS = 2  # alternations of the mixture and of the mean propensity by count
_SETTLED = 0.002  # relative change of the mean propensity that ends them
_BRIEF = 90  # EM steps where the start is already close
_PLAIN_STEPS = 300  # EM steps without extrapolation that go as far as a fit does
_MOST_ELSEWHERE = 1 << 22  # cells × atoms of the cells that no row is in
_BEYOND = 1000  # cells that stand for those
_NEGLIGIBLE = 1e-7
TINY = 1e-300


# --- counts


class SetSizes(NamedTuple):
    """Set sizes that are fitted together, and Σ 1/p of the hits of rows of each size."""

    sizes: Floats
    hits: Floats


@dataclass(frozen=True)
class Counts:
    """Counts of rows that deconvolution fits, for one k; counts of shards simply add.

    - `rows[g, s, t]`: rows of stratum g with s observed hits and t observed labels outside;
    - `hits[r, g, s, t]`: Σ 1/p over their hits at place r (0 is the first);
    - `misses[g, s, t]`: Σ 1/p over their observed labels outside the top k.

    With `cells`, a 3 × c array of (g, s, t) without repetition, in place of three axes there is one
    of c cells; all others are empty. The stratum of a row is `_kernels.deconvolution.stratum` of
    its predicted labels. `spread` and `hit_spread` are coefficients of variation of 1/p, over
    observed labels and over hits: the more propensities differ, the less a binomial law of counts
    is right, and the more Σ 1/p varies beside the counts.

    Of predicted sets, whose sizes differ from row to row, `sizes` says which sizes stand in the
    role of each place: `hits[r]` are the hits of rows with a set of such a size.
    """

    rows: Floats
    hits: Floats
    misses: Floats
    cells: Ints | None = None
    spread: float = 0.0
    hit_spread: float = 0.0
    sizes: tuple[SetSizes, ...] | None = None

    @property
    def k(self) -> int:
        """The number of places."""
        return len(self.hits)

    @property
    def most_hits(self) -> int:
        """Most predictions of a row that can be right: k, of sets the largest size."""
        return self.k if self.sizes is None else int(max(each.sizes.max() for each in self.sizes))

    @property
    def predictions(self) -> float:
        """Predictions of a row: k, of sets the mean over hits."""
        if self.sizes is None:
            return float(self.k)
        sizes, hits = (np.concatenate(column) for column in zip(*self.sizes, strict=True))
        total = float(hits.sum())
        return max(1.0, float(sizes @ hits) / total) if total else 1.0

    @cached_property
    def occupied(self) -> Occupied:
        """The cells that are not empty."""
        if self.cells is not None:
            stratum, s, t = self.cells
            return Occupied(stratum, s, t, self.rows, self.hits, self.misses)
        filled = (self.rows != 0) | (self.misses != 0) | self.hits.any(axis=0)
        stratum, s, t = np.argwhere(filled).T
        return Occupied(stratum, s, t, self.rows[filled], self.hits[:, filled], self.misses[filled])

    def scaled(self, *, hits: float, misses: float) -> Counts:
        """The counts with Σ 1/p of hits and misses multiplied, but no 1/p below 1 on average."""
        cells = self.occupied
        return Counts(
            cells.rows,
            cells.hits * _factor(cells.s * cells.rows, cells.hits.sum(axis=0), hits),
            cells.misses * _factor(cells.t * cells.rows, cells.misses, misses),
            np.array([cells.stratum, cells.s, cells.t]),
            sizes=self.sizes,
        )


def _factor(count: Floats, inverse: Floats, factor: float) -> Floats:
    least = count / np.where(inverse > 0, inverse, 1.0)
    return np.maximum(factor, least) if factor < 1 else np.full(count.shape, factor)


class Occupied(NamedTuple):
    """Cells by stratum, s and t, and what `Counts` knows of each (`hits`: places × cells)."""

    stratum: Ints
    s: Ints
    t: Ints
    rows: Floats
    hits: Floats
    misses: Floats

    @property
    def labels(self) -> Floats:
        """Observed labels of all rows of each cell."""
        return np.asarray(self.rows * (self.s + self.t))


def enough_labels(counts: Counts) -> tuple[tuple[int, ...], ...]:
    """Neighbouring strata joined into groups of at least 500 observed labels.

    >>> rows = np.zeros((10, 2, 2)); rows[[1, 4, 7, 8], 1, 1] = 200, 100, 300, 10
    >>> enough_labels(Counts(rows, np.zeros((1, 10, 2, 2)), rows))
    ((1, 4), (7, 8))
    """
    cells = counts.occupied
    labels, rows = (np.bincount(cells.stratum, each) for each in (cells.labels, cells.rows))
    groups: list[list[int]] = [[]]
    for stratum in np.flatnonzero(rows).tolist():
        if labels[groups[-1]].sum() >= LABELS_PER_STRATUM:
            groups.append([])
        groups[-1].append(stratum)
    if len(groups) > 1 and labels[groups[-1]].sum() < LABELS_PER_STRATUM:
        last = groups.pop()
        groups[-1] += last
    return tuple(map(tuple, groups))


# --- the kernel


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
    """The kernel with row effort: given e, hits and misses are independent, so a matrix product.

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


# --- the fit of one stratum


def occupied_cells(counts: Counts, group: tuple[int, ...]) -> tuple[Cells, Floats]:
    """The occupied cells of joined strata, and Σ 1/p of their hits by place (places × cells)."""
    cells = counts.occupied
    chosen = np.flatnonzero(np.isin(cells.stratum, group))
    pairs, positions = np.unique(
        np.array([cells.s, cells.t])[:, chosen], axis=1, return_inverse=True
    )
    rows, misses = np.zeros(pairs.shape[1]), np.zeros(pairs.shape[1])
    by_place = np.zeros((pairs.shape[1], counts.k))
    np.add.at(rows, positions, cells.rows[chosen])
    np.add.at(misses, positions, cells.misses[chosen])
    np.add.at(by_place, positions, cells.hits[:, chosen].T)
    filled = rows > 0
    (s, t), by_place = pairs[:, filled].astype(np.float64), by_place[filled].T
    return Cells(s, t, rows[filled], by_place.sum(axis=0), misses[filled]), by_place


@dataclass(frozen=True)
class Stratum:
    """The fit of rows that share their mix of propensities.

    `weights[a]` is π of the latent counts (`atoms.hits[a]`, `atoms.misses[a]`), `inverse` their
    mean inverse propensities of hits and misses, `kernel[c, a]` the chance of cell c when a is
    true, `gap` the certified missing log-likelihood. `kept[a]` is the chance that a row with these
    counts is in the data: 1, unless rows without observed labels were left out. `effort` says how
    the labels of a row share a fate; None: they do not.
    """

    cells: Cells
    by_place: Floats
    atoms: Atoms
    inverse: tuple[Floats, Floats]
    kernel: Floats
    kept: Floats
    weights: Floats
    gap: float
    effort: RowEffort | None = None

    @property
    def rows(self) -> float:
        """Number of rows."""
        return float(self.cells.rows.sum())

    @property
    def fitted(self) -> Floats:
        """The share of rows that the fit expects in every cell."""
        return self.kernel @ self.weights

    @cached_property
    def fitted_elsewhere(self) -> Floats:
        """The share of rows that the fit expects in every cell that no row is in.

        Where there are too many such cells, the share of those with most labels is spread evenly
        over a thousand.
        """
        used = self.weights > _NEGLIGIBLE
        atoms = Atoms(self.atoms.hits[used], self.atoms.misses[used])
        inverse = self.inverse[0][used], self.inverse[1][used]
        cells, is_cut = _unoccupied(self.cells, atoms, inverse[1])
        if (self.kept[used] != 1).any():  # rows without labels were left out
            chosen = (cells.hits > 0) | (cells.misses > 0)
            cells = Cells(*(column[chosen] for column in cells))
        chances = kernel(cells, atoms, *inverse, self.effort) / self.kept[used]
        shares = chances @ self.weights[used]
        beyond = max(0.0, 1.0 - float(self.fitted.sum()) - float(shares.sum())) * is_cut
        return np.r_[shares, np.full(_BEYOND, beyond / _BEYOND)] if is_cut else np.asarray(shares)

    def posterior_mean(self, of_atoms: Floats) -> Floats:
        """E[value of the true atom | cell], for one value per atom."""
        joint = self.kernel * self.weights
        return np.asarray(joint @ of_atoms / np.maximum(joint.sum(axis=1), TINY))

    def hit_posterior_mean(self, of_places: Floats) -> Floats:
        """E[value of the true atom | cell, hit at place r]: places × cells from places × atoms."""
        others, mixtures = self._hits_by_place
        below = np.maximum(others @ mixtures, TINY)
        return np.asarray((others @ (mixtures * of_places.T) / below).T)

    @cached_property
    def _hits_by_place(self) -> tuple[Floats, Floats]:
        """Latent counts of rows with a hit at place r: kernel of the other labels, and mixtures.

        A hit at a late place is likelier in a row with many labels, so every place has its own
        mixture, fitted to the *other* labels of the rows with a hit there, weighted by its 1/p.
        They start from what the rows at large say, π · s*, and move as far as their hits warrant.
        """
        cells, atoms = self.cells, self.atoms
        fewer = np.maximum(cells.hits - 1, 0), np.maximum(atoms.hits - 1, 0)
        others = kernel(
            cells._replace(hits=fewer[0]), atoms._replace(hits=fewer[1]), *self.inverse,
            self.effort, beside_hit=True,
        )  # fmt: skip
        start = self.weights * atoms.hits / self.kept
        weighted = self.by_place.sum(axis=1)
        shares = self.by_place.T / np.maximum(weighted, TINY)
        hits = weighted / mean_inverse(cells.hits * cells.rows, cells.inverse_hits)
        mixtures = _mixture.maximize(others, shares, start / start.sum(), hits, steps=_BRIEF)
        return others, mixtures.weights

    def refitted(self, rows: Floats) -> Floats:
        """The mixtures of other rows per cell (cells × columns), starting from this one."""
        shares = rows / np.maximum(rows.sum(axis=0), TINY)
        return _mixture.maximize(self.kernel, shares, self.weights, self.rows, steps=_BRIEF).weights

    def influence(self, gradient: Floats) -> Floats:
        """Change of Σ gradient · π with one more row in each cell, times the number of rows.

        The derivative of an EM step J and of its dependence on the data are known, and the fit is
        many steps from a fixed start, so π moves by Σ_j J^j (∂step/∂y) dy.
        """
        used, response = self._response
        moved = response @ gradient[used]
        return np.asarray(moved - moved @ self.cells.rows / self.rows)

    @cached_property
    def _response(self) -> tuple[NDArray[np.bool_], Floats]:
        """Atoms in use, and the derivative of their weights by cell (cells × atoms).

        Scaled by √π, J is symmetric, so Σ_j J^j is a function of its eigenvalues; none is negative
        (Cauchy–Schwarz), and one above 1, short of the maximum, counts as 1.
        """
        used = self.weights > _NEGLIGIBLE
        root = np.sqrt(self.weights[used])
        scaled, fitted = self.kernel[:, used] * root, np.maximum(self.fitted, TINY)
        ratios = self.cells.rows / self.rows / fitted
        curved = scaled.T @ ((ratios / fitted)[:, None] * scaled)
        values, vectors = np.linalg.eigh(np.diag(self.kernel[:, used].T @ ratios) - curved)
        values = np.minimum(values, 1.0 - 1e-12)
        reach = (1.0 - values**_PLAIN_STEPS) / (1.0 - values)
        return used, scaled @ (vectors * reach) @ vectors.T * root / fitted[:, None]


def _unoccupied(cells: Cells, atoms: Atoms, inverse_misses: Floats) -> tuple[Cells, bool]:
    """Cells without rows that these latent counts may lead to, and whether some had no room."""
    mean = atoms.misses / inverse_misses
    s = np.arange(max(atoms.hits.max(initial=0), cells.hits.max()) + 1)
    longest = max((mean + 6 * np.sqrt(mean)).max(initial=0), cells.misses.max()) + 1
    room = _MOST_ELSEWHERE / (s.size * max(mean.size, 1))
    t = np.arange(min(longest, room) + 1)
    free = np.ones((s.size, t.size), np.bool_)
    near = cells.misses < t.size
    free[cells.hits[near].astype(int), cells.misses[near].astype(int)] = False
    of_s, of_t = np.nonzero(free)
    none = np.zeros(of_s.size)
    return Cells(s[of_s], t[of_t], none, none, none), longest > room


def fit_stratum(
    cells: Cells,
    by_place: Floats,
    k: int,
    *,
    without_empty: bool,
    entries: float = MOST_ENTRIES,
    effort: RowEffort | None = None,
) -> Stratum | None:
    """Alternate the mixture with the mean inverse propensity by count until that settles.

    `without_empty`: rows without observed labels were left out, so every chance is given that
    something was observed. `effort`: labels of a row share a fate. None if the kernel
    (cells × atoms) would have more than `entries`.
    """
    hits, misses = _observed_labels(cells)
    level = mean_inverse(*hits), mean_inverse(*misses)
    atoms = latent(cells, level, k, entries)
    if atoms is None:
        return None
    size = atoms.hits.size
    inverse = np.full(size, level[0]), np.full(size, level[1])
    fixed = cells, by_place, atoms, without_empty, effort
    stratum = _fit_mixture(*fixed, inverse, np.full(size, 1 / size), _BRIEF)
    for _ in range(_ROUNDS):
        renewed = _inverse_by_count(stratum)
        if max(np.abs(renewed[i] / inverse[i] - 1).max() for i in (0, 1)) < _SETTLED:
            break
        inverse = renewed
        stratum = _fit_mixture(*fixed, inverse, stratum.weights, _BRIEF)
    return _fit_mixture(*fixed, inverse, stratum.weights, _mixture.STEPS)


def _observed_labels(cells: Cells) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Observed labels and their Σ 1/p in every cell: of hits, of misses."""
    hits, misses = cells.hits * cells.rows, cells.misses * cells.rows
    return (hits, cells.inverse_hits), (misses, cells.inverse_misses)


def _fit_mixture(
    cells: Cells,
    by_place: Floats,
    atoms: Atoms,
    without_empty: bool,
    effort: RowEffort | None,
    inverse: tuple[Floats, Floats],
    start: Floats,
    steps: int,
) -> Stratum:
    kept = np.maximum(1.0 - empty(atoms, *inverse, effort) * without_empty, TINY)
    chances = kernel(cells, atoms, *inverse, effort) / kept
    rows = cells.rows.sum()
    weights, gap, _ = _mixture.maximize(
        chances, cells.rows[:, None] / rows, start, rows, steps=steps
    )
    return Stratum(
        cells, by_place, atoms, inverse, chances, kept, weights[:, 0], float(gap[0]), effort
    )


def _inverse_by_count(stratum: Stratum) -> tuple[Floats, Floats]:
    size = np.log1p(stratum.atoms.hits + stratum.atoms.misses)
    expected = stratum.posterior_mean(size)
    hits, misses = _observed_labels(stratum.cells)
    return (
        inverse_by_count(*hits, expected, size),
        inverse_by_count(*misses, expected, size),
    )
