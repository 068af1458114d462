"""Thresholds and calibration: the best of all thresholds, and probabilities of true labels."""

from __future__ import annotations

import numpy as np
import pytest

from unmask import LabelSets, evaluate, thresholds


def rows(n: int, n_labels: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """True and observed labels, propensities, and probabilities of true labels with noise."""
    rng = np.random.default_rng(seed)
    chance = rng.beta(0.6, 2.0, (n, n_labels))
    true = (rng.random(chance.shape) < chance).astype(int)
    p = rng.uniform(0.3, 0.7, n_labels)
    observed = true * (rng.random(true.shape) < p)
    return true, observed, p, chance


def f1_at(scores: np.ndarray, v: np.ndarray, cut: float) -> float:
    chosen = scores >= cut
    return float(2 * v[chosen].sum() / (chosen.sum() + v.sum()))


@pytest.mark.parametrize("digits", [6, 1])
def test_no_threshold_is_better_for_all_labels_together(digits: int) -> None:
    _, observed, p, scores = rows(60, 4, seed=0)
    scores = scores.round(digits)
    cut = thresholds.fit(scores, observed, p)
    v = observed / p
    best = max(f1_at(scores, v, t) for t in np.unique(scores))
    assert cut.value == pytest.approx(best, abs=1e-12)
    assert len(set(cut.values)) == 1
    table = evaluate(cut.apply(scores), observed, p, metrics=["micro-F1"])
    assert table["micro-F1", "unbiased"].value == pytest.approx(cut.value, abs=1e-12)


def test_no_threshold_is_better_for_a_label() -> None:
    _, observed, p, scores = rows(80, 4, seed=1)
    observed[5:, 2] = 0  # too few to choose by
    observed[:3, 2] = 1
    cut = thresholds.fit(scores, observed, p, metric="macro-F1", least=5)
    assert cut.own.tolist() == [True, True, False, True]
    v = observed / p
    for label in (0, 1, 3):
        tried = [f1_at(scores[:, label], v[:, label], t) for t in scores[:, label]]
        own = f1_at(scores[:, label], v[:, label], cut.values[label])
        assert own == pytest.approx(max(tried), abs=1e-12)
    assert cut.values[2] == thresholds.fit(scores, observed, p).values[0]
    each = [f1_at(scores[:, j], v[:, j], cut.values[j]) for j in range(4)]
    assert cut.value == pytest.approx(np.mean(each))


def test_costs_decide_how_sure_one_must_be() -> None:
    """Of calibrated probabilities: a wrong prediction that costs c times as much, c/(1 + c)."""
    true, _, _, scores = rows(20_000, 2, seed=2)
    for wrong, missing in ((1.0, 1.0), (3.0, 1.0), (1.0, 4.0)):
        cut = thresholds.fit(scores, true, metric="cost", cost=(wrong, missing))
        assert cut.values == pytest.approx(wrong / (wrong + missing), abs=0.08)
    assert np.isinf(thresholds.fit(1 - scores, true, metric="cost", cost=(50.0, 0.1)).values).all()


def test_thresholds_of_observed_labels_are_too_high_and_corrected_ones_are_not() -> None:
    true, observed, p, scores = rows(4000, 6, seed=3)
    truth = {}
    for name, labels, q in (
        ("clean", true, None), ("corrected", observed, p), ("vanilla", observed, None),
    ):  # fmt: skip
        cut = thresholds.fit(scores[:2000], labels[:2000], q)
        sets = cut.apply(scores[2000:])
        table = evaluate(sets, true[2000:], metrics=["micro-F1"])
        truth[name] = cut.values[0], table["micro-F1", "vanilla"].value
    assert truth["vanilla"][0] > truth["clean"][0] + 0.03
    assert abs(truth["corrected"][0] - truth["clean"][0]) < 0.06
    assert truth["corrected"][1] > truth["clean"][1] - 0.01
    assert truth["corrected"][1] > truth["vanilla"][1]


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_calibrated_scores_are_probabilities_of_true_labels(method: str) -> None:
    _, observed, p, chance = rows(8000, 3, seed=4)
    scores = 3 * np.log(chance / (1 - chance)) + 2  # any rising function of the chance
    curve = thresholds.calibrate(scores, observed, p, method=method)  # type: ignore[arg-type]
    error = curve.apply(scores) - chance
    assert np.abs(error).mean() < 0.03
    vanilla = thresholds.calibrate(scores, observed, method=method)  # type: ignore[arg-type]
    assert (vanilla.apply(scores) - chance).mean() < -0.08
    rising = curve.apply(np.sort(scores.ravel())[None])
    assert (np.diff(rising) >= 0).all()
    assert 0 <= rising.min() <= rising.max() <= 1


def test_platt_is_where_the_unbiased_loss_is_flat() -> None:
    _, observed, p, chance = rows(200, 3, seed=5)
    scores = chance.round(2)  # few different scores: bins hold one each
    curve = thresholds.calibrate(scores, observed, p, method="platt")
    residual = curve.apply(scores) - observed / p
    assert residual.mean() == pytest.approx(0, abs=1e-6)
    assert (residual * scores).mean() == pytest.approx(0, abs=1e-6)


def test_what_cannot_be_fitted_is_refused() -> None:
    scores = np.full((3, 2), 0.5)
    with pytest.raises(ValueError, match="unknown metric 'F1'"):
        thresholds.fit(scores, np.ones((3, 2)), metric="F1")
    for call in (thresholds.fit, thresholds.calibrate):
        with pytest.raises(ValueError, match="no label is observed"):
            call(scores, np.zeros((3, 2)))
        with pytest.raises(ValueError, match="same shape"):
            call(scores, np.ones((3, 3)))
    assert isinstance(thresholds.fit(scores, np.ones((3, 2))).apply(scores), LabelSets)
