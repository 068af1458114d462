"""The record of an estimate: its draws, where it stands, what it says of itself."""

from __future__ import annotations

import pickle

import numpy as np

from tests.helpers.propensities import audited_rows, certain, estimated
from unmask import data, propensity


def test_draws_stay_where_a_correction_is_finite() -> None:
    drawn = certain([0.5, 0.5], [[0.0, 1.7], [0.2, 1.0]]).draw(seed=0, size=2)
    np.testing.assert_array_equal(drawn, [[0.001, 1.0], [0.2, 1.0]])


def test_estimates_say_what_they_are() -> None:
    assert repr(certain([0.25, 0.5], [])) == "PropensityEstimate('own', 2 labels, 0.250 to 0.500)"
    assert repr(certain([], [])) == "PropensityEstimate('own', 0 labels, none)"
    assert certain([0.5], []).effect == 1.0


def test_draws_have_the_stated_mean_and_intervals() -> None:
    estimate = estimated()
    drawn = estimate.draw(seed=3, size=3000)
    np.testing.assert_allclose(drawn.mean(axis=0), estimate.value, atol=0.01)
    inside = ((drawn >= estimate.low) & (drawn <= estimate.high)).mean(axis=0)
    np.testing.assert_allclose(inside, 0.95, atol=0.03)


def test_same_seed_same_draws_and_estimates_travel() -> None:
    seen, true, _ = audited_rows()
    estimate = estimated()
    again = pickle.loads(pickle.dumps(propensity.audit(seen, true)))  # noqa: S301
    np.testing.assert_array_equal(again.draw(seed=1, size=4), estimate.draw(1, 4))
    assert (estimate.draw(1, 4) != estimate.draw(2, 4)).any()


def test_an_estimate_stands_where_propensities_do() -> None:
    estimate, true = estimated(), audited_rows()[1]
    np.testing.assert_array_equal(propensity.clip(estimate, 1e-6), estimate.value)
    assert np.asarray(estimate, dtype=np.float32).dtype == np.float32
    assert data.hide(true, estimate, seed=0).nnz < true.nnz
