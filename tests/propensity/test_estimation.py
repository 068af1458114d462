"""Estimators of propensities against exact likelihoods, enumeration, and planted truth."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, product
from math import comb
from pathlib import Path

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.stats import betabinom

from unmask import data, propensity
from unmask.predictions import TopK
from unmask.propensity import PropensityEstimate, frequency_curve
from unmask.propensity.audit import design_effect, fit_posterior, residuals
from unmask.propensity.frequency_curve import Evidence

N = 20_000
COUNTS = np.unique(np.round(np.geomspace(1, 8000, 60)))


def theta(a: float, b: float, kappa: float, scale: float) -> np.ndarray:
    return np.log([a, b, kappa, scale])


def evidence(
    kept: list[float], of: list[float], counts: list[float], sampled: bool = False
) -> Evidence:
    return Evidence.collect(*(np.array(x, dtype=float) for x in (kept, of, counts)), sampled)


# ------------------------------------------------------------------------------------ the curve


def test_curve_with_the_jain_scale_is_the_jain_model() -> None:
    at = frequency_curve.level(theta(0.6, 2.6, 1.0, np.log(N) - 1), COUNTS)
    np.testing.assert_allclose(at, propensity.jain_curve(COUNTS, N, a=0.6, b=2.6), rtol=1e-13)


@given(st.floats(0.05, 3), st.floats(0.01, 50), st.floats(2, 1e4), st.integers(0, 9))
def test_likelihood_is_the_beta_binomial(a: float, b: float, kappa: float, kept: int) -> None:
    """Up to the binomial coefficient, against scipy."""
    at = theta(a, b, kappa, 5.0)
    c = frequency_curve.level(at, np.array([30.0]))[0]
    expected = betabinom.logpmf(kept, 9, kappa * c, kappa * (1 - c)) - np.log(comb(9, kept))
    found = float(frequency_curve.log_likelihood(at, evidence([kept], [9], [30])))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_likelihood_keeps_its_digits_at_extremes() -> None:
    """Concentration 1e5 and a rate near 0, against 50-digit arithmetic."""
    at, k, total = theta(0.55, 1.5, 1e5, 500.0), 2, 40
    c = frequency_curve.level(at, np.array([3.0]))[0]
    with mpmath.workdps(50):
        alpha, beta = mpmath.mpf(1e5) * mpmath.mpf(c), mpmath.mpf(1e5) * (1 - mpmath.mpf(c))
        exact = mpmath.log(mpmath.beta(k + alpha, total - k + beta) / mpmath.beta(alpha, beta))
    found = float(frequency_curve.log_likelihood(at, evidence([k], [total], [3])))
    assert found == pytest.approx(float(exact), abs=1e-7)


@pytest.mark.parametrize("sampled", [False, True])
def test_slope_is_the_derivative(sampled: bool) -> None:
    seen = evidence([3, 1, 0, 7], [9, 1, 4, 8], [30, 2, 7, 900], sampled)
    for at in (theta(0.55, 1.5, 30.0, 9.0), theta(1.4, 0.2, 4.0, 3.0)):
        numeric = approx_fprime(at, lambda t: float(frequency_curve.log_likelihood(t, seen)), 1e-6)
        np.testing.assert_allclose(frequency_curve.slope(at, seen), numeric, rtol=1e-4, atol=1e-5)


def test_small_samples_of_counts_loosen_the_curve() -> None:
    """1/κ_j = 1/κ + a²/(4 n_j)."""
    at = theta(0.8, 1.0, 50.0, 5.0)
    found = frequency_curve.concentration(at, np.array([2.0, 1e9]), True)
    np.testing.assert_allclose(1 / found, [1 / 50 + 0.64 / 8, 1 / 50], rtol=1e-6)
    np.testing.assert_allclose(frequency_curve.concentration(at, np.array([2.0, 9.0]), False), 50)


def test_labels_alike_are_counted_not_repeated() -> None:
    seen = evidence([1, 1, 0, 1], [2, 2, 0, 2], [5, 5, 3, 6])
    assert seen.times.tolist() == [2.0, 1.0]
    at = theta(0.55, 1.5, 30.0, 9.0)
    apart = [evidence([1], [2], [n]) for n in (5, 5, 6)]
    expected = sum(float(frequency_curve.log_likelihood(at, e)) for e in apart)
    assert float(frequency_curve.log_likelihood(at, seen)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("a", "b"), [(0.55, 1.5), (0.9, 6.0), (0.3, 0.4)])
@pytest.mark.parametrize("free", [False, True])
def test_noiseless_counts_give_back_the_constants(a: float, b: float, free: bool) -> None:
    scale = 4.0 if free else np.log(N) - 1
    of = np.full(COUNTS.size, 5e4)
    kept = of * frequency_curve.level(theta(a, b, 1.0, scale), COUNTS)
    seen = Evidence.collect(kept, of, COUNTS)
    fitted = frequency_curve.fit(seen, N, free=free, confidence=0.95, rng=np.random.default_rng(0))
    assert (fitted.a, fitted.b) == pytest.approx((a, b), rel=2e-3)
    assert fitted.scale == pytest.approx(scale, rel=2e-3)
    for name, value in (("a", a), ("b", b)):
        low, high = fitted.intervals[name]
        assert low < value < high


def test_profile_interval_ends_where_the_likelihood_has_fallen() -> None:
    """At the end of the interval for a, twice the drop of the best likelihood is χ²₁(0.95)."""
    rng = np.random.default_rng(1)
    of = rng.poisson(20, COUNTS.size).astype(float)
    p = propensity.jain_curve(COUNTS, N)
    seen = Evidence.collect(rng.binomial(of.astype(int), p).astype(float), of, COUNTS)
    fitted = frequency_curve.fit(seen, N, free=False, confidence=0.95, rng=rng)
    for end in fitted.intervals["a"]:
        held = theta(end, fitted.b, fitted.concentration, fitted.scale)
        best = frequency_curve.maximize(seen, held, np.array([False, True, True, False]))
        drop = fitted.log_likelihood - float(frequency_curve.log_likelihood(best, seen))
        assert 2 * drop == pytest.approx(3.841, abs=0.15)


def test_the_sampler_follows_the_density() -> None:
    """Mean and covariance of a skewed pair of Gaussian variables."""
    covariance = np.array([[1.0, 0.9], [0.9, 1.0]])
    precision = np.linalg.inv(covariance)
    bounds = np.array([[-20.0, 20.0]] * 2)
    drawn = np.concatenate(
        [
            frequency_curve.ensemble(
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


# ------------------------------------------------------------------------------------ the audit


@lru_cache
def audited(rows: int = 300, seed: int = 0) -> tuple[sp.csr_array, sp.csr_array, np.ndarray]:
    true = data.synthetic.planted(rows, n_labels=60, seed=seed).labels
    p = propensity.constant(60, 0.4)
    return data.hide(true, p, seed=seed + 1), true, p


@lru_cache
def estimated(rows: int = 300) -> PropensityEstimate:
    seen, true, _ = audited(rows)
    return propensity.audit(seen, true)


def test_without_a_curve_worth_anything_the_rate_is_the_estimate() -> None:
    """Huge counts: the posterior mean is k/K, the interval the binomial one."""
    of = np.array([1e6, 2e6, 5e5])
    kept = of * [0.2, 0.7, 0.4]  # far from any monotone frequency_curve, so little is pooled
    estimate = propensity.from_counts(kept, of, counts=[10, 100, 1000], n=5000)
    np.testing.assert_allclose(estimate.value, [0.2, 0.7, 0.4], atol=1e-3)
    error = np.sqrt(estimate.value * (1 - estimate.value) / of)
    np.testing.assert_allclose(estimate.high - estimate.low, 2 * 1.96 * error, rtol=0.02)


def test_a_label_nobody_audited_gets_the_curve_and_a_wide_interval() -> None:
    seen, true, _ = audited()
    wide = sp.hstack([true, np.zeros((true.shape[0], 5))]).tocsr()
    narrow = sp.hstack([seen, np.zeros((true.shape[0], 5))]).tocsr()
    counts = np.r_[np.bincount(true.indices, minlength=60) * 10, [1, 5, 20, 100, 400]]
    estimate = propensity.audit(narrow, wide, counts=counts, n=3000)
    assert (estimate.evidence[-5:] == 0).all()
    curve_there = estimate.curve.at(counts[-5:].astype(float))
    assert ((estimate.low[-5:] < curve_there) & (curve_there < estimate.high[-5:])).all()
    busiest = int(np.argmax(estimate.evidence))
    assert np.ptp([estimate.low[-1], estimate.high[-1]]) > np.ptp(
        [estimate.low[busiest], estimate.high[busiest]]
    )


def test_the_order_of_rows_does_not_matter_and_labels_carry_no_order() -> None:
    seen, true, _ = audited()
    given_ = estimated()
    rows = np.random.default_rng(0).permutation(true.shape[0])
    np.testing.assert_allclose(propensity.audit(seen[rows], true[rows]).value, given_.value)
    labels = np.random.default_rng(1).permutation(60)
    shuffled = propensity.audit(seen[:, labels], true[:, labels])
    np.testing.assert_allclose(shuffled.value, given_.value[labels], atol=1e-3)  # sums reorder


def test_draws_have_the_stated_mean_and_intervals() -> None:
    estimate = estimated()
    drawn = estimate.draw(seed=3, size=3000)
    np.testing.assert_allclose(drawn.mean(axis=0), estimate.value, atol=0.01)
    inside = ((drawn >= estimate.low) & (drawn <= estimate.high)).mean(axis=0)
    np.testing.assert_allclose(inside, 0.95, atol=0.03)


def test_same_seed_same_draws_and_estimates_travel() -> None:
    seen, true, _ = audited()
    estimate = estimated()
    again = pickle.loads(pickle.dumps(propensity.audit(seen, true)))  # noqa: S301
    np.testing.assert_array_equal(again.draw(seed=1, size=4), estimate.draw(1, 4))
    assert (estimate.draw(1, 4) != estimate.draw(2, 4)).any()


def saved_estimates() -> dict[str, PropensityEstimate]:
    true = data.synthetic.independent(60, 4, probability=0.4, seed=0)
    one, two = (data.hide(true, np.full(4, 0.5), seed=s) for s in (1, 2))
    return {
        "audit": propensity.audit(one, true),
        "recapture": propensity.recapture(one, two),
        "either": propensity.recapture(one, two, of="either"),
        "model": propensity.from_model(true.toarray() * 0.5, one),
        "marginals": propensity.from_marginals(one, [0.9] * 4),
        "counted marginals": propensity.from_marginals(one, [0.9] * 4, true_n=30),
    }


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_estimates_come_back_from_files_with_their_uncertainty(tmp_path: Path, suffix: str) -> None:
    for name, estimate in saved_estimates().items():
        path = tmp_path / f"{name}.{suffix}"
        propensity.write(path, estimate)
        again = propensity.read(path)
        assert isinstance(again, PropensityEstimate)
        np.testing.assert_array_equal(again.draw(seed=1, size=5), estimate.draw(seed=1, size=5))
        for field in ("value", "low", "high", "evidence"):
            np.testing.assert_array_equal(getattr(again, field), getattr(estimate, field))
        assert (again.method, again.notes) == (estimate.method, estimate.notes)
        if estimate.curve is not None:
            assert again.curve.intervals == estimate.curve.intervals
        assert isinstance(propensity.named(str(path), np.ones((2, 4))), PropensityEstimate)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ('{"kind": "Posterior"}', "no propensity estimate"),
        ('{"kind": "PropensityEstimate"}', "damaged"),
        ('{"kind": "PropensityEstimate", "uncertainty": {"kind": "os.system"}}', "damaged"),
    ],
)
def test_files_that_hold_no_estimate_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "estimate.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        propensity.read(path)
    assert str(path) in str(caught.value)


def test_an_unknown_uncertainty_is_not_saved_halfway(tmp_path: Path) -> None:
    class Own:
        def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
            return rng.random((size, 60))

    with pytest.raises(ValueError, match="Own cannot be saved"):
        propensity.write(tmp_path / "p.json", replace(estimated(), uncertainty=Own()))
    assert not (tmp_path / "p.json").exists()


def test_an_estimate_stands_where_propensities_do() -> None:
    estimate, true = estimated(), audited()[1]
    np.testing.assert_array_equal(propensity.clip(estimate, 1e-6), estimate.value)
    assert np.asarray(estimate, dtype=np.float32).dtype == np.float32
    assert data.hide(true, estimate, seed=0).nnz < true.nnz


def test_residuals_and_design_effect_by_hand() -> None:
    """Two labels in four rows; rows 0, 1 lose both, rows 2, 3 keep both: everything together."""
    true = sp.csr_array(np.ones((4, 2), dtype=np.float32))
    kept = sp.csr_array(np.array([[0, 0], [0, 0], [1, 1], [1, 1]], dtype=np.float32))
    np.testing.assert_array_equal(
        residuals(kept, true).toarray(), [[-0.5] * 2] * 2 + [[0.5] * 2] * 2
    )
    assert design_effect(kept, true) == 2.0
    apart = sp.csr_array(np.array([[0, 1], [0, 1], [1, 0], [1, 0]], dtype=np.float32))
    assert design_effect(apart, true) == 1.0  # never below 1


def test_dependent_rows_widen_the_intervals() -> None:
    """Rows that keep all or nothing: 300 of them tell the average propensity to ± 0.5/√300."""
    true = data.synthetic.independent(300, 40, probability=0.3, seed=0)
    keep = sp.diags_array((np.arange(300) % 2).astype(np.float32))
    together = propensity.audit(keep @ true, true, curve="free")
    apart = propensity.audit(data.hide(true, np.full(40, 0.5), seed=1), true, curve="free")
    spread = [e.draw(seed=0, size=1000).mean(axis=1).std() for e in (together, apart)]
    assert spread[0] == pytest.approx(0.5 / np.sqrt(300), rel=0.35)
    assert spread[1] == pytest.approx(0.5 / np.sqrt(true.nnz), rel=0.35)
    assert any("together" in note for note in together.notes)


def test_a_level_off_the_jain_curve_is_noticed() -> None:
    seen, true, p = audited(600)
    counts = np.bincount(data.hide(true, p, seed=9).indices, minlength=60)
    jain = propensity.audit(seen, true, counts=counts, n=600)
    assert any("curve='free'" in note for note in jain.notes)
    free = propensity.audit(seen, true, counts=counts, n=600, curve="free")
    assert not any("curve='free'" in note for note in free.notes)
    assert np.abs(free.value - p).mean() < np.abs(jain.value - p).mean()


def test_spurious_labels_are_left_out_and_mentioned() -> None:
    true = data.synthetic.independent(100, 10, probability=0.3, seed=0)
    seen = data.hide(true, np.full(10, 0.5), seed=1).tolil()
    clean = propensity.audit(sp.csr_array(seen), true)
    seen[0, np.flatnonzero(true[[0]].toarray()[0] == 0)[0]] = 1
    spoilt = propensity.audit(sp.csr_array(seen), true)
    np.testing.assert_array_equal(spoilt.value, clean.value)
    assert "1 of" in spoilt.notes[0]


# ------------------------------------------------------------------------- two annotations


@pytest.mark.parametrize(("size", "n1", "n2"), [(5, 3, 2), (6, 4, 4), (7, 5, 3)])
def test_chapman_is_unbiased_for_fixed_captures(size: int, n1: int, n2: int) -> None:
    """n₁ + n₂ ≥ N: the mean over all pairs of captures of these sizes is N, exactly."""
    first = np.zeros((size, 1))
    first[:n1] = 1
    sizes = []
    for chosen in combinations(range(size), n2):
        second = np.zeros((size, 1))
        second[list(chosen)] = 1
        sizes.append(propensity.chapman(first, second)[0][0])
    assert np.mean(sizes) == pytest.approx(size, rel=1e-12)


def test_chapman_variance_is_unbiased_too() -> None:
    """Seber's variance, over all captures of fixed sizes with n₁ + n₂ ≥ N."""
    size, n1, n2 = 6, 4, 3
    first = np.zeros((size, 1))
    first[:n1] = 1
    found = []
    for chosen in combinations(range(size), n2):
        second = np.zeros((size, 1))
        second[list(chosen)] = 1
        found.append([v[0] for v in propensity.chapman(first, second)])
    sizes, variances = np.array(found).T
    assert variances.mean() == pytest.approx(sizes.var(), rel=1e-12)


