"""The tests behind a diagnosis: label counts alone, and audited rows.

**Can labels that went missing independently, with these propensities, look like this?** True labels
may be distributed in any way, so only what holds for *every* distribution is tested, for sets G of
labels (all of them, and those of low propensity), m = observed labels of a row in G:

thinning   Masks with p_j are masks with p_j / t followed by a thinning with t = max p. So, given
           some m', m ~ Bin(m', t), and the histogram of m must be a mixture of binomials with
           success t: likelihood ratio against the best mixture (that of `weights.formulas.mixture`,
           which also fits the true label counts), parametric bootstrap.
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

**Do the propensities agree with an audit?** Is k_j binomial (K_j, p_j), on the whole, from head to
tail, and for each label?

**What does keeping a label depend on?** The audit tells for every true label of every audited row
whether it was kept, M_ij. If keeping is independent with one propensity per label, then within each
label every arrangement of its kept and lost entries over its rows is equally likely. The tests
condition on k_j of K_j and so need no propensity; e_ij = M_ij − k_j/K_j.

number of labels  score test of ln N*_i; effect: the odds of being kept, per doubling of the number
                  of labels
score             score test of the rank of the model's score within the label; effect: the odds of
                  being kept, from the lower to the upper quartile of the scores
covariate         score test of a number or of groups of rows; effect: the odds of being kept, per
                  standard deviation of what the covariate explains
row               U = Σ_i Σ_{j<k} e_ij e_ik: are a row's labels kept or lost together? By
                  permutation; effect: the mean correlation between two labels of a row
other labels      is j kept more or less often where k is present? Fisher's exact test for every
                  pair with enough rows, Bonferroni; effect: the two rates of the strongest pair

The score test: x_ij is what keeping may depend on (a number, or several). In the logistic model
logit P(M_ij = 1) = a_j + βᵀ x_ij, given k_j kept of K_j, the score of β at 0 and its variance over
all arrangements of a label's kept entries are

    T = Σ_ij e_ij (x_ij − x̄_j),    V = Σ_j [Σ_i e_ij² / (K_j − 1)] Σ_i (x_ij − x̄_j)(x_ij − x̄_j)ᵀ

TᵀV⁻T is chi-square with rank V degrees of freedom, and V⁻T is a first step towards β. Where labels
of a row are kept or lost together, with correlation r (`row_correlation`), the score varies more
than V says, and more so the more alike x is within rows:

    V_r = Σ_i Σ_jk r_jk a_ij a_ikᵀ,    a_ij = s_j (x_ij − x̄_j),    r_jj = 1, r_jk = r, V_0 = V

with s_j² = Σ_i e_ij² / (K_j − 1). One r for all rows is far less noisy than the squares of every
row's own sum. TᵀV_r⁻T / rank is compared with F of rank and rows − 1 degrees of freedom (`by_row`).

**How did labels come to be recorded?**

unannotated  does π₀ > 0 make what was kept likelier than row effort alone? Likelihood ratio of the
             model in `propensity.mask_model`, ρ fitted on both sides; half of a chi-square
spurious     are more than 1 % of the observed labels not true? Binomial test
closure      where label j implies label k (no audited row has j without k), is k kept more often
             with a kept j than row effort makes it? Fisher's exact test of every such pair,
             Bonferroni; a file whose records are completed along a hierarchy never shows j
             without k. Rows of little effort lose both: where the labels that imply others show
             such an effort, the odds ratio of the test is the largest that it explains, not 1
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import logit, xlogy
from scipy.stats import binom, chi2, gamma, hypergeom, norm, rankdata
from scipy.stats import f as fisher_f

from unmask._typing import Bools, Floats, Ints, ScoresLike
from unmask.arrays import checks
from unmask.arrays.checks import entry_rows, values_at
from unmask.diagnosis.findings import LabelGroup, Severity, Test, TestKind
from unmask.predictions import TopK
from unmask.propensity.audit import label_counts, residuals
from unmask.propensity.mask_model import (
    TINIEST,
    RowEffort,
    estimate_effort,
    log_likelihoods,
    normal,
    scores_of,
)
from unmask.propensity.models import reciprocal
from unmask.weights.formulas import Mixture, mixture

DOUBT = 1e-3
MOST_DROPPED = 1e12
"""Rows behind one row beyond which their number makes no difference."""
REPLICATES = 99
UNUSUAL = 10
"""Replicates beyond what was observed from which on it is nothing unusual."""
NEGLIGIBLE = 0.01  # a likelihood ratio that needs no replicates to be called a perfect fit


def feasibility(labels: sp.csr_array, p: Floats, rng: np.random.Generator) -> Iterator[Test]:
    """Make all tests of labels alone, on validated labels and propensities."""
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
    """Tell if any row has no observed label; if none has, empty rows may have been dropped."""
    return bool((np.diff(labels.indptr) == 0).any())


def dropped_rows(labels: sp.csr_array, p: Floats) -> Floats:
    """Return how many rows that lost all labels stand behind every row, at most, on average."""
    only = np.diff(labels.indptr) == 1
    behind = np.zeros(labels.shape[0])
    behind[only] = reciprocal(p[labels.indices[labels.indptr[:-1][only]]]) - 1
    return np.minimum(behind, MOST_DROPPED)


def groups(labels: sp.csr_array, p: Floats) -> Iterator[tuple[LabelGroup, Bools]]:
    """Yield all labels, and those of low propensity that make up half of what was observed."""
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
    """Test if any label is observed in a larger share of rows than its propensity."""
    n = np.full(p.shape, labels.shape[0] + np.ceil(dropped))
    counts = np.bincount(labels.indices, minlength=labels.shape[1])
    if counts.size:
        yield _shares(counts, n, p)


def predicted_frequency(top: TopK, labels: sp.csr_array, p: Floats) -> Test:
    """Test if any label is observed in more of the rows it is predicted for than p_j allows.

    P(Y_j = 1 | x) = p_j P(Y*_j = 1 | x) ≤ p_j, so a label that is predicted well must not be
    observed more often than its propensity. The predictions must not have seen these labels. The
    p-value is corrected for the number of labels.
    """
    return _shares(*predicted_counts(top, labels), p)


def predicted_counts(top: TopK, labels: sp.csr_array) -> tuple[Ints, Ints]:
    """Count the rows for which every label is predicted and observed, and predicted at all."""
    predicted = top.labels >= 0
    rows, chosen = np.nonzero(predicted)[0], top.labels[predicted]
    hits = values_at(labels, rows, chosen) > 0
    return (
        np.bincount(chosen[hits], minlength=labels.shape[1]),
        np.bincount(chosen, minlength=labels.shape[1]),
    )


def _shares(counts: Ints, n: Floats | Ints, p: Floats) -> Test:
    """Test the label that exceeds its propensity most clearly by the binomial distribution."""
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
    """Test if as many rows lack a label as must have lost all of theirs.

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
    """Return the least share of rows that lose every label, and its lower end at level `DOUBT`."""
    with np.errstate(divide="ignore"):
        exponent = row_sums(part, (np.log1p(-p) / p)[part.indices])
    bound = float(np.exp(exponent.mean()))
    error = exponent.std() / np.sqrt(part.shape[0]) if bound > 0 else 0.0
    return bound, float(bound * np.exp(norm.ppf(DOUBT) * error))


