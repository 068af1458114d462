"""What is known of a run beside its numbers: where propensities come from, and what speaks against.

A run is one call of `evaluate` or `compare`, or one `Evaluator`. `judgement` collects the evidence,
`headline` puts it in a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from unmask._text import format_value
from unmask.metrics.verdict import contradiction
from unmask.propensity.models import Source, SourceKind

LEFT_OUT = 0.02
"""The share of rows that may lose all labels from which on their absence matters."""
BY_CHANCE = 0.01
"""Of few rows none may have lost all labels by chance; its absence counts where that is rarer."""


class EvidenceKind(StrEnum):
    """What in a run speaks against the propensities, or against independent losses."""

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


class Standing(StrEnum):
    """Whether the assumptions hold, as far as a run can tell."""

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
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def sentence(self) -> str:
        """What speaks against the assumptions, in English."""
        return _SENTENCES[self.kind](self.details)

    @property
    def symptom(self) -> str:
        """The same without what follows from it."""
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


@dataclass(frozen=True)
class Run:
    """The facts that all numbers of a run share.

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
        What speaks against the assumptions, the gravest first (`judgement.judge_run`).
    ignored_pairs, verified_labels : int, default 0
        Pairs that were left out of rankings and labels, and labels that are certain
        (`judged_pairs`).
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

    @property
    def judged_pairs(self) -> str:
        """What judgements of pairs did, in a sentence; nothing where there are none."""
        said = []
        if self.ignored_pairs:
            said.append(f"{self.ignored_pairs:,} ignored pairs left rankings and labels")
        if self.verified_labels:
            said.append(f"{self.verified_labels:,} verified labels count with propensity 1")
        return f"{'; '.join(said)}." if said else ""

    @property
    def recorded(self) -> bool:
        """Whether nothing is known of what is missing: no propensities, not declared complete."""
        return self.source.kind is SourceKind.NONE and not self.complete

    @property
    def left_out(self) -> bool:
        """Whether rows that lost all their labels were left out: none is there, and some must be.

        Then corrections row by row speak of other rows than those at hand; `deconvolved` allows
        for it.
        """
        if self.complete or self.empty_rows or self.lost <= LEFT_OUT:
            return False
        return (1 - self.lost) ** self.rows < BY_CHANCE

    @property
    def standing(self) -> Standing:
        """Whether the assumptions hold, as far as this run can tell."""
        if self.complete:
            return Standing.COMPLETE
        if self.recorded:
            return Standing.RECORDED
        if not self.evidence:
            return Standing.NOT_REFUTED
        refuted = any(each.refutes for each in self.evidence)
        return Standing.REFUTED if refuted else Standing.DOUBTFUL

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "standing": self.standing.value,
            "source": self.source.to_dict(),
            "rows": self.rows,
            "empty_rows": self.empty_rows,
            "left_out": self.left_out,
            "ignored_pairs": self.ignored_pairs,
            "verified_labels": self.verified_labels,
            "evidence": [each.to_dict() for each in self.evidence],
        }


def _above(details: Mapping[str, Any]) -> str:
    because = (
        "so the propensities are too low"
        if details["empty_rows"]
        else "so the propensities are too low, or rows that lost all their labels were left out "
        "of the file"
    )
    return f"{_symptom(details)}, {because}"


def _symptom(details: Mapping[str, Any]) -> str:
    beyond = "more than 1" if details["value"] > 1 else "less than 0"
    return f"{details['metric']} comes to {format_value(details['value'], '.3f')}, {beyond}"


def _disjoint(details: Mapping[str, Any]) -> str:
    return (
        f"two estimates of {details['metric']} exclude each other, {details['first']} "
        f"{format_value(details['first_value'], '.3f')} and {details['second']} "
        f"{format_value(details['second_value'], '.3f')}"
    )


def _misfit(details: Mapping[str, Any]) -> str:
    return f"{format_value(details['misfit'], '.0%')} of the rows do not fit the propensities"


_SENTENCES: dict[EvidenceKind, Callable[[Mapping[str, Any]], str]] = {
    EvidenceKind.ABOVE_RANGE: _above,
    EvidenceKind.REFUSED_FIT: contradiction,
    EvidenceKind.MISFIT: _misfit,
    EvidenceKind.DISJOINT: _disjoint,
    EvidenceKind.AUDIT_DISAGREES: lambda details: (
        f"the audit refutes the mask model: measured {details['metric']} is "
        f"{format_value(details['first_value'], '.3f')}, and the interval of {details['second']} "
        f"({format_value(details['second_value'], '.3f')}) does not meet that of the audit"
    ),
    EvidenceKind.SPURIOUS_LABELS: lambda details: (
        f"the audit found {format_value(details['spurious'], '.0%')} of the observed labels to be "
        "wrong, and corrections assume that none is"
    ),
    EvidenceKind.DEPENDENT_LABELS: lambda details: (
        "the audit shows labels of a row kept or lost together (design effect "
        f"{format_value(details['design_effect'], '.1f')})"
    ),
}
