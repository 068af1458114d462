"""Metrics of a whole score matrix, curves over thresholds, and reliability.

    made = curve(scores, labels, p)      precision, recall and F1 at every threshold, with bands
    made.best                            the threshold of the largest F1
    table = reliability(probabilities, labels, p)

Average precision and AUC rank all rows by the score of a label; Fmax looks for the best threshold
of all. Each is a smooth function of sums over rows (or pairs of rows), so every row has an
*influence*: the derivative of the value by its weight. `Linearized` holds both, and with them such
a metric is treated like a mean over rows: value + n · influence is what a row contributes.

The error of a mean over labels has a part of every label's own, Σ_i influence², and what labels
share, Σ_i [(Σ_j influence)² − Σ_j influence²]. A label with o observed rows tells its own variance
with o − 1 degrees of freedom: the variance per observed row is drawn towards that of all labels by
`PRIOR` further ones, so that a label seen once is not taken to be certain; nor are labels that all
are ranked perfectly, since one further row of the largest variance belongs to them (`WIDEST`).

Numerators and denominators of curves are unbiased as those of sets are (`_kernels.columns.sweep`);
the band at a threshold is that of the delta method over rows, for that threshold alone, not for the
curve as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask._kernels import columns, even_bounds, in_chunks
from unmask._messages import named_options
from unmask._text import html_table
from unmask._typing import Array, Floats, Ints, LabelsLike, PropensityLike, ScoresLike
from unmask.arrays import checks
from unmask.metrics.intervals import z_quantile
from unmask.propensity.models import reciprocal

BLOCK = 1 << 22
"""Scores that are ranked at a time."""
TOGETHER = 8
"""Blocks that are ranked before what they add up to is added up."""
PRIOR = 3.0
"""Observed rows by which the variance of a label is drawn towards that of all."""
WIDEST = 0.25
"""The variance of one more observed row, the largest there is: no spread is not certainty."""
FORMS = ("average_precision", "auc")
Average: TypeAlias = Literal["micro", "sample"]
AVERAGES: tuple[Average, ...] = ("micro", "sample")
NUMBERS = ("precision", "recall", "f1")
STEPS = 99
"""Thresholds that Fmax tries: 0.01 … 0.99 of probabilities, quantiles of other scores."""


@dataclass(frozen=True)
class Scored:
    """Scores and labels of some rows, as kept for metrics that need all of them.

    Parameters
    ----------
    scores : (n, L) floats
    labels : csr_array of shape (n, L), validated
    inverse : floats of shape (nnz,)
        1/p of every observed label.
    order : (n,) integers, optional
        In which rows are added up; by default as they stand.
    """

    scores: Array
    labels: sp.csr_array
    inverse: Floats
    order: Ints | None = None

    @cached_property
    def ordered(self) -> tuple[Ints, Ints, Floats]:
        """`indptr`, `indices` and 1/p of the observed labels, rows in their order."""
        made = sp.csr_array(
            (self.inverse, self.labels.indices, self.labels.indptr), self.labels.shape
        )
        if self.order is not None:
            made = sp.csr_array(made[self.order])
        return made.indptr.astype(np.int64), made.indices, made.data

    def weights(self, *, corrected: bool) -> tuple[Ints, Ints, Floats]:
        """`indptr`, `indices` and 1/p (ones where nothing is corrected), rows in their order."""
        indptr, labels, inverse = self.ordered
        return indptr, labels, inverse if corrected else np.ones(inverse.size)

    def block(self, first: int, last: int) -> Array:
        """Scores of the rows `first` … `last` − 1 of the order."""
        if self.order is None:
            return self.scores[first:last]
        return self.scores[self.order[first:last]]

    def put_back(self, values: Array) -> Array:
        """Values of rows in their order, as rows stand; the last axis is that of rows."""
        if self.order is None:
            return values
        made = np.empty_like(values)
        made[..., self.order] = values
        return made


def by_content(scores: Array, labels: sp.csr_array, inverse: Floats) -> Ints:
    """An order of rows that depends on their content only, not on how they stand.

    Sums over rows in this order come out the same to the last bit, whatever shards they came in.

    Parameters
    ----------
    scores : (n, L) float32 or float64
    labels : csr_array of shape (n, L)
    inverse : floats of shape (nnz,)

    Returns
    -------
    (n,) integers

    Examples
    --------
    >>> scores, labels = np.array([[0.1, 0.5], [0.3, 0.2]]), sp.csr_array([[1.0, 0.0], [0.0, 1.0]])
    >>> order = by_content(scores, labels, np.ones(2))
    >>> turned = by_content(scores[::-1].copy(), labels[[1, 0]], np.ones(2))
    >>> bool((scores[order] == scores[::-1][turned]).all())
    True
    """
    bits = scores.view(np.uint32 if scores.dtype == np.float32 else np.uint64)
    keys = np.empty(scores.shape[0], dtype=np.uint64)
    indptr, multiplier = labels.indptr.astype(np.int64), np.uint64(0x9E3779B97F4A7C15)
    columns.row_keys(bits, indptr, labels.indices, inverse.view(np.uint64), multiplier, keys)
    return np.argsort(keys, kind="stable")


@dataclass(frozen=True)
class Linearized:
    """A value and what rows add to it.

    Parameters
    ----------
    value, standard_error : float
    influence : (n,) floats
        They sum to 0; value + n · influence has the value as its mean.
    details : dict
        What else is to be said of it.
    by_label : (L,) floats, optional
        The value of every label, NaN where it has none.
    label_errors : (L,) floats, optional
        Their standard errors.
    """

    value: float
    standard_error: float
    influence: Floats
    details: dict[str, Any] = field(default_factory=dict)
    by_label: Floats | None = None
    label_errors: Floats | None = None


def scores_of(scores: ScoresLike, labels: sp.csr_array, metric: str) -> Array:
    """Scores for every label of every row, checked.

    Parameters
    ----------
    scores : (n, L) matrix
    labels : csr_array of shape (n, L)
    metric : str
        What needs them, for messages.

    Returns
    -------
    (n, L) float32 or float64
    """
    if sp.issparse(scores):
        raise ValueError(f"{metric} needs a score for every label; give a dense matrix.")
    values = checks.dense(scores, "scores", "label")
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    if values.shape != labels.shape:
        raise ValueError(
            f"scores and labels must have the same shape; got {values.shape} and {labels.shape}."
        )
    for start, stop in pairwise(even_bounds(values.shape[0], values.shape[1], BLOCK).tolist()):
        if np.isnan(values[start:stop]).any():
            raise ValueError("scores must be numbers; got NaN.")
    return np.ascontiguousarray(values)


def refuse_no_probabilities(scores: Array, metric: str) -> None:
    """Raise where scores are no probabilities, which some metrics need."""
    if scores.size and not (scores.min() >= 0 and scores.max() <= 1):
        wrong = scores.min() if scores.min() < 0 else scores.max()
        raise ValueError(
            f"{metric} needs probabilities; got a score of {wrong:g}. Calibrate them first "
            "(`unmask.thresholds.calibrate`), or leave the metric out."
        )


@dataclass(frozen=True, eq=False)
class AllRows:
    """The scores of all rows, and the metrics computed from them when first asked for.

    Parameters
    ----------
    parts : tuple of Scored
        In the order of rows.
    forms : frozenset of str, optional
        Those of `FORMS` that will be asked for; by default all.
    information : (L,) floats, optional
        What every label counts in Smin; by default 1.
    """

    parts: tuple[Scored, ...]
    forms: frozenset[str] = frozenset(FORMS)
    information: Floats | None = None

    @cached_property
    def whole(self) -> Scored:
        """All rows in one, to be added up in an order that shards do not change."""
        one = self.parts[0]
        if len(self.parts) > 1:
            one = Scored(
                np.concatenate([part.scores for part in self.parts]),
                sp.csr_array(sp.vstack([part.labels for part in self.parts], format="csr")),
                np.concatenate([part.inverse for part in self.parts]),
            )
        inverse = np.ascontiguousarray(one.inverse, dtype=np.float64)
        return replace(one, order=by_content(one.scores, one.labels, inverse))

    def linearized(self, form: str, *, corrected: bool) -> Linearized:
        """The metric of this form, of the observed labels or corrected.

        Parameters
        ----------
        form : str
            "average_precision", "auc", "f_max", "s_min" or "calibration".
        corrected : bool

        Returns
        -------
        Linearized
        """
        if form == "f_max":
            return self._best_f(corrected)
        if form == "s_min":
            return least_information(self.whole, self.information, corrected=corrected)
        if form == "calibration":
            made = in_bins(self.whole, corrected=corrected)
            return self._in_place(Linearized(made.error, _error_of(made.influence), made.influence))
        view = int(corrected and not self._complete)
        return self._ranked[view, FORMS.index(form)]

    @cached_property
    def _complete(self) -> bool:
        """True if every propensity is 1, so that nothing is to be corrected."""
        return bool((self.whole.inverse == 1).all())

    @cached_property
    def _ranked(self) -> dict[tuple[int, int], Linearized]:
        """AP and AUC, as observed and corrected: rows are ranked once for all of them."""
        whole = self.whole
        n, n_labels = whole.scores.shape
        row_ends, labels, inverse = whole.ordered
        by_label = sp.csr_array((inverse, labels, row_ends), (n, n_labels)).tocsc()
        weights = np.stack([np.ones(by_label.nnz), by_label.data])
        weights = weights[: 1 if self._complete else 2]
        views = len(weights)
        wanted = np.array([form in self.forms for form in FORMS])
        indptr, rows = by_label.indptr.astype(np.int64), by_label.indices.astype(np.int64)
        values = np.full((views, 2, n_labels), np.nan)
        squares = np.zeros((views, 2, n_labels))

        def ranked(first: int, last: int) -> Floats:
            block = np.ascontiguousarray(whole.scores[:, first:last][whole.order].T)
            order = np.argsort(-block, axis=1)
            influence = np.zeros((views, 2, n))
            columns.rank_rows(
                order, np.take_along_axis(block, order, 1), indptr[first : last + 1], rows,
                weights, wanted, values[:, :, first:last],
                squares[:, :, first:last], influence,
            )  # fmt: skip
            return influence

        bounds = even_bounds(n_labels, 4 * n, BLOCK)
        influence = np.zeros((views, 2, n))
        for first in range(0, bounds.size - 1, TOGETHER):  # few influences in memory at a time
            for part in in_chunks(bounds[first : first + TOGETHER + 1], ranked):
                influence += part
        observed = np.diff(indptr)
        return {
            (view, form): self._in_place(
                _macro(values[view, form], squares[view, form], influence[view, form], observed)
            )
            for view in range(views)
            for form in np.flatnonzero(wanted).tolist()
        }

    def _in_place(self, made: Linearized) -> Linearized:
        """With the influences of rows as they stand."""
        return replace(made, influence=self.whole.put_back(made.influence))

    def _best_f(self, corrected: bool) -> Linearized:
        whole = self.whole
        made = sweep(whole, grid(whole), corrected=corrected)
        curve = made.curve("sample")
        best = int(np.argmax(curve.f1))
        threshold = float(made.thresholds[best])
        influence = made.influence(whole, best, corrected=corrected)
        details = {
            "threshold": threshold,
            "precision": float(curve.precision[best]),
            "precision_error": float(curve.precision_error[best]),
            "recall": float(curve.recall[best]),
        }
        return Linearized(float(curve.f1[best]), float(curve.f1_error[best]), influence, details)


def _text_of(rows: Sequence[Sequence[str]]) -> str:
    from unmask._text import text_of

    return text_of(rows)


def _error_of(influence: Floats) -> float:
    n = influence.size
    return math.sqrt(float(influence @ influence) * n / max(n - 1, 1)) if n > 1 else math.inf


def _macro(values: Floats, squares: Floats, influence: Floats, observed: Ints) -> Linearized:
    """The mean over the labels that have a value."""
    is_in = np.isfinite(values)
    count, n = int(is_in.sum()), influence.size
    if not count:
        return Linearized(math.nan, math.nan, np.zeros(n), {"labels": 0, "left_out": values.size})
    own = _own_variances(squares[is_in], observed[is_in])
    shared = float(influence @ influence) - float(squares[is_in].sum())
    variance = (float(own.sum()) + max(0.0, shared)) * (n / max(n - 1, 1)) / count**2
    errors = np.full(values.size, math.nan)
    errors[is_in] = np.sqrt(own)
    details = {"labels": count, "left_out": int(values.size - count)}
    value = math.fsum(values[is_in].tolist()) / count
    return Linearized(value, math.sqrt(variance), influence / count, details, values, errors)


def _own_variances(squares: Floats, observed: Ints) -> Floats:
    """The variance of every label's value, drawn towards that of all labels: see the module."""
    degrees = np.maximum(observed - 1.0, 0.0)
    per_row = squares * observed * observed / np.maximum(degrees, 1.0)
    typical = (float((degrees * per_row).sum()) + WIDEST) / (float(degrees.sum()) + 1)
    drawn = (degrees * per_row + PRIOR * typical) / (degrees + PRIOR)
    return np.asarray(drawn / observed)


