"""Metrics of sets: scikit-learn's at p = 1, unbiased by enumerating every mask, paired."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from sklearn import metrics as sk

from tests.helpers.rankings import one_top
from unmask import Evaluator, LabelSets, compare, evaluate
from unmask.metrics import METRICS, contributions, macro
from unmask.metrics.claims import Level

OF_SETS = [name for name, about in METRICS.items() if about.of_sets]
AVERAGES = {"sample": "samples", "micro": "micro", "macro": "macro", "weighted": "weighted"}
SCORES: dict[str, Callable] = {
    "P": sk.precision_score,
    "R": sk.recall_score,
    "F1": sk.f1_score,
    "F0.5": lambda *a, **o: sk.fbeta_score(*a, beta=0.5, **o),
    "F2": lambda *a, **o: sk.fbeta_score(*a, beta=2, **o),
    "Jaccard": sk.jaccard_score,
}


def by_sklearn(metric: str, labels: np.ndarray, sets: np.ndarray) -> float:
    if metric == "subset-accuracy":
        return float(sk.accuracy_score(labels, sets))
    if metric == "Hamming":
        return float(sk.hamming_loss(labels, sets))
    if metric == "coverage":
        return float(np.mean((labels & sets).any(axis=0)))
    average, _, score = metric.partition("-")
    if metric == "macro-Jaccard":  # labels that cannot be counted are left out
        counted = (labels | sets).any(axis=0)
        return float(np.mean(sk.jaccard_score(labels, sets, average=None)[counted]))
    nothing = np.nan if average == "macro" else 0
    return float(SCORES[score](labels, sets, average=AVERAGES[average], zero_division=nothing))


def rows(n: int, n_labels: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels and predicted sets, some of either empty."""
    rng = np.random.default_rng(seed)
    labels = (rng.random((n, n_labels)) < 0.3).astype(int)
    sets = (rng.random((n, n_labels)) < 0.2 + 0.5 * labels).astype(int)
    labels[: n // 8], sets[n // 10 : n // 4] = 0, 0
    sets[-3:] = labels[-3:]
    sets[:, 0] = 0  # a label that is never predicted
    return labels, sets


@pytest.mark.parametrize("metric", OF_SETS)
def test_complete_labels_give_what_scikit_learn_gives(metric: str) -> None:
    labels, sets = rows(90, 9, seed=0)
    estimators = METRICS[metric].views
    whole = {"fraction": 0.0} if "filtered" in estimators else {}
    table = evaluate(
        LabelSets(sets), labels, np.ones(9), metrics=[metric], estimators=estimators, **whole
    )
    truth = by_sklearn(metric, labels, sets)
    assert 0 < truth < 1
    for each in estimators:
        assert table[metric, each].value == pytest.approx(truth, abs=1e-12)
        assert table[metric, each].verdict.level in (Level.MEASURED, Level.WIDE, Level.UNUSABLE)


def masks(labels: np.ndarray, p: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """Every way to lose labels, with its probability."""
    pairs = np.argwhere(labels)
    for kept in itertools.product([0, 1], repeat=len(pairs)):
        observed = np.zeros_like(labels)
        chance = 1.0
        for (i, j), keep in zip(pairs, kept, strict=True):
            observed[i, j] = keep
            chance *= p[j] if keep else 1 - p[j]
        yield chance, observed


@pytest.mark.parametrize("metric", [m for m in OF_SETS if METRICS[m].over == "rows"])
@pytest.mark.parametrize("seed", range(3))
def test_means_of_rows_are_right_on_average_over_all_masks(metric: str, seed: int) -> None:
    """A set smaller than, larger than and equal to the labels, and an empty one."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.2, 1, 6)
    labels = (rng.random((4, 6)) < 0.6).astype(int)
    sets = [[0, 2, 3], list(range(6)), np.flatnonzero(labels[2]).tolist(), []]
    truth = [METRICS[metric].reference(s, np.flatnonzero(y), 6)  # type: ignore[misc]
             for s, y in zip(sets, labels, strict=True)]  # fmt: skip
    for row in range(4):
        mean = 0.0
        for chance, observed in masks(labels[row : row + 1], p):
            each = contributions(
                LabelSets([sets[row]], n_labels=6), observed, p, metrics=[metric],
                estimators=["unbiased"],
            )  # fmt: skip
            mean += chance * each[metric, "unbiased"][0]
        assert mean == pytest.approx(truth[row], abs=1e-10)


PARTS = {  # hits, predictions and labels of the truth → numerator and denominator
    "micro-P": lambda h, s, n: (h, s),
    "micro-R": lambda h, s, n: (h, n),
    "weighted-R": lambda h, s, n: (h, n),
    "micro-F1": lambda h, s, n: (2 * h, s + n),
    "micro-F0.5": lambda h, s, n: (1.25 * h, s + n / 4),
    "micro-F2": lambda h, s, n: (5 * h, s + 4 * n),
    "micro-Jaccard": lambda h, s, n: (h, s + n - h),
    "Hamming": lambda h, s, n: (s + n - 2 * h, 3 * 5),
}


@pytest.mark.parametrize("metric", PARTS)
def test_both_sums_of_a_micro_metric_are_right_on_average(metric: str) -> None:
    rng = np.random.default_rng(3)
    p = rng.uniform(0.3, 0.9, 5)
    labels, sets = (rng.random((3, 5)) < 0.5).astype(int), (rng.random((3, 5)) < 0.5).astype(int)
    above = below = 0.0
    for chance, observed in masks(labels, p):
        evaluator = Evaluator(p, metrics=[metric], estimators=["unbiased"])
        summary = evaluator.update(LabelSets(sets), observed).summary()
        (cell,) = summary.plan.cells
        x, y = (summary.state.total(column) for column in summary.columns(cell))
        above, below = above + chance * x, below + chance * y
    truth = PARTS[metric](int((labels & sets).sum()), int(sets.sum()), int(labels.sum()))
    assert above / below == pytest.approx(truth[0] / truth[1], abs=1e-10)
    assert set(PARTS) == {m for m in OF_SETS if METRICS[m].over == "ratio"}


OVER_LABELS = {  # of one label: hits, times predicted and rows that have it
    "macro-F0.5": lambda h, m, n: 1.25 * h / (m + n / 4),
    "macro-F1": lambda h, m, n: 2 * h / (m + n),
    "macro-F2": lambda h, m, n: 5 * h / (m + 4 * n),
    "macro-Jaccard": lambda h, m, n: h / (m + n - h),
    "weighted-F0.5": lambda h, m, n: 1.25 * n * h / (m + n / 4),
    "weighted-F1": lambda h, m, n: 2 * n * h / (m + n),
    "weighted-F2": lambda h, m, n: 5 * n * h / (m + 4 * n),
    "weighted-Jaccard": lambda h, m, n: n * h / (m + n - h),
}


@pytest.mark.parametrize("metric", OVER_LABELS)
def test_labels_with_many_rows_have_the_corrected_quotient(metric: str) -> None:
    """Hits and rows divided by p, where one appearance more or less does not matter."""
    h, o, m, p = (np.array(x) for x in ([4e7, 1e7], [5e7, 9e7], [9e7, 2e8], [0.5, 0.8]))
    counts = macro.Counts(h, m - h, o - h, 1 / p, corrected=True)
    made = macro.FORMS[METRICS[metric].form](counts)
    values = OVER_LABELS[metric](h / p, m, o / p)
    weight = (o / p).sum() / 2 if metric.startswith("weighted") else 1.0
    assert made.mean == pytest.approx(values.mean() / weight, rel=1e-6)


def test_weighted_precision_divides_two_sums_that_are_right_on_average() -> None:
    """Over all masks: of rows × their labels' hits over predictions, and of rows."""
    rng = np.random.default_rng(11)
    p = np.array([0.3, 0.7])
    labels, sets = (rng.random((5, 2)) < 0.7).astype(int), (rng.random((5, 2)) < 0.6).astype(int)
    above = below = 0.0
    for chance, observed in masks(labels, p):
        kinds = (sets & observed, sets & ~observed & 1, observed & ~sets & 1)
        counts = macro.Counts(*(k.sum(axis=0).astype(float) for k in kinds), 1 / p, corrected=True)
        rows = float((counts.q * counts.observed).sum())
        above += chance * macro.weighted_precision(counts).mean * rows
        below += chance * rows
    n, hits = labels.sum(axis=0), (labels & sets).sum(axis=0)
    assert above == pytest.approx((n * hits / sets.sum(axis=0)).sum(), abs=1e-10)
    assert below == pytest.approx(n.sum(), abs=1e-10)


@pytest.mark.parametrize("metric", [m for m in OF_SETS if m.startswith("weighted-")])
@pytest.mark.parametrize("estimator", ["vanilla", "unbiased"])
def test_errors_of_weighted_means_are_those_of_the_jackknife(metric: str, estimator: str) -> None:
    labels, sets = rows(80, 4, seed=12)
    p = np.array([0.5, 0.9, 0.7, 0.4])

    def value(kept: np.ndarray) -> float:
        table = Evaluator(p, metrics=[metric], estimators=[estimator])
        return table.update(LabelSets(sets[kept]), labels[kept]).unjudged()[metric, estimator].value

    left_out = np.array([value(np.arange(80) != i) for i in range(80)])
    jackknife = math.sqrt(((left_out - left_out.mean()) ** 2).sum() * 79 / 80)
    each = evaluate(LabelSets(sets), labels, p, metrics=[metric], estimators=[estimator])
    assert each[metric, estimator].standard_error == pytest.approx(jackknife, rel=0.04)


def test_weighted_numbers_move_by_what_labels_weigh() -> None:
    """Recall is 1 of one label and 0 of the other: moved apart, the better one weighs more."""
    labels, sets = np.zeros((200, 2), int), np.zeros((200, 2), int)
    labels[:100, 0] = labels[100:, 1] = sets[:100, 0] = 1
    table = evaluate(LabelSets(sets), labels, [0.5, 0.5], metrics=["weighted-F1"])
    each = table["weighted-F1", "unbiased"]
    assert each.sensitivity is not None
    assert not each.sensitivity.exact

    def expected(first: float, second: float) -> float:
        return first * (2 * first / (100 + first)) / (first + second)

    for moved in each.sensitivity.gammas:
        g = moved.gamma
        ends = [(200 / g, 200 / g), (200 * g, 200 * g), (200 * g, 200 / g), (200 / g, 200 * g)]
        values = [expected(*end) for end in ends]
        assert (moved.low, moved.high) == pytest.approx((min(values), max(values)))


@pytest.mark.parametrize("metric", ["micro-P", "micro-R", "micro-F1", "Hamming"])
def test_errors_of_micro_metrics_are_those_of_repeated_samples(metric: str) -> None:
    rng = np.random.default_rng(5)
    p, values, errors = np.array([0.4, 0.6, 0.8]), [], []
    for _ in range(150):
        effort = rng.random((200, 1))  # rows differ, so pairs of a row are not independent
        labels = rng.random((200, 3)) < effort
        sets = rng.random((200, 3)) < 0.1 + 0.6 * effort
        observed = labels & (rng.random(labels.shape) < p)
        each = evaluate(LabelSets(sets), observed, p, metrics=[metric])[metric, "unbiased"]
        values.append(each.value)
        errors.append(each.standard_error)
    assert np.std(values) == pytest.approx(np.mean(errors), rel=0.2)


def test_the_whole_list_is_the_set_and_k_cuts_it() -> None:
    """Also where rows predict fewer than k, which P@k holds against them."""
    top = one_top([[3, 1, 0], [2], []])
    labels = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0]])
    names = ["sample-P", "sample-P@2", "P@2", "micro-P", "micro-P@2", "sample-F1@2"]
    table = evaluate(top, labels, metrics=names)
    values = [table[name, "vanilla"].value for name in names]
    assert values == pytest.approx(
        [(2 / 3 + 1) / 3, (1 / 2 + 1) / 3, (1 / 2 + 1 / 2) / 3, 3 / 4, 2 / 3, (1 / 2 + 2 / 3) / 3]
    )


