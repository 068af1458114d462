"""The study of tuning: what is stated of propensities, right or wrong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import propensity
from unmask_studies import tuning

P = np.array([0.8, 0.3, 0.5, 0.6])


@pytest.mark.parametrize("masks", tuning.MASKS)
def test_what_is_stated_of_propensities(masks: str) -> None:
    labels = sp.csr_array(np.ones((50, 4)))
    split: Any = SimpleNamespace(labels=labels, p=P)
    observed, stated = tuning.observed_of(split, masks, 3)
    assert 0 < observed.nnz < labels.nnz
    if masks == "permuted":
        assert sorted(stated.tolist()) == sorted(P.tolist())
    else:
        wanted = {"half": P / 2, "twice": np.minimum(1, 2 * P), "Jain": propensity.jain(observed)}
        np.testing.assert_array_equal(stated, np.asarray(wanted.get(masks, P)))
    again, _ = tuning.observed_of(split, masks, 3)
    assert (again != observed).nnz == 0
