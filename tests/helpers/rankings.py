"""Row metrics by their definitions, and rows to try them on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from tests.helpers.strategies import propensity_vectors
from unmask.metrics import METRICS
from unmask.predictions import TopK


def hits(ranking: Sequence[int], true: Sequence[int], k: int) -> int:
    return len(set(ranking[:k]) & set(true))


def gains(ranking: Sequence[int], true: Sequence[int], k: int) -> float:
    return sum(1 / math.log2(2 + r) for r, j in enumerate(ranking[:k]) if j in true)


def ideal(k: int) -> float:
    return sum(1 / math.log2(2 + r) for r in range(k))


def first_hit(ranking: Sequence[int], true: Sequence[int], k: int) -> float:
    return next((1 / (r + 1) for r, j in enumerate(ranking[:k]) if j in true), 0.0)


def misordered(ranking: Sequence[int], true: Sequence[int], k: int) -> int:
    listed = list(ranking[:k])
    place = {j: r for r, j in enumerate(listed)}
    return sum(
        1
        for right in true
        for wrong in listed
        if wrong not in true and place[wrong] < place.get(right, len(listed))
    )


DEFINITIONS: dict[str, Callable[[Sequence[int], Sequence[int], int], float]] = {
    "P": lambda r, y, k: hits(r, y, k) / k,
    "R": lambda r, y, k: hits(r, y, k) / max(len(y), 1),
    "F1": lambda r, y, k: 2 * hits(r, y, k) / (k + len(y)),
    "Jaccard": lambda r, y, k: hits(r, y, k) / (k + len(y) - hits(r, y, k)),
    "hit": lambda r, y, k: float(hits(r, y, k) > 0),
    "DCG": gains,
    "nDCG": lambda r, y, k: gains(r, y, k) / ideal(max(min(k, len(y)), 1)),
    "R-precision": lambda r, y, k: hits(r, y, min(k, len(y))) / min(k, len(y)) if y else 0.0,
    "MRR": first_hit,
    "Kendall-tau": misordered,
}


OF_ROWS = [name for name, metric in METRICS.items() if metric.over == "rows"]


def one_top(rankings: Sequence[Sequence[int]]) -> TopK:
    width = max(map(len, rankings))
    labels = np.full((len(rankings), width), -1, dtype=np.int32)
    for row, ranking in enumerate(rankings):
        labels[row, : len(ranking)] = ranking
    places = np.broadcast_to(-np.arange(width, dtype=np.float32), labels.shape)
    return TopK(labels, np.where(labels < 0, np.float32(-np.inf), places))


def dense_rows(label_sets: Sequence[Sequence[int]], n_labels: int) -> sp.csr_array:
    rows = np.zeros((len(label_sets), n_labels))
    for row, chosen in enumerate(label_sets):
        rows[row, list(chosen)] = 1
    return sp.csr_array(rows)


@st.composite
def ranked_rows(draw: st.DrawFn, n_labels: int = 7) -> tuple[list[int], list[int], np.ndarray]:
    ranking = draw(st.permutations(range(n_labels)))
    listed = ranking[: draw(st.integers(5, n_labels))]
    true = draw(st.sets(st.integers(0, n_labels - 1)))
    return listed, sorted(true), draw(propensity_vectors(n_labels))
