"""How good findings are: the estimate from labels hidden on top is unbiased, an audit measures."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm

from unmask import TopK, audit, data, missing
from unmask._typing import Floats
from unmask.metrics.intervals import wilson
from unmask.missing import findings

P = np.array([0.5, 0.3, 0.8])


def test_a_missing_label_comes_back_with_the_stated_chance() -> None:
    """P(hidden on top | true, not among the rest) = h p / (1 − (1 − h) p), by enumeration."""
    h, p = Fraction(1, 10), Fraction(3, 10)
    absent = returned = Fraction(0)
    for seen, hidden in product((0, 1), repeat=2):
        chance = (p if seen else 1 - p) * (h if hidden else 1 - h)
        if not seen or hidden:
            absent += chance
            returned += chance * (seen and hidden)
    assert returned / absent == h * p / (1 - (1 - h) * p)


def truth(n: int) -> Floats:
    return (np.random.default_rng(0).random((n, 3)) < [0.3, 0.5, 0.2]).astype(float)


def test_precision_and_recall_of_findings() -> None:
    true = truth(6000)
    observed = data.hide(true, P, seed=1)
    noise = np.random.default_rng(2).random(true.shape)
    chances = np.where(true == 1, 0.6 + 0.3 * noise, 0.4 * noise)
    given = []

    def fit(labels: sp.csr_array, p: Floats) -> Floats:
        given.append((labels, p))
        return chances

    quality = missing.rehearse(fit, observed, P, top=3000, share=0.2, seed=3)
    ((labels, p),) = given
    np.testing.assert_allclose(p, 0.8 * P)
    assert quality.tried == observed.nnz - labels.nnz > 0
    found = missing.find(chances, labels, p, top=3000)
    right = true[found.rows, found.labels]
    assert quality.precision == pytest.approx(right.mean(), abs=0.1)
    assert (
        quality.precision_interval[0] <= min(quality.precision, 1) <= quality.precision_interval[1]
    )
    held = sp.csr_array(observed - labels).toarray()
    assert quality.recall == float(held[found.rows, found.labels].sum()) / float(held.sum())
    assert sum(each.size for each in quality.bins) == 3000
    assert len(quality.bins) == 10
    stated = [each.stated for each in quality.bins]
    assert stated == sorted(stated, reverse=True)
    error = sum(abs(each.stated - each.right) * each.size for each in quality.bins) / 3000
    assert quality.calibration_error == pytest.approx(error)
    assert quality.to_dict()["way"] == "rehearsed"
    assert "of the findings are right" in quality._repr_html_()


@pytest.mark.parametrize("unit", ["rows", "pairs"])
def test_an_audit_measures(unit: str) -> None:
    true = truth(300).astype(int)
    observed = data.hide(true, P, seed=1)
    top = TopK.from_scores(np.random.default_rng(1).random((300, 3)), 2)
    chances = np.where(true == 1, 0.7, 0.3)
    chances[::3] = 0.5
    found = missing.find(chances, observed, P, top=200)
    if unit == "rows":
        plan = audit.plan(top, observed, budget=300, unit="rows")
        judged = audit.from_rows(plan, true[plan.rows])
    else:
        plan = audit.plan(top, observed, budget=900, unit="pairs")
        judged = audit.from_pairs(plan, true[plan.rows, plan.labels])
    quality = missing.measure(found, judged, observed)
    listed = np.zeros(true.shape, bool)
    listed[found.rows, found.labels] = True
    hidden = observed.toarray() == 0
    assert quality.way == "measured"
    if plan.sample.probability.min() == 1:  # all was judged: exact
        assert quality.precision == pytest.approx(true[listed].mean())
        assert quality.recall == pytest.approx(listed[hidden & (true == 1)].mean())
    assert quality.precision == pytest.approx(true[listed].mean(), abs=0.02)


def test_weights_of_the_audit_count() -> None:
    labels = np.zeros((4, 1))
    strata = (audit.Stratum("rows", 1, 1), audit.Stratum("rows", 3, 1))
    sample = audit.Sample(audit.Design.STRATIFIED, (4, 1), strata, [0, 1], None, [0, 1])
    judged = audit.Judgements(sample, sp.csr_array([[1.0], [0.0]]))
    found = missing.find(np.full((4, 1), 0.5), labels, [0.5])
    assert missing.measure(found, judged, labels).precision == pytest.approx(0.25)
    assert missing.measure(found, judged, labels).recall == 1.0


def test_what_does_not_fit_is_refused() -> None:
    found = missing.find(np.full((4, 1), 0.5), np.zeros((4, 1)), [0.5])
    one = audit.Stratum("rows", 4, 1)
    sample = audit.Sample(audit.Design.SIMPLE, (4, 1), (one,), [3], None, [0])
    judged = audit.Judgements(sample, sp.csr_array([[1.0]]))
    with pytest.raises(ValueError, match="give those of the same data"):
        missing.measure(found, judged, np.zeros((5, 1)))
    with pytest.raises(ValueError, match="none of the findings was judged"):
        missing.measure(found.first(2), judged, np.zeros((4, 1)))
    with pytest.raises(ValueError, match="share must lie in"):
        missing.rehearse(lambda *_: 0, [[1]], [0.5], share=0.9)
    with pytest.raises(ValueError, match="no label was hidden"):
        missing.rehearse(lambda *_: 0, [[0]], [0.5])


def test_shares_of_judged_pairs_weigh_as_the_pairs_do() -> None:
    """As many trials as (Σ w)² / Σ w²; without any, nothing is excluded."""
    right, weight = np.array([1.0, 0, 1, 0]), np.array([1.0, 2, 3, 4])
    share, ends = findings._weighted_share(right, weight)
    assert share == pytest.approx(0.4)
    low, high = wilson(0.4, 100 / 30, norm.ppf(0.975))
    assert ends == pytest.approx((float(low), float(high)))
    share, ends = findings._weighted_share(np.zeros(0), np.zeros(0))
    assert np.isnan(share)
    assert ends == (0.0, 1.0)


def test_shares_of_labels_that_came_back_are_over_their_chance() -> None:
    returned, back = np.array([1.0, 0, 1, 1]), np.array([0.5, 0.8, 0.8, 0.9])
    share, ends = findings._returned_share(returned, back)
    assert share == pytest.approx((2 + 1.25 + 1 / 0.9) / 4)
    low, high = wilson(1.0, 3.0, norm.ppf(0.975))  # a share of more than 1 is one of 1
    assert ends == pytest.approx((float(low), float(high)))
    assert findings._returned_share(np.zeros(0), np.zeros(0))[1] == (0.0, 1.0)


@pytest.mark.parametrize(
    ("count", "trials", "ends"),
    [
        (7, 0.0, [(0, 7)]),
        (7, 2.0 * findings.FEWEST, [(0, 3), (3, 7)]),
        (7, 1.99 * findings.FEWEST, [(0, 7)]),
        (0, 100.0, []),
        (1, 3.0 * findings.FEWEST, [(0, 1)]),
    ],
)
def test_bins_hold_labels_enough(count: int, trials: float, ends: list[tuple[int, int]]) -> None:
    assert [(each.start, each.stop) for each in findings._bins(count, trials)] == ends
    parts = findings._bins(1000, 1e9)
    assert len(parts) == findings.BINS
    assert (parts[0].start, parts[-1].stop) == (0, 1000)
