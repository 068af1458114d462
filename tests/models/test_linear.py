"""The estimator and its predictions: conventions kept, ties settled, hidden labels recovered."""

from __future__ import annotations

import inspect
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from unmask import linear, weights
from unmask.data import hide
from unmask.data.synthetic import planted
from unmask.data.texts import idf, tfidf
from unmask.linear import LinearClassifier, LinearModel, Recipe, predict_top, scores, train
from unmask.models.linear import PROBABILITIES, Shard
from unmask.predictions import TopK

RNG = np.random.default_rng(3)
X = sp.csr_array((RNG.random((60, 12)) * (RNG.random((60, 12)) < 0.4)).astype(np.float32))
Y = (RNG.random((60, 5)) < 0.3).astype(int)


def test_learns_what_is_there() -> None:
    planted_weights = RNG.standard_normal((5, 12))
    truth = (X @ planted_weights.T > 0).astype(int)
    for loss, reduction in (
        ("squared_hinge", "ova"),
        ("logistic", "ova"),
        ("squared_error", "ova"),
    ):
        classifier = LinearClassifier(loss, reduction=reduction, C=1e3).fit(X, truth)
        predicted, middle = classifier.predict(X), 0.5 if loss == "squared_error" else 0.0
        assert (predicted == truth).mean() > 0.9
        assert np.array_equal(predicted, classifier.decision_function(X) > middle)


def test_scikit_learn_conventions() -> None:
    classifier = LinearClassifier("logistic", C=0.5, prune_below=0.01)
    assert clone(classifier).get_params() == classifier.get_params()
    piped = make_pipeline(MaxAbsScaler(), LinearClassifier()).fit(X, Y)
    assert piped.predict(X).shape == Y.shape
    search = GridSearchCV(LinearClassifier("logistic"), {"C": [0.1, 1.0]}, cv=2).fit(X.toarray(), Y)
    assert search.best_params_["C"] in (0.1, 1.0)


# The checks that apply to a classifier that takes a 0/1 matrix of labels and nothing else: left out
# are those that hand in class names, one column of classes, or labels other than 0 and 1.
SINGLE_LABEL = {
    "check_estimators_dtypes",
    "check_fit2d_1feature",
    "check_classifier_data_not_an_array",
    "check_classifier_multioutput",
    "check_classifiers_classes",
    "check_classifiers_train",
    "check_supervised_y_2d",
    "check_sample_weights_not_an_array",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
}


OTHER_CODES = {
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimators_fit_returns_self",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_pipeline_consistency",
    "check_readonly_memmap_input",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}
"""Checks whose labels are coded 1 and 2, or 0 to 2, in scikit-learn 1.6: 0 and 1 would be right."""
if sklearn.__version__.startswith("1.6."):
    SINGLE_LABEL |= OTHER_CODES


def _applying():  # type: ignore[no-untyped-def]
    for estimator, check in estimator_checks_generator(LinearClassifier(max_iter=200)):
        name = getattr(check, "func", check).__name__
        if name not in SINGLE_LABEL:
            yield pytest.param(estimator, check, id=name)


@pytest.mark.parametrize(("estimator", "check"), list(_applying()))
def test_estimator_checks(estimator, check):  # type: ignore[no-untyped-def]
    check(estimator)


def test_dense_and_sparse_inputs_agree_and_stay_untouched() -> None:
    dense, labels = X.toarray(), sp.csr_array(Y)
    before = dense.copy(), X.copy(), labels.copy()
    from_dense = LinearClassifier().fit(dense, Y)
    from_sparse = LinearClassifier().fit(X, labels)
    assert np.array_equal(from_dense.coef_, from_sparse.coef_)
    assert sp.issparse(from_sparse.predict(X))
    assert np.array_equal(from_sparse.predict(X).toarray(), from_dense.predict(dense))
    assert np.array_equal(dense, before[0])
    for matrix, copy in ((X, before[1]), (labels, before[2])):
        assert np.array_equal(matrix.data, copy.data)
        assert np.array_equal(matrix.indices, copy.indices)


def test_precomputed_weights_are_the_correction() -> None:
    p = np.full(5, 0.5)
    named = LinearClassifier("logistic", correction="unbiased", propensity=p).fit(X, Y)
    made = LinearClassifier("logistic", correction=weights.unbiased(Y, p)).fit(X, Y)
    assert np.array_equal(named.coef_, made.coef_)
    with pytest.raises(ValueError, match="same rows and labels"):
        made.fit(X[:10], Y[:10])


