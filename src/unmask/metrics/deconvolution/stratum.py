"""Rows that share their mix of propensities: their counts, and the mixture fitted to them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unmask import _mixture
from unmask.metrics.deconvolution import thinning
from unmask.metrics.deconvolution.thinning import Atoms, Cells
from unmask.propensity.mask_model import RowEffort

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LABELS_PER_STRATUM = 500

_ROUNDS = 2  # alternations of the mixture and of the mean propensity by count
_SETTLED = 0.002  # relative change of the mean propensity that ends them
_BRIEF = 90  # EM steps where the start is already close
_PLAIN_STEPS = 300  # EM steps without extrapolation that go as far as a fit does
_MOST_ELSEWHERE = 1 << 22  # cells × atoms of the cells that no row is in
_BEYOND = 1000  # cells that stand for those
_NEGLIGIBLE = 1e-7
_TINY = 1e-300


class SetSizes(NamedTuple):
    """Set sizes that are fitted together, and Σ 1/p of the hits of rows of each size."""

    sizes: Floats
    hits: Floats


@dataclass(frozen=True)
class Counts:
    """What deconvolution needs to know of the rows, for one k; counts of shards simply add.

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
        """How many predictions of a row can be right: k, of sets the largest size."""
        return self.k if self.sizes is None else int(max(each.sizes.max() for each in self.sizes))

    @property
    def predictions(self) -> float:
        """How many predictions a row has: k, of sets the mean over hits."""
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
        chances = thinning.kernel(cells, atoms, *inverse, self.effort) / self.kept[used]
        shares = chances @ self.weights[used]
        beyond = max(0.0, 1.0 - float(self.fitted.sum()) - float(shares.sum())) * is_cut
        return np.r_[shares, np.full(_BEYOND, beyond / _BEYOND)] if is_cut else np.asarray(shares)

    def posterior_mean(self, of_atoms: Floats) -> Floats:
        """E[value of the true atom | cell], for one value per atom."""
        joint = self.kernel * self.weights
        return np.asarray(joint @ of_atoms / np.maximum(joint.sum(axis=1), _TINY))

    def hit_posterior_mean(self, of_places: Floats) -> Floats:
        """E[value of the true atom | cell, hit at place r]: places × cells from places × atoms."""
        others, mixtures = self._hits_by_place
        below = np.maximum(others @ mixtures, _TINY)
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
        others = thinning.kernel(
            cells._replace(hits=fewer[0]), atoms._replace(hits=fewer[1]), *self.inverse,
            self.effort, beside_hit=True,
        )  # fmt: skip
        start = self.weights * atoms.hits / self.kept
        weighted = self.by_place.sum(axis=1)
        shares = self.by_place.T / np.maximum(weighted, _TINY)
        hits = weighted / thinning.mean_inverse(cells.hits * cells.rows, cells.inverse_hits)
        mixtures = _mixture.maximize(others, shares, start / start.sum(), hits, steps=_BRIEF)
        return others, mixtures.weights

    def refitted(self, rows: Floats) -> Floats:
        """The mixtures of other rows per cell (cells × columns), starting from this one."""
        shares = rows / np.maximum(rows.sum(axis=0), _TINY)
        return _mixture.maximize(self.kernel, shares, self.weights, self.rows, steps=_BRIEF).weights

    def influence(self, gradient: Floats) -> Floats:
        """How Σ gradient · π moves with one more row in each cell, times the number of rows.

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
        scaled, fitted = self.kernel[:, used] * root, np.maximum(self.fitted, _TINY)
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
    entries: float = thinning.MOST_ENTRIES,
    effort: RowEffort | None = None,
) -> Stratum | None:
    """Alternate the mixture with the mean inverse propensity by count until that settles.

    `without_empty`: rows without observed labels were left out, so every chance is given that
    something was observed. `effort`: labels of a row share a fate. None if the kernel
    (cells × atoms) would have more than `entries`.
    """
    hits, misses = _observed_labels(cells)
    level = thinning.mean_inverse(*hits), thinning.mean_inverse(*misses)
    atoms = thinning.latent(cells, level, k, entries)
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
    kept = np.maximum(1.0 - thinning.empty(atoms, *inverse, effort) * without_empty, _TINY)
    kernel = thinning.kernel(cells, atoms, *inverse, effort) / kept
    rows = cells.rows.sum()
    weights, gap, _ = _mixture.maximize(
        kernel, cells.rows[:, None] / rows, start, rows, steps=steps
    )
    return Stratum(
        cells, by_place, atoms, inverse, kernel, kept, weights[:, 0], float(gap[0]), effort
    )


def _inverse_by_count(stratum: Stratum) -> tuple[Floats, Floats]:
    size = np.log1p(stratum.atoms.hits + stratum.atoms.misses)
    expected = stratum.posterior_mean(size)
    hits, misses = _observed_labels(stratum.cells)
    return (
        thinning.inverse_by_count(*hits, expected, size),
        thinning.inverse_by_count(*misses, expected, size),
    )
