"""Measured estimates of metrics, and of differences between systems.

Where rows were chosen (whole rows, two-phase), a metric is the mean of the values of rows, with
control variates (`control`), or the ratio of two such means (micro metrics). Its interval is
Wilson's, with a quantile of Student's t, for as many trials as the variance is worth that two more
rows, of the least and of the largest value, leave: near 0 and 1, and where rows are all alike, few
rows say little. A few rows with many labels decide a ratio, so that the variance of its residuals
is itself uncertain: with kurtosis κ as uncertain as that of 2m/(κ − 1) normal ones, which are then
the degrees of freedom. Where pairs were chosen over all rows, metrics are sums over pairs
(`pair_totals`). Point and ends lie within the range of the metric.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import poisson
from scipy.stats import t as student

from unmask._typing import Floats, Integers, Ints, LabelsLike
from unmask.arrays import TopK, checks, entry_rows, fingerprint
from unmask.data.judgements import IN_TOP, Design, Judgements
from unmask.metrics.claims import Advice, Level, Reason, Verdict, too_wide
from unmask.metrics.intervals import of_bounded
from unmask.metrics.measured import covariates as covariates_
from unmask.metrics.measured import pair_control, pair_totals, undecided
from unmask.metrics.measured.control import (
    SPREAD,
    Controlled,
    Limits,
    RowSample,
    controlled,
    variance,
)
from unmask.metrics.measured.covariates import CovariatesLike
from unmask.metrics.measured.row_values import JudgedRows, judged_rows
from unmask.metrics.registry import LINEAR, METRICS, MICRO, OF_PREDICTED, split, split_measured
from unmask.metrics.table import Estimate

MEASURED = "measured"
"""The name of the estimator."""
NONE = math.nan
RECALLS = ("micro-R", "micro-F1")
"""Metrics that count relevant pairs wherever they are."""
BY_PREDICTIONS = ("micro-P", "micro-F1")
"""Metrics that divide by how many predictions there are."""
KINKED = ("nDCG", "R-precision")
"""Metrics that depend on how many labels are relevant, but not beyond k: see `row_values`."""


@dataclass(frozen=True, eq=False)
class Audit:
    """Judgements with the labels they belong to, checked; made once for all metrics.

    Parameters
    ----------
    judged : Judgements
    labels : csr_array of shape (n, L), validated
    confidence : float
    covariates : CovariatesLike, optional
    """

    judged: Judgements
    labels: sp.csr_array
    confidence: float
    covariates: CovariatesLike | None = None

    @property
    def by_rows(self) -> bool:
        """Whether rows were chosen, not pairs over all rows."""
        return self.judged.sample.design is not Design.PAIRS


@dataclass(frozen=True)
class _Term:
    """A system's predictions, and the sign with which its metric counts."""

    top: TopK
    sign: float


def measure(
    top: TopK,
    labels: LabelsLike,
    judged: Judgements,
    *,
    metrics: Sequence[str],
    confidence: float = 0.95,
    covariates: CovariatesLike | None = None,
) -> list[Estimate]:
    """Every metric from the judgements.

    Parameters
    ----------
    top : TopK
        Predictions of all n rows.
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    judged : Judgements
        See `unmask.audit`.
    metrics : sequence of str
        Metrics over rows, or micro-P, micro-R and micro-F1, with a cut-off.
    confidence : float, default 0.95
        Of the intervals.
    covariates : CovariatesLike, optional
        What else is known of all rows: (n,) or (n, q) numbers, or (n, L) matrices of pairs, such
        as the answers of another judge.

    Returns
    -------
    list of Estimate
        With `estimator` "measured"; `details["alone"]` holds value and ends without covariates.

    Raises
    ------
    ValueError
        If the judgements belong to data of another shape, or a metric is unknown.

    Examples
    --------
    >>> from unmask import audit, data
    >>> from unmask.metrics import contributions
    >>> true = data.synthetic.independent(400, 9, seed=0)
    >>> observed = data.hide(true, np.full(9, 0.5), seed=1)
    >>> scores = true.toarray() + np.random.default_rng(2).random(true.shape)
    >>> top = TopK.from_scores(scores, 3)
    >>> plan = audit.plan(top, observed, budget=100)
    >>> (recall,) = measure(top, observed, audit.from_rows(plan, true[plan.rows]), metrics=["R@3"])
    >>> exact = contributions(top, true, metrics=["R@3"])["R@3", "vanilla"].mean()
    >>> bool(recall.interval[0] < exact < recall.interval[1])
    True
    """
    about = checked_audit(judged, labels, confidence, covariates)
    return [_estimate(about, name, [_Term(_checked(top, about), 1.0)]) for name in metrics]


