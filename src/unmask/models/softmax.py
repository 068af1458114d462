"""Pick-all-labels training: one softmax over all labels, minimised jointly by truncated Newton.

    ½ ‖W‖² + C Σ_i ( S_i log Σ_j exp(s_ij) − Σ_j pos_ij s_ij ),      S_i = Σ_j pos_ij,  s = X W

Weights are kept in blocks of `BLOCK` labels, (blocks, d+1, BLOCK), and scores exist for one block
of rows at a time: where there are several, a Hessian product computes them again rather than keep
n × L numbers. It is S (π ∘ u − π (π·u)) per row, with π the row's probabilities and u = x·Q.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from unmask._kernels import even_bounds, in_chunks
from unmask._kernels import linear_smooth as kernels
from unmask._kernels.linear_state import CONCAVE, CONVERGED, EXHAUSTED, Rows
from unmask._messages import setting
from unmask._typing import Floats, Singles
from unmask.arrays.checks import entry_rows
from unmask.models.problem import FitLog, Problem, Solution
from unmask.models.training import warn_unconverged

BLOCK = kernels.BLOCK
FORCING = 0.1
ENTRIES = 1 << 24  # scores held at once
NEVER = np.float32(-1e30)  # score of the columns that fill up the last block


@dataclass(frozen=True)
class Joint:
    """The problem with its observed weights by row."""

    problem: Problem
    pos: sp.csr_array
    total: Singles

    @property
    def blocks(self) -> int:
        """Blocks of labels."""
        return -(-self.problem.shape[2] // BLOCK)

    def row_blocks(self) -> Iterator[tuple[Rows, slice]]:
        """Yield rows in pieces whose scores fit in `ENTRIES`."""
        n, rows = self.problem.shape[0], self.problem.rows
        bounds = even_bounds(n, self.blocks * BLOCK, ENTRIES)
        for start, stop in pairwise(bounds.tolist()):
            yield Rows(rows.indptr[start : stop + 1], rows.indices, rows.data), slice(start, stop)


def solve(problem: Problem, first: Singles | None = None) -> Solution:
    """Return the joint optimum; objective, iterations and status are those of the whole."""
    n, d, n_labels = problem.shape
    y = problem.entries
    pos = sp.csr_array(sp.csc_array((y.pos, y.rows, y.start), shape=(n, n_labels)))
    joint = Joint(problem, pos, pos.sum(axis=1).astype(np.float32))
    w = _to_blocks(first, joint) if first is not None else _start(joint)
    value, residual = _gradient(joint, w)
    status, iterations = EXHAUSTED, 0
    while iterations < problem.recipe.max_iter:
        iterations += 1
        direction, promised = _conjugate_gradients(joint, w, residual)
        if promised < 0:
            status = CONCAVE
            break
        w, value, residual = _step(joint, w, direction, value, residual, promised)
        if promised <= problem.recipe.tol * max(abs(value), 0.5 * _dot(w, w)):
            status = CONVERGED
            break
    weights = w.transpose(0, 2, 1).reshape(-1, d + 1)[:n_labels]
    same = (np.full(n_labels, c) for c in (value, iterations, status))
    return Solution(np.ascontiguousarray(weights), *same)


def report(problem: Problem, log: FitLog) -> None:
    """Refuse what is no minimum; warn of what may not be the minimum."""
    if log.concave.size:
        total = np.bincount(problem.entries.rows, problem.entries.pos, minlength=problem.shape[0])
        negative = np.sort(problem.order[total < 0])
        raise ValueError(
            f"softmax has no minimum with these weights: they sum to less than 0 in "
            f"{negative.size} rows, first in row {next(iter(negative), -1)}. "
            f"Use {setting('correction', 'bound', of='linear.train')} or "
            f"{setting('correction', 'empirical_bayes', of='linear.train')}."
        )
    if log.exhausted.size:
        warn_unconverged("softmax", problem.recipe.max_iter)


def _to_blocks(weights: Singles, joint: Joint) -> Singles:
    """Weight vectors label by label → blocks."""
    padded = np.zeros((joint.blocks * BLOCK, weights.shape[1]), dtype=np.float32)
    padded[: len(weights)] = weights
    return np.ascontiguousarray(padded.reshape(joint.blocks, BLOCK, -1).transpose(0, 2, 1))


def _start(joint: Joint) -> Singles:
    """Zero, and where there is a bias the frequencies of the labels."""
    _, d, n_labels = joint.problem.shape
    weights = np.zeros((n_labels, d + 1), dtype=np.float32)
    if joint.problem.recipe.bias != "none":
        counts = np.maximum(joint.pos.sum(axis=0), 0.0) + 1.0
        weights[:, -1] = np.log(counts) - np.log(counts).mean()
    return _to_blocks(weights, joint)


def _gradient(joint: Joint, w: Singles) -> tuple[float, Singles]:
    """Return the objective at w, and minus its gradient."""
    problem = joint.problem
    out = np.zeros_like(w)
    loss = 0.0
    for rows, span in joint.row_blocks():
        chance, level = _probabilities(joint, w, rows, span)
        pos, total = joint.pos[span], joint.total[span]
        row = entry_rows(pos)
        places = (pos.indices // BLOCK, row, pos.indices % BLOCK)
        loss += float(total.astype(np.float64) @ level)
        loss -= float(pos.data @ (np.log(np.maximum(chance[places], 1e-38)) + level[row]))
        chance *= -problem.cost * total[None, :, None]
        chance[places] += (problem.cost * pos.data).astype(np.float32)
        _backward(joint, rows, chance, out)
    value = problem.cost * loss + 0.5 * (_dot(w, w) - (1 - problem.penalty) * _bias_square(w))
    out -= w
    out[:, -1] += (1 - problem.penalty) * w[:, -1]
    return value, _without_bias(problem, out)


def _probabilities(joint: Joint, w: Singles, rows: Rows, span: slice) -> tuple[Singles, Floats]:
    """π of a block of rows, (blocks, rows, BLOCK), and log Σ exp of every row."""
    scores = _product(joint, w, rows, span)
    n_labels = joint.problem.shape[2]
    scores[-1, :, n_labels - (joint.blocks - 1) * BLOCK :] = NEVER
    top = scores.max(axis=(0, 2))
    _by_block(joint, lambda b: np.exp(scores[b] - top[:, None], out=scores[b]))
    total = scores.sum(axis=(0, 2), dtype=np.float64)
    scores /= total.astype(np.float32)[None, :, None]
    return scores, top + np.log(total)


def _product(joint: Joint, w: Singles, rows: Rows, span: slice) -> Singles:
    out = np.empty((joint.blocks, span.stop - span.start, BLOCK), dtype=np.float32)
    _by_block(joint, lambda b: kernels.forward(rows, w[b], out[b]))
    return out


def _backward(joint: Joint, rows: Rows, v: Singles, out: Singles) -> None:
    _by_block(joint, lambda b: kernels.backward(rows, v[b], out[b]))


def _by_block(joint: Joint, work: Callable[[int], object]) -> None:
    in_chunks(np.arange(joint.blocks + 1), lambda start, _: work(start))


def _conjugate_gradients(joint: Joint, w: Singles, residual: Singles) -> tuple[Singles, float]:
    """Return a direction and the gain it promises; −1 where the objective bends downwards."""
    r, q, direction = residual.copy(), residual.copy(), np.zeros_like(residual)
    rho, promised = _dot(r, r), 0.0
    chances = _chances(joint, w)
    for _ in range(200):
        if rho <= 0:
            break
        h = _bend(joint, q, chances())
        bent = _dot(q, h)
        if bent <= 0:
            return direction, -1.0
        alpha = rho / bent
        direction += np.float32(alpha) * q
        r -= np.float32(alpha) * h
        gain = 0.5 * alpha * rho
        promised += gain
        if gain <= FORCING * promised:
            break
        new = _dot(r, r)
        q = r + np.float32(new / rho) * q
        rho = new
    return direction, promised


def _chances(joint: Joint, w: Singles) -> Callable[[], Iterable[Singles]]:
    """π of every block of rows at w, as often as asked; kept where there is one block only."""

    def computed() -> Iterator[Singles]:
        return (_probabilities(joint, w, rows, span)[0] for rows, span in joint.row_blocks())

    if len(list(joint.row_blocks())) > 1:
        return computed
    kept = list(computed())
    return lambda: kept


def _bend(joint: Joint, q: Singles, chances: Iterable[Singles]) -> Singles:
    """Return the Hessian times q where the rows have these probabilities."""
    out = q.copy()
    out[:, -1] *= joint.problem.penalty
    for (rows, span), chance in zip(joint.row_blocks(), chances, strict=True):
        u = _product(joint, q, rows, span)
        mean = np.einsum("brl,brl->r", chance, u)
        u -= mean[None, :, None]
        u *= chance
        u *= (joint.problem.cost * joint.total[span])[None, :, None]
        _backward(joint, rows, u, out)
    return _without_bias(joint.problem, out)


def _step(
    joint: Joint, w: Singles, direction: Singles, value: float, residual: Singles, promised: float
) -> tuple[Singles, float, Singles]:
    """Return the longest of the steps 1, ½, ¼ … that keeps a tenth of what is promised."""
    t = 1.0
    while t > 1e-4:
        moved = w + np.float32(t) * direction
        new, new_residual = _gradient(joint, moved)
        if new <= value - 0.1 * t * promised or promised <= 1e-6 * abs(value):
            return moved, new, new_residual
        t *= 0.5
    return w, value, residual


def _without_bias(problem: Problem, matrix: Singles) -> Singles:
    if problem.recipe.bias == "none":
        matrix[:, -1] = 0.0
    return matrix


def _dot(x: Singles, y: Singles) -> float:
    """Σ x·y in an order that no number of threads changes."""
    return float(sum(kernels.dots(a, b).sum() for a, b in zip(x, y, strict=True)))


def _bias_square(w: Singles) -> float:
    return float((w[:, -1].astype(np.float64) ** 2).sum())
