"""Measured estimates are unbiased over the sampling design: every sample of a tiny universe.

Measured metrics that are no means over rows: by hand, unbiased by simulation, intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import kurtosis, t
from scipy.stats import t as student

from unmask import LabelSets, audit, compare, data, evaluate
from unmask.data.judgements import Design, Judgements, Sample, Stratum, WithinRows
from unmask.metrics import Estimate, contributions
from unmask.metrics.claims import Advice, Level, Reason
from unmask.metrics.measured import estimates, measure, measure_differences, sampling
from unmask.metrics.measured.estimates import _degrees, row_mean
from unmask.metrics.measured.rows import judged_rows, place_weights
from unmask.metrics.measured.sampling import RowSample, controlled, variance
from unmask.metrics.registry import METRICS as ALL
from unmask.metrics.registry import split_measured
from unmask.predictions import TopK

TRUE = np.array([[1, 0, 1, 0], [0, 1, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]])
OBSERVED = np.array([[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]])
SCORES = np.array(
    [[9, 8, 2, 1], [1, 7, 5, 6], [3, 2, 9, 8], [1, 4, 2, 3], [2, 9, 8, 1]], dtype=np.float32
)
TOP = TopK.from_scores(SCORES, 3)
OTHER = TopK.from_scores(-SCORES, 3)
METRICS = ["P@2", "R@2", "F1@2", "nDCG@2", "hit@2", "DCG@2", "Jaccard@2", "R-precision@2", "MRR@2"]
Sampler = Callable[[np.ndarray], Iterator[tuple[float, Judgements]]]


def exact(top: TopK, true: np.ndarray, name: str) -> float:
    return float(contributions(top, true, metrics=[name])[name, "vanilla"].mean())


def unclipped(each: Estimate) -> float:
    """The estimate before it was cut to the range of its metric."""
    return float(each.details.get("unclipped", each.value))


def simple(true: np.ndarray, m: int = 3) -> Iterator[tuple[float, Judgements]]:
    """All ordered samples of m rows."""
    orders = list(permutations(range(len(true)), m))
    for rows in orders:
        stratum = (Stratum("rows", len(true), m),)
        sample = Sample(Design.SIMPLE, true.shape, stratum, list(rows), None, [0] * m)
        yield 1 / len(orders), Judgements(sample, sp.csr_array(true[list(rows)]))


def stratified(true: np.ndarray) -> Iterator[tuple[float, Judgements]]:
    """Two of rows 0 … 2, and both others."""
    firsts, others = list(permutations([0, 1, 2], 2)), list(permutations([3, 4], 2))
    for first, other in product(firsts, others):
        rows = [first[0], other[0], first[1], other[1]]
        strata = (Stratum("rows", 3, 2), Stratum("rows", 2, 2))
        sample = Sample(Design.STRATIFIED, true.shape, strata, rows, None, [0, 1, 0, 1])
        chance = 1 / (len(firsts) * len(others))
        yield chance, Judgements(sample, sp.csr_array(true[rows]))


def two_phase(true: np.ndarray, pi: float = 0.4) -> Iterator[tuple[float, Judgements]]:
    """Two of five rows; in them all of the first three predictions, the last label by chance."""
    n, width = true.shape
    orders = list(permutations(range(n), 2))
    for rows in orders:
        tail = [int(np.setdiff1d(np.arange(width), TOP.labels[row])[0]) for row in rows]
        for drawn in product([0, 1], repeat=2):
            pairs = [(row, int(label), 1.0) for row in rows for label in TOP.labels[row]]
            pairs += [(r, j, pi) for r, j, d in zip(rows, tail, drawn, strict=True) if d]
            pairs = [pair for pair in pairs if not OBSERVED[pair[0], pair[1]]]
            row, label, within = (np.array(column) for column in zip(*pairs, strict=True))
            sample = Sample(
                Design.TWO_PHASE, true.shape, (Stratum("rows", n, 2),), row, label, [0] * len(row),
                WithinRows(np.array(rows), np.zeros(2, int), within),
            )  # fmt: skip
            chance = np.prod([pi if d else 1 - pi for d in drawn]) / len(orders)
            yield float(chance), Judgements(sample, true[row, label].astype(float))


def pairs(true: np.ndarray) -> Iterator[tuple[float, Judgements]]:
    """Unobserved pairs in three strata of which two, three and one are drawn."""
    n, width = true.shape
    key = [i * width + j for i in range(n) for j in range(width) if not OBSERVED[i, j]]
    strata = [key[0:3], key[3:7], key[7:]]
    counts = (2, 3, 1)
    ways = [list(combinations(s, c)) for s, c in zip(strata, counts, strict=True)]
    made = tuple(Stratum("far", len(s), c) for s, c in zip(strata, counts, strict=True))
    total = np.prod([len(way) for way in ways])
    for chosen in product(*ways):
        keys = np.concatenate(chosen)
        where = np.repeat([0, 1, 2], counts)
        sample = Sample(Design.PAIRS, true.shape, made, keys // width, keys % width, where)
        answers = true[keys // width, keys % width].astype(float)
        yield 1 / float(total), Judgements(sample, answers)


ROW_DESIGNS: dict[str, Sampler] = {
    "simple": simple,
    "stratified": stratified,
    "two-phase": two_phase,
}


@pytest.mark.parametrize("design", ROW_DESIGNS)
def test_metrics_over_rows_are_unbiased_over_all_samples(design: str) -> None:
    names = [m for m in METRICS[:5] if m != "nDCG@2"] if design == "two-phase" else METRICS
    sums = np.zeros(len(names))
    extra = np.arange(5.0)
    for chance, judged in ROW_DESIGNS[design](TRUE):
        estimates = measure(TOP, OBSERVED, judged, metrics=names, covariates=extra)
        sums += [chance * unclipped(each) for each in estimates]
    np.testing.assert_allclose(sums, [exact(TOP, TRUE, name) for name in names], atol=1e-12)


def test_the_variance_within_rows_is_unbiased() -> None:
    """V̂ of recall, F1 and nDCG, averaged over what is drawn, is the variance of the estimate."""
    for metric in ("R", "F1", "nDCG", "Jaccard", "R-precision", "P", "DCG"):
        mean, square, estimated = np.zeros(5), np.zeros(5), np.zeros(5)
        weight = np.zeros(5)
        for chance, judged in two_phase(TRUE):
            rows = judged_rows(judged, sp.csr_array(OBSERVED))
            values = rows.values(TOP, f"{metric}@2")
            variances = rows.variances(TOP, metric, 2)
            assert variances is not None
            np.add.at(weight, rows.rows, chance)
            np.add.at(mean, rows.rows, chance * values)
            np.add.at(square, rows.rows, chance * values**2)
            np.add.at(estimated, rows.rows, chance * variances)
        true = square / weight - (mean / weight) ** 2
        np.testing.assert_allclose(estimated / weight, true, atol=1e-12)
    assert true.max() < 1e-15  # DCG within the first two is surely judged
    assert (estimated >= -1e-12).all()


def test_variances_of_sums_over_places_that_were_judged_by_chance() -> None:
    """P and DCG of all four places, the last of which is judged with probability π only."""
    top = TopK.from_scores(SCORES, 4)
    for metric in ("P", "DCG"):
        weight, mean, square, estimated = np.zeros((4, 5))
        for chance, judged in two_phase(TRUE):
            rows = judged_rows(judged, sp.csr_array(OBSERVED))
            values, variances = rows.values(top, f"{metric}@4"), rows.variances(top, metric, 4)
            np.add.at(weight, rows.rows, chance)
            for sums, each in ((mean, values), (square, values**2), (estimated, variances)):
                np.add.at(sums, rows.rows, chance * each)
        variance = square / weight - (mean / weight) ** 2
        assert variance.max() > 0.01
        np.testing.assert_allclose(estimated / weight, variance, atol=1e-12)


def test_recall_variance_is_the_integral_of_the_mathematics() -> None:
    """û² − h² ∫ (−ln t) t^(N₁−1) (1 − (1−t)/π)^n dt, integrated numerically."""
    from scipy.integrate import quad

    from unmask.metrics.measured.rows import coefficients

    for sure, found, pi in [(1, 1, 0.3), (2, 3, 0.3), (4, 2, 0.5)]:
        mine = coefficients(np.full(found, 1 / pi)) @ (1 / (sure + np.arange(found + 1.0)) ** 2)
        integral = quad(
            lambda t, s=sure, n=found, q=pi: -np.log(t) * t ** (s - 1) * (1 - (1 - t) / q) ** n,
            0, 1,
        )[0]  # fmt: skip
        assert mine == pytest.approx(integral, abs=1e-7)


def test_sums_over_pairs_are_unbiased_over_all_samples() -> None:
    names = ["P@2", "DCG@2", "micro-P@2"]
    sums, above, below = np.zeros(3), 0.0, 0.0
    for chance, judged in pairs(TRUE):
        sums += [chance * unclipped(e) for e in measure(TOP, OBSERVED, judged, metrics=names)]
        hit = place_weights(TOP, judged.sample.rows, judged.sample.pair_labels, 2, "P")
        kinds = sampling.kinds_of(judged, hit, np.ones(hit.size))
        totals = sampling.totals(judged, kinds, 0.95)
        above += chance * float(totals.total @ totals.above)
        below += chance * float(totals.total.sum())
    expected = [exact(TOP, TRUE, "P@2"), exact(TOP, TRUE, "DCG@2"), exact(TOP, TRUE, "P@2")]
    np.testing.assert_allclose(sums, expected, atol=1e-12)
    hidden = TRUE * (1 - OBSERVED)
    row, label = np.nonzero(hidden)
    assert above == pytest.approx(place_weights(TOP, row, label, 2, "P").sum())
    assert below == pytest.approx(hidden.sum())


def ordered_pairs() -> Iterator[tuple[float, Judgements]]:
    """All ordered draws of two pairs from each of two strata of three rows; observed are free."""
    width = TRUE.shape[1]
    keys = [i * width + j for i in range(3) for j in range(width) if not OBSERVED[i, j]]
    ways = [list(permutations(keys[:4], 2)), list(permutations(keys[4:], 2))]
    strata = (Stratum("far", 4, 2), Stratum("far", len(keys) - 4, 2))
    for chosen in product(*ways):
        drawn = np.concatenate(chosen)
        row, label = np.divmod(drawn, width)
        sample = Sample(Design.PAIRS, (3, width), strata, row, label, [0, 0, 1, 1])
        yield 1 / (len(ways[0]) * len(ways[1])), Judgements(sample, TRUE[row, label].astype(float))


def test_no_covariate_of_pairs_biases_their_sums() -> None:
    """A good judge, a wrong one, numbers of rows: over all draws the totals are the true ones."""
    rng = np.random.default_rng(0)
    true, observed = TRUE[:3], sp.csr_array(OBSERVED[:3].astype(float))
    top, other = (TopK(each.labels[:3, :2], each.scores[:3, :2]) for each in (TOP, OTHER))
    own_covariates = {"good": true * 0.9, "noise": rng.random(true.shape), "rows": rng.random(3)}
    sums = np.zeros(3)
    for chance, judged in ordered_pairs():
        sample = judged.sample
        made = measure_differences(
            {"a": top, "b": other}, observed, judged, metrics=["DCG@2"], covariates=own_covariates
        )
        hit = place_weights(top, sample.rows, sample.pair_labels, 2, "P")
        kinds = sampling.kinds_of(judged, hit, np.ones(hit.size))
        plain = sampling.Fraction(sampling.totals(judged, kinds, 0.95), 0, 0, (0, 1))
        terms = [sampling.PairTerm(top, np.ones(2))]
        covariates = sampling.pair_covariates(
            own_covariates, judged, observed, terms, counts_everywhere=True
        )
        better = sampling.adjusted(plain, judged, kinds, covariates)
        above = float(better.value * better.denominator)
        sums += chance * np.array([unclipped(made["b"][0]), above, better.denominator])
    hidden = true * (1 - OBSERVED[:3])
    hits = place_weights(top, *np.nonzero(hidden), 2, "P").sum()
    difference = exact(other, true, "DCG@2") - exact(top, true, "DCG@2")
    expected = [difference, hits, hidden.sum()]
    np.testing.assert_allclose(sums, expected, atol=1e-10)


@pytest.mark.parametrize("design", [*ROW_DESIGNS, "pairs"])
def test_differences_are_unbiased_over_all_samples(design: str) -> None:
    sampler = pairs if design == "pairs" else ROW_DESIGNS[design]
    names = ["P@2"] if design == "pairs" else ["R@2"]
    sums = np.zeros(len(names))
    for chance, judged in sampler(TRUE):
        made = measure_differences({"a": TOP, "b": OTHER}, OBSERVED, judged, metrics=names)
        sums += [chance * unclipped(each) for each in made["b"]]
    wanted = [exact(OTHER, TRUE, name) - exact(TOP, TRUE, name) for name in names]
    np.testing.assert_allclose(sums, wanted, atol=1e-12)


def test_judging_everything_gives_the_true_value_with_no_doubt() -> None:
    names = ["P@2", "R@2", "nDCG@2", "micro-P@2", "micro-R@2", "micro-F1@2"]
    plan = audit.plan(TOP, OBSERVED, budget=10**6, unit="pairs", metrics=["micro-R@2"])
    assert len(plan) == 20 - OBSERVED.sum()
    judged = audit.from_pairs(plan, TRUE[plan.rows, plan.labels])
    hits = sum(TRUE[i, TOP.labels[i, :2]].sum() for i in range(5))
    wanted = {"micro-P@2": hits / 10, "micro-R@2": hits / 9, "micro-F1@2": 2 * hits / 19}
    for each in measure(TOP, OBSERVED, judged, metrics=["P@2", *names[3:]]):
        truth = wanted.get(each.metric, hits / 10)
        assert each.value == pytest.approx(truth)
        assert each.interval == (pytest.approx(truth), pytest.approx(truth))
    whole = audit.plan(TOP, OBSERVED, budget=5)
    for each in measure(TOP, OBSERVED, audit.from_rows(whole, TRUE[whole.rows]), metrics=names):
        assert each.value == pytest.approx(wanted.get(each.metric, exact(TOP, TRUE, "P@2"))
                                           if each.metric in (*wanted, "P@2")
                                           else exact(TOP, TRUE, each.metric))  # fmt: skip
        assert each.standard_error == pytest.approx(0, abs=1e-12)


def test_a_stratum_in_which_nothing_was_found_still_counts() -> None:
    """The upper end of a total is no less than N (1 − 0.025^(1/m)), and 0 is its lower end."""
    stratum = Stratum("far", 10**6, 200)
    rows, labels = np.divmod(np.arange(200), 10)
    sample = Sample(Design.PAIRS, (10**5, 10), (stratum,), rows, labels, np.zeros(200, int))
    judged = Judgements(sample, np.zeros(200))
    kinds = sampling.kinds_of(judged, np.zeros(200), np.ones(200))
    totals = sampling.totals(judged, kinds, 0.95)
    assert totals.total.tolist() == [0]
    exact = 10**6 * (1 - 0.025 ** (1 / 200))
    assert exact <= totals.end(np.ones(1), 1) < 1.4 * exact


def test_what_a_design_did_not_judge_is_refused_not_guessed() -> None:
    plan = audit.plan(TOP, OBSERVED, budget=4, unit="pairs", metrics=["P@2"])
    judged = audit.from_pairs(plan, TRUE[plan.rows, plan.labels])
    for name, system in [("R@2", TOP), ("micro-R@2", TOP), ("P@3", TOP), ("P@2", OTHER)]:
        (each,) = measure(system, OBSERVED, judged, metrics=[name])
        assert np.isnan(each.value)
        assert each.verdict.reason == "not-judged"
    (fine,) = measure(TOP, OBSERVED, judged, metrics=["P@1"])
    assert fine.verdict.usable


def _problem(n: int = 1500) -> tuple[TopK, sp.csr_array, sp.csr_array, np.ndarray]:
    true = data.synthetic.planted(n, n_labels=30, seed=1).labels
    p = np.linspace(0.3, 0.8, 30)
    observed = data.hide(true, p, seed=2)
    scores = np.random.default_rng(3).standard_normal(true.shape) + 2 * true.toarray()
    return TopK.from_scores(scores, 15), observed, true, p


def test_the_calls_of_the_reference_work_as_written() -> None:
    top, labels, true, p = _problem()
    plan = audit.plan(top, labels, budget=200, unit="rows", seed=0)
    judged = audit.from_rows(plan, true[plan.rows])
    for stated in (p, None):
        table = evaluate(top, labels, stated, metrics=["P@5", "R@5"], audit=judged)
        for name in ("P@5", "R@5"):
            low, high = table[name, "measured"].interval
            assert low < exact(top, true.toarray(), name) < high
            assert table[name, "measured"].verdict.level == "measured"
        assert table["R@5", "vanilla"].verdict.level == "doubtful"
        assert "judged rows" in str(table)
    plan = audit.plan(top, labels, budget=1200, unit="pairs", seed=0)
    judged = audit.from_pairs(plan, np.asarray(true[plan.rows, plan.labels]).ravel())
    table = evaluate(top, labels, p, metrics=["P@5", "R@5", "micro-R@5"], audit=judged)
    for name in ("P@5", "R@5"):
        low, high = table[name, "measured"].interval
        assert low <= exact(top, true.toarray(), name) <= high
    assert table["P@5", "unbiased"].verdict.level == "conditional"


def test_wrong_propensities_are_refuted_by_an_audit_and_right_ones_are_not() -> None:
    top, labels, true, p = _problem()
    plan = audit.plan(top, labels, budget=300, seed=1)
    judged = audit.from_rows(plan, true[plan.rows])
    names, estimators = ["P@5", "R@5"], ["unbiased", "deconvolved"]
    right = evaluate(top, labels, p, metrics=names, estimators=estimators, audit=judged)
    assert right["P@5", "unbiased"].verdict.level == "conditional"
    wrong = evaluate(
        top, labels, np.minimum(1, 1.5 * p), metrics=names, estimators=estimators, audit=judged
    )
    assert wrong["P@5", "unbiased"].verdict.level >= "doubtful"
    assert wrong["P@5", "measured"].verdict.level == "measured"
    assert wrong["P@5", "unbiased"].verdict.advice == ""  # no advice to audit beside an audit
    assert wrong.run is not None
    assert {each.kind.value for each in wrong.run.evidence} >= {"audit-disagrees"}


def test_spurious_labels_are_found_and_make_corrections_doubtful() -> None:
    top, labels, true, p = _problem()
    wrong_labels = np.random.default_rng(4).random(labels.shape) < 0.02
    added = sp.csr_array(((labels.toarray() > 0) | wrong_labels).astype(float))
    plan = audit.plan(top, added, budget=200, seed=1)
    table = evaluate(top, added, p, metrics=["P@5"], audit=audit.from_rows(plan, true[plan.rows]))
    wrong = 1 - (added.multiply(true).sum() / added.sum())
    assert table["P@5", "measured"].details["spurious"] == pytest.approx(wrong, abs=0.05)
    assert table["P@5", "unbiased"].verdict.level >= "doubtful"
    assert table.run is not None
    assert "spurious-labels" in {each.kind.value for each in table.run.evidence}
    sampled = audit.plan(
        top, added, budget=600, unit="pairs", metrics=["P@5"], observed="sampled", seed=1
    )
    judged = audit.from_pairs(sampled, np.asarray(true[sampled.rows, sampled.labels]).ravel())
    table = evaluate(top, added, p, metrics=["P@5"], audit=judged)
    low, high = table["P@5", "measured"].interval
    assert low < exact(top, true.toarray(), "P@5") < high
    assert table["P@5", "measured"].details["spurious"] == pytest.approx(wrong, abs=0.1)


def test_another_judge_narrows_and_a_biased_one_does_not_bias() -> None:
    top, labels, true, _ = _problem()
    plan = audit.plan(top, labels, budget=150, seed=1)
    judged = audit.from_rows(plan, true[plan.rows])
    exact_value = exact(top, true.toarray(), "R@5")
    (plain,) = measure(top, labels, judged, metrics=["R@5"])
    (good,) = measure(top, labels, judged, metrics=["R@5"], covariates=true)
    rng = np.random.default_rng(5)
    noise = sp.csr_array(rng.random(true.shape) * (rng.random(true.shape) < 0.3))
    (bad,) = measure(top, labels, judged, metrics=["R@5"], covariates=noise)
    assert good.standard_error < 0.7 * plain.standard_error
    for each in (plain, good, bad):
        assert each.interval[0] < exact_value < each.interval[1]


def test_another_judge_of_pairs_narrows_and_a_wrong_one_does_not_bias() -> None:
    """1,500 pairs, 40 audits: a good judge saves a quarter of the error, noise costs little."""
    top, labels, true, _ = _problem()
    hits = 5 * exact(top, true.toarray(), "P@5") * true.shape[0]
    truth = {"P@5": hits / (5 * true.shape[0]), "micro-R@5": hits / true.nnz}
    rng = np.random.default_rng(6)
    good = (rng.random(true.shape) < np.where(true.toarray() > 0, 0.9, 0.004)).astype(float)
    judges = {"good": good, "noise": rng.random(true.shape), "opposite": 1.0 - true.toarray()}
    errors: dict[tuple[str, str], list[float]] = {}
    covered = 0
    for seed in range(40):
        plan = audit.plan(
            top, labels, budget=1500, unit="pairs", metrics=list(truth), seed=seed, expect=False
        )
        judged = audit.from_pairs(plan, np.asarray(true[plan.rows, plan.labels]).ravel())
        for name, judge in judges.items():
            for each in measure(top, labels, judged, metrics=list(truth), covariates=judge):
                errors.setdefault((name, each.metric), []).append(each.value - truth[each.metric])
                errors.setdefault(("alone", each.metric), []).append(
                    each.details["alone"][0] - truth[each.metric]
                )
                covered += each.interval[0] <= truth[each.metric] <= each.interval[1]
    rms = {key: float(np.sqrt(np.mean(np.square(values)))) for key, values in errors.items()}
    for metric in truth:
        assert rms["good", metric] < 0.75 * rms["alone", metric]
        assert rms["opposite", metric] < 0.75 * rms["alone", metric]
        assert rms["noise", metric] < 1.1 * rms["alone", metric]
    assert covered >= 0.92 * 40 * 6


def test_systems_are_compared_by_what_was_judged() -> None:
    top, labels, true, p = _problem()
    scores = np.random.default_rng(8).standard_normal(true.shape) + true.toarray()
    weaker = TopK.from_scores(scores, 15)
    systems = {"weak": weaker, "strong": top}
    for options in (
        {"unit": "rows", "budget": 150},
        {"unit": "pairs", "budget": 800, "metrics": ["P@5", "micro-R@5"]},
    ):
        plan = audit.plan(systems, labels, seed=1, **options)
        if plan.unit == "rows":
            judged = audit.from_rows(plan, true[plan.rows])
        else:
            judged = audit.from_pairs(plan, np.asarray(true[plan.rows, plan.labels]).ravel())
        tables = compare(systems, labels, p, metrics=["P@5"], audit=judged, estimators=["unbiased"])
        made = tables["strong"]["P@5", "measured"]
        truth = exact(top, true.toarray(), "P@5") - exact(weaker, true.toarray(), "P@5")
        assert made.interval[0] < truth < made.interval[1]
        assert made.verdict.details["outcome"] == "better"
        assert made.details["p_value"] < 0.01


def test_the_variance_of_a_simple_sample_without_covariates_is_the_textbook_formula() -> None:
    rng = np.random.default_rng(0)
    values = rng.random((40, 1))
    sample = RowSample(np.arange(40), np.zeros(40, int), np.array([100]), values)
    made = controlled(sample, None, (0, 1))
    expected = (1 - 0.4) * (39 * values.var(ddof=1) + 0.25) / 40 / 40
    assert variance(sample, made.residuals[:, 0]) == pytest.approx(expected)


def ratio_sample(m: int = 40, seed: int = 0) -> RowSample:
    """Hits of at most three, and labels of which a few rows have many."""
    rng = np.random.default_rng(seed)
    below = 1 + rng.geometric(0.3, m) + 12.0 * (rng.random(m) < 0.1)
    above = rng.binomial(np.minimum(below, 3).astype(int), 0.6)
    values = np.column_stack([above, below]).astype(float)
    return RowSample(np.arange(m), np.zeros(m, int), np.array([200]), values)


REACH = np.zeros(2), np.array([3.0, np.inf])


def test_a_ratio_has_an_interval_of_wilson() -> None:
    """By hand: linearised residuals, two more rows, 2m/(κ − 1) degrees."""
    sample = ratio_sample()
    made = row_mean(sample, None, REACH, (0.0, 1.0), ratio=True, confidence=0.9)
    above, below = sample.values.T
    value = above.sum() / below.sum()
    left = (above - value * below) / below.mean()
    share = (40 * value + 1) / 42
    spread = ((left**2).sum() + share**2 + (1 - share) ** 2) / 40
    error = np.sqrt((1 - 40 / 200) * spread / 40)
    degrees = 2 * 40 / (kurtosis(left, fisher=False) - 1)
    assert degrees < 39
    z2, rows = t.ppf(0.95, degrees) ** 2, share * (1 - share) / error**2
    half = np.sqrt(z2 * (value * (1 - value) / rows + z2 / (4 * rows**2)))
    ends = (value + z2 / (2 * rows) + np.array([-half, half])) / (1 + z2 / rows)
    assert (made.value, made.error) == pytest.approx((value, error), rel=1e-12)
    assert made.degrees == pytest.approx(degrees, rel=1e-12)
    assert made.interval == pytest.approx(ends, rel=1e-9)
    rarer = replace(sample, values=sample.values / 64)  # in another unit the ratio is the same
    again = row_mean(rarer, None, (REACH[0], REACH[1] / 64), (0.0, 1.0), ratio=True, confidence=0.9)
    assert (again.value, again.error) == pytest.approx((made.value, made.error), rel=1e-12)


@pytest.mark.parametrize("hits", [0.0, 1.0])
def test_a_ratio_at_the_end_of_its_range_still_has_width(hits: float) -> None:
    values = np.column_stack([np.full(30, hits), np.ones(30)])
    sample = RowSample(np.arange(30), np.zeros(30, int), np.array([300]), values)
    low, high = row_mean(sample, None, (np.zeros(2), np.ones(2)), (0.0, 1.0), ratio=True).interval
    assert 0 <= low <= hits <= high <= 1
    assert 0.01 < high - low < 0.2


@pytest.mark.parametrize("end", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(8))
def test_rows_that_all_say_the_same_have_the_interval_of_a_share(end: float, seed: int) -> None:
    """Covariates bring the mean to the end of its range up to rounding only."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(140, 40, replace=False)
    sample = RowSample(rows, np.zeros(40, int), np.array([140]), np.full((40, 1), end))
    made, alone = (
        row_mean(sample, covariates, (0.0, 1.0), (0.0, 1.0))
        for covariates in (rng.random((140, 2)), None)
    )
    assert made.value == end
    assert made.interval == alone.interval
    assert 0.03 < made.interval[1] - made.interval[0] < 0.1


