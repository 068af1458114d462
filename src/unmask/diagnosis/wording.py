"""The English of a diagnosis: names, titles, evidence and advice, from kinds and values.

Every sentence about a test or a finding is made here and read by people only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask._messages import function
from unmask._text import visible
from unmask.diagnosis.findings import FindingKind, LabelGroup, TestKind, Values

if TYPE_CHECKING:
    from unmask.diagnosis.findings import Finding, Test

Sentence = Callable[[Values], str]
LABEL_KEYS = frozenset({"label", "other_label"})
"""The values that are numbers of labels."""


class WordingOfTest(NamedTuple):
    """What a test is called, what its rejection is called, its departure in words, what to do."""

    name: str
    title: str
    effect: Sentence
    advice: Sentence


class WordingOfFinding(NamedTuple):
    """What a finding is called, what shows it, what to do."""

    title: str
    evidence: Sentence
    advice: Sentence


def name_of_test(test: Test) -> str:
    """What is tested, for which labels."""
    return TESTS[test.kind].name + _of_group(test.group, test.values)


def title_if_rejected(test: Test) -> str:
    """What it is called that the test was rejected."""
    return TESTS[test.kind].title + _of_group(test.group, test.values)


def effect_of_test(test: Test) -> str:
    """How large the departure from what is tested is."""
    return TESTS[test.kind].effect(_WithLabels(test))


def advice_if_rejected(test: Test) -> str:
    """What to do if the test is rejected."""
    return TESTS[test.kind].advice(test.values)


def title_of(finding: Finding) -> str:
    """What was found."""
    if isinstance(finding.kind, TestKind):
        return title_if_rejected(finding.tests[0])
    return FINDINGS[finding.kind].title


def evidence_of(finding: Finding) -> str:
    """What shows it."""
    if isinstance(finding.kind, TestKind):
        return _violation(finding.tests[0], finding.values)
    if finding.contradiction is not None:
        text = finding.contradiction.sentence
        return f"{text[0].upper()}{text[1:]}."
    text = FINDINGS[finding.kind].evidence(finding.values)
    if finding.kind is FindingKind.PASSED_TESTS:
        text += f": {'; '.join(map(name_of_test, finding.tests))}."
    if finding.kind is FindingKind.NOT_TESTED:
        text += f": {'; '.join(TESTS[kind].name for kind in finding.not_tested)}."
    return text


def advice_on(finding: Finding) -> str:
    """What to do about it."""
    if isinstance(finding.kind, TestKind):
        return advice_if_rejected(finding.tests[0])
    return FINDINGS[finding.kind].advice(finding.values)


class _WithLabels(dict[str, Any]):
    """The values of a test, in which the number of a label became "label 12" or its name."""

    def __init__(self, test: Test) -> None:
        super().__init__(test.values)
        self.update({key: visible(name) for key, name in test.names.items()})
        for key in LABEL_KEYS & test.values.keys():
            name = test.names.get(key)
            self[key] = f"label {test.values[key]}" if name is None else f"`{visible(name)}`"


def _of_group(group: LabelGroup | None, values: Values) -> str:
    if group is None:
        return ""
    if group is LabelGroup.ALL:
        return " (all labels)"
    return f" (labels with propensity up to {values['highest_propensity']:.2g})"


def _violation(test: Test, values: Values) -> str:
    chance = "below 1e-15" if test.adjusted < 1e-15 else f"= {test.adjusted:.2g}"
    text = f"{effect_of_test(test)} (p {chance} after correction for {values['tests']} tests)."
    return text[0].upper() + text[1:]


def _plain(text: str) -> Sentence:
    """The same words whatever the values are."""
    return lambda _: text


CUT_OFF = (
    "Were labels cut off at that number? Then the rows that have it lost further labels, which "
    "propensities do not describe: leave those rows out of corrected numbers, or take the labels "
    "from before the cut."
)
EMPTY_ROWS_DROPPED = (
    "If rows without labels were dropped, as published files do, put them back if you can. If not: "
    "P@k and DCG@k by `unbiased` are too high relative to all rows, by the share that was dropped, "
    "and `deconvolved` estimates speak of the rows that kept a label."
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


def _not_independent(values: Values) -> str:
    return (
        "The propensities are too low, or labels do not go missing independently. Estimate them "
        f"from an audit ({function('propensity.audit')}), and do not report corrected numbers "
        "until this is resolved."
    )


def _use_audit(values: Values) -> str:
    return f"Use propensities estimated from this audit ({function('propensity.audit')})."


def _no_proof(values: Values) -> str:
    return (
        "Absence of evidence is not proof: an audit of some hundred rows tells more "
        f"({function('audit.plan')} says which)."
    )


def _empty_rows(values: Values) -> str:
    return (
        "{empty} of {rows} rows are empty, but with these propensities at least {least_share:.1%} "
        "of all rows lose every label"
    ).format_map(values)


def _cannot_judge(values: Values) -> str:
    return (
        "No row is empty, though with these propensities at least {least_share:.2g} of all rows "
        "lose every label. Either rows without labels were dropped, or the propensities are too "
        "low: without the empty rows this file cannot tell, so their number was not tested."
    ).format_map(values)


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
    return values["labels"] == values["most_labels"]


def _other_labels(values: Values) -> str:
    if not values["pairs"]:
        return "no pair has enough rows"
    return (
        "of {pairs} pairs of labels, the strongest: {label} is kept in {kept_with:.0%} "
        "of the rows that have {other_label} and in {kept_without:.0%} of the others"
    ).format_map(values)


TESTS: Mapping[TestKind, WordingOfTest] = {
    TestKind.LABEL_FREQUENCY: WordingOfTest(
        "no label more frequent than its propensity",
        "Labels seen more often than their propensity allows",
        "{label} is observed in {observed_share:.1%} of the rows; its propensity is "
        "{propensity:.3g}".format_map,
        "Raise the propensity of such labels ({too_frequent} of them).".format_map,
    ),
    TestKind.EMPTY_ROWS: WordingOfTest(
        "enough empty rows",
        "Rows that lost all their labels are missing",
        _empty_rows,
        _not_independent,
    ),
    TestKind.COUNT_SPREAD: WordingOfTest(
        "counts vary enough",
        "The number of labels varies too little between rows",
        _spread,
        _not_independent,
    ),
    TestKind.COUNT_THINNING: WordingOfTest(
        "counts are a thinning",
        "The number of labels per row is not what losing labels leaves",
        _thinning,
        lambda values: CUT_OFF if _cut_off(values) else _not_independent(values),
    ),
    TestKind.AUDIT_LEVEL: WordingOfTest(
        "level of the propensities agrees with the audit",
        "The audit contradicts the level of the propensities",
        "{kept_share:.1%} of the audited labels were kept; these propensities say "
        "{stated_share:.1%}".format_map,
        _use_audit,
    ),
    TestKind.AUDIT_SHAPE: WordingOfTest(
        "shape of the propensities agrees with the audit",
        "The audit contradicts the shape of the propensities",
        "from rare to frequent labels the logit of the propensity should rise {slope:.2f} times as "
        "fast as stated".format_map,
        _use_audit,
    ),
    TestKind.AUDIT_LABELS: WordingOfTest(
        "each propensity agrees with the audit",
        "The audit contradicts the propensity of single labels",
        "{label} was kept {kept:.0f} of {true:.0f} times; its propensity is "
        "{propensity:.3g}".format_map,
        _use_audit,
    ),
    TestKind.NUMBER_OF_LABELS: WordingOfTest(
        "keeping does not depend on the number of labels",
        "Keeping a label depends on how many the row has",
        "the odds of being kept change by the factor {odds_factor:.2f} when a row has twice as "
        "many labels".format_map,
        _plain(
            DEPENDENT + "Stratify rows by their number of labels, or model the propensity of an "
            "entry (propensities may be given per row and label). " + MEASURED
        ),
    ),
    TestKind.ROW: WordingOfTest(
        "labels of a row are kept independently",
        "Labels of a row are kept or lost together",
        "two labels of a row are kept or lost together with correlation "
        "{correlation:+.3f}".format_map,
        _plain(DEPENDENT + "Some rows are annotated better than others. " + USE_EFFORT),
    ),
    TestKind.OTHER_LABELS: WordingOfTest(
        "keeping does not depend on other labels",
        "Keeping a label depends on another label",
        _other_labels,
        lambda values: (
            DEPENDENT + "If one label stands in for another (a hierarchy, a synonym), merge them "
            "or complete the implied ones first. " + MEASURED
            if values["pairs"]
            else ""
        ),
    ),
    TestKind.SCORE: WordingOfTest(
        "keeping does not depend on the model's score",
        "Labels are kept more or less often where the model finds them obvious",
        "from the lower to the upper quartile of a label's scores the odds of being kept change "
        "by the factor {odds_factor:.2f}".format_map,
        _plain(
            "One propensity per label makes P@k, DCG@k and nDCG@k of this model wrong. Fit the "
            'slope on this audit, `propensity.audit(…, mask="score", scores=…)`: `evaluate` then '
            "uses a propensity per entry for them and calls corrected recall doubtful. " + MEASURED
        ),
    ),
    TestKind.COVARIATE: WordingOfTest(
        "keeping does not depend on what else is known of the rows",
        "Keeping a label depends on what else is known of the row",
        "with `{covariate}` the odds of being kept change by the factor {odds_factor:.2f} per "
        "standard deviation".format_map,
        _plain(
            DEPENDENT + "If it names groups of rows, estimate their propensities, "
            "`propensity.audit(…, groups=…)`, and give `evaluate` those of entries. " + MEASURED
        ),
    ),
    TestKind.UNANNOTATED: WordingOfTest(
        "every row was annotated",
        "Some rows were not annotated at all",
        "{silent} of {rows} audited rows with true labels show none; about {share:.0%} of all rows "
        "were not annotated".format_map,
        _plain(USE_EFFORT),
    ),
    TestKind.SPURIOUS: WordingOfTest(
        "few observed labels are wrong",
        "Observed labels that are not true",
        "{spurious} of {observed} observed labels in the audit are not among the complete ones, "
        "{share:.1%} where corrections bear {tolerated:.0%}".format_map,
        _plain(
            "Corrections undo losses only and amplify what is wrong. State the share, "
            "`propensity.MaskModel(p, spurious=…)`: unbiased P@k and DCG@k are then corrected "
            "for it, other corrected numbers are called doubtful. " + MEASURED
        ),
    ),
    TestKind.CLOSURE: WordingOfTest(
        "implied labels are kept independently",
        "Labels are recorded together with those that they imply",
        "{closed} of {pairs} implied labels are never missing where the label below is recorded; "
        "the clearest: {other_label} is kept in {kept_with:.0%} of the rows that show {label}, in "
        "{kept_without:.0%} of those that lost it".format_map,
        _plain(
            DEPENDENT + "Records were completed along a hierarchy. Leave implied labels out (they "
            "follow from the others) and evaluate the lowest ones. " + MEASURED
        ),
    ),
}


EXACT_ENOUGH = 0.01
"""A standard error that lets one tell apart models that differ by two points."""


def _standard_errors(values: Values) -> str:
    return (
        "Standard errors with these rows, for a model that puts true labels first without regard "
        f"for their propensity: {listed(values)}. A model that prefers rare labels pays more: "
        f"in P@k up to {values['largest_precision_error']:.2g}. "
    ) + (
        "The largest weight of a label is {largest_weight_P:.3g} in P and nDCG and "
        "{largest_weight_R:.3g} in R; {observed_labels:,} labels are worth "
        "{effective_sample_size_P:,.0f} of equal weight in P and nDCG, "
        "{effective_sample_size_R:,.0f} in R."
    ).format_map(values)


def listed(values: Values) -> str:
    """Standard errors metric by metric; of a metric above 1 nothing more is said.

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


