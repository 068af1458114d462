"""`diagnose`: all tests and figures of one label matrix, put into findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask._messages import named_options
from unmask._typing import Floats, LabelsLike, PropensityLike, ScoresLike
from unmask.arrays import TopK, checks
from unmask.diagnosis import wording
from unmask.diagnosis.evidence import (
    DOUBT,
    agreement,
    dependence,
    feasibility,
    has_empty_rows,
    recording,
    share_lost,
)
from unmask.diagnosis.findings import (
    SEVERITIES,
    Diagnosis,
    Finding,
    FindingKind,
    Severity,
    Test,
    TestKind,
)
from unmask.diagnosis.usability import usability, usability_findings
from unmask.metrics import evaluate
from unmask.propensity import MaskModel, PropensityEstimate
from unmask.propensity.models import reciprocal

OF_INDEPENDENCE = frozenset(
    {TestKind.COUNT_THINNING, TestKind.AUDIT_LEVEL, TestKind.AUDIT_SHAPE, TestKind.ROW,
     TestKind.UNANNOTATED}
)  # fmt: skip
"""Tests that a stated row effort makes meaningless."""
FEW = 4
"""Below as many observed positives a label's frequency is known to worse than ±50 %."""


@named_options
def diagnose(
    labels: LabelsLike,
    propensity: PropensityLike,
    audit: tuple[LabelsLike, LabelsLike] | None = None,
    *,
    k: tuple[int, ...] = (1, 3, 5),
    alpha: float = 0.05,
    seed: int = 0,
    names: Sequence[str] | None = None,
    predictions: TopK | ScoresLike | None = None,
    scores: TopK | ScoresLike | None = None,
    covariates: Mapping[str, ArrayLike] | None = None,
) -> Diagnosis:
    """Test `labels` against independent masks with these propensities, and say what can be used.

    The hypothesis is Y_ij = M_ij Y*_ij with independent M_ij ~ Bernoulli(p_j), for *any* true
    labels Y*; the tests are in `feasibility` and, with an audit, in `dependence` and `recording`.
    What these data cannot tell is listed.

    Parameters
    ----------
    labels : matrix of shape (n, L)
        Observed labels, dense or sparse; 1 where a label was observed.
    propensity : array of shape (L,) or PropensityEstimate
        Numbers in (0, 1]. An estimate is tested at the upper ends of its intervals: only what no
        propensity in the interval can explain counts. Of a MaskModel, what it states (row effort,
        unannotated rows, a slope, wrong labels) is not tested again.
    audit : pair of matrices of shape (m, L), optional
        Observed and complete labels of the same audited rows.
    k : tuple of int, default (1, 3, 5)
        Places of the metrics whose standard errors are given.
    alpha : float, default 0.05
        The chance, at most, that anything is called a violation although nothing is one, over all
        tests (Holm).
    seed : int, default 0
        Decides the replicates and permutations.
    names : L strings, optional
        The names of the labels, for the words of the findings.
    predictions : TopK or scores of shape (n, L), optional
        Of the same rows: their metrics, judged as `evaluate` judges them, may contradict the
        propensities (P@k above 1, a refused fit, estimates that exclude each other).
    scores : TopK or scores of shape (m, L), optional
        Of the audited rows, to test whether obvious labels are kept more often.
    covariates : mapping of str to m numbers or texts, optional
        What else is known of the audited rows, to test whether keeping depends on it.

    Returns
    -------
    Diagnosis

    Raises
    ------
    ValueError
        If there is no observed label, shapes do not fit, or a number is out of its range.

    References
    ----------
    Holm, *A simple sequentially rejective multiple test procedure*, Scand. J. Stat. 6 (1979).

    Examples
    --------
    Half of all labels were lost, but hardly a row is empty:

    >>> labels = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]] * 50 + [[0, 0, 0]]
    >>> diagnosis = diagnose(labels, [0.5, 0.5, 0.5])
    >>> diagnosis.severity, diagnosis.violations[0].kind == "empty_rows"
    ('error', True)
    >>> diagnosis.violations[0].title
    'Rows that lost all their labels are missing (all labels)'

    Of a file from which empty rows were dropped, that cannot be said:

    >>> diagnosis = diagnose(labels[:-1], [0.5, 0.5, 0.5])
    >>> diagnosis.finding("empty_rows"), diagnosis.finding("cannot_judge").severity
    (None, 'warning')
    """
    matrix = checks.labels(labels)
    if not matrix.nnz:
        raise ValueError(f"labels of shape {matrix.shape} hold no label; there is nothing to test.")
    checks.in_range(alpha, "alpha", 0, 1)
    p = checks.propensity(propensity, matrix.shape[1])
    stated = propensity.propensity if isinstance(propensity, MaskModel) else propensity
    highest = stated.high if isinstance(stated, PropensityEstimate) else p
    places = tuple(checks.positive_int(place, "k") for place in k)
    if not places:
        raise ValueError("k is empty; give at least one number of places, such as (1, 3, 5).")
    rng = np.random.default_rng(seed)
    tests = list(feasibility(matrix, highest, rng))
    tests += _audit_tests(audit, p, rng, scores, covariates)
    modelled = _modelled(propensity)
    tests = [test for test in tests if test.kind not in modelled]
    corrected = holm([_named(test, _label_names(names, matrix.shape[1])) for test in tests])
    rejected = [test for test in corrected if test.adjusted <= alpha]
    figures = usability(matrix, p, places, rng)
    findings = [
        *(_violation(test, len(tests)) for test in rejected),
        *_summary(corrected, rejected, alpha),
        *_cannot_judge(matrix, highest, alpha),
        *_contradicted(predictions, matrix, propensity, places),
        *_few_spurious(corrected, rejected),
        *_not_tested(corrected, audit is not None, modelled),
        *usability_findings(figures, any(test.severity == "error" for test in rejected)),
        *_tail(matrix, p),
    ]
    worst_first = sorted(findings, key=lambda f: -SEVERITIES.index(f.severity))
    return Diagnosis(tuple(worst_first), tuple(corrected), figures, *matrix.shape)


