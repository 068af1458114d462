"""How far numbers move: ends against enumeration of all vertices, and rows against sums."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.evaluations import L, part, rows_of
from unmask import TopK
from unmask._kernels.deconvolution import STRATA
from unmask.metrics import Evaluator, compare, evaluate
from unmask.metrics.thinning import occupied_cells
from unmask.metrics.vary import EFFORTS, GAMMAS, MOST, GammaRange, Sensitivity

LIVE = L - 1  # the last label is never seen


def vertices(p: np.ndarray, gamma: float) -> Any:
    """All vectors with every label that is seen at p/Γ or min(1, pΓ)."""
    for ends in product((1 / gamma, gamma), repeat=LIVE):
        yield np.minimum(1.0, p * np.array([*ends, 1.0]))


def sensitivity_of(table: Any, metric: str, estimator: str = "unbiased") -> Sensitivity:
    moved = table[metric, estimator].sensitivity
    assert moved is not None
    return moved


@pytest.mark.parametrize("metric", ["P@1", "P@3", "DCG@3", "macro-P@3", "macro-F1@3"])
def test_ends_of_linear_and_macro_metrics_are_those_of_all_vertices(metric: str) -> None:
    top, labels, p = rows_of(40)
    moved = sensitivity_of(
        evaluate(top, labels, p, metrics=[metric], estimators=["unbiased"]), metric
    )
    assert moved.exact
    assert [each.gamma for each in moved.gammas] == list(GAMMAS)
    each = moved.gammas[1]
    values = [
        Evaluator(q, metrics=[metric], estimators=["unbiased"]).update(top, labels)
        .unjudged()[metric, "unbiased"].value
        for q in vertices(p, each.gamma)
    ]  # fmt: skip
    assert math.isclose(each.low, min(values), rel_tol=1e-12)
    assert math.isclose(each.high, max(values), rel_tol=1e-12)


@pytest.mark.parametrize("metric", ["weighted-P@1", "weighted-F1@1"])
def test_weighted_metrics_move_better_labels_against_worse_ones(metric: str) -> None:
    """Label 0 is predicted for all rows, label 1 for none: the ends are vertices of both labels."""
    top, p = TopK(np.zeros((40, 1), int), np.ones((40, 1))), np.array([0.6, 0.7])
    labels = np.repeat([[1, 0], [0, 1], [1, 1]], [15, 15, 10], axis=0)

    def value(*factors: float) -> float:
        q = np.minimum(1.0, p * factors)
        read = Evaluator(q, metrics=[metric], estimators=["unbiased"]).update(top, labels)
        return read.unjudged()[metric, "unbiased"].value

    moved = sensitivity_of(
        evaluate(top, labels, p, metrics=[metric], estimators=["unbiased"]), metric
    )
    assert not moved.exact
    for each in moved.gammas:
        low, high = value(each.gamma, 1 / each.gamma), value(1 / each.gamma, each.gamma)
        assert (each.low, each.high) == pytest.approx((low, high), rel=1e-12)
        assert low < min(value(each.gamma, each.gamma), value(1 / each.gamma, 1 / each.gamma))


def test_other_unbiased_metrics_move_hits_against_misses() -> None:
    """Entry by entry, and so at least as far as any vector of labels."""
    top, labels, p = rows_of(40)
    moved = sensitivity_of(
        evaluate(top, labels, p, metrics=["R@2"], estimators=["unbiased"]), "R@2"
    )
    hits = np.zeros_like(labels)
    np.put_along_axis(hits, top.labels[:, :2], 1, axis=1)
    for each in moved.gammas:
        values = [moved.value]
        for up in (each.gamma, 1 / each.gamma):
            q = np.minimum(1.0, p / np.where(hits, up, 1 / up))
            entries = sp.csr_array(np.where(labels, q, 0.0))
            again = evaluate(top, labels, entries, metrics=["R@2"], estimators=["unbiased"])
            values.append(again["R@2", "unbiased"].value)
        assert math.isclose(each.low, min(values), rel_tol=1e-12)
        assert math.isclose(each.high, max(values), rel_tol=1e-12)


def test_scaled_counts_are_those_of_scaled_propensities() -> None:
    """Exactly, as long as no propensity reaches 1."""
    top, labels, p = rows_of(300)
    p = p / 3

    def counts(q: np.ndarray) -> Any:
        evaluator = Evaluator(q, metrics=["R@3"], estimators=["deconvolved"])
        return evaluator.update(top, labels).summary().fits[3].counts

    for factor in (1.25, 0.5):
        both = counts(p).scaled(hits=factor, misses=factor), counts(p / factor)
        made, direct = (occupied_cells(each, tuple(range(STRATA))) for each in both)
        for one, other in zip((*made[0], made[1]), (*direct[0], direct[1]), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
    least = counts(p).scaled(hits=1e-9, misses=1e-9).occupied
    np.testing.assert_allclose(least.hits.sum(axis=0), least.s * least.rows)
    np.testing.assert_allclose(least.misses, least.t * least.rows)


def test_deconvolved_estimates_move_with_propensities_and_row_effort() -> None:
    top, labels, p = rows_of(2000)
    table = evaluate(top, labels, p, metrics=["R@3"], estimators=["deconvolved"])
    moved = sensitivity_of(table, "R@3", "deconvolved")
    near, far = moved.gammas
    assert far.low < near.low < moved.value < near.high
    assert math.isnan(far.high)  # twice as high they contradict these labels
    assert moved.high == near.high
    assert [each.correlation for each in moved.efforts] == list(EFFORTS)
    assert math.isclose(moved.efforts[0].value, moved.value, rel_tol=1e-9)
    assert moved.low == min(far.low, *(each.value for each in moved.efforts))


def test_batches_and_merged_evaluators_move_alike_and_keep_what_they_said() -> None:
    top, labels, p = rows_of(600)
    asked: dict[str, Any] = {
        "metrics": ["P@3", "R@3", "macro-P@3"], "estimators": ["unbiased", "deconvolved"]
    }  # fmt: skip
    whole = evaluate(top, labels, p, **asked)
    first = Evaluator(p, **asked).update(part(top, slice(300)), labels[:300])
    half = first.compute()
    merged = first.merge(Evaluator(p, **asked).update(part(top, slice(300, None)), labels[300:]))
    alone = evaluate(part(top, slice(300)), labels[:300], p, **asked)
    for metric, estimator in (
        ("P@3", "unbiased"),
        ("R@3", "deconvolved"),
        ("macro-P@3", "unbiased"),
    ):
        cell = metric, estimator
        assert merged.compute()[cell].sensitivity == whole[cell].sensitivity
        assert half[cell].sensitivity == alone[cell].sensitivity
    assert merged.compute()["R@3", "unbiased"].sensitivity is None  # needs the rows
    assert whole["R@3", "unbiased"].sensitivity is not None


def test_numbers_that_claim_nothing_of_the_truth_do_not_move() -> None:
    top, labels, p = rows_of(60)
    table = evaluate(top, labels, p, metrics=["P@3", "PSP@3"],
                     estimators=["vanilla", "clipped", "normalized"])  # fmt: skip
    assert all(each.sensitivity is None for each in table)
    complete = evaluate(top, labels, np.ones(L), metrics=["P@3"], estimators=["unbiased"])
    assert complete["P@3", "unbiased"].sensitivity is None


def systems() -> tuple[dict[str, TopK], np.ndarray, np.ndarray]:
    """One finds labels of low propensity, the other of high; close under p."""
    rng = np.random.default_rng(1)
    true = rng.random((400, L)) < 0.35
    true[:, -1] = False
    p = np.linspace(0.3, 0.9, L)
    rare, common = (true * w + 0.5 * rng.random((400, L)) for w in (1.5 - p, 0.75 + p))
    rare[:, -1] = common[:, -1] = -1
    labels = (true & (rng.random((400, L)) < p)).astype(int)
    return {"common": TopK.from_scores(common, 2), "rare": TopK.from_scores(rare, 2)}, labels, p


def test_the_winner_changes_where_the_worst_vertex_says() -> None:
    tops, labels, p = systems()
    asked: dict[str, Any] = {"metrics": ["P@2"], "estimators": ["unbiased"], "replicates": 50}
    each = compare(tops, labels, p, **asked)["rare"]["P@2", "unbiased"]
    moved = each.sensitivity
    assert moved is not None
    assert moved.exact
    assert moved.turns_at is not None
    assert 1 < moved.turns_at < MOST

    def worst(gamma: float) -> float:
        values = []
        for q in vertices(p, gamma):
            pair = [
                Evaluator(q, metrics=["P@2"], estimators=["unbiased"]).update(top, labels)
                .unjudged()["P@2", "unbiased"].value
                for top in tops.values()
            ]  # fmt: skip
            values.append((pair[1] - pair[0]) * math.copysign(1, each.value))
        return min(values)

    assert worst(moved.turns_at * 1.001) <= 0 < worst(moved.turns_at * 0.999)
    ends = [worst(GAMMAS[0]) * math.copysign(1, each.value)]
    assert any(math.isclose(end, ends[0], rel_tol=1e-9)
               for end in (moved.gammas[0].low, moved.gammas[0].high))  # fmt: skip
    assert "the winner changes where propensities are off by" in moved.sentence


def test_a_clear_winner_stays_and_equal_systems_have_none() -> None:
    top, labels, p = rows_of(200)
    worse = TopK(np.roll(top.labels, 1, axis=0), top.scores)
    asked: dict[str, Any] = {"metrics": ["P@3"], "estimators": ["deconvolved"]}
    clear = compare({"a": top, "b": worse}, labels, p, **asked)["b"]["P@3", "deconvolved"]
    assert clear.sensitivity is not None
    assert clear.sensitivity.turns_at is not None
    equal = compare({"a": top, "b": top}, labels, p, metrics=["P@3"], estimators=["unbiased"])
    moved = equal["b"]["P@3", "unbiased"].sensitivity
    assert moved is not None
    assert moved.turns_at is None


def test_what_is_refused_is_said() -> None:
    moved = Sensitivity(0.5, (GammaRange(1.25, 0.4, math.nan),), turns_at=math.inf)
    assert "0.400 to (refused by the data)" in moved.sentence
    assert "stays the same up to a factor of 10" in moved.sentence
    assert (moved.low, moved.high) == (0.4, 0.5)
    assert moved.to_dict()["text"] == str(moved)
