"""Thresholds and calibration: the best of all thresholds, and probabilities of true labels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit

from unmask import LabelSets, evaluate, thresholds
from unmask.thresholds import platt


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
    cut = thresholds.fit(scores, observed, p, prior=0)
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
    cut = thresholds.fit(scores, observed, p, metric="macro-F1", least=5, prior=0)
    assert cut.own.tolist() == [True, True, False, True]
    v = observed / p
    for label in (0, 1, 3):
        tried = [f1_at(scores[:, label], v[:, label], t) for t in scores[:, label]]
        own = f1_at(scores[:, label], v[:, label], cut.values[label])
        assert own == pytest.approx(max(tried), abs=1e-12)
    for_all = thresholds.fit(scores, observed, p, metric="macro-F1", per="all", prior=0)
    assert cut.values[2] == for_all.values[0]
    each = [f1_at(scores[:, j], v[:, j], cut.values[j]) for j in range(4)]
    assert cut.value == pytest.approx(np.mean(each))


def test_costs_decide_how_sure_one_must_be() -> None:
    """Of calibrated probabilities: a wrong prediction that costs c times as much, c/(1 + c)."""
    true, _, _, scores = rows(20_000, 2, seed=2)
    for wrong, missing in ((1.0, 1.0), (3.0, 1.0), (1.0, 4.0)):
        cut = thresholds.fit(scores, true, metric="cost", cost=(wrong, missing), prior=0)
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


def fitted_chances(scores: np.ndarray, observed: np.ndarray, p: np.ndarray) -> np.ndarray:
    """(n, L) probabilities that are fitted to all labels together."""
    labels = sp.csr_array(observed.astype(np.float32))
    fitted = thresholds.fit_chances(scores, labels, 1 / p[labels.indices], p)
    made = np.empty(scores.shape)
    for label in range(scores.shape[1]):
        order = np.argsort(-scores[:, label], kind="stable")
        made[order, label] = fitted.of_label(scores[order, label])
    return made


def test_by_probabilities_alone_labels_are_predicted_above_half_of_the_best_f1() -> None:
    """The plug-in rule: what reaches the threshold has r ≥ F1*/2, what does not has less."""
    true, _, _, chance = rows(3000, 3, seed=7)
    chance = chance ** np.array([1.0, 2.0, 0.5])  # three labels of different frequency
    true = np.random.default_rng(8).random(chance.shape) < chance
    cut = thresholds.fit(chance, true, metric="F1 per label", prior=np.inf)
    fitted = fitted_chances(chance, true, np.ones(3))
    for label in range(3):
        r, chosen = fitted[:, label], chance[:, label] >= cut.values[label]
        best = 2 * r[chosen].sum() / (chosen.sum() + r.sum())
        assert r[chosen].min() >= best / 2 - 1e-12
        assert r[~chosen].max() <= best / 2 + 1e-12
    assert len(set(cut.values)) == 3


@pytest.mark.parametrize("metric", ["macro-F1", "micro-F1", "cost"])
def test_few_observations_are_drawn_to_fitted_probabilities(metric: str) -> None:
    """(o v + prior · r) / (o + prior), at every threshold of the label, or of all."""
    _, observed, p, scores = rows(70, 3, seed=9)
    scores = scores.round(2)
    r = fitted_chances(scores, observed, p)
    o = observed.sum(axis=0)
    for prior in (5.0, 30.0):
        v = (o * observed / p + prior * r) / (o + prior)
        cut = thresholds.fit(scores, observed, p, metric=metric, prior=prior)
        if metric == "micro-F1":
            assert not cut.own.any()
            tried = {t: f1_at(scores, v, t) for t in np.unique(scores)}
            assert tried[cut.values[0]] == pytest.approx(max(tried.values()), abs=1e-12)
            continue
        assert cut.own.all()
        for label in range(3):
            column, own = scores[:, label], v[:, label]
            value = f1_at if metric == "macro-F1" else gain_at
            tried = {t: value(column, own, t) for t in np.unique(column)}
            assert tried[cut.values[label]] == pytest.approx(max(tried.values()), abs=1e-12)


def gain_at(scores: np.ndarray, v: np.ndarray, cut: float) -> float:
    chosen = scores >= cut
    return float(2 * v[chosen].sum() - chosen.sum())


def test_fitted_probabilities_are_those_of_the_largest_likelihood() -> None:
    """Of P(y = 1) = p r, less the penalty; the search of another implementation ends there."""
    _, observed, p, scores = rows(120, 4, seed=13)
    labels = sp.csr_array(observed.astype(np.float32))
    fitted = thresholds.fit_chances(scores, labels, 1 / p[labels.indices], p)
    u = np.log([[(column >= s).mean() for s in column] for column in scores.T]).T
    pairs = np.stack([scores.ravel(), u.ravel()], axis=1)
    assert fitted.centre == pytest.approx(pairs.mean(axis=0))
    assert fitted.scale == pytest.approx(pairs.std(axis=0))
    x, z = ((pairs - fitted.centre) / fitted.scale).T
    terms = np.stack([np.ones(x.size), x, z, x * x, x * z, z * z], axis=1)
    share, y = np.tile(p, 120), observed.ravel()

    def loss(w: np.ndarray) -> float:
        chance = share / (1 + np.exp(-terms @ w))
        return float((0.1 * w[1:3] ** 2).sum() + (w[3:] ** 2).sum()
                     - np.where(y, np.log(chance), np.log1p(-chance)).sum())  # fmt: skip

    best = minimize(loss, np.zeros(6), method="BFGS", options={"gtol": 1e-6})
    assert loss(fitted.coefficients) == pytest.approx(best.fun, rel=1e-5)
    assert fitted.coefficients == pytest.approx(best.x, abs=0.05)
    curve = thresholds.calibrate(scores, observed, p).apply(scores)
    logistic = (1 / (1 + np.exp(-terms @ fitted.coefficients))).reshape(scores.shape)
    assert fitted_chances(scores, observed, p) == pytest.approx((curve + logistic) / 2)


def test_of_many_pairs_a_part_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that were observed or are near the top, and some of the others for all of them."""
    _, observed, p, scores = rows(2000, 5, seed=15)
    everything = fitted_chances(scores, observed, p)
    monkeypatch.setattr(thresholds, "PAIRS", 3000)
    part = fitted_chances(scores, observed, p)
    assert np.abs(part - everything).max() < 0.03
    assert np.abs(part - everything).max() > 0
    labels = sp.csr_array(observed.astype(np.float32))
    _, weights, of_pairs, flags = thresholds._sampled(scores, labels, p, (0.0, 1.0))
    assert flags.sum() == observed.sum()
    assert weights.size < 3100 + observed.sum()
    assert weights.sum() == pytest.approx(scores.size, rel=0.02)
    assert set(of_pairs) == set(p)


