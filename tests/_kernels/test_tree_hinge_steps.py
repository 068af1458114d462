"""The steps of the solver of nodes one by one, each by its definition in exact numbers.

Margins, weights and directions are multiples of 1/4, so that every sum of products is exact in
float32 and equality is asked for, over several tiles of rows and both widths of a block.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask._kernels import tree_hinge as kernels
from unmask._kernels.linear_state import NOTHING, Entries, Rows, Settings

N = 2 * kernels.TILE + 9
LANES = [kernels.WIDTH, kernels.BLOCK]
Matrix = NDArray[np.float64]


def quarters(rng: np.random.Generator, low: int, high: int, *shape: int) -> NDArray[np.float32]:
    return (rng.integers(4 * low, 4 * high + 1, shape) / 4).astype(np.float32)


def loss(weight: Matrix, pos: Matrix, margin: Matrix) -> Matrix:
    """Of every row and lane, in float64."""
    up, down = np.maximum(0, 1 - margin), np.maximum(0, 1 + margin)
    return pos * up**2 + (weight[:, None] - pos) * down**2


def half_slope(weight: Matrix, pos: Matrix, margin: Matrix) -> Matrix:
    """Half the derivative of the loss: a difference quotient, exact between two kinks."""
    h = 2.0**-12
    quotient = (loss(weight, pos, margin + h) - loss(weight, pos, margin - h)) / (4 * h)
    at_kink = np.where(margin == 1, 2.0 * (weight[:, None] - pos), -2.0 * pos)
    return np.where(np.abs(margin) == 1, at_kink, quotient)


def half_curve(weight: Matrix, pos: Matrix, margin: Matrix) -> Matrix:
    """Half the second derivative; at a kink that of the flat side."""
    return np.where(margin < 1, pos, 0) + np.where(margin > -1, weight[:, None] - pos, 0)


@pytest.fixture(params=LANES)
def rows(request: pytest.FixtureRequest) -> dict[str, NDArray[np.float32]]:
    """Weights, observed labels, margins, coefficients and a direction of N rows."""
    lanes, rng = request.param, np.random.default_rng(23)
    weight = quarters(rng, 1, 2, N)
    some = rng.random((N, lanes)) < 0.5
    pos = np.where(some, quarters(rng, 0, 1, N, lanes), 0).astype(np.float32)
    names = ("z", "u", "a", "delta", "gamma", "v")
    drawn = {name: quarters(rng, -2, 2, N, lanes) for name in names}
    plane = {name: quarters(rng, -1, 1, 1, lanes) for name in ("step", "shift", "beta")}
    return {"weight": weight, "pos": pos, **drawn, **plane}


def exactly(rows: dict[str, NDArray[np.float32]], *names: str) -> list[Matrix]:
    return [rows[name].astype(np.float64) for name in names]


def test_sums_along_a_direction(rows: dict[str, NDArray[np.float32]]) -> None:
    """The loss at z + tu + s, and half its derivatives by t, s, tt, ts, ss."""
    weight, pos, z, u, t, s = exactly(rows, "weight", "pos", "z", "u", "step", "shift")
    sums = np.full((7, z.shape[1]), 5.0)
    kernels._along(*(rows[n] for n in ("weight", "pos", "z", "u", "step", "shift")), sums)
    margin = z + t * u + s
    slope, curve = half_slope(weight, pos, margin), half_curve(weight, pos, margin)
    expected = [loss(weight, pos, margin), slope * u, slope, curve * u * u, curve * u, curve]
    np.testing.assert_array_equal(sums[:6], [each.sum(axis=0) for each in expected])
    assert (sums[6] == 5).all()


def test_sums_for_the_next_direction(rows: dict[str, NDArray[np.float32]]) -> None:
    names = ("weight", "pos", "z", "gamma", "delta", "u", "v")
    weight, pos, z, gamma, delta, u, v = exactly(rows, *names)
    sums = np.full((7, z.shape[1]), 5.0)
    kernels._meet(*(rows[name] for name in names), sums)
    c = half_curve(weight, pos, z)
    expected = [gamma * u, delta * u, c * u * v, c * u * u, c * v, c * u, c]
    np.testing.assert_array_equal(sums, [each.sum(axis=0) for each in expected])


def test_the_next_direction_and_its_lengths(rows: dict[str, NDArray[np.float32]]) -> None:
    """δ ← βδ − γ and u ← βu − v; w·d = Σ au and ‖d‖² = Σ δu, nothing else of the line."""
    names = ("beta", "gamma", "v", "a", "delta", "u")
    beta, gamma, v, a, delta, u = exactly(rows, *names)
    line = np.full((5, u.shape[1]), 5.0)
    kernels._turn(*(rows[name] for name in names), line)
    direction, along = beta * delta - gamma, beta * u - v
    np.testing.assert_array_equal(rows["delta"], direction)
    np.testing.assert_array_equal(rows["u"], along)
    np.testing.assert_array_equal(line[1], (a * along).sum(axis=0))
    np.testing.assert_array_equal(line[2], (direction * along).sum(axis=0))
    assert (line[[0, 3, 4]] == 5).all()


@pytest.mark.parametrize("cost", [0.25, 1.0, 2.0])
def test_a_step_and_the_slopes_behind_it(rows: dict[str, NDArray[np.float32]], cost: float) -> None:
    """z ← z + tu + s, a ← a + tδ, and γ = a + the derivative of cost times the loss."""
    names = ("weight", "step", "shift", "pos", "a", "z", "delta", "u")
    weight, t, s, pos, a, z, delta, u = exactly(rows, *names)
    kernels._slopes(cost, *(rows[name] for name in names), rows["gamma"])
    margin, coefficient = z + t * u + s, a + t * delta
    np.testing.assert_array_equal(rows["z"], margin)
    np.testing.assert_array_equal(rows["a"], coefficient)
    slope = 2 * cost * half_slope(weight, pos, margin)
    np.testing.assert_array_equal(rows["gamma"], coefficient + slope)


def problem(lanes: int, n: int = 30, d: int = 6) -> dict[str, Matrix]:
    """A node in the middle of its solution: w = Xᵀa, d = Xᵀδ, g = Xᵀγ and their margins."""
    rng = np.random.default_rng(lanes)
    x = rng.normal(size=(n, d))
    a, delta, gamma = (0.1 * rng.normal(size=(n, lanes)) for _ in range(3))
    bias = rng.normal(size=lanes) / 4
    weight = rng.uniform(1, 2, n)
    pos = weight[:, None] * (rng.random((n, lanes)) < 0.3)
    w, direction, gradient = (x.T @ each for each in (a, delta, gamma))
    return {
        "x": x, "w": w, "d": direction, "g": gradient, "bias": bias, "weight": weight, "pos": pos,
        "a": a, "delta": delta, "gamma": gamma,
        "z": x @ w + bias, "u": x @ direction, "v": x @ gradient,
    }  # fmt: skip


def single(each: Matrix) -> NDArray[np.float32]:
    return np.ascontiguousarray(each, dtype=np.float32)


@pytest.mark.parametrize(("penalty", "bias"), [(1.0, True), (0.0, True), (1.0, False)])
def test_directions_are_conjugate(penalty: float, bias: bool) -> None:
    """(βd − g)ᵀ H d = 0, where H has the curvature of weights after that of the bias is out."""
    about = problem(kernels.WIDTH)
    sums = np.empty((7, kernels.WIDTH))
    names = ("weight", "pos", "z", "gamma", "delta", "u", "v")
    kernels._meet(*(single(about[name]) for name in names), sums)
    settings = Settings(0.7, penalty, bias, 0.1, 0.5, 9)
    for lane in range(kernels.WIDTH):
        c = 2 * 0.7 * half_curve(about["weight"], about["pos"], about["z"])[:, lane]
        x = about["x"]
        curvature = np.eye(x.shape[1]) + x.T @ (c[:, None] * x)
        if bias:
            cross = x.T @ c
            curvature -= np.outer(cross, cross) / (penalty + c.sum())
        d, g = about["d"][:, lane], about["g"][:, lane]
        beta = kernels._conjugate(settings, sums, lane)
        assert beta == pytest.approx(g @ curvature @ d / (d @ curvature @ d), rel=1e-4)


def test_without_a_direction_the_next_one_is_the_gradient() -> None:
    """Neither a direction of length 0 nor rows without curvature divide by 0."""
    settings = Settings(1.0, 0.0, True, 0.1, 0.5, 9)
    sums = np.zeros((7, 8))
    sums[0] = 3.0
    assert kernels._conjugate(settings, sums, 2) == 0
    sums[1] = 2.0
    assert kernels._conjugate(settings, sums, 2) == 1.5


def sums_at(about: dict[str, Matrix], lane: int, t: float, s: float) -> Matrix:
    """What `_along` adds up, in float64."""
    weight, pos = about["weight"], about["pos"][:, [lane]]
    u = about["u"][:, [lane]]
    margin = about["z"][:, [lane]] + t * u + s
    up, down = np.maximum(0, 1 - margin), np.maximum(0, 1 + margin)
    slope = (weight[:, None] - pos) * down - pos * up
    curve = half_curve(weight, pos, margin)
    terms = [loss(weight, pos, margin), slope * u, slope, curve * u * u, curve * u, curve]
    return np.array([term.sum() for term in terms])


def objective(about: dict[str, Matrix], settings: Settings, lane: int, t: float, s: float) -> float:
    """cost · loss + ‖w + td‖²/2 + penalty · (bias + s)²/2."""
    w = about["w"][:, lane] + t * about["d"][:, lane]
    bias = about["bias"][lane] + s
    margin = about["x"] @ w + bias
    fitted = loss(about["weight"], about["pos"][:, [lane]], margin[:, None]).sum()
    return float(settings.cost * fitted + (w @ w + settings.penalty * bias**2) / 2)


def line_of(about: dict[str, Matrix], last: float = 0.0) -> Matrix:
    w, d = about["w"], about["d"]
    lengths = [(w * w).sum(axis=0), (w * d).sum(axis=0), (d * d).sum(axis=0)]
    return np.array([*lengths, about["bias"], np.full(w.shape[1], last)])


def derivatives(about, settings, lane, t, s):  # type: ignore[no-untyped-def]
    """Gradient and curvature of the objective in (t, s), from its definition."""
    _, gt, gs, htt, hts, hss = 2 * settings.cost * sums_at(about, lane, t, s)
    w, d = about["w"][:, lane] + t * about["d"][:, lane], about["d"][:, lane]
    bias = about["bias"][lane] + s
    gradient = np.array([gt + w @ d, gs + settings.penalty * bias])
    return gradient, np.array([[htt + d @ d, hts], [hts, hss + settings.penalty]])


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize(("t", "s"), [(0.0, 0.0), (0.4, -0.3)])
def test_newtons_correction(penalty: float, t: float, s: float) -> None:
    about = problem(3)
    settings = Settings(0.7, penalty, True, 0.1, 0.5, 9)
    sums = np.stack([sums_at(about, lane, t, s) for lane in range(3)], axis=1)
    for lane in range(3):
        value, dt, ds, gain = kernels._correction(settings, sums, line_of(about), lane, t, s)
        assert value == pytest.approx(objective(about, settings, lane, t, s), rel=1e-12)
        gradient, curvature = derivatives(about, settings, lane, t, s)
        change = -np.linalg.solve(curvature, gradient)
        assert (dt, ds) == pytest.approx(tuple(change), rel=1e-9)
        assert gain == pytest.approx(-gradient @ change / 2, rel=1e-9)
        without = kernels._correction(
            settings._replace(bias=False), sums, line_of(about), lane, t, s
        )
        assert without[1:] == pytest.approx(
            (-gradient[0] / curvature[0, 0], 0, gradient[0] ** 2 / curvature[0, 0] / 2), rel=1e-9
        )


def test_corrections_where_there_is_no_curvature() -> None:
    """Of a flat plane only the step is changed, of a flat step the shift, else nothing."""
    settings = Settings(0.5, 0.0, True, 0.1, 0.5, 9)  # twice the cost is 1

    def correction(sums: list[float], dd: float, bias: bool = True) -> tuple[float, ...]:
        line = np.array([[0.0], [0.0], [dd], [0.0], [0.0]])
        numbers = np.array(sums)[:, None]
        made = kernels._correction(settings._replace(bias=bias), numbers, line, 0, 0.0, 0.0)
        return tuple(float(each) for each in made[1:])

    assert correction([0, 3, 5, 1, 2, 4], 0.0) == (-3, 0, 4.5)  # 1 · 4 − 2² = 0
    assert correction([0, 3, 5, 0, 0, 4], 0.0) == (0, -1.25, 3.125)
    assert correction([0, 3, 5, 0, 0, 4], 0.0, bias=False) == (0, 0, 0)
    assert correction([0, 3, 5, 0, 0, 0], 0.0) == (0, 0, 0)
    assert correction([0, 3, 5, 0, 0, 0], 2.0) == (-1.5, 0, 2.25)
    share = kernels.FLAT
    root = np.sqrt(1 - 2 * share)
    assert correction([0, 1, 0, 1, root, 1], 0.0)[0] == pytest.approx(-0.5 / share, rel=1e-6)
    root = np.sqrt(1 - share / 2)
    assert correction([0, 1, 0, 1, root, 1], 0.0)[:2] == (-1, 0)


def searched(about, settings, line, running):  # type: ignore[no-untyped-def]
    """Step, shift and how many children go on."""
    lanes = about["z"].shape[1]
    plane = np.full((2, lanes), 7.0, np.float32)
    sums = np.empty((7, lanes))
    arrays = [single(about[name]) for name in ("weight", "pos", "z", "u")]
    left = kernels._search(settings, *arrays, plane[0:1], plane[1:2], sums, line, running)
    return plane[0].astype(float), plane[1].astype(float), left


@pytest.mark.parametrize("bias", [True, False])
def test_a_search_ends_where_the_objective_is_least(bias: bool) -> None:
    """No point of a fine star around it is lower; lanes that do not run stay where they are."""
    about = problem(kernels.BLOCK)
    settings = Settings(0.7, 1.0, bias, 1e-4, 0.5, 9)
    line = line_of(about, last=1e9)
    before = line.copy()
    running = np.arange(kernels.BLOCK) % 5 != 2
    was_running = running.copy()
    t, s, left = searched(about, settings, line, running)
    assert left == running.sum()
    for lane in range(kernels.BLOCK):
        if not was_running[lane]:
            assert t[lane] == s[lane] == 0
            assert not running[lane]
            np.testing.assert_array_equal(line[[0, 3, 4], lane], before[[0, 3, 4], lane])
            continue
        least = objective(about, settings, lane, t[lane], s[lane])
        gradient, curvature = derivatives(about, settings, lane, t[lane], s[lane])
        free = 2 if bias else 1
        change = np.linalg.solve(curvature[:free, :free], gradient[:free])
        assert gradient[:free] @ change / 2 < 1e-5 * least
        assert bias or s[lane] == 0
        w = about["w"][:, lane] + t[lane] * about["d"][:, lane]
        assert line[0, lane] == pytest.approx(w @ w, rel=1e-5)
        assert line[3, lane] == pytest.approx(about["bias"][lane] + s[lane], rel=1e-5)
        gained = objective(about, settings, lane, 0.0, 0.0) - least
        assert line[4, lane] == pytest.approx(gained, rel=1e-3, abs=1e-5 * least)


def test_a_point_above_the_best_one_is_moved_halfway_towards_it() -> None:
    """Where few rows are active a correction goes too far: from its half the next one is taken.

    One lane is worked out by hand: two rows of the label, at margins 0.75 and 3, of which the
    second comes in where the step has passed 1/2 and then weighs a hundred times more.
    """
    lanes = kernels.WIDTH
    weight = np.array([1.0, 100.0])
    about = {
        "weight": weight,
        "pos": np.repeat(weight[:, None], lanes, axis=1),
        "z": np.repeat([[0.75], [3.0]], lanes, axis=1),
        "u": np.repeat([[0.125], [-4.0]], lanes, axis=1),
    }
    # the objective is (0.25 − t/8)² + 100 max(0, 4t − 2)² without any penalty of weights
    settings = Settings(1.0, 0.0, False, 1e6, 0.5, 9)
    line = np.zeros((5, lanes))
    t, s, _ = searched(about, settings, line, np.ones(lanes, bool))
    # Newton: 2, where the second row costs 3600; then 1, where it costs 400; then 1/2, where the
    # first row alone counts; the correction from there leads back to 2 and is not evaluated
    assert not s.any()
    np.testing.assert_allclose(t, 2.0)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_child_goes_on_while_later_steps_promise_enough(share: float) -> None:
    """Gains in a geometric series of ratio r promise gain · r / (1 − r) more."""
    lanes = kernels.WIDTH
    about = problem(lanes)
    about["z"] *= 1e-3  # every row is active on both sides: one quadratic function
    about["u"] *= 1e-3
    about["w"], about["d"] = 1e-3 * about["w"], 1e-3 * about["d"]
    about["bias"] *= 0
    about["z"] = about["x"] @ about["w"]
    exact = Settings(0.7, 1.0, False, 1e-9, 0.5, 9)
    line = line_of(about)
    searched(about, exact, line, np.ones(lanes, bool))
    gains = line[4].copy()
    value = np.array([objective(about, exact, lane, 0.0, 0.0) for lane in range(lanes)]) - gains
    promised = gains * share / (1 - share)
    for factor, goes_on in ((0.99, True), (1.01, False)):
        for lane in range(lanes):
            line = line_of(about)
            line[4] = gains / share
            running = np.arange(lanes) == lane
            tol = factor * promised[lane] / value[lane]
            left = searched(about, exact._replace(tol=tol), line, running)[2]
            assert left == goes_on == running[lane]


def test_gains_that_grow_promise_themselves() -> None:
    about = problem(kernels.WIDTH)
    exact = Settings(0.7, 1.0, False, 1e-7, 0.5, 9)
    line = line_of(about)
    searched(about, exact, line, np.ones(kernels.WIDTH, bool))
    gain = line[4, 3]
    least = objective(about, exact, 3, 0.0, 0.0) - gain
    for factor, goes_on in ((0.9, True), (1.1, False)):
        line = line_of(about, last=gain / 2)
        running = np.arange(kernels.WIDTH) == 3
        tol = factor * gain / least
        assert searched(about, exact._replace(tol=tol), line, running)[2] == goes_on


def test_a_child_without_loss_is_finished() -> None:
    """Of an objective near 0 a small part of a row's loss counts as nothing."""
    lanes = kernels.WIDTH
    about = {
        "weight": np.ones(3),
        "pos": np.zeros((3, lanes)),
        "z": np.full((3, lanes), -0.99),  # a loss of 1e-4 each
        "u": np.full((3, lanes), -1.0),
    }
    for tol, goes_on in ((0.25, True), (0.5, False)):  # 6e-4 promised, beside 2e-3 in place of 0
        line = np.zeros((5, lanes))
        settings = Settings(2.0, 0.0, False, tol, 0.5, 9)
        running = np.arange(lanes) == 0
        assert searched(about, settings, line, running)[2] == goes_on
    assert NOTHING == 1e-3


