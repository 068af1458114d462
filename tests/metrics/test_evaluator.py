"""Streaming, merging, intervals, comparison and sensitivity."""

from __future__ import annotations

import inspect
import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

import unmask
from tests.helpers.evaluations import L, one, part, rows_of, same
from tests.helpers.rankings import DEFINITIONS, LISTED, one_top
from unmask._kernels import block as exact
from unmask.metrics import (
    Evaluator,
    compare,
    contributions,
    evaluate,
    intervals,
    jain_grid,
    make_scorer,
    powers,
    sensitivity,
    state,
)
from unmask.metrics.request import Request
from unmask.metrics.claims import (
    MEASURED,
    Advice,
    Outcome,
    Reason,
)
from unmask.predictions import TopK

EVERYTHING = {
    "metrics": [f"{name}@3" for name in LISTED] + ["R@1", "PSP@1"],
    "estimators": [
        "vanilla", "unbiased", "bound", "clipped", "tempered", "self_normalized", "filtered",
        "subsampled", "deconvolved",
    ],
    "fraction": 0.1,
}  # fmt: skip


def case(n: int, seed: int = 0, n_labels: int = 30) -> tuple[TopK, sp.csr_array, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.random((n, n_labels)) < rng.uniform(0.02, 0.2, n_labels)
    labels[::50] = True  # more than 25 labels: the subsampled baseline has something to thin
    labels[5::20] = False
    scores = (labels * rng.random((n, n_labels)) + rng.random((n, n_labels))).astype(np.float32)
    return (
        TopK.from_scores(scores, 3),
        sp.csr_array(labels.astype(float)),
        rng.uniform(0.4, 1, n_labels),
    )


@pytest.mark.parametrize("interval", ["normal", "percentile", "bca"])
def test_shards_add_up_to_exactly_one_call(interval: str) -> None:
    top, labels, propensity = case(1000)
    drawn = {} if interval == "normal" else {"replicates": 50}
    options = {**EVERYTHING, "interval": interval, **drawn}
    whole = evaluate(top, labels, propensity, **options)
    cuts = [(0, 1), (1, 14), (14, 700), (700, 700), (700, 1000)]
    shards = [
        Evaluator(propensity, **options).update(part(top, slice(a, b)), labels[a:b], first_row=a)
        for a, b in cuts
    ]
    merged = Evaluator(propensity, **options)
    for shard in reversed(shards):
        merged.merge(shard)
    assert same(merged.compute(), whole)
    stream = Evaluator(propensity, **options)
    for a, b in cuts:
        stream.update(part(top, slice(a, b)), labels[a:b])
    assert same(stream.compute(), whole)


def test_the_number_of_threads_does_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:

    top, labels, propensity = case(3000)
    cut = state.row_bounds
    monkeypatch.setattr(state, "row_bounds", lambda indptr, _: cut(indptr, 2000))
    tables = []
    for count in (1, 3):
        unmask.set_threads(count)
        tables.append(evaluate(top, labels, propensity, **EVERYTHING))
    unmask.set_threads(None)
    monkeypatch.undo()
    assert same(*tables)
    assert same(tables[0], evaluate(top, labels, propensity, **EVERYTHING))


def test_memory_does_not_grow_with_rows() -> None:
    top, labels, propensity = case(400)
    options = {"metrics": ["R@3", "PSP@3"], "estimators": ["vanilla", "unbiased", "deconvolved"]}
    evaluator = Evaluator(propensity, **options)

    def size() -> int:
        state = evaluator.update(top, labels).summary().state
        tables = sum(t.nbytes for k in state.tables.values() for t in k)
        return state.partials.nbytes + state.largest.nbytes + tables + len(state.kept)

    assert size() == size() == size()


@given(
    st.lists(
        st.one_of(st.floats(-1e6, 1e6), st.floats(-1e140, 1e140), st.just(0.1)),
        min_size=1,
        max_size=600,
    )
)
@example([1e100, 1e-100, -1e100])
@example([1.0, 1e-30, 1e-60, -1.0, -1e-30])
@settings(max_examples=50)
def test_sums_are_exact(values: list[float]) -> None:
    partials, largest = np.zeros((1, 3, exact.PARTIALS)), np.zeros((1, exact.LARGEST))
    for start in range(0, len(values), exact.BLOCK):
        block = np.array(values[start : start + exact.BLOCK])[None]
        exact.add_block(block, 0, block.size, 1, partials, largest)
    assert math.fsum(partials[0, exact.SUM]) == math.fsum(values)
    assert math.fsum(partials[0, exact.SQUARES]) == math.fsum(x * x for x in values)
    assert math.fsum(partials[0, exact.ABSOLUTE]) == math.fsum(map(abs, values))
    top = sorted(map(abs, values), reverse=True)[: exact.LARGEST]
    assert largest[0, : len(top)].tolist() == top


def test_overflow_is_called_unusable() -> None:
    labels = np.ones((100, 400))
    table = evaluate(one_top([[0, 1]] * 100), labels, [0.01] * 400, metrics=["R@2", "hit@2"])
    assert math.isnan(table["R@2", "unbiased"].value)
    assert table["R@2", "unbiased"].verdict.reason is Reason.OVERFLOW
    assert table["R@2", "unbiased"].verdict.advice is Advice.RAISE_PROPENSITIES
    assert math.isfinite(table["hit@2", "unbiased"].value)


def test_mean_and_standard_error_are_those_of_the_rows() -> None:
    top, labels, propensity = case(700)
    options = {"metrics": ["R@3", "nDCG@3"], "estimators": ["vanilla", "unbiased", "bound"]}
    table = evaluate(top, labels, propensity, **options)
    for (metric, estimator), x in contributions(top, labels, propensity, **options).items():
        each = table[metric, estimator]
        assert each.value == pytest.approx(x.mean(), rel=1e-12)
        assert each.standard_error == pytest.approx(x.std(ddof=1) / math.sqrt(700), rel=1e-12)
        assert each.largest_contribution == pytest.approx(abs(x).max() / abs(x).sum(), rel=1e-12)
        ess = abs(x).sum() ** 2 / (x * x).sum()
        assert each.effective_sample_size == pytest.approx(ess, rel=1e-12)


def test_ratio_has_the_standard_error_of_its_residuals() -> None:
    top, labels, propensity = case(300)
    table = evaluate(top, labels, propensity, metrics=["PSP@3"])
    q, dense = 1 / propensity, labels.todense()
    x = np.array([sum(q[j] for j in t if dense[i, j]) for i, t in enumerate(top.labels)]) / 3
    y = np.sort(dense * q, axis=1)[:, -3:].sum(axis=1) / 3
    residual = x - x.sum() / y.sum() * y
    each = table["PSP@3", "normalized"]
    assert each.value == pytest.approx(x.sum() / y.sum())
    error = math.sqrt((residual @ residual) / 299 * 300) / y.sum()
    assert each.standard_error == pytest.approx(error)


@pytest.mark.parametrize("interval", ["percentile", "bca"])
def test_bootstrap_is_that_of_the_rows(interval: str) -> None:
    """Up to 4096 rows a group is a row: resample rows directly with the same counts and compare."""
    from unmask.metrics import intervals

    top, labels, propensity = case(500)
    options = {"metrics": ["R@3"], "estimators": ["unbiased"]}
    each = evaluate(top, labels, propensity, **options, interval=interval, replicates=400, seed=5)[
        "R@3", "unbiased"
    ]
    x = contributions(top, labels, propensity, **options)["R@3", "unbiased"]
    counts = intervals.resampling_counts(500, 400, seed=5)
    left_out = (x.sum() - x) / 499
    ends = intervals.INTERVALS[interval](counts @ x / 500, 0.95, value=x.mean(), left_out=left_out)
    plain = evaluate(top, labels, propensity, **options)["R@3", "unbiased"].interval
    assert each.interval == pytest.approx(intervals.within(intervals.hull(ends, plain), 1.0))


@pytest.mark.parametrize("scale", [0.0, 1e-160, 1.0])
def test_bca_of_a_statistic_that_hardly_moves(scale: float) -> None:
    from unmask.metrics import intervals

    replicates, left_out = scale * np.linspace(-1, 1, 201), scale * np.array([-1.0, 0.0, 1.0])
    low, high = intervals.bca(replicates, 0.9, value=0.0, left_out=left_out)
    assert (low, high) == pytest.approx((-0.9 * scale, 0.9 * scale), rel=1e-9, abs=0)


def test_bca_agrees_with_scipy() -> None:
    from scipy.stats import bootstrap

    from unmask.metrics import intervals

    x = np.random.default_rng(0).exponential(size=60)
    counts = intervals.resampling_counts(60, 20_000, seed=1)
    ours = intervals.bca(counts @ x / 60, 0.9, value=x.mean(), left_out=(x.sum() - x) / 59)
    seed = {"rng" if "rng" in inspect.signature(bootstrap).parameters else "random_state": 2}
    theirs = bootstrap(
        (x,), np.mean, confidence_level=0.9, n_resamples=20_000, method="BCa", **seed
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.02)


def test_groups_of_rows_have_the_spread_of_rows() -> None:
    top, labels, propensity = case(20_000)
    options = {"metrics": ["R@3"], "estimators": ["vanilla"]}
    each = evaluate(top, labels, propensity, **options, interval="percentile", replicates=4000)
    each = each["R@3", "vanilla"]
    half = (each.interval[1] - each.interval[0]) / 2
    assert half == pytest.approx(1.96 * each.standard_error, rel=0.08)


def test_filtered_leaves_out_both_ends() -> None:
    top, labels, propensity = case(200)
    options = {"metrics": ["R@3"], "estimators": ["unbiased"]}
    x = np.sort(contributions(top, labels, propensity, **options)["R@3", "unbiased"])
    each = evaluate(
        top, labels, propensity, metrics=["R@3"], estimators=["filtered"], fraction=0.1
    )["R@3", "filtered"]
    assert each.value == pytest.approx(x[10:190].mean())
    assert each.details == {"fraction": 0.1, "rows_left_out": 20}


def test_subsampling_leaves_short_rows_alone_and_is_unbiased_on_long_ones() -> None:
    propensity = np.full(27, 0.95)
    labels = np.ones((2, 27))
    labels[1, 20:] = 0
    found = contributions(
        one_top([[0, 1]] * 2), labels, propensity, metrics=["R@2"],
        estimators=["unbiased", "subsampled"],
    )  # fmt: skip
    exactly, thinned = found["R@2", "unbiased"], found["R@2", "subsampled"]
    assert thinned[1] == exactly[1]
    assert thinned[0] != exactly[0]
    copies = contributions(
        one_top([[0, 1]] * 4000), np.ones((4000, 27)), propensity, metrics=["R@2"],
        estimators=["subsampled"],
    )["R@2", "subsampled"]  # fmt: skip
    error = copies.std() / math.sqrt(4000)
    assert copies.mean() == pytest.approx(exactly[0], abs=4 * error)


def test_tempered_chooses_unbiased_when_it_is_precise_and_less_when_it_is_noise() -> None:
    rng = np.random.default_rng(3)
    true = rng.random((20_000, 4)) < 0.5
    top = one_top([[0]] * 20_000)
    for p, low, high in ((0.8, 0.875, 1.0), (0.05, 0.0, 0.6)):
        seen = true & (rng.random(true.shape) < p)
        rows = slice(0, 20_000 if p > 0.5 else 300)
        each = evaluate(
            part(top, rows), seen[rows].astype(int), [p] * 4, metrics=["P@1"],
            estimators=["tempered"],
        )["P@1", "tempered"]  # fmt: skip
        assert low <= each.details["tau"] <= high


def test_comparison_finds_the_better_system_and_not_a_copy() -> None:
    top, labels, propensity = case(600)
    rng = np.random.default_rng(0)
    worse = TopK.from_scores(rng.random((600, 30)).astype(np.float32), 3)
    options: dict = {
        "metrics": ["P@3", "R@3", "PSP@3"],
        "estimators": ["vanilla", "unbiased", "tempered", "deconvolved"],
        "replicates": 500,
    }
    found = compare({"random": worse, "ours": top, "copy": worse}, labels, propensity, **options)
    one = evaluate(top, labels, propensity, metrics=["P@3"])["P@3", "vanilla"]
    other = evaluate(worse, labels, propensity, metrics=["P@3"])["P@3", "vanilla"]
    each = found["ours"]["P@3", "vanilla"]
    assert each.value == pytest.approx(one.value - other.value)
    assert each.details["values"] == pytest.approx([one.value, other.value])
    assert each.details["p_value"] == pytest.approx(1 / 501)
    better = "ours scores higher than random (p = 0.002)"
    assert str(each.verdict) == f"doubtful: {better}; measures the observed labels only"
    assert found["ours"]["P@3", "unbiased"].verdict.level == "conditional"
    for each in found["copy"]:
        assert each.value == 0
        assert each.details["p_value"] == 1
        assert each.verdict.details["outcome"] is Outcome.UNCLEAR
    for each in found["ours"]:
        assert each.interval[0] > 0


def test_paired_standard_error_is_that_of_the_differences() -> None:
    top, labels, propensity = case(600)
    swapped = top.labels.copy()
    swapped[::7] = swapped[::7, ::-1]
    other = TopK(swapped, np.broadcast_to(-np.arange(3.0), swapped.shape))
    options = {"metrics": ["P@1"], "estimators": ["unbiased"]}
    a = contributions(top, labels, propensity, **options)["P@1", "unbiased"]
    b = contributions(other, labels, propensity, **options)["P@1", "unbiased"]
    each = compare({"a": top, "b": other}, labels, propensity, **options)["b"]["P@1", "unbiased"]
    assert each.value == pytest.approx((b - a).mean())
    assert each.value != 0
    assert each.standard_error == pytest.approx((b - a).std(ddof=1) / math.sqrt(600))


def test_comparison_refuses_what_cannot_be_paired() -> None:
    top, labels, _ = case(50)
    with pytest.raises(ValueError, match="give at least two systems to compare; got 1"):
        compare({"a": top}, labels, metrics=["P@1"])


def test_sensitivity_to_the_power_of_the_propensities() -> None:
    top, labels, propensity = case(100)
    options = {"metrics": ["P@3"], "estimators": ["unbiased"]}
    found = sensitivity(top, labels, powers(propensity, [0, 1]), **options)
    vanilla = evaluate(top, labels, metrics=["P@3"])["P@3", "vanilla"].value
    assert found["γ = 0"]["P@3", "unbiased"].value == pytest.approx(vanilla)
    unbiased = evaluate(top, labels, propensity, **options)["P@3", "unbiased"].value
    assert found["γ = 1"]["P@3", "unbiased"].value == unbiased
    assert len(sensitivity(top, labels, jain_grid(labels), **options)) == 3


def test_scorer_prefers_the_better_model() -> None:
    class Model:
        def __init__(self, scores: np.ndarray) -> None:
            self.scores = scores

        def decision_function(self, features: Any) -> np.ndarray:
            return self.scores

    labels = np.eye(5)
    right, wrong = Model(labels + 0.0), Model(1 - labels)
    for metric in ("P@1", "Kendall-tau"):
        score = make_scorer(metric, "vanilla")
        assert score(right, None, labels) > score(wrong, None, labels)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metrics": ["R@6"]}, "R@6 needs the first 6 predictions of every row; there are 3"),
        ({"metrics": ["R"]}, "'R' needs a cut-off; write for example 'R@5'"),
        ({"metrics": ["Q@5"]}, "unknown metric 'Q'; use one of: Brier, DCG"),
        ({"metrics": "R@1"}, "metrics must be a list of names, like .'R@5'.; got 'R@1'"),
        ({"estimators": ["unbaised"]}, "unknown estimator 'unbaised'; use one of: bound"),
        ({"estimators": ["bound"]}, "P@1 cannot be estimated by bound; use one of: vanilla"),
        ({"interval": "exact"}, "unknown interval 'exact'; use one of: bca, normal, percentile"),
        ({"confidence": 95}, "confidence must be at least 0.5"),
        ({"tau": 2, "estimators": ["tempered"]}, "tau must lie in .0, 1.; got 2"),
    ],
)
def test_errors_say_what_to_do(change: dict, message: str) -> None:
    top, labels, propensity = case(20)
    with pytest.raises(ValueError, match=message):
        evaluate(top, labels, propensity, **{"metrics": ["P@1"], **change})


