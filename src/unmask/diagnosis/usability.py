"""Before any model is trained: how exact can corrected metrics be, and which ones to use?

Corrected metrics weigh a hit on label j by 1/p_j (P@k, nDCG@k) or by the exact normalised weight
T_j (R@k, `weights.normalized_weights`). What the masks cost depends on labels and propensities,
hardly on the model, so it can be known beforehand: the standard errors are those of a model that
puts min(k, N*) true labels of every row first, in random choice (nDCG@k: normaliser taken as
known). No model makes the masks cost more in P@k; that real models are better on some rows than on
others comes on top.

ESS, the effective sample size, is (Σ w)² / Σ w²: as many unweighted labels would be as exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask.diagnosis.feasibility import row_sums
from unmask.diagnosis.findings import Finding
from unmask.propensity.models import reciprocal
from unmask.weights import count_distribution, normalized_weights

Floats = NDArray[np.float64]

EXACT_ENOUGH = 0.01
"""A standard error that lets one tell apart models that differ by two points."""
USELESS = 0.1
HUGE = 1e100


def usability(
    labels: sp.csr_array, p: Floats, places: tuple[int, ...], rng: np.random.Generator
) -> dict[str, Any]:
    """Expected standard errors and the figures behind them."""
    inverse = reciprocal(p[labels.indices])
    exact = normalized_weights(labels.indptr, inverse)
    row_total = row_sums(labels, exact / _scale(exact))
    return {
        "standard_error": _standard_errors(labels, p, inverse, exact, places, rng),
        "effective_sample_size": {"P": _kish(inverse), "R": _kish(np.abs(exact))},
        "observed_labels": int(labels.nnz),
        "largest_weight": {
            "1/p": float(inverse.max(initial=1.0)),
            "T": float(np.abs(exact).max(initial=1.0)),
        },
        "rows_with_negative_total_weight": float((row_total < 0).mean()) if len(row_total) else 0.0,
    }


def _standard_errors(
    labels: sp.csr_array, p: Floats, inverse: Floats, exact: Floats,
    places: tuple[int, ...], rng: np.random.Generator,
) -> dict[str, float]:  # fmt: skip
    n, m = labels.shape[0], np.diff(labels.indptr)
    share = count_distribution(labels, p, tolerance=1e-6).share[m]  # E[1/N* | m] of every row
    luck, errors = rng.random(labels.nnz), {}
    by_label, by_share = _scale(inverse), _scale(exact)
    for k in places:
        hit = luck < np.repeat(np.minimum(1.0, k * share), m)
        filled = 1 / np.maximum(share, 1 / k)  # min(k, N*): the places a right model can fill
        hits = row_sums(labels, hit * (inverse / by_label))
        for name, row, scale in (
            (f"P@{k}", hits / k, by_label),
            (f"R@{k}", row_sums(labels, hit * (exact / by_share)), by_share),
            (f"nDCG@{k}", hits / filled, by_label),
        ):
            errors[name] = float(row.std() / np.sqrt(max(n, 1))) * scale
    return errors


def _scale(weights: Floats) -> float:
    """1, or the largest of weights whose squares or sums could exceed float64."""
    largest = float(np.abs(weights).max(initial=1.0))
    return largest if largest > HUGE else 1.0


def _kish(weights: Floats) -> float:
    largest = weights.max(initial=0.0)
    scaled = weights / largest if largest else weights
    return float(scaled.sum() ** 2 / (scaled**2).sum()) if largest else 0.0


def usability_findings(found: dict[str, Any], broken: bool) -> Iterator[Finding]:
    """What the figures mean for the choice of an estimator and of a loss."""
    errors, ess, largest = (
        found[key] for key in ("standard_error", "effective_sample_size", "largest_weight")
    )
    precision = max(value for name, value in errors.items() if name.startswith("P@"))
    recall = max(value for name, value in errors.items() if name.startswith("R@"))
    yield Finding(
        "warning" if max(precision, recall) > USELESS else "info",
        "How exact unbiased metrics can be",
        f"Standard errors with these rows, whatever the model: {_listed(errors)}. The largest "
        f"weight of a label is {largest['1/p']:.3g} in P and nDCG and {largest['T']:.3g} in R; "
        f"{found['observed_labels']:,} labels are worth {ess['P']:,.0f} of equal weight in P and "
        f"nDCG, {ess['R']:,.0f} in R.",
        "More rows divide these by the root of their number; clipping or tempering the "
        "propensities trades them for bias."
        if max(precision, recall) > EXACT_ENOUGH
        else "Precise enough.",
    )
    yield _estimator(recall, broken)
    yield _loss(found)


def _listed(errors: dict[str, float]) -> str:
    """Errors metric by metric; of one above 1 nothing more is said."""
    groups: dict[str, dict[str, float]] = {}
    for name, value in errors.items():
        metric, _, k = name.partition("@")
        groups.setdefault(metric, {})[k] = value
    return "; ".join(
        f"{metric}@k "
        + (
            "above 1, of no use"
            if min(of_k.values()) > 1
            else ", ".join(f"±{value:.2g} at {k}" for k, value in of_k.items())
        )
        for metric, of_k in groups.items()
    )


def _estimator(recall: float, broken: bool) -> Finding:
    if broken:
        advice = (
            "Report `vanilla`, as what was observed, and corrected numbers (`unbiased` for P@k, "
            "`deconvolved` for R@k) only with the errors above beside them."
        )
    elif recall <= EXACT_ENOUGH:
        advice = "Use `unbiased` for every metric."
    else:
        advice = (
            "Use `unbiased` for P@k and DCG@k, `deconvolved` for R@k, nDCG@k and F1@k, and `bound` "
            "as a check from above."
        )
    severity = "warning" if recall > USELESS and not broken else "info"
    return Finding(
        severity,
        "Which estimator of a metric",
        (
            f"Unbiased recall has a standard error of {recall:.2g}"
            if recall <= 1
            else "Unbiased recall is nothing but noise here"
        )
        + (", and labels did not go missing as the corrections assume." if broken else "."),
        advice,
    )


def _loss(found: dict[str, Any]) -> Finding:
    negative, largest = found["rows_with_negative_total_weight"], found["largest_weight"]["1/p"]
    normalized = (
        "`empirical_bayes` weights (positive, unbiased on average) for normalised losses"
        if negative > 0.01 or found["largest_weight"]["T"] > 100
        else "`unbiased` weights also for normalised losses"
    )
    return Finding(
        "info",
        "Which loss to train",
        f"Plain unbiased weights reach {largest:.3g}; above 1, hinge losses are unbounded below. "
        f"Unbiased weights of normalised losses reach {found['largest_weight']['T']:.3g}, and "
        f"{negative:.1%} of the rows have a negative total, for which softmax is not convex.",
        f"Logistic one-vs-all with `unbiased` weights (convex for any weights); {normalized}; "
        "`bound` with hinge losses.",
    )
