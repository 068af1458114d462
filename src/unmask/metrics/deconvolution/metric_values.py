"""The value of a hit: metrics as sums over hits, and their value for a fitted stratum.

Every metric here is Σ_hits W_r(s*, t*) over the hits of a row, r the place of the hit. Summed over
rows it is (number of hits, unbiased: Σ 1/p) × (mean value of a hit under the fit, for a weight that
ignores r) × (the effect of places: Σ_hits E[W_r | cell, r]/p over the same sum without r).

Of predicted sets, r is the size of the set: a hit of a set of size z is worth 2/(z + s* + t*) to
F1, and rows with large sets have other true labels than those with small ones, as late places have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unmask.metrics.deconvolution.stratum import SetSizes, Stratum

Floats = NDArray[np.float64]

_TINY = 1e-300


class Metric(NamedTuple):
    """The value of one hit in a row with s* hits and t* misses; and, if it matters, at place r.

    `hit_value(s, t, k)` ignores the place, `at_place(r, s, t, k)` depends on it (first: r = 0).
    `sharp`: it jumps with N, which few observed labels cannot locate.
    """

    hit_value: Callable[[Floats, Floats, int], Floats]
    at_place: Callable[[int, Floats, Floats, int], Floats] | None = None
    sharp: bool = False


@dataclass(frozen=True)
class Part:
    """One metric in one stratum, summed over its rows."""

    stratum: Stratum
    metric: Metric
    k: int

    @cached_property
    def value(self) -> float:
        """The sum over the rows of the stratum."""
        sums = self.of(self.stratum.cells.rows[:, None], self.stratum.weights[:, None])
        return float(sums[0])

    def of(self, rows: Floats, weights: Floats) -> Floats:
        """The same for other rows per cell and mixtures (one column each)."""
        earned, base = self._earned @ weights, self._base @ weights
        placed, unplaced = self._places
        effect = (placed @ rows) / np.maximum(unplaced @ rows, _TINY) if unplaced.any() else 1.0
        return np.asarray(self._hits @ rows * earned / np.maximum(base, _TINY) * effect)

    @cached_property
    def per_row(self) -> Floats:
        """What one more row in each cell adds to `value` (its influence)."""
        if not self.value:
            return np.zeros(self.stratum.cells.rows.size)
        rows, weights = self.stratum.cells.rows, self.stratum.weights
        earned, base = float(self._earned @ weights), float(self._base @ weights)
        moved = self.stratum.influence(self._earned / earned - self._base / base)
        share = self._hits / (self._hits @ rows) + moved / self.stratum.rows
        placed, unplaced = self._places
        if unplaced.any():
            share += placed / (placed @ rows) - unplaced / (unplaced @ rows)
        return np.asarray(self.value * share)

    @cached_property
    def hit_moments(self) -> tuple[float, float, float]:
        """Σ 1, Σ φ and Σ φ² over the hits of all rows, φ the value of a hit under the fit."""
        weights, hits = self.stratum.weights, float(self._hits @ self.stratum.cells.rows)
        share = weights * self._base
        share = share * (hits / max(float(share.sum()), _TINY))
        value = self._earned / np.maximum(self._base, _TINY)
        return hits, float(share @ value), float(share @ value**2)

    @property
    def _hits(self) -> Floats:
        """Σ 1/p over the hits of one row, mean of every cell."""
        return np.asarray(self.stratum.cells.inverse_hits / self.stratum.cells.rows)

    @cached_property
    def _earned(self) -> Floats:
        """Value of all hits of a row, per atom."""
        atoms = self.stratum.atoms
        return np.asarray(atoms.hits * self.metric.hit_value(atoms.hits, atoms.misses, self.k))

    @property
    def _base(self) -> Floats:
        """Hits per row at hand, per atom; rows that were left out would have had hits as well."""
        return np.asarray(self.stratum.atoms.hits / self.stratum.kept)

    @cached_property
    def _places(self) -> tuple[Floats, Floats]:
        """Σ_hits E[value | cell, place] / p of one row in every cell: with places, and without."""
        nothing = np.zeros(self.stratum.cells.rows.size)
        if self.metric.at_place is None or not self._earned.any():
            return nothing, nothing
        atoms = self.stratum.atoms
        placed = np.array(
            [self.metric.at_place(r, atoms.hits, atoms.misses, self.k) for r in range(self.k)]
        )
        unplaced = np.broadcast_to(
            self.metric.hit_value(atoms.hits, atoms.misses, self.k), placed.shape
        )
        return self._sum_over_hits(placed), self._sum_over_hits(unplaced)

    def _sum_over_hits(self, hit_values: Floats) -> Floats:
        # a row is surely kept if one of its hits is observed; otherwise only with chance `kept`
        expected = self.stratum.hit_posterior_mean(hit_values * self.stratum.kept)
        return np.asarray((self.stratum.by_place * expected).sum(axis=0) / self.stratum.cells.rows)


def _inverse_ideal(true_labels: Floats, k: int) -> Floats:
    """1 / IDCG(min(k, N)) with discounts 1/log2(1 + rank)."""
    ideal = np.cumsum(1 / np.log2(np.arange(2, k + 2)))
    return np.asarray(1 / ideal[np.clip(true_labels, 1, k).astype(int) - 1])


METRICS: dict[str, Metric] = {
    "P": Metric(lambda s, t, k: np.full(s.shape, 1 / k)),
    "R": Metric(lambda s, t, k: 1 / np.maximum(s + t, 1)),
    "F1": Metric(lambda s, t, k: 2 / (k + s + t)),
    "Jaccard": Metric(lambda s, t, k: 1 / (k + t)),
    "hit": Metric(lambda s, t, k: 1 / np.maximum(s, 1)),
    "nDCG": Metric(
        lambda s, t, k: _inverse_ideal(s + t, k),
        lambda r, s, t, k: _inverse_ideal(s + t, k) / np.log2(r + 2),
    ),
    "R-precision": Metric(
        lambda s, t, k: 1 / np.clip(s + t, 1, k),
        lambda r, s, t, k: (r < s + t) / np.clip(s + t, 1, k),
        sharp=True,
    ),
}

HitOfSet: TypeAlias = Callable[[Floats, Floats, Floats], Floats]
"""The value of one hit of a set of some size in a row with s* hits and t* misses."""

SET_METRICS: dict[str, HitOfSet] = {
    "sample-P": lambda size, s, t: 1 / size + 0 * s,
    "sample-R": lambda size, s, t: 1 / np.maximum(s + t, 1) + 0 * size,
    "sample-F1": lambda size, s, t: 2 / (size + s + t),
    "sample-F0.5": lambda size, s, t: 5 / (4 * size + s + t),
    "sample-F2": lambda size, s, t: 5 / (size + 4 * (s + t)),
    "sample-Jaccard": lambda size, s, t: 1 / (size + t) + 0 * s,
}
"""Metrics of predicted sets, as means over rows."""


def of_sizes(value: HitOfSet, sizes: tuple[SetSizes, ...]) -> Metric:
    """A metric of sets of these sizes, the sizes in the role of places.

    Where sizes share a place, a hit is worth the mean over them; without its place, over all.

    >>> one, more = SetSizes(np.ones(1), np.ones(1)), SetSizes(np.array([2.0, 4.0]), np.ones(2))
    >>> metric = of_sizes(SET_METRICS["sample-P"], (one, more))
    >>> [float(metric.at_place(r, np.ones(1), np.zeros(1), 2)[0]) for r in (0, 1)]
    [1.0, 0.375]
    >>> float(round(metric.hit_value(np.ones(1), np.zeros(1), 2)[0], 6))
    0.583333
    """
    joined = SetSizes(*(np.concatenate(column) for column in zip(*sizes, strict=True)))

    def mean(of: SetSizes, s: Floats, t: Floats) -> Floats:
        used = of.sizes > 0
        hits, z = of.hits[used], of.sizes[used]
        if not hits.sum():
            return np.zeros(s.shape)
        values = value(z[:, None], s, t)
        return np.asarray(hits @ values / hits.sum())

    return Metric(lambda s, t, k: mean(joined, s, t), lambda r, s, t, k: mean(sizes[r], s, t))