def test_errors_about_rows_and_labels() -> None:
    top, labels, _ = case(20)
    with pytest.raises(ValueError, match="unbiased estimates need propensities"):
        evaluate(top, labels, metrics=["P@1"], estimators=["unbiased"])
    with pytest.raises(ValueError, match="label 29 is predicted, but there are 3 labels"):
        evaluate(one_top([[29]] * 20), labels[:, :3], metrics=["P@1"])
    with pytest.raises(ValueError, match="must have the same rows"):
        evaluate(top, labels[:5], metrics=["P@1"])
    with pytest.raises(ValueError, match="no rows to evaluate"):
        Evaluator(metrics=["P@1"]).compute()
    with pytest.raises(ValueError, match="evaluators must have the same settings to merge"):
        Evaluator(metrics=["P@1"]).merge(Evaluator(metrics=["P@2"]))
    with pytest.raises(ValueError, match="5 propensities for 30 labels"):
        evaluate(top, labels, [0.5] * 5, metrics=["P@1"])
    used = Evaluator(metrics=["MRR"]).update(top, labels)
    with pytest.raises(ValueError, match="all rows must have the same labels"):
        used.update(one_top([[0]]), labels[:1])


def test_metrics_without_k_use_the_whole_list() -> None:
    top, labels, _ = case(40)
    table = evaluate(top, labels, metrics=["MRR", "R-precision", "R-precision@3"])
    dense = labels.todense()
    truth = np.mean(
        [DEFINITIONS["MRR"](t.tolist(), np.flatnonzero(y).tolist(), 3)
         for t, y in zip(top.labels, dense, strict=True)]
    )  # fmt: skip
    assert table["MRR", "vanilla"].value == pytest.approx(truth)
    whole, three = table["R-precision", "vanilla"], table["R-precision@3", "vanilla"]
    assert whole.value == three.value


