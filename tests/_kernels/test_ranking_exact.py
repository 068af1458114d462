"""Metrics that need all labels of a row, by their formulas, row by row."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from unmask.metrics import contributions
from unmask.predictions import TopK

RNG = np.random.default_rng(12)
N, L, WIDTH = 40, 9, 6
LABELS = RNG.random((N, L)) < 0.4
P = RNG.uniform(0.3, 1.0, L)
TOP = TopK.from_scores(RNG.standard_normal((N, L)), WIDTH)


def rows_of(metric: str, estimator: str) -> np.ndarray:
    made = contributions(
        TOP, sp.csr_array(LABELS.astype(float)), P, metrics=[metric], estimators=[estimator]
    )
    (values,) = made.values()
    return np.asarray(values).ravel()


def expected(metric: str, k: int, estimator: str) -> np.ndarray:
    out = np.zeros(N)
    for i in range(N):
        observed = np.flatnonzero(LABELS[i])
        hits = [j for j in TOP.labels[i, :k].tolist() if LABELS[i, j]]
        q, total = 1 / P, (1 / P[observed]).sum()
        inside = sum(q[j] for j in hits)
        if not hits:
            continue
        if estimator == "self_normalized":
            out[i] = inside / total if metric == "R" else 2 * inside / (k + total)
        elif metric == "R":
            out[i] = sum(q[j] / (1 + total - q[j]) for j in hits)
        elif metric == "F1":
            out[i] = sum(2 * q[j] / (k + 1 + total - q[j]) for j in hits)
        else:
            out[i] = inside / (k + total - inside)
    return out


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize(
    ("metric", "estimator"),
    [("R", "bound"), ("F1", "bound"), ("Jaccard", "bound"), ("R", "self_normalized")],
)
def test_bounds_and_self_normalized_values_are_their_formulas(
    metric: str, estimator: str, k: int
) -> None:
    values = rows_of(f"{metric}@{k}", estimator)
    np.testing.assert_allclose(values, expected(metric, k, estimator), rtol=1e-12)
