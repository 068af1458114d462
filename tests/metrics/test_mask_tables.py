"""Wrong labels and slopes in metrics: unbiased by enumeration, doubtful where nothing is proved."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import data, evaluate
from unmask.metrics import compare
from unmask.metrics.vary import _less_wrong as _carried
from unmask.metrics.vary import beyond_effort as needs_more
from unmask.metrics.vary import refuse_slope
from unmask.metrics.vary import under_mask as table_by
from unmask.predictions import TopK
from unmask.propensity import MaskModel
from unmask.propensity.mask_model import ScoreSlope

P = np.array([0.5, 0.3, 0.8])
WRONG = np.array([0.05, 0.02, 0.1])


@pytest.mark.parametrize("metric", ["P@2", "DCG@2"])
@pytest.mark.parametrize("truth", [[1, 0, 1], [0, 0, 0], [1, 1, 0]])
def test_linear_metrics_are_unbiased_over_all_observations(metric: str, truth: list[int]) -> None:
    """Σ over observed y of P(y | y*) times (hits at p − ε, less what wrong labels add)."""
    top = TopK([[2, 0]], [[0.9, 0.4]])
    total = 0.0
    for observed in product((0, 1), repeat=3):
        one = np.where(truth, P, WRONG)
        chance = np.prod(np.where(observed, one, 1 - one))
        table = evaluate(
            top, [list(observed)], P - WRONG, metrics=[metric], estimators=["unbiased"]
        )
        each = _carried(table[metric, "unbiased"], top, WRONG / (P - WRONG))
        total += chance * each.value
    expected = evaluate(top, [truth], metrics=[metric])[metric, "vanilla"].value
    assert total == pytest.approx(expected)


def test_false_rates_bring_back_the_share_of_wrong_labels() -> None:
    """ε (rows without the label) is φ of the observed ones, N* = (1 − φ) n_j / p."""
    labels = sp.csr_array((np.random.default_rng(0).random((400, 3)) < [0.3, 0.1, 0.2]) * 1.0)
    mask = MaskModel(P, spurious=0.1)
    wrong, counts = mask.false_rate(labels), np.asarray(labels.sum(axis=0)).ravel()
    without = 400 - 0.9 * counts / P
    np.testing.assert_allclose(wrong * without, 0.1 * counts)


def test_wrong_labels_are_carried_by_linear_metrics_only() -> None:
    """20 % wrong labels: P@1 comes near the truth and is conditional, R@1 is doubtful."""
    rng = np.random.default_rng(3)
    truth = (rng.random((20_000, 6)) < 0.3).astype(np.float32)
    p = np.full(6, 0.5)
    mask = MaskModel(p, spurious=0.2)
    observed = data.hide(truth, mask, seed=0)
    scores = truth * 0.1 + rng.random(truth.shape)
    options = {"metrics": ["P@1", "R@1"], "estimators": ["unbiased", "deconvolved"]}
    table, naive = (
        evaluate(scores, observed, mask, **options),
        evaluate(scores, observed, p, **options),
    )
    true_value = evaluate(scores, truth, metrics=["P@1"])["P@1", "vanilla"].value
    assert abs(table["P@1", "unbiased"].value - true_value) < 0.015
    assert abs(naive["P@1", "unbiased"].value - true_value) > 0.03
    assert table["P@1", "unbiased"].verdict.level.value == "conditional"
    for name in ("unbiased", "deconvolved"):
        assert table["R@1", name].verdict.level.value == "doubtful"


def test_a_slope_gives_entries_their_own_propensity() -> None:
    rng = np.random.default_rng(4)
    labels = sp.csr_array((rng.random((300, 5)) < 0.4).astype(np.float32))
    scores = rng.random((300, 5))
    slope = ScoreSlope(1.0, -0.2, np.zeros(5), 0.5, 0.3)
    mask = MaskModel(np.full(5, 0.4), score_slope=slope)
    options = {"metrics": ["P@2", "R@2", "nDCG@2"], "estimators": ["unbiased"]}
    by_mask = evaluate(scores, labels, mask, **options)
    by_entry = evaluate(scores, labels, mask.of_entries(labels, scores), **options)
    for each, other in zip(by_mask, by_entry, strict=True):
        assert each.value == other.value
    assert by_mask["R@2", "unbiased"].verdict.level.value in ("doubtful", "unusable")
    assert by_mask.run is not None
    assert by_mask.run.source.score_slope == 1.0
    with pytest.raises(ValueError, match="the mask depends on the scores of one model"):
        compare({"a": scores, "b": -scores}, labels, mask, metrics=["P@2"])


def test_a_mask_of_other_labels_is_refused() -> None:
    slope = ScoreSlope(1.0, -0.2, np.zeros(3), 0.5, 0.3)
    for mask in (MaskModel(P, spurious=0.1), MaskModel(P, score_slope=slope)):
        top, labels = TopK([[1, 0]], [[0.9, 0.4]]), [[1, 0, 0, 1]]
        with pytest.raises(ValueError, match="3 propensities for 4 labels"):
            table_by(mask, top, top, labels, lambda _: pytest.fail("evaluated"))


def test_wrong_labels_lower_the_propensities_of_a_slope() -> None:
    """Entries of p_ij − ε_j, and less what wrong labels add, by hand over the places."""
    rng = np.random.default_rng(5)
    labels = sp.csr_array((rng.random((80, 3)) < 0.15).astype(np.float32))
    scores = rng.random((80, 3))
    mask = MaskModel(P, score_slope=ScoreSlope(1.0, -0.2, np.zeros(3), 0.5, 0.3), spurious=0.1)
    wrong = mask.false_rate(labels)
    entries = mask.of_entries(labels, scores)
    entries.data = entries.data - wrong[labels.indices]
    assert entries.data.min() > 1e-6
    options = {"metrics": ["P@2"], "estimators": ["unbiased"]}
    plain = evaluate(scores, labels, entries, **options)["P@2", "unbiased"]
    made = evaluate(scores, labels, mask, **options)["P@2", "unbiased"]
    first = np.argsort(-scores, axis=1)[:, :2]
    less = (wrong / (P - wrong))[first].sum() / 2 / 80
    assert made.value == pytest.approx(plain.value - less, rel=1e-6)
    assert made.details["wrong_labels"] == pytest.approx(less, rel=1e-6)
    ends = max(plain.interval[0] - less, 0.0), plain.interval[1] - less
    assert made.interval == pytest.approx(ends, rel=1e-6)


@pytest.mark.parametrize(
    ("metric", "less"),
    [
        ("P@2", ((0.5 + 0.25) + 0.1) / 2 / 2),
        ("P@3", ((0.5 + 0.25 + 0.1) + 0.1) / 3 / 2),
        ("DCG@2", ((0.5 + 0.25 / np.log2(3)) + 0.1) / 2),
        ("DCG@3", ((0.5 + 0.25 / np.log2(3) + 0.1 / 2) + 0.1) / 2),
        ("R@2", 0.0),
    ],
)
def test_places_without_a_prediction_hold_no_wrong_label(metric: str, less: float) -> None:
    top = TopK([[0, 1, 2], [2, -1, -1]], [[0.9, 0.8, 0.7], [0.9, -np.inf, -np.inf]])
    table = evaluate(top, [[1, 0, 0], [0, 1, 1]], P, metrics=[metric], estimators=["unbiased"])
    each = table[metric, "unbiased"]
    made = _carried(each, top, np.array([0.5, 0.25, 0.1]))
    assert made.value == pytest.approx(each.value - less, rel=1e-12)
    vanilla = evaluate(top, [[1, 0, 0], [0, 1, 1]], metrics=[metric])[metric, "vanilla"]
    assert _carried(vanilla, top, np.array([0.5, 0.25, 0.1])) is vanilla


def test_only_masks_with_a_slope_are_those_of_one_model() -> None:
    slope = ScoreSlope(1.0, -0.2, np.zeros(3), 0.5, 0.3)
    for mask in (None, P, MaskModel(P), MaskModel(P, spurious=0.1)):
        refuse_slope(["a", "b"], mask)
    with pytest.raises(ValueError, match="and 2 are compared"):
        refuse_slope(["a", "b"], MaskModel(P, score_slope=slope))
    needing = {None: False, MaskModel(P, 0.5): False, MaskModel(P, spurious=0.1): True}
    assert all(needs_more(mask) == more for mask, more in needing.items())
    assert needs_more(MaskModel(P, score_slope=slope))
    assert not needs_more(P)
