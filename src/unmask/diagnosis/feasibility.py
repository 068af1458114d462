"""Can labels that went missing independently, with these propensities, look like this?

True labels may be distributed in any way, so only what holds for *every* distribution is tested,
for sets G of labels (all of them, and those of low propensity), m = observed labels of a row in G:

thinning   Masks with p_j are masks with p_j / t followed by a thinning with t = max p. So, given
           some m', m ~ Bin(m', t), and the histogram of m must be a mixture of binomials with
           success t: likelihood ratio against the best mixture, parametric bootstrap. The best
           mixture is that of `weights.counts.mixture`, which also fits the true label counts: one
           solver for both.
spread     Var(m) = E Var(m | Y*) + Var E(m | Y*) ≥ E Σ_{j ∈ Y*∩G} p_j (1 − p_j), and the last is
           the mean of Σ_{j observed} (1 − p_j). For equal propensities: Var(m) ≥ (1 − p) E[m].
empty      P(m = 0) = E Π_{j ∈ Y*∩G} (1 − p_j) ≥ exp E Σ_{j observed} ln(1 − p_j) / p_j  (Jensen).
frequency  a label cannot be observed in more than a share p_j of the rows: of all, or of any that
           were chosen without looking at their labels, such as those it is predicted for.

Published files often lack their empty rows. A file in which no row is empty cannot tell whether
enough rows are, so `empty` is not tested there (`share_lost` says what could have been expected),
and the other tests make allowance for the rows that may have been dropped:

thinning   is tested given m > 0, which holds for no row that was dropped.
spread     E[1{m = 1} (1 − p_j)/p_j] = E[N* 1{m = 0}] ≥ P(m = 0), with j the only observed label: so
           many rows at most were dropped for every one that is left (`dropped_rows`). They enter
           the mean and the variance as rows without labels.
frequency  counts them among the rows.

All are exact or conservative for unequal propensities; none assumes that rows look alike.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from scipy.special import xlogy
from scipy.stats import binom, gamma, norm

from unmask._sparse import entry_rows, values_at
from unmask._typing import Bools, Floats, Ints
from unmask.diagnosis.findings import Test, replicates
from unmask.diagnosis.kinds import LabelGroup, TestKind
from unmask.predictions import TopK
from unmask.propensity.models import reciprocal
from unmask.weights.counts import Mixture, mixture

DOUBT = 1e-3
MOST_DROPPED = 1e12
"""Rows behind one row beyond which their number makes no difference."""
REPLICATES = 99
NEGLIGIBLE = 0.01  # a likelihood ratio that needs no replicates to be called a perfect fit


def feasibility(labels: sp.csr_array, p: Floats, rng: np.random.Generator) -> Iterator[Test]:
    """All tests, on validated labels and propensities."""
    judgeable = has_empty_rows(labels)
    dropped = np.zeros(labels.shape[0]) if judgeable else dropped_rows(labels, p)
    yield from frequency(labels, p, float(dropped.sum()))
    for group, used in groups(labels, p):
        part, p_part = sp.csr_array(labels[:, used]), p[used]
        if judgeable:
            yield empty_rows(part, p_part, group)
        yield spread(part, p_part, group, dropped)
        yield thinning(part, float(p_part.max()), group, rng, without_empty=not judgeable)


def has_empty_rows(labels: sp.csr_array) -> bool:
    """Whether any row has no observed label; if none has, empty rows may have been dropped."""
    return bool((np.diff(labels.indptr) == 0).any())


def dropped_rows(labels: sp.csr_array, p: Floats) -> Floats:
    """How many rows that lost all their labels stand behind every row, at most, on average."""
    only = np.diff(labels.indptr) == 1
    behind = np.zeros(labels.shape[0])
    behind[only] = reciprocal(p[labels.indices[labels.indptr[:-1][only]]]) - 1
    return np.minimum(behind, MOST_DROPPED)


def groups(labels: sp.csr_array, p: Floats) -> Iterator[tuple[LabelGroup, Bools]]:
    """All labels, and the labels of low propensity that make up half of what was observed."""
    counts = np.bincount(labels.indices, minlength=labels.shape[1])
    used = counts > 0
    if not used.any():
        return
    yield LabelGroup.ALL, used
    order = np.argsort(p, kind="stable")
    middle = p[order][np.searchsorted(np.cumsum(counts[order]), labels.nnz / 2)]
    lower = used & (p <= middle)
    if lower.any() and middle < p[used].max():
        yield LabelGroup.LOW_PROPENSITY, lower


def frequency(labels: sp.csr_array, p: Floats, dropped: float = 0.0) -> Iterator[Test]:
    """Is any label observed in a larger share of rows than its propensity?"""
    n = np.full(p.shape, labels.shape[0] + np.ceil(dropped))
    counts = np.bincount(labels.indices, minlength=labels.shape[1])
    if counts.size:
        yield _shares(counts, n, p)


def predicted_frequency(top: TopK, labels: sp.csr_array, p: Floats) -> Test:
    """Is any label observed in a larger share of the rows it is predicted for than p_j?

    P(Y_j = 1 | x) = p_j P(Y*_j = 1 | x) ≤ p_j, so a label that is predicted well must not be
    observed more often than its propensity. The predictions must not have seen these labels.

    Parameters
    ----------
    top : TopK
        Predictions of n rows by a model that was trained on others.
    labels : csr_array of shape (n, L)
        Checked labels of these rows.
    p : (L,) floats
        Propensities.

    Returns
    -------
    Test
        Corrected for the number of labels.
    """
    return _shares(*predicted_counts(top, labels), p)


def predicted_counts(top: TopK, labels: sp.csr_array) -> tuple[Ints, Ints]:
    """Of every label, in how many rows it is predicted and observed, and in how many predicted."""
    predicted = top.labels >= 0
    rows, chosen = np.nonzero(predicted)[0], top.labels[predicted]
    hits = values_at(labels, rows, chosen) > 0
    return (
        np.bincount(chosen[hits], minlength=labels.shape[1]),
        np.bincount(chosen, minlength=labels.shape[1]),
    )


def _shares(counts: Ints, n: Floats | Ints, p: Floats) -> Test:
    """The binomial test of the label that exceeds its propensity most clearly."""
    tail = binom.sf(counts - 1, n, p)
    worst = int(np.argmin(tail))
    return Test(
        TestKind.LABEL_FREQUENCY,
        float(min(1.0, tail[worst] * tail.size)),
        {
            "label": worst,
            "observed_share": float(counts[worst] / max(n[worst], 1)),
            "propensity": float(p[worst]),
            "too_frequent": int((counts > n * p).sum()),
        },
    )


def empty_rows(part: sp.csr_array, p: Floats, group: LabelGroup) -> Test:
    """Are there as many rows without a label as must have lost all of theirs?

    The bound is itself estimated: the test takes its lower end at level `DOUBT` and adds `DOUBT` to
    the p-value (Berger & Boos, *P values maximized over a confidence set for the nuisance
    parameter*, 1994).
    """
    n, empty = part.shape[0], int((np.diff(part.indptr) == 0).sum())
    bound, cautious = share_lost(part, p)
    return Test(
        TestKind.EMPTY_ROWS,
        min(1.0, float(binom.cdf(empty, n, cautious)) + DOUBT),
        {"empty": empty, "rows": n, "least_share": bound, "highest_propensity": float(p.max())},
        group=group,
    )


def share_lost(part: sp.csr_array, p: Floats) -> tuple[float, float]:
    """The share of rows that lose every label, at least; and its lower end at level `DOUBT`."""
    with np.errstate(divide="ignore"):
        exponent = row_sums(part, (np.log1p(-p) / p)[part.indices])
    bound = float(np.exp(exponent.mean()))
    error = exponent.std() / np.sqrt(part.shape[0]) if bound > 0 else 0.0
    return bound, float(bound * np.exp(norm.ppf(DOUBT) * error))


def spread(part: sp.csr_array, p: Floats, group: LabelGroup, dropped: Floats | None = None) -> Test:
    """Does the number of observed labels vary at least as much as losing labels makes it vary?

    `dropped` rows without labels stand behind every row (default: none); the excess of a row is
    its influence on Σ m² − (Σ m)² / (number of rows) − Σ (1 − p).
    """
    m = np.diff(part.indptr).astype(np.float64)
    rows = np.ones_like(m) if dropped is None else 1 + dropped
    mean = m.sum() / rows.sum()
    at_least = row_sums(part, (1 - p)[part.indices])
    excess = m**2 - 2 * mean * m + mean**2 * rows - at_least
    error = excess.std() / np.sqrt(len(m)) + 1e-9  # constant counts have no error at all
    return Test(
        TestKind.COUNT_SPREAD,
        float(norm.cdf(excess.mean() / error)),
        {
            "variance": float((excess + at_least).sum() / rows.sum()),
            "least_variance": float(at_least.sum() / rows.sum()),
            "dropped_rows": float((rows - 1).sum()),
            "highest_propensity": float(p.max()),
        },
        group=group,
    )


def thinning(
    part: sp.csr_array,
    t: float,
    group: LabelGroup,
    rng: np.random.Generator,
    *,
    without_empty: bool = False,
) -> Test:
    """Is the histogram of label counts that of a thinning with probability t?

    `without_empty`: only rows that are not empty are compared, with what thinning leaves in them.
    """
    n_labels, rows = part.shape[1], np.bincount(np.diff(part.indptr))
    if without_empty:
        rows[0] = 0
    ratio, fit = _likelihood_ratio(rows, n_labels, t)
    expected = _histogram(fit, t)
    repeated = replicates(
        lambda: _likelihood_ratio(rng.multinomial(rows.sum(), expected), n_labels, t)[0],
        ratio,
        REPLICATES if ratio > NEGLIGIBLE else 0,
    )
    observed = rows / rows.sum()
    worst = int(np.argmax(np.abs(observed - expected[: rows.size])))
    return Test(
        TestKind.COUNT_THINNING,
        _tail(ratio, repeated),
        {
            "labels": worst,
            "most_labels": rows.size - 1,
            "observed_share": float(observed[worst]),
            "expected_share": float(expected[worst]),
            "highest_propensity": t,
        },
        group=group,
    )


def row_sums(labels: sp.csr_array, of_entry: Floats) -> Floats:
    """Σ over the stored labels of every row."""
    rows = entry_rows(labels)
    return np.bincount(rows, of_entry, labels.shape[0]).astype(np.float64)


def _likelihood_ratio(rows: Ints, n_labels: int, t: float) -> tuple[float, Mixture]:
    """2 ln (histogram of counts / best mixture of Bin(N, t)), and that mixture."""
    counts = np.trim_zeros(rows, "b")
    fit = mixture(counts, t, n_labels, without_empty=counts[0] == 0)
    shares = counts / counts.sum()
    ratio = 2 * counts.sum() * (xlogy(shares, shares).sum() - fit.log_likelihood[-1])
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
