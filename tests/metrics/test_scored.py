"""Scores of all labels: averages, curves, reliability, against definitions and other libraries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm
from sklearn import metrics as sk
from sklearn.metrics import precision_recall_curve

from unmask import Evaluator, LabelSets, TopK, compare, evaluate
from unmask.metrics import METRICS, contributions, curve, label_counts, reliability, scored
from unmask.metrics.by_label import RANKINGS, label_rankings
from unmask.metrics.claims import Level, Reason
from unmask.metrics.intervals import z_quantile
from unmask.metrics.scored import AllRows, Scored

OF_SCORES = [name for name, about in METRICS.items() if about.reads != "list"]

BY_ROW = [name for name in OF_SCORES if METRICS[name].over == "rows"]


def rows(n: int, n_labels: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and probabilities that have to do with them, with ties."""
    rng = np.random.default_rng(seed)
    labels = (rng.random((n, n_labels)) < 0.35).astype(int)
    scores = 0.3 * labels + 0.65 * rng.random((n, n_labels))
    scores[:, ::2] = scores[:, ::2].round(1)
    return labels, np.clip(scores, 0.01, 0.99)


def last_rank(labels: np.ndarray, scores: np.ndarray) -> float:
    return float(sk.coverage_error(labels, scores))


BY_SKLEARN: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "mAP": lambda y, s: sk.average_precision_score(y, s, average="macro"),
    "macro-AUC": lambda y, s: sk.roc_auc_score(y, s, average="macro"),
    "LRAP": sk.label_ranking_average_precision_score,
    "coverage-error": last_rank,
    "Brier": lambda y, s: sk.brier_score_loss(y.ravel(), s.ravel()),
    "log-loss": lambda y, s: sk.log_loss(y.ravel(), s.ravel()),
}


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("metric", BY_SKLEARN)
def test_complete_labels_give_what_scikit_learn_gives(metric: str, kind: type) -> None:
    labels, scores = rows(120, 7, seed=0)
    labels[:5] = 0  # rows without labels
    scores = scores.astype(kind)
    truth = BY_SKLEARN[metric](labels, scores.astype(np.float64))
    table = evaluate(
        scores, labels, np.ones(7), metrics=[metric], estimators=["vanilla", "unbiased"]
    )
    for estimator in ("vanilla", "unbiased"):
        assert table[metric, estimator].value == pytest.approx(truth, abs=1e-12)
        assert table[metric, estimator].verdict.level in (Level.MEASURED, Level.WIDE)


def test_average_precision_and_auc_by_hand() -> None:
    """Ranks 1, 3 and 4 of five are right: (1 + 2/3 + 3/4) / 3, and 4 of 6 pairs in order."""
    scores, labels = (
        np.array([[0.9], [0.8], [0.7], [0.6], [0.5]]),
        np.array([[1], [0], [1], [1], [0]]),
    )
    table = evaluate(scores, labels, metrics=["mAP", "macro-AUC"])
    assert table["mAP", "vanilla"].value == pytest.approx((1 + 2 / 3 + 3 / 4) / 3, abs=1e-12)
    assert table["macro-AUC", "vanilla"].value == pytest.approx(4 / 6, abs=1e-12)


def test_probabilities_of_0_and_1_cost_what_scikit_learn_says() -> None:
    """Right or wrong with certainty: 52 log 2 where nothing is left, and 0 but for rounding."""
    labels = np.array([[1, 0, 1, 0], [1, 1, 0, 0]])
    for scores in (1.0 - labels, labels * 1.0, np.array([[1, 1, 0, 0.5], [0.25, 1, 0, 1]])):
        truth = sk.log_loss(labels.ravel(), scores.ravel())
        value = evaluate(scores, labels, metrics=["log-loss"])["log-loss", "vanilla"].value
        assert value == pytest.approx(truth, rel=1e-12)
    certain = evaluate(1.0 - labels, labels, metrics=["log-loss"])["log-loss", "vanilla"].value
    assert certain == pytest.approx(52 * np.log(2), rel=1e-12)


