"""Several systems, or several propensity models, side by side on the same rows.

`compare` says whether one system is better than another, `sensitivity` evaluates one system under
each of several propensity models (`powers`, `jain_grid`, `jain_around`, or any vectors), `ranking`
repeats a comparison under each: does the order survive?

Systems are scored on the same rows, so what is hard about a row cancels in the difference and
intervals are much narrower than those of either system. With d the difference of what a group of
rows adds to both (up to 4096 rows a group is one row, `sums`):

- the interval is the bootstrap percentile interval of Σd/n over groups, joined with that of the
  standard error; where every row says the same it is that of a share, unless predictions are the
  same (`_with_width`);
- the p-value is that of the sign-flip test: were the systems exchangeable, every d could as well
  have had the other sign, so |Σd| is compared with |Σ ±d| under random signs;
- a ratio of which both sums are the system's own, and a metric of all scores, are made means over
  rows first, of value + n · influence (`estimates`);
- a deconvolved difference has no contributions of rows: its standard error is the jackknife that
  leaves out each of 20 interleaved twentieths of the rows, and interval and p-value follow
  Student's t with 19 degrees of freedom;
- a difference of means over labels follows Student's t, with d the difference of influences and
  standard error √(Σd² n/(n − 1));
- what is not known of estimated propensities is added as in an evaluation (`vary`), and the p-value
  is then that of the normal distribution with both errors, if it is larger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.stats import norm
from scipy.stats import t as student

from unmask import propensity as models
from unmask._messages import function, named_options
from unmask._text import visible
from unmask._typing import Floats, LabelsLike, PropensityLike, ScoresLike
from unmask.arrays import checks
from unmask.metrics import estimates, intervals, vary
from unmask.metrics.claims import (
    Level,
    Run,
    Verdict,
    claim,
    judge_run,
    outcome,
    with_evidence,
)
from unmask.metrics.estimates import Summary
from unmask.metrics.evaluation import evaluate, summarized, value_again
from unmask.metrics.registry import METRICS, split
from unmask.metrics.request import (
    MEASURED,
    Predictions,
    Request,
    as_top,
    default_estimators,
    default_metrics,
    is_dataset,
    of_scores,
    refuse_ignored,
)
from unmask.metrics.sums import Cell, Sums
from unmask.metrics.table import Estimate, Table, Tables
from unmask.predictions import TopK
from unmask.propensity import PropensityEstimate
from unmask.propensity.models import PropensityModel

if TYPE_CHECKING:
    from unmask.data import Dataset, Hierarchy
    from unmask.data.judgements import Judgements
    from unmask.metrics.measured.context import CovariatesLike

Models: TypeAlias = "Mapping[str, PropensityModel | PropensityLike] | Sequence[PropensityModel]"
"""Models, or propensities by name."""
Without = Callable[[str, Cell], Floats]
"""Values of a system without each twentieth of the rows."""

TWENTIETHS = 20
CHUNK = 500
"""Sign patterns at a time."""
ROUNDING = 4 * float(np.finfo(np.float64).eps)
"""A relative difference below this is none."""
GAMMAS = (0.0, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0)
SHOWN = 3
"""Turning points that a sentence names."""


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
        The observed labels of at least two rows; the judgements of a data set hold, as in
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
    asked = replace(request, interval="percentile", replicates=replicates)
    return differences(asked, systems, labels, propensity)


def differences(
    request: Request,
    systems: Mapping[str, Predictions],
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | PropensityEstimate | None,
) -> Tables:
    """Answer a checked request about the differences of systems to the first."""
    vary.refuse_slope(tuple(systems), propensity)
    if request.hierarchy is not None:
        from unmask.metrics.groups import closed

        of_each = {n: closed(request.hierarchy, s, labels, propensity) for n, s in systems.items()}
        systems = {name: top for name, (top, _, _) in of_each.items()}
        _, labels, propensity = next(iter(of_each.values()))
    if is_dataset(labels):
        from unmask.metrics.judged_pairs import JudgedPairs

        pairs = JudgedPairs(labels.after_judgements, labels.ids, labels.label_names)
        refuse_ignored(request.metrics, pairs.pairs.ignored.nnz)
        systems = {name: pairs.predictions(top) for name, top in systems.items()}
        labels, propensity = pairs.labels, pairs.propensity(propensity)
    if request.audit is not None:
        return _with_audit(request, systems, labels, propensity)
    if sp.issparse(propensity):
        propensity = checks.matrix(propensity, name="propensities", column="label")
    if not of_scores(request.metrics):  # lists once for all
        systems = {name: as_top(top, request.metrics) for name, top in systems.items()}
    full = _Paired(request, systems, labels)
    quick = replace(full, request=replace(request, replicates=2), brief=True)

    def tables(propensities: Sequence[PropensityLike | None]) -> Iterator[dict[str, Table]]:
        for i, p in enumerate(propensities):
            yield (quick if i else full).tables(p)

    made = {}
    for name, table in vary.widened(tables, propensity, request, bounded=False).items():
        both = replace(table, estimates=tuple(map(_with_both_errors, table)))
        judged = judge_run(both, of_differences=True)
        made[name] = _based(judged, full, name, propensity)
    return Tables("system", made, run=next(iter(made.values())).run)


# --- judged rows and pairs


def _with_audit(
    request: Request,
    systems: Mapping[str, Predictions],
    labels: LabelsLike,
    propensity: PropensityLike | PropensityEstimate | None,
) -> Tables:
    """Measured differences first; a stated one that they contradict is doubtful."""
    from unmask.metrics.measured.estimates import observed_only, run_of_audit

    measured = _measured(request, systems, labels)
    others = tuple(each for each in request.estimators if each != MEASURED)
    if not others:
        of_audit = run_of_audit(checks.labels(labels), request.confidence)
        return Tables(
            "system", {name: Table(rows, of_audit) for name, rows in measured.items()}, run=of_audit
        )
    asked = replace(request, estimators=others, audit=None)
    stated = differences(asked, systems, labels, propensity)
    tables = {}
    for name, table in stated.tables.items():
        rows, run = (*measured[name], *map(observed_only, table)), table.run
        if run is not None:
            run = with_evidence(run, rows)
        tables[name] = judge_run(Table(rows, run), of_differences=True)
    return replace(stated, tables=tables)


def _measured(
    request: Request, systems: Mapping[str, Predictions], labels: LabelsLike
) -> dict[str, list[Estimate]]:
    """Measured differences to the first system, each with its outcome."""
    from unmask.metrics.measured.context import Audit
    from unmask.metrics.measured.estimates import differences_of, with_spurious_rate

    if request.audit is None:
        raise ValueError("internal error: no audit to measure by.")
    about = Audit.checked(
        request.audit, labels, request.confidence, request.covariates, request.metrics
    )
    first = next(iter(systems))
    return {
        name: [
            _decided(each, each.interval, each.details["p_value"], (name, first))
            for each in with_spurious_rate(rows, about)
        ]
        for name, rows in differences_of(about, systems).items()
    }


# --- differences from sums


@dataclass(frozen=True)
class _Paired:
    """Systems on the same rows, compared under any propensities; `brief` for drawn ones."""

    request: Request
    systems: Mapping[str, Predictions]
    labels: LabelsLike
    brief: bool = False

    def tables(self, propensity: PropensityLike | None) -> dict[str, Table]:
        """Every system but the first, less the first."""
        first, *others = self.systems
        summaries = {
            name: summarized(self.request, top, self.labels, propensity)
            for name, top in self.systems.items()
        }
        old = summaries[first]
        for name in others:
            _refuse_incomparable(summaries[name], old, (name, first))
        run = None if self.brief else _run_of(summaries)
        parts = cache(partial(self._without_each, propensity))

        def without(name: str, cell: Cell) -> Floats:
            return np.array([part.fit(cell).value(cell.metric) for part in parts(name)])

        tables = {}
        for name in others:
            both, names = (summaries[name], old), (name, first)
            jackknife = None if self.brief else without
            numbers = (
                self._with_width(cell, names, old, _difference(cell, *both, jackknife, names))
                for cell in old.plan.cells
            )
            tables[name] = Table(tuple(numbers), run)
        return tables

    def _without_each(self, propensity: PropensityLike | None, name: str) -> list[Summary]:
        """Sums of one system without each twentieth of the rows."""
        observed, asked = checks.labels(self.labels), replace(self.request, interval="normal")
        top = as_top(self.systems[name], self.request.metrics)
        folds = min(TWENTIETHS, observed.shape[0])
        parts = []
        for fold in range(folds):
            rows = slice(fold, None, folds)
            p = propensity[rows] if isinstance(propensity, sp.csr_array) else propensity
            part = TopK(top.labels[rows], top.scores[rows])
            parts.append(summarized(asked, part, observed[rows], p))
        return [
            replace(parts[fold], sums=_added([m.sums for i, m in enumerate(parts) if i != fold]))
            for fold in range(folds)
        ]

    def _with_width(
        self, cell: Cell, names: tuple[str, str], old: Summary, each: Estimate
    ) -> Estimate:
        """An interval of some width where rows show no spread, unless predictions are the same."""
        low, high = each.interval
        if low != high or cell.about.reads != "list":
            return each
        mine, theirs = (as_top(self.systems[n], [cell.name]).labels[:, : cell.k] for n in names)
        if np.array_equal(mine, theirs):
            return each
        ends = intervals.of_mean(
            abs(each.value), 0.0, self.request.confidence, rows=old.sums.rows,
            at_most=cell.about.at_most, shares=True, weight=estimates.mean_weight(cell, old),
        )  # fmt: skip
        if each.value == 0:
            ends = -ends[1], ends[1]
        elif each.value < 0:
            ends = -ends[1], -ends[0]
        return _decided(replace(each, interval=ends), ends, each.details["p_value"], names)


def _added(parts: list[Sums]) -> Sums:
    """The count tables of several sums, added."""
    total = replace(parts[0], tables=dict(parts[0].tables), set_tables=dict(parts[0].set_tables))
    for part in parts[1:]:
        total.add_tables(part)
    return total


def _run_of(summaries: Mapping[str, Summary]) -> Run:
    """The run of the first system, with what speaks against the assumptions in any of them."""
    run = next(iter(summaries.values())).run
    for summary in summaries.values():
        plain = replace(summary, request=replace(summary.request, interval="normal"))
        cells = (*summary.plan.cells, *summary.plan.evidence)
        numbers = [estimates.estimate(cell, plain) for cell in cells]
        run = with_evidence(run, numbers)
    return run


def _refuse_incomparable(new: Summary, old: Summary, names: tuple[str, str]) -> None:
    """Refuse a single row, and metrics of the whole list where lists differ in length."""
    if old.sums.rows < 2:
        raise ValueError(f"a comparison needs at least two rows; got {old.sums.rows}.")
    if not np.array_equal(new.plan.ks, old.plan.ks):
        longest = new.plan.ks[-1], old.plan.ks[-1]
        raise ValueError(
            f"{names[0]} has {longest[0]} predictions a row and {names[1]} {longest[1]}; metrics "
            f"of the whole list need a cut-off to compare them, like MRR@{min(longest)}."
        )


def _difference(
    cell: Cell, new: Summary, old: Summary, without: Without | None, names: tuple[str, str]
) -> Estimate:
    """One metric by one estimator; `without` gives values without each twentieth of the rows."""
    if cell.estimator == "filtered":
        raise ValueError(f"{cell.name} {cell.estimator} has no value per row; it cannot be paired.")
    before = estimates.estimate(cell, old)
    if cell.about.over == "labels" or cell.estimator == "deconvolved":
        after = estimates.estimate(cell, new)
        value = after.value - before.value
        if math.isnan(value):  # the data contradict the propensities: no difference, it says so
            refused = before if math.isnan(before.value) else after
            details = {"p_value": math.nan, "values": [after.value, before.value]}
            return replace(refused, value=value, details=details)
        if cell.about.over == "labels":
            worth = estimates.row_effects(cell, new) - estimates.row_effects(cell, old)
            error = math.sqrt(float(worth @ worth) * worth.size / (worth.size - 1))
            return _by_student(cell, before, value, error, worth.size, old, names)
        return _by_jackknife(cell, (before, after), without, old, names)
    if cell.about.over == "scores":
        made = [estimates.linearized(cell, summary) for summary in (new, old)]
        if any(math.isnan(each.value) for each in made):
            details = {"p_value": math.nan, "values": [each.value for each in made]}
            return estimates.refused(cell, new, details, estimates.NOTHING)
        (mine, groups), (theirs, _) = map(estimates.group_sums, made, (new, old))
        return _of_groups(cell, before, mine, theirs, groups.astype(np.float64), None, old, names)
    tau = before.details.get("tau")
    key = next(key for key in cell.keys if tau is None or key[0][0] == tau)
    column = old.plan.column(key, cell.k)
    if math.isnan(before.value) or new.sums.overflows(column):
        details = {"p_value": math.nan, "values": [math.nan, before.value]}
        return estimates.refused(cell, new, details)
    sums, groups = old.sums.per_group([column])
    rows: Floats = groups.astype(np.float64)
    theirs, below = sums[:, 0], None
    mine = new.sums.per_group([column])[0][:, 0]
    if cell.about.over == "ratio":
        own = [each.sums.per_group(each.columns(cell))[0] for each in (new, old)]
        if cell.about.below:  # each system divides by its own sum
            mine, theirs = (estimates.ratio_rows(each[:, 0], each[:, 1], rows) for each in own)
        else:
            below = own[1][:, 1]
    return _of_groups(cell, before, mine, theirs, rows, below, old, names)


def _of_groups(
    cell: Cell, before: Estimate, mine: Floats, theirs: Floats, rows: Floats,
    below: Floats | None, old: Summary, names: tuple[str, str],
) -> Estimate:  # fmt: skip
    """A difference with its interval and p-value, from the sums of groups of rows."""
    request, below = old.request, rows if below is None else below
    sums, size = mine - theirs, np.abs(mine) + np.abs(theirs)
    total = float(below.sum()) or 1.0
    value = float(sums.sum()) / total
    spread = sums - value * below
    spread[np.abs(spread) <= ROUNDING * (size + abs(value) * below)] = 0.0
    error = math.sqrt(float(spread @ spread) * rows.size / (rows.size - 1)) / total
    per_row = below / rows
    ends = value, value
    if error or np.ptp(per_row) > ROUNDING * per_row.max():
        drawn = old.counts @ np.c_[sums, below]
        ends = intervals.hull(
            intervals.percentile(estimates.quotient(drawn[:, 0], drawn[:, 1]), request.confidence),
            intervals.student(value, error, request.confidence, rows.size),
        )
    p_value = sign_flip_p(sums, request.replicates, request.seed)
    claimed = claim(cell.estimator, complete=old.sums.complete)
    return _finished(before, claimed, value, error, ends, p_value, names)


def _by_student(
    cell: Cell, before: Estimate, value: float, error: float, count: int, old: Summary,
    names: tuple[str, str], claimed: Verdict | None = None,
) -> Estimate:  # fmt: skip
    """A difference whose error `count` numbers tell."""
    ends = intervals.student(value, error, old.request.confidence, count)
    p_value = float(2 * student.sf(abs(value) / error, count - 1)) if error else float(value == 0)
    claimed = claimed or claim(cell.estimator, complete=old.sums.complete)
    return _finished(before, claimed, value, error, ends, p_value, names)


def _by_jackknife(
    cell: Cell, both: tuple[Estimate, Estimate], without: Without | None, old: Summary,
    names: tuple[str, str],
) -> Estimate:  # fmt: skip
    before, after = both
    value = after.value - before.value
    if without is None:
        return replace(before, value=value, standard_error=math.nan)
    left_out = without(names[0], cell) - without(names[1], cell)
    groups = left_out.size
    spread = left_out - (left_out.mean() if np.ptp(left_out) else left_out[0])
    error = math.sqrt(float(spread @ spread) * (groups - 1) / groups)
    claimed = max((before.verdict, after.verdict), key=lambda verdict: verdict.level.rank)
    if claimed.level is Level.WIDE:  # of the values; the difference has an interval of its own
        claimed = claim(cell.estimator, complete=old.sums.complete)
    return _by_student(cell, before, value, error, groups, old, names, claimed)


def _finished(
    before: Estimate, claimed: Verdict, value: float, error: float, ends: tuple[float, float],
    p_value: float, names: tuple[str, str],
) -> Estimate:  # fmt: skip
    details = {"p_value": p_value, "values": [before.value + value, before.value]}
    made = replace(before, value=value, standard_error=error, interval=ends, details=details)
    return _decided(replace(made, verdict=claimed), ends, p_value, names)


def _decided(
    each: Estimate, ends: tuple[float, float], p_value: float, names: tuple[str, str]
) -> Estimate:
    """A difference whose verdict says which system is better."""
    higher = METRICS[split(each.metric)[0]].higher_is_better
    verdict = outcome(each.verdict, each.value, ends, p_value, higher_is_better=higher, names=names)
    return replace(each, verdict=verdict)


def _with_both_errors(each: Estimate) -> Estimate:
    """With the p-value and the outcome that both errors leave, where propensities were drawn."""
    if "propensity_share" not in each.details:
        return each
    with_both = float(2 * norm.sf(abs(each.value) / each.standard_error))
    p_value = max(each.details["p_value"], with_both)
    about = each.verdict.details
    details = {**each.details, "p_value": p_value}
    names = about["system"], about["first"]
    return _decided(replace(each, details=details), each.interval, p_value, names)


def sign_flip_p(differences: Floats, replicates: int, seed: int) -> float:
    """Return the p-value of the sign-flip test that paired differences are symmetric about 0.

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


