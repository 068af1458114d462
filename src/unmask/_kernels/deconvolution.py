"""Loops for `unmask.metrics.deconvolution`: tables of counts, strata, EM for mixture weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask._kernels.compiling import njit
from unmask._kernels.ranking import bare

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STRATA = 10
"""Number of strata; the last one is open above."""

FIXED = 1 << 24
"""Inverse propensities in count tables are whole multiples of 1/FIXED."""

HEAVIEST = float(1 << 38)
"""Σ 1/p of all labels up to which tables are of use: no whole number overflows before."""

_SMALLEST = 1e-300
_REVIVED = 1e-14  # extrapolation may reach zero, from which EM never returns
_LONGEST = 1e4


@bare
def tabulate(
    spots: Ints, i: int, own: Floats, at: int, size: int, row: int, data: Any, ks: Ints,
    counts: Any,
) -> None:  # fmt: skip
    """Count one row in the tables of every k (`deconvolution.Counts`), in units of 1/FIXED.

    `data` and `counts` are the bundles of `_kernels.metrics`, `spots` and `own` its membership.
    A table has a slot for every occupied cell only; `slots` says which, −1 for none so far.
    """
    _, _, top, inverse, per_entry, _ = data
    columns, width, slots, rows, hits, misses, used, cell_starts, slot_starts, hit_starts = counts
    total = 0
    for j in range(size):
        total += fixed(own[at + j])
    inverse_sum, listed, found, inside, place = 0.0, 0, 0, 0, 0
    for c in range(ks.size):
        k = ks[c]
        while place < k:
            if place < top.shape[1] and top[row, place] >= 0 and not per_entry:
                inverse_sum += inverse[top[row, place]]
                listed += 1
            if spots[place, i] >= 0:
                found += 1
                inside += fixed(own[at + spots[place, i]])
            place += 1
        if cell_starts[c] < 0:
            continue
        cell = (stratum(inverse_sum, listed) * (k + 1) + found) * width + columns[size]
        slot = slots[cell_starts[c] + cell]
        if slot < 0:
            slot = used[c]
            slots[cell_starts[c] + cell] = slot
            used[c] += 1
        rows[slot_starts[c] + slot] += 1
        misses[slot_starts[c] + slot] += total - inside
        for r in range(k):
            if spots[r, i] >= 0:
                hits[hit_starts[c] + slot * k + r] += fixed(own[at + spots[r, i]])


@bare
def fixed(inverse: float) -> int:
    """An inverse propensity in units of 1/FIXED: whole numbers add up exactly in any order."""
    return int(min(inverse, HEAVIEST) * FIXED + 0.5)


@njit(cache=True, nogil=True)
def stratum(inverse_sum: float, count: int) -> int:
    """Stratum of a row whose `count` predicted labels have inverse propensities that sum to this.

    Strata are bands of the mean inverse propensity, a factor √2 wide. The offset keeps round
    propensities (1/2, 0.3, 0.1 …) inside a band, so that rounding cannot split equal rows.
    """
    if count == 0:
        return 0
    return int(min(STRATA - 1.0, 2.0 * math.log2(inverse_sum / count) + 0.45))


@njit(cache=True, nogil=True)
def maximize(
    start: int,
    stop: int,
    kernel: Floats,
    shares: Floats,
    rows: Floats,
    tolerance: float,
    steps: int,
    weights: Floats,
    gap: Floats,
) -> int:
    """Improve `weights[i]` for the data `shares[i]`, start ≤ i < stop; returns the most steps used.

    One cycle is two EM steps, an extrapolation through them, and an EM step from there; where the
    extrapolation lost likelihood, the two steps stand.
    """
    atoms = kernel.shape[1]
    first, second = np.empty(atoms), np.empty(atoms)
    leap, third = np.empty(atoms), np.empty(atoms)
    most = 0
    for i in range(start, stop):
        used = 0
        while used < steps:
            likelihood, gain = _step(kernel, shares[i], weights[i], first)
            gap[i] = rows[i] * (gain - 1.0)
            used += 1
            if gap[i] <= tolerance:
                weights[i] = first
                break
            _step(kernel, shares[i], first, second)
            _extrapolate(weights[i], first, second, leap)
            reached, _ = _step(kernel, shares[i], leap, third)
            if reached >= likelihood:
                weights[i] = third
            else:
                weights[i] = second
            used += 2
        most = max(most, used)
    return most


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _step(kernel: Floats, share: Floats, before: Floats, after: Floats) -> tuple[float, float]:
    """after = before · kernelᵀ(share / kernel before); Σ share log(kernel before), largest gain."""
    cells, atoms = kernel.shape
    after[:] = 0.0
    likelihood = 0.0
    for c in range(cells):
        if share[c] == 0.0:
            continue
        fitted = 0.0
        for a in range(atoms):
            fitted += kernel[c, a] * before[a]
        fitted = max(fitted, _SMALLEST)
        likelihood += share[c] * math.log(fitted)
        ratio = share[c] / fitted
        for a in range(atoms):
            after[a] += kernel[c, a] * ratio
    gain = 0.0
    for a in range(atoms):
        gain = max(gain, after[a])
        after[a] *= before[a]
    return likelihood, gain


@njit(cache=True, nogil=True)
def _extrapolate(start: Floats, first: Floats, second: Floats, leap: Floats) -> None:
    """x + 2α(x₁ − x) + α²(x₂ − 2x₁ + x) with α = max(1, |x₁ − x| / |x₂ − 2x₁ + x|), positive."""
    step = bend = 0.0
    for a in range(start.size):
        step += (first[a] - start[a]) ** 2
        bend += (second[a] - 2.0 * first[a] + start[a]) ** 2
    far = min(max(math.sqrt(step / max(bend, _SMALLEST)), 1.0), _LONGEST)
    total = 0.0
    for a in range(start.size):
        curve = second[a] - 2.0 * first[a] + start[a]
        leap[a] = max(start[a] + 2.0 * far * (first[a] - start[a]) + far * far * curve, _REVIVED)
        total += leap[a]
    for a in range(start.size):
        leap[a] /= total
