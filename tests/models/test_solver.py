"""The solvers: the optimum is the optimum, whoever computes it and in whatever company."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from unmask import _kernels, losses, weights
from unmask._kernels import linear as hinge_kernels
from unmask._kernels import linear_smooth as kernels
from unmask.linear import NonConvexWarning, Recipe, UnconvergedWarning, train
from unmask.models import softmax
from unmask.models.one_vs_all import SOLVERS, solve
from unmask.models.problem import LOSSES, arrange, prepare
from unmask.weights import CORRECTIONS, Weights

N, D, L = 150, 25, 35
RNG = np.random.default_rng(7)
BIASES = ("regularized", "free", "none")
MASK = np.zeros((4, kernels.BLOCK), dtype=np.float32)  # of the likelihood alone


def make_features(n: int = N, d: int = D) -> sp.csr_array:
    """Sparse, of both signs, with an empty row, a constant feature and a feature nobody has."""
    x = RNG.standard_normal((n, d)) * (RNG.random((n, d)) < 0.3)
    x[:, 0], x[:, 1], x[3] = 1.0, 0.0, 0.0
    return sp.csr_array(x.astype(np.float32))


X = make_features()
Y = sp.csr_array((RNG.random((N, L)) < np.r_[0, np.linspace(0.02, 0.5, L - 2), 1]).astype(float))
P = RNG.uniform(0.4, 1.0, L)


def objective(loss, x, pos, cut, cost, bias):  # type: ignore[no-untyped-def]
    """½‖w‖² + C Σ (pos ℓ₊ + (1 − cut) ℓ₋) of one label and its gradient, from `unmask.losses`."""
    form = losses.get(loss)
    penalty = np.ones(x.shape[1] + 1)
    penalty[-1] = bias != "free"

    def both(w):  # type: ignore[no-untyped-def]
        z = x @ w[:-1] + w[-1] * (bias != "none")
        value = pos * form.value(z, 1) + (1 - cut) * form.value(z, 0)
        slope = pos * form.slope(z, 1) + (1 - cut) * form.slope(z, 0)
        gradient = cost * np.r_[x.T @ slope, slope.sum() * (bias != "none")] + penalty * w
        return cost * value.sum() + 0.5 * (penalty * w * w).sum(), gradient

    return both


def by_scipy(function, size):  # type: ignore[no-untyped-def]
    tight = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30}
    return minimize(function, np.zeros(size), jac=True, method="L-BFGS-B", options=tight)


CASES = [
    (loss, correction, normalized)
    for loss in SOLVERS
    for correction in CORRECTIONS
    for normalized in (False, True)
    if (correction != "empirical_bayes" or normalized)
    and losses.get(loss).describe(correction, normalized=normalized).convex
]


def test_every_loss_of_a_reduction_has_a_solver():
    assert tuple(SOLVERS) == LOSSES["ova"]


@pytest.mark.parametrize(("loss", "correction", "normalized"), CASES)
def test_optimum_against_an_independent_solver(loss, correction, normalized):  # type: ignore[no-untyped-def]
    recipe = Recipe(loss, correction=correction, normalized=normalized, C=0.7, tol=1e-9)
    model, solution = train(X, Y, recipe, propensity=P)
    given = CORRECTIONS[correction](Y, P, normalized=normalized, reduction="ova")
    pos, cut, x = given.pos.toarray(), given.cut.toarray(), X.toarray().astype(float)
    found = np.c_[model.weights, model.bias]
    for j in (0, 1, 5, 20, L - 1):  # without positives, rare, common, all positive
        function = objective(loss, x, pos[:, j], cut[:, j], 0.7, "regularized")
        exact = by_scipy(function, D + 1)
        value, gradient = function(found[j].astype(float))
        size = 1.0 + np.abs(exact.x).max()
        assert np.abs(found[j] - exact.x).max() <= 2e-4 * size
        assert value <= exact.fun + 1e-6 * max(abs(exact.fun), 1.0)
        assert np.linalg.norm(gradient) <= 1e-3 * (1 + np.linalg.norm(function(0 * exact.x)[1]))
        assert solution.objective[j] == pytest.approx(value, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("loss", SOLVERS)
@pytest.mark.parametrize("bias", BIASES)
def test_bias_in_the_penalty_outside_it_or_absent(loss, bias):  # type: ignore[no-untyped-def]
    model, _ = train(X, Y, Recipe(loss, bias=bias, tol=1e-9, C=0.5))
    x, j = X.toarray().astype(float), 12
    y = Y.toarray()[:, j]
    exact = by_scipy(objective(loss, x, y, y, 0.5, bias), D + 1)
    wanted = exact.x[-1] if bias != "none" else 0.0
    assert model.bias[j] == pytest.approx(wanted, abs=2e-4)
    np.testing.assert_allclose(model.weights[j], exact.x[:-1], atol=2e-4)


@pytest.mark.parametrize("loss", SOLVERS)
def test_default_tolerance_is_within_a_thousandth(loss):  # type: ignore[no-untyped-def]
    rough = train(X, Y, Recipe(loss, C=2.0))[1]
    exact = train(X, Y, Recipe(loss, C=2.0, tol=1e-10))[1]
    gap = rough.objective - exact.objective
    assert (gap <= 1e-3 * np.maximum(np.abs(exact.objective), 0.1)).all()


def test_same_objective_as_liblinear() -> None:
    recipe = Recipe("squared_hinge", C=1.0)
    _, solution = train(X, Y, recipe)
    for j in (3, 10, 30):
        y = 2 * Y.toarray()[:, j] - 1
        theirs = LinearSVC(C=1.0, tol=1e-8, max_iter=100_000, dual=False).fit(X, y)
        w = np.r_[theirs.coef_[0], theirs.intercept_]
        pos = Y.toarray()[:, j]
        value = objective("squared_hinge", X.toarray(), pos, pos, 1.0, "regularized")(w)[0]
        assert solution.objective[j] <= value * (1 + 1e-3)


@pytest.mark.parametrize("loss", SOLVERS)
def test_no_label_feels_its_neighbours(loss):  # type: ignore[no-untyped-def]
    """Alone, in another order, in another lane, on another number of threads: the same bits."""
    given = prepare(X, Y, Recipe(loss), None, None)
    together = solve(given).weights
    order = np.random.default_rng(0).permutation(L)
    turned = prepare(X, Y[:, order], Recipe(loss), None, None)
    assert np.array_equal(solve(turned).weights, together[order])
    alone = given.common.of_labels(given.part(17, 18))
    assert np.array_equal(solve(alone).weights[0], together[17])
    part = given.common.of_labels(given.part(9, 30))
    assert np.array_equal(solve(part).weights, together[9:30])


def test_threads_do_not_change_the_result() -> None:
    many = sp.hstack([Y] * 4).tocsr()
    found = []
    for count in (1, 2):
        _kernels.set_threads(count)
        try:
            found.append(train(X, many, Recipe("squared_hinge"))[0].weights)
        finally:
            _kernels.set_threads(None)
    assert np.array_equal(*found)
    assert np.array_equal(found[0][:L], found[0][L : 2 * L])


def test_awkward_shapes_have_an_optimum() -> None:
    """More features than rows, duplicated rows, one row, one feature."""
    wide = sp.csr_array(RNG.random((6, 300)).astype(np.float32))
    doubled = sp.vstack([X, X]).tocsr()
    cases = (
        (wide, [[1], [0], [1], [0], [0], [1]]),
        (doubled, sp.vstack([Y, Y])),
        (X[:1], Y[:1]),
        (X[:, :1], Y),
    )
    for x, y in cases:
        for loss in SOLVERS:
            model, solution = train(x, y, Recipe(loss))
            assert np.isfinite(model.weights).all()
            assert np.isfinite(solution.objective).all()
    half = train(doubled, sp.vstack([Y, Y]), Recipe("squared_hinge", C=0.5, tol=1e-9))[0]
    once = train(X, Y, Recipe("squared_hinge", C=1.0, tol=1e-9))[0]
    np.testing.assert_allclose(half.weights, once.weights, atol=1e-4)


def test_l2_is_one_over_c_n() -> None:
    one = train(X, Y, Recipe("logistic", l2=1 / (0.7 * N)))[0]
    other = train(X, Y, Recipe("logistic", C=0.7))[0]
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-6)


def test_warm_start_saves_turns_and_keeps_the_optimum() -> None:
    for loss in SOLVERS:
        cold, cost = train(X, Y, Recipe(loss, tol=1e-8))
        warm, again = train(X, Y, Recipe(loss, tol=1e-8), first=cold)
        assert again.iterations.sum() < 0.6 * cost.iterations.sum()
        np.testing.assert_allclose(warm.weights, cold.weights, atol=1e-3)


def test_unbiased_squared_hinge_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"no minimum for label.*loss='logistic'.*'bound'"):
        train(X, Y, Recipe("squared_hinge", correction="unbiased", C=5.0), propensity=0.3 * P)


def test_a_local_minimum_comes_with_a_warning() -> None:
    """cut barely above 1 and a small C: the penalty keeps the objective bent upwards."""
    pos = sp.csr_array(Y)
    given = Weights(pos, pos * 1.001)
    with pytest.warns(NonConvexWarning, match=r"not convex for labels .* local minimum"):
        train(X, Y, Recipe("squared_hinge", C=1e-3), weights=given)


def test_a_free_bias_without_a_minimum_is_refused() -> None:
    recipe = Recipe("logistic", correction="unbiased", bias="free")
    with pytest.raises(ValueError, match=f"labels 32, {L - 1}: the loss has no minimum"):
        train(X, Y, recipe, propensity=np.full(L, 0.5))


def test_running_out_of_turns_is_said() -> None:
    with pytest.warns(UnconvergedWarning, match="did not converge in 2 iterations"):
        train(X, Y, Recipe("squared_hinge", max_iter=2, tol=1e-9))


def softmax_objective(x, pos, cost, bias):  # type: ignore[no-untyped-def]
    total = pos.sum(1)
    penalty = np.ones(x.shape[1] + 1)
    penalty[-1] = bias != "free"

    def both(flat):  # type: ignore[no-untyped-def]
        w = flat.reshape(pos.shape[1], -1)
        s = x @ w[:, :-1].T + w[:, -1] * (bias != "none")
        top = s.max(1, keepdims=True)
        level = top[:, 0] + np.log(np.exp(s - top).sum(1))
        slope = cost * (total[:, None] * np.exp(s - level[:, None]) - pos)
        gradient = np.c_[slope.T @ x, slope.sum(0) * (bias != "none")] + penalty * w
        value = cost * (total @ level - (pos * s).sum()) + 0.5 * (penalty * w * w).sum()
        return value, gradient.ravel()

    return both


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("correction", ["vanilla", "unbiased"])
def test_softmax_optimum_against_an_independent_solver(bias, correction):  # type: ignore[no-untyped-def]
    recipe = Recipe("softmax", reduction="pal", correction=correction, bias=bias, C=0.8, tol=1e-9)
    model, solution = train(X, Y, recipe, propensity=P)
    pos = CORRECTIONS[correction](Y, P, reduction="pal").pos.toarray()
    function = softmax_objective(X.toarray().astype(float), pos, 0.8, bias)
    exact = by_scipy(function, L * (D + 1))
    w, wanted = np.c_[model.weights, model.bias].astype(float), exact.x.reshape(L, -1)
    if bias == "free":  # scores are defined up to a constant per row
        w[:, -1] -= w[1:, -1].mean()  # and label 0, without positives, runs off to −∞
        wanted[:, -1] -= wanted[1:, -1].mean()
    assert function(w.ravel())[0] <= exact.fun * (1 + 1e-6)
    np.testing.assert_allclose(w[1:], wanted[1:], atol=3e-3)
    assert solution.objective[0] == pytest.approx(exact.fun, rel=1e-5)


def test_softmax_in_row_blocks_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe("softmax", reduction="pal", tol=1e-8)
    whole = train(X, Y, recipe)[0].weights
    monkeypatch.setattr("unmask.models.softmax.ENTRIES", 2048)
    np.testing.assert_allclose(train(X, Y, recipe)[0].weights, whole, atol=1e-5)


@pytest.mark.parametrize("bias", BIASES)
def test_softmax_starts_at_the_frequencies_of_labels(bias: str) -> None:
    """ln(n_j + 1), centred; a label whose weights sum to less than nothing counts as absent."""
    pos = weights.vanilla(Y).pos.copy()
    pos.data[pos.indices == 3] = -1.0
    problem = prepare(X, Y, Recipe("softmax", reduction="pal", bias=bias), None, Weights(pos, pos))
    joint = softmax.Joint(problem, pos, pos.sum(axis=1).astype(np.float32))
    start = softmax._start(joint).transpose(0, 2, 1).reshape(-1, D + 1)[:L]
    assert not start[:, :-1].any()
    level = np.log(np.maximum(pos.sum(axis=0), 0) + 1) * (bias != "none")
    np.testing.assert_allclose(start[:, -1], level - level.mean(), atol=1e-6)


def test_softmax_with_negative_rows_is_refused() -> None:
    pos = sp.csr_array(-5.0 * Y)
    with pytest.raises(ValueError, match="sum to less than 0 in 150 rows, first in row 0"):
        train(X, Y, Recipe("softmax", reduction="pal", C=100.0), weights=Weights(pos, pos))


SCORES = np.r_[np.linspace(-60, 60, 4801), np.linspace(-1.5, 1.5, 95)]


@pytest.mark.parametrize(("kind", "name"), [(0, "logistic"), (1, "squared_error")])
def test_lane_formulas_are_those_of_losses(kind: int, name: str) -> None:
    """One source per formula: the kernels restate ℓ₋ for SIMD, and this pins them to `losses`."""
    form = losses.get(name)
    rows = -(-len(SCORES) // kernels.BLOCK)
    z = np.resize(SCORES, (rows, kernels.BLOCK)).astype(np.float32)
    slope, curve = np.zeros_like(z), np.zeros_like(z)
    weight = np.ones(rows, dtype=np.float32)
    kernels.differentiate(kind, MASK, 1.0, z, weight, slope, curve)
    exact = z.astype(np.float64)
    np.testing.assert_allclose(slope, form.slope(exact, 0), rtol=1e-6, atol=1e-30)
    np.testing.assert_allclose(curve, form.curvature(exact, 0), rtol=1e-6, atol=1e-30)
    sums, one = np.zeros((6, kernels.BLOCK)), np.ones((1, kernels.BLOCK), dtype=np.float32)
    for group in range(4):
        kernels.along(kind, MASK, z, z, weight, 0 * one, 0 * one, group, sums)
    np.testing.assert_allclose(sums[0], form.value(exact, 0).sum(0), rtol=1e-6)
    for s in (-50.0, -1.0, 0.0, 0.3, 40.0):
        wanted = [float(f(s, 0)) for f in (form.value, form.slope, form.curvature)]
        np.testing.assert_allclose(kernels.negative_scalar(kind, s), wanted, rtol=1e-12)


def test_linear_difference_of_the_smooth_losses() -> None:
    """ℓ₊ = ℓ₋ − rise·z + offset, on which the smooth solver rests."""
    from unmask.models.one_vs_all import KINDS

    for name, kind in KINDS.items():
        form = losses.get(name)
        left = form.value(SCORES, 1)
        np.testing.assert_allclose(
            left, form.value(SCORES, 0) - kind.rise * SCORES + kind.offset, atol=1e-9
        )
        assert form.curvature(SCORES, 0).max() <= kind.curvature + 1e-12


def test_hinge_formulas_are_those_of_losses() -> None:
    form = losses.get("squared_hinge")
    z, u = np.linspace(-3, 3, 41), RNG.standard_normal(41)
    pos, neg = RNG.random(20), RNG.random(41)
    f, gt, gs, _, _, hss = hinge_kernels._along(z, u, pos, neg, 41, 0.7, -0.1)
    v = z + 0.7 * u - 0.1
    a, b = np.r_[pos, np.zeros(21)], neg
    slope = a * form.slope(v, 1) + b * form.slope(v, 0)
    curve = a * form.curvature(v, 1) + b * form.curvature(v, 0)
    assert f == pytest.approx((a * form.value(v, 1) + b * form.value(v, 0)).sum())
    assert (2 * gt, 2 * gs) == pytest.approx(((slope * u).sum(), slope.sum()))
    assert 2 * hss == pytest.approx(curve.sum())


def test_lane_exponential_and_logarithm_against_mpmath() -> None:
    """Through the logistic loss at extremes: ln(1 + eᶻ) and its slope to float32 accuracy."""
    mpmath = pytest.importorskip("mpmath")
    z = np.resize(np.float32([-87, -30, -1e-3, 0, 1e-6, 0.5, 20, 87]), (1, kernels.BLOCK))
    slope, curve = np.zeros_like(z), np.zeros_like(z)
    kernels.differentiate(0, MASK, 1.0, z, np.ones(1, dtype=np.float32), slope, curve)
    wanted = [float(1 / (1 + mpmath.exp(-mpmath.mpf(float(v))))) for v in z[0]]
    np.testing.assert_allclose(slope[0], wanted, rtol=5e-7)


def test_weights_of_any_kind_reach_the_solver() -> None:
    """Per-entry weights that no correction makes."""
    pos = weights.vanilla(Y).pos.copy()
    pos.data = RNG.uniform(0.2, 3.0, pos.nnz)
    cut = pos.copy()
    cut.data = RNG.uniform(-1.0, 1.0, cut.nnz)
    given = arrange(X, Weights(pos, cut), Recipe(C=0.4, tol=1e-9))
    found = solve(given.of_labels(given.part(8, 9)))
    x = X.toarray().astype(float)
    a, b = pos.toarray()[:, 8], cut.toarray()[:, 8]
    exact = by_scipy(objective("squared_hinge", x, a, b, 0.4, "regularized"), D + 1)
    np.testing.assert_allclose(found.weights[0], exact.x, atol=2e-4)


def test_a_softmax_that_begins_at_its_optimum_has_converged() -> None:
    """Nothing is promised there: that is no sign of an objective that bends downwards."""
    x, y = sp.csr_array((4, 2), dtype=np.float32), np.eye(2)[[0, 1, 0, 1]]
    recipe = Recipe("softmax", reduction="pal", bias="none")
    model, log = train(x, y, recipe)
    assert not model.weights.any()
    assert not log.exhausted.size
