"""Does any curve over label frequency describe real propensities? Deviances of four models.

    D = 2 Σ_j [ k ln(k / (K p)) + (K − k) ln((K − k) / (K (1 − p))) ] / L

with K_j true labels j of which k_j were observed. `free` is one number per label (its deviance is
0 by definition, so what is told is how many labels there are), `constant` one number for all,
`Jain` the formula with its usual constants, and `fitted` the best curve of Jain's shape,
logit p = c + a ln(n_j + 1.5), with both numbers chosen by the true labels themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, xlogy
from scipy.stats import spearmanr

from unmask import propensity
from unmask._typing import Floats
from unmask_studies.reality.pairs import Pair
from unmask_studies.runs import Row

OFFSET = 1.5
"""b of Jain's formula."""


def shapes(pair: Pair) -> Iterator[Row]:
    """One row: the deviance per label of every model, on the training rows."""
    observed, true = pair.split.train_labels, pair.true_train
    width = observed.shape[1]
    kept = np.bincount(observed.multiply(true).tocsr().indices, minlength=width).astype(np.float64)
    present = np.bincount(true.indices, minlength=width).astype(np.float64)
    used = present > 0
    k, K = kept[used], present[used]
    counts = np.bincount(observed.indices, minlength=width)[used]
    rates = {
        "constant": np.full(k.size, k.sum() / K.sum()),
        "Jain": np.asarray(propensity.jain(observed))[used],
        "fitted": fitted(k, K, np.log(counts + OFFSET)),
    }
    yield {
        "kind": "shape", "labels": int(used.sum()),
        "rank_correlation": float(spearmanr(k / K, K)[0]),
        "deviances": {name: deviance(k, K, p) / k.size for name, p in rates.items()},
    }  # fmt: skip


def deviance(k: Floats, K: Floats, p: Floats) -> float:
    """Of binomial counts k of K with probabilities p.

    >>> deviance(np.array([2.0]), np.array([4.0]), np.array([0.5]))
    0.0
    """
    p = np.clip(p, 1e-9, 1 - 1e-9)
    lost = K - k
    terms = xlogy(k, k / (K * p)) + xlogy(lost, lost / (K * (1 - p)))
    return float(2 * terms.sum())


def fitted(k: Floats, K: Floats, x: Floats) -> Floats:
    """The probabilities expit(c + a x) of greatest likelihood."""

    def loss(parameters: Floats) -> float:
        return deviance(k, K, expit(parameters[0] + parameters[1] * x))

    best = minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-6})
    values: Floats = expit(best.x[0] + best.x[1] * x)
    return values
