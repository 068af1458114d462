"""One call, batches, shards and scorers: they ask alike, add up exactly and refuse in words."""

from __future__ import annotations

import inspect
import itertools
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

import unmask
from tests.helpers.command import run
from tests.helpers.evaluations import L, Spread, one, part, rows_of, same
from tests.helpers.rankings import DEFINITIONS, LISTED, one_top
from unmask import LabelSets, audit, data, metrics, predictions
from unmask._kernels import block as exact
from unmask.metrics import (
    Evaluator,
    Table,
    compare,
    contributions,
    evaluate,
    evaluate_shards,
    intervals,
    jain_grid,
    make_scorer,
    powers,
    sensitivity,
)
from unmask.metrics import sums as state
from unmask.metrics.claims import MEASURED, Advice, Outcome, Reason
from unmask.metrics.request import DEFAULTS, NEEDS, Request
from unmask.metrics.sums import Inverse, Plan, Sums
from unmask.metrics.sums import count as count_rows
from unmask.predictions import TopK
from unmask.propensity import PropensityEstimate
from unmask.torch import RankingMetrics, ScoreMetrics, SetMetrics
from unmask.torch.trainers import compute_metrics

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


FIRSTS = (4090, 3 * 4096, 4096 + 20)


def test_rows_of_a_group_are_those_with_its_remainder() -> None:
    top, labels, propensity = rows_of(30)
    options: dict[str, Any] = {"metrics": ["P@1"], "estimators": ["unbiased"]}
    x = contributions(top, labels, propensity, **options)["P@1", "unbiased"]
    request, inverse = Request(**options, interval="percentile"), Inverse.of(propensity)
    used = [count_rows(request, top, labels, inverse, first_row=first) for first in FIRSTS]
    total = Sums.empty(used[0].plan, groups=True)
    for each in used:
        total.add(each)
    expected, rows = np.zeros(4096), np.zeros(4096, int)
    for first in FIRSTS:
        np.add.at(expected, (first + np.arange(30)) % 4096, x)
        np.add.at(rows, (first + np.arange(30)) % 4096, 1)
    sums, sizes = total.per_group([0])
    assert sizes.tolist() == rows[rows > 0].tolist()
    assert sums[:, 0] == pytest.approx(expected[rows > 0], rel=1e-12)


def test_rows_that_come_later_have_later_numbers() -> None:
    top, labels, propensity = rows_of(90)
    options: dict[str, Any] = {"metrics": ["R@3", "PSP@1"], "estimators": ["unbiased"],
                               "interval": "bca", "replicates": 60}  # fmt: skip
    stream = Evaluator(propensity, **options)
    for a, b in ((0, 40), (40, 40), (40, 90)):
        stream.update(part(top, slice(a, b)), labels[a:b])
    assert same(stream.compute(), evaluate(top, labels, propensity, **options))


def test_counts_of_short_and_long_rows_add_up() -> None:
    """Shards whose rows have at most 1 label and up to 5: tables of different widths."""
    top, labels, propensity = rows_of(120)
    order = np.argsort(labels.sum(axis=1), kind="stable")
    top, labels = part(top, order), labels[order]  # type: ignore[arg-type]
    options: dict[str, Any] = {"metrics": ["R@3", "P@1"], "estimators": ["deconvolved"]}
    whole = evaluate(top, labels, propensity, **options)
    for cuts in ((0, 30, 120), (0, 1, 119, 120)):
        for turn in (1, -1):
            merged = Evaluator(propensity, **options)
            for a, b in list(itertools.pairwise(cuts))[::turn]:
                merged.update(part(top, slice(a, b)), labels[a:b])
            assert same(merged.compute(), whole)


def test_what_two_states_counted_adds_up() -> None:
    """Rows, those without labels, what may have been lost, and Σ 1/p and Σ 1/p²."""
    top, labels, propensity = rows_of(60)
    options: dict[str, Any] = {"metrics": ["P@1", "R@3"], "estimators": ["unbiased"]}
    labels = sp.csr_array(labels)
    labels.data[labels.indptr[3] : labels.indptr[9]] = 0
    labels.eliminate_zeros()
    every, first, other = (
        count_rows(Request(**options), part(top, own), labels[own], Inverse.of(propensity))
        for own in (slice(0, 60), slice(0, 7), slice(7, 60))
    )
    assert first.empty_rows > 0
    assert other.empty_rows > 0
    first.add(other)
    for name in ("rows", "empty_rows", "lost", "inverse_sum", "inverse_squares", "complete"):
        assert getattr(first, name) == getattr(every, name), name


