"""Evaluate predictions against incomplete labels: in one call, or shard by shard.

Every metric and estimator comes from one pass over the rows. `Evaluator` keeps sums whose size
does not depend on the number of rows, and adds them exactly: batches, shards and workers, in any
order, give to the last bit what one call on all rows gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask import _validation
from unmask._settings import setting
from unmask._typing import Array, Floats, LabelsLike, PropensityLike, ScoresLike
from unmask.data import Dataset
from unmask.data.judgements import Judgements
from unmask.metrics import (
    estimates,
    mask_tables,
    perturbation,
    plan,
    propensity_uncertainty,
    scored,
    state,
)
from unmask.metrics.groups import Part, by_group, by_label_group
from unmask.metrics.intervals import INTERVALS
from unmask.metrics.judged_pairs import judged_pairs
from unmask.metrics.judgement import judge_run
from unmask.metrics.options import EvaluatorOptions, GroupedOptions
from unmask.metrics.plan import Plan
from unmask.metrics.propensity_uncertainty import Drawn
from unmask.metrics.registry import METRICS, split
from unmask.metrics.run import Run
from unmask.metrics.table import Estimate, Table, Tables
from unmask.predictions import LabelSets, TopK
from unmask.propensity import MaskModel, PropensityEstimate
from unmask.propensity.models import reciprocal
from unmask.propensity.source import Source, SourceKind, source_of

if TYPE_CHECKING:
    from unmask.metrics.measured.covariates import CovariatesLike


Predictions: TypeAlias = "TopK | LabelSets | ScoresLike"
"""The best labels of every row, a set of them, or scores of all."""

OF_SETS = ("sample-P", "sample-R", "sample-F1", "micro-P", "micro-R", "micro-F1", "macro-F1")
"""What is estimated of sets if nothing is said."""


@overload
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
    **options: Unpack[EvaluatorOptions],
) -> Table: ...


@overload
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
    **options: Unpack[GroupedOptions],
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
    **options : EvaluatorOptions
        confidence, interval, replicates, seed, tau, clip and fraction, as in `Evaluator`; and
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

    >>> top = TopK([[0], [0]], [[1.0], [1.0]])
    >>> observed = [[1, 1, 0], [1, 0, 0]]
    >>> table = evaluate(top, observed, [1 / 3] * 3, metrics=["R@1"])
    >>> table["R@1", "vanilla"].value, round(table["R@1", "unbiased"].value, 12)
    (0.75, 0.75)
    """
    if metrics is None:
        metrics = default_metrics(top)
    groups, label_groups = options.pop("groups", None), options.pop("label_groups", None)
    if (by := options.pop("by", None)) is not None:
        _validation.one_of(by, ["label"], "by")
        label_groups = _label_names(top, labels)
    plain = cast(EvaluatorOptions, options)
    if groups is not None or label_groups is not None:
        names = list(metrics)

        def of_part(part: Part) -> Table:
            predictions, observed, p = part
            table: Table = evaluate(
                predictions, observed, p, metrics=names, estimators=estimators, draws=draws, **plain
            )
            return table

        return _by_groups(of_part, (top, labels, propensity), groups, label_groups, audit)
    if (pairs := judged_pairs(labels)) is not None:
        refuse_ignored(metrics, pairs.pairs.ignored.nnz)
        table = evaluate(
            pairs.predictions(top), pairs.labels, pairs.propensity(propensity), metrics=metrics,
            estimators=estimators, draws=draws, audit=audit, covariates=covariates, **plain,
        )  # fmt: skip
        return pairs.noted(table)
    if audit is not None:
        from unmask.metrics.measured.evaluation import beside_measured  # made of this module

        return beside_measured(
            as_top(top, metrics), labels, audit, metrics, covariates=covariates,
            confidence=plain.get("confidence", 0.95), estimators=estimators,
            stated=lambda names, known: evaluate(
                top, labels, propensity, metrics=names, estimators=known, draws=draws, **plain
            ),
        )  # fmt: skip
    chosen, scores = estimators or default_estimators(propensity), top
    again = None if propensity is None else _Again(top, labels, propensity, plain)
    if isinstance(propensity, PropensityEstimate | MaskModel) and not of_scores(metrics):
        top = as_top(top, metrics)
    quick: EvaluatorOptions = {**plain, "interval": "normal"}

    def once(p: PropensityLike | None, settings: EvaluatorOptions) -> Table:
        def evaluated(known: PropensityLike | None) -> Table:
            return evaluate_once(top, labels, known, metrics, chosen, settings).unjudged()

        if isinstance(p, MaskModel) and mask_tables.needs_more(p):
            return mask_tables.table_by(p, as_top(top, metrics), scores, labels, evaluated)
        return evaluated(p)

    def evaluation(p: PropensityLike | None, drawn: Drawn) -> Iterator[dict[str, Table]]:
        yield {"": once(p, plain)}
        for vector in drawn:
            yield {"": once(vector, quick)}

    tables = propensity_uncertainty.with_uncertainty(
        evaluation,
        propensity,
        draws=draws,
        seed=plain.get("seed", 0),
        confidence=plain.get("confidence", 0.95),
        interval=plain.get("interval", "normal"),
    )
    table = judge_run(tables[""])
    if mask_tables.needs_more(propensity):
        return table
    if again is None or table.run is None or table.run.complete:
        return table
    return replace(table, estimates=tuple(map(again.based, table)))


