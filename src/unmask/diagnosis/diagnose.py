"""`diagnose`: all tests and figures of one label matrix, put into findings.

**How exact?** Corrected metrics weigh a hit on label j by 1/p_j (P@k, nDCG@k) or by the exact
normalised weight T_j (R@k, `weights.normalized_weights`). What the masks cost depends on labels,
propensities and on which labels a model prefers. Before there is a model, the standard errors are
those of one that puts min(k, N*) true labels of every row first, in random choice (nDCG@k:
normaliser taken as known). A model that prefers labels of low propensity pays more. For P@k there
is a limit that holds for every model: its row value is at most x = the sum of the k largest 1/p of
the row's observed labels, divided by k, so its standard error is at most √(mean x² / n). The
effective sample size is (Σ w)² / Σ w²: as many unweighted labels would be as exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask._messages import named_options
from unmask._typing import Floats, LabelsLike, PropensityLike, ScoresLike
from unmask.arrays import checks
from unmask.arrays.checks import entry_rows
from unmask.diagnosis.evidence import (
    DOUBT,
    agreement,
    dependence,
    feasibility,
    has_empty_rows,
    recording,
    row_sums,
    share_lost,
)
from unmask.diagnosis.findings import (
    LABEL_KEYS,
    SEVERITIES,
    Diagnosis,
    Finding,
    FindingKind,
    Severity,
    Test,
    TestKind,
    Usability,
)
from unmask.metrics.claims import Evidence, EvidenceKind, Run, Standing, too_wide
from unmask.metrics.evaluation import judge_propensities
from unmask.metrics.intervals import z_quantile
from unmask.predictions import TopK
from unmask.propensity import MaskModel
from unmask.propensity.models import reciprocal
from unmask.weights import count_distribution, normalized_weights

OF_INDEPENDENCE = frozenset(
    {TestKind.COUNT_THINNING, TestKind.AUDIT_LEVEL, TestKind.AUDIT_SHAPE, TestKind.ROW,
     TestKind.UNANNOTATED}
)  # fmt: skip
"""Tests that a stated row effort makes meaningless."""
FEW = 4
"""Below as many observed positives a label's frequency is known to worse than ±50 %."""
HUGE = 1e100


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
    labels Y*. What these data cannot tell is listed.

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
    scores : TopK, or (m, L) dense or sparse scores, optional
        Of the audited rows, to test whether obvious labels are kept more often.
    covariates : mapping of str to m numbers or texts, optional
        Of the audited rows, by name.

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
    mask = MaskModel.of(propensity)
    places = tuple(checks.positive_int(place, "k") for place in k)
    if not places:
        raise ValueError("k is empty; give at least one number of places, such as (1, 3, 5).")
    if names is not None and len(names) != p.size:
        raise ValueError(f"{len(names)} label names for {p.size} labels; give one per label.")
    rng = np.random.default_rng(seed)
    tests = list(feasibility(matrix, mask.highest, rng))
    tests += _audit_tests(audit, p, rng, scores, covariates)
    modelled = _modelled(mask)
    tests = holm([_named(test, names) for test in tests if test.kind not in modelled])
    rejected = [test for test in tests if test.adjusted <= alpha]
    few_wrong = [test for test in tests if test not in rejected and test.values.get("spurious")]
    run = judge_propensities(
        predictions, matrix, propensity, k=places, evidence=[_evidence(test) for test in rejected]
    )
    figures = usability(matrix, p, places, rng)
    findings = [
        *_of_tests(tests, rejected, alpha),
        *_cannot_judge(matrix, mask.highest, alpha),
        *_contradicted(run),
        *(Finding(FindingKind.SPURIOUS_LABELS, "warning", test.values) for test in few_wrong),
        *_not_tested(tests, audit is not None, modelled),
        *usability_findings(figures, run.standing),
        *_rare_labels(matrix, p),
    ]
    worst_first = sorted(findings, key=lambda f: -SEVERITIES.index(f.severity))
    shape = matrix.shape[0], matrix.shape[1]
    return Diagnosis(tuple(worst_first), tuple(tests), figures, *shape, run)


def _evidence(test: Test) -> Evidence:
    """Return a rejected test as what it says of the propensities."""
    details = {"test": str(test.kind), "effect": test.effect}
    return Evidence(EvidenceKind.REJECTED_TEST, test.severity == "error", details)


