"""Is one system better than another? Paired over rows, per metric and estimator.

Both systems are scored on the same rows, so what is hard about a row cancels in the difference
and intervals are much narrower than those of either system. With d the difference of a group of
rows (up to 4096 rows a group is one row, `state`):

- the interval is the bootstrap percentile interval of Σd/n over groups, joined with that of the
  standard error; where every row says the same it is that of a share, unless predictions are the
  same (`_with_width`);
- the p-value is that of the sign-flip test: were the systems exchangeable, every d could as well
  have had the other sign, so |Σd| is compared with |Σ ±d| under random signs;
- a ratio R = Σx/Σy of which both sums are the system's own (micro metrics) is made a mean over
  rows first, of R + (x − R y) n / Σy (the delta method);
- a deconvolved difference has no contributions of rows: its standard error is the jackknife that
  leaves out each of 20 interleaved twentieths of the rows, and interval and p-value follow
  Student's t with 19 degrees of freedom;
- a difference of means over labels follows Student's t, with d what the two means change by
  without a row (`macro`) and standard error √(Σd² n/(n − 1));
- what is not known of estimated propensities is added as in an evaluation
  (`propensity_uncertainty`), and the p-value is then that of the normal distribution with both
  errors, if it is larger.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.stats import norm
from scipy.stats import t as student

from unmask._messages import named_options
from unmask._typing import Floats, LabelsLike, PropensityLike
from unmask.arrays import TopK, checks
from unmask.data import Dataset, Hierarchy
from unmask.data.judgements import Judgements
from unmask.metrics import closure, estimates, intervals, propensity_uncertainty
from unmask.metrics.evaluator import evaluate_once, run_of
from unmask.metrics.inputs import Predictions, as_top, of_scores, refuse_ignored
from unmask.metrics.judged_pairs import judged_pairs
from unmask.metrics.judgement import collect, judge_run
from unmask.metrics.mask_tables import refuse_slope
from unmask.metrics.measured import MEASURED, measure_differences
from unmask.metrics.measured.by_influence import Signed, difference
from unmask.metrics.measured.covariates import CovariatesLike
from unmask.metrics.measured.estimating import checked_audit
from unmask.metrics.measured.evaluation import (
    adds_rows_up,
    observed_only,
    run_of_audit,
    with_spurious_rate,
)
from unmask.metrics.perturbation import OfDifference
from unmask.metrics.plan import Cell
from unmask.metrics.propensity_uncertainty import Drawn
from unmask.metrics.registry import METRICS, split
from unmask.metrics.request import Request, default_estimators, default_metrics
from unmask.metrics.run import Run
from unmask.metrics.state import State
from unmask.metrics.table import Estimate, Table, Tables
from unmask.metrics.verdict import Level, Verdict, claim, outcome
from unmask.propensity import PropensityEstimate
from unmask.propensity.models import Source, source_of

TWENTIETHS = 20
MOVED = ("unbiased", "deconvolved")
"""Estimators of which it is said how far they move under other propensities."""
CHUNK = 500  # sign patterns at a time
ROUNDING = 4 * float(np.finfo(np.float64).eps)  # what is smaller, relatively, is no difference


@named_options
def compare(
    systems: Mapping[str, Predictions],
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | PropensityEstimate | None = None,
    *,
    metrics: Sequence[str] | None = None,
    estimators: Sequence[str] | None = None,
    confidence: float = 0.95,
    replicates: int = 2000,
    seed: int = 0,
    tau: float | str = "auto",
    clip: float = 10.0,
    information: ArrayLike | None = None,
    complete: bool = False,
    draws: int = 100,
    audit: Judgements | None = None,
    covariates: CovariatesLike | None = None,
    hierarchy: Hierarchy | None = None,
) -> Tables:
    """Compare every system with the first one on the same rows.

    Parameters
    ----------
    systems : mapping of str to TopK, LabelSets or (n, L) scores
        At least two; the first is what the others are compared with.
    labels : (n, L) matrix of 0 and 1, or Dataset
        The observed labels of at least two rows; judgements of a data set are obeyed, as in
        `evaluate`.
    propensity : (L,) floats in (0, 1], (n, L) sparse matrix or PropensityEstimate, optional
        As in `evaluate`; an estimate widens errors and intervals.
    metrics : sequence of str, optional
        Such as "R@5"; by default those of `evaluate` for the first system. A metric per label is
        compared over the labels that count for each system.
    estimators : sequence of str, optional
        By default those of `evaluate`: vanilla and, with propensities, unbiased. Not `filtered`:
        each system would leave out rows of its own.
    confidence, seed, tau, clip, information
        As in `Evaluator`.
    replicates : int, default 2000
        Bootstrap replicates and random signs.
    complete : bool, default False
        Whether no label is missing. Without propensities or an audit, a difference else says which
        system scores higher on recorded labels, and not which one is better.
    draws : int, default 100
        How many vectors are drawn from an estimate.
    audit : Judgements, optional
        Of a plan of `unmask.audit` for all these systems: every metric gets a `measured`
        difference, with an interval and p-value of Student's t.
    covariates : CovariatesLike, optional
        As in `evaluate`.
    hierarchy : Hierarchy, optional
        Labels and the predictions of all systems (sets or scores) are compared with all their
        ancestors, as in `evaluate`; corrected differences are then doubtful.

    Returns
    -------
    Tables
        By name of system: `tables["new"]["R@5", "unbiased"].value` is the difference to the first
        system, with standard error, interval and verdict (`verdict.details["outcome"]`);
        `.details["p_value"]` and `.details["values"]` (this system, first system).

    Raises
    ------
    ValueError
        If there are fewer than two systems or rows, or an estimate has no value per row; or, with a
        hierarchy, as `evaluate`.

    Examples
    --------
    >>> good, bad = TopK([[0]] * 9, [[1.0]] * 9), TopK([[1]] * 9, [[1.0]] * 9)
    >>> labels = [[1, 0]] * 8 + [[0, 1]]
    >>> tables = compare({"bad": bad, "good": good}, labels, metrics=["P@1"])
    >>> round(tables["good"]["P@1", "vanilla"].value, 4)
    0.7778
    """
    if len(systems) < 2:
        raise ValueError(f"give at least two systems to compare; got {len(systems)}.")
    request = Request(
        default_metrics(next(iter(systems.values()))) if metrics is None else metrics,
        estimators or default_estimators(propensity),
        confidence=confidence, seed=seed, tau=tau, clip=clip, information=information,
        complete=complete, draws=draws, audit=audit, covariates=covariates, hierarchy=hierarchy,
    ).checked(propensity)  # fmt: skip
    drawn = replace(request, interval="percentile", replicates=replicates)
    return differences(drawn, systems, labels, propensity)


def differences(
    request: Request,
    systems: Mapping[str, Predictions],
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | PropensityEstimate | None,
) -> Tables:
    """Answer a checked request about the differences of systems to the first."""
    refuse_slope(tuple(systems), propensity)
    if request.hierarchy is not None:
        closed = closure.closed_systems(request.hierarchy, systems, labels, propensity)
        return closure.doubted(differences(replace(request, hierarchy=None), *closed))
    if (pairs := judged_pairs(labels)) is not None:
        refuse_ignored(request.metrics, pairs.pairs.ignored.nnz)
        tops = {name: pairs.predictions(top) for name, top in systems.items()}
        return differences(request, tops, pairs.labels, pairs.propensity(propensity))
    if request.audit is not None:
        measured = _measured(request, systems, labels, request.audit)
        others = tuple(each for each in request.estimators if each != MEASURED)
        if not others:
            run = run_of_audit(checks.labels(labels), request.confidence)
            tables = {name: Table(rows, run) for name, rows in measured.items()}
            return Tables("system", tables, run=run)
        asked = replace(request, estimators=others, audit=None)
        return _beside(measured, differences(asked, systems, labels, propensity))
    if sp.issparse(propensity):
        propensity = checks.matrix(propensity, name="propensities", column="label")
    prepared = {name: _prepared(top, request.metrics) for name, top in systems.items()}
    question = _Question(request, prepared, labels)
    quick = question.with_(replicates=2)

    def evaluation(p: PropensityLike | None, drawn: Drawn) -> Iterator[dict[str, Table]]:
        yield _differences(question, p, _Twentieths(question, p))
        for vector in drawn:
            yield _differences(quick, vector, None)

    tables = propensity_uncertainty.with_uncertainty(
        evaluation,
        propensity,
        draws=request.draws,
        seed=request.seed,
        confidence=request.confidence,
        interval=request.interval,
        bounded=False,
    )
    again = {
        name: replace(table, estimates=tuple(map(_judged_again, table)))
        for name, table in tables.items()
    }
    judged = {
        name: _based(judge_run(table, of_differences=True), question, name, propensity)
        for name, table in again.items()
    }
    return Tables("system", judged, run=next(iter(judged.values())).run)


def _prepared(top: Predictions, metrics: Sequence[str]) -> Predictions:
    """Lists once for all, unless scores are read."""
    return top if of_scores(metrics) else as_top(top, metrics)


def _measured(
    request: Request, systems: Mapping[str, Predictions], labels: LabelsLike, audit: Judgements
) -> dict[str, list[Estimate]]:
    """Measured differences to the first system, each with its outcome."""
    first, *others = systems
    observed = checks.labels(labels)
    metrics, confidence, covariates = request.metrics, request.confidence, request.covariates
    by_rows = [name for name in metrics if adds_rows_up(name)]
    measured: dict[str, list[Estimate]] = {name: [] for name in others}
    if by_rows:
        tops = {name: as_top(top, by_rows) for name, top in systems.items()}
        measured = measure_differences(
            tops, labels, audit, metrics=by_rows, confidence=confidence, covariates=covariates
        )
    about = checked_audit(audit, labels, confidence, covariates)
    for name, metric in product(others, [each for each in metrics if not adds_rows_up(each)]):
        both = Signed(systems[name], 1.0), Signed(systems[first], -1.0)
        measured[name].append(difference(about, metric, *both))
    return {
        name: [
            replace(each, verdict=_measured_outcome(each, (name, first)))
            for each in with_spurious_rate(rows, audit, observed, confidence)
        ]
        for name, rows in measured.items()
    }


def _measured_outcome(each: Estimate, names: tuple[str, str]) -> Verdict:
    metric = split(each.metric)[0]
    higher = METRICS[metric].higher_is_better
    return outcome(
        each.verdict, each.value, each.interval, each.details["p_value"],
        higher_is_better=higher, names=names,
    )  # fmt: skip


def _beside(measured: Mapping[str, list[Estimate]], stated: Tables) -> Tables:
    """Measured differences first; a stated one that they contradict is doubtful."""
    tables = {}
    for name, table in stated.tables.items():
        rows = (*measured[name], *map(observed_only, table))
        run = table.run
        if run is not None:
            run = replace(run, evidence=(*run.evidence, *collect(rows, run)))
        tables[name] = judge_run(Table(rows, run), of_differences=True)
    return replace(stated, tables=tables)


def _based(table: Table, asked: _Question, name: str, propensity: PropensityLike | None) -> Table:
    """The differences, with what is needed to say how far they move."""
    if propensity is None or sp.issparse(propensity):
        return table
    first = next(iter(asked.systems))
    moved = []
    for each in table:
        metric, k = split(each.metric) if each.estimator in MOVED else ("", None)
        about = METRICS.get(metric)
        of_rows = about is not None and about.over == "rows" and about.reads == "list"
        if of_rows and math.isfinite(each.value):
            new, old = (as_top(asked.systems[key], [each.metric]) for key in (name, first))
            systems = new, old
            cell = Cell(each.metric, metric, each.estimator, k or systems[0].k, ())
            again = partial(_difference_again, asked, systems, cell)
            basis = OfDifference(cell, each.value, systems, asked.labels, propensity, again)
            moved.append(replace(each, basis=basis))
        else:
            moved.append(each)
    return replace(table, estimates=tuple(moved))


def _difference_again(
    asked: _Question, systems: tuple[TopK, TopK], cell: Cell, propensity: PropensityLike
) -> float:
    """The difference of two systems under other propensities, by one metric."""
    one = asked.with_(interval="normal", metrics=(cell.name,), estimators=(cell.estimator,)).request
    new, old = (
        evaluate_once(one, top, asked.labels, propensity)
        .unjudged()[cell.name, cell.estimator]
        .value
        for top in systems
    )
    return new - old


@dataclass(frozen=True)
class _Question:
    """What is compared, without the propensities."""

    request: Request
    systems: Mapping[str, Predictions]
    labels: LabelsLike

    def with_(self, **changes: Any) -> _Question:
        """The question with other options."""
        return replace(self, request=replace(self.request, **changes))

    def summary(
        self, top: Predictions, labels: LabelsLike, p: PropensityLike | None
    ) -> estimates.Summary:
        """The sums of one system over some rows."""
        return evaluate_once(self.request, top, labels, p).summary()


def _differences(
    question: _Question, propensity: PropensityLike | None, twentieths: _Twentieths | None
) -> dict[str, Table]:
    """Every system but the first, less the first."""
    first, *others = question.systems
    summaries = {
        name: question.summary(top, question.labels, propensity)
        for name, top in question.systems.items()
    }
    for name in others:
        _refuse_incomparable(summaries[name], summaries[first], (name, first))
    run = None
    if twentieths is not None:
        run = _run(summaries.values(), source_of(propensity), question.request)
    return {
        name: Table(
            tuple(
                _with_width(
                    _difference(cell, summaries[name], summaries[first], twentieths, (name, first)),
                    cell,
                    question.systems[name],
                    question.systems[first],
                    summaries[first],
                )
                for cell in summaries[first].plan.cells
            ),
            run,
        )
        for name in others
    }


def _run(summaries: Iterable[estimates.Summary], source: Source, request: Request) -> Run:
    """What speaks against the assumptions in the numbers of any of the systems."""
    runs = []
    for summary in summaries:
        run = run_of(summary.state, source, request)
        plain = replace(summary, interval="normal")
        numbers = [estimates.estimate(cell, plain) for cell in summary.plan.cells]
        runs.append(replace(run, evidence=tuple(collect(numbers, run))))
    together = [each for run in runs for each in run.evidence]
    return replace(runs[0], evidence=tuple(sorted(together, key=lambda each: not each.refutes)))


def _refuse_incomparable(
    new: estimates.Summary, old: estimates.Summary, names: tuple[str, str]
) -> None:
    """Refuse a single row, and metrics of the whole list where lists differ in length."""
    if old.state.rows < 2:
        raise ValueError(f"a comparison needs at least two rows; got {old.state.rows}.")
    if not np.array_equal(new.plan.ks, old.plan.ks):
        longest = new.plan.ks[-1], old.plan.ks[-1]
        raise ValueError(
            f"{names[0]} has {longest[0]} predictions a row and {names[1]} {longest[1]}; metrics "
            f"of the whole list need a cut-off to compare them, like MRR@{min(longest)}."
        )


def _judged_again(each: Estimate) -> Estimate:
    """With the p-value and the outcome that both errors leave, where propensities were drawn."""
    if "propensity_share" not in each.details:
        return each
    with_both = float(2 * norm.sf(abs(each.value) / each.standard_error))
    p_value = max(each.details["p_value"], with_both)
    about = each.verdict.details
    verdict = outcome(
        each.verdict,
        each.value,
        each.interval,
        p_value,
        higher_is_better=METRICS[split(each.metric)[0]].higher_is_better,
        names=(about["system"], about["first"]),
    )
    return replace(each, verdict=verdict, details={**each.details, "p_value": p_value})


def _difference(
    cell: Cell,
    new: estimates.Summary,
    old: estimates.Summary,
    twentieths: _Twentieths | None,
    names: tuple[str, str],
) -> Estimate:
    if cell.estimator == "filtered":
        raise ValueError(f"{cell.name} {cell.estimator} has no value per row; it cannot be paired.")
    if cell.about.over == "labels":
        return _over_labels(cell, new, old, names)
    if cell.estimator == "deconvolved":
        return _by_jackknife(cell, new, old, twentieths, names)
    if cell.about.over == "scores":
        return _by_influence(cell, new, old, names)
    before = estimates.estimate(cell, old)
    tau = before.details.get("tau")
    key = next(key for key in cell.keys if tau is None or key[0][0] == tau)
    column = old.plan.column(key, cell.k)
    if math.isnan(before.value) or estimates.overflows(new.state, column):
        refused = estimates.refused(cell, new, {})
        return replace(refused, details={"p_value": math.nan, "values": [math.nan, before.value]})
    paired = _paired(cell, column, new, old)
    below = paired.rows
    if cell.about.over == "ratio" and not cell.about.below:
        below = old.state.per_group([old.columns(cell)[1]])[0][:, 0]
    return _of_groups(cell, old, before, paired, below, names)


def _by_influence(
    cell: Cell, new: estimates.Summary, old: estimates.Summary, names: tuple[str, str]
) -> Estimate:
    """The difference of two metrics of the scores of all rows: of value + n · influence."""
    before = estimates.estimate(cell, old)
    made = [estimates.linearized(cell, summary) for summary in (new, old)]
    if any(math.isnan(each.value) for each in made):
        values = [each.value for each in made]
        refused = estimates.refused(cell, new, {"p_value": math.nan, "values": values})
        return replace(refused, verdict=estimates.NOTHING)
    (mine, rows), (theirs, _) = (
        estimates.group_sums(each, summary) for each, summary in zip(made, (new, old), strict=True)
    )
    size = np.abs(mine) + np.abs(theirs)
    paired = _Paired(mine - theirs, size, rows.astype(np.float64))
    return _of_groups(cell, old, before, paired, paired.rows, names)


class _Paired(NamedTuple):
    """Differences of the sums of every group, how large they are, and how many rows it has."""

    sums: Floats
    size: Floats
    rows: Floats


def _of_groups(
    cell: Cell,
    old: estimates.Summary,
    before: Estimate,
    paired: _Paired,
    below: Floats,
    names: tuple[str, str],
) -> Estimate:
    """A difference with its interval and p-value, from those of groups of rows."""
    sums, size, rows = paired
    total = float(below.sum()) or 1.0
    value = float(sums.sum()) / total
    groups = rows.size
    spread = sums - value * below
    spread[np.abs(spread) <= ROUNDING * (size + abs(value) * below)] = 0.0
    error = math.sqrt(float(spread @ spread) * groups / (groups - 1)) / total
    per_row = below / rows
    ends = value, value
    if error or np.ptp(per_row) > ROUNDING * per_row.max():
        drawn = old.counts @ np.c_[sums, below]
        ends = intervals.hull(
            intervals.percentile(estimates.quotient(drawn[:, 0], drawn[:, 1]), old.confidence),
            intervals.student(value, error, old.confidence, groups),
        )
    p_value = sign_flip_p(sums, old.replicates, old.seed)
    claimed = claim(cell.estimator, complete=old.state.complete)
    return _finish(cell, replace(before, verdict=claimed), value, error, ends, p_value, names)


def _with_width(
    each: Estimate, cell: Cell, new: Predictions, old: Predictions, summary: estimates.Summary
) -> Estimate:
    """An interval of some width where rows show no spread, unless predictions are the same."""
    low, high = each.interval
    if low != high or cell.about.reads != "list":
        return each
    mine, theirs = (as_top(top, [cell.name]).labels[:, : cell.k] for top in (new, old))
    if np.array_equal(mine, theirs):
        return each
    ends = intervals.of_mean(
        abs(each.value), 0.0, summary.confidence, rows=summary.state.rows,
        at_most=cell.about.at_most, shares=True, weight=estimates.mean_weight(cell, summary),
    )  # fmt: skip
    if each.value == 0:
        ends = -ends[1], ends[1]
    elif each.value < 0:
        ends = -ends[1], -ends[0]
    about = each.verdict.details
    verdict = outcome(
        each.verdict, each.value, ends, each.details["p_value"],
        higher_is_better=cell.about.higher_is_better, names=(about["system"], about["first"]),
    )  # fmt: skip
    return replace(each, interval=ends, verdict=verdict)


def _paired(cell: Cell, column: int, new: estimates.Summary, old: estimates.Summary) -> _Paired:
    """Both systems, group by group."""
    rows = new.state.per_group([column])[1].astype(np.float64)
    if cell.about.over == "ratio" and cell.about.below:  # each system divides by its own sum
        mine, theirs = (_linearized(summary, cell, rows) for summary in (new, old))
    else:
        mine, theirs = (each.state.per_group([column])[0][:, 0] for each in (new, old))
    return _Paired(mine - theirs, np.abs(mine) + np.abs(theirs), rows)


def _linearized(summary: estimates.Summary, cell: Cell, rows: Floats) -> Floats:
    """Sums of groups whose mean over rows is the ratio R = Σx/Σy: of R + (x − R y) n / Σy."""
    sums, _ = summary.state.per_group(summary.columns(cell))
    above, below = sums[:, 0], sums[:, 1]
    total = float(below.sum())
    ratio = float(above.sum()) / total if total else 0.0
    return ratio * rows + (above - ratio * below) * (rows.sum() / total if total else 0.0)


def sign_flip_p(differences: Floats, replicates: int, seed: int) -> float:
    """Two-sided p-value of the sign-flip test that paired differences are symmetric about 0.

    >>> sign_flip_p(np.ones(10), 999, seed=0) < 0.02, sign_flip_p(np.zeros(10), 999, seed=0)
    (True, 1.0)
    """
    rng = np.random.default_rng(seed)
    least = abs(differences.sum()) - 1e-12 * np.abs(differences).sum()  # ties despite rounding
    as_large = 0
    for start in range(0, replicates, CHUNK):
        shape = (min(CHUNK, replicates - start), differences.size)
        signs = rng.integers(0, 2, size=shape, dtype=np.int8)
        flipped = 2 * (signs @ differences) - differences.sum()
        as_large += int((np.abs(flipped) >= least).sum())
    return (as_large + 1) / (replicates + 1)


def _finish(
    cell: Cell,
    before: Estimate,
    value: float,
    error: float,
    ends: tuple[float, float],
    p_value: float,
    names: tuple[str, str],
) -> Estimate:
    return replace(
        before,
        value=value,
        standard_error=error,
        interval=ends,
        verdict=outcome(
            before.verdict,
            value,
            ends,
            p_value,
            higher_is_better=cell.about.higher_is_better,
            names=names,
        ),
        details={"p_value": p_value, "values": [before.value + value, before.value]},
    )


def _over_labels(
    cell: Cell, new: estimates.Summary, old: estimates.Summary, names: tuple[str, str]
) -> Estimate:
    before, after = estimates.estimate(cell, old), estimates.estimate(cell, new)
    value = after.value - before.value
    if math.isnan(value):
        details = {"p_value": math.nan, "values": [after.value, before.value]}
        return replace(before if math.isnan(before.value) else after, value=value, details=details)
    worth = estimates.row_effects(cell, new) - estimates.row_effects(cell, old)
    rows = worth.size
    error = math.sqrt(float(worth @ worth) * rows / (rows - 1))
    ends = intervals.student(value, error, old.confidence, rows)
    p_value = float(2 * student.sf(abs(value) / error, rows - 1)) if error else float(value == 0)
    claimed = claim(cell.estimator, complete=old.state.complete)
    return _finish(cell, replace(before, verdict=claimed), value, error, ends, p_value, names)


def _by_jackknife(
    cell: Cell,
    new: estimates.Summary,
    old: estimates.Summary,
    twentieths: _Twentieths | None,
    names: tuple[str, str],
) -> Estimate:
    before, after = estimates.estimate(cell, old), estimates.estimate(cell, new)
    value = after.value - before.value
    if math.isnan(value):  # the data contradict the propensities: no difference, and it says so
        refused = next(each for each in (before, after) if math.isnan(each.value))
        values = [after.value, before.value]
        return replace(refused, value=value, details={"p_value": math.nan, "values": values})
    if twentieths is None:
        return replace(before, value=value, standard_error=math.nan)
    left_out = twentieths.values(names[0], cell) - twentieths.values(names[1], cell)
    groups = left_out.size
    spread = left_out - (left_out.mean() if np.ptp(left_out) else left_out[0])
    error = math.sqrt(float(spread @ spread) * (groups - 1) / groups)
    half = float(student.ppf((1 + old.confidence) / 2, groups - 1)) * error
    p_value = float(value == 0)
    if error:
        p_value = float(2 * student.sf(abs(value) / error, groups - 1))
    claimed = max(before.verdict, after.verdict, key=_claim_rank)
    if claimed.level is Level.WIDE:  # of the values; the difference has an interval of its own
        claimed = claim(cell.estimator, complete=old.state.complete)
    ends = value - half, value + half
    return _finish(cell, replace(before, verdict=claimed), value, error, ends, p_value, names)


def _claim_rank(verdict: Verdict) -> int:
    return verdict.level.rank


class _Twentieths:
    """Deconvolved values without each twentieth of the rows, made when first asked for."""

    def __init__(self, question: _Question, propensity: PropensityLike | None) -> None:
        self._question = question.with_(interval="normal")
        self._propensity = propensity
        self._summaries: dict[str, list[estimates.Summary]] = {}

    def values(self, name: str, cell: Cell) -> Floats:
        if name not in self._summaries:
            self._summaries[name] = self._without_each(name)
        each = [s.fit(cell).value(cell.metric) for s in self._summaries[name]]
        return np.array(each)

    def _without_each(self, name: str) -> list[estimates.Summary]:
        observed = checks.labels(self._question.labels)
        top = as_top(self._question.systems[name], self._question.request.metrics)
        folds = min(TWENTIETHS, observed.shape[0])
        summaries = [
            self._question.summary(
                TopK(top.labels[fold::folds], top.scores[fold::folds]),
                observed[fold::folds],
                self._rows_of_propensity(slice(fold, None, folds)),
            )
            for fold in range(folds)
        ]
        return [
            replace(
                summaries[fold],
                state=_added([m.state for i, m in enumerate(summaries) if i != fold]),
            )
            for fold in range(folds)
        ]

    def _rows_of_propensity(self, rows: slice) -> PropensityLike | None:
        if isinstance(self._propensity, sp.csr_array):
            return self._propensity[rows]
        return self._propensity


def _added(parts: list[State]) -> State:
    """The count tables of several states, added."""
    total = replace(parts[0], tables=dict(parts[0].tables), set_tables=dict(parts[0].set_tables))
    for part in parts[1:]:
        total.add_tables(part)
    return total
