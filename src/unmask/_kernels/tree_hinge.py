"""Loops that solve a node of a label tree: squared hinge, all children at once, on its rows.

In a tree most rows of a node are active for most of its children, so that all of them are
multiplied with all children, eight in a register. Weights are sums of rows, w = Xᵀa: a child is a
column of coefficients a, and the gradient of its objective is Xᵀγ with γ = a + slopes of the loss.
One step of conjugate gradients, in columns over rows,

    γ = a + slopes(z)      v = X Xᵀ γ      δ ← βδ − γ      u ← βu − v = X Xᵀ δ
    a ← a + tδ             z ← z + tu + s

passes the features twice. β makes the direction conjugate to the last one under the curvature where
the step begins, t and the shift s of the bias are the best ones. Vectors over features, of which a
node has many that one row has alone, are added up in Xᵀγ and nowhere else.

The loss of a row is pos·max(0, 1 − z)² + (weight − pos)·max(0, 1 + z)². Sums run in float32 over
`TILE` rows and in float64 beyond.
"""

from __future__ import annotations

import numpy as np

from unmask._kernels.compiling import njit
from unmask._kernels.lanes import WIDTH, larger, load, number, spread, store, where_above
from unmask._kernels.linear_state import NOTHING

BLOCK = 2 * WIDTH
TILE = 128
SEARCHES = 12  # evaluations of the objective along a direction at most
LITTLE = 0.1  # of the gain at which a child is finished: no further search along a direction
FLAT = 1e-6  # a determinant below this share of the diagonal's product is none


@njit(cache=True, nogil=True)
def solve(x, d, y, weight, settings, start):
    """Weights of all children in blocks, their biases, how many ran out of steps, and most steps.

    `weight` is what a row counts. A child is finished when further steps promise less than
    `settings.tol` of its objective. Weights are matrices (features, lanes) one after the other, of
    `BLOCK` lanes each and `WIDTH` for the last if that is enough; lanes without a child have zeros.
    """
    children = len(y.start) - 1
    lanes = padded(children)
    weights = np.empty(d * lanes, dtype=np.float32)
    bias = np.zeros(children, dtype=np.float32)
    left, most = 0, 1
    if len(weight) == 0:
        weights[:] = 0.0
        return weights, bias, left, most
    for first in range(0, lanes, BLOCK):
        last = min(first + BLOCK, lanes)
        block = weights[d * first : d * last].reshape(d, last - first)
        unfinished, steps = _solve_block(x, y, first, weight, settings, start, block, bias)
        left += unfinished
        most = max(most, steps)
    return weights, bias, left, most


