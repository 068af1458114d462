"""What a diagnosis consists of: findings for people, tests and figures for machines.

What a diagnosis can test and find, by name: code decides on these, `wording` puts them in words.

Members are strings, so `test.kind == "empty_rows"` holds and JSON carries "empty_rows".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias, TypedDict

import numpy as np

from unmask import _validation
from unmask._text import html_table
from unmask._typing import Floats
from unmask.diagnosis import wording
from unmask.metrics.claims import Evidence

Severity: TypeAlias = Literal["info", "warning", "error"]
Values: TypeAlias = Mapping[str, float]
"""The numbers behind a test or a finding, by name."""

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")


class TestKind(StrEnum):
    """A consequence of independent masks with the stated propensities that is tested.

    A finding that a test was rejected has the kind of the test.

    Examples
    --------
    >>> from unmask import diagnose
    >>> diagnosis = diagnose([[1, 0]] * 90 + [[0, 1]] * 10, [0.5, 0.5])
    >>> TestKind.LABEL_FREQUENCY in [test.kind for test in diagnosis.tests]
    True
    >>> TestKind.LABEL_FREQUENCY.needs_audit, TestKind.ROW.needs_audit
    (False, True)
    """

    __test__ = False  # pytest: not a test case

    LABEL_FREQUENCY = "label_frequency"
    """No label is observed in a larger share of the rows than its propensity."""
    EMPTY_ROWS = "empty_rows"
    """As many rows are empty as must have lost all their labels."""
    COUNT_SPREAD = "count_spread"
    """The number of labels per row varies at least as much as losing labels makes it vary."""
    COUNT_THINNING = "count_thinning"
    """The number of labels per row is distributed as losing labels leaves it."""
    AUDIT_LEVEL = "audit_level"
    """On the whole as many audited labels were kept as the propensities say."""
    AUDIT_SHAPE = "audit_shape"
    """From rare to frequent labels the propensities rise as fast as in the audit."""
    AUDIT_LABELS = "audit_labels"
    """Every single label was kept as often as its propensity says."""
    NUMBER_OF_LABELS = "number_of_labels"
    """Whether a label is kept does not depend on how many labels its row has."""
    ROW = "row"
    """The labels of a row are kept or lost independently of each other."""
    OTHER_LABELS = "other_labels"
    """Whether a label is kept does not depend on which other labels its row has."""
    SCORE = "score"
    """Whether a label is kept does not depend on the model's score of it."""
    COVARIATE = "covariate"
    """Whether a label is kept does not depend on what else is known of its row."""
    UNANNOTATED = "unannotated"
    """No more rows show nothing than row effort explains: every row was annotated."""
    SPURIOUS = "spurious"
    """At most one of a hundred observed labels is not true."""
    CLOSURE = "closure"
    """A label is kept independently of the label that it implies."""

    @property
    def needs_audit(self) -> bool:
        """Whether the test is made with an audit only."""
        return self not in _WITHOUT_AUDIT


_WITHOUT_AUDIT = frozenset(
    {TestKind.LABEL_FREQUENCY, TestKind.EMPTY_ROWS, TestKind.COUNT_SPREAD, TestKind.COUNT_THINNING}
)


class FindingKind(StrEnum):
    """What is found besides rejected tests.

    Examples
    --------
    >>> from unmask import diagnose
    >>> diagnosis = diagnose([[1, 0]] * 90 + [[0, 1]] * 10, [0.5, 0.5])
    >>> any(finding.kind is FindingKind.ESTIMATOR for finding in diagnosis.findings)
    True
    """

    PASSED_TESTS = "passed_tests"
    """Some tests were rejected; these were not."""
    NO_CONTRADICTION = "no_contradiction"
    """No test was rejected."""
    CANNOT_JUDGE = "cannot_judge"
    """No row is empty, so this file cannot tell whether rows that lost all labels were dropped."""
    PREDICTIONS = "predictions"
    """Metrics of predictions contradict the propensities, or each other."""
    SPURIOUS_LABELS = "spurious_labels"
    """Labels of the audit that are observed and not true, too few to matter."""
    NOT_TESTED = "not_tested"
    """What these data cannot tell, and what would."""
    STANDARD_ERRORS = "standard_errors"
    """How exact unbiased metrics can be."""
    ESTIMATOR = "estimator"
    """Which estimator of a metric to use."""
    LOSS = "loss"
    """Which loss to train, with which weights."""
    RARE_LABELS = "rare_labels"
    """Labels that were observed too rarely to say anything about them."""


class LabelGroup(StrEnum):
    """The labels that a test of the rows' label counts is about.

    Examples
    --------
    >>> [group.value for group in LabelGroup]
    ['all', 'low_propensity']
    """

    ALL = "all"
    LOW_PROPENSITY = "low_propensity"
    """The labels of low propensity that make up half of what was observed."""