def test_observed_labels_are_doubtful_beside_an_audit_however_wide_the_interval() -> None:
    rng = np.random.default_rng(0)
    true = (rng.random((60, 6)) < 0.4).astype(float)
    observed = true * (rng.random(true.shape) < 0.6)
    top = TopK.from_scores(rng.random(true.shape), 3)
    for rows, wide in ((1, True), (20, False)):
        labels, truth = (np.tile(each, (rows, 1)) for each in (observed, true))
        many = TopK(np.tile(top.labels, (rows, 1)), np.tile(top.scores, (rows, 1)))
        plan = audit.plan(many, labels, budget=20, seed=0)
        judged = audit.from_rows(plan, truth[plan.rows])
        verdict = evaluate(many, labels, metrics=["P@3"], audit=judged)["P@3", "vanilla"].verdict
        assert verdict.level == "doubtful"
        assert ("wide" in str(verdict)) == wide


@pytest.mark.parametrize(
    ("stratum", "degrees"),
    [([0, 0, 0], 2), ([0, 0, 1], 1), ([0, 0, 0, 2, 2], 3), ([0, 1, 2], 1), ([1], 1)],
)
def test_every_stratum_with_a_judged_row_costs_a_degree(stratum: list[int], degrees: int) -> None:
    """One at least is left."""
    rows = np.arange(len(stratum))
    sample = RowSample(rows, np.array(stratum), np.array([9, 9, 9]), np.zeros((rows.size, 1)))
    assert _degrees(sample) == degrees