def _based(table: Table, compared: _Paired, name: str, propensity: PropensityLike | None) -> Table:
    """The differences, with what computes how far they move."""
    if propensity is None or sp.issparse(propensity):
        return table
    first = next(iter(compared.systems))
    moved = []
    for each in table:
        wanted = each.estimator in ("unbiased", "deconvolved") and math.isfinite(each.value)
        metric, k = split(each.metric)
        about = METRICS[metric]
        if wanted and about.over == "rows" and about.reads == "list":
            new, old = (as_top(compared.systems[n], [each.metric]) for n in (name, first))
            again = partial(_again, compared.request, (new, old), compared.labels, each)
            cell = Cell(each.metric, metric, each.estimator, k or new.k, ())
            rows = (new, old), compared.labels, propensity
            each = replace(each, basis=partial(vary.of_difference, cell, each.value, *rows, again))
        moved.append(each)
    return replace(table, estimates=tuple(moved))


def _again(
    request: Request, systems: tuple[TopK, TopK], labels: LabelsLike, each: Estimate,
    propensity: PropensityLike,
) -> float:  # fmt: skip
    """The difference of two systems under other propensities, by one metric."""
    new, old = (
        value_again(request, top, labels, each.metric, each.estimator, propensity)
        for top in systems
    )
    return new - old


