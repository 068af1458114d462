"""Claims: one table of rules, from facts of a run and of a number to a level.

    facts ──▶ rule ──▶ level, reason, advice, details ──▶ one English sentence, made last

A `Run` holds the facts that all numbers of one call share, an estimate those of its own. Numbers
are judged by themselves first (`judge`: width, range, the rows that carry them), then together
(`judge_run`), because together they can contradict the propensities or the independence of losses:

- an unbiased P@k (or another share of right predictions) significantly above 1 refutes propensities
  as too low; on a file without empty rows it may also mean that rows which lost all their labels
  were left out, which `deconvolved` allows for and corrections row by row do not;
- a deconvolution that the data refuse refutes propensities and independence together; a misfit
  makes them doubtful;
- a mask model with row effort, a score slope or wrong labels, a hierarchy, and an audit that shows
  labels kept or lost together name corrections that do not allow for it;
- propensities by a formula were measured by nobody, and on real labels they were off by 1.5 times:
  a number that such a factor moves too far is wide, however narrow its interval;
- without propensities, and unless labels are declared complete, a number is one of recorded labels;
- estimators of one metric whose intervals do not meet make each other doubtful, and a measured
  number that excludes a corrected one makes all corrected numbers doubtful.

`RULES` is the table (a reason, its level, when it holds, how it reads), `EVIDENCE` that of what
speaks against a run, `STANDINGS` that of what a run as a whole allows; to add a rule, add a row.
Every command that corrects by propensities asks these tables (`evaluation.judge_propensities`), so
the same data, predictions and propensities have one verdict, `Run.sentence`.

Levels, from the strongest claim to the weakest:

- `measured`: from an audit, or from labels that somebody declared complete;
- `conditional`: right if the stated propensities are and labels go missing independently;
- `wide`: as above, but the interval is too wide to use;
- `doubtful`: biased by design, on recorded labels that nobody declared complete, or something in
  this run speaks against the assumptions;
- `unusable`: refuted, carried by a handful of rows, or beyond what the metric can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import combinations, islice, product
from statistics import NormalDist
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask._messages import function, setting
from unmask._text import format_value
from unmask.metrics.registry import ESTIMATORS, GAMMAS, METRICS, UNCONDITIONAL, split
from unmask.propensity.estimate import TOGETHER
from unmask.propensity.models import Source, SourceKind

if TYPE_CHECKING:
    from unmask.metrics.table import Estimate, Table

Interval = tuple[float, float]
Details = Mapping[str, Any]

BEYOND = 1e-9
"""Rounding, by which a number may leave the range of its metric."""
WIDE = 0.05
"""The half-width beyond which a number is too wide to use, relative to the range of its metric: an
error of that size misleads, so an interval has to exclude it (decision 14)."""
WIDE_OF_VALUE = 0.1
"""Limit for a metric without a largest value, relative to the number itself."""
ALPHA = 0.01
"""The chance, over all P@k of a run together, that one of them is called above 1 by chance."""
SPURIOUS = 0.01
"""Wrong labels count against corrections if even the lower end of their share is above this."""
LEFT_OUT = 0.02
"""The share of rows that may lose all labels from which on the absence of empty rows matters."""
BY_CHANCE = 0.01
"""A small file may lack empty rows by chance; their absence counts where that is rarer."""
TRUTHFUL = ("unbiased", "subsampled", "deconvolved")
"""Estimators that aim at the true metric, so that their intervals should meet."""
PRECISIONS = frozenset({"P", "sample-P", "micro-P", "macro-P", "weighted-P", "mAP"})
"""Metrics that an unbiased estimate can only put above 1 if propensities are too low."""
BY_ENTRY = ("P", "DCG", "nDCG")
"""Metrics that propensities per entry correct where these depend on the score."""
REFUSED_DRAWS = 0.1
"""A share of drawn propensities that the data contradict, from which on it is worth a word."""
OUTCOME = ("outcome", "system", "first", "p_value")
"""Details of the verdict on a difference, which stay whatever the number may claim."""


class Level(StrEnum):
    """Claim of a number, from the strongest to the weakest; levels compare by that order.

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
        """True if this level claims more."""
        return self.rank < Level(other).rank

    def __le__(self, other: str) -> bool:
        """True if this level claims as much or more."""
        return self.rank <= Level(other).rank

    def __gt__(self, other: str) -> bool:
        """True if this level claims less."""
        return self.rank > Level(other).rank

    def __ge__(self, other: str) -> bool:
        """True if this level claims as little or less."""
        return self.rank >= Level(other).rank


_RANKS = {level: rank for rank, level in enumerate(Level)}


