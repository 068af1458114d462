"""How precise an audit has become: its estimates after part of the answers, and after all.

Units stand in random order, so the first of them are an audit of their own. The intervals are those
of a number of units fixed beforehand: they show how precision grows, and are no rule for stopping.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unmask._messages import named_options
from unmask._typing import LabelsLike
from unmask.arrays import TopK
from unmask.audit.annotators import Answers
from unmask.audit.planning import AuditPlan
from unmask.metrics import evaluate

LOOKS = 8
LEAST = 5
"""Fewer judged units than this give no interval worth showing."""


@dataclass(frozen=True)
class Reached:
    """A measured metric after some of the answers.

    Parameters
    ----------
    metric : str
    judged : int
        Rows or pairs judged.
    value, low, high : float
        The estimate and its interval.

    Examples
    --------
    >>> from unmask import audit
    >>> top, labels = TopK([[0], [1]] * 50, [[1.0]] * 100), [[1, 0], [0, 0]] * 50
    >>> plan = audit.plan(top, labels, budget=40, metrics=["P@1"])
    >>> said = {i: audit.Answer("complete", labels=(0,)) for i in range(40)}
    >>> path = reached(plan, Answers(audit.sheet(plan), {"ann": said}), top, labels, ["P@1"])
    >>> path[-1].metric, path[-1].judged, path[-1].low <= path[-1].value <= path[-1].high
    ('P@1', 40, True)
    """

    metric: str
    judged: int
    value: float
    low: float
    high: float


@named_options
def reached(
    plan: AuditPlan,
    answers: Answers,
    top: TopK,
    labels: LabelsLike,
    metrics: Sequence[str],
    *,
    looks: int = LOOKS,
    confidence: float = 0.95,
) -> tuple[Reached, ...]:
    """Measured metrics after more and more of the answers, in the order of the plan.

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
    looks : int, default 8
        How many times; the last one has all answers.
    confidence : float, default 0.95
        Of the intervals.

    Returns
    -------
    tuple of Reached
        By number of judged units; looks at too few units are left out.

    Raises
    ------
    ValueError
        If a metric does not exist or was not planned for, or data and plan do not fit.

    Examples
    --------
    >>> from unmask import audit
    >>> top, labels = TopK([[0], [1]] * 50, [[1.0]] * 100), [[1, 0], [0, 0]] * 50
    >>> plan = audit.plan(top, labels, budget=40, metrics=["P@1"])
    >>> said = {i: audit.Answer("complete", labels=(0,)) for i in range(40)}
    >>> path = reached(plan, Answers(audit.sheet(plan), {"ann": said}), top, labels, ["P@1"])
    >>> [each.judged for each in path]
    [5, 10, 15, 20, 25, 30, 35, 40]
    """
    path: dict[tuple[str, int], Reached] = {}
    for first in np.unique(np.linspace(0, len(plan), looks + 1)[1:].astype(int)).tolist():
        try:
            judged = answers.judgements(plan, first=first)
        except ValueError:  # too few
            continue
        if judged.n_judged < min(LEAST, len(plan)):
            continue
        table = evaluate(
            top, labels, metrics=metrics, estimators=["measured"], audit=judged,
            confidence=confidence,
        )  # fmt: skip
        for each in table:
            size = judged.n_judged
            path[each.metric, size] = Reached(each.metric, size, each.value, *each.interval)
    return tuple(path.values())