def test_row_wise_average_precision_is_that_of_samples() -> None:
    labels, scores = rows(40, 7, seed=1)
    labels[labels.sum(axis=1) == 0, 0] = 1
    truth = sk.average_precision_score(labels, scores, average="samples")
    assert evaluate(scores, labels, metrics=["sample-AP"])["sample-AP", "vanilla"].value == (
        pytest.approx(truth, abs=1e-12)
    )


def test_one_error_is_that_of_the_first_of_the_best() -> None:
    scores = np.array([[0.2, 0.9, 0.9], [0.5, 0.5, 0.1], [0.1, 0.2, 0.3]])
    labels = np.array([[0, 0, 1], [1, 0, 0], [0, 0, 1]])
    value = evaluate(scores, labels, metrics=["one-error"])["one-error", "vanilla"].value
    assert value == pytest.approx(1 / 3)


def masks(labels: np.ndarray, p: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    pairs = np.argwhere(labels)
    for kept in itertools.product([0, 1], repeat=len(pairs)):
        observed = np.zeros_like(labels)
        observed[pairs[:, 0], pairs[:, 1]] = kept
        yield (
            math.prod(p[j] if k else 1 - p[j] for (_, j), k in zip(pairs, kept, strict=True)),
            (observed),
        )


@pytest.mark.parametrize("metric", BY_ROW)
@pytest.mark.parametrize("seed", range(3))
def test_means_of_rows_are_right_on_average_over_all_masks(metric: str, seed: int) -> None:
    """A row with ties, and one without labels."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.2, 1, 6)
    labels = np.array([rng.permutation([1, 1, 1, 1, 0, 0]), np.zeros(6, int)])
    scores = np.clip(rng.integers(0, 5, (2, 6)) / 5, 0.05, 0.95)
    complete = contributions(scores, labels, metrics=[metric])[metric, "vanilla"]
    mean = np.zeros(2)
    for chance, observed in masks(labels, p):
        asked = {"metrics": [metric], "estimators": ["unbiased"]}
        mean += chance * contributions(scores, observed, p, **asked)[metric, "unbiased"]
    assert mean == pytest.approx(complete, abs=1e-10)


def pair_factor(observed: int, p: float) -> float:
    return (observed - p) / (observed - 1) if observed > 1 else 1.0


def sums_of(
    labels: np.ndarray, scores: np.ndarray, v: np.ndarray, metric: str, factor: float = 1.0
) -> tuple:
    """Numerator and denominator of AP or AUC of one label by their definitions, pair by pair."""
    n = len(v)
    if metric == "mAP":
        above = sum(
            v[i] / (scores >= scores[i]).sum()
            * (1 + factor * sum(v[k] for k in range(n) if k != i and scores[k] >= scores[i]))
            for i in range(n)
        )  # fmt: skip
        return above, v.sum()
    above = below = 0.0
    for i, k in itertools.permutations(range(n), 2):
        order = (scores[i] > scores[k]) + 0.5 * (scores[i] == scores[k])
        above += v[i] * (1 - v[k]) * order
        below += v[i] * (1 - v[k])
    return above, below


@pytest.mark.parametrize("metric", ["mAP", "macro-AUC"])
def test_both_sums_of_a_label_are_right_on_average(metric: str) -> None:
    """Of the definition above, by enumeration; and the kernel divides just those."""
    truth = np.array([[1], [0], [1], [1], [0], [1]])
    scores = np.array([0.9, 0.7, 0.7, 0.5, 0.5, 0.2])
    p = np.array([0.4])
    mean = np.zeros(2)
    for chance, observed in masks(truth, p):
        both = sums_of(observed[:, 0], scores, observed[:, 0] / p[0], metric)
        mean += chance * np.array(both)
        if observed.any():
            each = evaluate(scores[:, None], observed, p, metrics=[metric])[metric, "unbiased"]
            if metric == "mAP":
                both = sums_of(observed[:, 0], scores, observed[:, 0] / p[0], metric, pair_factor(
                    int(observed.sum()), p[0]))  # fmt: skip
            expected = both[0] / both[1] if both[1] > 0 else math.nan
            assert each.value == pytest.approx(expected, abs=1e-10, nan_ok=True)
    exact = sums_of(truth[:, 0], scores, truth[:, 0].astype(float), metric)
    assert mean == pytest.approx(exact, abs=1e-10)


def test_average_precision_is_right_on_average_however_few_rows_are_observed() -> None:
    """Given o ≥ 2 observed of N: alone + pairs (o − p) / ((N − 1) p); o has the mean N p."""
    truth = np.array([[1], [0], [1], [1], [0], [1], [1]])
    scores = np.array([0.9, 0.7, 0.7, 0.5, 0.5, 0.2, 0.1])
    p, positive = np.array([0.3]), np.flatnonzero(truth[:, 0])
    ranks = np.array([(scores >= scores[i]).sum() for i in positive])
    others = np.array([(scores[positive] >= scores[i]).sum() - 1 for i in positive])
    alone, pairs = (1 / ranks).mean(), (others / ranks).mean()
    sums: dict[int, list[float]] = {}
    for _, observed in masks(truth, p):
        if observed.sum() > 1:
            made = all_rows(observed, scores[:, None], p)
            value = made.linearized("average_precision", corrected=True).value
            sums.setdefault(int(observed.sum()), []).append(value)
    assert sorted(sums) == [2, 3, 4, 5]
    for o, values in sums.items():
        assert np.mean(values) == pytest.approx(alone + pairs * (o - 0.3) / (4 * 0.3), abs=1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_sums_over_thresholds_and_bins_are_right_on_average(seed: int) -> None:
    """What Fmax, Smin, curves and calibration divide: sums of rows, over all masks."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.3, 0.9, 5)
    labels, scores = (rng.random((2, 5)) < 0.7).astype(int), rng.random((2, 5))
    thresholds, content = np.array([0.2, 0.5, 0.8]), rng.random(5)

    def sums(observed: np.ndarray, q: np.ndarray) -> np.ndarray:
        part = all_rows(observed, scores, 1 / q).whole
        swept = scored.sweep(part, thresholds, corrected=True).sums
        weighed = scored._weighed(part, thresholds, content, corrected=True)[0]
        bins = scored.in_bins(part, corrected=True, bins=4)
        return np.concatenate([swept.ravel(), weighed.ravel(), np.nan_to_num(bins.true)])

    mean = sum(chance * sums(observed, 1 / p) for chance, observed in masks(labels, p))
    complete = sums(labels, np.ones(5))
    assert mean == pytest.approx(complete, abs=1e-10)
    per_row = [(s >= t, y) for t in thresholds for s, y in zip(scores, labels, strict=True)]
    precision = [y[chosen].mean() if chosen.any() else 0.0 for chosen, y in per_row]
    recall = [y[chosen].sum() / max(y.sum(), 1) for chosen, y in per_row]
    missed = [content[~chosen & (y > 0)].sum() for chosen, y in per_row]
    for column, values in ((0, precision), (2, recall)):
        by_hand = np.array(values).reshape(3, 2).sum(axis=1)
        assert complete[:21].reshape(3, 7)[:, column] == pytest.approx(by_hand, abs=1e-12)
    assert complete[21:27].reshape(3, 2)[:, 0] == pytest.approx(
        np.array(missed).reshape(3, 2).mean(axis=1), abs=1e-12
    )


def test_every_metric_of_scores_is_enumerated() -> None:
    """By one of the tests above: a metric that is new must be given its own."""
    of_sums = {"mAP", "macro-AUC", "Fmax", "Smin", "ECE"}
    assert {*BY_ROW, *of_sums} == {*OF_SCORES}


def all_rows(labels: np.ndarray, scores: np.ndarray, p: np.ndarray) -> AllRows:
    observed = sp.csr_array(labels.astype(np.float32))
    return AllRows((Scored(scores, observed, 1 / p[observed.indices]),))


@pytest.mark.parametrize("form", ["f_max", "calibration"])
def test_influences_are_what_rows_add(form: str) -> None:
    """Without a row, the value moves by its influence."""
    labels, scores = rows(400, 5, seed=3)
    p = np.linspace(0.5, 1, 5)
    made = all_rows(labels, scores, p).linearized(form, corrected=True)
    assert made.influence.sum() == pytest.approx(0, abs=1e-10)
    moved = []
    for row in range(12):
        kept = np.arange(400) != row
        part = all_rows(labels[kept], scores[kept], p).linearized(form, corrected=True)
        moved.append(made.value - part.value)
    assert moved == pytest.approx(made.influence[:12], abs=0.01 * np.abs(made.influence).max())


def weighted(scores: np.ndarray, v: np.ndarray, w: np.ndarray) -> float:
    """AUC of one label if rows count w times (a row is no pair with itself)."""
    others = ~np.eye(len(v), dtype=bool)
    order = (scores[:, None] > scores) + 0.5 * (scores[:, None] == scores)
    pairs = np.outer(w * v, w * (1 - v)) * others
    return float((pairs * order).sum() / pairs.sum())


def test_influences_are_derivatives_by_the_weights_of_rows() -> None:
    labels, scores = rows(30, 1, seed=3)
    p = np.array([0.7])
    made = all_rows(labels, scores, p).linearized("auc", corrected=True)
    step, slopes = 1e-6, []
    for row in range(30):
        ends = []
        for sign in (1, -1):
            w = np.ones(30)
            w[row] += sign * step
            ends.append(weighted(scores[:, 0], labels[:, 0] / p[0], w))
        slopes.append((ends[0] - ends[1]) / (2 * step))
    assert made.value == pytest.approx(
        weighted(scores[:, 0], labels[:, 0] / p[0], np.ones(30)), abs=1e-12
    )
    assert made.influence == pytest.approx(np.array(slopes) - np.mean(slopes), abs=1e-8)


@pytest.mark.parametrize("digits", [6, 1])
@pytest.mark.parametrize("observed", [30, 3, 2, 1])
def test_what_a_row_adds_to_average_precision_is_what_its_absence_takes(
    observed: int, digits: int
) -> None:
    """The jackknife: (1 − 1/n) times the mean of the values without each row, less its own."""
    labels, scores = rows(30, 1, seed=13)
    labels = labels * (np.cumsum(labels, axis=0) <= observed)
    scores, p = scores.round(digits), np.array([0.7])
    made = all_rows(labels, scores, p).linearized("average_precision", corrected=True)
    without = np.full(30, made.value)
    for row in range(30):
        others = np.arange(30) != row
        if labels[others].any():
            part = all_rows(labels[others], scores[others], p)
            without[row] = part.linearized("average_precision", corrected=True).value
    expected = (without.mean() - without) * 29 / 30
    assert made.influence == pytest.approx(expected, abs=1e-12)
    assert np.abs(made.influence).max() > 0


@pytest.mark.slow
def test_errors_of_average_precision_are_not_too_small_in_small_groups() -> None:
    """Estimated over true standard deviation, in groups of 80 rows and of 400."""
    for n, most in ((80, 1.3), (400, 1.2)):
        rng = np.random.default_rng(n)
        chance = rng.uniform(0.1, 0.3, 12)
        values, errors = [], []
        for _ in range(400):
            labels = rng.random((n, 12)) < chance
            scores = 1.2 * labels + rng.normal(size=(n, 12)) + 0.3 * rng.normal(size=(n, 1))
            each = evaluate(scores, labels.astype(int), metrics=["mAP"])["mAP", "vanilla"]
            values.append(each.value)
            errors.append(each.standard_error)
        assert 0.92 < np.mean(errors) / np.std(values) < most


@pytest.mark.parametrize("metric", ["mAP", "macro-AUC", "Fmax", "LRAP"])
def test_errors_are_those_of_repeated_samples(metric: str) -> None:
    rng = np.random.default_rng(4)
    p, values, errors = np.full(4, 0.6), [], []
    for _ in range(120):
        effort = rng.random((150, 1))
        labels = rng.random((150, 4)) < 0.15 + 0.4 * effort
        scores = np.clip(0.4 * labels + 0.55 * rng.random((150, 4)), 0.01, 0.99)
        observed = labels & (rng.random(labels.shape) < p)
        each = evaluate(scores, observed, p, metrics=[metric])[metric, "unbiased"]
        values.append(each.value)
        errors.append(each.standard_error)
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.25)


