"""`LabelTree`: label trees as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np

from unmask._messages import named_options
from unmask._typing import BackendLike, FeaturesLike, LabelsLike, PropensityLike, Singles
from unmask.arrays import TopK
from unmask.linear.multilabel import MultilabelClassifier, on_threads
from unmask.tree.model import TreeModel
from unmask.tree.prediction import BEAM, predict_top
from unmask.tree.recipe import TreeRecipe
from unmask.tree.training import train_counted

_DEFAULT = TreeRecipe()


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
    classes_ : (L,) array
        The names of the labels; their numbers where they have no names.
    n_iter_ : int
        Iterations of the node that took most.

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
        correction: str = _DEFAULT.correction,
        propensity: PropensityLike | None = None,
        n_trees: int = _DEFAULT.n_trees,
        arity: int = _DEFAULT.arity,
        leaf: int = _DEFAULT.leaf,
        C: float = _DEFAULT.C,
        bias: str = _DEFAULT.bias,
        tol: float | None = _DEFAULT.tol,
        forcing: float = _DEFAULT.forcing,
        max_iter: int = _DEFAULT.max_iter,
        prune_below: float = _DEFAULT.prune_below,
        seed: int = _DEFAULT.seed,
        beam: int | None = BEAM,
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
            model, self.n_iter_ = train_counted(
                features,
                targets.labels,
                self._recipe(TreeRecipe),
                self.propensity if propensity is None else propensity,
                self._progress(),
                self.backend,
            )
        self.model_ = replace(model, label_names=targets.names)
        self._keep(targets)
        return self

    def predict_top(self, X: FeaturesLike, k: int, *, rank_by: str = "score") -> TopK:
        """The k best labels of every row; see `tree.predict_top`.

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
        with on_threads(self.n_jobs):
            return predict_top(
                self.model_, rows, k, rank_by=rank_by, propensity=self.propensity, beam=self.beam
            )

    def decision_function(self, X: FeaturesLike) -> Singles:
        """The exact scores of all labels, dense: for small label sets.

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
            top = predict_top(self.model_, rows, n_labels, beam=None)
        scores = np.empty(top.labels.shape, dtype=np.float32)
        np.put_along_axis(scores, top.labels, top.scores, axis=1)
        return scores - np.float32(np.log(0.5))

    def predict(self, X: FeaturesLike) -> Any:
        """Labels more likely than not.

        Parameters
        ----------
        X : (n, d) matrix
            Features, dense or sparse.

        Returns
        -------
        (n, L) integers, or n lists of names
            What `fit` was given, or what the parameter `output` says.
        """
        return self._shown(self.decision_function(X) > 0)