def _audit_tests(
    audit: tuple[LabelsLike, LabelsLike] | None,
    p: Floats,
    rng: np.random.Generator,
    scores: TopK | ScoresLike | None,
    covariates: Mapping[str, ArrayLike] | None,
) -> list[Test]:
    """Return all tests of audited rows; none without an audit."""
    if audit is None:
        rows = {"scores": scores, "covariates": covariates}
        if stated := [name for name, values in rows.items() if values is not None]:
            raise ValueError(
                f"{' and '.join(stated)} of audited rows came without an audit; give `audit`."
            )
        return []
    observed = checks.labels(audit[0], name="observed")
    complete = checks.labels(audit[1], name="complete")
    checks.audited_pair(observed, complete)
    if complete.shape[1] != p.size:
        raise ValueError(f"the audit has {complete.shape[1]} labels, the data have {p.size}.")
    return [
        *agreement(observed, complete, p),
        *dependence(observed, complete, rng, scores, covariates),
        *recording(observed, complete),
    ]


def _modelled(mask: MaskModel) -> frozenset[TestKind]:
    """Return tests of what a mask model states, or that take labels to be lost independently."""
    kinds = set() if mask.effort is None else set(OF_INDEPENDENCE)
    if mask.score_slope is not None:
        kinds.add(TestKind.SCORE)
    if mask.spurious:
        kinds.add(TestKind.SPURIOUS)
    return frozenset(kinds)


def _named(test: Test, names: Sequence[str] | None) -> Test:
    """Put the names of labels beside their numbers."""
    keys = LABEL_KEYS & test.values.keys()
    if names is None or not keys:
        return test
    return replace(test, names={key: names[int(test.values[key])] for key in keys})


def holm(tests: list[Test]) -> list[Test]:
    """Correct p-values step by step (Holm): the smallest times their number, and so on upwards.

    >>> from unmask.diagnosis.findings import TestKind
    >>> tests = [Test(TestKind.ROW, p) for p in (0.01, 0.5, 0.04)]
    >>> [test.adjusted for test in holm(tests)]
    [0.03, 0.5, 0.08]
    """
    order = np.argsort([test.p_value for test in tests], kind="stable")
    steps = [(len(tests) - rank) * tests[i].p_value for rank, i in enumerate(order)]
    adjusted = np.empty(len(tests))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps)) if tests else []
    return [replace(test, adjusted=float(a)) for test, a in zip(tests, adjusted, strict=True)]


def _of_tests(tests: list[Test], rejected: list[Test], alpha: float) -> Iterator[Finding]:
    """Yield a finding for every rejected test, and what the others say together."""
    n = len(tests)
    for test in rejected:
        yield Finding(test.kind, test.severity, {"tests": n}, test.group, (test,))
    passed = tuple(test for test in tests if test not in rejected)
    if not rejected:
        yield Finding(FindingKind.NO_CONTRADICTION, "info", {"tests": n, "alpha": alpha})
    elif passed:
        values = {"passed": len(passed), "tests": n}
        yield Finding(FindingKind.PASSED_TESTS, "info", values, tests=passed)


def _cannot_judge(labels: sp.csr_array, p: Floats, alpha: float) -> Iterator[Finding]:
    """Warn if no row is empty and that is more than chance, as rows must then be missing."""
    if has_empty_rows(labels) or p[labels.indices].min() == 1:
        return
    least, cautious = share_lost(labels, p)
    by_chance = (1 - cautious) ** labels.shape[0] + DOUBT
    values = {"rows": labels.shape[0], "least_share": least}
    yield Finding(FindingKind.CANNOT_JUDGE, "warning" if by_chance <= alpha else "info", values)


def _contradicted(run: Run) -> Iterator[Finding]:
    """Yield what metrics of predictions, judged together, say against the propensities."""
    for evidence in run.evidence:
        if evidence.kind is not EvidenceKind.REJECTED_TEST:
            severity: Severity = "error" if evidence.refutes else "warning"
            yield Finding(FindingKind.PREDICTIONS, severity, contradiction=evidence)


def _not_tested(
    tests: list[Test], audited: bool, modelled: frozenset[TestKind]
) -> Iterator[Finding]:
    """List the tests that need an audit, or more than this one, and were not made."""
    made = {test.kind for test in tests} | modelled
    missing = tuple(kind for kind in TestKind if kind.needs_audit and kind not in made)
    if missing:
        values = {"audited": float(audited)}
        yield Finding(FindingKind.NOT_TESTED, "info", values, not_tested=missing)


def _rare_labels(labels: sp.csr_array, p: Floats) -> Iterator[Finding]:
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