def measure_differences(
    systems: Mapping[str, TopK],
    labels: LabelsLike,
    judged: Judgements,
    *,
    metrics: Sequence[str],
    confidence: float = 0.95,
    covariates: CovariatesLike | None = None,
) -> dict[str, list[Estimate]]:
    """How much better every system is than the first one, from the judgements.

    Parameters
    ----------
    systems : mapping of str to TopK
        At least two; the first is what the others are compared with.
    labels, judged, metrics, confidence, covariates
        As in `measure`.

    Returns
    -------
    dict of str to list of Estimate
        Differences by name of system; `details["p_value"]` and `details["values"]` (this system,
        first system).
    """
    about = checked_audit(judged, labels, confidence, covariates)
    first, *others = (_checked(top, about) for top in systems.values())
    _, *names = systems
    result = {}
    for name, other in zip(names, others, strict=True):
        rows = []
        for metric in metrics:
            made = _estimate(about, metric, [_Term(other, 1.0), _Term(first, -1.0)])
            values = [_estimate(about, metric, [_Term(t, 1.0)]).value for t in (other, first)]
            details = {**made.details, "p_value": difference_p_value(made), "values": values}
            rows.append(replace(made, details=details))
        result[name] = rows
    return result


def checked_audit(
    judged: Judgements, labels: LabelsLike, confidence: float, covariates: CovariatesLike | None
) -> Audit:
    """Judgements with the labels they belong to, checked."""
    observed = checks.labels(labels)
    if observed.shape != judged.sample.shape:
        raise ValueError(
            f"the judgements belong to data of shape {judged.sample.shape}; the labels have "
            f"{observed.shape}."
        )
    sample = judged.sample
    if sample.design is Design.PAIRS:
        pairs, free = sum(each.size for each in sample.strata), sample.observed_free
        frame = observed.shape[0] * observed.shape[1] - (observed.nnz if free else 0)
        if pairs != frame:
            raise ValueError(
                f"the strata of the audit have {pairs:,} pairs in all, but there are {frame:,} to "
                "judge; these are other labels, or the plan is damaged."
            )
    checks.confidence(confidence)
    return Audit(judged, observed, confidence, covariates)


def _checked(top: TopK, about: Audit) -> TopK:
    checks.same_rows(top.labels, about.labels, "predictions", "labels")
    return top


def difference_p_value(made: Estimate) -> float:
    """Of Student's t, two-sided; nan without a number."""
    if math.isnan(made.value):
        return NONE
    if not made.standard_error > 0:
        return float(made.value == 0)
    degrees = max(made.details.get("degrees", 1000), 1)
    return float(2 * student.sf(abs(made.value) / made.standard_error, degrees))


def _estimate(about: Audit, name: str, terms: list[_Term]) -> Estimate:
    questions = int(about.judged.open_units.sum())
    if questions:
        least, most = (_estimate(each, name, terms) for each in _extremes(about, name, terms))
        return undecided.joined(least, most, questions)
    metric, k, terms = _cut(about, name, terms)
    if about.by_rows:
        return _of_rows(about, name, metric, k, terms)
    return _of_pairs(about, name, metric, k, terms)


def at_extremes(
    top: TopK, labels: sp.csr_array, judged: Judgements, name: str
) -> tuple[Judgements, Judgements]:
    """The judgements with undecided answers taken so that a metric is least, and most."""
    about = Audit(judged, labels, 0.95)
    least, most = _extremes(about, name, [_Term(top, 1.0)])
    return least.judged, most.judged


