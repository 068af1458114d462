"""Loops behind `unmask.weights`: normalised weights of many rows, from inverse propensities.

A kernel sees a run of consecutive rows: their slice of `indptr` (whose first value need not be 0),
their entries' inverse propensities a = 1/p as `inverse[index[entry]]`, and where to write.

    T_i = a_i ∫₀¹ Π_{k≠i} (1 − u a_k) du

is the integral of a polynomial of degree m − 1 for a row of m entries, so Gauss–Legendre with
⌈m/2⌉ nodes is exact. Each node costs one pass up and one pass down the row: Π_{k≠i} is the product
of what lies before i and what lies after it, never a division.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from unmask._kernels.compiling import njit
from unmask._typing import Floats, Integers, Ints

LANES = 128  # rows, or nodes of one row, handled side by side
SHORT = 64  # the longest row that is handled together with others
SAFE = 1e250  # a row with larger values is computed with exponents of its own
LARGEST = float(np.finfo(np.float64).max)


def quadrature(row_lengths: Integers) -> tuple[Floats, Floats, Ints]:
    """Nodes and weights on [0, 1] of every rule these rows need, end to end.

    The rule with n nodes, for rows of 2n − 1 and 2n entries, starts at the third array's [n].
    """
    needed = np.unique((np.flatnonzero(np.bincount(row_lengths)) + 1) // 2)
    rules = {int(n): gauss_legendre(int(n)) for n in needed if n > 0}
    starts = np.zeros(int(needed.max(initial=0)) + 1, dtype=np.int64)
    sizes = [nodes.size for nodes, _ in rules.values()]
    starts[list(rules)] = np.cumsum([0, *sizes])[:-1] if rules else 0
    nodes = np.concatenate([np.empty(0), *(rule[0] for rule in rules.values())])
    weights = np.concatenate([np.empty(0), *(rule[1] for rule in rules.values())])
    return nodes, weights, starts


@lru_cache(maxsize=4096)
def gauss_legendre(n: int) -> tuple[Floats, Floats]:
    """Gauss–Legendre with n nodes on [0, 1], every node and weight good to a few ulp.

    Newton's method from Tricomi's guess, in u = (1 − x)/2 rather than in x: near u = 0, where the
    nodes crowd, x = 1 − 2u has lost the digits of u (library rules are off by 1e-11 at n = 150).
    """
    u = np.sin(np.pi * (4 * np.arange(1, (n + 3) // 2) - 1) / (8 * n + 4)) ** 2
    for _ in range(4):
        value, flow = _legendre(n, u)
        u = u + 2 * u * (1 - u) * value / flow
    weights = 4 * u * (1 - u) / _legendre(n, u)[1] ** 2
    mirrored = slice(n // 2 - 1, None, -1) if n > 1 else slice(0)
    return np.r_[u, (1 - u)[mirrored]], np.r_[weights, weights[mirrored]]


def _legendre(n: int, u: Floats) -> tuple[Floats, Floats]:
    """P_n and (1 − x²) P_n' at x = 1 − 2u, by the recurrence for P_k − P_(k−1)."""
    value, step = 1 - 2 * u, -2 * u
    for k in range(1, n):
        step = (k * step - (4 * k + 2) * u * value) / (k + 1)
        value = value + step
    return value, n * (2 * u * value - step)