def test_the_rate_among_the_second_is_the_firsts_propensity() -> None:
    """E[m | n₂] = p₁ n₂, by enumeration of all pairs of annotations of four true labels."""
    p1, p2, n2_wanted = 0.3, 0.6, 2
    total = weight = 0.0
    for one, two in product(product((0, 1), repeat=4), repeat=2):
        chance = np.prod([p1 if x else 1 - p1 for x in one])
        chance *= np.prod([p2 if x else 1 - p2 for x in two])
        if sum(two) == n2_wanted:
            total += chance * sum(x and y for x, y in zip(one, two, strict=True))
            weight += chance
    assert total / weight == pytest.approx(p1 * n2_wanted)


def test_recapture_is_an_audit_by_the_other() -> None:
    true = data.synthetic.independent(500, 8, probability=0.3, seed=0)
    one = data.hide(true, np.full(8, 0.6), seed=1)
    two = data.hide(true, np.full(8, 0.4), seed=2)
    found = propensity.recapture(one, two)
    both = sp.csr_array(one.multiply(two))
    np.testing.assert_array_equal(found.value, propensity.audit(both, two, curve="free").value)
    assert found.method == "recapture"


def test_either_combines_both() -> None:
    """With plenty of data the union's propensity is 1 − (1 − p₁)(1 − p₂)."""
    rows = np.ones((200_000, 2), dtype=np.float32)
    one = data.hide(rows, [0.6, 0.3], seed=1)
    two = data.hide(rows, [0.5, 0.2], seed=2)
    found = propensity.recapture(one, two, of="either")
    np.testing.assert_allclose(found.value, [0.8, 0.44], atol=0.01)
    assert ((found.low < found.value) & (found.value < found.high)).all()
    np.testing.assert_allclose(found.draw(0, 400).mean(axis=0), found.value, atol=0.005)


