"""The curve of propensity over label frequency: likelihood, maximum, intervals, draws."""

from __future__ import annotations

from functools import cache
from math import comb

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.stats import betabinom, chi2, truncnorm

from unmask import propensity
from unmask.propensity import estimate
from unmask.propensity.estimate import CurveFit, Evidence


def counted(*columns: list[float], sampled: bool = False) -> Evidence:
    kept, of, counts = (np.array(column, dtype=float) for column in columns)
    return Evidence.collect(kept, of, counts, sampled)


def test_the_curve_stays_inside_the_unit_interval_at_every_bound() -> None:
    """Where rounding would give 0 or 1, the likelihood would not be finite."""
    corners = np.stack(np.meshgrid(*estimate.BOUNDS, indexing="ij"), -1).reshape(-1, 4)
    counts = np.array([0.0, 1.0, 1e9])
    c = estimate.level(corners, counts)
    assert c.shape == (16, 3)
    assert ((c > 0) & (c < 1)).all()
    seen = counted([0, 1, 5], [5, 1, 5], [0, 1, 1e9])
    assert np.isfinite(estimate.log_likelihood(corners, seen)).all()


def test_the_curve_is_one_over_one_plus_scale_at_a_single_positive() -> None:
    theta = np.log([0.7, 2.0, 9.0, 3.0])
    assert estimate.level(theta, np.array([1.0]))[0] == pytest.approx(0.25, rel=1e-14)
    far = estimate.level(theta, np.array([28.0]))[0]
    assert far == pytest.approx(1 / (1 + 3 * 10**-0.7), rel=1e-14)


def test_a_label_audited_less_than_once_counts() -> None:
    """Probabilities of a model add up to fractions; only a label without evidence is left out."""
    seen = Evidence.collect(*np.array([[0.25, 0, 0.5], [0.5, 0, 1.0], [3, 4, 5]]))
    assert not seen.sampled
    np.testing.assert_array_equal(seen.of, [0.5, 1.0])
    np.testing.assert_array_equal(seen.times, [1, 1])


SEEN = counted([12, 25, 40, 30], [60, 60, 60, 35], [2, 20, 200, 1500])


@cache
def small_fit(free: bool, confidence: float, effect: float = 1.0) -> CurveFit:
    rng = np.random.default_rng(0)
    return estimate.fit(SEEN, 5000, free=free, confidence=confidence, effect=effect, rng=rng)


def test_a_design_effect_widens_intervals_like_a_higher_confidence() -> None:
    """Both ask where the likelihood has fallen by D χ²₁(confidence) / 2."""
    higher = float(chi2.cdf(2 * chi2.ppf(0.8, 1), 1))
    wide, wider = small_fit(False, 0.8, 2.0).intervals, small_fit(False, higher).intervals
    narrow = small_fit(False, 0.8).intervals
    for name, (low, high) in wide.items():
        assert (low, high) == pytest.approx(wider[name], rel=1e-6)
        assert low <= narrow[name][0] <= narrow[name][1] <= high
    assert wide["a"][1] - wide["a"][0] > 1.2 * (narrow["a"][1] - narrow["a"][0])


def test_only_a_free_curve_has_an_interval_for_its_scale() -> None:
    held, free = small_fit(False, 0.8), small_fit(True, 0.8)
    assert list(held.intervals) == ["a", "b", "concentration"]
    assert list(free.intervals) == ["a", "b", "concentration", "scale"]
    assert held.scale == pytest.approx(np.log(5000) - 1, rel=1e-14)
    np.testing.assert_allclose(held.draws[:, 3], held.scale)
    assert np.ptp(free.draws[:, 3]) > 0
    assert free.log_likelihood >= held.log_likelihood
    low, high = free.intervals["scale"]
    assert low < free.scale < high