def small_node(children: int) -> tuple[Rows, Entries, Matrix, Matrix, NDArray[np.float32]]:
    rng = np.random.default_rng(children)
    x = rng.normal(size=(14, 5)).astype(np.float32)
    x[rng.random(x.shape) < 0.4] = 0
    sparse = sp.csr_array(x)
    weight = rng.uniform(1, 2, 14).astype(np.float32)
    amount = weight[:, None].astype(float) * (rng.random((14, children)) < 0.3)
    columns = sp.csc_array(amount)
    rows = Rows(sparse.indptr.astype(np.int64), sparse.indices.astype(np.uint32), sparse.data)
    entries = Entries(
        columns.indptr.astype(np.int64), columns.indices.astype(np.int32), columns.data,
        columns.data,
    )  # fmt: skip
    return rows, entries, x.astype(float), amount, weight


@pytest.mark.parametrize("children", [3, 17])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_few_steps_solve_a_small_node(children: int, penalty: float) -> None:
    """In six dimensions: 30 steps leave a gradient worth little of a row."""
    rows, entries, x, amount, weight = small_node(children)
    settings = Settings(0.7, penalty, True, 1e-6, 0.5, 30)
    flat, bias, left, steps = kernels.solve(rows, 5, entries, weight, settings, -1.1)
    assert left == 0
    assert 1 < steps < 30
    lanes = kernels.padded(children)
    parts = [
        flat[5 * first : 5 * min(first + kernels.BLOCK, lanes)].reshape(5, -1)
        for first in range(0, lanes, kernels.BLOCK)
    ]
    w = np.concatenate(parts, axis=1)[:, :children].astype(float)
    z = x @ w + bias
    neg = weight[:, None] - amount
    slope = 2 * 0.7 * (neg * np.maximum(1 + z, 0) - amount * np.maximum(1 - z, 0))
    gradient = np.r_[w + x.T @ slope, (slope.sum(axis=0) + penalty * bias)[None]]
    value = 0.7 * (neg * np.maximum(1 + z, 0) ** 2 + amount * np.maximum(1 - z, 0) ** 2).sum(axis=0)
    worth = (gradient**2).sum(axis=0) / 2 / np.maximum(value, 0.7)
    assert worth.max() < 5e-3


