"""What unsure answers could change: the measured numbers if all of them meant no, and if yes.

A question on which everybody was unsure, or on which people are evenly split, has no answer: it
leaves the sample, and the others of its stratum stand for it (`answers`). That is a supposition;
hard questions may have other answers than easy ones. The range says how far it reaches: between
"no label applies" and "the label applies" (of a whole row: exactly its first k predictions).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unmask._typing import LabelsLike
from unmask.audit.annotators import Answers
from unmask.audit.planning import AuditPlan
from unmask.metrics.measured import measure
from unmask.metrics.registry import split_measured
from unmask.predictions import TopK


@dataclass(frozen=True)
class UndecidedRange:
    """A measured metric under both extremes of the questions that nobody could decide.

    Parameters
    ----------
    metric : str
    low, high : float
        The estimate if all of them meant no, and if all meant yes; nan if it was not judged.
    questions : int
        How many there are.

    Examples
    --------
    >>> from unmask import audit
    >>> top, labels = TopK([[0]] * 4, [[1.0]] * 4), [[0, 0]] * 4
    >>> plan = audit.plan(top, labels, budget=4, unit="pairs", metrics=["P@1"])
    >>> said = {0: audit.Answer("yes"), 1: audit.Answer("no"), 2: audit.Answer("unsure")}
    >>> answers = audit.Answers(audit.sheet(plan), {"ann": said | {3: audit.Answer("no")}})
    >>> (precision,) = undecided_range(plan, answers, top, labels, ["P@1"])
    >>> precision.low, precision.high, precision.questions
    (0.25, 0.5, 1)
    """

    metric: str
    low: float
    high: float
    questions: int


def undecided_range(
    plan: AuditPlan, answers: Answers, top: TopK, labels: LabelsLike, metrics: Sequence[str]
) -> tuple[UndecidedRange, ...]:
    """How far measured metrics depend on what nobody could decide.

    Parameters
    ----------
    plan : AuditPlan
    answers : Answers
        To its questions.
    top : TopK
        Predictions.
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    metrics : sequence of str
        What is measured.

    Returns
    -------
    tuple of UndecidedRange
        Empty if everything that was answered is decided.

    Raises
    ------
    ValueError
        If a metric cannot be measured, or data, answers and plan do not fit.

    Examples
    --------
    >>> from unmask import audit
    >>> top, labels = TopK([[0]] * 4, [[1.0]] * 4), [[0, 0]] * 4
    >>> plan = audit.plan(top, labels, budget=4, unit="pairs", metrics=["P@1"])
    >>> words = ["yes", "no", "unsure", "yes"]
    >>> said = {place: audit.Answer(word) for place, word in enumerate(words)}
    >>> answers = audit.Answers(audit.sheet(plan), {"ann": said})
    >>> undecided_range(plan, answers, top, labels, ["P@1"])
    (UndecidedRange(metric='P@1', low=0.5, high=0.75, questions=1),)
    """
    undecided = answers.undecided()
    if not undecided:
        return ()
    made = []
    for metric in metrics:
        k = split_measured(metric)[1] or top.k
        first = {row: top.labels[row, :k].tolist() for row in plan.rows.tolist()}
        ends = []
        for applies in (False, True):
            supposed = {
                place: frozenset(
                    (first[question.row] if question.label is None else [question.label])
                    if applies else ()
                )
                for place in undecided
                for question in (answers.sheet.questions[place],)
            }  # fmt: skip
            judged = answers.judgements(plan, supposed=supposed)
            ends.append(measure(top, labels, judged, metrics=[metric])[0].value)
        made.append(UndecidedRange(metric, min(ends), max(ends), len(undecided)))
    return tuple(made)
