"""One run, one judgement: what all numbers of a run, seen together, say of its assumptions.

Every number was judged by itself (`verdict.judge`). Together they can contradict the propensities
or the independence of losses, and then no number that rests on them may claim more:

- an unbiased P@k (or another share of right predictions, or a one-error below 0, which is the same)
  that is significantly above 1 refutes the propensities, which are too low. On a
  file without empty rows it may also mean that rows which lost all their labels were left out; then
  row-by-row corrections are unusable, and `deconvolved`, which allows for that, is doubtful;
- a deconvolution that the data refuse refutes propensities and independence together, a misfit
  makes them doubtful;
- on a file from which rows that lost all their labels were left out, corrections row by row are
  doubtful, since they speak of other rows, and contradict nobody; so are they with a mask model by
  which labels of a row are lost together, unless the metric adds up labels;
- propensities by Jain's formula were measured by nobody, and on real labels they were off by 1.5
  times: a number that such a factor moves too far is wide, however narrow its interval;
- without propensities, and unless labels are declared complete, a number is one of recorded labels:
  doubtful, and the difference of two systems says which one scores higher, not which is better;
- estimators of one metric whose intervals do not meet make each other doubtful; a measured number
  outside the interval of a corrected one makes all corrected numbers doubtful; so do wrong labels
  among those that an audit judged.

Advice is then given again, so that it never names an estimator that is itself refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from statistics import NormalDist
from typing import NamedTuple

from unmask.metrics.registry import METRICS, UNCONDITIONAL, split
from unmask.metrics.robustness import GAMMAS
from unmask.metrics.run import Evidence, EvidenceKind, Run
from unmask.metrics.table import Estimate, Table
from unmask.metrics.verdict import CONDITIONAL, Advice, Level, Outcome, Reason, Verdict, too_wide

ALPHA = 0.01
"""The chance, over all P@k of a run together, that one of them is called above 1 by chance."""
BY_ENTRY = ("P", "DCG", "nDCG")
"""Metrics that propensities per entry correct where these depend on the score."""
SPURIOUS = 0.01
"""Wrong labels count against corrections if even the lower end of their share is above this."""
PRECISIONS = frozenset({"P", "sample-P", "micro-P", "macro-P", "weighted-P", "mAP"})
"""Metrics that an unbiased estimate can only put above 1 if propensities are too low, …"""
WRONG = frozenset({"one-error"})
"""… and those that it can only put below 0 then: one less a precision."""
OUTCOME = ("outcome", "system", "first", "p_value")
"""Details of the verdict on a difference."""
TRUTHFUL = ("unbiased", "subsampled", "deconvolved")
"""Estimators that aim at the true metric, so that their intervals should meet."""


def judge_run(table: Table, *, of_differences: bool = False) -> Table:
    """The table, every verdict in the light of all numbers.

    Parameters
    ----------
    table : Table
        With verdicts number by number, and its `run`.
    of_differences : bool, default False
        Whether the numbers are differences of systems; then the evidence in the `run` is that of
        the systems, and none is sought in the differences.

    Returns
    -------
    Table
        With the evidence in its `run`; as it was if there is no run.

    Examples
    --------
    >>> from unmask.propensity import Source
    >>> above = Estimate("P@1", "unbiased", 1.2, 0.02, (1.16, 1.24), 900.0, 0.01, 999, CONDITIONAL)
    >>> beside = Estimate("R@5", "unbiased", 0.5, 0.02, (0.46, 0.54), 900.0, 0.01, 999, CONDITIONAL)
    >>> judged = judge_run(Table([above, beside], Run(Source(), 999, 12, 0.95)))
    >>> print(judged["R@5", "unbiased"].verdict)
    unusable: this run contradicts the assumptions: P@1 comes to 1.200, more than 1; audit some \
