"""Tuning: the correction, the loss and C that are best for a metric, chosen on noisy rows.

    best = unmask.tune(x, labels, p, metric="R@5")
    best.recipe, best.model, best.table

The source stands in `unmask.models`: `search` (what is tried, in which order, on how many rows),
`judging` (by what, and when propensities are refuted), `tune` (what is chosen, and returned).
"""

from unmask.models.search import recommended
from unmask.models.tune import Tuned, tune, tune_tree

__all__ = ["Tuned", "recommended", "tune", "tune_tree"]
