"""Propensities that are hardly numbers: a defined result, or a refusal in our words."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.rankings import LISTED
from unmask import diagnosis, linear, operator, propensity, weights
from unmask.metrics import (
    ESTIMATORS,
    METRICS,
    Evaluator,
    compare,
    contributions,
    evaluate,
    powers,
    ranking,
    sensitivity,
)
from unmask.metrics.claims import Advice, Level, Reason, Verdict
from unmask.models.linear import Shard
from unmask.predictions import TopK

TINY = (1e-12, 1e-20, 1e-80, 1e-160, 1e-300, 5e-324)
N_ROWS, N_LABELS = 60, 12


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def rows() -> tuple[TopK, TopK, sp.csr_array]:
    """Two systems, and labels that are hits of both, of one, of none."""
    random = np.random.default_rng(0)
    labels = sp.csr_array((random.random((N_ROWS, N_LABELS)) < 0.4).astype(np.float32))
    one, two = (random.random((N_ROWS, N_LABELS)).astype(np.float32) for _ in range(2))
    return TopK.from_scores(one, 5), TopK.from_scores(two, 5), labels


def low(tiny: float) -> np.ndarray:
    """Two labels that are hardly ever seen (and yet here they are)."""
    p = np.full(N_LABELS, 0.5)
    p[[2, 5]] = tiny
    return p


def is_told(values: Any, verdict: Verdict) -> bool:
    """Finite numbers within what rows can be summed to, or a refusal."""
    numbers = np.array(values, dtype=float)
    return bool((np.abs(numbers) < 1e141).all()) or (
        bool(np.isnan(numbers).all()) and verdict.level is Level.UNUSABLE
    )


CELLS = [(m, e) for m, about in LISTED.items() for e in about.estimators]


@pytest.mark.parametrize("tiny", TINY)
@pytest.mark.parametrize(("metric", "estimator"), CELLS)
def test_estimates(metric: str, estimator: str, tiny: float) -> None:
    top, other, labels = rows()
    name, p = f"{metric}@5", low(tiny)
    for interval in ("normal", "percentile", "bca"):
        asked = {"metrics": [name], "estimators": [estimator]}
        drawn = {} if interval == "normal" else {"replicates": 20}
        each = evaluate(top, labels, p, **asked, **drawn, interval=interval)[name, estimator]
        assert is_told([each.value, each.standard_error, *each.interval], each.verdict), each
    if METRICS[metric].over == "labels" or estimator == "filtered":
        return
    each = compare({"a": top, "b": other}, labels, p, **asked, replicates=20)["b"][name, estimator]
    assert is_told([each.value, each.standard_error, *each.interval], each.verdict), each
    assert not math.isnan(each.value) or math.isnan(each.details["p_value"])
    for x in contributions(top, labels, p, metrics=[name], estimators=[estimator]).values():
        assert np.isfinite(x).all()


@pytest.mark.parametrize(
    ("metric", "estimator", "lowest"),
    [
        ("P@5", "unbiased", 1e-130),
        ("DCG@5", "unbiased", 1e-130),
        ("P@5", "filtered", 1e-130),
        ("Kendall-tau@5", "unbiased", 1e-60),
        ("PSP@5", "normalized", 1e-60),
        ("macro-P@5", "unbiased", 1e-60),
        ("macro-F1@5", "unbiased", 1e-60),
        ("R@5", "bound", 1e-130),
    ],
)
def test_refused_only_where_numbers_end(metric: str, estimator: str, lowest: float) -> None:
    """Not held at some limit: a number that cannot be summed is none, and the verdict says so."""
    top, other, labels = rows()
    asked = {"metrics": [metric], "estimators": [estimator]}
    told = evaluate(top, labels, low(lowest), **asked)[metric, estimator]
    refused = evaluate(top, labels, low(1e-160), **asked)[metric, estimator]
    assert math.isfinite(told.value)
    assert math.isnan(refused.value)
    assert "propensities are" in str(refused.verdict)
    assert refused.verdict.advice is Advice.RAISE_PROPENSITIES
    if estimator != "filtered" and not metric.startswith("macro"):
        pair = compare({"a": top, "b": other}, labels, low(1e-160), **asked)["b"]
        assert pair[metric, estimator].verdict == refused.verdict
        system = {"a": top, "b": other, "c": top}
        mixed = compare(system, labels, low(1e-160), metrics=[metric], estimators=[estimator])
        assert math.isnan(mixed["c"][metric, estimator].value)


def test_a_comparison_is_refused_where_only_the_new_system_overflows() -> None:
    good, bad = TopK([[0]] * 9, [[1.0]] * 9), TopK([[1]] * 9, [[1.0]] * 9)
    labels, p = [[1, 1]] * 9, [0.5, 1e-150]
    found = compare({"a": good, "b": bad}, labels, p, metrics=["P@1"], estimators=["unbiased"])
    each = found["b"]["P@1", "unbiased"]
    assert math.isnan(each.value)
    assert each.details["values"][1] == 2.0
    assert each.verdict.reason is Reason.OVERFLOW


def test_what_the_filter_leaves_out_may_overflow() -> None:
    top = TopK([[0]] * 99 + [[1]], [[1.0]] * 100)
    labels, p = [[1, 0]] * 50 + [[0, 0]] * 49 + [[0, 1]], [0.5, 1e-200]
    asked = {"metrics": ["P@1"], "estimators": ["unbiased", "filtered"]}
    found = evaluate(top, labels, p, **asked, fraction=0.02)
    assert math.isnan(found["P@1", "unbiased"].value)
    assert found["P@1", "filtered"].value == 2 * 50 / 98


def test_tempering_looks_past_what_overflows() -> None:
    """At τ = 0 even 1e-200 is a plain count; every larger τ overflows and says nothing."""
    top, _, labels = rows()
    asked = {"metrics": ["P@5"], "estimators": ["tempered", "vanilla"]}
    found = evaluate(top, labels, low(1e-200), **asked)
    assert found["P@5", "tempered"].details == {"tau": 0.0}
    assert found["P@5", "tempered"].value == found["P@5", "vanilla"].value


def test_small_labels_survive_beside_huge_ones() -> None:
    """1e20 + 2 − 1e20 is 0 in float64: bounds and pairs must not be made of differences."""
    top, labels = TopK([[0, 1, 2]], [[3.0, 2.0, 1.0]]), [[1, 1, 0, 1]]
    p = [1e-20, 0.5, 0.5, 0.25]
    rows_of = contributions(
        top, labels, p, metrics=["R@2", "F1@2", "Jaccard@1", "Kendall-tau@2"],
        estimators=["bound", "unbiased"],
    )  # fmt: skip
    q = [1 / Fraction(x) for x in p]
    exact = {
        ("R@2", "bound"): q[0] / (1 + q[1] + q[3]) + q[1] / (1 + q[0] + q[3]),
        ("F1@2", "bound"): 2 * q[0] / (3 + q[1] + q[3]) + 2 * q[1] / (3 + q[0] + q[3]),
        ("Jaccard@1", "bound"): q[0] / (1 + q[1] + q[3]),
        ("Kendall-tau@2", "unbiased"): q[1] * (1 - q[0]) + q[3] * (2 - q[0] - q[1]),
    }
    for cell, value in exact.items():
        assert float(rows_of[cell][0]) == pytest.approx(float(value), rel=1e-14)


# --- deconvolution --------------------------------------------------------------------------------


def test_counts_are_refused_before_they_overflow() -> None:
    """Σ 1/p up to 2³⁸ in whole multiples of 2⁻²⁴; the same for shards, in any order."""
    asked = {"metrics": ["P@1"], "estimators": ["deconvolved"]}
    top, labels = TopK([[0]] * 4, [[1.0]] * 4), [[1, 0]] * 4

    def reason(p: float, shards: int) -> Reason:
        whole = Evaluator([p, 0.5], **asked)
        for part in np.array_split(np.arange(4), shards):
            each = Evaluator([p, 0.5], **asked)
            piece = TopK(top.labels[part], top.scores[part])
            whole.merge(each.update(piece, np.array(labels)[part]))
        return whole.compute()["P@1", "deconvolved"].verdict.reason

    for shards in (1, 2, 4):
        assert reason(2.0**-36, shards) is not Reason.PROPENSITIES_TOO_LOW  # 4 · 2³⁶ is the limit
        for p in (2.0**-36 * (1 - 1e-9), 2.0**-38, 1e-19, 1e-160, 5e-324):
            assert reason(p, shards) is Reason.PROPENSITIES_TOO_LOW, p


# --- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tiny", TINY)
@pytest.mark.parametrize(
    ("correction", "normalized"),
    [(name, form) for name in weights.CORRECTIONS for form in (False, True)
     if form or name != "empirical_bayes"],
)  # fmt: skip
def test_weights(correction: str, normalized: bool, tiny: float) -> None:
    """Finite; what float64 cannot hold is its largest number, and a warning of ours says so."""
    _, _, labels = rows()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = weights.CORRECTIONS[correction](labels, low(tiny), normalized=normalized)
    assert np.isfinite(found.pos.data).all()
    assert np.isfinite(found.cut.data).all()
    assert all("exceed float64" in str(each.message) for each in told)
    assert bool(told) == (np.abs(found.pos.data).max() == np.finfo(np.float64).max)


@pytest.mark.parametrize("tiny", TINY)
def test_count_distribution(tiny: float) -> None:
    _, _, labels = rows()
    found = weights.count_distribution(labels, low(tiny))
    for value in asdict(found).values():
        assert np.isfinite(value).all()
    exact = labels.nnz / sum(1 / Fraction(max(x, 2.3e-308)) for x in low(tiny)[labels.indices])
    assert found.propensity == pytest.approx(float(exact), rel=0.1 if tiny < 1e-307 else 1e-12)


# --- everything else ------------------------------------------------------------------------------


@pytest.mark.parametrize("tiny", TINY)
def test_diagnosis(tiny: float) -> None:
    _, _, labels = rows()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the exact normalised weights of row")
        found = diagnosis.diagnose(labels, low(tiny))
    figures = found.usability
    numbers = [*figures["standard_error"].values(), *figures["effective_sample_size"].values()]
    assert np.isfinite([*numbers, *figures["largest_weight"].values()]).all()
    assert found.severity == "error"


def test_powers_that_are_zero_are_refused() -> None:
    assert powers([1e-160], [1.9])["γ = 1.9"].values[0] > 0
    with pytest.raises(ValueError, match=r"p\^2.5 is 0 .* p = 1e-160 at label 1; leave that γ out"):
        powers([0.5, 1e-160], [1, 2.5])
    top, other, labels = rows()
    for models in (powers(low(1e-160), [0, 1, 2]), {"tiny": low(5e-324)}):
        asked = {"metrics": ["R@5"], "estimators": ["unbiased"]}
        assert len(sensitivity(top, labels, models, **asked)) == len(models)
        told = ranking({"a": top, "b": other}, labels, models, metric="R@5", replicates=20)
        assert "nan" not in told.statement


def test_marginals() -> None:
    found = propensity.from_marginals([[1, 0], [0, 1]] * 9, [1e-100, 0.5], true_n=10)
    assert np.isfinite([*found.value, *found.low, *found.high]).all()
    assert np.isfinite(found.draw(seed=0, size=5)).all()
    with pytest.raises(ValueError, match="not below 1e-100; got 1e-160 at label 0"):
        propensity.from_marginals([[1, 0], [0, 1]], [1e-160, 0.5])


def test_the_operator_refuses_what_float64_cannot_hold() -> None:
    def size(sets: Any, _: int) -> Any:
        return sets.sum(axis=1)

    assert operator.unbiased(size, [[1]], [1e-160]).value[0] == pytest.approx(1e160)
    for p in ([1e-160, 1e-160], [5e-324, 1e-10]):
        with pytest.raises(ValueError, match="exceeds float64 for the 2 labels of row 0: raise"):
            operator.unbiased(size, [[1, 1]], p)


def test_ranking_by_odds_refuses_what_float32_cannot_hold() -> None:
    shard = Shard(np.eye(2, dtype=np.float32), np.zeros(2, np.float32))
    model = linear.LinearModel((shard,), "logistic")
    asked = {"rank_by": "probability/propensity"}
    found = linear.predict_top(model, [[1.0, 0.0]], 2, **asked, propensity=[0.5, 1e-30])
    assert found.labels.tolist() == [[1, 0]]
    with pytest.raises(ValueError, match="at least 1e-30; got 1e-160 at label 1"):
        linear.predict_top(model, [[1.0, 0.0]], 2, **asked, propensity=[0.5, 1e-160])


def test_every_estimator_was_tried() -> None:
    assert {estimator for _, estimator in CELLS} == {*ESTIMATORS}