def spread(part: sp.csr_array, p: Floats, group: LabelGroup, dropped: Floats | None = None) -> Test:
    """Test if the number of observed labels varies as much as losing labels makes it vary.

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
    part: sp.csr_array, t: float, group: LabelGroup, rng: np.random.Generator, *,
    without_empty: bool = False,
) -> Test:  # fmt: skip
    """Test if the histogram of label counts is that of a thinning with probability t.

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
    """Add up numbers of stored labels row by row."""
    return np.bincount(entry_rows(labels), of_entry, labels.shape[0]).astype(np.float64)


def _likelihood_ratio(rows: Ints, n_labels: int, t: float) -> tuple[float, Mixture]:
    """Return 2 ln (histogram of counts / best mixture of Bin(N, t)), and that mixture."""
    counts = np.trim_zeros(rows, "b")
    fit = mixture(counts, t, n_labels, without_empty=counts[0] == 0)
    shares = counts / counts.sum()
    ratio = 2 * counts.sum() * (xlogy(shares, shares).sum() - fit.log_likelihood[-1])
    return max(0.0, float(ratio)), fit


def _histogram(fit: Mixture, t: float) -> Floats:
    """Return the share of rows with 0, 1, 2 … labels by the fitted mixture."""
    chance = binom.pmf(np.arange(fit.support[-1] + 1)[:, None], fit.support, t)
    chance[: fit.support[0]] = 0  # fitted without empty rows
    shares = (chance / chance.sum(axis=0)) @ fit.probability
    return np.asarray(shares / shares.sum())