def test_a_ratio_above_1_has_the_interval_of_1() -> None:
    below = np.array([1.0, 2, 1, 3, 2, 1, 2, 1, 1, 2])
    for above in (1.2, 1.5, 2.5):
        values = np.column_stack([above * below + np.tile([0.3, -0.3], 5), below])
        sample = RowSample(np.arange(10), np.zeros(10, int), np.array([1000]), values)
        reach = np.zeros(2), np.array([9.0, np.inf])
        made = row_mean(sample, None, reach, (0.0, 1.0), ratio=True)
        assert made.value == pytest.approx(values[:, 0].sum() / values[:, 1].sum())
        assert 0.5 < made.interval[0] < 0.9
        assert made.interval[1] == 1.0


def test_a_wide_measurement_asks_for_a_larger_audit() -> None:
    true = data.synthetic.independent(300, 9, seed=0)
    scores = true.toarray() + np.random.default_rng(2).random(true.shape)
    top = TopK.from_scores(scores, 3)
    for budget, level, advice in (
        (4, Level.WIDE, Advice.LARGER_AUDIT),
        (300, Level.MEASURED, Advice.NONE),
    ):
        plan = audit.plan(top, true, budget=budget, unit="rows")
        (recall,) = measure(top, true, audit.from_rows(plan, true[plan.rows]), metrics=["R@3"])
        assert (recall.verdict.level, recall.verdict.advice) == (level, advice)


