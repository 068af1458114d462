"""When to stop: precision so far, intervals that hold at every look, and what nobody predicted.

Looking at an ordinary 95 % interval after every judgement, and stopping when it looks good, finds
a false effect in a third of all audits. A confidence sequence covers the truth at *all* looks
together. Rows are judged in random order, so that after t − 1 of n rows with values u in [0, 1] the
next one has the mean (n μ − Σ u)/(n − t + 1) =: μ_t if the mean of all is μ. Betting against that,

    K⁺ = Π (1 + λ_t (x_t − μ_t)),    K⁻ = Π (1 − λ_t (x_t − μ_t))

never grows on average, whatever is bet, so that max(K⁺, K⁻)/2 exceeds 1/α at any time with a chance
of at most α: the μ for which it never did are the sequence. x_t = u − f_t + (mean of f_t over the
rows that are left) has the same mean and less variance, with f_t fitted on past rows by the
covariates of `metrics.measured`. Bets are λ = √(2 ln(2/α) / (m σ̂²)), tuned to m planned rows, and
never more than ¾ of what could be lost.

Waudby-Smith & Ramdas, *Estimating means of bounded random variables by betting*, JRSS B 2024.

`reached` shows how precise an audit has become: its estimates after part of the answers, and after
all. Units stand in random order, so the first of them are an audit of their own. Those intervals
are for a number of units fixed beforehand: they show how precision grows, and are no rule for
stopping.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t as student

from unmask._messages import named_options, setting
from unmask._typing import Bools, Floats, Ints, LabelsLike
from unmask.arrays import TopK, checks, entry_rows, values_at
from unmask.audit.answers import Answers
from unmask.audit.planning import AuditPlan
from unmask.data.judgements import OBSERVED, Design, Judgements, Vocabulary
from unmask.metrics.measured.context import Audit, Columns, CovariatesLike
from unmask.metrics.measured.estimates import at_extremes, estimates_of
from unmask.metrics.measured.rows import place_weights, refuse_uncovered
from unmask.metrics.measured.sampling import (
    RowSample,
    controlled,
    kinds_of,
    ridge,
    totals,
    variance,
)
from unmask.metrics.registry import METRICS, MICRO, OF_PREDICTED, split_measured

GRID = 2000
TRUNCATION = 0.75
REFIT, FIRST_FIT = 20, 30
LOOKS = 8
LEAST = 5
"""Fewer judged units than this give no interval worth showing."""


@dataclass(frozen=True, eq=False)
class ConfidenceSequence:
    """Intervals after every judged row, which hold all together.

    Parameters
    ----------
    metric : str
        What was measured.
    low, high : floats of shape (m,)
        The ends after 1 … m rows; they only come closer.
    confidence : float
        That the truth lies within all of them.

    Examples
    --------
    >>> made = ConfidenceSequence("P@1", np.array([0.0, 0.3]), np.array([0.9, 0.5]), 0.95)
    >>> made.interval, made.rows_until(half_width=0.2), made.rows_until(at_least=0.2)
    ((0.3, 0.5), 2, 2)
    """

    metric: str
    low: Floats
    high: Floats
    confidence: float

    @property
    def interval(self) -> tuple[float, float]:
        """The ends after the last row."""
        return float(self.low[-1]), float(self.high[-1])

    def rows_until(
        self,
        *,
        half_width: float | None = None,
        at_least: float | None = None,
        below: float | None = None,
    ) -> int | None:
        """Return after how many rows the audit could stop; None if it must go on.

        Parameters
        ----------
        half_width : float, optional
            Stop when the interval is at most ± this.
        at_least : float, optional
            Stop when the metric is certain to be at least this.
        below : float, optional
            Stop when it is certain to be below this.

        Returns
        -------
        int or None
        """
        goals = []
        if half_width is not None:
            goals.append((self.high - self.low) / 2 <= half_width)
        if at_least is not None:
            goals.append(self.low >= at_least)
        if below is not None:
            goals.append(self.high < below)
        if not goals:
            raise ValueError("say when to stop: half_width, at_least or below.")
        reached = np.flatnonzero(np.any(goals, axis=0))
        return int(reached[0]) + 1 if reached.size else None


@named_options
def sequence(
    top: TopK,
    labels: LabelsLike,
    judged: Judgements,
    metric: str = "R@5",
    *,
    planned: int | None = None,
    confidence: float = 0.95,
    covariates: CovariatesLike | None = None,
) -> ConfidenceSequence:
    """Compute intervals of a metric after every judged row, valid at every look.

    Parameters
    ----------
    top : TopK
        Predictions of all n rows.
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    judged : Judgements
        Of simple rows, judged in the order of the plan.
    metric : str, default "R@5"
        A metric over rows with values in [0, 1].
    planned : int, optional
        How many rows were planned, at which the bets aim; by default those that were judged.
    confidence : float, default 0.95
        That all intervals hold the truth.
    covariates : CovariatesLike, optional
        What else is known of all rows.

    Returns
    -------
    ConfidenceSequence

    Raises
    ------
    ValueError
        If rows were not a simple sample, the metric is not a mean of values in [0, 1], or it counts
        true labels that judges were never offered.

    Examples
    --------
    >>> from unmask import audit, data
    >>> true = data.synthetic.independent(400, 9, seed=0)
    >>> scores = true.toarray() + np.random.default_rng(2).random(true.shape)
    >>> top = TopK.from_scores(scores, 3)
    >>> plan = audit.plan(top, true, budget=200)
    >>> made = audit.sequence(top, true, audit.from_rows(plan, true[plan.rows]), "P@3")
    >>> made.rows_until(at_least=0.1) is not None
    True
    """
    name = split_measured(metric)[0]
    if judged.sample.design is not Design.SIMPLE:
        raise ValueError(
            f"a confidence sequence needs simple rows in random order; this is a "
            f"{judged.sample.design.value} sample. Plan with "
            f"{setting('unit', 'rows', of='audit.plan')}."
        )
    if name in MICRO or METRICS[name].at_most != 1.0:
        raise ValueError(f"{metric} is not a mean of values in [0, 1]; use P, R, F1, nDCG or hit.")
    if judged.sample.vocabulary == "seen" and name not in OF_PREDICTED:
        raise ValueError(
            f"{metric} counts all true labels of a row, and judges were offered only those that "
            "somebody recorded or predicted, so that no number of rows makes it certain; plan the "
            f"audit with the whole vocabulary, {setting('vocabulary', of='audit.plan')}, or stop "
            "by a metric of precision."
        )
    about = Audit.checked(judged, labels, confidence, covariates, [metric])
    return _sequence(about, top, metric, judged.n_judged if planned is None else planned)


def _sequence(about: Audit, top: TopK, metric: str, planned: int) -> ConfidenceSequence:
    if about.judged.open_units.any():
        least, most = (
            _sequence(each, top, metric, planned) for each in at_extremes(about, top, metric)
        )
        return replace(least, high=most.high)
    name, k = split_measured(metric)
    k = top.k if k is None else k
    rows = about.rows
    low, high = betting(
        rows.values(top, f"{name}@{k}"), rows.rows, about.labels.shape[0],
        about.row_covariates([about.system(top)], f"{name}@{k}", k),
        planned=planned, confidence=about.confidence,
    )  # fmt: skip
    return ConfidenceSequence(metric, low, high, about.confidence)


def betting(
    values: Floats,
    rows: Ints,
    n: int,
    covariates: Columns | None = None,
    *,
    planned: int | None = None,
    confidence: float = 0.95,
) -> tuple[Floats, Floats]:
    """Compute the ends of a confidence sequence for the mean of n values in [0, 1].

    Parameters
    ----------
    values : floats of shape (m,)
        In the order in which they were drawn, without replacement.
    rows : integers of shape (m,)
        Which of the n they are.
    n : int
        How many there are in all.
    covariates : Columns, optional
        What is known of all.
    planned : int, optional
        At which length the bets aim; by default m.
    confidence : float, default 0.95

    Returns
    -------
    pair of floats of shape (m,)
        Lower and upper ends after every value.

    Examples
    --------
    >>> values = np.random.default_rng(0).random(300)
    >>> low, high = betting(values, np.arange(300), 10_000)
    >>> bool(low[-1] < 0.5 < high[-1]), bool((np.diff(high - low) <= 0).all())
    (True, True)
    """
    checks.confidence(confidence)
    if planned is not None:
        checks.positive_int(planned, "planned")
    alpha, aim = 1 - confidence, planned or values.size
    means = np.linspace(0, 1, GRID + 1)
    wealth = np.zeros((2, means.size))  # logarithms of K⁺ and K⁻
    alive = np.ones(means.size, dtype=bool)
    predicted, z = np.zeros(n), None if covariates is None else covariates.at(slice(None))
    left, total, spread, centre = 0.0, 0.0, 0.25, 0.5
    low, high = np.empty(values.size), np.empty(values.size)
    for t, (value, row) in enumerate(zip(values.tolist(), rows.tolist(), strict=True)):
        if z is not None and t >= FIRST_FIT and (t - FIRST_FIT) % REFIT == 0:
            past = rows[:t]
            slope, intercept = ridge(z[past], values[:t, None])
            predicted = np.clip(z @ slope[:, 0] + intercept, 0, 1)
            left = float(predicted.sum() - predicted[past].sum())
        rest = n - t
        f_mean = left / rest
        x = value - predicted[row] + f_mean
        due = (n * means - total) / rest
        alive &= (due >= -1e-12) & (due <= 1 + 1e-12)
        bet = math.sqrt(2 * math.log(2 / alpha) / (aim * spread / (t + 1)))
        worst = due + predicted.max() - f_mean, 1 - predicted.min() + f_mean - due
        for side, (sign, most) in enumerate(zip((1, -1), worst, strict=True)):
            stake = np.minimum(bet, TRUNCATION / np.maximum(most, 1e-9))
            wealth[side] += np.log1p(np.maximum(sign * stake * (x - due), -TRUNCATION))
        alive &= wealth.max(axis=0) < math.log(2 / alpha)
        low[t], high[t] = _hull(means, alive, low[t - 1], high[t - 1]) if t else (0.0, 1.0)
        total += value
        left -= predicted[row]
        centre += (x - centre) / (t + 2)
        spread += (x - centre) ** 2
    return low, high


def _hull(means: Floats, alive: Bools, low: float, high: float) -> tuple[float, float]:
    """Return the means that are left, a step of the grid wider, within the interval so far."""
    index = np.flatnonzero(alive)
    if not index.size:
        return low, high
    step = 1 / GRID
    return max(low, float(means[index[0]]) - step), min(high, float(means[index[-1]]) + step)


@dataclass(frozen=True)
class Elusion:
    """The number of relevant pairs that nobody predicted.

    Parameters
    ----------
    k : int
        Places of the list that count as predicted.
    pairs : int
        Unobserved pairs outside the first k.
    relevant : float
        How many of them are estimated to be relevant.
    at_most : float
        The upper end: with the stated confidence there are no more.
    confidence : float
        One-sided.
    vocabulary : {"stated", "seen"}, default "stated"
        Whether judges were offered all labels, or only those recorded or predicted somewhere.

    Examples
    --------
    >>> Elusion(k=5, pairs=1000, relevant=4.0, at_most=10.0, confidence=0.95).share
    0.01
    """

    k: int
    pairs: int
    relevant: float
    at_most: float
    confidence: float
    vocabulary: Vocabulary = "stated"

    @property
    def share(self) -> float:
        """The upper end as a share of all such pairs."""
        return self.at_most / self.pairs if self.pairs else 0.0

    @property
    def sentence(self) -> str:
        """The finding in English."""
        beyond = (
            "" if self.vocabulary == "stated"
            else " Labels that nobody recorded or predicted in any row are not among them."
        )  # fmt: skip
        return (
            f"Of {self.pairs:,} labels that are neither observed nor among the first {self.k} "
            f"predictions, at most {self.at_most:,.0f} ({self.share:.2g}) are relevant, with "
            f"{self.confidence:.0%} confidence; the estimate is {self.relevant:,.0f}.{beyond}"
        )


@named_options
def elusion(
    top: TopK, labels: LabelsLike, judged: Judgements, *, k: int, confidence: float = 0.95
) -> Elusion:
    """Estimate how many relevant labels elude the observed labels and the first k predictions.

    Parameters
    ----------
    top : TopK
        Predictions of all n rows.
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    judged : Judgements
        Of rows, of a two-phase sample, or of pairs planned for micro-R@k.
    k : int
        Places of the list.
    confidence : float, default 0.95
        One-sided. Where judged pairs show nothing it is not below 1 − α^(1/m) of their stratum.

    Returns
    -------
    Elusion

    Raises
    ------
    ValueError
        If pairs outside the first k were not judged.

    Examples
    --------
    >>> from unmask import audit
    >>> top, labels = TopK([[0]] * 50, [[1.0]] * 50), np.zeros((50, 4))
    >>> plan = audit.plan(top, labels, budget=100, unit="pairs", metrics=["micro-R@1"])
    >>> missed = audit.elusion(top, labels, audit.from_pairs(plan, np.zeros(100)), k=1)
    >>> missed.pairs, missed.relevant, bool(0 < missed.at_most < 10)
    (150, 0.0, True)
    """
    about = Audit.checked(judged, labels, confidence)
    return _elusion(about, top, checks.positive_int(k, "k"))


def _elusion(about: Audit, top: TopK, k: int) -> Elusion:
    judged = about.judged
    if judged.open_units.any():  # fewest relevant pairs outside the list where recall is highest
        ends = at_extremes(about, top, f"micro-R@{min(k, top.k)}")
        more, fewer = (_elusion(each, top, k) for each in ends)
        return replace(more, relevant=(fewer.relevant + more.relevant) / 2)
    refuse_uncovered(judged)
    n, width = about.labels.shape
    hits = int(about.system(top).observed_weight(k, "P"))
    pairs = n * width - top.pairs(k).rows.size - (about.labels.nnz - hits)
    by_rows = _eluding_rows if about.by_rows else _eluding_pairs
    relevant, most = by_rows(about, top, k)
    return Elusion(
        k, pairs, relevant, min(float(pairs), most), about.confidence, judged.sample.vocabulary
    )


def _eluding_pairs(about: Audit, top: TopK, k: int) -> tuple[float, float]:
    sample = about.judged.sample
    if any(sample.strata[h].kind not in OBSERVED for h in sample.uncovered):
        raise ValueError(
            "this audit did not judge pairs outside the predictions; plan one with "
            f"{setting('metrics', ['micro-R@k'], of='audit.plan')}."
        )
    outside = 1.0 - np.minimum(place_weights(top, sample.rows, sample.pair_labels, k, "P"), 1.0)
    observed = np.array([s.kind in OBSERVED for s in sample.strata])[sample.stratum]
    counted = kinds_of(about.judged, outside * ~observed, np.zeros(outside.size))
    made = totals(about.judged, counted, 2 * about.confidence - 1)
    return float(made.total.sum()), float(made.end(np.ones(made.total.size), 1))


def _eluding_rows(about: Audit, top: TopK, k: int) -> tuple[float, float]:
    rows, observed = about.rows, about.labels
    outside = 1.0 - rows.top_weights(top, k)
    entry = entry_rows(rows.relevant)
    listed = rows.relevant.indices < observed.shape[1]
    shown = np.zeros(listed.size, dtype=bool)
    shown[listed] = values_at(observed, rows.rows[entry[listed]], rows.relevant.indices[listed]) > 0
    outside = outside * ~shown
    counts = np.bincount(entry, rows.weights.data * outside, minlength=rows.rows.size)
    sizes = np.array([s.size for s in about.judged.sample.strata])
    values = counts[:, None].astype(np.float64)
    inner = rows.linear_variances(outside)
    sample = RowSample(rows.rows, rows.stratum, sizes, values, inner, estimated=not rows.whole)
    made = controlled(sample, None, (0, math.inf))
    error = math.sqrt(variance(sample, made.residuals[:, 0]))
    reach = float(student.ppf(about.confidence, max(rows.rows.size - sizes.size, 1))) * error
    n = float(sizes.sum())
    return n * float(made.means[0]), n * (float(made.means[0]) + reach)


@dataclass(frozen=True)
class Reached:
    """A measured metric after some of the answers.

    Parameters
    ----------
    metric : str
    judged : int
        Rows or pairs judged.
    value, low, high : float
        The estimate and its interval.

    Examples
    --------
    >>> from unmask import audit
    >>> top, labels = TopK([[0], [1]] * 50, [[1.0]] * 100), [[1, 0], [0, 0]] * 50
    >>> plan = audit.plan(top, labels, budget=40, metrics=["P@1"])
    >>> said = {i: audit.Answer("complete", labels=(0,)) for i in range(40)}
    >>> path = reached(plan, Answers(audit.sheet(plan), {"ann": said}), top, labels, ["P@1"])
    >>> path[-1].metric, path[-1].judged, path[-1].low <= path[-1].value <= path[-1].high
    ('P@1', 40, True)
    """

    metric: str
    judged: int
    value: float
    low: float
    high: float


@named_options
def reached(
    plan: AuditPlan,
    answers: Answers,
    top: TopK,
    labels: LabelsLike,
    metrics: Sequence[str],
    *,
    looks: int = LOOKS,
    confidence: float = 0.95,
) -> tuple[Reached, ...]:
    """Measure metrics after more and more of the answers, in the order of the plan.

    Parameters
    ----------
    plan : AuditPlan
    answers : Answers
        To its questions.
    top : TopK
        Predictions.
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    metrics : sequence of str
        What is measured.
    looks : int, default 8
        How many times; the last one has all answers.
    confidence : float, default 0.95
        Of the intervals.

    Returns
    -------
    tuple of Reached
        By number of judged units; looks at too few units are left out.

    Raises
    ------
    ValueError
        If a metric does not exist or was not planned for, or data and plan do not fit.

    Examples
    --------
    >>> from unmask import audit
    >>> top, labels = TopK([[0], [1]] * 50, [[1.0]] * 100), [[1, 0], [0, 0]] * 50
    >>> plan = audit.plan(top, labels, budget=40, metrics=["P@1"])
    >>> said = {i: audit.Answer("complete", labels=(0,)) for i in range(40)}
    >>> path = reached(plan, Answers(audit.sheet(plan), {"ann": said}), top, labels, ["P@1"])
    >>> [each.judged for each in path]
    [5, 10, 15, 20, 25, 30, 35, 40]
    """
    about: Audit | None = None
    path: dict[tuple[str, int], Reached] = {}
    for first in np.unique(np.linspace(0, len(plan), looks + 1)[1:].astype(int)).tolist():
        try:
            judged = answers.judgements(plan, first=first)
        except ValueError:  # too few
            continue
        if judged.n_judged < min(LEAST, len(plan)):
            continue
        if about is None:
            about = Audit.checked(judged, labels, confidence, asked=metrics)
        size = judged.n_judged
        for each in estimates_of(about.with_judged(judged), top):
            path[each.metric, size] = Reached(each.metric, size, each.value, *each.interval)
    return tuple(path.values())