def test_shards_of_sets_of_any_size_merge_to_the_bit() -> None:
    """The largest set of a shard does not matter."""
    labels, sets = rows(120, 8, seed=2)
    sets[:40, 1:] = 0
    p = np.linspace(0.4, 1, 8)
    asked = {"metrics": OF_SETS, "estimators": ["vanilla", "unbiased"]}
    whole = Evaluator(p, **asked).update(LabelSets(sets), labels).compute()
    parts = [
        Evaluator(p, **asked).update(LabelSets(sets[part]), labels[part])
        for part in (slice(0, 40), slice(40, 47), slice(47, 120))
    ]
    merged = Evaluator(p, **asked)
    for each in reversed(parts):
        merged.merge(each)
    assert merged.compute().to_dicts() == whole.to_dicts()


@pytest.mark.parametrize("metric", ["micro-F1", "micro-P", "micro-R", "sample-F1", "Hamming"])
def test_a_comparison_is_the_difference_of_two_evaluations(metric: str) -> None:
    labels, sets = rows(200, 7, seed=4)
    p = np.full(7, 0.6)
    observed = labels * (np.random.default_rng(1).random(labels.shape) < p)
    worse = sets ^ (np.random.default_rng(2).random(sets.shape) < 0.2)
    asked = {"metrics": [metric], "estimators": ["vanilla", "unbiased"]}
    systems = {"worse": LabelSets(worse), "better": LabelSets(sets)}
    table = compare(systems, observed, p, **asked)["better"]
    for estimator in asked["estimators"]:
        each = table[metric, estimator]
        new, old = (
            evaluate(system, observed, p, **asked)[metric, estimator]
            for system in (systems["better"], systems["worse"])
        )
        assert each.value == pytest.approx(new.value - old.value, abs=1e-12)
        assert each.standard_error < math.hypot(new.standard_error, old.standard_error)
        assert each.interval[0] < each.value < each.interval[1]
        assert each.details["p_value"] < 0.01
        higher = "higher" if each.value > 0 else "lower"
        word = f"scores {higher}" if each.estimator == "vanilla" else "is better"
        assert f"better {word} than worse" in str(each.verdict)


