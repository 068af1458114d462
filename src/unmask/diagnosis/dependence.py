"""With an audit: do the propensities agree with it, and what does keeping a label depend on?

The audit tells for every true label of every audited row whether it was kept, M_ij. If keeping is
independent with one propensity per label, then within each label every arrangement of its kept and
lost entries over its rows is equally likely. The tests condition on k_j of K_j and so need no
propensity; e_ij = M_ij − k_j/K_j.

number of labels  T = Σ e_ij (ln N*_i − mean over the rows of j), by its exact variance; effect:
                  the odds of being kept, per doubling of the number of labels
row               U = Σ_i Σ_{j<k} e_ij e_ik: are a row's labels kept or lost together? By
                  permutation; effect: the mean correlation between two labels of a row
other labels      is j kept more or less often where k is present? Fisher's exact test for every
                  pair with enough rows, Bonferroni; effect: the two rates of the strongest pair

Against the stated propensities: is k_j binomial (K_j, p_j), on the whole, from head to tail, and
for each label?
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logit
from scipy.stats import binom, hypergeom, norm

from unmask.diagnosis.findings import Test, replicates
from unmask.propensity.audit import label_counts, residuals

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]

PERMUTATIONS = 999
FEWEST = 5
"""Rows with and without the other label that a pair needs."""
DEPENDENT = (
    "No propensity per label can describe these losses: corrected numbers keep a bias that more "
    "data do not remove. "
)


def agreement(observed: sp.csr_array, complete: sp.csr_array, p: Floats) -> Iterator[Test]:
    """Do the stated propensities agree with the audit?"""
    k, total = label_counts(sp.csr_array(observed.multiply(complete))), label_counts(complete)
    used = (total > 0) & (p < 1)
    k, total, p = k[used], total[used], p[used]
    if not used.any():
        return
    excess, variance = k - total * p, total * p * (1 - p)
    advice = "Use propensities estimated from this audit (`propensity.audit`)."
    yield Test(
        "level of the propensities agrees with the audit",
        float(2 * norm.sf(abs(excess.sum()) / np.sqrt(variance.sum()))),
        f"{k.sum() / total.sum():.1%} of the audited labels were kept; these propensities say "
        f"{(total * p).sum() / total.sum():.1%}",
        advice,
        _severity(abs(excess.sum()) > 0.05 * (total * p).sum()),
        title="The audit contradicts the level of the propensities",
    )
    lean = logit(p) - (variance * logit(p)).sum() / variance.sum()
    information = float((variance * lean**2).sum())
    if information > 1e-9:
        yield Test(
            "shape of the propensities agrees with the audit",
            float(2 * norm.sf(abs((excess * lean).sum()) / np.sqrt(information))),
            f"from rare to frequent labels the logit of the propensity should rise "
            f"{1 + (excess * lean).sum() / information:.2f} times as fast as stated",
            advice,
            title="The audit contradicts the shape of the propensities",
        )
    each = np.minimum(1.0, 2 * np.minimum(binom.cdf(k, total, p), binom.sf(k - 1, total, p)))
    worst = int(np.argmin(each))
    yield Test(
        "each propensity agrees with the audit",
        float(min(1.0, each[worst] * each.size)),
        f"label {np.flatnonzero(used)[worst]} was kept {k[worst]:.0f} of {total[worst]:.0f} times; "
        f"its propensity is {p[worst]:.3g}",
        advice,
        title="The audit contradicts the propensity of single labels",
    )


def dependence(
    observed: sp.csr_array, complete: sp.csr_array, rng: np.random.Generator
) -> Iterator[Test]:
    """What keeping a label depends on; both matrices passed the door."""
    kept = sp.csr_array(observed.multiply(complete))
    left = residuals(kept, complete)
    if not left.data.any():
        return  # every label is always kept or always lost: nothing to compare
    yield on_number_of_labels(left)
    yield on_row(left, rng)
    yield on_other_labels(kept, complete)


def on_number_of_labels(left: sp.csr_array) -> Test:
    """Score test of ln N* in a logistic model with one intercept per label."""
    labels = left.indices
    log_size = np.log(np.repeat(np.diff(left.indptr), np.diff(left.indptr)))
    size = label_counts(left)
    centre = np.bincount(labels, log_size, left.shape[1]) / np.maximum(size, 1)
    lean = log_size - centre[labels]
    squares, leans = _by_label(left, left.data**2), _by_label(left, lean**2)
    score = float(left.data @ lean)
    variance = float((squares * leans / np.maximum(size - 1, 1)).sum())
    per_doubling = np.exp(np.log(2) * score / variance) if variance > 0 else 1.0
    return Test(
        "keeping does not depend on the number of labels",
        float(2 * norm.sf(abs(score) / np.sqrt(variance))) if variance > 0 else 1.0,
        f"the odds of being kept change by the factor {per_doubling:.2f} when a row has twice as "
        "many labels",
        DEPENDENT + "Stratify rows by their number of labels, or model the propensity of an entry "
        "(propensities may be given per row and label).",
        _severity(abs(np.log(per_doubling)) > np.log(1.1)),
        title="Keeping a label depends on how many the row has",
    )


def on_row(left: sp.csr_array, rng: np.random.Generator) -> Test:
    """Permutation test of Σ_i (Σ_j e_ij)², which is U up to constants."""
    by_label = sp.csc_array(left)
    rows, size = by_label.indices, np.diff(by_label.indptr)
    label = np.repeat(np.arange(size.size), size)

    def together(values: Floats) -> float:
        return float((np.bincount(rows, values, left.shape[0]) ** 2).sum())

    seen, values = together(by_label.data), by_label.data
    repeated = replicates(
        lambda: together(values[np.lexsort((rng.random(values.size), label))]),
        seen,
        _permutations(values.size),
        two_sided=True,
    )
    spread = np.sqrt(_by_label(left, left.data**2) / np.maximum(label_counts(left), 1))
    pairs = (np.bincount(rows, spread[label], left.shape[0]) ** 2).sum() - (
        spread[label] ** 2
    ).sum()
    correlation = (seen - (values**2).sum()) / pairs if pairs > 0 else 0.0
    return Test(
        "labels of a row are kept independently",
        _two_sided(seen, repeated),
        f"two labels of a row are kept or lost together with correlation {correlation:+.3f}",
        DEPENDENT + "Some rows are annotated better than others: estimate propensities per row "
        "group, or give them per row and label.",
        _severity(abs(correlation) > 0.02),
        title="Labels of a row are kept or lost together",
    )


def on_other_labels(kept: sp.csr_array, complete: sp.csr_array) -> Test:
    """Fisher's exact test of (j kept) against (k present), for every pair with enough rows."""
    together = sp.csr_array(complete.T @ complete).tocoo()
    size, k = label_counts(complete), label_counts(kept)
    j, other, present = together.row, together.col, np.rint(together.data)
    enough = (j != other) & (present >= FEWEST) & (size[j] - present >= FEWEST)
    enough &= (k[j] >= FEWEST) & (size[j] - k[j] >= FEWEST)
    j, other, present = j[enough], other[enough], present[enough]
    if not j.size:
        return Test("keeping does not depend on other labels", 1.0, "no pair has enough rows", "")
    kept_with = np.rint(np.asarray(sp.csr_array(kept.T @ complete)[j, other]).ravel())
    below = hypergeom.cdf(kept_with, size[j], k[j], present)
    above = hypergeom.sf(kept_with - 1, size[j], k[j], present)
    chance = np.minimum(1.0, 2 * np.minimum(below, above))
    at = int(np.argmin(chance))
    with_it = kept_with[at] / present[at]
    without = (k[j[at]] - kept_with[at]) / (size[j[at]] - present[at])
    return Test(
        "keeping does not depend on other labels",
        float(min(1.0, chance[at] * chance.size)),
        f"of {chance.size} pairs of labels, the strongest: label {j[at]} is kept in {with_it:.0%} "
        f"of the rows that have label {other[at]} and in {without:.0%} of the others",
        DEPENDENT + "If one label stands in for another (a hierarchy, a synonym), merge them or "
        "complete the implied ones first.",
        _severity(abs(with_it - without) > 0.1),
        title="Keeping a label depends on another label",
    )


def _severity(large: bool) -> str:
    return "error" if large else "warning"


def _by_label(left: sp.csr_array, values: Floats) -> Floats:
    return np.bincount(left.indices, values, left.shape[1]).astype(np.float64)


def _permutations(entries: int) -> int:
    """Fewer for a huge audit, where a dependence that matters shows at once."""
    return PERMUTATIONS if entries < 20_000 else 199


def _two_sided(seen: float, repeated: Floats) -> float:
    """Both tails; beyond all permutations by the normal distribution with their moments."""
    tail = 1 + min((repeated >= seen).sum(), (repeated <= seen).sum())
    counted = min(1.0, 2 * tail / (1 + repeated.size))
    if tail > 1 or repeated.std() == 0:
        return float(counted)
    return float(min(counted, 2 * norm.sf(abs(seen - repeated.mean()) / repeated.std())))
