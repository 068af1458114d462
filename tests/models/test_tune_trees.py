"""Trees are chosen by what held-out rows say of the true metric."""

from __future__ import annotations

import numpy as np
import pytest

from unmask import data, propensity, tree
from unmask.data import synthetic
from unmask.metrics import evaluate
from unmask.models.tune import HELD_OUT
from unmask.tuning import tune_tree

ROWS = synthetic.planted(240, n_features=60, n_labels=30, labels_per_row=3, seed=5)
P = np.linspace(0.3, 0.9, 30)
OBSERVED = data.hide(ROWS.labels, P, seed=1)
RECIPE = tree.TreeRecipe(n_trees=2, arity=4, leaf=4)


def test_values_are_those_of_one_tree_on_rows_that_it_has_not_seen() -> None:
    best = tune_tree(ROWS.features, OBSERVED, P, "P@2", costs=[0.1, 3.0], recipe=RECIPE, seed=4)
    assert best.estimator == "unbiased"
    assert len(best.table) == 2 * (2 + 1) * 2  # losses × (both rankings of vanilla, counts) × C
    order = np.random.default_rng(4).permutation(240)
    held, kept = order[: 240 // HELD_OUT], order[240 // HELD_OUT :]
    for tried in best.table[::5]:
        family = tried.family
        one = tree.TreeRecipe(family.loss, family.correction, 1, 4, 4, tried.cost)
        model = tree.train(ROWS.features[kept], OBSERVED[kept], one, propensity=P)
        top = tree.predict_top(
            model, ROWS.features[held], 2, rank_by=tried.family.rank_by, propensity=P
        )  # fmt: skip
        table = evaluate(top, OBSERVED[held], P, metrics=["P@2"], estimators=["unbiased"])
        assert tried.judged.value == pytest.approx(table["P@2", "unbiased"].value)


def test_the_best_is_trained_on_all_rows_and_predicts_as_it_was_judged() -> None:
    best = tune_tree(ROWS.features, OBSERVED, P, "R@3", costs=[0.3], recipe=RECIPE)
    value, index = max((tried.judged.value, -i) for i, tried in enumerate(best.table))
    assert best.chosen == best.table[-index]
    assert best.rank_by == best.chosen.family.rank_by
    assert best.recipe == best.chosen.family.recipe(best.chosen.cost, RECIPE)
    assert f"R@3 about {value:.3f} (deconvolved" in best.headline
    assert best.reason == "It is the best by R@3 of all that was tried."
    model = tree.train(ROWS.features, OBSERVED, best.recipe, propensity=P)
    wanted = tree.predict_top(model, ROWS.features, 3, rank_by=best.rank_by, propensity=P)
    np.testing.assert_array_equal(best.predict_top(ROWS.features, 3).labels, wanted.labels)


def test_without_propensities_nothing_is_corrected() -> None:
    best = tune_tree(ROWS.features, OBSERVED, metric="P@1", costs=[0.3], refit=False)
    assert {tried.family.correction for tried in best.table} == {"vanilla"}
    assert {tried.family.rank_by for tried in best.table} == {"score"}
    with pytest.raises(ValueError, match="no model; train one"):
        best.predict_top(ROWS.features, 3)


def test_bad_calls_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 5 rows; got 4"):
        tune_tree(ROWS.features[:4], OBSERVED[:4])
    with pytest.raises(ValueError, match="nothing to try"):
        tune_tree(ROWS.features, OBSERVED, costs=[])
    with pytest.raises(ValueError, match="needs sets of labels"):
        tune_tree(ROWS.features, OBSERVED, propensity.constant(30, 0.5), "micro-F1")


def test_progress_counts_every_tree() -> None:
    told: list[tuple[int, int]] = []
    tune_tree(
        ROWS.features, OBSERVED, P, "P@1", costs=[0.3, 1.0], losses=["logistic"], recipe=RECIPE,
        refit=False, progress=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
