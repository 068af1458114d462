"""Completed training: soft targets for labels that are probably missing, then a plain training.

The observed labels of a row say something about those that are missing, which no correction by 1/p
uses. In four steps:

1. a corrected model (unbiased logistic one-vs-all, regularised ten times as strongly) is trained on
   two thirds of the rows and scores the best `POOL` labels of the others, for every third;
2. `missing.join` makes of score and other observed labels q = P(Y* = 1 | x, other labels), its
   strength chosen by held-out likelihood;
3. targets are t = 1 where a label is observed, else P(missing) = q (1 − p)/(1 − p q); those below
   `LEAST` are dropped;
4. the model minimises the logistic loss of t: label weights pos = cut = t, all in [0, 1], so that
   the problem is convex and bounded.

Normalised, the loss of a row is divided by its number of true labels, N*, and the mean is taken
over labels that are true independently with probability t: ℓ₊ counts E[Y*/N*], the integral of
`weights.normalized` with t in place of 1/p, and ℓ₋ counts ω − E[Y*/N*] with ω = E[1/max(N*, 1)].
Both are divided by the mean ω of all rows, so that l2 means the same. Labels are then ranked by
E[Y*/N* | x], the order for recall, as by the normalised losses of `weights`; but there ℓ₋ counts
1 − E[Y*/N*], whatever N* is, and all margins are lower and estimated less well.

Copies of a row, as sample weights of whole numbers make them, are in one fold: a copy among the
rows that score a row would tell the row's own labels.

A second round takes the scores of step 1 from completed models; it finds more missing labels and
does not train better. Each of these models is trained on targets that were made without the rows it
scores, by a first round of its own: were targets shared, an observed label would reach, through
rows like it, the score of its own pair, and what is observed would look likelier than what is
missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask._kernels.weights import gauss_legendre
from unmask._messages import named_options
from unmask._typing import (
    BackendLike,
    FeaturesLike,
    Floats,
    Ints,
    LabelsLike,
    Progress,
    PropensityLike,
)
from unmask.arrays import checks
from unmask.arrays.checks import pair_keys
from unmask.data import Dataset
from unmask.missing.findings import unobserved
from unmask.missing.other_labels import JoinedProbabilities, join
from unmask.models.linear import predict_top, solve
from unmask.models.problem import Problem, Recipe, arrange, weigh
from unmask.models.training import counter, row_weights
from unmask.predictions import TopK
from unmask.weights import Weights
from unmask.weights.formulas import StoredEntries

FOLDS = 3
POOL = 100
"""Labels of a row that are considered."""
LEAST = 0.03
STRONGER = 10.0
"""The corrected model's l2 over that of the completed one."""


@dataclass(frozen=True, eq=False)
class Completion:
    """Probabilities of the missing labels of training rows, and weights made of them.

    Parameters
    ----------
    weights : Weights
        Of completed training: for `linear.train`, torch, and every export of `unmask.weights`.
    probabilities : csr_array of shape (n, L)
        P(Y* = 1 | x, the other observed labels) of the pairs that were considered, out of fold: for
        `missing.find`.
    stage : str
        What the held-out likelihood chose: "score", "calibrated" or "other labels".
    penalty : float
        λ of the ridge on other labels; inf where they are not used.
    surprise : dict of str to float
        −ln likelihood per 1,000 held-out pairs of every stage, less that of the score alone.
    row_weights : (n,) floats, or None
        Of a normalised recipe: E[1/max(N*, 1)], what ℓ₊ and ℓ₋ of a label count together. The
        weights alone take it for 1.

    Examples
    --------
    >>> from unmask import data, weights
    >>> rows = data.synthetic.planted(300, n_features=60, n_labels=8, seed=0)
    >>> observed = data.hide(rows.labels, [0.5] * 8, seed=1)
    >>> made = completion(rows.features, observed, [0.5] * 8)
    >>> weights.to_soft_targets(made.weights).shape
    (300, 8)
    """

    weights: Weights
    probabilities: sp.csr_array
    stage: str
    penalty: float
    surprise: dict[str, float]
    row_weights: Floats | None = None


