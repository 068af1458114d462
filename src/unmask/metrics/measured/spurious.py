"""Spurious labels: how many observed labels are wrong, where some of them were judged.

A mask takes labels away and never adds one. Where judged observed labels turn out to be wrong, no
correction for missing labels holds (`judgement`), while measured estimates stay right: they count
judged pairs by what was answered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from unmask._messages import named_options
from unmask._typing import Floats, Integers, LabelsLike
from unmask.arrays import checks, values_at
from unmask.data.judgements import Judgements
from unmask.metrics.intervals import wilson, z_quantile


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
    """How many observed labels are wrong, where some of them were judged.

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
    observed = checks.labels(labels)
    checks.confidence(confidence)
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
    """Row, whether wrong, and 1/π of every observed label that was judged."""
    sample = judged.sample
    if sample.unit == "rows":
        mine = observed[sample.rows].tocoo()
        right = values_at(judged.true_labels, mine.row, mine.col)
        return mine.row, 1.0 - right, (1 / sample.probability)[mine.row]
    shown = values_at(observed, sample.rows, sample.pair_labels) > 0
    return sample.rows[shown], 1.0 - judged.answers[shown], 1 / sample.probability[shown]
