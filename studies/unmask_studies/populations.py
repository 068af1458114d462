"""The rows that studies of intervals and verdicts draw from, with what is true of them.

The labels of the test part of a data set are taken for the truth, and a linear model's top five,
trained on some of the training part, for the system that is evaluated. Rows are drawn from the test
part with replacement, so that it is the population and its metric the truth. A metric per label is
compared with the truth over the labels that an estimate is about: those observed at least once for
recall, those predicted for precision, either for F1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask import linear
from unmask._sparse import entry_rows
from unmask._typing import Floats, Ints
from unmask.predictions import TopK
from unmask_studies import models

TRAINING_ROWS = 6000


@dataclass(frozen=True)
class Population:
    """The rows that are drawn from.

    Parameters
    ----------
    labels : csr_array of shape (N, L)
        True labels; every row has some.
    top : TopK
        The model's best five of every row.
    scores : (nnz,) floats
        The model's score of every true label.
    train_labels : csr_array of shape (M, L)
        By which propensities are stated.
    """

    labels: sp.csr_array
    top: TopK
    scores: Floats
    train_labels: sp.csr_array

    @cached_property
    def hits(self) -> Floats:
        """1 where a place of the top five holds a true label, (N, 5)."""
        n, width = self.labels.shape
        rows = entry_rows(self.labels)
        pairs = np.arange(n)[:, None] * width + self.top.labels
        return np.isin(pairs, rows * width + self.labels.indices).astype(np.float64)

    @cached_property
    def by_row(self) -> dict[str, Floats]:
        """The metrics of every row, from their definitions."""
        size = np.diff(self.labels.indptr)
        discount = 1 / np.log2(2 + np.arange(5))
        ideal = np.cumsum(discount)[np.minimum(size, 5) - 1]
        return {
            "P@1": self.hits[:, 0],
            "R@1": self.hits[:, 0] / size,
            "P@5": self.hits.mean(axis=1),
            "R@5": self.hits.sum(axis=1) / size,
            "nDCG@5": self.hits @ discount / ideal,
        }

    def truth(
        self, observed: sp.csr_array, top: TopK, weights: Floats | None = None
    ) -> dict[str, float]:
        """What is true of every metric.

        Parameters
        ----------
        observed : csr_array of shape (n, L)
            The observed labels of the rows that are evaluated, …
        top : TopK
            … and their predictions: what metrics per label are about.
        weights : (N,) floats, optional
            The share of every row in the population; by default all are alike.

        Returns
        -------
        dict of str to float
        """
        values = {name: float(np.average(x, weights=weights)) for name, x in self.by_row.items()}
        return {**values, **self._by_label(observed, top, weights)}

    def _by_label(
        self, observed: sp.csr_array, top: TopK, weights: Floats | None
    ) -> dict[str, float]:
        n, n_labels = self.labels.shape
        of_row = np.ones(n) if weights is None else weights
        places, listed = np.repeat(of_row, 5), self.top.labels.ravel()
        predicted = np.bincount(listed, places, n_labels)
        hits = np.bincount(listed, places * self.hits.ravel(), n_labels)
        of_entry = np.repeat(of_row, np.diff(self.labels.indptr))
        positives = np.bincount(self.labels.indices, of_entry, n_labels)
        present = np.bincount(observed.indices, minlength=n_labels) > 0
        here = np.bincount(top.labels.ravel(), minlength=n_labels) > 0
        either, present = (present | here) & (predicted + positives > 0), present & (positives > 0)
        return {
            "macro-P@5": float((hits[here] / predicted[here]).mean()),
            "macro-R@5": float((hits[present] / positives[present]).mean()),
            "macro-F1@5": float(
                (2 * hits / np.maximum(predicted + positives, 1e-9))[either].mean()
            ),
        }


@lru_cache(maxsize=1)
def population_of(folder: Path | None) -> Population:
    """The test part of a data set, or of built-in data.

    Parameters
    ----------
    folder : Path or None

    Returns
    -------
    Population
    """
    split = models.split_of(folder) if folder else models.planted(2500, 0)
    rows = slice(0, TRAINING_ROWS)
    recipe = linear.Recipe(loss="squared_hinge", prune_below=0.01)
    model, _ = linear.train(split.train_features[rows], split.train_labels[rows], recipe)
    used = np.diff(split.test_labels.indptr) > 0
    labels = sp.csr_array(split.test_labels[used])
    ranked = linear.predict_top(model, sp.csr_array(split.test_features[used]), labels.shape[1])
    dense = np.zeros(labels.shape)
    np.put_along_axis(dense, np.maximum(ranked.labels, 0), ranked.scores, axis=1)
    rows_of_entries = entry_rows(labels)
    return Population(
        labels,
        TopK.sorted(ranked.labels[:, :5], ranked.scores[:, :5]),
        dense[rows_of_entries, labels.indices],
        split.train_labels,
    )


def rows_of(top: TopK, rows: Ints) -> TopK:
    """The predictions of some rows.

    Parameters
    ----------
    top : TopK
    rows : (n,) ints

    Returns
    -------
    TopK
    """
    return TopK.sorted(top.labels[rows], top.scores[rows])