@named_options
def completion(
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike,
    recipe: Recipe | None = None,
    *,
    rounds: int = 1,
    sample_weight: ArrayLike | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    backend: BackendLike = None,
) -> Completion:
    """Probabilities of true labels given features and other labels, and weights made of them.

    Parameters
    ----------
    features : (n, d) matrix
        Dense or sparse.
    labels : (n, L) matrix of 0 and 1, or Dataset
        Observed labels; what the judgements of a data set say takes the place of probabilities.
    propensity : (L,) numbers in (0, 1]
        How likely a true label is observed.
    recipe : Recipe, optional
        Of the completed training; the loss is logistic. The corrected model before it has a tenth
        of its C (ten times its l2).
    rounds : int, default 1
        How often scores are made; 2 for findings. A second round costs twelve trainings of parts
        of the rows in place of three.
    sample_weight : (n,) numbers above 0, optional
        How much each row counts in the models that score. What the scores and the other labels of
        a row say together is learnt from all rows alike.
    seed : int, default 0
        Of the folds.
    progress : function (done, total), optional
        Called after every training.
    backend : optional
        Where blocks of labels are solved (`unmask.parallel`).

    Returns
    -------
    Completion

    Raises
    ------
    ValueError
        If features, labels and propensities do not fit each other, or no label is observed.

    Examples
    --------
    >>> from unmask import data, missing
    >>> rows = data.synthetic.planted(600, n_features=60, n_labels=8, seed=0)
    >>> observed = data.hide(rows.labels, [0.5] * 8, seed=1)
    >>> made = completion(rows.features, observed, [0.5] * 8)
    >>> made.weights.pos.nnz > observed.nnz
    True
    >>> findings = missing.find(made.probabilities, observed, [0.5] * 8, top=20)
    >>> bool(rows.labels.toarray()[findings.rows, findings.labels].mean() > 0.7)
    True
    """
    recipe = replace(recipe or Recipe("logistic"), correction=None)
    if recipe.loss != "logistic":
        raise ValueError(f"completed training is for the loss logistic; got {recipe.loss}.")
    checks.positive_int(rounds, "rounds")
    x = checks.narrow(checks.columns(features))
    dataset = labels if isinstance(labels, Dataset) and labels.judgements is not None else None
    y = checks.labels(labels.labels if isinstance(labels, Dataset) else labels)
    checks.same_rows(x, y, "features", "labels")
    p = checks.propensity(propensity, y.shape[1])
    if x.shape[0] < FOLDS:
        raise ValueError(f"completed training needs at least {FOLDS} rows; got {x.shape[0]}.")
    rows: sp.csr_array | Dataset = y if dataset is None else replace(dataset, features=None)
    counts = row_weights(sample_weight, x.shape[0])
    note = counter(progress, _trainings(rounds))
    every = _Rounds(propensity, p, recipe, seed, backend, note)
    joined, weights = every.joined(x, rows, counts, rounds)
    by_row = None
    if recipe.normalized:
        after = y if dataset is None else dataset.after_judgements.labels
        by_row = inverse_counts(_weights(joined, after, p, False, dataset).pos)
    how = joined.stage, joined.penalty, joined.surprise
    return Completion(weights, joined.probabilities, *how, by_row)


def _trainings(rounds: int) -> int:
    """Count the models of so many rounds: every fold's own, and those its targets need."""
    return FOLDS * (_trainings(rounds - 1) + 1) if rounds else 0


@dataclass(frozen=True, eq=False)
class _Rounds:
    """The parameters that all rounds share; `note` is called after every training."""

    stated: PropensityLike
    p: Floats
    recipe: Recipe
    seed: int
    backend: BackendLike
    note: Callable[[int], None]

    def joined(
        self, x: sp.csr_array, rows: sp.csr_array | Dataset, counts: Floats | None, rounds: int
    ) -> tuple[JoinedProbabilities, Weights]:
        """Probabilities of true labels of these rows, and the weights made of them.

        `counts` is how much rows count; None: all once.
        """
        dataset = rows if isinstance(rows, Dataset) else None
        y: sp.csr_array = rows.labels if isinstance(rows, Dataset) else rows
        group = _equal_rows(x, y)
        fold = np.random.default_rng([self.seed, 2]).integers(FOLDS, size=group.max() + 1)[group]
        scores = self._scores(x, rows, y, counts, fold, rounds)
        probabilities = join(scores, y, self.p, groups=group, seed=self.seed)
        after = y if dataset is None else dataset.after_judgements.labels
        return probabilities, _weights(
            probabilities, after, self.p, self.recipe.normalized, dataset
        )

    def _scores(
        self,
        x: sp.csr_array,
        rows: sp.csr_array | Dataset,
        y: sp.csr_array,
        counts: Floats | None,
        fold: Ints,
        rounds: int,
    ) -> TopK:
        """Return the best labels of rows, by models that depend on rows of other folds alone."""
        if rounds > 1:

            def completed(others: Ints) -> Weights:
                part = rows.take(others) if isinstance(rows, Dataset) else rows[others]
                own = None if counts is None else counts[others]
                return self.joined(x[others], part, own, rounds - 1)[1]

            return self._held_out(x, completed, self.recipe, counts, fold)
        first = _corrected(self.recipe)
        weights = weigh(y, first, self.stated)  # as observed: judged pairs count in targets
        return self._held_out(x, weights.__getitem__, first, counts, fold)

    def _held_out(
        self,
        x: sp.csr_array,
        weights: Callable[[Ints], Weights],
        recipe: Recipe,
        counts: Floats | None,
        fold: Ints,
    ) -> TopK:
        """Return the best labels of every row, by a model of the rows of other folds."""
        k = min(POOL, self.p.size)
        labels = np.full((x.shape[0], k), -1, dtype=np.int32)
        scores = np.full((x.shape[0], k), -np.inf, dtype=np.float32)
        plain = replace(recipe, correction=None)
        for number in range(FOLDS):
            others, own = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            if own.size and others.size:
                problem = arrange(x[others], weights(others), plain)
                if counts is not None:
                    problem = problem.of_weighted_rows(counts[others])
                model, _ = solve(problem, backend=self.backend)
                top = predict_top(model, x[own], k)
                labels[own], scores[own] = top.labels, top.scores
            self.note(1)
        return TopK(labels, scores)