# --- several propensity models


@named_options
def sensitivity(
    top: TopK | ScoresLike,
    labels: LabelsLike,
    propensities: Models,
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
    draws: int = 100,
) -> Tables:
    """Evaluate under each of several propensity models, by name.

    Parameters
    ----------
    top : TopK or (n, L) scores
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    propensities : mapping of str to PropensityModel or propensities, or sequence of PropensityModel
        Make models with `powers`, `jain_grid` or `jain_around`, or give any vectors.
    metrics, estimators, confidence, interval, replicates, seed, tau, clip, fraction
        As in `evaluate`.
    information, draws
        As in `evaluate`.

    Returns
    -------
    Tables
        By name of model, with the models' parameters.

    Raises
    ------
    ValueError
        If there is no model, or as `evaluate` under one of them.

    Examples
    --------
    >>> top = TopK([[0], [0]], [[1.0], [1.0]])
    >>> models = powers([0.5, 0.5], [0, 1])
    >>> tables = sensitivity(top, [[1, 0], [0, 1]], models, metrics=["P@1"])
    >>> [tables[name]["P@1", "unbiased"].value for name in tables]
    [0.5, 1.0]
    """
    stated = _stated(propensities)
    tables = {
        name: evaluate(
            top, labels, p, metrics=metrics, estimators=estimators, confidence=confidence,
            interval=interval, replicates=replicates, seed=seed, tau=tau, clip=clip,
            fraction=fraction, information=information, draws=draws,
        )
        for name, (p, _) in stated.items()
    }  # fmt: skip
    return Tables(
        "propensity",
        tables,
        {name: parameters for name, (_, parameters) in stated.items()},
    )