def test_probabilities() -> None:
    classifier = LinearClassifier("logistic").fit(X, Y)
    chance = classifier.predict_proba(X)
    np.testing.assert_allclose(
        chance, 1 / (1 + np.exp(-classifier.decision_function(X))), rtol=1e-5
    )
    joint = LinearClassifier("softmax", reduction="pal").fit(X, Y)
    np.testing.assert_allclose(joint.predict_proba(X).sum(1), 1, rtol=1e-5)
    assert (joint.predict(X).sum(1) == 1).all()
    assert not hasattr(LinearClassifier("squared_hinge"), "predict_proba")


def test_what_cannot_be_combined_is_refused() -> None:
    cases = (
        ({"loss": "softmax"}, "unknown loss for the reduction ova 'softmax'"),
        ({"reduction": "pal"}, "unknown loss for the reduction pal 'squared_hinge'"),
        ({"reduction": "ovo"}, "unknown reduction 'ovo'"),
        ({"correction": "bound"}, "bound weights need propensities"),
        ({"C": -1.0}, "C must lie in"),
        ({"bias": "some"}, "unknown bias 'some'"),
        ({"n_jobs": 0}, "n_jobs must be a whole number"),
    )
    for parameters, message in cases:
        with pytest.raises(ValueError, match=message):
            LinearClassifier(**parameters).fit(X, Y)
    with pytest.raises(ValueError, match="must be 0 or 1; got 2"):
        LinearClassifier().fit(X, 2 * Y)


def test_a_recipe_takes_every_positive_number_and_nothing_else() -> None:
    tiny = np.finfo(float).tiny
    for name, least, beyond in (
        ("C", tiny, 0.0),
        ("l2", tiny, 0.0),
        ("tol", tiny, 0.0),
        ("prune_below", 0.0, -tiny),
    ):
        assert getattr(Recipe(**{name: least}), name) == least
        assert getattr(Recipe(**{name: 1e300}), name) == 1e300
        with pytest.raises(ValueError, match=f"{name} must lie in"):
            Recipe(**{name: beyond})
    assert Recipe(max_iter=1).max_iter == 1
    with pytest.raises(ValueError, match="max_iter must be a whole number of at least 1"):
        Recipe(max_iter=0)
    assert Recipe(C=0.0, l2=0.5).cost(rows=4) == 0.5  # C plays no part beside l2


def test_n_jobs_leaves_the_setting_alone() -> None:
    from unmask import _kernels

    before = _kernels.threads()
    one, all_ = (LinearClassifier(n_jobs=j).fit(X, Y) for j in (1, -1))
    assert _kernels.threads() == before
    assert np.array_equal(one.coef_, all_.coef_)


def test_progress_is_a_bar_where_tqdm_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    class Bar:
        def __init__(self, unit: str) -> None:
            self.n, self.total, self.unit = 0, 0, unit

        def update(self, more: int) -> None:
            self.n += more
            steps.append(self.n)

        def close(self) -> None:
            steps.append(self.total)

    monkeypatch.setitem(sys.modules, "tqdm", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "tqdm.auto", SimpleNamespace(tqdm=Bar))
    LinearClassifier("logistic", verbose=True).fit(X, Y)
    assert steps == sorted(steps)
    assert steps[-2:] == [5, 5]