def _label_names(top: Predictions, labels: LabelsLike | Dataset) -> Sequence[str]:
    """The names of labels, or their numbers."""
    if isinstance(top, LabelSets) and top.names is not None:
        return top.names
    if isinstance(labels, Dataset):
        raise ValueError("groups are formed of matrices; give the labels of the data set.")
    count = _validation.width(labels, "labels")
    return [str(label) for label in range(count)]


def _by_groups(
    of_part: Callable[[Part], Table],
    whole: Part,
    groups: Sequence[object] | None,
    label_groups: Sequence[object] | None,
    audit: Judgements | None,
) -> Tables:
    """Tables by group of rows or of labels."""
    if audit is not None or (groups is not None and label_groups is not None):
        raise ValueError(
            "give groups of rows or of labels, and no audit: an audit is planned for all rows."
        )
    if isinstance(whole[1], Dataset):
        raise ValueError("groups are formed of matrices; give the labels of the data set.")
    if groups is not None:
        return by_group(of_part, whole, groups)
    return by_label_group(of_part, whole, label_groups or ())


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


def evaluate_once(
    top: Predictions,
    labels: LabelsLike,
    propensity: PropensityLike | None,
    metrics: Sequence[str],
    estimators: Sequence[str],
    options: EvaluatorOptions,
) -> Evaluator:
    """An `Evaluator` that has taken in all rows, whatever form the propensities have."""
    sparse = sp.issparse(propensity)
    evaluator = Evaluator(
        None if sparse else propensity, metrics=metrics, estimators=estimators, **options
    )
    return evaluator.update(top, labels, entry_propensity=propensity if sparse else None)


def contributions(
    top: Predictions,
    labels: LabelsLike,
    propensity: PropensityLike | None = None,
    *,
    metrics: Sequence[str],
    estimators: Sequence[str] = ("vanilla",),
    **options: Unpack[EvaluatorOptions],
) -> dict[tuple[str, str], Floats]:
    """What every row contributes: the number whose mean over rows `evaluate` reports.

    Parameters
    ----------
    top, labels, propensity, metrics, **options
        As in `evaluate`.
    estimators : sequence of str, default ("vanilla",)
        Only estimates that are means over rows are given, and metrics of the scores of all rows,
        to which a row contributes value + n · influence: not ratios, metrics per label,
        `filtered`, or a chosen τ.

    Returns
    -------
    dict of (metric, estimator) to (n,) floats
        A number beyond ±1e140 is given as that (and `evaluate` then refuses the estimate).

    Raises
    ------
    ValueError
        As `evaluate`: names that do not exist, shapes that do not fit, values out of range.

    Examples
    --------
    >>> top = TopK([[0], [0]], [[1.0], [1.0]])
    >>> rows = contributions(top, [[1, 1], [1, 0]], [1 / 3, 1 / 3], metrics=["R@1"],
    ...                      estimators=["unbiased"])
    >>> rows["R@1", "unbiased"].round(12)
    array([-1.5,  3. ])
    """
    evaluator = Evaluator(
        None if sp.issparse(propensity) else propensity,
        metrics=metrics,
        estimators=estimators,
        **options,
    )
    entries = propensity if sp.issparse(propensity) else None
    new_plan, n_labels, sums = evaluator._pass(top, labels, entries, 0, keep_all=True)
    rows = {
        (cell.name, cell.estimator): sums.kept[0][:, new_plan.column(cell.keys[0], cell.k)]
        for cell in new_plan.cells
        if len(cell.keys) == 1 and cell.estimator != "filtered"
    }
    evaluator._take(new_plan, n_labels, sums)
    for cell in new_plan.cells:
        if cell.about.over == "scores":
            made = estimates.linearized(cell, evaluator.summary())
            rows[cell.name, cell.estimator] = made.value + sums.rows * made.influence
    return rows


