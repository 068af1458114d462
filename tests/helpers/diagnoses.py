"""Planted labels and the violations of a diagnosis, for its tests."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from unmask import data
from unmask.diagnosis import Diagnosis
from unmask.diagnosis.findings import LabelGroup

L = 60


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@lru_cache
def planted(n: int, seed: int = 0) -> sp.csr_array:
    return data.synthetic.planted(n, n_labels=L, seed=seed).labels


ALL, LOW = LabelGroup.ALL, LabelGroup.LOW_PROPENSITY


def violations(found: Diagnosis, alpha: float = 0.05) -> set[tuple[str, str | None]]:
    return {(test.kind, test.group) for test in found.tests if test.adjusted <= alpha}
