"""Evaluation at its edges: documented defaults, refusals, limits, and errors against oracles."""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import mstats, norm
from scipy.stats import t as student

from tests.helpers.rankings import DEFINITIONS, OF_ROWS, one_top
from unmask import data, predictions
from unmask.metrics import (
    METRICS,
    Estimate,
    Evaluator,
    Table,
    Tables,
    charts,
    compare,
    contributions,
    estimates,
    evaluate,
    evaluate_shards,
    intervals,
    make_scorer,
    plan,
    registry,
    state,
    supported,
)
from unmask.metrics.comparison.paired import sign_flip_p
from unmask.metrics.table import verdict
from unmask.predictions import TopK
from unmask.propensity import PropensityEstimate

L = 8


def rows_of(n: int, seed: int = 0) -> tuple[TopK, np.ndarray, np.ndarray]:
    """Predictions and observed labels of n rows; the last label is never seen or predicted."""
    rng = np.random.default_rng(seed)
    true = rng.random((n, L)) < 0.35
    true[:, -1] = False
    propensity = np.linspace(0.4, 1, L)
    scores = true + rng.random((n, L))
    scores[:, -1] = -1
    seen = true & (rng.random((n, L)) < propensity)
    return TopK.from_scores(scores, 3), seen.astype(int), propensity


def part(top: TopK, rows: slice) -> TopK:
    return TopK(top.labels[rows], top.scores[rows])


def one(top: Any, labels: Any, propensity: Any, metric: str, estimator: str, **more: Any) -> Any:
    table = evaluate(top, labels, propensity, metrics=[metric], estimators=[estimator], **more)
    return table[metric, estimator]


def same(left: Any, right: Any) -> bool:
    return repr(left.to_dicts()) == repr(right.to_dicts())


# --- metrics per label --------------------------------------------------------------------------


def counts_per_label(top: TopK, labels: np.ndarray) -> np.ndarray:
    """Hits, wrong predictions and misses of every label, (3, L)."""
    listed = np.zeros(labels.shape, bool)
    np.put_along_axis(listed, top.labels.astype(int), True, axis=1)
    hits = (listed & (labels > 0)).sum(axis=0)
    return np.array([hits, listed.sum(axis=0) - hits, labels.sum(axis=0) - hits], float)


PER_LABEL: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "macro-P": lambda c, q: q * c[0] / (c[0] + c[1]),
    "macro-R": lambda c, q: c[0] / (c[0] + c[2]),
    "macro-F1": lambda c, q: 2 * q * c[0] / (c[0] + c[1] + q * (c[0] + c[2])),
}


@pytest.mark.parametrize(
    ("metric", "estimator"),
    [(metric, name) for metric in PER_LABEL for name in supported(metric)],
)
def test_errors_per_label_are_the_delta_method_on_poisson_counts(
    metric: str, estimator: str
) -> None:
    """Var f = Σ (∂f/∂c)² c over the counts c, the derivatives by differences; labels add up."""
    top, labels, propensity = rows_of(400)
    counts, seen = counts_per_label(top, labels)[:, :-1], L - 1
    q = np.ones(seen) if estimator == "vanilla" else 1 / propensity[:seen]
    value = PER_LABEL[metric]
    variances = np.zeros(seen)
    for kind in range(3):
        step = np.zeros((3, seen))
        step[kind] = 1e-3
        slope = (value(counts + step, q) - value(counts - step, q)) / 2e-3
        variances += slope**2 * counts[kind]
    each = one(top, labels, propensity, f"{metric}@3", estimator)
    values = value(counts, q)
    assert each.value == pytest.approx(values.sum() / L, rel=1e-12)
    assert each.standard_error == pytest.approx(math.sqrt(variances.sum()) / L, rel=1e-5)
    assert each.details == {"labels": L}
    assert each.effective_sample_size == pytest.approx(values.sum() ** 2 / (values @ values))
    assert each.largest_contribution == pytest.approx(values.max() / values.sum())


def test_a_label_without_anything_to_count_contributes_nothing() -> None:
    """One row, label 0 hit, 1 predicted wrongly, 2 missed, 3 and 4 untouched."""
    for metric, value in (("macro-P", 1), ("macro-R", 1), ("macro-F1", 1), ("coverage", 1)):
        each = one(one_top([[0, 1]]), [[1, 0, 1, 0, 0]], None, f"{metric}@2", "vanilla")
        assert each.value == pytest.approx(value / 5)


@pytest.mark.parametrize("metric", ["macro-P@1", "macro-R@1", "macro-F1@1", "coverage@1", "R@1"])
def test_without_labels_there_is_nothing_to_find(metric: str) -> None:
    nothing = TopK([[-1]] * 2, [[-math.inf]] * 2)
    each = one(nothing, np.zeros((2, 0)), None, metric, "vanilla")
    assert (each.value, each.standard_error) == (0, 0)


def test_coverage_varies_as_a_label_with_a_poisson_number_of_hits() -> None:
    top, labels = one_top([[0], [0], [1], [2]]), [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]]
    each = one(top, labels, None, "coverage@1", "vanilla")
    none = np.exp(-np.array([2.0, 1.0]))
    assert each.value == pytest.approx(2 / 3)
    assert each.standard_error == pytest.approx(math.sqrt((none * (1 - none)).sum()) / 3)


