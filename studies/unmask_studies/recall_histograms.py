"""How the recall of single rows is distributed (the paper's histograms of per-example recall).

The unbiased recall of a row may lie far outside [0, 1]; its mean over rows is then carried by a few
of them. Bars are 95 % bootstrap intervals of the number of rows in a bin.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from unmask import propensity, report
from unmask.metrics import contributions
from unmask_studies import models
from unmask_studies.runs import STYLES, DataSets, Row, Study, Unit, group_rows, statement

DATA_SET = "debtags-bookworm"
EDGES = np.linspace(-3.1, 4.1, 37)
"""Bins around −3, −2.8 … 4, so that 0 and 1 are in the middle of one; the outermost are open."""
REPLICATES = 500


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """One unit: the data set with the heaviest tail, or planted data."""
    real = data if size != "tiny" else None
    folder = real.path(DATA_SET) if real and DATA_SET in real.names else None
    return [{"folder": folder, "seed": seed}]


def measure(folder: Path | None, seed: int) -> Iterable[Row]:
    """Counts per bin, for unbiased and vanilla recall at 1 and 5."""
    rows = models.split_of(folder) if folder else models.planted(2000, seed)
    p = propensity.jain(rows.train_labels)
    top = models.best(rows, rows.train_labels, 5, correction="bound", propensity=p)
    by_metric = contributions(
        top, rows.test_labels, p, metrics=["R@1", "R@5"], estimators=["unbiased", "vanilla"]
    )
    rng = np.random.default_rng(seed)
    for (metric, estimator), values in by_metric.items():
        counts = np.histogram(np.clip(values, EDGES[0], EDGES[-1]), EDGES)[0]
        drawn = rng.multinomial(values.size, counts / values.size, size=REPLICATES)
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        yield {
            "metric": metric,
            "estimator": estimator,
            "counts": counts,
            "low": low,
            "high": high,
            "mean": values.mean(),
            "outside": float(((values < 0) | (values > 1)).mean()),
            "smallest": values.min(),
            "largest": values.max(),
        }


def draw(rows: list[Row]) -> list[report.Section]:
    """One panel per k, and how far the values reach."""
    panels = [
        report.Chart(
            "steps",
            [
                report.Series(
                    r["estimator"],
                    EDGES.tolist(),
                    *(r[name] for name in ("counts", "low", "high")),
                    style=STYLES.get(r["estimator"]),
                )
                for r in part
            ],
            title=metric,
            x=f"{metric} of one row",
            y="rows",
            rules=[report.Rule(r["estimator"], r["mean"], axis="x") for r in part],
        )
        for (metric,), part in group_rows(rows, "metric").items()
    ]
    claims = [
        statement(
            f"Unbiased {r['metric']} of single rows leaves [0, 1]",
            r["outside"] > 0,
            f"{r['outside']:.1%} of the rows, from {r['smallest']:.3g} to {r['largest']:.3g}; "
            f"their mean is {r['mean']:.3g}",
        )
        for r in rows
        if r["estimator"] == "unbiased"
    ]
    return [
        report.Section(
            "Recall of single rows",
            [
                report.Panels(panels, caption="Dashed: means, where they lie on the axis."),
                report.Verdicts(claims),
            ],
        )
    ]


STUDY = Study("recall-histograms", "the distribution of per-row recall", units, measure, draw)
