"""Per label: recall and precision are those of the true labels, on average over all masks."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from unmask import TopK
from unmask.metrics import label_counts

TRUE = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])
TOP = TopK.from_scores([[3.0, 2, 1], [3, 1, 2], [1, 2, 3], [2, 3, 1]], k=2)
P = np.array([0.5, 0.25, 0.8])


def test_hits_by_p_are_unbiased_by_enumeration_of_all_masks() -> None:
    """E[hits / (p · predicted)] is the precision on the true labels."""
    entries = np.argwhere(TRUE)
    total = np.zeros(3)
    for kept in product((0, 1), repeat=len(entries)):
        observed = np.zeros_like(TRUE)
        observed[tuple(entries[np.array(kept, dtype=bool)].T)] = 1
        chance = np.prod(np.where(kept, P[entries[:, 1]], 1 - P[entries[:, 1]]))
        columns = label_counts(TOP, observed, P).columns()
        total += chance * np.array(columns["hits"]) / (P * np.array(columns["predicted"]))
    chosen = np.zeros_like(TRUE)
    np.put_along_axis(chosen, TOP.labels, 1, axis=1)
    assert total == pytest.approx((chosen * TRUE).sum(0) / chosen.sum(0), abs=1e-12)


def test_counts_shares_and_wilson_intervals() -> None:
    found = label_counts(TOP, TRUE, np.ones(3), names=["a", "b", "c"], train=TRUE, confidence=0.9)
    columns = found.columns()
    assert (columns["label"], columns["rows"]) == (["a", "b", "c"], [3, 3, 0])
    assert (columns["train_rows"], columns["hits"]) == ([3, 3, 0], [3, 3, 0])
    assert (columns["recall@2"], columns["predicted"]) == ([1.0, 1.0, None], [3, 3, 2])
    z2 = norm.ppf(0.95) ** 2  # all three are hits: the lower end is 3 / (3 + z²)
    assert columns["recall@2_low"][0] == pytest.approx(3 / (3 + z2), rel=1e-5)
    assert columns["recall@2_high"][0] == 1
    assert label_counts(TOP, TRUE, np.ones(3), k=1).k == 1


def test_shapes_must_fit() -> None:
    with pytest.raises(ValueError, match="predictions have 4 rows, labels 2"):
        label_counts(TOP, TRUE[:2], P)
    with pytest.raises(ValueError, match="label 2, but the 2 labels are 0 … 1"):
        label_counts(TOP, TRUE[:, :2], P[:2])
