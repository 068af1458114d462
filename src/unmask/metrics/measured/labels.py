"""Judged labels one by one: precision and recall of each, and how many observed ones are wrong.

With w = 1/π the weights of judged pairs, and hit = 1 among the first k:

    precision_j = Σ w y over judged predictions of j / Σ w,    recall_j = Σ w y hit / Σ w y

Predictions that are observed count as right without judging if the plan took them so. The ends are
Wilson's with as many judgements as Σ w² (1 − π) leaves: a label that was judged
twice has a wide interval, and one that was not judged at all the whole of [0, 1].

A mask takes labels away and never adds one. Where judged observed labels turn out to be wrong, no
correction for missing labels holds (`metrics.claims`), while measured estimates stay right: they
count judged pairs by what was answered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from unmask._messages import named_options
from unmask._typing import Floats, Integers, Ints, LabelsLike
from unmask.arrays import TopK, checks, values_at
from unmask.data.judgements import Design, Judgements
from unmask.metrics.intervals import wilson, z_quantile
from unmask.metrics.measured.rows import judged_rows, place_weights, refuse_uncovered


@dataclass(frozen=True, eq=False)
class LabelEstimates:
    """One number per label, with its interval.

    Parameters
    ----------
    value, low, high : floats of shape (L,)
        The estimate, nan where nothing was judged, and its ends.
    judged : floats of shape (L,)
        How many judgements it rests on.

    Examples
    --------
    >>> from unmask import audit
    >>> top, labels = TopK([[0], [0], [1]], [[1.0]] * 3), [[1, 0], [0, 0], [0, 0]]
    >>> plan = audit.plan(top, labels, budget=3)
    >>> complete = np.array([[1, 1], [0, 0], [0, 1]])[plan.rows]
    >>> recall = label_estimates(top, labels, audit.from_rows(plan, complete), k=1)["recall"]
    >>> recall.value, recall.judged
    (array([1. , 0.5]), array([1., 2.]))
    """

    value: Floats
    low: Floats
    high: Floats
    judged: Floats


@named_options
def label_estimates(
    top: TopK, labels: LabelsLike, judged: Judgements, *, k: int, confidence: float = 0.95
) -> dict[str, LabelEstimates]:
    """Measure precision and recall at k of every label.

    Parameters
    ----------
    top : TopK
        Predictions of all n rows.
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    judged : Judgements
        See `unmask.audit`.
    k : int
        How many places of each row count as predicted.
    confidence : float, default 0.95
        Of the intervals.

    Returns
    -------
    dict of str to LabelEstimates
        "precision", and "recall" if pairs outside the predictions were judged.

    Raises
    ------
    ValueError
        If labels are not 0 and 1, k is no positive integer, or nobody judged a part of the rows.

    Examples
    --------
    >>> from unmask import audit
    >>> top, labels = TopK([[0], [0], [1]], [[1.0]] * 3), [[1, 0], [0, 0], [0, 0]]
    >>> plan = audit.plan(top, labels, budget=3)
    >>> complete = np.array([[1, 1], [0, 0], [0, 1]])[plan.rows]
    >>> made = label_estimates(top, labels, audit.from_rows(plan, complete), k=1)
    >>> made["precision"].value, made["recall"].value
    (array([0.5, 1. ]), array([1. , 0.5]))
    """
    observed = checks.labels(labels)
    k = checks.positive_int(k, "k")
    judged = judged.decided
    sample = judged.sample
    if sample.design is not Design.PAIRS:
        refuse_uncovered(judged)
    entries = _entries(top, observed, judged, k)
    made = {"precision": _precision(top, observed, judged, entries, k, confidence)}
    if sample.design is not Design.PAIRS or all(s.drawn for s in sample.strata if s.size):
        true = entries.relevant > 0
        made["recall"] = _rates(
            entries.label[true], entries.weight[true], entries.hit[true], observed.shape[1],
            confidence,
        )  # fmt: skip
    return made


@dataclass(frozen=True, eq=False)
class _Entries:
    """Judged pairs (and free ones, of weight 1): label, 1/π, whether relevant, predicted, free."""

    label: Ints
    weight: Floats
    relevant: Floats
    hit: Floats
    free: Floats


def _entries(top: TopK, observed: sp.csr_array, judged: Judgements, k: int) -> _Entries:
    sample = judged.sample
    if sample.unit == "rows":
        return _of_whole_rows(top, judged, observed, k)
    rows, label, weight = sample.rows, sample.pair_labels, 1 / sample.probability
    relevant, free = judged.answers, np.zeros(sample.rows.size)
    if sample.observed_free:
        shown = observed.tocoo()
        mine = np.ones(shown.nnz, dtype=bool)
        share = np.ones(observed.shape[0])
        if sample.within is not None:
            chosen, stratum = sample.first_phase
            mine = np.isin(shown.row, chosen)
            share[chosen] = np.array([s.probability for s in sample.strata])[stratum]
        rows, label = np.r_[rows, shown.row[mine]], np.r_[label, shown.col[mine]]
        weight = np.r_[weight, 1 / share[shown.row[mine]]]
        relevant, free = np.r_[relevant, np.ones(mine.sum())], np.r_[free, np.ones(mine.sum())]
    return _Entries(label, weight, relevant, place_weights(top, rows, label, k, "P"), free)


def _of_whole_rows(top: TopK, judged: Judgements, observed: sp.csr_array, k: int) -> _Entries:
    """Return all relevant pairs of the judged rows, and all their predictions."""
    rows, true = judged_rows(judged, observed), judged.true_labels
    shape = true.shape
    hit = top.take(rows.rows).matrix(shape[1], k)
    either = sp.csr_array(true + hit).tocoo()
    weight = (1 / judged.sample.probability)[either.row]
    relevant = values_at(true, either.row, either.col)
    in_top = values_at(hit, either.row, either.col)
    return _Entries(either.col, weight, relevant, in_top, np.zeros(either.row.size))


def _precision(
    top: TopK,
    observed: sp.csr_array,
    judged: Judgements,
    entries: _Entries,
    k: int,
    confidence: float,
) -> LabelEstimates:
    width = observed.shape[1]
    listed = top.labels[:, :k]
    predicted = np.bincount(listed[listed >= 0], minlength=width)
    mine = entries.hit > 0
    if judged.sample.design is not Design.PAIRS:
        return _rates(
            entries.label[mine], entries.weight[mine], entries.relevant[mine], width, confidence
        )
    mine &= entries.free == 0
    free_hits = np.bincount(entries.label, entries.hit * entries.free, minlength=width)
    rest = np.maximum(predicted - free_hits, 0)
    rates = _rates(
        entries.label[mine], entries.weight[mine], entries.relevant[mine], width, confidence
    )
    total = np.where(predicted > 0, predicted, np.nan)
    value, low, high = (
        (free_hits + rest * np.where(rest > 0, part, 0)) / total
        for part in (rates.value, rates.low, rates.high)
    )
    return LabelEstimates(value, low, high, rates.judged)


def _rates(
    label: Ints, weight: Floats, yes: Floats, width: int, confidence: float
) -> LabelEstimates:
    """Return Σ w·yes / Σ w of every label, with its ends."""

    def summed(values: Floats) -> Floats:
        return np.bincount(label, values, minlength=width).astype(np.float64)

    total, count = summed(weight), np.bincount(label, minlength=width).astype(np.float64)
    rate = summed(weight * yes) / np.where(total > 0, total, np.nan)
    square = np.where(total > 0, total, 1.0) ** 2
    open_share = weight * (weight - 1)  # w² (1 − π)
    largest = summed(open_share) / square
    spread = summed(open_share * (yes - rate[label]) ** 2) / square
    value = np.where(total > 0, np.minimum(rate, 1.0), 0.5)
    draws = 1 / np.where(largest > 0, largest, 1.0)
    worth = value * (1 - value) / np.where(spread > 0, spread, 1.0)
    draws = np.maximum(np.where(spread > 0, np.minimum(draws, worth), draws), 1.0)
    low, high = wilson(value, draws, z_quantile(confidence))
    low, high = np.where(largest > 0, low, value), np.where(largest > 0, high, value)
    return LabelEstimates(
        rate, np.where(total > 0, low, 0.0), np.where(total > 0, high, 1.0), count
    )


@dataclass(frozen=True)
class SpuriousRate:
    """The share of observed labels that are wrong.

    Parameters
    ----------
    value : float
        The estimate; nan if no observed label was judged.
    interval : pair of float
        Its ends.
    judged, wrong : int
        Observed labels that were judged, and how many of them are not relevant.

    Examples
    --------
    >>> from unmask import TopK, audit
    >>> top, labels = TopK([[0]] * 4, [[1.0]] * 4), [[1, 0], [0, 0], [1, 1], [1, 0]]
    >>> plan = audit.plan(top, labels, budget=4)
    >>> judged = audit.from_rows(plan, np.array([[1, 0], [0, 0], [1, 0], [1, 0]])[plan.rows])
    >>> rate = spurious(judged, labels)
    >>> rate.value, rate.judged, rate.wrong
    (0.25, 4, 1)
    """

    value: float
    interval: tuple[float, float]
    judged: int
    wrong: int


@named_options
def spurious(judged: Judgements, labels: LabelsLike, *, confidence: float = 0.95) -> SpuriousRate:
    """Estimate how many observed labels are wrong, where some of them were judged.

        φ = Σ 1/π over judged wrong ones / Σ 1/π over all judged observed ones

    The interval is Wilson's with the judged labels that the spread between rows leaves.

    Parameters
    ----------
    judged : Judgements
        Of whole rows, or of pairs planned with observed="sampled".
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    confidence : float, default 0.95
        Of the interval.

    Returns
    -------
    SpuriousRate

    Raises
    ------
    ValueError
        If labels are not 0 and 1, or the confidence lies outside [0.5, 1).

    Examples
    --------
    >>> from unmask.data.judgements import Design, Sample, Stratum
    >>> sample = Sample(Design.SIMPLE, (4, 2), (Stratum("rows", 4, 2),), [0, 3], None, [0, 0])
    >>> judged = Judgements(sample, sp.csr_array([[1.0, 0], [0, 0]]))
    >>> rate = spurious(judged, [[1, 0], [0, 0], [1, 1], [1, 0]])
    >>> rate.value, rate.judged, rate.wrong
    (0.5, 2, 1)
    """
    checks.confidence(confidence)
    return spurious_rate(judged, checks.labels(labels), confidence)


def spurious_rate(judged: Judgements, observed: sp.csr_array, confidence: float) -> SpuriousRate:
    """Return the share of wrong observed labels, from checked ones."""
    rows, wrong, weight = _judged_observed(judged.decided, observed)
    count = wrong.size
    if not count:
        return SpuriousRate(math.nan, (0.0, 1.0), 0, 0)
    value = float((weight * wrong).sum() / weight.sum())
    together = np.bincount(rows, weight * (wrong - value))
    variance = float((together**2).sum()) / float(weight.sum()) ** 2
    draws = float(weight.sum() ** 2 / (weight**2).sum())
    if 0 < value < 1 and variance > 0:
        draws = min(draws, value * (1 - value) / variance)
    low, high = wilson(value, max(draws, 1.0), z_quantile(confidence))
    return SpuriousRate(value, (float(low), float(high)), count, int(wrong.sum()))


def _judged_observed(judged: Judgements, observed: sp.csr_array) -> tuple[Integers, Floats, Floats]:
    """Return row, whether wrong, and 1/π of every observed label that was judged."""
    sample = judged.sample
    if sample.unit == "rows":
        mine = observed[sample.rows].tocoo()
        right = values_at(judged.true_labels, mine.row, mine.col)
        return mine.row, 1.0 - right, (1 / sample.probability)[mine.row]
    shown = values_at(observed, sample.rows, sample.pair_labels) > 0
    return sample.rows[shown], 1.0 - judged.answers[shown], 1 / sample.probability[shown]
