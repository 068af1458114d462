"""The variance of means over strata, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from unmask.metrics.measured.control import RowSample, variance

STRATUM = np.array([0, 0, 0, 1, 1])
SIZES = np.array([30, 10])
RESIDUALS = np.array([0.0, 1.0, 2.0, 1.0, 3.0])
WITHIN = np.array([0.3, 0.6, 0.9, -5.0, -7.0])


@pytest.mark.parametrize(
    ("estimated", "within", "open_shares", "inner"),
    [
        (False, None, (0.9, 0.8), (0.0, 0.0)),
        (True, None, (1.0, 1.0), (0.0, 0.0)),  # what is not known within rows may be all
        (True, WITHIN, (0.9, 0.8), (0.6 / 30, 0.0)),  # what is below 0 counts as 0
    ],
)
def test_every_stratum_counts_by_its_share_of_rows(
    estimated: bool,
    within: np.ndarray | None,
    open_shares: tuple[float, float],
    inner: tuple[float, float],
) -> None:
    sample = RowSample(np.arange(5), STRATUM, SIZES, RESIDUALS[:, None], within, estimated)
    largest = 0.5
    spreads = (2 + largest * 3 / 5) / 3, (2 + largest * 2 / 5) / 2
    expected = sum(
        share**2 * (open_share * spread / m + more)
        for share, open_share, spread, m, more in zip(
            (0.75, 0.25), open_shares, spreads, (3, 2), inner, strict=True
        )
    )
    assert variance(sample, RESIDUALS, largest) == pytest.approx(expected, rel=1e-12)