@njit(cache=True, nogil=True)
def normalized(indptr, index, inverse, nodes, node_weights, starts, out):
    """T of every entry into `out`; the first row (from 0) with a value beyond float64, or −1.

    Such a value becomes the largest float64 of its sign. Short rows of equal length are integrated
    side by side, so that the processor multiplies for several at once; what a row gets does not
    depend on its neighbours.
    """
    order, groups = _by_length(indptr)
    longest = len(groups) - 2
    before = np.empty((longest, LANES))
    a, total = np.empty((min(longest, SHORT), LANES)), np.empty((min(longest, SHORT), LANES))
    overflow = len(indptr)
    for m in range(1, longest + 1):
        side_by_side = LANES if m <= SHORT else 1
        rule = slice(starts[(m + 1) // 2], starts[(m + 1) // 2] + (m + 1) // 2)
        u, w = nodes[rule], node_weights[rule]
        for begin in range(groups[m], groups[m + 1], side_by_side):
            rows = order[begin : min(begin + side_by_side, groups[m + 1])]
            first = np.empty(len(rows), dtype=np.int64)
            for r in range(len(rows)):
                first[r] = indptr[rows[r]] - indptr[0]
            if m <= SHORT:
                size = _short_rows(first, m, index, inverse, u, w, a, before, total, out)
            else:
                size = _long_row(inverse[index[first[0] :][:m]], u, w, before, out[first[0] :][:m])
            for r in range(len(rows)):
                if not size[r] < SAFE:  # also where it is a NaN, from 0 · inf on the way
                    own = inverse[index[first[r] :][:m]]
                    if _with_exponents(own, u, w, out[first[r] :][:m]):
                        overflow = min(overflow, rows[r])
    return overflow if overflow < len(indptr) else -1


@njit(cache=True, nogil=True)
def _by_length(indptr):
    """Row numbers ordered by row length, and where each length begins (one more at the end)."""
    longest = 0
    for row in range(len(indptr) - 1):
        longest = max(longest, indptr[row + 1] - indptr[row])
    groups = np.zeros(longest + 2, dtype=np.int64)
    for row in range(len(indptr) - 1):
        groups[indptr[row + 1] - indptr[row] + 1] += 1
    groups = np.cumsum(groups)
    order, place = np.empty(len(indptr) - 1, dtype=np.int64), groups.copy()
    for row in range(len(indptr) - 1):
        length = indptr[row + 1] - indptr[row]
        order[place[length]] = row
        place[length] += 1
    return order, groups


@njit(cache=True, nogil=True)
def _short_rows(first, m, index, inverse, nodes, node_weights, a, before, total, out):
    """Rows of m entries that begin at `first`, one per column of the scratch arrays; Σ|T| of each.

    A row with every p = 1 gets exactly the 1/m of vanilla weights.
    """
    running, size = np.empty(len(first)), np.zeros(len(first))
    for k in range(m):
        _fetch(index, inverse, first, k, a[k], total[k])
    for q in range(len(nodes)):
        running[:] = node_weights[q]
        for k in range(m):
            _up(nodes[q], a[k], running, before[k])
        running[:] = 1.0
        for k in range(m - 1, -1, -1):
            _down(nodes[q], a[k], running, before[k], total[k])
    for k in range(m):
        _finish(a[k], total[k], size)
    for k in range(m):
        _store(total[k], first, k, out)
    for r in range(len(first)):
        if a[0, r] == 1 and (a[:m, r] == 1).all():
            out[first[r] : first[r] + m] = 1 / m
    return size


@njit(cache=True, nogil=True)
def _fetch(index, inverse, first, k, a, total):
    for r in range(len(first)):
        a[r] = inverse[index[first[r] + k]]
    for r in range(len(first)):
        total[r] = 0.0


@njit(cache=True, nogil=True)
def _finish(a, total, size):
    for r in range(len(size)):
        total[r] *= a[r]
        size[r] += abs(total[r])


@njit(cache=True, nogil=True)
def _store(total, first, k, out):
    for r in range(len(first)):
        out[first[r] + k] = total[r]


@njit(cache=True, nogil=True)
def _long_row(a, nodes, node_weights, before, out):
    """Sum one row, with its nodes side by side."""
    out[:] = 0.0
    for q in range(0, len(nodes), LANES):
        u, running = nodes[q : q + LANES], node_weights[q : q + LANES].copy()
        term = np.empty(len(u))
        for k in range(len(a)):
            _up(a[k], u, running, before[k])
        running[:] = 1.0
        for k in range(len(a) - 1, -1, -1):
            term[:] = 0.0
            _down(a[k], u, running, before[k], term)
            out[k] += term.sum()
    out *= a
    if (a == 1).all():
        out[:] = 1 / len(a)
    return np.array([np.abs(out).sum()])


@njit(cache=True, nogil=True)
def _up(x, y, running, before):
    """One factor 1 − u a further, for one u and many a or for one a and many u."""
    for i in range(len(running)):
        before[i] = running[i]
        running[i] *= 1 - x * y[i]


@njit(cache=True, nogil=True)
def _down(x, y, running, before, total):
    for i in range(len(running)):
        total[i] += before[i] * running[i]
        running[i] *= 1 - x * y[i]


@njit(cache=True, nogil=True)
def _with_exponents(inverse, nodes, node_weights, out):
    """One row whose products leave float64: every number is mantissa · 2^exponent."""
    m = len(inverse)
    before, before_exponent = np.empty(m), np.empty(m, dtype=np.int64)
    total, total_exponent = np.zeros(m), np.zeros(m, dtype=np.int64)
    for q in range(len(nodes)):
        value, exponent = _split(node_weights[q], 0)
        for k in range(m):
            before[k], before_exponent[k] = value, exponent
            value, exponent = _times(value, exponent, 1 - nodes[q] * inverse[k])
        value, exponent = 1.0, 0
        for k in range(m - 1, -1, -1):
            total[k], total_exponent[k] = _plus(
                total[k], total_exponent[k], before[k] * value, before_exponent[k] + exponent
            )
            value, exponent = _times(value, exponent, 1 - nodes[q] * inverse[k])
    overflow = False
    for k in range(m):
        value, exponent = _times(total[k], total_exponent[k], inverse[k])
        overflow |= exponent > 1024
        out[k] = math.copysign(LARGEST, value) if exponent > 1024 else _join(value, exponent)
    return overflow


@njit(cache=True, nogil=True)
def _split(value, exponent):
    mantissa, shift = math.frexp(value)
    return mantissa, exponent + shift


@njit(cache=True, nogil=True)
def _times(value, exponent, factor):
    mantissa, shift = math.frexp(factor)
    return _split(value * mantissa, exponent + shift)


@njit(cache=True, nogil=True)
def _plus(value, exponent, term, term_exponent):
    if term == 0:
        return value, exponent
    if value == 0:
        return term, term_exponent
    if exponent >= term_exponent:
        return value + _join(term, term_exponent - exponent), exponent
    return _join(value, exponent - term_exponent) + term, term_exponent


@njit(cache=True, nogil=True)
def _join(value, exponent):
    return math.ldexp(value, int(max(exponent, -2000)))  # further down everything is 0


@njit(cache=True, nogil=True)
def one_plus_others(indptr, index, inverse, out):
    """1 + Σ_{k≠i} a_k: the sum before plus the sum after i, so nothing cancels."""
    for row in range(len(indptr) - 1):
        begin, end = indptr[row] - indptr[0], indptr[row + 1] - indptr[0]
        running = 1.0
        for k in range(begin, end):
            out[k] = running
            running += inverse[index[k]]
        running = 0.0
        for k in range(end - 1, begin - 1, -1):
            out[k] += running
            running += inverse[index[k]]
