"""`diagnose`: all tests and figures of one label matrix, put into findings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask import _validation
from unmask.diagnosis.dependence import agreement, dependence
from unmask.diagnosis.feasibility import feasibility
from unmask.diagnosis.findings import SEVERITIES, Diagnosis, Finding, Test
from unmask.diagnosis.usability import usability, usability_findings
from unmask.propensity import PropensityEstimate
from unmask.propensity.models import reciprocal

Floats = NDArray[np.float64]

FEW = 4
"""Below as many observed positives a label's frequency is known to worse than ±50 %."""


def diagnose(
    labels: Any,
    propensity: Any,
    audit: tuple[Any, Any] | None = None,
    *,
    k: tuple[int, ...] = (1, 3, 5),
    alpha: float = 0.05,
    seed: int = 0,
) -> Diagnosis:
    """Test `labels` against independent masks with these propensities, and say what can be used.

    `audit` is a pair (observed, complete) of label matrices of the same audited rows. The chance
    that anything is called a violation although nothing is one is at most `alpha`, over all tests
    (Holm). Propensities that are a `PropensityEstimate` are tested at the upper ends of their
    intervals: only what no propensity in the interval can explain counts.

    Half of all labels were lost, but no row is empty:

    >>> labels = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]] * 50
    >>> found = diagnose(labels, [0.5, 0.5, 0.5])
    >>> found.severity, found.findings[0].title
    ('error', 'Rows that lost all their labels are missing (all labels)')
    """
    matrix = _validation.labels(labels)
    if not matrix.nnz:
        raise ValueError(f"labels of shape {matrix.shape} hold no label; there is nothing to test.")
    _validation.in_range(alpha, "alpha", 0, 1)
    p = _validation.propensity(propensity, matrix.shape[1])
    highest = propensity.high if isinstance(propensity, PropensityEstimate) else p
    places = tuple(_validation.positive_int(place, "k") for place in k)
    rng = np.random.default_rng(seed)
    tests = list(feasibility(matrix, highest, rng))
    spurious: list[Finding] = []
    if audit is not None:
        observed, complete = _audit(audit, matrix.shape[1])
        tests += [*agreement(observed, complete, p), *dependence(observed, complete, rng)]
        spurious = list(_spurious(observed, complete))
    corrected = holm(tests)
    rejected = [test for test in corrected if test.adjusted <= alpha]
    figures = usability(matrix, p, places, rng)
    findings = [
        *(_violation(test, len(tests)) for test in rejected),
        *_summary(tests, rejected, alpha),
        *_never_empty(matrix, p, rejected),
        *spurious,
        *usability_findings(figures, any(test.severity == "error" for test in rejected)),
        *_tail(matrix, p),
    ]
    worst_first = sorted(findings, key=lambda f: -SEVERITIES.index(f.severity))
    return Diagnosis(tuple(worst_first), tuple(corrected), figures, *matrix.shape)


def holm(tests: list[Test]) -> list[Test]:
    """Holm's step-down correction: the smallest p-value times their number, and so on upwards.

    >>> given = [Test(str(p), p, "", "") for p in (0.01, 0.5, 0.04)]
    >>> [test.adjusted for test in holm(given)]
    [0.03, 0.5, 0.08]
    """
    order = np.argsort([test.p_value for test in tests], kind="stable")
    steps = [(len(tests) - rank) * tests[i].p_value for rank, i in enumerate(order)]
    adjusted = np.empty(len(tests))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps)) if tests else []
    return [replace(test, adjusted=float(a)) for test, a in zip(tests, adjusted, strict=True)]


def _audit(audit: tuple[Any, Any], n_labels: int) -> tuple[sp.csr_array, sp.csr_array]:
    observed = _validation.labels(audit[0], name="observed")
    complete = _validation.labels(audit[1], name="complete")
    _validation.same_shape(observed, complete, "observed", "complete")
    if complete.shape[1] != n_labels:
        raise ValueError(f"the audit has {complete.shape[1]} labels, the data have {n_labels}.")
    return observed, complete


def _violation(test: Test, of: int) -> Finding:
    chance = "below 1e-15" if test.adjusted < 1e-15 else f"{test.adjusted:.2g}"
    evidence = f"{test.effect} (p = {chance} after correction for {of} tests)."
    evidence = evidence.replace("p = below", "p below")
    return Finding(test.severity, test.title, evidence[0].upper() + evidence[1:], test.advice)


def _summary(tests: list[Test], rejected: list[Test], alpha: float) -> Iterator[Finding]:
    if rejected:
        passed = len(tests) - len(rejected)
        if passed:
            yield Finding(
                "info",
                "What does not contradict the propensities",
                f"{passed} of {len(tests)} tests find nothing: "
                f"{'; '.join(test.name for test in tests if test.name not in _names(rejected))}.",
                "Only the errors and warnings need an answer.",
            )
        return
    yield Finding(
        "info",
        "No test contradicts the propensities",
        f"{len(tests)} tests, none rejected at {alpha:g} after correction.",
        "Absence of evidence is not proof: an audit of some hundred rows tells more "
        "(`propensity.audit_plan` says which).",
    )


def _names(tests: list[Test]) -> set[str]:
    return {test.name for test in tests}


def _never_empty(labels: sp.csr_array, p: Floats, rejected: list[Test]) -> Iterator[Finding]:
    known = any(test.name.startswith("enough empty rows") for test in rejected)
    if not known and np.diff(labels.indptr).min() > 0 and p[labels.indices].min() < 1:
        yield Finding(
            "info",
            "Every row has a label",
            "No row is empty. These propensities do not make empty rows certain, so this is no "
            "contradiction, but it is what data look like from which empty rows were removed.",
            "Make sure that rows without observed labels were kept.",
        )


def _spurious(observed: sp.csr_array, complete: sp.csr_array) -> Iterator[Finding]:
    extra = observed.nnz - sp.csr_array(observed.multiply(complete)).nnz
    if extra:
        yield Finding(
            "warning",
            "Observed labels that are not true",
            f"{extra} of {observed.nnz} observed labels in the audit are not among the complete "
            "ones.",
            "Corrections undo losses only; spurious labels are amplified. Remove them, or check "
            "which of the two annotations is wrong.",
        )


def _tail(labels: sp.csr_array, p: Floats) -> Iterator[Finding]:
    counts = np.bincount(labels.indices, minlength=labels.shape[1])
    never, few = int((counts == 0).sum()), int(((counts > 0) & (counts < FEW)).sum())
    if never or few:
        true = counts * (reciprocal(p) / reciprocal(p).max())
        mass = float(true[counts < FEW].sum() / true.sum())
        yield Finding(
            "info",
            "Labels about which nothing can be said",
            f"{never} of {counts.size} labels are never observed, {few} fewer than {FEW} times; "
            f"by these propensities they make up {mass:.1%} of the true labels.",
            "Do not report per-label (macro) figures for them; pool them, or leave them out and "
            "say so.",
        )
