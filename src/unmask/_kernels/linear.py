"""Loops of the one-vs-all solver for losses that most rows do not feel (squared hinge).

`BLOCK` problems stand side by side, one per lane, in matrices whose rows are instances or features.
One `sweep` over the features serves them all: it moves the margins z by the last step, computes
u = X d for the new directions d, and lists for every lane the few rows that matter, those with
margin above −1 now or within `REACH` steps along d. Everything else (`advance`) is lane by lane on
these rows alone: the best step, the gradient, and conjugate gradients for the next direction.

The loss of a row is pos·ℓ₊(z) + neg·ℓ₋(z), with pos = 0 and neg = weight (1, if rows have none)
unless the label is observed, and neg = weight − cut if it is.
"""

from __future__ import annotations

import numpy as np

from unmask._kernels.compiling import njit
from unmask._kernels.lanes import WIDTH, above, load, lowest_bit, spread, store
from unmask._kernels.linear_newton import add, direct, dot
from unmask._kernels.linear_state import (
    BLOCK,
    CONCAVE,
    CONVERGED,
    EXHAUSTED,
    FLOOR,
    FORGOTTEN,
    IDLE,
    LAST,
    REACH,
    RUNNING,
    SUMS,
)


@njit(cache=True, nogil=True)
def begin(x, y, block, scale, start, lane, label):
    """Give a lane its next label (or none, −1), at w = 0 with bias `start` and a first direction.

    The direction is the mean of the positives, each feature divided by its curvature over all rows
    (`scale`), of the length that lifts the positives by 2, from one margin to the other.
    """
    w, d = block.weights[lane], block.direction[lane]
    w[:] = 0.0
    d[:] = 0.0
    block.label[lane] = label
    block.iterations[lane] = 0
    block.keep[0, lane] = 0.0
    block.step[0, lane] = 0.0
    block.shift[0, lane] = FORGOTTEN
    block.status[lane] = IDLE
    if label < 0:
        return
    w[-1] = start
    block.shift[0, lane] = start
    block.status[lane] = RUNNING
    total = weight = 0.0
    for e in range(y.start[label], y.start[label + 1]):
        for k in range(x.indptr[y.rows[e]], x.indptr[y.rows[e] + 1]):
            d[x.indices[k]] += max(y.pos[e], 0.0) * x.data[k] * scale[x.indices[k]]
    for e in range(y.start[label], y.start[label + 1]):
        weight += max(y.pos[e], 0.0)
        for k in range(x.indptr[y.rows[e]], x.indptr[y.rows[e] + 1]):
            total += max(y.pos[e], 0.0) * x.data[k] * d[x.indices[k]]
    if total > 0.0:
        d *= 2.0 * weight / total


@njit(cache=True, nogil=True)
def interleave(block):
    """Directions lane by lane → feature by feature, in tiles that stay in the cache."""
    d = block.spread.shape[0]
    to, direction = block.spread, block.direction
    for start in range(0, d, 64):
        for lane in range(BLOCK):
            for f in range(start, min(start + 64, d)):
                to[f, lane] = direction[lane, f]


@njit(cache=True, nogil=True)
def sweep(x, block):
    """z ← keep·z + step·u + shift, then u ← X d, then the rows that each lane has to look at."""
    w, keep, step, shift, z, u, candidates, candidate_z, candidate_u, counts = block[6:]
    indptr, indices, data = x
    counts[:] = 0
    last = w.shape[0] - 1
    reach, low = spread(np.float32(REACH)), spread(np.float32(FLOOR))
    for i in range(len(indptr) - 1):
        u0, u1, u2, u3 = load(w, last, 0), load(w, last, 1), load(w, last, 2), load(w, last, 3)
        for k in range(indptr[i], indptr[i + 1]):
            value, f = spread(data[k]), indices[k]
            u0 = u0 + value * load(w, f, 0)
            u1 = u1 + value * load(w, f, 1)
            u2 = u2 + value * load(w, f, 2)
            u3 = u3 + value * load(w, f, 3)
        bits = _move(keep, step, shift, z, u, i, 0, u0, reach, low)
        bits |= _move(keep, step, shift, z, u, i, 1, u1, reach, low) << np.uint32(WIDTH)
        bits |= _move(keep, step, shift, z, u, i, 2, u2, reach, low) << np.uint32(2 * WIDTH)
        bits |= _move(keep, step, shift, z, u, i, 3, u3, reach, low) << np.uint32(3 * WIDTH)
        bits = np.uint32(bits)
        while bits:
            lane = lowest_bit(bits)
            position = counts[lane]
            candidates[lane, position], candidate_z[lane, position], candidate_u[lane, position] = (
                i,
                z[i, lane],
                u[i, lane],
            )
            counts[lane] = position + 1
            bits = np.uint32(bits & np.uint32(bits - np.uint32(1)))


@njit(cache=True, nogil=True, inline="always")
def _move(keep, step, shift, z, u, i, group, new, reach, low):
    """Move eight margins of row i, keep their new slopes, and say which ones matter."""
    moved = load(keep, 0, group) * load(z, i, group) + load(shift, 0, group)
    moved = moved + load(step, 0, group) * load(u, i, group)
    store(z, i, group, moved)
    store(u, i, group, new)
    return above(moved, low) | above(moved + reach * new, low)