# --------------------------------------------------------------------- a model, known marginals


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


def test_marginals_are_a_ratio() -> None:
    seen = np.repeat([[1, 1, 0]], 400, axis=0)
    seen[:300, 1] = 0
    found = propensity.from_marginals(seen, [1.0, 0.5, 0.1])
    np.testing.assert_allclose(found.value, [400.5 / 401, 100.5 / 401 / 0.5, 0.5 / 401 / 0.1])
    np.testing.assert_allclose(found.draw(0, 20_000).mean(axis=0)[1], found.value[1], atol=2e-3)
    inside = (found.draw(0, 20_000) >= found.low) & (found.draw(0, 20_000) <= found.high)
    np.testing.assert_allclose(inside.mean(axis=0)[1], 0.95, atol=0.01)


def test_marginals_that_contradict_are_cut_and_mentioned() -> None:
    found = propensity.from_marginals(np.ones((10, 1)), [0.5])
    assert found.value[0] == 1
    assert "more often" in found.notes[0]


def test_counted_marginals_widen_the_interval() -> None:
    seen = np.r_[np.ones((50, 1)), np.zeros((50, 1))]
    exact, counted = (propensity.from_marginals(seen, [0.8], true_n=t) for t in (None, 40))
    assert counted.high - counted.low > exact.high - exact.low
    drawn = counted.draw(0, 20_000)
    assert np.quantile(drawn, 0.025) == pytest.approx(counted.low[0], abs=0.03)


