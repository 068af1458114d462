"""Metrics of a whole score matrix: every row adds to a value that is no mean over rows.

Average precision and AUC rank all rows by the score of a label; Fmax looks for the best threshold
of all. Each is a smooth function of sums over rows (or pairs of rows), so every row has an
*influence*: the derivative of the value by its weight. `Linearized` holds both, and with them such
a metric is treated like a mean over rows: value + n · influence is what a row contributes.

The error of a mean over labels has a part of every label's own, Σ_i influence², and what labels
share, Σ_i [(Σ_j influence)² − Σ_j influence²]. A label with o observed rows tells its own variance
with o − 1 degrees of freedom: the variance per observed row is drawn towards that of all labels by
`PRIOR` further ones, so that a label seen once is not taken to be certain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from unmask import _validation
from unmask._kernels import columns, in_chunks
from unmask._typing import Array, Floats, Ints, ScoresLike
from unmask.weights import normalized_weights

BLOCK = 1 << 22
"""Scores that are ranked at a time."""
PRIOR = 3.0
"""Observed rows by which the variance of a label is drawn towards that of all."""
FORMS = ("average_precision", "auc")
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
    """

    scores: Array
    labels: sp.csr_array
    inverse: Floats


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
    values = _validation.dense(scores, "scores", "label")
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    if values.shape != labels.shape:
        raise ValueError(
            f"scores and labels must have the same shape; got {values.shape} and {labels.shape}."
        )
    step = max(1, BLOCK // max(1, values.shape[1]))
    for start in range(0, values.shape[0], step):
        if np.isnan(values[start : start + step]).any():
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
    """

    parts: tuple[Scored, ...]
    forms: frozenset[str] = frozenset(FORMS)

    @cached_property
    def whole(self) -> Scored:
        """All rows in one."""
        if len(self.parts) == 1:
            return self.parts[0]
        return Scored(
            np.concatenate([part.scores for part in self.parts]),
            sp.csr_array(sp.vstack([part.labels for part in self.parts], format="csr")),
            np.concatenate([part.inverse for part in self.parts]),
        )

    def linearized(self, form: str, *, corrected: bool) -> Linearized:
        """The metric of this form, of the observed labels or corrected.

        Parameters
        ----------
        form : str
            "average_precision", "auc", "f_max" or "calibration".
        corrected : bool

        Returns
        -------
        Linearized
        """
        if form == "f_max":
            return self._best_f(corrected)
        if form == "calibration":
            made = in_bins(self.whole, corrected=corrected)
            return Linearized(made.error, _error_of(made.influence), made.influence)
        view = int(corrected and not self._complete)
        return self._ranked[view, FORMS.index(form)]

    @cached_property
    def _complete(self) -> bool:
        """Whether every propensity is 1, so that nothing is to be corrected."""
        return bool((self.whole.inverse == 1).all())

    @cached_property
    def _ranked(self) -> dict[tuple[int, int], Linearized]:
        """AP and AUC, as observed and corrected: rows are ranked once for all of them."""
        whole = self.whole
        n, n_labels = whole.scores.shape
        by_label = whole.labels.tocsc()
        entry = sp.csr_array(
            (np.arange(whole.labels.nnz), whole.labels.indices, whole.labels.indptr), (n, n_labels)
        ).tocsc()
        weights = np.stack([np.ones(whole.labels.nnz), whole.inverse[entry.data]])
        weights = weights[: 1 if self._complete else 2]
        views = len(weights)
        wanted = np.array([form in self.forms for form in FORMS])
        indptr, rows = by_label.indptr.astype(np.int64), entry.indices.astype(np.int64)
        values = np.full((views, 2, n_labels), np.nan)
        squares = np.zeros((views, 2, n_labels))

        def ranked(first: int, last: int) -> Floats:
            block = np.ascontiguousarray(whole.scores[:, first:last].T)
            order = np.argsort(-block, axis=1)
            influence = np.zeros((views, 2, n))
            columns.rank_rows(
                order, np.take_along_axis(block, order, 1), indptr[first : last + 1], rows,
                weights, wanted, values[:, :, first:last],
                squares[:, :, first:last], influence,
            )  # fmt: skip
            return influence

        width = max(1, BLOCK // max(1, 4 * n))
        bounds = np.unique(np.r_[np.arange(0, n_labels, width), n_labels]).astype(np.int64)
        influence = sum(in_chunks(bounds, ranked), np.zeros((views, 2, n)))
        observed = np.diff(indptr)
        return {
            (view, form): _macro(
                values[view, form], squares[view, form], influence[view, form], observed
            )
            for view in range(views)
            for form in np.flatnonzero(wanted).tolist()
        }

    def _best_f(self, corrected: bool) -> Linearized:
        whole = self.whole
        made = sweep(whole, grid(whole.scores), corrected=corrected)
        curve = made.curve("sample")
        best = int(np.argmax(curve.f1))
        threshold = float(made.thresholds[best])
        influence = made.influence(whole, best, corrected=corrected)
        details = {
            "threshold": threshold,
            "precision": float(curve.precision[best]),
            "recall": float(curve.recall[best]),
        }
        return Linearized(float(curve.f1[best]), float(curve.f1_error[best]), influence, details)


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
    total = float(degrees.sum())
    typical = float((degrees * per_row).sum()) / total if total else 0.25
    drawn = (degrees * per_row + PRIOR * typical) / (degrees + PRIOR)
    return np.asarray(drawn / observed)


def grid(scores: Array) -> Floats:
    """Thresholds to try: 0.01 … 0.99 for probabilities, else quantiles of the scores; rising."""
    if scores.size and scores.min() >= 0 and scores.max() <= 1:
        return np.arange(1, STEPS + 1) / 100
    finite = np.asarray(scores).ravel()
    finite = finite[:: max(1, finite.size // BLOCK)]
    return np.unique(np.quantile(finite, np.arange(1, STEPS + 1) / 100)).astype(np.float64)


@dataclass(frozen=True)
class Curve:
    """Precision, recall and F1 at every threshold, with standard errors over rows.

    Parameters
    ----------
    thresholds, precision, recall, f1 : (T,) floats
    precision_error, recall_error, f1_error : (T,) floats
    """

    thresholds: Floats
    precision: Floats
    recall: Floats
    f1: Floats
    precision_error: Floats
    recall_error: Floats
    f1_error: Floats


_PARTS = {"sample": (0, 1, 2, 3), "micro": (4, 5, 4, 6)}
"""Which components are divided: hits by predictions, and hits by labels."""


@dataclass(frozen=True)
class Sweep:
    """What rows add up to at every threshold (`_kernels.columns.sweep`)."""

    thresholds: Floats
    rows: int
    sums: Floats
    products: Floats

    def curve(self, average: str) -> Curve:
        """Precision, recall and F1: "sample", means over rows as CAFA has them, or "micro"."""
        parts = _PARTS[average]
        above, predicted, found, present = (self.sums[:, part] for part in parts)
        precision, recall = _divided(above, predicted), _divided(found, present)
        f1 = _divided(2 * precision * recall, precision + recall)
        errors = [self._error(slope) for slope in self.slopes(average)]
        return Curve(self.thresholds, precision, recall, f1, *errors)

    def slopes(self, average: str) -> tuple[Floats, Floats, Floats]:
        """The derivatives of precision, recall and F1 by the sums; (T, 7) each."""
        parts = _PARTS[average]
        above, predicted, found, present = (self.sums[:, part] for part in parts)
        precision, recall = _divided(above, predicted), _divided(found, present)
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
        """What every row adds to the F1 of means over rows at one threshold."""
        again = _swept(rows, self.thresholds[step : step + 1], corrected)
        one = Sweep(self.thresholds[step : step + 1], self.rows, again[0], again[1])
        return np.asarray(again[2] @ one.slopes("sample")[2][0])


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
    """Sums and products at every threshold, and the components of every row at the first."""
    labels, n = rows.labels, rows.scores.shape[0]
    inverse = rows.inverse if corrected else np.ones(labels.nnz)
    shares = normalized_weights(labels.indptr, inverse)
    indptr = labels.indptr.astype(np.int64)
    present = _chance_of_labels(indptr, inverse)
    per_row = np.empty((n, columns.COMPONENTS))

    def part(first: int, last: int) -> tuple[Floats, Floats]:
        sums = np.zeros((thresholds.size, columns.COMPONENTS))
        products = np.zeros((thresholds.size, columns.COMPONENTS, columns.COMPONENTS))
        columns.sweep(
            rows.scores[first:last], indptr[first : last + 1], labels.indices, inverse, shares,
            present[first:last], thresholds, sums, products, per_row[first:last],
        )  # fmt: skip
        return sums, products

    parts = in_chunks(_even_bounds(n, rows.scores.shape[1]), part)
    empty = np.zeros((thresholds.size, columns.COMPONENTS))
    sums = sum((each[0] for each in parts), empty)
    products = sum((each[1] for each in parts), np.zeros((*empty.shape, columns.COMPONENTS)))
    return sums, products, per_row


def _even_bounds(n: int, width: int) -> Ints:
    step = max(1, BLOCK // max(1, width))
    return np.unique(np.r_[np.arange(0, n, step), n]).astype(np.int64)


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
        What every row adds to it.
    """

    edges: Floats
    pairs: Floats
    predicted: Floats
    true: Floats
    true_error: Floats
    error: float
    influence: Floats


def in_bins(rows: Scored, *, corrected: bool, bins: int = 10) -> Reliability:
    """How probabilities compare with what is true.

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
    labels = rows.labels
    inverse = rows.inverse if corrected else np.ones(labels.nnz)
    edges = np.linspace(0, 1, bins + 1)
    n, n_labels = rows.scores.shape
    per_row = np.zeros((n, bins, 3))
    columns.fill_bins(
        rows.scores, labels.indptr.astype(np.int64), labels.indices, inverse, edges[1:-1], per_row
    )
    pairs, predicted, true = per_row.sum(axis=0).T
    share = _divided(true, pairs)
    spread = (per_row[:, :, 2] - share * per_row[:, :, 0]) ** 2
    errors = _divided(np.sqrt(spread.sum(axis=0) * n / max(n - 1, 1)), pairs)
    signs = np.sign(predicted - true)
    error = float((np.abs(predicted - true)).sum()) / max(n * n_labels, 1)
    own = (per_row[:, :, 1] - per_row[:, :, 2]) @ signs / max(n_labels, 1)
    influence = (own - error) / max(n, 1)
    return Reliability(edges, pairs, _divided(predicted, pairs), share, errors, error, influence)
