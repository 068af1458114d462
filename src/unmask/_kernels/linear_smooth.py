"""Loops of the one-vs-all solver for losses that every row feels (logistic, squared error).

`BLOCK` problems advance in step, one per lane; margins are (n, BLOCK), weights (d+1, BLOCK), the
bias last. For these losses ℓ₊ − ℓ₋ is linear in the margin, so that observed labels only add

    − rise·pos·z  (a fixed vector `pull` in the gradient)   and   (pos − cut)·ℓ₋(z)

to Σ weight·ℓ₋(z) over all rows. The second term is absent when pos = cut: vanilla and unbiased
training do exactly the same work. Sums run in float32 over `TILE` rows and in float64 beyond.

The likelihood of observed labels is the logistic loss on the rows of entries, and on all others

    ℓ₋(z) = −ln(1 − p σ(z)) = softplus(z) − softplus(z + ln(1 − p)),

with one p per lane: `mask` (4, BLOCK) holds p, 1 − p, ln(1 − p) and ln p. It bends downwards where
z > −½ ln(1 − p); sums along a direction count a curvature of 0 there, so that steps go downhill.
"""

from __future__ import annotations

import math

import numpy as np

from unmask._kernels.compiling import njit
from unmask._kernels.lanes import (
    WIDTH,
    exponential,
    larger,
    load,
    logarithm_of_one_plus,
    number,
    smaller,
    spread,
    store,
    where_above,
)

BLOCK = 4 * WIDTH
TILE = 256

LOGISTIC, SQUARED_ERROR, LIKELIHOOD = 0, 1, 2
NEVER = -1e30
"""ln(1 − p) of a label that is always observed: large enough, and finite in float32."""


@njit(cache=True, nogil=True)
def forward(x, w, out):
    """out = X w, the bias included."""
    indptr, indices, data = x
    last = w.shape[0] - 1
    for i in range(len(indptr) - 1):
        u0, u1, u2, u3 = load(w, last, 0), load(w, last, 1), load(w, last, 2), load(w, last, 3)
        for k in range(indptr[i], indptr[i + 1]):
            value, f = spread(data[k]), indices[k]
            u0 = u0 + value * load(w, f, 0)
            u1 = u1 + value * load(w, f, 1)
            u2 = u2 + value * load(w, f, 2)
            u3 = u3 + value * load(w, f, 3)
        store(out, i, 0, u0)
        store(out, i, 1, u1)
        store(out, i, 2, u2)
        store(out, i, 3, u3)


@njit(cache=True, nogil=True)
def backward(x, v, out):
    """out += Xᵀ v, the bias included."""
    indptr, indices, data = x
    last = out.shape[0] - 1
    for i in range(len(indptr) - 1):
        v0, v1, v2, v3 = load(v, i, 0), load(v, i, 1), load(v, i, 2), load(v, i, 3)
        for k in range(indptr[i], indptr[i + 1]):
            _add_to(out, indices[k], spread(data[k]), v0, v1, v2, v3)
        _add_to(out, last, number(1.0), v0, v1, v2, v3)


@njit(cache=True, nogil=True)
def bend(x, q, curve, out):
    """out += Xᵀ (curve ∘ X q): a Hessian product in one pass over the features."""
    indptr, indices, data = x
    last = out.shape[0] - 1
    for i in range(len(indptr) - 1):
        v0, v1, v2, v3 = load(q, last, 0), load(q, last, 1), load(q, last, 2), load(q, last, 3)
        for k in range(indptr[i], indptr[i + 1]):
            value, f = spread(data[k]), indices[k]
            v0 = v0 + value * load(q, f, 0)
            v1 = v1 + value * load(q, f, 1)
            v2 = v2 + value * load(q, f, 2)
            v3 = v3 + value * load(q, f, 3)
        v0 = v0 * load(curve, i, 0)
        v1 = v1 * load(curve, i, 1)
        v2 = v2 * load(curve, i, 2)
        v3 = v3 * load(curve, i, 3)
        for k in range(indptr[i], indptr[i + 1]):
            _add_to(out, indices[k], spread(data[k]), v0, v1, v2, v3)
        _add_to(out, last, number(1.0), v0, v1, v2, v3)


@njit(cache=True, nogil=True, inline="always")
def _add_to(out, f, value, v0, v1, v2, v3):
    store(out, f, 0, load(out, f, 0) + value * v0)
    store(out, f, 1, load(out, f, 1) + value * v1)
    store(out, f, 2, load(out, f, 2) + value * v2)
    store(out, f, 3, load(out, f, 3) + value * v3)


