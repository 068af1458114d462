"""What classifiers of several labels share: data in, labels out, tags, threads, progress.

`LinearClassifier` and `tree.LabelTree` say how they train and predict; the rest is here.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from unmask import _kernels
from unmask._typing import Array, FeaturesLike, MatrixLike, Progress
from unmask.arrays import checks
from unmask.linear.targets import Targets, read_targets, shown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from sklearn.utils import Tags

Recipe = TypeVar("Recipe", bound="DataclassInstance")
FeatureMatrix: TypeAlias = "Array | sp.csr_array"
"""Features that were checked: dense or CSR, of float32 or float64."""


class MultilabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn classifier of several labels per row, whose features may be sparse."""

    output: str | None
    verbose: bool
    _targets: Targets

    def _training_data(self, X: FeaturesLike, y: object) -> tuple[FeatureMatrix, Targets]:
        """What to train on; width and names of features are those of prediction from then on."""
        features = validate_data(
            self, _checked(X), accept_sparse="csr", dtype=[np.float32, np.float64]
        )
        targets = read_targets(y)
        checks.same_rows(features, targets.labels, "features", "labels")
        return features, targets

    def _recipe(self, kind: type[Recipe], **others: Any) -> Recipe:
        """The recipe of these parameters, with `others` in place of the estimator's own."""
        own = {field.name: getattr(self, field.name) for field in fields(kind)}
        return kind(**{**own, **others})

    def _progress(self) -> Progress | None:
        return reporter() if self.verbose else None

    def _keep(self, targets: Targets) -> None:
        """Keep what predictions are shown by: the names of labels, and the form they came in."""
        self.classes_ = targets.classes
        self._targets = replace(targets, labels=targets.labels[:0], judgements=None)

    def _shown(self, chosen: Array) -> Any:
        """Predicted labels (n × L, true or false) as `fit` was given them, or as `output` says."""
        return shown(chosen, self._targets, self.output)

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
        return checks.matrix(X, name="features", column="feature")
    if isinstance(X, np.ma.MaskedArray) or checks.is_tensor(X):
        return checks.numbers(X, "features")
    return X


def _in_order(estimator: BaseEstimator, X: Any) -> Any:
    """A data frame with the columns in the order of those of training; others as they are."""
    names = getattr(estimator, "feature_names_in_", None)
    columns = getattr(X, "columns", None)
    if names is None or columns is None:
        return X
    same = len(columns) == len(names) and set(columns) == set(names)
    return X[list(names)] if same else X


def on_threads(n_jobs: int | None) -> AbstractContextManager[None]:
    """As many threads as `n_jobs` says, inside the block; None leaves the package's setting."""
    if n_jobs == -1:
        return _kernels.using_threads(len(os.sched_getaffinity(0)))
    return _kernels.using_threads(None if n_jobs is None else checks.positive_int(n_jobs, "n_jobs"))


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
