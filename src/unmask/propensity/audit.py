"""Propensities from an audit: some rows whose labels are known both as observed and completely.

In the audited rows label j truly occurs K_j times and was observed k_j of those times, so k_j is
binomial with p_j. Few labels have a large K_j, so the rates are drawn towards a curve over label
frequency (`curve`): given the curve's parameters,

    p_j | k_j ~ Beta(κ c_j + k_j, κ (1 − c_j) + K_j − k_j)

and the parameters themselves are averaged over what the counts allow. A label that no audited row
has gets the curve, with the scatter of labels around it.

Each k_j is binomial also where some rows lose more labels than others, but then the labels err
together. If a row's sum varies D times as much as it should (the design effect), all logits get one
common error of variance (D − 1) / Σ_j K_j p_j (1 − p_j), which makes up for it. Where the observed
labels of all rows are at hand, they correct the level of all propensities, and that error is
smaller (`level`).

What was judged matters as much (`judged`): complete rows, a pool of pairs, or pairs with known
probabilities. The rows to audit may be chosen by anything except the observed labels: picking rows
because a label was seen there would find every p_j to be 1.

What an audit judged, as counts of true labels and of those that were observed.

An audit must say what was judged, since "relevant" is only known there:

- *complete rows*: every label of a row;
- *a pool*: some pairs of a row, chosen without its observed labels, such as the first K
  predictions. Both counts are restricted to the pool: one to which the observed labels were added
  would find every label outside it kept, and propensities too high;
- *pairs with probabilities* (a two-phase sample): a relevant pair counts 1/π. A label's counts are
  then scaled to as many labels as their variance is worth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypedDict, Unpack, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.stats import beta, chi2

from unmask._messages import named_options, setting
from unmask._typing import Floats, Ints, LabelsLike, ScoresLike
from unmask.arrays import TopK, checks, entry_rows, values_at
from unmask.data.judgements import Design, Judgements
from unmask.propensity import estimate as curves
from unmask.propensity.estimate import (
    TOGETHER,
    CurveFit,
    Evidence,
    GroupedPropensities,
    Level,
    PropensityEstimate,
    fit_groups,
    level_of,
    odds_shift,
)
from unmask.propensity.mask_model import (
    MOST_SPURIOUS,
    MaskModel,
    estimate_effort,
    fit_slope,
    scores_of,
)

CURVES = ("jain", "free")
MASKS = ("independent", "effort", "score")


class AuditOptions(TypedDict, total=False):
    """Choices that every kind of audit takes."""

    pool: TopK | LabelsLike | None
    all_rows: LabelsLike | None
    counts: ArrayLike | None
    n: int | None
    curve: str
    confidence: float
    seed: int


@overload
def audit(
    observed: LabelsLike,
    complete: LabelsLike | Judgements,
    *,
    mask: Literal["independent"] = ...,
    **options: Unpack[AuditOptions],
) -> PropensityEstimate: ...


@overload
def audit(
    observed: LabelsLike,
    complete: LabelsLike | Judgements,
    *,
    mask: Literal["effort"],
    **options: Unpack[AuditOptions],
) -> MaskModel: ...


@overload
def audit(
    observed: LabelsLike,
    complete: LabelsLike | Judgements,
    *,
    groups: ArrayLike,
    **options: Unpack[AuditOptions],
) -> GroupedPropensities: ...


@overload
def audit(
    observed: LabelsLike,
    complete: LabelsLike | Judgements,
    *,
    mask: Literal["score"],
    scores: TopK | ScoresLike,
    **options: Unpack[AuditOptions],
) -> MaskModel: ...


@named_options
def audit(
    observed: LabelsLike,
    complete: LabelsLike | Judgements,
    *,
    mask: str = "independent",
    scores: TopK | ScoresLike | None = None,
    groups: ArrayLike | None = None,
    pool: TopK | LabelsLike | None = None,
    all_rows: LabelsLike | None = None,
    counts: ArrayLike | None = None,
    n: int | None = None,
    curve: str = "jain",
    confidence: float = 0.95,
    seed: int = 0,
) -> PropensityEstimate | MaskModel | GroupedPropensities:
    """Propensities from rows of which both the observed and the complete labels are known.

        k_j ~ Bin(K_j, p_j),    K_j true labels j in the audited rows, k_j of them observed

    The rates k_j / K_j are drawn towards a curve over label frequency; see the module.

    Parameters
    ----------
    observed : matrix of shape (m, L)
        Observed labels of the audited rows, dense or sparse; of all rows, if judgements are given.
        The rows may be chosen by anything except their observed labels.
    complete : matrix of shape (m, L), or Judgements
        Complete labels of the same rows; or the judgements of an `unmask.audit`, of whole rows or
        of a two-phase sample.
    mask : {"independent", "effort", "score"}, default "independent"
        "effort" also estimates how much the labels of a row are kept or lost together and how many
        rows nobody annotated (`effort_estimate`); it needs whole rows. "score" estimates how much
        more often labels are kept that the model finds obvious (`score_slope`).
    scores : TopK, or (m, L) dense or sparse scores, optional
        Of the audited rows; for mask="score".
    groups : m names, optional
        The group of every audited row, such as its annotator, source or year: propensities of
        groups, drawn towards each other (`grouped`).
    pool : TopK, or matrix of shape (m, L), optional
        What was judged, if not everything: predictions, or pairs chosen without looking at the
        observed labels. Observed and complete labels outside it are left out; a matrix to which
        the observed labels were added is refused.
    all_rows : matrix of shape (n, L), optional
        Observed labels of all rows, of which the audited ones are a random part: how many labels
        they show corrects the level of all propensities (`level`). Judgements of a simple sample
        bring them along.
    counts : array of shape (L,), optional
        Label counts of the observed *training* labels, of which the Jain model is a function. By
        default the curve runs over the counts of the complete labels of the audit, and its a and b
        are not comparable to published constants.
    n : int, optional
        Rows of the training labels; goes with `counts`.
    curve : {"jain", "free"}, default "jain"
        "jain" fits a and b; "free" also the level of the curve, for propensities that are not
        1 / ln n at a single training positive.
    confidence : float, default 0.95
        Of the intervals, in [0.5, 0.9999].
    seed : int, default 0
        Decides the draws of the curve's parameters.

    Returns
    -------
    PropensityEstimate; MaskModel for mask="effort" or "score", GroupedPropensities with groups

    Raises
    ------
    ValueError
        If shapes differ, the pool holds all observed labels, no audited row has a true label, only
        one of `counts` and `n` is given, or an option is unknown or out of its range.

    Examples
    --------
    >>> from unmask import data, propensity
    >>> truth = data.synthetic.independent(300, 20, seed=0)
    >>> observed = data.hide(truth, propensity.constant(20, 0.4), seed=1)
    >>> estimate = propensity.audit(observed, truth, curve="free")
    >>> bool((estimate.low < 0.4).all() and (estimate.high > 0.4).all())
    True
    >>> lazy = propensity.MaskModel(np.full(20, 0.4), row_effort=0.6)
    >>> rows = data.hide(truth, lazy, seed=1)
    >>> propensity.audit(rows, truth, mask="effort", curve="free").row_effort > 0.3
    True
    """
    checks.one_of(mask, MASKS, "mask")
    if scores is None and mask == "score":
        raise ValueError(
            f"{setting('mask', 'score', of='propensity.audit')} needs the model's scores of the "
            f"audited rows, as {setting('scores', of='propensity.audit')}."
        )
    if groups is not None and mask != "independent":
        raise ValueError(
            f"groups go with {setting('mask', 'independent', of='propensity.audit')}; leave one of "
            "the two out."
        )
    if scores is not None and mask != "score":
        raise ValueError(
            f"scores are for {setting('mask', 'score', of='propensity.audit')}; leave them out."
        )
    if (counts is None) != (n is None):
        raise ValueError("give both `counts` and `n` of the training labels, or neither.")
    labels = _judged(observed, complete, pool)
    effect = design_effect(labels.kept, labels.true)
    kept, total = labels.counts()
    posterior = fit_posterior(
        kept,
        total,
        total + 0.5 if counts is None else counts,
        labels.true.shape[0] + 1 if n is None else n,
        sampled=counts is None,
        effect=effect,
        curve=curve,
        confidence=confidence,
        seed=seed,
    )
    posterior = _at_level(posterior, _level(labels, observed, complete, all_rows, pool))
    notes = _notes(labels.spurious, labels.observed, effect)
    estimate = _described(posterior, confidence, "audit", notes, effect)
    estimate = replace(estimate, rows=labels.true.shape[0])
    if groups is not None:
        return fit_groups(was_kept(labels.kept, labels.true), labels.true, groups, estimate)
    if scores is not None:
        return _with_slope(estimate, labels, scores)
    return estimate if mask == "independent" else _with_effort(estimate, labels)


def _level(
    labels: JudgedLabels,
    observed: LabelsLike,
    complete: LabelsLike | Judgements,
    all_rows: LabelsLike | None,
    pool: TopK | LabelsLike | None,
) -> Level | None:
    """What all rows say of the level; None if they are not at hand, or say nothing."""
    if isinstance(complete, Judgements):
        if all_rows is not None:
            raise ValueError("judgements go with the observed labels of all rows; leave all_rows.")
        if complete.sample.design is not Design.SIMPLE:
            return None
        everywhere = checks.labels(observed, name="observed")
        shown = np.diff(everywhere.indptr)[complete.decided.sample.rows]
    elif all_rows is None:
        return None
    else:
        everywhere = checks.labels(all_rows, name="all_rows")
        audited = checks.labels(observed, name="observed")
        if pool is not None:
            raise ValueError("a pool says nothing of labels outside it; leave all_rows out.")
        _refuse_other_rows(everywhere, audited)
        shown = np.diff(audited.indptr)
    kept, true = (np.diff(each.indptr).astype(np.float64) for each in (labels.kept, labels.true))
    n = everywhere.shape[0]
    return level_of(kept, true, shown.astype(np.float64), everywhere.nnz / max(n, 1), n)


def _refuse_other_rows(everywhere: sp.csr_array, audited: sp.csr_array) -> None:
    fewer = everywhere.shape[0] < audited.shape[0]
    if fewer or everywhere.shape[1] != audited.shape[1]:
        raise ValueError(
            f"all_rows are the observed labels of all rows, the {audited.shape[0]} audited ones "
            f"included, with {audited.shape[1]} labels; got shape {everywhere.shape}."
        )


def _at_level(posterior: Posterior, level: Level | None) -> Posterior:
    """The posterior with all logits moved, and with the error that is then left in common."""
    if level is None:
        return posterior
    values, _, _ = posterior.summary(0.95)
    alone = 1 / max(float((posterior.of * values * (1 - values)).sum()), 1e-12)
    shift, variance = odds_shift(level, posterior.of, np.clip(values, 1e-9, 1 - 1e-9))
    return replace(posterior, offset=shift, common=float(np.sqrt(max(variance - alone, 0.0))))


def _with_slope(
    estimate: PropensityEstimate, labels: JudgedLabels, scores: TopK | ScoresLike
) -> MaskModel:
    """The estimate, and beside it how keeping a label depends on its score."""
    kept = was_kept(labels.kept, labels.true)
    slope = fit_slope(kept, labels.true, scores_of(scores, labels.true), estimate.value)
    return MaskModel(estimate, spurious=_spurious_share(labels), score_slope=slope)


def _spurious_share(labels: JudgedLabels) -> float:
    return min(labels.spurious / max(labels.observed, 1), MOST_SPURIOUS)


def _with_effort(estimate: PropensityEstimate, labels: JudgedLabels) -> MaskModel:
    """The estimate, and beside it what the same rows say of effort and of wrong labels."""
    if (labels.weights != 1).any():
        raise ValueError(
            "row effort is estimated from rows whose labels were all judged; these judgements are "
            f"of pairs. Judge whole rows ({setting('unit', 'rows', of='audit.plan')}), or use "
            f"{setting('mask', 'independent', of='propensity.audit')}."
        )
    effort = estimate_effort(labels.kept, labels.true, estimate.value)
    share = _spurious_share(labels)
    return MaskModel(estimate, effort.row_effort, effort.unannotated, share, effort)


def _judged(
    observed: LabelsLike, complete: LabelsLike | Judgements, pool: TopK | LabelsLike | None
) -> JudgedLabels:
    if isinstance(complete, Judgements):
        if pool is not None:
            raise ValueError("judgements know what was judged; give no pool with them.")
        return judged_pairs(observed, complete)
    if pool is not None:
        return pooled_rows(observed, complete, pool)
    return complete_rows(observed, complete)


@named_options
def from_counts(
    kept: ArrayLike,
    of: ArrayLike,
    *,
    counts: ArrayLike,
    n: int,
    sampled: bool = False,
    effect: float = 1.0,
    curve: str = "jain",
    confidence: float = 0.95,
    seed: int = 0,
    method: str = "counts",
    notes: tuple[str, ...] = (),
) -> PropensityEstimate:
    """Propensities from numbers alone: of `of[j]` true labels j, `kept[j]` were observed.

        p_j | k_j ~ Beta(κ c_j + k_j, κ (1 − c_j) + K_j − k_j),    c_j the curve at n_j

    Parameters
    ----------
    kept, of : arrays of shape (L,)
        k_j and K_j, 0 ≤ k_j ≤ K_j; fractions are allowed.
    counts : array of shape (L,)
        n_j, training rows with label j, which place the labels along the curve.
    n : int
        Training rows, at least 3.
    sampled : bool, default False
        Whether the counts come from few rows, such as those of the audit itself; then the curve is
        trusted less where they are small.
    effect : float, default 1.0
        Design effect of labels that are kept or lost together, at least 1.
    curve : {"jain", "free"}, default "jain"
        Whether the level of the curve is estimated, too ("free").
    confidence : float, default 0.95
        Of the intervals, in [0.5, 0.9999].
    seed : int, default 0
        Decides the draws of the curve's parameters.
    method : str, default "counts"
        The name that the estimate carries.
    notes : tuple of str, default ()
        Sentences that the estimate carries, before those on the curve.

    Returns
    -------
    PropensityEstimate

    Raises
    ------
    ValueError
        If counts contradict each other, or an option is unknown or out of its range.

    Examples
    --------
    >>> p = from_counts([30, 3, 0], [60, 9, 0], counts=[500, 60, 8], n=1000)
    >>> p.evidence
    array([60.,  9.,  0.])
    >>> bool(p.high[2] - p.low[2] > p.high[0] - p.low[0])
    True
    """
    posterior = fit_posterior(
        kept, of, counts, n, sampled=sampled, effect=effect, curve=curve, confidence=confidence,
        seed=seed,
    )  # fmt: skip
    return _described(posterior, confidence, method, notes, effect)


def _described(
    posterior: Posterior, confidence: float, method: str, notes: tuple[str, ...], effect: float
) -> PropensityEstimate:
    value, low, high = posterior.summary(confidence)
    return PropensityEstimate(
        value, low, high, confidence, method, posterior.of, posterior, posterior.curve,
        (*notes, *_curve_notes(posterior)), effect,
    )  # fmt: skip


def label_counts(matrix: sp.csr_array) -> Floats:
    """How often each label occurs."""
    return np.bincount(matrix.indices, minlength=matrix.shape[1]).astype(np.float64)


def design_effect(kept: sp.csr_array, true_labels: sp.csr_array) -> float:
    """How much more a sum over a row's labels varies than if they were kept independently; ≥ 1.

    With e_ij = kept − k_j/K_j:  Σ_i (Σ_j e_ij)² / Σ_ij e_ij², which is 1 on average if the labels
    of a row are kept or lost independently of each other.
    """
    residual = residuals(kept, true_labels)
    single = float((residual.data**2).sum())
    together = float((residual.sum(axis=1) ** 2).sum())
    return max(1.0, together / single) if single > 0 else 1.0


def residuals(kept: sp.csr_array, true_labels: sp.csr_array) -> sp.csr_array:
    """e_ij = kept_ij − k_j/K_j for every true label entry; both matrices are validated."""
    rate = label_counts(kept) / np.maximum(label_counts(true_labels), 1)
    return sp.csr_array(
        (
            was_kept(kept, true_labels) - rate[true_labels.indices],
            true_labels.indices,
            true_labels.indptr,
        ),
        shape=true_labels.shape,
    )


def was_kept(kept: sp.csr_array, true_labels: sp.csr_array) -> Floats:
    """1 for every true label entry that is in `kept` (a part of it), else 0, in storage order."""
    width = true_labels.shape[1]

    def keys(matrix: sp.csr_array) -> Ints:
        rows = entry_rows(matrix)
        return np.asarray(rows * width + matrix.indices)

    return np.isin(keys(true_labels), keys(kept), assume_unique=True).astype(np.float64)


def _counts(
    kept: ArrayLike, of: ArrayLike, counts: ArrayLike, n: int
) -> tuple[Floats, Floats, Floats]:
    total = checks.numbers(of, "true label counts")
    total = checks.per_label(total, total.size, "true label counts")
    k = checks.per_label(kept, total.size, "kept label counts")
    frequency = checks.per_label(counts, total.size, "training label counts")
    if (k > total).any():
        label = int(np.flatnonzero(k > total)[0])
        raise ValueError(
            f"label {label} was kept {k[label]:g} times out of {total[label]:g}; swap them?"
        )
    if not total.any():
        raise ValueError("no audited row has a true label; audit more rows.")
    checks.training_rows(n)
    if frequency.max() > n:
        raise ValueError(f"a label cannot occur in {frequency.max():g} of {n} training rows.")
    return k, total, frequency


@dataclass(frozen=True, eq=False)
class Posterior:
    """The distribution of every p_j: a Beta for each curve that the counts allow."""

    curve: CurveFit
    kept: Floats
    of: Floats
    counts: Floats
    sampled: bool
    common: float
    """Standard deviation of the error of all logits together."""
    offset: float = 0.0
    """What is added to all logits: what rows say that were not audited."""

    def betas(self, draw: Floats) -> tuple[Floats, Floats]:
        """The two parameters of the Beta distributions given (a, b, κ, C)."""
        theta = np.log(draw)
        c = curves.level(theta, self.counts)
        kappa = curves.concentration(theta, self.counts, self.sampled)
        return kappa * c + self.kept, kappa * (1 - c) + self.of - self.kept

    @property
    def evidence(self) -> Evidence:
        """What the curve was fitted to."""
        return Evidence.collect(self.kept, self.of, self.counts, self.sampled)

    def pick(self, rng: np.random.Generator, size: int) -> Floats:
        """`size` of the draws of (a, b, κ, C)."""
        return self.curve.draws[rng.integers(len(self.curve.draws), size=size)]

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """(size, L) draws of p."""
        alone = np.array([rng.beta(*self.betas(draw)) for draw in self.pick(rng, size)])
        odds = self.shift(rng, size)[:, None]
        return np.asarray(odds * alone / (1 - alone + odds * alone))

    def shift(self, rng: np.random.Generator, size: int) -> Floats:
        """Factors for the odds of all labels."""
        return np.exp(self.offset + self.common * rng.standard_normal(size))

    def summary(self, confidence: float) -> tuple[Floats, Floats, Floats]:
        """Mean and interval of p_j over all curves, from a Beta with the mixture's moments."""
        mean, square = np.zeros_like(self.kept), np.zeros_like(self.kept)
        for draw in self.curve.draws:
            hit_count, miss_count = self.betas(draw)
            mean += hit_count / (hit_count + miss_count)
            square += (
                hit_count
                / (hit_count + miss_count)
                * (hit_count + 1)
                / (hit_count + miss_count + 1)
            )
        mean, square = mean / len(self.curve.draws), square / len(self.curve.draws)
        variance = square - mean**2
        if self.offset:
            odds = np.exp(self.offset)
            below = 1 - mean + odds * mean
            mean, variance = odds * mean / below, variance * (odds / below**2) ** 2
        variance += (self.common * mean * (1 - mean)) ** 2
        size = np.maximum(mean * (1 - mean) / np.maximum(variance, 1e-15) - 1, 1e-3)
        tails = [[(1 - confidence) / 2], [(1 + confidence) / 2]]
        low, high = beta.ppf(tails, mean * size, (1 - mean) * size)
        return mean, low, high


