"""Verdicts: where levels change, and their order."""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

import unmask
from tests.helpers.evaluations import L, one, rows_of
from unmask.metrics import ESTIMATORS, evaluate
from unmask.metrics import claims as verdict
from unmask.metrics.claims import Evidence, EvidenceKind
from unmask.metrics.claims import (
    CONDITIONAL,
    Advice,
    Level,
    Reason,
    Verdict,
    claim,
    judge,
    too_wide,
)


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
    assert judged(0.0625, 0.0312, 0.0938) == judged(-0.0625, -0.0938, 0.0) == "wide"
    assert judged(0.0, 0.0, 0.0) == "conditional"
    assert judged(0.5, 0.001, 1.0) == "wide"
    assert judged(0.5, 0.0, 1.0) == "unusable"
    assert (judged(1.05, 1.0, 1.09), judged(-0.05, -0.1, 0.0)) == ("conditional", "wide")
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
        "labels_judged": 12, "labels_observed": 90,
        "evidence": Evidence(EvidenceKind.MISFIT, False, {"misfit": 0.2}),
    }  # fmt: skip
    said = {Verdict(Level.DOUBTFUL, reason, details=details).sentence for reason in Reason}
    assert len(said) == len(Reason)
    for advice in Advice:
        verdict = Verdict(Level.DOUBTFUL, Reason.MISFIT, advice, details)
        assert verdict.sentence.startswith("doubtful: 10% of the rows do not fit")
        assert verdict.to_dict() == {"level": "doubtful", "reason": "misfit",
                                     "advice": advice.value, "condition": "", "outcome": "",
                                     "why": verdict.why, "text": str(verdict)}  # fmt: skip
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