@pytest.mark.parametrize("name", list(propensity.ESTIMATORS))
def test_every_estimator_returns_the_same_kind_of_thing(name: str) -> None:
    true = data.synthetic.independent(200, 5, probability=0.4, seed=0)
    seen = data.hide(true, np.full(5, 0.5), seed=1)
    given_ = {
        "audit": (seen, true),
        "recapture": (seen, data.hide(true, np.full(5, 0.5), seed=2)),
        "model": (true.toarray() * 0.5, seen),
        "marginals": (seen, np.full(5, 0.4)),
    }
    found = propensity.ESTIMATORS[name](*given_[name])
    assert isinstance(found, PropensityEstimate)
    assert found.method == name
    assert (found.low <= found.value).all()
    assert (found.value <= found.high).all()
    drawn = found.draw(seed=0, size=7)
    assert drawn.shape == (7, 5)
    assert ((drawn > 0) & (drawn <= 1)).all()


# --------------------------------------------------------------------------------- the plan


def predictions(true: sp.csr_array, k: int, seed: int) -> TopK:
    noise = np.random.default_rng(seed).normal(size=true.shape)
    return TopK.from_scores((noise + 2.5 * true.toarray()).astype(np.float32), k)


@pytest.mark.parametrize("metric", ["precision", "recall"])
def test_slopes_are_derivatives_of_the_metric(metric: str) -> None:
    from unmask.propensity import audit_planning as plan

    true = data.synthetic.independent(40, 6, probability=0.4, seed=0)
    p = np.linspace(0.3, 0.9, 6)
    seen, top = data.hide(true, p, seed=1), predictions(true, 2, 0)

    def value(log_p: np.ndarray) -> float:
        inverse = np.exp(-log_p)
        weighed = seen.toarray() * inverse
        hits = np.take_along_axis(weighed, top.labels, 1).sum(axis=1)
        if metric == "precision":
            return float(hits.mean() / 2)
        return float((hits / np.maximum(weighed.sum(axis=1), 1)).mean())

    found = plan.METRICS[metric](top, seen, p, 2)
    np.testing.assert_allclose(found, approx_fprime(np.log(p), value, 1e-7), atol=1e-6)