@pytest.mark.parametrize("confidence", [0.3, 1.0])
def test_measuring_needs_a_confidence(confidence: float) -> None:
    _, judged = next(simple(TRUE))
    with pytest.raises(ValueError, match="confidence must be at least"):
        measure(TOP, OBSERVED, judged, metrics=["P@2"], confidence=confidence)


def test_predictions_of_other_rows_are_refused() -> None:
    """More rows than the judgements belong to would be measured on the first of them."""
    _, judged = next(simple(TRUE))
    longer = TopK.from_scores(np.vstack([SCORES, SCORES]), 3)
    with pytest.raises(ValueError, match="must have the same rows; got 10 and 5"):
        measure(longer, OBSERVED, judged, metrics=["P@2"])
    with pytest.raises(ValueError, match="must have the same rows; got 10 and 5"):
        measure_differences({"one": TOP, "two": longer}, OBSERVED, judged, metrics=["P@2"])


def test_differences_of_ratios_lie_in_the_middle_of_their_intervals() -> None:
    """Systems that predict two labels and one: each ratio has a denominator of its own."""
    rng = np.random.default_rng(3)
    true = (rng.random((300, 6)) < 0.3).astype(int)
    observed = true * (rng.random(true.shape) < 0.5)
    two = TopK.from_scores(true + rng.random(true.shape), 2)
    one = TopK(np.c_[two.labels[:, 1], np.full(300, -1)], np.c_[two.scores[:, 1], [-np.inf] * 300])
    rows = rng.permutation(300)[:80]
    sample = Sample(Design.SIMPLE, true.shape, (Stratum("rows", 300, 80),), rows, None, [0] * 80)
    judged = Judgements(sample, sp.csr_array(true[rows]))
    ((made,),) = measure_differences(
        {"two": two, "one": one}, observed, judged, metrics=["micro-P@2"]
    ).values()
    low, high = made.interval
    half = t.ppf(0.975, made.details["degrees"]) * made.standard_error
    assert (low, high) == pytest.approx((made.value - half, made.value + half))
    values = [measure(top, observed, judged, metrics=["micro-P@2"])[0].value for top in (one, two)]
    assert made.value == pytest.approx(values[0] - values[1], abs=0.03)
    plain = made.details["alone"]
    assert plain[0] - plain[1] == pytest.approx(plain[2] - plain[0])
    assert plain[2] - plain[1] > high - low


