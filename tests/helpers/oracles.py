"""Slow, exact, independent statements of what the package computes fast.

Nothing here imports `unmask`: an oracle that shares code with what it judges judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import mpmath
import numpy as np


def subsets(items: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every subset, the empty one first."""
    for size in range(len(items) + 1):
        yield from combinations(items, size)


def expectation_over_masks(
    estimate: Callable[[tuple[int, ...]], Any],
    true_labels: Sequence[int],
    propensity: Sequence[Any],
) -> Any:
    """E[estimate(observed)] when every true label j is kept with probability propensity[j]."""
    total = 0
    for observed in subsets(true_labels):
        weight = 1
        for j in true_labels:
            weight = weight * (propensity[j] if j in observed else 1 - propensity[j])
        if weight:
            total = total + weight * estimate(observed)
    return total


def operator(
    function: Callable[[tuple[int, ...]], Any], observed: Sequence[int], propensity: Sequence[Any]
) -> Any:
    """P(f)(I) = Σ_{J⊆I} f(J) Π_{j∈J} 1/p_j Π_{k∈I∖J} (1 − 1/p_k), term by term."""
    total = 0
    for kept in subsets(observed):
        weight = 1
        for j in observed:
            weight = weight * (1 / propensity[j] if j in kept else 1 - 1 / propensity[j])
        total = total + weight * function(kept)
    return total


def normalized_weights_exact(propensity: Sequence[Fraction]) -> list[Fraction]:
    """T_i = P(y_i / |y|) for a row whose observed labels have these propensities, in rationals."""

    def share(i: int) -> Callable[[tuple[int, ...]], Fraction]:
        return lambda kept: Fraction(int(i in kept), max(len(kept), 1))

    everything = range(len(propensity))
    return [operator(share(i), everything, propensity) for i in everything]


def normalized_weights_mp(propensity: Sequence[float], digits: int = 120) -> list[Any]:
    """T_i by expanding Π_{k≠i}(1 − u/p_k) in powers of u and integrating, in `digits` decimals."""
    with mpmath.workdps(digits):
        inverse = [1 / mpmath.mpf(float(p)) for p in propensity]
        result = []
        for i, own in enumerate(inverse):
            coefficients = [mpmath.mpf(1)]
            for k, other in enumerate(inverse):
                if k != i:
                    shifted = [mpmath.mpf(0), *coefficients]
                    coefficients = [
                        c - other * s for c, s in zip([*coefficients, 0], shifted, strict=True)
                    ]
            result.append(own * sum(c / (power + 1) for power, c in enumerate(coefficients)))
        return result


def dense(matrix: Any) -> np.ndarray:
    """A small sparse matrix as an array."""
    return np.asarray(matrix.todense())
