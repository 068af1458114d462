"""What was judged: rows, a pool, or pairs with probabilities; all give the same propensities."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import audit, data, propensity
from unmask.predictions import TopK
from unmask.propensity.audit import (
    JudgedLabels,
    _predicted,
    complete_rows,
    judged_pairs,
    pooled_rows,
)

P = 0.5


def problem(n: int = 3000) -> tuple[TopK, sp.csr_array, sp.csr_array]:
    true = data.synthetic.independent(n, 40, seed=1)
    observed = data.hide(true, np.full(40, P), seed=2)
    scores = np.random.default_rng(3).standard_normal(true.shape) + true.toarray()
    return TopK.from_scores(scores, 8), observed, true


def overall(found: JudgedLabels) -> float:
    kept, total = found.counts()
    return float(kept.sum() / total.sum())


def test_a_pool_is_right_on_both_sides_and_biased_with_the_observed_labels_added() -> None:
    top, observed, true = problem()
    pool = _predicted(top, observed.shape)
    both = sp.csr_array(((pool + observed) > 0).astype(float))
    assert overall(pooled_rows(observed, true, top)) == pytest.approx(P, abs=0.02)
    biased = complete_rows(observed.multiply(both), true.multiply(both))
    assert overall(biased) > P + 0.1
    with pytest.raises(ValueError, match="holds every observed label"):
        propensity.audit(observed, true, pool=both)
    estimate = propensity.audit(observed, true, pool=top, curve="free")
    assert np.mean(estimate.value) == pytest.approx(P, abs=0.03)


def test_judged_pairs_with_probabilities_give_the_rates_of_whole_rows() -> None:
    top, observed, true = problem()
    rows = audit.plan(top, observed, budget=400, seed=1)
    whole = judged_pairs(observed, audit.from_rows(rows, true[rows.rows]))
    pairs = audit.plan(top, observed, budget=9000, unit="pairs", metrics=["R@5"], head=8, seed=1)
    answers = np.asarray(true[pairs.rows, pairs.labels]).ravel()
    some = judged_pairs(observed, audit.from_pairs(pairs, answers))
    assert overall(whole) == pytest.approx(P, abs=0.03)
    assert overall(some) == pytest.approx(P, abs=0.05)
    total = some.counts()[1]
    assert (total <= np.bincount(some.true.indices, some.weights, minlength=40) + 1e-9).all()
    estimate = propensity.audit(observed, audit.from_pairs(pairs, answers), curve="free")
    assert ((estimate.low < P) & (estimate.high > P)).mean() > 0.85


def test_what_cannot_tell_propensities_is_refused() -> None:
    top, observed, true = problem(200)
    plan = audit.plan(top, observed, budget=50, unit="pairs", metrics=["P@5"])
    answered = audit.from_pairs(plan, np.zeros(len(plan)))
    with pytest.raises(ValueError, match="too seldom"):
        propensity.audit(observed, answered)
    rows = audit.plan(top, observed, budget=50)
    whole = audit.from_rows(rows, true[rows.rows])
    with pytest.raises(ValueError, match="give no pool"):
        propensity.audit(observed, whole, pool=top)


def test_counts_of_few_light_entries_are_worth_what_they_vary() -> None:
    """Weights near 1, so that variances are small: label 0 half kept, 1 all, 2 none, 3 absent."""
    true = sp.csr_array(np.array([[1.0, 1, 1, 0], [1, 1, 1, 0]]))
    kept = sp.csr_array(np.array([[1.0, 1, 0, 0], [0, 1, 0, 0]]))
    weights = np.array([1.1, 1.2, 1.1, 1.1, 1.2, 1.1])
    counted, size = JudgedLabels(true, kept, weights, 0, 0).counts()
    np.testing.assert_allclose(size[0], 0.25 * 2.2**2 / (0.25 * 2.2 + 2 * 1.1 * 0.1 * 0.25))
    np.testing.assert_allclose(counted[0], size[0] / 2)
    np.testing.assert_allclose(size[1:3], 2.0, rtol=1e-12)  # equal weights: as many as there are
    np.testing.assert_allclose(counted[1:], [2.0, 0.0, 0.0], rtol=1e-12)
    assert size[3] == 0
    plain = JudgedLabels(true, kept, np.ones(6), 0, 0).counts()
    np.testing.assert_array_equal(plain, [[1, 2, 0, 0], [2, 2, 2, 0]])


def test_a_pool_has_the_shape_of_the_labels() -> None:
    observed, complete = np.array([[1, 0, 0], [0, 1, 0]]), np.array([[1, 1, 0], [0, 1, 1]])
    for pool in (np.ones((2, 4), int), np.ones((3, 3), int), np.ones((1, 3), int)):
        with pytest.raises(ValueError, match="the pool and observed must have the same rows"):
            pooled_rows(observed, complete, pool)
