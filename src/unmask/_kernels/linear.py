"""Loops of the one-vs-all solver for losses that most rows do not feel (squared hinge).

`BLOCK` problems stand side by side, one per lane, in matrices whose rows are instances or features.
One `sweep` over the features serves them all: it moves the margins z by the last step, computes
u = X d for the new directions d, and lists for every lane the few rows that matter, those with
margin above −1 now or within `REACH` steps along d. Everything else (`advance`) is lane by lane on
these rows alone: the best step, the gradient, and conjugate gradients for the next direction.

The loss of a row is pos·ℓ₊(z) + neg·ℓ₋(z), with pos = 0 and neg = 1 unless the label is observed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unmask._kernels.lanes import WIDTH, above, load, lowest_bit, prefetch, spread, store

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Singles = NDArray[np.float32]
Doubles = NDArray[np.float64]

BLOCK = 4 * WIDTH
REACH = 1.2
FLOOR = -1.00001  # a margin this low is inactive whatever float32 did to it
NOTHING = 1e-3  # an objective below this fraction of one row's loss counts as zero
AHEAD = 8  # rows fetched before they are needed
FORGOTTEN = -9.0  # margin of the rows of a lane without a label

IDLE, RUNNING, LAST, CONVERGED, CONCAVE, EXHAUSTED = 0, 1, 2, 3, 4, 5

_sums = {"reassoc", "contract", "nsz"}  # lets sums of independent terms use SIMD


class Rows(NamedTuple):
    """The features, CSR, float32."""

    indptr: Ints | Longs
    indices: Ints | NDArray[np.uint32]
    data: Singles


class Entries(NamedTuple):
    """The observed labels, label by label: rows `start[j]:start[j+1]` with weights pos and cut."""

    start: Longs
    rows: Ints
    pos: Doubles
    cut: Doubles


class Settings(NamedTuple):
    """C, the penalty of the bias (0 or 1), whether there is one, and when to stop."""

    cost: float
    penalty: float
    bias: bool
    tol: float
    forcing: float
    turns: int


class Block(NamedTuple):
    """The state of `BLOCK` problems: margins are (n, BLOCK), weights (BLOCK, d+1)."""

    label: Longs
    status: Longs
    turns: Longs
    objective: Doubles
    weights: Doubles
    direction: Doubles
    spread: Singles
    keep: Singles
    step: Singles
    shift: Singles
    z: Singles
    u: Singles
    found: Ints
    found_z: Singles
    found_u: Singles
    counts: Longs


class Scratch(NamedTuple):
    """Room for one lane at a time: its rows, and its active rows on the features they touch."""

    z: Doubles
    u: Doubles
    place: Ints
    names: Ints
    start: Longs
    column: NDArray[np.uint32]
    value: Singles
    slope: Doubles
    curve: Doubles
    vectors: Doubles


def block(n: int, d: int) -> Block:
    """An empty block for n rows and d features."""
    lanes = (1, BLOCK)
    return Block(
        label=np.full(BLOCK, -1),
        status=np.zeros(BLOCK, dtype=np.int64),
        turns=np.zeros(BLOCK, dtype=np.int64),
        objective=np.zeros(BLOCK),
        weights=np.zeros((BLOCK, d + 1)),
        direction=np.zeros((BLOCK, d + 1)),
        spread=np.zeros((d + 1, BLOCK), dtype=np.float32),
        keep=np.zeros(lanes, dtype=np.float32),
        step=np.zeros(lanes, dtype=np.float32),
        shift=np.full(lanes, FORGOTTEN, dtype=np.float32),
        z=np.zeros((n, BLOCK), dtype=np.float32),
        u=np.zeros((n, BLOCK), dtype=np.float32),
        found=np.empty((BLOCK, n), dtype=np.int32),
        found_z=np.empty((BLOCK, n), dtype=np.float32),
        found_u=np.empty((BLOCK, n), dtype=np.float32),
        counts=np.zeros(BLOCK, dtype=np.int64),
    )


def scratch(n: int, d: int, nnz: int) -> Scratch:
    """Room for problems of this size; pages that are never used cost nothing."""
    return Scratch(
        z=np.empty(n),
        u=np.empty(n),
        place=np.full(d, -1, dtype=np.int32),
        names=np.empty(d + 1, dtype=np.int32),
        start=np.empty(n + 1, dtype=np.int64),
        column=np.empty(nnz, dtype=np.uint32),
        value=np.empty(nnz, dtype=np.float32),
        slope=np.empty(n),
        curve=np.empty(n),
        vectors=np.empty((5, d + 1)),
    )


@njit(cache=True, nogil=True)
def begin(x, y, block, scale, start, lane, label):  # type: ignore[no-untyped-def]
    """Give a lane its next label (or none, −1), at w = 0 with bias `start` and a first direction.

    The direction is the mean of the positives, each feature divided by its curvature over all rows
    (`scale`), of the length that lifts the positives by 2, from one margin to the other.
    """
    w, d = block.weights[lane], block.direction[lane]
    w[:] = 0.0
    d[:] = 0.0
    block.label[lane] = label
    block.turns[lane] = 0
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
def interleave(block):  # type: ignore[no-untyped-def]
    """Directions lane by lane → feature by feature, in tiles that stay in the cache."""
    d = block.spread.shape[0]
    to, direction = block.spread, block.direction
    for start in range(0, d, 64):
        for lane in range(BLOCK):
            for f in range(start, min(start + 64, d)):
                to[f, lane] = direction[lane, f]


@njit(cache=True, nogil=True)
def sweep(x, block):  # type: ignore[no-untyped-def]
    """z ← keep·z + step·u + shift, then u ← X d, then the rows that each lane has to look at."""
    w, keep, step, shift, z, u, found, found_z, found_u, counts = block[6:]
    indptr, indices, data = x
    counts[:] = 0
    last = w.shape[0] - 1
    far, low = spread(np.float32(REACH)), spread(np.float32(FLOOR))
    for i in range(len(indptr) - 1):
        u0, u1, u2, u3 = load(w, last, 0), load(w, last, 1), load(w, last, 2), load(w, last, 3)
        for k in range(indptr[i], indptr[i + 1]):
            value, f = spread(data[k]), indices[k]
            u0 = u0 + value * load(w, f, 0)
            u1 = u1 + value * load(w, f, 1)
            u2 = u2 + value * load(w, f, 2)
            u3 = u3 + value * load(w, f, 3)
        bits = _move(keep, step, shift, z, u, i, 0, u0, far, low)
        bits |= _move(keep, step, shift, z, u, i, 1, u1, far, low) << np.uint32(WIDTH)
        bits |= _move(keep, step, shift, z, u, i, 2, u2, far, low) << np.uint32(2 * WIDTH)
        bits |= _move(keep, step, shift, z, u, i, 3, u3, far, low) << np.uint32(3 * WIDTH)
        bits = np.uint32(bits)
        while bits:
            lane = lowest_bit(bits)
            at = counts[lane]
            found[lane, at], found_z[lane, at], found_u[lane, at] = i, z[i, lane], u[i, lane]
            counts[lane] = at + 1
            bits = np.uint32(bits & np.uint32(bits - np.uint32(1)))


@njit(cache=True, nogil=True, inline="always")
def _move(keep, step, shift, z, u, i, group, new, far, low):  # type: ignore[no-untyped-def]
    """Move eight margins of row i, keep their new slopes, and say which ones matter."""
    moved = load(keep, 0, group) * load(z, i, group) + load(shift, 0, group)
    moved = moved + load(step, 0, group) * load(u, i, group)
    store(z, i, group, moved)
    store(u, i, group, new)
    return above(moved, low) | above(moved + far * new, low)


@njit(cache=True, nogil=True)
def advance(x, y, settings, block, scratch):  # type: ignore[no-untyped-def]
    """One Newton turn of every busy lane: take the best step, then find the next direction."""
    for lane in range(BLOCK):
        if block.status[lane] != RUNNING and block.status[lane] != LAST:
            continue
        label = block.label[lane]
        own = y.start[label], y.start[label + 1]
        rows, pos, neg = (
            y.rows[own[0] : own[1]],
            y.pos[own[0] : own[1]],
            1.0 - y.cut[own[0] : own[1]],
        )
        w, d = block.weights[lane], block.direction[lane]
        m = _collect(block, lane, rows, scratch)
        value, t, s, curved = _search(scratch, pos, neg, m, settings, w, d)
        _add(w, t, d)
        w[-1] += s
        block.keep[0, lane], block.step[0, lane], block.shift[0, lane] = 1.0, t, s
        block.turns[lane] += 1
        block.objective[lane] = value
        if not curved:
            block.status[lane] = CONCAVE
        elif block.status[lane] == LAST:
            block.status[lane] = CONVERGED
        elif block.turns[lane] >= settings.turns:
            block.status[lane] = EXHAUSTED
        else:
            block.status[lane] = _direct(
                x, rows, pos, neg, block.found[lane], m, t, s, settings, w, d, scratch
            )


@njit(cache=True, nogil=True)
def _collect(block, lane, rows, scratch):  # type: ignore[no-untyped-def]
    """z and u of the lane's own rows, then of the other rows that matter; how many in all."""
    found, found_z, found_u = block.found[lane], block.found_z[lane], block.found_u[lane]
    z, u, to_z, to_u = block.z, block.u, scratch.z, scratch.u
    own, at = len(rows), 0
    for r in range(own):
        to_z[r], to_u[r] = z[rows[r], lane], u[rows[r], lane]
    m = own
    for c in range(block.counts[lane]):
        i = found[c]
        while at < own and rows[at] < i:
            at += 1
        if at == own or rows[at] != i:
            found[m - own] = i
            to_z[m], to_u[m] = found_z[c], found_u[c]
            m += 1
    return m


