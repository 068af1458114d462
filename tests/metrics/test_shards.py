"""Shards give what one call gives."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.evaluations import Spread, part, rows_of, same
from unmask import data, predictions
from unmask.metrics import (
    Evaluator,
    evaluate,
    evaluate_shards,
)
from unmask.metrics.claims import (
    Reason,
)
from unmask.predictions import TopK
from unmask.propensity import PropensityEstimate


def sharded(n: int, *cuts: int) -> tuple[list[Any], TopK, np.ndarray, np.ndarray]:
    top, labels, propensity = rows_of(n)
    pairs = list(itertools.pairwise((0, *cuts, n)))
    return [(part(top, slice(a, b)), labels[a:b]) for a, b in pairs], top, labels, propensity


@pytest.mark.parametrize(
    "settings",
    [
        {"metrics": ["P@1", "PSP@3", "macro-F1@3"], "estimators": ["vanilla", "unbiased"]},
        {"metrics": ["R@3"], "interval": "bca", "replicates": 50},
        {"metrics": ["R@3"], "estimators": ["subsampled"], "seed": 3},
    ],
)
def test_shards_are_what_one_call_is(settings: dict[str, Any]) -> None:
    shards, top, labels, propensity = sharded(80, 13, 13, 60)
    if "subsampled" in settings.get("estimators", ()):  # rows long enough to be thinned
        labels = np.ones((80, 30), int)
        propensity = np.full(30, 0.95)
        shards = [(t, labels[: t.labels.shape[0]]) for t, _ in shards]
    calls: list[tuple[int, int]] = []
    found = evaluate_shards(
        shards, propensity, progress=lambda *done: calls.append(done), **settings
    )
    assert same(found, Evaluator(propensity, **settings).update(top, labels).compute())
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_shards_are_read_where_they_are(tmp_path: Path) -> None:
    shards, top, labels, propensity = sharded(30, 11)
    paths: list[Any] = []
    for at, (predicted, seen) in enumerate(shards):
        predictions.write(tmp_path / f"{at}.top", predicted)
        whole = data.Dataset(features=sp.csr_array(np.ones((len(seen), 2))), labels=seen)
        data.write(tmp_path / f"{at}.txt", whole)
        paths.append((str(tmp_path / f"{at}.top"), tmp_path / f"{at}.txt"))
    asked: dict[str, Any] = {"metrics": ["R@3"], "estimators": ["unbiased"], "interval": "bca"}
    expected = evaluate(top, labels, propensity, **asked)
    assert same(evaluate_shards(paths, propensity, **asked), expected)
    assert same(evaluate_shards([paths[0], shards[1]], propensity, **asked), expected)


@pytest.mark.parametrize("interval", ["normal", "percentile"])
def test_shards_share_the_doubts_about_propensities(interval: str) -> None:
    """Errors widen by the same draws, and what needs independence says so, as in one call."""
    shards, top, labels, p = sharded(60, 20)
    estimate = PropensityEstimate(p, p, p, 0.95, "test", p, Spread(p), effect=3.0)
    asked: dict[str, Any] = {
        "metrics": ["R@3", "P@1"], "estimators": ["vanilla", "unbiased"], "interval": interval,
        "confidence": 0.8, "seed": 5, "draws": 4,
    } | ({} if interval == "normal" else {"replicates": 50})  # fmt: skip
    expected = evaluate(top, labels, estimate, **asked)
    assert expected["R@3", "unbiased"].verdict.reason is Reason.DEPENDENT_LABELS
    assert same(evaluate_shards(shards, estimate, **asked), expected)
    plain: dict[str, Any] = {"metrics": ["P@1"], "estimators": ["unbiased"], "draws": 3}
    assert same(
        evaluate_shards(shards, estimate, **plain), evaluate(top, labels, estimate, **plain)
    )
