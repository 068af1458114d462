"""Control variates of pairs: slopes by their equations, totals by loops over folds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unmask.data.judgements import Design, Judgements, Sample, Stratum
from unmask.metrics.measured.sampling import (
    Fraction,
    PairCovariates,
    _narrowed,
    _slope,
    adjusted,
    folds_of,
    kinds_of,
    totals,
)

STRATUM = np.array([0, 0, 0, 0, 1, 1, 1])
STRATA = Stratum("top", 12, 4), Stratum("far", 40, 3)
SAMPLE = Sample(Design.PAIRS, (13, 4), STRATA, np.arange(7), np.zeros(7, int), STRATUM)
JUDGED = Judgements(SAMPLE, np.array([1.0, 0, 1, 1, 0, 1, 0]))
X = np.array([[0.9, 1], [0.2, 2], [0.7, 3], [0.4, 1], [0.1, 5], [0.8, 2], [0.3, 2.5]])
DRAWN, SIZES = np.array([4, 3]), np.array([12.0, 40.0])


@pytest.mark.parametrize("used", [[0, 1, 2, 4, 5, 6], list(range(7)), [0, 1, 4, 6], [1, 4, 6]])
def test_slopes_solve_the_equations_of_a_weighted_ridge_regression(used: list[int]) -> None:
    """Σ w (x − x̄)(y − ȳ − b (x − x̄)) = 10/Σy · b Σ w (x − x̄)², means by stratum."""
    chosen = np.isin(np.arange(7), used)
    worth = np.array([1.0, 1, 0.5, 1, -2, -2, -2])
    slope = _slope(JUDGED, X, worth, chosen, DRAWN, SIZES)
    right, gram = np.zeros(2), np.zeros((2, 2))
    for h in (0, 1):
        mine = [i for i in used if STRATUM[i] == h]
        share = SIZES[h] / DRAWN[h]
        weight = share**2 * (1 - 1 / share)
        both = np.c_[JUDGED.answers, X][mine] * worth[mine, None]
        both = both - both.mean(axis=0)
        right += weight * both[:, 1:].T @ both[:, 0]
        gram += weight * both[:, 1:].T @ both[:, 1:]
    shrunk = np.diag(gram) * 10 / max(JUDGED.answers[used].sum(), 1)
    np.testing.assert_allclose((gram + np.diag(shrunk)) @ slope, right, atol=1e-10)


def test_a_covariate_without_spread_has_no_slope() -> None:
    flat = np.c_[X[:, 0], np.full(7, 3.0)]
    slope = _slope(JUDGED, flat, np.ones(7), np.ones(7, bool), DRAWN, SIZES)
    assert slope[1] == pytest.approx(0.0, abs=1e-12)
    assert slope[0] > 0


def test_fractions_take_out_what_covariates_foresee_and_add_it_as_known() -> None:
    """Three folds; what is judged stays, the rest of a stratum has the mean of the fold."""
    above = np.r_[np.ones(4), np.zeros(3)]
    kinds = kinds_of(JUDGED, above, np.ones(7))
    plain = Fraction(totals(JUDGED, kinds, 0.95), 2.0, 5.0, (0.0, 1.0))
    known = PairCovariates(X, np.array([6.0, 20]), np.array([15.0, 90]))
    made = adjusted(plain, JUDGED, kinds, known)
    fold = folds_of(STRATUM, 3, seed=0)
    weights = np.array([1 - float(plain.value), -float(plain.value)])[STRATUM]
    sums, slopes, residuals = np.zeros(2), np.zeros(2), np.zeros(7)
    for each in range(3):
        inside = fold != each
        part = 1 - inside.mean()
        slope = _slope(JUDGED, X, weights, inside, DRAWN, SIZES)
        slopes += part * slope
        left = JUDGED.answers - X @ slope
        residuals[~inside] = left[~inside]
        for h in (0, 1):
            here = SAMPLE.stratum == h
            count = (inside & here).sum()
            mean = left[~inside & here].mean()
            sums[h] += part * (left[inside & here].sum() + (SIZES[h] - count) * mean)
    assert made.above == pytest.approx(2 + known.above @ slopes, rel=1e-12)
    assert made.below == pytest.approx(5 + known.below @ slopes, rel=1e-12)
    assert made.limits == (0.0, 1.0)
    np.testing.assert_allclose(made.totals.total, sums, rtol=1e-12)
    for h in (0, 1):
        here = SAMPLE.stratum == h
        y, left = JUDGED.answers[here], residuals[here]
        share = SIZES[h] / DRAWN[h]
        weight = share**2 * (1 - 1 / share)
        before, after = (weight * each.var() * each.size for each in (y, left))
        more = before / (y.var() * y.size)
        scale = math.sqrt((after + more) / (before + more))
        old, new = plain.totals, made.totals
        assert new.variance[h] == pytest.approx(old.variance[h] * scale**2)
        assert new.growth[h] == pytest.approx(old.growth[h] * scale)


def test_strata_of_one_kind_are_narrowed_together_by_their_weights() -> None:
    """Where pairs of both strata count alike, what is left of both is weighed by N²/m (1 − m/N)."""
    kinds = kinds_of(JUDGED, np.ones(7), np.ones(7))
    plain = totals(JUDGED, kinds, 0.95)
    residuals = np.array([0.3, -0.2, 0.1, 0.4, -0.6, 0.5, 0.2])
    made = _narrowed(plain, kinds, JUDGED, residuals, np.array([7.0, 11.0]))
    assert made.total.tolist() == [7.0, 11.0]
    spread = {name: [float(each[h == STRATUM].var() * (h == STRATUM).sum()) for h in (0, 1)]
              for name, each in (("y", JUDGED.answers), ("left", residuals))}  # fmt: skip
    weight = [(SIZES[h] / DRAWN[h]) ** 2 * (1 - DRAWN[h] / SIZES[h]) for h in (0, 1)]
    before, after = (float(np.dot(weight, spread[name])) for name in ("y", "left"))
    more = before / sum(spread["y"])
    scale = math.sqrt((after + more) / (before + more))
    np.testing.assert_allclose(made.variance, plain.variance * scale**2)
    np.testing.assert_allclose(made.growth, plain.growth * scale)


def test_a_stratum_of_one_judged_pair_leaves_the_plain_fraction() -> None:
    strata = Stratum("top", 12, 4), Stratum("far", 40, 1)
    sample = Sample(Design.PAIRS, (13, 4), strata, *np.zeros((2, 5), int), STRATUM[:5])
    judged = Judgements(sample, np.array([1.0, 0, 1, 1, 0]))
    kinds = kinds_of(judged, np.ones(5), np.ones(5))
    plain = Fraction(totals(judged, kinds, 0.95), 2.0, 5.0, (0.0, 1.0))
    known = PairCovariates(X[:5], np.ones(2), np.ones(2))
    assert adjusted(plain, judged, kinds, known) is plain
