"""Propensities at their edges: bounds, defaults, refusals, and sampling against exact laws."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import beta, chi2, norm, truncnorm

from unmask import propensity
from unmask.predictions import TopK
from unmask.propensity import PropensityEstimate, frequency_curve
from unmask.propensity import audit_planning as plans
from unmask.propensity.audit import Posterior, design_effect, fit_posterior, residuals, was_kept
from unmask.propensity.frequency_curve import CurveFit, Evidence
from unmask.propensity.marginals import Ratio
from unmask.propensity.recapture import Either
from unmask.propensity.serialization import from_record, to_record

NAN, INF = float("nan"), float("inf")


# ----------------------------------------------------------------------------- stated models


def test_jain_works_at_the_ends_of_its_domain() -> None:
    """Three rows, labels in none and in all of them; no labels at all; p = 1 / ln n at count 1."""
    p = propensity.jain_curve([0, 1, 3], 3)
    assert p[1] == pytest.approx(1 / np.log(3), rel=1e-15)
    assert p[0] < p[1] < p[2]
    assert propensity.jain_curve([], 3).shape == (0,)
    scale = np.log(50) - 1
    np.testing.assert_allclose(
        propensity.jain_curve([7], 50, a=0.5, b=0.5), 1 / (1 + scale * np.sqrt(1.5 / 7.5))
    )


def test_the_default_constants_are_those_in_common_use() -> None:
    labels = [[1, 0], [1, 1], [0, 0], [0, 0]]
    common = propensity.jain_curve([2, 1], 4, a=0.55, b=1.5)
    np.testing.assert_array_equal(propensity.jain(labels), common)
    np.testing.assert_array_equal(propensity.jain_curve([2, 1], 4), common)
    np.testing.assert_array_equal(1 / propensity.inverse_linear(labels), [2, 20])


def test_the_prior_of_a_fitted_curve_is_centred_on_the_constants_in_common_use() -> None:
    np.testing.assert_allclose(np.exp(frequency_curve.COMMON[:2]), [0.55, 1.5])


def test_labels_that_never_occur_have_propensities_too() -> None:
    """The last columns are empty: still one number per label."""
    labels = sp.csr_array((np.ones(1), ([0], [0])), shape=(4, 3))
    np.testing.assert_array_equal(propensity.jain(labels), propensity.jain_curve([1, 0, 0], 4))
    np.testing.assert_allclose(1 / propensity.inverse_linear(labels), [2, 11, 20])
    np.testing.assert_array_equal(propensity.named("constant:0.3", labels), [0.3] * 3)


def test_inverse_propensities_may_be_one() -> None:
    np.testing.assert_array_equal(propensity.inverse_linear([[1, 0]], head=1, tail=1), 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: propensity.jain_curve([1], 2), "got 2"),
        (lambda: propensity.jain_curve([1], NAN), "got nan"),
        (lambda: propensity.jain_curve([1], INF), "got inf"),
        (lambda: propensity.jain_curve([1], 9, a=0), "a=0, b=1.5"),
        (lambda: propensity.jain_curve([0], 9, a=1000), "a=1000, b=1.5 leave a label no"),
        (lambda: propensity.jain_curve([1], 9, b=0), "a=0.55, b=0"),
        (lambda: propensity.jain_curve([1], 9, a=NAN), "a=nan"),
        (lambda: propensity.jain_curve([1], 9, b=INF), "b=inf"),
        (lambda: propensity.jain_curve([-1], 9), "got -1 to -1"),
        (lambda: propensity.jain_curve([9.5], 9), "got 9.5 to 9.5"),
        (lambda: propensity.inverse_linear([[1]], tail=0.5), "got 2 to 0.5"),
        (lambda: propensity.inverse_linear([[1]], head=NAN), "got nan to 20"),
        (lambda: propensity.inverse_linear([[1, 0]], tail=INF), "got 2 to inf"),
        (lambda: propensity.clip([0.5], 1.5), "got 1.5"),
        (lambda: propensity.clip([0.5], NAN), "got nan"),
        (lambda: propensity.temper([0.5], -0.1), "got -0.1"),
        (lambda: propensity.named("inverse_linear:2,nan", [[1]]), "got 2 to nan"),
    ],
)
def test_models_refuse_what_they_have_no_meaning_for(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# ----------------------------------------------------------------------------------- presets

COMMON, WIKIPEDIA, AMAZON = (0.55, 1.5), (0.5, 0.4), (0.6, 2.6)
PUBLISHED = {
    "Mediamill": (COMMON, (120, 101, 30993, 12914)),
    "Bibtex": (COMMON, (1836, 159, 4880, 2515)),
    "Delicious": (COMMON, (500, 983, 12920, 3185)),
    "RCV1-2K": (COMMON, (47236, 2456, 623847, 155962)),
    "EURLex-4K": (COMMON, (5000, 3993, 15539, 3809)),
    "AmazonCat-13K": (COMMON, (203882, 13330, 1186239, 306782)),
    "AmazonCat-14K": (COMMON, (597540, 14588, 4398050, 1099725)),
    "Wiki10-31K": (COMMON, (101938, 30938, 14146, 6616)),
    "cooking-stackexchange": (COMMON, (4240, 736, 12404, 3000)),
    "debtags-bookworm": (COMMON, (13091, 598, 24212, 6088)),
    "finna-yso-en": (COMMON, (30823, 24626, 280316, 69716)),
    "jester5k": (COMMON, (10, 90, 4260, 736)),
    "WikiLSHTC-325K": (WIKIPEDIA, (1617899, 325056, 1778351, 587084)),
    "Wikipedia-500K": (WIKIPEDIA, (2381304, 501070, 1813391, 783743)),
    "WikiTitles-500K": (WIKIPEDIA, None),
    "LF-WikiTitles-500K": (WIKIPEDIA, None),
    "Amazon-670K": (AMAZON, (135909, 670091, 490449, 153025)),
    "Amazon-3M": (AMAZON, (337067, 2812281, 1717899, 742507)),
    "AmazonTitles-670K": (AMAZON, None),
    "AmazonTitles-3M": (AMAZON, None),
    "LF-Amazon-131K": (AMAZON, None),
    "LF-Amazon-1.3M": (AMAZON, None),
    "LF-AmazonTitles-131K": (AMAZON, None),
    "LF-AmazonTitles-1.3M": (AMAZON, None),
}
"""(a, b) and (features, labels, training rows, test rows) as published."""


def test_presets_are_what_was_published() -> None:
    found = {p.name: ((p.a, p.b), p.shape) for p in propensity.PRESETS}
    assert found == PUBLISHED


def test_a_name_like_two_presets_brings_up_both_and_one_like_none_brings_up_none() -> None:
    with pytest.raises(ValueError, match=r"Did you mean \S+ or \S+\? Known"):
        propensity.preset("Amazon-671K titles")
    with pytest.raises(ValueError, match=r"'zzz'\. Known"):
        propensity.preset("zzz")


# --------------------------------------------------------------------------- names and files


def test_descriptions_reach_the_models() -> None:
    labels = [[1, 0], [1, 1], [0, 0], [0, 0]]
    for text, wanted in {
        "jain": propensity.jain(labels),
        "jain:": propensity.jain(labels),
        "jain:0.5": propensity.jain(labels, a=0.5),
        "jain:0.5,0.4": propensity.jain(labels, a=0.5, b=0.4),
        "jain:Amazon-670K": propensity.jain(labels, a=0.6, b=2.6),
        "jain:amazon670k": propensity.jain(labels, a=0.6, b=2.6),
        "constant:0.25": propensity.constant(2, 0.25),
        "inverse_linear": propensity.inverse_linear(labels),
        "inverse_linear:3,5": propensity.inverse_linear(labels, head=3, tail=5),
    }.items():
        np.testing.assert_array_equal(propensity.named(text, labels), wanted)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("constant", "write constant:value"),
        ("constant:a", "write constant:value"),
        ("constant:0.5,0.5", "write constant:value"),
        ("jain:0.5,0.4,1", "write jain:a,b"),
        ("jain:0.5,x", "write jain:a,b"),
        ("inverse_linear:two", "write inverse_linear:head,tail"),
        ("jian", "neither a file nor a propensity model"),
    ],
)
def test_descriptions_that_say_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        propensity.named(text, [[1], [0], [0]])


def test_a_file_of_the_wrong_length_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_text("0.5\n0.25\n")
    np.testing.assert_array_equal(propensity.named(str(path), np.ones((1, 2))), [0.5, 0.25])
    with pytest.raises(ValueError, match="2 propensities for 3 labels"):
        propensity.named(str(path), np.ones((2, 3)))


@pytest.mark.parametrize(
    ("text", "inverse", "wanted"),
    [
        ("1\n2\n4\n", None, [1, 0.5, 0.25]),
        ("1\n2\n4\n", True, [1, 0.5, 0.25]),
        ("1\n0.5\n", None, [1, 0.5]),
        ("1\n0.5\n", False, [1, 0.5]),
        ("1\n1\n", None, [1, 1]),
        ("1.5\n1.5\n", None, [1 / 1.5] * 2),
        ("1.5\n1\n", None, [1 / 1.5, 1]),
    ],
)
def test_files_hold_p_or_its_inverse(
    tmp_path: Path, text: str, inverse: bool | None, wanted: list[float]
) -> None:
    path = tmp_path / "p.txt"
    path.write_text(text)
    np.testing.assert_array_equal(propensity.read(path, inverse=inverse), wanted)


@pytest.mark.parametrize(("text", "inverse"), [("2\n", False), ("0.5\n", True), ("0\n", True)])
def test_what_the_caller_says_of_a_file_is_held_against_it(
    tmp_path: Path, text: str, inverse: bool
) -> None:
    path = tmp_path / "p.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"p\.txt: propensities must lie in \(0, 1\]"):
        propensity.read(path, inverse=inverse)


# --------------------------------------------------------------------------------- estimates


@pytest.mark.parametrize(
    "kind", [PropensityEstimate, Ratio, Posterior, Either, CurveFit, Evidence, plans.AuditPlan]
)
def test_records_are_frozen_and_compared_by_identity(kind: Any) -> None:
    """Two records with equal arrays have no truth value to compare by."""
    settings_ = kind.__dataclass_params__
    assert settings_.frozen
    assert not settings_.eq


class Fixed:
    """An uncertainty that draws what it was given."""

    def __init__(self, drawn: Any) -> None:
        self.drawn = np.array(drawn, dtype=float)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return self.drawn[:size]


def certain(values: Any, drawn: Any) -> PropensityEstimate:
    value = np.array(values, dtype=float)
    return PropensityEstimate(
        value, value, value, 0.95, "own", np.ones_like(value), Fixed(drawn), None
    )


def test_draws_stay_where_a_correction_is_finite() -> None:
    drawn = certain([0.5, 0.5], [[0.0, 1.7], [0.2, 1.0]]).draw(seed=0, size=2)
    np.testing.assert_array_equal(drawn, [[0.001, 1.0], [0.2, 1.0]])


def test_estimates_say_what_they_are() -> None:
    assert repr(certain([0.25, 0.5], [])) == "PropensityEstimate('own', 2 labels, 0.250 to 0.500)"
    assert repr(certain([], [])) == "PropensityEstimate('own', 0 labels, none)"
    assert certain([0.5], []).effect == 1.0


# --------------------------------------------------------------------------------- marginals


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


@pytest.mark.parametrize(
    ("share", "options", "message"),
    [
        ([0.5, 1.5], {}, "got 1.5 at label 1"),
        ([0.5, 0.0], {}, "got 0 at label 1"),
        ([2.0, 0.0], {}, "got 2 at label 0"),
        ([0.5], {}, "must be 2 numbers"),
        ([0.5, 0.5], {"true_n": 0}, "true_n must be a whole number of at least 1; got 0"),
        ([0.5, 0.5], {"true_n": -3}, "got -3"),
        ([0.5, 0.5], {"confidence": 0.49}, "confidence must lie"),
        ([0.5, 0.5], {"confidence": 1.0}, "confidence must lie"),
    ],
)
def test_marginals_refuse_what_is_no_frequency(
    share: list[float], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        propensity.from_marginals(np.ones((3, 2)), share, **options)


@pytest.mark.parametrize("confidence", [0.5, 0.9999])
def test_the_widest_and_the_narrowest_interval_are_allowed(confidence: float) -> None:
    found = propensity.from_marginals(seen_in([5], 20), [0.5], confidence=confidence)
    law = beta(5.5, 15.5)
    np.testing.assert_allclose(found.low * 0.5, law.ppf((1 - confidence) / 2))


# ----------------------------------------------------------------------------------- the curve


def empty() -> Evidence:
    return Evidence.collect(np.zeros(0), np.zeros(0), np.zeros(0))


def counted(*columns: list[float], sampled: bool = False) -> Evidence:
    kept, of, counts = (np.array(column, dtype=float) for column in columns)
    return Evidence.collect(kept, of, counts, sampled)


def test_the_curve_stays_inside_the_unit_interval_at_every_bound() -> None:
    """Where rounding would give 0 or 1, the likelihood would not be finite."""
    corners = np.stack(np.meshgrid(*frequency_curve.BOUNDS, indexing="ij"), -1).reshape(-1, 4)
    counts = np.array([0.0, 1.0, 1e9])
    c = frequency_curve.level(corners, counts)
    assert c.shape == (16, 3)
    assert ((c > 0) & (c < 1)).all()
    seen = counted([0, 1, 5], [5, 1, 5], [0, 1, 1e9])
    assert np.isfinite(frequency_curve.log_likelihood(corners, seen)).all()


def test_the_curve_is_one_over_one_plus_scale_at_a_single_positive() -> None:
    theta = np.log([0.7, 2.0, 9.0, 3.0])
    assert frequency_curve.level(theta, np.array([1.0]))[0] == pytest.approx(0.25, rel=1e-14)
    far = frequency_curve.level(theta, np.array([28.0]))[0]
    assert far == pytest.approx(1 / (1 + 3 * 10**-0.7), rel=1e-14)


def test_many_parameters_are_evaluated_like_one_at_a_time() -> None:
    thetas = np.log([[0.5, 1.5, 30, 6.0], [1.2, 0.3, 4, 2.0]])
    for sampled in (False, True):
        seen = counted([3, 1, 0], [9, 1, 4], [30, 2, 7], sampled=sampled)
        apart = [float(frequency_curve.log_likelihood(theta, seen)) for theta in thetas]
        np.testing.assert_allclose(frequency_curve.log_likelihood(thetas, seen), apart, rtol=1e-13)


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
    return frequency_curve.fit(SEEN, 5000, free=free, confidence=confidence, effect=effect, rng=rng)


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
            there = float(
                frequency_curve.log_likelihood(frequency_curve.maximize(SEEN, held, others), SEEN)
            )
            fallen = fitted.log_likelihood - there
            if np.isclose(end, frequency_curve.BOUNDS[axis]).any():
                assert fallen < chi2.ppf(0.8, 1) / 2
            else:
                assert fallen == pytest.approx(chi2.ppf(0.8, 1) / 2, abs=0.06)
                ends += 1
    assert ends >= 3


def test_the_maximum_is_stationary() -> None:
    """Inside the bounds the derivative vanishes on every axis that was open."""
    start = np.r_[frequency_curve.COMMON, np.log(np.log(5000) - 1)]
    for axes in ([True, True, True, False], [True, False, True, True]):
        found = frequency_curve.maximize(SEEN, start, np.array(axes))
        np.testing.assert_array_equal(found[~np.array(axes)], start[~np.array(axes)])
        inside = (
            np.array(axes)
            & (found > frequency_curve.BOUNDS[:, 0])
            & (found < frequency_curve.BOUNDS[:, 1])
        )
        assert inside.any()
        np.testing.assert_allclose(frequency_curve.slope(found, SEEN)[inside], 0, atol=1e-3)


def test_an_interval_that_the_data_leave_open_ends_at_the_bound() -> None:
    """From hardly any evidence to much: an end is the bound, or where the likelihood fell."""
    axes, a = np.array([True, False, True, False]), 0
    start = np.log([0.55, 1.5, 30.0, np.log(5000) - 1])
    bounds, closed = np.exp(frequency_curve.BOUNDS[a]), []
    for size in (1, 2, 3, 4, 6, 8, 12, 16, 24, 400):
        seen = counted([size * 0.1] * 4, [size / 4] * 4, [498, 499, 500, 501])
        best = frequency_curve.maximize(seen, start, axes)
        target = float(frequency_curve.log_likelihood(best, seen)) - 1.92
        low, high = frequency_curve.profile(seen, best, a, axes, target)
        assert low <= np.exp(best[a]) <= high
        for end, bound in zip((low, high), bounds, strict=True):
            held = np.r_[np.log(end), best[1:]]
            there = frequency_curve.maximize(seen, held, axes & (np.arange(4) != a))
            fallen = float(frequency_curve.log_likelihood(there, seen)) - target
            assert abs(fallen) < 0.1 or (end == pytest.approx(bound) and fallen > 0)
        closed.append(bool(low > bounds[0] * 1.001))
    assert closed == sorted(closed)
    assert (closed[0], closed[-1]) == (False, True)


def test_without_evidence_the_draws_are_those_of_the_prior() -> None:
    """Log-normal around the centre with the stated spread, cut at the bounds."""
    centre = np.r_[frequency_curve.COMMON, 1.0]
    sources = (np.random.default_rng(seed) for seed in range(12))
    axes = np.ones(4, dtype=bool)
    drawn = np.concatenate(
        [frequency_curve._draws(empty(), centre, centre, axes, rng) for rng in sources]
    )
    low, high = ((frequency_curve.BOUNDS - centre[:, None]) / frequency_curve.SPREAD[:, None]).T
    law = truncnorm(low, high, loc=centre, scale=frequency_curve.SPREAD)
    np.testing.assert_allclose(drawn.mean(axis=0), law.mean(), atol=0.2)
    np.testing.assert_allclose(drawn.std(axis=0), law.std(), rtol=0.12)
    assert ((drawn >= frequency_curve.BOUNDS[:, 0]) & (drawn <= frequency_curve.BOUNDS[:, 1])).all()
    np.testing.assert_allclose(np.corrcoef(drawn.T), np.eye(4), atol=0.15)


def test_a_stretch_leaves_a_distribution_as_it_is() -> None:
    """Draws of a Gaussian in three dimensions, moved many times, are draws of it still."""
    rng = np.random.default_rng(0)
    scale = np.array([0.1, 1.0, 20.0])

    def density(x: np.ndarray) -> np.ndarray:
        return -((x / scale) ** 2).sum(axis=1) / 2

    size = 20_000
    state = rng.standard_normal((size, 3)) * scale
    value, before = density(state), state.copy()
    halves = np.arange(size).reshape(2, -1)
    for _ in range(6):
        for movers, partners in (halves, halves[::-1]):
            frequency_curve._stretch(density, state, value, movers, partners, rng)
    np.testing.assert_array_equal(value, density(state))
    assert 0.8 < (state != before).all(axis=1).mean() < 1
    np.testing.assert_allclose(state.mean(axis=0) / scale, 0, atol=0.05)
    np.testing.assert_allclose(np.cov((state / scale).T), np.eye(3), atol=0.06)


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
            frequency_curve.ensemble(density, np.array(corner), bounds, np.random.default_rng(seed))
        )
        assert ((asked[0] > bounds[:, 0]) & (asked[0] < bounds[:, 1])).all()
        near = np.abs(asked[0] - corner) / np.ptp(bounds, axis=1)
        assert np.median(near, axis=0).max() < 0.25
        assert len(np.unique(asked[0], axis=0)) == len(asked[0])
    every = (np.concatenate(drawn) - bounds[:, 0]) / np.ptp(bounds, axis=1)
    assert ((every >= 0) & (every <= 1)).all()
    np.testing.assert_allclose(every.mean(axis=0), 0.5, atol=0.1)
    np.testing.assert_allclose(every.var(axis=0), 1 / 12, rtol=0.25)


# ----------------------------------------------------------------------------------- the audit


def posterior(
    kept: Any, of: Any, draws: Any, *, common: float = 0.0, counts: float = 1.0
) -> Posterior:
    """What is known if the curve is one of `draws`, at counts where it is 1 / (1 + scale)."""
    k, total = np.array(kept, dtype=float), np.array(of, dtype=float)
    table = np.array(draws, dtype=float)
    fitted = CurveFit(*table[0], {}, 1000, True, table, 0.0)
    return Posterior(fitted, k, total, np.full(k.size, counts), False, common)


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


def test_rows_that_keep_everything_have_no_design_effect() -> None:
    true = sp.csr_array(np.ones((3, 2), dtype=np.float32))
    assert design_effect(true, true) == 1.0
    half = sp.csr_array(np.array([[1, 1], [0, 0]], dtype=np.float32))
    assert design_effect(half, sp.csr_array(np.ones((2, 2), dtype=np.float32))) == 2.0


def test_an_audit_is_its_counts() -> None:
    """By default along K + ½ of n + 1 rows, known from a sample only; else along what is given."""
    kept, true = random_masks(0)
    k, total = kept.sum(axis=0), true.sum(axis=0)
    effect = design_effect(sp.csr_array(kept), sp.csr_array(true))
    alone = propensity.audit(kept, true)
    same = propensity.from_counts(k, total, counts=total + 0.5, n=10, sampled=True, effect=effect)
    np.testing.assert_array_equal(alone.value, same.value)
    np.testing.assert_array_equal(alone.high, same.high)
    assert (alone.effect, alone.method, same.method) == (effect, "audit", "counts")
    assert not any("not among the complete" in note for note in alone.notes)
    counts = [3, 50, 70, 20, 10, 40, 0]
    placed = propensity.audit(kept, true, counts=counts, n=500)
    np.testing.assert_array_equal(
        placed.value, propensity.from_counts(k, total, counts=counts, n=500, effect=effect).value
    )


def test_estimators_agree_on_their_defaults() -> None:
    """95 % intervals, seed 0; labels are held to be independent unless said otherwise."""
    for estimator in (*propensity.ESTIMATORS.values(), propensity.from_counts):
        given = inspect.signature(estimator).parameters
        assert given["confidence"].default == 0.95
        assert "seed" not in given or given["seed"].default == 0
    given = inspect.signature(propensity.from_counts).parameters
    assert (given["sampled"].default, given["effect"].default) == (False, 1.0)
    assert inspect.signature(frequency_curve.fit).parameters["effect"].default == 1.0
    assert inspect.signature(propensity.audit_plan).parameters["label_cost"].default == 0.0


def test_counts_at_their_bounds_are_taken() -> None:
    """All kept, a label in every training row, three rows, and the least confidence."""
    found = propensity.from_counts([3, 0], [3, 2], counts=[3, 0], n=3, confidence=0.5)
    assert found.value[0] > found.value[1]
    assert ((found.low > 0) & (found.low < found.high) & (found.high < 1)).all()
    sure = propensity.from_counts([3, 0], [3, 2], counts=[3, 0], n=3, confidence=0.9999)
    assert (sure.high - sure.low > found.high - found.low).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
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
    ],
)
def test_counts_that_say_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    given = {"kept": [1, 1], "of": [2, 2], "counts": [1, 5], "n": 9, **options}
    with pytest.raises(ValueError, match=message):
        propensity.from_counts(given.pop("kept"), given.pop("of"), **given)


@pytest.mark.parametrize("wrong", [{"counts": [1, 2]}, {"n": 9}])
@pytest.mark.parametrize("estimator", ["audit", "model", "recapture"])
def test_counts_and_rows_come_together(estimator: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="both `counts` and `n`"):
        propensity.ESTIMATORS[estimator](np.ones((4, 2)), np.ones((4, 2)), **wrong)


def test_an_audit_mentions_what_it_left_out_and_what_errs_together() -> None:
    from unmask.propensity.audit import _notes

    assert _notes(0, 9, 1.0) == ()
    assert [note[:6] for note in _notes(2, 9, 1.0)] == ["2 of 9"]
    assert ["design effect 2.0" in note for note in _notes(0, 9, 2.0)] == [True]
    assert len(_notes(1, 9, 3.0)) == 2


def test_a_curve_that_the_counts_leave_open_is_mentioned() -> None:
    from unmask.propensity.audit import _curve_notes

    intervals = {"a": (0.01, 9.0), "b": (10.0, 40.0), "concentration": (2.0, 1e5)}
    known = posterior([3], [5], [[0.5, 1.0, 6.0, 2.0]])
    notes = _curve_notes(replace(known, curve=replace(known.curve, intervals=intervals)))
    assert notes == ("a is hardly determined by these counts (anything from 0.01 to 9).",)


def test_a_free_curve_is_advised_at_one_in_a_hundred() -> None:
    """Twice the gain in log-likelihood, which is χ²₁ if the level of the curve is Jain's."""
    for size, advised in ((1.5, False), (4.0, True)):
        kept, of = np.array([0.8, 0.9, 0.84]) * size, [size] * 3
        held, free = (
            propensity.from_counts(kept, of, counts=[2, 30, 400], n=100_000, curve=each)
            for each in ("jain", "free")
        )
        ratio = 2 * (free.curve.log_likelihood - held.curve.log_likelihood)
        assert (chi2.sf(ratio, 1) < 0.01) == advised
        assert chi2.sf(ratio, 2) > 0.01  # two degrees of freedom would not have been right
        said = f"likelihood ratio {ratio:.1f}, level {free.curve.scale:.2g} against"
        assert any(said in note for note in held.notes) == advised
        assert not any("likelihood ratio" in note for note in free.notes)


