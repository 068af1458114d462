"""The one sentence that matters: do the assumptions hold, what is the best number, what next.

Made of values only: the `Run` of a table and the verdicts of its estimates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from unmask._messages import setting
from unmask._text import format_value
from unmask.metrics.run import Run, Standing
from unmask.metrics.verdict import Advice, Level, Outcome, Reason

if TYPE_CHECKING:
    from unmask.metrics.table import Estimate

METRICS = ("R", "P", "nDCG")
"""What a reader asks for first."""
ESTIMATORS = ("measured", "deconvolved", "unbiased", "tempered")
"""Which of several estimates of equal level is the best; P@k is exact as `unbiased`."""
NEXT_AUDIT = "audit some hundred rows to measure it"


def headline(estimates: Sequence[Estimate], run: Run) -> str:
    """The sentence for an evaluation.

    Parameters
    ----------
    estimates : sequence of Estimate
        At least one.
    run : Run

    Returns
    -------
    str
    """
    return SENTENCES[run.standing](estimates, run)


def best(estimates: Sequence[Estimate]) -> Estimate | None:
    """The number to quote: a metric that readers ask for, at its largest k, best level first.

    Parameters
    ----------
    estimates : sequence of Estimate

    Returns
    -------
    Estimate or None
        None if no number may be used.
    """
    usable = [
        each for each in estimates
        if each.verdict.usable and math.isfinite(each.value) and each.estimator != "normalized"
    ]  # fmt: skip
    claims = [each for each in usable if each.estimator in ESTIMATORS]
    claims = claims or [each for each in usable if each.estimator == "vanilla"]
    return min(claims, key=_order, default=None)


def best_by_metric(estimates: Sequence[Estimate]) -> list[Estimate]:
    """The number to quote of every metric that has one.

    Parameters
    ----------
    estimates : sequence of Estimate

    Returns
    -------
    list of Estimate
        In order of appearance.
    """
    metrics = dict.fromkeys(each.metric for each in estimates)
    chosen = (best([each for each in estimates if each.metric == metric]) for metric in metrics)
    return [each for each in chosen if each is not None]


def _order(each: Estimate) -> tuple[int, int, int, int]:
    metric, _, k = each.metric.partition("@")
    asked = METRICS.index(metric) if metric in METRICS else len(METRICS)
    exact = metric in ("P", "DCG") and each.estimator == "unbiased"
    preferred = ESTIMATORS.index(each.estimator) if each.estimator in ESTIMATORS else 0
    return each.verdict.level.rank, asked, -int(k or 10**9), 0 if exact else preferred


def _complete(estimates: Sequence[Estimate], run: Run) -> str:
    chosen = best(estimates)
    if chosen is not None and chosen.estimator == "measured":
        return _measured(chosen)
    if chosen is None:
        return "Labels are declared complete, and no number can be used; the verdicts say why."
    return f"Labels are declared complete: {_number(chosen)} on {run.rows:,} rows."


def _recorded(estimates: Sequence[Estimate], _: Run) -> str:
    chosen = best(estimates)
    if chosen is not None and chosen.estimator == "measured":
        return _measured(chosen)
    if chosen is None:
        return "On recorded labels no number can be used; the verdicts say why."
    return (
        f"{_number(chosen, ' on recorded labels')}, which is the true value only if no label is "
        f"missing: {NEXT_AUDIT}, or declare the labels complete "
        f"({setting('complete', True, of='evaluate')})."
    )


def _not_refuted(estimates: Sequence[Estimate], run: Run) -> str:
    chosen = best(estimates)
    if chosen is None or chosen.estimator == "vanilla":
        return (
            f"Nothing in this run contradicts {run.source.sentence}, but no corrected number can "
            f"be used: evaluate more rows, by `deconvolved`, or {NEXT_AUDIT.removesuffix(' it')}."
        )
    if chosen.estimator == "measured":
        return _measured(chosen)
    if chosen.verdict.level is Level.DOUBTFUL:
        return (
            f"Nothing in this run contradicts {run.source.sentence}, but {_number(chosen)} is "
            f"doubtful: {NEXT_AUDIT}."
        )
    return (
        f"If {run.source.assumption}, which nothing in this run "
        f"contradicts, {_number(chosen)}{_width(chosen)}; {NEXT_AUDIT}."
    )


def _width(chosen: Estimate) -> str:
    """Why a number is too wide to use; "" where it is not."""
    if chosen.verdict.level is not Level.WIDE:
        return ""
    if chosen.verdict.reason is Reason.FORMULA:
        return f", but {replace(chosen.verdict, advice=Advice.NONE).why}"
    return ", too wide to use"


def _contradicted(word: str) -> Callable[[Sequence[Estimate], Run], str]:
    def sentence(estimates: Sequence[Estimate], run: Run) -> str:
        head = f"By {run.source.sentence}, the assumptions {word}: {run.evidence[0].sentence}; "
        measured = best([each for each in estimates if each.estimator == "measured"])
        if measured is not None:
            return f"{head}measured on judged rows, {_number(measured)}."
        chosen = best(estimates)
        if chosen is None or chosen.estimator == "vanilla":
            observed = [each for each in estimates if each.estimator == "vanilla"]
            face = f"; on the observed labels alone {_number(best(observed))}" if observed else ""
            return f"{head}no corrected number can be used{face}; {NEXT_AUDIT}."
        if chosen.verdict.level is Level.DOUBTFUL:
            return f"{head}the best number is doubtful: {_number(chosen)}; {NEXT_AUDIT}."
        return f"{head}of what it does not touch, {_number(chosen)}; {NEXT_AUDIT}."

    return sentence


def _measured(chosen: Estimate) -> str:
    if chosen.verdict.level is Level.DOUBTFUL:
        return f"Judged rows say {_number(chosen)}, doubtful: {chosen.verdict.why}."
    wide = ", too wide to use: judge more" if chosen.verdict.level is Level.WIDE else ""
    return f"Measured on judged rows, whatever hid the labels: {_number(chosen)}{wide}."


def _number(each: Estimate | None, where: str = "") -> str:
    """`R@5 is 0.611 (0.595 to 0.626, deconvolved)`."""
    if each is None:
        return "nothing can be used"
    value, low, high = (format_value(x, ".3f") for x in (each.value, *each.interval))
    return f"{each.metric}{where} is {value} ({low} to {high}, {each.estimator})"


SENTENCES: dict[Standing, Callable[[Sequence[Estimate], Run], str]] = {
    Standing.COMPLETE: _complete,
    Standing.RECORDED: _recorded,
    Standing.NOT_REFUTED: _not_refuted,
    Standing.DOUBTFUL: _contradicted("are in doubt"),
    Standing.REFUTED: _contradicted("do not hold"),
}


def comparison(differences: Sequence[Estimate], run: Run) -> str:
    """Return who is better, or scores higher, and on what condition, in one sentence.

    Parameters
    ----------
    differences : sequence of Estimate
        Of one system to the first, as `compare` gives them.
    run : Run

    Returns
    -------
    str
    """
    chosen = best(differences)
    if chosen is None:
        because = f": {run.evidence[0].sentence}" if run.evidence else ""
        return f"No comparison can be used{because}; {NEXT_AUDIT}."
    sizes = (chosen.value, *chosen.interval)
    if chosen.value < 0 and chosen.verdict.details["outcome"] != Outcome.UNCLEAR:
        sizes = (-chosen.value, -chosen.interval[1], -chosen.interval[0])
    value, low, high = (format_value(x, ".3f") for x in sizes)
    size = f"in {chosen.metric}: {value} ({low} to {high}, {chosen.estimator})"
    return f"{_who(chosen)} {size}{_standing(chosen, run)}."


def title(differences: Sequence[Estimate]) -> str:
    """Who is better, in a few words for the title of a page.

    Parameters
    ----------
    differences : sequence of Estimate
        Of one system to the first.

    Returns
    -------
    str
    """
    chosen = best(differences)
    if chosen is None:
        return "No usable comparison"
    level = chosen.verdict.level
    claim = "" if level is Level.MEASURED else f" ({level.value})"
    return f"{_who(chosen)} in {chosen.metric}{claim}"


def _who(chosen: Estimate) -> str:
    about = chosen.verdict.details
    names = str(about["system"]), str(about["first"])
    where = " on recorded labels" if _of_recorded(chosen) else ""
    if about["outcome"] == Outcome.UNCLEAR:
        return f"No clear difference between {names[0]} and {names[1]}{where}"
    first = about["outcome"] in (Outcome.BETTER, Outcome.HIGHER)
    winner, loser = names if first else names[::-1]
    return f"{winner} {'scores higher' if where else 'is better'} than {loser}{where}"


def _of_recorded(chosen: Estimate) -> bool:
    """Whether a number speaks of recorded labels, which nobody declared complete."""
    biased = chosen.verdict.reason is Reason.BIASED_BY_DESIGN and chosen.estimator == "vanilla"
    return biased or chosen.verdict.reason is Reason.RECORDED_LABELS


def _standing(chosen: Estimate, run: Run) -> str:
    """On what a comparison is conditional."""
    if chosen.estimator == "measured":
        doubtful = chosen.verdict.level is Level.DOUBTFUL
        return ", doubtful: see the verdict" if doubtful else ", whatever hid the labels"
    if run.standing is Standing.COMPLETE:
        return ", labels declared complete"
    if _of_recorded(chosen):
        return f"; {NEXT_AUDIT}"
    if chosen.verdict.level >= Level.DOUBTFUL:
        because = run.evidence[0].sentence if run.evidence else "see the verdict"
        return f", but the assumptions are in doubt: {because}"
    return f", if {run.source.assumption}"
