"""With an audit: how labels came to be recorded, beyond what keeping a true label depends on.

unannotated  does π₀ > 0 make what was kept likelier than row effort alone? Likelihood ratio of the
             model in `propensity.effort_estimate`, ρ fitted on both sides; half of a chi-square
spurious     are more than 1 % of the observed labels not true? Binomial test
closure      where label j implies label k (no audited row has j without k), is k kept more often
             with a kept j than row effort makes it? Fisher's exact test of every such pair,
             Bonferroni; a file whose records are completed along a hierarchy never shows j
             without k. Rows of little effort lose both: where the labels that imply others show
             such an effort, the odds ratio of the test is the largest that it explains, not 1
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import binom, chi2, hypergeom

from unmask._sparse import values_at
from unmask._typing import Floats
from unmask.diagnosis.findings import Test
from unmask.diagnosis.kinds import TestKind
from unmask.propensity.audit import label_counts
from unmask.propensity.mask_model import (
    SMALLEST,
    RowEffort,
    estimate_effort,
    log_likelihoods,
    normal,
)

FEWEST = 5
"""Rows with both labels that a pair needs."""
FEWEST_ROWS = 20
"""Audited rows with true labels below which unannotated rows are not tested."""
PULLS = (0.5, 4.0)
"""Rows' worth of the overall rate by which that of a label is drawn to it: least and most."""
TOLERATED = 0.01
"""The share of wrong labels that corrections bear."""


def recording(observed: sp.csr_array, complete: sp.csr_array) -> Iterator[Test]:
    """All three tests that these rows allow; both matrices are validated."""
    kept = sp.csr_array(observed.multiply(complete))
    if (np.diff(complete.indptr) > 0).sum() >= FEWEST_ROWS and 0 < kept.nnz < complete.nnz:
        yield unannotated(kept, complete)
    if observed.nnz:
        yield spurious(observed.nnz - kept.nnz, observed.nnz)
    yield from closure(kept, complete)


def unannotated(kept: sp.csr_array, complete: sp.csr_array) -> Test:
    """Did nobody look at some of the rows?"""
    grid = log_likelihoods(kept, complete, pooled_rates(kept, complete))
    by_share = grid.log_likelihood.max(axis=0)
    ratio = 2 * float(by_share.max() - by_share[0])
    silent = (np.diff(kept.indptr) == 0) & (np.diff(complete.indptr) > 0)
    return Test(
        TestKind.UNANNOTATED,
        float(chi2.sf(ratio, 1)) / 2 if ratio > 0 else 1.0,
        {
            "share": float(grid.shares[np.argmax(by_share)]),
            "silent": int(silent.sum()),
            "rows": int((np.diff(complete.indptr) > 0).sum()),
        },
    )


def pooled_rates(kept: sp.csr_array, complete: sp.csr_array) -> Floats:
    """k_j / K_j, drawn towards the rate of all labels, the less the more labels differ.

    With mean m and variance v of the rates over labels, by pairs of rows that share a label, a beta
    distribution has the weight m (1 − m) / v − 1 of that many rows. Labels of p = 0.1 drawn to a
    mean of 0.5 would make rows look unannotated that merely have such labels.
    """
    k, size = label_counts(kept), label_counts(complete)
    overall = k.sum() / size.sum()
    pairs = float((size * (size - 1)).sum())
    pull = PULLS[1]
    if pairs:
        mean, square = float(((size - 1) * k).sum()) / pairs, float((k * (k - 1)).sum()) / pairs
        if square > mean * mean:
            pull = float(np.clip((mean - square) / (square - mean * mean), *PULLS))
    return np.asarray((k + pull * overall) / (size + pull))


def spurious(wrong: int, observed: int) -> Test:
    """Are more of the observed labels wrong than corrections bear?"""
    return Test(
        TestKind.SPURIOUS,
        float(binom.sf(wrong - 1, observed, TOLERATED)),
        {
            "spurious": wrong,
            "observed": observed,
            "share": wrong / observed,
            "tolerated": TOLERATED,
        },
    )


