"""What is trained on what: the protocol of the paper's training study, as data.

The 100 most frequent labels; 1/p linear in the rank, 2 for the most frequent and 20 for the rarest;
labels hidden in train, validation and test; 30 % of the training rows kept for validation; a linear
model with a bias, and for every loss

    mean over rows of the loss + (l2 / 2) ‖W‖²,        the bias outside the penalty,

where the loss of a row is the sum over its labels. A `Problem` is a base loss with its reduction, a
`Setting` says which labels it sees and how they are weighed; a run is one problem, one setting, one
l2 and one repetition (its own split and masks), by one of two optimisers.

Other people's answers to missing labels (`METHODS`) go through the same protocol: each is a
one-vs-all loss with its authors' constants and the weights it is meant for; what changes from epoch
to epoch is remade at the start of each. A loss for noise of known rates (`class_conditional`) is
not among them: for missing labels it is the unbiased loss itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask import data, losses, propensity
from unmask.losses import Loss, related_work
from unmask.weights import CORRECTIONS, Weights
from unmask.weights.corrections import with_values
from unmask_studies import models

LABELS = 100
VALIDATION = 0.3
TOP = 5
METRICS = tuple(f"{name}@{k}" for name in ("P", "R") for k in (1, 3, 5))
BATCH = 512
RATE = 1e-4
PAPER_STEPS = 1622
"""Steps of an epoch on AmazonCat-13K: ⌈0.7 · 1,186,239 / 512⌉."""
PARTS = ("train", "valid", "test")
PLANTED = 20_000
"""Rows that are made where there are no files and no other limit."""


def rate_for(rows: int) -> float:
    """The rate at which so many training rows move the weights as far as the paper's did.

    The paper's Adam moves at 1e-4 for 15 epochs and 1e-5 for five. Adam moves a weight by about
    the rate at every step, whatever the size of the gradient, so where an epoch has fewer steps
    the same rate leaves the model near zero; this keeps steps × rate.

    >>> rate_for(830_367)
    0.0001
    """
    return RATE * PAPER_STEPS / -(-rows // BATCH)


@dataclass(frozen=True)
class Problem:
    """A base loss (a name of `losses.LOSSES`), normalised or not, and what figures call it."""

    title: str
    loss: str
    normalized: bool

    @property
    def reduction(self) -> str:
        """`ova` or `pal`."""
        return losses.get(self.loss).reduction

    def grid(self, steps: int) -> list[float]:
        """The strengths of regularisation, largest first; squared hinge needs 25 times as much."""
        shift = 1.4 if self.loss == "squared_hinge" else 0.0
        return [float(l2) for l2 in (10 ** (np.linspace(0, -7, steps) + shift)).round(12)]


PROBLEMS = {
    "ova-bce": Problem("OvA BCE", "logistic", False),
    "ova-n-bce": Problem("OvA-N BCE", "logistic", True),
    "ova-sqh": Problem("OvA squared hinge", "squared_hinge", False),
    "ova-n-sqh": Problem("OvA-N squared hinge", "squared_hinge", True),
    "pal-cce": Problem("PAL CCE", "softmax", False),
    "pal-n-cce": Problem("PAL-N CCE", "softmax", True),
}
"""The six losses of the paper's comparison, by the name that `--losses` takes."""


@dataclass(frozen=True)
class Setting:
    """Which labels are trained on, by which correction, and whether vanilla comes first.

    `series` is its name in figures, the same in all of them. `later` moves that power of p out of
    the weights: they are multiplied by p^later, and labels ranked by probability / p^later.
    """

    mark: str
    correction: str
    series: str
    clean: bool = False
    pretrained: bool = False
    later: float = 0.0


SETTINGS = {
    setting.series: setting
    for setting in (
        Setting("a", "vanilla", "clean", clean=True),
        Setting("b", "vanilla", "vanilla"),
        Setting("c", "unbiased", "unbiased"),
        Setting("c'", "unbiased", "pretrained", pretrained=True),
        Setting("d", "bound", "bound"),
        Setting("e", "empirical_bayes", "empirical_bayes"),
        Setting("f", "tempered", "tempered"),
        Setting("g", "empirical_bayes", "halved", later=0.5),
    )
}
"""a) to d) and c') are the paper's, e) to g) ours (tempered: τ = 1/2)."""

RANKED = "vanilla, ranked by probability / propensity"
"""The setting under which rows go that correct vanilla training at prediction only."""


