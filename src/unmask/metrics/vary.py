"""Other propensities: what an estimate of them leaves open, and how far numbers move with them.

*Uncertain propensities.* A number θ(p) computed from rows with estimated propensities errs twice.
By the law of total variance,

    Var = E Var(θ | p) + Var E(θ | p) ≈ mean_b se(p_b)² + var_b θ(p_b),    p_b from estimate.draw:

what rows leave open, and what propensities leave open. The same rows are evaluated again with every
drawn vector; the value itself stays θ at the estimate's values. Intervals over rows are asymmetric,
so ends are combined with those of the propensities: θ ± z times what they add to √Var for a
"normal" interval, quantiles of θ(p_b) for a bootstrap interval,

    low = θ − √((θ − low of the rows)² + (θ − low of the propensities)²),

and high alike (Zou & Donner, *Construction of confidence intervals about effect measures: a general
approach*, Statistics in Medicine 2008). `widened` is the one path of `evaluate`, `evaluate_shards`
and `compare`.

*Mask models beyond row effort.* With a slope on the score, every observed label gets the propensity
of its own score. With wrong labels, ε = P(observed | not true), (y − ε)/(p − ε) is unbiased for the
true label, so that a sum over hits Σ d_r y_r over the places of a row is estimated by

    Σ_hits d_r / (p − ε)  −  Σ_r d_r ε / (p − ε),

the same sum with p − ε in place of p, less a number that depends on the predictions alone.

*Wrong propensities.* A `Sensitivity` says how far a number moves if p is off by up to a factor Γ,
hits and misses in opposite directions (a label that is easy to predict may be easy to record as
well), or if labels of a row are kept or lost together, with correlation ρ. With q = 1/p within
[max(1, q/Γ), qΓ]:

- *linear in q* (unbiased P@k and DCG@k): the ends are those of every label, exactly. The high end
  is Γ times the estimate; the low end is the mean of Σ max(1, q/Γ), which is (U + ΓV − C)/Γ with U
  the unbiased, V the vanilla estimate and C the one with q clipped at Γ (the plan counts them);
- *macro metrics* rise with every label's q: all at one end, exactly, from the counts per label.
  Weighted ones also move by what labels weigh: those above the mean at one end, the rest at the
  other;
- *deconvolved*: hits at one end and misses at the other, in the table of counts that is fitted
  again; and the same table under row effort ρ;
- *other unbiased metrics*: the same two corners, entry by entry, in another pass over the rows;
- *differences of two systems*, linear: with c_j the net hits of label j (new less old), every
  c_j q_j is put at the end that hurts the winner; the smallest Γ at which that is no win is found
  by bisection, exactly. Others: the same labels at the same ends, evaluated again.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import scipy.sparse as sp

from unmask._text import format_value
from unmask._typing import Bools, Floats, LabelsLike, PropensityLike
from unmask.arrays import checks
from unmask.arrays.checks import entry_rows, values_at
from unmask.metrics import estimates, intervals
from unmask.metrics.claims import between, judge_widened
from unmask.metrics.registry import GAMMAS, METRICS, split
from unmask.metrics.request import Predictions, Request, as_top, uncertain
from unmask.metrics.sums import EVERYTHING, LINEAR, VANILLA, Cell
from unmask.metrics.table import Estimate, Table
from unmask.predictions import TopK
from unmask.propensity.estimate import PropensityEstimate
from unmask.propensity.mask_model import MaskModel
from unmask.propensity.models import reciprocal

if TYPE_CHECKING:
    from unmask.metrics.deconvolution import Counts, Deconvolution

EFFORTS = (0.0, 0.25, 0.5, 0.75)
"""Correlations ρ of row effort."""
MOST = 10.0
"""Beyond this factor nobody states propensities; a winner that survives it survives."""
STEPS = 30
"""Bisections of Γ for linear metrics, to nine digits."""
COARSE = (*GAMMAS, 4.0, MOST)
"""Factors at which other metrics are evaluated again, …"""
FEW_STEPS = 4
"""… and bisections between two of them."""
SUMS_OVER_HITS = ("P", "DCG")
"""Metrics from which what wrong labels add can be taken."""

Again = Callable[[PropensityLike], float]
"""A number under other propensities, per label or per observed label."""
Evaluated = Callable[[Sequence["PropensityLike | None"]], Iterable[Mapping[str, Table]]]
"""From propensities to tables by name, for each: in full for the first, without bootstrap else."""


# --- uncertain propensities


def widened(
    evaluated: Evaluated,
    propensity: PropensityLike | PropensityEstimate | MaskModel | None,
    request: Request,
    *,
    bounded: bool = True,
) -> dict[str, Table]:
    """Make tables by name, widened by what is not known of propensities that are an estimate.

    Parameters
    ----------
    evaluated : function
        Called once, with the propensities and whatever was drawn from them.
    propensity : PropensityLike, PropensityEstimate, MaskModel or None
        An estimate or an estimated mask model is drawn from; anything else is passed on as it is.
    request : Request
        How many vectors are drawn, with which seed, and the intervals.
    bounded : bool, default True
        Whether numbers stay within the range of their metric (differences do not).

    Returns
    -------
    dict of str to Table
    """
    if not uncertain(propensity):
        (tables,) = evaluated([propensity])
        return dict(tables)
    centre, effect = at_its_values(propensity)
    vectors = propensity.draw(seed=request.seed, size=request.draws)
    plain, *drawn = evaluated([centre, *vectors])
    made = {}
    for name, table in plain.items():
        others = [tables[name] for tables in drawn]
        columns = [[other[each.metric, each.estimator] for other in others] for each in table]
        run = table.run
        if run is not None:
            run = replace(run, source=propensity.source, effect=effect)
        numbers = (
            _widened(each, column, request, bounded)
            for each, column in zip(table, columns, strict=True)
        )
        made[name] = replace(table, estimates=tuple(numbers), run=run)
    return made


def at_its_values(
    propensity: PropensityLike | PropensityEstimate | MaskModel,
) -> tuple[PropensityLike, float]:
    """Return propensities without what is not known of them, and their design effect.

    Parameters
    ----------
    propensity : PropensityLike, PropensityEstimate or MaskModel

    Returns
    -------
    propensities and float
        The effect is that of labels kept or lost together, where no mask model allows for it.
    """
    if isinstance(propensity, PropensityEstimate):
        return propensity.value, propensity.effect
    if not isinstance(propensity, MaskModel):
        return propensity, 1.0
    estimate = propensity.propensity
    if propensity.effort is None and isinstance(estimate, PropensityEstimate):
        return propensity.centre, estimate.effect
    return propensity.centre, 1.0


def _widened(plain: Estimate, drawn: list[Estimate], request: Request, bounded: bool) -> Estimate:
    values = np.array([each.value for each in drawn])
    finite = values[np.isfinite(values)]
    if not math.isfinite(plain.value) or finite.size < 2 or np.ptp(finite) == 0:
        return plain
    errors = np.array([each.standard_error for each in drawn])
    rows = float(np.mean(np.where(np.isfinite(errors), errors, plain.standard_error) ** 2))
    propensities = float(finite.var(ddof=1))
    total = rows + propensities
    more = intervals.percentile(finite, request.confidence)
    if request.interval == "normal":  # beside what the rows' own interval holds
        added = math.sqrt(max(total - plain.standard_error**2, 0.0))
        more = intervals.normal(plain.value, added, request.confidence)
    both = plain.interval, more
    below = math.hypot(*(max(0.0, plain.value - low) for low, _ in both))
    above = math.hypot(*(max(0.0, high - plain.value) for _, high in both))
    ends = plain.value - below, plain.value + above
    if bounded:
        ends = intervals.within(ends, METRICS[split(plain.metric)[0]].at_most)
    share = propensities / total
    wider = replace(
        plain,
        standard_error=math.sqrt(total),
        interval=ends,
        details={**plain.details, "rows_only": list(plain.interval), "propensity_share": share},
    )
    refused = 1 - finite.size / values.size
    return replace(wider, verdict=judge_widened(plain, wider, share=share, refused=refused))


# --- mask models beyond row effort


def beyond_effort(propensity: object) -> TypeGuard[MaskModel]:
    """Return whether these are a mask model with a slope on the score or wrong labels.

    Parameters
    ----------
    propensity : anything

    Returns
    -------
    bool
    """
    if not isinstance(propensity, MaskModel):
        return False
    return propensity.score_slope is not None or propensity.spurious > 0


def under_mask(
    mask: MaskModel,
    top: TopK,
    scores: Predictions,
    labels: LabelsLike,
    evaluated: Callable[[PropensityLike], Table],
) -> Table:
    """Make the unjudged table of one certain mask model that goes beyond row effort.

    Parameters
    ----------
    mask : MaskModel
    top : TopK
        What is evaluated.
    scores : TopK or scores
        Of the same rows, for the slope.
    labels : (n, L) matrix of 0 and 1
    evaluated : function
        From propensities to the unjudged table.

    Returns
    -------
    Table
    """
    observed = checks.labels(labels)
    checks.propensity(mask.value, observed.shape[1])
    wrong = mask.false_rate(observed)
    if mask.score_slope is None:
        table = evaluated(MaskModel(mask.value - wrong, mask.row_effort, mask.unannotated))
    else:
        entries = mask.of_entries(observed, scores)
        entries.data = np.maximum(entries.data - wrong[observed.indices], 1e-6)
        table = evaluated(entries)
    if table.run is not None:  # precision that no wrong label was taken from is no evidence
        table = replace(table, run=replace(table.run, source=mask.source, evidence=()))
    if not mask.spurious:
        return table
    excess = wrong / (mask.value - wrong)
    return replace(table, estimates=tuple(_less_wrong(each, top, excess) for each in table))


def _less_wrong(each: Estimate, top: TopK, excess: Floats) -> Estimate:
    """A sum over hits less what wrong labels add to it; any other estimate as it is."""
    metric, k = split(each.metric)
    if each.estimator not in ("unbiased", "deconvolved") or metric not in SUMS_OVER_HITS:
        return each
    places = top.labels[:, : k or top.k]
    expected = np.where(places < 0, 0.0, excess[places])
    discount = np.ones(places.shape[1]) / max(k or top.k, 1)
    if metric == "DCG":
        discount = 1 / np.log2(np.arange(2, places.shape[1] + 2))
    less = float((expected @ discount).mean())
    low, high = each.interval
    return replace(
        each, value=each.value - less, interval=(max(low - less, 0.0), high - less),
        details={**each.details, "wrong_labels": less},
    )  # fmt: skip


def refuse_slope(systems: Sequence[str], propensity: object) -> None:
    """Raise where several systems are to be evaluated by the scores of one of them.

    Parameters
    ----------
    systems : sequence of str
    propensity : anything

    Raises
    ------
    ValueError
        If the propensities depend on a score.
    """
    if isinstance(propensity, MaskModel) and propensity.score_slope is not None:
        raise ValueError(
            f"the mask depends on the scores of one model, and {len(systems)} are compared; give a "
            "propensity per entry (`mask.of_entries(labels, scores)`), or an audit."
        )


# --- wrong propensities: the result


@dataclass(frozen=True)
class GammaRange:
    """Range of a number over propensities within a factor.

    Parameters
    ----------
    gamma : float
        Γ ≥ 1.
    low, high : float
        The ends; NaN where the data contradict the propensities there.
    """

    gamma: float
    low: float
    high: float


@dataclass(frozen=True)
class EffortValue:
    """Value of a number if labels of a row are kept or lost together.

    Parameters
    ----------
    correlation : float
        ρ in [0, 1).
    value : float
        NaN where the data contradict it.
    """

    correlation: float
    value: float


@dataclass(frozen=True)
class Sensitivity:
    """Distance that a number moves, with the settings used.

    Parameters
    ----------
    value : float
        The number itself.
    gammas : tuple of GammaRange
        Over propensities within each Γ.
    efforts : tuple of EffortValue, default ()
        Over row effort; only deconvolved estimates depend on it here.
    exact : bool, default False
        Whether the ends over Γ are exact (metrics linear in 1/p) or found numerically.
    turns_at : float, optional
        Of a difference: the smallest Γ at which the winner changes; ∞ if none up to `MOST` does,
        None if there is no winner.

    Examples
    --------
    >>> moved = Sensitivity(0.5, (GammaRange(1.25, 0.41, 0.62),), (EffortValue(0.5, 0.48),))
    >>> moved.low, moved.high
    (0.41, 0.62)
    >>> print(moved)
    0.410 to 0.620 if propensities are off by up to 1.25 times; 0.480 to 0.500 if labels of a row \
