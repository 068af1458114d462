"""Unannotated rows, wrong labels and closed hierarchies: exact chances, and what is found."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chi2, nchypergeom_fisher

from tests.helpers.diagnoses import L, planted
from unmask import data
from unmask.diagnosis import diagnose, evidence
from unmask.diagnosis.diagnose import OF_INDEPENDENCE, _modelled
from unmask.diagnosis.findings import TestKind
from unmask.propensity import MaskModel
from unmask.propensity.mask_model import EffortGrid, ScoreSlope, normal


def test_the_chance_of_wrong_labels_is_binomial() -> None:
    test = evidence.spurious(3, 40)
    below = sum(comb(40, x) * 0.01**x * 0.99 ** (40 - x) for x in range(3))
    assert test.p_value == pytest.approx(1 - below)
    assert evidence.spurious(0, 40).p_value == 1


@pytest.mark.parametrize(
    ("kept_rows", "pull"),
    [
        ([10, 0, 10, 0], 0.5),  # as different as can be: the least
        ([5, 5, 5, 5], 4.0),  # alike: the most
        ([9, 1, 8, 2], (1 / 2 - 130 / 360) / (130 / 360 - 1 / 4)),  # Σ k (k − 1) = 130
    ],
)
def test_rates_of_labels_are_drawn_together_the_less_the_more_they_differ(
    kept_rows: list[int], pull: float
) -> None:
    """Four labels, of ten rows each, half of them kept overall."""
    kept = (np.arange(10)[:, None] < np.array(kept_rows)).astype(np.float32)
    rates = evidence.pooled_rates(sp.csr_array(kept), sp.csr_array(np.ones_like(kept)))
    assert rates == pytest.approx((np.array(kept_rows) + pull / 2) / (10 + pull))


@pytest.mark.parametrize("gain", [-0.2, 0.0, 0.1, 0.4, 3.0])
def test_unannotated_rows_by_the_likelihood_ratio(
    gain: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of χ² with one degree of freedom: a share cannot be below 0."""
    grid = EffortGrid(np.zeros(1), np.array([0.0, 0.3]), np.array([[-5.0, -5.0 + gain]]))
    monkeypatch.setattr(evidence, "log_likelihoods", lambda *parts: grid)
    complete = sp.csr_array(np.ones((4, 2)))
    kept = sp.csr_array(np.array([[1.0, 0], [0, 0], [1, 1], [0, 0]]))
    test = evidence.unannotated(kept, complete)
    wanted = 1.0 if gain <= 0 else chi2.sf(2 * gain, 1) / 2
    assert test.p_value == pytest.approx(wanted, rel=1e-12)
    assert test.values == {"share": 0.3 if gain > 0 else 0.0, "silent": 2, "rows": 4}


def test_rows_of_rare_labels_are_not_taken_for_unannotated_ones() -> None:
    """Labels of p = 0.95 and 0.1 in turn, masks independent: 10 audits of 300 rows."""
    p = np.where(np.arange(L) % 2, 0.95, 0.1)
    below = []
    for seed in range(10):
        true_labels = planted(300, seed)
        kept = data.hide(true_labels, p, seed=seed)
        below.append(evidence.unannotated(sp.csr_array(kept), true_labels).p_value < 0.05)
    assert sum(below) <= 2


def test_closure_agrees_with_counting_arrangements() -> None:
    """Label 1 implies label 0; of 8 rows with both, 4 show label 1 and 5 show label 0."""
    true = np.ones((10, 2), np.float32)
    true[8:, 1] = 0
    kept = np.zeros_like(true)
    kept[:4, 1], kept[[0, 1, 2, 3, 4, 8], 0] = 1, 1
    (test,) = evidence.closure(sp.csr_array(kept), sp.csr_array(true))
    same = [set(rows) >= {0, 1, 2, 3} for rows in combinations(range(8), 5)]
    assert test.p_value == pytest.approx(np.mean(same))
    assert (test.values["label"], test.values["other_label"]) == (1, 0)
    assert (test.values["kept_with"], test.values["kept_without"]) == (1.0, 0.25)
    assert test.values["closed"] == test.values["pairs"] == 1