@njit(cache=True, nogil=True)
def _search(scratch, pos, neg, m, settings, w, d):  # type: ignore[no-untyped-def]
    """The best w + t·d and shift s of the bias, 0 ≤ t ≤ REACH and s ≤ 0: Newton in two dimensions.

    The shift is free (no pass over the features) and worth a lot: the bias decides how many
    negatives are active at all. It may not rise, so that rows outside the list stay inactive.
    """
    last = len(w) - 1
    ww, wd, dd = _dot(w[:last], w[:last]), _dot(w[:last], d[:last]), _dot(d[:last], d[:last])
    penalty = settings.penalty
    t, s = 1.0, 0.0
    best, best_t, best_s, curved = np.inf, 0.0, 0.0, True
    for _ in range(12):
        f, gt, gs, htt, hts, hss = _along(scratch.z, scratch.u, pos, neg, m, t, s)
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


@njit(cache=True, nogil=True, fastmath=_sums)
def _along(z, u, pos, neg, m, t, s):  # type: ignore[no-untyped-def]
    """Σ of pos·e₊² + neg·e₋² at z + t·u + s, and half its derivatives by t and s."""
    f = gt = gs = htt = hts = hss = 0.0
    own = len(pos)
    for r in range(own, m):
        e = max(1.0 + z[r] + t * u[r] + s, 0.0)
        on = 1.0 if e > 0.0 else 0.0
        f += e * e
        gt += e * u[r]
        gs += e
        htt += on * u[r] * u[r]
        hts += on * u[r]
        hss += on
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


