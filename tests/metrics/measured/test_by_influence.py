"""Measured metrics that are no means over rows: by hand, unbiased by simulation, intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t as student

from unmask import LabelSets, audit, compare, evaluate
from unmask.metrics import contributions
from unmask.metrics.claims import Level, Reason
from unmask.metrics.measured import estimates as by_influence

N, L = 400, 5


def rows(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True labels, those that a mask left which depends on the row, and probabilities."""
    rng = np.random.default_rng(seed)
    true = (rng.random((N, L)) < 0.35).astype(int)
    observed = true * (rng.random((N, L)) < rng.random((N, 1)))
    return true, observed, np.clip(0.3 * true + 0.6 * rng.random((N, L)), 0.01, 0.99)


def judged(
    true: np.ndarray, observed: np.ndarray, scores: np.ndarray, m: int, seed: int
) -> audit.Judgements:
    plan = audit.plan(scores, observed, budget=m, metrics=["P@1"], seed=seed)
    return audit.from_rows(plan, true[plan.rows])


@pytest.mark.parametrize("metric", ["mAP", "macro-AUC", "LRAP", "Brier", "Fmax"])
def test_the_estimate_is_that_of_the_formula(metric: str) -> None:
    true, observed, scores = rows(0)
    answers = judged(true, observed, scores, 80, seed=1)
    each = evaluate(scores, observed, metrics=[metric], audit=answers)[metric, "measured"]
    drawn = answers.sample.rows
    u = contributions(scores[drawn], true[drawn], metrics=[metric])[metric, "vanilla"]
    f = contributions(scores[drawn], observed[drawn], metrics=[metric])[metric, "vanilla"]
    share = np.cov(u, f)[0, 1] / f.var(ddof=1)
    share = min(max(share, 0.0), 1.0)
    whole = evaluate(scores, observed, metrics=[metric])[metric, "vanilla"].value
    residuals = u - share * f
    error = math.sqrt((1 - 80 / N) * residuals.var(ddof=1) / 80)
    assert each.value == pytest.approx(residuals.mean() + share * whole, abs=1e-12)
    assert each.standard_error == pytest.approx(error, rel=1e-9)
    half = student.ppf(0.975, 79) * error
    assert each.interval[0] == pytest.approx(max(0.0, each.value - half))
    assert each.interval[1] == pytest.approx(min(1.0, each.value + half))
    assert each.details["alone"][0] == pytest.approx(
        evaluate(scores[drawn], true[drawn], metrics=[metric])[metric, "vanilla"].value
    )
    assert each.verdict.reason is Reason.AUDITED


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["macro-F1", "weighted-F1", "Hamming", "micro-Jaccard"])
def test_intervals_hold_the_truth_whatever_hid_the_labels(metric: str) -> None:
    """Observed labels of rows go missing together; 60 audits of 100 rows."""
    true, observed, scores = rows(2)
    sets = LabelSets.from_scores(scores, 0.5)
    truth = evaluate(sets, true, metrics=[metric])[metric, "vanilla"].value
    vanilla = evaluate(sets, observed, metrics=[metric])[metric, "vanilla"].value
    held, values, widths = 0, [], []
    for seed in range(60):
        answers = judged(true, observed, scores, 100, seed=seed)
        each = evaluate(sets, observed, metrics=[metric], audit=answers)[metric, "measured"]
        held += each.interval[0] <= truth <= each.interval[1]
        values.append(each.value)
        alone = each.details["alone"]
        widths.append((each.interval[1] - each.interval[0]) / (alone[2] - alone[1]))
        assert each.verdict.level in (Level.MEASURED, Level.WIDE)
    assert held >= 53
    assert abs(np.mean(values) - truth) < 0.1 * abs(vanilla - truth)
    assert np.mean(widths) <= 1.0


