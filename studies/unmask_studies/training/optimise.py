"""One run: train by the paper's Adam or by our solver, say what can be promised, and measure.

A batch of 512 rows meets the weights of the model through two sparse products, X W and Xᵀ G; the
derivative G of the loss by the scores is `unmask.losses`' own; Adam's weight decay is the
derivative of (l2 / 2) ‖W‖². All batches of a repetition are the same for every run of it and are
kept, so a run costs little more than Adam's pass over the parameters.

`status` of a run by the converged solver: `converged`; `unfinished` where labels reached the
largest number of iterations; `diverged` where numbers overflow; `not convex` where no solver can
vouch for a minimum (then nothing is run). Of a run by Adam: `diverged` where the objective ends
above that of zero weights or is no number; otherwise `finished`, and `objective` beside that of the
converged run tells how far.

`runaway` counts labels whose bias alone drives the objective to −∞: the bias is outside the
penalty, and the loss falls without end in b where Σ pos < 0 (b → −∞) or, one-vs-all, Σ cut > n
(b → ∞). The converged solver then takes the bias into the penalty, and says so (`bias`).

A row is flat. Losses come on true labels and as unbiased estimates from observed ones (normalised
losses with their exact weights, so really unbiased):

    test/true/R@5       valid/seen/R@5/deconvolved       train/seen/loss       …
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from unmask import linear, losses
from unmask._typing import Array, Bools, Floats
from unmask.losses import Loss, Observed, _loss
from unmask.metrics import evaluate
from unmask.models.problem import FitLog
from unmask.predictions import TopK
from unmask.weights import Weights, unbiased, vanilla
from unmask.weights.corrections import with_values
from unmask_studies.study import Row
from unmask_studies.training.protocol import (
    BATCH,
    METHODS,
    METRICS,
    PARTS,
    PROBLEMS,
    RANKED,
    RATE,
    SETTINGS,
    TOP,
    WEIGHED,
    Problem,
    Trial,
    rate_for,
    weights_of,
)

EPOCHS, LATE, PRETRAINING = 20, 5, 10
LATE_RATE = 0.1  # of the last quarter of the epochs, as a share of the first
CERTAIN = -1e-4  # logarithm of the largest probability that a divided score stands for
KEPT = 30_000_000  # entries of all batches together up to which they are kept in memory
MAX_ITERATIONS = 40  # of the converged solver
RERANKED = ("ova-bce", "pal-cce", "pal-n-cce")
# Problems whose vanilla runs are also measured after division by the propensities.


@dataclass(frozen=True)
class Linear:
    """A linear model, W (features × labels) and bias."""

    weights: Tensor
    bias: Tensor

    @classmethod
    def of_arrays(cls, weights: Array, bias: Array) -> Linear:
        """Return the model from arrays, labels × features as solvers have them."""
        return cls(torch.as_tensor(weights).T.contiguous(), torch.as_tensor(bias))

    def scores(self, features: sp.csr_array) -> Tensor:
        """Return features · W + bias."""
        return torch.addmm(self.bias, _tensor(features), self.weights)

    @property
    def square(self) -> float:
        """‖W‖²."""
        return float((self.weights.double() ** 2).sum())

    @property
    def finite(self) -> bool:
        """True if every weight is a number."""
        return bool(self.weights.isfinite().all() and self.bias.isfinite().all())


@dataclass(frozen=True)
class Phase:
    """Some epochs with one loss and one set of weights, at a rate that falls for the last few."""

    loss: Callable[[int], Loss]
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


@contextmanager
def one_thread() -> Iterator[None]:
    """Sum alike however many threads there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _run(
    model: Linear, features: sp.csr_array, phase: Phase, l2: float, rate: float, seed: int,
    before: int,
) -> None:  # fmt: skip
    groups: list[dict[str, object]] = [
        {"params": [model.weights], "weight_decay": l2},
        {"params": [model.bias]},
    ]
    optimiser = torch.optim.Adam(groups, lr=rate, fused=True)
    model.weights.grad = gradient = torch.zeros_like(model.weights)
    entries = observed(phase.weights)
    for epoch in range(phase.epochs):
        late = epoch >= phase.epochs - phase.late
        for group in optimiser.param_groups:
            group["lr"] = rate * (LATE_RATE if late else 1.0)
        loss = phase.loss(epoch)
        for batch in _batches(features, seed, before + epoch):
            scores = torch.addmm(model.bias, batch.features, model.weights)
            pos = entries.pos[batch.rows]
            cut = pos if entries.cut is entries.pos else entries.cut[batch.rows]
            own = Observed(entries.index[batch.rows], pos, cut)
            slope = _loss.gradient(loss, scores, own).div_(len(batch.rows))
            torch.addmm(gradient, batch.transposed, slope, beta=0, out=gradient)
            model.bias.grad = slope.sum(0)
            optimiser.step()


