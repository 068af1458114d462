"""Masks, synthetic data, summaries and tf-idf: what they promise, checked exactly."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfTransformer

from tests.helpers import strategies
from unmask import data, propensity
from unmask.data import synthetic


@given(strategies.label_matrices(), st.integers(0, 2**32), st.data())
def test_hiding_only_removes(labels: sp.csr_array, seed: int, draw: st.DataObject) -> None:
    p = draw.draw(strategies.propensity_vectors(labels.shape[1]))
    before = labels.toarray().copy()
    observed = data.hide(labels, p, seed=seed)
    assert (observed.toarray() <= before).all()
    np.testing.assert_array_equal(observed.toarray()[:, p == 1], before[:, p == 1])
    np.testing.assert_array_equal(labels.toarray(), before)
    assert observed.has_canonical_format


def test_hiding_is_reproducible_and_depends_on_the_seed() -> None:
    labels = np.ones((50, 40))
    first, again, other = (data.hide(labels, np.full(40, 0.5), seed=s).toarray() for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_hiding_keeps_each_label_with_its_own_probability() -> None:
    """Kept counts are binomial: within five standard deviations for every label of a fixed seed."""
    n, p = 20_000, np.linspace(0.05, 1, 20)
    kept = data.hide(np.ones((n, 20)), p, seed=0).toarray().sum(axis=0)
    assert (np.abs(kept - n * p) <= 5 * np.sqrt(n * p * (1 - p))).all()


def test_masks_are_independent_between_labels() -> None:
    kept = data.hide(np.ones((20_000, 6)), np.full(6, 0.5), seed=0).toarray()
    correlation = np.corrcoef(kept, rowvar=False) - np.eye(6)
    assert np.abs(correlation).max() < 5 / np.sqrt(20_000)


def test_propensities_per_entry_decide_entry_by_entry() -> None:
    labels = sp.csr_array(np.ones((2, 2)))
    entries = sp.csr_array(np.array([[1.0, 1e-300], [1e-300, 1.0]]))
    np.testing.assert_array_equal(data.hide(labels, entries, seed=0).toarray(), np.eye(2))


def test_independent_labels_have_the_stated_probability() -> None:
    labels = synthetic.independent(seed=3)
    n, n_labels = labels.shape
    assert (n, n_labels) == (10_000, 100)
    deviation = labels.sum(axis=0) - n * 0.1
    assert np.abs(deviation).max() < 5 * np.sqrt(n * 0.1 * 0.9)


@pytest.mark.parametrize("probability", [-0.1, 1.1, 2.0, np.nan])
def test_independent_labels_have_a_probability(probability: float) -> None:
    with pytest.raises(ValueError, match="probability"):
        synthetic.independent(5, 3, probability=probability, seed=0)
    assert synthetic.independent(5, 3, probability=1.0, seed=0).nnz == 15


def test_planted_data_repeat_and_have_the_shape_asked_for() -> None:
    options = {"n_features": 300, "n_labels": 50, "labels_per_row": 3.0, "seed": 7}
    first, again = synthetic.planted(2000, **options), synthetic.planted(2000, **options)
    assert (first.features != again.features).nnz == (first.labels != again.labels).nnz == 0
    assert set(np.unique(first.labels.data)) == {1.0}
    assert first.labels.sum(axis=1).min() >= 1
    counts = np.sort(first.labels.sum(axis=0))[::-1]
    assert counts[0] > 5 * counts[25]


def test_planted_labels_can_be_learnt() -> None:
    """Least squares on the features finds most labels of rows it has not seen."""
    planted = synthetic.planted(3000, n_features=500, n_labels=50, seed=1)
    x, y = planted.features.toarray(), planted.labels.toarray()
    coefficients = np.linalg.lstsq(x[:2500], y[:2500], rcond=None)[0]
    best = np.argmax(x[2500:] @ coefficients, axis=1)
    assert y[2500:][np.arange(500), best].mean() > 0.9


@given(strategies.label_matrices())
def test_description_counts_correctly(labels: sp.csr_array) -> None:
    dense, found = labels.toarray(), data.describe(data.Dataset(features=None, labels=labels))
    assert (found.n, found.L) == dense.shape
    assert found.labels_per_row * max(found.n, 1) == pytest.approx(dense.sum())
    assert found.empty_rows == (dense.sum(axis=1) == 0).sum()
    assert found.unused_labels == (dense.sum(axis=0) == 0).sum()
    assert found.label_count_histogram.sum() == found.n
    assert found.label_count_histogram @ np.arange(len(found.label_count_histogram)) == dense.sum()


def test_tfidf_is_that_of_scikit_learn_with_the_plain_logarithm() -> None:
    rng = np.random.default_rng(0)
    counts = sp.csr_array(rng.poisson(0.4, (60, 25)).astype(np.float32))
    counts.data += 1
    theirs = TfidfTransformer(sublinear_tf=True, smooth_idf=False).fit(counts)
    theirs.idf_ = theirs.idf_ - 1  # scikit-learn adds one to ln(N / df)
    ours = data.tfidf(counts, data.idf(counts))
    np.testing.assert_allclose(ours.toarray(), theirs.transform(counts).toarray(), rtol=1e-6)


def test_tfidf_of_unseen_words_is_zero() -> None:
    weights = data.idf(sp.csr_array([[1.0, 0, 0], [1, 2, 0]]))
    fresh = data.tfidf(sp.csr_array([[0.0, 5, 5]]), weights)
    np.testing.assert_allclose(fresh.toarray(), [[0, 1, 0]])


def test_tfidf_refuses_what_has_no_logarithm() -> None:
    with pytest.raises(ValueError, match="must be positive; got -1"):
        data.tfidf(sp.csr_array([[-1.0]]), np.ones(1))


@pytest.mark.parametrize("options", [{"labels_per_row": 0.5}, {"n_labels": 0}])
def test_impossible_plans_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must lie in \[1, inf\]"):
        synthetic.planted(10, seed=0, **options)


def test_schedules_hide_as_in_the_paper() -> None:
    labels = synthetic.planted(500, seed=0).labels
    for p in (
        propensity.constant(200, 0.3),
        propensity.inverse_linear(labels),
        propensity.jain(labels),
    ):
        assert 0 < data.hide(labels, p, seed=0).nnz < labels.nnz


def test_without_labels_none_is_in_the_tail() -> None:
    for labels, share in ((sp.csr_array((3, 0)), 0.0), (sp.csr_array(np.eye(4)[:, :3]), 1.0)):
        assert data.describe(data.Dataset(features=None, labels=labels)).tail_share == share
