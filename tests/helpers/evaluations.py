"""Rows to evaluate, and short ways to ask for estimates."""

from __future__ import annotations

from typing import Any

import numpy as np

from unmask.metrics import evaluate
from unmask.metrics.comparison import Ranking
from unmask.metrics.estimates import Summary
from unmask.metrics.evaluation import summarized
from unmask.metrics.request import Request
from unmask.predictions import TopK

L = 8


def rows_of(n: int, seed: int = 0) -> tuple[TopK, np.ndarray, np.ndarray]:
    """Predictions and observed labels of n rows; the last label is never seen or predicted."""
    rng = np.random.default_rng(seed)
    true = rng.random((n, L)) < 0.35
    true[:, -1] = False
    propensity = np.linspace(0.4, 1, L)
    scores = true + rng.random((n, L))
    scores[:, -1] = -1
    seen = true & (rng.random((n, L)) < propensity)
    return TopK.from_scores(scores, 3), seen.astype(int), propensity


def part(top: TopK, rows: slice) -> TopK:
    return TopK(top.labels[rows], top.scores[rows])


def one(top: Any, labels: Any, propensity: Any, metric: str, estimator: str, **more: Any) -> Any:
    table = evaluate(top, labels, propensity, metrics=[metric], estimators=[estimator], **more)
    return table[metric, estimator]


def summary_of(top: Any, labels: Any, propensity: Any, **asked: Any) -> Summary:
    """The sums of all rows, ready to be estimated from."""
    return summarized(Request(**asked), top, labels, propensity)


def same(left: Any, right: Any) -> bool:
    return repr(left.to_dicts()) == repr(right.to_dicts())


class Spread:
    """Draws some way around a vector."""

    def __init__(self, center: np.ndarray) -> None:
        self.center = center

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return np.clip(self.center * rng.uniform(0.7, 1.3, (size, 1)), 0.05, 1)


def ranking_of(differences: dict[str, float], *, half: float = 0.1, metric: str = "P@1") -> Ranking:
    """ "new" is this much ahead of "old" under models called like "a = 1, b = 2", or anything."""
    rows = [
        {"model": name, "parameters": parameters_of(name), "system": "new", "value": d,
         "first": 0.0, "difference": d, "low": d - half, "high": d + half}
        for name, d in differences.items()
    ]  # fmt: skip
    return Ranking(metric, "unbiased", "old", tuple(rows))


def parameters_of(name: str) -> dict[str, float]:
    pairs = [entry.split(" = ") for entry in name.split(", ") if " = " in entry]
    return {key: float(value) for key, value in pairs}
