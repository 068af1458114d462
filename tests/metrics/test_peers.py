"""The same case through other people's libraries: their printed numbers, and scikit-learn live."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import (
    dcg_score,
    f1_score,
    jaccard_score,
    label_ranking_loss,
    ndcg_score,
    precision_score,
    recall_score,
)

from tests.helpers.rankings import dense_rows, one_top
from unmask.metrics import evaluate
from unmask.predictions import TopK

CASE = json.loads((Path(__file__).parent / "golden" / "metrics_peers.json").read_text())
KS = (1, 2, 3, 4, 5)

SAME = {
    "pyxclib precision": ("P", "vanilla"),
    "pyxclib ndcg": ("nDCG", "vanilla"),
    "pyxclib recall": ("R", "vanilla"),
    "pyxclib psprecision": ("PSP", "normalized"),
    "pyxclib psndcg": ("PSnDCG", "normalized"),
    "napkinxc precision_at_k": ("P", "vanilla"),
    "napkinxc recall_at_k": ("R", "vanilla"),
    "napkinxc dcg_at_k": ("DCG", "vanilla"),
    "napkinxc ndcg_at_k": ("nDCG", "vanilla"),
    "napkinxc coverage_at_k": ("coverage", "vanilla"),
    "napkinxc abandonment_at_k": ("hit", "vanilla"),
    "napkinxc macro_precision_at_k": ("macro-P", "vanilla"),
    "napkinxc macro_recall_at_k": ("macro-R", "vanilla"),
    "napkinxc macro_f1_measure_at_k": ("macro-F1", "vanilla"),
    "napkinxc psprecision_at_k normalize=True": ("PSP", "normalized"),
    "napkinxc psprecision_at_k normalize=False": ("P", "unbiased"),
    "napkinxc psndcg_at_k normalize=True": ("PSnDCG", "normalized"),
    "napkinxc psdcg_at_k normalize=True": ("PSDCG", "normalized"),
    "torchmetrics retrieval_precision": ("P", "vanilla"),
    "torchmetrics retrieval_recall": ("R", "vanilla"),
    "torchmetrics retrieval_hit_rate": ("hit", "vanilla"),
    "torchmetrics retrieval_reciprocal_rank": ("MRR", "vanilla"),
    "torchmetrics retrieval_normalized_dcg": ("nDCG", "vanilla"),
    "xcolumns macro_precision": ("macro-P", "vanilla"),
    "xcolumns macro_recall": ("macro-R", "vanilla"),
    "xcolumns macro_f1_score": ("macro-F1", "vanilla"),
    "xcolumns coverage": ("coverage", "vanilla"),
}


@pytest.fixture(scope="module")
def table() -> Any:
    metrics = [f"{name}@{k}" for name, _ in set(SAME.values()) for k in KS]
    return evaluate(
        one_top(CASE["top"]),
        dense_rows(CASE["labels"], 40),
        1 / np.array(CASE["inverse_propensity"]),
        metrics=metrics,
        estimators=["vanilla", "unbiased"],
    )


def over_all_labels(each: Any) -> float:
    """The value; of a metric per label with labels that cannot be counted as zeros, as peers do."""
    counted, left_out = (each.details.get(name, 0) for name in ("labels", "labels_left_out"))
    return each.value * counted / (counted + left_out) if left_out else each.value


@pytest.mark.parametrize("peer", SAME)
def test_same_definition_same_number(peer: str, table: Any) -> None:
    metric, estimator = SAME[peer]
    ours = [over_all_labels(table[f"{metric}@{k}", estimator]) for k in KS]
    tolerance = 1e-5 if peer.startswith("xcolumns") else 1e-6  # xcolumns adds ε to divisors
    assert ours == pytest.approx(CASE["peers"][peer], abs=tolerance)


def test_what_the_literature_calls_propensity_scored_recall_is_not_recall() -> None:
    """Its numerator Σ q / m on the toy example: 3/2 · 1/9 + 3 · 2/9 = 5/6, where recall is 1/2."""
    unnormalised = CASE["peers"]["napkinxc psrecall_at_k normalize=False"]
    q, labels, top = np.array(CASE["inverse_propensity"]), CASE["labels"], CASE["top"]
    rows = list(zip(top, labels, strict=True))
    theirs = [
        np.mean([sum(q[j] for j in t[:k] if j in y) / max(len(y), 1) for t, y in rows]) for k in KS
    ]
    assert theirs == pytest.approx(unnormalised, abs=1e-9)


def scored(seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = (rng.random((50, 12)) < 0.3).astype(int)
    labels[:, 0] |= labels.sum(axis=1) == 0
    return labels, rng.permuted(np.tile(np.arange(12.0), (50, 1)), axis=1)


def chosen(scores: np.ndarray, k: int) -> np.ndarray:
    """The top k as a matrix of zeros and ones."""
    places = np.zeros(scores.shape, dtype=int)
    np.put_along_axis(places, TopK.from_scores(scores, k).labels.astype(int), 1, axis=1)
    return places


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("P", lambda y, top: precision_score(y, top, average="samples")),
        ("R", lambda y, top: recall_score(y, top, average="samples")),
        ("F1", lambda y, top: f1_score(y, top, average="samples")),
        ("Jaccard", lambda y, top: jaccard_score(y, top, average="samples")),
        ("macro-P", lambda y, top: precision_score(y, top, average="macro", zero_division=np.nan)),
        ("macro-R", lambda y, top: recall_score(y, top, average="macro", zero_division=np.nan)),
        ("macro-F1", lambda y, top: f1_score(y, top, average="macro", zero_division=np.nan)),
    ],
)
def test_scikit_learn_on_the_top_as_a_set(name: str, theirs: Any) -> None:
    labels, scores = scored()
    for k in (1, 3, 12):
        table = evaluate(scores, labels, metrics=[f"{name}@{k}"])
        assert table[f"{name}@{k}", "vanilla"].value == pytest.approx(
            theirs(labels, chosen(scores, k))
        )


def test_scikit_learn_on_rankings() -> None:
    labels, scores = scored()
    table = evaluate(scores, labels, metrics=["nDCG@3", "DCG@3", "Kendall-tau"])
    value = {each.metric: each.value for each in table}
    assert value["nDCG@3"] == pytest.approx(ndcg_score(labels, scores, k=3))
    assert value["DCG@3"] == pytest.approx(dcg_score(labels, scores, k=3))
    right = labels.sum(axis=1)
    pairs = np.mean(
        [
            label_ranking_loss(labels[i : i + 1], scores[i : i + 1]) * right[i] * (12 - right[i])
            for i in range(50)
        ]
    )
    assert value["Kendall-tau"] == pytest.approx(pairs)