@pytest.mark.parametrize("free", [False, True])
def test_an_interval_ends_where_the_best_of_the_other_parameters_has_fallen(free: bool) -> None:
    """By χ²₁(0.8) / 2, at every end that is not a bound; a, b and the scale trade off."""
    fitted, ends = small_fit(free, 0.8), 0
    best = np.log([fitted.a, fitted.b, fitted.concentration, fitted.scale])
    for axis, interval in enumerate(fitted.intervals.values()):
        others = np.array([True, True, True, free]) & (np.arange(4) != axis)
        for end in np.log(interval):
            held = np.where(np.arange(4) == axis, end, best)
            there = float(estimate.log_likelihood(estimate.maximize(SEEN, held, others), SEEN))
            fallen = fitted.log_likelihood - there
            if np.isclose(end, estimate.BOUNDS[axis]).any():
                assert fallen < chi2.ppf(0.8, 1) / 2
            else:
                assert fallen == pytest.approx(chi2.ppf(0.8, 1) / 2, abs=0.06)
                ends += 1
    assert ends >= 3


def empty() -> Evidence:
    return Evidence.collect(np.zeros(0), np.zeros(0), np.zeros(0))


def test_without_evidence_the_draws_are_those_of_the_prior() -> None:
    """Log-normal around the centre with the stated spread, cut at the bounds."""
    centre = np.r_[estimate.COMMON, 1.0]
    sources = (np.random.default_rng(seed) for seed in range(12))
    axes = np.ones(4, dtype=bool)
    drawn = np.concatenate([estimate._draws(empty(), centre, centre, axes, rng) for rng in sources])
    low, high = ((estimate.BOUNDS - centre[:, None]) / estimate.SPREAD[:, None]).T
    law = truncnorm(low, high, loc=centre, scale=estimate.SPREAD)
    np.testing.assert_allclose(drawn.mean(axis=0), law.mean(), atol=0.2)
    np.testing.assert_allclose(drawn.std(axis=0), law.std(), rtol=0.12)
    assert ((drawn >= estimate.BOUNDS[:, 0]) & (drawn <= estimate.BOUNDS[:, 1])).all()
    np.testing.assert_allclose(np.corrcoef(drawn.T), np.eye(4), atol=0.15)


def test_the_walkers_fill_a_box_from_its_corner() -> None:
    """A flat density with a wall: nobody starts or ends outside, and all of it is visited."""
    bounds = np.array([[-3.0, 5.0], [0.0, 0.5]])
    asked = []

    def density(x: np.ndarray) -> np.ndarray:
        asked.append(x.copy())
        inside = ((x >= bounds[:, 0]) & (x <= bounds[:, 1])).all(axis=1)
        return np.where(inside, 0.0, -np.inf)

    drawn = []
    for seed, corner in enumerate(([-3.0, 0.5], [5.0, 0.0], [-3.0, 0.0])):
        asked.clear()
        drawn.append(
            estimate.ensemble(density, np.array(corner), bounds, np.random.default_rng(seed))
        )
        assert ((asked[0] > bounds[:, 0]) & (asked[0] < bounds[:, 1])).all()
        near = np.abs(asked[0] - corner) / np.ptp(bounds, axis=1)
        assert np.median(near, axis=0).max() < 0.25
        assert len(np.unique(asked[0], axis=0)) == len(asked[0])
    every = (np.concatenate(drawn) - bounds[:, 0]) / np.ptp(bounds, axis=1)
    assert ((every >= 0) & (every <= 1)).all()
    np.testing.assert_allclose(every.mean(axis=0), 0.5, atol=0.1)
    np.testing.assert_allclose(every.var(axis=0), 1 / 12, rtol=0.25)


COUNTS = np.unique(np.round(np.geomspace(1, 8000, 60)))


N = 20_000


def theta(a: float, b: float, kappa: float, scale: float) -> np.ndarray:
    return np.log([a, b, kappa, scale])


def test_curve_with_the_jain_scale_is_the_jain_model() -> None:
    at = estimate.level(theta(0.6, 2.6, 1.0, np.log(N) - 1), COUNTS)
    np.testing.assert_allclose(at, propensity.jain_curve(COUNTS, N, a=0.6, b=2.6), rtol=1e-13)


def evidence(
    kept: list[float], of: list[float], counts: list[float], sampled: bool = False
) -> Evidence:
    return Evidence.collect(*(np.array(x, dtype=float) for x in (kept, of, counts)), sampled)