def test_the_plan_looks_at_predictions_and_never_at_a_rows_own_labels() -> None:
    """Swapping observed labels among rows with the same predictions changes no choice."""
    top = TopK(np.array([[0, 1]] * 6 + [[1, 0]] * 6), np.tile([0.9, 0.1], (12, 1)))
    labels = np.zeros((12, 2))
    labels[[0, 1, 6], [0, 0, 1]] = 1
    moved = np.zeros((12, 2))
    moved[[3, 5, 9], [0, 0, 1]] = 1
    plans = [propensity.audit_plan(top, x, [0.5, 0.2], budget=4) for x in (labels, moved)]
    np.testing.assert_array_equal(plans[0].rows, plans[1].rows)


@settings(max_examples=20)
@given(st.integers(1, 120), st.sampled_from(["precision", "recall"]))
def test_a_plan_promises_no_less_than_a_blind_audit(budget: int, metric: str) -> None:
    true = data.synthetic.planted(100, n_labels=30, seed=3).labels
    p = np.linspace(0.2, 0.9, 30)
    seen, top = data.hide(true, p, seed=1), predictions(true, 3, 0)
    plan = propensity.audit_plan(top, seen, p, budget=budget, metric=metric)
    assert len(set(plan.rows.tolist())) == min(budget, 100)
    assert plan.after <= plan.uniform * (1 + 1e-9) <= plan.before * (1 + 1e-9)
    assert plan.labels.sum() == pytest.approx(1)