def test_without_a_relevant_judged_label_there_is_no_recall() -> None:
    """Nothing to divide by: no number and no p-value, whatever was judged."""
    top = TopK.from_scores(np.random.default_rng(0).random((80, 6)), 3)
    other = TopK.from_scores(np.random.default_rng(1).random((80, 6)), 3)
    nothing = np.zeros((80, 6))
    plans: list[dict[str, Any]] = [
        {"unit": "rows", "budget": 2}, {"unit": "rows", "budget": 20},
        {"unit": "pairs", "budget": 120, "design": "two-phase"},
        {"unit": "pairs", "budget": 60, "design": "pairs"},
    ]  # fmt: skip
    for options in plans:
        plan = audit.plan(top, nothing, metrics=["micro-R@3"], expect=False, **options)
        if plan.unit == "rows":
            judged = audit.from_rows(plan, nothing[plan.rows])
        else:
            judged = audit.from_pairs(plan, nothing[plan.rows, plan.labels])
        names = ["micro-R@3"]
        table = evaluate(top, nothing, metrics=names, audit=judged, estimators=["measured"])
        systems = {"a": top, "b": other}
        (pair,) = measure_differences(systems, nothing, judged, metrics=names)["b"]
        assert np.isnan(pair.details.get("p_value", np.nan))
        for each in (table["micro-R@3", "measured"], pair):
            assert np.isnan(each.value), options
            assert (each.verdict.level, each.verdict.reason) == ("unusable", "no-relevant")
            assert f"no relevant label among the judged {plan.unit}" in each.verdict.sentence


