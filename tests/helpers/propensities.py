"""Estimates of propensities that several test files need."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from unmask import data, propensity
from unmask.propensity import PropensityEstimate
from unmask.propensity.estimate import CurveFit, Posterior


class Fixed:
    """An uncertainty that draws what it was given."""

    def __init__(self, drawn: Any) -> None:
        self.drawn = np.array(drawn, dtype=float)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return self.drawn[:size]


def certain(values: Any, drawn: Any) -> PropensityEstimate:
    value = np.array(values, dtype=float)
    return PropensityEstimate(
        value, value, value, 0.95, "own", np.ones_like(value), Fixed(drawn), None
    )


def posterior(
    kept: Any, of: Any, draws: Any, *, common: float = 0.0, counts: float = 1.0
) -> Posterior:
    """What is known if the curve is one of `draws`, at counts where it is 1 / (1 + scale)."""
    k, total = np.array(kept, dtype=float), np.array(of, dtype=float)
    table = np.array(draws, dtype=float)
    fitted = CurveFit(*table[0], {}, 1000, True, table, 0.0)
    return Posterior(fitted, k, total, np.full(k.size, counts), False, common)


@cache
def either() -> PropensityEstimate:
    true = np.ones((40, 3))
    one, two = (np.random.default_rng(s).random((40, 3)) < 0.6 for s in (1, 2))
    return propensity.recapture(true * one, true * two, of="either", confidence=0.8)


@lru_cache
def audited_rows(rows: int = 300, seed: int = 0) -> tuple[sp.csr_array, sp.csr_array, np.ndarray]:
    true = data.synthetic.planted(rows, n_labels=60, seed=seed).labels
    p = propensity.constant(60, 0.4)
    return data.hide(true, p, seed=seed + 1), true, p


@lru_cache
def estimated(rows: int = 300) -> PropensityEstimate:
    seen, true, _ = audited_rows(rows)
    return propensity.audit(seen, true)