hundred rows
    """
    if table.run is None:
        return table
    estimates = [_of_recorded(_claimed(each), table.run) for each in table.estimates]
    evidence = table.run.evidence if of_differences else tuple(collect(estimates, table.run))
    run = replace(table.run, evidence=evidence)
    judged = [_with_verdict(each, _in_context(each, run, of_differences)) for each in estimates]
    advised = [_with_verdict(each, _advised(each, judged, run)) for each in judged]
    return replace(table, estimates=tuple(advised), run=run)


def _with_verdict(each: Estimate, verdict: Verdict) -> Estimate:
    return each if verdict is each.verdict else replace(each, verdict=verdict)


def corrected(estimate: Estimate) -> bool:
    """Whether a number rests on the propensities, as a claim about the truth."""
    return estimate.estimator not in UNCONDITIONAL and estimate.verdict.level > Level.MEASURED


def collect(estimates: Iterable[Estimate], run: Run) -> list[Evidence]:
    """What the numbers of a run say against its assumptions, the gravest first.

    Parameters
    ----------
    estimates : iterable of Estimate
        Of one system.
    run : Run

    Returns
    -------
    list of Evidence
    """
    resting = [each for each in estimates if corrected(each)]
    measured = [each for each in estimates if each.estimator == "measured"]
    speaking = [
        each for each in resting
        if not (run.left_out and _row_by_row(each)) and not _denied(each, run)
    ]  # fmt: skip
    evidence = [
        *_above_range(resting, run),
        *_contradicted_fits(resting),
        *_disagreeing([m for m in measured if m.verdict.level < Level.DOUBTFUL], speaking),
        *_spurious(measured),
        *_dependent(resting),
        *_disjoint(speaking),
    ]
    return sorted(evidence, key=lambda each: not each.refutes)


def _above_range(estimates: list[Estimate], run: Run) -> Iterator[Evidence]:
    """The unbiased P@k that is furthest above 1 in standard errors, if that is no chance."""
    unbiased = [each for each in estimates if each.estimator == "unbiased"]
    shares = [
        share for share in map(_share_of_right, unbiased)
        if share is not None and 0 < share.error < math.inf
    ]  # fmt: skip
    if not shares:
        return
    worst = max(shares, key=lambda share: share.excess / share.error)
    if worst.excess > NormalDist().inv_cdf(1 - ALPHA / len(shares)) * worst.error:
        details = {
            "metric": worst.metric,
            "value": worst.value,
            "rows": worst.rows,
            "empty_rows": run.empty_rows,
        }
        yield Evidence(EvidenceKind.ABOVE_RANGE, True, details)


class _Share(NamedTuple):
    """A share of right predictions, and by how much it is beyond what a share can be."""

    metric: str
    value: float
    excess: float
    error: float
    rows: float


def _share_of_right(each: Estimate) -> _Share | None:
    """What an estimate says of right predictions; None where it says nothing of them, or little."""
    metric, rows = split(each.metric)[0], each.effective_sample_size
    if each.verdict.reason is Reason.FEW_ROWS:
        return None
    if metric in PRECISIONS:
        return _Share(each.metric, each.value, each.value - 1, each.standard_error, rows)
    if metric in WRONG:
        return _Share(each.metric, each.value, -each.value, each.standard_error, rows)
    if "precision_error" in each.details:
        value, error = each.details["precision"], each.details["precision_error"]
        return _Share(f"precision at {each.metric}", value, value - 1, error, rows)
    return None


def _contradicted_fits(estimates: list[Estimate]) -> Iterator[Evidence]:
    """The worst fit of label counts, if the data refuse or doubt one."""
    for reason, kind in (
        (Reason.REFUSED, EvidenceKind.REFUSED_FIT),
        (Reason.MISFIT, EvidenceKind.MISFIT),
    ):
        verdicts = [each.verdict for each in estimates if each.verdict.reason is reason]
        if verdicts:
            worst = max(verdicts, key=lambda verdict: verdict.details["misfit"])
            yield Evidence(kind, kind is EvidenceKind.REFUSED_FIT, dict(worst.details))
            return


def _disagreeing(measured: list[Estimate], estimates: list[Estimate]) -> Iterator[Evidence]:
    for audited in measured:
        for each in estimates:
            if (
                each.metric == audited.metric
                and each.estimator in TRUTHFUL
                and _apart(audited, each)
            ):
                yield Evidence(EvidenceKind.AUDIT_DISAGREES, False, _pair(audited, each))
                return


def _spurious(measured: list[Estimate]) -> Iterator[Evidence]:
    """Wrong labels among the judged observed ones, if they are more than a slip."""
    for each in measured:
        if each.details.get("spurious_low", 0.0) > SPURIOUS:
            details = {"spurious": each.details["spurious"]}
            yield Evidence(EvidenceKind.SPURIOUS_LABELS, False, details)
            return


def _dependent(estimates: list[Estimate]) -> Iterator[Evidence]:
    for each in estimates:
        if each.verdict.reason is Reason.DEPENDENT_LABELS:
            details = {"design_effect": each.verdict.details["design_effect"]}
            yield Evidence(EvidenceKind.DEPENDENT_LABELS, False, details)
            return


def _disjoint(estimates: list[Estimate]) -> Iterator[Evidence]:
    """Pairs of estimators of one metric whose intervals do not meet."""
    usable = [each for each in estimates if each.estimator in TRUTHFUL and each.verdict.usable]
    for one, other in combinations(usable, 2):
        if one.metric == other.metric and _apart(one, other):
            yield Evidence(EvidenceKind.DISJOINT, False, _pair(one, other))


def _apart(one: Estimate, other: Estimate) -> bool:
    return one.interval[1] < other.interval[0] or other.interval[1] < one.interval[0]


def _pair(one: Estimate, other: Estimate) -> dict[str, float | str]:
    return {
        "metric": one.metric,
        "first": one.estimator,
        "first_value": one.value,
        "second": other.estimator,
        "second_value": other.value,
    }


def _claimed(each: Estimate) -> Estimate:
    """Tempered by τ = 1 is unbiased, and may claim what that does."""
    if each.details.get("tau") != 1.0 or each.verdict.reason is not Reason.BIASED_BY_DESIGN:
        return each
    half_width = each.verdict.details.get("half_width")
    verdict = CONDITIONAL
    if half_width is not None:
        verdict = Verdict(Level.WIDE, Reason.WIDE, details={"half_width": half_width})
    return replace(each, verdict=verdict)


def _of_recorded(each: Estimate, run: Run) -> Estimate:
    """A number that speaks of recorded labels claims no more; a difference, who scores higher."""
    recorded = (run.recorded and each.estimator != "measured") or each.estimator == "vanilla"
    if run.complete or not recorded:
        return each
    verdict = each.verdict
    if run.recorded and verdict.level < Level.DOUBTFUL:
        kept = ("half_width", *OUTCOME)
        about = {name: verdict.details[name] for name in kept if name in verdict.details}
        verdict = Verdict(Level.DOUBTFUL, Reason.RECORDED_LABELS, Advice.AUDIT, about)
    if verdict.details.get("outcome") in (Outcome.BETTER, Outcome.WORSE):
        higher = Outcome.HIGHER if each.value > 0 else Outcome.LOWER
        verdict = replace(verdict, details={**verdict.details, "outcome": higher})
    return _with_verdict(each, verdict)


def _in_context(each: Estimate, run: Run, of_differences: bool) -> Verdict:
    """The verdict of one number, given what all say."""
    verdict = each.verdict
    if verdict.reason is Reason.OUTSIDE_RANGE:
        about = {"effective": each.effective_sample_size, "empty_rows": run.empty_rows}
        finite = {name: value for name, value in about.items() if math.isfinite(value)}
        verdict = replace(verdict, details={**verdict.details, **finite})
    if not corrected(each):
        return verdict
    unmeasured = () if of_differences else _unmeasured(each, run)
    for level, reason, details in (*unmeasured, *_objections(each, run)):
        if level > verdict.level:
            verdict = Verdict(level, reason, details={**outcome_of(verdict), **details})
    if verdict.level in (Level.CONDITIONAL, Level.WIDE):
        condition = {"source": run.source, "left_out": run.left_out}
        verdict = replace(verdict, details={**verdict.details, **condition})
    return verdict


def outcome_of(verdict: Verdict) -> dict[str, object]:
    """What a comparison found, which stays whatever the number may claim."""
    return {name: verdict.details[name] for name in OUTCOME if name in verdict.details}


def _objections(each: Estimate, run: Run) -> Iterator[tuple[Level, Reason, dict[str, object]]]:
    for evidence in run.evidence:
        about: dict[str, object] = {"evidence": evidence}
        if evidence.kind is EvidenceKind.DISJOINT:
            if each.metric == evidence.details["metric"]:
                yield from _contradicted_by(each, evidence)
        elif evidence.kind is EvidenceKind.DEPENDENT_LABELS:
            continue  # `propensity_uncertainty` says where it matters
        elif evidence.refutes and not _explained(each, evidence):
            yield Level.UNUSABLE, Reason.REFUTED, about
        else:
            yield Level.DOUBTFUL, Reason.REFUTED, about
    if run.source.score_slope and split(each.metric)[0] not in BY_ENTRY:
        yield Level.DOUBTFUL, Reason.SCORE_SLOPE, {"slope": run.source.score_slope}
    if run.source.spurious > SPURIOUS and "wrong_labels" not in each.details:
        yield Level.DOUBTFUL, Reason.SPURIOUS, {"spurious": run.source.spurious}
    if _denied(each, run):
        yield Level.DOUBTFUL, Reason.ROW_EFFORT, {}
    if run.left_out and _row_by_row(each):
        yield Level.DOUBTFUL, Reason.LEFT_OUT, {"lost": run.lost}


def _unmeasured(each: Estimate, run: Run) -> Iterator[tuple[Level, Reason, dict[str, object]]]:
    """Wide, if a formula for the propensities is all that a number rests on, and it moves by it.

    The number is taken to be proportional to 1/p, as P@k is, exactly.
    """
    about = METRICS[split(each.metric)[0]]
    if not run.source.by_formula or about.reads != "list" or each.estimator not in TRUTHFUL:
        return
    gamma, most = GAMMAS[0], math.inf if about.at_most is None else about.at_most
    low, high = each.value / gamma, min(each.value * gamma, most)
    if too_wide((high - low) / 2, each.value, about.at_most):
        yield Level.WIDE, Reason.FORMULA, {"low": low, "high": high, "gamma": gamma}


def _row_by_row(each: Estimate) -> bool:
    """Whether every row is corrected by itself, so that all rows must be there."""
    return each.estimator != "deconvolved"


def _denied(each: Estimate, run: Run) -> bool:
    """Whether it needs labels of a row to go missing independently, which the mask model denies."""
    adds_up = METRICS[split(each.metric)[0]].adds_up
    return not run.source.independent and _row_by_row(each) and not adds_up


def _contradicted_by(
    each: Estimate, evidence: Evidence
) -> Iterator[tuple[Level, Reason, dict[str, object]]]:
    about = evidence.details
    others = {about["first"]: "second", about["second"]: "first"}
    if each.estimator in others:
        side = others[each.estimator]
        details = {"other": about[side], "other_value": about[f"{side}_value"]}
        yield Level.DOUBTFUL, Reason.DISJOINT, details


def _explained(each: Estimate, evidence: Evidence) -> bool:
    """Whether rows left out of the file may explain it, for which `deconvolved` allows."""
    left_out = evidence.kind is EvidenceKind.ABOVE_RANGE and not evidence.details["empty_rows"]
    return left_out and each.estimator == "deconvolved"


def _advised(each: Estimate, judged: list[Estimate], run: Run) -> Verdict:
    """The verdict with advice that this run does not refuse itself."""
    verdict = each.verdict
    audited = any(other.estimator == "measured" for other in judged)
    if verdict.reason is Reason.RECORDED_LABELS:
        return replace(verdict, advice=Advice.NONE if audited else Advice.AUDIT)
    if not corrected(each) or verdict.level <= Level.CONDITIONAL:
        return verdict
    if verdict.reason in (Reason.BIASED_BY_DESIGN, Reason.OVERFLOW, Reason.TOO_MANY_COUNTS):
        return verdict
    if audited and (verdict.level > Level.WIDE or verdict.reason is Reason.FORMULA):
        return replace(verdict, advice=Advice.NONE)  # the audit is there
    if verdict.level is Level.WIDE and run.source.by_formula:  # which no number of rows mends
        return replace(verdict, advice=Advice.AUDIT)
    if any(evidence.refutes for evidence in run.evidence):
        return replace(verdict, advice=Advice.AUDIT)
    deconvolved = [
        other for other in judged
        if (other.metric, other.estimator) == (each.metric, "deconvolved")
    ]  # fmt: skip
    better = [other for other in deconvolved if other.verdict.level < verdict.level]
    if verdict.advice is Advice.USE_DECONVOLVED and (better or not deconvolved):
        return verdict
    if verdict.level is Level.WIDE:
        if better:
            return replace(verdict, advice=Advice.USE_DECONVOLVED)
        mostly = verdict.details.get("propensity_share", 0.0) > 0.5
        return replace(verdict, advice=Advice.LARGER_AUDIT if mostly else Advice.MORE_ROWS)
    if verdict.reason is Reason.LEFT_OUT:
        return replace(verdict, advice=Advice.USE_DECONVOLVED if better else Advice.PUT_BACK)
    if verdict.reason is Reason.ROW_EFFORT and better:
        return replace(verdict, advice=Advice.USE_DECONVOLVED)
    if verdict.advice is Advice.USE_DECONVOLVED or verdict.level is Level.DOUBTFUL:
        return replace(verdict, advice=Advice.AUDIT)
    return verdict