def test_errors_of_differences_of_micro_metrics_are_those_of_the_jackknife() -> None:
    labels, sets = rows(60, 5, seed=6)
    other = 1 - sets
    p = np.full(5, 0.7)

    def difference(kept: np.ndarray) -> float:
        values = [
            evaluate(LabelSets(s[kept]), labels[kept], p, metrics=["micro-F1"])
            for s in (sets, other)
        ]
        return values[0]["micro-F1", "unbiased"].value - values[1]["micro-F1", "unbiased"].value

    left_out = np.array([difference(np.arange(60) != i) for i in range(60)])
    jackknife = math.sqrt(((left_out - left_out.mean()) ** 2).sum() * 59 / 60)
    both = compare({"b": LabelSets(other), "a": LabelSets(sets)}, labels, p, metrics=["micro-F1"])
    assert both["a"]["micro-F1", "unbiased"].standard_error == pytest.approx(jackknife, rel=0.03)


def test_sets_have_no_order_and_scores_no_set() -> None:
    labels, sets = rows(20, 5, seed=7)
    for name in ("R@3", "MRR", "sample-F1@2", "micro-P@1"):
        with pytest.raises(ValueError, match=f"{name} needs an order, and sets have none"):
            evaluate(LabelSets(sets), labels, metrics=[name])
    with pytest.raises(ValueError, match="micro-F1 needs to know which labels are predicted"):
        evaluate(np.random.default_rng(0).random((20, 5)), labels, metrics=["micro-F1"])
    by_default = evaluate(LabelSets(sets), labels)
    assert [each.metric for each in by_default] == [
        "sample-P", "sample-R", "sample-F1", "micro-P", "micro-R", "micro-F1", "macro-F1",
    ]  # fmt: skip


