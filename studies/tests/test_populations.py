"""What studies take for the truth is what an evaluation of the whole population gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import TopK, linear
from unmask.metrics import evaluate
from unmask_studies import models, sets
from unmask_studies.populations import Population, population_of, rows_of


def test_the_truth_is_the_metric_of_the_population() -> None:
    population = population_of(None)
    truth = population.truth(population.labels, population.top)
    table = evaluate(population.top, population.labels, metrics=list(truth))
    for name, value in truth.items():
        assert value == pytest.approx(table[name, "vanilla"].value, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_truth_of_few_rows_counts_labels_that_stand_there_once(seed: int) -> None:
    rng, n, n_labels = np.random.default_rng(seed), 3, 15
    dense = np.zeros((n, n_labels), np.float32)
    for row in dense:
        row[rng.permutation(n_labels)[: rng.integers(1, 4)]] = 1
    labels, top = sp.csr_array(dense), TopK.from_scores(rng.random((n, n_labels)), 5)
    population = Population(labels, top, np.zeros(labels.nnz), labels)
    truth = population.truth(labels, top)
    table = evaluate(top, labels, metrics=list(truth))
    for name, value in truth.items():
        assert value == pytest.approx(table[name, "vanilla"].value, rel=1e-12)


def test_rows_may_count_more_than_others() -> None:
    """Weights that are whole numbers repeat rows."""
    population = population_of(None)
    times = np.random.default_rng(0).integers(0, 3, size=population.labels.shape[0])
    repeated = np.repeat(np.arange(times.size), times)
    labels = sp.csr_array(population.labels[repeated])
    top = rows_of(population.top, repeated)
    truth = population.truth(labels, top, times.astype(float))
    table = evaluate(top, labels, metrics=list(truth))
    for name, value in truth.items():
        assert value == pytest.approx(table[name, "vanilla"].value, rel=1e-12)


def test_metrics_per_label_are_about_the_labels_of_the_sample() -> None:
    population = population_of(None)
    few = np.arange(3)
    truth = population.truth(sp.csr_array(population.labels[few]), rows_of(population.top, few))
    counted = np.unique(population.labels[few].indices)
    listed = population.top.labels
    recalls = []
    for label in counted:
        rows = np.flatnonzero(population.labels[:, [label]].toarray().ravel())
        recalls.append(np.mean([(listed[row] == label).any() for row in rows]))
    assert truth["macro-R@5"] == pytest.approx(np.mean(recalls))


def test_discounts_are_those_of_dcg() -> None:
    """1/log₂ of the place and one, of five places; the ideal has as many hits as labels."""
    labels = sp.csr_array(np.array([[1.0, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0]]))
    top = TopK([[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]], [[5.0, 4, 3, 2, 1]] * 2)
    rows = Population(labels, top, np.zeros(3), labels)
    wanted = [1 + 1 / np.log2(4), 1 / np.log2(3)]
    ideal = [1 + 1 / np.log2(3), 1.0]
    np.testing.assert_allclose(rows.by_row["nDCG@5"], np.divide(wanted, ideal))


@pytest.mark.parametrize("folder", [Path("data"), None])
def test_sets_are_predicted_by_a_model_of_real_or_planted_rows(
    monkeypatch: pytest.MonkeyPatch, folder: Path | None
) -> None:
    """Regularised less where there are more rows."""
    split = models.planted(60, 0)
    recipes: list[linear.Recipe] = []

    class Trained(Exception):
        pass

    def train(features: sp.csr_array, labels: sp.csr_array, recipe: linear.Recipe) -> None:
        recipes.append(recipe)
        raise Trained

    monkeypatch.setattr(sets.models, "split_of", lambda folder: split)
    monkeypatch.setattr(sets.models, "planted", lambda n, seed: split)
    monkeypatch.setattr(sets.linear, "train", train)
    with pytest.raises(Trained):
        sets.population_of.__wrapped__(folder)  # what other tests had it keep does not count
    assert recipes == [linear.Recipe("logistic", C=10.0 if folder else 1.0)]