def test_labels_that_were_never_observed_are_left_out() -> None:
    labels, scores = rows(60, 5, seed=5)
    labels[:, 2] = 0
    each = evaluate(scores, labels, np.full(5, 0.5), metrics=["mAP"])["mAP", "unbiased"]
    assert each.details["labels"] == 4
    assert each.details["left_out"] == 1
    others = [0, 1, 3, 4]
    without = evaluate(scores[:, others], labels[:, others], np.full(4, 0.5), metrics=["mAP"])
    assert each.value == pytest.approx(without["mAP", "unbiased"].value, abs=1e-12)
    none = evaluate(scores, 0 * labels, metrics=["mAP", "macro-AUC"])
    for each in none:
        assert math.isnan(each.value)
        assert each.verdict.reason is Reason.NO_LABELS


def test_a_label_seen_once_is_not_taken_to_be_certain() -> None:
    """Its own rows show no spread; that of the other labels stands in for it."""
    labels, scores = rows(80, 6, seed=6)
    labels[:, 0] = 0
    labels[3, 0] = 1
    made = all_rows(labels, scores, np.ones(6)).linearized("average_precision", corrected=False)
    assert made.label_errors is not None
    assert made.label_errors[0] > 3 * made.label_errors[1:].max()


def cafa_f(labels: np.ndarray, scores: np.ndarray, threshold: float) -> float:
    """CAFA's F at a threshold, row by row."""
    precisions, recalls = [], []
    for y, s in zip(labels, scores, strict=True):
        chosen = s >= threshold
        if chosen.any():
            precisions.append(y[chosen].mean())
        recalls.append(y[chosen].sum() / y.sum())
    p, r = np.mean(precisions) if precisions else 0.0, np.mean(recalls)
    return 2 * p * r / (p + r) if p + r else 0.0