def test_of_many_rows_some_thresholds_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    _, observed, p, scores = rows(3000, 4, seed=16)
    fitted = {metric: thresholds.fit(scores, observed, p, metric=metric)
              for metric in ("micro-F1", "macro-F1")}  # fmt: skip
    monkeypatch.setattr(thresholds, "BLOCK", 1)
    labels = sp.csr_array(observed.astype(np.float32))
    inverse = 1 / p[labels.indices]
    chances = thresholds.fit_chances(scores, labels, inverse, p)
    tried = thresholds._drawn(chances, scores, labels, inverse, 100.0)[0].predicted - 1
    assert tried[:128].tolist() == list(range(128))
    assert tried[-1] == 2999
    assert 200 < tried.size <= 256
    for metric, cut in fitted.items():
        fewer = thresholds.fit(scores, observed, p, metric=metric)
        assert fewer.value == pytest.approx(cut.value, abs=3e-3)


def test_labels_without_an_observation_take_part() -> None:
    """Their threshold comes from the others; propensities of entries say as much as they can."""
    _, observed, p, scores = rows(400, 4, seed=17)
    observed[:, 3] = 0
    p[:] = 0.5
    cut = thresholds.fit(scores, observed, p, metric="macro-F1")
    assert 0 < cut.values[3] < 1
    entries = sp.csr_array(observed * p)
    same = thresholds.fit(scores, observed, entries, metric="macro-F1")
    assert same.values == pytest.approx(cut.values)
    lower = entries.copy()
    lower.data[:] = np.where(np.arange(lower.nnz) % 2, 0.3, 0.6)
    labels = sp.csr_array(observed.astype(np.float32))
    mean = thresholds.label_propensities(labels, 1 / lower.data)
    column = lower.tocsc()[:, [0]].data
    assert mean[0] == pytest.approx(column.size / (1 / column).sum())
    assert mean[3] == pytest.approx(lower.nnz / (1 / lower.data).sum())