@njit(cache=True, nogil=True)
def _direct(x, rows, pos, neg, found, m, t, s, settings, w, d, scratch):  # type: ignore[no-untyped-def]
    """The next Newton direction into `d`; RUNNING, LAST if it promises too little, or CONCAVE.

    Features that no active row has feel the penalty alone: their Newton step is −w, exactly.
    """
    active, touched, loss = _gather(x, rows, pos, neg, found, m, t, s, settings, w, scratch)
    last = len(w) - 1
    residual, solution = scratch.vectors[0], scratch.vectors[1]
    squares = _dot(w[:last], w[:last])
    value = settings.cost * loss + 0.5 * (squares + settings.penalty * w[last] * w[last])
    for f in range(touched):
        residual[f] = -w[scratch.names[f]]
    promised = 0.5 * (squares - _dot(residual[:touched], residual[:touched]))
    residual[touched] = -settings.penalty * w[last]
    _add_rows(scratch, active, touched, settings)
    if not settings.bias:
        residual[touched] = 0.0
    promised, curved = _conjugate_gradients(scratch, active, touched, settings, promised)
    for f in range(last):
        d[f] = -w[f]
    for f in range(touched):
        d[scratch.names[f]] = solution[f]
        scratch.place[scratch.names[f]] = -1
    d[last] = solution[touched]
    if not curved:
        return CONCAVE
    enough = settings.tol * max(abs(value), NOTHING * settings.cost)
    return LAST if promised <= enough else RUNNING


@njit(cache=True, nogil=True)
def _gather(x, rows, pos, neg, found, m, t, s, settings, w, scratch):  # type: ignore[no-untyped-def]
    """Copy the active rows onto the features they touch, with their exact slopes and curvatures."""
    place, names, start, index, value = scratch[2:7]
    z, u, slope, curve = scratch.z, scratch.u, scratch.slope, scratch.curve
    indptr, indices, data = x
    one = np.uint64(1)
    touched, size = np.uint64(0), np.uint64(0)
    own, active, loss = len(rows), 0, 0.0
    cost, last = 2.0 * settings.cost, len(w) - 1
    start[0] = 0
    for r in range(m):
        if r + AHEAD < m:
            i = rows[r + AHEAD] if r + AHEAD < own else found[r + AHEAD - own]
            k = indptr[i]
            prefetch(indices, k)
            prefetch(data, k)
            prefetch(indices, k + 16)
            prefetch(data, k + 16)
        rough = z[r] + t * u[r] + s
        if (r >= own and rough <= FLOOR) or (r < own and rough > 1.00001 and neg[r] == 0.0):
            continue
        i = rows[r] if r < own else found[r - own]
        v = w[last]
        k, stop = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        while k < stop:
            f = indices[k]
            at = place[f]
            new = at < 0  # without a branch, which would be unpredictable
            at = np.int32(touched) if new else at
            place[f] = at
            names[touched] = f
            touched += np.uint64(new)
            index[size] = at
            value[size] = data[k]
            v += data[k] * w[f]
            size += one
            k += one
        p, q = (pos[r], neg[r]) if r < own else (0.0, 1.0)
        up, down = max(1.0 - v, 0.0), max(1.0 + v, 0.0)
        loss += p * up * up + q * down * down
        slope[active] = cost * (q * down - p * up)
        curve[active] = cost * ((p if up > 0.0 else 0.0) + (q if down > 0.0 else 0.0))
        active += 1
        start[active] = size
    return active, np.int64(touched), loss


