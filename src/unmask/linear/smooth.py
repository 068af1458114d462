"""Logistic loss and squared error, one-vs-all: truncated Newton for `BLOCK` labels in step.

Every row has curvature, so there is nothing to skip; instead one pass over the features serves all
lanes, eight to an instruction. A turn is: conjugate gradients for the direction d, one product X d,
and a search in two dimensions (step and shift of the bias) on the margins alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask._kernels import linear_smooth as kernels
from unmask._kernels.lanes import WIDTH
from unmask._kernels.linear_state import CONCAVE, CONVERGED, EXHAUSTED, IDLE, LAST, RUNNING
from unmask.linear.problem import Problem, Solution

Singles = NDArray[np.float32]
Doubles = NDArray[np.float64]

BLOCK = kernels.BLOCK
ROUNDING = 2e-7  # of a sum of float32 terms, as a share of it


@dataclass(frozen=True)
class Kind:
    """ℓ₊(z) = ℓ₋(z) − rise·z + offset; the code of ℓ₋ in the kernels; its largest curvature.

    `forcing`: conjugate gradients stop when a step gains less than this share of all gains. Where
    the objective is quadratic there is no reason to stop early.
    """

    code: int
    rise: float
    offset: float
    curvature: float
    forcing: float


KINDS = {
    "logistic": Kind(kernels.LOGISTIC, 1.0, 0.0, 0.25, 0.1),
    "squared_error": Kind(kernels.SQUARED_ERROR, 2.0, 1.0, 2.0, 1e-3),
}


@dataclass(frozen=True)
class State:
    """`BLOCK` problems: weights, fixed pull and directions (d+1, BLOCK), margins (n, BLOCK)."""

    given: Problem
    kind: Kind
    scale: Doubles
    label: NDArray[np.int64]
    status: NDArray[np.int64]
    iterations: NDArray[np.int64]
    value: Doubles
    base: Doubles
    noise: Doubles
    w: Singles
    pull: Singles
    d: Singles
    residual: Singles
    q: Singles
    h: Singles
    z: Singles
    u: Singles
    slope: Singles
    curve: Singles

    def entries(self, lane: Any) -> tuple[NDArray[np.int32], Doubles, Doubles]:
        """Rows, pos and pos − cut of the label in a lane."""
        label, y = self.label[lane], self.given.entries
        own = slice(y.start[label], y.start[label + 1])
        return y.rows[own], y.pos[own], y.pos[own] - y.cut[own]

    @property
    def convex(self) -> NDArray[np.bool_]:
        """Lanes whose problem is known to be convex."""
        return np.asarray(self.given.convex[self.label])

    @property
    def busy(self) -> NDArray[np.bool_]:
        """Lanes that are still at work."""
        return np.asarray((self.status == RUNNING) | (self.status == LAST))


def solve(given: Problem, labels: NDArray[np.integer], first: Singles | None = None) -> Solution:
    """The optimum of every label in `labels`; `first` are weight vectors to start from."""
    state = _state(given)
    m, d = len(labels), given.shape[1]
    solution = Solution(
        np.zeros((m, d + 1), dtype=np.float32),
        np.zeros(m),
        np.zeros(m, dtype=np.int64),
        np.zeros(m, dtype=np.int64),
    )
    place = np.full(BLOCK, -1)
    waiting = iter(range(m))

    def begin(lane: int) -> None:
        place[lane] = at = next(waiting, -1)
        _begin(state, lane, labels[at] if at >= 0 else -1, None if first is None else first[at])

    def harvest() -> None:
        for lane in np.flatnonzero(state.status >= CONVERGED):
            at = place[lane]
            solution.weights[at] = state.w[:, lane]
            solution.objective[at] = state.value[lane]
            solution.iterations[at], solution.status[at] = (
                state.iterations[lane],
                state.status[lane],
            )
            begin(int(lane))

    for lane in range(BLOCK):
        begin(lane)
    while state.busy.any():
        kernels.forward(given.rows, state.d, state.u)
        _search(state)
        harvest()
        _direct(state)
        harvest()
    return solution


def _state(given: Problem) -> State:
    n, d, _ = given.shape
    kind = KINDS[given.loss]
    curvature = given.cost * kind.curvature * given.squares
    arrays: dict[str, Any] = {
        name: np.zeros(BLOCK, dtype=np.int64) for name in ("label", "status", "iterations")
    }
    arrays |= {name: np.zeros(BLOCK) for name in ("value", "base", "noise")}
    shapes = dict.fromkeys(("w", "pull", "d", "residual", "q", "h"), (d + 1, BLOCK))
    shapes |= dict.fromkeys(("z", "u", "slope", "curve"), (n, BLOCK))
    arrays |= {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
    return State(given, kind, 1.0 / (1.0 + curvature), **arrays)


def _begin(state: State, lane: int, label: int, first: Singles | None) -> None:
    """Give a lane its next label (or none, −1): the best constant, and a first direction.

    That is the mean of the positives, each feature divided by its curvature over all rows, of the
    length that lifts the positives by 2; or the way to `first`.
    """
    given, kind = state.given, state.kind
    for matrix in (state.w, state.d, state.pull):
        matrix[:, lane] = 0.0
    state.label[lane], state.iterations[lane] = label, 0
    state.status[lane] = RUNNING if label >= 0 else IDLE
    if label < 0:
        return
    rows, pos, _ = state.entries(lane)
    state.base[lane] = given.cost * kind.offset * pos.sum()
    kernels.add_rows(given.rows, lane, rows, given.cost * kind.rise * pos, state.pull)
    start = 0.0 if given.bias == "none" else _best_constant(given, pos)
    state.w[-1, lane] = start
    state.z[:, lane] = start
    if first is not None:
        state.d[:, lane] = first
        state.d[-1, lane] -= start
        return
    kernels.add_rows(given.rows, lane, rows, np.maximum(pos, 0.0), state.d)
    state.d[:-1, lane] *= state.scale
    state.d[-1, lane] = 0.0
    lift = kernels.lift(given.rows, lane, rows, np.maximum(pos, 0.0), state.d)
    state.d[:, lane] *= 2.0 * np.maximum(pos, 0.0).sum() / lift if lift > 0 else 0.0


def _best_constant(given: Problem, pos: Doubles) -> float:
    """Roughly the margin that minimises the loss when it is the same for all rows."""
    if given.loss != "logistic":
        return 0.0
    share = np.clip(pos.sum() / max(given.shape[0], 1), 1e-4, 1 - 1e-4)
    return float(np.log(share / (1 - share)))


def _search(state: State) -> None:
    """Move busy lanes to the best w + t·d and shift s of the bias: Newton in two dimensions."""
    given, penalty = state.given, state.given.penalty
    ww, wd, dd = (
        kernels.dots(a, b) for a, b in ((state.w, state.w), (state.w, state.d), (state.d, state.d))
    )
    pulled = kernels.dots(state.pull, state.w).sum(0), kernels.dots(state.pull, state.d).sum(0)
    bias, tilt, pull = (m[-1].astype(np.float64) for m in (state.w, state.d, state.pull))
    t, s = np.where(state.busy, 1.0, 0.0), np.zeros(BLOCK)
    best, best_t, best_s = np.full(BLOCK, np.inf), np.zeros(BLOCK), np.zeros(BLOCK)
    open_ = state.busy
    for _ in range(10):
        f, gt, gs, htt, hts, hss = given.cost * _sums(state, t, s, open_)
        now, pulls = bias + t * tilt + s, pulled[0] + t * pulled[1] + s * pull
        noise = ROUNDING * (np.abs(f) + np.abs(pulls))
        f = f + 0.5 * (ww[0] + 2 * t * wd[0] + t * t * dd[0] + penalty * now * now)
        f = f + state.base - pulls
        worse = open_ & (f > best + noise)
        better = open_ & ~worse
        for kept, new in ((best, f), (best_t, t), (best_s, s), (state.noise, noise)):
            kept[better] = new[better]
        gt = gt + wd[0] + t * dd[0] + penalty * tilt * now - pulled[1]
        gs = gs + penalty * now - pull
        htt, hts, hss = htt + dd[0] + penalty * tilt * tilt, hts + penalty * tilt, hss + penalty
        state.status[better & ~state.convex & ((htt < 0) | (hss < 0))] = CONCAVE
        dt, ds, gain = _step(gt, gs, htt, hts, hss, given.bias != "none")
        open_ = open_ & (state.status != CONCAVE)
        open_ &= worse | (gain > max(0.01, given.tol) * np.maximum(np.abs(f), 0.5 * ww[0]))
        t = np.where(worse, 0.5 * (t + best_t), t + np.where(open_, dt, 0.0))
        s = np.where(worse, 0.5 * (s + best_s), s + np.where(open_, ds, 0.0))
        if not open_.any():
            break
    _take(state, best, best_t, best_s)


def _sums(state: State, t: Doubles, s: Doubles, wanted: NDArray[np.bool_]) -> Doubles:
    """Σ of the losses at z + t·u + s and its derivatives by t, s, tt, ts, ss: (6, BLOCK)."""
    out = np.zeros((6, BLOCK))
    step, shift = (v.astype(np.float32)[None] for v in (t, s))
    for group in np.unique(np.flatnonzero(wanted) // WIDTH):
        kernels.along(state.kind.code, state.z, state.u, step, shift, group, out)
    for lane in np.flatnonzero(wanted):
        rows, _, extra = state.entries(lane)
        if extra.any():
            move = t[lane], s[lane]
            kernels.along_extra(state.kind.code, state.z, state.u, lane, *move, rows, extra, out)
    return out


def _step(
    gt: Doubles, gs: Doubles, htt: Doubles, hts: Doubles, hss: Doubles, bias: bool
) -> tuple[Doubles, Doubles, Doubles]:
    """The Newton step in (t, s) and what it gains; s stays where there is no bias to shift."""
    determinant = htt * hss - hts * hts
    sound = bias & (determinant > 1e-9 * htt * hss)
    ds = np.divide(hts * gt - htt * gs, determinant, out=np.zeros(BLOCK), where=sound)
    dt = np.divide(-(gt + hts * ds), htt, out=np.zeros(BLOCK), where=htt > 0)
    return dt, ds, -0.5 * (gt * dt + gs * ds)


def _take(state: State, value: Doubles, t: Doubles, s: Doubles) -> None:
    """Step, and say which lanes are done."""
    one = np.ones((1, BLOCK), dtype=np.float32)
    step, shift = (v.astype(np.float32)[None] for v in (t, s))
    kernels.combine(state.w, one, state.d, step)
    state.w[-1] += shift[0]
    kernels.move(state.z, state.u, step, shift)
    busy = state.busy
    state.value[busy] = value[busy]
    state.iterations[busy] += 1
    state.status[busy & (state.iterations >= state.given.max_iter)] = EXHAUSTED
    state.status[state.status == LAST] = CONVERGED


def _direct(state: State) -> None:
    """The next Newton direction of every lane that has made a step, by conjugate gradients."""
    given, residual, q = state.given, state.residual, state.q
    solving = state.busy & (state.iterations > 0)
    if not solving.any():
        return
    _differentiate(state, solving)
    one, zero = (np.full((1, BLOCK), c, dtype=np.float32) for c in (1, 0))
    residual[:] = 0.0
    kernels.backward(given.rows, state.slope, residual)
    kernels.combine(residual, -one, state.pull, one)
    kernels.combine(residual, one, state.w, -one)
    residual[-1] += (1.0 - given.penalty) * state.w[-1]
    if given.bias == "none":
        residual[-1] = 0.0
    kernels.combine(q, zero, residual, one)
    kernels.combine(state.d, np.where(solving, zero, one), q, zero)
    promised = _conjugate_gradients(state, solving)
    scale = np.maximum(np.abs(state.value), 0.5 * kernels.dots(state.w, state.w)[0])
    enough = np.maximum(given.tol * scale, 1e-3 * state.noise)  # slopes are better than values
    state.status[solving & state.busy & (promised <= enough)] = LAST


def _differentiate(state: State, solving: NDArray[np.bool_]) -> None:
    """C times slope and curvature of every margin."""
    kernels.differentiate(state.kind.code, state.given.cost, state.z, state.slope, state.curve)
    for lane in np.flatnonzero(solving):
        rows, _, extra = state.entries(lane)
        if extra.any():
            kernels.scale_rows(state.slope, state.curve, lane, rows, extra)


def _conjugate_gradients(state: State, solving: NDArray[np.bool_]) -> Doubles:
    """Solve H d = residual in all lanes until each gains too little; returns the promised gains."""
    given, residual, q, h = state.given, state.residual, state.q, state.h
    one = np.ones((1, BLOCK), dtype=np.float32)
    rho = kernels.dots(residual, residual).sum(0)
    promised = np.zeros(BLOCK)
    open_ = solving & (rho > 0)
    for _ in range(200):
        h[:] = q
        h[-1] *= given.penalty
        kernels.bend(given.rows, q, state.curve, h)
        if given.bias == "none":
            h[-1] = 0.0
        bent = kernels.dots(q, h).sum(0)
        state.status[open_ & ~state.convex & (bent <= 0)] = CONCAVE
        open_ &= bent > 0
        alpha = np.divide(rho, bent, out=np.zeros(BLOCK), where=open_)
        kernels.combine(state.d, one, q, alpha.astype(np.float32)[None])
        kernels.combine(residual, one, h, -alpha.astype(np.float32)[None])
        gain = 0.5 * alpha * rho
        promised += gain
        open_ &= gain > state.kind.forcing * promised
        if not open_.any():
            break
        new = kernels.dots(residual, residual).sum(0)
        beta = np.divide(new, rho, out=np.zeros(BLOCK), where=open_)
        kernels.combine(q, beta.astype(np.float32)[None], residual, one)
        rho = new
    return promised
