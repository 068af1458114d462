"""`Evaluator`: predictions against incomplete labels, shard by shard.

Every metric and estimator comes from one pass over the rows. `Evaluator` keeps sums whose size
does not depend on the number of rows, and adds them exactly: batches, shards and workers, in any
order, give to the last bit what one call on all rows gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from unmask._messages import named_options, setting
from unmask._typing import Array, Floats, LabelsLike, PropensityLike
from unmask.arrays import LabelSets, TopK, checks
from unmask.metrics import estimates, perturbation, plan, scored, state
from unmask.metrics.inputs import Predictions, as_top, of_scores
from unmask.metrics.judgement import judge_run
from unmask.metrics.plan import Cell, Plan
from unmask.metrics.registry import METRICS, split
from unmask.metrics.request import Request
from unmask.metrics.run import Run
from unmask.metrics.table import Estimate, Table
from unmask.propensity import MaskModel
from unmask.propensity.models import Source, SourceKind, reciprocal, source_of


def evaluate_once(
    request: Request, top: Predictions, labels: LabelsLike, propensity: PropensityLike | None
) -> Evaluator:
    """Return an `Evaluator` that has taken in all rows, whatever form the propensities have."""
    sparse = sp.issparse(propensity)
    evaluator = Evaluator.asked(request, None if sparse else propensity)
    return evaluator.update(top, labels, entry_propensity=propensity if sparse else None)


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
        Of means over rows; a ratio, a mean over labels and a metric of the scores of all rows are
        made such means: a row contributes value + n · influence. Not `filtered`, `deconvolved`, or
        a chosen τ.

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
    evaluator = Evaluator.asked(request, None if sp.issparse(propensity) else propensity)
    entries = propensity if sp.issparse(propensity) else None
    new_plan, n_labels, sums = evaluator._pass(top, labels, entries, 0, keep_all=True)
    rows = {
        (cell.name, cell.estimator): sums.kept[0][:, new_plan.column(cell.keys[0], cell.k)]
        for cell in new_plan.cells
        if len(cell.keys) == 1 and cell.estimator != "filtered"
    }
    evaluator._take(new_plan, n_labels, sums)
    for cell in new_plan.cells:
        if cell.about.over != "rows" and cell.estimator != "deconvolved" and sums.rows:
            rows[cell.name, cell.estimator] = _made_mean(cell, evaluator.summary(), sums)
    return rows


def _made_mean(cell: Cell, summary: estimates.Summary, sums: state.State) -> Floats:
    """What rows contribute to a number that is no mean over them: value + n · influence."""
    if cell.about.over == "scores":
        made = estimates.linearized(cell, summary)
        return np.asarray(made.value + sums.rows * made.influence)
    if cell.about.over == "labels":
        return estimates.of_labels(cell, summary)
    above, below = sums.kept[0][:, summary.columns(cell)].T
    return estimates.of_ratio(above, below)


class Evaluator:
    """An evaluation of rows that come in batches.

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
        Whether no label is missing. Of labels that nobody declared complete, numbers without
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
        checked = None if propensity is None else checks.propensity(propensity)
        self._request = request
        self._inverse = None if checked is None else reciprocal(checked)
        self._source = source_of(propensity)
        self._effort = propensity.effort if isinstance(propensity, MaskModel) else None
        self._information: Floats | None = None
        if request.information is not None:
            self._information = np.asarray(request.information)
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
            self._request.refuse_loss(entry_propensity)
            self._source = source_of(entry_propensity)
        self._take(*self._pass(top, labels, entry_propensity, first, keep_all=False))
        return self

    def merge(self, other: Evaluator) -> Evaluator:
        """Take in all rows of another evaluator with the same options. Returns itself."""
        pairs = [
            (each.name, getattr(self._request, each.name), getattr(other._request, each.name))
            for each in fields(Request)
            if each.compare
        ]
        pairs.append(("row effort", self._effort, other._effort))
        if differing := [f"{name} {one} and {two}" for name, one, two in pairs if one != two]:
            raise ValueError(
                f"evaluators must have the same settings to merge; got {'; '.join(differing)}."
            )
        if not np.array_equal(self._inverse, other._inverse):  # type: ignore[arg-type]
            raise ValueError("evaluators must have the same propensities to merge; give all one.")
        if not np.array_equal(self._information, other._information):  # type: ignore[arg-type]
            raise ValueError("evaluators must have the same information content to merge.")
        if self._source.kind is SourceKind.NONE:
            self._source = other._source
        if other._sums is not None:
            self._take(other._sums.plan, other._sums.n_labels, other._sums.state)
        return self

    def compute(self) -> Table:
        """The table of all rows taken in so far; more may follow."""
        return judge_run(self.unjudged())

    def unjudged(self) -> Table:
        """The table of all rows so far, every number judged by itself only."""
        summary = self.summary()
        numbers = tuple(self._based(cell, summary) for cell in summary.plan.cells)
        return Table(numbers, self._run(summary.state))

    def _based(self, cell: Cell, summary: estimates.Summary) -> Estimate:
        """An estimate, with what the sums can say of how far it moves."""
        number = estimates.estimate(cell, summary)
        basis = perturbation.basis(cell, number.value, summary)
        return number if basis is None else replace(number, basis=basis)

    def _run(self, sums: state.State) -> Run:
        """What the numbers share."""
        return run_of(sums, self._source, self._request)

    def summary(self) -> estimates.Summary:
        """The sums behind the table."""
        if self._sums is None or self._sums.state.rows == 0:
            raise ValueError("there are no rows to evaluate; give at least one.")
        asked = self._request
        return estimates.Summary(
            self._sums.plan, self._sums.state, self._inverse, asked.confidence, asked.interval,
            asked.replicates, asked.seed, asked.fraction, self._effort, self._information,
        )  # fmt: skip

    def _take(self, new_plan: Plan, n_labels: int, new: state.State) -> None:
        if self._sums is None:
            counted = n_labels if _per_label(new_plan) else 0
            groups = self._request.interval != "normal"
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
        observed = checks.labels(labels)
        inverse = self._inverse_of(observed, entries)
        listed, scores = self._listed(top, observed), self._scores(top, observed)
        new_plan = plan.make(
            self._request.metrics,
            self._request.estimators,
            width=listed.shape[1],
            n_labels=observed.shape[1],
            tau=self._request.tau,
            clip=self._request.clip,
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
            groups=self._request.interval != "normal",
            per_label=_per_label(new_plan),
            seed=self._request.seed,
            scores=scores,
        )
        return new_plan, observed.shape[1], new

    def _inverse_of(self, observed: sp.csr_array, entries: PropensityLike | None) -> Floats:
        """1/p per label, or per stored label if those are given; ones if nothing can be missing."""
        if entries is not None:
            return reciprocal(checks.entry_propensity(entries, observed))
        if self._inverse is None:
            needy = [e for e in self._request.estimators if e != "vanilla"]
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
        names = [name for name in self._request.metrics if METRICS[split(name)[0]].reads == "list"]
        if not names:
            return np.full((observed.shape[0], 1), -1, dtype=np.int32)
        top = as_top(top, names)
        checks.same_rows(top.labels, observed, "predictions", "labels")
        largest = int(top.labels.max(initial=-1))
        if largest >= observed.shape[1]:
            raise ValueError(
                f"label {largest} is predicted, but there are {observed.shape[1]} labels; "
                "labels are numbered from 0."
            )
        return np.ascontiguousarray(top.labels)

    def _scores(self, top: Predictions, observed: sp.csr_array) -> Array | None:
        """The scores of every label, checked, if a metric reads them."""
        names = of_scores(self._request.metrics)
        if not names:
            return None
        if isinstance(top, TopK | LabelSets):
            raise ValueError(
                f"{names[0]} needs a score for every label; give the matrix of scores, not "
                f"{type(top).__name__}."
            )
        scores = scored.scores_of(top, observed, names[0])
        content = self._information
        if content is not None and content.size != observed.shape[1]:
            raise ValueError(
                f"{content.size} information contents for {observed.shape[1]} labels; give one "
                "for each."
            )
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


def run_of(sums: state.State, source: Source, request: Request) -> Run:
    """Return what the numbers of some rows share."""
    declared = request.complete or source.kind is not SourceKind.NONE
    return Run(
        source, sums.rows, sums.empty_rows, request.confidence, sums.lost_share,
        complete=sums.complete and declared,
    )  # fmt: skip


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