@given(st.floats(0.05, 3), st.floats(0.01, 50), st.floats(2, 1e4), st.integers(0, 9))
def test_likelihood_is_the_beta_binomial(a: float, b: float, kappa: float, kept: int) -> None:
    """Up to the binomial coefficient, against scipy."""
    at = theta(a, b, kappa, 5.0)
    c = estimate.level(at, np.array([30.0]))[0]
    expected = betabinom.logpmf(kept, 9, kappa * c, kappa * (1 - c)) - np.log(comb(9, kept))
    found = float(estimate.log_likelihood(at, evidence([kept], [9], [30])))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_likelihood_keeps_its_digits_at_extremes() -> None:
    """Concentration 1e5 and a rate near 0, against 50-digit arithmetic."""
    at, k, total = theta(0.55, 1.5, 1e5, 500.0), 2, 40
    c = estimate.level(at, np.array([3.0]))[0]
    with mpmath.workdps(50):
        alpha, beta = mpmath.mpf(1e5) * mpmath.mpf(c), mpmath.mpf(1e5) * (1 - mpmath.mpf(c))
        exact = mpmath.log(mpmath.beta(k + alpha, total - k + beta) / mpmath.beta(alpha, beta))
    found = float(estimate.log_likelihood(at, evidence([k], [total], [3])))
    assert found == pytest.approx(float(exact), abs=1e-7)


@pytest.mark.parametrize("sampled", [False, True])
def test_slope_is_the_derivative(sampled: bool) -> None:
    seen = evidence([3, 1, 0, 7], [9, 1, 4, 8], [30, 2, 7, 900], sampled)
    for at in (theta(0.55, 1.5, 30.0, 9.0), theta(1.4, 0.2, 4.0, 3.0)):
        numeric = approx_fprime(at, lambda t: float(estimate.log_likelihood(t, seen)), 1e-6)
        np.testing.assert_allclose(estimate.slope(at, seen), numeric, rtol=1e-4, atol=1e-5)


def test_small_samples_of_counts_loosen_the_curve() -> None:
    """1/κ_j = 1/κ + a²/(4 n_j)."""
    at = theta(0.8, 1.0, 50.0, 5.0)
    found = estimate.concentration(at, np.array([2.0, 1e9]), True)
    np.testing.assert_allclose(1 / found, [1 / 50 + 0.64 / 8, 1 / 50], rtol=1e-6)
    np.testing.assert_allclose(estimate.concentration(at, np.array([2.0, 9.0]), False), 50)


def test_labels_alike_are_counted_not_repeated() -> None:
    seen = evidence([1, 1, 0, 1], [2, 2, 0, 2], [5, 5, 3, 6])
    assert seen.times.tolist() == [2.0, 1.0]
    at = theta(0.55, 1.5, 30.0, 9.0)
    apart = [evidence([1], [2], [n]) for n in (5, 5, 6)]
    expected = sum(float(estimate.log_likelihood(at, e)) for e in apart)
    assert float(estimate.log_likelihood(at, seen)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("a", "b"), [(0.55, 1.5), (0.9, 6.0), (0.3, 0.4)])
@pytest.mark.parametrize("free", [False, True])
def test_noiseless_counts_give_back_the_constants(a: float, b: float, free: bool) -> None:
    scale = 4.0 if free else np.log(N) - 1
    of = np.full(COUNTS.size, 5e4)
    kept = of * estimate.level(theta(a, b, 1.0, scale), COUNTS)
    seen = Evidence.collect(kept, of, COUNTS)
    fitted = estimate.fit(seen, N, free=free, confidence=0.95, rng=np.random.default_rng(0))
    assert (fitted.a, fitted.b) == pytest.approx((a, b), rel=2e-3)
    assert fitted.scale == pytest.approx(scale, rel=2e-3)
    for name, value in (("a", a), ("b", b)):
        low, high = fitted.intervals[name]
        assert low < value < high


def test_the_sampler_follows_the_density() -> None:
    """Mean and covariance of a skewed pair of Gaussian variables."""
    covariance = np.array([[1.0, 0.9], [0.9, 1.0]])
    precision = np.linalg.inv(covariance)
    bounds = np.array([[-20.0, 20.0]] * 2)
    drawn = np.concatenate(
        [
            estimate.ensemble(
                lambda x: -np.einsum("ij,jk,ik->i", x, precision, x) / 2,
                np.zeros(2),
                bounds,
                np.random.default_rng(seed),
            )
            for seed in range(20)
        ]
    )
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.1)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.15)