def mean_loss(loss: Loss, scores: Tensor, entries: Observed) -> float:
    """Return the mean loss of rows, computed in single precision and summed in double."""
    return float(_loss.rows(loss, scores, entries).double().mean())


def divided(loss: Loss, scores: Tensor, divisor: Floats) -> tuple[Tensor, Tensor]:
    """Return scores whose probabilities are those of `scores` over `divisor`, and their logs.

    The scores go into losses: quotients above one count as almost one. The logarithms rank.
    """
    shift = torch.as_tensor(np.log(divisor), dtype=scores.dtype)
    if loss.reduction == "pal":
        return scores - shift, scores - shift
    chance = torch.nn.functional.logsigmoid(scores) - shift
    capped = chance.clamp(max=CERTAIN)
    return capped - torch.log(-torch.expm1(capped)), chance


def observed(weights: Weights) -> Observed:
    """Return `losses.observed` as tensors of single precision."""
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


def _batches(features: sp.csr_array, seed: int, epoch: int) -> Iterable[Batch]:
    if features.nnz * 30 > KEPT:
        return _shuffled(features, seed, epoch)
    return _same_batches(_Same(features), seed, epoch)


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
    return list(_shuffled(features.matrix, seed, epoch))


def _shuffled(features: sp.csr_array, seed: int, epoch: int) -> Iterator[Batch]:
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


# Runs


def by_adam(
    trial: Trial, problem: str, setting: str, l2: float, literal: bool = False
) -> Iterable[Row]:
    """Train by Adam at the rate that moves the weights as far as the paper's, or at its own."""
    rate = RATE if literal else rate_for(trial.train.true.shape[0])
    related = problem == "related"
    problem = "ova-bce" if related else problem
    name = WEIGHED.get(setting, "vanilla") if related else setting
    chosen, options = PROBLEMS[problem], SETTINGS[name]
    weights, plain = weights_of(options, chosen, trial), losses.get(chosen.loss)
    loss = METHODS[setting] if related else lambda _: plain
    phases = [Phase(loss, weights, EPOCHS, LATE)]
    if options.pretrained:
        first = weights_of(SETTINGS["vanilla"], chosen, trial)
        phases.insert(0, Phase(loss, first, PRETRAINING, 0))
    model = train(trial.train.features, phases, l2=l2, rate=rate, seed=trial.seed)
    if related:
        row: Row = {"rate": rate, "status": "finished" if model.finite else "diverged"}
    else:
        row = {**promises(plain, weights, chosen), "rate": rate}
        row |= objective(trial, plain, weights, model, l2)
    return judged(trial, problem, setting, model, row)


def by_solver(trial: Trial, problem: str, setting: str, l2: float) -> Iterable[Row]:
    """Train by our own solver, to the optimum, where the problem is convex.

    The pre-trained setting starts from the optimum of vanilla training instead of from nothing.
    """
    chosen, options = PROBLEMS[problem], SETTINGS[setting]
    weights, loss = weights_of(options, chosen, trial), losses.get(chosen.loss)
    row = promises(loss, weights, chosen)
    if not row["convex"]:
        return [row | {"status": "not convex"}]
    row["bias"] = "regularized" if row["runaway"] else "free"
    recipe = linear.Recipe(
        chosen.loss, chosen.reduction, correction=None, l2=l2, bias=row["bias"],
        max_iter=MAX_ITERATIONS,
    )  # fmt: skip
    first = None
    if options.pretrained:
        first, _ = solve(trial, recipe, weights_of(SETTINGS["vanilla"], chosen, trial))
    solution, log = solve(trial, recipe, weights, first)
    model = Linear.of_arrays(solution.weights, solution.bias)
    row |= objective(trial, loss, weights, model, l2, bias=row["bias"])
    row["unfinished"] = len(log.exhausted)
    row["turns"] = int(log.iterations.max())
    if row["status"] == "finished":
        row["status"] = "unfinished" if row["unfinished"] else "converged"
    return judged(trial, problem, setting, model, row)