def test_a_label_has_its_own_threshold_from_so_many_observations_on() -> None:
    """Without a prior from one on; with a prior also a label without any may have one."""
    rng = np.random.default_rng(0)
    scores = rng.random((30, 4))
    labels = (np.arange(30)[:, None] < np.array([0, 1, 2, 9])).astype(float)
    for prior, least, own in (
        (0.0, 0, [False, True, True, True]),
        (0.0, 1, [False, True, True, True]),
        (0.0, 2, [False, False, True, True]),
        (5.0, 0, [True, True, True, True]),
        (5.0, 9, [False, False, False, True]),
        (5.0, 10, [False, False, False, False]),
    ):
        made = thresholds.fit(scores, labels, metric="macro-F1", prior=prior, least=least)
        assert made.own.tolist() == own, (prior, least)


def test_infinite_scores_are_the_lowest_and_the_highest() -> None:
    _, observed, p, scores = rows(200, 3, seed=18)
    scores[0, 0], scores[1, 1] = -np.inf, np.inf
    finite = scores[np.isfinite(scores)]
    clipped = np.clip(scores, finite.min(), finite.max())
    for metric in ("micro-F1", "macro-F1"):
        cut = thresholds.fit(scores, observed, p, metric=metric)
        assert cut.values == pytest.approx(
            thresholds.fit(clipped, observed, p, metric=metric).values
        )
    nothing = np.full((20, 2), -np.inf)
    assert thresholds.fit(nothing, np.ones((20, 2))).values.tolist() == [-np.inf, -np.inf]


def test_thresholds_of_labels_and_bands_make_micro_f1_as_large_as_can_be() -> None:
    """Against all pairs of thresholds."""
    _, observed, p, scores = rows(25, 4, seed=10)
    scores = scores.round(1)
    v = observed / p
    bands = ["a", "b", "a", "b"]
    in_a = np.array([True, False, True, False])
    best = 0.0
    for first in [*np.unique(scores[:, in_a]), np.inf]:
        for second in [*np.unique(scores[:, ~in_a]), np.inf]:
            chosen = scores >= np.where(in_a, first, second)
            best = max(best, 2 * v[chosen].sum() / (chosen.sum() + v.sum()))
    cut = thresholds.fit(scores, observed, p, bands=bands, prior=0)
    assert cut.value == pytest.approx(best, abs=1e-12)
    assert cut.values[0] == cut.values[2]
    assert cut.values[1] == cut.values[3]
    each = thresholds.fit(scores, observed, p, per="label", prior=0)
    assert each.value >= best - 1e-12
    table = evaluate(each.apply(scores), observed, p, metrics=["micro-F1"])
    assert each.value == pytest.approx(table["micro-F1", "unbiased"].value, abs=1e-12)


def test_a_band_has_the_threshold_of_its_largest_mean_f1() -> None:
    _, observed, p, scores = rows(40, 4, seed=11)
    scores, v = scores.round(1), observed / p
    cut = thresholds.fit(scores, observed, p, metric="macro-F1", bands=[1, 1, 2, 2], prior=0)
    for labels in ([0, 1], [2, 3]):
        tried = {t: np.mean([f1_at(scores[:, j], v[:, j], t) for j in labels])
                 for t in np.unique(scores[:, labels])}  # fmt: skip
        assert tried[cut.values[labels[0]]] == pytest.approx(max(tried.values()), abs=1e-12)
    one = thresholds.fit(scores, observed, p, metric="macro-F1", per="all")
    assert len(set(one.values)) == 1
    assert not one.own.any()


