"""Propensities from an audit: posterior, residuals, design effect, real masks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import beta, chi2

from tests.helpers.propensities import audited_rows, estimated, posterior
from unmask import data, propensity
from unmask.propensity.audit import design_effect, residuals, was_kept
from unmask.propensity.estimate import fit_posterior, from_counts


def test_given_one_curve_the_summary_is_the_beta_itself() -> None:
    """κ = 6 and c = 1/3: Beta(2 + k, 4 + K − k), its mean and its quantiles."""
    known = posterior([0, 3, 40], [0, 5, 100], [[0.5, 1.0, 6.0, 2.0]])
    mean, low, high = known.summary(0.9)
    law = beta([2, 5, 42], [4, 6, 64])
    np.testing.assert_allclose(mean, law.mean(), rtol=1e-12)
    np.testing.assert_allclose([low, high], [law.ppf(0.05), law.ppf(0.95)], rtol=1e-6)


def test_over_several_curves_the_summary_has_the_moments_of_the_mixture() -> None:
    """Also where the curves contradict each other so much that both ends of [0, 1] are likely."""
    draws = [[0.5, 1.0, 8.0, 1.0], [0.5, 1.0, 20.0, 19.0], [0.5, 1.0, 5e3, 1e-3]]
    known = posterior([0, 2], [0, 7], draws, common=0.2)
    mean, low, high = known.summary(0.8)
    laws = [beta(*known.betas(np.array(draw))) for draw in draws]
    wanted = np.mean([law.mean() for law in laws], axis=0)
    second = np.mean([law.var() + law.mean() ** 2 for law in laws], axis=0)
    np.testing.assert_allclose(mean, wanted, rtol=1e-12)
    variance = second - wanted**2 + (0.2 * wanted * (1 - wanted)) ** 2
    size = wanted * (1 - wanted) / variance - 1
    assert size[0] < 1
    same = beta(wanted * size, (1 - wanted) * size)
    np.testing.assert_allclose(same.var(), variance, rtol=1e-9)
    np.testing.assert_allclose([low, high], [same.ppf(0.1), same.ppf(0.9)], rtol=1e-6)


def test_draws_shift_all_logits_together() -> None:
    """ln odds of p: digamma and trigamma moments of each Beta, plus one normal error for all."""
    from scipy.special import polygamma, psi

    known = posterior([3.0] * 400, [5.0] * 400, [[0.5, 1.0, 6.0, 2.0]], common=0.7)
    drawn = known.sample(np.random.default_rng(0), 500)
    logits = np.log(drawn / (1 - drawn))
    together = logits.mean(axis=1)
    assert together.mean() == pytest.approx(psi(5) - psi(6), abs=0.15)
    own = float(polygamma(1, 5) + polygamma(1, 6))
    assert together.std() == pytest.approx(np.sqrt(0.7**2 + own / 400), rel=0.12)
    assert (logits - together[:, None]).var() == pytest.approx(own, rel=0.02)


def test_the_common_error_makes_up_for_the_design_effect() -> None:
    """(D − 1) / Σ K c (1 − c), with c on the fitted curve."""
    kept, of, counts = [3.0, 9.0], [10.0, 12.0], np.array([5.0, 80.0])
    known = fit_posterior(
        kept, of, counts, 1000, sampled=False, effect=2.5, curve="jain", confidence=0.9, seed=0
    )
    c = propensity.jain_curve(counts, 1000, a=known.curve.a, b=known.curve.b)
    assert known.common**2 * (np.array(of) * c * (1 - c)).sum() == pytest.approx(1.5, rel=1e-9)


def random_masks(seed: int, rows: int = 9, labels: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    true = (rng.random((rows, labels)) < 0.5).astype(np.float64)
    true[:, -1] = 0
    true[1:, 0], true[0, 0] = 0, 1
    return true * (rng.random(true.shape) < 0.6), true


@pytest.mark.parametrize("seed", range(4))
def test_residuals_and_the_design_effect_entry_by_entry(seed: int) -> None:
    """Against a plain double loop; a label occurs once, another never."""
    kept, true = random_masks(seed)
    rate = [kept[:, j].sum() / true[:, j].sum() if true[:, j].any() else 0.0 for j in range(7)]
    wanted = np.where(true > 0, kept - np.array(rate), 0.0)
    sparse = sp.csr_array(kept), sp.csr_array(true)
    np.testing.assert_allclose(residuals(*sparse).toarray(), wanted, atol=1e-7)
    np.testing.assert_array_equal(was_kept(*sparse), kept[true > 0])
    effect = (wanted.sum(axis=1) ** 2).sum() / (wanted**2).sum()
    assert design_effect(*sparse) == pytest.approx(max(1.0, effect), rel=1e-9)


def test_an_audit_is_its_counts() -> None:
    """By default along K + ½ of n + 1 rows, known from a sample only; else along what is given."""
    kept, true = random_masks(0)
    k, total = kept.sum(axis=0), true.sum(axis=0)
    effect = design_effect(sp.csr_array(kept), sp.csr_array(true))
    alone = propensity.audit(kept, true)
    same = from_counts(k, total, counts=total + 0.5, n=10, sampled=True, effect=effect)
    np.testing.assert_array_equal(alone.value, same.value)
    np.testing.assert_array_equal(alone.high, same.high)
    assert (alone.effect, alone.method, same.method) == (effect, "audit", "counts")
    assert not any("not among the complete" in note for note in alone.notes)
    counts = [3, 50, 70, 20, 10, 40, 0]
    placed = propensity.audit(kept, true, counts=counts, n=500)
    np.testing.assert_array_equal(
        placed.value, from_counts(k, total, counts=counts, n=500, effect=effect).value
    )


def test_counts_at_their_bounds_are_taken() -> None:
    """All kept, a label in every training row, three rows, and the least confidence."""
    found = from_counts([3, 0], [3, 2], counts=[3, 0], n=3, confidence=0.5)
    assert found.value[0] > found.value[1]
    assert ((found.low > 0) & (found.low < found.high) & (found.high < 1)).all()
    sure = from_counts([3, 0], [3, 2], counts=[3, 0], n=3, confidence=0.9999)
    assert (sure.high - sure.low > found.high - found.low).all()


NAN, INF = float("nan"), float("inf")


def test_counts_that_say_nothing_are_refused() -> None:
    for options, message in [
        ({"kept": [2, 3]}, "label 1 was kept 3 times out of 2"),
        ({"counts": [1, 10]}, "a label cannot occur in 10 of 9"),
        ({"n": 2}, "got 2"),
        ({"n": NAN}, "got nan"),
        ({"n": INF}, "got inf"),
        ({"effect": 0.5}, r"effect must lie in \[1"),
        ({"effect": NAN}, "effect must lie"),
        ({"effect": INF}, "effect must lie"),
        ({"confidence": 0.49}, "confidence must lie"),
        ({"confidence": 1.0}, "confidence must lie"),
        ({"counts": [0, 5], "sampled": True}, "must be above 0; add ½"),
        ({"of": [0, 0], "kept": [0, 0]}, "no audited row"),
    ]:
        given = {"kept": [1, 1], "of": [2, 2], "counts": [1, 5], "n": 9, **options}
        with pytest.raises(ValueError, match=message):
            from_counts(given.pop("kept"), given.pop("of"), **given)


def test_a_curve_that_the_counts_leave_open_is_mentioned() -> None:
    intervals = {"a": (0.01, 9.0), "b": (10.0, 40.0), "concentration": (2.0, 1e5)}
    known = posterior([3], [5], [[0.5, 1.0, 6.0, 2.0]])
    open_curve = replace(known, curve=replace(known.curve, intervals=intervals))
    notes = open_curve.estimate(0.9, "own", (), 1.0).notes
    assert notes == ("a is hardly determined by these counts (anything from 0.01 to 9).",)


def test_a_free_curve_is_advised_at_one_in_a_hundred() -> None:
    """Twice the gain in log-likelihood, which is χ²₁ if the level of the curve is Jain's."""
    for size, advised in ((1.5, False), (4.0, True)):
        kept, of = np.array([0.8, 0.9, 0.84]) * size, [size] * 3
        held, free = (
            from_counts(kept, of, counts=[2, 30, 400], n=100_000, curve=each)
            for each in ("jain", "free")
        )
        ratio = 2 * (free.curve.log_likelihood - held.curve.log_likelihood)
        assert (chi2.sf(ratio, 1) < 0.01) == advised
        assert chi2.sf(ratio, 2) > 0.01  # two degrees of freedom would not have been right
        said = f"likelihood ratio {ratio:.1f}, level {free.curve.scale:.2g} against"
        assert any(said in note for note in held.notes) == advised
        assert not any("likelihood ratio" in note for note in free.notes)