class Reason(StrEnum):
    """Why an estimate has its level; says what the numbers in `Verdict.details` are about.

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
    """No label that was judged is relevant, and the metric divides by how many are."""
    LABELS_NOT_JUDGED = "labels-not-judged"
    """A mean over labels was measured on some of them: the others are in no judged row."""
    NOT_OFFERED = "not-offered"
    """The metric counts true labels that judges could not choose, or that have no scores."""


class Advice(StrEnum):
    """Remedy for what a verdict says.

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
    """Result of a comparison: `details["outcome"]` of its verdict.

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
    """Claim of an estimate.

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
        """True unless the level is `unusable`."""
        return self.level < Level.UNUSABLE

    @property
    def condition(self) -> str:
        """The condition of a conditional number, in English; "" for other levels."""
        audited = self.reason is Reason.AUDITED
        conditional = self.level in (Level.CONDITIONAL, Level.WIDE) and not audited
        return _condition(self.details) if conditional else ""

    @property
    def sentence(self) -> str:
        """Level, reason and advice in English."""
        return f"{self.level.value}: {self.why}"

    @property
    def why(self) -> str:
        """Reason and advice in English; first the outcome, if it is that of a comparison."""
        share = "{propensity_share:.0%} of the variance is due to the propensities"
        clauses = (
            _outcome(self.details) if self.usable else "",
            _filled(WORDS[self.reason], self.details),
            _filled(share, self.details) if "propensity_share" in self.details else "",
            ADVICE[self.advice].format(
                clip=function("propensity.clip"), vocabulary=setting("vocabulary", of="audit.plan")
            ),
        )
        return "; ".join(clause for clause in clauses if clause)

    def __str__(self) -> str:
        """The sentence."""
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        """Level, reason, advice and outcome as codes; the English as `condition`, `why`, `text`."""
        return {
            "level": self.level.value,
            "reason": self.reason.value,
            "advice": self.advice.value,
            "condition": self.condition,
            "outcome": str(self.details.get("outcome", "")),
            "why": self.why,
            "text": self.sentence,
            "details": {name: _plain(value) for name, value in self.details.items()},
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Verdict:
        """Return the verdict that `to_dict` stored."""
        details = dict(stored["details"])
        if "source" in details:
            details["source"] = source_from_dict(details["source"])
        if "evidence" in details:
            details["evidence"] = Evidence.from_dict(details["evidence"])
        codes = Level(stored["level"]), Reason(stored["reason"]), Advice(stored["advice"])
        return cls(*codes, details)


def _plain(value: Any) -> Any:
    if isinstance(value, Source | Evidence):
        return value.to_dict()
    return str(value) if isinstance(value, StrEnum) else value


def source_from_dict(stored: Mapping[str, Any]) -> Source:
    """Return the source that `Source.to_dict` stored."""
    changes = tuple((str(name), float(number)) for name, number in stored["changes"])
    parameters = dict(stored["parameters"])
    return Source(SourceKind(stored["kind"]), parameters, stored["name"], changes)


# --- facts of a run


class EvidenceKind(StrEnum):
    """Contradictions of the propensities, or of independent losses, that a run can show."""

    ABOVE_RANGE = "above-range"
    """An unbiased precision is more than 1 (an error less than 0), and not by chance."""
    REFUSED_FIT = "refused-fit"
    """No distribution of true labels makes the observed label counts."""
    MISFIT = "misfit"
    """Some rows have label counts that hardly any distribution of true labels makes."""
    DISJOINT = "disjoint"
    """Two estimators of one metric have intervals that do not meet."""
    AUDIT_DISAGREES = "audit-disagrees"
    """A measured number lies outside the interval of the corrected one."""
    SPURIOUS_LABELS = "spurious-labels"
    """The audit found observed labels to be wrong, which no mask explains."""
    DEPENDENT_LABELS = "dependent-labels"
    """The audit behind the propensities shows labels of a row kept or lost together."""
    REJECTED_TEST = "rejected-test"
    """A test of the labels rejects the propensities; `diagnose` and `tune` make some."""


class Standing(StrEnum):
    """State of the assumptions, as far as a run can tell."""

    COMPLETE = "complete"
    """Labels are declared complete: nothing was assumed of missing ones."""
    RECORDED = "recorded"
    """Nobody said that labels are complete, nor how they go missing."""
    NOT_REFUTED = "not-refuted"
    DOUBTFUL = "doubtful"
    REFUTED = "refuted"


@dataclass(frozen=True)
class Evidence:
    """One thing that speaks against the assumptions.

    Parameters
    ----------
    kind : EvidenceKind
    refutes : bool
        Whether corrected numbers cannot be used at all (else they are doubtful).
    details : mapping of str to number or name
        What it is about.

    Examples
    --------
    >>> about = {"metric": "P@1", "value": 1.14, "empty_rows": 12}
    >>> print(Evidence(EvidenceKind.ABOVE_RANGE, True, about).sentence)
    P@1 comes to 1.140, more than 1, so the propensities are too low
    """

    kind: EvidenceKind
    refutes: bool
    details: Details = field(default_factory=dict, hash=False)

    @property
    def sentence(self) -> str:
        """The contradiction in English."""
        return _filled(EVIDENCE[self.kind].words, self.details)

    @property
    def symptom(self) -> str:
        """The contradiction without what follows from it."""
        return _symptom(self.details) if self.kind is EvidenceKind.ABOVE_RANGE else self.sentence

    def __str__(self) -> str:
        """The symptom."""
        return self.symptom

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; the English is `text`."""
        return {
            "kind": self.kind.value,
            "refutes": self.refutes,
            "details": dict(self.details),
            "text": self.sentence,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Evidence:
        """Return the evidence that `to_dict` stored."""
        return cls(EvidenceKind(stored["kind"]), stored["refutes"], dict(stored["details"]))


class _Stated(NamedTuple):
    """Claims of a source about the masks."""

    by_formula: bool
    independent: bool
    score_slope: float
    spurious: float


@dataclass(frozen=True)
class Run:
    """Facts that all numbers of one call of `evaluate` or `compare` share.

    Parameters
    ----------
    source : Source
        Where the propensities come from.
    rows : int
        How many rows were evaluated.
    empty_rows : int
        How many of them have no observed label.
    confidence : float
        Of the intervals.
    lost : float, default 0.0
        At most such a share of rows like these loses all labels, by the propensities.
    complete : bool, default False
        Whether labels are declared complete, in words or by propensities that are all 1.
    evidence : tuple of Evidence, default ()
        What speaks against the assumptions, the gravest first (`judge_run`).
    ignored_pairs, verified_labels : int, default 0
        Pairs that were left out of rankings and labels, and labels that are certain
        (`judged_pairs`).
    effect : float, default 1.0
        The design effect of labels kept or lost together, which an audit behind the propensities
        shows and nothing allows for.
    closed : bool, default False
        Whether labels were evaluated with all their ancestors in a hierarchy.
    """

    source: Source
    rows: int
    empty_rows: int
    confidence: float
    lost: float = 0.0
    complete: bool = False
    evidence: tuple[Evidence, ...] = ()
    ignored_pairs: int = 0
    verified_labels: int = 0
    effect: float = 1.0
    closed: bool = False

    @property
    def judged_pairs(self) -> str:
        """Effect of judgements of pairs, in a sentence; "" where there are none."""
        clauses = []
        if self.ignored_pairs:
            were = "pair was" if self.ignored_pairs == 1 else "pairs were"
            clauses.append(f"{self.ignored_pairs:,} ignored {were} left out of rankings and labels")
        if self.verified_labels:
            clauses.append(f"{self.verified_labels:,} verified labels count with propensity 1")
        return f"{'; '.join(clauses)}." if clauses else ""

    @cached_property
    def stated(self) -> _Stated:
        """Claims of the propensities' source, read once for all numbers."""
        source = self.source
        return _Stated(source.by_formula, source.independent, source.score_slope, source.spurious)

    @property
    def recorded(self) -> bool:
        """True if nothing is known of what is missing: no propensities, not declared complete."""
        return self.source.kind is SourceKind.NONE and not self.complete

    @cached_property
    def left_out(self) -> bool:
        """True if rows that lost all their labels were left out: none is there, and some must be.

        Then corrections row by row speak of other rows than those at hand; `deconvolved` allows
        for it.
        """
        if self.complete or self.empty_rows or self.lost <= LEFT_OUT:
            return False
        return (1 - self.lost) ** self.rows < BY_CHANCE

    @property
    def standing(self) -> Standing:
        """State of the assumptions, as far as this run can tell."""
        if self.complete and not any(e.kind is EvidenceKind.REJECTED_TEST for e in self.evidence):
            return Standing.COMPLETE
        if self.recorded:
            return Standing.RECORDED
        if not self.evidence:
            return Standing.NOT_REFUTED
        refuted = any(each.refutes for each in self.evidence)
        return Standing.REFUTED if refuted else Standing.DOUBTFUL

    @property
    def sentence(self) -> str:
        """The standing in English, with the gravest evidence: the verdict of every command."""
        gravest = self.evidence[0].sentence if self.evidence else ""
        return STANDINGS[self.standing].words.format(by=self.source.sentence, because=gravest)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; the English is `text`."""
        return {
            "standing": self.standing.value,
            "text": self.sentence,
            "source": self.source.to_dict(),
            "rows": self.rows,
            "empty_rows": self.empty_rows,
            "confidence": self.confidence,
            "lost": self.lost,
            "complete": self.complete,
            "left_out": self.left_out,
            "ignored_pairs": self.ignored_pairs,
            "verified_labels": self.verified_labels,
            "effect": self.effect,
            "closed": self.closed,
            "evidence": [each.to_dict() for each in self.evidence],
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Run:
        """Return the run that `to_dict` stored."""
        names = (
            "rows", "empty_rows", "confidence", "lost", "complete", "ignored_pairs",
            "verified_labels", "effect", "closed",
        )  # fmt: skip
        evidence = tuple(map(Evidence.from_dict, stored["evidence"]))
        facts = {name: stored[name] for name in names}
        return cls(source_from_dict(stored["source"]), evidence=evidence, **facts)


def report(standing: Standing, *, exact: bool) -> str:
    """Say which estimators may be used with such a standing.

    Parameters
    ----------
    standing : Standing
    exact : bool
        Whether unbiased recall is exact enough to need no other estimator.

    Returns
    -------
    str

    Examples
    --------
    >>> report(Standing.NOT_REFUTED, exact=True)
    'Use `unbiased` for every metric.'
    """
    if exact and standing is Standing.NOT_REFUTED:
        return "Use `unbiased` for every metric."
    return STANDINGS[standing].report


# --- one number by itself

MEASURED = Verdict(Level.MEASURED, Reason.OBSERVED_LABELS)
CONDITIONAL = Verdict(Level.CONDITIONAL, Reason.STATED_PROPENSITIES)


def claim(estimator: str, *, complete: bool) -> Verdict:
    """Return the verdict of an estimator before its numbers are looked at.

    Parameters
    ----------
    estimator : str
        A name in `ESTIMATORS`.
    complete : bool
        Whether nothing has to be corrected: no propensity was given, or all are 1. That labels
        without propensities were declared complete, `judge_run` checks.

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
    """Judge a number by its interval and by the rows that carry it.

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
    number = _Number(value, interval, rows, heaviest, at_most, of)
    for rule in RULES:
        details = None if rule.of_number is None else rule.of_number(number)
        if details is None:
            continue
        if claimed.level > rule.level:
            return replace(claimed, details={**claimed.details, **details})
        usable = rule.level < Level.UNUSABLE
        return Verdict(rule.level, rule.reason, Advice.NONE if usable else advice, details)
    return claimed


class _Number(NamedTuple):
    """Facts of one number by itself, as `judge` takes them."""

    value: float
    interval: Interval
    rows: int
    heaviest: tuple[int, float]
    at_most: float | None
    of: str

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return (self.interval[1] - self.interval[0]) / 2


def too_wide(
    half_width: float,
    value: float,
    at_most: float | None,
    *,
    measured: bool = False,
    limit: float = WIDE,
) -> bool:
    """Return whether a number cannot be used with such an interval.

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


def outcome(
    claimed: Verdict,
    value: float,
    interval: Interval,
    p_value: float,
    *,
    higher_is_better: bool,
    names: tuple[str, str],
) -> Verdict:
    """Return the verdict on a difference: what it may claim, and which system is better.

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


def corrected(estimate: Estimate) -> bool:
    """Return whether a number rests on the propensities, as a claim about the truth."""
    return estimate.estimator not in UNCONDITIONAL and estimate.verdict.level > Level.MEASURED


# --- all numbers of a run together


def judge_run(table: Table, *, of_differences: bool = False) -> Table:
    """Judge every number of a table in the light of all.

    Parameters
    ----------
    table : Table
        With verdicts number by number, and its `run`.
    of_differences : bool, default False
        Whether the numbers are differences of systems; then the evidence in the `run` is that of
        the systems, and none is sought in the differences.

    Returns
    -------
    Table
        With the evidence in its `run`; as it was if there is no run.

    Examples
    --------
    >>> from unmask.metrics.table import Estimate, Table
    >>> above = Estimate("P@1", "unbiased", 1.2, 0.02, (1.16, 1.24), 900.0, 0.01, 999, CONDITIONAL)
    >>> beside = Estimate("R@5", "unbiased", 0.5, 0.02, (0.46, 0.54), 900.0, 0.01, 999, CONDITIONAL)
    >>> judged = judge_run(Table([above, beside], Run(Source(), 999, 12, 0.95)))
    >>> print(judged["R@5", "unbiased"].verdict)
    unusable: this run contradicts the assumptions: P@1 comes to 1.200, more than 1; audit some \
hundred rows
    """
    if table.run is None:
        return table
    estimates = [_with_verdict(each, _base_claim(each, table.run)) for each in table.estimates]
    run = table.run if of_differences else with_evidence(table.run, estimates)
    judged = [_with_verdict(each, _in_context(each, run, of_differences)) for each in estimates]
    advised = [_with_verdict(each, _advised(each, judged, run)) for each in judged]
    return replace(table, estimates=tuple(advised), run=run)


def with_evidence(run: Run, estimates: Iterable[Estimate]) -> Run:
    """Add what some numbers say against the assumptions of a run; each contradiction stands once.

    Of shares beyond what a share can be, the furthest stands for all.

    Parameters
    ----------
    run : Run
        Evidence that it already holds, such as a rejected test, is kept.
    estimates : iterable of Estimate
        Of one system, each judged by itself.

    Returns
    -------
    Run
    """
    different: dict[object, Evidence] = {}
    for each in (*collect(estimates, run), *run.evidence):
        key: object = (each.kind, each.sentence)
        if each.kind is EvidenceKind.ABOVE_RANGE:
            key = each.kind
            before = different.get(key, each)
            each = max(before, each, key=lambda one: abs(one.details["value"] - 0.5))
        different[key] = each
    evidence = tuple(sorted(different.values(), key=lambda each: not each.refutes))
    return replace(run, evidence=evidence)


def collect(estimates: Iterable[Estimate], run: Run) -> list[Evidence]:
    """Collect what the numbers of a run say against its assumptions, the gravest first.

    Parameters
    ----------
    estimates : iterable of Estimate
        Of one system.
    run : Run

    Returns
    -------
    list of Evidence
    """
    every = list(estimates)
    resting = [each for each in every if corrected(each)]
    numbers = _Numbers(
        resting,
        [each for each in every if each.estimator == "measured"],
        [each for each in resting
         if not (run.left_out and _row_by_row(each)) and _denied(each, run) is None],
    )  # fmt: skip
    evidence = [
        Evidence(kind, row.refutes, details)
        for kind, row in EVIDENCE.items()
        for details in row.evidence(numbers, run)
    ]
    return sorted(evidence, key=lambda each: not each.refutes)


def judge_widened(plain: Estimate, wider: Estimate, *, share: float, refused: float) -> Verdict:
    """Judge a number again whose interval also carries what is not known of the propensities.

    Parameters
    ----------
    plain, wider : Estimate
        With the interval over rows alone, and with both.
    share : float
        How much of the variance is due to the propensities.
    refused : float
        The share of drawn propensities that the data contradict.

    Returns
    -------
    Verdict
    """
    verdict = plain.verdict
    if verdict.level >= Level.DOUBTFUL and verdict.reason is not Reason.BIASED_BY_DESIGN:
        return verdict
    if refused > REFUSED_DRAWS:
        details = {**verdict.details, "refused": refused}
        return Verdict(Level.DOUBTFUL, Reason.DRAWS_REFUSED, details=details)
    if "outcome" in verdict.details:  # whether a difference is wide, its interval says
        return verdict
    verdict = judge(
        wider.value, wider.interval, rows=wider.rows, heaviest=(wider.rows, 0.0),
        at_most=METRICS[split(wider.metric)[0]].at_most,
        claimed=claim(wider.estimator, complete=False),
    )  # fmt: skip
    if share > 0.5 and ("half_width" in verdict.details or not verdict.usable):
        return replace(verdict, details={**verdict.details, "propensity_share": share})
    return verdict


def outcome_of(verdict: Verdict) -> dict[str, object]:
    """Return the details that say what a comparison found, whatever the number may claim."""
    return {name: verdict.details[name] for name in OUTCOME if name in verdict.details}


def _with_verdict(each: Estimate, verdict: Verdict) -> Estimate:
    return each if verdict is each.verdict else replace(each, verdict=verdict)


def _base_claim(each: Estimate, run: Run) -> Verdict:
    """The verdict before the numbers are seen together.

    Tempered by τ = 1 is unbiased, and may claim what that does. A number that speaks of recorded
    labels is doubtful, and a difference of two such numbers says who scores higher.
    """
    verdict = each.verdict
    if each.details.get("tau") == 1.0 and verdict.reason is Reason.BIASED_BY_DESIGN:
        half = verdict.details.get("half_width")
        verdict = CONDITIONAL
        if half is not None:
            verdict = Verdict(Level.WIDE, Reason.WIDE, details={"half_width": half})
    recorded = (run.recorded and each.estimator != "measured") or each.estimator == "vanilla"
    if run.complete or not recorded:
        return verdict
    if run.recorded and verdict.level < Level.DOUBTFUL:
        kept = ("half_width", *OUTCOME)
        about = {name: verdict.details[name] for name in kept if name in verdict.details}
        verdict = Verdict(Level.DOUBTFUL, Reason.RECORDED_LABELS, Advice.AUDIT, about)
    if verdict.details.get("outcome") in (Outcome.BETTER, Outcome.WORSE):
        higher = Outcome.HIGHER if each.value > 0 else Outcome.LOWER
        verdict = replace(verdict, details={**verdict.details, "outcome": higher})
    return verdict


def _in_context(each: Estimate, run: Run, of_differences: bool) -> Verdict:
    """The verdict of one number after every rule of runs."""
    verdict = each.verdict
    if verdict.reason is Reason.OUTSIDE_RANGE:
        about = {"effective": each.effective_sample_size, "empty_rows": run.empty_rows}
        finite = {name: value for name, value in about.items() if math.isfinite(value)}
        verdict = replace(verdict, details={**verdict.details, **finite})
    if not corrected(each):
        return verdict
    for rule in RULES:
        if rule.of_run is None or (of_differences and rule.reason is Reason.FORMULA):
            continue
        details = rule.of_run(each, run)
        if details is not None and rule.level > verdict.level:
            details = {**outcome_of(verdict), **details}
            verdict = Verdict(rule.level, rule.reason, details=details)
    if verdict.level in (Level.CONDITIONAL, Level.WIDE):
        condition = {"source": run.source, "left_out": run.left_out}
        verdict = replace(verdict, details={**verdict.details, **condition})
    return verdict


def _advised(each: Estimate, judged: list[Estimate], run: Run) -> Verdict:
    """The verdict with advice that this run does not refuse itself."""
    verdict = each.verdict
    audited = any(other.estimator == "measured" for other in judged)
    if verdict.reason is Reason.RECORDED_LABELS:
        return replace(verdict, advice=Advice.NONE if audited else Advice.AUDIT)
    if not corrected(each) or verdict.level <= Level.CONDITIONAL:
        return verdict
    if verdict.reason in KEEP_ADVICE:
        return verdict
    if audited and (verdict.level > Level.WIDE or verdict.reason is Reason.FORMULA):
        return replace(verdict, advice=Advice.NONE)  # the audit is there
    if verdict.level is Level.WIDE and run.stated.by_formula:  # which no number of rows mends
        return replace(verdict, advice=Advice.AUDIT)
    if any(evidence.refutes for evidence in run.evidence):
        return replace(verdict, advice=Advice.AUDIT)
    deconvolved = [
        other.verdict for other in judged
        if (other.metric, other.estimator) == (each.metric, "deconvolved")
    ]  # fmt: skip
    better = any(other.level < verdict.level for other in deconvolved)
    if verdict.advice is Advice.USE_DECONVOLVED and (better or not deconvolved):
        return verdict
    if better and (verdict.level is Level.WIDE or verdict.reason in AVOIDED_BY_DECONVOLVED):
        return replace(verdict, advice=Advice.USE_DECONVOLVED)
    if verdict.level is Level.WIDE:
        mostly = verdict.details.get("propensity_share", 0.0) > 0.5
        return replace(verdict, advice=Advice.LARGER_AUDIT if mostly else Advice.MORE_ROWS)
    if verdict.reason is Reason.LEFT_OUT:
        return replace(verdict, advice=Advice.PUT_BACK)
    if verdict.advice is Advice.USE_DECONVOLVED or verdict.level is Level.DOUBTFUL:
        return replace(verdict, advice=Advice.AUDIT)
    return verdict


KEEP_ADVICE = frozenset(
    {Reason.BIASED_BY_DESIGN, Reason.OVERFLOW, Reason.TOO_MANY_COUNTS, Reason.CLOSED}
)
"""Reasons whose advice, or lack of it, depends on nothing else."""
AVOIDED_BY_DECONVOLVED = frozenset({Reason.LEFT_OUT, Reason.ROW_EFFORT})
"""Reasons that hold of corrections row by row alone."""


# --- the table of rules: conditions first, then a row for each reason


def _few_rows(number: _Number) -> Details | None:
    count, share = number.heaviest
    carried = {"count": count, "rows": number.rows, "of": number.of, "share": share}
    return carried if count * 50 < number.rows and share >= 0.5 else None


def _outside_range(number: _Number) -> Details | None:
    if number.at_most is None or -BEYOND <= number.value <= number.at_most + BEYOND:
        return None
    low, high = number.interval
    return {"value": number.value, "by_chance": low <= number.at_most and high >= 0}


def _as_wide_as_range(number: _Number) -> Details | None:
    narrower = number.at_most is None or number.half_width < number.at_most / 2
    return None if narrower else {"half_width": number.half_width}


def _is_wide(number: _Number) -> Details | None:
    half = number.half_width
    return {"half_width": half} if too_wide(half, number.value, number.at_most) else None


def _moved_by_formula(each: Estimate, run: Run) -> Details | None:
    """Ends over a formula that is off as usual; the number goes with 1/p, as P@k does exactly."""
    about = METRICS[split(each.metric)[0]]
    if not run.stated.by_formula or about.reads != "list" or each.estimator not in TRUTHFUL:
        return None
    gamma, most = GAMMAS[0], math.inf if about.at_most is None else about.at_most
    low, high = each.value / gamma, min(each.value * gamma, most)
    wide = too_wide((high - low) / 2, each.value, about.at_most)
    return {"low": low, "high": high, "gamma": gamma} if wide else None


def _adds_up(each: Estimate) -> bool:
    """True if the metric adds up labels, whatever labels of a row do together."""
    return METRICS[split(each.metric)[0]].adds_up


def _row_by_row(each: Estimate) -> bool:
    """True if every row is corrected by itself, so that all rows must be there."""
    return each.estimator != "deconvolved"


def _dependent(each: Estimate, run: Run) -> Details | None:
    if run.effect <= TOGETHER or _adds_up(each) or not each.verdict.usable:
        return None
    return {**each.verdict.details, "design_effect": run.effect}


def _refuted(each: Estimate, run: Run) -> Details | None:
    """Evidence that refutes; rows left out may explain it, for which `deconvolved` allows."""
    for evidence in run.evidence:
        above = evidence.kind is EvidenceKind.ABOVE_RANGE
        explained = above and not evidence.details["empty_rows"] and not _row_by_row(each)
        if evidence.refutes and not explained:
            return {"evidence": evidence}
    return None


def _contradicted(_: Estimate, run: Run) -> Details | None:
    for evidence in run.evidence:
        if evidence.kind not in (EvidenceKind.DISJOINT, EvidenceKind.DEPENDENT_LABELS):
            return {"evidence": evidence}
    return None


def _excluded(each: Estimate, run: Run) -> Details | None:
    for evidence in run.evidence:
        about = evidence.details
        if evidence.kind is EvidenceKind.DISJOINT and about["metric"] == each.metric:
            for own, other in (("first", "second"), ("second", "first")):
                if about[own] == each.estimator:
                    return {"other": about[other], "other_value": about[f"{other}_value"]}
    return None


def _sloped(each: Estimate, run: Run) -> Details | None:
    slope = run.stated.score_slope
    return {"slope": slope} if slope and split(each.metric)[0] not in BY_ENTRY else None


def _some_wrong(each: Estimate, run: Run) -> Details | None:
    wrong = run.stated.spurious
    return {"spurious": wrong} if wrong > SPURIOUS and "wrong_labels" not in each.details else None


def _denied(each: Estimate, run: Run) -> Details | None:
    """Labels of a row go missing together by the mask model, and the number needs that not."""
    return None if run.stated.independent or not _row_by_row(each) or _adds_up(each) else {}


def _needs_left_out(each: Estimate, run: Run) -> Details | None:
    return {"lost": run.lost} if run.left_out and _row_by_row(each) else None


class Rule(NamedTuple):
    """Row of the table: a reason, its level, its English, and the facts under which it holds.

    `words` is a template of the details, or a function of them. `of_number` and `of_run` return
    the details of the reason, or None where it does not hold. A reason without either is given
    where the number is made; its level is the one it usually has.
    """

    reason: Reason
    level: Level
    words: str | Callable[[Details], str]
    of_number: Callable[[_Number], Details | None] | None = None
    of_run: Callable[[Estimate, Run], Details | None] | None = None


RULES: tuple[Rule, ...] = (
    Rule(Reason.OBSERVED_LABELS, Level.MEASURED, "on labels declared complete"),
    Rule(Reason.STATED_PROPENSITIES, Level.CONDITIONAL, lambda about: _condition(about)),
    Rule(Reason.RECORDED_LABELS, Level.DOUBTFUL,
         lambda about: f"on recorded labels{_width(about)}"),
    Rule(Reason.BIASED_BY_DESIGN, Level.DOUBTFUL,
         lambda about: ESTIMATORS[about["estimator"]].caution + _width(about)),
    Rule(Reason.FEW_ROWS, Level.UNUSABLE,
         "{count} of {rows} {of} carry {share:.0%} of the estimate", of_number=_few_rows),
    Rule(Reason.OUTSIDE_RANGE, Level.UNUSABLE, lambda about: _outside(about),
         of_number=_outside_range),
    Rule(Reason.AS_WIDE_AS_RANGE, Level.UNUSABLE,
         "the interval is as wide as the range of the metric", of_number=_as_wide_as_range),
    Rule(Reason.WIDE, Level.WIDE, "± {half_width:.4f}", of_number=_is_wide),
    Rule(Reason.OVERFLOW, Level.UNUSABLE,
         "single rows contribute more than 1e140, the propensities are too low for this estimator"),
    Rule(Reason.NO_LABELS, Level.UNUSABLE, "the observed labels say nothing about this metric"),
    # the fit of label counts
    Rule(Reason.REFUSED, Level.UNUSABLE, lambda about: contradiction(about)),
    Rule(Reason.TOO_MANY_COUNTS, Level.UNUSABLE, lambda about: _filled(
        "{counts} different counts of observed labels are too many to deconvolve "
        + ("for sets of up to {k}" if about.get("sets") else "at k = {k}"), about)),
    Rule(Reason.PROPENSITIES_TOO_LOW, Level.UNUSABLE,
         "propensities are so low that label counts say nothing of the true ones (Σ 1/p of the "
         "observed labels is beyond 2³⁸)"),
    Rule(Reason.MISFIT, Level.DOUBTFUL,
         "{misfit:.0%} of the rows do not fit the stated propensities"),
    Rule(Reason.UNEQUAL_ROWS, Level.DOUBTFUL,
         "propensities differ between rows; ignoring that, the estimate would be {pooled:.4f}"),
    Rule(Reason.FEW_OBSERVED, Level.DOUBTFUL,
         "{metric} needs more than {observed:.0%} of the labels"),
    # the propensities, in the run; of equal levels the first row holds
    Rule(Reason.DRAWS_REFUSED, Level.DOUBTFUL,
         "the data contradict {refused:.0%} of the propensities that the estimate allows"),
    Rule(Reason.FORMULA, Level.WIDE, lambda about: between(about["low"], about["high"]) + _filled(
        " if the formula is off by {gamma} times, as it was on real labels", about),
        of_run=_moved_by_formula),
    Rule(Reason.DEPENDENT_LABELS, Level.DOUBTFUL,
         "labels of a row are kept or lost together (design effect {design_effect:.1f}), and "
         "corrections assume that they are not", of_run=_dependent),
    Rule(Reason.REFUTED, Level.UNUSABLE, "this run contradicts the assumptions: {evidence}",
         of_run=_refuted),
    Rule(Reason.REFUTED, Level.DOUBTFUL, "this run contradicts the assumptions: {evidence}",
         of_run=_contradicted),
    Rule(Reason.DISJOINT, Level.DOUBTFUL,
         "{other} says {other_value:.4f}, beyond the interval: an assumption does not hold",
         of_run=_excluded),
    Rule(Reason.SCORE_SLOPE, Level.DOUBTFUL,
         "labels are kept by the model's score (slope {slope:.2g}), which makes corrected recall "
         "overshoot", of_run=_sloped),
    Rule(Reason.SPURIOUS, Level.DOUBTFUL,
         "{spurious:.1%} of the observed labels are wrong, and corrections allow for lost ones "
         "only", of_run=_some_wrong),
    Rule(Reason.ROW_EFFORT, Level.DOUBTFUL,
         "by the mask model labels of a row are kept or lost together, and corrections row by row "
         "assume that they are not", of_run=_denied),
    Rule(Reason.LEFT_OUT, Level.DOUBTFUL,
         "no row is without labels, where up to {lost:.0%} of such rows lose them all: those were "
         "left out, and corrections row by row need them", of_run=_needs_left_out),
    Rule(Reason.CLOSED, Level.DOUBTFUL,
         "labels of a hierarchy imply one another: those of a row are kept or lost together, and "
         "corrections assume that they are not", of_run=lambda _, run: {} if run.closed else None),
    # judgements
    Rule(Reason.AUDITED, Level.MEASURED, lambda about: _audited(about)),
    Rule(Reason.LABELS_NOT_JUDGED, Level.DOUBTFUL,
         "measured on {labels_judged} of {labels_observed} labels: the others are in no judged "
         "row, and rare labels are not like frequent ones"),
    Rule(Reason.PART_NOT_JUDGED, Level.DOUBTFUL,
         "nobody judged {parts}: {unjudged} of {of} {unit}"),
    Rule(Reason.UNDECIDED, Level.DOUBTFUL,
         "{undecided} of {judged} judged {unit} are undecided: between {undecided_low:.4f} and "
         "{undecided_high:.4f} by what they mean"),
    Rule(Reason.NOT_OFFERED, Level.DOUBTFUL, lambda about: _not_offered(about)),
    Rule(Reason.NOT_JUDGED, Level.UNUSABLE,
         "this audit ({design}) did not judge what {metric} needs; plan one for that metric"),
    Rule(Reason.NO_RELEVANT, Level.UNUSABLE, "no relevant label among the judged {unit}"),
)  # fmt: skip
WORDS = {rule.reason: rule.words for rule in RULES}


class StandingRule(NamedTuple):
    """Row of the table: the English of a standing, and what may be reported with it."""

    words: str
    report: str


STANDINGS: dict[Standing, StandingRule] = {
    Standing.COMPLETE: StandingRule(
        "Labels are declared complete.", "Report `vanilla`: nothing has to be corrected."),
    Standing.RECORDED: StandingRule(
        "Nobody said that labels are complete, nor how they go missing.",
        "Report `vanilla`, as numbers on recorded labels."),
    Standing.NOT_REFUTED: StandingRule(
        "Nothing in this run contradicts {by}.",
        "Use `unbiased` for P@k and DCG@k, `deconvolved` for R@k, nDCG@k and F1@k, and `bound` "
        "as a check from above."),
    Standing.DOUBTFUL: StandingRule(
        "By {by}, the assumptions are in doubt: {because}.",
        "Corrected numbers are doubtful: report `vanilla`, as numbers on recorded labels, and "
        "audit some hundred rows to measure the true ones."),
    Standing.REFUTED: StandingRule(
        "By {by}, the assumptions do not hold: {because}.",
        "No corrected number can be used: report `vanilla`, as numbers on recorded labels, and "
        "audit some hundred rows to measure the true ones."),
}  # fmt: skip

ADVICE: dict[Advice, str] = {
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


# --- the table of evidence: conditions first, then a row for each kind


class _Numbers(NamedTuple):
    """Numbers of a run: those that rest on propensities, measured ones, and those that may object.

    Numbers of which it is stated that they speak of other rows, or need what the mask model
    denies, contradict nobody.
    """

    resting: list[Estimate]
    measured: list[Estimate]
    objecting: list[Estimate]


def _above_range(numbers: _Numbers, run: Run) -> Iterator[Details]:
    """The unbiased share of right predictions that is furthest beyond 0 … 1, if not by chance."""
    shares = [
        share for share in map(_share_of_right, numbers.resting)
        if share is not None and 0 < share[2] < math.inf
    ]  # fmt: skip
    if not shares:
        return
    worst, excess, error, details = max(shares, key=lambda share: share[1] / share[2])
    if excess > NormalDist().inv_cdf(1 - ALPHA / len(shares)) * error:
        yield {**details, "rows": worst.effective_sample_size, "empty_rows": run.empty_rows}


def _share_of_right(each: Estimate) -> tuple[Estimate, float, float, dict[str, Any]] | None:
    """An estimate, by how much it is beyond a share, its error, and what it is; else None."""
    metric = split(each.metric)[0]
    if each.estimator != "unbiased" or each.verdict.reason is Reason.FEW_ROWS:
        return None
    details = {"metric": each.metric, "value": each.value}
    if metric in PRECISIONS:
        return each, each.value - 1, each.standard_error, details
    if metric == "one-error":
        return each, -each.value, each.standard_error, details
    if "precision_error" in each.details:
        value = each.details["precision"]
        details = {"metric": f"precision at {each.metric}", "value": value}
        return each, value - 1, each.details["precision_error"], details
    return None


def _worst_fit(numbers: _Numbers, reason: Reason) -> list[Details]:
    fits = [each.verdict.details for each in numbers.resting if each.verdict.reason is reason]
    return [dict(max(fits, key=lambda about: float(about["misfit"])))] if fits else []


def _misfit(numbers: _Numbers, _: Run) -> Iterator[Details]:
    if not _worst_fit(numbers, Reason.REFUSED):
        yield from _worst_fit(numbers, Reason.MISFIT)


def _audit_disagrees(numbers: _Numbers, _: Run) -> Iterator[Details]:
    claiming = [each for each in numbers.measured if each.verdict.level < Level.DOUBTFUL]
    aiming = [each for each in numbers.objecting if each.estimator in TRUTHFUL]
    apart = (_pair(*both) for both in product(claiming, aiming) if _apart(*both))
    yield from islice(apart, 1)


def _spurious_labels(numbers: _Numbers, _: Run) -> Iterator[Details]:
    """Wrong labels among the judged observed ones, if they are more than a slip."""
    shares = [e.details for e in numbers.measured if e.details.get("spurious_low", 0) > SPURIOUS]
    yield from ({"spurious": details["spurious"]} for details in shares[:1])


def _dependent_labels(numbers: _Numbers, run: Run) -> Iterator[Details]:
    if any(_dependent(each, run) is not None for each in numbers.resting):
        yield {"design_effect": run.effect}


def _disjoint(numbers: _Numbers, _: Run) -> Iterator[Details]:
    """Pairs of estimators of one metric whose intervals do not meet."""
    usable = [e for e in numbers.objecting if e.estimator in TRUTHFUL and e.verdict.usable]
    yield from (_pair(*both) for both in combinations(usable, 2) if _apart(*both))


def _apart(one: Estimate, other: Estimate) -> bool:
    separate = one.interval[1] < other.interval[0] or other.interval[1] < one.interval[0]
    return one.metric == other.metric and separate


def _pair(one: Estimate, other: Estimate) -> Details:
    first = {"metric": one.metric, "first": one.estimator, "first_value": one.value}
    return {**first, "second": other.estimator, "second_value": other.value}


class EvidenceRule(NamedTuple):
    """Row of the table: whether the evidence refutes, its English, and how it is obtained."""

    refutes: bool
    words: str | Callable[[Details], str]
    evidence: Callable[[_Numbers, Run], Iterable[Details]]


EVIDENCE: dict[EvidenceKind, EvidenceRule] = {
    EvidenceKind.ABOVE_RANGE: EvidenceRule(True, lambda about: (
        f"{_symptom(about)}, so the propensities are too low" + (
            "" if about["empty_rows"]
            else ", or rows that lost all their labels were left out of the file"
        )), _above_range),
    EvidenceKind.REFUSED_FIT: EvidenceRule(
        True, lambda about: contradiction(about),
        lambda numbers, _: _worst_fit(numbers, Reason.REFUSED)),
    EvidenceKind.MISFIT: EvidenceRule(
        False, "{misfit:.0%} of the rows do not fit the propensities", _misfit),
    EvidenceKind.AUDIT_DISAGREES: EvidenceRule(
        False,
        "the audit refutes the mask model: measured {metric} is {first_value:.3f}, and the "
        "interval of {second} ({second_value:.3f}) does not meet that of the audit",
        _audit_disagrees),
    EvidenceKind.SPURIOUS_LABELS: EvidenceRule(
        False,
        "the audit found {spurious:.0%} of the observed labels to be wrong, and corrections "
        "assume that none is", _spurious_labels),
    EvidenceKind.DEPENDENT_LABELS: EvidenceRule(
        False,
        "the audit shows labels of a row kept or lost together (design effect "
        "{design_effect:.1f})", _dependent_labels),
    EvidenceKind.DISJOINT: EvidenceRule(
        False,
        "two estimates of {metric} exclude each other, {first} {first_value:.3f} and {second} "
        "{second_value:.3f}", _disjoint),
    EvidenceKind.REJECTED_TEST: EvidenceRule(True, "{effect}", lambda _, __: ()),
}  # fmt: skip


# --- English of a verdict


class _Template(Formatter):
    """Templates whose values are written as everywhere."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """A value as people write it."""
        return format_value(value, format_spec)


def _filled(words: str | Callable[[Details], str], details: Details) -> str:
    return _Template().vformat(words, (), details) if isinstance(words, str) else words(details)


def between(low: float, high: float) -> str:
    """Write two ends; one at which the data contradict the propensities is `refused`.

    >>> between(0.25, float("nan"))
    '0.250 to (refused by the data)'
    """
    ends = [
        "(refused by the data)" if math.isnan(end) else format_value(end, ".3f")
        for end in (low, high)
    ]
    return " to ".join(ends)


def contradiction(details: Details) -> str:
    """Say why observed label counts cannot come from the propensities."""
    symptom = "{misfit:.0%} of the rows have label counts that no truth explains"
    if details["variance"] < details["least_variance"]:
        symptom = (
            "observed labels per row vary too little (variance {variance:.2f}; missing labels "
            "alone would make it {least_variance:.2f})"
        )
    because = "the observed labels cannot come from the stated propensities: "
    return _filled(because + symptom, details)


def _symptom(details: Details) -> str:
    beyond = "more than 1" if details["value"] > 1 else "less than 0"
    return _filled("{metric} comes to {value:.3f}, " + beyond, details)


def _outcome(details: Details) -> str:
    if "outcome" not in details:
        return ""
    if details["outcome"] == Outcome.UNCLEAR:
        return _filled("no clear difference (p = {p_value:.2g})", details)
    verb = "scores" if details["outcome"] in (Outcome.HIGHER, Outcome.LOWER) else "is"
    words = "{system} " + verb + " {outcome} than {first} (p = {p_value:.2g})"
    return _filled(words, details)


def _condition(details: Details) -> str:
    source = details.get("source")
    source = source if isinstance(source, Source) else Source()
    rows = ", and rows that lost all of them were left out" if details.get("left_out") else ""
    return f"if {source.assumption}{rows}"


def _outside(details: Details) -> str:
    if details["value"] < 0:
        return _filled("{value:.4f} is less than the metric can be", details)
    words = "{value:.4f} is more than the metric can be"
    if details.get("by_chance"):
        return _filled(words + ", perhaps by chance", details)
    if "effective" in details:
        rows = format_value(round(details["effective"]), ",")
        words += f", and not by chance: {rows} rows carry it"
    if "empty_rows" in details:  # else it is not known
        words += "; the propensities are too low"
        if not details["empty_rows"]:
            words += (
                ", or rows that lost all their labels were left out of the file, which has none"
            )
    return _filled(words, details)


def _audited(details: Details) -> str:
    words = ["from {judged} judged {unit}"]
    if details["observed_free"]:
        words.append("observed labels taken as true")
    if details["unanswered"]:
        words.append("{unanswered} more without an answer")
    if "undecided" in details:
        words.append("whatever the {undecided} undecided mean")
    return _filled("; ".join([*words, "± {half_width:.4f}"]), details)


def _not_offered(details: Details) -> str:
    offered = "judges were offered only labels that somebody recorded or predicted, and "
    if details["vocabulary"] == "stated":
        words = "judges named {unlisted} labels that are not in the data, which have no scores"
    elif details["unlisted"]:
        words = offered + "may have overlooked some beside the {unlisted} others that they named"
    else:
        words = offered + "other true labels are not counted"
    return f"{_filled(words, details)}; {_audited(details)}"


def _width(details: Details) -> str:
    return _filled("; wide: ± {half_width:.4f}", details) if "half_width" in details else ""


# --- English of a table: the one sentence that matters, and verdicts once per reason

ASKED_FIRST = ("R", "P", "nDCG")
"""Metrics that a reader asks for first."""
BEST_FIRST = ("measured", "deconvolved", "unbiased", "tempered")
"""Estimators of equal level, the best first; P@k is exact as `unbiased`."""
NEXT_AUDIT = "audit some hundred rows to measure it"
Row = Mapping[str, Any]


def headline(estimates: Sequence[Estimate], run: Run) -> str:
    """Say whether the assumptions hold, what the best number is, and what to do next.

    Parameters
    ----------
    estimates : sequence of Estimate
        At least one.
    run : Run

    Returns
    -------
    str
    """
    chosen, by = best(estimates), run.source.sentence
    contradicted = run.standing in (Standing.DOUBTFUL, Standing.REFUTED)
    if chosen is not None and chosen.estimator == "measured" and not contradicted:
        return _headline_measured(chosen)
    if run.standing is Standing.COMPLETE:
        if chosen is None:
            return "Labels are declared complete, and no number can be used; the verdicts say why."
        return f"Labels are declared complete: {_quoted(chosen)} on {run.rows:,} rows."
    if run.standing is Standing.RECORDED:
        if chosen is None:
            return "On recorded labels no number can be used; the verdicts say why."
        return (
            f"{_quoted(chosen, ' on recorded labels')}, which is the true value only if no label "
            f"is missing: {NEXT_AUDIT}, or declare the labels complete "
            f"({setting('complete', True, of='evaluate')})."
        )
    if contradicted:
        return _headline_contradicted(estimates, chosen, run)
    if chosen is None or chosen.estimator == "vanilla":
        return (
            f"Nothing in this run contradicts {by}, but no corrected number can be used: evaluate "
            f"more rows, by `deconvolved`, or {NEXT_AUDIT.removesuffix(' it')}."
        )
    if chosen.verdict.level is Level.DOUBTFUL:
        return (
            f"Nothing in this run contradicts {by}, but {_quoted(chosen)} is doubtful: "
            f"{NEXT_AUDIT}."
        )
    width = ""
    if chosen.verdict.level is Level.WIDE:
        width = ", too wide to use"
        if chosen.verdict.reason is Reason.FORMULA:
            width = f", but {replace(chosen.verdict, advice=Advice.NONE).why}"
    return (
        f"If {run.source.assumption}, which nothing in this run contradicts, "
        f"{_quoted(chosen)}{width}; {NEXT_AUDIT}."
    )


def _headline_measured(chosen: Estimate) -> str:
    if chosen.verdict.level is Level.DOUBTFUL:
        return f"Judged rows say {_quoted(chosen)}, doubtful: {chosen.verdict.why}."
    wide = ", too wide to use: judge more" if chosen.verdict.level is Level.WIDE else ""
    return f"Measured on judged rows, whatever hid the labels: {_quoted(chosen)}{wide}."


def _headline_contradicted(estimates: Sequence[Estimate], chosen: Estimate | None, run: Run) -> str:
    head = f"{run.sentence.removesuffix('.')}; "
    measured = best([each for each in estimates if each.estimator == "measured"])
    if measured is not None:
        return f"{head}measured on judged rows, {_quoted(measured)}."
    if chosen is None or chosen.estimator == "vanilla":
        recorded = [each for each in estimates if each.estimator == "vanilla"]
        face = f"; on the observed labels alone {_quoted(best(recorded))}" if recorded else ""
        return f"{head}no corrected number can be used{face}; {NEXT_AUDIT}."
    if chosen.verdict.level is Level.DOUBTFUL:
        return f"{head}the best number is doubtful: {_quoted(chosen)}; {NEXT_AUDIT}."
    return f"{head}other numbers still stand: {_quoted(chosen)}; {NEXT_AUDIT}."


def comparison_headline(differences: Sequence[Estimate], run: Run) -> str:
    """Say who is better, or scores higher, and on what condition.

    Parameters
    ----------
    differences : sequence of Estimate
        Of one system to the first, as `compare` gives them.
    run : Run

    Returns
    -------
    str
    """
    chosen = best(differences)
    if chosen is None:
        because = f": {run.evidence[0].sentence}" if run.evidence else ""
        return f"No comparison can be used{because}; {NEXT_AUDIT}."
    sizes = (chosen.value, *chosen.interval)
    if chosen.value < 0 and chosen.verdict.details["outcome"] != Outcome.UNCLEAR:
        sizes = (-chosen.value, -chosen.interval[1], -chosen.interval[0])
    value, low, high = (format_value(x, ".3f") for x in sizes)
    size = f"in {chosen.metric}: {value} ({low} to {high}, {chosen.estimator})"
    if chosen.estimator == "measured":
        doubtful = chosen.verdict.level is Level.DOUBTFUL
        on = ", doubtful: see the verdict" if doubtful else ", whatever hid the labels"
    elif run.standing is Standing.COMPLETE:
        on = ", labels declared complete"
    elif _of_recorded(chosen):
        on = f"; {NEXT_AUDIT}"
    elif chosen.verdict.level >= Level.DOUBTFUL:
        because = run.evidence[0].sentence if run.evidence else "see the verdict"
        on = f", but the assumptions are in doubt: {because}"
    else:
        on = f", if {run.source.assumption}"
    return f"{_who(chosen)} {size}{on}."


def comparison_title(differences: Sequence[Estimate]) -> str:
    """Say who is better in a few words, for the title of a page.

    Parameters
    ----------
    differences : sequence of Estimate
        Of one system to the first.

    Returns
    -------
    str
    """
    chosen = best(differences)
    if chosen is None:
        return "No usable comparison"
    level = chosen.verdict.level
    claim = "" if level is Level.MEASURED else f" ({level.value})"
    return f"{_who(chosen)} in {chosen.metric}{claim}"


def _who(chosen: Estimate) -> str:
    about = chosen.verdict.details
    names = str(about["system"]), str(about["first"])
    where = " on recorded labels" if _of_recorded(chosen) else ""
    if about["outcome"] == Outcome.UNCLEAR:
        return f"No clear difference between {names[0]} and {names[1]}{where}"
    first = about["outcome"] in (Outcome.BETTER, Outcome.HIGHER)
    winner, loser = names if first else names[::-1]
    return f"{winner} {'scores higher' if where else 'is better'} than {loser}{where}"


def _of_recorded(chosen: Estimate) -> bool:
    """True if a number speaks of recorded labels, which nobody declared complete."""
    biased = chosen.verdict.reason is Reason.BIASED_BY_DESIGN and chosen.estimator == "vanilla"
    return biased or chosen.verdict.reason is Reason.RECORDED_LABELS


def _quoted(each: Estimate | None, where: str = "") -> str:
    """`R@5 is 0.611 (0.595 to 0.626, deconvolved)`."""
    if each is None:
        return "nothing can be used"
    value, low, high = (format_value(x, ".3f") for x in (each.value, *each.interval))
    return f"{each.metric}{where} is {value} ({low} to {high}, {each.estimator})"


def best(estimates: Sequence[Estimate]) -> Estimate | None:
    """Choose the number to quote: of a metric that readers ask for, at its largest k, best level.

    Parameters
    ----------
    estimates : sequence of Estimate

    Returns
    -------
    Estimate or None
        None if no number may be used.
    """

    def order(each: Estimate) -> tuple[int, int, int, int]:
        metric, _, k = each.metric.partition("@")
        asked = ASKED_FIRST.index(metric) if metric in ASKED_FIRST else len(ASKED_FIRST)
        exact = metric in ("P", "DCG") and each.estimator == "unbiased"
        preferred = BEST_FIRST.index(each.estimator) if each.estimator in BEST_FIRST else 0
        return each.verdict.level.rank, asked, -int(k or 10**9), 0 if exact else preferred

    usable = [
        each for each in estimates
        if each.verdict.usable and math.isfinite(each.value) and each.estimator != "normalized"
    ]  # fmt: skip
    claims = [each for each in usable if each.estimator in BEST_FIRST]
    claims = claims or [each for each in usable if each.estimator == "vanilla"]
    return min(claims, key=order, default=None)


def best_by_metric(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Choose the number to quote of every metric that has one, in order of appearance.

    Parameters
    ----------
    estimates : sequence of Estimate

    Returns
    -------
    list of Estimate
    """
    metrics = dict.fromkeys(each.metric for each in estimates)
    chosen = (best([each for each in estimates if each.metric == metric]) for metric in metrics)
    return [each for each in chosen if each is not None]


@dataclass(frozen=True)
class SameVerdict:
    """Numbers that share level, reason and advice.

    Parameters
    ----------
    level : Level
    rows : tuple of mappings
        With metric, estimator and verdict.
    """

    level: Level
    rows: tuple[Row, ...]

    @property
    def names(self) -> str:
        """`P@1, P@5 and R@5 by unbiased; R@5 by bound`."""
        by_estimator: dict[str, list[str]] = {}
        for row in self.rows:
            by_estimator.setdefault(row["estimator"], []).append(row["metric"])
        return "; ".join(
            f"{_listed(dict.fromkeys(metrics))} by {name}" for name, metrics in by_estimator.items()
        )

    @property
    def why(self) -> str:
        """The reason and the advice; with numbers of the first, where they differ."""
        reasons = list(dict.fromkeys(_why(row) for row in self.rows))
        if len(reasons) == 1:
            return reasons[0]
        first = self.rows[0]
        return f"{reasons[0]} ({first['metric']} by {first['estimator']}; the others alike)"

    def __str__(self) -> str:
        """Names, level and reason in one line."""
        return f"{self.names}: {self.level.value}: {self.why}"


def grouped(rows: Iterable[Row], *, measured: bool = False) -> list[SameVerdict]:
    """Group the verdicts of all rows by level, reason, advice and outcome.

    Parameters
    ----------
    rows : iterable of mappings
        With metric, estimator and verdict, as `Table.to_dicts` makes them.
    measured : bool, default False
        Whether numbers on complete labels are named too; they need no word.

    Returns
    -------
    list of SameVerdict
        In order of appearance.

    Examples
    --------
    >>> wide = {"level": "wide", "reason": "wide", "advice": "", "text": "wide: ± 0.2"}
    >>> rows = [{"metric": f"R@{k}", "estimator": "unbiased", "verdict": wide} for k in (1, 5)]
    >>> print(*grouped(rows))
    R@1 and R@5 by unbiased: wide: ± 0.2
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        verdict = row["verdict"]
        key = tuple(verdict.get(name, "") for name in ("level", "reason", "advice", "outcome"))
        if verdict.get("reason") == Reason.BIASED_BY_DESIGN:  # every estimator in its own way
            key = (*key, row["estimator"])
        if measured or verdict.get("reason") != Reason.OBSERVED_LABELS:
            groups.setdefault(key, []).append(row)
    return [SameVerdict(Level(key[0]), tuple(same)) for key, same in groups.items()]


def across(rows: Iterable[Row], axis: str) -> list[str]:
    """Say the verdicts of several tables, one sentence for all that share it.

    Parameters
    ----------
    rows : iterable of mappings
        As of `grouped`, each with its table's key under `axis`.
    axis : str
        Such as "group".

    Returns
    -------
    list of str

    Examples
    --------
    >>> wide = {"level": "wide", "reason": "wide", "advice": "", "text": "wide: ± 0.2"}
    >>> rows = [{"metric": "R@1", "estimator": "unbiased", "verdict": wide, "group": year}
    ...         for year in ("1999", "2000")]
    >>> across(rows, "group")
    ['all groups: R@1 by unbiased: wide: ± 0.2']
    """
    every = list(rows)
    total = len({row[axis] for row in every})
    sentences = []
    for group in grouped(every):
        keys = list(dict.fromkeys(row[axis] for row in group.rows))
        where = some(keys) if len(keys) < total or total == 1 else f"all {axis}s"
        sentences.append(f"{where}: {group}")
    return sentences


def some(names: Sequence[str], most: int = 5) -> str:
    """List the first names, and how many there are besides.

    >>> some(["a", "b", "c"]), some(["a", "b", "c"], most=2)
    ('a, b and c', 'a, b and 1 more')
    """
    if len(names) <= most:
        return _listed(names)
    return f"{', '.join(names[:most])} and {len(names) - most:,} more"


def _why(row: Row) -> str:
    verdict: Mapping[str, str] = row["verdict"]
    return verdict["why"] if "why" in verdict else verdict["text"].partition(": ")[2]


def _listed(names: Iterable[str]) -> str:
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last
