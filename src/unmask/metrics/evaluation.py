"""`evaluate`: all that predictions can be asked about incomplete labels, in one call.

A request goes through the doors that it needs, each of which hands simpler rows to the next: labels
are closed under a hierarchy, cut into groups, rid of judged pairs; an audit measures; what is left
is estimated from the stated propensities, once for each vector that they allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from unmask._messages import named_options
from unmask._typing import LabelsLike, PropensityLike
from unmask.arrays import LabelSets, checks
from unmask.data import Dataset, Hierarchy
from unmask.data.judgements import Judgements
from unmask.metrics import closure, mask_tables, perturbation, propensity_uncertainty
from unmask.metrics.evaluator import evaluate_once
from unmask.metrics.groups import Part, by_group, by_label_group
from unmask.metrics.inputs import Predictions, as_top, of_scores, refuse_ignored
from unmask.metrics.judged_pairs import judged_pairs
from unmask.metrics.judgement import judge_run
from unmask.metrics.measured.covariates import CovariatesLike
from unmask.metrics.measured.evaluation import beside_measured
from unmask.metrics.propensity_uncertainty import Drawn
from unmask.metrics.registry import METRICS, split
from unmask.metrics.request import Request, default_estimators, default_metrics
from unmask.metrics.table import Estimate, Table, Tables
from unmask.propensity import MaskModel, PropensityEstimate


@overload
def evaluate(
    top: Predictions,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | PropensityEstimate | None = ...,
    *,
    metrics: Sequence[str] | None = ...,
    estimators: Sequence[str] | None = ...,
    confidence: float = ...,
    interval: str = ...,
    replicates: int = ...,
    seed: int = ...,
    tau: float | str = ...,
    clip: float = ...,
    fraction: float = ...,
    information: ArrayLike | None = ...,
    complete: bool = ...,
    draws: int = ...,
    audit: Judgements | None = ...,
    covariates: CovariatesLike | None = ...,
    hierarchy: Hierarchy | None = ...,
) -> Table: ...


@overload
def evaluate(
    top: Predictions,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | PropensityEstimate | None = ...,
    *,
    metrics: Sequence[str] | None = ...,
    estimators: Sequence[str] | None = ...,
    confidence: float = ...,
    interval: str = ...,
    replicates: int = ...,
    seed: int = ...,
    tau: float | str = ...,
    clip: float = ...,
    fraction: float = ...,
    information: ArrayLike | None = ...,
    complete: bool = ...,
    draws: int = ...,
    audit: Judgements | None = ...,
    covariates: CovariatesLike | None = ...,
    hierarchy: Hierarchy | None = ...,
    groups: Sequence[object] | None = ...,
    label_groups: Sequence[object] | None = ...,
    by: Literal["label"] | None = ...,
) -> Tables: ...


@named_options
def evaluate(
    top: Predictions,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | PropensityEstimate | None = None,
    *,
    metrics: Sequence[str] | None = None,
    estimators: Sequence[str] | None = None,
    confidence: float = 0.95,
    interval: str = "normal",
    replicates: int = 1000,
    seed: int = 0,
    tau: float | str = "auto",
    clip: float = 10.0,
    fraction: float = 0.01,
    information: ArrayLike | None = None,
    complete: bool = False,
    draws: int = 100,
    audit: Judgements | None = None,
    covariates: CovariatesLike | None = None,
    hierarchy: Hierarchy | None = None,
    groups: Sequence[object] | None = None,
    label_groups: Sequence[object] | None = None,
    by: Literal["label"] | None = None,
) -> Table | Tables:
    """Estimate metrics of rankings and sets from observed labels, with their uncertainty.

    Parameters
    ----------
    top : TopK, LabelSets or (n, L) scores
        Predictions; of scores, dense or sparse, the top is taken.
    labels : (n, L) matrix of 0 and 1, or Dataset
        The observed labels, dense or sparse; of a data set, its judgements are obeyed: ignored
        pairs leave the ranking, verified labels are certain (`judged_pairs`). Predictions that
        have ids or names as the data set has are matched by them, in whatever order they stand;
        rows of a matrix are matched by position.
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
    confidence, interval, replicates, seed, tau, clip, fraction, information
        As in `Evaluator`.
    complete : bool, default False
        Whether no label is missing. Else numbers without propensities and audit are `doubtful`:
        they speak of recorded labels. Propensities that are all 1 say the same.
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
    groups : sequence of n names, optional
        The group of every row: a table for each.
    label_groups : sequence of L names, optional
        The group of every label: a table for each, in place of groups of rows.
    by : "label", optional
        A table for every label.

    Returns
    -------
    Table
        By (metric, estimator): value, standard error, interval and verdict. With groups, `Tables`
        by name of group: `tables["1999"]["micro-F1", "unbiased"].details["differs"]`.

    Raises
    ------
    ValueError
        If names, shapes or numbers are not as above, an option has no effect, or there are no
        rows.

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
    request = Request(
        default_metrics(top) if metrics is None else metrics,
        estimators or default_estimators(propensity),
        confidence, interval, replicates, seed, tau, clip, fraction, information, complete,
        draws, audit, covariates, hierarchy, groups, label_groups, by,
    )  # fmt: skip
    return _answer(request.checked(propensity), top, labels, propensity)


