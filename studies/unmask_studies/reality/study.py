"""The units of the study and how one is measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unmask_studies.reality import estimates
from unmask_studies.reality.pairs import PAIRS, Pair, folders_of, pair_of
from unmask_studies.reality.shapes import shapes
from unmask_studies.reality.systems import SYSTEMS, system
from unmask_studies.reality.training import findings, trainings
from unmask_studies.runs import DataSets, Row, Unit


@dataclass(frozen=True)
class Size:
    """How much is done.

    Parameters
    ----------
    measured, audited : int
        Audits that are measured, and of which mask models are made.
    largest : int
        Rows of the largest audit.
    systems : int
        How many of the `SYSTEMS` are evaluated.
    draws : int
        Vectors that are drawn from an estimated mask model.
    """

    measured: int
    audited: int
    largest: int
    systems: int
    draws: int


SIZES = {
    "tiny": Size(measured=1, audited=1, largest=50, systems=2, draws=3),
    "small": Size(measured=10, audited=1, largest=200, systems=3, draws=25),
    "paper": Size(measured=40, audited=3, largest=400, systems=3, draws=25),
}
ROWS_DIAGNOSED = 200
WIDE = 500
"""Labels from which on only two trainings are compared, and findings made in one round."""


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """Per pair: what is stated, every draw of an audit, and what training is worth."""
    chosen = SIZES[size]
    folders: list[Path | None] = [*(folders_of(data) if size != "tiny" else [])]
    return [
        {"folder": folder, "draw": seed + draw, "part": part, "largest": chosen.largest,
         "systems": chosen.systems, "draws": chosen.draws}
        for folder in folders or [None]
        for part, draws in _parts(folder, chosen).items()
        for draw in range(draws)
    ]  # fmt: skip


def _parts(folder: Path | None, size: Size) -> dict[str, int]:
    if folder is not None and not PAIRS[folder.name].features:
        return {"labels": 1}
    return {"stated": 1, "measured": size.measured, "audited": size.audited, "training": 1}


def measure(
    folder: Path | None, draw: int, part: str, largest: int, systems: int, draws: int
) -> Iterator[Row]:
    """The rows of one part of a pair."""
    pair = pair_of(folder)
    if part == "labels":
        yield from _labels(pair, draw)
        return
    if part == "training":
        quick = largest < ROWS_DIAGNOSED or pair.observed.shape[1] > WIDE
        yield from trainings(pair, draw, quick)
        yield from findings(pair, draw, quick)
        return
    tops = {name: system(folder, name)[1] for name in SYSTEMS[:systems]}
    if part == "stated":
        yield from shapes(pair)
        yield from estimates.stated(pair, tops, draws)
        yield from estimates.wrong_labels(pair, tops["vanilla"], draw)
    elif part == "measured":
        yield from estimates.measured(pair, tops, draw, largest)
    else:
        scores = estimates.candidate_scores(system(folder, "vanilla")[0], pair, tops["vanilla"])
        yield from estimates.audited(pair, tops, scores, draw, largest, draws)


def _labels(pair: Pair, draw: int) -> Iterator[Row]:
    """A pair of labels alone: the shape of its propensities, and what a diagnosis says."""
    yield from shapes(pair)
    rng = np.random.default_rng(draw)
    rows = np.sort(rng.choice(pair.observed.shape[0], ROWS_DIAGNOSED, replace=False))
    yield from estimates.diagnosed(pair, None, rows, ROWS_DIAGNOSED)
