"""A diagnosis of a few rows, with and without an audit: sums of all p-values and effects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unmask import TopK, data
from unmask.diagnosis import diagnose

N, L = 260, 14
P = np.linspace(0.3, 0.9, L).round(3)


def test_numbers_are_those_stored() -> None:
    """Of every diagnosis: tests, findings, Σ p, Σ effects and Σ of what findings say in numbers."""
    rng = np.random.default_rng(3)
    true = (rng.random((N, L)) < np.linspace(0.35, 0.05, L)).astype(int)
    true[:, 1] |= true[:, 0] & (rng.random(N) < 0.7)
    seen = data.hide(true, P, seed=6).toarray()
    scores = true + np.random.default_rng(4).normal(0, 0.5, true.shape)
    audit: dict[str, Any] = {"audit": (seen[:90], true[:90])}
    covariates = {"year": np.arange(90) % 7}
    made = {
        "alone": diagnose(seen, P),
        "audited": diagnose(seen, P, **audit, scores=scores[:90], covariates=covariates),
        "wrong propensities": diagnose(seen, P[::-1], **audit, alpha=0.1, k=(2,)),
        "predictions": diagnose(seen, P, predictions=TopK.from_scores(scores, 5)),
    }
    for name, diagnosis in made.items():
        sums = [
            len(diagnosis.tests),
            len(diagnosis.findings),
            sum(test.p_value for test in diagnosis.tests),
            sum(sum(test.values.values()) for test in diagnosis.tests),
            sum(sum(finding.values.values()) for finding in diagnosis.findings),
        ]
        assert sums == pytest.approx(STORED[name], rel=1e-6), name


STORED = {
    "alone": [7, 5, 6.99998842, 692.123274, 996.571819],
    "audited": [17, 5, 12.5092771, 1019.55977, 1007.60881],
    "wrong propensities": [15, 8, 10.9560146, 1040.41081, 1065.02538],
    "predictions": [7, 5, 6.99998842, 692.123274, 996.571819],
}
