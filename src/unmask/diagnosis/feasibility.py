"""Can labels that went missing independently, with these propensities, look like this?

True labels may be distributed in any way, so only what holds for *every* distribution is tested,
for sets G of labels (all of them, and those of low propensity), m = observed labels of a row in G:

thinning   Masks with p_j are masks with p_j / t followed by a thinning with t = max p. So, given
           some m', m ~ Bin(m', t), and the histogram of m must be a mixture of binomials with
           success t: likelihood ratio against the best mixture, parametric bootstrap. Where no row
           is empty, of binomials that are not 0: most published data lack their empty rows, and
           that must not hide whether the rest fits.
spread     Var(m) = E Var(m | Y*) + Var E(m | Y*) ≥ E Σ_{j ∈ Y*∩G} p_j (1 − p_j), and the last is
           the mean of Σ_{j observed} (1 − p_j). For equal propensities: Var(m) ≥ (1 − p) E[m].
empty      P(m = 0) = E Π_{j ∈ Y*∩G} (1 − p_j) ≥ exp E Σ_{j observed} ln(1 − p_j) / p_j  (Jensen).
frequency  a label cannot be observed in more than a share p_j of the rows.

All are exact or conservative for unequal propensities; none assumes that rows look alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import xlogy
from scipy.stats import binom, gamma, norm

from unmask.diagnosis.findings import Test, replicates
from unmask.weights.counts import Mixture, mixture

Floats = NDArray[np.float64]

DOUBT = 1e-3
REPLICATES = 99
NEGLIGIBLE = 0.01  # a likelihood ratio that needs no replicates to be called a perfect fit

NOT_INDEPENDENT = (
    "The propensities are too low, or labels do not go missing independently. Estimate them from "
    "an audit (`unmask propensity --audit`), and do not report corrected numbers until this is "
    "resolved."
)
CUT_OFF = (
    "Were labels cut off at that number? Then the rows that have it lost further labels, which "
    "propensities do not describe: leave those rows out of corrected numbers, or take the labels "
    "from before the cut."
)
NO_EMPTY_ROWS = (
    "Rows that lost all their labels were probably removed, as published data sets do. Put them "
    "back if you can. If not: P@k and DCG@k by `unbiased` are too high by at least that share "
    "relative to all rows, and `deconvolved` estimates speak of the rows that kept a label."
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
        title="Labels seen more often than their propensity allows",
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
        f"{seen} empty, but with these propensities at least {bound:.1%} of all rows lose every "
        "label",
        NO_EMPTY_ROWS if empty == 0 else NOT_INDEPENDENT,
        title=f"Rows that lost all their labels are missing ({name})",
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
        f"the number of observed labels per row has variance {m.var():.3g}; losing labels at "
        f"random alone makes it {at_least.mean():.3g}",
        NOT_INDEPENDENT,
        title=f"The number of labels varies too little between rows ({name})",
    )


def thinning(part: sp.csr_array, t: float, name: str, rng: np.random.Generator) -> Test:
    """Is the histogram of label counts that of a thinning with probability t?

    Data without any empty row are compared with what thinning leaves in rows that are not empty:
    that there are none is the other test's to say.
    """
    n_labels, rows = part.shape[1], np.bincount(np.diff(part.indptr))
    ratio, fit = _likelihood_ratio(rows, n_labels, t)
    expected = _histogram(fit, t)
    repeated = replicates(
        lambda: _likelihood_ratio(rng.multinomial(rows.sum(), expected), n_labels, t)[0],
        ratio,
        REPLICATES if ratio > NEGLIGIBLE else 0,
    )
    at = int(np.argmax(np.abs(rows / rows.sum() - expected[: rows.size])))
    few = f"{at} {'label' if at == 1 else 'labels'}"
    return Test(
        f"counts are a thinning ({name})",
        _tail(ratio, repeated),
        f"{rows[at] / rows.sum():.1%} of the rows show {few}, where whatever the truth is losing "
        f"labels leaves {expected[at]:.1%}"
        + (f"; no row shows more than {few}" if at == rows.size - 1 else ""),
        CUT_OFF if at == rows.size - 1 else NOT_INDEPENDENT,
        title=f"The number of labels per row is not what losing labels leaves ({name})",
    )


def row_sums(labels: sp.csr_array, of_entry: Floats) -> Floats:
    """Σ over the stored labels of every row."""
    rows = np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))
    return np.bincount(rows, of_entry, labels.shape[0]).astype(np.float64)


def _likelihood_ratio(rows: NDArray[Any], n_labels: int, t: float) -> tuple[float, Mixture]:
    """2 ln (histogram as seen / best mixture of Bin(N, t)), and that mixture."""
    seen = np.trim_zeros(rows, "b")
    fit = mixture(seen, t, n_labels, without_empty=seen[0] == 0)
    shares = seen / seen.sum()
    ratio = 2 * seen.sum() * (xlogy(shares, shares).sum() - fit.log_likelihood[-1])
    return max(0.0, float(ratio)), fit


def _histogram(fit: Mixture, t: float) -> Floats:
    """The share of rows with 0, 1, 2 … labels by the fitted mixture."""
    chance = binom.pmf(np.arange(fit.support[-1] + 1)[:, None], fit.support, t)
    chance[: fit.support[0]] = 0  # fitted without empty rows
    shares = (chance / chance.sum(axis=0)) @ fit.probability
    return np.asarray(shares / shares.sum())


def _tail(value: float, repeated: Floats) -> float:
    """The chance of `value` or more; beyond all replicates, from a Gamma with their moments."""
    if not repeated.size:
        return 1.0
    counted = (1 + (repeated >= value).sum()) / (1 + repeated.size)
    if counted > 1 / (1 + repeated.size) or repeated.var() == 0:
        return float(counted)
    scale = repeated.var() / repeated.mean()
    return float(min(counted, gamma.sf(value, repeated.mean() / scale, scale=scale)))
