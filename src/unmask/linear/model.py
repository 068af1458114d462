"""A trained linear model as a value, and what it predicts.

    score of label j for row x:   s_j = w_j·x + b_j

Weights come in shards of consecutive labels, dense or sparse, in memory or mapped from files. The
probability that a score stands for is the one at which the training loss puts it at its optimum:
σ(s) for logistic, (1 + s)/2 for squared hinge, s for squared error, eˢ / Σ eˢ for softmax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
import scipy.special
from numpy.typing import NDArray

from unmask._kernels import in_chunks, row_bounds
from unmask._kernels import linear_predict as kernels
from unmask._kernels.linear_smooth import BLOCK, forward
from unmask._kernels.linear_state import Rows
from unmask._messages import function, setting
from unmask._typing import FeaturesLike, Floats, PropensityLike, Singles
from unmask.arrays import TopK, checks
from unmask.data.texts import Vocabulary, tfidf

WeightMatrix: TypeAlias = "Singles | sp.csr_array"
"""Labels × features, dense or sparse."""
Parameter: TypeAlias = str | float | bool | None

RANKINGS = ("score", "probability/propensity")
_LINKS = {
    "logistic": kernels.LOGISTIC,
    "squared_hinge": kernels.HINGE,
    "squared_error": kernels.SQUARED,
}


@dataclass(frozen=True)
class Shard:
    """The weights and biases of consecutive labels.

    Attributes
    ----------
    weights : (labels, features) float32
        Dense or CSR.
    bias : (labels,) float32

    Examples
    --------
    >>> from unmask import linear
    >>> model, log = linear.train(np.eye(2), np.eye(2, dtype=int))
    >>> [(part.weights.shape, part.bias.shape) for part in model.shards]
    [((2, 2), (2,))]
    """

    weights: WeightMatrix
    bias: Singles


@dataclass(frozen=True)
class LinearModel:
    """Shards in the order of their labels, the loss they were trained with, and how.

    Parameters
    ----------
    shards : tuple of Shard
        At least one.
    loss : {"squared_hinge", "logistic", "squared_error", "softmax"}
        Says which probability a score stands for.
    parameters : mapping, optional
        The recipe of the training.
    idf : (d,) floats, optional
        The word weights of a model that was trained on tf-idf. They go with the model into its
        folder and back; prediction takes features that are tf-idf already
        (`data.tfidf(counts, model.idf)`).
    label_names : tuple of str, optional
        The name of every label; predictions carry them.
    vocabulary : Vocabulary, optional
        The words of a model that was trained on texts: `text_features` applies it.

    Examples
    --------
    >>> model = LinearModel((Shard(np.float32([[1, 0], [0, 1]]), np.float32([0, 0])),), "logistic")
    >>> model.n_labels, model.n_features
    (2, 2)
    """

    shards: tuple[Shard, ...]
    loss: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    idf: Floats | None = None
    label_names: tuple[str, ...] | None = None
    vocabulary: Vocabulary | None = None

    @property
    def n_labels(self) -> int:
        """Labels."""
        return sum(len(shard.bias) for shard in self.shards)

    @property
    def n_features(self) -> int:
        """Features, the bias not counted."""
        return int(self.shards[0].weights.shape[1])

    @property
    def sparse(self) -> bool:
        """Whether the weights are stored sparse."""
        return any(sp.issparse(shard.weights) for shard in self.shards)

    @property
    def weights(self) -> WeightMatrix:
        """All weights in one matrix (labels × features)."""
        parts = [shard.weights for shard in self.shards]
        return sp.csr_array(sp.vstack(parts)) if self.sparse else np.concatenate(parts)

    @property
    def bias(self) -> Singles:
        """All biases."""
        return np.concatenate([shard.bias for shard in self.shards])


def shard(solution: Singles, prune_below: float = 0.0) -> Shard:
    """Solver output (labels × features+1) as a shard; |w| < `prune_below` is dropped.

    >>> shard(np.float32([[0.001, 0.5, -1.0]]), prune_below=0.01).weights.toarray()
    array([[0. , 0.5]], dtype=float32)
    """
    unsolved = int((~np.isfinite(solution)).any(axis=1).sum())
    if unsolved:
        raise ValueError(
            f"the solution of {unsolved} labels is not finite: their weights are too large for "
            "single precision; correct with `bound` or `empirical_bayes`, or raise the "
            f"propensities with {function('propensity.clip')}."
        )
    weights, bias = solution[:, :-1], np.ascontiguousarray(solution[:, -1])
    if prune_below <= 0:
        return Shard(np.ascontiguousarray(weights), bias)
    kept = [  # a few labels at a time: dense weights are the largest thing that a worker holds
        sp.csr_array(
            np.where(np.abs(weights[i : i + BLOCK]) < prune_below, 0, weights[i : i + BLOCK])
        )
        for i in range(0, len(bias), BLOCK)
    ]
    return Shard(checks.narrow(sp.csr_array(sp.vstack(kept))), bias)


def checked(model: LinearModel) -> LinearModel:
    """The model with every array as kernels need it; indices are looked at on every call."""
    if not model.shards:
        raise ValueError("the model has no weights; give it at least one shard.")
    checks.one_of(model.loss, LOSSES, "loss")
    shards = tuple(_checked_shard(part) for part in model.shards)
    widths = sorted({part.weights.shape[1] for part in shards})
    if len(widths) > 1:
        raise ValueError(f"shards of one model have the same features; got {widths}.")
    refuse_other_names(model.label_names, model.n_labels)
    _refuse_other_words(model)
    return replace(model, shards=shards)


def refuse_other_names(names: tuple[str, ...] | None, n_labels: int) -> None:
    """ValueError unless a model of so many labels has a name for each, or none at all."""
    if names is not None and len(names) != n_labels:
        raise ValueError(f"{len(names)} label names for a model of {n_labels} labels.")


def _refuse_other_words(model: LinearModel) -> None:
    words = model.vocabulary
    if words is not None and len(words.words) != model.n_features:
        raise ValueError(
            f"a vocabulary of {len(words.words)} words for a model of {model.n_features} features."
        )


class TextModel(Protocol):
    """A model that may have been trained on texts: a linear model, or a label tree."""

    @property
    def idf(self) -> Floats | None:
        """Word weights."""
        ...

    @property
    def vocabulary(self) -> Vocabulary | None:
        """Words."""
        ...


def text_features(model: TextModel, texts: Iterable[str]) -> sp.csr_array:
    """Texts as the features that a model of texts was trained on.

    Parameters
    ----------
    model : LinearModel or TreeModel
        Trained on texts (`unmask train --text`): with vocabulary and word weights.
    texts : n strings

    Returns
    -------
    csr_array of shape (n, d), float32

    Raises
    ------
    ValueError
        If the model was not trained on texts.

    Examples
    --------
    >>> from unmask import data
    >>> words = data.Vocabulary(("egg", "tea"))
    >>> shards = (Shard(np.float32([[1, 0], [0, 1]]), np.float32([0, 0])),)
    >>> model = LinearModel(shards, "logistic", idf=np.array([1.0, 1.0]), vocabulary=words)
    >>> text_features(model, ["boil an egg", "tea, more tea"]).toarray()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if model.vocabulary is None or model.idf is None:
        raise ValueError("the model was not trained on texts; give it features instead.")
    return tfidf(model.vocabulary.counts(texts), model.idf)


