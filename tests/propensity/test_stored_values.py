"""Propensities by every model and estimator, as stored beside this test: values, ends, draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy

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


def numbers(made: Any) -> list[float]:
    """Sums of everything that a result says in numbers, and of five draws."""
    if isinstance(made, GroupedPropensities):
        return [*numbers(made.estimate), made.shift.sum(), made.error.sum(), made.spread]
    if isinstance(made, PropensityEstimate):
        drawn = made.uncertainty.sample(np.random.default_rng(5), 5)
        parts = (made.value, made.low, made.high, made.evidence, drawn)
        return [float((part * np.cos(np.arange(part.shape[-1]))).sum()) for part in parts]
    if isinstance(made, MaskModel):
        slope = 0.0 if made.score_slope is None else made.score_slope.slope
        return [made.row_effort, made.unannotated, made.spurious, made.value.sum(), slope]
    return [float((np.asarray(part) ** 1.5).sum()) for part in np.atleast_2d(made)]


def test_numbers_are_those_stored() -> None:
    true, _, _ = rows()
    mask = MaskModel(np.linspace(0.9, 0.3, L), row_effort=0.3, unannotated=0.1, spurious=0.01)
    made = {name: numbers(model()) for name, model in models().items()}
    made["hide"] = [float(data.hide(true, p, seed=4).sum()) for p in (mask.value, mask)]
    assert made.keys() == STORED.keys()
    for name, expected in STORED.items():
        close = 1e-6 if PINNED else 1e-3
        assert made[name] == pytest.approx(expected, rel=close, abs=close), name


STORED = {
    "jain": [4.068248],
    "jain with options": [4.470036],
    "inverse linear": [0.8066722],
    "constant": [0.7589466],
    "curve": [2.482398],
    "temper": [3.900852],
    "clip": [2.895162],
    "audit": [0.1648185, 0.2157999, 0.07440135, 10.1713, 0.9162382],
    "audit, free": [0.1242681, 0.2429852, -0.01214627, 10.1713, 0.8118413],
    "audit, groups": [0.151651, 0.259158, 0.01748833, 22.24295, 1.003942, -0.0009541944,
        0.04079865, 0.02057256],
    "effort": [0.0, 0.0, 0.0, 7.381228, 0.0],
    "score": [0.0, 0.0, 0.0, 7.381228, 0.05524541],
    "from counts": [-0.3138003, -0.4558815, -0.1063961, -30.12285, -1.775983],
    "recapture": [0.256968, 0.4233822, 0.007189935, 20.20797, 1.604153],
    "recapture, either": [-0.05436672, 0.122643, -0.2045946, 20.20797, -0.3203219],
    "recapture, three": [0.2301758, 0.3404739, 0.0602793, 10.99011, 1.348643],
    "recapture, second": [0.06981243, 0.16565, -0.05207871, 38.87397, 0.5167572],
    "snapshots": [0.08939699, 0.2770329, -0.1145095, 29.89497, 0.4353228],
    "chao": [5458.212, 28773.47],
    "marginals": [0.2431027, 0.3841526, -0.04652734, 22.24295, 0.707475],
    "marginals of a sample": [0.2431027, 0.3328154, -0.2107018, 22.24295, 1.088995],
    "model": [-0.1894646, -0.06284203, -0.3013782, 38.87397, -0.9178756],
    "hide": [422.0, 437.0],
}  # fmt: skip
