"""Intervals that also carry what is not known of the propensities.

A number θ(p) computed from rows with estimated propensities errs twice. By the law of total
variance,

    Var = E Var(θ | p) + Var E(θ | p) ≈ mean_b se(p_b)² + var_b θ(p_b),    p_b from estimate.draw:

what rows leave open, and what propensities leave open. The p_b are a parametric bootstrap: the same
rows are evaluated again with every drawn vector. The value itself stays θ at the estimate's values.
A "normal" interval is θ ± z √Var; bootstrap intervals over rows are asymmetric, and their ends are
combined with the quantiles of θ(p_b),

    low = θ − √((θ − low of the rows)² + (θ − low of the propensities)²),

and high alike (Zou & Donner, *Construction of confidence intervals about effect measures: a general
approach*, Statistics in Medicine 2008). Cost: as many evaluations as draws, without bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from unmask.metrics import intervals
from unmask.metrics.registry import ESTIMATORS, METRICS, split
from unmask.metrics.table import Estimate, Table, verdict
from unmask.propensity.estimate import TOGETHER

Floats = NDArray[np.float64]

DRAWS = 100
"""Enough to know a standard error to 7 %."""
REFUSED = 0.1
"""A share of draws that the data contradict, from which on it is worth a word."""


def widen(
    plain: Table,
    drawn: Iterable[Table],
    *,
    confidence: float,
    interval: str,
    bounded: bool = True,
) -> Table:
    """`plain`, with the spread of the same estimates in the `drawn` tables added to its errors.

    `bounded`: deconvolved estimates stay within [0, 1] (their differences do not).

    >>> def at(value):
    ...     return Table([Estimate("P@1", "unbiased", value, 0.03, (0, 1), 9.0, 0.1, 99, "trust")])
    >>> found = widen(at(0.5), [at(0.46), at(0.54)], confidence=0.95, interval="normal")
    >>> round(found["P@1", "unbiased"].standard_error ** 2, 6)  # 0.03² + (0.08² / 2)
    0.0041
    """
    tables = list(drawn)
    columns = [[table[each.metric, each.estimator] for table in tables] for each in plain]
    return Table(
        tuple(
            _widened(each, column, confidence, interval, bounded)
            for each, column in zip(plain, columns, strict=True)
        )
    )


def doubted(table: Table, effect: float) -> Table:
    """`table`, with a word on estimates that need labels of a row to go missing independently.

    P@k and DCG@k add up labels, so what labels do together does not matter to them; all others by
    a corrected estimator are biased where a row's labels are kept or lost together.
    """
    if effect <= TOGETHER:
        return table
    words = (
        "doubtful: labels of a row are kept or lost together (design effect "
        f"{effect:.1f}), and corrections assume that they are not"
    )
    return Table(
        tuple(replace(each, verdict=words) if _needs_independence(each) else each for each in table)
    )


def _needs_independence(each: Estimate) -> bool:
    corrected = each.estimator not in ("vanilla", "normalized")
    adds_up = split(each.metric)[0] in ("P", "DCG", "macro-P", "macro-R")
    return corrected and not adds_up and not each.verdict.startswith("unusable")


def _widened(
    plain: Estimate, drawn: list[Estimate], confidence: float, interval: str, bounded: bool
) -> Estimate:
    values = np.array([each.value for each in drawn])
    told = values[np.isfinite(values)]
    if not math.isfinite(plain.value) or told.size < 2 or np.ptp(told) == 0:
        return plain
    rows, propensities = _rows_part(plain, drawn), float(told.var(ddof=1))
    total = rows + propensities
    if interval == "normal":
        ends = intervals.normal(plain.value, math.sqrt(total), confidence)
    else:
        ends = _combined(plain.value, plain.interval, intervals.percentile(told, confidence))
    if bounded and plain.estimator == "deconvolved":
        ends = max(0.0, ends[0]), min(1.0, ends[1])
    share = propensities / total
    wider = replace(
        plain,
        standard_error=math.sqrt(total),
        interval=ends,
        details={**plain.details, "rows_only": list(plain.interval), "propensity_share": share},
    )
    return replace(wider, verdict=_verdict(plain, wider, share, 1 - told.size / values.size))


def _rows_part(plain: Estimate, drawn: list[Estimate]) -> float:
    """mean_b se(p_b)²; that of the plain estimate where a draw has none."""
    errors = np.array([each.standard_error for each in drawn])
    return float(np.mean(np.where(np.isfinite(errors), errors, plain.standard_error) ** 2))


def _combined(value: float, *both: tuple[float, float]) -> tuple[float, float]:
    """The ends of two intervals around `value`, their distances added as those of errors are."""
    below = math.hypot(*(max(0.0, value - low) for low, _ in both))
    above = math.hypot(*(max(0.0, high - value) for _, high in both))
    return value - below, value + above


def _verdict(plain: Estimate, wider: Estimate, share: float, refused: float) -> str:
    if plain.verdict.startswith(("unusable", "doubtful")):
        return plain.verdict
    if refused > REFUSED:
        return (
            f"doubtful: the data contradict {refused:.0%} of the propensities that the estimate "
            "allows"
        )
    words = verdict(
        wider.value,
        wider.interval,
        rows=wider.rows,
        heaviest=(wider.rows, 0.0),
        at_most=METRICS[split(wider.metric)[0]].at_most,
        caution=ESTIMATORS[wider.estimator].caution,
        advice="",
    )
    because = f"; {share:.0%} of the variance is due to the propensities"
    return words + because if share > 0.5 and words.startswith(("wide", "unusable")) else words
