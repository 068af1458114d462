"""Shared parts of studies on real data: a data set, a linear model of it, rows to draw from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask import data, linear
from unmask._typing import Floats, Ints, PropensityLike
from unmask.arrays.checks import entry_rows
from unmask.predictions import TopK

TRAINING_ROWS = 6000  # of the system that populations are evaluated with


@dataclass(frozen=True)
class Split:
    """Training and test rows; features as a linear model wants them.

    Parameters
    ----------
    train_features, test_features : csr_array, rows × features
    train_labels, test_labels : csr_array, rows × labels
    """

    train_features: sp.csr_array
    train_labels: sp.csr_array
    test_features: sp.csr_array
    test_labels: sp.csr_array


def split_of(folder: Path | None, n: int = 2000, seed: int = 0, column: int | None = None) -> Split:
    """Return the train and test part of a folder or, without one, of n planted rows.

    Whole numbers are taken for word counts and become tf-idf, fitted on the training rows.

    Parameters
    ----------
    folder : Path or None
    n, seed : int
        How many planted rows, of which the last fifth is for the test.
    column : int, optional
        Which of the official splits in the folder.

    Returns
    -------
    Split
    """
    if folder is None:
        return cut_of(data.synthetic.planted(n, n_labels=100, seed=seed), n - n // 5)
    train, test = (data.read(folder, part=part, column=column) for part in ("train", "test"))
    return _split(train, test)


def cut_of(rows: data.Dataset, cut: int) -> Split:
    """Return the first rows and the others as a `Split`."""
    return _split(rows.take(slice(0, cut)), rows.take(slice(cut, rows.n)))


def _split(train: data.Dataset, test: data.Dataset) -> Split:
    left: sp.csr_array = train.features
    right: sp.csr_array = test.features
    if (left.data == np.rint(left.data)).all() and (left.data > 0).all():
        idf = data.idf(left)
        left, right = data.tfidf(left, idf), data.tfidf(right, idf)
    return Split(left, train.labels, right, test.labels)


def best(
    split: Split,
    labels: sp.csr_array,
    k: int,
    *,
    correction: str = "vanilla",
    propensity: PropensityLike | None = None,
) -> TopK:
    """Return the k best labels of the test rows, by squared hinge, as DiSMEC does.

    Parameters
    ----------
    split : Split
    labels : csr_array, training rows × labels
        What the model is trained on.
    k : int
    correction : str, default "vanilla"
    propensity : (L,) floats in (0, 1], optional
        For corrections other than vanilla.

    Returns
    -------
    TopK
    """
    recipe = linear.Recipe(loss="squared_hinge", correction=correction, prune_below=0.01)
    model, _ = linear.train(split.train_features, labels, recipe, propensity=propensity)
    return linear.predict_top(model, split.test_features, k)


def counts_of(labels: sp.csr_array) -> Ints:
    """Return how often each label occurs."""
    return np.bincount(labels.indices, minlength=labels.shape[1])


@dataclass(frozen=True)
class Population:
    """The rows that studies of intervals and verdicts draw from, with what is true of them.

    The labels of the test part of a data set are taken for the truth, and a linear model's top
    five, trained on some of the training part, for the system that is evaluated.

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
        pairs = np.arange(n)[:, None] * width + self.top.labels
        true = entry_rows(self.labels) * width + self.labels.indices
        return np.isin(pairs, true).astype(np.float64)

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
        """Return what is true of every metric.

        A metric per label is a mean over the labels that an estimate is about: those observed at
        least once for recall, those predicted for precision, either for F1.

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
        n, n_labels = self.labels.shape
        values = {name: float(np.average(x, weights=weights)) for name, x in self.by_row.items()}
        of_row = np.ones(n) if weights is None else weights
        places, listed = np.repeat(of_row, 5), self.top.labels.ravel()
        predicted = np.bincount(listed, places, n_labels)
        hits = np.bincount(listed, places * self.hits.ravel(), n_labels)
        of_entry = np.repeat(of_row, np.diff(self.labels.indptr))
        positives = np.bincount(self.labels.indices, of_entry, n_labels)
        present = counts_of(observed) > 0
        here = np.bincount(top.labels.ravel(), minlength=n_labels) > 0
        either, present = (present | here) & (predicted + positives > 0), present & (positives > 0)
        f1 = 2 * hits / np.maximum(predicted + positives, 1e-9)
        return {
            **values,
            "macro-P@5": float((hits[here] / predicted[here]).mean()),
            "macro-R@5": float((hits[present] / positives[present]).mean()),
            "macro-F1@5": float(f1[either].mean()),
        }


@lru_cache(maxsize=1)
def population_of(folder: Path | None) -> Population:
    """Return the test part of a data set, or of built-in data, with a model's predictions."""
    split = split_of(folder, 2500)
    rows = slice(0, TRAINING_ROWS)
    recipe = linear.Recipe(loss="squared_hinge", prune_below=0.01)
    model, _ = linear.train(split.train_features[rows], split.train_labels[rows], recipe)
    used = np.diff(split.test_labels.indptr) > 0
    labels = sp.csr_array(split.test_labels[used])
    ranked = linear.predict_top(model, sp.csr_array(split.test_features[used]), labels.shape[1])
    dense = np.zeros(labels.shape)
    np.put_along_axis(dense, np.maximum(ranked.labels, 0), ranked.scores, axis=1)
    top = TopK.sorted(ranked.labels[:, :5], ranked.scores[:, :5])
    scores = dense[entry_rows(labels), labels.indices]
    return Population(labels, top, scores, split.train_labels)


def rows_of(top: TopK, rows: Ints) -> TopK:
    """Return the predictions of some rows."""
    return TopK.sorted(top.labels[rows], top.scores[rows])


def scores_at(labels: sp.csr_array, top: TopK, scores_of_labels: Floats) -> sp.csr_array:
    """Return the scores of predicted and of true labels; others are never asked for.

    Parameters
    ----------
    labels : csr_array of shape (n, L)
        True labels.
    top : TopK
    scores_of_labels : (nnz,) floats
        The score of every true label.

    Returns
    -------
    csr_array of shape (n, L)
    """
    width = labels.shape[1]
    places = np.repeat(np.arange(labels.shape[0]), top.k)
    keys = np.r_[entry_rows(labels) * width + labels.indices, places * width + top.labels.ravel()]
    keys, first = np.unique(keys, return_index=True)
    values = np.r_[scores_of_labels, top.scores.ravel()][first]
    entries = (values, (keys // width, keys % width))
    return sp.csr_array(sp.coo_array(entries, shape=labels.shape))
