"""Control variates of pairs: what is known of all pairs makes judged ones worth more.

For pairs in strata with answers y, of which some are judged, and any x known of all of them,

    Σ y  =  β Σ over all x  +  Σ over strata of N_h · mean over the judged (y − β x)

on average, whatever β is, as long as β does not depend on the pairs to which it is applied: a judge
who is wrong cannot bias the total, only fail to narrow it. β is a ridge regression within strata,
with the weights that the strata have in the variance, cross-fitted: the judged pairs are cut into
folds, and those of a fold meet the β of the others, T. Drawing is without replacement, so that
exactly unbiased is, as for rows (`control`),

    mean over folds of  β Σ_all x + Σ_T (y − β x) + Σ_h (N_h − |T_h|) mean over the fold (y − β x)

where folds count by their sizes. x may say more among the predictions than elsewhere, so that every
covariate has a slope of its own for pairs among the first k, for those further down a list, and for
the others.

Variances are those of the plain totals, scaled by what is left of their spread in all strata of one
kind; one more relevant pair that x does not foresee is added to both, so that few relevant pairs
narrow little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from unmask._typing import Floats, Ints
from unmask.arrays import TopK, listed_keys
from unmask.data.judgements import Judgements
from unmask.metrics.measured.control import FOLDS, RIDGE, folds_of
from unmask.metrics.measured.covariates import CovariatesLike, PairColumns, pair_columns
from unmask.metrics.measured.pair_totals import Fraction, Kinds, Totals

UNFORESEEN = 1.0
"""Relevant pairs that covariates are supposed not to have foreseen, beside the judged ones."""


@dataclass(frozen=True, eq=False)
class PairCovariates:
    """Covariates of the judged pairs, and their sums over all pairs that could be judged.

    Parameters
    ----------
    values : floats of shape (m, q)
        Of the judged pairs.
    above, below : floats of shape (q,)
        Σ a x and Σ b x over all pairs that are not taken as true without judging.
    """

    values: Floats
    above: Floats
    below: Floats


@dataclass(frozen=True, eq=False)
class Term:
    """A system, with what its places are worth.

    Parameters
    ----------
    top : TopK
    worth : floats of shape (k,)
        a of a pair at each of the first k places; negative for a system that is subtracted.
    """

    top: TopK
    worth: Floats


def pair_covariates(
    covariates: CovariatesLike,
    judged: Judgements,
    labels: sp.csr_array,
    terms: Sequence[Term],
    *,
    counts_everywhere: bool,
) -> PairCovariates:
    """What is known of pairs, as the estimate of a metric needs it.

    Parameters
    ----------
    covariates : CovariatesLike
        Numbers of all rows, or of all pairs.
    judged : Judgements
        Of pairs over all rows.
    labels : csr_array of shape (n, L), validated
        The observed labels.
    terms : sequence of Term
        The systems that are measured.
    counts_everywhere : bool
        Whether b = 1 for all pairs (micro-recall), or 0 for all.

    Returns
    -------
    PairCovariates
    """
    sample = judged.sample
    columns = pair_columns(covariates, labels.shape)
    width = labels.shape[1]
    k = max(term.worth.size for term in terms)
    listed, group = _groups([term.top for term in terms], k, width)
    keys = sample.rows * width + sample.pair_labels
    place = np.minimum(np.searchsorted(listed, keys), max(listed.size - 1, 0))
    is_listed = listed[place] == keys if listed.size else np.zeros(keys.size, dtype=bool)
    of_judged = np.where(is_listed, group[place] if listed.size else 0, 2)
    free = _free_keys(labels, sample.observed_free)
    above = sum(_top_sums(term, columns, free, width) for term in terms)
    below = np.zeros(3 * columns.count)
    if counts_everywhere:
        below = _all_sums(columns, listed, group, free, labels.shape)
    spread = _by_group(columns.at(sample.rows, sample.pair_labels), of_judged)
    return PairCovariates(spread, np.asarray(above), below)


def _groups(tops: Sequence[TopK], k: int, width: int) -> tuple[Ints, Ints]:
    """Keys of all listed pairs, rising, and 0 if any system has it among its first k, else 1."""
    firsts = np.unique(np.concatenate([listed_keys(top, k, width) for top in tops]))
    listed = np.unique(np.concatenate([listed_keys(top, top.k, width) for top in tops]))
    return listed, (~np.isin(listed, firsts, assume_unique=True)).astype(np.int64)


def _by_group(values: Floats, group: Ints) -> Floats:
    """(m, q) values as (m, 3 q): in the columns of their group, 0 in the others."""
    made = np.zeros((group.size, 3, values.shape[1]))
    made[np.arange(group.size), group] = values
    return made.reshape(group.size, -1)


def _free_keys(labels: sp.csr_array, observed_free: bool) -> Ints:
    """Keys of the pairs that are taken as true without judging."""
    if not observed_free:
        return np.zeros(0, dtype=np.int64)
    shown = labels.tocoo()
    return np.sort(shown.row.astype(np.int64) * labels.shape[1] + shown.col)


def _top_sums(term: Term, columns: PairColumns, free: Ints, width: int) -> Floats:
    """Σ a x over the first places of a system, which are all in the first group."""
    row, place = np.nonzero(term.top.labels[:, : term.worth.size] >= 0)
    label = term.top.labels[row, place].astype(np.int64)
    unobserved = ~np.isin(row * width + label, free)
    row, label, place = row[unobserved], label[unobserved], place[unobserved]
    return np.concatenate([term.worth[place] @ columns.at(row, label), np.zeros(2 * columns.count)])


def _all_sums(
    columns: PairColumns, listed: Ints, group: Ints, free: Ints, shape: tuple[int, int]
) -> Floats:
    """Σ x over all pairs that are not free, by group."""
    unobserved = ~np.isin(listed, free)
    keys, of_key = listed[unobserved], group[unobserved]
    values = columns.at(*np.divmod(keys, shape[1]))
    sums = np.stack([values[of_key == each].sum(axis=0) for each in (0, 1)])
    everything = columns.sums - columns.at(*np.divmod(free, shape[1])).sum(axis=0)
    return np.concatenate([*sums, everything - sums.sum(axis=0)])


def controlled(
    plain: Fraction, judged: Judgements, kinds: Kinds, covariates: PairCovariates
) -> Fraction:
    """The fraction with what covariates foresee taken out of its totals, and added as known.

    Parameters
    ----------
    plain : Fraction
        From the judged pairs alone.
    judged : Judgements
    kinds : Kinds
        Of the judged pairs.
    covariates : PairCovariates

    Returns
    -------
    Fraction
        The plain one where a stratum has fewer than two judged pairs, or none of them counts.
    """
    sample = judged.sample
    drawn = np.bincount(sample.stratum, minlength=len(sample.strata))
    folds = min(FOLDS, int(drawn[drawn > 0].min()))
    if folds < 2 or not kinds.stratum.size:
        return plain
    sizes = np.array([each.size for each in sample.strata], dtype=np.float64)
    fold = folds_of(sample.stratum, folds, seed=0)
    weights = kinds.above - float(plain.value) * kinds.below
    worth = np.where(kinds.place >= 0, (weights * kinds.largest)[kinds.place], 0.0) * kinds.size
    residuals, total = np.empty(fold.size), np.zeros(kinds.stratum.size)
    slopes = np.zeros(covariates.values.shape[1])
    for each in range(folds):
        out = fold == each
        slope = _slope(judged, covariates.values, worth, ~out, drawn, sizes)
        left = (judged.answers - covariates.values @ slope) * kinds.size
        residuals[out] = left[out]
        inside = np.bincount(sample.stratum[~out], minlength=drawn.size)
        mean = kinds.summed(left * out) / (drawn - inside)[kinds.stratum]
        share = out.sum() / out.size
        total += share * (kinds.summed(left * ~out) + (sizes - inside)[kinds.stratum] * mean)
        slopes += share * slope
    return Fraction(
        _narrowed(plain.totals, kinds, judged, residuals, kinds.largest * total),
        plain.above + float(covariates.above @ slopes),
        plain.below + float(covariates.below @ slopes),
        plain.limits,
    )


def _slope(
    judged: Judgements, x: Floats, worth: Floats, used: Floats, drawn: Ints, sizes: Floats
) -> Floats:
    """The ridge regression of y on x within strata, by the weights of the variance."""
    stratum = judged.sample.stratum[used]
    count = np.maximum(np.bincount(stratum, minlength=drawn.size), 1)
    both = np.column_stack([judged.answers, x])[used] * worth[used, None]
    means = np.stack([np.bincount(stratum, column, minlength=drawn.size) for column in both.T])
    centred = both - (means / count).T[stratum]
    share = sizes / np.maximum(drawn, 1)
    weight = (share**2 * (1 - 1 / np.maximum(share, 1)))[stratum]
    products = (centred * weight[:, None]).T @ centred
    gram, right = products[1:, 1:], products[1:, 0]
    shrunk = np.diag(gram) * RIDGE / max(float(judged.answers[used].sum()), 1.0)
    empty = np.diag(gram) <= 0
    return np.asarray(np.linalg.solve(gram + np.diag(shrunk + empty), right))


def _narrowed(
    plain: Totals, kinds: Kinds, judged: Judgements, residuals: Floats, total: Floats
) -> Totals:
    """Residual totals by kind, with the plain doubt scaled by the spread that is left."""
    sample = judged.sample
    drawn = np.bincount(sample.stratum, minlength=len(sample.strata))[kinds.stratum]
    sizes = np.array([each.size for each in sample.strata], dtype=np.float64)[kinds.stratum]
    weight = (sizes / drawn * kinds.largest) ** 2 * (1 - drawn / sizes)

    def squares(values: Floats) -> Floats:
        return kinds.summed(values**2) - kinds.summed(values) ** 2 / drawn

    y, left = squares(judged.answers * kinds.size), squares(residuals)
    scale = np.ones(total.size)
    for signs in {*zip(kinds.above.tolist(), kinds.below.tolist(), strict=True)}:
        mine = (kinds.above == signs[0]) & (kinds.below == signs[1])
        before, after = float(weight[mine] @ y[mine]), float(weight[mine] @ left[mine])
        if before > 0:
            unforeseen = UNFORESEEN * before / float(y[mine].sum())
            scale[mine] = math.sqrt((max(after, 0.0) + unforeseen) / (before + unforeseen))
    return replace(
        plain, total=total, variance=plain.variance * scale**2, growth=plain.growth * scale
    )
