"""Models of every loss on a few rows, as stored beside this test: weights, iterations, predictions.

Every solver runs with every kind of bias; the rows are few, so that the loops can also be run
without the compiler. That the solutions are minima is tested elsewhere.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers import golden
from unmask import linear
from unmask.linear import LinearModel, Recipe

RNG = np.random.default_rng(21)
N, D, L = 24, 10, 11  # more labels than the lanes of a block
X = sp.csr_array((RNG.random((N, D)) < 0.4) * RNG.integers(1, 9, (N, D)) / 8.0)
Y = (X.toarray() @ RNG.normal(size=(D, L)) + RNG.normal(0, 0.3, (N, L)) > 0.8).astype(int)
Y[0], Y[1] = 1, 0  # no label is constant
P = np.linspace(0.4, 0.95, L).round(2)
STEPS = ("iterations", "unfinished")


def stored(section: str, rows: list[dict[str, Any]], close: float = 2e-3) -> None:
    """Solutions are found in float32, to a tolerance; how soon may differ a little."""
    steps = [{name: each.pop(name) for name in STEPS if name in each} for each in rows]
    file = golden.file_name("values", "models")
    golden.check(file, golden.table(rows), section, rel=close, abs=close)
    golden.check(file, golden.table(steps), f"{section}, iterations", rel=0.1)


def trained(**options: Any) -> tuple[LinearModel, Any]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", linear.UnconvergedWarning)
        return linear.train(X, Y, Recipe(**options), propensity=P)


def row(model: LinearModel, log: Any) -> dict[str, Any]:
    made = model.weights.toarray() if sp.issparse(model.weights) else np.asarray(model.weights)
    return {
        "weights": made, "bias": np.asarray(model.bias), "first": made.flat[1],
        "iterations": log.iterations, "unfinished": len(log.exhausted),
    }  # fmt: skip


@pytest.mark.parametrize("bias", ["regularized", "free", "none"])
@pytest.mark.parametrize(
    ("loss", "reduction"),
    [("squared_hinge", "ova"), ("logistic", "ova"), ("squared_error", "ova"), ("softmax", "pal")],
)
def test_models(loss: str, reduction: str, bias: str) -> None:
    rows = [
        row(*trained(loss=loss, reduction=reduction, bias=bias, correction=correction, C=cost,
                     tol=1e-6))
        for correction, cost in (("vanilla", 0.5), ("bound", 0.05))
        if bias != "free" or correction == "vanilla"  # nothing holds a free bias back
    ]  # fmt: skip
    stored(f"{loss} {bias}", rows, close=0.03 if bias == "free" else 2e-3)


def test_predictions() -> None:
    model, _ = trained(loss="logistic", correction="bound", C=0.2, tol=1e-6)
    by_score = linear.predict_top(model, X[:6], 4)
    others = [
        linear.predict_top(model, X[:6], 9, rank_by=way, propensity=P)
        for way in ("score", "probability/propensity")
    ]
    tops = [by_score, *others]
    rows = [{"labels": top.labels.tolist(), "scores": top.scores} for top in tops]
    rows.append({"labels": "", "scores": linear.scores(model, X[:6])})
    rows.append({"labels": "", "scores": linear.probabilities(model, X[:6])})
    stored("predictions", rows)


def test_pruned_and_stopped_models() -> None:
    few = trained(loss="squared_hinge", prune_below=0.2, tol=1e-6)
    stopped = trained(loss="logistic", C=30.0, max_iter=2)
    stored("options", [row(*few), row(*stopped)])


def test_a_start_is_used() -> None:
    first, _ = trained(loss="squared_hinge", tol=1e-6)
    again, log = linear.train(X, Y, Recipe(tol=1e-6), first=first)
    stored("start", [row(again, log)])
