"""What missing labels cost in variance, in closed form.

For a binary loss with values f₊ and f₋ the unbiased estimate has exactly the variance

    q (1 − q) (f₊ − f₋)² / p²,    q = P(Y = 1) = p q*

against q*(1 − q*)(f₊ − f₋)² on complete labels: the ratio grows like 1/p. Recall is worse: the
estimate of one row of m observed labels lies between −T and T with T growing like a power of 1/p.
And the two generalisation bounds of the paper trade a factor (2 − p)/p on the sample term
(unbiased) for a bias q (1 − p)/p that no sample size removes (vanilla).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from unmask import report
from unmask.weights import normalized_weights
from unmask_studies.runs import STYLES, Row, Study, Unit, group_rows, statement

PREVALENCE = 0.1
CONFIDENCE = 0.05
GRID = {"tiny": 5, "small": 25, "paper": 100}


def units(size: str, seed: int, data: object) -> list[Unit]:
    """One unit per kind of cost; nothing here is random."""
    return [{"cost": cost, "steps": GRID[size]} for cost in COSTS]


def measure(cost: str, steps: int) -> Iterable[Row]:
    """The cost over a grid of propensities."""
    return COSTS[cost](np.geomspace(0.02, 1, steps).round(6))


def _binary(grid: np.ndarray) -> Iterable[Row]:
    for p in grid.tolist():
        q = p * PREVALENCE
        noisy, clean = q * (1 - q) / p**2, PREVALENCE * (1 - PREVALENCE)
        yield {"p": p, "ratio": noisy / clean, "approximation": 1 / (p * (1 - PREVALENCE))}


def _recall(grid: np.ndarray) -> Iterable[Row]:
    for m in (1, 2, 5, 10, 20):
        for p in grid.tolist():
            weights = normalized_weights(np.array([0, m]), np.full(m, 1 / p))
            yield {"p": p, "labels": m, "largest": float(np.abs(weights).max())}


def _generalisation(grid: np.ndarray) -> Iterable[Row]:
    for n in (10**3, 10**4, 10**5, 10**6):
        sample = float(np.sqrt(np.log(2 / CONFIDENCE) / (2 * n)))
        for p in grid.tolist():
            bias = p * PREVALENCE * (1 - p) / p
            yield {
                "p": p,
                "n": n,
                "unbiased": 2 * (2 - p) / p * sample,
                "vanilla": bias + 2 * sample,
            }


COSTS = {"binary variance": _binary, "range of recall": _recall, "generalisation": _generalisation}


def draw(rows: list[Row]) -> list[report.Section]:
    """One chart per cost, and where the two bounds cross."""
    by = {cost: part for (cost,), part in group_rows(rows, "cost").items()}
    binary, recall = by["binary variance"], by["range of recall"]
    low = [row for row in binary if row["p"] < 0.1]
    worst = max(abs(row["ratio"] / row["approximation"] - 1) for row in low)
    claims = [
        statement(
            "The variance grows like 1/p as p falls",
            worst < 0.1,
            f"below p = 0.1 the exact ratio is within {worst:.1%} of 1/(p (1 − q*))",
        )
    ]
    return [
        report.Section(
            "Variance of a binary loss",
            [_binary_chart(binary), report.Verdicts(claims)],
        ),
        report.Section("How far the unbiased recall of one row can lie", [_recall_chart(recall)]),
        report.Section(
            "Generalisation bounds",
            [
                report.Panels(
                    [
                        _bound_chart(n, part)
                        for (n,), part in group_rows(by["generalisation"], "n").items()
                    ],
                    share_y=True,
                )
            ],
        ),
    ]


def _binary_chart(rows: list[Row]) -> report.Chart:
    x = [row["p"] for row in rows]
    return report.Chart(
        "lines",
        [
            report.Series("exact", x, [row["ratio"] for row in rows]),
            report.Series("1/(p (1 − q*))", x, [row["approximation"] for row in rows]),
        ],
        title=f"Variance on observed labels relative to complete ones (q* = {PREVALENCE:g})",
        x=report.Axis("propensity", log=True),
        y=report.Axis("ratio", log=True),
    )


def _recall_chart(rows: list[Row]) -> report.Chart:
    return report.Chart(
        "lines",
        [
            report.Series(f"{m} labels", [r["p"] for r in part], [r["largest"] for r in part])
            for (m,), part in group_rows(rows, "labels").items()
        ],
        title="Largest weight of one hit, by number of observed labels",
        x=report.Axis("propensity", log=True),
        y=report.Axis("|T|", log=True),
    )


def _bound_chart(n: int, rows: list[Row]) -> report.Chart:
    x = [row["p"] for row in rows]
    return report.Chart(
        "lines",
        [
            report.Series(name, x, [row[name] for row in rows], style=STYLES[name])
            for name in ("vanilla", "unbiased")
        ],
        title=f"n = {n:,}",
        x=report.Axis("propensity", log=True),
        y=report.Axis("excess over the best risk", log=True),
    )


STUDY = Study("variance", "what missing labels cost in variance", units, measure, draw)