def test_a_mean_over_labels_is_judged_by_its_labels() -> None:
    """Eight of ten labels are no handful, however many rows there are."""
    rng = np.random.default_rng(0)
    labels = (rng.random((2000, 10)) < 0.3).astype(int)
    scores = labels + rng.random((2000, 10))
    for name in ("macro-P@3", "macro-R@3", "macro-F1@3", "coverage@3"):
        assert one(scores, labels, None, name, "vanilla").verdict == "trust"
    wide = np.eye(1, 1000, dtype=int)  # the first of a thousand labels carries all
    said = one(one_top([[0]]), wide, None, "macro-P@1", "vanilla").verdict
    assert said == "unusable: 1 of 1,000 labels carry 100 % of the estimate"


def test_metrics_per_label_need_propensities_per_label() -> None:
    top, labels, _ = rows_of(20)
    entries = sp.csr_array(labels * 0.5)
    with pytest.raises(ValueError, match=r"macro-P@3 unbiased needs one propensity per label"):
        evaluate(top, labels, entries, metrics=["macro-P@3"])
    table = evaluate(top, labels, entries, metrics=["macro-P@3", "P@1"], estimators=["vanilla"])
    assert same(table, evaluate(top, labels, [0.5] * L, metrics=["macro-P@3", "P@1"],
                                estimators=["vanilla"]))  # fmt: skip


# --- means, ratios, and what becomes of few rows ------------------------------------------------


def test_the_error_of_two_rows_and_of_one() -> None:
    pair = one(one_top([[0], [0]]), [[1, 0], [0, 1]], None, "P@1", "vanilla")
    assert (pair.value, pair.standard_error) == (0.5, 0.5)
    for metric, estimator in (("P@1", "vanilla"), ("P@1", "filtered"), ("PSP@1", "normalized")):
        for interval in intervals.INTERVALS:
            alone = one(one_top([[0]]), [[1, 1]], [0.5, 0.5], metric, estimator, interval=interval)
            assert alone.standard_error == math.inf
            assert alone.interval == (-math.inf, math.inf)
            assert alone.verdict.startswith("unusable: the interval is as wide")


