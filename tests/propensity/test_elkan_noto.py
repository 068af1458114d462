"""Propensities from a calibrated model: sums over positives, and the bias of a doubtful one."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import data, propensity
from unmask.propensity.estimate import from_counts

NAN, INF = float("nan"), float("inf")


def test_a_model_is_its_sums_over_positives() -> None:
    """Probabilities of 0 and 1 are probabilities; what stands at other places does not matter."""
    observed = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]])
    probabilities = np.array(
        [[0.0, NAN, 9], [0.25, 1.0, 0], [7, 0.5, 0], [1.0, 0.125, 0], [0.3, 0.3, 0.1]]
    )
    sums, total = [1.25, 1.625, 0.0], np.array([3.0, 3.0, 0.0])
    alone = propensity.from_model(probabilities, observed)
    same = from_counts(sums, total, counts=total + 0.5, n=6, sampled=True, curve="free")
    np.testing.assert_array_equal(alone.value, same.value)
    placed = propensity.from_model(probabilities, observed, counts=[9, 8, 2], n=40)
    same = from_counts(sums, total, counts=[9, 8, 2], n=40, curve="free")
    np.testing.assert_array_equal(placed.value, same.value)


@pytest.mark.parametrize("wrong", [-0.25, 1.25, NAN, INF])
def test_a_model_of_scores_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="probabilities must"):
        propensity.from_model([[wrong], [0.5]], [[1], [1]])


def test_a_model_without_a_single_positive_is_refused() -> None:
    with pytest.raises(ValueError, match="no audited row has a true label"):
        propensity.from_model([[0.5]] * 4, [[0]] * 4)


def test_a_model_that_knows_everything_shows_the_propensities() -> None:
    true = data.synthetic.independent(4000, 6, probability=0.4, seed=0)
    p = np.linspace(0.2, 0.8, 6)
    seen = data.hide(true, p, seed=1)
    found = propensity.from_model(true.toarray() * p, seen)
    np.testing.assert_allclose(found.value, p, atol=0.03)
    sparse = propensity.from_model(sp.csr_array(true.multiply(p[None, :])), seen)
    np.testing.assert_allclose(sparse.value, found.value)


def test_a_model_in_doubt_is_too_low_by_the_stated_factor() -> None:
    """π is 1 on half of the positives and 1/2 on the rest: the factor is E[π | Y* = 1]."""
    certain, doubtful = np.full((3000, 1), 0.6), np.full((3000, 1), 0.3)
    rng = np.random.default_rng(0)
    seen = np.r_[rng.random((3000, 1)) < 0.6, rng.random((3000, 1)) < 0.3].astype(float)
    found = propensity.from_model(np.r_[certain, doubtful], seen)
    share_certain = 0.6 / 0.9
    assert found.value[0] == pytest.approx(
        0.6 * (share_certain + (1 - share_certain) / 2), abs=0.02
    )
    assert "too low" in found.notes[0]