def test_the_last_step_is_taken_and_steps_that_are_left_are_counted() -> None:
    """After a single step the weights are the best ones along the first gradient."""
    rows, entries, x, amount, weight = small_node(3)
    settings = Settings(0.7, 1.0, True, 1e-9, 0.5, 1)
    flat, bias, left, steps = kernels.solve(rows, 5, entries, weight, settings, -1.1)
    assert (left, steps) == (3, 1)
    w = flat.reshape(5, -1)[:, :3].astype(float)
    for child in range(3):
        pos = amount[:, child]
        gradient = -2 * 0.7 * 2.1 * x.T @ pos  # at −1.1 only observed labels have a slope
        t = float(w[:, child] @ -gradient / (gradient @ gradient))
        assert t > 0
        np.testing.assert_allclose(w[:, child], -t * gradient, atol=1e-5)
        z = x @ w[:, child] + bias[child]
        slope = 2 * 0.7 * ((weight - pos) * np.maximum(1 + z, 0) - pos * np.maximum(1 - z, 0))
        size = np.abs(slope).sum()
        assert abs(slope.sum() + bias[child]) < 1e-3 * size
        along = gradient @ (w[:, child] + x.T @ slope)
        assert abs(along) < 1e-3 * np.linalg.norm(gradient) * size