def _tail(value: float, repeated: Floats) -> float:
    """Return the chance of `value` or more; beyond all replicates by a Gamma of their moments."""
    if not repeated.size:
        return 1.0
    counted = (1 + (repeated >= value).sum()) / (1 + repeated.size)
    if counted > 1 / (1 + repeated.size) or repeated.var() == 0:
        return float(counted)
    scale = repeated.var() / repeated.mean()
    return float(min(counted, gamma.sf(value, repeated.mean() / scale, scale=scale)))


def replicates(
    draw: Callable[[], float], observed: float, most: int, *, two_sided: bool = False
) -> Floats:
    """Draw up to `most` times; no more once so many lie beyond `observed` that it is not unusual.

    A p-value of (1 + draws beyond) / (1 + draws) keeps its level (Besag & Clifford, *Sequential
    Monte Carlo p-values*, 1991), and where nothing is wrong most of the work is saved.

    >>> replicates(lambda: 1.0, 0.5, 99).size, replicates(lambda: 1.0, 2.0, 99).size
    (10, 99)
    """
    statistics: list[float] = []
    above = below = 0
    while len(statistics) < most and (below if two_sided and below < above else above) < UNUSUAL:
        statistics.append(draw())
        above += statistics[-1] >= observed
        below += statistics[-1] <= observed
    return np.array(statistics)


class ScoreTest(NamedTuple):
    """The p-value of β = 0, and a first step towards β, (c,)."""

    p_value: float
    slope: Floats


def score_test(left: sp.csr_array, values: Floats, *, by_row: bool = False) -> ScoreTest:
    """Test β = 0 by its score: see the module.

    `left` holds e_ij of every true label (`propensity.audit.residuals`), `values` x_ij in the order
    of its entries, (nnz,) or (nnz, c). `by_row` allows for labels of a row that are kept or lost
    together.

    Examples
    --------
    Of four rows with the label, the two with larger x kept it:

    >>> left = sp.csr_array([[-0.5], [-0.5], [0.5], [0.5]])
    >>> test = score_test(left, np.array([0.0, 1.0, 2.0, 3.0]))
    >>> round(test.p_value, 4), test.slope.round(2)
    (0.1213, array([1.2]))
    """
    columns = np.asarray(values, dtype=np.float64).reshape(left.nnz, -1)
    sizes = np.maximum(np.bincount(left.indices, minlength=left.shape[1]), 1)
    sums = [np.bincount(left.indices, column, left.shape[1]) for column in columns.T]
    centred = columns - (np.column_stack(sums) / sizes[:, None])[left.indices]
    scaled = centred * _spread(left)[left.indices, None]
    score = left.data @ centred
    variance = scaled.T @ scaled
    inverse = np.linalg.pinv(variance, hermitian=True)
    slope = np.asarray(inverse @ score)
    freedom = int(np.linalg.matrix_rank(variance, hermitian=True))
    if not freedom:
        return ScoreTest(1.0, slope)
    if not by_row:
        return ScoreTest(float(chi2.sf(score @ slope, freedom)), slope)
    shared = min(max(row_correlation(left), 0.0), 1.0)
    by_rows = np.column_stack([row_sums(left, column) for column in scaled.T])
    together = (1 - shared) * variance + shared * (by_rows.T @ by_rows)
    statistic = float(score @ np.linalg.pinv(together, hermitian=True) @ score)
    rows = int((np.diff(left.indptr) > 0).sum())
    return ScoreTest(float(fisher_f.sf(statistic / freedom, freedom, max(rows - 1, 1))), slope)


def row_correlation(left: sp.csr_array) -> float:
    """Return the mean correlation between the fates of two true labels of a row.

    Σ_i Σ_{j≠k} e_ij e_ik over what it would be on average if the correlation were 1
    (`expected_products`). Sampling makes it differ from 0, either way, also where labels are kept
    independently. 0 where no row has two labels that are both kept and lost.

    Examples
    --------
    Two labels of four rows that are kept or lost together:

    >>> left = sp.csr_array([[0.5, 0.5], [0.5, 0.5], [-0.5, -0.5], [-0.5, -0.5]])
    >>> round(row_correlation(left), 6)
    1.0
    """
    expected = expected_products(left, _spread(left))
    observed = float((row_sums(left, left.data) ** 2).sum() - (left.data**2).sum())
    return observed / expected if expected > 0 else 0.0


