"""Estimates from judgements: means of rows, sums of pairs, and influences of rows.

**Means and sums.** Where rows were chosen (whole rows, two-phase), a metric is the mean of the
values of rows, with control variates (`sampling`), or the ratio of two such means (micro metrics).
Its interval is Wilson's, with a quantile of Student's t, for as many trials as the variance is
worth that two more rows, of the least and of the largest value, leave: near 0 and 1, and where rows
are all alike, few rows say little. A few rows with many labels decide a ratio, so that the variance
of its residuals is itself uncertain: with kurtosis κ as uncertain as that of 2m/(κ − 1) normal
ones, which are then the degrees of freedom. Where pairs were chosen over all rows, metrics are sums
over pairs (`sampling`). Point and ends lie within the range of the metric.

**Influences.** Of m rows that were drawn at random and judged completely, the metric of their true
labels is θ_S. The observed labels of the same rows give ϑ_S, those of all rows ϑ; how the sample
happens to differ from all rows shows in both, so that

    θ̂ = θ_S + λ (ϑ − ϑ_S)

is measured whatever hid the labels, and λ, the slope of what rows add to θ_S on what they add to
ϑ_S (`contributions`, within [0, 1]), makes it as precise as they are alike. With r the residuals,
the variance is (1 − m/n) s²(r)/m, and the interval that of Student's t. Rows drawn by strata would
need weights that these metrics do not have.

A mean over labels counts those of the judged rows. Where many labels that are observed elsewhere
are in none of them, it is that of frequent labels, and its verdict says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import poisson
from scipy.stats import t as student

from unmask._typing import Floats, Ints, LabelsLike
from unmask.arrays import LabelSets, TopK, checks, entry_rows, fingerprint, values_at
from unmask.data.judgements import IN_TOP, Design, Judgements
from unmask.metrics.claims import Advice, Level, Reason, Run, Verdict, claim, judge_run, too_wide
from unmask.metrics.evaluation import contributions
from unmask.metrics.intervals import of_bounded
from unmask.metrics.measured import sampling
from unmask.metrics.measured.context import Audit, Columns, CovariatesLike, adds_rows_up
from unmask.metrics.measured.labels import spurious_rate
from unmask.metrics.measured.rows import (
    JudgedRows,
    extremes,
    joined,
    offered,
    place_weights,
    uncovered,
    worth,
)
from unmask.metrics.measured.sampling import (
    SPREAD,
    Controlled,
    Limits,
    RowSample,
    controlled,
    variance,
)
from unmask.metrics.registry import LINEAR, METRICS, MICRO, OF_PREDICTED, split, split_measured
from unmask.metrics.request import Predictions, as_top
from unmask.metrics.table import Estimate, Table
from unmask.propensity.models import Source

MEASURED = "measured"
"""The name of the estimator."""
NONE = math.nan
UNJUDGED = 0.05
"""The share of labels in no judged row from which on a mean over labels is doubtful."""
RECALLS = ("micro-R", "micro-F1")
"""Metrics that count relevant pairs wherever they are."""
BY_PREDICTIONS = ("micro-P", "micro-F1")
"""Metrics that divide by how many predictions there are."""
KINKED = ("nDCG", "R-precision")
"""Metrics that depend on how many labels are relevant, but not beyond k: see `row_values`."""


@dataclass(frozen=True)
class Term:
    """The predictions of a system as lists, and the sign with which its metric counts."""

    top: TopK
    sign: float = 1.0


def measure(
    top: TopK,
    labels: LabelsLike,
    judged: Judgements,
    *,
    metrics: Sequence[str],
    confidence: float = 0.95,
    covariates: CovariatesLike | None = None,
) -> list[Estimate]:
    """Measure every metric from the judgements.

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
    about = Audit.checked(judged, labels, confidence, covariates, metrics)
    about.system(top)
    return [_estimate(about, name, [Term(top)]) for name in metrics]


