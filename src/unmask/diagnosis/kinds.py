"""What a diagnosis can test and find, by name: code decides on these, `wording` puts them in words.

Members are strings, so `test.kind == "empty_rows"` holds and JSON carries "empty_rows".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, TypeAlias

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
