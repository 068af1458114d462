"""Metrics use judged pairs: equal to labels and rankings from which they were taken by hand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import propensity
from unmask.data import Dataset
from unmask.metrics import compare, evaluate
from unmask.metrics.judged_pairs import judged_pairs
from unmask.predictions import LabelSets, TopK

N, L = 40, 8
RNG = np.random.default_rng(0)
LABELS = (RNG.random((N, L)) < 0.4).astype(np.float32)
SCORES = RNG.random((N, L))
JUDGED = RNG.choice([0.0, 0.0, 0.0, 1.0, -1.0, 2.0], (N, L)).astype(np.float32)
IGNORED = np.where(JUDGED == 2, JUDGED, 0)
P = np.linspace(0.3, 0.9, L)
METRICS = ["P@3", "R@3", "nDCG@3"]


def values(table: object) -> list[tuple[str, str, float, float]]:
    return [(e.metric, e.estimator, e.value, e.standard_error) for e in table]  # type: ignore


def test_ignored_pairs_leave_ranking_and_labels() -> None:
    """As if the pair could not be predicted (−inf) and were no label."""
    by_hand = evaluate(
        TopK.from_scores(np.where(IGNORED > 0, -np.inf, SCORES), 3),
        np.where(IGNORED > 0, 0, LABELS), P, metrics=METRICS,
        estimators=["vanilla", "unbiased", "deconvolved"],
    )  # fmt: skip
    rows = Dataset(None, LABELS, judgements=IGNORED)
    evaluated = evaluate(
        SCORES, rows, P, metrics=METRICS, estimators=["vanilla", "unbiased", "deconvolved"]
    )
    assert values(evaluated) == values(by_hand)
    assert evaluated.run is not None
    assert evaluated.run.ignored_pairs == (IGNORED > 0).sum()
    assert f"{(IGNORED > 0).sum()} ignored pairs were left out of rankings and labels." in str(
        evaluated
    )
    assert evaluated.run.to_dict()["ignored_pairs"] == (IGNORED > 0).sum()


def test_verified_labels_are_certain() -> None:
    """Positives count with p = 1, negatives not at all, also where the data show them."""
    rows = Dataset(None, LABELS, judgements=JUDGED)
    truth = np.where(JUDGED == 0, LABELS, JUDGED == 1).astype(np.float32)
    entries = sp.csr_array(truth)
    chance = np.where(JUDGED == 1, 1.0, P)[truth > 0]
    entries = sp.csr_array((chance, entries.indices, entries.indptr), shape=entries.shape)
    top = TopK.from_scores(np.where(JUDGED == 2, -np.inf, SCORES), 3)
    expected = evaluate(top, truth, entries, metrics=METRICS)
    assert values(evaluate(SCORES, rows, P, metrics=METRICS)) == values(expected)
    both = compare({"a": SCORES, "b": -SCORES}, rows, P, metrics=["P@3"])
    by_hand = compare(
        {"a": top, "b": TopK.from_scores(np.where(JUDGED == 2, -np.inf, -SCORES), 3)},
        truth, entries, metrics=["P@3"],
    )  # fmt: skip
    assert both["b"]["P@3", "unbiased"].value == by_hand["b"]["P@3", "unbiased"].value


def test_a_data_set_without_judgements_is_its_labels() -> None:
    plain = evaluate(SCORES, LABELS, P, metrics=METRICS)
    assert values(evaluate(SCORES, Dataset(None, LABELS), P, metrics=METRICS)) == values(plain)


def test_verified_labels_and_an_estimate_are_refused() -> None:
    estimate = propensity.from_counts([5] * L, [9] * L, counts=[20] * L, n=100)
    with pytest.raises(ValueError, match=r"verified labels have propensity 1.* pass its `.value`"):
        evaluate(SCORES, Dataset(None, LABELS, judgements=JUDGED), estimate, metrics=METRICS)
    only_ignored = Dataset(None, LABELS, judgements=IGNORED)
    assert len(evaluate(SCORES, only_ignored, estimate, metrics=["P@1"], draws=3)) == 2


def test_predictions_without_pairs_move_up() -> None:
    top = TopK([[3, 1, 0], [2, 0, -1]], [[0.9, 0.5, 0.1], [0.7, 0.2, -np.inf]], ["x", "y"])
    left = top.without(sp.csr_array(np.array([[0, 1, 0, 0], [0, 0, 1, 0]])))
    np.testing.assert_array_equal(left.labels, [[3, 0, -1], [0, -1, -1]])
    assert list(left.ids or ()) == ["x", "y"]
    np.testing.assert_array_equal(left.first(1).labels, [[3], [0]])
    assert top.without(sp.csr_array((2, 4))) is top


@pytest.mark.parametrize("sparse", [False, True])
def test_sets_and_sparse_scores_lose_their_ignored_pairs(sparse: bool) -> None:
    rows = Dataset(None, LABELS, judgements=IGNORED)
    kept = np.where(IGNORED > 0, 0, SCORES)
    if sparse:
        evaluated = evaluate(sp.csr_array(SCORES), rows, P, metrics=METRICS)
        by_hand = evaluate(sp.csr_array(kept), np.where(IGNORED > 0, 0, LABELS), P, metrics=METRICS)
    else:
        evaluated = evaluate(LabelSets.from_scores(SCORES, 0.5), rows, P)
        by_hand = evaluate(
            LabelSets.from_scores(kept, 0.5), np.where(IGNORED > 0, 0, LABELS), P
        )  # fmt: skip
    np.testing.assert_equal(values(evaluated), values(by_hand))


def test_predictions_are_matched_by_ids_and_names() -> None:
    rng = np.random.default_rng(3)
    n = len(LABELS)
    ids, names = [f"row {i}" for i in range(n)], tuple(f"label {j}" for j in range(L))
    rows = Dataset(None, LABELS, ids=ids, label_names=names)
    order, columns = rng.permutation(n), rng.permutation(L)
    moved = TopK.from_scores(SCORES[order][:, columns], 3).named(
        ids=[ids[i] for i in order], names=[names[j] for j in columns]
    )
    expected = evaluate(TopK.from_scores(SCORES, 3), LABELS, P, metrics=["P@1", "R@3"])
    matched = evaluate(moved, rows, P, metrics=["P@1", "R@3"])
    np.testing.assert_equal(values(matched), values(expected))
    chosen = SCORES > 0.5
    sets = LabelSets(sp.csr_array(chosen[order]), ids=[ids[i] for i in order])
    by_position = evaluate(LabelSets(sp.csr_array(chosen)), LABELS, P)
    np.testing.assert_equal(values(evaluate(sets, rows, P)), values(by_position))
    with pytest.raises(ValueError, match=r"of the predictions has no labels"):
        evaluate(moved.named(ids=["x", *list(moved.ids or ())[1:]]), rows, P, metrics=["P@1"])


def test_metrics_that_count_every_pair_refuse_ignored_pairs() -> None:
    rows = Dataset(None, [[1, 1, 0], [0, 1, 0]], judgements=[[2, 0, 0], [0, 0, 0]])
    scores = np.array([[0.9, 0.5, 0.1], [0.2, 0.8, 0.3]])
    with pytest.raises(ValueError, match=r"macro-AUC count every pair .* 1 pairs are to be ign"):
        evaluate(scores, rows, metrics=["P@1", "macro-AUC"])
    with pytest.raises(ValueError, match="leave out these metrics"):
        compare({"a": scores, "b": scores}, rows, metrics=["mAP"])
    assert evaluate(scores, rows, metrics=["P@1"])["P@1", "vanilla"].value == 1.0


def test_predictions_of_other_rows_or_labels_are_refused() -> None:
    rows = Dataset(None, [[1, 1, 0]], judgements=[[2, 0, 0]])
    pairs = judged_pairs(rows)
    assert pairs is not None
    with pytest.raises(ValueError, match="must have the same rows and labels"):
        pairs.predictions(sp.csr_array([[0.5, 0.2, 0.1], [0.3, 0.0, 0.1]]))