def measure_differences(
    systems: Mapping[str, TopK],
    labels: LabelsLike,
    judged: Judgements,
    *,
    metrics: Sequence[str],
    confidence: float = 0.95,
    covariates: CovariatesLike | None = None,
) -> dict[str, list[Estimate]]:
    """Measure by how much every system is better than the first one.

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
    about = Audit.checked(judged, labels, confidence, covariates, metrics)
    return differences_of(about, systems)


def estimates_of(about: Audit, top: Predictions) -> list[Estimate]:
    """Return every metric that the audit was asked for, of one system."""
    by_rows = [name for name in about.asked if adds_rows_up(name)]
    listed = as_top(top, by_rows) if by_rows else None
    return [
        by_influence(about, name, [Signed(top, 1.0)])
        if listed is None or name not in by_rows
        else _estimate(about, name, [Term(listed)])
        for name in about.asked
    ]


def differences_of(about: Audit, systems: Mapping[str, Predictions]) -> dict[str, list[Estimate]]:
    """Return how much better every system is than the first, in every metric of the audit.

    Metrics that add up over rows or pairs come first.
    """
    by_rows = [name for name in about.asked if adds_rows_up(name)]
    first, *others = systems
    tops = {name: as_top(top, by_rows) for name, top in systems.items()} if by_rows else {}
    alone = {
        (name, metric): _estimate(about, metric, [Term(top)]).value
        for name, top in tops.items()
        for metric in by_rows
    }
    made: dict[str, list[Estimate]] = {}
    for name in others:
        rows = []
        for metric in by_rows:
            each = _estimate(about, metric, [Term(tops[name]), Term(tops[first], -1.0)])
            values = [alone[name, metric], alone[first, metric]]
            details = {**each.details, "p_value": difference_p_value(each), "values": values}
            rows.append(replace(each, details=details))
        for metric in about.asked:
            if metric not in by_rows:
                both = Signed(systems[name], 1.0), Signed(systems[first], -1.0)
                rows.append(_influence_difference(about, metric, *both))
        made[name] = rows
    return made


def difference_p_value(made: Estimate) -> float:
    """Return the two-sided p-value of Student's t; nan without a number."""
    if math.isnan(made.value):
        return NONE
    if not made.standard_error > 0:
        return float(made.value == 0)
    degrees = max(made.details.get("degrees", 1000), 1)
    return float(2 * student.sf(abs(made.value) / made.standard_error, degrees))


def _estimate(about: Audit, name: str, terms: list[Term]) -> Estimate:
    questions = int(about.judged.open_units.sum())
    if questions:
        least, most = (_estimate(each, name, terms) for each in _extremes(about, name, terms))
        return joined(least, most, questions)
    metric, k, terms = _cut(about, name, terms)
    if about.by_rows:
        return _of_rows(about, name, metric, k, terms)
    return _of_pairs(about, name, metric, k, terms)


def at_extremes(about: Audit, top: TopK, name: str) -> tuple[Audit, Audit]:
    """Return the audit with undecided answers taken so that a metric is least, and most."""
    least, most = _extremes(about, name, [Term(top)])
    return least, most


def _extremes(about: Audit, name: str, terms: list[Term]) -> tuple[Audit, Audit]:
    """Return the audit with undecided answers at either end; see `rows`."""
    metric, k, cut = _cut(about, name, terms)
    worth = "DCG" if metric in ("DCG", "nDCG") else "P"
    alone = metric not in MICRO and about.by_rows

    def weigh(rows: Ints, labels: Ints) -> Floats:
        parts = [t.sign * place_weights(t.top, rows, labels, k, worth) for t in cut]
        return np.asarray(sum(parts))

    def score(answers: Judgements) -> Floats:
        once = replace(about, judged=answers, covariates=None)
        if not alone:
            return np.array([_estimate(once, name, terms).value])
        return np.asarray(sum(t.sign * once.rows.values(t.top, f"{metric}@{k}") for t in cut))

    more = offered(about.judged, about.labels, [t.top.first(k) for t in cut])
    least, most = extremes(about.judged, more, weigh, score)
    return replace(about, judged=least), replace(about, judged=most)


