"""Propensities from data: an audit, two annotations, known frequencies, or a classifier.

**An audit**: some rows whose labels are known both as observed and completely. In the audited rows
label j truly occurs K_j times and was observed k_j of those times, so k_j is binomial with p_j;
rates of few labels are drawn towards a curve over label frequency (`estimate`).

Each k_j is binomial also where some rows lose more labels than others, but then the labels err
together. If a row's sum varies D times as much as it should (the design effect), all logits get one
common error of variance (D − 1) / Σ_j K_j p_j (1 − p_j), which makes up for it.

An audit must say what was judged, since "relevant" is only known there. The rows may be chosen by
anything except the observed labels: picking rows because a label was seen there would find every
p_j to be 1.

- *complete rows*: every label of a row;
- *a pool*: some pairs of a row, chosen without its observed labels, such as the first K
  predictions. Both counts are restricted to the pool: one to which the observed labels were added
  would find every label outside it kept, and propensities too high;
- *pairs with probabilities* (a two-phase sample): a relevant pair counts 1/π. A label's counts are
  then scaled to as many labels as their variance is worth.

**The level.** Audited rows may by chance be those of little effort, and then all propensities come
out too low together. How many labels *all* rows show on average is known, and a random part of the
rows that shows fewer has lost more. With k_i kept, K_i true and x_i observed labels of m audited
rows out of n, the logarithm of the kept share, log Σk/ΣK, is corrected as by regression:

    θ = log Σk/ΣK + β (x̄_all − x̄),     β = Cov(z, x)/Var(x),   z_i = k_i/k̄ − K_i/K̄
    Var(θ) = (1 − m/n) Var(z − βx)/m

β is multiplied by max(0, 1 − 2/F), F its F statistic, so that few rows whose counts say little are
left as they are. The correction holds for any masks, for rows that were drawn at random (Cochran,
*Sampling techniques*, 1977, chapter 7).

**Groups** of rows (annotators, sources, years) are drawn towards each other:

    logit p_ij = logit p_j + δ_g,    g the group of row i,    δ_g ~ N(0, τ²)

p_j is the estimate of the whole audit. Given τ, every δ_g has its mode by Newton's method, and τ²
is the mean of δ_g² and their variances (EM). Where labels of a row are kept or lost together, they
count for less by the design effect.

**Two annotations** of the same rows, neither of them complete: whoever annotates second sees the
true labels with some unknown probability, but independently of the first; so among the n₂ labels
found second, the m that were also found first are a binomial sample of the first's propensity (and
the other way round):

    m | n₂ ~ Bin(n₂, p₁),    m | n₁ ~ Bin(n₁, p₂),    p(found by either) = 1 − (1 − p₁)(1 − p₂)

Annotators who miss the same (hard) labels make m too large and hence the propensities too high: the
assumption is independence.

**True label frequencies** f_j known from elsewhere (a census, a full annotation): label j occurs in
n_j of n observed rows, n_j ~ Bin(n, p_j f_j), so p_j = (n_j / n) / f_j. The observed share has a
Beta(n_j + ½, n − n_j + ½) posterior; a frequency that was itself counted among `true_n` rows has
one, too. Ratios above 1 are cut at 1.

**A classifier** that was trained on the observed labels. If g_j(x) is the calibrated probability
that label j is *observed* on a row x, then with π_j(x) = P(Y*_j = 1 | x)

    g_j(x) = p_j π_j(x),    E[ g_j(x) | Y_j = 1 ] = p_j E[ π_j(x) | Y*_j = 1 ] ≤ p_j

so the mean of g_j over held-out rows that show label j estimates p_j where the features leave no
doubt about the label (π = 1), and is too low otherwise (Elkan & Noto, *Learning classifiers from
only positive and unlabeled data*, 2008). It is a lower bound with sampling error, no more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypedDict, Unpack, cast, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import expit, logit, ndtri

from unmask._messages import named_options, setting
from unmask._typing import Floats, Ints, LabelsLike, MatrixLike, ScoresLike
from unmask.arrays import checks
from unmask.arrays.checks import entry_rows, values_at
from unmask.data.judgements import Design, Judgements
from unmask.predictions import TopK
from unmask.propensity.estimate import (
    SMALLEST,
    TOGETHER,
    Either,
    Posterior,
    PropensityEstimate,
    Ratio,
    fit_posterior,
    from_counts,
)
from unmask.propensity.mask_model import (
    MOST_SPURIOUS,
    MaskModel,
    estimate_effort,
    fit_slope,
    scores_of,
)

MASKS = ("independent", "effort", "score")


class AuditOptions(TypedDict, total=False):
    """Options of `audit` that do not decide what it returns, for type checkers."""

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
    mask: Literal["effort", "score"],
    scores: TopK | ScoresLike | None = ...,
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
    """Estimate propensities from rows whose observed and complete labels are both known.

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
        rows nobody annotated; it needs whole rows. "score" estimates how much more often labels are
        kept that the model finds obvious. Both: see `MaskModel`.
    scores : TopK, or (m, L) dense or sparse scores, optional
        Of the audited rows; for mask="score".
    groups : m names, optional
        The group of every audited row, such as its annotator, source or year: propensities of
        groups, drawn towards each other.
    pool : TopK, or matrix of shape (m, L), optional
        What was judged, if not everything: predictions, or pairs chosen without looking at the
        observed labels. Observed and complete labels outside it are left out; a matrix to which
        the observed labels were added is refused.
    all_rows : matrix of shape (n, L), optional
        Observed labels of all rows, of which the audited ones are a random part: how many labels
        they show corrects the level of all propensities. Judgements of a simple sample bring them
        along.
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
    _refuse_one_of_both(counts, n)
    if not isinstance(complete, Judgements):
        labels = (
            complete_rows(observed, complete)
            if pool is None
            else pooled_rows(observed, complete, pool)
        )
    elif pool is not None:
        raise ValueError("judgements know what was judged; give no pool with them.")
    else:
        labels = judged_pairs(observed, complete)
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
    level = _level(labels, observed, complete, all_rows, pool)
    if level is not None:
        posterior = _at_level(posterior, *level)
    estimate = posterior.estimate(
        confidence, "audit", _notes(labels, effect), effect, labels.true.shape[0]
    )
    was = was_kept(labels.kept, labels.true)
    if groups is not None:
        return _fit_groups(was, labels.true, groups, estimate)
    if mask == "independent":
        return estimate
    spurious = min(labels.spurious / max(labels.observed, 1), MOST_SPURIOUS)
    if scores is not None:
        slope = fit_slope(was, labels.true, scores_of(scores, labels.true), estimate.value)
        return MaskModel(estimate, spurious=spurious, score_slope=slope)
    if (labels.weights != 1).any():
        raise ValueError(
            "row effort is estimated from rows whose labels were all judged; these judgements are "
            f"of pairs. Judge whole rows ({setting('unit', 'rows', of='audit.plan')}), or use "
            f"{setting('mask', 'independent', of='propensity.audit')}."
        )
    effort = estimate_effort(labels.kept, labels.true, estimate.value)
    return MaskModel(estimate, effort.row_effort, effort.unannotated, spurious, effort)