def test_the_chance_of_both_for_any_odds_ratio() -> None:
    """Against scipy; and the odds ratio of row effort by its definition."""
    both, rows, first, second = np.array([[6.0, 3], [20, 9], [9, 5], [8, 4]])
    for ratio in (1.0, 2.5, 40.0):
        expected = [
            nchypergeom_fisher.sf(b - 1, r, f, s, ratio)
            for b, r, f, s in zip(both, rows, first, second, strict=True)
        ]
        found = evidence.at_least(both, rows, first, second, np.full(2, ratio))
        assert found == pytest.approx(expected, rel=1e-9)
    effort = normal(0.5, 0.1)
    p, q = np.array([0.3]), np.array([0.6])
    by_point = 0.9 * np.array(effort.weights) @ np.column_stack(
        [effort.propensities(p), effort.propensities(q),
         effort.propensities(p) * effort.propensities(q)]
    )  # fmt: skip
    first_kept, second_kept, joint = by_point
    odds = joint * (1 - first_kept - second_kept + joint)
    odds /= (first_kept - joint) * (second_kept - joint)
    assert evidence.odds_ratio(effort, p, q) == pytest.approx([odds])
    assert evidence.odds_ratio(normal(0.0), p, q) == pytest.approx([1.0])


@pytest.mark.parametrize(("closes", "found"), [(False, False), (True, True)])
def test_rows_of_little_effort_are_no_closed_hierarchy(closes: bool, found: bool) -> None:
    """Labels 0 … 4 imply 5 … 9, and the others show how much effort there is."""
    rng = np.random.default_rng(2)
    true = (rng.random((400, 20)) < 0.3).astype(np.float32)
    true[:, 5:10] = np.maximum(true[:, 5:10], true[:, :5])
    mask = MaskModel(np.full(20, 0.5), row_effort=0.8)
    kept = data.hide(sp.csr_array(true), mask, seed=4).toarray()
    if closes:
        kept[:, 5:10] = np.maximum(kept[:, 5:10], kept[:, :5])
    (test,) = evidence.closure(sp.csr_array(kept), sp.csr_array(true))
    assert test.values["row_effort"] > 0.5
    assert (test.p_value < 1e-3) == found


def test_closure_speaks_of_a_pair_that_was_kept_at_all() -> None:
    """Label 0 implies 1 and is never kept; label 2 implies 3 and is kept where 3 is not."""
    alone, both = np.tile([0.0, 1.0], (2, 1)), np.ones((6, 2))
    true = sp.csr_array(np.kron(np.eye(2), np.vstack([both, alone])))
    kept = np.zeros(true.shape)
    kept[:3, 1] = kept[8:11, 2] = kept[11:14, 3] = 1
    (test,) = evidence.closure(sp.csr_array(kept), true)
    assert (test.p_value, test.values["label"], test.values["other_label"]) == (1.0, 2, 3)
    assert (test.values["kept_with"], test.values["kept_without"]) == (0.0, 1.0)


def test_a_closed_hierarchy_is_found() -> None:
    true = np.zeros((200, 4), np.float32)
    true[:, 0] = true[:120, 1] = true[80:, 2] = true[:60, 3] = 1  # 1, 2, 3 imply 0; 3 implies 1
    kept = data.hide(sp.csr_array(true), np.full(4, 0.4), seed=0).toarray()
    plain = diagnose(kept, np.full(4, 0.4), (kept, true))
    assert plain.finding("closure") is None
    kept[:, 1] = np.maximum(kept[:, 1], kept[:, 3])
    kept[:, 0] = np.maximum(kept[:, 0], kept[:, 1:].max(axis=1))
    closed = diagnose(kept, np.full(4, 0.4), (kept, true), names=["a", "b", "c", "d"])
    finding = closed.finding("closure")
    assert finding is not None
    assert "never missing where the label below is recorded" in finding.evidence
    assert "hierarchy" in finding.advice