def closure(kept: sp.csr_array, complete: sp.csr_array) -> Iterator[Test]:
    """Is a label that another one implies recorded with it, more than row effort explains?"""
    size = label_counts(complete)
    together = sp.csr_array(complete.T @ complete).tocoo()
    child, parent, both = together.row, together.col, np.rint(together.data)
    implied = (child != parent) & (both == size[child]) & (both >= FEWEST)
    child, parent, both = child[implied], parent[implied], both[implied]
    # within the rows that have both: child kept, parent kept, both kept
    child_kept = label_counts(kept)[child]
    parent_kept = np.rint(values_at(sp.csr_array(complete.T @ kept), child, parent))
    both_kept = np.rint(values_at(sp.csr_array(kept.T @ kept), child, parent))
    varies = (child_kept > 0) & (parent_kept < both)
    if not varies.any():
        return
    effort = _effort_of_others(kept, complete, np.unique(parent))
    rates = pooled_rates(kept, complete)
    ratio = odds_ratio(effort, rates[child], rates[parent])
    chance = at_least(*(each[varies] for each in (both_kept, both, parent_kept, child_kept, ratio)))
    worst = int(np.flatnonzero(varies)[np.argmin(chance)])
    yield Test(
        TestKind.CLOSURE,
        float(min(1.0, chance.min() * chance.size)),
        {
            "pairs": int(varies.sum()),
            "closed": int((varies & (both_kept == child_kept)).sum()),
            "label": int(child[worst]),
            "other_label": int(parent[worst]),
            "row_effort": effort.correlation,
            "kept_with": float(both_kept[worst] / child_kept[worst]),
            "kept_without": float(
                (parent_kept[worst] - both_kept[worst]) / max(both[worst] - child_kept[worst], 1.0)
            ),
        },
    )


def _effort_of_others(
    kept: sp.csr_array, complete: sp.csr_array, implied: NDArray[np.int64]
) -> RowEffort:
    """The largest row effort that labels allow which no label implies; none if they show none.

    A closed hierarchy makes implied labels depend on others, but not those others on each other.
    """
    others = np.setdiff1d(np.arange(complete.shape[1]), implied)
    own, true = (sp.csr_array(each[:, others]) for each in (kept, complete))
    if not true.nnz or own.nnz in (0, true.nnz):
        return normal(0.0)
    posterior = estimate_effort(own, true, pooled_rates(own, true))
    (_, effort), (_, share) = posterior.interval()
    return normal(effort * (posterior.row_effort > 0), share * (posterior.unannotated > 0))


def odds_ratio(effort: RowEffort, p: Floats, q: Floats) -> Floats:
    """P(both kept) P(none) / (P(first alone) P(second alone)) of labels with propensities p and q.

    Parameters
    ----------
    effort : RowEffort
    p, q : (c,) floats in (0, 1)

    Returns
    -------
    (c,) floats

    Examples
    --------
    A fifth of the rows never annotated; in the others both labels are kept half of the time.

    >>> odds_ratio(normal(0.0, 0.2), np.array([0.4]), np.array([0.4])).round(6)
    array([2.])
    """
    weights = np.array(effort.weights) * (1 - effort.unannotated)
    both = weights @ (effort.propensities(p) * effort.propensities(q))
    first, second = weights @ effort.propensities(p), weights @ effort.propensities(q)
    alone = np.maximum((first - both) * (second - both), SMALLEST)
    return np.asarray(both * (1 - first - second + both) / alone)


def at_least(both: Floats, rows: Floats, first: Floats, second: Floats, ratio: Floats) -> Floats:
    """P(at least so many rows with both), given those with each, for these odds ratios.

    Fisher's non-central hypergeometric distribution; with the ratio 1 the hypergeometric one.

    Parameters
    ----------
    both, rows, first, second : (c,) floats
        Rows with both, all rows, rows with the first and with the second label.
    ratio : (c,) floats above 0

    Returns
    -------
    (c,) floats

    Examples
    --------
    >>> one, four = np.array([1.0]), np.array([4.0])
    >>> at_least(2 * one, four, 2 * one, 2 * one, 3 * one)  # weights 1, 4·3, 1·9
    array([0.40909091])
    """
    if (ratio == 1).all():
        return np.asarray(hypergeom.sf(both - 1, rows, first, second))
    chances = np.empty(both.size)
    for i in range(both.size):
        x = np.arange(max(0.0, first[i] + second[i] - rows[i]), min(first[i], second[i]) + 1)
        log = hypergeom.logpmf(x, rows[i], first[i], second[i]) + x * np.log(ratio[i])
        weights = np.exp(log - log.max())
        chances[i] = weights[x >= both[i]].sum() / weights.sum()
    return chances
