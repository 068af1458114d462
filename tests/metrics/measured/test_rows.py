"""Undecided answers against all that they could mean, and parts of an audit without any answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import audit, compare, data, evaluate
from unmask.audit import Answer, Answers, Judgements
from unmask.metrics.claims import Level, Reason
from unmask.metrics.measured import measure, measure_differences
from unmask.predictions import LabelSets, TopK

OF_ROWS = ("P@3", "R@3", "F1@3", "Jaccard@3", "hit@3", "DCG@3", "nDCG@3", "micro-R@3", "micro-F1@3")
OF_PAIRS = ("P@3", "DCG@3", "micro-P@3", "micro-R@3", "micro-F1@3")


def meanings(judged: Judgements) -> Iterator[Judgements]:
    """The judgements under every meaning of what is undecided."""
    decided = replace(judged, undecided=None)
    if isinstance(judged.undecided, sp.csr_array):
        places = np.argwhere(judged.undecided.toarray())
        for chosen in product((0, 1), repeat=len(places)):
            relevant = judged.true_labels.toarray()
            relevant[tuple(places.T)] = chosen
            yield replace(decided, relevant=sp.csr_array(relevant))
    else:
        places = np.flatnonzero(judged.open_units)
        for chosen in product((0.0, 1.0), repeat=len(places)):
            answers = judged.answers.copy()
            answers[places] = chosen
            yield replace(decided, relevant=answers)


def cases() -> Iterator[tuple[TopK, TopK, sp.csr_array, Judgements, tuple[str, ...]]]:
    """Two systems, observed labels, and audits in which everything was judged but not decided."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        true = sp.csr_array((rng.random((6, 6)) < 0.4).astype(np.float32))
        shown = sp.csr_array(true.multiply(rng.random((6, 6)) < 0.3))
        shown.eliminate_zeros()
        top, other = (TopK.from_scores(rng.random((6, 6)), 3) for _ in range(2))
        plan = audit.plan(top, shown, budget=6, expect=False)
        truth = true.toarray()[plan.rows]
        open_ = np.zeros((6, 6))
        open_[:2, seed : seed + 3] = [[1, 1, 1], [0, 1, 0]]
        judged = audit.from_rows(plan, truth * (1 - open_), undecided=open_)
        yield top, other, shown, judged, OF_ROWS
        plan = audit.plan([top, other][0], shown, budget=99, unit="pairs", metrics=OF_PAIRS,
                          expect=False)  # fmt: skip
        assert plan.labels is not None
        answers = true.toarray()[plan.rows, plan.labels]
        open_pairs = np.arange(len(plan)) % 8 == 0
        yield top, other, shown, audit.from_pairs(plan, answers, undecided=open_pairs), OF_PAIRS


def test_the_range_is_that_of_all_meanings() -> None:
    """Everything is judged, so that numbers are exact, and intervals are the range alone."""
    for top, other, shown, judged, metrics in cases():
        found = measure(top, shown, judged, metrics=metrics)
        every = [measure(top, shown, each, metrics=metrics) for each in meanings(judged)]
        for i, each in enumerate(found):
            values = [made[i].value for made in every]
            ends = min(values), max(values)
            assert each.interval == pytest.approx(ends, abs=1e-12), each.metric
            assert each.value == pytest.approx(sum(ends) / 2)
            assert each.details["undecided"] == judged.open_units.sum()
            moved = ends[1] - ends[0] > 1e-9
            assert (each.verdict.reason is Reason.UNDECIDED) == moved, each.metric
        sums = [name for name in metrics if name in ("R@3", "nDCG@3", "DCG@3", "micro-R@3")]
        systems = {"a": other, "b": top}
        found = measure_differences(systems, shown, judged, metrics=sums)["b"]
        every = [
            measure_differences(systems, shown, m, metrics=sums)["b"] for m in meanings(judged)
        ]
        for i, each in enumerate(found):
            values = [made[i].value for made in every]
            assert each.interval[0] == pytest.approx(min(values), abs=1e-9), each.metric
            assert each.interval[1] == pytest.approx(max(values), abs=1e-9), each.metric