def test_thresholds_are_read_as_they_were_written(tmp_path: Path) -> None:
    _, observed, p, scores = rows(40, 3, seed=12)
    cut = thresholds.fit(scores, observed, p, metric="macro-F1", names=["a", "b", "c"])
    cut.values[1] = np.inf
    thresholds.write(tmp_path / "cut.json", cut)
    back = thresholds.read(tmp_path / "cut.json")
    assert back.values.tolist() == cut.values.tolist()
    assert back.own.tolist() == cut.own.tolist()
    assert (back.metric, back.value, back.names) == (cut.metric, cut.value, cut.names)
    assert back.apply(scores).names == ("a", "b", "c")
    unequal = '{"thresholds": [1], "own": [], "names": null, "metric": "cost", "value": 1}'
    for text in ("{}", "[1]", '{"thresholds": ["x"]}', unequal):
        (tmp_path / "wrong.json").write_text(text)
        with pytest.raises(ValueError, match=r"wrong\.json"):
            thresholds.read(tmp_path / "wrong.json")


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


@pytest.mark.parametrize("start", [(0.0, 0.0), (8.0, 0.0), (-6.0, 3.0), (20.0, 5.0)])
def test_platt_ends_at_the_same_minimum_wherever_it_starts(start: tuple[float, float]) -> None:
    """Far out a whole step of Newton's would leap beyond all bounds: it is halved."""
    x, pairs = np.c_[np.linspace(-2, 2, 9), np.ones(9)], np.full(9, 100.0)
    true = np.round(pairs * expit(3 * x[:, 0] - 1))

    def loss(w: np.ndarray) -> float:
        return float(pairs @ np.logaddexp(0, x @ w) - true @ (x @ w) + 1e-6 * w @ w)

    exact = minimize(loss, np.zeros(2), options={"gtol": 1e-9}).x
    minimum = thresholds._minimised(loss, x, pairs, true, np.array(start))
    np.testing.assert_allclose(minimum, exact, atol=1e-5)


@pytest.mark.parametrize(
    ("scores", "block", "means", "pairs", "true"),
    [
        ([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], 100, [0.2, 0.5], [3, 3], [2, 7]),
        ([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], 6, [0.2, 0.5], [3, 3], [2, 7]),
        ([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], 2, [0.15, 0.45], [2, 4], [2, 7]),  # of 0.1 and 0.4
        ([[0, 1, 1], [1, 1, 2]], 100, [0, 1.2], [1, 5], [0, 9]),  # what equals an edge is above
        ([[3, 3, 3], [3, 3, 3]], 100, [3], [6], [9]),
    ],
)
def test_bins_hold_a_part_of_the_scores_each(
    monkeypatch: pytest.MonkeyPatch, scores: Any, block: int, means: Any, pairs: Any, true: Any
) -> None:
    monkeypatch.setattr(thresholds, "BINS", 2)
    monkeypatch.setattr(thresholds, "SAMPLE", block)
    observed = sp.csr_array(np.array([[0.0, 1, 0], [1, 0, 1]]))
    made = thresholds.binned(np.array(scores, np.float32), observed, np.array([2.0, 4, 3]))
    for mine, expected in zip(made, (means, pairs, true), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-6)


