"""A trained linear model as a value, and what it predicts.

    score of label j for row x:   s_j = w_j·x + b_j

Weights come in shards of consecutive labels, dense or sparse, in memory or mapped from files. The
probability that a score stands for is the one at which the training loss puts it at its optimum:
σ(s) for logistic, (1 + s)/2 for squared hinge, s for squared error, eˢ / Σ eˢ for softmax.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from unmask import _validation
from unmask._kernels import in_chunks, row_bounds
from unmask._kernels import linear_predict as kernels
from unmask._kernels.linear_smooth import BLOCK, forward
from unmask._kernels.linear_state import Rows
from unmask.predictions import TopK

Singles = NDArray[np.float32]

RANKINGS = ("score", "probability/propensity")
_LINKS = {
    "logistic": kernels.LOGISTIC,
    "squared_hinge": kernels.HINGE,
    "squared_error": kernels.SQUARED,
}


@dataclass(frozen=True)
class Shard:
    """The weights (labels × features, dense or CSR) and biases of consecutive labels."""

    weights: Any
    bias: Singles


@dataclass(frozen=True)
class LinearModel:
    """Shards in the order of their labels, the loss they were trained with, and how.

    `idf` are the word weights of a model that was trained on tf-idf. They go with the model into
    its folder and back; prediction takes features that are tf-idf already
    (`data.tfidf(counts, model.idf)`).

    >>> model = LinearModel((Shard(np.float32([[1, 0], [0, 1]]), np.float32([0, 0])),), "logistic")
    >>> model.n_labels, model.n_features
    (2, 2)
    """

    shards: tuple[Shard, ...]
    loss: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    idf: NDArray[np.float64] | None = None

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
    def weights(self) -> Any:
        """All weights in one matrix (labels × features)."""
        parts = [shard.weights for shard in self.shards]
        return sp.csr_array(sp.vstack(parts)) if self.sparse else np.concatenate(parts)

    @property
    def bias(self) -> Singles:
        """All biases."""
        return np.concatenate([shard.bias for shard in self.shards])


def shard(solution: NDArray[np.float32], prune_below: float = 0.0) -> Shard:
    """Solver output (labels × features+1) as a shard; |w| < `prune_below` is dropped.

    >>> shard(np.float32([[0.001, 0.5, -1.0]]), prune_below=0.01).weights.toarray()
    array([[0. , 0.5]], dtype=float32)
    """
    unsolved = int((~np.isfinite(solution)).any(axis=1).sum())
    if unsolved:
        raise ValueError(
            f"the solution of {unsolved} labels is not finite: their weights are too large for "
            "single precision; correct with `bound` or `empirical_bayes`, or raise the "
            "propensities with `propensity.clip`."
        )
    weights, bias = solution[:, :-1], np.ascontiguousarray(solution[:, -1])
    if prune_below <= 0:
        return Shard(np.ascontiguousarray(weights), bias)
    kept = [  # a few labels at a time: dense weights are the largest thing that a worker holds
        sp.csr_array(
            np.where(np.abs(weights[at : at + BLOCK]) < prune_below, 0, weights[at : at + BLOCK])
        )
        for at in range(0, len(bias), BLOCK)
    ]
    return Shard(_validation.narrow(sp.csr_array(sp.vstack(kept))), bias)


def checked(model: LinearModel) -> LinearModel:
    """The model with every array as kernels need it; indices are looked at on every call."""
    if not model.shards:
        raise ValueError("the model has no weights; give it at least one shard.")
    _validation.one_of(model.loss, LOSSES, "loss")
    shards = tuple(_checked_shard(part) for part in model.shards)
    widths = sorted({part.weights.shape[1] for part in shards})
    if len(widths) > 1:
        raise ValueError(f"shards of one model have the same features; got {widths}.")
    return replace(model, shards=shards)


def _checked_shard(part: Shard) -> Shard:
    if sp.issparse(part.weights):
        weights = _validation.columns(part.weights, name="model weights")
    else:
        weights = _validation.dense(part.weights, "model weights", "feature").astype(
            np.float32, copy=False
        )
    bias = _validation.finite(_validation.numbers(part.bias, "biases"), "biases")
    if bias.shape != weights.shape[:1]:
        raise ValueError(
            f"model weights need one bias per label; got {bias.shape} for {weights.shape}."
        )
    return Shard(weights, bias.astype(np.float32, copy=False))


def features(model: LinearModel, given: Any) -> sp.csr_array:
    """Rows to predict for, checked."""
    matrix = _validation.narrow(_validation.columns(given))
    if matrix.shape[1] != model.n_features:
        raise ValueError(
            f"the model knows {model.n_features} features; got rows with {matrix.shape[1]}."
        )
    return matrix


def scores(model: LinearModel, given: Any) -> Singles:
    """All scores, dense (n × L): for small label sets; see `top` for large ones.

    >>> model = LinearModel((Shard(np.float32([[1, 0], [0, 1]]), np.float32([1, 1])),), "logistic")
    >>> scores(model, [[2.0, 0.0]])
    array([[3., 1.]], dtype=float32)
    """
    model = checked(model)
    matrix = features(model, given)
    out = np.empty((matrix.shape[0], model.n_labels), dtype=np.float32)
    at = 0
    for part in model.shards:
        stop = at + len(part.bias)
        product = matrix @ part.weights.T
        out[:, at:stop] = product.toarray() if sp.issparse(product) else product
        out[:, at:stop] += part.bias
        at = stop
    return out


def probabilities(model: LinearModel, given: Any) -> Singles:
    """P(label | row), dense (n × L), by the link of the training loss (see the module).

    >>> model = LinearModel((Shard(np.float32([[1]]), np.float32([0])),), "logistic")
    >>> probabilities(model, [[0.0]])
    array([[0.5]], dtype=float32)
    """
    link = _PROBABILITIES[_validation.one_of(model.loss, _PROBABILITIES, "loss")]
    return np.asarray(link(scores(model, given)))


def best_labels(
    model: LinearModel,
    matrix: sp.csr_array,
    k: int,
    *,
    rank_by: str = "score",
    propensity: ArrayLike | None = None,
) -> TopK:
    """The k best labels of every row, by a checked model of checked rows; see `predict_top`."""
    link, inverse, bias = _ranking(model, rank_by, propensity)
    labels = np.full((matrix.shape[0], min(k, model.n_labels)), -1, dtype=np.int32)
    best = np.full(labels.shape, -np.inf, dtype=np.float32)
    find = _top_sparse if model.sparse else _top_dense
    find(model, matrix, link, inverse, bias, labels, best)
    missing = ((0, 0), (0, k - labels.shape[1]))
    return TopK(
        np.pad(labels, missing, constant_values=-1), np.pad(best, missing, constant_values=-np.inf)
    )


def _ranking(model: LinearModel, rank_by: str, propensity: Any) -> tuple[int, Singles, Singles]:
    """The kernels' link, 1/p, and the biases (which absorb 1/p where the link is exponential)."""
    if _validation.one_of(rank_by, RANKINGS, "ranking") == "score":
        return kernels.SCORE, np.ones(model.n_labels, dtype=np.float32), model.bias
    if propensity is None:
        raise ValueError(f"rank_by={rank_by!r} needs the propensity of every label.")
    p = _validation.propensity(propensity, model.n_labels)
    if p.min(initial=1.0) < 1e-30:  # scores are float32
        at = int(np.argmin(p))
        raise ValueError(
            f"ranking by {rank_by} needs propensities of at least 1e-30; got {p[at]:g} at label "
            f"{at}. Raise them with `propensity.clip`."
        )
    inverse = (1 / p).astype(np.float32)
    if model.loss == "softmax":
        return kernels.SCORE, inverse, model.bias + np.log(inverse)
    return _LINKS[model.loss], inverse, model.bias


