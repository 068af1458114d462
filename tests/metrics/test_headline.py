"""Which number is quoted: usable ones first, recall before precision, large cut-offs first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from unmask.metrics import claims as headline
from unmask.metrics import claims as judgement
from unmask.metrics.claims import Evidence, EvidenceKind, Run, Standing
from unmask.metrics.table import Estimate
from unmask.metrics.claims import Level, Outcome, Reason, Verdict
from unmask.propensity.models import Source, SourceKind


def estimate(
    metric: str, estimator: str, level: Level = Level.CONDITIONAL, value: float = 0.5
) -> Estimate:
    made: Any = Estimate(
        metric, estimator, value, 0.1, (value - 0.1, value + 0.1), 100, 0.0, 100,
        Verdict(level, next(iter(Reason))),
    )  # fmt: skip
    return made


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (("R@5", "deconvolved"), ("R@5", "unbiased")),
        (("P@5", "unbiased"), ("P@5", "deconvolved")),  # exact
        (("DCG@5", "unbiased"), ("DCG@5", "deconvolved")),
        (("nDCG@5", "deconvolved"), ("nDCG@5", "unbiased")),
        (("R@5", "measured"), ("R@5", "deconvolved")),
        (("R@5", "unbiased"), ("R@5", "tempered")),
        (("R@1", "tempered"), ("P@5", "measured")),
        (("P@1", "tempered"), ("nDCG@5", "measured")),
        (("nDCG@1", "tempered"), ("F1@5", "measured")),
        (("R@5", "unbiased"), ("R@3", "deconvolved")),
        (("R", "tempered"), ("R@100", "measured")),
    ],
)
def test_the_order_of_numbers(better: tuple[str, str], worse: tuple[str, str]) -> None:
    one, other = estimate(*better), estimate(*worse)
    assert headline._order(one) < headline._order(other)
    first, second = sorted(Level, key=lambda level: level.rank)[:2]
    low, high = estimate(*better, level=second), estimate(*worse, level=first)
    assert headline._order(high) < headline._order(low)


def test_only_usable_corrected_numbers_can_be_apart() -> None:
    """Two intervals that do not meet, each of a corrected number that can be used."""

    def apart(*pairs: tuple[str, float, Level]) -> list[tuple[Any, Any]]:
        made = [estimate("R@5", name, level, value) for name, value, level in pairs]
        return [(e.details["first"], e.details["second"]) for e in judgement._disjoint(made)]

    good, bad = Level.CONDITIONAL, sorted(Level, key=lambda level: level.rank)[-1]
    assert apart(("unbiased", 0.2, good), ("deconvolved", 0.8, good)) == [
        ("unbiased", "deconvolved")
    ]
    assert apart(("deconvolved", 0.8, good), ("unbiased", 0.2, good)) == [
        ("deconvolved", "unbiased")
    ]
    assert apart(("unbiased", 0.2, good), ("deconvolved", 0.39, good)) == []
    assert apart(("unbiased", 0.2, good), ("vanilla", 0.8, good)) == []
    assert apart(("unbiased", 0.2, bad), ("deconvolved", 0.8, good)) == []
    other = estimate("P@5", "deconvolved", good, 0.9)
    assert list(judgement._disjoint([estimate("R@5", "unbiased"), other])) == []


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
    sentence = headline.comparison([judged], Run(Source(), 100, 0, 0.95))
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
        (Standing.DOUBTFUL, [GOOD], "By ", f"; of what it does not touch, {BEST}; {NEXT}"),
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
