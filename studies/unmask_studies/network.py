"""A bag of embeddings and an output layer, trained epoch by epoch, the best of them kept.

A row is the sum of the embeddings of its words, weighted by tf-idf; `CorrectedOutput` scores the
labels. Both start at random, except for the biases: these start at the log-odds of the observed
frequencies, or most steps would go into learning that labels are rare. *Full* sees all labels in
every step; *shortlist* sees the labels that the batch has and some uniform draws of the others,
with their probabilities, and updates the rows of these labels alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from unmask._typing import Floats
from unmask.losses import UnboundedLossWarning
from unmask.metrics import evaluate
from unmask.predictions import TopK
from unmask.torch import CorrectedOutput, MissingLabelLoss, samplers
from unmask.torch.output import largest
from unmask_studies.training.optimise import one_thread

WIDTH, BATCH, TOP = 64, 128, 5
UNSEEN = 0.05  # the count at which labels start that no row has
BLOCK = 256  # rows that are ranked at a time


class Parts(NamedTuple):
    """Rows to train on, to choose by and to predict; labels are observed ones."""

    features: sp.csr_array
    labels: sp.csr_array
    held_features: sp.csr_array
    held_labels: sp.csr_array
    test_features: sp.csr_array


class Plan(NamedTuple):
    """Settings of a network: a correction, draws per batch (0: all labels), what is tried."""

    correction: str
    draws: int
    rates: tuple[float, ...]
    epochs: int
    seed: int


class Chosen(NamedTuple):
    """The rate and the epoch with the largest R@5 on held-out rows, and what was predicted then."""

    estimate: float
    rate: float
    epoch: int
    top: TopK


@dataclass(frozen=True)
class Network:
    """An encoder and its output layer."""

    encoder: nn.EmbeddingBag
    output: CorrectedOutput

    @torch.no_grad()
    def top(self, features: sp.csr_array, divisor: Floats | None = None) -> TopK | None:
        """Return the best labels by score, or by σ(score) / divisor; None if training diverged."""
        shift = None if divisor is None else torch.as_tensor(np.log(divisor), dtype=torch.float32)
        best = []
        for start in range(0, features.shape[0], BLOCK):
            scores = self.output.logits(self.encoder(*words(features[start : start + BLOCK])))
            if shift is not None:
                scores = nn.functional.logsigmoid(scores) - shift
            best.append(largest(scores, TOP))
        values, labels = (torch.cat(each) for each in zip(*best, strict=True))
        if not values.isfinite().all():  # NaN is among the largest
            return None
        return TopK.sorted(labels.numpy(), values.numpy())


def choose(
    parts: Parts, p: Floats, plan: Plan, rankings: dict[str, Floats | None]
) -> dict[str, Chosen]:
    """Return for every ranking what is best on the held-out rows, of all rates and epochs."""
    best: dict[str, Chosen] = {}
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UnboundedLossWarning)
        for rate in plan.rates:
            for epoch, network in enumerate(trained(parts, p, plan, rate), start=1):
                for name, divisor in rankings.items():
                    estimate = _estimate(network.top(parts.held_features, divisor), parts, p)
                    if name in best and estimate <= best[name].estimate:
                        continue
                    top = network.top(parts.test_features, divisor)
                    if top is not None:
                        best[name] = Chosen(estimate, rate, epoch, top)
    return best


def _estimate(top: TopK | None, parts: Parts, p: Floats) -> float:
    """Deconvolved R@5 of the observed labels; with p = 1 it is the R@5 of what is there."""
    if top is None:
        return -np.inf
    estimator = "vanilla" if (p == 1).all() else "deconvolved"
    metric = f"R@{TOP}"
    table = evaluate(top, parts.held_labels, p, metrics=[metric], estimators=[estimator])
    return table[metric, estimator].value or 0.0


def trained(parts: Parts, p: Floats, plan: Plan, rate: float) -> Iterator[Network]:
    """Yield the network after every epoch."""
    torch.manual_seed(plan.seed)
    network = _start(parts, p, plan)
    optimizers = _optimizers(network, plan, rate)
    order = np.random.default_rng(plan.seed)
    n, n_labels = parts.labels.shape
    for _ in range(plan.epochs):
        for batch in np.array_split(order.permutation(n), max(1, n // BATCH)):
            targets = parts.labels[batch]
            options: dict[str, Tensor] = {}
            if plan.draws:
                drawn = samplers.uniform(n_labels, min(plan.draws, n_labels))
                ids, q = samplers.with_observed(drawn, targets, n_labels)
                options = {"candidates": ids, "sampling": q}
            for optimizer in optimizers:
                optimizer.zero_grad()
            hidden = network.encoder(*words(parts.features[batch]))
            network.output(hidden, targets, **options).backward()
            for optimizer in optimizers:
                optimizer.step()
        yield network


def _start(parts: Parts, p: Floats, plan: Plan) -> Network:
    normalized = plan.correction == "empirical_bayes"
    loss = MissingLabelLoss(
        p, correction=plan.correction, normalized=normalized,
        labels=parts.labels if normalized else None,
    )  # fmt: skip
    output = CorrectedOutput(WIDTH, loss, sparse=plan.draws > 0, chunk=2048)
    counts = np.bincount(parts.labels.indices, minlength=len(p))
    share = np.minimum((counts + UNSEEN) / parts.labels.shape[0], 0.5)
    assert output.bias is not None  # noqa: S101 - asked for
    output.bias.data[:, 0] = torch.as_tensor(np.log(share / (1 - share)))
    encoder = nn.EmbeddingBag(parts.features.shape[1], WIDTH, mode="sum", sparse=True)
    return Network(encoder, output)


def _optimizers(network: Network, plan: Plan, rate: float) -> list[torch.optim.Optimizer]:
    encoder, output = list(network.encoder.parameters()), list(network.output.parameters())
    if plan.draws:
        return [torch.optim.SparseAdam([*encoder, *output], lr=rate)]
    return [torch.optim.SparseAdam(encoder, lr=rate), torch.optim.Adam(output, lr=rate)]


def words(features: sp.csr_array) -> tuple[Tensor, Tensor, Tensor]:
    """Return the words of all rows, where each row begins, and the weights of the words."""
    numbers, starts = (
        torch.from_numpy(each.astype(np.int64)) for each in (features.indices, features.indptr[:-1])
    )
    return numbers, starts, torch.from_numpy(features.data.astype(np.float32))