def _extremes(about: Audit, name: str, terms: list[_Term]) -> tuple[Audit, Audit]:
    """The audit with undecided answers at either end; see `undecided`."""
    metric, k, cut = _cut(about, name, terms)
    worth = "DCG" if metric in ("DCG", "nDCG") else "P"
    alone = metric not in MICRO and about.by_rows

    def weigh(rows: Ints, labels: Ints) -> Floats:
        parts = [t.sign * place_weights(t.top, rows, labels, k, worth) for t in cut]
        return np.asarray(sum(parts))

    def score(judged: Judgements) -> Floats:
        if not alone:
            made = _estimate(replace(about, judged=judged, covariates=None), name, terms)
            return np.array([made.value])
        rows = judged_rows(judged, about.labels)
        return np.asarray(sum(t.sign * rows.values(t.top, f"{metric}@{k}") for t in cut))

    offered = undecided.offered(about.judged, about.labels, [t.top.labels[:, :k] for t in cut])
    least, most = undecided.extremes(about.judged, offered, weigh, score)
    return replace(about, judged=least), replace(about, judged=most)


def _cut(about: Audit, name: str, terms: list[_Term]) -> tuple[str, int, list[_Term]]:
    """The metric, its cut-off, and the terms, lists of sets of equal length; checked."""
    metric, k = split_measured(name)
    if k is None and METRICS[metric].of_sets:
        terms = _as_wide(terms)
    longest = min(term.top.k for term in terms)
    k = longest if k is None else k
    if k > longest and longest < about.labels.shape[1]:
        raise ValueError(f"{name} needs the first {k} predictions of every row, not {longest}.")
    return metric, k, terms


def _as_wide(terms: list[_Term]) -> list[_Term]:
    """All lists with as many places as the longest: a set is read whole, whatever beside it is."""
    width = max(term.top.k for term in terms)
    made = []
    for term in terms:
        more = ((0, 0), (0, width - term.top.k))
        labels = np.pad(term.top.labels, more, constant_values=-1)
        scores = np.pad(term.top.scores, more, constant_values=-np.inf)
        made.append(replace(term, top=TopK(labels, scores)))
    return made


def _of_rows(about: Audit, name: str, metric: str, k: int, terms: list[_Term]) -> Estimate:
    part = uncovered(about.judged)
    if part:
        return not_judged(about, name, part)
    rows = judged_rows(about.judged, about.labels)
    if metric in BY_PREDICTIONS and _differ_in_size(terms, k):
        return _of_two_ratios(about, rows, name, metric, k, terms)
    if metric in KINKED and not rows.whole:
        return _of_bounds(about, rows, name, metric, k, terms)
    if metric in MICRO:
        sample, ratio = _micro_sample(about, rows, metric, k, terms), True
        if not sample.values[:, 1].any():
            return without_relevant(about, name, metric)
    else:
        sample, ratio = _row_sample(about, rows, metric, k, terms), False
    predicted = _covariates(about, metric, k, terms)
    within, limits = _prediction_limits(metric, k, terms), _limits(metric, k, len(terms))
    made, alone = (
        row_mean(sample, each, within, limits, ratio=ratio, confidence=about.confidence)
        for each in (predicted, None)
    )
    details = {"degrees": made.degrees, "alone": [alone.value, *alone.interval]}
    return finished(
        about, name, made.value, made.error, made.interval, details, _largest(made.residuals),
        limits,
    )  # fmt: skip


