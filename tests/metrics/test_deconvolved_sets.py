"""Deconvolved metrics of predicted sets: every size counted exactly, all fitted together."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.evaluations import summary_of
from tests.helpers.oracles import subsets
from unmask import Evaluator, LabelSets, TopK, compare, evaluate
from unmask._kernels import row_bounds
from unmask._kernels.deconvolution import FIXED, stratum
from unmask.metrics import METRICS as REGISTRY
from unmask.metrics import deconvolution as fitting
from unmask.metrics import sums as state
from unmask.metrics import supported
from unmask.metrics.claims import Advice, Level, Reason
from unmask.metrics.deconvolution import SET_METRICS, of_sizes
from unmask.metrics.request import Request
from unmask.metrics.sums import Inverse, Sums
from unmask.metrics.sums import count as count_rows
from unmask.metrics.thinning import SetSizes

NAMES = list(SET_METRICS)

N_LABELS = 8


def defined(true: set[int], predicted: set[int]) -> dict[str, float]:
    """Every metric of one row, from its definition."""
    hits, size, n = len(true & predicted), len(predicted), len(true)
    if not hits:
        return dict.fromkeys(NAMES, 0.0)
    precision, recall = hits / size, hits / n
    weighted = {
        beta: (1 + beta**2) * precision * recall / (beta**2 * precision + recall)
        for beta in (0.5, 1, 2)
    }
    return {
        "sample-P": precision, "sample-R": recall, "sample-F1": weighted[1],
        "sample-F0.5": weighted[0.5], "sample-F2": weighted[2],
        "sample-Jaccard": hits / len(true | predicted),
    }  # fmt: skip


def test_hits_earn_the_metric_together() -> None:
    for size, s, t in product(range(1, 6), range(1, 6), range(5)):
        if s <= size:
            expected = defined(set(range(s + t)), {*range(s), *range(10, 10 + size - s)})
            for name, value in SET_METRICS.items():
                worth = value(*(np.array([float(x)]) for x in (size, s, t)))
                assert s * float(worth[0]) == pytest.approx(expected[name])


def test_the_registry_says_which_metrics_are_deconvolved() -> None:
    of_sets = {name for name, about in REGISTRY.items() if about.of_sets and about.deconvolved}
    assert of_sets == set(SET_METRICS)
    assert "deconvolved" not in supported("subset-accuracy")
    assert "deconvolved" not in supported("micro-F1")


ROWS: list[tuple[int, set[int], set[int]]] = [  # how often, true labels, predicted set
    (40, {0}, {0}),
    (20, {0, 5}, {0, 1, 2}),
    (30, {1, 2, 5, 6}, {1, 2, 3, 7}),
    (10, {4, 5}, set()),
    (20, {3}, {1, 2, 3}),
    (30, {2, 3, 4}, {2}),
    (10, set(), {6, 7}),
]


def every_mask(times: int = 1) -> tuple[LabelSets, np.ndarray, dict[str, float]]:
    """All masks of p = 1/2, each as often as it is likely: observed labels and what is true."""
    sets, observed, totals, n = [], [], Counter(), 0
    for count, true, predicted in ROWS:
        copies = count * times * 2 ** (4 - len(true))
        for seen in subsets(tuple(true)):
            sets += [sorted(predicted)] * copies
            observed += [np.isin(np.arange(N_LABELS), seen)] * copies
            n += copies
        for name, value in defined(true, predicted).items():
            totals[name] += copies * 2 ** len(true) * value
    labels = np.array(observed).astype(int)
    return LabelSets(sets, n_labels=N_LABELS), labels, {k: v / n for k, v in totals.items()}


def test_the_table_of_all_masks_gives_back_the_truth() -> None:
    sets, observed, truth = every_mask(times=20)
    half = np.full(N_LABELS, 0.5)
    table = evaluate(sets, observed, half, metrics=NAMES, estimators=["unbiased", "deconvolved"])
    for name in NAMES:
        assert table[name, "unbiased"].value == pytest.approx(truth[name], abs=1e-12)
        assert table[name, "deconvolved"].value == pytest.approx(truth[name], abs=3e-3)
        assert table[name, "deconvolved"].verdict.level is Level.CONDITIONAL
        low, high = table[name, "deconvolved"].interval
        assert low < truth[name] < high


def rows_of(
    seed: int, n: int = 600, sizes: tuple[int, ...] = (0, 1, 2, 3, 5)
) -> tuple[LabelSets, np.ndarray, np.ndarray]:
    """Sets of some sizes, labels that rather are in them, propensities 1 … 1/4."""
    rng = np.random.default_rng(seed)
    scores = rng.random((n, N_LABELS))
    size = rng.choice(sizes, n)
    predicted = np.argsort(np.argsort(-scores, axis=1), axis=1) < size[:, None]
    labels = rng.random((n, N_LABELS)) < np.where(predicted, 0.4, 0.15)
    return LabelSets(predicted), labels.astype(int), 1 / rng.integers(1, 5, N_LABELS)


def deconvolved(sets: Any, labels: Any, p: Any, metrics: list[str] = NAMES) -> Any:
    return evaluate(sets, labels, p, metrics=metrics, estimators=["deconvolved"])


def test_precision_adds_hits_up_and_is_the_unbiased_one() -> None:
    sets, labels, p = rows_of(0)
    unbiased = evaluate(sets, labels, p, metrics=["sample-P"], estimators=["unbiased"])
    made = deconvolved(sets, labels, p)["sample-P", "deconvolved"].value
    assert made == pytest.approx(unbiased["sample-P", "unbiased"].value, abs=1e-12)


@pytest.mark.parametrize("k", [1, 3])
def test_sets_of_one_size_are_the_first_k(k: int) -> None:
    """Value, error and interval: the same table, and nothing that differs between sizes."""
    sets, labels, p = rows_of(1, sizes=(k,))
    names = {"sample-R": f"R@{k}", "sample-F1": f"F1@{k}", "sample-Jaccard": f"Jaccard@{k}",
             "sample-P": f"P@{k}"}  # fmt: skip
    of_sets = deconvolved(sets, labels, p, list(names))
    of_lists = deconvolved(sets.as_top(), labels, p, list(names.values()))
    for name, listed in names.items():
        mine, theirs = of_sets[name, "deconvolved"], of_lists[listed, "deconvolved"]
        assert mine.value == pytest.approx(theirs.value, rel=1e-12)
        assert mine.standard_error == pytest.approx(theirs.standard_error, rel=1e-9)
        assert mine.interval == pytest.approx(theirs.interval, rel=1e-9)
        assert mine.verdict.level is theirs.verdict.level


def test_complete_labels_need_no_fit() -> None:
    sets, labels, _ = rows_of(2)
    ones = np.ones(N_LABELS)
    table = evaluate(sets, labels, ones, metrics=NAMES, estimators=["vanilla", "deconvolved"])
    for name in NAMES:
        cell = table[name, "deconvolved"]
        assert cell.value == pytest.approx(table[name, "vanilla"].value, abs=2e-3)
        assert cell.verdict.level is Level.MEASURED


def counted_by_hand(sets: LabelSets, labels: np.ndarray, p: np.ndarray) -> dict[int, Any]:
    """size → (stratum, s, t) → rows, Σ 1/p of hits, of misses, and of squares of hits."""
    sizes: dict[int, Any] = {}
    for predicted, row in zip(sets.indicator.toarray() > 0, labels > 0, strict=True):
        size = int(predicted.sum())
        key = (
            stratum(float(sum(1 / p[predicted])), size),
            int((row & predicted).sum()),
            int((row & ~predicted).sum()),
        )
        count = sizes.setdefault(size, {}).setdefault(key, Counter())
        count["rows"] += 1
        count["hits"] += sum(1 / p[row & predicted])
        count["misses"] += sum(1 / p[row & ~predicted])
        count["squares"] += sum(1 / p[row & predicted] ** 2)
    return sizes


@pytest.mark.parametrize(("pieces", "chunk"), [(1, 1 << 18), (3, 7), (7, 50)])
def test_tables_hold_what_rows_say(pieces: int, chunk: int) -> None:
    """In shards and small chunks, each with sets of its own largest size: exact sums."""
    sets, labels, p = rows_of(3, n=90)
    options: Any = {"metrics": ["sample-F1"], "estimators": ["deconvolved"]}
    whole = Evaluator(p, **options).update(sets, labels)
    made = Sums.empty(summary_of(sets, labels, p, **options).plan, groups=False)
    parts = Evaluator(p, **options)
    indicator = sets.indicator.tocsr()
    order = np.argsort(np.diff(indicator.indptr), kind="stable")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "row_bounds", lambda indptr, _: row_bounds(indptr, chunk))
        for rows in np.array_split(order, pieces):
            one = LabelSets(indicator[rows]), labels[rows]
            parts.merge(Evaluator(p, **options).update(*one))
            made.add(count_rows(Request(**options), *one, Inverse.of(p)))
    expected = counted_by_hand(sets, labels, p)
    assert sorted(size for _, size in made.set_tables) == sorted(expected)
    for (_, size), cells in made.set_tables.items():
        keys = [
            (key // 2**32 // (size + 1), key // 2**32 % (size + 1), key % 2**32)
            for key in cells.keys.tolist()
        ]
        assert keys == sorted(expected[size])
        for c, key in enumerate(keys):
            hand = expected[size][key]
            assert cells.rows[c] == hand["rows"]
            assert cells.hits[c].tolist() == [hand["hits"] * FIXED]
            assert cells.misses[c] == hand["misses"] * FIXED
            assert cells.squares[c] == hand["squares"] * 16
    assert made.inverse_sum == FIXED * float((labels @ (1 / p)).sum())
    assert made.inverse_squares == FIXED * float((labels @ (1 / p) ** 2).sum())
    one, many = (each.compute()["sample-F1", "deconvolved"] for each in (whole, parts))
    assert (one.value, one.standard_error, one.interval) == (
        many.value, many.standard_error, many.interval
    )  # fmt: skip


def test_a_ranking_that_is_cut_is_a_set() -> None:
    """Short lists are smaller sets, unlike F1@k, which counts their empty places."""
    sets, labels, p = rows_of(4)
    top = sets.as_top()
    first = [sorted(row[row >= 0][:2].tolist()) for row in top.labels]
    cut = deconvolved(top, labels, p, ["sample-F1@2", "F1@2", "sample-F1"])
    as_sets = deconvolved(LabelSets(first, n_labels=N_LABELS), labels, p, ["sample-F1"])
    mine = cut["sample-F1@2", "deconvolved"]
    assert mine.value == pytest.approx(as_sets["sample-F1", "deconvolved"].value, rel=1e-12)
    assert mine.value > cut["F1@2", "deconvolved"].value + 0.01
    whole = deconvolved(sets, labels, p, ["sample-F1"])["sample-F1", "deconvolved"].value
    assert cut["sample-F1", "deconvolved"].value == pytest.approx(whole, rel=1e-12)


def test_sizes_are_joined_where_hits_are_few() -> None:
    assert fitting.bands(np.array([0.0, 50, 1, 1, 1, 47])).tolist() == [0, 0, 1, 1, 1, 1]
    assert fitting.bands(np.array([50.0, 47, 3])).tolist() == [0, 1, 1]
    assert fitting.bands(np.zeros(3)).tolist() == [0, 0, 0]
    assert fitting.bands(np.ones(200)).max() == 19
    sizes = (SetSizes(np.array([0.0, 2.0]), np.array([0.0, 3.0])),
             SetSizes(np.array([4.0, 8.0]), np.array([1.0, 2.0])))  # fmt: skip
    metric = of_sizes(SET_METRICS["sample-F1"], sizes)
    assert metric.at_place is not None
    s, t = np.array([1.0]), np.array([2.0])
    both = [float(metric.at_place(r, s, t, 2)[0]) for r in (0, 1)]
    assert both == pytest.approx([2 / 5, (2 / 7 + 2 * 2 / 11) / 3])
    assert float(metric.hit_value(s, t, 2)[0]) == pytest.approx((both[0] + both[1]) / 2)
    counts = fitting.Counts(np.ones(1), np.ones((2, 1)), np.ones(1), sizes=sizes)
    assert (counts.most_hits, counts.predictions) == (8, (3 * 2 + 4 + 2 * 8) / 6)


def test_no_hits_and_no_predictions_are_worth_nothing() -> None:
    labels = np.zeros((30, N_LABELS), dtype=int)
    labels[:10, 0] = 1
    p = np.full(N_LABELS, 0.5)
    for predicted in ([], [1]):
        sets = LabelSets([predicted] * 30, n_labels=N_LABELS)
        for each in deconvolved(sets, labels, p):
            assert each.value == 0.0
            assert each.interval[1] < 0.5


def test_what_cannot_be_fitted_is_refused() -> None:
    sets, labels, _ = rows_of(5)
    tiny = deconvolved(sets, labels, np.full(N_LABELS, 1e-12))["sample-R", "deconvolved"]
    assert math.isnan(tiny.value)
    assert tiny.verdict.reason is Reason.PROPENSITIES_TOO_LOW
    full = np.ones((400, N_LABELS), dtype=int)  # no row ever loses a label, at p = 1/2
    refused = deconvolved(LabelSets([[0, 1]] * 400, n_labels=N_LABELS), full,
                          np.full(N_LABELS, 0.5))["sample-F1", "deconvolved"]  # fmt: skip
    assert refused.verdict.reason in (Reason.REFUSED, Reason.REFUTED)
    asked: Any = {"metrics": ["sample-R"], "estimators": ["deconvolved"]}
    made = summary_of(sets, labels, np.ones(N_LABELS), **asked)
    fitted = made.fit(made.plan.cells[0])
    with pytest.raises(ValueError, match="deconvolved metric of sets"):
        fitted.value("R")


def test_too_many_counts_of_sets_are_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "MOST_ENTRIES", 1)
    sets, labels, p = rows_of(6)
    verdict = deconvolved(sets, labels, p)["sample-F1", "deconvolved"].verdict
    assert (verdict.reason, verdict.advice) == (Reason.TOO_MANY_COUNTS, Advice.OTHER_ESTIMATOR)
    assert "too many to deconvolve for sets of up to 5" in str(verdict)
    listed = deconvolved(sets.as_top(), labels, p, ["F1@3"])["F1@3", "deconvolved"].verdict
    assert listed.advice is Advice.SMALLER_K
    assert "at k = 3" in str(listed)


def test_systems_of_sets_are_compared() -> None:
    sets, labels, p = rows_of(7)
    other, _, _ = rows_of(8)
    table = compare({"other": other, "sets": sets}, labels, p, metrics=["sample-F1"],
                    estimators=["deconvolved"])["sets"]  # fmt: skip
    cell = table["sample-F1", "deconvolved"]
    values = [
        deconvolved(each, labels, p)["sample-F1", "deconvolved"].value for each in (sets, other)
    ]
    assert cell.value == pytest.approx(values[0] - values[1], rel=1e-12)
    assert cell.details["values"] == pytest.approx(values)
    assert cell.interval[0] > 0
    twice = compare({"a": sets, "b": LabelSets(sets.indicator)}, labels, p,
                    metrics=["sample-F1"], estimators=["deconvolved"])["b"]  # fmt: skip
    assert twice["sample-F1", "deconvolved"].interval == (0.0, 0.0)


def test_other_propensities_move_the_counts_of_sets() -> None:
    """Scaled by a factor, exactly those of scaled propensities, sizes and all."""
    sets, labels, p = rows_of(9)

    def counts(q: np.ndarray) -> fitting.Counts:
        made = summary_of(sets, labels, q, metrics=["sample-F1"], estimators=["deconvolved"])
        return made.fit(made.plan.cells[0]).counts

    def over_strata(of: fitting.Counts) -> list[np.ndarray]:
        """Sums of s and t, for other propensities are other strata."""
        sums = [np.zeros((8, 8)) for _ in range(of.k + 1)]
        for total, column in zip(sums, [*of.hits, of.misses], strict=True):
            np.add.at(total, (of.occupied.s, of.occupied.t), column)
        return sums

    before = counts(p / 3)
    lower = before.scaled(hits=1.5, misses=1.5)
    assert lower.sizes is before.sizes
    for mine, theirs in zip(over_strata(lower), over_strata(counts(p / 4.5)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
    each = deconvolved(sets, labels, p)["sample-R", "deconvolved"]
    moved = each.sensitivity
    assert moved is not None
    for end in moved.gammas:
        assert end.low < each.value < end.high
    assert len(moved.efforts) > 1


def test_entries_may_have_propensities_of_their_own() -> None:
    sets, labels, p = rows_of(10)
    entries = sp.csr_array(labels * p)
    table = deconvolved(sets, labels, entries)
    same = deconvolved(sets, labels, np.full(N_LABELS, 0.5))
    assert table["sample-P", "deconvolved"].value != same["sample-P", "deconvolved"].value
    unbiased = evaluate(sets, labels, p, metrics=["sample-P"], estimators=["unbiased"])
    made = table["sample-P", "deconvolved"].value
    assert made == pytest.approx(unbiased["sample-P", "unbiased"].value, abs=1e-12)


def test_the_order_of_a_list_does_not_matter() -> None:
    sets, labels, p = rows_of(11)
    top = sets.as_top().labels
    turned = np.array([np.r_[row[row >= 0][::-1], row[row < 0]] for row in top])
    scores = np.where(top >= 0, -np.arange(top.shape[1]), -np.inf).astype(np.float32)
    both = [deconvolved(TopK(each, scores), labels, p) for each in (top, turned)]
    for name in NAMES:
        assert both[0][name, "deconvolved"].value == both[1][name, "deconvolved"].value