@named_options
def ranking(
    systems: Mapping[str, TopK | ScoresLike],
    labels: LabelsLike,
    propensities: Models,
    *,
    metric: str,
    estimator: str = "unbiased",
    confidence: float = 0.95,
    replicates: int = 2000,
    seed: int = 0,
    tau: float | str = "auto",
    clip: float = 10.0,
    information: ArrayLike | None = None,
    draws: int = 100,
) -> Ranking:
    """Compare systems under each of several propensity models: does their order survive?

    Parameters
    ----------
    systems : mapping of str to TopK or (n, L) scores
        At least two; every system is compared with the first one.
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    propensities : mapping of str to PropensityModel or propensities, or sequence of PropensityModel
        Where models have parameters, the result says at which the order turns.
    metric : str
        Such as "R@5".
    estimator : str, default "unbiased"
    confidence, replicates, seed, tau, clip, information, draws
        As in `compare`.

    Returns
    -------
    Ranking

    Raises
    ------
    ValueError
        If there is no model or fewer than two systems, or as `compare` under one of the models.

    Examples
    --------
    One system finds label 0, which is common, the other label 1, of which half is missing:

    >>> systems = {"head": TopK([[0]] * 9, [[1.0]] * 9), "tail": TopK([[1]] * 9, [[1.0]] * 9)}
    >>> labels = [[1, 0]] * 5 + [[0, 1]] * 4
    >>> order = ranking(systems, labels, powers([1.0, 0.5], [0, 0.2, 1]), metric="P@1")
    >>> print(order.statement)
    The order of tail and head in P@1 (unbiased) depends on the propensities: tail is ahead under \
1 of 3 models; it turns between γ = 0.2 and 1, at about 0.295. The interval of the difference \
excludes 0 under 0 of 3.
    """
    rows = []
    for model, (p, parameters) in _stated(propensities).items():
        tables = compare(
            systems, labels, p, metrics=[metric], estimators=[estimator], confidence=confidence,
            replicates=replicates, seed=seed, tau=tau, clip=clip, information=information,
            draws=draws,
        )  # fmt: skip
        for name in tables:
            each = tables[name][metric, estimator]
            numbers = (each.value, *each.interval, *each.details["values"])
            finite = (float(x) if np.isfinite(x) else None for x in numbers)
            named = zip(("difference", "low", "high", "value", "first"), finite, strict=True)
            about = {"model": model, "parameters": parameters, "system": name}
            rows.append({**about, **dict(named), "level": each.verdict.level.value})
    return Ranking(metric, estimator, next(iter(systems)), tuple(rows))


