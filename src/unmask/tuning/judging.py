"""How candidates are judged: by an estimate of the true metric, on rows that training has not seen.

| metric                                 | with propensities | without   | with an audit |
|----------------------------------------|-------------------|-----------|---------------|
| recall and whatever else has that form | deconvolved       | vanilla   | measured      |
| linear in the labels                   | unbiased          | vanilla   | measured      |

Propensities that the predictions refute are not corrected with. A label that is predicted for some
rows must not be observed in more than a share p_j of them (`predicted_frequency`), and no unbiased
P@k may exceed 1 (`metrics.judgement`). Where either happens, two things may be wrong. If labels of
higher propensity are clearly those that are observed more often where they are predicted, only the
level is: 1/p is tempered, 1 + τ(1/p − 1), by the largest τ of `LEVELS` that nothing refutes. If
not, the propensities say nothing of these labels, and only vanilla training is left. It is judged
by `balanced` recall. Of the n_j rows that show label j the predictions hold a share r_j, and they
hold the same share of the rows where it is true, however rarely it is recorded; only how often it
is true is not known. If p is the same for all, labels weigh n_j in recall; if frequent labels
are frequent because they are recorded, they all weigh the same. Half-way, on the logarithmic scale,
labels weigh √n_j: Σ √n_j r_j / Σ √n_j.

Deconvolution also assumes that labels of a row are lost independently. Where its fit is refused or
doubtful (row effort, say), candidates are judged by the unbiased P@k in its place, which holds
however labels are lost together, and corrections that divide a row's loss are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.stats import spearmanr

from unmask import _validation
from unmask._typing import Floats, Ints, PropensityLike
from unmask.data import Dataset
from unmask.data.judgements import Judgements
from unmask.diagnosis import Test
from unmask.diagnosis.feasibility import predicted_counts, predicted_frequency
from unmask.metrics import METRICS, evaluate
from unmask.metrics.registry import split
from unmask.metrics.run import Evidence, EvidenceKind
from unmask.predictions import TopK
from unmask.propensity import MaskModel, PropensityEstimate, temper

LEVELS = (1.0, 0.75, 0.5, 0.25, 0.1)
"""Shares of the correction that are tried, largest first."""
ALPHA = 0.01
"""The chance, over all models and labels, that right propensities are called refuted."""
ENOUGH = 20
"""Rows that a label is predicted for from which on its observed share counts."""
OF_COUNTS = (EvidenceKind.REFUSED_FIT, EvidenceKind.MISFIT)
"""What label counts say against independent losses."""
BALANCED = "balanced"
"""The estimator of recall where nothing is known of propensities."""
GROUPS = 10
"""Groups of rows that the jackknife leaves out in turn."""


class Judged(NamedTuple):
    """A value, larger being better, and what tells how sure a difference of two is.

    Attributes
    ----------
    value : float
    without : tuple of float
        The value without each group of rows in turn; empty for measured values.
    error : float or None
        The standard error of a measured value.
    """

    value: float
    without: tuple[float, ...] = ()
    error: float | None = None


@dataclass(frozen=True, eq=False)
class Judge:
    """A metric, the estimator of its true value, and what that needs."""

    metric: str
    estimator: str
    propensity: PropensityLike | None = None
    audit: Judgements | None = None

    @property
    def places(self) -> int:
        """How many labels of a row the metric reads."""
        return split(self.metric)[1] or 1

    def value(self, top: TopK, labels: sp.csr_array | Dataset) -> float:
        """The estimate, its sign such that larger is better; NaN where there is none."""
        if self.estimator == BALANCED:
            return balanced_recall(top, matrix_of(labels))
        table = evaluate(
            top, labels, self.propensity, metrics=[self.metric], estimators=[self.estimator]
        )
        return self._signed(table[self.metric, self.estimator].value)

    def judged(self, top: TopK, labels: sp.csr_array | Dataset) -> Judged:
        """The value with what its differences from others can be judged by.

        Measured if there is an audit, which must be one of these very rows.
        """
        if self.audit is not None:
            table = evaluate(top, labels, metrics=[self.metric], audit=self.audit)
            estimate = table[self.metric, "measured"]
            return Judged(self._signed(estimate.value), error=estimate.standard_error)
        group = np.arange(len(top.labels)) % GROUPS
        without = tuple(
            self.value(TopK(top.labels[kept], top.scores[kept]), rows_of(labels, kept))
            for kept in (np.flatnonzero(group != left_out) for left_out in range(GROUPS))
        )
        return Judged(self.value(top, labels), without)

    def _signed(self, value: float) -> float:
        return value if METRICS[split(self.metric)[0]].higher_is_better else -value


def balanced_recall(top: TopK, labels: sp.csr_array) -> float:
    """The mean over labels of the share of their rows that predict them, weighted by √n_j.

    >>> labels = sp.csr_array([[1, 0], [1, 0], [1, 0], [1, 0], [0, 1]])
    >>> balanced_recall(TopK([[0]] * 5, np.ones((5, 1))), labels)  # labels weigh 2 and 1
    0.6666666666666666
    """
    weights = np.sqrt(np.bincount(labels.indices, minlength=labels.shape[1]))
    hits = predicted_counts(top, labels)[0]
    shown = weights > 0
    if not shown.any():
        return math.nan
    return float((hits[shown] / weights[shown]).sum() / weights.sum())


def difference_error(one: Judged, other: Judged) -> float:
    """The standard error of the difference of two values on the same rows.

    By the jackknife √((G − 1)/G Σ (d₋g − d̄)²) over the groups; of measured values, whose pairing is
    not used, the root of the sum of both squared errors.

    >>> round(difference_error(Judged(0.5, (0.4, 0.6)), Judged(0.1, (0.1, 0.1))), 12)
    0.1
    """
    if one.error is not None and other.error is not None:
        return math.hypot(one.error, other.error)
    d = np.subtract(one.without, other.without)
    return float(np.sqrt((len(d) - 1) / len(d) * ((d - d.mean()) ** 2).sum()))


def judge_of(metric: str, propensity: PropensityLike | None, audit: Judgements | None) -> Judge:
    """The judge of a metric of the first k labels; ValueError if it is none of those."""
    name, k = split(metric)
    about = METRICS[name]
    if k is None or about.reads != "list":
        raise ValueError(
            f"candidates are judged by their best labels, such as R@5, P@3 or nDCG@5; {metric!r} "
            "needs sets of labels or all scores."
        )
    if propensity is None:
        return Judge(metric, "vanilla", None, audit)
    order = ("unbiased", "deconvolved") if about.adds_up else ("deconvolved", "unbiased")
    estimator = next((e for e in order if e in about.estimators), None)
    if estimator is None:
        raise ValueError(
            f"{metric} has no estimate that is right when labels are missing; choose another "
            "metric, such as R@5, or tune without propensities."
        )
    return Judge(metric, estimator, propensity, audit)


@dataclass(frozen=True)
class Trust:
    """How much of the correction the predictions leave standing.

    Parameters
    ----------
    tau : float
        The share of 1/p − 1 that may be corrected for: 1 where nothing refutes the propensities,
        0 where only vanilla training is left.
    evidence : tuple of Evidence, default ()
        What refutes the propensities as they were stated.
    test : Test, optional
        The label that is observed too often where it is predicted, if one is.
    independent : bool, default True
        Whether the labels of a row may have been lost independently.

    Examples
    --------
    >>> Trust(1.0).independent
    True
    """

    tau: float
    evidence: tuple[Evidence, ...] = ()
    test: Test | None = None
    independent: bool = True


def trust(tops: Sequence[TopK], labels: sp.csr_array | Dataset, propensity: Floats) -> Trust:
    """The largest share of the correction that none of these predictions refutes.

    Parameters
    ----------
    tops : sequence of TopK
        Of the same held-out rows, each by one model.
    labels : csr_array of shape (n, L), or Dataset
        Checked labels of these rows. Where pairs were judged, single labels are not tested: they
        were not observed by the mask alone.
    propensity : (L,) floats

    Returns
    -------
    Trust
    """
    refuted = _refuting(tops, labels, propensity)
    if not any(refuted):
        return Trust(1.0)
    levels = LEVELS[1:] if _ordered(tops, labels, propensity) else ()
    tau = next(
        (level for level in levels if not any(_refuting(tops, labels, temper(propensity, level)))),
        0.0,
    )
    return Trust(tau, *refuted)


def doubted_fit(
    tops: Sequence[TopK], labels: sp.csr_array | Dataset, judge: Judge
) -> tuple[Evidence, ...]:
    """What speaks against independent losses where a deconvolution was fitted."""
    if judge.estimator != "deconvolved":
        return ()
    for top in tops:
        run = evaluate(
            top, labels, judge.propensity, metrics=[judge.metric], estimators=["deconvolved"]
        ).run
        doubts = tuple(each for each in (run.evidence if run else ()) if each.kind in OF_COUNTS)
        if doubts:
            return doubts
    return ()


def _ordered(tops: Sequence[TopK], labels: sp.csr_array | Dataset, p: Floats) -> bool:
    """Whether labels of higher propensity are observed more often where they are predicted.

    Spearman's correlation over labels that are predicted for enough rows, one-sided.
    """
    matrix = matrix_of(labels)
    for top in tops:
        hits, rows = predicted_counts(top, matrix)
        enough = rows >= ENOUGH
        if enough.sum() < 3 or np.ptp(p[enough]) == 0:
            continue
        result = spearmanr(p[enough], hits[enough] / rows[enough], alternative="greater")
        if result.pvalue < ALPHA:
            return True
    return False


def _refuting(
    tops: Sequence[TopK], labels: sp.csr_array | Dataset, p: Floats
) -> tuple[tuple[Evidence, ...], Test | None]:
    evidence: list[Evidence] = []
    for top in tops:
        metrics = [f"P@{k}" for k in sorted({1, min(3, top.k), top.k})]
        run = evaluate(top, labels, p, metrics=metrics, estimators=["unbiased"]).run
        evidence += [each for each in (run.evidence if run else ()) if each.refutes]
    if isinstance(labels, Dataset) and labels.judgements is not None:
        return tuple(evidence[:1]), None
    matrix = matrix_of(labels)
    tests = [predicted_frequency(top.first(k), matrix, p) for top in tops for k in {1, top.k}]
    worst = min(tests, key=lambda test: test.p_value)
    return tuple(evidence[:1]), worst if worst.p_value * len(tests) < ALPHA else None


def tempered(propensity: PropensityLike, tau: float) -> PropensityLike:
    """Propensities of any form with the share τ of their correction, every part certain."""
    if isinstance(propensity, MaskModel):
        whole = propensity.centre
        return whole if tau == 1 else replace(whole, propensity=temper(whole.value, tau))
    p = propensity.value if isinstance(propensity, PropensityEstimate) else propensity
    return temper(_validation.propensity(p), tau)


def of_labels(propensity: PropensityLike, labels: Ints) -> PropensityLike:
    """The same for some of the labels; as `tempered` returns it."""
    if isinstance(propensity, MaskModel):
        return replace(propensity, propensity=propensity.value[labels])
    return np.asarray(propensity)[labels]


def matrix_of(labels: sp.csr_array | Dataset) -> sp.csr_array:
    """The label matrix of either form."""
    return labels.labels if isinstance(labels, Dataset) else labels


def rows_of(labels: sp.csr_array | Dataset, rows: Ints) -> sp.csr_array | Dataset:
    """Some rows of labels, in either form."""
    return labels.take(rows) if isinstance(labels, Dataset) else labels[rows]