def test_scores_are_kept_only_for_metrics_that_need_those_of_all_rows() -> None:
    scores = np.random.default_rng(0).random((6, 3))
    labels = np.array([[1, 0, 1], [0, 1, 0]] * 3)
    for metric, kept in (("LRAP", 0), ("Brier", 0), ("P@1", 0), ("mAP", 1), ("macro-AUC", 1)):
        made = count_rows(Request([metric]), scores, labels, Inverse.of(None))
        assert len(made.scored) == kept


CHOSEN = ["vanilla", "unbiased", "bound", "clipped", "self_normalized", "filtered", "deconvolved",
          "subsampled", "tempered"]  # fmt: skip


@pytest.fixture(scope="module")
def together() -> Table:
    """Every metric at two cut-offs by every estimator, in one pass."""
    names = [f"{name}@{k}" for name in LISTED for k in (3, 1)]
    return evaluate(*rows_of(70), metrics=names, estimators=CHOSEN)


@pytest.mark.parametrize("metric", LISTED)
def test_what_is_asked_for_together_is_what_is_asked_for_alone(
    metric: str, together: Table
) -> None:
    """In passes of its own, in which its first column is the first of all."""
    for each in (e for e in together if e.metric.partition("@")[0] == metric):
        alone = one(*rows_of(70), each.metric, each.estimator)
        for name in ("value", "standard_error", "effective_sample_size", "largest_contribution"):
            wanted = pytest.approx(getattr(alone, name), rel=1e-9, nan_ok=True)
            assert getattr(each, name) == wanted, (each.metric, each.estimator, name)
        verdicts = each.verdict, alone.verdict
        assert len({(verdict.level, verdict.reason) for verdict in verdicts}) == 1
        assert each.details == alone.details


def test_bounds_of_rows_with_one_label_stay_within_their_tables() -> None:
    """N = 1: every bound at k = 1 is 1/p, also where 1 + q − q is below 1 (it once read beyond)."""
    propensity = np.linspace(0.05, 1, 400)
    for name in ("nDCG@1", "R@1", "F1@1", "Jaccard@1"):
        for _ in range(5):  # memory differs from call to call
            found = contributions(one_top([[j] for j in range(400)]), np.eye(400), propensity,
                                  metrics=[name], estimators=["bound"])  # fmt: skip
            assert found[name, "bound"] == pytest.approx(1 / propensity, rel=1e-12)


def test_estimates_that_need_the_same_column_share_it() -> None:
    names = ["P@5", "PSP@5", "PSP@5", "P@3", "macro-P@5", "DCG@5"]
    request = Request(names, ["vanilla", "unbiased", "deconvolved"])
    made = Plan.of(request, width=5, n_labels=9)
    cells = {(cell.name, cell.estimator): cell for cell in made.cells}
    columns = [made.column(cells[name].keys[0], 5)
               for name in (("P@5", "unbiased"), ("PSP@5", "normalized"))]  # fmt: skip
    assert columns[0] == columns[1]
    used = {made.column(key, k) for key in made.starts for k in (3, 5)}
    used |= set(made.products.values())
    assert used == set(range(made.columns))  # none twice, none missing
    assert len(made.products) == 1
    assert made.integrates == set()
    for estimator in ("vanilla", "unbiased"):
        alone = Plan.of(Request(["R@1"], [estimator]), width=5, n_labels=9)
        assert bool(alone.integrates) == (estimator == "unbiased")