@njit(cache=True, nogil=True)
def move(z, u, step, shift):
    """z ← z + step·u + shift, lane by lane."""
    for i in range(z.shape[0]):
        for g in range(BLOCK // WIDTH):
            new = load(z, i, g) + load(step, 0, g) * load(u, i, g) + load(shift, 0, g)
            store(z, i, g, new)


@njit(cache=True, nogil=True)
def differentiate(kind, mask, cost, z, weight, slope, curve):
    """C·weight·ℓ₋′ and C·weight·ℓ₋″ at every margin."""
    for i in range(z.shape[0]):
        c = spread(np.float32(cost * weight[i]))
        for g in range(BLOCK // WIDTH):
            _, first, second = _unobserved(kind, mask, g, load(z, i, g))
            store(slope, i, g, c * first)
            store(curve, i, g, c * second)


@njit(cache=True, nogil=True)
def along(kind, mask, z, u, weight, step, shift, group, sums):
    """Σ weight·ℓ₋ at z + t·u + s and its derivatives by t, s, tt, ts, ss: sums (6, BLOCK).

    For the eight lanes of a group; `step` and `shift` hold t and s. Negative ℓ₋″ count as 0.
    """
    t, s = load(step, 0, group), load(shift, 0, group)
    part = np.zeros((6, WIDTH), dtype=np.float32)
    sums[:, group * WIDTH : (group + 1) * WIDTH] = 0.0
    for start in range(0, z.shape[0], TILE):
        f = gt = gs = htt = hts = hss = number(0.0)
        for i in range(start, min(start + TILE, z.shape[0])):
            direction = load(u, i, group)
            margin = load(z, i, group) + t * direction + s
            value, first, second = _unobserved(kind, mask, group, margin)
            second = larger(second, number(0.0))
            w = spread(weight[i])
            value, first, second = w * value, w * first, w * second
            f = f + value
            gt = gt + first * direction
            gs = gs + first
            hts = hts + second * direction
            htt = htt + second * direction * direction
            hss = hss + second
        store(part, 0, 0, f)
        store(part, 1, 0, gt)
        store(part, 2, 0, gs)
        store(part, 3, 0, htt)
        store(part, 4, 0, hts)
        store(part, 5, 0, hss)
        for c in range(6):
            for lane in range(WIDTH):
                sums[c, group * WIDTH + lane] += part[c, lane]


@njit(cache=True, nogil=True, inline="always")
def _unobserved(kind, mask, group, z):
    """ℓ₋, ℓ₋′ and ℓ₋″ of eight margins of a group of lanes."""
    if kind == LIKELIHOOD:
        return masked(load(mask, 0, group), load(mask, 1, group), load(mask, 2, group),
                      load(mask, 3, group), z)  # fmt: skip
    return negative(kind, z)


@njit(cache=True, nogil=True, inline="always")
def masked(p, absent, shift, log_p, z):
    """ℓ₋ = −ln(1 − p σ(z)), ℓ₋′ and ℓ₋″.

    `absent` is 1 − p, `shift` its logarithm. With e = e^−|z| and r = p σ(z) / (1 − p σ(z)), the
    odds of an observed label, ℓ₋ = ln(1 + r): no difference of nearly equal numbers, however small
    p or 1 − p is. At p = 1 the very numbers of the logistic loss.
    """
    zero, one = number(0.0), number(1.0)
    small = exponential(zero - larger(z, zero - z))
    inverse = one / (one + small)
    chance = where_above(z, zero, inverse, small * inverse)
    other = where_above(z, zero, small * inverse, inverse)
    below = where_above(z, zero, small + absent, one + absent * small)
    odds = where_above(z, zero, p, p * small)
    slope = chance * (where_above(z, zero, p * small, p) / below)
    posterior = where_above(z, zero, absent, absent * small) / below
    ratio = smaller(small, absent) / larger(small, absent)
    log_odds = log_p + smaller(z, zero - shift) - logarithm_of_one_plus(ratio)
    value = logarithm_of_one_plus(smaller(odds, below) / larger(odds, below))
    value = value + where_above(below, odds, zero, log_odds)
    return value, slope, slope * (other - posterior)


@njit(cache=True, nogil=True)
def masked_scalar(p, absent, shift, log_p, z):
    """Return loss, slope and curvature of one margin, in float64."""
    small = max(math.exp(-abs(z)), 1e-300)
    chance, other = 1.0 / (1.0 + small), small / (1.0 + small)
    if z > 0.0:
        below, odds, factor, posterior = small + absent, p, p * small, absent
    else:
        chance, other = other, chance
        below, odds, factor, posterior = 1.0 + absent * small, p * small, p, absent * small
    slope = chance * (factor / below)
    if odds < below:
        value = math.log1p(odds / below)
    else:
        ratio = min(small, absent) / max(small, absent)
        value = math.log1p(below / odds) + log_p + min(z, -shift) - math.log1p(ratio)
    return value, slope, slope * (other - posterior / below)


@njit(cache=True, nogil=True, inline="always")
def negative(kind, z):
    """ℓ₋, ℓ₋′ and ℓ₋″ of eight margins; equal to `unmask.losses` (tests/linear/test_solver.py)."""
    if kind == LOGISTIC:
        small = exponential(number(0.0) - larger(z, number(0.0) - z))
        inverse = number(1.0) / (number(1.0) + small)
        chance = where_above(z, number(0.0), inverse, small * inverse)
        value = larger(z, number(0.0)) + logarithm_of_one_plus(small)
        return value, chance, small * inverse * inverse
    return z * z, number(2.0) * z, number(2.0)


@njit(cache=True, nogil=True)
def negative_scalar(kind, z):
    """Return loss, slope and curvature of one margin, in float64."""
    if kind == LOGISTIC:
        small = math.exp(-abs(z))
        inverse = 1.0 / (1.0 + small)
        chance = inverse if z > 0.0 else small * inverse
        return max(z, 0.0) + math.log1p(small), chance, small * inverse * inverse
    return z * z, 2.0 * z, 2.0


@njit(cache=True, nogil=True)
def along_extra(kind, z, u, lane, t, s, rows, extra, sums):
    """Add Σ extra·ℓ₋ over the rows of one lane's label to `sums`."""
    for r in range(len(rows)):
        direction = u[rows[r], lane]
        value, first, second = negative_scalar(kind, z[rows[r], lane] + t * direction + s)
        sums[0, lane] += extra[r] * value
        sums[1, lane] += extra[r] * first * direction
        sums[2, lane] += extra[r] * first
        sums[3, lane] += extra[r] * second * direction * direction
        sums[4, lane] += extra[r] * second * direction
        sums[5, lane] += extra[r] * second


@njit(cache=True, nogil=True)
def along_entries(mask, weight, z, u, lane, t, s, rows, extra, sums):
    """Put the logistic loss of one lane's entries, weight + extra of it, in the place of ℓ₋."""
    p, absent, shift, log_p = mask[0, lane], mask[1, lane], mask[2, lane], mask[3, lane]
    for r in range(len(rows)):
        direction, w = u[rows[r], lane], weight[rows[r]]
        margin = z[rows[r], lane] + t * direction + s
        old_value, old_first, old_second = masked_scalar(p, absent, shift, log_p, margin)
        value, first, second = negative_scalar(LOGISTIC, margin)
        value = (w + extra[r]) * value - w * old_value
        first = (w + extra[r]) * first - w * old_first
        second = (w + extra[r]) * second - w * max(old_second, 0.0)
        sums[0, lane] += value
        sums[1, lane] += first * direction
        sums[2, lane] += first
        sums[3, lane] += second * direction * direction
        sums[4, lane] += second * direction
        sums[5, lane] += second


@njit(cache=True, nogil=True)
def differentiate_entries(cost, z, weight, lane, rows, extra, slope, curve):
    """C·(weight + extra) times slope and curvature of the logistic loss on one lane's entries."""
    for r in range(len(rows)):
        i = rows[r]
        _, first, second = negative_scalar(LOGISTIC, np.float64(z[i, lane]))
        slope[i, lane] = cost * (weight[i] + extra[r]) * first
        curve[i, lane] = cost * (weight[i] + extra[r]) * second


@njit(cache=True, nogil=True)
def scale_rows(slope, curve, lane, rows, extra):
    """ℓ₋′ and ℓ₋″ counted 1 + extra times on the rows of one lane's label."""
    for r in range(len(rows)):
        slope[rows[r], lane] *= 1.0 + extra[r]
        curve[rows[r], lane] *= 1.0 + extra[r]


@njit(cache=True, nogil=True)
def add_rows(x, lane, rows, weight, out):
    """out[:, lane] += Σ weight_r x_r, the bias included."""
    indptr, indices, data = x
    for r in range(len(rows)):
        out[-1, lane] += weight[r]
        for k in range(indptr[rows[r]], indptr[rows[r] + 1]):
            out[indices[k], lane] += weight[r] * data[k]


@njit(cache=True, nogil=True)
def lift(x, lane, rows, weight, d):
    """Σ weight_r (x_r·d) in one lane."""
    indptr, indices, data = x
    total = 0.0
    for r in range(len(rows)):
        for k in range(indptr[rows[r]], indptr[rows[r] + 1]):
            total += weight[r] * data[k] * d[indices[k], lane]
    return total


@njit(cache=True, nogil=True)
def dots(x, y):
    """Σ over rows of x·y, lane by lane, in float64; the last row (the bias) apart: (2, BLOCK)."""
    out = np.zeros((2, BLOCK))
    part = np.zeros((1, BLOCK), dtype=np.float32)
    last = x.shape[0] - 1
    for start in range(0, last, TILE):
        stop = min(start + TILE, last)
        for g in range(BLOCK // WIDTH):
            total = number(0.0)
            for f in range(start, stop):
                total = total + load(x, f, g) * load(y, f, g)
            store(part, 0, g, total)
        for lane in range(BLOCK):
            out[0, lane] += part[0, lane]
    for lane in range(BLOCK):
        out[1, lane] = x[last, lane] * y[last, lane]
    return out


@njit(cache=True, nogil=True)
def combine(x, a, y, b):
    """x ← a·x + b·y, with one a and one b per lane."""
    for f in range(x.shape[0]):
        for g in range(BLOCK // WIDTH):
            store(x, f, g, load(a, 0, g) * load(x, f, g) + load(b, 0, g) * load(y, f, g))