def _of_bounds(
    about: Audit, rows: JudgedRows, name: str, metric: str, k: int, terms: list[_Term]
) -> Estimate:
    """A metric whose rows lie between what few and what many relevant labels more would make it.

    The ends are those of the means of both. The point supposes as many unjudged relevant labels per
    row as there are on average, by a Poisson distribution.
    """
    if not all(rows.surely_judged(term.top, k) for term in terms):
        return not_judged(about, name)
    possible = np.sum([t.sign * rows.possible(t.top, metric, k) for t in terms], axis=0)
    missing = float((rows.weights.data - 1).sum()) / rows.rows.size
    chance = poisson.pmf(np.arange(k + 1), missing)
    chance[k] = 1 - chance[:k].sum()
    limits = _limits(metric, k, len(terms))
    columns = possible.min(axis=1), possible @ chance, possible.max(axis=1)
    samples = [
        RowSample(rows.rows, rows.stratum, _sizes(about), each[:, None], estimated=True)
        for each in columns
    ]
    found = []
    for predicted in (_covariates(about, metric, k, terms), None):
        low, made, high = (
            row_mean(each, predicted, limits, limits, confidence=about.confidence)
            for each in samples
        )
        found.append((made, (low.interval[0], high.interval[1])))
    (made, ends), (alone, ends_alone) = found
    details = {"degrees": made.degrees, "alone": [alone.value, *ends_alone]}
    return finished(
        about, name, made.value, made.error, ends, details, _largest(made.residuals), limits
    )


def _largest(residuals: Floats) -> float:
    """The share of the largest residual in all."""
    size = np.abs(residuals)
    return float(size.max(initial=0.0)) / max(float(size.sum()), 1e-300)


def _differ_in_size(terms: list[_Term], k: int) -> bool:
    """Whether systems predict more or fewer labels for some row."""
    first, *others = ((term.top.labels[:, :k] >= 0).sum(axis=1) for term in terms)
    return any((first != other).any() for other in others)


def _of_two_ratios(
    about: Audit, rows: JudgedRows, name: str, metric: str, k: int, terms: list[_Term]
) -> Estimate:
    """The difference of two ratios that have each their own denominator, the predictions.

    Both are estimated by themselves, with what is known of both systems; residuals subtract.
    """
    predicted = _covariates(about, metric, k, terms)
    samples = [_micro_sample(about, rows, metric, k, [replace(t, sign=1.0)]) for t in terms]
    if not all(sample.values[:, 1].any() for sample in samples):
        return without_relevant(about, name, metric)
    within, limits = _prediction_limits(metric, k, terms[:1]), _limits(metric, k, 1)
    made, alone = (
        [row_mean(sample, each, within, limits, ratio=True, confidence=about.confidence)
         for sample in samples]
        for each in (predicted, None)
    )  # fmt: skip
    signs = [term.sign for term in terms]
    difference, plain = (_subtracted(samples, means, signs, about) for means in (made, alone))
    details = {"degrees": difference.degrees, "alone": [plain.value, *plain.interval]}
    return finished(
        about, name, difference.value, difference.error, difference.interval, details,
        _largest(difference.residuals), (-1.0, 1.0),
    )  # fmt: skip


def _subtracted(
    samples: list[RowSample], means: list[RowMean], signs: list[float], about: Audit
) -> RowMean:
    """Σ sign · ratio: rows add what the residuals of all ratios come to."""
    value = sum(sign * mean.value for sign, mean in zip(signs, means, strict=True))
    residuals = np.sum([s * mean.residuals for s, mean in zip(signs, means, strict=True)], axis=0)
    inner = [sample.variances for sample in samples if sample.variances is not None]
    most = len(inner) * np.sum(inner, axis=0) if inner else None  # whatever they have in common
    joint = replace(samples[0], variances=most)
    error = math.sqrt(variance(joint, residuals, SPREAD))
    degrees = min(float(_degrees(joint)), normal_worth(residuals))
    half = student_quantile(about.confidence, degrees) * error
    ends = max(-1.0, value - half), min(1.0, value + half)
    return RowMean(value, error, ends, degrees, residuals)


@dataclass(frozen=True, eq=False)
class RowMean:
    """A mean over all rows, or a ratio of two, from judged ones.

    Parameters
    ----------
    value, error : float
        The estimate and its standard error.
    interval : pair of float
        Of Student's t.
    degrees : float
        Its degrees of freedom.
    residuals : floats of shape (m,)
        What covariates leave of every judged row.
    """

    value: float
    error: float
    interval: tuple[float, float]
    degrees: float
    residuals: Floats