def _contradicted(
    predictions: TopK | ScoresLike | None,
    labels: sp.csr_array,
    propensity: PropensityLike,
    places: tuple[int, ...],
) -> Iterator[Finding]:
    """What the metrics of predictions, judged together, say against the propensities."""
    if predictions is None:
        return
    width = predictions.k if isinstance(predictions, TopK) else labels.shape[1]
    metrics = [f"{name}@{k}" for k in places if k <= width for name in ("P", "R")]
    table = evaluate(
        predictions, labels, propensity, metrics=metrics or ["P@1"],
        estimators=["unbiased", "deconvolved"],
    )  # fmt: skip
    for evidence in () if table.run is None else table.run.evidence:
        severity: Severity = "error" if evidence.refutes else "warning"
        yield Finding(FindingKind.PREDICTIONS, severity, contradiction=evidence)


def _label_names(names: Sequence[str] | None, n_labels: int) -> Sequence[str] | None:
    if names is not None and len(names) != n_labels:
        raise ValueError(f"{len(names)} label names for {n_labels} labels; give one per label.")
    return names


def _named(test: Test, names: Sequence[str] | None) -> Test:
    """The test with the names of the labels among its values."""
    keys = wording.LABEL_KEYS & test.values.keys()
    if names is None or not keys:
        return test
    return replace(test, names={key: names[int(test.values[key])] for key in keys})


def holm(tests: list[Test]) -> list[Test]:
    """Holm's step-down correction: the smallest p-value times their number, and so on upwards.

    >>> from unmask.diagnosis import TestKind
    >>> tests = [Test(TestKind.ROW, p) for p in (0.01, 0.5, 0.04)]
    >>> [test.adjusted for test in holm(tests)]
    [0.03, 0.5, 0.08]
    """
    order = np.argsort([test.p_value for test in tests], kind="stable")
    steps = [(len(tests) - rank) * tests[i].p_value for rank, i in enumerate(order)]
    adjusted = np.empty(len(tests))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps)) if tests else []
    return [replace(test, adjusted=float(a)) for test, a in zip(tests, adjusted, strict=True)]


