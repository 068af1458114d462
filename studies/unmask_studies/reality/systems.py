"""The systems that are evaluated: linear models trained on the observed labels of a pair."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask import linear
from unmask.linear import LinearModel
from unmask.predictions import TopK
from unmask_studies.models import Split
from unmask_studies.reality.pairs import Pair, pair_of

K = 5
SYSTEMS = ("vanilla", "unbiased", "few rows")
"""One-vs-all as it is, corrected by the true propensities, and trained on a quarter of the rows."""


@lru_cache(maxsize=4)
def system(folder: Path | None, name: str) -> tuple[LinearModel, TopK]:
    """A model of the pair in a folder, and its best labels of the test rows."""
    pair = pair_of(folder)
    model = train(pair, name)
    return model, linear.predict_top(model, pair.split.test_features, K)


def train(pair: Pair, name: str) -> LinearModel:
    """A model of one of the `SYSTEMS`."""
    split: Split = pair.split
    if name == "unbiased":
        recipe = linear.Recipe("logistic", correction="unbiased")
        rows = np.arange(split.train_features.shape[0])
    else:
        recipe = linear.Recipe("squared_hinge")
        rows = np.arange(0, split.train_features.shape[0], 4 if name == "few rows" else 1)
    model, _ = linear.train(
        sp.csr_array(split.train_features[rows]), sp.csr_array(split.train_labels[rows]), recipe,
        propensity=pair.p if name == "unbiased" else None,
    )  # fmt: skip
    return model
