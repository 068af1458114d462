"""Tuning: the correction, the loss and C that are best for a metric, chosen on noisy rows.

    best = unmask.tune(x, labels, p, metric="R@5")
    best.recipe, best.model, best.table

Read on in `candidates` (what is tried), `judging` (by what, and when propensities are refuted),
`search` (in which order, on how many rows), `result` (what is returned), `trees` (label trees).
"""

from unmask.tuning.candidates import Family, recommended
from unmask.tuning.judging import Trust
from unmask.tuning.result import Because, Tuned
from unmask.tuning.search import Tried
from unmask.tuning.trees import TriedTree, TunedTree, tune_tree
from unmask.tuning.tune import tune

__all__ = [
    "Because",
    "Family",
    "Tried",
    "TriedTree",
    "Trust",
    "Tuned",
    "TunedTree",
    "recommended",
    "tune",
    "tune_tree",
]