def _checked_shard(part: Shard) -> Shard:
    if sp.issparse(part.weights):
        weights = checks.columns(part.weights, name="model weights")
    else:
        weights = checks.dense(part.weights, "model weights", "feature").astype(
            np.float32, copy=False
        )
    bias = checks.finite(checks.numbers(part.bias, "biases"), "biases")
    if bias.shape != weights.shape[:1]:
        raise ValueError(
            f"model weights need one bias per label; got {bias.shape} for {weights.shape}."
        )
    return Shard(weights, bias.astype(np.float32, copy=False))


def checked_features(features: FeaturesLike, n_features: int) -> sp.csr_array:
    """Rows that a model of so many features predicts for, checked."""
    matrix = checks.narrow(checks.columns(features))
    if matrix.shape[1] != n_features:
        raise ValueError(f"the model has {n_features} features; got rows with {matrix.shape[1]}.")
    return matrix


def ranking_propensity(
    rank_by: str, propensity: PropensityLike | None, n_labels: int, *, of: str
) -> Floats:
    """The propensities that labels are ranked by, checked; `of` is the function that takes them."""
    if propensity is None:
        raise ValueError(
            f"ranking by {rank_by} needs the propensity of every label; give it with "
            f"{setting('propensity', of=of)}."
        )
    return checks.propensity(propensity, n_labels)


def scores(model: LinearModel, features: FeaturesLike) -> Singles:
    """All scores s = W x + b, dense: for small label sets; see `predict_top` for large ones.

    Parameters
    ----------
    model : LinearModel
    features : (n, d) matrix
        Dense or sparse.

    Returns
    -------
    (n, L) float32

    Raises
    ------
    ValueError
        If the model is damaged, or has another number of features.

    Examples
    --------
    >>> model = LinearModel((Shard(np.float32([[1, 0], [0, 1]]), np.float32([1, 1])),), "logistic")
    >>> scores(model, [[2.0, 0.0]])
    array([[3., 1.]], dtype=float32)
    """
    model = checked(model)
    matrix = checked_features(features, model.n_features)
    out = np.empty((matrix.shape[0], model.n_labels), dtype=np.float32)
    start = 0
    for part in model.shards:
        stop = start + len(part.bias)
        product = matrix @ part.weights.T
        out[:, start:stop] = product.toarray() if sp.issparse(product) else product
        out[:, start:stop] += part.bias
        start = stop
    return out


