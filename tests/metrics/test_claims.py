"""Claims: where levels change, what numbers say together, and which sentence is printed."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unmask
from tests.helpers.evaluations import L, one, rows_of
from unmask import TopK, propensity
from unmask.metrics import ESTIMATORS, Evaluator, Table, compare, evaluate
from unmask.metrics import claims as headline
from unmask.metrics import claims as verdict
from unmask.metrics.claims import (
    CONDITIONAL,
    MEASURED,
    SPURIOUS,
    Advice,
    Evidence,
    EvidenceKind,
    Level,
    Outcome,
    Reason,
    Run,
    Standing,
    Verdict,
    claim,
    judge,
    judge_run,
    too_wide,
)
from unmask.metrics.evaluation import judge_propensities
from unmask.metrics.table import Estimate, Tables
from unmask.propensity.models import Source, SourceKind


def judged(value: float, low: float, high: float, **changes: Any) -> str:
    usual: dict[str, Any] = {"rows": 1000, "heaviest": (16, 0.05), "at_most": 1.0,
                             "claimed": CONDITIONAL}  # fmt: skip
    return judge(value, (low, high), **(usual | changes)).level


def test_verdicts_change_where_they_say() -> None:
    """A handful: fewer than one in 50 with half the sum. Wide: ± 0.05, or half the value."""
    assert judged(0.5, 0.46, 0.54, heaviest=(19, 0.5)) == "unusable"
    assert judged(0.5, 0.46, 0.54, heaviest=(20, 0.5)) == "conditional"
    assert judged(0.5, 0.46, 0.54, heaviest=(1, 0.5), rows=51) == "unusable"
    assert judged(0.5, 0.46, 0.54, heaviest=(19, 0.4999)) == "conditional"
    assert judged(0.5, 0.4501, 0.55) == "conditional"
    assert judged(0.5, 0.4499, 0.55) == "wide"
    assert judged(0.0625, 0.03125, 0.09375) == "conditional"
    assert judged(0.0625, 0.0312, 0.0938) == "wide"
    assert judged(0.0, 0.0, 0.0) == "conditional"
    assert judged(0.5, 0.001, 1.0) == "wide"
    assert judged(0.5, 0.0, 1.0) == "unusable"
    assert judged(1.0, 0.96, 1.04) == judged(1 + 1e-12, 0.96, 1.04) == "conditional"
    assert judged(1.001, 0.96, 1.04) == judged(-0.001, -0.04, 0.04) == "unusable"
    assert judged(1.1, 1.001, 1.19) == judged(-0.05, -0.1, -0.001) == "unusable"
    assert judged(math.nan, math.nan, math.nan) == "unusable"


def test_verdicts_of_metrics_without_a_largest_value_are_relative() -> None:
    assert judged(50.0, 46.0, 54.0, at_most=None) == "conditional"
    assert judged(50.0, 44.0, 56.0, at_most=None) == "wide"
    assert judged(50.0, -60.0, 160.0, at_most=None) == "wide"
    assert judged(0.0, 0.0, 0.0, at_most=None) == "conditional"
    assert judged(0.0, -0.05, 0.05, at_most=None) == "wide"
    assert judged(0.25, 0.125, 0.375) == judged(0.01, -0.0001, 0.0201) == "wide"
    bound = claim("bound", complete=False)
    verdict = judge(0.5, (0.3, 0.7), rows=9, heaviest=(9, 0.1), at_most=1.0, claimed=bound)
    assert str(verdict) == "doubtful: an upper bound, if no propensity is too high; wide: ± 0.2000"
    assert verdict.reason is Reason.BIASED_BY_DESIGN
    assert judged(2.0, 1.9, 2.1, at_most=3.0) == "conditional"
    assert judged(5.0, 4.5, 5.5, at_most=10.0) == "conditional"
    assert judged(5.0, 4.49, 5.5, at_most=10.0) == "wide"
    assert judged(2.0, 1.6, 2.4, at_most=3.0) == "wide"
    assert judged(2.0, 0.4, 3.6, at_most=3.0) == "unusable"


def test_measured_numbers_are_compared_with_the_range_or_with_themselves_if_larger() -> None:
    for value, at_most, most in (
        (0.0, 1.0, 0.05), (0.01, 1.0, 0.05), (-0.5, 1.0, 0.05), (1.2, 1.0, 0.06), (1.0, 4.0, 0.2),
        (0.01, None, 0.05), (8.0, None, 0.4), (-8.0, None, 0.4),
    ):  # fmt: skip
        assert not too_wide(0.999 * most, value, at_most, measured=True)
        assert too_wide(1.001 * most, value, at_most, measured=True)
        assert not too_wide(1.999 * most, value, at_most, measured=True, limit=0.1)
        assert too_wide(2.001 * most, value, at_most, measured=True, limit=0.1)
    assert not too_wide(0.05, 0.5, 1.0, measured=True)


def test_another_limit_of_width_is_relative_to_the_range() -> None:
    assert [too_wide(half, 0.9, 1.0, limit=0.1) for half in (0.06, 0.1, 0.11)] == [0, 0, 1]
    assert [too_wide(half, 0.9, 1.0, limit=0.04) for half in (0.04, 0.045)] == [0, 1]
    assert [too_wide(half, 9.0, 10.0, limit=0.1) for half in (0.9, 1.1)] == [0, 1]
    assert too_wide(0.06, 0.1, 1.0, limit=0.1)  # beyond half of the value


def sentence(**changes: Any) -> str:
    usual: dict[str, Any] = {
        "value": 0.5, "interval": (0.49, 0.51), "rows": 1000, "heaviest": (16, 0.05),
        "at_most": 1.0, "claimed": CONDITIONAL, "advice": Advice.USE_DECONVOLVED,
    }  # fmt: skip
    usual |= changes
    return judge(usual.pop("value"), usual.pop("interval"), **usual).sentence


def test_verdicts_are_said_in_words() -> None:
    assert sentence() == CONDITIONAL.sentence
    bound = claim("bound", complete=False)
    assert sentence(claimed=bound) == "doubtful: an upper bound, if no propensity is too high"
    assert sentence(interval=(0.3, 0.7)) == "wide: ± 0.2000"
    as_wide = sentence(interval=(-1.0, 2.0))
    assert as_wide == (
        "unusable: the interval is as wide as the range of the metric; use deconvolved"
    )
    carried = sentence(heaviest=(3, 0.8), rows=2515)
    assert carried == "unusable: 3 of 2,515 rows carry 80% of the estimate; use deconvolved"
    assert sentence(heaviest=(3, 0.8), rows=5) == CONDITIONAL.sentence


def test_levels_are_ordered_by_what_they_claim() -> None:
    levels = ["measured", "conditional", "wide", "doubtful", "unusable"]
    assert [level.value for level in Level] == levels
    for (i, left), (j, right) in itertools.product(enumerate(Level), repeat=2):
        assert ((left < right), (left <= right)) == (i < j, i <= j)
        assert ((left > right), (left >= right)) == (i > j, i >= j)
        assert (left == right) == (i == j)
        assert left < right.value if i < j else left >= right.value
    assert sorted(levels, key=Level) == levels
    assert json.dumps(Level.WIDE) == '"wide"'


def test_complete_labels_are_measured_and_others_not() -> None:
    """Vanilla under p < 1, and what is biased by design, cannot look like the truth."""
    for name in ESTIMATORS:
        assert claim(name, complete=True).level is Level.MEASURED
        level = "doubtful" if ESTIMATORS[name].caution else "conditional"
        assert claim(name, complete=False).level == level
    top, labels, propensity = rows_of(400)
    for p, declared in ((None, True), (np.ones(L), False), (np.ones(L), True)):
        measured = one(top, labels, p, "P@3", "vanilla", complete=declared).verdict
        assert (measured.level, measured.reason) == ("measured", "observed-labels")
    levels = {
        each.estimator: each.verdict.level
        for each in evaluate(top, labels, propensity, metrics=["P@3"],
                             estimators=["vanilla", "unbiased", "clipped", "deconvolved"])
    }  # fmt: skip
    assert levels == {"vanilla": "doubtful", "unbiased": "conditional", "clipped": "doubtful",
                      "deconvolved": "conditional"}  # fmt: skip


def test_every_reason_and_advice_has_a_sentence() -> None:
    details: dict[str, Any] = {
        "count": 3, "rows": 900, "of": "rows", "share": 0.8, "value": 1.2, "half_width": 0.2,
        "variance": 1.0, "least_variance": 2.0, "misfit": 0.1, "pooled": 0.3, "metric": "R",
        "observed": 0.4, "counts": 5000, "k": 5, "design_effect": 2.0, "refused": 0.3,
        "estimator": "bound", "other": "deconvolved", "other_value": 0.4, "lost": 0.1,
        "judged": 200, "unit": "rows", "spurious": 0.1, "low": 0.1, "high": 0.2,
        "gamma": 1.5, "slope": 1.0, "observed_free": True, "unanswered": 3, "design": "rows",
        "labels_judged": 12, "labels_observed": 90, "parts": "rare rows", "unjudged": 3,
        "undecided": 4, "undecided_low": 0.1, "undecided_high": 0.3, "unlisted": 7,
        "vocabulary": "stated",
        "evidence": Evidence(EvidenceKind.MISFIT, False, {"misfit": 0.2}),
    }  # fmt: skip
    said = {Verdict(Level.DOUBTFUL, reason, details=details).sentence for reason in Reason}
    assert len(said) == len(Reason)
    for advice in Advice:
        verdict = Verdict(Level.DOUBTFUL, Reason.MISFIT, advice, details)
        assert verdict.sentence.startswith("doubtful: 10% of the rows do not fit")
        stored = verdict.to_dict()
        codes = [stored[name] for name in ("level", "reason", "advice", "condition", "outcome")]
        assert codes == ["doubtful", "misfit", advice.value, "", ""]
        assert (stored["why"], stored["text"]) == (verdict.why, str(verdict))
        assert Verdict.from_dict(stored) == verdict
        assert hash(verdict) == hash(Verdict(Level.DOUBTFUL, Reason.MISFIT, advice))


def test_no_code_reads_the_words_of_a_verdict() -> None:
    """Levels and reasons are fields; a sentence is for people."""
    words = ("unusable", "doubtful", "wide", "trust", "precise", "conditional", "measured", "γ = ")
    reading = re.compile(rf"""(startswith|endswith|removeprefix)\([("']+({"|".join(words)})""")
    source = Path(unmask.__file__).parent.parent
    for path in source.rglob("*.py"):
        assert not reading.search(path.read_text()), path
    assert reading.search('each.verdict.startswith(("unusable", "wide"))')


def test_a_difference_is_clear_if_both_ends_are_on_one_side_of_zero() -> None:
    """All ends of −2, −0.5, 0, 0.5 and 2, in either direction of the metric."""
    for low, high in itertools.combinations((-2.0, -0.5, 0.0, 0.5, 2.0), 2):
        value = (low + high) / 2
        for up in (True, False):
            made = verdict.outcome(
                verdict.MEASURED, value, (low, high), 0.5, higher_is_better=up, names=("a", "b")
            )
            if low <= 0 <= high:
                wanted = verdict.Outcome.UNCLEAR
            else:
                wanted = verdict.Outcome.BETTER if (value > 0) == up else verdict.Outcome.WORSE
            assert made.details["outcome"] is wanted, (low, high, up)
            assert [made.details[name] for name in ("system", "first", "p_value")] == [
                "a",
                "b",
                0.5,
            ]


N_LABELS = 30

COUNTS = {"variance": 1.0, "least_variance": 2.0, "misfit": 0.3}

METRICS = ["P@1", "P@5", "R@5"]

ASKED = ["vanilla", "unbiased", "deconvolved", "bound"]

RUN = Run(Source(SourceKind.CONSTANT, {"p": 0.5}), 999, 50, 0.95)

BY_FORMULA = Run(Source(SourceKind.JAIN, {"a": 0.55, "b": 1.5}), 999, 50, 0.95)


def masked(n: int, p: float, seed: int) -> tuple[TopK, np.ndarray]:
    """Three to eight true labels per row, of which the predictions find most first."""
    rng = np.random.default_rng(seed)
    true = np.zeros((n, N_LABELS), bool)
    for row in true:
        row[rng.choice(N_LABELS, rng.integers(3, 9), replace=False)] = True
    top = TopK.from_scores(true + 0.9 * rng.random((n, N_LABELS)), 5)
    return top, (true & (rng.random((n, N_LABELS)) < p)).astype(int)


def number(metric: str, estimator: str, value: float, half: float, **more: Any) -> Estimate:
    verdict = more.pop("verdict", claim(estimator, complete=False))
    return Estimate(metric, estimator, value, half / 1.96, (value - half, value + half),
                    800.0, 0.01, 999, verdict, more)  # fmt: skip


def in_run(*numbers: Estimate, run: Run = RUN) -> Table:
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
    table = in_run(beyond, beside)
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
    table = in_run(within, number("Brier", "unbiased", 0.1, 0.01))
    assert table["Brier", "unbiased"].verdict.level is Level.CONDITIONAL


def test_precision_above_one_refutes_every_corrected_number() -> None:
    """Labels seen with p = 0.8, stated as 0.4: the top is right, so P@1 comes to about 2."""
    top, labels = masked(600, 0.8, seed=1)
    table = evaluate(top, labels, propensity.constant(N_LABELS, 0.4), metrics=METRICS,
                     estimators=ASKED)  # fmt: skip
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
        table = evaluate(top, labels, propensity.constant(N_LABELS, 0.5), metrics=METRICS,
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
    assert in_run(above[0]).run.evidence  # type: ignore[union-attr]
    assert not in_run(*above).run.evidence  # type: ignore[union-attr]


def test_few_rows_above_one_are_noise_and_no_evidence() -> None:
    few = Verdict(Level.UNUSABLE, Reason.FEW_ROWS, Advice.USE_DECONVOLVED,
                  {"count": 2, "rows": 999, "of": "rows", "share": 0.9})  # fmt: skip
    table = in_run(number("P@1", "unbiased", 3.0, 0.1, verdict=few),
                   number("R@5", "deconvolved", 0.5, 0.02))  # fmt: skip
    assert table["R@5", "deconvolved"].verdict.level is Level.CONDITIONAL


def test_files_without_empty_rows_leave_deconvolved_doubtful_not_refuted() -> None:
    top, labels = masked(600, 0.4, seed=2)
    kept = np.flatnonzero(labels.sum(axis=1))
    table = evaluate(TopK(top.labels[kept], top.scores[kept]), labels[kept],
                     propensity.constant(N_LABELS, 0.15), metrics=METRICS,
                     estimators=["unbiased", "deconvolved"])  # fmt: skip
    assert table.run is not None
    assert table.run.empty_rows == 0
    assert table["P@5", "unbiased"].verdict.level is Level.UNUSABLE
    assert table["P@5", "deconvolved"].verdict.level >= Level.DOUBTFUL
    assert "rows that lost all their labels were left out" in table.headline
    above = number("P@1", "unbiased", 1.2, 0.04)
    beside = number("R@5", "deconvolved", 0.5, 0.02)
    run = Run(RUN.source, 999, 0, 0.95)
    assert in_run(above, beside, run=run)["R@5", "deconvolved"].verdict.level is Level.DOUBTFUL
    assert in_run(above, beside)["R@5", "deconvolved"].verdict.level is Level.UNUSABLE


def test_a_refused_fit_refutes_all_and_a_misfit_doubts_all() -> None:
    linear = number("P@5", "unbiased", 0.4, 0.02)
    none = float("nan")
    contradicted = Estimate("R@5", "deconvolved", none, none, (none, none), none, none, 999,
                            Verdict(Level.UNUSABLE, Reason.REFUSED, details=COUNTS))  # fmt: skip
    table = in_run(linear, contradicted)
    assert table["P@5", "unbiased"].verdict.level is Level.UNUSABLE
    assert "vary too little" in table["P@5", "unbiased"].verdict.sentence
    assert table["R@5", "deconvolved"].verdict.reason is Reason.REFUSED
    misfit = Verdict(Level.DOUBTFUL, Reason.MISFIT, details={"misfit": 0.03})
    table = in_run(linear, number("R@5", "deconvolved", 0.5, 0.02, verdict=misfit))
    assert table["P@5", "unbiased"].verdict.level is Level.DOUBTFUL
    assert table.run is not None
    assert table.run.standing is Standing.DOUBTFUL


def test_estimates_that_exclude_each_other_are_both_doubtful() -> None:
    numbers = [
        number("R@5", "unbiased", 0.79, 0.04), number("R@5", "deconvolved", 0.61, 0.02),
        number("R@1", "unbiased", 0.33, 0.04), number("R@1", "deconvolved", 0.32, 0.02),
    ]  # fmt: skip
    table = in_run(*numbers)
    for estimator, other in (("unbiased", "0.6100"), ("deconvolved", "0.7900")):
        verdict = table["R@5", estimator].verdict
        assert (verdict.level, verdict.reason) == ("doubtful", "disjoint")
        assert other in verdict.sentence
        assert table["R@1", estimator].verdict.level is Level.CONDITIONAL
    assert table.headline.startswith("By the same propensity 0.5 for all")
    assert "exclude each other" in table.headline
    touching = in_run(number("R@5", "unbiased", 0.75, 0.25), number("R@5", "deconvolved", 0.5, 0.1))
    assert not touching.run.evidence  # type: ignore[union-attr]


def test_a_measured_number_that_is_wide_is_quoted_as_measured_not_under_a_condition() -> None:
    about = {"judged": 20, "unit": "rows", "unanswered": 0, "observed_free": False}
    wide = Verdict(Level.WIDE, Reason.AUDITED, Advice.LARGER_AUDIT, {**about, "half_width": 0.2})
    assert wide.condition == ""
    assert wide.sentence == ("wide: from 20 judged rows; ± 0.2000; a larger audit narrows it")
    measured = number("R@5", "vanilla", 0.4, 0.2, verdict=wide)
    measured = Estimate(**{**vars(measured), "estimator": "measured"})
    assert in_run(measured).headline == (
        "Measured on judged rows, whatever hid the labels: R@5 is 0.400 (0.200 to 0.600, "
        "measured), too wide to use: judge more."
    )


def test_a_measured_number_outvotes_a_corrected_one() -> None:
    measured = number("R@5", "vanilla", 0.4, 0.02, verdict=MEASURED)
    measured = Estimate(**{**vars(measured), "estimator": "measured"})
    table = in_run(measured, number("R@5", "deconvolved", 0.6, 0.02),
                   number("P@5", "unbiased", 0.3, 0.02))  # fmt: skip
    assert table["R@5", "measured"].verdict.level is Level.MEASURED
    assert table["P@5", "unbiased"].verdict.level is Level.DOUBTFUL
    assert "measured on judged rows, R@5 is 0.400" in table.headline


def test_advice_names_only_what_is_not_refused() -> None:
    few = Verdict(Level.UNUSABLE, Reason.FEW_ROWS, Advice.USE_DECONVOLVED,
                  {"count": 2, "rows": 999, "of": "rows", "share": 0.9})  # fmt: skip
    noisy = number("R@5", "unbiased", 0.7, 0.3, verdict=few)
    good = number("R@5", "deconvolved", 0.5, 0.02)
    assert in_run(noisy, good)["R@5", "unbiased"].verdict.advice is Advice.USE_DECONVOLVED
    assert in_run(noisy)["R@5", "unbiased"].verdict.advice is Advice.USE_DECONVOLVED
    low = Verdict(Level.UNUSABLE, Reason.PROPENSITIES_TOO_LOW, Advice.RAISE_PROPENSITIES)
    useless = number("R@5", "deconvolved", float("nan"), 0.0, verdict=low)
    assert in_run(noisy, useless)["R@5", "unbiased"].verdict.advice is Advice.AUDIT


def test_wide_numbers_say_what_narrows_them() -> None:
    wide = Verdict(Level.WIDE, Reason.WIDE, details={"half_width": 0.3})
    due = Verdict(Level.WIDE, Reason.WIDE, details={"half_width": 0.3, "propensity_share": 0.8})
    one = number("R@5", "unbiased", 0.5, 0.3, verdict=wide)
    assert in_run(one)["R@5", "unbiased"].verdict.advice is Advice.MORE_ROWS
    assert (
        in_run(number("R@5", "unbiased", 0.5, 0.3, verdict=due))["R@5", "unbiased"].verdict.advice
        is Advice.LARGER_AUDIT
    )
    sharp = in_run(one, number("R@5", "deconvolved", 0.5, 0.02))
    assert sharp["R@5", "unbiased"].verdict.advice is Advice.USE_DECONVOLVED


def test_tempered_by_one_is_unbiased_and_called_so() -> None:
    top, labels = masked(300, 0.5, seed=3)
    table = evaluate(top, labels, propensity.constant(N_LABELS, 0.5), metrics=["P@5"],
                     estimators=["unbiased", "tempered"], tau=1.0)  # fmt: skip
    unbiased, tempered = table
    assert tempered.value == unbiased.value
    assert tempered.verdict == unbiased.verdict
    assert tempered.verdict.level is Level.CONDITIONAL
    half = evaluate(top, labels, propensity.constant(N_LABELS, 0.5), metrics=["P@5"],
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
    p = propensity.constant(N_LABELS, 0.4)
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
    wrong = compare(systems, labels, propensity.constant(N_LABELS, 0.4), **asked)
    assert wrong["bad"]["P@1", "unbiased"].verdict.level is Level.UNUSABLE
    assert "is better" not in wrong["bad"]["P@1", "unbiased"].verdict.sentence
    right = compare(systems, labels, propensity.constant(N_LABELS, 0.8), **asked)
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
    each = in_run(number("R@5", "deconvolved", 0.5, 0.02), run=audited)["R@5", "deconvolved"]
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
    table = evaluate(part, labels[kept], propensity.constant(N_LABELS, 0.3), **asked)
    unbiased, deconvolved = (each.verdict for each in table)
    assert (unbiased.level, unbiased.reason) == ("doubtful", "left-out")
    assert unbiased.advice is Advice.USE_DECONVOLVED
    assert deconvolved.level is Level.CONDITIONAL
    assert deconvolved.condition.endswith("and rows that lost all of them were left out")
    whole = evaluate(top, labels, propensity.constant(N_LABELS, 0.3), **asked)
    assert all(each.verdict.level is Level.CONDITIONAL for each in whole)
    assert whole["P@5", "deconvolved"].verdict.condition.endswith("0.3 for all")
    few = evaluate(part, labels[kept], propensity.constant(N_LABELS, 0.99), **asked)
    assert few["P@5", "unbiased"].verdict.level is Level.CONDITIONAL  # hardly any would be lost


@pytest.mark.parametrize("kind", [SourceKind.JAIN, SourceKind.PRESET])
def test_a_formula_that_nobody_measured_makes_numbers_wide(kind: SourceKind) -> None:
    """Moved by 1.5 times, 0.3 is 0.2 to 0.45: ± 0.125, however narrow its interval."""
    run = Run(Source(kind, {"a": 0.55, "b": 1.5}, "Bibtex"), 999, 50, 0.95)
    verdict = in_run(number("P@1", "unbiased", 0.3, 0.01), run=run)["P@1", "unbiased"].verdict
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
    verdict = in_run(number("R@5", "deconvolved", value, 0.01), run=BY_FORMULA).estimates[0].verdict
    assert (verdict.level is Level.WIDE) == wide
    assert verdict.details.get("high", 0.0) <= 1.0


def test_a_formula_leaves_other_claims_alone() -> None:
    """What is biased by design stays so; scores of all labels hardly move with the propensities."""
    table = in_run(
        number("P@1", "vanilla", 0.3, 0.01),
        number("P@1", "bound", 0.3, 0.01),
        number("macro-AUC", "unbiased", 0.9, 0.01),
        run=BY_FORMULA,
    )
    assert [each.verdict.level.value for each in table] == ["doubtful", "doubtful", "conditional"]


def test_the_headline_says_how_far_a_formula_moves_the_number() -> None:
    table = in_run(number("R@5", "deconvolved", 0.6, 0.02), run=BY_FORMULA)
    number_and_reach = "R@5 is 0.600 (0.580 to 0.620, deconvolved), but 0.400 to 0.900 if the"
    assert number_and_reach in table.headline


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
        assert in_run(by_chance, run=run).estimates[0].verdict.advice is advice


def estimate(
    metric: str, estimator: str, level: Level = Level.CONDITIONAL, value: float = 0.5
) -> Estimate:
    made: Any = Estimate(
        metric, estimator, value, 0.1, (value - 0.1, value + 0.1), 100, 0.0, 100,
        Verdict(level, next(iter(Reason))),
    )  # fmt: skip
    return made


@pytest.mark.parametrize(
    ("value", "outcome", "sizes"),
    [
        (0.3, Outcome.BETTER, "0.300 (0.200 to 0.400"),
        (-0.3, Outcome.WORSE, "0.300 (0.200 to 0.400"),  # turned round, its ends too
        (-0.05, Outcome.UNCLEAR, "−0.050 (−0.150 to 0.050"),
        (0.0, Outcome.BETTER, "0.000 (−0.100 to 0.100"),
    ],
)
def test_the_winner_is_named_with_how_much_it_is_ahead(
    value: float, outcome: Outcome, sizes: str
) -> None:
    made = estimate("R@5", "deconvolved", value=value)
    details = {"outcome": outcome, "system": "new", "first": "old", "p_value": 0.01}
    judged = replace(made, verdict=replace(made.verdict, details=details))
    sentence = headline.comparison_headline([judged], Run(Source(), 100, 0, 0.95))
    assert f"in R@5: {sizes}, deconvolved)" in sentence


ABOUT = {"metric": "P@1", "value": 1.14, "empty_rows": 12}

RUNS = {
    Standing.COMPLETE: Run(Source(), 1200, 0, 0.95, complete=True),
    Standing.RECORDED: Run(Source(SourceKind.NONE), 1200, 0, 0.95),
    Standing.NOT_REFUTED: Run(Source(), 1200, 0, 0.95),
    Standing.DOUBTFUL: Run(
        Source(), 1200, 0, 0.95, evidence=(Evidence(EvidenceKind.ABOVE_RANGE, False, ABOUT),)
    ),
    Standing.REFUTED: Run(
        Source(), 1200, 0, 0.95, evidence=(Evidence(EvidenceKind.ABOVE_RANGE, True, ABOUT),)
    ),
}

VANILLA = estimate("R@5", "vanilla", Level.MEASURED, 0.25)

AUDITED = estimate("R@5", "measured", Level.MEASURED, 0.75)

WIDE = estimate("R@5", "measured", Level.WIDE, 0.75)

GOOD = estimate("R@5", "unbiased", Level.CONDITIONAL)

DOUBTED = estimate("R@5", "unbiased", Level.DOUBTFUL)

USELESS = estimate("R@5", "unbiased", Level.UNUSABLE)

NEXT = "audit some hundred rows to measure it."

NOTHING = "Nothing in this run contradicts the stated propensities, but "

PLAIN = "R@5 is 0.250 (0.150 to 0.350, vanilla)"

ON_RECORDED = "R@5 on recorded labels is 0.250 (0.150 to 0.350, vanilla)"

JUDGED = "R@5 is 0.750 (0.650 to 0.850, measured)"

BEST = "R@5 is 0.500 (0.400 to 0.600, unbiased)"


@pytest.mark.parametrize(
    ("standing", "estimates", "begin", "end"),
    [
        (Standing.COMPLETE, [USELESS], "Labels are declared complete, and no number can", "why."),
        (Standing.COMPLETE, [VANILLA], f"Labels are declared complete: {PLAIN} on 1,200 rows.", ""),
        (Standing.RECORDED, [USELESS], "On recorded labels no number can be used", "why."),
        (Standing.RECORDED, [VANILLA], f"{ON_RECORDED}, which is", "complete (complete=True)."),
        (Standing.RECORDED, [VANILLA, AUDITED], "Measured on judged rows", f"{JUDGED}."),
        (Standing.COMPLETE, [VANILLA, AUDITED], "Measured on judged rows", f"{JUDGED}."),
        (Standing.COMPLETE, [WIDE], "Measured", f"{JUDGED}, too wide to use: judge more."),
        (Standing.NOT_REFUTED, [USELESS], f"{NOTHING}no corrected number can be used", "measure."),
        (Standing.NOT_REFUTED, [VANILLA], f"{NOTHING}no corrected number can be used", "measure."),
        (Standing.NOT_REFUTED, [GOOD, AUDITED], "Measured on judged rows", f"{JUDGED}."),
        (Standing.NOT_REFUTED, [DOUBTED], f"{NOTHING}{BEST} is doubtful", f": {NEXT}"),
        (Standing.NOT_REFUTED, [GOOD, VANILLA], "If ", f"contradicts, {BEST}; {NEXT}"),
        (Standing.DOUBTFUL, [USELESS], "By ", f"; no corrected number can be used; {NEXT}"),
        (Standing.DOUBTFUL, [VANILLA], "By ", f"; on the observed labels alone {PLAIN}; {NEXT}"),
        (Standing.DOUBTFUL, [DOUBTED], "By ", f"; the best number is doubtful: {BEST}; {NEXT}"),
        (Standing.DOUBTFUL, [GOOD], "By ", f"; other numbers still stand: {BEST}; {NEXT}"),
        (Standing.DOUBTFUL, [GOOD, AUDITED], "By ", f"; measured on judged rows, {JUDGED}."),
        (Standing.REFUTED, [USELESS, VANILLA], "By ", f"labels alone {PLAIN}; {NEXT}"),
    ],
)
def test_the_sentence_of_every_standing(
    standing: Standing, estimates: list[Estimate], begin: str, end: str
) -> None:
    run = RUNS[standing]
    assert run.standing is standing
    sentence = headline.headline(estimates, run)
    assert sentence.startswith(begin)
    assert sentence.endswith(end)
    words = {Standing.DOUBTFUL: "are in doubt", Standing.REFUTED: "do not hold"}
    if standing in words:
        assert f"the assumptions {words[standing]}: P@1 comes to 1.140" in sentence


@pytest.mark.parametrize("metrics", [["R@5"], ["nDCG@3", "R@1"], ["micro-F1"], ["sample-F1"]])
def test_propensities_are_judged_whatever_was_asked(metrics: list[str]) -> None:
    """Labels seen with p = 0.8, stated as 0.4: precision would be about 2, asked for or not."""
    top, labels = masked(600, 0.8, seed=1)
    p = propensity.constant(N_LABELS, 0.4)
    options: dict[str, Any] = {"metrics": metrics, "estimators": ["unbiased"]}
    table = evaluate(top, labels, p, **options)
    assert [each.metric for each in table] == metrics
    assert table.run is not None
    assert table.run.standing is Standing.REFUTED
    assert all(each.verdict.level is Level.UNUSABLE for each in table)
    halves = [
        Evaluator(p, **options).update(TopK(top.labels[s], top.scores[s]), labels[s])
        for s in (slice(0, 250), slice(250, 600))
    ]
    assert halves[0].merge(halves[1]).compute().run == table.run
    other = TopK(top.labels[::-1], top.scores)
    assert compare({"a": top, "b": other}, labels, p, **options).run.standing is Standing.REFUTED  # type: ignore[union-attr]
    judged = judge_propensities(top, labels, p)
    assert judged.standing is Standing.REFUTED
    right = judge_propensities(top, labels, propensity.constant(N_LABELS, 0.8))
    assert right.standing is Standing.NOT_REFUTED
    test = Evidence(EvidenceKind.REJECTED_TEST, False, {"effect": "no row is empty"})
    doubtful = judge_propensities(top, labels, propensity.constant(N_LABELS, 0.8), evidence=[test])
    assert (doubtful.standing, str(doubtful.evidence[0])) == (Standing.DOUBTFUL, "no row is empty")


def test_wrong_labels_make_doubtful_and_refute_nothing() -> None:
    for low, doubtful in ((SPURIOUS, False), (SPURIOUS + 1e-6, True)):
        about = {"spurious_low": low, "spurious": 0.2}
        measured = number("R@5", "vanilla", 0.4, 0.02, verdict=MEASURED, **about)
        measured = Estimate(**{**vars(measured), "estimator": "measured"})
        run = in_run(measured, number("P@5", "unbiased", 0.3, 0.02)).run
        assert run is not None
        kinds = [(each.kind, each.refutes) for each in run.evidence]
        assert kinds == [(EvidenceKind.SPURIOUS_LABELS, False)] * doubtful


def test_the_order_of_numbers() -> None:
    pairs = [
        (("R@5", "deconvolved"), ("R@5", "unbiased")),
        (("P@5", "unbiased"), ("P@5", "deconvolved")),  # exact
        (("DCG@5", "unbiased"), ("DCG@5", "deconvolved")),
        (("R@5", "measured"), ("R@5", "deconvolved")),
        (("R@5", "unbiased"), ("R@5", "tempered")),
        (("R@1", "tempered"), ("P@5", "measured")),
        (("P@1", "tempered"), ("nDCG@5", "measured")),
        (("nDCG@1", "tempered"), ("F1@5", "measured")),
        (("R@5", "unbiased"), ("R@3", "deconvolved")),
        (("R", "tempered"), ("R@100", "measured")),
    ]
    for better, worse in pairs:
        assert headline.best([estimate(*worse), estimate(*better)]) == estimate(*better)
        sharper = estimate(*worse, level=Level.MEASURED)
        assert headline.best([sharper, estimate(*better)]) == sharper


def test_stored_tables_are_read_back_as_they_were() -> None:
    top, labels = masked(300, 0.8, seed=1)
    for p in (None, propensity.constant(N_LABELS, 0.4), propensity.constant(N_LABELS, 0.8)):
        table = evaluate(top, labels, p, metrics=["P@1", "R@5", "MRR"])
        stored = json.loads(json.dumps(table.to_dict()))
        again = Table.from_dict(stored)
        assert again.to_dict() == table.to_dict()
        assert (again.run, again.headline, str(again)) == (table.run, table.headline, str(table))
        tables = compare({"a": top, "b": TopK(top.labels[::-1], top.scores)}, labels, p)
        assert (
            Tables.from_dict(json.loads(json.dumps(tables.to_dict()))).headline == tables.headline
        )


def test_no_number_beyond_its_range_or_interval_is_usable() -> None:
    """Unbiased estimates leave the range of their metric; then there is no number to use."""
    beyond = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        true = rng.random((30, 10)) < 0.3
        observed = (true & (rng.random(true.shape) < 0.5)).astype(float)
        top = TopK.from_scores(rng.random(true.shape) + true, 5)
        metrics = ["P@5", "R@5", "nDCG@5", "hit@5", "MRR@5", "micro-P@5"]
        for interval in ("normal", "percentile", "bca"):
            table = evaluate(top, observed, np.full(10, 0.3), metrics=metrics, interval=interval)
            for each in table:
                low, high = each.interval
                if not low - 1e-9 <= each.value <= high + 1e-9:
                    beyond += 1
                    assert not each.verdict.usable, (each.metric, each.estimator, each.value)
    assert beyond > 20
