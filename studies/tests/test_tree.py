"""The study of label trees: leaf nodes by one-vs-all, and what its units are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unmask import tree
from unmask.data import synthetic
from unmask_studies import tree as study
from unmask_studies.runs import DataSets, Row

DATA = synthetic.planted(300, n_features=60, n_labels=50, labels_per_row=3, seed=2)
P = np.linspace(0.2, 0.9, 50)


def test_vanilla_leaves_are_those_of_the_tree() -> None:
    """A leaf node solves one-vs-all on the rows that reach it."""
    recipe = tree.TreeRecipe("logistic", n_trees=1, arity=4, leaf=6, tol=1e-6, prune_below=0.0)
    model = tree.train(DATA.features, DATA.labels, recipe)
    assert model.trees[0].shape.levels == 3
    other = study._with_leaves(model, DATA.features, DATA.labels, P, "vanilla", 1.0)
    ours, theirs = (tree.predict_top(each, DATA.features, 50, beam=None) for each in (model, other))
    scores = [np.take_along_axis(t.scores, np.argsort(t.labels), axis=1) for t in (ours, theirs)]
    np.testing.assert_allclose(*scores, atol=0.05)
    assert np.abs(scores[0] - scores[1]).max() > 0  # solved anew
    corrected = study._with_leaves(model, DATA.features, DATA.labels, P, "bound", 1.0)
    raised = tree.predict_top(corrected, DATA.features, 50, beam=None)
    raised_scores = np.take_along_axis(raised.scores, np.argsort(raised.labels), axis=1)
    gain = (raised_scores - scores[0])[DATA.labels.toarray() > 0]
    assert (gain > 0).mean() > 0.9  # observed labels weigh more


@pytest.mark.parametrize(("folder", "rows"), [(None, 600), (None, study.SAMPLE)])
def test_planted_rows_are_hidden_as_stated(folder: Path | None, rows: int) -> None:
    case = study._case(folder, rows, 0)
    assert case.x.shape[0] + case.test_x.shape[0] == rows
    assert case.truth is not None
    assert case.tested.nnz < case.truth.nnz
    assert (case.tested - case.truth).max() <= 0  # nothing is invented
    rates = case.tested.sum() / case.truth.multiply(case.p).sum()
    assert rates == pytest.approx(1, abs=0.1)


def test_finna_is_drawn_once_and_planted_data_join_real_ones() -> None:
    names = frozenset((*study.HIDDEN, study.AS_IT_IS))
    units = study.units("paper", 0, DataSets(None, names))
    by_folder = [(unit["folder"] and unit["folder"].name, unit["draw"]) for unit in units]
    assert len(units) == len(study.TRAININGS) * (3 * 3 + 1)
    assert {draw for folder, draw in by_folder if folder == study.AS_IT_IS} == {0}
    assert {draw for folder, draw in by_folder if folder is None} == {0, 1, 2}
    assert {unit["rows"] for unit in units if unit["folder"] is None} == {study.SAMPLE}
    assert {unit["rows"] for unit in study.units("paper", 0, None)} == {600}


def rows_of(name: str, measure: str, recall: dict[str, list[float]]) -> list[Row]:
    """Rows with one measure, of as many draws as there are values."""
    return [
        {"data": name, "method": method, "draw": draw, "C": 1.0, measure: value}
        for method, values in recall.items()
        for draw, value in enumerate(values)
    ]


def test_claims_are_judged_where_the_truth_is_known() -> None:
    methods = {method for _, *pair in study.CLAIMS for method in pair if method}
    methods |= {method for method, _ in study.SHOWN.values()}
    equal = {method: [0.30, 0.32] for method in sorted(methods)}
    claims = study.draw(rows_of("one", "true R@5", equal))[0].parts[-1]
    assert {verdict.badge for verdict in claims.verdicts} == {"does not hold"}  # type: ignore[union-attr]
    better = {study.RATIO: [0.31, 0.34], study.COUNTS: [0.29, 0.32], study.BEST: [0.35, 0.36]}
    rows = [
        *rows_of("one", "true R@5", equal | better),
        *rows_of("other", "true R@5", equal | better | {study.RATIO: [0.40, 0.42]}),
        *rows_of("as it is", "deconvolved R@5", equal | better | {study.RATIO: [0.20, 0.22]}),
    ]
    (section,) = study.draw(rows)
    verdicts = section.parts[-1].verdicts  # type: ignore[union-attr]
    outcomes = {v.words.partition(",")[0]: v.badge for v in verdicts}
    assert outcomes["P/p at the leaves raises the R@5 of a logistic tree"] == "holds"
    assert outcomes["Counts raise the R@5 of a logistic tree"] == "does not hold"
    assert outcomes["as it is"] == "does not hold"  # where nobody knows, a claim of its own
    assert "vanilla, P/p over vanilla -10.0 ± 0.0" in verdicts[-1].evidence
    assert len(verdicts) == len(study.CLAIMS) + 1
    said = study.answer(rows)
    assert "adds 1.5 to 10.0 points of true R@5" in said
    assert "adds 4.5 points and stays ahead" in said


def test_five_labels_are_predicted_by_both_kinds_of_model() -> None:
    forest = tree.train(DATA.features, DATA.labels, tree.TreeRecipe(n_trees=1, arity=4, leaf=10))
    flat = study._one_vs_all(DATA.features, DATA.labels, P, "squared_hinge", "vanilla", 1.0)
    for model in (forest, flat):
        assert study._top(model, DATA.features[:3], "score", P).k == 5


def test_means_are_over_masks_if_there_are_several() -> None:
    for values, title in (([0.3], "one"), ([0.3, 0.4], "one: means over 2 masks")):
        made = study._table("one", rows_of("one", "true R@5", {"tree": values}))
        assert made.title == title