def row_mean(
    sample: RowSample,
    covariates: Floats | None,
    prediction_limits: Limits,
    limits: tuple[float, float],
    *,
    ratio: bool = False,
    confidence: float = 0.95,
) -> RowMean:
    """The mean over all rows of what was measured on some, or the ratio of two means.

    Parameters
    ----------
    sample : RowSample
        With one value per row, or two for a ratio.
    covariates : floats of shape (n, q), or None
        Of all rows; None for the audit alone.
    prediction_limits, limits : pairs of float
        Between which predictions for rows, and the result, lie.
    ratio : bool, default False
        Whether the first mean is divided by the second.
    confidence : float, default 0.95
        Of the interval.

    Returns
    -------
    RowMean
    """
    alike = not np.ptp(sample.values, axis=0).any()  # nothing is left to foresee
    made = controlled(sample, None if alike else covariates, prediction_limits)
    if ratio:
        return _ratio(sample, made, limits, confidence)
    residuals, value = made.residuals[:, 0], float(made.means[0])
    return with_interval(sample, value, residuals, _degrees(sample), limits, confidence)


def with_interval(
    sample: RowSample,
    value: float,
    residuals: Floats,
    degrees: float,
    limits: tuple[float, float],
    confidence: float,
) -> RowMean:
    """A mean of rows with its interval: Wilson's if it lies between 0 and a largest value.

    Parameters
    ----------
    sample : RowSample
    value : float
        The estimate; beyond its limits the interval is that of the nearer limit.
    residuals : floats of shape (m,)
        What is left to chance of every judged row.
    degrees : float
        Of freedom.
    limits : pair of float
        Between which the true value lies.
    confidence : float

    Returns
    -------
    RowMean
    """
    low, high = limits
    centre, quantile = min(max(value, low), high), student_quantile(confidence, degrees)
    if low < 0 or math.isinf(high):
        error = math.sqrt(variance(sample, residuals, SPREAD))
        ends = max(low, centre - quantile * error), min(high, centre + quantile * error)
        return RowMean(value, error, ends, degrees, residuals)
    m, share = sample.rows.size, centre / high
    mean = (m * share + 1) / (m + 2)
    squared = variance(sample, residuals, (mean**2 + (1 - mean) ** 2) * high**2)
    ends = of_bounded(centre, squared, m, quantile, high)
    return RowMean(value, math.sqrt(squared), ends, degrees, residuals)


def student_quantile(confidence: float, degrees: float) -> float:
    """Of Student's t, for both ends together."""
    return float(student.ppf((1 + confidence) / 2, degrees))


def _degrees(sample: RowSample) -> int:
    return max(sample.rows.size - int((sample.drawn > 0).sum()), 1)


def _ratio(
    sample: RowSample, made: Controlled, limits: tuple[float, float], confidence: float
) -> RowMean:
    """The ratio of two means; see the module."""
    above, below = (float(mean) for mean in made.means)
    value = above / below
    residuals = (made.residuals @ [1.0, -value]) / below
    degrees = min(float(_degrees(sample)), normal_worth(residuals))
    return with_interval(sample, value, residuals, degrees, limits, confidence)


def normal_worth(residuals: Floats) -> float:
    """How many normal residuals have a variance that is as uncertain: 2m/(κ − 1).

    Parameters
    ----------
    residuals : floats of shape (m,)

    Returns
    -------
    float
        Infinite where residuals do not vary.

    Examples
    --------
    >>> round(normal_worth(np.array([0.0, 0.0, 0.0, 4.0])), 9)  # κ = (3 + 81) / 4 / 9
    6.0
    """
    squares = (residuals - residuals.mean()) ** 2
    spread = float(squares.mean())
    uncertain = float((squares**2).mean()) / spread**2 - 1 if spread else 0.0
    return 2 * residuals.size / uncertain if uncertain > 0 else math.inf


def _row_sample(
    about: Audit, rows: JudgedRows, metric: str, k: int, terms: list[_Term]
) -> RowSample:
    name = f"{metric}@{k}"
    values = sum(term.sign * rows.values(term.top, name) for term in terms)
    variances: Floats | None = None
    if rows.whole:
        variances = np.zeros(rows.rows.size)
    elif len(terms) == 1:
        variances = rows.variances(terms[0].top, metric, k)
    return RowSample(
        rows.rows, rows.stratum, _sizes(about), np.asarray(values)[:, None],
        variances, estimated=not rows.whole,
    )  # fmt: skip