@njit(cache=True, nogil=True)
def _add_rows(scratch, active, touched, settings):  # type: ignore[no-untyped-def]
    """residual −= Σ slope_i x_i over the active rows; scale = (diagonal of the Hessian)^−½.

    Dividing by the whole diagonal takes more steps than dividing by nothing; by its root, fewer.
    """
    starts, index, value = scratch.start, scratch.column, scratch.value
    slope, curve = scratch.slope, scratch.curve
    residual, scale = scratch.vectors[0], scratch.vectors[4]
    scale[:touched] = 1.0
    slopes = curves = 0.0
    for a in range(active):
        g, c = slope[a], curve[a]
        slopes += g
        curves += c
        for k in range(starts[a], starts[a + 1]):
            residual[index[k]] -= g * value[k]
            scale[index[k]] += c * value[k] * value[k]
    residual[touched] -= slopes
    scale[touched] = settings.penalty + curves
    for f in range(touched + 1):
        scale[f] = 1.0 / np.sqrt(scale[f]) if scale[f] > 0.0 else 1.0


@njit(cache=True, nogil=True)
def _conjugate_gradients(scratch, active, touched, settings, promised):  # type: ignore[no-untyped-def]
    """Solve H solution = residual until a step gains less than a fraction of all gains so far."""
    size = touched + 1
    residual, solution = scratch.vectors[0, :size], scratch.vectors[1, :size]
    q, h, scale = scratch.vectors[2, :size], scratch.vectors[3, :size], scratch.vectors[4, :size]
    solution[:] = 0.0
    for f in range(size):
        q[f] = scale[f] * residual[f]
    rho = _dot(residual, q)
    for _ in range(200):
        if rho <= 1e-30:
            break
        h[:] = q
        h[touched] = settings.penalty * q[touched] + _curve_rows(scratch, active, q, h)
        if not settings.bias:
            h[touched] = 0.0
        bend = _dot(q, h)
        if bend <= 0.0:
            return promised, False
        alpha = rho / bend
        new = _step(solution, residual, q, h, scale, alpha)
        gain = 0.5 * alpha * rho
        promised += gain
        if gain <= settings.forcing * promised:
            break
        beta = new / rho
        for f in range(size):
            q[f] = scale[f] * residual[f] + beta * q[f]
        rho = new
    return promised, True


@njit(cache=True, nogil=True, fastmath=_sums)
def _step(solution, residual, q, h, scale, alpha):  # type: ignore[no-untyped-def]
    """Move along q; returns residual·scale·residual."""
    total = 0.0
    for f in range(len(q)):
        solution[f] += alpha * q[f]
        r = residual[f] - alpha * h[f]
        residual[f] = r
        total += scale[f] * r * r
    return total


@njit(cache=True, nogil=True)
def _curve_rows(scratch, active, q, h):  # type: ignore[no-untyped-def]
    """h += Σ curve_i (x_i·q) x_i over the active rows; returns the component of the bias.

    Two partial sums, and unsigned numbers (which numba does not test for being negative): this is
    where training spends its time.
    """
    starts, index, value, curve = scratch.start, scratch.column, scratch.value, scratch.curve
    one, two = np.uint64(1), np.uint64(2)
    bias, total = q[-1], 0.0
    for a in range(active):
        start, stop = np.uint64(starts[a]), np.uint64(starts[a + 1])
        even, odd = bias, 0.0
        k = start
        while k + one < stop:
            even += value[k] * q[index[k]]
            odd += value[k + one] * q[index[k + one]]
            k += two
        if k < stop:
            even += value[k] * q[index[k]]
        v = (even + odd) * curve[a]
        total += v
        k = start
        while k < stop:
            h[index[k]] += v * value[k]
            k += one
    return total


@njit(cache=True, nogil=True, fastmath=_sums)
def _dot(x, y):  # type: ignore[no-untyped-def]
    total = 0.0
    for f in range(len(x)):
        total += x[f] * y[f]
    return total


@njit(cache=True, nogil=True)
def _add(x, t, y):  # type: ignore[no-untyped-def]
    for f in range(len(x)):
        x[f] += t * y[f]