def _stated(propensities: Models) -> dict[str, tuple[PropensityLike, dict[str, float]]]:
    """Propensities and parameters by name of model."""
    if not len(propensities):
        raise ValueError("give at least one propensity model, as a mapping from name to vector.")
    if not isinstance(propensities, Mapping):
        propensities = {model.name: model for model in propensities}
    return {
        name: (p.values, dict(p.parameters)) if isinstance(p, PropensityModel) else (p, {})
        for name, p in propensities.items()
    }


@dataclass(frozen=True)
class Ranking:
    """Lead of every system over the first under every propensity model.

    Attributes
    ----------
    metric, estimator : str
        What is compared.
    first : str
        The system that all others are compared with.
    rows : tuple of dict
        Plain values: model, parameters (of the model, by name), system, value, first (the value of
        the first system), difference, low, high (the interval of the difference); None where the
        data refuse the model; and level, what the difference may claim under the model.

    Examples
    --------
    >>> systems = {"head": TopK([[0]] * 9, [[1.0]] * 9), "tail": TopK([[1]] * 9, [[1.0]] * 9)}
    >>> labels = [[1, 0]] * 5 + [[0, 1]] * 4
    >>> order = ranking(systems, labels, powers([1.0, 0.5], [0, 1]), metric="P@1")
    >>> order.holds, order.level.value
    (False, 'doubtful')
    >>> [(row["model"], row["system"], round(row["difference"], 2)) for row in order.rows]
    [('γ = 0', 'tail', -0.11), ('γ = 1', 'tail', 0.33)]
    """

    metric: str
    estimator: str
    first: str
    rows: tuple[dict[str, Any], ...]

    @property
    def statement(self) -> str:
        """One sentence per system: does the order hold, and if not, where does it turn?"""
        return "\n".join(visible(self._sentence(*each)) for each in self.by_system())

    @property
    def holds(self) -> bool:
        """Is the order of every pair the same under all models?"""
        return all(len({sign for sign in self._signs(rows) if sign}) <= 1
                   for _, rows in self.by_system())  # fmt: skip

    @property
    def level(self) -> Level:
        """Claim of the order: `doubtful` if it turns, else what it may claim under every model.

        `unusable` if the data refute every model.
        """
        levels = [Level(row["level"]) for row in _accepted(list(self.rows)) if "level" in row]
        if not _accepted(list(self.rows)):
            return Level.UNUSABLE
        if not self.holds or len(_accepted(list(self.rows))) < len(self.rows):
            return Level.DOUBTFUL
        return max(levels, default=Level.CONDITIONAL)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; `Ranking(**record)` makes it again."""
        return asdict(self) | {"rows": list(self.rows)}

    def by_system(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Every system but the first, with its rows."""
        for system in dict.fromkeys(row["system"] for row in self.rows):
            yield system, [row for row in self.rows if row["system"] == system]

    def _signs(self, rows: list[dict[str, Any]]) -> list[int]:
        """1 where the system is better than the first, −1 where it is worse."""
        upwards = 1 if METRICS[split(self.metric)[0]].higher_is_better else -1
        return [upwards * int(np.sign(row["difference"])) for row in _accepted(rows)]

    def _sentence(self, system: str, rows: list[dict[str, Any]]) -> str:
        accepted, measure = _accepted(rows), f"in {self.metric} ({self.estimator})"
        if not accepted:
            return f"No propensity model gives {system} and {self.first} an order {measure}."
        signs, of = self._signs(rows), len(accepted)
        ahead, behind = signs.count(1), signs.count(-1)
        clear = sum(row["low"] > 0 or row["high"] < 0 for row in accepted)
        refused = f" The data refute the other {len(rows) - of}." if of < len(rows) else ""
        sure = f"The interval of the difference excludes 0 under {clear} of {of}.{refused}"
        if not ahead and not behind:
            return f"{system} and {self.first} are equal {measure} under all {of} models. {sure}"
        if not ahead or not behind:
            winner, loser = (system, self.first) if ahead else (self.first, system)
            sizes = [abs(row["difference"]) for row in accepted if row["difference"]]
            under = f"all {of}" if len(sizes) == of else f"{len(sizes)} of {of}"
            equal = f" They are equal under {of - len(sizes)}." if len(sizes) < of else ""
            return (
                f"{winner} beats {loser} {measure} under {under} propensity models, by "
                f"{min(sizes):.4f} to {max(sizes):.4f}.{equal} {sure}"
            )
        return (
            f"The order of {system} and {self.first} {measure} depends on the propensities: "
            f"{system} is ahead under {ahead} of {of} models"
            f"{_turning_points(list(_crossings(accepted)))}. {sure}"
        )