def expected_products(left: sp.csr_array, spread: Floats) -> float:
    """Return the mean of Σ_i Σ_{j≠k} e_ij e_ik where two fates of a row have correlation 1.

    The fate of a row enters the rates k_j/K_j as well, so that a product has the mean
    s_j s_k [(1 − 1/K_j)(1 − 1/K_k) + (n_jk − 1) / (K_j K_k)], n_jk the rows with both labels and
    s_j the standard deviation of a label's fate (`spread`). The stored entries of `left` are the
    true labels.

    Examples
    --------
    Two labels that all four rows have: eight products of 1/2 · 1/2, three quarters of each.

    >>> expected_products(sp.csr_array(np.ones((4, 2))), np.array([0.5, 0.5]))
    1.5
    """
    sizes = np.maximum(np.bincount(left.indices, minlength=left.shape[1]), 1).astype(np.float64)
    ones = sp.csr_array((np.ones(left.nnz), left.indices, left.indptr), shape=left.shape)
    pairs = sp.csr_array(ones.T @ ones).tocoo()
    two = pairs.row != pairs.col
    j, k, both = pairs.row[two], pairs.col[two], pairs.data[two]
    share = (1 - 1 / sizes[j]) * (1 - 1 / sizes[k]) + (both - 1) / (sizes[j] * sizes[k])
    return float((both * spread[j] * spread[k] * share).sum())


def _spread(left: sp.csr_array) -> Floats:
    """Return s_j, the standard deviation of M_ij over the rows of a label."""
    sizes = np.bincount(left.indices, minlength=left.shape[1])
    squares = np.bincount(left.indices, left.data**2, left.shape[1])
    return np.asarray(np.sqrt(squares / np.maximum(sizes - 1, 1)))


def ranks_within_labels(values: Floats, true_labels: sp.csr_array) -> Floats:
    """Return the place of every entry among those of its label, from −½ to ½.

    Equal values get the mean of their places; `values` are in the order of the matrix.

    Examples
    --------
    >>> ranks_within_labels(np.array([3.0, 9.0, 5.0]), sp.csr_array([[1, 1], [0, 1]]))
    array([ 0.  ,  0.25, -0.25])
    """
    order = np.argsort(true_labels.indices, kind="stable")
    ends = np.cumsum(np.bincount(true_labels.indices, minlength=true_labels.shape[1]))
    ranks = np.zeros(true_labels.nnz)
    for entries in np.split(order, ends[:-1]):
        ranks[entries] = (rankdata(values[entries]) - 0.5) / max(entries.size, 1) - 0.5
    return ranks


PERMUTATIONS = 999
FEWEST_PAIRS = 5
"""Rows with and without the other label that a pair needs."""


def agreement(observed: sp.csr_array, complete: sp.csr_array, p: Floats) -> Iterator[Test]:
    """Test the stated propensities against the audit: their level, their shape, each label's."""
    kept, total = label_counts(sp.csr_array(observed.multiply(complete))), label_counts(complete)
    used = (total > 0) & (p < 1)
    if not used.any():
        return
    kept, total, p = kept[used], total[used], p[used]
    excess, variance = kept - total * p, total * p * (1 - p)
    yield Test(
        TestKind.AUDIT_LEVEL,
        float(2 * norm.sf(abs(excess.sum()) / np.sqrt(variance.sum()))),
        {
            "kept_share": float(kept.sum() / total.sum()),
            "stated_share": float((total * p).sum() / total.sum()),
        },
        _severity(abs(excess.sum()) > 0.05 * (total * p).sum()),
    )
    # score test of the slope 1 of the true logits over the stated ones, if these differ
    centred = logit(p) - (variance * logit(p)).sum() / variance.sum()
    information = float((variance * centred**2).sum())
    if information > 1e-9:
        score = (excess * centred).sum()
        yield Test(
            TestKind.AUDIT_SHAPE,
            float(2 * norm.sf(abs(score) / np.sqrt(information))),
            {"slope": float(1 + score / information)},
        )
    below, above = binom.cdf(kept, total, p), binom.sf(kept - 1, total, p)
    chances = np.minimum(1.0, 2 * np.minimum(below, above))
    worst = int(np.argmin(chances))
    yield Test(
        TestKind.AUDIT_LABELS,
        float(min(1.0, chances[worst] * chances.size)),
        {
            "label": int(np.flatnonzero(used)[worst]),
            "kept": float(kept[worst]),
            "true": float(total[worst]),
            "propensity": float(p[worst]),
        },
    )