def test_fmax_is_the_best_over_thresholds() -> None:
    labels, scores = rows(50, 8, seed=7)
    labels[labels.sum(axis=1) == 0, 1] = 1
    by_threshold = {t: cafa_f(labels, scores, t) for t in np.arange(1, 100) / 100}
    each = evaluate(scores, labels, metrics=["Fmax"])["Fmax", "vanilla"]
    assert each.value == pytest.approx(max(by_threshold.values()), abs=1e-12)
    assert by_threshold[each.details["threshold"]] == pytest.approx(each.value, abs=1e-12)
    logits = np.log(scores / (1 - scores))  # other scores: the same sets, other thresholds
    free = evaluate(logits, labels, metrics=["Fmax"])["Fmax", "vanilla"]
    assert free.value == pytest.approx(each.value, abs=0.02)


@pytest.mark.parametrize("average", ["micro", "sample"])
def test_a_curve_is_what_sets_at_thresholds_score(average: str) -> None:
    labels, scores = rows(90, 6, seed=8)
    p = np.linspace(0.5, 0.9, 6)
    part = all_rows(labels, scores, p).whole
    thresholds = np.array([0.2, 0.45, 0.7])
    curve = scored.sweep(part, thresholds, corrected=True).curve(average)
    for step, threshold in enumerate(thresholds):
        sets = LabelSets.from_scores(scores, threshold)
        names = [f"{average}-P", f"{average}-R", "micro-F1"]
        table = evaluate(sets, labels, p, metrics=names)
        if average == "micro":
            for name, values, errors in (
                ("micro-P", curve.precision, curve.precision_error),
                ("micro-R", curve.recall, curve.recall_error),
                ("micro-F1", curve.f1, curve.f1_error),
            ):
                each = table[name, "unbiased"]
                assert values[step] == pytest.approx(each.value, abs=1e-12)
                assert errors[step] == pytest.approx(each.standard_error, rel=1e-9)
        else:
            predicting = (sets.sizes > 0).mean()
            precision = table["sample-P", "unbiased"].value / predicting
            assert curve.precision[step] == pytest.approx(precision, abs=1e-12)