def _micro_sample(
    about: Audit, rows: JudgedRows, metric: str, k: int, terms: list[_Term]
) -> RowSample:
    """Numerator and denominator of every row: hits (of all systems, signed), and what divides."""
    entry = entry_rows(rows.relevant)
    hit = sum(term.sign * rows.top_weights(term.top, k) for term in terms)
    hit = np.asarray(hit) * (2.0 if metric == "micro-F1" else 1.0)
    above = np.bincount(entry, rows.weights.data * hit, minlength=rows.rows.size) * 1.0
    below = np.bincount(entry, rows.weights.data, minlength=rows.rows.size) * 1.0
    predicted = (terms[0].top.labels[rows.rows, :k] >= 0).sum(axis=1).astype(np.float64)
    if metric == "micro-P":
        below = predicted
    elif metric == "micro-F1":
        below = below + predicted
    values: Floats = np.stack([above, below], axis=1).astype(np.float64)
    theta = above.sum() / max(below.sum(), 1e-300)
    weights = hit - (0.0 if metric == "micro-P" else theta)
    mean = float(below.mean()) or 1.0  # nothing to divide by is refused
    inner = rows.linear_variances(np.asarray(weights)) / mean**2
    return RowSample(
        rows.rows, rows.stratum, _sizes(about), values, inner, estimated=not rows.whole
    )


def _covariates(about: Audit, metric: str, k: int, terms: list[_Term]) -> Floats:
    name = f"{'R' if metric in MICRO else metric}@{k}"
    parts = []
    for term in terms:
        parts.append(covariates_.of_rows(term.top, about.labels, name, k))
        extra = covariates_.checked_covariates(about.covariates, term.top, about.labels.shape, k)
        parts += [] if extra is None else [extra]
    return np.concatenate(parts, axis=1)


def _sizes(about: Audit) -> Ints:
    return np.array([stratum.size for stratum in about.judged.sample.strata], dtype=np.int64)


def _prediction_limits(metric: str, k: int, terms: list[_Term]) -> Limits:
    if metric in MICRO:
        reach = k * (2.0 if metric == "micro-F1" else 1.0)
        low = -reach if len(terms) > 1 else 0.0
        return np.array([low, 0.0]), np.array([reach, math.inf])
    return _limits(metric, k, len(terms))


def _limits(metric: str, k: int, systems: int) -> tuple[float, float]:
    """Between which the true value lies; a difference of two may be negative."""
    if metric in MICRO:
        high: float | None = 1.0
    elif metric == "DCG":
        high = float((1 / np.log2(np.arange(2, k + 2))).sum())
    else:
        high = METRICS[metric].at_most
    top = math.inf if high is None else high
    return (-top if systems > 1 else 0.0), top


def _of_pairs(about: Audit, name: str, metric: str, k: int, terms: list[_Term]) -> Estimate:
    if metric not in LINEAR:
        return not_judged(about, name)
    if not _covered(about, metric, k, terms):
        return not_judged(about, name, uncovered(about.judged))
    if metric == "micro-F1" and _differ_in_size(terms, k):  # two ratios, not one
        return not_judged(about, name)
    terms = _shares(terms, metric, k)
    above, below, free = _pair_weights(about, metric, k, terms)
    twice = 2.0 if metric == "micro-F1" else 1.0  # 2 · hits / (…), of which hits / (…) is estimated
    low, high = (end / twice for end in _limits(metric, k, len(terms)))
    kinds = pair_totals.kinds_of(about.judged, above, below)
    totals = pair_totals.totals(about.judged, kinds, about.confidence)
    fraction = pair_totals.Fraction(totals, *free, (low, high))
    if not fraction.denominator > 0:
        return without_relevant(about, name, metric)
    plain = [twice * float(number) for number in (fraction.value, *fraction.interval())]
    value, *ends = plain
    if about.covariates is not None:
        own_covariates = pair_control.pair_covariates(
            about.covariates, about.judged, about.labels,
            [pair_control.Term(term.top, term.sign * _worth(k, metric)) for term in terms],
            counts_everywhere=metric in RECALLS,
        )  # fmt: skip
        fraction = pair_control.controlled(fraction, about.judged, kinds, own_covariates)
        value, *ends = (twice * float(number) for number in (fraction.value, *fraction.interval()))
    error = twice * float(fraction.standard_error)
    limits = _limits(metric, k, len(terms))
    return finished(about, name, value, error, (ends[0], ends[1]), {"alone": plain}, NONE, limits)


