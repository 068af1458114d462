"""Propensities from known label frequencies: the exact posterior and the delta method."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, norm

from unmask import propensity


def seen_in(counts: list[int], n: int) -> np.ndarray:
    return (np.arange(n)[:, None] < np.array(counts)).astype(float)


def test_a_known_frequency_leaves_a_beta_posterior() -> None:
    """n_j of n rows: Beta(n_j + ½, n − n_j + ½), over the frequency."""
    n, counts, share = 40, [0, 3, 30], np.array([0.2, 0.4, 0.9])
    found = propensity.from_marginals(seen_in(counts, n), share)
    law = [beta(k + 0.5, n - k + 0.5) for k in counts]
    wanted = np.array([each.ppf([0.025, 0.975]) for each in law]).T / share
    np.testing.assert_allclose([found.low, found.high], np.clip(wanted, 1e-3, 1), rtol=1e-12)
    np.testing.assert_allclose(found.value, [each.mean() for each in law] / share, rtol=1e-12)
    np.testing.assert_array_equal(found.evidence, n * share)
    drawn = found.uncertainty.sample(np.random.default_rng(0), 40_000) * share
    for at, each in enumerate(law):
        assert drawn[:, at].mean() == pytest.approx(each.mean(), abs=5 * each.std() / 200)
        assert drawn[:, at].std() == pytest.approx(each.std(), rel=0.03)
    assert found.notes == ()
    assert (found.confidence, found.method) == (0.95, "marginals")


def test_a_counted_frequency_adds_its_own_error() -> None:
    """The delta method for a ratio of shares, of n and of true_n rows."""
    n, true_n, counts, share = 80, 50, np.array([12, 30]), np.array([0.4, 0.6])
    found = propensity.from_marginals(seen_in([12, 30], n), share, true_n=true_n, confidence=0.8)
    seen = (counts + 0.5) / (n + 1)
    error = np.sqrt((1 - seen) / (counts + 0.5) + (1 - share) / (share * true_n))
    for end, tail in ((found.low, 0.1), (found.high, 0.9)):
        np.testing.assert_allclose(end, seen / share * np.exp(norm.ppf(tail) * error), rtol=1e-12)
    drawn = np.log(found.uncertainty.sample(np.random.default_rng(0), 40_000))
    np.testing.assert_allclose(drawn.std(axis=0), error, rtol=0.05)
    shares = [beta(f * true_n + 0.5, true_n - f * true_n + 0.5) for f in share]
    shown = [beta(k + 0.5, n - k + 0.5) for k in counts]
    wanted = [a.expect(np.log) - b.expect(np.log) for a, b in zip(shown, shares, strict=True)]
    np.testing.assert_allclose(drawn.mean(axis=0), wanted, atol=5 * error.max() / 200)


def test_marginals_at_their_bounds() -> None:
    """A frequency of exactly 1, a label seen exactly as often as it occurs, a label never seen."""
    found = propensity.from_marginals(seen_in([10, 5, 0], 10), [1.0, 0.5, 1.0])
    assert found.notes == ()
    assert found.value[1] == 1
    crowded = propensity.from_marginals(seen_in([2000, 2000, 0], 2000), [0.5, 0.99, 1.0])
    np.testing.assert_array_equal(crowded.value[:2], 1)
    np.testing.assert_array_equal(crowded.high[:2], 1)
    assert crowded.value[2] == crowded.low[2] == 1e-3
    assert "2 of 3 labels" in crowded.notes[0]
    assert len(propensity.from_marginals(np.zeros((4, 0)), [])) == 0


def test_marginals_refuse_what_is_no_frequency() -> None:
    for share, options, message in [
        ([0.5, 1.5], {}, "got 1.5 at label 1"),
        ([0.5, 0.0], {}, "got 0 at label 1"),
        ([2.0, 0.0], {}, "got 2 at label 0"),
        ([0.5], {}, "must be 2 numbers"),
        ([0.5, 0.5], {"true_n": 0}, "true_n must be a whole number of at least 1; got 0"),
        ([0.5, 0.5], {"true_n": -3}, "got -3"),
        ([0.5, 0.5], {"confidence": 0.49}, "confidence must lie"),
        ([0.5, 0.5], {"confidence": 1.0}, "confidence must lie"),
    ]:
        with pytest.raises(ValueError, match=message):
            propensity.from_marginals(np.ones((3, 2)), share, **options)
