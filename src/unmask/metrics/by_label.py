"""One line per label: how often it was recorded, predicted and hit, and what that says of it.

    recall      hits / recorded, the same for observed and true labels: a mask that keeps a label of
                every row with one probability p_j takes from both alike
    precision   hits / (p_j · predicted): every hit stands for 1 / p_j true ones

Intervals are Wilson's for the share of recorded (predicted) rows that are hits, divided by p_j for
the precision; they hold p_j fixed. A row in which the label is not recorded is not held against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from unmask import _validation
from unmask._typing import Floats, Ints, LabelsLike, PropensityLike
from unmask.metrics.intervals import wilson, z_quantile
from unmask.predictions import TopK


@dataclass(frozen=True)
class LabelCounts:
    """What is counted of L labels over n rows.

    Parameters
    ----------
    names : tuple of L str
        Numbers as text where labels have no names.
    recorded, predicted, hits : integers of shape (L,)
        Rows in which the label is recorded, stands among the best k, and both.
    trained : integers of shape (L,), or None
        Training rows in which it is recorded.
    propensity : floats of shape (L,)
    k : int
    confidence : float
        Of the intervals.

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

    def columns(self) -> dict[str, list[str] | list[int] | list[float | None]]:
        """Columns by name, for a table; None where there is nothing to divide by."""
        recall = _shares(self.hits, self.recorded, self.confidence)
        precision = _shares(self.hits, self.predicted, self.confidence) / self.propensity
        made: dict[str, list[str] | list[int] | list[float | None]] = {"label": list(self.names)}
        if self.trained is not None:
            made["train_rows"] = self.trained.tolist()
        made |= {
            "rows": self.recorded.tolist(),
            "propensity": _plain(self.propensity),
            "predicted": self.predicted.tolist(),
            "hits": self.hits.tolist(),
        }
        for name, values in ((f"recall@{self.k}", recall), (f"precision@{self.k}", precision)):
            for suffix, numbers in zip(("", "_low", "_high"), values, strict=True):
                made[name + suffix] = _plain(numbers)
        return made

    def to_dicts(self) -> list[dict[str, str | int | float | None]]:
        """A record per label, with the same fields whatever k is."""
        columns = self.columns()
        fields = {name.replace(f"@{self.k}", ""): values for name, values in columns.items()}
        return [dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True)]


def label_counts(
    predictions: TopK,
    labels: LabelsLike,
    propensity: PropensityLike,
    *,
    k: int | None = None,
    names: Sequence[str] | None = None,
    train: LabelsLike | None = None,
    confidence: float = 0.95,
) -> LabelCounts:
    """Recall and precision of every label among the best k of each row.

    Parameters
    ----------
    predictions : TopK
        For n rows.
    labels : matrix of shape (n, L) of 0 and 1
        Observed labels.
    propensity : array of shape (L,)
    k : int, optional
        By default all places of the predictions.
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
    observed = _validation.labels(labels)
    n, n_labels = observed.shape
    p = _validation.propensity(propensity, n_labels)
    _validation.in_range(confidence, "confidence", 0, 1)
    places = predictions.labels[:, : predictions.k if k is None else k]
    if len(places) != n:
        raise ValueError(f"predictions have {len(places)} rows, labels {n}.")
    rows, columns = np.repeat(np.arange(n), places.shape[1]), places.ravel()
    rows, columns = rows[columns >= 0], columns[columns >= 0]
    if columns.size and columns.max() >= n_labels:
        raise ValueError(_validation.out_of_range(int(columns.max()), n_labels, "label"))
    ones = np.ones(len(rows), dtype=np.float32)
    predicted = sp.csr_array((ones, (rows, columns)), shape=observed.shape)
    trained = None if train is None else _counts(_validation.labels(train, name="training labels"))
    return LabelCounts(
        names=tuple(map(str, range(n_labels))) if names is None else tuple(names),
        recorded=_counts(observed),
        predicted=_counts(predicted),
        hits=_counts(sp.csr_array(predicted.multiply(observed))),
        trained=trained,
        propensity=p,
        k=places.shape[1],
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