def _audit_tests(
    audit: tuple[LabelsLike, LabelsLike] | None,
    p: Floats,
    rng: np.random.Generator,
    scores: TopK | ScoresLike | None,
    covariates: Mapping[str, ArrayLike] | None,
) -> list[Test]:
    """All tests of audited rows; none without an audit."""
    if audit is None:
        given = {"scores": scores, "covariates": covariates}
        names = [name for name, each in given.items() if each is not None]
        if names:
            raise ValueError(
                f"{' and '.join(names)} of audited rows came without an audit; give `audit`."
            )
        return []
    observed, complete = _audit(audit, p.size)
    return [
        *agreement(observed, complete, p),
        *dependence(observed, complete, rng, scores, covariates),
        *recording(observed, complete),
    ]


def _audit(
    audit: tuple[LabelsLike, LabelsLike], n_labels: int
) -> tuple[sp.csr_array, sp.csr_array]:
    observed = checks.labels(audit[0], name="observed")
    complete = checks.labels(audit[1], name="complete")
    checks.audited_pair(observed, complete)
    if complete.shape[1] != n_labels:
        raise ValueError(f"the audit has {complete.shape[1]} labels, the data have {n_labels}.")
    return observed, complete


def _violation(test: Test, tests: int) -> Finding:
    return Finding(test.kind, test.severity, {"tests": tests}, test.group, (test,))


def _summary(tests: list[Test], rejected: list[Test], alpha: float) -> Iterator[Finding]:
    if not rejected:
        values = {"tests": len(tests), "alpha": alpha}
        yield Finding(FindingKind.NO_CONTRADICTION, "info", values)
    elif passed := tuple(test for test in tests if test not in rejected):
        values = {"passed": len(passed), "tests": len(tests)}
        yield Finding(FindingKind.PASSED_TESTS, "info", values, tests=passed)


def _cannot_judge(labels: sp.csr_array, p: Floats, alpha: float) -> Iterator[Finding]:
    """No row is empty: a warning where that is more than chance, as rows must then be missing."""
    if has_empty_rows(labels) or p[labels.indices].min() == 1:
        return
    least, cautious = share_lost(labels, p)
    by_chance = (1 - cautious) ** labels.shape[0] + DOUBT
    values = {"rows": labels.shape[0], "least_share": least}
    severity: Severity = "warning" if by_chance <= alpha else "info"
    yield Finding(FindingKind.CANNOT_JUDGE, severity, values)


def _few_spurious(tests: list[Test], rejected: list[Test]) -> Iterator[Finding]:
    """Wrong labels in the audit that are too few for the test to reject."""
    for test in tests:
        wrong = test.kind is TestKind.SPURIOUS and test.values["spurious"]
        if wrong and test not in rejected:
            yield Finding(FindingKind.SPURIOUS_LABELS, "warning", test.values)


def _modelled(propensity: object) -> frozenset[TestKind]:
    """Tests of what a mask model itself states, or that take labels to be lost independently."""
    if not isinstance(propensity, MaskModel):
        return frozenset()
    kinds = set() if propensity.effort is None else set(OF_INDEPENDENCE)
    if propensity.score_slope is not None:
        kinds.add(TestKind.SCORE)
    if propensity.spurious:
        kinds.add(TestKind.SPURIOUS)
    return frozenset(kinds)


def _not_tested(
    tests: list[Test], audited: bool, modelled: frozenset[TestKind]
) -> Iterator[Finding]:
    """The tests that need an audit, or more than this one, and were not made."""
    made = {test.kind for test in tests} | modelled
    missing = tuple(kind for kind in TestKind if kind.needs_audit and kind not in made)
    if missing:
        values = {"audited": float(audited)}
        yield Finding(FindingKind.NOT_TESTED, "info", values, not_tested=missing)


def _tail(labels: sp.csr_array, p: Floats) -> Iterator[Finding]:
    counts = np.bincount(labels.indices, minlength=labels.shape[1])
    never, rarely = int((counts == 0).sum()), int(((counts > 0) & (counts < FEW)).sum())
    if never or rarely:
        true_counts = counts * (reciprocal(p) / reciprocal(p).max())
        values = {
            "never": never,
            "rarely": rarely,
            "fewest": FEW,
            "labels": counts.size,
            "share": float(true_counts[counts < FEW].sum() / true_counts.sum()),
        }
        yield Finding(FindingKind.RARE_LABELS, "info", values)
