"""Curves over thresholds, and reliability: how numbers depend on where scores are cut.

    made = curve(scores, labels, p)      precision, recall and F1 at every threshold, with bands
    made.best                            the threshold of the largest F1
    table = reliability(probabilities, labels, p)

Numerators and denominators are unbiased as those of sets are (`_kernels.columns.sweep`); the band
at a threshold is that of the delta method over rows, for that threshold alone, not for the curve as
a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask._messages import named_options
from unmask._text import html_table, text_of
from unmask._typing import Floats, LabelsLike, PropensityLike, ScoresLike
from unmask.arrays import checks
from unmask.metrics import scored
from unmask.metrics.intervals import z_quantile
from unmask.metrics.scored import Reliability
from unmask.propensity.models import reciprocal

Average: TypeAlias = Literal["micro", "sample"]
AVERAGES: tuple[Average, ...] = ("micro", "sample")
NUMBERS = ("precision", "recall", "f1")


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
        return text_of([["threshold", *NUMBERS], *self._shown(banded=True)])

    def _repr_html_(self) -> str:
        """What a notebook shows: some thresholds, the best among them."""
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
    tried = scored.grid(rows) if thresholds is None else _thresholds(thresholds)
    corrected = propensity is not None
    made = scored.sweep(rows, tried, corrected=corrected).curve(average)
    estimator = "unbiased" if corrected else "vanilla"
    numbers = {each.name: getattr(made, each.name) for each in fields(made)}
    return Curve(average=average, estimator=estimator, confidence=confidence, **numbers)


@named_options
def reliability(
    probabilities: ScoresLike,
    labels: LabelsLike,
    propensity: PropensityLike | None = None,
    *,
    bins: int = 10,
) -> Reliability:
    """How predicted probabilities compare with the share of labels that are true.

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
    scored.refuse_no_probabilities(rows.scores, "reliability")
    return scored.in_bins(rows, corrected=propensity is not None, bins=bins)


def _rows(
    scores: ScoresLike,
    labels: LabelsLike,
    propensity: PropensityLike | None,
    what: str,
    wanted: Sequence[int] | None,
) -> scored.Scored:
    observed = checks.labels(labels)
    matrix = scored.scores_of(scores, observed, what)
    if np.isposinf(matrix).any():
        raise ValueError("scores must be finite, or −inf for a label never to predict; got inf.")
    if not matrix.size:
        raise ValueError(f"{what} needs at least one row and one label; got {matrix.shape}.")
    inverse = np.ones(observed.nnz)
    if propensity is not None:
        inverse = reciprocal(checks.entry_propensity(propensity, observed))
    if wanted is None:
        return scored.Scored(matrix, observed, inverse)
    columns = _columns(wanted, matrix.shape[1])
    weights = sp.csr_array((inverse, observed.indices, observed.indptr), observed.shape)
    part = sp.csr_array(weights[:, columns])
    part.sort_indices()
    return scored.Scored(np.ascontiguousarray(matrix[:, columns]), part, part.data)


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