@pytest.mark.slow
@pytest.mark.parametrize("interval", ["normal", "percentile", "bca"])
def test_intervals_hold_the_mean_as_often_as_they_say(interval: str) -> None:
    """Fresh rows and masks 400 times; the mean from 100 times as many rows."""
    rng = np.random.default_rng(11)
    propensity = np.full(30, 0.6)

    def rows(n: int) -> tuple[TopK, np.ndarray]:
        true = rng.random((n, 30)) < 0.15 * rng.gamma(2, 0.5, (n, 1))
        scores = true + rng.normal(0, 0.5, true.shape)
        return TopK.from_scores(scores, 3), (true & (rng.random(true.shape) < 0.6)).astype(int)

    options = {"metrics": ["R@1", "R@3"], "estimators": ["vanilla", "unbiased", "bound"]}
    means = evaluate(*rows(100_000), propensity, **options)
    held: dict[tuple[str, str], int] = {}
    for _ in range(400):
        table = evaluate(*rows(1000), propensity, **options, interval=interval, replicates=400)
        for each in table:
            key = each.metric, each.estimator
            inside = each.interval[0] <= means[key].value <= each.interval[1]
            held[key] = held.get(key, 0) + inside
    assert all(0.90 <= count / 400 <= 0.98 for count in held.values()), held


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 3, 5])
def test_deconvolved_recall_with_propensities_that_differ_and_correlated_counts(k: int) -> None:
    rng = np.random.default_rng(12)
    propensity = 1 / rng.permutation(np.linspace(2, 20, 100))
    estimators = ["vanilla", "unbiased", "bound", "deconvolved"]
    errors: dict[str, list[float]] = {name: [] for name in estimators}
    for _ in range(12):
        true = rng.random((10_000, 100)) < np.minimum(0.9, 0.1 * rng.gamma(2, 0.5, (10_000, 1)))
        top = TopK.from_scores(true + rng.normal(0, 0.6, true.shape), k)
        seen = true & (rng.random(true.shape) < propensity)
        truth = evaluate(top, true.astype(int), metrics=[f"R@{k}"])[f"R@{k}", "vanilla"].value
        for each in evaluate(
            top, seen.astype(int), propensity, metrics=[f"R@{k}"], estimators=estimators
        ):
            errors[each.estimator].append(each.value - truth)
    rmse = {name: float(np.sqrt(np.mean(np.square(found)))) for name, found in errors.items()}
    assert rmse.pop("deconvolved") <= 0.5 * min(rmse.values())