@dataclass(frozen=True)
class Test:
    """A test of one consequence of independent masks with the stated propensities.

    Parameters
    ----------
    kind : TestKind
        What is tested.
    p_value : float
        Under the hypothesis that the propensities hold and the masks are independent.
    values : mapping of str to float, default {}
        How large the departure is, in numbers; which ones depends on the kind.
    severity : {"error", "warning"}, default "error"
        How bad it is if the test rejects; a departure too small to matter is a "warning".
    group : LabelGroup, optional
        The labels that the test is about, where it is made for several groups.
    adjusted : float, default 1.0
        The p-value after Holm's correction for all tests of the diagnosis.
    names : mapping of str to str, default {}
        The names of the labels whose numbers are among the values, by the same key; of a test of
        a covariate, its name.

    Examples
    --------
    >>> test = Test(TestKind.ROW, 0.01, {"correlation": 0.2})
    >>> test.kind == "row", test.name
    (True, 'labels of a row are kept independently')
    >>> test.effect
    'two labels of a row are kept or lost together with correlation +0.200'
    """

    __test__ = False  # pytest: not a test case

    kind: TestKind
    p_value: float
    values: Values = field(default_factory=dict, hash=False)
    severity: Severity = "error"
    group: LabelGroup | None = None
    adjusted: float = 1.0
    names: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        """What is tested, in words."""
        return wording.name_of_test(self)

    @property
    def title(self) -> str:
        """What the finding is called if the test rejects."""
        return wording.title_if_rejected(self)

    @property
    def effect(self) -> str:
        """How large the departure is, in words with a number."""
        return wording.effect_of_test(self)

    @property
    def advice(self) -> str:
        """What to do if the test rejects."""
        return wording.advice_if_rejected(self)

    def to_dict(self) -> dict[str, object]:
        """Plain numbers and strings, for JSON."""
        return {
            "kind": str(self.kind),
            "group": None if self.group is None else str(self.group),
            "name": self.name,
            "p_value": self.p_value,
            "adjusted": self.adjusted,
            "severity": self.severity,
            "title": self.title,
            "effect": self.effect,
            "advice": self.advice,
            "values": dict(self.values),
            "names": dict(self.names),
        }


@dataclass(frozen=True)
class Finding:
    """One thing to know: how bad it is, what it is, what shows it, what to do about it.

    Parameters
    ----------
    kind : TestKind or FindingKind
        What was found; a rejected test gives its own kind.
    severity : {"info", "warning", "error"}
        How bad it is.
    values : mapping of str to float, default {}
        The numbers that show it; which ones depends on the kind.
    group : LabelGroup, optional
        The labels that it is about, where a test is made for several groups.
    tests : tuple of Test, default ()
        The rejected test, or the tests that the finding sums up.
    not_tested : tuple of TestKind, default ()
        What could not be tested, of a finding of that kind.
    contradiction : Evidence, optional
        What metrics of predictions say against the propensities, of a finding of that kind.

    Examples
    --------
    >>> print(Finding(FindingKind.SPURIOUS_LABELS, "warning", {"spurious": 2, "observed": 40}))
    [warning] Observed labels that are not true
        2 of 40 observed labels in the audit are not among the complete ones.
        → Too few to matter: corrections undo losses only and amplify what is wrong, but \
`evaluate` bears 1 % of it.
    """

    kind: TestKind | FindingKind
    severity: Severity
    values: Values = field(default_factory=dict, hash=False)
    group: LabelGroup | None = None
    tests: tuple[Test, ...] = ()
    contradiction: Evidence | None = None
    not_tested: tuple[TestKind, ...] = ()

    @property
    def title(self) -> str:
        """What was found, in a few words."""
        return wording.title_of(self)

    @property
    def evidence(self) -> str:
        """What shows it, in sentences."""
        return wording.evidence_of(self)

    @property
    def advice(self) -> str:
        """What to do about it, in sentences."""
        return wording.advice_on(self)

    def to_dict(self) -> dict[str, object]:
        """Plain numbers and strings, for JSON."""
        return {
            "kind": str(self.kind),
            "group": None if self.group is None else str(self.group),
            "severity": self.severity,
            "title": self.title,
            "evidence": self.evidence,
            "advice": self.advice,
            "values": dict(self.values),
            "not_tested": [str(kind) for kind in self.not_tested],
        }

    def __str__(self) -> str:
        """Four short lines."""
        return f"[{self.severity}] {self.title}\n    {self.evidence}\n    → {self.advice}"


class Usability(TypedDict):
    """How exact corrected metrics can be, and the figures behind it.

    standard_error         of every metric, "P@1" …, for a model that puts true labels first
    largest_standard_error  of "P@1" …, for any model
    effective_sample_size  of "P" and "R": (Σ w)² / Σ w² of the weights of the observed labels
    observed_labels        how many labels were observed
    largest_weight         "1/p" of P@k and nDCG@k, "T" of R@k
    rows_with_negative_total_weight  share of rows whose weights T sum to less than 0
    """

    standard_error: dict[str, float]
    largest_standard_error: dict[str, float]
    effective_sample_size: dict[str, float]
    observed_labels: int
    largest_weight: dict[str, float]
    rows_with_negative_total_weight: float