def _refuse_one_of_both(counts: ArrayLike | None, n: int | None) -> None:
    if (counts is None) != (n is None):
        raise ValueError("give both `counts` and `n` of the training labels, or neither.")


def _notes(labels: JudgedLabels, effect: float) -> tuple[str, ...]:
    notes = []
    if labels.spurious:
        notes.append(
            f"{labels.spurious} of {labels.observed} observed labels are not among the complete "
            "ones; they were left out, since a propensity describes losses only."
        )
    if effect > TOGETHER:
        notes.append(
            f"labels of a row are kept or lost together (design effect {effect:.1f}); intervals "
            "and draws allow for it, but masks are not independent: see `unmask.diagnosis`."
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
        """Return k_j and K_j of every label, fractions where pairs have probabilities."""
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
    """Compare rows of which every label was judged."""
    labels = checks.labels(observed, name="observed")
    true = checks.labels(complete, name="complete")
    checks.audited_pair(labels, true)
    kept = sp.csr_array(labels.multiply(true))
    return JudgedLabels(true, kept, np.ones(true.nnz), labels.nnz - kept.nnz, labels.nnz)


def pooled_rows(
    observed: LabelsLike, complete: LabelsLike, pool: TopK | LabelsLike
) -> JudgedLabels:
    """Compare rows judged on a pool only: both sides are restricted to it."""
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


def _predicted(top: TopK, shape: tuple[int, int]) -> sp.csr_array:
    row, place = np.nonzero(top.labels >= 0)
    if top.labels.shape[0] != shape[0] or top.labels.max(initial=-1) >= shape[1]:
        raise ValueError(
            f"the pool predicts labels of {top.labels.shape[0]} rows; the audit has {shape}."
        )
    entries = (np.ones(row.size), (row, top.labels[row, place]))
    return sp.csr_array(sp.coo_array(entries, shape=shape))


def judged_pairs(observed: LabelsLike, judgements: Judgements) -> JudgedLabels:
    """Read the judgements of an audit; `observed` are the labels of all n rows."""
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


def label_counts(matrix: sp.csr_array) -> Floats:
    """Count how often each label occurs."""
    return np.bincount(matrix.indices, minlength=matrix.shape[1]).astype(np.float64)


def was_kept(kept: sp.csr_array, true_labels: sp.csr_array) -> Floats:
    """Return 1 for every true label entry that is in `kept` (a part of it), else 0, in order."""
    width = true_labels.shape[1]
    true_keys, kept_keys = (entry_rows(m) * width + m.indices for m in (true_labels, kept))
    return np.isin(true_keys, kept_keys, assume_unique=True).astype(np.float64)


def residuals(kept: sp.csr_array, true_labels: sp.csr_array) -> sp.csr_array:
    """Return e_ij = kept_ij − k_j/K_j for every true label entry; both matrices are validated."""
    rate = label_counts(kept) / np.maximum(label_counts(true_labels), 1)
    left = was_kept(kept, true_labels) - rate[true_labels.indices]
    return sp.csr_array((left, true_labels.indices, true_labels.indptr), shape=true_labels.shape)


def design_effect(kept: sp.csr_array, true_labels: sp.csr_array) -> float:
    """Return how much more a sum over a row's labels varies than if kept independently; ≥ 1.

    With e_ij = kept − k_j/K_j:  Σ_i (Σ_j e_ij)² / Σ_ij e_ij², which is 1 on average if the labels
    of a row are kept or lost independently of each other.
    """
    residual = residuals(kept, true_labels)
    single = float((residual.data**2).sum())
    together = float((residual.sum(axis=1) ** 2).sum())
    return max(1.0, together / single) if single > 0 else 1.0


FEWEST = 10
"""Audited rows from which on a regression says something."""
MOST = 0.999
"""A share of kept labels that is not exceeded."""


def _level(
    labels: JudgedLabels,
    observed: LabelsLike,
    complete: LabelsLike | Judgements,
    all_rows: LabelsLike | None,
    pool: TopK | LabelsLike | None,
) -> tuple[float, float] | None:
    """Correct the level by all rows; None if they are not at hand, or say nothing."""
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
        fewer = everywhere.shape[0] < audited.shape[0]
        if fewer or everywhere.shape[1] != audited.shape[1]:
            raise ValueError(
                f"all_rows are the observed labels of all rows, the {audited.shape[0]} audited "
                f"ones included, with {audited.shape[1]} labels; got shape {everywhere.shape}."
            )
        shown = np.diff(audited.indptr)
    kept, true = (np.diff(each.indptr).astype(np.float64) for each in (labels.kept, labels.true))
    n = everywhere.shape[0]
    return level_of(kept, true, shown.astype(np.float64), everywhere.nnz / max(n, 1), n)


def level_of(
    kept: Floats, true: Floats, shown: Floats, mean_shown: float, n: int
) -> tuple[float, float] | None:
    """Return the correction of the logarithm of the kept share, and the variance of what results.

    `kept`, `true` and `shown` are numbers of labels of every audited row, `mean_shown` is that of
    observed labels over all `n` rows. None where there is nothing to learn.

    Examples
    --------
    Of rows with two labels each, half lose both; 40 of 100 audited rows are such:

    >>> kept = np.repeat([2.0, 0.0], [60, 40])
    >>> shift, _ = level_of(kept, np.full(100, 2.0), kept, 1.0, 10**6)
    >>> round(float(np.exp(np.log(0.6) + shift)), 3)
    0.508
    """
    m = kept.size
    if not (m >= FEWEST and n > m and kept.any() and np.ptp(shown)):
        return None
    residual = kept / kept.mean() - true / true.mean()
    along = shown - shown.mean()
    length = float(along @ along)
    slope = float(along @ residual) / length
    noise = float(((residual - residual.mean() - slope * along) ** 2).sum()) / (m - 2)
    gain = slope**2 * length
    slope *= max(0.0, 1.0 - 2.0 * noise / gain) if gain else 0.0
    left = residual - slope * along
    variance = (1 - m / n) * float(((left - left.mean()) ** 2).sum()) / (m - 2) / m
    return slope * (mean_shown - float(shown.mean())), variance


def _at_level(posterior: Posterior, shift: float, variance: float) -> Posterior:
    """Move all logits, and keep the error that is then left in common."""
    values, _, _ = posterior.summary(0.95)
    alone = 1 / max(float((posterior.of * values * (1 - values)).sum()), 1e-12)
    offset, left = odds_shift(shift, variance, posterior.of, np.clip(values, 1e-9, 1 - 1e-9))
    return replace(posterior, offset=offset, common=float(np.sqrt(max(left - alone, 0.0))))


def odds_shift(shift: float, variance: float, of: Floats, p: Floats) -> tuple[float, float]:
    """Turn the shift of a log share into one, δ, of all logits: Σ K_j p_j(δ) = e^shift Σ K_j p_j.

    >>> shift, variance = odds_shift(np.log(1.5), 0.01, np.array([10.0]), np.array([0.5]))
    >>> round(shift, 3), round(variance, 3)
    (1.099, 0.16)
    """
    from scipy.optimize import brentq  # which takes a while to import

    used = of > 0
    weight, odds = of[used] / of[used].sum(), logit(p[used])
    target = min(float(np.exp(shift) * (weight @ p[used])), MOST)
    moved = float(brentq(lambda x: weight @ expit(odds + x) - target, -50, 50, xtol=1e-12))
    after = expit(odds + moved)
    slope = float(weight @ (after * (1 - after)) / (weight @ after))
    return moved, variance / slope**2


ITERATIONS = 200
SMALLEST_SPREAD = 1e-3


@dataclass(frozen=True, eq=False)
class GroupedPropensities:
    """Propensities that differ between groups of rows.

    Parameters
    ----------
    estimate : PropensityEstimate
        p_j of the whole audit.
    names : tuple of str
        The groups.
    shift, error : floats, one per group
        δ_g and its standard error.
    spread : float
        τ.

    Examples
    --------
    >>> from unmask import propensity
    >>> true_labels = np.ones((40, 2), dtype=int)
    >>> observed = np.array([[1, 1], [1, 0]] * 10 + [[1, 0], [0, 0]] * 10)
    >>> groups = ["north"] * 20 + ["south"] * 20
    >>> grouped = propensity.audit(observed, true_labels, groups=groups)
    >>> grouped.names, bool(grouped.shift[0] > grouped.shift[1])
    (('north', 'south'), True)
    """

    estimate: PropensityEstimate
    names: tuple[str, ...]
    shift: Floats
    error: Floats
    spread: float

    def interval(self, name: str, confidence: float = 0.95) -> tuple[float, float]:
        """Return the ends of δ of a group; ValueError for one that was not audited."""
        checks.one_of(name, self.names, "group")
        checks.confidence(confidence)
        place, reach = self.names.index(name), float(ndtri((1 + confidence) / 2))
        middle, error = float(self.shift[place]), float(self.error[place])
        return middle - reach * error, middle + reach * error

    def of_group(self, name: str) -> Floats:
        """Return (L,) propensities of a group; those of the whole audit if it was not audited."""
        shift = self.shift[self.names.index(name)] if name in self.names else 0.0
        return np.asarray(expit(_logits(self.estimate.value) + shift))

    def of_entries(self, labels: LabelsLike, groups: ArrayLike) -> sp.csr_array:
        """Return a propensity for every observed label, for `evaluate` and the weights.

        Parameters
        ----------
        labels : (n, L) matrix of 0 and 1
        groups : n names

        Returns
        -------
        csr_array of shape (n, L)
            With the pattern of the labels.

        Raises
        ------
        ValueError
            If there is not one group per row.
        """
        matrix = checks.labels(labels)
        names, group = _groups(groups, matrix.shape[0])
        by_group = np.array([self.of_group(name) for name in names])
        chance = by_group[group[entry_rows(matrix)], matrix.indices]
        return sp.csr_array((chance, matrix.indices, matrix.indptr), shape=matrix.shape)


def _fit_groups(
    kept: Floats, true_labels: sp.csr_array, groups: ArrayLike, estimate: PropensityEstimate
) -> GroupedPropensities:
    """Fit the groups' shifts; `kept` is `was_kept` of the audited rows."""
    names, group = _groups(groups, true_labels.shape[0])
    of_entry = group[entry_rows(true_labels)]
    base = _logits(estimate.value)[true_labels.indices]
    shift, spread, weight = np.zeros(len(names)), 0.5, np.ones(len(names))
    for _ in range(ITERATIONS):
        chance = expit(base + shift[of_entry])
        slope = np.bincount(of_entry, kept - chance, len(names)) / estimate.effect
        weight = np.bincount(of_entry, chance * (1 - chance), len(names)) / estimate.effect
        weight = weight + 1 / spread**2
        step = np.clip((slope - shift / spread**2) / weight, -1, 1)
        shift, before = shift + step, spread
        spread = max(float(np.sqrt(np.mean(shift**2 + 1 / weight))), SMALLEST_SPREAD)
        if np.abs(step).max() < 1e-9 and abs(spread - before) < 1e-9:
            break
    return GroupedPropensities(estimate, names, shift, 1 / np.sqrt(weight), spread)


def _groups(groups: ArrayLike, rows: int) -> tuple[tuple[str, ...], Ints]:
    array = np.asarray(groups)
    if array.shape != (rows,):
        raise ValueError(f"groups of shape {array.shape} for {rows} rows; give one name per row.")
    names, group = np.unique(array.astype(str), return_inverse=True)
    return tuple(names.tolist()), np.asarray(group, dtype=np.int64)


def _logits(propensity: Floats) -> Floats:
    return np.asarray(logit(np.clip(propensity, 1e-6, 1 - 1e-6)))


DRAWS = 400
"""Draws that tell the propensity of being found by either of two annotations."""


@named_options
def recapture(
    first: LabelsLike,
    second: LabelsLike,
    *more: LabelsLike,
    of: str = "first",
    counts: ArrayLike | None = None,
    n: int | None = None,
    curve: str = "free",
    confidence: float = 0.95,
    seed: int = 0,
) -> PropensityEstimate:
    """Estimate propensities of the `first` annotation, or of labels found by "either" (any).

        m | n₂ ~ Bin(n₂, p₁),    p(found by either) = 1 − (1 − p₁)(1 − p₂)

    Parameters
    ----------
    first, second, *more : matrices of shape (n, L)
        Independent annotations of the same rows, dense or sparse. More than two count as two: the
        first, and what any other found.
    of : {"first", "either"}, default "first"
        Whose propensities.
    counts : array of shape (L,), optional
        Label counts of the training labels, which place labels on the curve (as in `audit`).
    n : int, optional
        Rows of the training labels; goes with `counts`.
    curve : {"jain", "free"}, default "free"
        Whether the level of the curve is estimated, too; annotators need not lose labels as the
        Jain model says.
    confidence : float, default 0.95
        Of the intervals, in [0.5, 0.9999].
    seed : int, default 0
        Decides the draws.

    Returns
    -------
    PropensityEstimate

    Raises
    ------
    ValueError
        If the shapes differ, or an option is unknown or out of its range.

    Examples
    --------
    >>> from unmask import data, propensity
    >>> truth = data.synthetic.independent(2000, 5, seed=0)
    >>> one = data.hide(truth, propensity.constant(5, 0.5), seed=1)
    >>> two = data.hide(truth, propensity.constant(5, 0.3), seed=2)
    >>> float(propensity.recapture(one, two).value.mean().round(1))
    0.5
    >>> float(propensity.recapture(one, two, of="either").value.mean().round(1))
    0.6
    """
    checks.one_of(of, ("first", "either"), "annotation")
    one, *others = _annotations(first, second, *more)
    two = others[0]
    for each in others[1:]:
        two = sp.csr_array(two.maximum(each))
    both = sp.csr_array(one.multiply(two))
    estimate = partial(audit, counts=counts, n=n, curve=curve, confidence=confidence, seed=seed)
    of_first = replace(estimate(both, two), method="recapture")
    if of == "first":
        return of_first
    of_second = estimate(both, one)
    either = Either(*(cast(Posterior, each.uncertainty) for each in (of_first, of_second)))
    drawn = either.sample(np.random.default_rng(seed), DRAWS)
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return PropensityEstimate(
        drawn.mean(axis=0), low, high, confidence, "recapture", of_first.evidence, either,
        notes=tuple(dict.fromkeys((*of_first.notes, *of_second.notes))),
        effect=max(of_first.effect, of_second.effect), rows=of_first.rows,
    )  # fmt: skip


@named_options
def snapshots(
    earlier: LabelsLike,
    later: LabelsLike,
    *,
    counts: ArrayLike | None = None,
    n: int | None = None,
    curve: str = "jain",
    confidence: float = 0.95,
    seed: int = 0,
) -> PropensityEstimate:
    """Bound the propensities of the earlier labels from above, by the same rows labelled later.

        P(E | Y* = 1) = P(E | L) P(L | Y* = 1) ≤ P(E | L)    if what was there earlier stays

    Of the labels that the later snapshot has, the share that the earlier one had already is at
    least the propensity: what both lack is counted nowhere. So corrections with it are too small
    rather than too large, as long as labels are added for no other reason than being missing.

    Parameters
    ----------
    earlier, later : matrices of shape (n, L)
        The same rows at two dates, dense or sparse. Labels that were withdrawn are left out.
    counts, n, curve, confidence, seed
        As in `audit`.

    Returns
    -------
    PropensityEstimate
        Its intervals are those of P(E | L); the lower ends bound nothing.

    Raises
    ------
    ValueError
        If the shapes differ, or an option is out of its range.

    Examples
    --------
    >>> from unmask import data, propensity
    >>> truth = data.synthetic.independent(2000, 5, seed=0)
    >>> later = data.hide(truth, propensity.constant(5, 0.8), seed=1)
    >>> earlier = data.hide(later, propensity.constant(5, 0.5), seed=2)
    >>> float(propensity.snapshots(earlier, later, curve="free").value.mean().round(1))  # true: 0.4
    0.5
    """
    early, late = _annotations(earlier, later)
    both = sp.csr_array(early.multiply(late))
    estimate = audit(both, late, counts=counts, n=n, curve=curve, confidence=confidence, seed=seed)
    note = "an upper bound: labels that both snapshots lack are counted nowhere."
    return replace(estimate, method="snapshots", notes=(note, *estimate.notes))


def chao(*lists: LabelsLike) -> tuple[Floats, Floats]:
    """Bound from below how often each label truly occurs (Chao), with the variance of the bound.

        N̂ = S + a f₁² / (2 f₂),    a = (t − 1) / t

    with S rows in which any of t annotations has the label, f₁ in which exactly one and f₂ in
    which exactly two have it. Annotators who all miss the same (hard) labels make it smaller than
    the truth, never larger on average: hence a lower bound, and S / N̂ an upper bound of the
    propensity of "any".

    Parameters
    ----------
    *lists : matrices of shape (n, L)
        At least two annotations of the same rows, dense or sparse.

    Returns
    -------
    size, variance : arrays of shape (L,)
        Where no row has a label twice, f₁ (f₁ − 1) / 2 stands for f₁² / (2 f₂).

    Raises
    ------
    ValueError
        If there are fewer than two lists, or shapes differ.

    References
    ----------
    Chao, *Estimating the population size for capture-recapture data with unequal catchability*,
    Biometrics 43 (1987).

    Examples
    --------
    >>> size, variance = chao([[1], [1], [0], [1]], [[1], [0], [1], [1]], [[0], [0], [1], [1]])
    >>> size.round(3)  # S = 4, once: 1, twice: 2
    array([4.167])
    """
    if len(lists) < 2:
        raise ValueError(f"give at least two annotations of the same rows; got {len(lists)}.")
    checked = _annotations(*lists)
    times = sp.csr_array(sum(checked[1:], checked[0]))
    once, twice, any_of = (
        np.bincount(times.indices[chosen], minlength=times.shape[1]).astype(np.float64)
        for chosen in (times.data == 1, times.data == 2, times.data > 0)
    )
    a = (len(lists) - 1) / len(lists)
    ratio = once / np.maximum(twice, 1)
    some = a * once * ratio / 2
    none = a * once * (once - 1) / 2
    size = any_of + np.where(twice > 0, some, none)
    spread = twice * (a * ratio**2 / 2 + a**2 * ratio**3 + a**2 * ratio**4 / 4)
    alone = (
        none + a**2 * once * (2 * once - 1) ** 2 / 4 - a**2 * once**4 / (4 * np.maximum(size, 1))
    )
    return size, np.where(twice > 0, spread, np.maximum(alone, 0.0))


def _annotations(first: LabelsLike, *others: LabelsLike) -> list[sp.csr_array]:
    """Check annotations of the same rows."""
    checked = [checks.labels(first, name="first")]
    for each in others:
        checked.append(checks.labels(each, name="second"))
        checks.same_shape(checked[0], checked[-1], "first", "second")
    return checked


LOWEST = 1e-100
"""A frequency below which a label does not exist."""


@named_options
def from_marginals(
    observed: LabelsLike,
    true_frequency: ArrayLike,
    *,
    true_n: int | None = None,
    confidence: float = 0.95,
) -> PropensityEstimate:
    """Estimate propensities as observed over true frequency of every label.

        p_j = (n_j / n) / f_j,    cut at 1

    Parameters
    ----------
    observed : matrix of shape (n, L)
        Observed labels, dense or sparse.
    true_frequency : array of shape (L,)
        f_j, the share of rows that truly have label j, in (0, 1].
    true_n : int, optional
        Rows among which the true frequencies were counted; by default they are exact.
    confidence : float, default 0.95
        Of the intervals, in [0.5, 0.9999].

    Returns
    -------
    PropensityEstimate

    Raises
    ------
    ValueError
        If a frequency lies outside (0, 1], there are no rows, or a number is out of its range.

    Examples
    --------
    >>> p = from_marginals([[1, 0]] * 300 + [[0, 1]] * 700, [0.5, 0.9])
    >>> p.value.round(3), p.low.round(2), p.high.round(2)
    (array([0.6  , 0.778]), array([0.54, 0.75]), array([0.66, 0.81]))
    """
    matrix = checks.labels(observed, name="observed")
    n = matrix.shape[0]
    share = checks.per_label(true_frequency, matrix.shape[1], "true label frequencies")
    bad = np.flatnonzero((share < LOWEST) | (share > 1))
    if bad.size:
        label = int(bad[0])
        raise ValueError(
            f"true label frequencies must lie in (0, 1], and not below {LOWEST:g}; got "
            f"{share[label]:g} at label {label}. Leave out labels that do not exist."
        )
    if not n:
        raise ValueError("there are no observed rows; give at least one.")
    counted = None if true_n is None else checks.positive_int(true_n, "true_n")
    counts = label_counts(matrix)
    ratio = Ratio(counts, n, share, counted)
    low, high = ratio.interval(confidence)
    value = np.clip((counts + 0.5) / (n + 1) / share, SMALLEST, 1.0)
    above = int((counts > n * share).sum())
    note = (
        f"{above} of {share.size} labels are observed more often than they are said to "
        "occur; their propensity was set to 1. Do both frequencies refer to the same population?"
    )
    notes = (note,) if above else ()
    return PropensityEstimate(
        value, low, high, confidence, "marginals", n * share, ratio, notes=notes, rows=n
    )


BIAS = (
    "Elkan and Noto's estimate is too low by the factor E[P(label | features) | label], which is 1 "
    "only if features determine labels; the intervals cover sampling error and not that bias.",
    "The probabilities must be calibrated and come from rows the model was not trained on.",
)


@named_options
def from_model(
    probabilities: MatrixLike,
    observed: LabelsLike,
    *,
    counts: ArrayLike | None = None,
    n: int | None = None,
    curve: str = "free",
    confidence: float = 0.95,
    seed: int = 0,
) -> PropensityEstimate:
    """Estimate propensities from held-out calibrated probabilities of being observed.

        p_j ≈ mean of g_j(x) over the held-out rows x that show label j

    Each such row counts like one true label that was kept or lost (a probability varies less than a
    coin toss, so this is cautious), pooled along label frequency as in `audit`.

    Parameters
    ----------
    probabilities : matrix of shape (n, L)
        Calibrated, from rows that the model was not trained on; dense, or sparse (not stored: 0).
    observed : matrix of shape (n, L)
        Observed labels of the same rows.
    counts : array of shape (L,), optional
        Label counts of the training labels, which place labels on the curve; by default those of
        `observed`.
    n : int, optional
        Rows of the training labels; goes with `counts`.
    curve : {"free", "jain"}, default "free"
        Whether the level of the curve is estimated, too.
    confidence : float, default 0.95
        Of the intervals, in [0.5, 0.9999].
    seed : int, default 0
        Decides the draws of the curve's parameters.

    Returns
    -------
    PropensityEstimate

    Raises
    ------
    ValueError
        If shapes differ, a probability lies outside [0, 1], or only one of `counts` and `n` is
        given.

    References
    ----------
    Elkan & Noto, *Learning classifiers from only positive and unlabeled data*, KDD 2008.

    Examples
    --------
    >>> p = from_model([[0.4, 0.1], [0.5, 0.2], [0.1, 0.3]] * 50, [[1, 0], [1, 0], [0, 1]] * 50)
    >>> p.value.round(1)
    array([0.4, 0.3])
    """
    labels = checks.labels(observed, name="observed")
    _refuse_one_of_both(counts, n)
    chances = (
        checks.matrix(probabilities, name="probabilities", column="label")
        if sp.issparse(probabilities)
        else checks.numbers(probabilities, "probabilities")
    )
    checks.same_shape(chances, labels, "probabilities", "observed")
    at_positives = sp.csr_array(labels.multiply(chances), dtype=np.float64)
    values = checks.finite(at_positives.data, "probabilities")
    if values.size and not (values.min() >= 0 and values.max() <= 1):
        raise ValueError(
            f"probabilities must lie in [0, 1]; got {values.min():g} to {values.max():g}. "
            "Calibrate the scores first."
        )
    frequency = label_counts(labels)
    return from_counts(
        np.minimum(np.asarray(at_positives.sum(axis=0), dtype=np.float64), frequency),
        frequency,
        counts=frequency + 0.5 if counts is None else counts,
        n=labels.shape[0] + 1 if n is None else n,
        sampled=counts is None,
        curve=curve,
        confidence=confidence,
        seed=seed,
        method="model",
        notes=BIAS,
    )
