"""Plans: probabilities are those of the design, seeds decide, waves add up, files come back."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import audit, data
from unmask.arrays import pair_keys
from unmask.arrays.top import listed_keys
from unmask.audit import designs
from unmask.audit.planning import read_plan, write_plan
from unmask.metrics.measured import measure
from unmask.predictions import TopK


def problem(n: int = 300, n_labels: int = 25, k: int = 10) -> tuple[TopK, sp.csr_array, Any]:
    true = data.synthetic.planted(n, n_labels=n_labels, seed=1).labels
    observed = data.hide(true, np.full(n_labels, 0.6), seed=2)
    scores = np.random.default_rng(3).standard_normal(true.shape) + 2 * true.toarray()
    return TopK.from_scores(scores, k), observed, true


TOP, OBSERVED, TRUE = problem()
DESIGNS: dict[str, dict[str, Any]] = {
    "simple": {"unit": "rows", "budget": 40},
    "stratified": {"unit": "rows", "budget": 40, "design": "stratified"},
    "pairs": {"unit": "pairs", "budget": 200, "metrics": ["P@5", "micro-R@5"]},
    "observed": {"unit": "pairs", "budget": 200, "metrics": ["P@5"], "observed": "sampled"},
    "two-phase": {"unit": "pairs", "budget": 400, "head": 6, "metrics": ["R@5"]},
}


def units(plan: audit.AuditPlan) -> list[tuple[int, int]]:
    labels = np.zeros(len(plan), int) if plan.labels is None else plan.labels
    return list(zip(plan.rows.tolist(), labels.tolist(), strict=True))


@pytest.mark.parametrize("design", DESIGNS)
def test_a_plan_draws_without_repetition_within_its_budget_and_its_seed_decides(
    design: str,
) -> None:
    plan = audit.plan(TOP, OBSERVED, seed=3, **DESIGNS[design])
    assert len(set(units(plan))) == len(plan) <= plan.budget
    assert ((plan.probability > 0) & (plan.probability <= 1)).all()
    assert units(audit.plan(TOP, OBSERVED, seed=3, **DESIGNS[design])) == units(plan)
    assert units(audit.plan(TOP, OBSERVED, seed=4, **DESIGNS[design])) != units(plan)
    if plan.labels is not None and plan.sample.observed_free:
        assert not OBSERVED[plan.rows, plan.labels].any()


@pytest.mark.parametrize("design", DESIGNS)
def test_inclusion_is_as_frequent_as_its_probability(design: str) -> None:
    """Σ 1/π over the sample estimates the number of all units: right on average over seeds."""
    free = int(OBSERVED.nnz)
    whole = {"simple": 300, "stratified": 300, "pairs": 7500 - free, "two-phase": 7500 - free}
    totals = []
    for seed in range(120):
        plan = audit.plan(TOP, OBSERVED, seed=seed, expect=False, **DESIGNS[design])
        totals.append((1 / plan.probability).sum())
    if design in whole:
        spread = max(np.std(totals), 1e-9)
        assert abs(np.mean(totals) - whole[design]) < 4 * spread / np.sqrt(120) + 1e-6


@pytest.mark.parametrize("design", DESIGNS)
def test_a_plan_survives_its_file(design: str, tmp_path: Path) -> None:
    plan = audit.plan(TOP, OBSERVED, seed=3, **DESIGNS[design])
    write_plan(tmp_path / "plan.json", plan)
    again = read_plan(tmp_path / "plan.json")
    assert again.to_dict() == plan.to_dict()
    np.testing.assert_array_equal(again.probability, plan.probability)


@pytest.mark.parametrize("design", DESIGNS)
def test_a_second_wave_adds_to_the_first(design: str) -> None:
    first = audit.plan(TOP, OBSERVED, seed=3, **DESIGNS[design])
    both = audit.extend(first, TOP, OBSERVED, budget=first.budget, seed=8)
    assert units(both)[: len(first)] == units(first)
    assert len(set(units(both))) == len(both) > len(first)
    for stratum, old in zip(both.sample.strata, first.sample.strata, strict=True):
        assert stratum.size == old.size >= stratum.drawn >= old.drawn
    assert [wave.seed for wave in both.waves] == [3, 8]
    with pytest.raises(ValueError, match="not the predictions and labels"):
        audit.extend(first, TOP, TRUE, budget=5, seed=8)


def test_the_neyman_rule_is_the_best_of_all_allocations() -> None:
    """Over all ways to draw 12 of three strata, none has less variance (up to rounding)."""
    sizes, sd = np.array([20, 9, 40]), np.array([0.5, 0.3, 0.1])

    def variance(counts: Any) -> float:
        m = np.array(counts)
        return float((sizes**2 * sd**2 * (1 / m - 1 / sizes)).sum())

    ways = [(a, b - a, 12 - b) for a, b in combinations(range(1, 12), 2) if b - a <= 9]
    mine = designs.allocate(sizes, sd, 12, least=1)
    assert mine.sum() == 12
    assert variance(mine) <= 1.05 * min(map(variance, ways))


def test_what_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="not a sum over pairs"):
        audit.plan(TOP, OBSERVED, budget=9, unit="pairs", metrics=["R@5"], design="pairs")
    with pytest.raises(ValueError, match="judges rows"):
        audit.plan(TOP, OBSERVED, budget=9, unit="pairs", design="simple")
    with pytest.raises(ValueError, match="fewer than two rows"):
        audit.plan(TOP, OBSERVED, budget=9, unit="pairs", metrics=["R@5"])
    with pytest.raises(ValueError, match="tail must lie in"):
        audit.plan(TOP, OBSERVED, budget=99, unit="pairs", metrics=["R@5"], tail=0.02)
    with pytest.raises(ValueError, match="budget must be a whole number"):
        audit.plan(TOP, OBSERVED, budget=0)
    with pytest.raises(ValueError, match="first 20 predictions"):
        audit.plan(TOP, OBSERVED, budget=9, metrics=["R@20"])


def test_a_plan_without_pairs_says_what_would_have_some() -> None:
    full = np.ones_like(OBSERVED.toarray() if hasattr(OBSERVED, "toarray") else OBSERVED)
    for metrics in (["P@1"], ["micro-R@5"], ["P@5", "micro-R@5"], ["R@5"], ["nDCG@5"], None):
        for budget in (3, 10, 1000):
            with pytest.raises(ValueError, match="there is no pair to judge for"):
                audit.plan(TOP, full, budget=budget, unit="pairs", metrics=metrics)
    made = audit.plan(TOP, full, budget=10, unit="pairs", metrics=["P@1"], observed="sampled")
    assert len(made) == 10


def test_pairs_of_several_systems_are_the_union_of_their_lists() -> None:
    other = TopK.from_scores(np.random.default_rng(9).random(OBSERVED.shape), 10)
    plan = audit.plan({"a": TOP, "b": other}, OBSERVED, budget=10**6, unit="pairs", metrics=["P@3"])
    keys = np.union1d(listed_keys(TOP, 3, 25), listed_keys(other, 3, 25))
    wanted = np.setdiff1d(keys, pair_keys(OBSERVED))
    np.testing.assert_array_equal(np.sort(plan.rows * 25 + plan.labels), wanted)
    assert (plan.probability == 1).all()


@pytest.mark.parametrize("design", DESIGNS)
def test_the_expected_interval_is_about_the_one_that_comes_out(design: str) -> None:
    plan = audit.plan(TOP, OBSERVED, seed=3, **DESIGNS[design])
    if plan.labels is None:
        judged = audit.from_rows(plan, TRUE[plan.rows])
    else:
        judged = audit.from_pairs(plan, np.asarray(TRUE[plan.rows, plan.labels]).ravel())
    made = measure(TOP, OBSERVED, judged, metrics=plan.metrics)
    assert [each.metric for each in plan.expected] == list(plan.metrics)
    for promised, each in zip(plan.expected, made, strict=True):
        half = (each.interval[1] - each.interval[0]) / 2
        assert 0.4 < promised.budget / half < 2.5, (promised, half)
        assert promised.twice < promised.budget < promised.half or np.isnan(promised.half)


def test_four_of_five_plans_keep_what_they_promise() -> None:
    """Also where more is missing than the guess says, and most predictions are right."""
    kept = {}
    rng = np.random.default_rng(0)
    for design, options in DESIGNS.items():
        reached = []
        for share in (0.15, 0.3, 0.7):
            observed = TRUE * (rng.random(TRUE.shape) < share)
            top = TopK.from_scores(rng.random(TRUE.shape) + TRUE.toarray(), 5)
            for seed in range(3):
                plan = audit.plan(top, observed, seed=seed, **options)
                if plan.labels is None:
                    judged = audit.from_rows(plan, TRUE[plan.rows])
                else:
                    judged = audit.from_pairs(plan, TRUE.toarray()[plan.rows, plan.labels])
                for promised, each in zip(
                    plan.expected, measure(top, observed, judged, metrics=plan.metrics), strict=True
                ):
                    half = (each.interval[1] - each.interval[0]) / 2
                    reached.append(half <= promised.budget)
        kept[design] = np.mean(reached)
    assert min(kept.values()) >= 0.8, kept