def solve(
    trial: Trial, recipe: linear.Recipe, weights: Weights, first: linear.LinearModel | None = None
) -> tuple[linear.LinearModel, FitLog]:
    """Return the optimum, and how it was reached."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", linear.UnconvergedWarning)  # the row says so
        labels = with_values(weights.pos, np.ones(weights.pos.nnz, dtype=np.float32))
        return linear.train(trial.train.features, labels, recipe, weights=weights, first=first)


def promises(loss: Loss, weights: Weights, chosen: Problem) -> Row:
    """Return whether an objective is convex and bounded below, and how many biases run away."""
    about = loss.describe(weights, normalized=chosen.normalized)
    runaway = weights.pos.sum(axis=0) < 0
    if loss.reduction == "ova":
        runaway |= weights.cut.sum(axis=0) > weights.cut.shape[0]
    return {
        "convex": about.convex, "bounded": about.bounded_below,
        "largest_weight": about.largest_weight, "runaway": int(runaway.sum()),
    }  # fmt: skip


def objective(
    trial: Trial, loss: Loss, weights: Weights, model: Linear, l2: float, bias: str = "free"
) -> Row:
    """Return the training objective that was minimised, and whether that went well."""
    if not model.finite:
        return {"status": "diverged"}
    entries = observed(weights)
    scores = model.scores(trial.train.features)
    square = model.square + (float((model.bias.double() ** 2).sum()) if bias != "free" else 0.0)
    value = mean_loss(loss, scores, entries) + l2 / 2 * square
    start = mean_loss(loss, 0 * scores, entries)
    status = "finished" if value <= start else "diverged"
    return {"objective": value, "norm": model.square**0.5, "status": status}


def judged(trial: Trial, problem: str, setting: str, model: Linear, row: Row) -> list[Row]:
    """Return a run's rows: vanilla runs also have one for their post-processed ranking."""
    row |= {f"n_{part}": trial.parts[part].true.shape[0] for part in PARTS}
    row["n_features"] = trial.train.features.shape[1]
    if not model.finite:
        return [row]
    later = SETTINGS[setting].later if setting in SETTINGS else 0.0
    with one_thread():
        scores = {part: model.scores(trial.parts[part].features) for part in PARTS}
        rows = [row | measures(trial, problem, scores, later)]
        if setting == "vanilla" and problem in RERANKED:
            rows.append(row | measures(trial, problem, scores, 1.0) | {"setting": RANKED})
    return rows


def measures(trial: Trial, problem: str, scores: dict[str, Tensor], later: float) -> Row:
    """Return all measures of a model whose probabilities are to be divided by p^later."""
    loss, ranking, row = losses.get(PROBLEMS[problem].loss), scores, Row()
    if later:
        pairs = {
            part: divided(loss, each, trial.propensity**later) for part, each in scores.items()
        }
        scores, ranking = ({part: pair[i] for part, pair in pairs.items()} for i in (0, 1))
    for part in PARTS:
        for labels, entries in _entries(trial, problem, part).items():
            row[f"{part}/{labels}/loss"] = mean_loss(loss, scores[part], entries)
    top = {part: TopK.from_scores(ranking[part].numpy(), TOP) for part in ("valid", "test")}
    for part, metrics in (("valid", ["R@5"]), ("test", METRICS)):
        for each in evaluate(top[part], trial.parts[part].true, metrics=metrics):
            row[f"{part}/true/{each.metric}"] = each.value
    seen = evaluate(
        top["valid"], trial.parts["valid"].observed, trial.propensity,
        metrics=["R@5"], estimators=["deconvolved"],
    )  # fmt: skip
    row["valid/seen/R@5/deconvolved"] = seen["R@5", "deconvolved"].value
    if problem == "ova-bce":
        row |= decisions(scores["test"].numpy() > 0, trial.parts["test"].true)
    return row


@lru_cache(maxsize=16)
def _entries(trial: Trial, problem: str, part: str) -> dict[str, Observed]:
    """Weights that give the true loss on true labels, and its unbiased estimate on seen ones."""
    rows, chosen = trial.parts[part], PROBLEMS[problem]
    options: dict[str, Any] = {"normalized": chosen.normalized, "reduction": chosen.reduction}
    return {
        "true": observed(vanilla(rows.true, **options)),
        "seen": observed(unbiased(rows.observed, trial.propensity, **options)),
    }


def decisions(chosen: Bools, true: sp.csr_array) -> Row:
    """Return micro and macro F1 of sets of labels (a truth value for every row and label)."""
    relevant = true.toarray() > 0
    both = np.asarray(chosen & relevant).sum(0)
    total = np.asarray(chosen).sum(0) + relevant.sum(0)
    return {
        "test/true/micro-F1": float(2 * both.sum() / max(total.sum(), 1)),
        "test/true/macro-F1": float(np.mean(2 * both / np.maximum(total, 1))),
    }


OPTIMIZERS: dict[str, Callable[[Trial, str, str, float], Iterable[Row]]] = {
    "adam": by_adam,
    "adam, literal rate": partial(by_adam, literal=True),
    "converged": by_solver,
    "related work": by_adam,
}