def settings_of(problem: Problem) -> list[Setting]:
    """Those that exist and differ.

    There is no plain empirical Bayes; the plain PAL bound is the unbiased weight; pre-training is
    the paper's remedy for normalised BCE; margins of a hinge are no probabilities to divide by p.
    """
    left_out = set() if problem.normalized else {"empirical_bayes", "halved"}
    if problem.loss != "logistic" or not problem.normalized:
        left_out.add("pretrained")
    if problem.loss == "squared_hinge":
        left_out.add("halved")
    if problem.reduction == "pal" and not problem.normalized:
        left_out.add("bound")
    return [setting for name, setting in SETTINGS.items() if name not in left_out]


@dataclass(frozen=True)
class Rows:
    """One part of the data: features, the true labels, and those left to see."""

    features: sp.csr_array
    true: sp.csr_array
    observed: sp.csr_array


@dataclass(frozen=True, eq=False)
class Trial:
    """One repetition: the three parts, by name, and the propensities."""

    parts: dict[str, Rows]
    propensity: NDArray[np.float64]
    seed: int

    @property
    def train(self) -> Rows:
        """The training part."""
        return self.parts["train"]


@lru_cache(maxsize=2)
def trial(
    folder: Path | None,
    repetition: int,
    seed: int,
    n: int | None,
    labels: int = LABELS,
    head: float = 2.0,
    tail: float = 20.0,
) -> Trial:
    """The data of one repetition: at most n training rows of a folder or, without one, planted.

    Repetitions differ in split and masks; every run of a repetition sees the same ones, so that
    differences between runs can be taken pair by pair.
    """
    rows = _rows(folder, seed, n)
    counts = np.bincount(rows.train_labels.indices, minlength=rows.train_labels.shape[1])
    frequent = np.argsort(-counts, kind="stable")[:labels]
    true_labels, fresh = rows.train_labels[:, frequent], rows.test_labels[:, frequent]
    p = propensity.inverse_linear(true_labels, head=head, tail=tail)
    own = [seed, repetition]
    masks = [int(s) for s in np.random.default_rng([*own, 1]).integers(2**31, size=2)]
    order = np.random.default_rng([*own, 2]).permutation(true_labels.shape[0])[:n]
    valid, train = np.split(order, [round(VALIDATION * len(order))])
    observed = data.hide(true_labels, p, seed=masks[0])
    parts = {
        name: Rows(rows.train_features[chosen], true_labels[chosen], observed[chosen])
        for name, chosen in (("train", np.sort(train)), ("valid", np.sort(valid)))
    }
    parts["test"] = Rows(rows.test_features, fresh, data.hide(fresh, p, seed=masks[1]))
    return Trial(parts, p, int(np.random.default_rng([*own, 3]).integers(2**31)))


@lru_cache(maxsize=2)
def _rows(folder: Path | None, seed: int, n: int | None) -> models.Split:
    return models.split_of(folder) if folder else models.planted(n or PLANTED, seed)


def weights_of(setting: Setting, problem: Problem, trial: Trial) -> Weights:
    """The weights of the training rows."""
    labels = trial.train.true if setting.clean else trial.train.observed
    weigh = CORRECTIONS[setting.correction]
    options = {"normalized": problem.normalized, "reduction": problem.reduction}
    return smoothed(weigh(labels, trial.propensity, **options), trial.propensity, setting.later)


def smoothed(weights: Weights, p: NDArray[np.float64], later: float) -> Weights:
    """The weights times p^later; with `later` 0 they are returned as they are.

    >>> from unmask.weights import unbiased
    >>> p = np.array([0.25, 1.0])
    >>> smoothed(unbiased([[1, 1]], p), p, 0.5).pos.toarray()
    array([[2., 1.]])
    """
    if not later:
        return weights
    factor = p**later
    pos = with_values(weights.pos, weights.pos.data * factor[weights.pos.indices])
    if weights.cut is weights.pos:
        return Weights(pos, pos)
    return Weights(pos, with_values(pos, weights.cut.data * factor[pos.indices]))


@dataclass(frozen=True)
class Method:
    """The loss of an epoch, counted from 0, and the correction of its weights."""

    loss: Callable[[int], Loss]
    correction: str = "vanilla"


METHODS: dict[str, Method] = {
    "nnPU": Method(lambda _: related_work.non_negative(), "unbiased"),
    "ASL": Method(lambda _: related_work.asymmetric()),
    "Hill": Method(lambda _: related_work.hill()),
    "SPLC": Method(lambda epoch: related_work.self_paced(epoch=epoch)),
    "LL-R": Method(lambda epoch: related_work.large_loss_rejection(epoch=epoch + 1)),
    "label smoothing": Method(lambda _: related_work.label_smoothing()),
    "sigmoid (robust)": Method(lambda _: related_work.sigmoid()),
    "unhinged (robust)": Method(lambda _: related_work.unhinged()),
}
"""By the name that tables give them."""