go missing together (ρ up to 0.5)
    """

    value: float
    gammas: tuple[GammaRange, ...]
    efforts: tuple[EffortValue, ...] = ()
    exact: bool = False
    turns_at: float | None = None

    @property
    def low(self) -> float:
        """The lowest end of all."""
        return min(self._numbers)

    @property
    def high(self) -> float:
        """The highest end of all."""
        return max(self._numbers)

    @property
    def over_efforts(self) -> tuple[float, float]:
        """The ends over row effort; the number itself where nothing depends on it."""
        values = _finite([self.value, *(each.value for each in self.efforts)])
        return min(values, default=math.nan), max(values, default=math.nan)

    @property
    def _numbers(self) -> list[float]:
        ends = [end for each in self.gammas for end in (each.low, each.high)]
        return _finite([self.value, *ends, *self.over_efforts]) or [math.nan]

    @property
    def sentence(self) -> str:
        """All of it in one line of English."""
        clauses = [
            f"{between(each.low, each.high)} if propensities are off by up to {each.gamma:g} times"
            for each in self.gammas
        ]
        if self.efforts:
            most = max(each.correlation for each in self.efforts)
            clauses.append(
                f"{between(*self.over_efforts)} if labels of a row go missing together "
                f"(ρ up to {most:g})"
            )
        return "; ".join([*clauses, *([self.turning] if self.turning else [])])

    @property
    def turning(self) -> str:
        """Factor Γ at which the winner of a difference changes; "" of anything else."""
        if self.turns_at is None:
            return ""
        if math.isinf(self.turns_at):
            return f"the winner stays the same up to a factor of {MOST:g}"
        return f"the winner changes where propensities are off by {self.turning_factor} times"

    @property
    def turning_factor(self) -> str:
        """That Γ as a number; "" where there is no winner."""
        if self.turns_at is None:
            return ""
        if math.isinf(self.turns_at):
            return f"> {MOST:g}"
        return format_value(math.ceil(self.turns_at * 100) / 100, ".2f")

    def __str__(self) -> str:
        """The sentence."""
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; the English is `text`."""
        return {
            "gammas": [vars(each) for each in self.gammas],
            "efforts": [vars(each) for each in self.efforts],
            "exact": self.exact,
            "turns_at": self.turns_at,
            "text": self.sentence,
        }


