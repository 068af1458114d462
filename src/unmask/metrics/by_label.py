"""One line per label: how often it was recorded, predicted and hit, and what that says of it.

    recall      hits / recorded, the same for observed and true labels: a mask that keeps a label of
                every row with one probability p_j takes from both alike
    precision   hits / (p_j · predicted): every hit stands for 1 / p_j true ones

Intervals are Wilson's for the share of recorded (predicted) rows that are hits, divided by p_j for
the precision; they hold p_j fixed. A row in which the label is not recorded is not held against it.
No precision exceeds 1: what chance takes above it is 1, and where the whole interval is above, or
the run refutes its propensities, there is no number.

Scores of all labels have no places to count: `label_rankings` has the average precision and AUC of
every label, each with the interval of its own error (`scored`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from unmask._messages import named_options
from unmask._typing import Floats, Ints, LabelsLike, PropensityLike, ScoresLike
from unmask.arrays import LabelSets, TopK, checks
from unmask.metrics import scored
from unmask.metrics.intervals import of_mean, wilson, z_quantile
from unmask.propensity.models import reciprocal


@dataclass(frozen=True)
class LabelCounts:
    """Counts of L labels over n rows.

    Parameters
    ----------
    names : tuple of L str
        Numbers as text where labels have no names.
    recorded, predicted, hits : integers of shape (L,)
        Rows in which the label is recorded, stands among the best k (in the set), and both.
    trained : integers of shape (L,), or None
        Training rows in which it is recorded.
    propensity : floats of shape (L,)
    k : int
        0 for predicted sets.
    confidence : float
        Of the intervals.
    refuted : bool, default False
        Whether something else refutes the propensities: then no label has a precision.

    Examples
    --------
    >>> top = TopK([[0], [0], [1]], [[1.0], [1.0], [1.0]])
    >>> counts = label_counts(top, [[1, 0], [0, 1], [0, 1]], [0.5, 1.0], names=["art", "law"])
    >>> counts.recorded, counts.predicted, counts.hits
    (array([1, 2]), array([2, 1]), array([1, 1]))
    >>> counts.to_dicts()[1]["recall"]
    0.5
    """

    names: tuple[str, ...]
    recorded: Ints
    predicted: Ints
    hits: Ints
    trained: Ints | None
    propensity: Floats
    k: int
    confidence: float
    refuted: bool = False

    def columns(self) -> dict[str, list[str] | list[int] | list[float | None]]:
        """Columns by name, for a table; None where there is nothing to divide by."""
        recall = _shares(self.hits, self.recorded, self.confidence)
        precision = _shares(self.hits, self.predicted, self.confidence) / self.propensity
        impossible = self.refuted | (precision[1] > 1)
        precision = np.where(impossible, np.nan, np.minimum(precision, 1.0))
        made: dict[str, list[str] | list[int] | list[float | None]] = {"label": list(self.names)}
        if self.trained is not None:
            made["train_rows"] = self.trained.tolist()
        made |= {
            "rows": self.recorded.tolist(),
            "propensity": _plain(self.propensity),
            "predicted": self.predicted.tolist(),
            "hits": self.hits.tolist(),
        }
        for name, values in ((f"recall{self._at}", recall), (f"precision{self._at}", precision)):
            for suffix, numbers in zip(("", "_low", "_high"), values, strict=True):
                made[name + suffix] = _plain(numbers)
        return made

    @property
    def _at(self) -> str:
        return f"@{self.k}" if self.k else ""

    def to_dicts(self) -> list[dict[str, str | int | float | None]]:
        """A record per label, with the same fields whatever k is."""
        columns = self.columns()
        fields = {name.replace(self._at, ""): values for name, values in columns.items()}
        return [dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True)]


@named_options
def label_counts(
    predictions: TopK | LabelSets,
    labels: LabelsLike,
    propensity: PropensityLike,
    *,
    k: int | None = None,
    names: Sequence[str] | None = None,
    train: LabelsLike | None = None,
    confidence: float = 0.95,
) -> LabelCounts:
    """Recall and precision of every label among the best k of each row, or in its set.

    Parameters
    ----------
    predictions : TopK or LabelSets
        For n rows.
    labels : matrix of shape (n, L) of 0 and 1
        Observed labels.
    propensity : array of shape (L,)
    k : int, optional
        By default all places of the predictions; sets have none.
    names : L strings, optional
    train : matrix of shape (m, L) of 0 and 1, optional
        Training labels, to be counted as well.
    confidence : float, default 0.95
        Of the intervals, in (0, 1).

    Returns
    -------
    LabelCounts

    Raises
    ------
    ValueError
        If shapes do not fit each other.

    Examples
    --------
    >>> top = TopK([[0], [0], [1]], [[1.0], [1.0], [1.0]])
    >>> counts = label_counts(top, [[1, 0], [0, 1], [0, 1]], [0.5, 1.0], names=["art", "law"])
    >>> counts.columns()["recall@1"], counts.columns()["precision@1"]
    ([1.0, 0.5], [1.0, 1.0])
    """
    observed = checks.labels(labels)
    n, n_labels = observed.shape
    p = checks.propensity(propensity, n_labels)
    checks.confidence(confidence)
    top = predictions.as_top() if isinstance(predictions, LabelSets) else predictions
    places = top.labels[:, : top.k if k is None else k]
    if len(places) != n:
        raise ValueError(f"predictions have {len(places)} rows, labels {n}.")
    rows, columns = np.repeat(np.arange(n), places.shape[1]), places.ravel()
    rows, columns = rows[columns >= 0], columns[columns >= 0]
    if columns.size and columns.max() >= n_labels:
        raise ValueError(checks.out_of_range(int(columns.max()), n_labels, "label"))
    ones = np.ones(len(rows), dtype=np.float32)
    predicted = sp.csr_array((ones, (rows, columns)), shape=observed.shape)
    trained = None if train is None else _counts(checks.labels(train, name="training labels"))
    return LabelCounts(
        names=tuple(map(str, range(n_labels))) if names is None else tuple(names),
        recorded=_counts(observed),
        predicted=_counts(predicted),
        hits=_counts(sp.csr_array(predicted.multiply(observed))),
        trained=trained,
        propensity=p,
        k=0 if isinstance(predictions, LabelSets) else places.shape[1],
        confidence=confidence,
    )


def _counts(matrix: sp.csr_array) -> Ints:
    return np.bincount(matrix.indices, minlength=matrix.shape[1])


def _shares(hits: Ints, rows: Ints, confidence: float) -> Floats:
    """(3, L): the share of hits and the ends of its interval; NaN where there is none to share."""
    of = np.where(rows > 0, rows, np.nan)
    return np.stack([hits / of, *wilson(hits / of, of, z_quantile(confidence))])


def _plain(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(f"{value:.6g}") for value in values.tolist()]


RANKINGS = {"average_precision": "average_precision", "AUC": "auc"}
"""Columns of `LabelRankings`, and their forms in `scored`."""


@dataclass(frozen=True)
class LabelRankings:
    """Ranking of the rows by every label, corrected.

    Parameters
    ----------
    names : tuple of L str
    recorded : integers of shape (L,)
        Rows in which the label is recorded.
    propensity : floats of shape (L,)
    numbers : dict of str to floats of shape (3, L)
        By name in `RANKINGS`: values and the ends of their intervals; NaN where there is none, or
        the whole interval is above 1, so that the propensity of the label is too low.

    Examples
    --------
    >>> made = label_rankings([[0.9, 0.2], [0.1, 0.8], [0.4, 0.3]], [[1, 0], [0, 1], [1, 0]])
    >>> made.columns()["average_precision"], made.columns()["AUC"]
    ([1.0, 1.0], [1.0, 1.0])
    """

    names: tuple[str, ...]
    recorded: Ints
    propensity: Floats
    numbers: dict[str, Floats]

    def columns(self) -> dict[str, list[str] | list[int] | list[float | None]]:
        """Columns by name, for a table; None where a label was never recorded."""
        made: dict[str, list[str] | list[int] | list[float | None]] = {
            "label": list(self.names),
            "rows": self.recorded.tolist(),
            "propensity": _plain(self.propensity),
        }
        for name, values in self.numbers.items():
            for suffix, column in zip(("", "_low", "_high"), values, strict=True):
                made[name + suffix] = _plain(column)
        return made

    def to_dicts(self) -> list[dict[str, str | int | float | None]]:
        """A record per label."""
        columns = self.columns()
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def label_rankings(
    scores: ScoresLike,
    labels: LabelsLike,
    propensity: PropensityLike | None = None,
    *,
    names: Sequence[str] | None = None,
    confidence: float = 0.95,
) -> LabelRankings:
    """Average precision and AUC of every label, corrected for missing labels.

    Parameters
    ----------
    scores : matrix of shape (n, L)
        Dense.
    labels : matrix of shape (n, L) of 0 and 1
        Observed labels.
    propensity : array of shape (L,), optional
        Without it, labels are taken as complete.
    names : L strings, optional
    confidence : float, default 0.95
        Of the intervals.

    Returns
    -------
    LabelRankings

    Raises
    ------
    ValueError
        If shapes do not fit each other, or scores are not numbers.

    Examples
    --------
    >>> label_rankings([[0.9], [0.1]], [[1], [0]], [0.5]).to_dicts()[0]["rows"]
    1
    """
    observed = checks.labels(labels)
    n, n_labels = observed.shape
    p = np.ones(n_labels) if propensity is None else checks.propensity(propensity, n_labels)
    checks.confidence(confidence)
    matrix = scored.scores_of(scores, observed, "the ranking of a label")
    rows = scored.AllRows((scored.Scored(matrix, observed, reciprocal(p)[observed.indices]),))
    numbers = {}
    for name, form in RANKINGS.items():
        made = rows.linearized(form, corrected=True)
        numbers[name] = np.full((3, n_labels), np.nan)
        if made.by_label is None or made.label_errors is None:
            continue
        for j in np.flatnonzero(np.isfinite(made.by_label)).tolist():
            value, error = float(made.by_label[j]), float(made.label_errors[j])
            ends = of_mean(value, error, confidence, rows=n, at_most=1.0, shares=False)
            if ends[0] <= 1:
                numbers[name][:, j] = np.clip([value, *ends], 0.0, 1.0)
    text = tuple(map(str, range(n_labels))) if names is None else tuple(names)
    return LabelRankings(text, _counts(observed), p, numbers)
