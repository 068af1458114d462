"""What classifiers of several labels share with scikit-learn: features in, tags, threads, progress.

`LinearClassifier` and `tree.LabelTree` say how they train and predict; the rest is here.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from unmask import _kernels, _validation
from unmask._typing import Array, FeaturesLike, MatrixLike, Progress

if TYPE_CHECKING:
    from sklearn.utils import Tags


FeatureMatrix: TypeAlias = "Array | sp.csr_array"
"""Features that were checked: dense or CSR, of float32 or float64."""


class MultilabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn classifier of several labels per row, whose features may be sparse."""

    def _training_features(self, X: FeaturesLike) -> FeatureMatrix:
        """Features to train on; their width and names are those of prediction from then on."""
        return validate_data(self, _checked(X), accept_sparse="csr", dtype=[np.float32, np.float64])

    def _features(self, X: FeaturesLike) -> FeatureMatrix:
        """Features to predict from, as training had them."""
        check_is_fitted(self, "model_")
        return validate_data(
            self,
            _in_order(self, _checked(X)),
            accept_sparse="csr",
            dtype=[np.float32, np.float64],
            reset=False,
        )

    def __sklearn_tags__(self) -> Tags:
        """Multilabel only; sparse features welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags


def _checked(X: MatrixLike) -> MatrixLike:
    """Features checked before scikit-learn reads them: it follows indices and drops masks."""
    if sp.issparse(X):
        return _validation.matrix(X, name="features", column="feature")
    if isinstance(X, np.ma.MaskedArray) or _validation.is_tensor(X):
        return _validation.numbers(X, "features")
    return X


def _in_order(estimator: BaseEstimator, X: Any) -> Any:
    """A data frame with the columns in the order of those of training; others as they are."""
    names = getattr(estimator, "feature_names_in_", None)
    columns = getattr(X, "columns", None)
    if names is None or columns is None:
        return X
    same = len(columns) == len(names) and set(columns) == set(names)
    return X[list(names)] if same and list(columns) != list(names) else X


def on_threads(n_jobs: int | None) -> AbstractContextManager[None]:
    """As many threads as `n_jobs` says, inside the block; None leaves the package's setting."""
    if n_jobs == -1:
        return _kernels.using_threads(len(os.sched_getaffinity(0)))
    return _kernels.using_threads(
        None if n_jobs is None else _validation.positive_int(n_jobs, "n_jobs")
    )


def reporter() -> Progress:
    """A bar by tqdm, which knows terminals and notebooks; without it, lines on standard error."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _lines()
    bar = tqdm(unit=" labels")

    def report(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done >= total:
            bar.close()

    return report


def _lines() -> Progress:
    start = time.monotonic()

    def report(done: int, total: int) -> None:
        rate = done / max(time.monotonic() - start, 1e-9)
        left = (total - done) / rate if rate else float("inf")
        sys.stderr.write(f"{done} of {total} labels, {rate:.0f} labels/s, {left:.0f} s left\n")

    return report