def test_no_estimate_is_outside_the_range_of_its_metric() -> None:
    """Every metric that adds rows up, every design, few units and many."""
    rng = np.random.default_rng(7)
    linear = ["P@1", "P@3", "DCG@3", "micro-P@3", "micro-R@3", "micro-F1@3"]
    over_rows = ["R@3", "F1@3", "nDCG@3", "hit@3", "Jaccard@3", "R-precision@3", "MRR@3"]
    designs: list[dict[str, Any]] = [
        {"unit": "rows"},
        {"unit": "rows", "design": "stratified", "strata": 2},
        {"unit": "pairs", "design": "pairs"},
        {"unit": "pairs", "design": "two-phase", "head": 3, "tail": 0.2},
    ]
    for rate, options, budget in product((0.02, 0.3, 0.97), designs, (2, 9, 60)):
        true = (rng.random((120, 12)) < rate) * 1.0
        top = TopK.from_scores(true + 2 * rng.random(true.shape), 6)
        other = TopK.from_scores(rng.random(true.shape), 6)
        observed = true * (rng.random(true.shape) < 0.3)
        pairs = options["unit"] == "pairs"
        names = linear if options.get("design") == "pairs" else linear + over_rows
        plan = audit.plan(
            {"a": top, "b": other}, observed, budget=budget * 12 if pairs else budget,
            metrics=names, expect=False, **options,
        )  # fmt: skip
        if pairs:
            judged = audit.from_pairs(plan, true[plan.rows, plan.labels])
        else:
            judged = audit.from_rows(plan, true[plan.rows])
        made = measure(top, observed, judged, metrics=names)
        differences = measure_differences({"a": top, "b": other}, observed, judged, metrics=names)
        for each in (*made, *differences["b"]):
            if np.isnan(each.value):
                assert each.verdict.level == "unusable"
                continue
            most = ALL[split_measured(each.metric)[0]].at_most or np.inf
            least = 0.0 if each in made else -most
            low, high = each.interval
            assert least <= low <= each.value <= high <= most, (options, rate, each)
            assert low < high or budget == 60, each  # which may be all that counts