class Evaluator:
    """The same, one batch of rows at a time.

    Parameters
    ----------
    propensity : (L,) floats in (0, 1], optional
        One per label; needed by all estimators but vanilla. Propensities per observed label go
        to `update`.
    metrics : sequence of str
        Such as "R@5"; see `METRICS`.
    estimators : sequence of str, default ("vanilla",)
        See `ESTIMATORS`.
    confidence : float, default 0.95
        Of the intervals, in [0.5, 1).
    interval : str, default "normal"
        "normal", or "percentile" or "bca" from bootstrap replicates.
    replicates : int, default 1000
        How many.
    seed : int, default 0
        Of the bootstrap and of `subsampled`.
    tau : float or "auto", default "auto"
        For `tempered`, a number in [0, 1], or "auto" to let the data choose.
    clip : float, default 10
        For `clipped`, the largest 1/p used.
    fraction : float, default 0.01
        For `filtered`, the share of rows left out, half at either end.

    Notes
    -----
    Rows are numbered in the order in which they come. Only bootstrap intervals and `subsampled`
    depend on the numbers; a worker that has rows 1000 … 1999 says so by `first_row=1000`, and then
    the merged answer is that of one call. All other numbers are exact in any order.

    Examples
    --------
    >>> half = Evaluator(metrics=["P@1"]).update(TopK([[0]], [[1.0]]), [[1, 0]])
    >>> rest = Evaluator(metrics=["P@1"]).update(TopK([[0]], [[1.0]]), [[0, 1]])
    >>> half.merge(rest).compute()["P@1", "vanilla"].value
    0.5
    """

    def __init__(
        self,
        propensity: PropensityLike | None = None,
        *,
        metrics: Sequence[str],
        estimators: Sequence[str] = ("vanilla",),
        confidence: float = 0.95,
        interval: str = "normal",
        replicates: int = 1000,
        seed: int = 0,
        tau: float | str = "auto",
        clip: float = 10.0,
        fraction: float = 0.01,
    ) -> None:
        """Check the choices; no rows yet."""
        plan.check_names(metrics, estimators)
        _validation.one_of(interval, INTERVALS, "interval")
        _validation.in_range(confidence, "confidence", 0.5, 1 - 1e-9)
        _validation.in_range(clip, "clip", 1, np.inf)
        _validation.in_range(fraction, "fraction", 0, 0.99)
        _validation.in_range(
            _validation.positive_int(replicates, "replicates"), "replicates", 2, np.inf
        )
        if isinstance(tau, str):
            _validation.one_of(tau, ["auto"], "tau")
        else:
            _validation.in_range(tau, "tau", 0, 1)
        checked = None if propensity is None else _validation.propensity(propensity)
        self._inverse = None if checked is None else reciprocal(checked)
        self._source = source_of(propensity)
        self._effort = propensity.effort if isinstance(propensity, MaskModel) else None
        self._metrics, self._estimators = list(metrics), list(estimators)
        self._confidence, self._interval, self._replicates = confidence, interval, replicates
        self._seed, self._tau, self._clip, self._fraction = seed, tau, float(clip), fraction
        self._sums: _Sums | None = None

    def update(
        self,
        top: Predictions,
        labels: LabelsLike,
        *,
        first_row: int | None = None,
        entry_propensity: PropensityLike | None = None,
    ) -> Evaluator:
        """Take in rows.

        Parameters
        ----------
        top : TopK, LabelSets or (rows, L) scores
            Predictions.
        labels : (rows, L) matrix of 0 and 1
            The observed labels.
        first_row : int, optional
            The number of the first of these rows; by default they follow those before.
        entry_propensity : (rows, L) sparse matrix, optional
            A propensity per observed label, in place of those per label.

        Returns
        -------
        Evaluator
            Itself.
        """
        rows = 0 if self._sums is None else self._sums.state.rows
        first = rows if first_row is None else first_row
        if entry_propensity is not None:
            self._source = source_of(entry_propensity)
        self._take(*self._pass(top, labels, entry_propensity, first, keep_all=False))
        return self

    def merge(self, other: Evaluator) -> Evaluator:
        """Take in all rows of another evaluator with the same options. Returns itself."""
        if other._settings() != self._settings():
            raise ValueError(
                f"evaluators must have the same settings to merge; got {self._settings()} "
                f"and {other._settings()}."
            )
        if not np.array_equal(self._inverse, other._inverse):  # type: ignore[arg-type]
            raise ValueError("evaluators must have the same propensities to merge; give all one.")
        if self._source.kind is SourceKind.NONE:
            self._source = other._source
        if other._sums is not None:
            self._take(other._sums.plan, other._sums.n_labels, other._sums.state)
        return self

    def compute(self) -> Table:
        """The table of all rows taken in so far; more may follow."""
        return judge_run(self.unjudged())

    def unjudged(self) -> Table:
        """The same, every number judged by itself only."""
        summary = self.summary()
        numbers = [estimates.estimate(cell, summary) for cell in summary.plan.cells]
        based = tuple(
            replace(each, basis=perturbation.basis(cell, each.value, summary))
            for cell, each in zip(summary.plan.cells, numbers, strict=True)
        )
        return Table(based, self._run(summary.state))

    def _run(self, sums: state.State) -> Run:
        """What the numbers share."""
        return run_of(sums, self._source, self._confidence)

    def summary(self) -> estimates.Summary:
        """The sums behind the table."""
        if self._sums is None or self._sums.state.rows == 0:
            raise ValueError("there are no rows to evaluate; give at least one.")
        return estimates.Summary(
            self._sums.plan,
            self._sums.state,
            self._inverse,
            self._confidence,
            self._interval,
            self._replicates,
            self._seed,
            self._fraction,
            self._effort,
        )

    def _settings(self) -> dict[str, Any]:
        apart = ("_sums", "_inverse", "_source")
        return {name.lstrip("_"): v for name, v in vars(self).items() if name not in apart}

    def _take(self, new_plan: Plan, n_labels: int, new: state.State) -> None:
        if self._sums is None:
            counted, groups = n_labels if _per_label(new_plan) else 0, self._interval != "normal"
            self._sums = _Sums(new_plan, n_labels, state.empty(new_plan, counted, groups=groups))
        self._sums.refuse_other(new_plan, n_labels)
        self._sums.state.add(new)

    def _pass(
        self,
        top: Predictions,
        labels: LabelsLike,
        entries: PropensityLike | None,
        first_row: int,
        *,
        keep_all: bool,
    ) -> tuple[Plan, int, state.State]:
        """The plan that these rows need, the number of labels, and the sums over the rows."""
        observed = _validation.labels(labels)
        inverse = self._inverse_of(observed, entries)
        listed, scores = self._listed(top, observed), self._scores(top, observed)
        new_plan = plan.make(
            self._metrics,
            self._estimators,
            width=listed.shape[1],
            n_labels=observed.shape[1],
            tau=self._tau,
            clip=self._clip,
        )
        if entries is not None:
            _refuse_per_entry(new_plan)
        new = state.accumulate(
            new_plan,
            observed,
            listed,
            inverse,
            per_entry=entries is not None,
            first_row=first_row,
            kept_columns=(
                list(range(new_plan.columns)) if keep_all else estimates.kept_columns(new_plan)
            ),
            groups=self._interval != "normal",
            per_label=_per_label(new_plan),
            seed=self._seed,
            scores=scores,
        )
        return new_plan, observed.shape[1], new

    def _inverse_of(self, observed: sp.csr_array, entries: PropensityLike | None) -> Floats:
        """1/p per label, or per stored label if those are given; ones if nothing can be missing."""
        if entries is not None:
            return reciprocal(_validation.entry_propensity(entries, observed))
        if self._inverse is None:
            needy = [e for e in self._estimators if e != "vanilla"]
            if needy:
                raise ValueError(
                    f"{needy[0]} estimates need propensities; give them with "
                    f"{setting('propensity', of='evaluate')}."
                )
            return np.ones(observed.shape[1])
        if self._inverse.size != observed.shape[1]:
            raise ValueError(
                f"{self._inverse.size} propensities for {observed.shape[1]} labels; "
                "give one per label."
            )
        return self._inverse

    def _listed(self, top: Predictions, observed: sp.csr_array) -> NDArray[np.int32]:
        """The predicted labels, (n, width), of a `TopK`, sets or scores; none if nobody asks."""
        names = [name for name in self._metrics if METRICS[split(name)[0]].reads == "list"]
        if not names:
            return np.full((observed.shape[0], 1), -1, dtype=np.int32)
        top = as_top(top, names)
        _validation.same_rows(top.labels, observed, "predictions", "labels")
        largest = int(top.labels.max(initial=-1))
        if largest >= observed.shape[1]:
            raise ValueError(
                f"label {largest} is predicted, but there are {observed.shape[1]} labels; "
                "labels are numbered from 0."
            )
        return np.ascontiguousarray(top.labels)

    def _scores(self, top: Predictions, observed: sp.csr_array) -> Array | None:
        """The scores of every label, checked, if a metric reads them."""
        names = of_scores(self._metrics)
        if not names:
            return None
        if isinstance(top, TopK | LabelSets):
            raise ValueError(
                f"{names[0]} needs a score for every label; give the matrix of scores, not "
                f"{type(top).__name__}."
            )
        scores = scored.scores_of(top, observed, names[0])
        for name in names:
            if METRICS[name].reads == "probabilities":
                scored.refuse_no_probabilities(scores, name)
        return scores


