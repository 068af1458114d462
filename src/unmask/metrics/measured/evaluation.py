"""Measured estimates beside those of a mask model, in one table that is judged as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import scipy.sparse as sp

from unmask._typing import LabelsLike
from unmask.arrays import checks
from unmask.data.judgements import Judgements
from unmask.metrics.claims import Reason, Run, claim, judge_run
from unmask.metrics.measured.by_influence import Signed, by_influence
from unmask.metrics.measured.covariates import CovariatesLike
from unmask.metrics.measured.estimating import MEASURED, checked_audit, measure
from unmask.metrics.measured.spurious import spurious
from unmask.metrics.registry import METRICS, MICRO, split
from unmask.metrics.request import Predictions, as_top
from unmask.metrics.table import Estimate, Table
from unmask.propensity.models import Source


def beside_measured(
    top: Predictions,
    labels: LabelsLike,
    audit: Judgements,
    metrics: Sequence[str],
    stated: Callable[[Sequence[str], Sequence[str] | None], Table],
    *,
    estimators: Sequence[str] | None = None,
    confidence: float = 0.95,
    covariates: CovariatesLike | None = None,
) -> Table:
    """Measured estimates first, then those that are stated; judged together.

    Parameters
    ----------
    top : TopK, LabelSets or (n, L) scores
        Predictions.
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    audit : Judgements
        What was judged.
    metrics : sequence of str
        All are measured, as far as the audit judged what they need, and stated.
    stated : function of metrics and estimators
        Makes the table of stated estimates.
    estimators : sequence of str, optional
        The stated estimators; "measured" may stand among them, or alone.
    confidence : float, default 0.95
        Of the intervals.
    covariates : CovariatesLike, optional
        As in `measure`.

    Returns
    -------
    Table
    """
    observed = checks.labels(labels)
    about = checked_audit(audit, observed, confidence, covariates)
    by_rows = [name for name in metrics if adds_rows_up(name)]
    made = {}
    if by_rows:
        tops = as_top(top, by_rows)
        for each in measure(
            tops, observed, audit, metrics=by_rows, confidence=confidence, covariates=covariates
        ):
            made[each.metric] = each
    for name in metrics:
        if name not in made:
            made[name] = by_influence(about, name, [Signed(top, 1.0)])
    measured = with_spurious_rate([made[name] for name in metrics], audit, observed, confidence)
    others = None if estimators is None else [e for e in estimators if e != MEASURED]
    names = list(metrics)
    run = run_of_audit(observed, confidence)
    if not names or others == []:
        return Table(tuple(measured), run)
    table = stated(names, others)
    run = table.run or run
    return judge_run(Table((*measured, *map(observed_only, table)), run))


def adds_rows_up(name: str) -> bool:
    """Whether judged rows or pairs add up to a metric; others are measured by influences.

    >>> adds_rows_up("R@5"), adds_rows_up("micro-F1"), adds_rows_up("mAP"), adds_rows_up("LRAP")
    (True, True, False, False)
    """
    metric = split(name)[0]
    about = METRICS[metric]
    return about.reads == "list" and (about.over == "rows" or metric in MICRO)


def with_spurious_rate(
    measured: Iterable[Estimate], audit: Judgements, labels: sp.csr_array, confidence: float
) -> list[Estimate]:
    """The estimates, with the share of wrong observed labels where some were judged.

    Parameters
    ----------
    measured : iterable of Estimate
    audit : Judgements
    labels : csr_array of shape (n, L), validated
    confidence : float

    Returns
    -------
    list of Estimate
        `details["spurious"]` and `details["spurious_low"]`.
    """
    rate = spurious(audit, labels, confidence=confidence)
    if not rate.judged:
        return list(measured)
    about = {"spurious": rate.value, "spurious_low": rate.interval[0]}
    return [replace(each, details={**each.details, **about}) for each in measured]


def observed_only(each: Estimate) -> Estimate:
    """Observed labels are not complete where an audit was thought worth its cost."""
    claimed = claim(each.estimator, complete=False)
    if each.verdict.reason is Reason.WIDE and claimed.level > each.verdict.level:
        about = {**claimed.details, **each.verdict.details}
        return replace(each, verdict=replace(claimed, details=about))
    if each.verdict.reason is not Reason.OBSERVED_LABELS:
        return each
    return replace(each, verdict=claimed)


def run_of_audit(labels: sp.csr_array, confidence: float) -> Run:
    """What is known of a run that only measures: its rows, and no propensities."""
    empty = int((labels.indptr[1:] == labels.indptr[:-1]).sum())
    return Run(Source(), labels.shape[0], empty, confidence)
