"""What an audit judged, as counts of true labels and of those that were observed.

An audit must say what was judged, since "relevant" is only known there:

- *complete rows*: every label of a row;
- *a pool*: some pairs of a row, chosen without its observed labels, such as the first K
  predictions. Both counts are restricted to the pool: one to which the observed labels were added
  would find every label outside it kept, and propensities too high;
- *pairs with probabilities* (a two-phase sample): a relevant pair counts 1/π. A label's counts are
  then scaled to as many labels as their variance is worth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from unmask import _validation
from unmask._settings import setting
from unmask._sparse import entry_rows, values_at
from unmask._typing import Floats, LabelsLike
from unmask.data.judgements import Judgements
from unmask.predictions import TopK


@dataclass(frozen=True, eq=False)
class JudgedLabels:
    """True labels that an audit found, which of them were observed, and what each counts.

    Parameters
    ----------
    true, kept : csr_array of shape (m, L)
        Relevant pairs, and those that were also observed.
    weights : floats of shape (nnz of `true`,)
        1/π of every relevant pair.
    spurious, observed : int
        Judged observed labels that are wrong, and all of them.
    """

    true: sp.csr_array
    kept: sp.csr_array
    weights: Floats
    spurious: int
    observed: int

    def counts(self) -> tuple[Floats, Floats]:
        """k_j and K_j of every label, fractions where pairs have probabilities."""
        width = self.true.shape[1]
        label = self.true.indices
        observed = values_at(self.kept, entry_rows(self.true), label)
        total = np.bincount(label, self.weights, minlength=width).astype(np.float64)
        kept = np.bincount(label, self.weights * observed, minlength=width).astype(np.float64)
        if (self.weights == 1).all():
            return kept, total
        rate = kept / np.maximum(total, 1e-300)
        excess = self.weights * (self.weights - 1) * (observed - rate[label]) ** 2
        variance = rate * (1 - rate) * total + np.bincount(label, excess, minlength=width)
        size = np.where(
            variance > 0, rate * (1 - rate) * total**2 / np.maximum(variance, 1e-300), 0
        )
        squares = np.bincount(label, self.weights**2, minlength=width)
        alike = total**2 / np.maximum(squares, 1e-300)  # all kept, or all lost
        size = np.where((rate > 0) & (rate < 1), size, alike) * (total > 0)
        return rate * size, size


def complete_rows(observed: LabelsLike, complete: LabelsLike) -> JudgedLabels:
    """Rows of which every label was judged.

    Parameters
    ----------
    observed, complete : matrices of shape (m, L)

    Returns
    -------
    JudgedLabels
    """
    labels = _validation.labels(observed, name="observed")
    true = _validation.labels(complete, name="complete")
    _validation.audited_pair(labels, true)
    kept = sp.csr_array(labels.multiply(true))
    return JudgedLabels(true, kept, np.ones(true.nnz), labels.nnz - kept.nnz, labels.nnz)


def pooled_rows(
    observed: LabelsLike, complete: LabelsLike, pool: TopK | LabelsLike
) -> JudgedLabels:
    """Rows judged on a pool only: both sides are restricted to it.

    Parameters
    ----------
    observed, complete : matrices of shape (m, L)
    pool : TopK, or matrix of shape (m, L) of 0 and 1
        The judged pairs: the predictions that made the pool, or the pairs themselves, chosen
        without looking at the observed labels.

    Returns
    -------
    JudgedLabels

    Raises
    ------
    ValueError
        If the pool has another shape, or holds every observed label without being everything.
    """
    labels = _validation.labels(observed, name="observed")
    judged = _predicted(pool, labels.shape) if isinstance(pool, TopK) else _validation.labels(pool)
    _validation.same_shape(judged, labels, "the pool", "observed")
    inside = sp.csr_array(labels.multiply(judged))
    whole = judged.nnz == labels.shape[0] * labels.shape[1]
    if not isinstance(pool, TopK) and labels.nnz and inside.nnz == labels.nnz and not whole:
        raise ValueError(
            "the pool holds every observed label, as if those had been added to it; propensities "
            "would come out too high. Give the pool without them, or the predictions (a TopK) "
            "that it was made from."
        )
    true = sp.csr_array(_validation.labels(complete, name="complete").multiply(judged))
    return complete_rows(inside, true)


def judged_pairs(observed: LabelsLike, judgements: Judgements) -> JudgedLabels:
    """What the judgements of an audit say; `observed` are the labels of all n rows.

    Parameters
    ----------
    observed : matrix of shape (n, L)
    judgements : Judgements
        Of whole rows, or of a two-phase sample.

    Returns
    -------
    JudgedLabels

    Raises
    ------
    ValueError
        If pairs were drawn over all rows, which meet each label too seldom.
    """
    judgements = judgements.decided
    labels, sample = _validation.labels(observed, name="observed"), judgements.sample
    if labels.shape != sample.shape:
        raise ValueError(
            f"the judgements belong to labels of shape {sample.shape}; "
            f"observed have {labels.shape}."
        )
    if sample.unit == "rows":
        return complete_rows(labels[sample.rows], judgements.true_labels)
    if sample.within is None:
        raise ValueError(
            "pairs that are scattered over all rows meet each label too seldom to tell its "
            "propensity; judge whole rows, or use "
            f"{setting('design', 'two-phase', of='audit.plan')}."
        )
    chosen = sample.within.chosen
    position = np.empty(sample.shape[0], dtype=np.int64)
    position[chosen] = np.arange(chosen.size)
    shown = values_at(labels, sample.rows, sample.pair_labels) > 0
    yes = judgements.answers == 1
    row, label = position[sample.rows[yes]], sample.pair_labels[yes]
    weight = 1 / sample.within.probability[yes]
    wrong, n_shown = int((shown & ~yes).sum()), int(shown.sum())
    if sample.observed_free:
        free = labels[chosen].tocoo()
        row, label = np.r_[row, free.row], np.r_[label, free.col]
        weight = np.r_[weight, np.ones(free.nnz)]
    shape = (chosen.size, sample.shape[1])
    true = sp.csr_array(sp.coo_array((weight, (row, label)), shape=shape))
    weights = true.data.copy()
    true = sp.csr_array((np.ones(true.nnz, np.float32), true.indices, true.indptr), shape=shape)
    return JudgedLabels(true, sp.csr_array(labels[chosen].multiply(true)), weights, wrong, n_shown)


def _predicted(top: TopK, shape: tuple[int, int]) -> sp.csr_array:
    row, place = np.nonzero(top.labels >= 0)
    if top.labels.shape[0] != shape[0] or top.labels.max(initial=-1) >= shape[1]:
        raise ValueError(
            f"the pool predicts labels of {top.labels.shape[0]} rows; the audit has {shape}."
        )
    entries = (np.ones(row.size), (row, top.labels[row, place]))
    return sp.csr_array(sp.coo_array(entries, shape=shape))
