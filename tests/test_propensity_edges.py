"""Propensities at their edges: bounds, defaults, refusals, and sampling against exact laws."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import beta, betabinom, chi2, norm, truncnorm

from unmask import propensity
from unmask.predictions import TopK
from unmask.propensity import PropensityEstimate, curve
from unmask.propensity import plan as plans
from unmask.propensity.audit import Posterior, design_effect, fit_posterior, residuals, was_kept
from unmask.propensity.curve import CurveFit, Evidence
from unmask.propensity.marginals import Ratio
from unmask.propensity.recapture import Either
from unmask.propensity.saved import from_record, to_record

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
    np.testing.assert_allclose(np.exp(curve.COMMON[:2]), [0.55, 1.5])
    np.testing.assert_array_equal(1 / propensity.inverse_linear(labels), [2, 20])


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


@pytest.mark.parametrize("kind", [PropensityEstimate, Ratio, Posterior, Either, CurveFit, Evidence])
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