def _cut(about: Audit, name: str, terms: list[Term]) -> tuple[str, int, list[Term]]:
    """Return the metric, its cut-off, and the terms, lists of sets of equal length; checked."""
    metric, k = split_measured(name)
    if k is None and METRICS[metric].of_sets:
        terms = _as_wide(terms)
    longest = min(term.top.k for term in terms)
    k = longest if k is None else k
    if k > longest and longest < about.labels.shape[1]:
        raise ValueError(f"{name} needs the first {k} predictions of every row, not {longest}.")
    return metric, k, terms


def _as_wide(terms: list[Term]) -> list[Term]:
    """Return all lists with as many places as the longest: a set is read whole."""
    width = max(term.top.k for term in terms)
    made = []
    for term in terms:
        more = ((0, 0), (0, width - term.top.k))
        labels = np.pad(term.top.labels, more, constant_values=-1)
        scores = np.pad(term.top.scores, more, constant_values=-np.inf)
        made.append(replace(term, top=TopK(labels, scores)))
    return made


def _of_rows(about: Audit, name: str, metric: str, k: int, terms: list[Term]) -> Estimate:
    part = uncovered(about.judged)
    if part:
        return not_judged(about, name, part)
    rows = about.rows
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
    about: Audit, rows: JudgedRows, name: str, metric: str, k: int, terms: list[Term]
) -> Estimate:
    """Return a metric whose rows lie between its values for few and many relevant labels more.

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
    made_by = []
    for predicted in (_covariates(about, metric, k, terms), None):
        low, made, high = (
            row_mean(each, predicted, limits, limits, confidence=about.confidence)
            for each in samples
        )
        made_by.append((made, (low.interval[0], high.interval[1])))
    (made, ends), (alone, ends_alone) = made_by
    details = {"degrees": made.degrees, "alone": [alone.value, *ends_alone]}
    return finished(
        about, name, made.value, made.error, ends, details, _largest(made.residuals), limits
    )


def _largest(residuals: Floats) -> float:
    """Return the share of the largest residual in all."""
    size = np.abs(residuals)
    return float(size.max(initial=0.0)) / max(float(size.sum()), 1e-300)


def _differ_in_size(terms: list[Term], k: int) -> bool:
    """Return whether systems predict more or fewer labels for some row."""
    first, *others = ((term.top.labels[:, :k] >= 0).sum(axis=1) for term in terms)
    return any((first != other).any() for other in others)


def _of_two_ratios(
    about: Audit, rows: JudgedRows, name: str, metric: str, k: int, terms: list[Term]
) -> Estimate:
    """Return the difference of two ratios that have each their own denominator, the predictions.

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
    """Return Σ sign · ratio: rows add what the residuals of all ratios come to."""
    value = sum(sign * mean.value for sign, mean in zip(signs, means, strict=True))
    residuals = np.sum([s * mean.residuals for s, mean in zip(signs, means, strict=True)], axis=0)
    inner = [sample.variances for sample in samples if sample.variances is not None]
    most = len(inner) * np.sum(inner, axis=0) if inner else None  # whatever they have in common
    joint = replace(samples[0], variances=most)
    error = math.sqrt(variance(joint, residuals, SPREAD))
    degrees = min(float(_degrees(joint)), normalworth(residuals))
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
    covariates: Columns | None,
    prediction_limits: Limits,
    limits: tuple[float, float],
    *,
    ratio: bool = False,
    confidence: float = 0.95,
) -> RowMean:
    """Return the mean over all rows of what was measured on some, or the ratio of two means.

    Parameters
    ----------
    sample : RowSample
        With one value per row, or two for a ratio.
    covariates : Columns or None
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
    """Return a mean of rows with its interval: Wilson's if it lies between 0 and a largest value.

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
    """Return the quantile of Student's t for both ends together."""
    return float(student.ppf((1 + confidence) / 2, degrees))


def _degrees(sample: RowSample) -> int:
    return max(sample.rows.size - int((sample.drawn > 0).sum()), 1)


def _ratio(
    sample: RowSample, made: Controlled, limits: tuple[float, float], confidence: float
) -> RowMean:
    """Return the ratio of two means; see the module."""
    above, below = (float(mean) for mean in made.means)
    value = above / below
    residuals = (made.residuals @ [1.0, -value]) / below
    degrees = min(float(_degrees(sample)), normalworth(residuals))
    return with_interval(sample, value, residuals, degrees, limits, confidence)


