"""What is evaluated: rankings, sets and scores, and which metrics fit them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import scipy.sparse as sp

from unmask._typing import ScoresLike
from unmask.arrays import LabelSets, TopK, checks
from unmask.metrics.registry import METRICS, split

Predictions: TypeAlias = "TopK | LabelSets | ScoresLike"
"""The best labels of every row, a set of them, or scores of all."""

OF_SETS = ("sample-P", "sample-R", "sample-F1", "micro-P", "micro-R", "micro-F1", "macro-F1")
"""What is estimated of sets if nothing is said."""


def of_scores(metrics: Sequence[str]) -> list[str]:
    """Those of the metrics that read the scores of every label."""
    return [name for name in metrics if METRICS[split(name)[0]].reads != "list"]


def refuse_ignored(metrics: Sequence[str], ignored: int) -> None:
    """Raise where pairs are to be ignored and a metric counts every pair."""
    counting = of_scores([name for name in metrics if name.partition("@")[0] in METRICS])
    if ignored and counting:
        raise ValueError(
            f"{', '.join(counting)} count every pair of a row and a label, but {ignored:,} pairs "
            "are to be ignored; leave out these metrics, or the judgements."
        )


def as_top(top: Predictions, metrics: Sequence[str]) -> TopK:
    """`top`; of scores as many of the best as the metrics look at; sets as lists without order."""
    if isinstance(top, TopK):
        return top
    names = [(name, *split(name)) for name in metrics]
    if isinstance(top, LabelSets):
        _refuse_order(names)
        return top.as_top()
    n_labels = checks.width(top, "scores")
    _refuse_all_labels(names, sparse=bool(sp.issparse(top)))
    longest = max(k or n_labels for _, _, k in names)
    return TopK.from_scores(top, min(longest, n_labels))


def _refuse_order(names: Sequence[tuple[str, str, int | None]]) -> None:
    for name, metric, k in names:
        if k is not None or not METRICS[metric].of_sets:
            fitting = ", ".join(OF_SETS)
            raise ValueError(
                f"{name} needs an order, and sets have none; give scores or a TopK, or ask for "
                f"metrics of sets, such as {fitting}."
            )


def _refuse_all_labels(names: Sequence[tuple[str, str, int | None]], *, sparse: bool) -> None:
    for name, metric, k in names:
        if k is None and METRICS[metric].of_sets and not sparse:
            raise ValueError(
                f"{name} needs to know which labels are predicted; give "
                f"`LabelSets.from_scores(scores, threshold)`, or cut the ranking, like {name}@5."
            )
