"""The study of missing labels: what a training is chosen by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import TopK, evaluate, linear
from unmask_studies import missing_labels
from unmask_studies.training.protocol import Rows, Trial


@pytest.mark.parametrize("way", ["clean", "vanilla", "unbiased"])
def test_only_clean_training_is_chosen_by_the_truth(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    rng = np.random.default_rng(0)
    true = (rng.random((60, 8)) < 0.4).astype(np.float32)
    observed = true * (rng.random(true.shape) < 0.7)
    top = TopK.from_scores(true + rng.random(true.shape), 5)
    rows = Rows(sp.csr_array((60, 2)), sp.csr_array(true), sp.csr_array(observed))
    part, p = Trial({"valid": rows}, np.full(8, 0.7), 0), np.full(8, 0.7)
    monkeypatch.setattr(linear, "predict_top", lambda *_: top)
    model: Any = None
    by_truth = evaluate(top, true, metrics=["R@5"])["R@5", "vanilla"].value
    asked: Any = {"metrics": ["R@5"], "estimators": ["deconvolved"]}
    as_left = evaluate(top, observed, p, **asked)["R@5", "deconvolved"].value
    assert by_truth != as_left
    expected = by_truth if way == "clean" else as_left
    assert missing_labels._noisy(part, model, way) == pytest.approx(expected)
