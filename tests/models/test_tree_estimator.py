"""`LabelTree` is a scikit-learn classifier with the front doors of `LinearClassifier`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

import unmask
from tests.helpers.trees import all_scores
from unmask import LabelTree, linear, tree
from unmask.data import synthetic

DATA = synthetic.planted(200, n_features=40, n_labels=30, labels_per_row=3, seed=6)
X, Y = DATA.features, DATA.labels
P = np.random.default_rng(0).uniform(0.2, 1.0, 30)


def test_the_call_of_the_documents() -> None:
    fitted = unmask.LabelTree(correction="unbiased", propensity=P, n_trees=1).fit(X, Y)
    for rank_by in ("score", "probability/propensity"):
        top = fitted.predict_top(X[:9], k=5, rank_by=rank_by)
        recipe = tree.TreeRecipe(correction="counts", n_trees=1)
        model = tree.train(X, Y, recipe, propensity=P)
        wanted = tree.predict_top(model, X[:9], 5, rank_by=rank_by, propensity=P)
        np.testing.assert_array_equal(top.labels, wanted.labels)
        np.testing.assert_array_equal(top.scores, wanted.scores)


def test_scores_and_predictions_are_those_of_all_labels() -> None:
    fitted = LabelTree("logistic", arity=4, leaf=4, beam=1).fit(X, Y)
    exact = all_scores(fitted.model_, X.toarray().astype(float))
    np.testing.assert_allclose(fitted.decision_function(X), exact - np.log(0.5), atol=1e-4)
    predicted = fitted.predict(X)
    assert sp.issparse(predicted)
    sure = np.abs(exact - np.log(0.5)) > 1e-4
    np.testing.assert_array_equal(predicted.toarray()[sure], (exact > np.log(0.5))[sure])


def test_names_texts_frames_and_data_sets() -> None:
    texts = ["boil an egg", "tea and egg", "tea with milk", "milk and honey"] * 5
    names = [["egg"], ["egg", "tea"], ["tea", "milk"], ["milk"]] * 5
    pipeline = make_pipeline(TfidfVectorizer(), LabelTree(n_trees=2, leaf=2, arity=2, C=10))
    pipeline.fit(texts, names)
    assert pipeline.predict(["egg boil"]) == [["egg"]]
    top = linear.predict_top(pipeline, ["tea with milk"], 2)
    assert {name for name, _ in top.of_row(0)} == {"tea", "milk"}
    assert pipeline[-1].classes_.tolist() == ["egg", "milk", "tea"]
    by_data = LabelTree(n_trees=1).fit(X, DATA)
    np.testing.assert_array_equal(
        by_data.predict_top(X, 3).labels, LabelTree(n_trees=1).fit(X, Y).predict_top(X, 3).labels
    )


def test_parameters_are_kept_and_passed_on() -> None:
    changed: dict[str, Any] = {
        "correction": "counts", "n_trees": 2, "arity": 4, "leaf": 5, "C": 0.5, "bias": "none",
        "tol": 0.1, "forcing": 0.3, "max_iter": 50, "prune_below": 0.2, "seed": 3,
    }  # fmt: skip
    estimator = clone(LabelTree("logistic", **changed)).fit(X, Y, propensity=P)
    assert estimator.model_.parameters == {"loss": "logistic", **changed}
    assert {n: v for n, v in estimator.get_params().items() if n in changed} == changed
    assert (
        LabelTree(n_jobs=1, verbose=True).fit(X, Y).predict_top(X[:4], 2).labels
        == LabelTree(n_jobs=2).fit(X, Y).predict_top(X[:4], 2).labels
    ).all()
    with pytest.raises(ValueError, match="n_jobs"):
        LabelTree(n_jobs=0).fit(X, Y)


def checks() -> list[Any]:
    made = estimator_checks_generator(LabelTree(n_trees=1))
    return [pytest.param(e, c, id=getattr(c, "func", c).__name__) for e, c in made]


GENERAL = (
    "check_estimator_cloneable", "check_estimator_repr", "check_no_attributes_set_in_init",
    "check_parameters_default_constructible", "check_get_params_invariance",
    "check_set_params", "check_estimator_tags_renamed", "check_valid_tag_types",
    "check_do_not_raise_errors_in_init_or_set_param", "check_classifier_multioutput",
    "check_non_transformer_estimators_n_iter",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::unmask.linear.UnconvergedWarning")
def test_the_iterations_of_the_slowest_node_are_known() -> None:
    for parameters in ({}, {"loss": "logistic"}, {"tol": 1e-4}):
        usual = LabelTree(n_trees=1, **parameters).fit(X, Y).n_iter_
        assert 1 < usual < 100
        assert LabelTree(n_trees=1, max_iter=1, **parameters).fit(X, Y).n_iter_ == 1


@pytest.mark.parametrize(
    ("estimator", "check"),
    [param for param in checks() if param.id in GENERAL],
)
def test_estimator_checks(estimator, check) -> None:  # type: ignore[no-untyped-def]
    check(estimator)


def test_training_rows_are_predicted_by_the_other_half() -> None:
    """Rows of the second half do not matter to its own predictions, those of the first half do."""
    model = tree.train(X, Y, tree.TreeRecipe(n_trees=1))
    top = tree.predict_unseen(model, X, Y, 4, seed=3)
    first, second = np.array_split(np.random.default_rng(3).permutation(200), 2)
    for own, other in ((first, second), (second, first)):
        rest = np.sort(other)
        fitted = tree.train(X[rest], Y[rest], tree.TreeRecipe(n_trees=1))
        wanted = tree.predict_top(fitted, X[own], 4)
        np.testing.assert_array_equal(top.labels[own], wanted.labels)
        np.testing.assert_array_equal(top.scores[own], wanted.scores)
    with pytest.raises(ValueError, match="at least two rows"):
        tree.predict_unseen(model, X[:1], Y[:1], 2)
