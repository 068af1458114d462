"""Propensities by every model and estimator, as stored beside this test: values, ends, draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from tests.helpers import golden
from tests.helpers.paths import ROOT
from unmask import data, propensity
from unmask.propensity import GroupedPropensities, MaskModel, PropensityEstimate
from unmask.propensity.estimate import from_counts

N, L = 150, 12
PINNED = f"scipy=={scipy.__version__}" in (ROOT / "constraints.txt").read_text().split()


def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True labels, those that are left of them, and scores."""
    rng = np.random.default_rng(8)
    true = (rng.random((N, L)) < np.linspace(0.6, 0.08, L)).astype(int)
    seen = true * (rng.random((N, L)) < np.linspace(0.9, 0.3, L)).astype(int)
    return true, seen, true + rng.normal(0, 0.6, (N, L))


def described(found: PropensityEstimate, seed: int = 5) -> dict[str, Any]:
    line = {"value": found.value, "low": found.low, "high": found.high, "first": found.value[0],
            "evidence": found.evidence, "method": found.method}  # fmt: skip
    if found.uncertainty is not None:
        line["drawn"] = found.uncertainty.sample(np.random.default_rng(seed), 5)
    return line


def models() -> dict[str, Callable[[], Any]]:
    true, seen, scores = rows()
    first, second = seen, true * (np.random.default_rng(9).random(true.shape) < 0.6)
    third = true * (np.random.default_rng(10).random(true.shape) < 0.5)
    chances = 1 / (1 + np.exp(3 - 6 * scores))
    audit = propensity.audit
    return {
        "jain": lambda: propensity.jain(seen),
        "jain with options": lambda: propensity.jain(seen, a=0.5, b=0.4),
        "inverse linear": lambda: propensity.inverse_linear(seen),
        "constant": lambda: propensity.constant(3, 0.4),
        "curve": lambda: propensity.jain_curve(np.arange(0, 60, 7), 300),
        "temper": lambda: propensity.temper(np.linspace(0.1, 1, 6), 0.3),
        "clip": lambda: propensity.clip(np.linspace(0.1, 1, 6), 0.3),
        "audit": lambda: audit(seen[:60], true[:60], counts=seen.sum(0), n=N),
        "audit, free": lambda: audit(seen[:60], true[:60], curve="free", confidence=0.8, seed=3),
        "audit, groups": lambda: audit(seen, true, groups=np.arange(N) % 2),
        "effort": lambda: audit(seen, true, mask="effort"),
        "score": lambda: audit(seen, true, mask="score", scores=scores),
        "from counts": lambda: from_counts(
            [3, 9, 0, 40], [4, 30, 2, 50], counts=np.array([3, 90, 2, 400]), n=800
        ),
        "recapture": lambda: propensity.recapture(first, second),
        "recapture, either": lambda: propensity.recapture(first, second, of="either"),
        "recapture, three": lambda: propensity.recapture(first, second, third),
        "recapture, second": lambda: propensity.recapture(second, first, curve="jain"),
        "snapshots": lambda: propensity.snapshots(first, np.maximum(first, second), curve="free"),
        "chao": lambda: propensity.chao(first, second),
        "marginals": lambda: propensity.from_marginals(seen, true.mean(0)),
        "marginals of a sample": lambda: propensity.from_marginals(
            seen, true.mean(0), true_n=90, confidence=0.9
        ),
        "model": lambda: propensity.from_model(chances, seen),
    }


def test_values() -> None:
    for name in models():
        found = models()[name]()
        if isinstance(found, PropensityEstimate):
            lines = [described(found)]
        elif isinstance(found, GroupedPropensities):
            lines = [described(found.estimate) | {"shift": found.shift, "error": found.error,
                                                  "spread": found.spread}]  # fmt: skip
        elif isinstance(found, MaskModel):
            lines = [{"effort": found.row_effort, "unannotated": found.unannotated,
                      "spurious": found.spurious, "value": found.value}]  # fmt: skip
        elif hasattr(found, "values") and not callable(found.values):
            lines = [{"value": found.values, "name": found.name}]
        else:
            lines = [{"value": np.asarray(getattr(found, "value", found))}]
        close = {} if PINNED else {"rel": 1e-3, "abs": 1e-4}
        golden.check(golden.file_name("values", "propensity"), golden.table(lines), name, **close)


def test_hidden_labels() -> None:
    true, _, _ = rows()
    model = MaskModel(np.linspace(0.9, 0.3, L), row_effort=0.3, unannotated=0.1, spurious=0.01)
    lines = [
        {"hidden": data.hide(true, p, seed=4).toarray()} for p in (np.linspace(0.9, 0.3, L), model)
    ]
    golden.check(golden.file_name("values", "propensity"), golden.table(lines), "hide")
