"""Measured estimates of metrics, and of differences between systems.

Where rows were chosen (whole rows, two-phase), a metric is the mean of the values of rows, with
control variates (`control`) and an interval of Student's t; micro metrics are ratios of two such
means, whose interval is Wilson's with a quantile of t. A few rows with many labels decide them, so
that the variance of their residuals is itself uncertain: with kurtosis κ as uncertain as that of
2m/(κ − 1) normal ones, which are then the degrees of freedom. Where pairs were chosen over all
rows, metrics are sums over pairs (`pair_totals`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import t as student

from unmask import _validation
from unmask._sparse import entry_rows
from unmask._typing import Floats, Integers, Ints, LabelsLike
from unmask.data.judgements import IN_TOP, Design, Judgements
from unmask.metrics.intervals import wilson
from unmask.metrics.measured import covariates as covariates_
from unmask.metrics.measured import pair_control, pair_totals
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
from unmask.metrics.verdict import Advice, Level, Reason, Verdict, too_wide
from unmask.predictions import TopK, fingerprint

MEASURED = "measured"
"""The name of the estimator."""
NONE = math.nan
RECALLS = ("micro-R", "micro-F1")
"""Metrics that count relevant pairs wherever they are."""
BY_PREDICTIONS = ("micro-P", "micro-F1")
"""Metrics that divide by how many predictions there are."""


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
    observed = _validation.labels(labels)
    if observed.shape != judged.sample.shape:
        raise ValueError(
            f"the judgements belong to data of shape {judged.sample.shape}; the labels have "
            f"{observed.shape}."
        )
    _validation.confidence(confidence)
    return Audit(judged, observed, confidence, covariates)


def _checked(top: TopK, about: Audit) -> TopK:
    _validation.same_rows(top.labels, about.labels, "predictions", "labels")
    return top


def difference_p_value(made: Estimate) -> float:
    """Of Student's t, two-sided."""
    if not made.standard_error > 0:
        return float(made.value == 0)
    degrees = max(made.details.get("degrees", 1000), 1)
    return float(2 * student.sf(abs(made.value) / made.standard_error, degrees))


def _estimate(about: Audit, name: str, terms: list[_Term]) -> Estimate:
    metric, k = split_measured(name)
    if k is None and METRICS[metric].of_sets:
        terms = _as_wide(terms)
    longest = min(term.top.k for term in terms)
    k = longest if k is None else k
    if k > longest and longest < about.labels.shape[1]:
        raise ValueError(f"{name} needs the first {k} predictions of every row, not {longest}.")
    if about.by_rows:
        return _of_rows(about, name, metric, k, terms)
    return _of_pairs(about, name, metric, k, terms)


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
    rows = judged_rows(about.judged, about.labels)
    if metric in BY_PREDICTIONS and _differ_in_size(terms, k):
        return _of_two_ratios(about, rows, name, metric, k, terms)
    if metric in MICRO:
        sample, ratio = _micro_sample(about, rows, metric, k, terms), True
    else:
        sample, ratio = _row_sample(about, rows, metric, k, terms), False
    predicted = _covariates(about, metric, k, terms)
    within, limits = _prediction_limits(metric, k, terms), _limits(metric, k, len(terms))
    made, alone = (
        row_mean(sample, each, within, limits, ratio=ratio, confidence=about.confidence)
        for each in (predicted, None)
    )
    details = {"degrees": made.degrees, "alone": [alone.value, *alone.interval]}
    size = np.abs(made.residuals)
    largest = float(size.max(initial=0.0)) / max(float(size.sum()), 1e-300)
    return finished(about, name, made.value, made.error, made.interval, details, largest)


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
    within, limits = _prediction_limits(metric, k, terms[:1]), _limits(metric, k, 1)
    made, alone = (
        [row_mean(sample, each, within, limits, ratio=True, confidence=about.confidence)
         for sample in samples]
        for each in (predicted, None)
    )  # fmt: skip
    signs = [term.sign for term in terms]
    difference, plain = (_subtracted(samples, means, signs, about) for means in (made, alone))
    size = np.abs(difference.residuals)
    largest = float(size.max(initial=0.0)) / max(float(size.sum()), 1e-300)
    details = {"degrees": difference.degrees, "alone": [plain.value, *plain.interval]}
    return finished(
        about, name, difference.value, difference.error, difference.interval, details, largest
    )


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
    half = float(student.ppf((1 + about.confidence) / 2, degrees)) * error
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
    made = controlled(sample, covariates, prediction_limits)
    if ratio:
        return _ratio(sample, made, prediction_limits, limits, confidence)
    residuals, value = made.residuals[:, 0], float(made.means[0])
    bounded = limits == (0.0, 1.0)
    shrunk = (sample.rows.size * min(max(value, 0.0), 1.0) + 1) / (sample.rows.size + 2)
    largest = shrunk * (1 - shrunk) if bounded else SPREAD
    error = math.sqrt(variance(sample, residuals, largest))
    degrees = _degrees(sample)
    half = float(student.ppf((1 + confidence) / 2, degrees)) * error
    ends = max(limits[0], value - half), min(limits[1], value + half)
    end = _end_of(value, limits)
    if bounded and end is not None and not np.ptp(sample.values):
        value, ends = end, _at_the_end(sample, end, confidence)
    return RowMean(value, error, ends, degrees, residuals)


def _end_of(value: float, limits: tuple[float, float]) -> float | None:
    """The limit that a value reaches up to rounding; None if it lies between them."""
    return next((limit for limit in limits if math.isclose(value, limit, abs_tol=1e-9)), None)


