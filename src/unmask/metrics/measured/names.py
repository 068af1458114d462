"""The metrics that an audit can measure, by name.

All metrics over rows of the registry, and counts over all pairs, which need an audit here:

    micro-P@k = hits / predictions,    micro-R@k = hits / true labels,
    micro-F1@k = 2 · hits / (predictions + true labels),    each summed over all rows
"""

from __future__ import annotations

import re

from unmask.metrics.registry import METRICS, split

MICRO = ("micro-P", "micro-R", "micro-F1")
"""Metrics of pairs, summed over all rows."""
LINEAR = frozenset({"P", "DCG", *MICRO})
"""Metrics that add up pairs (or divide such sums): judged pairs anywhere measure them."""


def split_name(name: str) -> tuple[str, int | None]:
    """A metric's name and its k; as `registry.split`, for measured metrics.

    >>> split_name("micro-R@5"), split_name("R@5")
    (('micro-R', 5), ('R', 5))
    """
    matched = re.fullmatch(r"(micro-(?:P|R|F1))@([1-9][0-9]*)", name)
    if matched:
        return matched[1], int(matched[2])
    metric, k = split(name)
    if METRICS[metric].over != "rows":
        raise ValueError(f"{name} is not measured by an audit; use one of: {measurable()}.")
    return metric, k


def measurable() -> str:
    """The names of all measured metrics, for messages."""
    over_rows = [name for name, metric in METRICS.items() if metric.over == "rows"]
    return ", ".join([*over_rows, *MICRO])
