"""The stored records: what `unmask evaluate` and `unmask diagnose` print with `--json`.

Numbers that are not finite are None (null). A record read from a file may hold anything; what does
not have this form is refused when its page is made (`records.write`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from unmask._typing import Record
from unmask.pages.verdicts import StoredVerdict


class EstimateRow(TypedDict):
    """One metric by one estimator: an entry of `Table.to_dicts`."""

    metric: str
    estimator: str
    value: float | None
    low: float | None
    high: float | None
    verdict: StoredVerdict
    effective_sample_size: NotRequired[float | None]
    largest_contribution: NotRequired[float | None]


class SensitivityRow(EstimateRow):
    """The same under another propensity model, with its parameters."""

    propensity: str
    parameters: NotRequired[dict[str, float]]


class GammaEnds(TypedDict):
    """A number over propensities within a factor."""

    gamma: float
    low: float | None
    high: float | None


class EffortEnd(TypedDict):
    """A number if labels of a row are kept or lost together."""

    correlation: float
    value: float | None


class MoveRow(TypedDict):
    """How far a conditional number moves; `system` is "" but for differences."""

    system: str
    metric: str
    estimator: str
    value: float
    gammas: list[GammaEnds]
    efforts: list[EffortEnd]
    exact: bool
    turns_at: float | None
    text: str


class StoredComparison(TypedDict):
    """Who is better, for the title and the first sentence of a page."""

    title: str
    headline: str


class DifferenceDetails(TypedDict):
    """What else is known of a difference."""

    p_value: float | None


class DifferenceRow(EstimateRow):
    """The same for a system's difference to the first."""

    system: str
    details: DifferenceDetails


class GroupDetails(TypedDict):
    """What else is known of a group of rows."""

    rows: int
    small: bool
    adjusted_p: float | None
    differs: bool


class GroupRow(EstimateRow):
    """The same for a group of rows."""

    group: str
    details: GroupDetails


class CurveRow(TypedDict):
    """Precision, recall and F1 at one threshold, with the ends of their bands."""

    threshold: float
    precision: float
    precision_low: float
    precision_high: float
    recall: float
    recall_low: float
    recall_high: float
    f1: float
    f1_low: float
    f1_high: float


class LabelFacts(TypedDict):
    """Labels in few numbers (`label_figures.label_facts`)."""

    rows: int
    labels: int
    entries: int
    seen: float
    rank: list[int]
    count: list[float]
    propensity: list[float]
    observed: list[float]
    deconvolved: list[float]


class LabelRow(TypedDict):
    """What one label does: an entry of `LabelCounts.to_dicts`."""

    label: str
    rows: int
    propensity: float
    predicted: int
    hits: int
    recall: float | None
    recall_low: float | None
    recall_high: float | None
    precision: float | None
    precision_low: float | None
    precision_high: float | None
    train_rows: NotRequired[int]


class LabelRankingRow(TypedDict):
    """How one label ranks the rows: an entry of `LabelRankings.to_dicts`."""

    label: str
    rows: int
    propensity: float
    average_precision: float | None
    average_precision_low: float | None
    average_precision_high: float | None
    AUC: float | None
    AUC_low: float | None
    AUC_high: float | None


class ExpectedRow(TypedDict):
    """The half-width that a plan expects of a metric, at a number of judged units."""

    metric: str
    judged: int
    half: float


class ReachedRow(TypedDict):
    """A measured metric after some of the answers (`audit.reached`)."""

    metric: str
    judged: int
    value: float | None
    low: float | None
    high: float | None


class AgreementRow(TypedDict):
    """How far two annotators agree (`audit.PairAgreement`)."""

    annotators: Sequence[str]
    items: int
    percent: float | None
    positive: float | None
    kappa: float | None


class ContradictionRow(TypedDict):
    """A question that people decided differently (`audit.Contradiction`)."""

    question: str
    row: str
    label: str
    answers: Sequence[Sequence[str]]
    settled: bool


class UndecidedRow(TypedDict):
    """Between what a metric lies by what nobody could decide."""

    metric: str
    low: float | None
    high: float | None
    questions: int


class SequenceRow(TypedDict):
    """An interval that holds at every look, the goals, and after how many rows they were met."""

    metric: str
    low: float
    high: float
    judged: int
    confidence: float
    half_width: float | None
    at_least: float | None
    stop_after: int | None


class ElusionRow(TypedDict):
    """How many relevant labels nobody predicted (`audit.Elusion`), and in words."""

    k: int
    pairs: int
    relevant: float
    at_most: float
    confidence: float
    share: float
    text: str


class StoppingFacts(TypedDict):
    """Whether an audit may stop."""

    sequences: list[SequenceRow]
    elusion: ElusionRow | None


class AuditFacts(TypedDict):
    """An audit: what was asked, who answered, and how precise it became."""

    unit: str
    design: str
    seeds: list[int]
    counts: Mapping[str, int]
    annotators: Mapping[str, int]
    agreement: list[AgreementRow]
    fleiss_kappa: float | None
    contradictions: list[ContradictionRow]
    expected: list[ExpectedRow]
    reached: list[ReachedRow]
    undecided: NotRequired[list[UndecidedRow]]


class EvaluationRecord(TypedDict):
    """An evaluation; `rankings` hold `Ranking.to_dict`."""

    kind: str
    source: str
    command: NotRequired[str]
    headline: NotRequired[str]
    run: NotRequired[dict[str, object] | None]
    comparison: NotRequired[StoredComparison | None]
    moves: NotRequired[list[MoveRow]]
    estimates: list[EstimateRow]
    sensitivity: NotRequired[list[SensitivityRow]]
    differences: NotRequired[list[DifferenceRow]]
    rankings: NotRequired[list[Record]]
    labels: NotRequired[LabelFacts]
    per_label: NotRequired[list[LabelRow]]
    places: NotRequired[int]
    label_rankings: NotRequired[list[LabelRankingRow]]
    groups: NotRequired[list[GroupRow]]
    curves: NotRequired[Mapping[str, list[CurveRow]]]
    audit: NotRequired[AuditFacts]
    stopping: NotRequired[StoppingFacts]


class FindingRow(TypedDict):
    """A finding of a diagnosis."""

    kind: NotRequired[str]
    severity: str
    title: str
    evidence: str
    advice: str


class TestRow(TypedDict):
    """A test of a diagnosis."""

    kind: NotRequired[str]
    name: str
    effect: str
    p_value: float | None
    adjusted: float | None


class DiagnosisRecord(TypedDict):
    """A diagnosis: `Diagnosis.to_dict` with its source and labels."""

    kind: str
    source: str
    command: NotRequired[str]
    severity: str
    findings: list[FindingRow]
    tests: list[TestRow]
    labels: NotRequired[LabelFacts]
