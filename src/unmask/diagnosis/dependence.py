"""With an audit: do the propensities agree with it, and what does keeping a label depend on?

The audit tells for every true label of every audited row whether it was kept, M_ij. If keeping is
independent with one propensity per label, then within each label every arrangement of its kept and
lost entries over its rows is equally likely. The tests condition on k_j of K_j and so need no
propensity; e_ij = M_ij − k_j/K_j. The score tests (`score_test`) allow for labels of a row that
are kept or lost together.

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

Against the stated propensities: is k_j binomial (K_j, p_j), on the whole, from head to tail, and
for each label?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypedDict, Unpack

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit
from scipy.stats import binom, hypergeom, norm

from unmask import _validation
from unmask._sparse import entry_rows, values_at
from unmask._typing import Floats, ScoresLike
from unmask.diagnosis.findings import Test, replicates
from unmask.diagnosis.kinds import Severity, TestKind
from unmask.diagnosis.score_statistic import (
    ranks_within_labels,
    row_correlation,
    score_test,
)
from unmask.predictions import TopK
from unmask.propensity.audit import label_counts, residuals
from unmask.propensity.mask_model import scores_of

PERMUTATIONS = 999
FEWEST = 5
"""Rows with and without the other label that a pair needs."""


class AuditedRows(TypedDict, total=False):
    """What else is known of the audited rows.

    scores       of the model, TopK or (m, L) dense or sparse
    covariates   by name, m numbers or texts each
    """

    scores: TopK | ScoresLike | None
    covariates: Mapping[str, ArrayLike] | None


def agreement(observed: sp.csr_array, complete: sp.csr_array, p: Floats) -> Iterator[Test]:
    """Do the stated propensities agree with the audit?"""
    kept, total = label_counts(sp.csr_array(observed.multiply(complete))), label_counts(complete)
    used = (total > 0) & (p < 1)
    if not used.any():
        return
    kept, total, p = kept[used], total[used], p[used]
    yield _level(kept, total, p)
    yield from _shape(kept, total, p)
    yield _each_label(np.flatnonzero(used), kept, total, p)


def _level(kept: Floats, total: Floats, p: Floats) -> Test:
    """Were as many labels kept as stated, on the whole?"""
    excess, variance = kept - total * p, total * p * (1 - p)
    return Test(
        TestKind.AUDIT_LEVEL,
        float(2 * norm.sf(abs(excess.sum()) / np.sqrt(variance.sum()))),
        {
            "kept_share": float(kept.sum() / total.sum()),
            "stated_share": float((total * p).sum() / total.sum()),
        },
        _severity(abs(excess.sum()) > 0.05 * (total * p).sum()),
    )


def _shape(kept: Floats, total: Floats, p: Floats) -> Iterator[Test]:
    """Score test of the slope 1 of the true logits over the stated ones, if these differ."""
    excess, variance = kept - total * p, total * p * (1 - p)
    centred = logit(p) - (variance * logit(p)).sum() / variance.sum()
    information = float((variance * centred**2).sum())
    if information > 1e-9:
        score = (excess * centred).sum()
        yield Test(
            TestKind.AUDIT_SHAPE,
            float(2 * norm.sf(abs(score) / np.sqrt(information))),
            {"slope": float(1 + score / information)},
        )


def _each_label(labels: NDArray[np.intp], kept: Floats, total: Floats, p: Floats) -> Test:
    """Binomial test of every label, Bonferroni."""
    below, above = binom.cdf(kept, total, p), binom.sf(kept - 1, total, p)
    chances = np.minimum(1.0, 2 * np.minimum(below, above))
    worst = int(np.argmin(chances))
    return Test(
        TestKind.AUDIT_LABELS,
        float(min(1.0, chances[worst] * chances.size)),
        {
            "label": int(labels[worst]),
            "kept": float(kept[worst]),
            "true": float(total[worst]),
            "propensity": float(p[worst]),
        },
    )


def dependence(
    observed: sp.csr_array,
    complete: sp.csr_array,
    rng: np.random.Generator,
    **audited: Unpack[AuditedRows],
) -> Iterator[Test]:
    """What keeping a label depends on; both matrices are validated."""
    kept = sp.csr_array(observed.multiply(complete))
    left = residuals(kept, complete)
    if not left.data.any():
        return  # every label is always kept or always lost: nothing to compare
    yield on_number_of_labels(left)
    yield on_row(left, rng)
    yield on_other_labels(kept, complete)
    scores = audited.get("scores")
    if scores is not None:
        yield on_score(left, scores)
    yield from on_covariates(left, audited.get("covariates") or {})


def on_number_of_labels(left: sp.csr_array) -> Test:
    """Score test of ln N* in a logistic model with one intercept per label."""
    log_size = np.log(np.repeat(np.diff(left.indptr), np.diff(left.indptr)))
    tested = score_test(left, log_size, by_row=True)
    per_doubling = float(np.exp(np.log(2) * tested.slope[0]))
    return Test(
        TestKind.NUMBER_OF_LABELS,
        tested.p_value,
        {"odds_factor": per_doubling},
        _severity(abs(np.log(per_doubling)) > np.log(1.1)),
    )


def on_score(left: sp.csr_array, scores: TopK | ScoresLike) -> Test:
    """Score test of the rank of the model's score among those of the same label."""
    ranks = ranks_within_labels(scores_of(scores, left), left)
    tested = score_test(left, ranks, by_row=True)
    between_quartiles = float(np.exp(tested.slope[0] / 2))
    return Test(
        TestKind.SCORE,
        tested.p_value,
        {"odds_factor": between_quartiles},
        _severity(abs(np.log(between_quartiles)) > np.log(1.1)),
    )


