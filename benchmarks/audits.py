"""Measured estimates from an audit against plain evaluation of the same metrics, in one process.

    python benchmarks/audits.py [--rows 200000] [--labels 2000] [--json FILE]

Rows have 4 labels on average, of which half are observed; predictions are 10 labels of each row.
For every design of an audit it prints how many plain evaluations the measured table costs: the
same six metrics, from the same predictions. Best of several repetitions each, taken in turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from metrics import contest
from results import add_json_option, write_json
from unmask import audit, evaluate
from unmask.arrays import TopK, entry_rows

METRICS = ["P@1", "P@5", "R@5", "nDCG@5", "F1@5", "hit@5"]
OF_PAIRS = ["P@1", "P@3", "P@5", "DCG@5", "micro-P@5", "micro-R@5"]
"""The metrics that pairs over all rows add up to."""
PLACES, AVERAGE = 10, 4.0


def case(n: int, width: int, seed: int = 0) -> tuple[TopK, sp.csr_array, sp.csr_array]:
    """Predictions, observed labels, and the true labels of all rows."""
    rng = np.random.default_rng(seed)
    sizes = 1 + rng.poisson(AVERAGE - 1, n)
    indices = (width * rng.random(sizes.sum()) ** 3).astype(np.int32)
    data = np.ones(indices.size, dtype=np.float32)
    true = sp.csr_array((data, indices, np.r_[0, np.cumsum(sizes)]), shape=(n, width))
    true.sum_duplicates()
    true.data[:] = 1
    observed = true.copy()
    observed.data[rng.random(true.nnz) < 0.5] = 0
    observed.eliminate_zeros()
    drawn = rng.integers(1 << 30, size=(n, PLACES))
    own = true.indices[true.indptr[:-1, None] + drawn % np.diff(true.indptr)[:, None]]
    any_label = (width * rng.random((n, PLACES))).astype(np.int32)
    right = rng.random((n, PLACES)) < np.linspace(0.6, 0.1, PLACES)
    listed = np.where(right, own, any_label)
    order = np.sort(listed, axis=1)
    repeated = (np.diff(order, axis=1) == 0).any(axis=1)
    listed[repeated] = np.arange(PLACES)
    scores = -np.sort(-(rng.random((n, PLACES)) ** 2), axis=1)
    return TopK(listed, scores.astype(np.float32)), observed, true


def judged_by(
    design: str, top: TopK, observed: sp.csr_array, true: sp.csr_array, metrics: list[str]
) -> audit.Judgements:
    """The answers to a plan: 500 rows, or 2,000 pairs."""
    if design in ("simple", "stratified"):
        plan = audit.plan(top, observed, budget=500, unit="rows", design=design, expect=False)
        return audit.from_rows(plan, true[plan.rows])
    plan = audit.plan(
        top, observed, budget=2000, unit="pairs", metrics=metrics, expect=False,
        design=None if design == "pairs" else design,
    )  # fmt: skip
    keys = entry_rows(true) * true.shape[1] + true.indices
    return audit.from_pairs(plan, np.isin(plan.rows * true.shape[1] + plan.labels, keys) * 1.0)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=200_000)
    options.add_argument("--labels", type=int, default=2_000)
    options.add_argument("--repetitions", type=int, default=3)
    options.add_argument("--designs", default="simple,stratified,two-phase,pairs")
    add_json_option(options)
    chosen = options.parse_args()
    top, observed, true = case(chosen.rows, chosen.labels)
    print(f"{chosen.rows:,} rows, {chosen.labels:,} labels, six metrics")
    numbers = {}
    for design in chosen.designs.split(","):
        metrics = OF_PAIRS if design == "pairs" else METRICS
        judged = judged_by(design, top, observed, true, metrics)
        runs: dict[str, Callable[[], Any]] = {
            "plain": lambda m=metrics: evaluate(top, observed, metrics=m),
            "measured": lambda m=metrics, j=judged: evaluate(top, observed, metrics=m, audit=j),
        }
        for run in runs.values():
            run()
        best = contest(runs, chosen.repetitions)
        ratio = best["measured"] / best["plain"]
        print(f"{design:10}  plain {best['plain']:.3f} s  measured {best['measured']:.3f} s  "
              f"ratio {ratio:.2f}")  # fmt: skip
        numbers[f"{design} audit, evaluate with it / without"] = ratio
    write_json(chosen.json, numbers)


if __name__ == "__main__":
    main()
