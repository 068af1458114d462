"""Fits of one stratum, made by hand."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from unmask.metrics.deconvolution import thinning
from unmask.metrics.deconvolution.stratum import Stratum
from unmask.metrics.deconvolution.thinning import Atoms, Cells


def stratum_of(
    kernel: Any, weights: Any, rows: Any, *, hits: Any = None, kept: Any = None
) -> Stratum:
    """A fit with this kernel; cells and atoms are numbered by hits."""
    kernel, weights, rows = (np.asarray(x, dtype=float) for x in (kernel, weights, rows))
    seen, true = np.arange(float(rows.size)), np.arange(float(weights.size))
    inverse = np.asarray(seen * rows if hits is None else hits, dtype=float)
    cells = Cells(seen, np.zeros_like(seen), rows, inverse, np.zeros_like(seen))
    ones = np.ones_like(true)
    kept = ones if kept is None else np.asarray(kept)
    by_place = inverse[None]
    return Stratum(
        cells, by_place, Atoms(true, 0 * true), (ones, ones), kernel, kept, weights, 0.0
    )  # fmt: skip


def stratum_at_truth(p: float, *, empty: bool) -> Stratum:
    """The exact law of masks for four kinds of rows (of all, or of those that show a label)."""
    at = Atoms(np.array([0.0, 1, 1, 2, 2]), np.array([0.0, 0, 3, 1, 5]))
    every = np.array([0.1, 0.3, 0.2, 0.3, 0.1])
    seen = [(s, t) for s, t in product(range(3), range(6)) if empty or (s, t) != (0, 0)]
    s, t = np.array(seen, dtype=float).T
    inverse = (np.full(5, 1 / p),) * 2
    cells = Cells(s, t, np.ones(s.size), s, t)
    law = thinning.kernel(cells, at, *inverse)
    kept = law.sum(axis=0)
    chosen = kept > 0
    at, every = Atoms(*(x[chosen] for x in at)), every[chosen]
    kept, law = kept[chosen], law[:, chosen]
    rows = 1000 * law @ every / (every @ kept)
    cells = Cells(s, t, rows, rows * s / p, rows * t / p)
    inverse = (np.full(every.size, 1 / p),) * 2
    places = np.tile(cells.inverse_hits / 2, (2, 1))
    weights = every * kept / (every @ kept)
    return Stratum(cells, places, at, inverse, law / kept, kept, weights, 0.0)