def test_rising_curves_join_what_falls_and_stay_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares 0.5, 0 and 2 at scores 0, 1 and 2: the first two are joined, the last is 1."""
    observed = sp.csr_array(np.array([[1.0, 0, 0, 1]]))
    made = thresholds.rising_curve(np.array([[0.0, 0, 1, 2]]), observed, np.array([1.0, 2]))
    np.testing.assert_allclose(made.scores, [0, 1, 2])
    np.testing.assert_allclose(made.probabilities, [1 / 3, 1 / 3, 1])
    np.testing.assert_allclose(made.apply([[-1, 0, 1.5, 9]]), [[1 / 3, 1 / 3, 2 / 3, 1]])


def test_a_logistic_curve_through_two_points() -> None:
    """Two shares are met but for the penalty: the logit is a line through both."""
    scores, pairs = np.array([2.0, 5.0]), np.array([4e6, 1e6])
    slope, intercept = platt(scores, pairs, pairs * [0.1, 0.7])
    low, high = np.log(0.1 / 0.9), np.log(0.7 / 0.3)
    assert slope == pytest.approx((high - low) / 3, rel=1e-6)
    assert intercept == pytest.approx(low - 2 * (high - low) / 3, rel=1e-6)
    flat = platt(np.array([3.0]), np.array([8.0]), np.array([2.0]))
    assert flat == pytest.approx((0.0, np.log(0.25 / 0.75)), rel=1e-5)


def test_the_slope_between_never_and_always_is_that_of_the_penalty() -> None:
    """5 · 2 pairs at −1 and 1: 10 σ(−a) = 2·10⁻⁶ a for scores of variance 1."""
    slope, intercept = platt(np.array([-1.0, 1.0]), np.full(2, 5.0), np.array([0.0, 5.0]))
    assert 10 / (1 + np.exp(slope)) == pytest.approx(2e-6 * slope, rel=1e-4)
    assert intercept == pytest.approx(0.0, abs=1e-6)
    wider = platt(np.array([-3.0, 5.0]), np.full(2, 5.0), np.array([0.0, 5.0]))
    assert wider == pytest.approx((slope / 4, -slope / 4), rel=1e-6)


def test_what_cannot_be_fitted_is_refused() -> None:
    scores = np.full((3, 2), 0.5)
    with pytest.raises(ValueError, match="unknown metric 'F1'"):
        thresholds.fit(scores, np.ones((3, 2)), metric="F1")
    for call in (thresholds.fit, thresholds.calibrate):
        with pytest.raises(ValueError, match="no label is observed"):
            call(scores, np.zeros((3, 2)))
        with pytest.raises(ValueError, match="same shape"):
            call(scores, np.ones((3, 3)))
    for wrong, message in (
        ({"per": "band"}, "need `bands`"),
        ({"per": "label", "bands": [1, 2]}, "need `bands`"),
        ({"bands": [1]}, "a band for each of 2 labels; got 1"),
        ({"prior": -1.0}, "prior"),
    ):
        with pytest.raises(ValueError, match=message):
            thresholds.fit(scores, np.ones((3, 2)), **wrong)  # type: ignore[arg-type]
    assert isinstance(thresholds.fit(scores, np.ones((3, 2))).apply(scores), LabelSets)


def test_always_and_never_are_kept_apart(tmp_path: Path) -> None:
    """A label that every row has, its lowest score −inf, is predicted always; not never."""
    scores = np.array([[-np.inf, 1.0], [2.0, -np.inf], [0.0, 0.0]])
    observed = np.array([[1, 0], [1, 1], [1, 0]])
    cut = thresholds.fit(scores, observed, metric="F1 per label", prior=0)
    assert cut.values.tolist() == [-np.inf, -np.inf]
    cut.values[1] = np.inf
    thresholds.write(tmp_path / "cut.json", cut)
    assert thresholds.read(tmp_path / "cut.json").values.tolist() == [-np.inf, np.inf]
    json.loads((tmp_path / "cut.json").read_text(), parse_constant=pytest.fail)


STORED: dict[str, Any] = {
    "kind": "thresholds", "metric": "micro-F1", "value": 0.5, "thresholds": [0.5, None],
    "own": [True, False], "names": ["a", "b"],
}  # fmt: skip


def test_files_of_thresholds_are_not_trusted(tmp_path: Path) -> None:
    for change in [
        {"thresholds": "12"},
        {"thresholds": [0.5, True]},
        {"thresholds": [0.5, "x"]},
        {"thresholds": [0.5, np.nan]},
        {"thresholds": [0.5, np.inf]},
        {"thresholds": {"0": 1}},
        {"thresholds": [0.5, [1]]},
        {"thresholds": [0.5, 10**400]},
        {"thresholds": [0.5]},
        {"own": "ab"},
        {"own": [1, 0]},
        {"own": [True]},
        {"names": "ab"},
        {"names": [1, 2]},
        {"names": ["a"]},
        {"names": []},
        {"metric": "P@1"},
        {"metric": None},
        {"metric": ["cost"]},
        {"value": "0.5"},
        {"value": np.nan},
        {"value": None},
    ]:
        file = tmp_path / "cut.json"
        file.write_text(json.dumps(STORED))
        assert thresholds.read(file).values.tolist() == [0.5, np.inf]
        file.write_text(json.dumps(STORED | change))
        with pytest.raises(ValueError, match=r"cut\.json"):
            thresholds.read(file)


def test_costs_are_two_numbers() -> None:
    for cost in [(np.nan, 1), (-1, 1), (1, np.inf), (1, 1, 2), 3, (1, None)]:
        with pytest.raises(ValueError, match="cost"):
            thresholds.fit([[0.5, 1.0]], [[1, 0]], metric="cost", cost=cost)


def test_thresholds_fit_together() -> None:
    flags = np.array([True, False])
    with pytest.raises(ValueError, match="do not fit each other"):
        thresholds.fit([[0.5, 1.0]], [[1, 0]], names=["a"])
    with pytest.raises(ValueError, match="do not fit each other"):
        thresholds.Thresholds(np.array([0.5]), "cost", 1.0, flags)
    with pytest.raises(ValueError, match="got NaN"):
        thresholds.Thresholds(np.array([0.5, np.nan]), "cost", 1.0, flags)


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_calibration_gives_numbers_or_none(method: Any) -> None:
    scores, observed = np.array([[0.5, 1.0], [2.0, 0.0]]), np.array([[1, 0], [1, 1]])
    with pytest.raises(ValueError, match="got NaN"):
        thresholds.calibrate(scores, observed, method=method).apply([[np.nan, 1.0]])
    for infinite in (np.inf, -np.inf):
        with pytest.raises(ValueError, match="finite scores"):
            thresholds.calibrate([[infinite, 1.0], [2, 0]], observed, method=method)
    for tiny in (1e-10, 1e-160, 1e-300):
        curve = thresholds.calibrate(scores, observed, [tiny, 1], method=method).apply(scores)
        assert ((curve >= 0) & (curve <= 1)).all()


def test_a_logistic_curve_without_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="no logistic curve fits"):
        platt(np.array([0.0, 1.0]), np.ones(2), np.full(2, 1.7e308))


def test_thresholds_and_calibrations_show_themselves() -> None:
    """In a terminal and in a notebook; more than F1 can be is not called optimistic only."""
    cut = thresholds.Thresholds(np.array([0.25, np.inf]), "macro-F1", 0.5, np.array([True, False]))
    lines = [line.split("  ", 1) for line in str(cut).splitlines()]
    assert (
        {name: text.strip() for name, text in lines}
        == cut.facts
        == {
            "chosen by": "macro-F1",
            "thresholds": "0.25",
            "labels with one of their own": "1 of 2",
            "labels never predicted": "1",
            "reached here": "0.5000 (optimistic: it was chosen for these rows)",
        }
    )
    assert "<td>macro-F1</td>" in cut._repr_html_()
    assert "the propensities are too low" in str(replace(cut, value=1.2))
    assert "the propensities are too low" not in str(replace(cut, value=1.2, metric="cost"))
    curve = thresholds.Calibration("isotonic", np.array([0.0, 1.0]), np.array([0.0, 0.5]))
    assert str(curve).splitlines()[-1].split() == ["1", "0.500"]
    assert "isotonic calibration" in curve._repr_html_()


def test_the_first_candidate_of_a_group_counts_among_all() -> None:
    """A group whose best threshold is the highest one raises what others have to reach."""
    sure = thresholds._Candidates(np.array([0.9]), np.array([10.0]), np.array([10.0]))
    other = thresholds._Candidates(np.array([0.8, 0.7]), np.array([1.0, 3.0]), np.array([1.0, 6.0]))
    nothing = thresholds._Candidates(np.array([0.6]), np.array([0.0]), np.array([9.0]))
    assert thresholds._best_together([sure, other, nothing]).tolist() == [0.9, 0.8, np.inf]
    assert thresholds._best_together([other]).tolist() == [0.7]
