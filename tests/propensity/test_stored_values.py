"""Propensities by every model and estimator, as stored beside this test: values, ends, draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy

from tests.helpers.paths import ROOT
from unmask import data, propensity
from unmask.propensity import MaskModel, PropensityEstimate
from unmask.propensity.audit import GroupedPropensities
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
    "jain": [4.0682477],
    "jain with options": [4.4700355],
    "inverse linear": [0.80667222],
    "constant": [0.75894664],
    "curve": [2.4823975],
    "temper": [3.9008518],
    "clip": [2.8951623],
    "audit": [0.16481849, 0.21579991, 0.074401353, 10.171302, 0.91623815],
    "audit, free": [0.12426815, 0.24298522, -0.012146256, 10.171302, 0.8118413],
    "audit, groups": [0.15165089, 0.25915789, 0.017488285, 22.242951, 1.0039417, -0.00095419611,
        0.040798651, 0.02057256],
    "effort": [0.0, 0.0, 0.0, 7.3812284, 0.0],
    "score": [0.0, 0.0, 0.0, 7.3812284, 0.055245411],
    "from counts": [-0.31380068, -0.45588249, -0.1063958, -30.122849, -1.7759842],
    "recapture": [0.25696801, 0.42338221, 0.007189941, 20.207974, 1.6041525],
    "recapture, either": [-0.054366748, 0.12264276, -0.20459462, 20.207974, -0.32032198],
    "recapture, three": [0.23017559, 0.34047387, 0.060278995, 10.990108, 1.3486423],
    "recapture, second": [0.069812432, 0.16564999, -0.052078706, 38.873972, 0.51675725],
    "snapshots": [0.089396939, 0.27703294, -0.11450958, 29.894968, 0.43532258],
    "chao": [5458.2118, 28773.473],
    "marginals": [0.24310275, 0.38415256, -0.046527342, 22.242951, 0.70747499],
    "marginals of a sample": [0.24310275, 0.33281541, -0.21070182, 22.242951, 1.0889946],
    "model": [-0.18946437, -0.062842218, -0.30137765, 38.873972, -0.91787447],
    "hide": [422.0, 437.0],
}  # fmt: skip