@njit(cache=True, nogil=True)
def advance(x, y, settings, block, scratch):
    """One Newton iteration of every busy lane: take the best step, then find the next direction."""
    for lane in range(BLOCK):
        if block.status[lane] != RUNNING and block.status[lane] != LAST:
            continue
        label = block.label[lane]
        own = y.start[label], y.start[label + 1]
        rows, pos, cut = (
            y.rows[own[0] : own[1]],
            y.pos[own[0] : own[1]],
            y.cut[own[0] : own[1]],
        )
        w, d = block.weights[lane], block.direction[lane]
        m = _collect(block, lane, rows, cut, scratch)
        value, t, s, curved = _search(scratch, pos, m, settings, w, d)
        add(w, t, d)
        w[-1] += s
        block.keep[0, lane], block.step[0, lane], block.shift[0, lane] = 1.0, t, s
        block.iterations[lane] += 1
        block.objective[lane] = value
        if not curved:
            block.status[lane] = CONCAVE
        elif block.status[lane] == LAST:
            block.status[lane] = CONVERGED
        elif block.iterations[lane] >= settings.iterations:
            block.status[lane] = EXHAUSTED
        else:
            block.status[lane] = direct(
                x, rows, pos, block.candidates[lane], m, t, s, settings, w, d, scratch
            )


@njit(cache=True, nogil=True)
def _collect(block, lane, rows, cut, scratch):
    """z, u and neg of the lane's own rows, then of the other rows that matter; how many in all."""
    candidates, candidate_z, candidate_u = (
        block.candidates[lane],
        block.candidate_z[lane],
        block.candidate_u[lane],
    )
    z, u, to_z, to_u = block.z, block.u, scratch.z, scratch.u
    weight, neg = scratch.weight, scratch.neg
    own, position = len(rows), 0
    for r in range(own):
        to_z[r], to_u[r] = z[rows[r], lane], u[rows[r], lane]
        neg[r] = weight[rows[r]] - cut[r]
    m = own
    for c in range(block.counts[lane]):
        i = candidates[c]
        while position < own and rows[position] < i:
            position += 1
        if position == own or rows[position] != i:
            candidates[m - own] = i
            to_z[m], to_u[m] = candidate_z[c], candidate_u[c]
            neg[m] = weight[i]
            m += 1
    return m


@njit(cache=True, nogil=True)
def _search(scratch, pos, m, settings, w, d):
    """The best w + t·d and shift s of the bias, 0 ≤ t ≤ REACH and s ≤ 0: Newton in two dimensions.

    The shift is free (no pass over the features) and worth a lot: the bias decides how many
    negatives are active at all. It may not rise, so that rows outside the list stay inactive.
    """
    last = len(w) - 1
    ww, wd, dd = dot(w[:last], w[:last]), dot(w[:last], d[:last]), dot(d[:last], d[:last])
    penalty = settings.penalty
    t, s = 1.0, 0.0
    best, best_t, best_s, curved = np.inf, 0.0, 0.0, True
    for _ in range(12):
        f, gt, gs, htt, hts, hss = _along(scratch.z, scratch.u, pos, scratch.neg, m, t, s)
        bias = w[last] + t * d[last] + s
        f = settings.cost * f + 0.5 * (ww + 2 * t * wd + t * t * dd + penalty * bias * bias)
        if f > best:
            t, s = 0.5 * (t + best_t), 0.5 * (s + best_s)
            continue
        best, best_t, best_s = f, t, s
        gt = 2 * settings.cost * gt + wd + t * dd + penalty * d[last] * bias
        gs = 2 * settings.cost * gs + penalty * bias
        htt = 2 * settings.cost * htt + dd + penalty * d[last] * d[last]
        hts = 2 * settings.cost * hts + penalty * d[last]
        hss = 2 * settings.cost * hss + penalty
        curved = htt >= 0.0 and hss >= 0.0
        if not curved or htt == 0.0:
            break
        ds = 0.0
        determinant = htt * hss - hts * hts
        if settings.bias and determinant > 1e-9 * htt * hss:
            ds = min(s + (hts * gt - htt * gs) / determinant, 0.0) - s
        dt = min(max(t - (gt + hts * ds) / htt, 0.0), REACH) - t
        gain = -(gt * dt + gs * ds) - 0.5 * (htt * dt * dt + 2 * hts * dt * ds + hss * ds * ds)
        if gain <= max(0.01, settings.tol) * abs(best):
            break
        t += dt
        s += ds
    return best, best_t, best_s, curved


@njit(cache=True, nogil=True, fastmath=SUMS)
def _along(z, u, pos, neg, m, t, s):
    """Σ of pos·e₊² + neg·e₋² at z + t·u + s, and half its derivatives by t and s.

    Rows beyond those of `pos` have pos = 0.
    """
    f = gt = gs = htt = hts = hss = 0.0
    own = len(pos)
    for r in range(own, m):
        e = max(1.0 + z[r] + t * u[r] + s, 0.0)
        active = neg[r] if e > 0.0 else 0.0
        slope = neg[r] * e
        f += slope * e
        gt += slope * u[r]
        gs += slope
        htt += active * u[r] * u[r]
        hts += active * u[r]
        hss += active
    for r in range(own):
        v = z[r] + t * u[r] + s
        up, down = max(1.0 - v, 0.0), max(1.0 + v, 0.0)
        slope = neg[r] * down - pos[r] * up
        curve = (neg[r] if down > 0.0 else 0.0) + (pos[r] if up > 0.0 else 0.0)
        f += neg[r] * down * down + pos[r] * up * up
        gt += slope * u[r]
        gs += slope
        htt += curve * u[r] * u[r]
        hts += curve * u[r]
        hss += curve
    return f, gt, gs, htt, hts, hss
