"""With an audit: how labels came to be recorded, beyond what keeping a true label depends on.

unannotated  does π₀ > 0 make what was kept likelier than row effort alone? Likelihood ratio of the
             model in `propensity.effort_estimate`, ρ fitted on both sides; half of a chi-square
spurious     are more than 1 % of the observed labels not true? Binomial test
closure      where label j implies label k (no audited row has j without k), is k kept more often
             with a kept j? Fisher's exact test of every such pair, Bonferroni; a file whose
             records are completed along a hierarchy never shows j without k
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from scipy.stats import binom, chi2, hypergeom

from unmask._typing import Floats
from unmask.diagnosis.findings import Test
from unmask.diagnosis.kinds import TestKind
from unmask.propensity.audit import label_counts
from unmask.propensity.effort_estimate import log_likelihoods

FEWEST = 5
"""Rows with both labels that a pair needs."""
FEWEST_ROWS = 20
"""Audited rows with true labels below which unannotated rows are not tested."""
PULL = 4.0
"""Labels' worth of the overall rate that the rate of a single label is drawn towards it."""
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
    """k_j / K_j, drawn towards the rate of all labels."""
    k, size = label_counts(kept), label_counts(complete)
    overall = k.sum() / size.sum()
    return np.asarray((k + PULL * overall) / (size + PULL))


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
    """Is a label that another one implies recorded with it?"""
    size = label_counts(complete)
    together = sp.csr_array(complete.T @ complete).tocoo()
    child, parent, both = together.row, together.col, np.rint(together.data)
    implied = (child != parent) & (both == size[child]) & (both >= FEWEST)
    child, parent, both = child[implied], parent[implied], both[implied]
    # within the rows that have both: child kept, parent kept, both kept
    child_kept = label_counts(kept)[child]
    parent_kept = np.rint(np.asarray(sp.csr_array(complete.T @ kept)[child, parent]).ravel())
    both_kept = np.rint(np.asarray(sp.csr_array(kept.T @ kept)[child, parent]).ravel())
    varies = (child_kept > 0) & (parent_kept < both)
    if not varies.any():
        return
    chance = hypergeom.sf(both_kept - 1, both, parent_kept, child_kept)
    chance = np.where(varies, chance, 1.0)
    worst = int(np.argmin(chance))
    yield Test(
        TestKind.CLOSURE,
        float(min(1.0, chance[worst] * varies.sum())),
        {
            "pairs": int(varies.sum()),
            "closed": int((varies & (both_kept == child_kept)).sum()),
            "label": int(child[worst]),
            "other_label": int(parent[worst]),
            "kept_with": float(both_kept[worst] / child_kept[worst]),
            "kept_without": float(
                (parent_kept[worst] - both_kept[worst]) / max(both[worst] - child_kept[worst], 1.0)
            ),
        },
    )
