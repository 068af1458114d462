"""Deconvolution: exact where theory says so, honest where data refuse, good where it matters."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from tests.helpers.count_tables import POPULATION, Row, expected_counts, tabulated, true_values
from tests.helpers.oracles import subsets
from unmask import _mixture
from unmask._kernels.deconvolution import STRATA, stratum
from unmask.data import read
from unmask.metrics import deconvolution as fitting
from unmask.metrics import thinning
from unmask.metrics.deconvolution import METRICS, Counts, fit
from unmask.metrics.deconvolution import Part
from unmask.propensity import jain


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("p", [0.8, 0.95])
def test_expected_counts_give_back_the_truth(p: float, empty: bool) -> None:
    rows = [*POPULATION, (1e7, (), (0, 1, 2))] if empty else POPULATION
    counts, truth = expected_counts(rows, [p] * 7, empty=empty)
    found = fit(counts)
    assert {m: found.value(m) for m in METRICS} == pytest.approx(truth, abs=2e-3)
    assert found.misfit < 1e-3


def test_left_out_rows_matter() -> None:
    """A table without empty rows speaks of other rows than one with them, and has another truth."""
    _, with_empty = expected_counts(POPULATION, [0.6] * 7)
    counts, without = expected_counts(POPULATION, [0.6] * 7, empty=False)
    assert abs(with_empty["R"] - without["R"]) > 0.02
    assert fit(counts).value("R") == pytest.approx(without["R"], abs=5e-3)


def test_mixed_propensities_are_separated_by_stratum() -> None:
    """Rows whose labels all have p = 0.9 and rows whose labels all have p = 0.5."""
    often: list[Row] = [(3e6, (0, 2), (0, 1)), (1e6, (0, 1, 2, 3), (0, 1))]
    seldom: list[Row] = [(2e6, (4,), (4, 5)), (2e6, (6, 7), (4, 5)), (2e6, (4, 5), (4, 5))]
    counts, truth = expected_counts([*often, *seldom], [0.9] * 4 + [0.5] * 4)
    split, pooled = fit(counts), fit(counts, stratified=False)
    assert len(split.strata) == 2
    assert {m: split.value(m) for m in METRICS} == pytest.approx(truth, abs=4e-3)
    assert abs(pooled.value("R") - truth["R"]) > 5 * abs(split.value("R") - truth["R"])


@st.composite
def complete_tables(draw: st.DrawFn) -> list[Row]:
    labels = range(6)
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(1, 50),
                st.sets(st.sampled_from(labels)).map(lambda x: tuple(sorted(x))),
                st.permutations(labels).map(lambda x: tuple(x[:2])),
            ),
            min_size=1,
            max_size=8,
        )
    )
    return [(float(count), true, predicted) for count, true, predicted in rows]


@given(complete_tables())
def test_nothing_hidden_is_vanilla_with_its_standard_error(rows: list[Row]) -> None:
    counts, truth = expected_counts(rows, [1.0] * 6)
    found = fit(counts)
    assert {m: found.value(m) for m in METRICS} == pytest.approx(truth, abs=1e-9)
    n = sum(count for count, *_ in rows)
    spread = sum(
        count * (true_values(true, predicted)["R"] - truth["R"]) ** 2
        for count, true, predicted in rows
    )
    assert found.estimate("R").standard_error == pytest.approx(np.sqrt(spread) / n, abs=1e-9)


def test_precision_is_the_unbiased_one() -> None:
    propensity = [0.3, 0.5, 0.2, 0.9, 0.4, 0.6, 0.7]
    counts, truth = expected_counts([*POPULATION, (1e7, (), (0, 1, 2))], propensity)
    assert fit(counts).value("P") == pytest.approx(truth["P"], rel=1e-9)


@pytest.mark.parametrize(("true_hits", "true_misses"), [(0, 0), (2, 3), (3, 1)])
def test_kernel_is_the_law_of_masks(true_hits: int, true_misses: int) -> None:
    p = 0.3
    everything = list(product(range(4), range(5)))
    s, t = np.array(everything, dtype=float).T
    cells = thinning.Cells(s, t, np.ones(s.size), s / p, t / p)
    at = thinning.Atoms(np.array([float(true_hits)]), np.array([float(true_misses)]))
    inverse = np.array([1 / p])
    chance = dict(zip(everything, thinning.kernel(cells, at, inverse, inverse)[:, 0], strict=True))
    exact = dict.fromkeys(everything, 0.0)
    true = range(true_hits + true_misses)
    for seen in subsets(true):
        hits = sum(j < true_hits for j in seen)
        chance_of_mask = p ** len(seen) * (1 - p) ** (len(true) - len(seen))
        exact[hits, len(seen) - hits] += chance_of_mask
    assert chance == pytest.approx(exact, abs=1e-14)
    assert thinning.empty(at, inverse, inverse)[0] == pytest.approx(exact[0, 0])


def test_mixture_is_the_maximum_and_the_gap_bounds_what_is_missing() -> None:
    random = np.random.default_rng(0)
    kernel = random.dirichlet(np.ones(5), size=4).T
    share = random.dirichlet(np.ones(5))
    best = minimize(
        lambda x: -share @ np.log(kernel @ x),
        np.full(4, 0.25),
        bounds=[(1e-12, 1)] * 4,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    for steps, close in ((3, 1.0), (6, 1.0), (3000, 1e-6)):
        found = _mixture.maximize(
            kernel, share[:, None], np.full(4, 0.25), 1.0, tolerance=1e-10, steps=steps
        )
        likelihood = share @ np.log(kernel @ found.weights[:, 0])
        assert found.weights.sum() == pytest.approx(1)
        assert -1e-9 < -best.fun - likelihood <= min(found.gap[0], close) + 1e-9


def test_every_cycle_of_em_goes_uphill() -> None:
    random = np.random.default_rng(1)
    kernel = random.dirichlet(np.full(30, 0.3), size=40).T
    share = random.dirichlet(np.ones(30))[:, None]
    likelihoods = [
        float(share[:, 0] @ np.log(kernel @ found.weights[:, 0]))
        for steps in range(3, 300, 3)
        for found in [_mixture.maximize(kernel, share, np.full(40, 1 / 40), 1e9, steps=steps)]
    ]
    assert np.all(np.diff(likelihoods) >= -1e-12)
    assert likelihoods[-1] > likelihoods[0] + 1e-3


def test_columns_do_not_see_each_other() -> None:
    random = np.random.default_rng(2)
    kernel = random.dirichlet(np.ones(6), size=5).T
    shares = random.dirichlet(np.ones(6), size=20).T
    together = _mixture.maximize(kernel, shares, np.full(5, 0.2), 100.0).weights
    alone = [
        _mixture.maximize(kernel, shares[:, [i]], np.full(5, 0.2), 100.0).weights for i in range(20)
    ]
    np.testing.assert_array_equal(together, np.hstack(alone))


@pytest.mark.parametrize("metric", ["R", "Jaccard", "hit", "nDCG"])
def test_influence_is_the_derivative(metric: str) -> None:
    """Away from π = 0, where the fit is smooth: only atoms that are in the population."""
    counts, _ = expected_counts([*POPULATION, (1e7, (), (0, 1, 2))], [0.8] * 7)
    (found,) = fit(counts).strata
    real = np.isin(found.atoms.hits * 100 + found.atoms.misses, [0, 2, 100, 101, 202])
    smooth = replace(
        found,
        atoms=thinning.Atoms(found.atoms.hits[real], found.atoms.misses[real]),
        inverse=(found.inverse[0][real], found.inverse[1][real]),
        kernel=found.kernel[:, real],
        kept=found.kept[real],
        weights=found.weights[real] / found.weights[real].sum(),
    )
    exactly = {"tolerance": 0.0, "steps": 3000}
    rows = smooth.cells.rows
    at_rest = _mixture.maximize(
        smooth.kernel, rows[:, None] / rows.sum(), smooth.weights, 1.0, **exactly
    ).weights[:, 0]
    part = Part(replace(smooth, weights=at_rest), METRICS[metric], counts.k)
    for cell in range(rows.size):
        nudge = np.where(np.arange(rows.size) == cell, 1e-3 * rows[cell], 0.0)
        both = np.column_stack([rows + nudge, rows - nudge])
        mixtures = _mixture.maximize(
            smooth.kernel, both / both.sum(axis=0), at_rest, 1.0, **exactly
        )
        up, down = part.of(both, mixtures.weights)
        assert part.per_row[cell] == pytest.approx((up - down) / (2 * nudge[cell]), abs=1e-5)
    assert part.per_row @ rows == pytest.approx(part.value)


def test_mean_propensity_by_count_is_found() -> None:
    """Rows with many labels hold rarer ones: u = 1 + log(1 + s* + t*), known latent counts."""
    size = np.log1p(np.arange(6.0))
    counted, truth = np.full(6, 1000.0), 1 + size
    by_count = thinning.inverse_by_count(counted, counted * truth, size, size)
    np.testing.assert_allclose(by_count, truth, rtol=1e-9)
    noise = np.array([3.0, -3, 3, -3, 3, -3])  # a slope that is all noise is not believed
    by_chance = thinning.inverse_by_count(counted, counted * (5 + noise), size, size)
    np.testing.assert_allclose(by_chance, 5.0)


def test_stratum_ignores_rounding_and_counts_upwards() -> None:
    for p, k in product(
        [0.9, 0.8, 0.7, 2 / 3, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.1, 0.05], range(1, 9)
    ):
        inverse = 1 / p
        around = [sum([inverse] * k), inverse * k * (1 + 1e-9), inverse * k * (1 - 1e-9)]
        assert {stratum(each, k) for each in around} == {stratum(inverse, 1)}
    found = [stratum(1 / p, 1) for p in np.geomspace(1, 1e-3, 200)]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (0, STRATA - 1)
    assert stratum(0.0, 0) == 0


def counts_of(s: np.ndarray, t: np.ndarray, p: float, k: int) -> Counts:
    """The table of rows with these observed counts, one propensity; hits spread over the places."""
    table = np.zeros((STRATA, k + 1, t.max() + 1))
    np.add.at(table[stratum(1 / p, 1)], (s, t), 1)
    hits, misses = (table * axis / p for axis in np.indices(table.shape)[1:])
    return Counts(table, np.repeat(hits[None] / k, k, axis=0), misses)


@pytest.mark.parametrize(("p", "words"), [(0.3, "vary too little"), (0.9, "vary too little")])
def test_counts_that_no_truth_explains_are_refused(p: float, words: str) -> None:
    always_three = counts_of(np.ones(5000, int), np.full(5000, 2), p, 1)
    found = fit(always_three)
    assert words in str(found.refusal)
    value, error, interval, verdict = found.estimate("R")
    assert np.isnan([value, error, *interval]).all()
    assert str(verdict).startswith("unusable: the observed labels cannot come from the stated")


def test_two_peaks_that_thinning_would_have_blurred_are_refused() -> None:
    t = np.repeat([0, 12], 4000)
    assert "no truth explains" in str(fit(counts_of(np.zeros_like(t), t, 0.3, 1)).refusal)


def test_honest_counts_are_not_refused() -> None:
    random = np.random.default_rng(3)
    true = random.poisson(random.gamma(2, 2, 4000))
    s = random.binomial(np.minimum(true, 2), 0.3)
    t = random.binomial(true - np.minimum(true, 2), 0.3)
    found = fit(counts_of(s, t, 0.3, 2))
    assert found.refusal is None
    assert found.goodness(draws=39).p_value > 0.05
    assert found.missing_log_likelihood < 50
    assert found.estimate("R").verdict.level == "conditional"
    sharp = found.estimate("R-precision").verdict
    assert str(sharp).startswith("doubtful: R-precision needs more than")


def test_a_few_rows_that_do_not_fit_raise_a_doubt() -> None:
    random = np.random.default_rng(5)
    honest = random.binomial(random.poisson(2, 9600), 0.5)
    t = np.r_[honest, np.full(400, 12)]
    verdict = fit(counts_of(random.binomial(1, 0.5, t.size), t, 0.5, 1)).estimate("R").verdict
    assert str(verdict) == "doubtful: 2% of the rows do not fit the stated propensities"


def test_few_rows_are_called_wide() -> None:
    random = np.random.default_rng(6)
    s, t = random.binomial(1, 0.5, 40), random.binomial(random.poisson(2, 40), 0.5)
    assert str(fit(counts_of(s, t, 0.5, 1)).estimate("R").verdict).startswith("wide: ± 0.")


def test_goodness_of_fit_sees_a_wrong_law() -> None:
    t = np.repeat([2, 3, 4], [100, 800, 100])
    goodness = fit(counts_of(np.zeros_like(t), t, 0.5, 1)).goodness(draws=39)
    assert goodness.p_value == pytest.approx(1 / 40)
    assert goodness.deviance > 100


def test_propensities_that_differ_between_rows_raise_a_doubt() -> None:
    often: list[Row] = [(3e4, (0,), (0,))]
    seldom: list[Row] = [(3e4, (1, 2, 3, 4, 5, 6), (1,)), (3e4, (1,), (1,))]
    counts, _ = expected_counts([*often, *seldom], [0.9] + [0.15] * 6)
    assert fit(counts).estimate("R").verdict.reason == "unequal-rows"


def test_bootstrap_agrees_with_the_linearised_error_and_repeats() -> None:
    random = np.random.default_rng(4)
    true = random.poisson(4, 5000)
    s = random.binomial(np.minimum(true, 1), 0.5)
    t = random.binomial(true - np.minimum(true, 1), 0.5)
    found = fit(counts_of(s, t, 0.5, 1))
    once = found.estimate("R", replicates=400, seed=1)
    assert once == found.estimate("R", replicates=400, seed=1)
    assert once.standard_error == pytest.approx(found.estimate("R").standard_error, rel=0.15)
    low, high = once.interval
    assert low < once.value < high
    assert high - low == pytest.approx(2 * 1.96 * once.standard_error, rel=0.15)


def test_confidence_widens_the_interval() -> None:
    counts, _ = expected_counts([(100.0, (0, 1), (0,)), (100.0, (1,), (0,))], [0.5, 0.5])
    narrow, wide = (fit(counts).estimate("R", confidence=c).interval for c in (0.5, 0.99))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_degenerate_tables() -> None:
    nothing = np.zeros((STRATA, 3, 1))
    with pytest.raises(ValueError, match="no rows to deconvolve"):
        fit(Counts(nothing, np.zeros((2, *nothing.shape)), nothing))
    only_empty = nothing.copy()
    only_empty[0, 0, 0] = 10
    no_hits = counts_of(np.zeros(100, int), np.repeat([0, 1, 2], [25, 50, 25]), 0.5, 2)
    for counts in (Counts(only_empty, np.zeros((2, *nothing.shape)), nothing), no_hits):
        found = fit(counts)
        assert {found.value(m) for m in METRICS} == {0.0}
        assert {found.estimate(m).standard_error for m in METRICS} == {0.0}
    with pytest.raises(ValueError, match="unknown deconvolved metric 'MAP'; use one of: F1, "):
        found.value("MAP")


def simulated(random: np.random.Generator, p: float) -> tuple[Counts, dict[str, float], float]:
    """The paper's simulation: recall@1 by row-by-row estimators, the table, and the truth."""
    true = random.binomial(100, 0.1, 10_000)
    s = random.binomial(np.minimum(true, 1), p)
    t = random.binomial(np.maximum(true - 1, 0), p)
    m = s + t
    rivals = {
        "vanilla": s / np.maximum(m, 1),
        "unbiased": s * (1 - (1 - 1 / p) ** m) / np.maximum(m, 1),
        "bound": s / p / (1 + np.maximum(m - 1, 0) / p),
    }
    truth = float(np.where(true > 0, 1 / np.maximum(true, 1), 0).mean())
    return counts_of(s, t, p, 1), {name: float(x.mean()) for name, x in rivals.items()}, truth


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "bar"), [(0.1, 0.5), (0.2, 0.5), (0.3, 0.5), (0.5, 1.2), (0.7, 1.2), (0.9, 1.2)]
)
def test_the_papers_simulation(p: float, bar: float) -> None:
    random = np.random.default_rng(7)
    errors: dict[str, list[float]] = {}
    covered = []
    for _ in range(100):
        counts, rivals, truth = simulated(random, p)
        estimate = fit(counts).estimate("R")
        for name, value in {**rivals, "deconvolved": estimate.value}.items():
            errors.setdefault(name, []).append(value - truth)
        covered.append(estimate.interval[0] <= truth <= estimate.interval[1])
    rmse = {name: float(np.sqrt(np.mean(np.square(e)))) for name, e in errors.items()}
    assert rmse.pop("deconvolved") <= bar * min(rmse.values())
    assert np.mean(covered) >= 0.88


