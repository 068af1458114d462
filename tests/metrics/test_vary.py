"""Other propensities: the law of total variance, ends by enumeration of vertices, mask models."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.evaluations import L, part, rows_of, summary_of
from tests.helpers.rankings import LISTED
from unmask import data, propensity
from unmask._kernels.deconvolution import STRATA
from unmask.metrics import Estimate, Evaluator, Table, compare, evaluate, vary
from unmask.metrics.claims import CONDITIONAL, Level, Reason, Run, Verdict, judge_run
from unmask.metrics.request import Request
from unmask.metrics.thinning import occupied_cells
from unmask.metrics.vary import (
    EFFORTS,
    GAMMAS,
    MOST,
    EffortValue,
    GammaRange,
    Sensitivity,
    refuse_slope,
)
from unmask.metrics.vary import _less_wrong as _carried
from unmask.metrics.vary import beyond_effort as needs_more
from unmask.metrics.vary import under_mask as table_by
from unmask.predictions import TopK
from unmask.propensity import MaskModel, PropensityEstimate
from unmask.propensity.estimate import TOGETHER
from unmask.propensity.mask_model import ScoreSlope
from unmask.propensity.models import Source

N_LABELS = 60


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


def test_ends_of_other_intervals_are_added_as_errors_are() -> None:
    plain = estimated(0.5, 0.1, interval=(0.2, 0.6))
    made = widened(plain, 0.1, 0.5, 0.6, confidence=0.5, interval="percentile")
    low, high = np.quantile([0.1, 0.5, 0.6], [0.25, 0.75])
    expected = (0.5 - np.hypot(0.3, 0.5 - low), 0.5 + np.hypot(0.1, high - 0.5))
    assert made.interval == pytest.approx(expected)
    assert made.details["rows_only"] == [0.2, 0.6]


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


def predictions(true: sp.csr_array, strength: float, seed: int) -> TopK:
    noise = np.random.default_rng(seed).normal(size=true.shape)
    return TopK.from_scores((noise + strength * true.toarray()).astype(np.float32), 5)


def audited(rows: int, seed: int) -> tuple[sp.csr_array, sp.csr_array, PropensityEstimate]:
    """Test labels, complete and observed, and propensities from an audit of other rows."""
    true = data.synthetic.planted(4000 + rows, n_labels=N_LABELS, seed=seed).labels
    counts = np.bincount(true.indices, minlength=N_LABELS)
    p = propensity.jain_curve(counts, true.shape[0], a=0.9, b=6.0)
    seen = data.hide(true, p, seed=seed + 1)
    estimate = propensity.audit(
        seen[4000:], true[4000:], counts=np.bincount(seen.indices, minlength=N_LABELS),
        n=true.shape[0], curve="free", seed=seed,
    )  # fmt: skip
    return true[:4000], seen[:4000], estimate


@pytest.mark.parametrize("interval", ["normal", "percentile", "bca"])
def test_intervals_widen_and_scores_serve_as_predictions(interval: str) -> None:
    true, seen, estimate = audited(80, 0)
    noise = np.random.default_rng(0).normal(size=(300, N_LABELS)) + true[:300].toarray()
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


def widened(
    plain: Estimate, *drawn: float | Estimate, bounded: bool = True, **options: Any
) -> Estimate:
    """`plain` with draws; numbers are values of draws that are like it otherwise."""
    numbers = [replace(plain, value=each) if isinstance(each, float) else each for each in drawn]
    tables = [{"": Table([each])} for each in (plain, *numbers)]
    request = Request([plain.metric], draws=len(drawn), **options)
    made = vary.widened(lambda _: tables, estimate_of((0.5,)), request, bounded=bounded)
    return made[""][plain.metric, plain.estimator]


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
    for each in judge_run(replace(table, run=Run(Source(), 99, 5, 0.95, effect=2.34))):
        name = each.metric.split("@")[0]
        adds_up = name in ADD_UP or name.startswith(("micro-", "macro-", "weighted-"))
        doubt = corrected and not adds_up
        words = "doubtful: labels of a row are kept or lost together (design effect 2.3)"
        assert str(each.verdict).startswith(words if doubt else "conditional: ")
        assert (each.verdict.reason is Reason.DEPENDENT_LABELS) == doubt
    (one, *_) = judge_run(replace(table, run=Run(Source(), 99, 5, 0.95, effect=TOGETHER)))
    assert one.verdict.level is Level.CONDITIONAL


def test_what_is_unusable_stays_unusable_whatever_labels_do_together() -> None:
    table = Table([estimated(0.4, verdict=CARRIED)])
    (made,) = judge_run(replace(table, run=Run(Source(), 99, 5, 0.95, effect=9.0)))
    assert (made.verdict.level, made.verdict.reason) == (CARRIED.level, CARRIED.reason)


RANGES = (GammaRange(1.25, 0.41, 0.62),)


@pytest.mark.parametrize(
    ("turns_at", "factor", "words"),
    [
        (None, "", ""),
        (math.inf, f"> {MOST:g}", f"the winner stays the same up to a factor of {MOST:g}"),
        (1.231, "1.24", "the winner changes where propensities are off by 1.24 times"),
        (1.5, "1.50", "the winner changes where propensities are off by 1.50 times"),
    ],
)
def test_the_factor_at_which_the_winner_changes_is_rounded_up(
    turns_at: float | None, factor: str, words: str
) -> None:
    moved = Sensitivity(0.5, RANGES, turns_at=turns_at)
    assert moved.turning_factor == factor
    assert moved.turning == words


def test_the_ends_are_those_of_all_changes() -> None:
    moved = Sensitivity(0.5, RANGES, (EffortValue(0.3, 0.2), EffortValue(0.5, 0.9)))
    assert (moved.low, moved.high) == (0.2, 0.9)
    assert (Sensitivity(0.7, RANGES).low, Sensitivity(0.7, RANGES).high) == (0.41, 0.7)


P = np.array([0.5, 0.3, 0.8])

WRONG = np.array([0.05, 0.02, 0.1])


@pytest.mark.parametrize("metric", ["P@2", "DCG@2"])
@pytest.mark.parametrize("truth", [[1, 0, 1], [0, 0, 0], [1, 1, 0]])
def test_linear_metrics_are_unbiased_over_all_observations(metric: str, truth: list[int]) -> None:
    """Σ over observed y of P(y | y*) times (hits at p − ε, less what wrong labels add)."""
    top = TopK([[2, 0]], [[0.9, 0.4]])
    total = 0.0
    for observed in product((0, 1), repeat=3):
        one = np.where(truth, P, WRONG)
        chance = np.prod(np.where(observed, one, 1 - one))
        table = evaluate(
            top, [list(observed)], P - WRONG, metrics=[metric], estimators=["unbiased"]
        )
        each = _carried(table[metric, "unbiased"], top, WRONG / (P - WRONG))
        total += chance * each.value
    expected = evaluate(top, [truth], metrics=[metric])[metric, "vanilla"].value
    assert total == pytest.approx(expected)


def test_false_rates_bring_back_the_share_of_wrong_labels() -> None:
    """ε (rows without the label) is φ of the observed ones, N* = (1 − φ) n_j / p."""
    labels = sp.csr_array((np.random.default_rng(0).random((400, 3)) < [0.3, 0.1, 0.2]) * 1.0)
    mask = MaskModel(P, spurious=0.1)
    wrong, counts = mask.false_rate(labels), np.asarray(labels.sum(axis=0)).ravel()
    without = 400 - 0.9 * counts / P
    np.testing.assert_allclose(wrong * without, 0.1 * counts)


def test_wrong_labels_are_carried_by_linear_metrics_only() -> None:
    """20 % wrong labels: P@1 comes near the truth and is conditional, R@1 is doubtful."""
    rng = np.random.default_rng(3)
    truth = (rng.random((20_000, 6)) < 0.3).astype(np.float32)
    p = np.full(6, 0.5)
    mask = MaskModel(p, spurious=0.2)
    observed = data.hide(truth, mask, seed=0)
    scores = truth * 0.1 + rng.random(truth.shape)
    options = {"metrics": ["P@1", "R@1"], "estimators": ["unbiased", "deconvolved"]}
    table, naive = (
        evaluate(scores, observed, mask, **options),
        evaluate(scores, observed, p, **options),
    )
    true_value = evaluate(scores, truth, metrics=["P@1"])["P@1", "vanilla"].value
    assert abs(table["P@1", "unbiased"].value - true_value) < 0.015
    assert abs(naive["P@1", "unbiased"].value - true_value) > 0.03
    assert table["P@1", "unbiased"].verdict.level.value == "conditional"
    for name in ("unbiased", "deconvolved"):
        assert table["R@1", name].verdict.level.value == "doubtful"


def test_a_slope_gives_entries_their_own_propensity() -> None:
    rng = np.random.default_rng(4)
    labels = sp.csr_array((rng.random((300, 5)) < 0.4).astype(np.float32))
    scores = rng.random((300, 5))
    slope = ScoreSlope(1.0, -0.2, np.zeros(5), 0.5, 0.3)
    mask = MaskModel(np.full(5, 0.4), score_slope=slope)
    options = {"metrics": ["P@2", "R@2", "nDCG@2"], "estimators": ["unbiased"]}
    by_mask = evaluate(scores, labels, mask, **options)
    by_entry = evaluate(scores, labels, mask.of_entries(labels, scores), **options)
    for each, other in zip(by_mask, by_entry, strict=True):
        assert each.value == other.value
    assert by_mask["R@2", "unbiased"].verdict.level.value in ("doubtful", "unusable")
    assert by_mask.run is not None
    assert by_mask.run.source.score_slope == 1.0
    with pytest.raises(ValueError, match="the mask depends on the scores of one model"):
        compare({"a": scores, "b": -scores}, labels, mask, metrics=["P@2"])


def test_a_mask_of_other_labels_is_refused() -> None:
    slope = ScoreSlope(1.0, -0.2, np.zeros(3), 0.5, 0.3)
    for mask in (MaskModel(P, spurious=0.1), MaskModel(P, score_slope=slope)):
        top, labels = TopK([[1, 0]], [[0.9, 0.4]]), [[1, 0, 0, 1]]
        with pytest.raises(ValueError, match="3 propensities for 4 labels"):
            table_by(mask, top, top, labels, lambda _: pytest.fail("evaluated"))


def test_wrong_labels_lower_the_propensities_of_a_slope() -> None:
    """Entries of p_ij − ε_j, and less what wrong labels add, by hand over the places."""
    rng = np.random.default_rng(5)
    labels = sp.csr_array((rng.random((80, 3)) < 0.15).astype(np.float32))
    scores = rng.random((80, 3))
    mask = MaskModel(P, score_slope=ScoreSlope(1.0, -0.2, np.zeros(3), 0.5, 0.3), spurious=0.1)
    wrong = mask.false_rate(labels)
    entries = mask.of_entries(labels, scores)
    entries.data = entries.data - wrong[labels.indices]
    assert entries.data.min() > 1e-6
    options = {"metrics": ["P@2"], "estimators": ["unbiased"]}
    plain = evaluate(scores, labels, entries, **options)["P@2", "unbiased"]
    made = evaluate(scores, labels, mask, **options)["P@2", "unbiased"]
    first = np.argsort(-scores, axis=1)[:, :2]
    less = (wrong / (P - wrong))[first].sum() / 2 / 80
    assert made.value == pytest.approx(plain.value - less, rel=1e-6)
    assert made.details["wrong_labels"] == pytest.approx(less, rel=1e-6)
    ends = max(plain.interval[0] - less, 0.0), plain.interval[1] - less
    assert made.interval == pytest.approx(ends, rel=1e-6)


@pytest.mark.parametrize(
    ("metric", "less"),
    [
        ("P@2", ((0.5 + 0.25) + 0.1) / 2 / 2),
        ("P@3", ((0.5 + 0.25 + 0.1) + 0.1) / 3 / 2),
        ("DCG@2", ((0.5 + 0.25 / np.log2(3)) + 0.1) / 2),
        ("DCG@3", ((0.5 + 0.25 / np.log2(3) + 0.1 / 2) + 0.1) / 2),
        ("R@2", 0.0),
    ],
)
def test_places_without_a_prediction_hold_no_wrong_label(metric: str, less: float) -> None:
    top = TopK([[0, 1, 2], [2, -1, -1]], [[0.9, 0.8, 0.7], [0.9, -np.inf, -np.inf]])
    table = evaluate(top, [[1, 0, 0], [0, 1, 1]], P, metrics=[metric], estimators=["unbiased"])
    each = table[metric, "unbiased"]
    made = _carried(each, top, np.array([0.5, 0.25, 0.1]))
    assert made.value == pytest.approx(each.value - less, rel=1e-12)
    vanilla = evaluate(top, [[1, 0, 0], [0, 1, 1]], metrics=[metric])[metric, "vanilla"]
    assert _carried(vanilla, top, np.array([0.5, 0.25, 0.1])) is vanilla


def test_only_masks_with_a_slope_are_those_of_one_model() -> None:
    slope = ScoreSlope(1.0, -0.2, np.zeros(3), 0.5, 0.3)
    for mask in (None, P, MaskModel(P), MaskModel(P, spurious=0.1)):
        refuse_slope(["a", "b"], mask)
    with pytest.raises(ValueError, match="and 2 are compared"):
        refuse_slope(["a", "b"], MaskModel(P, score_slope=slope))
    needing = {None: False, MaskModel(P, 0.5): False, MaskModel(P, spurious=0.1): True}
    assert all(needs_more(mask) == more for mask, more in needing.items())
    assert needs_more(MaskModel(P, score_slope=slope))
    assert not needs_more(P)


P_MASK_MODELS = np.linspace(0.3, 0.6, 30)

OPTIONS = {"metrics": ["R@5"], "estimators": ["unbiased", "deconvolved"]}


@pytest.fixture(scope="module")
def case():
    """True labels, and a model that ranks them above others by chance."""
    truth = data.synthetic.independent(4_000, 30, seed=0)
    noise = np.random.default_rng(1).normal(size=truth.shape)
    return truth, TopK.from_scores(truth.toarray() + 0.8 * noise, 5)


def test_a_plain_model_gives_the_numbers_of_its_propensities(case):
    truth, top = case
    observed = data.hide(truth, P_MASK_MODELS, seed=2)
    by_vector, by_model = (
        evaluate(top, observed, p, **OPTIONS) for p in (P_MASK_MODELS, MaskModel(P_MASK_MODELS))
    )
    for one, other in zip(by_vector, by_model, strict=True):
        assert (one.value, one.interval) == (other.value, other.interval)


@pytest.mark.parametrize(("effort", "share"), [(0.8, 0.0), (0.0, 0.3)])
def test_the_true_recall_comes_back_where_independence_is_wrong(case, effort, share):
    truth, top = case
    mask = MaskModel(P_MASK_MODELS, effort, share)
    observed = data.hide(truth, mask, seed=3)
    true = evaluate(top, truth, metrics=["R@5"])["R@5", "vanilla"].value
    wrong = evaluate(top, observed, P_MASK_MODELS, **OPTIONS)["R@5", "deconvolved"]
    right = evaluate(top, observed, mask, **OPTIONS)["R@5", "deconvolved"]
    assert abs(right.value - true) < 0.5 * abs(wrong.value - true)
    assert abs(right.value - true) < 3 * right.standard_error + 0.01


def test_what_a_number_is_conditional_on_is_said(case):
    truth, top = case
    mask = MaskModel(P_MASK_MODELS, 0.5, 0.2)
    observed = data.hide(truth, mask, seed=4)
    table = evaluate(top, observed, mask, metrics=["R@5"], estimators=["deconvolved"])
    sentence = str(table["R@5", "deconvolved"].verdict)
    assert "row effort ρ = 0.5" in sentence
    assert "20% of the rows not annotated" in sentence
    assert "independently" not in sentence


@pytest.mark.parametrize(("effort", "share"), [(0.8, 0.0), (0.0, 0.3)])
def test_corrections_row_by_row_are_doubted_where_labels_are_lost_together(case, effort, share):
    """Unbiased recall misses the truth then; P@k and micro recall add labels up and do not care."""
    truth, top = case
    mask = MaskModel(P_MASK_MODELS, effort, share)
    metrics = ["R@5", "P@5", "micro-R@5"]
    observed = data.hide(truth, mask, seed=3)
    table = evaluate(top, observed, mask, metrics=metrics, estimators=["unbiased", "deconvolved"])
    doubted = table["R@5", "unbiased"]
    true = evaluate(top, truth, metrics=metrics)
    assert not doubted.interval[0] < true["R@5", "vanilla"].value < doubted.interval[1]
    assert (doubted.verdict.level, doubted.verdict.reason) == ("doubtful", "row-effort")
    assert str(doubted.verdict).endswith("assume that they are not; use deconvolved")
    assert table["R@5", "deconvolved"].verdict.level == "conditional"  # and not for disagreeing
    for name in ("P@5", "micro-R@5"):
        each = table[name, "unbiased"]
        assert each.verdict.level == "conditional"
        assert abs(each.value - true[name, "vanilla"].value) < 3 * each.standard_error
    alone = evaluate(top, observed, mask, metrics=["R@5"], estimators=["unbiased"])
    assert str(alone["R@5", "unbiased"].verdict).endswith("audit some hundred rows")


def test_wrong_labels_make_every_correction_doubtful(case):
    truth, top = case
    mask = MaskModel(P_MASK_MODELS, spurious=0.1)
    table = evaluate(top, data.hide(truth, mask, seed=5), mask, **OPTIONS)
    for each in table:
        assert each.verdict.level >= "doubtful"
    assert "10.0% of the observed labels are wrong" in str(table["R@5", "deconvolved"].verdict)


def test_doubt_about_effort_widens_the_interval(case):
    truth, top = case
    mask = MaskModel(P_MASK_MODELS, 0.5)
    observed = data.hide(truth, mask, seed=6)
    audited = propensity.audit(observed[:150], truth[:150], mask="effort", curve="free")
    options = {**OPTIONS, "estimators": ["deconvolved"]}
    doubted = evaluate(top, observed, audited, draws=15, **options)["R@5", "deconvolved"]
    certain = evaluate(top, observed, audited.centre, **options)["R@5", "deconvolved"]
    assert doubted.value == certain.value
    assert doubted.standard_error > 1.2 * certain.standard_error


def test_shards_under_one_model_merge_to_the_bit_and_others_are_refused(case):
    truth, top = case
    mask = MaskModel(P_MASK_MODELS, 0.5)
    observed = data.hide(truth, mask, seed=7)

    def shard(rows: slice, model: MaskModel) -> Evaluator:
        part = TopK(top.labels[rows], top.scores[rows])
        return Evaluator(model, **OPTIONS).update(part, observed[rows])

    merged = shard(slice(0, 900), mask).merge(shard(slice(900, None), mask)).compute()
    whole = evaluate(top, observed, mask, **OPTIONS)
    assert merged["R@5", "deconvolved"].value == whole["R@5", "deconvolved"].value
    with pytest.raises(ValueError, match="same settings"):
        shard(slice(0, 900), mask).merge(shard(slice(900, None), MaskModel(P_MASK_MODELS)))


LIVE = L - 1  # the last label is never seen


def vertices(p: np.ndarray, gamma: float) -> Any:
    """All vectors with every label that is seen at p/Γ or min(1, pΓ)."""
    for ends in product((1 / gamma, gamma), repeat=LIVE):
        yield np.minimum(1.0, p * np.array([*ends, 1.0]))


def sensitivity_of(table: Any, metric: str, estimator: str = "unbiased") -> Sensitivity:
    moved = table[metric, estimator].sensitivity
    assert moved is not None
    return moved


@pytest.mark.parametrize("metric", ["P@1", "P@3", "DCG@3", "macro-P@3", "macro-F1@3"])
def test_ends_of_linear_and_macro_metrics_are_those_of_all_vertices(metric: str) -> None:
    top, labels, p = rows_of(40)
    moved = sensitivity_of(
        evaluate(top, labels, p, metrics=[metric], estimators=["unbiased"]), metric
    )
    assert moved.exact
    assert [each.gamma for each in moved.gammas] == list(GAMMAS)
    each = moved.gammas[1]
    values = [
        Evaluator(q, metrics=[metric], estimators=["unbiased"]).update(top, labels)
        .unjudged()[metric, "unbiased"].value
        for q in vertices(p, each.gamma)
    ]  # fmt: skip
    assert math.isclose(each.low, min(values), rel_tol=1e-12)
    assert math.isclose(each.high, max(values), rel_tol=1e-12)


@pytest.mark.parametrize("metric", ["weighted-P@1", "weighted-F1@1"])
def test_weighted_metrics_move_better_labels_against_worse_ones(metric: str) -> None:
    """Label 0 is predicted for all rows, label 1 for none: the ends are vertices of both labels."""
    top, p = TopK(np.zeros((40, 1), int), np.ones((40, 1))), np.array([0.6, 0.7])
    labels = np.repeat([[1, 0], [0, 1], [1, 1]], [15, 15, 10], axis=0)

    def value(*factors: float) -> float:
        q = np.minimum(1.0, p * factors)
        read = Evaluator(q, metrics=[metric], estimators=["unbiased"]).update(top, labels)
        return read.unjudged()[metric, "unbiased"].value

    moved = sensitivity_of(
        evaluate(top, labels, p, metrics=[metric], estimators=["unbiased"]), metric
    )
    assert not moved.exact
    for each in moved.gammas:
        low, high = value(each.gamma, 1 / each.gamma), value(1 / each.gamma, each.gamma)
        assert (each.low, each.high) == pytest.approx((low, high), rel=1e-12)
        assert low < min(value(each.gamma, each.gamma), value(1 / each.gamma, 1 / each.gamma))


def test_other_unbiased_metrics_move_hits_against_misses() -> None:
    """Entry by entry, and so at least as far as any vector of labels."""
    top, labels, p = rows_of(40)
    moved = sensitivity_of(
        evaluate(top, labels, p, metrics=["R@2"], estimators=["unbiased"]), "R@2"
    )
    hits = np.zeros_like(labels)
    np.put_along_axis(hits, top.labels[:, :2], 1, axis=1)
    for each in moved.gammas:
        values = [moved.value]
        for up in (each.gamma, 1 / each.gamma):
            q = np.minimum(1.0, p / np.where(hits, up, 1 / up))
            entries = sp.csr_array(np.where(labels, q, 0.0))
            again = evaluate(top, labels, entries, metrics=["R@2"], estimators=["unbiased"])
            values.append(again["R@2", "unbiased"].value)
        assert math.isclose(each.low, min(values), rel_tol=1e-12)
        assert math.isclose(each.high, max(values), rel_tol=1e-12)


def test_scaled_counts_are_those_of_scaled_propensities() -> None:
    """Exactly, as long as no propensity reaches 1."""
    top, labels, p = rows_of(300)
    p = p / 3

    def counts(q: np.ndarray) -> Any:
        made = summary_of(top, labels, q, metrics=["R@3"], estimators=["deconvolved"])
        return made.fit(made.plan.cells[0]).counts

    for factor in (1.25, 0.5):
        both = counts(p).scaled(hits=factor, misses=factor), counts(p / factor)
        made, direct = (occupied_cells(each, tuple(range(STRATA))) for each in both)
        for one, other in zip((*made[0], made[1]), (*direct[0], direct[1]), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
    least = counts(p).scaled(hits=1e-9, misses=1e-9).occupied
    np.testing.assert_allclose(least.hits.sum(axis=0), least.s * least.rows)
    np.testing.assert_allclose(least.misses, least.t * least.rows)


def test_deconvolved_estimates_move_with_propensities_and_row_effort() -> None:
    top, labels, p = rows_of(2000)
    table = evaluate(top, labels, p, metrics=["R@3"], estimators=["deconvolved"])
    moved = sensitivity_of(table, "R@3", "deconvolved")
    near, far = moved.gammas
    assert far.low < near.low < moved.value < near.high
    assert math.isnan(far.high)  # twice as high they contradict these labels
    assert moved.high == near.high
    assert [each.correlation for each in moved.efforts] == list(EFFORTS)
    assert math.isclose(moved.efforts[0].value, moved.value, rel_tol=1e-9)
    assert moved.low == min(far.low, *(each.value for each in moved.efforts))


def test_batches_and_merged_evaluators_move_alike_and_keep_what_they_said() -> None:
    top, labels, p = rows_of(600)
    asked: dict[str, Any] = {
        "metrics": ["P@3", "R@3", "macro-P@3"], "estimators": ["unbiased", "deconvolved"]
    }  # fmt: skip
    whole = evaluate(top, labels, p, **asked)
    first = Evaluator(p, **asked).update(part(top, slice(300)), labels[:300])
    half = first.compute()
    merged = first.merge(Evaluator(p, **asked).update(part(top, slice(300, None)), labels[300:]))
    alone = evaluate(part(top, slice(300)), labels[:300], p, **asked)
    for metric, estimator in (
        ("P@3", "unbiased"),
        ("R@3", "deconvolved"),
        ("macro-P@3", "unbiased"),
    ):
        cell = metric, estimator
        assert merged.compute()[cell].sensitivity == whole[cell].sensitivity
        assert half[cell].sensitivity == alone[cell].sensitivity
    assert merged.compute()["R@3", "unbiased"].sensitivity is None  # needs the rows
    assert whole["R@3", "unbiased"].sensitivity is not None


def test_numbers_that_claim_nothing_of_the_truth_do_not_move() -> None:
    top, labels, p = rows_of(60)
    table = evaluate(top, labels, p, metrics=["P@3", "PSP@3"],
                     estimators=["vanilla", "clipped", "normalized"])  # fmt: skip
    assert all(each.sensitivity is None for each in table)
    complete = evaluate(top, labels, np.ones(L), metrics=["P@3"], estimators=["unbiased"])
    assert complete["P@3", "unbiased"].sensitivity is None


def systems() -> tuple[dict[str, TopK], np.ndarray, np.ndarray]:
    """One finds labels of low propensity, the other of high; close under p."""
    rng = np.random.default_rng(1)
    true = rng.random((400, L)) < 0.35
    true[:, -1] = False
    p = np.linspace(0.3, 0.9, L)
    rare, common = (true * w + 0.5 * rng.random((400, L)) for w in (1.5 - p, 0.75 + p))
    rare[:, -1] = common[:, -1] = -1
    labels = (true & (rng.random((400, L)) < p)).astype(int)
    return {"common": TopK.from_scores(common, 2), "rare": TopK.from_scores(rare, 2)}, labels, p


def test_the_winner_changes_where_the_worst_vertex_says() -> None:
    tops, labels, p = systems()
    asked: dict[str, Any] = {"metrics": ["P@2"], "estimators": ["unbiased"], "replicates": 50}
    each = compare(tops, labels, p, **asked)["rare"]["P@2", "unbiased"]
    moved = each.sensitivity
    assert moved is not None
    assert moved.exact
    assert moved.turns_at is not None
    assert 1 < moved.turns_at < MOST

    def worst(gamma: float) -> float:
        values = []
        for q in vertices(p, gamma):
            pair = [
                Evaluator(q, metrics=["P@2"], estimators=["unbiased"]).update(top, labels)
                .unjudged()["P@2", "unbiased"].value
                for top in tops.values()
            ]  # fmt: skip
            values.append((pair[1] - pair[0]) * math.copysign(1, each.value))
        return min(values)

    assert worst(moved.turns_at * 1.001) <= 0 < worst(moved.turns_at * 0.999)
    ends = [worst(GAMMAS[0]) * math.copysign(1, each.value)]
    assert any(math.isclose(end, ends[0], rel_tol=1e-9)
               for end in (moved.gammas[0].low, moved.gammas[0].high))  # fmt: skip
    assert "the winner changes where propensities are off by" in moved.sentence


def test_a_clear_winner_stays_and_equal_systems_have_none() -> None:
    top, labels, p = rows_of(200)
    worse = TopK(np.roll(top.labels, 1, axis=0), top.scores)
    asked: dict[str, Any] = {"metrics": ["P@3"], "estimators": ["deconvolved"]}
    clear = compare({"a": top, "b": worse}, labels, p, **asked)["b"]["P@3", "deconvolved"]
    assert clear.sensitivity is not None
    assert clear.sensitivity.turns_at is not None
    equal = compare({"a": top, "b": top}, labels, p, metrics=["P@3"], estimators=["unbiased"])
    moved = equal["b"]["P@3", "unbiased"].sensitivity
    assert moved is not None
    assert moved.turns_at is None


def test_what_is_refused_is_said() -> None:
    moved = Sensitivity(0.5, (GammaRange(1.25, 0.4, math.nan),), turns_at=math.inf)
    assert "0.400 to (refused by the data)" in moved.sentence
    assert "stays the same up to a factor of 10" in moved.sentence
    assert (moved.low, moved.high) == (0.4, 0.5)
    assert moved.to_dict()["text"] == str(moved)