def _shares(terms: list[_Term], metric: str, k: int) -> list[_Term]:
    """Terms that may be divided by the predictions of the first, whatever each predicts."""
    if metric != "micro-P":
        return terms
    counts = [float((term.top.labels[:, :k] >= 0).sum()) for term in terms]
    return [
        replace(term, sign=term.sign * counts[0] / max(count, 1.0))
        for term, count in zip(terms, counts, strict=True)
    ]


def _covered(about: Audit, metric: str, k: int, terms: list[_Term]) -> bool:
    """Whether every pair that counts could have been judged."""
    sample = about.judged.sample
    empty = [sample.strata[h] for h in sample.uncovered]
    if not empty:
        return True
    if metric in RECALLS or any(s.kind in IN_TOP for s in empty):
        return False
    planned = k <= sample.k
    return planned and all(fingerprint(t.top, sample.k) in sample.systems for t in terms)


def _pair_weights(
    about: Audit, metric: str, k: int, terms: list[_Term]
) -> tuple[Floats, Floats, tuple[float, float]]:
    """a and b of every judged pair, and what is known without judging: a₀ and b₀."""
    sample, n = about.judged.sample, about.labels.shape[0]
    shown = about.labels.tocoo()
    above, free = np.zeros(len(sample.rows)), 0.0
    for term in terms:
        above += term.sign * place_weights(term.top, sample.rows, sample.pair_labels, k, metric)
        if sample.observed_free:
            free += term.sign * place_weights(term.top, shown.row, shown.col, k, metric).sum()
    positives = float(about.labels.nnz) if sample.observed_free else 0.0
    predicted = float((terms[0].top.labels[:, :k] >= 0).sum())
    ones, none = np.ones(above.size), np.zeros(above.size)
    if metric == "micro-R":
        return above, ones, (free, positives)
    if metric == "micro-F1":
        return above, ones, (free, positives + predicted)
    below = {"P": float(n * k), "DCG": float(n), "micro-P": predicted}[metric]
    return above, none, (free, below)


def place_weights(top: TopK, rows: Integers, labels: Integers, k: int, metric: str) -> Floats:
    """For pairs (row, label): 1, or the discount for DCG, among the first k of the row; else 0."""
    match = top.labels[rows, :k] == np.asarray(labels)[:, None]
    return np.asarray(match @ _worth(match.shape[1], metric), dtype=np.float64)


def _worth(k: int, metric: str) -> Floats:
    """What a relevant pair counts at each of k places."""
    return 1 / np.log2(2 + np.arange(k)) if metric == "DCG" else np.ones(k)


def finished(
    about: Audit,
    name: str,
    value: float,
    error: float,
    ends: tuple[float, float],
    details: dict[str, Any],
    largest: float,
    limits: tuple[float, float],
) -> Estimate:
    """A measured estimate with its verdict, point and ends within the limits of the metric.

    A mean of unbiased estimates may lie beyond them; `details["unclipped"]` keeps it.
    """
    sample = about.judged.sample
    unclipped, value = value, float(np.clip(value, *limits))
    if unclipped != value:
        details = {**details, "unclipped": unclipped}
    details = {**details, "alone": np.clip(details["alone"], *limits).tolist()}
    ends = min(ends[0], value), max(ends[1], value)
    judged = {
        "unit": sample.unit,
        "judged": about.judged.n_judged,
        "unanswered": about.judged.unanswered,
        "observed_free": sample.unit == "pairs" and sample.observed_free,
    }
    rows = len(np.unique(sample.first_phase[0]))
    half = (ends[1] - ends[0]) / 2
    wide = too_wide(half, value, METRICS[split(name)[0]].at_most, measured=True)
    verdict = Verdict(
        Level.WIDE if wide else Level.MEASURED,
        Reason.AUDITED,
        Advice.LARGER_AUDIT if wide else Advice.NONE,
        {**judged, "half_width": half},
    )
    verdict = _as_offered(verdict, split(name)[0], about.judged)
    return Estimate(
        name, MEASURED, value, error, ends, float(rows), largest, rows, verdict,
        {"design": sample.design.value, **judged, **details},
    )  # fmt: skip