def test_chances_are_corrected_hit_rates_that_rise_with_the_score() -> None:
    """Two scores, one label with p = 1/2: 30 of 80 and 5 of 80 hits are seen."""
    from unmask.propensity import audit_planning as plan

    scores = np.repeat([[0.9], [0.1]], 80, axis=0)
    labels = np.zeros((160, 1))
    labels[:30], labels[80:85] = 1, 1
    chance = plan._chances(
        TopK(np.zeros((160, 1), int), scores), sp.csr_array(labels), np.array([0.5])
    )
    np.testing.assert_allclose(chance.toarray().ravel(), np.repeat([60 / 80, 10 / 80], 80))
    upside_down = plan._chances(
        TopK(np.zeros((160, 1), int), -scores), sp.csr_array(labels), np.array([0.5])
    )
    np.testing.assert_allclose(upside_down.toarray(), 70 / 160)  # may not fall with the score


def test_rows_with_many_likely_labels_come_first_unless_labels_are_dear() -> None:
    true = data.synthetic.planted(1500, n_labels=40, seed=3).labels
    p = np.full(40, 0.4)
    seen, top = data.hide(true, p, seed=1), predictions(true, 12, 0)
    size = np.diff(true.indptr)
    cheap = propensity.audit_plan(top, seen, p, budget=100, k=5)
    assert cheap.cost == len(cheap.rows) == 100
    assert size[cheap.rows].mean() > 1.8 * size.mean()
    assert cheap.uniform / cheap.after > 1.2
    dear = propensity.audit_plan(top, seen, p, budget=900, k=5, label_cost=10.0)
    assert 800 < dear.cost <= 900
    assert size[dear.rows].mean() < size[cheap.rows].mean()
    assert 1 <= dear.uniform / dear.after < cheap.uniform / cheap.after