N, L = 400, 5


def rows(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True labels, those that a mask left which depends on the row, and probabilities."""
    rng = np.random.default_rng(seed)
    true = (rng.random((N, L)) < 0.35).astype(int)
    observed = true * (rng.random((N, L)) < rng.random((N, 1)))
    return true, observed, np.clip(0.3 * true + 0.6 * rng.random((N, L)), 0.01, 0.99)


def judged(
    true: np.ndarray, observed: np.ndarray, scores: np.ndarray, m: int, seed: int
) -> audit.Judgements:
    plan = audit.plan(scores, observed, budget=m, metrics=["P@1"], seed=seed)
    return audit.from_rows(plan, true[plan.rows])


@pytest.mark.parametrize("metric", ["mAP", "macro-AUC", "LRAP", "Brier", "Fmax"])
def test_the_estimate_is_that_of_the_formula(metric: str) -> None:
    true, observed, scores = rows(0)
    answers = judged(true, observed, scores, 80, seed=1)
    each = evaluate(scores, observed, metrics=[metric], audit=answers)[metric, "measured"]
    drawn = answers.sample.rows
    u = contributions(scores[drawn], true[drawn], metrics=[metric])[metric, "vanilla"]
    f = contributions(scores[drawn], observed[drawn], metrics=[metric])[metric, "vanilla"]
    share = np.cov(u, f)[0, 1] / f.var(ddof=1)
    share = min(max(share, 0.0), 1.0)
    whole = evaluate(scores, observed, metrics=[metric])[metric, "vanilla"].value
    residuals = u - share * f
    error = math.sqrt((1 - 80 / N) * residuals.var(ddof=1) / 80)
    assert each.value == pytest.approx(residuals.mean() + share * whole, abs=1e-12)
    assert each.standard_error == pytest.approx(error, rel=1e-9)
    half = student.ppf(0.975, 79) * error
    assert each.interval[0] == pytest.approx(max(0.0, each.value - half))
    assert each.interval[1] == pytest.approx(min(1.0, each.value + half))
    assert each.details["alone"][0] == pytest.approx(
        evaluate(scores[drawn], true[drawn], metrics=[metric])[metric, "vanilla"].value
    )
    assert each.verdict.reason is Reason.AUDITED


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["macro-F1", "weighted-F1", "Hamming", "micro-Jaccard"])
def test_intervals_hold_the_truth_whatever_hid_the_labels(metric: str) -> None:
    """Observed labels of rows go missing together; 60 audits of 100 rows."""
    true, observed, scores = rows(2)
    sets = LabelSets.from_scores(scores, 0.5)
    truth = evaluate(sets, true, metrics=[metric])[metric, "vanilla"].value
    vanilla = evaluate(sets, observed, metrics=[metric])[metric, "vanilla"].value
    held, values, widths = 0, [], []
    for seed in range(60):
        answers = judged(true, observed, scores, 100, seed=seed)
        each = evaluate(sets, observed, metrics=[metric], audit=answers)[metric, "measured"]
        held += each.interval[0] <= truth <= each.interval[1]
        values.append(each.value)
        alone = each.details["alone"]
        widths.append((each.interval[1] - each.interval[0]) / (alone[2] - alone[1]))
        assert each.verdict.level in (Level.MEASURED, Level.WIDE)
    assert held >= 53
    assert abs(np.mean(values) - truth) < 0.1 * abs(vanilla - truth)
    assert np.mean(widths) <= 1.0


def test_rows_add_up_to_ratios_and_means_over_labels() -> None:
    true, _, scores = rows(3)
    sets = LabelSets.from_scores(scores, 0.5)
    names = ["micro-F1", "Hamming", "macro-F1", "macro-P", "weighted-F1"]
    p = np.full(L, 0.8)
    added = contributions(sets, true, p, metrics=names, estimators=["vanilla", "unbiased"])
    table = evaluate(sets, true, p, metrics=names)
    for name in names:
        for estimator in ("vanilla", "unbiased"):
            values, each = added[name, estimator], table[name, estimator]
            assert values.shape == (N,)
            assert values.mean() == pytest.approx(each.value, abs=1e-10)
            error = values.std(ddof=1) / math.sqrt(N)
            assert error == pytest.approx(each.standard_error, rel=0.12)


def test_differences_are_measured_too() -> None:
    true, observed, scores = rows(4)
    worse = np.clip(scores + 0.5 * np.random.default_rng(5).random(scores.shape), 0, 1)
    answers = judged(true, observed, scores, 120, seed=6)
    systems = {"worse": worse, "better": scores}
    tables = compare(systems, observed, metrics=["mAP", "P@1"], audit=answers)
    each = tables["better"]["mAP", "measured"]
    new, old = (evaluate(s, observed, metrics=["mAP"], audit=answers)["mAP", "measured"].value
                for s in (scores, worse))  # fmt: skip
    assert each.details["values"] == pytest.approx([new, old])
    truth = [evaluate(s, true, metrics=["mAP"])["mAP", "vanilla"].value for s in (scores, worse)]
    assert each.interval[0] < truth[0] - truth[1] < each.interval[1]
    assert "better is better than worse" in str(each.verdict)
    assert each.details["p_value"] < 0.01
    assert tables["better"]["P@1", "measured"].details["p_value"] <= 1


def test_other_audits_say_that_they_did_not_judge_it() -> None:
    true, observed, scores = rows(7)
    plan = audit.plan(scores, observed, budget=200, unit="pairs", metrics=["P@1"], seed=0)
    answers = audit.from_pairs(plan, true[plan.rows, plan.labels])
    each = evaluate(scores, observed, metrics=["mAP"], audit=answers)["mAP", "measured"]
    assert each.verdict.reason is Reason.NOT_JUDGED
    assert math.isnan(each.value)


@pytest.mark.parametrize("metric", ["macro-F1", "mAP"])
def test_a_mean_over_labels_says_how_many_were_judged(metric: str) -> None:
    """Half of the labels are so rare that no judged row has one."""
    true, observed, scores = rows(6)
    rare = np.zeros((N, L), int)
    rare[-L:] = np.eye(L, dtype=int)
    true, observed = np.hstack([true, rare]), np.hstack([observed, rare])
    scores = np.hstack([scores, scores])
    predictions = scores if metric == "mAP" else LabelSets.from_scores(scores, 0.5)
    plan = audit.plan(scores, observed, budget=100, metrics=["P@1"], seed=2)
    assert not true[plan.rows][:, L:].any()
    answers = audit.from_rows(plan, true[plan.rows])
    each = evaluate(predictions, observed, metrics=[metric], audit=answers)[metric, "measured"]
    assert (each.verdict.level, each.verdict.reason) == (Level.DOUBTFUL, Reason.LABELS_NOT_JUDGED)
    assert "measured on 5 of 10 labels" in str(each.verdict)
    weighted = evaluate(
        LabelSets.from_scores(scores, 0.5), observed, metrics=["weighted-F1"], audit=answers
    )["weighted-F1", "measured"]
    assert weighted.verdict.reason is Reason.AUDITED
    by_row = evaluate(scores, observed, metrics=["coverage-error"], audit=answers)
    assert by_row["coverage-error", "measured"].verdict.reason is Reason.AUDITED


@pytest.mark.parametrize("metric", ["micro-P", "micro-R", "micro-F1", "sample-P", "sample-F1"])
@pytest.mark.parametrize("design", ["simple", "stratified"])
def test_a_complete_audit_gives_the_true_difference_of_sets_of_any_size(
    metric: str, design: str
) -> None:
    """One system predicts about twice as many labels as the other."""
    true, observed, scores = rows(7)
    few, many = (LabelSets.from_scores(scores, cut) for cut in (0.6, 0.3))
    plan = audit.plan({"many": many, "few": few}, observed, budget=N, design=design)
    answers = audit.from_rows(plan, true[plan.rows])
    systems = {"many": many, "few": few}
    measured = compare(systems, observed, metrics=[metric], audit=answers)["few"]
    truth = compare(systems, true, metrics=[metric])["few"][metric, "vanilla"].value
    assert measured[metric, "measured"].value == pytest.approx(truth, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["micro-P", "micro-F1"])
def test_intervals_of_differences_of_sets_hold_the_truth(metric: str) -> None:
    true, observed, scores = rows(8)
    systems = {name: LabelSets.from_scores(scores, cut)
               for name, cut in (("many", 0.3), ("few", 0.6))}  # fmt: skip
    truth = compare(systems, true, metrics=[metric])["few"][metric, "vanilla"].value
    held, widths = 0, []
    for seed in range(40):
        plan = audit.plan(systems, observed, budget=80, seed=seed, expect=False)
        answers = audit.from_rows(plan, true[plan.rows])
        table = compare(systems, observed, metrics=[metric], audit=answers)["few"]
        low, high = table[metric, "measured"].interval
        held += low <= truth <= high
        widths.append(high - low)
    assert held >= 35
    assert np.mean(widths) < 0.2


def test_pairs_measure_differences_of_precision_of_sets_of_any_size() -> None:
    """All pairs judged: the truth; the difference of two F1 is not one ratio, and refused."""
    true, observed, scores = rows(9)
    systems = {name: LabelSets.from_scores(scores, cut)
               for name, cut in (("many", 0.3), ("few", 0.6))}  # fmt: skip
    plan = audit.plan(systems, observed, budget=N * L, unit="pairs", observed="sampled")
    answers = audit.from_pairs(plan, true[plan.rows, plan.labels])
    names = ["micro-P", "micro-R", "micro-F1"]
    measured = compare(systems, observed, metrics=names, audit=answers)["few"]
    truth = compare(systems, true, metrics=names)["few"]
    for name in names[:2]:
        assert measured[name, "measured"].value == pytest.approx(
            truth[name, "vanilla"].value, abs=1e-12
        )
    assert measured["micro-F1", "measured"].verdict.reason is Reason.NOT_JUDGED


@pytest.mark.parametrize(("m", "n"), [(1, 5), (2, 9), (6, 40), (7, 7)])
def test_the_error_of_a_mean_of_rows_drawn_without_replacement(m: int, n: int) -> None:
    """By the squared differences of all pairs; of a single row nothing is known."""
    values = np.random.default_rng(m).standard_normal(m)
    squares = sum((a - b) ** 2 for a in values for b in values)
    wanted = math.sqrt((1 - m / n) * squares / (2 * m * (m - 1)) / m) if m > 1 else math.inf
    assert estimates._error(values, n) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(("factor", "wanted"), [(0.4, 0.4), (-0.3, 0.0), (1.7, 1.0)])
def test_the_share_of_the_observed_that_is_taken_is_its_slope_within_bounds(
    factor: float, wanted: float
) -> None:
    observed = np.array([0.0, 1.0, 2.0, 5.0])
    beside = np.array([1.0, -1.0, 0.0, 0.0])
    centred = observed - observed.mean()
    beside -= observed * (beside @ centred) / (observed @ centred)  # has no slope of its own
    assert estimates._slope(3 + factor * observed + beside, observed) == pytest.approx(wanted)
    assert estimates._slope(observed, np.full(4, 7.0)) == 0.0