def test_reliability_counts_pairs_and_what_is_true_of_them() -> None:
    rng = np.random.default_rng(9)
    scores = rng.random((3000, 4))
    labels = (rng.random(scores.shape) < scores).astype(int)  # calibrated
    p = np.full(4, 0.5)
    observed = labels * (rng.random(labels.shape) < p)
    made = scored.in_bins(all_rows(observed, scores, p).whole, corrected=True)
    assert made.pairs.sum() == scores.size
    assert (np.abs(made.true - made.predicted) < 4 * made.true_error).all()
    table = evaluate(scores, observed, p, metrics=["ECE"])
    assert table["ECE", "unbiased"].value == pytest.approx(made.error)
    assert table["ECE", "unbiased"].value < 0.03 < table["ECE", "vanilla"].value
    by_hand = [
        abs(scores[inside].sum() - observed[inside].sum() / 0.5)
        for inside in (np.minimum((scores * 10).astype(int), 9) == b for b in range(10))
    ]
    assert made.error == pytest.approx(sum(by_hand) / scores.size)


@pytest.mark.parametrize("metric", OF_SCORES)
def test_shards_merge_and_orders_do_not_matter(metric: str) -> None:
    labels, scores = rows(90, 5, seed=10)
    p = np.linspace(0.5, 1, 5)
    asked = {"metrics": [metric], "estimators": ["vanilla", "unbiased"]}
    whole = Evaluator(p, **asked).update(scores, labels).compute()
    merged = Evaluator(p, **asked)
    for part in (slice(50, 90), slice(0, 20), slice(20, 50)):
        merged.merge(Evaluator(p, **asked).update(scores[part], labels[part]))
    assert merged.compute().to_dicts() == whole.to_dicts()  # to the bit
    if metric == "one-error":  # of equal scores it takes that of the smaller label
        return
    columns = np.random.default_rng(0).permutation(5)
    moved = evaluate(scores[:, columns], labels[:, columns], p[columns], **asked)
    for each in whole:
        other = moved[metric, each.estimator]
        assert other.value == pytest.approx(each.value, abs=1e-12)
        assert other.standard_error == pytest.approx(each.standard_error, rel=1e-9)


