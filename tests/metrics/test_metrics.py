"""Every metric and estimator against its definition, enumeration of masks, and other libraries."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from sklearn.metrics import (
    dcg_score,
    f1_score,
    jaccard_score,
    label_ranking_loss,
    ndcg_score,
    precision_score,
    recall_score,
)

from tests.helpers import oracles
from tests.helpers.evaluations import L, one, rows_of, summary_of
from tests.helpers.rankings import DEFINITIONS, LISTED, OF_ROWS, dense_rows, one_top, ranked_rows
from tests.helpers.strategies import label_matrices
from unmask import Evaluator, LabelSets, compare
from unmask._kernels.block import Block, Kernel
from unmask._kernels.compiling import njit
from unmask._typing import Floats
from unmask.data import read
from unmask.metrics import METRICS, contributions, evaluate, macro, registry, supported
from unmask.metrics.claims import Level
from unmask.metrics.registry import Metric
from unmask.predictions import TopK
from unmask.propensity import jain

Row = tuple[Sequence[int], Sequence[int], int]  # ranking, true labels, k


def test_every_row_metric_has_a_reference() -> None:
    assert OF_ROWS
    assert set(OF_ROWS) == set(DEFINITIONS)
    assert len(set(DEFINITIONS.values())) == len(OF_ROWS)


def test_every_form_is_filled_by_one_kernel() -> None:
    kernels: dict[str, set[Kernel]] = {}
    for metric in METRICS.values():
        for kernel in metric.kernels:
            for form in kernel.forms:
                kernels.setdefault(form, set()).add(kernel)
        if metric.over not in ("labels", "scores"):
            own = {form for kernel in metric.kernels for form in kernel.forms}
            assert {metric.form, *metric.forms.values()} <= own
    assert {form: len(each) for form, each in kernels.items()} == dict.fromkeys(kernels, 1)


@njit(nogil=True)
def last_hit_share(block: Block, out: Floats, column: int) -> None:
    """The share of hits in the second half of the first k, k even: linear, so weighted by 1/p."""
    for c in range(block.ks.size):
        k = block.ks[c]
        for i in range(block.n_rows):
            total = 0.0
            for place in range(k // 2, k):
                total += block.hits[place, i]
            out[column + c, i] = total / (k - k // 2)


@njit(nogil=True)
def weighted_misses(block: Block, out: Floats, column: int) -> None:
    """True labels that are not predicted, whatever k: reads the rest of every row."""
    for c in range(block.ks.size):
        for i in range(block.n_rows):
            out[column + c, i] = block.rest_sums[i]


def last_half(ranking: Sequence[int], labels: Sequence[int], k: int) -> float:
    return float(np.isin(ranking[k // 2 : k], labels).sum() / (k - k // 2))


def misses(ranking: Sequence[int], labels: Sequence[int], k: int) -> float:
    return float((~np.isin(labels, ranking)).sum())


def test_a_metric_is_one_kernel_and_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {
        "last-half": Metric(
            "hits in the second half of the first k",
            "last_half",
            kernels=(Kernel(("last_half",), last_hit_share),),
            reference=last_half,
        ),
        "misses": Metric(
            "true labels that are not predicted",
            "misses",
            kernels=(Kernel(("misses",), weighted_misses, needs=("every rest",)),),
            reference=misses,
            at_most=None,
            higher_is_better=False,
        ),
    }
    for name, metric in own.items():
        monkeypatch.setitem(METRICS, name, metric)
    rng = np.random.default_rng(8)
    labels = rng.random((1500, 9)) < 0.4
    rankings = [rng.permutation(9)[:4].tolist() for _ in range(1500)]
    true = [np.flatnonzero(row).tolist() for row in labels]
    propensity = rng.uniform(0.4, 1, 9)
    names = [f"{name}@{k}" for name in own for k in (2, 4)]
    table = evaluate(
        one_top(rankings), labels.astype(int), propensity, metrics=[*names, "P@4"],
        estimators=["vanilla", "unbiased"],
    )  # fmt: skip
    for name in names:
        metric, _, k = name.partition("@")
        rows = list(zip(rankings, true, strict=True))
        truth = np.mean([own[metric].reference(r, y, int(k)) for r, y in rows])  # type: ignore[misc]
        exact = np.mean(
            [
                sum(own[metric].reference(r, [j], int(k)) / propensity[j] for j in y)  # type: ignore[misc]
                for r, y in rows
            ]
        )  # both metrics add up over the labels, so the unbiased estimate divides each by p
        assert table[name, "vanilla"].value == pytest.approx(truth, rel=1e-12)
        assert table[name, "unbiased"].value == pytest.approx(exact, rel=1e-12)
        assert 0 < truth < exact
    assert table["P@4", "vanilla"].value == pytest.approx(
        np.mean([DEFINITIONS["P"](r, y, 4) for r, y in zip(rankings, true, strict=True)])
    )


@pytest.mark.parametrize("metric", OF_ROWS)
@given(row=ranked_rows())
def test_unbiased_is_right_on_average_over_all_masks(metric: str, row: tuple) -> None:
    ranking, true, propensity = row
    seen = list(oracles.subsets(true))
    top, labels = one_top([ranking] * len(seen)), dense_rows(seen, propensity.size)
    names = [f"{metric}@{k}" for k in (1, 2, 3, 5)]
    found = contributions(top, labels, propensity, metrics=names, estimators=["unbiased"])
    for k in (1, 2, 3, 5):
        by_mask = dict(zip(seen, found[f"{metric}@{k}", "unbiased"], strict=True))
        expected = oracles.expectation_over_masks(by_mask.__getitem__, true, propensity)
        size = oracles.expectation_over_masks(lambda s: abs(by_mask[s]), true, propensity)  # noqa: B023
        truth = DEFINITIONS[metric](ranking, true, k)
        assert expected == pytest.approx(truth, abs=1e-12 * max(1, size), rel=1e-10)


@pytest.mark.parametrize("metric", OF_ROWS)
@given(row=ranked_rows(), tau=st.floats(0, 1))
def test_unbiased_is_the_operator_applied_to_the_metric(
    metric: str, row: tuple, tau: float
) -> None:
    ranking, seen, propensity = row
    inverse = 1 + tau * (1 / propensity - 1)
    found = contributions(
        one_top([ranking]), dense_rows([seen], 7), propensity, metrics=[f"{metric}@3"],
        estimators=["unbiased", "tempered"], tau=tau,
    )  # fmt: skip
    for estimator, p in (("unbiased", propensity), ("tempered", 1 / inverse)):
        exact = oracles.operator(
            lambda kept: Fraction(DEFINITIONS[metric](ranking, kept, 3)),
            seen, [Fraction(float(x)) for x in p],
        )  # fmt: skip
        size = np.prod([2 / p[j] - 1 for j in seen])
        got = found[f"{metric}@3", estimator][0]
        assert got == pytest.approx(float(exact), rel=1e-9, abs=1e-13 * size)


@pytest.mark.parametrize("metric", OF_ROWS)
@given(row=ranked_rows())
def test_vanilla_is_the_definition_and_so_is_everything_at_p_one(metric: str, row: tuple) -> None:
    ranking, seen, propensity = row
    names = [f"{metric}@{k}" for k in range(1, 6)]
    top, labels, ones = one_top([ranking]), dense_rows([seen], 7), np.ones(7)
    plain = contributions(top, labels, propensity, metrics=names, estimators=["vanilla"])
    complete = contributions(
        top, labels, ones, metrics=names, estimators=["unbiased", "clipped", "tempered"], tau=0.7
    )
    for k in range(1, 6):
        truth = DEFINITIONS[metric](ranking, seen, k)
        assert plain[f"{metric}@{k}", "vanilla"][0] == pytest.approx(truth, rel=1e-14)
        for estimator in ("unbiased", "clipped", "tempered"):
            got = complete[f"{metric}@{k}", estimator][0]
            assert got == pytest.approx(truth, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("metric", ["R", "F1", "Jaccard", "nDCG"])
@given(row=ranked_rows())
def test_bounds_are_at_least_the_truth_on_average(metric: str, row: tuple) -> None:
    ranking, true, propensity = row
    seen = list(oracles.subsets(true))
    top, labels = one_top([ranking] * len(seen)), dense_rows(seen, propensity.size)
    name = f"{metric}@3"
    found = contributions(top, labels, propensity, metrics=[name], estimators=["bound"])
    by_mask = dict(zip(seen, found[name, "bound"], strict=True))
    expected = oracles.expectation_over_masks(by_mask.__getitem__, true, propensity)
    assert expected >= DEFINITIONS[metric](ranking, true, 3) - 1e-12


@given(row=ranked_rows())
def test_bound_of_recall_sums_the_bounded_weights(row: tuple) -> None:
    ranking, seen, propensity = row
    q = {j: 1 / propensity[j] for j in seen}
    truth = sum(q[j] / (1 + sum(q.values()) - q[j]) for j in set(ranking[:3]) & set(seen))
    found = contributions(
        one_top([ranking]), dense_rows([seen], 7), propensity, metrics=["R@3"],
        estimators=["bound", "self_normalized"],
    )  # fmt: skip
    assert found["R@3", "bound"][0] == pytest.approx(truth)
    share = sum(q[j] for j in set(ranking[:3]) & set(seen)) / max(sum(q.values()), 1)
    assert found["R@3", "self_normalized"][0] == pytest.approx(share)


def test_the_toy_table() -> None:
    seen = [[], [1], [0], [0, 1]]
    found = contributions(
        one_top([[0]] * 4), dense_rows(seen, 3), [1 / 3] * 3, metrics=["R@1"],
        estimators=["vanilla", "unbiased"],
    )  # fmt: skip
    assert found["R@1", "vanilla"].tolist() == [0, 0, 1, 0.5]
    assert found["R@1", "unbiased"] == pytest.approx([0, 0, 3, -1.5], rel=1e-14)


@pytest.mark.parametrize(("low", "high"), [(0.05, 0.3), (0.7, 0.99)])
def test_unbiased_recall_with_many_labels_against_120_digits(low: float, high: float) -> None:
    rng = np.random.default_rng(0)
    propensity = rng.uniform(low, high, 60)
    ranking = rng.permutation(60)[:5]
    exact = oracles.normalized_weights_mp(propensity)
    row = np.ones((1, 60))
    found = contributions(
        one_top([ranking]), row, propensity, metrics=["R@5"], estimators=["unbiased"]
    )
    truth = float(mpmath.fsum(exact[j] for j in ranking))
    assert found["R@5", "unbiased"][0] == pytest.approx(truth, rel=1e-11)


@pytest.mark.parametrize("metric", OF_ROWS)
def test_k_beyond_the_number_of_labels_and_short_lists(metric: str) -> None:
    rankings, true = [[2, 0, 1], [1], []], [[0, 1], [0, 2], [1]]
    names = [f"{metric}@{k}" for k in (2, 8)]
    found = contributions(one_top(rankings), dense_rows(true, 3), metrics=names)
    for k in (2, 8):
        truth = [DEFINITIONS[metric](r, y, k) for r, y in zip(rankings, true, strict=True)]
        assert found[f"{metric}@{k}", "vanilla"] == pytest.approx(truth)


@pytest.mark.parametrize("metric", LISTED)
@given(labels=label_matrices(max_labels=5), seed=st.integers(0, 99))
@settings(max_examples=20)
def test_order_of_rows_and_names_of_labels_do_not_matter(
    metric: str, labels: sp.csr_array, seed: int
) -> None:
    if labels.shape[0] == 0:
        return
    rng = np.random.default_rng(seed)
    n, n_labels = labels.shape
    propensity = rng.uniform(0.2, 1, n_labels)
    scores = rng.permuted(np.tile(np.arange(n_labels), (n, 1)), axis=1).astype(np.float32)
    rows, columns = rng.permutation(n), rng.permutation(n_labels)
    dense = oracles.dense(labels)
    name, estimators = f"{metric}@2", METRICS[metric].estimators
    estimators = [e for e in estimators if e not in ("subsampled", "deconvolved")]
    options = {"metrics": [name], "estimators": estimators}
    options |= {"fraction": 0.3} if "filtered" in estimators else {}
    if n_labels < 2:
        return
    once = evaluate(TopK.from_scores(scores, 2), dense, propensity, **options)
    moved = evaluate(
        TopK.from_scores(scores[rows][:, columns], 2), dense[rows][:, columns],
        propensity[columns], **options,
    )  # fmt: skip
    for each in estimators:
        assert once[name, each].value == pytest.approx(
            moved[name, each].value, rel=1e-10, abs=1e-12
        )


def test_long_lists_and_long_rows_go_the_same_way() -> None:
    """More than five places and more than 24 labels take other loops; the numbers must not care."""
    rng = np.random.default_rng(4)
    labels = rng.random((60, 40)) < np.linspace(0, 1, 60)[:, None]
    rankings = [rng.permutation(40)[:13].tolist() for _ in range(60)]
    true = [np.flatnonzero(row).tolist() for row in labels]
    names = [f"{metric}@{k}" for metric in OF_ROWS for k in (4, 7, 13)]
    found = contributions(one_top(rankings), labels.astype(int), metrics=names)
    for name in names:
        metric, _, k = name.partition("@")
        truth = [DEFINITIONS[metric](r, y, int(k)) for r, y in zip(rankings, true, strict=True)]
        assert found[name, "vanilla"] == pytest.approx(truth)
    propensity = rng.uniform(0.3, 1, 40)
    q = labels / propensity
    table = evaluate(one_top(rankings), labels.astype(int), propensity, metrics=["PSP@13"])
    best = np.sort(q, axis=1)[:, -13:].sum()
    hits_weight = sum(q[i, j] for i, ranking in enumerate(rankings) for j in ranking)
    assert table["PSP@13", "normalized"].value == pytest.approx(hits_weight / best)


def test_wide_integers_mean_the_same() -> None:
    rng = np.random.default_rng(5)
    dense = (rng.random((30, 9)) < 0.4).astype(float)
    narrow = sp.csr_array(dense)
    wide = sp.csr_array(
        (narrow.data, narrow.indices.astype(np.int64), narrow.indptr.astype(np.int64)),
        shape=narrow.shape,
    )
    top = TopK.from_scores(rng.random(dense.shape), 4)
    wider = TopK(top.labels.astype(np.int64), top.scores.astype(np.float64))
    options = {"metrics": ["R@4", "nDCG@4", "PSP@4", "macro-P@4"], "estimators": ["unbiased"]}
    propensity = rng.uniform(0.3, 1, 9)
    once = evaluate(top, narrow, propensity, **options)
    assert evaluate(wider, wide, propensity, **options).to_dicts() == once.to_dicts()
    assert wide.indices.dtype == np.int64


@pytest.mark.parametrize("metric", LISTED)
def test_rows_without_labels_count_and_contribute_nothing(metric: str) -> None:
    top, labels = one_top([[0, 1], [1, 2], [0, 2]]), np.array([[1, 1, 0], [0, 0, 1], [0, 1, 0]])
    name = f"{metric}@2"
    estimators = [e for e in METRICS[metric].estimators if e not in ("filtered", "deconvolved")]
    options = {"metrics": [name], "estimators": estimators}
    options |= {"tau": 0.5} if "tempered" in estimators else {}
    full = evaluate(top, labels, [0.5, 0.6, 0.7], **options)
    doubled = one_top([[0, 1], [1, 2], [0, 2]] * 2)
    half = evaluate(doubled, np.r_[labels, np.zeros((3, 3))], [0.5, 0.6, 0.7], **options)
    if metric == "Hamming":  # a loss that counts what was predicted in vain
        assert half[name, "vanilla"].value > full[name, "vanilla"].value
        return
    none = evaluate(top, np.zeros((3, 3)), [0.5, 0.6, 0.7], **options)
    for each in estimators:
        assert none[name, each].value == 0
        if METRICS[metric].over == "rows":
            assert half[name, each].value == pytest.approx(full[name, each].value / 2)


def test_per_entry_propensities_equal_per_label_ones_that_say_the_same() -> None:
    rng = np.random.default_rng(1)
    labels = sp.csr_array((rng.random((30, 8)) < 0.4).astype(float))
    propensity = rng.uniform(0.3, 1, 8)
    entries = labels.copy()
    entries.data = propensity[labels.indices]
    scores = rng.random((30, 8)).astype(np.float32)
    options = {"metrics": ["R@3", "nDCG@3", "PSP@3"], "estimators": ["unbiased", "bound"]}
    per_label = evaluate(scores, labels, propensity, **options)
    per_entry = evaluate(scores, labels, entries, **options)
    for left, right in zip(per_label, per_entry, strict=True):
        assert (left.value, left.interval, left.verdict.level) == (
            right.value, right.interval, right.verdict.level
        )  # fmt: skip


def recall_mp(hit: np.ndarray, rest: np.ndarray, digits: int) -> float:
    """Σ_{i∈S} q_i ∫₀¹ Π_{j∈I∖i} (1 − u q_j) du from the coefficients of powers of u."""
    with mpmath.workdps(digits):
        hits = [1 / mpmath.mpf(float(p)) for p in hit]
        outside = product([1 / mpmath.mpf(float(p)) for p in rest])
        total = mpmath.mpf(0)
        for i, q in enumerate(hits):
            inside = product(hits[:i] + hits[i + 1 :])
            for a, x in enumerate(inside):
                total += q * x * mpmath.fsum(c / (a + b + 1) for b, c in enumerate(outside))
        return float(total)


def product(inverse: list) -> list:
    coefficients = [mpmath.mpf(1)]
    for q in inverse:
        shifted = [mpmath.mpf(0), *coefficients]
        coefficients = [c - q * s for c, s in zip([*coefficients, 0], shifted, strict=True)]
    return coefficients


def check_against_mp(rankings: list, labels: sp.csr_array, propensity: np.ndarray) -> None:
    k = len(rankings[0])
    found = contributions(
        one_top(rankings), labels, propensity, metrics=[f"R@{k}"], estimators=["unbiased"]
    )[f"R@{k}", "unbiased"]
    for row, ranking in enumerate(rankings):
        seen = labels.indices[labels.indptr[row] : labels.indptr[row + 1]]
        hit = np.isin(seen, ranking)
        truth = recall_mp(propensity[seen[hit]], propensity[seen[~hit]], 100 + seen.size)
        assert found[row] == pytest.approx(truth, rel=1e-10, abs=1e-12)


@pytest.mark.slow
def test_unbiased_recall_of_a_thousand_rows_with_200_labels_each() -> None:
    rng = np.random.default_rng(2)
    sets = [np.sort(rng.choice(300, 200, replace=False)) for _ in range(1000)]
    rankings = [rng.permutation(300)[:5] for _ in range(1000)]
    check_against_mp(rankings, dense_rows(sets, 300), rng.uniform(0.3, 0.95, 300))


@pytest.mark.slow
def test_unbiased_recall_of_all_of_delicious(real_data: Path) -> None:
    train, test = (read(real_data / "delicious" / f"{part}.txt.gz") for part in ("train", "test"))
    rng = np.random.default_rng(0)
    rankings = [rng.permutation(983)[:50] for _ in range(test.labels.shape[0])]
    check_against_mp(rankings, test.labels, jain(train.labels))


def test_values_are_at_most_what_the_registry_says_and_reach_it() -> None:
    """Every ranking of two among three labels, every set of true ones."""
    rankings = list(itertools.permutations(range(3), 2))
    truths = [t for size in range(4) for t in itertools.combinations(range(3), size)]
    for name in OF_ROWS:
        reached = max(
            DEFINITIONS[name](r, t, 2) for r, t in itertools.product(rankings, truths)
        )  # fmt: skip
        at_most = METRICS[name].at_most
        assert reached == at_most if at_most is not None else reached > 1


def test_every_metric_but_a_loss_is_higher_for_the_better_ranking() -> None:
    labels = np.eye(4, dtype=int)
    good, bad = labels + np.linspace(0, 0.1, 4), 1 - labels + np.linspace(0, 0.1, 4)
    for name, about in LISTED.items():
        metric, estimator = f"{name}@2", supported(name)[0]
        if name == "subset-accuracy":  # no two labels are all that a row has
            metric = f"{name}@1"
        better, worse = (one(s, labels, [1.0] * 4, metric, estimator).value for s in (good, bad))
        assert better > worse if about.higher_is_better else better < worse
    assert [name for name, about in LISTED.items() if not about.higher_is_better] == [
        "Kendall-tau",
        "Hamming",
    ]


def test_only_metrics_of_the_whole_list_do_without_a_cut_off() -> None:
    """As the module says: R-precision, MRR, Kendall-tau and metrics of sets."""
    for name, about in LISTED.items():
        if name in ("R-precision", "MRR", "Kendall-tau") or about.of_sets:
            assert registry.split(name) == (name, None)
        else:
            with pytest.raises(ValueError, match="needs a cut-off; write for example"):
                registry.split(name)
        assert registry.split(f"{name}@12") == (name, 12)
        for wrong in ("@0", "@", "@-1", "@1.5", "@05", "@x"):
            with pytest.raises(ValueError, match="is not a metric; write a name and a k"):
                registry.split(name + wrong)


def test_deconvolution_is_offered_exactly_where_label_counts_tell_the_metric() -> None:
    offered = {name for name, about in METRICS.items() if "deconvolved" in about.estimators}
    of_sets = {f"sample-{name}" for name in ("P", "R", "F1", "F0.5", "F2", "Jaccard")}
    assert offered == {"P", "R", "F1", "Jaccard", "hit", "nDCG", "R-precision"} | of_sets
    top, labels, _ = rows_of(300)
    for name in sorted(offered):  # without missing labels it is the plain value
        each = one(top, labels, np.ones(L), f"{name}@3", "deconvolved")
        plain = one(top, labels, None, f"{name}@3", "vanilla")
        assert each.value == pytest.approx(plain.value, abs=1e-6)


def test_a_metric_with_one_estimator_needs_no_asking() -> None:
    top, labels, propensity = rows_of(20)
    found = evaluate(top, labels, propensity, metrics=["PSP@1", "macro-R@1"],
                     estimators=["unbiased"])  # fmt: skip
    assert [e.estimator for e in found] == ["normalized", "vanilla"]
    with pytest.raises(ValueError, match="macro-P@1 cannot be estimated by bound"):
        evaluate(top, labels, propensity, metrics=["macro-P@1"], estimators=["bound"])


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
        asked = {"metrics": [metric], "estimators": ["unbiased"]}
        summary = summary_of(LabelSets(sets), observed, p, **asked)
        x, y = (summary.sums.total(each) for each in summary.columns(summary.plan.cells[0]))
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
