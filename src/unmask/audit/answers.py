"""Answers become judgements: of whole rows, or of pairs, some of them perhaps missing.

A unit without an answer leaves the sample, and the others of its stratum stand for it: their
probability is what was answered over what there is. That is exact where the missing answers are
those that nobody got to, since units stand in random order; `Judgements.unanswered` counts them.
What people looked at and could not decide is not missing: it stays in the sample as `undecided`,
label by label, and measured intervals hold whatever it means.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask import _validation
from unmask._settings import function
from unmask._typing import Bools, LabelsLike
from unmask.audit.planning import AuditPlan
from unmask.data.judgements import Judgements


def from_rows(
    plan: AuditPlan,
    true_labels: LabelsLike,
    *,
    answered: ArrayLike | None = None,
    undecided: LabelsLike | None = None,
    unsure: ArrayLike | None = None,
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
    undecided : (m, L) matrix of 0 and 1, optional
        Labels of which nobody could say whether they apply; none of `true_labels`.
    unsure : (m,) booleans, optional
        Rows of which nothing is decided.

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
    none = sp.csr_array(labels.shape, dtype=np.float32)
    open_ = none if undecided is None else _validation.labels(undecided, name="undecided labels")
    for matrix, name in ((labels, "true"), (open_, "undecided")):
        if matrix.shape != (len(plan), plan.sample.shape[1]):
            raise ValueError(
                f"{name} labels must be those of the {len(plan)} planned rows, "
                f"{(len(plan), plan.sample.shape[1])}; got shape {matrix.shape}."
            )
    if labels.multiply(open_).nnz:
        raise ValueError("a label that is true is not undecided; give it once.")
    judged, of_nothing = _per_unit(plan, answered, True), _per_unit(plan, unsure, False)
    if judged.sum() < min(2, len(judged)):
        raise ValueError(f"at least two rows must be judged; got {int(judged.sum())}.")
    kept = np.flatnonzero(judged)
    some = open_[kept].nnz or of_nothing[kept].any()
    return Judgements(
        plan.sample.answered(judged), labels[kept], int((~judged).sum()),
        *((open_[kept], of_nothing[kept]) if some else ()),
    )  # fmt: skip


def from_pairs(
    plan: AuditPlan,
    answers: ArrayLike | Sequence[float | None],
    *,
    undecided: ArrayLike | None = None,
) -> Judgements:
    """Judgements from one answer per planned pair.

    Parameters
    ----------
    plan : AuditPlan
        A plan of pairs.
    answers : (m,) numbers
        1 relevant, 0 not, nan (or None) no answer, in the order of the plan.
    undecided : (m,) booleans, optional
        Pairs that were looked at, but that nobody could decide; their answers do not count.

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
    open_ = _per_unit(plan, undecided, False)
    values[open_] = 0.0
    judged = ~np.isnan(values)
    wrong = np.flatnonzero(judged & (values != 0) & (values != 1))
    if wrong.size:
        raise ValueError(
            f"an answer is 1 (relevant), 0 (not) or nan (none); got {values[wrong[0]]:g} at pair "
            f"{wrong[0]}."
        )
    if not judged.any():
        raise ValueError("no pair has an answer; judge at least one.")
    return Judgements(
        plan.sample.answered(judged), values[judged], int((~judged).sum()),
        open_[judged] if open_.any() else None,
    )  # fmt: skip


def _per_unit(plan: AuditPlan, values: ArrayLike | None, default: bool) -> Bools:
    made = np.full(len(plan), default) if values is None else np.asarray(values, dtype=bool)
    if made.shape != (len(plan),):
        raise ValueError(
            f"give one answer per planned {plan.unit.removesuffix('s')}, {len(plan)}; got "
            f"{made.shape}."
        )
    return made
