"""Can labels that went missing independently, with these propensities, look like this?

True labels may be distributed in any way, so only what holds for *every* distribution is tested,
for sets G of labels (all of them, and those of low propensity), m = observed labels of a row in G:

thinning   Masks with p_j are masks with p_j / t followed by a thinning with t = max p. So, given
           some m', m ~ Bin(m', t), and the histogram of m must be a mixture of binomials with
           success t: likelihood ratio against the best mixture, parametric bootstrap.
spread     Var(m) = E Var(m | Y*) + Var E(m | Y*) ≥ E Σ_{j ∈ Y*∩G} p_j (1 − p_j), and the last is
           the mean of Σ_{j observed} (1 − p_j). For equal propensities: Var(m) ≥ (1 − p) E[m].
empty      P(m = 0) = E Π_{j ∈ Y*∩G} (1 − p_j) ≥ exp E Σ_{j observed} ln(1 − p_j) / p_j  (Jensen).
frequency  a label cannot be observed in more than a share p_j of the rows.

All are exact or conservative for unequal propensities; none assumes that rows look alike.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import xlogy
from scipy.stats import binom, gamma, norm

from unmask.diagnosis.record import Test, replicates
from unmask.weights import count_distribution

Floats = NDArray[np.float64]

DOUBT = 1e-3
REPLICATES = 99
NEGLIGIBLE = 0.01  # a likelihood ratio that needs no replicates to be called a perfect fit

NOT_INDEPENDENT = (
    "The propensities are too low, or labels do not go missing independently. Estimate them from "
    "an audit (`propensity.audit`) and do not report corrected numbers until this is resolved."
)
NO_EMPTY_ROWS = (
    "Rows that lost all their labels were probably removed, or everybody was made to give one. Put "
    "the removed rows back; else corrected estimates overstate what was lost, and only hold for "
    "rows that kept a label."
)


def feasibility(labels: sp.csr_array, p: Floats, rng: np.random.Generator) -> Iterator[Test]:
    """All tests, on labels and propensities that passed the door."""
    yield from frequency(labels, p)
    for name, group in groups(labels, p):
        part, of_part = sp.csr_array(labels[:, group]), p[group]
        yield empty_rows(part, of_part, name)
        yield spread(part, of_part, name)
        yield thinning(part, float(of_part.max()), name, rng)


def groups(labels: sp.csr_array, p: Floats) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """All labels, and the labels of low propensity that make up half of what was observed."""
    counts = np.bincount(labels.indices, minlength=labels.shape[1])
    used = counts > 0
    if not used.any():
        return
    yield "all labels", used
    order = np.argsort(p, kind="stable")
    middle = p[order][np.searchsorted(np.cumsum(counts[order]), labels.nnz / 2)]
    lower = used & (p <= middle)
    if lower.any() and middle < p[used].max():
        yield f"labels with propensity up to {middle:.2g}", lower


def frequency(labels: sp.csr_array, p: Floats) -> Iterator[Test]:
    """Is any label observed in a larger share of rows than its propensity?"""
    n = labels.shape[0]
    counts = np.bincount(labels.indices, minlength=labels.shape[1])
    tail = binom.sf(counts - 1, n, p)
    if not tail.size:
        return
    worst = int(np.argmin(tail))
    yield Test(
        "no label more frequent than its propensity",
        float(min(1.0, tail[worst] * tail.size)),
        f"label {worst} is observed in {counts[worst] / n:.1%} of the rows; its propensity is "
        f"{p[worst]:.3g}",
        f"Raise the propensity of such labels ({int((counts > n * p).sum())} of them).",
    )


def empty_rows(part: sp.csr_array, p: Floats, name: str) -> Test:
    """Are there as many rows without a label as must have lost all of theirs?

    The bound is itself estimated: the test takes its lower end at level `DOUBT` and adds `DOUBT` to
    the p-value (Berger & Boos, *P values maximized over a confidence set for the nuisance
    parameter*, 1994).
    """
    n, empty = part.shape[0], int((np.diff(part.indptr) == 0).sum())
    with np.errstate(divide="ignore"):
        exponent = row_sums(part, (np.log1p(-p) / p)[part.indices])
    bound = float(np.exp(exponent.mean()))
    error = exponent.std() / np.sqrt(n) if bound > 0 else 0.0
    cautious = bound * np.exp(norm.ppf(DOUBT) * error)
    seen = "no row is" if empty == 0 else f"{empty} of {n} rows are"
    return Test(
        f"enough empty rows ({name})",
        min(1.0, float(binom.cdf(empty, n, cautious)) + DOUBT),
        f"{seen} empty; at least {n * bound:.3g} must have lost all their labels",
        NO_EMPTY_ROWS if empty == 0 else NOT_INDEPENDENT,
    )


def spread(part: sp.csr_array, p: Floats, name: str) -> Test:
    """Does the number of observed labels vary at least as much as losing labels makes it vary?"""
    m = np.diff(part.indptr).astype(np.float64)
    at_least = row_sums(part, (1 - p)[part.indices])
    excess = (m - m.mean()) ** 2 - at_least
    error = excess.std() / np.sqrt(len(m)) + 1e-9  # constant counts have no error at all
    return Test(
        f"counts vary enough ({name})",
        float(norm.cdf(excess.mean() / error)),
        f"the number of observed labels has variance {m.var():.3g}; losing labels alone makes it "
        f"{at_least.mean():.3g}",
        NOT_INDEPENDENT,
    )


def thinning(part: sp.csr_array, t: float, name: str, rng: np.random.Generator) -> Test:
    """Is the histogram of label counts that of a thinning with probability t?"""
    n, n_labels = part.shape
    m = np.diff(part.indptr)
    ratio, expected = _likelihood_ratio(m, n_labels, t)
    repeated = replicates(
        lambda: _likelihood_ratio(_counts(expected, n, rng), n_labels, t)[0],
        ratio,
        REPLICATES if ratio > NEGLIGIBLE else 0,
    )
    expected_ratio = repeated.sum() / max(repeated.size, 1)
    seen = np.bincount(m, minlength=expected.size) / n
    at = int(np.argmax(np.abs(seen - expected)))
    return Test(
        f"counts are a thinning ({name})",
        _tail(ratio, repeated),
        f"likelihood ratio {ratio:.3g} against {expected_ratio:.2g} expected; "
        f"{seen[at]:.1%} of the rows show {at} labels where the best fit has {expected[at]:.1%}",
        NOT_INDEPENDENT,
    )


def row_sums(labels: sp.csr_array, of_entry: Floats) -> Floats:
    """Σ over the stored labels of every row."""
    rows = np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))
    return np.bincount(rows, of_entry, labels.shape[0]).astype(np.float64)


def _likelihood_ratio(m: NDArray[Any], n_labels: int, t: float) -> tuple[float, Floats]:
    """2 ln (histogram as seen / best mixture of Bin(N, t)), and that mixture's histogram."""
    indptr = np.r_[0, np.cumsum(m)]
    indices = np.arange(indptr[-1]) - np.repeat(indptr[:-1], m)  # which labels does not matter
    ones = np.ones(indices.size, dtype=np.float32)
    alike = sp.csr_array((ones, indices, indptr), shape=(len(m), n_labels))
    with warnings.catch_warnings():  # replicates are fitted alike, so a small gap cancels
        warnings.simplefilter("ignore", RuntimeWarning)
        fit = count_distribution(alike, np.full(n_labels, t), tolerance=1e-6)
    seen = fit.rows / fit.rows.sum()
    ratio = 2 * len(m) * (xlogy(seen, seen).sum() - fit.log_likelihood[-1])
    support = np.arange(fit.probability.size)
    expected = binom.pmf(support[:, None], support, t) @ fit.probability
    return max(0.0, float(ratio)), expected


def _counts(distribution: Floats, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    drawn = rng.multinomial(n, distribution / distribution.sum())
    return np.repeat(np.arange(distribution.size), drawn)


def _tail(value: float, repeated: Floats) -> float:
    """The chance of `value` or more; beyond all replicates, from a Gamma with their moments."""
    if not repeated.size:
        return 1.0
    counted = (1 + (repeated >= value).sum()) / (1 + repeated.size)
    if counted > 1 / (1 + repeated.size) or repeated.var() == 0:
        return float(counted)
    scale = repeated.var() / repeated.mean()
    return float(min(counted, gamma.sf(value, repeated.mean() / scale, scale=scale)))