def test_precision_above_one_refutes_the_propensities() -> None:
    """Propensities that are far too low: no set is right more often than it is predicted."""
    rng = np.random.default_rng(8)
    labels = (rng.random((400, 6)) < 0.5).astype(int)
    table = evaluate(
        LabelSets(labels), labels, np.full(6, 0.5), metrics=["micro-P", "sample-P", "micro-F1"]
    )
    for name in ("micro-P", "sample-P", "micro-F1"):
        assert table[name, "unbiased"].verdict.level is Level.UNUSABLE
    assert "the propensities are too low" in str(table["micro-P", "unbiased"].verdict)


def test_how_far_micro_metrics_move_with_the_propensities() -> None:
    """Hits at one end, misses at the other: micro-P moves with all of them, exactly."""
    labels, sets = rows(150, 6, seed=9)
    table = evaluate(LabelSets(sets), labels, np.full(6, 0.5), metrics=["micro-P", "micro-R"])
    precision = table["micro-P", "unbiased"]
    assert precision.sensitivity is not None
    for each in precision.sensitivity.gammas:
        assert (each.low, each.high) == pytest.approx(
            (precision.value / each.gamma, precision.value * each.gamma)
        )
    recall = table["micro-R", "unbiased"]
    assert recall.sensitivity is not None
    for each in recall.sensitivity.gammas:
        odds, factor = recall.value / (1 - recall.value), each.gamma**2
        assert each.high == pytest.approx(odds * factor / (1 + odds * factor))
