"""Judging of candidates: by an estimate of the true metric, on rows that training has not seen.

| metric                                 | with propensities | without   | with an audit |
|----------------------------------------|-------------------|-----------|---------------|
| recall and whatever else has that form | deconvolved       | vanilla   | measured      |
| linear in the labels                   | unbiased          | vanilla   | measured      |

Deconvolution fits a mixture for every candidate, which takes longer than training one on few rows.
So candidates are compared by a sum over hits first (`Hits`), and only the last ones deconvolved. A
metric whose hit at place r of a row with N* true labels is worth W_r(N*) is estimated by

    1/n Σ_hits (1/p_j) E[W_r(N*) | m],

m the observed labels of the row; the distribution of N* is fitted once, to all rows
(`weights.count_distribution`; these are the empirical-Bayes weights). It knows nothing of a row
beyond m, while deconvolution also learns from which of its labels are predicted. Rows add to this
sum one by one, so that the error of a difference of two candidates comes for nothing.

Propensities that the predictions refute, or do not bear out, are not corrected with. A label that
is predicted for some rows must not be observed in more than a share p_j of them
(`predicted_frequency`), and no unbiased P@k may exceed 1 (`metrics.claims`). Where either
happens, two things may be wrong. If labels of higher propensity are clearly those that are observed
more often where they are predicted, only the level is: 1/p is tempered, 1 + τ(1/p − 1), by the
largest τ of `LEVELS` that nothing refutes. If not, the propensities say nothing of single labels.

Nor do they where nothing is observed too often but their order is not borne out by enough labels
(`LABELS`), whose propensities differ by more than a formula may be off (`SPREAD`). In 72 cases,
three other draws of the study, that told all 12 with permuted propensities, one of which nothing
else refutes, from all others: chances of the order were 0.09 and more in these, 0.002 and less in
those.

Vanilla training is left then, and a bound that takes the mean of 1/p for all labels
(`Trust.level`): it counts observed labels for more, which is better than vanilla on debtags and
cooking whatever p (`unmask reproduce tuning`). Both are judged by `balanced` recall, which needs no
propensities. Of the n_j rows that show label j the predictions hold a share r_j, and they hold the
same share of the rows where it is true, however rarely it is recorded; only how often it is true is
not known. If p is the same for all, labels weigh n_j in recall; if frequent labels are frequent
because they are recorded, they all weigh the same. Labels weigh n_j^`WEIGHT`, between the two:
Σ w_j r_j / Σ w_j. (Of exponents from a half to 1, the half chose best with permuted propensities on
two draws of four data sets, 1 too small a C.)

Deconvolution also assumes that labels of a row are lost independently. Where its fit is refused or
doubtful (row effort, say), candidates are judged by the unbiased P@k in its place, which holds
however labels are lost together, and corrections that divide a row's loss are left out. A good fit
proves nothing: rows of different effort look like rows of different numbers of true labels.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import xlog1py
from scipy.stats import binom, spearmanr

from unmask._text import format_value
from unmask._typing import Floats, Ints, PropensityLike
from unmask.arrays import TopK, checks, entry_rows
from unmask.data import Dataset
from unmask.data.judgements import Judgements
from unmask.diagnosis import Test
from unmask.diagnosis.evidence import predicted_counts, predicted_frequency
from unmask.metrics import METRICS, evaluate
from unmask.metrics.claims import Evidence, EvidenceKind
from unmask.metrics.deconvolution import METRICS as DECONVOLVED
from unmask.metrics.registry import split
from unmask.propensity import MaskModel, PropensityEstimate, temper
from unmask.weights import count_distribution

LEVELS = (1.0, 0.75, 0.5, 0.25, 0.1)
"""Shares of the correction that are tried, largest first."""
ALPHA = 0.01
"""The chance, over all models and labels, that right propensities are called refuted."""
ENOUGH = 20
"""Rows that a label is predicted for from which on its observed share counts."""
OF_COUNTS = (EvidenceKind.REFUSED_FIT, EvidenceKind.MISFIT)
"""Evidence of label counts against independent losses."""
BALANCED = "balanced"
"""The estimator of recall where nothing is known of propensities."""
WEIGHT = 0.5
"""Labels of n rows weigh n to this power there."""
LABELS, SPREAD, BORNE_OUT = 25, 1.5, 0.05
"""Labels that are predicted for enough rows from which on the order of their propensities has to be
borne out, if the tenth part with the highest has so many times those of the tenth with the lowest;
and the chance that an order is by accident up to which it is."""
BY_COUNT = ("P", "R", "F1", "nDCG", "R-precision")
"""Metrics whose hits are worth what the number of true labels says, and their place."""
UNORDERED = "labels of higher propensity are not observed more often where they are predicted"
"""The propensities are not borne out by single labels."""
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
        """The number of labels of a row that the metric reads."""
        return split(self.metric)[1] or 1

    @property
    def by_independence(self) -> bool:
        """True if the estimate holds only if labels of a row are lost independently."""
        return self.estimator == "deconvolved"

    @property
    def by_precision(self) -> Judge:
        """The judge that needs no independence: unbiased precision."""
        return replace(self, metric=f"P@{self.places}", estimator="unbiased")

    def hits(self, labels: sp.csr_array | Dataset) -> Hits | None:
        """Return what hits are worth; None where the metric has no such sum, or p is no vector.

        Judged pairs, row effort and spurious labels are left to `evaluate`.
        """
        name = split(self.metric)[0]
        if self.estimator == BALANCED:
            return balanced_hits(matrix_of(labels), self.places)
        if name not in BY_COUNT or isinstance(labels, Dataset):
            return None
        if isinstance(self.propensity, MaskModel) or (self.estimator == "unbiased" and name != "P"):
            return None
        p = np.ones(labels.shape[1]) if self.propensity is None else self.propensity
        return hits_of(labels, checks.propensity(p, labels.shape[1]), name, self.places)

    def value(self, top: TopK, labels: sp.csr_array | Dataset) -> float:
        """Return the estimate, its sign such that larger is better; NaN where there is none."""
        if self.estimator == BALANCED:
            return balanced_recall(top, matrix_of(labels))
        table = evaluate(
            top, labels, self.propensity, metrics=[self.metric], estimators=[self.estimator]
        )
        return self._signed(table[self.metric, self.estimator].value)

    def judged(self, top: TopK, labels: sp.csr_array | Dataset) -> Judged:
        """Return the value with what its differences from others can be judged by.

        Measured if there is an audit, which must be one of these very rows.
        """
        if self.audit is not None:
            table = evaluate(top, labels, metrics=[self.metric], audit=self.audit)
            estimate = table[self.metric, "measured"]
            return Judged(self._signed(estimate.value), error=estimate.standard_error)
        if (hits := self.hits(labels)) is not None:
            return with_jackknife(self.value(top, labels), hits.of(top, matrix_of(labels)))
        group = np.arange(len(top.labels)) % GROUPS
        without = tuple(
            self.value(TopK(top.labels[kept], top.scores[kept]), rows_of(labels, kept))
            for kept in (np.flatnonzero(group != left_out) for left_out in range(GROUPS))
        )
        return Judged(self.value(top, labels), without)

    def _signed(self, value: float) -> float:
        return value if METRICS[split(self.metric)[0]].higher_is_better else -value


@dataclass(frozen=True, eq=False)
class Hits:
    """1/p of every label, and by place and number of observed labels what a hit is worth else."""

    inverse: Floats
    worth: Floats

    def of(self, top: TopK, labels: sp.csr_array) -> Floats:
        """Return what every row adds to the estimate, which is its mean: (n,) floats."""
        n, k = len(top.labels), self.worth.shape[0]
        predicted = top.labels[:, :k].astype(np.int64)
        keys = entry_rows(labels) * labels.shape[1] + labels.indices
        keys = np.append(np.sort(keys), np.iinfo(np.int64).max)
        asked = np.arange(n)[:, None] * labels.shape[1] + predicted
        hit = (keys[np.searchsorted(keys, asked)] == asked) & (predicted >= 0)
        counts = np.minimum(np.diff(labels.indptr), self.worth.shape[1] - 1)
        weights = hit * self.inverse[predicted] * self.worth[: predicted.shape[1], counts].T
        return np.asarray(weights.sum(axis=1))


def hits_of(labels: sp.csr_array, p: Floats, metric: str, k: int) -> Hits:
    """Return what hits are worth to a metric of `BY_COUNT`, from the counts of these rows.

    Half of the labels were observed; rows that show one of them mostly had two:

    >>> labels = sp.csr_array([[1, 1]] * 25 + [[1, 0]] * 25 + [[0, 1]] * 25 + [[0, 0]] * 25)
    >>> hits_of(labels, np.full(2, 0.5), "R", 1).worth.round(2)
    array([[0.5, 0.5, 0.5]])
    """
    about = DECONVOLVED[metric]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a fit that is almost the best will do
        fit = count_distribution(labels, p)
    support = np.flatnonzero(fit.probability)
    true = support.astype(np.float64)
    observed = np.arange(fit.rows.size)
    none = np.zeros(true.size)
    of_places = np.array([
        (about.hit_value(true, none, k) if about.at_place is None
         else about.at_place(r, true, none, k)) for r in range(k)
    ])  # fmt: skip
    chances = binom.pmf(observed[:, None], true, fit.propensity) * fit.probability[support]
    if fit.without_empty:
        chances = chances / -np.expm1(xlog1py(true, -fit.propensity))
    total = chances.sum(axis=1, keepdims=True)
    posterior = np.divide(chances, total, out=np.zeros_like(chances), where=total > 0)
    return Hits(1 / p, of_places @ posterior.T)


def with_jackknife(value: float, of_rows: Floats) -> Judged:
    """Return a value, and the values without each group, by what rows add to a mean."""
    group = np.arange(len(of_rows)) % GROUPS
    sums, sizes = (np.bincount(group, w, minlength=GROUPS) for w in (of_rows, None))
    means = (of_rows.sum() - sums) / np.maximum(len(of_rows) - sizes, 1)
    return Judged(value, tuple((value + means - of_rows.mean()).tolist()))


def balanced_recall(top: TopK, labels: sp.csr_array) -> float:
    """Return the mean over labels of the share of their rows that predict them, weighted by √n_j.

    >>> labels = sp.csr_array([[1, 0]] * 16 + [[0, 1]])
    >>> round(balanced_recall(TopK([[0]] * 17, np.ones((17, 1))), labels), 12)  # 4 and 1 in weight
    0.8
    """
    return float(balanced_hits(labels, top.k).of(top, labels).mean())


def balanced_hits(labels: sp.csr_array, k: int) -> Hits:
    """Return what hits are worth to it: of label j, w_j / n_j in Σ w, for the mean of all rows.

    >>> labels = sp.csr_array([[1, 0]] * 16 + [[0, 1]])
    >>> hits = balanced_hits(labels, 1)
    >>> float(hits.of(TopK([[0]] * 17, np.ones((17, 1))), labels).mean().round(12))
    0.8
    """
    counts = np.bincount(labels.indices, minlength=labels.shape[1])
    share = np.maximum(counts, 1.0) ** (WEIGHT - 1) * (counts > 0)
    total = (counts**WEIGHT).sum()
    return Hits(share * labels.shape[0] / total if total else np.full(counts.size, math.nan),
                np.ones((k, 1)))  # fmt: skip


def difference_error(one: Judged, other: Judged) -> float:
    """Return the standard error of the difference of two values on the same rows.

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
    """Return the judge of a metric of the first k labels; ValueError if it is none of those."""
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
    """The part of the correction that the predictions leave standing.

    Parameters
    ----------
    tau : float
        The share of 1/p − 1 that may be corrected for: 1 where nothing refutes the propensities,
        0 where they say nothing of single labels.
    evidence : tuple of Evidence, default ()
        What refutes the propensities as they were stated.
    test : Test, optional
        The label that is observed too often where it is predicted, if one is.
    independent : bool, default True
        Whether the labels of a row may have been lost independently.
    level : float, optional
        Where `tau` is 0, the one propensity that stands for all labels: 1/p is the mean of theirs.

    Examples
    --------
    >>> Trust(1.0).independent
    True
    >>> Trust(0.0, level=0.25).left_of([0.2, 0.33])
    array([0.25, 0.25])
    """

    tau: float
    evidence: tuple[Evidence, ...] = ()
    test: Test | None = None
    independent: bool = True
    level: float | None = None

    @property
    def rejected(self) -> tuple[Evidence, ...]:
        """Tests of single labels that the propensities fail, as evidence against them."""
        details = {"effect": UNORDERED}
        if self.test is not None:
            about = self.test.values
            share, p = (format_value(about[n], ".0%") for n in ("observed_share", "propensity"))
            details["effect"] = (
                f"label {about['label']:.0f} is observed in {share} of the rows it is predicted "
                f"for, and its propensity is {p}"
            )
        elif self.tau or self.level is None or self.evidence:
            return ()
        refutes = self.test is not None
        return (Evidence(EvidenceKind.REJECTED_TEST, refutes, details),)

    def left_of(self, propensity: ArrayLike) -> Floats:
        """Return propensities as far as they stand: tempered, or the level for all."""
        p = np.asarray(propensity, dtype=np.float64)
        return (
            np.asarray(temper(p, self.tau)) if self.level is None else np.full(p.shape, self.level)
        )


