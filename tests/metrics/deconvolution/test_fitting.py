"""Fits: estimates, intervals, misfit, refusals and goodness of fit."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.helpers.count_tables import stratum_of
from unmask._kernels.deconvolution import HEAVIEST
from unmask.metrics import intervals
from unmask.metrics.deconvolution import TOO_LOW, Deconvolution, fit
from unmask.metrics.deconvolution import METRICS
from unmask.metrics.thinning import Counts, Stratum
from unmask.metrics.claims import CONDITIONAL


def table_of(
    rows: dict[tuple[int, int], float], p: float, *, k: int = 1, stratum: int = 0
) -> Counts:
    """Rows by (s, t), all propensities p; the hits stand at the first places."""
    shape = (10, k + 1, 1 + max(t for _, t in rows))
    counts, hits, misses = np.zeros(shape), np.zeros((k, *shape)), np.zeros(shape)
    for (s, t), n in rows.items():
        counts[stratum, s, t] = n
        hits[:s, stratum, s, t] = n / p
        misses[stratum, s, t] = n * t / p
    return Counts(counts, hits, misses)


def thinned(latent: dict[tuple[int, int], float], inverse: Any, k: int) -> Counts:
    """The mean table of rows by true (s*, t*), whose labels all have 1/p = inverse(s* + t*)."""
    rows = np.zeros((10, k + 1, 1 + max(t for _, t in latent)))
    hits, misses = np.zeros((k, *rows.shape)), np.zeros_like(rows)
    for (true_s, true_t), n in latent.items():
        u = inverse(true_s + true_t)
        for s, t in product(range(true_s + 1), range(true_t + 1)):
            here = n * stats.binom.pmf(s, true_s, 1 / u) * stats.binom.pmf(t, true_t, 1 / u)
            rows[0, s, t] += here
            hits[:, 0, s, t] += here * s * u / k
            misses[0, s, t] += here * t * u
    return Counts(rows, hits, misses)


def test_rows_with_many_labels_may_hold_rarer_ones() -> None:
    """u = 0.6 + 0.6 log(1 + N): 1.02 in rows with one label, 1.98 in rows with nine."""
    found = fit(thinned({(1, 0): 6e6, (2, 7): 4e6}, lambda n: 0.6 + 0.6 * math.log1p(n), k=2))
    assert found.value("R") == pytest.approx(0.6 + 0.4 * 2 / 9, abs=2e-3)
    assert found.value("F1") == pytest.approx(0.6 * 2 / 3 + 0.4 * 4 / 11, abs=2e-3)
    assert found.misfit < 0.005  # one mean for all would leave 16 % of the rows unexplained
    (only,) = found.strata
    np.testing.assert_allclose(only.inverse[0].min(), 1.016, atol=0.005)
    np.testing.assert_allclose(only.inverse[0].max(), 1.982, atol=0.005)


def test_estimates_stay_below_one() -> None:
    """Chance shows 3 of 4 single labels with p = 1/2: 1.5 hits per row, which no row has."""
    found = fit(table_of({(0, 0): 10, (1, 0): 30}, 0.5))
    assert {found.value(m) for m in METRICS} == {1.0}
    assert found.resampled("P", replicates=20).max() == 1.0
    refused = fit(table_of({(0, 0): 1000, (1, 0): 3000}, 0.5))
    assert refused.refusal


def test_intervals_are_those_of_shares_within_the_range() -> None:
    found = fit(table_of({(0, 0): 80, (1, 0): 20}, 0.9))
    for confidence in (0.8, 0.95):
        value, error, interval, _ = found.estimate("P", confidence=confidence)
        shares = {"rows": 100, "at_most": 1.0, "shares": True}
        assert interval == intervals.of_mean(value, error, confidence, **shares)
    rare = fit(table_of({(0, 0): 99, (1, 0): 1}, 0.9)).estimate("P", confidence=0.99)
    assert 0.0 < rare.interval[0] < 0.01 < rare.interval[1]
    common = fit(table_of({(0, 0): 1, (1, 0): 99}, 1.0)).estimate("P", confidence=0.99)
    assert common.interval[0] < 0.99 < common.interval[1] < 1.0


def test_bootstrap_intervals_hold_quantiles_of_fits_to_drawn_rows() -> None:
    found = fit(table_of({(0, 0): 60, (1, 0): 40, (1, 1): 20}, 0.7))
    again = found.resampled("R", replicates=40, seed=2)
    estimate = found.estimate("R", replicates=40, seed=2, confidence=0.7)
    assert estimate.standard_error == pytest.approx(np.std(again, ddof=1))
    drawn, plain = tuple(np.quantile(again, [0.15, 0.85])), found.estimate("R", confidence=0.7)
    assert estimate.interval == pytest.approx(intervals.hull(drawn, plain.interval))
    assert estimate.value == found.value("R")
    np.testing.assert_array_equal(
        found.resampled("R", replicates=5), found.resampled("R", replicates=5, seed=0)
    )
    assert found.estimate("R", replicates=5) == found.estimate("R", replicates=5, seed=0)


def test_resampled_precision_is_that_of_the_drawn_rows() -> None:
    """With p = 1, precision is a share of rows: binomial, whatever the strata."""
    one, two = (table_of({(0, 0): 350, (1, 1): 300}, 1.0, stratum=g) for g in (0, 6))
    both = Counts(one.rows + two.rows, one.hits + two.hits, one.misses + two.misses)
    found = fit(both)
    assert len(found.strata) == 2
    drawn = found.resampled("P", replicates=300)
    share = 300 / 650
    assert drawn.std() == pytest.approx(math.sqrt(share * (1 - share) / 1300), rel=0.15)
    assert drawn.mean() == pytest.approx(share, abs=0.004)
    np.testing.assert_allclose(drawn * 1300, np.round(drawn * 1300), atol=1e-6)


def fit_of(stratum: Stratum, *others: Stratum) -> Deconvolution:
    """A result with these fits; the table has their rows in one stratum each, by hits."""
    every = (stratum, *others)
    most = max(2, *(each.cells.rows.size for each in every))
    rows, hits = np.zeros((10, most, 1)), np.zeros((most - 1, 10, most, 1))
    for g, each in enumerate(every):
        rows[g, : each.cells.rows.size, 0] = each.cells.rows
        hits[0, g, : each.cells.rows.size, 0] = each.cells.inverse_hits
    counts = Counts(rows, hits, np.zeros_like(rows))
    return Deconvolution(counts, tuple((g,) for g in range(len(every))), every)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_misfit_is_a_total_variation_less_what_chance_explains(share: float) -> None:
    """Two cells: what is taken off is the mean over all data sets of 1000 rows."""
    n = 1000
    fitted = stratum_of(np.eye(2), [1 - share, share], [n // 2 + n // 4, n // 4])
    by_chance = sum(
        chance * abs(x / n - share)
        for x, chance in enumerate(stats.binom.pmf(range(n + 1), n, share))
    )
    assert fit_of(fitted).misfit == pytest.approx(abs(share - 0.25) - by_chance, rel=1e-3)
    agreeing = stratum_of(np.eye(2), [1 - share, share], [n * (1 - share), n * share])
    assert fit_of(agreeing).misfit == 0.0


def test_misfit_counts_what_is_expected_where_nothing_is() -> None:
    """The fit expects three quarters of the rows in a cell that none is in."""
    assert fit_of(stratum_of([[0.25]], [1.0], [1e14])).misfit == pytest.approx(0.75)


def test_weights_that_round_above_one_fit() -> None:
    assert fit_of(stratum_of([[1.0]], [np.nextafter(1, 2)], [50.0])).misfit == 0.0


def off_by(share: float, rows: float = 1e12) -> Stratum:
    """A fit with half of the rows in each of two cells, and this share in the wrong one."""
    return stratum_of(np.eye(2), [0.5, 0.5], [rows * (0.5 - share), rows * (0.5 + share)])


def test_misfit_is_a_share_of_all_rows() -> None:
    assert fit_of(off_by(0.2, 3e12), off_by(0.0, 1e12)).misfit == pytest.approx(0.15, abs=1e-5)


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.01, "conditional: "), (0.03, "doubtful: 3% of the rows"), (0.07, "unusable: ")],
)
def test_misfit_makes_doubtful_then_unusable(share: float, words: str) -> None:
    found = fit_of(off_by(share))
    assert str(found.estimate("P").verdict).startswith(words)
    assert (found.refusal is not None) == (share > 0.05)


def test_a_refusal_tells_the_variance_and_what_it_would_be() -> None:
    """Labels per row: 3 in 4 rows of 5, 2 in the other; p = 0.3 alone makes it 0.7 of the mean."""
    found = fit(table_of({(1, 2): 4000, (1, 1): 1000}, 0.3))
    assert "(variance 0.16; missing labels alone would make it 1.96)" in str(found.refusal)
    varied = fit_of(off_by(0.4))  # 0 or 1 label, p = 1: no variance is too little
    assert "40% of the rows have label counts that no truth explains" in str(varied.refusal)


@pytest.mark.parametrize(
    ("empty", "hits", "wide"),
    [(192, 192, False), (190, 190, True), (833, 17, False), (686, 14, True), (600, 600, False)],
)
def test_an_estimate_is_wide_beyond_a_tenth_or_its_own_value(
    empty: int, hits: int, wide: bool
) -> None:
    """p = 1: a binomial share. Its interval is 0.0998 wide at 192 of 384, 0.1004 at 190 of 380."""
    n, share = empty + hits, hits / (empty + hits)
    ends = intervals.wilson(share, n, intervals.t_quantile(0.95, n))
    half = (ends[1] - ends[0]) / 2
    found = fit(table_of({(0, 0): empty, (1, 0): hits}, 1.0)).estimate("P")
    assert str(found.verdict) == (f"wide: ± {half:.4f}" if wide else str(CONDITIONAL))


@pytest.mark.parametrize(
    ("p", "words"),
    [(0.4, "doubtful: R-precision needs more than 40% of the labels"), (0.5, str(CONDITIONAL))],
)
def test_sharp_metrics_need_half_of_the_labels(p: float, words: str) -> None:
    n = 20_000
    found = fit(table_of({(1, 0): n * p, (0, 0): n * (1 - p)}, p))
    assert str(found.estimate("R-precision").verdict) == words
    assert found.estimate("R").verdict == CONDITIONAL


def test_no_labels_at_all_are_nothing_to_doubt() -> None:
    found = fit(table_of({(0, 0): 30}, 0.5))
    value, error, ends, _ = found.estimate("R-precision")
    assert (value, error) == (0.0, 0.0)
    assert ends == intervals.wilson(0.0, 30, intervals.t_quantile(0.95, 30))
    assert found.misfit == 0.0


def test_strata_that_agree_are_no_reason_for_doubt() -> None:
    one, two = (table_of({(0, 0): 4000, (1, 1): 4000}, 1.0, stratum=g) for g in (0, 6))
    both = Counts(one.rows + two.rows, one.hits + two.hits, one.misses + two.misses)
    assert fit(both).estimate("R").verdict == CONDITIONAL
    assert (len(fit(both).strata), len(fit(both, stratified=False).strata)) == (2, 1)


def test_missing_log_likelihoods_add_up_and_none_is_negative() -> None:
    gaps = (3.0, -1e-9, 0.5)
    found = fit_of(*(replace(off_by(0.0), gap=gap) for gap in gaps))
    assert found.missing_log_likelihood == 3.5


def test_deviance_is_the_likelihood_ratio_of_the_cells() -> None:
    """Data sets drawn from a fit with free cells fit perfectly again: none deviates as much."""
    observed = [[30.0, 70.0], [0.0, 50.0]]
    found = fit_of(*(stratum_of(np.eye(2), [0.5, 0.5], rows) for rows in observed)).goodness()
    exact = [
        stats.power_divergence(rows, [sum(rows) / 2] * 2, lambda_="log-likelihood").statistic
        for rows in observed
    ]
    assert found.deviance == pytest.approx(sum(exact))
    assert found.p_value == pytest.approx(0.01)  # 99 draws and the data themselves
    perfect = fit_of(stratum_of(np.ones((1, 1)), [1.0], [40.0])).goodness()
    assert perfect == (0.0, 1.0)  # all deviate as little


def test_goodness_repeats_and_starts_from_seed_zero() -> None:
    found = fit(table_of({(0, 0): 40, (0, 1): 90, (0, 2): 50, (0, 3): 25, (0, 4): 4}, 0.5))
    one, same, other = (
        found.goodness(draws=19, **given) for given in ({}, {"seed": 0}, {"seed": 1})
    )
    assert one == same != other
    assert one.deviance == other.deviance
    assert 1 / 20 <= other.p_value < 1


@pytest.mark.parametrize(("hits", "misses"), [(0.6, 0.6), (1.1, 0.0), (0.0, 1.1)])
def test_weights_beyond_what_tables_hold_are_refused(hits: float, misses: float) -> None:
    """Of hits and misses together."""
    rows = np.zeros((10, 2, 2))
    rows[0] = 5
    by_place, of_misses = np.zeros((1, 10, 2, 2)), np.zeros((10, 2, 2))
    by_place[0, 0, 1, 0] = hits * HEAVIEST
    of_misses[0, 0, 1] = misses * HEAVIEST
    made = fit(Counts(rows, by_place, of_misses))
    assert made.not_fitted == TOO_LOW
    assert made.strata == ()