def normalworth(residuals: Floats) -> float:
    """Return how many normal residuals have a variance that is as uncertain: 2m/(κ − 1).

    Parameters
    ----------
    residuals : floats of shape (m,)

    Returns
    -------
    float
        Infinite where residuals do not vary.

    Examples
    --------
    >>> round(normalworth(np.array([0.0, 0.0, 0.0, 4.0])), 9)  # κ = (3 + 81) / 4 / 9
    6.0
    """
    squares = (residuals - residuals.mean()) ** 2
    spread = float(squares.mean())
    uncertain = float((squares**2).mean()) / spread**2 - 1 if spread else 0.0
    return 2 * residuals.size / uncertain if uncertain > 0 else math.inf


def _row_sample(
    about: Audit, rows: JudgedRows, metric: str, k: int, terms: list[Term]
) -> RowSample:
    name = f"{metric}@{k}"
    values = sum(
        term.sign * rows.values(term.top, name, about.system(term.top).of_rows) for term in terms
    )
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
    about: Audit, rows: JudgedRows, metric: str, k: int, terms: list[Term]
) -> RowSample:
    """Return numerator and denominator of rows: hits of all systems, signed, and what divides."""
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


def _covariates(about: Audit, metric: str, k: int, terms: list[Term]) -> Columns:
    name = f"{'R' if metric in MICRO else metric}@{k}"
    return about.row_covariates([about.system(term.top) for term in terms], name, k)


def _sizes(about: Audit) -> Ints:
    return np.array([stratum.size for stratum in about.judged.sample.strata], dtype=np.int64)


def _prediction_limits(metric: str, k: int, terms: list[Term]) -> Limits:
    if metric in MICRO:
        reach = k * (2.0 if metric == "micro-F1" else 1.0)
        low = -reach if len(terms) > 1 else 0.0
        return np.array([low, 0.0]), np.array([reach, math.inf])
    return _limits(metric, k, len(terms))


def _limits(metric: str, k: int, systems: int) -> tuple[float, float]:
    """Return the range of the true value; a difference of two may be negative."""
    if metric in MICRO:
        high: float | None = 1.0
    elif metric == "DCG":
        high = float((1 / np.log2(np.arange(2, k + 2))).sum())
    else:
        high = METRICS[metric].at_most
    top = math.inf if high is None else high
    return (-top if systems > 1 else 0.0), top


def _of_pairs(about: Audit, name: str, metric: str, k: int, terms: list[Term]) -> Estimate:
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
    kinds = sampling.kinds_of(about.judged, above, below)
    totals = sampling.totals(about.judged, kinds, about.confidence)
    fraction = sampling.Fraction(totals, *free, (low, high))
    if not fraction.denominator > 0:
        return without_relevant(about, name, metric)
    plain = [twice * float(number) for number in (fraction.value, *fraction.interval())]
    value, *ends = plain
    if about.covariates is not None:
        of_pairs = sampling.pair_covariates(
            about.covariates, about.judged, about.labels,
            [sampling.PairTerm(term.top, term.sign * worth(k, metric)) for term in terms],
            counts_everywhere=metric in RECALLS,
        )  # fmt: skip
        fraction = sampling.adjusted(fraction, about.judged, kinds, of_pairs)
        value, *ends = (twice * float(number) for number in (fraction.value, *fraction.interval()))
    error = twice * float(fraction.standard_error)
    limits = _limits(metric, k, len(terms))
    return finished(about, name, value, error, (ends[0], ends[1]), {"alone": plain}, NONE, limits)


def _shares(terms: list[Term], metric: str, k: int) -> list[Term]:
    """Return terms that may be divided by the predictions of the first, whatever each predicts."""
    if metric != "micro-P":
        return terms
    counts = [float((term.top.labels[:, :k] >= 0).sum()) for term in terms]
    return [
        replace(term, sign=term.sign * counts[0] / max(count, 1.0))
        for term, count in zip(terms, counts, strict=True)
    ]


