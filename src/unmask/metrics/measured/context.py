"""The data behind an audit: everything that estimates need of it, computed once.

An `Audit` holds judgements with the labels they belong to, checked, and a `System` for each set of
predictions. A system keeps what it was asked for: every metric of every row on the observed labels,
the chances of its predictions, and covariates. All metrics, all ways to take undecided answers, and
all looks at growing answers read the same.

Covariates are what is known of every row before anything is judged. Seven numbers predict the
metric of a row: the metric on its observed labels, observed hits, observed misses, whether nothing
is observed, the recall to expect if the predictions are as good as their scores (hits and the
chances of the first k, over observed labels and the chances of all that are listed), and the mean
scores of the first k and of those after them. Few and strong ones: a regression on 200 judged rows
pays for each. More can be passed in, such as the answers of another judge: it cannot bias a
measured estimate, it can only fail to narrow it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from unmask._kernels import audits
from unmask._typing import Floats, Integers, LabelsLike, MatrixLike
from unmask.arrays import TopK, checks, values_at
from unmask.data.judgements import Design, Judgements
from unmask.metrics.evaluation import contributions
from unmask.metrics.measured.rows import JudgedRows, judged_rows, worth
from unmask.metrics.registry import METRICS, MICRO, split, split_measured
from unmask.metrics.request import Predictions
from unmask.propensity import calibration

CovariatesLike: TypeAlias = "MatrixLike | Mapping[str, MatrixLike]"
"""(n,) or (n, q) numbers of rows; an (n, L) matrix is one of pairs. Several by name."""


@dataclass(frozen=True, eq=False)
class Column:
    """One number of every row, with its mean and spread over all rows.

    Parameters
    ----------
    values : floats of shape (n,)
    """

    values: Floats

    @cached_property
    def mean(self) -> float:
        """The mean over all rows."""
        return float(self.values.mean())

    @cached_property
    def spread(self) -> float:
        """The standard deviation over all rows; 0 where only rounding varies."""
        spread = float(self.values.std())
        largest = max(float(np.abs(self.values).max(initial=0.0)), 1e-300)
        return spread if spread > 1e-12 * largest else 0.0


@dataclass(frozen=True, eq=False)
class Columns:
    """Covariates of all rows, standardised when they are read.

    Parameters
    ----------
    columns : tuple of Column
        Those without spread are left out.
    n : int
        How many rows there are.
    """

    columns: tuple[Column, ...]
    n: int

    @classmethod
    def of(cls, values: Floats) -> Columns:
        """Return the columns of an (n, q) matrix."""
        return cls(tuple(Column(np.ascontiguousarray(each)) for each in values.T), len(values))

    @cached_property
    def useful(self) -> tuple[Column, ...]:
        """The covariates that vary."""
        return tuple(each for each in self.columns if each.spread > 0)

    def at(self, rows: Integers | slice) -> Floats:
        """Return the covariates of some rows with mean 0 and variance 1 over all; (m, q) floats."""
        parts = [(each.values[rows] - each.mean) / each.spread for each in self.useful]
        return np.stack(parts, axis=1) if parts else np.zeros((np.arange(self.n)[rows].size, 0))

    def clipped_sums(self, slopes: Floats, intercepts: Floats, low: Floats, high: Floats) -> Floats:
        """Return Σ over all rows of m linear predictions, kept within limits; (m,) floats.

        Slopes are (q, m), for standardised covariates.
        """
        if not self.useful:
            return np.asarray(np.clip(intercepts, low, high) * self.n)
        spreads = np.array([each.spread for each in self.useful])
        raw = slopes / spreads[:, None]
        at_zero = intercepts - np.array([each.mean for each in self.useful]) @ raw
        return audits.clipped_sums([each.values for each in self.useful], raw, at_zero, low, high)


@dataclass(frozen=True, eq=False)
class System:
    """The predictions of one system, with what the observed labels say of them.

    Parameters
    ----------
    top : TopK
        Of all n rows.
    labels : csr_array of shape (n, L), validated
        The observed labels.
    asked : tuple of str
        Metrics of rows that are going to be read: they are computed in one pass.
    """

    top: TopK
    labels: sp.csr_array
    asked: tuple[str, ...] = ()
    _kept: dict[Any, Any] = field(default_factory=dict, repr=False)

    def observed(self, name: str) -> Floats:
        """Return a metric of every row on the observed labels."""
        if name not in self._kept:
            names = list(dict.fromkeys([*self.of_rows, name]))
            values = contributions(self.top, self.labels, metrics=names)
            self._kept.update({each: values[each, "vanilla"] for each in names})
        return np.asarray(self._kept[name])

    @property
    def of_rows(self) -> list[str]:
        """The metrics of rows by which those that were asked for are predicted."""
        names = []
        for name in self.asked:
            metric, k = split_measured(name)
            k = self.top.k if k is None else k
            if k <= self.top.k:
                names.append(f"{'R' if metric in MICRO else metric}@{k}")
        return names

    def observed_weight(self, k: int, metric: str) -> float:
        """Return what the observed labels among the first k of all rows are worth together."""
        if ("worth", k) not in self._kept:
            placed = self.places.described[:, :k]
            shown = (placed >= audits.OBSERVED) & (placed < audits.NOTHING)
            self._kept["worth", k] = shown.sum(axis=0).astype(np.float64)
        counts: Floats = self._kept["worth", k]
        return float(counts @ worth(counts.size, metric))

    @cached_property
    def places(self) -> calibration.Places:
        """The bins of all predictions."""
        return calibration.places_of(self.top, self.labels)

    def covariates(self, name: str, k: int) -> tuple[Column, ...]:
        """Return the seven covariates of a metric over rows, with its cut-off k."""
        if ("first", name) not in self._kept:
            self._kept["first", name] = Column(self.observed(name))
        if k not in self._kept:
            self._kept[k] = self._of_first(k)
        return self._kept["first", name], *self._kept[k]

    def _of_first(self, k: int) -> tuple[Column, ...]:
        """Return the six covariates that depend on the cut-off alone."""
        rate = self.places.rate()
        sums, (first, first_count, later, later_count) = audits.row_sums(
            self.places.described, self.top.scores, k, rate
        )
        hits, of_first, promised = sums[:3]
        size = np.diff(self.labels.indptr).astype(np.float64)
        recall = (hits + of_first) / np.maximum(size + promised, 1e-9)
        scores = (
            _means(sums[3], sums[4], first / max(first_count, 1)),
            _means(sums[5], sums[6], later / max(later_count, 1)),
        )
        empty = (size == 0).astype(np.float64)
        return tuple(map(Column, (hits, size - hits, empty, recall, *scores)))

    def further(self, values: CovariatesLike, k: int) -> tuple[Column, ...]:
        """Return covariates that were passed in; those of pairs as sums over the first k and all.

        Raises
        ------
        ValueError
            If there is not one row for each of n, or a number is not finite.
        """
        if ("further", k) not in self._kept:
            parts = list(values.values()) if isinstance(values, Mapping) else [values]
            made = [_columns(part, self.top, self.labels.shape, k) for part in parts]
            self._kept["further", k] = Columns.of(np.concatenate(made, axis=1)).columns
        return tuple(self._kept["further", k])


def _means(sums: Floats, counts: Floats, overall: float) -> Floats:
    """Return sums over counts; of a row that has none, the mean of all."""
    return np.where(counts > 0, sums / np.maximum(counts, 1), overall)


@dataclass(frozen=True, eq=False)
class Audit:
    """Judgements with the labels they belong to, checked; made once for all metrics.

    Parameters
    ----------
    judged : Judgements
    labels : csr_array of shape (n, L), validated
    confidence : float
    covariates : CovariatesLike, optional
    asked : tuple of str
        The metrics that are going to be measured.
    """

    judged: Judgements
    labels: sp.csr_array
    confidence: float
    covariates: CovariatesLike | None = None
    asked: tuple[str, ...] = ()
    _shared: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def checked(
        cls,
        judged: Judgements,
        labels: LabelsLike,
        confidence: float = 0.95,
        covariates: CovariatesLike | None = None,
        asked: Sequence[str] = (),
    ) -> Audit:
        """Return an audit; refused where the judgements belong to other data."""
        observed = checks.labels(labels)
        checks.confidence(confidence)
        return cls(judged, observed, confidence, covariates, tuple(asked)).with_judged(judged)

    def with_judged(self, judged: Judgements) -> Audit:
        """Return an audit of the same data with other answers; refused if they are of other data.

        Raises
        ------
        ValueError
            If shapes differ, or the strata do not make up all pairs that can be judged.
        """
        sample, shape = judged.sample, self.labels.shape
        if shape != sample.shape:
            raise ValueError(
                f"the judgements belong to data of shape {sample.shape}; the labels have {shape}."
            )
        if sample.design is Design.PAIRS:
            pairs, free = sum(each.size for each in sample.strata), sample.observed_free
            frame = shape[0] * shape[1] - (self.labels.nnz if free else 0)
            if pairs != frame:
                raise ValueError(
                    f"the strata of the audit have {pairs:,} pairs in all, but there are "
                    f"{frame:,} to judge; these are other labels, or the plan is damaged."
                )
        return replace(self, judged=judged)

    @property
    def by_rows(self) -> bool:
        """True where rows were chosen, not pairs over all rows."""
        return self.judged.sample.design is not Design.PAIRS

    @cached_property
    def rows(self) -> JudgedRows:
        """The judged rows, with what is known of them; only where rows were chosen."""
        return judged_rows(self.judged, self.labels)

    def system(self, top: TopK) -> System:
        """Return what is known of some predictions, which must be of as many rows."""
        key = "system", id(top)
        if key not in self._shared:
            checks.same_rows(top.labels, self.labels, "predictions", "labels")
            asked = [name for name in self.asked if adds_rows_up(name)]
            self._shared[key] = System(top, self.labels, tuple(asked))
        kept: System = self._shared[key]
        return kept

    def row_covariates(self, systems: Sequence[System], name: str, k: int) -> Columns:
        """Return what is known of all rows about a metric of some systems."""
        columns: list[Column] = []
        for each in systems:
            columns += each.covariates(name, k)
            if self.covariates is not None:
                columns += each.further(self.covariates, k)
        return Columns(tuple(columns), self.labels.shape[0])

    def added(self, predictions: Predictions, name: str) -> Floats:
        """Return what every row adds to a metric on the observed labels, see `contributions`."""
        key = name, id(predictions)
        if key not in self._shared:
            values = contributions(predictions, self.labels, metrics=[name])[name, "vanilla"]
            self._shared[key] = predictions, np.nan_to_num(values)
        return np.asarray(self._shared[key][1])


def adds_rows_up(name: str) -> bool:
    """Return whether judged rows or pairs add up to a metric; others are measured by influences.

    >>> adds_rows_up("R@5"), adds_rows_up("micro-F1"), adds_rows_up("mAP"), adds_rows_up("LRAP")
    (True, True, False, False)
    """
    metric = split(name)[0]
    about = METRICS[metric]
    return about.reads == "list" and (about.over == "rows" or metric in MICRO)


@dataclass(frozen=True, eq=False)
class PairColumns:
    """Covariates of all pairs, of which few are read.

    Parameters
    ----------
    of_rows : floats of shape (n, q)
        Numbers of rows, which all pairs of a row share.
    of_pairs : tuple of csr_array of shape (n, L)
    shape : (int, int)
        Rows n and labels L.
    """

    of_rows: Floats
    of_pairs: tuple[sp.csr_array, ...]
    shape: tuple[int, int]

    @property
    def count(self) -> int:
        """The number of covariates."""
        return int(self.of_rows.shape[1]) + len(self.of_pairs)

    @property
    def sums(self) -> Floats:
        """Sums over all n · L pairs, (count,) floats."""
        of_pairs = [float(each.sum(dtype=np.float64)) for each in self.of_pairs]
        return np.concatenate([self.of_rows.sum(axis=0) * self.shape[1], of_pairs])

    def at(self, rows: Integers, labels: Integers) -> Floats:
        """Return the covariates of some pairs, (m, count) floats."""
        of_pairs = [values_at(each, rows, labels) for each in self.of_pairs]
        return np.column_stack([self.of_rows[rows], *of_pairs])


def pair_columns(values: CovariatesLike, shape: tuple[int, int]) -> PairColumns:
    """Return covariates for pairs that were drawn over all rows.

    Parameters
    ----------
    values : CovariatesLike
    shape : (int, int)
        Rows n and labels L.

    Returns
    -------
    PairColumns

    Raises
    ------
    ValueError
        If there is not one row for each of n, or a number is not finite.

    Examples
    --------
    >>> made = pair_columns({"judge": [[0, 1], [1, 1]], "length": [5.0, 7.0]}, (2, 2))
    >>> made.at(np.array([1]), np.array([0])), made.sums
    (array([[7., 1.]]), array([24.,  3.]))
    """
    parts = list(values.values()) if isinstance(values, Mapping) else [values]
    of_rows, of_pairs = [np.zeros((shape[0], 0))], []
    for part in parts:
        if _is_of_pairs(part, shape):
            of_pairs.append(_pair_matrix(part, shape))
        else:
            of_rows.append(_row_columns(part, shape))
    return PairColumns(np.concatenate(of_rows, axis=1), tuple(of_pairs), shape)


def _is_of_pairs(values: MatrixLike, shape: tuple[int, int]) -> bool:
    return sp.issparse(values) or np.shape(values) == shape


def _columns(values: MatrixLike, top: TopK, shape: tuple[int, int], k: int) -> Floats:
    """Return numbers of rows as they are; of pairs sums of the first k, of all, and the ratio."""
    if not _is_of_pairs(values, shape):
        return _row_columns(values, shape)
    matrix, pairs = _pair_matrix(values, shape), top.pairs(k)
    mine = values_at(matrix, pairs.rows, pairs.labels)
    hits = np.bincount(pairs.rows, mine, minlength=shape[0])
    total = np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()
    share = np.where(total > 0, hits / np.where(total > 0, total, 1), 0.0)
    return np.stack([hits, total, share], axis=1)


def _row_columns(values: MatrixLike, shape: tuple[int, int]) -> Floats:
    made = np.array(checks.numbers(values, "covariates"), dtype=np.float64)
    made = made[:, None] if made.ndim == 1 else made
    if made.ndim != 2 or made.shape[0] != shape[0]:
        raise ValueError(
            f"covariates must be known for all {shape[0]} rows, or be an {shape} matrix of pairs; "
            f"got shape {np.shape(values)}."
        )
    return checks.finite(made, "covariates")


def _pair_matrix(values: MatrixLike, shape: tuple[int, int]) -> sp.csr_array:
    pairs = checks.columns(values, name="covariates", column="label")
    if pairs.shape != shape:
        raise ValueError(f"covariates of pairs must have the shape {shape}; got {pairs.shape}.")
    return pairs
