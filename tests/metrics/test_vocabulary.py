"""Relevant labels that nobody can predict: which metrics they change, and how an audit counts them.

The oracle is the same data with a column for every such label.
"""

from __future__ import annotations

import numpy as np
import pytest

from unmask import audit, evaluate
from unmask.audit import Sample
from unmask.metrics.registry import METRICS, OF_PREDICTED, VIEWS
from unmask.predictions import TopK

N, L = 200, 7
RNG = np.random.default_rng(0)
TRUE = (RNG.random((N, L)) < 0.2).astype(float)
BEYOND = (RNG.random((N, 2)) < 0.4).astype(float)
SCORES = np.round(RNG.random((N, L)) * 0.9 + 0.05 * TRUE, 3)
TOP = TopK.from_scores(SCORES, 3)
WIDE = np.hstack([TRUE, BEYOND])


def names(reads: str) -> list[str]:
    return [
        name if about.reads != "list" else f"{name}@3"
        for name, about in METRICS.items()
        if VIEWS[0] in about.estimators and (about.reads == "list") == (reads == "list")
    ]


def test_the_register_says_which_metrics_a_label_that_nobody_predicts_leaves_alone() -> None:
    for name in (*names("list"), *names("scores")):
        metric = name.partition("@")[0]
        by_list = METRICS[metric].reads == "list"
        first, wide = (TOP, TOP) if by_list else (SCORES, np.hstack([SCORES, np.zeros((N, 2))]))
        values = [
            evaluate(predictions, labels, metrics=[name])[name, "vanilla"].value
            for predictions, labels in ((first, TRUE), (wide, WIDE))
        ]
        same = values[0] == pytest.approx(values[1], abs=1e-12)
        assert same == (metric in OF_PREDICTED), name


def test_judged_labels_beyond_the_data_count_as_columns_that_nobody_predicts() -> None:
    observed = TRUE * (np.random.default_rng(1).random(TRUE.shape) < 0.5)
    plan = audit.plan(TOP, observed, budget=80, seed=0)
    rows = plan.rows
    judged = audit.from_rows(plan, TRUE[rows], unlisted=BEYOND[rows])
    wide_plan = audit.plan(TOP, np.hstack([observed, 0 * BEYOND]), budget=80, seed=0)
    wide_judged = audit.from_rows(wide_plan, WIDE[rows])
    metrics = [name for name in names("list") if name != "Hamming@3"]  # which counts all columns
    table, wide = (
        evaluate(TOP, labels, metrics=metrics, estimators=["measured"], audit=answers)
        for labels, answers in (
            (observed, judged),
            (np.hstack([observed, 0 * BEYOND]), wide_judged),
        )
    )
    for one, other in zip(table, wide, strict=True):
        assert (one.metric, one.value) == (other.metric, pytest.approx(other.value, abs=1e-12))
        assert one.interval == pytest.approx(other.interval, abs=1e-12)
    first, second = (
        audit.elusion(TOP, labels, answers, k=3)
        for labels, answers in (
            (observed, judged),
            (np.hstack([observed, 0 * BEYOND]), wide_judged),
        )
    )
    assert first.relevant == pytest.approx(second.relevant)
    narrow = audit.label_estimates(TOP, observed, judged, k=3)["recall"]
    beside = audit.label_estimates(TOP, np.hstack([observed, 0 * BEYOND]), wide_judged, k=3)
    assert narrow.value == pytest.approx(beside["recall"].value[:L], nan_ok=True)
    ranked = evaluate(SCORES, observed, metrics=["LRAP"], audit=judged)["LRAP", "measured"]
    assert (ranked.verdict.level, ranked.verdict.reason) == ("doubtful", "not-offered")


def test_a_vocabulary_that_was_only_seen_measures_what_predictions_decide_alone() -> None:
    observed = TRUE * (np.random.default_rng(1).random(TRUE.shape) < 0.5)
    designs = {"simple": names("list"), "stratified": ["P@3", "R@3"], "pairs": ["P@3", "micro-R@3"],
               "two-phase": ["P@3", "R@3", "micro-F1@3"]}  # fmt: skip
    for design, metrics in designs.items():
        unit = "rows" if design in ("simple", "stratified") else "pairs"
        for vocabulary in ("stated", "seen"):
            plan = audit.plan(
                TOP, observed, budget=600 if unit == "pairs" else 150, unit=unit, design=design,
                metrics=["P@3", "micro-R@3"], vocabulary=vocabulary, expect=False,
            )  # fmt: skip
            assert Sample.from_dict(plan.sample.to_dict()).vocabulary == vocabulary
            more = audit.extend(plan, TOP, observed, budget=20, seed=1)
            assert more.sample.vocabulary == vocabulary
            if unit == "rows":
                judged = audit.from_rows(plan, TRUE[plan.rows])
            else:
                judged = audit.from_pairs(plan, TRUE[plan.rows, plan.labels])
            for each in evaluate(
                TOP, observed, metrics=metrics, estimators=["measured"], audit=judged
            ):
                doubtful = (
                    vocabulary == "seen" and each.metric.partition("@")[0] not in OF_PREDICTED
                )
                reason = each.verdict.reason
                assert (reason == "not-offered") == doubtful, (design, each.metric, reason)
                assert (each.verdict.level == "doubtful") == doubtful, (design, each.metric)
    stored = {**plan.sample.to_dict()}
    del stored["vocabulary"]
    assert Sample.from_dict(stored).vocabulary == "seen", "what nobody stated is not measured"
    judged = audit.from_rows(
        audit.plan(TOP, observed, budget=50, vocabulary="seen"),
        TRUE[audit.plan(TOP, observed, budget=50).rows],
    )
    with pytest.raises(ValueError, match="judges were offered only those"):
        audit.sequence(TOP, observed, judged, "R@3")
    assert audit.sequence(TOP, observed, judged, "P@3").interval[0] >= 0
    with pytest.raises(ValueError, match="vocabulary"):
        audit.plan(TOP, observed, budget=50, vocabulary="sean")  # type: ignore[arg-type]