# --------------------------------------------------------------------- a model, two annotations


def test_a_model_is_its_sums_over_positives() -> None:
    """Probabilities of 0 and 1 are probabilities; what stands at other places does not matter."""
    observed = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]])
    probabilities = np.array(
        [[0.0, NAN, 9], [0.25, 1.0, 0], [7, 0.5, 0], [1.0, 0.125, 0], [0.3, 0.3, 0.1]]
    )
    sums, total = [1.25, 1.625, 0.0], np.array([3.0, 3.0, 0.0])
    alone = propensity.from_model(probabilities, observed)
    same = propensity.from_counts(sums, total, counts=total + 0.5, n=6, sampled=True, curve="free")
    np.testing.assert_array_equal(alone.value, same.value)
    placed = propensity.from_model(probabilities, observed, counts=[9, 8, 2], n=40)
    same = propensity.from_counts(sums, total, counts=[9, 8, 2], n=40, curve="free")
    np.testing.assert_array_equal(placed.value, same.value)


@pytest.mark.parametrize("wrong", [-0.25, 1.25, NAN, INF])
def test_a_model_of_scores_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="probabilities must"):
        propensity.from_model([[wrong], [0.5]], [[1], [1]])


def test_a_model_without_a_single_positive_is_refused() -> None:
    with pytest.raises(ValueError, match="no audited row has a true label"):
        propensity.from_model([[0.5]] * 4, [[0]] * 4)