@njit(cache=True, nogil=True)
def padded(children):
    """The next multiple of `WIDTH`."""
    return -(-children // WIDTH) * WIDTH


@njit(cache=True, nogil=True)
def _solve_block(x, y, first, weight, settings, start, weights, bias):
    """Children from `first` on, one per column of `weights`; how many ran out of steps; steps."""
    n, lanes = len(weight), weights.shape[1]
    children = min(len(y.start) - 1 - first, lanes)
    shape = n, lanes
    a, delta, u = (
        np.zeros(shape, np.float32),
        np.zeros(shape, np.float32),
        np.zeros(shape, np.float32),
    )
    z, gamma, v = (
        np.empty(shape, np.float32),
        np.empty(shape, np.float32),
        np.empty(shape, np.float32),
    )
    z[:] = start
    pos = _targets(y, first, children, shape)
    plane = np.zeros((2, lanes), dtype=np.float32)
    step, shift = plane[0:1], plane[1:2]
    beta = np.zeros((1, lanes), dtype=np.float32)
    sums = np.empty((7, lanes))
    line = np.zeros((5, lanes))  # ‖w‖², w·d, ‖d‖², the bias and the gain of the last step
    line[3] = start
    running = np.arange(lanes) < children
    left, steps = children, 0
    for _ in range(settings.iterations):
        steps += 1
        _slopes(settings.cost, weight, step, shift, pos, a, z, delta, u, gamma)
        lift(x, gamma, weights)
        lower(x, weights, v)
        _meet(weight, pos, z, gamma, delta, u, v, sums)
        for lane in range(lanes):
            beta[0, lane] = _conjugate(settings, sums, lane)
        _turn(beta, gamma, v, a, delta, u, line)
        left = _search(settings, weight, pos, z, u, step, shift, sums, line, running)
        if left == 0:
            break
    _slopes(settings.cost, weight, step, shift, pos, a, z, delta, u, gamma)
    lift(x, a, weights)
    for lane in range(children):
        bias[first + lane] = line[3, lane]
    return left, steps


@njit(cache=True, nogil=True)
def _targets(y, first, children, shape):
    """The weights of observed labels as a matrix."""
    pos = np.zeros(shape, dtype=np.float32)
    for lane in range(children):
        for e in range(y.start[first + lane], y.start[first + lane + 1]):
            pos[y.rows[e], lane] = y.pos[e]
    return pos


@njit(cache=True, nogil=True)
def lift(x, v, out):
    """out = Xᵀ v, for one or two groups of lanes."""
    indptr, indices, data = x
    out[:] = 0.0
    for i in range(len(indptr) - 1):
        v0 = load(v, i, 0)
        if v.shape[1] == BLOCK:
            v1 = load(v, i, 1)
            for k in range(indptr[i], indptr[i + 1]):
                value, f = spread(data[k]), indices[k]
                store(out, f, 0, load(out, f, 0) + value * v0)
                store(out, f, 1, load(out, f, 1) + value * v1)
        else:
            for k in range(indptr[i], indptr[i + 1]):
                store(out, indices[k], 0, load(out, indices[k], 0) + spread(data[k]) * v0)


@njit(cache=True, nogil=True)
def lower(x, w, out):
    """out = X w, for one or two groups of lanes."""
    indptr, indices, data = x
    for i in range(len(indptr) - 1):
        u0 = u1 = v0 = v1 = number(0.0)  # two sums each, so that one need not wait for the other
        k, stop = indptr[i], indptr[i + 1]
        if w.shape[1] == BLOCK:
            while k + 1 < stop:
                value, f = spread(data[k]), indices[k]
                other, h = spread(data[k + 1]), indices[k + 1]
                u0 = u0 + value * load(w, f, 0)
                u1 = u1 + value * load(w, f, 1)
                v0 = v0 + other * load(w, h, 0)
                v1 = v1 + other * load(w, h, 1)
                k += 2
            if k < stop:
                value, f = spread(data[k]), indices[k]
                u0 = u0 + value * load(w, f, 0)
                u1 = u1 + value * load(w, f, 1)
            store(out, i, 1, u1 + v1)
        else:
            while k + 1 < stop:
                u0 = u0 + spread(data[k]) * load(w, indices[k], 0)
                v0 = v0 + spread(data[k + 1]) * load(w, indices[k + 1], 0)
                k += 2
            if k < stop:
                u0 = u0 + spread(data[k]) * load(w, indices[k], 0)
        store(out, i, 0, u0 + v0)


@njit(cache=True, nogil=True)
def _slopes(cost, weight, step, shift, pos, a, z, delta, u, gamma):
    """Take the step, then γ = a + slopes of the loss."""
    one, nothing, twice = number(1.0), number(0.0), spread(np.float32(2.0 * cost))
    for g in range(z.shape[1] // WIDTH):
        t, s = load(step, 0, g), load(shift, 0, g)
        for i in range(z.shape[0]):
            margin = load(z, i, g) + t * load(u, i, g) + s
            coefficient = load(a, i, g) + t * load(delta, i, g)
            store(z, i, g, margin)
            store(a, i, g, coefficient)
            p = load(pos, i, g)
            q = spread(weight[i]) - p
            slope = q * larger(one + margin, nothing) - p * larger(one - margin, nothing)
            store(gamma, i, g, coefficient + twice * slope)


@njit(cache=True, nogil=True)
def _meet(weight, pos, z, gamma, delta, u, v, sums):
    """Σ of γu, δu, cuv, cuu, cv, cu and c, where c is half the curvature of the loss."""
    nothing, one, minus = number(0.0), number(1.0), number(-1.0)
    part = np.empty((7, WIDTH), dtype=np.float32)
    sums[:] = 0.0
    for start in range(0, z.shape[0], TILE):
        for g in range(z.shape[1] // WIDTH):
            gu = du = cuv = cuu = cv = cu = cc = nothing
            for i in range(start, min(start + TILE, z.shape[0])):
                margin, p, along, new = load(z, i, g), load(pos, i, g), load(u, i, g), load(v, i, g)
                c = where_above(one, margin, p, nothing)
                c = c + where_above(margin, minus, spread(weight[i]) - p, nothing)
                gu = gu + load(gamma, i, g) * along
                du = du + load(delta, i, g) * along
                bent = c * along
                cuv = cuv + bent * new
                cuu = cuu + bent * along
                cv = cv + c * new
                cu = cu + bent
                cc = cc + c
            store(part, 0, 0, gu)
            store(part, 1, 0, du)
            store(part, 2, 0, cuv)
            store(part, 3, 0, cuu)
            store(part, 4, 0, cv)
            store(part, 5, 0, cu)
            store(part, 6, 0, cc)
            _add_part(part, g, sums)


@njit(cache=True, nogil=True)
def _add_part(part, g, sums):
    for r in range(part.shape[0]):
        for j in range(WIDTH):
            sums[r, g * WIDTH + j] += part[r, j]


@njit(cache=True, nogil=True)
def _conjugate(settings, sums, lane):
    """β = gᵀHd / dᵀHd, the bias eliminated from H."""
    twice = 2.0 * settings.cost
    cuv, cuu, cv, cu = sums[2, lane], sums[3, lane], sums[4, lane], sums[5, lane]
    everything = settings.penalty / twice + sums[6, lane]
    if settings.bias and everything > 0.0:
        cuv -= cu * cv / everything
        cuu -= cu * cu / everything
    bend = sums[1, lane] + twice * cuu
    return (sums[0, lane] + twice * cuv) / bend if bend > 0.0 else 0.0


@njit(cache=True, nogil=True)
def _turn(beta, gamma, v, a, delta, u, line):
    """The next direction δ and its margins u; Σ of au = w·d and δu = ‖d‖² into `line`."""
    nothing = number(0.0)
    part = np.empty((2, WIDTH), dtype=np.float32)
    line[1:3] = 0.0
    for start in range(0, u.shape[0], TILE):
        for g in range(u.shape[1] // WIDTH):
            wd = dd = nothing
            b = load(beta, 0, g)
            for i in range(start, min(start + TILE, u.shape[0])):
                direction = b * load(delta, i, g) - load(gamma, i, g)
                along = b * load(u, i, g) - load(v, i, g)
                store(delta, i, g, direction)
                store(u, i, g, along)
                wd = wd + load(a, i, g) * along
                dd = dd + direction * along
            store(part, 0, 0, wd)
            store(part, 1, 0, dd)
            _add_part(part, g, line[1:3])


@njit(cache=True, nogil=True)
def _search(settings, weight, pos, z, u, step, shift, sums, line, running):
    """The best step and shift of every running child, which stops if later ones promise too little.

    They promise the sum of a geometric series that goes on as the last two gains do. The search is
    Newton's method in two dimensions, whose last correction is not evaluated; a point above the
    best one is moved halfway towards it. Returns how many children go on.
    """
    lanes = z.shape[1]
    before, best = np.empty(lanes), np.empty(lanes)
    best_step, best_shift = np.zeros(lanes), np.zeros(lanes)
    searching = running.copy()
    step[:] = 0.0
    shift[:] = 0.0
    for evaluation in range(SEARCHES):
        _along(weight, pos, z, u, step, shift, sums)
        for lane in range(lanes):
            if not searching[lane]:
                continue
            t, s = np.float64(step[0, lane]), np.float64(shift[0, lane])
            value, dt, ds, gain = _correction(settings, sums, line, lane, t, s)
            if evaluation == 0:
                before[lane] = value
            elif value > best[lane]:
                step[0, lane] = 0.5 * (t + best_step[lane])
                shift[0, lane] = 0.5 * (s + best_shift[lane])
                continue
            best[lane], best_step[lane], best_shift[lane] = value, t, s
            if evaluation > 0 and gain <= LITTLE * settings.tol * value:
                best[lane], best_step[lane], best_shift[lane] = value - gain, t + dt, s + ds
                searching[lane] = False
            step[0, lane], shift[0, lane] = t + dt, s + ds
        if not searching.any():
            break
    for lane in range(lanes):
        t, s = best_step[lane], best_shift[lane]
        step[0, lane], shift[0, lane] = t, s
        if running[lane]:
            line[0, lane] += 2 * t * line[1, lane] + t * t * line[2, lane]
            line[3, lane] += s
            gain, last = before[lane] - best[lane], line[4, lane]
            line[4, lane] = gain
            promised = gain * gain / (last - gain) if gain < last else gain
            running[lane] = promised > settings.tol * max(best[lane], NOTHING * settings.cost)
    return running.sum()


@njit(cache=True, nogil=True)
def _correction(settings, sums, line, lane, t, s):
    """The objective at step t and shift s, Newton's changes of both, and what they promise."""
    twice, penalty = 2.0 * settings.cost, settings.penalty
    ww, wd, dd, bias = line[0, lane], line[1, lane], line[2, lane], line[3, lane] + s
    value = settings.cost * sums[0, lane]
    value += 0.5 * (ww + 2.0 * t * wd + t * t * dd + penalty * bias * bias)
    gt = twice * sums[1, lane] + wd + t * dd
    gs = twice * sums[2, lane] + penalty * bias
    htt = twice * sums[3, lane] + dd
    hts = twice * sums[4, lane]
    hss = twice * sums[5, lane] + penalty
    determinant = htt * hss - hts * hts
    dt = ds = 0.0
    if settings.bias and determinant > FLAT * htt * hss:
        dt = (hts * gs - hss * gt) / determinant
        ds = (hts * gt - htt * gs) / determinant
    elif htt > 0.0:
        dt = -gt / htt
    elif settings.bias and hss > 0.0:
        ds = -gs / hss
    gain = -(gt * dt + gs * ds) - 0.5 * (htt * dt * dt + 2.0 * hts * dt * ds + hss * ds * ds)
    return value, dt, ds, gain


@njit(cache=True, nogil=True)
def _along(weight, pos, z, u, step, shift, sums):
    """Σ of the loss at z + t·u + s and half its derivatives by t, s, tt, ts and ss."""
    nothing, one, minus = number(0.0), number(1.0), number(-1.0)
    part = np.empty((6, WIDTH), dtype=np.float32)
    sums[:6] = 0.0
    for start in range(0, z.shape[0], TILE):
        for g in range(z.shape[1] // WIDTH):
            f = gt = gs = htt = hts = hss = nothing
            t, s = load(step, 0, g), load(shift, 0, g)
            for i in range(start, min(start + TILE, z.shape[0])):
                direction, p = load(u, i, g), load(pos, i, g)
                q = spread(weight[i]) - p
                margin = load(z, i, g) + t * direction + s
                up, down = larger(one - margin, nothing), larger(one + margin, nothing)
                above, below = q * down, p * up
                slope = above - below
                curve = where_above(one, margin, p, nothing)
                curve = curve + where_above(margin, minus, q, nothing)
                f = f + above * down + below * up
                gt = gt + slope * direction
                gs = gs + slope
                bent = curve * direction
                htt = htt + bent * direction
                hts = hts + bent
                hss = hss + curve
            store(part, 0, 0, f)
            store(part, 1, 0, gt)
            store(part, 2, 0, gs)
            store(part, 3, 0, htt)
            store(part, 4, 0, hts)
            store(part, 5, 0, hss)
            _add_part(part, g, sums)
