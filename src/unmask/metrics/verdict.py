"""What an estimate may claim: a level, the reason for it, and what to do.

A `Verdict` is a value that code decides on; its English is made last, in `Verdict.sentence`. Here
one number is judged by itself; `judgement` then looks at all numbers of a run together.

- `measured`: from an audit, or from labels that somebody declared complete;
- `conditional`: right if the stated propensities are and labels go missing independently;
- `wide`: as above, but the interval is too wide to use;
- `doubtful`: biased by design, on recorded labels that nobody declared complete, or something in
  this run speaks against the assumptions;
- `unusable`: refuted, carried by a handful of rows, or beyond what the metric can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from unmask._messages import function, setting
from unmask._text import format_value
from unmask.metrics.registry import ESTIMATORS
from unmask.metrics.robustness import between
from unmask.propensity.models import Source

Interval = tuple[float, float]
Details = Mapping[str, Any]


class Level(StrEnum):
    """What a number may claim, most first; levels compare by that order.

    Examples
    --------
    >>> Level.MEASURED < Level.CONDITIONAL < Level.WIDE < Level.DOUBTFUL < Level.UNUSABLE
    True
    >>> max(Level.WIDE, Level.CONDITIONAL).value, Level.WIDE == "wide"
    ('wide', True)
    """

    MEASURED = "measured"
    CONDITIONAL = "conditional"
    WIDE = "wide"
    DOUBTFUL = "doubtful"
    UNUSABLE = "unusable"

    @property
    def rank(self) -> int:
        """Position in the order, 0 for `measured`."""
        return _RANKS[self]

    def __lt__(self, other: str) -> bool:
        """Whether this level claims more."""
        return self.rank < Level(other).rank

    def __le__(self, other: str) -> bool:
        """Whether this level claims as much or more."""
        return self.rank <= Level(other).rank

    def __gt__(self, other: str) -> bool:
        """Whether this level claims less."""
        return self.rank > Level(other).rank

    def __ge__(self, other: str) -> bool:
        """Whether this level claims as little or less."""
        return self.rank >= Level(other).rank


_RANKS = {level: rank for rank, level in enumerate(Level)}


class Reason(StrEnum):
    """Why an estimate has its level; what the numbers in `Verdict.details` are about.

    Examples
    --------
    >>> from unmask import TopK, evaluate
    >>> top, labels = TopK([[0]] * 500, [[1.0]] * 500), [[1, 0]] * 200 + [[0, 1]] * 300
    >>> evaluate(top, labels, metrics=["P@1"])["P@1", "vanilla"].verdict.reason
    <Reason.RECORDED_LABELS: 'recorded-labels'>
    """

    OBSERVED_LABELS = "observed-labels"
    """On observed labels that are declared complete."""
    RECORDED_LABELS = "recorded-labels"
    """On recorded labels, of which nobody said that none is missing."""
    STATED_PROPENSITIES = "stated-propensities"
    WIDE = "wide"
    BIASED_BY_DESIGN = "biased-by-design"
    FEW_ROWS = "few-rows"
    OUTSIDE_RANGE = "outside-range"
    AS_WIDE_AS_RANGE = "as-wide-as-range"
    OVERFLOW = "overflow"
    NO_LABELS = "no-labels"
    REFUSED = "refused"
    MISFIT = "misfit"
    UNEQUAL_ROWS = "unequal-rows"
    FEW_OBSERVED = "few-observed"
    TOO_MANY_COUNTS = "too-many-counts"
    PROPENSITIES_TOO_LOW = "propensities-too-low"
    DEPENDENT_LABELS = "dependent-labels"
    CLOSED = "closed"
    """Labels of a hierarchy imply one another, so that those of a row are lost together."""
    DRAWS_REFUSED = "draws-refused"
    LEFT_OUT = "left-out"
    """Rows that lost all their labels are not in the file, and the estimator needs them."""
    REFUTED = "refuted"
    """Something else in this run refutes the assumptions; `details["evidence"]` says what."""
    DISJOINT = "disjoint"
    """Another estimator of the same metric has an interval that does not meet this one."""
    ROW_EFFORT = "row-effort"
    """The mask model says that labels of a row are lost together; the estimator assumes not."""
    SCORE_SLOPE = "score-slope"
    """Labels are kept by their score, for which corrections of recall do not allow."""
    FORMULA = "formula"
    """Propensities follow from a formula that nobody measured, and real labels depart from it."""
    SPURIOUS = "spurious"
    """Some observed labels are wrong, and corrections allow for lost ones only."""
    AUDITED = "audited"
    """From judgements with known inclusion probabilities."""
    NOT_JUDGED = "not-judged"
    """The audit did not judge what the metric needs."""
    PART_NOT_JUDGED = "part-not-judged"
    """A part of the rows or pairs has no answer at all; `details["parts"]` says which."""
    UNDECIDED = "undecided"
    """Answers that people did not make, or made differently, move the number beyond its reach."""
    NO_RELEVANT = "no-relevant"
    """Of what was judged no label is relevant, and the metric divides by how many are."""
    LABELS_NOT_JUDGED = "labels-not-judged"
    """A mean over labels was measured on some of them: the others are in no judged row."""
    NOT_OFFERED = "not-offered"
    """The metric counts true labels that judges could not choose, or that have no scores."""


class Advice(StrEnum):
    """What to do about it.

    Examples
    --------
    >>> str(Verdict(Level.WIDE, Reason.WIDE, Advice.MORE_ROWS, {"half_width": 0.2}).advice)
    'more-rows'
    """

    NONE = ""
    USE_DECONVOLVED = "use-deconvolved"
    RAISE_PROPENSITIES = "raise-propensities"
    SMALLER_K = "smaller-k"
    OTHER_ESTIMATOR = "other-estimator"
    AUDIT = "audit"
    MORE_ROWS = "more-rows"
    LARGER_AUDIT = "larger-audit"
    JUDGE_REST = "judge-rest"
    DECIDE = "decide"
    PUT_BACK = "put-back"
    STATE_VOCABULARY = "state-vocabulary"


class Outcome(StrEnum):
    """What a comparison found: `details["outcome"]` of its verdict.

    Examples
    --------
    >>> from unmask import TopK, compare
    >>> labels = [[1, 0]] * 90 + [[0, 1]] * 10
    >>> scores = [[1.0]] * 100
    >>> systems = {"first": TopK([[1]] * 100, scores), "new": TopK([[0]] * 100, scores)}
    >>> tables = compare(systems, labels, metrics=["P@1"], complete=True)
    >>> tables["new"]["P@1", "vanilla"].verdict.details["outcome"] == Outcome.BETTER
    True
    """

    BETTER = "better"
    WORSE = "worse"
    HIGHER = "higher"
    """A higher value on recorded labels, which does not say that the system is better."""
    LOWER = "lower"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class Verdict:
    """What an estimate may claim.

    Parameters
    ----------
    level : Level
        What the number may claim.
    reason : Reason
        Why, as a code.
    advice : Advice, default Advice.NONE
        What to do, as a code.
    details : mapping of str to number or name
        What the reason is about, such as `half_width` or `design_effect`. The verdict of a
        comparison also has `outcome`, `system`, `first` and `p_value`.

    Examples
    --------
    >>> carried = {"count": 3, "rows": 5000, "of": "rows", "share": 0.8}
    >>> verdict = Verdict(Level.UNUSABLE, Reason.FEW_ROWS, Advice.USE_DECONVOLVED, carried)
    >>> print(verdict)
    unusable: 3 of 5,000 rows carry 80% of the estimate; use deconvolved
    >>> verdict.to_dict()["reason"], verdict.level > "wide"
    ('few-rows', True)
    """

    level: Level
    reason: Reason
    advice: Advice = Advice.NONE
    details: Details = field(default_factory=dict, hash=False)

    @property
    def usable(self) -> bool:
        """Whether the number may be used at all: any level but `unusable`."""
        return self.level < Level.UNUSABLE

    @property
    def condition(self) -> str:
        """What a conditional number is conditional on, in English; "" for other levels."""
        audited = self.reason is Reason.AUDITED
        conditional = self.level in (Level.CONDITIONAL, Level.WIDE) and not audited
        return _condition(self.details) if conditional else ""

    @property
    def sentence(self) -> str:
        """Level, reason and advice in English."""
        return f"{self.level.value}: {self.why}"

    @property
    def why(self) -> str:
        """Reason and advice in English; of a comparison first its outcome."""
        clauses = (
            _outcome(self.details) if self.usable else "",
            _SENTENCES[self.reason](self.details),
            _share(self.details),
            _ADVICE[self.advice].format(
                clip=function("propensity.clip"), vocabulary=setting("vocabulary", of="audit.plan")
            ),
        )
        return "; ".join(clause for clause in clauses if clause)

    def __str__(self) -> str:
        """The sentence."""
        return self.sentence

    def to_dict(self) -> dict[str, str]:
        """Level, reason, advice and outcome as codes; the English as `condition`, `why`, `text`."""
        return {
            "level": self.level.value,
            "reason": self.reason.value,
            "advice": self.advice.value,
            "condition": self.condition,
            "outcome": str(self.details.get("outcome", "")),
            "why": self.why,
            "text": self.sentence,
        }


WIDE = 0.05
"""The half-width beyond which a number is too wide to use, relative to the range of its metric: an
error of that size misleads, so an interval has to exclude it (decision 14)."""
WIDE_OF_VALUE = 0.1
"""The same of a metric without a largest value, relative to the number itself."""
BEYOND = 1e-9
"""Rounding, by which a number may leave the range of its metric."""
MEASURED = Verdict(Level.MEASURED, Reason.OBSERVED_LABELS)
CONDITIONAL = Verdict(Level.CONDITIONAL, Reason.STATED_PROPENSITIES)


def claim(estimator: str, *, complete: bool) -> Verdict:
    """What an estimator may claim before its numbers are looked at.

    Parameters
    ----------
    estimator : str
        A name in `ESTIMATORS`.
    complete : bool
        Whether nothing has to be corrected: no propensity was given, or all are 1. That labels
        without propensities were declared complete, `judgement` checks.

    Returns
    -------
    Verdict
        `measured` for complete labels; else `doubtful` for an estimator that is biased by design
        and `conditional` for the others.

    Examples
    --------
    >>> print(claim("vanilla", complete=False))
    doubtful: measures the observed labels only
    >>> claim("vanilla", complete=True).level.value, claim("unbiased", complete=False).level.value
    ('measured', 'conditional')
    """
    if complete:
        return MEASURED
    if ESTIMATORS[estimator].caution:
        details = {"estimator": estimator}
        return Verdict(Level.DOUBTFUL, Reason.BIASED_BY_DESIGN, details=details)
    return CONDITIONAL


def judge(
    value: float,
    interval: Interval,
    *,
    rows: int,
    heaviest: tuple[int, float],
    at_most: float | None,
    claimed: Verdict,
    advice: Advice = Advice.NONE,
    of: str = "rows",
) -> Verdict:
    """Whether a number can be used, by its interval and by the rows that carry it.

    Unusable: a handful of rows (at most 16, and fewer than one in 50) carry half of it, or the
    number lies outside the range of the metric or its interval is as wide. Wide: the interval's
    half-width exceeds a twentieth of that range (a tenth of the value where there is none) or half
    of the value.

    Parameters
    ----------
    value : float
        The estimate.
    interval : pair of float
        Its ends.
    rows : int
        How many rows (or labels, see `of`) there are.
    heaviest : pair of int and float
        How many of the largest rows carry which share of Σ|x|.
    at_most : float or None
        The largest value of the metric; None if it has none, and widths are relative to `value`.
    claimed : Verdict
        The verdict if nothing speaks against the number (`claim`).
    advice : Advice, default Advice.NONE
        What to do if it is unusable.
    of : str, default "rows"
        What the estimate is a mean of: "rows" or "labels".

    Returns
    -------
    Verdict

    Examples
    --------
    >>> usual = {"rows": 900, "heaviest": (16, 0.1), "at_most": 1.0, "claimed": CONDITIONAL}
    >>> print(judge(0.5, (0.3, 0.7), **usual))
    wide: ± 0.2000
    >>> print(judge(1.2, (1.1, 1.3), **usual))
    unusable: 1.2000 is more than the metric can be
    """
    half = (interval[1] - interval[0]) / 2
    count, share = heaviest
    if count * 50 < rows and share >= 0.5:
        carried = {"count": count, "rows": rows, "of": of, "share": share}
        return Verdict(Level.UNUSABLE, Reason.FEW_ROWS, advice, carried)
    if at_most is not None and not -BEYOND <= value <= at_most + BEYOND:
        by_chance = interval[0] <= at_most and interval[1] >= 0
        details = {"value": value, "by_chance": by_chance}
        return Verdict(Level.UNUSABLE, Reason.OUTSIDE_RANGE, advice, details)
    if at_most is not None and not half < at_most / 2:
        return Verdict(Level.UNUSABLE, Reason.AS_WIDE_AS_RANGE, advice, {"half_width": half})
    if too_wide(half, value, at_most):
        if claimed.level > Level.WIDE:
            return replace(claimed, details={**claimed.details, "half_width": half})
        return Verdict(Level.WIDE, Reason.WIDE, details={"half_width": half})
    return claimed


def too_wide(
    half_width: float,
    value: float,
    at_most: float | None,
    *,
    measured: bool = False,
    limit: float = WIDE,
) -> bool:
    """Whether a number cannot be used with such an interval.

    An estimate is also too wide beyond half of its value; what an audit measured is not.

    Parameters
    ----------
    half_width : float
        Half the width of the interval.
    value : float
        The number.
    at_most : float or None
        The largest value of the metric; None if it has none.
    measured : bool, default False
        Whether an audit measured the number: then the width is relative to the range alone (to 1
        where there is none), or to the number where that is larger.
    limit : float, default WIDE
        The largest half-width that can be used, relative to the range. An estimate of a metric
        without one is held to `WIDE_OF_VALUE` instead.

    Returns
    -------
    bool

    Examples
    --------
    >>> too_wide(0.06, 0.5, 1.0), too_wide(0.04, 0.5, 1.0), too_wide(0.04, 0.05, 1.0)
    (True, False, True)
    >>> too_wide(0.04, 0.05, 1.0, measured=True), too_wide(0.06, 0.5, 1.0, limit=0.1)
    (False, False)
    >>> too_wide(0.3, 8.0, None, measured=True), too_wide(0.5, 8.0, None, measured=True)
    (False, True)
    """
    size = abs(value)
    if measured:
        return half_width > limit * max(at_most or 1.0, size)
    most = WIDE_OF_VALUE * max(size, 1e-300) if at_most is None else limit * at_most
    return half_width > most or half_width > size / 2 > 0


def refused(variance: float, least_variance: float, misfit: float) -> Verdict:
    """Unusable: the observed label counts contradict the propensities.

    Parameters
    ----------
    variance : float
        Of the number of observed labels per row.
    least_variance : float
        What missing labels alone would make it.
    misfit : float
        Share of rows whose counts no truth explains.

    Returns
    -------
    Verdict
    """
    details = {"variance": variance, "least_variance": least_variance, "misfit": misfit}
    return Verdict(Level.UNUSABLE, Reason.REFUSED, details=details)


def outcome(
    claimed: Verdict,
    value: float,
    interval: Interval,
    p_value: float,
    *,
    higher_is_better: bool,
    names: tuple[str, str],
) -> Verdict:
    """The verdict on a difference: what it may claim, and which system is better.

    Parameters
    ----------
    claimed : Verdict
        What the difference may claim.
    value : float
        The difference, the second system taken from the first.
    interval : pair of float
        Its ends; a difference is clear if both are on one side of 0.
    p_value : float
    higher_is_better : bool
        Of the metric.
    names : pair of str
        Of the two systems.

    Returns
    -------
    Verdict

    Examples
    --------
    >>> ours = outcome(MEASURED, 0.1, (0.05, 0.15), 0.002, higher_is_better=True, names=("a", "b"))
    >>> print(ours)
    measured: a is better than b (p = 0.002); on labels declared complete
    """
    better = value > 0 if higher_is_better else value < 0
    clear = interval[0] > 0 or interval[1] < 0
    result = (Outcome.BETTER if better else Outcome.WORSE) if clear else Outcome.UNCLEAR
    about = {"outcome": result, "system": names[0], "first": names[1], "p_value": p_value}
    return replace(claimed, details={**claimed.details, **about})


def _outcome(details: Details) -> str:
    if "outcome" not in details:
        return ""
    p_value = f"(p = {format_value(details['p_value'], '.2g')})"
    if details["outcome"] == Outcome.UNCLEAR:
        return f"no clear difference {p_value}"
    outcome = Outcome(details["outcome"])
    verb = "scores" if outcome in (Outcome.HIGHER, Outcome.LOWER) else "is"
    return f"{details['system']} {verb} {outcome.value} than {details['first']} {p_value}"


def _condition(details: Details) -> str:
    source = details.get("source")
    source = source if isinstance(source, Source) else Source()
    rows = ", and rows that lost all of them were left out" if details.get("left_out") else ""
    return f"if {source.assumption}{rows}"


def _outside(details: Details) -> str:
    number = format_value(details["value"], ".4f")
    if details["value"] < 0:
        return f"{number} is less than the metric can be"
    if details.get("by_chance"):
        return f"{number} is more than the metric can be, perhaps by chance"
    carried = (
        f", and not by chance: {format_value(round(details['effective']), ',')} rows carry it"
        if "effective" in details
        else ""
    )
    return f"{number} is more than the metric can be{carried}{_left_out(details)}"


def _left_out(details: Details) -> str:
    """What a number above its range says of the propensities; nothing where that is not known."""
    if "empty_rows" not in details:
        return ""
    if details["empty_rows"]:
        return "; the propensities are too low"
    return (
        "; the propensities are too low, or rows that lost all their labels were left out of the "
        "file, which has none"
    )


def _disjoint(details: Details) -> str:
    other, value = details["other"], format_value(details["other_value"], ".4f")
    return f"{other} says {value}, beyond the interval: an assumption does not hold"


def _share(details: Details) -> str:
    if "propensity_share" not in details:
        return ""
    return f"{_percent(details['propensity_share'])} of the variance is due to the propensities"


def _biased(details: Details) -> str:
    return ESTIMATORS[details["estimator"]].caution + _width(details)


def _width(details: Details) -> str:
    return f"; wide: {_half(details)}" if "half_width" in details else ""


def _carried(details: Details) -> str:
    count, rows = format_value(details["count"]), format_value(details["rows"])
    return f"{count} of {rows} {details['of']} carry {_percent(details['share'])} of the estimate"


def contradiction(details: Details) -> str:
    """Why observed label counts cannot come from the propensities, in English."""
    variance, least = details["variance"], details["least_variance"]
    symptom = (
        f"observed labels per row vary too little (variance {format_value(variance, '.2f')}; "
        f"missing labels alone would make it {format_value(least, '.2f')})"
        if variance < least
        else f"{_percent(details['misfit'])} of the rows have label counts that no truth explains"
    )
    return f"the observed labels cannot come from the stated propensities: {symptom}"


def _audited(details: Details) -> str:
    parts = [f"from {format_value(details['judged'])} judged {details['unit']}"]
    if details["observed_free"]:
        parts.append("observed labels taken as true")
    if details["unanswered"]:
        parts.append(f"{format_value(details['unanswered'])} more without an answer")
    if "undecided" in details:
        parts.append(f"whatever the {format_value(details['undecided'])} undecided mean")
    return "; ".join([*parts, _half(details)])


def _not_offered(details: Details) -> str:
    named = format_value(details["unlisted"])
    if details["vocabulary"] == "stated":
        why = f"judges named {named} labels that are not in the data, which have no scores"
    elif details["unlisted"]:
        why = (
            "judges were offered only labels that somebody recorded or predicted, and may have "
            f"overlooked some beside the {named} others that they named"
        )
    else:
        why = (
            "judges were offered only labels that somebody recorded or predicted, and other true "
            "labels are not counted"
        )
    return f"{why}; {_audited(details)}"


def _half(details: Details) -> str:
    half = details["half_width"]
    return f"± {format_value(half, '.4f')}" if math.isfinite(half) else "± ∞"


def _percent(share: float) -> str:
    return format_value(share, ".0%")


_SENTENCES: dict[Reason, Callable[[Details], str]] = {
    Reason.OBSERVED_LABELS: lambda _: "on labels declared complete",
    Reason.RECORDED_LABELS: lambda details: f"on recorded labels{_width(details)}",
    Reason.STATED_PROPENSITIES: _condition,
    Reason.WIDE: _half,
    Reason.BIASED_BY_DESIGN: _biased,
    Reason.FEW_ROWS: _carried,
    Reason.OUTSIDE_RANGE: _outside,
    Reason.AS_WIDE_AS_RANGE: lambda _: "the interval is as wide as the range of the metric",
    Reason.OVERFLOW: lambda _: (
        "single rows contribute more than 1e140, the propensities are too low for this estimator"
    ),
    Reason.NO_LABELS: lambda _: "no label is observed in a way that tells the metric",
    Reason.REFUSED: contradiction,
    Reason.MISFIT: lambda details: (
        f"{_percent(details['misfit'])} of the rows do not fit the stated propensities"
    ),
    Reason.UNEQUAL_ROWS: lambda details: (
        "propensities differ between rows; ignoring that, the estimate would be "
        f"{format_value(details['pooled'], '.4f')}"
    ),
    Reason.FEW_OBSERVED: lambda details: (
        f"{details['metric']} needs more than {_percent(details['observed'])} of the labels"
    ),
    Reason.TOO_MANY_COUNTS: lambda details: (
        f"{format_value(details['counts'])} different counts of observed labels are too many to "
        f"deconvolve {'for sets of up to' if details.get('sets') else 'at k ='} {details['k']}"
    ),
    Reason.PROPENSITIES_TOO_LOW: lambda _: (
        "propensities are so low that label counts say nothing of the true ones (Σ 1/p of the "
        "observed labels is beyond 2³⁸)"
    ),
    Reason.DEPENDENT_LABELS: lambda details: (
        "labels of a row are kept or lost together (design effect "
        f"{format_value(details['design_effect'], '.1f')}), and corrections assume that they are "
        "not"
    ),
    Reason.LABELS_NOT_JUDGED: lambda details: (
        f"measured on {format_value(details['labels_judged'])} of "
        f"{format_value(details['labels_observed'])} labels: the others are in no judged row, "
        "and rare labels are not like frequent ones"
    ),
    Reason.CLOSED: lambda _: (
        "labels of a hierarchy imply one another: those of a row are kept or lost together, and "
        "corrections assume that they are not"
    ),
    Reason.DRAWS_REFUSED: lambda details: (
        f"the data contradict {_percent(details['refused'])} of the propensities that the "
        "estimate allows"
    ),
    Reason.LEFT_OUT: lambda details: (
        "no row is without labels, where up to "
        f"{_percent(details['lost'])} of such rows lose them all: those were left out, and "
        "corrections row by row need them"
    ),
    Reason.REFUTED: lambda details: f"this run contradicts the assumptions: {details['evidence']}",
    Reason.ROW_EFFORT: lambda _: (
        "by the mask model labels of a row are kept or lost together, and corrections row by row "
        "assume that they are not"
    ),
    Reason.SCORE_SLOPE: lambda details: (
        "labels are kept by the model's score (slope "
        f"{format_value(details['slope'], '.2g')}), which makes corrected recall overshoot"
    ),
    Reason.FORMULA: lambda details: (
        f"{between(details['low'], details['high'])} if the formula is off by "
        f"{details['gamma']:g} times, as it was on real labels"
    ),
    Reason.SPURIOUS: lambda details: (
        f"{format_value(details['spurious'], '.1%')} of the observed labels are wrong, and "
        "corrections allow for lost ones only"
    ),
    Reason.DISJOINT: _disjoint,
    Reason.AUDITED: _audited,
    Reason.PART_NOT_JUDGED: lambda details: (
        f"nobody judged {details['parts']}: {format_value(details['unjudged'])} of "
        f"{format_value(details['of'])} {details['unit']}"
    ),
    Reason.UNDECIDED: lambda details: (
        f"{format_value(details['undecided'])} of {format_value(details['judged'])} judged "
        f"{details['unit']} are undecided: between "
        f"{format_value(details['undecided_low'], '.4f')} and "
        f"{format_value(details['undecided_high'], '.4f')} by what they mean"
    ),
    Reason.NOT_OFFERED: _not_offered,
    Reason.NOT_JUDGED: lambda details: (
        f"this audit ({details['design']}) did not judge what {details['metric']} needs; plan one "
        "for that metric"
    ),
    Reason.NO_RELEVANT: lambda details: f"no relevant label among the judged {details['unit']}",
}

_ADVICE: dict[Advice, str] = {
    Advice.NONE: "",
    Advice.USE_DECONVOLVED: "use deconvolved",
    Advice.RAISE_PROPENSITIES: "raise them with {clip}",
    Advice.SMALLER_K: "use a smaller k, or another estimator",
    Advice.OTHER_ESTIMATOR: "use another estimator",
    Advice.AUDIT: "audit some hundred rows",
    Advice.MORE_ROWS: "more rows narrow it",
    Advice.LARGER_AUDIT: "a larger audit narrows it",
    Advice.JUDGE_REST: "judge some of them",
    Advice.DECIDE: "let somebody decide them (--adjudicator)",
    Advice.PUT_BACK: "put the rows without labels back",
    Advice.STATE_VOCABULARY: "plan the audit with the whole vocabulary, {vocabulary}",
}
