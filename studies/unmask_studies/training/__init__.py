"""Training on incomplete labels: every loss, reduction and correction, by two optimisers.

The paper's training study and what lies beyond it. Read on in `protocol` (what is trained on what),
`adam` and `running` (how), `judging` (what is measured), `study` (the units of work), `choosing`
(from rows to results), `statements`, `figures`, `tables` and `drawing` (what they say). Only `adam`
imports torch, and only when a unit is measured.
"""

from dataclasses import replace

from unmask import _validation
from unmask_studies.runs import DataSets, Study, Unit
from unmask_studies.training.drawing import draw
from unmask_studies.training.protocol import PROBLEMS
from unmask_studies.training.study import measure, units

STUDY = Study("training", "every loss, reduction and correction on real text", units, measure, draw)
SECOND = "truth/rcv1-topics-30k"
"""The second text collection: news, and far denser features than package descriptions."""
ON_SECOND = ("ova-bce", "pal-n-cce")
"""The losses that lead on the first."""
LOSSES = (*PROBLEMS, "related")
"""What `only` can choose from."""


def only(losses: list[str]) -> Study:
    """The study of some losses; their rows are those that they have in the whole study.

    >>> {unit["problem"] for unit in only(["ova-bce"]).units("tiny", 0, None)}
    {'ova-bce'}
    """
    for name in losses:
        _validation.one_of(name, LOSSES, "loss")

    def some(size: str, seed: int, data: DataSets | None) -> list[Unit]:
        return [unit for unit in units(size, seed, data) if unit["problem"] in losses]

    return replace(STUDY, units=some)


def _second(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """The converged runs of `ON_SECOND` on the second collection; tiny: of the first, planted."""
    losses = ON_SECOND[:1] if size == "tiny" else ON_SECOND
    some = [
        unit
        for unit in units(size, seed, None)
        if unit["problem"] in losses and unit["optimizer"] == "converged"
    ]
    if data is None or size == "tiny":
        return some
    name = SECOND.rpartition("/")[2]
    folder = data.path(name if name in data.names else SECOND)
    return [{**unit, "folder": folder} for unit in some]


ON_NEWS = Study("training-news", "the same on news: a stand-in for RCV1-2K", _second, measure, draw)

__all__ = ["LOSSES", "ON_NEWS", "STUDY", "only"]
