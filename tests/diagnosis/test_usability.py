"""Standard errors before any model is trained, and which estimator and loss follow from them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.diagnoses import rng
from unmask import data
from unmask.diagnosis import diagnose
from unmask.diagnosis.diagnose import _kish, usability, usability_findings
from unmask.metrics.claims import Standing
from unmask.weights import normalized_weights

NOT_REFUTED = Standing.NOT_REFUTED


def test_standard_errors_are_those_of_repeated_masks() -> None:
    """A right model's P@k over fresh masks and rows varies as announced (within 15 %)."""
    p = np.full(20, 0.4)
    values = []
    for seed in range(300):
        true = data.synthetic.independent(400, 20, probability=0.2, seed=seed)
        seen = data.hide(true, p, seed=seed + 1000)
        draw = rng(seed).random(true.shape) * (true.toarray() > 0)
        first = np.argsort(-draw, axis=1)[:, :3]
        values.append((np.take_along_axis(seen.toarray(), first, 1) / 0.4).sum(axis=1).mean() / 3)
    found = usability(seen, p, (3,), rng())
    assert found["standard_error"]["P@3"] == pytest.approx(np.std(values), rel=0.15)


def test_a_model_that_prefers_rare_labels_pays_more_and_no_model_more_than_the_limit() -> None:
    """Two labels of p = 0.9 and one of 0.1 in every row; P@1 over 400 masks."""
    rows, p = 400, np.array([0.9, 0.9, 0.1])
    true = np.ones((rows, 3), np.float32)
    seen = [data.hide(true, p, seed=seed) for seed in range(400)]
    figures = usability(seen[0], p, (1,), rng())
    announced, limit = figures["standard_error"]["P@1"], figures["largest_standard_error"]["P@1"]
    errors = [np.std([mask[:, [j]].sum() / p[j] / rows for mask in seen]) for j in range(3)]
    assert errors[0] < announced < errors[2]  # the rare label costs more than was announced
    assert max(errors) <= limit * (1 + 3 / np.sqrt(2 * 400))


def test_the_limit_takes_the_largest_weights_of_every_row() -> None:
    labels = sp.csr_array([[1, 1, 1], [0, 1, 0], [0, 0, 0], [1, 0, 1.0]])
    p = np.array([0.5, 0.2, 0.25])
    limits = usability(labels, p, (1, 2), rng())["largest_standard_error"]
    assert limits["P@1"] == pytest.approx(np.sqrt((25 + 25 + 0 + 16) / 4 / 4))
    assert limits["P@2"] == pytest.approx(np.sqrt((9**2 + 5**2 + 0 + 6**2) / 4 / 4 / 4))


def test_rows_without_labels_have_no_negative_total() -> None:
    labels, p = sp.csr_array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1.0]]), np.full(3, 0.3)
    weights = normalized_weights(labels.indptr, 1 / p[labels.indices])
    totals = np.add.reduceat(weights, labels.indptr[1:-1])
    found = usability(labels, p, (1,), rng())
    assert 0 < (totals < 0).sum() < 3
    assert found["rows_with_negative_total_weight"] == (totals < 0).sum() / 4
    assert found["largest_weight"] == pytest.approx({"1/p": 1 / 0.3, "T": np.abs(weights).max()})
    assert found["effective_sample_size"]["P"] == pytest.approx(6)
    expected = np.abs(weights).sum() ** 2 / (weights**2).sum()
    assert found["effective_sample_size"]["R"] == pytest.approx(expected)
    assert found["observed_labels"] == 6


def test_sample_sizes_hold_for_weights_of_any_size() -> None:
    assert _kish(np.full(3, 1e200)) == pytest.approx(3)
    assert _kish(np.array([1e-200, 3e-200])) == pytest.approx(1.6)
    assert _kish(np.zeros(2)) == _kish(np.zeros(0)) == 0


def figures(precision: float, recall: float, negative: float = 0.0, weight: float = 9.0) -> dict:
    return {
        "standard_error": {
            "P@1": precision / 2,
            "P@3": precision,
            "R@1": recall,
            "R@3": recall / 2,
        },
        "largest_standard_error": {"P@1": 2 * precision, "P@3": 3 * precision},
        "effective_sample_size": {"P": 1234.4, "R": 56.0},
        "largest_weight": {"1/p": 7.0, "T": weight},
        "observed_labels": 9876,
        "rows_with_negative_total_weight": negative,
    }


def test_the_figures_decide_what_is_said() -> None:
    """The larger error decides exactness; that of recall the estimator; negative rows the loss."""
    for precision, recall, severity, advice in (
        (0.01, 0.01, "info", "Precise enough."),
        (0.011, 0.01, "info", "More rows divide"),
        (0.01, 0.011, "info", "More rows divide"),
        (0.0255, 0.0255, "info", "More rows divide"),
        (0.0256, 0.0255, "warning", "More rows divide"),  # ± 0.05 is too wide to use
        (0.0255, 0.0256, "warning", "More rows divide"),
    ):
        exactness, _, _ = usability_findings(figures(precision, recall), NOT_REFUTED)
        assert (exactness.severity, exactness.advice.startswith(advice)) == (severity, True)
        worth = "9,876 labels are worth 1,234 of equal weight in P and nDCG, 56 in R"
        assert worth in exactness.evidence
    for recall, standing, severity, advice in (
        (0.01, NOT_REFUTED, "info", "Use `unbiased` for every metric."),
        (0.011, NOT_REFUTED, "info", "Use `unbiased` for P@k and DCG@k"),
        (0.0255, NOT_REFUTED, "info", "Use `unbiased` for P@k and DCG@k"),
        (0.0256, NOT_REFUTED, "warning", "Use `unbiased` for P@k and DCG@k"),
        (0.01, Standing.DOUBTFUL, "info", "Corrected numbers are doubtful: report `vanilla`"),
        (0.11, Standing.REFUTED, "info", "No corrected number can be used: report `vanilla`"),
    ):
        _, estimator, _ = usability_findings(figures(0.0, recall), standing)
        assert (estimator.severity, estimator.advice.startswith(advice)) == (severity, True)
        refuted = standing is Standing.REFUTED
        assert ("did not go missing" in estimator.evidence) == refuted
    for recall, words in ((1.0, "a standard error of 1."), (1.01, "nothing but noise here.")):
        _, estimator, _ = usability_findings(figures(0.0, recall), NOT_REFUTED)
        assert estimator.evidence.endswith(words)
    for negative, weight, advice in (
        (0.01, 100.0, "`unbiased` weights also"),
        (0.011, 100.0, "`empirical_bayes` weights"),
        (0.01, 101.0, "`empirical_bayes` weights"),
    ):
        *_, loss = usability_findings(figures(0.0, 0.0, negative, weight), NOT_REFUTED)
        assert advice in loss.advice
    labels = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]] * 50 + [[0, 0, 0]]
    for p, start in ((0.5, "No corrected number can be used"), (0.99999, "Use `unbiased`")):
        found = diagnose(labels, [p] * 3).finding("estimator")
        assert found is not None
        assert found.advice.startswith(start)