def fit_posterior(
    kept: ArrayLike, of: ArrayLike, counts: ArrayLike, n: int, *, sampled: bool,
    effect: float, curve: str, confidence: float, seed: int,
) -> Posterior:  # fmt: skip
    """Fit the curve to the counts."""
    checks.one_of(curve, CURVES, "curve")
    checks.in_range(confidence, "confidence", 0.5, 0.9999)
    checks.in_range(effect, "effect", 1, float(np.finfo(np.float64).max))
    k, total, frequency = _counts(kept, of, counts, n)
    if sampled and not frequency.all():
        raise ValueError("counts that are themselves sampled must be above 0; add ½ to each.")
    evidence = Evidence.collect(k, total, frequency, sampled)
    rng = np.random.default_rng(seed)
    fitted = curves.fit(
        evidence, n, free=curve == "free", confidence=confidence, effect=effect, rng=rng
    )
    information = float(
        (total * fitted.level_at(frequency) * (1 - fitted.level_at(frequency))).sum()
    )
    common = np.sqrt((effect - 1) / information)
    return Posterior(fitted, k, total, frequency, sampled, float(common))


def _notes(spurious: int, observed: int, effect: float) -> tuple[str, ...]:
    notes = []
    if spurious:
        notes.append(
            f"{spurious} of {observed} observed labels are not among the complete ones; they were "
            "left out, since a propensity describes losses only."
        )
    if effect > TOGETHER:
        notes.append(
            f"labels of a row are kept or lost together (design effect {effect:.1f}); intervals "
            "and draws allow for it, but masks are not independent: see `unmask.diagnosis`."
        )
    return tuple(notes)