def test_rows_that_are_short_enough_are_not_thinned() -> None:
    """Then `subsampled` is `unbiased`, wherever in the row a hit stands."""
    labels = np.array([[1, 1, 0, 1], [0, 1, 0, 0], [1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 1]])
    top = TopK(
        [[0, 2, 3], [1, 0, 2], [3, 0, 1], [0, 1, 2], [1, 3, -1]],
        [[3.0, 2, 1]] * 4 + [[3.0, 2, -np.inf]],
    )
    p = np.array([0.5, 0.8, 0.4, 0.9])
    names = ["R@1", "R@2", "R@3"]
    made = contributions(top, labels, p, metrics=names, estimators=["subsampled"])
    exact = contributions(top, labels, p, metrics=names, estimators=["unbiased"])
    for metric in names:
        np.testing.assert_allclose(
            made[metric, "subsampled"], exact[metric, "unbiased"], rtol=1e-12, atol=1e-15
        )


def sharded(n: int, *cuts: int) -> tuple[list[Any], TopK, np.ndarray, np.ndarray]:
    top, labels, propensity = rows_of(n)
    pairs = list(itertools.pairwise((0, *cuts, n)))
    return [(part(top, slice(a, b)), labels[a:b]) for a, b in pairs], top, labels, propensity


@pytest.mark.parametrize(
    "settings",
    [
        {"metrics": ["P@1", "PSP@3", "macro-F1@3"], "estimators": ["vanilla", "unbiased"]},
        {"metrics": ["R@3"], "interval": "bca", "replicates": 50},
        {"metrics": ["R@3"], "estimators": ["subsampled"], "seed": 3},
    ],
)
def test_shards_are_what_one_call_is(settings: dict[str, Any]) -> None:
    shards, top, labels, propensity = sharded(80, 13, 13, 60)
    if "subsampled" in settings.get("estimators", ()):  # rows long enough to be thinned
        labels = np.ones((80, 30), int)
        propensity = np.full(30, 0.95)
        shards = [(t, labels[: t.labels.shape[0]]) for t, _ in shards]
    calls: list[tuple[int, int]] = []
    found = evaluate_shards(
        shards, propensity, progress=lambda *done: calls.append(done), **settings
    )
    assert same(found, Evaluator(propensity, **settings).update(top, labels).compute())
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_shards_are_read_where_they_are(tmp_path: Path) -> None:
    shards, top, labels, propensity = sharded(30, 11)
    paths: list[Any] = []
    for at, (predicted, seen) in enumerate(shards):
        predictions.write(tmp_path / f"{at}.top", predicted)
        whole = data.Dataset(features=sp.csr_array(np.ones((len(seen), 2))), labels=seen)
        data.write(tmp_path / f"{at}.txt", whole)
        paths.append((str(tmp_path / f"{at}.top"), tmp_path / f"{at}.txt"))
    asked: dict[str, Any] = {"metrics": ["R@3"], "estimators": ["unbiased"], "interval": "bca"}
    expected = evaluate(top, labels, propensity, **asked)
    assert same(evaluate_shards(paths, propensity, **asked), expected)
    assert same(evaluate_shards([paths[0], shards[1]], propensity, **asked), expected)


@pytest.mark.parametrize("interval", ["normal", "percentile"])
def test_shards_share_the_doubts_about_propensities(interval: str) -> None:
    """Errors widen by the same draws, and what needs independence says so, as in one call."""
    shards, top, labels, p = sharded(60, 20)
    estimate = PropensityEstimate(p, p, p, 0.95, "test", p, Spread(p), effect=3.0)
    asked: dict[str, Any] = {
        "metrics": ["R@3", "P@1"], "estimators": ["vanilla", "unbiased"], "interval": interval,
        "confidence": 0.8, "seed": 5, "draws": 4,
    } | ({} if interval == "normal" else {"replicates": 50})  # fmt: skip
    expected = evaluate(top, labels, estimate, **asked)
    assert expected["R@3", "unbiased"].verdict.reason is Reason.DEPENDENT_LABELS
    assert same(evaluate_shards(shards, estimate, **asked), expected)
    plain: dict[str, Any] = {"metrics": ["P@1"], "estimators": ["unbiased"], "draws": 3}
    assert same(
        evaluate_shards(shards, estimate, **plain), evaluate(top, labels, estimate, **plain)
    )


class Scored:
    """A model with some of the methods that scorers look for."""

    def __init__(self, **methods: Callable[..., Any]) -> None:
        vars(self).update(methods)


