"""Every metric by every estimator, on a few rows, has the value that is stored beside this test.

What the values mean is proven elsewhere, by enumeration; here each of them counts, with its
interval and verdict. The rows are few, so that loops can also be run without the compiler.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tests.helpers import golden
from unmask import LabelSets, TopK, compare, evaluate, thresholds
from unmask.metrics import (
    ESTIMATORS,
    METRICS,
    Table,
    contributions,
    evaluate_shards,
    jain_around,
    label_counts,
    powers,
    ranking,
    sensitivity,
    supported,
)

N, L, K = 15, 45, 12


def made() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, labels and propensities: a row without labels, one with 32, one that is short."""
    rng = np.random.default_rng(11)
    chance = np.clip(rng.beta(0.5, 6, L), 0.03, 0.6)
    labels = rng.random((N, L)) < chance
    labels[0] = False
    labels[1] = rng.random(L) < 0.7
    scores = (labels + rng.normal(0, 0.7, (N, L))).astype(np.float32)
    scores[2, 4:] = -np.inf
    return scores, labels.astype(int), rng.uniform(0.3, 1.0, L).round(2)


SCORES, LABELS, P = made()
TOP = TopK.from_scores(np.where(SCORES < -1.2, -np.inf, SCORES), K)
PLACED = (
    "P", "R", "F1", "Jaccard", "hit", "DCG", "nDCG", "R-precision", "MRR", "Kendall-tau", "PSP",
    "PSDCG", "PSnDCG", "macro-P", "macro-R", "macro-F1", "coverage",
)  # fmt: skip
OF_SETS = (
    "sample-P", "sample-R", "sample-F1", "sample-F0.5", "sample-F2", "sample-Jaccard",
    "subset-accuracy", "Hamming", "micro-P", "micro-R", "micro-F1", "micro-F0.5", "micro-F2",
    "micro-Jaccard",
)  # fmt: skip
OF_SCORES = (
    "mAP", "macro-AUC", "Fmax", "ECE", "sample-AP", "LRAP", "coverage-error", "one-error", "Brier",
    "log-loss",
)  # fmt: skip


def lines(table: Table) -> Iterator[dict[str, Any]]:
    for e in table:
        yield {
            "metric": e.metric, "estimator": e.estimator, "value": e.value,
            "error": e.standard_error, "low": e.interval[0], "high": e.interval[1],
            "effective": e.effective_sample_size, "largest": e.largest_contribution,
            "rows": e.rows, "level": e.verdict.level, "reason": e.verdict.reason,
        }  # fmt: skip


def stored(name: str, text: str) -> None:
    golden.check(golden.file_name("values", "metrics"), text, name)


def names_for(estimator: str, names: Sequence[str], *places: int) -> list[str]:
    """The metrics that have this estimator, at these places or of the whole list."""
    having = [name for name in names if estimator in supported(name)]
    short = [name for name in having if not METRICS[name].whole_list]
    return [f"{name}@{k}" for name in short for k in places] + [
        name for name in having if METRICS[name].whole_list
    ]


@pytest.mark.parametrize(
    "estimator",
    ["vanilla", "unbiased", "bound", "clipped", "self_normalized", "subsampled"],
)
def test_the_share_of_every_row(estimator: str) -> None:
    names = [name for name in PLACED if METRICS[name].over == "rows"]
    shares = contributions(
        TOP, LABELS, P, metrics=names_for(estimator, names, 1, 4, K), estimators=[estimator]
    )
    rows = [
        {"metric": metric, "first": values[1], "last": values[-1], "all": values}
        for (metric, _), values in shares.items()
    ]
    stored(f"rows-{estimator}", golden.table(rows))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_listed_metric(estimator: str) -> None:
    metrics = names_for(estimator, PLACED, 2, 6)
    table = evaluate(TOP, LABELS, P, metrics=metrics, estimators=[estimator])
    stored(f"evaluate-{estimator}", golden.table(lines(table)))


def test_every_metric_of_sets() -> None:
    sets = LabelSets.from_scores(SCORES, 0.6)
    stored("sets", golden.table(lines(evaluate(sets, LABELS, P, metrics=OF_SETS))))


def test_every_metric_of_scores() -> None:
    chances = 1 / (1 + np.exp(-np.maximum(SCORES, -9).round(1)))  # with equal scores
    stored("scores", golden.table(lines(evaluate(chances, LABELS, P, metrics=OF_SCORES))))


def test_shards_and_options() -> None:
    parts = [(TopK(TOP.labels[s], TOP.scores[s]), LABELS[s]) for s in (slice(0, 6), slice(6, N))]
    shards = evaluate_shards(parts, P, metrics=["P@3", "PSnDCG@3"], confidence=0.8)
    wide = evaluate(TOP, LABELS, P, metrics=["R@3"], tau=0.3, clip=1.5, confidence=0.99,
                    estimators=["tempered", "clipped"])  # fmt: skip
    stored("options", golden.table([*lines(shards), *lines(wide)]))


def test_two_systems() -> None:
    other = TopK.from_scores(-SCORES.clip(-9), K)
    tables = compare({"first": TOP, "second": other}, LABELS, P, metrics=["R@3", "P@5"],
                     replicates=60, seed=4)  # fmt: skip
    rows = [{"table": name, **line} for name in tables for line in lines(tables[name])]
    stored("compare", golden.table(rows))
    order = ranking({"a": TOP, "b": other}, LABELS, powers(P), metric="R@3")
    models = [*powers(P).items(), *jain_around(LABELS).items()]
    moved = sensitivity(TOP, LABELS, dict(models), metrics=["P@3"])
    rows = [{"table": name, **line} for name in moved for line in lines(moved[name])]
    stored("sensitivity", order.statement + "\n" + golden.table(rows))


def test_counts_of_labels() -> None:
    counts = label_counts(TOP, LABELS, P, k=5, train=LABELS[:9]).columns()
    stored("labels", golden.table({"column": name, "values": v} for name, v in counts.items()))


@pytest.mark.parametrize("metric", ["micro-F1", "macro-F1", "cost"])
def test_thresholds(metric: str) -> None:
    scores = np.maximum(SCORES, -9)[:, :12].astype(float)
    cut = thresholds.fit(scores, LABELS[:, :12], P[:12], metric=metric, least=2)
    fitted = {"value": cut.value, "values": cut.values, "own": cut.own}
    stored(f"thresholds-{metric}", golden.table([fitted]))


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_calibration(method: Any) -> None:
    scores = np.maximum(SCORES, -9)[:, :12].astype(float)
    chances = thresholds.calibrate(scores, LABELS[:, :12], P[:12], method=method).apply(scores)
    stored(f"calibration-{method}", golden.table({"row": i, "values": v}
                                                 for i, v in enumerate(chances)))  # fmt: skip