def test_metrics_per_label_need_propensities_per_label() -> None:
    top, labels, _ = rows_of(20)
    entries = sp.csr_array(labels * 0.5)
    with pytest.raises(ValueError, match=r"macro-P@3 unbiased needs one propensity per label"):
        evaluate(top, labels, entries, metrics=["macro-P@3"])
    table = evaluate(top, labels, entries, metrics=["macro-P@3", "P@1"], estimators=["vanilla"])
    assert same(table, evaluate(top, labels, [0.5] * L, metrics=["macro-P@3", "P@1"],
                                estimators=["vanilla"]))  # fmt: skip


def test_one_propensity_below_one_is_enough_to_be_cautious() -> None:
    top, labels, _ = rows_of(400)
    nearly = np.r_[np.ones(L - 1), 0.999]
    used = Evaluator(metrics=["P@3"], complete=True).update(top, labels)
    assert used.compute()["P@3", "vanilla"].verdict == MEASURED
    each = one(top, labels, nearly, "P@3", "vanilla")
    assert str(each.verdict) == "doubtful: measures the observed labels only"
    assert (each.verdict.level, each.verdict.reason) == ("doubtful", "biased-by-design")
    part_by_part = Evaluator(metrics=["P@3"]).update(top, labels)
    part_by_part.update(top, labels, entry_propensity=sp.csr_array(labels * 0.999))
    part_by_part.update(top, labels)
    assert part_by_part.compute()["P@3", "vanilla"].verdict == each.verdict


