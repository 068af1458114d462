"""Intervals that also carry what is not known of the propensities.

A number θ(p) computed from rows with estimated propensities errs twice. By the law of total
variance,

    Var = E Var(θ | p) + Var E(θ | p) ≈ mean_b se(p_b)² + var_b θ(p_b),    p_b from estimate.draw:

what rows leave open, and what propensities leave open. The p_b are a parametric bootstrap: the same
rows are evaluated again with every drawn vector. The value itself stays θ at the estimate's values.
Intervals over rows are asymmetric, so ends are combined with those of the propensities: θ ± z times
what they add to √Var for a "normal" interval, quantiles of θ(p_b) for a bootstrap interval,

    low = θ − √((θ − low of the rows)² + (θ − low of the propensities)²),

and high alike (Zou & Donner, *Construction of confidence intervals about effect measures: a general
approach*, Statistics in Medicine 2008). Cost: as many evaluations as draws, without bootstrap.

`with_uncertainty` is the one path that `evaluate`, `evaluate_shards` and `compare` take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeGuard

import numpy as np

from unmask._typing import Floats, PropensityLike
from unmask.arrays import checks
from unmask.metrics import intervals
from unmask.metrics.registry import METRICS, split
from unmask.metrics.table import Estimate, Table
from unmask.metrics.verdict import Level, Reason, Verdict, claim, judge
from unmask.propensity.estimate import TOGETHER, PropensityEstimate
from unmask.propensity.mask_model import MaskModel
from unmask.propensity.models import Source

Drawn: TypeAlias = "Floats | Sequence[MaskModel]"
"""(draws, L) propensities, or mask models."""
Evaluation: TypeAlias = "Callable[[PropensityLike | None, Drawn], Iterable[Mapping[str, Table]]]"
"""From propensities and what was drawn to named tables: of the former, then of each draw."""

DRAWS = 100
"""Enough to know a standard error to 7 %."""
REFUSED = 0.1
"""A share of draws that the data contradict, from which on it is worth a word."""


def with_uncertainty(
    evaluation: Evaluation,
    propensity: PropensityLike | None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    confidence: float = 0.95,
    interval: str = "normal",
    bounded: bool = True,
) -> dict[str, Table]:
    """Tables by name, widened by what is not known of the propensities if they are an estimate.

    Parameters
    ----------
    evaluation : function
        Called once, with propensities and the drawn vectors (none for stated propensities);
        returns mappings from name to table, the first of the propensities themselves.
    propensity : PropensityLike, PropensityEstimate, MaskModel or None
        An estimate or an estimated mask model is drawn from; anything else is passed on as it is.
    draws : int, default 100
        How many vectors are drawn.
    seed : int, default 0
        Of the draws.
    confidence : float, default 0.95
        Of the intervals.
    interval : str, default "normal"
        How the first tables' intervals were made.
    bounded : bool, default True
        Whether deconvolved estimates lie within [0, 1] (differences do not).

    Returns
    -------
    dict of str to Table
    """
    if not uncertain(propensity):
        (tables,) = evaluation(propensity, ())
        return dict(tables)
    vectors = propensity.draw(seed=seed, size=checks.positive_int(draws, "draws"))
    centre = propensity.centre if isinstance(propensity, MaskModel) else propensity.value
    plain, *drawn = evaluation(centre, vectors)
    return {
        name: dependence_judged(
            widen(
                _from(table, propensity.source),
                [tables[name] for tables in drawn],
                confidence=confidence,
                interval=interval,
                bounded=bounded,
            ),
            _unmodelled_effect(propensity),
        )
        for name, table in plain.items()
    }


def uncertain(propensity: object) -> TypeGuard[PropensityEstimate | MaskModel]:
    """Whether propensities are an estimate, of which vectors can be drawn."""
    if isinstance(propensity, MaskModel):
        return not propensity.certain
    return isinstance(propensity, PropensityEstimate)


def _unmodelled_effect(propensity: PropensityEstimate | MaskModel) -> float:
    """The design effect of labels kept or lost together, 1 where the mask model allows for it."""
    if isinstance(propensity, PropensityEstimate):
        return propensity.effect
    estimate = propensity.propensity
    if propensity.effort is not None or not isinstance(estimate, PropensityEstimate):
        return 1.0
    return estimate.effect


def _from(table: Table, source: Source) -> Table:
    """The table, of which it is known that its propensities come from there."""
    return table if table.run is None else replace(table, run=replace(table.run, source=source))


def widen(
    plain: Table,
    drawn: Iterable[Table],
    *,
    confidence: float,
    interval: str,
    bounded: bool = True,
) -> Table:
    """`plain`, with the spread of the same estimates in the `drawn` tables added to its errors.

    Parameters
    ----------
    plain : Table
        The estimates at the propensities' own values.
    drawn : iterable of Table
        The same under drawn propensities.
    confidence : float
        Of the intervals.
    interval : str
        How the intervals of `plain` were made.
    bounded : bool, default True
        Whether intervals stay within the range of the metric (those of differences do not).

    Returns
    -------
    Table

    Examples
    --------
    >>> from unmask.metrics.verdict import CONDITIONAL
    >>> def table(value):
    ...     numbers = value, 0.03, (0, 1), 9.0, 0.1, 99, CONDITIONAL
    ...     return Table([Estimate("P@1", "unbiased", *numbers)])
    >>> wider = widen(table(0.5), [table(0.46), table(0.54)], confidence=0.95, interval="normal")
    >>> round(wider["P@1", "unbiased"].standard_error ** 2, 6)  # 0.03² + (0.08² / 2)
    0.0041
    """
    tables = list(drawn)
    columns = [[table[each.metric, each.estimator] for table in tables] for each in plain]
    return replace(
        plain,
        estimates=tuple(
            _widened(each, column, confidence, interval, bounded)
            for each, column in zip(plain, columns, strict=True)
        ),
    )


def dependence_judged(table: Table, effect: float) -> Table:
    """`table`, doubtful where estimates need labels of a row to go missing independently.

    Metrics that add up labels (P@k, DCG@k, micro and macro metrics) do not care what labels do
    together; all others by a corrected estimator are biased where a row's labels are kept or lost
    together.
    """
    if effect <= TOGETHER:
        return table
    return replace(
        table,
        estimates=tuple(
            replace(each, verdict=_dependent(each.verdict, effect))
            if _needs_independence(each)
            else each
            for each in table
        ),
    )


def _dependent(verdict: Verdict, effect: float) -> Verdict:
    details = {**verdict.details, "design_effect": effect}
    return Verdict(Level.DOUBTFUL, Reason.DEPENDENT_LABELS, details=details)


def _needs_independence(each: Estimate) -> bool:
    corrected = each.estimator not in ("vanilla", "normalized")
    adds_up = METRICS[split(each.metric)[0]].adds_up
    return corrected and not adds_up and each.verdict.usable


def _widened(
    plain: Estimate, drawn: list[Estimate], confidence: float, interval: str, bounded: bool
) -> Estimate:
    values = np.array([each.value for each in drawn])
    finite = values[np.isfinite(values)]
    if not math.isfinite(plain.value) or finite.size < 2 or np.ptp(finite) == 0:
        return plain
    rows, propensities = _rows_part(plain, drawn), float(finite.var(ddof=1))
    total = rows + propensities
    more = intervals.percentile(finite, confidence)
    if interval == "normal":  # beside what the rows' own interval holds
        added = math.sqrt(max(total - plain.standard_error**2, 0.0))
        more = intervals.normal(plain.value, added, confidence)
    ends = _combined(plain.value, plain.interval, more)
    if bounded:
        ends = intervals.within(ends, METRICS[split(plain.metric)[0]].at_most)
    share = propensities / total
    wider = replace(
        plain,
        standard_error=math.sqrt(total),
        interval=ends,
        details={**plain.details, "rows_only": list(plain.interval), "propensity_share": share},
    )
    return replace(wider, verdict=_verdict(plain, wider, share, 1 - finite.size / values.size))


def _rows_part(plain: Estimate, drawn: list[Estimate]) -> float:
    """mean_b se(p_b)²; that of the plain estimate where a draw has none."""
    errors = np.array([each.standard_error for each in drawn])
    return float(np.mean(np.where(np.isfinite(errors), errors, plain.standard_error) ** 2))


def _combined(value: float, *both: tuple[float, float]) -> tuple[float, float]:
    """The ends of two intervals around `value`, their distances added as those of errors are."""
    below = math.hypot(*(max(0.0, value - low) for low, _ in both))
    above = math.hypot(*(max(0.0, high - value) for _, high in both))
    return value - below, value + above


def _verdict(plain: Estimate, wider: Estimate, share: float, refused: float) -> Verdict:
    biased = plain.verdict.reason is Reason.BIASED_BY_DESIGN
    if plain.verdict.level >= Level.DOUBTFUL and not biased:
        return plain.verdict
    if refused > REFUSED:
        details = {**plain.verdict.details, "refused": refused}
        return Verdict(Level.DOUBTFUL, Reason.DRAWS_REFUSED, details=details)
    if "outcome" in plain.verdict.details:  # whether a difference is wide, its interval says
        return plain.verdict
    verdict = judge(
        wider.value,
        wider.interval,
        rows=wider.rows,
        heaviest=(wider.rows, 0.0),
        at_most=METRICS[split(wider.metric)[0]].at_most,
        claimed=claim(wider.estimator, complete=False),
    )
    too_wide = "half_width" in verdict.details or not verdict.usable
    if share > 0.5 and too_wide:
        return replace(verdict, details={**verdict.details, "propensity_share": share})
    return verdict
