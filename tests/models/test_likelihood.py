"""The likelihood of observed labels, P(Y = 1) = p σ(w·x): the loss, its optimum, and its door."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from tests.helpers.command import run
from tests.helpers.trained import train as train_by_command
from tests.models.test_solver import BIASES, D, L, N, P, X, Y
from unmask import LinearClassifier, data, linear, losses
from unmask._kernels import linear_smooth as kernels
from unmask.data import Dataset, Judgement
from unmask.linear import Recipe, plan, train, train_to
from unmask.losses.related_work import observed_likelihood
from unmask.models.one_vs_all import solve
from unmask.models.problem import prepare
from unmask.propensity import MaskModel

EDGES = np.r_[1e-6, 1e-3, 0.02, 1.0, 0.999999, 0.6 * P[5:]]
RECIPE = Recipe("logistic", correction="likelihood", C=0.7, tol=1e-9)


def lanes(p: float) -> np.ndarray:
    """What the kernels are told of p, in every lane."""
    shift = np.log1p(-p) if p < 1 else kernels.NEVER
    return np.tile(np.float32([[p], [1 - p], [shift], [np.log(p)]]), (1, kernels.BLOCK))


def objective(y, p, cost, bias="regularized", weight=None, judged=None):  # type: ignore[no-untyped-def]
    """The penalised likelihood of one label without −ln p, its gradient; `unmask.losses` alone."""
    x, form = np.c_[X.toarray().astype(float), np.full(N, bias != "none")], observed_likelihood(p)
    penalty = np.ones(D + 1)
    penalty[-1] = bias != "free"
    weight = np.ones(N) if weight is None else weight

    def part(of, z):  # type: ignore[no-untyped-def]
        plain = [getattr(losses.logistic, of)(z, label) for label in (0, 1)]
        unknown = getattr(form, of)(z, 0)
        values = np.where(y > 0, plain[1], unknown)
        if judged is not None:
            values = np.where(judged == Judgement.POSITIVE, plain[1], values)
            values = np.where(judged == Judgement.NEGATIVE, plain[0], values)
            values = np.where(judged == Judgement.IGNORED, 0.0, values)
        return weight * values

    def both(w):  # type: ignore[no-untyped-def]
        z = x @ w
        value = cost * part("value", z).sum() + 0.5 * (penalty * w * w).sum()
        return value, cost * x.T @ part("slope", z) + penalty * w

    return both


def by_scipy(function, start):  # type: ignore[no-untyped-def]
    tight = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30}
    return minimize(function, start, jac=True, method="L-BFGS-B", options=tight)


@pytest.mark.parametrize("p", [1e-6, 0.05, 0.5, 0.999, 1.0 - 2**-40, 1.0])
def test_lanes_are_the_loss_to_single_precision(p: float) -> None:
    """Value and slope of mpmath, where differences of softplus lose all digits."""
    mpmath = pytest.importorskip("mpmath")
    margins = np.float32([-80, -20, -3, -1e-3, 0, 1e-3, 0.7, 5, 14, 16, 30, 80])
    z = np.resize(margins, (2, kernels.BLOCK))
    slope, curve, one = np.zeros_like(z), np.zeros_like(z), np.ones((1, kernels.BLOCK), np.float32)
    weight = np.ones(2, dtype=np.float32)
    kernels.differentiate(kernels.LIKELIHOOD, lanes(p), 1.0, z, weight, slope, curve)
    for place, margin in enumerate(margins):
        with mpmath.workdps(60):
            chance = 1 / (1 + mpmath.exp(-mpmath.mpf(float(margin))))
            q = mpmath.mpf(p)
            value = (
                -mpmath.log(1 - q * chance) if p < 1 else mpmath.log1p(mpmath.exp(float(margin)))
            )
            first = q * chance * (1 - chance) / (1 - q * chance) if p < 1 else chance
            second = first * (1 - 2 * chance + first)
        scale = np.float64(slope[0, place])
        assert scale == pytest.approx(float(first), rel=2e-6, abs=1e-37)
        assert curve[0, place] == pytest.approx(float(second), rel=5e-5, abs=1e-6 * scale)
        exact = kernels.masked_scalar(*lanes(1.0)[:, 0] if p == 1 else doubles(p), float(margin))
        assert exact == pytest.approx((float(value), float(first), float(second)), rel=1e-10)
        here = np.full((1, kernels.BLOCK), margin)
        sums = np.zeros((6, kernels.BLOCK))
        kernels.along(
            kernels.LIKELIHOOD, lanes(p), here, here, weight[:1], 0 * one, 0 * one, 0, sums
        )
        assert sums[0, 0] == pytest.approx(float(value), rel=2e-6)


def doubles(p: float) -> tuple[float, float, float, float]:
    return p, 1 - p, float(np.log1p(-p)), float(np.log(p))


@given(p=st.sampled_from([1e-6, 0.01, 0.3, 0.9, 1.0]), margin=st.floats(-30, 30))
def test_slope_and_curvature_are_the_differences_of_the_value(p: float, margin: float) -> None:
    step = 1e-4
    of = lanes(1.0)[:, 0] if p == 1 else doubles(p)
    low, here, high = (kernels.masked_scalar(*of, margin + d) for d in (-step, 0.0, step))
    assert (high[0] - low[0]) / (2 * step) == pytest.approx(here[1], rel=1e-6, abs=1e-10)
    assert (high[1] - low[1]) / (2 * step) == pytest.approx(here[2], rel=1e-4, abs=1e-9)
    form = observed_likelihood(p)
    assert here[1] == pytest.approx(float(form.slope(margin, 0)), rel=1e-6, abs=1e-9)
    assert here[0] == pytest.approx(float(form.value(margin, 0)), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("cost", [0.1, 0.7, 3.0])
def test_a_stationary_point_that_no_start_betters(cost: float) -> None:
    """Against L-BFGS from zero, from the result, from a high bias and from random places."""
    recipe = Recipe("logistic", correction="likelihood", C=cost, tol=1e-9)
    model, log = train(X, Y, recipe, propensity=EDGES)
    solved, rng = np.c_[model.weights, model.bias].astype(float), np.random.default_rng(0)
    for j in (0, 1, 2, 3, 4, 5, 20, 30, L - 1):
        function = objective(Y.toarray()[:, j], EDGES[j], cost)
        value, gradient = function(solved[j])
        assert np.linalg.norm(gradient) <= 1e-3 * (1 + np.linalg.norm(function(0 * solved[j])[1]))
        starts = [np.zeros(D + 1), solved[j], np.r_[np.zeros(D), 5.0], rng.normal(size=D + 1)]
        for start in starts:
            assert value <= by_scipy(function, start).fun + 1e-6 * max(value, 1.0)
        assert log.objective[j] == pytest.approx(value, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("bias", BIASES)
def test_bias_in_the_penalty_outside_it_or_absent(bias: str) -> None:
    recipe = Recipe("logistic", correction="likelihood", bias=bias, tol=1e-9, C=0.5)
    model, _ = train(X, Y, recipe, propensity=np.full(L, 0.8))
    solved, j = np.c_[model.weights, model.bias].astype(float), 12
    exact = by_scipy(objective(Y.toarray()[:, j], 0.8, 0.5, bias), solved[j])
    np.testing.assert_allclose(solved[j, :-1], exact.x[:-1], atol=5e-4)
    assert model.bias[j] == pytest.approx(exact.x[-1] if bias != "none" else 0.0, abs=5e-4)


def test_at_propensity_1_it_is_the_logistic_loss_bit_for_bit() -> None:
    """Also beside labels that go missing: no label feels its neighbours."""
    plain, log = train(X, Y, Recipe("logistic"))
    recipe = Recipe("logistic", correction="likelihood")
    same, again = train(X, Y, recipe, propensity=np.ones(L))
    assert np.array_equal(same.weights, plain.weights)
    assert np.array_equal(same.bias, plain.bias)
    assert np.array_equal(again.objective, log.objective)
    p = np.where(np.arange(L) % 2, 1.0, 0.5)
    mixed, _ = train(X, Y, recipe, propensity=p)
    assert np.array_equal(mixed.weights[1::2], plain.weights[1::2])
    assert not np.array_equal(mixed.weights[2], plain.weights[2])


def test_a_label_is_solved_alone_as_in_company() -> None:
    problem = prepare(X, Y, RECIPE, EDGES, None)
    together = solve(problem).weights
    order = np.random.default_rng(0).permutation(L)
    turned = prepare(X, Y[:, order], RECIPE, EDGES[order], None)
    assert np.array_equal(solve(turned).weights, together[order])
    part = problem.common.of_labels(problem.part(9, 30))
    assert np.array_equal(solve(part).weights, together[9:30])


@given(st.lists(st.sampled_from([1e-6, 1e-4, 0.1, 0.5, 1 - 1e-9, 1.0]), min_size=4, max_size=4))
def test_any_propensities_have_finite_models(p: list[float]) -> None:
    """Of labels that are rare, common, never and always observed."""
    some = Y[:, [0, 2, 25, L - 1]]
    model, log = train(X, some, Recipe("logistic", correction="likelihood"), propensity=p)
    assert np.isfinite(model.weights).all()
    assert np.isfinite(model.bias).all()
    assert (log.objective >= 0).all()


def test_lower_propensities_mean_higher_probabilities() -> None:
    """σ(score) is the probability of true labels: about 1/p times that of observed ones."""
    rows = data.synthetic.planted(1500, n_features=60, n_labels=8, seed=0)
    p = np.linspace(0.3, 0.9, 8)
    observed = data.hide(rows.labels, p, seed=1)
    classifier = LinearClassifier("logistic", correction="likelihood", propensity=p, C=0.3)
    chances = classifier.fit(rows.features, observed).predict_proba(rows.features)
    expected, truth = chances.mean(axis=0), rows.labels.toarray().mean(axis=0)
    observed_share = observed.toarray().mean(axis=0)
    assert np.abs(expected - truth).sum() < 0.5 * np.abs(observed_share - truth).sum()
    np.testing.assert_allclose(expected, truth, rtol=0.25)


def test_weighted_rows_are_repeated_rows_and_fractions_of_them() -> None:
    counts = np.random.default_rng(3).integers(0, 4, N).astype(float)
    common = {"correction": "likelihood", "propensity": EDGES, "tol": 1e-9}
    whole = LinearClassifier("logistic", C=0.7, **common).fit(X, Y, sample_weight=counts)
    rows = np.repeat(np.arange(N), counts.astype(int))
    repeated = LinearClassifier("logistic", C=0.7, **common).fit(X[rows], Y[rows])
    np.testing.assert_allclose(whole.coef_, repeated.coef_, atol=2e-4)
    half = LinearClassifier("logistic", C=1.4, **common).fit(X, Y, sample_weight=counts / 2)
    np.testing.assert_allclose(half.coef_, whole.coef_, atol=2e-4)
    by_l2 = LinearClassifier("logistic", l2=1 / (0.7 * counts.sum()), **common)
    by_l2.fit(X, Y, sample_weight=counts)
    np.testing.assert_allclose(by_l2.coef_, whole.coef_, atol=2e-4)
    weight, j = counts / 2 + 0.1, 20
    odd = LinearClassifier("logistic", C=0.7, **common).fit(X, Y, sample_weight=weight)
    function = objective(Y.toarray()[:, j], EDGES[j], 0.7, weight=weight)
    own = np.r_[odd.coef_[j], odd.intercept_[j]].astype(float)
    assert function(own)[0] <= by_scipy(function, own).fun * (1 + 1e-6)


@pytest.mark.parametrize("p", [0.4, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_judged_pairs_are_beyond_the_mask(p: float, weighted: bool) -> None:
    """A judged negative costs the whole of ln(1 + eˢ), an ignored pair nothing."""
    rng = np.random.default_rng(5)
    judged = rng.choice([0, 0, 0, -1, 1, 2], size=(N, L)).astype(float)
    weight = rng.uniform(0.2, 2.0, N) if weighted else None
    classifier = LinearClassifier(
        "logistic", correction="likelihood", propensity=np.full(L, p), C=0.7, tol=1e-9
    ).fit(X, Dataset(None, Y, judgements=judged), sample_weight=weight)
    for j in (2, 20, L - 1):
        function = objective(Y.toarray()[:, j], p, 0.7, weight=weight, judged=judged[:, j])
        own = np.r_[classifier.coef_[j], classifier.intercept_[j]].astype(float)
        exact = by_scipy(function, own)
        assert function(own)[0] <= exact.fun + 1e-6 * max(exact.fun, 1.0)
        np.testing.assert_allclose(own, exact.x, atol=2e-3)


def test_features_of_either_precision_are_one_model() -> None:
    recipe = Recipe("logistic", correction="likelihood")
    single = train(X.astype(np.float32), Y, recipe, propensity=EDGES)[0]
    double = train(X.astype(np.float64), Y, recipe, propensity=EDGES)[0]
    assert np.array_equal(single.weights, double.weights)


def test_a_warm_start_saves_iterations_and_keeps_the_optimum() -> None:
    cold, cost = train(X, Y, RECIPE, propensity=0.8 * P)
    warm, again = train(X, Y, RECIPE, propensity=0.8 * P, first=cold)
    assert again.iterations.sum() < 0.6 * cost.iterations.sum()
    np.testing.assert_allclose(warm.weights, cold.weights, atol=1e-3)


def test_a_folder_is_gone_on_with_for_the_same_propensities_only(tmp_path: Path) -> None:
    recipe, folder = Recipe("logistic", correction="likelihood"), tmp_path / "m"
    wide = sp.csr_array(sp.hstack([Y, Y, Y]))
    p = np.tile(P, 3)
    whole = train(X, wide, recipe, propensity=p)[0]

    def stop(done: int, total: int) -> None:
        if done >= 64:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_to(folder, X, wide, recipe, propensity=p, shard_labels=32, progress=stop)
    with pytest.raises(ValueError, match="other data or another recipe"):
        train_to(folder, X, wide, recipe, propensity=0.9 * p, shard_labels=32)
    done: list[int] = []
    model = train_to(
        folder, X, wide, recipe, propensity=p, shard_labels=32,
        progress=lambda count, _: done.append(count),
    )  # fmt: skip
    assert done[0] >= 32
    assert np.array_equal(model.weights, whole.weights)
    assert model.loss == "logistic"
    assert model.parameters["correction"] == "likelihood"


def test_a_plan_trains_a_sample_with_its_own_propensities() -> None:
    needs = plan(X, Y, RECIPE, propensity=EDGES, sample=5)
    assert (needs.labels, needs.sampled) == (L, 5)


def test_the_command_trains_plans_and_keeps_it(source: Path, tmp_path: Path) -> None:
    options = ("--loss", "logistic", "--correction", "likelihood", "--propensity", "constant:0.5")
    train_by_command(source, tmp_path / "m", *options)
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    assert manifest["parameters"]["correction"] == "likelihood"
    assert "asked for" in manifest["parameters"]["chosen_because"]
    rows = data.read(source)
    recipe = Recipe("logistic", correction="likelihood")
    p = np.full(rows.labels.shape[1], 0.5)
    expected = train(rows.features, rows.labels, recipe, propensity=p)[0]
    assert np.array_equal(linear.load(tmp_path / "m").weights, expected.weights)
    planned = run("train", source, "--plan", "--json", *options)
    assert json.loads(planned.stdout)["labels"] == 24
    refused = run("train", source, "-o", tmp_path / "n", "--correction", "likelihood")
    assert refused.returncode == 2
    assert "form of the loss logistic; got squared_hinge" in refused.stderr


@pytest.mark.parametrize(
    ("recipe", "propensity", "message"),
    [
        ({}, None, "likelihood weights need propensities, one per label"),
        ({}, np.r_[0.0, P[1:]], "propensities must lie in .* got 0 at label 0"),
        ({}, np.r_[1.2, P[1:]], "propensities must lie in .* got 1.2 at label 0"),
        ({}, np.r_[np.nan, P[1:]], "propensities must"),
        ({}, P[:3], "3 propensities for 35 labels"),
        ({}, np.r_[1e-40, P[1:]], "at least 1e-30; got 1e-40 at label 0"),
        ({}, sp.csr_array(Y), "one propensity per label, for the pairs that are not observed"),
        ({"normalized": True}, P, "has no normalised form"),
        ({"loss": "squared_error"}, P, "form of the loss logistic; got squared_error"),
    ],
)
def test_what_has_no_likelihood_is_refused(recipe, propensity, message):  # type: ignore[no-untyped-def]
    classifier = LinearClassifier(**{"loss": "logistic", "correction": "likelihood", **recipe})
    with pytest.raises(ValueError, match=message):
        classifier.fit(X, Y, propensity=propensity)


def test_masks_of_rows_have_their_marginal_likelihood() -> None:
    """p is over all rows, whatever rows lose together."""
    mask = MaskModel(P, row_effort=0.5)
    recipe = Recipe("logistic", correction="likelihood")
    by_mask, plain = (train(X, Y, recipe, propensity=each)[0] for each in (mask, P))
    assert np.array_equal(by_mask.weights, plain.weights)


def test_weights_of_the_caller_take_its_place() -> None:
    from unmask.weights import vanilla

    recipe = Recipe("logistic", correction="likelihood")
    model, _ = train(X, Y, recipe, weights=vanilla(Y))
    assert np.array_equal(model.weights, train(X, Y, Recipe("logistic"))[0].weights)
    assert model.parameters["correction"] is None