def test_defaults_are_the_documented_ones() -> None:
    top, labels, propensity = rows_of(120)
    asked: dict[str, Any] = {
        "metrics": ["R@3", "PSP@3"],
        "estimators": ["vanilla", "unbiased", "tempered", "clipped", "filtered"],
    }
    small = propensity / 20  # so that clipping matters
    for interval in ("normal", "bca"):
        plain = evaluate(top, labels, small, **asked, interval=interval)
        told = evaluate(
            top, labels, small, **asked, interval=interval, confidence=0.95, replicates=1000,
            seed=0, tau="auto", clip=10, fraction=0.01, draws=100, complete=False,
        )  # fmt: skip
        assert same(plain, told)
        assert same(
            Evaluator(small, **asked, interval=interval).update(top, labels).compute(), told
        )
    assert plain["R@3", "clipped"].details == {"clip": 10.0}
    assert same(evaluate(top, labels, small, **asked), Evaluator(small, **asked)
                .update(top, labels).compute())  # fmt: skip


def test_metrics_by_default_are_those_the_predictions_reach() -> None:
    top, labels, propensity = rows_of(20)
    scores = np.random.default_rng(0).random((20, L))
    for predicted, ks in ((top, (1, 3)), (part(top, slice(20)), (1, 3)), (scores, (1, 3, 5)),
                      (scores.tolist(), (1, 3, 5)), (sp.csr_array(scores), (1, 3, 5)),
                      (TopK(top.labels[:, :1], top.scores[:, :1]), (1,))):  # fmt: skip
        names = [f"{name}@{k}" for k in ks for name in ("P", "R", "nDCG")]
        found = evaluate(predicted, labels, propensity)
        assert [(e.metric, e.estimator) for e in found] == list(
            itertools.product(names, ["vanilla", "unbiased"])
        )
        assert {e.estimator for e in evaluate(predicted, labels)} == {"vanilla"}