@pytest.mark.parametrize("metric", ["Fmax", "Smin", "macro-AUC"])
def test_shards_of_scores_that_are_no_probabilities_merge_to_the_bit(metric: str) -> None:
    """Also in float32, and where thresholds are quantiles of the scores of some rows."""
    labels, scores = rows(90, 5, seed=10)
    logits = np.log(scores / (1 - scores)).astype(np.float32)
    asked = {"metrics": [metric], "estimators": ["vanilla", "unbiased"]}
    p = np.linspace(0.5, 1, 5)
    whole = Evaluator(p, **asked).update(logits, labels).compute()
    merged = Evaluator(p, **asked)
    for part in (slice(60, 90), slice(0, 60)):
        merged.merge(Evaluator(p, **asked).update(logits[part], labels[part]))
    assert merged.compute().to_dicts() == whole.to_dicts()


def test_lists_sets_and_scores_are_asked_for_what_they_have() -> None:
    labels, scores = rows(20, 5, seed=11)
    both = evaluate(scores, labels, metrics=["P@2", "mAP"])
    assert [each.metric for each in both] == ["P@2", "mAP"]
    for wrong in (TopK.from_scores(scores, 2), LabelSets.from_scores(scores, 0.5)):
        with pytest.raises(ValueError, match="mAP needs a score for every label; give the matrix"):
            evaluate(wrong, labels, metrics=["mAP"])
    with pytest.raises(ValueError, match="mAP needs a score for every label; give a dense"):
        evaluate(sp.csr_array(scores), labels, metrics=["mAP"])
    with pytest.raises(ValueError, match=r"Brier needs probabilities; got a score of 1\.8"):
        evaluate(2 * np.full((20, 5), 0.9), labels, metrics=["Brier"])
    with pytest.raises(ValueError, match="reads the scores of all labels; ask for it without @3"):
        evaluate(scores, labels, metrics=["mAP@3"])
    with pytest.raises(ValueError, match="same shape"):
        evaluate(scores[:, :4], labels, metrics=["mAP"])
    with pytest.raises(ValueError, match="NaN"):
        evaluate(np.full((20, 5), np.nan), labels, metrics=["mAP"])


