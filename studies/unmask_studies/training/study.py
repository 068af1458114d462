"""The units of the study and how one is measured; see `protocol` for what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from unmask.data import parts
from unmask_studies.runs import DataSets, Row, Unit
from unmask_studies.training.ablations import TRIED
from unmask_studies.training.protocol import METHODS, PROBLEMS, SETTINGS, settings_of, trial

DEFAULT = "debtags-bookworm"
SOLVED_ABOVE = 1e-6
"""Below, the solver's time grows and no setting has its optimum."""
TRIED_BELOW = 1e-4
"""Between the two lie the optima of all that was tried for PAL-N."""
LITERAL = ("vanilla", "unbiased")
"""Settings that are also trained at the paper's own rate, for one repetition."""


@dataclass(frozen=True)
class Size:
    """Repetitions, steps of the grid, and at most how many training rows (None: all)."""

    repetitions: int
    steps: int
    rows: int | None


SIZES = {"tiny": Size(1, 2, 400), "small": Size(2, 4, 8000), "paper": Size(5, 11, None)}
"""A tiny study is on planted rows whatever data there are."""


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """All runs, those of one repetition together: optimiser, problem, setting, l2."""
    chosen = SIZES[size]
    shared = {"folder": None if size == "tiny" else folder_of(data), "n": chosen.rows, "seed": seed}
    return [
        shared | {"repetition": repetition} | run
        for repetition in range(chosen.repetitions)
        for run in _runs(chosen.steps, repetition)
    ]


def folder_of(data: DataSets | None) -> Path | None:
    """The data set: the folder itself, or the default one in it; none makes planted rows."""
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


def _runs(steps: int, repetition: int) -> Iterator[Unit]:
    for optimizer in ("converged", "adam"):
        for name, problem in PROBLEMS.items():
            for setting in settings_of(problem):
                for l2 in problem.grid(steps):
                    if optimizer == "adam" or l2 > SOLVED_ABOVE:
                        yield _unit(optimizer, name, setting.series, l2)
    grid = PROBLEMS["ova-bce"].grid(steps)
    for name in TRIED:
        between = (l2 for l2 in grid if SOLVED_ABOVE < l2 < TRIED_BELOW)
        yield from (_unit("converged", "pal-n-cce", name, l2) for l2 in between)
    for method in METHODS:
        yield from (_unit("related work", "related", method, l2) for l2 in grid)
    if repetition == 0:
        for series in LITERAL:
            yield from (_unit("adam, literal rate", "ova-bce", series, l2) for l2 in grid)


def _unit(optimizer: str, problem: str, setting: str, l2: float) -> Unit:
    return {"optimizer": optimizer, "problem": problem, "setting": setting, "l2": l2}


def measure(
    folder: Path | None,
    n: int | None,
    seed: int,
    repetition: int,
    optimizer: str,
    problem: str,
    setting: str,
    l2: float,
) -> Iterable[Row]:
    """Train and measure; vanilla runs also give a row for their post-processed ranking."""
    try:
        from unmask_studies.training.runs import OPTIMIZERS
    except ModuleNotFoundError as error:
        raise ValueError(
            f"the training study needs PyTorch ({error}); install unmask[torch]."
        ) from error
    trial_data = trial(folder, repetition, seed, n)
    marks = {"mark": SETTINGS[setting].mark} if setting in SETTINGS else {}
    for row in OPTIMIZERS[optimizer](trial_data, problem, setting, l2):
        yield marks | dict(row)
