"""How far numbers move under other propensities and under row effort, from the sums of a run.

With q = 1/p and p within a factor Γ of what is stated, q′ lies in [max(1, q/Γ), qΓ].

- *Linear in q* (unbiased P@k and DCG@k): every hit counts q′, so the ends are those of every label,
  exactly. The high end is Γ times the estimate; the low end is the mean of Σ max(1, q/Γ), which is
  (U + ΓV − C)/Γ with U the unbiased, V the vanilla estimate and C the one with q clipped at Γ
  (`plan` has a column for each).
- *Macro metrics* rise with every label's q: all at one end, exactly, from the counts per label.
  Weighted ones also move by what labels weigh: those above the mean at one end, the rest at the
  other.
- *Deconvolved*: hits moved to one end and misses to the other, in the table of counts that is
  fitted again; and the same table under row effort ρ.
- *Other unbiased metrics*: the same two corners, entry by entry, in another pass over the rows.
- *Differences of two systems*, linear: with c_j the net hits of label j (new less old), every c_j
  q_j′ is put at the end that hurts the winner; the smallest Γ at which that is no win is found by
  bisection, exactly. Others: the same labels at the same ends, evaluated again.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from unmask._typing import Bools, Floats, LabelsLike, PropensityLike
from unmask.arrays import TopK, checks, entry_rows, values_at
from unmask.metrics import estimates, macro
from unmask.metrics.deconvolution import fitting
from unmask.metrics.deconvolution.stratum import Counts
from unmask.metrics.plan import EVERYTHING, LINEAR, VANILLA, Cell
from unmask.metrics.robustness import (
    EFFORTS,
    GAMMAS,
    MOST,
    Basis,
    EffortValue,
    GammaRange,
    Sensitivity,
)
from unmask.propensity.models import reciprocal

STEPS = 30
"""Bisections of Γ for linear metrics, to nine digits."""
COARSE = (*GAMMAS, 4.0, MOST)
"""Factors at which other metrics are evaluated again, …"""
FEW_STEPS = 4
"""… and bisections between two of them."""

Again = Callable[[PropensityLike], float]
"""A number under other propensities, per label or per observed label."""


@dataclass(frozen=True)
class Computed:
    """A sensitivity that needs nothing more."""

    result: Sensitivity

    def sensitivity(self) -> Sensitivity:
        """As it is."""
        return self.result


@dataclass(frozen=True)
class FromCounts:
    """Of a deconvolved estimate: the table of counts, fitted again."""

    metric: str
    value: float
    counts: Counts

    def sensitivity(self) -> Sensitivity:
        """Hits and misses at opposite ends, and row effort."""
        gammas = tuple(
            GammaRange(
                gamma,
                self._value(scaled(self.counts, hits=1 / gamma, misses=gamma)),
                self._value(scaled(self.counts, hits=gamma, misses=1 / gamma)),
            )
            for gamma in GAMMAS
        )
        fits = fitting.under_effort(self.counts, EFFORTS)
        efforts = tuple(EffortValue(rho, self._of(fit)) for rho, fit in fits.items())
        return Sensitivity(self.value, gammas, efforts)

    def _value(self, counts: Counts) -> float:
        return self._of(fitting.fit(counts))

    def _of(self, fit: fitting.Deconvolution) -> float:
        return math.nan if fit.refusal else fit.value(self.metric)


def scaled(counts: Counts, *, hits: float, misses: float) -> Counts:
    """The counts with Σ 1/p of hits and misses multiplied, but no 1/p below 1 on average.

    Parameters
    ----------
    counts : Counts
    hits, misses : float
        Factors.

    Returns
    -------
    Counts
    """
    cells = counts.occupied
    by_cell = cells.hits.sum(axis=0)
    return Counts(
        cells.rows,
        cells.hits * _factor(cells.s * cells.rows, by_cell, hits),
        cells.misses * _factor(cells.t * cells.rows, cells.misses, misses),
        np.array([cells.stratum, cells.s, cells.t]),
        sizes=counts.sizes,
    )


def _factor(count: Floats, inverse: Floats, factor: float) -> Floats:
    least = count / np.where(inverse > 0, inverse, 1.0)
    return np.maximum(factor, least) if factor < 1 else np.full(count.shape, factor)


@dataclass(frozen=True)
class FromLabels:
    """Of an unbiased macro metric: the counts per label, read with other propensities."""

    cell: Cell
    value: float
    summary: estimates.Summary

    def sensitivity(self) -> Sensitivity:
        """All labels at one end: the metrics rise with every 1/p, unless it is also a weight."""
        gammas = []
        for gamma in GAMMAS:
            factors: list[float | Floats] = [1 / gamma, gamma]
            if self._weighted:
                apart = np.where(self._above, gamma, 1 / gamma)
                factors += [apart, 1 / apart]
            gammas.append(_range(gamma, [self._value(factor) for factor in factors]))
        return Sensitivity(self.value, tuple(gammas), exact=not self._weighted)

    def _value(self, factor: float | Floats) -> float:
        inverse = np.maximum(1.0, np.asarray(self.summary.inverse) * factor)
        return estimates.estimate(self.cell, replace(self.summary, inverse=inverse)).value

    @cached_property
    def _labels(self) -> macro.OverLabels | None:
        return estimates.over_labels(self.cell, self.summary)

    @property
    def _weighted(self) -> bool:
        return self._labels is not None and self._labels.weighted

    @property
    def _above(self) -> Bools:
        """Whether the value of a label is above the weighted mean."""
        observed = self.summary.state.observed
        above = np.zeros(observed.size, dtype=bool)
        if self._labels is not None:
            values, counted = self._labels.values, observed > 0
            rows = (observed * np.asarray(self.summary.inverse))[counted]
            above[counted] = values * rows.sum() > values.sum() * rows
        return above


@dataclass(frozen=True)
class FromRows:
    """Of any other unbiased metric: the rows, evaluated again with hits and misses apart."""

    k: int
    value: float
    top: TopK
    labels: LabelsLike
    propensity: PropensityLike
    again: Again

    def sensitivity(self) -> Sensitivity:
        """Hits at one end, misses at the other, entry by entry."""
        labels = checks.labels(self.labels)
        inverse = reciprocal(checks.entry_propensity(self.propensity, labels))
        is_hit = _is_hit(self.top, labels, self.k)
        gammas = []
        for gamma in GAMMAS:
            ends = [self.value]
            for up in (1 / gamma, gamma):
                chances = 1 / np.maximum(1.0, inverse * np.where(is_hit, up, 1 / up))
                parts = (chances, labels.indices, labels.indptr)
                ends.append(self.again(sp.csr_array(parts, shape=labels.shape)))
            gammas.append(_range(gamma, ends))
        return Sensitivity(self.value, tuple(gammas))


def _is_hit(top: TopK, labels: sp.csr_array, k: int) -> Bools:
    """For every observed label, whether it is among the first k predictions of its row."""
    rows = entry_rows(labels)
    predicted = _listed(top, labels.shape, k, np.ones(min(k, top.k)))
    return values_at(predicted, rows, labels.indices) > 0


def _listed(top: TopK, shape: tuple[int, ...], k: int, worth: Floats) -> sp.csr_array:
    """The first k predictions as a matrix of what a hit at their place is worth."""
    first = top.labels[:, :k]
    rows, places = np.nonzero(first >= 0)
    listed = (worth[places], (rows, first[rows, places]))
    return sp.csr_array(listed, shape=shape)


def basis(cell: Cell, value: float, summary: estimates.Summary) -> Basis | None:
    """What the sums alone can say of how far an estimate moves.

    Parameters
    ----------
    cell : Cell
    value : float
        The estimate.
    summary : Summary
        The sums; what is needed later is copied.

    Returns
    -------
    Basis or None
        None for estimators that do not claim the truth, and where rows are needed.
    """
    if summary.state.complete or not math.isfinite(value):
        return None
    if cell.estimator == "deconvolved":
        return FromCounts(cell.metric, value, summary.fit(cell).counts)
    if cell.estimator != "unbiased":
        return None
    if cell.about.over == "labels":
        return FromLabels(cell, value, _copied(summary))
    if cell.about.over == "rows" and cell.about.form in LINEAR:
        return Computed(_linear(cell, value, summary))
    return None


def _copied(summary: estimates.Summary) -> estimates.Summary:
    """The counts per label as they are now; the evaluator may take in more rows."""
    state = copy.copy(summary.state)
    state.observed, state.predicted, state.hits = (
        counts.copy() for counts in (state.observed, state.predicted, state.hits)
    )
    state.label_rows = list(state.label_rows)
    return replace(summary, state=state)


def _linear(cell: Cell, value: float, summary: estimates.Summary) -> Sensitivity:
    def mean(view: tuple[float, float]) -> float:
        column = summary.plan.column((view, cell.about.form), cell.k)
        return estimates.mean_of(summary.state, column)

    unbiased, vanilla = mean(EVERYTHING), mean(VANILLA)
    gammas = tuple(
        GammaRange(gamma, (unbiased + gamma * vanilla - mean((1.0, gamma))) / gamma,
                   gamma * unbiased)
        for gamma in GAMMAS
    )  # fmt: skip
    return Sensitivity(value, gammas, exact=True)


@dataclass(frozen=True)
class OfDifference:
    """Of the difference of two systems, by one metric: labels at their ends, and what follows.

    `again` gives the difference under other propensities; it is not needed where the metric is
    linear in 1/p.
    """

    cell: Cell
    value: float
    systems: tuple[TopK, TopK]
    labels: LabelsLike
    propensity: PropensityLike
    again: Again

    @cached_property
    def net(self) -> Floats:
        """What every label adds to the difference per unit of 1/p (or nearly so)."""
        return net_hits(*self.systems, checks.labels(self.labels), self.cell)

    @cached_property
    def inverse(self) -> Floats:
        """1/p of every label."""
        return reciprocal(checks.propensity(self.propensity))

    @property
    def linear(self) -> bool:
        """Whether the difference is the sum of `net` · 1/p."""
        return self.cell.estimator == "unbiased" and self.cell.about.form in LINEAR

    def sensitivity(self) -> Sensitivity:
        """The difference over Γ, and where its sign changes."""
        gammas = tuple(
            _range(gamma, [self.value, self._at(gamma, -1.0), self._at(gamma, 1.0)])
            for gamma in GAMMAS
        )
        return Sensitivity(self.value, gammas, exact=self.linear, turns_at=self._turn())

    def _at(self, gamma: float, towards: float) -> float:
        """With every label at the end that moves the difference `towards` up (1) or down (−1)."""
        moved = np.where(self.net * towards > 0, self.inverse * gamma, self.inverse / gamma)
        inverse = np.maximum(1.0, moved)
        return float(self.net @ inverse) if self.linear else self.again(1 / inverse)

    def _turn(self) -> float | None:
        if not math.isfinite(self.value) or self.value == 0:
            return None
        if not self.net.any():
            return None
        against = -math.copysign(1.0, self.value)
        directions = (against,) if self.linear else (against, -against)

        def turned(gamma: float) -> bool:
            return any(self._at(gamma, towards) * self.value <= 0 for towards in directions)

        grid, steps = ((MOST,), STEPS) if self.linear else (COARSE, FEW_STEPS)
        below = 1.0
        for above in grid:
            if turned(above):
                return _bisected(turned, below, above, steps)
            below = above
        return math.inf


def _range(gamma: float, values: Sequence[float]) -> GammaRange:
    """The ends of what the data do not refuse."""
    finite = [value for value in values if math.isfinite(value)]
    return GammaRange(gamma, min(finite, default=math.nan), max(finite, default=math.nan))


def _bisected(turned: Callable[[float], bool], below: float, above: float, steps: int) -> float:
    for _ in range(steps):
        middle = math.sqrt(below * above)
        below, above = (below, middle) if turned(middle) else (middle, above)
    return above


def net_hits(new: TopK, old: TopK, labels: sp.csr_array, cell: Cell) -> Floats:
    """What every label adds to the difference of a metric linear in 1/p, per unit of 1/p.

    Parameters
    ----------
    new, old : TopK
        The predictions of the two systems.
    labels : (n, L) csr matrix
        The observed labels.
    cell : Cell
        Of P@k or DCG@k; of other metrics the hits within k are counted.

    Returns
    -------
    (L,) floats
    """
    worth: Floats = np.full(cell.k, 1 / cell.k)
    if cell.about.form == "dcg":
        worth = 1 / np.log2(np.arange(2, cell.k + 2))
    both = [_listed(top, labels.shape, cell.k, worth) for top in (new, old)]
    gained = sp.csr_array((both[0] - both[1]).multiply(labels))
    net: Floats = np.asarray(gained.sum(axis=0), dtype=np.float64).ravel() / labels.shape[0]
    return net