def _covered(about: Audit, metric: str, k: int, terms: list[Term]) -> bool:
    """Return whether every pair that counts could have been judged."""
    sample = about.judged.sample
    empty = [sample.strata[h] for h in sample.uncovered]
    if not empty:
        return True
    if metric in RECALLS or any(s.kind in IN_TOP for s in empty):
        return False
    planned = k <= sample.k
    return planned and all(fingerprint(t.top, sample.k) in sample.systems for t in terms)


def _pair_weights(
    about: Audit, metric: str, k: int, terms: list[Term]
) -> tuple[Floats, Floats, tuple[float, float]]:
    """Return a and b of every judged pair, and what needs no judging: a₀ and b₀."""
    sample, n = about.judged.sample, about.labels.shape[0]
    above, free = np.zeros(len(sample.rows)), 0.0
    for term in terms:
        above += term.sign * place_weights(term.top, sample.rows, sample.pair_labels, k, metric)
        if sample.observed_free:
            free += term.sign * about.system(term.top).observed_weight(k, metric)
    positives = float(about.labels.nnz) if sample.observed_free else 0.0
    predicted = float((terms[0].top.labels[:, :k] >= 0).sum())
    ones, none = np.ones(above.size), np.zeros(above.size)
    if metric == "micro-R":
        return above, ones, (free, positives)
    if metric == "micro-F1":
        return above, ones, (free, positives + predicted)
    below = {"P": float(n * k), "DCG": float(n), "micro-P": predicted}[metric]
    return above, none, (free, below)


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
    """Return a measured estimate with its verdict, point and ends within the limits of the metric.

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
    """Return a doubtful verdict where the metric counts labels that judges were never offered.

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
    """Refuse an estimate: there is nothing to divide by."""
    reason = Reason.NO_RELEVANT if metric in RECALLS else Reason.NOT_JUDGED
    return not_judged(about, name, reason=reason)


def not_judged(
    about: Audit,
    name: str,
    part: Mapping[str, Any] | None = None,
    reason: Reason = Reason.NOT_JUDGED,
) -> Estimate:
    """Refuse an estimate: what it needs was not judged, or nobody answered a part of it."""
    sample = about.judged.sample
    details = {
        "metric": name, "design": sample.design.value, "unit": sample.unit, **(part or {}),
    }  # fmt: skip
    verdict = Verdict(Level.UNUSABLE, reason, details=details)
    if part:
        verdict = Verdict(Level.UNUSABLE, Reason.PART_NOT_JUDGED, Advice.JUDGE_REST, details)
    rows = len(np.unique(sample.rows))
    return Estimate(name, MEASURED, NONE, NONE, (NONE, NONE), NONE, NONE, rows, verdict, details)


# --- metrics that are no means of rows


@dataclass(frozen=True, eq=False)
class Signed:
    """A system's predictions, and the sign with which its metric counts."""

    predictions: Predictions
    sign: float


def by_influence(about: Audit, name: str, terms: Sequence[Signed]) -> Estimate:
    """Return a metric of one system, or a difference of two, from completely judged rows.

    Parameters
    ----------
    about : Audit
    name : str
        Any metric that `contributions` knows.
    terms : sequence of Signed

    Returns
    -------
    Estimate
        Refused unless rows were drawn alike and judged as a whole.
    """
    sample = about.judged.sample
    if sample.design is not Design.SIMPLE:
        return not_judged(about, name)
    questions = int(about.judged.open_units.sum())
    if questions:
        least, most = (
            by_influence(each, name, terms) for each in _influence_extremes(about, name, terms)
        )
        return joined(least, most, questions)
    rows = sample.rows
    listed = METRICS[split(name)[0]].reads == "list"
    labels = about.judged.all_true_labels if listed else about.judged.true_labels
    true, observed, alone = np.zeros(rows.size), np.zeros(rows.size), 0.0
    for term in terms:
        mine = taken(term.predictions, rows)
        true += term.sign * _added(mine, labels, name)
        observed += term.sign * _added(mine, sp.csr_array(about.labels[rows]), name)
        alone += term.sign * float(about.added(term.predictions, name).mean())
    n, m = sample.shape[0], rows.size
    share = _slope(true, observed)
    residuals = true - share * observed
    value = float(residuals.mean()) + share * alone
    plain = float(true.mean())
    degrees = max(m - 1, 1)
    width = float(student.ppf((1 + about.confidence) / 2, degrees))
    error, error_alone = (_error(each, n) for each in (residuals, true))
    limit = METRICS[split(name)[0]].at_most
    high = math.inf if limit is None else limit
    low = -high if len(terms) > 1 else 0.0
    ends, ends_alone = (
        (max(low, centre - width * e), min(high, centre + width * e))
        for centre, e in ((value, error), (plain, error_alone))
    )
    if not np.ptp(residuals) and 1 < m < n:  # rows that are all alike leave doubt of the others
        chosen = RowSample(rows, np.zeros(m, dtype=np.int64), np.array([n]), true[:, None])
        made = with_interval(chosen, value, residuals, degrees, (low, high), about.confidence)
        error, ends = made.error, made.interval
    spread = np.abs(residuals - residuals.mean())
    largest = float(spread.max(initial=0.0)) / max(float(spread.sum()), 1e-300)
    details = {"degrees": degrees, "alone": [plain, *ends_alone]}
    each = finished(about, name, value, error, ends, details, largest, (low, high))
    return _of_some_labels(each, about) if METRICS[split(name)[0]].labels_alike else each