def _equal_rows(x: sp.csr_array, y: sp.csr_array) -> Ints:
    """Return a number of every row, equal for equal features and labels, by first occurrence.

    Rows are compared by a sum of random numbers. That rows of few values are all equal is no
    reason to leave folds empty: fewer different rows than folds are all told apart.
    """
    draw = np.random.default_rng(0).random
    keys = x @ draw(x.shape[1]) + y @ draw(y.shape[1])
    _, first, same = np.unique(keys, return_index=True, return_inverse=True)
    if first.size < FOLDS:
        return np.arange(keys.size)
    return np.argsort(np.argsort(first))[same]


def _corrected(recipe: Recipe) -> Recipe:
    """Return the training of the first scores."""
    l2 = None if recipe.l2 is None else recipe.l2 * STRONGER
    return replace(recipe, correction="unbiased", normalized=False, C=recipe.C / STRONGER, l2=l2)


def divided(problem: Problem, row_weights: Floats, mean: float) -> Problem:
    """Return the normalised problem, whose rows count E[1/max(N*, 1)] over its mean."""
    y = problem.entries
    by_row = row_weights[problem.order] / mean
    ignored = y.pos == 0  # all of ℓ₋ is taken away
    cut = np.where(ignored, by_row[y.rows], y.cut / mean)
    return replace(problem, entries=y._replace(pos=y.pos / mean, cut=cut), row_weights=by_row)


def inverse_counts(targets: sp.csr_array) -> Floats:
    """E[1/max(N*, 1)] of every row, whose labels are true independently with these probabilities.

        Π(1 − t) + ∫₀¹ (Π(1 − t + t u) − Π(1 − t)) / u du

    The integrand is a polynomial in u of one degree less than there are labels: the quadrature is
    exact.

    Parameters
    ----------
    targets : csr_array of shape (n, L)

    Returns
    -------
    (n,) floats in (0, 1]

    Examples
    --------
    >>> inverse_counts(sp.csr_array([[1.0, 1.0, 0.0], [1.0, 0.5, 0.0], [0.0, 0.0, 0.0]]))
    array([0.5 , 0.75, 1.  ])
    """
    t, most = targets.data, int(np.diff(targets.indptr).max(initial=0))
    none = _row_products(1 - t, targets.indptr)
    total = none.copy()
    for u, part in zip(*gauss_legendre(max(1, -(-most // 2))), strict=True):
        total += part * (_row_products(1 - t + t * u, targets.indptr) - none) / u
    return total


def _row_products(values: Floats, indptr: Ints) -> Floats:
    """Return the product of every row's values; 1 where there are none."""
    products = np.multiply.reduceat(np.r_[values, 1.0], indptr[:-1])
    return np.where(np.diff(indptr) > 0, products, 1.0)


def _weights(
    joined: JoinedProbabilities,
    y: sp.csr_array,
    p: Floats,
    normalized: bool,
    dataset: Dataset | None,
) -> Weights:
    """Soft targets as label weights; judged pairs keep what was judged."""
    q = joined.probabilities
    target, keys = unobserved(q.data, p[q.indices]), pair_keys(q)
    own = pair_keys(y)
    judged = own if dataset is None else np.r_[own, pair_keys(dataset.judgements)]
    kept = (target >= LEAST) & ~np.isin(keys, judged)
    entries = np.r_[own, keys[kept]]
    targets = _matrix(entries, np.r_[np.ones(own.size), target[kept]], y.shape)
    if normalized:
        targets.data = StoredEntries(targets.indptr, targets.data).shares()
    ignored = (
        np.zeros(0, np.int64) if dataset is None else pair_keys(dataset.after_judgements.ignored)
    )
    if not ignored.size:
        return Weights(targets, targets)
    entries = np.r_[pair_keys(targets), ignored]
    pos = _matrix(entries, np.r_[targets.data, np.zeros(ignored.size)], y.shape)
    return Weights(pos, _matrix(entries, np.r_[targets.data, np.ones(ignored.size)], y.shape))


def _matrix(keys: Ints, values: Floats, shape: tuple[int, int]) -> sp.csr_array:
    """Return a matrix of the pairs row · L + label."""
    order = np.argsort(keys)
    rows, columns = keys[order] // shape[1], keys[order] % shape[1]
    starts = np.searchsorted(rows, np.arange(shape[0] + 1))
    return sp.csr_array((values[order], columns, starts), shape=shape)
