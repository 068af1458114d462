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


__all__ = ["LOSSES", "STUDY", "only"]
