"""Precision and recall per label: exact when all is judged, and the ends hold when some is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unmask import audit, data
from unmask.metrics.measured import evaluation, pair_totals
from unmask.metrics.measured.label_estimates import _rates
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
    ends = [
        float(end)
        for end in pair_totals.mean_interval(value, value * (1 - value), round(draws), 10**12, 0.9)
    ]
    assert (rates.low[0], rates.value[0], rates.high[0]) == pytest.approx((ends[0], value, ends[1]))
    assert (rates.low[1], rates.value[1], rates.high[1]) == (0.5, 0.5, 0.5)
    assert (rates.low[2], rates.high[2]) == (0, 1)
    assert np.isnan(rates.value[2])
    assert rates.judged.tolist() == [13, 2, 0]
    agreeing = _rates(label, weight, np.ones(15), 3, 0.9)  # all yes: no spread
    ends = [float(end) for end in pair_totals.mean_interval(1.0, 0.0, round(plain), 10**12, 0.9)]
    assert (agreeing.low[0], agreeing.high[0]) == pytest.approx(ends)


def test_the_run_of_judged_rows_counts_those_without_labels() -> None:
    labels = TRUE.copy()
    empty = int((labels.sum(axis=1) == 0).sum())
    run = evaluation.run_of_audit(labels, 0.9)
    assert (run.rows, run.empty_rows, run.confidence) == (600, empty, 0.9)