def test_scores_serve_as_far_as_metrics_look() -> None:
    rng = np.random.default_rng(1)
    labels, scores = (rng.random((30, L)) < 0.3).astype(int), rng.random((30, L))
    asked = ["P@1", "R@4", "MRR@2"]
    assert same(evaluate(scores, labels, metrics=asked),
                evaluate(TopK.from_scores(scores, 4), labels, metrics=asked))  # fmt: skip
    for asked in (["P@2", "MRR"], ["P@2", "P@20"]):
        whole = evaluate(TopK.from_scores(scores, L), labels, metrics=asked)
        assert same(evaluate(scores, labels, metrics=asked), whole)


@pytest.mark.parametrize(
    ("name", "inside", "outside", "message"),
    [
        ("confidence", (0.5, 1 - 1e-9), (0.49, 1.0, math.nan), "confidence must be at least 0.5"),
        ("clip", (1, math.inf), (0.99, math.nan), "clip must lie in"),
        ("fraction", (0, 0.99), (-0.01, 0.995), "fraction must lie in"),
        ("tau", (0, 1, 0.5, "auto"), (-0.01, 1.01), "tau must lie in"),
        ("tau", (), ("0.5", "car"), "unknown tau"),
        ("replicates", (2, 1000), (0, -1, 2.5, True), "replicates must be a whole number"),
        ("replicates", (), (1,), r"replicates must lie in \[2, inf\]; got 1"),
        ("interval", tuple(intervals.INTERVALS), ("Normal",), "unknown interval"),
    ],
)
def test_settings_are_refused_where_they_end(
    name: str, inside: tuple, outside: tuple, message: str
) -> None:
    for value in inside:
        Request(["P@1"], **{name: value})
    for value in outside:
        with pytest.raises(ValueError, match=message):
            Request(["P@1"], **{name: value})