def _top_sparse(
    model: LinearModel, matrix: sp.csr_array, link: int, inverse: Any, bias: Any, *out: Any
) -> None:
    columns = model.weights.tocsc()
    by_feature = Rows(columns.indptr, columns.indices, columns.data)
    ranks = np.array([kernels.rank(link, i, b) for i, b in zip(inverse, bias, strict=True)])
    order = np.lexsort((np.arange(len(bias)), -ranks))
    x = Rows(matrix.indptr, matrix.indices, matrix.data)

    def work(start: int, stop: int) -> None:
        kernels.sparse(x, by_feature, bias, order, link, inverse, start, stop, *out)

    in_chunks(row_bounds(matrix.indptr, 1 << 15), work)


def _top_dense(
    model: LinearModel,
    matrix: sp.csr_array,
    link: int,
    inverse: Any,
    bias: Any,
    labels: Any,
    best: Any,
) -> None:
    block = np.zeros((model.n_features + 1, BLOCK), dtype=np.float32)
    sizes = np.zeros(matrix.shape[0], dtype=np.int64)
    bounds = row_bounds(matrix.indptr)
    base = 0
    for part in model.shards:
        own = bias[base : base + len(part.bias)]
        for first in range(0, len(part.bias), BLOCK):
            count = min(BLOCK, len(part.bias) - first)
            kernels.interleave(part.weights, own, first, first + count, block)

            def work(start: int, stop: int, at: int = base + first, count: int = count) -> None:
                x = Rows(matrix.indptr[start : stop + 1], matrix.indices, matrix.data)
                found = np.empty((stop - start, BLOCK), dtype=np.float32)
                forward(x, block, found)
                heaps = labels[start:stop], best[start:stop], sizes[start:stop]
                kernels.offer_block(found, at, count, link, inverse, *heaps)

            in_chunks(bounds, work)
        base += len(part.bias)
    kernels.drain(labels, best, sizes)


def _softmax(s: Singles) -> Singles:
    e = np.exp(s - s.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


_PROBABILITIES = {
    "logistic": lambda s: 1 / (1 + np.exp(-np.clip(s, -80, 80))),
    "squared_hinge": lambda s: np.clip((1 + s) / 2, 0, 1),
    "squared_error": lambda s: np.clip(s, 0, 1),
    "softmax": _softmax,
}

LOSSES = tuple(_PROBABILITIES)
"""The losses of models whose scores become probabilities."""