@pytest.mark.parametrize("metric", ["mAP", "macro-AUC", "Fmax", "Brier"])
def test_a_comparison_is_the_difference_of_two_evaluations(metric: str) -> None:
    labels, scores = rows(300, 5, seed=12)
    p = np.full(5, 0.6)
    observed = labels * (np.random.default_rng(1).random(labels.shape) < p)
    worse = np.clip(scores + 0.3 * np.random.default_rng(2).standard_normal(scores.shape), 0, 1)
    asked = {"metrics": [metric], "estimators": ["unbiased"]}
    each = compare({"worse": worse, "better": scores}, observed, p, **asked)["better"]
    each = each[metric, "unbiased"]
    new, old = (evaluate(s, observed, p, **asked)[metric, "unbiased"] for s in (scores, worse))
    assert each.value == pytest.approx(new.value - old.value, abs=1e-12)
    assert each.standard_error < math.hypot(new.standard_error, old.standard_error)
    assert "better is better than worse" in str(each.verdict)
    contributed = contributions(scores, observed, p, **asked)[metric, "unbiased"]
    assert contributed.mean() == pytest.approx(new.value, abs=1e-12)


def test_bootstrap_intervals_hold_normal_ones() -> None:
    labels, scores = rows(150, 4, seed=13)
    asked = {"metrics": ["mAP"], "estimators": ["vanilla"]}
    narrow = evaluate(scores, labels, **asked)["mAP", "vanilla"].interval
    for interval in ("percentile", "bca"):
        low, high = evaluate(scores, labels, interval=interval, **asked)["mAP", "vanilla"].interval
        assert low <= narrow[0] < narrow[1] <= high
        assert high - low < 1.5 * (narrow[1] - narrow[0])


def test_one_row_says_nothing_of_its_error() -> None:
    assert scored._error_of(np.array([0.5])) == math.inf
    assert scored._error_of(np.array([0.5, -0.5])) == pytest.approx(1.0)