@pytest.mark.parametrize("names", ["P@1", [], ()])
def test_names_come_as_a_list(names: Any) -> None:
    with pytest.raises(ValueError, match="metrics must be a list of names"):
        Evaluator(metrics=names)
    with pytest.raises(ValueError, match="estimators must be a list of names"):
        Evaluator(metrics=["P@1"], estimators=names)


def test_a_cut_off_may_exceed_the_list_only_if_that_holds_every_label() -> None:
    top, labels, _ = rows_of(10)
    with pytest.raises(ValueError, match="R@4 needs the first 4 predictions of every row"):
        evaluate(top, labels, metrics=["R@4"])
    all_of_them = TopK.from_scores(np.random.default_rng(0).random((10, L)), L)
    nine = evaluate(all_of_them, labels, metrics=[f"R@{L}", f"R@{L + 1}", f"P@{L}", f"P@{L + 1}"])
    assert nine[f"R@{L}", "vanilla"].value == nine[f"R@{L + 1}", "vanilla"].value
    ratio = nine[f"P@{L}", "vanilla"].value / nine[f"P@{L + 1}", "vanilla"].value
    assert ratio == pytest.approx((L + 1) / L)


def test_predicted_labels_must_exist() -> None:
    with pytest.raises(ValueError, match="label 2 is predicted, but there are 2 labels"):
        evaluate(one_top([[2]]), [[1, 0]], metrics=["P@1"])
    assert one(one_top([[1]]), [[1, 0]], None, "P@1", "vanilla").value == 0