def test_chapman_by_hand() -> None:
    """(n₁, n₂, m) = (5, 4, 2): 6·5/3 − 1 and 6·5·3·2/(3²·4); nothing twice; nothing."""
    first, second = np.zeros((9, 3)), np.zeros((9, 3))
    first[:5, 0], second[3:7, 0] = 1, 1
    first[:3, 1], second[5:7, 1] = 1, 1
    size, variance = propensity.chapman(first, second)
    np.testing.assert_allclose(size, [9, 11, 0], rtol=1e-15)
    np.testing.assert_allclose(variance, [5, 4 * 3 * 3 * 2 / 2, 0], rtol=1e-15)


def gamma_rule(shape: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for means over a Gamma variable."""
    from scipy.special import roots_genlaguerre

    nodes, weights = roots_genlaguerre(40, shape - 1)
    return nodes, weights / weights.sum()


def test_what_neither_found_shares_the_labels_that_both_found() -> None:
    """Mean and mean square of (1 − p₁)(1 − p₂), by quadrature over the five Gamma variables."""
    m, wide = 4.0, 6000
    first = posterior([m] * wide, [9.0] * wide, [[0.5, 1.0, 6.0, 2.0]])  # Beta(m + 2, 5 + 4)
    second = posterior([m] * wide, [7.0] * wide, [[0.5, 1.0, 5.0, 4.0]])  # Beta(m + 1, 3 + 4)
    drawn = 1 - Either(first, second).sample(np.random.default_rng(0), 12).ravel()
    both, weight = gamma_rule(m)

    def missed(own: float, lost: float, power: int) -> np.ndarray:
        (x, wx), (y, wy) = gamma_rule(own), gamma_rule(lost)
        share = y / (both[:, None, None] + x[:, None] + y)
        return np.einsum("gxy,x,y->g", share**power, wx, wy)

    for power in (1, 2):
        wanted = weight @ (missed(2.0, 9.0, power) * missed(1.0, 7.0, power))
        assert (drawn**power).mean() == pytest.approx(wanted, rel=0.01)


def test_either_shifts_the_odds_of_a_draw_together() -> None:
    """The second annotation finds nothing: what is left is the first's Beta and common error."""
    from scipy.special import polygamma, psi

    first = posterior([0.0] * 300, [4.0] * 300, [[0.5, 1.0, 6.0, 2.0]], common=0.5)
    second = posterior([0.0] * 300, [1e7] * 300, [[0.5, 1.0, 2.0, 1e12]])
    drawn = Either(first, second).sample(np.random.default_rng(0), 500)
    logits = np.log(drawn / (1 - drawn))
    together = logits.mean(axis=1)
    own = float(polygamma(1, 2) + polygamma(1, 8))
    assert together.mean() == pytest.approx(psi(2) - psi(8), abs=0.1)
    assert together.std() == pytest.approx(np.sqrt(0.25 + own / 300), rel=0.12)
    assert (logits - together[:, None]).var() == pytest.approx(own, rel=0.03)


@cache
def either() -> PropensityEstimate:
    true = np.ones((40, 3))
    one, two = (np.random.default_rng(s).random((40, 3)) < 0.6 for s in (1, 2))
    return propensity.recapture(true * one, true * two, of="either", confidence=0.8)


def test_either_states_the_mean_and_the_quantiles_of_its_draws() -> None:
    from unmask.propensity.recapture import DRAWS

    found = either()
    drawn = found.uncertainty.sample(np.random.default_rng(0), DRAWS)
    np.testing.assert_array_equal(found.value, drawn.mean(axis=0))
    np.testing.assert_allclose(found.low, np.quantile(drawn, 0.1, axis=0))
    np.testing.assert_allclose(found.high, np.quantile(drawn, 0.9, axis=0))
    assert (found.method, found.confidence, len(found)) == ("recapture", 0.8, 3)


# ------------------------------------------------------------------------------ saved estimates


@cache
def audited() -> PropensityEstimate:
    return propensity.from_counts([3, 1], [9, 4], counts=[3, 50], n=1000)


def changed(record: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A deep copy with one place changed, through JSON."""
    copy = json.loads(json.dumps(record))
    *above, last = path.split(".")
    inner = copy
    for name in above:
        inner = inner[name]
    inner[last] = value
    return dict(copy)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("value", [0.5, 0.0]),
        ("value", [0.5]),
        ("low", [0.1]),
        ("high", [0.5, -1.0]),
        ("evidence", [1.0, NAN]),
        ("confidence", -0.01),
        ("confidence", 1.01),
        ("effect", -0.01),
        ("effect", INF),
        ("method", 7),
        ("notes", [1.0, 2.0]),
        ("notes", ["right", 2.0]),
        ("notes", "text"),
        ("curve.draws", []),
        ("curve.draws", [1.0, 1.0, 1.0, 1.0]),
        ("curve.draws", [[1.0, 1.0, 1.0]]),
        ("curve.draws", [[1.0, 1.0, 1.0, 0.0]]),
        ("curve.draws", [[1.0, 1.0, 1.0, INF]]),
        ("curve.a", 0.0),
        ("curve.scale", -1.0),
        ("curve.intervals", {"a": [1.0]}),
        ("uncertainty.curve.draws", [[1.0, 1.0, 1.0, 0.0]]),
        ("uncertainty.curve.b", 0.0),
        ("uncertainty.kept", [1.0, 1.0, 1.0]),
        ("uncertainty.kind", "Evidence"),
        ("uncertainty", None),
    ],
)
def test_a_record_with_one_thing_wrong_is_damaged(path: str, value: Any) -> None:
    record = to_record(audited())
    assert isinstance(from_record(changed(record, "method", "other")), PropensityEstimate)
    with pytest.raises(ValueError, match="damaged"):
        from_record(changed(record, path, value))


@pytest.mark.parametrize("which", ["first", "second"])
def test_both_annotations_of_a_record_are_looked_at(which: str) -> None:
    record = to_record(either())
    with pytest.raises(ValueError, match="parameters of a curve must be positive"):
        from_record(changed(record, f"uncertainty.{which}.curve.a", -1.0))


@pytest.mark.parametrize(
    ("path", "value"),
    [("confidence", 0.0), ("confidence", 1.0), ("effect", 0.5), ("curve.a", 0.25), ("notes", [])],
)
def test_a_record_at_its_bounds_is_read(path: str, value: Any) -> None:
    again = from_record(changed(to_record(audited()), path, value))
    assert isinstance(again.notes, tuple)
    np.testing.assert_array_equal(again.draw(1, 3), audited().draw(1, 3))
    assert audited().draw(1, 0).shape == (0, len(audited()))


@pytest.mark.parametrize("record", [None, 3, [], {}, {"kind": "Ratio"}, "PropensityEstimate"])
def test_what_is_no_record_is_refused(record: Any) -> None:
    with pytest.raises(ValueError, match="no propensity estimate"):
        from_record(record)


def test_records_give_back_every_field(tmp_path: Path) -> None:
    """Also one note, one label, one draw of the frequency_curve, and no label at all."""
    one = replace(audited(), notes=("x",), effect=1.25)
    none = propensity.from_marginals(np.zeros((4, 0)), [])
    single = propensity.from_marginals([[1], [0], [0]], [0.5], true_n=7)
    for at, estimate in enumerate((one, none, single)):
        propensity.write(tmp_path / f"{at}.json", estimate)
        again = propensity.read(tmp_path / f"{at}.json")
        assert isinstance(again, PropensityEstimate)
        assert to_record(again) == to_record(estimate)
        assert (again.notes, again.effect) == (estimate.notes, estimate.effect)
        assert again.draw(0, 3).shape == (3, len(estimate))
    assert again.uncertainty.true_n == 7


# ------------------------------------------------------------------------------------ the plan


def sure_predictions(named: list[list[int]], n_labels: int) -> tuple[TopK, np.ndarray]:
    """Predictions all of which are observed, hence certainly true, and the labels."""
    width = max(map(len, named))
    padded = [row + [-1] * (width - len(row)) for row in named]
    scores = [[1.0 - j / 9 for j in range(len(r))] + [-INF] * (width - len(r)) for r in named]
    labels = np.zeros((len(named), n_labels))
    for row, each in enumerate(named):
        labels[row, each] = 1
    return TopK(padded, scores), labels


def variance(p: np.ndarray, slope: np.ndarray, own: np.ndarray, common: np.ndarray) -> np.ndarray:
    """s_j² v_j / K_j of every label and S_g² v_g / K_g of its group; at most 8 labels: one each."""
    return slope**2 * (1 - p) / p * np.array([1 / own, 1 / common])


NAMED = [[0], [1, 2], [2], [3, 0, 1], [], [1], [3]]
GUESS = np.array([0.2, 0.5, 0.8, 0.4])


@pytest.mark.parametrize("label_cost", [0.0, 0.5])
@pytest.mark.parametrize("k", [None, 2, 9])
def test_a_plan_by_hand(k: int | None, label_cost: float) -> None:
    """Certain predictions: each further row is the one that lowers Var(θ) most for its cost."""
    top, labels = sure_predictions(NAMED, 4)
    places = min(k or 3, 3)
    budget = 3.0
    found = propensity.audit_plan(top, labels, GUESS, budget=budget, k=k, label_cost=label_cost)
    hits = np.array([sum(j in row[:places] for row in NAMED) for j in range(4)])
    slope = hits / GUESS / (places * len(NAMED))
    own, common = np.full(4, plans.CURVE_WORTH), np.full(4, plans.GUESS_WORTH)
    start = variance(GUESS, slope, own, common)
    assert found.before == pytest.approx(np.sqrt(start.sum()), rel=1e-12)
    np.testing.assert_allclose(found.labels, start.sum(axis=0) / start.sum(), rtol=1e-12)
    cost = 1 + label_cost * labels.sum(axis=1)
    blind = found.cost / cost.mean() * labels.mean(axis=0)
    wanted = variance(GUESS, slope, own + blind, common + blind).sum()
    assert found.uniform == pytest.approx(np.sqrt(wanted), rel=1e-12)

    left, spent, rows = set(range(len(NAMED))), 0.0, []
    while left:
        now = variance(GUESS, slope, own, common)
        more = variance(GUESS, slope, own + 1, common + 1)  # of an audited label, one more
        gain = ((now - more).sum(axis=0) * labels).sum(axis=1) / cost
        best = max(left, key=lambda row: (gain[row], -row))
        if spent + cost[best] > budget:
            break
        left.remove(best)
        rows.append(best)
        spent += cost[best]
        own, common = own + labels[best], common + labels[best]
    assert found.rows.tolist() == rows
    assert found.cost == pytest.approx(spent, rel=1e-12)
    wanted = variance(GUESS, slope, own, common).sum()
    assert found.after == pytest.approx(np.sqrt(wanted), rel=1e-12)


def test_what_was_audited_once_is_worth_less() -> None:
    """Two rows of four: the pair that leaves the least variance, of all pairs, is planned."""
    top, labels = sure_predictions([[0], [0], [1], [1]], 2)
    p = np.array([0.5, 0.5845])
    slope = np.array([2, 2]) / p / 4

    def left(pair: tuple[int, ...]) -> float:
        more = labels[list(pair)].sum(axis=0)
        known = plans.CURVE_WORTH + more, plans.GUESS_WORTH + more
        return float(variance(p, slope, *known).sum())

    best = min(combinations(range(4), 2), key=left)
    found = propensity.audit_plan(top, labels, p, budget=2)
    assert tuple(found.rows) == best == (0, 2)
    assert found.after == pytest.approx(np.sqrt(left(best)), rel=1e-12)


def test_a_plan_for_a_single_label() -> None:
    top, labels = sure_predictions([[0], [0]], 1)
    assert propensity.audit_plan(top, labels, [0.5], budget=1).rows.tolist() == [0]


def test_labels_of_similar_propensity_err_together() -> None:
    """16 labels in eight pairs by rank: a pair's common error is shared between the two."""
    p = np.random.default_rng(0).permutation(np.linspace(0.1, 0.9, 16))
    top, labels = sure_predictions([[j] for j in range(16)] + [[3], [3], [5]], 16)
    found = propensity.audit_plan(top, labels, p, budget=1)
    slope = labels.sum(axis=0) / p / 19
    odds = (1 - p) / p
    shares = slope**2 * odds / plans.CURVE_WORTH
    for pair in np.argsort(p).reshape(8, 2):
        shares[pair] += slope[pair].sum() ** 2 * odds[pair].mean() / plans.GUESS_WORTH / 2
    assert found.before == pytest.approx(np.sqrt(shares.sum()), rel=1e-12)
    np.testing.assert_allclose(found.labels, shares / shares.sum(), rtol=1e-12)


def test_an_estimate_is_worth_what_its_draws_say() -> None:
    """K = v / Var(ln p), of each label within its pair and of the pair, and at least 1."""
    rng = np.random.default_rng(0)
    p = rng.permutation(np.linspace(0.1, 0.9, 16))
    spread = np.where(p > 0.7, 2.0, np.linspace(0.01, 0.3, 16))
    logs = np.log(p) + spread * rng.standard_normal((200, 16)) + 0.1 * rng.standard_normal((200, 1))
    top, labels = sure_predictions([[j] for j in range(16)], 16)
    estimate = certain(p, np.exp(logs))
    found = propensity.audit_plan(top, labels, estimate, budget=1)
    logs = np.log(estimate.draw(seed=0, size=200))
    slope, odds = 1 / p / 16, (1 - p) / p
    wanted = 0.0
    for pair in np.argsort(p).reshape(8, 2):
        mean = logs[:, pair].mean(axis=1)
        own = np.maximum(odds[pair] / (logs[:, pair] - mean[:, None]).var(axis=0), 1)
        common = max(odds[pair].mean() / mean.var(), 1)
        wanted += (slope[pair] ** 2 * odds[pair] / own).sum()
        wanted += slope[pair].sum() ** 2 * odds[pair].mean() / common
    assert found.before == pytest.approx(np.sqrt(wanted), rel=1e-9)


def test_a_label_whose_draws_agree_is_known() -> None:
    """Draws that do not vary leave nothing to find out."""
    top, labels = sure_predictions([[0], [1]], 2)
    found = propensity.audit_plan(top, labels, certain([0.5, 0.5], [[0.5, 0.5]] * 200), budget=1)
    assert 0 < found.before < 1e-4


def test_scores_are_cut_into_equal_parts() -> None:
    """60 distinct scores make 30 pairs; one of each pair is seen, of a label with its own p."""
    p = np.linspace(1.0, 0.51, 30)
    named = np.repeat(np.arange(30), 2)[:, None]
    scores = np.arange(60.0)[:, None]
    labels = np.zeros((60, 30))
    labels[np.arange(0, 60, 2), named[::2, 0]] = 1
    chance = plans._chances(TopK(named, scores), sp.csr_array(labels), p)
    np.testing.assert_allclose(chance.toarray()[np.arange(60), named[:, 0]], np.repeat(0.5 / p, 2))
    assert chance.nnz == 60


def test_chances_are_chances() -> None:
    """Never above 1, however rare the label, and never 0, even if nothing was ever seen."""
    labels = sp.csr_array(np.array([[1.0], [1.0], [0.0], [0.0]]))
    top = TopK(np.zeros((4, 1), int), np.array([[9.0], [8.0], [-1.0], [-2.0]]))
    chance = plans._chances(top, labels, np.array([0.1])).toarray().ravel()
    np.testing.assert_array_equal(chance, [1, 1, 1e-3, 1e-3])


def test_a_budget_without_end_audits_everything() -> None:
    top, labels = sure_predictions(NAMED, 4)
    for options in ({}, {"label_cost": 0.3}):
        found = propensity.audit_plan(top, labels, GUESS, budget=INF, **options)
        assert sorted(found.rows) == list(range(len(NAMED)))
        assert found.after == pytest.approx(found.uniform, rel=1e-9)
    same = propensity.audit_plan(top, labels, GUESS, budget=len(NAMED))
    assert same.cost == len(NAMED)


def test_a_budget_below_the_cheapest_row_buys_nothing() -> None:
    top, labels = sure_predictions([[0, 1], [1, 0]], 2)
    found = propensity.audit_plan(top, labels, [0.5, 0.4], budget=1, label_cost=1.0)
    assert (found.rows.size, found.cost) == (0, 0.0)
    assert found.before == found.after == found.uniform
    one = propensity.audit_plan(top, labels, [0.5, 0.4], budget=3, label_cost=1.0)
    assert (one.rows.tolist(), one.cost) == ([0], 3.0)


def test_nothing_is_left_to_find_where_no_label_is_lost() -> None:
    top, labels = sure_predictions(NAMED, 4)
    found = propensity.audit_plan(top, labels, np.ones(4), budget=2)
    assert found.before == found.after == 0
    np.testing.assert_array_equal(found.labels, 0)


def test_recall_moves_only_where_a_row_has_labels_found_and_not_found() -> None:
    """Labels 0 and 1 observed, 0 predicted: R = (1/p₀) / (1/p₀ + 1/p₁). Other rows have 0 or 1."""
    top = TopK([[0], [0], [1]], [[0.9], [0.8], [0.1]])
    labels = sp.csr_array(np.array([[1.0, 1.0], [0, 0], [0, 1.0]]))
    p = np.array([0.25, 0.8])
    slope = plans.METRICS["recall"](top, labels, p, 1)
    recall = 4 / 5.25
    np.testing.assert_allclose(slope, np.array([-1, 1]) * recall * (1 - recall) / 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": 0.99}, r"budget must lie in \[1, inf\]"),
        ({"budget": NAN}, "budget must lie"),
        ({"label_cost": -0.1}, "label_cost must lie"),
        ({"label_cost": INF}, "label_cost must lie"),
        ({"metric": "ndcg"}, "unknown metric 'ndcg'; use one of: precision, recall"),
        ({"k": 0}, "k must be a whole number"),
        ({"propensity": [0.5]}, "1 propensities for 4 labels"),
        ({"top": TopK([[4]] * 7, [[0.5]] * 7)}, "label 4 is predicted, but there are 4 labels"),
        ({"top": TopK([[-1]] * 7, [[-INF]] * 7)}, "no row has a prediction"),
    ],
)
def test_plans_that_cannot_be_made_are_refused(change: dict[str, Any], message: str) -> None:
    top, labels = sure_predictions(NAMED, 4)
    given = {"top": top, "labels": labels, "propensity": GUESS, "budget": 2, **change}
    with pytest.raises(ValueError, match=message):
        propensity.audit_plan(**given)
