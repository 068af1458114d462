"""The conditional score test against enumeration of all arrangements, and what it is given."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chi2

from tests.helpers.diagnoses import planted, rng
from unmask import data
from unmask.diagnosis import diagnose
from unmask.diagnosis.evidence import (
    expected_products,
    ranks_within_labels,
    row_correlation,
    score_test,
)
from unmask.predictions import TopK
from unmask.propensity.audit import residuals
from unmask.propensity.mask_model import scores_of

TRUE = sp.csr_array(np.array([[1, 1], [1, 1], [1, 0], [1, 1], [0, 1]], dtype=np.float32))


def arrangements() -> list[sp.csr_array]:
    """Every way to keep 2 of the 4 rows of label 0 and 1 of the 4 rows of label 1."""
    ways = []
    for zero, one in product(combinations((0, 1, 2, 3), 2), (0, 1, 3, 4)):
        kept = np.zeros((5, 2), np.float32)
        kept[list(zero), 0], kept[one, 1] = 1, 1
        ways.append(sp.csr_array(kept))
    return ways


@pytest.mark.parametrize("columns", [1, 2])
def test_the_statistic_uses_the_variance_over_all_arrangements(columns: int) -> None:
    """TᵀV⁻¹T with the covariance of T over every arrangement that keeps k_j of K_j."""
    x = rng(1).standard_normal((TRUE.nnz, columns))
    left = [residuals(kept, TRUE) for kept in arrangements()]
    scores = np.array([each.data @ x for each in left])
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-12)
    variance = scores.T @ scores / len(scores)
    for each, score in zip(left, scores, strict=True):
        tested = score_test(each, x)
        slope = np.linalg.solve(variance, score)
        np.testing.assert_allclose(tested.slope, slope)
        assert tested.p_value == pytest.approx(chi2.sf(score @ slope, columns))


def test_labels_of_a_row_that_share_a_fate_make_the_test_more_careful() -> None:
    """The same label twenty times, always kept alike, is no more evidence than once."""
    kept = (rng(3).random((60, 1)) < 0.5).astype(np.float64)
    one = sp.csr_array(kept - kept.mean())
    copies = sp.csr_array(np.repeat(one.toarray(), 20, axis=1))
    by_row = rng(4).standard_normal(60)
    alone = score_test(one, by_row, by_row=True).p_value
    together = score_test(copies, np.repeat(by_row, 20), by_row=True).p_value
    assert row_correlation(copies) == pytest.approx(1)
    assert together == pytest.approx(alone)
    assert score_test(copies, np.repeat(by_row, 20)).p_value < alone**2


def test_products_of_two_labels_have_the_mean_of_their_correlation() -> None:
    """Over all masks of rows that are careful or not: Σ e_ij e_ik = r · `expected_products`."""
    true = sp.csr_array(np.array([[1, 1, 1], [1, 0, 1], [1, 1, 0], [0, 1, 0]], dtype=np.float32))
    careful, careless = np.array([0.9, 0.7, 0.8]), np.array([0.3, 0.1, 0.2])
    p = (careful + careless) / 2
    covariance = np.outer(careful - p, careful - p)
    spread = np.sqrt(p * (1 - p))
    correlation = covariance / np.outer(spread, spread)
    r = correlation[0, 2]
    np.testing.assert_allclose(correlation[[0, 0, 1], [1, 2, 2]], r, rtol=0.05)
    weights = np.where(np.eye(3) > 0, 0, covariance / r)  # what stands for s_j s_k, exactly
    entries = np.argwhere(true.toarray() > 0)
    mean = 0.0
    for efforts in product((True, False), repeat=4):
        for fates in product((0.0, 1.0), repeat=len(entries)):
            chance, kept = 0.5**4, np.zeros(true.shape)
            for (i, j), fate in zip(entries, fates, strict=True):
                rate = careful[j] if efforts[i] else careless[j]
                chance *= rate if fate else 1 - rate
                kept[i, j] = fate
            left = residuals(sp.csr_array(kept), true).toarray()
            mean += chance * ((left.sum(axis=1) ** 2).sum() - (left**2).sum())
    flat = np.sqrt(weights[0, 1] * weights[0, 2] / weights[1, 2])
    factors = np.array([flat, weights[0, 1] / flat, weights[0, 2] / flat])
    assert mean == pytest.approx(r * expected_products(residuals(true, true), factors))


def test_nothing_varies_nothing_is_found() -> None:
    left = residuals(TRUE, TRUE)
    assert score_test(left, np.ones(TRUE.nnz)).p_value == 1
    assert score_test(residuals(arrangements()[0], TRUE), np.ones(TRUE.nnz)).p_value == 1


def test_ranks_stand_within_their_label() -> None:
    values = np.array([5.0, 1.0, 5.0, 1.0, 9.0, 2.0, 7.0, 2.0])[: TRUE.nnz]
    ranks = ranks_within_labels(values, TRUE)
    for label in (0, 1):
        own, theirs = values[TRUE.indices == label], ranks[TRUE.indices == label]
        assert theirs.sum() == pytest.approx(0)
        below = (own[:, None] > own).sum(axis=1) + 0.5 * ((own[:, None] == own).sum(axis=1) - 1)
        np.testing.assert_allclose(theirs, (below + 0.5) / own.size - 0.5)


def test_scores_of_every_form_are_those_of_the_true_labels() -> None:
    dense = np.array([[0.9, 0.2], [0.1, 0.8], [0.5, 0.4], [0.3, 0.6], [0.7, 0.05]])
    row = np.repeat(np.arange(5), np.diff(TRUE.indptr))
    expected = dense[row, TRUE.indices]
    np.testing.assert_array_equal(scores_of(dense, TRUE), expected)
    np.testing.assert_array_equal(scores_of(sp.csc_array(dense), TRUE), expected)
    order = np.argsort(-dense, axis=1)
    whole = TopK(order, np.take_along_axis(dense, order, axis=1))
    np.testing.assert_allclose(scores_of(whole, TRUE), expected, rtol=1e-6)
    first = TopK(order[:, :1], np.take_along_axis(dense, order[:, :1], axis=1))
    listed = order[row, 0] == TRUE.indices
    scored = scores_of(first, TRUE)
    np.testing.assert_allclose(scored[listed], expected[listed], rtol=1e-6)
    assert (scored[~listed] < scored[listed].min()).all()


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.zeros((4, 2)), "same rows and labels; got .4, 2."),
        (sp.csr_array((5, 3)), "same rows and labels; got .5, 3."),
        (np.full((5, 2), np.nan), "finite|nan"),
        (TopK([[0]], [[1.0]]), "scores of 1 rows for 5 rows of audited"),
    ],
)
def test_scores_of_other_rows_are_refused(scores: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scores_of(scores, TRUE)  # type: ignore[arg-type]


def test_diagnose_finds_labels_that_are_kept_because_they_are_obvious() -> None:
    """Slope 1 on the score; independent masks of the same rows are not accused of it."""
    true = planted(800, seed=3)
    scores = rng(5).standard_normal(true.shape)
    entry = scores_of(scores, true)
    chance = sp.csr_array((1 / (1 + np.exp(-1.5 * entry)), true.indices, true.indptr), true.shape)
    p = np.full(true.shape[1], 0.5)
    rows = slice(0, 100)
    for observed, guilty in (
        (data.hide(true, chance, seed=0), True),
        (data.hide(true, p, seed=0), False),
    ):
        diagnosis = diagnose(
            observed, p, (observed[rows], true[rows]), scores=scores[rows],
            covariates={"source": np.where(np.arange(100) % 2, "web", "print")},
        )  # fmt: skip
        finding = diagnosis.finding("score")
        assert (finding is not None) == guilty
        assert diagnosis.finding("covariate") is None
        if finding is not None:
            assert finding.tests[0].values["odds_factor"] > 1.5
            assert "`evaluate(…, audit=…)`" in finding.advice


def test_a_covariate_is_named() -> None:
    true = planted(400, seed=3)
    web = np.arange(400) % 2 == 0
    chance = np.repeat(np.where(web, 0.8, 0.3), np.diff(true.indptr))
    observed = data.hide(
        true, sp.csr_array((chance, true.indices, true.indptr), true.shape), seed=1
    )
    covariates = {"source": np.where(web, "web", "print"), "length": rng(0).random(400)}
    diagnosis = diagnose(observed, np.full(60, 0.55), (observed, true), covariates=covariates)
    finding = diagnosis.finding("covariate")
    assert finding is not None
    assert finding.evidence.startswith("With `source` the odds of being kept change by the factor")
    with pytest.raises(ValueError, match="give one value per audited row"):
        diagnose(observed, np.full(60, 0.55), (observed, true), covariates={"source": [1, 2, 3]})


def test_scores_without_an_audit_are_refused() -> None:
    with pytest.raises(ValueError, match="scores of audited rows came without an audit"):
        diagnose(TRUE, [0.5, 0.5], scores=np.zeros((5, 2)))