@pytest.mark.parametrize(
    ("mask", "guilty"),
    [
        (MaskModel(np.full(L, 0.5)), False),
        (MaskModel(np.full(L, 0.5), row_effort=0.5), False),
        (MaskModel(np.full(L, 0.5), unannotated=0.3), True),
    ],
)
def test_unannotated_rows_are_told_from_rows_of_little_effort(
    mask: MaskModel, guilty: bool
) -> None:
    true = planted(800, seed=3)
    observed = data.hide(true, mask, seed=1)
    rows = slice(0, 300)
    tests = evidence.recording(sp.csr_array(observed[rows]), sp.csr_array(true[rows]))
    chance = {test.kind: test for test in tests}[TestKind.UNANNOTATED]
    assert (chance.p_value < 1e-3) == guilty
    assert (chance.values["share"] > 0.15) == guilty


def test_few_rows_are_not_tested_for_being_unannotated() -> None:
    true = sp.csr_array(np.ones((19, 2), np.float32))
    kept = sp.csr_array(np.repeat([[1.0, 1.0], [0.0, 0.0]], [10, 9], axis=0))
    assert TestKind.UNANNOTATED not in {each.kind for each in evidence.recording(kept, true)}


def test_what_cannot_be_known_is_listed() -> None:
    true = planted(400, seed=3)
    p = np.full(L, 0.5)
    observed = data.hide(true, p, seed=0)
    alone = diagnose(observed, p).finding("not_tested")
    assert alone is not None
    assert set(alone.not_tested) == {kind for kind in TestKind if kind.needs_audit}
    assert "every row was annotated" in alone.evidence
    assert "`unmask audit plan`" in alone.advice
    audited = diagnose(observed, p, (observed[:100], true[:100])).finding("not_tested")
    assert audited is not None
    assert {TestKind.SCORE, TestKind.COVARIATE} <= set(audited.not_tested)
    assert TestKind.ROW not in audited.not_tested
    assert "`scores`" in audited.advice


@pytest.mark.parametrize(("wrong", "kind"), [(1, "spurious_labels"), (40, "spurious")])
def test_wrong_labels_are_a_warning_until_they_matter(wrong: int, kind: str) -> None:
    true = planted(400)
    p = np.full(L, 0.5)
    observed = data.hide(true, p, seed=0).tolil()
    free = np.argwhere(true[:100].toarray() == 0)[:: 5300 // wrong][:wrong]
    observed[free[:, 0], free[:, 1]] = 1
    seen = sp.csr_array(observed.tocsr())
    diagnosis = diagnose(seen, p, (seen[:100], true[:100]))
    finding = diagnosis.finding(kind)
    assert finding is not None
    assert finding.severity == ("error" if kind == "spurious" else "warning")


@pytest.mark.parametrize(
    ("parts", "left_out"),
    [
        ({}, set()),
        ({"row_effort": 0.5}, OF_INDEPENDENCE),
        ({"unannotated": 0.3}, OF_INDEPENDENCE),
        ({"spurious": 0.1}, {TestKind.SPURIOUS}),
        ({"score_slope": ScoreSlope(0.4, 0.0, np.zeros(3))}, {TestKind.SCORE}),
        (
            {"row_effort": 0.5, "spurious": 0.1, "score_slope": ScoreSlope(0.4, 0.0, np.zeros(3))},
            OF_INDEPENDENCE | {TestKind.SPURIOUS, TestKind.SCORE},
        ),
    ],
)
def test_what_a_mask_model_states_is_not_held_against_it(
    parts: dict[str, Any], left_out: set[TestKind]
) -> None:
    assert _modelled(MaskModel(np.full(3, 0.5), **parts)) == left_out
    assert _modelled(MaskModel(np.full(3, 0.5))) == set()
