"""Completed training: targets are probabilities, the model is that of its weights."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from unmask import LinearClassifier, data, linear, weights
from unmask.data import Dataset
from unmask.missing import find, posterior
from unmask.missing.other_labels import JoinedProbabilities
from unmask.models import completed
from unmask.models.completed import LEAST, Completion, _weights, inverse_counts
from unmask.predictions import TopK

ROWS = data.synthetic.planted(500, n_features=60, n_labels=8, seed=0)
P = np.linspace(0.3, 0.9, 8)
OBSERVED = data.hide(ROWS.labels, P, seed=1)
RECIPE = linear.Recipe("logistic", l2=1e-3)


@pytest.fixture(scope="module")
def made() -> Completion:
    return linear.completion(ROWS.features, OBSERVED, P, RECIPE)


def test_targets_are_1_where_observed_and_the_posterior_elsewhere(made: Completion) -> None:
    targets = weights.to_soft_targets(made.weights).toarray()
    q = made.probabilities.toarray()
    own = OBSERVED.toarray() == 1
    exact = np.where(own, 1.0, posterior(q, P))
    exact[exact < LEAST] = 0
    np.testing.assert_allclose(targets, exact, rtol=1e-12)
    assert made.weights.cut is made.weights.pos
    assert made.weights.pos.nnz > OBSERVED.nnz


def test_probabilities_tell_missing_labels_from_others(made: Completion) -> None:
    hidden = OBSERVED.toarray() == 0
    true = ROWS.labels.toarray() == 1
    q = made.probabilities.toarray()
    assert roc_auc_score(true[hidden], q[hidden]) > 0.89
    assert made.stage in ("score", "calibrated", "other labels")


def test_a_second_round_tells_more_and_adds_up_to_what_is_missing() -> None:
    """Within what chance leaves: the sum of independent findings varies by the root of it."""
    hidden = OBSERVED.toarray() == 0
    true = ROWS.labels.toarray() == 1
    calls: list[tuple[int, int]] = []
    made = linear.completion(
        ROWS.features, OBSERVED, P, RECIPE, rounds=2, progress=lambda *at: calls.append(at)
    )
    q = made.probabilities.toarray()
    assert roc_auc_score(true[hidden], q[hidden]) > 0.91
    missing = int((hidden & true).sum())
    assert abs(find(made.probabilities, OBSERVED, P).expected - missing) < 2 * missing**0.5
    assert calls == [(done, 12) for done in range(1, 13)]


@pytest.mark.parametrize("rounds", [1, 2])
def test_no_score_depends_on_the_labels_of_its_row(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unmask.models import completed

    scores = []
    join = completed.join

    def recorded(top: TopK, *args: object, **options: object) -> JoinedProbabilities:
        scores.append(top)
        return join(top, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(completed, "join", recorded)
    row, other = OBSERVED.toarray(), OBSERVED.toarray()
    other[0] = 1 - other[0]
    last = []
    for labels in (row, other):
        linear.completion(ROWS.features, labels, P, RECIPE, rounds=rounds)
        last.append(scores[-1])
    before, after = last
    np.testing.assert_array_equal(before.scores[0], after.scores[0])
    assert (before.scores != after.scores).any()


def test_the_model_is_that_of_the_weights(made: Completion) -> None:
    recipe = linear.Recipe("logistic", correction="completed", l2=1e-3)
    one, _ = linear.train(ROWS.features, OBSERVED, recipe, propensity=P)
    two, _ = linear.train(ROWS.features, OBSERVED, RECIPE, weights=made.weights)
    np.testing.assert_array_equal(one.weights, two.weights)
    assert one.parameters["correction"] == "completed"
    classifier = LinearClassifier("logistic", correction="completed", propensity=P, l2=1e-3)
    np.testing.assert_array_equal(classifier.fit(ROWS.features, OBSERVED).coef_, one.weights)


def test_the_corrected_model_is_regularised_ten_times_as_strongly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from unmask.models import completed

    costs = []
    solve = completed.solve

    def recorded(problem: object, **options: object) -> object:
        costs.append((problem.cost * problem.shape[0], problem.entries.pos.max()))  # type: ignore[attr-defined]
        return solve(problem, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(completed, "solve", recorded)
    linear.completion(ROWS.features, OBSERVED, P, RECIPE, rounds=2)
    np.testing.assert_allclose([cost for cost, _ in costs], [100.0, 100.0, 100.0, 1000.0] * 3)
    for place, (_, largest) in enumerate(costs):
        assert largest == 1 if place % 4 == 3 else largest > 1  # targets, and weights 1/p


def test_normalised_targets_are_expected_shares() -> None:
    q, own = np.array([[0.9, 0.5, 0.2]]), np.array([[0, 1, 0]])
    joined = JoinedProbabilities(sp.csr_array(q), "score", np.inf, {})
    p = np.array([0.5, 0.5, 0.5])
    t = np.where(own == 1, 1.0, posterior(q, p))[0]
    shares = np.zeros(3)
    for truth in product((0, 1), repeat=3):
        true = np.array(truth)
        chance = np.prod(np.where(true == 1, t, 1 - t))
        shares += chance * true / max(true.sum(), 1)
    got = _weights(joined, sp.csr_array(own.astype(float)), p, True, None)
    np.testing.assert_allclose(got.pos.toarray()[0], shares, rtol=1e-12)


@pytest.mark.parametrize("sizes", [(0,), (1, 0, 4), (7, 2)])
def test_inverse_counts_by_enumeration(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(sizes))
    t = np.zeros((len(sizes), 7))
    for row, size in zip(t, sizes, strict=True):
        row[:size] = rng.choice([1.0, 0.03, *rng.random(3)], size)
    expected = np.zeros(len(sizes))
    for truth in product((0, 1), repeat=7):
        chance = np.prod(np.where(np.array(truth) == 1, t, 1 - t), axis=1)
        expected += chance / max(sum(truth), 1)
    np.testing.assert_allclose(inverse_counts(sp.csr_array(t)), expected, rtol=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("judged", [False, True])
def test_the_normalised_model_divides_every_row_by_its_labels(weighted: bool, judged: bool) -> None:
    """The minimum of the mean over all label sets, by their probabilities, of (1/N*) Σ loss."""
    x, few, p = ROWS.features[:120], OBSERVED[:120, :4], P[:4]
    rng = np.random.default_rng(2)
    codes = rng.choice([0, 0, 0, 2], (120, 4)) * judged * (few.toarray() == 0)
    rows = Dataset(x, few, judgements=codes) if judged else few
    count = rng.uniform(0.5, 2.0, 120) if weighted else np.ones(120)
    recipe = linear.Recipe("logistic", C=0.7, tol=1e-9, normalized=True)
    plain = replace(recipe, normalized=False)
    targets = linear.completion(x, rows, p, plain, sample_weight=count).weights.pos.toarray()
    terms, rate = np.zeros((2, 120, 4)), np.zeros(120)
    for truth in product((0, 1), repeat=4):
        chance = np.prod(np.where(np.array(truth) == 1, targets, 1 - targets), axis=1)
        chance /= max(sum(truth), 1)
        rate += chance
        for label, value in enumerate(truth):
            terms[value, :, label] += chance
    terms *= np.where(codes == 2, 0.0, (count / np.average(rate, weights=count))[:, None])
    dense = np.c_[x.toarray().astype(float), np.ones(120)]
    classifier = LinearClassifier(
        "logistic", correction="completed", propensity=p, C=0.7, tol=1e-9, normalized=True
    ).fit(x, rows, sample_weight=count)
    for j in range(4):

        def objective(w: np.ndarray, j: int = j) -> tuple[float, np.ndarray]:
            z = dense @ w
            value = terms[1, :, j] * np.logaddexp(0, -z) + terms[0, :, j] * np.logaddexp(0, z)
            slope = terms[0, :, j] * expit(z) - terms[1, :, j] * expit(-z)
            return 0.7 * value.sum() + 0.5 * w @ w, 0.7 * dense.T @ slope + w

        own = np.r_[classifier.coef_[j], classifier.intercept_[j]].astype(float)
        tight = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000}
        exact = minimize(objective, 0 * own, jac=True, method="L-BFGS-B", options=tight)
        np.testing.assert_allclose(own, exact.x, atol=3e-4)


def test_judged_pairs_keep_what_was_judged() -> None:
    judged = sp.csr_array(([1.0, -1.0, 2.0], ([0, 1, 2], [1, 1, 1])), shape=(3, 2))
    rows = Dataset(np.eye(3), [[0, 0], [0, 0], [1, 0]], judgements=judged)
    joined = JoinedProbabilities(sp.csr_array(np.full((3, 2), 0.5)), "score", np.inf, {})
    got = _weights(joined, rows.after_judgements.labels, np.array([0.5, 0.5]), False, rows)
    np.testing.assert_allclose(got.pos.toarray(), [[1 / 3, 1], [1 / 3, 0], [1, 0]])
    np.testing.assert_allclose(got.cut.toarray(), [[1 / 3, 1], [1 / 3, 0], [1, 1]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linear.Recipe(correction="completed"), "for the loss logistic; got squared_hinge"),
        (
            lambda: linear.train(
                ROWS.features, OBSERVED, linear.Recipe("logistic", correction="completed")
            ),
            "completed weights need propensities",
        ),
        (
            lambda: linear.plan(
                ROWS.features, OBSERVED, linear.Recipe("logistic", correction="completed"),
                propensity=P,
            ),
            "a plan of unbiased training",
        ),
        (lambda: linear.completion(ROWS.features[:9], OBSERVED, P), "must have the same rows"),
        (lambda: linear.completion(ROWS.features[:2], OBSERVED[:2], P), "at least 3 rows; got 2"),
        (
            lambda: linear.completion(ROWS.features, OBSERVED, P, linear.Recipe()),
            "for the loss logistic; got squared_hinge",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("more", [0.0, 1e-9])
def test_a_target_that_is_just_large_enough_is_kept(
    monkeypatch: pytest.MonkeyPatch, more: float
) -> None:
    joined = JoinedProbabilities(sp.csr_array([[0.5, 0.25]]), "score", np.inf, {})
    p, least = np.array([0.5, 0.5]), float(posterior(np.array([0.25]), np.array([0.5]))[0])
    monkeypatch.setattr(completed, "LEAST", least * (1 + more))
    got = _weights(joined, sp.csr_array((1, 2)), p, False, None)
    assert got.pos.nnz == (1 if more else 2)
