"""Data sets beside each other: labels under the same names, and what only one of them has."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unmask._names import Strings, unique_index
from unmask.data.dataset import Dataset


class Unseen(NamedTuple):
    """Labels of some rows that the training rows do not have.

    Attributes
    ----------
    names : tuple of str
        Their names.
    pairs : int
        How often they occur, over all rows.

    Examples
    --------
    >>> train = Dataset(None, [[1, 1]], label_names=("art", "law"))
    >>> test = Dataset(None, [[1, 1], [0, 1]], label_names=("law", "tax"))
    >>> names, pairs = unseen(test, train)
    >>> names, pairs
    (('tax',), 2)
    """

    names: tuple[str, ...]
    pairs: int


def unseen(dataset: Dataset, train: Dataset) -> Unseen:
    """The labels of a data set that no training row has, by name.

    Parameters
    ----------
    dataset, train : Dataset
        Both with label names.

    Returns
    -------
    Unseen

    Raises
    ------
    ValueError
        If one of them has labels without names.

    Examples
    --------
    >>> train = Dataset(None, [[1, 1]], label_names=("art", "law"))
    >>> unseen(Dataset(None, [[1, 1]], label_names=("law", "tax")), train)
    Unseen(names=('tax',), pairs=1)
    """
    counts = _counts(dataset)
    trained = _counts(train)
    new = {name: count for name, count in counts.items() if count and not trained.get(name)}
    return Unseen(tuple(sorted(new)), sum(new.values()))


def _counts(dataset: Dataset) -> dict[str, int]:
    if dataset.labels is None or dataset.label_names is None:
        raise ValueError("labels must have names to be compared by name.")
    totals = np.bincount(dataset.labels.indices, minlength=len(dataset.label_names))
    return dict(zip(dataset.label_names, totals.tolist(), strict=True))


def same_labels(*datasets: Dataset) -> tuple[Dataset, ...]:
    """The data sets with equal label columns: those of the first, then the names it lacks.

    Parameters
    ----------
    *datasets : Dataset
        All with label names.

    Returns
    -------
    tuple of Dataset

    Raises
    ------
    ValueError
        If one of them has labels without names, or a name twice.

    Examples
    --------
    >>> train = Dataset(None, [[1, 1]], label_names=("law", "art"))
    >>> test = Dataset(None, [[1, 1]], label_names=("art", "tax"))
    >>> [each.label_names for each in same_labels(train, test)]
    [('law', 'art', 'tax'), ('law', 'art', 'tax')]
    """
    first = datasets[0].label_names or ()
    others = {name for each in datasets[1:] for name in each.label_names or ()} - set(first)
    names = (*first, *sorted(others))
    unique_index(Strings.of(names), "label names")
    return tuple(each.with_label_names(names) for each in datasets)