def trust(tops: Sequence[TopK], labels: sp.csr_array | Dataset, propensity: Floats) -> Trust:
    """Return the largest share of the correction that none of these predictions refutes.

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
    chance = _chance_of_order(tops, labels, propensity)
    if not any(refuted) and (chance is None or chance < BORNE_OUT):
        return Trust(1.0)
    levels = LEVELS[1:] if any(refuted) and _ordered(tops, labels, propensity) else ()
    tau = next(
        (level for level in levels if not any(_refuting(tops, labels, temper(propensity, level)))),
        0.0,
    )
    return Trust(tau, *refuted, level=None if tau else float(1 / np.mean(1 / propensity)))


def misfit(
    tops: Sequence[TopK], labels: sp.csr_array | Dataset, judge: Judge
) -> tuple[Evidence, ...]:
    """Return what speaks against independent losses where a deconvolution was fitted."""
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
    """Tell if labels of higher propensity are observed more often where they are predicted."""
    return any(chance < ALPHA for _, chance in _orders(tops, labels, p))


def _chance_of_order(
    tops: Sequence[TopK], labels: sp.csr_array | Dataset, p: Floats
) -> float | None:
    """Return the chance that this order is by accident; None if that is not tested.

    It is not with few labels, nor where propensities hardly differ or pairs were judged.
    """
    if isinstance(labels, Dataset) and labels.judgements is not None:
        return None
    chances = [
        chance for own, chance in _orders(tops, labels, p)
        if own.size >= LABELS and np.quantile(own, 0.9) >= SPREAD * np.quantile(own, 0.1)
    ]  # fmt: skip
    return min(chances, default=None)


def _orders(
    tops: Sequence[TopK], labels: sp.csr_array | Dataset, p: Floats
) -> Iterator[tuple[Floats, float]]:
    """Yield propensities of labels predicted for enough rows, and the chance of their order.

    That is of Spearman's correlation with how often they are observed there, one-sided.
    """
    matrix = matrix_of(labels)
    for top in tops:
        hits, rows = predicted_counts(top, matrix)
        enough = rows >= ENOUGH
        if enough.sum() < 3 or np.ptp(p[enough]) == 0:
            continue
        shares = hits[enough] / rows[enough]
        if np.ptp(shares) == 0:
            yield p[enough], 1.0
            continue
        yield p[enough], float(spearmanr(p[enough], shares, alternative="greater").pvalue)


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
    """Return propensities of any form with the share τ of their correction, every part certain."""
    if isinstance(propensity, MaskModel):
        whole = propensity.centre
        return whole if tau == 1 else replace(whole, propensity=temper(whole.value, tau))
    p = propensity.value if isinstance(propensity, PropensityEstimate) else propensity
    return temper(checks.propensity(p), tau)


def of_labels(propensity: PropensityLike, labels: Ints) -> PropensityLike:
    """Return propensities, as `tempered` returns them, of some of the labels."""
    if isinstance(propensity, MaskModel):
        return replace(propensity, propensity=propensity.value[labels])
    return np.asarray(propensity)[labels]


def matrix_of(labels: sp.csr_array | Dataset) -> sp.csr_array:
    """Return the label matrix of either form."""
    return labels.labels if isinstance(labels, Dataset) else labels


def rows_of(labels: sp.csr_array | Dataset, rows: Ints) -> sp.csr_array | Dataset:
    """Return some rows of labels, in either form."""
    return labels.take(rows) if isinstance(labels, Dataset) else labels[rows]


def labels_of(labels: sp.csr_array | Dataset, some: Ints) -> sp.csr_array | Dataset:
    """Return some columns of labels, in either form."""
    if not isinstance(labels, Dataset):
        return labels[:, some] if len(some) < labels.shape[1] else labels
    judged = labels.judgements
    some_judged = None if judged is None else judged[:, some]
    return Dataset(None, matrix_of(labels)[:, some], judgements=some_judged)
