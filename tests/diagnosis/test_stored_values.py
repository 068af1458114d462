"""A diagnosis of a few rows, with and without an audit: every test, finding and sentence stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers import golden
from unmask import TopK, data
from unmask.diagnosis import Diagnosis, diagnose

N, L = 260, 14
P = np.linspace(0.3, 0.9, L).round(3)
NAMES = [f"label {j}" for j in range(L)]


def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    true = (rng.random((N, L)) < np.linspace(0.35, 0.05, L)).astype(int)
    true[:, 1] |= true[:, 0] & (rng.random(N) < 0.7)
    return true, data.hide(true, P, seed=6).toarray()


def text_of(found: Diagnosis) -> str:
    tests = [
        {"test": t.kind.value, "group": str(t.group), "p": t.p_value, "adjusted": t.adjusted,
         "severity": t.severity, "values": t.values, "title": t.title}
        for t in found.tests
    ]  # fmt: skip
    findings = [
        {"finding": f.kind.value, "severity": f.severity, "group": str(f.group),
         "values": f.values, "evidence": f.evidence}
        for f in found.findings
    ]  # fmt: skip
    return golden.table(tests) + golden.table(findings) + f"{found.n} {found.L}\n" + str(found)


@pytest.mark.parametrize("kind", ["alone", "audited", "wrong propensities", "predictions"])
def test_a_diagnosis(kind: str) -> None:
    true, seen = rows()
    scores = true + np.random.default_rng(4).normal(0, 0.5, true.shape)
    options: dict[str, Any] = {
        "alone": {},
        "audited": {"audit": (seen[:90], true[:90]), "scores": scores[:90],
                    "covariates": {"year": np.arange(90) % 7}, "names": NAMES},
        "wrong propensities": {"audit": (seen[:90], true[:90]), "alpha": 0.1, "k": (2,)},
        "predictions": {"predictions": TopK.from_scores(scores, 5)},
    }[kind]  # fmt: skip
    p = P[::-1] if kind == "wrong propensities" else P
    golden.check(
        golden.file_name("values", "diagnosis"), text_of(diagnose(seen, p, **options)), kind
    )
