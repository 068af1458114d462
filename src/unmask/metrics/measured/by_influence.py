"""Measured estimates of metrics that are no means over rows: mAP, macro F1, AUC, LRAP …

Of m rows that were drawn at random and judged completely, the metric of their true labels is θ_S.
The observed labels of the same rows give ϑ_S, those of all rows ϑ; how the sample happens to differ
from all rows shows in both, so that

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
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.stats import t as student

from unmask._typing import Floats, Ints
from unmask.arrays import LabelSets, TopK, checks, values_at
from unmask.data.judgements import Design, Judgements
from unmask.metrics.claims import Advice, Level, Reason, Verdict
from unmask.metrics.evaluation import contributions
from unmask.metrics.measured import undecided
from unmask.metrics.measured.control import RowSample
from unmask.metrics.measured.estimating import (
    Audit,
    difference_p_value,
    finished,
    not_judged,
    place_weights,
    with_interval,
)
from unmask.metrics.registry import METRICS, split
from unmask.metrics.request import Predictions
from unmask.metrics.table import Estimate

UNJUDGED = 0.05
"""The share of labels in no judged row from which on a mean over labels is doubtful."""


@dataclass(frozen=True, eq=False)
class Signed:
    """A system's predictions, and the sign with which its metric counts."""

    predictions: Predictions
    sign: float


def by_influence(about: Audit, name: str, terms: Sequence[Signed]) -> Estimate:
    """A metric of one system, or the difference of two, from rows that were judged completely.

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
        least, most = (by_influence(each, name, terms) for each in _extremes(about, name, terms))
        return undecided.joined(least, most, questions)
    rows = sample.rows
    listed = METRICS[split(name)[0]].reads == "list"
    judged = about.judged.all_true_labels if listed else about.judged.true_labels
    true, observed, alone = np.zeros(rows.size), np.zeros(rows.size), 0.0
    for term in terms:
        mine = taken(term.predictions, rows)
        true += term.sign * _added(mine, judged, name)
        observed += term.sign * _added(mine, sp.csr_array(about.labels[rows]), name)
        alone += term.sign * float(_added(term.predictions, about.labels, name).mean())
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


def _extremes(about: Audit, name: str, terms: Sequence[Signed]) -> list[Audit]:
    """The audit with undecided labels at either end, as far as predictions divide them in two."""
    lists = [t.predictions.labels for t in terms if isinstance(t.predictions, TopK)]

    def weigh(rows: Ints, labels: Ints) -> Floats:
        parts = [term.sign * _predicted(term.predictions, rows, labels) for term in terms]
        return np.asarray(sum(parts))

    def score(judged: Judgements) -> Floats:
        return np.array([by_influence(replace(about, judged=judged), name, terms).value])

    more = undecided.offered(about.judged, about.labels, lists)
    ends = undecided.extremes(about.judged, more, weigh, score)
    return [replace(about, judged=each) for each in ends]


def _predicted(predictions: Predictions, rows: Ints, labels: Ints) -> Floats:
    """1 for predicted pairs, of scores for the better half of these; 0 for labels without one."""
    if isinstance(predictions, TopK):
        return place_weights(predictions, rows, labels, predictions.k, "P")
    matrix = predictions.indicator if isinstance(predictions, LabelSets) else predictions
    listed = labels < checks.width(matrix, "scores")
    rows, labels, found = rows[listed], labels[listed], np.zeros(labels.size)
    if checks.is_sparse(matrix):
        scores = values_at(sp.csr_array(matrix), rows, labels)
    else:
        scores = checks.dense(matrix, "scores", "label")[rows, labels]
    if isinstance(predictions, LabelSets):
        found[listed] = scores > 0
    elif scores.size:
        found[listed] = scores >= np.median(scores)
    return found


def _of_some_labels(made: Estimate, about: Audit) -> Estimate:
    """Doubtful where more than `UNJUDGED` of the labels are in no judged row."""
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


def difference(about: Audit, name: str, new: Signed, old: Signed) -> Estimate:
    """The difference of two systems, with its p-value and the values of both.

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
    """The predictions of some rows."""
    if isinstance(predictions, TopK):
        return TopK(predictions.labels[rows], predictions.scores[rows])
    if isinstance(predictions, LabelSets):
        return predictions[rows]
    if checks.is_sparse(predictions):
        return predictions.tocsr()[rows]
    return checks.dense(predictions, "scores", "label")[rows]


def _added(predictions: Predictions, labels: sp.csr_array, name: str) -> Floats:
    """What every row adds; 0 where the labels tell nothing of the metric."""
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
