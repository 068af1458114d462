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

from unmask._messages import function, named_options
from unmask._typing import Bools, LabelsLike
from unmask.arrays import checks
from unmask.audit.planning import AuditPlan
from unmask.data.judgements import Judgements


@named_options
def from_rows(
    plan: AuditPlan,
    true_labels: LabelsLike,
    *,
    answered: ArrayLike | None = None,
    undecided: LabelsLike | None = None,
    unsure: ArrayLike | None = None,
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
    undecided : (m, L) or (m, L + e) matrix of 0 and 1, optional
        Labels of which nobody could say whether they apply; none of those that do.
    unsure : (m,) booleans, optional
        Rows of which nothing is decided.
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
    labels = checks.labels(true_labels, name="true labels")
    expected = (len(plan), plan.sample.shape[1])
    if labels.shape != expected:
        raise ValueError(
            f"true labels must be those of the {len(plan)} planned rows, {expected}; got shape "
            f"{labels.shape}."
        )
    if unlisted is not None:
        more = checks.labels(unlisted, name="unlisted labels")
        checks.same_rows(more, labels, "unlisted labels", "true labels")
        labels = sp.csr_array(sp.hstack([labels, more], format="csr"))
    open_ = sp.csr_array(labels.shape, dtype=np.float32)
    if undecided is not None:
        open_ = checks.labels(undecided, name="undecided labels")
        if open_.shape not in (expected, labels.shape):
            raise ValueError(
                f"undecided labels must be those of the {len(plan)} planned rows, {expected}; got "
                f"shape {open_.shape}."
            )
        open_ = sp.csr_array((open_.data, open_.indices, open_.indptr), shape=labels.shape)
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


@named_options
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
