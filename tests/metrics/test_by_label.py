"""Per label: recall and precision are those of the true labels, on average over all masks."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm

from unmask import LabelSets, TopK, evaluate
from unmask.metrics import label_counts, scored
from unmask.metrics.by_label import RANKINGS, label_rankings

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


def test_no_precision_exceeds_one() -> None:
    """Chance above 1 is 1; a whole interval above 1 refutes the label; a refuted run all of them.

    Of 60 predicted rows, 20, 24 and 48 show the label: by p = 0.5, 0.4 and 0.4 that is a precision
    of 2/3, 1 and 2, whose interval (Wilson 0.682 … 0.882, by p) begins at 1.70.
    """
    observed = (np.arange(60)[:, None] < [20, 24, 48]).astype(int)
    top = TopK(np.tile([0, 1, 2], (60, 1)), np.tile([3.0, 2.0, 1.0], (60, 1)))
    counts = label_counts(top, observed, [0.5, 0.39, 0.4])
    columns = counts.columns()
    assert columns["precision@3"] == [pytest.approx(2 / 3, rel=1e-5), 1.0, None]
    share, z2 = 24 / 60, norm.ppf(0.975) ** 2
    centre = (share + z2 / 120) / (1 + z2 / 60)
    half = np.sqrt(share * (1 - share) * z2 / 60 + z2**2 / 14400) / (1 + z2 / 60)
    assert columns["precision@3_low"][1] == pytest.approx((centre - half) / 0.39, rel=1e-5)
    assert columns["precision@3_high"] == [pytest.approx(0.918, abs=1e-3), 1.0, None]
    assert columns["precision@3_low"][2] is None
    refuted = replace(counts, refuted=True).columns()
    assert refuted["precision@3"] == refuted["precision@3_high"] == [None, None, None]
    assert refuted["recall@3"] == columns["recall@3"] == [1.0, 1.0, 1.0]


def test_sets_are_counted_without_places() -> None:
    sets = LabelSets(np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]]))
    counts = label_counts(sets, TRUE, np.ones(3))
    columns = counts.columns()
    assert (columns["predicted"], columns["hits"]) == ([2, 2, 1], [2, 1, 0])
    assert columns["recall"] == [
        pytest.approx(2 / 3, rel=1e-5),
        pytest.approx(1 / 3, rel=1e-5),
        None,
    ]
    assert columns["precision"] == [1.0, 0.5, 0.0]
    assert (counts.k, list(counts.to_dicts()[0])) == (0, list(columns))


def test_rankings_of_labels_are_those_of_evaluations_of_each() -> None:
    """AP and AUC; a label never recorded has none, nor one that its propensity puts above 1."""
    rng = np.random.default_rng(0)
    p = np.array([0.8, 0.6, 0.5, 0.3])
    true = (rng.random((400, 4)) < [0.3, 0.2, 0.0, 0.4]).astype(int)
    scores = 0.2 * true + rng.random((400, 4))
    labels = true * (rng.random((400, 4)) < [0.8, 0.6, 0.5, 1.0])
    scores[:, 3] = labels[:, 3]
    made = label_rankings(scores, labels, p, names=["a", "b", "c", "d"]).columns()
    tables = evaluate(scores, labels, p, metrics=["mAP", "macro-AUC"], by="label")
    for column, metric in (("average_precision", "mAP"), ("AUC", "macro-AUC")):
        for j in (0, 1):
            each = tables[str(j)][metric, "unbiased"]
            assert made[column][j] == pytest.approx(each.value, rel=1e-5)
            assert 0 <= made[f"{column}_low"][j] < made[column][j] < made[f"{column}_high"][j] <= 1
    assert made["average_precision"][2:] == [None, None]
    assert (made["label"], made["rows"][2]) == (["a", "b", "c", "d"], 0)


def test_rankings_of_a_label_stay_between_0_and_1() -> None:
    """An estimate above 1 is 1 where its interval reaches that far down, else it is none."""
    rng = np.random.default_rng(1)
    labels = (rng.random((8, 2)) < 0.5).astype(int)
    scores = labels + 0.8 * rng.random((8, 2))
    p = np.array([0.3, 0.5])
    observed = sp.csr_array(labels.astype(np.float32))
    whole = scored.AllRows((scored.Scored(scores, observed, (1 / p)[observed.indices]),))
    raw = whole.linearized(RANKINGS["AUC"], corrected=True).by_label
    assert raw is not None
    assert raw[1] == pytest.approx(2.5)
    about = label_rankings(scores, labels, p).to_dicts()[1]
    assert (about["AUC"], about["AUC_low"], about["AUC_high"]) == (1, 0, 1)
    assert about["average_precision"] is None


@pytest.mark.parametrize("confidence", [0.4, 1.0, 1.5])
def test_intervals_of_labels_have_a_confidence(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence must be at least"):
        label_rankings([[0.9], [0.1]], [[1], [0]], [0.5], confidence=confidence)
    with pytest.raises(ValueError, match="confidence must be at least"):
        label_counts(TOP, TRUE, P, confidence=confidence)
