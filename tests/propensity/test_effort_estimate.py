"""Row effort and unannotated rows of an audit: the prior, the grid, and what is said of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from unmask.propensity import mask_model
from unmask.propensity.mask_model import EffortPosterior


@pytest.mark.parametrize("size", [1, 2, 3, 13])
def test_half_of_the_prior_is_at_0_and_the_rest_even(size: int) -> None:
    prior = mask_model._spike(size)
    assert prior.size == size
    assert prior.sum() == pytest.approx(1, rel=1e-15)
    assert prior[0] == (0.5 if size > 1 else 1)
    assert np.ptp(prior[1:]) == 0 if size > 1 else True


def test_what_a_distribution_says() -> None:
    """0 where that is likelier than not, else the mean of the others; the middle of each."""
    correlations, shares = np.array([0.0, 0.3, 0.6]), np.array([0.0, 0.2])
    sure = EffortPosterior(correlations, shares, np.array([[0.5, 0.02], [0.2, 0.08], [0.1, 0.1]]))
    assert sure.row_effort == 0
    assert sure.unannotated == 0
    assert sure.interval(0.9) == ((0, 0.6), (0, 0.2))
    assert sure.interval(0.5) == ((0, 0.3), (0, 0.0))
    even = EffortPosterior(np.linspace(0, 1, 101), np.zeros(1), np.full((101, 1), 1 / 101))
    for confidence in (0.5, 0.8, 0.95):
        (low, high), _ = even.interval(confidence)
        tail = (1 - confidence) / 2
        assert (low, high) == pytest.approx((tail, 1 - tail), abs=0.011)
    torn = EffortPosterior(correlations, shares, np.array([[0.3, 0.1], [0.1, 0.2], [0.05, 0.25]]))
    assert torn.row_effort == pytest.approx((0.3 * 0.3 + 0.3 * 0.6) / 0.6)
    assert torn.unannotated == pytest.approx(0.2)


def test_draws_are_within_half_a_step_of_the_grid_and_0_stays() -> None:
    correlations, shares = np.array([0.0, 0.3, 0.6]), np.array([0.0, 0.2])
    probability = np.array([[0.25, 0.125], [0.25, 0.0], [0.125, 0.25]])
    drawn = EffortPosterior(correlations, shares, probability).sample(
        np.random.default_rng(0), 4000
    )
    grid = np.column_stack([np.round(drawn[:, 0] / 0.3), np.round(drawn[:, 1] / 0.2)])
    away = np.abs(drawn - grid * [0.3, 0.2])
    assert (away <= [0.15, 0.1]).all()
    assert (away[grid == 0] == 0).all()
    assert (away.max(axis=0) > [0.14, 0.09]).all()
    for (i, j), chance in np.ndenumerate(probability):
        share = ((grid == [i, j]).all(axis=1)).mean()
        assert share == pytest.approx(chance, abs=5 * math.sqrt(0.25 / 4000))


def test_the_likelihood_without_effort_is_that_of_independent_losses() -> None:
    """ρ = 0 by hand: π₀ mixes with rows that show nothing; a row without labels says nothing."""
    true = sp.csr_array(np.array([[1.0, 1, 0], [1, 1, 1], [0, 0, 0], [0, 1, 0]]))
    kept = sp.csr_array(np.array([[1.0, 0, 0], [1, 1, 1], [0, 0, 0], [0, 0, 0]]))
    p = np.array([0.5, 0.25, 0.8])
    made = mask_model.log_likelihoods(kept, true, p)
    assert made.correlations[0] == made.shares[0] == 0
    for column, share in enumerate(made.shares[made.shares < 0.15]):
        a, b, c = p / (1 - share)  # of rows that somebody annotated
        shown = a * (1 - b), a * b * c, share / (1 - share) + (1 - b)
        wanted = math.log(math.prod(shown)) + 3 * math.log1p(-share)
        assert made.log_likelihood[0, column] == pytest.approx(wanted, rel=1e-9)
    assert column > 0
