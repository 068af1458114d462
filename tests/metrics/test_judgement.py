"""One run, one judgement: numbers that contradict the assumptions together, and advice after it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unmask import TopK, propensity
from unmask.metrics import Evaluator, Table, compare, evaluate
from unmask.metrics import claims as judgement
from unmask.metrics.claims import SPURIOUS, judge_run
from unmask.metrics.claims import EvidenceKind, Run, Standing
from unmask.metrics.table import Estimate
from unmask.metrics.claims import (
    CONDITIONAL,
    MEASURED,
    Advice,
    Level,
    Reason,
    Verdict,
    claim,
    refused,
)
from unmask.propensity import Source, SourceKind

L = 30
METRICS = ["P@1", "P@5", "R@5"]
ESTIMATORS = ["vanilla", "unbiased", "deconvolved", "bound"]
RUN = Run(Source(SourceKind.CONSTANT, {"p": 0.5}), 999, 50, 0.95)
BY_FORMULA = Run(Source(SourceKind.JAIN, {"a": 0.55, "b": 1.5}), 999, 50, 0.95)


def masked(n: int, p: float, seed: int) -> tuple[TopK, np.ndarray]:
    """Three to eight true labels per row, of which the predictions find most first."""
    rng = np.random.default_rng(seed)
    true = np.zeros((n, L), bool)
    for row in true:
        row[rng.choice(L, rng.integers(3, 9), replace=False)] = True
    top = TopK.from_scores(true + 0.9 * rng.random((n, L)), 5)
    return top, (true & (rng.random((n, L)) < p)).astype(int)


def number(metric: str, estimator: str, value: float, half: float, **more: Any) -> Estimate:
    verdict = more.pop("verdict", claim(estimator, complete=False))
    return Estimate(metric, estimator, value, half / 1.96, (value - half, value + half),
                    800.0, 0.01, 999, verdict, more)  # fmt: skip


def judged(*numbers: Estimate, run: Run = RUN) -> Table:
    return judge_run(Table(numbers, run))


@pytest.mark.parametrize(
    ("beyond", "symptom"),
    [
        (number("one-error", "unbiased", -0.2, 0.05), "one-error comes to −0.200, less than 0"),
        (number("mAP", "unbiased", 1.3, 0.1), "mAP comes to 1.300, more than 1"),
        (number("Fmax", "unbiased", 0.9, 0.02, precision=1.2, precision_error=0.03),
         "precision at Fmax comes to 1.200, more than 1"),
    ],
)  # fmt: skip
def test_every_share_of_right_predictions_beyond_its_range_refutes(
    beyond: Estimate, symptom: str
) -> None:
    beside = number("Brier", "unbiased", 0.1, 0.01)
    table = judged(beyond, beside)
    assert table.run is not None
    assert table.run.standing is Standing.REFUTED
    assert table.run.evidence[0].symptom == symptom
    assert table["Brier", "unbiased"].verdict.reason is Reason.REFUTED


@pytest.mark.parametrize(
    "within",
    [
        number("one-error", "unbiased", -0.02, 0.05),
        number("mAP", "unbiased", 1.05, 0.1),
        number("Fmax", "unbiased", 1.1, 0.02, precision=1.02, precision_error=0.03),
        number("macro-AUC", "unbiased", 1.1, 0.02),
    ],
)
def test_what_chance_may_take_beyond_the_range_refutes_nothing(within: Estimate) -> None:
    table = judged(within, number("Brier", "unbiased", 0.1, 0.01))
    assert table["Brier", "unbiased"].verdict.level is Level.CONDITIONAL


def test_precision_above_one_refutes_every_corrected_number() -> None:
    """Labels seen with p = 0.8, stated as 0.4: the top is right, so P@1 comes to about 2."""
    top, labels = masked(600, 0.8, seed=1)
    table = evaluate(top, labels, propensity.constant(L, 0.4), metrics=METRICS,
                     estimators=ESTIMATORS)  # fmt: skip
    assert table.run is not None
    assert table.run.standing is Standing.REFUTED
    assert table.run.evidence[0].kind is EvidenceKind.ABOVE_RANGE
    for each in table:
        if each.estimator == "vanilla":
            assert each.verdict.level is Level.DOUBTFUL
        else:
            assert each.verdict.level is Level.UNUSABLE
            assert each.verdict.advice is Advice.AUDIT
    precision = table["P@1", "unbiased"].verdict
    assert precision.reason is Reason.OUTSIDE_RANGE
    assert "rows carry it; the propensities are too low" in precision.sentence
    assert "the same propensity 0.4 for all" in table.headline
    assert "no corrected number can be used" in table.headline


def test_right_propensities_are_not_refuted() -> None:
    """As many runs as 20, each with P@1 near 1: none is an alarm, and all say their condition."""
    for seed in range(20):
        top, labels = masked(200, 0.5, seed)
        table = evaluate(top, labels, propensity.constant(L, 0.5), metrics=METRICS,
                         estimators=["unbiased", "deconvolved"])  # fmt: skip
        assert table.run is not None
        kinds = {evidence.kind for evidence in table.run.evidence}
        assert EvidenceKind.ABOVE_RANGE not in kinds
        for each in table:
            if each.verdict.level is Level.CONDITIONAL:
                assert each.verdict.condition in each.verdict.sentence
                assert "by the same propensity 0.5 for all" in each.verdict.condition


def test_the_test_of_precision_counts_all_cut_offs() -> None:
    """2.5 standard errors above 1 are evidence for one P@k and none for six."""
    above = [number(f"P@{k}", "unbiased", 1 + 2.5 * 0.01, 0.0196) for k in range(1, 7)]
    assert judged(above[0]).run.evidence  # type: ignore[union-attr]
    assert not judged(*above).run.evidence  # type: ignore[union-attr]


def test_few_rows_above_one_are_noise_and_no_evidence() -> None:
    few = Verdict(Level.UNUSABLE, Reason.FEW_ROWS, Advice.USE_DECONVOLVED,
                  {"count": 2, "rows": 999, "of": "rows", "share": 0.9})  # fmt: skip
    table = judged(number("P@1", "unbiased", 3.0, 0.1, verdict=few),
                   number("R@5", "deconvolved", 0.5, 0.02))  # fmt: skip
    assert table["R@5", "deconvolved"].verdict.level is Level.CONDITIONAL


def test_files_without_empty_rows_leave_deconvolved_doubtful_not_refuted() -> None:
    top, labels = masked(600, 0.4, seed=2)
    kept = np.flatnonzero(labels.sum(axis=1))
    table = evaluate(TopK(top.labels[kept], top.scores[kept]), labels[kept],
                     propensity.constant(L, 0.15), metrics=METRICS,
                     estimators=["unbiased", "deconvolved"])  # fmt: skip
    assert table.run is not None
    assert table.run.empty_rows == 0
    assert table["P@5", "unbiased"].verdict.level is Level.UNUSABLE
    assert table["P@5", "deconvolved"].verdict.level >= Level.DOUBTFUL
    assert "rows that lost all their labels were left out" in table.headline
    above = number("P@1", "unbiased", 1.2, 0.04)
    beside = number("R@5", "deconvolved", 0.5, 0.02)
    run = Run(RUN.source, 999, 0, 0.95)
    assert judged(above, beside, run=run)["R@5", "deconvolved"].verdict.level is Level.DOUBTFUL
    assert judged(above, beside)["R@5", "deconvolved"].verdict.level is Level.UNUSABLE


def test_a_refused_fit_refutes_all_and_a_misfit_doubts_all() -> None:
    linear = number("P@5", "unbiased", 0.4, 0.02)
    none = float("nan")
    contradicted = Estimate("R@5", "deconvolved", none, none, (none, none), none, none, 999,
                            refused(1.0, 2.0, 0.3))  # fmt: skip
    table = judged(linear, contradicted)
    assert table["P@5", "unbiased"].verdict.level is Level.UNUSABLE
    assert "vary too little" in table["P@5", "unbiased"].verdict.sentence
    assert table["R@5", "deconvolved"].verdict.reason is Reason.REFUSED
    misfit = Verdict(Level.DOUBTFUL, Reason.MISFIT, details={"misfit": 0.03})
    table = judged(linear, number("R@5", "deconvolved", 0.5, 0.02, verdict=misfit))
    assert table["P@5", "unbiased"].verdict.level is Level.DOUBTFUL
    assert table.run is not None
    assert table.run.standing is Standing.DOUBTFUL


def test_estimates_that_exclude_each_other_are_both_doubtful() -> None:
    numbers = [
        number("R@5", "unbiased", 0.79, 0.04), number("R@5", "deconvolved", 0.61, 0.02),
        number("R@1", "unbiased", 0.33, 0.04), number("R@1", "deconvolved", 0.32, 0.02),
    ]  # fmt: skip
    table = judged(*numbers)
    for estimator, other in (("unbiased", "0.6100"), ("deconvolved", "0.7900")):
        verdict = table["R@5", estimator].verdict
        assert (verdict.level, verdict.reason) == ("doubtful", "disjoint")
        assert other in verdict.sentence
        assert table["R@1", estimator].verdict.level is Level.CONDITIONAL
    assert table.headline.startswith("By the same propensity 0.5 for all")
    assert "exclude each other" in table.headline
    touching = judged(number("R@5", "unbiased", 0.75, 0.25), number("R@5", "deconvolved", 0.5, 0.1))
    assert not touching.run.evidence  # type: ignore[union-attr]


def test_a_measured_number_that_is_wide_is_quoted_as_measured_not_under_a_condition() -> None:
    about = {"judged": 20, "unit": "rows", "unanswered": 0, "observed_free": False}
    wide = Verdict(Level.WIDE, Reason.AUDITED, Advice.LARGER_AUDIT, {**about, "half_width": 0.2})
    assert wide.condition == ""
    assert wide.sentence == ("wide: from 20 judged rows; ± 0.2000; a larger audit narrows it")
    measured = number("R@5", "vanilla", 0.4, 0.2, verdict=wide)
    measured = Estimate(**{**vars(measured), "estimator": "measured"})
    assert judged(measured).headline == (
        "Measured on judged rows, whatever hid the labels: R@5 is 0.400 (0.200 to 0.600, "
        "measured), too wide to use: judge more."
    )


def test_a_measured_number_outvotes_a_corrected_one() -> None:
    measured = number("R@5", "vanilla", 0.4, 0.02, verdict=MEASURED)
    measured = Estimate(**{**vars(measured), "estimator": "measured"})
    table = judged(measured, number("R@5", "deconvolved", 0.6, 0.02),
                   number("P@5", "unbiased", 0.3, 0.02))  # fmt: skip
    assert table["R@5", "measured"].verdict.level is Level.MEASURED
    assert table["P@5", "unbiased"].verdict.level is Level.DOUBTFUL
    assert "measured on judged rows, R@5 is 0.400" in table.headline


def test_advice_names_only_what_is_not_refused() -> None:
    few = Verdict(Level.UNUSABLE, Reason.FEW_ROWS, Advice.USE_DECONVOLVED,
                  {"count": 2, "rows": 999, "of": "rows", "share": 0.9})  # fmt: skip
    noisy = number("R@5", "unbiased", 0.7, 0.3, verdict=few)
    good = number("R@5", "deconvolved", 0.5, 0.02)
    assert judged(noisy, good)["R@5", "unbiased"].verdict.advice is Advice.USE_DECONVOLVED
    assert judged(noisy)["R@5", "unbiased"].verdict.advice is Advice.USE_DECONVOLVED
    low = Verdict(Level.UNUSABLE, Reason.PROPENSITIES_TOO_LOW, Advice.RAISE_PROPENSITIES)
    useless = number("R@5", "deconvolved", float("nan"), 0.0, verdict=low)
    assert judged(noisy, useless)["R@5", "unbiased"].verdict.advice is Advice.AUDIT


def test_wide_numbers_say_what_narrows_them() -> None:
    wide = Verdict(Level.WIDE, Reason.WIDE, details={"half_width": 0.3})
    due = Verdict(Level.WIDE, Reason.WIDE, details={"half_width": 0.3, "propensity_share": 0.8})
    one = number("R@5", "unbiased", 0.5, 0.3, verdict=wide)
    assert judged(one)["R@5", "unbiased"].verdict.advice is Advice.MORE_ROWS
    assert (
        judged(number("R@5", "unbiased", 0.5, 0.3, verdict=due))["R@5", "unbiased"].verdict.advice
        is Advice.LARGER_AUDIT
    )
    sharp = judged(one, number("R@5", "deconvolved", 0.5, 0.02))
    assert sharp["R@5", "unbiased"].verdict.advice is Advice.USE_DECONVOLVED


def test_tempered_by_one_is_unbiased_and_called_so() -> None:
    top, labels = masked(300, 0.5, seed=3)
    table = evaluate(top, labels, propensity.constant(L, 0.5), metrics=["P@5"],
                     estimators=["unbiased", "tempered"], tau=1.0)  # fmt: skip
    unbiased, tempered = table
    assert tempered.value == unbiased.value
    assert tempered.verdict == unbiased.verdict
    assert tempered.verdict.level is Level.CONDITIONAL
    half = evaluate(top, labels, propensity.constant(L, 0.5), metrics=["P@5"],
                    estimators=["tempered"], tau=0.5)["P@5", "tempered"]  # fmt: skip
    assert half.verdict.reason is Reason.BIASED_BY_DESIGN


def test_complete_labels_say_what_they_measure() -> None:
    top, labels = masked(100, 1.0, seed=4)
    table = evaluate(top, labels, complete=True)
    assert table["R@5", "vanilla"].verdict.sentence == "measured: on labels declared complete"
    assert table.headline.startswith("Labels are declared complete: R@5 is")


@pytest.mark.parametrize("shards", [1, 3])
def test_merged_evaluators_judge_as_one_call(shards: int) -> None:
    top, labels = masked(600, 0.8, seed=1)
    asked: dict[str, Any] = {"metrics": METRICS, "estimators": ["unbiased", "deconvolved"]}
    p = propensity.constant(L, 0.4)
    merged = Evaluator(p, **asked)
    for rows in np.array_split(np.arange(600), shards):
        part = TopK(top.labels[rows], top.scores[rows])
        merged.merge(Evaluator(p, **asked).update(part, labels[rows]))
    whole = evaluate(top, labels, p, **asked)
    assert merged.compute().run == whole.run
    assert merged.compute().headline == whole.headline


def test_comparisons_are_judged_by_the_numbers_of_their_systems() -> None:
    top, labels = masked(600, 0.8, seed=1)
    worse = TopK(np.roll(top.labels, 1, axis=0), np.roll(top.scores, 1, axis=0))
    systems = {"good": top, "bad": worse}
    asked: dict[str, Any] = {"metrics": ["P@1"], "estimators": ["vanilla", "unbiased"]}
    wrong = compare(systems, labels, propensity.constant(L, 0.4), **asked)
    assert wrong["bad"]["P@1", "unbiased"].verdict.level is Level.UNUSABLE
    assert "is better" not in wrong["bad"]["P@1", "unbiased"].verdict.sentence
    right = compare(systems, labels, propensity.constant(L, 0.8), **asked)
    assert right["bad"]["P@1", "unbiased"].verdict.level is Level.CONDITIONAL
    assert right.headline.startswith("good is better than bad in P@1: ")
    assert right.headline.endswith(
        "if labels go missing independently, by the same propensity 0.8 for all."
    )
    complete = compare(systems, labels, metrics=["P@1"], complete=True)
    assert complete.headline.endswith("labels declared complete.")


def test_conditions_are_those_of_the_estimate() -> None:
    assert CONDITIONAL.sentence.endswith("independently, by the stated propensities")
    audited = Run(Source(SourceKind.AUDIT, {"rows": 300}), 999, 50, 0.95)
    each = judged(number("R@5", "deconvolved", 0.5, 0.02), run=audited)["R@5", "deconvolved"]
    assert each.verdict.level is Level.CONDITIONAL  # audited propensities are still a condition
    assert each.verdict.condition.endswith("by the audit of 300 rows")
    assert each.verdict.to_dict()["condition"] == each.verdict.condition


def test_files_without_empty_rows_doubt_row_by_row_corrections_only() -> None:
    """Rows that lost all labels were left out: unbiased speaks of others, deconvolved of these."""
    top, labels = masked(1500, 0.3, seed=5)
    top = TopK(np.roll(top.labels, 1, axis=0), top.scores)  # a model that is hardly ever right
    kept = np.flatnonzero(labels.sum(axis=1))
    assert kept.size < 1300
    asked: dict[str, Any] = {"metrics": ["P@5"], "estimators": ["unbiased", "deconvolved"]}
    part = TopK(top.labels[kept], top.scores[kept])
    table = evaluate(part, labels[kept], propensity.constant(L, 0.3), **asked)
    unbiased, deconvolved = (each.verdict for each in table)
    assert (unbiased.level, unbiased.reason) == ("doubtful", "left-out")
    assert unbiased.advice is Advice.USE_DECONVOLVED
    assert deconvolved.level is Level.CONDITIONAL
    assert deconvolved.condition.endswith("and rows that lost all of them were left out")
    whole = evaluate(top, labels, propensity.constant(L, 0.3), **asked)
    assert all(each.verdict.level is Level.CONDITIONAL for each in whole)
    assert whole["P@5", "deconvolved"].verdict.condition.endswith("0.3 for all")
    few = evaluate(part, labels[kept], propensity.constant(L, 0.99), **asked)
    assert few["P@5", "unbiased"].verdict.level is Level.CONDITIONAL  # hardly any would be lost


# Numbers that rest on a formula


@pytest.mark.parametrize("kind", [SourceKind.JAIN, SourceKind.PRESET])
def test_a_formula_that_nobody_measured_makes_numbers_wide(kind: SourceKind) -> None:
    """Moved by 1.5 times, 0.3 is 0.2 to 0.45: ± 0.125, however narrow its interval."""
    run = Run(Source(kind, {"a": 0.55, "b": 1.5}, "Bibtex"), 999, 50, 0.95)
    verdict = judged(number("P@1", "unbiased", 0.3, 0.01), run=run)["P@1", "unbiased"].verdict
    assert (verdict.level, verdict.reason, verdict.advice) == (
        Level.WIDE, Reason.FORMULA, Advice.AUDIT,
    )  # fmt: skip
    assert (verdict.details["low"], verdict.details["high"]) == pytest.approx((0.2, 0.45))
    assert verdict.why == (
        "0.200 to 0.450 if the formula is off by 1.5 times, as it was on real labels; "
        "audit some hundred rows"
    )


@pytest.mark.parametrize(("value", "wide"), [(0.119, False), (0.121, True), (0.9, True)])
def test_a_formula_widens_from_where_its_factor_moves_a_number_too_far(
    value: float, wide: bool
) -> None:
    """Half of 1.5 v − v / 1.5 is 5/12 v, which reaches 0.05 at v = 0.12; nothing exceeds 1."""
    verdict = judged(number("R@5", "deconvolved", value, 0.01), run=BY_FORMULA).estimates[0].verdict
    assert (verdict.level is Level.WIDE) == wide
    assert verdict.details.get("high", 0.0) <= 1.0


@pytest.mark.parametrize(
    "kind", sorted({*SourceKind} - {SourceKind.JAIN, SourceKind.PRESET, SourceKind.NONE})
)
def test_only_formulas_of_the_frequency_widen(kind: SourceKind) -> None:
    run = Run(Source(kind, {"p": 0.5}), 999, 50, 0.95)
    assert (
        judged(number("P@1", "unbiased", 0.3, 0.01), run=run).estimates[0].verdict.level
        == "conditional"
    )


def test_a_formula_leaves_other_claims_alone() -> None:
    """What is biased by design stays so; scores of all labels hardly move with the propensities."""
    table = judged(
        number("P@1", "vanilla", 0.3, 0.01),
        number("P@1", "bound", 0.3, 0.01),
        number("macro-AUC", "unbiased", 0.9, 0.01),
        run=BY_FORMULA,
    )
    assert [each.verdict.level.value for each in table] == ["doubtful", "doubtful", "conditional"]


def test_the_headline_says_how_far_a_formula_moves_the_number() -> None:
    table = judged(number("R@5", "deconvolved", 0.6, 0.02), run=BY_FORMULA)
    number_and_reach = "R@5 is 0.600 (0.580 to 0.620, deconvolved), but 0.400 to 0.900 if the"
    assert number_and_reach in table.headline


def test_beside_a_measured_number_a_formula_needs_no_advice() -> None:
    measured = number("R@5", "vanilla", 0.6, 0.02, verdict=MEASURED)
    measured = Estimate(**{**vars(measured), "estimator": "measured"})
    table = judged(number("R@5", "deconvolved", 0.6, 0.02), measured, run=BY_FORMULA)
    assert table["R@5", "deconvolved"].verdict.advice is Advice.NONE


def test_differences_are_not_widened_by_a_formula() -> None:
    """They say at which factor the winner changes."""
    difference = Table([number("P@1", "unbiased", 0.3, 0.01)], BY_FORMULA)
    assert judge_run(difference, of_differences=True).estimates[0].verdict.level == "conditional"
    assert judge_run(difference).estimates[0].verdict.level == "wide"


def test_no_number_of_rows_mends_a_formula() -> None:
    """Wide by its interval already: more rows would narrow it, and it would still be wide."""
    wide = Verdict(Level.WIDE, Reason.WIDE, details={"half_width": 0.1})
    by_chance = number("P@1", "unbiased", 0.3, 0.1, verdict=wide)
    for run, advice in ((BY_FORMULA, Advice.AUDIT), (RUN, Advice.MORE_ROWS)):
        assert judged(by_chance, run=run).estimates[0].verdict.advice is advice


@pytest.mark.parametrize(
    ("ignored", "verified", "words"),
    [
        (0, 0, ""),
        (1200, 0, "1,200 ignored pairs left rankings and labels."),
        (0, 3, "3 verified labels count with propensity 1."),
        (1, 2, "1 ignored pairs left rankings and labels; 2 verified labels count with "
               "propensity 1."),
    ],
)  # fmt: skip
def test_what_judgements_of_pairs_did_is_said(ignored: int, verified: int, words: str) -> None:
    run = Run(Source(), 100, 0, 0.95, ignored_pairs=ignored, verified_labels=verified)
    assert run.judged_pairs == words


@pytest.mark.parametrize(("low", "told"), [(SPURIOUS, False), (SPURIOUS + 1e-6, True)])
def test_wrong_labels_make_doubtful_and_refute_nothing(low: float, told: bool) -> None:
    made: Any = SimpleNamespace(details={"spurious_low": low, "spurious": 0.2})
    other: Any = SimpleNamespace(details={})
    evidence = list(judgement._spurious([other, made, made]))
    assert [(e.kind, e.refutes, e.details) for e in evidence] == (
        [(EvidenceKind.SPURIOUS_LABELS, False, {"spurious": 0.2})] if told else []
    )