def _at_the_end(sample: RowSample, value: float, confidence: float) -> tuple[float, float]:
    """Of a mean of 0 or 1 over rows that all say the same."""
    drawn, size = sample.rows.size, int(sample.sizes.sum())
    low, high = pair_totals.mean_interval(value, 0.0, drawn, size, confidence)
    return float(low), float(high)


def _degrees(sample: RowSample) -> int:
    return max(sample.rows.size - int((sample.drawn > 0).sum()), 1)


def _ratio(
    sample: RowSample,
    made: Controlled,
    prediction_limits: Limits,
    limits: tuple[float, float],
    confidence: float,
) -> RowMean:
    """The ratio of two means; see the module."""
    above, below = (float(mean) for mean in made.means)
    value = above / below if below > 0 else 0.0
    residuals = (made.residuals @ [1.0, -value]) / max(below, 1e-300)
    largest = largest_spread(sample, above, below, prediction_limits)
    error = math.sqrt(variance(sample, residuals, largest))
    degrees = min(float(_degrees(sample)), normal_worth(residuals))
    quantile = float(student.ppf((1 + confidence) / 2, degrees))
    end = _end_of(value, limits)
    if limits == (0.0, 1.0) and end is not None:
        value = end
        low, high = _at_the_end(sample, end, confidence)
    elif limits == (0.0, 1.0) and 0 < value < 1 and error > 0:
        ends = wilson(value, value * (1 - value) / error**2, quantile)
        low, high = (float(end) for end in ends)
    else:
        low, high = (
            max(limits[0], value - quantile * error),
            min(limits[1], value + quantile * error),
        )
    return RowMean(value, error, (low, high), degrees, residuals)


def largest_spread(
    sample: RowSample, above: float, below: float, prediction_limits: Limits
) -> float:
    """The largest variance that a linearised ratio can have by what is above the line.

    Values between l and h with the mean a vary by (a − l)(h − a) at most; a is drawn as if by one
    more row towards the middle. Of the share of relevant pairs among k places that is θ (1 − θ).

    Parameters
    ----------
    sample : RowSample
    above, below : float
        The two means.
    prediction_limits : pair of floats
        Between which the values above (first entry) lie.

    Returns
    -------
    float

    Examples
    --------
    >>> rows = RowSample(np.arange(9), np.zeros(9, int), np.array([99]), np.zeros((9, 2)))
    >>> largest_spread(rows, 2.5, 5.0, (np.zeros(2), np.array([5.0, np.inf])))
    0.25
    """
    low, high = (float(np.ravel(end)[0]) for end in prediction_limits)
    m = sample.rows.size
    mean = (m * min(max(above, low), high) + (low + high) / 2) / (m + 1)
    return (mean - low) * (high - mean) / max(below, 1e-300) ** 2


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
    inner = rows.linear_variances(np.asarray(weights)) / max(float(below.mean()), 1e-300) ** 2
    return RowSample(
        rows.rows, rows.stratum, _sizes(about), values, inner, estimated=not rows.whole
    )


def _covariates(about: Audit, metric: str, k: int, terms: list[_Term]) -> Floats:
    name = f"{'R' if metric in MICRO else metric}@{k}"
    parts = []
    for term in terms:
        parts.append(covariates_.of_rows(term.top, about.labels, name, k))
        extra = covariates_.handed_in(about.covariates, term.top, about.labels.shape, k)
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
    if metric not in LINEAR or not _covered(about, metric, k, terms):
        return not_judged(about, name)
    if metric == "micro-F1" and _differ_in_size(terms, k):  # two ratios, not one
        return not_judged(about, name)
    terms = _shares(terms, metric, k)
    above, below, free = _pair_weights(about, metric, k, terms)
    twice = 2.0 if metric == "micro-F1" else 1.0  # 2 · hits / (…), of which hits / (…) is estimated
    low, high = (end / twice for end in _limits(metric, k, len(terms)))
    kinds = pair_totals.kinds_of(about.judged, above, below)
    totals = pair_totals.totals(about.judged, kinds, about.confidence)
    fraction = pair_totals.Fraction(totals, *free, (low, high))
    plain = [twice * float(number) for number in (fraction.value, *fraction.interval())]
    value, *ends = plain
    if about.covariates is not None:
        handed_in = pair_control.pair_covariates(
            about.covariates, about.judged, about.labels,
            [pair_control.Term(term.top, term.sign * _worth(k, metric)) for term in terms],
            counts_everywhere=metric in RECALLS,
        )  # fmt: skip
        fraction = pair_control.controlled(fraction, about.judged, kinds, handed_in)
        value, *ends = (twice * float(number) for number in (fraction.value, *fraction.interval()))
    error = twice * float(fraction.standard_error)
    return finished(about, name, value, error, (ends[0], ends[1]), {"alone": plain}, NONE)


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
    empty = [s for s in sample.strata if s.size and not s.drawn]
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
) -> Estimate:
    """A measured estimate with its verdict."""
    sample = about.judged.sample
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


def not_judged(about: Audit, name: str) -> Estimate:
    """No number: the audit did not judge what the metric needs."""
    sample = about.judged.sample
    details = {"metric": name, "design": sample.design.value}
    verdict = Verdict(Level.UNUSABLE, Reason.NOT_JUDGED, details=details)
    rows = len(np.unique(sample.rows))
    return Estimate(name, MEASURED, NONE, NONE, (NONE, NONE), NONE, NONE, rows, verdict, details)