def _answer(
    request: Request,
    top: Predictions,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | None,
) -> Table | Tables:
    """Answer a checked request: one table, or one for every group."""
    if request.hierarchy is not None:
        closed = closure.closed(request.hierarchy, top, labels, propensity)
        rows = closed.predictions, closed.labels, closed.propensity
        return closure.doubted(_answer(replace(request, hierarchy=None), *rows))
    groups, label_groups = request.groups, request.label_groups
    if request.by is not None:
        label_groups = _label_names(top, labels)
    if groups is None and label_groups is None:
        return table_of(request, top, labels, propensity)
    if isinstance(labels, Dataset):
        raise ValueError(MATRICES)
    of_part, whole = partial(_of_part, request), (top, labels, propensity)
    if groups is not None:
        return by_group(of_part, whole, groups)
    return by_label_group(of_part, whole, () if label_groups is None else label_groups)


def _of_part(request: Request, part: Part) -> Table:
    """The table of a group."""
    return table_of(request, *part)


def table_of(
    request: Request,
    top: Predictions,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | None,
) -> Table:
    """Make one table; judged pairs are obeyed, and an audit is measured by."""
    if (pairs := judged_pairs(labels)) is not None:
        refuse_ignored(request.metrics, pairs.pairs.ignored.nnz)
        rows = pairs.predictions(top), pairs.labels, pairs.propensity(propensity)
        return pairs.noted(table_of(request, *rows))
    if request.audit is None:
        return _stated(request, top, labels, propensity)
    return beside_measured(
        top, labels, request.audit, request.metrics,
        covariates=request.covariates, confidence=request.confidence,
        estimators=request.estimators,
        stated=lambda metrics, estimators: _stated(
            replace(request, metrics=metrics, estimators=estimators or (), audit=None),
            top, labels, propensity,
        ),
    )  # fmt: skip


def _stated(
    request: Request, top: Predictions, labels: LabelsLike, propensity: PropensityLike | None
) -> Table:
    """What the labels say under the stated propensities, and under vectors drawn from them."""
    metrics, quick = request.metrics, replace(request, interval="normal")
    by_place = isinstance(propensity, PropensityEstimate | MaskModel) and not of_scores(metrics)
    listed = as_top(top, metrics) if by_place else top

    def once(p: PropensityLike | None, asked: Request) -> Table:
        def evaluated(propensities: PropensityLike | None) -> Table:
            return evaluate_once(asked, listed, labels, propensities).unjudged()

        if isinstance(p, MaskModel) and mask_tables.needs_more(p):
            return mask_tables.table_by(p, as_top(listed, metrics), top, labels, evaluated)
        return evaluated(p)

    def evaluation(p: PropensityLike | None, drawn: Drawn) -> Iterator[dict[str, Table]]:
        yield {"": once(p, request)}
        for vector in drawn:
            yield {"": once(vector, quick)}

    tables = propensity_uncertainty.with_uncertainty(
        evaluation,
        propensity,
        draws=request.draws,
        seed=request.seed,
        confidence=request.confidence,
        interval=request.interval,
    )
    table = judge_run(tables[""])
    complete = table.run is None or table.run.complete
    if propensity is None or complete or mask_tables.needs_more(propensity):
        return table
    again = _Again(top, labels, propensity, quick)
    return replace(table, estimates=tuple(map(again.based, table)))


MATRICES = "groups are formed of matrices; give the labels of the data set."


def _label_names(top: Predictions, labels: LabelsLike | Dataset) -> Sequence[str]:
    """The names of labels, or their numbers."""
    if isinstance(top, LabelSets) and top.names is not None:
        return top.names
    if isinstance(labels, Dataset):
        raise ValueError(MATRICES)
    count = checks.width(labels, "labels")
    return [str(label) for label in range(count)]


@dataclass(frozen=True)
class _Again:
    """The rows of a call, kept for what only they can tell: how far unbiased estimates move."""

    predictions: Predictions
    labels: LabelsLike
    propensity: PropensityLike
    quick: Request

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
    asked = replace(rows.quick, metrics=(metric,), estimators=("unbiased",))
    evaluator = evaluate_once(asked, rows.predictions, rows.labels, propensity)
    return evaluator.unjudged()[metric, "unbiased"].value
