"""`LinearClassifier`: the trainer and the predictor as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from unmask._messages import named_options
from unmask._typing import (
    BackendLike,
    FeaturesLike,
    Floats,
    Ints,
    LabelsLike,
    MatrixLike,
    Progress,
    PropensityLike,
    Singles,
)
from unmask.arrays import TopK, checks
from unmask.data import Dataset
from unmask.linear import model as models
from unmask.linear.completed import prepared
from unmask.linear.multilabel import FeatureMatrix, MultilabelClassifier, on_threads
from unmask.linear.prediction import predict_top
from unmask.linear.problem import COMPLETED, LIKELIHOOD, FitLog, Recipe, weigh
from unmask.linear.sample_weights import repeated_rows, row_weights, with_row_weights
from unmask.linear.solving import solve
from unmask.weights import Weights

_DEFAULT = Recipe()


def _has_probabilities(estimator: LinearClassifier) -> bool:
    return estimator.loss in ("logistic", "softmax")


class _Task(NamedTuple):
    """What is trained on: rows, their labels, how, and what the labels count."""

    features: FeatureMatrix
    labels: sp.csr_array | Dataset
    recipe: Recipe
    propensity: PropensityLike | None
    weights: Weights | None


class LinearClassifier(MultilabelClassifier):
    """Linear multilabel classifier with any loss and any correction for missing labels.

    One-vs-all (½‖w_j‖² + C Σ_i loss) or pick-all-labels (one softmax).

    Parameters
    ----------
    loss, reduction, normalized, C, l2, bias, tol, max_iter, prune_below
        As in `Recipe`, which says their defaults.
    correction : str or Weights, default "vanilla"
        A name in `unmask.weights.CORRECTIONS`; with the loss logistic also "completed"
        (`completion`) or "likelihood" (of observed labels, see `Recipe`); or the weights of the
        training rows.
    propensity : (L,) numbers in (0, 1], or sparse (n, L), optional
        Needed by every correction but "vanilla".
    n_jobs : int, optional
        Threads; None for the package's setting, −1 for all cores. Results do not depend on it.
    backend : optional
        Where blocks of labels are trained: None for these threads (or what
        `joblib.parallel_config` says), "local:4" for worker processes, a Dask scheduler's address
        or client (`unmask.parallel`). Results do not depend on it either.
    warm_start : bool, default False
        Whether to start from the last fit, where its shape still fits.
    verbose : bool, default False
        Whether to show labels per second and time left: a bar if tqdm is installed (in notebooks
        too), else lines on the error stream.
    output : {"indicator", "labels"}, optional
        What `predict` returns: 0 and 1, or lists of names. By default what `fit` was given.

    Attributes
    ----------
    model_ : LinearModel
        The trained model.
    coef_, intercept_ : (L, d) and (L,) float32
        Its weights and biases.
    objective_, n_iter_ : (L,) floats and integers
        Per label.
    classes_ : (L,) array
        The names of the labels; their numbers where they have no names.

    Raises
    ------
    ValueError
        By `fit`, if parameters or data are out of range or do not fit each other.

    References
    ----------
    Babbar & Schölkopf, *DiSMEC* (2017), for the setting; Schultheis & Babbar (2021) for the
    corrections; docs/decisions/0004 for the solver.

    Examples
    --------
    >>> from unmask.linear import LinearClassifier
    >>> X, Y = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [[1, 0], [0, 1], [1, 1]]
    >>> classifier = LinearClassifier(loss="logistic", C=10).fit(X, Y)
    >>> classifier.predict([[1.0, 0.0]])
    array([[1, 0]])
    >>> classifier.predict_top([[0.0, 2.0]], k=1).labels
    array([[1]], dtype=int32)

    Labels by name:

    >>> classifier.fit(X, [["law"], ["art"], ["law", "art"]]).classes_
    array(['art', 'law'], dtype=object)
    >>> classifier.predict([[1.0, 0.0]])
    [['law']]
    >>> classifier.predict_top([[1.0, 0.0]], k=1).of_row(0)[0][0]
    'law'
    """

    model_: models.LinearModel

    @named_options
    def __init__(  # noqa: D107 - the class says it
        self,
        loss: str = _DEFAULT.loss,
        *,
        reduction: str = _DEFAULT.reduction,
        correction: str | Weights | None = _DEFAULT.correction,
        propensity: PropensityLike | None = None,
        normalized: bool = _DEFAULT.normalized,
        C: float = _DEFAULT.C,
        l2: float | None = _DEFAULT.l2,
        bias: str = _DEFAULT.bias,
        tol: float = _DEFAULT.tol,
        max_iter: int = _DEFAULT.max_iter,
        prune_below: float = _DEFAULT.prune_below,
        n_jobs: int | None = None,
        backend: BackendLike = None,
        warm_start: bool = False,
        verbose: bool = False,
        output: str | None = None,
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
        self.output = output

    def fit(
        self,
        X: FeaturesLike,
        y: LabelsLike | Dataset | Iterable[Iterable[str]],
        sample_weight: ArrayLike | None = None,
        propensity: PropensityLike | None = None,
        judgements: MatrixLike | None = None,
    ) -> Self:
        """Train on features and observed labels.

        Parameters
        ----------
        X : (n, d) matrix
            Features, dense or sparse; a data frame's columns are known by name from then on.
        y : (n, L) matrix of 0 and 1, or n lists of names
            Observed labels: dense, sparse, a data frame of 0 and 1 whose columns are the names, or
            lists, tuples or sets of names (a string array has one name per row); or a data set,
            whose names and judgements come with its labels.
        sample_weight : (n,) numbers of 0 or more, optional
            How much each row counts: 0 leaves it out, and other whole numbers repeat it. Numbers
            that are not whole store a weight for every pair of a row and a label, except with the
            corrections completed and likelihood.
        propensity : (L,) numbers in (0, 1], or sparse (n, L), optional
            Instead of the parameter of the estimator; can be routed
            (`set_fit_request(propensity=True)`).
        judgements : (n, L) matrix of `data.Judgement` values, optional
            Pairs that somebody verified (1 or −1) or that do not count (2), in place of those of a
            data set; can be routed as well.

        Returns
        -------
        LinearClassifier
            Itself.
        """
        features, targets = self._training_data(X, y)
        weights = self.correction if isinstance(self.correction, Weights) else None
        if weights is not None and judgements is not None:
            raise ValueError(
                "weights in place of a correction already say what every pair counts; make them of "
                "the judgements (`unmask.weights` takes a data set), and leave the judgements out."
            )
        task = _Task(
            features,
            targets.judged(judgements),
            self._recipe(Recipe, **({} if weights is None else {"correction": None})),
            self.propensity if propensity is None else propensity,
            weights,
        )
        by_row = row_weights(sample_weight, targets.labels.shape[0])
        if by_row is not None:
            task, by_row = _weighted(task, by_row)
        with on_threads(self.n_jobs):
            model, log = _train(
                task,
                by_row,
                first=self._first(features.shape[1], targets.labels.shape[1]),
                progress=self._progress(),
                backend=self.backend,
            )
        self.model_ = replace(model, label_names=targets.names)
        self._keep(targets)
        self.objective_, self.n_iter_ = log.objective, log.iterations
        return self

    def _first(self, n_features: int, n_labels: int) -> models.LinearModel | None:
        last = getattr(self, "model_", None) if self.warm_start else None
        fits = last is not None and (last.n_features, last.n_labels) == (n_features, n_labels)
        return last if fits else None

    @property
    def coef_(self) -> models.WeightMatrix:
        """Weights (L × d), sparse if pruned."""
        return self.model_.weights

    @property
    def intercept_(self) -> Singles:
        """Biases (L,)."""
        return self.model_.bias

    def decision_function(self, X: FeaturesLike) -> Singles:
        """All scores.

        Parameters
        ----------
        X : (n, d) matrix
            Features, dense or sparse.

        Returns
        -------
        (n, L) float32
        """
        rows = self._features(X)
        return models.scores(self.model_, rows)

    def predict(self, X: FeaturesLike) -> Any:
        """Labels more likely than not; with softmax, the most likely one.

        Parameters
        ----------
        X : (n, d) matrix
            Features, dense or sparse.

        Returns
        -------
        (n, L) integers, or n lists of names
            What `fit` was given: 0 and 1 as an array, a sparse matrix or a data frame, or lists of
            names; or what the parameter `output` says.
        """
        scores = self.decision_function(X)
        if self.loss == "softmax":
            chosen = scores.argmax(axis=1)[:, None] == np.arange(scores.shape[1])
        else:
            chosen = scores > (0.5 if self.loss == "squared_error" else 0.0)
        return self._shown(chosen)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: FeaturesLike) -> Singles:
        """P(label | row); logistic and softmax only.

        Parameters
        ----------
        X : (n, d) matrix
            Features, dense or sparse.

        Returns
        -------
        (n, L) float32
        """
        rows = self._features(X)
        return models.probabilities(self.model_, rows)

    def predict_top(self, X: FeaturesLike, k: int, *, rank_by: str = "score") -> TopK:
        """The k best labels of every row, without the n × L scores; see `linear.predict_top`.

        Parameters
        ----------
        X : (n, d) matrix
            Features, dense or sparse.
        k : int
            Labels per row; all of them where there are fewer.
        rank_by : {"score", "probability/propensity"}, default "score"

        Returns
        -------
        TopK
        """
        rows = self._features(X)
        with on_threads(self.n_jobs if self.backend is None else None):
            return predict_top(
                self.model_,
                rows,
                k,
                rank_by=rank_by,
                propensity=self.propensity,
                backend=self.backend,
            )


def _train(
    task: _Task,
    by_row: Floats | None,
    *,
    first: models.LinearModel | None,
    progress: Progress | None,
    backend: BackendLike,
) -> tuple[models.LinearModel, FitLog]:
    """`linear.train`, of rows that count as often as `by_row` says."""
    p = None if task.weights is not None else task.propensity
    problem = prepared(task.features, task.labels, task.recipe, p, task.weights, backend, by_row)
    return solve(problem, first=first, progress=progress, backend=backend)


def _weighted(task: _Task, by_row: Floats) -> tuple[_Task, Floats | None]:
    """Rows that count as often as `by_row` says, and what is left for the solver to count them by.

    Rows are left out or repeated where that says it all; else pairs get weights, or the solver
    counts rows.
    """
    rows = repeated_rows(by_row)
    if rows is not None:
        return _of_rows(task, rows), None
    kept = np.flatnonzero(by_row)
    task, by_row = _of_rows(task, kept), by_row[kept]
    _, labels, recipe, propensity, weights = task
    if weights is None and recipe.correction in (COMPLETED, LIKELIHOOD):
        return task, by_row
    if weights is None:
        weights = weigh(labels, recipe, propensity)
    weighted = task._replace(
        weights=with_row_weights(weights, by_row, reduction=recipe.reduction),
        recipe=replace(recipe, correction=None, C=recipe.cost(by_row.sum()), l2=None),
    )
    return weighted, None


def _of_rows(task: _Task, rows: Ints) -> _Task:
    features, labels, recipe, propensity, weights = task
    matrix = labels.labels if isinstance(labels, Dataset) else labels
    if sp.issparse(propensity):
        checked = checks.matrix(propensity, name="propensities", column="label")
        checks.same_shape(checked, matrix, "propensities", "labels")
        propensity = checked[rows]
    if weights is not None:
        checks.same_shape(weights.pos, matrix, "weights", "labels")
        weights = weights[rows]
    taken = labels.take(rows) if isinstance(labels, Dataset) else labels[rows]
    return _Task(features[rows], taken, recipe, propensity, weights)
