"""Ways of losing labels: marginals as they are stated, and what each scenario breaks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import data
from unmask_studies.mask_scenarios import SCENARIOS, Masked, Setting, calibrated, parents_of

WRONG_MARGINALS = {
    "p × 0.5 stated", "p × 0.7 stated", "p × 1.4 stated", "p × 2 stated", "permuted",
    "frequency drift", "2 % spurious", "10 % spurious", "non-empty rows only",
}  # fmt: skip


def setting(seed: int = 0) -> Setting:
    labels = data.synthetic.planted(4000, n_labels=30, seed=3).labels
    labels = sp.csr_array(labels[np.diff(labels.indptr) > 0])
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal(labels.nnz)
    return Setting(labels, np.linspace(0.15, 0.5, 30), scores, parents_of(labels), rng)


def masked(name: str) -> tuple[Setting, Masked]:
    before = setting()
    return before, SCENARIOS[name](before)


@pytest.mark.parametrize("name", sorted(SCENARIOS.keys() - WRONG_MARGINALS))
def test_marginal_propensities_are_those_that_are_stated(name: str) -> None:
    """Label by label, within five standard errors of a binomial with few independent rows."""
    before, after = masked(name)
    total = np.bincount(before.true_labels[after.rows].indices, minlength=30)
    kept = np.bincount(after.observed.indices, minlength=30)
    error = np.sqrt(2 * after.stated * (1 - after.stated) / total)
    assert (np.abs(kept / total - after.stated) < 5 * error + 4 / total).all()


@pytest.mark.parametrize("name", SCENARIOS)
def test_observed_labels_are_true_unless_they_are_spurious(name: str) -> None:
    before, after = masked(name)
    true_labels = sp.csr_array(before.true_labels[after.rows])
    wrong = after.observed.nnz - sp.csr_array(after.observed.multiply(true_labels)).nnz
    share = {"2 % spurious": 0.02, "10 % spurious": 0.1}.get(name, 0.0)
    assert wrong / after.observed.nnz == pytest.approx(share, abs=1e-3)
    assert ((after.stated > 0) & (after.stated <= 1)).all()
    assert after.observed.shape == (len(after.rows), 30)


def _pairs_kept_together(before: Setting, after: Masked) -> float:
    """Variance of the number of kept labels per row, relative to independent masks."""
    expected = before.true_labels @ before.p
    variance = before.true_labels @ (before.p * (1 - before.p))
    observed = np.diff(after.observed.indptr)
    return float(((observed - expected) ** 2).sum() / variance.sum())


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("right", 0.95, 1.05),
        ("labels compete in pairs", 0.3, 0.8),
        ("row effort 0.3", 1.1, 2.0),
        ("row effort 0.8", 1.5, 4.0),
        ("20 % of rows never annotated", 1.1, 3.0),
    ],
)
def test_rows_vary_more_or_less_than_under_independent_masks(
    name: str, low: float, high: float
) -> None:
    assert low < _pairs_kept_together(*masked(name)) < high


def test_what_a_scenario_says_is_what_it_does() -> None:
    before, after = masked("at most 3 labels")
    assert np.diff(after.observed.indptr).max() == 3
    _, after = masked("non-empty rows only")
    assert np.diff(after.observed.indptr).min() == 1
    before, after = masked("hierarchy closed")
    above = before.parents
    dense, true_labels = after.observed.toarray() > 0, before.true_labels.toarray() > 0
    for label in range(30):
        both = dense[:, label] & true_labels[:, above[label]]
        assert dense[both, above[label]].all()
    before, after = masked("kept more at high scores")
    kept = sp.csr_array(after.observed)[before.rows, before.true_labels.indices] > 0
    assert before.scores[kept].mean() > before.scores[~kept].mean() + 0.5


def test_chances_are_calibrated_label_by_label() -> None:
    rng = np.random.default_rng(0)
    labels, p = rng.integers(5, size=500), np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    chances = calibrated(labels, p, 2 * rng.standard_normal(500))
    for label in range(5):
        assert chances[labels == label].mean() == pytest.approx(p[label], abs=1e-9)