def dependence(
    observed: sp.csr_array,
    complete: sp.csr_array,
    rng: np.random.Generator,
    scores: TopK | ScoresLike | None = None,
    covariates: Mapping[str, ArrayLike] | None = None,
) -> Iterator[Test]:
    """Test what keeping a label depends on; both matrices are validated."""
    kept = sp.csr_array(observed.multiply(complete))
    left = residuals(kept, complete)
    if not left.data.any():
        return  # every label is always kept or always lost: nothing to compare
    yield on_number_of_labels(left)
    yield on_row(left, rng)
    yield on_other_labels(kept, complete)
    if scores is not None:
        ranks = ranks_within_labels(scores_of(scores, left), left)
        yield _by_odds(TestKind.SCORE, left, ranks, 0.5)
    for name, values in (covariates or {}).items():
        yield on_covariate(left, name, values)


def on_number_of_labels(left: sp.csr_array) -> Test:
    """Test ln N* in a logistic model with one intercept per label."""
    log_size = np.log(np.repeat(np.diff(left.indptr), np.diff(left.indptr)))
    return _by_odds(TestKind.NUMBER_OF_LABELS, left, log_size, np.log(2))


def _by_odds(kind: TestKind, left: sp.csr_array, values: Floats, step: float) -> Test:
    """Make a score test whose effect is the change of the odds over a step of the values."""
    tested = score_test(left, values, by_row=True)
    factor = float(np.exp(step * tested.slope[0]))
    severity = _severity(abs(np.log(factor)) > np.log(1.1))
    return Test(kind, tested.p_value, {"odds_factor": factor}, severity)


def on_covariate(left: sp.csr_array, name: str, values: ArrayLike) -> Test:
    """Test a covariate of the rows: its number, or its groups if it is text."""
    by_entry = _columns(values, left.shape[0], name)[entry_rows(left)]
    tested = score_test(left, by_entry, by_row=True)
    explained = by_entry @ tested.slope
    spread = float(np.exp(explained.std())) if explained.size else 1.0
    return Test(
        TestKind.COVARIATE,
        tested.p_value,
        {"odds_factor": spread},
        _severity(spread > 1.1),
        names={"covariate": name},
    )


def _columns(values: ArrayLike, rows: int, name: str) -> Floats:
    """Return (rows, c) numbers: the covariate, or one column per group but the first."""
    array = np.asarray(values)
    if array.shape != (rows,):
        raise ValueError(
            f"the covariate {name!r} has shape {array.shape}; give one value per audited row "
            f"({rows})."
        )
    if array.dtype.kind in "biuf":
        numbers = checks.finite(array.astype(np.float64), f"the covariate {name!r}")
        return np.asarray(numbers[:, None])
    groups, group = np.unique(array.astype(str), return_inverse=True)
    return np.asarray(group[:, None] == np.arange(1, groups.size), dtype=np.float64)


def on_row(left: sp.csr_array, rng: np.random.Generator) -> Test:
    """Test Σ_i (Σ_j e_ij)², which is U up to constants, by permutation."""
    by_label = sp.csc_array(left)
    rows, size = by_label.indices, np.diff(by_label.indptr)
    label = np.repeat(np.arange(size.size), size)

    def together(values: Floats) -> float:
        return float((np.bincount(rows, values, left.shape[0]) ** 2).sum())

    observed, values = together(by_label.data), by_label.data
    repeated = replicates(
        lambda: together(values[np.lexsort((rng.random(values.size), label))]),
        observed,
        PERMUTATIONS if values.size < 20_000 else 199,  # what matters in a huge audit shows soon
        two_sided=True,
    )
    correlation = row_correlation(left)
    return Test(
        TestKind.ROW,
        _two_sided(observed, repeated),
        {"correlation": correlation},
        _severity(abs(correlation) > 0.02),
    )


