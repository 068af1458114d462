"""`LinearClassifier`: the trainer and the predictor as a scikit-learn estimator."""

from __future__ import annotations

import os
import sys
import time
from contextlib import AbstractContextManager
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from unmask import _kernels, _validation
from unmask.linear import model as models
from unmask.linear.prediction import predict_top
from unmask.linear.recipe import Recipe
from unmask.linear.training import train
from unmask.predictions import TopK
from unmask.weights import Weights

Singles = NDArray[np.float32]


def _has_probabilities(estimator: LinearClassifier) -> bool:
    return estimator.loss in ("logistic", "softmax")


class LinearClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear multilabel classifier with any loss and any correction for missing labels.

    One-vs-all (½‖w_j‖² + C Σ_i loss) or pick-all-labels (one softmax). Babbar & Schölkopf, *DiSMEC*
    (2017), for the setting; Schultheis & Babbar (2021) for the corrections; docs/decisions/0004 for
    the solver.

    Parameters
    ----------
    loss : "squared_hinge", "logistic" or "squared_error" (one-vs-all); "softmax" (pick-all-labels).
    reduction : "ova" (one problem per label) or "pal" (pick all labels).
    correction : a name in `unmask.weights.CORRECTIONS`, or a `Weights` of the training rows.
    propensity : one number in (0, 1] per label; needed by every correction but "vanilla".
    normalized : whether a row's loss is divided among its labels.
    C : as in liblinear; `l2` instead sets C = 1/(l2·n), that is mean loss + l2/2 ‖w‖².
    bias : "regularized" (a feature that is always 1), "free" (not in the penalty), "none".
    tol : stop when the next step promises less than this share of the objective.
    max_iter : Newton iterations per label.
    prune_below : drop weights smaller than this and keep the model sparse; 0.01 is DiSMEC's choice.
    n_jobs : threads; None for the package's setting, −1 for all cores. Results do not depend on it.
    backend : where blocks of labels are trained: None for these threads (or what
        `joblib.parallel_config` says), "local:4" for worker processes, a Dask scheduler's address
        or client (`unmask.parallel`). Results do not depend on it either.
    warm_start : start from the last fit, where its shape still fits.
    verbose : report labels per second and time left on the error stream.

    Attributes
    ----------
    model_ : the trained `LinearModel`; `coef_`, `intercept_`: its weights and biases.
    objective_, n_iter_ : per label.  classes_ : the label numbers.

    Examples
    --------
    >>> from unmask.linear import LinearClassifier
    >>> X, Y = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [[1, 0], [0, 1], [1, 1]]
    >>> classifier = LinearClassifier(loss="logistic", C=10).fit(X, Y)
    >>> classifier.predict([[1.0, 0.0]])
    array([[1, 0]])
    >>> classifier.predict_top([[0.0, 2.0]], k=1).labels
    array([[1]], dtype=int32)
    """

    def __init__(  # noqa: D107 - the class says it
        self,
        loss: str = "squared_hinge",
        *,
        reduction: str = "ova",
        correction: str | Weights = "vanilla",
        propensity: Any = None,
        normalized: bool = False,
        C: float = 1.0,
        l2: float | None = None,
        bias: str = "regularized",
        tol: float = 4e-4,
        max_iter: int = 100,
        prune_below: float = 0.0,
        n_jobs: int | None = None,
        backend: Any = None,
        warm_start: bool = False,
        verbose: bool = False,
    ) -> None:
        self.loss = loss
        self.reduction = reduction
        self.correction = correction
        self.propensity = propensity
        self.normalized = normalized
        self.C = C
        self.l2 = l2
        self.bias = bias
        self.tol = tol
        self.max_iter = max_iter
        self.prune_below = prune_below
        self.n_jobs = n_jobs
        self.backend = backend
        self.warm_start = warm_start
        self.verbose = verbose

    def fit(self, X: Any, Y: Any) -> Self:
        """Train on features X (n × d) and observed labels Y (n × L, 0/1), each dense or sparse."""
        given = validate_data(self, _vetted(X), accept_sparse="csr", dtype=[np.float32, np.float64])
        labels = _validation.labels(_label_matrix(Y))
        weights = self.correction if isinstance(self.correction, Weights) else None
        recipe = Recipe(
            loss=self.loss,
            reduction=self.reduction,
            correction="given" if isinstance(self.correction, Weights) else self.correction,
            normalized=self.normalized,
            C=self.C,
            l2=self.l2,
            bias=self.bias,
            tol=self.tol,
            max_iter=self.max_iter,
            prune_below=self.prune_below,
        )
        with _on_threads(self.n_jobs):
            self.model_, course = train(
                given,
                labels,
                recipe,
                propensity=self.propensity,
                weights=weights,
                first=self._first(given.shape[1], labels.shape[1]),
                progress=_reporter() if self.verbose else None,
                backend=self.backend,
            )
        self.objective_, self.n_iter_ = course.objective, course.iterations
        self.classes_ = np.arange(labels.shape[1])
        self._sparse_labels = sp.issparse(Y)
        return self

    def _first(self, n_features: int, n_labels: int) -> models.LinearModel | None:
        last = getattr(self, "model_", None) if self.warm_start else None
        fits = last is not None and (last.n_features, last.n_labels) == (n_features, n_labels)
        return last if fits else None

    @property
    def coef_(self) -> Any:
        """Weights (L × d), sparse if culled."""
        return self.model_.weights

    @property
    def intercept_(self) -> Singles:
        """Biases (L,)."""
        return self.model_.bias

    def decision_function(self, X: Any) -> Singles:
        """All scores, dense (n × L)."""
        rows = self._rows(X)
        return models.scores(self.model_, rows)

    def predict(self, X: Any) -> Any:
        """0/1 labels (n × L): those more likely than not; with softmax, the most likely one.

        Sparse if the training labels were.
        """
        scores = self.decision_function(X)
        if self.loss == "softmax":
            chosen = scores.argmax(axis=1)[:, None] == np.arange(scores.shape[1])
        else:
            chosen = scores > (0.5 if self.loss == "squared_error" else 0.0)
        found = chosen.astype(np.int64)
        return sp.csr_array(found) if self._sparse_labels else found

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Singles:
        """P(label | row), dense (n × L); logistic and softmax only."""
        rows = self._rows(X)
        return models.probabilities(self.model_, rows)

    def predict_top(self, X: Any, k: int, *, rank_by: str = "score") -> TopK:
        """The k best labels of every row, without the n × L scores; see `linear.predict_top`."""
        rows, how = self._rows(X), {"rank_by": rank_by, "propensity": self.propensity}
        with _on_threads(self.n_jobs if self.backend is None else None):
            return predict_top(self.model_, rows, k, **how, backend=self.backend)

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self, "model_")
        return validate_data(
            self, _vetted(X), accept_sparse="csr", dtype=[np.float32, np.float64], reset=False
        )

    def __sklearn_tags__(self) -> Any:
        """Multilabel only; sparse features welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags


def _label_matrix(Y: Any) -> Any:
    if Y is None:
        raise ValueError(
            "training requires y to be passed, but the target y is None; give a 0/1 label matrix."
        )
    return Y


def _vetted(X: Any) -> Any:
    """Features that scikit-learn can look at: it follows indices and drops masks."""
    if sp.issparse(X):
        return _validation.matrix(X, name="features", column="feature")
    if isinstance(X, np.ma.MaskedArray) or _validation.is_tensor(X):
        return _validation.numbers(X, "features")
    return X


def _on_threads(n_jobs: int | None) -> AbstractContextManager[None]:
    """As many threads as `n_jobs` says, inside the block; None leaves the package's setting."""
    if n_jobs == -1:
        return _kernels.using_threads(len(os.sched_getaffinity(0)))
    return _kernels.using_threads(
        None if n_jobs is None else _validation.positive_int(n_jobs, "n_jobs")
    )


def _reporter() -> Any:
    start = time.monotonic()

    def report(done: int, total: int) -> None:
        rate = done / max(time.monotonic() - start, 1e-9)
        left = (total - done) / rate if rate else float("inf")
        sys.stderr.write(f"{done} of {total} labels, {rate:.0f} labels/s, {left:.0f} s left\n")

    return report
