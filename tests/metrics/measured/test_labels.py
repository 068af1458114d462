"""Precision and recall per label: exact when all is judged, and the ends hold when some is.

The rate of wrong labels: weighted, with the ends of as many draws as rows are worth.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm

from unmask import audit, data
from unmask.data.judgements import Design, Judgements, Sample, Stratum, WithinRows
from unmask.metrics.intervals import wilson
from unmask.metrics.measured import estimates
from unmask.metrics.measured.labels import _rates, label_estimates, spurious
from unmask.predictions import TopK

TRUE = data.synthetic.planted(600, n_labels=12, seed=1).labels
OBSERVED = data.hide(TRUE, np.full(12, 0.6), seed=2)
SCORES = np.random.default_rng(3).standard_normal(TRUE.shape) + 2 * TRUE.toarray()
TOP = TopK.from_scores(SCORES, 6)


def exact() -> dict[str, np.ndarray]:
    hit = np.zeros(TRUE.shape)
    np.put_along_axis(hit, TOP.labels[:, :3], 1, axis=1)
    both = (hit * TRUE.toarray()).sum(axis=0)
    return {"precision": both / hit.sum(axis=0), "recall": both / TRUE.toarray().sum(axis=0)}


def judged(**options: Any) -> audit.Judgements:
    plan = audit.plan(TOP, OBSERVED, seed=1, expect=False, **options)
    if plan.labels is None:
        return audit.from_rows(plan, TRUE[plan.rows])
    return audit.from_pairs(plan, np.asarray(TRUE[plan.rows, plan.labels]).ravel())


@pytest.mark.parametrize(
    "options",
    [
        {"budget": 600},
        {"budget": 10**6, "unit": "pairs", "metrics": ["micro-R@3"]},
        {"budget": 10**6, "unit": "pairs", "metrics": ["R@3"]},
    ],
)
def test_judging_everything_is_exact(options: dict[str, Any]) -> None:
    made = audit.label_estimates(TOP, OBSERVED, judged(**options), k=3)
    for name, values in exact().items():
        np.testing.assert_allclose(made[name].value, values, atol=1e-9)
    precision = made["precision"]
    np.testing.assert_allclose(precision.low, precision.high, atol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"budget": 150},
        {"budget": 900, "unit": "pairs", "metrics": ["P@3", "micro-R@3"]},
        {"budget": 900, "unit": "pairs", "metrics": ["R@3"], "head": 4},
    ],
)
def test_intervals_hold_most_labels(options: dict[str, Any]) -> None:
    made = audit.label_estimates(TOP, OBSERVED, judged(**options), k=3)
    for name, values in exact().items():
        inside = (made[name].low <= values + 1e-9) & (values - 1e-9 <= made[name].high)
        assert inside.mean() >= 0.75, name


def test_recall_needs_pairs_outside_the_predictions() -> None:
    made = audit.label_estimates(
        TOP, OBSERVED, judged(budget=300, unit="pairs", metrics=["P@3"]), k=3
    )
    assert set(made) == {"precision"}


def test_ends_are_those_of_as_many_draws_as_the_weights_are_worth() -> None:
    """Label 0: a heavy entry is the only yes; label 1: everything was judged; label 2: nothing."""
    label = np.r_[np.zeros(13, int), 1, 1]
    weight = np.r_[8.0, np.full(12, 2.0), 1, 1]
    yes = np.r_[1.0, np.zeros(12), 1, 0]
    rates = _rates(label, weight, yes, 3, 0.9)
    mine, said = weight[:13], yes[:13]
    value = float(mine @ said / mine.sum())
    spread = float((mine * (mine - 1) * (said - value) ** 2).sum() / mine.sum() ** 2)
    plain = float(mine.sum() ** 2 / (mine * (mine - 1)).sum())
    draws = value * (1 - value) / spread
    assert draws < plain  # the weights go with the answers
    ends = [float(end) for end in wilson(value, draws, norm.ppf(0.95))]
    assert (rates.low[0], rates.value[0], rates.high[0]) == pytest.approx((ends[0], value, ends[1]))
    assert (rates.low[1], rates.value[1], rates.high[1]) == (0.5, 0.5, 0.5)
    assert (rates.low[2], rates.high[2]) == (0, 1)
    assert np.isnan(rates.value[2])
    assert rates.judged.tolist() == [13, 2, 0]
    agreeing = _rates(label, weight, np.ones(15), 3, 0.9)  # all yes: no spread
    ends = [float(end) for end in wilson(1.0, plain, norm.ppf(0.95))]
    assert (agreeing.low[0], agreeing.high[0]) == pytest.approx(ends)


def test_the_run_of_judged_rows_counts_those_without_labels() -> None:
    labels = TRUE.copy()
    empty = int((labels.sum(axis=1) == 0).sum())
    run = estimates.run_of_audit(labels, 0.9)
    assert (run.rows, run.empty_rows, run.confidence) == (600, empty, 0.9)


LISTED = TopK([[0, 1, 2], [0, 2, 1], [1, 0, 2], [0, 1, 2]], [[0.9, 0.5, 0.1]] * 4)
SHOWN = np.array([[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1]])


def test_scattered_pairs_are_added_to_predictions_that_are_known() -> None:
    """Of 4, 3 and 1 predictions, 1, 1 and 0 are observed; of the others 4 of 6 were judged."""
    strata = Stratum("top", 6, 4), Stratum("far", 3, 1)
    rows, label, of = np.array([[1, 2, 0, 1, 1], [0, 0, 1, 2, 1], [0, 0, 0, 0, 1]])
    sample = Sample(Design.PAIRS, (4, 3), strata, rows, label, of, k=2)
    made = label_estimates(LISTED, SHOWN, Judgements(sample, np.array([1.0, 0, 1, 0, 1])), k=2)
    precision, recall = made["precision"], made["recall"]
    np.testing.assert_allclose(precision.value, [(1 + 3 * 0.5) / 4, (1 + 2) / 3, 0], rtol=1e-12)
    assert precision.judged.tolist() == [2, 1, 1]
    rates = _rates(np.array([0, 0, 1, 2]), np.full(4, 1.5), np.array([1.0, 0, 1, 0]), 3, 0.95)
    np.testing.assert_allclose(precision.low, ([1, 1, 0] + [3, 2, 1] * rates.low) / [4, 3, 1])
    np.testing.assert_allclose(precision.high, ([1, 1, 0] + [3, 2, 1] * rates.high) / [4, 3, 1])
    np.testing.assert_allclose(recall.value, [1, (1 + 1.5) / (1 + 1.5 + 3), 0], rtol=1e-12)
    assert recall.judged.tolist() == [2, 3, 1]
    first = label_estimates(LISTED, SHOWN, Judgements(sample, np.array([1.0, 0, 1, 0, 1])), k=1)
    np.testing.assert_allclose(first["precision"].value, [(1 + 2 * 1) / 3, 1, np.nan])
    np.testing.assert_allclose(first["recall"].value, [1, 1 / 5.5, 0], rtol=1e-12)


@pytest.mark.parametrize(("size", "names"), [(3, {"precision"}), (0, {"precision", "recall"})])
def test_a_stratum_without_a_judgement_leaves_recall_open(size: int, names: set[str]) -> None:
    strata = Stratum("top", 6, 2), Stratum("far", size, 0)
    sample = Sample(Design.PAIRS, (4, 3), strata, *np.array([[1, 0], [0, 1], [0, 0]]), k=2)
    assert set(label_estimates(LISTED, SHOWN, Judgements(sample, np.ones(2)), k=2)) == names


@pytest.mark.parametrize(
    ("k", "free", "precision", "recall"),
    [
        (2, True, [3 / 4, 1, np.nan], [1, 1, 0]),
        (1, True, [1, 1, np.nan], [1, 1 / 5, 0]),
        (2, False, [1 / 2, 1, np.nan], [1, 1, 0]),
        (1, False, [1, np.nan, np.nan], [1, 0, 0]),
    ],
)
def test_pairs_of_chosen_rows_weigh_as_both_phases_say(
    k: int, free: bool, precision: list[float], recall: list[float]
) -> None:
    """Rows 0 (of probability ½), 2 and 3 (1); observed labels of chosen rows weigh as those."""
    within = WithinRows(np.array([3, 0, 2]), np.array([1, 0, 1]), np.array([1, 0.5, 1, 1, 0.5]))
    strata = Stratum("rows", 2, 1), Stratum("rows", 2, 2)
    rows, label, of = np.array([[0, 0, 2, 3, 3], [1, 2, 0, 0, 1], [0, 0, 1, 1, 1]])
    sample = Sample(Design.TWO_PHASE, (4, 3), strata, rows, label, of, within, free, k=2)
    made = label_estimates(LISTED, SHOWN, Judgements(sample, np.array([1.0, 1, 0, 1, 1])), k=k)
    np.testing.assert_allclose(made["precision"].value, precision, rtol=1e-12)
    np.testing.assert_allclose(made["recall"].value, recall, rtol=1e-12)


@pytest.mark.parametrize(
    ("k", "precision", "recall"),
    [
        (2, [2 / 4, (2 + 1) / 4, np.nan], [1, 1, 0]),
        (1, [2 / 3, 1, np.nan], [1, 1 / 3, 0]),
    ],
)
def test_labels_of_judged_rows_weigh_as_their_rows(
    k: int, precision: list[float], recall: list[float]
) -> None:
    """Row 0 (of probability ½) has labels 0, 1 and 2, row 2 label 1, row 3 label 2."""
    strata = Stratum("rows", 2, 1), Stratum("rows", 2, 2)
    sample = Sample(
        Design.STRATIFIED, (4, 3), strata, np.array([3, 0, 2]), None, np.array([1, 0, 1])
    )
    true = sp.csr_array(np.array([[0.0, 0, 1], [1, 1, 1], [0, 1, 0]]))
    made = label_estimates(LISTED, SHOWN, Judgements(sample, true), k=k)
    np.testing.assert_allclose(made["precision"].value, precision, rtol=1e-12)
    np.testing.assert_allclose(made["recall"].value, recall, rtol=1e-12)
    assert made["recall"].judged.tolist() == [1, 2, 2]


def test_a_single_judgement_of_all_there_was_to_judge_is_certain() -> None:
    for yes in (0.0, 1.0):
        rates = _rates(np.array([1]), np.ones(1), np.array([yes]), 2, 0.9)
        assert (rates.low[1], rates.value[1], rates.high[1]) == (yes, yes, yes)
        assert (rates.low[0], rates.high[0], rates.judged.tolist()) == (0, 1, [0, 1])


RNG = np.random.default_rng(2)
N, L, DRAWN = 500, 6, 250
RECORDED = sp.csr_array((RNG.random((N, L)) < 0.4).astype(float))


def judged_rows(wrong: np.ndarray) -> Judgements:
    """A simple sample of every second row; `wrong` says which of their labels are."""
    rows = np.arange(0, N, 2)
    sample = Sample(
        Design.SIMPLE, (N, L), (Stratum("rows", N, DRAWN),), rows, None, np.zeros(DRAWN, int)
    )
    return Judgements(sample, sp.csr_array(RECORDED[rows].toarray() * ~wrong))


@pytest.mark.parametrize("together", [False, True])
def test_labels_of_a_row_that_are_wrong_together_are_worth_fewer_draws(together: bool) -> None:
    shape = (DRAWN, 1) if together else (DRAWN, L)
    wrong = np.broadcast_to(RNG.random(shape) < 0.3, (DRAWN, L))
    rate = spurious(judged_rows(wrong), RECORDED, confidence=0.9)
    mine = RECORDED[::2].toarray() > 0
    count, bad = mine.sum(), (mine & wrong).sum()
    value = bad / count
    by_row = ((wrong - value) * mine).sum(axis=1)
    draws = value * (1 - value) * count**2 / (by_row**2).sum()
    assert (draws < 0.5 * count) == together
    draws = min(draws, count)
    assert draws > 120
    expected = wilson(value, draws, norm.ppf(0.95))
    assert (rate.value, rate.judged, rate.wrong) == (pytest.approx(value), count, bad)
    assert rate.interval == pytest.approx(expected, rel=1e-6)


def test_none_wrong_all_wrong_and_none_judged() -> None:
    none = spurious(judged_rows(np.zeros((DRAWN, L), bool)), RECORDED)
    every = spurious(judged_rows(np.ones((DRAWN, L), bool)), RECORDED)
    count = int(RECORDED[::2].sum())
    assert (none.value, none.wrong, every.value, every.wrong) == (0, 0, 1, count)
    assert none.interval == pytest.approx(wilson(0.0, count, norm.ppf(0.975)))
    assert every.interval == pytest.approx(wilson(1.0, count, norm.ppf(0.975)))
    nothing = spurious(judged_rows(np.zeros((DRAWN, L), bool)), sp.csr_array((N, L)))
    assert math.isnan(nothing.value)
    assert (nothing.interval, nothing.judged, nothing.wrong) == ((0, 1), 0, 0)


@pytest.mark.parametrize("confidence", [0.4, 1.0, 95])
def test_a_rate_has_a_confidence(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence must be at least"):
        spurious(judged_rows(np.zeros((DRAWN, L), bool)), RECORDED, confidence=confidence)
