"""Before any model is trained: how exact can corrected metrics be, and which ones to use?

Corrected metrics weigh a hit on label j by 1/p_j (P@k, nDCG@k) or by the exact normalised weight
T_j (R@k, `weights.normalized_weights`). What the masks cost depends on labels, propensities and on
which labels a model prefers. Before there is a model, the standard errors are those of one that
puts min(k, N*) true labels of every row first, in random choice (nDCG@k: normaliser taken as
known). A model that prefers labels of low propensity pays more. For P@k there is a limit that holds
for every model: its row value is at most x = the sum of the k largest 1/p of the row's observed
labels, divided by k, so its standard error is at most √(mean x² / n).

ESS, the effective sample size, is (Σ w)² / Σ w²: as many unweighted labels would be as exact.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from unmask._typing import Floats
from unmask.arrays import entry_rows
from unmask.diagnosis.evidence import row_sums
from unmask.diagnosis.findings import Finding, FindingKind, Usability
from unmask.propensity.models import reciprocal
from unmask.weights import count_distribution, normalized_weights

USELESS = 0.1
"""A standard error above which an estimate has no use."""
HUGE = 1e100


def usability(
    labels: sp.csr_array, p: Floats, places: tuple[int, ...], rng: np.random.Generator
) -> Usability:
    """Expected standard errors and the figures behind them."""
    inverse = reciprocal(p[labels.indices])
    exact = normalized_weights(labels.indptr, inverse)
    row_total = row_sums(labels, exact / _scale(exact))
    return {
        "standard_error": _standard_errors(labels, p, inverse, exact, places, rng),
        "largest_standard_error": {
            f"P@{k}": _largest_precision_error(labels, inverse, k) for k in places
        },
        "effective_sample_size": {"P": _kish(inverse), "R": _kish(np.abs(exact))},
        "observed_labels": int(labels.nnz),
        "largest_weight": {
            "1/p": float(inverse.max(initial=1.0)),
            "T": float(np.abs(exact).max(initial=1.0)),
        },
        "rows_with_negative_total_weight": float((row_total < 0).mean()),
    }


def _standard_errors(
    labels: sp.csr_array, p: Floats, inverse: Floats, exact: Floats,
    places: tuple[int, ...], rng: np.random.Generator,
) -> dict[str, float]:  # fmt: skip
    n, m = labels.shape[0], np.diff(labels.indptr)
    share = count_distribution(labels, p, tolerance=1e-6).share[m]  # E[1/N* | m] of every row
    uniform, errors = rng.random(labels.nnz), {}
    by_label, by_share = _scale(inverse), _scale(exact)
    for k in places:
        hit = uniform < np.repeat(np.minimum(1.0, k * share), m)
        filled = 1 / np.maximum(share, 1 / k)  # min(k, N*): the places a right model can fill
        hits = row_sums(labels, hit * (inverse / by_label))
        for name, row, scale in (
            (f"P@{k}", hits / k, by_label),
            (f"R@{k}", row_sums(labels, hit * (exact / by_share)), by_share),
            (f"nDCG@{k}", hits / filled, by_label),
        ):
            errors[name] = float(row.std() / np.sqrt(n)) * scale
    return errors


def _largest_precision_error(labels: sp.csr_array, inverse: Floats, k: int) -> float:
    """√(mean x² / n) with x = the k largest 1/p of the row's observed labels, divided by k."""
    rows = entry_rows(labels)
    order = np.lexsort((-inverse, rows))  # rows stay together, the largest weight of each first
    place = np.arange(labels.nnz) - labels.indptr[rows]
    scale = _scale(inverse)
    most = row_sums(labels, np.where(place < k, inverse[order], 0.0) / scale) / k
    return float(np.sqrt((most**2).mean() / labels.shape[0])) * scale


def _scale(weights: Floats) -> float:
    """1, or the largest of weights whose squares or sums could exceed float64."""
    largest = float(np.abs(weights).max(initial=1.0))
    return largest if largest > HUGE else 1.0


def _kish(weights: Floats) -> float:
    largest = weights.max(initial=0.0)
    scaled = weights / largest if largest else weights
    return float(scaled.sum() ** 2 / (scaled**2).sum()) if largest else 0.0


def usability_findings(usability: Usability, refuted: bool) -> Iterator[Finding]:
    """What the figures mean for the choice of an estimator and of a loss."""
    errors, sizes = usability["standard_error"], usability["effective_sample_size"]
    weights = {
        "largest_weight_P": usability["largest_weight"]["1/p"],
        "largest_weight_R": usability["largest_weight"]["T"],
    }
    precision, recall = (_largest_error(errors, metric) for metric in ("P", "R"))
    yield Finding(
        FindingKind.STANDARD_ERRORS,
        "warning" if max(precision, recall) > USELESS else "info",
        {
            **errors,
            "precision_error": precision,
            "recall_error": recall,
            "largest_precision_error": max(usability["largest_standard_error"].values()),
            **weights,
            "observed_labels": usability["observed_labels"],
            "effective_sample_size_P": sizes["P"],
            "effective_sample_size_R": sizes["R"],
        },
    )
    yield Finding(
        FindingKind.ESTIMATOR,
        "warning" if recall > USELESS and not refuted else "info",
        {"recall_error": recall, "refuted": refuted},
    )
    negative = usability["rows_with_negative_total_weight"]
    yield Finding(FindingKind.LOSS, "info", {**weights, "negative_rows": negative})


def _largest_error(errors: dict[str, float], metric: str) -> float:
    return max(error for name, error in errors.items() if name.partition("@")[0] == metric)
