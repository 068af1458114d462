"""`evaluate`: all that predictions can be asked about incomplete labels, in one call.

A request goes through the doors that it needs, each of which hands simpler rows to the next: labels
are closed under a hierarchy, cut into groups, rid of judged pairs; an audit measures; what is left
is estimated from the stated propensities, once for each vector that they allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Unpack, cast, overload

import numpy as np

from unmask import _validation
from unmask._typing import LabelsLike, PropensityLike
from unmask.data import Dataset, Hierarchy
from unmask.data.judgements import Judgements
from unmask.metrics import closure, mask_tables, perturbation, propensity_uncertainty
from unmask.metrics.evaluator import evaluate_once
from unmask.metrics.groups import Part, by_group, by_label_group
from unmask.metrics.inputs import (
    Predictions,
    as_top,
    default_estimators,
    default_metrics,
    of_scores,
    refuse_ignored,
)
from unmask.metrics.judged_pairs import judged_pairs
from unmask.metrics.judgement import judge_run
from unmask.metrics.measured.covariates import CovariatesLike
from unmask.metrics.measured.evaluation import beside_measured
from unmask.metrics.options import (
    AuditedOptions,
    EvaluatorOptions,
    GroupedAuditedOptions,
    GroupedOptions,
)
from unmask.metrics.propensity_uncertainty import Drawn
from unmask.metrics.registry import METRICS, split
from unmask.metrics.table import Estimate, Table, Tables
from unmask.predictions import LabelSets
from unmask.propensity import MaskModel, PropensityEstimate


@overload
def evaluate(
    top: Predictions,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | PropensityEstimate | None = None,
    **options: Unpack[AuditedOptions],
) -> Table: ...


@overload
def evaluate(
    top: Predictions,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | PropensityEstimate | None = None,
    **options: Unpack[GroupedAuditedOptions],
) -> Tables: ...


def evaluate(
    top: Predictions,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | PropensityEstimate | None = None,
    *,
    metrics: Sequence[str] | None = None,
    estimators: Sequence[str] | None = None,
    draws: int = propensity_uncertainty.DRAWS,
    audit: Judgements | None = None,
    covariates: CovariatesLike | None = None,
    hierarchy: Hierarchy | None = None,
    **options: Unpack[GroupedOptions],
) -> Table | Tables:
    """Estimate metrics of rankings and sets from observed labels, with their uncertainty.

    Parameters
    ----------
    top : TopK, LabelSets or (n, L) scores
        Predictions; of scores, dense or sparse, the top is taken.
    labels : (n, L) matrix of 0 and 1, or Dataset
        The observed labels, dense or sparse; of a data set, its judgements are obeyed: ignored
        pairs leave the ranking, verified labels are certain (`judged_pairs`). Predictions that
        have ids or names as the data set has are matched by them, in whatever order they stand.
    propensity : (L,) floats in (0, 1], (n, L) sparse matrix or PropensityEstimate, optional
        How likely a true label is observed: per label, or per observed label. An estimate (from
        an audit, say) widens errors and intervals by what is not known of it: the rows are
        evaluated with `draws` more vectors (`propensity_uncertainty`). Pass its `.value` to leave
        that out. A MaskModel also states row effort and unannotated rows, by which `deconvolved`
        is fitted.
    metrics : sequence of str, optional
        Names in `METRICS`, with a cut-off where they need one; by default P, R and nDCG at 1, 3
        and 5, of sets those of `OF_SETS`.
    estimators : sequence of str, optional
        Names in `ESTIMATORS`, each used for the metrics that it can estimate; by default vanilla
        and, with propensities, unbiased.
    draws : int, default 100
        How many vectors are drawn from an estimate.
    audit : Judgements, optional
        Of a plan of `unmask.audit`: every metric gets a `measured` estimate, which assumes nothing
        of what hid the labels; micro-P, micro-R and micro-F1 can be asked for, too. Estimates
        that the audit contradicts become doubtful.
    covariates : CovariatesLike, optional
        With an audit, what else is known of all rows or pairs, such as the answers of another
        judge; it can only narrow measured estimates, not bias them.
    hierarchy : Hierarchy, optional
        Labels and predictions (sets or scores) are evaluated with all their ancestors (`closure`);
        corrected numbers are then doubtful.
    **options : EvaluatorOptions
        confidence, interval, replicates, seed, tau, clip, fraction and information, as in
        `Evaluator`; and
        `groups`, a name for each of n rows, `label_groups`, one for each of L labels, or
        `by="label"`, every label being a group.

    Returns
    -------
    Table
        By (metric, estimator): value, standard error, interval and verdict. With groups, `Tables`
        by name of group: `tables["1999"]["micro-F1", "unbiased"].details["differs"]`.

    Raises
    ------
    ValueError
        If names, shapes or numbers are not as above, or there are no rows.

    References
    ----------
    Schultheis & Babbar, *Unbiased loss functions for multilabel classification with missing
    labels*, 2021.

    Examples
    --------
    Two true labels, each seen with probability 1/3, the first predicted: the true recall is 1/2.
    When both are seen, unbiased recall is −3/2, when only the first is, 3.

    >>> from unmask import TopK
    >>> top = TopK([[0], [0]], [[1.0], [1.0]])
    >>> observed = [[1, 1, 0], [1, 0, 0]]
    >>> table = evaluate(top, observed, [1 / 3] * 3, metrics=["R@1"])
    >>> table["R@1", "vanilla"].value, round(table["R@1", "unbiased"].value, 12)
    (0.75, 0.75)
    """
    if audit is not None and not isinstance(audit, Judgements):
        raise ValueError(
            f"an audit is judgements of a random sample (`audit.from_rows`, `audit.from_pairs`); "
            f"got {type(audit).__name__}. Answers about pairs that were chosen by score repair the "
            "data (`missing.complete`), but pairs that were never asked about would be left out of "
            "every metric."
        )
    names = default_metrics(top) if metrics is None else metrics
    if hierarchy is not None:
        closure.refuse_audit(audit)
        closed = closure.closed(hierarchy, top, labels, propensity)
        return closure.doubted(
            evaluate(
                closed.predictions, closed.labels, closed.propensity, metrics=names,
                estimators=estimators, draws=draws, **options,
            )
        )  # fmt: skip
    groups, label_groups = options.pop("groups", None), options.pop("label_groups", None)
    if (by := options.pop("by", None)) is not None:
        _validation.one_of(by, ["label"], "by")
        label_groups = _label_names(top, labels)
    request = _Request(names, estimators, draws, cast(EvaluatorOptions, options))
    if groups is None and label_groups is None:
        return _of_rows(request, top, labels, propensity, audit, covariates)
    if audit is not None or (groups is not None and label_groups is not None):
        raise ValueError(
            "give groups of rows or of labels, and no audit: an audit is planned for all rows."
        )
    if isinstance(labels, Dataset):
        raise ValueError(MATRICES)
    of_part, whole = partial(_of_part, request), (top, labels, propensity)
    if groups is not None:
        return by_group(of_part, whole, groups)
    return by_label_group(of_part, whole, () if label_groups is None else label_groups)


@dataclass(frozen=True)
class _Request:
    """What is asked about rows, whatever rows those are."""

    metrics: Sequence[str]
    estimators: Sequence[str] | None
    draws: int
    options: EvaluatorOptions

    @property
    def confidence(self) -> float:
        """Of intervals."""
        return self.options.get("confidence", 0.95)


def _of_part(request: _Request, part: Part) -> Table:
    """The table of a group."""
    return _of_rows(request, *part)


def _of_rows(
    request: _Request,
    top: Predictions,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | None,
    audit: Judgements | None = None,
    covariates: CovariatesLike | None = None,
) -> Table:
    """One table; judged pairs are obeyed, and an audit is measured by."""
    if (pairs := judged_pairs(labels)) is not None:
        refuse_ignored(request.metrics, pairs.pairs.ignored.nnz)
        rows = pairs.predictions(top), pairs.labels, pairs.propensity(propensity)
        return pairs.noted(_of_rows(request, *rows, audit, covariates))
    if audit is None:
        return _stated(request, top, labels, propensity)
    return beside_measured(
        top, labels, audit, request.metrics,
        covariates=covariates, confidence=request.confidence, estimators=request.estimators,
        stated=lambda metrics, possible: _stated(
            replace(request, metrics=metrics, estimators=possible), top, labels, propensity
        ),
    )  # fmt: skip


def _stated(
    request: _Request, top: Predictions, labels: LabelsLike, propensity: PropensityLike | None
) -> Table:
    """What the labels say under the stated propensities, and under vectors drawn from them."""
    metrics, options = request.metrics, request.options
    estimators = request.estimators or default_estimators(propensity)
    quick: EvaluatorOptions = {**options, "interval": "normal"}
    by_place = isinstance(propensity, PropensityEstimate | MaskModel) and not of_scores(metrics)
    listed = as_top(top, metrics) if by_place else top

    def once(p: PropensityLike | None, settings: EvaluatorOptions) -> Table:
        def evaluated(propensities: PropensityLike | None) -> Table:
            made = evaluate_once(listed, labels, propensities, metrics, estimators, settings)
            return made.unjudged()

        if isinstance(p, MaskModel) and mask_tables.needs_more(p):
            return mask_tables.table_by(p, as_top(listed, metrics), top, labels, evaluated)
        return evaluated(p)

    def evaluation(p: PropensityLike | None, drawn: Drawn) -> Iterator[dict[str, Table]]:
        yield {"": once(p, options)}
        for vector in drawn:
            yield {"": once(vector, quick)}

    tables = propensity_uncertainty.with_uncertainty(
        evaluation,
        propensity,
        draws=request.draws,
        seed=options.get("seed", 0),
        confidence=request.confidence,
        interval=options.get("interval", "normal"),
    )
    table = judge_run(tables[""])
    complete = table.run is None or table.run.complete
    if propensity is None or complete or mask_tables.needs_more(propensity):
        return table
    again = _Again(top, labels, propensity, options)
    return replace(table, estimates=tuple(map(again.based, table)))


MATRICES = "groups are formed of matrices; give the labels of the data set."


def _label_names(top: Predictions, labels: LabelsLike | Dataset) -> Sequence[str]:
    """The names of labels, or their numbers."""
    if isinstance(top, LabelSets) and top.names is not None:
        return top.names
    if isinstance(labels, Dataset):
        raise ValueError(MATRICES)
    count = _validation.width(labels, "labels")
    return [str(label) for label in range(count)]


@dataclass(frozen=True)
class _Again:
    """The rows of a call, kept for what only they can tell: how far unbiased estimates move."""

    predictions: Predictions
    labels: LabelsLike
    propensity: PropensityLike
    options: EvaluatorOptions

    def based(self, each: Estimate) -> Estimate:
        """The estimate, with the rows if its sensitivity needs them."""
        if each.estimator != "unbiased" or each.basis is not None or not np.isfinite(each.value):
            return each
        metric, k = split(each.metric)
        about = METRICS[metric]
        if about.over == "labels" or about.reads != "list":
            return each
        top = as_top(self.predictions, [each.metric])
        again = partial(_value_again, self, each.metric)
        rows = (top, self.labels, self.propensity)
        return replace(each, basis=perturbation.FromRows(k or top.k, each.value, *rows, again))


def _value_again(rows: _Again, metric: str, propensity: PropensityLike) -> float:
    quick: EvaluatorOptions = {**rows.options, "interval": "normal"}
    evaluator = evaluate_once(
        rows.predictions, rows.labels, propensity, [metric], ["unbiased"], quick
    )
    return evaluator.unjudged()[metric, "unbiased"].value