def test_rows_add_up_to_ratios_and_means_over_labels() -> None:
    true, _, scores = rows(3)
    sets = LabelSets.from_scores(scores, 0.5)
    names = ["micro-F1", "Hamming", "macro-F1", "macro-P", "weighted-F1"]
    p = np.full(L, 0.8)
    added = contributions(sets, true, p, metrics=names, estimators=["vanilla", "unbiased"])
    table = evaluate(sets, true, p, metrics=names)
    for name in names:
        for estimator in ("vanilla", "unbiased"):
            values, each = added[name, estimator], table[name, estimator]
            assert values.shape == (N,)
            assert values.mean() == pytest.approx(each.value, abs=1e-10)
            error = values.std(ddof=1) / math.sqrt(N)
            assert error == pytest.approx(each.standard_error, rel=0.12)


def test_differences_are_measured_too() -> None:
    true, observed, scores = rows(4)
    worse = np.clip(scores + 0.5 * np.random.default_rng(5).random(scores.shape), 0, 1)
    answers = judged(true, observed, scores, 120, seed=6)
    systems = {"worse": worse, "better": scores}
    tables = compare(systems, observed, metrics=["mAP", "P@1"], audit=answers)
    each = tables["better"]["mAP", "measured"]
    new, old = (evaluate(s, observed, metrics=["mAP"], audit=answers)["mAP", "measured"].value
                for s in (scores, worse))  # fmt: skip
    assert each.details["values"] == pytest.approx([new, old])
    truth = [evaluate(s, true, metrics=["mAP"])["mAP", "vanilla"].value for s in (scores, worse)]
    assert each.interval[0] < truth[0] - truth[1] < each.interval[1]
    assert "better is better than worse" in str(each.verdict)
    assert each.details["p_value"] < 0.01
    assert tables["better"]["P@1", "measured"].details["p_value"] <= 1


def test_other_audits_say_that_they_did_not_judge_it() -> None:
    true, observed, scores = rows(7)
    plan = audit.plan(scores, observed, budget=200, unit="pairs", metrics=["P@1"], seed=0)
    answers = audit.from_pairs(plan, true[plan.rows, plan.labels])
    each = evaluate(scores, observed, metrics=["mAP"], audit=answers)["mAP", "measured"]
    assert each.verdict.reason is Reason.NOT_JUDGED
    assert math.isnan(each.value)


@pytest.mark.parametrize("metric", ["macro-F1", "mAP"])
def test_a_mean_over_labels_says_how_many_were_judged(metric: str) -> None:
    """Half of the labels are so rare that no judged row has one."""
    true, observed, scores = rows(6)
    rare = np.zeros((N, L), int)
    rare[-L:] = np.eye(L, dtype=int)
    true, observed = np.hstack([true, rare]), np.hstack([observed, rare])
    scores = np.hstack([scores, scores])
    predictions = scores if metric == "mAP" else LabelSets.from_scores(scores, 0.5)
    plan = audit.plan(scores, observed, budget=100, metrics=["P@1"], seed=2)
    assert not true[plan.rows][:, L:].any()
    answers = audit.from_rows(plan, true[plan.rows])
    each = evaluate(predictions, observed, metrics=[metric], audit=answers)[metric, "measured"]
    assert (each.verdict.level, each.verdict.reason) == (Level.DOUBTFUL, Reason.LABELS_NOT_JUDGED)
    assert "measured on 5 of 10 labels" in str(each.verdict)
    weighted = evaluate(
        LabelSets.from_scores(scores, 0.5), observed, metrics=["weighted-F1"], audit=answers
    )["weighted-F1", "measured"]
    assert weighted.verdict.reason is Reason.AUDITED
    by_row = evaluate(scores, observed, metrics=["coverage-error"], audit=answers)
    assert by_row["coverage-error", "measured"].verdict.reason is Reason.AUDITED


