"""No rows, no labels, nothing observed: a defined result, or a refusal in our words."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import audit, data, diagnosis, operator, propensity, thresholds, weights
from unmask.metrics import METRICS, compare, contributions, evaluate, evaluate_shards, powers
from unmask.predictions import LabelSets, TopK

SHAPES = [(0, 5), (4, 0), (0, 0), (4, 5)]


def nothing(n: int, n_labels: int) -> tuple[TopK, sp.csr_array, np.ndarray]:
    top = TopK(np.full((n, 2), -1, np.int32), np.full((n, 2), -np.inf, np.float32))
    return top, sp.csr_array((n, n_labels), dtype=np.float32), np.full(n_labels, 0.5)


@pytest.mark.parametrize(
    "metric", [name for name, about in METRICS.items() if about.reads == "list"]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_evaluation(metric: str, shape: tuple[int, int]) -> None:
    top, labels, p = nothing(*shape)
    asked: Any = {"metrics": [f"{metric}@2"], "estimators": METRICS[metric].estimators}
    if shape[0] == 0:
        for call in (
            lambda: evaluate(top, labels, p, **asked),
            lambda: evaluate_shards([(top, labels)], p, **asked),
            lambda: compare({"a": top, "b": top}, labels, p, **asked),
        ):
            with pytest.raises(ValueError, match="no rows to evaluate"):
                call()
        return
    for each in evaluate(top, labels, p, **asked):
        low, high = each.interval
        if metric == "subset-accuracy":  # nothing is predicted where nothing is true
            assert (each.value, each.standard_error, high) == (1.0, 0.0, 1.0)
            assert 0.0 < low < 1.0
        else:
            assert (each.value, each.standard_error, low) == (0.0, 0.0, 0.0)
            assert 0.0 <= high < 1.0


@pytest.mark.parametrize("shape", SHAPES)
def test_contributions_of_no_rows(shape: tuple[int, int]) -> None:
    top, labels, p = nothing(*shape)
    rows = contributions(top, labels, p, metrics=["R@2"], estimators=["unbiased"])
    assert rows["R@2", "unbiased"].tolist() == [0.0] * shape[0]


def test_no_predictions_are_refused_as_such() -> None:
    for shape in ((4, 0), (0, 0)):
        with pytest.raises(ValueError, match="no predictions to evaluate; give at least one"):
            evaluate(np.zeros(shape), np.zeros(shape))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("correction", weights.CORRECTIONS)
def test_weights(correction: str, shape: tuple[int, int]) -> None:
    _, labels, p = nothing(*shape)
    found = weights.CORRECTIONS[correction](labels, p, normalized=True)
    assert found.pos.shape == found.cut.shape == shape
    assert found[[]].pos.shape == (0, shape[1])
    assert weights.to_soft_targets(found).shape == weights.to_relevance(found).shape == shape
    assert weights.to_pos_weight(found).tolist() == [1.0] * shape[1]
    distribution = weights.count_distribution(labels, p)
    assert (distribution.probability.tolist(), distribution.propensity) == ([1.0], 1.0)
    if shape[1]:
        assert weights.to_samples(found, 0).rows.tolist() == list(range(shape[0]))
    else:
        with pytest.raises(ValueError, match="label must exist, but there are none; got 0"):
            weights.to_samples(found, 0)


@pytest.mark.parametrize("shape", SHAPES)
def test_propensities(shape: tuple[int, int]) -> None:
    _, labels, p = nothing(*shape)
    for vector in (propensity.inverse_linear(labels), propensity.constant(shape[1], 0.5),
                   propensity.clip(p, 0.1), propensity.temper(p, 0.5), *powers(p, [1]).values(),
                   *propensity.chao(labels, labels)):  # fmt: skip
        assert np.shape(vector) == (shape[1],)
        assert np.isfinite(vector).all()
    for call in (
        lambda: propensity.audit(labels, labels),
        lambda: propensity.recapture(labels, labels),
        lambda: propensity.from_model(np.zeros(shape), labels),
    ):
        with pytest.raises(ValueError, match="no audited row has a true label"):
            call()
    with pytest.raises(ValueError, match="hold no label; there is nothing to test"):
        diagnosis.diagnose(labels, p)


def test_marginals_of_no_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="there are no observed rows; give at least one"):
        propensity.from_marginals(np.zeros((0, 2)), [0.5, 0.5])
    assert len(propensity.from_marginals(np.zeros((3, 0)), [])) == 0


@pytest.mark.parametrize("shape", SHAPES)
def test_masks_and_the_operator(shape: tuple[int, int]) -> None:
    _, labels, p = nothing(*shape)
    assert data.hide(labels, p, seed=0).shape == shape
    found = operator.unbiased(lambda sets, _: sets.sum(axis=1), labels, p)
    assert found.value.tolist() == [0.0] * shape[0]


@pytest.mark.parametrize("shape", SHAPES[:3])
def test_nothing_to_judge_and_nothing_to_group(shape: tuple[int, int]) -> None:
    top, labels, p = nothing(*shape)
    with pytest.raises(ValueError, match="there is nothing to judge in"):
        audit.plan(top, labels, budget=2)
    if shape[0] == 0:
        with pytest.raises(ValueError, match="there is nothing to group"):
            evaluate(top, labels, p, metrics=["R@1"], groups=[])


@pytest.mark.parametrize("shape", SHAPES)
def test_hierarchies_and_sets(shape: tuple[int, int]) -> None:
    _, labels, p = nothing(*shape)
    names = [str(label) for label in range(shape[1])]
    chain = data.hierarchy({a: [b] for a, b in pairwise(names)}, names=names)
    assert chain.close_labels(labels).shape == shape
    assert chain.propensity(labels, p).tolist() == [1.0] * shape[1]
    assert np.isfinite(chain.information_content(labels)).all()
    assert LabelSets(labels).as_top().labels.tolist() == [[-1]] * shape[0]
    for call in (thresholds.fit, thresholds.calibrate):
        with pytest.raises(ValueError, match="no label is observed"):
            call(labels.toarray(), labels, p)