def usability(
    labels: sp.csr_array, p: Floats, places: tuple[int, ...], rng: np.random.Generator
) -> Usability:
    """Return expected standard errors and the figures behind them."""
    n, m = labels.shape[0], np.diff(labels.indptr)
    inverse = reciprocal(p[labels.indices])
    exact = normalized_weights(labels.indptr, inverse)
    by_label, by_share = _scale(inverse), _scale(exact)
    share = count_distribution(labels, p, tolerance=1e-6).share[m]  # E[1/N* | m] of every row
    uniform, errors = rng.random(labels.nnz), {}
    for k in places:
        hit = uniform < np.repeat(np.minimum(1.0, k * share), m)
        filled = 1 / np.maximum(share, 1 / k)  # min(k, N*): the places a right model can fill
        hits = row_sums(labels, hit * (inverse / by_label))
        for name, row, scale in (
            (f"P@{k}", hits / k, by_label),
            (f"R@{k}", row_sums(labels, hit * (exact / by_share)), by_share),
            (f"nDCG@{k}", hits / filled, by_label),
        ):
            errors[name] = float(row.std() / np.sqrt(n)) * scale
    return {
        "standard_error": errors,
        "largest_standard_error": {
            f"P@{k}": _largest_precision_error(labels, inverse, k) for k in places
        },
        "effective_sample_size": {"P": _kish(inverse), "R": _kish(np.abs(exact))},
        "observed_labels": int(labels.nnz),
        "largest_weight": {
            "1/p": float(inverse.max(initial=1.0)),
            "T": float(np.abs(exact).max(initial=1.0)),
        },
        "rows_with_negative_total_weight": float((row_sums(labels, exact / by_share) < 0).mean()),
    }


def _largest_precision_error(labels: sp.csr_array, inverse: Floats, k: int) -> float:
    """Return √(mean x² / n) with x = the k largest 1/p of the row's observed labels, over k."""
    rows = entry_rows(labels)
    order = np.lexsort((-inverse, rows))  # rows stay together, the largest weight of each first
    place = np.arange(labels.nnz) - labels.indptr[rows]
    scale = _scale(inverse)
    most = row_sums(labels, np.where(place < k, inverse[order], 0.0) / scale) / k
    return float(np.sqrt((most**2).mean() / labels.shape[0])) * scale


def _scale(weights: Floats) -> float:
    """Return 1, or the largest of weights whose squares or sums could exceed float64."""
    largest = float(np.abs(weights).max(initial=1.0))
    return largest if largest > HUGE else 1.0


def _kish(weights: Floats) -> float:
    largest = weights.max(initial=0.0)
    scaled = weights / largest if largest else weights
    return float(scaled.sum() ** 2 / (scaled**2).sum()) if largest else 0.0


def usability_findings(usability: Usability, standing: Standing) -> Iterator[Finding]:
    """Yield what the figures mean for the choice of an estimator and of a loss."""
    errors, sizes = usability["standard_error"], usability["effective_sample_size"]
    weights = {
        "largest_weight_P": usability["largest_weight"]["1/p"],
        "largest_weight_R": usability["largest_weight"]["T"],
    }
    precision, recall = (
        max(error for name, error in errors.items() if name.partition("@")[0] == metric)
        for metric in ("P", "R")
    )
    yield Finding(
        FindingKind.STANDARD_ERRORS,
        _severity(max(precision, recall)),
        {
            **errors,
            "precision_error": precision,
            "recall_error": recall,
            "largest_precision_error": max(usability["largest_standard_error"].values()),
            **weights,
            "observed_labels": usability["observed_labels"],
            "effective_sample_size_P": sizes["P"],
            "effective_sample_size_R": sizes["R"],
        },
    )
    severity = _severity(recall) if standing is Standing.NOT_REFUTED else "info"
    refuted, doubtful = standing is Standing.REFUTED, standing is Standing.DOUBTFUL
    values = {"recall_error": recall, "refuted": refuted, "doubtful": doubtful}
    yield Finding(FindingKind.ESTIMATOR, severity, values)
    negative = usability["rows_with_negative_total_weight"]
    yield Finding(FindingKind.LOSS, "info", {**weights, "negative_rows": negative})


def _severity(error: float) -> Severity:
    """Warn of a standard error by which an estimate is too wide to use (`claims`)."""
    return "warning" if too_wide(z_quantile(0.95) * error, 1.0, 1.0) else "info"
