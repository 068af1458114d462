"""Mask models where propensities go: weights, training, torch, diagnosis, comparisons."""

from __future__ import annotations

import numpy as np
import pytest

from unmask import data, diagnose, linear, weights
from unmask.metrics import compare
from unmask.propensity import MaskModel
from unmask.propensity.mask_model import ScoreSlope

TRUTH = data.synthetic.planted(600, n_labels=20, seed=0)
P = np.linspace(0.3, 0.7, 20)
MASK = MaskModel(P, row_effort=0.6)
OBSERVED = data.hide(TRUTH.labels, MASK, seed=1)
STEEP = MaskModel(P, score_slope=ScoreSlope(1.0, 0.0, np.zeros(20)))


@pytest.mark.parametrize("correction", ["unbiased", "bound", "tempered"])
def test_plain_weights_are_those_of_the_marginals(correction: str) -> None:
    """1/p is right whatever else happens within a row, since p is over all rows."""
    weigh = weights.CORRECTIONS[correction]
    np.testing.assert_array_equal(weigh(OBSERVED, MASK).pos.data, weigh(OBSERVED, P).pos.data)


def test_training_takes_a_mask_model_for_its_propensities() -> None:
    recipe = linear.Recipe(loss="logistic", correction="bound", C=0.1, tol=0.01)
    by_mask, by_vector = (
        linear.train(TRUTH.features, OBSERVED, recipe, propensity=p)[0] for p in (MASK, P)
    )
    np.testing.assert_array_equal(by_mask.weights, by_vector.weights)


def test_torch_refuses_what_has_no_meaning() -> None:
    pytest.importorskip("torch")
    from unmask.torch import MissingLabelLoss

    with pytest.raises(ValueError, match="depends on the model's scores"):
        MissingLabelLoss(STEEP, loss="logistic", correction="bound")
    assert MissingLabelLoss(MASK, loss="logistic", correction="bound") is not None


def test_a_stated_row_effort_is_not_held_against_the_masks() -> None:
    audit = (OBSERVED[:300], TRUTH.labels[:300])
    accused = diagnose(OBSERVED, P, audit)
    stated = diagnose(OBSERVED, MASK, audit)
    assert accused.finding("row") is not None
    assert stated.finding("row") is None
    assert "row" not in {test.kind for test in stated.tests}
    listed = stated.finding("not_tested")
    assert listed is None or "row" not in listed.not_tested


def test_comparisons_use_the_row_effort() -> None:
    scores = np.random.default_rng(0).random(OBSERVED.shape)
    systems = {"a": scores, "b": scores + 0.5 * TRUTH.labels.toarray()}
    options = {"metrics": ["R@5"], "estimators": ["deconvolved"], "replicates": 20}
    by_mask, by_vector = (compare(systems, OBSERVED, p, **options) for p in (MASK, P))
    one, other = (table["b"]["R@5", "deconvolved"].value for table in (by_mask, by_vector))
    assert one != other