def _curve_notes(posterior: Posterior) -> tuple[str, ...]:
    fitted, evidence = posterior.curve, posterior.evidence
    notes = [
        f"{name} is hardly determined by these counts (anything from {low:.2g} to {high:.2g})."
        for name, (low, high) in fitted.intervals.items()
        if name != "concentration" and high > 30 * low
    ]
    if not fitted.free:
        start = np.log([fitted.a, fitted.b, fitted.concentration, fitted.scale])
        freed = curves.maximize(evidence, start, np.ones(4, dtype=bool))
        gain = 2 * (float(curves.log_likelihood(freed, evidence)) - fitted.log_likelihood)
        if gain > chi2.ppf(0.99, 1):
            notes.append(
                f"a curve whose level is free fits better (likelihood ratio {gain:.1f}, level "
                f"{np.exp(freed[3]):.2g} against {fitted.scale:.2g}); use "
                f"{setting('curve', 'free', of='propensity.audit')}."
            )
    return tuple(notes)


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
    labels = checks.labels(observed, name="observed")
    true = checks.labels(complete, name="complete")
    checks.audited_pair(labels, true)
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
    labels = checks.labels(observed, name="observed")
    judged = _predicted(pool, labels.shape) if isinstance(pool, TopK) else checks.labels(pool)
    checks.same_shape(judged, labels, "the pool", "observed")
    inside = sp.csr_array(labels.multiply(judged))
    whole = judged.nnz == labels.shape[0] * labels.shape[1]
    if not isinstance(pool, TopK) and labels.nnz and inside.nnz == labels.nnz and not whole:
        raise ValueError(
            "the pool holds every observed label, as if those had been added to it; propensities "
            "would come out too high. Give the pool without them, or the predictions (a TopK) "
            "that it was made from."
        )
    true = sp.csr_array(checks.labels(complete, name="complete").multiply(judged))
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
    labels, sample = checks.labels(observed, name="observed"), judgements.sample
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