def _as_offered(verdict: Verdict, metric: str, judged: Judgements) -> Verdict:
    """Doubtful where the metric counts true labels that judges were never offered.

    Labels that judges named beyond those offered have no scores, by which some metrics rank them.
    """
    unscored = METRICS[metric].reads != "list" and judged.unlisted > 0
    if metric in OF_PREDICTED or not (judged.sample.vocabulary == "seen" or unscored):
        return verdict
    details = {"vocabulary": judged.sample.vocabulary, "unlisted": judged.unlisted}
    seen = judged.sample.vocabulary == "seen"
    advice = Advice.STATE_VOCABULARY if seen else Advice.NONE
    return Verdict(Level.DOUBTFUL, Reason.NOT_OFFERED, advice, {**verdict.details, **details})


def without_relevant(about: Audit, name: str, metric: str) -> Estimate:
    """No number: there is nothing to divide by."""
    reason = Reason.NO_RELEVANT if metric in RECALLS else Reason.NOT_JUDGED
    return not_judged(about, name, reason=reason)


def not_judged(
    about: Audit,
    name: str,
    part: Mapping[str, Any] | None = None,
    reason: Reason = Reason.NOT_JUDGED,
) -> Estimate:
    """No number: the audit did not judge what the metric needs, or nobody answered a part of it."""
    sample = about.judged.sample
    details = {
        "metric": name, "design": sample.design.value, "unit": sample.unit, **(part or {}),
    }  # fmt: skip
    verdict = Verdict(Level.UNUSABLE, reason, details=details)
    if part:
        verdict = Verdict(Level.UNUSABLE, Reason.PART_NOT_JUDGED, Advice.JUDGE_REST, details)
    rows = len(np.unique(sample.rows))
    return Estimate(name, MEASURED, NONE, NONE, (NONE, NONE), NONE, NONE, rows, verdict, details)


def uncovered(judged: Judgements) -> dict[str, Any]:
    """The parts of the rows or pairs that have no answer at all; of pairs, if any has none.

    Parameters
    ----------
    judged : Judgements

    Returns
    -------
    dict
        `parts` in words, how many are `unjudged`, `of` how many, and their `unit`.
    """
    sample, strata = judged.sample, judged.sample.strata
    if sample.within is not None and sample.within.unjudged:
        return {"parts": "pairs of one probability", "unjudged": sample.within.unjudged,
                "of": len(sample.rows) + judged.unanswered, "unit": "drawn pairs"}  # fmt: skip
    of_pairs = sample.design is Design.PAIRS
    if not sample.uncovered or (of_pairs and not judged.unanswered):  # the plan left them out
        return {}
    numbers = ", ".join(str(h + 1) for h in sample.uncovered)
    return {
        "parts": f"stratum {numbers} of {len(strata)}",
        "unjudged": sum(strata[h].size for h in sample.uncovered),
        "of": sum(each.size for each in strata),
        "unit": "pairs" if of_pairs else "rows",
    }


def refuse_uncovered(judged: Judgements) -> None:
    """Raise where a part of the rows or pairs has no answer at all."""
    part = uncovered(judged)
    if part:
        verdict = Verdict(Level.UNUSABLE, Reason.PART_NOT_JUDGED, Advice.JUDGE_REST, part)
        raise ValueError(f"{verdict.why}.")