def test_scorers_take_the_first_method_that_answers() -> None:
    scores = np.random.default_rng(0).random((6, 4))
    labels = (scores[::-1] > 0.6).astype(int)
    asked: list[int] = []

    def predict_top(features: Any, k: int) -> TopK:
        asked.append(k)
        return TopK.from_scores(scores, k)

    def wrong(features: Any) -> Any:
        raise AssertionError

    full = Scored(predict_top=predict_top, decision_function=wrong, predict_proba=wrong)
    plain = Scored(decision_function=lambda _: scores, predict_proba=wrong)
    last = Scored(predict_proba=lambda _: scores)
    expected = one(scores, labels, None, "R@2", "vanilla").value
    assert all(make_scorer("R@2", "vanilla")(m, None, labels) == expected
               for m in (full, plain, last))  # fmt: skip
    assert asked == [2]
    listing = Scored(predict_top=wrong, decision_function=lambda _: scores)
    loss = one(scores, labels, None, "Kendall-tau", "vanilla").value
    assert loss > 0
    assert make_scorer("Kendall-tau", "vanilla")(listing, None, labels) == -loss


def test_scorers_refuse_before_any_model_is_fitted() -> None:
    for metric, estimator in (("P@1", "unbaised"), ("P@1", "bound"), ("PSP@1", "vanilla")):
        with pytest.raises(ValueError, match=f"unknown estimator '{estimator}'; use one of"):
            make_scorer(metric, estimator)
    with pytest.raises(ValueError, match="needs a cut-off"):
        make_scorer("P", "vanilla")


TOP, LABELS, P = rows_of(900)

PLAN = audit.plan(TOP, LABELS, budget=20, metrics=["R@3"], expect=False)

JUDGED = audit.from_rows(PLAN, LABELS[PLAN.rows])

FORWARDS = {"audit.plan", "data.read", "diagnosis.diagnose", "propensity.snapshots"}

"""Functions with `**options`, which refuse a name where they use it."""


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for room in unmask.__all__:
        module = getattr(unmask, room)
        if isinstance(module, ModuleType):
            for name in getattr(module, "__all__", ()):
                if inspect.isfunction(made := getattr(module, name)):
                    yield f"{room}.{name}", made


def test_a_misspelt_option_is_refused_by_every_public_function() -> None:
    seen = 0
    for name, function in public_functions():
        options = inspect.signature(function).parameters.values()
        if any(each.kind is each.VAR_KEYWORD for each in options):
            assert name in FORWARDS
            continue
        named = [each.name for each in options if each.kind is not each.POSITIONAL_ONLY]
        seen += len(named)
        for each in named:
            with pytest.raises(TypeError):
                function(**{f"{each}x": 1})
    assert seen > 500


def test_the_nearest_name_is_proposed() -> None:
    doors = [each for name, each in public_functions() if name.startswith("metrics.")]
    doors += [Evaluator, RankingMetrics, SetMetrics, ScoreMetrics, compute_metrics]
    assert len(doors) > 15
    for door in doors:
        for name in inspect.signature(door).parameters:
            wrong = f"{name[:-1]}_" if name != "k" else "kk"
            with pytest.raises(TypeError, match=rf"has no option '{wrong}'; ") as refused:
                door(**{wrong: 1})
            assert f"did you mean {name!r}?" in str(refused.value) or len(name) < 5
    with pytest.raises(TypeError, match=r"evaluate\(\) has no option 'confidnce'; did you mean"):
        evaluate(TOP, LABELS, metrics=["R@3"], audit=JUDGED, confidnce=0.5)  # type: ignore[call-overload]


def test_signatures_and_the_request_have_the_same_defaults() -> None:
    doors = [each for name, each in public_functions() if name.startswith("metrics.")]
    for door in [*doors, Evaluator, RankingMetrics, SetMetrics, ScoreMetrics, compute_metrics]:
        for name, each in inspect.signature(door).parameters.items():
            required = name in ("metrics", "estimators") or each.default is each.empty
            if name in DEFAULTS and not required:
                more = {"replicates": 2000} if door in (compare, metrics.ranking) else {}
                assert each.default == {**DEFAULTS, **more}[name], (door, name)