def on_other_labels(kept: sp.csr_array, complete: sp.csr_array) -> Test:
    """Test (j kept) against (k present) by Fisher's exact test, for every pair with enough rows."""
    together = sp.csr_array(complete.T @ complete).tocoo()
    size, k = label_counts(complete), label_counts(kept)
    j, other, present = together.row, together.col, np.rint(together.data)
    enough = (j != other) & (present >= FEWEST_PAIRS) & (size[j] - present >= FEWEST_PAIRS)
    enough &= (k[j] >= FEWEST_PAIRS) & (size[j] - k[j] >= FEWEST_PAIRS)
    j, other, present = j[enough], other[enough], present[enough]
    if not j.size:
        return Test(TestKind.OTHER_LABELS, 1.0, {"pairs": 0})
    kept_with = np.rint(values_at(sp.csr_array(kept.T @ complete), j, other))
    below = hypergeom.cdf(kept_with, size[j], k[j], present)
    above = hypergeom.sf(kept_with - 1, size[j], k[j], present)
    chance = np.minimum(1.0, 2 * np.minimum(below, above))
    worst = int(np.argmin(chance))
    label, rows_with, kept_rows = j[worst], present[worst], kept_with[worst]
    share_with = kept_rows / rows_with
    share_without = (k[label] - kept_rows) / (size[label] - rows_with)
    return Test(
        TestKind.OTHER_LABELS,
        float(min(1.0, chance[worst] * chance.size)),
        {
            "pairs": chance.size,
            "label": int(label),
            "other_label": int(other[worst]),
            "kept_with": float(share_with),
            "kept_without": float(share_without),
        },
        _severity(abs(share_with - share_without) > 0.1),
    )


def _severity(large: bool) -> Severity:
    return "error" if large else "warning"


def _two_sided(observed: float, repeated: Floats) -> float:
    """Return both tails; beyond all permutations by the normal distribution of their moments."""
    tail = 1 + min((repeated >= observed).sum(), (repeated <= observed).sum())
    counted = min(1.0, 2 * tail / (1 + repeated.size))
    if tail > 1 or repeated.std() == 0:
        return float(counted)
    return float(min(counted, 2 * norm.sf(abs(observed - repeated.mean()) / repeated.std())))


FEWEST = 5
"""Rows with both labels that a pair needs."""
FEWEST_ROWS = 20
"""Audited rows with true labels below which unannotated rows are not tested."""
PULLS = (0.5, 4.0)
"""Rows' worth of the overall rate by which that of a label is drawn to it: least and most."""
TOLERATED = 0.01
"""The share of wrong labels that corrections bear."""


def recording(observed: sp.csr_array, complete: sp.csr_array) -> Iterator[Test]:
    """Make the tests of recording that these rows allow; both matrices are validated."""
    kept = sp.csr_array(observed.multiply(complete))
    if (np.diff(complete.indptr) > 0).sum() >= FEWEST_ROWS and 0 < kept.nnz < complete.nnz:
        yield unannotated(kept, complete)
    if observed.nnz:
        yield spurious(observed.nnz - kept.nnz, observed.nnz)
    yield from closure(kept, complete)


def unannotated(kept: sp.csr_array, complete: sp.csr_array) -> Test:
    """Test if nobody looked at some of the rows."""
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
    """Return k_j / K_j, drawn towards the rate of all labels, the less the more labels differ.

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
    """Test if more of the observed labels are wrong than corrections bear."""
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
    """Test if an implied label is recorded with the other, more than row effort explains."""
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


def _effort_of_others(kept: sp.csr_array, complete: sp.csr_array, implied: Ints) -> RowEffort:
    """Return the largest row effort that labels allow which no label implies, if they show any.

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
    """Return P(both kept) P(none) / (P(first alone) P(second alone)) for propensities p and q.

    Examples
    --------
    A fifth of the rows never annotated; in the others both labels are kept half of the time.

    >>> odds_ratio(normal(0.0, 0.2), np.array([0.4]), np.array([0.4])).round(6)
    array([2.])
    """
    weights = np.array(effort.weights) * (1 - effort.unannotated)
    both = weights @ (effort.propensities(p) * effort.propensities(q))
    first, second = weights @ effort.propensities(p), weights @ effort.propensities(q)
    alone = np.maximum((first - both) * (second - both), TINIEST)
    return np.asarray(both * (1 - first - second + both) / alone)


def at_least(both: Floats, rows: Floats, first: Floats, second: Floats, ratio: Floats) -> Floats:
    """Return P(at least so many rows with both), given all rows, those with each, an odds ratio.

    Fisher's non-central hypergeometric distribution; with the ratio 1 the hypergeometric one. All
    arguments are (c,) floats.

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
