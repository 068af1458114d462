"""Means over labels: values, errors and intervals, by deletion, explicit sums and simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.helpers.evaluations import L, one, part, rows_of, same
from tests.helpers.rankings import one_top
from unmask.metrics import Evaluator, compare, evaluate, macro, supported
from unmask.predictions import TopK

CASES = [
    (metric, name)
    for metric in ("macro-P", "macro-R", "macro-F1", "coverage")
    for name in supported(metric)
]
KINDS = ("hits", "wrong", "missed")


def kinds_of(top: TopK, labels: np.ndarray) -> np.ndarray:
    """Whether every label of every row is hit, wrongly predicted or missed: (3, n, L)."""
    listed = np.zeros(labels.shape, bool)
    np.put_along_axis(listed, top.labels.astype(int), True, axis=1)
    observed = labels > 0
    return np.array([listed & observed, listed & ~observed, observed & ~listed])


def counts_of(top: TopK, labels: np.ndarray, q: np.ndarray, estimator: str) -> macro.Counts:
    summed = kinds_of(top, labels).sum(axis=1).astype(float)
    inverse = np.ones(L) if estimator == "vanilla" else q
    return macro.Counts(*summed, inverse, estimator != "vanilla")


def form_of(metric: str, counts: macro.Counts) -> macro.OverLabels:
    names = {"macro-P": "precision", "macro-R": "recall", "macro-F1": "f1", "coverage": "coverage"}
    return macro.FORMS[names[metric]](counts)


@pytest.mark.parametrize(("metric", "estimator"), CASES)
def test_the_error_is_that_of_labels_and_of_what_rows_have_in_common(
    metric: str, estimator: str
) -> None:
    """By explicit sums over rows and pairs of different labels."""
    top, labels, propensity = rows_of(60)
    each = one(top, labels, propensity, f"{metric}@3", estimator)
    labelled = form_of(metric, counts_of(top, labels, 1 / propensity, estimator))
    worth = np.einsum("knj,kj->nj", kinds_of(top, labels), np.array(labelled.effects.by_kind))
    pairs = sum(
        worth[i, a] * worth[i, b] for i in range(60) for a in range(L) for b in range(L) if a != b
    )
    variance = labelled.own + max(0.0, pairs)
    assert each.value == pytest.approx(labelled.values.mean(), rel=1e-12)
    factor = each.value / labelled.centre if labelled.centre else 1.0
    expected = factor * math.sqrt(variance) / labelled.labels
    assert each.standard_error == pytest.approx(expected, rel=1e-9)
    assert each.details["labels"] + each.details["labels_left_out"] == L
    sizes = labelled.values
    assert each.effective_sample_size == pytest.approx(sizes.sum() ** 2 / (sizes @ sizes))


@pytest.mark.parametrize("q", [1.0, 2.5])
def test_effects_on_f1_are_those_of_leaving_the_row_out(q: float) -> None:
    """With the shares of appearances held fixed, which only the whole sample tells."""
    kinds = np.array([[3.0, 1, 0, 2, 4], [1, 0, 2, 0, 1], [2, 0, 1, 4, 1]])
    counts = macro.Counts(*kinds, np.full(5, q))
    total = sum(float(getattr(counts, name).sum()) for name in KINDS)
    s_m, s_o = (float(each.sum()) / total for each in (counts.predicted, counts.observed))

    def value(hits: float, wrong: float, missed: float) -> float:
        if not hits:
            return 0.0
        return 2 * q * hits / (hits + wrong - 1 + s_m + q * (hits + missed - 1 + s_o))

    effects = macro.fraction(counts, macro.F1).effects
    for j in range(5):
        whole = [float(getattr(counts, name)[j]) for name in KINDS]
        for kind, effect in enumerate(effects.by_kind):
            without = [each - (place == kind) for place, each in enumerate(whole)]
            expected = value(*whole) - value(*without) if whole[kind] else 0.0
            assert effect[j] == pytest.approx(expected, rel=1e-12)


def test_effects_on_shares_compare_a_row_with_the_others_and_an_average_one() -> None:
    """Over n: a deletion with one observation more, the mean over labels."""
    hits, wrong = np.array([3.0, 0, 1]), np.array([1.0, 2, 0])
    q = np.array([2.0, 3, 1])
    labelled = macro.precision(macro.Counts(hits, wrong, np.zeros(3), q))
    mean = (q * hits / (hits + wrong)).mean()
    for j, n in enumerate(hits + wrong):
        for counted, effect in ((q[j], labelled.effects.hit), (0.0, labelled.effects.wrong)):
            others = (q[j] * hits[j] - counted + mean) / n
            if counted and not hits[j]:
                continue
            assert effect[j] == pytest.approx((counted - others) / n, rel=1e-12)


def test_the_variance_of_a_share_is_right_on_average_where_labels_are_alike() -> None:
    """40 labels of one recall r, two to five times observed: Σ r (1 − r) / o by enumeration.

    The chance of every number of hits is binomial; V is linear in h and h (h − 1) but for the mean
    over labels, which many labels fix.
    """
    rng = np.random.default_rng(0)
    observed, r = rng.integers(2, 6, size=40).astype(float), 0.3
    hits = rng.binomial(observed.astype(int), r, size=(4000, 40)).astype(float)
    zeros, ones = np.zeros(40), np.ones(40)
    own = np.mean([macro.recall(macro.Counts(h, zeros, observed - h, ones)).own for h in hits])
    assert own == pytest.approx((r * (1 - r) / observed).sum(), rel=0.03)


def test_a_label_seen_once_has_the_spread_of_others() -> None:
    """Not that of its single row, which is none."""
    hits, observed = np.array([1.0] * 6 + [0.0] * 4), np.ones(10)
    counts = macro.Counts(hits, np.zeros(10), observed - hits, np.ones(10))
    drawn = (hits + 0.6) / 2
    assert macro.recall(counts).own == pytest.approx((drawn - 0.36).sum())


def test_labels_hit_once_are_what_coverage_may_lose() -> None:
    top, labels = one_top([[0], [0], [1], [2]]), [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]]
    each = one(top, labels, None, "coverage@1", "vanilla")
    assert each.value == pytest.approx(2 / 3)
    assert each.standard_error == pytest.approx(1 / 3)


@pytest.mark.parametrize("metric", ["macro-P@1", "macro-R@1", "macro-F1@1"])
@pytest.mark.parametrize("right", [0, 1])
def test_no_interval_has_zero_width(metric: str, right: int) -> None:
    """Every prediction right, or none: 20 rows leave an interval of some width, within [0, 1]."""
    labels = np.eye(2)[[right] * 20]
    each = one(one_top([[1]] * 20), labels, None, metric, "vanilla")
    assert each.value == right
    low, high = each.interval
    assert 0 <= low < high <= 1
    assert low <= right <= high


@pytest.mark.parametrize(("metric", "estimator"), CASES)
def test_parts_in_any_order_are_the_whole(metric: str, estimator: str) -> None:
    top, labels, propensity = rows_of(90)
    options: dict[str, Any] = {"metrics": [f"{metric}@{k}" for k in (1, 3)]}
    options["estimators"] = [estimator]
    whole = Evaluator(propensity, **options).update(top, labels).compute()
    pieces = [slice(60, 90), slice(0, 25), slice(25, 60)]
    merged = Evaluator(propensity, **options)
    for rows in pieces:
        merged.merge(Evaluator(propensity, **options).update(part(top, rows), labels[rows]))
    assert same(merged.compute(), whole)
    bootstrapped = evaluate(top, labels, propensity, **options, interval="bca")
    assert bootstrapped[f"{metric}@3", estimator] == whole[f"{metric}@3", estimator]


def test_what_is_kept_does_not_change_with_the_input() -> None:
    top, labels, _ = rows_of(30)
    listed, stored = top.labels.copy(), labels.copy()
    evaluator = Evaluator(metrics=["macro-F1@3"]).update(TopK(listed, top.scores), stored)
    before = evaluator.compute()
    listed[:], stored[:] = 0, 0
    assert same(evaluator.compute(), before)


@pytest.mark.parametrize(("metric", "estimator"), CASES)
def test_differences_are_paired_by_row(metric: str, estimator: str) -> None:
    top, labels, propensity = rows_of(80)
    other = TopK.from_scores(np.random.default_rng(3).random((80, L)) + labels, 3)
    name = f"{metric}@3"
    asked: dict[str, Any] = {"metrics": [name], "estimators": [estimator]}
    each = compare({"a": top, "b": other}, labels, propensity, **asked)["b"][name, estimator]
    both = [one(system, labels, propensity, name, estimator) for system in (other, top)]
    assert each.value == both[0].value - both[1].value
    assert each.details["values"] == [both[0].value, both[1].value]
    worth = np.zeros((2, 80))
    for place, system in enumerate((other, top)):
        labelled = form_of(metric, counts_of(system, labels, 1 / propensity, estimator))
        factor = labelled.mean / labelled.centre if labelled.centre else 1.0
        effects = np.array(labelled.effects.by_kind) * factor / labelled.labels
        worth[place] = np.einsum("knj,kj->n", kinds_of(system, labels), effects)
    paired = worth[0] - worth[1]
    assert each.standard_error == pytest.approx(math.sqrt(paired @ paired * 80 / 79), rel=1e-9)
    twin = compare({"a": top, "b": top}, labels, propensity, **asked)["b"][name, estimator]
    assert (twin.value, twin.interval, twin.details["p_value"]) == (0, (0, 0), 1)


class Planted:
    """Rows of 60 labels, rare ones among them, ranked by a noisy score; labels go missing by p."""

    def __init__(self) -> None:
        self.rates = 0.3 / np.arange(1, 61)
        self.p = np.linspace(0.9, 0.3, 60)

    def rows(self, rng: np.random.Generator, n: int) -> tuple[TopK, TopK, np.ndarray]:
        """Predictions of two systems, and true labels."""
        true = rng.random((n, 60)) < self.rates
        scores = true * 1.2 + self.rates + rng.standard_normal((n, 60)) * 0.4
        worse = scores + rng.standard_normal((n, 60)) * 0.5
        return TopK.from_scores(scores, 3), TopK.from_scores(worse, 3), true

    def truth(self) -> list[dict[str, np.ndarray]]:
        """Of both systems: every metric of every label, from many rows."""
        *systems, true = self.rows(np.random.default_rng(99), 60_000)
        values = []
        for top in systems:
            hits, wrong, missed = kinds_of(top, true).sum(axis=1)
            values.append({
                "macro-P@3": hits / np.maximum(hits + wrong, 1),
                "macro-R@3": hits / np.maximum(hits + missed, 1),
                "macro-F1@3": 2 * hits / np.maximum(2 * hits + wrong + missed, 1),
            })  # fmt: skip
        return values


def counted_labels(top: TopK, observed: np.ndarray) -> dict[str, np.ndarray]:
    hits, wrong, missed = kinds_of(top, observed).sum(axis=1)
    return {
        "macro-P@3": hits + wrong > 0,
        "macro-R@3": hits + missed > 0,
        "macro-F1@3": hits + wrong + missed > 0,
    }


@pytest.mark.slow
def test_intervals_hold_the_truth_of_the_labels_they_are_about() -> None:
    """150 samples of 150 rows: complete and masked labels, values and differences of two systems.

    Unbiased F1 is off by less than a third of what the plain quotient of counts is.
    """
    planted, rng = Planted(), np.random.default_rng(5)
    truth, names = planted.truth(), ["macro-P@3", "macro-R@3", "macro-F1@3"]
    holds: dict[tuple[str, ...], list[bool]] = {}
    errors: dict[str, list[float]] = {"plain": [], "unbiased": []}
    for _ in range(150):
        top, worse, true = planted.rows(rng, 150)
        observed = (true & (rng.random(true.shape) < planted.p)).astype(int)
        for case, labels, p in (("complete", true * 1, None), ("masked", observed, planted.p)):
            table = evaluate(top, labels, p, metrics=names)
            both = compare({"a": worse, "b": top}, labels, p, metrics=names)["b"]
            counted = [counted_labels(each, labels) for each in (top, worse)]
            means = [
                {name: float(each[name][chosen[name]].mean()) for name in names}
                for each, chosen in zip(truth, counted, strict=True)
            ]
            for name in names:
                estimator = supported(name.partition("@")[0])[-1 if p is not None else 0]
                low, high = table[name, estimator].interval
                holds.setdefault((case, name), []).append(low <= means[0][name] <= high)
                low, high = both[name, estimator].interval
                gap = means[0][name] - means[1][name]
                holds.setdefault((case, name, "difference"), []).append(low <= gap <= high)
        labelled = form_of("macro-F1", macro.Counts(
            *kinds_of(top, observed).sum(axis=1).astype(float), 1 / planted.p
        ))  # fmt: skip
        target = means[0]["macro-F1@3"]
        errors["plain"].append(labelled.mean - target)
        errors["unbiased"].append(table["macro-F1@3", "unbiased"].value - target)
    for case, answers in holds.items():
        assert np.mean(answers) >= 0.9, case
    assert abs(np.mean(errors["unbiased"])) < abs(np.mean(errors["plain"])) / 3


UNEVEN = macro.Counts(
    hits=np.array([2.0, 1, 0, 0, 0]),
    wrong=np.array([1.0, 0, 2, 0, 0]),
    missed=np.array([1.0, 0, 0, 1, 0]),
    q=np.array([2.0, 3, 1.5, 1.25, 4]),
)
"""Five labels: one of all kinds, one hit once, one only predicted, one only missed, one never."""


@pytest.mark.parametrize(
    ("form", "trials", "left_out"),
    [
        ("precision", 9 / (2 / 3 + 3 / 1 + 1.5 / 2), 2),
        ("recall", 9 / (1 / 3 + 1 / 1 + 1 / 1), 2),
        ("f1", 16 / (2 / 4 + 3 / 1 + 1.5 / 2 + 1.25 / 1), 1),
        ("jaccard", 16 / (2 / 4 + 3 / 1 + 1.5 / 2 + 1.25 / 1), 1),
        ("weighted_precision", 5.0, 2),
        ("weighted_f1", 5.0, 2),
        ("coverage", 25 / (1 / 2 + 1 + 1 + 1 + 1), 0),
    ],
)
def test_trials_and_labels_that_are_left_out(form: str, trials: float, left_out: int) -> None:
    labelled = macro.FORMS[form](UNEVEN)
    assert labelled.trials == pytest.approx(trials, rel=1e-12)
    assert labelled.left_out == left_out
    assert labelled.labels == 5 - left_out
    nothing = macro.FORMS[form](macro.Counts(*np.zeros((3, 2)), np.ones(2)))
    assert nothing.mean == 0.0
    assert nothing.trials == (2.0 if form == "coverage" else 1.0)


@pytest.mark.parametrize(
    ("form", "beta"), [("f1", 1.0), ("f05", 0.5), ("f2", 2.0), ("jaccard", None)]
)
def test_fractions_are_those_of_precision_and_recall(form: str, beta: float | None) -> None:
    """(1 + β²) h / ((1 + β²) h + w + β² m) of complete labels, 0 without a hit."""
    counts = macro.Counts(UNEVEN.hits, UNEVEN.wrong, UNEVEN.missed, np.ones(5))
    values = macro.FORMS[form](counts).values
    if beta is None:
        expected = [2 / 4, 1.0, 0.0, 0.0]
    else:
        precision, recall = 2 / 3, 2 / 3
        f = (1 + beta**2) * precision * recall / (beta**2 * precision + recall)
        expected = [f, 1.0, 0.0, 0.0]
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    unequal = macro.Counts(*np.array([[2.0], [3.0], [1.0]]), np.ones(1))
    precision, recall = 2 / 5, 2 / 3
    b = beta or 0.0
    f = (1 + b**2) * precision * recall / (b**2 * precision + recall)
    assert macro.FORMS[form](unequal).values == pytest.approx(2 / 6 if beta is None else f)


@pytest.mark.parametrize("form", ["f1", "f2", "jaccard"])
def test_readings_divide_an_appearance_as_companions_or_as_truth_does(form: str) -> None:
    """One appearance of every label is replaced by a mean one, in two ways, by explicit sums."""
    c = {"f1": (2.0, 2.0, 1.0, 1.0, 1.0), "f2": (5.0, 5.0, 1.0, 4.0, 4.0)}
    above, hit, wrong, missed, doubled = c.get(form, (1.0, 1.0, 1.0, 1.0, 0.0))
    h, w, m, q = UNEVEN.hits, UNEVEN.wrong, UNEVEN.missed, UNEVEN.q
    kinds = [(hit - doubled + doubled * q[j], wrong, missed * q[j]) for j in range(5)]
    below = [h[j] * a + w[j] * b + m[j] * d for j, (a, b, d) in enumerate(kinds)]
    # of labels that are hit, only the first has other appearances: 1 hit, 1 wrong, 1 missed
    companions = [below[j] - kinds[j][0] + sum(kinds[j]) / 3 for j in range(4)]
    right, lost, predicted = 2 * 2 + 3 * 1, 2 * 1 + 1.25 * 1, 6
    true = hit * right + wrong * (predicted - right) + missed * lost
    truth = [below[j] - kinds[j][0] + true / (predicted + lost / q[j]) for j in range(4)]
    expected = [
        np.mean([above * q[j] * h[j] / under[j] if h[j] else 0.0 for j in range(4)])
        for under in (companions, truth)
    ]
    labelled = macro.FORMS[form](UNEVEN)
    assert labelled.readings == pytest.approx(expected, rel=1e-12)
    plain = [above * q[j] * h[j] / below[j] if h[j] else 0.0 for j in range(4)]
    np.testing.assert_allclose(labelled.values, plain, rtol=1e-12)


def test_companions_weigh_as_much_as_their_label_has_hits_among_the_others() -> None:
    """3 hits and a miss: 3 of weight 1; a hit and 2 wrong: 2 of weight ½; a hit and a miss: 1."""
    q = np.array([2.0, 3, 1.5])
    counts = macro.Counts(*np.array([[3.0, 1, 1], [0, 2, 0], [1, 0, 1]]), q)
    shares = np.array([2.0, 2 * 0.5, 1.0 + 1.0]) / 5
    mean = [shares @ (1 + each, 1.0, each) for each in q]
    below = [3 * (1 + 2.0) + 2.0, 1 + 3.0 + 2, 1 + 1.5 + 1.5]
    values = [
        2 * q[j] * hits / (below[j] - (1 + q[j]) + mean[j]) for j, hits in enumerate((3, 1, 1))
    ]
    assert macro.fraction(counts, macro.F1).readings[0] == pytest.approx(np.mean(values))


@pytest.mark.parametrize("form", ["weighted_precision", "weighted_f1", "weighted_f2"])
def test_weighted_means_and_their_effects_are_those_of_leaving_rows_out(form: str) -> None:
    """Σ V / Σ q o over labels that are observed; without a row V and q o change."""
    h, w, m, q = UNEVEN.hits, UNEVEN.wrong, UNEVEN.missed, UNEVEN.q
    beta = {"weighted_f1": 1.0, "weighted_f2": 4.0}.get(form, 0.0)

    def value(j: int, hits: float, wrong: float, missed: float) -> float:
        observed = hits + missed
        if hits <= 0:
            return 0.0
        if form == "weighted_precision":
            return float(q[j] * hits * (1 + q[j] * (observed - 1)) / (hits + wrong))
        under = hits + wrong + beta * q[j] * observed
        return float((1 + beta) * q[j] * hits * q[j] * observed / under)

    labels = [0, 1, 3]
    total = sum(q[j] * (h[j] + m[j]) for j in labels)
    whole = {j: value(j, h[j], w[j], m[j]) for j in labels}
    mean = sum(whole.values()) / total
    labelled = macro.FORMS[form](UNEVEN)
    assert labelled.weighted
    assert labelled.mean == pytest.approx(mean, rel=1e-12)
    np.testing.assert_allclose(labelled.values, [whole[j] * 3 / total for j in labels], rtol=1e-12)
    own = 0.0
    for kind, effect in enumerate(labelled.effects.by_kind):
        for j in range(5):
            rows = (h[j], w[j], m[j])
            expected = 0.0
            if rows[kind] and j in labels:
                less = [each - (place == kind) for place, each in enumerate(rows)]
                lost = q[j] if kind != 1 else 0.0
                expected = (whole[j] - value(j, *less) - mean * lost) * 3 / total
            assert effect[j] == pytest.approx(expected, rel=1e-12), (kind, j)
            own += rows[kind] * expected**2
    assert labelled.own == pytest.approx(own, rel=1e-12)


def test_the_spread_of_a_share_is_drawn_to_that_of_labels_seen_a_few_times() -> None:
    """By loops over labels: two to five rows count as few, 20 labels of the mean's square join."""
    hits = np.array([4.0, 2, 1, 0, 0, 3])
    wrong = np.array([1.0, 4, 1, 1, 0, 0])
    q = np.array([1.5, 2, 1.25, 3, 4, 1])
    n = hits + wrong
    labels = [0, 1, 2, 3, 5]
    values = [q[j] * hits[j] / n[j] for j in labels]
    mean = sum(values) / 5

    def square(j: int) -> float:
        pairs = n[j] * (n[j] - 1)
        return float(q[j] ** 2 * hits[j] * (hits[j] - 1) / pairs) if pairs else 0.0

    few = [square(j) for j in (0, 2, 5)]  # of 5, 2 and 3 rows; label 1 has 6, label 3 one
    common = min((sum(few) + 20 * mean**2) / (3 + 20), mean)
    own = sum(
        (q[j] * (q[j] * hits[j] + mean) / (n[j] + 1) - ((n[j] - 1) * square(j) + common) / n[j])
        / n[j]
        for j in labels
    )
    labelled = macro.precision(macro.Counts(hits, wrong, np.array([0.0, 0, 5, 0, 2, 1]), q))
    assert labelled.own == pytest.approx(own, rel=1e-12)
    np.testing.assert_allclose(labelled.values, values, rtol=1e-12)
    assert labelled.error(0.09, reading=0.5) == pytest.approx(0.3 / 5)
    assert [float(each[4]) for each in labelled.effects.by_kind] == [0.0, 0.0, 0.0]
    recalled = macro.recall(macro.Counts(hits, np.zeros(6), wrong, q))
    assert [float(each[4]) for each in recalled.effects.by_kind] == [0.0, 0.0, 0.0]
    np.testing.assert_array_equal(labelled.effects.missed, np.zeros(6))
    np.testing.assert_array_equal(recalled.effects.wrong, np.zeros(6))


def test_the_error_of_another_reading_is_in_proportion_to_it() -> None:
    labelled = macro.fraction(UNEVEN, macro.F1)
    assert labelled.centre is not None
    expected = 0.5 / labelled.centre * math.sqrt(0.16) / 4
    assert labelled.error(0.16, reading=0.5) == pytest.approx(expected, rel=1e-12)
    nothing = macro.precision(macro.Counts(*np.zeros((3, 2)), np.ones(2)))
    assert nothing.error(0.16, reading=0.5) == pytest.approx(0.4)


def test_readings_of_a_single_prediction() -> None:
    """One hit that stands for two true pairs, and nothing else: it divides by 2 c_h − c_w."""
    alone = macro.Counts(np.ones(1), np.zeros(1), np.zeros(1), np.full(1, 2.0))
    for form in (macro.F1, macro.F05, macro.F2, macro.JACCARD):
        below = form.weights(alone.q)[0]
        companions, truth = macro._readings(alone, form, below)
        np.testing.assert_allclose(truth, [2 * form.hit - form.wrong], rtol=1e-15)
        np.testing.assert_allclose(companions, below, rtol=1e-15)