@pytest.mark.slow
def test_real_label_counts(real_data: Path) -> None:
    """The labels of a real test set, noisy predictions, labels hidden by Jain's propensities."""
    test, train = (read(real_data / "delicious" / f"{part}.txt.gz") for part in ("test", "train"))
    true, propensity = test.labels.toarray() > 0, np.asarray(jain(train.labels))
    random = np.random.default_rng(8)
    top = np.argsort(random.normal(0, 0.5, true.shape) - true, axis=1)[:, :5].tolist()
    observed = true & (random.random(true.shape) < propensity)
    rows = [np.flatnonzero(row).tolist() for row in true]
    seen = [np.flatnonzero(row).tolist() for row in observed]
    counts = tabulated([(1.0, *pair) for pair in zip(seen, top, strict=True)], propensity)
    found = fit(counts)
    for metric in ("R", "F1", "nDCG"):
        truth, vanilla = (
            np.mean([true_values(*pair)[metric] for pair in zip(labels, top, strict=True)])
            for labels in (rows, seen)
        )
        assert found.value(metric) == pytest.approx(truth, abs=0.01)
    assert abs(vanilla - truth) > 0.05
    assert found.estimate("R").verdict.level == "conditional"


def test_public_names() -> None:
    assert set(fitting.__all__) <= set(dir(fitting))
