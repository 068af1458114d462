"""The planted pair of the study of real pairs: how its rows are divided and hidden."""

from __future__ import annotations

import numpy as np

from unmask_studies.reality import pairs


def test_a_third_of_planted_rows_are_for_testing() -> None:
    made = pairs._planted(31)
    assert [made.split.train_features.shape[0], made.split.test_features.shape[0]] == [21, 10]
    assert (made.true_train.shape[0], made.true_test.shape[0]) == (21, 10)
    observed = made.split.train_labels
    assert (observed.multiply(made.true_train) != observed).nnz == 0  # nothing is invented
    assert 0 < observed.nnz < made.true_train.nnz
    assert ((made.p > 0) & (made.p <= 1)).all()
    other = made.others[0]
    assert other.shape == observed.shape
    assert not np.array_equal(other.toarray(), observed.toarray())
