"""Classifiers of several labels per row, as scikit-learn has them: a base, and one per kind.

The base reads what people train on (indicators, lists of names, data frames, data sets) and gives
predictions back in the same form; it knows threads, progress and tags. A classifier of another kind
of model says in `fit` how it is trained, in `_top` which labels are best, and its scores.

Sample weights: whole numbers repeat rows, any others become part of the label weights.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from unmask import _kernels
from unmask._messages import named_options
from unmask._names import Strings, refuse_repeated
from unmask._typing import (
    Array,
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
from unmask.arrays import checks
from unmask.data import Dataset
from unmask.data.tables import is_tag_lists, label_matrix
from unmask.models import linear, tree, tree_search
from unmask.models.problem import COMPLETED, LIKELIHOOD, Recipe, weigh
from unmask.models.training import BaseRecipe, row_weights
from unmask.models.tree_model import TreeModel
from unmask.predictions import TopK
from unmask.weights import Weights

if TYPE_CHECKING:
    from sklearn.utils import Tags

R = TypeVar("R", bound=BaseRecipe)
FeatureMatrix: TypeAlias = "Array | sp.csr_array"
"""Features that were checked: dense or CSR, of float32 or float64."""
Kind = Literal["dense", "sparse", "labels", "frame"]
OUTPUTS = ("indicator", "labels")
MOST_PAIRS = 1 << 25
"""Pairs of a row and a label that are stored at most, 0.7 GB."""
_LINEAR, _TREE = Recipe(), tree.TreeRecipe()


class MultilabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn classifier of several labels per row, whose features may be sparse."""

    model_: Any
    propensity: PropensityLike | None
    n_jobs: int | None
    backend: BackendLike
    output: str | None
    verbose: bool
    _targets: Targets

    def predict(self, X: FeaturesLike) -> Any:
        """Return the labels that are more likely than not; with softmax, the most likely one.

        Parameters
        ----------
        X : (n, d) matrix
            Features, dense or sparse.

        Returns
        -------
        (n, L) integers, or n lists of names
            As `fit` was given them: 0 and 1 as an array, a sparse matrix or a data frame, or lists
            of names; or as the parameter `output` says.
        """
        return shown(self._chosen(self.decision_function(X)), self._targets, self.output)

    def predict_top(self, X: FeaturesLike, k: int, *, rank_by: str = "score") -> TopK:
        """Return the k best labels of every row, without the n × L scores.

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
        return self._top(self._features(X), k, rank_by)

    def decision_function(self, X: FeaturesLike) -> Singles:
        """Return all scores, dense."""
        raise NotImplementedError

    def _top(self, rows: FeatureMatrix, k: int, rank_by: str) -> TopK:
        raise NotImplementedError

    def _chosen(self, scores: Singles) -> Array:
        return scores > 0

    def _training_data(self, X: FeaturesLike, y: object) -> tuple[FeatureMatrix, Targets]:
        """Return what to train on; prediction wants features of this width, with these names."""
        features = validate_data(
            self, _checked(X), accept_sparse="csr", dtype=[np.float32, np.float64]
        )
        targets = read_targets(y)
        checks.same_rows(features, targets.labels, "features", "labels")
        return features, targets

    def _recipe(self, kind: type[R]) -> R:
        """Return the recipe of these parameters."""
        return kind(**{field.name: getattr(self, field.name) for field in fields(kind)})

    def _progress(self) -> Progress | None:
        return reporter() if self.verbose else None

    def _keep(self, model: linear.LinearModel | TreeModel, targets: Targets) -> None:
        """Keep the model, the names of labels, and the form they came in."""
        self.model_ = replace(model, label_names=targets.names)
        self.classes_ = targets.classes
        self._targets = replace(targets, labels=targets.labels[:0], judgements=None)

    def _features(self, X: FeaturesLike) -> FeatureMatrix:
        """Return features to predict from, as training had them."""
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


def _has_probabilities(estimator: LinearClassifier) -> bool:
    return estimator.loss in ("logistic", "softmax")


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

    model_: linear.LinearModel

    @named_options
    def __init__(  # noqa: D107 - the class says it
        self,
        loss: str = _LINEAR.loss,
        *,
        reduction: str = _LINEAR.reduction,
        correction: str | Weights | None = _LINEAR.correction,
        propensity: PropensityLike | None = None,
        normalized: bool = _LINEAR.normalized,
        C: float = _LINEAR.C,
        l2: float | None = _LINEAR.l2,
        bias: str = _LINEAR.bias,
        tol: float = _LINEAR.tol,
        max_iter: int = _LINEAR.max_iter,
        prune_below: float = _LINEAR.prune_below,
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
        task = Weighted(
            features,
            targets.judged(judgements),
            self._recipe(Recipe),
            self.propensity if propensity is None else propensity,
            weights,
            row_weights(sample_weight, targets.labels.shape[0]),
        ).settled
        p = None if task.weights is not None else task.propensity
        with on_threads(self.n_jobs):
            problem = linear.prepared(
                task.features, task.labels, task.recipe, p, task.weights, self.backend, task.counts
            )
            model, log = linear.solve(
                problem,
                first=self._first(features.shape[1], targets.labels.shape[1]),
                progress=self._progress(),
                backend=self.backend,
            )
        self._keep(model, targets)
        self.objective_, self.n_iter_ = log.objective, log.iterations
        return self

    def _recipe(self, kind: type[R]) -> R:
        own = {field.name: getattr(self, field.name) for field in fields(kind)}
        if isinstance(self.correction, Weights):
            own["correction"] = None
        return kind(**own)

    def _first(self, n_features: int, n_labels: int) -> linear.LinearModel | None:
        last = getattr(self, "model_", None) if self.warm_start else None
        fits = last is not None and (last.n_features, last.n_labels) == (n_features, n_labels)
        return last if fits else None

    @property
    def coef_(self) -> linear.WeightMatrix:
        """Weights (L × d), sparse if pruned."""
        return self.model_.weights

    @property
    def intercept_(self) -> Singles:
        """Biases (L,)."""
        return self.model_.bias

    def decision_function(self, X: FeaturesLike) -> Singles:
        """Return all scores.

        Parameters
        ----------
        X : (n, d) matrix
            Features, dense or sparse.

        Returns
        -------
        (n, L) float32
        """
        rows = self._features(X)
        return linear.scores(self.model_, rows)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: FeaturesLike) -> Singles:
        """Return P(label | row); logistic and softmax only.

        Parameters
        ----------
        X : (n, d) matrix
            Features, dense or sparse.

        Returns
        -------
        (n, L) float32
        """
        rows = self._features(X)
        return linear.probabilities(self.model_, rows)

    def _chosen(self, scores: Singles) -> Array:
        if self.loss == "softmax":
            return np.asarray(scores.argmax(axis=1)[:, None] == np.arange(scores.shape[1]))
        return np.asarray(scores > (0.5 if self.loss == "squared_error" else 0.0))

    def _top(self, rows: FeatureMatrix, k: int, rank_by: str) -> TopK:
        with on_threads(self.n_jobs if self.backend is None else None):
            return linear.predict_top(
                self.model_,
                rows,
                k,
                rank_by=rank_by,
                propensity=self.propensity,
                backend=self.backend,
            )


class LabelTree(MultilabelClassifier):
    """Multilabel classifier for very many labels: balanced trees of linear classifiers.

    Training takes time in proportion to rows × log(labels), not rows × labels; prediction follows
    the most likely paths. Below some 20,000 labels `LinearClassifier` is as fast and better.

    Parameters
    ----------
    loss, correction, n_trees, arity, leaf, C, bias, tol, forcing, max_iter, prune_below, seed
        As in `tree.TreeRecipe`, which says their defaults.
    propensity : (L,) numbers in (0, 1], or sparse (n, L), optional
        Needed by the correction "counts" (also called "unbiased"), and for ranking by
        probability/propensity, there one per label.
    beam : int or None, default 20
        Leaf nodes that a row keeps when labels are predicted; None for the exact best.
    n_jobs : int, optional
        Threads; None for the package's setting, −1 for all cores. Results do not depend on it.
    backend : optional
        Where parts of trees are trained (`unmask.parallel`). Results do not depend on it either.
    verbose : bool, default False
        Whether to show progress.
    output : {"indicator", "labels"}, optional
        What `predict` returns: 0 and 1, or lists of names. By default what `fit` was given.

    Attributes
    ----------
    model_ : TreeModel
        The trained model.
    n_iter_ : int
        Iterations of the node that took most.
    classes_ : (L,) array
        The names of the labels; their numbers where they have no names.

    Raises
    ------
    ValueError
        By `fit`, if parameters or data are out of range or do not fit each other.

    References
    ----------
    Prabhu et al., *Parabel* (2018); Khandagale et al., *Bonsai* (2020); Wydmuch et al.,
    *Propensity-scored probabilistic label trees* (2021).

    Examples
    --------
    >>> from unmask import LabelTree
    >>> X, Y = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [["law"], ["art"], ["law", "art"]]
    >>> classifier = LabelTree(n_trees=1, C=10).fit(X, Y)
    >>> classifier.predict_top([[1.0, 0.0]], k=1).of_row(0)[0][0]
    'law'
    """

    model_: TreeModel

    @named_options
    def __init__(  # noqa: D107 - the class says it
        self,
        loss: str | None = None,
        *,
        correction: str = _TREE.correction,
        propensity: PropensityLike | None = None,
        n_trees: int = _TREE.n_trees,
        arity: int = _TREE.arity,
        leaf: int = _TREE.leaf,
        C: float = _TREE.C,
        bias: str = _TREE.bias,
        tol: float | None = _TREE.tol,
        forcing: float = _TREE.forcing,
        max_iter: int = _TREE.max_iter,
        prune_below: float = _TREE.prune_below,
        seed: int = _TREE.seed,
        beam: int | None = tree_search.BEAM,
        n_jobs: int | None = None,
        backend: BackendLike = None,
        verbose: bool = False,
        output: str | None = None,
    ) -> None:
        self.loss = loss
        self.correction = correction
        self.propensity = propensity
        self.n_trees = n_trees
        self.arity = arity
        self.leaf = leaf
        self.C = C
        self.bias = bias
        self.tol = tol
        self.forcing = forcing
        self.max_iter = max_iter
        self.prune_below = prune_below
        self.seed = seed
        self.beam = beam
        self.n_jobs = n_jobs
        self.backend = backend
        self.verbose = verbose
        self.output = output

    def fit(
        self,
        X: FeaturesLike,
        y: LabelsLike | Iterable[Iterable[str]],
        propensity: PropensityLike | None = None,
    ) -> Self:
        """Train on features and observed labels.

        Parameters
        ----------
        X : (n, d) matrix
            Features, dense or sparse; a data frame's columns are known by name from then on.
        y : (n, L) matrix of 0 and 1, or n lists of names
            Observed labels: dense, sparse, a data frame of 0 and 1 whose columns are the names, or
            lists, tuples or sets of names (a string array has one name per row).
        propensity : (L,) numbers in (0, 1], or sparse (n, L), optional
            Instead of the parameter of the estimator; can be routed
            (`set_fit_request(propensity=True)`).

        Returns
        -------
        LabelTree
            Itself.
        """
        features, targets = self._training_data(X, y)
        with on_threads(self.n_jobs):
            model, self.n_iter_ = tree.train_counted(
                features,
                targets.labels,
                self._recipe(tree.TreeRecipe),
                self.propensity if propensity is None else propensity,
                self._progress(),
                self.backend,
            )
        self._keep(model, targets)
        return self

    def decision_function(self, X: FeaturesLike) -> Singles:
        """Return the exact scores of all labels, dense: for small label sets.

        Parameters
        ----------
        X : (n, d) matrix
            Features, dense or sparse.

        Returns
        -------
        (n, L) float32
            ln P(label | row) − ln ½, as the loss has it: above 0 a label is predicted.
        """
        rows, n_labels = self._features(X), self.model_.n_labels
        with on_threads(self.n_jobs):
            top = tree_search.predict_top(self.model_, rows, n_labels, beam=None)
        scores = np.empty(top.labels.shape, dtype=np.float32)
        np.put_along_axis(scores, top.labels, top.scores, axis=1)
        return scores - np.float32(np.log(0.5))

    def _top(self, rows: FeatureMatrix, k: int, rank_by: str) -> TopK:
        with on_threads(self.n_jobs):
            return tree_search.predict_top(
                self.model_, rows, k, rank_by=rank_by, propensity=self.propensity, beam=self.beam
            )


class Weighted(NamedTuple):
    """Training rows, what their labels count, and how much the rows count."""

    features: FeatureMatrix
    labels: sp.csr_array | Dataset
    recipe: Recipe
    propensity: PropensityLike | None
    weights: Weights | None
    counts: Floats | None

    @property
    def settled(self) -> Weighted:
        """The training whose `counts`, if any are left, the solver can count rows by.

        Rows are left out or repeated where that says it all; else pairs of a row and a label get
        weights, but for corrections that need features.
        """
        if self.counts is None:
            return self
        rows = repeated_rows(self.counts)
        if rows is not None:
            return self._of_rows(rows)._replace(counts=None)
        part = self._of_rows(np.flatnonzero(self.counts))
        recipe, weights, counts = part.recipe, part.weights, part.counts
        if counts is None or (weights is None and recipe.correction in (COMPLETED, LIKELIHOOD)):
            return part
        if weights is None:
            weights = weigh(part.labels, recipe, part.propensity)
        return part._replace(
            weights=with_row_weights(weights, counts, reduction=recipe.reduction),
            recipe=replace(recipe, correction=None, C=recipe.cost(counts.sum()), l2=None),
            counts=None,
        )

    def _of_rows(self, rows: Ints) -> Weighted:
        labels, p, weights = self.labels, self.propensity, self.weights
        matrix = labels.labels if isinstance(labels, Dataset) else labels
        if sp.issparse(p):
            p = checks.matrix(p, name="propensities", column="label")
            checks.same_shape(p, matrix, "propensities", "labels")
            p = p[rows]
        if weights is not None:
            checks.same_shape(weights.pos, matrix, "weights", "labels")
            weights = weights[rows]
        taken = labels.take(rows) if isinstance(labels, Dataset) else labels[rows]
        counts = None if self.counts is None else self.counts[rows]
        return Weighted(self.features[rows], taken, self.recipe, p, weights, counts)


def repeated_rows(weights: Floats) -> Ints | None:
    """Row numbers, each as often as its weight says; None if some weight is no whole number.

    A row of weight 3 counts as three rows, one of weight 0 not at all: exactly the weighted
    objective.
    """
    many = weights.sum() > 100 * max(weights.size, 1000)
    if many or (weights != np.round(weights)).any():
        return None
    return np.repeat(np.arange(weights.size), weights.astype(np.int64))


def with_row_weights(labels: Weights, rows: Floats, *, reduction: str) -> Weights:
    """Return label weights whose loss counts every row as much as its weight says.

    A softmax looks at observed labels alone, whose weights are multiplied. One-vs-all counts a
    label that is not observed once; for it to count otherwise, every pair of a row and a label has
    to be stored.
    """
    if reduction == "pal":
        pos = labels.pos.copy()
        pos.data *= np.repeat(rows, np.diff(pos.indptr))
        return Weights(pos, labels.cut)
    n, n_labels = labels.pos.shape
    if n * n_labels > MOST_PAIRS:
        raise ValueError(
            f"sample weights that are no whole numbers store {n:,} × {n_labels:,} numbers, more "
            f"than {MOST_PAIRS:,}; scale and round them: a row of weight 3 counts as three rows."
        )
    scale = rows[:, None]
    pos, cut = scale * labels.pos.toarray(), 1 - scale * (1 - labels.cut.toarray())
    indices = np.tile(np.arange(n_labels, dtype=np.int32), n)
    indptr = np.arange(n + 1) * n_labels
    return Weights(
        *(sp.csr_array((each.ravel(), indices, indptr), shape=(n, n_labels)) for each in (pos, cut))
    )


@dataclass(frozen=True)
class Targets:
    """Observed labels of training rows.

    Parameters
    ----------
    labels : csr_array of shape (n, L)
    names : tuple of L str, or None
    kind : {"dense", "sparse", "labels", "frame"}
        What they were given as.
    frame : type or None
        The class of a data frame.
    judgements : csr_array of shape (n, L), or None
        Of a data set.
    """

    labels: sp.csr_array
    names: tuple[str, ...] | None
    kind: Kind
    frame: type | None = None
    judgements: sp.csr_array | None = None

    def judged(self, judgements: MatrixLike | None) -> sp.csr_array | Dataset:
        """Return the labels, with judgements of their pairs if there are any (own, or these)."""
        own = self.judgements if judgements is None else judgements
        return self.labels if own is None else Dataset(None, self.labels, judgements=own)

    @property
    def classes(self) -> Ints | np.ndarray[Any, Any]:
        """Names, or numbers where there are none."""
        if self.names is None:
            return np.arange(self.labels.shape[1])
        return np.array(self.names, dtype=object)


def read_targets(values: object) -> Targets:
    """Return labels in any of the forms above; ValueError if they are none of them."""
    if values is None:
        raise ValueError(
            "training requires y to be passed, but the target y is None; give a 0/1 label matrix "
            "or lists of names."
        )
    if isinstance(values, Dataset):
        matrix = checks.labels(values.labels)
        return Targets(matrix, values.label_names, "sparse", judgements=values.judgements)
    if sp.issparse(values):
        return Targets(checks.labels(values), None, "sparse")
    if hasattr(values, "columns") and hasattr(values, "to_numpy"):
        names = tuple(str(name) for name in values.columns)
        refuse_repeated(Strings.of(names), "columns of labels")
        return Targets(checks.labels(values.to_numpy()), names, "frame", type(values))
    rows = _name_lists(values)
    if rows is not None:
        matrix, names = label_matrix(rows)
        return Targets(matrix, names, "labels")
    try:
        return Targets(checks.labels(values), None, "dense")
    except ValueError as error:
        try:
            with np.errstate(invalid="ignore"):  # NaN is no whole number
                kind = type_of_target(values)
        except (ValueError, TypeError):
            raise error from None
        raise ValueError(
            f"{error} Unknown label type: {kind}. Only binary classification is supported. Give a "
            "column of 0 and 1 for every class, or lists of names."
        ) from None


def _name_lists(values: Any) -> Sequence[object] | None:
    """Return the rows as lists of names; None if these are no names."""
    if hasattr(values, "tolist") and getattr(values, "ndim", None) in (1, 2):
        if values.ndim == 2 and values.dtype.kind in "US":
            return [[name for name in row if name] for row in values.tolist()]
        listed = values.tolist() if values.ndim == 1 else None
    elif hasattr(values, "to_list"):  # a polars column
        listed = values.to_list()
    else:
        listed = values
    if listed is not None and is_tag_lists(listed):
        return list(listed)
    if isinstance(listed, list | tuple) and listed and all(isinstance(v, str) for v in listed):
        return [[name] for name in listed]
    return None


def shown(chosen: np.ndarray[Any, Any], targets: Targets, output: str | None) -> Any:
    """Predicted labels (n × L, 0 or 1) as they were given for training, or as `output` says."""
    if output is not None:
        checks.one_of(output, OUTPUTS, "output")
    kind = {None: targets.kind, "labels": "labels"}.get(output, "dense")
    if output == "indicator" and targets.kind in ("sparse", "frame"):
        kind = targets.kind
    indicator = chosen.astype(np.int64)
    if kind == "labels":
        classes = targets.classes
        return [[classes[j] for j in np.flatnonzero(row).tolist()] for row in chosen]
    if kind == "frame" and targets.frame is not None:
        columns = targets.names or ()
        return targets.frame({name: indicator[:, j] for j, name in enumerate(columns)})
    return sp.csr_array(indicator) if kind == "sparse" else indicator


def _checked(X: MatrixLike) -> MatrixLike:
    """Check features before scikit-learn reads them: it follows indices and drops masks."""
    if sp.issparse(X):
        return checks.matrix(X, name="features", column="feature")
    if isinstance(X, np.ma.MaskedArray) or checks.is_tensor(X):
        return checks.numbers(X, "features")
    return X


def _in_order(estimator: BaseEstimator, X: Any) -> Any:
    """Return a data frame with the columns in the order of training; others as they are."""
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
    """Return a bar by tqdm, which knows terminals and notebooks; without it, lines of text."""
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
