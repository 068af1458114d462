"""One-vs-all training: a solver per loss, and what is said of labels that went wrong.

No label influences another, so neither the blocks in which labels are solved nor their order change
a result.

*Squared hinge*: Newton's method on the few rows that matter to a label. The loss of a row is flat
once its margin is on the right side, and almost every row of a rare label is far on the negative
side. So an iteration costs one pass over the features for `LANES` labels at once (`sweep`), and
then work on the active rows of each label alone (`advance`). A label that is finished leaves its
lane to the next one; the result of a label does not depend on its neighbours, their number or their
order. See docs/decisions/0004.

*Logistic loss and squared error*: truncated Newton for `BLOCK` labels in step. Every row has
curvature, so there is nothing to skip; instead one pass over the features serves all
lanes, eight to an instruction. A turn is: conjugate gradients for the direction d, one product X d,
and a search in two dimensions (step and shift of the bias) on the margins alone.

The likelihood of observed labels (docs/decisions/0016) is the logistic loss on the rows of entries,
and −ln(1 − p σ(z)) on all others, which bends downwards where z is large. Conjugate gradients end
where they meet a direction of negative curvature, the search counts such curvatures as 0 and takes
no step that raises the objective: what is found is a local minimum, near the best constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unmask._kernels import linear as hinge_kernels
from unmask._kernels import linear_smooth as kernels
from unmask._kernels import linear_state
from unmask._kernels.lanes import WIDTH
from unmask._kernels.linear_state import CONCAVE, CONVERGED, EXHAUSTED, IDLE, LAST, RUNNING
from unmask._messages import setting, warn
from unmask._typing import Bools, Floats, Integers, Ints, Singles
from unmask.models.problem import FitLog, Problem, Solution, name_labels
from unmask.models.training import NonConvexWarning, warn_unconverged

LANES = linear_state.BLOCK
START = -1.1  # below the margin of a negative: no row is active at the start
FORCING = 0.1  # conjugate gradients stop when a step gains less than this share of all gains
BLOCK = kernels.BLOCK
ROUNDING = 2e-7  # of a sum of float32 terms, as a share of it
SLACK = 50.0  # roundings by which a value may seem to rise: slopes are better than values
FARTHEST = 8.0  # that a step may first try to move the margins of a label that goes missing


def solve(problem: Problem, first: Singles | None = None) -> Solution:
    """Return the optimum of every label; `first` (labels × features+1) is where to start."""
    return SOLVERS[problem.recipe.loss](problem, first)


def report(problem: Problem, labels: Integers, log: FitLog) -> None:
    """Refuse what is no minimum; warn of what may not be the minimum."""
    loss, concave = problem.recipe.loss, labels[log.concave]
    instead = f"Use {setting('loss', 'logistic', of='linear.train')}"
    or_bound = f"or {setting('correction', 'bound', of='linear.train')}."
    if concave.size:
        raise ValueError(
            f"{loss} has no minimum for {name_labels(concave)}: with these weights (some cut "
            "above 1 or pos below 0) the objective bends downwards. "
            f"{instead}, whose problem is convex, {or_bound}"
        )
    doubtful, late = labels[~problem.convex[labels]], labels[log.exhausted]
    if doubtful.size:
        warn(
            f"{loss} is not convex for {name_labels(doubtful)} with these weights; the "
            f"result is a local minimum. {instead} {or_bound}",
            NonConvexWarning,
        )
    if late.size:
        warn_unconverged(name_labels(late), problem.recipe.max_iter)


def solve_hinge(problem: Problem, first: Singles | None = None) -> Solution:
    """Return the optimum of every label for the squared hinge."""
    (n, d, n_labels), recipe = problem.shape, problem.recipe
    settings = linear_state.Settings(
        problem.cost,
        problem.penalty,
        recipe.bias != "none",
        recipe.tol,
        FORCING,
        recipe.max_iter,
    )
    block = linear_state.block(n, d)
    scratch = linear_state.scratch(n, d, len(problem.rows.data), problem.row_weights)
    scale = 1.0 / (1.0 + 2.0 * problem.cost * problem.squares)
    start = 0.0 if recipe.bias == "none" else START
    solution = Solution.empty(n_labels, d)
    place = np.full(LANES, -1)
    waiting = iter(range(n_labels))

    def begin(lane: int) -> None:
        place[lane] = label = next(waiting, -1)
        hinge_kernels.begin(problem.rows, problem.entries, block, scale, start, lane, label)
        if first is not None and label >= 0:
            block.direction[lane] = first[label]
            block.direction[lane, -1] -= start

    for lane in range(LANES):
        begin(lane)
    while (place >= 0).any():
        hinge_kernels.interleave(block)
        hinge_kernels.sweep(problem.rows, block)
        hinge_kernels.advance(problem.rows, problem.entries, settings, block, scratch)
        for lane in np.flatnonzero(block.status >= CONVERGED).tolist():
            for name in ("weights", "objective", "iterations", "status"):
                getattr(solution, name)[place[lane]] = getattr(block, name)[lane]
            begin(lane)
    return solution


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
LIKELIHOOD = Kind(kernels.LIKELIHOOD, 1.0, 0.0, 0.25, 0.1)
"""Terms of observed labels: the logistic loss on the rows of entries, ℓ₋ of kernels elsewhere."""


@dataclass(frozen=True)
class State:
    """`BLOCK` problems: weights, fixed pull and directions (d+1, BLOCK), margins (n, BLOCK).

    `mask` (4, BLOCK) is p, 1 − p and their logarithms, of labels that go missing (`kernels`).
    """

    problem: Problem
    kind: Kind
    mask: Singles
    scale: Floats
    weight: Singles
    label: Ints
    status: Ints
    iterations: Ints
    value: Floats
    base: Floats
    noise: Floats
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

    def entries(self, lane: int | np.intp) -> tuple[Integers, Floats, Floats]:
        """Rows, pos and pos − cut of the label in a lane."""
        label, y = self.label[lane], self.problem.entries
        own = slice(y.start[label], y.start[label + 1])
        return y.rows[own], y.pos[own], y.pos[own] - y.cut[own]

    @property
    def convex(self) -> Bools:
        """Lanes whose problem is known to be convex."""
        return np.asarray(self.problem.convex[self.label])

    @property
    def masked(self) -> Bools:
        """Lanes whose label goes missing, in the likelihood of observed labels."""
        return np.asarray(self.mask[1] > 0)

    @property
    def busy(self) -> Bools:
        """Lanes that are still at work."""
        return np.asarray((self.status == RUNNING) | (self.status == LAST))


def solve_smooth(problem: Problem, first: Singles | None = None) -> Solution:
    """Return the optimum of every label for the logistic loss or the squared error."""
    state = _state(problem)
    _, d, n_labels = problem.shape
    solution = Solution.empty(n_labels, d)
    waiting = iter(range(n_labels))

    def begin(lane: int) -> None:
        label = next(waiting, -1)
        _begin(state, lane, label, None if first is None or label < 0 else first[label])

    def harvest() -> None:
        for lane in np.flatnonzero(state.status >= CONVERGED).tolist():
            label = state.label[lane]
            solution.weights[label] = state.w[:, lane]
            solution.objective[label] = state.value[lane]
            solution.iterations[label] = state.iterations[lane]
            solution.status[label] = state.status[lane]
            begin(lane)

    for lane in range(BLOCK):
        begin(lane)
    while state.busy.any():
        kernels.forward(problem.rows, state.d, state.u)
        _search(state)
        harvest()
        _direct(state)
        harvest()
    return solution


def _state(problem: Problem) -> State:
    n, d, _ = problem.shape
    kind = KINDS[problem.recipe.loss] if problem.propensity is None else LIKELIHOOD
    curvature = problem.cost * kind.curvature * problem.squares
    weight = np.ones(n) if problem.row_weights is None else problem.row_weights
    return State(
        problem,
        kind,
        np.zeros((4, BLOCK), dtype=np.float32),
        1.0 / (1.0 + curvature),
        weight.astype(np.float32),
        *np.zeros((3, BLOCK), dtype=np.int64),
        *np.zeros((3, BLOCK)),
        *(np.zeros((d + 1, BLOCK), dtype=np.float32) for _ in range(6)),
        *(np.zeros((n, BLOCK), dtype=np.float32) for _ in range(4)),
    )


def _begin(state: State, lane: int, label: int, first: Singles | None) -> None:
    """Give a lane its next label (or none, −1): the best constant, and a first direction.

    That is the mean of the positives, each feature divided by its curvature over all rows, of the
    length that lifts the positives by 2; or the way to `first`.
    """
    problem, kind = state.problem, state.kind
    for matrix in (state.w, state.d, state.pull):
        matrix[:, lane] = 0.0
    state.label[lane], state.iterations[lane] = label, 0
    state.status[lane] = RUNNING if label >= 0 else IDLE
    p = 1.0 if label < 0 or problem.propensity is None else float(problem.propensity[label])
    shift = np.log1p(-p) if p < 1 else kernels.NEVER
    state.mask[:, lane] = p, 1.0 - p, shift, np.log(p)
    if label < 0:
        return
    rows, pos, _ = state.entries(lane)
    state.base[lane] = problem.cost * kind.offset * pos.sum()
    kernels.add_rows(problem.rows, lane, rows, problem.cost * kind.rise * pos, state.pull)
    start = 0.0 if problem.recipe.bias == "none" else _best_constant(problem, pos, p)
    state.w[-1, lane] = start
    state.z[:, lane] = start
    if first is not None:
        state.d[:, lane] = first
        state.d[-1, lane] -= start
        return
    kernels.add_rows(problem.rows, lane, rows, np.maximum(pos, 0.0), state.d)
    state.d[:-1, lane] *= state.scale
    state.d[-1, lane] = 0.0
    lift = kernels.lift(problem.rows, lane, rows, np.maximum(pos, 0.0), state.d)
    state.d[:, lane] *= 2.0 * np.maximum(pos, 0.0).sum() / lift if lift > 0 else 0.0


def _best_constant(problem: Problem, pos: Floats, p: float) -> float:
    """Return roughly the margin that is best if it is the same for all rows.

    Where p < 1, at most 0: beyond it an unobserved label that goes missing costs nearly the same
    at every margin.
    """
    if problem.recipe.loss != "logistic":
        return 0.0
    rows = problem.shape[0] if problem.row_weights is None else problem.row_weights.sum()
    share = np.clip(pos.sum() / max(rows, 1) / p, 1e-4, 1 - 1e-4 if p == 1 else 0.5)
    return float(np.log(share / (1 - share)))


def _search(state: State) -> None:
    """Move busy lanes to the best w + t·d and shift s of the bias: Newton in two dimensions."""
    problem, penalty = state.problem, state.problem.penalty
    ww, wd, dd = (
        kernels.dots(a, b) for a, b in ((state.w, state.w), (state.w, state.d), (state.d, state.d))
    )
    pulled = kernels.dots(state.pull, state.w).sum(0), kernels.dots(state.pull, state.d).sum(0)
    bias, tilt, pull = (m[-1].astype(np.float64) for m in (state.w, state.d, state.pull))
    t, s = np.where(state.busy, _full_step(state), 0.0), np.zeros(BLOCK)
    best, best_t, best_s = np.full(BLOCK, np.inf), np.zeros(BLOCK), np.zeros(BLOCK)
    begun = state.masked & (state.iterations > 0)  # a full step may end higher than it began
    best[begun] = state.value[begun] + SLACK * state.noise[begun]
    open_ = state.busy
    for _ in range(10):
        f, gt, gs, htt, hts, hss = problem.cost * _sums(state, t, s, open_)
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
        dt, ds, gain = _step(gt, gs, htt, hts, hss, problem.recipe.bias != "none")
        open_ = open_ & (state.status != CONCAVE)
        open_ &= worse | (gain > max(0.01, problem.recipe.tol) * np.maximum(np.abs(f), 0.5 * ww[0]))
        t = np.where(worse, 0.5 * (t + best_t), t + np.where(open_, dt, 0.0))
        s = np.where(worse, 0.5 * (s + best_s), s + np.where(open_, ds, 0.0))
        if not open_.any():
            break
    _take(state, best, best_t, best_s)


def _full_step(state: State) -> Floats:
    """1; less where the label goes missing and margins would move by more than `FARTHEST`.

    Where curvatures of either sign nearly cancel, a Newton step leads anywhere.
    """
    step = np.ones(BLOCK)
    if state.masked.any():
        farthest = np.abs(state.u).max(axis=0, initial=0.0)
        step[state.masked] = FARTHEST / np.maximum(farthest, FARTHEST)[state.masked]
    return step


def _sums(state: State, t: Floats, s: Floats, lanes: Bools) -> Floats:
    """Σ of the losses at z + t·u + s and its derivatives by t, s, tt, ts, ss: (6, BLOCK)."""
    out = np.zeros((6, BLOCK))
    step, shift = (v.astype(np.float32)[None] for v in (t, s))
    for group in np.unique(np.flatnonzero(lanes) // WIDTH):
        kernels.along(
            state.kind.code, state.mask, state.z, state.u, state.weight, step, shift, group, out
        )
    for lane in np.flatnonzero(lanes):
        rows, _, extra = state.entries(lane)
        if not (extra.any() or state.masked[lane]):
            continue
        place = state.z, state.u, lane, t[lane], s[lane], rows, extra
        if state.kind is LIKELIHOOD:
            kernels.along_entries(state.mask, state.weight, *place, out)
        else:
            kernels.along_extra(state.kind.code, *place, out)
    return out


def _step(
    gt: Floats, gs: Floats, htt: Floats, hts: Floats, hss: Floats, bias: bool
) -> tuple[Floats, Floats, Floats]:
    """Return the Newton step in (t, s) and its gain; s stays without a bias to shift."""
    determinant = htt * hss - hts * hts
    sound = bias & (determinant > 1e-9 * htt * hss)
    ds = np.divide(hts * gt - htt * gs, determinant, out=np.zeros(BLOCK), where=sound)
    dt = np.divide(-(gt + hts * ds), htt, out=np.zeros(BLOCK), where=htt > 0)
    return dt, ds, -0.5 * (gt * dt + gs * ds)


def _take(state: State, value: Floats, t: Floats, s: Floats) -> None:
    """Step, and say which lanes are done."""
    ones = np.ones((1, BLOCK), dtype=np.float32)
    step, shift = (v.astype(np.float32)[None] for v in (t, s))
    kernels.combine(state.w, ones, state.d, step)
    state.w[-1] += shift[0]
    kernels.move(state.z, state.u, step, shift)
    busy = state.busy
    state.value[busy] = value[busy]
    state.iterations[busy] += 1
    state.status[busy & (state.iterations >= state.problem.recipe.max_iter)] = EXHAUSTED
    state.status[state.status == LAST] = CONVERGED


def _direct(state: State) -> None:
    """Find the next Newton direction of every lane that has made a step."""
    problem, residual, q = state.problem, state.residual, state.q
    solving = state.busy & (state.iterations > 0)
    if not solving.any():
        return
    _differentiate(state, solving)
    ones, zeros = (np.full((1, BLOCK), c, dtype=np.float32) for c in (1, 0))
    residual[:] = 0.0
    kernels.backward(problem.rows, state.slope, residual)
    kernels.combine(residual, -ones, state.pull, ones)
    kernels.combine(residual, ones, state.w, -ones)
    residual[-1] += (1.0 - problem.penalty) * state.w[-1]
    if problem.recipe.bias == "none":
        residual[-1] = 0.0
    kernels.combine(q, zeros, residual, ones)
    kernels.combine(state.d, np.where(solving, zeros, ones), q, zeros)
    promised = _conjugate_gradients(state, solving)
    scale = np.maximum(np.abs(state.value), 0.5 * kernels.dots(state.w, state.w)[0])
    enough = np.maximum(
        problem.recipe.tol * scale, 1e-3 * state.noise
    )  # slopes are better than values
    state.status[solving & state.busy & (promised <= enough)] = LAST


def _differentiate(state: State, solving: Bools) -> None:
    """C times slope and curvature of every margin."""
    problem = state.problem
    into = state.slope, state.curve
    kernels.differentiate(state.kind.code, state.mask, problem.cost, state.z, state.weight, *into)
    for lane in np.flatnonzero(solving):
        rows, _, extra = state.entries(lane)
        if not (extra.any() or state.masked[lane]):
            continue
        if state.kind is LIKELIHOOD:
            place = state.z, state.weight, lane, rows, extra
            kernels.differentiate_entries(problem.cost, *place, *into)
        else:
            weight = state.weight[rows]
            share = np.divide(extra, weight, out=np.zeros(extra.size), where=weight > 0)
            kernels.scale_rows(*into, lane, rows, share)


def _conjugate_gradients(state: State, solving: Bools) -> Floats:
    """Solve H d = residual in all lanes until each gains too little; returns the promised gains."""
    problem, residual, q, h = state.problem, state.residual, state.q, state.h
    ones = np.ones((1, BLOCK), dtype=np.float32)
    rho = kernels.dots(residual, residual).sum(0)
    promised = np.zeros(BLOCK)
    open_ = solving & (rho > 0)
    for number in range(200):
        h[:] = q
        h[-1] *= problem.penalty
        kernels.bend(problem.rows, q, state.curve, h)
        if problem.recipe.bias == "none":
            h[-1] = 0.0
        bent = kernels.dots(q, h).sum(0)
        state.status[open_ & ~state.convex & (bent <= 0)] = CONCAVE
        if number == 0:  # down the slope, as far as an equal curvature upwards would ask for
            bent = np.where(state.masked, np.abs(bent), bent)
        open_ &= bent > 0
        alpha = np.divide(rho, bent, out=np.zeros(BLOCK), where=open_)
        kernels.combine(state.d, ones, q, alpha.astype(np.float32)[None])
        kernels.combine(residual, ones, h, -alpha.astype(np.float32)[None])
        gain = 0.5 * alpha * rho
        promised += gain
        open_ &= gain > state.kind.forcing * promised
        if not open_.any():
            break
        new = kernels.dots(residual, residual).sum(0)
        beta = np.divide(new, rho, out=np.zeros(BLOCK), where=open_)
        kernels.combine(q, beta.astype(np.float32)[None], residual, ones)
        rho = new
    return promised


SOLVERS: dict[str, Callable[..., Solution]] = {
    "squared_hinge": solve_hinge,
    "logistic": solve_smooth,
    "squared_error": solve_smooth,
}
