"""The parts of a diagnosis, and their English.

Tests and findings are values: code decides on their kinds and numbers, which JSON carries as they
are (members of kinds are strings, so `test.kind == "empty_rows"` holds). People read names, titles,
evidence and advice, all of which are made from kinds and values by the tables at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict

from unmask._messages import function
from unmask._text import html_table, visible
from unmask.arrays import checks
from unmask.metrics.claims import Evidence, Run, Standing, report

Severity: TypeAlias = Literal["info", "warning", "error"]
Values: TypeAlias = Mapping[str, Any]
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
    """Keeping a label does not depend on how many labels its row has."""
    ROW = "row"
    """The labels of a row are kept or lost independently of each other."""
    OTHER_LABELS = "other_labels"
    """Keeping a label does not depend on which other labels its row has."""
    SCORE = "score"
    """Keeping a label does not depend on the model's score of it."""
    COVARIATE = "covariate"
    """Keeping a label does not depend on what else is known of its row."""
    UNANNOTATED = "unannotated"
    """No more rows show nothing than row effort explains: every row was annotated."""
    SPURIOUS = "spurious"
    """At most one of a hundred observed labels is not true."""
    CLOSURE = "closure"
    """A label is kept independently of the label that it implies."""

    @property
    def needs_audit(self) -> bool:
        """True for tests that are made with an audit only."""
        return self not in _WITHOUT_AUDIT


_WITHOUT_AUDIT = frozenset(
    {TestKind.LABEL_FREQUENCY, TestKind.EMPTY_ROWS, TestKind.COUNT_SPREAD, TestKind.COUNT_THINNING}
)


