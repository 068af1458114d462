"""Precision and recall per label: exact when all is judged, and the ends hold when some is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unmask import audit, data
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
    made = audit.per_label(TOP, OBSERVED, judged(**options), k=3)
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
    made = audit.per_label(TOP, OBSERVED, judged(**options), k=3)
    for name, values in exact().items():
        inside = (made[name].low <= values + 1e-9) & (values - 1e-9 <= made[name].high)
        assert inside.mean() >= 0.75, name


def test_recall_needs_pairs_outside_the_predictions() -> None:
    made = audit.per_label(TOP, OBSERVED, judged(budget=300, unit="pairs", metrics=["P@3"]), k=3)
    assert set(made) == {"precision"}
