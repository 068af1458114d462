"""A slope on the score: the fit against a general optimiser, and what `audit` makes of it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit, logit

from unmask import data, propensity
from unmask.propensity import MaskModel
from unmask.propensity.mask_model import SPREAD, ScoreSlope, fit_slope

RNG = np.random.default_rng(0)
TRUE = sp.csr_array((RNG.random((120, 6)) < 0.5).astype(np.float32))
SCORES = RNG.standard_normal(TRUE.shape)
ROWS = np.repeat(np.arange(120), np.diff(TRUE.indptr))
ENTRY = SCORES[ROWS, TRUE.indices]
P = np.linspace(0.2, 0.7, 6)
KEPT = (RNG.random(TRUE.nnz) < expit(logit(P)[TRUE.indices] + 1.2 * ENTRY)).astype(float)


def test_the_fit_maximises_the_penalised_likelihood() -> None:
    fitted = fit_slope(KEPT, TRUE, ENTRY, P)
    x = (ENTRY - ENTRY.mean()) / ENTRY.std()

    def loss(parameters: np.ndarray) -> float:
        beta, delta, own = parameters[0], parameters[1], parameters[2:]
        z = logit(P)[TRUE.indices] + delta + own[TRUE.indices] + beta * x
        return float(np.logaddexp(0, z).sum() - KEPT @ z + (own**2).sum() / (2 * SPREAD**2))

    best = minimize(loss, np.zeros(8), method="BFGS", options={"gtol": 1e-7}).x
    assert fitted.slope == pytest.approx(best[0], abs=1e-4)
    assert fitted.shift == pytest.approx(best[1], abs=1e-4)
    np.testing.assert_allclose(fitted.own, best[2:], atol=1e-4)


def test_the_covariance_is_that_of_the_inverse_information() -> None:
    """The (β, δ) block of the inverse of the whole penalised Hessian."""
    fitted = fit_slope(KEPT, TRUE, ENTRY, P)
    x = (ENTRY - ENTRY.mean()) / ENTRY.std()
    own = np.eye(6)[TRUE.indices]
    design = np.column_stack([x, np.ones(TRUE.nnz), own])
    chance = expit(logit(P)[TRUE.indices] + design @ np.r_[fitted.slope, fitted.shift, fitted.own])
    hessian = design.T @ (design * (chance * (1 - chance))[:, None])
    hessian[2:, 2:] += np.eye(6) / SPREAD**2
    np.testing.assert_allclose(fitted.covariance, np.linalg.inv(hessian)[:2, :2], rtol=1e-6)


def test_an_audit_by_score_gives_a_mask_model_that_finds_the_slope() -> None:
    truth = data.synthetic.planted(600, n_labels=40, seed=1).labels
    scores = np.random.default_rng(2).standard_normal(truth.shape)
    rows = np.repeat(np.arange(600), np.diff(truth.indptr))
    chance = expit(1.5 * scores[rows, truth.indices])
    observed = data.hide(
        truth, sp.csr_array((chance, truth.indices, truth.indptr), truth.shape), seed=0
    )
    mask = propensity.audit(observed, truth, mask="score", scores=scores, curve="free")
    assert mask.score_slope is not None
    low, high = mask.score_slope.interval
    assert low < 1.5 < high
    assert "score_slope=1." in repr(mask)
    assert "slope" in mask.source.sentence
    assert not mask.certain
    assert mask.centre.certain
    drawn = [each.score_slope.slope for each in mask.draw(seed=0, size=200)]
    assert np.std(drawn) == pytest.approx((high - low) / 3.92, rel=0.2)
    entries = mask.of_entries(observed, scores)
    own = scores[np.repeat(np.arange(600), np.diff(observed.indptr)), observed.indices]
    assert np.corrcoef(entries.data, own)[0, 1] > 0.8


def test_without_a_slope_entries_have_the_propensity_of_their_label() -> None:
    entries = MaskModel([0.5, 0.25]).of_entries(sp.csr_array([[1.0, 1.0]]), np.zeros((1, 2)))
    np.testing.assert_array_equal(entries.toarray(), [[0.5, 0.25]])
    steep = ScoreSlope(2.0, 0.0, np.zeros(2))
    chance = steep.at(np.array([0.5, 0.5]), np.array([0, 1]), np.array([0.0, 1.0]))
    np.testing.assert_allclose(chance, [0.5, expit(2.0)])


def test_scores_and_masks_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match="mask='score' needs the model's scores"):
        propensity.audit([[1]], [[1]], mask="score")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="scores are for mask='score'"):
        propensity.audit([[1]], [[1]], scores=[[1.0]])  # type: ignore[call-overload]