def rows_of_curves(n: int, n_labels: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Observed labels, propensities and scores, two decimals of them."""
    rng = np.random.default_rng(seed)
    true = rng.random((n, n_labels)) < 0.3
    p = np.linspace(0.5, 0.9, n_labels)
    observed = (true & (rng.random(true.shape) < p)).astype(int)
    return observed, p, np.clip(0.3 * true + 0.6 * rng.random(true.shape), 0, 1).round(2)


def test_one_label_has_the_curve_of_scikit_learn() -> None:
    observed, _, scores = rows_of_curves(200, 3, seed=0)
    precision, recall, thresholds = precision_recall_curve(observed[:, 1], scores[:, 1])
    made = curve(scores, observed, thresholds=thresholds, labels_of_interest=[1])
    assert made.precision == pytest.approx(precision[:-1], abs=1e-12)
    assert made.recall == pytest.approx(recall[:-1], abs=1e-12)
    assert made.estimator == "vanilla"


@pytest.mark.parametrize("form", ["per label", "per entry"])
def test_some_labels_are_counted_with_their_own_propensities(form: str) -> None:
    observed, p, scores = rows_of_curves(80, 5, seed=1)
    stated = p if form == "per label" else sp.csr_array(observed * p)
    made = curve(scores, observed, stated, thresholds=[0.3, 0.5], labels_of_interest=[4, 0])
    for step, cut in enumerate(made.thresholds):
        sets = LabelSets.from_scores(scores[:, [0, 4]], cut)
        table = evaluate(sets, observed[:, [0, 4]], p[[0, 4]])
        assert made.f1[step] == pytest.approx(table["micro-F1", "unbiased"].value, abs=1e-12)


def test_bands_are_those_of_the_normal_distribution_within_the_range() -> None:
    observed, p, scores = rows_of_curves(60, 4, seed=2)
    made = curve(scores, observed, p, confidence=0.9)
    for name in ("precision", "recall", "f1"):
        low, high = made.band(name)
        half = z_quantile(0.9) * getattr(made, f"{name}_error")
        assert low == pytest.approx(np.maximum(getattr(made, name) - half, 0))
        assert high == pytest.approx(np.clip(getattr(made, name) + half, 0, 1))
        assert (low < high).any()
    records = made.to_dicts()
    assert len(records) == made.thresholds.size == 99
    assert records[30]["threshold"] == pytest.approx(0.31)
    assert records[30]["recall"] == made.recall[30]
    assert records[30]["recall_low"] == made.band("recall")[0][30]
    with pytest.raises(ValueError, match="number of a curve"):
        made.band("accuracy")


def test_the_best_point_is_fmax() -> None:
    observed, p, scores = rows_of_curves(90, 6, seed=3)
    made = curve(scores, observed, p, average="sample")
    each = evaluate(scores, observed, p, metrics=["Fmax"])["Fmax", "unbiased"]
    best = made.best
    assert best.f1 == made.f1.max()
    assert each.value == pytest.approx(
        best.f1, abs=1e-15
    )  # rows_of_curves are added in another order
    assert best.threshold == each.details["threshold"]
    assert best.f1_error == pytest.approx(each.standard_error)
    parts = each.details["precision"], each.details["recall"]
    assert (best.precision, best.recall) == pytest.approx(parts, abs=1e-15)
    assert "(best)" in made._repr_html_()


def test_other_scores_are_cut_at_their_quantiles_and_minus_infinity_never_counts() -> None:
    observed, _, scores = rows_of_curves(50, 4, seed=4)
    logits = 10 * scores - 3
    logits[0, 0] = -np.inf
    made = curve(logits, observed)
    finite = logits[np.isfinite(logits)]
    assert made.thresholds[0] == pytest.approx(np.quantile(finite, 0.01))
    assert made.thresholds[-1] == pytest.approx(np.quantile(finite, 0.99))


def test_reliability_is_what_is_in_the_bins() -> None:
    observed, p, scores = rows_of_curves(70, 4, seed=5)
    made = reliability(scores, observed, p, bins=4)
    v = observed / p
    spot = np.minimum((scores * 4).astype(int), 3)
    assert made.pairs.tolist() == [int((spot == b).sum()) for b in range(4)]
    true = [v[spot == b].mean() if (spot == b).any() else 0.0 for b in range(4)]
    assert made.true == pytest.approx(np.array(true))
    inside = [(spot == b).sum(axis=1) for b in range(4)]
    off = [(v * (spot == b)).sum(axis=1) - t * m for b, (t, m) in enumerate(zip(true, inside,
           strict=True))]  # fmt: skip
    errors = [np.sqrt((o**2).sum() * 70 / 69) / max(m.sum(), 1) for o, m in zip(off, inside,
              strict=True)]  # fmt: skip
    assert made.true_error == pytest.approx(np.array(errors))
    assert reliability(scores, observed, bins=4).true == pytest.approx(
        np.array([observed[spot == b].mean() if (spot == b).any() else 0.0 for b in range(4)])
    )


def test_what_has_no_curve_is_refused() -> None:
    observed, p, scores = rows_of_curves(10, 3, seed=6)
    for wrong, message in (
        ({"thresholds": [0.5, 0.2]}, "rising"),
        ({"thresholds": []}, "rising"),
        ({"labels_of_interest": [3]}, "label"),
        ({"labels_of_interest": [1, 1]}, "none twice"),
        ({"average": "macro"}, "unknown average 'macro'"),
    ):
        with pytest.raises(ValueError, match=message):
            curve(scores, observed, p, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got inf"):
        curve(np.where(scores > 0.5, np.inf, scores), observed)
    with pytest.raises(ValueError, match="reliability needs probabilities"):
        reliability(scores * 3, observed)
    with pytest.raises(ValueError, match="at least one row"):
        curve(scores[:0], observed[:0])


def test_curves_and_reliability_show_themselves() -> None:
    observed, p, scores = rows_of_curves(90, 6, seed=3)
    made = curve(scores, observed, p)
    first, *lines = str(made).splitlines()
    assert first.split() == ["threshold", "precision", "recall", "f1"]
    (best,) = [line for line in lines if "(best)" in line]
    assert best.split("  ")[0] == f"{made.best.threshold:.3g} (best)"
    assert f"{made.best.f1:.3f} [" in best
    table = reliability(scores, observed, p, bins=4)
    assert len(str(table).splitlines()) == 7
    assert str(table).endswith(f"calibration error {table.error:.4f}")
    assert "calibration error" in table._repr_html_()


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
