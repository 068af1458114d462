"""What is known of all rows before anything is judged."""

from __future__ import annotations

import numpy as np
import pytest

from unmask.arrays import checks
from unmask.metrics.measured import covariates
from unmask.metrics.measured.covariates import of_rows
from unmask.predictions import TopK

TOP = TopK(
    [[0, 1, 2], [1, 2, 0], [2, -1, -1], [-1, -1, -1]],
    [[4.0, 2.0, 1.0], [4.0, 2.0, 1.0], [4.0, -np.inf, -np.inf], [-np.inf] * 3],
)
LABELS = checks.labels([[1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 1, 0]])
HIGH, MIDDLE, LOW = 1 / 3, 0.25, 0.25
"""The observed shares at the three scores: 1 of 3, then 0 of 2 and 1 of 2, which may not rise."""


def test_covariates_of_every_row() -> None:
    recall_of_first = (1 + MIDDLE) / (2 + MIDDLE)
    expected = [
        # metric, hits, misses, empty, expected recall, mean score of the first two and after them
        [0.5, 1, 1, 0, recall_of_first, 3.0, 1.0],
        [0.0, 0, 0, 1, (HIGH + MIDDLE) / (HIGH + MIDDLE + LOW), 3.0, 1.0],
        [0.0, 0, 0, 1, 1.0, 4.0, 1.0],
        [0.0, 0, 1, 0, 0.0, 16 / 5, 1.0],
    ]
    np.testing.assert_allclose(of_rows(TOP, LABELS, "P@2", 2), expected, rtol=1e-12)


def test_a_list_of_k_has_no_scores_after_them() -> None:
    made = of_rows(TOP.first(2), LABELS, "R@2", 2)
    assert made[:, 6].tolist() == [0, 0, 0, 0]
    assert made[:, 0].tolist() == [0.5, 0, 0, 0]
    high, low = 1 / 3, 1e-3  # nothing is observed in second places; no chance is below 0.001
    np.testing.assert_allclose(made[:2, 4], [(1 + low) / (2 + low), 1.0], rtol=1e-12)
    assert made[2, 4] == high / high


@pytest.mark.parametrize("shape", [(4,), (4, 2), (6, 2), (5, 2, 1), (5, 2, 2)])
def test_covariates_of_other_rows_or_of_more_axes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="covariates must be known for all 5 rows"):
        covariates._row_columns(np.zeros(shape), (5, 3))


def test_covariates_of_rows_are_columns() -> None:
    one, two = np.arange(5.0), np.arange(10.0).reshape(5, 2)
    np.testing.assert_array_equal(covariates._row_columns(one, (5, 3)), one[:, None])
    np.testing.assert_array_equal(covariates._row_columns(two, (5, 3)), two)