def _finite(values: Iterable[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


def _range(gamma: float, values: Sequence[float]) -> GammaRange:
    """The ends of what the data do not refuse."""
    finite = _finite(values)
    return GammaRange(gamma, min(finite, default=math.nan), max(finite, default=math.nan))


# --- wrong propensities: estimates


def basis(cell: Cell, value: float, summary: estimates.Summary) -> Basis | None:
    """Return what computes how far an estimate moves, from the sums alone.

    Parameters
    ----------
    cell : Cell
    value : float
        The estimate.
    summary : Summary
        The sums; what is needed later is copied.

    Returns
    -------
    function without arguments, or None
        None for estimators that do not claim the truth, and where rows are needed.
    """
    if summary.sums.complete or not math.isfinite(value):
        return None
    if cell.estimator == "deconvolved":
        return partial(_from_counts, cell.metric, value, summary.fit(cell).counts)
    if cell.estimator != "unbiased":
        return None
    if cell.about.over == "labels":
        sums = copy.copy(summary.sums)  # the evaluator may take in more rows
        sums.observed, sums.predicted, sums.hits = (
            counts.copy() for counts in (sums.observed, sums.predicted, sums.hits)
        )
        sums.label_rows = list(sums.label_rows)
        return partial(_from_labels, cell, value, replace(summary, sums=sums))
    if cell.about.over == "rows" and cell.about.form in LINEAR:
        return partial(_linear, value, *_means(cell, summary))
    return None


Basis = Callable[[], Sensitivity]


def _means(cell: Cell, summary: estimates.Summary) -> list[float]:
    """Unbiased, vanilla, and with q clipped at every Γ."""
    views = EVERYTHING, VANILLA, *((1.0, gamma) for gamma in GAMMAS)
    columns = [summary.plan.column((view, cell.about.form), cell.k) for view in views]
    return [summary.sums.mean(column) for column in columns]


def _linear(value: float, unbiased: float, vanilla: float, *clipped: float) -> Sensitivity:
    gammas = (
        GammaRange(gamma, (unbiased + gamma * vanilla - cut) / gamma, gamma * unbiased)
        for gamma, cut in zip(GAMMAS, clipped, strict=True)
    )
    return Sensitivity(value, tuple(gammas), exact=True)


def _from_counts(metric: str, value: float, counts: Counts) -> Sensitivity:
    """Hits and misses at opposite ends in the table of counts, and row effort."""
    from unmask.metrics import deconvolution

    def read(fit: Deconvolution) -> float:
        return math.nan if fit.refusal else fit.value(metric)

    gammas = []
    for gamma in GAMMAS:
        corners = (counts.scaled(hits=up, misses=1 / up) for up in (1 / gamma, gamma))
        gammas.append(GammaRange(gamma, *(read(deconvolution.fit(each)) for each in corners)))
    efforts = (EffortValue(r, read(deconvolution.fit(counts, row_effort=r))) for r in EFFORTS)
    return Sensitivity(value, tuple(gammas), tuple(efforts))


def _from_labels(cell: Cell, value: float, summary: estimates.Summary) -> Sensitivity:
    """All labels at one end: the metrics rise with every 1/p, unless it is also a weight."""
    labels, observed = estimates.over_labels(cell, summary), summary.sums.observed
    stated: Floats = np.asarray(summary.inverse.of_labels)
    weighted = labels is not None and labels.weighted
    above = np.zeros(observed.size, dtype=bool)  # labels with a value above the weighted mean
    if labels is not None and weighted:
        counted = observed > 0
        rows = (observed * stated)[counted]
        above[counted] = labels.values * rows.sum() > labels.values.sum() * rows
    gammas = []
    for gamma in GAMMAS:
        factors: list[float | Floats] = [1 / gamma, gamma]
        if weighted:
            apart = np.where(above, gamma, 1 / gamma)
            factors += [apart, 1 / apart]
        values = []
        for factor in factors:
            inverse = replace(summary.inverse, of_labels=np.maximum(1.0, stated * factor))
            values.append(estimates.estimate(cell, replace(summary, inverse=inverse)).value)
        gammas.append(_range(gamma, values))
    return Sensitivity(value, tuple(gammas), exact=not weighted)


def based_on_rows(
    table: Table,
    request: Request,
    top: Predictions,
    labels: LabelsLike,
    propensity: PropensityLike | None,
    value_again: Callable[..., float],
) -> Table:
    """Give unbiased estimates whose sensitivity needs the rows what computes it.

    Parameters
    ----------
    table : Table
    request, top, labels, propensity
        As they were evaluated.
    value_again : function
        `evaluation.value_again`.

    Returns
    -------
    Table
    """
    complete = table.run is None or table.run.complete
    if propensity is None or complete or beyond_effort(propensity):
        return table
    numbers = []
    for each in table:
        metric, k = split(each.metric)
        about = METRICS[metric]
        wanted = each.estimator == "unbiased" and each.basis is None and math.isfinite(each.value)
        if wanted and about.over != "labels" and about.reads == "list":
            listed = as_top(top, [each.metric])
            again = partial(value_again, request, top, labels, each.metric, "unbiased")
            place = k or listed.k
            made = partial(_from_rows, place, each.value, listed, labels, propensity, again)
            numbers.append(replace(each, basis=made))
        else:
            numbers.append(each)
    return replace(table, estimates=tuple(numbers))


def _from_rows(
    k: int, value: float, top: TopK, labels: LabelsLike, propensity: PropensityLike, again: Again
) -> Sensitivity:
    """Hits at one end, misses at the other, entry by entry."""
    observed = checks.labels(labels)
    inverse = reciprocal(checks.entry_propensity(propensity, observed))
    predicted = _listed(top, observed.shape, k, np.ones(min(k, top.k)))
    is_hit: Bools = values_at(predicted, entry_rows(observed), observed.indices) > 0
    gammas = []
    for gamma in GAMMAS:
        ends = [value]
        for up in (1 / gamma, gamma):
            chances = 1 / np.maximum(1.0, inverse * np.where(is_hit, up, 1 / up))
            parts = (chances, observed.indices, observed.indptr)
            ends.append(again(sp.csr_array(parts, shape=observed.shape)))
        gammas.append(_range(gamma, ends))
    return Sensitivity(value, tuple(gammas))


def _listed(top: TopK, shape: tuple[int, ...], k: int, worth: Floats) -> sp.csr_array:
    """The first k predictions as a matrix of what a hit at their place is worth."""
    first = top.labels[:, :k]
    rows, places = np.nonzero(first >= 0)
    listed = (worth[places], (rows, first[rows, places]))
    return sp.csr_array(listed, shape=shape)


# --- wrong propensities: differences


def of_difference(
    cell: Cell,
    value: float,
    systems: tuple[TopK, TopK],
    labels: LabelsLike,
    propensity: PropensityLike,
    again: Again,
) -> Sensitivity:
    """Return the difference of two systems over Γ, and where its sign changes.

    Parameters
    ----------
    cell : Cell
        The metric and its estimator.
    value : float
        The difference.
    systems : pair of TopK
        New and old.
    labels, propensity
        As they were compared.
    again : function
        The difference under other propensities; not needed where the metric is linear in 1/p.

    Returns
    -------
    Sensitivity
    """
    net = net_hits(*systems, checks.labels(labels), cell)
    stated = reciprocal(checks.propensity(propensity))
    linear = cell.estimator == "unbiased" and cell.about.form in LINEAR

    def at(gamma: float, towards: float) -> float:
        """With every label at the end that moves the difference up (1) or down (−1)."""
        moved = np.where(net * towards > 0, stated * gamma, stated / gamma)
        inverse = np.maximum(1.0, moved)
        return float(net @ inverse) if linear else again(1 / inverse)

    gammas = tuple(_range(gamma, [value, at(gamma, -1.0), at(gamma, 1.0)]) for gamma in GAMMAS)
    turn = None
    if math.isfinite(value) and value != 0 and net.any():
        against = -math.copysign(1.0, value)
        directions = (against,) if linear else (against, -against)

        def turned(gamma: float) -> bool:
            return any(at(gamma, towards) * value <= 0 for towards in directions)

        turn = _turn(turned, *(((MOST,), STEPS) if linear else (COARSE, FEW_STEPS)))
    return Sensitivity(value, gammas, exact=linear, turns_at=turn)


def _turn(turned: Callable[[float], bool], grid: tuple[float, ...], steps: int) -> float:
    """The smallest Γ at which the winner changes, by bisection within the grid; ∞ beyond it."""
    below = 1.0
    for above in grid:
        if turned(above):
            for _ in range(steps):
                middle = math.sqrt(below * above)
                below, above = (below, middle) if turned(middle) else (middle, above)
            return above
        below = above
    return math.inf


def net_hits(new: TopK, old: TopK, labels: sp.csr_array, cell: Cell) -> Floats:
    """Return what every label adds to the difference of a metric linear in 1/p, per unit of 1/p.

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
