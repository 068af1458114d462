"""Sample weights: a row of weight 2 is two rows, and one of weight 0 is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import LinearClassifier, data, linear, weights

ROWS = data.synthetic.planted(160, n_features=30, n_labels=6, seed=0)
X = ROWS.features
P = np.linspace(0.4, 0.9, 6)
Y = data.hide(ROWS.labels, P, seed=1)
PAIRS = sp.csr_array((P[Y.indices] * np.linspace(0.5, 1, Y.nnz), Y.indices, Y.indptr), Y.shape)
TIMES = np.random.default_rng(2).integers(0, 4, 160)


LOSSES = (
    ("logistic", "ova"), ("squared_hinge", "ova"), ("squared_error", "ova"), ("softmax", "pal")
)  # fmt: skip


def _estimators() -> Iterator[dict[str, Any]]:
    """Parameters of every correction, in both forms and reductions where they exist."""
    for correction in [*weights.CORRECTIONS, "completed", "likelihood"]:
        for loss, reduction in LOSSES:
            for normalized in (False, True):
                parameters = {"correction": correction, "loss": loss, "reduction": reduction}
                parameters |= {"normalized": normalized, "tol": 1e-7, "C": 0.5}
                special = correction in ("completed", "likelihood")
                if special and (loss != "logistic" or (correction == "likelihood" and normalized)):
                    continue
                convex = correction == "vanilla" or (correction == "bound" and not normalized)
                if loss == "squared_hinge" and not convex:
                    continue  # without a minimum for labels that are often missing
                if correction == "empirical_bayes" and not normalized:
                    continue
                if normalized and reduction == "pal" and correction in ("unbiased", "tempered"):
                    continue  # no minimum: rows whose weights sum to less than 0
                yield parameters | {"propensity": P}
                if not special and correction not in ("vanilla", "empirical_bayes"):
                    yield parameters | {"propensity": PAIRS}
    yield {"correction": weights.bound(Y, P), "loss": "logistic", "tol": 1e-7}


def _of_rows(parameters: dict[str, Any], rows: np.ndarray) -> dict[str, Any]:
    """The parameters for some of the rows."""
    p, correction = parameters.get("propensity"), parameters["correction"]
    own: dict[str, Any] = {"propensity": p[rows] if sp.issparse(p) else p}
    if not isinstance(correction, str):
        own["correction"] = correction[rows]
    return parameters | own


@pytest.mark.filterwarnings("ignore::unmask.linear.UnconvergedWarning")
def test_whole_weights_are_repeated_rows_for_every_correction() -> None:
    rows = np.repeat(np.arange(160), TIMES)
    elsewhere = np.r_[np.unique(rows), np.repeat(np.arange(160), np.maximum(TIMES - 1, 0))]
    for parameters in _estimators():
        weighted = LinearClassifier(**parameters).fit(X, Y, sample_weight=TIMES)
        for order, close in ((rows, 1e-9), (elsewhere, 1e-5)):
            repeated = LinearClassifier(**_of_rows(parameters, order)).fit(X[order], Y[order])
            # corrected squared errors have objectives of either sign, which lie close to 0
            near = 10 * close if parameters["loss"] == "squared_error" else 0
            np.testing.assert_allclose(
                repeated.objective_, weighted.objective_, rtol=close, atol=near,
                err_msg=str(parameters),
            )  # fmt: skip
            np.testing.assert_allclose(
                repeated.coef_, weighted.coef_, rtol=0, atol=1e3 * close, err_msg=str(parameters)
            )


@pytest.mark.filterwarnings("ignore::unmask.linear.UnconvergedWarning")
def test_rows_of_weight_zero_are_no_rows_for_every_correction() -> None:
    kept = np.flatnonzero(TIMES)
    weight = np.where(TIMES > 0, 0.25 + TIMES, 0.0)
    for parameters in _estimators():
        weighted = LinearClassifier(**parameters).fit(X, Y, sample_weight=weight)
        fewer = LinearClassifier(**_of_rows(parameters, kept))
        fewer.fit(X[kept], Y[kept], sample_weight=weight[kept])
        np.testing.assert_array_equal(weighted.coef_, fewer.coef_, err_msg=str(parameters))
        plain = LinearClassifier(**_of_rows(parameters, kept)).fit(X[kept], Y[kept])
        assert np.abs(plain.coef_ - weighted.coef_).max() > 1e-3


@pytest.mark.filterwarnings("ignore::unmask.linear.UnconvergedWarning")
def test_equal_weights_are_a_factor_of_the_cost_for_every_correction() -> None:
    for parameters in _estimators():
        half = LinearClassifier(**parameters).fit(X, Y, sample_weight=np.full(160, 0.5))
        cost = parameters.get("C", 1.0) / 2
        cheap = LinearClassifier(**(parameters | {"C": cost})).fit(X, Y)
        np.testing.assert_allclose(
            half.objective_, cheap.objective_, rtol=1e-5, atol=1e-4, err_msg=str(parameters)
        )


def test_copies_of_a_row_do_not_tell_its_labels() -> None:
    """Of rows that all stand twice, targets are what they are of rows that stand once."""
    twice = np.repeat(np.arange(160), 2)
    recipe = linear.Recipe("logistic", C=0.5, tol=1e-7)
    half = linear.Recipe("logistic", C=0.25, tol=1e-7)
    once = linear.completion(X, Y, P, recipe).probabilities.toarray()
    made = linear.completion(X[twice], Y[twice], P, half).probabilities.toarray()
    np.testing.assert_array_equal(made[::2], made[1::2])
    assert np.abs(made[::2] - once).max() < 0.1


def test_weights_of_other_rows_are_refused() -> None:
    for wrong in ({"correction": weights.bound(Y[:100], P)}, {"propensity": PAIRS[:100]}):
        parameters = {"loss": "logistic", "correction": "unbiased", "propensity": P} | wrong
        for weight in (TIMES, TIMES + 0.5):
            with pytest.raises(ValueError, match="must have the same rows and labels"):
                LinearClassifier(**parameters).fit(X, Y, sample_weight=weight)
