"""The paper's optimiser, in PyTorch: mini-batches of 512, Adam, a rate that falls at the end.

A batch meets the weights of the model through two sparse products, X W and Xᵀ G; the derivative G
of the loss by the scores is `unmask.losses`' own; Adam's weight decay is the derivative of
(l2 / 2) ‖W‖². All batches of a repetition are the same for every run of it and are kept, so a run
costs little more than Adam's pass over the parameters.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from unmask import losses
from unmask._typing import Array, Floats
from unmask.losses import Loss, Observed, _loss
from unmask.weights import Weights
from unmask_studies.training.protocol import BATCH

LATE_RATE = 0.1
"""The rate of the last quarter of the epochs, as a share of the first."""
CERTAIN = -1e-4
"""The logarithm of the largest probability that a divided score stands for."""
KEPT = 30_000_000
"""Entries of all batches together up to which they are kept in memory."""

LossOfEpoch = Callable[[int], Loss]


@dataclass(frozen=True)
class Linear:
    """A linear model, W (features × labels) and bias."""

    weights: Tensor
    bias: Tensor

    def scores(self, features: sp.csr_array) -> Tensor:
        """Features · W + bias."""
        return torch.addmm(self.bias, _tensor(features), self.weights)

    @property
    def square(self) -> float:
        """‖W‖²."""
        return float((self.weights.double() ** 2).sum())

    @property
    def finite(self) -> bool:
        """Whether every weight is a number."""
        return bool(self.weights.isfinite().all() and self.bias.isfinite().all())


@dataclass(frozen=True)
class Phase:
    """Some epochs with one loss and one set of weights, at a rate that falls for the last few."""

    loss: LossOfEpoch
    weights: Weights
    epochs: int
    late: int


def train(
    features: sp.csr_array, phases: list[Phase], *, l2: float, rate: float, seed: int
) -> Linear:
    """Run the phases one after the other, each with an optimiser of its own."""
    n_labels = phases[0].weights.pos.shape[1]
    model = Linear(torch.zeros(features.shape[1], n_labels), torch.zeros(n_labels))
    before = 0
    with one_thread():
        for phase in phases:
            _run(model, features, phase, l2, rate, seed, before)
            before += phase.epochs
    return model


def mean_loss(loss: Loss, scores: Tensor, entries: Observed) -> float:
    """The mean over rows of the loss, computed in single precision and summed in double."""
    return float(_loss.rows(loss, scores, entries).double().mean())


def of_arrays(weights: Array, bias: Array) -> Linear:
    """The same model from arrays, labels × features as solvers have them."""
    return Linear(torch.as_tensor(weights).T.contiguous(), torch.as_tensor(bias))


def divided(loss: Loss, scores: Tensor, divisor: Floats) -> tuple[Tensor, Tensor]:
    """Scores whose probabilities are those of `scores` over `divisor`, and log probabilities.

    The scores go into losses: quotients above one count as almost one. The logarithms rank.
    """
    shift = torch.as_tensor(np.log(divisor), dtype=scores.dtype)
    if loss.reduction == "pal":
        return scores - shift, scores - shift
    chance = torch.nn.functional.logsigmoid(scores) - shift
    capped = chance.clamp(max=CERTAIN)
    return capped - torch.log(-torch.expm1(capped)), chance


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums must not depend on how many threads share them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _run(
    model: Linear,
    features: sp.csr_array,
    phase: Phase,
    l2: float,
    rate: float,
    seed: int,
    before: int,
) -> None:
    groups: list[dict[str, object]] = [
        {"params": [model.weights], "weight_decay": l2},
        {"params": [model.bias]},
    ]
    optimiser = torch.optim.Adam(groups, lr=rate, fused=True)
    model.weights.grad = torch.zeros_like(model.weights)
    entries = observed(phase.weights)
    for epoch in range(phase.epochs):
        late = epoch >= phase.epochs - phase.late
        for group in optimiser.param_groups:
            group["lr"] = rate * (LATE_RATE if late else 1.0)
        loss = phase.loss(epoch)
        for batch in _batches(features, seed, before + epoch):
            _step(model, optimiser, loss, batch, entries)


def _step(
    model: Linear, optimiser: torch.optim.Adam, loss: Loss, batch: Batch, entries: Observed
) -> None:
    scores = torch.addmm(model.bias, batch.features, model.weights)
    slope = _loss.gradient(loss, scores, _of_rows(entries, batch.rows)).div_(len(batch.rows))
    gradient = model.weights.grad
    assert gradient is not None  # noqa: S101 - made before the first step
    torch.addmm(gradient, batch.transposed, slope, beta=0, out=gradient)
    model.bias.grad = slope.sum(0)
    optimiser.step()


def _of_rows(entries: Observed, rows: Tensor) -> Observed:
    pos = entries.pos[rows]
    return Observed(
        entries.index[rows], pos, pos if entries.cut is entries.pos else entries.cut[rows]
    )


def observed(weights: Weights) -> Observed:
    """`losses.observed` as tensors of single precision."""
    entries = losses.observed(weights)
    pos = torch.as_tensor(entries.pos).float()
    cut = pos if entries.cut is entries.pos else torch.as_tensor(entries.cut).float()
    return Observed(torch.as_tensor(entries.index), pos, cut)


@dataclass(frozen=True)
class Batch:
    """Row numbers of a batch, its features and their transpose."""

    rows: Tensor
    features: Tensor
    transposed: Tensor


def _batches(features: sp.csr_array, seed: int, epoch: int) -> Iterator[Batch]:
    if features.nnz * 30 > KEPT:
        return _shuffled_batches(features, seed, epoch)
    return iter(_same_batches(_Same(features), seed, epoch))


class _Same:
    """A matrix that equals itself only: the key under which its batches are kept."""

    def __init__(self, matrix: sp.csr_array) -> None:
        self.matrix = matrix

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.matrix is self.matrix

    def __hash__(self) -> int:
        return id(self.matrix)


@lru_cache(maxsize=32)
def _same_batches(features: _Same, seed: int, epoch: int) -> list[Batch]:
    return list(_shuffled_batches(features.matrix, seed, epoch))


def _shuffled_batches(features: sp.csr_array, seed: int, epoch: int) -> Iterator[Batch]:
    order = np.random.default_rng([seed, epoch]).permutation(features.shape[0])
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        own = features[rows]
        yield Batch(torch.as_tensor(rows), _tensor(own), _tensor(sp.csr_array(own.T)))


def _tensor(matrix: sp.csr_array) -> Tensor:
    """CSR, sharing its values."""
    parts = (matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data)
    start, index, values = (torch.as_tensor(part) for part in parts)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(start, index, values, matrix.shape, check_invariants=False)