def test_a_label_nobody_audited_gets_the_curve_and_a_wide_interval() -> None:
    seen, true, _ = audited_rows()
    wide = sp.hstack([true, np.zeros((true.shape[0], 5))]).tocsr()
    narrow = sp.hstack([seen, np.zeros((true.shape[0], 5))]).tocsr()
    counts = np.r_[np.bincount(true.indices, minlength=60) * 10, [1, 5, 20, 100, 400]]
    estimate = propensity.audit(narrow, wide, counts=counts, n=3000)
    assert (estimate.evidence[-5:] == 0).all()
    curve_there = estimate.curve.level_at(counts[-5:].astype(float))
    assert ((estimate.low[-5:] < curve_there) & (curve_there < estimate.high[-5:])).all()
    busiest = int(np.argmax(estimate.evidence))
    assert np.ptp([estimate.low[-1], estimate.high[-1]]) > np.ptp(
        [estimate.low[busiest], estimate.high[busiest]]
    )


def test_the_order_of_rows_does_not_matter_and_labels_carry_no_order() -> None:
    seen, true, _ = audited_rows()
    given_ = estimated()
    rows = np.random.default_rng(0).permutation(true.shape[0])
    np.testing.assert_allclose(propensity.audit(seen[rows], true[rows]).value, given_.value)
    labels = np.random.default_rng(1).permutation(60)
    shuffled = propensity.audit(seen[:, labels], true[:, labels])
    np.testing.assert_allclose(shuffled.value, given_.value[labels], atol=1e-3)  # sums reorder


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
    seen, true, p = audited_rows(600)
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