def test_options_without_effect_are_refused() -> None:
    """Each by itself; with what it needs, it is taken."""
    asked: dict[str, Any] = {"metrics": ["R@3"]}
    estimate = unmask.propensity.audit(LABELS[:30], LABELS[:30])
    cases: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "tau": ({"tau": 0.5}, {"estimators": ["tempered"], "propensity": P}),
        "clip": ({"clip": 4}, {"estimators": ["clipped"], "propensity": P}),
        "fraction": ({"fraction": 0.1}, {"estimators": ["filtered"], "propensity": P}),
        "information": ({"information": np.ones(LABELS.shape[1])}, {}),
        "interval": ({"interval": "bca", "estimators": ["measured"], "audit": JUDGED}, {}),
        "replicates": ({"replicates": 50}, {"interval": "bca"}),
        "draws": ({"draws": 3}, {"propensity": estimate}),
        "covariates": ({"covariates": np.ones(900)}, {"audit": JUDGED}),
    }
    assert cases.keys() == NEEDS.keys()
    for name, (alone, more) in cases.items():
        with pytest.raises(ValueError, match=f"^{name} has no effect without .*; leave it out, or"):
            evaluate(TOP, LABELS, **asked, **alone)
        if more:
            evaluate(TOP, LABELS, **{**asked, **alone, **more})
    for wrong, words in (
        ({"draws": -1}, "draws must be a whole number"),
        ({"audit": JUDGED, "interval": "bogus"}, "unknown interval 'bogus'"),
        ({"audit": JUDGED, "confidence": math.nan}, "confidence must be"),
        ({"audit": JUDGED, "complete": True}, "leave out the audit, or complete=True"),
        ({"groups": ["a"] * 900, "by": "label"}, "groups of rows or of labels"),
        ({"groups": ["a"] * 900, "audit": JUDGED}, "and no audit"),
    ):
        with pytest.raises(ValueError, match=words):
            evaluate(TOP, LABELS, **asked, **wrong)
    by_audit = compare({"a": TOP, "b": TOP}, LABELS, **asked, audit=JUDGED, estimators=["measured"])
    assert [each.estimator for each in by_audit["b"]] == ["measured"]
    with pytest.raises(ValueError, match="covariates has no effect without an audit"):
        compare({"a": TOP, "b": TOP}, LABELS, **asked, covariates=np.ones(900))


def test_labels_are_complete_only_if_somebody_says_so() -> None:
    """What is true of `evaluate` is true of every door; the numbers are the same either way."""
    asked: dict[str, Any] = {"metrics": ["R@3"]}
    other = TopK(np.roll(TOP.labels, 1, axis=0), TOP.scores)
    systems = {"other": other, "ours": TOP}
    for declared, level in (({}, "doubtful"), ({"complete": True}, "measured")):
        numbers = [
            evaluate(TOP, LABELS, **asked, **declared),
            Evaluator(**asked, **declared).update(TOP, LABELS).compute(),
            metrics.evaluate_shards([(TOP, LABELS)], **asked, **declared),
            evaluate(TOP, LABELS, **asked, groups=["a"] * 900, **declared)["a"],
        ]
        for table in numbers:
            each = table["R@3", "vanilla"]
            assert each.verdict.level == level
            assert each.value == numbers[0]["R@3", "vanilla"].value
            assert each.interval == numbers[0]["R@3", "vanilla"].interval
        tables = compare(systems, LABELS, **asked, **declared)
        verdict = tables["ours"]["R@3", "vanilla"].verdict
        assert (verdict.level, verdict.details["outcome"]) == (
            (level, "better") if declared else (level, "higher")
        )
        words = tables.headline + str(tables) + tables.title + verdict.sentence
        assert ("better" in words) == bool(declared)
        assert ("ours scores higher than other on recorded labels" in words) != bool(declared)
    recorded = evaluate(TOP, LABELS, **asked)
    assert recorded.headline.startswith("R@3 on recorded labels is ")
    assert recorded["R@3", "vanilla"].verdict.advice == "audit"
    assert "on recorded labels" in str(recorded)
    worse = compare({"ours": TOP, "other": other}, LABELS, **asked)["other"]["R@3", "vanilla"]
    assert worse.verdict.details["outcome"] == "lower"