def _influence_extremes(about: Audit, name: str, terms: Sequence[Signed]) -> list[Audit]:
    """Return the audit with undecided labels at either end, divided by predictions."""
    lists = [t.predictions for t in terms if isinstance(t.predictions, TopK)]

    def weigh(rows: Ints, labels: Ints) -> Floats:
        parts = [term.sign * _predicted(term.predictions, rows, labels) for term in terms]
        return np.asarray(sum(parts))

    def score(answers: Judgements) -> Floats:
        return np.array([by_influence(replace(about, judged=answers), name, terms).value])

    more = offered(about.judged, about.labels, lists)
    ends = extremes(about.judged, more, weigh, score)
    return [replace(about, judged=each) for each in ends]


def _predicted(predictions: Predictions, rows: Ints, labels: Ints) -> Floats:
    """Return 1 for predicted pairs, of scores for the better half of these, else 0."""
    if isinstance(predictions, TopK):
        return place_weights(predictions, rows, labels, predictions.k, "P")
    matrix = predictions.indicator if isinstance(predictions, LabelSets) else predictions
    listed = labels < checks.width(matrix, "scores")
    rows, labels, predicted = rows[listed], labels[listed], np.zeros(labels.size)
    if checks.is_sparse(matrix):
        scores = values_at(sp.csr_array(matrix), rows, labels)
    else:
        scores = checks.dense(matrix, "scores", "label")[rows, labels]
    if isinstance(predictions, LabelSets):
        predicted[listed] = scores > 0
    elif scores.size:
        predicted[listed] = scores >= np.median(scores)
    return predicted


def _of_some_labels(made: Estimate, about: Audit) -> Estimate:
    """Return a doubtful estimate where more than `UNJUDGED` of the labels are in no judged row."""
    in_judged = np.unique(about.judged.true_labels.indices)
    everywhere = np.union1d(in_judged, about.labels.indices)
    left_out = everywhere.size - in_judged.size
    details = {**made.details, "labels": in_judged.size, "labels_left_out": left_out}
    if left_out <= UNJUDGED * everywhere.size:
        return replace(made, details=details)
    counts = {"labels_judged": in_judged.size, "labels_observed": everywhere.size}
    verdict = Verdict(
        Level.DOUBTFUL, Reason.LABELS_NOT_JUDGED, Advice.LARGER_AUDIT,
        {**made.verdict.details, **counts},
    )  # fmt: skip
    return replace(made, details=details, verdict=verdict)


def _influence_difference(about: Audit, name: str, new: Signed, old: Signed) -> Estimate:
    """Return the difference of two systems, with its p-value and the values of both.

    Parameters
    ----------
    about : Audit
    name : str
    new, old : Signed

    Returns
    -------
    Estimate
    """
    made = by_influence(about, name, [new, old])
    values = [by_influence(about, name, [replace(each, sign=1.0)]).value for each in (new, old)]
    p_value = math.nan
    if math.isfinite(made.value):
        p_value = difference_p_value(made)
    return replace(made, details={**made.details, "p_value": p_value, "values": values})


