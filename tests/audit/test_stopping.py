"""Confidence sequences hold at every look; elusion has its upper end."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import audit, data
from unmask.audit.stopping import betting
from unmask.metrics import contributions
from unmask.metrics.measured.control import standardized
from unmask.predictions import TopK


def test_over_all_orders_of_a_small_population_the_truth_is_hardly_ever_left_out() -> None:
    """All 5,040 orders of seven values, a look after each: at most 5 % ever miss the mean."""
    values = np.array([0.0, 0.0, 1.0, 0.3, 1.0, 0.1, 0.0])
    missed = 0
    orders = list(permutations(range(7)))[::20]
    for order in orders:
        rows = np.array(order)
        low, high = betting(values[rows], rows, 7, confidence=0.8)
        missed += bool(((low > values.mean()) | (high < values.mean())).any())
    assert missed / len(orders) <= 0.2


@pytest.mark.parametrize("known", [False, True])
def test_sequences_cover_at_all_looks_together(known: bool) -> None:
    """150 audits of rare, skewed values: at most 5 % may ever miss; 12 of 150 is beyond chance."""
    rng = np.random.default_rng(0)
    n = 1500
    x = rng.standard_normal((n, 2))
    values = np.clip(0.1 + 0.2 * x[:, 0] + 0.1 * rng.standard_normal(n), 0, 1)
    missed, widths = 0, []
    for _ in range(150):
        rows = rng.permutation(n)[:120]
        low, high = betting(values[rows], rows, n, standardized(x) if known else None)
        missed += bool(((low > values.mean()) | (high < values.mean())).any())
        widths.append(high[-1] - low[-1])
    assert missed <= 12
    assert np.mean(widths) < (0.12 if known else 0.16)


def test_judging_everything_leaves_the_mean_alone() -> None:
    values = np.random.default_rng(1).random(60)
    low, high = betting(values, np.arange(60), 60)
    assert low[-1] <= values.mean() <= high[-1]
    assert high[-1] - low[-1] < 0.05


def _audited() -> tuple[TopK, sp.csr_array, sp.csr_array, audit.Judgements]:
    true = data.synthetic.planted(900, n_labels=20, seed=1).labels
    observed = data.hide(true, np.full(20, 0.5), seed=2)
    scores = np.random.default_rng(3).standard_normal(true.shape) + 3 * true.toarray()
    top = TopK.from_scores(scores, 10)
    plan = audit.plan(top, observed, budget=250)
    return top, observed, true, audit.from_rows(plan, true[plan.rows])


def test_an_audit_stops_when_it_is_certain() -> None:
    top, observed, true, judged = _audited()
    made = audit.sequence(top, observed, judged, "R@5")
    truth = contributions(top, true, metrics=["R@5"])["R@5", "vanilla"].mean()
    assert ((made.low <= truth) & (truth <= made.high)).all()
    assert (np.diff(made.high - made.low) <= 0).all()
    enough = made.rows_until(half_width=0.15)
    assert enough is not None
    assert (made.high - made.low)[enough - 1] <= 0.3 < (made.high - made.low)[enough - 2]
    assert made.rows_until(at_least=truth - 0.2) is not None
    assert made.rows_until(at_least=truth + 0.05) is None
    with pytest.raises(ValueError, match="say when to stop"):
        made.rows_until()
    with pytest.raises(ValueError, match="not a mean of values"):
        audit.sequence(top, observed, judged, "DCG@5")
    pairs = audit.plan(top, observed, budget=90, unit="pairs", metrics=["P@5"])
    with pytest.raises(ValueError, match="simple rows"):
        audit.sequence(top, observed, audit.from_pairs(pairs, np.zeros(len(pairs))), "P@5")


@pytest.mark.parametrize("unit", ["rows", "pairs", "two-phase"])
def test_what_eludes_the_predictions_is_below_its_upper_end(unit: str) -> None:
    top, observed, true, judged = _audited()
    hidden = true - observed
    inside = np.take_along_axis(hidden.toarray(), top.labels[:, :5].astype(int), axis=1)
    outside = hidden.nnz - int(inside.sum())
    if unit != "rows":
        options = {"metrics": ["micro-R@5"]} if unit == "pairs" else {"metrics": ["R@5"], "head": 6}
        plan = audit.plan(top, observed, budget=1500, unit="pairs", seed=2, **options)
        judged = audit.from_pairs(plan, np.asarray(true[plan.rows, plan.labels]).ravel())
    made = audit.elusion(top, observed, judged, k=5)
    dark = observed.toarray() == 0
    listed = np.take_along_axis(dark, top.labels[:, :5].astype(int), axis=1)
    assert made.pairs == int(dark.sum()) - int(listed.sum())
    assert made.relevant == pytest.approx(outside, rel=0.5)
    assert outside <= made.at_most <= made.pairs
    assert f"{made.pairs:,}" in made.sentence