@dataclass(frozen=True)
class Diagnosis:
    """Can these propensities be true, and can unbiased estimates be used here?

    Parameters
    ----------
    findings : tuple of Finding
        Worst first.
    tests : tuple of Test
        Every test made, rejected or not.
    usability : dict
        Expected standard errors, effective sample size, largest weights (`Usability`).
    n, L : int
        Size of the label matrix.

    Examples
    --------
    >>> from unmask import diagnose
    >>> labels = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]] * 50 + [[0, 0, 0]]
    >>> diagnosis = diagnose(labels, [0.5, 0.5, 0.5])
    >>> diagnosis.test("empty_rows").values["empty"]
    1
    >>> diagnosis.finding("empty_rows").severity, diagnosis.finding("spurious_labels")
    ('error', None)
    >>> diagnosis.finding("estimator").advice.partition(",")[0]
    'Report `vanilla`'
    """

    findings: tuple[Finding, ...]
    tests: tuple[Test, ...]
    usability: Usability
    n: int
    L: int

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict and the findings."""
        rows = [[f.severity, f.title, f.evidence, f.advice] for f in self.findings]
        return html_table(self.verdict, ["", "finding", "what shows it", "what to do"], rows)

    def test(self, kind: str, group: str | None = None) -> Test:
        """The test of this kind.

        Parameters
        ----------
        kind : TestKind or str
            What is tested, such as "empty_rows" or "audit_level".
        group : LabelGroup or str, optional
            "all" or "low_propensity", for tests that are made for both groups of labels; by default
            the test about all labels.

        Returns
        -------
        Test

        Raises
        ------
        ValueError
            If there is no such kind or group, or no such test was made.
        """
        _validation.one_of(kind, tuple(TestKind), "kind of test")
        _check_group(group)
        for test in self.tests:
            if test.kind == kind and group in (None, test.group):
                return test
        raise ValueError(_not_made(TestKind(kind), group, self.tests))

    def finding(self, kind: str, group: str | None = None) -> Finding | None:
        """The worst finding of this kind, if there is one.

        Parameters
        ----------
        kind : TestKind, FindingKind or str
            What is looked for, such as "empty_rows" (the test was rejected) or "rare_labels".
        group : LabelGroup or str, optional
            "all" or "low_propensity", for tests that are made for both groups of labels.

        Returns
        -------
        Finding or None

        Raises
        ------
        ValueError
            If there is no such kind or group.
        """
        _validation.one_of(kind, (*TestKind, *FindingKind), "kind of finding")
        _check_group(group)
        for finding in self.findings:
            if finding.kind == kind and group in (None, finding.group):
                return finding
        return None

    @property
    def violations(self) -> tuple[Finding, ...]:
        """The findings that a test was rejected, worst first."""
        return tuple(finding for finding in self.findings if isinstance(finding.kind, TestKind))

    @property
    def severity(self) -> Severity:
        """The worst severity among the findings."""
        return max((f.severity for f in self.findings), key=SEVERITIES.index, default="info")

    @property
    def verdict(self) -> str:
        """One sentence."""
        return wording.VERDICTS[self.severity]

    def to_dict(self) -> dict[str, object]:
        """Plain numbers, lists and strings, for JSON."""
        return {
            "severity": self.severity,
            "verdict": self.verdict,
            "findings": [finding.to_dict() for finding in self.findings],
            "tests": [test.to_dict() for test in self.tests],
            "usability": self.usability,
            "n": self.n,
            "L": self.L,
        }

    def __str__(self) -> str:
        """The verdict and the findings, for reading."""
        head = f"{self.n:,} rows, {self.L:,} labels: {self.verdict}"
        return "\n".join([head, *map(str, self.findings)])


def _check_group(group: str | None) -> None:
    if group is not None:
        _validation.one_of(group, tuple(LabelGroup), "group of labels")


def _not_made(kind: TestKind, group: str | None, tests: tuple[Test, ...]) -> str:
    kinds = ", ".join(dict.fromkeys(test.kind for test in tests))
    if kind.needs_audit and not any(test.kind.needs_audit for test in tests):
        return f"the test {kind!s} needs an audit; give `audit` to `diagnose`. Tests made: {kinds}."
    of = "" if group is None else f" of the group {group!s}"
    return f"the test {kind!s}{of} could not be made of these data. Tests made: {kinds}."


def replicates(
    draw: Callable[[], float], observed: float, most: int, *, two_sided: bool = False
) -> Floats:
    """Up to `most` draws; no more once so many lie beyond `observed` that it is nothing unusual.

    A p-value of (1 + draws beyond) / (1 + draws) keeps its level (Besag & Clifford, *Sequential
    Monte Carlo p-values*, 1991), and where nothing is wrong most of the work is saved.

    >>> replicates(lambda: 1.0, 0.5, 99).size, replicates(lambda: 1.0, 2.0, 99).size
    (10, 99)
    """
    statistics: list[float] = []
    above = below = 0
    while len(statistics) < most and (below if two_sided and below < above else above) < UNUSUAL:
        statistics.append(draw())
        above += statistics[-1] >= observed
        below += statistics[-1] <= observed
    return np.array(statistics)


UNUSUAL = 10
