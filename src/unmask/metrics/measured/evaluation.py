"""Measured estimates beside those of a mask model, in one table that is judged as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import scipy.sparse as sp

from unmask import _validation
from unmask._typing import LabelsLike
from unmask.data.judgements import Judgements
from unmask.metrics.judgement import judge_run
from unmask.metrics.measured.covariates import CovariatesLike
from unmask.metrics.measured.estimating import MEASURED, measure
from unmask.metrics.measured.spurious import spurious
from unmask.metrics.registry import METRICS, MICRO
from unmask.metrics.run import Run
from unmask.metrics.table import Estimate, Table
from unmask.metrics.verdict import Reason, claim
from unmask.predictions import TopK
from unmask.propensity.source import Source


def beside_measured(
    top: TopK,
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
    top : TopK
        Predictions.
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    audit : Judgements
        What was judged.
    metrics : sequence of str
        Metrics over rows and micro metrics are measured, all are stated.
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
    observed = _validation.labels(labels)
    measured = with_spurious_rate(
        measure(
            top, observed, audit, metrics=[m for m in metrics if _is_measured(m)],
            confidence=confidence, covariates=covariates,
        ),
        audit, observed, confidence,
    )  # fmt: skip
    others = None if estimators is None else [e for e in estimators if e != MEASURED]
    names = list(metrics)
    run = run_of_audit(observed, confidence)
    if not names or others == []:
        return Table(tuple(measured), run)
    table = stated(names, others)
    run = table.run or run
    return judge_run(Table((*measured, *map(observed_only, table)), replace(run, evidence=())))


def _is_measured(name: str) -> bool:
    """Metrics per label and ratios are stated only."""
    metric = name.partition("@")[0]
    return METRICS[metric].over == "rows" or metric in MICRO


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
    if each.verdict.reason is not Reason.OBSERVED_LABELS:
        return each
    return replace(each, verdict=claim(each.estimator, complete=False))


def run_of_audit(labels: sp.csr_array, confidence: float) -> Run:
    """What is known of a run that only measures: its rows, and no propensities."""
    empty = int((labels.indptr[1:] == labels.indptr[:-1]).sum())
    return Run(Source(), labels.shape[0], empty, confidence)