def test_warm_start_and_progress(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # not installed
    classifier = LinearClassifier("logistic", warm_start=True, verbose=True).fit(X, Y)
    first = classifier.n_iter_.sum()
    assert classifier.fit(X, Y).n_iter_.sum() < first
    assert "5 of 5 labels" in capsys.readouterr().err


def models() -> st.SearchStrategy[LinearModel]:
    """Models with many equal scores: weights are small whole numbers."""

    def make(seed: int, n_labels: int, sparse: bool, loss: str) -> LinearModel:
        rng = np.random.default_rng(seed)
        w = rng.integers(-1, 2, (n_labels, 6)).astype(np.float32) * (
            rng.random((n_labels, 6)) < 0.4
        )
        b = rng.integers(-1, 2, n_labels).astype(np.float32)
        cut = n_labels // 2 if n_labels > 40 else 0
        parts = [(w[:cut], b[:cut]), (w[cut:], b[cut:])] if cut else [(w, b)]
        wrap = sp.csr_array if sparse else np.ascontiguousarray
        return LinearModel(tuple(Shard(wrap(a), c) for a, c in parts), loss)

    losses = st.sampled_from(["logistic", "squared_hinge", "squared_error", "softmax"])
    return st.builds(make, st.integers(0, 999), st.integers(1, 70), st.booleans(), losses)


@given(models(), st.integers(1, 9), st.integers(0, 99))
def test_top_is_the_top_of_all_scores(model: LinearModel, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = (rng.integers(0, 3, (7, 6)) * (rng.random((7, 6)) < 0.5)).astype(np.float32)
    wanted = TopK.from_scores(scores(model, rows), k)
    found = predict_top(model, rows, k)
    assert np.array_equal(found.labels, wanted.labels)
    assert np.array_equal(found.scores, wanted.scores)


@given(models(), st.integers(1, 9))
def test_top_by_probability_over_propensity(model: LinearModel, k: int) -> None:
    rng = np.random.default_rng(k)
    rows = rng.random((5, 6)).astype(np.float32)
    p = rng.uniform(0.05, 1, model.n_labels)
    s = scores(model, rows).astype(float)
    chance = {
        "logistic": 1 / (1 + np.exp(-s)),
        "squared_hinge": np.clip((1 + s) / 2, 0, 1),
        "squared_error": np.clip(s, 0, 1),
        "softmax": np.exp(s),
    }[model.loss]
    found = predict_top(model, rows, k, rank_by="probability/propensity", propensity=p)
    ranks = chance / p
    at = np.where(found.labels >= 0, found.labels, 0)
    got = np.sort(np.take_along_axis(ranks, at, 1)[found.labels >= 0])
    best = np.sort(-np.sort(-ranks, axis=1)[:, : min(k, model.n_labels)].ravel())
    np.testing.assert_allclose(got, best, rtol=1e-4, atol=1e-6)


def test_ranking_by_probability_needs_propensities() -> None:
    classifier = LinearClassifier("logistic").fit(X, Y)
    with pytest.raises(ValueError, match="needs the propensity"):
        classifier.predict_top(X, 2, rank_by="probability/propensity")
    with pytest.raises(ValueError, match="unknown ranking 'chance'"):
        classifier.predict_top(X, 2, rank_by="chance")
    with pytest.raises(ValueError, match="12 features"):
        predict_top(classifier.model_, X[:, :3], 2)


def test_culled_models_are_sparse_and_predict_alike() -> None:
    full = LinearClassifier().fit(X, Y)
    culled = LinearClassifier(prune_below=0.05).fit(X, Y)
    assert culled.model_.sparse
    assert np.abs(culled.coef_.data).min() >= 0.05
    dropped = np.where(np.abs(full.coef_) < 0.05, 0, full.coef_)
    assert np.array_equal(culled.coef_.toarray(), dropped)
    wanted = TopK.from_scores(culled.decision_function(X), 3)
    np.testing.assert_allclose(culled.predict_top(X, 3).scores, wanted.scores, rtol=1e-5)


def _hits(found: TopK, truth: sp.csr_array) -> tuple[float, float]:
    dense = truth.toarray() > 0
    hits = np.take_along_axis(dense, found.labels.astype(np.int64), 1).sum(1)
    return float(hits.mean() / found.k), float((hits / np.maximum(dense.sum(1), 1)).mean())


@pytest.mark.parametrize("correction", ["unbiased", "bound"])
def test_corrected_training_recovers_half_of_what_hiding_costs(correction: str) -> None:
    """Propensities differ between labels, so hidden labels distort the order of the scores."""
    data = planted(4000, n_labels=60, n_features=600, noise_words=12.0, seed=5)
    fresh = planted(1, n_labels=60, n_features=600, noise_words=12.0, seed=5)
    assert fresh.labels.shape[1] == 60
    features = tfidf(data.features, idf(data.features[:3000]))
    p = np.where(np.arange(60) % 2, 0.9, 0.1)
    observed = hide(data.labels[:3000], p, seed=1)

    def measure(labels, recipe, propensity=None):  # type: ignore[no-untyped-def]
        model, _ = train(features[:3000], labels, recipe, propensity=propensity)
        return np.array(_hits(predict_top(model, features[3000:], 5), data.labels[3000:]))

    complete = measure(data.labels[:3000], Recipe("logistic"))
    vanilla = measure(observed, Recipe("logistic"))
    corrected = measure(observed, Recipe("logistic", correction=correction), p)
    lost = complete - vanilla
    assert (lost > 0.02).all()
    assert (corrected - vanilla >= 0.5 * lost).all()


@pytest.mark.slow
def test_bibtex_reaches_the_published_precision(real_data: Path) -> None:
    """One-vs-all on the ten official splits: within a point of 62.62 / 39.09 / 28.79, or better."""
    from unmask.data import read

    folder = real_data / "bibtex-xc"
    found = []
    for column in range(10):
        train_, test = (
            read(
                folder / "Bibtex_data.txt.gz", split=folder / f"Bibtex_{part}.txt.gz", column=column
            )
            for part in ("trSplit", "tstSplit")
        )
        weights_ = idf(train_.features)
        classifier = LinearClassifier(C=1.0).fit(tfidf(train_.features, weights_), train_.labels)
        best = classifier.predict_top(tfidf(test.features, weights_), 5).labels.astype(np.int64)
        hits = np.take_along_axis(test.labels.toarray(), best, 1)
        found.append([100 * hits[:, :k].mean() for k in (1, 3, 5)])
    assert (np.mean(found, axis=0) >= np.array([62.62, 39.09, 28.79]) - 1).all()


# --- one place for the parameters -----------------------------------------------------------------


@pytest.mark.parametrize("field", fields(Recipe), ids=lambda field: field.name)
def test_the_recipe_says_the_defaults_of_estimator_and_command(field):
    import typer

    from unmask.cli import app

    estimator = inspect.signature(LinearClassifier.__init__).parameters
    assert estimator[field.name].default == field.default
    command = typer.main.get_command(app).commands["train"]
    options = {option.name: option for option in command.params}
    name = {"C": "cost"}.get(field.name, field.name)
    if name == "correction":
        assert options[name].default is None  # by what is stated of the propensities
    else:
        assert options[name].default == field.default
        assert options[name].help == field.metadata["help"]


def test_weights_of_the_caller_leave_no_correction_in_the_model():
    X, Y = np.eye(3), np.eye(3)
    model, _ = linear.train(X, Y, Recipe(correction="unbiased"), weights=weights.vanilla(Y))
    assert model.parameters["correction"] is None
    fitted = LinearClassifier(correction=weights.vanilla(Y)).fit(X, Y)
    assert fitted.model_.parameters["correction"] is None
    with pytest.raises(ValueError, match="needs the weights themselves"):
        linear.train(X, Y, Recipe(correction=None))
    with pytest.raises(ValueError, match="unknown correction 'given'"):
        Recipe(correction="given")


def test_probabilities_are_finite_and_exact_at_extreme_scores():
    scores = np.float32([[-200.0, 0.0, 200.0]])
    for loss, expected in (("logistic", [0, 0.5, 1]), ("softmax", [0, 0, 1])):
        model = LinearModel((Shard(np.zeros((3, 1), np.float32), scores[0]),), loss)
        got = linear.probabilities(model, [[0.0]])
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, np.float32([expected]))


@pytest.mark.parametrize("most", [1, 2])
def test_a_softmax_takes_as_many_steps_as_it_may(most: int) -> None:
    rows = planted(60, n_features=20, n_labels=6, seed=0)
    recipe = linear.Recipe("softmax", reduction="pal", max_iter=most, tol=1e-12)
    with pytest.warns(UserWarning, match="iterations"):
        _, course = linear.train(rows.features, rows.labels, recipe)
    assert set(course.iterations.tolist()) == {most}


@pytest.mark.parametrize(
    ("loss", "scores", "chances"),
    [
        ("squared_hinge", [-3, -1, -0.5, 0, 0.5, 1, 3], [0, 0, 0.25, 0.5, 0.75, 1, 1]),
        ("squared_error", [-1, 0, 0.25, 1, 1.5, 4], [0, 0, 0.25, 1, 1, 1]),
        ("logistic", [-np.log(3), 0, np.log(4)], [0.25, 0.5, 0.8]),
    ],
)
def test_chances_of_scores_by_hand(loss: str, scores: list[float], chances: list[float]) -> None:
    """Margins of −1 and 1 are certain, targets are chances, and the logistic loss has odds."""
    made = PROBABILITIES[loss](np.float32(scores))
    np.testing.assert_allclose(made, chances, rtol=1e-6, atol=1e-7)
