"""`evaluate`: all that predictions can be asked about incomplete labels, in one call or in batches.

    request ──▶ sums (one exact pass) ──▶ estimates ──▶ claims ──▶ table

`evaluate` answers for rows at hand, `Evaluator` for rows that come in batches, `evaluate_shards`
for files and clusters, `make_scorer` for model selection; `contributions` says what every row adds.
All of them make one `Request` and hand it on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from copy import copy
from dataclasses import fields, replace
from functools import partial
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask._messages import named_options
from unmask._typing import Floats, LabelsLike, Progress, PropensityLike
from unmask.arrays import checks
from unmask.metrics import vary
from unmask.metrics.claims import Evidence, EvidenceKind, Run, judge_run, with_evidence
from unmask.metrics.estimates import Summary, estimate, of_rows
from unmask.metrics.registry import METRICS, split, supported
from unmask.metrics.request import (
    Predictions,
    Request,
    as_top,
    default_estimators,
    default_metrics,
    is_dataset,
    of_scores,
    refuse_ignored,
    uncertain,
)
from unmask.metrics.sums import Inverse, Sums, count
from unmask.metrics.table import Table, Tables
from unmask.predictions import LabelSets, TopK
from unmask.propensity.estimate import TOGETHER, PropensityEstimate
from unmask.propensity.models import SourceKind, source_of

if TYPE_CHECKING:
    from unmask import parallel
    from unmask.data import Dataset, Hierarchy
    from unmask.data.judgements import Judgements
    from unmask.metrics.measured.context import CovariatesLike


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
        The observed labels, dense or sparse. The judgements of a data set hold: ignored pairs
        leave the ranking, verified labels are certain (`judged_pairs`). Predictions that
        have ids or names as the data set has are matched by them, in whatever order they stand;
        rows of a matrix are matched by position.
    propensity : (L,) floats in (0, 1], (n, L) sparse matrix or PropensityEstimate, optional
        How likely a true label is observed: per label, or per observed label. An estimate (from
        an audit, say) widens errors and intervals by what is not known of it: the rows are
        evaluated with `draws` more vectors (`vary`). Pass its `.value` to leave
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
        Labels and predictions (sets or scores) are evaluated with all their ancestors (`groups`);
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
    made: Table | Tables = answer(request.checked(propensity), top, labels, propensity)
    return made


def answer(
    request: Request,
    top: Predictions,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | None,
    *,
    parts: bool = True,
) -> Any:
    """Answer a checked request: one table, or (with `parts`) one for every group.

    Labels are closed under a hierarchy, cut into groups, rid of judged pairs; an audit measures;
    what is left is counted once and estimated, or once for each vector of propensities that an
    estimate allows.
    """
    if parts and (request.hierarchy is not None or request.grouped):
        from unmask.metrics import groups

        return groups.by_part(request, top, labels, propensity, partial(answer, parts=False))
    if is_dataset(labels):
        from unmask.metrics.judged_pairs import JudgedPairs

        pairs = JudgedPairs(labels.after_judgements, labels.ids, labels.label_names)
        refuse_ignored(request.metrics, pairs.pairs.ignored.nnz)
        rows = pairs.predictions(top), pairs.labels, pairs.propensity(propensity)
        return pairs.with_counts(answer(request, *rows, parts=False))
    if request.audit is not None:
        from unmask.metrics.measured.estimates import beside_measured

        return beside_measured(
            top, labels, request.audit, request.metrics,
            covariates=request.covariates, confidence=request.confidence,
            estimators=request.estimators,
            stated=lambda metrics, estimators: answer(
                replace(request, metrics=metrics, estimators=estimators or (), audit=None),
                top, labels, propensity, parts=False,
            ),
        )  # fmt: skip
    if not uncertain(propensity) and not vary.beyond_effort(propensity):
        inverse = Inverse.of(propensity)
        summary = Summary(count(request, top, labels, inverse), inverse, request)
        table = judge_run(tabulated(summary))
    else:
        table = judge_run(_under_a_mask(request, top, labels, propensity))
    return vary.based_on_rows(table, request, top, labels, propensity, value_again)


def _under_a_mask(
    request: Request, top: Predictions, labels: LabelsLike, propensity: PropensityLike | None
) -> Table:
    """Table under an estimate or a mask model: at its own values, and at vectors drawn from it."""
    listed = top if of_scores(request.metrics) else as_top(top, request.metrics)
    quick = replace(request, interval="normal")

    def tables(propensities: Sequence[PropensityLike | None]) -> Iterator[dict[str, Table]]:
        for asked, p in zip(chain([request], repeat(quick)), propensities, strict=False):
            once = partial(_once, asked, listed, labels)
            if vary.beyond_effort(p):
                yield {"": vary.under_mask(p, as_top(listed, asked.metrics), top, labels, once)}
            else:
                yield {"": once(p)}

    return vary.widened(tables, propensity, request)[""]


def _once(
    request: Request, top: Predictions, labels: LabelsLike, propensity: PropensityLike | None
) -> Table:
    return tabulated(summarized(request, top, labels, propensity))


def value_again(
    request: Request, top: Predictions, labels: LabelsLike, metric: str, estimator: str,
    propensity: PropensityLike,
) -> float:  # fmt: skip
    """Return one value of the same rows under other propensities."""
    asked = replace(request, metrics=(metric,), estimators=(estimator,), interval="normal")
    return _once(asked, top, labels, propensity)[metric, estimator].value


def summarized(
    request: Request, top: Predictions, labels: LabelsLike, propensity: PropensityLike | None
) -> Summary:
    """Count all rows at once, whatever form the propensities have."""
    inverse = Inverse.of(propensity)
    summary = Summary(count(request, top, labels, inverse), inverse, request)
    if summary.sums.rows == 0:
        raise ValueError(NO_ROWS)
    return summary


def tabulated(summary: Summary) -> Table:
    """Make the table of some sums, every number judged by itself only."""
    if summary.sums.rows == 0:
        raise ValueError(NO_ROWS)
    numbers = []
    for cell in summary.plan.cells:
        number = estimate(cell, summary)
        basis = vary.basis(cell, number.value, summary)
        numbers.append(number if basis is None else replace(number, basis=basis))
    beside = [estimate(cell, summary) for cell in summary.plan.evidence]
    return Table(tuple(numbers), with_evidence(summary.run, beside))


NO_ROWS = "there are no rows to evaluate; give at least one."


def judge_propensities(
    top: Predictions | None,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | PropensityEstimate | None,
    *,
    k: Sequence[int] = (1, 3, 5),
    evidence: Sequence[Evidence] = (),
) -> Run:
    """Judge propensities by data and predictions at hand, whatever metrics anybody asked for.

    The one judgement that `diagnose`, `thresholds.fit`, `missing.find` and `tune` share, and that
    follows the same tables as `evaluate` and `compare`, which judge by the metrics they are asked
    for. A command adds what it tested itself:

        run = judge_propensities(top, labels, p, evidence=rejected_tests)
        run.standing          # "not-refuted", "doubtful" or "refuted"
        run.sentence          # the verdict in English
        run.evidence          # why, the gravest first; each has a `sentence`

    Parameters
    ----------
    top : TopK, LabelSets, (n, L) scores or None
        Without predictions, only `evidence` can speak against the propensities.
    labels : (n, L) matrix of 0 and 1, or Dataset
    propensity : as in `evaluate`
        At its own values: nothing is drawn from an estimate. None if there is none.
    k : sequence of int, default (1, 3, 5)
        Places at which rankings are judged, as far as they reach; sets are judged as a whole.
    evidence : sequence of Evidence, optional
        From elsewhere, such as rejected tests (`EvidenceKind.REJECTED_TEST`).

    Returns
    -------
    Run
        With P@k beyond 1, label counts that cannot be deconvolved, estimates that exclude each
        other, and the evidence from elsewhere.

    Examples
    --------
    Every prediction is right, and half of the labels are said to be missing:

    >>> top = TopK([[0]] * 99, [[1.0]] * 99)
    >>> run = judge_propensities(top, [[1, 0]] * 98 + [[0, 0]], [0.5, 0.5])
    >>> run.standing.value, run.evidence[0].symptom
    ('refuted', 'P@1 comes to 1.980, more than 1')
    >>> print(run.sentence)
    By the stated propensities, the assumptions do not hold: P@1 comes to 1.980, more than 1, so \