@dataclass
class _Sums:
    """The plan that the first rows fixed, and what has been summed under it."""

    plan: Plan
    n_labels: int
    state: state.State

    def refuse_other(self, new_plan: Plan, n_labels: int) -> None:
        same = new_plan.starts == self.plan.starts and np.array_equal(new_plan.ks, self.plan.ks)
        if not same or n_labels != self.n_labels:
            raise ValueError(
                f"all rows must have the same labels and as many predictions; got {n_labels} "
                f"labels after {self.n_labels}, and up to {new_plan.ks[-1]} predictions after "
                f"{self.plan.ks[-1]}."
            )


def default_metrics(top: Predictions) -> list[str]:
    """What is estimated if nothing is said: P, R and nDCG of rankings, F1 and its like of sets."""
    if isinstance(top, LabelSets):
        return list(OF_SETS)
    width = top.k if isinstance(top, TopK) else _validation.width(top, "scores")
    if width < 1:
        raise ValueError("there are no predictions to evaluate; give at least one per row.")
    return [f"{name}@{k}" for k in (1, 3, 5) if k <= width for name in ("P", "R", "nDCG")]


def default_estimators(propensity: object) -> list[str]:
    """What is estimated by if nothing is said: vanilla and, with propensities, unbiased."""
    return ["vanilla"] if propensity is None else ["vanilla", "unbiased"]


