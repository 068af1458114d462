"""From what was asked for to the columns that one pass must fill.

A *view* is a pair (τ, clip): inverse propensities q are read as min(1 + τ(q − 1), clip). A column
is one (view, form, k); cells that need the same column share it, such as unbiased P@5 and the
numerator of PSP@5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from unmask import _validation
from unmask._kernels.metrics import FORMS
from unmask.metrics.registry import ESTIMATORS, METRICS, Metric, split

View = tuple[float, float]
Key = tuple[View, str]

INTEGRATED = ("recall", "f1", "jaccard", "recall_subsampled")
TAUS = tuple(np.linspace(0, 1, 9).tolist())  # the grid from which τ is chosen


@dataclass(frozen=True)
class Cell:
    """One estimate to be made, of "R@5" say, and the (view, form) pairs whose columns it reads."""

    name: str
    metric: str
    estimator: str
    k: int
    keys: tuple[Key, ...]

    @property
    def about(self) -> Metric:
        """The metric's entry in the registry."""
        return METRICS[self.metric]


@dataclass(frozen=True)
class Plan:
    """Cells, and the columns they read, as the arrays that a pass takes.

    `starts` gives the first column of a (view, form) and `products` the columns x·y of ratios.
    """

    cells: tuple[Cell, ...]
    ks: NDArray[np.int64]
    views: tuple[View, ...]
    starts: dict[Key, int]
    products: dict[tuple[int, int], int]

    @property
    def columns(self) -> int:
        """How many columns a pass fills."""
        return len(self.starts) * self.ks.size + len(self.products)

    @property
    def integrates(self) -> bool:
        """Does any column need quadrature rules for the sizes of rows?"""
        return any(tau > 0 and form in INTEGRATED for (tau, _), form in self.starts)

    def column(self, key: Key, k: int) -> int:
        """The column of a (view, form) at k."""
        return self.starts[key] + int(np.searchsorted(self.ks, k))

    def arrays(self) -> tuple[NDArray[np.generic] | int, ...]:
        """The bundle `plan` of `_kernels.metrics.score_rows`."""
        where = np.full((len(self.views), len(FORMS)), -1, dtype=np.int64)
        for (view, form), start in self.starts.items():
            where[self.views.index(view), FORMS.index(form)] = start
        triples = [(x, y, z) for (x, y), z in self.products.items()]
        views = np.array(self.views, dtype=np.float64).reshape(-1, 2)
        return (
            self.ks,
            np.ascontiguousarray(views[:, 0]),
            np.ascontiguousarray(views[:, 1]),
            where,
            np.array(triples, dtype=np.int64).reshape(-1, 3),
            self.columns,
        )


def make(
    metrics: Sequence[str],
    estimators: Sequence[str],
    *,
    width: int,
    n_labels: int,
    tau: float | str,
    clip: float,
) -> Plan:
    """Which cells the metrics and estimators make, and one column for each thing they need."""
    cells = tuple(_cells(metrics, estimators, width, n_labels, tau, clip))
    ks = np.array(sorted({cell.k for cell in cells}), dtype=np.int64)
    keys = dict.fromkeys(key for cell in cells for key in cell.keys)
    starts = {key: i * ks.size for i, key in enumerate(keys)}
    pairs = [
        tuple(starts[key] + int(np.searchsorted(ks, cell.k)) for key in cell.keys)
        for cell in cells
        if cell.about.over == "ratio"
    ]
    first = len(starts) * ks.size
    products = {(x, y): first + i for i, (x, y) in enumerate(dict.fromkeys(pairs))}
    views = tuple(dict.fromkeys(view for view, _ in keys))
    return Plan(cells, ks, views, starts, products)


def _cells(
    metrics: Sequence[str],
    estimators: Sequence[str],
    width: int,
    n_labels: int,
    tau: float | str,
    clip: float,
) -> Iterable[Cell]:
    for name in metrics:
        metric, k = split(name)
        k = width if k is None else k
        if k > width and width < n_labels:
            raise ValueError(
                f"{name} needs the first {k} predictions of every row; there are {width}. "
                f"Predict the top {k}, or ask for @{width}."
            )
        chosen = _chosen(name, METRICS[metric], estimators)
        for estimator in chosen:
            keys = _keys(METRICS[metric], estimator, tau, clip)
            yield Cell(name, metric, estimator, k, keys)


def _chosen(name: str, metric: Metric, estimators: Sequence[str]) -> list[str]:
    """The estimators asked for that the metric supports; a metric with only one needs no asking."""
    known = metric.estimators
    chosen = [each for each in estimators if each in known] or list(known[: len(known) == 1])
    if not chosen:
        raise ValueError(
            f"{name} cannot be estimated by {', '.join(estimators)}; use one of: "
            f"{', '.join(known)}."
        )
    return chosen


def _keys(metric: Metric, estimator: str, tau: float | str, clip: float) -> tuple[Key, ...]:
    everything: View = (1.0, math.inf)
    views: dict[str, list[View]] = {
        "vanilla": [(0.0, math.inf)],
        "tempered": [(t, math.inf) for t in (TAUS if tau == "auto" else (float(tau),))],
        "clipped": [(1.0, clip)],
    }
    if metric.over == "labels" or estimator == "deconvolved":
        return ()
    if metric.over == "ratio":
        return ((everything, metric.form), (everything, metric.forms[estimator]))
    form = metric.forms.get(estimator, metric.form)
    return tuple(product(views.get(estimator, [everything]), [form]))


def check_names(metrics: Sequence[str], estimators: Sequence[str]) -> None:
    """Refuse an unknown metric or estimator before any work."""
    for given, kind in ((metrics, "metrics"), (estimators, "estimators")):
        if isinstance(given, str) or not given:
            raise ValueError(f"{kind} must be a list of names, like ['R@5']; got {given!r}.")
    for name in metrics:
        split(name)
    for name in estimators:
        _validation.one_of(name, ESTIMATORS, "estimator")