def _accepted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows whose model the data did not refute, by a refused fit or by impossible values."""
    return [
        row for row in rows
        if row["difference"] is not None and row.get("level") != Level.UNUSABLE
    ]  # fmt: skip


def _turning_points(points: list[str]) -> str:
    if not points:
        return ""
    return f"; it turns {', '.join(points[:SHOWN])}" + (", and elsewhere" * (len(points) > SHOWN))


def _crossings(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Where the difference crosses 0 between models that differ in one parameter alone."""
    names = dict.fromkeys(name for row in rows for name in _parameters(row))
    for name in names:
        for fixed, line in _lines(rows, name):
            signed = [(x, difference) for x, difference in line if difference]
            for (left, before), (right, after) in pairwise(signed):
                if np.sign(before) != np.sign(after):
                    between = left + (right - left) * before / (before - after)
                    zero = next((x for x, _ in line if left < x < right), between)  # or there
                    fixed_parameters = ", ".join(f"{key} = {value:g}" for key, value in fixed)
                    yield (
                        f"between {name} = {left:g} and {right:g}, at about {zero:.3g}"
                        + (f" (for {fixed_parameters})" if fixed_parameters else "")
                    )


def _lines(
    rows: list[dict[str, Any]], name: str
) -> Iterator[tuple[tuple[tuple[str, float], ...], list[tuple[float, float]]]]:
    """(Parameter, difference) of the models that share all other parameters, in its order."""
    lines: dict[tuple[tuple[str, float], ...], list[tuple[float, float]]] = {}
    for row in rows:
        parameters = _parameters(row)
        if name in parameters:
            fixed = tuple((key, value) for key, value in parameters.items() if key != name)
            lines.setdefault(fixed, []).append((parameters[name], row["difference"]))
    return ((fixed, sorted(line)) for fixed, line in lines.items())