def taken(predictions: Predictions, rows: Ints) -> Predictions:
    """Return the predictions of some rows."""
    if isinstance(predictions, TopK):
        return predictions.take(rows)
    if isinstance(predictions, LabelSets):
        return predictions[rows]
    if checks.is_sparse(predictions):
        return predictions.tocsr()[rows]
    return checks.dense(predictions, "scores", "label")[rows]


def _added(predictions: Predictions, labels: sp.csr_array, name: str) -> Floats:
    """Return what every row adds; 0 where its labels do not define the metric."""
    added: Floats = contributions(predictions, labels, metrics=[name])[name, "vanilla"]
    return np.nan_to_num(added)


def _slope(true: Floats, observed: Floats) -> float:
    spread = float(((observed - observed.mean()) ** 2).sum())
    if not spread:
        return 0.0
    slope = float(((true - true.mean()) * (observed - observed.mean())).sum()) / spread
    return min(max(slope, 0.0), 1.0)


def _error(values: Floats, n: int) -> float:
    m = values.size
    return math.sqrt((1 - m / n) * float(values.var(ddof=1)) / m) if m > 1 else math.inf


# --- beside stated estimates


def beside_measured(
    top: Predictions,
    labels: LabelsLike,
    audit: Judgements,
    metrics: Sequence[str],
    stated: Callable[[Sequence[str], Sequence[str] | None], Table],
    *,
    estimators: Sequence[str] | None = None,
    confidence: float = 0.95,
    covariates: CovariatesLike | None = None,
) -> Table:
    """Return measured estimates, then those that are stated, judged together.

    Parameters
    ----------
    top : TopK, LabelSets or (n, L) scores
        Predictions.
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    audit : Judgements
        What was judged.
    metrics : sequence of str
        All are measured, as far as the audit judged what they need, and stated.
    stated : function of metrics and estimators
        Makes the table of stated estimates.
    estimators : sequence of str, optional
        The stated estimators; "measured" may stand among them, or alone.
    confidence : float, default 0.95
        Of the intervals.
    covariates : CovariatesLike, optional
        As in `measure`.

    Returns
    -------
    Table
    """
    about = Audit.checked(audit, labels, confidence, covariates, metrics)
    measured = with_spurious_rate(estimates_of(about, top), about)
    others = None if estimators is None else [e for e in estimators if e != MEASURED]
    names = list(metrics)
    run = run_of_audit(about.labels, confidence)
    if not names or others == []:
        return Table(tuple(measured), run)
    table = stated(names, others)
    run = table.run or run
    return judge_run(Table((*measured, *map(observed_only, table)), run))


def with_spurious_rate(measured: Iterable[Estimate], about: Audit) -> list[Estimate]:
    """Return the estimates, with the share of wrong observed labels where some were judged.

    It stands in `details["spurious"]` and `details["spurious_low"]`.
    """
    rate = spurious_rate(about.judged, about.labels, about.confidence)
    if not rate.judged:
        return list(measured)
    added = {"spurious": rate.value, "spurious_low": rate.interval[0]}
    return [replace(each, details={**each.details, **added}) for each in measured]


def observed_only(each: Estimate) -> Estimate:
    """Return the estimate with observed labels held to be incomplete, since an audit was made."""
    claimed = claim(each.estimator, complete=False)
    if each.verdict.reason is Reason.WIDE and claimed.level > each.verdict.level:
        about = {**claimed.details, **each.verdict.details}
        return replace(each, verdict=replace(claimed, details=about))
    if each.verdict.reason is not Reason.OBSERVED_LABELS:
        return each
    return replace(each, verdict=claimed)


def run_of_audit(labels: sp.csr_array, confidence: float) -> Run:
    """Return the record of a run that only measures: its rows, and no propensities."""
    empty = int((labels.indptr[1:] == labels.indptr[:-1]).sum())
    return Run(Source(), labels.shape[0], empty, confidence)
