"""Evaluation of test sets that come in shards, each where it is, merged exactly.

A shard is a pair (predictions, labels) of some rows: a `TopK` or scores with a label matrix, or the
paths of both files, which are then read by whoever evaluates them. Workers return the sums of an
`Evaluator`, whose size does not depend on the number of rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from copy import copy
from dataclasses import replace
from itertools import accumulate
from typing import Any

from numpy.typing import ArrayLike

from unmask import data, parallel, predictions
from unmask._messages import named_options
from unmask._typing import Progress, PropensityLike
from unmask.arrays import checks
from unmask.metrics import propensity_uncertainty
from unmask.metrics.evaluator import Evaluator
from unmask.metrics.judgement import judge_run
from unmask.metrics.request import Request
from unmask.metrics.table import Table
from unmask.propensity import PropensityEstimate

Shard = tuple[Any, Any]


@named_options
def evaluate_shards(
    shards: Sequence[Shard],
    propensity: PropensityLike | PropensityEstimate | None = None,
    *,
    metrics: Sequence[str],
    estimators: Sequence[str] = ("vanilla",),
    backend: Any = None,
    progress: Progress | None = None,
    confidence: float = 0.95,
    interval: str = "normal",
    replicates: int = 1000,
    seed: int = 0,
    tau: float | str = "auto",
    clip: float = 10.0,
    fraction: float = 0.01,
    information: ArrayLike | None = None,
    complete: bool = False,
    draws: int = 100,
) -> Table:
    """Return the table that `evaluate` gives for all rows at once, to the last bit.

    Parameters
    ----------
    shards : sequence of (predictions, labels)
        A `TopK` or scores with a label matrix, or the paths of both files. Paths must lead to the
        files where shards are evaluated; where they do not, give the shards themselves.
    propensity : (L,) floats in (0, 1] or PropensityEstimate, optional
        As in `evaluate`.
    metrics : sequence of str
        Such as "R@5".
    estimators : sequence of str, default ("vanilla",)
    backend : optional
        Where shards are evaluated (`unmask.parallel.connect`); by default here.
    progress : function of (done, total), optional
        Called after every shard.
    confidence, interval, replicates, seed, tau, clip, fraction, information, complete
        As in `Evaluator`.
    draws : int, default 100
        How many vectors are drawn from an estimate of propensities.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        As `evaluate`, for any shard; if a file is damaged; or if the backend is none.
    OSError
        If a file cannot be read, or no scheduler or worker answers.

    Examples
    --------
    >>> from unmask import TopK
    >>> first = TopK([[0]], [[1.0]]), [[1, 0]]
    >>> second = TopK([[0]], [[1.0]]), [[0, 1]]
    >>> evaluate_shards([first, second], metrics=["P@1"])["P@1", "vanilla"].value
    0.5
    """
    request = Request(
        metrics, estimators, confidence, interval, replicates, seed, tau, clip, fraction,
        information, complete, draws,
    ).checked(propensity)  # fmt: skip
    quick = replace(request, interval="normal")
    with parallel.connect(backend) as runner:

        def evaluation(
            p: PropensityLike | None, drawn: propensity_uncertainty.Drawn
        ) -> list[dict[str, Table]]:
            evaluators = [
                Evaluator.asked(request, p),
                *(Evaluator.asked(quick, vector) for vector in drawn),
            ]
            first_rows = _first_rows(runner, shards, request)
            tasks = list(zip(shards, first_rows, strict=True))
            merged = _merged(runner, tasks, evaluators, progress)
            return [{"": each.unjudged()} for each in merged]

        tables = propensity_uncertainty.with_uncertainty(
            evaluation,
            propensity,
            draws=draws,
            seed=seed,
            confidence=confidence,
            interval=interval,
        )
        return judge_run(tables[""])


def _merged(
    runner: parallel.Runner,
    tasks: list[tuple[Shard, int]],
    evaluators: list[Evaluator],
    progress: Progress | None,
) -> list[Evaluator]:
    """The evaluators (without rows) with the sums of all shards, added in the order of shards."""
    by_shard: dict[int, list[Evaluator]] = {}
    with closing(runner.run(_evaluated, tasks, evaluators)) as parts:
        for index, part in parts:
            by_shard[index] = part
            if progress is not None:
                progress(len(by_shard), len(tasks))
    for index in sorted(by_shard):
        for whole, sums in zip(evaluators, by_shard[index], strict=True):
            whole.merge(sums)
    return evaluators


def _first_rows(
    runner: parallel.Runner, shards: Sequence[Shard], request: Request
) -> Sequence[int]:
    """The number of the first row of each shard, where anything depends on it."""
    if request.interval == "normal" and "subsampled" not in request.estimators:
        return [0] * len(shards)
    with closing(runner.run(_rows_of, shards)) as counted:
        counts = dict(counted)
    sizes = [counts[index] for index in range(len(shards))]
    return list(accumulate(sizes, initial=0))[:-1]


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
    return top, checks.labels(observed)