def probabilities(model: LinearModel, features: FeaturesLike) -> Singles:
    """P(label | row), dense, by the link of the training loss.

    σ(s) for logistic, (1 + s)/2 for squared hinge and s for squared error, both clipped to [0, 1],
    eˢ / Σ eˢ for softmax.

    Parameters
    ----------
    model : LinearModel
    features : (n, d) matrix
        Dense or sparse.

    Returns
    -------
    (n, L) float32

    Raises
    ------
    ValueError
        If the model is damaged, its loss unknown, or it has another number of features.

    Examples
    --------
    >>> model = LinearModel((Shard(np.float32([[1]]), np.float32([0])),), "logistic")
    >>> probabilities(model, [[0.0]])
    array([[0.5]], dtype=float32)
    """
    link = _PROBABILITIES[checks.one_of(model.loss, _PROBABILITIES, "loss")]
    return np.asarray(link(scores(model, features)))


def best_labels(
    model: LinearModel,
    matrix: sp.csr_array,
    k: int,
    *,
    rank_by: str = "score",
    propensity: PropensityLike | None = None,
) -> TopK:
    """The k best labels of every row, by a checked model of checked rows; see `predict_top`."""
    ranking = _ranking(model, rank_by, propensity)
    labels = np.full((matrix.shape[0], min(k, model.n_labels)), -1, dtype=np.int32)
    best = TopArrays(labels, np.full(labels.shape, -np.inf, dtype=np.float32))
    find = _top_sparse if model.sparse else _top_dense
    find(model, matrix, ranking, best)
    missing = ((0, 0), (0, k - labels.shape[1]))
    return TopK(
        np.pad(best.labels, missing, constant_values=-1),
        np.pad(best.scores, missing, constant_values=-np.inf),
        names=model.label_names,
    )


class Ranking(NamedTuple):
    """What labels are ranked by: the kernels' link of the score, 1/p, and the biases."""

    link: int
    inverse: Singles
    bias: Singles


class TopArrays(NamedTuple):
    """The best labels of every row and their scores, (n, k) each, which kernels write into."""

    labels: NDArray[np.int32]
    scores: Singles


def _ranking(model: LinearModel, rank_by: str, propensity: PropensityLike | None) -> Ranking:
    """The ranking; biases absorb 1/p where the link is exponential."""
    if checks.one_of(rank_by, RANKINGS, "ranking") == "score":
        return Ranking(kernels.SCORE, np.ones(model.n_labels, dtype=np.float32), model.bias)
    p = ranking_propensity(rank_by, propensity, model.n_labels, of="linear.predict_top")
    checks.singles_propensity(p, f"ranking by {rank_by}")
    inverse = (1 / p).astype(np.float32)
    if model.loss == "softmax":
        return Ranking(kernels.SCORE, inverse, model.bias + np.log(inverse))
    return Ranking(_LINKS[model.loss], inverse, model.bias)


def _top_sparse(
    model: LinearModel, matrix: sp.csr_array, ranking: Ranking, best: TopArrays
) -> None:
    link, inverse, bias = ranking
    columns = sp.csc_array(model.weights)
    by_feature = Rows(columns.indptr, columns.indices, columns.data)
    ranks = np.array([kernels.rank(link, i, b) for i, b in zip(inverse, bias, strict=True)])
    order = np.lexsort((np.arange(len(bias)), -ranks))
    x = Rows(matrix.indptr, matrix.indices, matrix.data)

    def work(start: int, stop: int) -> None:
        kernels.sparse(x, by_feature, bias, order, link, inverse, start, stop, *best)

    in_chunks(row_bounds(matrix.indptr, 1 << 15), work)


def _top_dense(
    model: LinearModel,
    matrix: sp.csr_array,
    ranking: Ranking,
    best: TopArrays,
) -> None:
    block = np.zeros((model.n_features + 1, BLOCK), dtype=np.float32)
    sizes = np.zeros(matrix.shape[0], dtype=np.int64)
    bounds = row_bounds(matrix.indptr)
    base = 0
    for part in model.shards:
        own = ranking.bias[base : base + len(part.bias)]
        for first in range(0, len(part.bias), BLOCK):
            count = min(BLOCK, len(part.bias) - first)
            kernels.interleave(part.weights, own, first, first + count, block)

            def work(start: int, stop: int, label: int = base + first, count: int = count) -> None:
                x = Rows(matrix.indptr[start : stop + 1], matrix.indices, matrix.data)
                values = np.empty((stop - start, BLOCK), dtype=np.float32)
                forward(x, block, values)
                heaps = best.labels[start:stop], best.scores[start:stop], sizes[start:stop]
                kernels.offer_block(values, label, count, ranking.link, ranking.inverse, *heaps)

            in_chunks(bounds, work)
        base += len(part.bias)
    kernels.drain(best.labels, best.scores, sizes)


_PROBABILITIES: dict[str, Callable[[Singles], Singles]] = {
    "logistic": scipy.special.expit,
    "squared_hinge": lambda s: np.clip((1 + s) / 2, 0, 1),
    "squared_error": lambda s: np.clip(s, 0, 1),
    "softmax": partial(scipy.special.softmax, axis=1),
}

LOSSES = tuple(_PROBABILITIES)
"""The losses of models whose scores become probabilities."""
