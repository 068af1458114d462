"""What studies on real data share: a data set, a linear model trained on it, its top labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask import data, linear
from unmask._typing import PropensityLike
from unmask.predictions import TopK


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


def split_of(folder: Path, column: int | None = None) -> Split:
    """The train and test part of a folder.

    Whole numbers are taken for word counts and become tf-idf, fitted on the training rows.

    Parameters
    ----------
    folder : Path
    column : int, optional
        Which of the official splits in the folder.

    Returns
    -------
    Split
    """
    train, test = (data.read(folder, part=part, column=column) for part in ("train", "test"))
    return of_datasets(train, test)


def planted(n: int, seed: int) -> Split:
    """Built-in data, for when there are no files: the last fifth of the rows is the test part."""
    rows = data.synthetic.planted(n, n_labels=100, seed=seed)
    cut = n - n // 5
    return of_datasets(rows.take(slice(0, cut)), rows.take(slice(cut, n)))


def of_datasets(train: data.Dataset, test: data.Dataset) -> Split:
    """Two data sets with features and labels as one `Split`."""
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
    """The k best labels of the test rows, by squared hinge, as DiSMEC does.

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