def grid(rows: Scored) -> Floats:
    """Thresholds to try: 0.01 … 0.99 for probabilities, else quantiles of the scores; rising."""
    scores = rows.scores
    if scores.size and scores.min() >= 0 and scores.max() <= 1:
        return np.arange(1, STEPS + 1) / 100
    order = np.arange(scores.shape[0]) if rows.order is None else rows.order
    some = scores[order[:: max(1, -(-scores.size // BLOCK))]].ravel()
    finite = some[np.isfinite(some)] if np.isfinite(some).any() else np.zeros(1)
    quarter = np.quantile(finite / 4, np.arange(1, STEPS + 1) / 100)  # differences are numbers
    return np.unique(4 * quarter).astype(np.float64)


@dataclass(frozen=True)
class Best:
    """The point of a curve with the largest F1.

    Parameters
    ----------
    threshold, precision, recall, f1, f1_error : float
        F1 is optimistic by what chance makes: it is the best of this sample.
    """

    threshold: float
    precision: float
    recall: float
    f1: float
    f1_error: float


@dataclass(frozen=True, eq=False)
class Curve:
    """Precision, recall and F1 at T thresholds, each with its band.

    Parameters
    ----------
    average : {"micro", "sample"}
        Sums over all pairs, or means over rows (precision of rows with predictions).
    estimator : {"vanilla", "unbiased"}
    confidence : float
        Of the bands.
    thresholds : (T,) floats, rising
        A label is predicted where its score is at least this.
    precision, recall, f1 : (T,) floats
    precision_error, recall_error, f1_error : (T,) floats
        Standard errors over rows.

    Examples
    --------
    >>> scores = np.array([[0.9, 0.2], [0.6, 0.7], [0.3, 0.1], [0.2, 0.8]])
    >>> made = curve(scores, [[1, 0], [1, 1], [0, 0], [0, 1]], thresholds=[0.25, 0.5])
    >>> made.precision, made.recall
    (array([0.8, 1. ]), array([1., 1.]))
    >>> made.best.threshold
    0.5
    """

    average: str
    estimator: str
    confidence: float
    thresholds: Floats
    precision: Floats
    recall: Floats
    f1: Floats
    precision_error: Floats
    recall_error: Floats
    f1_error: Floats

    @property
    def best(self) -> Best:
        """Where F1 is largest; of equals the lowest threshold."""
        at_best = int(np.argmax(self.f1))
        names = [each.name for each in fields(Best) if each.name != "threshold"]
        numbers = {name: float(getattr(self, name)[at_best]) for name in names}
        return Best(threshold=float(self.thresholds[at_best]), **numbers)

    def band(self, name: str) -> tuple[Floats, Floats]:
        """The ends of the intervals of "precision", "recall" or "f1", within [0, 1].

        Parameters
        ----------
        name : str

        Returns
        -------
        pair of (T,) floats
        """
        checks.one_of(name, NUMBERS, "number of a curve")
        value, error = getattr(self, name), getattr(self, f"{name}_error")
        half = z_quantile(self.confidence) * error
        return np.clip(value - half, 0.0, 1.0), np.clip(value + half, 0.0, 1.0)

    def to_dicts(self) -> list[dict[str, float]]:
        """A record per threshold: threshold, and every number with its ends."""
        columns: dict[str, Floats] = {"threshold": self.thresholds}
        for name in NUMBERS:
            low, high = self.band(name)
            columns |= {name: getattr(self, name), f"{name}_low": low, f"{name}_high": high}
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def __str__(self) -> str:
        """Some thresholds, the best among them, with the ends of the bands."""
        return _text_of([["threshold", *NUMBERS], *self._shown(banded=True)])

    def _repr_html_(self) -> str:
        """HTML for notebooks: some thresholds, the best among them."""
        caption = f"{self.average} precision and recall by threshold, {self.estimator}"
        return html_table(caption, ["threshold", *NUMBERS], self._shown(banded=False))

    def _shown(self, *, banded: bool) -> list[list[str]]:
        best = int(np.argmax(self.f1))
        steps = np.linspace(0, self.thresholds.size - 1, min(self.thresholds.size, 10))
        shown = np.unique(np.r_[np.round(steps).astype(int), best])
        bands = {name: self.band(name) for name in NUMBERS}

        def number(name: str, i: int) -> str:
            low, high = bands[name]
            band = f" [{low[i]:.3f}, {high[i]:.3f}]" if banded else ""
            return f"{getattr(self, name)[i]:.3f}{band}"

        return [
            [f"{self.thresholds[i]:.3g}{' (best)' if i == best else ''}"]
            + [number(name, i) for name in NUMBERS]
            for i in shown.tolist()
        ]


_PARTS = {"sample": (0, 1, 2, 3), "micro": (4, 5, 4, 6)}
"""Which components are divided: hits by predictions, and hits by labels."""


@dataclass(frozen=True)
class Sweep:
    """Sums over rows at every threshold (`_kernels.columns.sweep`)."""

    thresholds: Floats
    rows: int
    sums: Floats
    products: Floats

    def curve(self, average: str, *, estimator: str = "vanilla", confidence: float = 0.95) -> Curve:
        """Precision, recall and F1: "sample", means over rows as CAFA has them, or "micro"."""
        parts = _PARTS[average]
        above, predicted, hits, present = (self.sums[:, part] for part in parts)
        precision, recall = _divided(above, predicted), _divided(hits, present)
        f1 = _divided(2 * precision * recall, precision + recall)
        errors = [self._error(slope) for slope in self.slopes(average)]
        numbers = self.thresholds, precision, recall, f1, *errors
        return Curve(average, estimator, confidence, *numbers)

    def slopes(self, average: str) -> tuple[Floats, Floats, Floats]:
        """The derivatives of precision, recall and F1 by the sums; (T, 7) each."""
        parts = _PARTS[average]
        above, predicted, hits, present = (self.sums[:, part] for part in parts)
        precision, recall = _divided(above, predicted), _divided(hits, present)
        both = precision + recall
        by_precision, by_recall = np.zeros(self.sums.shape), np.zeros(self.sums.shape)
        by_precision[:, parts[0]] += _divided(np.ones_like(above), predicted)
        by_precision[:, parts[1]] -= _divided(precision, predicted)
        by_recall[:, parts[2]] += _divided(np.ones_like(above), present)
        by_recall[:, parts[3]] -= _divided(recall, present)
        weights = _divided(2 * recall**2, both**2), _divided(2 * precision**2, both**2)
        by_f1 = weights[0][:, None] * by_precision + weights[1][:, None] * by_recall
        return by_precision, by_recall, by_f1

    def _error(self, slope: Floats) -> Floats:
        """√Σ (slope · x)² over rows: the delta method, the slopes being those of ratios of sums."""
        variance = np.einsum("ta,tab,tb->t", slope, self.products, slope)
        larger = self.rows / max(self.rows - 1, 1)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0) * larger))

    def influence(self, rows: Scored, step: int, *, corrected: bool) -> Floats:
        """Influence of every row on the F1 of means over rows at one threshold."""
        again = _swept(rows, self.thresholds[step : step + 1], corrected)
        one = Sweep(self.thresholds[step : step + 1], self.rows, again[0], again[1])
        return rows.put_back(np.asarray(again[2] @ one.slopes("sample")[2][0]))


def sweep(rows: Scored, thresholds: Floats, *, corrected: bool) -> Sweep:
    """Precision, recall and F1 of the sets that reach thresholds.

    Parameters
    ----------
    rows : Scored
    thresholds : (T,) floats, rising
    corrected : bool
        Whether missing labels are allowed for.

    Returns
    -------
    Sweep
    """
    sums, products, _ = _swept(rows, thresholds, corrected)
    return Sweep(thresholds, rows.scores.shape[0], sums, products)


def _swept(rows: Scored, thresholds: Floats, corrected: bool) -> tuple[Floats, Floats, Floats]:
    """Sums and products at every threshold, and the components of every row at the first.

    Rows stand in their order.
    """
    n = rows.scores.shape[0]
    indptr, labels, inverse = rows.weights(corrected=corrected)
    from unmask.weights import normalized_weights  # only where thresholds are swept

    shares = normalized_weights(indptr, inverse)
    present = _chance_of_labels(indptr, inverse)
    per_row = np.empty((n, columns.COMPONENTS))

    def part(first: int, last: int) -> tuple[Floats, Floats]:
        sums = np.zeros((thresholds.size, columns.COMPONENTS))
        products = np.zeros((thresholds.size, columns.COMPONENTS, columns.COMPONENTS))
        columns.sweep(
            rows.block(first, last), indptr[first : last + 1], labels, inverse, shares,
            present[first:last], thresholds, sums, products, per_row[first:last],
        )  # fmt: skip
        return sums, products

    parts = in_chunks(even_bounds(rows.scores.shape[0], rows.scores.shape[1], BLOCK), part)
    empty = np.zeros((thresholds.size, columns.COMPONENTS))
    sums = sum((each[0] for each in parts), empty)
    products = sum((each[1] for each in parts), np.zeros((*empty.shape, columns.COMPONENTS)))
    return sums, products, per_row


def least_information(rows: Scored, information: Floats | None, *, corrected: bool) -> Linearized:
    """Smin: the smallest √(ru² + mi²) over thresholds that some label reaches.

    Parameters
    ----------
    rows : Scored
    information : (L,) floats, or None
        What every label counts; None: 1.
    corrected : bool
        Whether missing labels are allowed for.

    Returns
    -------
    Linearized
        With the threshold, `missed` (ru) and `wrong` (mi) in its details.
    """
    n, n_labels = rows.scores.shape
    content = np.ones(n_labels) if information is None else information
    tried = grid(rows)
    reached = tried[tried <= rows.scores.max()] if rows.scores.size else tried[:0]
    thresholds = reached if reached.size else tried[:1]
    means, _ = _weighed(rows, thresholds, content, corrected)
    sizes = np.hypot(means[:, 0], means[:, 1])
    best = int(np.argmin(sizes))
    value = float(sizes[best])
    _, per_row = _weighed(rows, thresholds[best : best + 1], content, corrected)
    slope = means[best] / value if value else np.zeros(2)
    influence = (per_row @ slope - value) / max(n, 1)
    error = _error_of(influence)
    details = {
        "threshold": float(thresholds[best]),
        "missed": float(means[best, 0]),
        "wrong": float(means[best, 1]),
    }
    return Linearized(value, error, rows.put_back(influence), details)


def _weighed(
    rows: Scored, thresholds: Floats, information: Floats, corrected: bool
) -> tuple[Floats, Floats]:
    """The mean information of missed and wrong labels by threshold; of rows at the first."""
    n = rows.scores.shape[0]
    indptr, labels, inverse = rows.weights(corrected=corrected)
    per_row = np.empty((n, 2))

    def part(first: int, last: int) -> Floats:
        sums = np.zeros((thresholds.size, 2))
        columns.weigh(
            rows.block(first, last), indptr[first : last + 1], labels, inverse,
            information, thresholds, sums, per_row[first:last],
        )  # fmt: skip
        return sums

    parts = in_chunks(even_bounds(rows.scores.shape[0], rows.scores.shape[1], BLOCK), part)
    return sum(parts, np.zeros((thresholds.size, 2))) / max(n, 1), per_row


def _chance_of_labels(indptr: Ints, inverse: Floats) -> Floats:
    """1 − Π (1 − 1/p) of the labels of every row: unbiased for whether it has any."""
    none = np.ones(indptr.size - 1)
    filled = np.flatnonzero(np.diff(indptr))
    if filled.size:
        none[filled] = np.multiply.reduceat(1 - inverse, indptr[:-1][filled])
    return 1 - none


def _divided(above: Floats, below: Floats) -> Floats:
    """Elementwise; 0 where there is nothing to divide by."""
    return np.asarray(above / np.where(below != 0, below, math.inf))


@dataclass(frozen=True)
class Reliability:
    """Predicted probabilities in bins, with the share of pairs in each that are true.

    Parameters
    ----------
    edges : (B + 1,) floats
    pairs, predicted, true : (B,) floats
        How many pairs, the mean of their probabilities, and the share that is true.
    true_error : (B,) floats
        Its standard error over rows.
    error : float
        The expected calibration error: the mean over pairs of what predicted and true differ by.
    influence : (n,) floats
        What every row adds to it, in the order of rows.

    Examples
    --------
    >>> from unmask.metrics import reliability
    >>> table = reliability([[0.2, 0.9], [0.1, 0.7]], [[0, 1], [0, 1]], bins=2)
    >>> table.pairs, table.true, round(table.error, 3)
    (array([2., 2.]), array([0., 1.]), 0.175)
    """

    edges: Floats
    pairs: Floats
    predicted: Floats
    true: Floats
    true_error: Floats
    error: float
    influence: Floats

    def __str__(self) -> str:
        """A line for every bin, then the calibration error."""
        return f"{_text_of([_BINS, *self._lines()])}\n\ncalibration error {self.error:.4f}"

    def _repr_html_(self) -> str:
        """HTML for notebooks."""
        return html_table(f"calibration error {self.error:.4f}", _BINS, self._lines())

    def _lines(self) -> list[list[str]]:
        return [
            [f"{low:.3g} to {high:.3g}", f"{pairs:,.0f}", f"{predicted:.3f}",
             f"{true:.3f} ± {error:.3f}"]
            for low, high, pairs, predicted, true, error in zip(
                self.edges[:-1], self.edges[1:], self.pairs, self.predicted, self.true,
                self.true_error, strict=True,
            )
        ]  # fmt: skip


_BINS = ["probability", "pairs", "mean", "true share ± its standard error"]


def in_bins(rows: Scored, *, corrected: bool, bins: int = 10) -> Reliability:
    """Compare probabilities with what is true, in bins.

    Parameters
    ----------
    rows : Scored
        With probabilities as scores.
    corrected : bool
        Whether missing labels are allowed for.
    bins : int, default 10
        Of equal width.

    Returns
    -------
    Reliability
    """
    indptr, labels, inverse = rows.weights(corrected=corrected)
    edges = np.linspace(0, 1, bins + 1)
    n, n_labels = rows.scores.shape
    per_row = np.zeros((n, bins, 3))
    for first, last in pairwise(even_bounds(n, n_labels, BLOCK).tolist()):
        columns.fill_bins(
            rows.block(first, last), indptr[first : last + 1], labels, inverse, edges[1:-1],
            per_row[first:last],
        )  # fmt: skip
    pairs, predicted, true = per_row.sum(axis=0).T
    share = _divided(true, pairs)
    spread = (per_row[:, :, 2] - share * per_row[:, :, 0]) ** 2
    errors = _divided(np.sqrt(spread.sum(axis=0) * n / max(n - 1, 1)), pairs)
    signs = np.sign(predicted - true)
    error = float((np.abs(predicted - true)).sum()) / max(n * n_labels, 1)
    added = (per_row[:, :, 1] - per_row[:, :, 2]) @ signs / max(n_labels, 1)
    influence = (added - error) / max(n, 1)
    return Reliability(edges, pairs, _divided(predicted, pairs), share, errors, error, influence)


@named_options
def curve(
    scores: ScoresLike,
    labels: LabelsLike,
    propensity: PropensityLike | None = None,
    *,
    average: Average = "micro",
    thresholds: ArrayLike | None = None,
    labels_of_interest: Sequence[int] | None = None,
    confidence: float = 0.95,
) -> Curve:
    """Precision, recall and F1 of the sets that scores at or above thresholds make.

    Parameters
    ----------
    scores : (n, L) matrix
        Dense, of any system.
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    propensity : (L,) floats in (0, 1], or (n, L) sparse matrix, optional
        How likely a true label is observed; without it, the curve is that of the observed labels.
    average : {"micro", "sample"}, default "micro"
        Sums over all pairs, or means over rows, of which Fmax is the largest F1.
    thresholds : (T,) floats, optional
        By default 0.01 … 0.99 for probabilities, else quantiles of the scores.
    labels_of_interest : sequence of int, optional
        The labels that are counted; by default all. With one, its precision–recall curve.
    confidence : float, default 0.95
        Of the bands.

    Returns
    -------
    Curve

    Raises
    ------
    ValueError
        If shapes do not fit, scores are not numbers, or there are no rows.

    Examples
    --------
    Half of the labels were recorded: precision doubles at every threshold.

    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random((500, 4))
    >>> observed = rng.random((500, 4)) < scores / 2
    >>> plain, corrected = curve(scores, observed), curve(scores, observed, [0.5] * 4)
    >>> np.allclose(corrected.precision, 2 * plain.precision)
    True
    >>> corrected.best.threshold < plain.best.threshold
    True
    """
    checks.one_of(average, AVERAGES, "average")
    checks.confidence(confidence)
    rows = _rows(scores, labels, propensity, "a curve", labels_of_interest)
    tried = grid(rows) if thresholds is None else _thresholds(thresholds)
    corrected = propensity is not None
    estimator = "unbiased" if corrected else "vanilla"
    made = sweep(rows, tried, corrected=corrected)
    return made.curve(average, estimator=estimator, confidence=confidence)


@named_options
def reliability(
    probabilities: ScoresLike,
    labels: LabelsLike,
    propensity: PropensityLike | None = None,
    *,
    bins: int = 10,
) -> Reliability:
    """Compare predicted probabilities with the share of labels that are true.

    Parameters
    ----------
    probabilities : (n, L) matrix in [0, 1]
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    propensity : (L,) floats in (0, 1], or (n, L) sparse matrix, optional
        Without it, shares are those of observed labels.
    bins : int, default 10
        Of equal width.

    Returns
    -------
    Reliability
        Per bin: pairs, mean probability, share of true labels and its standard error; and the
        expected calibration error.

    Raises
    ------
    ValueError
        If shapes do not fit, or a number is no probability.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> chances = rng.random((5000, 2))
    >>> observed = rng.random((5000, 2)) < chances * 0.5
    >>> table = reliability(chances, observed, [0.5, 0.5], bins=5)
    >>> bool(np.abs(table.true - table.predicted).max() < 0.05)
    True
    """
    checks.in_range(checks.positive_int(bins, "bins"), "bins", 1, 1000)
    rows = _rows(probabilities, labels, propensity, "reliability", None)
    refuse_no_probabilities(rows.scores, "reliability")
    return in_bins(rows, corrected=propensity is not None, bins=bins)


def _rows(
    scores: ScoresLike,
    labels: LabelsLike,
    propensity: PropensityLike | None,
    what: str,
    wanted: Sequence[int] | None,
) -> Scored:
    observed = checks.labels(labels)
    matrix = scores_of(scores, observed, what)
    if np.isposinf(matrix).any():
        raise ValueError("scores must be finite, or −inf for a label never to predict; got inf.")
    if not matrix.size:
        raise ValueError(f"{what} needs at least one row and one label; got {matrix.shape}.")
    inverse = np.ones(observed.nnz)
    if propensity is not None:
        inverse = reciprocal(checks.entry_propensity(propensity, observed))
    if wanted is None:
        return Scored(matrix, observed, inverse)
    columns = _columns(wanted, matrix.shape[1])
    weights = sp.csr_array((inverse, observed.indices, observed.indptr), observed.shape)
    part = sp.csr_array(weights[:, columns])
    part.sort_indices()
    return Scored(np.ascontiguousarray(matrix[:, columns]), part, part.data)


def _columns(wanted: Sequence[int], n_labels: int) -> list[int]:
    columns = [int(each) for each in wanted]
    for each in columns:
        if not 0 <= each < n_labels:
            raise ValueError(checks.out_of_range(each, n_labels, "label"))
    if not columns or len(set(columns)) < len(columns):
        raise ValueError("labels_of_interest must name at least one label, and none twice.")
    return columns


def _thresholds(thresholds: ArrayLike) -> Floats:
    values = np.asarray(checks.numbers(thresholds, "thresholds"), dtype=np.float64)
    if values.ndim != 1 or not values.size or not (np.diff(values) > 0).all():
        raise ValueError("thresholds must be a rising list of at least one number.")
    if np.isnan(values).any():
        raise ValueError("a threshold must be a number; got NaN.")
    return values