def test_only_what_was_made_alike_is_merged() -> None:
    top, labels, propensity = rows_of(20)
    asked: dict[str, Any] = {"metrics": ["P@1"], "estimators": ["unbiased"]}
    used = Evaluator(propensity, **asked).update(top, labels)
    before = repr(used.compute())
    for other in (propensity / 2, propensity[:-1], None):
        with pytest.raises(ValueError, match="must have the same propensities to merge"):
            used.merge(Evaluator(other, **asked))
    with pytest.raises(ValueError, match="must have the same settings"):
        used.merge(Evaluator(propensity, **asked, seed=1))
    assert repr(used.merge(Evaluator(propensity.copy(), **asked)).compute()) == before


@pytest.mark.parametrize("metrics", [["P@1"], ["MRR", "P@1"]])
def test_all_rows_have_the_labels_of_the_first(metrics: list[str]) -> None:
    top, labels, _ = rows_of(20)
    used = Evaluator(metrics=metrics).update(top, labels)
    before = repr(used.compute())
    with pytest.raises(ValueError, match="got 9 labels after 8, and up to"):
        used.update(top, np.pad(labels, [(0, 0), (0, 1)]))
    shorter = TopK(top.labels[:, :2], top.scores[:, :2])
    if "MRR" in metrics:
        with pytest.raises(ValueError, match="up to 2 predictions after 3"):
            used.update(shorter, labels)
    assert repr(used.compute()) == before  # what was refused left no trace
    if "MRR" not in metrics:  # P@1 is the same in any list
        assert used.update(shorter, labels).compute()["P@1", "vanilla"].rows == 40


def test_an_evaluator_without_rows_says_so() -> None:
    top, labels, _ = rows_of(4)
    for used in (
        Evaluator(metrics=["P@1"]),
        Evaluator(metrics=["P@1"]).update(part(top, slice(0)), labels[:0]),
    ):
        with pytest.raises(ValueError, match="there are no rows to evaluate"):
            used.compute()


def test_contributions_take_propensities_per_entry() -> None:
    top, labels, propensity = rows_of(25)
    entries = sp.csr_array(labels * propensity)
    asked: dict[str, Any] = {
        "metrics": ["R@3", "PSP@3", "macro-R@3", "P@1"],
        "estimators": ["unbiased", "vanilla", "tempered"],
        "tau": 0.5,
    }
    both = [contributions(top, labels, p, **asked) for p in (propensity, entries)]
    assert (
        both[0].keys()
        == both[1].keys()
        == {
            *itertools.product(["R@3", "P@1"], ["unbiased", "vanilla", "tempered"]),
            ("PSP@3", "normalized"),
            ("macro-R@3", "vanilla"),
        }
    )
    for key, x in both[0].items():
        assert x.tolist() == both[1][key].tolist()
        tau = {"tau": 0.5} if key[1] == "tempered" else {}
        assert x.mean() == pytest.approx(one(top, labels, propensity, *key, **tau).value)
    long = (one_top([[0, 1]] * 9), np.ones((9, 30)), np.full(30, 0.9))  # thinned by row number
    thinned = contributions(*long, metrics=["R@2"], estimators=["subsampled"])["R@2", "subsampled"]
    assert thinned.mean() == pytest.approx(one(*long, "R@2", "subsampled").value, rel=1e-12)