def _estimator_evidence(values: Values) -> str:
    recall = values["recall_error"]
    return (
        f"Unbiased recall has a standard error of {recall:.2g}"
        if recall <= 1
        else "Unbiased recall is nothing but noise here"
    ) + (", and labels did not go missing as the corrections assume." if values["refuted"] else ".")


def _estimator_advice(values: Values) -> str:
    if values["refuted"]:
        return (
            "Report `vanilla`, as what was observed, and corrected numbers (`unbiased` for P@k, "
            "`deconvolved` for R@k) only with the errors above beside them."
        )
    if values["recall_error"] <= EXACT_ENOUGH:
        return "Use `unbiased` for every metric."
    return (
        "Use `unbiased` for P@k and DCG@k, `deconvolved` for R@k, nDCG@k and F1@k, and `bound` "
        "as a check from above."
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


FINDINGS: Mapping[FindingKind, WordingOfFinding] = {
    FindingKind.PASSED_TESTS: WordingOfFinding(
        "What does not contradict the propensities",
        "{passed} of {tests} tests find nothing".format_map,
        _plain("Only the errors and warnings need an answer."),
    ),
    FindingKind.NO_CONTRADICTION: WordingOfFinding(
        "No test contradicts the propensities",
        "{tests} tests, none rejected at {alpha:g} after correction.".format_map,
        _no_proof,
    ),
    FindingKind.CANNOT_JUDGE: WordingOfFinding(
        "This file cannot tell whether rows lost all their labels",
        _cannot_judge,
        _plain(EMPTY_ROWS_DROPPED),
    ),
    FindingKind.PREDICTIONS: WordingOfFinding(
        "Metrics of the predictions contradict the propensities",
        _plain("The metrics of the predictions cannot all be right."),
        _not_independent,
    ),
    FindingKind.SPURIOUS_LABELS: WordingOfFinding(
        "Observed labels that are not true",
        "{spurious} of {observed} observed labels in the audit are not among the complete "
        "ones.".format_map,
        _plain(
            "Too few to matter: corrections undo losses only and amplify what is wrong, but "
            "`evaluate` bears 1 % of it."
        ),
    ),
    FindingKind.NOT_TESTED: WordingOfFinding(
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
    FindingKind.STANDARD_ERRORS: WordingOfFinding(
        "How exact unbiased metrics can be",
        _standard_errors,
        lambda values: (
            "More rows divide these by the root of their number; clipping or tempering the "
            "propensities trades them for bias."
            if max(values["precision_error"], values["recall_error"]) > EXACT_ENOUGH
            else "Precise enough."
        ),
    ),
    FindingKind.ESTIMATOR: WordingOfFinding(
        "Which estimator of a metric", _estimator_evidence, _estimator_advice
    ),
    FindingKind.LOSS: WordingOfFinding(
        "Which loss to train",
        "Plain unbiased weights reach {largest_weight_P:.3g}; above 1, hinge losses are unbounded "
        "below. Unbiased weights of normalised losses reach {largest_weight_R:.3g}, and "
        "{negative_rows:.1%} of the rows have a negative total, for which softmax is not "
        "convex.".format_map,
        _loss_advice,
    ),
    FindingKind.RARE_LABELS: WordingOfFinding(
        "Labels about which nothing can be said",
        "{never} of {labels} labels are never observed, {rarely} fewer than {fewest} times; by "
        "these propensities they make up {share:.1%} of the true labels.".format_map,
        _plain(
            "Do not report per-label (macro) figures for them; pool them, or leave them out and "
            "say so."
        ),
    ),
}

VERDICTS: Mapping[str, str] = {
    "info": "nothing contradicts these propensities, and unbiased estimates can be used.",
    "warning": "usable with care; read the warnings.",
    "error": "these labels and these propensities do not fit together as corrections assume; "
    "read the errors before using corrected numbers.",
}