class FindingKind(StrEnum):
    """Kinds of findings besides rejected tests.

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
    """Tests that these data do not allow, and what would allow them."""
    STANDARD_ERRORS = "standard_errors"
    """The exactness that unbiased metrics can have."""
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
        """The tested consequence, in words."""
        return TESTS[self.kind].name + self._about()

    @property
    def title(self) -> str:
        """The name of the finding if the test rejects."""
        return TESTS[self.kind].title + self._about()

    @property
    def effect(self) -> str:
        """The size of the departure, in words with a number."""
        values = {**self.values}
        values.update({key: visible(name) for key, name in self.names.items()})
        for key in LABEL_KEYS & self.values.keys():
            name = self.names.get(key)
            values[key] = f"label {self.values[key]}" if name is None else f"`{visible(name)}`"
        return _said(TESTS[self.kind].evidence, values)

    @property
    def advice(self) -> str:
        """Advice for the case that the test rejects."""
        return _said(TESTS[self.kind].advice, self.values)

    def _about(self) -> str:
        """Say which labels the test is about."""
        if self.group is None:
            return ""
        if self.group is LabelGroup.ALL:
            return " (all labels)"
        return f" (labels with propensity up to {self.values['highest_propensity']:.2g})"

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers and strings, for JSON."""
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
        """The finding in a few words."""
        if isinstance(self.kind, TestKind):
            return self.tests[0].title
        return FINDINGS[self.kind].title

    @property
    def evidence(self) -> str:
        """The numbers that show it, in sentences."""
        if isinstance(self.kind, TestKind):
            adjusted, tests = self.tests[0].adjusted, self.values["tests"]
            chance = "below 1e-15" if adjusted < 1e-15 else f"= {adjusted:.2g}"
            return _sentence(
                f"{self.tests[0].effect} (p {chance} after correction for {tests} tests)"
            )
        if self.contradiction is not None:
            return _sentence(self.contradiction.sentence)
        listed = [test.name for test in self.tests] + [TESTS[kind].name for kind in self.not_tested]
        text = _said(FINDINGS[self.kind].evidence, self.values)
        return f"{text}: {'; '.join(listed)}." if listed else text

    @property
    def advice(self) -> str:
        """Advice, in sentences."""
        if isinstance(self.kind, TestKind):
            return self.tests[0].advice
        return _said(FINDINGS[self.kind].advice, self.values)

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers and strings, for JSON."""
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
        """Return a few short lines."""
        return f"[{self.severity}] {self.title}\n    {self.evidence}\n    → {self.advice}"


class Usability(TypedDict):
    """Expected standard errors of corrected metrics, and the figures behind them.

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
    run : Run
        The standing of the propensities, by the rejected tests and the predictions.

    Examples
    --------
    >>> from unmask import diagnose
    >>> labels = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]] * 50 + [[0, 0, 0]]
    >>> diagnosis = diagnose(labels, [0.5, 0.5, 0.5])
    >>> diagnosis.test("empty_rows").values["empty"]
    1
    >>> diagnosis.finding("empty_rows").severity, diagnosis.finding("spurious_labels")
    ('error', None)
    >>> diagnosis.run.standing.value, diagnosis.finding("estimator").advice.partition(":")[0]
    ('refuted', 'No corrected number can be used')
    """

    findings: tuple[Finding, ...]
    tests: tuple[Test, ...]
    usability: Usability
    n: int
    L: int
    run: Run

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the verdict and the findings."""
        rows = [[f.severity, f.title, f.evidence, f.advice] for f in self.findings]
        return html_table(self.verdict, ["", "finding", "what shows it", "what to do"], rows)

    def test(self, kind: str, group: str | None = None) -> Test:
        """Return the test of this kind.

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
        checks.one_of(kind, tuple(TestKind), "kind of test")
        _check_group(group)
        for test in self.tests:
            if test.kind == kind and group in (None, test.group):
                return test
        made = ", ".join(dict.fromkeys(test.kind for test in self.tests))
        if TestKind(kind).needs_audit and not any(test.kind.needs_audit for test in self.tests):
            reason = " needs an audit; give `audit` to `diagnose`."
        else:
            about = "" if group is None else f" of the group {group!s}"
            reason = f"{about} could not be made of these data."
        raise ValueError(f"the test {kind!s}{reason} Tests made: {made}.")

    def finding(self, kind: str, group: str | None = None) -> Finding | None:
        """Return the worst finding of this kind, if there is one.

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
        checks.one_of(kind, (*TestKind, *FindingKind), "kind of finding")
        _check_group(group)
        for finding in self.findings:
            if finding.kind == kind and group in (None, finding.group):
                return finding
        return None

    @property
    def violations(self) -> tuple[Finding, ...]:
        """The findings of rejected tests, worst first."""
        return tuple(finding for finding in self.findings if isinstance(finding.kind, TestKind))

    @property
    def severity(self) -> Severity:
        """The worst severity among the findings."""
        return max((f.severity for f in self.findings), key=SEVERITIES.index, default="info")

    @property
    def verdict(self) -> str:
        """The standing of the propensities in one sentence, as every command says it."""
        return self.run.sentence

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers, lists and strings, for JSON."""
        return {
            "severity": self.severity,
            "verdict": self.verdict,
            "run": self.run.to_dict(),
            "findings": [finding.to_dict() for finding in self.findings],
            "tests": [test.to_dict() for test in self.tests],
            "usability": self.usability,
            "n": self.n,
            "L": self.L,
        }

    def __str__(self) -> str:
        """Return the verdict and the findings, for reading."""
        head = f"{self.n:,} rows, {self.L:,} labels: {self.verdict}"
        return "\n".join([head, *map(str, self.findings)])


def _check_group(group: str | None) -> None:
    if group is not None:
        checks.one_of(group, tuple(LabelGroup), "group of labels")


Text: TypeAlias = str | Callable[[Values], str]
"""A format of the values, or a function of them."""
LABEL_KEYS = frozenset({"label", "other_label"})
"""The values that are numbers of labels."""


class Words(NamedTuple):
    """A title, what shows it (of a test: the size of the departure), and what to do."""

    title: str
    evidence: Text
    advice: Text
    name: str = ""
    """The tested consequence, of a test."""


def _said(text: Text, values: Values) -> str:
    return text.format_map(values) if isinstance(text, str) else text(values)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


CUT_OFF = (
    "Were labels cut off at that number? Then the rows that have it lost further labels, which "
    "propensities do not describe: leave those rows out of corrected numbers, or take the labels "
    "from before the cut."
)
DEPENDENT = (
    "No propensity per label can describe these losses: corrected numbers keep a bias that more "
    "data do not remove. "
)
MEASURED = (
    "`evaluate(…, audit=…)` measures every metric from audited rows and assumes nothing of the "
    "masks."
)
USE_EFFORT = (
    'Fit it to this audit, `propensity.audit(…, mask="effort")`: `evaluate` then deconvolves '
    "with the effort of rows and its doubt. " + MEASURED
)


def _not_independent(_: Values) -> str:
    return (
        "The propensities are too low, or labels do not go missing independently. Estimate them "
        f"from an audit ({function('propensity.audit')}), and do not report corrected numbers "
        "until this is resolved."
    )


def _use_audit(_: Values) -> str:
    return f"Use propensities estimated from this audit ({function('propensity.audit')})."


def _spread(values: Values) -> str:
    dropped = values["dropped_rows"]
    allowance = f" (with up to {dropped:,.0f} empty rows that were dropped)" if dropped else ""
    return (
        f"the number of observed labels per row{allowance} has variance {values['variance']:.3g}; "
        f"losing labels at random alone makes it {values['least_variance']:.3g}"
    )


def _thinning(values: Values) -> str:
    number = f"{values['labels']} {'label' if values['labels'] == 1 else 'labels'}"
    text = (
        f"{values['observed_share']:.1%} of the rows show {number}, where whatever the truth is "
        f"losing labels leaves {values['expected_share']:.1%}"
    )
    return text + (f"; no row shows more than {number}" if _cut_off(values) else "")


def _cut_off(values: Values) -> bool:
    return bool(values["labels"] == values["most_labels"])


TESTS: Mapping[TestKind, Words] = {
    TestKind.LABEL_FREQUENCY: Words(
        "Labels seen more often than their propensity allows",
        "{label} is observed in {observed_share:.1%} of the rows; its propensity is "
        "{propensity:.3g}",
        "Raise the propensity of such labels ({too_frequent} of them).",
        name="no label more frequent than its propensity",
    ),
    TestKind.EMPTY_ROWS: Words(
        "Rows that lost all their labels are missing",
        "{empty} of {rows} rows are empty, but with these propensities at least {least_share:.1%} "
        "of all rows lose every label",
        _not_independent,
        name="enough empty rows",
    ),
    TestKind.COUNT_SPREAD: Words(
        "The number of labels varies too little between rows",
        _spread,
        _not_independent,
        name="counts vary enough",
    ),
    TestKind.COUNT_THINNING: Words(
        "The number of labels per row is not what losing labels leaves",
        _thinning,
        lambda values: CUT_OFF if _cut_off(values) else _not_independent(values),
        name="counts are a thinning",
    ),
    TestKind.AUDIT_LEVEL: Words(
        "The audit contradicts the level of the propensities",
        "{kept_share:.1%} of the audited labels were kept; these propensities say "
        "{stated_share:.1%}",
        _use_audit,
        name="level of the propensities agrees with the audit",
    ),
    TestKind.AUDIT_SHAPE: Words(
        "The audit contradicts the shape of the propensities",
        "from rare to frequent labels the logit of the propensity should rise {slope:.2f} times as "
        "fast as stated",
        _use_audit,
        name="shape of the propensities agrees with the audit",
    ),
    TestKind.AUDIT_LABELS: Words(
        "The audit contradicts the propensity of single labels",
        "{label} was kept {kept:.0f} of {true:.0f} times; its propensity is {propensity:.3g}",
        _use_audit,
        name="each propensity agrees with the audit",
    ),
    TestKind.NUMBER_OF_LABELS: Words(
        "Keeping a label depends on how many the row has",
        "the odds of being kept change by the factor {odds_factor:.2f} when a row has twice as "
        "many labels",
        DEPENDENT + "Stratify rows by their number of labels, or model the propensity of an "
        "entry (propensities may be given per row and label). " + MEASURED,
        name="keeping does not depend on the number of labels",
    ),
    TestKind.ROW: Words(
        "Labels of a row are kept or lost together",
        "two labels of a row are kept or lost together with correlation {correlation:+.3f}",
        DEPENDENT + "Some rows are annotated better than others. " + USE_EFFORT,
        name="labels of a row are kept independently",
    ),
    TestKind.OTHER_LABELS: Words(
        "Keeping a label depends on another label",
        lambda values: (
            "of {pairs} pairs of labels, the strongest: {label} is kept in {kept_with:.0%} "
            "of the rows that have {other_label} and in {kept_without:.0%} of the others"
            if values["pairs"]
            else "no pair has enough rows"
        ).format_map(values),
        lambda values: (
            DEPENDENT + "If one label stands in for another (a hierarchy, a synonym), merge them "
            "or complete the implied ones first. " + MEASURED
            if values["pairs"]
            else ""
        ),
        name="keeping does not depend on other labels",
    ),
    TestKind.SCORE: Words(
        "Labels are kept more or less often where the model finds them obvious",
        "from the lower to the upper quartile of a label's scores the odds of being kept change "
        "by the factor {odds_factor:.2f}",
        "One propensity per label makes P@k, DCG@k and nDCG@k of this model wrong. Fit the "
        'slope on this audit, `propensity.audit(…, mask="score", scores=…)`: `evaluate` then '
        "uses a propensity per entry for them and calls corrected recall doubtful. " + MEASURED,
        name="keeping does not depend on the model's score",
    ),
    TestKind.COVARIATE: Words(
        "Keeping a label depends on what else is known of the row",
        "with `{covariate}` the odds of being kept change by the factor {odds_factor:.2f} per "
        "standard deviation",
        DEPENDENT + "If it names groups of rows, estimate their propensities, "
        "`propensity.audit(…, groups=…)`, and give `evaluate` those of entries. " + MEASURED,
        name="keeping does not depend on what else is known of the rows",
    ),
    TestKind.UNANNOTATED: Words(
        "Some rows were not annotated at all",
        "{silent} of {rows} audited rows with true labels show none; about {share:.0%} of all rows "
        "were not annotated",
        USE_EFFORT,
        name="every row was annotated",
    ),
    TestKind.SPURIOUS: Words(
        "Observed labels that are not true",
        "{spurious} of {observed} observed labels in the audit are not among the complete ones, "
        "{share:.1%} where corrections bear {tolerated:.0%}",
        "Corrections undo losses only and amplify what is wrong. State the share, "
        "`propensity.MaskModel(p, spurious=…)`: unbiased P@k and DCG@k are then corrected "
        "for it, other corrected numbers are called doubtful. " + MEASURED,
        name="few observed labels are wrong",
    ),
    TestKind.CLOSURE: Words(
        "Labels are recorded together with those that they imply",
        "{closed} of {pairs} implied labels are never missing where the label below is recorded; "
        "the clearest: {other_label} is kept in {kept_with:.0%} of the rows that show {label}, in "
        "{kept_without:.0%} of those that lost it",
        DEPENDENT + "Records were completed along a hierarchy. Leave implied labels out (they "
        "follow from the others) and evaluate the lowest ones. " + MEASURED,
        name="implied labels are kept independently",
    ),
}


EXACT_ENOUGH = 0.01
"""A standard error that lets one tell apart models that differ by two points."""


def _estimator_evidence(values: Values) -> str:
    recall = values["recall_error"]
    return (
        f"Unbiased recall has a standard error of {recall:.2g}"
        if recall <= 1
        else "Unbiased recall is nothing but noise here"
    ) + (", and labels did not go missing as the corrections assume." if values["refuted"] else ".")


def _estimator_advice(values: Values) -> str:
    doubtful = Standing.DOUBTFUL if values["doubtful"] else Standing.NOT_REFUTED
    standing = Standing.REFUTED if values["refuted"] else doubtful
    return report(standing, exact=values["recall_error"] <= EXACT_ENOUGH)


def _standard_errors(values: Values) -> str:
    return (
        "Standard errors with these rows, for a model that puts true labels first without regard "
        f"for their propensity: {listed(values)}. A model that prefers rare labels pays more: "
    ) + (
        "in P@k up to {largest_precision_error:.2g}. The largest weight of a label is "
        "{largest_weight_P:.3g} in P and nDCG and {largest_weight_R:.3g} in R; "
        "{observed_labels:,} labels are worth {effective_sample_size_P:,.0f} of equal weight in P "
        "and nDCG, {effective_sample_size_R:,.0f} in R."
    ).format_map(values)


def listed(values: Values) -> str:
    """List standard errors metric by metric; of a metric above 1 nothing more is said.

    >>> listed({"P@1": 0.01, "P@3": 0.005, "R@1": 1.5, "observed_labels": 12})
    'P@k ±0.01 at 1, ±0.005 at 3; R@k above 1, of no use'
    """
    metrics: dict[str, dict[str, float]] = {}
    for name, error in values.items():
        metric, is_metric, k = name.partition("@")
        if is_metric:
            metrics.setdefault(metric, {})[k] = error
    return "; ".join(
        f"{metric}@k "
        + (
            "above 1, of no use"
            if min(errors.values()) > 1
            else ", ".join(f"±{error:.2g} at {k}" for k, error in errors.items())
        )
        for metric, errors in metrics.items()
    )


def _loss_advice(values: Values) -> str:
    normalized = (
        "`empirical_bayes` weights (positive, unbiased on average) for normalised losses"
        if values["negative_rows"] > 0.01 or values["largest_weight_R"] > 100
        else "`unbiased` weights also for normalised losses"
    )
    return (
        f"Logistic one-vs-all with `unbiased` weights (convex for any weights); {normalized}; "
        "`bound` with hinge losses."
    )


FINDINGS: Mapping[FindingKind, Words] = {
    FindingKind.PASSED_TESTS: Words(
        "What does not contradict the propensities",
        "{passed} of {tests} tests find nothing",
        "Only the errors and warnings need an answer.",
    ),
    FindingKind.NO_CONTRADICTION: Words(
        "No test contradicts the propensities",
        "{tests} tests, none rejected at {alpha:g} after correction.",
        lambda _: (
            "Absence of evidence is not proof: an audit of some hundred rows tells more "
            f"({function('audit.plan')} says which)."
        ),
    ),
    FindingKind.CANNOT_JUDGE: Words(
        "This file cannot tell whether rows lost all their labels",
        "No row is empty, though with these propensities at least {least_share:.2g} of all rows "
        "lose every label. Either rows without labels were dropped, or the propensities are too "
        "low: without the empty rows this file cannot tell, so their number was not tested.",
        "If rows without labels were dropped, as published files do, put them back if you can. If "
        "not: P@k and DCG@k by `unbiased` are too high relative to all rows, by the share that was "
        "dropped, and `deconvolved` estimates speak of the rows that kept a label.",
    ),
    FindingKind.PREDICTIONS: Words(
        "Metrics of the predictions contradict the propensities",
        "The metrics of the predictions cannot all be right.",
        _not_independent,
    ),
    FindingKind.SPURIOUS_LABELS: Words(
        "Observed labels that are not true",
        "{spurious} of {observed} observed labels in the audit are not among the complete ones.",
        "Too few to matter: corrections undo losses only and amplify what is wrong, but "
        "`evaluate` bears 1 % of it.",
    ),
    FindingKind.NOT_TESTED: Words(
        "What these data cannot tell",
        lambda values: (
            "Not tested with this audit" if values["audited"] else "Labels alone do not show"
        ),
        lambda values: (
            "Give the model's scores of the audited rows (`scores`), and what else is known of "
            "them, such as annotator or source (`covariates`); the rest needs more audited rows."
            if values["audited"]
            else "An audit of some hundred rows tells (`unmask audit plan`, then `diagnose` with "
            "`audit`). Until then the sensitivity of an estimate says how far each could move it."
        ),
    ),
    FindingKind.STANDARD_ERRORS: Words(
        "How exact unbiased metrics can be",
        _standard_errors,
        lambda values: (
            "More rows divide these by the root of their number; clipping or tempering the "
            "propensities trades them for bias."
            if max(values["precision_error"], values["recall_error"]) > EXACT_ENOUGH
            else "Precise enough."
        ),
    ),
    FindingKind.ESTIMATOR: Words(
        "Which estimator of a metric",
        _estimator_evidence,
        _estimator_advice,
    ),
    FindingKind.LOSS: Words(
        "Which loss to train",
        "Plain unbiased weights reach {largest_weight_P:.3g}; above 1, hinge losses are unbounded "
        "below. Unbiased weights of normalised losses reach {largest_weight_R:.3g}, and "
        "{negative_rows:.1%} of the rows have a negative total, for which softmax is not "
        "convex.",
        _loss_advice,
    ),
    FindingKind.RARE_LABELS: Words(
        "Labels about which nothing can be said",
        "{never} of {labels} labels are never observed, {rarely} fewer than {fewest} times; by "
        "these propensities they make up {share:.1%} of the true labels.",
        "Do not report per-label (macro) figures for them; pool them, or leave them out and "
        "say so.",
    ),
}