def _parameters(row: dict[str, Any]) -> Mapping[str, float]:
    parameters: Mapping[str, float] = row.get("parameters", {})
    return parameters


@named_options
def powers(propensity: ArrayLike, gammas: Iterable[float] = GAMMAS) -> dict[str, PropensityModel]:
    """Propensities p^γ: γ = 0 says that nothing is missing, γ = 1 is the model, γ = 2 its square.

    Parameters
    ----------
    propensity : (L,) floats in (0, 1]
    gammas : iterable of float, default (0, 0.5, 0.8, 1, 1.2, 1.5, 2)
        Powers in [0, 10].

    Returns
    -------
    dict of str to PropensityModel
        By name, each with the parameter γ.

    Raises
    ------
    ValueError
        If a power is 0 in float64.

    Examples
    --------
    >>> {name: model.values.tolist() for name, model in powers([0.5], [0, 1, 2]).items()}
    {'γ = 0': [1.0], 'γ = 1': [0.5], 'γ = 2': [0.25]}
    """
    checked = checks.propensity(propensity)
    return _by_name(({"γ": float(gamma)}, _power(checked, gamma)) for gamma in gammas)


def _power(p: Floats, gamma: float) -> Floats:
    with np.errstate(under="ignore"):
        raised: Floats = p ** checks.in_range(gamma, "γ", 0, 10)
    if not raised.all():
        label = int(np.argmin(p))
        raise ValueError(
            f"p^{gamma:g} is 0 in float64 for p = {p[label]:g} at label {label}; leave that γ out, "
            f"or raise the propensities with {function('propensity.clip')}."
        )
    return raised


