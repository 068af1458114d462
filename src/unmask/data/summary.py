"""A data set in numbers: how large, how dense, how long the tail."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unmask._typing import Ints
from unmask.data.dataset import Dataset

TAIL = 5
"""A label with at least one and at most this many rows belongs to the tail."""


@dataclass(frozen=True)
class Description:
    """What `describe` counted; averages are over all rows and all labels, empty ones included.

    Parameters
    ----------
    n, L : int
        Rows and labels.
    d : int or None
        Features.
    labels_per_row, rows_per_label : float
        Averages.
    features_per_row : float or None
        Average of stored features.
    empty_rows, unused_labels : int
        Rows without a label, labels without a row.
    tail_labels : int
        Labels with 1 to `TAIL` rows.
    largest_row, most_frequent : int
        The most labels of a row, the most rows of a label.
    label_count_histogram : integers of shape (largest_row + 1,)
        Entry m is the number of rows with m labels.

    Examples
    --------
    >>> counts = describe(Dataset(None, [[1, 1, 0], [0, 0, 0]]))
    >>> counts.n, counts.L, counts.unused_labels, counts.tail_labels
    (2, 3, 1, 2)
    >>> round(counts.tail_share, 2)
    0.67
    """

    n: int
    d: int | None
    L: int
    labels_per_row: float
    rows_per_label: float
    features_per_row: float | None
    empty_rows: int
    unused_labels: int
    tail_labels: int
    largest_row: int
    most_frequent: int
    label_count_histogram: Ints

    @property
    def tail_share(self) -> float:
        """The tail's share of all labels."""
        return self.tail_labels / self.L if self.L else 0.0


def describe(dataset: Dataset) -> Description:
    """Count what matters in a data set that has labels.

    Parameters
    ----------
    dataset : Dataset
        With labels; features may be missing.

    Returns
    -------
    Description

    Raises
    ------
    ValueError
        If the data set has no labels.

    Examples
    --------
    >>> counts = describe(Dataset(None, [[1, 1, 0], [0, 0, 0]]))
    >>> counts.labels_per_row, counts.empty_rows, counts.label_count_histogram
    (1.0, 1, array([1, 0, 1]))
    """
    dataset = replace(dataset)  # which checks it: its matrices can be changed in place
    labels, features = dataset.labels, dataset.features
    if labels is None:
        raise ValueError("the data set has no labels to describe; read a file that holds labels.")
    (n, n_labels), per_row = labels.shape, np.diff(labels.indptr)
    per_label = np.bincount(labels.indices, minlength=n_labels)
    return Description(
        n=n,
        d=None if features is None else features.shape[1],
        L=n_labels,
        labels_per_row=labels.nnz / max(n, 1),
        rows_per_label=labels.nnz / max(n_labels, 1),
        features_per_row=None if features is None else features.nnz / max(n, 1),
        empty_rows=int((per_row == 0).sum()),
        unused_labels=int((per_label == 0).sum()),
        tail_labels=int(((per_label > 0) & (per_label <= TAIL)).sum()),
        largest_row=int(per_row.max(initial=0)),
        most_frequent=int(per_label.max(initial=0)),
        label_count_histogram=np.bincount(per_row),
    )
