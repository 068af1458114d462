"""Evaluation of test sets that come in shards, each where it is, merged exactly.

A shard is a pair (predictions, labels) of some rows: a `TopK` or scores with a label matrix, or the
paths of both files, which are then read by whoever evaluates them. Workers return the sums of an
`Evaluator`, whose size does not depend on the number of rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from copy import copy
from typing import Any

import numpy as np

from unmask import _validation, data, parallel, predictions
from unmask.metrics import propensity_uncertainty
from unmask.metrics.evaluator import Evaluator
from unmask.metrics.table import Table
from unmask.propensity import PropensityEstimate

Shard = tuple[Any, Any]


def evaluate_shards(
    shards: Sequence[Shard],
    propensity: Any = None,
    *,
    backend: Any = None,
    progress: Callable[[int, int], None] | None = None,
    draws: int = propensity_uncertainty.DRAWS,
    **settings: Any,
) -> Table:
    """The table that `evaluate` gives for all rows at once, to the last bit.

    `settings` are those of an `Evaluator`, `metrics` among them; `backend` is where shards are
    evaluated (`unmask.parallel`). Paths must lead to the files there; where they do not, give the
    shards themselves.

    >>> from unmask import TopK
    >>> first = TopK([[0]], [[1.0]]), [[1, 0]]
    >>> second = TopK([[0]], [[1.0]]), [[0, 1]]
    >>> evaluate_shards([first, second], metrics=["P@1"])["P@1", "vanilla"].value
    0.5
    """
    evaluators = _evaluators(propensity, draws, settings)
    found: dict[int, list[Evaluator]] = {}
    with parallel.connect(backend) as runner:
        tasks = list(zip(shards, _first_rows(runner, shards, settings), strict=True))
        with closing(runner.run(_evaluated, tasks, evaluators)) as parts:
            for at, part in parts:
                found[at] = part
                if progress is not None:
                    progress(len(found), len(shards))
    for at in sorted(found):
        for whole, sums in zip(evaluators, found[at], strict=True):
            whole.merge(sums)
    table, *drawn = (whole.compute() for whole in evaluators)
    if not drawn:
        return table
    kept = {"confidence": settings.get("confidence", 0.95)}
    wider = propensity_uncertainty.widen(
        table, drawn, interval=settings.get("interval", "normal"), **kept
    )
    return propensity_uncertainty.doubted(wider, propensity.effect)


def _evaluators(propensity: Any, draws: int, settings: dict[str, Any]) -> list[Evaluator]:
    """One without rows; for estimated propensities, one more for each drawn vector."""
    if not isinstance(propensity, PropensityEstimate):
        return [Evaluator(propensity, **settings)]
    vectors = propensity.draw(
        seed=settings.get("seed", 0), size=_validation.positive_int(draws, "draws")
    )
    plain = {name: value for name, value in settings.items() if name != "interval"}
    return [Evaluator(propensity.value, **settings), *(Evaluator(p, **plain) for p in vectors)]


def _first_rows(
    runner: parallel.Runner, shards: Sequence[Shard], settings: dict[str, Any]
) -> Sequence[int]:
    """The number of the first row of each shard, where anything depends on it."""
    by_number = "subsampled" in settings.get("estimators", ())
    if settings.get("interval", "normal") == "normal" and not by_number:
        return [0] * len(shards)
    with closing(runner.run(_rows_of, shards)) as counted:
        counts = dict(counted)
    return np.cumsum([0, *(counts[at] for at in range(len(shards) - 1))]).tolist()  # type: ignore[no-any-return]


def _rows_of(_: None, shard: Shard) -> int:
    return int(_read(shard)[1].shape[0])


def _evaluated(evaluators: list[Evaluator], task: tuple[Shard, int]) -> list[Evaluator]:
    shard, first_row = task
    top, labels = _read(shard)
    return [copy(each).update(top, labels, first_row=first_row) for each in evaluators]


def _read(shard: Shard) -> tuple[Any, Any]:
    top, labels = shard
    if isinstance(top, str | os.PathLike):
        top = predictions.read(top)
    observed = data.read(labels).labels if isinstance(labels, str | os.PathLike) else labels
    if observed is None:
        raise ValueError(f"{labels} holds no labels; name a file that does.")
    return top, _validation.labels(observed)
