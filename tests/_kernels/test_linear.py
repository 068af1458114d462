"""Loops for the squared hinge, beside dense matrices in float64: one Newton iteration, by parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from unmask._kernels import linear as kernels
from unmask._kernels import linear_state as state
from unmask.linear import Recipe
from unmask.models.problem import Problem, prepare
from unmask.weights import Weights

RNG = np.random.default_rng(4)
N, D, L = 30, 7, 4
X = (RNG.standard_normal((N, D)) * (RNG.random((N, D)) < 0.5)).astype(np.float32)
Y = RNG.random((N, L)) < 0.3
POS = sp.csr_array(Y * RNG.uniform(0.5, 3, (N, L)))
CUT = sp.csr_array(Y * RNG.uniform(0.1, 0.9, (N, L)))


def problem_of(bias: str = "regularized", cost: float = 0.7) -> tuple[Problem, np.ndarray]:
    """With the features in the order of its rows, and a column of ones."""
    recipe = Recipe(bias=bias, C=cost)
    problem = prepare(X, Y.astype(int), recipe, None, Weights(POS, CUT))
    return problem, np.c_[X, np.ones(N)][problem.order].astype(np.float64)


def begun(problem: Problem, start: float = -1.0) -> state.Block:
    block = state.block(N, D)
    scale = 1.0 / (1.0 + 2.0 * problem.cost * problem.squares)
    for lane in range(state.BLOCK):
        label = lane if lane < L else -1
        kernels.begin(problem.rows, problem.entries, block, scale, start, lane, label)
    return block


def settings_of(problem: Problem, **changes: Any) -> state.Settings:
    bias = problem.recipe.bias != "none"
    usual = state.Settings(problem.cost, problem.penalty, bias, 1e-3, 1e-12, 50)
    return usual._replace(**changes)


def weights_of(problem: Problem, label: int) -> tuple[np.ndarray, np.ndarray]:
    """pos and neg of every row."""
    pos, cut = (m.toarray()[problem.order, label] for m in (POS, CUT))
    return pos, 1 - cut


def objective(problem: Problem, full: np.ndarray, label: int, w: np.ndarray) -> float:
    pos, neg = weights_of(problem, label)
    z = full @ w
    loss = pos * np.maximum(1 - z, 0) ** 2 + neg * np.maximum(1 + z, 0) ** 2
    penalty = w[:-1] @ w[:-1] + problem.penalty * w[-1] ** 2
    return float(problem.cost * loss.sum() + 0.5 * penalty)


def test_a_lane_begins_with_the_mean_of_the_positives() -> None:
    problem, full = problem_of()
    block = begun(problem, -0.5)
    scale = 1.0 / (1.0 + 2.0 * problem.cost * (X.astype(np.float64) ** 2).sum(0))
    for label in range(L):
        pos, _ = weights_of(problem, label)
        d = scale * (pos @ full[:, :-1])
        lift = pos @ (full[:, :-1] @ d) / pos.sum()  # of the mean positive
        np.testing.assert_allclose(block.direction[label, :-1], d * 2 / lift, rtol=1e-5)
        assert block.direction[label, -1] == 0
        np.testing.assert_array_equal(block.weights[label], [0] * D + [-0.5])
    lanes = block.label, block.status, block.iterations
    assert [each[L - 1] for each in lanes] == [L - 1, state.RUNNING, 0]
    assert [each[L] for each in lanes] == [-1, state.IDLE, 0]
    assert not block.keep.any()
    assert not block.step.any()
    np.testing.assert_array_equal(block.shift[0], [-0.5] * L + [-9.0] * (state.BLOCK - L))
    assert not block.weights[L:].any()
    assert not block.direction[L:].any()


def test_what_counts_less_than_nothing_gives_no_direction() -> None:
    negative = Weights(sp.csr_array(-1.0 * Y), CUT)
    problem = prepare(X, Y.astype(int), Recipe(), None, negative)
    block = begun(problem)
    assert not block.direction.any()
    assert (block.status[:L] == state.RUNNING).all()


@pytest.mark.parametrize("features", [3, 63, 64, 130])
def test_directions_are_interleaved(features: int) -> None:
    block = state.block(2, features)
    block.direction[:] = RNG.standard_normal(block.direction.shape)
    kernels.interleave(block)
    np.testing.assert_array_equal(block.spread, block.direction.T.astype(np.float32))


def test_a_sweep_moves_margins_and_lists_the_rows_that_matter() -> None:
    problem, full = problem_of()
    block = begun(problem)
    for name in ("keep", "step", "shift", "z", "u", "spread"):
        array = getattr(block, name)
        array[:] = RNG.standard_normal(array.shape)
    block.counts[:] = 5
    moved = block.keep * block.z + block.step * block.u + block.shift
    u = (full @ block.spread).astype(np.float32)
    kernels.sweep(problem.rows, block)
    np.testing.assert_allclose(block.z, moved, atol=1e-5)
    np.testing.assert_allclose(block.u, u, atol=1e-5)
    matter = (block.z > -1.00001) | (block.z + 1.2 * block.u > -1.00001)
    for lane in range(state.BLOCK):
        rows = np.flatnonzero(matter[:, lane])
        assert block.candidates[lane, : block.counts[lane]].tolist() == rows.tolist()
        np.testing.assert_array_equal(block.candidate_z[lane, : len(rows)], block.z[rows, lane])
        np.testing.assert_array_equal(block.candidate_u[lane, : len(rows)], block.u[rows, lane])


@pytest.mark.parametrize("bias", ["regularized", "free", "none"])
def test_one_iteration_takes_a_good_step_and_finds_the_newton_direction(bias: str) -> None:
    """The step is as good as the best of a grid, the direction solves the Newton equation."""
    problem, full = problem_of(bias)
    start = 0.0 if bias == "none" else -1.0
    block = begun(problem, start)
    scratch = state.scratch(N, D, len(problem.rows.data))
    directions = block.direction.copy()
    kernels.interleave(block)
    kernels.sweep(problem.rows, block)
    kernels.advance(problem.rows, problem.entries, settings_of(problem), block, scratch)
    for label in range(L):
        t, s = float(block.step[0, label]), float(block.shift[0, label])
        assert block.keep[0, label] == 1.0
        assert 0 <= t <= 1.2
        assert s <= 0 if bias != "none" else s == 0
        w = np.r_[np.zeros(D), start] + t * directions[label] + np.r_[np.zeros(D), s]
        np.testing.assert_allclose(block.weights[label], w, atol=1e-6)
        value = objective(problem, full, label, w)
        assert block.objective[label] == pytest.approx(value, rel=1e-5)
        shifts = [0.0] if bias == "none" else np.linspace(-1, 0, 41)
        grid = [
            objective(problem, full, label, np.r_[tt * directions[label, :-1], start + ss])
            for tt in np.linspace(0, 1.2, 49)
            for ss in shifts
        ]
        assert value <= 1.03 * min(grid)
        gradient, hessian = newton(problem, full, label, w)
        used = slice(None, -1) if bias == "none" else slice(None)
        exact = -np.linalg.solve(hessian[used, used], gradient[used])
        np.testing.assert_allclose(block.direction[label, used], exact, atol=2e-5)
        assert bias != "none" or block.direction[label, -1] == 0
    assert (block.iterations[:L] == 1).all()
    assert (block.iterations[L:] == 0).all()
    assert (block.status[:L] == state.RUNNING).all()
    assert (scratch.place == -1).all()  # as it was lent


def newton(
    problem: Problem, full: np.ndarray, label: int, w: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    pos, neg = weights_of(problem, label)
    z, cost = full @ w, 2 * problem.cost
    up, down = np.maximum(1 - z, 0), np.maximum(1 + z, 0)
    ridge = np.r_[np.ones(D), problem.penalty]
    gradient = full.T @ (cost * (neg * down - pos * up)) + ridge * w
    curve = cost * (pos * (up > 0) + neg * (down > 0))
    return gradient, full.T @ (curve[:, None] * full) + np.diag(ridge)


def one_step(problem: Problem, settings: state.Settings, block: state.Block) -> None:
    scratch = state.scratch(N, D, len(problem.rows.data))
    kernels.interleave(block)
    kernels.sweep(problem.rows, block)
    kernels.advance(problem.rows, problem.entries, settings, block, scratch)


def test_lanes_end_when_too_little_is_promised_or_time_is_up() -> None:
    """At the optimum nothing is promised: one last step, then it has converged."""
    problem, full = problem_of()
    block, settings = begun(problem), settings_of(problem, tol=1e-6)
    for _ in range(40):
        one_step(problem, settings, block)
    assert (block.status[:L] == state.CONVERGED).all()
    for label in range(L):
        gradient, _ = newton(problem, full, label, block.weights[label])
        assert np.abs(gradient).max() < 2e-2
    steps = block.iterations[:L].copy()
    one_step(problem, settings, block)
    np.testing.assert_array_equal(block.iterations[:L], steps)  # it rests
    block = begun(problem)
    for count in (1, 2):
        one_step(problem, settings_of(problem, tol=0.0, iterations=2), block)
        assert (block.iterations[:L] == count).all()
    assert (block.status[:L] == state.EXHAUSTED).all()
    block = begun(problem)
    one_step(problem, settings_of(problem, tol=1e9), block)
    assert (block.status[:L] == state.LAST).all()
    one_step(problem, settings_of(problem, tol=1e9), block)
    assert (block.status[:L] == state.CONVERGED).all()


def test_an_objective_that_bends_downwards_is_said_to() -> None:
    heavy = Weights(sp.csr_array(-5.0 * Y), sp.csr_array(0.0 * Y + 50.0 * Y))
    problem = prepare(X, Y.astype(int), Recipe(C=10.0), None, heavy)
    block = begun(replace(problem))
    for _ in range(3):
        one_step(problem, settings_of(problem), block)
    assert (block.status[:L] == state.CONCAVE).all()


@pytest.mark.parametrize("seed", [87, 857, 1277, 2782, 3162, 5590, *range(10)])
def test_the_search_along_a_direction_is_as_good_as_a_grid(seed: int) -> None:
    """To five per cent; of the first six, some step of Newton's rises and is halved."""
    rng, rows, own = np.random.default_rng(seed), 12, 5
    scratch = state.scratch(rows, 3, 3 * rows)
    scratch.z[:] = rng.normal(0, 2, rows)
    scratch.u[:] = rng.normal(0, 4, rows)
    scratch.neg[:] = rng.uniform(0.1, 2, rows)
    pos, (w, d) = rng.uniform(0.1, 3, own), rng.normal(0, 0.3, (2, 4))
    settings = state.Settings(1.0, 1.0, True, 1e-3, 1e-12, 50)
    positive = np.r_[pos, np.zeros(rows - own)]

    def objective(t: float, s: float) -> float:
        z = scratch.z + t * scratch.u + s
        loss = positive * np.maximum(1 - z, 0) ** 2 + scratch.neg * np.maximum(1 + z, 0) ** 2
        return float(loss.sum() + 0.5 * ((w + t * d + np.r_[0, 0, 0, s]) ** 2).sum())

    value, t, s, curved = kernels._search(scratch, pos, rows, settings, w, d)
    assert curved
    assert 0 <= t <= kernels.REACH
    assert s <= 0
    assert value == pytest.approx(objective(t, s), rel=1e-5)
    grid = np.linspace(0, kernels.REACH, 49), np.linspace(-4, 0, 81)
    assert value <= 1.05 * min(objective(tt, ss) for tt in grid[0] for ss in grid[1])
