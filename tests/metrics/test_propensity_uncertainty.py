"""Propensity uncertainty in intervals: the law of total variance by enumeration, and coverage."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.rankings import LISTED
from unmask import data, propensity
from unmask.metrics import (
    Estimate,
    Table,
    compare,
    evaluate,
    propensity_uncertainty,
)
from unmask.metrics.claims import CONDITIONAL, Level, Reason, Verdict
from unmask.predictions import TopK
from unmask.propensity import PropensityEstimate
from unmask.propensity.estimate import TOGETHER

L = 60


@dataclass(frozen=True)
class Listed:
    """Draws go through a list of vectors, each as often as the others."""

    vectors: tuple[tuple[float, ...], ...]

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return np.resize(np.array(self.vectors), (size, len(self.vectors[0])))


def estimate_of(*vectors: tuple[float, ...]) -> PropensityEstimate:
    value = np.mean(vectors, axis=0)
    return PropensityEstimate(value, value, value, 0.95, "test", value, Listed(vectors))


def exact_precision(hits: list[int], p: tuple[Fraction, ...]) -> Fraction:
    """Mean of 1/p over rows whose single prediction is the label in `hits` (−1: a miss)."""
    return sum((1 / p[j] for j in hits if j >= 0), Fraction(0)) / len(hits)


def variance(values: list[Fraction]) -> Fraction:
    mean = sum(values, Fraction(0)) / len(values)
    return sum(((v - mean) ** 2 for v in values), Fraction(0)) / len(values)


def test_the_error_is_the_law_of_total_variance() -> None:
    """Over all resamples of three rows and all propensities of a list, in exact fractions."""
    support = tuple(
        (Fraction(a, 8), Fraction(b, 8)) for a, b in ((2, 4), (4, 4), (4, 8), (8, 2), (2, 2))
    )
    hits, rows, draws = [0, 1, -1], 3, 10
    within, means = [], []
    for p in support:
        again = [
            exact_precision([hits[i] for i in drawn], p) for drawn in product(range(3), repeat=3)
        ]
        within.append(variance(again) * Fraction(rows, rows - 1))  # resamples vary less than rows
        means.append(exact_precision(hits, p))
    total = sum(within, Fraction(0)) / len(within) + variance(means) * Fraction(draws, draws - 1)
    top = TopK([[0], [1], [0]], [[1.0]] * 3)
    found = evaluate(
        top,
        [[1, 0], [0, 1], [0, 0]],
        estimate_of(*(tuple(map(float, p)) for p in support)),
        metrics=["P@1"],
        estimators=["unbiased"],
        draws=draws,
    )["P@1", "unbiased"]
    assert found.standard_error**2 == pytest.approx(float(total), rel=1e-12)
    value = np.mean([[float(x) for x in p] for p in support], axis=0)
    assert found.value == pytest.approx((1 / value).sum() / 3, rel=1e-12)
    share = variance(means) * Fraction(draws, draws - 1) / total
    assert found.details["propensity_share"] == pytest.approx(float(share), rel=1e-12)
    assert found.interval == (0.0, 1.0)  # of three rows


def cell(value: float, error: float, interval: tuple[float, float]) -> Table:
    return Table([Estimate("R@5", "unbiased", value, error, interval, 9.0, 0.1, 99, CONDITIONAL)])


def test_ends_of_other_intervals_are_added_as_errors_are() -> None:
    drawn = [cell(v, 0.1, (0, 1)) for v in (0.1, 0.5, 0.6)]
    plain = cell(0.5, 0.1, (0.2, 0.6))
    found = propensity_uncertainty.widen(plain, drawn, confidence=0.5, interval="percentile")
    low, high = np.quantile([0.1, 0.5, 0.6], [0.25, 0.75])
    expected = (0.5 - np.hypot(0.3, 0.5 - low), 0.5 + np.hypot(0.1, high - 0.5))
    assert found["R@5", "unbiased"].interval == pytest.approx(expected)
    assert found["R@5", "unbiased"].details["rows_only"] == [0.2, 0.6]


def test_what_does_not_depend_on_propensities_is_left_alone() -> None:
    top, labels = TopK([[0], [1]], [[1.0]] * 2), [[1, 0], [1, 1]]
    p = estimate_of((0.2, 0.5), (0.6, 0.5))
    plain = evaluate(top, labels, metrics=["P@1", "R@1"])
    with_doubt = evaluate(top, labels, p, metrics=["P@1", "R@1"], estimators=["vanilla"])
    assert [e.standard_error for e in with_doubt] == [e.standard_error for e in plain]
    sure = estimate_of((0.2, 0.5))
    assert evaluate(top, labels, sure, metrics=["P@1"]) == evaluate(
        top, labels, sure.value, metrics=["P@1"]
    )


def test_draws_that_the_data_refuse_are_mentioned() -> None:
    """Half of the draws leave no deconvolved value."""
    drawn = [cell(v, 0.01, (0, 1)) for v in (0.4, 0.5, np.nan, np.nan)]
    found = propensity_uncertainty.widen(
        cell(0.45, 0.01, (0.4, 0.5)), drawn, confidence=0.95, interval="normal"
    )
    assert str(found["R@5", "unbiased"].verdict).startswith("doubtful: the data contradict 50%")
    assert found["R@5", "unbiased"].standard_error ** 2 == pytest.approx(0.01**2 + 0.1**2 / 2)


def test_a_wide_verdict_says_what_made_it_wide() -> None:
    drawn = [cell(v, 0.01, (0, 1)) for v in (0.2, 0.8)]
    found = propensity_uncertainty.widen(
        cell(0.5, 0.01, (0.48, 0.52)), drawn, confidence=0.8, interval="normal"
    )
    said = str(found["R@5", "unbiased"].verdict)
    assert said.startswith("unusable")
    assert said.endswith("100% of the variance is due to the propensities")


@pytest.mark.parametrize(("error", "words"), [(0.1, "67% of the variance"), (0.2, "")])
def test_propensities_are_blamed_for_more_than_half_of_the_variance(
    error: float, words: str
) -> None:
    """The draws vary by 0.02; the rows by 0.01 in one case, by 0.04 in the other."""
    drawn = [cell(v, error, (0, 1)) for v in (0.4, 0.6)]
    found = propensity_uncertainty.widen(
        cell(0.5, error, (0, 1)), drawn, confidence=0.95, interval="normal"
    )
    each = found["R@5", "unbiased"]
    assert each.details["propensity_share"] == pytest.approx(0.02 / (0.02 + error**2))
    assert each.verdict.level in (Level.WIDE, Level.UNUSABLE)
    assert words in str(each.verdict)
    assert ("due to the propensities" in str(each.verdict)) == bool(words)


@pytest.mark.parametrize(("refused", "doubtful"), [(1, False), (2, True)])
def test_one_refused_draw_in_ten_is_no_reason_for_doubt(refused: int, doubtful: bool) -> None:
    values = [*np.linspace(0.49, 0.51, 10 - refused), *[np.nan] * refused]
    drawn = [cell(v, 0.01, (0, 1)) for v in values]
    found = propensity_uncertainty.widen(
        cell(0.5, 0.01, (0, 1)), drawn, confidence=0.95, interval="normal"
    )
    assert (found["R@5", "unbiased"].verdict.level is Level.DOUBTFUL) == doubtful


def predictions(true: sp.csr_array, strength: float, seed: int) -> TopK:
    noise = np.random.default_rng(seed).normal(size=true.shape)
    return TopK.from_scores((noise + strength * true.toarray()).astype(np.float32), 5)


def audited(rows: int, seed: int) -> tuple[sp.csr_array, sp.csr_array, PropensityEstimate]:
    """Test labels, complete and observed, and propensities from an audit of other rows."""
    true = data.synthetic.planted(4000 + rows, n_labels=L, seed=seed).labels
    counts = np.bincount(true.indices, minlength=L)
    p = propensity.jain_curve(counts, true.shape[0], a=0.9, b=6.0)
    seen = data.hide(true, p, seed=seed + 1)
    estimate = propensity.audit(
        seen[4000:], true[4000:], counts=np.bincount(seen.indices, minlength=L), n=true.shape[0],
        curve="free", seed=seed,
    )  # fmt: skip
    return true[:4000], seen[:4000], estimate


@pytest.mark.parametrize("interval", ["normal", "percentile", "bca"])
def test_intervals_widen_and_scores_serve_as_predictions(interval: str) -> None:
    true, seen, estimate = audited(80, 0)
    noise = np.random.default_rng(0).normal(size=(300, L)) + true[:300].toarray()
    asked = {"metrics": ["P@5", "R@5"], "estimators": ["unbiased"], "interval": interval}
    wide = evaluate(noise, seen[:300], estimate, draws=20, **asked)
    plain = evaluate(noise, seen[:300], estimate.value, **asked)
    for one, two in zip(wide, plain, strict=True):
        assert one.value == two.value
        assert one.interval[0] < two.interval[0]
        assert one.interval[1] > two.interval[1]
    assert wide == evaluate(noise, seen[:300], estimate, draws=20, **asked)


def test_differences_carry_the_doubt_too() -> None:
    true, seen, estimate = audited(60, 1)
    systems = {"old": predictions(true, 1.8, 0), "new": predictions(true, 1.9, 1)}
    asked = {"metrics": ["P@5", "R@5"], "estimators": ["vanilla", "unbiased", "deconvolved"]}
    wide = compare(systems, seen, estimate, draws=12, replicates=200, **asked)["new"]
    plain = compare(systems, seen, estimate.value, replicates=200, **asked)["new"]
    drawn = estimate.draw(seed=0, size=12)
    for one, two in zip(wide, plain, strict=True):
        assert one.value == two.value
        if one.estimator == "vanilla":
            assert one == two
            continue
        values = [
            evaluate(systems["new"], seen, p, **asked)[one.metric, one.estimator].value
            - evaluate(systems["old"], seen, p, **asked)[one.metric, one.estimator].value
            for p in drawn
        ]
        between = one.details["propensity_share"] * one.standard_error**2
        assert between == pytest.approx(np.var(values, ddof=1), rel=1e-9)
        assert one.standard_error > two.standard_error * 0.98
        assert one.interval[0] <= two.interval[0]
        assert "p = " in str(one.verdict)


def test_masks_that_go_together_make_what_does_not_add_up_doubtful() -> None:
    true, seen, estimate = audited(60, 2)
    keep = sp.diags_array((np.arange(60) % 2).astype(np.float32))
    together = propensity.audit(keep @ true[:60], true[:60], curve="free")
    assert together.effect > 2 > 1.5 > estimate.effect >= 1
    top, asked = predictions(true, 2.0, 0), {"metrics": ["P@5", "R@5"], "draws": 5}
    found = evaluate(top, seen, together, estimators=["vanilla", "unbiased"], **asked)
    assert found["R@5", "unbiased"].verdict.reason is Reason.DEPENDENT_LABELS
    for cell in (("R@5", "vanilla"), ("P@5", "unbiased")):
        assert found[cell].verdict.reason is not Reason.DEPENDENT_LABELS
    independent = evaluate(top, seen, estimate, **asked)["R@5", "unbiased"]
    assert independent.verdict.reason is not Reason.DEPENDENT_LABELS


def test_the_number_of_draws_is_checked() -> None:
    with pytest.raises(ValueError, match="draws must be a whole number"):
        evaluate(TopK([[0]], [[1.0]]), [[1]], estimate_of((0.5,), (0.6,)), metrics=["P@1"], draws=0)


@pytest.mark.slow
def test_widened_intervals_cover_where_plain_ones_do_not() -> None:
    """P@5 of complete labels, from audits of 60 rows: 80 planted data sets."""
    inside = []
    for seed in range(80):
        true, seen, estimate = audited(60, 1000 + seed)
        top = predictions(true, 2.2, seed)
        exact = evaluate(top, true, metrics=["P@5"])["P@5", "vanilla"].value
        asked = {"metrics": ["P@5"], "estimators": ["unbiased"]}
        row = []
        for p in (estimate, estimate.value):
            low, high = evaluate(top, seen, p, **asked)["P@5", "unbiased"].interval
            row.append(low <= exact <= high)
        inside.append(row)
    widened, plain = np.mean(inside, axis=0)
    assert widened >= 0.88
    assert plain < 0.8


CARRIED = Verdict(
    Level.UNUSABLE, Reason.FEW_ROWS,
    details={"count": 3, "rows": 900, "of": "rows", "share": 0.8},
)  # fmt: skip


DEPENDENT = Verdict(Level.DOUBTFUL, Reason.DEPENDENT_LABELS, details={"design_effect": 2.0})


def estimated(
    value: float, error: float = 0.01, *, metric: str = "R@5", estimator: str = "unbiased",
    interval: tuple[float, float] = (0.4, 0.5), verdict: Verdict = CONDITIONAL,
) -> Estimate:  # fmt: skip
    return Estimate(metric, estimator, value, error, interval, 9.0, 0.1, 99, verdict)


def widened(plain: Estimate, *drawn: float | Estimate, **options: Any) -> Estimate:
    """`plain` with draws; numbers are values of draws that are like it otherwise."""
    tables = [
        Table([replace(plain, value=each) if isinstance(each, float) else each]) for each in drawn
    ]
    asked = {"confidence": 0.95, "interval": "normal", **options}
    return propensity_uncertainty.widen(Table([plain]), tables, **asked)[
        plain.metric, plain.estimator
    ]


def test_one_draw_or_equal_draws_or_no_value_leave_it_as_it_was() -> None:
    plain = estimated(0.45)
    assert widened(plain, 0.3) == plain
    assert widened(plain, 0.3, math.nan) == plain
    assert widened(plain, 0.3, 0.3, math.nan) == plain
    assert widened(plain, 0.3, 0.4) != plain
    refused = estimated(math.nan, math.nan, verdict=CARRIED)
    assert widened(refused, 0.3, 0.4).verdict == CARRIED
    assert "rows_only" not in widened(refused, 0.3, 0.4).details


def test_draws_without_an_error_take_that_of_the_plain_estimate() -> None:
    plain = estimated(0.45, 0.02)
    found = widened(plain, estimated(0.4, 0.04), estimated(0.5, math.nan))
    assert found.standard_error**2 == pytest.approx((0.04**2 + 0.02**2) / 2 + 0.1**2 / 2)


def test_intervals_stay_in_the_range_of_the_metric_and_those_of_differences_do_not() -> None:
    """The draws add z times their standard deviation to either end, as errors add."""
    drawn = [0.0, 0.99]
    for estimator in ("deconvolved", "unbiased"):
        plain = estimated(0.5, estimator=estimator, interval=(0.4, 0.5))
        assert widened(plain, *drawn).interval == (0.0, 1.0)
        z = 1.959964 * 0.99 / math.sqrt(2)
        ends = 0.5 - math.hypot(0.1, z), 0.5 + z
        assert widened(plain, *drawn, bounded=False).interval == pytest.approx(ends, rel=1e-6)


def test_an_end_on_the_wrong_side_of_the_value_adds_nothing() -> None:
    """All draws lie above the value: nothing is added to the distance below it."""
    found = widened(estimated(0.45, interval=(0.4, 0.5)), 0.6, 0.7, interval="percentile")
    assert found.interval[0] == pytest.approx(0.4)
    assert found.interval[1] == pytest.approx(0.45 + math.hypot(0.05, 0.7 - 0.0025 - 0.45))


@pytest.mark.parametrize(
    ("refused", "words"), [(1, "conditional"), (2, "doubtful: the data contradict 20%")]
)
def test_more_than_a_tenth_of_refused_draws_is_worth_a_word(refused: int, words: str) -> None:
    values = [0.44, 0.45, *[0.445] * (8 - refused), *[math.nan] * refused]
    plain = estimated(0.45, interval=(0.42, 0.48))
    assert str(widened(plain, *values).verdict).startswith(words)


def test_worse_verdicts_stay() -> None:
    for verdict in (CARRIED, DEPENDENT):
        found = widened(estimated(0.45, verdict=verdict), 0.1, 0.9, math.nan)
        assert found.verdict == verdict
        assert found.standard_error > 0.5


def test_wide_says_propensities_only_if_they_are_most_of_the_variance() -> None:
    """Rows: 0.1²; draws ± d have variance 2d²: most of it from d = 0.0708 on."""
    plain = estimated(0.5, 0.1, interval=(0.304, 0.696))
    less, more = (str(widened(plain, 0.5 - d, 0.5 + d).verdict) for d in (0.07, 0.072))
    assert less.startswith("wide: ± 0.27")
    assert "due to" not in less
    assert more.endswith("; 51% of the variance is due to the propensities")
    narrow = widened(estimated(0.5, 0.001, interval=(0.498, 0.502)), 0.49, 0.51)
    assert narrow.details["propensity_share"] > 0.9
    assert narrow.verdict == CONDITIONAL


ADD_UP = {"P", "DCG", "sample-P", "Hamming", "coverage"}  # and micro, macro and weighted metrics


@pytest.mark.parametrize("estimator", ["vanilla", "normalized", "unbiased", "bound"])
def test_only_corrections_of_what_does_not_add_up_need_independence(estimator: str) -> None:
    every = [f"{name}@5" for name in LISTED]
    table = Table([estimated(0.4, metric=metric, estimator=estimator) for metric in every])
    corrected = estimator in ("unbiased", "bound")
    for each in propensity_uncertainty.dependence_judged(table, 2.34):
        name = each.metric.split("@")[0]
        adds_up = name in ADD_UP or name.startswith(("micro-", "macro-", "weighted-"))
        doubt = corrected and not adds_up
        words = "doubtful: labels of a row are kept or lost together (design effect 2.3)"
        assert str(each.verdict).startswith(words if doubt else "conditional: ")
        assert (each.verdict.reason is Reason.DEPENDENT_LABELS) == doubt
    assert propensity_uncertainty.dependence_judged(table, TOGETHER) is table


def test_what_is_unusable_stays_unusable_whatever_labels_do_together() -> None:
    table = Table([estimated(0.4, verdict=CARRIED)])
    (estimate,) = propensity_uncertainty.dependence_judged(table, 9.0)
    assert estimate.verdict == CARRIED
