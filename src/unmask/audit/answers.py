"""Answers become judgements: of whole rows, or of pairs, some of them perhaps missing.

A unit without an answer leaves the sample, and the others of its stratum stand for it: their
probability is what was answered over what there is. That is exact where the missing answers are
those that nobody got to, since units stand in random order; answers missing because they were hard
("unsure") are supposed to be like the others: `Judgements.unanswered` counts them, and
`undecided_range` says how much that supposition matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask import _validation
from unmask._settings import function
from unmask._typing import Bools, Floats, Ints, LabelsLike
from unmask.audit.planning import AuditPlan
from unmask.data.judgements import Design, Judgements, Sample, Stratum, WithinRows


def from_rows(
    plan: AuditPlan,
    true_labels: LabelsLike,
    *,
    answered: ArrayLike | None = None,
    unlisted: LabelsLike | None = None,
) -> Judgements:
    """Judgements from the complete labels of the planned rows.

    Parameters
    ----------
    plan : AuditPlan
        A plan of rows.
    true_labels : (m, L) matrix of 0 and 1
        All labels of `plan.rows`, in their order.
    answered : (m,) booleans, optional
        Which rows have been judged; by default all.
    unlisted : (m, e) matrix of 0 and 1, optional
        Further labels of the same rows, which are not among the L of the data: relevant labels
        that no system can predict.

    Returns
    -------
    Judgements

    Raises
    ------
    ValueError
        If the plan is one of pairs, shapes differ, or nothing was judged.

    Examples
    --------
    >>> from unmask.audit import plan
    >>> from unmask.predictions import TopK
    >>> made = plan(TopK([[0]] * 4, [[1.0]] * 4), [[1, 0]] * 4, budget=2)
    >>> from_rows(made, [[1, 0], [1, 1]]).true_labels.nnz
    3
    """
    if plan.unit != "rows":
        raise ValueError(
            f"this is a plan of pairs; give its answers to {function('audit.from_pairs')}."
        )
    labels = _validation.labels(true_labels, name="true labels")
    if labels.shape != (len(plan), plan.sample.shape[1]):
        raise ValueError(
            f"true labels must be those of the {len(plan)} planned rows, "
            f"{(len(plan), plan.sample.shape[1])}; got shape {labels.shape}."
        )
    judged = np.ones(len(plan), bool) if answered is None else np.asarray(answered, dtype=bool)
    if judged.shape != (len(plan),):
        raise ValueError(f"give one answer per planned row, {len(plan)}; got {judged.shape}.")
    if unlisted is not None:
        more = _validation.labels(unlisted, name="unlisted labels")
        _validation.same_rows(more, labels, "unlisted labels", "true labels")
        labels = sp.csr_array(sp.hstack([labels, more], format="csr"))
    sample = _answered_rows(plan.sample, judged)
    return Judgements(sample, labels[np.flatnonzero(judged)], int((~judged).sum()))


def from_pairs(plan: AuditPlan, answers: ArrayLike | Sequence[float | None]) -> Judgements:
    """Judgements from one answer per planned pair.

    Parameters
    ----------
    plan : AuditPlan
        A plan of pairs.
    answers : (m,) numbers
        1 relevant, 0 not, nan (or None) no answer, in the order of the plan.

    Returns
    -------
    Judgements

    Raises
    ------
    ValueError
        If the plan is one of rows, the number of answers differs, an answer is none of these, or
        there is none at all.

    Examples
    --------
    >>> from unmask.audit import plan
    >>> from unmask.predictions import TopK
    >>> top = TopK([[0]] * 4, [[1.0]] * 4)
    >>> made = plan(top, [[0, 0]] * 4, budget=4, unit="pairs", metrics=["P@1"])
    >>> judged = from_pairs(made, [1, 0, float("nan"), 1])
    >>> judged.answers, judged.unanswered, judged.sample.probability
    (array([1., 0., 1.]), 1, array([0.75, 0.75, 0.75]))
    """
    if plan.unit != "pairs":
        raise ValueError(
            f"this is a plan of rows; give their labels to {function('audit.from_rows')}."
        )
    values = np.array([np.nan if a is None else a for a in np.asarray(answers).tolist()], float)
    if values.shape != (len(plan),):
        raise ValueError(f"give one answer per planned pair, {len(plan)}; got {values.size}.")
    judged = ~np.isnan(values)
    wrong = np.flatnonzero(judged & (values != 0) & (values != 1))
    if wrong.size:
        raise ValueError(
            f"an answer is 1 (relevant), 0 (not) or nan (none); got {values[wrong[0]]:g} at pair "
            f"{wrong[0]}."
        )
    if not judged.any():
        raise ValueError("no pair has an answer; judge at least one.")
    make = _answered_pairs if plan.sample.design is Design.PAIRS else _answered_within
    sample, kept = make(plan.sample, judged)
    return Judgements(sample, values[kept], int((~judged).sum()))


def _answered_rows(sample: Sample, judged: Bools) -> Sample:
    if judged.sum() < min(2, len(judged)):
        raise ValueError(f"at least two rows must be judged; got {int(judged.sum())}.")
    rows, stratum = sample.rows[judged], sample.stratum[judged]
    return replace(sample, rows=rows, stratum=stratum, strata=_drawn(sample, stratum))


def _drawn(sample: Sample, stratum: Ints) -> tuple[Stratum, ...]:
    counts = np.bincount(stratum, minlength=len(sample.strata))
    return tuple(
        replace(each, drawn=int(count)) for each, count in zip(sample.strata, counts, strict=True)
    )


def _answered_pairs(sample: Sample, judged: Bools) -> tuple[Sample, Ints]:
    kept = np.flatnonzero(judged)
    stratum = sample.stratum[kept]
    made = replace(
        sample, rows=sample.rows[kept], labels=sample.pair_labels[kept], stratum=stratum,
        strata=_drawn(sample, stratum),
    )  # fmt: skip
    return made, kept


def _answered_within(sample: Sample, judged: Bools) -> tuple[Sample, Ints]:
    """Rows without any answer are not chosen; within the others, answers stand for their kind."""
    if sample.within is None:
        raise ValueError("internal error: a sample of pairs that is neither kind of them.")
    chosen, stratum, chances = (
        sample.within.chosen,
        sample.within.stratum,
        sample.within.probability,
    )
    begun = np.isin(chosen, sample.rows[judged]) | ~np.isin(chosen, sample.rows)
    kept = np.flatnonzero(judged)
    answered = chances * _response(chances, judged, np.isin(sample.rows, chosen[begun]))
    made = replace(
        sample, rows=sample.rows[kept], labels=sample.pair_labels[kept],
        stratum=sample.stratum[kept], strata=_drawn(sample, stratum[begun]),
        within=WithinRows(chosen[begun], stratum[begun], answered[kept]),
    )  # fmt: skip
    return made, kept


def _response(within: Floats, judged: Bools, in_begun: Bools) -> Floats:
    """The share of answers among pairs of the same probability, in rows that were begun."""
    levels, level = np.unique(within, return_inverse=True)
    asked = np.bincount(level[in_begun], minlength=levels.size)
    answered = np.bincount(level[judged], minlength=levels.size)
    return np.asarray((answered / np.maximum(asked, 1))[level])
