"""Undecided answers: measured numbers hold whatever they mean.

A label on which people are evenly split, or all unsure, is relevant or it is not. Metrics here are
functions of the gain Σ w over the relevant labels of a row (w: what a label counts at its place in
the list, 0 outside) and of how many are relevant, and rise with the gain. Of all ways to call s of
the undecided labels relevant, the s with the largest w are best, and those with the smallest worst:
the extremes of a row are among the ways "all w ≥ t" (or ≤ t), one per value t of w and one of none.
Recall is highest if exactly the undecided labels of the list are relevant, lowest if exactly the
others are. Of sums over many rows, t is the same for all.

The number is the middle of both extremes, its interval the union of theirs. Where they are further
apart than the wider of the two reaches, what people did not decide matters more than what was not
judged: `doubtful`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from unmask._typing import Floats, Integers, Ints
from unmask.arrays import entry_rows
from unmask.data.judgements import Judgements
from unmask.metrics.claims import Advice, Level, Reason, Verdict, too_wide
from unmask.metrics.registry import METRICS, split
from unmask.metrics.table import Estimate

Weigh = Callable[[Ints, Ints], Floats]
"""What labels count in the list: from rows and labels of pairs to numbers."""
Score = Callable[[Judgements], Floats]
"""The metric of every row in `first_phase`, or one number for all."""


def extremes(
    judged: Judgements, more: sp.csr_array, weigh: Weigh, score: Score
) -> tuple[Judgements, Judgements]:
    """The judgements with undecided answers taken so that a metric is least, and most.

    Parameters
    ----------
    judged : Judgements
    more : csr_array
        Labels of rows of which nothing is decided, as `offered` makes it.
    weigh : function of rows and labels
    score : function of judgements

    Returns
    -------
    (Judgements, Judgements)
        Without anything undecided.
    """
    unit, label = _open(judged, more)
    rows = judged.sample.rows[unit]
    none = _taken(judged, unit[:0], label[:0])
    at_none = score(none)
    group = np.zeros(unit.size, dtype=np.int64)
    if at_none.size > 1:
        position = np.empty(judged.sample.shape[0], dtype=np.int64)
        chosen = judged.sample.first_phase[0]
        position[chosen] = np.arange(chosen.size)
        group = position[rows]
    weight = weigh(rows, label)
    ends = []
    for side in (-1, 1):
        best, limit = side * at_none, np.full(at_none.size, np.inf)
        for t in np.unique(side * weight)[::-1].tolist():
            mine = side * weight >= t
            value = side * score(_taken(judged, unit[mine], label[mine]))
            better = value > best
            best, limit = np.where(better, value, best), np.where(better, t, limit)
        mine = side * weight >= limit[group]
        ends.append(_taken(judged, unit[mine], label[mine]))
    return ends[0], ends[1]


def offered(judged: Judgements, labels: sp.csr_array, lists: Sequence[Integers]) -> sp.csr_array:
    """Labels that may apply to a row of which nothing is decided: observed and predicted ones.

    Parameters
    ----------
    judged : Judgements
    labels : csr_array of shape (n, L)
        Observed.
    lists : sequence of (n, k) integers
        Predicted labels, −1 where there is none.

    Returns
    -------
    csr_array of the shape of `judged.relevant`
        Of the judged rows that are unsure; empty in others.
    """
    m, width = judged.n_judged, labels.shape[1] + judged.unlisted
    if judged.unsure is None or not judged.unsure.any():
        return sp.csr_array((m, width))
    unit = np.flatnonzero(judged.unsure)
    mine = judged.sample.rows[unit]
    shown = labels[mine].tocoo()
    rows, columns = [unit[shown.row]], [shown.col]
    for each in lists:
        row, place = np.nonzero(each[mine] >= 0)
        rows, columns = [*rows, unit[row]], [*columns, each[mine[row], place]]
    pairs = np.concatenate(rows), np.concatenate(columns)
    return sp.csr_array((np.ones(pairs[0].size), pairs), shape=(m, width))


def _open(judged: Judgements, more: sp.csr_array) -> tuple[Ints, Ints]:
    """Unit and label of every undecided decision."""
    undecided, sample = judged.undecided, judged.sample
    if not isinstance(undecided, sp.csr_array):
        unit = np.flatnonzero(judged.open_units)
        return unit, sample.pair_labels[unit]
    pattern = sp.csr_array(undecided + more)
    return entry_rows(pattern), pattern.indices.astype(np.int64)


def _taken(judged: Judgements, unit: Ints, label: Ints) -> Judgements:
    """These undecided decisions are relevant, and the others are not."""
    relevant = judged.relevant
    if isinstance(relevant, sp.csr_array):
        more = sp.csr_array((np.ones(unit.size, np.float32), (unit, label)), shape=relevant.shape)
        both = sp.csr_array(relevant + more)
        both.data[:] = 1
        relevant = both
    else:
        relevant = relevant.copy()
        relevant[unit] = 1.0
    return replace(judged, relevant=relevant, undecided=None, unsure=None)


def joined(least: Estimate, most: Estimate, questions: int) -> Estimate:
    """One estimate from those at both extremes of what is undecided.

    Parameters
    ----------
    least, most : Estimate
        Of the same metric, measured.
    questions : int
        How many rows or pairs are undecided.

    Returns
    -------
    Estimate
        `details["undecided"]` says how many, `undecided_low` and `undecided_high` what they span.
    """
    worse = max(least, most, key=lambda each: each.verdict.level.rank)
    if not worse.verdict.usable:
        return worse
    low, high = sorted((least.value, most.value))
    ends = (
        min(each.interval[0] for each in (least, most)),
        max(each.interval[1] for each in (least, most)),
    )
    reach = max((each.interval[1] - each.interval[0]) / 2 for each in (least, most))
    value, half = (low + high) / 2, (ends[1] - ends[0]) / 2
    error = max(each.standard_error for each in (least, most)) + (high - low) / 2
    span = {"undecided": questions, "undecided_low": low, "undecided_high": high}
    about = {**worse.verdict.details, **span, "half_width": half}
    verdict = replace(worse.verdict, details=about)
    if high - low > reach:
        verdict = Verdict(Level.DOUBTFUL, Reason.UNDECIDED, Advice.DECIDE, about)
    elif verdict.level is Level.MEASURED and too_wide(
        half, value, METRICS[split(least.metric)[0]].at_most, measured=True
    ):
        verdict = Verdict(Level.WIDE, Reason.AUDITED, Advice.LARGER_AUDIT, about)
    both = [each.details["alone"] for each in (least, most)]
    plain = [(both[0][0] + both[1][0]) / 2, min(b[1] for b in both), max(b[2] for b in both)]
    details = {**worse.details, **span, "alone": plain}
    return replace(
        worse, value=value, standard_error=error, interval=ends, details=details, verdict=verdict
    )
