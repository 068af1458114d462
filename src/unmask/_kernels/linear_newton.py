"""The next Newton direction of one label, from its active rows alone.

The rows are copied onto the features they touch, so that the vectors of conjugate gradients are
short; slopes and curvatures are computed from the weights in float64, whatever float32 did to the
margins that chose the rows.
"""

from __future__ import annotations

import numpy as np

from unmask._kernels.compiling import njit
from unmask._kernels.lanes import prefetch
from unmask._kernels.linear_state import AHEAD, CONCAVE, FLOOR, LAST, NOTHING, RUNNING, SUMS


@njit(cache=True, nogil=True)
def direct(x, rows, pos, candidates, m, t, s, settings, w, d, scratch):
    """The next Newton direction into `d`; RUNNING, LAST if it promises too little, or CONCAVE.

    Features that no active row has feel the penalty alone: their Newton step is −w, exactly.
    """
    active, touched, loss = _gather(x, rows, pos, candidates, m, t, s, settings, w, scratch)
    last = len(w) - 1
    residual, solution = scratch.vectors[0], scratch.vectors[1]
    squares = dot(w[:last], w[:last])
    value = settings.cost * loss + 0.5 * (squares + settings.penalty * w[last] * w[last])
    for f in range(touched):
        residual[f] = -w[scratch.names[f]]
    promised = 0.5 * (squares - dot(residual[:touched], residual[:touched]))
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
def _gather(x, rows, pos, candidates, m, t, s, settings, w, scratch):
    """Copy the active rows onto the features they touch, with their exact slopes and curvatures."""
    place, names, start, index, value = scratch[2:7]
    z, u, slope, curve, neg = scratch.z, scratch.u, scratch.slope, scratch.curve, scratch.neg
    indptr, indices, data = x
    one = np.uint64(1)
    touched, size = np.uint64(0), np.uint64(0)
    own, active, loss = len(rows), 0, 0.0
    cost, last = 2.0 * settings.cost, len(w) - 1
    start[0] = 0
    for r in range(m):
        if r + AHEAD < m:
            i = rows[r + AHEAD] if r + AHEAD < own else candidates[r + AHEAD - own]
            k = indptr[i]
            prefetch(indices, k)
            prefetch(data, k)
            prefetch(indices, k + 16)
            prefetch(data, k + 16)
        rough = z[r] + t * u[r] + s
        if (r >= own and rough <= FLOOR) or (r < own and rough > 1.00001 and neg[r] == 0.0):
            continue
        i = rows[r] if r < own else candidates[r - own]
        v = w[last]
        k, stop = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        while k < stop:
            f = indices[k]
            slot = place[f]
            new = slot < 0  # without a branch, which would be unpredictable
            slot = np.int32(touched) if new else slot
            place[f] = slot
            names[touched] = f
            touched += np.uint64(new)
            index[size] = slot
            value[size] = data[k]
            v += data[k] * w[f]
            size += one
            k += one
        p, q = (pos[r] if r < own else 0.0), neg[r]
        up, down = max(1.0 - v, 0.0), max(1.0 + v, 0.0)
        loss += p * up * up + q * down * down
        slope[active] = cost * (q * down - p * up)
        curve[active] = cost * ((p if up > 0.0 else 0.0) + (q if down > 0.0 else 0.0))
        active += 1
        start[active] = size
    return active, np.int64(touched), loss


@njit(cache=True, nogil=True)
def _add_rows(scratch, active, touched, settings):
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
def _conjugate_gradients(scratch, active, touched, settings, promised):
    """Solve H solution = residual until a step gains less than a fraction of all gains so far."""
    size = touched + 1
    residual, solution = scratch.vectors[0, :size], scratch.vectors[1, :size]
    q, h, scale = scratch.vectors[2, :size], scratch.vectors[3, :size], scratch.vectors[4, :size]
    solution[:] = 0.0
    for f in range(size):
        q[f] = scale[f] * residual[f]
    rho = dot(residual, q)
    for _ in range(200):
        if rho <= 1e-30:
            break
        h[:] = q
        h[touched] = settings.penalty * q[touched] + _curve_rows(scratch, active, q, h)
        if not settings.bias:
            h[touched] = 0.0
        bend = dot(q, h)
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


@njit(cache=True, nogil=True, fastmath=SUMS)
def _step(solution, residual, q, h, scale, alpha):
    """Move along q; returns residual·scale·residual."""
    total = 0.0
    for f in range(len(q)):
        solution[f] += alpha * q[f]
        r = residual[f] - alpha * h[f]
        residual[f] = r
        total += scale[f] * r * r
    return total


@njit(cache=True, nogil=True)
def _curve_rows(scratch, active, q, h):
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


@njit(cache=True, nogil=True, fastmath=SUMS)
def dot(x, y):
    total = 0.0
    for f in range(len(x)):
        total += x[f] * y[f]
    return total


@njit(cache=True, nogil=True)
def add(x, t, y):
    for f in range(len(x)):
        x[f] += t * y[f]
