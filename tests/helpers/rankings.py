"""Row metrics by their references, and rows to try them on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from tests.helpers.strategies import propensity_vectors
from unmask.metrics import METRICS
from unmask.metrics.reference import Reference
from unmask.predictions import TopK

LISTED = {name: metric for name, metric in METRICS.items() if metric.reads == "list"}
"""Metrics of rankings and sets; the others read a matrix of scores."""

OF_ROWS = [name for name, metric in LISTED.items() if metric.over == "rows"]

DEFINITIONS: dict[str, Reference] = {
    name: metric.reference for name, metric in METRICS.items() if metric.reference is not None
}


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
