"""Metrics of single rows: unbiased ones by enumerating every mask, vanilla ones by definition."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import oracles
from tests.helpers.evaluations import L, one, rows_of
from tests.helpers.rankings import (
    DEFINITIONS,
    LISTED,
    OF_ROWS,
    dense_rows,
    one_top,
    ranked_rows,
)
from tests.helpers.strategies import label_matrices
from unmask._kernels.block import Block, Kernel
from unmask._kernels.compiling import njit
from unmask._typing import Floats
from unmask.data import read
from unmask.metrics import (
    METRICS,
    contributions,
    evaluate,
    registry,
    supported,
)
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
    options = {"metrics": [name], "estimators": estimators, "fraction": 0.3}
    once = (
        evaluate(TopK.from_scores(scores, 2), dense, propensity, **options)
        if n_labels > 1
        else None
    )
    if once is None:
        return
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
    options = {"metrics": [name], "estimators": estimators, "tau": 0.5}
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


def test_metrics_are_the_same_alone_and_among_others() -> None:
    """Kernels fill the columns of several metrics at once; which are asked for must not matter."""
    rng = np.random.default_rng(2)
    labels, propensity = (rng.random((40, 9)) < 0.4).astype(int), rng.uniform(0.3, 1, 9)
    top, estimators = TopK.from_scores(rng.random((40, 9)), 4), ["vanilla", "unbiased"]
    names = [f"{m}@3" for m in LISTED if {*estimators} <= {*METRICS[m].estimators}]
    together = evaluate(top, labels, propensity, metrics=names, estimators=estimators)
    for name in names:
        alone = evaluate(top, labels, propensity, metrics=[name], estimators=estimators)
        for each in estimators:
            one, many = alone[name, each], together[name, each]
            assert one.value == pytest.approx(many.value, rel=1e-12)
            assert one.standard_error == pytest.approx(many.standard_error, rel=1e-9)


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