the propensities are too low.
    """
    centre, effect = (None, 1.0) if propensity is None else vary.at_its_values(propensity)
    matrix = checks.labels(labels.labels if is_dataset(labels) else labels)
    if top is None or centre is None or not matrix.shape[0]:
        empty = int((np.diff(matrix.indptr) == 0).sum())
        run = Run(source_of(propensity), matrix.shape[0], empty, confidence=0.95)
        if centre is not None and not sp.issparse(centre):
            run = replace(run, complete=bool((checks.propensity(centre) == 1).all()))
    else:
        names = ["sample-P", "sample-R"]
        if not isinstance(top, LabelSets):
            width = top.k if isinstance(top, TopK) else matrix.shape[1]
            places = [place for place in k if place <= width] or [1]
            names = [f"{name}@{place}" for place in places for name in ("P", "R")]
        request = Request(names, ["unbiased", "deconvolved"]).checked(centre)
        run = replace(answer(request, top, labels, centre).run, effect=effect)
    together = {"design_effect": effect}
    shown = [Evidence(EvidenceKind.DEPENDENT_LABELS, False, together)] * (effect > TOGETHER)
    return with_evidence(replace(run, evidence=(*run.evidence, *shown, *evidence)), ())


@named_options
def contributions(
    top: Predictions,
    labels: LabelsLike,
    propensity: PropensityLike | None = None,
    *,
    metrics: Sequence[str],
    estimators: Sequence[str] = ("vanilla",),
    seed: int = 0,
    tau: float | str = "auto",
    clip: float = 10.0,
    information: ArrayLike | None = None,
) -> dict[tuple[str, str], Floats]:
    """Return the contribution of every row: numbers whose mean over rows `evaluate` reports.

    Parameters
    ----------
    top, labels, propensity, metrics, seed, tau, clip, information
        As in `evaluate`.
    estimators : sequence of str, default ("vanilla",)
        A ratio, a mean over labels and a metric of the scores of all rows are made means over
        rows: a row contributes value + n · influence. Not `filtered`, `deconvolved`, or a chosen τ.

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
    request = Request(
        metrics, estimators, seed=seed, tau=tau, clip=clip, information=information
    ).checked(propensity)
    inverse = Inverse.of(propensity)
    sums = count(request, top, labels, inverse, keep_all=True)
    summary = Summary(sums, inverse, request)
    return {
        (cell.name, cell.estimator): of_rows(cell, summary)
        for cell in sums.plan.cells
        if cell.estimator not in ("filtered", "deconvolved")
        and (len(cell.keys) == 1 or (cell.about.over != "rows" and sums.rows))
    }