def run_of(sums: state.State, source: Source, confidence: float) -> Run:
    """What the numbers of some rows share."""
    return Run(source, sums.rows, sums.empty_rows, confidence, sums.lost_share, sums.complete)


def of_scores(metrics: Sequence[str]) -> list[str]:
    """Those of the metrics that read the scores of every label."""
    return [name for name in metrics if METRICS[split(name)[0]].reads != "list"]


def refuse_ignored(metrics: Sequence[str], ignored: int) -> None:
    """Raise where pairs are to be ignored and a metric counts every pair."""
    counting = of_scores([name for name in metrics if name.partition("@")[0] in METRICS])
    if ignored and counting:
        raise ValueError(
            f"{', '.join(counting)} count every pair of a row and a label, but {ignored:,} pairs "
            "are to be ignored; leave out these metrics, or the judgements."
        )


def as_top(top: Predictions, metrics: Sequence[str]) -> TopK:
    """`top`; of scores as many of the best as the metrics look at; sets as lists without order."""
    if isinstance(top, TopK):
        return top
    names = [(name, *split(name)) for name in metrics]
    if isinstance(top, LabelSets):
        _refuse_order(names)
        return top.as_top()
    n_labels = _validation.width(top, "scores")
    _refuse_all_labels(names, sparse=bool(sp.issparse(top)))
    longest = max(k or n_labels for _, _, k in names)
    return TopK.from_scores(top, min(longest, n_labels))


def _refuse_order(names: Sequence[tuple[str, str, int | None]]) -> None:
    for name, metric, k in names:
        if k is not None or not METRICS[metric].of_sets:
            fitting = ", ".join(OF_SETS)
            raise ValueError(
                f"{name} needs an order, and sets have none; give scores or a TopK, or ask for "
                f"metrics of sets, such as {fitting}."
            )


def _refuse_all_labels(names: Sequence[tuple[str, str, int | None]], *, sparse: bool) -> None:
    for name, metric, k in names:
        if k is None and METRICS[metric].of_sets and not sparse:
            raise ValueError(
                f"{name} needs to know which labels are predicted; give "
                f"`LabelSets.from_scores(scores, threshold)`, or cut the ranking, like {name}@5."
            )


def _refuse_per_entry(new_plan: Plan) -> None:
    """A corrected metric per label divides counts by the propensity of the label."""
    for cell in new_plan.cells:
        if cell.about.over == "labels" and cell.estimator != "vanilla":
            raise ValueError(
                f"{cell.name} {cell.estimator} needs one propensity per label; there is one per "
                "observed label. Leave it out, or give propensities per label."
            )


def _per_label(new_plan: Plan) -> bool:
    return any(cell.about.over == "labels" for cell in new_plan.cells)
