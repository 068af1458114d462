"""From what was asked for to the columns that one pass must fill.

A *view* is a pair (τ, clip): inverse propensities q are read as min(1 + τ(q − 1), clip). A column
is one (view, form, k); cells that need the same column share it, such as unbiased P@5 and the
numerator of PSP@5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from unmask._kernels.block import Kernel, Need
from unmask._kernels.metrics import Call, Program
from unmask._kernels.metrics import View as ProgramView
from unmask._typing import Ints
from unmask.metrics.registry import METRICS, UNCONDITIONAL, Metric, split
from unmask.metrics.robustness import GAMMAS

View = tuple[float, float]
Key = tuple[View, str]

WHOLE = int(np.iinfo(np.int64).max)
"""The cut-off of a metric that reads the whole list of a row as its set, whatever its length."""

VANILLA: View = (0.0, math.inf)
EVERYTHING: View = (1.0, math.inf)
LINEAR = frozenset({"precision", "dcg"})
"""Forms that are sums of 1/p over hits."""

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
    """Cells, and the columns they read.

    `starts` gives the first column of a (view, form) and `products` the columns x·y of ratios. The
    first `full` columns are those of the cells themselves; of the others only the sums are read.
    """

    cells: tuple[Cell, ...]
    ks: Ints
    views: tuple[View, ...]
    starts: dict[Key, int]
    products: dict[tuple[int, int], int]
    full: int

    @property
    def columns(self) -> int:
        """How many columns a pass fills."""
        return len(self.starts) * self.ks.size + len(self.products)

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that fill the columns."""
        forms = {form for _, form in self.starts}
        kernels = (kernel for cell in self.cells for kernel in cell.about.kernels)
        return tuple(dict.fromkeys(each for each in kernels if forms & set(each.forms)))

    @cached_property
    def integrates(self) -> set[Need]:
        """Which quadrature rules columns need, of those that depend on the sizes of rows."""
        return {
            need
            for kernel in self.kernels
            for (tau, _), form in self.starts
            for need in kernel.needs
            if tau > 0 and form in kernel.forms and "quadrature" in need
        }

    @property
    def reads_scores(self) -> bool:
        """Does any column need the scores of every label?"""
        return any("scores" in kernel.needs for kernel in self.kernels)

    @property
    def keeps_scores(self) -> bool:
        """Does any cell need the scores of all rows?"""
        return any(cell.about.over == "scores" for cell in self.cells)

    def deconvolved_ks(self, *, of_sets: bool) -> frozenset[int]:
        """The cut-offs at which rankings, or sets, are deconvolved."""
        return self._deconvolved_ks[of_sets]

    @cached_property
    def _deconvolved_ks(self) -> dict[bool, frozenset[int]]:
        cells = [cell for cell in self.cells if cell.estimator == "deconvolved"]
        return {
            of_sets: frozenset(cell.k for cell in cells if cell.about.of_sets == of_sets)
            for of_sets in (False, True)
        }

    def cut_offs(self, width: int) -> Ints:
        """The cut-offs for lists of some width: no longer than that where all of a list counts."""
        finite = self.ks[self.ks != WHOLE]
        longest = max(width, int(finite.max(initial=0)))
        return np.minimum(self.ks, longest)

    def column(self, key: Key, k: int) -> int:
        """The column of a (view, form) at k."""
        return self.starts[key] + int(np.searchsorted(self.ks, k))

    def program(self, cut_offs: Ints) -> Program:
        """What a pass over rows must compute, for lists cut off there."""
        triples = [(x, y, z) for (x, y), z in self.products.items()]
        return Program(
            ks=cut_offs,
            views=tuple(self._program_view(view) for view in self.views),
            columns=self.columns,
            full=self.full,
            products=np.array(triples, dtype=np.int64).reshape(-1, 3),
            needs_ideal=any("ideal" in kernel.needs for kernel in self.kernels),
            needs_lost=any(cell.estimator not in UNCONDITIONAL for cell in self.cells),
        )

    def _program_view(self, view: View) -> ProgramView:
        calls: list[Call] = []
        best_calls: list[Call] = []
        needs: set[str] = set()
        for kernel in self.kernels:
            columns = tuple(self.starts.get((view, form), -1) for form in kernel.forms)
            if max(columns) < 0:
                continue
            if view[0] == 0.0 and kernel.vanilla is not None:
                calls.append(Call(kernel.vanilla, columns))
            elif "largest" in kernel.needs:
                best_calls.append(Call(kernel.function, columns))
            else:
                calls.append(Call(kernel.function, columns))
                needs |= set(kernel.needs)
        return ProgramView(
            *view,
            tuple(calls),
            tuple(best_calls),
            needs_rest=bool(needs & {"rest", "every rest"}),
            without_hits="every rest" in needs,
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
    cell_keys = dict.fromkeys(key for cell in cells for key in cell.keys)
    keys = cell_keys | dict.fromkeys(key for cell in cells for key in _keys_of_ends(cell))
    starts = {key: i * ks.size for i, key in enumerate(keys)}
    pairs = [
        tuple(starts[key] + int(np.searchsorted(ks, cell.k)) for key in cell.keys)
        for cell in cells
        if cell.about.over == "ratio"
    ]
    first = len(starts) * ks.size
    products = {(x, y): first + i for i, (x, y) in enumerate(dict.fromkeys(pairs))}
    views = tuple(dict.fromkeys(view for view, _ in keys))
    return Plan(cells, ks, views, starts, products, len(cell_keys) * ks.size)


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
        about = METRICS[metric]
        if k is None:
            k = WHOLE if about.of_sets or about.reads != "list" else width
        elif k > width and width < n_labels:
            raise ValueError(
                f"{name} needs the first {k} predictions of every row; there are {width}. "
                f"Predict the top {k}, or ask for @{width}."
            )
        for estimator in _chosen(name, about, estimators):
            keys = _keys(about, estimator, tau, clip)
            yield Cell(name, metric, estimator, k, keys)


def _chosen(name: str, metric: Metric, estimators: Sequence[str]) -> list[str]:
    """The estimators asked for that the metric supports; a metric with only one needs no asking."""
    possible = metric.estimators
    chosen = [each for each in estimators if each in possible]
    chosen = chosen or list(possible[: len(possible) == 1])
    if not chosen:
        raise ValueError(
            f"{name} cannot be estimated by {', '.join(estimators)}; use one of: "
            f"{', '.join(possible)}."
        )
    return chosen


def _keys(metric: Metric, estimator: str, tau: float | str, clip: float) -> tuple[Key, ...]:
    views: dict[str, list[View]] = {
        "vanilla": [VANILLA],
        "tempered": [(t, math.inf) for t in (TAUS if tau == "auto" else (float(tau),))],
        "clipped": [(1.0, clip)],
    }
    if metric.over in ("labels", "scores") or estimator == "deconvolved":
        return ()
    if metric.over == "ratio":
        (view,) = views.get(estimator, [EVERYTHING])
        return ((view, metric.form), (view, metric.forms.get(estimator, metric.below)))
    form = metric.forms.get(estimator, metric.form)
    return tuple(product(views.get(estimator, [EVERYTHING]), [form]))


def _keys_of_ends(cell: Cell) -> tuple[Key, ...]:
    """What the exact ends of a metric linear in 1/p need beside it (`perturbation`)."""
    linear = cell.about.over == "rows" and cell.about.form in LINEAR
    if cell.estimator != "unbiased" or not linear:
        return ()
    return tuple((view, cell.about.form) for view in (VANILLA, *((1.0, g) for g in GAMMAS)))