class Evaluator:
    """An evaluation of rows that come in batches.

    Sums of constant size are kept and added exactly: batches, shards and workers, in any order,
    give to the last bit what one call on all rows gives.

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
    information : (L,) floats of at least 0, optional
        For `Smin`, the information content of labels (`Hierarchy.information_content`); by default
        1 for each.
    complete : bool, default False
        Whether no label is missing. Where nobody declared labels complete, numbers without
        propensities are `doubtful`: they speak of recorded labels.

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

    @named_options
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
        information: ArrayLike | None = None,
        complete: bool = False,
    ) -> None:
        """Check the choices; no rows yet."""
        request = Request(
            metrics, estimators, confidence, interval, replicates, seed, tau, clip, fraction,
            information, complete,
        )  # fmt: skip
        self._begin(request.checked(propensity), propensity)

    @classmethod
    def asked(cls, request: Request, propensity: PropensityLike | None = None) -> Evaluator:
        """Return an evaluator without rows that answers a checked request."""
        made = cls.__new__(cls)
        made._begin(request, propensity)
        return made

    def _begin(self, request: Request, propensity: PropensityLike | None) -> None:
        self._request, self._inverse = request, Inverse.of(propensity)
        self._sums: Sums | None = None

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
        rows = 0 if self._sums is None else self._sums.rows
        first = rows if first_row is None else first_row
        inverse = self._inverse
        if entry_propensity is not None:
            self._request.refuse_loss(entry_propensity)
            source = source_of(entry_propensity)
            self._inverse = replace(inverse, source=source)
            inverse = Inverse(None, entry_propensity, source)
        self._take(count(self._request, top, labels, inverse, first_row=first))
        return self

    def merge(self, other: Evaluator) -> Evaluator:
        """Take in all rows of another evaluator with the same options. Returns itself."""
        mine, theirs = self._inverse, other._inverse
        pairs = [
            (each.name, getattr(self._request, each.name), getattr(other._request, each.name))
            for each in fields(Request)
            if each.compare
        ]
        pairs.append(("row effort", mine.effort, theirs.effort))
        if differing := [f"{name} {one} and {two}" for name, one, two in pairs if one != two]:
            raise ValueError(
                f"evaluators must have the same settings to merge; got {'; '.join(differing)}."
            )
        for name, one, two in (
            ("propensities", mine.of_labels, theirs.of_labels),
            ("information content", self._request.information, other._request.information),
        ):
            if not np.array_equal(one, two):  # type: ignore[arg-type]
                raise ValueError(f"evaluators must have the same {name} to merge; give all one.")
        if mine.source.kind is SourceKind.NONE:
            self._inverse = replace(mine, source=theirs.source)
        if other._sums is not None:
            self._take(other._sums)
        return self

    def _take(self, new: Sums) -> None:
        if self._sums is None:
            self._sums = Sums.empty(new.plan, groups=self._request.interval != "normal")
        self._sums.add(new)

    def compute(self) -> Table:
        """Return the table of all rows taken in so far; more may follow."""
        return judge_run(self.unjudged())

    def unjudged(self) -> Table:
        """Return the table of all rows so far, every number judged by itself only."""
        if self._sums is None:
            raise ValueError(NO_ROWS)
        return tabulated(Summary(self._sums, self._inverse, self._request))


Shard = tuple[Any, Any]


@named_options
def evaluate_shards(
    shards: Sequence[Shard],
    propensity: PropensityLike | PropensityEstimate | None = None,
    *,
    metrics: Sequence[str],
    estimators: Sequence[str] = ("vanilla",),
    backend: Any = None,
    progress: Progress | None = None,
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
) -> Table:
    """Return the table that `evaluate` gives for all rows at once, to the last bit.

    Workers return the sums of an `Evaluator`, whose size does not depend on the number of rows.

    Parameters
    ----------
    shards : sequence of (predictions, labels)
        A `TopK` or scores with a label matrix, or the paths of both files. Paths must lead to the
        files where shards are evaluated; where they do not, give the shards themselves.
    propensity : (L,) floats in (0, 1] or PropensityEstimate, optional
        As in `evaluate`.
    metrics : sequence of str
        Such as "R@5".
    estimators : sequence of str, default ("vanilla",)
    backend : optional
        Where shards are evaluated (`unmask.parallel.connect`); by default here.
    progress : function of (done, total), optional
        Called after every shard.
    confidence, interval, replicates, seed, tau, clip, fraction, information, complete
        As in `Evaluator`.
    draws : int, default 100
        How many vectors are drawn from an estimate of propensities.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        As `evaluate`, for any shard; if a file is damaged; or if the backend is none.
    OSError
        If a file cannot be read, or no scheduler or worker answers.

    Examples
    --------
    >>> first = TopK([[0]], [[1.0]]), [[1, 0]]
    >>> second = TopK([[0]], [[1.0]]), [[0, 1]]
    >>> evaluate_shards([first, second], metrics=["P@1"])["P@1", "vanilla"].value
    0.5
    """
    from unmask import parallel

    request = Request(
        metrics, estimators, confidence, interval, replicates, seed, tau, clip, fraction,
        information, complete, draws,
    ).checked(propensity)  # fmt: skip
    quick = replace(request, interval="normal")
    with parallel.connect(backend) as runner:

        def tables(propensities: Sequence[PropensityLike | None]) -> list[dict[str, Table]]:
            evaluators = [
                Evaluator.asked(request if first else quick, p)
                for first, p in zip(chain([True], repeat(False)), propensities, strict=False)
            ]
            tasks = list(zip(shards, _first_rows(runner, shards, request), strict=True))
            by_shard: dict[int, list[Evaluator]] = {}
            with closing(runner.run(_evaluated, tasks, evaluators)) as parts:
                for index, part in parts:
                    by_shard[index] = part
                    if progress is not None:
                        progress(len(by_shard), len(tasks))
            for index in sorted(by_shard):
                for whole, part_of_it in zip(evaluators, by_shard[index], strict=True):
                    whole.merge(part_of_it)
            return [{"": each.unjudged()} for each in evaluators]

        return judge_run(vary.widened(tables, propensity, request)[""])


def _first_rows(
    runner: parallel.Runner, shards: Sequence[Shard], request: Request
) -> Sequence[int]:
    """The number of the first row of each shard, where anything depends on it."""
    if request.interval == "normal" and "subsampled" not in request.estimators:
        return [0] * len(shards)
    with closing(runner.run(_rows_of, shards)) as counted:
        counts = dict(counted)
    sizes = [counts[index] for index in range(len(shards))]
    return list(accumulate(sizes, initial=0))[:-1]


def _rows_of(_: None, shard: Shard) -> int:
    return int(_read(shard)[1].shape[0])


def _evaluated(evaluators: list[Evaluator], task: tuple[Shard, int]) -> list[Evaluator]:
    shard, first_row = task
    top, labels = _read(shard)
    return [copy(each).update(top, labels, first_row=first_row) for each in evaluators]


def _read(shard: Shard) -> tuple[Any, Any]:
    from unmask import data, predictions

    top, labels = shard
    if isinstance(top, str | os.PathLike):
        top = predictions.read(top)
    observed = data.read(labels).labels if isinstance(labels, str | os.PathLike) else labels
    if observed is None:
        raise ValueError(f"{labels} holds no labels; name a file that does.")
    return top, checks.labels(observed)


Scorer = Callable[[Any, Any, Any], float]


@named_options
def make_scorer(
    metric: str,
    estimator: str,
    propensity: PropensityLike | None = None,
    *,
    seed: int = 0,
    tau: float | str = "auto",
    clip: float = 10.0,
    fraction: float = 0.01,
    information: ArrayLike | None = None,
) -> Scorer:
    """Make a `score(model, X, labels)` for GridSearchCV and the like: larger is better.

    Parameters
    ----------
    metric : str
        Such as "R@5". A loss (Kendall-tau) is negated.
    estimator : str
        One that can estimate the metric.
    propensity : (L,) floats in (0, 1], optional
        As in `evaluate`.
    seed, tau, clip, fraction, information
        As in `Evaluator`.

    Returns
    -------
    function of (model, features, labels)
        The model's scores come from `predict_top`, `decision_function` or `predict_proba`,
        whichever it has first.

    Raises
    ------
    ValueError
        If the estimator cannot estimate the metric.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.multiclass import OneVsRestClassifier
    >>> features, labels = [[0.0], [1.0], [2.0], [3.0]], [[1, 0], [1, 0], [0, 1], [0, 1]]
    >>> model = OneVsRestClassifier(LogisticRegression()).fit(features, labels)
    >>> make_scorer("P@1", "vanilla")(model, features, labels)
    1.0
    """
    name, k = split(metric)
    checks.one_of(estimator, supported(name), "estimator")
    request = Request(
        [metric], [estimator], seed=seed, tau=tau, clip=clip, fraction=fraction,
        information=information,
    ).checked(propensity)  # fmt: skip
    sign = 1.0 if METRICS[name].higher_is_better else -1.0

    def score(model: Any, features: Any, labels: Any) -> float:
        if hasattr(model, "predict_top") and k is not None:
            top = model.predict_top(features, k)
        elif hasattr(model, "decision_function"):
            top = model.decision_function(features)
        else:
            top = model.predict_proba(features)
        table = answer(request, top, labels, propensity)
        return sign * float(table[metric, estimator].value)

    return score
