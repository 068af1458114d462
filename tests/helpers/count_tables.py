"""Tables of observed counts that masks produce on average, by enumeration; strata made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from tests.helpers.oracles import subsets
from unmask._kernels.deconvolution import STRATA, stratum
from unmask.metrics import thinning
from unmask.metrics.deconvolution import METRICS, Counts
from unmask.metrics.thinning import Atoms, Cells, Stratum

Row = tuple[float, tuple[int, ...], tuple[int, ...]]  # rows of this kind, true labels, predictions


def true_values(true: Sequence[int], predicted: Sequence[int]) -> dict[str, float]:
    """Every metric of one row, from its definition."""
    k, n = len(predicted), len(true)
    hit = [label in true for label in predicted]
    gains = [1 / np.log2(place + 2) for place in range(k)]
    s, best = sum(hit), min(k, n)
    if not n:
        return dict.fromkeys(METRICS, 0.0)
    return {
        "P": s / k,
        "R": s / n,
        "F1": 2 * s / (k + n),
        "Jaccard": s / len({*true, *predicted}),
        "hit": float(s > 0),
        "nDCG": sum(g for g, h in zip(gains, hit, strict=True) if h) / sum(gains[:best]),
        "R-precision": sum(hit[:best]) / best,
    }


def tabulated(observed: Sequence[Row], propensity: Sequence[float]) -> Counts:
    """The tables of rows whose observed (not true) labels are given."""
    k, longest = len(observed[0][2]), 1 + max(len(labels) for _, labels, _ in observed)
    rows = np.zeros((STRATA, k + 1, longest))
    hits, misses = np.zeros((k, *rows.shape)), np.zeros_like(rows)
    for count, labels, predicted in observed:
        s = len({*labels} & {*predicted})
        group = stratum(sum(1 / propensity[j] for j in predicted), k)
        cell = group, s, len(labels) - s
        rows[cell] += count
        misses[cell] += count * sum(1 / propensity[j] for j in labels if j not in predicted)
        for place, j in enumerate(predicted):
            hits[place, *cell] += count * (j in labels) / propensity[j]
    return Counts(rows, hits, misses)


def expected_counts(
    rows: Sequence[Row], propensity: Sequence[float], *, empty: bool = True
) -> tuple[Counts, dict[str, float]]:
    """The table that masks produce on average (every mask enumerated), and the true metrics.

    Without `empty`, both are about the rows in which something is observed.
    """
    observed: list[Row] = []
    totals, there = dict.fromkeys(METRICS, 0.0), 0.0
    for count, true, predicted in rows:
        for seen in subsets(true):
            kept = [propensity[j] if j in seen else 1 - propensity[j] for j in true]
            weight = count * float(np.prod(kept)) * bool(seen or empty)
            observed.append((weight, seen, predicted))
            for metric, value in true_values(true, predicted).items():
                totals[metric] += weight * value
            there += weight
    return tabulated(observed, propensity), {m: total / there for m, total in totals.items()}


POPULATION: list[Row] = [
    (4e7, (0,), (0, 1, 2)),
    (2e7, (0, 5), (1, 0, 2)),
    (3e7, (1, 2, 5, 6), (2, 3, 1)),
    (1e7, (4, 5), (0, 1, 2)),
    (2e7, (3,), (1, 2, 3)),
]


def stratum_of(
    kernel: Any, weights: Any, rows: Any, *, hits: Any = None, kept: Any = None
) -> Stratum:
    """A fit with this kernel; cells and atoms are numbered by hits."""
    kernel, weights, rows = (np.asarray(x, dtype=float) for x in (kernel, weights, rows))
    observed, true = np.arange(float(rows.size)), np.arange(float(weights.size))
    inverse = np.asarray(observed * rows if hits is None else hits, dtype=float)
    cells = Cells(observed, np.zeros_like(observed), rows, inverse, np.zeros_like(observed))
    ones = np.ones_like(true)
    kept = ones if kept is None else np.asarray(kept)
    by_place = inverse[None]
    return Stratum(
        cells, by_place, Atoms(true, 0 * true), (ones, ones), kernel, kept, weights, 0.0
    )  # fmt: skip


def stratum_at_truth(p: float, *, empty: bool) -> Stratum:
    """The exact law of masks for four kinds of rows (of all, or of those that show a label)."""
    atoms = Atoms(np.array([0.0, 1, 1, 2, 2]), np.array([0.0, 0, 3, 1, 5]))
    every = np.array([0.1, 0.3, 0.2, 0.3, 0.1])
    observed = [(s, t) for s, t in product(range(3), range(6)) if empty or (s, t) != (0, 0)]
    s, t = np.array(observed, dtype=float).T
    inverse = (np.full(5, 1 / p),) * 2
    cells = Cells(s, t, np.ones(s.size), s, t)
    law = thinning.kernel(cells, atoms, *inverse)
    kept = law.sum(axis=0)
    chosen = kept > 0
    atoms, every = Atoms(*(x[chosen] for x in atoms)), every[chosen]
    kept, law = kept[chosen], law[:, chosen]
    rows = 1000 * law @ every / (every @ kept)
    cells = Cells(s, t, rows, rows * s / p, rows * t / p)
    inverse = (np.full(every.size, 1 / p),) * 2
    places = np.tile(cells.inverse_hits / 2, (2, 1))
    weights = every * kept / (every @ kept)
    return Stratum(cells, places, atoms, inverse, law / kept, kept, weights, 0.0)