def test_choosing_by_predictions_leaves_rates_alone_and_by_observed_labels_does_not() -> None:
    """Over all masks of four true labels with p = 1/4: the rate among two rows fixed beforehand,
    and among the rows where the label was seen."""
    masks = [
        (np.array(mask), 0.25 ** sum(mask) * 0.75 ** (4 - sum(mask)))
        for mask in product((0, 1), repeat=4)
    ]
    assert sum(mask[[0, 2]].mean() * chance for mask, chance in masks) == pytest.approx(0.25)
    seen = [(mask[mask > 0].mean(), chance) for mask, chance in masks if mask.any()]
    assert all(rate == 1 for rate, _ in seen)


def test_a_plan_knows_what_an_estimate_knows() -> None:
    seen, true, _ = audited(400)
    estimate = estimated(400)
    top = predictions(true, 3, 0)
    sure = propensity.audit_plan(top, seen, estimate, budget=50)
    unsure = propensity.audit_plan(top, seen, estimate.value, budget=50)
    assert sure.before < unsure.before


# ----------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: propensity.audit([[1, 0]], [[1]]), r"same rows and labels; got \(1, 2\)"),
        (lambda: propensity.audit([[0]] * 5, [[0]] * 5), "no audited row has a true label"),
        (lambda: propensity.audit([[1]], [[1]]), "at least 3 training rows"),
        (lambda: propensity.audit([[1]] * 5, [[1]] * 5, counts=[3]), "both `counts` and `n`"),
        (lambda: propensity.audit([[1]] * 5, [[1]] * 5, curve="jian"), "unknown curve 'jian'"),
        (lambda: propensity.from_counts([3], [2], counts=[5], n=9), "kept 3 times out of 2"),
        (lambda: propensity.from_counts([1], [2], counts=[50], n=9), "50 of 9 training rows"),
        (lambda: propensity.from_counts([1, 1], [2], counts=[5], n=9), "1 numbers, one per label"),
        (lambda: propensity.recapture([[1]], [[1]], of="both"), "unknown annotation 'both'"),
        (lambda: propensity.from_model([[1.5]], [[1]]), "Calibrate"),
        (lambda: propensity.from_model([[0.5, 0.1]], [[1]]), "same rows and labels"),
        (lambda: propensity.from_model([[0.5]] * 3, [[1]] * 3, n=3), "both `counts` and `n`"),
        (lambda: propensity.from_marginals([[1]], [0.0]), "got 0 at label 0"),
        (lambda: propensity.from_marginals([[1]], [0.5], confidence=2), "confidence must lie"),
        (
            lambda: propensity.audit_plan(TopK([[0]], [[1.0]]), [[1]] * 2, [0.5], budget=1),
            "same rows; got 1 and 2",
        ),
        (
            lambda: propensity.audit_plan(TopK([[0]], [[1.0]]), [[1]], [0.5], budget=0),
            r"budget must lie in \[1, inf\]",
        ),
    ],
)
def test_bad_input_is_refused_in_words(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# ------------------------------------------------------------------------------------- studies


def on_the_curve(true_counts: np.ndarray, n: int, a: float, b: float) -> np.ndarray:
    p = propensity.jain_curve(true_counts, n, a=a, b=b)
    for _ in range(100):
        p = propensity.jain_curve(true_counts * p, n, a=a, b=b)
    return p


@pytest.mark.slow
def test_intervals_cover_and_an_audit_beats_the_default() -> None:
    cover, ends, ours, default = [], [], [], []
    for seed in range(15):
        true = data.synthetic.planted(8300, seed=seed).labels
        train, rows = true[:8000], true[8000:]
        p = on_the_curve(np.bincount(train.indices, minlength=200), 8000, 0.9, 6.0)
        counts = np.bincount(data.hide(train, p, seed=seed).indices, minlength=200)
        found = propensity.audit(data.hide(rows, p, seed=99 + seed), rows, counts=counts, n=8000)
        cover.append(((found.low <= p) & (p <= found.high)).mean())
        low, high = found.curve.intervals["a"]
        ends.append(low <= 0.9 <= high)
        ours.append(np.abs(found.value - p).mean())
        default.append(np.abs(propensity.jain_curve(counts, 8000) - p).mean())
    assert np.mean(cover) > 0.93
    assert np.mean(ends) > 0.8
    assert np.mean(ours) < np.mean(default)


def test_jester_rates_are_found_by_an_audit(real_data: Path) -> None:
    """200 complete users seen through the masks of real users: the rates of all masks are found."""
    rated = data.read(real_data / "jester5k" / "train_rated.txt.gz").labels
    true = data.read(real_data / "jester5k" / "test.txt.gz").labels[:200]
    masks = rated[np.random.default_rng(0).permutation(rated.shape[0])[:200]]
    found = propensity.audit(true.multiply(masks), true, curve="free")
    rates = np.asarray(rated.mean(axis=0)).ravel()
    assert ((found.low <= rates) & (rates <= found.high)).mean() > 0.9
    assert any("together" in note for note in found.notes)


def test_posterior_of_one_label_is_conjugate() -> None:
    """Given the frequency_curve, p_j is Beta(κc + k, κ(1 − c) + K − k)."""
    known = fit_posterior(
        [3], [10], [50], 1000, sampled=False, effect=1.0, curve="jain", confidence=0.95, seed=0
    )
    draw = np.array([0.55, 1.5, 20.0, np.log(1000) - 1])
    c = propensity.jain_curve([50], 1000)[0]
    np.testing.assert_allclose(np.ravel(known.betas(draw)), [20 * c + 3, 20 * (1 - c) + 7])
