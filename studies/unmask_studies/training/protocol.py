"""Data and trainings: the protocol of the paper's training study, as data.

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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask import data, losses, propensity
from unmask._typing import Floats
from unmask.data import parts
from unmask.losses import Loss
from unmask.weights import CORRECTIONS, Weights
from unmask.weights.corrections import with_values
from unmask_studies.data import counts_of, split_of
from unmask_studies.study import DataSets, Unit
from unmask_studies.training import related_work

LABELS, VALIDATION, TOP = 100, 0.3, 5
METRICS = tuple(f"{name}@{k}" for name in ("P", "R") for k in (1, 3, 5))
BATCH, RATE = 512, 1e-4
PAPER_STEPS = 1622  # steps of an epoch on AmazonCat-13K: ⌈0.7 · 1,186,239 / 512⌉
PARTS = ("train", "valid", "test")
PLANTED = 20_000  # rows that are made where there are no files and no other limit
DEFAULT = "debtags-bookworm"
SOLVED_ABOVE = 1e-6  # below, the solver's time grows and no setting has its optimum
LITERAL = ("vanilla", "unbiased")
# Settings that are also trained at the paper's own rate, for one repetition.
SIZES = {"tiny": (1, 2, 400), "small": (2, 4, 8000), "paper": (5, 11, None)}
# Repetitions, steps of the grid, and at most how many training rows (None: all).


def rate_for(rows: int) -> float:
    """Return the rate at which so many training rows move the weights as far as the paper's did.

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
        """Return strengths of regularisation, largest first; squared hinge needs 25 times more."""
        shift = 1.4 if self.loss == "squared_hinge" else 0.0
        return [float(l2) for l2 in (10 ** (np.linspace(0, -7, steps) + shift)).round(12)]


# The six losses of the paper's comparison, by the name that `--losses` takes.
PROBLEMS = {
    "ova-bce": Problem("OvA BCE", "logistic", False),
    "ova-n-bce": Problem("OvA-N BCE", "logistic", True),
    "ova-sqh": Problem("OvA squared hinge", "squared_hinge", False),
    "ova-n-sqh": Problem("OvA-N squared hinge", "squared_hinge", True),
    "pal-cce": Problem("PAL CCE", "softmax", False),
    "pal-n-cce": Problem("PAL-N CCE", "softmax", True),
}


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


# a) to d) and c') are the paper's, e) to g) ours (tempered: τ = 1/2).
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
# The setting under which rows go that correct vanilla training at prediction only.
RANKED = "vanilla, ranked by probability / propensity"


def settings_of(problem: Problem) -> list[Setting]:
    """Return those that exist and differ.

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


# Losses of related work by the name that tables give them: of an epoch, counted from 0.
METHODS: dict[str, Callable[[int], Loss]] = {
    "nnPU": lambda _: related_work.non_negative(),
    "ASL": lambda _: related_work.asymmetric(),
    "Hill": lambda _: related_work.hill(),
    "SPLC": lambda epoch: related_work.self_paced(epoch=epoch),
    "LL-R": lambda epoch: related_work.large_loss_rejection(epoch=epoch + 1),
    "label smoothing": lambda _: related_work.label_smoothing(),
    "sigmoid (robust)": lambda _: related_work.sigmoid(),
    "unhinged (robust)": lambda _: related_work.unhinged(),
}
WEIGHED = {"nnPU": "unbiased"}  # the correction of a method's weights; of the others, vanilla


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
    propensity: Floats
    seed: int

    @property
    def train(self) -> Rows:
        """The training part."""
        return self.parts["train"]


_rows = lru_cache(maxsize=2)(split_of)


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
    """Return the data of one repetition: at most n training rows of a folder, or planted ones.

    Repetitions differ in split and masks; every run of a repetition sees the same ones, so that
    differences between runs can be taken pair by pair.
    """
    rows = _rows(folder, n or PLANTED, seed)
    frequent = np.argsort(-counts_of(rows.train_labels), kind="stable")[:labels]
    true_labels, fresh = rows.train_labels[:, frequent], rows.test_labels[:, frequent]
    p = propensity.inverse_linear(true_labels, head=head, tail=tail)
    own = [seed, repetition]
    masks = [int(s) for s in np.random.default_rng([*own, 1]).integers(2**31, size=2)]
    order = np.random.default_rng([*own, 2]).permutation(true_labels.shape[0])[:n]
    valid, train = np.split(order, [round(VALIDATION * len(order))])
    observed = data.hide(true_labels, p, seed=masks[0])
    chosen = {
        name: Rows(rows.train_features[some], true_labels[some], observed[some])
        for name, some in (("train", np.sort(train)), ("valid", np.sort(valid)))
    }
    chosen["test"] = Rows(rows.test_features, fresh, data.hide(fresh, p, seed=masks[1]))
    return Trial(chosen, p, int(np.random.default_rng([*own, 3]).integers(2**31)))


def weights_of(setting: Setting, problem: Problem, trial: Trial) -> Weights:
    """Return the weights of the training rows."""
    labels = trial.train.true if setting.clean else trial.train.observed
    options = {"normalized": problem.normalized, "reduction": problem.reduction}
    weights = CORRECTIONS[setting.correction](labels, trial.propensity, **options)
    return smoothed(weights, trial.propensity, setting.later)


def smoothed(weights: Weights, p: Floats, later: float) -> Weights:
    """Return the weights times p^later; with `later` 0 they are returned as they are.

    >>> from unmask.weights import unbiased
    >>> p = np.array([0.25, 1.0])
    >>> smoothed(unbiased([[1, 1]], p), p, 0.5).pos.toarray()
    array([[2., 1.]])
    """
    if not later:
        return weights
    factor = p[weights.pos.indices] ** later
    pos = with_values(weights.pos, weights.pos.data * factor)
    if weights.cut is weights.pos:
        return Weights(pos, pos)
    return Weights(pos, with_values(pos, weights.cut.data * factor))


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """Return all runs, those of one repetition together: optimiser, problem, setting, l2."""
    repetitions, steps, rows = SIZES[size]
    shared = {"folder": None if size == "tiny" else folder_of(data), "n": rows, "seed": seed}
    names = ("optimizer", "problem", "setting", "l2")
    return [
        {**shared, "repetition": repetition, **dict(zip(names, run, strict=True))}
        for repetition in range(repetitions)
        for run in _runs(steps, repetition)
    ]


def _runs(steps: int, repetition: int) -> Iterator[tuple[str, str, str, float]]:
    for optimizer in ("converged", "adam"):
        for name, problem in PROBLEMS.items():
            for setting in settings_of(problem):
                for l2 in problem.grid(steps):
                    if optimizer == "adam" or l2 > SOLVED_ABOVE:
                        yield optimizer, name, setting.series, l2
    grid = PROBLEMS["ova-bce"].grid(steps)
    yield from (("related work", "related", method, l2) for method in METHODS for l2 in grid)
    if repetition == 0:
        for series in LITERAL:
            yield from (("adam, literal rate", "ova-bce", series, l2) for l2 in grid)


def folder_of(data: DataSets | None) -> Path | None:
    """Return the data set: the folder itself, or the default one in it; none makes planted rows."""
    if data is None:
        return None
    if DEFAULT in data.names:
        return data.path(DEFAULT)
    if data.folder is None:
        return data.path(min(data.names))
    present = parts(data.folder) if data.folder.is_dir() else ()
    if not {"train", "test"} <= set(present):
        raise ValueError(
            f"{data.folder} holds neither {DEFAULT} nor a train and a test part; name the folder "
            "of a data set, or leave --data out for planted rows."
        )
    return data.folder
