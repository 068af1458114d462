"""Training on incomplete labels: every loss, reduction and correction, by two optimisers.

The paper's training study and what lies beyond it: `protocol` says what is trained on what,
`optimise` how (it alone imports torch, when a unit is measured), `statements` what the paper and we
say and whether the rows confirm it, `page` draws.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from unmask.arrays import checks
from unmask_studies.study import DataSets, Row, Study, Unit
from unmask_studies.training.page import answer, draw
from unmask_studies.training.protocol import PROBLEMS, SETTINGS, trial, units

__all__ = ["LOSSES", "ON_NEWS", "TRAINING", "only"]
SECOND = "truth/rcv1-topics-30k"
# News, and far denser features than package descriptions; the losses that lead on the first.
ON_SECOND = ("ova-bce", "pal-n-cce")
LOSSES = (*PROBLEMS, "related")  # what `only` can choose from


def measure(
    folder: Path | None, n: int | None, seed: int, repetition: int, optimizer: str, problem: str,
    setting: str, l2: float,
) -> Iterable[Row]:  # fmt: skip
    """Train and measure; vanilla runs also give a row for their post-processed ranking.

    Data: the 100 most frequent labels, 1/p linear from 2 (most frequent) to 20; labels hidden in
    training, validation and test rows; repetitions have their own split and masks. A linear model
    with a bias; the mean over rows of the loss (a sum over labels) plus (l2/2)‖W‖², the bias
    outside; values of l2 from 1 to 1e-7, 25 times as large for squared hinge.

    Settings: a) vanilla on clean labels; b) vanilla, c) unbiased (exact normalised weights), d)
    bound, on observed labels; c') unbiased after ten epochs of vanilla training; e) empirical
    Bayes; f) tempered, τ = 1/2; g) halved: empirical-Bayes weights times √p in training, labels
    ranked by probability / √p.

    Adam: batches of 512, 15 epochs, then five at a tenth of the rate. The paper's rate of 1e-4
    belongs to 1,622 steps an epoch; the rate is scaled to keep steps × rate, the distance that a
    weight can move. Converged: the truncated Newton solver of `unmask.linear`, for the convex cases
    and l2 above 1e-6.

    Better means beyond the spread: the mean of the differences, repetition by repetition with the
    same split and masks, exceeds their standard deviation; where they straddle zero a statement is
    undecided. Effects are these means with 95 % intervals (Student's t over repetitions). The first
    statements are the paper's, with its optimiser (Adam) and its rule (l2 by the unbiased loss);
    those about empirical Bayes, halved and ranked are ours, with the converged solver and l2 chosen
    by deconvolved R@5. Related methods are one-vs-all with their authors' constants.
    """
    try:
        from unmask_studies.training.optimise import OPTIMIZERS
    except ModuleNotFoundError as error:
        raise ValueError(
            f"the training study needs PyTorch ({error}); install unmask[torch]."
        ) from error
    marks = {"mark": SETTINGS[setting].mark} if setting in SETTINGS else {}
    for row in OPTIMIZERS[optimizer](trial(folder, repetition, seed, n), problem, setting, l2):
        yield {**marks, **row}


TRAINING = Study(
    "training", "Training when most labels are missing",
    "What do corrections give back to a model that never saw most labels?",
    units, measure, draw, answer,
)  # fmt: skip


def only(losses: list[str]) -> Study:
    """Return the study of some losses; their rows are those that they have in the whole study.

    Parameters
    ----------
    losses : list of str
        Names in `LOSSES`.

    Returns
    -------
    Study

    Raises
    ------
    ValueError
        If there is no such loss.

    Examples
    --------
    >>> {unit["problem"] for unit in only(["ova-bce"]).units("tiny", 0, None)}
    {'ova-bce'}
    """
    for name in losses:
        checks.one_of(name, LOSSES, "loss")

    def some(size: str, seed: int, data: DataSets | None) -> list[Unit]:
        return [unit for unit in units(size, seed, data) if unit["problem"] in losses]

    return replace(TRAINING, units=some)


def _second(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """The converged runs of `ON_SECOND` on the second collection; tiny: of the first, planted."""
    losses = ON_SECOND[:1] if size == "tiny" else ON_SECOND
    some = [u for u in units(size, seed, None)
            if u["problem"] in losses and u["optimizer"] == "converged"]  # fmt: skip
    if data is None or size == "tiny":
        return some
    name = SECOND.rpartition("/")[2]
    folder = data.path(name if name in data.names else SECOND)
    return [{**unit, "folder": folder} for unit in some]


ON_NEWS = replace(
    TRAINING, name="training-news", units=_second,
    title="Training when most labels are missing: news",
    question="Does what holds for package descriptions hold for news?",
)  # fmt: skip