@pytest.mark.parametrize("interval", intervals.INTERVALS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_ratios_without_anything_to_find_are_nothing(n: int, interval: str) -> None:
    each = one(one_top([[0]] * n), np.zeros((n, 2)), [0.5, 0.5], "PSP@1", "normalized",
               interval=interval)  # fmt: skip
    assert (each.value, each.standard_error) == (0, math.inf if n == 1 else 0)
    assert (each.effective_sample_size, each.largest_contribution) == (0, 0)
    if n > 1:
        assert each.interval == (0, 0)


@pytest.mark.parametrize("n", [2, 3, 50])
def test_the_error_of_a_ratio_is_that_of_its_residuals(n: int) -> None:
    top, labels, propensity = rows_of(n, 1)
    q = 1 / propensity
    x = np.array([(labels[i, t] * q[t]).sum() for i, t in enumerate(top.labels)]) / 3
    y = np.sort(labels * q, axis=1)[:, -3:].sum(axis=1) / 3
    each = one(top, labels, propensity, "PSP@3", "normalized")
    residual = x - x.sum() / y.sum() * y
    error = math.sqrt(residual @ residual * n / (n - 1)) / y.sum()
    assert each.standard_error == pytest.approx(error, rel=1e-9, abs=1e-15)
    assert each.interval == pytest.approx(intervals.normal(each.value, each.standard_error, 0.95))
    assert estimates.quotient(np.array([1.0, 0, 2]), np.array([0.5, 0, 4])).tolist() == [2, 0, 0.5]


@pytest.mark.parametrize("interval", ["percentile", "bca"])
def test_two_rows_are_enough_to_resample(interval: str) -> None:
    for metric, estimator in (("P@1", "vanilla"), ("PSP@1", "normalized")):
        each = one(one_top([[0], [0]]), [[1, 0], [0, 1]], [0.5, 0.5], metric, estimator,
                   interval=interval)  # fmt: skip
        assert (each.interval, each.standard_error) == ((0, 1), 0.5)


def test_deconvolved_intervals_are_resampled_where_intervals_are() -> None:
    top, labels, propensity = rows_of(300)
    asked: dict[str, Any] = {"metric": "R@3", "estimator": "deconvolved", "replicates": 20}
    drawn = {
        interval: [one(top, labels, propensity, **asked, interval=interval, seed=seed).interval
                   for seed in (0, 1)]
        for interval in intervals.INTERVALS
    }  # fmt: skip
    assert drawn["normal"][0] == drawn["normal"][1]
    assert drawn["percentile"][0] != drawn["percentile"][1] != drawn["normal"][0]
    assert drawn["bca"] == drawn["percentile"]


@pytest.mark.parametrize("interval", ["percentile", "bca"])
def test_a_ratio_is_resampled_with_both_its_parts(interval: str) -> None:
    """Two of three rows have no labels, so some resamples have none: they say 0."""
    labels = np.array([[1, 0], [0, 0], [0, 0]])
    assert one(one_top([[0]] * 3), labels, [0.5] * 2, "PSP@1", "normalized",
               interval=interval).interval[0] == 0  # fmt: skip
    top, labels, propensity = rows_of(40)
    q = 1 / propensity
    x = np.array([(labels[i, t] * q[t]).sum() for i, t in enumerate(top.labels)])
    y = np.sort(labels * q, axis=1)[:, -3:].sum(axis=1)
    counts = intervals.resampling_counts(40, 300, seed=3)
    left_out = (x.sum() - x) / (y.sum() - y)
    ends = intervals.INTERVALS[interval](
        (counts @ x) / (counts @ y), 0.9, value=x.sum() / y.sum(), left_out=left_out
    )
    each = one(top, labels, propensity, "PSP@3", "normalized", interval=interval, replicates=300,
               seed=3, confidence=0.9)  # fmt: skip
    assert each.interval == pytest.approx(ends, rel=1e-9)


def test_the_fewest_rows_that_carry_four_fifths() -> None:
    assert estimates._heaviest(np.array([5.0, 3.0, 1.0, 1.0]), 10.0) == (2, 0.8)
    assert estimates._heaviest(np.array([5.0, 2.9, 1.1, 1.0]), 10.0) == (3, pytest.approx(0.9))
    assert estimates._heaviest(np.array([2.0, 1.0]), 10.0) == (2, pytest.approx(0.3))
    assert estimates._heaviest(np.zeros(4), 0.0) == (0, 0)


def test_advice_only_where_it_can_be_followed() -> None:
    top, labels, propensity = rows_of(3)
    metrics = {"metrics": ["P@1", "MRR"], "confidence": 0.999}
    for each in evaluate(top, labels, propensity, **metrics):
        assert each.verdict.endswith("use deconvolved") == (each.metric == "P@1")
    for p in (None, np.ones(L)):
        assert not any("use" in e.verdict for e in evaluate(top, labels, p, **metrics))


# --- tempered, clipped, filtered ----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_tau_is_the_smallest_whose_interval_meets_all_larger_ones(seed: int) -> None:
    top, labels, propensity = rows_of([40, 400, 3000][seed % 3], seed)
    propensity = propensity * [0.3, 0.9][seed % 2]
    ends, best = [], 1.0
    for tau in np.linspace(1, 0, 9):
        each = one(top, labels, propensity, "R@3", "tempered", tau=tau)
        ends.append((each.value - 2 * each.standard_error, each.value + 2 * each.standard_error))
        assert each.details == {"tau": tau}
        if max(low for low, _ in ends) > min(high for _, high in ends):
            break
        best = tau
    chosen = one(top, labels, propensity, "R@3", "tempered")
    assert chosen.details == {"tau": best}
    assert chosen.value == one(top, labels, propensity, "R@3", "tempered", tau=best).value


def test_where_nothing_is_found_nothing_speaks_for_noise() -> None:
    each = one(one_top([[1]] * 4), [[1, 0]] * 4, [0.5, 0.5], "P@1", "tempered")
    assert (each.value, each.details) == (0, {"tau": 0})


def test_clipping_is_a_least_propensity() -> None:
    top, labels, propensity = rows_of(200)
    small = propensity / 8
    for clip in (1, 4.0, math.inf):
        each = one(top, labels, small, "R@3", "clipped", clip=clip)
        raised = one(top, labels, np.maximum(small, 1 / clip), "R@3", "unbiased")
        assert each.value == pytest.approx(raised.value, rel=1e-12)
        assert each.details == {"clip": clip}


def test_filtered_is_the_trimmed_mean() -> None:
    top, labels, propensity = rows_of(200)
    x = contributions(top, labels, propensity, metrics=["R@3"], estimators=["unbiased"])
    x = x["R@3", "unbiased"]
    each = one(top, labels, propensity, "R@3", "filtered", fraction=0.2)
    limits = (0.1, 0.1)
    assert each.value == pytest.approx(mstats.trimmed_mean(x, limits=limits), rel=1e-12)
    error = mstats.trimmed_stde(x, limits=limits)
    assert each.standard_error == pytest.approx(error, rel=1e-12)
    middle = np.abs(np.sort(x)[20:180])
    assert each.effective_sample_size == pytest.approx(middle.sum() ** 2 / (middle @ middle))
    assert each.largest_contribution == pytest.approx(middle.max() / middle.sum())
    assert each.interval == pytest.approx(intervals.normal(each.value, error, 0.95))


def test_filtering_nothing_changes_nothing_and_leaves_at_least_a_row() -> None:
    top, labels, propensity = rows_of(60)
    plain = one(top, labels, propensity, "R@3", "unbiased")
    whole = one(top, labels, propensity, "R@3", "filtered", fraction=0)
    assert whole.details == {"fraction": 0, "rows_left_out": 0}
    for name in ("value", "standard_error", "effective_sample_size", "largest_contribution"):
        assert getattr(whole, name) == pytest.approx(getattr(plain, name), rel=1e-12)
    least = one(top, labels, propensity, "R@3", "filtered", fraction=0.99)
    assert least.details["rows_left_out"] == 58
    pair = (part(top, slice(2)), labels[:2], propensity, "R@3")
    few = one(*pair, "filtered", fraction=0.9)
    assert few.details["rows_left_out"] == 0
    assert few.standard_error == pytest.approx(one(*pair, "unbiased").standard_error)


def test_filtered_metrics_do_not_get_in_each_others_way() -> None:
    top, labels, propensity = rows_of(50)
    names = ["R@3", "P@1", "R@1", "P@1"]
    both = evaluate(top, labels, propensity, metrics=names, estimators=["filtered", "unbiased"])
    for name in names:
        assert both[name, "filtered"] == one(top, labels, propensity, name, "filtered")
    rows = contributions(top, labels, propensity, metrics=names, estimators=["filtered"])
    assert rows == {}  # its value is not the mean of rows


# --- one pass: columns, groups, tables ----------------------------------------------------------


def test_what_is_asked_for_together_is_what_is_asked_for_alone() -> None:
    """Every metric at two cut-offs by every estimator, in one pass and in passes of its own."""
    top, labels, propensity = rows_of(70)
    names = [f"{name}@{k}" for name in METRICS for k in (3, 1)]
    chosen = ["vanilla", "unbiased", "bound", "clipped", "self_normalized", "filtered",
              "deconvolved", "subsampled", "tempered"]  # fmt: skip
    together = evaluate(top, labels, propensity, metrics=names, estimators=chosen)
    for each in together:
        alone = one(top, labels, propensity, each.metric, each.estimator)
        for name in ("value", "standard_error", "effective_sample_size", "largest_contribution"):
            wanted = pytest.approx(getattr(alone, name), rel=1e-9, nan_ok=True)
            assert getattr(each, name) == wanted, (each.metric, each.estimator, name)
        assert (each.verdict, each.details) == (alone.verdict, alone.details)


def test_bounds_of_rows_with_one_label_stay_within_their_tables() -> None:
    """N = 1: every bound at k = 1 is 1/p, also where 1 + q − q is below 1 (it once read beyond)."""
    propensity = np.linspace(0.05, 1, 400)
    for name in ("nDCG@1", "R@1", "F1@1", "Jaccard@1"):
        for _ in range(5):  # memory differs from call to call
            found = contributions(one_top([[j] for j in range(400)]), np.eye(400), propensity,
                                  metrics=[name], estimators=["bound"])  # fmt: skip
            assert found[name, "bound"] == pytest.approx(1 / propensity, rel=1e-12)


def test_estimates_that_need_the_same_column_share_it() -> None:
    made = plan.make(["P@5", "PSP@5", "PSP@5", "P@3", "macro-P@5", "DCG@5"],
                     ["vanilla", "unbiased", "deconvolved"],
                     width=5, n_labels=9, tau="auto", clip=10.0)  # fmt: skip
    cells = {(cell.name, cell.estimator): cell for cell in made.cells}
    columns = [made.column(cells[name].keys[0], 5)
               for name in (("P@5", "unbiased"), ("PSP@5", "normalized"))]  # fmt: skip
    assert columns[0] == columns[1]
    used = {made.column(key, k) for key in made.starts for k in (3, 5)}
    used |= set(made.products.values())
    assert used == set(range(made.columns))  # none twice, none missing
    assert len(made.products) == 1
    assert not made.integrates
    assert plan.make(["R@1"], ["vanilla"], width=5, n_labels=9, tau=0, clip=1).integrates is False
    assert plan.make(["R@1"], ["unbiased"], width=5, n_labels=9, tau=0, clip=1).integrates


def test_rows_of_a_group_are_those_with_its_remainder() -> None:
    top, labels, propensity = rows_of(30)
    options: dict[str, Any] = {"metrics": ["P@1"], "estimators": ["unbiased"]}
    x = contributions(top, labels, propensity, **options)["P@1", "unbiased"]
    used = Evaluator(propensity, **options, interval="percentile")
    firsts = (4090, 3 * 4096, 4096 + 20)
    for first in firsts:
        used.update(top, labels, first_row=first)
    expected, rows = np.zeros(4096), np.zeros(4096, int)
    for first in firsts:
        np.add.at(expected, (first + np.arange(30)) % 4096, x)
        np.add.at(rows, (first + np.arange(30)) % 4096, 1)
    sums, sizes = used.summary().state.per_group([0])
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


def test_group_sums_keep_what_rounding_would_lose() -> None:
    sums = np.zeros((2, 1, 1))
    for x in (1e17, 1.0, 3.0, -1e17, 1e-17):
        state._add_doubled(sums, np.array([[[x]], [[0.0]]]))
    assert sums[0, 0, 0] + sums[1, 0, 0] == 4 + 1e-17
    state._add_doubled(sums, np.array([[[0.0]], [[0.5]]]))
    assert (sums[0] + sums[1]).item() == 4.5
    made = plan.make(["P@1"], ["vanilla"], width=1, n_labels=2, tau=0, clip=1)
    one_group = state.empty(made, 0, groups=True)
    one_group.groups[:, 3, 0], one_group.group_rows[3] = (1e16, 2.0), 1
    assert one_group.per_group([0])[0].tolist() == [[1e16 + 2]]


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


def test_one_propensity_below_one_is_enough_to_be_cautious() -> None:
    top, labels, _ = rows_of(400)
    nearly = np.r_[np.ones(L - 1), 0.999]
    used = Evaluator(metrics=["P@3"]).update(top, labels)
    assert used.compute()["P@3", "vanilla"].verdict == "trust"
    each = one(top, labels, nearly, "P@3", "vanilla")
    assert each.verdict == "precise, but measures the observed labels only"
    part_by_part = Evaluator(metrics=["P@3"]).update(top, labels)
    part_by_part.update(top, labels, entry_propensity=sp.csr_array(labels * 0.999))
    part_by_part.update(top, labels)
    assert "observed labels only" in part_by_part.compute()["P@3", "vanilla"].verdict


# --- the evaluator: defaults and refusals -------------------------------------------------------


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
            seed=0, tau="auto", clip=10, fraction=0.01,
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
    for given, ks in ((top, (1, 3)), (part(top, slice(20)), (1, 3)), (scores, (1, 3, 5)),
                      (scores.tolist(), (1, 3, 5)), (sp.csr_array(scores), (1, 3, 5)),
                      (TopK(top.labels[:, :1], top.scores[:, :1]), (1,))):  # fmt: skip
        names = [f"{name}@{k}" for k in ks for name in ("P", "R", "nDCG")]
        found = evaluate(given, labels, propensity)
        assert [(e.metric, e.estimator) for e in found] == list(
            itertools.product(names, ["vanilla", "unbiased"])
        )
        assert {e.estimator for e in evaluate(given, labels)} == {"vanilla"}


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
        ("confidence", (0.5, 1 - 1e-9), (0.49, 1.0, math.nan), "confidence must lie in"),
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
        Evaluator(metrics=["P@1"], **{name: value})
    for value in outside:
        with pytest.raises(ValueError, match=message):
            Evaluator(metrics=["P@1"], **{name: value})


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
    assert both[0].keys() == both[1].keys() == set(
        itertools.product(["R@3", "P@1"], ["unbiased", "vanilla", "tempered"])
    )  # fmt: skip
    for key, x in both[0].items():
        assert x.tolist() == both[1][key].tolist()
        assert x.mean() == pytest.approx(one(top, labels, propensity, *key, tau=0.5).value)
    long = (one_top([[0, 1]] * 9), np.ones((9, 30)), np.full(30, 0.9))  # thinned by row number
    thinned = contributions(*long, metrics=["R@2"], estimators=["subsampled"])["R@2", "subsampled"]
    assert thinned.mean() == pytest.approx(one(*long, "R@2", "subsampled").value, rel=1e-12)


# --- the registry -------------------------------------------------------------------------------


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
    for name, about in METRICS.items():
        metric, estimator = f"{name}@2", supported(name)[0]
        better, worse = (one(s, labels, [1.0] * 4, metric, estimator).value for s in (good, bad))
        assert better > worse if about.higher_is_better else better < worse
    assert [name for name, about in METRICS.items() if not about.higher_is_better] == [
        "Kendall-tau"
    ]


def test_only_metrics_of_the_whole_list_do_without_a_cut_off() -> None:
    """As the module says: R-precision, MRR and Kendall-tau."""
    for name in METRICS:
        if name in ("R-precision", "MRR", "Kendall-tau"):
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
    assert offered == {"P", "R", "F1", "Jaccard", "hit", "nDCG", "R-precision"}
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


# --- comparison ---------------------------------------------------------------------------------


def other_top(top: TopK, every: int) -> TopK:
    """The same lists, every so many turned round."""
    turned = top.labels.copy()
    turned[::every] = turned[::every, ::-1]
    return TopK(turned, np.broadcast_to(-np.arange(3.0), turned.shape))


def test_sign_flips_by_enumeration() -> None:
    """P(|Σ ±d| ≥ |Σ d|) over all signs, approached by drawn ones."""
    for d in ([1.0, 1, 1, 1, 1, 1], [3.0, 1, 1, -1], [0.1, 0.2, 0.3, -0.6], [2.0, -1.0, 0.5]):
        flips = np.array(list(itertools.product((-1, 1), repeat=len(d)))) @ d
        exactly = np.mean(np.abs(flips) >= abs(sum(d)) - 1e-12)
        p = sign_flip_p(np.array(d), 20_001, seed=4)
        assert p == pytest.approx(exactly, abs=4 * math.sqrt(0.25 / 20_000))
    for replicates in (1, 499, 500, 501, 1234):  # each drawn pattern counts once
        assert sign_flip_p(np.zeros(3), replicates, seed=0) == 1
        assert sign_flip_p(np.ones(60), replicates, seed=0) == 1 / (replicates + 1)


def test_a_paired_ratio_divides_by_what_there_was_to_find() -> None:
    top, labels, propensity = rows_of(80)
    other = other_top(top, 3)
    q = 1 / propensity
    x, x0 = (np.array([labels[i, t[0]] * q[t[0]] for i, t in enumerate(each.labels)])
             for each in (other, top))  # fmt: skip
    y = (labels * q).max(axis=1)
    found = compare({"a": top, "b": other}, labels, propensity, metrics=["PSP@1"], replicates=400,
                    seed=2, confidence=0.8)["b"]["PSP@1", "normalized"]  # fmt: skip
    d = x - x0
    value = d.sum() / y.sum()
    assert found.value == pytest.approx(value)
    residual = d - value * y
    error = math.sqrt(residual @ residual * 80 / 79) / y.sum()
    assert found.standard_error == pytest.approx(error)
    counts = intervals.resampling_counts(80, 400, seed=2)
    ends = intervals.percentile((counts @ d) / (counts @ y), 0.8)
    assert found.interval == pytest.approx(ends)
    assert found.details["values"] == pytest.approx([x.sum() / y.sum(), x0.sum() / y.sum()])


def test_a_comparison_where_nothing_can_be_found() -> None:
    tops = {"a": one_top([[0]] * 3), "b": one_top([[1]] * 3)}
    for labels in (np.zeros((3, 2)), np.eye(3, 2) * [1, 0]):
        each = compare(tops, labels, [0.5, 0.5], metrics=["PSP@1"])["b"]["PSP@1", "normalized"]
        assert each.value == -labels.sum()
        assert each.interval == (-labels.sum(), 0)


def test_tempered_systems_are_compared_at_the_same_tau() -> None:
    top, labels, propensity = rows_of(300)
    tops = {"a": top, "b": other_top(top, 2)}
    asked: dict[str, Any] = {"metrics": ["P@1"], "estimators": ["tempered"]}
    tau = evaluate(top, labels, propensity, **asked)["P@1", "tempered"].details["tau"]
    free = compare(tops, labels, propensity, **asked)
    assert same(free, compare(tops, labels, propensity, **asked, tau=tau))


@pytest.mark.parametrize("n", [7, 20, 130])
def test_deconvolved_differences_by_leaving_out_every_twentieth_row(n: int) -> None:
    rng = np.random.default_rng(n)
    true = rng.random((n, L)) < np.r_[np.full(n // 2, 0.15), np.full(n - n // 2, 0.6)][:, None]
    labels, p = (true & (rng.random((n, L)) < 0.9)).astype(int), np.full(L, 0.9)
    tops = {name: TopK.from_scores(true + s * rng.random((n, L)), 2)
            for name, s in (("a", 1.2), ("b", 2.5))}  # fmt: skip

    def value(keep: np.ndarray) -> float:
        a, b = (one(TopK(t.labels[keep], t.scores[keep]), labels[keep], p, "R@2", "deconvolved")
                for t in tops.values())  # fmt: skip
        return b.value - a.value

    found = compare(tops, labels, p, metrics=["R@2"], estimators=["deconvolved"],
                    confidence=0.9)["b"]["R@2", "deconvolved"]  # fmt: skip
    folds = min(20, n)
    left = np.array([value(np.arange(n) % folds != fold) for fold in range(folds)])
    if np.isnan(left).any():
        left = left[:0]
    assert left.size == folds
    error = math.sqrt((folds - 1) / folds * ((left - left.mean()) ** 2).sum())
    assert found.value == pytest.approx(value(np.arange(n) >= 0), rel=1e-9)
    assert found.standard_error == pytest.approx(error, rel=1e-6)
    half = student.ppf(0.95, folds - 1) * error
    assert found.interval == pytest.approx((found.value - half, found.value + half), rel=1e-6)
    p_value = 2 * student.sf(abs(found.value) / error, folds - 1)
    assert found.details["p_value"] == pytest.approx(p_value, rel=1e-6)


def test_a_difference_that_the_data_refuse_says_why() -> None:
    """Every row has exactly two labels: impossible if three in four went missing at random."""
    labels = np.tile([1, 1, 0, 0], (50, 1))
    tops = {"a": one_top([[0, 2]] * 50), "b": one_top([[2, 3]] * 50)}
    found = compare(tops, labels, [0.25] * 4, metrics=["R@2"], estimators=["deconvolved"])
    each = found["b"]["R@2", "deconvolved"]
    assert math.isnan(each.value)
    assert each.verdict.startswith("unusable: the observed labels cannot come from")
    assert json.loads(found.to("json"))[0]["value"] is None


def test_words_of_a_comparison() -> None:
    labels = np.eye(30, 40, dtype=int)
    good = TopK.from_scores(labels + 0.0, 2)
    bad = TopK.from_scores(np.roll(labels, 1, axis=1) + 0.0, 2)
    for metric in ("P@1", "Kendall-tau@2"):
        for first, word in ((bad, "better"), (good, "worse")):
            second = good if first is bad else bad
            each = compare({"x": first, "y": second}, labels, metrics=[metric])
            assert each["y"][metric, "vanilla"].verdict.startswith(f"y is {word} than x (p = 0.00")
    half = TopK(np.r_[bad.labels[:15], good.labels[15:]], good.scores)
    for metric in ("P@1", "Kendall-tau@2"):
        for first, second, word in ((half, good, "better"), (good, half, "worse")):
            each = compare({"x": first, "y": second}, labels, metrics=[metric])["y"]
            assert 0 < abs(each[metric, "vanilla"].value) < 1
            assert each[metric, "vanilla"].verdict.startswith(f"y is {word} than x")
    once = TopK(np.r_[bad.labels[:1], good.labels[1:]], good.scores)
    for first, second in ((good, good), (once, good), (good, once)):
        each = compare({"x": first, "y": second}, labels, metrics=["P@1"])["y"]["P@1", "vanilla"]
        assert each.verdict == "no clear difference (p = 1)"


def test_comparison_defaults() -> None:
    top, labels, propensity = rows_of(60)
    tops = {"a": top, "b": other_top(top, 2)}
    told = compare(tops, labels, propensity, metrics=["P@1"], estimators=["vanilla"],
                   confidence=0.95, replicates=2000, seed=0)  # fmt: skip
    assert same(compare(tops, labels, propensity, metrics=["P@1"]), told)


def test_doubts_about_propensities_only_raise_p_values() -> None:
    top, labels, p = rows_of(150)
    tops = {"a": top, "b": other_top(top, 3)}
    estimate = PropensityEstimate(p, p, p, 0.95, "test", p, Spread(p))
    asked: dict[str, Any] = {
        "metrics": ["P@1", "Kendall-tau@3"], "estimators": ["vanilla", "unbiased"],
        "replicates": 200, "confidence": 0.5,
    }  # fmt: skip
    plain = compare(tops, labels, p, **asked)["b"]
    doubted = compare(tops, labels, estimate, **asked, draws=8)["b"]
    for before, after in zip(plain, doubted, strict=True):
        if after.estimator == "vanilla":
            assert after == before
            continue
        least = before.details["p_value"]
        wanted = max(least, 2 * norm.sf(abs(after.value) / after.standard_error))
        assert after.details["p_value"] == pytest.approx(wanted)
        assert after.verdict.endswith(f"(p = {wanted:.2g})")
        word = "better" if (after.value > 0) == (after.metric == "P@1") else "worse"
        clear = not after.interval[0] <= 0 <= after.interval[1]
        said = f"b is {word} than a" if clear else "no clear difference"
        assert after.verdict.startswith(said)
    again = compare(tops, labels, estimate, **asked)["b"]["P@1", "unbiased"]
    hundred = compare(tops, labels, estimate, **asked, draws=100)["b"]["P@1", "unbiased"]
    assert again == hundred


def test_comparison_takes_propensities_per_entry() -> None:
    top, labels, propensity = rows_of(60)
    tops = {"a": top, "b": other_top(top, 2)}
    asked: dict[str, Any] = {"metrics": ["R@2"], "estimators": ["unbiased", "deconvolved"]}
    per_label = compare(tops, labels, propensity, **asked)
    entries = sp.csr_array(labels * propensity)
    assert same(compare(tops, labels, entries, **asked), per_label)


def test_comparison_refuses_lists_of_other_lengths_and_single_rows() -> None:
    top, labels, propensity = rows_of(60)
    short = TopK(top.labels[:, :2], top.scores[:, :2])
    with pytest.raises(ValueError, match=r"b has 2 predictions a row and a 3; .* like MRR@2"):
        compare({"a": top, "b": short}, labels, metrics=["MRR", "P@1", "P@2"])
    found = compare({"a": top, "b": short}, labels, metrics=["MRR@2", "P@1", "P@2"])
    assert all(each.value == 0 for each in found["b"])
    few: Any = {name: part(t, slice(1)) for name, t in (("a", top), ("b", short))}
    with pytest.raises(ValueError, match="a comparison needs at least two rows; got 1"):
        compare(few, labels[:1], metrics=["P@1"])
    two: Any = {name: part(t, slice(2)) for name, t in (("a", top), ("b", short))}
    assert compare(two, labels[:2], metrics=["P@1"])["b"]["P@1", "vanilla"].rows == 2
    for metric, estimator in (("coverage@1", "vanilla"), ("P@1", "filtered")):
        with pytest.raises(ValueError, match=f"{metric} {estimator} has no value per row"):
            compare({"a": top, "b": top}, labels, propensity, metrics=[metric],
                    estimators=[estimator])  # fmt: skip


# --- tables -------------------------------------------------------------------------------------

ONE = Estimate("P@1", "vanilla", 0.5, 0.1, (0.3, 0.7), 25.0, 0.04, 50, "trust")


def judged(value: float, low: float, high: float, **changes: Any) -> str:
    usual: dict[str, Any] = {"rows": 1000, "heaviest": (16, 0.05), "at_most": 1.0, "caution": "",
                             "advice": ""}  # fmt: skip
    return verdict(value, (low, high), **(usual | changes)).partition(":")[0]


def test_verdicts_change_where_they_say() -> None:
    """A handful: fewer than one in 50 with half the sum. Wide: over a tenth, or half the value."""
    assert judged(0.5, 0.45, 0.55, heaviest=(19, 0.5)) == "unusable"
    assert judged(0.5, 0.45, 0.55, heaviest=(20, 0.5)) == "trust"
    assert judged(0.5, 0.45, 0.55, heaviest=(1, 0.5), rows=51) == "unusable"
    assert judged(0.5, 0.45, 0.55, heaviest=(19, 0.4999)) == "trust"
    assert judged(0.5, 0.4, 0.6) == "trust"
    assert judged(0.5, 0.3999, 0.6) == "wide"
    assert judged(0.125, 0.0625, 0.1875) == "trust"
    assert judged(0.125, 0.0624, 0.1876) == judged(-0.125, -0.1876, 0.0) == "wide"
    assert judged(0.0, 0.0, 0.0) == "trust"
    assert judged(0.5, 0.001, 1.0) == "wide"
    assert judged(0.5, 0.0, 1.0) == "unusable"
    assert (judged(1.1, 1.0, 1.19), judged(-0.05, -0.1, 0.0)) == ("trust", "wide")
    assert judged(1.1, 1.001, 1.19) == judged(-0.05, -0.1, -0.001) == "unusable"
    assert judged(math.nan, math.nan, math.nan) == "unusable"


def test_verdicts_of_metrics_without_a_largest_value_are_relative() -> None:
    assert judged(50.0, 46.0, 54.0, at_most=None) == "trust"
    assert judged(50.0, 44.0, 56.0, at_most=None) == "wide"
    assert judged(50.0, -60.0, 160.0, at_most=None) == "wide"
    assert judged(0.0, 0.0, 0.0, at_most=None) == "trust"
    assert judged(0.0, -0.05, 0.05, at_most=None) == "wide"
    assert judged(0.25, 0.125, 0.375) == judged(0.01, -0.0001, 0.0201) == "wide"
    said = verdict(0.5, (0.3, 0.7), rows=9, heaviest=(9, 0.1), at_most=1.0, caution="x", advice="")
    assert said == "wide: ± 0.2000; x"
    assert judged(2.0, 1.9, 2.1, at_most=3.0) == "trust"
    assert judged(5.0, 4.0, 6.0, at_most=10.0) == "trust"
    assert judged(2.0, 1.6, 2.4, at_most=3.0) == "wide"
    assert judged(2.0, 0.4, 3.6, at_most=3.0) == "unusable"


def test_text_is_the_grid_and_then_what_to_be_careful_about() -> None:
    doubtful = replace(ONE, metric="R@10", estimator="bound", verdict="wide: ± 0.2")
    assert str(Table([ONE, doubtful])) == (
        "metric  vanilla                  bound\n"
        "P@1     0.5000 [0.3000, 0.7000]\n"
        "R@10                             0.5000 [0.3000, 0.7000]\n"
        "\n"
        "R@10 bound: wide: ± 0.2"
    )
    tables = Tables("system", {"ours": Table([ONE]), "theirs": Table([doubtful])})
    assert str(tables) == (
        "metric  estimator  ours                     theirs\n"
        "P@1     vanilla    0.5000 [0.3000, 0.7000]\n"
        "R@10    bound                               0.5000 [0.3000, 0.7000]\n"
        "\n"
        "theirs: R@10 bound: wide: ± 0.2"
    )
    assert len(Table([ONE, doubtful])) == 2
    assert len(tables) == 2


def test_numbers_are_short() -> None:
    large = replace(ONE, value=9999.0, interval=(-9999.99, 10_000.0))
    assert str(large) == "9999.0000 [-9999.9900, 1e+04]"


def test_markdown_and_latex_hold_half_the_interval() -> None:
    both = Table([ONE, replace(ONE, estimator="self_normalized", interval=(0.4, 0.8))])
    assert both.to("markdown") == (
        "| metric | vanilla | self_normalized |\n| --- | --- | --- |\n"
        "| P@1 | 0.5000 ± 0.2000 | 0.5000 ± 0.2000 |"
    )
    assert both.to("latex") == (
        "\\begin{tabular}{lrr}\nmetric & vanilla & self\\_normalized \\\\\n\\hline\n"
        "P@1 & $0.5000 \\pm 0.2000$ & $0.5000 \\pm 0.2000$ \\\\\n\\end{tabular}"
    )


def test_a_name_that_looks_like_a_number_is_no_markup() -> None:
    tables = Tables("system", {r"$\input{x}$": Table([ONE])})
    assert r"\$\textbackslash{}input\{x\}\$" in tables.to("latex")


def test_what_is_not_finite_is_null_however_deep() -> None:
    deep = replace(
        ONE, value=math.nan, interval=(-math.inf, math.inf),
        details={"rows_only": [-math.inf, 0.5], "more": {"p": (math.nan, 1)}, "word": "x"},
    )  # fmt: skip

    def refuse(word: str) -> None:
        raise AssertionError(word)

    wanted = {"rows_only": [None, 0.5], "more": {"p": [None, 1]}, "word": "x"}
    (row,) = json.loads(Table([deep]).to("json"), parse_constant=refuse)
    assert (row["value"], row["low"], row["high"]) == (None, None, None)
    assert row["details"] == wanted
    (line,) = csv.DictReader(Table([deep]).to("csv").splitlines())
    assert json.loads(line["details"], parse_constant=refuse) == wanted


@pytest.mark.parametrize("empty", [Table(()), Tables("system", {})])
def test_tables_without_estimates_are_written_all_the_same(empty: Any) -> None:
    assert empty.to("text").startswith("metric")
    assert empty.to("json") == "[]"
    assert empty.to("csv").strip() == ""
    assert empty.to("markdown").startswith("| metric |")
    assert "metric" in empty.to("latex")
    with pytest.raises(ValueError, match="unknown format 'html'; use one of"):
        empty.to("html")


# --- charts -------------------------------------------------------------------------------------


def drawn(metric: str, value: float, estimator: str = "vanilla", **more: Any) -> dict[str, Any]:
    return {"metric": metric, "estimator": estimator, "value": value, "low": value, "high": value,
            **more}  # fmt: skip


def test_axes_run_to_one_or_as_far_as_estimates_go() -> None:
    def ends(*values: float | None) -> tuple[Any, Any]:
        axis = charts.scale(values)
        return axis.low, axis.high

    assert ends(0.0) == ends(0.2, None, math.nan) == ends(1.0, -3.0) == (0, 1)
    assert ends(1.001, 0.4) == ends(1.5) == ends(1.2, 40.0) == (0, 1.5)
    assert ends(1.501) == ends(-0.1) == ends() == ends(None) == (None, None)


def test_metrics_with_one_estimate_give_way_to_those_with_several() -> None:
    rows = [drawn("P@1", 0.5), drawn("R@1", 0.4), drawn("R@1", 1.2, "unbiased")]
    found = charts.estimates(rows)
    assert [chart.title for chart in found.charts] == ["R@1"]
    assert (found.charts[0].kind, found.charts[0].y.high, found.columns) == ("dots", 1.5, 3)
    assert [series.x for series in found.charts[0].series] == [("vanilla",), ("unbiased",)]
    assert [chart.title for chart in charts.estimates(rows[:2]).charts] == ["P@1", "R@1"]


def test_systems_by_name_and_powers_by_number() -> None:
    rows = [drawn(f"P@{k}", 0.5, propensity=f"γ = {g}") for k in (1, 3, 5, 7) for g in (0.5, 2)]
    found = charts.along(rows, rules={"P@3": 0.6})
    assert found.columns == 3
    assert [chart.series[0].x for chart in found.charts] == [(0.5, 2.0)] * 4
    assert [[rule.at for rule in chart.rules] for chart in found.charts] == [[], [0.6], [], []]
    assert all((chart.kind, chart.y.high) == ("lines", 1) for chart in found.charts)
    mixed = charts.along([*rows[:2], drawn("P@1", 0.5, propensity="jain")])
    assert (mixed.columns, mixed.charts[0].kind) == (1, "dots")
    assert mixed.charts[0].series[0].x == ("γ = 0.5", "γ = 2", "jain")


# --- shards and scorers -------------------------------------------------------------------------


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


class Spread:
    """Draws some way around a vector."""

    def __init__(self, center: np.ndarray) -> None:
        self.center = center

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return np.clip(self.center * rng.uniform(0.7, 1.3, (size, 1)), 0.05, 1)


@pytest.mark.parametrize("interval", ["normal", "percentile"])
def test_shards_share_the_doubts_about_propensities(interval: str) -> None:
    """Errors widen by the same draws, and what needs independence says so, as in one call."""
    shards, top, labels, p = sharded(60, 20)
    estimate = PropensityEstimate(p, p, p, 0.95, "test", p, Spread(p), effect=3.0)
    asked: dict[str, Any] = {
        "metrics": ["R@3", "P@1"], "estimators": ["vanilla", "unbiased"], "interval": interval,
        "confidence": 0.8, "seed": 5, "draws": 4, "replicates": 50,
    }  # fmt: skip
    expected = evaluate(top, labels, estimate, **asked)
    assert expected["R@3", "unbiased"].verdict.startswith("doubtful: labels of a row")
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