@pytest.mark.parametrize("metric", ["micro-P", "micro-R", "micro-F1", "sample-P", "sample-F1"])
@pytest.mark.parametrize("design", ["simple", "stratified"])
def test_a_complete_audit_gives_the_true_difference_of_sets_of_any_size(
    metric: str, design: str
) -> None:
    """One system predicts about twice as many labels as the other."""
    true, observed, scores = rows(7)
    few, many = (LabelSets.from_scores(scores, cut) for cut in (0.6, 0.3))
    plan = audit.plan({"many": many, "few": few}, observed, budget=N, design=design)
    answers = audit.from_rows(plan, true[plan.rows])
    systems = {"many": many, "few": few}
    measured = compare(systems, observed, metrics=[metric], audit=answers)["few"]
    truth = compare(systems, true, metrics=[metric])["few"][metric, "vanilla"].value
    assert measured[metric, "measured"].value == pytest.approx(truth, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["micro-P", "micro-F1"])
def test_intervals_of_differences_of_sets_hold_the_truth(metric: str) -> None:
    true, observed, scores = rows(8)
    systems = {name: LabelSets.from_scores(scores, cut)
               for name, cut in (("many", 0.3), ("few", 0.6))}  # fmt: skip
    truth = compare(systems, true, metrics=[metric])["few"][metric, "vanilla"].value
    held, widths = 0, []
    for seed in range(40):
        plan = audit.plan(systems, observed, budget=80, seed=seed, expect=False)
        answers = audit.from_rows(plan, true[plan.rows])
        table = compare(systems, observed, metrics=[metric], audit=answers)["few"]
        low, high = table[metric, "measured"].interval
        held += low <= truth <= high
        widths.append(high - low)
    assert held >= 35
    assert np.mean(widths) < 0.2


def test_pairs_measure_differences_of_precision_of_sets_of_any_size() -> None:
    """All pairs judged: the truth; the difference of two F1 is not one ratio, and refused."""
    true, observed, scores = rows(9)
    systems = {name: LabelSets.from_scores(scores, cut)
               for name, cut in (("many", 0.3), ("few", 0.6))}  # fmt: skip
    plan = audit.plan(systems, observed, budget=N * L, unit="pairs", observed="sampled")
    answers = audit.from_pairs(plan, true[plan.rows, plan.labels])
    names = ["micro-P", "micro-R", "micro-F1"]
    measured = compare(systems, observed, metrics=names, audit=answers)["few"]
    truth = compare(systems, true, metrics=names)["few"]
    for name in names[:2]:
        assert measured[name, "measured"].value == pytest.approx(
            truth[name, "vanilla"].value, abs=1e-12
        )
    assert measured["micro-F1", "measured"].verdict.reason is Reason.NOT_JUDGED


@pytest.mark.parametrize(("m", "n"), [(1, 5), (2, 9), (6, 40), (7, 7)])
def test_the_error_of_a_mean_of_rows_drawn_without_replacement(m: int, n: int) -> None:
    """By the squared differences of all pairs; of a single row nothing is known."""
    values = np.random.default_rng(m).standard_normal(m)
    squares = sum((a - b) ** 2 for a in values for b in values)
    wanted = math.sqrt((1 - m / n) * squares / (2 * m * (m - 1)) / m) if m > 1 else math.inf
    assert by_influence._error(values, n) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(("factor", "wanted"), [(0.4, 0.4), (-0.3, 0.0), (1.7, 1.0)])
def test_the_share_of_the_observed_that_is_taken_is_its_slope_within_bounds(
    factor: float, wanted: float
) -> None:
    observed = np.array([0.0, 1.0, 2.0, 5.0])
    beside = np.array([1.0, -1.0, 0.0, 0.0])
    centred = observed - observed.mean()
    beside -= observed * (beside @ centred) / (observed @ centred)  # has no slope of its own
    assert by_influence._slope(3 + factor * observed + beside, observed) == pytest.approx(wanted)
    assert by_influence._slope(observed, np.full(4, 7.0)) == 0.0