def on_covariates(left: sp.csr_array, covariates: Mapping[str, ArrayLike]) -> Iterator[Test]:
    """Score test of every covariate of the rows: its number, or its groups if it is text."""
    of_entry = entry_rows(left)
    for name, values in covariates.items():
        columns = _columns(values, left.shape[0], name)
        tested = score_test(left, columns[of_entry], by_row=True)
        by_entry = columns[of_entry] @ tested.slope
        spread = float(np.exp(by_entry.std())) if by_entry.size else 1.0
        yield Test(
            TestKind.COVARIATE,
            tested.p_value,
            {"odds_factor": spread},
            _severity(spread > 1.1),
            names={"covariate": name},
        )


def _columns(values: ArrayLike, rows: int, name: str) -> Floats:
    """(rows, c) numbers: the covariate, or one column per group but the first."""
    array = np.asarray(values)
    if array.shape != (rows,):
        raise ValueError(
            f"the covariate {name!r} has shape {array.shape}; give one value per audited row "
            f"({rows})."
        )
    if array.dtype.kind in "biuf":
        numbers = _validation.finite(array.astype(np.float64), f"the covariate {name!r}")
        return np.asarray(numbers[:, None])
    groups, group = np.unique(array.astype(str), return_inverse=True)
    return np.asarray(group[:, None] == np.arange(1, groups.size), dtype=np.float64)


def on_row(left: sp.csr_array, rng: np.random.Generator) -> Test:
    """Permutation test of Σ_i (Σ_j e_ij)², which is U up to constants."""
    by_label = sp.csc_array(left)
    rows, size = by_label.indices, np.diff(by_label.indptr)
    label = np.repeat(np.arange(size.size), size)

    def together(values: Floats) -> float:
        return float((np.bincount(rows, values, left.shape[0]) ** 2).sum())

    observed, values = together(by_label.data), by_label.data
    repeated = replicates(
        lambda: together(values[np.lexsort((rng.random(values.size), label))]),
        observed,
        _permutations(values.size),
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
    """Fisher's exact test of (j kept) against (k present), for every pair with enough rows."""
    together = sp.csr_array(complete.T @ complete).tocoo()
    size, k = label_counts(complete), label_counts(kept)
    j, other, present = together.row, together.col, np.rint(together.data)
    enough = (j != other) & (present >= FEWEST) & (size[j] - present >= FEWEST)
    enough &= (k[j] >= FEWEST) & (size[j] - k[j] >= FEWEST)
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


def _permutations(entries: int) -> int:
    """Fewer for a huge audit, where a dependence that matters shows at once."""
    return PERMUTATIONS if entries < 20_000 else 199


def _two_sided(observed: float, repeated: Floats) -> float:
    """Both tails; beyond all permutations by the normal distribution with their moments."""
    tail = 1 + min((repeated >= observed).sum(), (repeated <= observed).sum())
    counted = min(1.0, 2 * tail / (1 + repeated.size))
    if tail > 1 or repeated.std() == 0:
        return float(counted)
    return float(min(counted, 2 * norm.sf(abs(observed - repeated.mean()) / repeated.std())))
