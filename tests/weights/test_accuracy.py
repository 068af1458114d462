"""What `docs/accuracy.md` promises, against rationals and mpmath, where no other test holds it.

From p = 1e-6 to 1 and rows of up to 2,000 labels a result is as exact as stated, or it is the
largest float64 with a warning, an estimate called unusable, or an error: never silently wrong.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.paths import ROOT
from unmask import linear, losses, metrics, propensity, weights
from unmask.metrics.claims import Reason
from unmask.predictions import TopK

EPSILON = float(np.finfo(np.float64).eps)
LARGEST = float(np.finfo(np.float64).max)
EXTREMES = [1e-6, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.5001, 0.6, 0.9, 0.99, 1 - 1e-6, 1 - 1e-12, 1.0]
LENGTHS = [1, 2, 3, 10, 64, 65, 200, 501, 1000, 2000]


def unclouded(inverse: np.ndarray, i: int) -> float:
    """log of a_i ∫ Π_{k≠i} |1 − u a_k| du: the size of T_i if nothing cancelled."""
    values, counts = np.unique(np.delete(inverse, i), return_counts=True)
    u = (np.arange(200_000) + 0.5) / 200_000
    with np.errstate(divide="ignore"):
        logs = sum(c * np.log(np.abs(1 - u * a)) for a, c in zip(values, counts, strict=True))
    high = np.max(logs)
    return float(np.log(inverse[i]) + high + np.log(np.mean(np.exp(logs - high))))


def t_of(inverse: np.ndarray) -> tuple[np.ndarray, bool]:
    """T of one row, and whether a warning said that it exceeds float64."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = weights.normalized_weights(np.array([0, inverse.size]), inverse)
    assert all("exceed float64" in str(each.message) for each in caught)
    return found, bool(caught)


def assert_accurate(inverse: np.ndarray, exact: dict[int, Any]) -> None:
    """The promise: within (16 + m/4) ε of `unclouded`, or the largest float with a warning."""
    found, warned = t_of(inverse)
    beyond = [i for i, t in exact.items() if abs(t) > LARGEST]
    assert warned or not beyond
    for i, t in exact.items():
        if i in beyond:
            assert found[i] == (LARGEST if t > 0 else -LARGEST)
        else:
            size = mpmath.exp(unclouded(inverse, i))
            assert abs(found[i] - t) <= (16 + inverse.size / 4) * EPSILON * size


def test_equal_propensities_have_a_closed_form() -> None:
    """T = (1 − (1 − a)^m) / m, from almost nothing to far beyond float64."""
    for p in EXTREMES:
        a = 1 / np.float64(p)
        for m in LENGTHS:
            exact = (1 - (1 - Fraction(float(a))) ** m) / m if m <= 65 else _closed(float(a), m)
            assert_accurate(np.full(m, a), {0: exact, m // 2: exact, m - 1: exact})


def _closed(a: float, m: int) -> Any:
    with mpmath.workdps(60 + 16 * (abs(a - 2) < 0.1) + int(m * math.log10(a + 1))):
        return (1 - (1 - mpmath.mpf(a)) ** m) / m


def two_groups(a: float, b: float, r: int, s: int) -> Any:
    """∫₀¹ (1 − a u)^r (1 − b u)^s du by parts, s times, with digits enough for what cancels."""
    with mpmath.workdps(80 + int(1.2 * (r + s) * math.log10(max(a, b) + 1))):
        x, y = mpmath.mpf(a), mpmath.mpf(b)
        total, factor, left, right = mpmath.mpf(0), mpmath.mpf(1), (1 - x) ** (r + 1), (1 - y) ** s
        for k in range(s + 1):
            total += factor * (1 - left * right) / (x * (r + k + 1))
            factor *= -y * (s - k) / (x * (r + k + 1))
            left *= 1 - x
            right = right / (1 - y) if s > k else right
        return total


def test_two_propensities_in_long_rows() -> None:
    for m, s, p, q in [
        (2, 1, 0.3, 0.9),
        (10, 4, 1e-6, 0.5),
        (65, 20, 1e-6, 0.9),
        (200, 30, 1e-3, 0.9),
        (1000, 40, 0.01, 0.9),
        (1000, 30, 0.7, 0.01),
        (2000, 20, 0.5, 0.99),
        (2000, 20, 0.9, 1e-6),
        (2000, 5, 1 - 1e-6, 1e-6),
    ]:
        a, b = float(1 / np.float64(p)), float(1 / np.float64(q))
        first = mpmath.mpf(a) * two_groups(a, b, m - s - 1, s)
        last = mpmath.mpf(b) * two_groups(a, b, m - s, s - 1)
        assert_accurate(np.r_[np.full(m - s, a), np.full(s, b)], {0: first, m - 1: last})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-6, 0), min_size=1, max_size=12))
def test_any_propensities_in_short_rows(exponents: list[float]) -> None:
    inverse = 1 / np.power(10.0, np.array(exponents))
    exact = {0: _expanded([Fraction(float(a)) for a in inverse], 0)}
    assert_accurate(inverse, exact)


def _expanded(inverse: list[Fraction], i: int) -> Fraction:
    """a_i ∫ Π_{k≠i} (1 − a_k u) du from the polynomial's coefficients, in rationals."""
    coefficients = [Fraction(1)]
    for k, a in enumerate(inverse):
        if k != i:
            longer = [*coefficients, Fraction(0)]
            for power, c in enumerate(coefficients):
                longer[power + 1] -= a * c
            coefficients = longer
    return inverse[i] * sum((c / (n + 1) for n, c in enumerate(coefficients)), Fraction(0))


