"""What hits are worth, row by row, and in which order what was tried is listed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import TopK
from unmask.models.judging import Hits

INVERSE = np.array([1.0, 2.0, 4.0, 8.0])
LABELS = sp.csr_array(np.array([[1.0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]]))
PREDICTED = [[1, 2, 0], [3, -1, -1], [0, 1, 2], [3, 2, 1]]


@pytest.mark.parametrize(
    "worth",
    [
        np.array([[0.0, 1.0, 0.5]]),
        np.array([[0.0, 1.0, 0.5, 0.25, 0.2], [0.0, 0.7, 0.6, 0.3, 0.1]]),
        np.array([[0.0, 1.0]] * 5),
    ],
)
def test_every_hit_adds_its_inverse_propensity_times_its_worth(worth: np.ndarray) -> None:
    """By place, up to as many as count, and by how many labels were observed."""
    top = TopK(PREDICTED, [[0.9, 0.5, 0.1], [0.9, -np.inf, -np.inf], [3, 2, 1], [3, 2, 1]])
    places, most = worth.shape
    wanted = []
    for i, row in enumerate(PREDICTED):
        own = set(LABELS[[i]].indices.tolist())
        hits = [(place, j) for place, j in enumerate(row[:places]) if j in own]
        wanted.append(sum(INVERSE[j] * worth[place, min(len(own), most - 1)] for place, j in hits))
    assert Hits(INVERSE, worth).of(top, LABELS) == pytest.approx(wanted)