TRUE: sp.csr_array = data.synthetic.planted(400, n_features=40, n_labels=12, seed=0).labels
OBSERVED = data.hide(TRUE, np.full(12, 0.5), seed=1)
TOP = TopK.from_scores(TRUE.toarray() * 0.9 + np.random.default_rng(2).random(TRUE.shape), 5)
DESIGNS: dict[str, dict[str, Any]] = {
    "simple": {"unit": "rows", "budget": 100},
    "stratified": {"unit": "rows", "budget": 100, "design": "stratified"},
    "pairs": {"unit": "pairs", "budget": 200, "metrics": ["P@5", "micro-R@5"]},
    "two-phase": {"unit": "pairs", "budget": 500, "design": "two-phase"},
}


def said(sheet: audit.Sheet, top: TopK | None = None) -> dict[int, Answer]:
    """What is right; with predictions, somebody who says yes to all of them."""
    dense = TRUE.toarray()
    made = {}
    for i, q in enumerate(sheet.questions):
        if q.label is not None:
            made[i] = Answer("yes" if dense[q.row, q.label] or top is not None else "no")
            continue
        more = set() if top is None else set(top.labels[q.row].tolist())
        named = more.union(np.flatnonzero(dense[q.row]).tolist())
        made[i] = Answer("complete", tuple(sorted(named)))
    return made


def test_somebody_who_always_says_yes_widens_the_interval_and_never_hides_in_it() -> None:
    for design, options in DESIGNS.items():
        plan = audit.plan(TOP, OBSERVED, seed=4, expect=False, **options)
        sheet = audit.sheet(plan)
        ann, bob = said(sheet), said(sheet, TOP)
        alone, both = (
            evaluate(TOP, OBSERVED, metrics=plan.metrics, estimators=["measured"],
                     audit=Answers(sheet, people).judgements(plan))
            for people in ({"ann": ann}, {"ann": ann, "bob": bob})
        )  # fmt: skip
        for one, two in zip(alone, both, strict=True):
            assert two.interval[0] <= one.interval[0] + 1e-9, (design, one.metric)
            assert two.interval[1] >= one.interval[1] - 1e-9, (design, one.metric)
            assert two.details["undecided"] > 0
        assert both["P@5", "measured"].verdict.level == Level.DOUBTFUL, design
        settled = Answers(sheet, {"ann": ann, "bob": bob}, "ann").judgements(plan)
        again = evaluate(
            TOP, OBSERVED, metrics=plan.metrics, estimators=["measured"], audit=settled
        )  # fmt: skip
        assert [each.value for each in again] == [each.value for each in alone], design


def test_a_row_of_which_nobody_is_sure_may_have_any_offered_label() -> None:
    plan = audit.plan(TOP, OBSERVED, budget=400, expect=False)
    sheet = audit.sheet(plan)
    answers = said(sheet)
    answers[0] = Answer("unsure")
    judged = Answers(sheet, {"ann": answers}).judgements(plan)
    top_r, top_p = measure(TOP, OBSERVED, judged, metrics=["R@5", "P@5"])
    exact = evaluate(TOP, TRUE, metrics=["R@5", "P@5"])
    for each in (top_r, top_p):
        value = exact[each.metric, "vanilla"].value
        assert each.interval[0] - 1e-9 <= value <= each.interval[1] + 1e-9
        assert each.interval[1] - each.interval[0] == pytest.approx(1 / 400)