@pytest.mark.parametrize("m", [1, 2, 50, 2000])
def test_bounds_lose_a_rounding_per_label_at_most(m: int) -> None:
    p = np.power(10.0, np.random.default_rng(m).uniform(-6, 0, m))
    found = weights.bound(np.ones((1, m)), p, normalized=True).pos.data
    inverse = [Fraction(float(1 / each)) for each in p]
    total = sum(inverse, Fraction(0))
    for i in range(0, m, max(1, m // 25)):
        exact = inverse[i] / (1 + total - inverse[i])
        assert abs(Fraction(float(found[i])) / exact - 1) <= (m + 2) * EPSILON


def test_plain_weights_are_rounded_once_or_twice() -> None:
    p = np.r_[np.array(EXTREMES), np.power(10.0, np.random.default_rng(0).uniform(-6, 0, 200))]
    labels = np.ones((1, p.size))
    inverse = [1 / Fraction(float(each)) for each in p]
    assert weights.unbiased(labels, p).pos.data.tolist() == [float(each) for each in inverse]
    bound = weights.bound(labels, p).pos.data
    for found, each in zip(bound, inverse, strict=True):
        assert abs(Fraction(float(found)) / (2 * each - 1) - 1) <= 4 * EPSILON


@pytest.mark.parametrize("m", [1, 3, 7, 2000])
def test_vanilla_shares_are_rounded_once(m: int) -> None:
    found = weights.vanilla(np.ones((1, m)), normalized=True).pos.data
    assert set(found.tolist()) == {float(Fraction(1, m))}


@pytest.mark.parametrize("label", [0, 1])
def test_the_logistic_loss_is_right_for_every_score(label: int) -> None:
    powers = np.power(10.0, np.arange(-300, 300, 7.0))
    random = np.random.default_rng(0).normal(0, 20, 200)
    scores = np.r_[0.0, powers, -powers, random, 36, 37, -36, -37, 690, -690, 1e308, -1e308]
    loss, sign = losses.LOSSES["logistic"], 1 - 2 * label
    value, slope = loss.value(scores, label), loss.slope(scores, label)
    with mpmath.workdps(40):
        for s, v, d in zip(scores.tolist(), value.tolist(), slope.tolist(), strict=True):
            e = mpmath.exp(sign * max(min(s, 1e6), -1e6))
            exact = mpmath.log1p(e) if sign * s < 1e6 else mpmath.mpf(abs(s))
            assert abs(v - exact) <= 4 * EPSILON * max(exact, mpmath.mpf(1e-300))
            share = e / (1 + e)
            assert abs(d - sign * share) <= 4 * EPSILON * max(share, mpmath.mpf(1e-300))


@pytest.mark.parametrize(("a", "b"), [(0.55, 1.5), (0.5, 0.4), (0.6, 2.6)])
def test_jain_propensities_are_good_to_a_few_last_digits(a: float, b: float) -> None:
    for n in (10, 1000, 10**6, 10**9):
        counts = [0, 1, 5, n // 2, n]
        found = propensity.jain_curve(counts, n, a=a, b=b)
        with mpmath.workdps(40):
            scale = (mpmath.log(n) - 1) * (mpmath.mpf(b) + 1) ** mpmath.mpf(a)
            for count, p in zip(counts, found.tolist(), strict=True):
                exact = 1 / (1 + scale * (count + mpmath.mpf(b)) ** -mpmath.mpf(a))
                assert abs(p / exact - 1) <= 4 * EPSILON


ROW_METRICS = ["R@5", "nDCG@5", "F1@5", "Jaccard@5", "hit@5", "P@5"]


@pytest.mark.parametrize("p", [1e-6, 1e-3, 0.3])
@pytest.mark.parametrize("rows", [3, 400])
def test_estimates_beyond_all_numbers_are_called_unusable(p: float, rows: int) -> None:
    """One row of 2,000 labels among others: no number beyond what sums can hold, and it says so."""
    labels = np.zeros((rows, 2000))
    labels[0], labels[1:, 0] = 1, 1
    top = TopK.from_scores(np.tile(np.arange(2000.0)[::-1], (rows, 1)), 5)
    table = metrics.evaluate(
        top, labels, np.full(2000, p), metrics=ROW_METRICS, estimators=["unbiased"]
    )
    for each in table:
        assert math.isfinite(each.value) == math.isfinite(each.standard_error)
        assert math.isnan(each.value) == (each.verdict.reason is Reason.OVERFLOW)
        if not abs(each.value) <= 2:
            assert not each.verdict.usable, each
    assert math.isnan(table["R@5", "unbiased"].value)


@pytest.mark.parametrize("correction", ["unbiased", "tempered"])
def test_weights_that_no_model_can_carry_are_refused(correction: str) -> None:
    labels = np.ones((3, 6))
    labels[1, 3:] = 0
    features = np.random.default_rng(0).random((3, 4))
    recipe = linear.Recipe(loss="logistic", correction=correction, normalized=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=r"not finite.*`bound`"):
            linear.train(features, labels, recipe, propensity=np.full(6, 1e-7))


def test_the_page_names_tests_that_exist() -> None:
    page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    named = re.findall(r"tests/([\w/]+)\.py`?: `(test_\w+)`", page)
    assert len(named) >= 15
    for file, name in named:
        tree = ast.parse((ROOT / "tests" / f"{file}.py").read_text(encoding="utf-8"))
        assert name in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}, name
    here = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    promised = {name for file, name in named if file == "weights/test_accuracy"}
    ours = {n.name for n in here.body if isinstance(n, ast.FunctionDef) and n.name[:5] == "test_"}
    assert promised == ours - {"test_the_page_names_tests_that_exist"}