def test_propensities_and_a_declaration_agree_or_are_refused() -> None:
    ones = np.ones(LABELS.shape[1])
    entries = sp.csr_array(LABELS * ones)
    for p in (None, ones, entries):
        for complete in (False, True):
            each = evaluate(TOP, LABELS, p, metrics=["R@3"], complete=complete)["R@3", "vanilla"]
            assert (each.verdict.level == "measured") == (complete or p is not None)
    for p in (P, sp.csr_array(LABELS * P), unmask.propensity.MaskModel(P)):
        with pytest.raises(ValueError, match="complete=True says that no label is missing"):
            evaluate(TOP, LABELS, p, metrics=["R@3"], complete=True)
    with pytest.raises(ValueError, match="complete=True says"):
        Evaluator(metrics=["R@3"], complete=True).update(
            TOP, LABELS, entry_propensity=sp.csr_array(LABELS * P)
        )


def test_audited_runs_call_recorded_labels_so_and_advise_no_second_audit() -> None:
    table = evaluate(TOP, LABELS, metrics=["R@3"], audit=JUDGED)
    assert table["R@3", "measured"].verdict.reason == "audited"
    verdict = table["R@3", "vanilla"].verdict
    assert (verdict.level, verdict.reason, verdict.advice) == ("doubtful", "recorded-labels", "")
    assert table.headline.startswith("Measured on judged rows")


def test_a_request_is_made_by_hand_as_the_doors_make_it() -> None:
    request = Request(["R@3"], ["unbiased"], confidence=0.9)
    assert request.checked(P) is request
    table = Evaluator.asked(request, P).update(TOP, LABELS).compute()
    expected = evaluate(TOP, LABELS, P, metrics=["R@3"], estimators=["unbiased"], confidence=0.9)
    assert table.to_dicts() == expected.to_dicts()


def test_rows_with_ids_are_not_joined_by_position() -> None:
    """Predictions name their rows, labels do not: refused, unless the names are row numbers."""
    order = np.random.default_rng(0).permutation(900)
    dataset = data.Dataset(None, LABELS)
    value = evaluate(TOP, LABELS, metrics=["R@3"])["R@3", "vanilla"].value
    sets = LabelSets(sp.csr_array(LABELS[order]), ids=[f"d{i}" for i in order])
    named = TopK(TOP.labels[order], TOP.scores[order], [f"d{i}" for i in order])
    for each, metric in ((named, "R@3"), (sets, "micro-F1")):
        with pytest.raises(
            ValueError, match=r"predictions have ids \('d.*labels with ids \(`id`\)"
        ):
            evaluate(each, dataset, metrics=[metric])
    numbered = TopK(TOP.labels[order], TOP.scores[order], [str(i) for i in order])
    assert evaluate(numbered, dataset, metrics=["R@3"])["R@3", "vanilla"].value == value
    ids = data.Dataset(None, LABELS, ids=[f"d{i}" for i in range(900)])
    assert evaluate(named, ids, metrics=["R@3"])["R@3", "vanilla"].value == value
    assert evaluate(TOP, ids, metrics=["R@3"])["R@3", "vanilla"].value == value


def test_the_command_refuses_what_only_position_joins(tmp_path: Path) -> None:
    names = ["law", "art", "tax"]
    top, plain, named = (tmp_path / name for name in ("top.csv", "labels.tsv", "ids.csv"))
    plain.write_text("".join(f"text {name}\t<{name}>\n" for name in names))
    named.write_text("id,label\n" + "".join(f"d{i},<{n}>\n" for i, n in enumerate(names)))
    lines = [f"d{i},<{names[i]}>,0.9\n" for i in (2, 0, 1)]
    top.write_text("id,label,score\n" + "".join(lines))
    shared = ["evaluate", "--predictions", top, "--complete", "--metrics", "P@1", "--json"]
    refused = run(*shared, "--labels", plain)
    assert refused.returncode == 2
    assert "predictions have ids" in (words := " ".join(refused.stderr.split()))
    assert "--table id=" in words
    made = run(*shared, "--labels", named)
    assert made.returncode == 0
    record = json.loads(made.stdout)
    assert record["headline"].startswith("Labels are declared complete: P@1 is 1.000")
    for more in (["--propensity", "constant:0.5"], ["--sensitivity", "powers"]):
        assert run(*shared, "--labels", named, *more).returncode == 2