def test_metrics_of_scores_sequences_and_comparisons_have_ranges_too() -> None:
    plan = audit.plan(TOP, OBSERVED, budget=100, expect=False)
    truth = TRUE.toarray()[plan.rows]
    open_ = (np.random.default_rng(5).random(truth.shape) < 0.1) * 1.0
    judged = audit.from_rows(plan, truth * (1 - open_), undecided=open_)
    lowest, highest = (audit.from_rows(plan, each) for each in (
        truth * (1 - open_), np.maximum(truth, open_)))  # fmt: skip
    scores = TRUE.toarray() * 0.9 + np.random.default_rng(2).random(TRUE.shape)
    sets = LabelSets.from_scores(scores, 0.8)
    for metric, predictions in (("mAP", scores), ("LRAP", scores), ("macro-F1", sets)):
        ends = []
        for each in (judged, lowest, highest):
            table = evaluate(
                predictions, OBSERVED, metrics=[metric], estimators=["measured"], audit=each
            )
            ends.append(table[metric, "measured"])
        assert ends[0].details["undecided"] == judged.open_units.sum()
        assert ends[0].interval[0] <= min(ends[1].interval[0], ends[2].interval[0])
        assert ends[0].interval[1] >= max(ends[1].interval[1], ends[2].interval[1])
    inner = (
        audit.sequence(TOP, OBSERVED, lowest, "P@5"),
        audit.sequence(TOP, OBSERVED, highest, "P@5"),
    )
    outer = audit.sequence(TOP, OBSERVED, judged, "P@5")
    assert outer.interval == (inner[0].interval[0], inner[1].interval[1])
    assert audit.elusion(TOP, OBSERVED, judged, k=5).at_most >= max(
        audit.elusion(TOP, OBSERVED, each, k=5).at_most for each in (lowest, highest)
    )
    table = compare({"a": TOP, "b": TopK(TOP.labels[:, :2], TOP.scores[:, :2])}, OBSERVED,
                    metrics=["micro-F1"], audit=judged)["b"]  # fmt: skip
    (difference,) = (each for each in table if each.estimator == "measured")
    assert difference.interval[0] < difference.value < difference.interval[1]


def test_a_stratum_without_any_answer_makes_numbers_unusable() -> None:
    for design, metric in (("stratified", "P@5"), ("pairs", "micro-R@5"), ("two-phase", "R@5")):
        options = {**DESIGNS[design], "metrics": [metric]}
        for seed in range(5):
            plan = audit.plan(TOP, OBSERVED, seed=seed, expect=False, **options)
            of = plan.sample.stratum
            if design == "two-phase":
                plan = audit.plan(TOP, OBSERVED, seed=seed, expect=False, head=3, **options)
                assert plan.sample.within is not None
                of = (plan.sample.within.probability < 1).astype(int)
            judged = answered(plan, of != of.max())
            (each,) = measure(TOP, OBSERVED, judged, metrics=[metric])
            assert each.verdict.level == Level.UNUSABLE, design
            assert each.verdict.reason is Reason.PART_NOT_JUDGED
            assert np.isnan(each.value)
            assert 0 < each.details["unjudged"] < each.details["of"]
            with pytest.raises(ValueError, match="judge"):
                audit.elusion(TOP, OBSERVED, judged, k=5)


def test_a_stratum_with_one_answer_does_not_make_intervals_narrow() -> None:
    exact = evaluate(TOP, TRUE, metrics=["R@5"])["R@5", "vanilla"].value
    held = 0
    for seed in range(40):
        plan = audit.plan(TOP, OBSERVED, seed=seed, expect=False, **DESIGNS["stratified"])
        answers = plan.sample.stratum != 3
        answers[np.flatnonzero(~answers)[0]] = True
        (each,) = measure(TOP, OBSERVED, answered(plan, answers), metrics=["R@5"])
        held += each.interval[0] <= exact <= each.interval[1]
    assert held >= 36


def answered(plan: audit.AuditPlan, units: np.ndarray) -> Judgements:
    if plan.labels is None:
        return audit.from_rows(plan, TRUE[plan.rows], answered=units)
    answers = TRUE.toarray()[plan.rows, plan.labels].astype(float)
    return audit.from_pairs(plan, np.where(units, answers, np.nan))