@named_options
def jain_grid(
    train_labels: LabelsLike, constants: Iterable[tuple[float, float]] | None = None
) -> dict[str, PropensityModel]:
    """Jain propensities of training labels for several (a, b).

    Parameters
    ----------
    train_labels : (n, L) matrix of 0 and 1
    constants : iterable of (a, b), optional
        By default those in common use: (0.5, 0.4), (0.55, 1.5), (0.6, 2.6).

    Returns
    -------
    dict of str to PropensityModel
        By name, each with the parameters a and b.

    Raises
    ------
    ValueError
        If labels are not 0 and 1, there are fewer than 3 rows, or a constant is not positive.

    Examples
    --------
    >>> list(jain_grid([[1, 0]] * 25 + [[0, 1]] * 25, [(0.55, 1.5), (0.5, 0.4)]))
    ['a = 0.55, b = 1.5', 'a = 0.5, b = 0.4']
    """
    pairs = constants or ((0.5, 0.4), (0.55, 1.5), (0.6, 2.6))
    checked = checks.labels(train_labels)
    return _by_name(
        ({"a": float(a), "b": float(b)}, models.jain(checked, a=a, b=b)) for a, b in pairs
    )


@named_options
def jain_around(
    train_labels: LabelsLike, *, a: float = 0.55, b: float = 1.5, spread: float = 0.5
) -> dict[str, PropensityModel]:
    """The nine Jain models with a and b lower by the share `spread`, as given, and higher by it.

    Parameters
    ----------
    train_labels : (n, L) matrix of 0 and 1
    a, b : float, default 0.55 and 1.5
        The constants in the middle.
    spread : float, default 0.5
        A share in [0.01, 0.99].

    Returns
    -------
    dict of str to PropensityModel
        By name, each with the parameters a and b.

    Raises
    ------
    ValueError
        If `spread` lies outside [0.01, 0.99], or as `jain_grid`.

    Examples
    --------
    >>> list(jain_around([[1, 0]] * 25 + [[0, 1]] * 25))[::4]
    ['a = 0.275, b = 0.75', 'a = 0.55, b = 1.5', 'a = 0.825, b = 2.25']
    """
    checks.in_range(spread, "spread", 0.01, 0.99)
    steps = (1 - spread, 1.0, 1 + spread)
    return jain_grid(
        train_labels, [(a * across_a, b * across_b) for across_a in steps for across_b in steps]
    )


def _by_name(family: Iterable[tuple[dict[str, float], Floats]]) -> dict[str, PropensityModel]:
    """Models of (parameters, propensities), named after their parameters."""
    named = [
        PropensityModel(
            ", ".join(f"{key} = {value:g}" for key, value in parameters.items()), p, parameters
        )
        for parameters, p in family
    ]
    return {model.name: model for model in named}
